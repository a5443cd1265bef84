// SPDX-License-Identifier: MIT
// kept.c - tests of arenas/kept.c, through malloc and free of large blocks.
#include "unit.h"

#include "core/arenas/arena.h"
#include "core/arenas/purge.h"
#include "core/arenas/retain.h"
#include "core/arenas/spare.h"
#include "core/front/front.h"
#include "core/heaps/heap.h"
#include "core/pages/large.h"
#include "core/threads/thread.h"

#define MAIN (&mi_state.main)
#define SIZE ((size_t)17 * MI_SLICE_SIZE)

static puppet_t others[MI_KEPT_SLOTS];

static size_t kept(void) {
  size_t count;
  check(mi_kept_is_valid(MAIN, &count));
  return count;
}

static int64_t tally(mi_tally_index_t index) {
  mi_tally_t sum;
  mi_heap_sum_tally(MAIN, NULL, &sum);
  return mi_atomic_load_relaxed(&sum.amount[index]);
}

static void check_all_goes(void) {
  mi_collect_all(MI_FORCE);
  check_equal(mi_atomic_load_relaxed(&MAIN->count.large), 0);
  unit_check_empty();
}

static int64_t waiting(void) { return mi_atomic_load_relaxed(&MAIN->purge_waiting); }

// If this fails, a thread that needs a buffer again and again changes what all threads share; or
// the figures are wrong.
UNIT_TEST_PAGE_SIZES(kept_serves_the_next_block) {
  void* const first = mi_malloc(SIZE);
  mi_free(first);
  const int64_t shared = mi_atomic_load_relaxed(&MAIN->count.large);
  for (int64_t i = 1; i <= 20; i++) {
    check_equal(kept(), SIZE / MI_SLICE_SIZE);
    check_equal(tally(MI_TALLY_LARGE), 0);
    unit_check_valid();
    void* const p = mi_malloc(SIZE);
    check(p == first && kept() == 0);
    check_equal(tally(MI_TALLY_LARGE), SIZE);
    check_equal(tally(MI_TALLY_LARGE_COUNT), 1 + i);
    check_equal(tally(MI_TALLY_LARGE_TOTAL), (1 + i) * (int64_t)SIZE);
    mi_free(p);
    check_equal(mi_atomic_load_relaxed(&MAIN->count.large), shared);
    check_equal(waiting(), 0);
  }
  mi_collect_all(MI_FORCE);
  check_equal(mi_atomic_load_relaxed(&MAIN->count.large), 0);
  check_equal(tally(MI_TALLY_LARGE_COUNT), 21);
  unit_check_empty();
}

// If this fails, calloc gives what another block left.
UNIT_TEST(kept_is_not_zero) {
  uint8_t* const p = (uint8_t*)mi_malloc(SIZE);
  memset(p, 0xFF, SIZE);
  mi_free(p);
  uint8_t* const q = (uint8_t*)mi_calloc(1, SIZE);
  check(q == p && unit_is_zero(q, SIZE));
  mi_free(q);
}

// If this fails, a second free of a large block is not seen, or breaks the heap.
UNIT_TEST(kept_is_no_block) {
  void* const p = mi_malloc(SIZE);
  mi_free(p);
  check(mi_pagemap_find(p) == NULL && !mi_is_known_address(p));
  mi_free(p);
  check_equal(hooks_fake.error_count, 1);
  check_equal(kept(), SIZE / MI_SLICE_SIZE);
  unit_check_valid();
}

// If this fails, the heap grows although this thread has memory (KEPT-3).
UNIT_TEST_PAGE_SIZES(kept_makes_way) {
  mi_free(mi_malloc(SIZE));
  check(kept() > 0);
  void* const other_size = mi_malloc(SIZE + MI_SLICE_SIZE);
  check_equal(kept(), 0);
  mi_free(other_size);
  check(kept() > 0);
  void* const page = mi_malloc(MI_CLASS_MAX); // claims slices
  check_equal(kept(), 0);
  mi_free(mi_malloc(SIZE));
  void* const aligned = mi_large_alloc(UNIT_HEAP, SIZE, MI_GIB, MI_UNINITIALIZED);
  check_equal(kept(), 0);
  mi_free(aligned);
  mi_free(page);
  unit_check_valid();
}

