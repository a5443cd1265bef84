// SPDX-License-Identifier: MIT - tidy: allow file-length (users include one header)
/// @file
/// The public interface of libmimalloc, for C (99 and later) and C++.
///
/// Rules that hold for every function unless it says otherwise:
/// - Any thread may call it at any time: before `main`, as the first call of the process, after
///   `exit`.
/// - Sizes, offsets and alignments are bytes; alignments are powers of two.
/// - A pointer result is NULL on failure, and `errno` is then set (ENOMEM, or EINVAL for a bad
///   argument). The function of `mi_register_error()` is told. A request larger than PTRDIFF_MAX
///   bytes fails.
/// - Blocks of at least 16 bytes are aligned to 16, smaller ones to 8; where the library replaces
///   malloc, all of them to 16.
/// - Size 0 gives a block of its own, not NULL.
/// - A block of any of these functions is given back with `mi_free()`, by any thread.
/// - A heap that is NULL is the main heap.
#pragma once
#ifndef MIMALLOC_H
#define MIMALLOC_H

/// The version of this header: major * 10000 + minor * 100 + patch. `mi_version()` is that of the
/// library.
#define MI_MALLOC_VERSION 30403

#include <stdbool.h>
#include <stddef.h>

// ------------------------------------------------------------------------------------------------
/// @defgroup decorations Decorations
/// Users may rely on their names; what they expand to depends on the compiler.
///
/// What a program may define before it includes this header, and for the library alike:
/// - MI_SHARED_LIB: the library is used as a shared one. (MI_SHARED_LIB_EXPORT: it is being built
///   as one.)
/// - MI_PREFIX, for a copy of the library of one's own: `-DMI_PREFIX=app_` makes every name of a
///   function or class below start with app_ instead of mi_.
/// @{
// ------------------------------------------------------------------------------------------------

/// The function throws nothing.
#if defined(__cplusplus) && (__cplusplus >= 201103L || (defined(_MSC_VER) && _MSC_VER >= 1900))
#define mi_attr_noexcept noexcept
#elif defined(__cplusplus)
#define mi_attr_noexcept throw()
#else
#define mi_attr_noexcept
#endif

/// The function may throw. With `/EHsc`, compilers of Visual Studio take it that functions of C do
/// not.
#if defined(__cplusplus) && (__cplusplus >= 201103L || (defined(_MSC_VER) && _MSC_VER >= 1900))
#define mi_attr_may_throw noexcept(false)
#else
#define mi_attr_may_throw
#endif

/// The result must be used.
#if defined(__cplusplus) && (__cplusplus >= 201703L)
#define mi_decl_nodiscard [[nodiscard]]
#elif defined(__GNUC__) || defined(__clang__)
#define mi_decl_nodiscard __attribute__((warn_unused_result))
#elif defined(_MSC_VER) && _MSC_VER >= 1700
#define mi_decl_nodiscard _Check_return_
#else
#define mi_decl_nodiscard
#endif

/// @def mi_decl_export
/// The library exports the function.
/// @def mi_cdecl
/// The calling convention of callbacks.
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

/// Nothing else points to the result.
#if defined(_MSC_VER) && !defined(__clang__)
#define mi_decl_restrict __declspec(allocator) __declspec(restrict)
#else
#define mi_decl_restrict
#endif

/// @def mi_attr_malloc
/// The result is a fresh block.
/// @def mi_attr_alloc_size
/// The size of the result is argument number `s`.
/// @def mi_attr_alloc_size2
/// The size of the result is the product of arguments number `s1` and `s2`.
/// @def mi_attr_alloc_align
/// The alignment of the result is argument number `p`.
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
/// @}

#if defined(MI_PREFIX)
#include "mimalloc-prefix.h"
#endif

// ------------------------------------------------------------------------------------------------
/// @defgroup types Constants, types and callbacks
/// Callbacks get the `arg` that they were registered or passed with.
/// @{
// ------------------------------------------------------------------------------------------------

/// The largest size that `mi_malloc_small()` takes, in words.
#define MI_SMALL_WSIZE_MAX 128
/// The same in bytes.
#define MI_SMALL_SIZE_MAX (MI_SMALL_WSIZE_MAX * sizeof(void*))

