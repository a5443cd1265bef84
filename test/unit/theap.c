// SPDX-License-Identifier: MIT
// theap.c - tests of threads/theap.c: THEAP-1 to THEAP-4, what is kept and what is given up.
#include "unit.h"

#include "core/pages/page.h"
#include "core/pages/pool.h"
#include "core/pages/remote.h"
#include "core/common/sizeclass.h"
#include "core/threads/flush.h"
#include "core/threads/thread.h"

static void* blocks[2 * UNIT_BLOCKS_MAX];

// Classes that take long with MI_DEBUG=3 are sampled.
#define FOR_SOME_CLASSES(c) for (size_t c = 0; c < MI_CLASS_COUNT; c += (c < 12 ? 1 : 5))

static uintptr_t word(mi_page_t* page) { return mi_atomic_load_relaxed(&page->thread_free); }
static uintptr_t owner(mi_page_t* page) { return mi_atomic_load_relaxed(&page->owner); }

// If this fails, the first malloc of a thread, or the first after its end, crashes.
UNIT_TEST_PAGE_SIZES(theap_empty_is_never_written) {
  static mi_theap_t copy;
  memcpy(&copy, &mi_theap_empty, sizeof(copy));
  check(mi_self_theap() == &mi_theap_empty);
  mi_free(NULL);
  mi_collect_all(MI_FORCE);
  mi_thread_leave();
  blocks[0] = mi_malloc(10);
  blocks[1] = mi_malloc(MI_CLASS_MAX);
  blocks[2] = mi_malloc(MI_CLASS_MAX + 1);
  mi_thread_leave();
  check(mi_self_theap() == &mi_theap_empty);
  for (size_t i = 0; i < 3; i++) mi_free(blocks[i]);
  mi_collect_all(MI_FORCE);
  mi_thread_leave();
  check(memcmp(&copy, &mi_theap_empty, sizeof(copy)) == 0);
}

// If this fails, a loop of malloc and free around the end of a page makes and releases a page in
// every round.
UNIT_TEST_PAGE_SIZES(theap_keeps_an_empty_page) {
  FOR_SOME_CLASSES(c) {
    const size_t size = mi_class_size(c);
    const size_t count = unit_fill_page(c, blocks);
    // One block more, one block less: the boundary of the page. Few blocks a page are many pages.
    const size_t amplitude_max = unit_page_blocks(c) < 4 ? 1 : 3;
    for (size_t amplitude = 1; amplitude <= amplitude_max; amplitude++) {
      void* extra[3];
      int64_t pages = 0;
      for (size_t round = 0; round < 300; round++) {
        for (size_t i = 0; i < amplitude; i++) extra[i] = mi_malloc(size);
        if (round == 2) pages = unit_tally(PAGES_TOTAL);
        for (size_t i = 0; i < amplitude; i++) mi_free(extra[i]);
      }
      check_equal(unit_tally(PAGES_TOTAL), pages);
    }
    for (size_t i = 0; i < count; i++) mi_free(blocks[i]);
  }
}

// If this fails, a program that allocates and frees a list of objects again and again makes pages
// all the time.
UNIT_TEST_PAGE_SIZES(theap_keeps_two_pages_of_small_classes) {
  for (size_t c = 0; c <= mi_class_of(MI_SLICE_SIZE / 16); c += 3) {
    const size_t count = unit_page_blocks(c) * 2 - 1;
    int64_t pages = 0;
    for (size_t round = 0; round < 10; round++) {
      for (size_t i = 0; i < count; i++) blocks[i] = mi_malloc(mi_class_size(c));
      if (round == 3) pages = unit_tally(PAGES_TOTAL);
      for (size_t i = 0; i < count; i++) mi_free(blocks[i]);
    }
    check_equal(unit_tally(PAGES_TOTAL), pages);
  }
}

// If this fails, empty pages pile up.
UNIT_TEST_PAGE_SIZES(theap_keeps_few_empty_pages) {
  const size_t c = mi_class_of(1024);
  const size_t count = unit_page_blocks(c) * 64;
  check(count <= 2 * UNIT_BLOCKS_MAX);
  for (size_t i = 0; i < count; i++) blocks[i] = mi_malloc(1024);
  check(mi_state.main.count.pages >= 64);
  for (size_t i = 0; i < count; i++) mi_free(blocks[i]);
  check(mi_state.main.count.pages <= 10);
}

