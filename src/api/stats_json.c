// SPDX-License-Identifier: MIT
// stats_json.c - statistics as JSON: one object (RFC 8259), whose keys are the fields of
// mi_stats_t.
//
// STATS_JSON-1  if the text does not fit, the result is NULL, never half an object.
#include <string.h>

#include "stats.h"

#define MI_JSON_START (12 * MI_KIB)

typedef struct mi_json_s {
  char* text;
  size_t capacity;
  size_t used; // without the terminating zero
  bool is_ours; // the buffer may grow
  bool is_cut; // the text did not fit, and the buffer cannot grow
} mi_json_t;

static bool mi_json_grow(mi_json_t* json) {
  char* const text = json->is_ours ? (char*)mi_realloc(json->text, 2 * json->capacity) : NULL;
  if (text == NULL) return false;
  json->text = text;
  json->capacity *= 2;
  return true;
}

// Append a text of at most a line.
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
  mi_json_put(json, "  \"%s\": { \"total\": %lld, \"peak\": %lld, \"current\": %lld },\n", name,
              (long long)count->total, (long long)count->peak, (long long)count->current);
}

static void mi_json_counter(mi_json_t* json, const char* name, const mi_stat_counter_t* counter) {
  mi_json_put(json, "  \"%s\": %lld,\n", name, (long long)counter->total);
}

static void mi_json_process(mi_json_t* json) {
  mi_stats_process_t process;
  mi_stats_collect_process(&process);
  mi_json_put(json, "  \"process\": {\n    \"elapsed_msecs\": %zu,\n    \"user_msecs\": %zu,\n",
              process.os.elapsed_ms, process.os.user_ms);
  mi_json_put(json, "    \"system_msecs\": %zu,\n    \"page_faults\": %zu,\n", process.os.system_ms,
              process.os.page_faults);
  mi_json_put(json, "    \"rss_current\": %zu,\n    \"rss_peak\": %zu,\n", process.os.rss,
              process.os.rss_peak);
  mi_json_put(json, "    \"commit_current\": %lld,\n    \"commit_peak\": %lld\n  },\n",
              (long long)process.commit, (long long)process.commit_peak);
}

static void mi_json_bin(mi_json_t* json, const mi_stat_count_t* count) {
  mi_json_put(json, "    { \"total\": %lld, \"peak\": %lld, \"current\": %lld, ",
              (long long)count->total, (long long)count->peak, (long long)count->current);
}

static void mi_json_bins(mi_json_t* json, const char* name, const mi_stat_count_t* bins) {
  mi_json_put(json, "  \"%s\": [\n", name);
  for (size_t bin = 0; bin < MI_BIN_COUNT; bin++) {
    mi_json_bin(json, &bins[bin]);
    mi_json_put(json, "\"block_size\": %zu, \"page_size\": %zu }%s\n", mi_stats_get_bin_size(bin),
                mi_stats_page_size(bin), bin < MI_BIN_LAST ? "," : "");
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
  return mi_subproc_stats_get_json(mi_subproc_current(), buf_size, buf);
}

char* mi_subproc_stats_get_json(mi_subproc_id_t id, size_t buf_size, char* buf) mi_attr_noexcept {
  mi_stats_t_decl(stats);
  return mi_subproc_stats_get(id, &stats) ? mi_stats_as_json(&stats, buf_size, buf) : NULL;
}

char* mi_heap_stats_get_json(mi_heap_t* heap, size_t buf_size, char* buf) mi_attr_noexcept {
  mi_stats_t_decl(stats);
  return mi_heap_stats_get(heap, &stats) ? mi_stats_as_json(&stats, buf_size, buf) : NULL;
}
