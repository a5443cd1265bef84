// SPDX-License-Identifier: MIT
// retain.c - tests of arenas/retain.c: RETAIN-6, RETAIN-9; and PURGE-4. The other rules are tested
// with purge.c.
#include <sched.h>

#include "slices.h"

#include "core/arenas/purge.h"
#include "core/arenas/retain.h"
#include "core/arenas/spare.h"
#include "core/heaps/subproc.h"

#define DELAY_MS 100

static void start(void) {
  mi_process_setup();
  unit_option(purge_delay, DELAY_MS);
}

#define PART_RUNS 600 // two parts of RETAIN-9 and a rest, in the bounds of RETAIN-1

// Let so many slices wait, each apart from the others, until their period is over.
static void wait_apart(mi_run_t* runs, mi_run_t* keep) {
  for (size_t i = 0; i < PART_RUNS; i++) {
    runs[i] = claim_dirty(1);
    keep[i] = claim(1);
  }
  mi_retain_poll(&mi_state.main);
  for (size_t i = 0; i < PART_RUNS; i++) release(&runs[i]);
  mi_retain_poll(&mi_state.main);
  os_fake_advance_ms(DELAY_MS / 2);
  mi_retain_poll(&mi_state.main); // they are old
  os_fake_advance_ms(DELAY_MS / 2);
}

static size_t count_resident(const mi_run_t* runs) {
  size_t count = 0;
  for (size_t i = 0; i < PART_RUNS; i++) count += resident(&runs[i]) > 0;
  return count;
}

// If this fails, one malloc gives back all that a large program freed half a second ago, which
// takes a tenth of a second for each GiB; or a thread that allocates seldom keeps it.
UNIT_TEST(retain_goes_in_parts) {
  static mi_run_t runs[PART_RUNS], keep[PART_RUNS];
  start();
  for (size_t round = 0; round < 3; round++) {
    wait_apart(runs, keep);
    check_equal(count_resident(runs), PART_RUNS);
    if (round == 0) {
      for (size_t left = PART_RUNS; left > 0;) {
        mi_retain_poll(&mi_state.main);
        left -= mi_bits_min(left, MI_RETAIN_PART_MIN);
        check_equal(count_resident(runs), left);
        os_fake_advance_ms(MI_RETAIN_PAUSE_MS - 1);
        mi_retain_poll(&mi_state.main);
        check_equal(count_resident(runs), left);
        os_fake_advance_ms(1);
      }
    } else if (round == 1) {
      os_fake_advance_ms(DELAY_MS); // nobody allocated meanwhile
      mi_retain_poll(&mi_state.main);
    } else {
      mi_retain_poll_whole(&mi_state.main);
    }
    check_equal(count_resident(runs), 0);
    for (size_t i = 0; i < PART_RUNS; i++) release(&keep[i]);
    mi_purge_everything(&mi_state.main);
  }
}

// If this fails, one malloc takes fifty milliseconds where a system call must wait for the other
// processors.
UNIT_TEST(retain_part_ends_in_time) {
  static mi_run_t runs[PART_RUNS], keep[PART_RUNS];
  start();
  wait_apart(runs, keep);
  os_fake.on_purge = &os_fake_be_slow;
  mi_retain_poll(&mi_state.main);
  check_equal(count_resident(runs), PART_RUNS - MI_RETAIN_PART_MS);
  os_fake_advance_ms(MI_RETAIN_PAUSE_MS + 3 * MI_RETAIN_LATE_PART); // three more of them
  mi_retain_poll(&mi_state.main);
  check_equal(count_resident(runs), PART_RUNS - 2 * MI_RETAIN_PART_MS - 3);
  mi_retain_poll_whole(&mi_state.main);
  check(count_resident(runs) > 0); // it is not due yet
  os_fake_advance_ms(MI_RETAIN_PAUSE_MS);
  mi_retain_poll_whole(&mi_state.main);
  check_equal(count_resident(runs), 0);
  for (size_t i = 0; i < PART_RUNS; i++) release(&keep[i]);
  mi_purge_everything(&mi_state.main);
}

#define BEYOND_RUNS 2000

// If this fails, the same happens when one thread gives back what others released while it did so:
// they could not.
UNIT_TEST(retain_bounds_are_kept_in_time) {
  static mi_run_t runs[BEYOND_RUNS], keep[BEYOND_RUNS];
  start();
  for (size_t i = 0; i < BEYOND_RUNS; i++) {
    runs[i] = claim_dirty(1);
    keep[i] = claim(1);
  }
  check(mi_lock_try_enter(&mi_state.purge_lock));
  for (size_t i = 0; i < BEYOND_RUNS; i++) release(&runs[i]);
  mi_lock_leave(&mi_state.purge_lock);
  mi_atomic(int64_t)* const waiting = &mi_state.main.purge_waiting;
  const int64_t slice = (int64_t)MI_SLICE_SIZE;
  check_equal(mi_atomic_load_relaxed(waiting), BEYOND_RUNS * slice);

  os_fake.on_purge = &os_fake_be_slow;
  mi_retain_poll(&mi_state.main);
  const int64_t gone = BEYOND_RUNS - mi_atomic_load_relaxed(waiting) / slice;
  check(gone >= MI_RETAIN_PART_MS && gone <= 2 * MI_RETAIN_PART_MS); // RETAIN-1 and RETAIN-4
  const int64_t bound = 512 + BEYOND_RUNS / 2;
  for (size_t k = 0; mi_atomic_load_relaxed(waiting) > bound * slice; k++) {
    check(k < 200);
    mi_retain_bound(&mi_state.main); // as the next release does
  }
  check_equal(mi_atomic_load_relaxed(waiting) / slice, bound);
  for (size_t i = 0; i < BEYOND_RUNS; i++) release(&keep[i]);
  mi_purge_everything(&mi_state.main);
}

