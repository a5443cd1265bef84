// SPDX-License-Identifier: MIT
// page.c - tests of pages/page.c: carving, LIFE-1, LIFE-2, PAGE-1 and PAGE-2, collecting what
// others freed.
#include "unit.h"

#include "core/pages/page.h"
#include "core/pages/remote.h"
#include "core/threads/theap.h"
#include "core/threads/refill.h"

static void* blocks[UNIT_BLOCKS_MAX];

static size_t list_length(const mi_block_t* list) {
  size_t length = 0;
  for (; list != NULL; list = list->next) length++;
  return length;
}

// Takes all blocks in use back and gives the page's slices to the arena.
static void drop(mi_page_t* page) {
  mi_page_collect(page);
  page->local_free = NULL;
  page->count.used = 0;
  mi_page_release(UNIT_HEAP, page);
}

// If this fails, blocks overlap, lie outside their page, or a page holds fewer than it should.
UNIT_TEST_PAGE_SIZES(page_carves_every_block_once) {
  for (size_t c = 0; c < MI_CLASS_COUNT; c++) {
    mi_page_t* const page = mi_refill_make_page(unit_theap(), c);
    check(page != NULL && page->is_zero && page->block_size == mi_class_size(c));
    check_equal(page->slice_count, mi_class_slices(c));
    check_equal(page->reserved, unit_page_blocks(c));
    uint8_t* expected = page->start;
    mi_block_t* list;
    while ((list = mi_page_carve(page, &(uint32_t){0})) != NULL) {
      check(page->count.is_fresh_list);
      for (; list != NULL; list = list->next) {
        check((uint8_t*)list == expected); // ascending, without gaps
        check(unit_is_zero(list + 1, page->block_size - sizeof(*list)));
        check(mi_pagemap_find(list) == page && mi_page_block_of(page, list) == list);
        expected += page->block_size;
      }
      check_equal(page->count.used, mi_page_capacity(page)); // LIFE-1
      check_equal((size_t)(expected - page->start), mi_page_capacity(page) * page->block_size);
      check(mi_page_is_valid(page));
    }
    check_equal(mi_page_capacity(page), page->reserved);
    drop(page);
    mi_collect_all(MI_FORCE);
  }
  unit_check_empty();
}

// If this fails, a fresh page touches memory that nobody asked for.
UNIT_TEST(page_carves_in_bounded_steps) {
  for (size_t c = 0; c < MI_CLASS_COUNT; c++) {
    mi_page_t* const page = mi_refill_make_page(unit_theap(), c);
    const size_t first = mi_bits_max(mi_bits_min(4096, MI_CARVE_MAX_BYTES), page->block_size);
    size_t before = 0;
    while (unit_carve(page) != NULL) {
      const size_t bytes = mi_page_capacity(page) * page->block_size;
      const size_t step = bytes - before;
      check(step <= mi_bits_max(MI_CARVE_MAX_BYTES, page->block_size));
      if (before == 0) check(step <= first);
      check(step <= mi_bits_max(before, first)); // at most doubled
      before = bytes;
      if (os_fake_resident(page->start, page->slice_count * MI_SLICE_SIZE) >
          mi_bits_align_up(bytes, 4096)) {
        check(!"PAGE-1: untouched past the capacity");
      }
    }
    drop(page);
    mi_collect_all(MI_FORCE);
  }
}

// If this fails, calloc hands out what an earlier owner of the memory left there.
UNIT_TEST_PAGE_SIZES(page_knows_that_reused_memory_is_dirty) {
  const size_t c = mi_class_of(256);
  mi_free(mi_malloc(256)); // the first page of a class starts on clean memory
  mi_page_t* page = unit_make_page(c, 0, blocks);
  memset(page->start, 1, MI_SLICE_SIZE);
  page->local_free = NULL;
  mi_page_release(UNIT_HEAP, page);
  page = mi_refill_make_page(unit_theap(), c);
  check(!page->is_zero);
  check(unit_carve(page) != NULL);
  check(!page->count.is_fresh_list);
  drop(page);
  mi_collect_all(MI_FORCE);
  page = mi_refill_make_page(unit_theap(), c);
  check(page->is_zero); // the system has cleared it
  drop(page);
}

