// SPDX-License-Identifier: MIT
// statistics.c - statistics as a structure, as text and as JSON: of the process, of sub-processes,
// of heaps. What a JSON parser says of the text is tested in test/interop/test_statistics.py.
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
#define MIDDLE_COUNT 100 // several pages of any size
#define LARGE_COUNT 3

static void* blocks[SMALL_COUNT + MIDDLE_COUNT + LARGE_COUNT];
static int64_t normal_bytes;
static int64_t large_bytes;

static void allocate_all_in(mi_heap_t* heap) {
  normal_bytes = large_bytes = 0;
  for (size_t i = 0; i < sizeof(blocks) / sizeof(blocks[0]); i++) {
    const size_t size = i < SMALL_COUNT ? 64 : i < SMALL_COUNT + MIDDLE_COUNT ? 8000 : 3 * TEST_MIB;
    blocks[i] = mi_heap_malloc(heap, size);
    *(i < SMALL_COUNT + MIDDLE_COUNT ? &normal_bytes : &large_bytes) +=
        (int64_t)mi_usable_size(blocks[i]);
  }
}

static void allocate_all(void) { allocate_all_in(mi_heap_main()); }

static void free_all(void) {
  for (size_t i = 0; i < sizeof(blocks) / sizeof(blocks[0]); i++) mi_free(blocks[i]);
}

// The smallest bin whose blocks have `size` bytes.
static size_t bin_of(size_t size) {
  size_t bin = 1;
  while (mi_stats_get_bin_size(bin) < size) bin++;
  return bin;
}

static void check_growth_of(const mi_stats_t* from, const mi_stats_t* to) {
  assert_int_equal(to->malloc_normal.current - from->malloc_normal.current, normal_bytes);
  assert_int_equal(to->malloc_huge.current - from->malloc_huge.current, large_bytes);
  assert_true(to->malloc_huge.total - from->malloc_huge.total >= large_bytes);
  assert_int_equal(to->malloc_huge_count.total - from->malloc_huge_count.total, LARGE_COUNT);
  const size_t small = bin_of(64);
  const size_t middle = bin_of(8000);
  const size_t large = MI_BIN_COUNT - 1;
  assert_int_equal(to->malloc_bins[small].current - from->malloc_bins[small].current, SMALL_COUNT);
  assert_int_equal(to->malloc_bins[middle].current - from->malloc_bins[middle].current,
                   MIDDLE_COUNT);
  assert_int_equal(to->malloc_bins[large].current - from->malloc_bins[large].current, LARGE_COUNT);
  assert_true(to->page_bins[small].current > 0 && to->page_bins[middle].current > 0);
}

static void check_growth(void) { check_growth_of(&before, &after); }

// If this fails, people hunt leaks that are not there, or miss those that are.
static void statistics_are_exact_on_one_thread(void** state) {
  (void)state;
  test_skip_if_guarded("guarded blocks count as large");
  test_skip_if_tracked();
  take(&before);
  allocate_all();
  take(&after);
  check_growth();
  free_all();
  take(&after);
  assert_int_equal(after.malloc_normal.current, before.malloc_normal.current);
  assert_int_equal(after.malloc_huge.current, before.malloc_huge.current);
  assert_true(after.malloc_huge.peak >= before.malloc_huge.current + large_bytes);
  for (size_t bin = 0; bin < MI_BIN_COUNT; bin++) {
    assert_int_equal(after.malloc_bins[bin].current, before.malloc_bins[bin].current);
  }
}

static void* run_nothing(void* arg) { return arg; }

static void* run_allocate_all(void* arg) {
  allocate_all();
  return arg;
}

static void* run_free_all(void* arg) {
  mi_free(test_opaque_pointer(mi_malloc(1))); // a thread that only frees keeps no pages
  free_all();
  return arg;
}

static void in_thread(void* (*run)(void*), void* arg) {
  pthread_t thread;
  assert_int_equal(pthread_create(&thread, NULL, run, arg), 0);
  assert_int_equal(pthread_join(thread, NULL), 0);
}

