// SPDX-License-Identifier: MIT - tidy: allow file-length (users include one header)
// mimalloc.h - the public interface of libmimalloc, for C (99 and later) and C++.
//
// Rules that hold for every function unless it says otherwise:
//   - Any thread may call it at any time: before `main`, as the first call of the process, after
//     `exit`.
//   - Sizes and alignments are bytes; alignments are powers of two.
//   - A pointer result is NULL on failure, and `errno` is then set (ENOMEM, or EINVAL for a bad
//     argument). A request larger than PTRDIFF_MAX bytes fails.
//   - Blocks of at least 16 bytes are aligned to 16, smaller ones to 8.
//   - Size 0 gives a block of its own, not NULL.
//   - A block of any of these functions is given back with `mi_free`, by any thread.
#pragma once
#ifndef MIMALLOC_H
#define MIMALLOC_H

#define MI_MALLOC_VERSION 30403 // major * 10000 + minor * 100 + patch

#include <stdbool.h>
#include <stddef.h>

// ------------------------------------------------------------------------------------------------
// Decorations. Users may rely on their names; what they expand to depends on the compiler.
// ------------------------------------------------------------------------------------------------

#if defined(__cplusplus) && (__cplusplus >= 201103L || (defined(_MSC_VER) && _MSC_VER >= 1900))
#define mi_attr_noexcept noexcept
#elif defined(__cplusplus)
#define mi_attr_noexcept throw()
#else
#define mi_attr_noexcept
#endif

#if defined(__cplusplus) && (__cplusplus >= 201703L)
#define mi_decl_nodiscard [[nodiscard]]
#elif defined(__GNUC__) || defined(__clang__)
#define mi_decl_nodiscard __attribute__((warn_unused_result))
#elif defined(_MSC_VER) && _MSC_VER >= 1700
#define mi_decl_nodiscard _Check_return_
#else
#define mi_decl_nodiscard
#endif

// MI_SHARED_LIB: the library is used as a shared one. MI_SHARED_LIB_EXPORT: it is being built as
// one.
#if defined(_WIN32)
#if !defined(MI_SHARED_LIB)
#define mi_decl_export
#elif defined(MI_SHARED_LIB_EXPORT)
#define mi_decl_export __declspec(dllexport)
#else
#define mi_decl_export __declspec(dllimport)
#endif
#define mi_cdecl __cdecl
#else
#if (defined(__GNUC__) || defined(__clang__)) && defined(MI_SHARED_LIB) &&                         \
    defined(MI_SHARED_LIB_EXPORT)
#define mi_decl_export __attribute__((visibility("default")))
#else
#define mi_decl_export
#endif
#define mi_cdecl
#endif

#if defined(_MSC_VER) && !defined(__clang__)
#define mi_decl_restrict __declspec(allocator) __declspec(restrict)
#else
#define mi_decl_restrict
#endif

#if defined(__GNUC__) || defined(__clang__)
#define mi_attr_malloc __attribute__((malloc))
#define mi_attr_alloc_size(s) __attribute__((alloc_size(s)))
#define mi_attr_alloc_size2(s1, s2) __attribute__((alloc_size(s1, s2)))
#define mi_attr_alloc_align(p) __attribute__((alloc_align(p)))
#else
#define mi_attr_malloc
#define mi_attr_alloc_size(s)
#define mi_attr_alloc_size2(s1, s2)
#define mi_attr_alloc_align(p)
#endif

// MI_PREFIX, for a copy of the library of one's own: `-DMI_PREFIX=app_` makes every name of a
// function or class below start with app_ instead of mi_, here and where the library is compiled.
#if defined(MI_PREFIX)
#include "mimalloc-prefix.h"
#endif

// ------------------------------------------------------------------------------------------------
// Constants and types
// ------------------------------------------------------------------------------------------------

#define MI_SMALL_WSIZE_MAX 128 // words
#define MI_SMALL_SIZE_MAX (MI_SMALL_WSIZE_MAX * sizeof(void*)) // bytes; see `mi_malloc_small`

