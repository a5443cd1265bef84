//! remote.c: who may touch a page, and how others free into it (REMOTE-1 to REMOTE-4). Parcels only make chains of
//! blocks here, the life of a heap is in heap.rs. The invariants are those of pages.rs.

use crate::pages::*;
use crate::{catches, holds, holds_within, join, order, spawn, RACE};
use loom::sync::atomic::Ordering::*;
use std::sync::Arc;

/// What a thread does with a page that it claimed by a free.
#[derive(Clone, Copy, PartialEq)]
pub enum Reclaim {
    None,
    Guest,
}

impl World {
    fn remote_take(&self, i: usize) -> usize {
        let page = &self.pages[i];
        let take = order(self.fault == Fault::TakeRelaxed, Acquire);
        //@ src/core/pages/remote.c mi_remote_take mi_atomic_store_relaxed thread_free left out: with one thread
        //@ src/core/pages/remote.c mi_remote_take mi_atomic_load_relaxed thread_free
        let mut word = page.thread_free.load(Relaxed);
        loop {
            if word <= BITS {
                return 0;
            }
            let desired = word & BITS;
            //@ src/core/pages/remote.c mi_remote_take mi_atomic_cas_weak_acquire thread_free
            if page.thread_free.cas(&mut word, desired, take) {
                return word & !BITS;
            }
        }
    }

    //@ src/core/pages/remote.c mi_remote_release mi_atomic_store_relaxed thread_free left out: with one thread
    fn remote_release(&self, i: usize, pooled: usize, bits: usize) -> bool {
        let page = &self.pages[i];
        let release = order(self.fault == Fault::ReleaseRelaxed, Release);
        page.let_go();
        //@ src/core/pages/remote.c mi_remote_release mi_atomic_load_relaxed thread_free
        let mut word = page.thread_free.load(Relaxed);
        loop {
            let has_list = word > BITS && self.fault != Fault::ReleaseBlind;
            let is_other = word & POOLED != pooled && self.fault != Fault::ReleaseIgnoresPool;
            if has_list || is_other {
                page.hold();
                return false;
            }
            let desired = (word | bits) & BITS & !OWNED;
            //@ src/core/pages/remote.c mi_remote_release mi_atomic_cas_weak_release thread_free
            if page.thread_free.cas(&mut word, desired, release) {
                if self.fault == Fault::TouchesReleased {
                    page.own(|_| ());
                }
                return true;
            }
        }
    }

    fn remote_park(&self, i: usize, thread: usize) -> bool {
        let page = &self.pages[i];
        let parked = if self.fault == Fault::ParkKeepsOwner { thread } else { thread | OWNER_PARKED };
        //@ src/core/pages/life.c mi_life_park mi_atomic_store_relaxed owner
        page.owner.store(parked, Relaxed);
        loop {
            //@ src/core/pages/life.c mi_life_park mi_atomic_load_relaxed thread_free
            let word = page.thread_free.load(Relaxed);
            if word > BITS {
                break;
            }
            if self.remote_release(i, word & POOLED, 0) {
                return true;
            }
        }
        //@ src/core/pages/life.c mi_life_park mi_atomic_store_relaxed owner
        page.owner.store(thread, Relaxed);
        false
    }

    pub fn remote_claim_popped(&self, i: usize) -> bool {
        let page = &self.pages[i];
        let claim = order(self.fault == Fault::ClaimPoppedRelaxed, AcqRel);
        let left = if self.fault == Fault::PopLeavesBit { POOLED } else { 0 };
        //@ src/core/pages/remote.c mi_remote_claim_popped mi_atomic_load_relaxed thread_free
        let mut word = page.thread_free.load(Relaxed);
        loop {
            let mut desired = word & !POOLED | OWNED;
            if word & OWNED != 0 {
                desired |= left;
            }
            //@ src/core/pages/remote.c mi_remote_claim_popped mi_atomic_cas_weak_acq_rel thread_free
            if page.thread_free.cas(&mut word, desired, claim) {
                assert!(word & POOLED != 0, "popped, but not in the pool");
                let is_claimed = word & OWNED == 0 || self.fault == Fault::PopTakesOwned;
                if is_claimed {
                    page.hold();
                }
                return is_claimed;
            }
        }
    }

    pub fn page_collect(&self, i: usize) {
        let page = &self.pages[i];
        let mut block = self.remote_take(i);
        while block != 0 {
            let next = page.next(block);
            page.push_local(block);
            block = next;
        }
    }

