// SPDX-License-Identifier: MIT
// pool.c - tests of pages/pool.c: POOL-1 to POOL-5, and threads that take and give at once.
#include "unit.h"

#include <sched.h>

#include "core/pages/page.h"
#include "core/pages/pool.h"
#include "core/pages/remote.h"
#include "core/threads/theap.h"
#include "core/threads/thread.h"

#define SIZE 256
#define PART 64 // pages that a free looks at, at most: MI_POOL_PART
#define FEW 24 // empty ones of which no drain begins: less than MI_POOL_EMPTY_MIN

static void* blocks[UNIT_BLOCKS_MAX];

static mi_pool_t* pool_of(size_t size) {
  return mi_pool_of(&mi_state.main.heap_main, mi_class_of(size));
}

static size_t pool_length(size_t size) {
  return unit_pool_length(&mi_state.main.heap_main, mi_class_of(size));
}

static uintptr_t bits(mi_page_t* page) {
  return mi_atomic_load_relaxed(&page->thread_free) & MI_REMOTE_BITS;
}

// An abandoned page with `used` blocks in use.
static mi_page_t* abandon(size_t used, void** in_use) {
  mi_page_t* const page = unit_make_page(mi_class_of(SIZE), used, in_use);
  mi_pool_give_up(page);
  return page;
}

static void release(mi_page_t* page) {
  page->local_free = NULL;
  page->count.used = 0;
  mi_page_release(UNIT_HEAP, page);
}

// If this fails, a thread adopts cold pages, or pages get lost.
UNIT_TEST_PAGE_SIZES(pool_is_last_in_first_out) {
  mi_page_t* page[5];
  for (size_t i = 0; i < 5; i++) {
    page[i] = abandon(1, &blocks[i]);
    check_equal(bits(page[i]), MI_REMOTE_POOLED);
    check_equal(mi_atomic_load_relaxed(&page[i]->owner), MI_OWNER_SHARED);
    check_equal(pool_length(SIZE), i + 1);
  }
  check_equal(unit_tally(POOLED), 5);
  for (size_t i = 5; i-- > 0;) {
    mi_page_t* const popped = mi_pool_pop(UNIT_HEAP, mi_class_of(SIZE));
    check(popped == page[i]);
    check_equal(bits(popped), MI_REMOTE_OWNED);
    check(mi_page_has_free(popped));
    release(popped);
  }
  check(mi_pool_pop(UNIT_HEAP, mi_class_of(SIZE)) == NULL);
  check_equal(unit_tally(POOLED), 5);
  unit_check_empty();
}

// If this fails, a page that somebody uses is taken away from him.
UNIT_TEST_PAGE_SIZES(pool_drops_a_claimed_page) {
  mi_page_t* const page = abandon(3, blocks);
  mi_free(blocks[0]); // claims the page as a guest; it stays in the stack
  check_equal(bits(page), MI_REMOTE_OWNED | MI_REMOTE_POOLED);
  check_equal(page->place, MI_PLACE_GUEST);
  check(mi_pool_pop(UNIT_HEAP, mi_class_of(SIZE)) == NULL);
  check_equal(bits(page), MI_REMOTE_OWNED);
  check_equal(page->place, MI_PLACE_GUEST);
  // Let go, it comes back into the stack.
  mi_flush_idle(unit_theap());
  check_equal(bits(page), MI_REMOTE_POOLED);
  check(mi_pool_pop(UNIT_HEAP, mi_class_of(SIZE)) == page);
  release(page);
}

// If this fails, malloc runs in a circle around a page without a free block.
UNIT_TEST_PAGE_SIZES(pool_passes_over_a_full_page) {
  mi_page_t* const page = abandon(3, blocks);
  mi_free(blocks[0]);
  // The guest serves this thread until it is full; it is still in the stack, as nobody's page.
  void* const p = mi_malloc(SIZE);
  check(unit_theap()->current[mi_class_of(SIZE)] == page);
  static void* rest[UNIT_BLOCKS_MAX];
  const size_t count = unit_fill_page(mi_class_of(SIZE), rest);
  void* const next = mi_malloc(SIZE); // comes from another page
  check(mi_pagemap_find(next) != page);
  if (bits(page) != 0) check(mi_pool_pop(UNIT_HEAP, mi_class_of(SIZE)) == NULL);
  check_equal(bits(page), 0); // parked
  check_equal(pool_length(SIZE), 0);
  mi_free(next);
  mi_free(p);
  for (size_t i = 0; i < count; i++) mi_free(rest[i]);
  mi_free(blocks[1]);
  mi_free(blocks[2]);
  mi_collect_all(MI_FORCE);
  unit_check_empty();
}

