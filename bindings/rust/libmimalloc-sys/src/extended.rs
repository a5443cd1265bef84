// SPDX-License-Identifier: MIT
// Written by scripts/declarations.py from the headers in include/; change those instead.

use core::ffi::*;
use core::mem::size_of;

use crate::wchar_t;

/// The version of this header: major * 10000 + minor * 100 + patch. `mi_version()` is that of the
/// library.
pub const MI_MALLOC_VERSION: c_int = 30403;

// -- Constants, types and callbacks --

/// The largest size that `mi_malloc_small()` takes, in words.
pub const MI_SMALL_WSIZE_MAX: usize = 128;

/// The same in bytes.
pub const MI_SMALL_SIZE_MAX: usize = MI_SMALL_WSIZE_MAX * size_of::<*mut c_void>();

/// A set of blocks that can be released at once.
#[repr(C)]
pub struct mi_heap_t {
    _opaque: [u8; 0],
}

/// The part of a heap that one thread owns.
#[repr(C)]
pub struct mi_theap_t {
    _opaque: [u8; 0],
}

/// A range of reserved memory. Valid as long as the process; NULL is none, or any.
pub type mi_arena_id_t = *mut c_void;

/// A group of heaps that shares nothing with others.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct mi_subproc_id_t {
    /// For the library; NULL when there was no memory.
    pub _mi_subproc_id: *mut c_void,
}

/// One run of equal blocks in a heap, as visitors see it.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct mi_heap_area_t {
    /// where the blocks start
    pub blocks: *mut c_void,
    /// bytes there are for blocks
    pub reserved: usize,
    /// bytes that were handed out at least once
    pub committed: usize,
    /// number of blocks in use
    pub used: usize,
    /// bytes a program may use of each block
    pub block_size: usize,
    /// bytes from one block to the next
    pub full_block_size: usize,
    /// for the library
    pub reserved1: *mut c_void,
}

/// Called now and then from allocation and collection, to let the program free what it had put
/// off; see `mi_register_deferred_free()`.
///
/// - `force`: free everything now
/// - `heartbeat`: grows with each call on a thread
/// - `arg`: of the registration
pub type mi_deferred_free_fun = Option<unsafe extern "C" fn(force: bool, heartbeat: c_ulonglong, arg: *mut c_void)>;

/// Receives each message of the library; see `mi_register_output()`.
///
/// - `msg`: zero-terminated text of whole lines, valid during the call
/// - `arg`: of the registration
pub type mi_output_fun = Option<unsafe extern "C" fn(msg: *const c_char, arg: *mut c_void)>;

/// Receives each error; see `mi_register_error()`.
///
/// - `err`: an errno value: EAGAIN block freed twice, EFAULT corrupted memory, EINVAL invalid
///   pointer, ENOMEM out of memory, EOVERFLOW request too large or alignment invalid
/// - `arg`: of the registration
pub type mi_error_fun = Option<unsafe extern "C" fn(err: c_int, arg: *mut c_void)>;

/// Visits an area or a block in use; see `mi_heap_visit_blocks()`.
///
/// - `heap`: the heap it is in
/// - `area`: the run of equal blocks, valid during the call
/// - `block`: the block, or NULL when the area is visited
/// - `block_size`: bytes the program may use of a block
/// - `arg`: of the caller
/// - Returns whether to go on
pub type mi_block_visit_fun = Option<unsafe extern "C" fn(
    heap: *const mi_heap_t,
    area: *const mi_heap_area_t,
    block: *mut c_void,
    block_size: usize,
    arg: *mut c_void,
) -> bool>;

/// Visits a heap; see `mi_subproc_visit_heaps()`.
///
/// - `heap`: a heap
/// - `arg`: of the caller
/// - Returns whether to go on
pub type mi_heap_visit_fun = Option<unsafe extern "C" fn(heap: *mut mi_heap_t, arg: *mut c_void) -> bool>;

/// Makes memory of an arena usable, or gives it back; see `mi_manage_memory()`. May not allocate.
///
/// - `commit`: make it usable; else give it back
/// - `start`: first byte
/// - `size`: bytes
/// - `is_zero`: may be NULL; set it to true when memory made usable reads as zero
/// - `user_arg`: of the caller
/// - Returns success; of giving back: whether the memory must be made usable before its next use
pub type mi_commit_fun_t = Option<unsafe extern "C" fn(
    commit: bool,
    start: *mut c_void,
    size: usize,
    is_zero: *mut bool,
    user_arg: *mut c_void,
) -> bool>;

// -- Basic allocation --

extern "C" {
    /// A block for an array. Every usable byte reads as zero, not only those asked for.
    ///
    /// - `count`: number of elements
    /// - `size`: bytes of an element
    /// - Returns the block, or NULL, also when the product overflows
    #[must_use]
    pub fn mi_calloc(count: usize, size: usize) -> *mut c_void;

    /// As `mi_realloc()`, but `p` is freed on failure.
    ///
    /// - `p`: the block; NULL: allocate
    /// - `newsize`: bytes
    /// - Returns the block, maybe elsewhere, or NULL
    #[must_use]
    pub fn mi_reallocf(p: *mut c_void, newsize: usize) -> *mut c_void;

    /// Resize without moving.
    ///
    /// - `p`: the block
    /// - `newsize`: bytes
    /// - Returns `p` when it holds that many bytes now, else NULL with `p` untouched; NULL for NULL
    pub fn mi_expand(p: *mut c_void, newsize: usize) -> *mut c_void;

    /// As `mi_malloc()`, for small sizes.
    ///
    /// - `size`: at most MI_SMALL_SIZE_MAX bytes; that is the caller's promise
    /// - Returns the block, or NULL
    #[must_use]
    pub fn mi_malloc_small(size: usize) -> *mut c_void;

    /// As `mi_zalloc()`, for small sizes.
    ///
    /// - `size`: at most MI_SMALL_SIZE_MAX bytes; that is the caller's promise
    /// - Returns the block, or NULL
    #[must_use]
    pub fn mi_zalloc_small(size: usize) -> *mut c_void;

    /// As `mi_free()`, for blocks of functions whose name ends in _small.
    ///
    /// - `p`: the block, or NULL
    pub fn mi_free_small(p: *mut c_void);

    /// As `mi_free()`, but silent about addresses that are not ours.
    ///
    /// - `p`: the block, or any address
    pub fn mi_cfree(p: *mut c_void);

    /// As `mi_free()`, for callers who know the size. Debug builds verify it, others ignore it.
    ///
    /// - `p`: the block, or NULL
    /// - `size`: bytes, as requested or usable
    pub fn mi_free_size(p: *mut c_void, size: usize);

    /// As `mi_free()`, for callers who know the alignment. Debug builds verify it, others ignore it.
    ///
    /// - `p`: the block, or NULL
    /// - `alignment`: bytes
    pub fn mi_free_aligned(p: *mut c_void, alignment: usize);
}

// -- Resizing that keeps the rest zero --

extern "C" {
    /// As `mi_realloc()`.
    ///
    /// - `p`: the block, or NULL
    /// - `newsize`: bytes
    /// - Returns the block, maybe elsewhere, or NULL
    #[must_use]
    pub fn mi_rezalloc(p: *mut c_void, newsize: usize) -> *mut c_void;

    /// As `mi_rezalloc()`, for an array.
    ///
    /// - `p`: the block, or NULL
    /// - `newcount`: number of elements
    /// - `size`: bytes of an element
    /// - Returns the block, maybe elsewhere, or NULL
    #[must_use]
    pub fn mi_recalloc(p: *mut c_void, newcount: usize, size: usize) -> *mut c_void;

    /// As `mi_realloc_aligned()`.
    ///
    /// - `p`: the block, or NULL
    /// - `newsize`: bytes
    /// - `alignment`: bytes
    /// - Returns the block, maybe elsewhere, or NULL
    #[must_use]
    pub fn mi_rezalloc_aligned(p: *mut c_void, newsize: usize, alignment: usize) -> *mut c_void;

    /// As `mi_realloc_aligned_at()`.
    ///
    /// - `p`: the block, or NULL
    /// - `newsize`: bytes
    /// - `alignment`: bytes
    /// - `offset`: bytes from the start to the address that is aligned
    /// - Returns the block, maybe elsewhere, or NULL
    #[must_use]
    pub fn mi_rezalloc_aligned_at(p: *mut c_void, newsize: usize, alignment: usize, offset: usize) -> *mut c_void;

    /// As `mi_rezalloc_aligned()`, for an array.
    ///
    /// - `p`: the block, or NULL
    /// - `newcount`: number of elements
    /// - `size`: bytes of an element
    /// - `alignment`: bytes
    /// - Returns the block, maybe elsewhere, or NULL
    #[must_use]
    pub fn mi_recalloc_aligned(p: *mut c_void, newcount: usize, size: usize, alignment: usize) -> *mut c_void;

    /// As `mi_rezalloc_aligned_at()`, for an array.
    ///
    /// - `p`: the block, or NULL
    /// - `newcount`: number of elements
    /// - `size`: bytes of an element
    /// - `alignment`: bytes
    /// - `offset`: bytes from the start to the address that is aligned
    /// - Returns the block, maybe elsewhere, or NULL
    #[must_use]
    pub fn mi_recalloc_aligned_at(
        p: *mut c_void,
        newcount: usize,
        size: usize,
        alignment: usize,
        offset: usize,
    ) -> *mut c_void;

    /// Another name of `mi_recalloc_aligned()`.
    ///
    /// - `p`: the block, or NULL
    /// - `newcount`: number of elements
    /// - `size`: bytes of an element
    /// - `alignment`: bytes
    /// - Returns the block, maybe elsewhere, or NULL
    #[must_use]
    pub fn mi_aligned_recalloc(p: *mut c_void, newcount: usize, size: usize, alignment: usize) -> *mut c_void;

    /// Another name of `mi_recalloc_aligned_at()`.
    ///
    /// - `p`: the block, or NULL
    /// - `newcount`: number of elements
    /// - `size`: bytes of an element
    /// - `alignment`: bytes
    /// - `offset`: bytes from the start to the address that is aligned
    /// - Returns the block, maybe elsewhere, or NULL
    #[must_use]
    pub fn mi_aligned_offset_recalloc(
        p: *mut c_void,
        newcount: usize,
        size: usize,
        alignment: usize,
        offset: usize,
    ) -> *mut c_void;
}

// -- Counted and typed --

extern "C" {
    /// As `mi_malloc()`, for an array.
    ///
    /// - `count`: number of elements
    /// - `size`: bytes of an element
    /// - Returns the block, or NULL
    #[must_use]
    pub fn mi_mallocn(count: usize, size: usize) -> *mut c_void;

    /// As `mi_realloc()`, for an array.
    ///
    /// - `p`: the block, or NULL
    /// - `count`: number of elements
    /// - `size`: bytes of an element
    /// - Returns the block, maybe elsewhere; NULL on failure, with `p` untouched
    #[must_use]
    pub fn mi_reallocn(p: *mut c_void, count: usize, size: usize) -> *mut c_void;
}

// -- Aligned allocation --

