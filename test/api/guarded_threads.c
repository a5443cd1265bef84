// SPDX-License-Identifier: MIT
// guarded_threads.c - guarded blocks in a program with threads: guards are switched while they run,
// from the first block of each on, and blocks are freed by others.
#include <mimalloc-profile.h>
#include <pthread.h>
#include <stdatomic.h>

#include "guards.h"

#define PASSED 400
static void* passed[PASSED];

static _Atomic(bool) is_over;
static _Atomic(size_t) loops;

static void* run_loop(void* arg) {
  (void)arg;
  while (!is_over) {
    for (size_t i = 0; i < 50; i++) mi_free(mi_malloc(i * 10));
    loops++;
  }
  return NULL;
}

static void wait_for_loops(size_t count) {
  const size_t goal = loops + count;
  while (loops < goal) sched_yield();
}

// If this fails, guards cannot be switched on in a server that runs, or not off again.
static void guarded_while_threads_run(void** state) {
  (void)state;
  need_guards();
  pthread_t threads[3];
  is_over = false;
  loops = 0;
  for (size_t i = 0; i < 3; i++)
    assert_int_equal(pthread_create(&threads[i], NULL, &run_loop, NULL), 0);
  for (size_t round = 0; round < 5; round++) {
    wait_for_loops(100);
    const size_t before = guarded_count();
    guard(10);
    // Threads look when they next refill slowly.
    while (guarded_count() < before + 100) wait_for_loops(10);
    guard(0);
    size_t last;
    do {
      last = guarded_count();
      wait_for_loops(3000);
    } while (guarded_count() != last);
  }
  is_over = true;
  for (size_t i = 0; i < 3; i++) pthread_join(threads[i], NULL);
}

static void* free_passed(void* arg) {
  (void)arg;
  for (size_t i = 0; i < PASSED; i++) mi_free(passed[i]);
  return NULL;
}

// If this fails, a block that another thread frees stays accessible, or is freed twice.
static void guarded_freed_by_others(void** state) {
  (void)state;
  need_guards();
  guard(1);
  for (size_t round = 0; round < 5; round++) {
    for (size_t i = 0; i < PASSED; i++) passed[i] = mi_malloc(i * 7);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, &free_passed, NULL), 0);
    pthread_join(thread, NULL);
    for (size_t i = 0; i < PASSED; i++) passed[i] = NULL;
  }
}

#define FIRST_COUNT ((size_t)96)
typedef struct {
  size_t size, alignment;
  bool is_in_heap;
} first_t;

// The first block of a thread, or of its part of a heap.
static void* use_first(void* arg) {
  const first_t* const first = (first_t*)arg;
  mi_heap_t* const heap = first->is_in_heap ? mi_heap_new() : NULL;
  void* const p = heap != NULL ? mi_heap_malloc_aligned(heap, first->size, first->alignment)
                               : mi_malloc_aligned(first->size, first->alignment);
  const size_t usable = mi_usable_size(p);
  const bool is_good = p != NULL && test_is_aligned(p, first->alignment) && usable >= first->size &&
                       usable < first->size + first->alignment;
  if (p != NULL) memset(p, 1, first->size);
  mi_free(p); // finds what was written behind it
  if (heap != NULL) mi_heap_delete(heap);
  return is_good ? arg : NULL;
}

// If this fails, the last byte of the first block of a thread is no part of it, if the size is a
// multiple of the alignment, and a program that writes it is told that it is wrong.
static void guarded_first_blocks_of_threads(void** state) {
  (void)state;
  need_guards();
  guard(1);
  const size_t before = guarded_count();
  for (size_t i = 0; i < FIRST_COUNT; i++) {
    const size_t alignment = (size_t)16 << i / 2 % 4;
    first_t first = {alignment * (1 + i / 8), alignment, i % 2 != 0};
    if (i / 8 % 3 == 2) first.size--; // no multiple
    pthread_t thread;
    void* result;
    assert_int_equal(pthread_create(&thread, NULL, &use_first, &first), 0);
    pthread_join(thread, &result);
    assert_true(result == &first);
  }
  assert_in_range(guarded_count() - before, 90, FIRST_COUNT); // a theap may have blocks of before
}

// Free 50 fresh blocks of a heap, NULL: the main one. Returns how many of them had guards.
static size_t use_guarded(mi_heap_t* heap) {
  const size_t before = guarded_count();
  for (size_t i = 0; i < 50; i++) mi_free(mi_heap_malloc(heap, 100));
  return guarded_count() - before;
}

// Returns `arg` if as many blocks have guards as should: all if this thread asks for it.
static void* use_own(void* arg) {
  const bool* const asks = (const bool*)arg;
  mi_theap_t* const theap = mi_theap_get_default();
  if (*asks) {
    mi_theap_guarded_set_sample_rate(theap, 1, 0);
    mi_theap_guarded_set_size_bound(theap, 50, 200);
  }
  return use_guarded(NULL) == (*asks ? 50 : 0) ? arg : NULL;
}

// If this fails, each block of a thread, or of a heap, has guards because one that ended before had
// asked for that, and takes a page.
static void guarded_setting_ends_with_its_thread_and_heap(void** state) {
  (void)state;
  need_guards();
  for (size_t i = 0; i < 4; i++) {
    bool asks = i % 2 == 0;
    pthread_t thread;
    void* result;
    assert_int_equal(pthread_create(&thread, NULL, &use_own, &asks), 0);
    pthread_join(thread, &result);
    assert_true(result == &asks);
  }
  for (size_t i = 0; i < 8; i++) {
    mi_heap_t* const heap = mi_heap_new();
    const bool asks = i % 2 == 0;
    if (asks) mi_heap_guarded_set_sample_rate(heap, 1, 0);
    assert_int_equal(use_guarded(heap), asks ? 50 : 0);
    if (i < 4) {
      mi_heap_destroy(heap);
    } else {
      mi_heap_delete(heap);
    }
  }
}

// Returns `arg` if all blocks of a thread that asked for it have guards, until an option is set.
static void* use_own_beside_profile(void* arg) {
  mi_theap_guarded_set_sample_rate(mi_theap_get_default(), 1, 0);
  mi_theap_guarded_set_size_bound(mi_theap_get_default(), 50, 200);
  size_t guarded = use_guarded(NULL);
  mi_profile_start(1000);
  guarded += use_guarded(NULL);
  mi_profile_stop();
  guarded += use_guarded(NULL);
  mi_option_set(mi_option_guarded_min, mi_option_get(mi_option_guarded_min));
  return guarded == 150 && use_guarded(NULL) == 0 ? arg : NULL;
}

// If this fails, a thread that is watched is watched no more when a profile begins or ends.
static void guarded_setting_stays_when_a_profile_begins(void** state) {
  (void)state;
  need_guards();
  guard(0);
  int here;
  void* result;
  pthread_t thread;
  assert_int_equal(pthread_create(&thread, NULL, &use_own_beside_profile, &here), 0);
  pthread_join(thread, &result);
  assert_true(result == &here);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_teardown(guarded_while_threads_run, reset),
      cmocka_unit_test_teardown(guarded_freed_by_others, reset),
      cmocka_unit_test_teardown(guarded_first_blocks_of_threads, reset),
      cmocka_unit_test_teardown(guarded_setting_ends_with_its_thread_and_heap, reset),
      cmocka_unit_test_teardown(guarded_setting_stays_when_a_profile_begins, reset),
  };
  return cmocka_run_group_tests_name("guarded_threads", tests, NULL, NULL);
}
