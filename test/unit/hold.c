// SPDX-License-Identifier: MIT
// hold.c - tests of threads/hold.c and asleep.c: HOLD-1 to HOLD-7. The thread of the test sleeps,
// while another one looks, as the purge thread does.
#include "unit.h"

#include "core/heaps/heap.h"
#include "core/threads/asleep.h"
#include "core/threads/flush.h"
#include "core/threads/thread.h"

#define SIZE 256
#define PAGES ((size_t)20)

static void* blocks[UNIT_BLOCKS_MAX];
static size_t block_count;
static uint64_t looked;

static mi_asleep_t asleep;

static void look_once(void* arg) {
  (void)arg;
  asleep.due_ms = 0;
  looked = mi_asleep_look(&asleep);
}

// What the purge thread does after half a second. True if it will look again.
static bool look(void) {
  unit_on_thread(&look_once, NULL);
  return looked != MI_RETAIN_NEVER;
}

// Look until nothing is left: the thread is asked, its queues are taken, and all is as it was.
static void sweep(void) {
  check(look());
  check(look());
  check(!look());
}

static size_t queue_length(const mi_theap_t* theap) {
  size_t length = 0;
  for (size_t c = 0; c < MI_CLASS_COUNT; c++) {
    const mi_page_queue_t* const queue = &theap->queue[c];
    const mi_page_t* page = mi_life_first(queue);
    for (; page != NULL; page = mi_life_after(queue, page)) length++;
  }
  return length;
}

static size_t blocks_of_page(void) { return unit_page_blocks(mi_class_of(SIZE)); }

static mi_page_t* page_of(size_t i) { return unit_page_of(blocks[i * blocks_of_page() + 1]); }

// Fill pages of a heap, and free the first block of each: they wait in the queue.
static void fill_in(mi_heap_t* heap, size_t pages) {
  mi_atomic_store_relaxed(&mi_state.purger, MI_PURGER_AWAKE);
  block_count = pages * blocks_of_page();
  check(block_count <= UNIT_BLOCKS_MAX);
  for (size_t i = 0; i < block_count; i++) blocks[i] = mi_heap_malloc(heap, SIZE);
  for (size_t i = 0; i < block_count; i += blocks_of_page()) mi_free(blocks[i]);
}

// The same, and all of these may be taken over.
static mi_theap_t* fill(size_t pages) {
  mi_free(mi_malloc(SIZE));
  fill_in(UNIT_HEAP, pages);
  mi_asleep_share(unit_theap());
  check(queue_length(unit_theap()) >= pages - 2);
  return unit_theap();
}

static bool is_lent(mi_page_t* page) {
  return mi_atomic_load_relaxed(&page->owner) == (unit_theap()->thread_id | MI_OWNER_PARKED) &&
         (mi_atomic_load_relaxed(&page->thread_free) & MI_REMOTE_OWNED) == 0;
}

static bool is_queued(mi_page_t* page) {
  return page->place == MI_PLACE_QUEUE &&
         mi_owner_is(mi_atomic_load_relaxed(&page->owner), unit_theap()->thread_id);
}

static bool is_queued_nowhere(const void* p) { return unit_page_of(p)->place != MI_PLACE_QUEUE; }

static void free_rest(void* arg) {
  (void)arg;
  for (size_t i = 0; i < block_count; i++) {
    if (i % blocks_of_page() != 0) mi_free(blocks[i]);
  }
}

// If this fails, a thread that sleeps keeps all that others free of what it once allocated.
UNIT_TEST_PAGE_SIZES(hold_pages_of_a_thread_that_sleeps_go) {
  mi_theap_t* const home = fill(PAGES);
  const size_t length = queue_length(home);
  check(look());
  check_equal(queue_length(home), length);
  check_equal(mi_atomic_load_relaxed(&home->asked), MI_HOLD_ASKED);
  check(look());
  check_equal(queue_length(home), 0);
  check_equal(mi_atomic_load_relaxed(&home->asked), MI_HOLD_NONE);
  check(is_lent(page_of(0)) && is_lent(page_of(PAGES / 2)));
  check(!look()); // nothing is left
  unit_check_valid();
}