#ifdef __cplusplus
extern "C" {
#endif

struct mi_heap_s;
/// A set of blocks that can be released at once.
typedef struct mi_heap_s mi_heap_t;
struct mi_theap_s;
/// The part of a heap that one thread owns.
typedef struct mi_theap_s mi_theap_t;

/// A range of reserved memory. Valid as long as the process; NULL is none, or any.
typedef void* mi_arena_id_t;
/// A group of heaps that shares nothing with others.
// Without a name of its own: C++ then spells the type by the one behind it.
typedef struct {
  void* _mi_subproc_id; ///< For the library; NULL when there was no memory.
} mi_subproc_id_t;

/// One run of equal blocks in a heap, as visitors see it.
typedef struct mi_heap_area_s {
  void* blocks; ///< where the blocks start
  size_t reserved; ///< bytes there are for blocks
  size_t committed; ///< bytes that were handed out at least once
  size_t used; ///< number of blocks in use
  size_t block_size; ///< bytes a program may use of each block
  size_t full_block_size; ///< bytes from one block to the next
  void* reserved1; ///< for the library
} mi_heap_area_t;

/// Called now and then from allocation and collection, to let the program free what it had put
/// off; see `mi_register_deferred_free()`.
/// @param force free everything now
/// @param heartbeat grows with each call on a thread
/// @param arg of the registration
typedef void(mi_cdecl mi_deferred_free_fun)(bool force, unsigned long long heartbeat, void* arg);

/// Receives each message of the library; see `mi_register_output()`.
/// @param msg zero-terminated text of whole lines, valid during the call
/// @param arg of the registration
typedef void(mi_cdecl mi_output_fun)(const char* msg, void* arg);

/// Receives each error; see `mi_register_error()`.
/// @param err an errno value: EAGAIN block freed twice, EFAULT corrupted memory, EINVAL invalid
///        pointer, ENOMEM out of memory, EOVERFLOW request too large or alignment invalid
/// @param arg of the registration
typedef void(mi_cdecl mi_error_fun)(int err, void* arg);

/// Visits an area or a block in use; see `mi_heap_visit_blocks()`.
/// @param heap the heap it is in
/// @param area the run of equal blocks, valid during the call
/// @param block the block, or NULL when the area is visited
/// @param block_size bytes the program may use of a block
/// @param arg of the caller
/// @return whether to go on
typedef bool(mi_cdecl mi_block_visit_fun)(const mi_heap_t* heap, const mi_heap_area_t* area,
                                          void* block, size_t block_size, void* arg);

/// Visits a heap; see `mi_subproc_visit_heaps()`.
/// @param heap a heap
/// @param arg of the caller
/// @return whether to go on
typedef bool(mi_cdecl mi_heap_visit_fun)(mi_heap_t* heap, void* arg);

/// Makes memory of an arena usable, or gives it back; see `mi_manage_memory()`. May not allocate.
/// @param commit make it usable; else give it back
/// @param start first byte
/// @param size bytes
/// @param is_zero may be NULL; set it to true when memory made usable reads as zero
/// @param user_arg of the caller
/// @return success; of giving back: whether the memory must be made usable before its next use
typedef bool(mi_cdecl mi_commit_fun_t)(bool commit, void* start, size_t size, bool* is_zero,
                                       void* user_arg);
/// @}

// ------------------------------------------------------------------------------------------------
/// @defgroup basic Basic allocation
/// @{
// ------------------------------------------------------------------------------------------------

/// A block with unspecified contents.
/// @param size bytes
/// @return the block, or NULL
mi_decl_nodiscard mi_decl_export mi_decl_restrict void*
mi_malloc(size_t size) mi_attr_noexcept mi_attr_malloc mi_attr_alloc_size(1);

/// A block for an array. Every usable byte reads as zero, not only those asked for.
/// @param count number of elements
/// @param size bytes of an element
/// @return the block, or NULL, also when the product overflows
mi_decl_nodiscard mi_decl_export mi_decl_restrict void*
mi_calloc(size_t count, size_t size) mi_attr_noexcept mi_attr_malloc mi_attr_alloc_size2(1, 2);

/// A block of which every usable byte reads as zero.
/// @param size bytes
/// @return the block, or NULL
mi_decl_nodiscard mi_decl_export mi_decl_restrict void*
mi_zalloc(size_t size) mi_attr_noexcept mi_attr_malloc mi_attr_alloc_size(1);

/// Resize a block, in place or by moving it. Contents are kept up to the smaller size.
/// @param p the block; NULL: allocate
/// @param newsize bytes; 0 gives a minimal block
/// @return the block, maybe elsewhere; NULL on failure, with `p` untouched
mi_decl_nodiscard mi_decl_export void* mi_realloc(void* p, size_t newsize) mi_attr_noexcept
    mi_attr_alloc_size(2);

/// As `mi_realloc()`, but `p` is freed on failure.
/// @param p the block; NULL: allocate
/// @param newsize bytes
/// @return the block, maybe elsewhere, or NULL
mi_decl_nodiscard mi_decl_export void* mi_reallocf(void* p, size_t newsize) mi_attr_noexcept
    mi_attr_alloc_size(2);

/// Resize without moving.
/// @param p the block
/// @param newsize bytes
/// @return `p` when it holds that many bytes now, else NULL with `p` untouched; NULL for NULL
mi_decl_export void* mi_expand(void* p, size_t newsize) mi_attr_noexcept mi_attr_alloc_size(2);

/// Give a block back. An address that is no block of this library is reported and left alone.
/// Keeps `errno`.
/// @param p the block; NULL does nothing
mi_decl_export void mi_free(void* p) mi_attr_noexcept;

/// As `mi_malloc()`, for small sizes.
/// @param size at most MI_SMALL_SIZE_MAX bytes; that is the caller's promise
/// @return the block, or NULL
mi_decl_nodiscard mi_decl_export mi_decl_restrict void*
mi_malloc_small(size_t size) mi_attr_noexcept mi_attr_malloc mi_attr_alloc_size(1);

/// As `mi_zalloc()`, for small sizes.
/// @param size at most MI_SMALL_SIZE_MAX bytes; that is the caller's promise
/// @return the block, or NULL
mi_decl_nodiscard mi_decl_export mi_decl_restrict void*
mi_zalloc_small(size_t size) mi_attr_noexcept mi_attr_malloc mi_attr_alloc_size(1);

/// As `mi_free()`, for blocks of functions whose name ends in _small.
/// @param p the block, or NULL
mi_decl_export void mi_free_small(void* p) mi_attr_noexcept;

/// As `mi_free()`, but silent about addresses that are not ours.
/// @param p the block, or any address
mi_decl_export void mi_cfree(void* p) mi_attr_noexcept;

/// As `mi_free()`, for callers who know the size. Debug builds verify it, others ignore it.
/// @param p the block, or NULL
/// @param size bytes, as requested or usable
mi_decl_export void mi_free_size(void* p, size_t size) mi_attr_noexcept;

/// As `mi_free()`, for callers who know the alignment. Debug builds verify it, others ignore it.
/// @param p the block, or NULL
/// @param alignment bytes
mi_decl_export void mi_free_aligned(void* p, size_t alignment) mi_attr_noexcept;

/// As `mi_free_size()` and `mi_free_aligned()`.
/// @param p the block, or NULL
/// @param size bytes, as requested or usable
/// @param alignment bytes
mi_decl_export void mi_free_size_aligned(void* p, size_t size, size_t alignment) mi_attr_noexcept;
/// @}

// ------------------------------------------------------------------------------------------------
/// @defgroup zero Resizing that keeps the rest zero
/// Only for blocks that were allocated as zero and only ever resized by these functions: what they
/// add reads as zero. What lies beyond the size of a shrink in place is not cleared again.
///
/// As in `mi_realloc()`, a block of NULL is allocated, and on failure the result is NULL and the
/// block untouched; a product that overflows is such a failure.
/// @{
// ------------------------------------------------------------------------------------------------

/// As `mi_realloc()`.
/// @param p the block, or NULL
/// @param newsize bytes
/// @return the block, maybe elsewhere, or NULL
mi_decl_nodiscard mi_decl_export void* mi_rezalloc(void* p, size_t newsize) mi_attr_noexcept
    mi_attr_alloc_size(2);

/// As `mi_rezalloc()`, for an array.
/// @param p the block, or NULL
/// @param newcount number of elements
/// @param size bytes of an element
/// @return the block, maybe elsewhere, or NULL
mi_decl_nodiscard mi_decl_export void* mi_recalloc(void* p, size_t newcount,
                                                   size_t size) mi_attr_noexcept
    mi_attr_alloc_size2(2, 3);

/// As `mi_realloc_aligned()`.
/// @param p the block, or NULL
/// @param newsize bytes
/// @param alignment bytes
/// @return the block, maybe elsewhere, or NULL
mi_decl_nodiscard mi_decl_export void* mi_rezalloc_aligned(void* p, size_t newsize,
                                                           size_t alignment) mi_attr_noexcept
    mi_attr_alloc_size(2) mi_attr_alloc_align(3);

/// As `mi_realloc_aligned_at()`.
/// @param p the block, or NULL
/// @param newsize bytes
/// @param alignment bytes
/// @param offset bytes from the start to the address that is aligned
/// @return the block, maybe elsewhere, or NULL
mi_decl_nodiscard mi_decl_export void*
mi_rezalloc_aligned_at(void* p, size_t newsize, size_t alignment, size_t offset) mi_attr_noexcept
    mi_attr_alloc_size(2);

/// As `mi_rezalloc_aligned()`, for an array.
/// @param p the block, or NULL
/// @param newcount number of elements
/// @param size bytes of an element
/// @param alignment bytes
/// @return the block, maybe elsewhere, or NULL
mi_decl_nodiscard mi_decl_export void* mi_recalloc_aligned(void* p, size_t newcount, size_t size,
                                                           size_t alignment) mi_attr_noexcept
    mi_attr_alloc_size2(2, 3) mi_attr_alloc_align(4);

/// As `mi_rezalloc_aligned_at()`, for an array.
/// @param p the block, or NULL
/// @param newcount number of elements
/// @param size bytes of an element
/// @param alignment bytes
/// @param offset bytes from the start to the address that is aligned
/// @return the block, maybe elsewhere, or NULL
mi_decl_nodiscard mi_decl_export void* mi_recalloc_aligned_at(void* p, size_t newcount, size_t size,
                                                              size_t alignment,
                                                              size_t offset) mi_attr_noexcept
    mi_attr_alloc_size2(2, 3);

/// Another name of `mi_recalloc_aligned()`.
/// @param p the block, or NULL
/// @param newcount number of elements
/// @param size bytes of an element
/// @param alignment bytes
/// @return the block, maybe elsewhere, or NULL
mi_decl_nodiscard mi_decl_export void* mi_aligned_recalloc(void* p, size_t newcount, size_t size,
                                                           size_t alignment) mi_attr_noexcept
    mi_attr_alloc_size2(2, 3) mi_attr_alloc_align(4);

/// Another name of `mi_recalloc_aligned_at()`.
/// @param p the block, or NULL
/// @param newcount number of elements
/// @param size bytes of an element
/// @param alignment bytes
/// @param offset bytes from the start to the address that is aligned
/// @return the block, maybe elsewhere, or NULL
mi_decl_nodiscard mi_decl_export void* mi_aligned_offset_recalloc(void* p, size_t newcount,
                                                                  size_t size, size_t alignment,
                                                                  size_t offset) mi_attr_noexcept
    mi_attr_alloc_size2(2, 3);
/// @}

// ------------------------------------------------------------------------------------------------
/// @defgroup counted Counted and typed
/// A product that overflows gives NULL. The macros do the same for a type `tp`: one element, or `n`
/// of them; the result has type `tp*`.
///
/// @code
/// struct point* points = mi_mallocn_tp(struct point, 100);
/// @endcode
/// @{
// ------------------------------------------------------------------------------------------------

/// As `mi_malloc()`, for an array.
/// @param count number of elements
/// @param size bytes of an element
/// @return the block, or NULL
mi_decl_nodiscard mi_decl_export mi_decl_restrict void*
mi_mallocn(size_t count, size_t size) mi_attr_noexcept mi_attr_malloc mi_attr_alloc_size2(1, 2);

/// As `mi_realloc()`, for an array.
/// @param p the block, or NULL
/// @param count number of elements
/// @param size bytes of an element
/// @return the block, maybe elsewhere; NULL on failure, with `p` untouched
mi_decl_nodiscard mi_decl_export void* mi_reallocn(void* p, size_t count,
                                                   size_t size) mi_attr_noexcept
    mi_attr_alloc_size2(2, 3);

/// `mi_malloc()` of one element.
#define mi_malloc_tp(tp) ((tp*)mi_malloc(sizeof(tp)))
/// `mi_zalloc()` of one element.
#define mi_zalloc_tp(tp) ((tp*)mi_zalloc(sizeof(tp)))
/// `mi_calloc()` of `n` elements.
#define mi_calloc_tp(tp, n) ((tp*)mi_calloc((n), sizeof(tp)))
/// `mi_mallocn()` of `n` elements.
#define mi_mallocn_tp(tp, n) ((tp*)mi_mallocn((n), sizeof(tp)))
/// `mi_reallocn()` of block `p` to `n` elements.
#define mi_reallocn_tp(tp, p, n) ((tp*)mi_reallocn((p), (n), sizeof(tp)))
/// `mi_recalloc()` of block `p` to `n` elements.
#define mi_recalloc_tp(tp, p, n) ((tp*)mi_recalloc((p), (n), sizeof(tp)))
/// @}

// ------------------------------------------------------------------------------------------------
/// @defgroup aligned Aligned allocation
/// The start of the block is a multiple of the alignment, or the address `offset` bytes behind the
/// start is. Any power of two is valid; the size need not be a multiple of it, and the offset may
/// lie beyond the size. An alignment that is no power of two gives NULL and EINVAL.
///
/// @code
/// void* line = mi_malloc_aligned(1000, 64);
/// // A header of 16 bytes, and behind it data for vector instructions:
/// char* packet = mi_malloc_aligned_at(16 + 4096, 32, 16);
/// mi_free(packet);
/// mi_free(line);
/// @endcode
/// @{
// ------------------------------------------------------------------------------------------------

/// As `mi_malloc()`, aligned.
/// @param size bytes
/// @param alignment bytes
/// @return the block, or NULL
mi_decl_nodiscard mi_decl_export mi_decl_restrict void*
mi_malloc_aligned(size_t size, size_t alignment) mi_attr_noexcept mi_attr_malloc
    mi_attr_alloc_size(1) mi_attr_alloc_align(2);

/// As `mi_malloc()`, aligned at an offset.
/// @param size bytes
/// @param alignment bytes
/// @param offset bytes from the start to the address that is aligned
/// @return the block, or NULL
mi_decl_nodiscard mi_decl_export mi_decl_restrict void*
mi_malloc_aligned_at(size_t size, size_t alignment, size_t offset) mi_attr_noexcept mi_attr_malloc
    mi_attr_alloc_size(1);

/// As `mi_zalloc()`, aligned.
/// @param size bytes
/// @param alignment bytes
/// @return the block, or NULL
mi_decl_nodiscard mi_decl_export mi_decl_restrict void*
mi_zalloc_aligned(size_t size, size_t alignment) mi_attr_noexcept mi_attr_malloc
    mi_attr_alloc_size(1) mi_attr_alloc_align(2);

/// As `mi_zalloc()`, aligned at an offset.
/// @param size bytes
/// @param alignment bytes
/// @param offset bytes from the start to the address that is aligned
/// @return the block, or NULL
mi_decl_nodiscard mi_decl_export mi_decl_restrict void*
mi_zalloc_aligned_at(size_t size, size_t alignment, size_t offset) mi_attr_noexcept mi_attr_malloc
    mi_attr_alloc_size(1);

/// As `mi_calloc()`, aligned.
/// @param count number of elements
/// @param size bytes of an element
/// @param alignment bytes
/// @return the block, or NULL
mi_decl_nodiscard mi_decl_export mi_decl_restrict void*
mi_calloc_aligned(size_t count, size_t size, size_t alignment) mi_attr_noexcept mi_attr_malloc
    mi_attr_alloc_size2(1, 2) mi_attr_alloc_align(3);

/// As `mi_calloc()`, aligned at an offset.
/// @param count number of elements
/// @param size bytes of an element
/// @param alignment bytes
/// @param offset bytes from the start to the address that is aligned
/// @return the block, or NULL
mi_decl_nodiscard mi_decl_export mi_decl_restrict void*
mi_calloc_aligned_at(size_t count, size_t size, size_t alignment,
                     size_t offset) mi_attr_noexcept mi_attr_malloc mi_attr_alloc_size2(1, 2);

/// As `mi_realloc()`, aligned, whatever the alignment was before.
/// @param p the block, or NULL
/// @param newsize bytes
/// @param alignment bytes; 0: that of `mi_realloc()`
/// @return the block, maybe elsewhere; NULL on failure, with `p` untouched
mi_decl_nodiscard mi_decl_export void* mi_realloc_aligned(void* p, size_t newsize,
                                                          size_t alignment) mi_attr_noexcept
    mi_attr_alloc_size(2) mi_attr_alloc_align(3);

/// As `mi_realloc_aligned()`, at an offset.
/// @param p the block, or NULL
/// @param newsize bytes
/// @param alignment bytes
/// @param offset bytes from the start to the address that is aligned
/// @return the block, maybe elsewhere; NULL on failure, with `p` untouched
mi_decl_nodiscard mi_decl_export void*
mi_realloc_aligned_at(void* p, size_t newsize, size_t alignment, size_t offset) mi_attr_noexcept
    mi_attr_alloc_size(2);
/// @}

// ------------------------------------------------------------------------------------------------
/// @defgroup sizes Sizes
/// The program may use more of a block than it asked for: its usable size. The slot of a block is
/// all the memory it occupies; both are the same but for aligned blocks that start inside a slot.
///
/// The functions with a `u` in their name do what their namesakes without it do, and report the
/// size of the slot as well. A pointer for a size may be NULL.
/// @{
// ------------------------------------------------------------------------------------------------

/// How much of a block the program may use.
/// @param p the block
/// @return bytes from `p` on, at least what was requested; 0 for NULL and for addresses that are
///         not ours
mi_decl_nodiscard mi_decl_export size_t mi_usable_size(const void* p) mi_attr_noexcept;

/// The usable size that a request gets at least. Where a thread has few blocks of about a size, the
/// block may be larger, at most twice as large as the request. A guarded block (options `guarded_`)
/// has no more than the request.
/// @param size bytes
/// @return bytes; `size` itself when no such block can exist
mi_decl_nodiscard mi_decl_export size_t mi_good_size(size_t size) mi_attr_noexcept;

/// As `mi_malloc()`.
/// @param size bytes
/// @param[out] block_size bytes of the slot; not written on failure
/// @return the block, or NULL
mi_decl_nodiscard mi_decl_export mi_decl_restrict void*
mi_umalloc(size_t size, size_t* block_size) mi_attr_noexcept mi_attr_malloc;

/// As `mi_zalloc()`.
/// @param size bytes
/// @param[out] block_size bytes of the slot; not written on failure
/// @return the block, or NULL
mi_decl_nodiscard mi_decl_export mi_decl_restrict void*
mi_uzalloc(size_t size, size_t* block_size) mi_attr_noexcept mi_attr_malloc;

/// As `mi_calloc()`.
/// @param count number of elements
/// @param size bytes of an element
/// @param[out] block_size bytes of the slot; not written on failure
/// @return the block, or NULL
mi_decl_nodiscard mi_decl_export mi_decl_restrict void*
mi_ucalloc(size_t count, size_t size, size_t* block_size) mi_attr_noexcept mi_attr_malloc;

/// As `mi_malloc_small()`.
/// @param size at most MI_SMALL_SIZE_MAX bytes
/// @param[out] block_size bytes of the slot; not written on failure
/// @return the block, or NULL
mi_decl_nodiscard mi_decl_export mi_decl_restrict void*
mi_umalloc_small(size_t size, size_t* block_size) mi_attr_noexcept mi_attr_malloc;

/// As `mi_zalloc_small()`.
/// @param size at most MI_SMALL_SIZE_MAX bytes
/// @param[out] block_size bytes of the slot; not written on failure
/// @return the block, or NULL
mi_decl_nodiscard mi_decl_export mi_decl_restrict void*
mi_uzalloc_small(size_t size, size_t* block_size) mi_attr_noexcept mi_attr_malloc;

/// As `mi_malloc_aligned()`.
/// @param size bytes
/// @param alignment bytes
/// @param[out] block_size bytes of the slot; not written on failure
/// @return the block, or NULL
mi_decl_nodiscard mi_decl_export mi_decl_restrict void*
mi_umalloc_aligned(size_t size, size_t alignment,
                   size_t* block_size) mi_attr_noexcept mi_attr_malloc mi_attr_alloc_align(2);

/// As `mi_zalloc_aligned()`.
/// @param size bytes
/// @param alignment bytes
/// @param[out] block_size bytes of the slot; not written on failure
/// @return the block, or NULL
mi_decl_nodiscard mi_decl_export mi_decl_restrict void*
mi_uzalloc_aligned(size_t size, size_t alignment,
                   size_t* block_size) mi_attr_noexcept mi_attr_malloc mi_attr_alloc_align(2);

/// As `mi_realloc()`.
/// @param p the block, or NULL
/// @param newsize bytes
/// @param[out] block_size_pre bytes of the slot before, 0 for NULL; written on failure too
/// @param[out] block_size_post bytes of the slot of the result; not written on failure
/// @return the block, maybe elsewhere; NULL on failure, with `p` untouched
mi_decl_nodiscard mi_decl_export void* mi_urealloc(void* p, size_t newsize, size_t* block_size_pre,
                                                   size_t* block_size_post) mi_attr_noexcept;

/// As `mi_free()`.
/// @param p the block, or NULL
/// @param[out] block_size bytes of the slot; not written for NULL
mi_decl_export void mi_ufree(void* p, size_t* block_size) mi_attr_noexcept;
/// @}

// ------------------------------------------------------------------------------------------------
/// @defgroup strings Strings and paths
/// Results are blocks; NULL for a NULL string.
/// @{
// ------------------------------------------------------------------------------------------------

/// A copy of a string.
/// @param s zero-terminated
/// @return the copy, or NULL
mi_decl_nodiscard mi_decl_export mi_decl_restrict char*
mi_strdup(const char* s) mi_attr_noexcept mi_attr_malloc;

/// A copy of the start of a string, with a terminating zero.
/// @param s a string; nothing past its first `n` characters is read
/// @param n characters to copy at most
/// @return the copy, or NULL
mi_decl_nodiscard mi_decl_export mi_decl_restrict char*
mi_strndup(const char* s, size_t n) mi_attr_noexcept mi_attr_malloc;

/// The absolute path of a file without links, as realpath(3).
/// @param fname path of an existing file
/// @param resolved_name room for PATH_MAX characters, or NULL
/// @return `resolved_name`, or a block when that is NULL; NULL on failure, with `errno` of
///         realpath(3)
mi_decl_nodiscard mi_decl_export char* mi_realpath(const char* fname,
                                                   char* resolved_name) mi_attr_noexcept;

/// As `mi_strdup()`, for multi-byte characters.
/// @param s zero-terminated
/// @return the copy, or NULL
mi_decl_nodiscard mi_decl_export mi_decl_restrict unsigned char*
mi_mbsdup(const unsigned char* s) mi_attr_noexcept mi_attr_malloc;

/// As `mi_strdup()`, for wide characters.
/// @param s zero-terminated
/// @return the copy, or NULL
mi_decl_nodiscard mi_decl_export mi_decl_restrict wchar_t*
mi_wcsdup(const wchar_t* s) mi_attr_noexcept mi_attr_malloc;

/// A copy of the value of an environment variable.
/// @param[out] buf the copy, or NULL when there is no such variable
/// @param[out] size characters of the copy with the terminating zero, else 0; may be NULL
/// @param name of the variable
/// @return 0, EINVAL (`buf` or `name` is NULL) or ENOMEM
mi_decl_export int mi_dupenv_s(char** buf, size_t* size, const char* name) mi_attr_noexcept;

/// As `mi_dupenv_s()` for wide characters, on Windows; elsewhere there is no such environment.
/// @param[out] buf the copy; elsewhere NULL
/// @param[out] size characters of the copy with the terminating zero; elsewhere 0; may be NULL
/// @param name of the variable
/// @return as `mi_dupenv_s()`; elsewhere EINVAL
mi_decl_export int mi_wdupenv_s(wchar_t** buf, size_t* size, const wchar_t* name) mi_attr_noexcept;
/// @}

// ------------------------------------------------------------------------------------------------
/// @defgroup posix Names of POSIX, BSD, glibc and Microsoft
/// As the functions of those systems, on blocks of ours. Note where the alignment comes first.
/// @{
// ------------------------------------------------------------------------------------------------

/// As posix_memalign(3). Does not touch `errno`. Throws nothing, but is not declared so (as in
/// libc).
/// @param[out] p the block; unchanged on failure
/// @param alignment a power of two and multiple of sizeof(void*), bytes
/// @param size bytes
/// @return 0, EINVAL or ENOMEM
mi_decl_export int mi_posix_memalign(void** p, size_t alignment, size_t size);

/// Another name of `mi_posix_memalign()`, of versions 1.0.
/// @param[out] p the block; unchanged on failure
/// @param alignment bytes
/// @param size bytes
/// @return 0, EINVAL or ENOMEM
mi_decl_export int mi__posix_memalign(void** p, size_t alignment, size_t size);

/// As `mi_malloc_aligned()`.
/// @param alignment bytes
/// @param size bytes
/// @return the block, or NULL
mi_decl_nodiscard mi_decl_export mi_decl_restrict void*
mi_memalign(size_t alignment, size_t size) mi_attr_noexcept mi_attr_malloc mi_attr_alloc_size(2)
    mi_attr_alloc_align(1);

/// As `mi_malloc_aligned()`.
/// @param alignment bytes
/// @param size bytes, need not be a multiple of the alignment
/// @return the block, or NULL
mi_decl_nodiscard mi_decl_export mi_decl_restrict void*
mi_aligned_alloc(size_t alignment, size_t size) mi_attr_noexcept mi_attr_malloc
    mi_attr_alloc_size(2) mi_attr_alloc_align(1);

/// A block aligned to the page size of the operating system.
/// @param size bytes
/// @return the block, or NULL
mi_decl_nodiscard mi_decl_export mi_decl_restrict void*
mi_valloc(size_t size) mi_attr_noexcept mi_attr_malloc mi_attr_alloc_size(1);

/// As `mi_valloc()`, with the size rounded up to whole pages of the operating system.
/// @param size bytes; 0: one page
/// @return the block, or NULL
mi_decl_nodiscard mi_decl_export mi_decl_restrict void*
mi_pvalloc(size_t size) mi_attr_noexcept mi_attr_malloc mi_attr_alloc_size(1);

/// As `mi_reallocn()`; `errno` is EOVERFLOW when the product overflows.
/// @param p the block, or NULL
/// @param count number of elements
/// @param size bytes of an element
/// @return the block, maybe elsewhere; NULL on failure, with `p` untouched
mi_decl_nodiscard mi_decl_export void* mi_reallocarray(void* p, size_t count,
                                                       size_t size) mi_attr_noexcept
    mi_attr_alloc_size2(2, 3);

/// Resize the block that a variable points to, as reallocarr(3) of NetBSD.
/// @param ptrp address of the pointer, which is updated; unchanged on failure
/// @param count number of elements; 0 frees the block and stores NULL
/// @param size bytes of an element, not 0
/// @return 0, or the value also stored in `errno`: EINVAL, EOVERFLOW or ENOMEM
mi_decl_nodiscard mi_decl_export int mi_reallocarr(void* ptrp, size_t count,
                                                   size_t size) mi_attr_noexcept;

/// Another name of `mi_usable_size()`.
/// @param p the block
/// @return bytes
mi_decl_nodiscard mi_decl_export size_t mi_malloc_size(const void* p) mi_attr_noexcept;

/// Another name of `mi_usable_size()`.
/// @param p the block
/// @return bytes
mi_decl_nodiscard mi_decl_export size_t mi_malloc_usable_size(const void* p) mi_attr_noexcept;

/// Another name of `mi_good_size()`.
/// @param size bytes
/// @return bytes
mi_decl_nodiscard mi_decl_export size_t mi_malloc_good_size(size_t size) mi_attr_noexcept;

/// As `mi_expand()`; sets `errno` to ENOMEM when the result is NULL.
/// @param p the block
/// @param newsize bytes
/// @return `p` or NULL
mi_decl_export void* mi__expand(void* p, size_t newsize) mi_attr_noexcept mi_attr_alloc_size(2);
/// @}

// ------------------------------------------------------------------------------------------------
/// @defgroup cxxnew C++ operator new
/// When there is no memory, the new-handler of the program is called and the allocation tried
/// again, for as long as there is a handler. Without one, `std::bad_alloc` is thrown if the C++
/// library is loaded, else the process is aborted. An exception of a handler passes through. To
/// replace `operator new` itself, see mimalloc-new-delete.h.
/// @{
// ------------------------------------------------------------------------------------------------

/// As `operator new`.
/// @param size bytes
/// @return the block, never NULL
mi_decl_nodiscard mi_decl_export mi_decl_restrict void*
mi_new(size_t size) mi_attr_may_throw mi_attr_malloc mi_attr_alloc_size(1);

/// As `operator new` with an alignment. One that is no power of two fails without a call of the
/// handler.
/// @param size bytes
/// @param alignment bytes
/// @return the block, never NULL
mi_decl_nodiscard mi_decl_export mi_decl_restrict void*
mi_new_aligned(size_t size, size_t alignment) mi_attr_may_throw mi_attr_malloc mi_attr_alloc_size(1)
    mi_attr_alloc_align(2);

/// As `mi_new()`, for an array.
/// @param count number of elements
/// @param size bytes of an element
/// @return the block; NULL only when the product overflows and a handler was called
mi_decl_nodiscard mi_decl_export mi_decl_restrict void*
mi_new_n(size_t count, size_t size) mi_attr_may_throw mi_attr_malloc mi_attr_alloc_size2(1, 2);

/// As `mi_realloc()`.
/// @param p the block, or NULL
/// @param newsize bytes
/// @return the block, maybe elsewhere, never NULL
mi_decl_nodiscard mi_decl_export void* mi_new_realloc(void* p, size_t newsize) mi_attr_may_throw
    mi_attr_alloc_size(2);

/// As `mi_new_realloc()`, for an array.
/// @param p the block, or NULL
/// @param newcount number of elements
/// @param size bytes of an element
/// @return the block, maybe elsewhere; NULL only when the product overflows and a handler was
///         called
mi_decl_nodiscard mi_decl_export void* mi_new_reallocn(void* p, size_t newcount,
                                                       size_t size) mi_attr_may_throw
    mi_attr_alloc_size2(2, 3);

/// As `operator new` with `std::nothrow`: a handler is called all the same.
/// @param size bytes
/// @return the block; NULL instead of an exception
mi_decl_nodiscard mi_decl_export mi_decl_restrict void*
mi_new_nothrow(size_t size) mi_attr_noexcept mi_attr_malloc mi_attr_alloc_size(1);

/// As `mi_new_aligned()` with `std::nothrow`.
/// @param size bytes
/// @param alignment bytes
/// @return the block; NULL instead of an exception
mi_decl_nodiscard mi_decl_export mi_decl_restrict void*
mi_new_aligned_nothrow(size_t size, size_t alignment) mi_attr_noexcept mi_attr_malloc
    mi_attr_alloc_size(1) mi_attr_alloc_align(2);
/// @}

// ------------------------------------------------------------------------------------------------
/// @defgroup process Process, threads, collection
/// The process and its threads are set up and finished without a call; the functions for it may be
/// called all the same, also twice.
/// @{
// ------------------------------------------------------------------------------------------------

/// The version of the library that is running.
/// @return as MI_MALLOC_VERSION
mi_decl_export int mi_version(void) mi_attr_noexcept;

/// Set up now instead of at the first allocation.
mi_decl_export void mi_process_init(void) mi_attr_noexcept;
/// Finish: print statistics if an option asks for it. Allocation and free still work.
mi_decl_export void mi_process_done(void) mi_attr_noexcept;
/// Set up the calling thread now instead of at its first allocation.
mi_decl_export void mi_thread_init(void) mi_attr_noexcept;
/// Leave the free memory of the calling thread to others. It may go on to allocate and free.
mi_decl_export void mi_thread_done(void) mi_attr_noexcept;
/// The calling thread runs unrelated tasks one after the other.
mi_decl_export void mi_thread_set_in_threadpool(void) mi_attr_noexcept;

/// Return memory that the calling thread holds but does not need.
/// @param force all of it, and to the system at once; else what is due
mi_decl_export void mi_collect(bool force) mi_attr_noexcept;

/// @name Threads that wait
/// Of this library alone. A thread that waits for input keeps memory for its next allocations; the
/// purge thread cannot take the pages that it allocates from, and a process with one thread has no
/// purge thread. An event loop gives all of that back by two calls before it waits:
///
/// @code
/// if (mi_thread_idle_due() == 0) mi_thread_idle();
/// const int due = mi_thread_idle_due();
/// const bool is_shorter = due >= 0 && (timeout < 0 || due < timeout);
/// int n = epoll_wait(fd, events, count, is_shorter ? due : timeout);
/// // n == 0 if is_shorter: nothing has happened yet, wait again
/// @endcode
///
/// Programs that do not call them have the same from `libmimalloc-idle.so`: see the guide. Both may
/// be called by any thread at any time, except in signal handlers.
/// @{

/// How long the calling thread may wait before it has memory to give back. Costs a look at the
/// clock.
/// @return milliseconds, as the timeout of poll(2): 0 when `mi_thread_idle()` has something to do
///   now, which is so half a second after the thread last needed more memory or gave some up; -1
///   when there will be nothing until it allocates or frees again
mi_decl_export int mi_thread_idle_due(void) mi_attr_noexcept;

/// The calling thread is about to wait for long: give back what it does not use, in all its heaps.
/// It keeps its pages that have blocks in use, without the memory between blocks if these are few.
/// In a process without a purge thread free memory that is due goes back, too. The next allocations
/// may take some microseconds more.
mi_decl_export void mi_thread_idle(void) mi_attr_noexcept;
/// @}

/// A forced `mi_collect()`, for programs of older versions.
/// @param target_thread_owned ignored
mi_decl_export void mi_collect_reduce(size_t target_thread_owned) mi_attr_noexcept;

/// What the process used. Any argument may be NULL.
/// @param[out] elapsed_msecs milliseconds since it started
/// @param[out] user_msecs milliseconds of processor time in the program
/// @param[out] system_msecs milliseconds of processor time in the system
/// @param[out] current_rss resident bytes, as the system sees it
/// @param[out] peak_rss the most there were
/// @param[out] current_commit bytes that the library may have resident: `committed` of `mi_stats_t`
/// @param[out] peak_commit the most there were, or a little more
/// @param[out] page_faults number of faults that had to read from a disk
mi_decl_export void mi_process_info(size_t* elapsed_msecs, size_t* user_msecs, size_t* system_msecs,
                                    size_t* current_rss, size_t* peak_rss, size_t* current_commit,
                                    size_t* peak_commit, size_t* page_faults) mi_attr_noexcept;

/// Print what `mi_process_info()` gives, as one line, to the registered output.
mi_decl_export void mi_process_info_print(void) mi_attr_noexcept;

/// The same to a function.
/// @param out NULL: the registered output
/// @param arg passed to it
mi_decl_export void mi_process_info_print_out(mi_output_fun* out, void* arg) mi_attr_noexcept;
/// @}

// ------------------------------------------------------------------------------------------------
/// @defgroup callbacks Callbacks of the process
/// One of each kind for the whole process; NULL restores the default. A callback may be called by
/// several threads at once. Register from one thread at a time.
///
/// @code
/// // Reference counts that dropped to zero are freed bit by bit:
/// static void release_some(bool force, unsigned long long heartbeat, void* arg) {
///   for (int i = 0; (force || i < 100) && queue_pop_and_free(arg); i++) {}
/// }
/// mi_register_deferred_free(release_some, &queue);
/// @endcode
/// @{
// ------------------------------------------------------------------------------------------------

/// Register who frees what the program had put off. The function may allocate and free; it is not
/// entered again on the thread it runs on. Inside of it `mi_thread_done()` and
/// `mi_subproc_add_current_thread()` have no effect but a warning.
/// @param deferred_free called now and then, and by `mi_collect()`
/// @param arg passed to it
mi_decl_export void mi_register_deferred_free(mi_deferred_free_fun* deferred_free,
                                              void* arg) mi_attr_noexcept;

/// Register who prints messages, instead of standard error. The function receives at once what was
/// printed before (up to 16 KiB). It should not allocate.
/// @param out gets each message
/// @param arg passed to it
mi_decl_export void mi_register_output(mi_output_fun* out, void* arg) mi_attr_noexcept;

/// Register who is told of errors, after their message was printed. Then the process ends or goes
/// on, as the option `mi_option_abort_on_misuse` says: by default secure builds abort after any
/// mistake, debug builds where memory is damaged and no function is registered, others never. The
/// function may use all of the library; a mistake of its own does not call it again.
/// @param fun called with an errno value
/// @param arg passed to it
mi_decl_export void mi_register_error(mi_error_fun* fun, void* arg);

/// @name What an address is
/// Of this library alone. They take any address, in use, freed, inside a block or foreign, on any
/// thread and in signal handlers; they never fail, allocate or wait, and follow nothing that a
/// program may have damaged. What they say is of a moment: other threads go on. The guide explains
/// the text and the keys, which are those of reports.
///
/// @code
/// char text[1000];
/// mi_describe(p, text, sizeof(text));
/// puts(text); // block 5 of 1024 at 0x16240000140 of 64 bytes; page at ...
/// @endcode
/// @{

/// Describe an address in words: its block, page, thread and heap on the first line, then the block
/// and its neighbours.
/// @param p any address
/// @param[out] buffer gets the text, zero-terminated, cut if it is too long; may be NULL
/// @param size bytes of the buffer; 1000 are enough
/// @return the length of the whole text
mi_decl_export size_t mi_describe(const void* p, char* buffer, size_t size) mi_attr_noexcept;

/// The same as JSON: one object on one line (RFC 8259).
/// @param p any address
/// @param[out] buffer gets the text, zero-terminated, or an empty one if it is too long; may be
///        NULL
/// @param size bytes of the buffer; 2000 are enough
/// @return the length of the whole text
mi_decl_export size_t mi_describe_json(const void* p, char* buffer, size_t size) mi_attr_noexcept;
/// @}
/// @}

// ------------------------------------------------------------------------------------------------
/// @defgroup heaps Heaps
/// Sets of blocks that can be released at once. Any thread may allocate from any heap at any time.
/// Blocks of a heap are given back with `mi_free()` as all others.
///
/// @code
/// mi_heap_t* request = mi_heap_new();
/// char* name = mi_heap_strdup(request, "a");
/// int* numbers = mi_heap_mallocn_tp(int, request, 1000);
/// mi_heap_destroy(request); // all its blocks are gone
/// @endcode
/// @{
// ------------------------------------------------------------------------------------------------

/// A fresh heap in the sub-process of the calling thread.
/// @return the heap, or NULL
mi_decl_nodiscard mi_decl_export mi_heap_t* mi_heap_new(void) mi_attr_noexcept;

/// A fresh heap with all blocks in one arena; when that is full, allocation fails.
/// @param arena_id the arena; NULL: as `mi_heap_new()`
/// @return the heap, or NULL; with a warning, if the sub-process of the arena was ended
mi_decl_nodiscard mi_decl_export mi_heap_t*
mi_heap_new_in_arena(mi_arena_id_t arena_id) mi_attr_noexcept;

/// End a heap; its blocks in use stay valid and belong to the main heap from then on. No other
/// thread may allocate from the heap at that time or later; blocks of it may be freed meanwhile.
/// What is free beside such blocks serves the main heap, in an exclusive arena, too.
/// @param heap NULL does nothing; the main heap stays, with a warning
mi_decl_export void mi_heap_delete(mi_heap_t* heap) mi_attr_noexcept;

/// End a heap and all its blocks, without a look at each block. No other thread may use the heap or
/// its blocks at that time or later.
/// @param heap NULL does nothing; the main heap stays, with a warning
mi_decl_export void mi_heap_destroy(mi_heap_t* heap) mi_attr_noexcept;

/// The heap that `mi_malloc()` allocates from, that of the sub-process of the calling thread.
/// @return the heap, never NULL
mi_decl_nodiscard mi_decl_export mi_heap_t* mi_heap_main(void) mi_attr_noexcept;

/// The heap that has memory at an address. Nothing is said about whether a block there is in use.
/// In constant time for a small block and the start of a large one; far inside a large one, and for
/// an address that is not ours, it takes a lock, and time that grows with the block, or with the
/// number of arenas and of blocks outside of them.
/// @param p any address
/// @return the heap; NULL for addresses that are not ours
mi_decl_nodiscard mi_decl_export mi_heap_t* mi_heap_of(const void* p) mi_attr_noexcept;

/// Whether `mi_heap_of()` of an address is this heap.
/// @param heap the heap
/// @param p any address
/// @return whether it is
mi_decl_nodiscard mi_decl_export bool mi_heap_contains(const mi_heap_t* heap,
                                                       const void* p) mi_attr_noexcept;

/// Whether an address is in any heap.
/// @param p any address
/// @return whether it is
mi_decl_nodiscard mi_decl_export bool mi_any_heap_contains(const void* p) mi_attr_noexcept;

/// Prefer memory of a NUMA node for what the heap takes from now on.
/// @param heap the heap
/// @param numa_node number of the node, modulo the number of nodes; negative: no preference
mi_decl_export void mi_heap_set_numa_affinity(mi_heap_t* heap, int numa_node) mi_attr_noexcept;

/// As `mi_collect()`, for what the calling thread holds of a heap.
/// @param heap the heap
/// @param force all of it, and to the system at once; else what is due
mi_decl_export void mi_heap_collect(mi_heap_t* heap, bool force) mi_attr_noexcept;

/// @name Older names of functions on heaps
/// @{

/// Another name of `mi_any_heap_contains()`.
/// @param p any address
/// @return whether it is in a heap
mi_decl_nodiscard mi_decl_export bool mi_is_in_heap_region(const void* p) mi_attr_noexcept;

/// Another name of `mi_any_heap_contains()`.
/// @param p any address
/// @return whether it is in a heap
mi_decl_nodiscard mi_decl_export bool mi_check_owned(const void* p) mi_attr_noexcept;

/// The heap that `mi_malloc()` of this thread allocates from.
/// @return the heap
mi_decl_nodiscard mi_decl_export mi_heap_t* mi_heap_get_default(void) mi_attr_noexcept;

/// Change that heap, for this thread.
/// @param heap the heap
/// @return the one before
mi_decl_export mi_heap_t* mi_heap_set_default(mi_heap_t* heap) mi_attr_noexcept;

/// Another name of `mi_heap_main()`.
/// @return the heap
mi_decl_nodiscard mi_decl_export mi_heap_t* mi_heap_get_backing(void) mi_attr_noexcept;

/// Another name of `mi_heap_contains()`.
/// @param heap the heap
/// @param p any address
/// @return whether it is there
mi_decl_nodiscard mi_decl_export bool mi_heap_contains_block(mi_heap_t* heap,
                                                             const void* p) mi_attr_noexcept;

/// Another name of `mi_heap_contains()`.
/// @param heap the heap
/// @param p any address
/// @return whether it is there
mi_decl_nodiscard mi_decl_export bool mi_heap_check_owned(mi_heap_t* heap,
                                                          const void* p) mi_attr_noexcept;

/// As `mi_heap_new_in_arena()`.
/// @param heap_tag ignored
/// @param allow_destroy ignored
/// @param arena_id the arena; NULL: any
/// @return the heap, or NULL
mi_decl_nodiscard mi_decl_export mi_heap_t* mi_heap_new_ex(int heap_tag, bool allow_destroy,
                                                           mi_arena_id_t arena_id) mi_attr_noexcept;
/// @}
/// @}

// ------------------------------------------------------------------------------------------------
/// @defgroup heapalloc Allocation from heaps
/// As their namesakes without `heap`. A block that is resized may be of any heap; if it is of
/// another one it moves into this heap.
/// @{
// ------------------------------------------------------------------------------------------------

/// As `mi_malloc()`.
/// @param heap the heap
/// @param size bytes
/// @return the block, or NULL
mi_decl_nodiscard mi_decl_export mi_decl_restrict void*
mi_heap_malloc(mi_heap_t* heap, size_t size) mi_attr_noexcept mi_attr_malloc mi_attr_alloc_size(2);

/// As `mi_zalloc()`.
/// @param heap the heap
/// @param size bytes
/// @return the block, or NULL
mi_decl_nodiscard mi_decl_export mi_decl_restrict void*
mi_heap_zalloc(mi_heap_t* heap, size_t size) mi_attr_noexcept mi_attr_malloc mi_attr_alloc_size(2);

/// As `mi_calloc()`.
/// @param heap the heap
/// @param count number of elements
/// @param size bytes of an element
/// @return the block, or NULL
mi_decl_nodiscard mi_decl_export mi_decl_restrict void*
mi_heap_calloc(mi_heap_t* heap, size_t count, size_t size) mi_attr_noexcept mi_attr_malloc
    mi_attr_alloc_size2(2, 3);

/// As `mi_mallocn()`.
/// @param heap the heap
/// @param count number of elements
/// @param size bytes of an element
/// @return the block, or NULL
mi_decl_nodiscard mi_decl_export mi_decl_restrict void*
mi_heap_mallocn(mi_heap_t* heap, size_t count, size_t size) mi_attr_noexcept mi_attr_malloc
    mi_attr_alloc_size2(2, 3);

/// As `mi_malloc_small()`.
/// @param heap the heap
/// @param size at most MI_SMALL_SIZE_MAX bytes
/// @return the block, or NULL
mi_decl_nodiscard mi_decl_export mi_decl_restrict void*
mi_heap_malloc_small(mi_heap_t* heap, size_t size) mi_attr_noexcept mi_attr_malloc
    mi_attr_alloc_size(2);

/// As `mi_zalloc_small()`.
/// @param heap the heap
/// @param size at most MI_SMALL_SIZE_MAX bytes
/// @return the block, or NULL
mi_decl_nodiscard mi_decl_export mi_decl_restrict void*
mi_heap_zalloc_small(mi_heap_t* heap, size_t size) mi_attr_noexcept mi_attr_malloc
    mi_attr_alloc_size(2);

/// As `mi_realloc()`.
/// @param heap the heap
/// @param p the block, or NULL
/// @param newsize bytes
/// @return the block, maybe elsewhere; NULL on failure, with `p` untouched
mi_decl_nodiscard mi_decl_export void* mi_heap_realloc(mi_heap_t* heap, void* p,
                                                       size_t newsize) mi_attr_noexcept
    mi_attr_alloc_size(3);

/// As `mi_reallocn()`.
/// @param heap the heap
/// @param p the block, or NULL
/// @param count number of elements
/// @param size bytes of an element
/// @return the block, maybe elsewhere; NULL on failure, with `p` untouched
mi_decl_nodiscard mi_decl_export void* mi_heap_reallocn(mi_heap_t* heap, void* p, size_t count,
                                                        size_t size) mi_attr_noexcept
    mi_attr_alloc_size2(3, 4);

/// As `mi_reallocf()`.
/// @param heap the heap
/// @param p the block, or NULL
/// @param newsize bytes
/// @return the block, maybe elsewhere; NULL on failure, with `p` freed
mi_decl_nodiscard mi_decl_export void* mi_heap_reallocf(mi_heap_t* heap, void* p,
                                                        size_t newsize) mi_attr_noexcept
    mi_attr_alloc_size(3);

/// As `mi_rezalloc()`.
/// @param heap the heap
/// @param p the block, or NULL
/// @param newsize bytes
/// @return the block, maybe elsewhere; NULL on failure, with `p` untouched
mi_decl_nodiscard mi_decl_export void* mi_heap_rezalloc(mi_heap_t* heap, void* p,
                                                        size_t newsize) mi_attr_noexcept
    mi_attr_alloc_size(3);

/// As `mi_recalloc()`.
/// @param heap the heap
/// @param p the block, or NULL
/// @param newcount number of elements
/// @param size bytes of an element
/// @return the block, maybe elsewhere; NULL on failure, with `p` untouched
mi_decl_nodiscard mi_decl_export void* mi_heap_recalloc(mi_heap_t* heap, void* p, size_t newcount,
                                                        size_t size) mi_attr_noexcept
    mi_attr_alloc_size2(3, 4);

/// As `mi_strdup()`.
/// @param heap the heap
/// @param s zero-terminated
/// @return the copy, or NULL
mi_decl_nodiscard mi_decl_export mi_decl_restrict char*
mi_heap_strdup(mi_heap_t* heap, const char* s) mi_attr_noexcept mi_attr_malloc;

/// As `mi_strndup()`.
/// @param heap the heap
/// @param s a string
/// @param n characters to copy at most
/// @return the copy, or NULL
mi_decl_nodiscard mi_decl_export mi_decl_restrict char*
mi_heap_strndup(mi_heap_t* heap, const char* s, size_t n) mi_attr_noexcept mi_attr_malloc;

/// As `mi_realpath()`.
/// @param heap the heap
/// @param fname path of an existing file
/// @param resolved_name room for PATH_MAX characters, or NULL
/// @return `resolved_name`, or a block when that is NULL; NULL on failure
mi_decl_nodiscard mi_decl_export char* mi_heap_realpath(mi_heap_t* heap, const char* fname,
                                                        char* resolved_name) mi_attr_noexcept;

/// As `mi_malloc_aligned()`.
/// @param heap the heap
/// @param size bytes
/// @param alignment bytes
/// @return the block, or NULL
mi_decl_nodiscard mi_decl_export mi_decl_restrict void*
mi_heap_malloc_aligned(mi_heap_t* heap, size_t size,
                       size_t alignment) mi_attr_noexcept mi_attr_malloc mi_attr_alloc_size(2)
    mi_attr_alloc_align(3);

/// As `mi_malloc_aligned_at()`.
/// @param heap the heap
/// @param size bytes
/// @param alignment bytes
/// @param offset bytes from the start to the address that is aligned
/// @return the block, or NULL
mi_decl_nodiscard mi_decl_export mi_decl_restrict void*
mi_heap_malloc_aligned_at(mi_heap_t* heap, size_t size, size_t alignment,
                          size_t offset) mi_attr_noexcept mi_attr_malloc mi_attr_alloc_size(2);

/// As `mi_zalloc_aligned()`.
/// @param heap the heap
/// @param size bytes
/// @param alignment bytes
/// @return the block, or NULL
mi_decl_nodiscard mi_decl_export mi_decl_restrict void*
mi_heap_zalloc_aligned(mi_heap_t* heap, size_t size,
                       size_t alignment) mi_attr_noexcept mi_attr_malloc mi_attr_alloc_size(2)
    mi_attr_alloc_align(3);

/// As `mi_zalloc_aligned_at()`.
/// @param heap the heap
/// @param size bytes
/// @param alignment bytes
/// @param offset bytes from the start to the address that is aligned
/// @return the block, or NULL
mi_decl_nodiscard mi_decl_export mi_decl_restrict void*
mi_heap_zalloc_aligned_at(mi_heap_t* heap, size_t size, size_t alignment,
                          size_t offset) mi_attr_noexcept mi_attr_malloc mi_attr_alloc_size(2);

/// As `mi_calloc_aligned()`.
/// @param heap the heap
/// @param count number of elements
/// @param size bytes of an element
/// @param alignment bytes
/// @return the block, or NULL
mi_decl_nodiscard mi_decl_export mi_decl_restrict void*
mi_heap_calloc_aligned(mi_heap_t* heap, size_t count, size_t size,
                       size_t alignment) mi_attr_noexcept mi_attr_malloc mi_attr_alloc_size2(2, 3)
    mi_attr_alloc_align(4);

/// As `mi_calloc_aligned_at()`.
/// @param heap the heap
/// @param count number of elements
/// @param size bytes of an element
/// @param alignment bytes
/// @param offset bytes from the start to the address that is aligned
/// @return the block, or NULL
mi_decl_nodiscard mi_decl_export mi_decl_restrict void*
mi_heap_calloc_aligned_at(mi_heap_t* heap, size_t count, size_t size, size_t alignment,
                          size_t offset) mi_attr_noexcept mi_attr_malloc mi_attr_alloc_size2(2, 3);

/// As `mi_realloc_aligned()`.
/// @param heap the heap
/// @param p the block, or NULL
/// @param newsize bytes
/// @param alignment bytes
/// @return the block, maybe elsewhere; NULL on failure, with `p` untouched
mi_decl_nodiscard mi_decl_export void*
mi_heap_realloc_aligned(mi_heap_t* heap, void* p, size_t newsize, size_t alignment) mi_attr_noexcept
    mi_attr_alloc_size(3) mi_attr_alloc_align(4);

/// As `mi_realloc_aligned_at()`.
/// @param heap the heap
/// @param p the block, or NULL
/// @param newsize bytes
/// @param alignment bytes
/// @param offset bytes from the start to the address that is aligned
/// @return the block, maybe elsewhere; NULL on failure, with `p` untouched
mi_decl_nodiscard mi_decl_export void* mi_heap_realloc_aligned_at(mi_heap_t* heap, void* p,
                                                                  size_t newsize, size_t alignment,
                                                                  size_t offset) mi_attr_noexcept
    mi_attr_alloc_size(3);

/// As `mi_rezalloc_aligned()`.
/// @param heap the heap
/// @param p the block, or NULL
/// @param newsize bytes
/// @param alignment bytes
/// @return the block, maybe elsewhere; NULL on failure, with `p` untouched
mi_decl_nodiscard mi_decl_export void* mi_heap_rezalloc_aligned(mi_heap_t* heap, void* p,
                                                                size_t newsize,
                                                                size_t alignment) mi_attr_noexcept
    mi_attr_alloc_size(3) mi_attr_alloc_align(4);

/// As `mi_rezalloc_aligned_at()`.
/// @param heap the heap
/// @param p the block, or NULL
/// @param newsize bytes
/// @param alignment bytes
/// @param offset bytes from the start to the address that is aligned
/// @return the block, maybe elsewhere; NULL on failure, with `p` untouched
mi_decl_nodiscard mi_decl_export void* mi_heap_rezalloc_aligned_at(mi_heap_t* heap, void* p,
                                                                   size_t newsize, size_t alignment,
                                                                   size_t offset) mi_attr_noexcept
    mi_attr_alloc_size(3);

/// As `mi_recalloc_aligned()`.
/// @param heap the heap
/// @param p the block, or NULL
/// @param newcount number of elements
/// @param size bytes of an element
/// @param alignment bytes
/// @return the block, maybe elsewhere; NULL on failure, with `p` untouched
mi_decl_nodiscard mi_decl_export void* mi_heap_recalloc_aligned(mi_heap_t* heap, void* p,
                                                                size_t newcount, size_t size,
                                                                size_t alignment) mi_attr_noexcept
    mi_attr_alloc_size2(3, 4) mi_attr_alloc_align(5);

/// As `mi_recalloc_aligned_at()`.
/// @param heap the heap
/// @param p the block, or NULL
/// @param newcount number of elements
/// @param size bytes of an element
/// @param alignment bytes
/// @param offset bytes from the start to the address that is aligned
/// @return the block, maybe elsewhere; NULL on failure, with `p` untouched
mi_decl_nodiscard mi_decl_export void*
mi_heap_recalloc_aligned_at(mi_heap_t* heap, void* p, size_t newcount, size_t size,
                            size_t alignment, size_t offset) mi_attr_noexcept
    mi_attr_alloc_size2(3, 4);

/// As `mi_new()`.
/// @param heap the heap
/// @param size bytes
/// @return the block, never NULL
mi_decl_nodiscard mi_decl_export mi_decl_restrict void*
mi_heap_alloc_new(mi_heap_t* heap, size_t size) mi_attr_may_throw mi_attr_malloc
    mi_attr_alloc_size(2);

/// As `mi_new_n()`.
/// @param heap the heap
/// @param count number of elements
/// @param size bytes of an element
/// @return the block; NULL only when the product overflows and a handler was called
mi_decl_nodiscard mi_decl_export mi_decl_restrict void*
mi_heap_alloc_new_n(mi_heap_t* heap, size_t count, size_t size) mi_attr_may_throw mi_attr_malloc
    mi_attr_alloc_size2(2, 3);

/// `mi_heap_malloc()` of one element.
#define mi_heap_malloc_tp(tp, hp) ((tp*)mi_heap_malloc((hp), sizeof(tp)))
/// `mi_heap_zalloc()` of one element.
#define mi_heap_zalloc_tp(tp, hp) ((tp*)mi_heap_zalloc((hp), sizeof(tp)))
/// `mi_heap_calloc()` of `n` elements.
#define mi_heap_calloc_tp(tp, hp, n) ((tp*)mi_heap_calloc((hp), (n), sizeof(tp)))
/// `mi_heap_mallocn()` of `n` elements.
#define mi_heap_mallocn_tp(tp, hp, n) ((tp*)mi_heap_mallocn((hp), (n), sizeof(tp)))
/// `mi_heap_reallocn()` of block `p` to `n` elements.
#define mi_heap_reallocn_tp(tp, hp, p, n) ((tp*)mi_heap_reallocn((hp), (p), (n), sizeof(tp)))
/// `mi_heap_recalloc()` of block `p` to `n` elements.
#define mi_heap_recalloc_tp(tp, hp, p, n) ((tp*)mi_heap_recalloc((hp), (p), (n), sizeof(tp)))
/// @}

// ------------------------------------------------------------------------------------------------
/// @defgroup theaps Theaps: one thread's part of a heap
/// To allocate from it saves the search for it in each call. Only the thread that asked for a theap
/// may use it, until the thread or the heap ends. NULL has no memory to give, and is ignored by the
/// other functions.
///
/// @code
/// mi_theap_t* theap = mi_heap_theap(heap);
/// for (int i = 0; i < 1000; i++) nodes[i] = mi_theap_malloc(theap, sizeof(struct node));
/// @endcode
/// @{
// ------------------------------------------------------------------------------------------------

/// The calling thread's theap of a heap, made when needed.
/// @param heap the heap
/// @return the theap, or NULL
mi_decl_nodiscard mi_decl_export mi_theap_t* mi_heap_theap(mi_heap_t* heap) mi_attr_noexcept;

/// The theap that `mi_malloc()` of this thread uses.
/// @return the theap
mi_decl_nodiscard mi_decl_export mi_theap_t* mi_theap_get_default(void) mi_attr_noexcept;

/// Change that theap, for this thread.
/// @param theap the theap; NULL changes nothing
/// @return the one before
mi_decl_export mi_theap_t* mi_theap_set_default(mi_theap_t* theap) mi_attr_noexcept;

/// As `mi_collect()`.
/// @param theap the theap
/// @param force all of it, and to the system at once; else what is due
mi_decl_export void mi_theap_collect(mi_theap_t* theap, bool force) mi_attr_noexcept;

/// As `mi_malloc()`.
/// @param theap the theap
/// @param size bytes
/// @return the block, or NULL
mi_decl_nodiscard mi_decl_export mi_decl_restrict void*
mi_theap_malloc(mi_theap_t* theap, size_t size) mi_attr_noexcept mi_attr_malloc
    mi_attr_alloc_size(2);

/// As `mi_zalloc()`.
/// @param theap the theap
/// @param size bytes
/// @return the block, or NULL
mi_decl_nodiscard mi_decl_export mi_decl_restrict void*
mi_theap_zalloc(mi_theap_t* theap, size_t size) mi_attr_noexcept mi_attr_malloc
    mi_attr_alloc_size(2);

/// As `mi_calloc()`.
/// @param theap the theap
/// @param count number of elements
/// @param size bytes of an element
/// @return the block, or NULL
mi_decl_nodiscard mi_decl_export mi_decl_restrict void*
mi_theap_calloc(mi_theap_t* theap, size_t count, size_t size) mi_attr_noexcept mi_attr_malloc
    mi_attr_alloc_size2(2, 3);

/// As `mi_malloc_small()`.
/// @param theap the theap
/// @param size at most MI_SMALL_SIZE_MAX bytes
/// @return the block, or NULL
mi_decl_nodiscard mi_decl_export mi_decl_restrict void*
mi_theap_malloc_small(mi_theap_t* theap, size_t size) mi_attr_noexcept mi_attr_malloc
    mi_attr_alloc_size(2);

/// As `mi_zalloc_small()`.
/// @param theap the theap
/// @param size at most MI_SMALL_SIZE_MAX bytes
/// @return the block, or NULL
mi_decl_nodiscard mi_decl_export mi_decl_restrict void*
mi_theap_zalloc_small(mi_theap_t* theap, size_t size) mi_attr_noexcept mi_attr_malloc
    mi_attr_alloc_size(2);

/// As `mi_malloc_aligned()`.
/// @param theap the theap
/// @param size bytes
/// @param alignment bytes
/// @return the block, or NULL
mi_decl_nodiscard mi_decl_export mi_decl_restrict void*
mi_theap_malloc_aligned(mi_theap_t* theap, size_t size,
                        size_t alignment) mi_attr_noexcept mi_attr_malloc mi_attr_alloc_size(2)
    mi_attr_alloc_align(3);

/// As `mi_heap_realloc()`.
/// @param theap the theap
/// @param p the block, or NULL
/// @param newsize bytes
/// @return the block, maybe elsewhere; NULL on failure, with `p` untouched
mi_decl_nodiscard mi_decl_export void* mi_theap_realloc(mi_theap_t* theap, void* p,
                                                        size_t newsize) mi_attr_noexcept
    mi_attr_alloc_size(3);

/// @name Guarded blocks
/// Blocks with memory behind them that cannot be touched, so that a write past the end stops the
/// program. These functions are for the thread of the theap; options set later act on it again.
/// What they set ends with the thread, or with the heap.
/// @{

/// How many blocks are guarded.
/// @param theap the theap
/// @param sample_rate one in so many; 0 none, 1 all
/// @param seed with the same one the same blocks are chosen; 0: any
mi_decl_export void mi_theap_guarded_set_sample_rate(mi_theap_t* theap, size_t sample_rate,
                                                     size_t seed) mi_attr_noexcept;

/// Which sizes are guarded.
/// @param theap the theap
/// @param min smallest size, bytes
/// @param max largest size, bytes; not below `min`
mi_decl_export void mi_theap_guarded_set_size_bound(mi_theap_t* theap, size_t min,
                                                    size_t max) mi_attr_noexcept;

/// As `mi_theap_guarded_set_sample_rate()` of the calling thread's theap (version 2).
/// @param heap the heap
/// @param sample_rate one in so many; 0 none, 1 all
/// @param seed with the same one the same blocks are chosen; 0: any
mi_decl_export void mi_heap_guarded_set_sample_rate(mi_heap_t* heap, size_t sample_rate,
                                                    size_t seed) mi_attr_noexcept;

/// As `mi_theap_guarded_set_size_bound()` of the calling thread's theap (version 2).
/// @param heap the heap
/// @param min smallest size, bytes
/// @param max largest size, bytes
mi_decl_export void mi_heap_guarded_set_size_bound(mi_heap_t* heap, size_t min,
                                                   size_t max) mi_attr_noexcept;
/// @}
/// @}

// ------------------------------------------------------------------------------------------------
/// @defgroup subprocs Sub-processes
/// Heaps, arenas and statistics that share nothing with those of another one, for several
/// interpreters in one process. A thread belongs to one, at first to the main one.
///
/// @code
/// void* interpreter_thread(void* arg) {
///   mi_subproc_add_current_thread(*(mi_subproc_id_t*)arg);
///   return run_interpreter(); // its mi_malloc takes from this sub-process
/// }
/// @endcode
/// @{
// ------------------------------------------------------------------------------------------------

/// The sub-process that the process starts with.
/// @return its id
mi_decl_nodiscard mi_decl_export mi_subproc_id_t mi_subproc_main(void) mi_attr_noexcept;

/// The sub-process of the calling thread.
/// @return its id
mi_decl_nodiscard mi_decl_export mi_subproc_id_t mi_subproc_current(void) mi_attr_noexcept;

/// A fresh sub-process, with a main heap.
/// @return its id; an id of NULL when there is no memory for it
mi_decl_nodiscard mi_decl_export mi_subproc_id_t mi_subproc_new(void) mi_attr_noexcept;

/// End a sub-process: all its heaps and blocks, and all its memory. Its threads must have ended.
/// @param subproc with threads in it, it stays, with a warning; the main one and NULL are ignored
mi_decl_export void mi_subproc_destroy(mi_subproc_id_t subproc) mi_attr_noexcept;

/// As `mi_subproc_destroy()`, but blocks in use stay valid, and the rest ends when none is left
/// (version 3.1).
/// @param subproc as above
mi_decl_export void mi_subproc_delete(mi_subproc_id_t subproc) mi_attr_noexcept;

/// Move the calling thread to a sub-process, until the thread ends. What it allocated before stays
/// where it was. A thread that was moved before stays where it is, with a warning.
/// @param subproc the new one
mi_decl_export void mi_subproc_add_current_thread(mi_subproc_id_t subproc) mi_attr_noexcept;

/// Visit each heap.
/// @param subproc whose heaps
/// @param visitor must not make or end heaps
/// @param arg passed to it
/// @return false when the visitor returned false, or is NULL, or there is no memory for the visit
mi_decl_export bool mi_subproc_visit_heaps(mi_subproc_id_t subproc, mi_heap_visit_fun* visitor,
                                           void* arg) mi_attr_noexcept;
/// @}

// ------------------------------------------------------------------------------------------------
/// @defgroup arenas Arenas: memory that the program reserves or brings along
/// Heaps of the sub-process take memory from its arenas first. An `exclusive` arena serves only
/// heaps of `mi_heap_new_in_arena()`. There is no way to take an arena back.
///
/// Where there is a pointer for the id, it may be NULL; the id becomes NULL on failure.
///
/// @code
/// mi_arena_id_t arena;
/// if (mi_manage_os_memory_ex(start, 256 << 20, true, true, false, -1, true, &arena)) {
///   mi_heap_t* heap = mi_heap_new_in_arena(arena);
///   void* p = mi_heap_malloc(heap, 100); // in [start, start + 256 MiB)
/// }
/// @endcode
/// @{
// ------------------------------------------------------------------------------------------------

/// Reserve memory of the system.
/// @param size bytes, rounded up to whole `mi_arena_min_size()`
/// @param commit make it usable at once, else as it is needed
/// @param allow_large use explicit large pages of the system if it has any
/// @return 0 or ENOMEM
mi_decl_export int mi_reserve_os_memory(size_t size, bool commit,
                                        bool allow_large) mi_attr_noexcept;

/// As `mi_reserve_os_memory()`.
/// @param size bytes
/// @param commit make it usable at once
/// @param allow_large use explicit large pages
/// @param exclusive only for heaps that ask for it
/// @param[out] arena_id the arena
/// @return 0 or ENOMEM
mi_decl_export int mi_reserve_os_memory_ex(size_t size, bool commit, bool allow_large,
                                           bool exclusive,
                                           mi_arena_id_t* arena_id) mi_attr_noexcept;

/// Use memory of the program, which must stay valid as long as the process.
/// @param start first byte, rounded up to `mi_arena_min_alignment()`
/// @param size bytes; the end is rounded down, and if less than `mi_arena_min_size()` is left, it
///        is refused with a warning
/// @param is_committed usable now; else the library makes it so by mprotect(2)
/// @param is_pinned must not be given back to the system. (That is never done on macOS and BSDs,
///        which can give contents back only by another mapping.)
/// @param is_zero reads as zero
/// @param numa_node number of the node it is at; -1: unknown
/// @return success
mi_decl_export bool mi_manage_os_memory(void* start, size_t size, bool is_committed, bool is_pinned,
                                        bool is_zero, int numa_node) mi_attr_noexcept;

/// As `mi_manage_os_memory()`.
/// @param start first byte
/// @param size bytes
/// @param is_committed usable now
/// @param is_pinned must not be given back to the system
/// @param is_zero reads as zero
/// @param numa_node number of the node; -1: unknown
/// @param exclusive only for heaps that ask for it
/// @param[out] arena_id the arena
/// @return success
mi_decl_export bool mi_manage_os_memory_ex(void* start, size_t size, bool is_committed,
                                           bool is_pinned, bool is_zero, int numa_node,
                                           bool exclusive,
                                           mi_arena_id_t* arena_id) mi_attr_noexcept;

/// As `mi_manage_os_memory_ex()`, with a function of the program that makes memory usable and gives
/// it back.
/// @param start first byte
/// @param size bytes
/// @param is_committed usable now; else the function makes it so
/// @param is_pinned must not be given back
/// @param is_zero reads as zero
/// @param numa_node number of the node; -1: unknown
/// @param exclusive only for heaps that ask for it
/// @param commit_fun the function
/// @param commit_fun_arg passed to it
/// @param[out] arena_id the arena
/// @return success
mi_decl_export bool mi_manage_memory(void* start, size_t size, bool is_committed, bool is_pinned,
                                     bool is_zero, int numa_node, bool exclusive,
                                     mi_commit_fun_t* commit_fun, void* commit_fun_arg,
                                     mi_arena_id_t* arena_id) mi_attr_noexcept;

/// Reserve huge OS pages of 1 GiB, evenly over NUMA nodes. They come one after the other, until
/// that takes longer than twice the time; a part is a success. They are never given back.
/// @param pages how many
/// @param numa_nodes over how many nodes; 0: all
/// @param timeout_msecs milliseconds; 0: no limit
/// @return 0 or ENOMEM
mi_decl_export int mi_reserve_huge_os_pages_interleave(size_t pages, size_t numa_nodes,
                                                       size_t timeout_msecs) mi_attr_noexcept;

/// As `mi_reserve_huge_os_pages_interleave()`, at one node; what it has not, others give.
/// @param pages how many, of 1 GiB
/// @param numa_node number of the node, modulo the number of nodes; -1: any
/// @param timeout_msecs milliseconds; 0: no limit
/// @return 0 or ENOMEM
mi_decl_export int mi_reserve_huge_os_pages_at(size_t pages, int numa_node,
                                               size_t timeout_msecs) mi_attr_noexcept;

/// As `mi_reserve_huge_os_pages_at()`.
/// @param pages how many, of 1 GiB
/// @param numa_node number of the node, modulo the number of nodes; -1: any
/// @param timeout_msecs milliseconds; 0: no limit
/// @param exclusive only for heaps that ask for it
/// @param[out] arena_id the arena
/// @return 0 or ENOMEM
mi_decl_export int mi_reserve_huge_os_pages_at_ex(size_t pages, int numa_node, size_t timeout_msecs,
                                                  bool exclusive,
                                                  mi_arena_id_t* arena_id) mi_attr_noexcept;

/// Older form of `mi_reserve_huge_os_pages_interleave()`, over all nodes.
/// @param pages how many, of 1 GiB
/// @param max_secs seconds; 0: no limit
/// @param[out] pages_reserved `pages` on success, else 0; may be NULL
/// @return 0 or ENOMEM
mi_decl_export int mi_reserve_huge_os_pages(size_t pages, double max_secs,
                                            size_t* pages_reserved) mi_attr_noexcept;

/// What starts of arenas are rounded to.
/// @return bytes
mi_decl_nodiscard mi_decl_export size_t mi_arena_min_alignment(void) mi_attr_noexcept;

/// The least memory an arena can have.
/// @return bytes
mi_decl_nodiscard mi_decl_export size_t mi_arena_min_size(void) mi_attr_noexcept;

/// Where an arena is.
/// @param arena_id the arena
/// @param[out] size its bytes, 0 for NULL; may be NULL
/// @return its start; NULL for NULL
mi_decl_nodiscard mi_decl_export void* mi_arena_area(mi_arena_id_t arena_id,
                                                     size_t* size) mi_attr_noexcept;

/// Whether an address is in an arena.
/// @param arena_id the arena
/// @param p any address
/// @return whether it is
mi_decl_nodiscard mi_decl_export bool mi_arena_contains(mi_arena_id_t arena_id,
                                                        const void* p) mi_attr_noexcept;

/// Print a map of the slices of each arena to the registered output, for people.
mi_decl_export void mi_arenas_print(void) mi_attr_noexcept;
/// Another name of `mi_arenas_print()`.
mi_decl_export void mi_debug_show_arenas(void) mi_attr_noexcept;

/// Whether malloc of the C library leads here, on Windows and macOS.
/// @return whether it does; elsewhere false
mi_decl_nodiscard mi_decl_export bool mi_is_redirected(void) mi_attr_noexcept;

/// @name Experiments of versions 3.0 and 3.1
/// Not possible any more: they do nothing and return false.
/// @{

/// Take an arena out of use.
/// @param arena_id ignored
/// @param base ignored
/// @param accessed_size ignored
/// @param full_size ignored
/// @return false
mi_decl_export bool mi_arena_unload(mi_arena_id_t arena_id, void** base, size_t* accessed_size,
                                    size_t* full_size) mi_attr_noexcept;

/// Put it back.
/// @param start ignored
/// @param size ignored
/// @param arena_id ignored
/// @return false
mi_decl_export bool mi_arena_reload(void* start, size_t size,
                                    mi_arena_id_t* arena_id) mi_attr_noexcept;

/// Take a heap out of use.
/// @param heap ignored
/// @return false
mi_decl_export bool mi_heap_unload(mi_heap_t* heap) mi_attr_noexcept;

/// Put it back.
/// @param heap ignored
/// @param arena_id ignored
/// @return false
mi_decl_export bool mi_heap_reload(mi_heap_t* heap, mi_arena_id_t arena_id) mi_attr_noexcept;
/// @}
/// @}

// ------------------------------------------------------------------------------------------------
/// @defgroup introspection Introspection
/// The visitor is called for each run of equal blocks (with a block of NULL), and if blocks are to
/// be visited for each block in use in it, until it returns false. No other thread may allocate
/// from or free into the heap meanwhile, and the visitor not either. In a main heap up to 32 KiB
/// that each other thread has freed last into pages of others count as in use.
///
/// @code
/// static bool add(const mi_heap_t* heap, const mi_heap_area_t* area, void* block,
///                 size_t block_size, void* arg) {
///   if (block == NULL) *(size_t*)arg += area->used * area->block_size;
///   return true;
/// }
/// size_t in_use = 0;
/// mi_heap_visit_blocks(heap, false, add, &in_use);
/// @endcode
/// @{
// ------------------------------------------------------------------------------------------------

/// Visit what is in a heap.
/// @param heap the heap
/// @param visit_blocks blocks too, not only areas
/// @param visitor called for each
/// @param arg passed to it
/// @return false when the visitor returned false, or is NULL, or there is no memory for the visit
mi_decl_export bool mi_heap_visit_blocks(mi_heap_t* heap, bool visit_blocks,
                                         mi_block_visit_fun* visitor, void* arg) mi_attr_noexcept;

/// Visit the memory of a heap that no thread holds: of threads that ended, pages that are full,
/// large blocks.
/// @param heap the heap
/// @param visit_blocks blocks too, not only areas
/// @param visitor called for each
/// @param arg passed to it
/// @return false when the visitor returned false, or is NULL, or there is no memory for the visit
mi_decl_export bool mi_heap_visit_abandoned_blocks(mi_heap_t* heap, bool visit_blocks,
                                                   mi_block_visit_fun* visitor,
                                                   void* arg) mi_attr_noexcept;

/// The same for all heaps of a sub-process (version 3.1).
/// @param subproc the sub-process
/// @param heap_tag ignored
/// @param visit_blocks blocks too, not only areas
/// @param visitor called for each
/// @param arg passed to it
/// @return false when the visitor returned false, or is NULL, or there is no memory for the visit
mi_decl_export bool mi_abandoned_visit_blocks(mi_subproc_id_t subproc, int heap_tag,
                                              bool visit_blocks, mi_block_visit_fun* visitor,
                                              void* arg) mi_attr_noexcept;

/// Visit what one theap holds.
/// @param theap the theap
/// @param visit_blocks blocks too, not only areas
/// @param visitor called for each
/// @param arg passed to it
/// @return false when the visitor returned false, or is NULL, or there is no memory for the visit
mi_decl_export bool mi_theap_visit_blocks(const mi_theap_t* theap, bool visit_blocks,
                                          mi_block_visit_fun* visitor, void* arg) mi_attr_noexcept;

/// For programs that defragment: whether it pays to move a block elsewhere. True when all blocks of
/// its page were used once, some are free, malloc does not use the page at the moment, and few
/// enough are in use. No other thread may touch the page meanwhile.
/// @param heap which the page must be of; NULL: any
/// @param p the block
/// @param perc_threshold percent of the blocks that may be in use
/// @return whether it pays
mi_decl_nodiscard mi_decl_export bool
mi_unsafe_heap_page_is_under_utilized(mi_heap_t* heap, void* p,
                                      size_t perc_threshold) mi_attr_noexcept;
/// @}

// ------------------------------------------------------------------------------------------------
/// @defgroup stats Statistics
/// As text: lines of at most 255 bytes, for people. As a structure and as JSON, for programs: in
/// mimalloc-stats.h. Blocks of all threads are counted; what others allocate or free meanwhile may
/// be missing.
/// @{
// ------------------------------------------------------------------------------------------------

/// Print statistics of the sub-process of the calling thread, and what the process used.
/// @param out NULL: the registered output
/// @param arg passed to it
mi_decl_export void mi_stats_print_out(mi_output_fun* out, void* arg) mi_attr_noexcept;

/// As `mi_stats_print_out()`: a thread has no figures of its own.
/// @param out NULL: the registered output
/// @param arg passed to it
mi_decl_export void mi_thread_stats_print_out(mi_output_fun* out, void* arg) mi_attr_noexcept;

/// Print statistics of a sub-process.
/// @param subproc the sub-process
/// @param out NULL: the registered output
/// @param arg passed to it
mi_decl_export void mi_subproc_stats_print_out(mi_subproc_id_t subproc, mi_output_fun* out,
                                               void* arg) mi_attr_noexcept;

/// Print statistics of each heap of a sub-process, and then its own.
/// @param subproc the sub-process
/// @param out NULL: the registered output
/// @param arg passed to it
mi_decl_export void mi_subproc_heap_stats_print_out(mi_subproc_id_t subproc, mi_output_fun* out,
                                                    void* arg) mi_attr_noexcept;

/// Print statistics of a heap.
/// @param heap the heap; NULL: the main heap
/// @param out NULL: the registered output
/// @param arg passed to it
mi_decl_export void mi_heap_stats_print_out(mi_heap_t* heap, mi_output_fun* out,
                                            void* arg) mi_attr_noexcept;

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
/// @param out NULL: the registered output
/// @param arg passed to it
mi_decl_export void mi_explain(mi_output_fun* out, void* arg) mi_attr_noexcept;

/// @name Metrics
/// Of this library alone: the figures of the process, with all its sub-processes, for a monitoring
/// system that scrapes them. demo/metrics.c serves them by HTTP; the guide lists the names.
///
/// @code
/// static char text[32 * 1024];
/// if (mi_metrics(mi_metrics_prometheus, text, sizeof(text)) < sizeof(text)) answer(text);
/// @endcode
/// @{

/// How metrics are written.
typedef enum mi_metrics_format_e {
  mi_metrics_prometheus = 0, ///< the text format of Prometheus, version 0.0.4
  mi_metrics_openmetrics = 1 ///< OpenMetrics, version 1.0
} mi_metrics_format_t;

/// Write all metrics. Allocates nothing.
/// @param format how
/// @param[out] buffer gets the text, zero-terminated, or an empty one if it is too long; may be
///        NULL
/// @param size bytes of the buffer; 32 KiB are enough
/// @return the length of the whole text, as snprintf says it: it fits if that is below `size`. The
///   next call may need a little more, because figures change. 0 if the format is unknown
mi_decl_export size_t mi_metrics(mi_metrics_format_t format, char* buffer,
                                 size_t size) mi_attr_noexcept;
/// @}

/// @name Older names of functions that print
/// @{

/// As `mi_stats_print_out()` to the registered output.
/// @param out ignored
mi_decl_export void mi_stats_print(void* out) mi_attr_noexcept;
/// Nothing to do: figures are always complete.
mi_decl_export void mi_stats_reset(void) mi_attr_noexcept;
/// Nothing to do: figures are always complete.
mi_decl_export void mi_stats_merge(void) mi_attr_noexcept;
/// As `mi_thread_stats_print_out()`.
/// @param out NULL: the registered output
mi_decl_export void mi_thread_stats_print(mi_output_fun* out) mi_attr_noexcept;
/// @}
/// @}

// ------------------------------------------------------------------------------------------------
/// @defgroup options Options
/// The environment sets them too: variable MIMALLOC_ and the name in capitals, as in
/// `MIMALLOC_PURGE_DELAY=0`. Meant for the start of a program: some are looked at only once. The
/// guide lists defaults and units.
///
/// @code
/// int main(void) {
///   mi_option_set(mi_option_purge_delay, 100); // wins over the environment
///   mi_option_set_default(mi_option_arena_reserve, 4 * 1024 * 1024); // KiB: 4 GiB
///   ...
/// @endcode
/// @{
// ------------------------------------------------------------------------------------------------

/// The numbers are part of the binary interface; from 1000 on they are of this library alone.
/// Options that say deprecated do nothing.
/// `mi_option_destroy_on_exit` is for tools that count what is left at the end: with 1 the end of
/// the process, with 2 a call of `mi_process_done()` unmaps all memory. Blocks are gone then, and a
/// free of one does nothing. Not where the library replaces malloc, and not while other threads use
/// it.
typedef enum mi_option_e {
  mi_option_show_errors = 0, ///< print errors and warnings
  mi_option_show_stats = 1, ///< print statistics at the end
  mi_option_verbose = 2, ///< print what happens
  mi_option_deprecated_eager_commit = 3, ///< no effect
  mi_option_arena_eager_commit = 4, ///< commit whole: 0 no, 1 yes, 2 if overcommitted
  mi_option_purge_decommits = 5, ///< unused memory: 1 goes back, 0 may be taken
  mi_option_allow_large_os_pages = 6, ///< explicit 2 MiB pages; that memory stays
  mi_option_reserve_huge_os_pages = 7, ///< number of 1 GiB pages to reserve at the start
  mi_option_reserve_huge_os_pages_at = 8, ///< their NUMA node, -1 evenly over all
  mi_option_reserve_os_memory = 9, ///< KiB to reserve at the start
  mi_option_deprecated_segment_cache = 10, ///< no effect
  mi_option_deprecated_page_reset = 11, ///< no effect
  mi_option_deprecated_abandoned_page_purge = 12, ///< no effect
  mi_option_deprecated_segment_reset = 13, ///< no effect
  mi_option_deprecated_eager_commit_delay = 14, ///< no effect
  mi_option_purge_delay = 15, ///< ms until unused memory goes back; -1 never
  mi_option_use_numa_nodes = 16, ///< pretend to have so many nodes; 0 ask the system
  mi_option_disallow_os_alloc = 17, ///< use reserved memory only
  mi_option_os_tag = 18, ///< macOS: tag of mappings
  mi_option_max_errors = 19, ///< print at most so many errors; -1 all
  mi_option_max_warnings = 20, ///< print at most so many warnings; -1 all
  mi_option_deprecated_max_segment_reclaim = 21, ///< no effect
  mi_option_destroy_on_exit = 22, ///< unmap all at the end: 1 always, 2 when asked
  mi_option_arena_reserve = 23, ///< KiB that an arena may grow to
  mi_option_arena_purge_mult = 24, ///< purge delay of arenas, in multiples of `purge_delay`
  mi_option_deprecated_purge_extend_delay = 25, ///< no effect
  mi_option_disallow_arena_alloc = 26, ///< use no arenas
  mi_option_retry_on_oom = 27, ///< no effect: milliseconds to keep trying, on Windows
  mi_option_visit_abandoned = 28, ///< always on: visitors find all abandoned memory
  mi_option_guarded_min = 29, ///< smallest size of guarded blocks, bytes
  mi_option_guarded_max = 30, ///< largest size of guarded blocks, bytes
  mi_option_guarded_precise = 31, ///< guard to the byte, even if that breaks the alignment
  mi_option_guarded_sample_rate = 32, ///< guard one block in so many; 0 none
  mi_option_guarded_sample_seed = 33, ///< chooses which blocks; 0 any
  mi_option_generic_collect = 34, ///< collect after so many slow allocations
  mi_option_page_reclaim_on_free = 35, ///< keep pages when freeing: -1 none, 0 own, 1 all
  mi_option_page_full_retain = 36, ///< no effect: full pages belong to nobody
  mi_option_page_max_candidates = 37, ///< no effect: the oldest page is taken
  mi_option_max_vabits = 38, ///< no effect: all addresses are served
  mi_option_pagemap_commit = 39, ///< fault the page map in as a whole
  mi_option_page_commit_on_demand = 40, ///< no effect: pages are committed as a whole
  mi_option_page_max_reclaim = 41, ///< limit of own pages kept so per size, -1 none
  mi_option_page_cross_thread_max_reclaim = 42, ///< the same for pages of other threads
  mi_option_allow_thp = 43, ///< huge pages: 0 never, 1 where they pay, 2 all
  mi_option_minimal_purge_size = 44, ///< KiB; smaller ranges are kept
  mi_option_arena_max_object_size = 45, ///< KiB; larger blocks get a mapping of their own
  mi_option_arena_is_numa_local = 46, ///< arenas belong to the node of their maker
  _mi_option_last = 47, ///< how many there are with the numbers above
  // Older names.
  mi_option_libc_semantics = 1000, ///< `realloc` and `memalign` as in libc, `mi_realloc` is not
  mi_option_drop_deepbind = 1001, ///< `dlopen` ignores `RTLD_DEEPBIND` (glibc, shared library)
  mi_option_abort_on_misuse = 1002, ///< 0 no, 1 if memory is damaged, 2 any: ends the process
  mi_option_zero_on_free = 1003, ///< clear what is freed (secure builds)
  mi_option_report_json = 1004, ///< each report of a mistake is a line of JSON
  mi_option_quarantine = 1005, ///< KiB that each thread keeps of what it frees (secure builds)
  mi_option_zero_on_allocation = 1006, ///< clear what is allocated (secure builds)
  mi_option_profile_rate = 1007, ///< mean bytes between samples of a heap profile
  mi_option_profile_leaks = 1008, ///< profile from the start, and print what is in use at the end
  mi_option_purge_thread = 1009, ///< a thread purges: 0 never, 1 always, 2 beside other threads
  mi_option_memory_limit = 1010, ///< KiB that may be in use; 0 the limit of the container, -1 none

  mi_option_eager_region_commit = mi_option_arena_eager_commit, ///< older name
  mi_option_reset_decommits = mi_option_purge_decommits, ///< older name
  mi_option_large_os_pages = mi_option_allow_large_os_pages, ///< older name
  mi_option_abandoned_page_reset = mi_option_deprecated_abandoned_page_purge, ///< older name
  mi_option_reset_delay = mi_option_purge_delay, ///< older name
  mi_option_limit_os_alloc = mi_option_disallow_os_alloc ///< older name
} mi_option_t;

/// The value of an option.
/// @param option which
/// @return the value; 0 for a number that is no option
mi_decl_nodiscard mi_decl_export long mi_option_get(mi_option_t option);

/// The value of an option within bounds.
/// @param option which
/// @param min the least result
/// @param max the greatest result
/// @return the value, but at least `min` and at most `max`
mi_decl_nodiscard mi_decl_export long mi_option_get_clamp(mi_option_t option, long min, long max);

/// The value of an option that counts KiB, in bytes.
/// @param option which; the value of other options is taken as it is
/// @return bytes; 0 for negative values
mi_decl_nodiscard mi_decl_export size_t mi_option_get_size(mi_option_t option);

/// Set a value, over the environment and any default.
/// @param option which; a number that is no option is ignored
/// @param value in the unit of the option, also KiB
mi_decl_export void mi_option_set(mi_option_t option, long value);

/// Set a value unless the environment or `mi_option_set()` did.
/// @param option which
/// @param value in the unit of the option
mi_decl_export void mi_option_set_default(mi_option_t option, long value);

/// Whether an option is on.
/// @param option which
/// @return whether its value is not 0
mi_decl_nodiscard mi_decl_export bool mi_option_is_enabled(mi_option_t option);

/// Set an option to 1.
/// @param option which
mi_decl_export void mi_option_enable(mi_option_t option);

/// Set an option to 0.
/// @param option which
mi_decl_export void mi_option_disable(mi_option_t option);

/// Set an option to 0 or 1.
/// @param option which
/// @param enable to 1, else to 0
mi_decl_export void mi_option_set_enabled(mi_option_t option, bool enable);

/// As `mi_option_set_default()`, to 0 or 1.
/// @param option which
/// @param enable to 1, else to 0
mi_decl_export void mi_option_set_enabled_default(mi_option_t option, bool enable);

/// Print version, options and build to the registered output.
mi_decl_export void mi_options_print(void) mi_attr_noexcept;

/// The same to a function.
/// @param out NULL: the registered output
/// @param arg passed to it
mi_decl_export void mi_options_print_out(mi_output_fun* out, void* arg) mi_attr_noexcept;
/// @}

#ifdef __cplusplus
}
#endif