// If this fails, a small program that replaces its few large blocks makes a page each time.
UNIT_TEST_PAGE_SIZES(theap_keeps_one_empty_page_of_any_size) {
  void* const a = mi_malloc(MI_CLASS_MAX);
  void* const b = mi_malloc(MI_CLASS_MAX);
  const int64_t pages = unit_tally(PAGES_TOTAL);
  mi_free(a);
  void* const c = mi_malloc(MI_CLASS_MAX);
  check_equal(unit_tally(PAGES_TOTAL), pages);
  mi_free(b);
  mi_free(c);
}

// If this fails, blocks in the list of a page that stops being current are lost.
UNIT_TEST_PAGE_SIZES(theap_detach_gives_the_list_back) {
  FOR_SOME_CLASSES(of_size) {
    mi_theap_t* const theap = unit_theap();
    const size_t c = mi_split_class(theap, mi_class_size(of_size));
    check(mi_flush_detach(theap, c) == NULL);
    void* const a = mi_malloc(mi_class_size(c));
    void* const b = unit_page_blocks(c) == 1 ? NULL : mi_malloc(mi_class_size(c));
    const size_t pages = theap->page_count;
    mi_page_t* const page = mi_flush_detach(theap, c);
    check(page != NULL && page->place == MI_PLACE_NONE);
    check_equal(page->count.used, b == NULL ? 1 : 2);
    check(mi_page_is_valid(page));
    check(theap->free[c] == NULL && mi_theap_current(theap, c) == NULL);
    check_equal(theap->page_count, pages - 1);
    mi_pool_give_up(page);
    mi_free(a);
    mi_free(b);
    mi_collect_all(MI_FORCE);
    unit_check_empty();
  }
}

static void free_some(void* arg) {
  const size_t count = *(size_t*)arg;
  for (size_t i = 0; i < count; i++) mi_free(blocks[i]);
}

// If this fails, memory that other threads freed is not found by mi_collect.
UNIT_TEST_PAGE_SIZES(theap_collect_releases_what_others_emptied) {
  const size_t c = mi_class_of(512);
  size_t count = unit_fill_page(c, blocks);
  void* const last = mi_malloc(512);
  // One block back: the page waits in the queue. The others are freed by a thread.
  mi_page_t* const page = unit_page_of(blocks[--count]);
  mi_free(blocks[count]);
  check_equal(page->place, MI_PLACE_QUEUE);
  unit_on_thread(&free_some, &count);
  check(page->count.used > 0);
  const size_t free_slices = unit_free_slices();
  const size_t slices = page->slice_count;
  mi_flush_idle(unit_theap());
  check_equal(unit_free_slices(), free_slices + slices);
  mi_free(last);
}

// If this fails, mi_collect(true) or a thread's end keeps memory that nobody uses.
UNIT_TEST_PAGE_SIZES(theap_flush_gives_everything_up) {
  mi_theap_t* const theap = unit_theap();
  size_t count = 0;
  FOR_SOME_CLASSES(c) {
    for (size_t i = 0; i < 3; i++) blocks[count++] = mi_malloc(mi_class_size(c));
  }
  mi_flush_theap(theap);
  check_equal(theap->page_count, 0);
  for (size_t i = 0; i < count; i++) {
    mi_page_t* const page = unit_page_of(blocks[i]);
    check_equal(word(page) & MI_REMOTE_OWNED, 0);
    check(owner(page) == MI_OWNER_SHARED || (owner(page) & MI_OWNER_PARKED) != 0);
  }
  unit_check_valid();
  for (size_t i = 0; i < count; i++) mi_free(blocks[i]);
  mi_collect_all(MI_FORCE);
  unit_check_empty();
}

// If this fails, a page goes to a new thread but its blocks are freed as if to the old one.
UNIT_TEST_PAGE_SIZES(theap_set_owner_reaches_every_page) {
  mi_theap_t* const theap = unit_theap();
  // Interior pointers in one page, another one in the queue, a third current.
  void* const shifted = mi_aligned_alloc_at(mi_self_theap(), 100, 64, 8, MI_UNINITIALIZED);
  const size_t c = mi_class_of(512);
  const size_t count = unit_fill_page(c, blocks);
  blocks[count] = mi_malloc(512);
  mi_free(blocks[0]);
  mi_page_t* const queued = unit_page_of(blocks[1]);
  mi_page_t* const current = unit_page_of(blocks[count]);
  mi_page_t* const interior = unit_page_of(shifted);
  check(queued->place == MI_PLACE_QUEUE && current->place == MI_PLACE_CURRENT);
  mi_life_set_owner(theap, MI_OWNER_SHARED);
  check(owner(queued) == MI_OWNER_SHARED && owner(current) == MI_OWNER_SHARED);
  check_equal(owner(interior), MI_OWNER_SHARED);
  const uintptr_t id = mi_tls_thread_id();
  mi_life_set_owner(theap, id);
  check(owner(queued) == id && owner(current) == id);
  check_equal(owner(interior), id | MI_OWNER_SLOW);
  mi_free(shifted);
}