extern "C" {
    /// As `mi_malloc()`, aligned at an offset.
    ///
    /// - `size`: bytes
    /// - `alignment`: bytes
    /// - `offset`: bytes from the start to the address that is aligned
    /// - Returns the block, or NULL
    #[must_use]
    pub fn mi_malloc_aligned_at(size: usize, alignment: usize, offset: usize) -> *mut c_void;

    /// As `mi_zalloc()`, aligned at an offset.
    ///
    /// - `size`: bytes
    /// - `alignment`: bytes
    /// - `offset`: bytes from the start to the address that is aligned
    /// - Returns the block, or NULL
    #[must_use]
    pub fn mi_zalloc_aligned_at(size: usize, alignment: usize, offset: usize) -> *mut c_void;

    /// As `mi_calloc()`, aligned.
    ///
    /// - `count`: number of elements
    /// - `size`: bytes of an element
    /// - `alignment`: bytes
    /// - Returns the block, or NULL
    #[must_use]
    pub fn mi_calloc_aligned(count: usize, size: usize, alignment: usize) -> *mut c_void;

    /// As `mi_calloc()`, aligned at an offset.
    ///
    /// - `count`: number of elements
    /// - `size`: bytes of an element
    /// - `alignment`: bytes
    /// - `offset`: bytes from the start to the address that is aligned
    /// - Returns the block, or NULL
    #[must_use]
    pub fn mi_calloc_aligned_at(count: usize, size: usize, alignment: usize, offset: usize) -> *mut c_void;

    /// As `mi_realloc_aligned()`, at an offset.
    ///
    /// - `p`: the block, or NULL
    /// - `newsize`: bytes
    /// - `alignment`: bytes
    /// - `offset`: bytes from the start to the address that is aligned
    /// - Returns the block, maybe elsewhere; NULL on failure, with `p` untouched
    #[must_use]
    pub fn mi_realloc_aligned_at(p: *mut c_void, newsize: usize, alignment: usize, offset: usize) -> *mut c_void;
}

// -- Sizes --

extern "C" {
    /// The usable size that a request gets at least. Where a thread has few blocks of about a size, the
    /// block may be larger, at most twice as large as the request. A guarded block (options `guarded_`)
    /// has no more than the request.
    ///
    /// - `size`: bytes
    /// - Returns bytes; `size` itself when no such block can exist
    #[must_use]
    pub fn mi_good_size(size: usize) -> usize;

    /// As `mi_malloc()`.
    ///
    /// - `size`: bytes
    /// - `block_size`: bytes of the slot; not written on failure
    /// - Returns the block, or NULL
    #[must_use]
    pub fn mi_umalloc(size: usize, block_size: *mut usize) -> *mut c_void;

    /// As `mi_zalloc()`.
    ///
    /// - `size`: bytes
    /// - `block_size`: bytes of the slot; not written on failure
    /// - Returns the block, or NULL
    #[must_use]
    pub fn mi_uzalloc(size: usize, block_size: *mut usize) -> *mut c_void;

    /// As `mi_calloc()`.
    ///
    /// - `count`: number of elements
    /// - `size`: bytes of an element
    /// - `block_size`: bytes of the slot; not written on failure
    /// - Returns the block, or NULL
    #[must_use]
    pub fn mi_ucalloc(count: usize, size: usize, block_size: *mut usize) -> *mut c_void;

    /// As `mi_malloc_small()`.
    ///
    /// - `size`: at most MI_SMALL_SIZE_MAX bytes
    /// - `block_size`: bytes of the slot; not written on failure
    /// - Returns the block, or NULL
    #[must_use]
    pub fn mi_umalloc_small(size: usize, block_size: *mut usize) -> *mut c_void;

    /// As `mi_zalloc_small()`.
    ///
    /// - `size`: at most MI_SMALL_SIZE_MAX bytes
    /// - `block_size`: bytes of the slot; not written on failure
    /// - Returns the block, or NULL
    #[must_use]
    pub fn mi_uzalloc_small(size: usize, block_size: *mut usize) -> *mut c_void;

    /// As `mi_malloc_aligned()`.
    ///
    /// - `size`: bytes
    /// - `alignment`: bytes
    /// - `block_size`: bytes of the slot; not written on failure
    /// - Returns the block, or NULL
    #[must_use]
    pub fn mi_umalloc_aligned(size: usize, alignment: usize, block_size: *mut usize) -> *mut c_void;

    /// As `mi_zalloc_aligned()`.
    ///
    /// - `size`: bytes
    /// - `alignment`: bytes
    /// - `block_size`: bytes of the slot; not written on failure
    /// - Returns the block, or NULL
    #[must_use]
    pub fn mi_uzalloc_aligned(size: usize, alignment: usize, block_size: *mut usize) -> *mut c_void;

    /// As `mi_realloc()`.
    ///
    /// - `p`: the block, or NULL
    /// - `newsize`: bytes
    /// - `block_size_pre`: bytes of the slot before, 0 for NULL; written on failure too
    /// - `block_size_post`: bytes of the slot of the result; not written on failure
    /// - Returns the block, maybe elsewhere; NULL on failure, with `p` untouched
    #[must_use]
    pub fn mi_urealloc(
        p: *mut c_void,
        newsize: usize,
        block_size_pre: *mut usize,
        block_size_post: *mut usize,
    ) -> *mut c_void;

    /// As `mi_free()`.
    ///
    /// - `p`: the block, or NULL
    /// - `block_size`: bytes of the slot; not written for NULL
    pub fn mi_ufree(p: *mut c_void, block_size: *mut usize);
}

// -- Strings and paths --

extern "C" {
    /// A copy of a string.
    ///
    /// - `s`: zero-terminated
    /// - Returns the copy, or NULL
    #[must_use]
    pub fn mi_strdup(s: *const c_char) -> *mut c_char;

    /// A copy of the start of a string, with a terminating zero.
    ///
    /// - `s`: a string; nothing past its first `n` characters is read
    /// - `n`: characters to copy at most
    /// - Returns the copy, or NULL
    #[must_use]
    pub fn mi_strndup(s: *const c_char, n: usize) -> *mut c_char;

    /// The absolute path of a file without links, as realpath(3).
    ///
    /// - `fname`: path of an existing file
    /// - `resolved_name`: room for PATH_MAX characters, or NULL
    /// - Returns `resolved_name`, or a block when that is NULL; NULL on failure, with `errno` of
    ///   realpath(3)
    #[must_use]
    pub fn mi_realpath(fname: *const c_char, resolved_name: *mut c_char) -> *mut c_char;

    /// As `mi_strdup()`, for multi-byte characters.
    ///
    /// - `s`: zero-terminated
    /// - Returns the copy, or NULL
    #[must_use]
    pub fn mi_mbsdup(s: *const c_uchar) -> *mut c_uchar;

    /// As `mi_strdup()`, for wide characters.
    ///
    /// - `s`: zero-terminated
    /// - Returns the copy, or NULL
    #[must_use]
    pub fn mi_wcsdup(s: *const wchar_t) -> *mut wchar_t;

    /// A copy of the value of an environment variable.
    ///
    /// - `buf`: the copy, or NULL when there is no such variable
    /// - `size`: characters of the copy with the terminating zero, else 0; may be NULL
    /// - `name`: of the variable
    /// - Returns 0, EINVAL (`buf` or `name` is NULL) or ENOMEM
    pub fn mi_dupenv_s(buf: *mut *mut c_char, size: *mut usize, name: *const c_char) -> c_int;

    /// As `mi_dupenv_s()` for wide characters, on Windows; elsewhere there is no such environment.
    ///
    /// - `buf`: the copy; elsewhere NULL
    /// - `size`: characters of the copy with the terminating zero; elsewhere 0; may be NULL
    /// - `name`: of the variable
    /// - Returns as `mi_dupenv_s()`; elsewhere EINVAL
    pub fn mi_wdupenv_s(buf: *mut *mut wchar_t, size: *mut usize, name: *const wchar_t) -> c_int;
}

// -- Names of POSIX, BSD, glibc and Microsoft --

extern "C" {
    /// As posix_memalign(3). Does not touch `errno`. Throws nothing, but is not declared so (as in
    /// libc).
    ///
    /// - `p`: the block; unchanged on failure
    /// - `alignment`: a power of two and multiple of sizeof(void*), bytes
    /// - `size`: bytes
    /// - Returns 0, EINVAL or ENOMEM
    pub fn mi_posix_memalign(p: *mut *mut c_void, alignment: usize, size: usize) -> c_int;

    /// Another name of `mi_posix_memalign()`, of versions 1.0.
    ///
    /// - `p`: the block; unchanged on failure
    /// - `alignment`: bytes
    /// - `size`: bytes
    /// - Returns 0, EINVAL or ENOMEM
    pub fn mi__posix_memalign(p: *mut *mut c_void, alignment: usize, size: usize) -> c_int;

    /// As `mi_malloc_aligned()`.
    ///
    /// - `alignment`: bytes
    /// - `size`: bytes
    /// - Returns the block, or NULL
    #[must_use]
    pub fn mi_memalign(alignment: usize, size: usize) -> *mut c_void;

    /// As `mi_malloc_aligned()`.
    ///
    /// - `alignment`: bytes
    /// - `size`: bytes, need not be a multiple of the alignment
    /// - Returns the block, or NULL
    #[must_use]
    pub fn mi_aligned_alloc(alignment: usize, size: usize) -> *mut c_void;

    /// A block aligned to the page size of the operating system.
    ///
    /// - `size`: bytes
    /// - Returns the block, or NULL
    #[must_use]
    pub fn mi_valloc(size: usize) -> *mut c_void;

    /// As `mi_valloc()`, with the size rounded up to whole pages of the operating system.
    ///
    /// - `size`: bytes; 0: one page
    /// - Returns the block, or NULL
    #[must_use]
    pub fn mi_pvalloc(size: usize) -> *mut c_void;

    /// As `mi_reallocn()`; `errno` is EOVERFLOW when the product overflows.
    ///
    /// - `p`: the block, or NULL
    /// - `count`: number of elements
    /// - `size`: bytes of an element
    /// - Returns the block, maybe elsewhere; NULL on failure, with `p` untouched
    #[must_use]
    pub fn mi_reallocarray(p: *mut c_void, count: usize, size: usize) -> *mut c_void;

    /// Resize the block that a variable points to, as reallocarr(3) of NetBSD.
    ///
    /// - `ptrp`: address of the pointer, which is updated; unchanged on failure
    /// - `count`: number of elements; 0 frees the block and stores NULL
    /// - `size`: bytes of an element, not 0
    /// - Returns 0, or the value also stored in `errno`: EINVAL, EOVERFLOW or ENOMEM
    #[must_use]
    pub fn mi_reallocarr(ptrp: *mut c_void, count: usize, size: usize) -> c_int;

    /// Another name of `mi_usable_size()`.
    ///
    /// - `p`: the block
    /// - Returns bytes
    #[must_use]
    pub fn mi_malloc_size(p: *const c_void) -> usize;

    /// Another name of `mi_usable_size()`.
    ///
    /// - `p`: the block
    /// - Returns bytes
    #[must_use]
    pub fn mi_malloc_usable_size(p: *const c_void) -> usize;

    /// Another name of `mi_good_size()`.
    ///
    /// - `size`: bytes
    /// - Returns bytes
    #[must_use]
    pub fn mi_malloc_good_size(size: usize) -> usize;

    /// As `mi_expand()`; sets `errno` to ENOMEM when the result is NULL.
    ///
    /// - `p`: the block
    /// - `newsize`: bytes
    /// - Returns `p` or NULL
    pub fn mi__expand(p: *mut c_void, newsize: usize) -> *mut c_void;
}

