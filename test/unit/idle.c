// SPDX-License-Identifier: MIT
// idle.c - tests of process/idle.c: IDLE-2 to IDLE-5, on a clock that stands still unless the test
// moves it.
#include "unit.h"

#include "core/pages/hole.h"
#include "core/process/process.h"
#include "mimalloc.h"

#define IDLE_MS ((uint64_t)(MI_IS_TINY ? 5 : 500))
#define STEP_MS ((uint64_t)5) // that the wait is longer
#define SIZE ((size_t)1000)
#define MUCH 300

static void* blocks[UNIT_BLOCKS_MAX];

static void work(void) { mi_free(mi_malloc(SIZE)); }

// Wait as long as the thread may. Returns that time, or MI_RETAIN_NEVER.
static uint64_t wait_until_due(void) {
  const uint64_t due = mi_idle_due();
  if (due != MI_RETAIN_NEVER) os_fake_advance_ms(due);
  return due;
}

// Wait and rest until nothing is due any more. Returns how often something was.
static size_t rest_all(void) {
  size_t count = 0;
  while (wait_until_due() != MI_RETAIN_NEVER) {
    check_equal(mi_idle_due(), 0);
    mi_idle_rest();
    check(++count < 100);
  }
  return count;
}

static int64_t waiting(void) { return mi_atomic_load_relaxed(&mi_state.main.purge_waiting); }

// If this fails, a thread gives memory back at each wait, or never, or is woken for nothing.
UNIT_TEST(idle_is_asked_after_half_a_second) {
  check_equal(mi_idle_due(), MI_RETAIN_NEVER); // nothing was ever allocated
  work();
  check_equal(mi_idle_due(), IDLE_MS + STEP_MS);
  os_fake_advance_ms(IDLE_MS - 1);
  check_equal(mi_idle_due(), 1 + STEP_MS);
  os_fake_advance_ms(1);
  check_equal(mi_idle_due(), 0);
  check_equal(mi_idle_due(), 0); // a look changes nothing
  mi_idle_rest();
  rest_all();
  os_fake_advance_ms(1000000);
  check_equal(mi_idle_due(), MI_RETAIN_NEVER);
}

// If this fails, a thread that works all the time gives back what it needs again at once.
UNIT_TEST(idle_thread_that_works_is_not_asked) {
  for (size_t i = 0; i < 20; i++) {
    for (size_t k = 0; k < UNIT_BLOCKS_MAX; k++) blocks[k] = mi_malloc(SIZE);
    for (size_t k = 0; k < UNIT_BLOCKS_MAX; k++) mi_free(blocks[k]);
    check(mi_idle_due() > IDLE_MS);
    os_fake_advance_ms(IDLE_MS - 1);
  }
}

// If this fails, a thread that waits keeps a page for each size that it ever used.
UNIT_TEST(idle_pages_that_malloc_allocates_from_go) {
  void* const kept = mi_malloc(SIZE);
  unit_fill(kept, SIZE, 1);
  for (size_t size = 16; size <= 30000; size += size / 4) mi_free(mi_malloc(size));
  check(unit_used_slices() >= 4);
  wait_until_due();
  mi_idle_rest();
  check_equal(unit_used_slices(), mi_class_slices(mi_class_of(SIZE)));
  check(unit_is_filled(kept, SIZE, 1));
  work(); // in the same page
  check_equal(unit_used_slices(), mi_class_slices(mi_class_of(SIZE)));
  mi_free(kept);
  unit_check_valid();
}

// If this fails, a page with few blocks in use keeps all its memory while its thread waits.
UNIT_TEST(idle_memory_between_blocks_goes) {
  const size_t count = unit_fill_page(mi_class_of(SIZE), blocks);
  mi_page_t* const page = unit_page_of(blocks[0]);
  for (size_t i = 0; i < count; i++) unit_fill(blocks[i], SIZE, i);
  for (size_t i = 1; i < count; i++) mi_free(blocks[i]);
  const size_t bytes = page->reserved * page->block_size;
  check(os_fake_resident(page->start, bytes) + mi_state.os.page_size > bytes);
  wait_until_due();
  mi_idle_rest();
  if (mi_part_may_have_holes(page)) {
    check(os_fake_resident(page->start, bytes) <= 2 * mi_state.os.page_size);
  }
  check(unit_is_filled(blocks[0], SIZE, 0));
  for (size_t i = 1; i < count; i++) blocks[i] = mi_malloc(SIZE); // the page serves again
  check(unit_page_of(blocks[count - 1]) == page);
  for (size_t i = 0; i < count; i++) mi_free(blocks[i]);
  unit_check_valid();
}

