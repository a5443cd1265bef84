// SPDX-License-Identifier: MIT
// Written by scripts/declarations.py from the headers in include/; change those instead.
/// All functions of the library, with the names of C.
module mimalloc.c;

import core.stdc.config : c_long;
import core.stdc.stddef : wchar_t;

extern (C) nothrow @nogc @system:

/// The version of this header: major * 10000 + minor * 100 + patch. `mi_version()` is that of the
/// library.
enum int MI_MALLOC_VERSION = 30403;

// -- Constants, types and callbacks --

/// The largest size that `mi_malloc_small()` takes, in words.
enum size_t MI_SMALL_WSIZE_MAX = 128;

/// The same in bytes.
enum size_t MI_SMALL_SIZE_MAX = (MI_SMALL_WSIZE_MAX * (void*).sizeof);

/// A set of blocks that can be released at once.
struct mi_heap_t;

/// The part of a heap that one thread owns.
struct mi_theap_t;

/// A range of reserved memory. Valid as long as the process; NULL is none, or any.
alias mi_arena_id_t = void*;

/// A group of heaps that shares nothing with others.
struct mi_subproc_id_t
{
    /// For the library; NULL when there was no memory.
    void* _mi_subproc_id;
}

/// One run of equal blocks in a heap, as visitors see it.
struct mi_heap_area_t
{
    /// where the blocks start
    void* blocks;
    /// bytes there are for blocks
    size_t reserved;
    /// bytes that were handed out at least once
    size_t committed;
    /// number of blocks in use
    size_t used;
    /// bytes a program may use of each block
    size_t block_size;
    /// bytes from one block to the next
    size_t full_block_size;
    /// for the library
    void* reserved1;
}

/// Called now and then from allocation and collection, to let the program free what it had put
/// off; see `mi_register_deferred_free()`.
///
/// - `force`: free everything now
/// - `heartbeat`: grows with each call on a thread
/// - `arg`: of the registration
alias mi_deferred_free_fun = void function(bool force, ulong heartbeat, void* arg);

/// Receives each message of the library; see `mi_register_output()`.
///
/// - `msg`: zero-terminated text of whole lines, valid during the call
/// - `arg`: of the registration
alias mi_output_fun = void function(const(char)* msg, void* arg);

/// Receives each error; see `mi_register_error()`.
///
/// - `err`: an errno value: EAGAIN block freed twice, EFAULT corrupted memory, EINVAL invalid
///   pointer, ENOMEM out of memory, EOVERFLOW request too large or alignment invalid
/// - `arg`: of the registration
alias mi_error_fun = void function(int err, void* arg);

/// Visits an area or a block in use; see `mi_heap_visit_blocks()`.
///
/// - `heap`: the heap it is in
/// - `area`: the run of equal blocks, valid during the call
/// - `block`: the block, or NULL when the area is visited
/// - `block_size`: bytes the program may use of a block
/// - `arg`: of the caller
/// - Returns whether to go on
alias mi_block_visit_fun = bool function(const(mi_heap_t)* heap, const(mi_heap_area_t)* area, void* block, size_t block_size, void* arg);

/// Visits a heap; see `mi_subproc_visit_heaps()`.
///
/// - `heap`: a heap
/// - `arg`: of the caller
/// - Returns whether to go on
alias mi_heap_visit_fun = bool function(mi_heap_t* heap, void* arg);

/// Makes memory of an arena usable, or gives it back; see `mi_manage_memory()`. May not allocate.
///
/// - `commit`: make it usable; else give it back
/// - `start`: first byte
/// - `size`: bytes
/// - `is_zero`: may be NULL; set it to true when memory made usable reads as zero
/// - `user_arg`: of the caller
/// - Returns success; of giving back: whether the memory must be made usable before its next use
alias mi_commit_fun_t = bool function(bool commit, void* start, size_t size, bool* is_zero, void* user_arg);

// -- Basic allocation --

/// A block with unspecified contents.
///
/// - `size`: bytes
/// - Returns the block, or NULL
void* mi_malloc(size_t size);

/// A block for an array. Every usable byte reads as zero, not only those asked for.
///
/// - `count`: number of elements
/// - `size`: bytes of an element
/// - Returns the block, or NULL, also when the product overflows
void* mi_calloc(size_t count, size_t size);

/// A block of which every usable byte reads as zero.
///
/// - `size`: bytes
/// - Returns the block, or NULL
void* mi_zalloc(size_t size);

/// Resize a block, in place or by moving it. Contents are kept up to the smaller size.
///
/// - `p`: the block; NULL: allocate
/// - `newsize`: bytes; 0 gives a minimal block
/// - Returns the block, maybe elsewhere; NULL on failure, with `p` untouched
void* mi_realloc(void* p, size_t newsize);

/// As `mi_realloc()`, but `p` is freed on failure.
///
/// - `p`: the block; NULL: allocate
/// - `newsize`: bytes
/// - Returns the block, maybe elsewhere, or NULL
void* mi_reallocf(void* p, size_t newsize);

/// Resize without moving.
///
/// - `p`: the block
/// - `newsize`: bytes
/// - Returns `p` when it holds that many bytes now, else NULL with `p` untouched; NULL for NULL
void* mi_expand(void* p, size_t newsize);

/// Give a block back. An address that is no block of this library is reported and left alone.
/// Keeps `errno`.
///
/// - `p`: the block; NULL does nothing
void mi_free(void* p);

/// As `mi_malloc()`, for small sizes.
///
/// - `size`: at most MI_SMALL_SIZE_MAX bytes; that is the caller's promise
/// - Returns the block, or NULL
void* mi_malloc_small(size_t size);

/// As `mi_zalloc()`, for small sizes.
///
/// - `size`: at most MI_SMALL_SIZE_MAX bytes; that is the caller's promise
/// - Returns the block, or NULL
void* mi_zalloc_small(size_t size);

/// As `mi_free()`, for blocks of functions whose name ends in _small.
///
/// - `p`: the block, or NULL
void mi_free_small(void* p);

/// As `mi_free()`, but silent about addresses that are not ours.
///
/// - `p`: the block, or any address
void mi_cfree(void* p);

/// As `mi_free()`, for callers who know the size. Debug builds verify it, others ignore it.
///
/// - `p`: the block, or NULL
/// - `size`: bytes, as requested or usable
void mi_free_size(void* p, size_t size);

/// As `mi_free()`, for callers who know the alignment. Debug builds verify it, others ignore it.
///
/// - `p`: the block, or NULL
/// - `alignment`: bytes
void mi_free_aligned(void* p, size_t alignment);

/// As `mi_free_size()` and `mi_free_aligned()`.
///
/// - `p`: the block, or NULL
/// - `size`: bytes, as requested or usable
/// - `alignment`: bytes
void mi_free_size_aligned(void* p, size_t size, size_t alignment);

// -- Resizing that keeps the rest zero --

/// As `mi_realloc()`.
///
/// - `p`: the block, or NULL
/// - `newsize`: bytes
/// - Returns the block, maybe elsewhere, or NULL
void* mi_rezalloc(void* p, size_t newsize);

/// As `mi_rezalloc()`, for an array.
///
/// - `p`: the block, or NULL
/// - `newcount`: number of elements
/// - `size`: bytes of an element
/// - Returns the block, maybe elsewhere, or NULL
void* mi_recalloc(void* p, size_t newcount, size_t size);

/// As `mi_realloc_aligned()`.
///
/// - `p`: the block, or NULL
/// - `newsize`: bytes
/// - `alignment`: bytes
/// - Returns the block, maybe elsewhere, or NULL
void* mi_rezalloc_aligned(void* p, size_t newsize, size_t alignment);

/// As `mi_realloc_aligned_at()`.
///
/// - `p`: the block, or NULL
/// - `newsize`: bytes
/// - `alignment`: bytes
/// - `offset`: bytes from the start to the address that is aligned
/// - Returns the block, maybe elsewhere, or NULL
void* mi_rezalloc_aligned_at(void* p, size_t newsize, size_t alignment, size_t offset);

/// As `mi_rezalloc_aligned()`, for an array.
///
/// - `p`: the block, or NULL
/// - `newcount`: number of elements
/// - `size`: bytes of an element
/// - `alignment`: bytes
/// - Returns the block, maybe elsewhere, or NULL
void* mi_recalloc_aligned(void* p, size_t newcount, size_t size, size_t alignment);

/// As `mi_rezalloc_aligned_at()`, for an array.
///
/// - `p`: the block, or NULL
/// - `newcount`: number of elements
/// - `size`: bytes of an element
/// - `alignment`: bytes
/// - `offset`: bytes from the start to the address that is aligned
/// - Returns the block, maybe elsewhere, or NULL
void* mi_recalloc_aligned_at(void* p, size_t newcount, size_t size, size_t alignment, size_t offset);

/// Another name of `mi_recalloc_aligned()`.
///
/// - `p`: the block, or NULL
/// - `newcount`: number of elements
/// - `size`: bytes of an element
/// - `alignment`: bytes
/// - Returns the block, maybe elsewhere, or NULL
void* mi_aligned_recalloc(void* p, size_t newcount, size_t size, size_t alignment);

/// Another name of `mi_recalloc_aligned_at()`.
///
/// - `p`: the block, or NULL
/// - `newcount`: number of elements
/// - `size`: bytes of an element
/// - `alignment`: bytes
/// - `offset`: bytes from the start to the address that is aligned
/// - Returns the block, maybe elsewhere, or NULL
void* mi_aligned_offset_recalloc(void* p, size_t newcount, size_t size, size_t alignment, size_t offset);

