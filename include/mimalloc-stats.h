// SPDX-License-Identifier: MIT
/// @file
/// Statistics as a structure and as JSON.
///
/// @code
/// mi_stats_t_decl(stats);
/// if (mi_stats_get(&stats)) use(stats.committed.current);
///
/// char* text = mi_stats_get_json(0, NULL);
/// puts(text);
/// mi_free(text);
/// @endcode
///
/// The figures are of this moment and of all threads: there is nothing to merge or to reset. The
/// fast paths of the allocator count nothing; what is not counted is 0, and so says the list of
/// fields. A debug build (one with padding) counts each block: there `malloc_bins`, `malloc_normal`
/// and `malloc_requested` have totals and peaks, of each heap, and are exact beside other threads,
/// too. How exact the figures of the others are:
/// - what happened (pages made, calls of the system, ...) is counted as it happens. Two figures
///   that change together may be read one before and one after the change.
/// - what is in use now (`malloc_normal`, `malloc_bins`, `page_bins`, `page_committed`,
///   `pages_abandoned`) is found by a walk over all pages. It is exact when no other thread has
///   allocated, or all that did have ended. A thread that is there takes blocks from a list, which
///   count as in use until it has given them out: at most a page of blocks for each size and
///   thread. So do blocks that others freed for it, until it looks.
/// - what was ever allocated (`total` of `malloc_bins` and `malloc_normal`) is known from the
///   lengths of those lists. It is exact when the blocks in use are, and otherwise too high by the
///   same blocks, so that `total - current`, what was freed, is right. It is counted for all heaps
///   together; of one heap `total` is `current`, as where nothing is counted.
/// - `committed` is the memory that the program or the library may have written to and that was not
///   given back, in pages of the system: blocks that were handed out once, free ones that wait to
///   go back, metadata. It is within 2 % (or 256 KiB) of what the system says is resident, but for
///   what only the system knows: large blocks of which the program has not touched all count as a
///   whole, memory in the swap counts, and so does what the option `purge_decommits` = 0 left to
///   the system. Metadata serves all sub-processes, and counts for the main one. The peak is that
///   of blocks, and that of metadata: at most as much more as metadata has shrunk.
/// - the sum over all heaps of a sub-process, and of what is of no heap, is what the sub-process
///   has: fields are of heaps (pages, blocks, bins) or of none (memory of the system, threads,
///   heaps, arenas), and are 0 elsewhere. That holds for amounts now and for totals, not for peaks.
/// - a heap that is deleted hands its blocks and its totals to the main heap; one that is destroyed
///   its totals. The totals of a sub-process that ends become those of the main one.
#pragma once
#ifndef MIMALLOC_STATS_H
#define MIMALLOC_STATS_H

#include <stdint.h>
#include <string.h>

#include "mimalloc.h"

/// @addtogroup stats
/// @{

/// @def mi_decl_align
/// In front of a declaration: aligned to `n` bytes.
/// @param n a power of two
#if defined(_MSC_VER)
#define mi_decl_align(n) __declspec(align(n))
#else
#define mi_decl_align(n) __attribute__((aligned(n)))
#endif

/// The version of the layout of `mi_stats_t`.
#define MI_STAT_VERSION 5

/// An amount that goes up and down.
typedef struct mi_stat_count_s {
  int64_t total; ///< ever; where that is not counted, as `peak`
  int64_t peak; ///< the most there was; where that is not counted, as `current`
  int64_t current; ///< now
} mi_stat_count_t;

/// A number of events.
typedef struct mi_stat_counter_s {
  int64_t total; ///< ever
} mi_stat_counter_t;

