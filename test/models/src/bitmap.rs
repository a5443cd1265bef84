//! bitmap.c, and what arena.c and purge.c promise on top of it: a slice belongs to one (BITMAP-1, ARENA-1), a slice
//! that is not dirty reads as zero (ARENA-2, PURGE-2), and only claimed slices are purged (PURGE-1). Words have two
//! bits here instead of 64.
//!
//! Invariants: what the holder of a slice writes to it is raced by nobody; who finds all its slices clean finds zeros;
//! in the end every slice is free again.

use crate::{catches, holds, holds_within, join, order, spawn, Atomic, RACE};
use loom::cell::UnsafeCell;
use loom::sync::atomic::Ordering::*;
use std::sync::Arc;

const WORD_BITS: usize = 2;

#[derive(Clone, Copy, PartialEq)]
enum Fault {
    None,
    ClaimRelaxed,
    ReleaseRelaxed,
    /// a claim that fails in its second word keeps the first
    NoUndo,
    /// or gives back more than it took
    UndoesAll,
    /// the purger does not claim
    PurgesUnclaimed,
    /// the purger clears the dirty bits after it let go
    CleansLate,
    /// who claims does not mark what it writes to
    NotDirty,
}

struct Map(Vec<Atomic>);

impl Map {
    fn new(slices: usize, is_set: bool) -> Map {
        let word = if is_set { 3 } else { 0 };
        Map((0..slices / WORD_BITS).map(|_| Atomic::new(word)).collect())
    }

    /// The words of a range: number, mask and length of each part.
    fn parts(index: usize, count: usize) -> impl Iterator<Item = (usize, usize, usize)> {
        let mut at = index;
        std::iter::from_fn(move || {
            let length = (index + count - at).min(WORD_BITS - at % WORD_BITS);
            let part = (at / WORD_BITS, ((1 << length) - 1) << (at % WORD_BITS), length);
            at += length;
            (length > 0).then_some(part)
        })
    }

    //@ src/core/arenas/bitmap.c mi_bitmap_or mi_atomic_load_relaxed word left out: with one thread
    //@ src/core/arenas/bitmap.c mi_bitmap_or mi_atomic_store_relaxed word left out: with one thread
    /// `mi_bitmap_or`, for all callers.
    fn or(word: &Atomic, mask: usize, fault: Fault) -> usize {
        let release = order(fault == Fault::ReleaseRelaxed, Release);
        //@ src/core/arenas/bitmap.c mi_bitmap_or mi_atomic_or_release word
        word.or(mask, release)
    }

    fn set_release(&self, index: usize, count: usize, fault: Fault) {
        for (w, mask, _) in Map::parts(index, count) {
            let old = Map::or(&self.0[w], mask, fault);
            assert!(old & mask == 0, "released, but free already");
        }
    }

    /// Returns how many bits were clear.
    fn set(&self, index: usize, count: usize, fault: Fault) -> usize {
        let mut added = 0;
        for (w, mask, length) in Map::parts(index, count) {
            //@ src/core/arenas/bitmap.c mi_bitmap_set mi_atomic_load_relaxed word
            if self.0[w].load(Relaxed) & mask != mask {
                added += length - (Map::or(&self.0[w], mask, fault) & mask).count_ones() as usize;
            }
        }
        added
    }

    //@ src/core/arenas/bitmap.c mi_bitmap_and_not mi_atomic_load_relaxed word left out: with one thread
    //@ src/core/arenas/bitmap.c mi_bitmap_and_not mi_atomic_store_relaxed word left out: with one thread
    fn clear(&self, index: usize, count: usize) {
        for (w, mask, _) in Map::parts(index, count) {
            //@ src/core/arenas/bitmap.c mi_bitmap_clear mi_atomic_load_relaxed word
            if self.0[w].load(Relaxed) & mask != 0 {
                //@ src/core/arenas/bitmap.c mi_bitmap_and_not mi_atomic_and_relaxed word
                self.0[w].and(!mask, Relaxed);
            }
        }
    }

    fn is_all_set(&self, index: usize, count: usize) -> bool {
        //@ src/core/arenas/bitmap.c mi_bitmap_is_all mi_atomic_load_relaxed map
        Map::parts(index, count).all(|(w, mask, _)| self.0[w].load(Relaxed) & mask == mask)
    }

    //@ src/core/arenas/bitmap.c mi_bitmap_take mi_atomic_store_relaxed word left out: with one thread
    fn try_claim(&self, index: usize, count: usize, fault: Fault) -> bool {
        let claim = order(fault == Fault::ClaimRelaxed, Acquire);
        let mut done = 0;
        for (w, mask, length) in Map::parts(index, count) {
            //@ src/core/arenas/bitmap.c mi_bitmap_try_claim mi_atomic_load_relaxed word
            let mut old = self.0[w].load(Relaxed);
            loop {
                if old & mask != mask {
                    match fault {
                        Fault::NoUndo => (),
                        Fault::UndoesAll => self.set_release(index, count, fault),
                        _ => self.set_release(index, done, fault),
                    }
                    return false;
                }
                let desired = old & !mask;
                //@ src/core/arenas/bitmap.c mi_bitmap_take mi_atomic_cas_weak_acquire word
                if self.0[w].cas(&mut old, desired, claim) {
                    break;
                }
            }
            done += length;
        }
        true
    }
}

