// SPDX-License-Identifier: MIT
// heap.c - tests of heaps/heap.c: HEAP-1 to HEAP-5, and of what thread.c keeps for heaps
// (THREAD-4).
#include "unit.h"

#include <sched.h>

#include "core/arenas/arena.h"
#include "core/heaps/heap.h"
#include "core/pages/page.h"
#include "core/pages/pool.h"
#include "core/pages/remote.h"
#include "core/threads/theap.h"
#include "core/threads/thread.h"
#include "core/arenas/slices.h"

#define SIZE 256
#define SMALL 32 // may be in parcels
#define CLASS mi_class_of(SIZE)
#define LARGE (MI_CLASS_MAX * 2)

static mi_heap_t* make_heap(void) {
  mi_process_setup();
  mi_heap_t* const heap = mi_heap_make(&mi_state.main, NULL);
  check(heap != NULL);
  return heap;
}

static mi_heap_t* heap_of(const void* p) { return mi_atomic_load_relaxed(&unit_page_of(p)->heap); }

static void end(mi_heap_t* heap, bool is_destroyed) {
  if (is_destroyed) {
    mi_heap_end_by_destroy(heap);
  } else {
    mi_heap_end_by_delete(heap);
  }
}

typedef struct ending_s {
  mi_heap_t* heap;
  bool is_destroyed;
} ending_t;

static void run_end(void* arg) {
  const ending_t* const ending = (const ending_t*)arg;
  end(ending->heap, ending->is_destroyed);
}

static void end_on_thread(mi_heap_t* heap, bool is_destroyed) {
  ending_t ending = {heap, is_destroyed};
  unit_on_thread(&run_end, &ending);
}

static size_t inside(mi_heap_t* heap) { return mi_atomic_load_relaxed(&heap->inside); }

static void check_all_given_back(void) {
  unit_check_valid();
  mi_collect_all(MI_FORCE);
  unit_check_valid();
  unit_check_empty();
  check_equal(hooks_fake.error_count, 0);
}

// -- a heap with a page in every place --

enum { WORLD_MAX = 6000, KEPT_EVERY = 7 };

typedef struct world_s {
  mi_heap_t* heap;
  puppet_t other; // a thread that lives, and has a theap in the heap
  void* p[WORLD_MAX];
  size_t count;
} world_t;

static world_t world;

static void keep(void* p) {
  check(p != NULL && world.count < WORLD_MAX && heap_of(p) == world.heap);
  unit_fill(p, SIZE, world.count);
  world.p[world.count++] = p;
}

static void drop(size_t i) {
  check(world.p[i] != NULL && unit_is_filled(world.p[i], SIZE, i));
  mi_free(world.p[i]);
  world.p[i] = NULL;
}

// Two full pages, and a third one that is current.
static void fill_pages(void* arg) {
  (void)arg;
  const size_t count = unit_page_blocks(CLASS) * 2 + 1;
  for (size_t i = 0; i < count; i++) keep(mi_heap_malloc(world.heap, SIZE));
}

static void drop_with_gaps(void* arg) {
  const size_t first = *(size_t*)arg;
  for (size_t i = first; i < world.count; i += KEPT_EVERY) drop(i);
}

static void make_world(void) {
  world.heap = make_heap();
  puppet_start(&world.other);
  size_t first = 0;
  fill_pages(NULL);
  drop_with_gaps(&first); // queued here
  fill_pages(NULL); // parked here
  first = world.count;
  puppet_do(&world.other, &fill_pages, NULL);
  puppet_do(&world.other, &drop_with_gaps, &first); // queued there
  puppet_do(&world.other, &fill_pages, NULL); // parked there
  first = world.count;
  unit_on_thread(&fill_pages, NULL);
  drop_with_gaps(&first); // pooled
  check(unit_pool_length(world.heap, CLASS) > 1);
  for (size_t i = 0; i < 3; i++) keep(mi_heap_malloc(world.heap, LARGE + i * MI_SLICE_SIZE));
  unit_option(arena_max_object_size, 1);
  keep(mi_heap_malloc(world.heap, LARGE));
  check_equal(unit_page_of(world.p[world.count - 1])->backing, MI_BACKING_DIRECT);
  unit_option(arena_max_object_size, MI_ARENA_RESERVE_KIB / 2);
  unit_check_valid();
}

