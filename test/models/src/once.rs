//! init.c: the process is set up once, by whoever comes first; the others sleep until that is done (INIT-1). One
//! process: what its only thread does in the child of a fork (INIT-3) is not modelled.
//!
//! Invariants: it is done once, everyone who returns sees all of it, and nobody sleeps for ever.

use crate::lock::Futex;
use crate::{catches, holds, holds_within, join, order, spawn, Atomic, DEADLOCK, RACE};
use loom::cell::UnsafeCell;
use loom::sync::atomic::Ordering::*;
use std::sync::Arc;

const NONE: usize = 0;
const BUSY: usize = 1;
const AWAITED: usize = 2;
const READY: usize = 3;

#[derive(Clone, Copy, PartialEq)]
enum Fault {
    None,
    ReadyRelaxed,
    FastRelaxed,
    WaitRelaxed,
    /// everyone who finds NONE sets up
    NotOnce,
    /// who sleeps does not say so
    NotAwaited,
    NoWake,
    /// who was woken does not wake the next one
    NoNextWake,
}

struct World {
    stage: Futex,
    state: UnsafeCell<usize>,
    fault: Fault,
}

impl World {
    fn stage(&self) -> &Atomic {
        &self.stage.word
    }

    fn process_setup(&self) {
        let fast = order(self.fault == Fault::FastRelaxed, Acquire);
        let wait = order(self.fault == Fault::WaitRelaxed, Acquire);
        let ready = order(self.fault == Fault::ReadyRelaxed, Release);
        //@ src/core/process/init.c mi_process_setup mi_atomic_load_relaxed setup_thread left out: calls by who sets up
        //@ src/core/process/init.c mi_process_setup mi_atomic_store_relaxed setup_thread left out: calls by who sets up
        //@ src/core/process/init.c mi_init_end mi_atomic_store_relaxed setup_thread left out: calls by who sets up
        //@ src/core/process/init.c mi_process_setup mi_atomic_load_acquire is_usable left out: for the child of a fork
        //@ src/core/process/init.c mi_process_setup mi_atomic_store_release is_usable left out: for the child of a fork
        //@ src/core/process/init.c mi_process_setup mi_atomic_load_acquire stage
        let stage = self.stage().load(fast);
        if stage == READY {
            return;
        }
        let mut expected = if self.fault == Fault::NotOnce { stage } else { NONE };
        //@ src/core/process/init.c mi_init_begin mi_atomic_store_relaxed stage left out: in the child of a fork, by its only thread
        //@ src/core/process/init.c mi_init_begin mi_atomic_cas_strong_acquire stage
        if !self.stage().cas(&mut expected, BUSY, Acquire) {
            //@ src/core/process/init.c mi_init_begin mi_atomic_load_acquire stage
            while self.stage().load(wait) != READY {
                let mut expected = BUSY;
                if self.fault != Fault::NotAwaited {
                    //@ src/core/process/init.c mi_init_begin mi_atomic_cas_strong_acquire stage
                    self.stage().cas(&mut expected, AWAITED, Acquire);
                    self.stage.wait(AWAITED);
                } else {
                    self.stage.wait(BUSY);
                }
            }
            if self.fault != Fault::NoNextWake {
                self.stage.wake();
            }
            return;
        }
        self.state.with_mut(|state| unsafe { *state += 1 });
        //@ src/core/process/init.c mi_init_end mi_atomic_swap_release stage
        let is_awaited = self.stage().swap(READY, ready) == AWAITED;
        if is_awaited && self.fault != Fault::NoWake {
            self.stage.wake();
        }
    }

    fn allocate(&self) {
        self.process_setup();
        self.state.with(|state| assert!(unsafe { *state } == 1, "not set up once"));
    }
}

fn first_calls_meet(fault: Fault, count: usize) {
    let world = Arc::new(World { stage: Futex::new(NONE), state: UnsafeCell::new(0), fault });
    let others: Vec<_> = (1..count).map(|_| spawn(&world, World::allocate)).collect();
    world.allocate();
    join(others);
}

tests! {
    once_two_threads: holds(|| first_calls_meet(Fault::None, 2));
    once_three_threads: holds_within(4, || first_calls_meet(Fault::None, 3));
    once_fault_ready_relaxed: catches(RACE, || first_calls_meet(Fault::ReadyRelaxed, 2));
    once_fault_fast_relaxed: catches(RACE, || first_calls_meet(Fault::FastRelaxed, 2));
    // The swap that the load sees came after a failed one of this thread: the order is that of the load alone.
    once_fault_wait_relaxed: catches(RACE, || first_calls_meet(Fault::WaitRelaxed, 2));
    once_fault_not_once: catches(RACE, || first_calls_meet(Fault::NotOnce, 2));
    once_fault_not_awaited: catches(DEADLOCK, || first_calls_meet(Fault::NotAwaited, 2));
    once_fault_no_wake: catches(DEADLOCK, || first_calls_meet(Fault::NoWake, 2));
    once_fault_no_next_wake: catches(DEADLOCK, || first_calls_meet(Fault::NoNextWake, 3));
}
