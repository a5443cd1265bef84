// SPDX-License-Identifier: MIT
// options.c - what options do in src/core that no other test shows: where memory comes from, who
// keeps a page, what stays when memory goes back.
#include "unit.h"

#include "core/arenas/arena.h"
#include "core/pages/page.h"
#include "core/common/pagemap.h"
#include "core/arenas/purge.h"
#include "core/threads/theap.h"
#include "core/arenas/slices.h"
#include "core/arenas/retain.h"

#define SIZE 256
#define CLASS mi_class_of(SIZE)

static mi_page_backing_t backing(size_t size) {
  void* const p = mi_malloc(size);
  check(p != NULL);
  const mi_page_backing_t is = (mi_page_backing_t)unit_page_of(p)->backing;
  mi_free(p);
  mi_collect_all(MI_FORCE);
  return is;
}

// If this fails, arenas are used although the user forbids them.
UNIT_TEST_PAGE_SIZES(options_disallow_arena_alloc) {
  mi_process_setup();
  check_equal(backing(100), MI_BACKING_ARENA);
  unit_option(disallow_arena_alloc, 1);
  check_equal(backing(100), MI_BACKING_DIRECT);
  check_equal(backing(MI_CLASS_MAX * 3), MI_BACKING_DIRECT);
}

// If this fails, a size of 0 is taken for an arena of no slices.
UNIT_TEST_PAGE_SIZES(options_arena_reserve_may_be_0) {
  unit_option(arena_reserve, 0);
  mi_process_setup();
  check_equal(backing(100), MI_BACKING_DIRECT);
  check_equal(backing(MI_CLASS_MAX * 3), MI_BACKING_DIRECT);
  check_equal(mi_state.main.arena_count, 0);
}

// If this fails, a block larger than the user wants takes an arena.
UNIT_TEST_PAGE_SIZES(options_arena_max_object_size) {
  mi_process_setup();
  unit_option(arena_max_object_size, 4 * MI_SLICE_SIZE / MI_KIB);
  check_equal(backing(MI_SLICE_SIZE * 4), MI_BACKING_ARENA);
  check_equal(backing(MI_CLASS_MAX + MI_SLICE_SIZE), MI_BACKING_DIRECT);
}

// If this fails, a process that may not ask the system for memory does.
UNIT_TEST_PAGE_SIZES(options_disallow_os_alloc) {
  mi_process_setup();
  void* const p = mi_malloc(1);
  unit_option(disallow_os_alloc, 1);
  const size_t maps = os_fake_calls(OS_FAKE_MAP);
  unit_option(disallow_arena_alloc, 1);
  check(mi_malloc(MI_CLASS_MAX * 3) == NULL);
  check_equal(os_fake_calls(OS_FAKE_MAP), maps);
  mi_free(p);
}

// -- who keeps a page --

static void* blocks[8][UNIT_BLOCKS_MAX];

// `count` pages of another thread that are full, so that they are parked; it goes on.
typedef struct filled_s {
  size_t pages, blocks;
} filled_t;

static void fill(void* arg) {
  filled_t* const filled = (filled_t*)arg;
  for (size_t i = 0; i < filled->pages; i++) filled->blocks = unit_fill_page(CLASS, blocks[i]);
}

static puppet_t other;

// Pages of another thread, of each of which this thread frees one block.
static filled_t free_into_pages_of_another(size_t pages) {
  puppet_start(&other);
  filled_t filled = {.pages = pages + 1};
  puppet_do(&other, &fill, &filled); // of the last it allocates
  mi_free(mi_malloc(SIZE)); // a theap
  for (size_t i = 0; i < pages; i++) {
    check_equal(mi_atomic_load_relaxed(&unit_page_of(blocks[i][0])->thread_free), 0); // parked
    mi_free(blocks[i][0]);
    blocks[i][0] = NULL;
  }
  return filled;
}

static void end_of_another(const filled_t* filled) {
  for (size_t i = 0; i < filled->pages; i++) {
    for (size_t k = 0; k < filled->blocks; k++) mi_free(blocks[i][k]);
  }
  puppet_end(&other);
}

static size_t places(size_t pages, mi_page_place_t place) {
  size_t count = 0;
  for (size_t i = 0; i < pages; i++) {
    const mi_page_t* const page = unit_page_of(blocks[i][1]);
    if (place != MI_PLACE_NONE && page->theap != unit_theap()) continue;
    count += page->place == place ? 1 : 0;
  }
  return count;
}

// If this fails, option page_reclaim_on_free does not say who gets pages of other threads.
UNIT_TEST(options_page_reclaim_on_free_default) {
  mi_process_setup();
  const filled_t filled = free_into_pages_of_another(3);
  check_equal(places(3, MI_PLACE_GUEST), 3);
  end_of_another(&filled);
}

UNIT_TEST(options_page_reclaim_on_free_never) {
  mi_process_setup();
  unit_option(page_reclaim_on_free, -1);
  const filled_t filled = free_into_pages_of_another(3);
  check_equal(places(3, MI_PLACE_NONE), 3);
  // Its own neither.
  const size_t count = unit_fill_page(CLASS, blocks[5]);
  void* const next = mi_malloc(SIZE);
  const mi_page_t* const page = unit_page_of(blocks[5][0]);
  check(page->place == MI_PLACE_NONE);
  mi_free(blocks[5][0]);
  check(page->place == MI_PLACE_NONE);
  for (size_t i = 1; i < count; i++) mi_free(blocks[5][i]);
  mi_free(next);
  end_of_another(&filled);
}

UNIT_TEST(options_page_reclaim_on_free_always) {
  mi_process_setup();
  unit_option(page_reclaim_on_free, 1);
  const filled_t filled = free_into_pages_of_another(6);
  check_equal(places(6, MI_PLACE_QUEUE), 6);
  end_of_another(&filled);
}