// -- Counted and typed --

/// As `mi_malloc()`, for an array.
///
/// - `count`: number of elements
/// - `size`: bytes of an element
/// - Returns the block, or NULL
void* mi_mallocn(size_t count, size_t size);

/// As `mi_realloc()`, for an array.
///
/// - `p`: the block, or NULL
/// - `count`: number of elements
/// - `size`: bytes of an element
/// - Returns the block, maybe elsewhere; NULL on failure, with `p` untouched
void* mi_reallocn(void* p, size_t count, size_t size);

// -- Aligned allocation --

/// As `mi_malloc()`, aligned.
///
/// - `size`: bytes
/// - `alignment`: bytes
/// - Returns the block, or NULL
void* mi_malloc_aligned(size_t size, size_t alignment);

/// As `mi_malloc()`, aligned at an offset.
///
/// - `size`: bytes
/// - `alignment`: bytes
/// - `offset`: bytes from the start to the address that is aligned
/// - Returns the block, or NULL
void* mi_malloc_aligned_at(size_t size, size_t alignment, size_t offset);

/// As `mi_zalloc()`, aligned.
///
/// - `size`: bytes
/// - `alignment`: bytes
/// - Returns the block, or NULL
void* mi_zalloc_aligned(size_t size, size_t alignment);

/// As `mi_zalloc()`, aligned at an offset.
///
/// - `size`: bytes
/// - `alignment`: bytes
/// - `offset`: bytes from the start to the address that is aligned
/// - Returns the block, or NULL
void* mi_zalloc_aligned_at(size_t size, size_t alignment, size_t offset);

/// As `mi_calloc()`, aligned.
///
/// - `count`: number of elements
/// - `size`: bytes of an element
/// - `alignment`: bytes
/// - Returns the block, or NULL
void* mi_calloc_aligned(size_t count, size_t size, size_t alignment);

/// As `mi_calloc()`, aligned at an offset.
///
/// - `count`: number of elements
/// - `size`: bytes of an element
/// - `alignment`: bytes
/// - `offset`: bytes from the start to the address that is aligned
/// - Returns the block, or NULL
void* mi_calloc_aligned_at(size_t count, size_t size, size_t alignment, size_t offset);

/// As `mi_realloc()`, aligned, whatever the alignment was before.
///
/// - `p`: the block, or NULL
/// - `newsize`: bytes
/// - `alignment`: bytes; 0: that of `mi_realloc()`
/// - Returns the block, maybe elsewhere; NULL on failure, with `p` untouched
void* mi_realloc_aligned(void* p, size_t newsize, size_t alignment);

/// As `mi_realloc_aligned()`, at an offset.
///
/// - `p`: the block, or NULL
/// - `newsize`: bytes
/// - `alignment`: bytes
/// - `offset`: bytes from the start to the address that is aligned
/// - Returns the block, maybe elsewhere; NULL on failure, with `p` untouched
void* mi_realloc_aligned_at(void* p, size_t newsize, size_t alignment, size_t offset);

// -- Sizes --

/// How much of a block the program may use.
///
/// - `p`: the block
/// - Returns bytes from `p` on, at least what was requested; 0 for NULL and for addresses that are
///   not ours
size_t mi_usable_size(const(void)* p);

/// The usable size that a request gets at least. Where a thread has few blocks of about a size, the
/// block may be larger, at most twice as large as the request. A guarded block (options `guarded_`)
/// has no more than the request.
///
/// - `size`: bytes
/// - Returns bytes; `size` itself when no such block can exist
size_t mi_good_size(size_t size);

/// As `mi_malloc()`.
///
/// - `size`: bytes
/// - `block_size`: bytes of the slot; not written on failure
/// - Returns the block, or NULL
void* mi_umalloc(size_t size, size_t* block_size);

/// As `mi_zalloc()`.
///
/// - `size`: bytes
/// - `block_size`: bytes of the slot; not written on failure
/// - Returns the block, or NULL
void* mi_uzalloc(size_t size, size_t* block_size);

/// As `mi_calloc()`.
///
/// - `count`: number of elements
/// - `size`: bytes of an element
/// - `block_size`: bytes of the slot; not written on failure
/// - Returns the block, or NULL
void* mi_ucalloc(size_t count, size_t size, size_t* block_size);

/// As `mi_malloc_small()`.
///
/// - `size`: at most MI_SMALL_SIZE_MAX bytes
/// - `block_size`: bytes of the slot; not written on failure
/// - Returns the block, or NULL
void* mi_umalloc_small(size_t size, size_t* block_size);

/// As `mi_zalloc_small()`.
///
/// - `size`: at most MI_SMALL_SIZE_MAX bytes
/// - `block_size`: bytes of the slot; not written on failure
/// - Returns the block, or NULL
void* mi_uzalloc_small(size_t size, size_t* block_size);

/// As `mi_malloc_aligned()`.
///
/// - `size`: bytes
/// - `alignment`: bytes
/// - `block_size`: bytes of the slot; not written on failure
/// - Returns the block, or NULL
void* mi_umalloc_aligned(size_t size, size_t alignment, size_t* block_size);

/// As `mi_zalloc_aligned()`.
///
/// - `size`: bytes
/// - `alignment`: bytes
/// - `block_size`: bytes of the slot; not written on failure
/// - Returns the block, or NULL
void* mi_uzalloc_aligned(size_t size, size_t alignment, size_t* block_size);

/// As `mi_realloc()`.
///
/// - `p`: the block, or NULL
/// - `newsize`: bytes
/// - `block_size_pre`: bytes of the slot before, 0 for NULL; written on failure too
/// - `block_size_post`: bytes of the slot of the result; not written on failure
/// - Returns the block, maybe elsewhere; NULL on failure, with `p` untouched
void* mi_urealloc(void* p, size_t newsize, size_t* block_size_pre, size_t* block_size_post);

/// As `mi_free()`.
///
/// - `p`: the block, or NULL
/// - `block_size`: bytes of the slot; not written for NULL
void mi_ufree(void* p, size_t* block_size);

// -- Strings and paths --

/// A copy of a string.
///
/// - `s`: zero-terminated
/// - Returns the copy, or NULL
char* mi_strdup(const(char)* s);

/// A copy of the start of a string, with a terminating zero.
///
/// - `s`: a string; nothing past its first `n` characters is read
/// - `n`: characters to copy at most
/// - Returns the copy, or NULL
char* mi_strndup(const(char)* s, size_t n);

/// The absolute path of a file without links, as realpath(3).
///
/// - `fname`: path of an existing file
/// - `resolved_name`: room for PATH_MAX characters, or NULL
/// - Returns `resolved_name`, or a block when that is NULL; NULL on failure, with `errno` of
///   realpath(3)
char* mi_realpath(const(char)* fname, char* resolved_name);

/// As `mi_strdup()`, for multi-byte characters.
///
/// - `s`: zero-terminated
/// - Returns the copy, or NULL
ubyte* mi_mbsdup(const(ubyte)* s);

/// As `mi_strdup()`, for wide characters.
///
/// - `s`: zero-terminated
/// - Returns the copy, or NULL
wchar_t* mi_wcsdup(const(wchar_t)* s);

/// A copy of the value of an environment variable.
///
/// - `buf`: the copy, or NULL when there is no such variable
/// - `size`: characters of the copy with the terminating zero, else 0; may be NULL
/// - `name`: of the variable
/// - Returns 0, EINVAL (`buf` or `name` is NULL) or ENOMEM
int mi_dupenv_s(char** buf, size_t* size, const(char)* name);

/// As `mi_dupenv_s()` for wide characters, on Windows; elsewhere there is no such environment.
///
/// - `buf`: the copy; elsewhere NULL
/// - `size`: characters of the copy with the terminating zero; elsewhere 0; may be NULL
/// - `name`: of the variable
/// - Returns as `mi_dupenv_s()`; elsewhere EINVAL
int mi_wdupenv_s(wchar_t** buf, size_t* size, const(wchar_t)* name);

// -- Names of POSIX, BSD, glibc and Microsoft --

/// As posix_memalign(3). Does not touch `errno`. Throws nothing, but is not declared so (as in
/// libc).
///
/// - `p`: the block; unchanged on failure
/// - `alignment`: a power of two and multiple of sizeof(void*), bytes
/// - `size`: bytes
/// - Returns 0, EINVAL or ENOMEM
int mi_posix_memalign(void** p, size_t alignment, size_t size);

/// Another name of `mi_posix_memalign()`, of versions 1.0.
///
/// - `p`: the block; unchanged on failure
/// - `alignment`: bytes
/// - `size`: bytes
/// - Returns 0, EINVAL or ENOMEM
int mi__posix_memalign(void** p, size_t alignment, size_t size);

/// As `mi_malloc_aligned()`.
///
/// - `alignment`: bytes
/// - `size`: bytes
/// - Returns the block, or NULL
void* mi_memalign(size_t alignment, size_t size);

/// As `mi_malloc_aligned()`.
///
/// - `alignment`: bytes
/// - `size`: bytes, need not be a multiple of the alignment
/// - Returns the block, or NULL
void* mi_aligned_alloc(size_t alignment, size_t size);

/// A block aligned to the page size of the operating system.
///
/// - `size`: bytes
/// - Returns the block, or NULL
void* mi_valloc(size_t size);