#ifdef __cplusplus
extern "C" {
#endif

struct mi_heap_s;
typedef struct mi_heap_s mi_heap_t; // a set of blocks that can be released at once
struct mi_theap_s;
typedef struct mi_theap_s mi_theap_t; // the part of a heap that one thread owns

typedef void* mi_arena_id_t; // a range of reserved memory
typedef struct mi_subproc_id_s {
  void* _mi_subproc_id;
} mi_subproc_id_t; // a group of heaps that shares nothing with others

// One run of equal blocks in a heap, as visitors see it.
typedef struct mi_heap_area_s {
  void* blocks; // where the blocks start
  size_t reserved; // bytes there are for blocks
  size_t committed; // bytes that were handed out at least once
  size_t used; // number of blocks in use
  size_t block_size; // bytes a program may use of each block
  size_t full_block_size; // bytes from one block to the next
  void* reserved1; // for the library
} mi_heap_area_t;

// Called now and then from allocation and collection, to let the program free what it had put
// off. `force`: free everything now. `heartbeat` grows with each call on a thread.
typedef void(mi_cdecl mi_deferred_free_fun)(bool force, unsigned long long heartbeat, void* arg);
// Receives each message of the library, a zero-terminated text of whole lines.
typedef void(mi_cdecl mi_output_fun)(const char* msg, void* arg);
// Receives each error as an errno value: EAGAIN block freed twice, EFAULT corrupted memory,
// EINVAL invalid pointer, ENOMEM out of memory, EOVERFLOW request too large or alignment invalid.
typedef void(mi_cdecl mi_error_fun)(int err, void* arg);
// Visits an area (`block` NULL) or a block in use; returns whether to go on.
typedef bool(mi_cdecl mi_block_visit_fun)(const mi_heap_t* heap, const mi_heap_area_t* area,
                                          void* block, size_t block_size, void* arg);
// Visits a heap; returns whether to go on.
typedef bool(mi_cdecl mi_heap_visit_fun)(mi_heap_t* heap, void* arg);
// Makes memory usable (`commit`), or gives it back; `*is_zero` may be set when it reads as zero.
// Returns success.
typedef bool(mi_cdecl mi_commit_fun_t)(bool commit, void* start, size_t size, bool* is_zero,
                                       void* user_arg);

// ------------------------------------------------------------------------------------------------
// Basic allocation
// ------------------------------------------------------------------------------------------------

// A block of at least `size` bytes; contents unspecified.
mi_decl_nodiscard mi_decl_export mi_decl_restrict void*
mi_malloc(size_t size) mi_attr_noexcept mi_attr_malloc mi_attr_alloc_size(1);

// A block for `count` elements of `size` bytes. Every usable byte reads as zero. NULL when the
// product overflows.
mi_decl_nodiscard mi_decl_export mi_decl_restrict void*
mi_calloc(size_t count, size_t size) mi_attr_noexcept mi_attr_malloc mi_attr_alloc_size2(1, 2);

// As `mi_malloc`; every usable byte reads as zero.
mi_decl_nodiscard mi_decl_export mi_decl_restrict void*
mi_zalloc(size_t size) mi_attr_noexcept mi_attr_malloc mi_attr_alloc_size(1);

// Resize `p` (NULL: allocate) to `newsize` bytes, in place or by moving it; contents are kept up
// to the smaller size. NULL means failure, and `p` is untouched. Size 0 gives a minimal block.
mi_decl_nodiscard mi_decl_export void* mi_realloc(void* p, size_t newsize) mi_attr_noexcept
    mi_attr_alloc_size(2);

// As `mi_realloc`, but `p` is freed when the result is NULL.
mi_decl_nodiscard mi_decl_export void* mi_reallocf(void* p, size_t newsize) mi_attr_noexcept
    mi_attr_alloc_size(2);

// Resize without moving: `p` when it holds `newsize` bytes now, else NULL (with `p` untouched).
// NULL for NULL.
mi_decl_export void* mi_expand(void* p, size_t newsize) mi_attr_noexcept mi_attr_alloc_size(2);

// Give a block back. NULL does nothing. An address that is no block of this library is reported
// and left alone. Keeps `errno`.
mi_decl_export void mi_free(void* p) mi_attr_noexcept;

// As `mi_malloc` and `mi_zalloc` for `size` of at most MI_SMALL_SIZE_MAX (the caller's promise).
mi_decl_nodiscard mi_decl_export mi_decl_restrict void*
mi_malloc_small(size_t size) mi_attr_noexcept mi_attr_malloc mi_attr_alloc_size(1);
mi_decl_nodiscard mi_decl_export mi_decl_restrict void*
mi_zalloc_small(size_t size) mi_attr_noexcept mi_attr_malloc mi_attr_alloc_size(1);

// As `mi_free`, only for blocks of the two functions above.
mi_decl_export void mi_free_small(void* p) mi_attr_noexcept;

// As `mi_free`, but silent about addresses that are not ours.
mi_decl_export void mi_cfree(void* p) mi_attr_noexcept;

// As `mi_free`. `size` (requested or usable) and `alignment` are what the caller knows; debug
// builds verify them.
mi_decl_export void mi_free_size(void* p, size_t size) mi_attr_noexcept;
mi_decl_export void mi_free_aligned(void* p, size_t alignment) mi_attr_noexcept;
mi_decl_export void mi_free_size_aligned(void* p, size_t size, size_t alignment) mi_attr_noexcept;

// ------------------------------------------------------------------------------------------------
// Resizing that keeps the rest zero. Only for blocks that were allocated as zero and only ever
// resized by these functions. What lies beyond the size of a shrink in place is not cleared
// again.
// ------------------------------------------------------------------------------------------------

mi_decl_nodiscard mi_decl_export void* mi_rezalloc(void* p, size_t newsize) mi_attr_noexcept
    mi_attr_alloc_size(2);
mi_decl_nodiscard mi_decl_export void* mi_recalloc(void* p, size_t newcount,
                                                   size_t size) mi_attr_noexcept
    mi_attr_alloc_size2(2, 3);
mi_decl_nodiscard mi_decl_export void* mi_rezalloc_aligned(void* p, size_t newsize,
                                                           size_t alignment) mi_attr_noexcept
    mi_attr_alloc_size(2) mi_attr_alloc_align(3);
mi_decl_nodiscard mi_decl_export void*
mi_rezalloc_aligned_at(void* p, size_t newsize, size_t alignment, size_t offset) mi_attr_noexcept
    mi_attr_alloc_size(2);
mi_decl_nodiscard mi_decl_export void* mi_recalloc_aligned(void* p, size_t newcount, size_t size,
                                                           size_t alignment) mi_attr_noexcept
    mi_attr_alloc_size2(2, 3) mi_attr_alloc_align(4);
mi_decl_nodiscard mi_decl_export void* mi_recalloc_aligned_at(void* p, size_t newcount, size_t size,
                                                              size_t alignment,
                                                              size_t offset) mi_attr_noexcept
    mi_attr_alloc_size2(2, 3);

// Other names of `mi_recalloc_aligned` and `mi_recalloc_aligned_at`.
mi_decl_nodiscard mi_decl_export void* mi_aligned_recalloc(void* p, size_t newcount, size_t size,
                                                           size_t alignment) mi_attr_noexcept
    mi_attr_alloc_size2(2, 3) mi_attr_alloc_align(4);
mi_decl_nodiscard mi_decl_export void* mi_aligned_offset_recalloc(void* p, size_t newcount,
                                                                  size_t size, size_t alignment,
                                                                  size_t offset) mi_attr_noexcept
    mi_attr_alloc_size2(2, 3);

// ------------------------------------------------------------------------------------------------
// Counted: a product that overflows gives NULL
// ------------------------------------------------------------------------------------------------

// As `mi_malloc` for `count` elements.
mi_decl_nodiscard mi_decl_export mi_decl_restrict void*
mi_mallocn(size_t count, size_t size) mi_attr_noexcept mi_attr_malloc mi_attr_alloc_size2(1, 2);
// As `mi_realloc` for `count` elements.
mi_decl_nodiscard mi_decl_export void* mi_reallocn(void* p, size_t count,
                                                   size_t size) mi_attr_noexcept
    mi_attr_alloc_size2(2, 3);

// The same for a type: one element, or `n` of them; the result has type `tp*`.
#define mi_malloc_tp(tp) ((tp*)mi_malloc(sizeof(tp)))
#define mi_zalloc_tp(tp) ((tp*)mi_zalloc(sizeof(tp)))
#define mi_calloc_tp(tp, n) ((tp*)mi_calloc((n), sizeof(tp)))
#define mi_mallocn_tp(tp, n) ((tp*)mi_mallocn((n), sizeof(tp)))
#define mi_reallocn_tp(tp, p, n) ((tp*)mi_reallocn((p), (n), sizeof(tp)))
#define mi_recalloc_tp(tp, p, n) ((tp*)mi_recalloc((p), (n), sizeof(tp)))

// ------------------------------------------------------------------------------------------------
// Aligned: `p % alignment == 0`, or `(p + offset) % alignment == 0` for the functions with an
// offset. Any power of two is valid; the size need not be a multiple. The offset may lie beyond
// the size.
// ------------------------------------------------------------------------------------------------

mi_decl_nodiscard mi_decl_export mi_decl_restrict void*
mi_malloc_aligned(size_t size, size_t alignment) mi_attr_noexcept mi_attr_malloc
    mi_attr_alloc_size(1) mi_attr_alloc_align(2);
mi_decl_nodiscard mi_decl_export mi_decl_restrict void*
mi_malloc_aligned_at(size_t size, size_t alignment, size_t offset) mi_attr_noexcept mi_attr_malloc
    mi_attr_alloc_size(1);
mi_decl_nodiscard mi_decl_export mi_decl_restrict void*
mi_zalloc_aligned(size_t size, size_t alignment) mi_attr_noexcept mi_attr_malloc
    mi_attr_alloc_size(1) mi_attr_alloc_align(2);
mi_decl_nodiscard mi_decl_export mi_decl_restrict void*
mi_zalloc_aligned_at(size_t size, size_t alignment, size_t offset) mi_attr_noexcept mi_attr_malloc
    mi_attr_alloc_size(1);
mi_decl_nodiscard mi_decl_export mi_decl_restrict void*
mi_calloc_aligned(size_t count, size_t size, size_t alignment) mi_attr_noexcept mi_attr_malloc
    mi_attr_alloc_size2(1, 2) mi_attr_alloc_align(3);
mi_decl_nodiscard mi_decl_export mi_decl_restrict void*
mi_calloc_aligned_at(size_t count, size_t size, size_t alignment,
                     size_t offset) mi_attr_noexcept mi_attr_malloc mi_attr_alloc_size2(1, 2);
mi_decl_nodiscard mi_decl_export void* mi_realloc_aligned(void* p, size_t newsize,
                                                          size_t alignment) mi_attr_noexcept
    mi_attr_alloc_size(2) mi_attr_alloc_align(3);
mi_decl_nodiscard mi_decl_export void*
mi_realloc_aligned_at(void* p, size_t newsize, size_t alignment, size_t offset) mi_attr_noexcept
    mi_attr_alloc_size(2);

// ------------------------------------------------------------------------------------------------
// Sizes
// ------------------------------------------------------------------------------------------------

// Bytes the program may use from `p` on, at least what was requested; 0 for NULL and for
// addresses that are not ours.
mi_decl_nodiscard mi_decl_export size_t mi_usable_size(const void* p) mi_attr_noexcept;
// The usable size of a block for a request of `size` bytes; `size` itself when no such block can
// exist.
mi_decl_nodiscard mi_decl_export size_t mi_good_size(size_t size) mi_attr_noexcept;

// As their namesakes without `u`. `*block_size` (may be NULL) receives the bytes of the whole
// slot that the block occupies; it is not written on failure.
mi_decl_nodiscard mi_decl_export mi_decl_restrict void*
mi_umalloc(size_t size, size_t* block_size) mi_attr_noexcept mi_attr_malloc;
mi_decl_nodiscard mi_decl_export mi_decl_restrict void*
mi_uzalloc(size_t size, size_t* block_size) mi_attr_noexcept mi_attr_malloc;
mi_decl_nodiscard mi_decl_export mi_decl_restrict void*
mi_ucalloc(size_t count, size_t size, size_t* block_size) mi_attr_noexcept mi_attr_malloc;
mi_decl_nodiscard mi_decl_export mi_decl_restrict void*
mi_umalloc_small(size_t size, size_t* block_size) mi_attr_noexcept mi_attr_malloc;
mi_decl_nodiscard mi_decl_export mi_decl_restrict void*
mi_uzalloc_small(size_t size, size_t* block_size) mi_attr_noexcept mi_attr_malloc;
mi_decl_nodiscard mi_decl_export mi_decl_restrict void*
mi_umalloc_aligned(size_t size, size_t alignment,
                   size_t* block_size) mi_attr_noexcept mi_attr_malloc mi_attr_alloc_align(2);
mi_decl_nodiscard mi_decl_export mi_decl_restrict void*
mi_uzalloc_aligned(size_t size, size_t alignment,
                   size_t* block_size) mi_attr_noexcept mi_attr_malloc mi_attr_alloc_align(2);
// `*block_size_pre` receives the slot size of `p` before (0 for NULL), also on failure;
// `*block_size_post` that of the result.
mi_decl_nodiscard mi_decl_export void* mi_urealloc(void* p, size_t newsize, size_t* block_size_pre,
                                                   size_t* block_size_post) mi_attr_noexcept;
// `*block_size` receives the slot size of `p`; not written for NULL.
mi_decl_export void mi_ufree(void* p, size_t* block_size) mi_attr_noexcept;

// ------------------------------------------------------------------------------------------------
// Strings and paths. Results are blocks; NULL for a NULL string.
// ------------------------------------------------------------------------------------------------

mi_decl_nodiscard mi_decl_export mi_decl_restrict char*
mi_strdup(const char* s) mi_attr_noexcept mi_attr_malloc;
// At most `n` characters, and a terminating zero. Reads no character past the first `n`.
mi_decl_nodiscard mi_decl_export mi_decl_restrict char*
mi_strndup(const char* s, size_t n) mi_attr_noexcept mi_attr_malloc;
// As realpath(3): the result is `resolved_name`, or a block when that is NULL.
mi_decl_nodiscard mi_decl_export char* mi_realpath(const char* fname,
                                                   char* resolved_name) mi_attr_noexcept;
mi_decl_nodiscard mi_decl_export mi_decl_restrict unsigned char*
mi_mbsdup(const unsigned char* s) mi_attr_noexcept mi_attr_malloc;
mi_decl_nodiscard mi_decl_export mi_decl_restrict wchar_t*
mi_wcsdup(const wchar_t* s) mi_attr_noexcept mi_attr_malloc;
// Copies the value of environment variable `name` to a block `*buf` (NULL when there is no such
// variable), and its length with the terminating zero to `*size` (may be NULL). Returns 0, EINVAL
// or ENOMEM.
mi_decl_export int mi_dupenv_s(char** buf, size_t* size, const char* name) mi_attr_noexcept;
// The same for wide characters, on Windows; elsewhere `*buf` becomes NULL and the result is
// EINVAL.
mi_decl_export int mi_wdupenv_s(wchar_t** buf, size_t* size, const wchar_t* name) mi_attr_noexcept;

// ------------------------------------------------------------------------------------------------
// Names of POSIX, BSD, glibc and Microsoft
// ------------------------------------------------------------------------------------------------

// Returns 0 and sets `*p`; or EINVAL (`alignment` no power of two, or no multiple of
// sizeof(void*)) or ENOMEM, with `*p` unchanged. Does not touch `errno`. May throw nothing, but
// is not declared so (as in libc).
mi_decl_export int mi_posix_memalign(void** p, size_t alignment, size_t size);
mi_decl_export int mi__posix_memalign(void** p, size_t alignment, size_t size); // versions 1.0
// As `mi_malloc_aligned`, with the alignment first.
mi_decl_nodiscard mi_decl_export mi_decl_restrict void*
mi_memalign(size_t alignment, size_t size) mi_attr_noexcept mi_attr_malloc mi_attr_alloc_size(2)
    mi_attr_alloc_align(1);
mi_decl_nodiscard mi_decl_export mi_decl_restrict void*
mi_aligned_alloc(size_t alignment, size_t size) mi_attr_noexcept mi_attr_malloc
    mi_attr_alloc_size(2) mi_attr_alloc_align(1);
// Aligned to the page size of the operating system; `mi_pvalloc` also rounds the size up to whole
// such pages.
mi_decl_nodiscard mi_decl_export mi_decl_restrict void*
mi_valloc(size_t size) mi_attr_noexcept mi_attr_malloc mi_attr_alloc_size(1);
mi_decl_nodiscard mi_decl_export mi_decl_restrict void*
mi_pvalloc(size_t size) mi_attr_noexcept mi_attr_malloc mi_attr_alloc_size(1);
// As `mi_reallocn`; `errno` is EOVERFLOW when the product overflows.
mi_decl_nodiscard mi_decl_export void* mi_reallocarray(void* p, size_t count,
                                                       size_t size) mi_attr_noexcept
    mi_attr_alloc_size2(2, 3);
// `ptrp` is the address of a pointer, which is updated. Count 0 frees the block and stores NULL.
// Returns 0, or an errno value (EINVAL, EOVERFLOW, ENOMEM; also stored in `errno`) with the
// pointer unchanged.
mi_decl_nodiscard mi_decl_export int mi_reallocarr(void* ptrp, size_t count,
                                                   size_t size) mi_attr_noexcept;
// Other names of `mi_usable_size` and `mi_good_size`.
mi_decl_nodiscard mi_decl_export size_t mi_malloc_size(const void* p) mi_attr_noexcept;
mi_decl_nodiscard mi_decl_export size_t mi_malloc_usable_size(const void* p) mi_attr_noexcept;
mi_decl_nodiscard mi_decl_export size_t mi_malloc_good_size(size_t size) mi_attr_noexcept;
// As `mi_expand`; sets `errno` to ENOMEM when the result is NULL.
mi_decl_export void* mi__expand(void* p, size_t newsize) mi_attr_noexcept mi_attr_alloc_size(2);

// ------------------------------------------------------------------------------------------------
// C++ `operator new`. When there is no memory, the new-handler is called and the allocation tried
// again. Without a handler, `std::bad_alloc` is thrown if the C++ library is loaded, else the
// process is aborted.
// ------------------------------------------------------------------------------------------------

mi_decl_nodiscard mi_decl_export mi_decl_restrict void* mi_new(size_t size) mi_attr_malloc
    mi_attr_alloc_size(1);
mi_decl_nodiscard mi_decl_export mi_decl_restrict void*
mi_new_aligned(size_t size, size_t alignment) mi_attr_malloc mi_attr_alloc_size(1)
    mi_attr_alloc_align(2);
// NULL only when the product overflows and a new-handler was called.
mi_decl_nodiscard mi_decl_export mi_decl_restrict void* mi_new_n(size_t count,
                                                                 size_t size) mi_attr_malloc
    mi_attr_alloc_size2(1, 2);
mi_decl_nodiscard mi_decl_export void* mi_new_realloc(void* p, size_t newsize)
    mi_attr_alloc_size(2);
mi_decl_nodiscard mi_decl_export void* mi_new_reallocn(void* p, size_t newcount, size_t size)
    mi_attr_alloc_size2(2, 3);
// NULL instead of an exception; a new-handler is called all the same.
mi_decl_nodiscard mi_decl_export mi_decl_restrict void*
mi_new_nothrow(size_t size) mi_attr_noexcept mi_attr_malloc mi_attr_alloc_size(1);
mi_decl_nodiscard mi_decl_export mi_decl_restrict void*
mi_new_aligned_nothrow(size_t size, size_t alignment) mi_attr_noexcept mi_attr_malloc
    mi_attr_alloc_size(1) mi_attr_alloc_align(2);

// ------------------------------------------------------------------------------------------------
// Process, threads, collection
// ------------------------------------------------------------------------------------------------

// MI_MALLOC_VERSION of the library that is running.
mi_decl_export int mi_version(void) mi_attr_noexcept;

// Set up, and finish (print statistics when asked for; nothing is freed). Both happen by
// themselves and may be called again without effect.
mi_decl_export void mi_process_init(void) mi_attr_noexcept;
mi_decl_export void mi_process_done(void) mi_attr_noexcept;
// The same for the calling thread; `mi_thread_done` leaves the thread's free memory to others.
// The thread may go on to allocate and free.
mi_decl_export void mi_thread_init(void) mi_attr_noexcept;
mi_decl_export void mi_thread_done(void) mi_attr_noexcept;
// The calling thread runs unrelated tasks one after the other.
mi_decl_export void mi_thread_set_in_threadpool(void) mi_attr_noexcept;

// Return memory that the calling thread holds but does not need; `force`: all of it, and to the
// system at once.
mi_decl_export void mi_collect(bool force) mi_attr_noexcept;
// Another name of a forced collect, for programs of older versions.
mi_decl_export void mi_collect_reduce(size_t target_thread_owned) mi_attr_noexcept;

// What the process used: milliseconds, bytes, and page faults that had to read from a disk. Any
// argument may be NULL.
mi_decl_export void mi_process_info(size_t* elapsed_msecs, size_t* user_msecs, size_t* system_msecs,
                                    size_t* current_rss, size_t* peak_rss, size_t* current_commit,
                                    size_t* peak_commit, size_t* page_faults) mi_attr_noexcept;
// The same as one line of text. `out` NULL is the registered output function, or else standard
// error.
mi_decl_export void mi_process_info_print(void) mi_attr_noexcept;
mi_decl_export void mi_process_info_print_out(mi_output_fun* out, void* arg) mi_attr_noexcept;

// Callbacks, one of each kind for the whole process; NULL restores the default. A callback may be
// called by several threads at once. Register from one thread at a time.

// Frees what the program had put off. May allocate and free; is not entered again on the thread it
// runs on.
mi_decl_export void mi_register_deferred_free(mi_deferred_free_fun* deferred_free,
                                              void* arg) mi_attr_noexcept;
// Replaces standard error; receives at once what was printed before (up to 16 KiB). Should not
// allocate.
mi_decl_export void mi_register_output(mi_output_fun* out, void* arg) mi_attr_noexcept;
// Called after the message of an error was printed. By default debug builds abort on EFAULT, and
// all else goes on.
mi_decl_export void mi_register_error(mi_error_fun* fun, void* arg);

// ------------------------------------------------------------------------------------------------
// Heaps: sets of blocks that can be released at once. Any thread may allocate from any heap at any
// time. Blocks of a heap are given back with `mi_free` as all others. `heap` NULL is the main heap.
// ------------------------------------------------------------------------------------------------

// A fresh heap in the sub-process of the calling thread. NULL when there is no memory for it.
mi_decl_nodiscard mi_decl_export mi_heap_t* mi_heap_new(void) mi_attr_noexcept;
// The same with all blocks in one arena; when that is full, allocation fails. NULL is any arena.
mi_decl_nodiscard mi_decl_export mi_heap_t*
mi_heap_new_in_arena(mi_arena_id_t arena_id) mi_attr_noexcept;
// End a heap; its blocks in use stay valid and belong to the main heap from then on. No other
// thread may allocate from the heap at that time or later; blocks of it may be freed meanwhile.
// NULL does nothing; the main heap stays, with a warning.
mi_decl_export void mi_heap_delete(mi_heap_t* heap) mi_attr_noexcept;
// End a heap and all its blocks: without a look at each block. No other thread may use the heap or
// its blocks at that time or later. NULL and the main heap as above.
mi_decl_export void mi_heap_destroy(mi_heap_t* heap) mi_attr_noexcept;
// The heap that `mi_malloc` allocates from, that of the sub-process of the calling thread.
mi_decl_nodiscard mi_decl_export mi_heap_t* mi_heap_main(void) mi_attr_noexcept;

// The heap that has memory at `p`, in constant time; NULL for addresses that are not ours. Nothing
// is said about whether a block at `p` is in use.
mi_decl_nodiscard mi_decl_export mi_heap_t* mi_heap_of(const void* p) mi_attr_noexcept;
mi_decl_nodiscard mi_decl_export bool mi_heap_contains(const mi_heap_t* heap,
                                                       const void* p) mi_attr_noexcept;
mi_decl_nodiscard mi_decl_export bool mi_any_heap_contains(const void* p) mi_attr_noexcept;
// Older names of `mi_any_heap_contains`.
mi_decl_nodiscard mi_decl_export bool mi_is_in_heap_region(const void* p) mi_attr_noexcept;
mi_decl_nodiscard mi_decl_export bool mi_check_owned(const void* p) mi_attr_noexcept;

// Prefer memory of this NUMA node (modulo the number of nodes) for what the heap takes from now
// on; negative: no preference.
mi_decl_export void mi_heap_set_numa_affinity(mi_heap_t* heap, int numa_node) mi_attr_noexcept;
// As `mi_collect`, for what the calling thread holds of this heap.
mi_decl_export void mi_heap_collect(mi_heap_t* heap, bool force) mi_attr_noexcept;

// As their namesakes without `heap`. A block that is resized may be of any heap; if it is of
// another one it moves into `heap`.
mi_decl_nodiscard mi_decl_export mi_decl_restrict void*
mi_heap_malloc(mi_heap_t* heap, size_t size) mi_attr_noexcept mi_attr_malloc mi_attr_alloc_size(2);
mi_decl_nodiscard mi_decl_export mi_decl_restrict void*
mi_heap_zalloc(mi_heap_t* heap, size_t size) mi_attr_noexcept mi_attr_malloc mi_attr_alloc_size(2);
mi_decl_nodiscard mi_decl_export mi_decl_restrict void*
mi_heap_calloc(mi_heap_t* heap, size_t count, size_t size) mi_attr_noexcept mi_attr_malloc
    mi_attr_alloc_size2(2, 3);
mi_decl_nodiscard mi_decl_export mi_decl_restrict void*
mi_heap_mallocn(mi_heap_t* heap, size_t count, size_t size) mi_attr_noexcept mi_attr_malloc
    mi_attr_alloc_size2(2, 3);
mi_decl_nodiscard mi_decl_export mi_decl_restrict void*
mi_heap_malloc_small(mi_heap_t* heap, size_t size) mi_attr_noexcept mi_attr_malloc
    mi_attr_alloc_size(2);
mi_decl_nodiscard mi_decl_export mi_decl_restrict void*
mi_heap_zalloc_small(mi_heap_t* heap, size_t size) mi_attr_noexcept mi_attr_malloc
    mi_attr_alloc_size(2);

mi_decl_nodiscard mi_decl_export void* mi_heap_realloc(mi_heap_t* heap, void* p,
                                                       size_t newsize) mi_attr_noexcept
    mi_attr_alloc_size(3);
mi_decl_nodiscard mi_decl_export void* mi_heap_reallocn(mi_heap_t* heap, void* p, size_t count,
                                                        size_t size) mi_attr_noexcept
    mi_attr_alloc_size2(3, 4);
mi_decl_nodiscard mi_decl_export void* mi_heap_reallocf(mi_heap_t* heap, void* p,
                                                        size_t newsize) mi_attr_noexcept
    mi_attr_alloc_size(3);
mi_decl_nodiscard mi_decl_export void* mi_heap_rezalloc(mi_heap_t* heap, void* p,
                                                        size_t newsize) mi_attr_noexcept
    mi_attr_alloc_size(3);
mi_decl_nodiscard mi_decl_export void* mi_heap_recalloc(mi_heap_t* heap, void* p, size_t newcount,
                                                        size_t size) mi_attr_noexcept
    mi_attr_alloc_size2(3, 4);

mi_decl_nodiscard mi_decl_export mi_decl_restrict char*
mi_heap_strdup(mi_heap_t* heap, const char* s) mi_attr_noexcept mi_attr_malloc;
mi_decl_nodiscard mi_decl_export mi_decl_restrict char*
mi_heap_strndup(mi_heap_t* heap, const char* s, size_t n) mi_attr_noexcept mi_attr_malloc;
mi_decl_nodiscard mi_decl_export char* mi_heap_realpath(mi_heap_t* heap, const char* fname,
                                                        char* resolved_name) mi_attr_noexcept;

mi_decl_nodiscard mi_decl_export mi_decl_restrict void*
mi_heap_malloc_aligned(mi_heap_t* heap, size_t size,
                       size_t alignment) mi_attr_noexcept mi_attr_malloc mi_attr_alloc_size(2)
    mi_attr_alloc_align(3);
mi_decl_nodiscard mi_decl_export mi_decl_restrict void*
mi_heap_malloc_aligned_at(mi_heap_t* heap, size_t size, size_t alignment,
                          size_t offset) mi_attr_noexcept mi_attr_malloc mi_attr_alloc_size(2);
mi_decl_nodiscard mi_decl_export mi_decl_restrict void*
mi_heap_zalloc_aligned(mi_heap_t* heap, size_t size,
                       size_t alignment) mi_attr_noexcept mi_attr_malloc mi_attr_alloc_size(2)
    mi_attr_alloc_align(3);
mi_decl_nodiscard mi_decl_export mi_decl_restrict void*
mi_heap_zalloc_aligned_at(mi_heap_t* heap, size_t size, size_t alignment,
                          size_t offset) mi_attr_noexcept mi_attr_malloc mi_attr_alloc_size(2);
mi_decl_nodiscard mi_decl_export mi_decl_restrict void*
mi_heap_calloc_aligned(mi_heap_t* heap, size_t count, size_t size,
                       size_t alignment) mi_attr_noexcept mi_attr_malloc mi_attr_alloc_size2(2, 3)
    mi_attr_alloc_align(4);
mi_decl_nodiscard mi_decl_export mi_decl_restrict void*
mi_heap_calloc_aligned_at(mi_heap_t* heap, size_t count, size_t size, size_t alignment,
                          size_t offset) mi_attr_noexcept mi_attr_malloc mi_attr_alloc_size2(2, 3);
mi_decl_nodiscard mi_decl_export void*
mi_heap_realloc_aligned(mi_heap_t* heap, void* p, size_t newsize, size_t alignment) mi_attr_noexcept
    mi_attr_alloc_size(3) mi_attr_alloc_align(4);
mi_decl_nodiscard mi_decl_export void* mi_heap_realloc_aligned_at(mi_heap_t* heap, void* p,
                                                                  size_t newsize, size_t alignment,
                                                                  size_t offset) mi_attr_noexcept
    mi_attr_alloc_size(3);
mi_decl_nodiscard mi_decl_export void* mi_heap_rezalloc_aligned(mi_heap_t* heap, void* p,
                                                                size_t newsize,
                                                                size_t alignment) mi_attr_noexcept
    mi_attr_alloc_size(3) mi_attr_alloc_align(4);
mi_decl_nodiscard mi_decl_export void* mi_heap_rezalloc_aligned_at(mi_heap_t* heap, void* p,
                                                                   size_t newsize, size_t alignment,
                                                                   size_t offset) mi_attr_noexcept
    mi_attr_alloc_size(3);
mi_decl_nodiscard mi_decl_export void* mi_heap_recalloc_aligned(mi_heap_t* heap, void* p,
                                                                size_t newcount, size_t size,
                                                                size_t alignment) mi_attr_noexcept
    mi_attr_alloc_size2(3, 4) mi_attr_alloc_align(5);
mi_decl_nodiscard mi_decl_export void*
mi_heap_recalloc_aligned_at(mi_heap_t* heap, void* p, size_t newcount, size_t size,
                            size_t alignment, size_t offset) mi_attr_noexcept
    mi_attr_alloc_size2(3, 4);

// As `mi_new` and `mi_new_n`.
mi_decl_nodiscard mi_decl_export mi_decl_restrict void*
mi_heap_alloc_new(mi_heap_t* heap, size_t size) mi_attr_malloc mi_attr_alloc_size(2);
mi_decl_nodiscard mi_decl_export mi_decl_restrict void*
mi_heap_alloc_new_n(mi_heap_t* heap, size_t count, size_t size) mi_attr_malloc
    mi_attr_alloc_size2(2, 3);

// For a type: one element, or `n` of them; the result has type `tp*`.
#define mi_heap_malloc_tp(tp, hp) ((tp*)mi_heap_malloc((hp), sizeof(tp)))
#define mi_heap_zalloc_tp(tp, hp) ((tp*)mi_heap_zalloc((hp), sizeof(tp)))
#define mi_heap_calloc_tp(tp, hp, n) ((tp*)mi_heap_calloc((hp), (n), sizeof(tp)))
#define mi_heap_mallocn_tp(tp, hp, n) ((tp*)mi_heap_mallocn((hp), (n), sizeof(tp)))
#define mi_heap_reallocn_tp(tp, hp, p, n) ((tp*)mi_heap_reallocn((hp), (p), (n), sizeof(tp)))
#define mi_heap_recalloc_tp(tp, hp, p, n) ((tp*)mi_heap_recalloc((hp), (p), (n), sizeof(tp)))

// Of versions 1 and 2, where a thread had a default heap.

// The heap that `mi_malloc` of this thread allocates from; change it (returns the one before).
mi_decl_nodiscard mi_decl_export mi_heap_t* mi_heap_get_default(void) mi_attr_noexcept;
mi_decl_export mi_heap_t* mi_heap_set_default(mi_heap_t* heap) mi_attr_noexcept;
// Other names of `mi_heap_main`, `mi_heap_contains` (twice), and `mi_heap_new_in_arena`; tag and
// flag are ignored.
mi_decl_nodiscard mi_decl_export mi_heap_t* mi_heap_get_backing(void) mi_attr_noexcept;
mi_decl_nodiscard mi_decl_export bool mi_heap_contains_block(mi_heap_t* heap,
                                                             const void* p) mi_attr_noexcept;
mi_decl_nodiscard mi_decl_export bool mi_heap_check_owned(mi_heap_t* heap,
                                                          const void* p) mi_attr_noexcept;
mi_decl_nodiscard mi_decl_export mi_heap_t* mi_heap_new_ex(int heap_tag, bool allow_destroy,
                                                           mi_arena_id_t arena_id) mi_attr_noexcept;

// ------------------------------------------------------------------------------------------------
// Theaps: the part of a heap that one thread allocates from. Saves the search for it in each call.
// Only the thread that asked for a theap may use it, until the thread or the heap ends. NULL has
// no memory to give and is ignored by the others.
// ------------------------------------------------------------------------------------------------

// The calling thread's theap of a heap, made when needed. NULL when there is no memory for it.
mi_decl_nodiscard mi_decl_export mi_theap_t* mi_heap_theap(mi_heap_t* heap) mi_attr_noexcept;
// The theap that `mi_malloc` of this thread uses; change it (returns the one before).
mi_decl_nodiscard mi_decl_export mi_theap_t* mi_theap_get_default(void) mi_attr_noexcept;
mi_decl_export mi_theap_t* mi_theap_set_default(mi_theap_t* theap) mi_attr_noexcept;
mi_decl_export void mi_theap_collect(mi_theap_t* theap, bool force) mi_attr_noexcept;
mi_decl_nodiscard mi_decl_export mi_decl_restrict void*
mi_theap_malloc(mi_theap_t* theap, size_t size) mi_attr_noexcept mi_attr_malloc
    mi_attr_alloc_size(2);
mi_decl_nodiscard mi_decl_export mi_decl_restrict void*
mi_theap_zalloc(mi_theap_t* theap, size_t size) mi_attr_noexcept mi_attr_malloc
    mi_attr_alloc_size(2);
mi_decl_nodiscard mi_decl_export mi_decl_restrict void*
mi_theap_calloc(mi_theap_t* theap, size_t count, size_t size) mi_attr_noexcept mi_attr_malloc
    mi_attr_alloc_size2(2, 3);
mi_decl_nodiscard mi_decl_export mi_decl_restrict void*
mi_theap_malloc_small(mi_theap_t* theap, size_t size) mi_attr_noexcept mi_attr_malloc
    mi_attr_alloc_size(2);
mi_decl_nodiscard mi_decl_export mi_decl_restrict void*
mi_theap_zalloc_small(mi_theap_t* theap, size_t size) mi_attr_noexcept mi_attr_malloc
    mi_attr_alloc_size(2);
mi_decl_nodiscard mi_decl_export mi_decl_restrict void*
mi_theap_malloc_aligned(mi_theap_t* theap, size_t size,
                        size_t alignment) mi_attr_noexcept mi_attr_malloc mi_attr_alloc_size(2)
    mi_attr_alloc_align(3);
mi_decl_nodiscard mi_decl_export void* mi_theap_realloc(mi_theap_t* theap, void* p,
                                                        size_t newsize) mi_attr_noexcept
    mi_attr_alloc_size(3);

// Which blocks get a guard behind them: one in `sample_rate` (0 none, 1 all; `seed` 0 starts
// anywhere) of those of `min` to `max` bytes. Builds without guards (MI_GUARDED) do nothing.
mi_decl_export void mi_theap_guarded_set_sample_rate(mi_theap_t* theap, size_t sample_rate,
                                                     size_t seed) mi_attr_noexcept;
mi_decl_export void mi_theap_guarded_set_size_bound(mi_theap_t* theap, size_t min,
                                                    size_t max) mi_attr_noexcept;
// The same for the calling thread's theap of a heap (version 2).
mi_decl_export void mi_heap_guarded_set_sample_rate(mi_heap_t* heap, size_t sample_rate,
                                                    size_t seed) mi_attr_noexcept;
mi_decl_export void mi_heap_guarded_set_size_bound(mi_heap_t* heap, size_t min,
                                                   size_t max) mi_attr_noexcept;

// ------------------------------------------------------------------------------------------------
// Sub-processes: heaps, arenas and statistics that share nothing with those of another one, for
// several interpreters in one process. A thread belongs to one, at first to the main one.
// ------------------------------------------------------------------------------------------------

mi_decl_nodiscard mi_decl_export mi_subproc_id_t mi_subproc_main(void) mi_attr_noexcept;
// That of the calling thread.
mi_decl_nodiscard mi_decl_export mi_subproc_id_t mi_subproc_current(void) mi_attr_noexcept;
// A fresh one, with a main heap; an id of NULL when there is no memory for it.
mi_decl_nodiscard mi_decl_export mi_subproc_id_t mi_subproc_new(void) mi_attr_noexcept;
// End a sub-process: all its heaps and blocks, and all its memory. Its threads must have ended:
// with threads in it, it stays, with a warning. The main one and NULL are ignored.
mi_decl_export void mi_subproc_destroy(mi_subproc_id_t subproc) mi_attr_noexcept;
// The same, but blocks in use stay valid, and the rest ends when none is left (version 3.1).
mi_decl_export void mi_subproc_delete(mi_subproc_id_t subproc) mi_attr_noexcept;
// The calling thread belongs to `subproc` until it ends. For a fresh thread: a thread that is in
// another one already stays there, with a warning. What it allocated before stays where it was.
mi_decl_export void mi_subproc_add_current_thread(mi_subproc_id_t subproc) mi_attr_noexcept;
// Call `visitor` for each heap until it returns false; returns whether it never did. It must not
// make or end heaps.
mi_decl_export bool mi_subproc_visit_heaps(mi_subproc_id_t subproc, mi_heap_visit_fun* visitor,
                                           void* arg) mi_attr_noexcept;

// ------------------------------------------------------------------------------------------------
// Arenas: memory that the program reserves, or brings along. An id is valid as long as the process.
// Functions that return int: 0 or ENOMEM. `*arena_id` (may be NULL) becomes NULL, and the id on
// success. An `exclusive` arena serves only heaps of `mi_heap_new_in_arena`.
// ------------------------------------------------------------------------------------------------

// Reserve `size` bytes (rounded up to `mi_arena_min_size`) for the heaps of this sub-process.
// `commit`: usable at once; `allow_large`: explicit large pages of the system if it has any.
mi_decl_export int mi_reserve_os_memory(size_t size, bool commit,
                                        bool allow_large) mi_attr_noexcept;
mi_decl_export int mi_reserve_os_memory_ex(size_t size, bool commit, bool allow_large,
                                           bool exclusive,
                                           mi_arena_id_t* arena_id) mi_attr_noexcept;

// Use memory of the program, which must stay valid as long as the process. The start is rounded up
// to `mi_arena_min_alignment`, the end down; less than `mi_arena_min_size` is refused with a
// warning. `is_committed`: usable now, else it is made so by mprotect(2); `is_pinned`: must not be
// given back to the system; `is_zero`: reads as zero; `numa_node`: -1 unknown. Returns success.
mi_decl_export bool mi_manage_os_memory(void* start, size_t size, bool is_committed, bool is_pinned,
                                        bool is_zero, int numa_node) mi_attr_noexcept;
mi_decl_export bool mi_manage_os_memory_ex(void* start, size_t size, bool is_committed,
                                           bool is_pinned, bool is_zero, int numa_node,
                                           bool exclusive,
                                           mi_arena_id_t* arena_id) mi_attr_noexcept;
// The same, with a function of the program that makes it usable and gives it back; that may not
// allocate.
mi_decl_export bool mi_manage_memory(void* start, size_t size, bool is_committed, bool is_pinned,
                                     bool is_zero, int numa_node, bool exclusive,
                                     mi_commit_fun_t* commit_fun, void* commit_fun_arg,
                                     mi_arena_id_t* arena_id) mi_attr_noexcept;

// Reserve `pages` huge OS pages of 1 GiB, one after the other, and stop when that takes longer than
// twice `timeout_msecs` (0: no limit). A part is a success. Evenly over `numa_nodes` (0: all), or
// at one node (-1: any).
mi_decl_export int mi_reserve_huge_os_pages_interleave(size_t pages, size_t numa_nodes,
                                                       size_t timeout_msecs) mi_attr_noexcept;
mi_decl_export int mi_reserve_huge_os_pages_at(size_t pages, int numa_node,
                                               size_t timeout_msecs) mi_attr_noexcept;
mi_decl_export int mi_reserve_huge_os_pages_at_ex(size_t pages, int numa_node, size_t timeout_msecs,
                                                  bool exclusive,
                                                  mi_arena_id_t* arena_id) mi_attr_noexcept;
// Older form of the first; `*pages_reserved` (may be NULL) becomes `pages` on success, else 0.
mi_decl_export int mi_reserve_huge_os_pages(size_t pages, double max_secs,
                                            size_t* pages_reserved) mi_attr_noexcept;

mi_decl_nodiscard mi_decl_export size_t mi_arena_min_alignment(void) mi_attr_noexcept;
mi_decl_nodiscard mi_decl_export size_t mi_arena_min_size(void) mi_attr_noexcept;
// Where an arena starts, and its bytes in `*size` (may be NULL). NULL and 0 for NULL.
mi_decl_nodiscard mi_decl_export void* mi_arena_area(mi_arena_id_t arena_id,
                                                     size_t* size) mi_attr_noexcept;
mi_decl_nodiscard mi_decl_export bool mi_arena_contains(mi_arena_id_t arena_id,
                                                        const void* p) mi_attr_noexcept;
// Print a map of the slices of each arena to the registered output.
mi_decl_export void mi_arenas_print(void) mi_attr_noexcept;
mi_decl_export void mi_debug_show_arenas(void) mi_attr_noexcept;
// Windows: whether malloc of the C library leads here. False elsewhere.
mi_decl_nodiscard mi_decl_export bool mi_is_redirected(void) mi_attr_noexcept;

// Experiments of versions 3.0 and 3.1, not possible any more: they return false.
mi_decl_export bool mi_arena_unload(mi_arena_id_t arena_id, void** base, size_t* accessed_size,
                                    size_t* full_size) mi_attr_noexcept;
mi_decl_export bool mi_arena_reload(void* start, size_t size,
                                    mi_arena_id_t* arena_id) mi_attr_noexcept;
mi_decl_export bool mi_heap_unload(mi_heap_t* heap) mi_attr_noexcept;
mi_decl_export bool mi_heap_reload(mi_heap_t* heap, mi_arena_id_t arena_id) mi_attr_noexcept;

// ------------------------------------------------------------------------------------------------
// Introspection. The visitor is called for each run of equal blocks (with `block` NULL), and, with
// `visit_blocks`, for each block in use in it. False when the visitor returned false, or is NULL.
// No other thread may allocate from or free into the heap meanwhile, and the visitor not either.
// ------------------------------------------------------------------------------------------------

mi_decl_export bool mi_heap_visit_blocks(mi_heap_t* heap, bool visit_blocks,
                                         mi_block_visit_fun* visitor, void* arg) mi_attr_noexcept;
// Only memory that no thread holds: of threads that ended, pages that are full, large blocks.
mi_decl_export bool mi_heap_visit_abandoned_blocks(mi_heap_t* heap, bool visit_blocks,
                                                   mi_block_visit_fun* visitor,
                                                   void* arg) mi_attr_noexcept;
// The same for all heaps of a sub-process; the tag is ignored (version 3.1).
mi_decl_export bool mi_abandoned_visit_blocks(mi_subproc_id_t subproc, int heap_tag,
                                              bool visit_blocks, mi_block_visit_fun* visitor,
                                              void* arg) mi_attr_noexcept;
// Only what this theap holds.
mi_decl_export bool mi_theap_visit_blocks(const mi_theap_t* theap, bool visit_blocks,
                                          mi_block_visit_fun* visitor, void* arg) mi_attr_noexcept;
// For programs that defragment: whether it pays to move the block at `p` elsewhere. True when all
// blocks of its page were used once, some are free, malloc does not use the page at the moment, it
// is of `heap` (NULL: any), and at most `perc_threshold` percent of its blocks are in use.
mi_decl_nodiscard mi_decl_export bool
mi_unsafe_heap_page_is_under_utilized(mi_heap_t* heap, void* p,
                                      size_t perc_threshold) mi_attr_noexcept;

// ------------------------------------------------------------------------------------------------
// Statistics as text: lines of at most 255 bytes, for people. `out` NULL is the registered output
// function, or else standard error.
// ------------------------------------------------------------------------------------------------

mi_decl_export void mi_stats_print_out(mi_output_fun* out, void* arg) mi_attr_noexcept;
mi_decl_export void mi_thread_stats_print_out(mi_output_fun* out, void* arg) mi_attr_noexcept;
// Of one sub-process; of each of its heaps and then of it; of one heap.
mi_decl_export void mi_subproc_stats_print_out(mi_subproc_id_t subproc, mi_output_fun* out,
                                               void* arg) mi_attr_noexcept;
mi_decl_export void mi_subproc_heap_stats_print_out(mi_subproc_id_t subproc, mi_output_fun* out,
                                                    void* arg) mi_attr_noexcept;
mi_decl_export void mi_heap_stats_print_out(mi_heap_t* heap, mi_output_fun* out,
                                            void* arg) mi_attr_noexcept;
// Older names: the argument is ignored; the other two have nothing to do, the figures are always
// complete.
mi_decl_export void mi_stats_print(void* out) mi_attr_noexcept;
mi_decl_export void mi_stats_reset(void) mi_attr_noexcept;
mi_decl_export void mi_stats_merge(void) mi_attr_noexcept;
mi_decl_export void mi_thread_stats_print(mi_output_fun* out) mi_attr_noexcept;

// ------------------------------------------------------------------------------------------------
// Options. The environment sets them too: variable MIMALLOC_ and the name in capitals. Meant for
// the start of a program.
// ------------------------------------------------------------------------------------------------

// The numbers are part of the binary interface.
typedef enum mi_option_e {
  mi_option_show_errors = 0, // print errors and warnings
  mi_option_show_stats = 1, // print statistics at the end
  mi_option_verbose = 2, // print what happens; 2: more
  mi_option_deprecated_eager_commit = 3,
  mi_option_arena_eager_commit = 4, // commit whole: 0 no, 1 yes, 2 if overcommitted
  mi_option_purge_decommits = 5, // unused memory: 1 goes back, 0 may be taken
  mi_option_allow_large_os_pages = 6, // explicit 2 MiB pages
  mi_option_reserve_huge_os_pages = 7, // number of 1 GiB pages to reserve at the start
  mi_option_reserve_huge_os_pages_at = 8, // their NUMA node, -1 any
  mi_option_reserve_os_memory = 9, // KiB to reserve at the start
  mi_option_deprecated_segment_cache = 10,
  mi_option_deprecated_page_reset = 11,
  mi_option_deprecated_abandoned_page_purge = 12,
  mi_option_deprecated_segment_reset = 13,
  mi_option_deprecated_eager_commit_delay = 14,
  mi_option_purge_delay = 15, // ms until unused memory goes back; -1 never
  mi_option_use_numa_nodes = 16, // pretend to have so many nodes; 0 ask the system
  mi_option_disallow_os_alloc = 17, // use reserved memory only
  mi_option_os_tag = 18,
  mi_option_max_errors = 19, // print at most so many errors; -1 all
  mi_option_max_warnings = 20, // print at most so many warnings; -1 all
  mi_option_deprecated_max_segment_reclaim = 21,
  mi_option_destroy_on_exit = 22, // give everything back at the end
  mi_option_arena_reserve = 23, // KiB of address space to reserve at a time
  mi_option_arena_purge_mult = 24, // purge delay of arenas, in multiples of `purge_delay`
  mi_option_deprecated_purge_extend_delay = 25,
  mi_option_disallow_arena_alloc = 26, // use no arenas
  mi_option_retry_on_oom = 27, // Windows: milliseconds to keep trying
  mi_option_visit_abandoned = 28, // keep track of all abandoned memory, for visitors
  mi_option_guarded_min = 29, // smallest and largest size of guarded blocks, bytes
  mi_option_guarded_max = 30,
  mi_option_guarded_precise = 31, // guard to the byte, even if that breaks the alignment
  mi_option_guarded_sample_rate = 32, // guard one block in so many; 0 none
  mi_option_guarded_sample_seed = 33,
  mi_option_generic_collect = 34, // collect after so many slow allocations
  mi_option_page_reclaim_on_free = 35, // take over abandoned pages when freeing into them
  mi_option_page_full_retain = 36, // full pages a thread keeps per size
  mi_option_page_max_candidates = 37, // pages to look at for the best one
  mi_option_max_vabits = 38, // bits of an address; 0 ask the system
  mi_option_pagemap_commit = 39, // commit the whole page map at the start
  mi_option_page_commit_on_demand = 40, // commit pages bit by bit
  mi_option_page_max_reclaim = 41, // limits to taking over pages
  mi_option_page_cross_thread_max_reclaim = 42,
  mi_option_allow_thp = 43, // huge pages: 0 never, 1 where they pay, 2 all
  mi_option_minimal_purge_size = 44, // KiB; smaller ranges are kept
  mi_option_arena_max_object_size = 45, // KiB; larger blocks get a mapping of their own
  mi_option_arena_is_numa_local = 46, // arenas belong to the node of their maker
  _mi_option_last = 47, // how many there are
  // older names
  mi_option_eager_region_commit = mi_option_arena_eager_commit,
  mi_option_reset_decommits = mi_option_purge_decommits,
  mi_option_large_os_pages = mi_option_allow_large_os_pages,
  mi_option_abandoned_page_reset = mi_option_deprecated_abandoned_page_purge,
  mi_option_reset_delay = mi_option_purge_delay,
  mi_option_limit_os_alloc = mi_option_disallow_os_alloc
} mi_option_t;

// The value; 0 for a number that is no option.
mi_decl_nodiscard mi_decl_export long mi_option_get(mi_option_t option);
// The value, but at least `min` and at most `max`.
mi_decl_nodiscard mi_decl_export long mi_option_get_clamp(mi_option_t option, long min, long max);
// The value of an option that counts KiB, in bytes; negative values give 0.
mi_decl_nodiscard mi_decl_export size_t mi_option_get_size(mi_option_t option);
// Set a value, over the environment and any default. Options that count KiB take KiB.
mi_decl_export void mi_option_set(mi_option_t option, long value);
// Set a value unless the environment or `mi_option_set` did.
mi_decl_export void mi_option_set_default(mi_option_t option, long value);

// The same for options that are on (not 0) or off.
mi_decl_nodiscard mi_decl_export bool mi_option_is_enabled(mi_option_t option);
mi_decl_export void mi_option_enable(mi_option_t option);
mi_decl_export void mi_option_disable(mi_option_t option);
mi_decl_export void mi_option_set_enabled(mi_option_t option, bool enable);
mi_decl_export void mi_option_set_enabled_default(mi_option_t option, bool enable);

// Print version, options and build. `out` NULL is the registered output function, or else
// standard error.
mi_decl_export void mi_options_print(void) mi_attr_noexcept;
mi_decl_export void mi_options_print_out(mi_output_fun* out, void* arg) mi_attr_noexcept;

#ifdef __cplusplus
}
#endif

