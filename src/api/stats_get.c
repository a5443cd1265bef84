// SPDX-License-Identifier: MIT
// stats_get.c - statistics as a structure and as JSON (mimalloc-stats.h).
//
//   counters of the core, a walk over its pages -> mi_stats_t -> JSON
//
// G1  a text that does not fit is no text: the result is NULL, never half an object.
// G2  a bin holds the blocks of one of our size classes, or of two: there are more classes than
//     bins.
// Deliberately absent: text for people (stats.c).
#include <string.h>

#include "api.h"
#include "mimalloc-stats.h"
#include "../core/sizeclass.h"

#define MI_JSON_START (12 * MI_KIB)
// Classes that have a bin of their own; the larger ones share one in pairs (G2).
#define MI_BIN_OWN ((size_t)39)
#define MI_BIN_LAST ((size_t)MI_BIN_COUNT - 1)

static size_t mi_bin_of_class(size_t size_class) {
  if (size_class < MI_BIN_OWN) return size_class + 1;
  return MI_BIN_OWN + 1 + (size_class - MI_BIN_OWN) / 2;
}
mi_static_assert(MI_BIN_OWN + 1 + (MI_CLASS_COUNT - 1 - MI_BIN_OWN) / 2 < MI_BIN_LAST,
                 "the last bin is for blocks without a class");

mi_static_assert((MI_CLASS_COUNT - MI_BIN_OWN) % 2 == 0, "every pair has two classes");

// The largest class of a bin, or MI_CLASS_COUNT.
static size_t mi_bin_class(size_t bin) {
  const size_t c = bin <= MI_BIN_OWN ? bin - 1 : MI_BIN_OWN + (bin - MI_BIN_OWN - 1) * 2 + 1;
  return mi_bits_min(c, MI_CLASS_COUNT);
}

size_t mi_stats_get_bin_size(size_t bin) mi_attr_noexcept {
  if (bin == 0) return mi_class_size(0); // no block is there
  if (bin == MI_BIN_LAST) return MI_CLASS_MAX + sizeof(void*); // and larger
  const size_t c = bin < MI_BIN_LAST ? mi_bin_class(bin) : MI_CLASS_COUNT;
  return c == MI_CLASS_COUNT ? 0 : mi_class_size(c);
}

static size_t mi_bin_page_size(size_t bin) {
  if (bin == 0 || bin == MI_BIN_LAST) return 0;
  const size_t c = mi_bin_class(bin);
  return c == MI_CLASS_COUNT ? 0 : mi_class_slices(c) * MI_SLICE_SIZE;
}

// -- The structure --

// A peak is at least what is there now: both are read while they change.
static mi_stat_count_t mi_stats_count(int64_t total, int64_t peak, int64_t current) {
  const int64_t least = peak > current ? peak : current;
  return (mi_stat_count_t){
      .total = total > least ? total : least, .peak = least, .current = current};
}

static mi_stat_count_t mi_stats_now(int64_t current) { return mi_stats_count(0, 0, current); }

static void mi_stats_fill_bins(mi_stats_t* stats, const mi_usage_t* usage) {
  for (size_t c = 0; c < MI_CLASS_COUNT; c++) {
    const size_t bin = mi_bin_of_class(c);
    stats->malloc_bins[bin].current += (int64_t)usage->class_blocks[c];
    stats->page_bins[bin].current += (int64_t)usage->class_pages[c];
  }
  stats->malloc_bins[MI_BIN_LAST].current = (int64_t)usage->large_blocks;
  stats->page_bins[MI_BIN_LAST].current = (int64_t)usage->large_blocks;
  for (size_t bin = 0; bin < MI_BIN_COUNT; bin++) {
    stats->malloc_bins[bin] = mi_stats_now(stats->malloc_bins[bin].current);
    stats->page_bins[bin] = mi_stats_now(stats->page_bins[bin].current);
  }
}

