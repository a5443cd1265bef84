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

#include "core/arenas/arena.h"
#include "core/arenas/bitmap.h"
#include "core/pages/page.h"
#include "core/arenas/purge.h"
#include "core/arenas/reserve.h"
#include "core/threads/sample.h"
#include "core/heaps/subproc.h"
#include "core/threads/thread.h"
#include "core/arenas/retain.h"

enum { KEPT_MAX = 4000, KEPT_FILLED = 64 };

// OS pages that a run with failures may have at the end beside those of a run without: descriptors
// and structures of more arenas.
#define RESIDENT_SLACK ((size_t)16)
#define PAGES_OF_ARENA ((size_t)8)

// Addresses there are: arenas of 1 GiB that cannot be unmapped leave some for others.
#if defined(__x86_64__)
#define RESERVE (16384 * MI_GIB)
#else
#define RESERVE ((size_t)0) // an emulator has a list of all pages
#endif

// Elsewhere the tests run on an emulator, where a process takes a tenth of a second: some calls are
// left out, and no kind is refused alone.
#if defined(__x86_64__)
#define SWEEP_STEP(n) 1
#define SWEEP_PART 8
#define SWEEP_SETTINGS 2
#else
#define SWEEP_STEP(n) (7 + (n))
#define SWEEP_PART ((size_t)1)
#define SWEEP_SETTINGS 1
#endif

typedef struct kept_s {
  uint8_t* p;
  size_t size;
} kept_t;

static kept_t kept[KEPT_MAX];
static size_t kept_count;
static size_t brought_size; // memory of the program
static size_t pinned_size; // memory that stays once it was touched

static void keep(void* p, size_t size) {
  if (p == NULL) return;
  check(mi_usable_size(p) >= size && kept_count < KEPT_MAX);
  kept[kept_count] = (kept_t){(uint8_t*)p, size};
  unit_fill(p, mi_bits_min(size, KEPT_FILLED), kept_count);
  kept_count++;
}

// A program writes to its blocks: what is lost is resident then. Of large blocks to every fourth OS
// page, because each is a fault of 3 us in thousands of runs; what a lost one has left is still
// more than the slack of check_nothing_lost.
static void write_to(void* p, size_t size) {
  const size_t part = mi_bits_min(size, MI_CLASS_MAX / 16);
  memset(p, 0x77, part);
  for (size_t i = part; i < size; i += 4 * os_fake.page_size) ((uint8_t*)p)[i] = 0x77;
}

static void check_kept(void) {
  for (size_t i = 0; i < kept_count; i++) {
    check(unit_is_filled(kept[i].p, mi_bits_min(kept[i].size, KEPT_FILLED), i));
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
    unit_fill(kept[i].p, mi_bits_min(kept[i].size, KEPT_FILLED), i);
  }
}

static void large_blocks(void) {
  for (size_t i = 1; i <= 4; i++) {
    void* p = mi_malloc(MI_CLASS_MAX * 2 * i);
    keep(mi_zalloc(MI_CLASS_MAX * 3), MI_CLASS_MAX * 3);
    if (p == NULL) continue;
    unit_fill(p, 100, 1000);
    void* const q = mi_realloc_block(mi_self_theap(), p, MI_CLASS_MAX * 6 * i, MI_ZERO);
    if (q == NULL) {
      check(unit_is_filled(p, 100, 1000)); // REALLOC-1
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
    void* const p = mi_aligned_alloc_at(mi_self_theap(), 100, alignment, 0, MI_UNINITIALIZED);
    check((uintptr_t)p % alignment == 0);
    keep(p, 100);
    void* const q = mi_aligned_alloc_at(mi_self_theap(), 3000, alignment, 24, MI_ZERO);
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
      write_to(p, MI_CLASS_MAX * 4);
    }
    if (q != NULL) {
      check(unit_is_zero(q, 5000));
      memset(q, 0xFF, 5000);
    }
    mi_free(p);
    mi_free(q);
    for (size_t i = 0; i < 4; i++) {
      os_fake_advance_ms(1000);
      mi_retain_poll(&mi_state.main);
    }
    mi_collect_all(MI_FORCE);
  }
}

