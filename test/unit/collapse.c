// SPDX-License-Identifier: MIT
// collapse.c - tests of arenas/collapse.c: which chunks become one huge page, when, and how many.
// (What a fork changes is in collapse_fork.c.)
#include <sys/mman.h>

#include "chunks.h"

#include "core/arenas/huge.h"
#include "core/arenas/move.h"

// If this fails, a server whose heap grew while the host was short of memory stays slow for good,
// or copies the same memory again and again.
UNIT_TEST_PAGE_SIZES(collapse_takes_old_chunks_once) {
  start();
  fill(2);
  os_fake.log_count = 0;
  pass();
  check_equal(calls(), 0);
  poll();
  os_fake_advance_ms(pass_ms() / 2);
  poll();
  check_equal(calls(), 0); // not yet old
  pass();
  check_equal(calls(), 2);
  check(is_collapsed(0) && is_collapsed(1));
  for (size_t i = 0; i < 4; i++) pass();
  check_equal(calls(), 2);
  check_equal(os_fake.collapse_growth, 0);
  check(os_fake_is_one_mapping(arena->start, ARENA_CHUNKS * CHUNK_SIZE));
  end();
}

// If this fails, nothing of a real program is ever taken.
UNIT_TEST(collapse_takes_what_malloc_fills) {
  start();
  const size_t count = (HEAP_MIN_CHUNKS + 3) * CHUNK_SIZE;
  uint8_t* p;
  do {
    p = (uint8_t*)mi_malloc(64);
  } while (mi_arena_of(&mi_state.main, p) != arena || p < arena->start + count);
  os_fake.log_count = 0;
  pass();
  pass();
  check(is_collapsed(1) && is_collapsed(2) && !is_collapsed(3));
  check_equal(os_fake.collapse_growth, 0);
  end();
}

// If this fails, a small program pays for something that it cannot gain from.
UNIT_TEST(collapse_waits_for_a_large_heap) {
  start();
  const size_t released = MI_CHUNK_SLICES + 1;
  mi_slices_release(arena, 0, released, MI_SLICE_SIZE);
  mi_purge_everything(&mi_state.main);
  for (size_t i = 0; i < MI_CHUNK_SLICES; i++) pages[page_count++] = make_page();
  const size_t before = os_fake.count[OS_FAKE_CLOCK];
  for (size_t i = 0; i < 4; i++) {
    os_fake_advance_ms(pass_ms());
    mi_collapse_poll(&mi_state.main, os_fake.now_us / 1000);
  }
  check_equal(calls(), 0);
  check_equal(os_fake.count[OS_FAKE_CLOCK], before);
  check_equal(arena->chunks[0].filled, 0);
  end_from(released);
}

// If this fails, memory grows by what was free, or went back.
UNIT_TEST_PAGE_SIZES(collapse_leaves_chunks_with_a_free_slice) {
  start();
  fill(2);
  pass();
  release_page(pages[MI_CHUNK_SLICES - 1]);
  os_fake.log_count = 0;
  pass();
  pass();
  check(!is_collapsed(0) && is_collapsed(1)); // it waits to go back
  mi_purge_everything(&mi_state.main);
  pass();
  check(!is_collapsed(0));
  // Full again, the chunk is young again.
  pages[MI_CHUNK_SLICES - 1] = make_page();
  pass();
  check(!is_collapsed(0));
  pass();
  check(is_collapsed(0));
  check_equal(os_fake.collapse_growth, 0);
  end();
}

// If this fails, a chunk that was in a huge page and went back in part stays in small ones.
UNIT_TEST(collapse_takes_a_chunk_again) {
  start();
  fill(1);
  pass();
  pass();
  check_equal(calls(), 1);
  release_page(pages[5]);
  mi_purge_everything(&mi_state.main);
  pages[5] = make_page();
  pass();
  check_equal(calls(), 1);
  pass();
  check_equal(calls(), 2);
  check_equal(os_fake.collapse_growth, 0);
  end();
}

