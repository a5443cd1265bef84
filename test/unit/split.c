// SPDX-License-Identifier: MIT
// Unit tests for threads/split.c: which class serves a size, while there are few blocks and many.
#include "unit.h"

#include "core/threads/crowd.h"

static void* blocks[UNIT_BLOCKS_MAX];

// The doubling that most tests use: 144, 160, ... 256 bytes.
enum { FIRST = 9, TOP = 16 };

static size_t served_by(mi_theap_t* theap, size_t size_class) {
  return mi_split_class(theap, mi_class_size(size_class));
}

static size_t class_of_block(const void* p) { return unit_page_of(p)->size_class; }

// Allocates blocks of the size of `size_class` until the page that they come from is full. Returns
// how many these are; all come from one class.
static size_t fill(size_t size_class, void** p) {
  const size_t size = mi_class_size(size_class);
  p[0] = mi_malloc(size);
  const size_t server = class_of_block(p[0]);
  size_t count = 1;
  const mi_theap_t* const theap = unit_theap();
  while (theap->free[server] != NULL || mi_page_has_free(mi_theap_current(theap, server))) {
    p[count] = mi_malloc(size);
    check_equal(class_of_block(p[count]), server);
    count++;
  }
  return count;
}

static void free_all(size_t count) {
  for (size_t i = 0; i < count; i++) mi_free(blocks[i]);
}

// If this fails, a program with few blocks has a page for each size of them.
UNIT_TEST(split_begins_wide) {
  mi_theap_t* const theap = unit_theap();
  for (size_t size = 0; size <= MI_CLASS_MAX; size++) {
    const size_t own = mi_class_of(size);
    const bool is_wide = MI_HAS_SPLIT && size > 128 && size <= MI_SLICE_SIZE;
    const size_t server = mi_split_class(theap, size);
    check_equal(server, is_wide ? mi_bits_align_up(own, 8) : own);
    check(mi_class_size(server) >= size);
    check(!is_wide || mi_class_size(server) < 2 * size);
    check(mi_split_least_size(server) <= mi_bits_max(size, 1));
  }
}

// Makes a page of a class with free blocks, in the queue of the thread or in the pool.
static mi_page_t* make_page_with_free(size_t size_class, bool is_pooled, void** p) {
  mi_page_t* const page = unit_make_page(size_class, 3, p);
  if (is_pooled) {
    mi_pool_give_up(page);
  } else {
    mi_life_enqueue(unit_theap(), page);
  }
  return page;
}

// If this fails, a program whose blocks become shorter grows, although the pages of the longer ones
// have free blocks; or it wastes more than a fourth of a block, or memory while there is enough.
UNIT_TEST(split_leans_on_a_wider_class_before_a_peak) {
  enum { OWN = FIRST + 2, NEAR = FIRST + 3 }; // 176 and 192 bytes; then comes TOP
  const mi_counters_t* const now = &mi_state.main.count;
  mi_theap_t* const theap = unit_theap();
  unit_make_peak(1024);
  void* const much = mi_malloc(MI_SMALL_HEAP);
  for (size_t turn = 0; turn < 2; turn++) { // the queue, the pool
    size_t count = 0;
    while (served_by(theap, OWN) != OWN) count += fill(OWN, blocks + count);
    count += fill(OWN, blocks + count);
    void* beside[12];
    make_page_with_free(TOP, turn == 1, beside);
    void* const rest = mi_malloc((size_t)(now->committed_peak - now->committed));
    blocks[count++] = mi_malloc(mi_class_size(OWN)); // TOP is too wide
    check_equal(class_of_block(blocks[count - 1]), OWN);
    count += fill(OWN, blocks + count);
    const mi_page_t* const page = make_page_with_free(NEAR, turn == 1, beside + 3);
    mi_page_t* const fits = make_page_with_free(OWN, true, beside + 9); // is in the pool
    blocks[count++] = mi_malloc(mi_class_size(OWN));
    check(unit_page_of(blocks[count - 1]) == fits);
    count += fill(OWN, blocks + count);
    mi_count_add(&mi_state.main.count.threads, 1); // not beside another thread
    blocks[count++] = mi_malloc(mi_class_size(OWN));
    check_equal(class_of_block(blocks[count - 1]), OWN);
    mi_count_add(&mi_state.main.count.threads, -1);
    count += fill(OWN, blocks + count);
    void* const p = mi_malloc(mi_class_size(OWN));
    check(unit_page_of(p) == page);
    check_equal(served_by(theap, OWN), NEAR);
    blocks[count++] = p;
    count += fill(NEAR, blocks + count);
    blocks[count++] = mi_malloc(mi_class_size(OWN)); // nothing is left of it
    check_equal(served_by(theap, OWN), OWN);
    check(mi_split_is_valid(theap));
    mi_free(rest);
    mi_purge_everything(&mi_state.main); // below the peak there is memory
    count += fill(OWN, blocks + count);
    make_page_with_free(NEAR, turn == 1, beside + 6);
    blocks[count++] = mi_malloc(mi_class_size(OWN));
    check_equal(class_of_block(blocks[count - 1]), OWN);
    free_all(count);
    for (size_t i = 0; i < 12; i++) mi_free(beside[i]);
    mi_flush_theap(theap);
    mi_purge_everything(&mi_state.main);
  }
  mi_free(much);
  unit_check_valid();
}

