// SPDX-License-Identifier: MIT
// jemalloc_stats.c - the figures behind stats.*, and malloc_stats_print.
//
//   jemalloc's word   ours (mimalloc-stats.h)
//   allocated         malloc_normal + malloc_huge: the blocks that the program has
//   active            page_committed + malloc_huge: the pages these are in
//   mapped            committed, less metadata: memory in use, or not yet given back
//   resident          the same and metadata
//   retained          reserved, but not committed: addresses without memory
//   metadata          1/512 of the memory: a descriptor of 128 bytes for each 64 KiB
//   nthreads          threads; of an arena, those that chose it (jemalloc_arena.c)
//   bins              the sizes of blocks that share a page
//
// JEMALLOC_STATS-1  figures of the whole process are those of the moment when the epoch began;
//     those of one arena are found when they are asked for.
// JEMALLOC_STATS-2  memory that is free belongs to no arena: what is mapped for one is its pages.
//
// JEMALLOC_STATS-3  blocks ever allocated are counted of all arenas together (malloc_bins): of a
//     single one there is no such figure.
//
// Deliberately absent: what is not counted, because the fast path would have to: bytes a thread
// ever allocated, contention of locks.
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "jemalloc.h"
#include "mimalloc-stats.h"

#define MI_JEMALLOC_LINE_MAX ((size_t)512)

MI_INTERNAL size_t mi_jemalloc_os_page(void) { return (size_t)sysconf(_SC_PAGESIZE); }

// The figures of the epoch, its number, and of each bin blocks, those ever made, and pages. Written
// by any thread that begins an epoch, read by any, relaxed: who reads while another thread writes
// gets some figures of either epoch.
static mi_atomic(size_t) mi_jemalloc_seen[MI_JEMALLOC_FIGURE_COUNT];
static mi_atomic(size_t) mi_jemalloc_seen_blocks[MI_BIN_COUNT];
static mi_atomic(size_t) mi_jemalloc_seen_made[MI_BIN_COUNT];
static mi_atomic(size_t) mi_jemalloc_seen_pages[MI_BIN_COUNT];
static mi_atomic(uint64_t) mi_jemalloc_epochs;

// -- Bins. Numbers of ours whose size no block of malloc has in this build are left out. --

static bool mi_jemalloc_is_bin(size_t ours) {
  const size_t size = mi_stats_get_bin_size(ours);
  return size != 0 && mi_good_size(size) == size && mi_stats_get_bin_size(ours + 1) != size;
}

static size_t mi_jemalloc_our_bin(size_t bin) {
  for (size_t i = 0; i < MI_BIN_HUGE; i++) {
    if (mi_jemalloc_is_bin(i) && bin-- == 0) return i;
  }
  return MI_BIN_HUGE;
}

MI_INTERNAL size_t mi_jemalloc_bins(void) {
  size_t count = 0;
  for (size_t i = 0; i < MI_BIN_HUGE; i++) count += mi_jemalloc_is_bin(i);
  return count;
}

MI_INTERNAL size_t mi_jemalloc_bin_size(size_t bin) {
  return mi_stats_get_bin_size(mi_jemalloc_our_bin(bin));
}

// -- Figures --

// Get the figures of an arena. False if there is none.
static bool mi_jemalloc_get(size_t arena, mi_stats_t* stats) {
  mi_stats_init(stats);
  if (arena == MI_JEMALLOC_ALL) return mi_stats_get(stats);
  mi_heap_t* const heap = mi_jemalloc_heap(arena);
  return heap != NULL && mi_heap_stats_get(heap, stats);
}