// -- C++ operator new --

extern "C" {
    /// As `operator new`.
    ///
    /// - `size`: bytes
    /// - Returns the block, never NULL
    #[must_use]
    pub fn mi_new(size: usize) -> *mut c_void;

    /// As `operator new` with an alignment. One that is no power of two fails without a call of the
    /// handler.
    ///
    /// - `size`: bytes
    /// - `alignment`: bytes
    /// - Returns the block, never NULL
    #[must_use]
    pub fn mi_new_aligned(size: usize, alignment: usize) -> *mut c_void;

    /// As `mi_new()`, for an array.
    ///
    /// - `count`: number of elements
    /// - `size`: bytes of an element
    /// - Returns the block; NULL only when the product overflows and a handler was called
    #[must_use]
    pub fn mi_new_n(count: usize, size: usize) -> *mut c_void;

    /// As `mi_realloc()`.
    ///
    /// - `p`: the block, or NULL
    /// - `newsize`: bytes
    /// - Returns the block, maybe elsewhere, never NULL
    #[must_use]
    pub fn mi_new_realloc(p: *mut c_void, newsize: usize) -> *mut c_void;

    /// As `mi_new_realloc()`, for an array.
    ///
    /// - `p`: the block, or NULL
    /// - `newcount`: number of elements
    /// - `size`: bytes of an element
    /// - Returns the block, maybe elsewhere; NULL only when the product overflows and a handler was
    ///   called
    #[must_use]
    pub fn mi_new_reallocn(p: *mut c_void, newcount: usize, size: usize) -> *mut c_void;

    /// As `operator new` with `std::nothrow`: a handler is called all the same.
    ///
    /// - `size`: bytes
    /// - Returns the block; NULL instead of an exception
    #[must_use]
    pub fn mi_new_nothrow(size: usize) -> *mut c_void;

    /// As `mi_new_aligned()` with `std::nothrow`.
    ///
    /// - `size`: bytes
    /// - `alignment`: bytes
    /// - Returns the block; NULL instead of an exception
    #[must_use]
    pub fn mi_new_aligned_nothrow(size: usize, alignment: usize) -> *mut c_void;
}

// -- Process, threads, collection --

extern "C" {
    /// Set up now instead of at the first allocation.
    pub fn mi_process_init();

    /// Finish: print statistics if an option asks for it. Allocation and free still work.
    pub fn mi_process_done();

    /// Set up the calling thread now instead of at its first allocation.
    pub fn mi_thread_init();

    /// Leave the free memory of the calling thread to others. It may go on to allocate and free.
    pub fn mi_thread_done();

    /// The calling thread runs unrelated tasks one after the other.
    pub fn mi_thread_set_in_threadpool();

    /// Return memory that the calling thread holds but does not need.
    ///
    /// - `force`: all of it, and to the system at once; else what is due
    pub fn mi_collect(force: bool);

    /// How long the calling thread may wait before it has memory to give back. Costs a look at the
    /// clock.
    ///
    /// - Returns milliseconds, as the timeout of poll(2): 0 when `mi_thread_idle()` has something to do
    ///   now, which is so half a second after the thread last needed more memory or gave some up; -1
    ///   when there will be nothing until it allocates or frees again
    pub fn mi_thread_idle_due() -> c_int;

    /// The calling thread is about to wait for long: give back what it does not use, in all its heaps.
    /// It keeps its pages that have blocks in use, without the memory between blocks if these are few.
    /// In a process without a purge thread free memory that is due goes back, too. The next allocations
    /// may take some microseconds more.
    pub fn mi_thread_idle();

    /// A forced `mi_collect()`, for programs of older versions.
    ///
    /// - `target_thread_owned`: ignored
    pub fn mi_collect_reduce(target_thread_owned: usize);

    /// What the process used. Any argument may be NULL.
    ///
    /// - `elapsed_msecs`: milliseconds since it started
    /// - `user_msecs`: milliseconds of processor time in the program
    /// - `system_msecs`: milliseconds of processor time in the system
    /// - `current_rss`: resident bytes, as the system sees it
    /// - `peak_rss`: the most there were
    /// - `current_commit`: bytes that the library may have resident: `committed` of `mi_stats_t`
    /// - `peak_commit`: the most there were, or a little more
    /// - `page_faults`: number of faults that had to read from a disk
    pub fn mi_process_info(
        elapsed_msecs: *mut usize,
        user_msecs: *mut usize,
        system_msecs: *mut usize,
        current_rss: *mut usize,
        peak_rss: *mut usize,
        current_commit: *mut usize,
        peak_commit: *mut usize,
        page_faults: *mut usize,
    );

    /// Print what `mi_process_info()` gives, as one line, to the registered output.
    pub fn mi_process_info_print();

    /// The same to a function.
    ///
    /// - `out`: NULL: the registered output
    /// - `arg`: passed to it
    pub fn mi_process_info_print_out(out: mi_output_fun, arg: *mut c_void);
}

// -- Callbacks of the process --

extern "C" {
    /// Register who frees what the program had put off. The function may allocate and free; it is not
    /// entered again on the thread it runs on. Inside of it `mi_thread_done()` and
    /// `mi_subproc_add_current_thread()` have no effect but a warning.
    ///
    /// - `deferred_free`: called now and then, and by `mi_collect()`
    /// - `arg`: passed to it
    pub fn mi_register_deferred_free(deferred_free: mi_deferred_free_fun, arg: *mut c_void);

    /// Register who prints messages, instead of standard error. The function receives at once what was
    /// printed before (up to 16 KiB). It should not allocate.
    ///
    /// - `out`: gets each message
    /// - `arg`: passed to it
    pub fn mi_register_output(out: mi_output_fun, arg: *mut c_void);

    /// Register who is told of errors, after their message was printed. Then the process ends or goes
    /// on, as the option `mi_option_abort_on_misuse` says: by default secure builds abort after any
    /// mistake, debug builds where memory is damaged and no function is registered, others never. The
    /// function may use all of the library; a mistake of its own does not call it again.
    ///
    /// - `fun`: called with an errno value
    /// - `arg`: passed to it
    pub fn mi_register_error(fun: mi_error_fun, arg: *mut c_void);

    /// Describe an address in words: its block, page, thread and heap on the first line, then the block
    /// and its neighbours.
    ///
    /// - `p`: any address
    /// - `buffer`: gets the text, zero-terminated, cut if it is too long; may be NULL
    /// - `size`: bytes of the buffer; 1000 are enough
    /// - Returns the length of the whole text
    pub fn mi_describe(p: *const c_void, buffer: *mut c_char, size: usize) -> usize;

    /// The same as JSON: one object on one line (RFC 8259).
    ///
    /// - `p`: any address
    /// - `buffer`: gets the text, zero-terminated, or an empty one if it is too long; may be
    ///   NULL
    /// - `size`: bytes of the buffer; 2000 are enough
    /// - Returns the length of the whole text
    pub fn mi_describe_json(p: *const c_void, buffer: *mut c_char, size: usize) -> usize;
}

// -- Heaps --

extern "C" {
    /// A fresh heap in the sub-process of the calling thread.
    ///
    /// - Returns the heap, or NULL
    #[must_use]
    pub fn mi_heap_new() -> *mut mi_heap_t;

    /// A fresh heap with all blocks in one arena; when that is full, allocation fails.
    ///
    /// - `arena_id`: the arena; NULL: as `mi_heap_new()`
    /// - Returns the heap, or NULL; with a warning, if the sub-process of the arena was ended
    #[must_use]
    pub fn mi_heap_new_in_arena(arena_id: mi_arena_id_t) -> *mut mi_heap_t;

    /// End a heap; its blocks in use stay valid and belong to the main heap from then on. No other
    /// thread may allocate from the heap at that time or later; blocks of it may be freed meanwhile.
    /// What is free beside such blocks serves the main heap, in an exclusive arena, too.
    ///
    /// - `heap`: NULL does nothing; the main heap stays, with a warning
    pub fn mi_heap_delete(heap: *mut mi_heap_t);

    /// End a heap and all its blocks, without a look at each block. No other thread may use the heap or
    /// its blocks at that time or later.
    ///
    /// - `heap`: NULL does nothing; the main heap stays, with a warning
    pub fn mi_heap_destroy(heap: *mut mi_heap_t);

    /// The heap that `mi_malloc()` allocates from, that of the sub-process of the calling thread.
    ///
    /// - Returns the heap, never NULL
    #[must_use]
    pub fn mi_heap_main() -> *mut mi_heap_t;

    /// The heap that has memory at an address. Nothing is said about whether a block there is in use.
    /// In constant time for a small block and the start of a large one; far inside a large one, and for
    /// an address that is not ours, it takes a lock, and time that grows with the block, or with the
    /// number of arenas and of blocks outside of them.
    ///
    /// - `p`: any address
    /// - Returns the heap; NULL for addresses that are not ours
    #[must_use]
    pub fn mi_heap_of(p: *const c_void) -> *mut mi_heap_t;

    /// Whether `mi_heap_of()` of an address is this heap.
    ///
    /// - `heap`: the heap
    /// - `p`: any address
    /// - Returns whether it is
    #[must_use]
    pub fn mi_heap_contains(heap: *const mi_heap_t, p: *const c_void) -> bool;

    /// Whether an address is in any heap.
    ///
    /// - `p`: any address
    /// - Returns whether it is
    #[must_use]
    pub fn mi_any_heap_contains(p: *const c_void) -> bool;

    /// Prefer memory of a NUMA node for what the heap takes from now on.
    ///
    /// - `heap`: the heap
    /// - `numa_node`: number of the node, modulo the number of nodes; negative: no preference
    pub fn mi_heap_set_numa_affinity(heap: *mut mi_heap_t, numa_node: c_int);

    /// As `mi_collect()`, for what the calling thread holds of a heap.
    ///
    /// - `heap`: the heap
    /// - `force`: all of it, and to the system at once; else what is due
    pub fn mi_heap_collect(heap: *mut mi_heap_t, force: bool);

    /// Another name of `mi_any_heap_contains()`.
    ///
    /// - `p`: any address
    /// - Returns whether it is in a heap
    #[must_use]
    pub fn mi_is_in_heap_region(p: *const c_void) -> bool;

    /// Another name of `mi_any_heap_contains()`.
    ///
    /// - `p`: any address
    /// - Returns whether it is in a heap
    #[must_use]
    pub fn mi_check_owned(p: *const c_void) -> bool;

    /// The heap that `mi_malloc()` of this thread allocates from.
    ///
    /// - Returns the heap
    #[must_use]
    pub fn mi_heap_get_default() -> *mut mi_heap_t;

    /// Change that heap, for this thread.
    ///
    /// - `heap`: the heap
    /// - Returns the one before
    pub fn mi_heap_set_default(heap: *mut mi_heap_t) -> *mut mi_heap_t;

    /// Another name of `mi_heap_main()`.
    ///
    /// - Returns the heap
    #[must_use]
    pub fn mi_heap_get_backing() -> *mut mi_heap_t;

    /// Another name of `mi_heap_contains()`.
    ///
    /// - `heap`: the heap
    /// - `p`: any address
    /// - Returns whether it is there
    #[must_use]
    pub fn mi_heap_contains_block(heap: *mut mi_heap_t, p: *const c_void) -> bool;

    /// Another name of `mi_heap_contains()`.
    ///
    /// - `heap`: the heap
    /// - `p`: any address
    /// - Returns whether it is there
    #[must_use]
    pub fn mi_heap_check_owned(heap: *mut mi_heap_t, p: *const c_void) -> bool;

    /// As `mi_heap_new_in_arena()`.
    ///
    /// - `heap_tag`: ignored
    /// - `allow_destroy`: ignored
    /// - `arena_id`: the arena; NULL: any
    /// - Returns the heap, or NULL
    #[must_use]
    pub fn mi_heap_new_ex(heap_tag: c_int, allow_destroy: bool, arena_id: mi_arena_id_t) -> *mut mi_heap_t;
}

