// SPDX-License-Identifier: MIT
// budget.c - tests of arenas/budget.c, in a container whose limit and other processes the tests
// make: BUDGET-1 to BUDGET-7, RETAIN-8.
#include <limits.h>

#include "unit.h"

#include "core/arenas/slices.h"
#include "core/heaps/heaps.h"

#define FIRST 128 // slices: as budget.c says
#define LIMIT 2048 // slices
#define PART 4
#define SHORT 8

static mi_run_t held[2 * LIMIT];
static size_t held_count;
static size_t others; // slices in use besides those that the test holds

static size_t looks(void) { return os_fake_calls(OS_FAKE_LIMIT); }

static size_t resident(void) { return os_fake_resident_all() / MI_SLICE_SIZE; }

static size_t in_slices(int64_t bytes) { return (size_t)bytes / MI_SLICE_SIZE; }

static size_t waiting(void) {
  return in_slices(mi_atomic_load_relaxed(&mi_state.main.purge_waiting));
}

static void claim(size_t count) {
  for (size_t i = 0; i < count; i++) {
    mi_run_t* const run = &held[held_count++];
    check(mi_slices_claim(UNIT_HEAP, 1, MI_SLICE_SIZE, 0, run));
    memset(run->start, 1, MI_SLICE_SIZE);
  }
}

// Release the slices that were claimed last.
static void release(size_t count) {
  for (size_t i = 0; i < count; i++) {
    const mi_run_t run = held[--held_count];
    mi_slices_release(run.arena, run.slice_index, 1, MI_SLICE_SIZE);
    mi_retain_bound(&mi_state.main);
  }
}

// A process in a container of `limit` slices besides what it has at the start; 0: without a limit.
static void start(size_t limit) {
  mi_process_setup();
  unit_reserve(4 * LIMIT * MI_SLICE_SIZE);
  unit_theap();
  others = in_slices(mi_atomic_load_relaxed(&mi_state.main.count.committed));
  held_count = 0;
  os_fake.has_limit = true;
  os_fake.limit.limit = limit == 0 ? UINT64_MAX : limit * MI_SLICE_SIZE + os_fake_resident_all();
}

// Slices that may be in use besides those that are, as far as the library knows.
static size_t room(void) {
  const int64_t committed = mi_atomic_load_relaxed(&mi_state.main.count.committed);
  return in_slices(mi_budget_room(&mi_state.main, committed - mi_state.main.purge_waiting));
}

// Time goes by, in which the program uses fresh memory.
static void let_pass(void) {
  for (size_t ms = 0; ms < 3000; ms += 100) {
    mi_purge_everything(&mi_state.main);
    claim(1);
    release(1);
    os_fake_advance_ms(100);
  }
}

// If this fails, a program that asks for too much once is not told any more when memory is short.
UNIT_TEST_PAGE_SIZES(budget_is_not_moved_by_what_is_refused) {
  start(LIMIT);
  claim(1);
  const int64_t at = mi_atomic_load_relaxed(&mi_state.main.budget_at);
  check(mi_malloc((size_t)1 << (MI_ADDRESS_BITS - 1)) == NULL);
  check_equal(mi_atomic_load_relaxed(&mi_state.main.budget_at), at);
  release(1);
}

// If this fails, a small program opens files, or a large one does so all the time.
UNIT_TEST_PAGE_SIZES(budget_is_looked_for_by_large_programs) {
  start(0);
  claim(FIRST - others - 1);
  check_equal(looks(), 0);
  claim(1);
  check_equal(looks(), 1);
  claim(FIRST - 1);
  check_equal(looks(), 1);
  claim(2 * LIMIT - held_count);
  check(looks() >= 4 && looks() <= 6); // each time the heap has doubled
  release(held_count);
}

