//! heap.h and heap.c: a heap ends while others free into its pages (HEAP-1 to HEAP-3); and a sub-process, when its last
//! page has left (SUBPROC-2). Who acts on a heap is counted in `inside`; nobody waits.
//!
//! Invariants: the structure of a heap is used again only when nobody acts on it; a page that was given up is in the
//! pool of the main heap in the end, not forgotten in that of an ended heap.

use crate::{catches, holds, holds_within, join, order, spawn, Atomic, RACE};
use loom::cell::UnsafeCell;
use loom::sync::atomic::Ordering::*;
use std::sync::Arc;

/// What the field `heap` of a page says.
const HEAP: usize = 1;
const MAIN: usize = 2;

#[derive(Clone, Copy, PartialEq)]
enum Fault {
    None,
    EnterRelaxed,
    LeaveRelaxed,
    LooksRelaxed,
    /// who enters does not look again whether the page has moved
    NoSecondLook,
    /// delete does not add 0 to `inside` (HEAP-2)
    NoAddition,
    /// the structure is used again whoever is inside
    NotCounted,
    /// a heap that uses the structure again does not look into the pool
    NoDrain,
    /// of subproc.c: what says that a page has left
    GoneRelaxed,
    SeesGoneRelaxed,
}

struct World {
    page_heap: Vec<Atomic>,
    inside: Atomic,
    structure: UnsafeCell<usize>, // how often it was used again
    pool: Atomic,                 // of the heap: a bit for each page (pool.rs has the stack)
    main_pool: Atomic,
    fault: Fault,
}

impl World {
    fn new(fault: Fault, pages: usize) -> World {
        World {
            page_heap: (0..pages).map(|_| Atomic::new(HEAP)).collect(),
            inside: Atomic::new(0),
            structure: UnsafeCell::new(0),
            pool: Atomic::new(0),
            main_pool: Atomic::new(0),
            fault,
        }
    }

    fn heap_enter(&self, page: usize) -> usize {
        let enter = order(self.fault == Fault::EnterRelaxed, AcqRel);
        loop {
            //@ src/core/pages/inside.h mi_inside_enter mi_atomic_load_acquire heap
            let heap = self.page_heap[page].load(Acquire);
            if heap == MAIN {
                return heap;
            }
            //@ src/core/pages/inside.h mi_inside_enter mi_atomic_add_acq_rel inside
            self.inside.add(1, enter);
            if self.fault == Fault::NoSecondLook {
                return heap;
            }
            //@ src/core/pages/inside.h mi_inside_enter mi_atomic_load_relaxed heap
            if self.page_heap[page].load(Relaxed) == heap {
                return heap;
            }
            //@ src/core/pages/inside.h mi_inside_enter mi_atomic_sub_release inside
            self.inside.sub(1, Release);
        }
    }

    fn heap_leave(&self, heap: usize) {
        let leave = order(self.fault == Fault::LeaveRelaxed, Release);
        if heap == HEAP {
            //@ src/core/pages/inside.h mi_inside_leave mi_atomic_sub_release inside
            self.inside.sub(1, leave);
        }
    }

    /// A free ends in giving up the page: `mi_pool_give_up`.
    fn give_up(&self, page: usize) {
        let heap = self.heap_enter(page);
        if heap == HEAP {
            self.pool.or(1 << page, Release);
            // Whatever it does there after the push: `mi_pool_note_empty`, counting.
            self.structure.with(|uses| assert!(unsafe { *uses } == 0, "inside a heap that is another one by now"));
        } else {
            self.main_pool.or(1 << page, Release);
        }
        self.heap_leave(heap);
    }

    /// What is in the pool of the heap goes where it belongs.
    fn pool_drain(&self) {
        let pages = self.pool.swap(0, AcqRel);
        if pages != 0 {
            self.main_pool.or(pages, Release);
        }
    }

    fn heap_end_by_delete(&self) {
        for heap in &self.page_heap {
            let mut expected = HEAP;
            //@ src/core/heaps/heap.c mi_heap_move_page mi_atomic_cas_strong_release heap
            heap.cas(&mut expected, MAIN, Release);
        }
        if self.fault != Fault::NoAddition {
            //@ src/core/heaps/heap.c mi_heap_end_by_delete mi_atomic_add_acq_rel inside
            self.inside.add(0, AcqRel);
        }
        self.pool_drain();
    }