// -- Allocation from heaps --

extern "C" {
    /// As `mi_malloc()`.
    ///
    /// - `heap`: the heap
    /// - `size`: bytes
    /// - Returns the block, or NULL
    #[must_use]
    pub fn mi_heap_malloc(heap: *mut mi_heap_t, size: usize) -> *mut c_void;

    /// As `mi_zalloc()`.
    ///
    /// - `heap`: the heap
    /// - `size`: bytes
    /// - Returns the block, or NULL
    #[must_use]
    pub fn mi_heap_zalloc(heap: *mut mi_heap_t, size: usize) -> *mut c_void;

    /// As `mi_calloc()`.
    ///
    /// - `heap`: the heap
    /// - `count`: number of elements
    /// - `size`: bytes of an element
    /// - Returns the block, or NULL
    #[must_use]
    pub fn mi_heap_calloc(heap: *mut mi_heap_t, count: usize, size: usize) -> *mut c_void;

    /// As `mi_mallocn()`.
    ///
    /// - `heap`: the heap
    /// - `count`: number of elements
    /// - `size`: bytes of an element
    /// - Returns the block, or NULL
    #[must_use]
    pub fn mi_heap_mallocn(heap: *mut mi_heap_t, count: usize, size: usize) -> *mut c_void;

    /// As `mi_malloc_small()`.
    ///
    /// - `heap`: the heap
    /// - `size`: at most MI_SMALL_SIZE_MAX bytes
    /// - Returns the block, or NULL
    #[must_use]
    pub fn mi_heap_malloc_small(heap: *mut mi_heap_t, size: usize) -> *mut c_void;

    /// As `mi_zalloc_small()`.
    ///
    /// - `heap`: the heap
    /// - `size`: at most MI_SMALL_SIZE_MAX bytes
    /// - Returns the block, or NULL
    #[must_use]
    pub fn mi_heap_zalloc_small(heap: *mut mi_heap_t, size: usize) -> *mut c_void;

    /// As `mi_realloc()`.
    ///
    /// - `heap`: the heap
    /// - `p`: the block, or NULL
    /// - `newsize`: bytes
    /// - Returns the block, maybe elsewhere; NULL on failure, with `p` untouched
    #[must_use]
    pub fn mi_heap_realloc(heap: *mut mi_heap_t, p: *mut c_void, newsize: usize) -> *mut c_void;

    /// As `mi_reallocn()`.
    ///
    /// - `heap`: the heap
    /// - `p`: the block, or NULL
    /// - `count`: number of elements
    /// - `size`: bytes of an element
    /// - Returns the block, maybe elsewhere; NULL on failure, with `p` untouched
    #[must_use]
    pub fn mi_heap_reallocn(heap: *mut mi_heap_t, p: *mut c_void, count: usize, size: usize) -> *mut c_void;

    /// As `mi_reallocf()`.
    ///
    /// - `heap`: the heap
    /// - `p`: the block, or NULL
    /// - `newsize`: bytes
    /// - Returns the block, maybe elsewhere; NULL on failure, with `p` freed
    #[must_use]
    pub fn mi_heap_reallocf(heap: *mut mi_heap_t, p: *mut c_void, newsize: usize) -> *mut c_void;

    /// As `mi_rezalloc()`.
    ///
    /// - `heap`: the heap
    /// - `p`: the block, or NULL
    /// - `newsize`: bytes
    /// - Returns the block, maybe elsewhere; NULL on failure, with `p` untouched
    #[must_use]
    pub fn mi_heap_rezalloc(heap: *mut mi_heap_t, p: *mut c_void, newsize: usize) -> *mut c_void;

    /// As `mi_recalloc()`.
    ///
    /// - `heap`: the heap
    /// - `p`: the block, or NULL
    /// - `newcount`: number of elements
    /// - `size`: bytes of an element
    /// - Returns the block, maybe elsewhere; NULL on failure, with `p` untouched
    #[must_use]
    pub fn mi_heap_recalloc(heap: *mut mi_heap_t, p: *mut c_void, newcount: usize, size: usize) -> *mut c_void;

    /// As `mi_strdup()`.
    ///
    /// - `heap`: the heap
    /// - `s`: zero-terminated
    /// - Returns the copy, or NULL
    #[must_use]
    pub fn mi_heap_strdup(heap: *mut mi_heap_t, s: *const c_char) -> *mut c_char;

    /// As `mi_strndup()`.
    ///
    /// - `heap`: the heap
    /// - `s`: a string
    /// - `n`: characters to copy at most
    /// - Returns the copy, or NULL
    #[must_use]
    pub fn mi_heap_strndup(heap: *mut mi_heap_t, s: *const c_char, n: usize) -> *mut c_char;

    /// As `mi_realpath()`.
    ///
    /// - `heap`: the heap
    /// - `fname`: path of an existing file
    /// - `resolved_name`: room for PATH_MAX characters, or NULL
    /// - Returns `resolved_name`, or a block when that is NULL; NULL on failure
    #[must_use]
    pub fn mi_heap_realpath(heap: *mut mi_heap_t, fname: *const c_char, resolved_name: *mut c_char) -> *mut c_char;

    /// As `mi_malloc_aligned()`.
    ///
    /// - `heap`: the heap
    /// - `size`: bytes
    /// - `alignment`: bytes
    /// - Returns the block, or NULL
    #[must_use]
    pub fn mi_heap_malloc_aligned(heap: *mut mi_heap_t, size: usize, alignment: usize) -> *mut c_void;

    /// As `mi_malloc_aligned_at()`.
    ///
    /// - `heap`: the heap
    /// - `size`: bytes
    /// - `alignment`: bytes
    /// - `offset`: bytes from the start to the address that is aligned
    /// - Returns the block, or NULL
    #[must_use]
    pub fn mi_heap_malloc_aligned_at(heap: *mut mi_heap_t, size: usize, alignment: usize, offset: usize) -> *mut c_void;

    /// As `mi_zalloc_aligned()`.
    ///
    /// - `heap`: the heap
    /// - `size`: bytes
    /// - `alignment`: bytes
    /// - Returns the block, or NULL
    #[must_use]
    pub fn mi_heap_zalloc_aligned(heap: *mut mi_heap_t, size: usize, alignment: usize) -> *mut c_void;

    /// As `mi_zalloc_aligned_at()`.
    ///
    /// - `heap`: the heap
    /// - `size`: bytes
    /// - `alignment`: bytes
    /// - `offset`: bytes from the start to the address that is aligned
    /// - Returns the block, or NULL
    #[must_use]
    pub fn mi_heap_zalloc_aligned_at(heap: *mut mi_heap_t, size: usize, alignment: usize, offset: usize) -> *mut c_void;

    /// As `mi_calloc_aligned()`.
    ///
    /// - `heap`: the heap
    /// - `count`: number of elements
    /// - `size`: bytes of an element
    /// - `alignment`: bytes
    /// - Returns the block, or NULL
    #[must_use]
    pub fn mi_heap_calloc_aligned(heap: *mut mi_heap_t, count: usize, size: usize, alignment: usize) -> *mut c_void;

    /// As `mi_calloc_aligned_at()`.
    ///
    /// - `heap`: the heap
    /// - `count`: number of elements
    /// - `size`: bytes of an element
    /// - `alignment`: bytes
    /// - `offset`: bytes from the start to the address that is aligned
    /// - Returns the block, or NULL
    #[must_use]
    pub fn mi_heap_calloc_aligned_at(
        heap: *mut mi_heap_t,
        count: usize,
        size: usize,
        alignment: usize,
        offset: usize,
    ) -> *mut c_void;

    /// As `mi_realloc_aligned()`.
    ///
    /// - `heap`: the heap
    /// - `p`: the block, or NULL
    /// - `newsize`: bytes
    /// - `alignment`: bytes
    /// - Returns the block, maybe elsewhere; NULL on failure, with `p` untouched
    #[must_use]
    pub fn mi_heap_realloc_aligned(
        heap: *mut mi_heap_t,
        p: *mut c_void,
        newsize: usize,
        alignment: usize,
    ) -> *mut c_void;

    /// As `mi_realloc_aligned_at()`.
    ///
    /// - `heap`: the heap
    /// - `p`: the block, or NULL
    /// - `newsize`: bytes
    /// - `alignment`: bytes
    /// - `offset`: bytes from the start to the address that is aligned
    /// - Returns the block, maybe elsewhere; NULL on failure, with `p` untouched
    #[must_use]
    pub fn mi_heap_realloc_aligned_at(
        heap: *mut mi_heap_t,
        p: *mut c_void,
        newsize: usize,
        alignment: usize,
        offset: usize,
    ) -> *mut c_void;

    /// As `mi_rezalloc_aligned()`.
    ///
    /// - `heap`: the heap
    /// - `p`: the block, or NULL
    /// - `newsize`: bytes
    /// - `alignment`: bytes
    /// - Returns the block, maybe elsewhere; NULL on failure, with `p` untouched
    #[must_use]
    pub fn mi_heap_rezalloc_aligned(
        heap: *mut mi_heap_t,
        p: *mut c_void,
        newsize: usize,
        alignment: usize,
    ) -> *mut c_void;

    /// As `mi_rezalloc_aligned_at()`.
    ///
    /// - `heap`: the heap
    /// - `p`: the block, or NULL
    /// - `newsize`: bytes
    /// - `alignment`: bytes
    /// - `offset`: bytes from the start to the address that is aligned
    /// - Returns the block, maybe elsewhere; NULL on failure, with `p` untouched
    #[must_use]
    pub fn mi_heap_rezalloc_aligned_at(
        heap: *mut mi_heap_t,
        p: *mut c_void,
        newsize: usize,
        alignment: usize,
        offset: usize,
    ) -> *mut c_void;

    /// As `mi_recalloc_aligned()`.
    ///
    /// - `heap`: the heap
    /// - `p`: the block, or NULL
    /// - `newcount`: number of elements
    /// - `size`: bytes of an element
    /// - `alignment`: bytes
    /// - Returns the block, maybe elsewhere; NULL on failure, with `p` untouched
    #[must_use]
    pub fn mi_heap_recalloc_aligned(
        heap: *mut mi_heap_t,
        p: *mut c_void,
        newcount: usize,
        size: usize,
        alignment: usize,
    ) -> *mut c_void;

    /// As `mi_recalloc_aligned_at()`.
    ///
    /// - `heap`: the heap
    /// - `p`: the block, or NULL
    /// - `newcount`: number of elements
    /// - `size`: bytes of an element
    /// - `alignment`: bytes
    /// - `offset`: bytes from the start to the address that is aligned
    /// - Returns the block, maybe elsewhere; NULL on failure, with `p` untouched
    #[must_use]
    pub fn mi_heap_recalloc_aligned_at(
        heap: *mut mi_heap_t,
        p: *mut c_void,
        newcount: usize,
        size: usize,
        alignment: usize,
        offset: usize,
    ) -> *mut c_void;

    /// As `mi_new()`.
    ///
    /// - `heap`: the heap
    /// - `size`: bytes
    /// - Returns the block, never NULL
    #[must_use]
    pub fn mi_heap_alloc_new(heap: *mut mi_heap_t, size: usize) -> *mut c_void;

    /// As `mi_new_n()`.
    ///
    /// - `heap`: the heap
    /// - `count`: number of elements
    /// - `size`: bytes of an element
    /// - Returns the block; NULL only when the product overflows and a handler was called
    #[must_use]
    pub fn mi_heap_alloc_new_n(heap: *mut mi_heap_t, count: usize, size: usize) -> *mut c_void;
}