// If this fails, malloc returns a block that is too short, or the rest of one, which is no block.
UNIT_TEST_PAGE_SIZES(kept_serves_at_once_only_what_is_asked_for) {
  mi_free(mi_malloc(2 * SIZE));
  void* const first = mi_malloc(SIZE); // and the second half is kept
  check_equal(kept(), SIZE / MI_SLICE_SIZE);
  void* const second = mi_malloc(SIZE);
  check_equal(kept(), 0);
  check_equal(unit_page_of(second)->reserved, 1);
  // The rare things are done, too.
  const uint32_t before = unit_theap()->heartbeat;
  for (size_t i = 0; i < 2 * MI_QUICK_REFILLS; i++) mi_free(mi_malloc(SIZE));
  check(unit_theap()->heartbeat >= before + MI_QUICK_REFILLS);
  mi_free(second);
  void* const third = mi_malloc(SIZE + 1);
  check(mi_usable_size(third) > SIZE);
  // A zeroed one is cleared.
  memset(third, 1, SIZE + 1);
  mi_free(third);
  uint8_t* const zero = (uint8_t*)mi_zalloc(SIZE + 1);
  check(zero[0] == 0 && zero[SIZE] == 0);
  mi_free(zero);
  mi_free(first);
  unit_check_valid();
}

// If this fails, a block is kept that another heap, or the system, is to have; or much memory is.
UNIT_TEST(kept_is_plain) {
  mi_process_setup();
  mi_heap_t* const heap = mi_heap_make(MAIN, NULL);
  mi_free(mi_heap_malloc(heap, SIZE));
  check_equal(kept(), 0);
  mi_heap_end_by_delete(heap);
  mi_free(mi_malloc((MI_KEPT_SLICES_MAX + 1) * MI_SLICE_SIZE));
  check_equal(kept(), 0);
  void* const shifted =
      mi_large_alloc_shifted(UNIT_HEAP, SIZE, MI_SLICE_SIZE, 64, MI_UNINITIALIZED);
  mi_free(shifted);
  check_equal(kept(), 0);
  unit_option(purge_delay, 0);
  mi_free(mi_malloc(SIZE));
  check_equal(kept(), 0);
  unit_check_valid();
}

// If this fails, a block is used again whose memory was moved to another, and a user sees less
// committed memory than there is, by each such block.
UNIT_TEST_PAGE_SIZES(kept_has_its_memory) {
  void* const p = mi_malloc(SIZE);
  void* const wall = mi_malloc(SIZE); // p cannot grow in place
  void* const moved = mi_large_move(mi_pagemap_find(p), UNIT_HEAP, 3 * SIZE);
  check(moved != NULL && moved != p);
  check_equal(os_fake_calls(OS_FAKE_MOVE), 1);
  check_equal(kept(), 0);
  const int64_t before = mi_atomic_load_relaxed(&MAIN->count.charged);
  void* const again = mi_malloc(SIZE);
  check(mi_atomic_load_relaxed(&MAIN->count.charged) - before >= (int64_t)SIZE);
  mi_free(again);
  mi_free(moved);
  mi_free(wall);
  check_all_goes();
}

// If this fails, an idle program keeps the memory of its last large block (KEPT-4).
UNIT_TEST_PAGE_SIZES(kept_goes_back) {
  unit_option(purge_delay, 100);
  uint8_t* const p = (uint8_t*)mi_malloc(SIZE);
  memset(p, 1, SIZE);
  mi_free(p);
  for (size_t i = 0; i < 6; i++) {
    check(mi_retain_tick(MAIN) != UINT64_MAX || i > 0);
    check(kept() > 0 || i > 1); // a whole period
    check(kept() > 0 || waiting() == 0); // and no other
    os_fake_advance_ms(51);
  }
  check_equal(kept(), 0);
  check_equal(waiting(), 0);
  check_equal(mi_atomic_load_relaxed(&MAIN->kept_total), 0);
  check_equal(os_fake_resident(p, SIZE), 0);
  mi_retain_tick(MAIN);
  check(!mi_kept_has_any(MAIN)); // so that the purge thread sleeps
  unit_check_valid();
}

// If this fails, of two blocks that are freed in a row one is lost, or both are kept.
UNIT_TEST(kept_is_one_block) {
  void* const p = mi_malloc(SIZE);
  void* const q = mi_malloc(SIZE);
  mi_free(p);
  mi_free(q);
  check_equal(kept(), SIZE / MI_SLICE_SIZE);
  check_equal(mi_spare_length(MAIN), SIZE / MI_SLICE_SIZE);
  check_equal(tally(MI_TALLY_LARGE), 0);
  check(mi_malloc(SIZE) == q && mi_malloc(SIZE) == p);
  unit_check_valid();
}

