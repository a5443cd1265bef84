//! Models of the protocols that work without a lock, one file each. `loom` runs every one of them under all
//! interleavings, and with all values that the C11 memory model lets a load return; a mistake is a data race on a plain
//! field, a failed assertion or a deadlock.
//!
//! A model mirrors functions of the library line by line, under their names and with their memory orders. The comment
//! before each atomic access, `//@ FILE FUNCTION OPERATION FIELD`, names the access of the C code; test/test_models.py
//! checks that both have the same order and that no access of the function is missing. `left out: WHY` behind it stands
//! for the access itself.
//!
//! Beside what must hold, each model has faults: an order made weaker, or a step left out. They must be found, by the
//! symptom that the test names; otherwise the model would prove nothing.
//!
//! What this cannot show: loom executes each thread in its order, so that a load never returns what is stored later
//! (load buffering; no protocol here depends on it); a failed compare-and-swap returns the newest value, and the weak
//! form never fails without a reason. Each is followed by another turn of a loop that starts from any value.
//!
//! Three threads that do many steps each have too many executions: `holds_within` says with how many forced switches of
//! threads those are explored. LOOM_MAX_PREEMPTIONS=N sets such a bound for all.
#![cfg(test)]

/// What must hold, and the faults that must be found: a test each.
macro_rules! tests {
    ($($(#[$comment:meta])* $name:ident: $what:expr;)*) => {
        $($(#[$comment])* #[test] fn $name() { $what; })*
    };
}

mod arena;
mod bitmap;
mod book;
mod callback;
mod heap;
mod hold;
mod lock;
mod mark;
mod once;
mod orphan;
mod pages;
mod pool;
mod remote;
mod tail;

use loom::sync::atomic::{AtomicUsize, Ordering, Ordering::*};
use loom::thread::{self, JoinHandle};
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::atomic::AtomicUsize as Counter;
use std::sync::Arc;

/// What the C code says, or nothing when that is the fault under test.
fn order(is_broken: bool, normal: Ordering) -> Ordering {
    if is_broken {
        Relaxed
    } else {
        normal
    }
}

/// An atomic word with the operations of src/base/atomic.h.
///
/// loom remembers one last access of an atomic. Where a thread loads and then swaps, it forgets that another one loaded
/// before, and never tries the two the other way round. So each access first touches `turn`, in no memory order: then
/// each two accesses of the word are tried both ways.
struct Atomic {
    word: AtomicUsize,
    turn: AtomicUsize,
}

impl Atomic {
    fn new(word: usize) -> Atomic {
        Atomic { word: AtomicUsize::new(word), turn: AtomicUsize::new(0) }
    }

    fn turn(&self) -> &AtomicUsize {
        self.turn.fetch_add(0, Relaxed);
        &self.word
    }

    fn load(&self, order: Ordering) -> usize {
        self.turn().load(order)
    }

    fn store(&self, word: usize, order: Ordering) {
        self.turn().store(word, order);
    }

    fn swap(&self, word: usize, order: Ordering) -> usize {
        self.turn().swap(word, order)
    }

    fn add(&self, amount: usize, order: Ordering) -> usize {
        self.turn().fetch_add(amount, order)
    }

    fn sub(&self, amount: usize, order: Ordering) -> usize {
        self.turn().fetch_sub(amount, order)
    }

    fn or(&self, bits: usize, order: Ordering) -> usize {
        self.turn().fetch_or(bits, order)
    }

    fn and(&self, bits: usize, order: Ordering) -> usize {
        self.turn().fetch_and(bits, order)
    }

    /// `expected` becomes what was there.
    fn cas(&self, expected: &mut usize, desired: usize, order: Ordering) -> bool {
        let failure = if order == AcqRel { Acquire } else { Relaxed };
        match self.turn().compare_exchange(*expected, desired, order, failure) {
            Ok(_) => true,
            Err(found) => {
                *expected = found;
                false
            }
        }
    }
}

/// Another thread, which acts on what all share.
fn spawn<W: 'static, R: 'static>(world: &Arc<W>, act: impl FnOnce(&W) -> R + 'static) -> JoinHandle<R> {
    let world = world.clone();
    thread::spawn(move || act(&world))
}

/// All of them have ended.
fn join<R>(threads: impl IntoIterator<Item = JoinHandle<R>>) {
    for thread in threads {
        thread.join().unwrap();
    }
}

/// Enough for every fault, and found sooner than without a bound.
const FAULT_PREEMPTIONS: usize = 4;

/// Returns how many executions there are.
fn explore(preemptions: Option<usize>, model: impl Fn() + Send + Sync + 'static) -> usize {
    let runs = Arc::new(Counter::new(0));
    let counter = runs.clone();
    let mut builder = loom::model::Builder::new();
    builder.max_branches = 10_000;
    builder.preemption_bound = preemptions;
    builder.check(move || {
        counter.fetch_add(1, Relaxed);
        model();
    });
    runs.load(Relaxed)
}

/// The model has no mistake in any execution.
fn holds(model: impl Fn() + Send + Sync + 'static) {
    println!("explored {}", explore(loom::model::Builder::new().preemption_bound, model));
}

/// As `holds`, where nobody can wait for all executions: in those with so many forced switches of threads.
fn holds_within(preemptions: usize, model: impl Fn() + Send + Sync + 'static) {
    let asked = loom::model::Builder::new().preemption_bound.unwrap_or(preemptions);
    println!("explored {}", explore(Some(preemptions.min(asked)), model));
}

/// Some execution of the broken model shows `symptom`: part of the message of a panic.
fn catches(symptom: &str, model: impl Fn() + Send + Sync + 'static) {
    let Err(panic) = catch_unwind(AssertUnwindSafe(|| explore(Some(FAULT_PREEMPTIONS), model))) else {
        panic!("the fault was not found");
    };
    let message = panic.downcast_ref::<String>().cloned();
    let message = message.or_else(|| panic.downcast_ref::<&str>().map(|s| s.to_string())).unwrap_or_default();
    assert!(message.contains(symptom), "another symptom than `{symptom}`: {message}");
}

/// How loom reports a plain field that two threads touch at once, at least one writing.
const RACE: &str = "Causality violation";
const DEADLOCK: &str = "deadlock";