    /// `mi_heap_take` and `mi_heap_make`: the structure is used again, if it can be.
    fn heap_make(&self) {
        let looks = order(self.fault == Fault::LooksRelaxed, Acquire);
        //@ src/core/heaps/heap.c mi_heap_take mi_atomic_load_acquire inside
        if self.inside.load(looks) != 0 && self.fault != Fault::NotCounted {
            return;
        }
        if self.fault != Fault::NoDrain {
            self.pool_drain();
        }
        self.structure.with_mut(|uses| unsafe { *uses += 1 });
        assert!(self.pool.load(Relaxed) == 0 || self.fault == Fault::NoDrain, "a new heap has pages of an old one");
    }
}

/// Threads free into a heap while it is deleted and its structure is taken for the next one.
fn frees_meet_delete(fault: Fault, frees: usize) {
    let world = Arc::new(World::new(fault, frees));
    let others: Vec<_> = (0..frees).map(|page| spawn(&world, move |world| world.give_up(page))).collect();
    world.heap_end_by_delete();
    world.heap_make();
    join(others);
    let is_new = world.structure.with(|uses| unsafe { *uses } > 0);
    if !is_new {
        world.pool_drain(); // `mi_heap_drain_ended`
    }
    let expected = (1 << frees) - 1;
    assert!(world.main_pool.load(Relaxed) == expected, "a page is forgotten in an ended heap");
}

/// How the last page of a sub-process shows that it has left.
#[derive(Clone, Copy, PartialEq)]
enum Trace {
    Book,
    Slices,
}

/// The last block of a deleted sub-process is freed while another thread looks whether it can end.
fn last_free_meets_end(fault: Fault, trace: Trace) {
    let world = Arc::new(World::new(fault, 1));
    let gone = Arc::new(Atomic::new(0));
    let left = gone.clone();
    let other = spawn(&world, move |world| {
        let release = order(fault == Fault::GoneRelaxed, Release);
        let heap = world.heap_enter(0);
        if trace == Trace::Book {
            //@ src/core/arenas/book.c mi_book_remove mi_atomic_store_release entry
            left.store(1, release);
        } else {
            //@ src/core/arenas/bitmap.c mi_bitmap_or mi_atomic_or_release word
            left.or(1, release);
        }
        world.structure.with(|_| ()); // counts, polls for purge
        world.heap_leave(heap);
    });
    let acquire = order(fault == Fault::SeesGoneRelaxed, Acquire);
    let is_free = if trace == Trace::Book {
        //@ src/core/arenas/book.c mi_book_next mi_atomic_load_acquire mi_book_entry
        gone.load(acquire) == 1
    } else {
        //@ src/core/arenas/bitmap.h mi_bitmap_is_set_acquire mi_atomic_load_acquire map
        gone.load(acquire) == 1
    };
    let looks = order(fault == Fault::LooksRelaxed, Acquire);
    //@ src/core/heaps/subproc.c mi_subproc_is_left mi_atomic_load_acquire inside
    if is_free && (world.inside.load(looks) == 0 || fault == Fault::NotCounted) {
        world.structure.with_mut(|uses| unsafe { *uses += 1 });
    }
    join([other]);
}

tests! {
    heap_free_meets_delete: holds(|| frees_meet_delete(Fault::None, 1));
    heap_frees_meet_delete: holds_within(4, || frees_meet_delete(Fault::None, 2));
    heap_last_free_meets_end_by_book: holds(|| last_free_meets_end(Fault::None, Trace::Book));
    heap_last_free_meets_end_by_slices: holds(|| last_free_meets_end(Fault::None, Trace::Slices));
    heap_fault_enter_relaxed: catches(RACE, || frees_meet_delete(Fault::EnterRelaxed, 1));
    heap_fault_leave_relaxed: catches(RACE, || frees_meet_delete(Fault::LeaveRelaxed, 1));
    heap_fault_looks_relaxed: catches(RACE, || frees_meet_delete(Fault::LooksRelaxed, 1));
    heap_fault_no_second_look: catches(RACE, || frees_meet_delete(Fault::NoSecondLook, 1));
    heap_fault_no_addition: catches(RACE, || frees_meet_delete(Fault::NoAddition, 1));
    heap_fault_not_counted: catches(RACE, || frees_meet_delete(Fault::NotCounted, 1));
    heap_fault_no_drain: catches("forgotten", || frees_meet_delete(Fault::NoDrain, 1));
    heap_fault_gone_relaxed_by_book: catches(RACE, || last_free_meets_end(Fault::GoneRelaxed, Trace::Book));
    heap_fault_gone_relaxed_by_slices: catches(RACE, || last_free_meets_end(Fault::GoneRelaxed, Trace::Slices));
    heap_fault_sees_gone_relaxed_by_book: catches(RACE, || last_free_meets_end(Fault::SeesGoneRelaxed, Trace::Book));
    heap_fault_sees_gone_relaxed_by_slices:
        catches(RACE, || last_free_meets_end(Fault::SeesGoneRelaxed, Trace::Slices));
}
