// SPDX-License-Identifier: MIT
// statistics.c - statistics as a structure and as JSON. What a JSON parser says of the text is
// tested in test/interop/test_statistics.py.
#include "test_api.h"

#include <mimalloc-stats.h>
#include <pthread.h>

static mi_stats_t before;
static mi_stats_t after;

static void take(mi_stats_t* stats) {
  mi_stats_init(stats);
  if (!mi_stats_get(stats)) fail_msg("no statistics");
}

#define SMALL_COUNT 1000
#define MIDDLE_COUNT 20
#define LARGE_COUNT 3

static void* blocks[SMALL_COUNT + MIDDLE_COUNT + LARGE_COUNT];
static int64_t normal_bytes;
static int64_t large_bytes;

static void allocate_all(void) {
  normal_bytes = large_bytes = 0;
  for (size_t i = 0; i < sizeof(blocks) / sizeof(blocks[0]); i++) {
    const size_t size = i < SMALL_COUNT ? 64 : i < SMALL_COUNT + MIDDLE_COUNT ? 6000 : 3 * TEST_MIB;
    blocks[i] = mi_malloc(size);
    *(i < SMALL_COUNT + MIDDLE_COUNT ? &normal_bytes : &large_bytes) +=
        (int64_t)mi_usable_size(blocks[i]);
  }
}

static void free_all(void) {
  for (size_t i = 0; i < sizeof(blocks) / sizeof(blocks[0]); i++) mi_free(blocks[i]);
}

// The smallest bin whose blocks have `size` bytes.
static size_t bin_of(size_t size) {
  size_t bin = 1;
  while (mi_stats_get_bin_size(bin) < size) bin++;
  return bin;
}

static void check_growth(void) {
  assert_int_equal(after.malloc_normal.current - before.malloc_normal.current, normal_bytes);
  assert_int_equal(after.malloc_huge.current - before.malloc_huge.current, large_bytes);
  assert_true(after.malloc_huge.total - before.malloc_huge.total >= large_bytes);
  const size_t small = bin_of(64);
  const size_t middle = bin_of(6000);
  const size_t large = MI_BIN_COUNT - 1;
  assert_int_equal(after.malloc_bins[small].current - before.malloc_bins[small].current,
                   SMALL_COUNT);
  assert_int_equal(after.malloc_bins[middle].current - before.malloc_bins[middle].current,
                   MIDDLE_COUNT);
  assert_int_equal(after.malloc_bins[large].current - before.malloc_bins[large].current,
                   LARGE_COUNT);
  assert_true(after.page_bins[small].current > 0 && after.page_bins[middle].current > 0);
}

// If this fails, people hunt leaks that are not there, or miss those that are.
static void statistics_are_exact_on_one_thread(void** state) {
  (void)state;
  take(&before);
  allocate_all();
  take(&after);
  check_growth();
  free_all();
  take(&after);
  assert_int_equal(after.malloc_normal.current, before.malloc_normal.current);
  assert_int_equal(after.malloc_huge.current, before.malloc_huge.current);
  for (size_t bin = 0; bin < MI_BIN_COUNT; bin++) {
    assert_int_equal(after.malloc_bins[bin].current, before.malloc_bins[bin].current);
  }
}

static void* run_allocate_all(void* arg) {
  allocate_all();
  return arg;
}

// If this fails, what another thread allocated is missing: in a server, nearly all.
static void statistics_see_other_threads(void** state) {
  (void)state;
  take(&before);
  pthread_t thread;
  assert_int_equal(pthread_create(&thread, NULL, &run_allocate_all, NULL), 0);
  assert_int_equal(pthread_join(thread, NULL), 0);
  take(&after);
  // What libc allocates for a thread and keeps comes on top.
  assert_true(after.malloc_normal.current - before.malloc_normal.current >= normal_bytes);
  assert_int_equal(after.malloc_huge.current - before.malloc_huge.current, large_bytes);
  assert_true(after.threads.total > before.threads.total);
  free_all();
}

