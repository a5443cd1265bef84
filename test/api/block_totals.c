// SPDX-License-Identifier: MIT
// block_totals.c - tests of `malloc_bins` and `malloc_normal` of mimalloc-stats.h: how many blocks
// were ever allocated, of each size. malloc does not count them (src/core/common/handed.h), and the
// figure is exact all the same when no other thread holds blocks ready. Each test does so many
// mallocs in one of the ways that blocks come into a list, and out of it unused.
#include "test_api.h"
#include <mimalloc-profile.h>
#include <mimalloc-stats.h>
#include <pthread.h>
#include <stdatomic.h>

#include "random.h"

#define COUNT ((size_t)20000)
#define THREADS ((size_t)40) // a crowd
// Blocks that the system's functions for threads allocate are smaller.
#define SIZE_MIN ((size_t)1000)

static const size_t sizes[] = {SIZE_MIN, 3000, 20000};
#define SIZE_COUNT (sizeof(sizes) / sizeof(sizes[0]))

static void* block[COUNT];

typedef struct total_s {
  int64_t blocks, bytes; // of blocks from SIZE_MIN on, and of all
} total_t;

static total_t total(void) {
  mi_stats_t stats;
  mi_stats_init(&stats);
  assert_true(mi_stats_get(&stats));
  total_t sum = {.bytes = stats.malloc_normal.total};
  for (size_t bin = 1; bin < MI_BIN_HUGE; bin++) {
    const mi_stat_count_t* const count = &stats.malloc_bins[bin];
    assert_true(count->total >= count->current);
    if (mi_stats_get_bin_size(bin) < SIZE_MIN) continue;
    sum.blocks += count->total;
  }
  return sum;
}

// Expect that so many blocks were allocated since `before`.
static void expect(const total_t* before, size_t blocks) {
  const total_t now = total();
  if (now.blocks - before->blocks != (int64_t)blocks) {
    fail_msg("%lld blocks instead of %zu", (long long)(now.blocks - before->blocks), blocks);
  }
  assert_true(now.bytes - before->bytes >= (int64_t)(blocks * SIZE_MIN));
}

static void* get(mi_heap_t* heap, size_t i) {
  void* const p = mi_heap_malloc(heap, sizes[i % SIZE_COUNT]);
  assert_non_null(p);
  return p;
}

static void get_all(size_t count) {
  for (size_t i = 0; i < count; i++) block[i] = get(mi_heap_main(), i);
}

static void free_all(size_t count) {
  for (size_t i = 0; i < count; i++) mi_free(block[i]);
}

// If this fails, the rates that a monitoring system shows are wrong for every program.
static void totals_of_one_thread(void** state) {
  (void)state;
  test_skip_if_guarded("guarded blocks count as huge");
  const total_t before = total();
  size_t count = 0;
  for (size_t i = 0; i < 10 * COUNT; i++, count++) mi_free(get(mi_heap_main(), i));
  expect(&before, count);
  get_all(COUNT);
  expect(&before, count += COUNT);
  uint64_t seed = 1;
  for (size_t i = 0; i < 10 * COUNT; i++, count++) {
    const size_t k = random_below(&seed, COUNT);
    mi_free(block[k]);
    block[k] = get(mi_heap_main(), k);
  }
  expect(&before, count);
  free_all(COUNT);
  expect(&before, count);
  mi_collect(true); // lists go back into pages, and these to the system
  expect(&before, count);
  get_all(COUNT / 2);
  mi_collect(false);
  expect(&before, count += COUNT / 2);
  free_all(COUNT / 2);
}

// If this fails, the figure of a program with a heap for each request counts whole pages.
static void totals_of_heaps_that_end(void** state) {
  (void)state;
  test_skip_if_guarded("guarded blocks count as huge");
  enum { HEAPS = 20, EACH = 7 };
  const total_t before = total();
  for (size_t h = 0; h < HEAPS; h++) {
    mi_heap_t* const heap = mi_heap_new();
    assert_non_null(heap);
    for (size_t i = 0; i < EACH; i++) block[i] = get(heap, i);
    mi_free(block[0]);
    if (h % 2 == 0) {
      mi_heap_destroy(heap);
    } else {
      for (size_t i = 1; i < EACH; i++) mi_free(block[i]);
      mi_heap_delete(heap);
    }
    expect(&before, (h + 1) * EACH);
  }
}

