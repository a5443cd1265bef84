// SPDX-License-Identifier: MIT
// mimalloc-stats.h - statistics as a structure and as JSON.
//
// `mi_stats_t_decl(stats)` declares a variable, `mi_stats_get(&stats)` fills it, and
// `stats.committed.current` is one of its fields.
//
// The figures are of the whole process and of this moment; those of other threads are read while
// they run, so they are exact only when nobody else allocates. What is not counted is 0, and so
// says the list below: the fast paths of the allocator count nothing.
#pragma once
#ifndef MIMALLOC_STATS_H
#define MIMALLOC_STATS_H

#include <stdint.h>
#include <string.h>

#include "mimalloc.h"

#define MI_STAT_VERSION 5 // of this layout

// An amount that goes up and down, and a number of events.
typedef struct mi_stat_count_s {
  int64_t total; // ever; where that is not counted, as `peak`
  int64_t peak; // where that is not counted, as `current`
  int64_t current;
} mi_stat_count_t;

typedef struct mi_stat_counter_s {
  int64_t total;
} mi_stat_counter_t;

// All fields in the order of the structure and of the JSON text. Define MI_STAT_COUNT(field) and
// MI_STAT_COUNTER(field) to walk over them.
#define MI_STAT_FIELDS()                                                                           \
  MI_STAT_COUNT(pages) /* of blocks of one size */                                                 \
  MI_STAT_COUNT(reserved) /* bytes of address space in arenas */                                   \
  MI_STAT_COUNT(committed) /* bytes in use or not yet given back */                                \
  MI_STAT_COUNTER(reset) /* bytes that the system may take; 0 */                                   \
  MI_STAT_COUNTER(purged) /* bytes given back */                                                   \
  MI_STAT_COUNT(page_committed) /* bytes of pages that were handed out at least once */            \
  MI_STAT_COUNT(pages_abandoned) /* without a thread, with room for others */                      \
  MI_STAT_COUNT(threads)                                                                           \
  MI_STAT_COUNT(malloc_normal) /* bytes of blocks in use that share a page */                      \
  MI_STAT_COUNT(malloc_huge) /* bytes of blocks in use with a page of their own */                 \
  MI_STAT_COUNT(malloc_requested) /* 0 */                                                          \
  MI_STAT_COUNTER(mmap_calls)                                                                      \
  MI_STAT_COUNTER(commit_calls)                                                                    \
  MI_STAT_COUNTER(reset_calls)                                                                     \
  MI_STAT_COUNTER(purge_calls)                                                                     \
  MI_STAT_COUNTER(arena_count)                                                                     \
  MI_STAT_COUNTER(malloc_normal_count) /* 0 */                                                     \
  MI_STAT_COUNTER(malloc_huge_count) /* 0 */                                                       \
  MI_STAT_COUNTER(malloc_guarded_count) /* 0 */                                                    \
  MI_STAT_COUNTER(arena_rollback_count) /* 0 */                                                    \
  MI_STAT_COUNTER(arena_purges) /* as `purge_calls` */                                             \
  MI_STAT_COUNTER(pages_extended) /* 0 */                                                          \
  MI_STAT_COUNTER(pages_retire) /* 0 */                                                            \
  MI_STAT_COUNTER(page_searches) /* 0 */                                                           \
  MI_STAT_COUNTER(page_searches_count) /* 0 */                                                     \
  MI_STAT_COUNT(segments) /* this and the next three are of older versions: 0 */                   \
  MI_STAT_COUNT(segments_abandoned)                                                                \
  MI_STAT_COUNT(segments_cache)                                                                    \
  MI_STAT_COUNT(_segments_reserved)                                                                \
  MI_STAT_COUNT(heaps)                                                                             \
  MI_STAT_COUNT(theaps) /* parts of heaps that belong to threads */                                \
  MI_STAT_COUNTER(pages_reclaim_on_alloc) /* pages taken over by an allocation */                  \
  MI_STAT_COUNTER(pages_reclaim_on_free) /* 0 */                                                   \
  MI_STAT_COUNTER(pages_reabandon_full) /* 0 */                                                    \
  MI_STAT_COUNTER(pages_unabandon_busy_wait) /* 0 */                                               \
  MI_STAT_COUNTER(heaps_delete_wait) /* 0 */

