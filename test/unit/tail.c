// SPDX-License-Identifier: MIT
// tail.c - tests of arenas/tail.c: TAIL-1 to TAIL-6, on a clock that the test moves.
#include "unit.h"

#include "core/heaps/heaps.h"

#define DELAY_MS 100
#define BLOCK_SIZE (MI_SLICE_SIZE / 16 * 9) // one in a slice, with 7/16 behind it
#define CUT_MIN 4
#define PAGES_MAX 600

static void* block[PAGES_MAX];
static mi_page_t* page[PAGES_MAX];

// Slices that were used all over, and are free.
static mi_run_t dirty(size_t count) {
  mi_run_t run = {0};
  check(mi_slices_claim(UNIT_HEAP, count, MI_SLICE_SIZE, 0, &run));
  memset(run.start, 1, count * MI_SLICE_SIZE);
  mi_charge_add(run.arena, run.start, count * MI_SLICE_SIZE);
  mi_slices_release(run.arena, run.slice_index, count, MI_SLICE_SIZE);
  return run;
}

static void start(size_t slices) {
  mi_process_setup();
  unit_option(purge_delay, DELAY_MS);
  unit_theap();
  dirty(slices);
}

static mi_page_t* make(size_t i) {
  page[i] = unit_make_page(mi_class_of(BLOCK_SIZE), 1, &block[i]);
  unit_fill(block[i], BLOCK_SIZE, i);
  return page[i];
}

static void release(size_t i) {
  check(unit_is_filled(block[i], BLOCK_SIZE, i));
  page[i]->count.used = 0;
  page[i]->local_free = NULL;
  mi_page_release(UNIT_HEAP, page[i]);
}

static size_t resident(size_t i) { return os_fake_resident(page[i]->start, MI_SLICE_SIZE); }

static size_t purges(void) { return os_fake_calls(OS_FAKE_PURGE); }

static int64_t charged(void) { return mi_atomic_load_relaxed(&mi_state.main.count.charged); }

static bool has_tails(void) { return mi_atomic_load_relaxed(&mi_state.main.has_tails); }

// The end of a period. Free slices wait for ever, so that nothing else goes back.
static void period(void) {
  os_fake_advance_ms(DELAY_MS);
  MI_FOR_EACH_ARENA(&mi_state.main, arena) { mi_wait_forget(arena, 0, mi_arena_slices(arena)); }
  mi_retain_poll(&mi_state.main);
}

// If this fails, a heap of blocks of some ten KiB that are replaced holds 1.25 of what it uses for
// ever; or a block loses its contents.
UNIT_TEST(tail_goes_back_when_the_page_is_old) {
  if (MI_IS_TINY) return; // a slice is an OS page
  start(4);
  make(0);
  const int64_t before = charged();
  const int64_t committed = mi_atomic_load_relaxed(&mi_state.main.count.committed);
  check(page[0]->has_tail && has_tails());
  period(); // begins one
  period();
  check_equal(resident(0), MI_SLICE_SIZE); // not yet old
  const size_t calls = purges();
  period();
  check_equal(purges(), calls + 1);
  check_equal(resident(0), BLOCK_SIZE);
  check_equal(charged(), before - (int64_t)(MI_SLICE_SIZE - BLOCK_SIZE));
  check_equal(mi_atomic_load_relaxed(&mi_state.main.count.committed), committed); // TAIL-3
  for (size_t i = 0; i < 4; i++) period();
  check_equal(purges(), calls + 1); // TAIL-4
  check(!has_tails());
  release(0);
}

// If this fails, the purge thread wakes up for nothing, for ever.
UNIT_TEST(tail_that_is_gone_lets_the_purge_thread_sleep) {
  if (MI_IS_TINY) return;
  start(4);
  make(0);
  for (size_t i = 0; i < 4; i++) period();
  check_equal(mi_retain_tick(&mi_state.main), MI_RETAIN_NEVER);
  release(0);
}

