// SPDX-License-Identifier: MIT
// refill.c - tests of threads/refill.c: the order of its steps, REFILL-1 and REFILL-2, and malloc
// as a whole.
#include "unit.h"

#include "core/pages/page.h"
#include "core/threads/flush.h"
#include "core/threads/portion.h"
#include "core/threads/refill.h"
#include "core/pages/remote.h"
#include "core/threads/theap.h"
#include "core/threads/thread.h"

#define SIZE 256
#define CLASS mi_class_of(SIZE)

static void* blocks[2 * UNIT_BLOCKS_MAX];
static void* many[300 * 64];
static puppet_t other;

// Allocates until the list of the class is empty. Returns how many blocks that were.
static size_t drain_list(size_t c, void** to) {
  size_t count = 0;
  while (unit_theap()->free[c] != NULL) to[count++] = mi_malloc(mi_class_size(c));
  return count;
}

// If this fails, the heap grows although there are free blocks: own frees first.
UNIT_TEST_PAGE_SIZES(refill_uses_own_frees_before_fresh_memory) {
  void* const p = mi_malloc(SIZE);
  mi_page_t* const page = unit_page_of(p);
  const size_t count = drain_list(CLASS, blocks);
  const uint32_t capacity = mi_page_capacity(page);
  check(capacity < page->reserved); // there is untouched memory
  mi_free(p);
  check(mi_malloc(SIZE) == p);
  check_equal(mi_page_capacity(page), capacity);
  for (size_t i = 0; i < count; i++) mi_free(blocks[i]);
  mi_free(p);
}

// If this fails, blocks that other threads freed are used only when memory runs out.
UNIT_TEST_PAGE_SIZES(refill_uses_remote_frees_before_fresh_memory) {
  puppet_start(&other);
  void* const p = mi_malloc(SIZE);
  mi_page_t* const page = unit_page_of(p);
  drain_list(CLASS, blocks);
  const uint32_t capacity = mi_page_capacity(page);
  puppet_free(&other, p);
  check(mi_malloc(SIZE) == p);
  check_equal(mi_page_capacity(page), capacity);
  puppet_end(&other);
}

// If this fails, the heap grows while full pages have free blocks again.
UNIT_TEST_PAGE_SIZES(refill_uses_the_queue_before_fresh_memory) {
  const size_t count = unit_fill_page(CLASS, blocks);
  void* const first = mi_malloc(SIZE);
  mi_page_t* const second_page = unit_page_of(first);
  drain_list(CLASS, &blocks[count]);
  const uint32_t capacity = mi_page_capacity(second_page);
  check(capacity < second_page->reserved);
  mi_free(blocks[1]);
  check(mi_malloc(SIZE) == blocks[1]);
  check_equal(mi_page_capacity(second_page), capacity);
  check_equal(second_page->place, MI_PLACE_QUEUE);
  // Nothing but untouched memory is left: now it is used.
  void* const fresh = mi_malloc(SIZE);
  check(unit_page_of(fresh) == second_page && mi_page_capacity(second_page) > capacity);
}

// If this fails, untouched memory is used although a page behind in the queue has free blocks.
UNIT_TEST_PAGE_SIZES(refill_looks_past_untouched_pages) {
  // Pages: a is full, b is full, the third has untouched memory.
  static void* b[UNIT_BLOCKS_MAX];
  static void* rest[UNIT_BLOCKS_MAX];
  unit_fill_page(CLASS, blocks);
  unit_fill_page(CLASS, b);
  void* const first = mi_malloc(SIZE);
  mi_page_t* const third = unit_page_of(first);
  drain_list(CLASS, rest);
  const uint32_t capacity = mi_page_capacity(third);
  check(capacity < third->reserved);
  mi_free(blocks[0]);
  check(mi_malloc(SIZE) == blocks[0]); // the third page goes to the queue
  check_equal(third->place, MI_PLACE_QUEUE);
  mi_free(b[0]); // behind it in the queue
  check(mi_malloc(SIZE) == b[0]);
  check_equal(mi_page_capacity(third), capacity);
}

