// SPDX-License-Identifier: MIT
// remote.c - tests of pages/remote.c: each transition of the ownership word, and both ends of it
// at once.
#include "unit.h"

#include <sched.h>

#include "core/pages/page.h"
#include "core/pages/remote.h"
#include "core/threads/theap.h"

#define SIZE 256
#define CLASS mi_class_of(SIZE)

static void* blocks[UNIT_BLOCKS_MAX];
static puppet_t other;

static uintptr_t word(mi_page_t* page) { return mi_atomic_load_relaxed(&page->thread_free); }
static uintptr_t owner(mi_page_t* page) { return mi_atomic_load_relaxed(&page->owner); }

static void get_id(void* id) { *(uintptr_t*)id = mi_tls_thread_id(); }

static uintptr_t puppet_id(puppet_t* puppet) {
  uintptr_t id = 0;
  puppet_do(puppet, &get_id, &id);
  return id;
}

// A page of this thread that is full, so that it is parked. Returns the number of its blocks.
static size_t park_page(void) {
  const size_t count = unit_fill_page(CLASS, blocks);
  blocks[count] = mi_malloc(SIZE); // opens another page
  mi_page_t* const page = unit_page_of(blocks[0]);
  check_equal(word(page), 0);
  check_equal(owner(page), mi_tls_thread_id() | MI_OWNER_PARKED);
  return count;
}

static void free_all(size_t count) {
  for (size_t i = 0; i < count; i++) mi_free(blocks[i]);
  mi_collect_all(MI_FORCE);
}

// If this fails, a block freed by another thread is lost, or counted while its owner works.
UNIT_TEST_PAGE_SIZES(remote_free_pushes_onto_an_owned_page) {
  puppet_start(&other);
  for (size_t i = 0; i < 3; i++) blocks[i] = mi_malloc(SIZE);
  mi_page_t* const page = unit_page_of(blocks[0]);
  const uint32_t used = page->count.used;
  puppet_free(&other, blocks[0]);
  check_equal(word(page), (uintptr_t)blocks[0] | MI_REMOTE_OWNED);
  puppet_free(&other, blocks[1]);
  check_equal(word(page), (uintptr_t)blocks[1] | MI_REMOTE_OWNED);
  check(((mi_block_t*)blocks[1])->next == blocks[0]);
  check(page->count.used == used && page->local_free == NULL);
  check_equal(owner(page), mi_tls_thread_id());
  // The owner takes the whole list and keeps the page.
  mi_block_t* const list = mi_remote_take(page);
  check(list == blocks[1] && list->next == blocks[0] && list->next->next == NULL);
  check_equal(word(page), MI_REMOTE_OWNED);
  check(mi_remote_take(page) == NULL);
  for (mi_block_t *b = list, *next; b != NULL; b = next) {
    next = b->next;
    mi_free(b);
  }
  mi_free(blocks[2]);
  puppet_end(&other);
}

// If this fails, a program with one thread never gets back what it frees into full pages.
UNIT_TEST_PAGE_SIZES(remote_own_free_wakes_a_parked_page) {
  for (size_t round = 0; round < 2; round++) {
    os_fake.is_single_threaded = round == 1;
    const size_t count = park_page();
    mi_page_t* const page = unit_page_of(blocks[0]);
    const size_t pages = unit_theap()->page_count;
    mi_free(blocks[3]);
    check_equal(word(page), MI_REMOTE_OWNED);
    check_equal(owner(page), mi_tls_thread_id());
    check_equal(page->place, MI_PLACE_QUEUE);
    check(unit_theap()->queue[CLASS].last == page);
    check_equal(unit_theap()->page_count, pages + 1);
    check(page->local_free == blocks[3] && mi_part_used(page) == count - 1);
    blocks[3] = blocks[count];
    free_all(count);
    unit_check_empty();
  }
}