// If this fails, memory that is completely free is never given back.
UNIT_TEST_PAGE_SIZES(pool_empty_pages_are_given_back) {
  enum { PAGES = 10 };
  for (size_t i = 0; i < PAGES; i++) abandon(2, &blocks[2 * i]);
  for (size_t i = 0; i < PAGES; i++) {
    mi_free(blocks[2 * i]);
    mi_free(blocks[2 * i + 1]);
  }
  mi_collect_all(MI_FORCE);
  unit_check_empty();
}

// If this fails, an abandoned page that others free into is released while it is in the stack.
UNIT_TEST_PAGE_SIZES(pool_keeps_an_emptied_page_until_popped) {
  mi_page_t* const page = abandon(2, blocks);
  mi_free(blocks[0]);
  mi_free(blocks[1]);
  if (mi_atomic_load_relaxed(&page->owner) == MI_OWNER_NONE) return; // went back at once
  check_equal(bits(page), MI_REMOTE_POOLED); // POOL-2
  check(mi_pool_pop(UNIT_HEAP, mi_class_of(SIZE)) == page);
  check_equal(page->count.used, 0);
  release(page);
  unit_check_empty();
}

// If this fails, a heap holds empty pages, or a free of the last block of one takes the longer the
// more pages there are in the pool.
UNIT_TEST_PAGE_SIZES(pool_releases_what_became_empty_in_it) {
  enum { PAGES = 1024 };
  static void* kept[PAGES];
  for (size_t i = 0; i < PAGES; i++) abandon(1, &kept[i]);
  check_equal(pool_length(SIZE), PAGES);
  const int64_t slices = unit_page_of(kept[0])->slice_count;
  check_equal(mi_pool_drain_all(UNIT_HEAP, MI_GENTLE), PAGES * slices);
  unit_option(page_reclaim_on_free, -1); // no guests
  const int64_t pages = mi_state.main.count.pages - PAGES;
  int64_t looked_at = 0;
  for (int64_t i = 0; i < PAGES; i++) { // the deepest first
    const int64_t before = mi_state.main.count.pages - unit_tally(POOLED);
    mi_free(kept[i]);
    const int64_t part = before - (mi_state.main.count.pages - unit_tally(POOLED));
    check(part <= PART);
    looked_at += part;
    const int64_t empty = mi_state.main.count.pages - pages - (PAGES - i - 1);
    const int64_t begun = PAGES / PART; // freed while the drain goes on
    check(empty >= 0 && (empty - begun) * slices <= PAGES * slices / 8 + (int64_t)MI_CHUNK_SLICES);
  }
  check(looked_at <= PAGES * 1024 * slices / (int64_t)MI_CHUNK_SLICES); // not all for each page
  while (mi_pool_go_on(UNIT_HEAP)) continue;
  check((mi_state.main.count.pages - pages) * slices < (int64_t)MI_CHUNK_SLICES);
  mi_collect_all(MI_FORCE);
  unit_check_empty();
}

// Fill the pool with so many pages, of which the deepest become empty.
static void abandon_many(mi_page_t** page, size_t count, size_t empty) {
  unit_option(page_reclaim_on_free, -1); // no guests
  for (size_t i = 0; i < count; i++) page[i] = abandon(1, &blocks[i]);
  for (size_t i = 0; i < empty; i++) mi_free(blocks[i]);
  check_equal(pool_length(SIZE), count);
}

