// SPDX-License-Identifier: MIT
// subproc.c - tests of heaps/subproc.c: SUBPROC-1 to SUBPROC-4, and of the arenas that pass from
// one to the next (ARENA-3).
#include "unit.h"

#include <sched.h>

#include "core/arenas/arena.h"
#include "core/arenas/bitmap.h"
#include "core/heaps/heap.h"
#include "core/pages/page.h"
#include "core/pages/pool.h"
#include "core/pages/remote.h"
#include "core/arenas/reserve.h"
#include "core/heaps/subproc.h"
#include "core/process/purger.h"
#include "core/threads/theap.h"
#include "core/threads/thread.h"
#include "core/arenas/slices.h"

#define SIZE 256
#define CLASS mi_class_of(SIZE)
#define LARGE (MI_CLASS_MAX * 2)

static mi_subproc_t* make_subproc(void) {
  mi_process_setup();
  mi_subproc_t* const subproc = mi_subproc_make();
  check(subproc != NULL && subproc != &mi_state.main);
  return subproc;
}

static bool is_listed(const mi_subproc_t* subproc) {
  const mi_subproc_t* s = &mi_state.main;
  while (s != NULL && s != subproc) s = s->next;
  return s != NULL;
}

static size_t arenas_free(void) {
  size_t count = 0;
  for (mi_arena_t* a = mi_state.arenas_free; a != NULL; a = mi_atomic_load_relaxed(&a->next))
    count++;
  return count;
}

typedef struct guest_s {
  mi_subproc_t* subproc;
  mi_heap_t* heap; // made there
  void* p[3]; // by malloc, from the heap, large
} guest_t;

// On a thread: what it allocated stays when it ends.
static void be_guest(void* arg) {
  guest_t* const guest = (guest_t*)arg;
  check(mi_enter_subproc(guest->subproc) && mi_enter_current() == guest->subproc);
  guest->heap = mi_heap_make(guest->subproc, NULL);
  check(guest->heap != NULL);
  guest->p[0] = mi_malloc(SIZE);
  guest->p[1] = mi_heap_malloc(guest->heap, SIZE);
  guest->p[2] = mi_malloc(LARGE);
  for (size_t i = 0; i < 3; i++) memset(guest->p[i], 0xAB, SIZE);
}

// If this fails, an interpreter that ended leaves dirt for the next one, or its addresses are lost.
UNIT_TEST_PAGE_SIZES(subproc_arenas_are_retired_clean_and_adopted) {
  guest_t guest = {.subproc = make_subproc()};
  unit_on_thread(&be_guest, &guest);
  unit_check_valid();
  mi_arena_t* const arena = mi_arena_of(guest.subproc, guest.p[0]);
  check(arena != NULL && arena->subproc == guest.subproc);
  check(mi_subproc_end_by_destroy(guest.subproc));
  unit_check_valid();
  check(!is_listed(guest.subproc) && mi_pagemap_find(guest.p[0]) == NULL);
  check(mi_state.arenas_free == arena && arenas_free() == 1);
  check(mi_bitmap_is_all_set(arena->free, 0, arena->slice_count));
  check(mi_bitmap_is_all_clear(arena->dirty, 0, arena->slice_count));
  check_equal(os_fake_resident(arena->start, arena->slice_count * MI_SLICE_SIZE), 0);
  const size_t mapped = os_fake.mapped;
  guest_t next = {.subproc = make_subproc()};
  check(next.subproc == guest.subproc); // SUBPROC-3
  unit_on_thread(&be_guest, &next);
  check(mi_arena_of(next.subproc, next.p[0]) == arena && arenas_free() == 0);
  check_equal(os_fake.mapped, mapped);
  check_equal(next.subproc->arena_count, 1);
  unit_check_valid();
  check(mi_subproc_end_by_destroy(next.subproc));
  // The main one takes them as well.
  void* const p = mi_malloc(SIZE);
  check(mi_arena_of(&mi_state.main, p) == arena && arena->subproc == &mi_state.main);
  mi_free(p);
}

