//! arena.c and pagemap.c: arenas come and grow in place while others search and free (ARENA-3, ARENA-7); a window of
//! the page map is written before an address in it is handed out (PAGEMAP-2).
//!
//! Invariants: whoever sees an arena sees its fields; whoever claims slices sees that they are mapped; who waited for the
//! arena lock searches again before growing; who holds an address finds its arena and its descriptor.

use crate::{catches, holds, holds_within, join, order, spawn, Atomic, RACE};
use loom::cell::UnsafeCell;
use loom::sync::atomic::Ordering::*;
use loom::sync::Mutex;
use std::sync::Arc;

const SLICES: usize = 2;
const ROOM: usize = 4; // slices that an arena may grow to

#[derive(Clone, Copy, PartialEq)]
enum Fault {
    None,
    HeadRelaxed,
    NextRelaxed,
    SeesRelaxed,
    /// the arena is in the list before its fields are written
    PublishedFirst,
    /// the window is written after the arena is in the list
    CoveredLate,
    /// who waited for the lock grows without looking
    NotSeen,
    /// an arena that grows hands its slices out before they are counted as its own
    HandedOutFirst,
    /// and without publishing that they are mapped
    FreeRelaxed,
}

#[derive(Default)]
struct Fields {
    start: usize,
}

struct Arena {
    fields: UnsafeCell<Fields>,
    slice_count: Atomic,
    mapped: [UnsafeCell<bool>; ROOM], // of each slice, as the system knows
    free: Atomic,
    next: Atomic,
}

/// Under the arena lock.
struct Growth {
    last: usize, // number + 1
    count: usize,
}

struct World {
    arenas: Atomic,          // number of the first arena + 1
    arena: Vec<Arena>,       // storage
    window: Atomic,          // 1: there is a table
    table: UnsafeCell<bool>, // mapped
    mailbox: Atomic,         // an address that goes from one thread of the program to another
    lock: Mutex<Growth>,
    fault: Fault,
}

impl World {
    /// With `full` arenas that have no free slice.
    fn new(fault: Fault, full: usize) -> World {
        let arena = |_| Arena {
            fields: UnsafeCell::new(Fields::default()),
            slice_count: Atomic::new(SLICES),
            mapped: std::array::from_fn(|_| UnsafeCell::new(false)),
            free: Atomic::new(0),
            next: Atomic::new(0),
        };
        let world = World {
            arenas: Atomic::new(0),
            arena: (0..3).map(arena).collect(),
            window: Atomic::new(0),
            table: UnsafeCell::new(false),
            mailbox: Atomic::new(0),
            lock: Mutex::new(Growth { last: 0, count: 0 }),
            fault,
        };
        for _ in 0..full {
            let i = world.arena_grow_locked();
            world.arena[i].free.store(0, Relaxed);
        }
        world
    }

    fn pagemap_cover(&self) {
        //@ src/core/common/pagemap.c mi_pagemap_cover mi_atomic_load_relaxed window
        if self.window.load(Relaxed) != 0 {
            return;
        }
        self.table.with_mut(|table| unsafe { *table = true });
        //@ src/core/common/pagemap.c mi_pagemap_cover mi_atomic_store_release window
        self.window.store(1, Release);
    }

    fn arena_map(&self, i: usize, first: usize) {
        for slice in first..first + SLICES {
            self.arena[i].mapped[slice].with_mut(|mapped| unsafe { *mapped = true });
        }
    }

    /// The fields of a fresh arena, not yet in a list.
    fn arena_make(&self, i: usize) {
        if self.fault != Fault::CoveredLate {
            self.pagemap_cover();
        }
        self.arena[i].fields.with_mut(|fields| unsafe { *fields = Fields { start: 100 * i + 100 } });
        self.arena_map(i, 0);
        self.arena[i].free.store((1 << SLICES) - 1, Relaxed);
    }

