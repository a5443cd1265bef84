// SPDX-License-Identifier: MIT
// spare.c - tests of arenas/spare.c.
#include "unit.h"

#include "core/arenas/arena.h"
#include "core/arenas/bitmap.h"
#include "core/arenas/purge.h"
#include "core/arenas/retain.h"
#include "core/arenas/run.h"
#include "core/arenas/slices.h"
#include "core/arenas/spare.h"
#include "core/heaps/heap.h"

#define MAIN (&mi_state.main)
#define LENGTH ((size_t)9) // the shortest run that is kept

// As for a large block.
static mi_run_t claim_aligned(mi_heap_t* heap, size_t count, size_t alignment) {
  mi_run_t run = {0};
  check(mi_run_claim_again(heap, count, alignment, &run) ||
        mi_slices_claim(heap, count, alignment, 0, &run));
  return run;
}

static mi_run_t claim_in(mi_heap_t* heap, size_t count) {
  return claim_aligned(heap, count, MI_SLICE_SIZE);
}

static mi_run_t claim(size_t count) { return claim_in(UNIT_HEAP, count); }

static void release(const mi_run_t* run) {
  mi_slices_release(run->arena, run->slice_index, run->slice_count, MI_SLICE_SIZE);
}

static bool is_free(const mi_run_t* run) {
  return mi_bitmap_is_all_set(run->arena->free, run->slice_index, run->slice_count);
}

static int64_t waiting(void) { return mi_atomic_load_relaxed(&MAIN->purge_waiting); }

// If this fails, a large block that is freed and allocated again and again is searched each time.
UNIT_TEST(spare_serves_the_next_claim) {
  mi_process_setup();
  const mi_run_t run = claim(LENGTH);
  check(run.is_zero);
  for (size_t i = 0; i < 3; i++) {
    release(&run);
    check_equal(mi_spare_length(MAIN), LENGTH);
    check(!is_free(&run));
    unit_check_valid();
    const mi_run_t again = claim(LENGTH);
    check_equal(mi_spare_length(MAIN), 0);
    check(again.start == run.start && again.arena == run.arena);
    check(again.slice_index == run.slice_index && again.slice_count == LENGTH);
    check(!again.is_zero && again.is_resident);
    check_equal(waiting(), 0);
  }
  release(&run);
}

// If this fails, an aligned block that is freed and allocated again is searched each time, or a
// page takes its place.
UNIT_TEST(spare_is_short_if_aligned) {
  mi_process_setup();
  const mi_run_t first = claim(1);
  const mi_run_t run = claim_aligned(UNIT_HEAP, 1, 4 * MI_SLICE_SIZE);
  for (size_t i = 0; i < 3; i++) {
    mi_slices_release(run.arena, run.slice_index, 1, 4 * MI_SLICE_SIZE);
    check_equal(mi_spare_length(MAIN), 1);
    check(!is_free(&run));
    check(mi_spare_is_valid(MAIN));
    const size_t alignment = (size_t)(i == 2 ? 2 : 4) * MI_SLICE_SIZE;
    const mi_run_t again = claim_aligned(UNIT_HEAP, 1, alignment);
    check(again.start == run.start && mi_spare_length(MAIN) == 0);
  }
  mi_slices_release(run.arena, run.slice_index, 1, 4 * MI_SLICE_SIZE);
  const mi_run_t page = claim(1); // it has no alignment: the run is released first
  check_equal(mi_spare_length(MAIN), 0);
  check(page.start == first.start + MI_SLICE_SIZE && is_free(&run));
  release(&page);
  release(&first);
}

// If this fails, pages of small blocks lie where a run was freed last, not at low addresses.
UNIT_TEST(spare_is_no_short_run) {
  mi_process_setup();
  for (size_t count = 1; count < LENGTH; count++) {
    const mi_run_t run = claim(count);
    release(&run);
    check_equal(mi_spare_length(MAIN), 0);
    check(is_free(&run));
  }
}

// If this fails, memory lies elsewhere because a run was kept, or the heap grows beside a free run.
UNIT_TEST(spare_makes_way_for_other_lengths) {
  mi_process_setup();
  const size_t lengths[] = {1, LENGTH - 1, LENGTH + 1};
  for (size_t i = 0; i < 3; i++) {
    const mi_run_t low = claim(2 * LENGTH);
    const mi_run_t high = claim(LENGTH);
    release(&low);
    const mi_run_t other = claim(lengths[i]);
    check(other.start == low.start);
    check_equal(mi_spare_length(MAIN), 0);
    release(&high);
    release(&other);
    mi_purge_everything(MAIN);
  }
}