// If this fails, each refill goes through all pages of a heap most of which was freed at random.
UNIT_TEST_PAGE_SIZES(refill_looks_at_few_untouched_pages) {
  mi_page_t* page[3 * MI_REFILL_LOOKS];
  const size_t count = sizeof(page) / sizeof(page[0]);
  mi_free(mi_malloc(SIZE));
  mi_theap_t* const theap = unit_theap();
  mi_flush_class(theap, CLASS);
  size_t block_count = 0;
  for (size_t i = 0; i < count; i++) {
    page[i] = mi_refill_make_page(theap, CLASS);
    for (mi_block_t* block = unit_carve(page[i]); block != NULL;) {
      mi_block_t* const next = mi_block_next(block);
      blocks[block_count++] = block;
      block = next;
    }
    check(mi_page_capacity(page[i]) < page[i]->reserved);
    mi_life_enqueue(theap, page[i]);
  }
  const uint32_t capacity = mi_page_capacity(page[0]);
  const int64_t pages = unit_tally(PAGES_TOTAL);
  for (size_t round = 1; round <= 2; round++) { // each refill goes on where the last one ended
    const size_t last = round * MI_REFILL_LOOKS - 1;
    many[round - 1] = mi_malloc(SIZE);
    check(unit_page_of(many[round - 1]) == page[last]);
    check(mi_page_capacity(page[last]) > capacity);
    check(mi_life_first(&theap->queue[CLASS]) == page[last + 1]);
    block_count += drain_list(CLASS, &blocks[block_count]);
  }
  // Used blocks that it comes to are taken.
  mi_free(blocks[block_count - 1]);
  check(mi_malloc(SIZE) == blocks[block_count - 1]);
  for (size_t i = 0; i < count; i++) {
    const bool is_used = i == MI_REFILL_LOOKS - 1 || i == 2 * MI_REFILL_LOOKS - 1;
    check_equal(mi_page_capacity(page[i]) > capacity, is_used);
  }
  check_equal(unit_tally(PAGES_TOTAL), pages);
  for (size_t i = 0; i < block_count; i++) mi_free(blocks[i]);
  for (size_t i = 0; i < 2; i++) mi_free(many[i]);
  unit_check_valid();
}

// If this fails, oldest pages are never visited, and their free blocks stay unused.
UNIT_TEST_PAGE_SIZES(refill_takes_the_oldest_page_first) {
  static void* page[4][UNIT_BLOCKS_MAX];
  for (size_t i = 0; i < 4; i++) unit_fill_page(CLASS, page[i]);
  static const size_t order[4] = {2, 0, 3, 1};
  for (size_t i = 0; i < 3; i++) mi_free(page[order[i]][0]);
  for (size_t i = 0; i < 3; i++) {
    if (order[i] == 3) continue; // current
    check(mi_malloc(SIZE) == page[order[i]][0] || mi_malloc(SIZE) == page[order[i]][0]);
  }
}

// If this fails, threads that free what others allocated make pages instead of using these.
UNIT_TEST_PAGE_SIZES(refill_uses_guests_then_the_pool) {
  mi_page_t* const pooled = unit_make_page(CLASS, 3, blocks);
  mi_pool_give_up(pooled);
  mi_page_t* const guest = unit_make_page(CLASS, 3, &blocks[3]);
  mi_theap_add_guest(unit_theap(), guest);
  const int64_t pages = unit_tally(PAGES_TOTAL);
  static void* taken[UNIT_BLOCKS_MAX];
  size_t count = 0;
  do {
    taken[count] = mi_malloc(SIZE);
  } while (unit_page_of(taken[count++]) == guest);
  check_equal(count - 1, guest->reserved - 3);
  check(unit_page_of(taken[count - 1]) == pooled);
  check_equal(unit_tally(PAGES_TOTAL), pages);
  check_equal(unit_tally(ADOPTED), 2);
  do {
    taken[count] = mi_malloc(SIZE);
  } while (unit_page_of(taken[count++]) == pooled);
  check_equal(count - 1, guest->reserved + pooled->reserved - 6);
  check_equal(unit_tally(PAGES_TOTAL), pages + 1);
}

static void make_garbage(void* arg) {
  for (size_t i = 0; i < 10; i++) ((void**)arg)[i] = mi_malloc(SIZE);
}

// If this fails, pages of threads that ended are not used by the others, and memory grows.
UNIT_TEST_PAGE_SIZES(refill_adopts_pages_of_ended_threads) {
  mi_free(mi_malloc(8));
  unit_on_thread(&make_garbage, blocks);
  check_equal(mi_atomic_load_relaxed(&mi_state.orphan_count), 1);
  mi_page_t* const page = unit_page_of(blocks[0]);
  const int64_t pages = unit_tally(PAGES_TOTAL);
  // Not at once: another thread may start and take everything over.
  void* const early = mi_malloc(SIZE);
  check(unit_page_of(early) != page);
  check_equal(unit_tally(PAGES_TOTAL), pages + 1);
  static void* rest[UNIT_BLOCKS_MAX];
  size_t count = unit_fill_page(CLASS, rest);
  os_fake_advance_ms(1000);
  rest[count] = mi_malloc(SIZE);
  check(unit_page_of(rest[count]) == page);
  check_equal(unit_tally(PAGES_TOTAL), pages + 1);
  check_equal(mi_atomic_load_relaxed(&mi_state.orphan_count), 0);
}

