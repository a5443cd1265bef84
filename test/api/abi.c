// SPDX-License-Identifier: MIT
// abi.c - the numbers that programs and language bindings have compiled in: sizes, layouts,
// options. They are written down here once more, from the description of the interface and not
// from our header.
#include "test_api.h"

#include <mimalloc-stats.h>

// If this fails, programs that were compiled with an older header read the wrong fields.
static void abi_structures_have_their_layout(void** state) {
  (void)state;
  assert_int_equal(sizeof(mi_heap_area_t), 7 * sizeof(void*));
  assert_int_equal(offsetof(mi_heap_area_t, blocks), 0);
  assert_int_equal(offsetof(mi_heap_area_t, reserved), 1 * sizeof(void*));
  assert_int_equal(offsetof(mi_heap_area_t, committed), 2 * sizeof(void*));
  assert_int_equal(offsetof(mi_heap_area_t, used), 3 * sizeof(void*));
  assert_int_equal(offsetof(mi_heap_area_t, block_size), 4 * sizeof(void*));
  assert_int_equal(offsetof(mi_heap_area_t, full_block_size), 5 * sizeof(void*));
  assert_int_equal(offsetof(mi_heap_area_t, reserved1), 6 * sizeof(void*));
  assert_int_equal(sizeof(mi_subproc_id_t), sizeof(void*)); // passed by value in a register
  assert_int_equal(sizeof(mi_arena_id_t), sizeof(void*));
  assert_int_equal(sizeof(mi_option_t), sizeof(int));
  assert_int_equal(MI_STAT_VERSION, 5);
  const size_t head = 2 * sizeof(size_t); // the rest has 64 bits everywhere
  assert_int_equal(sizeof(mi_stats_t), head + 4352);
  assert_int_equal(offsetof(mi_stats_t, pages), head);
  assert_int_equal(offsetof(mi_stats_t, heaps_delete_wait), head + 520);
  assert_int_equal(offsetof(mi_stats_t, malloc_bins), head + 656);
  assert_int_equal(MI_CBIN_COUNT, 6);
}

// If this fails, callbacks of programs are called with the wrong arguments. The compiler says so.
static void abi_callbacks_have_their_types(void** state) {
  (void)state;
  void (*deferred)(bool, unsigned long long, void*) = (mi_deferred_free_fun*)NULL;
  void (*output)(const char*, void*) = (mi_output_fun*)NULL;
  void (*error)(int, void*) = (mi_error_fun*)NULL;
  bool (*block)(const mi_heap_t*, const mi_heap_area_t*, void*, size_t, void*) =
      (mi_block_visit_fun*)NULL;
  bool (*heap)(mi_heap_t*, void*) = (mi_heap_visit_fun*)NULL;
  bool (*commit)(bool, void*, size_t, bool*, void*) = (mi_commit_fun_t*)NULL;
  assert_true(deferred == NULL && output == NULL && error == NULL && block == NULL);
  assert_true(heap == NULL && commit == NULL);
}

// If this fails, tests of the version and of small sizes in user code go wrong.
static void abi_constants_have_their_values(void** state) {
  (void)state;
  assert_int_equal(MI_MALLOC_VERSION, 30403);
  assert_int_equal(mi_version(), 30403);
  assert_int_equal(MI_SMALL_WSIZE_MAX, 128);
  assert_int_equal(MI_SMALL_SIZE_MAX, 128 * sizeof(void*));
}

// If this fails, a binding that has the numbers in its own source sets another option than it
// means.
static void abi_options_have_their_numbers(void** state) {
  (void)state;
  const mi_option_t in_order[] = {
      mi_option_show_errors,
      mi_option_show_stats,
      mi_option_verbose,
      mi_option_deprecated_eager_commit,
      mi_option_arena_eager_commit,
      mi_option_purge_decommits,
      mi_option_allow_large_os_pages,
      mi_option_reserve_huge_os_pages,
      mi_option_reserve_huge_os_pages_at,
      mi_option_reserve_os_memory,
      mi_option_deprecated_segment_cache,
      mi_option_deprecated_page_reset,
      mi_option_deprecated_abandoned_page_purge,
      mi_option_deprecated_segment_reset,
      mi_option_deprecated_eager_commit_delay,
      mi_option_purge_delay,
      mi_option_use_numa_nodes,
      mi_option_disallow_os_alloc,
      mi_option_os_tag,
      mi_option_max_errors,
      mi_option_max_warnings,
      mi_option_deprecated_max_segment_reclaim,
      mi_option_destroy_on_exit,
      mi_option_arena_reserve,
      mi_option_arena_purge_mult,
      mi_option_deprecated_purge_extend_delay,
      mi_option_disallow_arena_alloc,
      mi_option_retry_on_oom,
      mi_option_visit_abandoned,
      mi_option_guarded_min,
      mi_option_guarded_max,
      mi_option_guarded_precise,
      mi_option_guarded_sample_rate,
      mi_option_guarded_sample_seed,
      mi_option_generic_collect,
      mi_option_page_reclaim_on_free,
      mi_option_page_full_retain,
      mi_option_page_max_candidates,
      mi_option_max_vabits,
      mi_option_pagemap_commit,
      mi_option_page_commit_on_demand,
      mi_option_page_max_reclaim,
      mi_option_page_cross_thread_max_reclaim,
      mi_option_allow_thp,
      mi_option_minimal_purge_size,
      mi_option_arena_max_object_size,
      mi_option_arena_is_numa_local,
      _mi_option_last,
  };
  const size_t count = sizeof(in_order) / sizeof(in_order[0]);
  assert_int_equal(count, 48);
  for (size_t i = 0; i < count; i++) assert_int_equal(in_order[i], i);
}

// If this fails, sources that use an older name of an option set another one.
static void abi_older_names_of_options(void** state) {
  (void)state;
  assert_int_equal(mi_option_eager_region_commit, 4);
  assert_int_equal(mi_option_reset_decommits, 5);
  assert_int_equal(mi_option_large_os_pages, 6);
  assert_int_equal(mi_option_abandoned_page_reset, 12);
  assert_int_equal(mi_option_reset_delay, 15);
  assert_int_equal(mi_option_limit_os_alloc, 17);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(abi_structures_have_their_layout),
      cmocka_unit_test(abi_callbacks_have_their_types),
      cmocka_unit_test(abi_constants_have_their_values),
      cmocka_unit_test(abi_options_have_their_numbers),
      cmocka_unit_test(abi_older_names_of_options),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
