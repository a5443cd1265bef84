// SPDX-License-Identifier: MIT
// purge.c - tests of arenas/purge.c, on a clock that stands still unless the test moves it.
#include <pthread.h>
#include <sched.h>
#include <unistd.h>

#include "slices.h"

#include "core/arenas/arena.h"
#include "core/arenas/bitmap.h"
#include "core/arenas/purge.h"
#include "core/arenas/retain.h"
#include "core/arenas/run.h"
#include "core/arenas/slices.h"
#include "core/process/purger.h"
#include "mimalloc.h"

#define DELAY_MS 100

static void start(void) {
  mi_process_setup();
  unit_option(purge_delay, DELAY_MS);
}

// If this fails, memory is given back that is needed a moment later, or stays resident too long.
UNIT_TEST_PAGE_SIZES(purge_waits_half_to_whole_delay) {
  for (size_t offset = 0; offset <= DELAY_MS; offset += 7) {
    start();
    // A period is under way already, started by another slice.
    const mi_run_t other = claim_dirty(1);
    release(&other);
    mi_retain_poll(&mi_state.main);
    os_fake_advance_ms(offset);
    mi_retain_poll(&mi_state.main);
    const mi_run_t keep = claim(1); // the lowest: keeps `run` apart
    const mi_run_t run = claim_dirty(2);
    release(&run);
    size_t waited = 0;
    while (resident(&run) > 0) {
      check(waited <= DELAY_MS);
      os_fake_advance_ms(1);
      waited++;
      mi_retain_poll(&mi_state.main);
    }
    check(waited >= DELAY_MS / 2);
    release(&keep);
    mi_purge_everything(&mi_state.main);
  }
}

// If this fails, memory that is used again and again is given back in between.
UNIT_TEST_PAGE_SIZES(purge_spares_what_is_in_use) {
  start();
  mi_run_t busy = claim_dirty(1);
  const mi_run_t held = claim_dirty(2);
  const mi_run_t idle = claim_dirty(3);
  release(&idle);
  const size_t size = resident(&busy);
  for (size_t ms = 0; ms < 3 * DELAY_MS; ms += 10) {
    release(&busy);
    mi_retain_poll(&mi_state.main);
    check_equal(resident(&busy), size);
    busy = claim(1);
    check(!busy.is_zero && busy.start[1] == 1);
    os_fake_advance_ms(10);
    mi_retain_poll(&mi_state.main);
    check_equal(resident(&busy), size);
  }
  check_equal(resident(&idle), 0);
  check(unit_is_filled(held.start, 0, 0) && held.start[MI_SLICE_SIZE] == 1);
  check_equal(resident(&held), 2 * MI_SLICE_SIZE);
  release(&busy);
  release(&held);
}

// If this fails, a slice that is claimed at the moment of a purge loses its contents.
UNIT_TEST_PAGE_SIZES(purge_takes_marks_for_hints) {
  start();
  const mi_run_t used = claim_dirty(3);
  const mi_run_t idle = claim_dirty(2);
  release(&idle);
  mi_bitmap_set(used.arena->purge_old, used.slice_index, 3);
  mi_bitmap_set(used.arena->purge_young, used.slice_index, 2);
  mi_count_add(&mi_state.main.purge_waiting, 5 * MI_SLICE_SIZE);
  check_equal(mi_purge_everything(&mi_state.main), 2 * MI_SLICE_SIZE); // PURGE-1
  check_equal(resident(&used), 3 * MI_SLICE_SIZE);
  check_equal(used.start[3 * MI_SLICE_SIZE - 1], 1);
  release(&used);
}

// If this fails, calloc clears what the system just cleared, or does not clear what it must.
UNIT_TEST_PAGE_SIZES(purge_leaves_zero_memory) {
  start();
  mi_run_t run = claim_dirty(4);
  release(&run);
  check_equal(mi_purge_everything(&mi_state.main), 4 * MI_SLICE_SIZE);
  check_equal(resident(&run), 0);
  check_equal(mi_purge_everything(&mi_state.main), 0); // nothing left to do
  run = claim(4);
  check(run.is_zero && unit_is_zero(run.start, 4 * MI_SLICE_SIZE));
  release(&run);
}

