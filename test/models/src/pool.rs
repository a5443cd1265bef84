//! pool.c: the stack of abandoned pages (POOL-1 to POOL-4), and why a tag in its head is enough against ABA.
//!
//! Invariants: a page is popped once for each push, and every page that was pushed is found; the plain fields of
//! pages.rs show an owner too many. A page that became empty in there goes at the next drain.

use crate::pages::*;
use crate::{catches, holds, holds_within, join, order, spawn};
use loom::sync::atomic::Ordering::*;
use std::sync::Arc;

const ADDRESS_MASK: usize = 0xff;
const TAG_ONE: usize = 0x100;

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

    pub fn pool_pop_any(&self) -> Option<usize> {
        let first = order(self.fault == Fault::PopRelaxed, Acquire);
        let later = order(self.fault == Fault::PopRelaxed, AcqRel);
        //@ src/core/pages/pool.c mi_pool_pop_any mi_atomic_load_acquire head
        let mut head = self.head.load(first);
        while let Some(i) = pool_page(head) {
            //@ src/core/pages/pool.c mi_pool_pop_any mi_atomic_load_relaxed pool_next
            let next = self.pages[i].pool_next.load(Relaxed);
            let desired = self.pool_word(next, head + TAG_ONE);
            //@ src/core/pages/pool.c mi_pool_pop_any mi_atomic_cas_weak_acq_rel head
            if self.head.cas(&mut head, desired, later) {
                return Some(i);
            }
        }
        None
    }

    pub fn pool_pop(&self) -> Option<usize> {
        while let Some(i) = self.pool_pop_any() {
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

    fn pool_take_all(&self) -> Option<usize> {
        let take = order(self.fault == Fault::PopRelaxed, AcqRel);
        //@ src/core/pages/pool.c mi_pool_take_all mi_atomic_load_relaxed head
        let mut head = self.head.load(Relaxed);
        loop {
            pool_page(head)?;
            let desired = self.pool_word(0, head + TAG_ONE);
            //@ src/core/pages/pool.c mi_pool_take_all mi_atomic_cas_weak_acq_rel head
            if self.head.cas(&mut head, desired, take) {
                return pool_page(head);
            }
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
        self.pool_drain_noted();
    }

    fn pool_drain_noted(&self) {
        //@ src/core/pages/pool.c mi_pool_drain_noted mi_atomic_store_relaxed empty_count left out: of one page
        //@ src/core/pages/pool.c mi_pool_drain_noted mi_atomic_load_relaxed has_empty
        if self.has_empty.load(Relaxed) & 1 != 0 {
            self.pool_drain();
        }
        //@ src/core/pages/pool.c mi_pool_drain_noted mi_atomic_store_relaxed kept_count left out: of one page
    }

    pub fn pool_drain(&self) {
        //@ src/core/pages/pool.c mi_pool_drain mi_atomic_load_relaxed has_empty
        if self.has_empty.load(Relaxed) & 1 != 0 {
            //@ src/core/pages/pool.c mi_pool_drain mi_atomic_and_relaxed has_empty
            self.has_empty.and(!1, Relaxed);
        }
        let mut page = self.pool_take_all();
        while let Some(i) = page {
            //@ src/core/pages/pool.c mi_pool_drain mi_atomic_load_relaxed pool_next
            page = pool_page(self.pages[i].pool_next.load(Relaxed));
            if self.remote_claim_popped(i) {
                self.remote_give_up(i);
            }
        }
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
    world.pool_drain();
    join(threads);
    check_pooled(&world, 2);
}

/// The last block of a page in the pool is freed while another thread takes all of them out; then the next one does.
fn empty_meets_drain(fault: Fault) {
    let world = Arc::new(World::pooled(fault, vec![Page::new(POOLED, OWNER_SHARED, 1)]));
    let other = spawn(&world, World::free_last);
    world.pool_drain();
    join([other]);
    world.pool_drain();
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
        world.pool_drain();
    }
    world.pages[0].plain.with_mut(|plain| assert!(unsafe { &*plain }.is_released, "an empty page stays"));
}

tests! {
    pool_empty_meets_push: holds_within(4, || empty_meets_push(Fault::None, true));
    /// What POOL-4 does not promise; a change of pool.c that does makes this fail.
    pool_fault_note_before_push: catches("an empty page stays", || empty_meets_push(Fault::None, false));
    pool_pops_meet_aba: holds(|| pops_meet_aba(Fault::None));
    pool_pushes_meet_drain: holds_within(5, || pushes_meet_drain(Fault::None));
    pool_empty_meets_drain: holds(|| empty_meets_drain(Fault::None));
    pool_fault_no_tag: catches("popped, but not in the pool", || pops_meet_aba(Fault::NoTag));
    pool_fault_push_relaxed: catches("popped, but not in the pool", || pops_meet_aba(Fault::PoolPushRelaxed));
    pool_fault_pop_relaxed: catches("a page is lost", || pushes_meet_drain(Fault::PopRelaxed));
    pool_empty_is_found: holds(|| empty_is_found(Fault::None));
    pool_fault_no_note: catches("an empty page stays", || empty_is_found(Fault::NoNote));
}