/// All fields in the order of the structure and of the JSON text. To walk over them, define
/// MI_STAT_COUNT(field) for those of type `mi_stat_count_t` and MI_STAT_COUNTER(field) for the
/// others.
#define MI_STAT_FIELDS()                                                                           \
  MI_STAT_COUNT(pages) /**< runs of memory that blocks of one size share */                        \
  MI_STAT_COUNT(reserved) /**< bytes of address space in arenas */                                 \
  MI_STAT_COUNT(committed) /**< bytes that may be resident, with metadata: see above */            \
  MI_STAT_COUNTER(reset) /**< bytes that the system may take when it needs them */                 \
  MI_STAT_COUNTER(purged) /**< bytes given back */                                                 \
  MI_STAT_COUNT(page_committed) /**< bytes of these pages that were handed out at least once */    \
  MI_STAT_COUNT(pages_abandoned) /**< pages without a thread, with room for others */              \
  MI_STAT_COUNT(threads) /**< threads there are */                                                 \
  MI_STAT_COUNT(malloc_normal) /**< bytes of blocks in use that share a page */                    \
  MI_STAT_COUNT(malloc_huge) /**< bytes of blocks in use with a page of their own */               \
  MI_STAT_COUNT(malloc_requested) /**< bytes asked for; counted by debug builds, else 0 */         \
  MI_STAT_COUNTER(mmap_calls) /**< calls of mmap(2) */                                             \
  MI_STAT_COUNTER(commit_calls) /**< calls to make memory usable */                                \
  MI_STAT_COUNTER(reset_calls) /**< calls that let the system take memory */                       \
  MI_STAT_COUNTER(purge_calls) /**< calls that gave memory back */                                 \
  MI_STAT_COUNTER(arena_count) /**< arenas made */                                                 \
  MI_STAT_COUNTER(malloc_normal_count) /**< not counted: 0 */                                      \
  MI_STAT_COUNTER(malloc_huge_count) /**< blocks with a page of their own, ever made */            \
  MI_STAT_COUNTER(malloc_guarded_count) /**< blocks between guards, ever made */                   \
  MI_STAT_COUNTER(arena_rollback_count) /**< memory that was reserved, but the system refused */   \
  MI_STAT_COUNTER(arena_purges) /**< as purge_calls */                                             \
  MI_STAT_COUNTER(pages_extended) /**< not counted: 0 */                                           \
  MI_STAT_COUNTER(pages_retire) /**< not counted: 0 */                                             \
  MI_STAT_COUNTER(page_searches) /**< not counted: 0 */                                            \
  MI_STAT_COUNTER(page_searches_count) /**< not counted: 0 */                                      \
  MI_STAT_COUNT(segments) /**< of older versions: 0 */                                             \
  MI_STAT_COUNT(segments_abandoned) /**< of older versions: 0 */                                   \
  MI_STAT_COUNT(segments_cache) /**< of older versions: 0 */                                       \
  MI_STAT_COUNT(_segments_reserved) /**< of older versions: 0 */                                   \
  MI_STAT_COUNT(heaps) /**< heaps there are */                                                     \
  MI_STAT_COUNT(theaps) /**< parts of heaps that belong to threads; `peak` is at most that */      \
  MI_STAT_COUNTER(pages_reclaim_on_alloc) /**< pages taken over by an allocation */                \
  MI_STAT_COUNTER(pages_reclaim_on_free) /**< pages taken over by a free */                        \
  MI_STAT_COUNTER(pages_reabandon_full) /**< pages that became full while they had no thread */    \
  MI_STAT_COUNTER(pages_unabandon_busy_wait) /**< nobody waits for a page: 0 */                    \
  MI_STAT_COUNTER(heaps_delete_wait) /**< nobody waits for a heap: 0 */

/// Kinds of chunks of arenas by what is in them. Not counted.
typedef enum mi_chunkbin_e {
  MI_CBIN_SMALL, ///< small blocks
  MI_CBIN_OTHER, ///< several kinds
  MI_CBIN_MEDIUM, ///< medium blocks
  MI_CBIN_LARGE, ///< large blocks
  MI_CBIN_HUGE, ///< a part of one block
  MI_CBIN_NONE, ///< nothing
  MI_CBIN_COUNT ///< how many kinds there are
} mi_chunkbin_t;

/// The bin of blocks with a page of their own.
#define MI_BIN_HUGE 73

/// Number of bins, each of blocks of one or two sizes; the last one is for blocks with a page of
/// their own.
#define MI_BIN_COUNT (MI_BIN_HUGE + 1)

/// @cond
// For the structure only: who walks over the fields defines both.
#define MI_STAT_COUNT(field) mi_stat_count_t field;
#define MI_STAT_COUNTER(field) mi_stat_counter_t field;
/// @endcond

/// Statistics.
typedef struct mi_stats_s {
  size_t size; ///< sizeof(mi_stats_t), set by the caller
  size_t version; ///< MI_STAT_VERSION, set by the caller
  MI_STAT_FIELDS()
  mi_stat_count_t _stat_reserved[4]; ///< 0
  mi_stat_counter_t _stat_counter_reserved[4]; ///< 0
  mi_stat_count_t malloc_bins[MI_BIN_COUNT]; ///< blocks of each size; of all heaps with `total`
  /// Pages of these blocks. In the sum over all heaps all bins have totals and peaks, of one heap
  /// only the last.
  mi_stat_count_t page_bins[MI_BIN_COUNT];
  mi_stat_count_t chunk_bins[MI_CBIN_COUNT]; ///< not counted: 0
} mi_stats_t;

#undef MI_STAT_COUNT
#undef MI_STAT_COUNTER

/// Tell the library which layout the program was compiled with.
/// @param[out] stats its fields `size` and `version` are written
static inline void mi_stats_header_init(mi_stats_t* stats) {
  stats->size = sizeof(mi_stats_t);
  stats->version = MI_STAT_VERSION;
}