// If this fails, `purge_delay=0` does not give memory back at once.
UNIT_TEST_PAGE_SIZES(purge_delay_zero_is_at_once) {
  start();
  unit_option(purge_delay, 0);
  const mi_run_t run = claim_dirty(4);
  release(&run);
  mi_retain_poll(&mi_state.main);
  check_equal(resident(&run), 0);
}

// If this fails, `purge_delay=-1` gives memory back all the same.
UNIT_TEST_PAGE_SIZES(purge_delay_negative_is_never) {
  start();
  unit_option(purge_delay, -1);
  mi_run_t run = claim_dirty(4);
  release(&run);
  for (size_t i = 0; i < 10; i++) {
    os_fake_advance_ms(1000000);
    mi_retain_poll(&mi_state.main);
  }
  check_equal(resident(&run), 4 * MI_SLICE_SIZE);
  check_equal(os_fake_calls(OS_FAKE_PURGE), 0);
  check_equal(os_fake_calls(OS_FAKE_CLOCK), 0);
  run = claim(4);
  check(!run.is_zero);
  release(&run);
}

// If this fails, the same holds for what was freed before the option was set.
UNIT_TEST_PAGE_SIZES(purge_delay_may_become_negative) {
  start();
  const mi_run_t run = claim_dirty(4);
  release(&run);
  unit_option(purge_delay, -1);
  check_equal(mi_purge_everything(&mi_state.main), 0);
  check_equal(resident(&run), 4 * MI_SLICE_SIZE);
  unit_option(purge_delay, DELAY_MS);
  check_equal(mi_purge_everything(&mi_state.main), 4 * MI_SLICE_SIZE);
}

// If this fails, option arena_purge_mult has no effect.
UNIT_TEST_PAGE_SIZES(purge_delay_is_multiplied) {
  start();
  unit_option(arena_purge_mult, 10);
  const mi_run_t run = claim_dirty(1);
  release(&run);
  mi_retain_poll(&mi_state.main);
  os_fake_advance_ms(5 * DELAY_MS - 1);
  mi_retain_poll(&mi_state.main);
  os_fake_advance_ms(1);
  mi_retain_poll(&mi_state.main);
  check_equal(resident(&run), MI_SLICE_SIZE);
  os_fake_advance_ms(5 * DELAY_MS);
  mi_retain_poll(&mi_state.main);
  check_equal(resident(&run), 0);
}

// If this fails, giving back many neighbours takes a system call for each.
UNIT_TEST_PAGE_SIZES(purge_joins_neighbours) {
  start();
  mi_run_t run[50];
  for (size_t i = 0; i < 50; i++) run[i] = claim_dirty(1 + i % 4);
  size_t slices = 0;
  for (size_t i = 0; i < 50; i++) {
    release(&run[i]);
    slices += run[i].slice_count;
  }
  check_equal(mi_purge_everything(&mi_state.main), slices * MI_SLICE_SIZE);
  check_equal(os_fake_calls(OS_FAKE_PURGE), 1);
  unit_check_empty();
}

// If this fails, an idle program keeps reading the clock.
UNIT_TEST_PAGE_SIZES(purge_reads_no_clock_when_idle) {
  start();
  const mi_run_t run = claim_dirty(1);
  for (size_t i = 0; i < 100; i++) mi_retain_poll(&mi_state.main);
  check_equal(os_fake_calls(OS_FAKE_CLOCK), 0);
  release(&run);
  for (size_t i = 0; i < 5; i++) {
    mi_retain_poll(&mi_state.main);
    os_fake_advance_ms(DELAY_MS);
  }
  check_equal(resident(&run), 0);
  const size_t calls = os_fake_calls(OS_FAKE_CLOCK);
  for (size_t i = 0; i < 100; i++) mi_retain_poll(&mi_state.main);
  check_equal(os_fake_calls(OS_FAKE_CLOCK), calls);
}

// If this fails, a purge that the system refuses breaks the knowledge of what is zero.
UNIT_TEST_PAGE_SIZES(purge_that_fails_leaves_memory_dirty) {
  start();
  mi_run_t run = claim_dirty(2);
  release(&run);
  os_fake.fail_at[OS_FAKE_PURGE] = 1;
  os_fake.is_failing_on = true;
  check_equal(mi_purge_everything(&mi_state.main), 0);
  run = claim(2);
  check(!run.is_zero && run.start[0] == 1);
  os_fake.fail_at[OS_FAKE_PURGE] = 0;
  release(&run);
  check_equal(mi_purge_everything(&mi_state.main), 2 * MI_SLICE_SIZE);
  check_equal(resident(&run), 0);
}

