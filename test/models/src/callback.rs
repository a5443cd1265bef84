//! api/callback.h: a function and its argument, replaced while others call (CALLBACK-1, CALLBACK-2). A version that is
//! odd while they change; nobody waits.
//!
//! Invariant: a reader gets the function and the argument of one registration, or none.

use crate::{catches, holds, holds_within, join, order, spawn, Atomic};
use loom::sync::atomic::{Ordering, Ordering::*};
use std::sync::Arc;

const MIXED: &str = "two registrations mixed";

#[derive(Clone, Copy, PartialEq)]
enum Fault {
    None,
    SetFunctionRelaxed,
    SetArgumentRelaxed,
    SetVersionRelaxed,
    GetVersionRelaxed,
    GetFunctionRelaxed,
    GetArgumentRelaxed,
    /// the version is not odd while they change
    NeverOdd,
    /// the reader looks at the version once
    NoSecondLook,
}

struct Callback {
    version: Atomic,
    function: Atomic,
    argument: Atomic,
    fault: Fault,
}

impl Callback {
    fn order(&self, fault: Fault, normal: Ordering) -> Ordering {
        order(self.fault == fault, normal)
    }

    fn set(&self, function: usize, argument: usize) {
        let function_order = self.order(Fault::SetFunctionRelaxed, Release);
        let argument_order = self.order(Fault::SetArgumentRelaxed, Release);
        let version_order = self.order(Fault::SetVersionRelaxed, Release);
        //@ src/api/callback.h mi_callback_set mi_atomic_load_relaxed version
        let changing = self.version.load(Relaxed) | 1;
        if self.fault != Fault::NeverOdd {
            //@ src/api/callback.h mi_callback_set mi_atomic_store_relaxed version
            self.version.store(changing, Relaxed);
        }
        //@ src/api/callback.h mi_callback_set mi_atomic_store_release function
        self.function.store(function, function_order);
        //@ src/api/callback.h mi_callback_set mi_atomic_store_release argument
        self.argument.store(argument, argument_order);
        //@ src/api/callback.h mi_callback_set mi_atomic_store_release version
        self.version.store(changing + 1, version_order);
    }

    fn get(&self) -> Option<(usize, usize)> {
        let version_order = self.order(Fault::GetVersionRelaxed, Acquire);
        let function_order = self.order(Fault::GetFunctionRelaxed, Acquire);
        let argument_order = self.order(Fault::GetArgumentRelaxed, Acquire);
        //@ src/api/callback.h mi_callback_get mi_atomic_load_acquire version
        let version = self.version.load(version_order);
        //@ src/api/callback.h mi_callback_get mi_atomic_load_acquire function
        let function = self.function.load(function_order);
        //@ src/api/callback.h mi_callback_get mi_atomic_load_acquire argument
        let argument = self.argument.load(argument_order);
        if version % 2 != 0 {
            return None;
        }
        //@ src/api/callback.h mi_callback_get mi_atomic_load_relaxed version
        let is_same = self.version.load(Relaxed) == version;
        (is_same || self.fault == Fault::NoSecondLook).then_some((function, argument))
    }
}

fn set_meets_get(fault: Fault, sets: usize) {
    let new = || Atomic::new(0);
    let callback = Arc::new(Callback { version: new(), function: new(), argument: new(), fault });
    let reader = spawn(&callback, |callback| {
        if let Some((function, argument)) = callback.get() {
            assert!(function == argument, "{MIXED}");
        }
    });
    for i in 1..=sets {
        callback.set(i, i);
    }
    join([reader]);
    assert!(callback.get() == Some((sets, sets)));
}

tests! {
    callback_set_meets_get: holds(|| set_meets_get(Fault::None, 1));
    callback_two_sets_meet_get: holds_within(5, || set_meets_get(Fault::None, 2));
    callback_fault_set_function_relaxed: catches(MIXED, || set_meets_get(Fault::SetFunctionRelaxed, 2));
    callback_fault_set_argument_relaxed: catches(MIXED, || set_meets_get(Fault::SetArgumentRelaxed, 2));
    callback_fault_set_version_relaxed: catches(MIXED, || set_meets_get(Fault::SetVersionRelaxed, 2));
    callback_fault_get_version_relaxed: catches(MIXED, || set_meets_get(Fault::GetVersionRelaxed, 2));
    callback_fault_get_function_relaxed: catches(MIXED, || set_meets_get(Fault::GetFunctionRelaxed, 2));
    callback_fault_get_argument_relaxed: catches(MIXED, || set_meets_get(Fault::GetArgumentRelaxed, 2));
    callback_fault_never_odd: catches(MIXED, || set_meets_get(Fault::NeverOdd, 2));
    callback_fault_no_second_look: catches(MIXED, || set_meets_get(Fault::NoSecondLook, 2));
}