// If this fails, memory behind the blocks of pages of other shapes is taken for a tail; or parts of
// blocks are.
UNIT_TEST_PAGE_SIZES(tail_is_behind_all_blocks) {
  if (MI_IS_TINY) return;
  static void* blocks[UNIT_BLOCKS_MAX];
  start(16);
  for (size_t c = mi_class_of(MI_SLICE_SIZE / 8); c < MI_CLASS_COUNT; c++) {
    const size_t count = unit_page_blocks(c);
    mi_page_t* const one = unit_make_page(c, count, blocks);
    const size_t size = one->slice_count * MI_SLICE_SIZE;
    const size_t used = mi_bits_align_up(one->reserved * one->block_size, mi_state.os.page_size);
    for (size_t i = 0; i < count; i++) unit_fill(blocks[i], one->block_size, i);
    check(!one->has_tail || (size - used) * 16 >= size);
    const size_t before = os_fake_resident(one->start, size);
    const size_t tail = os_fake_resident(one->start + used, size - used);
    for (size_t i = 0; i < 4; i++) period();
    check_equal(os_fake_resident(one->start, size), one->has_tail ? used : before);
    check(!one->has_tail || tail > 0);
    for (size_t i = 0; i < count; i++) check(unit_is_filled(blocks[i], one->block_size, i));
    one->count.used = 0;
    one->local_free = NULL;
    mi_page_release(UNIT_HEAP, one);
    dirty(16);
  }
}

// If this fails, a program that replaces such blocks again and again takes page faults for each.
UNIT_TEST(tail_of_a_page_that_ends_soon_costs_nothing) {
  if (MI_IS_TINY) return;
  start(4);
  make(0);
  period();
  const size_t calls = purges();
  for (size_t i = 0; i < 20; i++) {
    period();
    release(0);
    make(0);
    check(page[0]->has_tail);
  }
  check_equal(purges(), calls);
  check_equal(resident(0), MI_SLICE_SIZE);
  release(0);
}

// If this fails, fresh memory is given back, which takes a system call for nothing.
UNIT_TEST(tail_that_was_not_used_is_none) {
  if (MI_IS_TINY) return;
  mi_process_setup();
  unit_option(purge_delay, DELAY_MS);
  unit_theap();
  make(0);
  check(!page[0]->has_tail && !has_tails());
  release(0);
  make(0); // what is behind the block was not used by the page before, either
  const size_t calls = purges();
  for (size_t i = 0; i < 4; i++) period();
  check_equal(purges(), calls);
  release(0);
}

static mi_arena_t* arena_of_page;
static size_t slice_of_page;

static bool is_slice_free(void) {
  return mi_bitmap_is_all_set(arena_of_page->free, slice_of_page, 1);
}

static void end_page_meanwhile(void) {
  os_fake.on_purge = NULL;
  arena_of_page = mi_arena_of(&mi_state.main, page[0]->start);
  slice_of_page = mi_arena_slice_of(arena_of_page, page[0]->start);
  release(0);
  check(!is_slice_free()); // the purger is still at work there
}

// If this fails, the next page in the slices of one that ends loses its contents.
UNIT_TEST(tail_keeps_the_slices_while_it_goes) {
  if (MI_IS_TINY) return;
  start(4);
  make(0);
  period();
  period();
  os_fake.on_purge = &end_page_meanwhile;
  period();
  check(os_fake.on_purge == NULL && is_slice_free());
  check(mi_bitmap_is_all_set(arena_of_page->purge_young, slice_of_page, 1));
  unit_check_valid();
}

// If this fails, a tail is left to somebody who is gone.
UNIT_TEST(tail_forgets_a_page_that_ended_before) {
  if (MI_IS_TINY) return;
  start(4);
  make(0);
  make(1);
  period();
  period();
  const size_t calls = purges();
  release(0);
  period();
  check_equal(purges(), calls + 1);
  check_equal(resident(1), BLOCK_SIZE);
  release(1);
  unit_check_valid();
}

// If this fails, options that keep memory, or give it back at once, do not say so for this one.
UNIT_TEST(tail_follows_the_options) {
  if (MI_IS_TINY) return;
  start(8);
  unit_option(purge_delay, 0); // TAIL-5
  make(0);
  check(!page[0]->has_tail);
  check_equal(resident(0), BLOCK_SIZE);
  unit_option(purge_delay, -1);
  make(1);
  for (size_t i = 0; i < 4; i++) period();
  check_equal(resident(1), MI_SLICE_SIZE);
  unit_option(purge_delay, DELAY_MS);
  unit_option(purge_decommits, 0);
  make(2);
  for (size_t i = 0; i < 4; i++) period();
  check_equal(resident(2), MI_SLICE_SIZE);
  unit_option(purge_decommits, 1);
  const int64_t in_use = mi_atomic_load_relaxed(&mi_state.main.count.committed) -
                         mi_atomic_load_relaxed(&mi_state.main.purge_waiting);
  unit_option(memory_limit, (in_use + MI_SLICE_SIZE) / MI_KIB);
  make(3);
  check(!page[3]->has_tail);
  check_equal(resident(3), BLOCK_SIZE);
  for (size_t i = 0; i < 4; i++) release(i);
}

