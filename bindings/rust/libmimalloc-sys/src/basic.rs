// SPDX-License-Identifier: MIT
// Written by scripts/declarations.py from the headers in include/; change those instead.

use core::ffi::*;

extern "C" {
    /// A block with unspecified contents.
    ///
    /// - `size`: bytes
    /// - Returns the block, or NULL
    #[must_use]
    pub fn mi_malloc(size: usize) -> *mut c_void;

    /// A block of which every usable byte reads as zero.
    ///
    /// - `size`: bytes
    /// - Returns the block, or NULL
    #[must_use]
    pub fn mi_zalloc(size: usize) -> *mut c_void;

    /// Resize a block, in place or by moving it. Contents are kept up to the smaller size.
    ///
    /// - `p`: the block; NULL: allocate
    /// - `newsize`: bytes; 0 gives a minimal block
    /// - Returns the block, maybe elsewhere; NULL on failure, with `p` untouched
    #[must_use]
    pub fn mi_realloc(p: *mut c_void, newsize: usize) -> *mut c_void;

    /// Give a block back. An address that is no block of this library is reported and left alone.
    /// Keeps `errno`.
    ///
    /// - `p`: the block; NULL does nothing
    pub fn mi_free(p: *mut c_void);

    /// As `mi_free_size()` and `mi_free_aligned()`.
    ///
    /// - `p`: the block, or NULL
    /// - `size`: bytes, as requested or usable
    /// - `alignment`: bytes
    pub fn mi_free_size_aligned(p: *mut c_void, size: usize, alignment: usize);

    /// As `mi_malloc()`, aligned.
    ///
    /// - `size`: bytes
    /// - `alignment`: bytes
    /// - Returns the block, or NULL
    #[must_use]
    pub fn mi_malloc_aligned(size: usize, alignment: usize) -> *mut c_void;

    /// As `mi_zalloc()`, aligned.
    ///
    /// - `size`: bytes
    /// - `alignment`: bytes
    /// - Returns the block, or NULL
    #[must_use]
    pub fn mi_zalloc_aligned(size: usize, alignment: usize) -> *mut c_void;

    /// As `mi_realloc()`, aligned, whatever the alignment was before.
    ///
    /// - `p`: the block, or NULL
    /// - `newsize`: bytes
    /// - `alignment`: bytes; 0: that of `mi_realloc()`
    /// - Returns the block, maybe elsewhere; NULL on failure, with `p` untouched
    #[must_use]
    pub fn mi_realloc_aligned(p: *mut c_void, newsize: usize, alignment: usize) -> *mut c_void;

    /// How much of a block the program may use.
    ///
    /// - `p`: the block
    /// - Returns bytes from `p` on, at least what was requested; 0 for NULL and for addresses that are
    ///   not ours
    #[must_use]
    pub fn mi_usable_size(p: *const c_void) -> usize;

    /// The version of the library that is running.
    ///
    /// - Returns as MI_MALLOC_VERSION
    pub fn mi_version() -> c_int;
}