// If this fails, small heaps hold what large blocks once used in pages of which they use a few KiB.
UNIT_TEST_PAGE_SIZES(page_first_of_a_class_starts_lean) {
  mi_theap_t* const theap = unit_theap();
  const size_t c = mi_class_of(100);
  const size_t size = mi_class_slices(c) * MI_SLICE_SIZE;
  if (size <= os_fake.page_size) return;
  drop(unit_make_page(c, 0, blocks));
  const size_t purges = os_fake.count[OS_FAKE_PURGE];
  // What the page before has used goes back.
  mi_page_t* page = mi_refill_make_page(theap, c);
  check_equal(os_fake_resident(page->start, size), 0);
  check(page->is_zero && !page->is_resident);
  check_equal(os_fake.count[OS_FAKE_PURGE], purges + 1);
  // Not worth a system call, if that was little.
  check(unit_carve(page) != NULL);
  drop(page);
  page = mi_refill_make_page(theap, c);
  check(!page->is_zero && !page->is_resident);
  check_equal(os_fake.count[OS_FAKE_PURGE], purges + 1);
  while (unit_carve(page) != NULL) {
  }
  drop(page);
  // A class that fills its first page may fill the next.
  check(mi_malloc(100) != NULL);
  drop(unit_make_page(c, 0, blocks));
  const size_t later = os_fake.count[OS_FAKE_PURGE];
  page = mi_refill_make_page(theap, c);
  check(page->is_resident && os_fake_resident(page->start, size) > os_fake.page_size);
  check_equal(os_fake.count[OS_FAKE_PURGE], later);
  drop(page);
  // In a heap that is large for its threads, what may lie there is a small part.
  mi_collect_all(MI_FORCE);
  drop(unit_make_page(c, 0, blocks));
  const size_t last = os_fake.count[OS_FAKE_PURGE];
  const int64_t more = (int64_t)(2 * MI_CLASS_COUNT * MI_SLICE_SIZE);
  mi_count_add(&mi_state.main.count.committed, more);
  page = mi_refill_make_page(theap, c);
  mi_count_add(&mi_state.main.count.committed, -more);
  check(page->is_resident);
  check_equal(os_fake.count[OS_FAKE_PURGE], last);
  drop(page);
}

// If this fails, stale descriptors make foreign addresses look like ours.
UNIT_TEST_PAGE_SIZES(page_release_clears_all_descriptors) {
  size_t c = 0;
  while (mi_class_slices(c) < 3) c++;
  mi_page_t* const page = unit_make_page(c, 0, blocks);
  uint8_t* const start = page->start;
  const size_t size = page->slice_count * MI_SLICE_SIZE;
  for (size_t i = 0; i < size; i += MI_SLICE_SIZE) check(mi_pagemap_find(start + i) == page);
  const int64_t pages = mi_state.main.count.pages;
  drop(page);
  for (size_t i = 0; i < size; i += MI_SLICE_SIZE) {
    check(mi_pagemap_find(start + i) == NULL); // PAGEMAP-3
  }
  check_equal(mi_state.main.count.pages, pages - 1);
  unit_check_empty();
}

static void free_first_blocks(void* arg) {
  const size_t count = *(size_t*)arg;
  for (size_t i = 0; i < count; i++) mi_free(blocks[i]);
}

// If this fails, memory that other threads free is never used again, or is used twice.
UNIT_TEST_PAGE_SIZES(page_collects_what_others_freed) {
  size_t remote = 10;
  mi_page_t* const page = unit_make_page(mi_class_of(100), 30, blocks);
  const size_t local = list_length(page->local_free);
  unit_on_thread(&free_first_blocks, &remote);
  check_equal(page->count.used, 30); // not counted before the owner looks
  mi_page_collect(page);
  check_equal(page->count.used, 20);
  check_equal(list_length(page->local_free), local + 10);
  check(mi_page_is_valid(page));
  mi_page_collect(page);
  check_equal(page->count.used, 20);
  check_equal(hooks_fake.error_count, 0);
  drop(page);
}