static void many_arenas(void) {
  unit_option(arena_reserve, UNIT_ARENA_SIZE / MI_KIB);
  for (size_t i = 0; i < 24; i++) {
    keep(mi_malloc(UNIT_ARENA_SIZE / 2), UNIT_ARENA_SIZE / 2);
  }
}

static void direct_mappings(void) {
  unit_option(arena_max_object_size, MI_CLASS_MAX / MI_KIB);
  for (size_t i = 0; i < 4; i++) {
    void* const p = mi_malloc(MI_CLASS_MAX * 4);
    keep(mi_malloc(MI_CLASS_MAX * 2), MI_CLASS_MAX * 2);
    void* const q = mi_realloc_block(mi_self_theap(), p, MI_CLASS_MAX * 9, MI_UNINITIALIZED);
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
      write_to(p, sizes[i % 6]);
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
  if (!mi_enter_subproc(subproc)) {
    check(mi_enter_current() == &mi_state.main);
    return;
  }
  check(mi_enter_current() == subproc);
  check(mi_theap_heap(mi_self_home()) == &subproc->heap_main);
  fill_heap(&subproc->heap_main, false);
  mi_heap_t* const heap = mi_heap_make(subproc, NULL);
  if (heap != NULL) fill_heap(heap, false);
  mi_thread_leave(); // also when the system cannot tell
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

// -- memory that grows, moves and comes back --

// Blocks that grow with somebody behind them are moved, and so is memory that waits to be purged.
static void growing_blocks(void) {
  void* p[3] = {0};
  size_t size[3] = {0};
  for (size_t round = 0; round < 9; round++) {
    const size_t i = round % 3;
    const size_t more = size[i] + MI_CLASS_MAX * 2;
    void* const q = mi_realloc_block(mi_self_theap(), p[i], more, round % 2 ? MI_ZERO : 0);
    if (q == NULL) {
      check(p[i] == NULL || unit_is_filled(p[i], size[i], i));
      continue;
    }
    check(unit_is_filled(q, size[i], i));
    p[i] = q;
    size[i] = more;
    unit_fill(p[i], size[i], i);
  }
  for (size_t i = 0; i < 3; i++) mi_free(p[i]);
  for (size_t i = 0; i < 3; i++) {
    const size_t wanted = MI_CLASS_MAX * (3 + 4 * i);
    keep(mi_malloc(wanted), wanted);
    keep(mi_aligned_alloc_at(mi_self_theap(), wanted, 4 * MI_SLICE_SIZE, 0, MI_ZERO), wanted);
  }
  if (p[0] != NULL) check(!mi_realloc_in_place(p[0], 1) || mi_usable_size(p[0]) > 0);
}

static void small_reallocs(void) {
  uint8_t* p = NULL;
  size_t size = 0;
  for (size_t next = 16; next <= MI_CLASS_MAX; next = next * 3 / 2 + 8) {
    uint8_t* const q = (uint8_t*)mi_realloc_block_at(mi_self_theap(), p, next, 32, 0, MI_ZERO);
    if (q == NULL) continue;
    check(unit_is_filled(q, size, 7) && unit_is_zero(q + size, next - size));
    p = q;
    size = next;
    unit_fill(p, size, 7);
  }
  keep(p, 0);
}

// Memory is asked back, looked at and counted while the system refuses.
static void looking(void) {
  static void* p[64];
  for (size_t round = 0; round < 3; round++) {
    for (size_t i = 0; i < 64; i++) p[i] = mi_malloc(i * 200);
    mi_usage_t usage;
    mi_usage_measure(&mi_state.main, NULL, &usage);
    mi_tally_t sum;
    mi_heap_sum_tally(&mi_state.main, NULL, &sum);
    check(mi_walk_find(&usage) == NULL);
    for (size_t i = 0; i < 64; i++) mi_free(p[i]);
    mi_collect_all(round % 2 == 0 ? MI_FORCE : MI_GENTLE);
  }
}

// Purging by reset, memory that is committed piece by piece.
static void with_options(void) {
  unit_option(purge_decommits, 0);
  unit_option(arena_eager_commit, 0);
  unit_option(allow_thp, 2);
  unit_option(purge_delay, 0);
  unit_option(arena_reserve, UNIT_ARENA_SIZE / MI_KIB);
  small_blocks();
  purging();
  unit_option(purge_decommits, 1);
  unit_option(allow_thp, 1); // else parts of chunks stay
  purging();
}

// With huge pages: as if the heap were large already.
static void huge_pages(void) {
  mi_process_setup();
  const int64_t more = 64 * MI_CHUNK_SLICES * MI_SLICE_SIZE;
  mi_count_add(&mi_state.main.count.committed, more);
  for (size_t i = 0; i < 3 * MI_CHUNK_SLICES; i++) keep(mi_malloc(MI_SLICE_SIZE / 2), 100);
  mi_count_add(&mi_state.main.count.committed, -more);
  for (size_t i = 0; i < 4; i++) {
    os_fake_advance_ms(1000);
    mi_retain_poll(&mi_state.main);
  }
}

// -- memory that somebody reserved or brought --

static bool has_refused;

static bool commit_some(bool is_commit, void* start, size_t size, bool* is_zero, void* arg) {
  (void)arg;
  *is_zero = false;
  if (!is_commit) return mi_os_purge(start, size) == 0;
  has_refused = !has_refused;
  return !has_refused;
}

static void use_arena(mi_arena_t* arena) {
  if (arena == NULL) return;
  mi_heap_t* const heap = mi_heap_make(&mi_state.main, arena);
  if (heap == NULL) return;
  fill_heap(heap, false);
  mi_heap_end_by_destroy(heap);
}

static void reserved_memory(void) {
  mi_process_setup();
  os_fake.numa_nodes = 2;
  // What four arenas may have, and descriptors of 1 GiB that were read: pages of zeros.
  pinned_size = 2 * MI_RESERVE_UNIT + MI_GIB / MI_SLICE_SIZE * sizeof(mi_page_t);
  os_fake.large_free = MI_RESERVE_UNIT / os_fake.huge_page_size;
  os_fake.giant_free = 2;
  unit_option(arena_is_numa_local, 1);
  for (mi_arena_kind_t kind = MI_ARENA_RESERVED; kind <= MI_ARENA_LARGE; kind++) {
    mi_arena_plan_t plan = {.size = 1, .numa_node = kind == 1 ? 1 : -1, .is_exclusive = true};
    use_arena(mi_reserve_memory(&mi_state.main, &plan, kind));
  }
  mi_arena_plan_t giant = {.numa_node = 0, .is_exclusive = true};
  use_arena(mi_reserve_giant_pages(&mi_state.main, &giant, 1, 0));
  mi_reserve_giant_pages_spread(&mi_state.main, 2, 2, 1000);
  unit_option(allow_large_os_pages, 1);
  keep(mi_malloc(MI_CLASS_MAX), MI_CLASS_MAX);
}

static void brought_memory(void) {
  mi_process_setup();
  for (size_t i = 0; i < 2; i++) {
    uint8_t* const p =
        (uint8_t*)mi_os_map(NULL, MI_RESERVE_UNIT, MI_RESERVE_UNIT, MI_OS_READ_WRITE);
    if (p == NULL) continue;
    brought_size += MI_RESERVE_UNIT;
    const mi_arena_plan_t plan = {.start = p,
                                  .size = MI_RESERVE_UNIT,
                                  .is_committed = i == 0,
                                  .is_foreign = true,
                                  .numa_node = -1,
                                  .commit_fun = i == 0 ? NULL : &commit_some};
    mi_arena_manage(&mi_state.main, &plan);
    fill_heap(&mi_state.main.heap_main, true);
    mi_collect_all(MI_FORCE);
  }
}

// -- threads, forks, the end --

static void* passed[300];

static void free_passed(void* arg) {
  (void)arg;
  keep(mi_malloc(100), 100);
  for (size_t i = 0; i < 300; i++) mi_free(passed[i]);
  keep(mi_malloc(5000), 5000);
}

// Blocks freed by other threads: guests, parcels and pools.
static void passing_blocks(void) {
  for (size_t round = 0; round < 3; round++) {
    for (size_t i = 0; i < 300; i++) passed[i] = mi_malloc(16 + i % 7 * 400);
    unit_on_thread(&free_passed, NULL);
  }
}

static void sampling(void) {
  mi_theap_t* const theap = mi_enter_home();
  if (theap != NULL) mi_sample_profile(1000);
  small_blocks();
  passing_blocks();
  if (theap != NULL) mi_sample_profile(0);
}

// Whoever starts a thread can fork safely, or could not register for it; what the child of the fork
// finds is usable.
static void forking(void) {
  keep(mi_malloc(10), 10);
  puppet_t other;
  puppet_start(&other);
  void* const theirs = puppet_malloc(&other, 300);
  void* const ours = mi_malloc(300);
  if (os_fake.fork_prepare != NULL) {
    os_fake.fork_prepare();
    os_fake.fork_parent();
  }
  puppet_free(&other, ours);
  mi_free(theirs);
  puppet_end(&other);
}

// The library leaves and comes back.
static void unloading(void) {
  for (size_t round = 0; round < 3; round++) {
    mi_free(mi_malloc(100));
    void* const p = mi_malloc(MI_CLASS_MAX * 3);
    if (p != NULL) write_to(p, MI_CLASS_MAX * 3);
    mi_heap_t* const heap = mi_heap_make(&mi_state.main, NULL);
    if (heap != NULL) fill_heap(heap, false);
    if (round < 2) {
      mi_unload();
    } else {
      mi_free(p);
      if (heap != NULL) mi_heap_end_by_destroy(heap);
    }
  }
  mi_collect_all(MI_FORCE);
}

// Books, slots and lists of theaps that grow.
static void many_heaps(void) {
  enum { HEAPS = 40 };
  mi_heap_t* heap[HEAPS];
  mi_process_setup();
  for (size_t i = 0; i < HEAPS; i++) {
    heap[i] = mi_heap_make(&mi_state.main, NULL);
    for (size_t k = 0; heap[i] != NULL && k < 1 + i % 8; k++) {
      const size_t size = (1 + k) * MI_SLICE_SIZE / 4;
      void* const p = mi_heap_malloc(heap[i], size);
      if (i % 2 == 0) keep(p, size);
    }
  }
  for (size_t i = 0; i < HEAPS; i++) {
    if (heap[i] == NULL) continue;
    if (i % 2 == 0) {
      mi_heap_end_by_delete(heap[i]);
    } else {
      mi_heap_end_by_destroy(heap[i]);
    }
  }
}

// -- the sweep --

typedef enum mode_e {
  FAIL_NEVER, // what the others are compared with
  FAIL_ONCE, // the n-th call
  FAIL_ON, // the n-th and all that follow, until the memory comes back
  FAIL_EVERY, // every n-th
  FAIL_MODES,
} failing_t;

typedef struct plan_s {
  failing_t mode;
  os_fake_call_t call; // of this kind; OS_FAKE_FALLIBLE: of any
  size_t n;
  bool has_overcommit;
} plan_t;

// What a child tells.
typedef struct report_s {
  bool is_reached; // the call that should fail was made
  size_t resident; // at the end, bytes
  size_t calls[OS_FAKE_CALL_COUNT]; // of the scenario
} report_t;

static const char* const mode_names[FAIL_MODES] = {"none", "call", "all calls from", "every"};
static const char* const call_names[OS_FAKE_FALLIBLE + 1] = {
    "map",     "map at",   "map large",     "unmap",       "commit",     "decommit",   "purge",
    "reset",   "populate", "populate huge", "collapse",    "split",      "huge pages", "guard",
    "unguard", "move",     "remap",         "prefer node", "thread key", "at fork",    "any"};

static report_t* report; // shared with the child
static void (*scenario)(void);
static plan_t plan;
static size_t expected_resident;

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

static void start_failing(void) {
  os_fake.has_overcommit = plan.has_overcommit;
  os_fake.has_thread_watch = true;
  if (plan.mode == FAIL_NEVER) return;
  os_fake.fail_at[plan.call] = plan.n;
  os_fake.is_failing_on = plan.mode == FAIL_ON;
  os_fake.fail_every = plan.mode == FAIL_EVERY ? plan.n : 0;
}

static bool is_reached(void) {
  return plan.mode != FAIL_NEVER && os_fake_calls(plan.call) >= plan.n;
}

// Memory is back: everything works, in a heap too.
static void check_usable(void) {
  void* const p = mi_malloc(100);
  void* const q = mi_malloc(MI_CLASS_MAX * 2);
  check(p != NULL && q != NULL);
  mi_free(p);
  mi_free(q);
  mi_heap_t* const heap = mi_heap_make(&mi_state.main, NULL);
  check(heap != NULL && mi_heap_malloc(heap, 100) != NULL);
  mi_heap_end_by_destroy(heap);
}

static void check_locks(void) {
  check_equal(mi_atomic_load_relaxed(&mi_state.thread_lock.word), 0);
  check_equal(mi_atomic_load_relaxed(&mi_state.arena_lock.word), 0);
  check_equal(mi_atomic_load_relaxed(&mi_state.purge_lock.word), 0);
}

// What no call refused is given back: nothing is resident that a run without failure has not, and
// when the library is unloaded nothing is left.
static void check_nothing_lost(void) {
  // Arenas that cannot grow are more, and each has pages of our structures.
  size_t arenas = mi_state.main.arena_count;
  // What the system did not take when a sub-process ended waits for the next one.
  size_t dirty = 0;
  for (mi_arena_t* arena = mi_state.arenas_free; arena != NULL; arena = arena->next) {
    arenas++;
    dirty += mi_bitmap_count(arena->dirty, arena->word_count);
  }
  const size_t pages = RESIDENT_SLACK + PAGES_OF_ARENA * arenas;
  const size_t slack =
      pages * os_fake.page_size + dirty * MI_SLICE_SIZE + os_fake.kept + pinned_size;
  report->resident = os_fake_resident_all();
  if (plan.mode != FAIL_NEVER && report->resident > expected_resident + slack) {
    fprintf(stderr, "resident at the end: %zu KiB, without failure %zu KiB, %zu arenas\n",
            report->resident / MI_KIB, expected_resident / MI_KIB, arenas);
    check(!"memory is lost");
  }
  // It walks over all addresses there may be, which tiny windows make long.
  const bool is_long = MI_WINDOW_COUNT > (size_t)1 << 20;
  if (is_long && plan.mode != FAIL_NEVER && plan.n % 16 != 0) return;
  const bool is_lost = mi_atomic_load_relaxed(&mi_state.lost_count) > 0;
  const size_t brought = brought_size;
  mi_unload();
  if (!is_lost) check_equal(os_fake.mapped, os_fake.kept + brought);
}

static void run_scenario(void) {
  report->is_reached = false;
  start_failing();
  scenario();
  report->is_reached = is_reached();
  for (os_fake_call_t i = 0; i < OS_FAKE_CALL_COUNT; i++) report->calls[i] = os_fake_calls(i);
  memset(os_fake.fail_at, 0, sizeof(os_fake.fail_at));
  check_kept();
  check_locks();
  unit_check_valid();
  check_usable();
  check_kept();
  for (size_t i = 0; i < kept_count; i++) mi_free(kept[i].p);
  check_equal(hooks_fake.count[MI_ERROR_INVALID_POINTER], 0);
  check_equal(hooks_fake.count[MI_ERROR_CORRUPT_LIST], 0);
  check_equal(hooks_fake.count[MI_ERROR_DOUBLE_FREE], 0);
  mi_collect_all(MI_FORCE);
  if (has_vanished_thread()) return;
  unit_check_empty();
  check_nothing_lost();
}

static size_t run_count;

static bool run_plan(plan_t next) {
  plan = next;
  run_count++;
  snprintf(unit_context, sizeof(unit_context), ", %s, failing: %s %zu of kind %s",
           plan.has_overcommit ? "overcommit" : "no overcommit", mode_names[plan.mode], plan.n,
           call_names[plan.call]);
  unit_run(&run_scenario, RESERVE);
  return report->is_reached;
}

// All kinds of calls together: the first, the second, ... until none is left to fail.
static void sweep_all(bool has_overcommit) {
  const failing_t last = RESERVE != 0 ? FAIL_EVERY : FAIL_ON;
  for (failing_t mode = FAIL_ONCE; mode <= last; mode++) {
    size_t n = 1;
    while (run_plan((plan_t){mode, OS_FAKE_FALLIBLE, n, has_overcommit})) {
      n += mode == FAIL_ONCE ? SWEEP_STEP(n) : 1 + n / SWEEP_PART;
    }
    assert_true(n > 4); // there was something to fail
  }
}

// One kind alone is refused from some call on, or now and then, while all others work.
static void sweep_kinds(bool has_overcommit, const size_t calls[]) {
  for (os_fake_call_t call = 0; call < OS_FAKE_FALLIBLE; call++) {
    if (calls[call] == 0) continue;
    for (failing_t mode = FAIL_ON; mode < FAIL_MODES; mode++) {
      size_t n = 1;
      while (run_plan((plan_t){mode, call, n, has_overcommit})) n += n * 8 / SWEEP_PART;
    }
  }
}

static void sweep(void (*which)(void)) {
  report = (report_t*)mmap(NULL, sizeof(report_t), PROT_READ | PROT_WRITE,
                           MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  assert_true(report != (report_t*)MAP_FAILED);
  scenario = which;
  for (size_t i = 0; i < SWEEP_SETTINGS; i++) {
    const bool has_overcommit = i == 0;
    run_plan((plan_t){.has_overcommit = has_overcommit});
    const report_t without = *report;
    expected_resident = without.resident;
    sweep_all(has_overcommit);
    if (SWEEP_SETTINGS > 1) sweep_kinds(has_overcommit, without.calls);
  }
  unit_context[0] = 0;
  munmap(report, sizeof(report_t));
}

#define SWEEP(name, which)                                                                         \
  static void name(void** state) {                                                                 \
    (void)state;                                                                                   \
    sweep(&which);                                                                                 \
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
SWEEP(failure_of_growing_blocks, growing_blocks)
SWEEP(failure_of_small_reallocs, small_reallocs)
SWEEP(failure_of_looking, looking)
SWEEP(failure_of_with_options, with_options)
SWEEP(failure_of_huge_pages, huge_pages)
SWEEP(failure_of_reserved_memory, reserved_memory)
SWEEP(failure_of_brought_memory, brought_memory)
SWEEP(failure_of_passing_blocks, passing_blocks)
SWEEP(failure_of_sampling, sampling)
SWEEP(failure_of_forking, forking)
SWEEP(failure_of_unloading, unloading)
SWEEP(failure_of_many_heaps, many_heaps)

int main(int argc, char** argv) {
  if (argc > 1) cmocka_set_test_filter(argv[1]); // one scenario: its name, with * and ?
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(failure_of_small_blocks),    cmocka_unit_test(failure_of_large_blocks),
      cmocka_unit_test(failure_of_aligned_blocks),  cmocka_unit_test(failure_of_threads),
      cmocka_unit_test(failure_of_purging),         cmocka_unit_test(failure_of_many_arenas),
      cmocka_unit_test(failure_of_direct_mappings), cmocka_unit_test(failure_of_deleted_heaps),
      cmocka_unit_test(failure_of_destroyed_heaps), cmocka_unit_test(failure_of_sub_processes),
      cmocka_unit_test(failure_of_growing_blocks),  cmocka_unit_test(failure_of_small_reallocs),
      cmocka_unit_test(failure_of_looking),         cmocka_unit_test(failure_of_with_options),
      cmocka_unit_test(failure_of_huge_pages),      cmocka_unit_test(failure_of_reserved_memory),
      cmocka_unit_test(failure_of_brought_memory),  cmocka_unit_test(failure_of_passing_blocks),
      cmocka_unit_test(failure_of_sampling),        cmocka_unit_test(failure_of_forking),
      cmocka_unit_test(failure_of_unloading),       cmocka_unit_test(failure_of_many_heaps),
  };
  const int failed = cmocka_run_group_tests_name("failure", tests, NULL, NULL);
  printf("FIGURE %zu runs with failing calls\n", run_count);
  return failed;
}
