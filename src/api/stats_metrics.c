// SPDX-License-Identifier: MIT
// stats_metrics.c - statistics as metrics that a monitoring system scrapes: mi_metrics.
//
//   mi_stats_collect_all, mi_stats_collect_process -> tables of metrics -> a buffer of the caller
//
// Figures are those of the reports (stats.c), summed over all sub-processes: what a monitoring
// system watches is a process. The two formats differ in the names of counters only: the text
// format of Prometheus (0.0.4) declares them with the suffix `_total` of their samples, OpenMetrics
// (1.0) without it, and ends with a line of its own.
//
// STATS_METRICS-1  nothing is allocated: a scrape changes no figure. Text that does not fit is
//     counted and not written, and leaves an empty buffer: half a text would be taken for a whole.
// STATS_METRICS-2  a name never changes its meaning, and is never reused: rules and dashboards
//     outlive the process. packaging/grafana has a dashboard of these names.
// STATS_METRICS-3  a figure that is not counted has no metric: neither those that the structure has
//     as 0, nor the totals and peaks that it repeats from another field, nor what is left of a
//     limit where there is none.
//
// Deliberately absent: heaps and sub-processes as labels (their number has no bound, and each set
// of labels is a series that is stored for years), histograms, and a server (see demo/metrics.c).
#include <stddef.h>
#include <string.h>

#include "../core/core.h"
#include "stats.h"

#define MI_METRICS_LINE_MAX 240

// What is added to the figures of the structure.
typedef struct mi_metrics_figures_s {
  mi_stats_t stats;
  int64_t metadata;
  int64_t room; // MI_BUDGET_NONE: there is no limit
  int64_t resident, resident_peak;
  int64_t page_faults;
  int64_t user_ms, system_ms;
} mi_metrics_figures_t;

typedef enum mi_metrics_kind_e { MI_METRICS_GAUGE, MI_METRICS_COUNTER } mi_metrics_kind_t;

typedef enum mi_metrics_unit_e {
  MI_METRICS_NUMBER,
  MI_METRICS_BYTES,
  MI_METRICS_MS, // told in seconds
} mi_metrics_unit_t;

typedef struct mi_metrics_row_s {
  uint16_t offset; // of the figure, an int64_t, in `mi_metrics_figures_t`; of the first of all bins
  uint8_t kind;
  uint8_t unit;
  char name[28]; // without prefix, unit and `_total`
  char help[88];
} mi_metrics_row_t;

#define MI_METRICS_ROW(figure, kind, unit, name, help)                                             \
  {                                                                                                \
    (uint16_t) offsetof(mi_metrics_figures_t, figure), MI_METRICS_##kind, MI_METRICS_##unit, name, \
        help                                                                                       \
  }

