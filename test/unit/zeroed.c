// SPDX-License-Identifier: MIT
// zeroed.c - tests of pages/zeroed.c, through calloc and free of long blocks.
#include "unit.h"

#include "core/arenas/arena.h"
#include "core/pages/large.h"

#define MUCH (128 * MI_SLICE_SIZE)
#define SAMPLES ((size_t)8)

// One arena for all.
static void start(void) {
  unit_reserve(64 * MUCH);
  mi_process_setup();
  unit_option(arena_reserve, 64 * MUCH / MI_KIB);
  unit_option(arena_max_object_size, 64 * MUCH / MI_KIB);
}

// A block whose memory was written before.
static uint8_t* zalloc_used(size_t size) {
  uint8_t* const old = (uint8_t*)mi_large_alloc(UNIT_HEAP, size, MI_SLICE_SIZE, MI_UNINITIALIZED);
  memset(old, 1, size);
  mi_free(old);
  uint8_t* const p = (uint8_t*)mi_zalloc(size);
  check(p == old);
  return p;
}

static size_t score_of(size_t size) {
  const size_t i = mi_bits_log2((size - 1) / MI_ZEROED_MIN);
  return mi_atomic_load_relaxed(&mi_state.main.zeroed[i]) & 0xff;
}

// Write to a zeroed block in so many places that are looked at when it is freed, or to all of it.
static void use(uint8_t* p, size_t size, size_t used) {
  check(unit_is_zero(p, size));
  if (used == SAMPLES) memset(p, 1, size);
  for (size_t i = 1; i <= used; i++) {
    p[mi_bits_align_down(size / SAMPLES * i - 1, os_fake.page_size) + 100 * i] = 1;
  }
}

// Allocate such a block, and free it. Returns how many calls gave memory back.
static size_t zalloc_and_use(size_t size, size_t used) {
  const size_t calls = os_fake_calls(OS_FAKE_PURGE);
  uint8_t* const p = zalloc_used(size);
  use(p, size, used);
  mi_free(p);
  return os_fake_calls(OS_FAKE_PURGE) - calls;
}

// If this fails, calloc of a large table takes time and memory for all of it, and not for what is
// used.
UNIT_TEST_PAGE_SIZES(zeroed_memory_is_given_back) {
  start();
  const size_t shortest = MI_ZEROED_MIN + os_fake.page_size;
  for (size_t size = shortest; size <= 3 * MUCH; size += size / 2 / MI_SLICE_SIZE * MI_SLICE_SIZE) {
    const size_t calls = os_fake_calls(OS_FAKE_PURGE);
    uint8_t* const p = zalloc_used(size);
    check_equal(os_fake_resident(p, size), 0);
    check_equal(os_fake_calls(OS_FAKE_PURGE), calls + 1);
    check(unit_is_zero(p, size));
    mi_free(p);
  }
  const size_t calls = os_fake_calls(OS_FAKE_PURGE);
  void* const p = mi_zalloc(MI_ZEROED_MIN);
  check(mi_atomic_load_relaxed(&unit_page_of(p)->owner) != MI_OWNER_SINGLE);
  check_equal(os_fake_calls(OS_FAKE_PURGE), calls);
  mi_free(p);
  mi_collect_all(MI_FORCE);
  unit_check_empty();
}

// If this fails, a program that writes to all that it gets from calloc pays a fault for each OS
// page each time; or one that no longer does so has all of it resident for ever (ZEROED-1).
UNIT_TEST_PAGE_SIZES(zeroed_memory_that_is_used_is_cleared) {
  start();
  for (size_t i = 0; i < 3; i++) check_equal(zalloc_and_use(MUCH, SAMPLES), 1); // 21 points
  for (size_t i = 0; i < 40; i++) check_equal(zalloc_and_use(MUCH, SAMPLES), 0); // 32
  for (size_t i = 0; i < 20; i++) check_equal(zalloc_and_use(MUCH, 0), i > 16); // 12
  for (size_t i = 0; i < 5; i++) check_equal(zalloc_and_use(MUCH, 1), 1); // 12, still
  for (size_t i = 0; i < 8; i++) check_equal(zalloc_and_use(MUCH, 2), i < 4); // 20
  check_equal(score_of(MUCH), 20);
  check_equal(zalloc_and_use(4 * MUCH, 0), 1); // of other sizes nothing is known
  // Programs that use every second block, or a fourth of each.
  for (size_t i = 0; i < 40; i++) check_equal(zalloc_and_use(MUCH, i % 2 * SAMPLES), 0);
  for (size_t i = 0; i < 40; i++) check_equal(zalloc_and_use(MUCH, SAMPLES / 4), 0);
  mi_collect_all(MI_FORCE);
  unit_check_empty();
}