// If this fails, malloc returns NULL although unused pages could be given up.
UNIT_TEST_PAGE_SIZES(refill_gives_up_what_is_unused_before_it_fails) {
  // All memory there is, in pages of one class.
  unit_option(arena_reserve, UNIT_ARENA_SIZE / MI_KIB);
  mi_process_setup();
  mi_arena_plan_t plan = {.size = UNIT_ARENA_SIZE, .numa_node = -1};
  check(mi_arena_reserve(&mi_state.main, &plan, MI_ARENA_COMMITTED) != NULL);
  unit_option(disallow_os_alloc, 1);
  // A block may be as large as the arena.
  unit_option(arena_reserve, UNIT_ARENA_SIZE * 8 / MI_KIB);
  static void* p[UNIT_ARENA_SIZE / MI_CLASS_MAX + 1];
  size_t count = 0;
  while ((p[count] = mi_malloc(MI_CLASS_MAX)) != NULL) count++;
  check_equal(hooks_fake.count[MI_ERROR_OUT_OF_MEMORY], 1);
  check(errno == ENOMEM && hooks_fake.report.size == MI_CLASS_MAX);
  check(count >= 4 && mi_malloc(MI_CLASS_MAX * 2) == NULL);
  check_equal(hooks_fake.count[MI_ERROR_OUT_OF_MEMORY], 2);
  for (size_t i = 0; i < count; i++) mi_free(p[i]);
  // The class keeps a page; another size needs its memory.
  void* const q = mi_malloc(UNIT_ARENA_SIZE);
  check(q != NULL);
  mi_free(q);
  check_equal(hooks_fake.count[MI_ERROR_OUT_OF_MEMORY], 2);
  // The same for blocks of a class.
  for (size_t c = 0; c < 20; c++) mi_free(mi_malloc(mi_class_size(c)));
  static void* small[UNIT_ARENA_SIZE / (MI_SLICE_SIZE / 4) + 1];
  for (count = 0; (small[count] = mi_malloc(MI_SLICE_SIZE / 4)) != NULL;) count++;
  check(unit_free_slices() < mi_class_slices(mi_class_of(MI_SLICE_SIZE / 4)));
  for (size_t c = 0; c < 20; c++) check(mi_theap_current(unit_theap(), c) == NULL);
  for (size_t i = 0; i < count; i++) mi_free(small[i]);
}

// If this fails, an absurd size gives a small block or a wrong error.
UNIT_TEST_PAGE_SIZES(refill_refuses_absurd_sizes) {
  volatile size_t sizes[] = {SIZE_MAX, SIZE_MAX - 4096, (size_t)PTRDIFF_MAX, MI_REQUEST_MAX + 1};
  for (size_t i = 0; i < 4; i++) {
    errno = 0;
    check(mi_malloc(sizes[i]) == NULL && errno == ENOMEM);
    errno = 0;
    check(mi_zalloc(sizes[i]) == NULL && errno == ENOMEM);
    check(mi_calloc(1, sizes[i]) == NULL && mi_calloc(sizes[i], 16) == NULL);
    check_equal(hooks_fake.count[MI_ERROR_TOO_LARGE], 4 * (i + 1));
  }
  check(mi_malloc(MI_REQUEST_MAX) == NULL);
  check_equal(hooks_fake.count[MI_ERROR_OUT_OF_MEMORY], 1);
}

// -- zero --

static void check_zero_and_dirty(uint8_t* p) {
  check(p != NULL && unit_is_zero(p, mi_usable_size(p)));
  memset(p, 0xFF, mi_usable_size(p));
}

// If this fails, calloc returns memory that is not zero.
UNIT_TEST_PAGE_SIZES(refill_zeroes_every_class) {
  for (size_t c = 0; c < MI_CLASS_COUNT; c += (c < 40 ? 1 : 7)) {
    const size_t size = mi_class_size(c);
    const size_t count = mi_bits_min(unit_page_blocks(c) + 3, 300);
    for (size_t round = 0; round < 3; round++) {
      for (size_t i = 0; i < count; i++) {
        blocks[i] = mi_zalloc(size);
        check_zero_and_dirty((uint8_t*)blocks[i]);
        // Frees in between mix fresh and used blocks.
        if (i % 3 == 2) mi_free(blocks[i - 1]);
        if (i % 3 == 2) blocks[i - 1] = NULL;
      }
      for (size_t i = 0; i < count; i++) mi_free(blocks[i]);
      if (round == 1) mi_collect_all(MI_FORCE);
    }
  }
}

// If this fails, calloc returns memory that another thread used and freed.
UNIT_TEST_PAGE_SIZES(refill_zeroes_what_others_freed) {
  puppet_start(&other);
  uint8_t* const p = (uint8_t*)mi_malloc(SIZE);
  const size_t count = drain_list(CLASS, blocks);
  memset(p, 0xFF, SIZE);
  puppet_free(&other, p);
  check(mi_zalloc(SIZE) == p && unit_is_zero(p, SIZE));
  for (size_t i = 0; i < count; i++) mi_free(blocks[i]);
  puppet_end(&other);
}

// If this fails, zeroed allocation touches memory that the system has just cleared.
UNIT_TEST(refill_does_not_clear_fresh_memory) {
  const size_t sizes[] = {MI_CLASS_MAX, MI_CLASS_MAX / 2, MI_CLASS_MAX * 4, MI_CLASS_MAX * 400};
  for (size_t i = 0; i < 4; i++) {
    uint8_t* const p = (uint8_t*)mi_zalloc(sizes[i]);
    check(p != NULL && os_fake_resident(p, mi_usable_size(p)) <= 4096);
    mi_free(p);
    mi_collect_all(MI_FORCE);
  }
}

// -- what happens now and then --

static size_t nested_mallocs;

