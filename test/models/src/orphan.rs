//! thread.c: the pages of a thread that ends go to the next one that starts (THREAD-1, THREAD-2), while others free
//! into them; and the system gives its id to a new thread.
//!
//! Invariants: plain fields of the page have one owner at a time; no free is lost.
//!
//! The lists are under the thread lock. What is not: the owner word, which a free compares with the id of its thread.
//! The system orders the end of a thread before the start of one with the same id; THREAD-1 depends on it, and a fault
//! says so.

use crate::{catches, holds, order, spawn, Atomic, RACE};
use loom::cell::UnsafeCell;
use loom::sync::atomic::Ordering::*;
use loom::sync::Mutex;
use std::sync::Arc;

const ID: usize = 16; // of the thread that ends, and then of another one
const STARTING: usize = 32;
const OWNED: usize = 1;
const OWNER_SHARED: usize = 4;

#[derive(Clone, Copy, PartialEq)]
enum Fault {
    None,
    /// the pages keep the id of a thread that has ended
    KeepsId,
    /// nobody owns the pages of an orphan
    Disowns,
    /// two threads may take one theap
    NoLock,
    /// the system gives an id away before its thread has ended
    IdTooEarly,
}

#[derive(Default)]
struct Page {
    used: usize,
    local: usize,
}

struct World {
    owner: Atomic,
    thread_free: Atomic, // OWNED, and 8 for each block that was pushed (remote.rs has the list)
    page: UnsafeCell<Page>,
    free_id: Atomic,          // of the system
    lock: Mutex<()>,          // the thread lock
    orphan: UnsafeCell<bool>, // under it: the theap waits for a thread
    fault: Fault,
}

impl World {
    fn lock(&self) -> Option<loom::sync::MutexGuard<'_, ()>> {
        (self.fault != Fault::NoLock).then(|| self.lock.lock().unwrap())
    }

    fn free_local(&self) {
        self.page.with_mut(|page| unsafe {
            (*page).used -= 1;
            (*page).local += 1;
        });
    }

    fn theap_set_owner(&self, owner: usize) {
        //@ src/core/pages/life.c mi_life_set_owner mi_atomic_store_relaxed owner
        self.owner.store(owner, Relaxed);
    }

    /// `mi_thread_leave_home`, and the end of the thread.
    fn thread_leave(&self) {
        let end = order(self.fault == Fault::IdTooEarly, Release);
        if self.fault != Fault::KeepsId {
            self.theap_set_owner(OWNER_SHARED);
        }
        if self.fault == Fault::Disowns {
            self.thread_free.and(!OWNED, Release);
        }
        {
            let _lock = self.lock();
            self.orphan.with_mut(|is_orphan| unsafe { *is_orphan = true });
        }
        self.free_id.store(1, end);
    }

    /// `mi_enter_home_in`: take over the orphan, if there is one, and collect what others freed.
    fn thread_start(&self, id: usize) -> bool {
        let is_taken = {
            let _lock = self.lock();
            let is_taken = self.orphan.with_mut(|is_orphan| unsafe { std::mem::replace(&mut *is_orphan, false) });
            if is_taken {
                self.theap_set_owner(id);
            }
            is_taken
        };
        if is_taken {
            let word = self.thread_free.and(OWNED, Acquire);
            self.page.with_mut(|page| unsafe {
                (*page).used -= word / 8;
                (*page).local += word / 8;
            });
        }
        is_taken
    }

    /// free.c and `mi_remote_push`: the fast path, a push, or a claim.
    fn free(&self, id: usize) {
        //@ src/core/front/free.c mi_free_taken mi_atomic_load_relaxed owner
        if self.owner.load(Relaxed) == id {
            self.free_local();
            return;
        }
        let mut word = self.thread_free.load(Relaxed);
        loop {
            if word & OWNED == 0 {
                let desired = word | OWNED;
                if self.thread_free.cas(&mut word, desired, Acquire) {
                    self.free_local();
                    return;
                }
            } else {
                let desired = word + 8;
                if self.thread_free.cas(&mut word, desired, Release) {
                    return;
                }
            }
        }
    }
}

fn world(fault: Fault) -> Arc<World> {
    Arc::new(World {
        owner: Atomic::new(ID),
        thread_free: Atomic::new(OWNED),
        page: UnsafeCell::new(Page { used: 2, local: 0 }),
        free_id: Atomic::new(0),
        lock: Mutex::new(()),
        orphan: UnsafeCell::new(false),
        fault,
    })
}

fn check(world: &World, frees: usize) {
    let pushed = world.thread_free.load(Relaxed) / 8;
    world.page.with(|page| {
        let page = unsafe { &*page };
        assert!(page.local + pushed == frees && page.used + page.local == 2, "a free was lost");
    });
}

/// A thread ends; its id goes to one that only frees, its theap to one that starts.
fn end_meets_free_and_start(fault: Fault) {
    let world = world(fault);
    let same_id = spawn(&world, |world| {
        let can_run = world.free_id.load(Acquire) == 1;
        if can_run {
            world.free(ID);
        }
        can_run
    });
    let starting = spawn(&world, |world| {
        let has_pages = world.thread_start(STARTING);
        if has_pages {
            world.free(STARTING);
        }
        has_pages
    });
    world.thread_leave();
    let frees = same_id.join().unwrap() as usize + starting.join().unwrap() as usize;
    check(&world, frees);
}

/// Two threads start when one has ended, one of them with its id.
fn end_meets_two_starts(fault: Fault) {
    let world = world(fault);
    let same_id = spawn(&world, |world| world.free_id.load(Acquire) == 1 && world.thread_start(ID));
    let starting = spawn(&world, |world| world.thread_start(STARTING));
    world.thread_leave();
    let taken = same_id.join().unwrap() as usize + starting.join().unwrap() as usize;
    assert!(taken <= 1, "one theap for two");
    check(&world, 0);
}

tests! {
    orphan_end_meets_free_and_start: holds(|| end_meets_free_and_start(Fault::None));
    orphan_end_meets_two_starts: holds(|| end_meets_two_starts(Fault::None));
    orphan_fault_keeps_id: catches(RACE, || end_meets_free_and_start(Fault::KeepsId));
    orphan_fault_disowns: catches(RACE, || end_meets_free_and_start(Fault::Disowns));
    orphan_fault_no_lock: catches(RACE, || end_meets_two_starts(Fault::NoLock));
    orphan_fault_id_too_early: catches(RACE, || end_meets_free_and_start(Fault::IdTooEarly));
}