#define LONG_RUN ((size_t)400) // longer than a part, within the bound of RETAIN-1

// If this fails, a part ends within a huge page, which is cut for it.
UNIT_TEST(retain_goes_in_parts_of_whole_chunks) {
  start();
  const mi_run_t first = claim(3);
  const mi_run_t run = claim_dirty(LONG_RUN);
  const mi_run_t last = claim(1);
  release(&run);
  mi_spare_release(&mi_state.main);
  mi_retain_poll(&mi_state.main);
  os_fake_advance_ms(DELAY_MS / 2);
  mi_retain_poll(&mi_state.main);
  os_fake_advance_ms(DELAY_MS / 2);
  mi_retain_poll(&mi_state.main);
  const size_t gone = LONG_RUN - resident(&run) / MI_SLICE_SIZE;
  check(gone >= MI_RETAIN_PART_MIN && gone < MI_RETAIN_PART_MIN + MI_CHUNK_SLICES);
  check_equal((run.slice_index + gone) % MI_CHUNK_SLICES, 0);
  release(&first);
  release(&last);
  mi_purge_everything(&mi_state.main);
}

#define WAITING_MAX (512 * MI_SLICE_SIZE) // RETAIN-1, with nothing in use

// A phase of a program: it needs so much memory, and frees all of it.
#define PHASE_SLICES ((size_t)3072)

static void start_phases(void) {
  mi_process_setup();
  unit_option(purge_delay, 1000);
  unit_option(arena_reserve, 8192 * MI_SLICE_SIZE / MI_KIB);
}

static void phase_of(size_t slice_count, size_t pause_ms) {
  static mi_run_t runs[PHASE_SLICES];
  os_fake_advance_ms(pause_ms);
  for (size_t i = 0; i < slice_count; i++) runs[i] = claim_dirty(1);
  for (size_t i = 0; i < slice_count; i++) release(&runs[i]);
}

static void phase(size_t pause_ms) { phase_of(PHASE_SLICES, pause_ms); }

// What may be resident after phases of a program that has learned nothing, or a little.
#define PHASE_SLACK (64 * MI_SLICE_SIZE)
#define LEARNED_SOON (512 * MI_SLICE_SIZE)

// If this fails, a program whose phases follow each other pays page faults for all of its memory in
// each, or keeps that memory when it has become idle.
UNIT_TEST(retain_learns_what_is_needed_again) {
  start_phases();
  mi_atomic_store_relaxed(&mi_state.purger, MI_PURGER_AWAKE); // there is a purge thread
  for (size_t i = 0; i < 4; i++) {
    phase(10);
    check(os_fake_resident_all() <= WAITING_MAX + LEARNED_SOON + PHASE_SLACK); // not all yet
  }
  for (size_t i = 0; i < 4; i++) phase(10);
  const int64_t purges = mi_atomic_load_relaxed(&mi_state.main.count.purge_calls);
  for (size_t i = 0; i < 10; i++) {
    phase(10);
    check(os_fake_resident_all() + 2 * MI_SLICE_SIZE >= PHASE_SLICES * MI_SLICE_SIZE);
  }
  check(mi_atomic_load_relaxed(&mi_state.main.count.purge_calls) <= purges + 10);
  check(mi_atomic_load_relaxed(&mi_state.main.retain_more) > 0);
  for (size_t i = 0; i < 4; i++) {
    mi_retain_poll(&mi_state.main);
    os_fake_advance_ms(500);
  }
  check(os_fake_resident_all() <= 64 * MI_SLICE_SIZE);
  check_equal(mi_atomic_load_relaxed(&mi_state.main.retain_more), 0);
  phase(10); // it is forgotten
  check(os_fake_resident_all() <= WAITING_MAX + PHASE_SLACK);
}

// If this fails, a program that has one thread and then sleeps keeps all that it needed again and
// again.
UNIT_TEST(retain_learns_less_where_there_is_no_purge_thread) {
  start_phases();
  const size_t most = WAITING_MAX + 2 * LEARNED_SOON + PHASE_SLACK;
  const size_t more = PHASE_SLICES * MI_SLICE_SIZE / 64; // for each phase, at most
  for (size_t i = 0; i < 6; i++) {
    phase(240);
    check(os_fake_resident_all() <= most + i * more);
  }
  check(os_fake_resident_all() >= most - 2 * PHASE_SLACK);
  for (size_t i = 0; i < 150; i++) phase(240); // one that goes on and on learns most of it
  check(os_fake_resident_all() >= PHASE_SLICES * MI_SLICE_SIZE / 8 * 7);
}