// If this fails, what another thread allocated is missing, or what one freed seems to leak: in a
// server, nearly all.
static void statistics_see_other_threads(void** state) {
  (void)state;
  test_skip_if_guarded("guarded blocks count as large");
  test_skip_if_tracked();
  in_thread(&run_nothing, NULL); // what libc keeps of a thread it keeps once
  take(&before);
  in_thread(&run_allocate_all, NULL);
  take(&after);
  check_growth();
  assert_true(after.threads.total > before.threads.total);
  free_all();
  take(&after);
  assert_int_equal(after.malloc_normal.current, before.malloc_normal.current);
  allocate_all();
  in_thread(&run_free_all, NULL);
  take(&after);
  assert_int_equal(after.malloc_normal.current, before.malloc_normal.current);
  assert_int_equal(after.malloc_huge.current, before.malloc_huge.current);
  assert_true(after.pages_reclaim_on_free.total > before.pages_reclaim_on_free.total);
  // Pages that wait in this thread's queues, and get blocks back there.
  allocate_all();
  for (size_t i = 0; i < SMALL_COUNT + MIDDLE_COUNT; i += 10) {
    mi_free(blocks[i]);
    blocks[i] = NULL;
  }
  in_thread(&run_free_all, NULL);
  take(&after);
  assert_int_equal(after.malloc_normal.current, before.malloc_normal.current);
}

// -- Heaps --

static void take_heap(mi_heap_t* heap, mi_stats_t* stats) {
  mi_stats_init(stats);
  if (!mi_heap_stats_get(heap, stats)) fail_msg("no statistics of a heap");
}

static const mi_stats_t zero;

// Everything but the header is 0.
static bool is_empty(const mi_stats_t* stats) {
  const size_t header = offsetof(mi_stats_t, pages);
  return memcmp((const char*)stats + header, (const char*)&zero + header, sizeof(zero) - header) ==
         0;
}

// If this fails, nobody can tell which part of a program the memory belongs to.
static void statistics_of_a_heap_are_exact(void** state) {
  (void)state;
  test_skip_if_guarded("guarded blocks count as large");
  test_skip_if_tracked();
  mi_heap_t* const heap = mi_heap_new();
  take_heap(heap, &after);
  assert_true(is_empty(&after));
  allocate_all_in(heap);
  void* const elsewhere = mi_malloc(64);
  take_heap(heap, &after);
  check_growth_of(&zero, &after);
  assert_true(after.pages.current > 0 && after.pages.current == after.pages.total);
  assert_true(after.page_committed.current >= normal_bytes);
  free_all();
  take_heap(heap, &after);
  assert_int_equal(after.malloc_normal.current, 0);
  assert_int_equal(after.malloc_huge.current, 0);
  assert_int_equal(after.malloc_huge.peak, large_bytes);
  assert_int_equal(after.malloc_huge.total, large_bytes);
  assert_true(after.pages.peak > 0 && after.pages.total >= after.pages.peak);
  mi_free(elsewhere);
  mi_heap_destroy(heap);
}

static mi_stats_t all;
static mi_stats_t exclusive;
static mi_stats_t sum;
static mi_stats_t one;

// What was counted as pages came and went is what a walk finds.
static void check_pages(const mi_stats_t* stats) {
  int64_t pages = 0;
  for (size_t bin = 0; bin < MI_BIN_COUNT - 1; bin++) pages += stats->page_bins[bin].current;
  assert_int_equal(stats->pages.current, pages);
}

static bool add_heap(mi_heap_t* heap, void* count) {
  ++*(int*)count;
  take_heap(heap, &one);
  check_pages(&one);
#define MI_STAT_COUNT(field) sum.field.current += one.field.current;
#define MI_STAT_COUNTER(field) sum.field.total += one.field.total;
  MI_STAT_FIELDS()
#undef MI_STAT_COUNT
#undef MI_STAT_COUNTER
  sum.pages.total += one.pages.total;
  sum.malloc_huge.total += one.malloc_huge.total;
  for (size_t bin = 0; bin < MI_BIN_COUNT; bin++) {
    sum.malloc_bins[bin].current += one.malloc_bins[bin].current;
    sum.page_bins[bin].current += one.page_bins[bin].current;
  }
  return true;
}

