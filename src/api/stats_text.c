// SPDX-License-Identifier: MIT
// stats_text.c - statistics as text for people.
//
// STATS_TEXT-1  lines have at most 255 bytes: a label of 12 columns, then amounts of 12 columns, in
//     the order of the heading.
// STATS_TEXT-2  a figure that is not counted is left blank, never shown as 0 (the structure repeats
//     the current amount there).
// STATS_TEXT-3  all figures are collected before they are printed: no lock is held while text is
//     printed.
#include "stats.h"

#include "../core/core.h"

#define MI_STATS_BLANK INT64_MIN

// -- Formatting --

MI_INTERNAL void mi_stats_format(char cell[MI_STATS_CELL_MAX], int64_t amount,
                                 mi_stats_unit_t unit) {
  static const char bytes[][4] mi_attr_rare = {"KiB", "MiB", "GiB", "TiB"};
  static const char counts[][2] mi_attr_rare = {"K", "M", "G", "T"};
  const bool is_bytes = (unit == MI_STATS_BYTES);
  const uint64_t base = is_bytes ? 1024 : 1000;
  const char* const sign = amount < 0 ? "-" : "";
  uint64_t x = amount < 0 ? 0 - (uint64_t)amount : (uint64_t)amount;
  if (x < base) {
    mi_text_format(cell, MI_STATS_CELL_MAX, "%s%zu%s", sign, (size_t)x, is_bytes ? " B" : "");
    return;
  }
  size_t step = 0;
  while (x / base >= base && step < 3) {
    x /= base;
    step++;
  }
  mi_text_format(cell, MI_STATS_CELL_MAX, "%s%zu.%zu %s", sign, (size_t)(x / base),
                 (size_t)(x % base * 10 / base), is_bytes ? bytes[step] : counts[step]);
}

static void mi_stats_heading(mi_sink_t sink, const char* name) {
  mi_output_print(sink, " %-10s%12s%12s%12s%12s%12s\n", name, "peak", "total", "current", "block",
                  "total#");
}

// Print one line; `amounts` are peak, total and current.
static void mi_stats_line(mi_sink_t sink, const char* label, mi_stats_unit_t unit,
                          const int64_t amounts[3], int64_t count) {
  char line[MI_OUTPUT_LINE_MAX];
  char cell[MI_STATS_CELL_MAX];
  size_t used = mi_text_format(line, sizeof(line), "  %-10s:", label);
  for (size_t i = 0; i < 3; i++) {
    cell[0] = 0;
    if (amounts[i] != MI_STATS_BLANK) mi_stats_format(cell, amounts[i], unit);
    used += mi_text_format(line + used, sizeof(line) - used, "%12s", cell);
  }
  if (count != MI_STATS_BLANK) {
    mi_stats_format(cell, count, MI_STATS_COUNT);
    used += mi_text_format(line + used, sizeof(line) - used, "%12s%12s", "", cell);
  }
  while (line[used - 1] == ' ') used--;
  line[used] = 0;
  mi_output_print(sink, "%s\n", line);
}

static void mi_stats_line3(mi_sink_t sink, const char* label, mi_stats_unit_t unit, int64_t peak,
                           int64_t total, int64_t current) {
  const int64_t amounts[3] = {peak, total, current};
  mi_stats_line(sink, label, unit, amounts, MI_STATS_BLANK);
}

// Print a number of events: only the total.
static void mi_stats_line1(mi_sink_t sink, const char* label, mi_stats_unit_t unit, int64_t total) {
  mi_stats_line3(sink, label, unit, MI_STATS_BLANK, total, MI_STATS_BLANK);
}

// -- Sections --

