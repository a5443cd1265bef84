//! book.c: which pages a heap has (BOOK-1 to BOOK-3). A free takes its page out without waiting; who adds one holds the
//! arena lock; anyone walks.
//!
//! Invariants: an entry is of one page or on the stack of vacant ones, never both and never twice; a walk sees the
//! fields of every page that it meets.

use crate::{catches, holds, join, order, spawn, Atomic, RACE};
use loom::cell::UnsafeCell;
use loom::sync::atomic::Ordering::*;
use loom::sync::Mutex;
use std::sync::Arc;

const PAGES: usize = 5;
const ENTRIES: usize = 3;

#[derive(Clone, Copy, PartialEq)]
enum Fault {
    None,
    EntryRelaxed,
    WalkRelaxed,
    LinkRelaxed,
    PopRelaxed,
    /// `used` grows before the entry is written
    UsedFirst,
    /// two may pop at the same time (BOOK-2)
    NoLock,
    /// an entry is vacant before its link is written
    PushedFirst,
}

struct Page {
    is_described: UnsafeCell<bool>,
    index: UnsafeCell<usize>,
}

struct Book {
    entry: Vec<Atomic>, // number of a page + 1, doubled, or the link to the next vacant entry, odd
    used: Atomic,
    vacant: Atomic, // index + 1 of the top
    lock: Mutex<()>,
    page: Vec<Page>,
    fault: Fault,
}

impl Book {
    fn new(fault: Fault) -> Book {
        let page = |_| Page { is_described: UnsafeCell::new(false), index: UnsafeCell::new(0) };
        Book {
            entry: (0..ENTRIES).map(|_| Atomic::new(0)).collect(),
            used: Atomic::new(0),
            vacant: Atomic::new(0),
            lock: Mutex::new(()),
            page: (0..PAGES).map(page).collect(),
            fault,
        }
    }

    fn book_take_vacant(&self) -> usize {
        let first = order(self.fault == Fault::PopRelaxed, Acquire);
        let later = order(self.fault == Fault::PopRelaxed, AcqRel);
        //@ src/core/arenas/book.c mi_book_take_vacant mi_atomic_load_acquire vacant
        let mut vacant = self.vacant.load(first);
        while vacant != 0 {
            //@ src/core/arenas/book.c mi_book_take_vacant mi_atomic_load_relaxed mi_book_entry
            let link = self.entry[vacant - 1].load(Relaxed);
            assert!(link & 1 != 0 || self.fault == Fault::NoLock, "the top entry has no link");
            //@ src/core/arenas/book.c mi_book_take_vacant mi_atomic_cas_weak_acq_rel vacant
            if self.vacant.cas(&mut vacant, link >> 1, later) {
                return vacant - 1;
            }
        }
        //@ src/core/arenas/book.c mi_book_take_vacant mi_atomic_load_relaxed used
        self.used.load(Relaxed)
    }

    fn book_add(&self, page: usize) {
        let entry = order(self.fault == Fault::EntryRelaxed, Release);
        self.page[page].is_described.with_mut(|is_described| unsafe { *is_described = true });
        let _lock = (self.fault != Fault::NoLock).then(|| self.lock.lock().unwrap());
        let index = self.book_take_vacant();
        self.page[page].index.with_mut(|at| unsafe { *at = index });
        if self.fault == Fault::UsedFirst && index == self.used.load(Relaxed) {
            self.used.store(index + 1, Release);
        }
        //@ src/core/arenas/book.c mi_book_add mi_atomic_store_release mi_book_entry
        self.entry[index].store((page + 1) * 2, entry);
        //@ src/core/arenas/book.c mi_book_add mi_atomic_load_relaxed used
        if index == self.used.load(Relaxed) {
            //@ src/core/arenas/book.c mi_book_add mi_atomic_store_release used
            self.used.store(index + 1, Release);
        }
    }

