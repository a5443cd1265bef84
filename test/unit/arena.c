// SPDX-License-Identifier: MIT
// arena.c - tests of arenas/arena.c: runs of slices, growth in steps, refusals, and large heaps.
#include "unit.h"

#include "core/arenas/arena.h"
#include "core/arenas/bitmap.h"
#include "core/common/meta.h"
#include "core/common/pagemap.h"
#include "core/arenas/purge.h"
#include "core/arenas/slices.h"

static mi_run_t claim(size_t count, size_t alignment) {
  mi_run_t run = {0};
  check(mi_slices_claim(UNIT_HEAP, count, alignment, 0, &run));
  check_equal(run.slice_count, count);
  check((uintptr_t)run.start % alignment == 0);
  check(run.slice_index + count <= mi_arena_slices(run.arena));
  check(mi_arena_of(&mi_state.main, run.start) == run.arena);
  check(mi_arena_of(&mi_state.main, run.start + count * MI_SLICE_SIZE - 1) == run.arena);
  check_equal(mi_arena_slice_of(run.arena, run.start + 1), run.slice_index);
  return run;
}

static void release(const mi_run_t* run) {
  mi_slices_release(run->arena, run->slice_index, run->slice_count, MI_SLICE_SIZE);
}

static bool reserve(size_t size) {
  mi_arena_plan_t plan = {.size = size, .numa_node = -1};
  return mi_arena_reserve(&mi_state.main, &plan, MI_ARENA_COMMITTED) != NULL;
}

// Small arenas, so that many fit the test.
static void small_arenas(void) {
  mi_process_setup();
  unit_option(arena_reserve, UNIT_ARENA_SIZE / MI_KIB);
}

// If this fails, memory in use spreads out, and the process is larger than it must be.
UNIT_TEST_PAGE_SIZES(arena_claims_the_lowest_run) {
  mi_process_setup();
  mi_run_t run[20];
  for (size_t i = 0; i < 20; i++) {
    run[i] = claim(1 + i % 3, MI_SLICE_SIZE);
    check(run[i].is_zero);
    if (i > 0) check_equal(run[i].slice_index, run[i - 1].slice_index + run[i - 1].slice_count);
  }
  release(&run[7]); // two slices
  release(&run[12]); // one
  const mi_run_t two = claim(2, MI_SLICE_SIZE);
  check_equal(two.slice_index, run[7].slice_index);
  const mi_run_t one = claim(1, MI_SLICE_SIZE);
  check_equal(one.slice_index, run[12].slice_index);
  release(&two);
  const mi_run_t again = claim(1, MI_SLICE_SIZE);
  check_equal(again.slice_index, run[7].slice_index);
  release(&again);
  release(&one);
  for (size_t i = 0; i < 20; i++) {
    if (i != 7 && i != 12) release(&run[i]);
  }
  unit_check_empty();
}

// If this fails, calloc returns memory that is not zero, or clears memory that is.
UNIT_TEST_PAGE_SIZES(arena_knows_what_is_zero) {
  mi_process_setup();
  mi_run_t run = claim(4, MI_SLICE_SIZE);
  check(run.is_zero && unit_is_zero(run.start, 4 * MI_SLICE_SIZE));
  memset(run.start, 1, 4 * MI_SLICE_SIZE);
  release(&run);
  run = claim(2, MI_SLICE_SIZE);
  check(!run.is_zero);
  mi_run_t mixed = claim(4, MI_SLICE_SIZE); // two dirty slices and two fresh ones
  check_equal(mixed.slice_index, run.slice_index + 2);
  check(!mixed.is_zero);
  mi_run_t fresh = claim(1, MI_SLICE_SIZE);
  check(fresh.is_zero);
  release(&run);
  release(&mixed);
  release(&fresh);
}

// If this fails, memory aligned beyond a slice is not.
UNIT_TEST_PAGE_SIZES(arena_aligns_runs) {
  mi_process_setup();
  mi_run_t run[12];
  size_t alignment = MI_SLICE_SIZE;
  for (size_t i = 0; i < 12; i++, alignment *= 2) {
    run[i] = claim(1 + i, alignment);
    for (size_t k = 0; k < i; k++) check(run[i].start != run[k].start);
  }
  for (size_t i = 0; i < 12; i++) release(&run[i]);
  unit_check_empty();
}