static const mi_metrics_row_t mi_metrics_rows[] mi_attr_rare = {
    MI_METRICS_ROW(stats.malloc_normal.current, GAUGE, BYTES, "binned",
                   "Blocks in use that share pages with others of their size."),
    MI_METRICS_ROW(stats.malloc_huge.current, GAUGE, BYTES, "huge",
                   "Blocks in use that have a page of their own."),
    MI_METRICS_ROW(stats.malloc_huge.peak, GAUGE, BYTES, "huge_peak",
                   "The most of blocks with a page of their own."),
    MI_METRICS_ROW(stats.page_committed.current, GAUGE, BYTES, "touched",
                   "Shared pages: blocks in use, and free ones that were handed out before."),
    MI_METRICS_ROW(stats.committed.current, GAUGE, BYTES, "committed",
                   "Memory that may be resident: not yet given back."),
    MI_METRICS_ROW(stats.committed.peak, GAUGE, BYTES, "committed_peak",
                   "The most that was committed."),
    MI_METRICS_ROW(stats.reserved.current, GAUGE, BYTES, "reserved",
                   "Address space of the arenas."),
    MI_METRICS_ROW(metadata, GAUGE, BYTES, "metadata", "Bookkeeping of the allocator."),
    MI_METRICS_ROW(room, GAUGE, BYTES, "room", "What is left of the limit of memory."),
    MI_METRICS_ROW(stats.pages.current, GAUGE, NUMBER, "pages",
                   "Runs of memory that blocks of one size share."),
    MI_METRICS_ROW(stats.pages_abandoned.current, GAUGE, NUMBER, "pages_abandoned",
                   "Pages that belong to no thread and have room for others."),
    MI_METRICS_ROW(stats.threads.current, GAUGE, NUMBER, "threads",
                   "Threads that allocated and have not ended."),
    MI_METRICS_ROW(stats.heaps.current, GAUGE, NUMBER, "heaps", "Heaps there are."),
    MI_METRICS_ROW(stats.theaps.current, GAUGE, NUMBER, "theaps",
                   "Parts of heaps that belong to threads."),
    MI_METRICS_ROW(stats.malloc_huge.total, COUNTER, BYTES, "huge_allocated",
                   "Bytes of blocks with a page of their own, ever made."),
    MI_METRICS_ROW(stats.malloc_huge_count.total, COUNTER, NUMBER, "huge_blocks_made",
                   "Blocks with a page of their own, ever made."),
    MI_METRICS_ROW(stats.malloc_guarded_count.total, COUNTER, NUMBER, "guarded_blocks_made",
                   "Blocks between guards, ever made."),
    MI_METRICS_ROW(stats.purged.total, COUNTER, BYTES, "purged",
                   "Memory given back to the system."),
    MI_METRICS_ROW(stats.reset.total, COUNTER, BYTES, "reset",
                   "Memory that the system was told it may take."),
    MI_METRICS_ROW(stats.purge_calls.total, COUNTER, NUMBER, "purge_calls",
                   "Calls that gave memory back."),
    MI_METRICS_ROW(stats.reset_calls.total, COUNTER, NUMBER, "reset_calls",
                   "Calls that let the system take memory."),
    MI_METRICS_ROW(stats.commit_calls.total, COUNTER, NUMBER, "commit_calls",
                   "Calls to make memory usable."),
    MI_METRICS_ROW(stats.mmap_calls.total, COUNTER, NUMBER, "mmap_calls", "Calls of mmap."),
    MI_METRICS_ROW(stats.arena_count.total, COUNTER, NUMBER, "arenas_made", "Arenas made."),
    MI_METRICS_ROW(stats.arena_rollback_count.total, COUNTER, NUMBER, "arena_rollbacks",
                   "Memory that was reserved, but the system refused."),
    MI_METRICS_ROW(stats.pages.total, COUNTER, NUMBER, "pages_made", "Pages made."),
    MI_METRICS_ROW(stats.pages_abandoned.total, COUNTER, NUMBER, "pages_pooled",
                   "Times that a page was given to all threads."),
    MI_METRICS_ROW(stats.pages_reclaim_on_alloc.total, COUNTER, NUMBER, "pages_taken_on_alloc",
                   "Pages that a thread took over for an allocation."),
    MI_METRICS_ROW(stats.pages_reclaim_on_free.total, COUNTER, NUMBER, "pages_taken_on_free",
                   "Pages that a thread took over by a free."),
    MI_METRICS_ROW(stats.threads.total, COUNTER, NUMBER, "threads_started",
                   "Threads that ever allocated."),
    MI_METRICS_ROW(stats.heaps.total, COUNTER, NUMBER, "heaps_made", "Heaps ever made."),
    MI_METRICS_ROW(resident, GAUGE, BYTES, "process_resident",
                   "Resident memory of the process, as the system says."),
    MI_METRICS_ROW(resident_peak, GAUGE, BYTES, "process_resident_peak",
                   "The most resident memory of the process."),
    MI_METRICS_ROW(page_faults, COUNTER, NUMBER, "process_page_faults",
                   "Page faults of the process that read from a disk."),
    MI_METRICS_ROW(user_ms, COUNTER, MS, "process_cpu_user", "Processor time of the program."),
    MI_METRICS_ROW(system_ms, COUNTER, MS, "process_cpu_system",
                   "Processor time of the system for the program."),
};

// Those with a sample for each size of blocks.
static const mi_metrics_row_t mi_metrics_sizes[] mi_attr_rare = {
    MI_METRICS_ROW(stats.malloc_bins, GAUGE, NUMBER, "class_blocks",
                   "Blocks in use by size; of two sizes, the larger is named."),
    MI_METRICS_ROW(stats.malloc_bins, GAUGE, BYTES, "class",
                   "Blocks in use by size; at most that where a label stands for two sizes."),
    MI_METRICS_ROW(stats.page_bins, GAUGE, NUMBER, "class_pages", "Pages of these blocks."),
    MI_METRICS_ROW(stats.malloc_bins, COUNTER, NUMBER, "class_blocks_allocated",
                   "Blocks ever allocated by size, with those that threads hold ready."),
    MI_METRICS_ROW(stats.malloc_bins, COUNTER, BYTES, "class_allocated",
                   "The same in bytes; at most that where a label stands for two sizes."),
};

mi_static_assert(sizeof(mi_metrics_figures_t) <= UINT16_MAX, "offsets have 16 bits");

#define MI_METRICS_ROWS (sizeof(mi_metrics_rows) / sizeof(mi_metrics_rows[0]))

// The most that was told of each counter, of the blocks of each bin that were ever allocated, and
// of the bytes of the last bin. These are too high by what other threads hold ready, and fall when
// these put it back; others fall for a moment when a thread hands in what it has counted (tally.h).
// Of a counter that falls a monitoring system says that the process began anew. Written and read by
// any thread, relaxed.
static mi_atomic(int64_t) mi_metrics_told[MI_METRICS_ROWS + MI_BIN_COUNT + 1] mi_attr_sparse;