// If this fails, a consumer forgets pages it owns, or serves blocks from a wrong class.
UNIT_TEST_PAGE_SIZES(theap_takes_guests_by_class) {
  mi_theap_t* const theap = unit_theap();
  mi_page_t* page[3];
  static const size_t sizes[3] = {100, 200, 300};
  for (size_t i = 0; i < 3; i++) {
    page[i] = unit_make_page(mi_class_of(sizes[i]), 2, blocks);
    mi_theap_add_guest(theap, page[i]);
  }
  check(mi_theap_take_guest(theap, mi_class_of(400)) == NULL);
  check(mi_theap_take_guest(theap, mi_class_of(200)) == page[1]);
  check_equal(page[1]->place, MI_PLACE_NONE);
  check(mi_theap_take_guest(theap, mi_class_of(200)) == NULL);
  mi_pool_give_up(page[1]);
  // Guests are not counted among the pages (THEAP-4), and leave with a collect.
  check_equal(theap->page_count, 0);
  mi_flush_idle(theap);
  check_equal(word(page[0]) & MI_REMOTE_OWNED, 0);
  check_equal(word(page[2]) & MI_REMOTE_OWNED, 0);
}

// If this fails, an emptied guest stays in the ring, and its memory is used by two.
UNIT_TEST_PAGE_SIZES(theap_releases_an_emptied_guest) {
  mi_theap_t* const theap = unit_theap();
  mi_page_t* const page = unit_make_page(mi_class_of(100), 3, blocks);
  mi_theap_add_guest(theap, page);
  const size_t free_slices = unit_free_slices();
  for (size_t i = 0; i < 3; i++) mi_free(blocks[i]);
  check_equal(unit_free_slices(), free_slices + 1);
  for (size_t i = 0; i < MI_GUEST_COUNT; i++) check(theap->guest[i] == NULL);
}

// If this fails, a program keeps empty pages by the size that its heap had once.
UNIT_TEST(theap_idle_pages_go_when_the_heap_shrinks) {
  enum { COUNT = 4000, LARGE = 1 << 30 };
  static void* p[COUNT];
  mi_theap_t* const theap = unit_theap();
  for (size_t i = 0; i < COUNT; i++) p[i] = mi_malloc(1024);
  const size_t page_bytes = unit_page_blocks(mi_class_of(1024)) * 1024;
  mi_count_add(&mi_state.main.count.committed, LARGE);
  for (size_t i = 0; i < COUNT / 4 * 3; i++) mi_free(p[i]);
  const size_t before = theap->idle_bytes;
  check(before >= COUNT / 4 * 3 * 1024 - 3 * page_bytes);
  mi_count_add(&mi_state.main.count.committed, -LARGE);
  for (size_t i = COUNT / 4 * 3; i < COUNT; i++) mi_free(p[i]);
  check(theap->idle_bytes <= mi_bits_max(before - COUNT / 4 * 1024 + 3 * page_bytes, 640 * 1024));
  unit_check_valid();
}

// If this fails, idle pages of many large classes hold memory that other sizes could use.
UNIT_TEST_PAGE_SIZES(theap_trim_gives_idle_pages_up) {
  mi_theap_t* const theap = unit_theap();
  size_t count = 0;
  for (size_t c = MI_CLASS_COUNT - 9; c < MI_CLASS_COUNT; c++) {
    blocks[count++] = mi_malloc(mi_class_size(c));
  }
  mi_flush_trim(theap, 0, MI_CLASS_COUNT);
  for (size_t i = 0; i < count; i++) {
    check_equal(unit_page_of(blocks[i])->place, MI_PLACE_CURRENT); // in use
    mi_free(blocks[i]);
  }
  const int64_t pages = mi_state.main.count.pages;
  mi_flush_trim(theap, SIZE_MAX, MI_CLASS_COUNT);
  check_equal(mi_state.main.count.pages, pages);
  mi_flush_trim(theap, 0, MI_CLASS_COUNT - 1);
  check(mi_theap_current(theap, MI_CLASS_COUNT - 1) != NULL);
  check(mi_theap_current(theap, MI_CLASS_COUNT - 2) == NULL);
  mi_flush_trim(theap, 0, MI_CLASS_COUNT);
  check(mi_theap_current(theap, MI_CLASS_COUNT - 1) == NULL);
  unit_check_valid();
}