// If this fails, deleting a heap loses objects that are in use, or their memory later.
static void delete_world(bool is_elsewhere) {
  make_world();
  if (is_elsewhere) {
    end_on_thread(world.heap, false);
  } else {
    end(world.heap, false);
  }
  unit_check_valid();
  // Nothing waits for the next heap: the main one has it all.
  for (size_t c = 0; c < MI_CLASS_COUNT; c++) {
    check_equal(unit_pool_length(world.heap, c), 0);
  }
  for (size_t i = 0; i < world.count; i++) {
    if (world.p[i] == NULL) continue;
    check(unit_is_filled(world.p[i], SIZE, i));
    check(heap_of(world.p[i]) == UNIT_HEAP);
  }
  // Some by the one thread, some by the other.
  for (size_t i = 0; i < world.count; i++) {
    if (world.p[i] == NULL) continue;
    if (i % 3 == 0) puppet_free(&world.other, world.p[i]);
    if (i % 3 != 0) mi_free(world.p[i]);
  }
  unit_check_valid();
  puppet_end(&world.other);
  mi_thread_leave();
  check_all_given_back();
}

UNIT_TEST_PAGE_SIZES(heap_delete_moves_every_page) { delete_world(false); }

// If this fails, the same happens to objects of a heap that another thread deletes.
UNIT_TEST_PAGE_SIZES(heap_delete_by_another_thread) { delete_world(true); }

// If this fails, memory of a destroyed heap is lost, or a block of it is handed out while another
// heap has it.
static void destroy_world(bool is_elsewhere) {
  mi_free(mi_malloc(1));
  const size_t besides = os_fake.mapped - (size_t)mi_state.main.count.reserved; // arenas
  make_world();
  const size_t in_use = mi_state.main.count.pages;
  check(in_use > 8);
  if (is_elsewhere) {
    end_on_thread(world.heap, true);
  } else {
    end(world.heap, true);
  }
  unit_check_valid();
  check(mi_state.main.count.pages < 8 && mi_state.main.count.large == 0);
  check(mi_pagemap_find(world.p[world.count - 1]) == NULL);
  // What is allocated now, here and there, is not in two places.
  world.heap = make_heap();
  world.count = 0;
  fill_pages(NULL);
  puppet_do(&world.other, &fill_pages, NULL);
  unit_check_valid();
  for (size_t i = 0; i < world.count; i++) drop(i);
  puppet_end(&world.other);
  mi_thread_leave();
  end(world.heap, true);
  check_all_given_back();
  // The mapping of its own is gone.
  check(os_fake.mapped - (size_t)mi_state.main.count.reserved <= besides + 4 * MI_MIB);
}

UNIT_TEST_PAGE_SIZES(heap_destroy_takes_every_page) { destroy_world(false); }

UNIT_TEST_PAGE_SIZES(heap_destroy_by_another_thread) { destroy_world(true); }

// If this fails, a page of a heap that is destroyed stays with a thread that freed into it
// (HEAP-4).
UNIT_TEST_PAGE_SIZES(heap_has_no_guests_and_no_parcels) {
  os_fake.has_thread_watch = true;
  mi_heap_t* const heap = make_heap();
  mi_free(mi_malloc(SIZE));
  puppet_t other;
  puppet_start(&other);
  const size_t count = unit_page_blocks(mi_class_of(SMALL)) + 1;
  static void* p[UNIT_BLOCKS_MAX];
  for (size_t i = 0; i < count; i++) p[i] = puppet_heap_malloc(&other, heap, SMALL);
  mi_page_t* const parked = unit_page_of(p[0]);
  mi_free(p[0]);
  check_equal(parked->place, MI_PLACE_NONE);
  check_equal(mi_atomic_load_relaxed(&parked->thread_free) & MI_REMOTE_OWNED, 0);
  mi_page_t* const current = unit_page_of(p[count - 1]);
  check(current != parked);
  mi_free(p[count - 1]);
  check(mi_atomic_load_relaxed(&current->thread_free) > MI_REMOTE_BITS); // it is there already
  end(heap, true);
  puppet_end(&other);
  check_all_given_back();
}