// If this fails, a block does not fit into the memory it was given: what was small enough for one
// interpreter is taken for the large block of the next.
UNIT_TEST_PAGE_SIZES(subproc_adopts_only_what_is_large_enough) {
  unit_option(arena_reserve, UNIT_ARENA_SIZE / MI_KIB);
  mi_subproc_t* const subproc = make_subproc();
  for (size_t i = 0; i < 3; i++) {
    check(mi_heap_malloc(&subproc->heap_main, UNIT_ARENA_SIZE / 2) != NULL);
  }
  check(mi_subproc_end_by_destroy(subproc));
  const size_t count = arenas_free();
  check(count > 1);
  const mi_arena_t* const small = mi_state.arenas_free;
  unit_option(arena_reserve, UNIT_ARENA_SIZE * 8 / MI_KIB);
  void* const p = mi_malloc(UNIT_ARENA_SIZE * 3);
  check(p != NULL && unit_page_of(p)->backing == MI_BACKING_ARENA);
  check(mi_arena_of(&mi_state.main, p) != small && mi_state.arenas_free == small);
  mi_free(p);
  // One at a time.
  mi_subproc_t* const next = make_subproc();
  check(mi_heap_malloc(&next->heap_main, SIZE) != NULL);
  check(mi_atomic_load_relaxed(&next->arenas) == small);
  check(mi_atomic_load_relaxed(&small->next) == NULL && next->arena_last == small);
  check_equal(arenas_free(), count - 1);
  check(mi_subproc_end_by_destroy(next));
}

// What all heaps of a sub-process counted.
static int64_t sum_of(mi_subproc_t* subproc, mi_tally_index_t what) {
  mi_tally_t sum;
  mi_heap_sum_tally(subproc, NULL, &sum);
  return mi_atomic_load_relaxed(&sum.amount[what]);
}

// If this fails, statistics of the process forget what ended interpreters did, or count it twice.
UNIT_TEST_PAGE_SIZES(subproc_counts_go_to_the_main_one) {
  mi_free(mi_malloc(SIZE));
  for (size_t round = 0; round < 2; round++) {
    guest_t guest = {.subproc = make_subproc()};
    mi_counters_t* const from = &guest.subproc->count;
    mi_counters_t* const to = &mi_state.main.count;
    check_equal(from->heaps, 1);
    check_equal(from->heaps_total, 1);
    unit_on_thread(&be_guest, &guest);
    check_equal(sum_of(guest.subproc, MI_TALLY_PAGES_TOTAL), 2);
    check(sum_of(guest.subproc, MI_TALLY_LARGE_TOTAL) >= (int64_t)LARGE);
    check(from->threads_total == 1 && from->theaps_total == 1 && from->heaps_total == 2);
    const int64_t pages =
        sum_of(guest.subproc, MI_TALLY_PAGES_TOTAL) + sum_of(&mi_state.main, MI_TALLY_PAGES_TOTAL);
    const int64_t large =
        sum_of(guest.subproc, MI_TALLY_LARGE_TOTAL) + sum_of(&mi_state.main, MI_TALLY_LARGE_TOTAL);
    const int64_t threads = from->threads_total + to->threads_total;
    const int64_t heaps = from->heaps_total + to->heaps_total;
    const int64_t pages_now = to->pages;
    check(mi_subproc_end_by_destroy(guest.subproc));
    check_equal(sum_of(&mi_state.main, MI_TALLY_PAGES_TOTAL), pages);
    check_equal(sum_of(&mi_state.main, MI_TALLY_LARGE_TOTAL), large);
    check_equal(to->threads_total, threads);
    check_equal(to->heaps_total, heaps);
    check_equal(to->pages, pages_now);
    check(from->reserved == 0 && from->theaps == 0);
    check_equal(sum_of(guest.subproc, MI_TALLY_PAGES_TOTAL), 0);
  }
}

// If this fails, the figures of an interpreter whose memory another one used before are wrong: less
// than nothing is committed.
UNIT_TEST_PAGE_SIZES(subproc_counts_what_came_with_an_arena) {
  unit_option(purge_decommits, 0); // what is given back stays committed, and dirty
  guest_t guest = {.subproc = make_subproc()};
  unit_on_thread(&be_guest, &guest);
  check(mi_subproc_end_by_destroy(guest.subproc));
  guest_t next = {.subproc = make_subproc()};
  unit_on_thread(&be_guest, &next);
  check(next.subproc->count.committed >= (int64_t)(LARGE + 2 * MI_SLICE_SIZE));
  unit_option(purge_decommits, 1);
  unit_option(purge_delay, 0);
  for (size_t i = 0; i < 3; i++) mi_free(next.p[i]);
  check(next.subproc->count.committed >= 0);
  check(mi_subproc_end_by_destroy(next.subproc));
}

