// SPDX-License-Identifier: MIT
// stats.c - statistics as text for people, and what the process used.
//
// The figures are kept by the slow paths of the core (`mi_counters_t` in core/state.h) and by the
// kernel, or measured by a walk when they are asked for (`mi_usage_measure`): the fast paths
// count nothing. All are for the whole process, so there is nothing to merge or to reset per
// thread.
//
// S1  lines have at most 255 bytes: a label of 12 columns, then amounts of 12 columns, in the
//     order of the heading.
// S2  a figure nobody counts is left blank, never shown as 0. Deliberately absent: the structure
//     and JSON forms (stats_get.c).
#include "api.h"

// One amount as text: bytes in binary units, counts in decimal ones.
#define MI_STATS_CELL_MAX 24
#define MI_STATS_BLANK INT64_MIN

typedef enum mi_stats_unit_e { MI_STATS_BYTES, MI_STATS_COUNT } mi_stats_unit_t;

// -- Formatting --

static void mi_stats_format(char cell[MI_STATS_CELL_MAX], int64_t amount, mi_stats_unit_t unit) {
  static const char* const bytes[] = {"KiB", "MiB", "GiB", "TiB"};
  static const char* const counts[] = {"K", "M", "G", "T"};
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

// One line; `amounts` are peak, total and current.
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

// A number of events: the total only.
static void mi_stats_line1(mi_sink_t sink, const char* label, mi_stats_unit_t unit, int64_t total) {
  mi_stats_line3(sink, label, unit, MI_STATS_BLANK, total, MI_STATS_BLANK);
}

// -- Sections --

static int64_t mi_stats_load(mi_atomic(int64_t) * counter) {
  return mi_atomic_load_relaxed(counter);
}

static void mi_stats_print_blocks(mi_sink_t sink) {
  mi_counters_t* const count = &mi_state.main.count;
  mi_snapshot_t now;
  mi_stats_snapshot(&now);
  const int64_t blank = MI_STATS_BLANK;
  mi_stats_heading(sink, "blocks");
  const int64_t binned[3] = {blank, blank, (int64_t)now.in_use};
  mi_stats_line(sink, "binned", MI_STATS_BYTES, binned, (int64_t)now.in_use_blocks);
  const int64_t huge[3] = {(int64_t)now.large_peak, mi_stats_load(&count->large_total),
                           (int64_t)now.large};
  mi_stats_line(sink, "huge", MI_STATS_BYTES, huge, (int64_t)now.large_blocks);
  const int64_t total[3] = {blank, blank, (int64_t)(now.in_use + now.large)};
  mi_stats_line(sink, "total", MI_STATS_BYTES, total,
                (int64_t)(now.in_use_blocks + now.large_blocks));
  mi_stats_line3(sink, "in pages", MI_STATS_BYTES, blank, blank, (int64_t)now.in_pages);
  mi_output_print(sink, "\n");
}

static void mi_stats_print_pages(mi_sink_t sink) {
  mi_counters_t* const count = &mi_state.main.count;
  mi_stats_heading(sink, "pages");
  mi_stats_line3(sink, "pages", MI_STATS_COUNT, mi_stats_load(&count->pages_peak),
                 mi_stats_load(&count->pages_total), mi_stats_load(&count->pages));
  mi_stats_line3(sink, "abandoned", MI_STATS_COUNT, MI_STATS_BLANK,
                 mi_stats_load(&count->abandoned_total), mi_stats_load(&count->abandoned));
  mi_stats_line1(sink, "reclaima", MI_STATS_COUNT, mi_stats_load(&count->adopted));
  mi_output_print(sink, "\n");
}

static void mi_stats_print_arenas(mi_sink_t sink) {
  mi_counters_t* const count = &mi_state.main.count;
  mi_stats_heading(sink, "arenas");
  mi_stats_line3(sink, "reserved", MI_STATS_BYTES, mi_stats_load(&count->reserved_peak),
                 MI_STATS_BLANK, mi_stats_load(&count->reserved));
  mi_stats_line3(sink, "committed", MI_STATS_BYTES, mi_stats_load(&count->committed_peak),
                 MI_STATS_BLANK, mi_stats_load(&count->committed));
  mi_stats_line1(sink, "purged", MI_STATS_BYTES, mi_stats_load(&count->purged));
  mi_stats_line3(sink, "metadata", MI_STATS_BYTES, MI_STATS_BLANK, MI_STATS_BLANK,
                 mi_stats_load(&count->meta));
  mi_stats_line1(sink, "arenas", MI_STATS_COUNT, mi_stats_load(&count->arenas));
  mi_stats_line1(sink, "mmaps", MI_STATS_COUNT, mi_stats_load(&count->mmap_calls));
  mi_stats_line1(sink, "commits", MI_STATS_COUNT, mi_stats_load(&count->commit_calls));
  mi_stats_line1(sink, "resets", MI_STATS_COUNT, mi_stats_load(&count->reset_calls));
  mi_stats_line1(sink, "purges", MI_STATS_COUNT, mi_stats_load(&count->purge_calls));
  mi_output_print(sink, "\n");
}

// -- What the process used --

static void mi_stats_format_ms(char cell[MI_STATS_CELL_MAX], size_t ms) {
  mi_text_format(cell, MI_STATS_CELL_MAX, "%zu.%zu%zu%zu s", ms / 1000, ms / 100 % 10, ms / 10 % 10,
                 ms % 10);
}

static void mi_stats_print_process(mi_sink_t sink) {
  mi_os_usage_t usage;
  mi_os_usage(&usage);
  char user[MI_STATS_CELL_MAX];
  char system[MI_STATS_CELL_MAX];
  char rss[MI_STATS_CELL_MAX];
  char commit[MI_STATS_CELL_MAX];
  mi_stats_format_ms(user, usage.user_ms);
  mi_stats_format_ms(system, usage.system_ms);
  mi_stats_format(rss, (int64_t)usage.rss_peak, MI_STATS_BYTES);
  mi_stats_format(commit, mi_stats_load(&mi_state.main.count.committed_peak), MI_STATS_BYTES);
  mi_output_print(sink,
                  "  %-10s: user: %s, system: %s, faults: %zu, peak rss: %s, peak commit: %s\n",
                  "process", user, system, usage.page_faults, rss, commit);
}

static void mi_stats_print_all(mi_sink_t sink) {
  mi_counters_t* const count = &mi_state.main.count;
  mi_output_print(sink, "subproc 0\n");
  mi_stats_print_blocks(sink);
  mi_stats_print_pages(sink);
  mi_stats_print_arenas(sink);
  mi_stats_heading(sink, "process");
  mi_stats_line3(sink, "threads", MI_STATS_COUNT, mi_stats_load(&count->threads_peak),
                 mi_stats_load(&count->threads_total), mi_stats_load(&count->threads));
  mi_output_print(sink, "  %-10s:%12zu\n", "numa nodes", mi_os_numa_nodes());
  mi_os_usage_t usage;
  char elapsed[MI_STATS_CELL_MAX];
  mi_os_usage(&usage);
  mi_stats_format_ms(elapsed, usage.elapsed_ms);
  mi_output_print(sink, "  %-10s:%12s\n", "elapsed", elapsed);
  mi_stats_print_process(sink);
}

MI_INTERNAL void mi_stats_snapshot(mi_snapshot_t* snapshot) {
  mi_process_setup();
  mi_usage_t usage = {0};
  mi_usage_measure(&mi_state.main, NULL, &usage);
  mi_counters_t* const count = &mi_state.main.count;
  snapshot->in_use = usage.in_use;
  snapshot->in_use_blocks = usage.in_use_blocks;
  snapshot->in_pages = usage.in_pages;
  snapshot->large = (size_t)mi_stats_load(&count->large);
  snapshot->large_peak = (size_t)mi_stats_load(&count->large_peak);
  snapshot->large_blocks = (size_t)mi_stats_load(&count->large_count);
  snapshot->committed = (size_t)mi_stats_load(&count->committed);
  snapshot->committed_peak = (size_t)mi_stats_load(&count->committed_peak);
  snapshot->reserved = (size_t)mi_stats_load(&count->reserved);
}

// -- Public functions --

void mi_stats_print_out(mi_output_fun* out, void* arg) mi_attr_noexcept {
  mi_process_setup();
  mi_stats_print_all(mi_output_sink(out, arg));
}

void mi_thread_stats_print_out(mi_output_fun* out, void* arg) mi_attr_noexcept {
  mi_stats_print_out(out, arg);
}

void mi_stats_print(void* out) mi_attr_noexcept {
  (void)out;
  mi_stats_print_out(NULL, NULL);
}

void mi_stats_reset(void) mi_attr_noexcept {}

void mi_stats_merge(void) mi_attr_noexcept {}

void mi_process_info_print_out(mi_output_fun* out, void* arg) mi_attr_noexcept {
  mi_process_setup();
  mi_stats_print_process(mi_output_sink(out, arg));
}

void mi_process_info_print(void) mi_attr_noexcept { mi_process_info_print_out(NULL, NULL); }

static void mi_stats_put(size_t* result, size_t value) {
  if (result != NULL) *result = value;
}

void mi_process_info(size_t* elapsed_msecs, size_t* user_msecs, size_t* system_msecs,
                     size_t* current_rss, size_t* peak_rss, size_t* current_commit,
                     size_t* peak_commit, size_t* page_faults) mi_attr_noexcept {
  mi_process_setup();
  mi_os_usage_t usage;
  mi_os_usage(&usage);
  mi_stats_put(elapsed_msecs, usage.elapsed_ms);
  mi_stats_put(user_msecs, usage.user_ms);
  mi_stats_put(system_msecs, usage.system_ms);
  mi_stats_put(current_rss, usage.rss);
  mi_stats_put(peak_rss, usage.rss_peak);
  mi_stats_put(current_commit, (size_t)mi_stats_load(&mi_state.main.count.committed));
  mi_stats_put(peak_commit, (size_t)mi_stats_load(&mi_state.main.count.committed_peak));
  mi_stats_put(page_faults, usage.page_faults);
}