static void mi_stats_fill(mi_stats_t* stats) {
  mi_usage_t usage;
  mi_usage_measure(&mi_state.main, NULL, &usage);
  mi_counters_t* const count = &mi_state.main.count;
#define NOW(name) mi_atomic_load_relaxed(&count->name)
  stats->pages = mi_stats_count(NOW(pages_total), NOW(pages_peak), NOW(pages));
  stats->reserved = mi_stats_count(0, NOW(reserved_peak), NOW(reserved));
  stats->committed =
      mi_stats_count(NOW(committed) + NOW(purged), NOW(committed_peak), NOW(committed));
  stats->purged.total = NOW(purged);
  stats->page_committed = mi_stats_now((int64_t)usage.in_pages);
  stats->pages_abandoned = mi_stats_count(NOW(abandoned_total), 0, NOW(abandoned));
  stats->threads = mi_stats_count(NOW(threads_total), NOW(threads_peak), NOW(threads));
  stats->theaps = stats->threads;
  stats->heaps = mi_stats_now(1);
  stats->malloc_normal = mi_stats_now((int64_t)usage.in_use);
  stats->malloc_huge = mi_stats_count(NOW(large_total), NOW(large_peak), NOW(large));
  stats->mmap_calls.total = NOW(mmap_calls);
  stats->commit_calls.total = NOW(commit_calls);
  stats->reset_calls.total = NOW(reset_calls);
  stats->purge_calls.total = NOW(purge_calls);
  stats->arena_purges.total = NOW(purge_calls);
  stats->arena_count.total = NOW(arenas);
  stats->pages_reclaim_on_alloc.total = NOW(adopted);
#undef NOW
  mi_stats_fill_bins(stats, &usage);
}

static bool mi_stats_is_prepared(const mi_stats_t* stats) {
  return stats != NULL && stats->size == sizeof(*stats) && stats->version == MI_STAT_VERSION;
}

bool mi_stats_get(mi_stats_t* stats) mi_attr_noexcept {
  if (!mi_stats_is_prepared(stats)) return false;
  mi_process_setup();
  mi_stats_init(stats);
  mi_stats_fill(stats);
  return true;
}

// -- JSON --

typedef struct mi_json_s {
  char* text;
  size_t capacity;
  size_t used; // without the terminating zero
  bool is_ours; // may grow
  bool is_cut; // did not fit, and cannot grow
} mi_json_t;

static bool mi_json_grow(mi_json_t* json) {
  char* const text = json->is_ours ? (char*)mi_realloc(json->text, 2 * json->capacity) : NULL;
  if (text == NULL) return false;
  json->text = text;
  json->capacity *= 2;
  return true;
}

// At most a line.
static mi_attr_printf(2, 3) void mi_json_put(mi_json_t* json, const char* format, ...) {
  char line[MI_OUTPUT_LINE_MAX];
  va_list args;
  va_start(args, format);
  const size_t length = mi_text_vformat(line, sizeof(line), format, args);
  va_end(args);
  if (json->is_cut) return;
  if (json->used + length >= json->capacity && !mi_json_grow(json)) {
    json->is_cut = true;
    return;
  }
  memcpy(json->text + json->used, line, length + 1);
  json->used += length;
}

static void mi_json_count(mi_json_t* json, const char* name, const mi_stat_count_t* count) {
  mi_json_put(json, "  \"%s\": { \"total\": %zd, \"peak\": %zd, \"current\": %zd },\n", name,
              (ptrdiff_t)count->total, (ptrdiff_t)count->peak, (ptrdiff_t)count->current);
}

static void mi_json_counter(mi_json_t* json, const char* name, const mi_stat_counter_t* counter) {
  mi_json_put(json, "  \"%s\": %zd,\n", name, (ptrdiff_t)counter->total);
}