// -- delete --

// If this fails, objects that outlive their interpreter are gone, or it never ends.
UNIT_TEST_PAGE_SIZES(subproc_delete_waits_for_the_last_free) {
  for (size_t last = 0; last < 3; last++) {
    guest_t guest = {.subproc = make_subproc()};
    unit_on_thread(&be_guest, &guest);
    check(mi_subproc_end_by_delete(guest.subproc));
    check(guest.subproc->is_deleted && is_listed(guest.subproc));
    check(guest.subproc->heaps == NULL);
    unit_check_valid();
    for (size_t i = 0; i < 3; i++) {
      check_equal(*(uint8_t*)guest.p[i], 0xAB);
      if (i == last) continue;
      mi_free(guest.p[i]);
      mi_subproc_sweep();
      check(is_listed(guest.subproc));
    }
    check_equal(*(uint8_t*)guest.p[last], 0xAB);
    mi_free(guest.p[last]);
    mi_subproc_sweep();
    check(!is_listed(guest.subproc) && !guest.subproc->is_deleted);
    unit_check_valid();
  }
}

// If this fails, a deleted interpreter without a block stays until another one is deleted.
UNIT_TEST_PAGE_SIZES(subproc_delete_ends_an_empty_one_at_once) {
  mi_subproc_t* const kept = make_subproc();
  mi_subproc_t* const empty[2] = {make_subproc(), make_subproc()};
  for (size_t i = 0; i < 2; i++) {
    check(mi_subproc_end_by_delete(empty[i]));
    check(!is_listed(empty[i]));
    unit_check_valid();
  }
  check(is_listed(kept));
  check(make_subproc() == empty[1]);
}

// If this fails, an interpreter with a block outside the arenas ends too early.
UNIT_TEST_PAGE_SIZES(subproc_delete_waits_for_mappings) {
  unit_option(disallow_arena_alloc, 1);
  guest_t guest = {.subproc = make_subproc()};
  unit_on_thread(&be_guest, &guest);
  check(mi_atomic_load_relaxed(&guest.subproc->arenas) == NULL);
  check(mi_subproc_end_by_delete(guest.subproc));
  for (size_t i = 0; i < 3; i++) {
    check(is_listed(guest.subproc));
    mi_free(guest.p[i]);
    mi_subproc_sweep();
  }
  check(!is_listed(guest.subproc));
  unit_check_valid();
}

// If this fails, a page that a free put into a heap while it was deleted keeps the memory of a
// whole interpreter for ever.
UNIT_TEST_PAGE_SIZES(subproc_delete_finds_strays) {
  mi_subproc_t* const subproc = make_subproc();
  mi_heap_t* const heap = mi_heap_make(subproc, NULL);
  void* block;
  mi_page_t* const page = unit_make_page_in(mi_enter_theap(heap), CLASS, 1, &block);
  check(mi_inside_enter(page) == heap);
  check(mi_subproc_end_by_delete(subproc));
  mi_atomic_store_relaxed(&page->owner, MI_OWNER_SHARED);
  page->theap = NULL;
  mi_atomic_store_release(&page->thread_free, MI_REMOTE_POOLED);
  mi_pool_push(heap, CLASS, page); // as mi_pool_give_up does
  mi_inside_leave(heap);
  mi_free(block);
  mi_subproc_sweep();
  check(!is_listed(subproc));
  unit_check_valid();
}

// If this fails, the thread whose free was the last goes on to work on an interpreter that ended.
UNIT_TEST_PAGE_SIZES(subproc_delete_waits_for_the_end_of_the_last_free) {
  for (size_t k = 0; k < 2; k++) {
    mi_subproc_t* const subproc = make_subproc();
    mi_heap_t* const heap = k == 0 ? &subproc->heap_main : mi_heap_make(subproc, NULL);
    void* block;
    mi_page_t* const page = unit_make_page_in(mi_enter_theap(heap), CLASS, 1, &block);
    check(mi_inside_enter(page) == heap);
    check(mi_subproc_end_by_delete(subproc));
    mi_block_t* const last = (mi_block_t*)block;
    last->next = page->local_free;
    page->local_free = last;
    page->count.used--;
    mi_pool_give_up(page);
    check(mi_pagemap_find(block) == NULL);
    mi_subproc_sweep();
    check(is_listed(subproc)); // the thread that entered is not done
    mi_inside_leave(heap);
    mi_subproc_sweep();
    check(!is_listed(subproc));
    unit_check_valid();
  }
}