// What a sub-process has is what its heaps have, and what is of none. Returns the number of heaps.
static int check_sums(mi_subproc_id_t subproc) {
  mi_stats_init(&all);
  mi_stats_init(&exclusive);
  assert_true(mi_subproc_stats_get(subproc, &all));
  assert_true(mi_subproc_stats_get_exclusive(subproc, &exclusive));
  check_pages(&all);
  int64_t made = 0;
  for (size_t bin = 0; bin < MI_BIN_COUNT - 1; bin++) made += all.page_bins[bin].total;
  assert_int_equal(made, all.pages.total);
  sum = exclusive;
  int count = 0;
  assert_true(mi_subproc_visit_heaps(subproc, &add_heap, &count));
#define MI_STAT_COUNT(field)                                                                       \
  if (sum.field.current != all.field.current)                                                      \
    fail_msg(#field ": %lld, the parts have %lld", (long long)all.field.current,                   \
             (long long)sum.field.current);
#define MI_STAT_COUNTER(field)                                                                     \
  if (sum.field.total != all.field.total)                                                          \
    fail_msg(#field ": %lld, the parts have %lld", (long long)all.field.total,                     \
             (long long)sum.field.total);
  MI_STAT_FIELDS()
#undef MI_STAT_COUNT
#undef MI_STAT_COUNTER
  assert_int_equal(sum.pages.total, all.pages.total);
  assert_int_equal(sum.malloc_huge.total, all.malloc_huge.total);
  for (size_t bin = 0; bin < MI_BIN_COUNT; bin++) {
    assert_int_equal(sum.malloc_bins[bin].current, all.malloc_bins[bin].current);
    assert_int_equal(sum.page_bins[bin].current, all.page_bins[bin].current);
  }
  assert_int_equal(exclusive.pages.total + exclusive.malloc_normal.current, 0);
  assert_true(exclusive.reserved.current > 0);
  assert_int_equal(count, all.heaps.current);
  return count;
}

// If this fails, memory is missing in the sum of all heaps, or is in it twice.
static void statistics_add_up(void** state) {
  (void)state;
  test_skip_if_tracked();
  const int count = check_sums(mi_subproc_main());
  mi_heap_t* const a = mi_heap_new();
  mi_heap_t* const b = mi_heap_new();
  allocate_all_in(a);
  void* const p = mi_heap_malloc(b, 1000);
  assert_int_equal(check_sums(mi_subproc_main()), count + 2);
  assert_true(all.theaps.current >= all.threads.current + 2);
  free_all();
  const int64_t theaps = all.theaps.total;
  mi_heap_destroy(a);
  assert_int_equal(check_sums(mi_subproc_main()), count + 1);
  mi_heap_delete(b);
  assert_int_equal(check_sums(mi_subproc_main()), count);
  assert_int_equal(all.theaps.total, theaps); // none was made
  mi_free(p);
  assert_int_equal(check_sums(mi_subproc_main()), count);
}