// If this fails, a block that is in use is in a page that was given up, because another one was
// freed twice.
UNIT_TEST_PAGE_SIZES(theap_trim_keeps_a_page_with_a_block_freed_twice) {
  mi_theap_t* const theap = unit_theap();
  const size_t size = mi_class_size(mi_class_of(MI_SLICE_SIZE / 8) + 1);
  void* const used = mi_malloc(size);
  void* const p = mi_malloc(size);
  void* const q = mi_malloc(size);
  const size_t c = unit_page_of(used)->size_class;
  check(c >= mi_class_of(size));
  check(unit_page_of(p) == unit_page_of(used) && unit_page_of(q) == unit_page_of(used));
  mi_free(p);
  mi_free(q);
  mi_free(p);
  mi_flush_trim(theap, 0, MI_CLASS_COUNT);
  mi_page_t* const page = mi_theap_current(theap, c);
  check(page == unit_page_of(used));
  // Make it valid again.
  mi_block_set_next((mi_block_t*)q, NULL);
  page->count.used++;
  mi_free(used);
  mi_flush_trim(theap, 0, MI_CLASS_COUNT);
  check(mi_theap_current(theap, c) == NULL);
  unit_check_valid();
}

// If this fails, the same happens to a page in a queue whose other blocks another thread freed.
UNIT_TEST_PAGE_SIZES(theap_idle_keeps_a_page_with_a_block_freed_twice) {
  mi_theap_t* const theap = unit_theap();
  const size_t c = mi_class_of(512);
  const size_t count = unit_fill_page(c, blocks);
  void* const next = mi_malloc(512); // the full page is not current any more
  mi_free(blocks[0]);
  mi_free(blocks[1]);
  mi_free(blocks[0]);
  mi_page_t* const page = unit_page_of(blocks[0]);
  check_equal(page->place, MI_PLACE_QUEUE);
  memmove(blocks, blocks + 2, (count - 2) * sizeof(blocks[0]));
  size_t others = count - 3; // all but one
  unit_on_thread(&free_some, &others);
  mi_flush_idle(theap);
  check(mi_pagemap_find(blocks[others]) == page && page->place == MI_PLACE_QUEUE);
  page->count.used++; // as if it had been freed once
  mi_free(blocks[others]);
  mi_free(next);
}

#define LOOK_PAGES (2 * MI_LOOK_PAGES + 3)
#define LOOK_BLOCKS 4 // in each page
#define LOOK_SIZE (MI_SLICE_SIZE / LOOK_BLOCKS)
static void* looked[LOOK_BLOCKS * LOOK_PAGES];

static void free_one_of_each(size_t first) {
  for (size_t i = first; i < LOOK_BLOCKS * LOOK_PAGES; i += LOOK_BLOCKS) mi_free(looked[i]);
}

static void free_one_of_each_by(void* arg) { free_one_of_each(*(size_t*)arg); }

// Return how many pages have blocks that another thread freed, and that this one has not seen.
static size_t count_unseen(void) {
  size_t count = 0;
  for (size_t i = LOOK_BLOCKS - 1; i < LOOK_BLOCKS * LOOK_PAGES; i += LOOK_BLOCKS) {
    count += (word(unit_page_of(looked[i])) & ~MI_REMOTE_BITS) != 0;
  }
  return count;
}

static size_t free_by_another(size_t first) {
  unit_on_thread(&free_one_of_each_by, &first);
  return count_unseen();
}

