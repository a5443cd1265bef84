//! hold.c, asleep.c: the purge thread takes over the queue of a thread that sleeps, while the thread may wake up, and
//! others free into its page (HOLD-1 to HOLD-5, HOLD-7).
//!
//! Invariants: the queue and the plain fields of its page have one user at a time; no free is lost; nobody who walks over
//! pages reads what the purge thread writes.
//!
//! One page stands for all. It is in the queue of the thread, or it was lent and is owned by nobody (remote.rs has the
//! list). The half second of HOLD-5 is what two fences would do; a fault leaves it out. The fence of the purge thread orders
//! its loads of `hold`, too, so that no fault shows what their own order is for.

use crate::{catches, holds, holds_within, join, order, spawn, Atomic, RACE};
use loom::cell::UnsafeCell;
use loom::sync::atomic::{fence, Ordering::*};
use loom::sync::Mutex;
use std::sync::Arc;

const NONE: usize = 0;
const ASKED: usize = 1;
const TAKEN: usize = 2;

const QUEUED: usize = 4; // the owner word: the thread's id with the flag, or as the page was lent
const PARKED: usize = 1;
const OWNED: usize = 1; // of `thread_free`; 8 for each block that was pushed

#[derive(Clone, Copy, PartialEq)]
enum Fault {
    None,
    /// no time passes between the two steps of the purge thread
    NoTime,
    /// the thread does not look at the owner word again once it holds its queue
    OwnerOnce,
    /// the purge thread takes what it asked for without looking at `hold`
    TakesBlindly,
    /// the thread comes in although the queue is taken
    IgnoresTaken,
    /// the purge thread works without the thread lock, in which a malloc waits
    NoLock,
    ComeRelaxed,
    GoRelaxed,
    GiveBackRelaxed,
    /// a visitor does not take the lock
    PauseNoLock,
    ResumeRelaxed,
    VisitorsRelaxed,
}

#[derive(Default)]
struct Page {
    in_queue: bool,
    free: usize,
}

struct World {
    hold: Atomic,
    asked: Atomic,
    owner: Atomic,
    thread_free: Atomic,
    visitors: Atomic,
    page: UnsafeCell<Page>,
    lock: Mutex<UnsafeCell<usize>>, // the thread lock, and `hold_seen`
    fault: Fault,
}

impl World {
    fn new(fault: Fault) -> Arc<World> {
        Arc::new(World {
            hold: Atomic::new(0),
            asked: Atomic::new(NONE),
            owner: Atomic::new(QUEUED),
            thread_free: Atomic::new(OWNED),
            visitors: Atomic::new(0),
            page: UnsafeCell::new(Page { in_queue: true, free: 0 }),
            lock: Mutex::new(UnsafeCell::new(0)),
            fault,
        })
    }

    fn time(&self) {
        if self.fault != Fault::NoTime {
            fence(SeqCst);
        }
    }

    // -- the thread --

    fn come(&self, count: usize) -> bool {
        let come = order(self.fault == Fault::ComeRelaxed, Acquire);
        //@ src/core/threads/hold.h mi_hold_come mi_atomic_store_relaxed hold
        self.hold.store(count + 1, Relaxed);
        self.time();
        //@ src/core/threads/hold.h mi_hold_come mi_atomic_load_acquire asked
        self.asked.load(come) == NONE
    }

    fn go(&self, count: usize) {
        let go = order(self.fault == Fault::GoRelaxed, Release);
        //@ src/core/threads/hold.h mi_hold_go mi_atomic_store_release hold
        self.hold.store(count, go);
    }

    fn answer(&self) -> bool {
        let mut expected = ASKED;
        //@ src/core/threads/hold.c mi_hold_answer mi_atomic_cas_strong_acquire asked
        if self.asked.cas(&mut expected, NONE, Acquire) {
            return true;
        }
        //@ src/core/threads/hold.c mi_hold_answer mi_atomic_load_acquire asked
        if self.asked.load(Acquire) == NONE || self.fault == Fault::IgnoresTaken {
            return true;
        }
        //@ src/core/threads/hold.c mi_hold_answer mi_atomic_load_relaxed hold
        self.go(self.hold.load(Relaxed) + 1);
        false
    }

    fn hold_try(&self) -> bool {
        //@ src/core/threads/hold.h mi_hold_try mi_atomic_load_relaxed hold
        let count = self.hold.load(Relaxed);
        self.come(count) || self.answer()
    }

    fn leave(&self) {
        self.go(self.hold.load(Relaxed) + 1);
    }