// If this fails, what others free of a thread that sleeps is not noticed.
UNIT_TEST(hold_lent_pages_are_released_by_others) {
  const size_t pages = 100;
  fill(pages);
  sweep();
  const size_t before = unit_used_slices();
  unit_on_thread(&free_rest, NULL);
  check(unit_used_slices() + pages - MI_CHUNK_SLICES - 3 <= before); // POOL-4
}

static void allocate_eighth(void* arg) {
  (void)arg;
  for (size_t i = 0; i < block_count / 8; i++) check(mi_malloc(SIZE) != NULL);
}

// If this fails, others cannot use what a thread that sleeps has free.
UNIT_TEST(hold_pages_of_a_thread_that_sleeps_serve_others) {
  fill(PAGES);
  for (size_t i = 0; i < block_count; i++) { // an eighth is worth finding
    if (i % blocks_of_page() != 0 && i % 4 == 0) mi_free(blocks[i]);
  }
  sweep();
  const int64_t pages = unit_tally(PAGES_TOTAL);
  unit_on_thread(&allocate_eighth, NULL);
  check_equal(unit_tally(PAGES_TOTAL), pages);
}

// If this fails, memory of a thread that works all the time is taken from it.
UNIT_TEST(hold_thread_that_comes_back_keeps_its_pages) {
  mi_theap_t* const home = fill(PAGES);
  const size_t length = queue_length(home);
  check(look());
  mi_free(blocks[1]); // into a queue
  check_equal(mi_atomic_load_relaxed(&home->asked), MI_HOLD_NONE);
  check(look());
  check_equal(queue_length(home), length);
  mi_collect_all(MI_GENTLE);
  check(look());
  check_equal(queue_length(home), length);
  const mi_hold_t hold = mi_hold_enter(home); // a malloc that takes long
  check_equal(hold, MI_HOLD_ENTERED);
  look();
  check_equal(mi_hold_enter(home), MI_HOLD_NESTED); // a callback allocates
  mi_hold_leave(home, MI_HOLD_NESTED);
  look();
  check(!look()); // nothing comes of it while it takes
  check_equal(queue_length(home), length);
  mi_hold_leave(home, hold);
  mi_free(blocks[2]);
  mi_asleep_share(home);
  mi_atomic_store_relaxed(&mi_state.has_queued, true);
  sweep();
  check_equal(queue_length(home), 0);
}

// HOLD-5. If this fails, both are at the queues if the thread came when it could not see yet that
// it was asked.
UNIT_TEST(hold_thread_that_did_not_see_the_question_keeps_its_pages) {
  mi_theap_t* const home = fill(PAGES);
  const size_t length = queue_length(home);
  check(look());
  const uint32_t count = mi_atomic_load_relaxed(&home->hold);
  mi_atomic_store_relaxed(&home->hold, count + 1);
  check(look());
  check_equal(queue_length(home), length);
  check_equal(mi_atomic_load_relaxed(&home->asked), MI_HOLD_NONE);
  mi_atomic_store_relaxed(&home->hold, count + 2);
  for (size_t i = 0; i < 5; i++) look();
  check_equal(queue_length(home), 0);
  check(!mi_flush_free(page_of(3), (mi_block_t*)blocks[3 * blocks_of_page() + 1])); // seen too late
}

// SPARSE-6. If this fails, a thread that freed nearly all and sleeps keeps the memory between what
// it has in use.
UNIT_TEST(hold_sparse_pages_get_their_holes) {
  if (MI_IS_TINY) return; // pages of 1 KiB blocks are too short
  const size_t size = mi_bits_max(MI_SLICE_SIZE / 32, mi_state.os.page_size / 2);
  mi_free(mi_malloc(size));
  mi_atomic_store_relaxed(&mi_state.purger, MI_PURGER_AWAKE);
  const size_t per_page = unit_page_blocks(mi_class_of(size));
  for (size_t i = 0; i < 4 * per_page; i++) blocks[i] = mi_malloc(size);
  for (size_t i = 0; i < 3 * per_page; i++) {
    if (i % per_page != 1) mi_free(blocks[i]);
  }
  mi_page_t* const page = unit_page_of(blocks[per_page + 1]);
  check(page->is_sparse && page->holes == 0);
  mi_asleep_share(unit_theap());
  sweep();
  check(page->holes != 0 && !page->is_sparse);
}