// If this fails, large blocks of random sizes, allocated and freed in turn, each lie elsewhere, or
// a part of the run is lost.
UNIT_TEST(spare_serves_similar_lengths) {
  mi_process_setup();
  const size_t lengths[] = {2 * LENGTH, LENGTH, 2 * LENGTH, LENGTH + 3};
  const mi_run_t first = claim(2 * LENGTH);
  const mi_run_t behind = claim(1);
  release(&first);
  for (size_t i = 0; i < 4; i++) {
    const mi_run_t run = claim(lengths[i]);
    check(run.start == first.start && run.slice_count == lengths[i] && !run.is_zero);
    const size_t rest = 2 * LENGTH - lengths[i];
    const size_t end = run.slice_index + run.slice_count;
    check(mi_bitmap_is_all_clear(run.arena->free, run.slice_index, run.slice_count));
    check(rest == 0 || mi_bitmap_is_all_set(run.arena->free, end, rest));
    check_equal(waiting(), rest * MI_SLICE_SIZE);
    check_equal(mi_spare_length(MAIN), 0);
    release(&run);
    check(mi_spare_is_valid(MAIN));
  }
  const mi_run_t longer = claim(2 * LENGTH + 1); // the slices behind are in use
  check(longer.start > behind.start && is_free(&first));
  release(&behind);
  release(&longer);
  unit_check_valid();
}

// If this fails, the heap grows although a block has room in it, because another one was freed at
// its end.
UNIT_TEST(spare_at_the_end_makes_no_arena_grow) {
  mi_process_setup();
  const mi_run_t room = claim(8 * LENGTH);
  release(&room);
  mi_spare_release(MAIN);
  const mi_run_t low = claim(2 * LENGTH);
  const size_t behind = low.slice_index + low.slice_count;
  const mi_run_t middle = claim(mi_arena_slices(low.arena) - behind - LENGTH);
  const mi_run_t last = claim(LENGTH);
  check(last.slice_index + LENGTH == mi_arena_slices(low.arena));
  const int64_t reserved = mi_atomic_load_relaxed(&MAIN->count.reserved);
  release(&low);
  release(&last);
  const mi_run_t longer = claim(LENGTH + 1);
  check(longer.start == low.start);
  check_equal(mi_atomic_load_relaxed(&MAIN->count.reserved), reserved);
  release(&middle);
  release(&longer);
}

// If this fails, a small block splits the place of one that was much larger.
UNIT_TEST(spare_is_not_taken_for_much_less_or_more) {
  mi_process_setup();
  const mi_run_t low = claim(LENGTH);
  const mi_run_t middle = claim(1);
  const mi_run_t high = claim(2 * LENGTH + 1);
  release(&low);
  release(&high);
  const mi_run_t less = claim(LENGTH);
  check(less.start == low.start && is_free(&high));
  release(&less);
  const mi_run_t more = claim(2 * LENGTH + 1);
  check(more.start == high.start && is_free(&low));
  release(&more);
  release(&middle);
}

// If this fails, a run is never free again after two were freed.
UNIT_TEST(spare_is_one_run) {
  mi_process_setup();
  const mi_run_t first = claim(LENGTH);
  const mi_run_t second = claim(LENGTH + 1);
  release(&first);
  release(&second);
  check(is_free(&first) && !is_free(&second));
  check_equal(waiting(), (2 * LENGTH + 1) * MI_SLICE_SIZE);
  unit_check_valid();
}

// If this fails, an aligned block is not aligned.
UNIT_TEST(spare_is_as_aligned_as_it_is) {
  mi_process_setup();
  const mi_run_t before = claim(1);
  const mi_run_t run = claim(LENGTH);
  check(((uintptr_t)run.start & (2 * MI_SLICE_SIZE - 1)) != 0);
  release(&run);
  const mi_run_t aligned = claim_aligned(UNIT_HEAP, LENGTH, 2 * MI_SLICE_SIZE);
  check(((uintptr_t)aligned.start & (2 * MI_SLICE_SIZE - 1)) == 0);
  check_equal(mi_spare_length(MAIN), 0);
  release(&before);
  release(&aligned);
}

// If this fails, a program that frees a large block and sleeps keeps it.
UNIT_TEST(spare_goes_back_with_all_that_waits) {
  mi_process_setup();
  const mi_run_t run = claim(LENGTH);
  memset(run.start, 1, LENGTH * MI_SLICE_SIZE);
  release(&run);
  check_equal(waiting(), LENGTH * MI_SLICE_SIZE);
  check_equal(mi_purge_everything(MAIN), LENGTH * MI_SLICE_SIZE);
  check_equal(os_fake_resident(run.start, LENGTH * MI_SLICE_SIZE), 0);
  check(is_free(&run));
  check_equal(waiting(), 0);
  // After a delay, as all that waits.
  memset(claim(LENGTH).start, 1, LENGTH * MI_SLICE_SIZE);
  release(&run);
  for (size_t i = 0; i < 3; i++) {
    mi_retain_poll(MAIN);
    os_fake_advance_ms((size_t)mi_option_value(purge_delay));
  }
  check_equal(os_fake_resident(run.start, LENGTH * MI_SLICE_SIZE), 0);
}