static void allocate_in_hook(void) {
  // Empties lists, makes pages, and comes here again if nobody prevents it.
  void* p[200];
  for (size_t i = 0; i < 200; i++) p[i] = mi_malloc(MI_SLICE_SIZE / 4);
  for (size_t i = 0; i < 200; i++) mi_free(p[i]);
  mi_collect_all(MI_GENTLE);
  nested_mallocs++;
}

// If this fails, deferred frees never run, or run inside each other.
UNIT_TEST_PAGE_SIZES(refill_runs_deferred_frees) {
  hooks_fake.on_deferred_free = &allocate_in_hook;
  uint64_t heartbeat = 0;
  for (size_t i = 0; i < 20000; i++) {
    const size_t size = MI_SLICE_SIZE / 8 << (i % 3);
    void* const p = mi_malloc(size);
    mi_free(p);
    check(hooks_fake.heartbeat >= heartbeat);
    heartbeat = hooks_fake.heartbeat;
  }
  check(hooks_fake.deferred_count >= 2 && nested_mallocs == hooks_fake.deferred_count);
  check(heartbeat >= 1000);
}

// If this fails, a busy program never gives idle memory back.
UNIT_TEST_PAGE_SIZES(refill_purges_while_the_program_is_busy) {
  unit_option(purge_delay, 100);
  void* const large = mi_malloc(MI_CLASS_MAX * 4);
  memset(large, 1, MI_CLASS_MAX * 4);
  void* const p = mi_malloc(MI_SLICE_SIZE);
  mi_free(mi_malloc(MI_SLICE_SIZE)); // so that the page of the loop lies elsewhere
  mi_free(large);
  for (size_t i = 0; i < 200; i++) {
    os_fake_advance_ms(10);
    // A refill for each, as the list of this class holds few blocks.
    for (size_t k = 0; k < 300; k++) mi_free(mi_malloc(MI_SLICE_SIZE));
  }
  check_equal(os_fake_resident(large, MI_CLASS_MAX * 4), 0);
  mi_free(p);
}

// -- everything together --

enum { LIVE = 400, STEPS = 20000 };

static size_t draw_size(uint64_t* random) {
  const size_t kind = random_below(random, 100);
  if (kind < 70) return random_below(random, 600);
  if (kind < 95) return random_below(random, MI_SLICE_SIZE / 2);
  if (kind < 99) return random_below(random, MI_CLASS_MAX);
  return random_below(random, MI_CLASS_MAX * 6);
}

static void check_ends(const uint8_t* p, size_t size, size_t tag) {
  const size_t part = mi_bits_min(size, 64);
  check(unit_is_filled(p, part, tag) && unit_is_filled(p + size - part, part, tag));
}

static void fill_ends(uint8_t* p, size_t size, size_t tag) {
  const size_t part = mi_bits_min(size, 64);
  unit_fill(p, part, tag);
  unit_fill(p + size - part, part, tag);
  unit_fill(p, part, tag);
}

// If this fails, blocks overlap, or the structures are wrong after a long run.
UNIT_TEST_PAGE_SIZES(refill_random_sizes_keep_their_contents) {
  static uint8_t* p[LIVE];
  static size_t size[LIVE];
  uint64_t random = 11;
  for (size_t step = 0; step < STEPS; step++) {
    os_fake.is_single_threaded = step < STEPS / 2;
    const size_t i = random_below(&random, LIVE);
    if (p[i] != NULL) {
      if (size[i] >= 128) check_ends(p[i], size[i], i);
      mi_free(p[i]);
      p[i] = NULL;
    } else {
      size[i] = draw_size(&random);
      p[i] = (uint8_t*)mi_malloc(size[i]);
      check(p[i] != NULL && mi_usable_size(p[i]) >= size[i]);
      if (size[i] >= 128) fill_ends(p[i], size[i], i);
    }
    if (step % 2000 == 0) unit_check_valid();
    if (step % 3000 == 0) mi_collect_all(step % 6000 == 0 ? MI_FORCE : MI_GENTLE);
    if (step % 100 == 0) os_fake_advance_ms(50);
  }
  check_equal(hooks_fake.error_count, 0);
  for (size_t i = 0; i < LIVE; i++) mi_free(p[i]);
  mi_collect_all(MI_FORCE);
  unit_check_empty();
}

// The bytes of blocks in current pages of all classes but one.
static size_t idle_large_bytes(const mi_theap_t* theap, size_t besides) {
  size_t bytes = 0;
  for (size_t c = 0; c < MI_CLASS_COUNT; c++) {
    const mi_page_t* const page = mi_theap_current(theap, c);
    if (page != NULL && c != besides) bytes += mi_page_capacity(page) * page->block_size;
  }
  return bytes;
}

// If this fails, a program that uses large blocks of many sizes, one after the other, keeps an
// empty page of each, although it was larger before.
UNIT_TEST_PAGE_SIZES(refill_keeps_few_idle_large_pages) {
  mi_theap_t* const theap = unit_theap();
  unit_make_peak(1024);
  for (size_t c = mi_class_of(MI_SLICE_SIZE) + 1; c < MI_CLASS_COUNT; c++) {
    mi_free(mi_malloc(mi_class_size(c)));
    check(idle_large_bytes(theap, c) <= 8 * MI_SLICE_SIZE);
    check(mi_theap_current(theap, c) != NULL); // the next malloc of this size makes no page
  }
}