// ------------------------------------------------------------------------------------------------
// C++: an allocator for containers, `std::vector<T, mi_stl_allocator<T> >`. It has no state, so
// every instance frees what any other allocated. Types of any alignment are honoured. Without
// memory it does what `mi_new` does; more than `max_size()` elements throw
// std::bad_array_new_length (before C++11 std::bad_alloc; without exceptions the process is
// aborted).
// ------------------------------------------------------------------------------------------------

#ifdef __cplusplus
#include <cstddef>
#include <cstdlib>
#include <new>
#if __cplusplus >= 201103L || (defined(_MSC_VER) && _MSC_VER >= 1900)
#define MI_HAS_CXX11 1
#include <type_traits>
#include <utility>
#else
#define MI_HAS_CXX11 0
#endif

// What does not depend on where the memory comes from.
template <class T> struct _mi_stl_allocator_common {
  typedef T value_type;
  typedef std::size_t size_type;
  typedef std::ptrdiff_t difference_type;
  typedef value_type& reference;
  typedef value_type const& const_reference;
  typedef value_type* pointer;
  typedef value_type const* const_pointer;

#if MI_HAS_CXX11
  using propagate_on_container_copy_assignment = std::true_type;
  using propagate_on_container_move_assignment = std::true_type;
  using propagate_on_container_swap = std::true_type;

  template <class U, class... Args> void construct(U* p, Args&&... args) {
    ::new (static_cast<void*>(p)) U(std::forward<Args>(args)...);
  }
  template <class U> void destroy(U* p) mi_attr_noexcept { p->~U(); }
#else
  void construct(pointer p, const_reference value) { ::new (static_cast<void*>(p)) T(value); }
  void destroy(pointer p) { p->~T(); }
#endif

  size_type max_size() const mi_attr_noexcept {
    return static_cast<size_type>(-1) / 2 / sizeof(value_type);
  }
  pointer address(reference x) const mi_attr_noexcept { return &x; }
  const_pointer address(const_reference x) const mi_attr_noexcept { return &x; }
};