// If this fails, the blocks of a heap that was deleted are nowhere: memory that nobody can find.
static void statistics_of_a_deleted_heap_move(void** state) {
  (void)state;
  test_skip_if_guarded("guarded blocks count as large");
  test_skip_if_tracked();
  mi_heap_t* const heap = mi_heap_new();
  allocate_all_in(heap);
  take_heap(NULL, &before);
  check_sums(mi_subproc_main());
  const mi_stats_t made = all;
  take_heap(heap, &one);
  const mi_stats_t of_heap = one;
  mi_heap_delete(heap);
  take_heap(NULL, &after);
  check_growth();
  assert_int_equal(after.pages.current, before.pages.current + of_heap.pages.current);
  assert_int_equal(after.pages.total, before.pages.total + of_heap.pages.total);
  assert_int_equal(after.malloc_huge.total, before.malloc_huge.total + large_bytes);
  assert_true(after.malloc_huge.peak >= before.malloc_huge.current + large_bytes);
  check_sums(mi_subproc_main());
  assert_int_equal(all.malloc_normal.current, made.malloc_normal.current);
  assert_int_equal(all.pages.total, made.pages.total);
  // A heap that uses the same structure starts with nothing.
  mi_heap_t* const next = mi_heap_new();
  take_heap(next, &one);
  assert_true(is_empty(&one));
  mi_heap_delete(next);
  free_all();
  take_heap(NULL, &after);
  assert_int_equal(after.malloc_normal.current, before.malloc_normal.current);
  assert_int_equal(after.malloc_huge.current, before.malloc_huge.current);
}

// If this fails, the main heap never had what it got from others.
static void statistics_of_a_deleted_heap_count_for_peaks(void** state) {
  (void)state;
  take_heap(NULL, &before);
  const int64_t more = before.malloc_huge.peak - before.malloc_huge.current + (int64_t)TEST_MIB;
  mi_heap_t* const heap = mi_heap_new();
  void* const p = mi_heap_malloc(heap, (size_t)more);
  mi_heap_delete(heap);
  mi_free(p);
  take_heap(NULL, &after);
  assert_int_equal(after.malloc_huge.current, before.malloc_huge.current);
  assert_true(after.malloc_huge.peak >= before.malloc_huge.current + more);
}

#define RACE_ROUNDS 300
#define RACE_BLOCKS 40
static void* race_blocks[RACE_BLOCKS];
static pthread_barrier_t race_start;

static void* run_race(void* arg) {
  for (int round = 0; round < RACE_ROUNDS; round++) {
    pthread_barrier_wait(&race_start);
    for (int i = 0; i < RACE_BLOCKS; i++) mi_free(race_blocks[i]);
    pthread_barrier_wait(&race_start);
  }
  return arg;
}

// If this fails, figures drift away in a program that deletes heaps while their blocks are freed.
static void statistics_survive_frees_during_a_delete(void** state) {
  (void)state;
  test_skip_if_guarded("what libc keeps of a thread counts as large, too");
  take(&before);
  pthread_t thread;
  pthread_barrier_init(&race_start, NULL, 2);
  assert_int_equal(pthread_create(&thread, NULL, &run_race, NULL), 0);
  for (int round = 0; round < RACE_ROUNDS; round++) {
    mi_heap_t* const heap = mi_heap_new();
    for (int i = 0; i < RACE_BLOCKS; i++) {
      // Each with a page of its own, or the only one of a page that is full.
      race_blocks[i] = i % 2 == 0 ? mi_heap_malloc_aligned(heap, 100, 128 * TEST_KIB)
                                  : mi_heap_malloc(heap, 65000);
    }
    pthread_barrier_wait(&race_start);
    mi_heap_delete(heap);
    pthread_barrier_wait(&race_start);
    check_sums(mi_subproc_main());
    assert_int_equal(all.malloc_huge.current, before.malloc_huge.current);
  }
  assert_int_equal(pthread_join(thread, NULL), 0);
  pthread_barrier_destroy(&race_start);
}

// If this fails, a heap that was destroyed seems to leak, or never to have been.
static void statistics_of_a_destroyed_heap_go(void** state) {
  (void)state;
  test_skip_if_guarded("guarded blocks count as large");
  test_skip_if_tracked();
  mi_heap_t* const heap = mi_heap_new();
  take(&one);
  allocate_all_in(heap);
  take_heap(NULL, &before);
  mi_heap_destroy(heap);
  take_heap(NULL, &after);
  assert_int_equal(after.malloc_normal.current, before.malloc_normal.current);
  assert_int_equal(after.malloc_huge.current, before.malloc_huge.current);
  assert_int_equal(after.pages.current, before.pages.current);
  take(&after);
  assert_int_equal(after.malloc_normal.current, one.malloc_normal.current);
  assert_int_equal(after.malloc_huge.current, one.malloc_huge.current);
  assert_int_equal(after.malloc_huge.total, one.malloc_huge.total + large_bytes);
  assert_true(after.pages.total > one.pages.total);
  check_sums(mi_subproc_main());
}