// If this fails, memory that the system once refused to take stays resident for good.
UNIT_TEST_PAGE_SIZES(purge_that_failed_is_tried_again) {
  start();
  const mi_run_t run = claim_dirty(2);
  release(&run);
  os_fake.fail_at[OS_FAKE_PURGE] = 1;
  os_fake.is_failing_on = true;
  for (size_t i = 0; i < 5; i++) {
    mi_retain_poll(&mi_state.main);
    os_fake_advance_ms(DELAY_MS);
  }
  check(resident(&run) > 0);
  const size_t calls = os_fake_calls(OS_FAKE_PURGE);
  mi_retain_poll(&mi_state.main); // not again and again
  check_equal(os_fake_calls(OS_FAKE_PURGE), calls);
  os_fake.fail_at[OS_FAKE_PURGE] = 0;
  check_equal(mi_purge_everything(&mi_state.main), 2 * MI_SLICE_SIZE);
  check_equal(resident(&run), 0);
}

// If this fails, memory with unknown contents is taken for zero memory.
UNIT_TEST_PAGE_SIZES(purge_by_reset_leaves_memory_dirty) {
  start();
  unit_option(purge_decommits, 0);
  mi_run_t run = claim_dirty(4);
  release(&run);
  mi_purge_everything(&mi_state.main);
  check_equal(os_fake_calls(OS_FAKE_RESET), 1);
  check_equal(os_fake_calls(OS_FAKE_PURGE), 0);
  run = claim(4);
  check(!run.is_zero);
  release(&run);
}

// If this fails, a process under strict overcommit stays charged for what it freed.
UNIT_TEST_PAGE_SIZES(purge_decommits_without_overcommit) {
  os_fake.has_overcommit = false;
  start();
  const mi_run_t keep = claim_dirty(1);
  const size_t before = os_fake.committed;
  mi_run_t run = claim_dirty(3);
  release(&run);
  check_equal(os_fake.committed, before + 3 * MI_SLICE_SIZE);
  for (size_t i = 0; i < 4; i++) {
    mi_retain_poll(&mi_state.main);
    os_fake_advance_ms(DELAY_MS / 2);
  }
  check_equal(os_fake.committed, before);
  check(os_fake_state(run.start) == OS_FAKE_RESERVED);
  run = claim(3);
  check(run.is_zero);
  memset(run.start, 2, 3 * MI_SLICE_SIZE);
  release(&run);
  release(&keep);
}

// If this fails, a thread that frees waits for another one that purges.
UNIT_TEST_PAGE_SIZES(purge_never_waits_for_another) {
  start();
  const mi_run_t run = claim_dirty(1);
  release(&run);
  mi_retain_poll(&mi_state.main);
  os_fake_advance_ms(10 * DELAY_MS);
  mi_lock_enter(&mi_state.purge_lock);
  mi_retain_poll(&mi_state.main);
  check_equal(mi_purge_everything(&mi_state.main), 0);
  mi_lock_leave(&mi_state.purge_lock);
  check_equal(resident(&run), MI_SLICE_SIZE);
  check_equal(mi_purge_everything(&mi_state.main), MI_SLICE_SIZE);
}

static mi_run_t meanwhile;

static void release_meanwhile(void) {
  os_fake.on_purge = NULL;
  release(&meanwhile);
}

// If this fails, memory that one thread frees while another one purges stays resident for good.
UNIT_TEST_PAGE_SIZES(purge_remembers_what_is_freed_meanwhile) {
  for (size_t round = 0; round < 2; round++) {
    start();
    unit_option(arena_reserve, UNIT_ARENA_SIZE / MI_KIB);
    const size_t whole = UNIT_ARENA_SIZE / MI_SLICE_SIZE;
    meanwhile = claim_dirty(whole); // the first arena is looked at before the second
    mi_run_t run = claim_dirty(whole);
    check(meanwhile.arena != run.arena);
    release(&run);
    mi_retain_poll(&mi_state.main);
    os_fake_advance_ms(DELAY_MS / 2);
    mi_retain_poll(&mi_state.main);
    os_fake_advance_ms(DELAY_MS / 2);
    os_fake.on_purge = &release_meanwhile;
    if (round == 0) mi_retain_poll(&mi_state.main);
    if (round == 1) mi_purge_everything(&mi_state.main);
    check(os_fake.on_purge == NULL);
    for (size_t i = 0; i < 4; i++) {
      mi_retain_poll(&mi_state.main);
      os_fake_advance_ms(DELAY_MS / 2);
    }
    check_equal(resident(&meanwhile), 0);
  }
}