// Uses large blocks of many sizes in a large heap, one after the other. Returns the bytes of the
// pages that the thread still has then.
static size_t use_many_sizes(void) {
  unit_make_peak(1024);
  void* const rest = mi_malloc(MI_SMALL_HEAP);
  for (size_t c = mi_class_of(MI_SLICE_SIZE) + 1; c < MI_CLASS_COUNT; c++) {
    mi_free(mi_malloc(mi_class_size(c)));
  }
  const size_t bytes = idle_large_bytes(unit_theap(), MI_CLASS_COUNT - 1);
  mi_free(rest);
  return bytes;
}

// If this fails, a large program that replaces blocks of many sizes makes a page for each.
UNIT_TEST_PAGE_SIZES(refill_keeps_idle_pages_in_a_large_heap) {
  size_t bytes = 0;
  for (size_t c = mi_class_of(MI_SLICE_SIZE) + 1; c < MI_CLASS_COUNT - 1; c++) {
    bytes += mi_class_size(c);
  }
  check(use_many_sizes() >= bytes);
}

// If this fails, each thread keeps a page of each size when it goes to sleep.
UNIT_TEST_PAGE_SIZES(refill_keeps_few_idle_pages_beside_other_threads) {
  puppet_t other;
  puppet_start(&other);
  puppet_free(&other, puppet_malloc(&other, 8)); // it is counted now
  check(use_many_sizes() <= 8 * MI_SLICE_SIZE);
  puppet_end(&other);
}

// If this fails, a small program with many threads holds many times what it would with one.
UNIT_TEST_PAGE_SIZES(refill_threads_share_what_may_be_idle) {
  enum { THREADS = 8 };
  unit_make_peak(1024);
  void* const rest = mi_malloc(128 * MI_SLICE_SIZE);
  mi_count_add(&mi_state.main.count.threads, THREADS - 1);
  for (size_t c = mi_class_of(MI_SLICE_SIZE) + 1; c < MI_CLASS_COUNT; c++) {
    mi_free(mi_malloc(mi_class_size(c)));
    check(idle_large_bytes(unit_theap(), c) <= 4 * MI_SLICE_SIZE);
  }
  mi_free(rest);
  mi_count_add(&mi_state.main.count.threads, 1 - THREADS);
}

#define FIRST_LARGE (mi_class_of(MI_SLICE_SIZE) + 1)

// If this fails, each of many threads that use large blocks of many sizes keeps a page of each,
// whoever frees them, as long as it makes no other page.
UNIT_TEST_PAGE_SIZES(refill_gives_up_idle_pages_of_a_thread_that_makes_none) {
  puppet_t other;
  puppet_start(&other);
  puppet_free(&other, puppet_malloc(&other, 8)); // it is counted now
  unit_make_peak(1024);
  for (size_t turn = 0; turn < 2; turn++) {
    void* block[MI_CLASS_COUNT];
    for (size_t c = FIRST_LARGE; c < MI_CLASS_COUNT; c++) block[c] = mi_malloc(mi_class_size(c));
    for (size_t c = FIRST_LARGE; c < MI_CLASS_COUNT; c++) {
      if (turn == 0) mi_free(block[c]);
      if (turn == 1) puppet_free(&other, block[c]);
    }
    const size_t busy = FIRST_LARGE;
    check(idle_large_bytes(unit_theap(), busy) > 16 * MI_SLICE_SIZE);
    const size_t count = 2 * MI_QUICK_REFILLS;
    for (size_t i = 0; i < count; i++) mi_free(mi_malloc(mi_class_size(busy)));
    check(idle_large_bytes(unit_theap(), busy) <= 8 * MI_SLICE_SIZE);
    check(mi_theap_current(unit_theap(), busy) != NULL);
  }
  puppet_end(&other);
}

// If this fails, a program peaks at the sum of what its phases leave in empty pages.
UNIT_TEST_PAGE_SIZES(refill_uses_idle_pages_before_a_peak) {
  mi_theap_t* const theap = unit_theap();
  const mi_counters_t* const now = &mi_state.main.count;
  unit_make_peak(32);
  const int64_t peak = now->committed_peak;
  // An empty page in a queue, another one of a large class that is current.
  const size_t large = mi_class_of(MI_SLICE_SIZE / 2);
  const size_t count = unit_fill_page(CLASS, blocks);
  void* const kept = mi_malloc(SIZE);
  for (size_t i = 0; i < count; i++) mi_free(blocks[i]);
  mi_free(mi_malloc(mi_class_size(large)));
  // Below the peak they wait for the next blocks of their sizes.
  mi_free(mi_malloc(4 * SIZE));
  check(theap->queue[CLASS].last != NULL && mi_theap_current(theap, large) != NULL);
  void* const rest = mi_malloc((size_t)(peak - now->committed));
  check_equal(now->committed, peak);
  // A page of another size has the memory of one of them.
  void* const p = mi_malloc(2 * SIZE);
  check(theap->queue[CLASS].last == NULL && mi_theap_current(theap, large) == NULL);
  check(unit_page_of(kept)->place == MI_PLACE_CURRENT);
  check_equal(now->committed_peak, peak);
  mi_free(p);
  mi_free(kept);
  mi_free(rest);
  unit_check_valid();
}