// If this fails, a thread that wakes up replaces blocks several times as slowly as before.
UNIT_TEST(hold_lent_page_comes_back_with_a_free) {
  mi_theap_t* const home = fill(PAGES);
  sweep();
  mi_page_t* const page = page_of(3);
  mi_free(blocks[3 * blocks_of_page() + 1]);
  check(is_queued(page));
  check_equal(queue_length(home), 1);
  mi_free(blocks[3 * blocks_of_page() + 2]);
  check_equal(mi_part_used(page), blocks_of_page() - 3);
}

// HOLD-3. If this fails, a free waits for the purge thread, or both change a page at once.
UNIT_TEST(hold_free_goes_on_without_the_queues) {
  mi_theap_t* const home = fill(PAGES);
  mi_page_t* const page = page_of(3);
  mi_page_t* const parked = unit_make_page(mi_class_of(SIZE), blocks_of_page(), blocks);
  check(mi_life_park(parked, home->thread_id));
  mi_atomic_store_relaxed(&home->asked, MI_HOLD_TAKEN);
  const uint32_t used = page->count.used;
  void* const block = blocks[3 * blocks_of_page() + 1];
  mi_free(block);
  check_equal(page->count.used, used);
  check_equal(mi_atomic_load_relaxed(&page->thread_free), (uintptr_t)block | MI_REMOTE_OWNED);
  const size_t length = queue_length(home);
  mi_free(blocks[0]);
  check_equal(queue_length(home), length);
  check_equal(mi_atomic_load_relaxed(&parked->thread_free) & MI_REMOTE_OWNED, 0);
  check_equal(mi_atomic_load_relaxed(&home->hold) % 2, 0);
  // A malloc takes them back.
  mi_free(mi_malloc(100 * MI_KIB > MI_CLASS_MAX ? MI_CLASS_MAX : 100 * MI_KIB));
  check_equal(mi_atomic_load_relaxed(&home->asked), MI_HOLD_NONE);
  mi_free(blocks[3 * blocks_of_page() + 2]);
  check_equal(page->count.used, used - 1);
}

// If this fails, a thread that has freed all keeps an empty page of each size while it sleeps,
// beside the one that it allocates from, and the pages that it keeps in case that it goes on.
UNIT_TEST(hold_empty_pages_go) {
  mi_free(mi_malloc(SIZE));
  mi_atomic_store_relaxed(&mi_state.purger, MI_PURGER_AWAKE);
  block_count = 3 * blocks_of_page();
  for (size_t i = 0; i < block_count; i++) blocks[i] = mi_malloc(SIZE);
  check(!mi_asleep_is_due());
  for (size_t i = 0; i < block_count; i++) mi_free(blocks[i]);
  mi_theap_t* const home = unit_theap();
  check(home->idle_bytes > 0 && queue_length(home) > 0);
  check(mi_asleep_is_due());
  sweep();
  check_equal(queue_length(home), 0);
  check_equal(home->idle_bytes, 0);
  check_equal(home->page_count, 1);
  // One that it frees blocks of is its own, as before.
  for (size_t i = 0; i < block_count; i++) blocks[i] = mi_malloc(SIZE);
  mi_free(blocks[0]);
  check_equal(mi_atomic_load_relaxed(&unit_page_of(blocks[0])->owner), home->thread_id);
  check_equal(home->own_count, 1);
  for (size_t i = 1; i < block_count; i++) mi_free(blocks[i]);
  unit_check_valid();
}

#define MEDIUM (2 * MI_SMALL_MAX)

static mi_page_t* medium_current(void) {
  return mi_theap_current(unit_theap(), mi_class_of(MEDIUM));
}