// -- Theaps: one thread's part of a heap --

extern "C" {
    /// The calling thread's theap of a heap, made when needed.
    ///
    /// - `heap`: the heap
    /// - Returns the theap, or NULL
    #[must_use]
    pub fn mi_heap_theap(heap: *mut mi_heap_t) -> *mut mi_theap_t;

    /// The theap that `mi_malloc()` of this thread uses.
    ///
    /// - Returns the theap
    #[must_use]
    pub fn mi_theap_get_default() -> *mut mi_theap_t;

    /// Change that theap, for this thread.
    ///
    /// - `theap`: the theap; NULL changes nothing
    /// - Returns the one before
    pub fn mi_theap_set_default(theap: *mut mi_theap_t) -> *mut mi_theap_t;

    /// As `mi_collect()`.
    ///
    /// - `theap`: the theap
    /// - `force`: all of it, and to the system at once; else what is due
    pub fn mi_theap_collect(theap: *mut mi_theap_t, force: bool);

    /// As `mi_malloc()`.
    ///
    /// - `theap`: the theap
    /// - `size`: bytes
    /// - Returns the block, or NULL
    #[must_use]
    pub fn mi_theap_malloc(theap: *mut mi_theap_t, size: usize) -> *mut c_void;

    /// As `mi_zalloc()`.
    ///
    /// - `theap`: the theap
    /// - `size`: bytes
    /// - Returns the block, or NULL
    #[must_use]
    pub fn mi_theap_zalloc(theap: *mut mi_theap_t, size: usize) -> *mut c_void;

    /// As `mi_calloc()`.
    ///
    /// - `theap`: the theap
    /// - `count`: number of elements
    /// - `size`: bytes of an element
    /// - Returns the block, or NULL
    #[must_use]
    pub fn mi_theap_calloc(theap: *mut mi_theap_t, count: usize, size: usize) -> *mut c_void;

    /// As `mi_malloc_small()`.
    ///
    /// - `theap`: the theap
    /// - `size`: at most MI_SMALL_SIZE_MAX bytes
    /// - Returns the block, or NULL
    #[must_use]
    pub fn mi_theap_malloc_small(theap: *mut mi_theap_t, size: usize) -> *mut c_void;

    /// As `mi_zalloc_small()`.
    ///
    /// - `theap`: the theap
    /// - `size`: at most MI_SMALL_SIZE_MAX bytes
    /// - Returns the block, or NULL
    #[must_use]
    pub fn mi_theap_zalloc_small(theap: *mut mi_theap_t, size: usize) -> *mut c_void;

    /// As `mi_malloc_aligned()`.
    ///
    /// - `theap`: the theap
    /// - `size`: bytes
    /// - `alignment`: bytes
    /// - Returns the block, or NULL
    #[must_use]
    pub fn mi_theap_malloc_aligned(theap: *mut mi_theap_t, size: usize, alignment: usize) -> *mut c_void;

    /// As `mi_heap_realloc()`.
    ///
    /// - `theap`: the theap
    /// - `p`: the block, or NULL
    /// - `newsize`: bytes
    /// - Returns the block, maybe elsewhere; NULL on failure, with `p` untouched
    #[must_use]
    pub fn mi_theap_realloc(theap: *mut mi_theap_t, p: *mut c_void, newsize: usize) -> *mut c_void;

    /// How many blocks are guarded.
    ///
    /// - `theap`: the theap
    /// - `sample_rate`: one in so many; 0 none, 1 all
    /// - `seed`: with the same one the same blocks are chosen; 0: any
    pub fn mi_theap_guarded_set_sample_rate(theap: *mut mi_theap_t, sample_rate: usize, seed: usize);

    /// Which sizes are guarded.
    ///
    /// - `theap`: the theap
    /// - `min`: smallest size, bytes
    /// - `max`: largest size, bytes; not below `min`
    pub fn mi_theap_guarded_set_size_bound(theap: *mut mi_theap_t, min: usize, max: usize);

    /// As `mi_theap_guarded_set_sample_rate()` of the calling thread's theap (version 2).
    ///
    /// - `heap`: the heap
    /// - `sample_rate`: one in so many; 0 none, 1 all
    /// - `seed`: with the same one the same blocks are chosen; 0: any
    pub fn mi_heap_guarded_set_sample_rate(heap: *mut mi_heap_t, sample_rate: usize, seed: usize);

    /// As `mi_theap_guarded_set_size_bound()` of the calling thread's theap (version 2).
    ///
    /// - `heap`: the heap
    /// - `min`: smallest size, bytes
    /// - `max`: largest size, bytes
    pub fn mi_heap_guarded_set_size_bound(heap: *mut mi_heap_t, min: usize, max: usize);
}

// -- Sub-processes --

extern "C" {
    /// The sub-process that the process starts with.
    ///
    /// - Returns its id
    #[must_use]
    pub fn mi_subproc_main() -> mi_subproc_id_t;

    /// The sub-process of the calling thread.
    ///
    /// - Returns its id
    #[must_use]
    pub fn mi_subproc_current() -> mi_subproc_id_t;

    /// A fresh sub-process, with a main heap.
    ///
    /// - Returns its id; an id of NULL when there is no memory for it
    #[must_use]
    pub fn mi_subproc_new() -> mi_subproc_id_t;

    /// End a sub-process: all its heaps and blocks, and all its memory. Its threads must have ended.
    ///
    /// - `subproc`: with threads in it, it stays, with a warning; the main one and NULL are ignored
    pub fn mi_subproc_destroy(subproc: mi_subproc_id_t);

    /// As `mi_subproc_destroy()`, but blocks in use stay valid, and the rest ends when none is left
    /// (version 3.1).
    ///
    /// - `subproc`: as above
    pub fn mi_subproc_delete(subproc: mi_subproc_id_t);

    /// Move the calling thread to a sub-process, until the thread ends. What it allocated before stays
    /// where it was. A thread that was moved before stays where it is, with a warning.
    ///
    /// - `subproc`: the new one
    pub fn mi_subproc_add_current_thread(subproc: mi_subproc_id_t);

    /// Visit each heap.
    ///
    /// - `subproc`: whose heaps
    /// - `visitor`: must not make or end heaps
    /// - `arg`: passed to it
    /// - Returns false when the visitor returned false, or is NULL, or there is no memory for the visit
    pub fn mi_subproc_visit_heaps(subproc: mi_subproc_id_t, visitor: mi_heap_visit_fun, arg: *mut c_void) -> bool;
}

// -- Arenas: memory that the program reserves or brings along --