// As if enough had become empty.
static void begin_drain(void) {
  const size_t c = mi_class_of(SIZE);
  mi_atomic_or_relaxed(&UNIT_HEAP->due[c / 64], (uint64_t)1 << c % 64);
}

static void free_blocks(size_t from, size_t to) {
  for (size_t i = from; i < to; i++) mi_free(blocks[i]);
  mi_collect_all(MI_FORCE);
  unit_check_empty();
}

// If this fails, malloc makes pages while a drain has such with free blocks, or a page that a drain
// has not come to is never looked at again, or serves another size.
UNIT_TEST_PAGE_SIZES(pool_rest_of_a_drain_is_found) {
  enum { COUNT = PART + 36 };
  mi_page_t* page[COUNT];
  const size_t c = mi_class_of(SIZE), other = mi_class_of(2 * SIZE);
  abandon_many(page, COUNT, 0);
  begin_drain();
  check(mi_pool_go_on(UNIT_HEAP));
  check_equal(mi_atomic_load_relaxed(&UNIT_HEAP->rest_class), c);
  check_equal(pool_length(SIZE), COUNT);
  check(mi_pool_has(UNIT_HEAP, c) && !mi_pool_has(UNIT_HEAP, other));
  check(mi_pool_pop(UNIT_HEAP, other) == NULL);
  size_t count = 0;
  for (mi_page_t* popped; (popped = mi_pool_pop(UNIT_HEAP, c)) != NULL;) {
    check_equal(popped->size_class, c);
    page[count++] = popped;
    check(mi_pool_has(UNIT_HEAP, c) == (count < COUNT));
  }
  check_equal(count, COUNT);
  for (size_t i = 0; i < COUNT; i++) mi_pool_give_up(page[i]);

  // A drain of all comes to it, too.
  begin_drain();
  check(mi_pool_go_on(UNIT_HEAP));
  const int32_t slices = (int32_t)page[0]->slice_count;
  check_equal(mi_pool_drain_all(UNIT_HEAP, MI_GENTLE), COUNT * slices);
  check_equal(pool_length(SIZE), COUNT);

  // The next class is in the rest by the time that a page is taken out of it.
  begin_drain();
  check(mi_pool_go_on(UNIT_HEAP));
  mi_atomic_store_relaxed(&UNIT_HEAP->rest_class, (uint32_t)other);
  check(mi_pool_pop(UNIT_HEAP, other) == NULL);
  check_equal(pool_length(SIZE), COUNT);
  free_blocks(0, COUNT);
}

// If this fails, what became empty in the pool stays there until more does.
UNIT_TEST_PAGE_SIZES(pool_drain_goes_on_at_a_look) {
  enum { COUNT = 3 * PART };
  mi_page_t* page[COUNT];
  abandon_many(page, COUNT, FEW);
  mi_free(mi_malloc(2 * SIZE));
  const int64_t pages = mi_state.main.count.pages;
  begin_drain();
  for (size_t looks = 1; looks <= 3; looks++) {
    check_equal(mi_state.main.count.pages, pages);
    mi_thread_look(unit_theap(), 0);
  }
  check_equal(mi_state.main.count.pages, pages - FEW); // the third has the deepest
  mi_thread_look(unit_theap(), 0);
  check(!mi_pool_go_on(UNIT_HEAP));
  free_blocks(FEW, COUNT);
}

// If this fails, a free takes long where a system call does.
UNIT_TEST_PAGE_SIZES(pool_drain_ends_after_a_time) {
  mi_page_t* page[FEW];
  unit_option(purge_delay, 0);
  abandon_many(page, FEW, FEW);
  const int64_t pages = mi_state.main.count.pages;
  begin_drain();
  os_fake.on_purge = &os_fake_be_slow;
  check(mi_pool_go_on(UNIT_HEAP));
  check(pages - mi_state.main.count.pages < 8); // of a ms each, but for the first ones
  os_fake.on_purge = NULL;
  while (mi_pool_go_on(UNIT_HEAP)) continue;
  check_equal(pages - mi_state.main.count.pages, FEW);
  free_blocks(FEW, FEW);
}