// If this fails, each of many threads that sleep holds the buffers of its last request.
UNIT_TEST(hold_medium_pages_that_are_allocated_from_go) {
  if (MI_IS_TINY) return; // one block of such a size fills a page
  static const size_t sizes[] = {MEDIUM, 2 * MEDIUM, MI_CLASS_MAX};
  const size_t before = unit_used_slices();
  mi_atomic_store_relaxed(&mi_state.purger, MI_PURGER_AWAKE);
  void* const small = mi_malloc(SIZE);
  for (size_t i = 0; i < 3; i++) blocks[i] = mi_malloc(sizes[i]);
  for (size_t i = 0; i < 3; i++) mi_free(blocks[i]);
  mi_theap_t* const home = unit_theap();
  check_equal(home->page_count, 4);
  check(mi_asleep_is_due());
  sweep();
  check_equal(home->page_count, 1); // that of small blocks belongs to the thread alone
  check(mi_theap_current(home, mi_class_of(SIZE)) == unit_page_of(small));
  check(unit_used_slices() <= before + 1);
  for (size_t i = 0; i < 3; i++) {
    blocks[i] = mi_malloc(sizes[i]);
    check(blocks[i] != NULL);
    mi_free(blocks[i]);
  }
  check_equal(home->page_count, 4);
  sweep();
  check_equal(home->page_count, 1);
  mi_free(small);
  unit_check_valid();
}

// The same for one that has a block in use. If this fails, the block is lost, or what is free
// beside it is.
UNIT_TEST(hold_medium_page_is_lent_with_its_blocks) {
  if (MI_IS_TINY) return;
  mi_atomic_store_relaxed(&mi_state.purger, MI_PURGER_AWAKE);
  uint8_t* const p = (uint8_t*)mi_malloc(MEDIUM);
  memset(p, 7, MEDIUM);
  mi_free(mi_malloc(MEDIUM));
  mi_page_t* const page = unit_page_of(p);
  check(medium_current() == page);
  sweep();
  check(medium_current() == NULL && is_lent(page));
  check_equal(mi_part_used(page), 1);
  for (size_t i = 0; i < MEDIUM; i++) check_equal(p[i], 7);
  void* const q = mi_malloc(MEDIUM);
  check(unit_page_of(q) == page && medium_current() == page);
  sweep();
  mi_free(q);
  check(is_queued(page)); // it comes back with a free
  mi_free(p);
  unit_check_valid();
}

// HOLD-2. If this fails, the purge thread takes a page while its thread allocates from it.
UNIT_TEST(hold_medium_malloc_and_free_come) {
  if (MI_IS_TINY) return;
  mi_atomic_store_relaxed(&mi_state.purger, MI_PURGER_AWAKE);
  void* const p = mi_malloc(MEDIUM);
  void* const q = mi_malloc(MEDIUM);
  mi_free(q); // it is at hand from now on
  mi_page_t* const page = unit_page_of(p);
  mi_theap_t* const home = unit_theap();
  check_equal(mi_atomic_load_relaxed(&page->owner), home->thread_id | MI_OWNER_HELD);
  check(look());
  for (size_t i = 0; i < 4; i++) { // each look finds that it came, and asks again
    check_equal(mi_atomic_load_relaxed(&home->asked), MI_HOLD_ASKED);
    if (i % 2 == 0) {
      check(mi_malloc(MEDIUM) == q);
    } else {
      mi_free(q);
    }
    check_equal(mi_atomic_load_relaxed(&home->asked), MI_HOLD_NONE);
    check_equal(mi_atomic_load_relaxed(&home->hold) % 2, 0);
    check(look());
    check(medium_current() == page);
  }
  // The purge thread has the page: a free pushes its block, a malloc waits until it has left, also
  // if there is a block at hand.
  const size_t count = unit_page_blocks(mi_class_of(MEDIUM)) - 1;
  for (size_t i = 0; i < count; i++) blocks[i] = mi_malloc(MEDIUM);
  mi_free(blocks[0]);
  mi_free(blocks[1]);
  check(mi_malloc(MEDIUM) == blocks[1]);
  check(medium_current() == page && home->free[mi_class_of(MEDIUM)] == blocks[0]);
  mi_atomic_store_relaxed(&home->asked, MI_HOLD_TAKEN);
  mi_free(blocks[1]);
  const uintptr_t pushed = mi_atomic_load_relaxed(&page->thread_free);
  check_equal(pushed, (uintptr_t)blocks[1] | MI_REMOTE_OWNED);
  check_equal(mi_atomic_load_relaxed(&home->asked), MI_HOLD_TAKEN);
  check(mi_malloc(MEDIUM) == blocks[0]);
  check_equal(mi_atomic_load_relaxed(&home->asked), MI_HOLD_NONE);
  // One that is called inside of another one leaves it to that to go.
  const mi_hold_t hold = mi_hold_enter(home);
  mi_free(mi_malloc(MEDIUM));
  check_equal(mi_atomic_load_relaxed(&home->hold) % 2, 1);
  mi_hold_leave(home, hold);
  for (size_t i = 2; i < count; i++) mi_free(blocks[i]);
  mi_free(blocks[0]);
  mi_free(p);
  unit_check_valid();
}