// If this fails, the same in an arena that does not start at such an alignment itself.
UNIT_TEST_PAGE_SIZES(arena_aligns_runs_anywhere) {
  small_arenas();
  mi_run_t whole = claim(UNIT_ARENA_SIZE / MI_SLICE_SIZE, MI_SLICE_SIZE);
  for (size_t round = 0; round < 3; round++) {
    check(reserve(UNIT_ARENA_SIZE * 2 + MI_CHUNK_SLICES * MI_SLICE_SIZE));
    for (size_t shift = 0; shift < 8; shift++) {
      mi_run_t run = claim(3, (MI_CHUNK_SLICES * MI_SLICE_SIZE / 4) << shift);
      release(&run);
    }
  }
  release(&whole);
  unit_check_empty();
}

// If this fails, blocks of more than a few MiB overlap others.
UNIT_TEST_PAGE_SIZES(arena_claims_runs_across_words) {
  mi_process_setup();
  check(reserve(8 * MI_WORD_BITS * MI_SLICE_SIZE));
  mi_run_t small = claim(3, MI_SLICE_SIZE);
  mi_run_t large = claim(MI_WORD_BITS * 2 + 5, MI_SLICE_SIZE);
  mi_run_t next = claim(MI_WORD_BITS + 1, MI_SLICE_SIZE);
  check_equal(large.slice_index, 3);
  check_equal(next.slice_index, large.slice_index + large.slice_count);
  release(&large);
  bool is_zero = true;
  check(!mi_slices_claim_at(next.arena, 3, large.slice_count + 1, &is_zero)); // `next` is in use
  check(mi_slices_claim_at(next.arena, 3, large.slice_count, &is_zero) && !is_zero);
  release(&large);
  release(&next);
  release(&small);
  unit_check_empty();
}

// If this fails, realloc takes memory behind the arena or of another block.
UNIT_TEST_PAGE_SIZES(arena_claims_at_a_place) {
  small_arenas();
  mi_run_t run = claim(2, MI_SLICE_SIZE);
  bool is_zero = false;
  check(mi_slices_claim_at(run.arena, 2, 3, &is_zero) && is_zero);
  check(!mi_slices_claim_at(run.arena, 4, 3, &is_zero));
  // Behind its end, the arena grows for it; not behind all that it may grow to, nor if a slice in
  // between is in use.
  const size_t end = mi_arena_slices(run.arena);
  const size_t max = run.arena->slice_max;
  check(end < max);
  check(!mi_slices_claim_at(run.arena, 4, max - 4, &is_zero));
  check(!mi_slices_claim_at(run.arena, end, max - end + 1, &is_zero));
  check_equal(mi_arena_slices(run.arena), end);
  check(mi_slices_claim_at(run.arena, end - 1, 2, &is_zero) && is_zero);
  check(mi_arena_slices(run.arena) > end);
  check(mi_slices_claim_at(run.arena, end + 1, max - end - 1, &is_zero));
  check_equal(mi_arena_slices(run.arena), max);
  check_equal(mi_state.main.arena_count, 1);
  check(!mi_slices_claim_at(run.arena, max - 1, 2, &is_zero));
  check(!mi_slices_claim_at(run.arena, max, 1, &is_zero));
  mi_slices_release(run.arena, 2, 3, MI_SLICE_SIZE);
  mi_slices_release(run.arena, end - 1, max - end + 1, MI_SLICE_SIZE);
  release(&run);
  unit_check_empty();
}