/// As `mi_valloc()`, with the size rounded up to whole pages of the operating system.
///
/// - `size`: bytes; 0: one page
/// - Returns the block, or NULL
void* mi_pvalloc(size_t size);

/// As `mi_reallocn()`; `errno` is EOVERFLOW when the product overflows.
///
/// - `p`: the block, or NULL
/// - `count`: number of elements
/// - `size`: bytes of an element
/// - Returns the block, maybe elsewhere; NULL on failure, with `p` untouched
void* mi_reallocarray(void* p, size_t count, size_t size);

/// Resize the block that a variable points to, as reallocarr(3) of NetBSD.
///
/// - `ptrp`: address of the pointer, which is updated; unchanged on failure
/// - `count`: number of elements; 0 frees the block and stores NULL
/// - `size`: bytes of an element, not 0
/// - Returns 0, or the value also stored in `errno`: EINVAL, EOVERFLOW or ENOMEM
int mi_reallocarr(void* ptrp, size_t count, size_t size);

/// Another name of `mi_usable_size()`.
///
/// - `p`: the block
/// - Returns bytes
size_t mi_malloc_size(const(void)* p);

/// Another name of `mi_usable_size()`.
///
/// - `p`: the block
/// - Returns bytes
size_t mi_malloc_usable_size(const(void)* p);

/// Another name of `mi_good_size()`.
///
/// - `size`: bytes
/// - Returns bytes
size_t mi_malloc_good_size(size_t size);

/// As `mi_expand()`; sets `errno` to ENOMEM when the result is NULL.
///
/// - `p`: the block
/// - `newsize`: bytes
/// - Returns `p` or NULL
void* mi__expand(void* p, size_t newsize);

// -- C++ operator new --

/// As `operator new`.
///
/// - `size`: bytes
/// - Returns the block, never NULL
void* mi_new(size_t size);

/// As `operator new` with an alignment. One that is no power of two fails without a call of the
/// handler.
///
/// - `size`: bytes
/// - `alignment`: bytes
/// - Returns the block, never NULL
void* mi_new_aligned(size_t size, size_t alignment);

/// As `mi_new()`, for an array.
///
/// - `count`: number of elements
/// - `size`: bytes of an element
/// - Returns the block; NULL only when the product overflows and a handler was called
void* mi_new_n(size_t count, size_t size);

/// As `mi_realloc()`.
///
/// - `p`: the block, or NULL
/// - `newsize`: bytes
/// - Returns the block, maybe elsewhere, never NULL
void* mi_new_realloc(void* p, size_t newsize);

/// As `mi_new_realloc()`, for an array.
///
/// - `p`: the block, or NULL
/// - `newcount`: number of elements
/// - `size`: bytes of an element
/// - Returns the block, maybe elsewhere; NULL only when the product overflows and a handler was
///   called
void* mi_new_reallocn(void* p, size_t newcount, size_t size);

/// As `operator new` with `std::nothrow`: a handler is called all the same.
///
/// - `size`: bytes
/// - Returns the block; NULL instead of an exception
void* mi_new_nothrow(size_t size);

/// As `mi_new_aligned()` with `std::nothrow`.
///
/// - `size`: bytes
/// - `alignment`: bytes
/// - Returns the block; NULL instead of an exception
void* mi_new_aligned_nothrow(size_t size, size_t alignment);

// -- Process, threads, collection --

/// The version of the library that is running.
///
/// - Returns as MI_MALLOC_VERSION
int mi_version();

/// Set up now instead of at the first allocation.
void mi_process_init();

/// Finish: print statistics if an option asks for it. Allocation and free still work.
void mi_process_done();

/// Set up the calling thread now instead of at its first allocation.
void mi_thread_init();

/// Leave the free memory of the calling thread to others. It may go on to allocate and free.
void mi_thread_done();

/// The calling thread runs unrelated tasks one after the other.
void mi_thread_set_in_threadpool();

/// Return memory that the calling thread holds but does not need.
///
/// - `force`: all of it, and to the system at once; else what is due
void mi_collect(bool force);

/// How long the calling thread may wait before it has memory to give back. Costs a look at the
/// clock.
///
/// - Returns milliseconds, as the timeout of poll(2): 0 when `mi_thread_idle()` has something to do
///   now, which is so half a second after the thread last needed more memory or gave some up; -1
///   when there will be nothing until it allocates or frees again
int mi_thread_idle_due();

/// The calling thread is about to wait for long: give back what it does not use, in all its heaps.
/// It keeps its pages that have blocks in use, without the memory between blocks if these are few.
/// In a process without a purge thread free memory that is due goes back, too. The next allocations
/// may take some microseconds more.
void mi_thread_idle();

/// A forced `mi_collect()`, for programs of older versions.
///
/// - `target_thread_owned`: ignored
void mi_collect_reduce(size_t target_thread_owned);

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
void mi_process_info(size_t* elapsed_msecs, size_t* user_msecs, size_t* system_msecs, size_t* current_rss, size_t* peak_rss, size_t* current_commit, size_t* peak_commit, size_t* page_faults);

/// Print what `mi_process_info()` gives, as one line, to the registered output.
void mi_process_info_print();

/// The same to a function.
///
/// - `out`: NULL: the registered output
/// - `arg`: passed to it
void mi_process_info_print_out(mi_output_fun out_, void* arg);

// -- Callbacks of the process --

/// Register who frees what the program had put off. The function may allocate and free; it is not
/// entered again on the thread it runs on. Inside of it `mi_thread_done()` and
/// `mi_subproc_add_current_thread()` have no effect but a warning.
///
/// - `deferred_free`: called now and then, and by `mi_collect()`
/// - `arg`: passed to it
void mi_register_deferred_free(mi_deferred_free_fun deferred_free, void* arg);

/// Register who prints messages, instead of standard error. The function receives at once what was
/// printed before (up to 16 KiB). It should not allocate.
///
/// - `out`: gets each message
/// - `arg`: passed to it
void mi_register_output(mi_output_fun out_, void* arg);

/// Register who is told of errors, after their message was printed. Then the process ends or goes
/// on, as the option `mi_option_abort_on_misuse` says: by default secure builds abort after any
/// mistake, debug builds where memory is damaged and no function is registered, others never. The
/// function may use all of the library; a mistake of its own does not call it again.
///
/// - `fun`: called with an errno value
/// - `arg`: passed to it
void mi_register_error(mi_error_fun fun, void* arg);

/// Describe an address in words: its block, page, thread and heap on the first line, then the block
/// and its neighbours.
///
/// - `p`: any address
/// - `buffer`: gets the text, zero-terminated, cut if it is too long; may be NULL
/// - `size`: bytes of the buffer; 1000 are enough
/// - Returns the length of the whole text
size_t mi_describe(const(void)* p, char* buffer, size_t size);

/// The same as JSON: one object on one line (RFC 8259).
///
/// - `p`: any address
/// - `buffer`: gets the text, zero-terminated, or an empty one if it is too long; may be
///   NULL
/// - `size`: bytes of the buffer; 2000 are enough
/// - Returns the length of the whole text
size_t mi_describe_json(const(void)* p, char* buffer, size_t size);

// -- Heaps --

/// A fresh heap in the sub-process of the calling thread.
///
/// - Returns the heap, or NULL
mi_heap_t* mi_heap_new();

/// A fresh heap with all blocks in one arena; when that is full, allocation fails.
///
/// - `arena_id`: the arena; NULL: as `mi_heap_new()`
/// - Returns the heap, or NULL; with a warning, if the sub-process of the arena was ended
mi_heap_t* mi_heap_new_in_arena(mi_arena_id_t arena_id);

/// End a heap; its blocks in use stay valid and belong to the main heap from then on. No other
/// thread may allocate from the heap at that time or later; blocks of it may be freed meanwhile.
/// What is free beside such blocks serves the main heap, in an exclusive arena, too.
///
/// - `heap`: NULL does nothing; the main heap stays, with a warning
void mi_heap_delete(mi_heap_t* heap);

/// End a heap and all its blocks, without a look at each block. No other thread may use the heap or
/// its blocks at that time or later.
///
/// - `heap`: NULL does nothing; the main heap stays, with a warning
void mi_heap_destroy(mi_heap_t* heap);

/// The heap that `mi_malloc()` allocates from, that of the sub-process of the calling thread.
///
/// - Returns the heap, never NULL
mi_heap_t* mi_heap_main();

/// The heap that has memory at an address. Nothing is said about whether a block there is in use.
/// In constant time for a small block and the start of a large one; far inside a large one, and for
/// an address that is not ours, it takes a lock, and time that grows with the block, or with the
/// number of arenas and of blocks outside of them.
///
/// - `p`: any address
/// - Returns the heap; NULL for addresses that are not ours
mi_heap_t* mi_heap_of(const(void)* p);

/// Whether `mi_heap_of()` of an address is this heap.
///
/// - `heap`: the heap
/// - `p`: any address
/// - Returns whether it is
bool mi_heap_contains(const(mi_heap_t)* heap, const(void)* p);

/// Whether an address is in any heap.
///
/// - `p`: any address
/// - Returns whether it is
bool mi_any_heap_contains(const(void)* p);

/// Prefer memory of a NUMA node for what the heap takes from now on.
///
/// - `heap`: the heap
/// - `numa_node`: number of the node, modulo the number of nodes; negative: no preference
void mi_heap_set_numa_affinity(mi_heap_t* heap, int numa_node);