// ------------------------------------------------------------------------------------------------
// C++: allocators for containers
// ------------------------------------------------------------------------------------------------

#ifdef __cplusplus
#include <cstddef>
#include <cstdlib>
#include <new>
/// Whether the language is C++11 or later.
#if __cplusplus >= 201103L || (defined(_MSC_VER) && _MSC_VER >= 1900)
#define MI_HAS_CXX11 1
#include <type_traits>
#include <utility>
#else
#define MI_HAS_CXX11 0
#endif
#if defined(__cpp_exceptions) || defined(__EXCEPTIONS) || defined(_CPPUNWIND)
// Throws, or aborts in programs without exceptions.
#define _mi_cxx_throw(exception) throw exception
#else
#define _mi_cxx_throw(exception) std::abort()
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

protected:
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
  void check_length(size_type count) const {
    if (count <= max_size()) return;
#if MI_HAS_CXX11
    _mi_cxx_throw(std::bad_array_new_length());
#else
    _mi_cxx_throw(std::bad_alloc());
#endif
  }
};

/// An allocator for containers, `std::vector<T, mi_stl_allocator<T> >`. It has no state, so every
/// instance frees what any other allocated. Types of any alignment are honoured. Without memory it
/// does what `mi_new()` does; more than `max_size()` elements throw std::bad_array_new_length
/// (before C++11 std::bad_alloc; without exceptions the process is aborted).
/// @ingroup cxxnew
template <class T> struct mi_stl_allocator : public _mi_stl_allocator_common<T> {
  /// @cond what the C++ standard requires of an allocator
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
    this->check_length(count);
    const size_type alignment = this->alignment();
    if (alignment <= 16) return static_cast<pointer>(mi_new_n(count, sizeof(T)));
    return static_cast<pointer>(mi_new_aligned(count * sizeof(T), alignment));
  }
  mi_decl_nodiscard pointer allocate(size_type count, const void*) { return allocate(count); }
  void deallocate(pointer p, size_type) mi_attr_noexcept { mi_free(p); }
  /// @endcond
};