// -- who is inside --

// A page of the heap that this thread owns, in no place, with one block in use.
static mi_page_t* own_page(mi_heap_t* heap, void** block) {
  return unit_make_page_in(mi_enter_theap(heap), CLASS, 1, block);
}

// If this fails, a free that was interrupted puts a page into a heap that somebody else has by now.
UNIT_TEST_PAGE_SIZES(heap_is_used_again_when_nobody_is_inside) {
  mi_heap_t* const heap = make_heap();
  void* block;
  mi_page_t* const page = own_page(heap, &block);
  check(mi_inside_enter(page) == heap);
  check_equal(inside(heap), 1);
  end(heap, false);
  mi_heap_t* const second = make_heap();
  check(second != heap && second->slot != heap->slot); // HEAP-3
  // The free goes on: mi_pool_give_up, after it has entered.
  mi_atomic_store_relaxed(&page->owner, MI_OWNER_SHARED);
  page->theap = NULL;
  mi_atomic_store_release(&page->thread_free, MI_REMOTE_POOLED);
  mi_pool_push(heap, CLASS, page);
  mi_inside_leave(heap);
  check_equal(inside(heap), 0);
  unit_check_valid();
  mi_heap_t* const third = make_heap();
  check(third == heap);
  check_equal(unit_pool_length(heap, CLASS), 0);
  check_equal(unit_pool_length(UNIT_HEAP, CLASS), 1);
  unit_check_valid();
  // The main heap has the page: it is used again there.
  check(mi_pagemap_find(mi_malloc(SIZE)) == page);
  mi_free(block);
  end(second, true);
  end(third, true);
  mi_thread_leave();
  unit_check_valid();
}

// If this fails, such a page is not found before a heap is made: memory that is not given back.
UNIT_TEST_PAGE_SIZES(heap_strays_are_found_by_a_collect) {
  mi_heap_t* const heap = make_heap();
  void* block;
  mi_page_t* const page = own_page(heap, &block);
  mi_inside_enter(page);
  end(heap, false);
  mi_atomic_store_relaxed(&page->owner, MI_OWNER_SHARED);
  page->theap = NULL;
  mi_atomic_store_release(&page->thread_free, MI_REMOTE_POOLED);
  mi_pool_push(heap, CLASS, page);
  mi_inside_leave(heap);
  mi_free(block);
  check(mi_pagemap_find(block) == page); // POOL-2
  check_all_given_back();
}

// If this fails, a free that comes late works on a heap that ended.
UNIT_TEST_PAGE_SIZES(heap_enter_finds_the_heap_of_now) {
  mi_heap_t* const heap = make_heap();
  void* block;
  mi_page_t* const page = own_page(heap, &block);
  end(heap, false);
  check(mi_inside_enter(page) == UNIT_HEAP);
  check_equal(inside(heap), 0);
  mi_inside_leave(UNIT_HEAP);
  mi_pool_give_up(page);
  check_equal(unit_pool_length(UNIT_HEAP, CLASS), 1);
  mi_free(block);
  mi_thread_leave();
  check_all_given_back();
}

static ending_t interruption;
static mi_heap_t* made_meanwhile;
static puppet_t interrupter;

static void end_and_make(void* arg) {
  run_end(arg);
  made_meanwhile = make_heap();
}

static void interrupt(void) {
  os_fake.on_purge = NULL;
  puppet_do(&interrupter, &end_and_make, &interruption);
}

// If this fails, a heap that is deleted in the middle of the last free in one of its pages is used
// again while that free still works on it.
UNIT_TEST_PAGE_SIZES(heap_delete_in_the_middle_of_a_free) {
  for (size_t size = SIZE; size <= LARGE; size += LARGE - SIZE) {
    mi_heap_t* const heap = make_heap();
    puppet_start(&interrupter);
    void* block = puppet_heap_malloc(&interrupter, heap, size);
    if (size == SIZE) {
      mi_page_t* const page = own_page(heap, &block);
      unit_option(purge_delay, 0);
      interruption = (ending_t){heap, false};
      os_fake.on_purge = &interrupt;
      mi_block_t* const last = (mi_block_t*)block;
      last->next = page->local_free;
      page->local_free = last;
      page->count.used--;
      mi_pool_give_up(page);
    } else {
      unit_option(purge_delay, 0);
      interruption = (ending_t){heap, false};
      os_fake.on_purge = &interrupt;
      mi_free(block);
    }
    check(os_fake.on_purge == NULL);
    check(made_meanwhile != heap);
    check_equal(inside(heap), 0);
    unit_check_valid();
    end(made_meanwhile, true);
    puppet_end(&interrupter);
  }
}