// Append bytes to a line as one cell. In a bin of two sizes they are an upper bound.
static size_t mi_stats_append_bytes(char* line, size_t used, size_t bin, int64_t bytes) {
  char cell[MI_STATS_CELL_MAX];
  char most[MI_STATS_CELL_MAX] = "";
  if (bytes != MI_STATS_BLANK) {
    mi_stats_format(cell, bytes, MI_STATS_BYTES);
    mi_text_format(most, sizeof(most), "%s%s", bin > MI_BIN_OWN ? "<=" : "", cell);
  }
  return used + mi_text_format(line + used, MI_OUTPUT_LINE_MAX - used, "%12s", most);
}

// Print the blocks of one bin that are in use, with totals those that ever were, and in a build
// with a census the most that were: their bytes, the size of one, and how many are in use.
static void mi_stats_print_bin(mi_sink_t sink, const mi_stats_t* stats, size_t bin,
                               bool has_totals) {
  const mi_stat_count_t* const blocks = &stats->malloc_bins[bin];
  if (blocks->current == 0 && (!has_totals || blocks->total == 0)) return;
  const int64_t size = (int64_t)mi_stats_get_bin_size(bin);
  char label[MI_STATS_CELL_MAX];
  char count[MI_STATS_CELL_MAX];
  char line[MI_OUTPUT_LINE_MAX];
  mi_text_format(label, sizeof(label), "bin %c %4zu",
                 mi_stats_page_size(bin) == MI_SLICE_SIZE ? 'S' : 'M', bin);
  size_t used = mi_text_format(line, sizeof(line), "  %-10s:", label);
  const int64_t blank = MI_STATS_BLANK;
  used = mi_stats_append_bytes(line, used, bin, MI_HAS_CENSUS ? blocks->peak * size : blank);
  used = mi_stats_append_bytes(line, used, bin, has_totals ? blocks->total * size : blank);
  used = mi_stats_append_bytes(line, used, bin, blocks->current * size);
  mi_stats_append_bytes(line, used, bin, size);
  mi_stats_format(count, blocks->current, MI_STATS_COUNT);
  mi_output_print(sink, "%s%12s\n", line, count);
}

// `has_totals`: what was ever allocated is counted, of all heaps, or of each in a build with a
// census.
static void mi_stats_print_blocks(mi_sink_t sink, const mi_stats_t* stats, bool has_totals) {
  const int64_t blank = MI_STATS_BLANK;
  const int64_t large_count = stats->malloc_bins[MI_BIN_LAST].current;
  int64_t count = 0;
  mi_stats_heading(sink, "blocks");
  for (size_t bin = 0; bin < MI_BIN_LAST; bin++) {
    count += stats->malloc_bins[bin].current;
    mi_stats_print_bin(sink, stats, bin, has_totals);
  }
  if (count > 0) mi_output_print(sink, "\n");
  const mi_stat_count_t* const normal = &stats->malloc_normal;
  const int64_t binned[3] = {MI_HAS_CENSUS ? normal->peak : blank,
                             has_totals ? normal->total : blank, normal->current};
  mi_stats_line(sink, "binned", MI_STATS_BYTES, binned, count);
  const mi_stat_count_t* const large = &stats->malloc_huge;
  const int64_t huge[3] = {large->peak, large->total, large->current};
  mi_stats_line(sink, "huge", MI_STATS_BYTES, huge, large_count);
  const int64_t total[3] = {blank, has_totals ? normal->total + large->total : blank,
                            normal->current + large->current};
  mi_stats_line(sink, "total", MI_STATS_BYTES, total, count + large_count);
  const mi_stat_count_t* const requested = &stats->malloc_requested;
  if (MI_HAS_CENSUS) {
    mi_stats_line3(sink, "requested", MI_STATS_BYTES, requested->peak, requested->total,
                   requested->current);
  }
  mi_output_print(sink, "\n");
}

