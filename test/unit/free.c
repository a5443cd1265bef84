// SPDX-License-Identifier: MIT
// free.c - tests of front/free.c: where a free goes, and what is said about wrong ones.
#include "unit.h"

#include "core/pages/page.h"
#include "core/threads/theap.h"

#define SIZE 256

static void* blocks[UNIT_BLOCKS_MAX];
static puppet_t other;

// If this fails, a free in error handling code destroys the reason of the error.
UNIT_TEST_PAGE_SIZES(free_keeps_errno) {
  puppet_start(&other);
  unit_option(purge_delay, 0);
  void* const small = mi_malloc(SIZE);
  void* const large = mi_malloc(MI_CLASS_MAX * 2);
  void* const remote = puppet_malloc(&other, SIZE);
  errno = 77;
  mi_free(small);
  mi_free(remote);
  mi_free(large);
  mi_free(NULL);
  mi_free(&errno);
  check_equal(errno, 77);
  check_equal(hooks_fake.error_count, 1);
  puppet_end(&other);
}

// If this fails, free(NULL) or a free before the first malloc crashes.
UNIT_TEST_PAGE_SIZES(free_as_the_first_call) {
  mi_free(NULL);
  check_equal(hooks_fake.error_count, 0);
  int local = 0;
  mi_free(&local);
  check(hooks_fake.count[MI_ERROR_INVALID_POINTER] == 1 && hooks_fake.report.p == &local);
  check_equal(mi_usable_size(NULL), 0);
  check_equal(mi_usable_size(&local), 0);
}

// If this fails, a block freed twice in a row is handed out twice.
UNIT_TEST_PAGE_SIZES(free_twice_in_a_row_is_reported) {
  static const size_t sizes[] = {8, 100, 1024, 4096};
  for (size_t i = 0; i < 4; i++) {
    const size_t c = mi_class_of(sizes[i]);
    const size_t count = unit_fill_page(c, blocks);
    mi_free(blocks[0]);
    mi_free(blocks[0]);
    void* const p = mi_malloc(sizes[i]);
    void* const q = mi_malloc(sizes[i]);
    check_equal(hooks_fake.count[MI_ERROR_DOUBLE_FREE], i + 1);
    check(hooks_fake.report.p == blocks[0] && hooks_fake.report.size == mi_class_size(c));
    check(p != q);
    blocks[0] = p;
    mi_free(q);
    for (size_t k = 0; k < count; k++) mi_free(blocks[k]);
  }
  check_equal(hooks_fake.error_count, 4);
}

// If this fails, freeing the last block in use twice gives a page back that is in use.
UNIT_TEST_PAGE_SIZES(free_twice_does_not_empty_a_page) {
  const size_t c = mi_class_of(SIZE);
  const size_t count = unit_fill_page(c, blocks);
  void* const next = mi_malloc(SIZE); // the full page is not current any more
  mi_page_t* const page = unit_page_of(blocks[0]);
  unit_fill(blocks[0], SIZE, 1);
  for (size_t i = 2; i < count; i++) mi_free(blocks[i]);
  check_equal(mi_part_used(page), 2);
  mi_free(blocks[1]);
  mi_free(blocks[1]);
  check(mi_pagemap_find(blocks[0]) == page && unit_is_filled(blocks[0], SIZE, 1));
  // The block in use is never handed out.
  for (size_t i = 0; i < count * 2; i++) {
    void* const p = mi_malloc(SIZE);
    check(p != NULL && p != blocks[0]);
    memset(p, 0, SIZE);
  }
  check(unit_is_filled(blocks[0], SIZE, 1));
  check_equal(hooks_fake.count[MI_ERROR_DOUBLE_FREE], 1);
  mi_free(next);
}

// If this fails, an address inside a block is freed as if it were one.
UNIT_TEST_PAGE_SIZES(free_inside_a_block_of_another_thread) {
  puppet_start(&other);
  uint8_t* const p = (uint8_t*)puppet_malloc(&other, SIZE);
  for (size_t shift = 8; shift < SIZE; shift += 24) {
    const size_t errors = hooks_fake.count[MI_ERROR_INTERIOR_POINTER];
    mi_free(p + shift);
    check_equal(hooks_fake.count[MI_ERROR_INTERIOR_POINTER], errors + 1);
    check(hooks_fake.report.p == p + shift);
  }
  mi_page_t* const page = unit_page_of(p);
  check_equal(mi_atomic_load_relaxed(&page->thread_free), MI_REMOTE_OWNED);
  puppet_free(&other, p);
  puppet_end(&other);
}

// If this fails, blocks with an aligned offset cannot be freed, or their neighbours are.
UNIT_TEST_PAGE_SIZES(free_finds_the_start_of_a_block) {
  puppet_start(&other);
  for (size_t size = 20; size < MI_SLICE_SIZE / 2; size = size * 2 + 3) {
    uint8_t* const p =
        (uint8_t*)mi_aligned_alloc_at(mi_self_theap(), size, 64, 8, MI_UNINITIALIZED);
    uint8_t* const q =
        (uint8_t*)mi_aligned_alloc_at(mi_self_theap(), size, 64, 24, MI_UNINITIALIZED);
    mi_page_t* const page = unit_page_of(p);
    check(((uintptr_t)p + 8) % 64 == 0 && ((uintptr_t)q + 24) % 64 == 0);
    check(mi_usable_size(p) >= size && mi_usable_size(p) < page->block_size);
    memset(p, 1, mi_usable_size(p));
    memset(q, 2, mi_usable_size(q));
    void* const start = mi_page_block_of(page, p);
    mi_free(p);
    check(page->local_free == start);
    puppet_free(&other, q);
  }
  check_equal(hooks_fake.error_count, 0);
  puppet_end(&other);
  mi_collect_all(MI_FORCE);
  unit_check_empty();
}

// If this fails, memory that was given back is taken for a block.
UNIT_TEST_PAGE_SIZES(free_of_released_memory_is_reported) {
  void* const p = mi_malloc(SIZE);
  mi_free(p);
  mi_collect_all(MI_FORCE);
  check(!mi_is_known_address(p));
  mi_free(p);
  check_equal(hooks_fake.count[MI_ERROR_INVALID_POINTER], 1);
  unit_check_empty();
}

// If this fails, blocks get lost when a program starts its second thread.
UNIT_TEST_PAGE_SIZES(free_with_one_thread_and_with_many) {
  for (size_t round = 0; round < 3; round++) {
    os_fake.is_single_threaded = round == 0;
    uint64_t random = 9;
    memset(blocks, 0, sizeof(blocks));
    for (size_t i = 0; i < 30000; i++) {
      void** const slot = &blocks[random_below(&random, 2000)];
      mi_free(*slot);
      *slot = mi_malloc(1 + random_below(&random, 2000));
      // In the third round both ways take turns.
      if (round == 2) os_fake.is_single_threaded = i % 100 < 50;
    }
    for (size_t i = 0; i < 2000; i++) mi_free(blocks[i]);
    unit_check_valid();
    mi_collect_all(MI_FORCE);
    unit_check_empty();
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(free_keeps_errno),
      cmocka_unit_test(free_as_the_first_call),
      cmocka_unit_test(free_twice_in_a_row_is_reported),
      cmocka_unit_test(free_twice_does_not_empty_a_page),
      cmocka_unit_test(free_inside_a_block_of_another_thread),
      cmocka_unit_test(free_finds_the_start_of_a_block),
      cmocka_unit_test(free_of_released_memory_is_reported),
      cmocka_unit_test(free_with_one_thread_and_with_many),
  };
  return cmocka_run_group_tests_name("free", tests, NULL, NULL);
}