template <class T, class U>
bool operator==(const mi_stl_allocator<T>&, const mi_stl_allocator<U>&) mi_attr_noexcept {
  return true;
}
template <class T, class U>
bool operator!=(const mi_stl_allocator<T>&, const mi_stl_allocator<U>&) mi_attr_noexcept {
  return false;
}

// ------------------------------------------------------------------------------------------------
// C++11: allocators for containers over a heap. For std::pmr there is mimalloc-memory-resource.h.
// ------------------------------------------------------------------------------------------------

#if MI_HAS_CXX11
/// Defined when this header has the allocators over heaps.
#define MI_HAS_HEAP_STL_ALLOCATOR 1
#include <memory>

// What `mi_new` is to `mi_malloc`, for functions of heaps that have no such form. Here and not in
// the library, so that programs link with any library of this interface.
struct _mi_heap_cxx_new {
  static mi_heap_t* heap() {
    mi_heap_t* result = mi_heap_new();
    for (; result == nullptr; result = mi_heap_new()) find_memory();
    return result;
  }
  static void* block(mi_heap_t* heap, std::size_t size, std::size_t alignment) {
    void* result = mi_heap_malloc_aligned(heap, size, alignment);
    for (; result == nullptr; result = mi_heap_malloc_aligned(heap, size, alignment)) {
      // No handler can help, and one that returns would be called for ever.
      if (alignment == 0 || (alignment & (alignment - 1)) != 0) _mi_cxx_throw(std::bad_alloc());
      find_memory();
    }
    return result;
  }

private:
  static void find_memory() {
    const std::new_handler handler = std::get_new_handler();
    if (handler == nullptr) _mi_cxx_throw(std::bad_alloc());
    handler();
  }
};