// If this fails, the figures of committed and purged memory drift.
UNIT_TEST_PAGE_SIZES(purge_keeps_the_books) {
  start();
  mi_run_t run = claim_dirty(5);
  check_equal(mi_state.main.count.committed, 5 * MI_SLICE_SIZE);
  release(&run);
  mi_purge_everything(&mi_state.main);
  check_equal(mi_state.main.count.committed, 0);
  check_equal(mi_state.main.count.purged, 5 * MI_SLICE_SIZE);
  run = claim(2);
  check_equal(mi_state.main.count.committed, 2 * MI_SLICE_SIZE);
  check_equal(mi_state.main.count.committed_peak, 5 * MI_SLICE_SIZE);
  release(&run);
}

#define WAITING_MIN ((size_t)512)
static size_t waiting_max(size_t in_use) {
  return (WAITING_MIN + in_use / 2) * MI_SLICE_SIZE; // RETAIN-1
}

// If this fails, a program that frees all and then sleeps keeps it all.
UNIT_TEST_PAGE_SIZES(purge_bounds_what_waits) {
  start();
  unit_option(arena_reserve, 8192 * MI_SLICE_SIZE / MI_KIB);
  const mi_run_t keep = claim_dirty(256);
  static mi_run_t runs[3072];
  const size_t count = sizeof(runs) / sizeof(runs[0]);
  for (size_t i = 0; i < count; i++) runs[i] = claim_dirty(1);
  for (size_t i = 0; i < count; i++) {
    release(&runs[i]);
    mi_retain_poll(&mi_state.main);
    if (i % 16 != 15) continue; // a look at all of it takes longer than the rest
    const size_t still_used = 256 + count - i - 1;
    const size_t bound = still_used * MI_SLICE_SIZE + waiting_max(still_used);
    check(os_fake_resident_all() <= bound + 64 * MI_SLICE_SIZE);
    // Not more than must go: a program that needs it again does not pay for all of it.
    const size_t released = (i + 1) * MI_SLICE_SIZE;
    if (released > waiting_max(still_used)) {
      check(os_fake_resident_all() + 64 * MI_SLICE_SIZE >= bound);
    } else {
      check(os_fake_resident_all() >= (256 + count) * MI_SLICE_SIZE);
    }
  }
  // What is taken next is still there.
  check_equal(resident(&runs[0]), MI_SLICE_SIZE);
  check_equal(resident(&runs[count - 1]), MI_SLICE_SIZE); // freed just now: it will be used next
  // What goes goes in so large a batch.
  check_equal(resident(&runs[count - 2 - WAITING_MIN / 32]), 0);
  check(mi_state.main.purge_waiting >= 0);
  mi_purge_everything(&mi_state.main);
  check_equal(mi_state.main.purge_waiting, 0);
  release(&keep);
  check_equal(mi_state.main.purge_waiting, 256 * MI_SLICE_SIZE);
}

// If this fails, the peak of a program whose phases need different memory is the sum of them, where
// some of it is outside the arenas.
UNIT_TEST(purge_makes_way_for_mappings) {
  mi_process_setup();
  unit_option(allow_thp, 0); // or the rest of a chunk waits as well
  unit_option(arena_reserve, 8192 * MI_SLICE_SIZE / MI_KIB);
  static mi_run_t runs[400];
  for (size_t i = 0; i < 400; i++) runs[i] = claim_dirty(1);
  for (size_t i = 0; i < 400; i++) release(&runs[i]);
  check_equal(mi_state.main.purge_waiting, 400 * MI_SLICE_SIZE);
  unit_option(disallow_arena_alloc, 1);
  const mi_run_wish_t wish = {200, MI_SLICE_SIZE, 200, 1, false};
  mi_run_t run;
  check(mi_run_claim(UNIT_HEAP, &wish, &run) && run.arena == NULL);
  check_equal(mi_state.main.purge_waiting, 200 * MI_SLICE_SIZE);
  mi_run_release(UNIT_HEAP, NULL, run.start, 200, MI_SLICE_SIZE);
}