// If this fails, a large heap needs more and more mappings, or stops growing.
UNIT_TEST_PAGE_SIZES(arena_grows_without_end) {
  small_arenas();
  enum { ARENAS = 20 };
  mi_run_t run[ARENAS];
  const size_t chunk = MI_CHUNK_SLICES * MI_SLICE_SIZE;
  for (size_t i = 0; i < ARENAS; i++) {
    // All of what the arena should have: it doubles every eight.
    const size_t bytes = UNIT_ARENA_SIZE << (i / 8);
    run[i] = claim(bytes / MI_SLICE_SIZE, MI_SLICE_SIZE);
    check_equal(mi_state.main.arena_count, i + 1);
    check_equal(mi_arena_size(run[i].arena), bytes);
    check((uintptr_t)run[i].arena->start % chunk == 0);
    // Next to the one before.
    if (i > 0) check(run[i].start == run[i - 1].start + run[i - 1].slice_count * MI_SLICE_SIZE);
  }
  check(os_fake_mapping_count() <= 8);
  for (size_t i = 0; i < ARENAS; i++) release(&run[i]);
  // What is there is used before more is reserved.
  for (size_t i = 0; i < ARENAS; i++) {
    run[i] = claim(UNIT_ARENA_SIZE / MI_SLICE_SIZE, MI_SLICE_SIZE);
  }
  check_equal(mi_state.main.arena_count, ARENAS);
  for (size_t i = 0; i < ARENAS; i++) release(&run[i]);
  unit_check_empty();
}

// If this fails, a process has far more addresses than it uses: what is locked or charged is more
// than the program wanted.
UNIT_TEST_PAGE_SIZES(arena_maps_what_is_needed) {
  mi_process_setup();
  unit_option(arena_reserve, (long)(1024 * MI_ARENA_STEP_MIN / MI_KIB));
  enum { RUNS = 400 };
  static mi_run_t run[RUNS];
  size_t needed = 0;
  for (size_t i = 0; i < RUNS; i++) {
    const size_t count = i % 40 == 39 ? 5 * MI_ARENA_STEP_MIN / MI_SLICE_SIZE : 1 + i % 3;
    run[i] = claim(count, MI_SLICE_SIZE);
    needed += count * MI_SLICE_SIZE;
    const size_t reserved = (size_t)mi_atomic_load_relaxed(&mi_state.main.count.reserved);
    // What the end of the first arena was too short for is left over once.
    const size_t most = needed / 7 * 8 + 6 * MI_ARENA_STEP_MIN;
    check(reserved >= needed && reserved <= most);
    size_t sum = 0;
    MI_FOR_EACH_ARENA(&mi_state.main, arena) sum += mi_arena_size(arena);
    check_equal(sum, reserved);
  }
  // The near one, if it is apart (not with the thread sanitizer), and one more.
  check_equal(mi_state.main.arena_count, mi_arena_is_apart(os_fake.reserve) ? 2 : 1);
  check(os_fake_calls(OS_FAKE_MAP) + os_fake_calls(OS_FAKE_MAP_AT) < 70);
  for (size_t i = 0; i < RUNS; i++) release(&run[i]);
  unit_check_empty();
}

// If this fails, memory of another part of the program is taken from it, or growth ends there.
UNIT_TEST_PAGE_SIZES(arena_grows_around_others) {
  mi_process_setup();
  mi_run_t first = claim(1, MI_SLICE_SIZE);
  const size_t step = mi_bits_max(MI_ARENA_STEP_MIN, os_fake.page_size);
  uint8_t* const wall = first.arena->start + mi_arena_size(first.arena) + 2 * step;
  void* const other = mi_os_map(wall, os_fake.page_size, os_fake.page_size, MI_OS_READ_WRITE);
  check(other == wall);
  memset(wall, 7, os_fake.page_size);
  mi_run_t run[200];
  for (size_t i = 0; i < 200; i++) {
    run[i] = claim(1 + i % 4, MI_SLICE_SIZE);
    memset(run[i].start, 1, run[i].slice_count * MI_SLICE_SIZE);
  }
  for (size_t i = 0; i < os_fake.page_size; i++) check_equal(wall[i], 7);
  // All that was free in front of it is used.
  check(first.arena->start + mi_arena_size(first.arena) == wall);
  check(mi_state.main.arena_count > 1);
  for (size_t i = 0; i < 200; i++) release(&run[i]);
  release(&first);
  unit_check_empty();
  check_equal(mi_os_unmap(wall, os_fake.page_size), 0);
}