template <class T, bool is_destroyed>
struct _mi_heap_stl_allocator_common : public _mi_stl_allocator_common<T> {
  using size_type = typename _mi_stl_allocator_common<T>::size_type;
  using pointer = typename _mi_stl_allocator_common<T>::pointer;
  using is_always_equal = std::false_type;

  // Copies and no moves: a container that was moved from allocates again, from the same heap.
  _mi_heap_stl_allocator_common(const _mi_heap_stl_allocator_common&) = default;
  _mi_heap_stl_allocator_common& operator=(const _mi_heap_stl_allocator_common&) = default;

  mi_decl_nodiscard pointer allocate(size_type count) {
    this->check_length(count);
    const size_type alignment = this->alignment();
    return static_cast<pointer>(
        alignment <= 16 ? mi_heap_alloc_new_n(heap.get(), count, sizeof(T))
                        : _mi_heap_cxx_new::block(heap.get(), count * sizeof(T), alignment));
  }
  mi_decl_nodiscard pointer allocate(size_type count, const void*) { return allocate(count); }
  void deallocate(pointer p, size_type) noexcept {
    if (!is_destroyed) mi_free(p);
  }

  // As `mi_heap_collect`.
  void collect(bool force) noexcept { mi_heap_collect(heap.get(), force); }
  template <class U, bool D>
  bool is_equal(const _mi_heap_stl_allocator_common<U, D>& x) const noexcept {
    return heap == x.heap;
  }

protected:
  _mi_heap_stl_allocator_common()
      : heap(_mi_heap_cxx_new::heap(), is_destroyed ? &mi_heap_destroy : &mi_heap_delete,
             mi_stl_allocator<char>()) {}
  // Shares the ownership of nothing.
  _mi_heap_stl_allocator_common(mi_heap_t* hp) noexcept
      : heap(std::shared_ptr<void>(), hp != nullptr ? hp : mi_heap_main()) {}
  template <class U>
  _mi_heap_stl_allocator_common(const _mi_heap_stl_allocator_common<U, is_destroyed>& x) noexcept
      : heap(x.heap) {}

private:
  template <class U, bool D> friend struct _mi_heap_stl_allocator_common;
  std::shared_ptr<mi_heap_t> heap;
};

