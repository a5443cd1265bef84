// SPDX-License-Identifier: MIT
// usage.c - what is in use, by a walk; and what a heap has counted, when it ends.
#include "unit.h"

#include "core/heaps/heap.h"
#include "core/pages/remote.h"
#include "core/heaps/subproc.h"

#define SIZE 64
#define CLASS mi_class_of(SIZE)

static void* blocks[UNIT_BLOCKS_MAX];

static int64_t tally_of(mi_heap_t* heap, mi_tally_index_t index) {
  mi_tally_t sum;
  mi_heap_sum_tally(&mi_state.main, heap, &sum);
  return mi_atomic_load_relaxed(&sum.amount[index]);
}

// If this fails, figures drift in a program that deletes heaps while their blocks are freed.
UNIT_TEST(usage_counts_who_is_inside_an_ended_heap) {
  mi_process_setup();
  mi_heap_t* const heap = mi_heap_make(&mi_state.main, NULL);
  void* const p = mi_heap_malloc(heap, MI_CLASS_MAX + 1);
  mi_page_t* const page = unit_page_of(p);
  const int64_t bytes = (int64_t)page->block_size;
  // What a free does, while another thread deletes the heap.
  check(mi_inside_enter(page) == heap);
  mi_heap_end_by_delete(heap);
  check_equal(tally_of(NULL, MI_TALLY_LARGE), bytes);
  mi_tally_add(&heap->tally, MI_TALLY_LARGE, -bytes);
  check_equal(tally_of(NULL, MI_TALLY_LARGE), 0);
  check_equal(tally_of(UNIT_HEAP, MI_TALLY_LARGE), 0);
  mi_inside_leave(heap);
  // The next heap takes the structure, and has nothing of it.
  mi_heap_t* const next = mi_heap_make(&mi_state.main, NULL);
  check(next == heap);
  check_equal(tally_of(next, MI_TALLY_LARGE), 0);
  check_equal(tally_of(NULL, MI_TALLY_LARGE), 0);
  check_equal(unit_tally(LARGE), 0);
  // It was not given back really.
  mi_tally_add(&UNIT_HEAP->tally, MI_TALLY_LARGE, bytes);
  mi_heap_end_by_delete(next);
  mi_free(p);
}

// If this fails, what other threads have freed is reported as in use, or as leaked.
UNIT_TEST(usage_knows_what_others_freed) {
  enum { COUNT = 20 };
  unit_theap();
  puppet_t other;
  puppet_start(&other);
  mi_free(puppet_malloc(&other, 1)); // it has a theap
  for (size_t i = 0; i < COUNT; i++) blocks[i] = mi_malloc(SIZE);
  for (size_t i = 0; i < 5; i++) puppet_free(&other, blocks[i]);
  puppet_end(&other);
  static mi_usage_t usage;
  mi_usage_measure(&mi_state.main, NULL, &usage);
  check_equal(usage.class_blocks[CLASS], COUNT - 5);
}

// If this fails, the totals of heaps that ended are lost when their sub-process ends.
UNIT_TEST(usage_counts_who_was_inside_when_the_subproc_ends) {
  mi_process_setup();
  mi_subproc_t* const subproc = mi_subproc_make();
  mi_heap_t* const heap = mi_heap_make(subproc, NULL);
  mi_heap_end_by_delete(heap);
  mi_tally_add(&heap->tally, MI_TALLY_GUESTS, 3);
  mi_tally_add(&subproc->heap_main.tally, MI_TALLY_GUESTS, 4);
  check(mi_subproc_end_by_destroy(subproc));
  check_equal(unit_tally(GUESTS), 7);
  check(mi_subproc_make() == subproc);
  check_equal(mi_atomic_load_relaxed(&subproc->heap_main.tally.amount[MI_TALLY_GUESTS]), 0);
}

static bool next_is(mi_heap_cursor_t* cursor, mi_heap_t* heap) {
  return mi_heap_next(&mi_state.main, cursor) && cursor->heap == heap;
}

