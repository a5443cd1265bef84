//! pool.c: the stack of abandoned pages (POOL-1 to POOL-5), and why a tag in its head is enough against ABA.
//!
//! Invariants: a page is popped once for each push, and every page that was pushed is found, also in the rest of a
//! drain; the plain fields of pages.rs show an owner too many. A page that became empty in there goes at the next drain.
//! There is one size class: that a page of the rest may be of another one is a test of the library.

use crate::pages::*;
use crate::{catches, holds, holds_within, join, order, spawn, Atomic};
use loom::sync::atomic::Ordering::*;
use std::sync::Arc;

const ADDRESS_MASK: usize = 0xff;
const TAG_ONE: usize = 0x100;
/// Pages that are looked at in a part of a drain.
const PART: usize = 1;

fn pool_page(head: usize) -> Option<usize> {
    (head & ADDRESS_MASK).checked_sub(1)
}

impl World {
    fn pool_word(&self, page: usize, tag: usize) -> usize {
        page | if self.fault == Fault::NoTag { 0 } else { tag & !ADDRESS_MASK }
    }

    pub fn pool_push(&self, i: usize) {
        let page = &self.pages[i];
        let push = order(self.fault == Fault::PoolPushRelaxed, Release);
        //@ src/core/pages/pool.c mi_pool_push mi_atomic_load_relaxed head
        let mut head = self.head.load(Relaxed);
        loop {
            //@ src/core/pages/pool.c mi_pool_push mi_atomic_store_relaxed pool_next
            page.pool_next.store(head & ADDRESS_MASK, Relaxed);
            let desired = self.pool_word(i + 1, head);
            //@ src/core/pages/pool.c mi_pool_push mi_atomic_cas_weak_release head
            if self.head.cas(&mut head, desired, push) {
                return;
            }
        }
    }

    fn pool_is_empty(pool: &Atomic) -> bool {
        //@ src/core/pages/pool.c mi_pool_is_empty mi_atomic_load_relaxed head
        pool_page(pool.load(Relaxed)).is_none()
    }

    fn pool_pop_any(&self, pool: &Atomic) -> Option<usize> {
        let first = order(self.fault == Fault::PopRelaxed, Acquire);
        let later = order(self.fault == Fault::PopRelaxed, AcqRel);
        //@ src/core/pages/pool.c mi_pool_pop_any mi_atomic_load_acquire head
        let mut head = pool.load(first);
        while let Some(i) = pool_page(head) {
            //@ src/core/pages/pool.c mi_pool_pop_any mi_atomic_load_relaxed pool_next
            let next = self.pages[i].pool_next.load(Relaxed);
            let desired = self.pool_word(next, head + TAG_ONE);
            //@ src/core/pages/pool.c mi_pool_pop_any mi_atomic_cas_weak_acq_rel head
            if pool.cas(&mut head, desired, later) {
                return Some(i);
            }
        }
        None
    }

    pub fn pool_pop_class(&self) -> Option<usize> {
        let page = self.pool_pop_any(&self.head);
        //@ src/core/pages/pool.c mi_pool_rest_has mi_atomic_load_relaxed rest_class left out: there is one class
        if page.is_some() || World::pool_is_empty(&self.rest) {
            return page;
        }
        self.pool_pop_any(&self.rest)
    }

    pub fn pool_pop(&self) -> Option<usize> {
        while let Some(i) = self.pool_pop_class() {
            if !self.remote_claim_popped(i) {
                continue;
            }
            //@ src/core/pages/pool.c mi_pool_pop mi_atomic_sub_relaxed empty_count left out: of one page
            if self.pages[i].own(|plain| plain.local_free) != 0 || self.pages[i].thread_free.load(Relaxed) > BITS {
                return Some(i);
            }
            self.remote_give_up(i);
        }
        None
    }

    fn pool_take_all(&self, pool: &Atomic) -> Option<usize> {
        let take = order(self.fault == Fault::PopRelaxed, AcqRel);
        //@ src/core/pages/pool.c mi_pool_take_all mi_atomic_load_relaxed head
        let mut head = pool.load(Relaxed);
        loop {
            pool_page(head)?;
            let desired = self.pool_word(0, head + TAG_ONE);
            //@ src/core/pages/pool.c mi_pool_take_all mi_atomic_cas_weak_acq_rel head
            if pool.cas(&mut head, desired, take) {
                return pool_page(head);
            }
        }
    }

    fn pool_look_at(&self, i: usize) {
        if self.remote_claim_popped(i) {
            self.remote_give_up(i);
        }
    }

    fn pool_drain(&self, pool: &Atomic) {
        let mut page = self.pool_take_all(pool);
        while let Some(i) = page {
            //@ src/core/pages/pool.c mi_pool_drain mi_atomic_load_relaxed pool_next
            page = pool_page(self.pages[i].pool_next.load(Relaxed));
            self.pool_look_at(i);
        }
    }