// If this fails, a page that is emptied and used again in turn is released and made again.
UNIT_TEST_PAGE_SIZES(pool_keeps_what_is_used_again) {
  static void* block[1];
  unit_option(page_reclaim_on_free, -1); // no guests
  abandon(1, block);
  const int64_t made = unit_tally(PAGES_TOTAL);
  for (size_t i = 0; i < 1000; i++) {
    mi_page_t* const page = unit_page_of(block[0]);
    mi_free(block[0]);
    mi_page_t* const again = mi_pool_pop(UNIT_HEAP, mi_class_of(SIZE));
    check(again == page && again->count.used == 0);
    block[0] = again->local_free;
    again->local_free = again->local_free->next;
    again->count.used++;
    mi_pool_give_up(again);
  }
  check_equal(unit_tally(PAGES_TOTAL), made);
  mi_free(block[0]);
  mi_collect_all(MI_FORCE);
  unit_check_empty();
}

// If this fails, a thread that was interrupted in the middle of a pop puts a page back at the head
// that somebody else has.
UNIT_TEST_PAGE_SIZES(pool_head_differs_after_pops) {
  abandon(1, &blocks[0]);
  abandon(1, &blocks[1]);
  uint64_t seen[50];
  for (size_t i = 0; i < 50; i++) {
    seen[i] = mi_atomic_load_relaxed(&pool_of(SIZE)->head);
    for (size_t k = 0; k < i; k++) check(seen[i] != seen[k]);
    // The same page on top again, and the other one below.
    mi_page_t* const a = mi_pool_pop(UNIT_HEAP, mi_class_of(SIZE));
    mi_page_t* const b = mi_pool_pop(UNIT_HEAP, mi_class_of(SIZE));
    mi_pool_give_up(b);
    mi_pool_give_up(a);
  }
}

// If this fails, so it is after a while: 2^24 pops were once 0.2 s of others.
UNIT_TEST_PAGE_SIZES(pool_head_differs_after_very_many_pops) {
  mi_pool_t* const pool = pool_of(SIZE);
  mi_page_t* const page = abandon(1, &blocks[0]);
  const uint64_t before = mi_atomic_load_relaxed(&pool->head);
  check(mi_pool_pop(UNIT_HEAP, mi_class_of(SIZE)) == page);
  mi_pool_give_up(page);
  const uint64_t step = mi_atomic_load_relaxed(&pool->head) - before; // of one pop
  check(step != 0);
  for (size_t log2 = 24; log2 < (MI_IS_TINY ? 29 : 32); log2++) {
    // The same page on top after 2^log2 pops, and a pop that goes on behind its load of the head.
    uint64_t seen = before;
    mi_atomic_store_relaxed(&pool->head, before + (step << log2));
    check(!mi_atomic_cas_strong_acquire(&pool->head, &seen, 0));
    check(mi_pool_pop(UNIT_HEAP, mi_class_of(SIZE)) == page);
    mi_pool_give_up(page);
  }
}

// -- races --

enum { RACE_PAGES = 12, RACE_THREADS = 4, RACE_ROUNDS = 20000 };

static mi_page_t* race_page[RACE_PAGES];
static mi_atomic(uint32_t) race_holder[RACE_PAGES];
static mi_atomic(bool) is_broken;

static size_t race_index(const mi_page_t* page) {
  size_t i = 0;
  while (i < RACE_PAGES && race_page[i] != page) i++;
  return i;
}

static void race(void* arg) {
  const uint32_t self = *(uint32_t*)arg;
  mi_page_t* held[3];
  size_t count = 0;
  uint64_t random = self;
  for (size_t round = 0; round < RACE_ROUNDS; round++) {
    if (random_below(&random, 8) == 0) {
      begin_drain();
      mi_pool_go_on(UNIT_HEAP);
    }
    if (count < 3 && random_below(&random, 2) == 0) {
      mi_page_t* const page = mi_pool_pop(UNIT_HEAP, mi_class_of(SIZE));
      if (page == NULL) continue;
      const size_t i = race_index(page);
      if (i == RACE_PAGES || mi_atomic_swap_acq_rel(&race_holder[i], self) != 0) {
        mi_atomic_store_relaxed(&is_broken, true);
        return;
      }
      held[count++] = page;
    } else if (count > 0) {
      mi_page_t* const page = held[--count];
      if (mi_atomic_swap_acq_rel(&race_holder[race_index(page)], 0) != self) {
        mi_atomic_store_relaxed(&is_broken, true);
      }
      mi_pool_give_up(page);
    }
    if (round % 128 == 0) sched_yield();
  }
  while (count > 0) {
    mi_page_t* const page = held[--count];
    mi_atomic_swap_acq_rel(&race_holder[race_index(page)], 0);
    mi_pool_give_up(page);
  }
}