// If this fails, a program that used large buffers before it had a second thread keeps them, or a
// thread that goes on with the heap of another one does.
UNIT_TEST(hold_medium_pages_from_before_the_purge_thread_are_shared) {
  void* const p = mi_malloc(MEDIUM);
  mi_theap_t* const home = unit_theap();
  check_equal(mi_atomic_load_relaxed(&mi_theap_empty.hold), 1); // it is never written
  check_equal(mi_atomic_load_relaxed(&unit_page_of(p)->owner), home->thread_id);
  mi_atomic_store_relaxed(&mi_state.purger, MI_PURGER_AWAKE);
  mi_asleep_share(home);
  check_equal(mi_atomic_load_relaxed(&unit_page_of(p)->owner), home->thread_id | MI_OWNER_HELD);
  mi_life_set_owner(home, MI_OWNER_SHARED);
  check_equal(mi_atomic_load_relaxed(&unit_page_of(p)->owner), MI_OWNER_SHARED);
  mi_life_set_owner(home, home->thread_id);
  check_equal(mi_atomic_load_relaxed(&unit_page_of(p)->owner), home->thread_id | MI_OWNER_HELD);
  sweep();
  check(is_lent(unit_page_of(p)));
  mi_free(p);
}

static void fill_a_page(void* arg) {
  void** const p = (void**)arg;
  for (size_t i = 0; i < 2 * blocks_of_page(); i++) p[i] = mi_malloc(SIZE);
  mi_free(p[0]);
  mi_asleep_share(unit_theap());
}

// If this fails, the purge thread of a program that sleeps wakes it twice a second for ever.
UNIT_TEST(hold_threads_that_slept_are_left_alone) {
  static void* of_puppet[2][2 * MI_SLICE_SIZE / SIZE];
  static puppet_t puppets[2];
  mi_theap_t* const home = fill(PAGES);
  for (size_t i = 0; i < 2; i++) {
    puppet_start(&puppets[i]);
    check(look()); // they are asked at different looks
    puppet_do(&puppets[i], &fill_a_page, of_puppet[i]);
  }
  size_t looks = 0;
  while (looks < 10 && look()) looks++;
  check(looks >= 2 && looks < 5);
  check_equal(queue_length(home), 0);
  check(is_queued_nowhere(of_puppet[0][1]) && is_queued_nowhere(of_puppet[1][1]));
  // One that is in the middle of a malloc does not keep the purge thread awake, either.
  mi_free(blocks[1]);
  mi_asleep_share(home);
  const mi_hold_t hold = mi_hold_enter(home);
  for (looks = 0; looks < 10 && look();) looks++;
  check(looks < 5);
  mi_hold_leave(home, hold);
  for (size_t i = 0; i < 2; i++) puppet_end(&puppets[i]);
}

// HOLD-2. If this fails, each free into a small heap takes twice as long, or a thread keeps more
// than a bound from the purge thread.
UNIT_TEST(hold_few_pages_are_the_threads_own) {
  const size_t pages = MI_QUEUED_OWN + 10;
  mi_free(mi_malloc(SIZE));
  check(!mi_asleep_is_due());
  fill_in(UNIT_HEAP, pages);
  mi_theap_t* const home = unit_theap();
  check(mi_asleep_is_due());
  check_equal(home->own_count, MI_QUEUED_OWN);
  check_equal(mi_atomic_load_relaxed(&page_of(0)->owner), home->thread_id);
  check_equal(mi_atomic_load_relaxed(&page_of(pages - 2)->owner), home->thread_id | MI_OWNER_HELD);
  sweep();
  check_equal(queue_length(home), MI_QUEUED_OWN);
  check_equal(home->own_count, MI_QUEUED_OWN);
  mi_collect_all(MI_GENTLE); // those that are still there at a look
  check_equal(home->own_count, 0);
  sweep();
  check_equal(queue_length(home), 0);
}

