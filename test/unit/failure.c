// SPDX-License-Identifier: MIT
// failure.c - each scenario runs again and again, with the first, second, third ... call of the
// operating system failing, until none fails any more.
//
// After each run: what was allocated is intact, the structures are valid, everything can be freed,
// and the next allocation succeeds.
#if !defined(_GNU_SOURCE)
#define _GNU_SOURCE
#endif
#include "unit.h"

#include <stdlib.h>
#include <sys/mman.h>

#include "core/page.h"
#include "core/purge.h"
#include "core/subproc.h"

enum { KEPT_MAX = 4000 };

// Elsewhere the tests run on an emulator, where a process takes a tenth of a second.
#if defined(__x86_64__)
#define SWEEP_STEP 1
#else
#define SWEEP_STEP 9
#endif

typedef struct kept_s {
  uint8_t* p;
  size_t size;
} kept_t;

static kept_t kept[KEPT_MAX];
static size_t kept_count;

static void keep(void* p, size_t size) {
  if (p == NULL) return;
  check(mi_usable_size(p) >= size && kept_count < KEPT_MAX);
  kept[kept_count] = (kept_t){(uint8_t*)p, size};
  unit_fill(p, mi_bits_min(size, 300), kept_count);
  kept_count++;
}

static void check_kept(void) {
  for (size_t i = 0; i < kept_count; i++) {
    check(unit_is_filled(kept[i].p, mi_bits_min(kept[i].size, 300), i));
  }
}

// -- scenarios --

static void small_blocks(void) {
  for (size_t round = 0; round < 3; round++) {
    for (size_t size = 1; size <= MI_CLASS_MAX; size = size * 2 + round) {
      keep(mi_malloc(size), size);
    }
  }
  for (size_t i = 0; i < kept_count; i += 2) mi_free(kept[i].p);
  for (size_t i = 0; i < kept_count; i += 2) {
    kept[i].p = (uint8_t*)mi_malloc(kept[i].size);
    if (kept[i].p == NULL) kept[i].size = 0;
    unit_fill(kept[i].p, mi_bits_min(kept[i].size, 300), i);
  }
}

static void large_blocks(void) {
  for (size_t i = 1; i <= 4; i++) {
    void* p = mi_malloc(MI_CLASS_MAX * 2 * i);
    keep(mi_zalloc(MI_CLASS_MAX * 3), MI_CLASS_MAX * 3);
    if (p == NULL) continue;
    unit_fill(p, 100, 1000);
    void* const q = mi_realloc_block(mi_theap_self(), p, MI_CLASS_MAX * 6 * i, MI_ZERO);
    if (q == NULL) {
      check(unit_is_filled(p, 100, 1000));  // Q1 of realloc.c
      mi_free(p);
      continue;
    }
    check(unit_is_filled(q, 100, 1000));
    check(unit_is_zero((uint8_t*)q + MI_CLASS_MAX * 2 * i, MI_CLASS_MAX * 4 * i));
    keep(q, MI_CLASS_MAX * 6 * i);
  }
}

static void aligned_blocks(void) {
  for (size_t alignment = 16; alignment <= 64 * MI_MIB; alignment *= 4) {
    void* const p = mi_aligned_alloc_at(mi_theap_self(), 100, alignment, 0, MI_UNINITIALIZED);
    check((uintptr_t)p % alignment == 0);
    keep(p, 100);
    void* const q = mi_aligned_alloc_at(mi_theap_self(), 3000, alignment, 24, MI_ZERO);
    check(q == NULL || (((uintptr_t)q + 24) % alignment == 0 && unit_is_zero(q, 3000)));
    keep(q, 3000);
  }
}

static void thread_body(void* arg) {
  (void)arg;
  void* p[20];
  for (size_t i = 0; i < 20; i++) p[i] = mi_malloc(i * 300);
  for (size_t i = 0; i < 20; i += 2) mi_free(p[i]);
  for (size_t i = 1; i < 20; i += 2) {
    if (p[i] != NULL) memset(p[i], 1, i * 300);
    keep(p[i], p[i] == NULL ? 0 : i * 300);
  }
}

static void threads(void) {
  keep(mi_malloc(10), 10);
  for (size_t i = 0; i < 3; i++) unit_on_thread(&thread_body, NULL);
}