// If this fails, a process whose addresses are not its own to choose has an arena for each step, or
// has memory locked that it does not use.
UNIT_TEST_PAGE_SIZES(arena_has_room_without_hints) {
  os_fake.has_hints = false;
  mi_process_setup();
  const size_t step = mi_bits_max(MI_ARENA_STEP_MIN, os_fake.page_size) / MI_SLICE_SIZE;
  mi_run_t run[8];
  for (size_t i = 0; i < 8; i++) {
    run[i] = claim(step, MI_SLICE_SIZE);
    check(unit_is_zero(run[i].start, step * MI_SLICE_SIZE));
    memset(run[i].start, 1, step * MI_SLICE_SIZE);
    check_equal((size_t)mi_state.main.count.reserved, (i + 1) * step * MI_SLICE_SIZE);
  }
  // It has its addresses from the start, and its memory step by step.
  check_equal(mi_state.main.arena_count, 1);
  check_equal(run[7].arena->slice_max * MI_SLICE_SIZE,
              (size_t)mi_option_value(arena_reserve) * MI_KIB);
  for (size_t i = 0; i < 8; i++) release(&run[i]);
  unit_check_empty();
}

// If this fails, a process under `ulimit -v` gets no memory although there is some.
UNIT_TEST_PAGE_SIZES(arena_halves_when_refused) {
  mi_process_setup();
  unit_option(arena_reserve, (long)(1024 * MI_ARENA_STEP_MIN / MI_KIB));
  // From now on a step is that of sixteen.
  mi_run_t first = claim(128 * MI_ARENA_STEP_MIN / MI_SLICE_SIZE, MI_SLICE_SIZE);
  const size_t before = (size_t)mi_state.main.count.reserved;
  check_equal(before, 128 * MI_ARENA_STEP_MIN);
  const size_t unit = mi_bits_max(MI_ARENA_STEP_MIN, os_fake.page_size);
  os_fake.map_limit = 5 * unit;
  mi_run_t run = claim(1, MI_SLICE_SIZE);
  check_equal((size_t)mi_state.main.count.reserved, before + 4 * unit);
  release(&run);
  // Below the smallest useful step: what is needed, no more.
  const size_t more = 7 * unit / MI_SLICE_SIZE;
  os_fake.map_limit = 3 * unit - 1;
  mi_run_t none;
  check(!mi_slices_claim(UNIT_HEAP, more, MI_SLICE_SIZE, 0, &none));
  check_equal((size_t)mi_state.main.count.reserved, before + 4 * unit);
  os_fake.map_limit = 3 * unit;
  run = claim(more, MI_SLICE_SIZE);
  check_equal((size_t)mi_state.main.count.reserved, before + 7 * unit);
  release(&run);
  release(&first);
  unit_check_empty();
}

// If this fails, a limited process dies by our own reservations.
UNIT_TEST_PAGE_SIZES(arena_respects_the_address_limit) {
  os_fake.has_address_limit = true;
  os_fake.address_limit = 64 * MI_MIB;
  mi_process_setup();
  mi_run_t run[64];
  size_t count = 0;
  while (count < 64 &&
         mi_slices_claim(UNIT_HEAP, MI_MIB / MI_SLICE_SIZE, MI_SLICE_SIZE, 0, &run[count])) {
    count++;
  }
  check(count >= 58); // nine tenths of the limit are usable
  for (size_t i = 0; i < count; i++) release(&run[i]);
  unit_check_empty();
}

// If this fails, running out of memory loses slices, or the process stays without memory for ever.
UNIT_TEST_PAGE_SIZES(arena_recovers_from_refusal) {
  mi_process_setup();
  os_fake.fail_at[OS_FAKE_MAP] = 1;
  os_fake.is_failing_on = true;
  mi_run_t run;
  check(!mi_slices_claim(UNIT_HEAP, 1, MI_SLICE_SIZE, 0, &run));
  check_equal(mi_state.main.arena_count, 0);
  check_equal(os_fake.mapped, 0);
  os_fake.is_failing_on = false;
  os_fake.fail_at[OS_FAKE_MAP] = 0;
  run = claim(1, MI_SLICE_SIZE);
  release(&run);
  unit_check_empty();
}