// If this fails, of several interpreters whose last objects are gone only one ends at a time.
UNIT_TEST_PAGE_SIZES(subproc_sweep_ends_all_that_are_free) {
  guest_t guest[3];
  for (size_t i = 0; i < 3; i++) {
    guest[i] = (guest_t){.subproc = make_subproc()};
    unit_on_thread(&be_guest, &guest[i]);
    check(mi_subproc_end_by_delete(guest[i].subproc));
  }
  for (size_t i = 0; i < 9; i++) mi_free(guest[i / 3].p[i % 3]);
  mi_subproc_sweep();
  check(mi_state.main.next == NULL);
  unit_check_valid();
}

// If this fails, memory that the program brought for one interpreter is used by another one.
UNIT_TEST_PAGE_SIZES(subproc_arenas_of_the_user_are_not_passed_on) {
  mi_subproc_t* const subproc = make_subproc();
  for (size_t k = 0; k < 2; k++) {
    const size_t size = MI_CHUNK_SLICES * MI_SLICE_SIZE;
    uint8_t* const p = (uint8_t*)mi_os_map(NULL, size, size, MI_OS_READ_WRITE);
    const mi_arena_plan_t plan = {.start = p,
                                  .size = size,
                                  .is_committed = true,
                                  .is_foreign = k == 0,
                                  .is_exclusive = k == 1,
                                  .numa_node = -1};
    check(p != NULL && mi_arena_manage(subproc, &plan) != NULL);
  }
  check(mi_subproc_end_by_destroy(subproc));
  check_equal(arenas_free(), 1);
  check(!mi_state.arenas_free->is_foreign && !mi_state.arenas_free->is_exclusive);
}

// If this fails, a program that runs one interpreter after the other in memory of its own leaks the
// structures of the arena each time.
UNIT_TEST_PAGE_SIZES(subproc_arenas_of_the_user_leave_nothing) {
  const size_t size = MI_CHUNK_SLICES * MI_SLICE_SIZE;
  uint8_t* p = NULL;
  int64_t charged = 0;
  for (size_t k = 0; k < 200; k++) {
    mi_subproc_t* const subproc = make_subproc();
    if (p == NULL) p = (uint8_t*)mi_os_map(NULL, size, size, MI_OS_READ_WRITE);
    const mi_arena_plan_t plan = {
        .start = p, .size = size, .is_committed = true, .is_foreign = true, .numa_node = -1};
    check(p != NULL && mi_arena_manage(subproc, &plan) != NULL);
    check(mi_arena_of(subproc, p) != NULL);
    check(mi_subproc_end_by_destroy(subproc));
    const int64_t now = mi_atomic_load_relaxed(&mi_state.main.count.meta_charged);
    if (k == 0) charged = now;
    check_equal(now, charged);
  }
  unit_check_valid();
}

// If this fails, ending an interpreter for good that waits for its last object confuses all others.
UNIT_TEST_PAGE_SIZES(subproc_destroy_after_delete) {
  guest_t guest = {.subproc = make_subproc()};
  unit_on_thread(&be_guest, &guest);
  check(mi_subproc_end_by_delete(guest.subproc));
  check(mi_subproc_end_by_destroy(guest.subproc));
  check(!is_listed(guest.subproc));
  unit_check_valid();
}

enum { RACE_ROUNDS = 60, RACE_THREADS = 3 };
static mi_atomic(size_t) race_turn;
static guest_t race_guest[2];

static void race_last_free(void* arg) {
  const size_t self = *(size_t*)arg;
  for (size_t round = 0; round < RACE_ROUNDS; round++) {
    while (mi_atomic_load_acquire(&race_turn) / 4 != round) sched_yield();
    if (self == 0) {
      mi_subproc_end_by_delete(race_guest[round % 2].subproc);
    } else {
      mi_free(race_guest[round % 2].p[self]);
      if (self == 1) mi_free(race_guest[round % 2].p[0]);
    }
    if (mi_atomic_add_acq_rel(&race_turn, 1) % 4 == RACE_THREADS - 1) {
      mi_subproc_sweep();
      check(!is_listed(race_guest[round % 2].subproc));
      guest_t* const next = &race_guest[(round + 1) % 2];
      *next = (guest_t){.subproc = make_subproc()};
      unit_on_thread(&be_guest, next);
      mi_atomic_add_acq_rel(&race_turn, 1);
    }
    while (mi_atomic_load_acquire(&race_turn) / 4 == round) sched_yield();
  }
}