struct Arena {
    free: Map,
    dirty: Map,
    young: Map,
    memory: Vec<UnsafeCell<usize>>,
    fault: Fault,
}

impl Arena {
    /// All slices are free; dirty and waiting for purge, or neither.
    fn new(fault: Fault, slices: usize, is_dirty: bool) -> Arena {
        let dirt = if is_dirty { 7 } else { 0 };
        Arena {
            free: Map::new(slices, true),
            dirty: Map::new(slices, is_dirty),
            young: Map::new(slices, is_dirty),
            memory: (0..slices).map(|_| UnsafeCell::new(dirt)).collect(),
            fault,
        }
    }

    fn write(&self, index: usize, count: usize, value: usize) {
        for slice in &self.memory[index..index + count] {
            slice.with_mut(|memory| unsafe { *memory = value });
        }
    }

    fn check_zero(&self, index: usize, count: usize) {
        for slice in &self.memory[index..index + count] {
            slice.with(|memory| assert!(unsafe { *memory } == 0, "a clean slice is not zero"));
        }
    }

    /// Claim as `mi_arena_claim_at`, use, and release as `mi_arena_release`.
    fn use_slices(&self, index: usize, count: usize) -> bool {
        if !self.free.try_claim(index, count, self.fault) {
            return false;
        }
        let fresh = match self.fault {
            Fault::NotDirty => count,
            _ => self.dirty.set(index, count, self.fault),
        };
        self.young.clear(index, count);
        if fresh == count {
            self.check_zero(index, count);
        }
        self.write(index, count, 7);
        self.young.set(index, count, self.fault);
        self.free.set_release(index, count, self.fault);
        true
    }

    /// `mi_purge_map`, for one run.
    fn purge(&self, index: usize, count: usize) {
        if !self.young.is_all_set(index, count) || !self.free.is_all_set(index, count) {
            return;
        }
        let is_claiming = self.fault != Fault::PurgesUnclaimed;
        if is_claiming && !self.free.try_claim(index, count, self.fault) {
            return;
        }
        self.young.clear(index, count);
        self.write(index, count, 0);
        if self.fault != Fault::CleansLate {
            self.dirty.clear(index, count);
        }
        if is_claiming {
            self.free.set_release(index, count, self.fault);
        }
        if self.fault == Fault::CleansLate {
            self.dirty.clear(index, count);
        }
    }

    fn check(&self) {
        let slices = self.memory.len();
        assert!(self.free.is_all_set(0, slices), "a slice is lost");
        for i in 0..slices {
            if !self.dirty.is_all_set(i, 1) {
                self.check_zero(i, 1);
            }
        }
    }
}

/// Two claims across words that overlap.
fn claims_meet(fault: Fault) {
    let arena = Arc::new(Arena::new(fault, 4, false));
    let other = spawn(&arena, |arena| arena.use_slices(0, 3));
    arena.use_slices(1, 3);
    join([other]);
    arena.check();
}

/// A holder of the second word, while another thread claims both and fails.
fn undo_meets_holder(fault: Fault) {
    let arena = Arc::new(Arena::new(fault, 4, false));
    let other = spawn(&arena, |arena| arena.use_slices(0, 4));
    arena.use_slices(2, 1);
    join([other]);
    arena.check();
}

/// Slices that wait for purge are claimed at the same time.
fn claim_meets_purge(fault: Fault) {
    let arena = Arc::new(Arena::new(fault, 2, true));
    let other = spawn(&arena, |arena| arena.use_slices(0, 2));
    arena.purge(0, 2);
    join([other]);
    arena.check();
}

/// As before, with parts of the run claimed by two threads.
fn claims_meet_purge(fault: Fault) {
    let arena = Arc::new(Arena::new(fault, 4, true));
    let others = [spawn(&arena, |arena| arena.use_slices(0, 1)), spawn(&arena, |arena| arena.use_slices(2, 2))];
    arena.purge(0, 4);
    join(others);
    arena.check();
}

tests! {
    bitmap_claims_meet: holds(|| claims_meet(Fault::None));
    bitmap_undo_meets_holder: holds(|| undo_meets_holder(Fault::None));
    bitmap_claim_meets_purge: holds(|| claim_meets_purge(Fault::None));
    bitmap_claims_meet_purge: holds_within(4, || claims_meet_purge(Fault::None));
    bitmap_fault_claim_relaxed: catches(RACE, || claims_meet(Fault::ClaimRelaxed));
    bitmap_fault_release_relaxed: catches(RACE, || claims_meet(Fault::ReleaseRelaxed));
    bitmap_fault_no_undo: catches("a slice is lost", || undo_meets_holder(Fault::NoUndo));
    bitmap_fault_undoes_all: catches("free already", || undo_meets_holder(Fault::UndoesAll));
    bitmap_fault_purges_unclaimed: catches(RACE, || claim_meets_purge(Fault::PurgesUnclaimed));
    bitmap_fault_cleans_late: catches("a clean slice is not zero", || claim_meets_purge(Fault::CleansLate));
    bitmap_fault_not_dirty: catches("a clean slice is not zero", || claim_meets_purge(Fault::NotDirty));
}
