// SPDX-License-Identifier: MIT
// collapse_fork.c - tests of arenas/collapse.c: chunks that are shared since a fork.
#include "chunks.h"

#include "core/process/unload.h"

static void expect_all_shared(size_t chunks) {
  for (size_t i = 0; i < ARENA_CHUNKS; i++) {
    const bool is_shared = (arena->chunks[i].filled & SHARED) != 0;
    check_equal(is_shared, i < HEAP_MIN_CHUNKS + chunks);
  }
}

// Chunks that were also written, for samples of them.
static void fill_and_write(size_t chunks) {
  fill(chunks);
  memset(chunk_at(0), 1, page_count * MI_SLICE_SIZE);
}

static void make_again(size_t i) {
  pages[i] = make_page();
  memset(pages[i]->start, 1, MI_SLICE_SIZE);
}

static void fork_as_parent(void) {
  os_fake.fork_prepare();
  os_fake.fork_parent();
}

static void fork_as_child(void) {
  os_fake.fork_prepare();
  os_fake.fork_child();
}

// If this fails, the memory of a process and its child is there twice.
UNIT_TEST(collapse_leaves_what_a_fork_shares) {
  start();
  fill(1);
  pass();
  check(arena->chunks[HEAP_MIN_CHUNKS].filled != 0);
  os_fake.is_alone = true; // but there is no family
  fork_as_parent();
  expect_all_shared(1);
  for (size_t i = 0; i < 3; i++) pass();
  check_equal(calls(), 0);
  fill(1); // not shared
  for (size_t i = 0; i < 2; i++) pass();
  check_equal(calls(), 1);
  check(is_collapsed(1));
  fork_as_child();
  expect_all_shared(2);
  // What is carved anew is there once; the rest of its chunk is not.
  release_page(pages[1]);
  mi_purge_everything(&mi_state.main);
  pages[1] = make_page();
  for (size_t i = 0; i < 3; i++) pass();
  check_equal(calls(), 1);
  for (size_t k = 0; k < MI_CHUNK_SLICES; k++) { // one after the other
    release_page(pages[k]);
    mi_purge_everything(&mi_state.main);
    pages[k] = make_page();
  }
  for (size_t i = 0; i < 3; i++) pass();
  check_equal(calls(), 2);
  expect_all_shared(2);
  end();
}

// If this fails, a program that saves a snapshot in a child is in small pages for the rest of its
// life; or its memory is there twice while the child lives.
UNIT_TEST(collapse_goes_on_when_children_are_gone) {
  start();
  os_fake.has_family = true;
  fill_and_write(2);
  for (size_t i = 0; i < 2; i++) pass();
  check_equal(calls(), 2);
  const size_t gone = page_count - 1;
  for (size_t round = 1; round <= 3; round++) {
    os_fake.is_alone = false;
    fork_as_parent();
    check_equal(os_fake.families, 1);
    for (size_t i = 0; i < 3; i++) pass();
    check_equal(calls(), 2 * round);
    os_fake.is_alone = true;
    pass(); // what was huge may be in small pages now
    check_equal(calls(), 2 * round + 2);
    for (size_t i = 0; i < 3; i++) pass();
    check_equal(calls(), 2 * round + 2);
  }
  // What goes back in part while it is shared is split, and not taken before it is full again.
  fork_as_parent();
  const size_t splits = os_fake.count[OS_FAKE_SPLIT];
  release_page(pages[gone]);
  mi_purge_everything(&mi_state.main);
  check_equal(os_fake.count[OS_FAKE_SPLIT], splits + 1);
  for (size_t i = 0; i < 3; i++) pass();
  check_equal(calls(), 9);
  make_again(gone);
  for (size_t i = 0; i < 2; i++) pass();
  check_equal(calls(), 10);
  // The same if it goes back when it is not shared any more.
  fork_as_parent();
  release_page(pages[gone]);
  for (size_t i = 0; i < 2; i++) pass();
  check_equal(calls(), 11); // not the chunk of which a slice is free
  mi_purge_everything(&mi_state.main);
  check_equal(os_fake.count[OS_FAKE_SPLIT], splits + 2);
  make_again(gone);
  for (size_t i = 0; i < 3; i++) pass();
  check_equal(calls(), 12);
  check_equal(os_fake.collapse_growth, 0);
  check_equal(os_fake.family_members, 0);
  end();
}