static void purging(void) {
  for (size_t round = 0; round < 3; round++) {
    uint8_t* const p = (uint8_t*)mi_zalloc(MI_CLASS_MAX * 4);
    uint8_t* const q = (uint8_t*)mi_zalloc(5000);
    if (p != NULL) {
      check(unit_is_zero(p, MI_CLASS_MAX * 4));
      memset(p, 0xFF, MI_CLASS_MAX * 4);
    }
    if (q != NULL) {
      check(unit_is_zero(q, 5000));
      memset(q, 0xFF, 5000);
    }
    mi_free(p);
    mi_free(q);
    for (size_t i = 0; i < 4; i++) {
      os_fake_advance_ms(1000);
      mi_purge_poll(&mi_state.main);
    }
    mi_collect_all(MI_FORCE);
  }
}

static void many_arenas(void) {
  unit_option(arena_reserve, MI_ARENA_MIN_SIZE / MI_KIB);
  for (size_t i = 0; i < 24; i++) {
    keep(mi_malloc(MI_ARENA_MIN_SIZE / 2), MI_ARENA_MIN_SIZE / 2);
  }
}

static void direct_mappings(void) {
  unit_option(arena_max_object_size, MI_CLASS_MAX / MI_KIB);
  for (size_t i = 0; i < 4; i++) {
    void* const p = mi_malloc(MI_CLASS_MAX * 4);
    keep(mi_malloc(MI_CLASS_MAX * 2), MI_CLASS_MAX * 2);
    void* const q = mi_realloc_block(mi_theap_self(), p, MI_CLASS_MAX * 9, MI_UNINITIALIZED);
    mi_free(q != NULL ? q : p);
  }
}

// -- heaps --

// A block of each kind; those that may be lost with their heap are only written to.
static void fill_heap(mi_heap_t* heap, bool is_kept) {
  const size_t sizes[] = {8, 300, 5000, MI_CLASS_MAX / 2, MI_CLASS_MAX * 2, MI_CLASS_MAX * 3};
  for (size_t i = 0; i < 12; i++) {
    unit_option(arena_max_object_size, i % 6 == 5 ? 1 : MI_ARENA_RESERVE_KIB / 2);
    errno = 0;
    void* const p = mi_heap_malloc(heap, sizes[i % 6]);
    if (p == NULL) {
      check_equal(errno, ENOMEM);
    } else {
      check(mi_atomic_load_relaxed(&unit_page_of(p)->heap) == heap);
      memset(p, 0x77, sizes[i % 6]);
      if (is_kept) keep(p, sizes[i % 6]);
    }
  }
  unit_option(arena_max_object_size, MI_ARENA_RESERVE_KIB / 2);
}

typedef struct heap_part_s {
  mi_heap_t* heap;
  bool is_kept;
} heap_part_t;

static void fill_heap_on_thread(void* arg) {
  const heap_part_t* const part = (const heap_part_t*)arg;
  fill_heap(part->heap, part->is_kept);
}

static void heaps_that_end(bool is_destroyed) {
  mi_process_setup();
  for (size_t round = 0; round < 2; round++) {
    mi_heap_t* heap[2];
    for (size_t i = 0; i < 2; i++) {
      heap[i] = mi_heap_make(&mi_state.main, NULL);
      if (heap[i] == NULL) continue;
      fill_heap(heap[i], !is_destroyed);
      heap_part_t part = {heap[i], !is_destroyed};
      if (i == round) unit_on_thread(&fill_heap_on_thread, &part);
    }
    check_kept();
    for (size_t i = 0; i < 2; i++) {
      if (heap[i] == NULL) continue;
      if (is_destroyed) {
        mi_heap_end_by_destroy(heap[i]);
      } else {
        mi_heap_end_by_delete(heap[i]);
      }
      check_kept();
    }
  }
}

static void deleted_heaps(void) { heaps_that_end(false); }
static void destroyed_heaps(void) { heaps_that_end(true); }

static void be_in_subproc(void* arg) {
  mi_subproc_t* const subproc = (mi_subproc_t*)arg;
  if (!mi_subproc_join(subproc)) {
    check(mi_subproc_of_thread() == &mi_state.main);
    return;
  }
  check(mi_subproc_of_thread() == subproc);
  check(mi_theap_heap(mi_theap_home()) == &subproc->heap_main);
  fill_heap(&subproc->heap_main, false);
  mi_heap_t* const heap = mi_heap_make(subproc, NULL);
  if (heap != NULL) fill_heap(heap, false);
  mi_thread_leave();  // also when the system cannot tell
}

static void sub_processes(void) {
  mi_process_setup();
  for (size_t i = 0; i < 3; i++) {
    mi_subproc_t* const subproc = mi_subproc_make();
    if (subproc == NULL) continue;
    unit_on_thread(&be_in_subproc, subproc);
    if (i % 2 == 0) {
      fill_heap(&subproc->heap_main, false);
    } else {
      check(mi_subproc_end_by_delete(subproc));
    }
    unit_check_valid();
    // A deleted one that nobody got memory from has ended.
    if (mi_state.main.next != NULL) check(mi_subproc_end_by_destroy(subproc));
    check(mi_state.main.next == NULL);
  }
}

