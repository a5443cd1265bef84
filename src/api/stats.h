// SPDX-License-Identifier: MIT
// stats.h - declarations of the files of statistics: stats.c collects; stats_text.c, stats_json.c
// and stats_metrics.c print the result. (account_text.c prints another one.)
#ifndef MI_API_STATS_H
#define MI_API_STATS_H

#include "api.h"
#include "mimalloc-stats.h"

// Collect the figures of a sub-process with all its heaps / of a heap.
MI_INTERNAL void mi_stats_collect(mi_subproc_t* subproc, mi_stats_t* stats);
MI_INTERNAL void mi_stats_collect_heap(mi_heap_t* heap, mi_stats_t* stats);

// The sum over all sub-processes; peaks are at most that. Totals of one that ends meanwhile may be
// counted twice, once for the main one.
MI_INTERNAL void mi_stats_collect_all(mi_stats_t* stats);

// True if the structure was prepared for the layout that we know.
MI_INTERNAL bool mi_stats_is_prepared(const mi_stats_t* stats);

// A bin counts the blocks of one of our size classes; those after this bin count two classes each,
// because there are more classes than bins.
#define MI_BIN_OWN ((size_t)39)
// The last bin: blocks with a page of their own.
#define MI_BIN_LAST ((size_t)MI_BIN_COUNT - 1)
// Return the size of the pages of a bin, in bytes; 0 if they differ.
MI_INTERNAL size_t mi_stats_page_size(size_t bin);

// One amount as text: bytes in binary units, counts in decimal ones.
#define MI_STATS_CELL_MAX 24
typedef enum mi_stats_unit_e { MI_STATS_BYTES, MI_STATS_COUNT } mi_stats_unit_t;
MI_INTERNAL void mi_stats_format(char cell[MI_STATS_CELL_MAX], int64_t amount,
                                 mi_stats_unit_t unit);

// What the process used; part of every report.
typedef struct mi_stats_process_s {
  mi_os_usage_t os;
  int64_t metadata; // our own structures
  int64_t commit, commit_peak; // with that, of all sub-processes; the peak is at most that
} mi_stats_process_t;
MI_INTERNAL void mi_stats_collect_process(mi_stats_process_t* process);

#endif