// Return a class whose pages have several slices, or one.
static size_t class_of_long_pages(void) {
  size_t c = 0;
  while (mi_class_slices(c) == 1 || !mi_class_has_slices(c, 1)) c++;
  return c;
}

// If this fails, a program whose blocks become longer peaks at the sum of what it has and what it
// had: the new pages find no place in what the old ones left.
UNIT_TEST_PAGE_SIZES(refill_makes_short_pages_before_a_peak) {
  enum { PAGES = 40 };
  const mi_counters_t* const now = &mi_state.main.count;
  const size_t in_page = unit_page_blocks(CLASS);
  const size_t c = class_of_long_pages();
  const size_t slices = mi_class_slices(c);
  for (size_t i = 0; i < PAGES * in_page; i++) many[i] = mi_malloc(SIZE);
  const int64_t peak = now->committed_peak;
  for (size_t i = 0; i < (PAGES - 1) * in_page; i++) {
    if (i / in_page % 2 != 0) continue;
    mi_free(many[i]);
    many[i] = NULL;
  }
  mi_flush_theap(unit_theap());
  const int64_t waiting = mi_atomic_load_relaxed(&mi_state.main.purge_waiting);
  check(waiting >= (int64_t)(PAGES / 4 * MI_SLICE_SIZE));
  mi_page_t* pages[PAGES / 4];
  for (size_t i = 0; i < PAGES / 4; i++) {
    pages[i] = mi_refill_make_page(unit_theap(), c);
    check(pages[i]->slice_count < slices);
    check_equal(pages[i]->reserved, mi_class_blocks(mi_class_size(c), pages[i]->slice_count));
  }
  check_equal(now->committed_peak, peak);
  for (size_t i = 0; i < PAGES / 4; i++) mi_page_release(UNIT_HEAP, pages[i]);
  for (size_t i = 0; i < PAGES * in_page; i++) mi_free(many[i]);
  mi_collect_all(MI_FORCE);
  unit_check_empty();
}

// If this fails, making a page takes longer and longer as the heap grows.
UNIT_TEST(refill_searches_few_pages_for_empty_ones) {
  mi_theap_t* const theap = unit_theap();
  const size_t c = mi_class_of(MI_SLICE_SIZE / 8);
  for (size_t round = 0; round < 2; round++) {
    const size_t pages = round == 0 ? 200 : 300;
    const size_t count = pages * unit_page_blocks(c);
    for (size_t i = 0; i < count; i++) many[i] = mi_malloc(mi_class_size(c));
    for (size_t i = 0; i < count; i += unit_page_blocks(c)) mi_free(many[i]);
    for (size_t i = 1; i < unit_page_blocks(c); i++) mi_free(many[i]); // one of these is empty
    const size_t before = theap->page_count;
    mi_flush_empty(theap);
    check_equal(before - theap->page_count, round == 0 ? 1 : 0);
    for (size_t i = unit_page_blocks(c); i < count; i++) {
      if (i % unit_page_blocks(c) != 0) mi_free(many[i]);
    }
    mi_collect_all(MI_FORCE);
  }
  unit_check_empty();
}

// If this fails, a large heap peaks at what it uses and what it keeps in empty pages.
UNIT_TEST(refill_searches_many_pages_for_much) {
  mi_theap_t* const theap = unit_theap();
  const size_t c = mi_class_of(MI_SLICE_SIZE / 8);
  const size_t in_page = unit_page_blocks(c);
  const size_t count = 1200 * in_page;
  for (size_t i = 0; i < count; i++) many[i] = mi_malloc(mi_class_size(c));
  const size_t some = 400 * in_page;
  for (size_t i = 0; i < some; i += in_page) mi_free(many[i]);
  for (size_t i = 0; i < 40 * in_page; i++) {
    if (i % in_page != 0) mi_free(many[i]);
  }
  check(theap->idle_bytes >= 400 / 32 * MI_SLICE_SIZE);
  mi_flush_empty(theap);
  check_equal(theap->idle_bytes, 0);
  for (size_t i = 40 * in_page; i < count; i++) {
    if (i >= some || i % in_page != 0) mi_free(many[i]);
  }
  mi_collect_all(MI_FORCE);
  unit_check_empty();
}

// Use all blocks of a page and free them. Returns the slice, which waits then.
static uint8_t* use_a_page(size_t size) {
  const size_t count = unit_fill_page(mi_class_of(size), blocks);
  uint8_t* const start = unit_page_of(blocks[0])->start;
  for (size_t i = 0; i < count; i++) memset(blocks[i], 1, size);
  for (size_t i = 0; i < count; i++) mi_free(blocks[i]);
  mi_flush_theap(unit_theap());
  return start;
}