static void* run_half_in(void* heap) {
  allocate_all_in((mi_heap_t*)heap);
  for (size_t i = 0; i < SMALL_COUNT; i += 2) mi_free(blocks[i]);
  return NULL;
}

// If this fails, memory that waits for a thread to take it over cannot be seen.
static void statistics_show_abandoned_pages(void** state) {
  (void)state;
  test_skip_if_guarded("guarded blocks count as large");
  test_skip_if_tracked();
  mi_heap_t* const heap = mi_heap_new();
  in_thread(&run_half_in, heap);
  take_heap(heap, &before);
  assert_int_equal(before.malloc_bins[bin_of(64)].current, SMALL_COUNT / 2);
  assert_true(before.pages_abandoned.current > 0);
  assert_true(before.pages_abandoned.total >= before.pages_abandoned.current);
  assert_int_equal(before.pages_reclaim_on_alloc.total, 0);
  assert_non_null(mi_heap_malloc(heap, 64));
  take_heap(heap, &after);
  assert_int_equal(after.pages_abandoned.current, before.pages_abandoned.current - 1);
  assert_int_equal(after.pages_abandoned.total, before.pages_abandoned.total);
  assert_int_equal(after.pages_reclaim_on_alloc.total, 1);
  assert_int_equal(after.malloc_bins[bin_of(64)].current, SMALL_COUNT / 2 + 1);
  mi_heap_destroy(heap);
}

// -- Sub-processes --

static void* run_in_subproc(void* id) {
  const mi_subproc_id_t subproc = *(mi_subproc_id_t*)id;
  mi_subproc_add_current_thread(subproc);
  take(&before);
  allocate_all();
  take(&after);
  check_growth();
  assert_true(after.threads.current == 1 && after.heaps.current == 1);
  mi_stats_init(&one);
  assert_true(mi_subproc_stats_get(subproc, &one));
  assert_memory_equal(&one, &after, sizeof(one));
  check_sums(subproc);
  free_all();
  return NULL;
}

static size_t process_commit(void) {
  size_t commit;
  size_t peak;
  mi_process_info(NULL, NULL, NULL, NULL, NULL, &commit, &peak, NULL);
  assert_true(peak >= commit);
  return commit;
}

// If this fails, one tenant is charged for the memory of another.
static void statistics_of_subprocs_are_apart(void** state) {
  (void)state;
  test_skip_if_guarded("guarded blocks count as large");
  test_skip_if_tracked();
  mi_subproc_id_t subproc = mi_subproc_new();
  in_thread(&run_in_subproc, &subproc);
  take(&before); // of this thread's: the main one
  const size_t commit = process_commit();
  mi_heap_t* const heap = mi_heap_new();
  allocate_all_in(heap);
  mi_stats_init(&one);
  assert_true(mi_subproc_stats_get(subproc, &one));
  assert_int_equal(one.malloc_huge.current, 0);
  assert_int_equal(one.malloc_huge.total, large_bytes);
  assert_int_equal(one.threads.current, 0);
  take(&after);
  check_growth();
  assert_int_equal(process_commit() - commit, after.committed.current - before.committed.current);
  assert_int_equal(process_commit(), after.committed.current + one.committed.current);
  mi_heap_destroy(heap);
  // What it had in all is the process's.
  take(&before);
  mi_subproc_destroy(subproc);
  take(&after);
  assert_int_equal(after.malloc_huge.total, before.malloc_huge.total + one.malloc_huge.total);
  assert_int_equal(after.pages.total, before.pages.total + one.pages.total);
  assert_int_equal(after.heaps.current, before.heaps.current);
  assert_int_equal(after.heaps.total, before.heaps.total + 1);
  // One that uses the same structure starts with nothing but its main heap.
  subproc = mi_subproc_new();
  mi_stats_init(&one);
  assert_true(mi_subproc_stats_get(subproc, &one));
  assert_true(one.heaps.total == 1 && one.heaps.peak == 1 && one.heaps.current == 1);
  assert_int_equal(
      one.theaps.total + one.pages.total + one.malloc_huge.total + one.mmap_calls.total, 0);
  mi_subproc_destroy(subproc);
}