// If this fails, a program that loaded its data before it had a second thread keeps it all.
UNIT_TEST(hold_pages_from_before_the_purge_thread_are_shared) {
  fill(PAGES);
  mi_theap_t* const home = unit_theap();
  check_equal(home->own_count, 0);
  mi_heap_t* const heap = mi_heap_make(&mi_state.main, NULL);
  mi_atomic_store_relaxed(&mi_state.purger, MI_PURGER_NONE);
  block_count = 0;
  for (size_t i = 0; i < 3 * blocks_of_page(); i++) blocks[i] = mi_heap_malloc(heap, SIZE);
  for (size_t i = 0; i < 3 * blocks_of_page(); i += blocks_of_page()) mi_free(blocks[i]);
  mi_theap_t* const theap = mi_theap_find(heap);
  check(theap->own_count >= 2);
  mi_atomic_store_relaxed(&mi_state.purger, MI_PURGER_AWAKE);
  mi_asleep_share(home);
  check_equal(theap->own_count, 0);
  sweep();
  check_equal(queue_length(theap), 0);
  check(mi_heap_end_by_delete(heap));
}

// If this fails, the purge thread touches pages that were destroyed with their heap.
UNIT_TEST(hold_pages_of_an_ended_heap) {
  mi_free(mi_malloc(SIZE));
  for (size_t i = 0; i < 2; i++) {
    mi_heap_t* const heap = mi_heap_make(&mi_state.main, NULL);
    fill_in(heap, PAGES);
    mi_asleep_share(unit_theap());
    mi_theap_t* const theap = mi_theap_find(heap);
    check(look());
    mi_lock_enter(&mi_state.thread_lock);
    theap->is_destroyed = true; // as another thread does it
    mi_lock_leave(&mi_state.thread_lock);
    check(look() && !look());
    check(queue_length(theap) >= PAGES - 2);
    theap->is_destroyed = false;
    check(i == 0 ? mi_heap_end_by_delete(heap) : mi_heap_end_by_destroy(heap));
    if (i == 0) free_rest(NULL);
  }
}

// HOLD-7. If this fails, a walk over blocks reads lists that change meanwhile.
UNIT_TEST(hold_visitors_are_not_disturbed) {
  mi_theap_t* const home = fill(PAGES);
  const size_t length = queue_length(home);
  check(look());
  mi_asleep_pause();
  check(look() && look());
  check_equal(queue_length(home), length);
  mi_asleep_resume();
  check(look() && !look());
  check_equal(queue_length(home), 0);
}

// If this fails, the thread lock is held for as long as a large heap takes, or part of it is
// forgotten.
UNIT_TEST(hold_many_pages_go_in_steps) {
  const size_t pages = mi_bits_min(200, UNIT_BLOCKS_MAX / blocks_of_page());
  mi_theap_t* const home = fill(pages);
  check(look());
  size_t budget = 3;
  const size_t length = queue_length(home);
  mi_lock_enter(&mi_state.thread_lock);
  mi_flush_lend(home, &budget);
  mi_lock_leave(&mi_state.thread_lock);
  check_equal(queue_length(home), length - 3);
  check_equal(budget, 0);
  check(look() && !look());
  check_equal(queue_length(home), 0);
}

static size_t left_count;
static void count_left(void) { left_count++; }

// If this fails, no other thread can start or end for as long as it takes to look at all heaps of
// one that sleeps, or what it has in the last of them is forgotten.
UNIT_TEST(hold_many_heaps_go_in_steps) {
  const size_t heaps = MI_IS_TINY ? 20 : 600;
  mi_free(mi_malloc(SIZE));
  mi_heap_t* heap = NULL;
  for (size_t i = 0; i < heaps; i++) {
    heap = mi_heap_make(&mi_state.main, NULL);
    check(heap != NULL && mi_heap_malloc(heap, SIZE) != NULL);
  }
  fill_in(heap, PAGES);
  mi_asleep_share(unit_theap());
  const mi_theap_t* const theap = mi_theap_find(heap);
  check(queue_length(theap) >= PAGES - 2);
  check(look());
  mi_state.thread_lock.on_left = &count_left;
  check(look());
  mi_state.thread_lock.on_left = &mi_report_deliver;
  check(left_count > 2 && left_count <= heaps / 2);
  check_equal(queue_length(theap), 0);
  check(!look());
}