// Kinds of chunks of arenas by what is in them. Not counted.
typedef enum mi_chunkbin_e {
  MI_CBIN_SMALL,
  MI_CBIN_OTHER,
  MI_CBIN_MEDIUM,
  MI_CBIN_LARGE,
  MI_CBIN_HUGE,
  MI_CBIN_NONE,
  MI_CBIN_COUNT
} mi_chunkbin_t;

#define MI_BIN_COUNT 74 // sizes of blocks; the last one is for blocks with a page of their own

#define MI_STAT_COUNT(field) mi_stat_count_t field;
#define MI_STAT_COUNTER(field) mi_stat_counter_t field;

typedef struct mi_stats_s {
  size_t size; // sizeof(mi_stats_t), set by the caller
  size_t version; // MI_STAT_VERSION, set by the caller
  MI_STAT_FIELDS()
  mi_stat_count_t _stat_reserved[4];
  mi_stat_counter_t _stat_counter_reserved[4];
  mi_stat_count_t malloc_bins[MI_BIN_COUNT]; // blocks in use, of each size
  mi_stat_count_t page_bins[MI_BIN_COUNT]; // pages of blocks of each size
  mi_stat_count_t chunk_bins[MI_CBIN_COUNT]; // 0
} mi_stats_t;

#undef MI_STAT_COUNT
#undef MI_STAT_COUNTER

// Prepare a structure: which layout the program was compiled with, or that and all else 0.
static inline void mi_stats_header_init(mi_stats_t* stats) {
  stats->size = sizeof(mi_stats_t);
  stats->version = MI_STAT_VERSION;
}

static inline void mi_stats_init(mi_stats_t* stats) {
  memset(stats, 0, sizeof(*stats));
  mi_stats_header_init(stats);
}

// Declare and prepare a variable.
#define mi_stats_t_decl(name)                                                                      \
  mi_stats_t name;                                                                                 \
  mi_stats_init(&name)

#ifdef __cplusplus
extern "C" {
#endif

// Fill a prepared structure. False, and nothing written, when `stats` is NULL or was prepared for
// another layout.
mi_decl_export bool mi_stats_get(mi_stats_t* stats) mi_attr_noexcept;

// The same for one sub-process with all its heaps; for what belongs to none of its heaps; for one
// heap (NULL: the main heap).
mi_decl_export bool mi_subproc_stats_get(mi_subproc_id_t subproc,
                                         mi_stats_t* stats) mi_attr_noexcept;
mi_decl_export bool mi_subproc_stats_get_exclusive(mi_subproc_id_t subproc,
                                                   mi_stats_t* stats) mi_attr_noexcept;
mi_decl_export bool mi_heap_stats_get(mi_heap_t* heap, mi_stats_t* stats) mi_attr_noexcept;

// What `mi_stats_get` gives, as JSON text (RFC 8259), zero-terminated, in `buf` of `buf_size`
// bytes; NULL when it does not fit (32 KiB are enough). With `buf` NULL or size 0, in a block of
// its own that the caller gives to `mi_free`; NULL when there is no memory.
mi_decl_export char* mi_stats_get_json(size_t buf_size, char* buf) mi_attr_noexcept;

mi_decl_export char* mi_subproc_stats_get_json(mi_subproc_id_t subproc, size_t buf_size,
                                               char* buf) mi_attr_noexcept;
mi_decl_export char* mi_heap_stats_get_json(mi_heap_t* heap, size_t buf_size,
                                            char* buf) mi_attr_noexcept;

// JSON of figures that were taken before; NULL also when `stats` was prepared for another layout.
// What is in it about the process is of now.
mi_decl_export char* mi_stats_as_json(mi_stats_t* stats, size_t buf_size,
                                      char* buf) mi_attr_noexcept;

// Bytes of the largest blocks of a bin; 0 for numbers from MI_BIN_COUNT on, and for bins that this
// build has no blocks for.
mi_decl_export size_t mi_stats_get_bin_size(size_t bin) mi_attr_noexcept;

// Nothing to do, the figures are always complete: for programs of older versions.
mi_decl_export void mi_heap_stats_merge_to_subproc(mi_heap_t* heap) mi_attr_noexcept;
mi_decl_export void mi_heap_stats_merge_to_main(mi_heap_t* heap) mi_attr_noexcept;

#ifdef __cplusplus
}
#endif

#endif