#define PURGED_COUNT 20
#define PURGED_SIZE (400 * TEST_KIB)

// What is free now goes back to the system.
static void purge_some(void) {
  void* some[PURGED_COUNT];
  for (size_t i = 0; i < PURGED_COUNT; i++)
    some[i] = memset(mi_malloc(PURGED_SIZE), 1, PURGED_SIZE);
  for (size_t i = 0; i < PURGED_COUNT; i++) mi_free(some[i]);
  mi_collect(true);
}

// If this fails, nobody sees whether memory goes back to the system.
static void statistics_count_purges(void** state) {
  (void)state;
  test_skip_if_guarded("guarded blocks give their contents back when they are freed");
  const int64_t bytes = (int64_t)(PURGED_COUNT * PURGED_SIZE);
  mi_collect(true);
  take(&before);
  purge_some();
  take(&after);
  assert_true(after.purged.total - before.purged.total >= bytes);
  assert_true(after.purge_calls.total > before.purge_calls.total);
  assert_int_equal(after.arena_purges.total, after.purge_calls.total);
  assert_int_equal(after.reset.total, before.reset.total);
  // Nothing is reset there.
  if (after.commit_calls.total > 0) test_skip("this system counts what is usable");
  const long decommits = mi_option_get(mi_option_purge_decommits);
  mi_option_set(mi_option_purge_decommits, 0);
  purge_some();
  mi_option_set(mi_option_purge_decommits, decommits);
  take(&before);
  assert_true(before.reset.total - after.reset.total >= bytes);
  assert_true(before.reset_calls.total > after.reset_calls.total);
  assert_int_equal(before.purged.total, after.purged.total);
}

// -- While others run --

#define BUSY_THREADS 3
static _Atomic bool is_over;

static void* run_busy(void* arg) {
  uint64_t random = 77 + (uint64_t)(uintptr_t)arg;
  void* mine[200] = {0};
  while (!is_over) {
    mi_heap_t* const heap = mi_heap_new();
    for (int i = 0; i < 400; i++) {
      void** const at = &mine[random_below(&random, 200)];
      mi_free(*at);
      // With that alignment a block has a page of its own.
      *at = i % 2 == 0
                ? mi_heap_malloc(heap, random_size(&random, 14))
                : mi_malloc_aligned(random_size(&random, 18), i % 20 == 1 ? 128 * TEST_KIB : 1);
    }
    mi_heap_delete(heap);
  }
  for (int i = 0; i < 200; i++) mi_free(mine[i]);
  return NULL;
}

static void ignore_text(const char* text, void* arg) {
  (void)text;
  (void)arg;
}

static void check_plausible(const mi_stats_t* stats) {
  const int64_t most = (int64_t)TEST_GIB;
  assert_in_range(stats->malloc_normal.current, 0, most);
  assert_in_range(stats->page_committed.current, 0, most);
  for (size_t bin = 0; bin < MI_BIN_COUNT; bin++) {
    assert_in_range(stats->malloc_bins[bin].current, 0, most);
  }
}