// If this fails, memory that went back is still charged to the container, or is split in vain.
UNIT_TEST_PAGE_SIZES(collapse_splits_what_goes_back_in_part) {
  start();
  fill(3);
  pass();
  pass();
  check_equal(calls(), 3);
  // The end of the first chunk, all of the second one, and a page amid the third.
  for (size_t i = MI_CHUNK_SLICES - 2; i < 2 * MI_CHUNK_SLICES; i++) release_page(pages[i]);
  release_page(pages[2 * MI_CHUNK_SLICES + 5]);
  os_fake.log_count = 0;
  mi_purge_everything(&mi_state.main);
  check_equal(os_fake.count[OS_FAKE_SPLIT], 2);
  const os_fake_entry_t* first = NULL;
  for (size_t i = os_fake.log_count; i > 0; i--) {
    if (os_fake.log[i - 1].call == OS_FAKE_SPLIT) first = &os_fake.log[i - 1];
  }
  check(first->start == chunk_at(1) - 2 * MI_SLICE_SIZE && first->size == 2 * MI_SLICE_SIZE);
  // More of a chunk that is split.
  release_page(pages[2 * MI_CHUNK_SLICES + 9]);
  mi_purge_everything(&mi_state.main);
  check_equal(os_fake.count[OS_FAKE_SPLIT], 2);
  check_equal(os_fake.collapse_growth, 0);
  for (size_t i = MI_CHUNK_SLICES - 2; i < 2 * MI_CHUNK_SLICES; i++) pages[i] = make_page();
  pages[2 * MI_CHUNK_SLICES + 5] = make_page();
  pages[2 * MI_CHUNK_SLICES + 9] = make_page();
  // The rest of them is as young as what replaces it.
  pass();
  check_equal(calls(), 3);
  pass();
  check_equal(calls(), 6);
  check_equal(os_fake.collapse_growth, 0);
  end();
}

// If this fails, blocks that a program never writes to become resident.
UNIT_TEST_PAGE_SIZES(collapse_leaves_what_may_not_be_resident) {
  start();
  fill(1);
  // Chunk 1: a page whose blocks are larger than an OS page.
  const size_t c = mi_class_of(os_fake.page_size + 1);
  mi_page_t* const page = mi_refill_make_page(unit_theap(), c);
  check(page != NULL && page->block_size > os_fake.page_size);
  check_equal(mi_arena_slice_of(arena, page->start), (HEAP_MIN_CHUNKS + 1) * MI_CHUNK_SLICES);
  while (unit_carve(page) != NULL) {
  }
  mi_collapse_note(&mi_state.main, page);
  const size_t rest = MI_CHUNK_SLICES - page->slice_count;
  mi_page_t* more[MI_CHUNK_SLICES];
  for (size_t i = 0; i < rest; i++) more[i] = make_page();
  // Chunk 2: a slice of a large block, and a chunk of them.
  mi_run_t run;
  check(mi_slices_claim(UNIT_HEAP, MI_CHUNK_SLICES + 1, MI_SLICE_SIZE, 0, &run));
  mi_page_t* last[MI_CHUNK_SLICES];
  for (size_t i = 0; i < MI_CHUNK_SLICES - 1; i++) last[i] = make_page();
  os_fake.log_count = 0;
  for (size_t i = 0; i < 4; i++) pass();
  check_equal(calls(), 1);
  check(is_collapsed(0));
  check_equal(os_fake.collapse_growth, 0);
  for (size_t i = 0; i < MI_CHUNK_SLICES - 1; i++) release_page(last[i]);
  mi_slices_release(run.arena, run.slice_index, run.slice_count, MI_SLICE_SIZE);
  for (size_t i = 0; i < rest; i++) release_page(more[i]);
  release_page(page);
  end();
}

// If this fails, a page with untouched blocks becomes resident as a whole.
UNIT_TEST(collapse_waits_for_the_last_block_of_a_page) {
  start();
  void* blocks[UNIT_BLOCKS_MAX];
  uint8_t* p;
  do { // up to a page of which the first blocks are carved
    p = (uint8_t*)mi_malloc(64);
  } while (p < chunk_at(0) + (MI_CHUNK_SLICES - 1) * MI_SLICE_SIZE);
  const mi_page_t* const page = unit_page_of(p);
  check(mi_page_capacity(page) < page->reserved);
  for (size_t i = 0; i < 3; i++) pass();
  check_equal(calls(), 0);
  unit_fill_page(class_of_page(), blocks);
  check_equal(mi_page_capacity(page), page->reserved);
  for (size_t i = 0; i < 3; i++) pass();
  check_equal(calls(), 1);
  end();
}