// HOLD-4. If this fails, the child of a fork waits for a purge thread that it does not have.
UNIT_TEST(hold_is_free_after_a_fork) {
  mi_theap_t* const home = fill(PAGES);
  check(look());
  mi_atomic_store_relaxed(&home->asked, MI_HOLD_TAKEN);
  mi_atomic_store_relaxed(&mi_state.visitors, 1); // another thread was in a walk
  mi_fork_take_over();
  mi_free(blocks[1]);
  check(mi_malloc(MI_CLASS_MAX) != NULL);
  check_equal(mi_atomic_load_relaxed(&home->asked), MI_HOLD_NONE);
  mi_atomic_store_relaxed(&mi_state.purger, MI_PURGER_AWAKE); // the child starts its own
  mi_asleep_share(home);
  sweep();
  check_equal(queue_length(home), 0);
}

static void start_and_leave(void* arg) {
  (void)arg;
  for (size_t i = 0; i < 3 * blocks_of_page(); i++) blocks[i] = mi_malloc(SIZE);
  for (size_t i = 0; i < 3 * blocks_of_page(); i += blocks_of_page()) mi_free(blocks[i]);
  mi_theap_t* const home = unit_theap();
  check_equal(mi_atomic_load_relaxed(&home->hold) % 2, 0);
  mi_atomic_store_relaxed(&home->asked, MI_HOLD_ASKED);
}

// If this fails, the next thread that gets the theap of one that ended is asked for what it has.
UNIT_TEST(hold_begins_anew_with_each_thread) {
  mi_free(mi_malloc(1));
  mi_atomic_store_relaxed(&mi_state.purger, MI_PURGER_AWAKE);
  unit_on_thread(&start_and_leave, NULL);
  check(mi_state.orphans != NULL);
  check_equal(mi_atomic_load_relaxed(&mi_state.orphans->asked), MI_HOLD_NONE);
  check_equal(mi_atomic_load_relaxed(&mi_state.orphans->hold), 0);
  check_equal(mi_state.orphans->own_count, queue_length(mi_state.orphans));
  look();
  look();
  check(!look()); // an orphan has no thread that sleeps
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(hold_pages_of_a_thread_that_sleeps_go),
      cmocka_unit_test(hold_lent_pages_are_released_by_others),
      cmocka_unit_test(hold_pages_of_a_thread_that_sleeps_serve_others),
      cmocka_unit_test(hold_thread_that_comes_back_keeps_its_pages),
      cmocka_unit_test(hold_thread_that_did_not_see_the_question_keeps_its_pages),
      cmocka_unit_test(hold_sparse_pages_get_their_holes),
      cmocka_unit_test(hold_lent_page_comes_back_with_a_free),
      cmocka_unit_test(hold_free_goes_on_without_the_queues),
      cmocka_unit_test(hold_empty_pages_go),
      cmocka_unit_test(hold_medium_pages_that_are_allocated_from_go),
      cmocka_unit_test(hold_medium_page_is_lent_with_its_blocks),
      cmocka_unit_test(hold_medium_malloc_and_free_come),
      cmocka_unit_test(hold_medium_pages_from_before_the_purge_thread_are_shared),
      cmocka_unit_test(hold_threads_that_slept_are_left_alone),
      cmocka_unit_test(hold_few_pages_are_the_threads_own),
      cmocka_unit_test(hold_pages_from_before_the_purge_thread_are_shared),
      cmocka_unit_test(hold_pages_of_an_ended_heap),
      cmocka_unit_test(hold_visitors_are_not_disturbed),
      cmocka_unit_test(hold_many_pages_go_in_steps),
      cmocka_unit_test(hold_many_heaps_go_in_steps),
      cmocka_unit_test(hold_is_free_after_a_fork),
      cmocka_unit_test(hold_begins_anew_with_each_thread),
  };
  return cmocka_run_group_tests_name("hold", tests, NULL, NULL);
}