// If this fails, memory that is free stays with the process until its container has no more.
UNIT_TEST_PAGE_SIZES(budget_bounds_what_waits) {
  start(LIMIT);
  claim(LIMIT / 2);
  release(LIMIT / 4);
  check(waiting() > LIMIT / 16); // a part may wait
  while (held_count < LIMIT - 64) {
    claim(64);
    check(resident() <= others + held_count + (LIMIT - held_count) / PART + 1);
    const size_t before = resident() + MI_IS_TINY; // an OS page of a map may be a slice
    release(32);
    check(waiting() <= (LIMIT - held_count) / PART + 1);
    check(resident() <= before);
  }
  check(resident() <= LIMIT + others);
  release(held_count);
}

// If this fails, the library does not notice that others take the memory of its container, or that
// they give it back.
UNIT_TEST_PAGE_SIZES(budget_follows_others) {
  start(LIMIT);
  claim(LIMIT / 2 + 256);
  release(256);
  check(waiting() >= 255 - 255 / 32 - 1); // and the run that is kept whole (spare.c)
  check(room() <= LIMIT / 2 && room() >= LIMIT / 2 - 16);
  os_fake.limit.used = (LIMIT / 2 - 256) * MI_SLICE_SIZE;
  let_pass();
  check(room() <= 256 && room() >= 256 - 16);
  os_fake.limit.used = 0;
  let_pass();
  check(room() <= LIMIT / 2 && room() >= LIMIT / 2 - 16);
  release(held_count);
}

// If this fails, the library looks at the limit with each allocation near it.
UNIT_TEST_PAGE_SIZES(budget_is_looked_for_in_steps) {
  start(LIMIT);
  claim(LIMIT - 64);
  const size_t before = looks();
  check(before <= 40);
  claim(64);
  check(looks() - before <= 64 / 16 + 1);
  release(held_count);
}

// If this fails, a filter of system calls ends a program in a container.
UNIT_TEST_PAGE_SIZES(budget_opens_nothing_in_a_sandbox) {
  start(LIMIT);
  mi_budget_enter_sandbox();
  check_equal(looks(), 1);
  mi_budget_enter_sandbox();
  claim(LIMIT - 64);
  os_fake_advance_ms(5000);
  release(64);
  mi_retain_poll(&mi_state.main);
  check_equal(looks(), 1);
  check(waiting() <= 128 / PART + 1); // what was known then still counts
  release(held_count);
}

// If this fails, a limit that the program sets does nothing, or files are opened all the same.
UNIT_TEST_PAGE_SIZES(budget_is_an_option) {
  start(64); // is not looked at
  unit_option(memory_limit, (LIMIT + others) * MI_SLICE_SIZE / MI_KIB);
  claim(LIMIT - 64);
  release(128);
  check(waiting() <= (64 + 128) / PART + 1);
  claim(128);
  unit_option(memory_limit, LONG_MAX);
  check(mi_budget_room(&mi_state.main, 0) == MI_BUDGET_NONE);
  unit_option(memory_limit, LONG_MIN); // in KiB less than can be told in bytes
  check(mi_budget_room(&mi_state.main, 0) == MI_BUDGET_NONE);
  unit_option(memory_limit, -1);
  release(256);
  check(waiting() >= 255);
  check_equal(looks(), 0);
  unit_option(memory_limit, 2 * LIMIT * MI_SLICE_SIZE / MI_KIB);
  release(1);
  check(waiting() >= 256);
  unit_option(memory_limit, LIMIT / 2 * MI_SLICE_SIZE / MI_KIB); // less than is in use
  release(1);
  check(waiting() < 16);
  release(held_count);
}

// If this fails, memory waits although processes cannot go on without some.
UNIT_TEST_PAGE_SIZES(budget_is_nothing_under_pressure) {
  start(0);
  claim(LIMIT);
  release(512); // so much that the clock is read from now on
  check(waiting() > 256);
  os_fake.limit.is_short = true;
  let_pass();
  check_equal(room(), 0);
  claim(64);
  release(64);
  check(waiting() < 16);
  os_fake.limit.is_short = false;
  let_pass();
  check(mi_budget_room(&mi_state.main, 0) == MI_BUDGET_NONE);
  release(held_count);
}