/// As `mi_collect()`, for what the calling thread holds of a heap.
///
/// - `heap`: the heap
/// - `force`: all of it, and to the system at once; else what is due
void mi_heap_collect(mi_heap_t* heap, bool force);

/// Another name of `mi_any_heap_contains()`.
///
/// - `p`: any address
/// - Returns whether it is in a heap
bool mi_is_in_heap_region(const(void)* p);

/// Another name of `mi_any_heap_contains()`.
///
/// - `p`: any address
/// - Returns whether it is in a heap
bool mi_check_owned(const(void)* p);

/// The heap that `mi_malloc()` of this thread allocates from.
///
/// - Returns the heap
mi_heap_t* mi_heap_get_default();

/// Change that heap, for this thread.
///
/// - `heap`: the heap
/// - Returns the one before
mi_heap_t* mi_heap_set_default(mi_heap_t* heap);

/// Another name of `mi_heap_main()`.
///
/// - Returns the heap
mi_heap_t* mi_heap_get_backing();

/// Another name of `mi_heap_contains()`.
///
/// - `heap`: the heap
/// - `p`: any address
/// - Returns whether it is there
bool mi_heap_contains_block(mi_heap_t* heap, const(void)* p);

/// Another name of `mi_heap_contains()`.
///
/// - `heap`: the heap
/// - `p`: any address
/// - Returns whether it is there
bool mi_heap_check_owned(mi_heap_t* heap, const(void)* p);

/// As `mi_heap_new_in_arena()`.
///
/// - `heap_tag`: ignored
/// - `allow_destroy`: ignored
/// - `arena_id`: the arena; NULL: any
/// - Returns the heap, or NULL
mi_heap_t* mi_heap_new_ex(int heap_tag, bool allow_destroy, mi_arena_id_t arena_id);

// -- Allocation from heaps --

/// As `mi_malloc()`.
///
/// - `heap`: the heap
/// - `size`: bytes
/// - Returns the block, or NULL
void* mi_heap_malloc(mi_heap_t* heap, size_t size);

/// As `mi_zalloc()`.
///
/// - `heap`: the heap
/// - `size`: bytes
/// - Returns the block, or NULL
void* mi_heap_zalloc(mi_heap_t* heap, size_t size);

/// As `mi_calloc()`.
///
/// - `heap`: the heap
/// - `count`: number of elements
/// - `size`: bytes of an element
/// - Returns the block, or NULL
void* mi_heap_calloc(mi_heap_t* heap, size_t count, size_t size);

/// As `mi_mallocn()`.
///
/// - `heap`: the heap
/// - `count`: number of elements
/// - `size`: bytes of an element
/// - Returns the block, or NULL
void* mi_heap_mallocn(mi_heap_t* heap, size_t count, size_t size);

/// As `mi_malloc_small()`.
///
/// - `heap`: the heap
/// - `size`: at most MI_SMALL_SIZE_MAX bytes
/// - Returns the block, or NULL
void* mi_heap_malloc_small(mi_heap_t* heap, size_t size);

/// As `mi_zalloc_small()`.
///
/// - `heap`: the heap
/// - `size`: at most MI_SMALL_SIZE_MAX bytes
/// - Returns the block, or NULL
void* mi_heap_zalloc_small(mi_heap_t* heap, size_t size);

/// As `mi_realloc()`.
///
/// - `heap`: the heap
/// - `p`: the block, or NULL
/// - `newsize`: bytes
/// - Returns the block, maybe elsewhere; NULL on failure, with `p` untouched
void* mi_heap_realloc(mi_heap_t* heap, void* p, size_t newsize);

/// As `mi_reallocn()`.
///
/// - `heap`: the heap
/// - `p`: the block, or NULL
/// - `count`: number of elements
/// - `size`: bytes of an element
/// - Returns the block, maybe elsewhere; NULL on failure, with `p` untouched
void* mi_heap_reallocn(mi_heap_t* heap, void* p, size_t count, size_t size);

/// As `mi_reallocf()`.
///
/// - `heap`: the heap
/// - `p`: the block, or NULL
/// - `newsize`: bytes
/// - Returns the block, maybe elsewhere; NULL on failure, with `p` freed
void* mi_heap_reallocf(mi_heap_t* heap, void* p, size_t newsize);

/// As `mi_rezalloc()`.
///
/// - `heap`: the heap
/// - `p`: the block, or NULL
/// - `newsize`: bytes
/// - Returns the block, maybe elsewhere; NULL on failure, with `p` untouched
void* mi_heap_rezalloc(mi_heap_t* heap, void* p, size_t newsize);

/// As `mi_recalloc()`.
///
/// - `heap`: the heap
/// - `p`: the block, or NULL
/// - `newcount`: number of elements
/// - `size`: bytes of an element
/// - Returns the block, maybe elsewhere; NULL on failure, with `p` untouched
void* mi_heap_recalloc(mi_heap_t* heap, void* p, size_t newcount, size_t size);

/// As `mi_strdup()`.
///
/// - `heap`: the heap
/// - `s`: zero-terminated
/// - Returns the copy, or NULL
char* mi_heap_strdup(mi_heap_t* heap, const(char)* s);

/// As `mi_strndup()`.
///
/// - `heap`: the heap
/// - `s`: a string
/// - `n`: characters to copy at most
/// - Returns the copy, or NULL
char* mi_heap_strndup(mi_heap_t* heap, const(char)* s, size_t n);

/// As `mi_realpath()`.
///
/// - `heap`: the heap
/// - `fname`: path of an existing file
/// - `resolved_name`: room for PATH_MAX characters, or NULL
/// - Returns `resolved_name`, or a block when that is NULL; NULL on failure
char* mi_heap_realpath(mi_heap_t* heap, const(char)* fname, char* resolved_name);

/// As `mi_malloc_aligned()`.
///
/// - `heap`: the heap
/// - `size`: bytes
/// - `alignment`: bytes
/// - Returns the block, or NULL
void* mi_heap_malloc_aligned(mi_heap_t* heap, size_t size, size_t alignment);

/// As `mi_malloc_aligned_at()`.
///
/// - `heap`: the heap
/// - `size`: bytes
/// - `alignment`: bytes
/// - `offset`: bytes from the start to the address that is aligned
/// - Returns the block, or NULL
void* mi_heap_malloc_aligned_at(mi_heap_t* heap, size_t size, size_t alignment, size_t offset);

/// As `mi_zalloc_aligned()`.
///
/// - `heap`: the heap
/// - `size`: bytes
/// - `alignment`: bytes
/// - Returns the block, or NULL
void* mi_heap_zalloc_aligned(mi_heap_t* heap, size_t size, size_t alignment);

/// As `mi_zalloc_aligned_at()`.
///
/// - `heap`: the heap
/// - `size`: bytes
/// - `alignment`: bytes
/// - `offset`: bytes from the start to the address that is aligned
/// - Returns the block, or NULL
void* mi_heap_zalloc_aligned_at(mi_heap_t* heap, size_t size, size_t alignment, size_t offset);

/// As `mi_calloc_aligned()`.
///
/// - `heap`: the heap
/// - `count`: number of elements
/// - `size`: bytes of an element
/// - `alignment`: bytes
/// - Returns the block, or NULL
void* mi_heap_calloc_aligned(mi_heap_t* heap, size_t count, size_t size, size_t alignment);

/// As `mi_calloc_aligned_at()`.
///
/// - `heap`: the heap
/// - `count`: number of elements
/// - `size`: bytes of an element
/// - `alignment`: bytes
/// - `offset`: bytes from the start to the address that is aligned
/// - Returns the block, or NULL
void* mi_heap_calloc_aligned_at(mi_heap_t* heap, size_t count, size_t size, size_t alignment, size_t offset);

/// As `mi_realloc_aligned()`.
///
/// - `heap`: the heap
/// - `p`: the block, or NULL
/// - `newsize`: bytes
/// - `alignment`: bytes
/// - Returns the block, maybe elsewhere; NULL on failure, with `p` untouched
void* mi_heap_realloc_aligned(mi_heap_t* heap, void* p, size_t newsize, size_t alignment);

/// As `mi_realloc_aligned_at()`.
///
/// - `heap`: the heap
/// - `p`: the block, or NULL
/// - `newsize`: bytes
/// - `alignment`: bytes
/// - `offset`: bytes from the start to the address that is aligned
/// - Returns the block, maybe elsewhere; NULL on failure, with `p` untouched
void* mi_heap_realloc_aligned_at(mi_heap_t* heap, void* p, size_t newsize, size_t alignment, size_t offset);

/// As `mi_rezalloc_aligned()`.
///
/// - `heap`: the heap
/// - `p`: the block, or NULL
/// - `newsize`: bytes
/// - `alignment`: bytes
/// - Returns the block, maybe elsewhere; NULL on failure, with `p` untouched
void* mi_heap_rezalloc_aligned(mi_heap_t* heap, void* p, size_t newsize, size_t alignment);

/// As `mi_rezalloc_aligned_at()`.
///
/// - `heap`: the heap
/// - `p`: the block, or NULL
/// - `newsize`: bytes
/// - `alignment`: bytes
/// - `offset`: bytes from the start to the address that is aligned
/// - Returns the block, maybe elsewhere; NULL on failure, with `p` untouched
void* mi_heap_rezalloc_aligned_at(mi_heap_t* heap, void* p, size_t newsize, size_t alignment, size_t offset);