/// An allocator for containers over a heap, `std::list<T, mi_heap_stl_allocator<T>>`. Of a
/// default-constructed one that is a fresh heap; all copies share it, those for other types and
/// those inside containers included, and it ends by `mi_heap_delete()` with the last of them, on
/// whatever thread. One that is constructed from a heap uses that heap, which must outlive all
/// copies. Allocators are equal when they have the same heap. A fresh heap and blocks that cannot
/// be had: as #mi_stl_allocator.
/// @ingroup cxxnew
template <class T> struct mi_heap_stl_allocator : public _mi_heap_stl_allocator_common<T, false> {
  /// @cond what the C++ standard requires of an allocator
  template <class U> struct rebind { typedef mi_heap_stl_allocator<U> other; };

  mi_heap_stl_allocator() {}
  mi_heap_stl_allocator(mi_heap_t* hp) noexcept : _mi_heap_stl_allocator_common<T, false>(hp) {}
  template <class U>
  mi_heap_stl_allocator(const mi_heap_stl_allocator<U>& x) noexcept
      : _mi_heap_stl_allocator_common<T, false>(x) {}
  mi_heap_stl_allocator select_on_container_copy_construction() const { return *this; }
  /// @endcond
};

template <class T, class U>
bool operator==(const mi_heap_stl_allocator<T>& x, const mi_heap_stl_allocator<U>& y) noexcept {
  return x.is_equal(y);
}
template <class T, class U>
bool operator!=(const mi_heap_stl_allocator<T>& x, const mi_heap_stl_allocator<U>& y) noexcept {
  return !x.is_equal(y);
}