enum { RACE_HEAPS = 150, RACE_BLOCKS = 300, RACE_THREADS = 3 };
static mi_atomic(void*) race_block[RACE_BLOCKS];
static mi_atomic(size_t) race_over;

static void free_what_comes(void* arg) {
  uint64_t random = *(size_t*)arg;
  size_t misses = 0;
  while (misses < RACE_BLOCKS || mi_atomic_load_acquire(&race_over) == 0) {
    mi_atomic(void*)* const slot = &race_block[random_below(&random, RACE_BLOCKS)];
    void* const p = mi_atomic_swap_acq_rel(slot, NULL);
    misses = p == NULL ? misses + 1 : 0;
    mi_free(p);
    if (misses % 64 == 63) sched_yield();
  }
}

static void make_and_delete(void* arg) {
  uint64_t random = *(size_t*)arg;
  for (size_t round = 0; round < RACE_HEAPS; round++) {
    mi_heap_t* const heap = make_heap();
    for (size_t i = 0; i < RACE_BLOCKS; i++) {
      const size_t size = i % 50 == 0 ? LARGE : MI_CLASS_MAX / 16 + i % 3 * 900;
      void* const p = mi_heap_malloc(heap, size);
      mi_free(mi_atomic_swap_acq_rel(&race_block[random_below(&random, RACE_BLOCKS)], p));
    }
    mi_heap_end_by_delete(heap);
  }
  mi_atomic_store_release(&race_over, 1);
}

static void race_delete(void* arg) {
  if (*(size_t*)arg == 1) {
    make_and_delete(arg);
  } else {
    free_what_comes(arg);
  }
}

// If this fails, blocks that are freed while their heap is deleted end in two lists, or in none.
UNIT_TEST(heap_delete_meets_frees) {
  size_t id[RACE_THREADS] = {1, 2, 3};
  unit_on_threads(RACE_THREADS, &race_delete, id, sizeof(id[0]));
  for (size_t i = 0; i < RACE_BLOCKS; i++) mi_free(mi_atomic_load_relaxed(&race_block[i]));
  check_equal(mi_state.main.count.heaps, 1);
  check_all_given_back();
}

static mi_atomic(mi_heap_t*) shared;
static mi_atomic(size_t) ready;

static void allocate_and_exit(void* arg) {
  (void)arg;
  for (size_t i = 0; i < 40; i++) {
    check(mi_heap_malloc(mi_atomic_load_relaxed(&shared), 50 * i) != NULL);
  }
  mi_atomic_add_acq_rel(&ready, 1);
}

static void end_when_ready(void* arg) {
  const bool is_destroyed = *(size_t*)arg == 1;
  while (mi_atomic_load_acquire(&ready) < RACE_THREADS) sched_yield();
  end(mi_atomic_load_relaxed(&shared), is_destroyed);
}

static void race_exit(void* arg) {
  if (*(size_t*)arg <= 1) {
    end_when_ready(arg);
  } else {
    allocate_and_exit(arg);
  }
}

// If this fails, a thread that ends gives up pages of a heap that is destroyed at that moment.
UNIT_TEST(heap_ends_while_its_threads_end) {
  for (size_t round = 0; round < 60; round++) {
    mi_atomic_store_relaxed(&ready, 0);
    mi_atomic_store_relaxed(&shared, make_heap());
    size_t id[RACE_THREADS + 1] = {round % 2, 2, 3, 4};
    unit_on_threads(RACE_THREADS + 1, &race_exit, id, sizeof(id[0]));
    unit_check_valid();
    check_equal(mi_state.main.count.theaps, 0);
  }
}

enum { ENDED_ROUNDS = 400 };
static mi_usage_t usage;

