//! mark.h: whether a block is in use, out of line, in a secure build (MARK-1, MARK-2, MARK-3). The mark of a block is
//! exchanged by whoever frees it; everything else is a plain store of the one who holds the block. Lists of free blocks
//! are one word here, which is taken and pushed as that of a page (remote.rs).
//!
//! Invariants: of threads that free a block at one moment one has it, and the others are refused. A block that is taken
//! out of a list is never refused. A stale free is refused as long as nobody has the block, also while its page ends and
//! another one begins there.

use crate::{catches, holds, join, order, spawn, Atomic};
use loom::cell::UnsafeCell;
use loom::sync::atomic::{Ordering, Ordering::*};
use std::sync::Arc;

const TWICE: &str = "freed twice";
const REFUSED: &str = "a free block was refused";
const STALE: &str = "a stale free was taken";

const FREE: usize = 5; // of class 4
const USED: usize = 0x80;
const ENDED: usize = 0x7F;
const SINGLE: usize = 0xFF;

#[derive(Clone, Copy, PartialEq)]
enum Fault {
    None,
    /// free stores the mark that it has computed
    TakeStores,
    /// the same for a block with a page of its own
    TakeSingleStores,
    /// the block enters the list before its mark is "free"
    PushBeforeMark,
    PushRelaxed,
    ListRelaxed,
    /// malloc takes what the list has
    GiveBlind,
    /// carved blocks are in use
    CarvesUsed,
}

struct World {
    mark: Atomic,
    /// 1 if the block is in it
    list: Atomic,
    /// what the program, or a list, writes into the block
    block: UnsafeCell<usize>,
    fault: Fault,
}

impl World {
    fn new(mark: usize, fault: Fault) -> Arc<World> {
        Arc::new(World { mark: Atomic::new(mark), list: Atomic::new(0), block: UnsafeCell::new(0), fault })
    }

    fn order(&self, fault: Fault, normal: Ordering) -> Ordering {
        order(self.fault == fault, normal)
    }

    /// Who has the block writes into it: nobody else may at that moment.
    fn touch(&self) {
        self.block.with_mut(|block| unsafe { *block += 1 });
    }

    //@ src/core/common/mark.h mi_mark_take mi_atomic_store_relaxed mark left out: with one thread
    fn take(&self) -> bool {
        //@ src/core/common/mark.h mi_mark_take mi_atomic_load_relaxed mark
        let mut value = self.mark.load(Relaxed);
        if value & USED == 0 || value == SINGLE {
            return self.take_slow();
        }
        let freed = value - USED;
        if self.fault == Fault::TakeStores {
            self.mark.store(freed, Relaxed);
            return true;
        }
        //@ src/core/common/mark.h mi_mark_take mi_atomic_cas_strong_relaxed mark
        self.mark.cas(&mut value, freed, Relaxed) || self.take_slow()
    }

    /// Only that of a page with one block looks at the mark again.
    fn take_slow(&self) -> bool {
        let mut value = SINGLE;
        if self.fault == Fault::TakeSingleStores {
            let was = self.mark.load(Relaxed);
            self.mark.store(ENDED, Relaxed);
            return was == SINGLE;
        }
        //@ src/core/common/mark.c mi_mark_take_single mi_atomic_cas_strong_relaxed mark
        self.mark.cas(&mut value, ENDED, Relaxed)
    }

    fn give(&self) -> bool {
        //@ src/core/common/mark.h mi_mark_give mi_atomic_load_relaxed mark
        let value = self.mark.load(Relaxed);
        if value != FREE && self.fault != Fault::GiveBlind {
            return false;
        }
        //@ src/core/common/mark.h mi_mark_give mi_atomic_store_relaxed mark
        //@ src/core/common/mark.h mi_mark_give_first mi_atomic_store_relaxed mark
        self.mark.store(FREE | USED, Relaxed);
        true
    }