    fn pool_next_due(&self) -> bool {
        //@ src/core/pages/pool.c mi_pool_next_due mi_atomic_load_relaxed due
        let due = self.due.load(Relaxed);
        if due == 0 {
            return false;
        }
        //@ src/core/pages/pool.c mi_pool_next_due mi_atomic_and_relaxed due
        self.due.and(!(due & due.wrapping_neg()), Relaxed);
        true
    }

    fn pool_fill_rest(&self) -> bool {
        let enter = order(self.fault == Fault::FillRelaxed, Acquire);
        let leave = order(self.fault == Fault::FillRelaxed, Release);
        let publish = order(self.fault == Fault::RestRelaxed, Release);
        //@ src/core/pages/pool.c mi_pool_fill_rest mi_atomic_swap_acquire is_filling
        if self.is_filling.swap(1, enter) != 0 && self.fault != Fault::FillsAtOnce {
            return false;
        }
        let mut is_filled = !World::pool_is_empty(&self.rest);
        while !is_filled && self.pool_next_due() {
            if let Some(i) = self.pool_take_all(&self.head) {
                //@ src/core/pages/pool.c mi_pool_fill_rest mi_atomic_store_relaxed rest_class left out: there is one class
                //@ src/core/pages/pool.c mi_pool_fill_rest mi_atomic_load_relaxed head
                let tag = self.rest.load(Relaxed);
                //@ src/core/pages/pool.c mi_pool_fill_rest mi_atomic_store_release head
                self.rest.store(self.pool_word(i + 1, tag), publish);
                is_filled = true;
            }
        }
        //@ src/core/pages/pool.c mi_pool_fill_rest mi_atomic_store_release is_filling
        self.is_filling.store(0, leave);
        is_filled
    }

    fn pool_is_draining(&self) -> bool {
        //@ src/core/pages/pool.c mi_pool_is_draining mi_atomic_load_relaxed due
        !World::pool_is_empty(&self.rest) || self.due.load(Relaxed) != 0
    }

    fn pool_begin_drain(&self) {
        //@ src/core/pages/pool.c mi_pool_begin_drain mi_atomic_store_relaxed empty_count left out: of one page
        //@ src/core/pages/pool.c mi_pool_begin_drain mi_atomic_store_relaxed kept_count left out: of one page
        //@ src/core/pages/pool.c mi_pool_begin_drain mi_atomic_load_relaxed has_empty
        if self.has_empty.load(Relaxed) != 0 {
            //@ src/core/pages/pool.c mi_pool_begin_drain mi_atomic_swap_relaxed has_empty
            let empty = self.has_empty.swap(0, Relaxed);
            //@ src/core/pages/pool.c mi_pool_begin_drain mi_atomic_or_relaxed due
            self.due.or(empty, Relaxed);
        }
    }

    fn pool_drain_part(&self) {
        for _ in 0..PART {
            let page = loop {
                if let Some(i) = self.pool_pop_any(&self.rest) {
                    break i;
                }
                if !self.pool_fill_rest() {
                    return;
                }
            };
            self.pool_look_at(page);
            //@ src/core/pages/pool.c mi_pool_drain_part mi_atomic_add_relaxed kept_count left out: of one page
        }
    }

    /// As if one page were enough: each page that became empty is looked for.
    pub fn pool_note_empty(&self) {
        //@ src/core/pages/pool.c mi_pool_note_empty mi_atomic_load_relaxed has_empty
        if self.has_empty.load(Relaxed) & 1 == 0 {
            //@ src/core/pages/pool.c mi_pool_note_empty mi_atomic_or_relaxed has_empty
            self.has_empty.or(1, Relaxed);
        }
        //@ src/core/pages/pool.c mi_pool_note_empty mi_atomic_add_relaxed empty_count left out: of one page
        //@ src/core/pages/pool.c mi_pool_note_empty mi_atomic_load_relaxed kept_count left out: of one page
        if !self.pool_is_draining() {
            self.pool_begin_drain();
        }
        self.pool_drain_part();
    }

    pub fn pool_drain_all(&self) {
        self.pool_drain(&self.head);
        self.pool_drain(&self.rest);
    }

    /// A drain begins, and one part of it is done.
    fn pool_drain_some(&self) {
        self.has_empty.or(1, Relaxed);
        self.pool_begin_drain();
        self.pool_drain_part();
    }
}

fn two_pages() -> Vec<Page> {
    (0..2).map(|_| Page::new(POOLED, OWNER_SHARED, 1)).collect()
}

/// One thread pops while another pops twice and gives the first page back: the head is what it was, but for its tag.
fn pops_meet_aba(fault: Fault) {
    let world = Arc::new(World::pooled(fault, two_pages()));
    let other = spawn(&world, |world| {
        let page = world.pool_pop();
        let kept = world.pool_pop();
        if let Some(page) = page {
            world.remote_give_up(page);
        }
        kept
    });
    let mine = world.pool_pop();
    let kept = other.join().unwrap();
    assert!(mine.is_none() || mine != kept, "one page for two");
    for page in [mine, kept].into_iter().flatten() {
        world.pages[page].own(|_| ());
        world.remote_give_up(page);
    }
    check_pooled(&world, 2);
}