static mi_run_t claimed_meanwhile;

static void claim_meanwhile(void) {
  os_fake.on_purge = NULL;
  claimed_meanwhile = claim_dirty(4);
}

// If this fails, what a thread writes to memory that it was given in the middle of a purge is lost.
UNIT_TEST_PAGE_SIZES(purge_claims_what_it_purges) {
  start();
  const mi_run_t idle = claim_dirty(4);
  release(&idle);
  os_fake.on_purge = &claim_meanwhile;
  check_equal(mi_purge_everything(&mi_state.main), 4 * MI_SLICE_SIZE); // PURGE-1
  check(os_fake.on_purge == NULL);
  check(claimed_meanwhile.start != idle.start);
  check_equal(resident(&claimed_meanwhile), 4 * MI_SLICE_SIZE);
  release(&claimed_meanwhile);
}

static size_t all_calls(void) {
  return os_fake_calls(OS_FAKE_FALLIBLE) + os_fake_calls(OS_FAKE_CLOCK);
}

// If this fails, a thread that frees waits for the system, at a moment when memory is due to go
// back but nobody is short of it.
UNIT_TEST_PAGE_SIZES(purge_is_not_for_a_free) {
  start();
  enum { BLOCKS = 15 };
  static void* block[BLOCKS];
  size_t bytes = 0;
  for (size_t i = 0; i < BLOCKS; i++) {
    const size_t size = (MI_SLICE_SIZE / 1024) << i % 15; // classes and large blocks
    block[i] = mi_malloc(size);
    memset(block[i], 1, size);
    bytes += size;
  }
  check(bytes < waiting_max(0));
  for (size_t i = 0; i < BLOCKS; i++) {
    os_fake_advance_ms(DELAY_MS);
    const size_t calls = all_calls();
    mi_free(block[i]);
    check(!mi_retain_is_much(&mi_state.main));
    check_equal(all_calls(), calls); // RETAIN-3
  }
  mi_kept_release_all(&mi_state.main);
  check(mi_state.main.purge_waiting > 0);
  for (size_t i = 0; i < 3; i++) {
    mi_retain_poll(&mi_state.main);
    os_fake_advance_ms(DELAY_MS);
  }
  check_equal(mi_state.main.purge_waiting, 0);
}

// -- RETAIN-4 and RETAIN-5: with a clock that the tests move by less than the delay --

#define SOFT 64 // slices, and an eighth of what is in use
#define STEP 8 // slices, the least that goes at a time
#define MANY 512

static mi_run_t many[MANY];

static void start_slow(void) {
  mi_process_setup();
  unit_option(purge_delay, 1000000);
  unit_option(arena_reserve, 8192 * MI_SLICE_SIZE / MI_KIB);
}

static void claim_many(void) {
  for (size_t i = 0; i < MANY; i++) many[i] = claim_dirty(1);
}

static void release_many(size_t step) {
  for (size_t i = 0; i < MANY; i += step) release(&many[i]);
}

static size_t resident_slices(void) { return os_fake_resident_all() / MI_SLICE_SIZE; }

// If this fails, a program that was busy once stays large until the delay is over; or one that
// needs its memory again all the time spends its time on faults.
UNIT_TEST_PAGE_SIZES(purge_gives_back_early_what_time_permits) {
  start_slow();
  claim_many();
  const size_t others = resident_slices() - MANY;
  release_many(1);
  mi_retain_poll(&mi_state.main);
  mi_retain_poll(&mi_state.main);
  check_equal(resident_slices(), others + MANY); // no time has passed
  os_fake_advance_ms(320); // 320 * 320 / 512 = 200 slices, less than half of what is too much
  mi_retain_poll(&mi_state.main);
  check_equal(resident_slices(), others + MANY);
  os_fake_advance_ms(32); // 352 * 352 / 512 slices
  mi_retain_poll(&mi_state.main);
  check_equal(resident_slices(), others + MANY - 242);
  check_equal(resident(&many[MANY - 1]), 0); // the highest first
  check_equal(resident(&many[0]), MI_SLICE_SIZE);
  os_fake_advance_ms(200);
  mi_retain_poll(&mi_state.main);
  check_equal(resident_slices(), others + MANY - 242); // that time is spent
  os_fake_advance_ms(10000);
  mi_retain_poll(&mi_state.main);
  check_equal(resident_slices(), others + SOFT);
  os_fake_advance_ms(10000);
  mi_retain_poll(&mi_state.main);
  check_equal(resident_slices(), others + SOFT); // these wait for the delay
}