// If this fails, looking at a server while it works makes it fall over, or shows nonsense.
static void statistics_are_safe_while_others_run(void** state) {
  (void)state;
  test_skip_if_guarded("what libc keeps of a thread counts as large, too");
  pthread_t threads[BUSY_THREADS];
  is_over = false;
  take(&before);
  for (size_t i = 0; i < BUSY_THREADS; i++) {
    assert_int_equal(pthread_create(&threads[i], NULL, &run_busy, (void*)(uintptr_t)i), 0);
  }
  for (int i = 0; i < 300; i++) {
    take(&after);
    check_plausible(&after);
    take_heap(NULL, &one);
    check_plausible(&one);
    mi_subproc_heap_stats_print_out(mi_subproc_main(), &ignore_text, NULL);
  }
  is_over = true;
  for (size_t i = 0; i < BUSY_THREADS; i++) assert_int_equal(pthread_join(threads[i], NULL), 0);
  check_sums(mi_subproc_main());
  assert_int_equal(all.malloc_huge.current, before.malloc_huge.current);
  assert_int_equal(all.heaps.current, before.heaps.current);
}

// -- Text --

static char report[64 * TEST_KIB];

static void keep_text(const char* text, void* arg) {
  const size_t length = strlen(text);
  assert_ptr_equal(arg, report);
  assert_true(length > 0 && length <= 255 && text[length - 1] == '\n');
  assert_true(strlen(report) + length < sizeof(report));
  strcat(report, text);
}

// How often a line starts like this.
static int lines_with(const char* start) {
  int count = 0;
  for (const char* line = report; *line != 0; line = strchr(line, '\n') + 1) {
    if (strncmp(line, start, strlen(start)) == 0) count++;
  }
  return count;
}

// If this fails, the report of a heap is of something else, or cannot be read.
static void text_of_a_heap(void** state) {
  (void)state;
  test_skip_if_guarded("guarded blocks count as large");
  test_skip_if_tracked();
  mi_heap_t* const heap = mi_heap_new();
  void* small[3];
  for (int i = 0; i < 3; i++) small[i] = mi_heap_malloc(heap, 512);
  void* const large = mi_heap_malloc(heap, 3 * TEST_MIB);
  report[0] = 0;
  mi_heap_stats_print_out(heap, &keep_text, report);
  assert_int_equal(strncmp(report, "heap ", 5), 0);
  assert_true(strtol(report + 5, NULL, 10) > 0);
  assert_int_equal(lines_with(" blocks            peak       total     current"), 1);
  assert_int_equal(lines_with(" pages             peak       total     current"), 1);
  assert_int_equal(lines_with(" arenas") + lines_with(" process") + lines_with("subproc"), 0);
  char line[200];
  const size_t bin = bin_of(512);
  snprintf(line, sizeof(line), "  bin S %4zu:%36s%12s%12s\n", bin, "1.5 KiB", "512 B", "3");
  assert_int_equal(lines_with(line), 1);
  assert_int_equal(lines_with("  bin "), 1);
  snprintf(line, sizeof(line), "  binned    :%36s%24s\n", "1.5 KiB", "3");
  assert_int_equal(lines_with(line), 1);
  snprintf(line, sizeof(line), "  huge      :%12s%12s%12s%24s\n", "3.0 MiB", "3.0 MiB", "3.0 MiB",
           "1");
  assert_int_equal(lines_with(line), 1);
  for (int i = 0; i < 3; i++) mi_free(small[i]);
  mi_free(large);
  mi_heap_destroy(heap);
}

