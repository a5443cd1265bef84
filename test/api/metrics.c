// SPDX-License-Identifier: MIT
// metrics.c - metrics as text for monitoring: any buffer, and which figures. What a parser of such
// text says is tested in test/interop/test_metrics.py.
#include "test_api.h"

#include <mimalloc-stats.h>
#include <pthread.h>
#include <stdlib.h>

#define METRICS_SIZE (32 * TEST_KIB)
static char metrics[METRICS_SIZE + 8];

static void scrape(void) {
  const size_t length = mi_metrics(mi_metrics_prometheus, metrics, METRICS_SIZE);
  assert_int_equal(length, strlen(metrics));
  assert_true(length > 1000 && length < METRICS_SIZE);
}

// The value of a sample in the text, with its labels as in `name`.
static int64_t metric(const char* name) {
  const size_t length = strlen(name);
  for (const char* line = metrics; line != NULL && *line != 0; line = strchr(line, '\n') + 1) {
    if (strncmp(line, name, length) == 0 && line[length] == ' ') return atoll(line + length);
  }
  fail_msg("no metric %s", name);
  return -1;
}

// If this fails, a scrape gets half a text for a whole one, or overwrites memory behind its buffer.
static void metrics_fit_or_are_not(void** state) {
  (void)state;
  for (int format = mi_metrics_prometheus; format <= mi_metrics_openmetrics; format++) {
    const mi_metrics_format_t form = (mi_metrics_format_t)format;
    const size_t length = mi_metrics(form, NULL, 0);
    assert_true(length > 1000 && length + 64 < METRICS_SIZE);
    assert_true(mi_metrics(form, NULL, 1000) > 1000);
    for (size_t size = 1; size <= METRICS_SIZE; size += size + 100 < length ? 97 : 1) {
      metrics[size] = 'x';
      const size_t needed = mi_metrics(form, metrics, size);
      assert_int_equal(metrics[size], 'x');
      // The figures of the process in it may have a few digits more or less than before.
      assert_true(needed + 64 > length && needed < length + 64);
      assert_int_equal(strlen(metrics), needed < size ? needed : 0);
      if (needed < size) assert_int_equal(metrics[needed - 1], '\n');
      if (size > length + 100) size += 3000;
    }
  }
  metrics[0] = 'x';
  assert_int_equal(mi_metrics((mi_metrics_format_t)2, metrics, METRICS_SIZE), 0);
  assert_int_equal(metrics[0], 0);
}

// If this fails, the figures of a scrape contain what the scrape itself takes.
static void metrics_allocate_nothing(void** state) {
  (void)state;
  mi_metrics(mi_metrics_prometheus, metrics, METRICS_SIZE);
  mi_stats_t_decl(before);
  assert_true(mi_stats_get(&before));
  for (int i = 0; i < 10; i++) scrape();
  mi_stats_t_decl(after);
  assert_true(mi_stats_get(&after));
  assert_memory_equal(&before, &after, sizeof(before));
}

// Bytes in blocks; with guards around each they have pages of their own.
static int64_t in_blocks(void) {
  return metric("mimalloc_binned_bytes") + metric("mimalloc_huge_bytes");
}

static void* allocate_apart(void* arg) {
  const mi_subproc_id_t id = *(mi_subproc_id_t*)arg;
  mi_subproc_add_current_thread(id);
  void** const kept = (void**)mi_malloc(1000 * sizeof(void*));
  for (size_t i = 0; i < 1000; i++) kept[i] = mi_malloc(64);
  return kept;
}

// The name and labels of a sample that a scraper takes for a counter; 0 if the line has none.
static size_t counter_length(const char* line) {
  const char* const end = line + strcspn(line, " \n");
  const char* const name_end = line + strcspn(line, "{ \n");
  if (line[0] == '#' || name_end - line < 6 || memcmp(name_end - 6, "_total", 6) != 0) return 0;
  return (size_t)(end - line);
}

// No counter of an earlier text is above that of the text there is now.
static void check_counters(const char* earlier) {
  static char name[200];
  size_t count = 0;
  for (const char* line = earlier; *line != 0; line = strchr(line, '\n') + 1) {
    const size_t length = counter_length(line);
    if (length == 0 || length >= sizeof(name)) continue;
    memcpy(name, line, length);
    name[length] = 0;
    count++;
    if (metric(name) < atoll(line + length)) {
      fail_msg("%s: %lld, then %lld", name, atoll(line + length), (long long)metric(name));
    }
  }
  assert_true(count >= 15);
}

// If this fails, memory of an interpreter is missing in what is watched, or goes on being shown.
static void metrics_are_of_all_subprocs(void** state) {
  (void)state;
  scrape();
  const int64_t bytes = in_blocks();
  const int64_t heaps = metric("mimalloc_heaps");
  const int64_t threads = metric("mimalloc_threads_started_total");
  const mi_subproc_id_t id = mi_subproc_new();
  pthread_t thread;
  assert_int_equal(pthread_create(&thread, NULL, &allocate_apart, (void*)&id), 0);
  assert_int_equal(pthread_join(thread, NULL), 0);
  scrape();
  assert_true(in_blocks() - bytes >= 64 * 1000);
  assert_int_equal(metric("mimalloc_heaps") - heaps, 1);
  assert_true(metric("mimalloc_threads_started_total") > threads);
  mi_stats_t_decl(stats); // of the main one alone
  assert_true(mi_stats_get(&stats));
  assert_true(metric("mimalloc_committed_bytes") > stats.committed.current);
  const int64_t arenas = metric("mimalloc_arenas_made_total");
  static char before[METRICS_SIZE + 8];
  memcpy(before, metrics, sizeof(before));
  mi_subproc_destroy(id);
  scrape();
  check_counters(before); // a scraper takes one that shrinks for a process that starts again
  assert_int_equal(metric("mimalloc_arenas_made_total"), arenas);
  assert_true(in_blocks() - bytes < 64 * 1000);
  assert_int_equal(metric("mimalloc_heaps"), heaps);
  assert_true(metric("mimalloc_threads_started_total") > threads);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(metrics_fit_or_are_not),
      cmocka_unit_test(metrics_allocate_nothing),
      cmocka_unit_test(metrics_are_of_all_subprocs),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
