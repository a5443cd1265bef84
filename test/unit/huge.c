// SPDX-License-Identifier: MIT
// huge.c - tests of arenas/huge.c: when memory is populated ahead, and that it goes back.
#include "unit.h"

#include "core/arenas/arena.h"
#include "core/pages/page.h"
#include "core/arenas/purge.h"
#include "core/arenas/slices.h"
#include "core/arenas/retain.h"
#include "core/threads/refill.h"

#define CHUNK_SIZE (MI_CHUNK_SLICES * MI_SLICE_SIZE)
#define HEAP_MIN_CHUNKS 16 // as huge.c says
#define THREAD_MIN_CHUNKS 4
#define BACK_OFF 32

static mi_run_t held[HEAP_MIN_CHUNKS * MI_CHUNK_SLICES + 256];
static size_t held_count;

static mi_run_t claim(size_t count) {
  mi_run_t run = {0};
  check(mi_slices_claim(UNIT_HEAP, count, MI_SLICE_SIZE, MI_TOUCHED_BY_BLOCKS, &run));
  check(held_count < sizeof(held) / sizeof(held[0]));
  held[held_count++] = run;
  return run;
}

static void release_last(void) {
  const mi_run_t run = held[--held_count];
  mi_slices_release(run.arena, run.slice_index, run.slice_count, MI_SLICE_SIZE);
}

static void release_all(void) {
  while (held_count > 0) release_last();
}

// One arena for all of a test, also with tiny constants.
static void start(void) { unit_reserve(2 * HEAP_MIN_CHUNKS * CHUNK_SIZE); }

static size_t huge_calls(void) { return os_fake.count[OS_FAKE_POPULATE_HUGE]; }

// A heap of the size from which on huge pages are used: all slices up to a chunk's end are in use.
static mi_arena_t* make_large_heap(void) {
  start();
  mi_arena_t* arena = NULL;
  for (size_t i = 0; i < HEAP_MIN_CHUNKS; i++) {
    const mi_run_t run = claim(MI_CHUNK_SLICES);
    arena = run.arena;
    check_equal(run.slice_index, i * MI_CHUNK_SLICES);
  }
  check_equal(huge_calls(), 0);
  return arena;
}

// If this fails, a small program holds megabytes that it never uses.
UNIT_TEST_PAGE_SIZES(huge_waits_for_a_large_heap) {
  start();
  for (size_t i = 0; i < HEAP_MIN_CHUNKS * MI_CHUNK_SLICES; i++) claim(1);
  check_equal(huge_calls(), 0);
  claim(1);
  check_equal(huge_calls(), 1);
  release_all();
}

// If this fails, a program of many threads holds megabytes that none of them uses.
UNIT_TEST_PAGE_SIZES(huge_waits_longer_with_threads) {
  make_large_heap();
  mi_count_add(&mi_state.main.count.threads, 3); // none is registered yet
  for (size_t i = 0; i < 2 * THREAD_MIN_CHUNKS * MI_CHUNK_SLICES; i++) claim(1);
  check_equal(huge_calls(), 0);
  claim(1);
  check_equal(huge_calls(), 1);
  mi_count_add(&mi_state.main.count.threads, -3);
  release_all();
}

// If this fails, a large program pays for four times the page faults.
UNIT_TEST_PAGE_SIZES(huge_takes_each_chunk_once) {
  mi_arena_t* const arena = make_large_heap();
  for (size_t i = 0; i < 3 * MI_CHUNK_SLICES; i++) {
    const mi_run_t run = claim(1);
    check(run.is_zero);
    check_equal(run.is_resident, true);
    check_equal(huge_calls(), 1 + i / MI_CHUNK_SLICES);
  }
  const os_fake_entry_t* first = NULL;
  for (size_t i = 0; i < os_fake.log_count && first == NULL; i++) {
    if (os_fake.log[i].call == OS_FAKE_POPULATE_HUGE) first = &os_fake.log[i];
  }
  check(first != NULL && first->start == arena->start + HEAP_MIN_CHUNKS * CHUNK_SIZE);
  check_equal(first->size, CHUNK_SIZE);
  // One mapping, as before.
  check(os_fake_is_one_mapping(arena->start, arena->slice_count * MI_SLICE_SIZE));
  release_all();
}

// If this fails, a chunk that ends a run of two chunks is missed, or taken while others use it.
UNIT_TEST_PAGE_SIZES(huge_takes_the_chunk_a_run_ends_in) {
  make_large_heap();
  claim(MI_CHUNK_SLICES - 2);
  check_equal(huge_calls(), 0);
  const mi_run_t run = claim(8);
  check_equal(huge_calls(), 1);
  check_equal(os_fake_resident(run.start, 2 * MI_SLICE_SIZE), 0);
  check_equal(os_fake_resident(run.start + 2 * MI_SLICE_SIZE, CHUNK_SIZE), CHUNK_SIZE);
  release_all();
}