static void mi_stats_print_pages(mi_sink_t sink, const mi_stats_t* stats) {
  const int64_t blank = MI_STATS_BLANK;
  const mi_stat_count_t* const pages = &stats->pages;
  const mi_stat_count_t* const abandoned = &stats->pages_abandoned;
  mi_stats_heading(sink, "pages");
  mi_stats_line3(sink, "touched", MI_STATS_BYTES, blank, blank, stats->page_committed.current);
  mi_stats_line3(sink, "pages", MI_STATS_COUNT, pages->peak, pages->total, pages->current);
  mi_stats_line3(sink, "abandoned", MI_STATS_COUNT, blank, abandoned->total, abandoned->current);
  mi_stats_line1(sink, "reclaima", MI_STATS_COUNT, stats->pages_reclaim_on_alloc.total);
  mi_stats_line1(sink, "reclaimf", MI_STATS_COUNT, stats->pages_reclaim_on_free.total);
  mi_stats_line1(sink, "reabandon", MI_STATS_COUNT, stats->pages_reabandon_full.total);
  mi_output_print(sink, "\n");
}

static void mi_stats_print_arenas(mi_sink_t sink, const mi_stats_t* stats) {
  const int64_t blank = MI_STATS_BLANK;
  const mi_stat_count_t* const committed = &stats->committed;
  mi_stats_heading(sink, "arenas");
  mi_stats_line3(sink, "reserved", MI_STATS_BYTES, stats->reserved.peak, blank,
                 stats->reserved.current);
  mi_stats_line3(sink, "committed", MI_STATS_BYTES, committed->peak, committed->total,
                 committed->current);
  mi_stats_line1(sink, "reset", MI_STATS_BYTES, stats->reset.total);
  mi_stats_line1(sink, "purged", MI_STATS_BYTES, stats->purged.total);
  mi_stats_line1(sink, "arenas", MI_STATS_COUNT, stats->arena_count.total);
  mi_stats_line1(sink, "rollback", MI_STATS_COUNT, stats->arena_rollback_count.total);
  mi_stats_line1(sink, "mmaps", MI_STATS_COUNT, stats->mmap_calls.total);
  mi_stats_line1(sink, "commits", MI_STATS_COUNT, stats->commit_calls.total);
  mi_stats_line1(sink, "resets", MI_STATS_COUNT, stats->reset_calls.total);
  mi_stats_line1(sink, "purges", MI_STATS_COUNT, stats->purge_calls.total);
  mi_stats_line1(sink, "guarded", MI_STATS_COUNT, stats->malloc_guarded_count.total);
  mi_stats_line3(sink, "theaps", MI_STATS_COUNT, blank, stats->theaps.total, stats->theaps.current);
  mi_stats_line3(sink, "heaps", MI_STATS_COUNT, stats->heaps.peak, stats->heaps.total,
                 stats->heaps.current);
  mi_output_print(sink, "\n");
}

// -- What the process used --

static void mi_stats_format_ms(char cell[MI_STATS_CELL_MAX], size_t ms) {
  mi_text_format(cell, MI_STATS_CELL_MAX, "%zu.%zu%zu%zu s", ms / 1000, ms / 100 % 10, ms / 10 % 10,
                 ms % 10);
}

static void mi_stats_print_usage(mi_sink_t sink, const mi_stats_process_t* process) {
  char user[MI_STATS_CELL_MAX];
  char system[MI_STATS_CELL_MAX];
  char rss[MI_STATS_CELL_MAX];
  char commit[MI_STATS_CELL_MAX];
  mi_stats_format_ms(user, process->os.user_ms);
  mi_stats_format_ms(system, process->os.system_ms);
  mi_stats_format(rss, (int64_t)process->os.rss_peak, MI_STATS_BYTES);
  mi_stats_format(commit, process->commit_peak, MI_STATS_BYTES);
  mi_output_print(sink,
                  "  %-10s: user: %s, system: %s, faults: %zu, peak rss: %s, peak commit: %s\n",
                  "process", user, system, process->os.page_faults, rss, commit);
}