// If this fails, such a program pays page faults for nearly all that it needs, where these are what
// takes its time; or it learns that from less.
UNIT_TEST(retain_learns_all_where_faults_are_the_work) {
  start_phases();
  for (size_t i = 0; i < 6; i++) phase(240);
  const size_t bounded = os_fake_resident_all();
  for (size_t i = 0; i < 30; i++) phase(20);
  check(bounded <= PHASE_SLICES * MI_SLICE_SIZE / 4 * 3);
  check(os_fake_resident_all() + 2 * MI_SLICE_SIZE >= PHASE_SLICES * MI_SLICE_SIZE);
}

// If this fails, a program whose small phases follow each other pays page faults in each, or one
// large mistake makes it keep memory.
UNIT_TEST(retain_learns_a_little_soon) {
  start_phases();
  for (size_t i = 0; i < 3; i++) {
    phase_of(900, 10);
    check(os_fake_resident_all() <= WAITING_MAX + PHASE_SLACK); // not yet
  }
  for (size_t i = 0; i < 4; i++) phase_of(900, 10);
  check(os_fake_resident_all() + 2 * MI_SLICE_SIZE >= 900 * MI_SLICE_SIZE);
}

// If this fails, a program that needs much memory now and then keeps it all the time.
UNIT_TEST(retain_learns_nothing_from_what_is_rare) {
  start_phases();
  for (size_t i = 0; i < 20; i++) {
    phase(300);
    check(os_fake_resident_all() <= WAITING_MAX + 64 * MI_SLICE_SIZE);
  }
}

#define LONG_COUNT ((size_t)3000) // slices
static mi_run_t long_run;
static mi_atomic(size_t) long_left; // bytes when another thread came in, SIZE_MAX before
static pthread_t forking;

// As a fork does.
static void* enter_meanwhile(void* arg) {
  mi_lock_enter(&mi_state.purge_lock);
  mi_atomic_store_relaxed(&long_left, resident(&long_run));
  mi_lock_leave(&mi_state.purge_lock);
  return arg;
}

static void let_in(void) {
  mi_state.purge_lock.on_left = NULL;
  while (mi_atomic_load_relaxed(&long_left) == SIZE_MAX) sched_yield();
}

static void be_awaited(void) {
  os_fake.on_purge = NULL;
  mi_state.purge_lock.on_left = &let_in;
  check_equal(pthread_create(&forking, NULL, &enter_meanwhile, NULL), 0);
  while (mi_atomic_load_relaxed(&mi_state.purge_lock.word) != 2) sched_yield();
}

// PURGE-4. If this fails, a fork waits until a gigabyte has gone back, and holds up all threads
// that start and end meanwhile; or not all goes back that the program asked for.
UNIT_TEST(retain_parts_let_others_in) {
  for (size_t i = 0; i < 2; i++) {
    start();
    unit_option(arena_reserve, 2 * LONG_COUNT * MI_SLICE_SIZE / MI_KIB);
    mi_subproc_t* const subproc = i == 0 ? &mi_state.main : mi_subproc_make();
    check(mi_slices_claim(&subproc->heap_main, LONG_COUNT, MI_SLICE_SIZE, 0, &long_run));
    memset(long_run.start, 1, LONG_COUNT * MI_SLICE_SIZE);
    unit_option(purge_delay, -1); // all of it waits
    release(&long_run);
    unit_option(purge_delay, 1000000);
    mi_atomic_store_relaxed(&long_left, SIZE_MAX);
    os_fake.on_purge = &be_awaited;
    if (i == 0) check_equal(mi_purge_everything(subproc), LONG_COUNT * MI_SLICE_SIZE);
    if (i == 1) check(mi_subproc_end_by_destroy(subproc));
    check_equal(pthread_join(forking, NULL), 0);
    const size_t left = mi_atomic_load_relaxed(&long_left);
    check(left > 0 && left < LONG_COUNT * MI_SLICE_SIZE);
    check_equal(resident(&long_run), 0);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(retain_learns_what_is_needed_again),
      cmocka_unit_test(retain_learns_less_where_there_is_no_purge_thread),
      cmocka_unit_test(retain_learns_all_where_faults_are_the_work),
      cmocka_unit_test(retain_learns_a_little_soon),
      cmocka_unit_test(retain_learns_nothing_from_what_is_rare),
      cmocka_unit_test(retain_goes_in_parts),
      cmocka_unit_test(retain_part_ends_in_time),
      cmocka_unit_test(retain_bounds_are_kept_in_time),
      cmocka_unit_test(retain_goes_in_parts_of_whole_chunks),
      cmocka_unit_test(retain_parts_let_others_in),
  };
  return cmocka_run_group_tests_name("retain", tests, NULL, NULL);
}