static void mi_json_process(mi_json_t* json) {
  mi_os_usage_t usage;
  mi_os_usage(&usage);
  mi_json_put(json, "  \"process\": {\n    \"elapsed_msecs\": %zu,\n    \"user_msecs\": %zu,\n",
              usage.elapsed_ms, usage.user_ms);
  mi_json_put(json, "    \"system_msecs\": %zu,\n    \"page_faults\": %zu,\n", usage.system_ms,
              usage.page_faults);
  mi_json_put(json, "    \"rss_current\": %zu,\n    \"rss_peak\": %zu,\n", usage.rss,
              usage.rss_peak);
  mi_json_put(json, "    \"commit_current\": %zd,\n    \"commit_peak\": %zd\n  },\n",
              (ptrdiff_t)mi_atomic_load_relaxed(&mi_state.main.count.committed),
              (ptrdiff_t)mi_atomic_load_relaxed(&mi_state.main.count.committed_peak));
}

static void mi_json_bin(mi_json_t* json, const mi_stat_count_t* count) {
  mi_json_put(json, "    { \"total\": %zd, \"peak\": %zd, \"current\": %zd, ",
              (ptrdiff_t)count->total, (ptrdiff_t)count->peak, (ptrdiff_t)count->current);
}

static void mi_json_bins(mi_json_t* json, const char* name, const mi_stat_count_t* bins) {
  mi_json_put(json, "  \"%s\": [\n", name);
  for (size_t bin = 0; bin < MI_BIN_COUNT; bin++) {
    mi_json_bin(json, &bins[bin]);
    mi_json_put(json, "\"block_size\": %zu, \"page_size\": %zu }%s\n", mi_stats_get_bin_size(bin),
                mi_bin_page_size(bin), bin < MI_BIN_LAST ? "," : "");
  }
  mi_json_put(json, "  ],\n");
}

static void mi_json_chunk_bins(mi_json_t* json, const mi_stat_count_t* bins) {
  static const char letters[] = "SXMLH ";
  mi_json_put(json, "  \"chunk_bins\": [\n");
  for (size_t bin = 0; bin < MI_CBIN_COUNT; bin++) {
    mi_json_bin(json, &bins[bin]);
    mi_json_put(json, "\"bin\": \"%c\" }%s\n", letters[bin], bin + 1 < MI_CBIN_COUNT ? "," : "");
  }
  mi_json_put(json, "  ]\n}\n");
}

static void mi_json_stats(mi_json_t* json, const mi_stats_t* stats) {
  mi_json_put(json, "{\n  \"stat_version\": %d,\n  \"mimalloc_version\": %d,\n", MI_STAT_VERSION,
              MI_MALLOC_VERSION);
  mi_json_process(json);
#define MI_STAT_COUNT(field) mi_json_count(json, #field, &stats->field);
#define MI_STAT_COUNTER(field) mi_json_counter(json, #field, &stats->field);
  MI_STAT_FIELDS()
#undef MI_STAT_COUNT
#undef MI_STAT_COUNTER
  mi_json_bins(json, "malloc_bins", stats->malloc_bins);
  mi_json_bins(json, "page_bins", stats->page_bins);
  mi_json_chunk_bins(json, stats->chunk_bins);
}

char* mi_stats_as_json(mi_stats_t* stats, size_t buf_size, char* buf) mi_attr_noexcept {
  if (!mi_stats_is_prepared(stats)) return NULL;
  mi_process_setup();
  mi_json_t json = {.text = buf, .capacity = buf_size};
  if (buf == NULL || buf_size == 0) {
    json = (mi_json_t){.text = (char*)mi_malloc(MI_JSON_START), .capacity = MI_JSON_START};
    if (json.text == NULL) return NULL;
    json.is_ours = true;
  }
  mi_json_stats(&json, stats);
  if (!json.is_cut) return json.text;
  if (json.is_ours) {
    mi_free(json.text);
  } else {
    buf[0] = 0;
  }
  return NULL;
}

char* mi_stats_get_json(size_t buf_size, char* buf) mi_attr_noexcept {
  mi_stats_t_decl(stats);
  mi_stats_get(&stats);
  return mi_stats_as_json(&stats, buf_size, buf);
}