// If this fails, a program that frees what it needed and then sleeps keeps it, although giving it
// back would cost nearly nothing; or free reads the clock where little waits.
UNIT_TEST_PAGE_SIZES(purge_early_by_free) {
  start_slow();
  const mi_run_t first = claim_dirty(1);
  release(&first);
  mi_retain_poll(&mi_state.main);
  os_fake_advance_ms(400);
  claim_many(); // looks at the clock
  const size_t others = resident_slices() - MANY;
  for (size_t i = 0; i < MANY; i++) {
    const size_t calls = os_fake_calls(OS_FAKE_CLOCK);
    release(&many[i]);
    mi_retain_bound(&mi_state.main);
    if (i < SOFT) check_equal(os_fake_calls(OS_FAKE_CLOCK), calls); // RETAIN-3
    const size_t in_use = MANY - i - 1;
    const size_t bound = in_use + SOFT + in_use / 8 + STEP;
    const size_t gone = others + MANY - resident_slices();
    if (gone < 200) check(resident_slices() <= others + bound);
    check(gone <= 400 * 400 / 512);
  }
}

// If this fails, a program that computed for a while, and then frees what it needed for that, keeps
// it because nobody looked at the clock meanwhile.
UNIT_TEST_PAGE_SIZES(purge_early_by_free_sees_the_time) {
  start_slow();
  const mi_run_t first = claim_dirty(1);
  release(&first);
  mi_retain_poll(&mi_state.main); // from here on time counts
  claim_many();
  const size_t others = resident_slices() - MANY;
  os_fake_advance_ms(10000);
  for (size_t i = 0; i < MANY; i++) {
    release(&many[i]);
    mi_retain_bound(&mi_state.main);
  }
  check(resident_slices() <= others + SOFT + STEP);
}

static void check_early_beside(size_t slices) {
  start_slow();
  const mi_run_t first = claim_dirty(1);
  release(&first);
  mi_retain_poll(&mi_state.main);
  claim_many();
  const size_t others = resident_slices() - MANY;
  release_many(1);
  mi_retain_bound(&mi_state.main);
  for (size_t i = 0; i < 10; i++) {
    void* const p = mi_malloc(slices * MI_SLICE_SIZE);
    mi_free(p);
    if (i == 0) check(resident_slices() > others + MANY / 2);
    os_fake_advance_ms(1000);
  }
  check(resident_slices() <= others + slices + SOFT + STEP);
}

// If this fails, a program that allocates and frees one large block, again and again, keeps what it
// had freed before.
UNIT_TEST_PAGE_SIZES(purge_early_beside_one_block) { check_early_beside(16); } // KEPT-6

// If this fails, the same with one that is too large to be kept (RETAIN-4).
UNIT_TEST_PAGE_SIZES(purge_early_beside_one_larger_block) {
  check_early_beside(MI_KEPT_SLICES_MAX + 1);
}

// If this fails, a program that does small things only after a large one keeps what that left.
UNIT_TEST_PAGE_SIZES(purge_early_by_small_things) {
  enum { LARGE = 300 * MI_SLICE_SIZE };
  start_slow();
  void* const small = mi_malloc(MI_SLICE_SIZE / 5); // its page is there: nothing is claimed below
  void* const p = mi_malloc(LARGE);
  memset(p, 1, LARGE);
  mi_free(p);
  check(mi_retain_is_much(&mi_state.main));
  const size_t before = resident_slices();
  os_fake_advance_ms(10000);
  for (size_t i = 0; i < MI_QUICK_WAITING + 4; i++) mi_free(mi_malloc(MI_SLICE_SIZE / 5));
  check(!mi_retain_is_much(&mi_state.main));
  check(resident_slices() <= before - 300 + SOFT + STEP);
  mi_free(small);
}

