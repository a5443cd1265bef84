// SPDX-License-Identifier: MIT
// account.c - where the memory is: parts add up, and each block is in the row of its size, heap and
// thread.
#include "unit.h"

#include "core/heaps/account.h"
#include "core/heaps/heap.h"

#define SIZE 1024
#define CLASS mi_class_of(SIZE)
#define COUNT 400

static mi_account_t account;
static void* blocks[UNIT_BLOCKS_MAX];

static size_t resident_of_arenas(void) {
  size_t bytes = 0;
  MI_FOR_EACH_ARENA(&mi_state.main, arena) {
    bytes += os_fake_resident(arena->start, mi_arena_slices(arena) * MI_SLICE_SIZE);
  }
  return bytes;
}

static void check_sum(const mi_account_sum_t* a, const mi_account_sum_t* b) {
  check_equal(a->pages, b->pages);
  check_equal(a->blocks, b->blocks);
  check_equal(a->carved, b->carved);
  check_equal(a->bytes, b->bytes);
  check_equal(a->resident, b->resident);
  check_equal(a->in_use, b->in_use);
}

// Check that rows and classes add up to all, and rows come from most to least.
static void check_rows(const mi_account_rows_t* rows, size_t count) {
  mi_account_sum_t sum = {0};
  size_t found = 0;
  const mi_account_row_t* last = NULL;
  for (const mi_account_row_t* row = NULL; (row = mi_account_next(rows, row)) != NULL; found++) {
    check(last == NULL || last->sum.resident >= row->sum.resident);
    last = row;
    sum.pages += row->sum.pages;
    sum.blocks += row->sum.blocks;
    sum.carved += row->sum.carved;
    sum.bytes += row->sum.bytes;
    sum.resident += row->sum.resident;
    sum.in_use += row->sum.in_use;
  }
  check_equal(found, count);
  check_sum(&sum, &account.all);
}

static const mi_account_sum_t* row_of(const mi_account_rows_t* rows, uintptr_t key) {
  const mi_account_row_t* row = NULL;
  while ((row = mi_account_next(rows, row)) != NULL && row->key != key) {
  }
  check(row != NULL);
  return &row->sum;
}

// If this fails, a user looks for memory where it is not.
UNIT_TEST(account_adds_up) {
  unit_option(purge_delay, 10000);
  for (size_t i = 0; i < COUNT; i++) unit_fill(blocks[i] = mi_malloc(SIZE), SIZE, 1);
  for (size_t i = 0; i < COUNT; i += 4) mi_free(blocks[i]);
  const size_t large_size = 4 * MI_CLASS_MAX;
  void* const large = mi_malloc(large_size); // a part of it is touched
  void* const gone = mi_malloc(large_size + MI_SLICE_SIZE);
  unit_fill(large, os_fake.page_size, 1);
  unit_fill(gone, large_size, 1);
  mi_free(gone);
  mi_account_make(&account);
  check(account.is_resident_known);
  const size_t live = COUNT - COUNT / 4;
  const mi_account_sum_t* const sum = &account.of_class[CLASS];
  check_equal(sum->blocks, live);
  check_equal(sum->bytes, live * SIZE);
  check_equal(sum->in_use, live * SIZE); // all of them were touched
  check(sum->resident >= COUNT * SIZE);
  check_equal(account.handed[CLASS], COUNT);
  const mi_account_sum_t* const own = &account.of_class[MI_CLASS_COUNT + MI_ACCOUNT_OWN];
  check_equal(own->blocks, 1);
  check(own->bytes >= large_size && own->resident < large_size);
  check_equal(own->in_use, own->resident);
  check_equal(account.all.blocks, live + 1);
  check(account.kept >= large_size);
  check_equal(account.kept_for_ever, 0);
  check_equal(account.all.resident + account.kept - account.outside, resident_of_arenas());
  check_rows(&account.heaps, 1);
  check_rows(&account.threads, 2); // this one, and nobody for the large block
  check_equal(row_of(&account.threads, mi_self_home()->thread_id)->blocks, live);
  check_equal(row_of(&account.threads, MI_OWNER_SINGLE)->blocks, 1);
  mi_account_done(&account);
  mi_free(large);
}

// If this fails, what waits for the next blocks of a size, or can go back, is reported as in use.
UNIT_TEST(account_knows_pages_without_a_block) {
  for (size_t i = 0; i < COUNT; i++) unit_fill(blocks[i] = mi_malloc(SIZE), SIZE, 1);
  for (size_t i = 0; i < COUNT; i++) mi_free(blocks[i]);
  mi_account_make(&account);
  check_equal(account.all.blocks, 0);
  check_equal(account.all.in_use, 0);
  // But for pages of which this thread still takes blocks, which count one by one only.
  check(account.empty <= account.all.resident);
  check(account.all.resident <= account.empty + mi_class_slices(CLASS) * MI_SLICE_SIZE);
  mi_account_done(&account);
}

// If this fails, a program with many heaps sees only some of them, or wrong figures.
UNIT_TEST(account_has_a_row_for_each_heap) {
  enum { HEAPS = 300 };
  mi_heap_t* heaps[HEAPS];
  mi_process_setup();
  for (size_t i = 0; i < HEAPS; i++) {
    heaps[i] = mi_heap_make(&mi_state.main, NULL);
    for (size_t k = 0; k <= i % 5; k++) unit_fill(mi_heap_malloc(heaps[i], SIZE), SIZE, 1);
  }
  mi_account_make(&account);
  check_rows(&account.heaps, HEAPS);
  for (size_t i = 0; i < HEAPS; i++) {
    check_equal(row_of(&account.heaps, (uintptr_t)heaps[i])->blocks, i % 5 + 1);
  }
  mi_account_done(&account);
  for (size_t i = 0; i < HEAPS; i++) mi_heap_end_by_destroy(heaps[i]);
}

// If this fails, a report crashes when memory is short, or leaves out what it has no row for.
UNIT_TEST(account_needs_no_memory) {
  unit_fill(blocks[0] = mi_malloc(SIZE), SIZE, 1);
  os_fake.fail_at[OS_FAKE_MAP] = 1;
  os_fake.is_failing_on = true;
  mi_account_make(&account);
  os_fake.fail_at[OS_FAKE_MAP] = 0;
  os_fake.is_failing_on = false;
  check(mi_account_next(&account.heaps, NULL) == NULL);
  check_sum(&account.heaps.others, &account.all);
  check_sum(&account.threads.others, &account.all);
  check_equal(account.all.blocks, 1);
  mi_account_done(&account);
  mi_free(blocks[0]);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(account_adds_up),
      cmocka_unit_test(account_knows_pages_without_a_block),
      cmocka_unit_test(account_has_a_row_for_each_heap),
      cmocka_unit_test(account_needs_no_memory),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