/// As #mi_heap_stl_allocator, but deallocates nothing: its heap ends by `mi_heap_destroy()`, and
/// all memory goes at once.
/// @ingroup cxxnew
template <class T>
struct mi_heap_destroy_stl_allocator : public _mi_heap_stl_allocator_common<T, true> {
  /// @cond what the C++ standard requires of an allocator
  template <class U> struct rebind { typedef mi_heap_destroy_stl_allocator<U> other; };

  mi_heap_destroy_stl_allocator() {}
  mi_heap_destroy_stl_allocator(mi_heap_t* hp) noexcept
      : _mi_heap_stl_allocator_common<T, true>(hp) {}
  template <class U>
  mi_heap_destroy_stl_allocator(const mi_heap_destroy_stl_allocator<U>& x) noexcept
      : _mi_heap_stl_allocator_common<T, true>(x) {}
  mi_heap_destroy_stl_allocator select_on_container_copy_construction() const { return *this; }
  /// @endcond
};

template <class T, class U>
bool operator==(const mi_heap_destroy_stl_allocator<T>& x,
                const mi_heap_destroy_stl_allocator<U>& y) noexcept {
  return x.is_equal(y);
}
template <class T, class U>
bool operator!=(const mi_heap_destroy_stl_allocator<T>& x,
                const mi_heap_destroy_stl_allocator<U>& y) noexcept {
  return !x.is_equal(y);
}
#endif // MI_HAS_CXX11
#endif // __cplusplus

#endif