// If this fails, an arena that could not be set up keeps its address space.
UNIT_TEST_PAGE_SIZES(arena_gives_back_what_it_cannot_use) {
  small_arenas();
  // The mappings after that of the arena itself: its structures, the table of its window.
  for (size_t round = 0; round < 2; round++) {
    os_fake.fail_at[OS_FAKE_MAP] = 2;
    mi_run_t run;
    check(!mi_slices_claim(UNIT_HEAP, MI_NEAR_SLICES + 1, MI_SLICE_SIZE, 0, &run)); // not near
    check_equal(os_fake.fail_at[OS_FAKE_MAP], 0);
    check_equal(os_fake_calls(OS_FAKE_UNMAP), round + 1);
    check(mi_state.main.arena_count == 0);
  }
  mi_run_t run = claim(1, MI_SLICE_SIZE);
  release(&run);
}

// If this fails, a process under strict overcommit is charged for memory it does not use.
UNIT_TEST_PAGE_SIZES(arena_commits_only_what_is_claimed) {
  os_fake.has_overcommit = false;
  mi_process_setup();
  mi_run_t a = claim(2, MI_SLICE_SIZE);
  const size_t overhead = os_fake.committed - 2 * MI_SLICE_SIZE;
  mi_run_t b = claim(3, MI_SLICE_SIZE);
  check_equal(os_fake.committed, overhead + 5 * MI_SLICE_SIZE);
  memset(a.start, 1, 2 * MI_SLICE_SIZE);
  const size_t calls = os_fake_calls(OS_FAKE_COMMIT);
  release(&a);
  a = claim(2, MI_SLICE_SIZE);
  check_equal(os_fake_calls(OS_FAKE_COMMIT), calls); // still usable
  release(&a);
  release(&b);
  check_equal(mi_purge_everything(&mi_state.main), 5 * MI_SLICE_SIZE);
  check_equal(os_fake.committed, overhead);
  a = claim(5, MI_SLICE_SIZE);
  check(a.is_zero && unit_is_zero(a.start, 5 * MI_SLICE_SIZE));
  release(&a);
}

// If this fails, a failed commit hands out memory that crashes, or loses it.
UNIT_TEST_PAGE_SIZES(arena_survives_failed_commits) {
  os_fake.has_overcommit = false;
  mi_process_setup();
  mi_run_t first = claim(1, MI_SLICE_SIZE);
  const size_t free_slices = unit_free_slices();
  const size_t arenas = mi_state.main.arena_count;
  mi_run_t run;
  os_fake.fail_at[OS_FAKE_COMMIT] = 1;
  check(!mi_slices_claim(UNIT_HEAP, 3, MI_SLICE_SIZE, 0, &run));
  check_equal(unit_free_slices(), free_slices);
  check_equal(mi_state.main.arena_count, arenas); // growing would not help
  bool is_zero;
  os_fake.fail_at[OS_FAKE_COMMIT] = 1;
  check(!mi_slices_claim_at(first.arena, first.slice_index + 1, 1, &is_zero));
  check_equal(unit_free_slices(), free_slices);
  os_fake.commit_limit = os_fake.committed + 2 * MI_SLICE_SIZE;
  check(!mi_slices_claim(UNIT_HEAP, 3, MI_SLICE_SIZE, 0, &run));
  check_equal(mi_state.main.count.rollbacks, 3);
  run = claim(2, MI_SLICE_SIZE);
  memset(run.start, 1, 2 * MI_SLICE_SIZE);
  release(&run);
  release(&first);
  unit_check_empty();
}

// If this fails, option arena_eager_commit does the opposite of what it says.
UNIT_TEST_PAGE_SIZES(arena_eager_commit_is_an_option) {
  const struct {
    bool has_overcommit;
    long eager;
    bool is_committed;
  } expected[] = {{true, 0, false},  {true, 1, true},  {true, 2, true},
                  {false, 0, false}, {false, 1, true}, {false, 2, false}};
  mi_run_t whole[6];
  for (size_t i = 0; i < 6; i++) {
    small_arenas();
    mi_state.os.has_overcommit = expected[i].has_overcommit;
    unit_option(arena_eager_commit, expected[i].eager);
    const size_t commits = os_fake_calls(OS_FAKE_COMMIT);
    whole[i] = claim(UNIT_ARENA_SIZE / MI_SLICE_SIZE, MI_SLICE_SIZE);
    check(mi_state.main.arena_last->is_committed == expected[i].is_committed);
    check_equal(os_fake_calls(OS_FAKE_COMMIT), commits + (expected[i].is_committed ? 0 : 1));
  }
  for (size_t i = 0; i < 6; i++) release(&whole[i]);
}