    /// Of page.c: the slices go back.
    pub fn page_release(&self, i: usize) {
        let page = &self.pages[i];
        page.check_list();
        assert!(page.thread_free.load(Relaxed) & !OWNED == 0, "released with a list, or in the pool");
        page.thread_free.store(0, Relaxed);
        page.owner.store(OWNER_NONE, Relaxed);
        page.own(|plain| plain.is_released = true);
    }

    pub fn remote_give_up(&self, i: usize) {
        let page = &self.pages[i];
        loop {
            self.page_collect(i);
            //@ src/core/pages/pool.c mi_pool_let_go mi_atomic_load_relaxed thread_free
            let pooled = page.thread_free.load(Relaxed) & POOLED;
            let used = page.own(|plain| plain.used);
            if used == 0 && (pooled == 0 || self.fault == Fault::ReleasesPooled) {
                self.page_release(i);
                return;
            }
            //@ src/core/pages/life.c mi_life_share mi_atomic_store_relaxed owner
            page.owner.store(OWNER_SHARED, Relaxed);
            let is_push = pooled == 0 && used < BLOCKS;
            if self.remote_release(i, pooled, if is_push { POOLED } else { 0 }) {
                if is_push {
                    self.pool_push(i);
                }
                if used == 0 && self.fault != Fault::NoNote {
                    self.pool_note_empty();
                }
                return;
            }
        }
    }

    //@ src/core/threads/reclaim.c mi_reclaim_claimed mi_atomic_load_acquire heap left out: heap.rs has the life of heaps
    /// The calling thread just claimed the page by freeing a chain. True: it keeps it.
    fn remote_free_claimed(&self, i: usize, chain: &[usize], thread: usize, reclaim: Reclaim) -> bool {
        let page = &self.pages[i];
        page.hold();
        for &block in chain {
            page.push_local(block);
        }
        if reclaim == Reclaim::None || page.own(|plain| plain.used) == 0 {
            self.remote_give_up(i);
            return false;
        }
        //@ src/core/pages/life.c mi_life_own mi_atomic_store_relaxed owner
        page.owner.store(thread, Relaxed);
        true
    }

    //@ src/core/pages/remote.c mi_remote_push mi_atomic_store_relaxed thread_free left out: with one thread
    /// Free a chain of blocks of one page. True: the page is the caller's now.
    fn remote_deliver(&self, i: usize, chain: &[usize], thread: usize, reclaim: Reclaim) -> bool {
        let page = &self.pages[i];
        let claim = order(self.fault == Fault::ClaimRelaxed, Acquire);
        let push = order(self.fault == Fault::PushRelaxed, Release);
        //@ src/core/pages/remote.c mi_remote_push mi_atomic_load_relaxed thread_free
        let mut word = page.thread_free.load(Relaxed);
        loop {
            if word & OWNED == 0 {
                let desired = word | OWNED;
                //@ src/core/pages/remote.c mi_remote_push mi_atomic_cas_weak_acquire thread_free
                if page.thread_free.cas(&mut word, desired, claim) {
                    return self.remote_free_claimed(i, chain, thread, reclaim);
                }
            } else {
                let mut list = word & !BITS;
                for &block in chain.iter().rev() {
                    page.set_next(block, list);
                    list = block;
                }
                let desired = list | word & BITS;
                //@ src/core/pages/remote.c mi_remote_push mi_atomic_cas_weak_release thread_free
                if page.thread_free.cas(&mut word, desired, push) {
                    return false;
                }
            }
        }
    }

    /// Of free.c: the owner word says whose page it is. True: the page was claimed, and is the caller's now.
    fn free(&self, i: usize, chain: &[usize], thread: usize, reclaim: Reclaim) -> bool {
        let page = &self.pages[i];
        //@ src/core/front/free.c mi_free_other mi_atomic_load_relaxed owner
        if page.owner.load(Relaxed) == thread {
            for &block in chain {
                page.push_local(block);
            }
            return false;
        }
        self.remote_deliver(i, chain, thread, reclaim)
    }
}

impl World {
    /// The first block is the last one in use.
    pub fn free_last(&self) {
        free_and_give_up(self, 8, OTHER, Reclaim::None);
    }
}

const MAIN: usize = 16;
const OTHER: usize = 32;
const THIRD: usize = 48;

fn free_and_give_up(world: &World, block: usize, thread: usize, reclaim: Reclaim) {
    if world.free(0, &[block], thread, reclaim) {
        world.remote_give_up(0);
    }
}