/// As `mi_recalloc_aligned()`.
///
/// - `heap`: the heap
/// - `p`: the block, or NULL
/// - `newcount`: number of elements
/// - `size`: bytes of an element
/// - `alignment`: bytes
/// - Returns the block, maybe elsewhere; NULL on failure, with `p` untouched
void* mi_heap_recalloc_aligned(mi_heap_t* heap, void* p, size_t newcount, size_t size, size_t alignment);

/// As `mi_recalloc_aligned_at()`.
///
/// - `heap`: the heap
/// - `p`: the block, or NULL
/// - `newcount`: number of elements
/// - `size`: bytes of an element
/// - `alignment`: bytes
/// - `offset`: bytes from the start to the address that is aligned
/// - Returns the block, maybe elsewhere; NULL on failure, with `p` untouched
void* mi_heap_recalloc_aligned_at(mi_heap_t* heap, void* p, size_t newcount, size_t size, size_t alignment, size_t offset);

/// As `mi_new()`.
///
/// - `heap`: the heap
/// - `size`: bytes
/// - Returns the block, never NULL
void* mi_heap_alloc_new(mi_heap_t* heap, size_t size);

/// As `mi_new_n()`.
///
/// - `heap`: the heap
/// - `count`: number of elements
/// - `size`: bytes of an element
/// - Returns the block; NULL only when the product overflows and a handler was called
void* mi_heap_alloc_new_n(mi_heap_t* heap, size_t count, size_t size);

// -- Theaps: one thread's part of a heap --

/// The calling thread's theap of a heap, made when needed.
///
/// - `heap`: the heap
/// - Returns the theap, or NULL
mi_theap_t* mi_heap_theap(mi_heap_t* heap);

/// The theap that `mi_malloc()` of this thread uses.
///
/// - Returns the theap
mi_theap_t* mi_theap_get_default();

/// Change that theap, for this thread.
///
/// - `theap`: the theap; NULL changes nothing
/// - Returns the one before
mi_theap_t* mi_theap_set_default(mi_theap_t* theap);

/// As `mi_collect()`.
///
/// - `theap`: the theap
/// - `force`: all of it, and to the system at once; else what is due
void mi_theap_collect(mi_theap_t* theap, bool force);

/// As `mi_malloc()`.
///
/// - `theap`: the theap
/// - `size`: bytes
/// - Returns the block, or NULL
void* mi_theap_malloc(mi_theap_t* theap, size_t size);

/// As `mi_zalloc()`.
///
/// - `theap`: the theap
/// - `size`: bytes
/// - Returns the block, or NULL
void* mi_theap_zalloc(mi_theap_t* theap, size_t size);

/// As `mi_calloc()`.
///
/// - `theap`: the theap
/// - `count`: number of elements
/// - `size`: bytes of an element
/// - Returns the block, or NULL
void* mi_theap_calloc(mi_theap_t* theap, size_t count, size_t size);

/// As `mi_malloc_small()`.
///
/// - `theap`: the theap
/// - `size`: at most MI_SMALL_SIZE_MAX bytes
/// - Returns the block, or NULL
void* mi_theap_malloc_small(mi_theap_t* theap, size_t size);

/// As `mi_zalloc_small()`.
///
/// - `theap`: the theap
/// - `size`: at most MI_SMALL_SIZE_MAX bytes
/// - Returns the block, or NULL
void* mi_theap_zalloc_small(mi_theap_t* theap, size_t size);

/// As `mi_malloc_aligned()`.
///
/// - `theap`: the theap
/// - `size`: bytes
/// - `alignment`: bytes
/// - Returns the block, or NULL
void* mi_theap_malloc_aligned(mi_theap_t* theap, size_t size, size_t alignment);

/// As `mi_heap_realloc()`.
///
/// - `theap`: the theap
/// - `p`: the block, or NULL
/// - `newsize`: bytes
/// - Returns the block, maybe elsewhere; NULL on failure, with `p` untouched
void* mi_theap_realloc(mi_theap_t* theap, void* p, size_t newsize);

/// How many blocks are guarded.
///
/// - `theap`: the theap
/// - `sample_rate`: one in so many; 0 none, 1 all
/// - `seed`: with the same one the same blocks are chosen; 0: any
void mi_theap_guarded_set_sample_rate(mi_theap_t* theap, size_t sample_rate, size_t seed);

/// Which sizes are guarded.
///
/// - `theap`: the theap
/// - `min`: smallest size, bytes
/// - `max`: largest size, bytes; not below `min`
void mi_theap_guarded_set_size_bound(mi_theap_t* theap, size_t min, size_t max);

/// As `mi_theap_guarded_set_sample_rate()` of the calling thread's theap (version 2).
///
/// - `heap`: the heap
/// - `sample_rate`: one in so many; 0 none, 1 all
/// - `seed`: with the same one the same blocks are chosen; 0: any
void mi_heap_guarded_set_sample_rate(mi_heap_t* heap, size_t sample_rate, size_t seed);

/// As `mi_theap_guarded_set_size_bound()` of the calling thread's theap (version 2).
///
/// - `heap`: the heap
/// - `min`: smallest size, bytes
/// - `max`: largest size, bytes
void mi_heap_guarded_set_size_bound(mi_heap_t* heap, size_t min, size_t max);

// -- Sub-processes --

/// The sub-process that the process starts with.
///
/// - Returns its id
mi_subproc_id_t mi_subproc_main();

/// The sub-process of the calling thread.
///
/// - Returns its id
mi_subproc_id_t mi_subproc_current();

/// A fresh sub-process, with a main heap.
///
/// - Returns its id; an id of NULL when there is no memory for it
mi_subproc_id_t mi_subproc_new();

/// End a sub-process: all its heaps and blocks, and all its memory. Its threads must have ended.
///
/// - `subproc`: with threads in it, it stays, with a warning; the main one and NULL are ignored
void mi_subproc_destroy(mi_subproc_id_t subproc);

/// As `mi_subproc_destroy()`, but blocks in use stay valid, and the rest ends when none is left
/// (version 3.1).
///
/// - `subproc`: as above
void mi_subproc_delete(mi_subproc_id_t subproc);

/// Move the calling thread to a sub-process, until the thread ends. What it allocated before stays
/// where it was. A thread that was moved before stays where it is, with a warning.
///
/// - `subproc`: the new one
void mi_subproc_add_current_thread(mi_subproc_id_t subproc);

/// Visit each heap.
///
/// - `subproc`: whose heaps
/// - `visitor`: must not make or end heaps
/// - `arg`: passed to it
/// - Returns false when the visitor returned false, or is NULL, or there is no memory for the visit
bool mi_subproc_visit_heaps(mi_subproc_id_t subproc, mi_heap_visit_fun visitor, void* arg);

// -- Arenas: memory that the program reserves or brings along --

/// Reserve memory of the system.
///
/// - `size`: bytes, rounded up to whole `mi_arena_min_size()`
/// - `commit`: make it usable at once, else as it is needed
/// - `allow_large`: use explicit large pages of the system if it has any
/// - Returns 0 or ENOMEM
int mi_reserve_os_memory(size_t size, bool commit, bool allow_large);

/// As `mi_reserve_os_memory()`.
///
/// - `size`: bytes
/// - `commit`: make it usable at once
/// - `allow_large`: use explicit large pages
/// - `exclusive`: only for heaps that ask for it
/// - `arena_id`: the arena
/// - Returns 0 or ENOMEM
int mi_reserve_os_memory_ex(size_t size, bool commit, bool allow_large, bool exclusive, mi_arena_id_t* arena_id);

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
bool mi_manage_os_memory(void* start, size_t size, bool is_committed, bool is_pinned, bool is_zero, int numa_node);

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
bool mi_manage_os_memory_ex(void* start, size_t size, bool is_committed, bool is_pinned, bool is_zero, int numa_node, bool exclusive, mi_arena_id_t* arena_id);

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
bool mi_manage_memory(void* start, size_t size, bool is_committed, bool is_pinned, bool is_zero, int numa_node, bool exclusive, mi_commit_fun_t commit_fun, void* commit_fun_arg, mi_arena_id_t* arena_id);

/// Reserve huge OS pages of 1 GiB, evenly over NUMA nodes. They come one after the other, until
/// that takes longer than twice the time; a part is a success. They are never given back.
///
/// - `pages`: how many
/// - `numa_nodes`: over how many nodes; 0: all
/// - `timeout_msecs`: milliseconds; 0: no limit
/// - Returns 0 or ENOMEM
int mi_reserve_huge_os_pages_interleave(size_t pages, size_t numa_nodes, size_t timeout_msecs);

/// As `mi_reserve_huge_os_pages_interleave()`, at one node; what it has not, others give.
///
/// - `pages`: how many, of 1 GiB
/// - `numa_node`: number of the node, modulo the number of nodes; -1: any
/// - `timeout_msecs`: milliseconds; 0: no limit
/// - Returns 0 or ENOMEM
int mi_reserve_huge_os_pages_at(size_t pages, int numa_node, size_t timeout_msecs);

/// As `mi_reserve_huge_os_pages_at()`.
///
/// - `pages`: how many, of 1 GiB
/// - `numa_node`: number of the node, modulo the number of nodes; -1: any
/// - `timeout_msecs`: milliseconds; 0: no limit
/// - `exclusive`: only for heaps that ask for it
/// - `arena_id`: the arena
/// - Returns 0 or ENOMEM
int mi_reserve_huge_os_pages_at_ex(size_t pages, int numa_node, size_t timeout_msecs, bool exclusive, mi_arena_id_t* arena_id);