// If this fails, a write after free by the program makes the allocator crash or run in a circle.
UNIT_TEST_PAGE_SIZES(page_collect_stops_at_a_corrupt_link) {
  for (size_t kind = 0; kind < 3; kind++) {
    size_t remote = 10;
    mi_page_t* const page = unit_make_page(mi_class_of(100), 30, blocks);
    unit_on_thread(&free_first_blocks, &remote);
    mi_block_t* const victim = (mi_block_t*)blocks[5];
    if (kind == 0) victim->next = (mi_block_t*)blocks[9]; // a circle
    if (kind == 1) victim->next = (mi_block_t*)((uintptr_t)blocks[4] + 16); // inside a block
    if (kind == 2) victim->next = (mi_block_t*)(page->start + page->slice_count * MI_SLICE_SIZE);
    mi_page_collect(page);
    check_equal(hooks_fake.count[MI_ERROR_CORRUPT_LIST], kind + 1);
    // What hangs behind the damage stays in use, at most nine of the ten.
    check(page->count.used >= 20 && page->count.used < 30);
    check(kind == 0 || page->count.used == 25);
    check(mi_page_is_valid(page));
    drop(page);
  }
}

// If this fails, the checks of the debug build do not see a broken page.
UNIT_TEST_PAGE_SIZES(page_is_valid_notices_damage) {
  size_t c = 0;
  while (mi_class_slices(c) < 2) c++;
  mi_page_t* const page = unit_make_page(c, 3, blocks);
  check(mi_page_is_valid(page));
  page->count.used++;
  check(!mi_page_is_valid(page));
  page->count.used--;
  page->place = MI_PLACE_CURRENT;
  check(!mi_page_is_valid(page));
  page->place = MI_PLACE_NONE;
  mi_block_t* const head = page->local_free;
  page->local_free = (mi_block_t*)((uintptr_t)head + 8);
  page->local_free->next = head->next;
  check(!mi_page_is_valid(page));
  page->local_free = head;
  mi_page_t* const interior = mi_pagemap_slice(page->start + MI_SLICE_SIZE);
  interior->first = interior;
  check(!mi_page_is_valid(page));
  interior->first = page;
  check(mi_page_is_valid(page));
  drop(page);
}

// If this fails, running out of memory crashes.
UNIT_TEST_PAGE_SIZES(page_make_fails_without_memory) {
  mi_theap_t* const theap = unit_theap();
  os_fake.is_failing_on = true;
  os_fake.fail_at[OS_FAKE_FALLIBLE] = 1;
  const size_t pages = theap->page_count;
  check(mi_refill_make_page(theap, 5) == NULL);
  check_equal(theap->page_count, pages);
  check_equal(mi_state.main.count.pages, 0);
}

// If this fails, pages are visited in the wrong order, or one is lost from its queue.
UNIT_TEST(page_queue_is_first_in_first_out) {
  mi_theap_t* const theap = unit_theap();
  mi_page_queue_t* const queue = &theap->queue[0];
  mi_page_t page[4];
  memset(page, 0, sizeof(page));
  for (size_t order = 0; order < 24; order++) {
    for (size_t i = 0; i < 4; i++) mi_life_enqueue(theap, &page[i]);
    check(mi_life_first(queue) == &page[0] && queue->last == &page[3]);
    bool is_in[4] = {true, true, true, true};
    size_t code = order;
    for (size_t left = 4; left > 0; left--) {
      // Remove the (code % left)-th of those that are left.
      size_t skip = code % left;
      code /= left;
      size_t i = 0;
      while (!is_in[i] || skip > 0) skip -= is_in[i++] ? 1 : 0;
      mi_life_dequeue(theap, &page[i]);
      is_in[i] = false;
      check(page[i].place == MI_PLACE_NONE && page[i].next == NULL && page[i].prev == NULL);
      const mi_page_t* p = mi_life_first(queue);
      for (size_t k = 0; k < 4; k++) {
        if (!is_in[k]) continue;
        check(p == &page[k]);
        p = mi_life_after(queue, p);
      }
      check(p == NULL);
    }
    check(queue->last == NULL);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(page_carves_every_block_once),
      cmocka_unit_test(page_carves_in_bounded_steps),
      cmocka_unit_test(page_knows_that_reused_memory_is_dirty),
      cmocka_unit_test(page_first_of_a_class_starts_lean),
      cmocka_unit_test(page_release_clears_all_descriptors),
      cmocka_unit_test(page_collects_what_others_freed),
      cmocka_unit_test(page_collect_stops_at_a_corrupt_link),
      cmocka_unit_test(page_is_valid_notices_damage),
      cmocka_unit_test(page_make_fails_without_memory),
      cmocka_unit_test(page_queue_is_first_in_first_out),
  };
  return cmocka_run_group_tests_name("page", tests, NULL, NULL);
}