// What a thread does while heaps end in which it has lists.
static void (*meanwhile)(size_t turn);

static void measure(size_t turn) {
  (void)turn;
  mi_usage_measure(&mi_state.main, NULL, &usage);
}

// Sampling cuts the lists of all theaps of the thread.
static void switch_samples(size_t turn) { mi_sample_profile(turn % 2 == 0 ? 1000 : 0); }

static void use_what_others_end(void) {
  for (size_t round = 0; round < ENDED_ROUNDS; round++) {
    mi_heap_t* heap;
    while ((heap = mi_atomic_load_acquire(&shared)) == NULL) sched_yield();
    for (size_t i = 1; i < 40; i++) mi_free(mi_heap_malloc(heap, i * 40));
    mi_atomic_store_release(&shared, NULL);
    mi_atomic_store_release(&ready, 2 * round + 1);
    for (size_t turn = 0; mi_atomic_load_acquire(&ready) == 2 * round + 1; turn++) meanwhile(turn);
  }
}

static void destroy_what_others_use(void* arg) {
  if (*(size_t*)arg == 0) {
    use_what_others_end();
    return;
  }
  for (size_t round = 0; round < ENDED_ROUNDS; round++) {
    mi_heap_t* const heap = make_heap();
    mi_atomic_store_release(&shared, heap);
    while (mi_atomic_load_acquire(&ready) != 2 * round + 1) sched_yield();
    mi_heap_end_by_destroy(heap);
    mi_collect_all(MI_FORCE);
    mi_atomic_store_release(&ready, 2 * round + 2);
  }
}

static void check_destroy_meets(void (*act)(size_t turn)) {
  os_fake.has_overcommit = false; // what is gone cannot be read
  meanwhile = act;
  size_t id[2] = {0, 1};
  unit_on_threads(2, &destroy_what_others_use, id, sizeof(id[0]));
  unit_check_valid();
}

// If this fails, a program that prints statistics while it destroys a heap crashes.
UNIT_TEST(heap_destroy_meets_statistics) { check_destroy_meets(&measure); }

// If this fails, a program that starts a profile while it destroys a heap crashes, or its memory is
// damaged.
UNIT_TEST(heap_destroy_meets_samples) { check_destroy_meets(&switch_samples); }

// -- theaps after the end --

// If this fails, a thread goes on to allocate from the pages of a heap that ended.
UNIT_TEST_PAGE_SIZES(heap_end_is_told_to_every_theap) {
  for (size_t k = 0; k < 4; k++) {
    const bool is_destroyed = k % 2 == 1;
    mi_heap_t* const heap = make_heap();
    puppet_t other;
    puppet_start(&other);
    void* const theirs = puppet_heap_malloc(&other, heap, SIZE);
    void* const mine = mi_heap_malloc(heap, SIZE);
    mi_theap_t* const theap = mi_theap_find(heap);
    check(theap != NULL && theap != mi_self_home() && theap->home == mi_self_home());
    check(mi_self()->theap_recent == theap);
    mi_self()->theap = theap; // the default
    if (k / 2 == 0) {
      end(heap, is_destroyed);
      check(mi_self_theap() == theap->home && mi_self()->theap_recent != theap);
      check(theap->page_count == 0 && theap->heap_link == NULL && !theap->is_destroyed);
    } else {
      mi_self()->theap = theap->home;
      end_on_thread(heap, is_destroyed);
      check(theap->is_ended && theap->is_destroyed == is_destroyed);
      check(mi_theap_heap(theap) == (is_destroyed ? MI_HEAP_GONE : UNIT_HEAP));
      check(mi_self()->theap_recent == theap && mi_enter_theap_in(UNIT_HEAP) == mi_self_home());
    }
    check(mi_theap_find(heap) == NULL);
    unit_check_valid();
    // A heap in the same place is a new one.
    mi_heap_t* const next = make_heap();
    check(next == heap);
    void* const p = mi_heap_malloc(next, SIZE);
    void* const q = puppet_heap_malloc(&other, next, SIZE);
    check(mi_theap_find(next) == theap && !theap->is_ended);
    check(heap_of(p) == next && heap_of(q) == next);
    unit_check_valid();
    if (!is_destroyed) {
      check(heap_of(mine) == UNIT_HEAP && heap_of(theirs) == UNIT_HEAP);
      mi_free(mine);
      mi_free(theirs);
    }
    end(next, true);
    puppet_end(&other);
    check_all_given_back();
  }
}

