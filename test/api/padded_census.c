// SPDX-License-Identifier: MIT
// padded_census.c - a padded build counts blocks by size: how many there are, there were at once,
// and there ever were; and the bytes that the program asked for. Only for that build.
#include "test_heap.h"

#include <mimalloc-stats.h>
#include <pthread.h>

#define LARGE (3 * TEST_MIB)

static mi_stats_t stats;

static const mi_stats_t* of_heap(mi_heap_t* heap) {
  mi_stats_init(&stats);
  assert_true(mi_heap_stats_get(heap, &stats));
  return &stats;
}

static const mi_stats_t* of_all(void) {
  mi_stats_init(&stats);
  assert_true(mi_stats_get(&stats));
  return &stats;
}

static void expect(const mi_stat_count_t* count, size_t total, size_t peak, size_t current) {
  if (count->total != (int64_t)total || count->peak != (int64_t)peak ||
      count->current != (int64_t)current) {
    fail_msg("total %lld, peak %lld, current %lld instead of %zu, %zu, %zu",
             (long long)count->total, (long long)count->peak, (long long)count->current, total,
             peak, current);
  }
}

// The bin of blocks of a size; with the bytes around it.
static size_t bin_of(size_t size) {
  size_t bin = 1;
  while (bin < MI_BIN_HUGE && mi_stats_get_bin_size(bin) < size + 32) bin++;
  return bin;
}

static const size_t sizes[] = {1, 40, 1000, 20000, 300000, LARGE};
#define SIZE_COUNT (sizeof(sizes) / sizeof(sizes[0]))

// If this fails, the report of a debug build leads to the wrong size.
static void sizes_are_counted(void** state) {
  (void)state;
  test_skip_if_guarded("guarded blocks count as large");
  for (size_t i = 0; i < SIZE_COUNT; i++) {
    enum { COUNT = 20 };
    void* p[COUNT];
    mi_heap_t* const heap = mi_heap_new();
    const size_t size = sizes[i];
    const size_t bin = bin_of(size);
    for (size_t k = 0; k < COUNT; k++) p[k] = mi_heap_malloc(heap, size);
    for (size_t k = 0; k < 15; k++) mi_free(p[k]);
    for (size_t k = 0; k < 10; k++) p[k] = mi_heap_malloc_aligned(heap, size, 16);
    for (size_t k = 0; k < 4; k++) mi_free(p[k]);
    const mi_stats_t* const s = of_heap(heap);
    expect(&s->malloc_bins[bin], COUNT + 10, COUNT, 11);
    expect(&s->malloc_requested, size * (COUNT + 10), size * COUNT, size * 11);
    if (bin < MI_BIN_HUGE) {
      const size_t slot = (size_t)s->malloc_normal.current / 11;
      assert_in_range(slot, size + 32, mi_stats_get_bin_size(bin));
      expect(&s->malloc_normal, slot * (COUNT + 10), slot * COUNT, slot * 11);
    }
    for (size_t other = 0; other < MI_BIN_COUNT; other++) {
      if (other != bin) expect(&s->malloc_bins[other], 0, 0, 0);
    }
    // A destroyed heap hands its totals to the main heap, and nothing that is in use.
    const mi_stat_count_t main_before = of_heap(mi_heap_main())->malloc_bins[bin];
    const mi_stat_count_t all_before = of_all()->malloc_bins[bin];
    mi_heap_destroy(heap);
    const mi_stat_count_t* const main = &of_heap(mi_heap_main())->malloc_bins[bin];
    assert_int_equal(main->total, main_before.total + COUNT + 10);
    assert_int_equal(main->current, main_before.current);
    const mi_stat_count_t* const all = &of_all()->malloc_bins[bin];
    assert_int_equal(all->total, all_before.total);
    assert_int_equal(all->current, all_before.current - 11);
    assert_int_equal(all->peak, all_before.peak);
  }
}