// If this fails, an interpreter that is deleted while others free its last objects is never ended,
// or twice.
UNIT_TEST(subproc_delete_meets_the_last_free) {
  race_guest[0] = (guest_t){.subproc = make_subproc()};
  unit_on_thread(&be_guest, &race_guest[0]);
  size_t id[RACE_THREADS] = {0, 1, 2};
  unit_on_threads(RACE_THREADS, &race_last_free, id, sizeof(id[0]));
  unit_check_valid();
}

// -- threads --

// If this fails, the first thread of a program that joins an interpreter at once, and leaves it,
// breaks whatever comes next.
UNIT_TEST_PAGE_SIZES(subproc_join_as_the_first_call) {
  guest_t guest = {.subproc = make_subproc()};
  be_guest(&guest);
  mi_thread_leave();
  check(mi_subproc_end_by_destroy(guest.subproc));
  for (size_t i = 0; i < 3; i++) {
    puppet_t other;
    puppet_start(&other);
    void* const p = puppet_malloc(&other, SIZE);
    mi_free(mi_malloc(SIZE));
    unit_check_valid();
    puppet_free(&other, p);
    puppet_end(&other);
    mi_thread_leave();
  }
  mi_collect_all(MI_FORCE);
  unit_check_valid();
  unit_check_empty();
}

static void allocate_in_main(void* arg) {
  (void)arg;
  mi_free(mi_malloc(SIZE));
}

// If this fails, threads of interpreters leave memory behind each time, or take a theap of the main
// one with them (THREAD-5).
UNIT_TEST_PAGE_SIZES(subproc_threads_leave_nothing) {
  int64_t meta = 0;
  mi_free(mi_malloc(SIZE));
  unit_on_thread(&allocate_in_main, NULL);
  for (size_t i = 0; i < 30; i++) {
    guest_t guest[2] = {{.subproc = make_subproc()}};
    guest[1].subproc = guest[0].subproc;
    for (size_t k = 0; k < 2; k++) unit_on_thread(&be_guest, &guest[k]);
    check_equal(guest[0].subproc->count.threads, 0);
    check(mi_state.orphans != NULL && mi_state.orphans->orphan_next == NULL);
    check(mi_subproc_end_by_destroy(guest[0].subproc));
    if (i == 1) meta = mi_state.main.count.meta;
    if (i > 1) check_equal(mi_state.main.count.meta, meta);
  }
}

static void join_another(void* arg) {
  guest_t* const guest = (guest_t*)arg;
  void* const before = mi_malloc(SIZE); // stays in the main one
  be_guest(guest);
  check(mi_atomic_load_relaxed(&unit_page_of(before)->heap) == UNIT_HEAP);
  check_equal(mi_state.main.count.threads, 0);
  mi_free(before);
  check(!mi_enter_subproc(&mi_state.main));
  check(mi_enter_current() == guest->subproc);
  check(mi_enter_subproc(guest->subproc));
}

// If this fails, an interpreter is ended under the feet of its threads.
UNIT_TEST_PAGE_SIZES(subproc_with_threads_does_not_end) {
  guest_t guest = {.subproc = make_subproc()};
  puppet_t other;
  puppet_start(&other);
  puppet_do(&other, &join_another, &guest);
  check(!mi_subproc_end_by_destroy(guest.subproc));
  check(!mi_subproc_end_by_delete(guest.subproc));
  check(is_listed(guest.subproc) && !guest.subproc->is_deleted);
  check_equal(*(uint8_t*)guest.p[1], 0xAB);
  unit_check_valid();
  puppet_end(&other);
  check(mi_subproc_end_by_destroy(guest.subproc));
}

