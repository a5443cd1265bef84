// SPDX-License-Identifier: MIT
// lock.c - tests of src/os/lock.h and assert.c: what debug builds notice of locks, and what a
// failed assertion says. Each mistake is made in a child, which must end and name it.
#include "unit.h"

#include <signal.h>

#include "core/common/meta.h"
#include "core/pages/page.h"
#include "core/pages/remote.h"
#include "core/common/report.h"
#include "spawn.h"

static spawn_result_t result;

static void ends_with(void (*mistake)(void), const char* text) {
  check(spawn_fork(mistake, &result));
  if (result.signal != SIGABRT || spawn_count(&result, text) != 1) {
    fprintf(stderr, "signal %d, not SIGABRT with \"%s\":\n%s\n", result.signal, text,
            result.output);
    check(!"the mistake is named");
  }
}

static void wrong_order(void) {
  mi_lock_enter(&mi_state.purge_lock);
  mi_lock_enter(&mi_state.thread_lock);
}

static void taken_twice(void) {
  mi_lock_enter(&mi_state.thread_lock);
  mi_lock_enter(&mi_state.thread_lock);
}

static void not_held(void) {
  mi_lock_enter(&mi_state.thread_lock);
  mi_lock_leave(&mi_state.arena_lock);
}

static void left_twice(void) {
  mi_lock_enter(&mi_state.arena_lock);
  mi_lock_leave(&mi_state.arena_lock);
  mi_lock_leave(&mi_state.arena_lock);
}

static void not_ours(void) {
  static mi_lock_t other = {.rank = MI_RANK_ARENA, .name = "other"};
  mi_lock_enter(&mi_state.arena_lock);
  mi_lock_leave(&other);
}

static void not_entered(void) {
  mi_lock_enter(&mi_state.thread_lock);
  mi_meta_alloc(64);
}

static void hook_under_lock(void) {
  mi_lock_enter(&mi_state.arena_lock);
  mi_report(MI_ERROR_OUT_OF_MEMORY, "malloc", NULL, 1);
}

// A function that forgets to leave is found by the next slow malloc.
static void kept_for_ever(void) {
  mi_lock_enter(&mi_state.purge_lock);
  for (size_t size = 8; size <= MI_CLASS_MAX; size *= 2) mi_free(mi_malloc(size));
}

// If this fails, a deadlock between two threads that meets a user once a month stays in the code.
UNIT_TEST(lock_order_is_checked) {
  mi_free(mi_malloc(1));
  ends_with(&wrong_order, "waits for lock thread (rank 2) while it holds lock purge (rank 4)\n");
  ends_with(&taken_twice, "waits for lock thread (rank 2) while it holds lock thread (rank 2)\n");
  ends_with(&not_held, "leaves lock arena, which it does not hold; it holds thread\n");
  ends_with(&left_twice, "leaves lock arena, which it does not hold; it holds none\n");
  ends_with(&not_ours, "leaves lock other, which it does not hold; it holds arena\n");
  ends_with(&not_entered, "needs lock arena, which it does not hold; it holds thread\n");
  ends_with(&hook_under_lock, "calls a hook while it holds lock arena\n");
  ends_with(&kept_for_ever, "allocates while it holds lock purge\n");
}

// If this fails, the check stops programs that do nothing wrong.
UNIT_TEST(lock_order_allows_what_is_right) {
  mi_free(mi_malloc(1));
  for (size_t round = 0; round < 2; round++) {
    mi_lock_enter(&mi_state.thread_lock);
    mi_lock_enter(&mi_state.arena_lock);
    mi_lock_enter(&mi_state.purge_lock);
    check(!mi_lock_try_enter(&mi_state.thread_lock));
    mi_lock_leave(&mi_state.arena_lock); // in any order
    mi_lock_leave(&mi_state.purge_lock);
    mi_lock_leave(&mi_state.thread_lock);
    check_equal(mi_self()->locks_held, 0);
  }
}

static size_t left_count;
static void count_left(void) {
  check_equal(mi_self()->locks_held, 0);
  left_count++;
}

// If this fails, reports that wait for a lock to be left are never made, or while it is held.
UNIT_TEST(lock_calls_when_it_was_left) {
  mi_lock_t lock = {.on_left = &count_left};
  mi_lock_enter(&lock);
  check_equal(left_count, 0);
  mi_lock_leave(&lock);
  check_equal(left_count, 1);
  check(mi_lock_try_enter(&lock));
  mi_lock_leave(&lock);
  check_equal(left_count, 2);
}

static void* block;

static void broken_page(void) {
  mi_page_t* const page = unit_page_of(block);
  page->place = MI_PLACE_GUEST;
  mi_pool_give_up(page);
}

// If this fails, nobody knows which page, block or heap a failed assertion is about.
UNIT_TEST(lock_assertion_describes_its_page) {
  block = mi_malloc(100);
  ends_with(&broken_page, "pool.c\":");
  check_equal(spawn_count(&result, "mimalloc: assertion failed: at \""), 1);
  check_equal(spawn_count(&result, "assertion: \"page->place == MI_PLACE_NONE\"\n"), 1);
  char text[100];
  snprintf(text, sizeof(text), "page at %p of", (void*)unit_page_of(block)->start);
  check_equal(spawn_count(&result, "concerns: block 0 of"), 1);
  check_equal(spawn_count(&result, text), 1);
  check_equal(spawn_count(&result, "; main heap\n"), 1);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(lock_order_is_checked),
      cmocka_unit_test(lock_order_allows_what_is_right),
      cmocka_unit_test(lock_calls_when_it_was_left),
      cmocka_unit_test(lock_assertion_describes_its_page),
  };
  return cmocka_run_group_tests_name("lock", tests, NULL, NULL);
}