static void mi_jemalloc_compute(const mi_stats_t* stats, bool is_all, size_t* figure) {
  const size_t mask = mi_jemalloc_os_page() - 1;
  const size_t committed = mi_compat_amount(stats->committed);
  const size_t reserved = mi_compat_amount(stats->reserved);
  figure[MI_JEMALLOC_SMALL] = mi_compat_amount(stats->malloc_normal);
  figure[MI_JEMALLOC_LARGE] = mi_compat_amount(stats->malloc_huge);
  figure[MI_JEMALLOC_ALLOCATED] = figure[MI_JEMALLOC_SMALL] + figure[MI_JEMALLOC_LARGE];
  // Pages of one block are not in the sum of pages.
  size_t active = mi_compat_amount(stats->page_committed) + figure[MI_JEMALLOC_LARGE];
  // What comes between two sums is in one of them only.
  if (active < figure[MI_JEMALLOC_ALLOCATED]) active = figure[MI_JEMALLOC_ALLOCATED];
  active = (active + mask) & ~mask;
  size_t mapped = is_all ? committed : active;
  if (mapped < active) mapped = active;
  const size_t metadata = (mapped / 512 + mask) & ~mask;
  if (is_all && mapped > active + metadata) mapped -= metadata; // what is committed has it
  figure[MI_JEMALLOC_ACTIVE] = active;
  figure[MI_JEMALLOC_METADATA] = metadata;
  figure[MI_JEMALLOC_MAPPED] = (mapped + mask) & ~mask;
  figure[MI_JEMALLOC_RESIDENT] = figure[MI_JEMALLOC_MAPPED] + figure[MI_JEMALLOC_METADATA];
  figure[MI_JEMALLOC_RETAINED] = is_all && reserved > mapped ? reserved - mapped : 0;
}

MI_INTERNAL void mi_jemalloc_next_epoch(void) {
  mi_stats_t stats;
  size_t figure[MI_JEMALLOC_FIGURE_COUNT];
  if (!mi_jemalloc_get(MI_JEMALLOC_ALL, &stats)) return;
  mi_jemalloc_compute(&stats, true, figure);
  figure[MI_JEMALLOC_THREADS] = mi_compat_amount(stats.threads);
  for (size_t i = 0; i < MI_JEMALLOC_FIGURE_COUNT; i++) {
    mi_atomic_store_relaxed(&mi_jemalloc_seen[i], figure[i]);
  }
  for (size_t i = 0; i < MI_BIN_COUNT; i++) {
    mi_atomic_store_relaxed(&mi_jemalloc_seen_blocks[i], mi_compat_amount(stats.malloc_bins[i]));
    mi_atomic_store_relaxed(&mi_jemalloc_seen_made[i], (size_t)stats.malloc_bins[i].total);
    mi_atomic_store_relaxed(&mi_jemalloc_seen_pages[i], mi_compat_amount(stats.page_bins[i]));
  }
  mi_atomic_add_relaxed(&mi_jemalloc_epochs, 1);
}

MI_INTERNAL uint64_t mi_jemalloc_epoch(void) {
  if (mi_atomic_load_relaxed(&mi_jemalloc_epochs) == 0) mi_jemalloc_next_epoch();
  return mi_atomic_load_relaxed(&mi_jemalloc_epochs);
}

MI_INTERNAL size_t mi_jemalloc_figure(size_t arena, mi_jemalloc_figure_t which) {
  if (arena == MI_JEMALLOC_ALL) {
    mi_jemalloc_epoch();
    return mi_atomic_load_relaxed(&mi_jemalloc_seen[which]);
  }
  mi_stats_t stats;
  size_t figure[MI_JEMALLOC_FIGURE_COUNT] = {0};
  if (!mi_jemalloc_get(arena, &stats)) return 0;
  mi_jemalloc_compute(&stats, false, figure);
  if (which != MI_JEMALLOC_THREADS) return figure[which];
  mi_stats_init(&stats);
  return mi_jemalloc_threads(arena, mi_stats_get(&stats) ? mi_compat_amount(stats.threads) : 0);
}

MI_INTERNAL size_t mi_jemalloc_bin_blocks(size_t arena, size_t bin) {
  const size_t ours = mi_jemalloc_our_bin(bin);
  if (arena == MI_JEMALLOC_ALL) {
    mi_jemalloc_epoch();
    return mi_atomic_load_relaxed(&mi_jemalloc_seen_blocks[ours]);
  }
  mi_stats_t stats;
  return mi_jemalloc_get(arena, &stats) ? mi_compat_amount(stats.malloc_bins[ours]) : 0;
}

MI_INTERNAL size_t mi_jemalloc_bin_pages(size_t arena, size_t bin) {
  const size_t ours = mi_jemalloc_our_bin(bin);
  if (arena == MI_JEMALLOC_ALL) {
    mi_jemalloc_epoch();
    return mi_atomic_load_relaxed(&mi_jemalloc_seen_pages[ours]);
  }
  mi_stats_t stats;
  return mi_jemalloc_get(arena, &stats) ? mi_compat_amount(stats.page_bins[ours]) : 0;
}