/// Each page is in the pool once.
fn check_pooled(world: &World, count: usize) {
    let mut seen = 0u32;
    while let Some(page) = world.pool_pop() {
        assert!(seen & 1 << page == 0, "a page was in the pool twice");
        seen |= 1 << page;
    }
    assert!(seen.count_ones() as usize == count, "a page is lost");
}

/// Two threads push a page each while a third takes all.
fn pushes_meet_drain(fault: Fault) {
    let pages = (0..2).map(|_| Page::new(OWNED, 16, 1)).collect();
    let world = Arc::new(World::new(fault, pages));
    let threads: Vec<_> = (0..2)
        .map(|i| {
            world.pages[i].hold();
            spawn(&world, move |world| world.remote_give_up(i))
        })
        .collect();
    world.pool_drain_all();
    join(threads);
    check_pooled(&world, 2);
}

/// The last block of a page in the pool is freed while another thread takes all of them out; then the next one does.
fn empty_meets_drain(fault: Fault) {
    let world = Arc::new(World::pooled(fault, vec![Page::new(POOLED, OWNER_SHARED, 1)]));
    let other = spawn(&world, World::free_last);
    world.pool_drain_all();
    join([other]);
    world.pool_drain_all();
    world.pages[0].plain.with_mut(|plain| assert!(unsafe { &*plain }.is_released, "an empty page stays"));
}

/// The same with no other drain than the one that the page itself brings about.
fn empty_is_found(fault: Fault) {
    let world = Arc::new(World::pooled(fault, vec![Page::new(POOLED, OWNER_SHARED, 1)]));
    world.free_last();
    world.pages[0].plain.with_mut(|plain| assert!(unsafe { &*plain }.is_released, "an empty page stays"));
}

/// As before, while the page is still on its way into the pool: the drain that follows finds the count and not the page.
/// Then the page waits for the next pop from this pool, or for the next drain.
fn empty_meets_push(fault: Fault, is_drained: bool) {
    let world = Arc::new(World::new(fault, vec![Page::new(OWNED, 16, 1)]));
    world.pages[0].hold();
    let others = [spawn(&world, |world| world.remote_give_up(0)), spawn(&world, World::free_last)];
    join(others);
    if is_drained {
        world.pool_drain_all();
    }
    world.pages[0].plain.with_mut(|plain| assert!(unsafe { &*plain }.is_released, "an empty page stays"));
}

/// Two threads begin a drain, and each looks at a page.
fn drains_meet(fault: Fault) {
    let world = Arc::new(World::pooled(fault, two_pages()));
    let other = spawn(&world, World::pool_drain_some);
    world.pool_drain_some();
    join([other]);
    check_pooled(&world, 2);
}

/// A thread gives pages up and drains the pool, while another needs one.
fn rest_meets_pop(fault: Fault) {
    let pages = (0..2).map(|_| Page::new(OWNED, 16, 1)).collect();
    let world = Arc::new(World::new(fault, pages));
    let other = spawn(&world, |world| {
        for i in 0..2 {
            world.pages[i].hold();
            world.remote_give_up(i);
        }
        world.pool_drain_some();
    });
    if let Some(page) = world.pool_pop() {
        world.remote_give_up(page);
    }
    join([other]);
    check_pooled(&world, 2);
}

tests! {
    pool_drains_meet: holds_within(3, || drains_meet(Fault::None));
    pool_rest_meets_pop: holds_within(4, || rest_meets_pop(Fault::None));
    pool_fault_fills_at_once: catches("a page is lost", || drains_meet(Fault::FillsAtOnce));
    pool_fault_fill_relaxed: catches("a page is lost", || drains_meet(Fault::FillRelaxed));
    pool_fault_rest_relaxed: catches("a page is lost", || rest_meets_pop(Fault::RestRelaxed));
    pool_empty_meets_push: holds_within(4, || empty_meets_push(Fault::None, true));
    /// What POOL-4 does not promise; a change of pool.c that does makes this fail.
    pool_fault_note_before_push: catches("an empty page stays", || empty_meets_push(Fault::None, false));
    pool_pops_meet_aba: holds(|| pops_meet_aba(Fault::None));
    pool_pushes_meet_drain: holds_within(5, || pushes_meet_drain(Fault::None));
    pool_empty_meets_drain: holds_within(5, || empty_meets_drain(Fault::None));
    pool_fault_no_tag: catches("popped, but not in the pool", || pops_meet_aba(Fault::NoTag));
    pool_fault_push_relaxed: catches("popped, but not in the pool", || pops_meet_aba(Fault::PoolPushRelaxed));
    pool_fault_pop_relaxed: catches("a page is lost", || pushes_meet_drain(Fault::PopRelaxed));
    pool_empty_is_found: holds(|| empty_is_found(Fault::None));
    pool_fault_no_note: catches("an empty page stays", || empty_is_found(Fault::NoNote));
}