// Short texts, which would otherwise lie among what every program reads.
static const char mi_metrics_help[] mi_attr_rare = "# HELP mimalloc_%s%s%s %s\n";
static const char mi_metrics_type[] mi_attr_rare = "# TYPE mimalloc_%s%s%s %s\n";
static const char mi_metrics_unit[] mi_attr_rare = "# UNIT mimalloc_%s%s %s\n";
static const char mi_metrics_name[] mi_attr_rare = "mimalloc_%s%s%s";
static const char mi_metrics_size[] mi_attr_rare = "{size=\"%zu\"}";
static const char mi_metrics_size_huge[] mi_attr_rare = "{size=\"huge\"}";
static const char mi_metrics_end[] mi_attr_rare = " %s\n";
static const char mi_metrics_end_ms[] mi_attr_rare = " %s.%u%u%u\n";
static const char mi_metrics_eof[] mi_attr_rare = "# EOF\n";
static const char mi_metrics_units[3][12] mi_attr_rare = {"", "_bytes", "_seconds"};
static const char mi_metrics_kinds[2][8] mi_attr_rare = {"gauge", "counter"};
static const char mi_metrics_totals[2][8] mi_attr_rare = {"", "_total"};

// -- Writing --

typedef struct mi_metrics_text_s {
  char* text;
  size_t capacity;
  size_t used; // what was written and what found no room, without the terminating zero
  mi_metrics_format_t format;
} mi_metrics_text_t;

// Append a text of at most a line.
static mi_attr_printf(2, 3) void mi_metrics_put(mi_metrics_text_t* out, const char* format, ...) {
  char line[MI_METRICS_LINE_MAX];
  va_list args;
  va_start(args, format);
  const size_t length = mi_text_vformat(line, sizeof(line), format, args);
  va_end(args);
  if (out->used + length < out->capacity) memcpy(out->text + out->used, line, length + 1);
  out->used += length;
}

// Append a value and the end of the line. Figures may be read while they change, and then be less
// than nothing for a moment.
static void mi_metrics_value(mi_metrics_text_t* out, int64_t figure, mi_metrics_unit_t unit) {
  const uint64_t value = figure > 0 ? (uint64_t)figure : 0;
  const uint64_t whole = unit == MI_METRICS_MS ? value / 1000 : value;
  char digits[24]; // 64 bits, also where a size_t has fewer
  char* p = digits + sizeof(digits) - 1;
  *p = 0;
  uint64_t rest = whole;
  do {
    *--p = (char)('0' + rest % 10);
    rest /= 10;
  } while (rest != 0);
  if (unit != MI_METRICS_MS) {
    mi_metrics_put(out, mi_metrics_end, p);
    return;
  }
  const unsigned ms = (unsigned)(value % 1000);
  mi_metrics_put(out, mi_metrics_end_ms, p, ms / 100, ms / 10 % 10, ms % 10);
}

static void mi_metrics_head(mi_metrics_text_t* out, const mi_metrics_row_t* row) {
  const char* const unit = mi_metrics_units[row->unit];
  const bool has_total = row->kind == MI_METRICS_COUNTER && out->format == mi_metrics_prometheus;
  const char* const total = mi_metrics_totals[has_total];
  mi_metrics_put(out, mi_metrics_help, row->name, unit, total, row->help);
  mi_metrics_put(out, mi_metrics_type, row->name, unit, total, mi_metrics_kinds[row->kind]);
  if (out->format == mi_metrics_openmetrics && unit[0] != 0) {
    mi_metrics_put(out, mi_metrics_unit, row->name, unit, unit + 1);
  }
}

static int64_t mi_metrics_figure(const mi_metrics_figures_t* figures, size_t offset) {
  int64_t figure;
  memcpy(&figure, (const char*)figures + offset, sizeof(figure));
  return figure;
}

static void mi_metrics_one(mi_metrics_text_t* out, const mi_metrics_row_t* row,
                           const mi_metrics_figures_t* figures) {
  const int64_t figure = mi_metrics_figure(figures, row->offset);
  if (figure == MI_BUDGET_NONE) return;
  mi_metrics_head(out, row);
  mi_metrics_put(out, mi_metrics_name, row->name, mi_metrics_units[row->unit],
                 mi_metrics_totals[row->kind]);
  mi_metrics_value(out, figure, (mi_metrics_unit_t)row->unit);
}