// -- the sweep --

typedef struct report_s {
  bool is_reached;  // the call that should fail was made
} report_t;

static report_t* report;  // shared with the child
static void (*scenario)(void);
static size_t failing_call;
static bool is_failing_on;
static bool has_overcommit;

// A thread whose end nobody noticed, because the system had no key left, keeps its pages until
// another one gets its identity.
static bool has_vanished_thread(void) {
  for (size_t i = 0; i < MI_THEAP_BUCKETS; i++) {
    for (mi_theap_t* t = mi_state.theap_bucket[i]; t != NULL; t = t->bucket_next) {
      if (t->thread_id != mi_tls_thread_id()) return true;
    }
  }
  return false;
}

static void run_scenario(void) {
  report->is_reached = false;
  os_fake.has_overcommit = has_overcommit;
  os_fake.fail_at[OS_FAKE_FALLIBLE] = failing_call;
  os_fake.is_failing_on = is_failing_on;
  scenario();
  report->is_reached = os_fake.fallible_count >= failing_call;
  os_fake.fail_at[OS_FAKE_FALLIBLE] = 0;
  check_kept();
  unit_check_valid();
  void* const p = mi_malloc(100);
  void* const q = mi_malloc(MI_CLASS_MAX * 2);
  check(p != NULL && q != NULL);
  mi_free(p);
  mi_free(q);
  mi_heap_t* const heap = mi_heap_make(&mi_state.main, NULL);
  check(heap != NULL && mi_heap_malloc(heap, 100) != NULL);
  mi_heap_end_by_destroy(heap);
  check_kept();
  for (size_t i = 0; i < kept_count; i++) mi_free(kept[i].p);
  check_equal(hooks_fake.count[MI_ERROR_INVALID_POINTER], 0);
  check_equal(hooks_fake.count[MI_ERROR_CORRUPT_LIST], 0);
  check_equal(hooks_fake.count[MI_ERROR_DOUBLE_FREE], 0);
  mi_collect_all(MI_FORCE);
  if (!has_vanished_thread()) unit_check_empty();
}

static void sweep(void (*which)(void)) {
  report = (report_t*)mmap(NULL, sizeof(report_t), PROT_READ | PROT_WRITE,
                           MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  assert_true(report != (report_t*)MAP_FAILED);
  scenario = which;
  for (size_t mode = 0; mode < 4; mode++) {
    is_failing_on = mode % 2 == 1;
    has_overcommit = mode / 2 == 0;
    failing_call = 0;
    do {
      failing_call += SWEEP_STEP;
      unit_run(&run_scenario, 0);
    } while (report->is_reached && failing_call < 500);
    assert_true(failing_call > 4);  // there was something to fail
    assert_false(report->is_reached);
  }
  munmap(report, sizeof(report_t));
}

#define SWEEP(name, which)             \
  static void name(void** state) {     \
    (void)state;                       \
    sweep(&which);                     \
  }

// If one of these fails, a program that could go on after a failed allocation crashes, or reads and
// writes memory that is not its own.
SWEEP(failure_of_small_blocks, small_blocks)
SWEEP(failure_of_large_blocks, large_blocks)
SWEEP(failure_of_aligned_blocks, aligned_blocks)
SWEEP(failure_of_threads, threads)
SWEEP(failure_of_purging, purging)
SWEEP(failure_of_many_arenas, many_arenas)
SWEEP(failure_of_direct_mappings, direct_mappings)
SWEEP(failure_of_deleted_heaps, deleted_heaps)
SWEEP(failure_of_destroyed_heaps, destroyed_heaps)
SWEEP(failure_of_sub_processes, sub_processes)

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(failure_of_small_blocks),  cmocka_unit_test(failure_of_large_blocks),
      cmocka_unit_test(failure_of_aligned_blocks), cmocka_unit_test(failure_of_threads),
      cmocka_unit_test(failure_of_purging),       cmocka_unit_test(failure_of_many_arenas),
      cmocka_unit_test(failure_of_direct_mappings), cmocka_unit_test(failure_of_deleted_heaps),
      cmocka_unit_test(failure_of_destroyed_heaps), cmocka_unit_test(failure_of_sub_processes),
  };
  return cmocka_run_group_tests_name("failure", tests, NULL, NULL);
}