// If this fails, a busy thread beside threads that sleep pays several times as much for each block,
// or hundreds of busy threads with small heaps keep pages for each class.
UNIT_TEST_PAGE_SIZES(remote_own_free_in_a_crowd_depends_on_the_heap) {
  mi_counters_t* const count = &mi_state.main.count;
  mi_theap_t* const theap = unit_theap();
  enum { MANY_AND_LITTLE, MANY, ONE, ROUNDS };
  for (size_t round = 0; round < ROUNDS; round++) {
    const size_t block_count = park_page();
    mi_page_t* const page = unit_page_of(blocks[0]);
    const int64_t threads = MI_CROWD_THREADS + 1; // one of them is here already
    const int64_t busy = round == ONE ? 1 : threads;
    // A slice for each class and busy thread besides one; in the last round there is hardly any.
    const int64_t little = (int64_t)(MI_CLASS_COUNT * MI_SLICE_SIZE) * (busy - 1);
    const int64_t beyond = round == MANY ? MI_SLICE_SIZE : 0;
    const int64_t more = round == ONE ? 0 : little + beyond - count->committed;
    mi_count_add(&count->threads, threads - 1);
    mi_count_add(&count->busy_threads, busy);
    mi_count_add(&count->committed, more);
    theap->is_busy = true;
    mi_free(blocks[3]);
    mi_count_add(&count->threads, 1 - threads);
    mi_count_add(&count->busy_threads, -busy);
    mi_count_add(&count->committed, -more);
    theap->is_busy = false;
    check_equal(owner(page), mi_tls_thread_id());
    check_equal(page->place, round == MANY_AND_LITTLE ? MI_PLACE_GUEST : MI_PLACE_QUEUE);
    blocks[3] = blocks[block_count];
    free_all(block_count);
    unit_check_empty();
  }
}

// If this fails, full pages whose blocks another thread frees are lost.
UNIT_TEST_PAGE_SIZES(remote_other_free_makes_a_guest) {
  puppet_start(&other);
  const size_t count = park_page();
  mi_page_t* const page = unit_page_of(blocks[0]);
  mi_free(puppet_malloc(&other, 8)); // it has a theap
  puppet_free(&other, blocks[0]);
  check_equal(word(page), MI_REMOTE_OWNED);
  check_equal(owner(page), puppet_id(&other));
  check_equal(page->place, MI_PLACE_GUEST);
  check_equal(page->count.used, count - 1);
  // Now this thread's free is the remote one.
  mi_free(blocks[1]);
  check_equal(word(page), (uintptr_t)blocks[1] | MI_REMOTE_OWNED);
  // The guest serves the thread that has it.
  check(puppet_malloc(&other, SIZE) == blocks[0]);
  puppet_free(&other, blocks[0]);
  for (size_t i = 2; i < count; i++) puppet_free(&other, blocks[i]);
  mi_free(blocks[count]);
  puppet_end(&other);
  mi_collect_all(MI_FORCE);
  unit_check_empty();
}

static void check_no_theap(void* page) {
  check(mi_self_theap() == &mi_theap_empty);
  mi_free(page);
  check(mi_self_theap() == &mi_theap_empty);
}

// If this fails, a thread that only frees gets allocator state, or its frees are lost.
UNIT_TEST_PAGE_SIZES(remote_free_without_a_theap) {
  puppet_start(&other);
  const size_t count = park_page();
  mi_page_t* const page = unit_page_of(blocks[0]);
  const int64_t threads = mi_state.main.count.threads_total;
  puppet_do(&other, &check_no_theap, blocks[0]);
  check_equal(word(page), 0); // not owned, and too full for the pool
  check_equal(owner(page), MI_OWNER_SHARED);
  check_equal(page->count.used, count - 1);
  size_t freed = 1;
  while ((word(page) & MI_REMOTE_POOLED) == 0 && freed < count) {
    puppet_do(&other, &check_no_theap, blocks[freed++]);
    check(page->count.used == count - freed);
  }
  check_equal(freed, (count + 7) / 8); // an eighth of the page makes it worth finding
  check_equal(unit_pool_length(&mi_state.main.heap_main, CLASS), 1);
  check_equal(mi_state.main.count.threads_total, threads);
  for (; freed < count; freed++) puppet_do(&other, &check_no_theap, blocks[freed]);
  puppet_end(&other);
}

// If this fails, an empty page of nobody stays in memory.
UNIT_TEST_PAGE_SIZES(remote_last_free_releases_the_page) {
  mi_page_t* const page = unit_make_page(CLASS, 1, blocks);
  // Nobody's, and not in the pool.
  mi_atomic_store_relaxed(&page->owner, MI_OWNER_SHARED);
  mi_atomic_store_relaxed(&page->thread_free, 0);
  const size_t free_slices = unit_free_slices();
  mi_free(blocks[0]);
  check_equal(unit_free_slices(), free_slices + page->slice_count);
  check(mi_pagemap_find(blocks[0]) == NULL);
  unit_check_empty();
}