// If this fails, a thread that wakes ten times a second makes and releases pages all day.
UNIT_TEST(idle_thread_that_works_little_is_asked_less_often) {
  work();
  uint64_t wait_ms = IDLE_MS;
  for (size_t i = 0; i < 8; i++) {
    check_equal(wait_until_due(), wait_ms + STEP_MS);
    mi_idle_rest();
    if (wait_ms < 16 * IDLE_MS) wait_ms *= 2;
    work();
  }
  check_equal(wait_ms, 16 * IDLE_MS);
  for (size_t i = 0; i < MUCH; i++) mi_collect_all(MI_GENTLE); // each comes to the queues
  check_equal(wait_until_due(), IDLE_MS + STEP_MS);
}

static void free_large(void) {
  void* const p = mi_malloc(20 * MI_SLICE_SIZE);
  memset(p, 1, 20 * MI_SLICE_SIZE);
  mi_free(p);
}

// If this fails, a thread with a large heap does not see for long that it has something to do.
UNIT_TEST(idle_gives_memory_between_blocks_in_steps) {
  const size_t pages = MI_IS_TINY ? 20 : 2000; // a step has 4, or 1024
  const size_t per_page = unit_page_blocks(mi_class_of(SIZE));
  const size_t count = pages * per_page;
  void** const all = mi_malloc(count * sizeof(void*));
  mi_atomic_store_relaxed(&mi_state.main.retain_more, (int64_t)1 << 40); // RETAIN-6: all may wait
  for (size_t i = 0; i < count; i++) all[i] = mi_malloc(SIZE);
  for (size_t i = 0; i < count; i++) {
    if (i % per_page != 0) mi_free(all[i]);
  }
  if (!mi_part_may_have_holes(unit_page_of(all[0]))) return;
  wait_until_due();
  size_t steps = 0;
  for (; mi_idle_due() == 0; steps++) mi_idle_rest();
  check(steps >= 2);
  check_equal(mi_atomic_load_relaxed(&mi_state.main.sparse_waiting), 0);
  for (size_t i = 0; i < count; i += per_page) mi_free(all[i]);
  mi_free(all);
}

// If this fails, a process with one thread keeps the large blocks that it freed.
UNIT_TEST(idle_without_a_purge_thread_what_waits_goes) {
  for (size_t turn = 0; turn < 3; turn++) {
    free_large();
    check(rest_all() > 1);
    check_equal(waiting(), 0);
    check_equal(unit_used_slices(), 0);
    os_fake_advance_ms(100000);
    check_equal(mi_idle_due(), MI_RETAIN_NEVER);
  }
}

// If this fails, each thread does the work of the purge thread, too.
UNIT_TEST(idle_with_a_purge_thread_the_pages_go) {
  mi_atomic_store_relaxed(&mi_state.purger, MI_PURGER_AWAKE);
  work();
  free_large();
  check_equal(rest_all(), 1);
  check(waiting() > 0);
  free_large();
  check_equal(rest_all(), 0);
  mi_atomic_store_relaxed(&mi_state.purger, MI_PURGER_NONE);
}

// If this fails, a signal handler that waits changes pages that the thread was just changing.
UNIT_TEST(idle_does_nothing_inside_of_malloc) {
  work();
  os_fake_advance_ms(IDLE_MS);
  mi_theap_t* const home = unit_theap();
  const mi_hold_t hold = mi_hold_enter(home);
  check_equal(mi_idle_due(), MI_RETAIN_NEVER);
  mi_idle_rest();
  mi_hold_leave(home, hold);
  check(unit_used_slices() > 0);
  mi_lock_enter(&mi_state.thread_lock);
  check_equal(mi_idle_due(), MI_RETAIN_NEVER);
  mi_lock_leave(&mi_state.thread_lock);
  check(mi_idle_due() != MI_RETAIN_NEVER);
}

// If this fails, memory goes back although the user wants to keep it.
UNIT_TEST(idle_keeps_all_if_nothing_is_purged) {
  work();
  unit_option(purge_delay, -1);
  os_fake_advance_ms(IDLE_MS);
  check_equal(mi_idle_due(), MI_RETAIN_NEVER);
  mi_idle_rest();
  check(unit_used_slices() > 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(idle_is_asked_after_half_a_second),
      cmocka_unit_test(idle_thread_that_works_is_not_asked),
      cmocka_unit_test(idle_pages_that_malloc_allocates_from_go),
      cmocka_unit_test(idle_memory_between_blocks_goes),
      cmocka_unit_test(idle_thread_that_works_little_is_asked_less_often),
      cmocka_unit_test(idle_gives_memory_between_blocks_in_steps),
      cmocka_unit_test(idle_without_a_purge_thread_what_waits_goes),
      cmocka_unit_test(idle_with_a_purge_thread_the_pages_go),
      cmocka_unit_test(idle_does_nothing_inside_of_malloc),
      cmocka_unit_test(idle_keeps_all_if_nothing_is_purged),
  };
  return cmocka_run_group_tests_name("idle", tests, NULL, NULL);
}