// If this fails, a run beyond what may wait stays with a program that sleeps.
UNIT_TEST_ON(spare_is_bounded, 512 * MI_MIB) {
  mi_process_setup();
  const size_t count = 3072; // what may wait is 512 slices, and half of what is in use
  const mi_run_t run = claim(count);
  memset(run.start, 1, count * MI_SLICE_SIZE);
  release(&run);
  mi_retain_bound(MAIN);
  check(os_fake_resident(run.start, count * MI_SLICE_SIZE) <= 512 * MI_SLICE_SIZE);
  const size_t slices = (size_t)waiting() / MI_SLICE_SIZE;
  check(slices <= 512 && slices >= 512 - 512 / 32);
}

// If this fails, option purge_delay=0 leaves memory with the process.
UNIT_TEST(spare_is_none_without_delay) {
  mi_process_setup();
  unit_option(purge_delay, 0);
  const mi_run_t run = claim(LENGTH);
  memset(run.start, 1, LENGTH * MI_SLICE_SIZE);
  release(&run);
  check_equal(mi_spare_length(MAIN), 0);
  mi_retain_bound(MAIN);
  check_equal(os_fake_resident(run.start, LENGTH * MI_SLICE_SIZE), 0);
}

// If this fails, memory of an arena that a heap has for itself goes to another, or the reverse.
UNIT_TEST(spare_stays_in_its_arena) {
  mi_process_setup();
  mi_arena_plan_t plan = {.size = UNIT_ARENA_SIZE, .numa_node = -1, .is_exclusive = true};
  mi_arena_t* const arena = mi_arena_reserve(MAIN, &plan, MI_ARENA_COMMITTED);
  check(arena != NULL);
  mi_heap_t* const heap = mi_heap_make(MAIN, arena);
  check(heap != NULL);
  const mi_run_t own = claim_in(heap, LENGTH);
  check(own.arena == arena);
  release(&own);
  check_equal(mi_spare_length(MAIN), 0);
  const mi_run_t other = claim(LENGTH);
  check(other.arena != arena);
  release(&other);
  check_equal(mi_spare_length(MAIN), LENGTH);
  const mi_run_t bound = claim_in(heap, LENGTH);
  check(bound.arena == arena);
  check_equal(mi_spare_length(MAIN), 0);
  release(&bound);
}

// If this fails, a block is copied although the memory behind it is free.
UNIT_TEST(spare_makes_way_for_growth_in_place) {
  mi_process_setup();
  const mi_run_t block = claim(LENGTH);
  const mi_run_t behind = claim(LENGTH);
  check(behind.start == block.start + LENGTH * MI_SLICE_SIZE);
  release(&behind);
  bool is_zero;
  check(mi_slices_claim_at(behind.arena, behind.slice_index, 1, &is_zero));
  check(!is_zero);
  mi_slices_release(behind.arena, behind.slice_index, 1, MI_SLICE_SIZE);
  release(&block);
}

static void replace(void* arg) {
  const size_t count = *(const size_t*)arg;
  for (size_t i = 0; i < 2000; i++) {
    const mi_run_t run = claim(i % 7 == 0 ? count + 1 : count);
    run.start[0] = (uint8_t)count;
    run.start[run.slice_count * MI_SLICE_SIZE - 1] = (uint8_t)i;
    check(run.start[0] == (uint8_t)count);
    check(run.start[run.slice_count * MI_SLICE_SIZE - 1] == (uint8_t)i);
    release(&run);
  }
}

// If this fails, two threads get the same memory, or memory is lost.
UNIT_TEST(spare_has_one_owner) {
  mi_process_setup();
  size_t counts[] = {LENGTH, LENGTH, LENGTH + 1, LENGTH};
  unit_on_threads(4, &replace, counts, sizeof(counts[0]));
  unit_check_valid();
  mi_purge_everything(MAIN);
  unit_check_empty();
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(spare_serves_the_next_claim),
      cmocka_unit_test(spare_is_short_if_aligned),
      cmocka_unit_test(spare_is_no_short_run),
      cmocka_unit_test(spare_makes_way_for_other_lengths),
      cmocka_unit_test(spare_serves_similar_lengths),
      cmocka_unit_test(spare_is_not_taken_for_much_less_or_more),
      cmocka_unit_test(spare_at_the_end_makes_no_arena_grow),
      cmocka_unit_test(spare_is_one_run),
      cmocka_unit_test(spare_is_as_aligned_as_it_is),
      cmocka_unit_test(spare_goes_back_with_all_that_waits),
      cmocka_unit_test(spare_is_bounded),
      cmocka_unit_test(spare_is_none_without_delay),
      cmocka_unit_test(spare_stays_in_its_arena),
      cmocka_unit_test(spare_makes_way_for_growth_in_place),
      cmocka_unit_test(spare_has_one_owner),
  };
  return cmocka_run_group_tests_name("spare", tests, NULL, NULL);
}