template <class T> struct mi_stl_allocator : public _mi_stl_allocator_common<T> {
  typedef typename _mi_stl_allocator_common<T>::size_type size_type;
  typedef typename _mi_stl_allocator_common<T>::pointer pointer;
  template <class U> struct rebind { typedef mi_stl_allocator<U> other; };
#if MI_HAS_CXX11
  using is_always_equal = std::true_type;
#endif

  mi_stl_allocator() mi_attr_noexcept {}
  template <class U> mi_stl_allocator(const mi_stl_allocator<U>&) mi_attr_noexcept {}
  mi_stl_allocator select_on_container_copy_construction() const { return *this; }

  mi_decl_nodiscard pointer allocate(size_type count) {
    if (count > this->max_size()) throw_bad_length();
    if (alignment() <= 16) return static_cast<pointer>(mi_new_n(count, sizeof(T)));
    return static_cast<pointer>(mi_new_aligned(count * sizeof(T), alignment()));
  }
  mi_decl_nodiscard pointer allocate(size_type count, const void*) { return allocate(count); }
  void deallocate(pointer p, size_type) mi_attr_noexcept { mi_free(p); }

private:
  // In a function, because `T` may still be incomplete where the class is named.
  static size_type alignment() mi_attr_noexcept {
#if defined(__GNUC__) || defined(__clang__)
    return __alignof__(T);
#elif defined(_MSC_VER)
    return __alignof(T);
#else
    return alignof(T);
#endif
  }
  static void throw_bad_length() {
#if !defined(__cpp_exceptions) && !defined(__EXCEPTIONS) && !defined(_CPPUNWIND)
    std::abort();
#elif MI_HAS_CXX11
    throw std::bad_array_new_length();
#else
    throw std::bad_alloc();
#endif
  }
};

template <class T, class U>
bool operator==(const mi_stl_allocator<T>&, const mi_stl_allocator<U>&) mi_attr_noexcept {
  return true;
}
template <class T, class U>
bool operator!=(const mi_stl_allocator<T>&, const mi_stl_allocator<U>&) mi_attr_noexcept {
  return false;
}
#endif // __cplusplus

#endif