// If this fails, a container is filled with memory that nobody has asked for.
UNIT_TEST_PAGE_SIZES(budget_keeps_nothing_ahead) {
  const size_t large = 16 * MI_CHUNK_SLICES; // from here on there are huge pages: huge.c
  start(large + 4 * MI_CHUNK_SLICES);
  claim(large);
  mi_run_t run = {0};
  for (size_t i = 0; i < 6; i++) {
    const size_t room = large + 4 * MI_CHUNK_SLICES - held_count;
    const size_t before = os_fake_calls(OS_FAKE_POPULATE_HUGE);
    check(mi_slices_claim(UNIT_HEAP, 1, MI_SLICE_SIZE, MI_TOUCHED_BY_BLOCKS, &run));
    const bool is_ahead = os_fake_calls(OS_FAKE_POPULATE_HUGE) > before;
    const size_t bound = (large + 4 * MI_CHUNK_SLICES) / SHORT;
    if (room > bound + MI_CHUNK_SLICES) check(is_ahead);
    if (room < bound) check(!is_ahead);
    mi_slices_release(run.arena, run.slice_index, 1, MI_SLICE_SIZE);
    mi_purge_everything(&mi_state.main);
    claim(MI_CHUNK_SLICES / 2);
  }
  release(held_count);
}

// Until the thread has noticed that it is asked: each call fills the list of a class.
static void make_slow_calls(mi_theap_t* theap) {
  for (size_t size = 16; mi_budget_asks(theap); size += 16) {
    check(size < 16384);
    mi_free(mi_malloc(size));
  }
}

// If this fails, threads keep what they do not use while their container runs out of memory; or
// they look for it with each allocation.
UNIT_TEST_PAGE_SIZES(budget_asks_threads) {
  static void* p[2];
  start(LIMIT);
  mi_theap_t* const theap = unit_theap();
  p[0] = mi_malloc(512);
  p[1] = mi_malloc(1024);
  claim(LIMIT / 2);
  check(!mi_budget_asks(theap));
  claim(LIMIT / 2 - 64);
  check(mi_budget_asks(theap));
  check(mi_theap_current(theap, mi_class_of(512)) != NULL);
  mi_run_t run = {0}; // free memory that waits: what all share
  check(mi_slices_claim(UNIT_HEAP, 2, MI_SLICE_SIZE, 0, &run));
  memset(run.start, 1, 2 * MI_SLICE_SIZE);
  mi_slices_release(run.arena, run.slice_index, 2, MI_SLICE_SIZE);
  const size_t purges = os_fake_calls(OS_FAKE_PURGE);
  make_slow_calls(theap);
  check(os_fake_calls(OS_FAKE_PURGE) > purges);
  check(mi_theap_current(theap, mi_class_of(512)) == NULL); // it was given up
  check_equal(mi_state.shortage, mi_state.shortage_met);
  const uint32_t asked = mi_state.shortage;
  for (size_t i = 0; i < 8; i++) {
    release(1);
    claim(1);
  }
  check_equal(mi_state.shortage, asked);
  // Another thread has collected already: this one gives up its own pages.
  void* const p2 = mi_malloc(512);
  check(mi_theap_current(theap, mi_class_of(512)) != NULL);
  mi_atomic_store_relaxed(&mi_state.shortage, asked + 1);
  mi_atomic_store_relaxed(&mi_state.shortage_met, asked + 1);
  make_slow_calls(theap);
  check(mi_theap_current(theap, mi_class_of(512)) == NULL);
  mi_free(p2);
  mi_free(p[0]);
  mi_free(p[1]);
  release(held_count);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(budget_is_not_moved_by_what_is_refused),
      cmocka_unit_test(budget_is_looked_for_by_large_programs),
      cmocka_unit_test(budget_bounds_what_waits),
      cmocka_unit_test(budget_follows_others),
      cmocka_unit_test(budget_is_looked_for_in_steps),
      cmocka_unit_test(budget_opens_nothing_in_a_sandbox),
      cmocka_unit_test(budget_is_an_option),
      cmocka_unit_test(budget_is_nothing_under_pressure),
      cmocka_unit_test(budget_keeps_nothing_ahead),
      cmocka_unit_test(budget_asks_threads),
  };
  return cmocka_run_group_tests_name("budget", tests, NULL, NULL);
}
