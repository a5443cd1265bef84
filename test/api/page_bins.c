// SPDX-License-Identifier: MIT
// page_bins.c - tests of `page_bins` of mimalloc-stats.h: the pages of each size, now, at most and
// ever. That their sum is that of all pages is tested in statistics.c.
#include "test_api.h"
#include <mimalloc-stats.h>
#include <pthread.h>

// If this fails, nobody sees which sizes had the memory at the peak.
static void statistics_of_pages_by_size(void** state) {
  (void)state;
  test_skip_if_guarded("guarded blocks have pages of their own");
  enum { COUNT = 4000, SIZE = 3000 };
  static void* p[COUNT];
  size_t bin = 1;
  while (mi_stats_get_bin_size(bin) < SIZE) bin++;
  mi_collect(true);
  mi_stats_t before;
  mi_stats_t full;
  mi_stats_t after;
  mi_stats_init(&before);
  mi_stats_init(&full);
  mi_stats_init(&after);
  assert_true(mi_stats_get(&before));
  for (size_t i = 0; i < COUNT; i++) p[i] = mi_malloc(SIZE);
  assert_true(mi_stats_get(&full));
  for (size_t i = 0; i < COUNT; i++) mi_free(p[i]);
  mi_collect(true);
  assert_true(mi_stats_get(&after));
  const mi_stat_count_t* const was = &before.page_bins[bin];
  const mi_stat_count_t* const most = &full.page_bins[bin];
  const mi_stat_count_t* const is = &after.page_bins[bin];
  assert_true(most->current > was->current);
  assert_int_equal(most->total - was->total, most->current - was->current);
  assert_true(most->peak >= most->current);
  assert_int_equal(is->current, was->current);
  assert_int_equal(is->total, most->total);
  assert_int_equal(is->peak, most->peak);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(statistics_of_pages_by_size)};
  return cmocka_run_group_tests_name("page_bins", tests, NULL, NULL);
}