// If this fails, a thread that allocated from a heap of an interpreter goes on to use its pages
// when it has ended, by malloc or in a heap of the next interpreter.
UNIT_TEST_PAGE_SIZES(subproc_end_is_told_to_threads_outside) {
  for (size_t k = 0; k < 4; k++) {
    mi_subproc_t* const subproc = make_subproc();
    mi_heap_t* const heap = k % 2 == 0 ? &subproc->heap_main : mi_heap_make(subproc, NULL);
    const size_t slot = heap->slot;
    puppet_t other; // and another thread that goes on
    puppet_start(&other);
    void* const theirs = k < 2 ? puppet_heap_malloc(&other, heap, SIZE) : NULL;
    void* const p = mi_heap_malloc(heap, SIZE);
    check(k >= 2 || unit_page_of(theirs) != unit_page_of(p));
    check(mi_atomic_load_relaxed(&unit_page_of(p)->heap) == heap);
    mi_theap_t* const home = mi_self_home();
    mi_self()->theap = mi_theap_find(heap); // the default
    check(mi_self_theap() == home->others[slot]);
    if (k < 2) {
      check(mi_subproc_end_by_destroy(subproc));
    } else {
      mi_free(p);
      check(mi_subproc_end_by_delete(subproc));
    }
    check(!is_listed(subproc));
    check(mi_self_theap() == home && home->others[slot]->page_count == 0);
    unit_check_valid();
    void* const q = mi_malloc(SIZE);
    check(mi_atomic_load_relaxed(&unit_page_of(q)->heap) == UNIT_HEAP);
    mi_free(q);
    // The structure serves the next one.
    mi_subproc_t* const next = make_subproc();
    check(next == subproc);
    void* const r = mi_heap_malloc(&next->heap_main, SIZE);
    void* const q2 = puppet_heap_malloc(&other, &next->heap_main, SIZE);
    check(mi_arena_of(next, r) != NULL && mi_arena_of(next, q2) != NULL);
    unit_check_valid();
    puppet_end(&other);
    check(mi_subproc_end_by_destroy(next));
  }
}

static void allocate_page(void* arg) {
  void** const blocks = (void**)arg;
  check(mi_enter_subproc(mi_state.main.next));
  const size_t count = unit_page_blocks(CLASS);
  for (size_t i = 0; i < count; i++) blocks[i] = mi_malloc(SIZE);
}

// If this fails, a thread keeps pages of an interpreter that it freed into, and uses them in the
// next one.
UNIT_TEST_PAGE_SIZES(subproc_leaves_no_guests_outside) {
  static void* blocks[UNIT_BLOCKS_MAX];
  mi_subproc_t* const subproc = make_subproc();
  unit_on_thread(&allocate_page, blocks);
  check(mi_heap_malloc(&subproc->heap_main, SIZE * 8) != NULL); // a theap here
  mi_page_t* const page = unit_page_of(blocks[0]);
  mi_free(blocks[0]);
  check(page->place != MI_PLACE_GUEST);
  unit_check_valid();
  check(mi_subproc_end_by_destroy(subproc));
  mi_subproc_t* const next = make_subproc();
  check(next == subproc);
  for (size_t i = 0; i < 2 * unit_page_blocks(CLASS); i++) {
    blocks[i % UNIT_BLOCKS_MAX] = mi_heap_malloc(&next->heap_main, SIZE);
  }
  unit_check_valid();
  check(mi_subproc_end_by_destroy(next));
}

// If this fails, one small arena of a sub-process that ended keeps others from being used again.
UNIT_TEST(subproc_adopts_an_arena_that_is_large_enough) {
  mi_subproc_t* const large = make_subproc();
  mi_subproc_t* const small = make_subproc();
  mi_arena_plan_t plan = {.size = 4 * MI_RESERVE_UNIT, .numa_node = -1};
  check(mi_reserve_memory(large, &plan, MI_ARENA_RESERVED) != NULL);
  plan = (mi_arena_plan_t){.size = MI_RESERVE_UNIT, .numa_node = -1};
  check(mi_reserve_memory(small, &plan, MI_ARENA_RESERVED) != NULL);
  check(mi_subproc_end_by_destroy(large) && mi_subproc_end_by_destroy(small)); // small is first
  check_equal(arenas_free(), 2);
  mi_run_t run = {0};
  mi_subproc_t* const next = make_subproc();
  check(mi_slices_claim(&next->heap_main, 2 * MI_RESERVE_UNIT / MI_SLICE_SIZE, MI_SLICE_SIZE, 0,
                        &run));
  check_equal(run.arena->slice_count, 4 * MI_RESERVE_UNIT / MI_SLICE_SIZE);
  check_equal(arenas_free(), 1);
  mi_slices_release(run.arena, run.slice_index, run.slice_count, MI_SLICE_SIZE);
}

