//! tail.c: a purger gives back what is behind the blocks of a page, while the page ends and its slices are used again
//! (TAIL-1).
//!
//! Invariants: the purger reads no page that is being made, and drops no memory of the next page in the slices; the slices
//! are released once.
//!
//! One page, and one slice, whose state is the whole word.

use crate::{catches, holds, join, order, spawn, Atomic, RACE};
use loom::cell::UnsafeCell;
use loom::sync::atomic::{Ordering, Ordering::*};
use std::sync::Arc;

const LOST: &str = "the slices are lost";
const TWICE: &str = "the slices were released twice";
const YOUNG: usize = 1;
const OLD: usize = 2;
const BUSY: usize = 3;

#[derive(Clone, Copy, PartialEq)]
enum Fault {
    None,
    BeginRelaxed,
    ClaimRelaxed,
    ClearRelaxed,
    /// a purger does not look at the state again
    ClaimsBlindly,
    /// who releases the page does not wait for the purger
    IgnoresBusy,
    /// the purger releases nothing
    LeavesSlices,
    /// the bits stay when the page ends
    KeepsBits,
}

struct World {
    tails: Atomic,
    /// 1 if the slices are free
    free: Atomic,
    /// of the descriptor: what does not change while the page lives, and the rest
    page: UnsafeCell<usize>,
    rest: UnsafeCell<usize>,
    /// what is behind the blocks, or what the next page has there
    memory: UnsafeCell<usize>,
    fault: Fault,
}

impl World {
    fn new(fault: Fault) -> Arc<World> {
        Arc::new(World {
            tails: Atomic::new(0),
            free: Atomic::new(0),
            page: UnsafeCell::new(0),
            rest: UnsafeCell::new(0),
            memory: UnsafeCell::new(0),
            fault,
        })
    }

    fn order(&self, fault: Fault, normal: Ordering) -> Ordering {
        order(self.fault == fault, normal)
    }

    fn make(&self) {
        self.page.with_mut(|page| unsafe { *page += 1 });
        self.rest.with_mut(|rest| unsafe { *rest = 1 });
    }

    fn begin(&self) {
        self.make();
        //@ src/core/arenas/tail.c mi_tail_begin mi_atomic_load_relaxed tails left out: with one thread
        //@ src/core/arenas/tail.c mi_tail_begin mi_atomic_store_relaxed tails left out: with one thread
        let begin = self.order(Fault::BeginRelaxed, Release);
        //@ src/core/arenas/tail.c mi_tail_begin mi_atomic_or_release tails
        self.tails.or(YOUNG, begin);
    }

    fn claim(&self) -> bool {
        let claim = self.order(Fault::ClaimRelaxed, Acquire);
        //@ src/core/arenas/tail.c mi_tail_claim mi_atomic_store_relaxed tails left out: with one thread
        //@ src/core/arenas/tail.c mi_tail_claim mi_atomic_load_relaxed tails
        let mut word = self.tails.load(Relaxed);
        while word % BUSY != 0 {
            if self.fault == Fault::ClaimsBlindly {
                self.tails.or(BUSY, Acquire);
                return true;
            }
            let busy = word | BUSY;
            //@ src/core/arenas/tail.c mi_tail_claim mi_atomic_cas_weak_acquire tails
            if self.tails.cas(&mut word, busy, claim) {
                return true;
            }
        }
        false
    }

    fn age(&self) {
        //@ src/core/arenas/tail.c mi_tail_age mi_atomic_store_relaxed tails left out: with one thread
        //@ src/core/arenas/tail.c mi_tail_age mi_atomic_load_relaxed tails
        let mut word = self.tails.load(Relaxed);
        while word == YOUNG {
            //@ src/core/arenas/tail.c mi_tail_age mi_atomic_cas_weak_relaxed tails
            if self.tails.cas(&mut word, OLD, Relaxed) {
                return;
            }
        }
    }

    fn clear(&self) -> usize {
        let clear = self.order(Fault::ClearRelaxed, AcqRel);
        //@ src/core/arenas/tail.c mi_tail_clear mi_atomic_load_relaxed tails left out: with one thread
        //@ src/core/arenas/tail.c mi_tail_clear mi_atomic_store_relaxed tails left out: with one thread
        //@ src/core/arenas/tail.c mi_tail_clear mi_atomic_and_acq_rel tails
        self.tails.and(0, clear)
    }

    fn release(&self) {
        assert!(self.free.swap(1, Release) == 0, "{TWICE}");
    }

    /// mi_page_release
    fn end(&self) {
        self.rest.with_mut(|rest| unsafe { *rest = 0 });
        let was = if self.fault == Fault::KeepsBits { 0 } else { self.clear() };
        if was != BUSY || self.fault == Fault::IgnoresBusy {
            self.release();
        }
    }

    /// mi_tail_take
    fn purge(&self) {
        if !self.claim() {
            return;
        }
        self.page.with(|_| ());
        self.memory.with_mut(|memory| unsafe { *memory = 0 });
        if self.clear() != BUSY && self.fault != Fault::LeavesSlices {
            self.release();
        }
    }

    /// Another page is made in the slices, if they are free. It has no tail, but blocks there.
    fn make_next(&self) -> bool {
        let mut free = 1;
        if !self.free.cas(&mut free, 0, Acquire) {
            return false;
        }
        self.make();
        self.memory.with_mut(|memory| unsafe { *memory = 7 });
        true
    }
}

/// The page is made, ends, and another one is made, while a purger comes by.
fn purge_meets_end(fault: Fault) {
    let world = World::new(fault);
    let purger = spawn(&world, |world| {
        world.age();
        world.purge();
    });
    world.begin();
    world.end();
    let is_made = world.make_next();
    join([purger]);
    assert!(is_made || world.make_next(), "{LOST}");
    assert!(world.memory.with(|memory| unsafe { *memory }) == 7);
}

/// The same, but a third thread makes the other page.
fn purge_meets_next(fault: Fault) {
    let world = World::new(fault);
    world.begin();
    let purger = spawn(&world, World::purge);
    let next = spawn(&world, World::make_next);
    world.end();
    join([purger]);
    let is_made = next.join().unwrap();
    assert!(is_made || world.make_next(), "{LOST}");
}

tests! {
    tail_purge_meets_end: holds(|| purge_meets_end(Fault::None));
    tail_purge_meets_next: holds(|| purge_meets_next(Fault::None));
    tail_fault_begin_relaxed: catches(RACE, || purge_meets_end(Fault::BeginRelaxed));
    tail_fault_claim_relaxed: catches(RACE, || purge_meets_end(Fault::ClaimRelaxed));
    tail_fault_clear_relaxed: catches(RACE, || purge_meets_next(Fault::ClearRelaxed));
    tail_fault_claims_blindly: catches(RACE, || purge_meets_end(Fault::ClaimsBlindly));
    tail_fault_ignores_busy: catches(TWICE, || purge_meets_next(Fault::IgnoresBusy));
    tail_fault_leaves_slices: catches(LOST, || purge_meets_end(Fault::LeavesSlices));
    tail_fault_keeps_bits: catches(RACE, || purge_meets_end(Fault::KeepsBits));
}