// If this fails, a large block that is never touched costs memory.
UNIT_TEST_PAGE_SIZES(huge_leaves_large_blocks_alone) {
  make_large_heap();
  const mi_run_t run = claim(9);
  check_equal(huge_calls(), 0);
  check_equal(os_fake_resident(run.start, 9 * MI_SLICE_SIZE), 0);
  release_all();
}

// Write to the last chunk of the large heap, but for its first `absent` sixteenths.
static void use_chunk_before(mi_arena_t* arena, size_t absent) {
  uint8_t* const start = arena->start + (HEAP_MIN_CHUNKS - 1) * CHUNK_SIZE;
  memset(start, 1, CHUNK_SIZE);
  memset(start, 0, absent * (CHUNK_SIZE / 16));
}

// If this fails, a program whose blocks are large, and are used in part, holds all of them; or one
// that uses all of them pays for each fault.
UNIT_TEST_PAGE_SIZES(huge_leaves_long_blocks_alone_that_are_used_in_part) {
  mi_arena_t* const arena = make_large_heap();
  const size_t c = mi_class_of(MI_HUGE_BLOCK_MAX);
  const mi_page_plan_t plan = {.size_class = c, .slice_count = mi_class_slices(c)};
  for (size_t absent = 0; absent <= 16; absent++) {
    use_chunk_before(arena, absent);
    const size_t before = huge_calls();
    mi_page_t* const page = mi_page_make(UNIT_HEAP, &plan);
    check(page != NULL);
    const bool is_long = MI_HUGE_BLOCK_MAX > os_fake.page_size;
    check_equal(huge_calls() - before, !is_long || absent <= 4 ? 1 : 0);
    mi_page_destroy(UNIT_HEAP, page);
    mi_purge_everything(&mi_state.main);
  }
  release_all();
}

// If this fails, a program whose blocks are large, and are used in part, holds all of them.
UNIT_TEST_PAGE_SIZES(huge_leaves_pages_of_large_blocks_alone) {
  use_chunk_before(make_large_heap(), 0);
  for (size_t c = 0; c < MI_CLASS_COUNT; c++) {
    const mi_page_plan_t plan = {.size_class = c, .slice_count = mi_class_slices(c)};
    const size_t before = huge_calls();
    mi_page_t* const page = mi_page_make(UNIT_HEAP, &plan);
    check(page != NULL);
    check_equal(huge_calls() - before, mi_class_size(c) <= MI_HUGE_BLOCK_MAX ? 1 : 0);
    mi_page_destroy(UNIT_HEAP, page);
    mi_purge_everything(&mi_state.main); // the next one finds the chunk as it was
  }
  release_all();
}

// If this fails, what was in use comes back as a huge page although most of it stayed free.
UNIT_TEST_PAGE_SIZES(huge_leaves_used_chunks_alone) {
  make_large_heap();
  claim(MI_CHUNK_SLICES - 9);
  claim(9);
  release_last();
  claim(1);
  check_equal(huge_calls(), 0); // dirty, and others in use
  release_last();
  mi_purge_everything(&mi_state.main);
  claim(1);
  check_equal(huge_calls(), 0); // clean again, but others in use
  release_all();
}

// If this fails, memory that is resident in small pages is copied into a huge one, or not zero.
UNIT_TEST_PAGE_SIZES(huge_leaves_dirty_chunks_alone) {
  make_large_heap();
  unit_option(purge_delay, -1); // so that nothing but `dirty` tells
  claim(MI_CHUNK_SLICES);
  release_last();
  const mi_run_t run = claim(1);
  check(!run.is_zero && run.is_resident);
  check_equal(huge_calls(), 0);
  release_all();
}

// If this fails, a chunk that is needed a little stays resident as a whole.
UNIT_TEST_PAGE_SIZES(huge_gives_back_what_nobody_uses) {
  make_large_heap();
  const mi_run_t run = claim(3);
  uint8_t* const rest = run.start + 3 * MI_SLICE_SIZE;
  const size_t rest_size = CHUNK_SIZE - 3 * MI_SLICE_SIZE;
  check_equal(os_fake_resident(rest, rest_size), rest_size);
  const int64_t committed = mi_state.main.count.committed;
  for (size_t i = 0; i < 3; i++) {
    mi_retain_poll(&mi_state.main);
    os_fake_advance_ms((uint64_t)mi_option_value(purge_delay) *
                       (uint64_t)mi_option_value(arena_purge_mult));
  }
  check_equal(os_fake_resident(rest, rest_size), 0);
  check_equal(os_fake_resident(run.start, 3 * MI_SLICE_SIZE), 3 * MI_SLICE_SIZE);
  check_equal(mi_state.main.count.committed, committed);
  const mi_run_t next = claim(1);
  check(next.is_zero && !next.is_resident);
  check_equal(huge_calls(), 1);
  release_all();
}