// If this fails, mi_collect and malloc_trim leave some of what they could give back.
UNIT_TEST(tail_goes_when_all_is_asked_for) {
  if (MI_IS_TINY) return;
  start(4);
  make(0);
  check_equal(mi_tail_purge_all(&mi_state.main), MI_SLICE_SIZE - BLOCK_SIZE);
  check_equal(resident(0), BLOCK_SIZE);
  check_equal(mi_tail_purge_all(&mi_state.main), 0);
  release(0);
}

// If this fails, a thread that allocates waits for a million system calls.
UNIT_TEST_ON(tail_takes_some_at_a_time, (size_t)1 << 30) {
  if (MI_IS_TINY) return;
  start(PAGES_MAX);
  for (size_t i = 0; i < PAGES_MAX; i++) make(i);
  period();
  period();
  const size_t calls = purges();
  period();
  const size_t first = purges() - calls;
  check(first >= MI_TAIL_BATCH && first < MI_TAIL_BATCH + MI_CHUNK_SLICES);
  check(has_tails());
  os_fake.on_purge = &os_fake_be_slow; // as with many threads
  period();
  const size_t slow = purges() - calls - first;
  check(slow > 0 && slow <= MI_CHUNK_SLICES); // RETAIN-9: a part is a chunk at least
  os_fake.on_purge = NULL;
  os_fake_advance_ms(DELAY_MS);
  mi_retain_tick(&mi_state.main); // on the purge thread
  check_equal(purges() - calls, PAGES_MAX);
  period();
  check(!has_tails());
  for (size_t i = 0; i < PAGES_MAX; i++) release(i);
}

// If this fails, a heap in huge pages is cut into small ones for a few KiB of each.
UNIT_TEST_ON(tail_does_not_cut_a_huge_page, (size_t)1 << 30) {
  if (MI_IS_TINY) return;
  os_fake.has_huge_pages = true;
  start(MI_CHUNK_SLICES * 20);
  const size_t count = MI_CHUNK_SLICES * 16; // so that the heap is large
  for (size_t i = 0; i < count; i++) make(i);
  mi_arena_t* const arena = mi_arena_of(&mi_state.main, page[0]->start);
  for (size_t i = 0; i < count; i++) { // of each chunk the first few stay, one more of the second
    const size_t chunk = mi_arena_slice_of(arena, page[i]->start) / MI_CHUNK_SLICES;
    const size_t at = mi_arena_slice_of(arena, page[i]->start) % MI_CHUNK_SLICES;
    if (at >= CUT_MIN - (chunk == 1 ? 0 : 1)) {
      release(i);
      page[i] = NULL;
    }
  }
  mi_atomic_or_relaxed(&arena->chunks[2].filled, (uint64_t)1 << 33); // collapsed
  const size_t calls = purges();
  for (size_t i = 0; i < 4; i++) period();
  check_equal(purges() - calls, CUT_MIN);
  check(!has_tails());
  for (size_t i = 0; i < count; i++) {
    if (page[i] == NULL) continue;
    const size_t chunk = mi_arena_slice_of(arena, page[i]->start) / MI_CHUNK_SLICES;
    check_equal(resident(i), chunk == 1 ? BLOCK_SIZE : MI_SLICE_SIZE);
  }
  mi_tail_purge_all(&mi_state.main);
  for (size_t i = 0; i < count; i++) {
    if (page[i] == NULL) continue;
    const size_t chunk = mi_arena_slice_of(arena, page[i]->start) / MI_CHUNK_SLICES;
    check_equal(resident(i), chunk == 2 ? MI_SLICE_SIZE : BLOCK_SIZE);
    release(i);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(tail_goes_back_when_the_page_is_old),
      cmocka_unit_test(tail_that_is_gone_lets_the_purge_thread_sleep),
      cmocka_unit_test(tail_is_behind_all_blocks),
      cmocka_unit_test(tail_of_a_page_that_ends_soon_costs_nothing),
      cmocka_unit_test(tail_that_was_not_used_is_none),
      cmocka_unit_test(tail_keeps_the_slices_while_it_goes),
      cmocka_unit_test(tail_forgets_a_page_that_ended_before),
      cmocka_unit_test(tail_follows_the_options),
      cmocka_unit_test(tail_goes_when_all_is_asked_for),
      cmocka_unit_test(tail_takes_some_at_a_time),
      cmocka_unit_test(tail_does_not_cut_a_huge_page),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