static mi_jemalloc_ever_t mi_jemalloc_ever_of(size_t ours) {
  mi_jemalloc_epoch();
  const size_t made = mi_atomic_load_relaxed(&mi_jemalloc_seen_made[ours]);
  const size_t blocks = mi_atomic_load_relaxed(&mi_jemalloc_seen_blocks[ours]);
  return (mi_jemalloc_ever_t){made, made > blocks ? made - blocks : 0};
}

MI_INTERNAL mi_jemalloc_ever_t mi_jemalloc_bin_ever(size_t bin) {
  return mi_jemalloc_ever_of(mi_jemalloc_our_bin(bin));
}

MI_INTERNAL mi_jemalloc_ever_t mi_jemalloc_ever(mi_jemalloc_figure_t which) {
  if (which == MI_JEMALLOC_LARGE) return mi_jemalloc_ever_of(MI_BIN_HUGE);
  mi_jemalloc_ever_t sum = {0};
  for (size_t i = 0; i < MI_BIN_HUGE; i++) {
    const mi_jemalloc_ever_t one = mi_jemalloc_ever_of(i);
    sum.made += one.made;
    sum.freed += one.freed;
  }
  return sum;
}

// -- malloc_stats_print --

// Where a report goes, and whether it is JSON whose object has a member already.
typedef struct mi_jemalloc_report_s {
  void (*write)(void* arg, const char* text);
  void* arg;
  bool is_json;
  bool has_member;
} mi_jemalloc_report_t;

static void mi_jemalloc_put(mi_jemalloc_report_t* report, const char* text) {
  if (report->write != NULL) {
    report->write(report->arg, text);
  } else {
    mi_jemalloc_say(text);
  }
}

static void mi_jemalloc_put_ours(const char* text, void* arg) {
  mi_jemalloc_put((mi_jemalloc_report_t*)arg, text);
}

// A member of an object of JSON, or a line.
static void mi_jemalloc_put_value(mi_jemalloc_report_t* report, const char* name,
                                  const char* value) {
  char line[MI_JEMALLOC_LINE_MAX];
  const char* const form = report->is_json ? "%s\n\t\t\t\"%s\": " : "%s  %s: ";
  snprintf(line, sizeof(line), form, report->is_json && report->has_member ? "," : "", name);
  report->has_member = true;
  mi_jemalloc_put(report, line);
  mi_jemalloc_put(report, value);
  if (!report->is_json) mi_jemalloc_put(report, "\n");
}

static void mi_jemalloc_put_size(mi_jemalloc_report_t* report, const char* name, size_t size) {
  char value[32];
  snprintf(value, sizeof(value), "%zu", size);
  mi_jemalloc_put_value(report, name, value);
}

// The text as JSON writes it. What is no printable character becomes a question mark.
static void mi_jemalloc_quote(const char* text, char* quoted, size_t size) {
  size_t used = 0;
  quoted[used++] = '"';
  for (; *text != 0 && used + 3 < size; text++) {
    if (*text == '"' || *text == '\\') quoted[used++] = '\\';
    quoted[used++] = (char)((unsigned char)*text < ' ' ? '?' : *text);
  }
  quoted[used++] = '"';
  quoted[used] = 0;
}

static void mi_jemalloc_put_option(const char* name, mi_jemalloc_type_t type, long number,
                                   const char* text, void* arg) {
  char value[2 * MI_JEMALLOC_PATH_MAX + 4]; // each character may need two
  if (type == MI_JEMALLOC_TEXT) {
    mi_jemalloc_quote(text, value, sizeof(value));
  } else if (type == MI_JEMALLOC_BOOL) {
    snprintf(value, sizeof(value), "%s", number != 0 ? "true" : "false");
  } else {
    snprintf(value, sizeof(value), "%ld", number);
  }
  mi_jemalloc_put_value((mi_jemalloc_report_t*)arg, name, value);
}

static void mi_jemalloc_begin_group(mi_jemalloc_report_t* report, const char* name,
                                    const char* before) {
  char line[MI_JEMALLOC_LINE_MAX];
  snprintf(line, sizeof(line), report->is_json ? "%s\n\t\t\"%s\": {" : "%.0s%s:\n", before, name);
  report->has_member = false;
  mi_jemalloc_put(report, line);
}