/// Older form of `mi_reserve_huge_os_pages_interleave()`, over all nodes.
///
/// - `pages`: how many, of 1 GiB
/// - `max_secs`: seconds; 0: no limit
/// - `pages_reserved`: `pages` on success, else 0; may be NULL
/// - Returns 0 or ENOMEM
int mi_reserve_huge_os_pages(size_t pages, double max_secs, size_t* pages_reserved);

/// What starts of arenas are rounded to.
///
/// - Returns bytes
size_t mi_arena_min_alignment();

/// The least memory an arena can have.
///
/// - Returns bytes
size_t mi_arena_min_size();

/// Where an arena is.
///
/// - `arena_id`: the arena
/// - `size`: its bytes, 0 for NULL; may be NULL
/// - Returns its start; NULL for NULL
void* mi_arena_area(mi_arena_id_t arena_id, size_t* size);

/// Whether an address is in an arena.
///
/// - `arena_id`: the arena
/// - `p`: any address
/// - Returns whether it is
bool mi_arena_contains(mi_arena_id_t arena_id, const(void)* p);

/// Print a map of the slices of each arena to the registered output, for people.
void mi_arenas_print();

/// Another name of `mi_arenas_print()`.
void mi_debug_show_arenas();

/// Whether malloc of the C library leads here, on Windows and macOS.
///
/// - Returns whether it does; elsewhere false
bool mi_is_redirected();

/// Take an arena out of use.
///
/// - `arena_id`: ignored
/// - `base`: ignored
/// - `accessed_size`: ignored
/// - `full_size`: ignored
/// - Returns false
bool mi_arena_unload(mi_arena_id_t arena_id, void** base, size_t* accessed_size, size_t* full_size);

/// Put it back.
///
/// - `start`: ignored
/// - `size`: ignored
/// - `arena_id`: ignored
/// - Returns false
bool mi_arena_reload(void* start, size_t size, mi_arena_id_t* arena_id);

/// Take a heap out of use.
///
/// - `heap`: ignored
/// - Returns false
bool mi_heap_unload(mi_heap_t* heap);

/// Put it back.
///
/// - `heap`: ignored
/// - `arena_id`: ignored
/// - Returns false
bool mi_heap_reload(mi_heap_t* heap, mi_arena_id_t arena_id);

// -- Introspection --

/// Visit what is in a heap.
///
/// - `heap`: the heap
/// - `visit_blocks`: blocks too, not only areas
/// - `visitor`: called for each
/// - `arg`: passed to it
/// - Returns false when the visitor returned false, or is NULL, or there is no memory for the visit
bool mi_heap_visit_blocks(mi_heap_t* heap, bool visit_blocks, mi_block_visit_fun visitor, void* arg);

/// Visit the memory of a heap that no thread holds: of threads that ended, pages that are full,
/// large blocks.
///
/// - `heap`: the heap
/// - `visit_blocks`: blocks too, not only areas
/// - `visitor`: called for each
/// - `arg`: passed to it
/// - Returns false when the visitor returned false, or is NULL, or there is no memory for the visit
bool mi_heap_visit_abandoned_blocks(mi_heap_t* heap, bool visit_blocks, mi_block_visit_fun visitor, void* arg);

/// The same for all heaps of a sub-process (version 3.1).
///
/// - `subproc`: the sub-process
/// - `heap_tag`: ignored
/// - `visit_blocks`: blocks too, not only areas
/// - `visitor`: called for each
/// - `arg`: passed to it
/// - Returns false when the visitor returned false, or is NULL, or there is no memory for the visit
bool mi_abandoned_visit_blocks(mi_subproc_id_t subproc, int heap_tag, bool visit_blocks, mi_block_visit_fun visitor, void* arg);

/// Visit what one theap holds.
///
/// - `theap`: the theap
/// - `visit_blocks`: blocks too, not only areas
/// - `visitor`: called for each
/// - `arg`: passed to it
/// - Returns false when the visitor returned false, or is NULL, or there is no memory for the visit
bool mi_theap_visit_blocks(const(mi_theap_t)* theap, bool visit_blocks, mi_block_visit_fun visitor, void* arg);

/// For programs that defragment: whether it pays to move a block elsewhere. True when all blocks of
/// its page were used once, some are free, malloc does not use the page at the moment, and few
/// enough are in use. No other thread may touch the page meanwhile.
///
/// - `heap`: which the page must be of; NULL: any
/// - `p`: the block
/// - `perc_threshold`: percent of the blocks that may be in use
/// - Returns whether it pays
bool mi_unsafe_heap_page_is_under_utilized(mi_heap_t* heap, void* p, size_t perc_threshold);

// -- Statistics --

/// Print statistics of the sub-process of the calling thread, and what the process used.
///
/// - `out`: NULL: the registered output
/// - `arg`: passed to it
void mi_stats_print_out(mi_output_fun out_, void* arg);

/// As `mi_stats_print_out()`: a thread has no figures of its own.
///
/// - `out`: NULL: the registered output
/// - `arg`: passed to it
void mi_thread_stats_print_out(mi_output_fun out_, void* arg);

/// Print statistics of a sub-process.
///
/// - `subproc`: the sub-process
/// - `out`: NULL: the registered output
/// - `arg`: passed to it
void mi_subproc_stats_print_out(mi_subproc_id_t subproc, mi_output_fun out_, void* arg);

/// Print statistics of each heap of a sub-process, and then its own.
///
/// - `subproc`: the sub-process
/// - `out`: NULL: the registered output
/// - `arg`: passed to it
void mi_subproc_heap_stats_print_out(mi_subproc_id_t subproc, mi_output_fun out_, void* arg);

/// Print statistics of a heap.
///
/// - `heap`: the heap; NULL: the main heap
/// - `out`: NULL: the registered output
/// - `arg`: passed to it
void mi_heap_stats_print_out(mi_heap_t* heap, mi_output_fun out_, void* arg);

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
void mi_explain(mi_output_fun out_, void* arg);

/// How metrics are written.
alias mi_metrics_format_t = int;
/// the text format of Prometheus, version 0.0.4
enum mi_metrics_format_t mi_metrics_prometheus = 0;
/// OpenMetrics, version 1.0
enum mi_metrics_format_t mi_metrics_openmetrics = 1;

/// Write all metrics. Allocates nothing.
///
/// - `format`: how
/// - `buffer`: gets the text, zero-terminated, or an empty one if it is too long; may be
///   NULL
/// - `size`: bytes of the buffer; 32 KiB are enough
/// - Returns the length of the whole text, as snprintf says it: it fits if that is below `size`. The
///   next call may need a little more, because figures change. 0 if the format is unknown
size_t mi_metrics(mi_metrics_format_t format, char* buffer, size_t size);

/// As `mi_stats_print_out()` to the registered output.
///
/// - `out`: ignored
void mi_stats_print(void* out_);

/// Nothing to do: figures are always complete.
void mi_stats_reset();

/// Nothing to do: figures are always complete.
void mi_stats_merge();

/// As `mi_thread_stats_print_out()`.
///
/// - `out`: NULL: the registered output
void mi_thread_stats_print(mi_output_fun out_);

// -- Options --

