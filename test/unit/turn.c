// SPDX-License-Identifier: MIT
// turn.c - tests of threads/refill.c with blocks of which each has a page, or a few share one.
#include "unit.h"

#include "core/pages/page.h"
#include "core/threads/portion.h"
#include "core/threads/refill.h"
#include "core/threads/theap.h"

#define SIZE 256
#define CLASS mi_class_of(SIZE)

static void* blocks[2 * UNIT_BLOCKS_MAX];
static puppet_t other;

// A block above MI_SMALL_MAX that fills its page.
static void* malloc_long(void) { return mi_malloc(mi_bits_max(MI_SLICE_SIZE, 4 * MI_SMALL_MAX)); }

// If this fails, a large program that replaces blocks of many sizes at its peak gives up all of its
// empty pages for each page that it makes (3,300 instructions for each block of 33 to 64 KB).
UNIT_TEST_PAGE_SIZES(turn_seldom_gives_up_pages_at_the_peak_of_a_large_heap) {
  mi_theap_t* const theap = unit_theap();
  const mi_counters_t* const now = &mi_state.main.count;
  unit_make_peak(2048); // of which 1/1024 is two slices
  const size_t count = unit_fill_page(CLASS, blocks);
  void* const kept = mi_malloc(SIZE);
  for (size_t i = 0; i < count; i++) mi_free(blocks[i]);
  check(theap->queue[CLASS].last != NULL);
  void* const rest = mi_malloc((size_t)(now->committed_peak - now->committed));
  theap->peak_seen = now->committed; // as if it had just done so
  void* p[4];
  for (size_t i = 0; i < 4; i++) {
    p[i] = mi_malloc(mi_class_size(mi_class_of(MI_SLICE_SIZE) - i)); // a page each
    check_equal(theap->queue[CLASS].last == NULL, i == 3);
  }
  check_equal(now->committed, theap->peak_seen);
  for (size_t i = 0; i < 4; i++) mi_free(p[i]);
  mi_free(kept);
  mi_free(rest);
  unit_check_valid();
}

// If this fails, a block of which each has a page takes twice the time, or the rare things are
// never done while a program replaces such blocks.
UNIT_TEST_PAGE_SIZES(turn_takes_the_next_page) {
  mi_theap_t* const theap = unit_theap();
  void* p[2] = {malloc_long(), malloc_long()};
  // In a small heap the rare things are done with each page.
  uint32_t before = theap->heartbeat;
  mi_free(p[0]);
  p[0] = malloc_long();
  check(theap->heartbeat > before);
  void* const much = mi_malloc(MI_SMALL_HEAP);
  before = theap->heartbeat;
  for (size_t i = 1; i <= 10; i++) {
    const uint32_t left = theap->quick_left;
    const int32_t before_trim = theap->trim_left; // REFILL-5
    void* const was = p[i % 2];
    mi_free(was);
    p[i % 2] = malloc_long();
    check(p[i % 2] == was);
    check_equal(theap->quick_left, left - 1);
    check_equal(theap->trim_left, before_trim - (int32_t)unit_page_of(was)->block_size);
  }
  check_equal(theap->heartbeat, before);
  for (size_t i = 0; i < 2 * MI_QUICK_REFILLS; i++) {
    mi_free(p[i % 2]);
    p[i % 2] = malloc_long();
  }
  check(theap->heartbeat >= before + MI_QUICK_REFILLS);
  // Of each list that is to be cut for a sample the slow path must know.
  theap->sample_is_on = true;
  const uint32_t later = theap->heartbeat;
  mi_free(p[0]);
  p[0] = malloc_long();
  check(theap->heartbeat > later);
  theap->sample_is_on = false;
  mi_free(p[0]);
  mi_free(p[1]);
  mi_free(much);
  unit_check_valid();
}

// If this fails, the rare things are never done while a program only allocates such blocks.
UNIT_TEST(turn_ends_at_the_cadence) {
  void* const much = mi_malloc(MI_SMALL_HEAP);
  const uint32_t before = unit_theap()->heartbeat;
  void* p[2 * MI_QUICK_REFILLS];
  for (size_t i = 0; i < 2 * MI_QUICK_REFILLS; i++) p[i] = malloc_long();
  check(unit_theap()->heartbeat >= before + MI_QUICK_REFILLS);
  for (size_t i = 0; i < 2 * MI_QUICK_REFILLS; i++) mi_free(p[i]);
  mi_free(much);
  unit_check_valid();
}

// If this fails, the blocks of a page that other threads freed wait while the thread uses others;
// or a damaged list is followed.
UNIT_TEST_PAGE_SIZES(turn_only_where_nothing_else_is_to_do) {
  puppet_start(&other);
  void* const much = mi_malloc(MI_SMALL_HEAP);
  void* const first = malloc_long();
  void* const second = malloc_long();
  puppet_free(&other, second); // its page is the current one
  mi_free(first);
  check(malloc_long() == second);
  check(malloc_long() == first);
  mi_free(second);
  mi_free(first);
  mi_free(much);
  puppet_end(&other);
  unit_check_valid();
}

// Return a class above those of portions of which a page has at least so many blocks.
static size_t class_of_page_with(size_t count) {
  size_t c = mi_class_of(MI_CLASS_MAX);
  while (unit_page_blocks(c) < count) c--;
  check(mi_portion_is_above(c) && mi_class_is_medium(c));
  return c;
}

// HOLD-5. If this fails, what a thread has free of a page is lost when the purge thread asks for it
// just before the thread allocates from it.
UNIT_TEST_PAGE_SIZES(turn_not_while_the_list_has_blocks) {
  mi_theap_t* const home = unit_theap();
  mi_atomic_store_relaxed(&mi_state.purger, MI_PURGER_AWAKE);
  void* const much = mi_malloc(MI_SMALL_HEAP);
  const size_t c = class_of_page_with(3);
  const size_t count = 2 * unit_page_blocks(c);
  for (size_t i = 0; i < count; i++) blocks[i] = mi_malloc(mi_class_size(c));
  mi_page_t* const page = unit_page_of(blocks[count - 1]);
  mi_free(blocks[count - 2]);
  mi_free(blocks[count - 1]);
  mi_free(blocks[0]); // its page waits in the queue
  check(mi_malloc(mi_class_size(c)) == blocks[count - 1]);
  check(home->free[c] == blocks[count - 2] && home->queue[c].last != NULL);
  const uint32_t used = mi_part_used(page);
  mi_atomic_store_relaxed(&home->asked, MI_HOLD_ASKED);
  check(mi_malloc(mi_class_size(c)) == blocks[count - 2]);
  check_equal(mi_atomic_load_relaxed(&home->asked), MI_HOLD_NONE);
  check(mi_theap_current(home, c) == page);
  check_equal(mi_part_used(page), used);
  check(mi_malloc(mi_class_size(c)) == blocks[0]);
  for (size_t i = 0; i < count; i++) mi_free(blocks[i]);
  mi_free(much);
  unit_check_valid();
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(turn_seldom_gives_up_pages_at_the_peak_of_a_large_heap),
      cmocka_unit_test(turn_takes_the_next_page),
      cmocka_unit_test(turn_ends_at_the_cadence),
      cmocka_unit_test(turn_only_where_nothing_else_is_to_do),
      cmocka_unit_test(turn_not_while_the_list_has_blocks),
  };
  return cmocka_run_group_tests_name("turn", tests, NULL, NULL);
}