// If this fails, a block that changes its size counts twice, or not at all.
static void resized_blocks_are_counted(void** state) {
  (void)state;
  test_skip_if_guarded("guarded blocks count as large");
  mi_heap_t* const heap = mi_heap_new();
  void* p = mi_heap_malloc(heap, 100);
  p = mi_heap_realloc(heap, p, 90); // in place
  expect(&of_heap(heap)->malloc_requested, 100, 100, 90);
  expect(&stats.malloc_bins[bin_of(100)], 1, 1, 1);
  p = mi_heap_realloc(heap, p, 5000); // elsewhere: both are there for a moment
  expect(&of_heap(heap)->malloc_requested, 5100, 5090, 5000);
  expect(&stats.malloc_bins[bin_of(100)], 1, 1, 0);
  expect(&stats.malloc_bins[bin_of(5000)], 1, 1, 1);
  mi_free(p);
  p = mi_heap_malloc(heap, LARGE);
  for (size_t i = 2; i < 5; i++) p = mi_heap_realloc(heap, p, i * LARGE);
  p = mi_heap_realloc(heap, p, LARGE + 1);
  assert_int_equal(of_heap(heap)->malloc_requested.current, LARGE + 1);
  assert_int_equal(stats.malloc_bins[MI_BIN_HUGE].current, 1);
  // A deleted heap hands its blocks over.
  const mi_stat_count_t before = of_heap(mi_heap_main())->malloc_bins[MI_BIN_HUGE];
  mi_heap_delete(heap);
  assert_int_equal(of_heap(mi_heap_main())->malloc_bins[MI_BIN_HUGE].current, before.current + 1);
  mi_free(p);
  assert_int_equal(of_heap(mi_heap_main())->malloc_bins[MI_BIN_HUGE].current, before.current);
}

#define THREADS 4
#define PAIRS 20000
#define HELD 8

static void* passed[THREADS][HELD];
static pthread_barrier_t barrier;

static void* run_pairs(void* arg) {
  void** const own = passed[(uintptr_t)arg];
  void** const others = passed[((uintptr_t)arg + 1) % THREADS];
  for (size_t i = 0; i < PAIRS; i++) mi_free(mi_malloc(700));
  for (size_t i = 0; i < HELD; i++) own[i] = mi_malloc(700);
  pthread_barrier_wait(&barrier);
  for (size_t i = 0; i < HELD; i++) mi_free(others[i]);
  return NULL;
}

// If this fails, counts of several threads are lost.
static void threads_are_counted(void** state) {
  (void)state;
  test_skip_if_guarded("guarded blocks count as large");
  const size_t bin = bin_of(700);
  const mi_stat_count_t before = of_all()->malloc_bins[bin];
  pthread_t thread[THREADS];
  assert_int_equal(pthread_barrier_init(&barrier, NULL, THREADS), 0);
  for (uintptr_t i = 0; i < THREADS; i++) {
    assert_int_equal(pthread_create(&thread[i], NULL, &run_pairs, (void*)i), 0);
  }
  for (size_t i = 0; i < THREADS; i++) pthread_join(thread[i], NULL);
  pthread_barrier_destroy(&barrier);
  const mi_stat_count_t* const after = &of_all()->malloc_bins[bin];
  assert_int_equal(after->total - before.total, THREADS * (PAIRS + HELD));
  assert_int_equal(after->current, before.current);
  assert_in_range(after->peak, before.current + THREADS * HELD, before.peak + THREADS * (HELD + 1));
}

static void hear(const char* text, void* arg) {
  char* const all = (char*)arg;
  strncat(all, text, 20000 - strlen(all) - 1);
}

// If this fails, the report hides what the structure has.
static void report_has_totals(void** state) {
  (void)state;
  test_skip_if_guarded("guarded blocks count as large");
  static char text[20000];
  mi_heap_t* const heap = mi_heap_new();
  void* p[3];
  for (size_t i = 0; i < 3; i++) p[i] = mi_heap_malloc(heap, 96); // slots of 128 bytes
  for (size_t i = 0; i < 2; i++) mi_free(p[i]);
  mi_heap_stats_print_out(heap, &hear, text);
  char line[200];
  snprintf(line, sizeof(line), "  bin S %4zu:%12s%12s%12s%12s%12d\n", bin_of(96), "384 B", "384 B",
           "128 B", "128 B", 1);
  if (strstr(text, line) == NULL) fail_msg("no \"%s\" in:\n%s", line, text);
  snprintf(line, sizeof(line), "  requested :%12s%12s%12s\n", "288 B", "288 B", "96 B");
  if (strstr(text, line) == NULL) fail_msg("no \"%s\" in:\n%s", line, text);
  mi_heap_destroy(heap);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(sizes_are_counted),
      cmocka_unit_test(resized_blocks_are_counted),
      cmocka_unit_test(threads_are_counted),
      cmocka_unit_test(report_has_totals),
  };
  return cmocka_run_group_tests_name("padded_census", tests, NULL, NULL);
}
