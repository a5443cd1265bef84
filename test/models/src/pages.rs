//! What the models of remote.c and pool.c share: pages of two blocks, and one pool of abandoned pages.
//!
//! Invariants, checked wherever a thread acts on a page:
//! - plain fields are touched by one owner at a time, who sees what the last one wrote (loom reports anything else);
//! - a page is released once, with all its blocks in its list, and not touched afterwards;
//! - a block is in one list at a time;
//! - in the end no block is lost: `check_all_found` finds every page and every block that was freed.

use crate::Atomic;
use loom::cell::UnsafeCell;
use loom::sync::atomic::Ordering::*;

pub const BLOCKS: usize = 2;

/// Values of types.h. A block is its number, 1 to BLOCKS, times 8.
pub const OWNED: usize = 1;
pub const POOLED: usize = 2;
pub const BITS: usize = 7;
pub const OWNER_NONE: usize = 0;
pub const OWNER_SHARED: usize = 4;
pub const OWNER_PARKED: usize = 1;

#[derive(Clone, Copy, PartialEq)]
pub enum Fault {
    None,
    /// remote.c: orders
    PushRelaxed,
    TakeRelaxed,
    ReleaseRelaxed,
    ClaimRelaxed,
    ClaimPoppedRelaxed,
    /// the owner lets go although blocks wait in the list
    ReleaseBlind,
    /// the owner does not notice that the page left the pool
    ReleaseIgnoresPool,
    /// a page is touched after the compare-and-swap that gave it up (REMOTE-3)
    TouchesReleased,
    /// a pop takes a page that somebody owns (POOL-3)
    PopTakesOwned,
    /// a pop leaves the bit of a page that it drops (POOL-3)
    PopLeavesBit,
    /// a page is released while it is in the pool (POOL-2)
    ReleasesPooled,
    /// a thread that parked a page still takes it for its own (REMOTE-4)
    ParkKeepsOwner,
    /// pool.c: orders
    PoolPushRelaxed,
    PopRelaxed,
    /// the head has no tag
    NoTag,
    /// a page that became empty in the pool is not noted (POOL-4)
    NoNote,
    /// two threads fill the rest of a drain at once, or one after the other without an order (POOL-5)
    FillsAtOnce,
    FillRelaxed,
    /// the rest is stored without an order
    RestRelaxed,
}

pub struct Plain {
    pub local_free: usize,
    pub used: usize,
    pub holder: usize,
    pub is_released: bool,
}

pub struct Page {
    pub thread_free: Atomic,
    pub owner: Atomic,
    pub pool_next: Atomic,
    pub plain: UnsafeCell<Plain>,
    next: [UnsafeCell<usize>; BLOCKS],
}

impl Page {
    /// A page with `used` blocks in use, the others in its list.
    pub fn new(thread_free: usize, owner: usize, used: usize) -> Page {
        let page = Page {
            thread_free: Atomic::new(thread_free),
            owner: Atomic::new(owner),
            pool_next: Atomic::new(0),
            plain: UnsafeCell::new(Plain { local_free: 0, used: BLOCKS, holder: 0, is_released: false }),
            next: std::array::from_fn(|_| UnsafeCell::new(0)),
        };
        for number in used..BLOCKS {
            page.push_local((number + 1) * 8);
        }
        page
    }

    pub fn next(&self, block: usize) -> usize {
        self.next[block / 8 - 1].with(|next| unsafe { *next })
    }

    pub fn set_next(&self, block: usize, next: usize) {
        self.next[block / 8 - 1].with_mut(|link| unsafe { *link = next });
    }

    /// The plain fields, for the owner.
    pub fn own<R>(&self, act: impl FnOnce(&mut Plain) -> R) -> R {
        self.plain.with_mut(|plain| {
            let plain = unsafe { &mut *plain };
            assert!(!plain.is_released, "touched after its release");
            act(plain)
        })
    }

    /// As `own`, for who has just become the owner, or is about to be it no more.
    pub fn hold(&self) {
        self.own(|plain| {
            assert!(plain.holder == 0, "two owners");
            plain.holder = 1;
        });
    }

    pub fn let_go(&self) {
        self.own(|plain| plain.holder = 0);
    }

    /// The owner frees a block.
    pub fn push_local(&self, block: usize) {
        let list = self.own(|plain| {
            assert!(plain.used > 0, "a block was freed twice");
            plain.used -= 1;
            std::mem::replace(&mut plain.local_free, block)
        });
        self.set_next(block, list);
    }

    /// The owner allocates a block, if there is one.
    pub fn pop_local(&self) -> Option<usize> {
        let block = self.own(|plain| plain.local_free);
        if block == 0 {
            return None;
        }
        let next = self.next(block);
        self.own(|plain| {
            plain.local_free = next;
            plain.used += 1;
        });
        Some(block)
    }

    /// Each block that is not in use is in the list, once.
    pub fn check_list(&self) {
        let (mut block, used) = self.own(|plain| (plain.local_free, plain.used));
        let mut seen = 0u32;
        while block != 0 {
            assert!(seen & 1 << (block / 8) == 0, "a block is in the list twice");
            seen |= 1 << (block / 8);
            block = self.next(block);
        }
        assert!(seen.count_ones() as usize + used == BLOCKS, "a block is lost");
    }
}

pub struct World {
    pub pages: Vec<Page>,
    /// Number of the top page + 1, and a tag above.
    pub head: Atomic,
    /// The same of the rest of a drain.
    pub rest: Atomic,
    pub is_filling: Atomic,
    pub has_empty: Atomic,
    pub due: Atomic,
    pub fault: Fault,
}

impl World {
    pub fn new(fault: Fault, pages: Vec<Page>) -> World {
        let [head, rest, is_filling, has_empty, due] = std::array::from_fn(|_| Atomic::new(0));
        World { pages, head, rest, is_filling, has_empty, due, fault }
    }

    /// A world whose pool holds all its pages, the first one on top.
    pub fn pooled(fault: Fault, pages: Vec<Page>) -> World {
        let world = World::new(fault, pages);
        for i in (0..world.pages.len()).rev() {
            world.pool_push(i);
        }
        world
    }

    /// After all threads have ended: what is in the pool is found, by a walk as any malloc makes it, and every page has
    /// as many blocks in use as it should. A page without any has been released.
    pub fn check_all_found(&self, used: &[usize]) {
        while let Some(i) = self.pool_pop_class() {
            if self.remote_claim_popped(i) {
                self.remote_give_up_for_good(i);
            }
        }
        for (page, &used) in self.pages.iter().zip(used) {
            let word = page.thread_free.load(Relaxed);
            assert!(word & POOLED == 0, "a page says that it is in the pool, and is not");
            page.plain.with_mut(|plain| {
                let plain = unsafe { &mut *plain };
                assert!(plain.used == used, "a free was lost");
                assert!(plain.is_released == (used == 0), "nobody finds the page");
            });
        }
    }

    /// The last owner: an empty page is released, what has blocks in use stays with it.
    fn remote_give_up_for_good(&self, i: usize) {
        self.page_collect(i);
        self.pages[i].check_list();
        if self.pages[i].own(|plain| plain.used) == 0 {
            self.page_release(i);
        }
    }
}
