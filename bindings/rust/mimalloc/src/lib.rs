// SPDX-License-Identifier: MIT
#![no_std]
#![cfg_attr(all(feature = "heap", feature = "allocator-api2", feature = "extended"), doc = include_str!("../README.md"))]

#[cfg(feature = "allocator-api2")]
mod allocator;
#[cfg(feature = "heap")]
mod heap;
mod source;
#[cfg(feature = "extended")]
mod stats;

use core::alloc::{GlobalAlloc, Layout};

use source::{give_back, Source};

#[cfg(feature = "heap")]
pub use heap::Heap;
#[cfg(feature = "extended")]
pub use stats::StatsJson;

/// The allocator of the process. All values of it are the same.
///
/// ```
/// #[global_allocator]
/// static GLOBAL: mimalloc::MiMalloc = mimalloc::MiMalloc;
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MiMalloc;

impl MiMalloc {
    /// The version of the library: major * 10000 + minor * 100 + patch.
    pub fn version(&self) -> u32 {
        unsafe { libmimalloc_sys::mi_version() }.unsigned_abs()
    }

    /// How many bytes from `block` on the program may use: at least as many as it asked for; 0 if the address is none of
    /// this library.
    ///
    /// # Safety
    /// A block of this library is in use.
    pub unsafe fn usable_size(&self, block: *const u8) -> usize {
        libmimalloc_sys::mi_usable_size(block.cast())
    }
}

unsafe impl GlobalAlloc for MiMalloc {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        self.take(layout)
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        self.take_zeroed(layout)
    }

    #[inline]
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        give_back(block, layout)
    }

    #[inline]
    unsafe fn realloc(&self, block: *mut u8, old: Layout, size: usize) -> *mut u8 {
        self.resize(block, Layout::from_size_align_unchecked(size, old.align()))
    }
}