    fn book_remove(&self, page: usize) {
        let push = order(self.fault == Fault::LinkRelaxed, Release);
        let index = self.page[page].index.with(|index| unsafe { *index });
        //@ src/core/arenas/book.c mi_book_remove mi_atomic_load_relaxed entry
        assert!(self.entry[index].load(Relaxed) == (page + 1) * 2, "the entry is of another page");
        //@ src/core/arenas/book.c mi_book_remove mi_atomic_load_relaxed vacant
        let mut vacant = self.vacant.load(Relaxed);
        loop {
            if self.fault != Fault::PushedFirst {
                //@ src/core/arenas/book.c mi_book_remove mi_atomic_store_release entry
                self.entry[index].store(vacant << 1 | 1, Release);
            }
            //@ src/core/arenas/book.c mi_book_remove mi_atomic_cas_weak_release vacant
            if self.vacant.cas(&mut vacant, index + 1, push) {
                break;
            }
        }
        if self.fault == Fault::PushedFirst {
            self.entry[index].store(vacant << 1 | 1, Release);
        }
    }

    /// Returns the pages that it saw, a bit each.
    fn book_walk(&self) -> usize {
        let walk = order(self.fault == Fault::WalkRelaxed, Acquire);
        let mut seen = 0;
        //@ src/core/arenas/book.c mi_book_next mi_atomic_load_acquire used
        let used = self.used.load(walk);
        for index in 0..used {
            //@ src/core/arenas/book.c mi_book_next mi_atomic_load_acquire mi_book_entry
            let entry = self.entry[index].load(walk);
            assert!(entry != 0, "an entry that was never written");
            if entry & 1 == 0 {
                let page = entry / 2 - 1;
                self.page[page].is_described.with(|is_described| assert!(unsafe { *is_described }));
                seen |= 1 << page;
            }
        }
        seen
    }

    /// The pages are those of `expected`, each once, and all other entries are vacant.
    fn check(&self, expected: usize) {
        assert!(self.book_walk() == expected, "a page is lost");
        let used = self.used.load(Relaxed);
        let mut vacant = self.vacant.load(Relaxed);
        let mut count = 0;
        while vacant != 0 {
            let link = self.entry[vacant - 1].load(Relaxed);
            assert!(link & 1 != 0, "an entry is in use and vacant");
            count += 1;
            assert!(count <= used, "the vacant entries are a ring");
            vacant = link >> 1;
        }
        assert!(count + expected.count_ones() as usize == used, "an entry is lost");
    }
}

/// Two pages leave while a third comes.
fn removes_meet_add(fault: Fault) {
    let book = Book::new(fault);
    book.book_add(0);
    book.book_add(1);
    let book = Arc::new(book);
    let others: Vec<_> = (0..2).map(|page| spawn(&book, move |book| book.book_remove(page))).collect();
    book.book_add(2);
    join(others);
    book.check(1 << 2);
}

/// Two vacant entries; one thread takes one, while another takes both and gives the first back.
fn adds_meet(fault: Fault) {
    let book = Book::new(fault);
    for page in 0..2 {
        book.book_add(page);
    }
    for page in 0..2 {
        book.book_remove(page);
    }
    let book = Arc::new(book);
    let other = spawn(&book, |book| {
        book.book_add(3);
        book.book_add(4);
        book.book_remove(3);
    });
    book.book_add(2);
    join([other]);
    book.check(1 << 2 | 1 << 4);
}

/// A walk, while the entry of a page becomes that of another one, and a new entry comes.
fn walk_meets_changes(fault: Fault) {
    let book = Book::new(fault);
    book.book_add(0);
    let book = Arc::new(book);
    let other = spawn(&book, |book| {
        book.book_remove(0);
        book.book_add(1);
        book.book_add(2);
    });
    book.book_walk();
    join([other]);
    book.check(1 << 1 | 1 << 2);
}

tests! {
    book_removes_meet_add: holds(|| removes_meet_add(Fault::None));
    book_adds_meet: holds(|| adds_meet(Fault::None));
    book_walk_meets_changes: holds(|| walk_meets_changes(Fault::None));
    book_fault_entry_relaxed: catches(RACE, || walk_meets_changes(Fault::EntryRelaxed));
    book_fault_walk_relaxed: catches(RACE, || walk_meets_changes(Fault::WalkRelaxed));
    book_fault_link_relaxed: catches("the top entry has no link", || removes_meet_add(Fault::LinkRelaxed));
    book_fault_pop_relaxed: catches("the top entry has no link", || removes_meet_add(Fault::PopRelaxed));
    book_fault_used_first: catches("an entry that was never written", || walk_meets_changes(Fault::UsedFirst));
    book_fault_no_lock: catches("in use and vacant", || adds_meet(Fault::NoLock));
    book_fault_pushed_first: catches("the top entry has no link", || removes_meet_add(Fault::PushedFirst));
}