// If this fails, the limits of taking over pages do nothing.
UNIT_TEST(options_page_cross_thread_max_reclaim) {
  mi_process_setup();
  unit_option(page_reclaim_on_free, 1);
  unit_option(page_cross_thread_max_reclaim, 2);
  const filled_t filled = free_into_pages_of_another(6);
  check_equal(places(6, MI_PLACE_QUEUE), 2);
  check_equal(places(6, MI_PLACE_NONE), 4);
  end_of_another(&filled);
}

UNIT_TEST(options_page_max_reclaim) {
  mi_process_setup();
  unit_option(page_max_reclaim, 2);
  filled_t filled = {.pages = 7};
  fill(&filled);
  for (size_t i = 0; i < 6; i++) {
    mi_free(blocks[i][0]);
    blocks[i][0] = NULL;
  }
  check_equal(places(6, MI_PLACE_QUEUE), 2);
  check_equal(places(6, MI_PLACE_NONE), 4);
  for (size_t i = 0; i < filled.pages; i++) {
    for (size_t k = 0; k < filled.blocks; k++) mi_free(blocks[i][k]);
  }
}

enum { MANY = MI_IS_TINY ? 6 : 260 }; // more than are counted in a queue
static void* first_of[2 * MANY]; // blocks of pages

// If this fails, each free by a thread of many pages goes through all of one size, where the limit
// is high.
UNIT_TEST(options_page_max_reclaim_of_many) {
  mi_process_setup();
  unit_option(page_max_reclaim, MANY);
  size_t count = 0;
  for (size_t i = 1; i <= 2; i++) { // fewer than the limit of each of two sizes
    const mi_page_t* page = NULL;
    while (count < i * (MANY - 1)) {
      void* const p = mi_malloc(i * SIZE);
      if (unit_page_of(p) != page) first_of[count++] = p;
      page = unit_page_of(p);
    }
  }
  for (size_t i = 0; i < count; i++) mi_free(first_of[i]);
  check_equal(unit_theap()->page_count, MANY);
}

// -- what stays --

// If this fails, the page map faults in a real-time program although it was told to be there.
UNIT_TEST(options_pagemap_commit) {
  for (size_t is_on = 0; is_on < 2; is_on++) {
    unit_option(pagemap_commit, is_on);
    mi_process_setup();
    uint8_t* const p = os_fake.reserve + (is_on + 1) * MI_WINDOW_SIZE;
    mi_lock_enter(&mi_state.arena_lock);
    check(mi_pagemap_cover(p, 1));
    mi_lock_leave(&mi_state.arena_lock);
    const size_t table = sizeof(mi_pagemap.none);
    check_equal(os_fake_resident(mi_pagemap_slice(p), table), is_on ? table : 0);
  }
}

static mi_run_t claim(size_t count) {
  mi_run_t run = {0};
  check(mi_slices_claim(UNIT_HEAP, count, MI_SLICE_SIZE, 0, &run));
  memset(run.start, 1, count * MI_SLICE_SIZE);
  return run;
}

static void release(const mi_run_t* run) {
  mi_slices_release(run->arena, run->slice_index, run->slice_count, MI_SLICE_SIZE);
}

// If this fails, ranges go back that the user wants to stay, or memory never goes back.
UNIT_TEST_PAGE_SIZES(options_minimal_purge_size) {
  mi_process_setup();
  unit_option(minimal_purge_size, 4 * MI_SLICE_SIZE / MI_KIB);
  const mi_run_t three = claim(3);
  const mi_run_t between = claim(1);
  const mi_run_t four = claim(4);
  const mi_run_t last = claim(1);
  release(&three);
  release(&four);
  check_equal(mi_purge_everything(&mi_state.main), 4 * MI_SLICE_SIZE);
  check_equal(os_fake_resident(three.start, 3 * MI_SLICE_SIZE), 3 * MI_SLICE_SIZE);
  release(&between); // now there are four
  for (size_t i = 0; i < 4; i++) {
    mi_retain_poll(&mi_state.main);
    os_fake_advance_ms((uint64_t)mi_option_value(purge_delay));
  }
  check_equal(os_fake_resident(three.start, 4 * MI_SLICE_SIZE), 0);
  release(&last);
}

// If this fails, a program that wants huge pages everywhere gets none, or they are cut.
UNIT_TEST(options_allow_thp_everywhere) {
  unit_option(allow_thp, 2);
  mi_process_setup();
  const mi_run_t small = claim(MI_CHUNK_SLICES - 1);
  const mi_run_t between = claim(1);
  const mi_run_t large = claim(MI_CHUNK_SLICES);
  const mi_run_t last = claim(1);
  check(os_fake_has_huge_advice(small.start));
  release(&small);
  release(&large);
  check_equal(mi_purge_everything(&mi_state.main), MI_CHUNK_SLICES * MI_SLICE_SIZE);
  release(&between);
  release(&last);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(options_disallow_arena_alloc),
      cmocka_unit_test(options_arena_reserve_may_be_0),
      cmocka_unit_test(options_arena_max_object_size),
      cmocka_unit_test(options_disallow_os_alloc),
      cmocka_unit_test(options_page_reclaim_on_free_default),
      cmocka_unit_test(options_page_reclaim_on_free_never),
      cmocka_unit_test(options_page_reclaim_on_free_always),
      cmocka_unit_test(options_page_cross_thread_max_reclaim),
      cmocka_unit_test(options_page_max_reclaim),
      cmocka_unit_test(options_page_max_reclaim_of_many),
      cmocka_unit_test(options_pagemap_commit),
      cmocka_unit_test(options_minimal_purge_size),
      cmocka_unit_test(options_allow_thp_everywhere),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
