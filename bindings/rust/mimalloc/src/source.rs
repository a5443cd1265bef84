// SPDX-License-Identifier: MIT
//! Where blocks come from: the library as a whole, or one of its heaps. What asks for more than its functions promise,
//! the size 0 of some traits, is settled by those who call.

use core::alloc::Layout;

use libmimalloc_sys as mi;

use crate::MiMalloc;

/// Whether a function without an alignment of its own aligns this, also what it resizes: blocks of at least 16 bytes are
/// aligned to 16, smaller ones to 8. It takes fewer instructions.
#[inline]
pub(crate) const fn is_natural(layout: Layout) -> bool {
    layout.align() <= 8 || layout.align() <= 16 && layout.size() >= 16
}

pub(crate) trait Source {
    /// A block, or null.
    fn take(&self, layout: Layout) -> *mut u8;

    /// A block of zeros, or null.
    fn take_zeroed(&self, layout: Layout) -> *mut u8;

    /// The block with this layout in place of its own; or null, with the block untouched.
    ///
    /// # Safety
    /// The block is in use.
    unsafe fn resize(&self, block: *mut u8, layout: Layout) -> *mut u8;
}

impl Source for MiMalloc {
    #[inline]
    fn take(&self, layout: Layout) -> *mut u8 {
        let (size, alignment) = (layout.size(), layout.align());
        unsafe {
            if is_natural(layout) {
                mi::mi_malloc(size)
            } else {
                mi::mi_malloc_aligned(size, alignment)
            }
        }
        .cast()
    }

    #[inline]
    fn take_zeroed(&self, layout: Layout) -> *mut u8 {
        let (size, alignment) = (layout.size(), layout.align());
        unsafe {
            if is_natural(layout) {
                mi::mi_zalloc(size)
            } else {
                mi::mi_zalloc_aligned(size, alignment)
            }
        }
        .cast()
    }

    #[inline]
    unsafe fn resize(&self, block: *mut u8, layout: Layout) -> *mut u8 {
        let (p, size) = (block.cast(), layout.size());
        if is_natural(layout) { mi::mi_realloc(p, size) } else { mi::mi_realloc_aligned(p, size, layout.align()) }
            .cast()
    }
}

/// Ends a block, of any source. A debug build of the library compares the layout with the block.
///
/// # Safety
/// The block has this layout and is in use.
#[inline]
pub(crate) unsafe fn give_back(block: *mut u8, layout: Layout) {
    if cfg!(any(feature = "debug", feature = "debug_in_debug")) {
        mi::mi_free_size_aligned(block.cast(), layout.size(), layout.align());
    } else {
        mi::mi_free(block.cast());
    }
}