// Make a page for one block. True if its slice still has what was there before.
static bool finds_old_memory(uint8_t* slice, size_t size) {
  mi_free(mi_malloc(size));
  const size_t resident = os_fake_resident(slice, MI_SLICE_SIZE);
  mi_flush_theap(unit_theap());
  return resident > mi_bits_max(MI_SLICE_SIZE / 2, mi_state.os.page_size);
}

// If this fails, a size of which a small program has few blocks holds a whole page of old memory;
// or a program that uses much of a size, frees it and begins again, pays for each page anew.
UNIT_TEST(refill_takes_old_memory_for_a_class_that_used_its_page) {
  if (MI_IS_TINY) return; // a slice is one OS page
  uint8_t* const slice = use_a_page(SIZE);
  check(!finds_old_memory(slice, 2 * SIZE));
  check(use_a_page(SIZE) == slice);
  check(finds_old_memory(slice, SIZE));
  check(!finds_old_memory(slice, SIZE)); // little was used of the last one
}

// -- a crowd of threads --

#define CROWD 40
#define SHARED_MIN (2 * MI_PORTION_BYTES) // each block is a portion
#define SHARED_SIZE (2 * SHARED_MIN) // a class that others can serve would be another one

static puppet_t crowd[CROWD];

static void gather_crowd(void) {
  unit_start_puppets(crowd, CROWD);
  check(mi_state.main.count.threads > MI_CROWD_THREADS);
}

static void dismiss_crowd(void) { unit_end_puppets(crowd, CROWD); }

// Each of the first `count` threads takes a block, and any of them frees it.
static void check_threads_share_pages(size_t count) {
  const size_t c = mi_class_of(SHARED_SIZE);
  const int64_t before = mi_state.main.count.pages;
  const size_t per_page = unit_page_blocks(c);
  for (size_t i = 0; i < count; i++) {
    blocks[i] = puppet_malloc(&crowd[i], SHARED_SIZE);
    unit_fill(blocks[i], SHARED_SIZE, i);
    const mi_page_t* const page = unit_page_of(blocks[i]);
    check_equal(mi_atomic_load_relaxed(&page->owner), MI_OWNER_SHARED);
  }
  check_equal(mi_state.main.count.pages - before, mi_bits_divide_up(count, per_page));
  // Whoever frees gives the block to all.
  for (size_t i = 0; i < count; i += 2) {
    check(unit_is_filled(blocks[i], SHARED_SIZE, i));
    puppet_free(&crowd[(i + 7) % count], blocks[i]);
  }
  for (size_t i = 0; i < count; i += 2) {
    blocks[i] = puppet_malloc(&crowd[count - 1 - i], SHARED_SIZE);
    unit_fill(blocks[i], SHARED_SIZE, i);
  }
  check_equal(mi_state.main.count.pages - before, mi_bits_divide_up(count, per_page));
  for (size_t i = 0; i < count; i++) {
    check(unit_is_filled(blocks[i], SHARED_SIZE, i));
    mi_free(blocks[i]);
  }
}

// If this fails, each of hundreds of sleeping threads holds pages that nobody else can use.
UNIT_TEST_PAGE_SIZES(refill_shares_pages_in_a_crowd) {
  gather_crowd();
  check_threads_share_pages(CROWD);
  dismiss_crowd();
  mi_collect_all(MI_FORCE);
  unit_check_empty();
}

static void join_threadpool(void* arg) {
  (void)arg;
  mi_self_home()->is_in_threadpool = true; // as mi_thread_set_in_threadpool does
}

// If this fails, threads that said that they run tasks hold pages that the next task, on another
// thread, cannot use.
UNIT_TEST_PAGE_SIZES(refill_shares_pages_of_a_threadpool) {
  enum { POOL = 6 };
  unit_start_puppets(crowd, POOL);
  for (size_t i = 0; i < POOL; i++) puppet_do(&crowd[i], &join_threadpool, NULL);
  check_threads_share_pages(POOL);
  unit_end_puppets(crowd, POOL);
  mi_collect_all(MI_FORCE);
  unit_check_empty();
}

// If this fails, calloc in a crowd returns what somebody else wrote.
UNIT_TEST_PAGE_SIZES(refill_shared_blocks_are_zero) {
  gather_crowd();
  for (size_t i = 0; i < 64; i++) {
    const size_t size = SHARED_MIN + i * SHARED_MIN / 3;
    uint8_t* const p = (uint8_t*)puppet_malloc(&crowd[i % CROWD], size);
    memset(p, 0xff, size);
    mi_free(p);
    check_zero_and_dirty((uint8_t*)mi_calloc(1, size));
  }
  dismiss_crowd();
}