// If this fails, time in which a program slept is spent at once when it is busy again.
UNIT_TEST_PAGE_SIZES(purge_early_saves_no_more_time_than_the_delay) {
  start_slow();
  unit_option(purge_delay, 400);
  const mi_run_t first = claim_dirty(1);
  release(&first);
  mi_retain_poll(&mi_state.main);
  os_fake_advance_ms(10000);
  claim_many();
  const size_t before = resident_slices();
  release_many(1);
  mi_retain_bound(&mi_state.main);
  check_equal(resident_slices(), before - 400 * 400 / 512);
}

// If this fails, a program whose phases need different memory peaks at the sum of them, and is
// killed where it would fit.
UNIT_TEST_PAGE_SIZES(purge_makes_way_for_fresh_memory) {
  start_slow();
  unit_option(allow_thp, 0); // or the rest of a chunk is resident as well
  claim_many();
  const size_t before = resident_slices();
  const mi_run_t wall = claim_dirty(1);
  release_many(2); // every second one, so that nothing longer fits there
  const size_t in_use = MANY / 2 + 1;
  const size_t excess = MANY / 2 - (SOFT + in_use / 8);
  check(excess > 4 * STEP);
  mi_run_t one = claim(1); // is there: nothing has to go
  check_equal(resident_slices(), before + 1);
  release(&one);
  const mi_run_t two = claim(2);
  check_equal(resident_slices(), before + 1 - STEP);
  const mi_run_t forty = claim(3 * STEP);
  check_equal(resident_slices(), before + 1 - STEP - 3 * STEP);
  const mi_run_t rest = claim(MANY);
  check(resident_slices() <= before + 1 - excess + STEP);
  check(resident_slices() >= before + 1 - excess);
  check_equal(resident(&wall), MI_SLICE_SIZE);
  const size_t calls = os_fake_calls(OS_FAKE_PURGE);
  const mi_run_t more = claim(MANY); // what waits is within the bound now
  check_equal(os_fake_calls(OS_FAKE_PURGE), calls);
  const mi_run_t* const runs[] = {&wall, &two, &forty, &rest, &more};
  for (size_t i = 0; i < sizeof(runs) / sizeof(runs[0]); i++) release(runs[i]);
  for (size_t i = 1; i < MANY; i += 2) release(&many[i]);
}

// Does what the purge thread does until nothing waits. Returns how often it looked.
static size_t tick_to_the_end(size_t* ms) {
  size_t looks = 1;
  *ms = 0;
  for (uint64_t next; (next = mi_retain_tick(&mi_state.main)) != MI_RETAIN_NEVER; looks++) {
    check(next > 0 && looks < 100);
    os_fake_advance_ms(next);
    *ms += next;
  }
  return looks;
}

// If this fails, a program that sleeps keeps its free memory, or is woken all the time for it.
UNIT_TEST_PAGE_SIZES(purge_tick_says_when_more_is_due) {
  start();
  size_t ms = 0;
  check_equal(tick_to_the_end(&ms), 1);
  const mi_run_t few = claim_dirty(3);
  release(&few);
  const size_t looks = tick_to_the_end(&ms);
  check_equal(resident(&few), 0);
  check(ms >= DELAY_MS && ms <= DELAY_MS + DELAY_MS / 4);
  check(looks <= 4);
  claim_many();
  release_many(1);
  check(tick_to_the_end(&ms) <= 2 * 8 + 4);
  for (size_t i = 0; i < MANY; i++) check_equal(resident(&many[i]), 0);
  check(ms <= DELAY_MS + DELAY_MS / 2);
  check_equal(tick_to_the_end(&ms), 1);
}

static mi_atomic(uint32_t) is_purging; // 2: it may end

static void* purge_for_long(void* arg) {
  mi_lock_enter(&mi_state.purge_lock);
  mi_atomic_store_release(&is_purging, 1);
  while (mi_atomic_load_acquire(&is_purging) != 2) sched_yield();
  usleep(20000);
  mi_lock_leave(&mi_state.purge_lock);
  return arg;
}