// If this fails, memory of the program, on a node, in explicit huge pages or moved is remapped, or
// a call is made that must fail.
UNIT_TEST(collapse_leaves_other_arenas_alone) {
  start();
  fill(1);
  arena->is_foreign = true;
  for (size_t i = 0; i < 3; i++) pass();
  arena->is_foreign = false;
  arena->is_pinned = true;
  for (size_t i = 0; i < 3; i++) pass();
  arena->is_pinned = false;
  arena->numa_node = 0;
  for (size_t i = 0; i < 3; i++) pass();
  arena->numa_node = -1;
  arena->is_committed = false;
  for (size_t i = 0; i < 3; i++) pass();
  arena->is_committed = true;
  const size_t moved = (HEAP_MIN_CHUNKS + 1) * MI_CHUNK_SLICES - 1;
  mi_bitmap_set(arena->moved, moved, 1);
  for (size_t i = 0; i < 3; i++) pass();
  mi_bitmap_clear(arena->moved, moved, 1);
  check_equal(calls(), 0);
  pass();
  pass();
  check_equal(calls(), 1);
  end();
}

// If this fails, huge pages come where the user, the system or the processor has none.
UNIT_TEST(collapse_can_be_forbidden) {
  start();
  fill(1);
  unit_option(allow_thp, 0);
  for (size_t i = 0; i < 3; i++) pass();
  unit_option(allow_thp, 2);
  for (size_t i = 0; i < 3; i++) pass();
  unit_option(allow_thp, 1);
  mi_state.os.huge_page_size = 16 * CHUNK_SIZE;
  for (size_t i = 0; i < 3; i++) pass();
  mi_state.os.huge_page_size = CHUNK_SIZE;
  os_fake.has_huge_pages = false;
  for (size_t i = 0; i < 3; i++) pass();
  os_fake.has_huge_pages = true;
  check_equal(calls(), 0);
  pass();
  pass();
  check_equal(calls(), 1);
  end();
}

// If this fails, a look takes longer the larger the heap is.
UNIT_TEST(collapse_looks_at_few_chunks_at_once) {
  start();
  const size_t rest = (ARENA_CHUNKS - HEAP_MIN_CHUNKS) * MI_CHUNK_SLICES;
  mi_run_t run;
  check(mi_slices_claim(UNIT_HEAP, rest, MI_SLICE_SIZE, 0, &run));
  const size_t looks = mi_bits_divide_up(ARENA_CHUNKS, LOOK_CHUNKS);
  for (size_t n = 1; n <= looks; n++) {
    poll();
    poll(); // not due
    size_t seen = 0;
    for (size_t i = 0; i < ARENA_CHUNKS; i++) seen += arena->chunks[i].filled == SEEN;
    check_equal(seen, mi_bits_min(n * LOOK_CHUNKS, ARENA_CHUNKS));
    os_fake_advance_ms(LOOK_MS);
  }
  check_equal(calls(), 0);
  mi_slices_release(run.arena, run.slice_index, run.slice_count, MI_SLICE_SIZE);
  end();
}

// If this fails, a program spends its time on copying, or stops for long.
UNIT_TEST(collapse_takes_a_small_part_of_the_time) {
  start();
  fill(CHUNKS_MAX);
  pass();
  os_fake.collapse_us = 5000;
  os_fake_advance_ms(pass_ms());
  const uint64_t began = os_fake.now_us;
  while (calls() < CHUNKS_MAX) {
    const size_t before = calls();
    poll();
    check(calls() <= before + 1);
    os_fake_advance_ms(LOOK_MS);
    check(os_fake.now_us - began < 2 * PART * CHUNKS_MAX * os_fake.collapse_us);
  }
  check(os_fake.now_us - began > PART * (CHUNKS_MAX - 2) * os_fake.collapse_us);
  end();
}