static void* free_many(void* arg) {
  free_all((size_t)(uintptr_t)arg);
  return NULL;
}

static void in_thread(void* (*run)(void*), void* arg) {
  pthread_t thread;
  assert_int_equal(pthread_create(&thread, NULL, run, arg), 0);
  assert_int_equal(pthread_join(thread, NULL), 0);
}

static void* get_many(void* arg) {
  get_all((size_t)(uintptr_t)arg);
  return NULL;
}

// If this fails, blocks that other threads free count never, or twice.
static void totals_of_blocks_freed_by_others(void** state) {
  (void)state;
  test_skip_if_guarded("guarded blocks count as huge");
  const total_t before = total();
  size_t count = 0;
  for (size_t round = 0; round < 4; round++) {
    get_all(COUNT);
    expect(&before, count += COUNT);
    in_thread(&free_many, (void*)(uintptr_t)COUNT); // into pages of this one
    expect(&before, count);
    in_thread(&get_many, (void*)(uintptr_t)COUNT);
    expect(&before, count += COUNT);
    free_all(COUNT); // of one that has ended
    expect(&before, count);
  }
  mi_collect(true);
  expect(&before, count);
}

#define SLOTS ((size_t)512)
static void* _Atomic slot[SLOTS];
static pthread_barrier_t barrier;

// Exchange blocks with the other threads.
static void* exchange(void* arg) {
  uint64_t seed = (uint64_t)(uintptr_t)arg + 1;
  pthread_barrier_wait(&barrier);
  for (size_t i = 0; i < COUNT / 4; i++) {
    mi_free(atomic_exchange(&slot[random_below(&seed, SLOTS)], get(mi_heap_main(), i)));
  }
  pthread_barrier_wait(&barrier);
  return NULL;
}

// If this fails, portions, parcels or guests lose blocks: they are how a crowd exchanges them.
static void totals_of_a_crowd(void** state) {
  (void)state;
  test_skip_if_guarded("guarded blocks count as huge");
  static const size_t threads[] = {2, THREADS};
  const total_t before = total();
  size_t count = 0;
  for (size_t k = 0; k < 2; k++) {
    pthread_t thread[THREADS];
    assert_int_equal(pthread_barrier_init(&barrier, NULL, (unsigned)threads[k]), 0);
    for (size_t t = 0; t < threads[k]; t++) {
      assert_int_equal(pthread_create(&thread[t], NULL, &exchange, (void*)(uintptr_t)t), 0);
    }
    for (size_t t = 0; t < threads[k]; t++) assert_int_equal(pthread_join(thread[t], NULL), 0);
    pthread_barrier_destroy(&barrier);
    expect(&before, count += threads[k] * (COUNT / 4));
  }
  for (size_t i = 0; i < SLOTS; i++) mi_free(atomic_exchange(&slot[i], NULL));
  expect(&before, count);
  mi_collect(true);
  expect(&before, count);
}

// If this fails, lists that are cut for samples count twice. A sample itself has a page of its own.
static void totals_while_a_profile_is_taken(void** state) {
  (void)state;
  test_skip_if_guarded("guarded blocks count as huge");
  if (!mi_profile_start(1)) skip();
  mi_free(get(mi_heap_main(), 0)); // what walks the stack allocates when it is first needed
  mi_profile_stop();
  mi_stats_t was;
  mi_stats_t now;
  mi_stats_init(&was);
  mi_stats_init(&now);
  assert_true(mi_stats_get(&was));
  const total_t before = total();
  assert_true(mi_profile_start(64 * TEST_KIB));
  get_all(COUNT);
  free_all(COUNT);
  get_all(COUNT);
  mi_profile_stop();
  assert_true(mi_stats_get(&now));
  const int64_t huge = now.malloc_huge_count.total - was.malloc_huge_count.total;
  assert_true(huge > 0);
  expect(&before, 2 * COUNT - (size_t)huge);
  free_all(COUNT);
  mi_collect(true);
  expect(&before, 2 * COUNT - (size_t)huge);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(totals_of_one_thread),
      cmocka_unit_test(totals_of_heaps_that_end),
      cmocka_unit_test(totals_of_blocks_freed_by_others),
      cmocka_unit_test(totals_of_a_crowd),
      cmocka_unit_test(totals_while_a_profile_is_taken),
  };
  return cmocka_run_group_tests_name("block_totals", tests, NULL, NULL);
}