// If this fails, a malloc now and then takes as long as the heap is large, or memory that others
// freed is never seen.
UNIT_TEST(theap_is_looked_at_in_parts) {
  if (unit_page_blocks(mi_class_of(LOOK_SIZE)) != LOOK_BLOCKS) return; // pages with a fence
  mi_theap_t* const theap = unit_theap();
  for (size_t i = 0; i < LOOK_BLOCKS * LOOK_PAGES; i++) looked[i] = mi_malloc(LOOK_SIZE);
  free_one_of_each(0); // so that all but the last are in the queue
  size_t unseen = free_by_another(1);
  check(unseen >= LOOK_PAGES - 1);

  // Each part sees as many pages as it may, and each page is seen.
  theap->look_left = 0;
  mi_flush_begin_look(theap, true);
  for (size_t part = 0; theap->look_left > 0; part++) {
    size_t pages = 5;
    mi_flush_begin_look(theap, true); // it is under way
    mi_flush_look(theap, &pages);
    const size_t left = count_unseen();
    check(unseen - left <= 5 && part <= LOOK_PAGES / 5 + 1);
    check(pages == 0 || theap->look_left == 0);
    unseen = left;
  }
  check(unseen <= 1); // of the page that malloc allocates from

  // The cadence has parts of its own, and longer ones after a longer time.
  unseen = free_by_another(2);
  theap->look_ms = 7;
  mi_thread_begin_look(theap);
  mi_thread_look(theap, 7);
  check_equal(unseen - count_unseen(), MI_LOOK_PAGES);
  mi_thread_look(theap, 7 + MI_LOOK_PAGES_MAX);
  check(count_unseen() <= 1 && theap->look_left == 0);

  // The page that is next goes.
  size_t few = 3;
  mi_flush_begin_look(theap, false);
  mi_flush_look(theap, &few);
  mi_page_t* const next = theap->look_next;
  check(few == 0 && next != NULL);
  for (size_t i = LOOK_BLOCKS - 1; i < LOOK_BLOCKS * LOOK_PAGES; i += LOOK_BLOCKS) {
    if (unit_page_of(looked[i]) != next) continue;
    mi_free(looked[i]);
    looked[i] = NULL;
  }
  mi_life_dequeue(theap, next);
  mi_pool_give_up(next);
  size_t one = 1;
  mi_flush_look(theap, &one); // nor is it looked at, nor the rest of its class
  check(one == 1 && theap->look_left == 0);
  free_one_of_each(LOOK_BLOCKS - 1);
  unit_check_valid();
}

// If this fails, a look that finds many empty pages takes one malloc fifty milliseconds, where a
// system call waits for other processors.
UNIT_TEST(theap_look_ends_in_time) {
  if (unit_page_blocks(mi_class_of(LOOK_SIZE)) != LOOK_BLOCKS) return; // pages with a fence
  mi_theap_t* const theap = unit_theap();
  unit_option(purge_delay, 0);
  for (size_t i = 0; i < LOOK_BLOCKS * LOOK_PAGES; i++) looked[i] = mi_malloc(LOOK_SIZE);
  free_one_of_each(0);
  for (size_t k = 1; k < LOOK_BLOCKS; k++) free_by_another(k);
  const int64_t made = mi_state.main.count.pages;
  os_fake.on_purge = &os_fake_be_slow;
  size_t pages = MI_LOOK_PAGES;
  mi_flush_begin_look(theap, true);
  mi_flush_look(theap, &pages);
  check(made - mi_state.main.count.pages < 8 && pages == 0 && theap->look_left > 0);
  os_fake.on_purge = NULL;
  mi_collect_all(MI_FORCE);
  unit_check_empty();
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(theap_empty_is_never_written),
      cmocka_unit_test(theap_keeps_an_empty_page),
      cmocka_unit_test(theap_keeps_two_pages_of_small_classes),
      cmocka_unit_test(theap_keeps_few_empty_pages),
      cmocka_unit_test(theap_keeps_one_empty_page_of_any_size),
      cmocka_unit_test(theap_detach_gives_the_list_back),
      cmocka_unit_test(theap_collect_releases_what_others_emptied),
      cmocka_unit_test(theap_flush_gives_everything_up),
      cmocka_unit_test(theap_set_owner_reaches_every_page),
      cmocka_unit_test(theap_takes_guests_by_class),
      cmocka_unit_test(theap_releases_an_emptied_guest),
      cmocka_unit_test(theap_idle_pages_go_when_the_heap_shrinks),
      cmocka_unit_test(theap_trim_gives_idle_pages_up),
      cmocka_unit_test(theap_trim_keeps_a_page_with_a_block_freed_twice),
      cmocka_unit_test(theap_idle_keeps_a_page_with_a_block_freed_twice),
      cmocka_unit_test(theap_is_looked_at_in_parts),
      cmocka_unit_test(theap_look_ends_in_time),
  };
  return cmocka_run_group_tests_name("theap", tests, NULL, NULL);
}