enum { MANY = 40, ENDED_MAX = 16 };

// If this fails, a thread that uses heaps of others, which end, keeps a theap for each of them.
UNIT_TEST_PAGE_SIZES(heap_theaps_of_ended_heaps_are_few) {
  mi_heap_t* heap[MANY];
  static size_t ended;
  void* p[MANY];
  for (size_t i = 0; i < MANY; i++) heap[i] = make_heap();
  mi_theap_t* const home = unit_theap();
  for (size_t i = 0; i < MANY; i++) p[i] = mi_heap_malloc(heap[i], SIZE);
  const int64_t meta = mi_state.main.count.meta;
  for (size_t i = 0; i + 1 < MANY; i++) end_on_thread(heap[i], i % 2 == 0);
  check_equal(mi_atomic_load_relaxed(&home->ended_count), MANY - 1);
  mi_heap_t* const next = make_heap();
  mi_enter_theap(next);
  ended = mi_atomic_load_relaxed(&home->ended_count);
  check(ended <= ENDED_MAX);
  check(mi_state.main.count.meta < meta - (int64_t)(MANY / 2 * sizeof(mi_theap_t)));
  unit_check_valid();
  for (size_t i = 1; i + 1 < MANY; i += 2) {
    check(heap_of(p[i]) == UNIT_HEAP);
    mi_free(p[i]);
  }
  end(next, false);
  end(heap[MANY - 1], true);
  check_all_given_back();
}

// If this fails, a thread keeps what it has of heaps that others ended, or a malloc that finds no
// memory goes on with a theap that was freed.
UNIT_TEST(heap_theaps_of_ended_heaps_go_when_asked) {
  mi_heap_t* const heap = make_heap();
  mi_theap_t* const home = unit_theap();
  mi_free(mi_heap_malloc(heap, SIZE));
  mi_theap_t* const theap = mi_theap_find(heap);
  const size_t slot = heap->slot;
  end_on_thread(heap, false);
  mi_collect_all(MI_FORCE);
  check(home->others[slot] == theap);
  mi_thread_sweep_ended();
  check(home->others[slot] == NULL && home->ended_next == 0);
  check_equal(mi_atomic_load_relaxed(&home->ended_count), 0);
  mi_thread_sweep_ended();
  check_all_given_back();
}

// If this fails, a callback that ends heaps returns into a malloc whose theap was freed, or that
// theap is kept for good.
UNIT_TEST(heap_theap_in_a_callback_outlives_a_sweep) {
  mi_heap_t* heap[MANY];
  for (size_t i = 0; i < MANY; i++) heap[i] = make_heap();
  mi_theap_t* const home = unit_theap();
  for (size_t i = 0; i < MANY; i++) mi_free(mi_heap_malloc(heap[i], SIZE));
  mi_theap_t* const inside = mi_theap_find(heap[0]);
  const size_t slot = heap[0]->slot;
  inside->is_in_deferred_free = true;
  for (size_t i = 0; i < MANY / 2; i++) end_on_thread(heap[i], true);
  end(heap[MANY - 1], true); // sweeps
  check(home->others[slot] == inside);
  check_equal(mi_atomic_load_relaxed(&home->ended_count), 1);
  unit_check_valid();
  inside->is_in_deferred_free = false;
  for (size_t i = MANY / 2; i + 2 < MANY; i++) end_on_thread(heap[i], true);
  end(heap[MANY - 2], true);
  check(home->others[slot] == NULL);
  check_equal(mi_atomic_load_relaxed(&home->ended_count), 0);
  check_all_given_back();
}