// If this fails, a system that is out of huge pages, or a heap in the swap, is asked all the time.
UNIT_TEST(collapse_backs_off_from_failures) {
  start();
  fill(CHUNKS_MAX);
  pass();
  os_fake.collapse_error = ENOMEM;
  os_fake_advance_ms(pass_ms());
  poll();
  check_equal(calls(), 1);
  check_equal(calls_in_ms(900), 0);
  check_equal(calls_in_ms(200), 1);
  check_equal(calls_in_ms(1800), 0); // twice as long
  os_fake.collapse_error = 0;
  os_fake.collapse_us = 60000; // from the swap
  check_equal(calls_in_ms(300), 1);
  check_equal(calls_in_ms(3700), 0);
  os_fake.collapse_us = 0;
  check_equal(calls_in_ms(2 * pass_ms()), CHUNKS_MAX - 3);
  end();
}

// If this fails, an old system gets a call that it does not know again and again, or one range that
// the system does not like keeps the others waiting.
UNIT_TEST(collapse_leaves_what_is_refused) {
  start();
  fill(3);
  pass();
  os_fake.collapse_error = EINVAL;
  os_fake_advance_ms(pass_ms());
  poll();
  check_equal(calls(), 1);
  check_equal(calls_in_ms(900), 0);
  check_equal(calls_in_ms(200), 1);
  check_equal(calls_in_ms(900), 0); // not twice as long
  os_fake.collapse_error = 0;
  check_equal(calls_in_ms(200), 1);
  for (size_t i = 0; i < 8; i++) pass();
  check_equal(calls(), 3);
  end();
}

// -- blocks that are larger than an OS page --

// If this fails, a program with large arrays or pictures waits for small pages for ever.
UNIT_TEST_PAGE_SIZES(collapse_takes_large_blocks) {
  start();
  uint8_t* const p = make_large(3);
  os_fake.log_count = 0;
  pass();
  check_equal(calls(), 0);
  pass();
  check(is_collapsed(0) && is_collapsed(1) && is_collapsed(2));
  check_equal(calls(), 3);
  for (size_t i = 0; i < 3; i++) pass();
  check_equal(calls(), 3);
  check_equal(os_fake.collapse_growth, 0);
  for (size_t i = 0; i < 3 * CHUNK_SIZE; i += 8) check(p[i + 4] == 1);
  end_large(p);
}

// If this fails, a block that is hardly used becomes resident, or one that the program protects
// ends it.
UNIT_TEST_PAGE_SIZES(collapse_leaves_large_blocks_that_are_not_used) {
  start();
  uint8_t* const p = make_large(4);
  memset(p, 0, CHUNK_SIZE); // it may be the page of zeros
  memset(p + 2 * CHUNK_SIZE - MI_SLICE_SIZE, 0, MI_SLICE_SIZE);
  mprotect(p + 2 * CHUNK_SIZE, MI_SLICE_SIZE, PROT_NONE);
  os_fake.log_count = 0;
  for (size_t i = 0; i < 4; i++) pass();
  check(!is_collapsed(0) && !is_collapsed(1) && !is_collapsed(2) && is_collapsed(3));
  mprotect(p + 2 * CHUNK_SIZE, MI_SLICE_SIZE, PROT_READ | PROT_WRITE);
  end_large(p);
}

// If this fails, of many chunks that are nearly full too many are taken.
UNIT_TEST(collapse_takes_few_samples_of_a_full_chunk) {
  enum { CHUNKS = ARENA_CHUNKS / 2, ABSENT_PART = 10 };
  start();
  uint8_t* const p = make_large(CHUNKS);
  mi_random_t random = {.state = 1};
  const size_t page_count = CHUNKS * CHUNK_SIZE / os_fake.page_size;
  for (size_t i = 0; i < page_count; i++) {
    if (mi_random_next(&random) % ABSENT_PART != 0) continue;
    mi_os_purge(p + i * os_fake.page_size, os_fake.page_size);
  }
  for (size_t i = 0; i < 20; i++) pass();
  check(calls() <= CHUNKS / 8);
  end_large(p);
}