// If this fails, a report that is printed while heaps come and go leaves some out, or never ends.
UNIT_TEST(usage_heaps_are_seen_once_while_they_come_and_go) {
  mi_process_setup();
  mi_heap_t* heap[4];
  for (size_t i = 0; i < 4; i++) heap[i] = mi_heap_make(&mi_state.main, NULL);
  mi_heap_cursor_t cursor = {0};
  check(next_is(&cursor, UNIT_HEAP));
  check(next_is(&cursor, heap[3]));
  check(next_is(&cursor, heap[2]));
  // The one that was seen last ends, and a new one takes its structure.
  mi_heap_end_by_destroy(heap[2]);
  mi_heap_t* const again = mi_heap_make(&mi_state.main, NULL);
  check(again == heap[2]);
  check(next_is(&cursor, heap[1]));
  mi_heap_end_by_destroy(heap[1]);
  check(next_is(&cursor, heap[0]));
  mi_heap_end_by_destroy(heap[0]);
  check(!mi_heap_next(&mi_state.main, &cursor));
}

// If this fails, a program with many sub-processes is charged for some twice.
UNIT_TEST(usage_subprocs_are_seen_once_while_they_come_and_go) {
  mi_process_setup();
  mi_subproc_t* subproc[3];
  for (size_t i = 0; i < 3; i++) subproc[i] = mi_subproc_make();
  size_t sequence = SIZE_MAX;
  check(mi_subproc_before(&sequence) == subproc[2]);
  check(mi_subproc_end_by_destroy(subproc[2]));
  check(mi_subproc_make() == subproc[2]);
  check(mi_subproc_before(&sequence) == subproc[1]);
  check(mi_subproc_end_by_destroy(subproc[0]));
  check(mi_subproc_before(&sequence) == &mi_state.main);
  check(mi_subproc_before(&sequence) == NULL);
}

// If this fails, a report says that much more is in use than there is, because a page changed while
// it was looked at.
UNIT_TEST(usage_holds_a_page_within_its_class) {
  const size_t count = unit_page_blocks(CLASS);
  mi_page_t* const page = unit_make_page(CLASS, count, blocks);
  const mi_page_count_t kept = page->count;
  const uint32_t carved = page->refilled.used;
  static mi_usage_t usage;
  mi_usage_measure(&mi_state.main, NULL, &usage);
  check_equal(usage.in_use_blocks, count);
  check_equal(usage.in_pages, count * SIZE);
  page->count.used = UINT32_MAX;
  mi_usage_measure(&mi_state.main, NULL, &usage);
  check_equal(usage.in_use_blocks, count);
  page->count.used = 0;
  page->place = MI_PLACE_CURRENT; // its owner is about to count that
  mi_usage_measure(&mi_state.main, NULL, &usage);
  check_equal(usage.in_use_blocks, 0);
  page->refilled.used = 0; // has never been a page
  mi_usage_measure(&mi_state.main, NULL, &usage);
  check(usage.in_pages <= count * SIZE);
  page->place = MI_PLACE_NONE;
  page->count = kept;
  page->refilled.used = carved;
  for (size_t i = 0; i < count; i++) mi_free(blocks[i]);
  mi_pool_give_up(page);
}

// If this fails, a block that was freed twice makes a report run for ever.
UNIT_TEST(usage_ends_where_a_list_has_a_loop) {
  mi_block_t* const block = (mi_block_t*)mi_malloc(SIZE);
  mi_theap_t* const theap = unit_theap();
  mi_block_t* const rest = theap->free[CLASS];
  mi_block_t* const next = rest->next;
  rest->next = rest;
  static mi_usage_t usage;
  mi_usage_measure(&mi_state.main, NULL, &usage);
  check_equal(usage.in_use_blocks, 0); // all that the page has, at most
  rest->next = next;
  mi_free(block);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(usage_counts_who_is_inside_an_ended_heap),
      cmocka_unit_test(usage_knows_what_others_freed),
      cmocka_unit_test(usage_counts_who_was_inside_when_the_subproc_ends),
      cmocka_unit_test(usage_heaps_are_seen_once_while_they_come_and_go),
      cmocka_unit_test(usage_subprocs_are_seen_once_while_they_come_and_go),
      cmocka_unit_test(usage_holds_a_page_within_its_class),
      cmocka_unit_test(usage_ends_where_a_list_has_a_loop),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