/// As `mi_stats_header_init()`, and all other fields become 0.
/// @param[out] stats all fields are written
static inline void mi_stats_init(mi_stats_t* stats) {
  memset(stats, 0, sizeof(*stats));
  mi_stats_header_init(stats);
}

/// Declare and prepare a variable of type `mi_stats_t`. No semicolon is needed behind it.
/// @param name of the variable
#define mi_stats_t_decl(name)                                                                      \
  mi_stats_t name;                                                                                 \
  mi_stats_init(&name);

#ifdef __cplusplus
extern "C" {
#endif

/// Fill a prepared structure with the figures of the sub-process of the calling thread.
/// @param[in,out] stats prepared by `mi_stats_init()` or mi_stats_t_decl
/// @return false, with nothing written, when `stats` is NULL or was prepared for another layout
mi_decl_export bool mi_stats_get(mi_stats_t* stats) mi_attr_noexcept;

/// As `mi_stats_get()`, of one sub-process with all its heaps.
/// @param subproc the sub-process
/// @param[in,out] stats prepared as there
/// @return false as there, and when there is no sub-process (an id of NULL)
mi_decl_export bool mi_subproc_stats_get(mi_subproc_id_t subproc,
                                         mi_stats_t* stats) mi_attr_noexcept;

/// As `mi_subproc_stats_get()`, of what belongs to no heap of a sub-process.
/// @param subproc the sub-process
/// @param[in,out] stats prepared as there
/// @return as there
mi_decl_export bool mi_subproc_stats_get_exclusive(mi_subproc_id_t subproc,
                                                   mi_stats_t* stats) mi_attr_noexcept;

/// As `mi_stats_get()`, of one heap.
/// @param heap the heap; NULL: the main heap
/// @param[in,out] stats prepared as there
/// @return as there
mi_decl_export bool mi_heap_stats_get(mi_heap_t* heap, mi_stats_t* stats) mi_attr_noexcept;

/// @name Statistics as JSON
/// One object (RFC 8259), zero-terminated; its keys are the names of the fields. It is in the
/// buffer of the caller, or in a block that the caller gives to `mi_free()`. NULL when it does not
/// fit (32 KiB are enough), or when there is no memory. Its object `process` is of the process,
/// whatever the rest is of: `commit_current` is the sum of all sub-processes, and `commit_peak` at
/// most that.
/// @{

/// What `mi_stats_get()` gives, as JSON.
/// @param buf_size bytes of the buffer; 0: a block
/// @param[out] buf the buffer; NULL: a block
/// @return the text, or NULL
mi_decl_export char* mi_stats_get_json(size_t buf_size, char* buf) mi_attr_noexcept;

/// What `mi_subproc_stats_get()` gives, as JSON.
/// @param subproc the sub-process
/// @param buf_size bytes of the buffer; 0: a block
/// @param[out] buf the buffer; NULL: a block
/// @return the text, or NULL
mi_decl_export char* mi_subproc_stats_get_json(mi_subproc_id_t subproc, size_t buf_size,
                                               char* buf) mi_attr_noexcept;

/// What `mi_heap_stats_get()` gives, as JSON.
/// @param heap the heap; NULL: the main heap
/// @param buf_size bytes of the buffer; 0: a block
/// @param[out] buf the buffer; NULL: a block
/// @return the text, or NULL
mi_decl_export char* mi_heap_stats_get_json(mi_heap_t* heap, size_t buf_size,
                                            char* buf) mi_attr_noexcept;

/// Figures that were taken before, as JSON. What is in it about the process is of now.
/// @param stats the figures
/// @param buf_size bytes of the buffer; 0: a block
/// @param[out] buf the buffer; NULL: a block
/// @return the text; NULL also when `stats` was prepared for another layout
mi_decl_export char* mi_stats_as_json(mi_stats_t* stats, size_t buf_size,
                                      char* buf) mi_attr_noexcept;
/// @}

/// The size of the largest blocks of a bin.
/// @param bin number of the bin, below MI_BIN_COUNT
/// @return bytes; 0 for other numbers, and for bins that this build has no blocks for
mi_decl_export size_t mi_stats_get_bin_size(size_t bin) mi_attr_noexcept;

/// Nothing to do, figures are always complete: for programs of older versions.
/// @param heap ignored
mi_decl_export void mi_heap_stats_merge_to_subproc(mi_heap_t* heap) mi_attr_noexcept;

/// Nothing to do, figures are always complete: for programs of older versions.
/// @param heap ignored
mi_decl_export void mi_heap_stats_merge_to_main(mi_heap_t* heap) mi_attr_noexcept;
/// @}

#ifdef __cplusplus
}
#endif

#endif