// If this fails, a page that is not full any more is forgotten.
UNIT_TEST_PAGE_SIZES(remote_park_fails_when_blocks_arrive) {
  puppet_start(&other);
  const size_t count = unit_page_blocks(CLASS);
  mi_page_t* const page = unit_make_page(CLASS, count, blocks);
  puppet_free(&other, blocks[0]);
  check(!mi_life_park(page, mi_tls_thread_id()));
  check_equal(word(page), (uintptr_t)blocks[0] | MI_REMOTE_OWNED);
  check_equal(owner(page), mi_tls_thread_id());
  mi_page_collect(page);
  mi_pool_give_up(page);
  puppet_end(&other);
  free_all(0);
  for (size_t i = 1; i < count; i++) mi_free(blocks[i]);
}

// If this fails, a free of an address inside a block puts that address onto the free list, and two
// blocks overlap later.
UNIT_TEST_PAGE_SIZES(remote_park_that_fails_keeps_the_slow_flag) {
  puppet_start(&other);
  mi_page_t* const page = unit_make_page(CLASS, unit_page_blocks(CLASS), blocks);
  mi_atomic_store_relaxed(&page->has_interior, true);
  mi_atomic_store_relaxed(&page->owner, mi_tls_thread_id() | MI_OWNER_SLOW);
  puppet_free(&other, blocks[0]);
  check(!mi_life_park(page, mi_tls_thread_id()));
  check_equal(owner(page), mi_tls_thread_id() | MI_OWNER_SLOW);
  mi_page_collect(page);
  // An address inside a block of the page, as aligned allocation hands out.
  mi_free((uint8_t*)blocks[1] + 64);
  check(page->local_free == blocks[1] && mi_page_is_valid(page));
  mi_pool_give_up(page);
  puppet_end(&other);
}

// If this fails, freeing a block twice on another thread makes a list that runs in a circle.
UNIT_TEST_PAGE_SIZES(remote_double_free_is_reported) {
  puppet_start(&other);
  blocks[0] = mi_malloc(SIZE);
  mi_page_t* const page = unit_page_of(blocks[0]);
  puppet_free(&other, blocks[0]);
  const uintptr_t before = word(page);
  puppet_free(&other, blocks[0]);
  check_equal(hooks_fake.count[MI_ERROR_DOUBLE_FREE], 1);
  check(hooks_fake.report.p == blocks[0] && hooks_fake.report.size == SIZE);
  check_equal(word(page), before);
  puppet_end(&other);
}

// If this fails, a thread keeps pages of others for ever.
UNIT_TEST_PAGE_SIZES(remote_guests_are_bounded) {
  puppet_start(&other);
  mi_free(puppet_malloc(&other, 8));
  mi_page_t* page[MI_GUEST_COUNT + 2];
  for (size_t i = 0; i < MI_GUEST_COUNT + 2; i++) {
    page[i] = unit_make_page(CLASS, unit_page_blocks(CLASS), blocks);
    mi_pool_give_up(page[i]);
    check_equal(word(page[i]), 0);
    puppet_free(&other, blocks[0]);
    puppet_free(&other, blocks[1]);
    check_equal(page[i]->place, MI_PLACE_GUEST);
    if (i >= MI_GUEST_COUNT) {
      mi_page_t* const oldest = page[i - MI_GUEST_COUNT];
      check_equal(oldest->place, MI_PLACE_NONE);
      check_equal(owner(oldest), MI_OWNER_SHARED);
      check_equal(word(oldest) & MI_REMOTE_OWNED, 0);
    }
  }
  unit_check_valid();
  puppet_end(&other);
}

// If this fails, the hint in the owner word lets a thread write to a page it does not own.
UNIT_TEST_PAGE_SIZES(remote_give_up_leaves_no_trace_of_the_owner) {
  mi_page_t* const page = unit_make_page(CLASS, 3, blocks);
  mi_pool_give_up(page);
  check_equal(owner(page), MI_OWNER_SHARED);
  check(page->theap == NULL);
  check_equal(word(page), MI_REMOTE_POOLED);
  check_equal(page->place, MI_PLACE_NONE);
}