// If this fails, memory that went back is made resident.
UNIT_TEST_PAGE_SIZES(collapse_forgets_what_went_back) {
  start();
  uint8_t* const p = make_large(2);
  pass();
  check_equal(arena->chunks[HEAP_MIN_CHUNKS].filled, SEEN);
  // Part of the first chunk, and all of the second.
  check(mi_purge_contents(arena, p + CHUNK_SIZE - 3 * MI_SLICE_SIZE, CHUNK_SIZE));
  check_equal(arena->chunks[HEAP_MIN_CHUNKS].filled, 0);
  for (size_t i = 0; i < 3; i++) pass();
  check_equal(calls(), 0);
  for (size_t i = 0; i < 2 * CHUNK_SIZE; i += 8) p[i] = 1;
  for (size_t i = 0; i < 2; i++) pass();
  check_equal(calls(), 2);
  // Of huge pages the first is split, and the second goes as a whole.
  check(mi_purge_contents(arena, p + CHUNK_SIZE - MI_SLICE_SIZE, CHUNK_SIZE + MI_SLICE_SIZE));
  check_equal(os_fake.count[OS_FAKE_SPLIT], 1);
  check_equal(arena->chunks[HEAP_MIN_CHUNKS + 1].filled, 0);
  check_equal(os_fake.collapse_growth, 0);
  end_large(p);
}

// If this fails, a heap of large blocks only never has huge pages, or has them where they are
// forbidden.
UNIT_TEST(collapse_looks_for_huge_pages) {
  start();
  os_fake.has_huge_pages = false;
  uint8_t* const p = make_large(1);
  const size_t before = os_fake.count[OS_FAKE_POPULATE_HUGE];
  pass();
  check_equal(os_fake.count[OS_FAKE_POPULATE_HUGE], before);
  pass();
  check_equal(os_fake.count[OS_FAKE_POPULATE_HUGE], before + 1);
  check_equal(calls(), 0);
  const size_t mapped = os_fake.mapped;
  os_fake.gives_huge_pages = true;
  pass();
  check_equal(os_fake.count[OS_FAKE_POPULATE_HUGE], before + 2);
  check_equal(calls(), 1);
  check_equal(os_fake.mapped, mapped);
  end_large(p);
}

// If this fails, a program that does not allocate keeps small pages, or the purge thread wakes an
// idle machine for ever.
UNIT_TEST(collapse_is_gone_on_with_by_the_purge_thread) {
  start();
  uint8_t* const p = make_large(2);
  uint64_t total_ms = 0;
  size_t ticks = 0;
  for (uint64_t wait = LOOK_MS; wait != MI_RETAIN_NEVER; ticks++) {
    check(wait >= LOOK_MS && wait <= pass_ms() << QUIET_MAX);
    os_fake_advance_ms(wait);
    total_ms += wait;
    wait = mi_collapse_tick(&mi_state.main);
    check(ticks < 100);
  }
  check_equal(calls(), 2);
  check(total_ms > pass_ms() && total_ms <= 2 * pass_ms() << QUIET_MAX);
  // A thread that allocates finds something new: the purge thread goes on.
  check(mi_purge_contents(arena, p, MI_SLICE_SIZE));
  for (size_t i = 0; i < MI_SLICE_SIZE; i += 8) p[i] = 1;
  os_fake_advance_ms(pass_ms() << QUIET_MAX);
  poll();
  check(mi_collapse_tick(&mi_state.main) <= pass_ms());
  unit_option(allow_thp, 0);
  check_equal(mi_collapse_tick(&mi_state.main), MI_RETAIN_NEVER);
  end_large(p);
  check_equal(mi_collapse_tick(&mi_state.main), MI_RETAIN_NEVER);
}

// If this fails, the same chunks are looked at again and again, although nothing has changed.
UNIT_TEST(collapse_looks_less_often_when_nothing_is_new) {
  start();
  pass();
  os_fake_advance_ms(pass_ms() << QUIET_MAX);
  for (uint64_t i = 1; i < QUIET_MAX + 3;) {
    poll();
    const uint64_t wait = mi_state.main.collapse_due_ms - mi_os_now_ms();
    os_fake_advance_ms(wait);
    if (wait == LOOK_MS) continue;
    check_equal(wait, pass_ms() << (i < QUIET_MAX ? i : QUIET_MAX)); // a pass is over
    i++;
  }
  end();
}