// If this fails, a thread that uses its block all the time loses it, with each period.
UNIT_TEST(kept_stays_in_use) {
  unit_option(purge_delay, 100);
  void* const p = mi_malloc(SIZE);
  for (size_t i = 0; i < 20; i++) {
    mi_retain_tick(MAIN); // while the block is in use
    os_fake_advance_ms(51);
    mi_free(p);
    check(kept() > 0);
    check(mi_malloc(SIZE) == p);
  }
  mi_free(p);
}

// If this fails, a thread that ends leaves its block in use for ever.
UNIT_TEST_PAGE_SIZES(kept_ends_with_its_thread) {
  mi_free(mi_malloc(SIZE));
  puppet_start(&others[0]);
  for (size_t i = 0; i < 5; i++) puppet_free(&others[0], puppet_malloc(&others[0], SIZE));
  check_equal(kept(), 2 * SIZE / MI_SLICE_SIZE);
  puppet_end(&others[0]);
  check_equal(kept(), SIZE / MI_SLICE_SIZE);
  check_equal(tally(MI_TALLY_LARGE_COUNT), 6);
  check_equal(__builtin_popcount(mi_atomic_load_relaxed(&MAIN->kept_slots)), 1);
  unit_check_valid();
}

// If this fails, threads that each used a buffer for a moment keep much memory together (KEPT-5).
UNIT_TEST(kept_is_bounded) {
  void* blocks[MI_KEPT_SLOTS];
  for (size_t i = 0; i < MI_KEPT_SLOTS; i++) {
    puppet_start(&others[i]);
    blocks[i] = puppet_malloc(&others[i], SIZE);
  }
  const size_t in_use = (size_t)mi_atomic_load_relaxed(&MAIN->count.committed);
  for (size_t i = 0; i < MI_KEPT_SLOTS; i++) puppet_free(&others[i], blocks[i]);
  check(kept() * MI_SLICE_SIZE <= 128 * MI_SLICE_SIZE + in_use / 8);
  check(kept() * MI_SLICE_SIZE > 4 * SIZE);
  check_equal(mi_atomic_load_relaxed(&MAIN->kept_total), kept() * MI_SLICE_SIZE);
  mi_collect_all(MI_FORCE);
  check_equal(mi_atomic_load_relaxed(&MAIN->kept_total), 0);
  for (size_t i = 0; i < MI_KEPT_SLOTS; i++) puppet_end(&others[i]);
  unit_check_valid();
}

// If this fails, many threads keep more than KEPT-5 says.
UNIT_TEST(kept_has_so_many_slots) {
  void* const ballast = mi_malloc((size_t)8192 * MI_SLICE_SIZE);
  void* blocks[MI_KEPT_SLOTS + 1];
  for (size_t i = 0; i < MI_KEPT_SLOTS; i++) {
    puppet_start(&others[i]);
    blocks[i] = puppet_malloc(&others[i], SIZE);
  }
  blocks[MI_KEPT_SLOTS] = mi_malloc(SIZE);
  for (size_t i = 0; i < MI_KEPT_SLOTS; i++) puppet_free(&others[i], blocks[i]);
  check_equal(kept(), MI_KEPT_SLOTS * SIZE / MI_SLICE_SIZE);
  mi_free(blocks[MI_KEPT_SLOTS]);
  check_equal(kept(), MI_KEPT_SLOTS * SIZE / MI_SLICE_SIZE);
  puppet_end(&others[3]);
  mi_free(mi_malloc(SIZE)); // the slot is free
  check_equal(kept(), MI_KEPT_SLOTS * SIZE / MI_SLICE_SIZE);
  for (size_t i = 0; i < MI_KEPT_SLOTS; i++) {
    if (i != 3) puppet_end(&others[i]);
  }
  mi_free(ballast);
  mi_collect_all(MI_FORCE);
  check_equal(kept(), 0);
  check_equal(mi_atomic_load_relaxed(&MAIN->kept_total), 0);
  unit_check_valid();
}

// If this fails, the child of a fork has blocks in use that nobody can free, or too few slots.
UNIT_TEST_PAGE_SIZES(kept_of_vanished_threads_ends) {
  mi_free(mi_malloc(SIZE));
  puppet_start(&others[0]);
  for (size_t i = 0; i < 5; i++) puppet_free(&others[0], puppet_malloc(&others[0], SIZE));
  os_fake.fork_prepare();
  os_fake.fork_child();
  check_equal(kept(), SIZE / MI_SLICE_SIZE);
  check_equal(tally(MI_TALLY_LARGE), 0);
  check_equal(tally(MI_TALLY_LARGE_COUNT), 6);
  check_equal(__builtin_popcount(mi_atomic_load_relaxed(&MAIN->kept_slots)), 1);
  unit_check_valid();
}