    fn wait(&self) {
        let _lock = self.lock.lock().unwrap();
        //@ src/core/threads/hold.c mi_hold_wait mi_atomic_store_relaxed asked
        self.asked.store(NONE, Relaxed);
        //@ src/core/threads/hold.c mi_hold_wait mi_atomic_load_relaxed hold
        let count = self.hold.load(Relaxed);
        //@ src/core/threads/hold.c mi_hold_wait mi_atomic_store_relaxed hold
        self.hold.store(count + 1, Relaxed);
    }

    /// The slow path of malloc: it looks at the queue.
    fn malloc(&self) {
        if !self.hold_try() {
            self.wait();
        }
        self.page.with_mut(|page| unsafe {
            if (*page).in_queue {
                (*page).free += 0;
            }
        });
        self.leave();
    }

    /// `mi_free_beside`, and what it calls if the purge thread asks, or has the page.
    fn free(&self) {
        //@ src/core/front/free.c mi_free_beside mi_atomic_load_relaxed owner
        if self.owner.load(Relaxed) == QUEUED {
            //@ src/core/front/free.c mi_free_held mi_atomic_load_relaxed hold left out: `hold_try` loads it
            if self.hold_try() {
                //@ src/core/front/free.c mi_free_held mi_atomic_load_relaxed owner
                let is_own = self.owner.load(Relaxed) == QUEUED || self.fault == Fault::OwnerOnce;
                if is_own {
                    self.page.with_mut(|page| unsafe { (*page).free += 1 });
                }
                self.leave();
                if is_own {
                    return;
                }
            }
        }
        self.free_as_others(true);
    }

    // -- any thread --

    /// `mi_remote_push`, and `mi_reclaim_claimed` if it claims the page.
    fn free_as_others(&self, is_owner: bool) {
        let mut word = self.thread_free.load(Relaxed);
        loop {
            if word & OWNED == 0 {
                let desired = word | OWNED;
                if self.thread_free.cas(&mut word, desired, Acquire) {
                    break;
                }
            } else {
                let desired = word + 8;
                if self.thread_free.cas(&mut word, desired, Release) {
                    return;
                }
            }
        }
        self.page.with_mut(|page| unsafe { (*page).free += 1 });
        if is_owner && self.owner.load(Relaxed) == PARKED && self.hold_try() {
            self.owner.store(QUEUED, Relaxed);
            self.page.with_mut(|page| unsafe { (*page).in_queue = true });
            self.leave();
            return;
        }
        self.give_up();
    }

    /// `mi_pool_let_go`: collect what others pushed, then nobody owns the page.
    fn give_up(&self) {
        loop {
            let mut word = self.thread_free.load(Relaxed);
            if word == OWNED && self.thread_free.cas(&mut word, 0, Release) {
                return;
            }
            let word = self.thread_free.and(OWNED, Acquire);
            self.page.with_mut(|page| unsafe { (*page).free += word / 8 });
        }
    }

    // -- the purge thread --

    fn take(&self, seen: usize) -> bool {
        let mut expected = ASKED;
        //@ src/core/threads/asleep.c mi_asleep_take mi_atomic_cas_strong_acquire asked
        if !self.asked.cas(&mut expected, TAKEN, Acquire) {
            return false;
        }
        //@ src/core/threads/asleep.c mi_asleep_take mi_atomic_load_acquire hold
        if self.hold.load(Acquire) == seen || self.fault == Fault::TakesBlindly {
            return true;
        }
        //@ src/core/threads/asleep.c mi_asleep_take mi_atomic_store_relaxed asked
        self.asked.store(NONE, Relaxed);
        false
    }

    /// `mi_flush_lend`.
    fn lend(&self) {
        let is_here = self.page.with_mut(|page| unsafe { std::mem::replace(&mut (*page).in_queue, false) });
        if is_here {
            self.owner.store(PARKED, Relaxed);
            self.give_up();
        }
    }

    fn look_at(&self, seen: &UnsafeCell<usize>) {
        let give_back = order(self.fault == Fault::GiveBackRelaxed, Release);
        //@ src/core/threads/asleep.c mi_asleep_look_at mi_atomic_load_relaxed asked
        if self.asked.load(Relaxed) == ASKED && self.take(seen.with(|seen| unsafe { *seen })) {
            self.lend();
            //@ src/core/threads/asleep.c mi_asleep_look_at mi_atomic_store_release asked
            self.asked.store(NONE, give_back);
            return;
        }
        //@ src/core/threads/asleep.c mi_asleep_look_at mi_atomic_load_acquire hold
        let count = self.hold.load(Acquire);
        seen.with_mut(|seen| unsafe { *seen = count });
        if count % 2 == 0 {
            //@ src/core/threads/asleep.c mi_asleep_look_at mi_atomic_store_relaxed asked
            self.asked.store(ASKED, Relaxed);
        }
    }