    fn arena_publish(&self, growth: &mut Growth, i: usize) {
        let head = order(self.fault == Fault::HeadRelaxed, Release);
        let next = order(self.fault == Fault::NextRelaxed, Release);
        match growth.last {
            0 => {
                //@ src/core/arenas/arena.c mi_arena_publish mi_atomic_store_release arenas
                self.arenas.store(i + 1, head);
            }
            last => {
                //@ src/core/arenas/arena.c mi_arena_publish mi_atomic_store_release next
                self.arena[last - 1].next.store(i + 1, next);
            }
        }
        growth.last = i + 1;
        growth.count += 1;
    }

    fn arena_grow_locked_by(&self, growth: &mut Growth) -> usize {
        let i = growth.count;
        if self.fault == Fault::PublishedFirst {
            self.arena_publish(growth, i);
            self.arena_make(i);
        } else {
            self.arena_make(i);
            self.arena_publish(growth, i);
        }
        if self.fault == Fault::CoveredLate {
            self.pagemap_cover();
        }
        i
    }

    fn arena_grow_locked(&self) -> usize {
        self.arena_grow_locked_by(&mut self.lock.lock().unwrap())
    }

    /// Two slices more in place. Under the arena lock.
    fn arena_extend(&self, growth: &mut Growth, i: usize) {
        let arena = &self.arena[i];
        let first = arena.slice_count.load(Acquire);
        self.arena_map(i, first);
        let more = ((1 << SLICES) - 1) << first;
        let hand_out = || {
            let release = order(self.fault == Fault::FreeRelaxed, Release);
            let mut old = arena.free.load(Relaxed);
            let mut now = old | more;
            // mi_bitmap_set_release: bitmap.rs.
            while !arena.free.cas(&mut old, now, release) {
                now = old | more;
            }
        };
        if self.fault == Fault::HandedOutFirst {
            hand_out();
        }
        //@ src/core/arenas/arena.c mi_arena_extend mi_atomic_store_release slice_count
        arena.slice_count.store(first + SLICES, Release);
        if self.fault != Fault::HandedOutFirst {
            hand_out();
        }
        growth.count += 1;
    }

    /// As `arena_grow`, of the first arena, which has room.
    fn arena_grow_in_place(&self, seen: &mut usize) {
        let mut growth = self.lock.lock().unwrap();
        if growth.count == *seen && self.arena[0].slice_count.load(Acquire) < ROOM {
            self.arena_extend(&mut growth, 0);
        }
        *seen = growth.count;
    }

    fn arena_grow(&self, seen: &mut usize) {
        let mut growth = self.lock.lock().unwrap();
        if growth.count == *seen || self.fault == Fault::NotSeen {
            self.arena_grow_locked_by(&mut growth);
        }
        *seen = growth.count;
    }

    /// `act` on each arena until it has a result.
    fn for_each_arena<R>(&self, act: impl Fn(usize) -> Option<R>) -> Option<R> {
        let sees = order(self.fault == Fault::SeesRelaxed, Acquire);
        //@ src/core/arenas/arena.h MI_FOR_EACH_ARENA mi_atomic_load_acquire arenas
        let mut at = self.arenas.load(sees);
        while at != 0 {
            let result = act(at - 1);
            if result.is_some() {
                return result;
            }
            //@ src/core/arenas/arena.h MI_FOR_EACH_ARENA mi_atomic_load_acquire next
            at = self.arena[at - 1].next.load(sees);
        }
        None
    }

    /// The address of a slice of this arena (bitmap.rs has the details).
    fn arena_claim_in(&self, i: usize) -> Option<usize> {
        let start = self.arena[i].fields.with(|fields| unsafe { (*fields).start });
        let mut old = self.arena[i].free.load(Relaxed);
        while old != 0 {
            let desired = old & (old - 1);
            if self.arena[i].free.cas(&mut old, desired, Acquire) {
                let slice = old.trailing_zeros() as usize;
                self.arena[i].mapped[slice].with(|mapped| assert!(unsafe { *mapped }, "nothing is mapped there"));
                return Some(start + slice);
            }
        }
        None
    }