// Print a sample for each size that has pages, or had some if it is about what was ever allocated.
// Blocks with a page of their own differ in size: their bytes are known as a sum.
static void mi_metrics_by_size(mi_metrics_text_t* out, const mi_metrics_row_t* row,
                               const mi_metrics_figures_t* figures) {
  const size_t field = row->kind == MI_METRICS_COUNTER ? offsetof(mi_stat_count_t, total)
                                                       : offsetof(mi_stat_count_t, current);
  mi_metrics_head(out, row);
  for (size_t bin = 1; bin <= MI_BIN_LAST; bin++) {
    const size_t offset = bin * sizeof(mi_stat_count_t) + field;
    const size_t pages = offsetof(mi_metrics_figures_t, stats.page_bins);
    if (mi_metrics_figure(figures, pages + offset) <= 0) continue;
    int64_t figure = mi_metrics_figure(figures, row->offset + offset);
    mi_metrics_put(out, mi_metrics_name, row->name, mi_metrics_units[row->unit],
                   mi_metrics_totals[row->kind]);
    if (bin == MI_BIN_LAST) {
      const size_t huge = offsetof(mi_metrics_figures_t, stats.malloc_huge);
      mi_metrics_put(out, mi_metrics_size_huge);
      if (row->unit == MI_METRICS_BYTES) figure = mi_metrics_figure(figures, huge + field);
    } else {
      const size_t size = mi_stats_get_bin_size(bin);
      mi_metrics_put(out, mi_metrics_size, size);
      if (row->unit == MI_METRICS_BYTES) figure *= (int64_t)size;
    }
    mi_metrics_value(out, figure, MI_METRICS_NUMBER);
  }
}

static void mi_metrics_build(mi_metrics_text_t* out) {
  const int version = MI_MALLOC_VERSION;
  mi_metrics_put(out, "# HELP mimalloc_build_info Which allocator this is; the value is 1.\n"
                      "# TYPE mimalloc_build_info gauge\n");
  mi_metrics_put(out, "mimalloc_build_info{version=\"%d.%d.%d\",debug=\"%d\",secure=\"%d\"} 1\n",
                 version / 10000, version / 100 % 100, version % 100, MI_DEBUG, MI_SECURE_LEVEL);
}

// Let no counter be less than it was.
static void mi_metrics_raise(mi_metrics_figures_t* figures) {
  for (size_t i = 0; i < MI_METRICS_ROWS; i++) {
    const mi_metrics_row_t* const row = &mi_metrics_rows[i];
    if (row->kind != MI_METRICS_COUNTER) continue;
    int64_t figure = mi_metrics_figure(figures, row->offset);
    figure = mi_count_raise(&mi_metrics_told[i], figure);
    memcpy((char*)figures + row->offset, &figure, sizeof(figure));
  }
  for (size_t bin = 0; bin < MI_BIN_COUNT; bin++) {
    int64_t* const total = &figures->stats.malloc_bins[bin].total;
    *total = mi_count_raise(&mi_metrics_told[MI_METRICS_ROWS + bin], *total);
  }
  int64_t* const huge = &figures->stats.malloc_huge.total;
  *huge = mi_count_raise(&mi_metrics_told[MI_METRICS_ROWS + MI_BIN_COUNT], *huge);
}

static void mi_metrics_collect(mi_metrics_figures_t* figures) {
  mi_stats_process_t process;
  mi_stats_collect_process(&process);
  mi_stats_collect_all(&figures->stats);
  // Our own structures serve all sub-processes.
  figures->metadata = process.metadata;
  figures->room = mi_budget_left(&mi_state.main);
  figures->resident = (int64_t)process.os.rss;
  figures->resident_peak = (int64_t)process.os.rss_peak;
  figures->page_faults = (int64_t)process.os.page_faults;
  figures->user_ms = (int64_t)process.os.user_ms;
  figures->system_ms = (int64_t)process.os.system_ms;
  mi_metrics_raise(figures);
}

size_t mi_metrics(mi_metrics_format_t format, char* buffer, size_t size) mi_attr_noexcept {
  if (buffer == NULL) size = 0;
  if (size > 0) buffer[0] = 0;
  if (format != mi_metrics_prometheus && format != mi_metrics_openmetrics) return 0;
  mi_metrics_figures_t figures;
  mi_metrics_collect(&figures);
  mi_metrics_text_t out = {.text = buffer, .capacity = size, .format = format};
  mi_metrics_build(&out);
  for (size_t i = 0; i < MI_METRICS_ROWS; i++) {
    mi_metrics_one(&out, &mi_metrics_rows[i], &figures);
  }
  for (size_t i = 0; i < sizeof(mi_metrics_sizes) / sizeof(mi_metrics_sizes[0]); i++) {
    mi_metrics_by_size(&out, &mi_metrics_sizes[i], &figures);
  }
  if (format == mi_metrics_openmetrics) mi_metrics_put(&out, mi_metrics_eof);
  if (out.used >= size && size > 0) buffer[0] = 0; // STATS_METRICS-1
  return out.used;
}
