//! os/lock.h: the futex lock. One thread at a time is inside and sees what the last one wrote; nobody sleeps for ever.
//!
//! The futex is one of the system: it compares and goes to sleep under a lock of its own, which also orders the two
//! sides. So the orders of the word are tested where nobody sleeps.

use crate::{catches, holds, holds_within, join, order, spawn, Atomic, DEADLOCK, RACE};
use loom::cell::UnsafeCell;
use loom::sync::atomic::Ordering::*;
use loom::sync::{Condvar, Mutex};
use std::sync::Arc;

pub struct Futex {
    pub word: Atomic,
    bucket: Mutex<()>,
    sleepers: Condvar,
}

impl Futex {
    pub fn new(word: usize) -> Futex {
        Futex { word: Atomic::new(word), bucket: Mutex::new(()), sleepers: Condvar::new() }
    }

    pub fn wait(&self, value: usize) {
        let bucket = self.bucket.lock().unwrap();
        if self.word.load(Relaxed) == value {
            drop(self.sleepers.wait(bucket).unwrap());
        }
    }

    pub fn wake(&self) {
        let _bucket = self.bucket.lock().unwrap();
        self.sleepers.notify_one();
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Fault {
    None,
    TryRelaxed,
    SwapRelaxed,
    LeaveRelaxed,
    /// who was woken takes the lock with 1, as if nobody else slept
    WokenTakesOne,
    NoWake,
}

struct Lock {
    futex: Futex,
    fault: Fault,
}

impl Lock {
    fn try_enter(&self) -> bool {
        let enter = order(self.fault == Fault::TryRelaxed, Acquire);
        let mut expected = 0;
        //@ src/os/lock.h mi_lock_take mi_atomic_cas_strong_acquire word
        self.futex.word.cas(&mut expected, 1, enter)
    }

    fn enter(&self) {
        let enter = order(self.fault == Fault::SwapRelaxed, Acquire);
        let mut taken = 2;
        if self.try_enter() {
            return;
        }
        //@ src/os/lock.h mi_lock_enter mi_atomic_swap_acquire word
        while self.futex.word.swap(taken, enter) != 0 {
            self.futex.wait(taken);
            if self.fault == Fault::WokenTakesOne {
                taken = 1;
            }
        }
    }

    fn leave(&self) {
        let leave = order(self.fault == Fault::LeaveRelaxed, Release);
        //@ src/os/lock.h mi_lock_leave mi_atomic_swap_release word
        if self.futex.word.swap(0, leave) == 2 && self.fault != Fault::NoWake {
            self.futex.wake();
        }
    }
}

fn threads_meet(fault: Fault, count: usize) {
    let lock = Arc::new((Lock { futex: Futex::new(0), fault }, UnsafeCell::new(0)));
    let work = |lock: &(Lock, UnsafeCell<usize>)| {
        lock.0.enter();
        lock.1.with_mut(|n| unsafe { *n += 1 });
        lock.0.leave();
    };
    let others: Vec<_> = (1..count).map(|_| spawn(&lock, work)).collect();
    work(&lock);
    join(others);
    lock.1.with(|n| assert!(unsafe { *n } == count));
}

tests! {
    lock_two_threads: holds(|| threads_meet(Fault::None, 2));
    lock_three_threads: holds_within(5, || threads_meet(Fault::None, 3));
    lock_fault_try_relaxed: catches(RACE, || threads_meet(Fault::TryRelaxed, 2));
    lock_fault_swap_relaxed: catches(RACE, || threads_meet(Fault::SwapRelaxed, 2));
    lock_fault_leave_relaxed: catches(RACE, || threads_meet(Fault::LeaveRelaxed, 2));
    lock_fault_woken_takes_one: catches(DEADLOCK, || threads_meet(Fault::WokenTakesOne, 3));
    lock_fault_no_wake: catches(DEADLOCK, || threads_meet(Fault::NoWake, 2));
}