extern "C" {
    /// Reserve memory of the system.
    ///
    /// - `size`: bytes, rounded up to whole `mi_arena_min_size()`
    /// - `commit`: make it usable at once, else as it is needed
    /// - `allow_large`: use explicit large pages of the system if it has any
    /// - Returns 0 or ENOMEM
    pub fn mi_reserve_os_memory(size: usize, commit: bool, allow_large: bool) -> c_int;

    /// As `mi_reserve_os_memory()`.
    ///
    /// - `size`: bytes
    /// - `commit`: make it usable at once
    /// - `allow_large`: use explicit large pages
    /// - `exclusive`: only for heaps that ask for it
    /// - `arena_id`: the arena
    /// - Returns 0 or ENOMEM
    pub fn mi_reserve_os_memory_ex(
        size: usize,
        commit: bool,
        allow_large: bool,
        exclusive: bool,
        arena_id: *mut mi_arena_id_t,
    ) -> c_int;

    /// Use memory of the program, which must stay valid as long as the process.
    ///
    /// - `start`: first byte, rounded up to `mi_arena_min_alignment()`
    /// - `size`: bytes; the end is rounded down, and if less than `mi_arena_min_size()` is left, it
    ///   is refused with a warning
    /// - `is_committed`: usable now; else the library makes it so by mprotect(2)
    /// - `is_pinned`: must not be given back to the system. (That is never done on macOS and BSDs,
    ///   which can give contents back only by another mapping.)
    /// - `is_zero`: reads as zero
    /// - `numa_node`: number of the node it is at; -1: unknown
    /// - Returns success
    pub fn mi_manage_os_memory(
        start: *mut c_void,
        size: usize,
        is_committed: bool,
        is_pinned: bool,
        is_zero: bool,
        numa_node: c_int,
    ) -> bool;

    /// As `mi_manage_os_memory()`.
    ///
    /// - `start`: first byte
    /// - `size`: bytes
    /// - `is_committed`: usable now
    /// - `is_pinned`: must not be given back to the system
    /// - `is_zero`: reads as zero
    /// - `numa_node`: number of the node; -1: unknown
    /// - `exclusive`: only for heaps that ask for it
    /// - `arena_id`: the arena
    /// - Returns success
    pub fn mi_manage_os_memory_ex(
        start: *mut c_void,
        size: usize,
        is_committed: bool,
        is_pinned: bool,
        is_zero: bool,
        numa_node: c_int,
        exclusive: bool,
        arena_id: *mut mi_arena_id_t,
    ) -> bool;

    /// As `mi_manage_os_memory_ex()`, with a function of the program that makes memory usable and gives
    /// it back.
    ///
    /// - `start`: first byte
    /// - `size`: bytes
    /// - `is_committed`: usable now; else the function makes it so
    /// - `is_pinned`: must not be given back
    /// - `is_zero`: reads as zero
    /// - `numa_node`: number of the node; -1: unknown
    /// - `exclusive`: only for heaps that ask for it
    /// - `commit_fun`: the function
    /// - `commit_fun_arg`: passed to it
    /// - `arena_id`: the arena
    /// - Returns success
    pub fn mi_manage_memory(
        start: *mut c_void,
        size: usize,
        is_committed: bool,
        is_pinned: bool,
        is_zero: bool,
        numa_node: c_int,
        exclusive: bool,
        commit_fun: mi_commit_fun_t,
        commit_fun_arg: *mut c_void,
        arena_id: *mut mi_arena_id_t,
    ) -> bool;

    /// Reserve huge OS pages of 1 GiB, evenly over NUMA nodes. They come one after the other, until
    /// that takes longer than twice the time; a part is a success. They are never given back.
    ///
    /// - `pages`: how many
    /// - `numa_nodes`: over how many nodes; 0: all
    /// - `timeout_msecs`: milliseconds; 0: no limit
    /// - Returns 0 or ENOMEM
    pub fn mi_reserve_huge_os_pages_interleave(pages: usize, numa_nodes: usize, timeout_msecs: usize) -> c_int;

    /// As `mi_reserve_huge_os_pages_interleave()`, at one node; what it has not, others give.
    ///
    /// - `pages`: how many, of 1 GiB
    /// - `numa_node`: number of the node, modulo the number of nodes; -1: any
    /// - `timeout_msecs`: milliseconds; 0: no limit
    /// - Returns 0 or ENOMEM
    pub fn mi_reserve_huge_os_pages_at(pages: usize, numa_node: c_int, timeout_msecs: usize) -> c_int;

    /// As `mi_reserve_huge_os_pages_at()`.
    ///
    /// - `pages`: how many, of 1 GiB
    /// - `numa_node`: number of the node, modulo the number of nodes; -1: any
    /// - `timeout_msecs`: milliseconds; 0: no limit
    /// - `exclusive`: only for heaps that ask for it
    /// - `arena_id`: the arena
    /// - Returns 0 or ENOMEM
    pub fn mi_reserve_huge_os_pages_at_ex(
        pages: usize,
        numa_node: c_int,
        timeout_msecs: usize,
        exclusive: bool,
        arena_id: *mut mi_arena_id_t,
    ) -> c_int;

    /// Older form of `mi_reserve_huge_os_pages_interleave()`, over all nodes.
    ///
    /// - `pages`: how many, of 1 GiB
    /// - `max_secs`: seconds; 0: no limit
    /// - `pages_reserved`: `pages` on success, else 0; may be NULL
    /// - Returns 0 or ENOMEM
    pub fn mi_reserve_huge_os_pages(pages: usize, max_secs: f64, pages_reserved: *mut usize) -> c_int;

    /// What starts of arenas are rounded to.
    ///
    /// - Returns bytes
    #[must_use]
    pub fn mi_arena_min_alignment() -> usize;

    /// The least memory an arena can have.
    ///
    /// - Returns bytes
    #[must_use]
    pub fn mi_arena_min_size() -> usize;

    /// Where an arena is.
    ///
    /// - `arena_id`: the arena
    /// - `size`: its bytes, 0 for NULL; may be NULL
    /// - Returns its start; NULL for NULL
    #[must_use]
    pub fn mi_arena_area(arena_id: mi_arena_id_t, size: *mut usize) -> *mut c_void;

    /// Whether an address is in an arena.
    ///
    /// - `arena_id`: the arena
    /// - `p`: any address
    /// - Returns whether it is
    #[must_use]
    pub fn mi_arena_contains(arena_id: mi_arena_id_t, p: *const c_void) -> bool;

    /// Print a map of the slices of each arena to the registered output, for people.
    pub fn mi_arenas_print();

    /// Another name of `mi_arenas_print()`.
    pub fn mi_debug_show_arenas();

    /// Whether malloc of the C library leads here, on Windows and macOS.
    ///
    /// - Returns whether it does; elsewhere false
    #[must_use]
    pub fn mi_is_redirected() -> bool;

    /// Take an arena out of use.
    ///
    /// - `arena_id`: ignored
    /// - `base`: ignored
    /// - `accessed_size`: ignored
    /// - `full_size`: ignored
    /// - Returns false
    pub fn mi_arena_unload(
        arena_id: mi_arena_id_t,
        base: *mut *mut c_void,
        accessed_size: *mut usize,
        full_size: *mut usize,
    ) -> bool;

    /// Put it back.
    ///
    /// - `start`: ignored
    /// - `size`: ignored
    /// - `arena_id`: ignored
    /// - Returns false
    pub fn mi_arena_reload(start: *mut c_void, size: usize, arena_id: *mut mi_arena_id_t) -> bool;

    /// Take a heap out of use.
    ///
    /// - `heap`: ignored
    /// - Returns false
    pub fn mi_heap_unload(heap: *mut mi_heap_t) -> bool;

    /// Put it back.
    ///
    /// - `heap`: ignored
    /// - `arena_id`: ignored
    /// - Returns false
    pub fn mi_heap_reload(heap: *mut mi_heap_t, arena_id: mi_arena_id_t) -> bool;
}

// -- Introspection --

extern "C" {
    /// Visit what is in a heap.
    ///
    /// - `heap`: the heap
    /// - `visit_blocks`: blocks too, not only areas
    /// - `visitor`: called for each
    /// - `arg`: passed to it
    /// - Returns false when the visitor returned false, or is NULL, or there is no memory for the visit
    pub fn mi_heap_visit_blocks(
        heap: *mut mi_heap_t,
        visit_blocks: bool,
        visitor: mi_block_visit_fun,
        arg: *mut c_void,
    ) -> bool;

    /// Visit the memory of a heap that no thread holds: of threads that ended, pages that are full,
    /// large blocks.
    ///
    /// - `heap`: the heap
    /// - `visit_blocks`: blocks too, not only areas
    /// - `visitor`: called for each
    /// - `arg`: passed to it
    /// - Returns false when the visitor returned false, or is NULL, or there is no memory for the visit
    pub fn mi_heap_visit_abandoned_blocks(
        heap: *mut mi_heap_t,
        visit_blocks: bool,
        visitor: mi_block_visit_fun,
        arg: *mut c_void,
    ) -> bool;

    /// The same for all heaps of a sub-process (version 3.1).
    ///
    /// - `subproc`: the sub-process
    /// - `heap_tag`: ignored
    /// - `visit_blocks`: blocks too, not only areas
    /// - `visitor`: called for each
    /// - `arg`: passed to it
    /// - Returns false when the visitor returned false, or is NULL, or there is no memory for the visit
    pub fn mi_abandoned_visit_blocks(
        subproc: mi_subproc_id_t,
        heap_tag: c_int,
        visit_blocks: bool,
        visitor: mi_block_visit_fun,
        arg: *mut c_void,
    ) -> bool;

    /// Visit what one theap holds.
    ///
    /// - `theap`: the theap
    /// - `visit_blocks`: blocks too, not only areas
    /// - `visitor`: called for each
    /// - `arg`: passed to it
    /// - Returns false when the visitor returned false, or is NULL, or there is no memory for the visit
    pub fn mi_theap_visit_blocks(
        theap: *const mi_theap_t,
        visit_blocks: bool,
        visitor: mi_block_visit_fun,
        arg: *mut c_void,
    ) -> bool;

    /// For programs that defragment: whether it pays to move a block elsewhere. True when all blocks of
    /// its page were used once, some are free, malloc does not use the page at the moment, and few
    /// enough are in use. No other thread may touch the page meanwhile.
    ///
    /// - `heap`: which the page must be of; NULL: any
    /// - `p`: the block
    /// - `perc_threshold`: percent of the blocks that may be in use
    /// - Returns whether it pays
    #[must_use]
    pub fn mi_unsafe_heap_page_is_under_utilized(heap: *mut mi_heap_t, p: *mut c_void, perc_threshold: usize) -> bool;
}

// -- Statistics --

extern "C" {
    /// Print statistics of the sub-process of the calling thread, and what the process used.
    ///
    /// - `out`: NULL: the registered output
    /// - `arg`: passed to it
    pub fn mi_stats_print_out(out: mi_output_fun, arg: *mut c_void);

    /// As `mi_stats_print_out()`: a thread has no figures of its own.
    ///
    /// - `out`: NULL: the registered output
    /// - `arg`: passed to it
    pub fn mi_thread_stats_print_out(out: mi_output_fun, arg: *mut c_void);

    /// Print statistics of a sub-process.
    ///
    /// - `subproc`: the sub-process
    /// - `out`: NULL: the registered output
    /// - `arg`: passed to it
    pub fn mi_subproc_stats_print_out(subproc: mi_subproc_id_t, out: mi_output_fun, arg: *mut c_void);

    /// Print statistics of each heap of a sub-process, and then its own.
    ///
    /// - `subproc`: the sub-process
    /// - `out`: NULL: the registered output
    /// - `arg`: passed to it
    pub fn mi_subproc_heap_stats_print_out(subproc: mi_subproc_id_t, out: mi_output_fun, arg: *mut c_void);

    /// Print statistics of a heap.
    ///
    /// - `heap`: the heap; NULL: the main heap
    /// - `out`: NULL: the registered output
    /// - `arg`: passed to it
    pub fn mi_heap_stats_print_out(heap: *mut mi_heap_t, out: mi_output_fun, arg: *mut c_void);

    /// Say where the memory of the process is: what is resident of it is in use, free in pages, kept,
    /// metadata, or not ours; the same by size of blocks, by heap and by thread; what a collect would
    /// give back; a map of the arenas; and the call sites with most bytes in use, if there is a
    /// profile. Of this library alone. The guide has an example, and the program mimalloc-inspect says
    /// the same from outside.
    ///
    /// What is resident is asked of the system, for each OS page (`pagemap`, proc(5)); on systems other
    /// than Linux it is what the system charges for, as far as the library knows. How exact the blocks
    /// in use are, says mimalloc-stats.h; while other threads work, figures may contradict each other a
    /// little. It takes 20 to 60 ms for each GiB that is resident. Allocates nothing, so that it
    /// changes no figure; `out` may. Any thread may call it. It opens files: not for a process in a
    /// sandbox.
    ///
    /// - `out`: NULL: the registered output
    /// - `arg`: passed to it
    pub fn mi_explain(out: mi_output_fun, arg: *mut c_void);
}

/// How metrics are written.
pub type mi_metrics_format_t = c_int;

/// the text format of Prometheus, version 0.0.4
pub const mi_metrics_prometheus: mi_metrics_format_t = 0;
/// OpenMetrics, version 1.0
pub const mi_metrics_openmetrics: mi_metrics_format_t = 1;

extern "C" {
    /// Write all metrics. Allocates nothing.
    ///
    /// - `format`: how
    /// - `buffer`: gets the text, zero-terminated, or an empty one if it is too long; may be
    ///   NULL
    /// - `size`: bytes of the buffer; 32 KiB are enough
    /// - Returns the length of the whole text, as snprintf says it: it fits if that is below `size`. The
    ///   next call may need a little more, because figures change. 0 if the format is unknown
    pub fn mi_metrics(format: mi_metrics_format_t, buffer: *mut c_char, size: usize) -> usize;

    /// As `mi_stats_print_out()` to the registered output.
    ///
    /// - `out`: ignored
    pub fn mi_stats_print(out: *mut c_void);

    /// Nothing to do: figures are always complete.
    pub fn mi_stats_reset();

    /// Nothing to do: figures are always complete.
    pub fn mi_stats_merge();

    /// As `mi_thread_stats_print_out()`.
    ///
    /// - `out`: NULL: the registered output
    pub fn mi_thread_stats_print(out: mi_output_fun);
}

// -- Options --

/// The numbers are part of the binary interface; from 1000 on they are of this library alone.
/// Options that say deprecated do nothing.
/// `mi_option_destroy_on_exit` is for tools that count what is left at the end: with 1 the end of
/// the process, with 2 a call of `mi_process_done()` unmaps all memory. Blocks are gone then, and a
/// free of one does nothing. Not where the library replaces malloc, and not while other threads use
/// it.
pub type mi_option_t = c_int;