// If this fails, a sub-process keeps memory that is wholly free, because one that had the structure
// before was large.
UNIT_TEST(subproc_forgets_what_a_drain_put_back) {
  guest_t guest = {.subproc = make_subproc()};
  unit_on_thread(&be_guest, &guest);
  mi_heap_t* const heap = &guest.subproc->heap_main;
  check(mi_pool_drain_all(heap, MI_GENTLE) > 0);
  check(mi_atomic_load_relaxed(&heap->kept_count) > 0);
  check(mi_subproc_end_by_destroy(guest.subproc));
  mi_subproc_t* const next = make_subproc();
  check(&next->heap_main == heap); // SUBPROC-3
  check_equal(mi_atomic_load_relaxed(&heap->kept_count), 0);
  check(mi_subproc_end_by_destroy(next));
}

static mi_subproc_t* purged;
static pthread_t destroyer;

static void allocate(void* arg) {
  (void)arg;
  mi_free(mi_malloc(SIZE));
}

static void* destroy_purged(void* arg) {
  check(mi_subproc_end_by_destroy(purged));
  return arg;
}

// In the middle of a purge: a thread comes and goes, and another one destroys the sub-process.
static void meanwhile(void) {
  os_fake.on_purge = NULL;
  check_equal(mi_self()->locks_held & mi_lock_bit(&mi_state.thread_lock), 0);
  unit_on_thread(&allocate, NULL);
  check_equal(pthread_create(&destroyer, NULL, &destroy_purged, NULL), 0);
  while (mi_atomic_load_relaxed(&mi_state.subproc_lock.word) != 2) sched_yield();
  check(is_listed(purged));
}

// If this fails, no thread can start or end while memory of an interpreter goes back, or that
// memory goes back while the interpreter ends.
UNIT_TEST_PAGE_SIZES(subproc_is_purged_while_threads_come_and_go) {
  guest_t guest = {.subproc = make_subproc()};
  unit_option(purge_delay, 100);
  unit_on_thread(&be_guest, &guest);
  purged = guest.subproc;
  mi_free(guest.p[2]);
  check(mi_atomic_load_relaxed(&purged->purge_waiting) > 0);
  os_fake.on_purge = &meanwhile;
  for (size_t i = 0; i < 10 && os_fake.on_purge != NULL; i++) {
    os_fake_advance_ms(100);
    mi_purger_tick();
  }
  check(os_fake.on_purge == NULL);
  check_equal(pthread_join(destroyer, NULL), 0);
  check(!is_listed(purged));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(subproc_arenas_are_retired_clean_and_adopted),
      cmocka_unit_test(subproc_adopts_only_what_is_large_enough),
      cmocka_unit_test(subproc_counts_go_to_the_main_one),
      cmocka_unit_test(subproc_counts_what_came_with_an_arena),
      cmocka_unit_test(subproc_delete_waits_for_the_last_free),
      cmocka_unit_test(subproc_delete_ends_an_empty_one_at_once),
      cmocka_unit_test(subproc_delete_waits_for_mappings),
      cmocka_unit_test(subproc_delete_finds_strays),
      cmocka_unit_test(subproc_delete_waits_for_the_end_of_the_last_free),
      cmocka_unit_test(subproc_sweep_ends_all_that_are_free),
      cmocka_unit_test(subproc_arenas_of_the_user_are_not_passed_on),
      cmocka_unit_test(subproc_arenas_of_the_user_leave_nothing),
      cmocka_unit_test(subproc_destroy_after_delete),
      cmocka_unit_test(subproc_delete_meets_the_last_free),
      cmocka_unit_test(subproc_join_as_the_first_call),
      cmocka_unit_test(subproc_threads_leave_nothing),
      cmocka_unit_test(subproc_with_threads_does_not_end),
      cmocka_unit_test(subproc_end_is_told_to_threads_outside),
      cmocka_unit_test(subproc_leaves_no_guests_outside),
      cmocka_unit_test(subproc_adopts_an_arena_that_is_large_enough),
      cmocka_unit_test(subproc_forgets_what_a_drain_put_back),
      cmocka_unit_test(subproc_is_purged_while_threads_come_and_go),
  };
  return cmocka_run_group_tests_name("subproc", tests, NULL, NULL);
}