// If this fails, a small program has blocks that are too long instead of an OS page more.
UNIT_TEST(split_leans_on_none_in_a_small_heap) {
  enum { OWN = FIRST + 2, NEAR = FIRST + 3 };
  mi_theap_t* const theap = unit_theap();
  size_t count = 0;
  while (served_by(theap, OWN) != OWN) count += fill(OWN, blocks + count);
  count += fill(OWN, blocks + count);
  void* beside[3];
  make_page_with_free(NEAR, false, beside);
  check_equal(mi_state.main.count.committed, mi_state.main.count.committed_peak);
  blocks[count++] = mi_malloc(mi_class_size(OWN));
  check_equal(class_of_block(blocks[count - 1]), OWN);
  free_all(count);
  for (size_t i = 0; i < 3; i++) mi_free(beside[i]);
  unit_check_valid();
}

// If this fails, a block of an aligned request is not aligned.
UNIT_TEST(split_keeps_the_alignment) {
  mi_theap_t* const theap = unit_theap();
  uint64_t random = 7;
  for (size_t round = 0; round < 3000; round++) {
    const size_t size = 129 + random_below(&random, MI_SLICE_SIZE - 129);
    const size_t c = mi_split_choose(theap, size);
    const size_t own = mi_class_size(mi_class_of(size));
    check_equal(mi_class_size(c) % (own & (0 - own)), 0);
    check(mi_split_is_valid(theap));
    // Pages come and go, in any order.
    mi_free(blocks[round % 300]);
    blocks[round % 300] = mi_malloc(size);
    if (round % 500 == 0) mi_flush_idle(theap);
  }
  free_all(300);
}

// If this fails, many blocks of a few sizes waste up to half of their memory, or one size of a
// doubling takes the others with it.
UNIT_TEST(split_fits_many_blocks) {
  mi_theap_t* const theap = unit_theap();
  static const size_t servers[] = {TOP, FIRST + 3, FIRST + 1, FIRST, FIRST};
  size_t count = 0;
  for (size_t i = 0; i < sizeof(servers) / sizeof(servers[0]); i++) {
    check_equal(served_by(theap, FIRST), i == 0 ? (size_t)TOP : servers[i - 1]);
    const size_t more = fill(FIRST, blocks + count);
    check_equal(class_of_block(blocks[count]), servers[i]);
    count += more;
  }
  for (size_t c = FIRST; c <= TOP; c++) {
    check_equal(served_by(theap, c), c == FIRST       ? FIRST
                                     : c == FIRST + 1 ? FIRST + 1
                                     : c <= FIRST + 3 ? FIRST + 3
                                                      : TOP);
  }
  check_equal(served_by(theap, TOP + 1), TOP + 8); // another doubling
  free_all(count);
}