// If this fails, a heap in the swap is read again and again.
UNIT_TEST(collapse_backs_off_from_slow_samples) {
  start();
  uint8_t* const p = make_large(CHUNKS_MAX);
  pass();
  os_fake.nonzero_us = 40;
  os_fake_advance_ms(pass_ms());
  uint64_t before = os_fake.now_us;
  poll();
  check(os_fake.now_us - before > 2000);
  before = os_fake.now_us;
  poll();
  check_equal(os_fake.now_us, before);
  os_fake_advance_ms(900);
  before = os_fake.now_us;
  poll();
  check_equal(os_fake.now_us, before);
  check_equal(calls(), 0);
  os_fake.nonzero_us = 0;
  for (size_t i = 0; i < 2; i++) pass();
  check_equal(calls(), CHUNKS_MAX);
  end_large(p);
}

// Another thread releases a page, and its memory is moved away.
static void lose_a_page(void) {
  const size_t index = mi_arena_slice_of(arena, pages[0]->start);
  os_fake.on_collapse = NULL;
  release_page(pages[0]);
  mi_purge_everything(&mi_state.main); // not now
  check_equal(os_fake_resident(arena->start + index * MI_SLICE_SIZE, MI_SLICE_SIZE), MI_SLICE_SIZE);
  check(mi_arena_hold(arena, index, 1));
  mi_wait_forget(arena, index, 1);
  mi_purge_claimed(arena, index, 1);
  mi_arena_let_go(arena, index, 1);
}

// If this fails, memory that was freed during a collapse stays resident.
UNIT_TEST(collapse_gives_back_what_was_freed_meanwhile) {
  start();
  fill(1);
  uint8_t* const start_of_page = pages[0]->start;
  pass();
  os_fake.on_collapse = &lose_a_page;
  pass();
  check_equal(calls(), 1);
  check_equal(os_fake_resident(start_of_page, MI_SLICE_SIZE), MI_SLICE_SIZE);
  mi_purge_everything(&mi_state.main);
  check_equal(os_fake_resident(start_of_page, MI_SLICE_SIZE), 0);
  pages[0] = make_page();
  end();
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(collapse_takes_old_chunks_once),
      cmocka_unit_test(collapse_takes_what_malloc_fills),
      cmocka_unit_test(collapse_waits_for_a_large_heap),
      cmocka_unit_test(collapse_leaves_chunks_with_a_free_slice),
      cmocka_unit_test(collapse_takes_a_chunk_again),
      cmocka_unit_test(collapse_splits_what_goes_back_in_part),
      cmocka_unit_test(collapse_leaves_what_may_not_be_resident),
      cmocka_unit_test(collapse_waits_for_the_last_block_of_a_page),
      cmocka_unit_test(collapse_leaves_other_arenas_alone),
      cmocka_unit_test(collapse_can_be_forbidden),
      cmocka_unit_test(collapse_looks_at_few_chunks_at_once),
      cmocka_unit_test(collapse_takes_a_small_part_of_the_time),
      cmocka_unit_test(collapse_backs_off_from_failures),
      cmocka_unit_test(collapse_leaves_what_is_refused),
      cmocka_unit_test(collapse_takes_large_blocks),
      cmocka_unit_test(collapse_leaves_large_blocks_that_are_not_used),
      cmocka_unit_test(collapse_takes_few_samples_of_a_full_chunk),
      cmocka_unit_test(collapse_forgets_what_went_back),
      cmocka_unit_test(collapse_looks_for_huge_pages),
      cmocka_unit_test(collapse_is_gone_on_with_by_the_purge_thread),
      cmocka_unit_test(collapse_looks_less_often_when_nothing_is_new),
      cmocka_unit_test(collapse_backs_off_from_slow_samples),
      cmocka_unit_test(collapse_gives_back_what_was_freed_meanwhile),
  };
  return cmocka_run_group_tests_name("collapse", tests, NULL, NULL);
}