// If this fails, a thread that uses more and more heaps leaks the arrays that list its theaps.
UNIT_TEST_PAGE_SIZES(heap_theap_arrays_are_given_back) {
  mi_heap_t* heap[MANY];
  for (size_t i = 0; i < MANY; i++) heap[i] = make_heap();
  mi_theap_t* const home = unit_theap();
  check(mi_enter_theap(heap[0]) != NULL);
  const size_t old_size = mi_bits_align_up(home->others_count * sizeof(mi_theap_t*), 64);
  const int64_t meta = mi_state.main.count.meta;
  check(home->others_count < MANY && mi_enter_theap(heap[MANY - 1]) != NULL);
  check(home->others_count >= MANY && mi_theap_find(heap[0]) != NULL);
  const size_t new_size = mi_bits_align_up(home->others_count * sizeof(mi_theap_t*), 64);
  const size_t theap_size = mi_bits_align_up(sizeof(mi_theap_t), mi_state.os.page_size);
  check(new_size < mi_state.os.page_size / 2 && theap_size >= mi_state.os.page_size / 2);
  const bool has_pages = sizeof(mi_theap_t) >= mi_state.os.page_size / 2;
  const size_t theap_meta = has_pages ? theap_size : mi_bits_align_up(sizeof(mi_theap_t), 64);
  check_equal(mi_state.main.count.meta, meta + (int64_t)(theap_meta + new_size - old_size));
  for (size_t i = 0; i < MANY; i++) end(heap[i], true);
}

// If this fails, a server that makes a heap for each request grows with every request.
UNIT_TEST_PAGE_SIZES(heap_structures_are_used_again) {
  int64_t meta = 0;
  size_t slots = 0;
  for (size_t i = 0; i < 300; i++) {
    mi_heap_t* const heap[2] = {make_heap(), make_heap()};
    check(heap[0] != heap[1] && heap[0]->slot != heap[1]->slot);
    for (size_t k = 0; k < 2; k++) {
      check(mi_heap_malloc(heap[k], SIZE) != NULL);
      check(mi_atomic_load_relaxed(&heap[k]->numa_wish) == 0 && heap[k]->arena == NULL);
      mi_atomic_store_relaxed(&heap[k]->numa_wish, 3);
    }
    end(heap[i % 2], true);
    end(heap[1 - i % 2], true);
    if (i == 1) {
      meta = mi_state.main.count.meta;
      slots = mi_state.slot_count;
    }
  }
  check_equal(mi_state.main.count.meta, meta);
  check_equal(mi_state.slot_count, slots);
  check_equal(mi_state.main.count.heaps_total, 601);
  check_equal(mi_state.main.count.heaps, 1);
  check(mi_atomic_load_relaxed(&mi_self_home()->ended_count) <= 2);
}

// If this fails, a thread that ends leaves its theaps in heaps that go on: the next end touches
// memory of somebody else.
UNIT_TEST_PAGE_SIZES(heap_forgets_theaps_of_threads_that_end) {
  mi_heap_t* const heap = make_heap();
  puppet_t other[3];
  void* p[3];
  for (size_t i = 0; i < 3; i++) puppet_start(&other[i]);
  for (size_t i = 0; i < 3; i++) p[i] = puppet_heap_malloc(&other[i], heap, SIZE);
  check_equal(mi_state.main.count.theaps, 3);
  puppet_end(&other[1]); // in the middle of the list
  unit_check_valid();
  check_equal(mi_state.main.count.theaps, 2);
  puppet_end(&other[2]);
  puppet_end(&other[0]);
  check(heap->theaps == NULL);
  // What they left is adopted in the heap.
  void* const q = mi_heap_malloc(heap, SIZE);
  const mi_page_t* const page = unit_page_of(q);
  check(page == unit_page_of(p[0]) || page == unit_page_of(p[1]) || page == unit_page_of(p[2]));
  for (size_t i = 0; i < 3; i++) mi_free(p[i]);
  mi_free(q);
  end(heap, false);
  check_all_given_back();
}