// If this fails, many threads hold whole pages of which they use a few blocks.
UNIT_TEST_PAGE_SIZES(refill_makes_sparse_pages_for_many_threads) {
  enum { MANY = 20 }; // no crowd yet
  unit_start_puppets(crowd, MANY);
  const size_t large_size = 2 * MI_CLASS_MAX;
  uint8_t* const large = (uint8_t*)mi_malloc(large_size);
  memset(large, 1, large_size);
  mi_free(large);
  check_equal(os_fake_resident(large, large_size), large_size);
  size_t inside = 0;
  for (size_t c = 1; c <= mi_class_of(MI_SLICE_SIZE / 8); c++) {
    uint8_t* const p = (uint8_t*)mi_zalloc(mi_class_size(c));
    check(unit_is_zero(p, mi_class_size(c)));
    const mi_page_t* const page = unit_page_of(p);
    if (page->start < large || page->start >= large + large_size) continue;
    inside++;
    const size_t carved = mi_page_capacity(page) * page->block_size;
    check(os_fake_resident(page->start, page->slice_count * MI_SLICE_SIZE) <=
          mi_bits_align_up(carved, os_fake.page_size));
  }
  check(inside > 0);
  unit_end_puppets(crowd, MANY);
}

// If this fails, a thread that had a page before the crowd came keeps it for ever.
UNIT_TEST_PAGE_SIZES(refill_gives_up_its_page_when_a_crowd_comes) {
  mi_theap_t* const theap = unit_theap();
  const size_t c = mi_class_of(SHARED_SIZE);
  blocks[0] = mi_malloc(SHARED_SIZE);
  check(mi_theap_current(theap, c) != NULL);
  gather_crowd();
  size_t count = 1;
  while (theap->free[c] != NULL) blocks[count++] = mi_malloc(SHARED_SIZE);
  blocks[count++] = mi_malloc(SHARED_SIZE);
  check(mi_theap_current(theap, c) == NULL);
  while (count > 0) mi_free(blocks[--count]);
  dismiss_crowd();
  // Alone again: a page of its own.
  blocks[0] = mi_malloc(SHARED_SIZE);
  check(mi_theap_current(theap, c) != NULL);
  mi_free(blocks[0]);
}

// If this fails, a thread that uses one page for weeks makes the number of blocks that were ever
// allocated negative: what a page counts has 32 bits.
UNIT_TEST(refill_settles_what_a_page_has_counted) {
  enum { HERE = 20000 };
  void* const p = mi_malloc(HERE);
  mi_page_t* const page = unit_page_of(p);
  const size_t c = page->size_class;
  const size_t pairs = (MI_CLASS_COUNT + 1) * MI_QUICK_REFILLS * unit_page_blocks(c);
  mi_free(p);
  page->refilled.handed = INT32_MAX / 2;
  for (size_t i = 0; i < pairs; i++) mi_free(mi_malloc(HERE));
  check(unit_theap()->current[c] == page);
  check(page->refilled.handed < INT32_MAX / 2);
  check(mi_atomic_load_relaxed(&mi_state.main.count.of_class[c].handed) >= INT32_MAX / 2);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(refill_keeps_few_idle_large_pages),
      cmocka_unit_test(refill_keeps_idle_pages_in_a_large_heap),
      cmocka_unit_test(refill_keeps_few_idle_pages_beside_other_threads),
      cmocka_unit_test(refill_threads_share_what_may_be_idle),
      cmocka_unit_test(refill_gives_up_idle_pages_of_a_thread_that_makes_none),
      cmocka_unit_test(refill_uses_idle_pages_before_a_peak),
      cmocka_unit_test(refill_makes_short_pages_before_a_peak),
      cmocka_unit_test(refill_searches_few_pages_for_empty_ones),
      cmocka_unit_test(refill_searches_many_pages_for_much),
      cmocka_unit_test(refill_takes_old_memory_for_a_class_that_used_its_page),
      cmocka_unit_test(refill_shares_pages_in_a_crowd),
      cmocka_unit_test(refill_shares_pages_of_a_threadpool),
      cmocka_unit_test(refill_shared_blocks_are_zero),
      cmocka_unit_test(refill_makes_sparse_pages_for_many_threads),
      cmocka_unit_test(refill_gives_up_its_page_when_a_crowd_comes),
      cmocka_unit_test(refill_uses_own_frees_before_fresh_memory),
      cmocka_unit_test(refill_uses_remote_frees_before_fresh_memory),
      cmocka_unit_test(refill_uses_the_queue_before_fresh_memory),
      cmocka_unit_test(refill_looks_past_untouched_pages),
      cmocka_unit_test(refill_looks_at_few_untouched_pages),
      cmocka_unit_test(refill_takes_the_oldest_page_first),
      cmocka_unit_test(refill_uses_guests_then_the_pool),
      cmocka_unit_test(refill_adopts_pages_of_ended_threads),
      cmocka_unit_test(refill_gives_up_what_is_unused_before_it_fails),
      cmocka_unit_test(refill_refuses_absurd_sizes),
      cmocka_unit_test(refill_zeroes_every_class),
      cmocka_unit_test(refill_zeroes_what_others_freed),
      cmocka_unit_test(refill_does_not_clear_fresh_memory),
      cmocka_unit_test(refill_runs_deferred_frees),
      cmocka_unit_test(refill_settles_what_a_page_has_counted),
      cmocka_unit_test(refill_purges_while_the_program_is_busy),
      cmocka_unit_test(refill_random_sizes_keep_their_contents),
  };
  return cmocka_run_group_tests_name("refill", tests, NULL, NULL);
}