// If this fails, a class is split although its own size asks, which needs no other.
UNIT_TEST(split_waits_for_another_size) {
  mi_theap_t* const theap = unit_theap();
  size_t count = fill(TOP, blocks);
  count += fill(TOP, blocks + count);
  for (size_t c = FIRST; c <= TOP; c++) check_equal(served_by(theap, c), TOP);
  free_all(count);
}

// If this fails, a free block in the page of a class is not used, and memory grows.
UNIT_TEST(split_uses_free_blocks_at_hand) {
  mi_theap_t* const theap = unit_theap();
  mi_page_t* const page = unit_make_page(FIRST, 3, blocks);
  mi_life_enqueue(theap, page);
  void* const p = mi_malloc(mi_class_size(FIRST));
  check(unit_page_of(p) == page);
  check_equal(served_by(theap, FIRST), FIRST);
  check_equal(served_by(theap, FIRST + 1), TOP);
  mi_free(p);
  free_all(3);
}

// If this fails, pages that ended threads left are not used by those that begin.
UNIT_TEST(split_uses_pages_of_the_pool) {
  mi_theap_t* const theap = unit_theap();
  mi_page_t* const page = unit_make_page(FIRST + 1, 3, blocks);
  mi_pool_give_up(page);
  check(mi_pool_has(UNIT_HEAP, FIRST + 1));
  // While the class that serves the size has blocks, these are used.
  void* const q = mi_malloc(mi_class_size(TOP));
  void* p = mi_malloc(mi_class_size(FIRST));
  check_equal(class_of_block(p), TOP);
  mi_free(p);
  mi_free(q);
  mi_flush_theap(theap);
  p = mi_malloc(mi_class_size(FIRST));
  check(unit_page_of(p) == page);
  check(!mi_pool_has(UNIT_HEAP, FIRST + 1));
  check_equal(served_by(theap, FIRST + 1), FIRST + 1);
  check_equal(served_by(theap, FIRST + 2), TOP);
  mi_free(p);
  free_all(3);
}

// If this fails, a thread that once had many blocks has a page for each size for ever.
UNIT_TEST(split_ends_with_the_pages) {
  mi_theap_t* const theap = unit_theap();
  size_t count = 0;
  while (served_by(theap, FIRST) != FIRST) count += fill(FIRST, blocks + count);
  count += fill(FIRST, blocks + count);
  mi_flush_idle(theap);
  check_equal(served_by(theap, FIRST), FIRST); // there is a page that malloc takes blocks from
  free_all(count);
  mi_flush_theap(theap);
  for (size_t c = FIRST; c <= TOP; c++) check_equal(served_by(theap, c), TOP);
}

// If this fails, hundreds of threads that share pages waste half of their memory, or have a page
// for each size although they have few blocks.
UNIT_TEST(split_in_a_crowd) {
  static puppet_t crowd[MI_CROWD_THREADS + 1];
  unit_start_puppets(crowd, MI_CROWD_THREADS + 1);
  size_t count = 0;
  while (mi_state.main.count.of_class[TOP].there < 2) {
    blocks[count] = puppet_malloc(&crowd[count % MI_CROWD_THREADS], mi_class_size(FIRST));
    check_equal(class_of_block(blocks[count++]), TOP);
  }
  blocks[count] = puppet_malloc(&crowd[MI_CROWD_THREADS], mi_class_size(FIRST));
  check_equal(class_of_block(blocks[count++]), FIRST + 3);
  free_all(count);
  unit_end_puppets(crowd, MI_CROWD_THREADS + 1);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(split_begins_wide),
      cmocka_unit_test(split_leans_on_a_wider_class_before_a_peak),
      cmocka_unit_test(split_leans_on_none_in_a_small_heap),
      cmocka_unit_test(split_keeps_the_alignment),
      cmocka_unit_test(split_fits_many_blocks),
      cmocka_unit_test(split_waits_for_another_size),
      cmocka_unit_test(split_uses_free_blocks_at_hand),
      cmocka_unit_test(split_uses_pages_of_the_pool),
      cmocka_unit_test(split_ends_with_the_pages),
      cmocka_unit_test(split_in_a_crowd),
  };
  return cmocka_run_group_tests_name("split", tests, NULL, NULL);
}