// If this fails, an address is said to belong to a heap that never had it.
UNIT_TEST_PAGE_SIZES(heap_find_page_of_any_address) {
  mi_heap_t* const heap = make_heap();
  for (size_t is_direct = 0; is_direct < 2; is_direct++) {
    if (is_direct == 1) unit_option(arena_max_object_size, 1);
    bool is_zero;
    uint8_t* const p = (uint8_t*)mi_heap_malloc(heap, LARGE * 2);
    const mi_page_t* const page = unit_page_of(p);
    check_equal(page->backing, is_direct == 1 ? MI_BACKING_DIRECT : MI_BACKING_ARENA);
    for (size_t at = 0; at < LARGE * 2; at += MI_SLICE_SIZE / 2 + 1) {
      check(mi_walk_find(p + at) == page);
    }
    check(mi_walk_find(p + page->slice_count * MI_SLICE_SIZE) != page);
    check(mi_walk_find(p - 1) != page);
    mi_arena_t* const arena = mi_arena_of(&mi_state.main, p);
    if (arena != NULL) { // somebody works on the slices behind it
      const size_t next = mi_arena_slice_of(arena, p) + page->slice_count;
      check(mi_slices_claim_at(arena, next, 2, &is_zero));
      check(mi_walk_find(arena->start + next * MI_SLICE_SIZE + 1) == NULL);
      mi_slices_release(arena, next, 2, MI_SLICE_SIZE);
    }
    mi_free(p);
    check(mi_walk_find(p) == NULL && mi_walk_find(p + LARGE) == NULL);
    mi_spare_release(&mi_state.main); // else the next block is there again
  }
  check(mi_walk_find(NULL) == NULL && mi_walk_find((void*)UINTPTR_MAX) == NULL);
  end(heap, true);
}

// If this fails, a collection keeps what the thread does not need of other heaps than the main one,
// and a sub-process that was deleted never ends.
UNIT_TEST_PAGE_SIZES(heap_collect_reaches_all_heaps_of_the_thread) {
  mi_heap_t* const live = make_heap();
  mi_heap_t* const ended = make_heap();
  void* const p = mi_heap_malloc(live, SIZE);
  void* const q = mi_heap_malloc(ended, SIZE);
  end_on_thread(ended, false);
  mi_free(p);
  mi_free(q);
  check_all_given_back();
  end(live, false);
}

// A block of the heap that a thread left behind.
static void leave_block(void* arg) {
  void** const given = (void**)arg;
  given[1] = mi_heap_malloc((mi_heap_t*)given[0], SIZE);
}

// If this fails, a program keeps memory of heaps that only threads used which have ended.
UNIT_TEST_PAGE_SIZES(heap_collect_reaches_pools_of_all_heaps) {
  mi_heap_t* const heap = make_heap();
  void* given[2] = {heap, NULL};
  unit_on_thread(&leave_block, given);
  mi_free(given[1]);
  check(mi_pagemap_find(given[1]) != NULL); // POOL-2
  check_all_given_back();
  check(mi_pagemap_find(given[1]) == NULL);
  end(heap, false);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(heap_delete_moves_every_page),
      cmocka_unit_test(heap_delete_by_another_thread),
      cmocka_unit_test(heap_destroy_takes_every_page),
      cmocka_unit_test(heap_destroy_by_another_thread),
      cmocka_unit_test(heap_has_no_guests_and_no_parcels),
      cmocka_unit_test(heap_is_used_again_when_nobody_is_inside),
      cmocka_unit_test(heap_strays_are_found_by_a_collect),
      cmocka_unit_test(heap_enter_finds_the_heap_of_now),
      cmocka_unit_test(heap_delete_in_the_middle_of_a_free),
      cmocka_unit_test(heap_delete_meets_frees),
      cmocka_unit_test(heap_ends_while_its_threads_end),
      cmocka_unit_test(heap_destroy_meets_statistics),
      cmocka_unit_test(heap_destroy_meets_samples),
      cmocka_unit_test(heap_end_is_told_to_every_theap),
      cmocka_unit_test(heap_theaps_of_ended_heaps_are_few),
      cmocka_unit_test(heap_theaps_of_ended_heaps_go_when_asked),
      cmocka_unit_test(heap_theap_in_a_callback_outlives_a_sweep),
      cmocka_unit_test(heap_theap_arrays_are_given_back),
      cmocka_unit_test(heap_structures_are_used_again),
      cmocka_unit_test(heap_forgets_theaps_of_threads_that_end),
      cmocka_unit_test(heap_find_page_of_any_address),
      cmocka_unit_test(heap_collect_reaches_all_heaps_of_the_thread),
      cmocka_unit_test(heap_collect_reaches_pools_of_all_heaps),
  };
  return cmocka_run_group_tests_name("heap", tests, NULL, NULL);
}