// If this fails, two threads allocate from one page, or pages vanish from the pool.
UNIT_TEST(pool_gives_a_page_to_one_thread) {
  for (size_t i = 0; i < RACE_PAGES; i++) race_page[i] = abandon(1, &blocks[i]);
  uint32_t id[RACE_THREADS] = {1, 2, 3, 4};
  unit_on_threads(RACE_THREADS, &race, id, sizeof(id[0]));
  check(!mi_atomic_load_relaxed(&is_broken));
  check_equal(pool_length(SIZE), RACE_PAGES);
}

enum { HANDOVERS = 6000 };
static mi_atomic(void*) handed;
static mi_atomic(size_t) taken;

static void free_handed(void* arg) {
  (void)arg;
  for (size_t round = 1; round <= HANDOVERS; round++) {
    void* p;
    for (size_t i = 1; (p = mi_atomic_load_acquire(&handed)) == NULL; i++) {
      if (round % 8 == 0 || i % 1000 == 0) sched_yield(); // the other one may wait for a processor
    }
    mi_atomic_store_relaxed(&handed, NULL);
    mi_free(p); // the page is empty now
    mi_atomic_store_release(&taken, round);
  }
}

static void hand_over(void* arg) {
  (void)arg;
  for (size_t round = 1; round <= HANDOVERS; round++) {
    void* p;
    mi_page_t* page = unit_make_page(mi_class_of(MI_CLASS_MAX / 16), 1, &p);
    mi_pool_give_up(page);
    mi_atomic_store_release(&handed, p);
    for (size_t i = 0; i < round % 100; i++) (void)mi_atomic_load_acquire(&taken);
    page = mi_pool_pop(UNIT_HEAP, mi_class_of(MI_CLASS_MAX / 16));
    if (page != NULL) mi_pool_give_up(page);
    while (mi_atomic_load_acquire(&taken) != round) sched_yield();
  }
}

static void hand_over_or_free(void* arg) {
  if (*(size_t*)arg == 0) {
    hand_over(NULL);
  } else {
    free_handed(NULL);
  }
}

// If this fails, a page whose last block is freed while somebody takes it out of the pool is lost.
UNIT_TEST(pool_loses_no_page_that_empties) {
  size_t role[2] = {0, 1};
  unit_on_threads(2, &hand_over_or_free, role, sizeof(role[0]));
  mi_collect_all(MI_FORCE);
  unit_check_empty();
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(pool_is_last_in_first_out),
      cmocka_unit_test(pool_drops_a_claimed_page),
      cmocka_unit_test(pool_passes_over_a_full_page),
      cmocka_unit_test(pool_empty_pages_are_given_back),
      cmocka_unit_test(pool_keeps_an_emptied_page_until_popped),
      cmocka_unit_test(pool_releases_what_became_empty_in_it),
      cmocka_unit_test(pool_rest_of_a_drain_is_found),
      cmocka_unit_test(pool_drain_goes_on_at_a_look),
      cmocka_unit_test(pool_drain_ends_after_a_time),
      cmocka_unit_test(pool_keeps_what_is_used_again),
      cmocka_unit_test(pool_head_differs_after_pops),
      cmocka_unit_test(pool_head_differs_after_very_many_pops),
      cmocka_unit_test(pool_gives_a_page_to_one_thread),
      cmocka_unit_test(pool_loses_no_page_that_empties),
  };
  return cmocka_run_group_tests_name("pool", tests, NULL, NULL);
}