    fn look(&self) {
        let see = order(self.fault == Fault::VisitorsRelaxed, Acquire);
        let unlocked = UnsafeCell::new(0);
        let lock = (self.fault != Fault::NoLock).then(|| self.lock.lock().unwrap());
        //@ src/core/threads/asleep.c mi_asleep_look_from mi_atomic_load_acquire visitors
        if self.visitors.load(see) == 0 {
            self.look_at(lock.as_deref().unwrap_or(&unlocked));
        }
        drop(lock);
        self.time();
    }

    // -- a visitor --

    fn visit(&self) {
        let resume = order(self.fault == Fault::ResumeRelaxed, Release);
        //@ src/core/threads/asleep.c mi_asleep_pause mi_atomic_add_relaxed visitors
        self.visitors.add(1, Relaxed);
        if self.fault != Fault::PauseNoLock {
            drop(self.lock.lock().unwrap());
        }
        self.page.with(|page| assert!(unsafe { (*page).free } < 9));
        //@ src/core/threads/asleep.c mi_asleep_resume mi_atomic_load_relaxed visitors
        let mut count = self.visitors.load(Relaxed);
        while count != 0 {
            let fewer = count - 1;
            //@ src/core/threads/asleep.c mi_asleep_resume mi_atomic_cas_weak_release visitors
            if self.visitors.cas(&mut count, fewer, resume) {
                break;
            }
        }
    }
}

fn check(world: &World, frees: usize) {
    let pushed = world.thread_free.load(Relaxed) / 8;
    world.page.with(|page| assert!(unsafe { (*page).free } + pushed == frees, "a free was lost"));
    assert!(world.hold.load(Relaxed) % 2 == 0);
}

/// The thread frees while the purge thread looks twice, and once more.
fn frees_meet_looks(fault: Fault) {
    let world = World::new(fault);
    let purger = spawn(&world, |world| (0..2).for_each(|_| world.look()));
    world.free();
    world.free();
    join([purger]);
    world.free();
    check(&world, 3);
}

fn malloc_meets_looks(fault: Fault) {
    let world = World::new(fault);
    let purger = spawn(&world, |world| (0..2).for_each(|_| world.look()));
    world.malloc();
    world.free();
    join([purger]);
    check(&world, 1);
}

/// Another thread frees meanwhile.
fn frees_of_others_meet_looks(fault: Fault) {
    let world = World::new(fault);
    let purger = spawn(&world, |world| (0..2).for_each(|_| world.look()));
    let other = spawn(&world, |world| world.free_as_others(false));
    world.free();
    join([purger, other]);
    check(&world, 2);
}

/// Someone walks over the pages of a thread that does nothing.
fn visit_meets_looks(fault: Fault) {
    let world = World::new(fault);
    let purger = spawn(&world, |world| (0..2).for_each(|_| world.look()));
    world.visit();
    join([purger]);
    check(&world, 0);
}

tests! {
    hold_frees_meet_looks: holds(|| frees_meet_looks(Fault::None));
    hold_malloc_meets_looks: holds(|| malloc_meets_looks(Fault::None));
    hold_frees_of_others_meet_looks: holds_within(3, || frees_of_others_meet_looks(Fault::None));
    hold_visit_meets_looks: holds(|| visit_meets_looks(Fault::None));
    hold_fault_no_time: catches(RACE, || malloc_meets_looks(Fault::NoTime));
    hold_fault_owner_once: catches(RACE, || frees_of_others_meet_looks(Fault::OwnerOnce));
    hold_fault_takes_blindly: catches(RACE, || frees_meet_looks(Fault::TakesBlindly));
    hold_fault_ignores_taken: catches(RACE, || frees_meet_looks(Fault::IgnoresTaken));
    hold_fault_no_lock: catches(RACE, || malloc_meets_looks(Fault::NoLock));
    hold_fault_come_relaxed: catches(RACE, || malloc_meets_looks(Fault::ComeRelaxed));
    hold_fault_go_relaxed: catches(RACE, || malloc_meets_looks(Fault::GoRelaxed));
    hold_fault_give_back_relaxed: catches(RACE, || malloc_meets_looks(Fault::GiveBackRelaxed));
    hold_fault_pause_no_lock: catches(RACE, || visit_meets_looks(Fault::PauseNoLock));
    hold_fault_resume_relaxed: catches(RACE, || visit_meets_looks(Fault::ResumeRelaxed));
    hold_fault_visitors_relaxed: catches(RACE, || visit_meets_looks(Fault::VisitorsRelaxed));
}