    fn arena_claim(&self) -> usize {
        let mut seen = 0;
        loop {
            if let Some(address) = self.for_each_arena(|i| self.arena_claim_in(i)) {
                return address;
            }
            self.arena_grow(&mut seen);
        }
    }

    fn arena_of(&self, address: usize) -> Option<usize> {
        self.for_each_arena(|i| {
            let start = self.arena[i].fields.with(|fields| unsafe { (*fields).start });
            (start..start + ROOM).contains(&address).then_some(i)
        })
    }

    /// Of pagemap.h: the descriptor of an address that the caller holds.
    fn check_address(&self, address: usize) {
        //@ src/core/common/pagemap.h mi_pagemap_distance mi_atomic_load_relaxed window
        let window = self.window.load(Relaxed);
        assert!(window != 0, "an address without a window");
        self.table.with(|table| assert!(unsafe { *table }));
        assert!(self.arena_of(address).is_some(), "an address without an arena");
    }

    /// The same in an arena that grows: its end is known to who holds an address in it.
    fn check_address_in(&self, i: usize, address: usize) {
        self.check_address(address);
        let start = self.arena[i].fields.with(|fields| unsafe { (*fields).start });
        //@ src/core/arenas/arena.h mi_arena_slices mi_atomic_load_acquire slice_count
        let count = self.arena[i].slice_count.load(Acquire);
        assert!(address < start + count, "an address behind the arena");
    }

    fn claim_and_check(&self) -> usize {
        let address = self.arena_claim();
        self.check_address(address);
        address
    }
}

/// Two threads need a slice each, where one arena is enough for both.
fn claims_meet(fault: Fault, full: usize) {
    let world = Arc::new(World::new(fault, full));
    let other = spawn(&world, World::claim_and_check);
    let mine = world.claim_and_check();
    assert!(mine != other.join().unwrap(), "one slice for two");
    assert!(world.lock.lock().unwrap().count == full + 1, "grown for nothing");
}

/// An address goes to another thread, which frees the block there while the list grows.
fn free_meets_growth(fault: Fault, full: usize) {
    let world = Arc::new(World::new(fault, full));
    let first = spawn(&world, |world| world.mailbox.store(world.arena_claim(), Release));
    let second = spawn(&world, |world| world.arena_grow(&mut 0));
    let address = world.mailbox.load(Acquire);
    if address != 0 {
        world.check_address(address);
    }
    join([first, second]);
}

/// An arena without a free slice grows in place while another thread looks for one there.
fn claim_meets_extension(fault: Fault) {
    let world = Arc::new(World::new(fault, 1));
    let grower = spawn(&world, |world| world.arena_grow_in_place(&mut 1));
    if let Some(address) = world.arena_claim_in(0) {
        world.check_address_in(0, address);
    }
    join([grower]);
    let address = world.arena_claim_in(0).expect("a slice is left");
    world.check_address_in(0, address);
}

tests! {
    arena_claim_meets_extension: holds(|| claim_meets_extension(Fault::None));
    arena_fault_handed_out_first:
        catches("an address behind the arena", || claim_meets_extension(Fault::HandedOutFirst));
    arena_fault_free_relaxed: catches(RACE, || claim_meets_extension(Fault::FreeRelaxed));
    arena_first_claims_meet: holds(|| claims_meet(Fault::None, 0));
    arena_later_claims_meet: holds_within(5, || claims_meet(Fault::None, 1));
    arena_free_meets_growth: holds(|| free_meets_growth(Fault::None, 0));
    arena_fault_head_relaxed: catches(RACE, || claims_meet(Fault::HeadRelaxed, 0));
    arena_fault_next_relaxed: catches(RACE, || claims_meet(Fault::NextRelaxed, 1));
    arena_fault_sees_relaxed: catches(RACE, || claims_meet(Fault::SeesRelaxed, 0));
    arena_fault_published_first: catches(RACE, || claims_meet(Fault::PublishedFirst, 0));
    arena_fault_covered_late: catches("an address without a window", || claims_meet(Fault::CoveredLate, 0));
    arena_fault_not_seen: catches("grown for nothing", || claims_meet(Fault::NotSeen, 0));
}