// -- stress --

enum { RING = 256, PASSES = 60000 };

typedef struct ring_s {
  mi_atomic(void*) slot[RING];
} ring_t;

static ring_t ring;
static mi_atomic(bool) is_broken;

static size_t size_of_pass(size_t i) {
  static const size_t sizes[] = {16, 64, 200, 1000, 24, 3000, 16, 80};
  return sizes[i / 500 % 8] + i % 7;
}

static void produce(void* arg) {
  (void)arg;
  for (size_t i = 0; i < PASSES; i++) {
    const size_t size = size_of_pass(i);
    size_t* const p = (size_t*)mi_malloc(size);
    if (p == NULL) break;
    p[0] = i;
    if (size >= 16) p[1] = ~i;
    while (mi_atomic_load_acquire(&ring.slot[i % RING]) != NULL) sched_yield();
    mi_atomic_store_release(&ring.slot[i % RING], (void*)p);
  }
}

static void consume(void* arg) {
  (void)arg;
  void* kept[64] = {NULL};
  for (size_t i = 0; i < PASSES; i++) {
    size_t* p;
    while ((p = (size_t*)mi_atomic_load_acquire(&ring.slot[i % RING])) == NULL) sched_yield();
    mi_atomic_store_release(&ring.slot[i % RING], NULL);
    if (p[0] != i || p[1] != ~i) mi_atomic_store_relaxed(&is_broken, true);
    // Some blocks stay alive, some threads allocate themselves.
    void** const slot = &kept[i % 64];
    mi_free(i % 5 == 0 ? *slot : p);
    if (i % 5 == 0) *slot = p;
    if (i % 3 == 0) mi_free(mi_malloc(size_of_pass(i)));
  }
  for (size_t i = 0; i < 64; i++) mi_free(kept[i]);
}

static void produce_or_consume(void* arg) {
  if (*(size_t*)arg == 0) {
    produce(NULL);
  } else {
    consume(NULL);
  }
}

// If this fails, blocks that one thread allocates and another frees are lost or handed out twice.
UNIT_TEST(remote_producer_and_consumer) {
  os_fake.has_thread_watch = true;
  size_t role[2] = {0, 1};
  unit_on_threads(2, &produce_or_consume, role, sizeof(role[0]));
  check(!mi_atomic_load_relaxed(&is_broken));
  check_equal(hooks_fake.error_count, 0);
  unit_check_valid();
  check(os_fake_resident_all() < 8 * MI_MIB);
  mi_collect_all(MI_FORCE);
  unit_check_empty();
}

enum { SLOTS = 512, SWAPS = 60000 };
static mi_atomic(size_t*) shared[SLOTS];

static void swap_blocks(void* arg) {
  uint64_t random = *(size_t*)arg + 10;
  for (size_t i = 0; i < SWAPS; i++) {
    const size_t size = 16 + random_below(&random, i % 100 == 0 ? 20000 : 600);
    size_t* p = (size_t*)mi_malloc(size);
    if (p == NULL) break;
    p[0] = size;
    p[size / 8 - 1] = size;
    p = mi_atomic_swap_acq_rel(&shared[random_below(&random, SLOTS)], p);
    if (p == NULL) continue;
    if (p[p[0] / 8 - 1] != p[0]) mi_atomic_store_relaxed(&is_broken, true);
    p[p[0] / 8 - 1] = 0;
    mi_free(p);
    if (i % 5000 == 0) mi_collect_all(i % 10000 == 0 ? MI_FORCE : MI_GENTLE);
  }
}

// If this fails, threads that pass blocks around corrupt each other's memory.
UNIT_TEST(remote_threads_swap_blocks) {
  os_fake.has_thread_watch = true;
  size_t id[4] = {1, 2, 3, 4};
  unit_on_threads(4, &swap_blocks, id, sizeof(id[0]));
  check(!mi_atomic_load_relaxed(&is_broken));
  check_equal(hooks_fake.error_count, 0);
  unit_check_valid();
  for (size_t i = 0; i < SLOTS; i++) mi_free(mi_atomic_load_relaxed(&shared[i]));
  unit_check_valid();
  mi_collect_all(MI_FORCE);
  unit_check_empty();
}

// One page with as few blocks as possible, so that it changes hands all the time.
static mi_atomic(void*) hot[6];