// If this fails, some heap of a program is missing in its report.
static void text_of_a_subproc_and_its_heaps(void** state) {
  (void)state;
  mi_heap_t* const heaps[2] = {mi_heap_new(), mi_heap_new()};
  report[0] = 0;
  mi_subproc_heap_stats_print_out(mi_subproc_main(), &keep_text, report);
  take(&after);
  assert_int_equal(lines_with("heap "), (int)after.heaps.current);
  assert_int_equal(lines_with("heap 0\n"), 1);
  assert_int_equal(strncmp(report, "heap 0\n", 7), 0);
  assert_int_equal(lines_with("subproc 0\n"), 1);
  assert_int_equal(lines_with("subproc"), 1);
  assert_true(strstr(report, "subproc 0") > strstr(report, "heap 0"));
  assert_int_equal(lines_with(" arenas            peak"), 1);
  assert_int_equal(lines_with(" process           peak"), 1);
  mi_heap_destroy(heaps[0]);
  mi_heap_destroy(heaps[1]);
  const mi_subproc_id_t subproc = mi_subproc_new();
  report[0] = 0;
  mi_subproc_stats_print_out(subproc, &keep_text, report);
  assert_int_equal(lines_with("subproc 0") + lines_with("heap"), 0);
  assert_int_equal(lines_with("subproc "), 1);
  mi_subproc_destroy(subproc);
  report[0] = 0;
  mi_subproc_stats_print_out((mi_subproc_id_t){NULL}, &keep_text, report);
  mi_subproc_heap_stats_print_out((mi_subproc_id_t){NULL}, &keep_text, report);
  assert_string_equal(report, "");
}

static int printed;

static void count_text(const char* text, void* arg) {
  assert_null(arg);
  if (strcmp(text, "subproc 0\n") == 0) printed++;
}

// If this fails, a program of an older version prints nothing.
static void text_under_older_names(void** state) {
  (void)state;
  printed = 0;
  mi_thread_stats_print(&count_text);
  mi_thread_stats_print_out(&count_text, NULL);
  assert_int_equal(printed, 2);
  mi_register_output(&count_text, NULL);
  mi_stats_print(NULL);
  mi_thread_stats_print(NULL);
  mi_register_output(NULL, NULL);
  assert_int_equal(printed, 4);
  take(&before);
  mi_stats_reset();
  mi_stats_merge();
  mi_heap_stats_merge_to_subproc(mi_heap_main());
  mi_heap_stats_merge_to_main(NULL);
  take(&after);
  assert_memory_equal(&before, &after, sizeof(before));
}

// If this fails, a dashboard shows peaks below what is there.
static void statistics_are_in_order(void** state) {
  (void)state;
  test_skip_if_guarded("there may be no page of blocks");
  test_skip_if_tracked();
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
  assert_true(after.heaps.current == 1 && after.heaps.peak >= 1 && after.arena_count.total >= 1);
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
  assert_false(mi_heap_stats_get(NULL, &stats));
  assert_false(mi_subproc_stats_get(mi_subproc_main(), &stats));
  assert_false(mi_subproc_stats_get_exclusive(mi_subproc_main(), &stats));
  assert_int_equal(stats.threads.total, 7777);
  mi_stats_init(&stats);
  const mi_subproc_id_t none = {NULL};
  assert_false(mi_subproc_stats_get(none, &stats));
  assert_false(mi_subproc_stats_get_exclusive(none, &stats));
  assert_null(mi_subproc_stats_get_json(none, 0, NULL));
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
      cmocka_unit_test(statistics_of_a_heap_are_exact),
      cmocka_unit_test(statistics_add_up),
      cmocka_unit_test(statistics_of_a_deleted_heap_move),
      cmocka_unit_test(statistics_of_a_deleted_heap_count_for_peaks),
      cmocka_unit_test(statistics_survive_frees_during_a_delete),
      cmocka_unit_test(statistics_of_a_destroyed_heap_go),
      cmocka_unit_test(statistics_show_abandoned_pages),
      cmocka_unit_test(statistics_of_subprocs_are_apart),
      cmocka_unit_test(statistics_count_purges),
      cmocka_unit_test(statistics_are_safe_while_others_run),
      cmocka_unit_test(text_of_a_heap),
      cmocka_unit_test(text_of_a_subproc_and_its_heaps),
      cmocka_unit_test(text_under_older_names),
      cmocka_unit_test(statistics_are_in_order),
      cmocka_unit_test(statistics_refuse_other_layouts),
      cmocka_unit_test(bins_have_sizes),
      cmocka_unit_test(json_fits_or_is_not),
      cmocka_unit_test(json_of_now),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