// If this fails, mi_collect and malloc_trim do nothing, and a malloc fails, because another thread
// was purging.
UNIT_TEST_PAGE_SIZES(purge_of_everything_waits_for_another) {
  start();
  const mi_run_t run = claim_dirty(3);
  release(&run);
  mi_atomic_store_relaxed(&is_purging, 0);
  pthread_t other;
  check(pthread_create(&other, NULL, &purge_for_long, NULL) == 0);
  while (mi_atomic_load_acquire(&is_purging) == 0) sched_yield();
  check_equal(mi_purge_now(&mi_state.main, MI_GENTLE), 0);
  mi_atomic_store_release(&is_purging, 2);
  check_equal(mi_purge_everything(&mi_state.main), 3 * MI_SLICE_SIZE);
  pthread_join(other, NULL);
}

// If this fails, a program that lowers the delay keeps what it has freed before for as long as the
// old one says.
UNIT_TEST_PAGE_SIZES(purge_delay_may_become_shorter) {
  start();
  unit_option(purge_delay, 1000 * DELAY_MS);
  const mi_run_t run = claim_dirty(4);
  release(&run);
  mi_retain_poll(&mi_state.main);
  unit_option(purge_delay, DELAY_MS);
  mi_purger_follow_delay();
  for (size_t ms = 0; ms < DELAY_MS / 2; ms += DELAY_MS / 10) {
    os_fake_advance_ms(DELAY_MS / 10);
    mi_purger_follow_delay(); // again, which puts nothing off
    mi_retain_poll(&mi_state.main);
  }
  check_equal(resident(&run), 4 * MI_SLICE_SIZE);
  os_fake_advance_ms(DELAY_MS / 2);
  mi_retain_poll(&mi_state.main);
  check_equal(resident(&run), 0);

  // A longer one is for the next period.
  const mi_run_t other = claim_dirty(4);
  release(&other);
  mi_retain_poll(&mi_state.main);
  const uint64_t due = mi_state.main.purge_due_ms;
  unit_option(purge_delay, 1000 * DELAY_MS);
  mi_purger_follow_delay();
  check_equal(mi_state.main.purge_due_ms, due);

  // None: the next that is freed takes all with it.
  unit_option(purge_delay, 0);
  mi_purger_follow_delay();
  const mi_run_t last = claim_dirty(1);
  release(&last);
  mi_retain_poll(&mi_state.main);
  check_equal(resident(&other), 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(purge_tick_says_when_more_is_due),
      cmocka_unit_test(purge_of_everything_waits_for_another),
      cmocka_unit_test(purge_gives_back_early_what_time_permits),
      cmocka_unit_test(purge_early_by_free),
      cmocka_unit_test(purge_early_by_free_sees_the_time),
      cmocka_unit_test(purge_early_by_small_things),
      cmocka_unit_test(purge_early_saves_no_more_time_than_the_delay),
      cmocka_unit_test(purge_makes_way_for_fresh_memory),
      cmocka_unit_test(purge_is_not_for_a_free),
      cmocka_unit_test(purge_claims_what_it_purges),
      cmocka_unit_test(purge_bounds_what_waits),
      cmocka_unit_test(purge_makes_way_for_mappings),
      cmocka_unit_test(purge_waits_half_to_whole_delay),
      cmocka_unit_test(purge_spares_what_is_in_use),
      cmocka_unit_test(purge_takes_marks_for_hints),
      cmocka_unit_test(purge_leaves_zero_memory),
      cmocka_unit_test(purge_delay_zero_is_at_once),
      cmocka_unit_test(purge_delay_negative_is_never),
      cmocka_unit_test(purge_delay_may_become_negative),
      cmocka_unit_test(purge_delay_may_become_shorter),
      cmocka_unit_test(purge_delay_is_multiplied),
      cmocka_unit_test(purge_joins_neighbours),
      cmocka_unit_test(purge_reads_no_clock_when_idle),
      cmocka_unit_test(purge_that_fails_leaves_memory_dirty),
      cmocka_unit_test(purge_that_failed_is_tried_again),
      cmocka_unit_test(purge_by_reset_leaves_memory_dirty),
      cmocka_unit_test(purge_decommits_without_overcommit),
      cmocka_unit_test(purge_never_waits_for_another),
      cmocka_unit_test(purge_remembers_what_is_freed_meanwhile),
      cmocka_unit_test(purge_early_beside_one_block),
      cmocka_unit_test(purge_early_beside_one_larger_block),
      cmocka_unit_test(purge_keeps_the_books),
  };
  return cmocka_run_group_tests_name("purge", tests, NULL, NULL);
}