// If this fails, a program that forbids new memory gets it all the same.
UNIT_TEST_PAGE_SIZES(arena_stays_inside_the_reservation) {
  small_arenas();
  check(reserve(2 * UNIT_ARENA_SIZE));
  unit_option(disallow_os_alloc, 1);
  const size_t count = 2 * UNIT_ARENA_SIZE / MI_SLICE_SIZE;
  mi_run_t run;
  check(!mi_slices_claim(UNIT_HEAP, count + 1, MI_SLICE_SIZE, 0, &run));
  run = claim(count, MI_SLICE_SIZE);
  mi_run_t more;
  check(!mi_slices_claim(UNIT_HEAP, 1, MI_SLICE_SIZE, 0, &more));
  release(&run);
  check_equal(mi_state.main.arena_count, 1);
}

static mi_atomic(uint8_t) used_by[4096];
static mi_atomic(bool) is_broken;

static void race(void* arg) {
  const uint8_t self = *(uint8_t*)arg;
  uint64_t random = self;
  for (size_t round = 0; round < 4000; round++) {
    const size_t count = 1 + random_below(&random, round % 50 == 0 ? 100 : 6);
    mi_run_t run;
    const size_t alignment = MI_SLICE_SIZE << random_below(&random, 3);
    if (!mi_slices_claim(UNIT_HEAP, count, alignment, 0, &run)) continue;
    uint8_t* const start = run.start;
    const size_t first = (size_t)(start - os_fake.reserve) / MI_SLICE_SIZE;
    for (size_t i = 0; i < count; i++) {
      if (run.is_zero && start[i * MI_SLICE_SIZE] != 0) mi_atomic_store_relaxed(&is_broken, true);
      if (first + i < 4096 && mi_atomic_swap_acq_rel(&used_by[first + i], self) != 0) {
        mi_atomic_store_relaxed(&is_broken, true);
      }
      start[i * MI_SLICE_SIZE] = self;
    }
    for (size_t i = 0; i < count; i++) {
      if (start[i * MI_SLICE_SIZE] != self) mi_atomic_store_relaxed(&is_broken, true);
      if (first + i < 4096) mi_atomic_swap_acq_rel(&used_by[first + i], 0);
    }
    mi_slices_release(run.arena, run.slice_index, run.slice_count, MI_SLICE_SIZE);
    if (round % 32 == 0) mi_purge_everything(&mi_state.main);
  }
}

// If this fails, memory that was mapped at the end of an arena is lost, or used without
// descriptors, because there is no memory for these.
UNIT_TEST_ON(arena_grows_only_with_descriptors, 16 * MI_WINDOW_SIZE) {
  mi_process_setup();
  unit_option(arena_reserve, (long)(4 * MI_WINDOW_SIZE / MI_KIB)); // the arena crosses windows
  const size_t count = MI_WINDOW_SLICES / 8;
  static mi_run_t runs[48];
  size_t refused = 0;
  for (size_t i = 0; i < 48; i++) {
    // The first claim makes an arena. From then on there are no tables for more windows: what is
    // mapped in place is another kind of call.
    os_fake.fail_at[OS_FAKE_MAP] = i > 0 ? 1 : 0;
    os_fake.is_failing_on = i > 0;
    if (!mi_arena_claim(UNIT_HEAP, count, MI_SLICE_SIZE, &runs[i])) refused++;
    os_fake.is_failing_on = false;
    os_fake.fail_at[OS_FAKE_MAP] = 0;
    MI_FOR_EACH_ARENA(&mi_state.main, arena) {
      uint8_t* const last = arena->start + mi_arena_size(arena) - MI_SLICE_SIZE;
      check(mi_pagemap_find(last) == NULL && mi_arena_is_valid(arena));
    }
  }
  check(refused > 0 && refused < 47);
  mi_arena_t* const last = mi_state.main.arena_last;
  check_equal(os_fake_state(last->start + mi_arena_size(last)), OS_FAKE_UNMAPPED);
  for (size_t i = 0; i < 48; i++) {
    if (runs[i].arena != NULL) mi_arena_release(runs[i].arena, runs[i].slice_index, count);
  }
}