static void mi_stats_print_process(mi_sink_t sink, const mi_stats_t* stats) {
  const int64_t blank = MI_STATS_BLANK;
  const mi_stat_count_t* const threads = &stats->threads;
  mi_stats_process_t process;
  mi_stats_collect_process(&process);
  mi_stats_heading(sink, "process");
  mi_stats_line3(sink, "threads", MI_STATS_COUNT, threads->peak, threads->total, threads->current);
  // Our own structures serve all sub-processes.
  mi_stats_line3(sink, "metadata", MI_STATS_BYTES, blank, blank, process.metadata);
  mi_output_print(sink, "  %-10s:%12zu\n", "numa nodes", mi_numa_count());
  char elapsed[MI_STATS_CELL_MAX];
  mi_stats_format_ms(elapsed, process.os.elapsed_ms);
  mi_output_print(sink, "  %-10s:%12s\n", "elapsed", elapsed);
  mi_stats_print_usage(sink, &process);
}

// -- Reports --

static void mi_stats_print_heap(mi_sink_t sink, mi_heap_t* heap, size_t sequence) {
  mi_stats_t stats;
  mi_stats_collect_heap(heap, &stats);
  mi_output_print(sink, "heap %zu\n", sequence);
  mi_stats_print_blocks(sink, &stats, MI_HAS_CENSUS);
  mi_stats_print_pages(sink, &stats);
}

static void mi_stats_print_subproc(mi_sink_t sink, mi_subproc_t* subproc) {
  mi_stats_t stats;
  mi_stats_collect(subproc, &stats);
  mi_output_print(sink, "subproc %zu\n", subproc->sequence);
  mi_stats_print_blocks(sink, &stats, true);
  mi_stats_print_pages(sink, &stats);
  mi_stats_print_arenas(sink, &stats);
  mi_stats_print_process(sink, &stats);
}

void mi_subproc_stats_print_out(mi_subproc_id_t id, mi_output_fun* out,
                                void* arg) mi_attr_noexcept {
  mi_subproc_t* const subproc = mi_api_subproc(id);
  if (subproc != NULL) mi_stats_print_subproc(mi_output_sink(out, arg), subproc);
}

void mi_subproc_heap_stats_print_out(mi_subproc_id_t id, mi_output_fun* out,
                                     void* arg) mi_attr_noexcept {
  mi_subproc_t* const subproc = mi_api_subproc(id);
  if (subproc == NULL) return;
  const mi_sink_t sink = mi_output_sink(out, arg);
  mi_heap_cursor_t cursor = {0};
  while (mi_heap_next(subproc, &cursor)) mi_stats_print_heap(sink, cursor.heap, cursor.sequence);
  mi_stats_print_subproc(sink, subproc);
}

void mi_heap_stats_print_out(mi_heap_t* heap, mi_output_fun* out, void* arg) mi_attr_noexcept {
  if (heap == NULL) heap = mi_heap_main();
  mi_stats_print_heap(mi_output_sink(out, arg), heap, heap->sequence);
}

void mi_stats_print_out(mi_output_fun* out, void* arg) mi_attr_noexcept {
  mi_subproc_stats_print_out(mi_subproc_current(), out, arg);
}

// A thread has no figures of its own.
void mi_thread_stats_print_out(mi_output_fun* out, void* arg) mi_attr_noexcept {
  mi_stats_print_out(out, arg);
}

void mi_thread_stats_print(mi_output_fun* out) mi_attr_noexcept { mi_stats_print_out(out, NULL); }

void mi_stats_print(void* out) mi_attr_noexcept {
  (void)out;
  mi_stats_print_out(NULL, NULL);
}

void mi_process_info_print_out(mi_output_fun* out, void* arg) mi_attr_noexcept {
  mi_stats_process_t process;
  mi_stats_collect_process(&process);
  mi_stats_print_usage(mi_output_sink(out, arg), &process);
}

void mi_process_info_print(void) mi_attr_noexcept { mi_process_info_print_out(NULL, NULL); }