#define REST ((size_t)3 * MI_SLICE_SIZE)

// If this fails, a thread that takes buffers of similar sizes changes the maps of the arena each
// time; or the figures are wrong (KEPT-7).
UNIT_TEST_PAGE_SIZES(kept_serves_a_shorter_block) {
  void* const first = mi_malloc(SIZE);
  mi_free(first);
  const int64_t shared = mi_atomic_load_relaxed(&MAIN->count.large);
  const int64_t committed = mi_atomic_load_relaxed(&MAIN->count.committed);
  for (size_t i = 0; i < 5; i++) {
    const size_t size = SIZE - REST - i * MI_SLICE_SIZE;
    void* const p = mi_malloc(size - 1);
    check(p == first);
    check_equal(mi_usable_size(p), size);
    check_equal(kept(), (SIZE - size) / MI_SLICE_SIZE);
    check_equal(tally(MI_TALLY_LARGE), size);
    unit_check_valid();
    mi_free(p);
    check_equal(kept(), SIZE / MI_SLICE_SIZE);
    check_equal(tally(MI_TALLY_LARGE), 0);
    unit_check_valid();
  }
  check_equal(mi_atomic_load_relaxed(&MAIN->count.large), shared);
  check_equal(mi_atomic_load_relaxed(&MAIN->count.committed), committed);
  check_equal(waiting(), 0);
  check_equal(mi_atomic_load_relaxed(&MAIN->kept_total), SIZE);
  check(mi_malloc(SIZE) == first && kept() == 0);
  mi_free(first);
  check_all_goes();
}

// If this fails, the rest of a block is lost, or is used twice, when the thread needs memory.
UNIT_TEST_PAGE_SIZES(kept_rest_makes_way) {
  mi_free(mi_malloc(SIZE));
  void* const p = mi_malloc(SIZE - REST);
  check_equal(kept(), REST / MI_SLICE_SIZE);
  void* const q = mi_malloc(SIZE - REST); // not the rest of another block
  check_equal(kept(), 0);
  check_equal(tally(MI_TALLY_LARGE), 2 * (SIZE - REST));
  mi_free(p);
  mi_free(mi_malloc(SIZE - REST));
  check_equal(kept(), SIZE / MI_SLICE_SIZE - REST / MI_SLICE_SIZE);
  mi_free(q);
  unit_check_valid();
  mi_free(mi_malloc(2 * SIZE));
  uint8_t* const half = (uint8_t*)mi_malloc(SIZE + MI_SLICE_SIZE);
  check_equal(kept(), SIZE / MI_SLICE_SIZE - 1);
  void* const other_half = mi_malloc(SIZE - MI_SLICE_SIZE); // described anew, as any run is
  check(other_half == half + SIZE + MI_SLICE_SIZE);
  check_equal(kept(), 0);
  check_equal(mi_pagemap_find(other_half)->count.used, 1);
  unit_check_valid();
  mi_free(other_half);
  mi_free(half);
  check_all_goes();
}

// If this fails, a block cannot grow into what it was before.
UNIT_TEST_PAGE_SIZES(kept_rest_is_room) {
  mi_free(mi_malloc(SIZE));
  void* const p = mi_malloc(SIZE - REST);
  check(mi_realloc_in_place(p, SIZE));
  check_equal(kept(), 0);
  check_equal(tally(MI_TALLY_LARGE), SIZE);
  unit_check_valid();
  mi_free(p);
  check_equal(kept(), SIZE / MI_SLICE_SIZE);
  void* const q = mi_malloc(SIZE - REST);
  check(q == p && mi_large_resize(mi_pagemap_find(q), SIZE - 2 * REST)); // apart from its rest
  mi_free(q);
  check_equal(kept(), (SIZE - 2 * REST) / MI_SLICE_SIZE);
  check_equal(tally(MI_TALLY_LARGE), 0);
  unit_check_valid();
}