static void churn(void* arg) {
  uint64_t random = *(size_t*)arg + 20;
  for (size_t i = 0; i < 40000; i++) {
    uint8_t* p = (uint8_t*)mi_malloc(MI_CLASS_MAX);
    if (p == NULL) continue;
    p[0] = 1;
    p = (uint8_t*)mi_atomic_swap_acq_rel(&hot[random_below(&random, 6)], (void*)p);
    if (p == NULL) continue;
    if (p[0] != 1) mi_atomic_store_relaxed(&is_broken, true);
    p[0] = 0;
    mi_free(p);
  }
}

// If this fails, a page that empties while others free into it is used after its release.
UNIT_TEST(remote_pages_change_hands) {
  os_fake.has_thread_watch = true;
  size_t id[3] = {1, 2, 3};
  unit_on_threads(3, &churn, id, sizeof(id[0]));
  check(!mi_atomic_load_relaxed(&is_broken));
  for (size_t i = 0; i < 6; i++) mi_free(mi_atomic_load_relaxed(&hot[i]));
  unit_check_valid();
  mi_collect_all(MI_FORCE);
  unit_check_empty();
}

// -- parcels --

#define PARCEL_SIZE ((size_t)32)
#define PARCEL_COUNT (MI_SLICE_SIZE / 2 / PARCEL_SIZE) // of a full parcel

static mi_page_t* parcel_page;
static void* parcel_blocks[PARCEL_COUNT + 1];

static void free_parcel_blocks(void* arg) {
  const size_t count = *(size_t*)arg;
  for (size_t i = 0; i < count; i++) mi_free(parcel_blocks[i]);
}

static size_t list_length(mi_page_t* page) {
  size_t count = 0;
  for (mi_block_t* b = (mi_block_t*)(word(page) & ~MI_REMOTE_BITS); b != NULL; b = b->next) count++;
  return count;
}

// Blocks of one page that this thread owns.
static void make_parcel_blocks(void) {
  os_fake.has_thread_watch = true;
  parcel_blocks[0] = mi_malloc(PARCEL_SIZE);
  parcel_page = unit_page_of(parcel_blocks[0]);
  size_t count = 1;
  while (count <= PARCEL_COUNT) {
    parcel_blocks[count] = mi_malloc(PARCEL_SIZE);
    if (unit_page_of(parcel_blocks[count]) == parcel_page) count++;
  }
}

static void end_parcel_blocks(size_t first) {
  for (size_t i = first; i <= PARCEL_COUNT; i++) mi_free(parcel_blocks[i]);
}

// If this fails, each free into another thread's page waits for a cache line, or a thread holds any
// number of blocks back.
UNIT_TEST(remote_parcels_are_pushed_at_once) {
  make_parcel_blocks();
  puppet_t puppet;
  puppet_start(&puppet);
  size_t count = PARCEL_COUNT - 1;
  puppet_do(&puppet, &free_parcel_blocks, &count);
  check_equal(list_length(parcel_page), 0);
  puppet_free(&puppet, parcel_blocks[PARCEL_COUNT - 1]);
  check_equal(list_length(parcel_page), PARCEL_COUNT);
  puppet_end(&puppet);
  check_equal(list_length(parcel_page), PARCEL_COUNT);
  end_parcel_blocks(PARCEL_COUNT);
}

// If this fails, what a thread freed last is lost when it ends; also one that never allocated.
UNIT_TEST(remote_parcels_are_delivered_at_the_end) {
  make_parcel_blocks();
  size_t count = 5;
  unit_on_thread(&free_parcel_blocks, &count);
  check_equal(list_length(parcel_page), 5);
  unit_check_valid();
  end_parcel_blocks(5);
}

static void free_and_collect(void* arg) {
  free_parcel_blocks(arg);
  mi_collect_all(MI_GENTLE);
}

// If this fails, a thread that collects before it sleeps still holds memory back.
UNIT_TEST(remote_parcels_are_delivered_by_a_collect) {
  make_parcel_blocks();
  puppet_t puppet;
  puppet_start(&puppet);
  size_t count = 5;
  puppet_do(&puppet, &free_and_collect, &count);
  check_equal(list_length(parcel_page), 5);
  puppet_end(&puppet);
  end_parcel_blocks(5);
}

static void free_twice(void* arg) {
  mi_free(arg);
  mi_free(arg);
}