// If this fails, two threads get the same memory, or memory is lost.
UNIT_TEST(arena_serves_many_threads) {
  small_arenas();
  uint8_t id[4] = {1, 2, 3, 4};
  unit_on_threads(4, &race, id, 1);
  check(!mi_atomic_load_relaxed(&is_broken));
  unit_check_empty();
  check(mi_state.main.arena_count < 40);
}

// Elsewhere the tests run on an emulator, which keeps books on every page. The thread sanitizer
// leaves few addresses to a program.
#if MI_IS_TINY || !defined(__x86_64__) || defined(__SANITIZE_THREAD__)
#define HUGE_HEAP (20 * MI_GIB)
#define HUGE_RUN (16 * MI_MIB)
#else
#define HUGE_HEAP (500 * MI_GIB)
#define HUGE_RUN (256 * MI_MIB)
#endif

// If this fails, a very large heap hits a ceiling, or its administration costs too much.
UNIT_TEST_ON(arena_holds_a_huge_heap, 2 * HUGE_HEAP) {
  mi_process_setup();
  enum { RUNS = HUGE_HEAP / HUGE_RUN };
  static mi_run_t run[RUNS];
  for (size_t i = 0; i < RUNS; i++) {
    run[i] = claim(HUGE_RUN / MI_SLICE_SIZE, MI_SLICE_SIZE);
    uint8_t* const p = run[i].start;
    check(run[i].is_zero && p[0] == 0 && p[HUGE_RUN - 1] == 0);
    p[0] = 1;
    p[HUGE_RUN - 1] = 1;
  }
  // Everything but the two pages touched in each run.
  const size_t touched = 2 * RUNS * os_fake.page_size;
  const size_t overhead = os_fake_resident_all() - touched;
  printf("FIGURE %zu GiB heap: %zu arenas, %zu mappings, %zu KiB of our own\n", HUGE_HEAP / MI_GIB,
         mi_state.main.arena_count, os_fake_mapping_count(), overhead / MI_KIB);
  check(overhead <= HUGE_HEAP / 1000 * 3);
  check(os_fake_mapping_count() < 1000);
  check(mi_state.main.arena_count < 200);
  for (size_t i = 0; i < RUNS; i += 2) release(&run[i]);
  check(mi_purge_everything(&mi_state.main) > 0);
  for (size_t i = 0; i < RUNS; i++) {
    const size_t expected = i % 2 == 0 ? 0 : 2 * os_fake.page_size;
    check_equal(os_fake_resident(run[i].start, HUGE_RUN), expected);
  }
  for (size_t i = 1; i < RUNS; i += 2) release(&run[i]);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(arena_claims_the_lowest_run),
      cmocka_unit_test(arena_knows_what_is_zero),
      cmocka_unit_test(arena_aligns_runs),
      cmocka_unit_test(arena_aligns_runs_anywhere),
      cmocka_unit_test(arena_claims_runs_across_words),
      cmocka_unit_test(arena_claims_at_a_place),
      cmocka_unit_test(arena_grows_without_end),
      cmocka_unit_test(arena_maps_what_is_needed),
      cmocka_unit_test(arena_grows_around_others),
      cmocka_unit_test(arena_has_room_without_hints),
      cmocka_unit_test(arena_halves_when_refused),
      cmocka_unit_test(arena_respects_the_address_limit),
      cmocka_unit_test(arena_recovers_from_refusal),
      cmocka_unit_test(arena_gives_back_what_it_cannot_use),
      cmocka_unit_test(arena_commits_only_what_is_claimed),
      cmocka_unit_test(arena_survives_failed_commits),
      cmocka_unit_test(arena_eager_commit_is_an_option),
      cmocka_unit_test(arena_stays_inside_the_reservation),
      cmocka_unit_test(arena_grows_only_with_descriptors),
      cmocka_unit_test(arena_serves_many_threads),
      cmocka_unit_test(arena_holds_a_huge_heap),
  };
  return cmocka_run_group_tests_name("arena", tests, NULL, NULL);
}