/// The numbers are part of the binary interface; from 1000 on they are of this library alone.
/// Options that say deprecated do nothing.
/// `mi_option_destroy_on_exit` is for tools that count what is left at the end: with 1 the end of
/// the process, with 2 a call of `mi_process_done()` unmaps all memory. Blocks are gone then, and a
/// free of one does nothing. Not where the library replaces malloc, and not while other threads use
/// it.
alias mi_option_t = int;
/// print errors and warnings
enum mi_option_t mi_option_show_errors = 0;
/// print statistics at the end
enum mi_option_t mi_option_show_stats = 1;
/// print what happens
enum mi_option_t mi_option_verbose = 2;
/// no effect
enum mi_option_t mi_option_deprecated_eager_commit = 3;
/// commit whole: 0 no, 1 yes, 2 if overcommitted
enum mi_option_t mi_option_arena_eager_commit = 4;
/// unused memory: 1 goes back, 0 may be taken
enum mi_option_t mi_option_purge_decommits = 5;
/// explicit 2 MiB pages; that memory stays
enum mi_option_t mi_option_allow_large_os_pages = 6;
/// number of 1 GiB pages to reserve at the start
enum mi_option_t mi_option_reserve_huge_os_pages = 7;
/// their NUMA node, -1 evenly over all
enum mi_option_t mi_option_reserve_huge_os_pages_at = 8;
/// KiB to reserve at the start
enum mi_option_t mi_option_reserve_os_memory = 9;
/// no effect
enum mi_option_t mi_option_deprecated_segment_cache = 10;
/// no effect
enum mi_option_t mi_option_deprecated_page_reset = 11;
/// no effect
enum mi_option_t mi_option_deprecated_abandoned_page_purge = 12;
/// no effect
enum mi_option_t mi_option_deprecated_segment_reset = 13;
/// no effect
enum mi_option_t mi_option_deprecated_eager_commit_delay = 14;
/// ms until unused memory goes back; -1 never
enum mi_option_t mi_option_purge_delay = 15;
/// pretend to have so many nodes; 0 ask the system
enum mi_option_t mi_option_use_numa_nodes = 16;
/// use reserved memory only
enum mi_option_t mi_option_disallow_os_alloc = 17;
/// macOS: tag of mappings
enum mi_option_t mi_option_os_tag = 18;
/// print at most so many errors; -1 all
enum mi_option_t mi_option_max_errors = 19;
/// print at most so many warnings; -1 all
enum mi_option_t mi_option_max_warnings = 20;
/// no effect
enum mi_option_t mi_option_deprecated_max_segment_reclaim = 21;
/// unmap all at the end: 1 always, 2 when asked
enum mi_option_t mi_option_destroy_on_exit = 22;
/// KiB that an arena may grow to
enum mi_option_t mi_option_arena_reserve = 23;
/// purge delay of arenas, in multiples of `purge_delay`
enum mi_option_t mi_option_arena_purge_mult = 24;
/// no effect
enum mi_option_t mi_option_deprecated_purge_extend_delay = 25;
/// use no arenas
enum mi_option_t mi_option_disallow_arena_alloc = 26;
/// no effect: milliseconds to keep trying, on Windows
enum mi_option_t mi_option_retry_on_oom = 27;
/// always on: visitors find all abandoned memory
enum mi_option_t mi_option_visit_abandoned = 28;
/// smallest size of guarded blocks, bytes
enum mi_option_t mi_option_guarded_min = 29;
/// largest size of guarded blocks, bytes
enum mi_option_t mi_option_guarded_max = 30;
/// guard to the byte, even if that breaks the alignment
enum mi_option_t mi_option_guarded_precise = 31;
/// guard one block in so many; 0 none
enum mi_option_t mi_option_guarded_sample_rate = 32;
/// chooses which blocks; 0 any
enum mi_option_t mi_option_guarded_sample_seed = 33;
/// collect after so many slow allocations
enum mi_option_t mi_option_generic_collect = 34;
/// keep pages when freeing: -1 none, 0 own, 1 all
enum mi_option_t mi_option_page_reclaim_on_free = 35;
/// no effect: full pages belong to nobody
enum mi_option_t mi_option_page_full_retain = 36;
/// no effect: the oldest page is taken
enum mi_option_t mi_option_page_max_candidates = 37;
/// no effect: all addresses are served
enum mi_option_t mi_option_max_vabits = 38;
/// fault the page map in as a whole
enum mi_option_t mi_option_pagemap_commit = 39;
/// no effect: pages are committed as a whole
enum mi_option_t mi_option_page_commit_on_demand = 40;
/// limit of own pages kept so per size, -1 none
enum mi_option_t mi_option_page_max_reclaim = 41;
/// the same for pages of other threads
enum mi_option_t mi_option_page_cross_thread_max_reclaim = 42;
/// huge pages: 0 never, 1 where they pay, 2 all
enum mi_option_t mi_option_allow_thp = 43;
/// KiB; smaller ranges are kept
enum mi_option_t mi_option_minimal_purge_size = 44;
/// KiB; larger blocks get a mapping of their own
enum mi_option_t mi_option_arena_max_object_size = 45;
/// arenas belong to the node of their maker
enum mi_option_t mi_option_arena_is_numa_local = 46;
/// how many there are with the numbers above
enum mi_option_t _mi_option_last = 47;
/// `realloc` and `memalign` as in libc, `mi_realloc` is not
enum mi_option_t mi_option_libc_semantics = 1000;
/// `dlopen` ignores `RTLD_DEEPBIND` (glibc, shared library)
enum mi_option_t mi_option_drop_deepbind = 1001;
/// 0 no, 1 if memory is damaged, 2 any: ends the process
enum mi_option_t mi_option_abort_on_misuse = 1002;
/// clear what is freed (secure builds)
enum mi_option_t mi_option_zero_on_free = 1003;
/// each report of a mistake is a line of JSON
enum mi_option_t mi_option_report_json = 1004;
/// KiB that each thread keeps of what it frees (secure builds)
enum mi_option_t mi_option_quarantine = 1005;
/// clear what is allocated (secure builds)
enum mi_option_t mi_option_zero_on_allocation = 1006;
/// mean bytes between samples of a heap profile
enum mi_option_t mi_option_profile_rate = 1007;
/// profile from the start, and print what is in use at the end
enum mi_option_t mi_option_profile_leaks = 1008;
/// a thread purges: 0 never, 1 always, 2 beside other threads
enum mi_option_t mi_option_purge_thread = 1009;
/// KiB that may be in use; 0 the limit of the container, -1 none
enum mi_option_t mi_option_memory_limit = 1010;
/// older name
enum mi_option_t mi_option_eager_region_commit = mi_option_arena_eager_commit;
/// older name
enum mi_option_t mi_option_reset_decommits = mi_option_purge_decommits;
/// older name
enum mi_option_t mi_option_large_os_pages = mi_option_allow_large_os_pages;
/// older name
enum mi_option_t mi_option_abandoned_page_reset = mi_option_deprecated_abandoned_page_purge;
/// older name
enum mi_option_t mi_option_reset_delay = mi_option_purge_delay;
/// older name
enum mi_option_t mi_option_limit_os_alloc = mi_option_disallow_os_alloc;

/// The value of an option.
///
/// - `option`: which
/// - Returns the value; 0 for a number that is no option
c_long mi_option_get(mi_option_t option);

/// The value of an option within bounds.
///
/// - `option`: which
/// - `min`: the least result
/// - `max`: the greatest result
/// - Returns the value, but at least `min` and at most `max`
c_long mi_option_get_clamp(mi_option_t option, c_long min, c_long max);

/// The value of an option that counts KiB, in bytes.
///
/// - `option`: which; the value of other options is taken as it is
/// - Returns bytes; 0 for negative values
size_t mi_option_get_size(mi_option_t option);

/// Set a value, over the environment and any default.
///
/// - `option`: which; a number that is no option is ignored
/// - `value`: in the unit of the option, also KiB
void mi_option_set(mi_option_t option, c_long value);

/// Set a value unless the environment or `mi_option_set()` did.
///
/// - `option`: which
/// - `value`: in the unit of the option
void mi_option_set_default(mi_option_t option, c_long value);

/// Whether an option is on.
///
/// - `option`: which
/// - Returns whether its value is not 0
bool mi_option_is_enabled(mi_option_t option);

/// Set an option to 1.
///
/// - `option`: which
void mi_option_enable(mi_option_t option);

/// Set an option to 0.
///
/// - `option`: which
void mi_option_disable(mi_option_t option);

/// Set an option to 0 or 1.
///
/// - `option`: which
/// - `enable`: to 1, else to 0
void mi_option_set_enabled(mi_option_t option, bool enable);

/// As `mi_option_set_default()`, to 0 or 1.
///
/// - `option`: which
/// - `enable`: to 1, else to 0
void mi_option_set_enabled_default(mi_option_t option, bool enable);

/// Print version, options and build to the registered output.
void mi_options_print();

/// The same to a function.
///
/// - `out`: NULL: the registered output
/// - `arg`: passed to it
void mi_options_print_out(mi_output_fun out_, void* arg);

/// The version of the layout of `mi_stats_t`.
enum size_t MI_STAT_VERSION = 5;

/// An amount that goes up and down.
struct mi_stat_count_t
{
    /// ever; where that is not counted, as `peak`
    long total;
    /// the most there was; where that is not counted, as `current`
    long peak;
    /// now
    long current;
}

/// A number of events.
struct mi_stat_counter_t
{
    /// ever
    long total;
}

/// Kinds of chunks of arenas by what is in them. Not counted.
alias mi_chunkbin_t = int;
/// small blocks
enum mi_chunkbin_t MI_CBIN_SMALL = 0;
/// several kinds
enum mi_chunkbin_t MI_CBIN_OTHER = 1;
/// medium blocks
enum mi_chunkbin_t MI_CBIN_MEDIUM = 2;
/// large blocks
enum mi_chunkbin_t MI_CBIN_LARGE = 3;
/// a part of one block
enum mi_chunkbin_t MI_CBIN_HUGE = 4;
/// nothing
enum mi_chunkbin_t MI_CBIN_NONE = 5;
/// how many kinds there are
enum mi_chunkbin_t MI_CBIN_COUNT = 6;

/// The bin of blocks with a page of their own.
enum size_t MI_BIN_HUGE = 73;

/// Number of bins, each of blocks of one or two sizes; the last one is for blocks with a page of
/// their own.
enum size_t MI_BIN_COUNT = (MI_BIN_HUGE + 1);