// If this fails, a dashboard shows peaks below what is there.
static void statistics_are_in_order(void** state) {
  (void)state;
  void* const p = mi_malloc(50 * TEST_MIB);
  take(&after);
#define MI_STAT_COUNT(field)                                                                       \
  if (after.field.peak < after.field.current || after.field.total < after.field.peak)              \
    fail_msg(#field ": total %lld, peak %lld, current %lld", (long long)after.field.total,         \
             (long long)after.field.peak, (long long)after.field.current);
#define MI_STAT_COUNTER(field) assert_true(after.field.total >= 0);
  MI_STAT_FIELDS()
#undef MI_STAT_COUNT
#undef MI_STAT_COUNTER
  assert_true(after.reserved.current > 0);
  assert_true(after.committed.current >= 50 * (int64_t)TEST_MIB);
  assert_true(after.pages.current > 0 && after.threads.current >= 1);
  assert_true(after.heaps.current == 1 && after.arena_count.total >= 1);
  assert_true(after.mmap_calls.total >= 1);
  mi_free(p);
}

// If this fails, a program compiled with another version of the header is written over.
static void statistics_refuse_other_layouts(void** state) {
  (void)state;
  assert_false(mi_stats_get(NULL));
  mi_stats_t_decl(stats);
  assert_true(mi_stats_get(&stats));
  stats.size--;
  stats.threads.total = 7777;
  assert_false(mi_stats_get(&stats));
  assert_int_equal(stats.threads.total, 7777);
  assert_null(mi_stats_as_json(&stats, 0, NULL));
  mi_stats_init(&stats);
  stats.version++;
  assert_false(mi_stats_get(&stats));
  assert_null(mi_stats_as_json(&stats, 0, NULL));
  assert_null(mi_stats_as_json(NULL, 0, NULL));
}

// If this fails, readers cannot tell which sizes of blocks fill the memory.
static void bins_have_sizes(void** state) {
  (void)state;
  assert_int_equal(mi_stats_get_bin_size(1), 8);
  for (size_t bin = 2; bin < MI_BIN_COUNT - 1; bin++) {
    const size_t size = mi_stats_get_bin_size(bin);
    if (size != 0) assert_true(size > mi_stats_get_bin_size(bin - 1));
  }
  assert_true(mi_stats_get_bin_size(MI_BIN_COUNT - 1) > mi_stats_get_bin_size(40));
  assert_int_equal(mi_stats_get_bin_size(MI_BIN_COUNT), 0);
  assert_int_equal(mi_stats_get_bin_size(SIZE_MAX), 0);
}

// If this fails, half an object is taken for JSON, or memory behind the buffer is overwritten.
static void json_fits_or_is_not(void** state) {
  (void)state;
  mi_stats_t_decl(stats);
  assert_true(mi_stats_get(&stats));
  char* const full = mi_stats_as_json(&stats, 0, NULL);
  assert_non_null(full);
  const size_t length = strlen(full);
  mi_free(full);
  assert_true(length + 64 < 32 * TEST_KIB);
  static char buffer[32 * TEST_KIB + 8];
  for (size_t size = 1; size <= 32 * TEST_KIB; size += size + 300 < length ? 97 : 1) {
    buffer[size] = 'x';
    const char* const text = mi_stats_as_json(&stats, size, buffer);
    assert_int_equal(buffer[size], 'x');
    // The times in it may take a few digits more or less than before.
    if (text == NULL && size > length + 64) fail_msg("%zu bytes are enough, not %zu", length, size);
    if (text == NULL) {
      assert_int_equal(buffer[0], 0);
    } else {
      assert_ptr_equal(text, buffer);
      assert_int_equal(strlen(text) < size ? 0 : 1, 0);
      assert_int_equal(strcmp(text + strlen(text) - 2, "}\n"), 0);
    }
    if (size > length + 300) size += 5000;
  }
}

// If this fails, the one-line way to get a report does not work.
static void json_of_now(void** state) {
  (void)state;
  char* const text = mi_stats_get_json(0, NULL);
  assert_non_null(text);
  assert_true(mi_usable_size(text) > strlen(text));
  assert_non_null(strstr(text, "\"mimalloc_version\": 30403"));
  mi_free(text);
  char small[100];
  assert_null(mi_stats_get_json(sizeof(small), small));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(statistics_are_exact_on_one_thread),
      cmocka_unit_test(statistics_see_other_threads),
      cmocka_unit_test(statistics_are_in_order),
      cmocka_unit_test(statistics_refuse_other_layouts),
      cmocka_unit_test(bins_have_sizes),
      cmocka_unit_test(json_fits_or_is_not),
      cmocka_unit_test(json_of_now),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