static void mi_jemalloc_end_group(mi_jemalloc_report_t* report) {
  if (report->is_json) mi_jemalloc_put(report, "\n\t\t}");
}

static void mi_jemalloc_put_general(mi_jemalloc_report_t* report) {
  mi_jemalloc_begin_group(report, "opt", "");
  mi_jemalloc_visit_options(&mi_jemalloc_put_option, report);
  mi_jemalloc_end_group(report);
  mi_jemalloc_begin_group(report, "arenas", ",");
  mi_jemalloc_put_size(report, "narenas", mi_jemalloc_arenas());
  mi_jemalloc_put_size(report, "quantum", MI_COMPAT_QUANTUM);
  mi_jemalloc_put_size(report, "page", mi_jemalloc_os_page());
  mi_jemalloc_put_size(report, "nbins", mi_jemalloc_bins());
  mi_jemalloc_end_group(report);
}

static size_t mi_jemalloc_of_all(mi_jemalloc_figure_t figure) {
  return mi_jemalloc_figure(MI_JEMALLOC_ALL, figure);
}

static void mi_jemalloc_put_figures(mi_jemalloc_report_t* report) {
  mi_jemalloc_put_size(report, "allocated", mi_jemalloc_of_all(MI_JEMALLOC_ALLOCATED));
  mi_jemalloc_put_size(report, "active", mi_jemalloc_of_all(MI_JEMALLOC_ACTIVE));
  mi_jemalloc_put_size(report, "metadata", mi_jemalloc_of_all(MI_JEMALLOC_METADATA));
  mi_jemalloc_put_size(report, "resident", mi_jemalloc_of_all(MI_JEMALLOC_RESIDENT));
  mi_jemalloc_put_size(report, "mapped", mi_jemalloc_of_all(MI_JEMALLOC_MAPPED));
  mi_jemalloc_put_size(report, "retained", mi_jemalloc_of_all(MI_JEMALLOC_RETAINED));
}

static void mi_jemalloc_print_text(mi_jemalloc_report_t* report, bool is_general) {
  char line[MI_JEMALLOC_LINE_MAX];
  mi_jemalloc_put(report, "___ Begin jemalloc statistics ___\n");
  if (is_general) {
    mi_jemalloc_put(report, "Version: \"" MI_JEMALLOC_VERSION "\"\n");
    mi_jemalloc_put_general(report);
  }
  snprintf(line, sizeof(line),
           "Allocated: %zu, active: %zu, metadata: %zu (n_thp 0), resident: %zu, mapped: %zu, "
           "retained: %zu\n",
           mi_jemalloc_of_all(MI_JEMALLOC_ALLOCATED), mi_jemalloc_of_all(MI_JEMALLOC_ACTIVE),
           mi_jemalloc_of_all(MI_JEMALLOC_METADATA), mi_jemalloc_of_all(MI_JEMALLOC_RESIDENT),
           mi_jemalloc_of_all(MI_JEMALLOC_MAPPED), mi_jemalloc_of_all(MI_JEMALLOC_RETAINED));
  mi_jemalloc_put(report, line);
  mi_stats_print_out(&mi_jemalloc_put_ours, report);
  mi_jemalloc_put(report, "--- End jemalloc statistics ---\n");
}

static void mi_jemalloc_print_json(mi_jemalloc_report_t* report, bool is_general) {
  mi_jemalloc_put(report, "{\n\t\"jemalloc\": {");
  if (is_general) {
    mi_jemalloc_put(report, "\n\t\t\"version\": \"" MI_JEMALLOC_VERSION "\",");
    mi_jemalloc_put_general(report);
  }
  mi_jemalloc_begin_group(report, "stats", is_general ? "," : "");
  mi_jemalloc_put_figures(report);
  mi_jemalloc_end_group(report);
  mi_jemalloc_put(report, "\n\t}\n}\n");
}

void malloc_stats_print(void (*write)(void* arg, const char* text), void* arg, const char* opts) {
  mi_jemalloc_set_up();
  mi_jemalloc_next_epoch();
  const char* const asked = opts == NULL ? "" : opts;
  mi_jemalloc_report_t report = {write, arg, strchr(asked, 'J') != NULL, false};
  const bool is_general = strchr(asked, 'g') == NULL;
  if (report.is_json) {
    mi_jemalloc_print_json(&report, is_general);
  } else {
    mi_jemalloc_print_text(&report, is_general);
  }
}