/// Statistics.
struct mi_stats_t
{
    /// sizeof(mi_stats_t), set by the caller
    size_t size;
    /// MI_STAT_VERSION, set by the caller
    size_t version_;
    /// runs of memory that blocks of one size share
    mi_stat_count_t pages;
    /// bytes of address space in arenas
    mi_stat_count_t reserved;
    /// bytes that may be resident, with metadata: see above
    mi_stat_count_t committed;
    /// bytes that the system may take when it needs them
    mi_stat_counter_t reset;
    /// bytes given back
    mi_stat_counter_t purged;
    /// bytes of these pages that were handed out at least once
    mi_stat_count_t page_committed;
    /// pages without a thread, with room for others
    mi_stat_count_t pages_abandoned;
    /// threads there are
    mi_stat_count_t threads;
    /// bytes of blocks in use that share a page
    mi_stat_count_t malloc_normal;
    /// bytes of blocks in use with a page of their own
    mi_stat_count_t malloc_huge;
    /// bytes asked for; counted by debug builds, else 0
    mi_stat_count_t malloc_requested;
    /// calls of mmap(2)
    mi_stat_counter_t mmap_calls;
    /// calls to make memory usable
    mi_stat_counter_t commit_calls;
    /// calls that let the system take memory
    mi_stat_counter_t reset_calls;
    /// calls that gave memory back
    mi_stat_counter_t purge_calls;
    /// arenas made
    mi_stat_counter_t arena_count;
    /// not counted: 0
    mi_stat_counter_t malloc_normal_count;
    /// blocks with a page of their own, ever made
    mi_stat_counter_t malloc_huge_count;
    /// blocks between guards, ever made
    mi_stat_counter_t malloc_guarded_count;
    /// memory that was reserved, but the system refused
    mi_stat_counter_t arena_rollback_count;
    /// as purge_calls
    mi_stat_counter_t arena_purges;
    /// not counted: 0
    mi_stat_counter_t pages_extended;
    /// not counted: 0
    mi_stat_counter_t pages_retire;
    /// not counted: 0
    mi_stat_counter_t page_searches;
    /// not counted: 0
    mi_stat_counter_t page_searches_count;
    /// of older versions: 0
    mi_stat_count_t segments;
    /// of older versions: 0
    mi_stat_count_t segments_abandoned;
    /// of older versions: 0
    mi_stat_count_t segments_cache;
    /// of older versions: 0
    mi_stat_count_t _segments_reserved;
    /// heaps there are
    mi_stat_count_t heaps;
    /// parts of heaps that belong to threads; `peak` is at most that
    mi_stat_count_t theaps;
    /// pages taken over by an allocation
    mi_stat_counter_t pages_reclaim_on_alloc;
    /// pages taken over by a free
    mi_stat_counter_t pages_reclaim_on_free;
    /// pages that became full while they had no thread
    mi_stat_counter_t pages_reabandon_full;
    /// nobody waits for a page: 0
    mi_stat_counter_t pages_unabandon_busy_wait;
    /// nobody waits for a heap: 0
    mi_stat_counter_t heaps_delete_wait;
    /// 0
    mi_stat_count_t[4] _stat_reserved;
    /// 0
    mi_stat_counter_t[4] _stat_counter_reserved;
    /// blocks of each size; of all heaps with `total`
    mi_stat_count_t[MI_BIN_COUNT] malloc_bins;
    mi_stat_count_t[MI_BIN_COUNT] page_bins;
    /// not counted: 0
    mi_stat_count_t[MI_CBIN_COUNT] chunk_bins;
}

/// Fill a prepared structure with the figures of the sub-process of the calling thread.
///
/// - `stats`: prepared by `mi_stats_init()` or mi_stats_t_decl
/// - Returns false, with nothing written, when `stats` is NULL or was prepared for another layout
bool mi_stats_get(mi_stats_t* stats);

/// As `mi_stats_get()`, of one sub-process with all its heaps.
///
/// - `subproc`: the sub-process
/// - `stats`: prepared as there
/// - Returns false as there, and when there is no sub-process (an id of NULL)
bool mi_subproc_stats_get(mi_subproc_id_t subproc, mi_stats_t* stats);

/// As `mi_subproc_stats_get()`, of what belongs to no heap of a sub-process.
///
/// - `subproc`: the sub-process
/// - `stats`: prepared as there
/// - Returns as there
bool mi_subproc_stats_get_exclusive(mi_subproc_id_t subproc, mi_stats_t* stats);

/// As `mi_stats_get()`, of one heap.
///
/// - `heap`: the heap; NULL: the main heap
/// - `stats`: prepared as there
/// - Returns as there
bool mi_heap_stats_get(mi_heap_t* heap, mi_stats_t* stats);

/// What `mi_stats_get()` gives, as JSON.
///
/// - `buf_size`: bytes of the buffer; 0: a block
/// - `buf`: the buffer; NULL: a block
/// - Returns the text, or NULL
char* mi_stats_get_json(size_t buf_size, char* buf);

/// What `mi_subproc_stats_get()` gives, as JSON.
///
/// - `subproc`: the sub-process
/// - `buf_size`: bytes of the buffer; 0: a block
/// - `buf`: the buffer; NULL: a block
/// - Returns the text, or NULL
char* mi_subproc_stats_get_json(mi_subproc_id_t subproc, size_t buf_size, char* buf);

/// What `mi_heap_stats_get()` gives, as JSON.
///
/// - `heap`: the heap; NULL: the main heap
/// - `buf_size`: bytes of the buffer; 0: a block
/// - `buf`: the buffer; NULL: a block
/// - Returns the text, or NULL
char* mi_heap_stats_get_json(mi_heap_t* heap, size_t buf_size, char* buf);

/// Figures that were taken before, as JSON. What is in it about the process is of now.
///
/// - `stats`: the figures
/// - `buf_size`: bytes of the buffer; 0: a block
/// - `buf`: the buffer; NULL: a block
/// - Returns the text; NULL also when `stats` was prepared for another layout
char* mi_stats_as_json(mi_stats_t* stats, size_t buf_size, char* buf);

/// The size of the largest blocks of a bin.
///
/// - `bin`: number of the bin, below MI_BIN_COUNT
/// - Returns bytes; 0 for other numbers, and for bins that this build has no blocks for
size_t mi_stats_get_bin_size(size_t bin);

/// Nothing to do, figures are always complete: for programs of older versions.
///
/// - `heap`: ignored
void mi_heap_stats_merge_to_subproc(mi_heap_t* heap);

/// Nothing to do, figures are always complete: for programs of older versions.
///
/// - `heap`: ignored
void mi_heap_stats_merge_to_main(mi_heap_t* heap);

// -- Heap profiles --

/// What a profile shows.
alias mi_profile_kind_t = int;
/// blocks that are in use
enum mi_profile_kind_t mi_profile_live = 0;
/// all that were ever allocated
enum mi_profile_kind_t mi_profile_allocated = 1;
/// what was in use when most was
enum mi_profile_kind_t mi_profile_peak = 2;
/// what is in use more than when `mi_profile_mark()` was last called
enum mi_profile_kind_t mi_profile_growth = 3;

/// How a profile is written.
alias mi_profile_format_t = int;
/// for pprof, as gzip (not compressed)
enum mi_profile_format_t mi_profile_pprof_gzip = 0;
/// for pprof, a message of profile.proto
enum mi_profile_format_t mi_profile_pprof = 1;
/// for jeprof and pprof, text as gperftools writes it
enum mi_profile_format_t mi_profile_heap_text = 2;
/// for flame graphs: a line for each stack, and bytes
enum mi_profile_format_t mi_profile_folded = 3;

/// A place that allocates, with the size of its blocks: there is one for each size.
struct mi_profile_site_t
{
    /// blocks, estimated; growth may be negative
    long count;
    /// bytes, estimated
    long bytes;
    /// samples that this is estimated from
    long samples;
    /// bytes of a block; of one without a class, rounded up
    size_t block_size;
    /// functions
    size_t frame_count;
    /// where they return to, innermost first
    const(const(void)*)* frames;
}

/// Called for each site; false: no more.
///
/// - `site`: a place that allocates; valid during the call
/// - `arg`: the argument given with the function
/// - Returns true to go on
alias mi_profile_visit_fun = bool function(const(mi_profile_site_t)* site, void* arg);

/// Takes the bytes of a profile, in pieces.
///
/// - `bytes`: the next piece
/// - `size`: its length
/// - `arg`: the argument given with the function
/// - Returns true to go on
alias mi_profile_put_fun = bool function(const(void)* bytes, size_t size, void* arg);

/// Begin to sample, on all threads. Others follow when they next need a list of blocks.
///
/// - `rate`: mean bytes between samples; 0: option `profile_rate`. With 1, every block is a
///   sample, each of which has its own OS page: for small programs and tests
/// - Returns false if stacks cannot be read: all is then of one site
bool mi_profile_start(size_t rate);

/// Sample no more. What was sampled stays, and its frees are still noticed.
void mi_profile_stop();

/// The rate.
///
/// - Returns mean bytes between samples, 0: no profile is on
size_t mi_profile_rate();

/// Begin a growth profile: it shows the difference to this moment.
void mi_profile_mark();

/// Write a profile to a file, which is created or replaced. Allocates nothing.
///
/// - `file`: its name; `%p` is replaced by the number of the process
/// - `kind`: what it shows. For pprof a file has all kinds, and this one is shown first
/// - Returns 0, or an errno value that says why not
int mi_profile_write(const(char)* file, mi_profile_kind_t kind);

/// Write a profile to a function.
///
/// - `format`: how
/// - `kind`: what it shows
/// - `put`: takes the bytes; it may allocate
/// - `arg`: its argument
/// - Returns 0, or an errno value: `ECANCELED` if `put` returned false
int mi_profile_write_to(mi_profile_format_t format, mi_profile_kind_t kind, mi_profile_put_fun put, void* arg);

/// Visit all sites, in no order.
///
/// - `kind`: what the figures are of
/// - `visit`: called for each site that has samples of that kind
/// - `arg`: its argument
/// - Returns false if `visit` returned false
bool mi_profile_visit(mi_profile_kind_t kind, mi_profile_visit_fun visit, void* arg);

/// Print what is in use, the sites with most bytes first: at the end of a program, its leaks (and
/// what it keeps on purpose).
///
/// - `out`: called with each line; NULL: the registered output function, or standard error
/// - `arg`: its argument
void mi_profile_print_leaks(mi_output_fun out_, void* arg);