/// print errors and warnings
pub const mi_option_show_errors: mi_option_t = 0;
/// print statistics at the end
pub const mi_option_show_stats: mi_option_t = 1;
/// print what happens
pub const mi_option_verbose: mi_option_t = 2;
/// no effect
pub const mi_option_deprecated_eager_commit: mi_option_t = 3;
/// commit whole: 0 no, 1 yes, 2 if overcommitted
pub const mi_option_arena_eager_commit: mi_option_t = 4;
/// unused memory: 1 goes back, 0 may be taken
pub const mi_option_purge_decommits: mi_option_t = 5;
/// explicit 2 MiB pages; that memory stays
pub const mi_option_allow_large_os_pages: mi_option_t = 6;
/// number of 1 GiB pages to reserve at the start
pub const mi_option_reserve_huge_os_pages: mi_option_t = 7;
/// their NUMA node, -1 evenly over all
pub const mi_option_reserve_huge_os_pages_at: mi_option_t = 8;
/// KiB to reserve at the start
pub const mi_option_reserve_os_memory: mi_option_t = 9;
/// no effect
pub const mi_option_deprecated_segment_cache: mi_option_t = 10;
/// no effect
pub const mi_option_deprecated_page_reset: mi_option_t = 11;
/// no effect
pub const mi_option_deprecated_abandoned_page_purge: mi_option_t = 12;
/// no effect
pub const mi_option_deprecated_segment_reset: mi_option_t = 13;
/// no effect
pub const mi_option_deprecated_eager_commit_delay: mi_option_t = 14;
/// ms until unused memory goes back; -1 never
pub const mi_option_purge_delay: mi_option_t = 15;
/// pretend to have so many nodes; 0 ask the system
pub const mi_option_use_numa_nodes: mi_option_t = 16;
/// use reserved memory only
pub const mi_option_disallow_os_alloc: mi_option_t = 17;
/// macOS: tag of mappings
pub const mi_option_os_tag: mi_option_t = 18;
/// print at most so many errors; -1 all
pub const mi_option_max_errors: mi_option_t = 19;
/// print at most so many warnings; -1 all
pub const mi_option_max_warnings: mi_option_t = 20;
/// no effect
pub const mi_option_deprecated_max_segment_reclaim: mi_option_t = 21;
/// unmap all at the end: 1 always, 2 when asked
pub const mi_option_destroy_on_exit: mi_option_t = 22;
/// KiB that an arena may grow to
pub const mi_option_arena_reserve: mi_option_t = 23;
/// purge delay of arenas, in multiples of `purge_delay`
pub const mi_option_arena_purge_mult: mi_option_t = 24;
/// no effect
pub const mi_option_deprecated_purge_extend_delay: mi_option_t = 25;
/// use no arenas
pub const mi_option_disallow_arena_alloc: mi_option_t = 26;
/// no effect: milliseconds to keep trying, on Windows
pub const mi_option_retry_on_oom: mi_option_t = 27;
/// always on: visitors find all abandoned memory
pub const mi_option_visit_abandoned: mi_option_t = 28;
/// smallest size of guarded blocks, bytes
pub const mi_option_guarded_min: mi_option_t = 29;
/// largest size of guarded blocks, bytes
pub const mi_option_guarded_max: mi_option_t = 30;
/// guard to the byte, even if that breaks the alignment
pub const mi_option_guarded_precise: mi_option_t = 31;
/// guard one block in so many; 0 none
pub const mi_option_guarded_sample_rate: mi_option_t = 32;
/// chooses which blocks; 0 any
pub const mi_option_guarded_sample_seed: mi_option_t = 33;
/// collect after so many slow allocations
pub const mi_option_generic_collect: mi_option_t = 34;
/// keep pages when freeing: -1 none, 0 own, 1 all
pub const mi_option_page_reclaim_on_free: mi_option_t = 35;
/// no effect: full pages belong to nobody
pub const mi_option_page_full_retain: mi_option_t = 36;
/// no effect: the oldest page is taken
pub const mi_option_page_max_candidates: mi_option_t = 37;
/// no effect: all addresses are served
pub const mi_option_max_vabits: mi_option_t = 38;
/// fault the page map in as a whole
pub const mi_option_pagemap_commit: mi_option_t = 39;
/// no effect: pages are committed as a whole
pub const mi_option_page_commit_on_demand: mi_option_t = 40;
/// limit of own pages kept so per size, -1 none
pub const mi_option_page_max_reclaim: mi_option_t = 41;
/// the same for pages of other threads
pub const mi_option_page_cross_thread_max_reclaim: mi_option_t = 42;
/// huge pages: 0 never, 1 where they pay, 2 all
pub const mi_option_allow_thp: mi_option_t = 43;
/// KiB; smaller ranges are kept
pub const mi_option_minimal_purge_size: mi_option_t = 44;
/// KiB; larger blocks get a mapping of their own
pub const mi_option_arena_max_object_size: mi_option_t = 45;
/// arenas belong to the node of their maker
pub const mi_option_arena_is_numa_local: mi_option_t = 46;
/// how many there are with the numbers above
pub const _mi_option_last: mi_option_t = 47;
/// `realloc` and `memalign` as in libc, `mi_realloc` is not
pub const mi_option_libc_semantics: mi_option_t = 1000;
/// `dlopen` ignores `RTLD_DEEPBIND` (glibc, shared library)
pub const mi_option_drop_deepbind: mi_option_t = 1001;
/// 0 no, 1 if memory is damaged, 2 any: ends the process
pub const mi_option_abort_on_misuse: mi_option_t = 1002;
/// clear what is freed (secure builds)
pub const mi_option_zero_on_free: mi_option_t = 1003;
/// each report of a mistake is a line of JSON
pub const mi_option_report_json: mi_option_t = 1004;
/// KiB that each thread keeps of what it frees (secure builds)
pub const mi_option_quarantine: mi_option_t = 1005;
/// clear what is allocated (secure builds)
pub const mi_option_zero_on_allocation: mi_option_t = 1006;
/// mean bytes between samples of a heap profile
pub const mi_option_profile_rate: mi_option_t = 1007;
/// profile from the start, and print what is in use at the end
pub const mi_option_profile_leaks: mi_option_t = 1008;
/// a thread purges: 0 never, 1 always, 2 beside other threads
pub const mi_option_purge_thread: mi_option_t = 1009;
/// KiB that may be in use; 0 the limit of the container, -1 none
pub const mi_option_memory_limit: mi_option_t = 1010;
/// older name
pub const mi_option_eager_region_commit: mi_option_t = mi_option_arena_eager_commit;
/// older name
pub const mi_option_reset_decommits: mi_option_t = mi_option_purge_decommits;
/// older name
pub const mi_option_large_os_pages: mi_option_t = mi_option_allow_large_os_pages;
/// older name
pub const mi_option_abandoned_page_reset: mi_option_t = mi_option_deprecated_abandoned_page_purge;
/// older name
pub const mi_option_reset_delay: mi_option_t = mi_option_purge_delay;
/// older name
pub const mi_option_limit_os_alloc: mi_option_t = mi_option_disallow_os_alloc;

extern "C" {
    /// The value of an option.
    ///
    /// - `option`: which
    /// - Returns the value; 0 for a number that is no option
    #[must_use]
    pub fn mi_option_get(option: mi_option_t) -> c_long;

    /// The value of an option within bounds.
    ///
    /// - `option`: which
    /// - `min`: the least result
    /// - `max`: the greatest result
    /// - Returns the value, but at least `min` and at most `max`
    #[must_use]
    pub fn mi_option_get_clamp(option: mi_option_t, min: c_long, max: c_long) -> c_long;

    /// The value of an option that counts KiB, in bytes.
    ///
    /// - `option`: which; the value of other options is taken as it is
    /// - Returns bytes; 0 for negative values
    #[must_use]
    pub fn mi_option_get_size(option: mi_option_t) -> usize;

    /// Set a value, over the environment and any default.
    ///
    /// - `option`: which; a number that is no option is ignored
    /// - `value`: in the unit of the option, also KiB
    pub fn mi_option_set(option: mi_option_t, value: c_long);

    /// Set a value unless the environment or `mi_option_set()` did.
    ///
    /// - `option`: which
    /// - `value`: in the unit of the option
    pub fn mi_option_set_default(option: mi_option_t, value: c_long);

    /// Whether an option is on.
    ///
    /// - `option`: which
    /// - Returns whether its value is not 0
    #[must_use]
    pub fn mi_option_is_enabled(option: mi_option_t) -> bool;

    /// Set an option to 1.
    ///
    /// - `option`: which
    pub fn mi_option_enable(option: mi_option_t);

    /// Set an option to 0.
    ///
    /// - `option`: which
    pub fn mi_option_disable(option: mi_option_t);

    /// Set an option to 0 or 1.
    ///
    /// - `option`: which
    /// - `enable`: to 1, else to 0
    pub fn mi_option_set_enabled(option: mi_option_t, enable: bool);

    /// As `mi_option_set_default()`, to 0 or 1.
    ///
    /// - `option`: which
    /// - `enable`: to 1, else to 0
    pub fn mi_option_set_enabled_default(option: mi_option_t, enable: bool);

    /// Print version, options and build to the registered output.
    pub fn mi_options_print();

    /// The same to a function.
    ///
    /// - `out`: NULL: the registered output
    /// - `arg`: passed to it
    pub fn mi_options_print_out(out: mi_output_fun, arg: *mut c_void);
}

/// The version of the layout of `mi_stats_t`.
pub const MI_STAT_VERSION: usize = 5;

/// An amount that goes up and down.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct mi_stat_count_t {
    /// ever; where that is not counted, as `peak`
    pub total: i64,
    /// the most there was; where that is not counted, as `current`
    pub peak: i64,
    /// now
    pub current: i64,
}

/// A number of events.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct mi_stat_counter_t {
    /// ever
    pub total: i64,
}

/// Kinds of chunks of arenas by what is in them. Not counted.
pub type mi_chunkbin_t = c_int;

/// small blocks
pub const MI_CBIN_SMALL: mi_chunkbin_t = 0;
/// several kinds
pub const MI_CBIN_OTHER: mi_chunkbin_t = 1;
/// medium blocks
pub const MI_CBIN_MEDIUM: mi_chunkbin_t = 2;
/// large blocks
pub const MI_CBIN_LARGE: mi_chunkbin_t = 3;
/// a part of one block
pub const MI_CBIN_HUGE: mi_chunkbin_t = 4;
/// nothing
pub const MI_CBIN_NONE: mi_chunkbin_t = 5;
/// how many kinds there are
pub const MI_CBIN_COUNT: mi_chunkbin_t = 6;

/// The bin of blocks with a page of their own.
pub const MI_BIN_HUGE: usize = 73;

/// Number of bins, each of blocks of one or two sizes; the last one is for blocks with a page of
/// their own.
pub const MI_BIN_COUNT: usize = MI_BIN_HUGE + 1;

