// SPDX-License-Identifier: MIT
// stats.c - fuzz target: statistics as JSON and as text, of figures and into buffers of every
// size: nothing is written behind the end, a text that does not fit is none, and every text is
// well formed.
#include <stdlib.h>
#include <stdio.h>
#include <string.h>

#include "core/core.h"
#include "fuzz.h"
#include "mimalloc-stats.h"
#include "mimalloc.h"
#include "os_fake.h"

// -- A reader of JSON (RFC 8259), as far as we write it: no escapes in strings, whole numbers --

static const char* skip(const char* s) {
  while (*s == ' ' || *s == '\n') s++;
  return s;
}

static const char* read_value(const char* s);

static const char* read_string(const char* s) {
  CHECK(*s == '"');
  for (s++; *s != '"'; s++) CHECK((unsigned char)*s >= ' ' && *s != '\\');
  return s + 1;
}

// Behind the opening bracket; `is_object`: with keys.
static const char* read_members(const char* s, char close, bool is_object) {
  while (true) {
    s = skip(s);
    if (is_object) {
      s = skip(read_string(s));
      CHECK(*s == ':');
      s++;
    }
    s = skip(read_value(s));
    if (*s == close) return s + 1;
    CHECK(*s == ',');
    s++;
  }
}

static const char* read_value(const char* s) {
  s = skip(s);
  if (*s == '{') return read_members(s + 1, '}', true);
  if (*s == '[') return read_members(s + 1, ']', false);
  if (*s == '"') return read_string(s);
  if (*s == '-') s++;
  CHECK(*s >= '0' && *s <= '9');
  CHECK(*s != '0' || s[1] < '0' || s[1] > '9');
  while (*s >= '0' && *s <= '9') s++;
  return s;
}

// -- Targets --

static void draw_stats(fuzz_input_t* in, mi_stats_t* stats) {
  mi_stats_init(stats);
  // Any bytes are figures: the first fields, and all the others the same.
  const int64_t all = (int64_t)fuzz_size(in, 64);
  int64_t* const figures = (int64_t*)(void*)stats;
  for (size_t i = 2; i < sizeof(*stats) / sizeof(*figures); i++) {
    figures[i] = i < 12 ? (int64_t)fuzz_size(in, 64) : (i % 3 == 0 ? all : -all);
  }
}

static const char* behind_process(const char* text) {
  const char* const process = strstr(text, "\"process\": {");
  CHECK(process != NULL);
  return strchr(process, '}');
}

static void check_json(fuzz_input_t* in) {
  mi_stats_t stats;
  draw_stats(in, &stats);
  char* const whole = mi_stats_as_json(&stats, 0, NULL);
  CHECK(whole != NULL);
  const size_t length = strlen(whole);
  CHECK(*skip(read_value(whole)) == 0);
  char total[64];
  snprintf(total, sizeof(total), "\"pages\": { \"total\": %lld,", (long long)stats.pages.total);
  CHECK(strstr(whole, total) != NULL);
  // Around the length that is needed, or anywhere.
  const size_t capacity =
      fuzz_below(in, 2) == 0 ? length - 3 + fuzz_below(in, 8) : 1 + fuzz_below(in, length + 100);
  char* const buffer = (char*)malloc(capacity); // the sanitizer knows where it ends
  char* const text = mi_stats_as_json(&stats, capacity, buffer);
  // What the process uses changes meanwhile, and its digits with it; all else is the same.
  CHECK(text == buffer || capacity < length + 64);
  CHECK(text == NULL || (capacity + 64 > length && strlen(text) < capacity));
  if (text != NULL) {
    CHECK(strcmp(behind_process(text), behind_process(whole)) == 0);
  } else {
    CHECK(buffer[0] == 0); // STATS_JSON-1
  }
  free(buffer);
  mi_free(whole);
  stats.version++;
  CHECK(mi_stats_as_json(&stats, 0, NULL) == NULL);
}

static void check_line(const char* text, void* arg) {
  size_t* const lines = (size_t*)arg;
  CHECK(strlen(text) < 256);
  for (const char* s = text; *s != 0; s++) CHECK(*s == '\n' || (unsigned char)*s >= ' ');
  (*lines)++;
}

// Blocks of some sizes, and what is said of them.
static void check_reports(fuzz_input_t* in) {
  void* blocks[16];
  const size_t count = fuzz_below(in, 17);
  for (size_t i = 0; i < count; i++) blocks[i] = mi_malloc(fuzz_size(in, 22));
  size_t lines = 0;
  mi_stats_print_out(&check_line, &lines);
  mi_process_info_print_out(&check_line, &lines);
  mi_heap_stats_print_out(NULL, &check_line, &lines);
  mi_options_print_out(&check_line, &lines);
  CHECK(lines > 20);
  char* const text = mi_stats_get_json(0, NULL);
  CHECK(text != NULL && *skip(read_value(text)) == 0);
  mi_free(text);
  for (size_t i = 0; i < count; i++) mi_free(blocks[i]);
  mi_stats_t_decl(stats);
  CHECK(mi_stats_get(&stats));
  CHECK(stats.malloc_normal.current >= 0 && stats.malloc_huge.current == 0);
}

int LLVMFuzzerInitialize(int* argc, char*** argv) {
  (void)argc, (void)argv;
  os_fake_start(4096, 0);
  return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  fuzz_input_t in = fuzz_open(data, size);
  if (fuzz_below(&in, 4) != 0) {
    check_json(&in);
  } else {
    check_reports(&in);
  }
  mi_collect(true);
  return 0;
}