// If this fails, a double free corrupts the list instead of being reported.
UNIT_TEST(remote_parcels_notice_a_double_free) {
  make_parcel_blocks();
  unit_on_thread(&free_twice, parcel_blocks[0]);
  check_equal(hooks_fake.count[MI_ERROR_DOUBLE_FREE], 1);
  check_equal(list_length(parcel_page), 1);
  for (size_t i = 1; i < 64; i++) mi_free(parcel_blocks[i]);
}

static void* large_blocks[2];
static void free_large(void* arg) {
  (void)arg;
  mi_free(large_blocks[0]);
}

// If this fails, larger blocks wait with a thread that sleeps.
UNIT_TEST(remote_parcels_hold_small_blocks_only) {
  os_fake.has_thread_watch = true;
  large_blocks[0] = mi_malloc(MI_SLICE_SIZE / 16);
  large_blocks[1] = mi_malloc(MI_SLICE_SIZE / 16);
  puppet_t puppet;
  puppet_start(&puppet);
  puppet_do(&puppet, &free_large, NULL);
  check_equal(list_length(unit_page_of(large_blocks[1])), 1);
  puppet_end(&puppet);
  mi_free(large_blocks[1]);
}

// If this fails, a page that was full stays out of use after the frees of its own thread.
UNIT_TEST(remote_parcels_leave_own_pages_alone) {
  os_fake.has_thread_watch = true;
  static void* blocks[UNIT_BLOCKS_MAX];
  const size_t count = unit_fill_page(mi_class_of(64), blocks);
  void* const next = mi_malloc(64); // parks the full page
  mi_page_t* const page = unit_page_of(blocks[0]);
  check(unit_page_of(next) != page && (word(page) & MI_REMOTE_OWNED) == 0);
  mi_free(blocks[0]);
  check_equal(mi_atomic_load_relaxed(&page->owner), mi_tls_thread_id());
  check_equal(page->place, MI_PLACE_QUEUE);
  for (size_t i = 1; i < count; i++) mi_free(blocks[i]);
  mi_free(next);
}

// If this fails, a page that is emptied by a parcel is never given back.
UNIT_TEST(remote_parcel_empties_a_page) {
  os_fake.has_thread_watch = true;
  mi_page_t* const page = unit_make_page(mi_class_of(32), 10, parcel_blocks);
  page->local_free = NULL; // as if all others were in use
  page->count.used = mi_page_capacity(page);
  check(mi_life_park(page, mi_tls_thread_id()));
  size_t count = 10;
  unit_on_thread(&free_parcel_blocks, &count);
  check_equal(page->count.used, mi_page_capacity(page) - 10);
  check_equal(word(page) & MI_REMOTE_OWNED, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(remote_parcels_are_pushed_at_once),
      cmocka_unit_test(remote_parcels_are_delivered_at_the_end),
      cmocka_unit_test(remote_parcels_are_delivered_by_a_collect),
      cmocka_unit_test(remote_parcels_notice_a_double_free),
      cmocka_unit_test(remote_parcels_hold_small_blocks_only),
      cmocka_unit_test(remote_parcels_leave_own_pages_alone),
      cmocka_unit_test(remote_parcel_empties_a_page),
      cmocka_unit_test(remote_free_pushes_onto_an_owned_page),
      cmocka_unit_test(remote_own_free_wakes_a_parked_page),
      cmocka_unit_test(remote_own_free_in_a_crowd_depends_on_the_heap),
      cmocka_unit_test(remote_other_free_makes_a_guest),
      cmocka_unit_test(remote_free_without_a_theap),
      cmocka_unit_test(remote_last_free_releases_the_page),
      cmocka_unit_test(remote_park_fails_when_blocks_arrive),
      cmocka_unit_test(remote_park_that_fails_keeps_the_slow_flag),
      cmocka_unit_test(remote_double_free_is_reported),
      cmocka_unit_test(remote_guests_are_bounded),
      cmocka_unit_test(remote_give_up_leaves_no_trace_of_the_owner),
      cmocka_unit_test(remote_producer_and_consumer),
      cmocka_unit_test(remote_threads_swap_blocks),
      cmocka_unit_test(remote_pages_change_hands),
  };
  return cmocka_run_group_tests_name("remote", tests, NULL, NULL);
}