// If this fails, a program that uses nothing of its tables pays faults when it frees them; or one
// that begins to use them is never seen (ZEROED-2).
UNIT_TEST_PAGE_SIZES(zeroed_memory_is_looked_at_by_turns) {
  start();
  for (size_t i = 0; i < 40; i++) {
    uint8_t* const p = zalloc_used(MUCH);
    check_equal(unit_page_of(p)->is_watched, i % 13 == 0);
    mi_free(p);
  }
  check_equal(score_of(MUCH), 0);
  for (size_t i = 0; i < 15; i++) {
    uint8_t* const p = zalloc_used(MUCH);
    check_equal(unit_page_of(p)->is_watched, i >= 12);
    use(p, MUCH, SAMPLES);
    mi_free(p);
  }
  check_equal(score_of(MUCH), 21);
}

// If this fails, memory that the program cannot see tells what it uses, or a block that grows tells
// nothing of those that are as it was (ZEROED-3).
UNIT_TEST_PAGE_SIZES(zeroed_memory_is_looked_at_where_it_is) {
  start();
  mi_free(mi_malloc(1)); // there is a home
  uint8_t* const shifted =
      (uint8_t*)mi_large_alloc_shifted(UNIT_HEAP, MUCH, MI_SLICE_SIZE, MI_SLICE_SIZE, MI_ZERO);
  check(!mi_pagemap_find(shifted - MI_SLICE_SIZE)->is_watched);
  uint8_t* const p = (uint8_t*)mi_zalloc(MUCH);
  check(mi_pagemap_find(p)->is_watched);
  void* const wall = mi_malloc(MUCH);
  memset(p, 1, MUCH);
  mi_page_t* const page = mi_pagemap_find(p);
  uint8_t* const moved = (uint8_t*)mi_large_move(page, UNIT_HEAP, 3 * MUCH);
  check(moved != NULL && score_of(MUCH) == 7 && score_of(3 * MUCH) == 0);
  memset(moved, 1, 3 * MUCH);
  mi_free(moved);
  check(score_of(MUCH) == 7 && score_of(3 * MUCH) == 0);
  uint8_t* const cut = (uint8_t*)mi_zalloc(MUCH);
  memset(cut, 1, MUCH / 2);
  check(mi_large_resize(mi_pagemap_find(cut), MUCH / 2));
  check_equal(score_of(MUCH), 7 + 3);
  memset(cut, 1, MUCH / 2);
  mi_free(cut);
  check_equal(score_of(MUCH), 7 + 3);
  mi_free(wall);
  mi_free(shifted);
}

static void* free_it(void* p) {
  mi_free(p);
  return NULL;
}

// If this fails, a program whose buffers are freed by another thread than the one that callocs
// them pays a fault for each OS page for ever.
UNIT_TEST_PAGE_SIZES(zeroed_memory_that_others_free_is_looked_at) {
  start();
  for (size_t i = 0; i < 6; i++) {
    const size_t calls = os_fake_calls(OS_FAKE_PURGE);
    uint8_t* const p = (uint8_t*)mi_zalloc(MUCH);
    check_equal(os_fake_calls(OS_FAKE_PURGE), calls + (i == 1 || i == 2));
    use(p, MUCH, SAMPLES);
    pthread_t thread;
    check_equal(pthread_create(&thread, NULL, &free_it, p), 0);
    check_equal(pthread_join(thread, NULL), 0);
  }
}

// If this fails, calloc of blocks of a class makes all of them resident, or takes a page of its own
// for each although they are used (ZEROED-4).
UNIT_TEST_PAGE_SIZES(zeroed_memory_of_a_class_is_apart_if_it_is_absent) {
  start();
  const size_t size = 5 * MI_SLICE_SIZE;
  for (size_t i = 0; i < 3; i++) check_equal(zalloc_and_use(size, SAMPLES), 1);
  check_equal(score_of(size), 21);
  size_t apart = 0;
  for (size_t i = 0; i < 3 * 13; i++) {
    uint8_t* const p = (uint8_t*)mi_zalloc(size);
    const bool is_single = mi_atomic_load_relaxed(&unit_page_of(p)->owner) == MI_OWNER_SINGLE;
    check_equal(unit_page_of(p)->is_watched, is_single);
    apart += is_single;
    check(unit_is_zero(p, size));
    memset(p, 1, size);
    mi_free(p);
  }
  check_equal(apart, 3);
  check_equal(score_of(size), 32);
  mi_collect_all(MI_FORCE);
  unit_check_empty();
}