// If this fails, a program that keeps its block keeps what a longer one left, too (KEPT-4).
UNIT_TEST_PAGE_SIZES(kept_rest_goes_back) {
  unit_option(purge_delay, 100);
  uint8_t* const p = (uint8_t*)mi_malloc(SIZE);
  memset(p, 1, SIZE);
  mi_free(p);
  check(mi_malloc(SIZE - REST) == p);
  memset(p, 2, SIZE - REST);
  for (size_t i = 0; i < 6; i++) {
    check(mi_retain_tick(MAIN) != UINT64_MAX || i > 0);
    os_fake_advance_ms(51);
  }
  check_equal(kept(), 0);
  check_equal(waiting(), 0);
  check_equal(os_fake_resident(p + SIZE - REST, REST), 0);
  check_equal(os_fake_resident(p, SIZE - REST), SIZE - REST);
  check_equal(p[SIZE - REST - 1], 2);
  check_equal(tally(MI_TALLY_LARGE), SIZE - REST);
  mi_free(p);
  check_equal(kept(), (SIZE - REST) / MI_SLICE_SIZE);
  unit_check_valid();
}

// If this fails, a block that another thread frees takes memory along that this thread keeps.
UNIT_TEST_PAGE_SIZES(kept_rest_has_one_owner) {
  mi_free(mi_malloc(SIZE));
  puppet_start(&others[0]);
  puppet_free(&others[0], puppet_malloc(&others[0], 1));
  void* const p = mi_malloc(SIZE - REST);
  puppet_free(&others[0], p);
  check_equal(kept(), SIZE / MI_SLICE_SIZE);
  check_equal(tally(MI_TALLY_LARGE), 0);
  check(puppet_malloc(&others[0], SIZE - REST) == p);
  check_equal(kept(), REST / MI_SLICE_SIZE);
  puppet_free(&others[0], p);
  puppet_end(&others[0]);
  check_equal(kept(), REST / MI_SLICE_SIZE);
  unit_check_valid();
  check_all_goes();
}

enum { REPLACE_ROUNDS = 6000 };

// Thread 0 takes what the others keep, as fast as it can; 1 looks at it as at the end of a period.
static void replace(void* arg) {
  const size_t number = *(const size_t*)arg;
  for (size_t i = 0; number == 0 && i < 50 * REPLACE_ROUNDS; i++) mi_kept_release_all(MAIN);
  for (size_t i = 0; number != 0 && i < REPLACE_ROUNDS; i++) {
    const size_t size = (i % 16 == 0 ? SIZE + MI_SLICE_SIZE : SIZE) - i % 5 * MI_SLICE_SIZE;
    uint8_t* const p = (uint8_t*)mi_malloc(size);
    p[0] = p[size - 1] = (uint8_t)(number + i);
    if (number == 1 && i % 8 == 0) {
      mi_lock_enter(&mi_state.purge_lock);
      mi_kept_age(MAIN);
      mi_lock_leave(&mi_state.purge_lock);
    }
    check(p[0] == (uint8_t)(number + i) && p[size - 1] == (uint8_t)(number + i));
    mi_free(p);
  }
}

// If this fails, a thread and the purger both have a block, or nobody has it (KEPT-2).
UNIT_TEST(kept_has_one_owner) {
  size_t numbers[] = {0, 1, 2, 3};
  unit_on_threads(4, &replace, numbers, sizeof(numbers[0]));
  check_equal(tally(MI_TALLY_LARGE), 0);
  check_equal(tally(MI_TALLY_LARGE_COUNT), 3 * REPLACE_ROUNDS);
  unit_check_valid();
  mi_collect_all(MI_FORCE);
  unit_check_empty();
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(kept_serves_the_next_block),
      cmocka_unit_test(kept_is_not_zero),
      cmocka_unit_test(kept_is_no_block),
      cmocka_unit_test(kept_makes_way),
      cmocka_unit_test(kept_serves_at_once_only_what_is_asked_for),
      cmocka_unit_test(kept_is_plain),
      cmocka_unit_test(kept_has_its_memory),
      cmocka_unit_test(kept_goes_back),
      cmocka_unit_test(kept_is_one_block),
      cmocka_unit_test(kept_stays_in_use),
      cmocka_unit_test(kept_ends_with_its_thread),
      cmocka_unit_test(kept_is_bounded),
      cmocka_unit_test(kept_has_so_many_slots),
      cmocka_unit_test(kept_of_vanished_threads_ends),
      cmocka_unit_test(kept_serves_a_shorter_block),
      cmocka_unit_test(kept_rest_makes_way),
      cmocka_unit_test(kept_rest_is_room),
      cmocka_unit_test(kept_rest_goes_back),
      cmocka_unit_test(kept_rest_has_one_owner),
      cmocka_unit_test(kept_has_one_owner),
  };
  return cmocka_run_group_tests_name("kept", tests, NULL, NULL);
}