// If this fails, memory is there twice after a fork in the middle of a pass that began before it.
UNIT_TEST(collapse_begins_anew_at_a_fork) {
  start();
  os_fake.has_family = true;
  os_fake.is_alone = true;
  fill_and_write(3);
  pass();
  fork_as_parent();
  os_fake.collapse_us = 5000; // after it a look is over
  os_fake_advance_ms(pass_ms());
  poll();
  check_equal(calls(), 1);
  fork_as_parent(); // the child has not yet joined
  check_equal(calls_in_ms(pass_ms() - 2 * LOOK_MS), 0);
  os_fake.is_alone = false;
  check_equal(calls_in_ms(pass_ms()), 0);
  os_fake.is_alone = true; // the next pass sees it
  check_equal(calls_in_ms(pass_ms()), 3);
  end();
}

// If this fails, the child of a fork has memory twice that its parent has, or the parent does not
// know of the child, or of a child of that.
UNIT_TEST(collapse_leaves_what_a_child_shares) {
  start();
  os_fake.has_family = true;
  os_fake.is_alone = true;
  fill_and_write(1);
  fork_as_child();
  check_equal(os_fake.family_members, 1);
  for (size_t i = 0; i < 3; i++) pass();
  check_equal(calls(), 0);
  fork_as_parent();
  for (size_t i = 0; i < 3; i++) pass();
  check_equal(calls(), 0);
  fork_as_child();
  check_equal(os_fake.family_members, 2);
  check_equal(os_fake.families, 1);
  expect_all_shared(1);
  end();
  mi_unload(); // in the child the family stays
  check_equal(os_fake.families, 1);
}

// If this fails, each program that forks maps memory for it, or memory stays mapped at the end.
UNIT_TEST(collapse_has_a_family_for_large_heaps) {
  os_fake.has_family = true;
  mi_free(mi_malloc(100));
  fork_as_parent();
  check_equal(os_fake.families, 0);
  fork_as_child();
  check_equal(os_fake.family_members, 0);
  start();
  unit_option(allow_thp, 0);
  fork_as_parent();
  check_equal(os_fake.families, 0);
  unit_option(allow_thp, 1);
  fork_as_parent();
  check_equal(os_fake.families, 1);
  end();
  mi_unload();
  check_equal(os_fake.families, 0);
}

// If this fails, a large block that a fork shares is there twice, or never taken again.
UNIT_TEST(collapse_leaves_large_blocks_that_a_fork_shares) {
  start();
  uint8_t* p = make_large(2);
  pass();
  fork_as_parent();
  for (size_t i = 0; i < 3; i++) pass();
  check_equal(calls(), 0);
  check(mi_purge_contents(arena, p, CHUNK_SIZE + MI_SLICE_SIZE)); // not all of the second
  for (size_t i = 0; i < 2 * CHUNK_SIZE; i += 8) p[i] = 1;
  os_fake.log_count = 0;
  for (size_t i = 0; i < 3; i++) pass();
  check(is_collapsed(0) && !is_collapsed(1));
  end_large(p);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(collapse_leaves_what_a_fork_shares),
      cmocka_unit_test(collapse_goes_on_when_children_are_gone),
      cmocka_unit_test(collapse_begins_anew_at_a_fork),
      cmocka_unit_test(collapse_leaves_what_a_child_shares),
      cmocka_unit_test(collapse_has_a_family_for_large_heaps),
      cmocka_unit_test(collapse_leaves_large_blocks_that_a_fork_shares),
  };
  return cmocka_run_group_tests_name("collapse_fork", tests, NULL, NULL);
}