    fn carve(&self) {
        let mark = if self.fault == Fault::CarvesUsed { FREE | USED } else { FREE };
        //@ src/core/common/mark.h mi_mark_carve mi_atomic_store_relaxed mi_mark_find
        self.mark.store(mark, Relaxed);
    }

    fn push(&self) {
        self.list.store(1, self.order(Fault::PushRelaxed, Release));
    }

    fn pop(&self) -> bool {
        self.list.swap(0, self.order(Fault::ListRelaxed, Acquire)) != 0
    }

    fn free(&self) -> bool {
        if self.fault == Fault::PushBeforeMark {
            self.push();
            return self.take();
        }
        let is_taken = self.take();
        if is_taken {
            self.touch();
            self.push();
        }
        is_taken
    }
}

/// Each has the same block.
fn frees_meet(fault: Fault, mark: usize, threads: usize) {
    let world = World::new(mark, fault);
    let others: Vec<_> = (1..threads).map(|_| spawn(&world, World::take)).collect();
    let mut taken = world.take() as usize;
    for other in others {
        taken += other.join().unwrap() as usize;
    }
    assert!(taken == 1, "{TWICE}");
    assert!(!world.take(), "{TWICE}");
}

/// What one thread frees another one allocates, writes and frees.
fn free_meets_malloc(fault: Fault) {
    let world = World::new(FREE | USED, fault);
    world.touch();
    let other = spawn(&world, |world| {
        if world.pop() {
            assert!(world.give(), "{REFUSED}");
            world.touch();
            assert!(world.free(), "{REFUSED}");
        }
    });
    assert!(world.free(), "{REFUSED}");
    join([other]);
    if world.pop() {
        assert!(world.give(), "{REFUSED}");
    }
}

/// The block was freed by this thread before, and is freed once more, while the owner ends its page and begins another.
fn stale_free_meets_end(fault: Fault) {
    let world = World::new(FREE, fault);
    let other = spawn(&world, |world| {
        world.mark.store(ENDED, Relaxed); // mi_mark_end
        world.mark.store(0, Relaxed); // mi_mark_begin
        world.carve();
    });
    assert!(!world.take(), "{STALE}");
    join([other]);
    assert!(world.give() || fault != Fault::None, "{REFUSED}");
}

/// A block that the program has is linked into a list by a write behind a block: malloc must not give it twice.
fn forged_link_meets_malloc(fault: Fault) {
    let world = World::new(FREE | USED, fault);
    let other = spawn(&world, |world| world.give());
    world.touch();
    assert!(!other.join().unwrap(), "{TWICE}");
    assert!(world.take(), "{REFUSED}");
}

tests! {
    mark_two_frees_meet: holds(|| frees_meet(Fault::None, FREE | USED, 2));
    mark_three_frees_meet: holds(|| frees_meet(Fault::None, FREE | USED, 3));
    mark_two_frees_of_a_large_block_meet: holds(|| frees_meet(Fault::None, SINGLE, 2));
    mark_free_meets_malloc: holds(|| free_meets_malloc(Fault::None));
    mark_stale_free_meets_end: holds(|| stale_free_meets_end(Fault::None));
    mark_forged_link_meets_malloc: holds(|| forged_link_meets_malloc(Fault::None));
    mark_fault_take_stores: catches(TWICE, || frees_meet(Fault::TakeStores, FREE | USED, 2));
    mark_fault_take_single_stores: catches(TWICE, || frees_meet(Fault::TakeSingleStores, SINGLE, 2));
    mark_fault_push_before_mark: catches(REFUSED, || free_meets_malloc(Fault::PushBeforeMark));
    mark_fault_push_relaxed: catches(REFUSED, || free_meets_malloc(Fault::PushRelaxed));
    mark_fault_list_relaxed: catches(REFUSED, || free_meets_malloc(Fault::ListRelaxed));
    mark_fault_give_blind: catches(TWICE, || forged_link_meets_malloc(Fault::GiveBlind));
    mark_fault_carves_used: catches(STALE, || stale_free_meets_end(Fault::CarvesUsed));
}