// If this fails, a program on a host that is short of memory stops for milliseconds, all the time.
UNIT_TEST_PAGE_SIZES(huge_backs_off_from_stalls) {
  make_large_heap();
  os_fake.huge_us = 4000;
  claim(8);
  check_equal(huge_calls(), 1);
  for (size_t i = 0; i < 4 * MI_CHUNK_SLICES / 8; i++) claim(8);
  check_equal(huge_calls(), 1);
  os_fake_advance_ms(4 * BACK_OFF);
  os_fake.huge_us = 200;
  for (size_t i = 0; i < 4 * MI_CHUNK_SLICES / 8; i++) claim(8);
  check_equal(huge_calls(), 5);
  release_all();
}

// If this fails, the option has no effect, or a processor with other sizes gets nonsense.
UNIT_TEST_PAGE_SIZES(huge_can_be_forbidden) {
  make_large_heap();
  unit_option(allow_thp, 0);
  claim(MI_CHUNK_SLICES);
  claim(1);
  check_equal(huge_calls(), 0);
  unit_option(allow_thp, 1);
  claim(MI_CHUNK_SLICES - 1);
  mi_state.os.huge_page_size = 16 * CHUNK_SIZE;
  claim(1);
  check_equal(huge_calls(), 0);
  release_all();
}

// If this fails, a system that refuses the advice breaks the allocator.
UNIT_TEST_PAGE_SIZES(huge_may_fail) {
  make_large_heap();
  os_fake.fail_at[OS_FAKE_POPULATE_HUGE] = 1;
  os_fake.fail_at[OS_FAKE_POPULATE] = 1;
  os_fake.is_failing_on = true;
  const mi_run_t run = claim(1);
  check(run.is_zero);
  memset(run.start, 1, MI_SLICE_SIZE);
  mi_page_t* const page = mi_refill_make_page(unit_theap(), mi_class_of(64));
  check(page != NULL && unit_carve(page) != NULL);
  page->count.used = 0;
  mi_page_release(UNIT_HEAP, page);
  release_all();
}

// If this fails, a fresh page costs one fault for each OS page instead of one call for several.
UNIT_TEST(huge_touches_before_carving) {
  unit_theap();
  const size_t before = os_fake.count[OS_FAKE_POPULATE];
  void* p[2048];
  const size_t count = MI_CARVE_MAX_BYTES / 64 * 3 < 2048 ? MI_CARVE_MAX_BYTES / 64 * 3 : 2048;
  for (size_t i = 0; i < count; i++) p[i] = mi_malloc(64);
  const bool is_wider = MI_CARVE_MAX_BYTES > os_fake.page_size;
  check(is_wider == (os_fake.count[OS_FAKE_POPULATE] > before));
  // Nothing more is resident than what was carved.
  const mi_page_t* const page = unit_page_of(p[0]);
  const size_t carved = mi_page_capacity(page) * 64;
  check_equal(os_fake_resident(page->start, page->slice_count * MI_SLICE_SIZE),
              mi_bits_align_up(carved, os_fake.page_size));
  for (size_t i = 0; i < count; i++) mi_free(p[i]);
}

// If this fails, each refill from memory that is there already makes a needless system call.
UNIT_TEST(huge_does_not_touch_what_is_there) {
  mi_theap_t* const theap = unit_theap();
  mi_free(mi_malloc(64)); // the first page of a class starts on clean memory
  mi_page_t* page = mi_refill_make_page(theap, mi_class_of(64));
  while (unit_carve(page) != NULL) {
  }
  page->count.used = 0;
  mi_page_release(UNIT_HEAP, page);
  const size_t before = os_fake.count[OS_FAKE_POPULATE];
  page = mi_refill_make_page(theap, mi_class_of(64));
  while (unit_carve(page) != NULL) {
  }
  check_equal(os_fake.count[OS_FAKE_POPULATE], before);
  page->count.used = 0;
  mi_page_release(UNIT_HEAP, page);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(huge_waits_for_a_large_heap),
      cmocka_unit_test(huge_waits_longer_with_threads),
      cmocka_unit_test(huge_takes_each_chunk_once),
      cmocka_unit_test(huge_takes_the_chunk_a_run_ends_in),
      cmocka_unit_test(huge_leaves_large_blocks_alone),
      cmocka_unit_test(huge_leaves_pages_of_large_blocks_alone),
      cmocka_unit_test(huge_leaves_long_blocks_alone_that_are_used_in_part),
      cmocka_unit_test(huge_leaves_used_chunks_alone),
      cmocka_unit_test(huge_leaves_dirty_chunks_alone),
      cmocka_unit_test(huge_gives_back_what_nobody_uses),
      cmocka_unit_test(huge_backs_off_from_stalls),
      cmocka_unit_test(huge_can_be_forbidden),
      cmocka_unit_test(huge_may_fail),
      cmocka_unit_test(huge_touches_before_carving),
      cmocka_unit_test(huge_does_not_touch_what_is_there),
  };
  return cmocka_run_group_tests_name("huge", tests, NULL, NULL);
}