/// The owner of a full page parks it while two others free its blocks.
fn frees_meet_park(fault: Fault) {
    let page = Page::new(OWNED, MAIN, 2);
    page.hold();
    let world = Arc::new(World::new(fault, vec![page]));
    let first = spawn(&world, |world| free_and_give_up(world, 8, OTHER, Reclaim::None));
    let second = spawn(&world, |world| free_and_give_up(world, 16, THIRD, Reclaim::Guest));
    if !world.remote_park(0, MAIN) {
        world.remote_give_up(0);
    }
    join([first, second]);
    world.check_all_found(&[0]);
}

/// As above, but one of the blocks is freed by the thread that parked the page.
fn own_free_meets_park(fault: Fault) {
    let page = Page::new(OWNED, MAIN, 2);
    page.hold();
    let world = Arc::new(World::new(fault, vec![page]));
    let other = spawn(&world, |world| free_and_give_up(world, 8, OTHER, Reclaim::Guest));
    if !world.remote_park(0, MAIN) {
        world.page_collect(0);
        world.free(0, &[16], MAIN, Reclaim::None);
        world.remote_give_up(0);
    } else {
        free_and_give_up(&world, 16, MAIN, Reclaim::None);
    }
    join([other]);
    world.check_all_found(&[0]);
}

/// A page in the pool is freed into, while another thread pops it, allocates from it and gives it up again.
fn free_meets_pop(fault: Fault, is_third: bool) {
    let world = Arc::new(World::pooled(fault, vec![Page::new(POOLED, OWNER_SHARED, 1)]));
    let other = spawn(&world, |world| free_and_give_up(world, 8, OTHER, Reclaim::None));
    let third = is_third.then(|| spawn(&world, World::pool_drain_all));
    let mut used = 0;
    if let Some(page) = world.pool_pop() {
        world.page_collect(page);
        used += world.pages[page].pop_local().map_or(0, |_| 1);
        world.remote_give_up(page);
    }
    join([other].into_iter().chain(third));
    world.check_all_found(&[used]);
}

/// A parcel of two blocks arrives while the owner takes and parks.
fn parcel_meets_owner(fault: Fault) {
    let page = Page::new(OWNED, MAIN, 2);
    page.hold();
    let world = Arc::new(World::new(fault, vec![page]));
    let other = spawn(&world, |world| {
        if world.free(0, &[8, 16], OTHER, Reclaim::Guest) {
            world.remote_give_up(0);
        }
    });
    world.page_collect(0);
    if world.pages[0].own(|plain| plain.used) == 2 && world.remote_park(0, MAIN) {
        // nothing of it is touched any more
    } else {
        world.remote_give_up(0);
    }
    join([other]);
    world.check_all_found(&[0]);
}

tests! {
    remote_frees_meet_park: holds_within(4, || frees_meet_park(Fault::None));
    remote_own_free_meets_park: holds_within(5, || own_free_meets_park(Fault::None));
    remote_free_meets_pop: holds(|| free_meets_pop(Fault::None, false));
    remote_free_meets_pop_and_drain: holds_within(4, || free_meets_pop(Fault::None, true));
    remote_parcel_meets_owner: holds(|| parcel_meets_owner(Fault::None));
    remote_fault_push_relaxed: catches(RACE, || parcel_meets_owner(Fault::PushRelaxed));
    remote_fault_take_relaxed: catches(RACE, || parcel_meets_owner(Fault::TakeRelaxed));
    remote_fault_release_relaxed: catches(RACE, || frees_meet_park(Fault::ReleaseRelaxed));
    remote_fault_claim_relaxed: catches(RACE, || frees_meet_park(Fault::ClaimRelaxed));
    remote_fault_claim_popped_relaxed: catches(RACE, || free_meets_pop(Fault::ClaimPoppedRelaxed, false));
    remote_fault_release_blind: catches("lost", || parcel_meets_owner(Fault::ReleaseBlind));
    remote_fault_release_ignores_pool:
        catches("nobody finds the page", || free_meets_pop(Fault::ReleaseIgnoresPool, false));
    remote_fault_touches_released: catches(RACE, || frees_meet_park(Fault::TouchesReleased));
    remote_fault_pop_takes_owned: catches(RACE, || free_meets_pop(Fault::PopTakesOwned, false));
    remote_fault_pop_leaves_bit: catches("is not", || free_meets_pop(Fault::PopLeavesBit, false));
    remote_fault_releases_pooled: catches("in the pool", || free_meets_pop(Fault::ReleasesPooled, false));
    remote_fault_park_keeps_owner: catches(RACE, || own_free_meets_park(Fault::ParkKeepsOwner));
}