// If this fails, a program that takes and frees tables which it hardly uses is taken for one that
// needs all of its memory again at once, and keeps as much when it sleeps (RETAIN-6).
UNIT_TEST_PAGE_SIZES(zeroed_memory_is_not_what_was_missed) {
  start();
  static void* blocks[4];
  for (size_t i = 0; i < 20; i++) {
    for (size_t k = 0; k < 4; k++) blocks[k] = mi_zalloc(12 * MUCH + k * MI_SLICE_SIZE);
    for (size_t k = 0; k < 4; k++) mi_free(blocks[k]);
    os_fake_advance_ms(10);
  }
  check(mi_atomic_load_relaxed(&mi_state.main.retain_missed) > 0);
  check_equal(mi_atomic_load_relaxed(&mi_state.main.retain_more), 0);
  for (size_t i = 0; i < 20; i++) { // and if it uses them, it is
    for (size_t k = 0; k < 4; k++) {
      blocks[k] = mi_zalloc(12 * MUCH + k * MI_SLICE_SIZE);
      memset(blocks[k], 1, 12 * MUCH);
    }
    for (size_t k = 0; k < 4; k++) mi_free(blocks[k]);
    os_fake_advance_ms(10);
  }
  check(mi_atomic_load_relaxed(&mi_state.main.retain_more) > 0);
}

// If this fails, calloc returns old contents where the system refuses, or where the user wants all
// memory kept.
UNIT_TEST_PAGE_SIZES(zeroed_memory_is_cleared_where_it_must_stay) {
  start();
  os_fake.fail_at[OS_FAKE_PURGE] = 1;
  uint8_t* p = zalloc_used(MUCH);
  check(unit_is_zero(p, MUCH));
  mi_free(p);
  unit_option(purge_delay, -1);
  const size_t calls = os_fake_calls(OS_FAKE_PURGE);
  p = zalloc_used(MUCH);
  check(unit_is_zero(p, MUCH));
  check_equal(os_fake_calls(OS_FAKE_PURGE), calls);
  mi_free(p);
}

// If this fails, calloc gives away memory of the program, which may be a file, or memory that must
// stay.
UNIT_TEST_PAGE_SIZES(zeroed_memory_of_others_is_cleared) {
  mi_process_setup();
  unit_option(disallow_os_alloc, 1);
  uint8_t* kept[2];
  for (size_t i = 0; i < 2; i++) {
    mi_arena_plan_t plan = {.size = MUCH, .is_committed = true, .numa_node = -1};
    plan.start = (uint8_t*)mi_os_map(NULL, MUCH, MI_SLICE_SIZE * MI_CHUNK_SLICES, MI_OS_READ_WRITE);
    plan.is_foreign = i == 0;
    plan.is_pinned = i == 1;
    check(mi_arena_manage(&mi_state.main, &plan) != NULL);
    uint8_t* const old = (uint8_t*)mi_large_alloc(UNIT_HEAP, MUCH, MI_SLICE_SIZE, MI_UNINITIALIZED);
    check(old == plan.start);
    memset(old, 1, MUCH);
    mi_free(old);
    kept[i] = (uint8_t*)mi_large_alloc(UNIT_HEAP, MUCH, MI_SLICE_SIZE, MI_ZERO);
    check(kept[i] == old && unit_is_zero(old, MUCH));
    check_equal(os_fake_calls(OS_FAKE_PURGE), 0);
  }
  for (size_t i = 0; i < 2; i++) mi_free(kept[i]);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(zeroed_memory_is_given_back),
      cmocka_unit_test(zeroed_memory_that_is_used_is_cleared),
      cmocka_unit_test(zeroed_memory_is_looked_at_by_turns),
      cmocka_unit_test(zeroed_memory_is_looked_at_where_it_is),
      cmocka_unit_test(zeroed_memory_that_others_free_is_looked_at),
      cmocka_unit_test(zeroed_memory_of_a_class_is_apart_if_it_is_absent),
      cmocka_unit_test(zeroed_memory_is_not_what_was_missed),
      cmocka_unit_test(zeroed_memory_is_cleared_where_it_must_stay),
      cmocka_unit_test(zeroed_memory_of_others_is_cleared),
  };
  return cmocka_run_group_tests_name("zeroed", tests, NULL, NULL);
}