/// Statistics.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct mi_stats_t {
    /// sizeof(mi_stats_t), set by the caller
    pub size: usize,
    /// MI_STAT_VERSION, set by the caller
    pub version: usize,
    /// runs of memory that blocks of one size share
    pub pages: mi_stat_count_t,
    /// bytes of address space in arenas
    pub reserved: mi_stat_count_t,
    /// bytes that may be resident, with metadata: see above
    pub committed: mi_stat_count_t,
    /// bytes that the system may take when it needs them
    pub reset: mi_stat_counter_t,
    /// bytes given back
    pub purged: mi_stat_counter_t,
    /// bytes of these pages that were handed out at least once
    pub page_committed: mi_stat_count_t,
    /// pages without a thread, with room for others
    pub pages_abandoned: mi_stat_count_t,
    /// threads there are
    pub threads: mi_stat_count_t,
    /// bytes of blocks in use that share a page
    pub malloc_normal: mi_stat_count_t,
    /// bytes of blocks in use with a page of their own
    pub malloc_huge: mi_stat_count_t,
    /// bytes asked for; counted by debug builds, else 0
    pub malloc_requested: mi_stat_count_t,
    /// calls of mmap(2)
    pub mmap_calls: mi_stat_counter_t,
    /// calls to make memory usable
    pub commit_calls: mi_stat_counter_t,
    /// calls that let the system take memory
    pub reset_calls: mi_stat_counter_t,
    /// calls that gave memory back
    pub purge_calls: mi_stat_counter_t,
    /// arenas made
    pub arena_count: mi_stat_counter_t,
    /// not counted: 0
    pub malloc_normal_count: mi_stat_counter_t,
    /// blocks with a page of their own, ever made
    pub malloc_huge_count: mi_stat_counter_t,
    /// blocks between guards, ever made
    pub malloc_guarded_count: mi_stat_counter_t,
    /// memory that was reserved, but the system refused
    pub arena_rollback_count: mi_stat_counter_t,
    /// as purge_calls
    pub arena_purges: mi_stat_counter_t,
    /// not counted: 0
    pub pages_extended: mi_stat_counter_t,
    /// not counted: 0
    pub pages_retire: mi_stat_counter_t,
    /// not counted: 0
    pub page_searches: mi_stat_counter_t,
    /// not counted: 0
    pub page_searches_count: mi_stat_counter_t,
    /// of older versions: 0
    pub segments: mi_stat_count_t,
    /// of older versions: 0
    pub segments_abandoned: mi_stat_count_t,
    /// of older versions: 0
    pub segments_cache: mi_stat_count_t,
    /// of older versions: 0
    pub _segments_reserved: mi_stat_count_t,
    /// heaps there are
    pub heaps: mi_stat_count_t,
    /// parts of heaps that belong to threads; `peak` is at most that
    pub theaps: mi_stat_count_t,
    /// pages taken over by an allocation
    pub pages_reclaim_on_alloc: mi_stat_counter_t,
    /// pages taken over by a free
    pub pages_reclaim_on_free: mi_stat_counter_t,
    /// pages that became full while they had no thread
    pub pages_reabandon_full: mi_stat_counter_t,
    /// nobody waits for a page: 0
    pub pages_unabandon_busy_wait: mi_stat_counter_t,
    /// nobody waits for a heap: 0
    pub heaps_delete_wait: mi_stat_counter_t,
    /// 0
    pub _stat_reserved: [mi_stat_count_t; 4],
    /// 0
    pub _stat_counter_reserved: [mi_stat_counter_t; 4],
    /// blocks of each size; of all heaps with `total`
    pub malloc_bins: [mi_stat_count_t; MI_BIN_COUNT as usize],
    pub page_bins: [mi_stat_count_t; MI_BIN_COUNT as usize],
    /// not counted: 0
    pub chunk_bins: [mi_stat_count_t; MI_CBIN_COUNT as usize],
}

extern "C" {
    /// Fill a prepared structure with the figures of the sub-process of the calling thread.
    ///
    /// - `stats`: prepared by `mi_stats_init()` or mi_stats_t_decl
    /// - Returns false, with nothing written, when `stats` is NULL or was prepared for another layout
    pub fn mi_stats_get(stats: *mut mi_stats_t) -> bool;

    /// As `mi_stats_get()`, of one sub-process with all its heaps.
    ///
    /// - `subproc`: the sub-process
    /// - `stats`: prepared as there
    /// - Returns false as there, and when there is no sub-process (an id of NULL)
    pub fn mi_subproc_stats_get(subproc: mi_subproc_id_t, stats: *mut mi_stats_t) -> bool;

    /// As `mi_subproc_stats_get()`, of what belongs to no heap of a sub-process.
    ///
    /// - `subproc`: the sub-process
    /// - `stats`: prepared as there
    /// - Returns as there
    pub fn mi_subproc_stats_get_exclusive(subproc: mi_subproc_id_t, stats: *mut mi_stats_t) -> bool;

    /// As `mi_stats_get()`, of one heap.
    ///
    /// - `heap`: the heap; NULL: the main heap
    /// - `stats`: prepared as there
    /// - Returns as there
    pub fn mi_heap_stats_get(heap: *mut mi_heap_t, stats: *mut mi_stats_t) -> bool;

    /// What `mi_stats_get()` gives, as JSON.
    ///
    /// - `buf_size`: bytes of the buffer; 0: a block
    /// - `buf`: the buffer; NULL: a block
    /// - Returns the text, or NULL
    pub fn mi_stats_get_json(buf_size: usize, buf: *mut c_char) -> *mut c_char;

    /// What `mi_subproc_stats_get()` gives, as JSON.
    ///
    /// - `subproc`: the sub-process
    /// - `buf_size`: bytes of the buffer; 0: a block
    /// - `buf`: the buffer; NULL: a block
    /// - Returns the text, or NULL
    pub fn mi_subproc_stats_get_json(subproc: mi_subproc_id_t, buf_size: usize, buf: *mut c_char) -> *mut c_char;

    /// What `mi_heap_stats_get()` gives, as JSON.
    ///
    /// - `heap`: the heap; NULL: the main heap
    /// - `buf_size`: bytes of the buffer; 0: a block
    /// - `buf`: the buffer; NULL: a block
    /// - Returns the text, or NULL
    pub fn mi_heap_stats_get_json(heap: *mut mi_heap_t, buf_size: usize, buf: *mut c_char) -> *mut c_char;

    /// Figures that were taken before, as JSON. What is in it about the process is of now.
    ///
    /// - `stats`: the figures
    /// - `buf_size`: bytes of the buffer; 0: a block
    /// - `buf`: the buffer; NULL: a block
    /// - Returns the text; NULL also when `stats` was prepared for another layout
    pub fn mi_stats_as_json(stats: *mut mi_stats_t, buf_size: usize, buf: *mut c_char) -> *mut c_char;

    /// The size of the largest blocks of a bin.
    ///
    /// - `bin`: number of the bin, below MI_BIN_COUNT
    /// - Returns bytes; 0 for other numbers, and for bins that this build has no blocks for
    pub fn mi_stats_get_bin_size(bin: usize) -> usize;

    /// Nothing to do, figures are always complete: for programs of older versions.
    ///
    /// - `heap`: ignored
    pub fn mi_heap_stats_merge_to_subproc(heap: *mut mi_heap_t);

    /// Nothing to do, figures are always complete: for programs of older versions.
    ///
    /// - `heap`: ignored
    pub fn mi_heap_stats_merge_to_main(heap: *mut mi_heap_t);
}

// -- Heap profiles --

/// What a profile shows.
pub type mi_profile_kind_t = c_int;

/// blocks that are in use
pub const mi_profile_live: mi_profile_kind_t = 0;
/// all that were ever allocated
pub const mi_profile_allocated: mi_profile_kind_t = 1;
/// what was in use when most was
pub const mi_profile_peak: mi_profile_kind_t = 2;
/// what is in use more than when `mi_profile_mark()` was last called
pub const mi_profile_growth: mi_profile_kind_t = 3;

/// How a profile is written.
pub type mi_profile_format_t = c_int;

/// for pprof, as gzip (not compressed)
pub const mi_profile_pprof_gzip: mi_profile_format_t = 0;
/// for pprof, a message of profile.proto
pub const mi_profile_pprof: mi_profile_format_t = 1;
/// for jeprof and pprof, text as gperftools writes it
pub const mi_profile_heap_text: mi_profile_format_t = 2;
/// for flame graphs: a line for each stack, and bytes
pub const mi_profile_folded: mi_profile_format_t = 3;

/// A place that allocates, with the size of its blocks: there is one for each size.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct mi_profile_site_t {
    /// blocks, estimated; growth may be negative
    pub count: c_longlong,
    /// bytes, estimated
    pub bytes: c_longlong,
    /// samples that this is estimated from
    pub samples: c_longlong,
    /// bytes of a block; of one without a class, rounded up
    pub block_size: usize,
    /// functions
    pub frame_count: usize,
    /// where they return to, innermost first
    pub frames: *const *const c_void,
}

/// Called for each site; false: no more.
///
/// - `site`: a place that allocates; valid during the call
/// - `arg`: the argument given with the function
/// - Returns true to go on
pub type mi_profile_visit_fun = Option<unsafe extern "C" fn(site: *const mi_profile_site_t, arg: *mut c_void) -> bool>;

/// Takes the bytes of a profile, in pieces.
///
/// - `bytes`: the next piece
/// - `size`: its length
/// - `arg`: the argument given with the function
/// - Returns true to go on
pub type mi_profile_put_fun = Option<unsafe extern "C" fn(bytes: *const c_void, size: usize, arg: *mut c_void) -> bool>;

extern "C" {
    /// Begin to sample, on all threads. Others follow when they next need a list of blocks.
    ///
    /// - `rate`: mean bytes between samples; 0: option `profile_rate`. With 1, every block is a
    ///   sample, each of which has its own OS page: for small programs and tests
    /// - Returns false if stacks cannot be read: all is then of one site
    pub fn mi_profile_start(rate: usize) -> bool;

    /// Sample no more. What was sampled stays, and its frees are still noticed.
    pub fn mi_profile_stop();

    /// The rate.
    ///
    /// - Returns mean bytes between samples, 0: no profile is on
    #[must_use]
    pub fn mi_profile_rate() -> usize;

    /// Begin a growth profile: it shows the difference to this moment.
    pub fn mi_profile_mark();

    /// Write a profile to a file, which is created or replaced. Allocates nothing.
    ///
    /// - `file`: its name; `%p` is replaced by the number of the process
    /// - `kind`: what it shows. For pprof a file has all kinds, and this one is shown first
    /// - Returns 0, or an errno value that says why not
    pub fn mi_profile_write(file: *const c_char, kind: mi_profile_kind_t) -> c_int;

    /// Write a profile to a function.
    ///
    /// - `format`: how
    /// - `kind`: what it shows
    /// - `put`: takes the bytes; it may allocate
    /// - `arg`: its argument
    /// - Returns 0, or an errno value: `ECANCELED` if `put` returned false
    pub fn mi_profile_write_to(
        format: mi_profile_format_t,
        kind: mi_profile_kind_t,
        put: mi_profile_put_fun,
        arg: *mut c_void,
    ) -> c_int;

    /// Visit all sites, in no order.
    ///
    /// - `kind`: what the figures are of
    /// - `visit`: called for each site that has samples of that kind
    /// - `arg`: its argument
    /// - Returns false if `visit` returned false
    pub fn mi_profile_visit(kind: mi_profile_kind_t, visit: mi_profile_visit_fun, arg: *mut c_void) -> bool;

    /// Print what is in use, the sites with most bytes first: at the end of a program, its leaks (and
    /// what it keeps on purpose).
    ///
    /// - `out`: called with each line; NULL: the registered output function, or standard error
    /// - `arg`: its argument
    pub fn mi_profile_print_leaks(out: mi_output_fun, arg: *mut c_void);
}
