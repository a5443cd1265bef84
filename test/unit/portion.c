// SPDX-License-Identifier: MIT
// portion.c - tests of threads/portion.c: what threads in a crowd or alone hold ready,
// and that all of it comes back.
#include "unit.h"

#include "core/pages/page.h"
#include "core/threads/portion.h"
#include "core/pages/remote.h"
#include "core/heaps/subproc.h"
#include "core/threads/theap.h"
#include "core/threads/thread.h"

#define CROWD (MI_CROWD_THREADS + 4)
#define SIZE ((size_t)16)
#define CLASS mi_class_of(SIZE)
#define LENGTH mi_portion_length_max(CLASS)
#define BUSY_REFILLS (16 * 1024) // as crowd.c says

static puppet_t crowd[CROWD];
static void* blocks[4096];

static void gather_young(void) { unit_start_puppets(crowd, CROWD); }

// The same, with a thread that has worked for a while.
static void gather(void) {
  gather_young();
  unit_theap()->heartbeat += MI_PORTION_REFILLS;
}

static void dismiss(void) { unit_end_puppets(crowd, CROWD); }

static size_t length_of(const mi_theap_t* theap) {
  size_t count = 0;
  for (const mi_block_t* b = mi_portion_of(theap, CLASS); b != NULL; b = b->next) count++;
  return count;
}

// If this fails, each of hundreds of sleeping threads holds a page for each small size it used.
UNIT_TEST_PAGE_SIZES(portion_threads_share_pages_of_small_blocks) {
  gather();
  const int64_t before = mi_state.main.count.pages;
  for (size_t i = 0; i < CROWD; i++) {
    blocks[i] = puppet_malloc(&crowd[i], SIZE);
    unit_fill(blocks[i], SIZE, i);
    const mi_page_t* const page = unit_page_of(blocks[i]);
    check_equal(mi_atomic_load_relaxed(&page->owner), MI_OWNER_SHARED);
  }
  const size_t needed = mi_bits_divide_up(CROWD * LENGTH, unit_page_blocks(CLASS));
  check((size_t)(mi_state.main.count.pages - before) <= needed);
  for (size_t i = 0; i < CROWD; i++) {
    check(unit_is_filled(blocks[i], SIZE, i));
    puppet_free(&crowd[(i + 5) % CROWD], blocks[i]);
  }
  unit_check_valid();
  dismiss();
  mi_collect_all(MI_FORCE);
  unit_check_empty();
}

// If this fails, a thread that frees much holds it all back, or each of these frees changes what
// all threads share.
UNIT_TEST_PAGE_SIZES(portion_is_bounded_and_filled_by_frees) {
  gather();
  mi_theap_t* const theap = unit_theap();
  const size_t count = 5 * LENGTH;
  for (size_t i = 0; i < count; i++) blocks[i] = mi_malloc(SIZE);
  while (theap->free[CLASS] != NULL) blocks[4095] = mi_malloc(SIZE);
  const mi_page_t* const page = unit_page_of(blocks[0]);
  uint32_t used = page->count.used;
  size_t changes = 0;
  for (size_t i = 0; i < count; i++) {
    mi_free(blocks[i]);
    const size_t length = length_of(theap);
    if (i == LENGTH) mi_theap_set_quick(theap, 1); // frees alone are no reason for the slow path
    if (i < LENGTH) {
      check_equal(length, i + 1);
    } else { // PORTION-2
      check(length > LENGTH / 2 && length <= LENGTH);
    }
    if (page->count.used != used) changes++;
    used = page->count.used;
  }
  check(changes > 0 && changes <= 2 * count / LENGTH);
  unit_check_valid();
  dismiss();
}

// Frees five times as many blocks as a portion may have. Returns the most that waited in it.
static size_t most_of_portion(void) {
  size_t most = 0;
  for (size_t i = 0; i < 5 * LENGTH; i++) blocks[i] = mi_malloc(SIZE);
  for (size_t i = 0; i < 5 * LENGTH; i++) {
    mi_free(blocks[i]);
    most = mi_bits_max(most, length_of(unit_theap()));
  }
  return most;
}

// If this fails, hundreds of threads that did one thing and sleep hold the blocks of it; or threads
// that work for long go a long way for each second block.
UNIT_TEST_PAGE_SIZES(portion_of_a_thread_that_hardly_worked_is_short) {
  const size_t length = MI_PORTION_BYTES_MIN / SIZE;
  gather_young();
  check(length < LENGTH);
  check_equal(most_of_portion(), length);
  const uint64_t due = unit_theap()->heartbeat + MI_PORTION_REFILLS;
  while (unit_theap()->heartbeat < due) {
    void* const p = mi_malloc(2 * MI_PORTION_BYTES);
    void* const q = mi_malloc(2 * MI_PORTION_BYTES);
    mi_free(p);
    mi_free(q);
  }
  check_equal(most_of_portion(), LENGTH);
  unit_check_valid();
  dismiss();
}

// If this fails, malloc and free in a crowd change what all threads share each time.
UNIT_TEST_PAGE_SIZES(portion_serves_pairs_alone) {
  gather();
  mi_theap_t* const theap = unit_theap();
  mi_free(mi_malloc(SIZE));
  check(length_of(theap) > 0);
  mi_page_t* const page = unit_page_of(theap->free[CLASS]);
  const uintptr_t word = mi_atomic_load_relaxed(&page->thread_free);
  const uint32_t used = page->count.used;
  for (size_t i = 0; i < 200; i++) {
    void* p[3];
    for (size_t k = 0; k < 3 && k < LENGTH / 2; k++) p[k] = mi_malloc(SIZE);
    for (size_t k = 0; k < 3 && k < LENGTH / 2; k++) mi_free(p[k]);
    check_equal(mi_atomic_load_relaxed(&page->thread_free), word);
    check_equal(page->count.used, used);
  }
  dismiss();
}

// If this fails, blocks over half a portion wait with a thread that sleeps.
UNIT_TEST_PAGE_SIZES(portion_of_larger_blocks_is_one) {
  gather();
  mi_theap_t* const theap = unit_theap();
  for (size_t c = mi_class_of(MI_PORTION_BYTES / 2) + 1; c < MI_CLASS_COUNT; c++) {
    check_equal(mi_portion_length_max(c), 1);
    void* const p = mi_malloc(mi_class_size(c));
    check(mi_portion_of(theap, c) == NULL);
    mi_free(p);
    check(mi_portion_of(theap, c) == NULL);
  }
  dismiss();
}

// If this fails, each thread that ends in a crowd takes some blocks along.
UNIT_TEST_PAGE_SIZES(portion_goes_back_when_its_thread_ends) {
  gather();
  void* const mine = mi_malloc(SIZE);
  for (size_t i = 0; i < CROWD; i++) mi_free(puppet_malloc(&crowd[i], SIZE));
  dismiss();
  mi_free(mine);
  mi_collect_all(MI_FORCE);
  unit_check_empty();
}

// If this fails, calloc in a crowd returns what was written before.
UNIT_TEST_PAGE_SIZES(portion_blocks_are_cleared_by_calloc) {
  gather();
  for (size_t size = 1; size <= MI_PORTION_BYTES; size += 7) {
    uint8_t* const p = (uint8_t*)mi_malloc(size);
    memset(p, 0xff, size);
    mi_free(p);
    uint8_t* const q = (uint8_t*)mi_calloc(1, size);
    check(unit_is_zero(q, size));
    memset(q, 0xff, size);
    mi_free(q);
  }
  dismiss();
}

// If this fails, a block that is freed twice in a row is handed out twice.
UNIT_TEST_PAGE_SIZES(portion_reports_a_double_free) {
  gather();
  mi_theap_t* const theap = unit_theap();
  void* const p = mi_malloc(SIZE);
  while (theap->free[CLASS] != NULL) blocks[0] = mi_malloc(SIZE);
  mi_free(p);
  mi_free(p);
  check_equal(hooks_fake.count[MI_ERROR_DOUBLE_FREE], 1);
  check_equal(length_of(theap), 1);
  dismiss();
}

// If this fails, a program that writes to a freed block crashes in malloc or in free, or hangs at
// thread exit.
UNIT_TEST_PAGE_SIZES(portion_with_a_wrong_link_is_reported) {
  for (size_t k = 0; k < 6; k++) {
    gather();
    mi_theap_t* const theap = unit_theap();
    void* const p = mi_malloc(SIZE);
    void* const q = mi_malloc(SIZE);
    void* const r = mi_malloc(SIZE);
    while (theap->free[CLASS] != NULL) blocks[0] = mi_malloc(SIZE);
    mi_free(p);
    mi_free(q);
    mi_block_t* const newest = theap->free[CLASS];
    if (k % 3 == 0) newest->next = (mi_block_t*)(uintptr_t)0x4141414141414140;
    if (k % 3 == 1) newest->next = (mi_block_t*)((uint8_t*)newest->next + 3);
    if (k % 3 == 2) newest->next->next = newest; // a loop
    const size_t before = hooks_fake.error_count;
    if (k < 3) {
      mi_portion_return_all(theap);
    } else {
      mi_handed_set_room(theap, CLASS, 0);
      mi_free(r); // sees if there is room
    }
    check(hooks_fake.error_count > before);
    check(theap->free[CLASS] == NULL);
    dismiss();
  }
  // Not valid any more: what the lists hold is lost.
}

// If this fails, a program in a crowd that writes to a freed block gets what it wrote as a block.
UNIT_TEST_PAGE_SIZES(portion_from_a_page_with_a_wrong_link) {
  for (size_t k = 0; k < 2; k++) {
    gather();
    blocks[0] = mi_malloc(SIZE);
    const size_t left = length_of(unit_theap());
    // Behind what is left of this portion come the next one and, with k, the block after it; or as
    // much as the page has prepared.
    mi_block_t* last = unit_page_of(blocks[0])->local_free;
    for (size_t i = 1; i < LENGTH + k && last->next != NULL; i++) last = last->next;
    last->next = (mi_block_t*)(uintptr_t)0x4141414141414140;
    const size_t before = hooks_fake.count[MI_ERROR_CORRUPT_LIST];
    const size_t count = 1 + left + 3 * LENGTH;
    for (size_t i = 1; i < count; i++) {
      blocks[i] = mi_malloc(SIZE);
      check(blocks[i] != NULL);
      unit_fill(blocks[i], SIZE, i);
    }
    check_equal(hooks_fake.count[MI_ERROR_CORRUPT_LIST] - before, 1);
    for (size_t i = 1; i < count; i++) check(unit_is_filled(blocks[i], SIZE, i));
    for (size_t i = 0; i < count; i++) mi_free(blocks[i]);
    dismiss();
  }
}

// If this fails, statistics count what threads in a crowd hold ready as in use.
UNIT_TEST_PAGE_SIZES(portion_is_not_in_use) {
  gather();
  for (size_t i = 0; i < 10; i++) blocks[i] = mi_malloc(SIZE);
  mi_free(blocks[9]);
  static mi_usage_t usage;
  mi_usage_measure(&mi_state.main, NULL, &usage);
  check_equal(usage.class_blocks[CLASS], 9);
  dismiss();
}

// If this fails, a thread that keeps pages from before a crowd blocks them for all.
UNIT_TEST_PAGE_SIZES(portion_replaces_pages_from_before) {
  mi_theap_t* const theap = unit_theap();
  size_t count = 0;
  for (; count < 3 * unit_page_blocks(CLASS) && count < 4000; count++) {
    blocks[count] = mi_malloc(SIZE);
  }
  for (size_t i = 0; i < count; i += 2) mi_free(blocks[i]);
  check(mi_theap_current(theap, CLASS) != NULL);
  gather();
  // First what its page still has.
  for (size_t i = 0; mi_theap_current(theap, CLASS) != NULL; i++) {
    check(i <= count);
    blocks[4095] = mi_malloc(SIZE);
  }
  check(theap->queue[CLASS].last == NULL);
  unit_check_valid();
  dismiss();
  // Alone again: a page of its own, when the portion is used up.
  while (theap->free[CLASS] != NULL) blocks[4095] = mi_malloc(SIZE);
  blocks[4094] = mi_malloc(SIZE);
  check(mi_theap_current(theap, CLASS) != NULL);
}

// Refills, until it was decided whether the thread waits: in each round it does for so long.
static void refill_often(uint64_t wait_us) {
  const uint64_t before = unit_theap()->heartbeat;
  while (unit_theap()->heartbeat - before < BUSY_REFILLS + 1100) {
    void* const p = mi_malloc(2 * MI_PORTION_BYTES);
    void* const q = mi_malloc(2 * MI_PORTION_BYTES);
    mi_free(p);
    mi_free(q);
    os_fake.now_us += wait_us;
  }
}

static void work(void* unused) {
  (void)unused;
  mi_theap_t* const theap = unit_theap();
  mi_free(mi_malloc(SIZE));
  check(!theap->is_busy && mi_portion_of(theap, CLASS) != NULL);
  for (size_t i = 0; i < 2 * BUSY_REFILLS * LENGTH && !theap->is_busy; i++) {
    mi_free(mi_malloc(SIZE));
  }
  check(theap->is_busy);
}

// If this fails, a thread that works in a crowd, and needs no more than its portion, pays for the
// crowd for ever; or so do others after it has ended.
UNIT_TEST_PAGE_SIZES(portion_ends_for_a_thread_that_works) {
  gather();
  work(NULL);
  puppet_do(&crowd[0], &work, NULL);
  check_equal(mi_state.main.count.busy_threads, 2);
  dismiss();
  check_equal(mi_state.main.count.busy_threads, 1);
}

// If this fails, a thread that works all the time goes a long way for most blocks because there are
// many threads; or one that waits keeps what it had when it worked.
UNIT_TEST_PAGE_SIZES(portion_is_for_threads_that_wait) {
  gather();
  mi_theap_t* const theap = unit_theap();
  check(!theap->is_busy);
  refill_often(0);
  check(theap->is_busy);
  while (theap->free[CLASS] != NULL) blocks[0] = mi_malloc(SIZE);
  blocks[0] = mi_malloc(SIZE);
  check(mi_theap_current(theap, CLASS) != NULL);
  // So do larger ones: all that others do is sleep.
  blocks[1] = mi_malloc(MI_SLICE_SIZE / 2);
  check(mi_theap_current(theap, mi_class_of(MI_SLICE_SIZE / 2)) != NULL);
  os_fake.now_us += OS_FAKE_AWAY_US; // another thread ran in its place
  refill_often(0);
  check(theap->is_busy);
  check_equal(mi_state.main.count.busy_threads, 1);
  refill_often(OS_FAKE_AWAY_US);
  check_equal(mi_state.main.count.busy_threads, 0);
  const size_t count = 2 * unit_page_blocks(CLASS);
  for (size_t i = 0; i <= count && mi_theap_current(theap, CLASS) != NULL; i++) {
    blocks[2] = mi_malloc(SIZE);
  }
  check(mi_theap_current(theap, CLASS) == NULL);
  unit_check_valid();
  dismiss();
}

// If this fails, blocks of a heap that has ended are handed out, or its pages are never free.
UNIT_TEST_PAGE_SIZES(portion_of_a_heap_ends_with_it) {
  for (size_t k = 0; k < 2; k++) {
    gather();
    mi_heap_t* const heap = mi_heap_make(&mi_state.main, NULL);
    for (size_t i = 0; i < CROWD; i++) {
      blocks[i] = puppet_heap_malloc(&crowd[i], heap, SIZE);
      blocks[CROWD + i] = puppet_heap_malloc(&crowd[i], heap, SIZE);
      puppet_free(&crowd[i], blocks[i]);
    }
    unit_check_valid();
    if (k == 0) mi_heap_end_by_destroy(heap);
    if (k == 1) mi_heap_end_by_delete(heap);
    for (size_t i = 0; i < CROWD; i++) {
      if (k == 1) puppet_free(&crowd[(i + 1) % CROWD], blocks[CROWD + i]);
      mi_free(puppet_malloc(&crowd[i], SIZE));
    }
    dismiss();
    mi_collect_all(MI_FORCE);
    unit_check_empty();
  }
}

// -- without a crowd --

#define OWN_SIZE (MI_SLICE_SIZE / 128)
#define OWN_CLASS mi_class_of(OWN_SIZE)
#define OWN_PER unit_page_blocks(OWN_CLASS)
#define OWN_LENGTH mi_portion_own_length(OWN_CLASS)
#define OWN_PAGES ((size_t)(MI_IS_TINY ? 80 : 700)) // a heap that is larger than the caches
#define OWN_MAX (OWN_PAGES * 128)

static void* own[OWN_MAX];
static size_t own_count;

// So many full pages, in which every `distance`-th block was freed then.
static void fill_pages(size_t pages, size_t distance) {
  own_count = pages * OWN_PER;
  check(own_count <= OWN_MAX);
  for (size_t i = 0; i < own_count; i++) own[i] = mi_malloc(OWN_SIZE);
  for (size_t i = 0; i < own_count; i += distance) mi_free(own[i]);
}

// Many full pages, of which each has one free block then: own[0], own[OWN_PER], ...
static void spread(void) { fill_pages(OWN_PAGES, OWN_PER); }

// Allocates until there is a portion; returns a block of a page that is parked.
static void* begin_portion(void) {
  void* p;
  size_t count = 0;
  do {
    check(++count < 2 * OWN_PER);
    p = mi_malloc(OWN_SIZE);
  } while (mi_theap_current(unit_theap(), OWN_CLASS) != NULL);
  check((mi_atomic_load_relaxed(&unit_page_of(p)->owner) & MI_OWNER_PARKED) != 0);
  unit_check_valid();
  return p;
}

static size_t own_length(void) {
  size_t count = 0;
  const mi_block_t* b = mi_portion_of(unit_theap(), OWN_CLASS);
  for (; b != NULL; b = b->next) count++;
  return count;
}

// If this fails, a program with a full heap pays several cache misses for each block it replaces.
UNIT_TEST(portion_of_one_thread_serves_what_was_freed_last) {
  spread();
  void* const p = begin_portion();
  for (size_t i = 0; i < 10 * OWN_LENGTH; i++) {
    if (mi_portion_of(unit_theap(), OWN_CLASS) == NULL && unit_theap()->room[OWN_CLASS] == 0) break;
    mi_free(p);
    check((mi_atomic_load_relaxed(&unit_page_of(p)->owner) & MI_OWNER_PARKED) != 0);
    check(mi_malloc(OWN_SIZE) == p);
    unit_fill(p, OWN_SIZE, i);
  }
  unit_check_valid();
}

// If this fails, small heaps, whose pages are in the cache, are slower.
UNIT_TEST(portion_is_not_for_many_free_blocks) {
  fill_pages(8, 8);
  for (size_t i = 0; i < own_count / 16; i++) {
    check(mi_malloc(OWN_SIZE) != NULL);
    check(mi_theap_current(unit_theap(), OWN_CLASS) != NULL);
  }
}

// If this fails, threads that exchange blocks take pages from each other that are hardly used.
UNIT_TEST(portion_is_not_for_threads_that_exchange_blocks) {
  unit_theap();
  puppet_t other;
  puppet_start(&other);
  for (size_t i = 0; i < 2 * OWN_PER; i++) blocks[i] = puppet_malloc(&other, OWN_SIZE);
  fill_pages(8, OWN_PER / 6);
  check_equal(unit_theap()->exchange_ticks, 0);
  mi_free(blocks[0]); // its page is full
  check_equal(unit_theap()->exchange_ticks, MI_EXCHANGE_TICKS);
  for (size_t i = 0; i < 30; i++) {
    check(mi_malloc(OWN_SIZE) != NULL);
    check(mi_theap_current(unit_theap(), OWN_CLASS) != NULL);
  }
  for (size_t i = 0; i < MI_EXCHANGE_TICKS; i++) {
    os_fake_advance_ms(500);
    unit_theap()->cadence_count = 1024; // the next refill looks at idle pages
    unit_theap()->quick_left = 1;
    while (unit_theap()->cadence_count >= 1024) check(mi_malloc(SIZE) != NULL);
  }
  check_equal(unit_theap()->exchange_ticks, 0);
  for (size_t i = 0; mi_theap_current(unit_theap(), OWN_CLASS) != NULL; i++) {
    check(i < 2 * OWN_PER);
    check(mi_malloc(OWN_SIZE) != NULL);
  }
  puppet_end(&other);
  unit_check_valid();
}

// If this fails, each block that such a thread replaces in a large heap costs it cache misses.
UNIT_TEST(portion_is_for_threads_that_exchange_blocks_in_a_large_heap) {
  fill_pages(OWN_PAGES, OWN_PER / 6);
  unit_theap()->exchange_ticks = MI_EXCHANGE_TICKS;
  begin_portion();
}

// If this fails, a page is parked and taken back for each block that is replaced in a heap of one
// size.
UNIT_TEST(portion_serves_a_full_heap) {
  fill_pages(8, OWN_PER);
  begin_portion();
  while (unit_theap()->queue[OWN_CLASS].last != NULL) check(mi_malloc(OWN_SIZE) != NULL);
  for (size_t i = 0; i < OWN_LENGTH / 2; i++) {
    void* const other = own[OWN_PER * (i % 8) + 1 + i / 8];
    mi_free(other);
    check(mi_malloc(OWN_SIZE) == other);
  }
  unit_check_valid();
}

// If this fails, blocks of 4 to 32 KiB that are replaced cost the page of each, or larger ones lie
// idle in portions.
UNIT_TEST(portion_is_for_blocks_up_to_half_a_slice) {
  const size_t last = mi_class_of(MI_SLICE_SIZE / 2);
  check_equal(mi_portion_own_length(0), 128);
  check_equal(mi_portion_own_length(last), 16);
  check_equal(mi_portion_own_length(last + 1), 1);
  static void* block[64];
  const size_t size = mi_class_size(last);
  for (size_t i = 0; i < 64; i++) block[i] = mi_malloc(size);
  for (size_t i = 0; i < 64; i += 8) mi_free(block[i]);
  size_t count = 0;
  do {
    check(++count < 64);
    check(mi_malloc(size) != NULL);
  } while (mi_theap_current(unit_theap(), last) != NULL);
  unit_check_valid();
}

// If this fails, each page of a program that frees everything is kept by one block.
UNIT_TEST(portion_that_is_full_goes_back) {
  spread();
  begin_portion();
  for (size_t i = 0; i < 10; i++) check(mi_malloc(OWN_SIZE) != NULL); // parks more pages
  const size_t used = unit_used_slices();
  bool is_over = false;
  for (size_t i = 0; i < own_count; i++) {
    const size_t before = own_length();
    if (i % OWN_PER != 0) mi_free(own[i]);
    check(own_length() <= OWN_LENGTH);
    is_over = is_over || (before > 1 && own_length() == 0);
    check(!is_over || own_length() == 0); // only a refill begins another one
  }
  check(is_over);
  check(unit_used_slices() < used / 4);
  unit_check_valid();
}

// If this fails, a program that replaces blocks never looks at the clock, and never gives back.
UNIT_TEST(portion_leads_to_the_slow_path) {
  spread();
  void* p = begin_portion();
  void* const more = mi_malloc(OWN_SIZE);
  mi_free(more); // stays in the portion
  check_equal(own_length(), 1);
  const uint64_t heartbeat = unit_theap()->heartbeat;
  for (size_t i = 0; i < MI_QUICK_REFILLS * OWN_LENGTH * 2; i++) {
    mi_free(p);
    p = mi_malloc(OWN_SIZE);
  }
  check(unit_theap()->heartbeat > heartbeat);
}

// If this fails, blocks that another thread freed are lost, or a page is parked while it has some.
UNIT_TEST(portion_leaves_pages_that_others_free_into) {
  unit_theap();
  puppet_t other;
  puppet_start(&other);
  spread();
  for (size_t i = 0; i < own_count; i += OWN_PER) puppet_free(&other, own[i + 1]);
  puppet_end(&other);
  for (size_t i = 0; i < OWN_PER; i++) {
    check(mi_malloc(OWN_SIZE) != NULL);
    check(mi_theap_current(unit_theap(), OWN_CLASS) != NULL);
  }
  unit_check_valid();
}

// If this fails, the end of a thread, or a collection, loses blocks.
UNIT_TEST(portion_of_one_thread_goes_back) {
  spread();
  mi_free(begin_portion());
  check(own_length() > 0);
  mi_collect_all(MI_FORCE);
  check_equal(own_length(), 0);
  unit_check_valid();
}

// If this fails, a block that is freed twice in a full heap is handed out twice.
UNIT_TEST(portion_of_one_thread_reports_a_double_free) {
  spread();
  void* const p = begin_portion();
  mi_free(p);
  const size_t length = own_length();
  mi_free(p);
  check_equal(own_length(), length);
  check_equal(hooks_fake.count[MI_ERROR_DOUBLE_FREE], 1);
}

// If this fails, an address inside a block of a full page is handed out as a block.
UNIT_TEST(portion_of_one_thread_refuses_an_address_inside_a_block) {
  spread();
  uint8_t* const p = begin_portion();
  const size_t length = own_length();
  mi_free(p + OWN_SIZE / 2);
  check_equal(own_length(), length);
  check_equal(hooks_fake.count[MI_ERROR_INTERIOR_POINTER], 1);
  unit_check_valid();
}

// If this fails, blocks of a heap that ends are still handed out.
UNIT_TEST(portion_of_one_thread_has_no_blocks_of_other_heaps) {
  spread();
  mi_heap_t* const heap = mi_heap_make(&mi_state.main, NULL);
  mi_theap_t* const theap = mi_enter_theap(heap);
  for (size_t i = 0; i < 2 * OWN_PER; i++) blocks[i] = mi_theap_malloc(theap, OWN_SIZE);
  begin_portion();
  const size_t length = own_length();
  check((mi_atomic_load_relaxed(&unit_page_of(blocks[0])->owner) & MI_OWNER_PARKED) != 0);
  mi_free(blocks[0]);
  check_equal(own_length(), length);
  mi_heap_end_by_destroy(heap);
  unit_check_valid();
}

// If this fails, a thread that has its own blocks keeps those of others that it frees now and then.
UNIT_TEST(portion_of_one_thread_has_no_blocks_of_others) {
  unit_theap();
  puppet_t other;
  puppet_start(&other);
  for (size_t i = 0; i < 2 * OWN_PER; i++) blocks[i] = puppet_malloc(&other, OWN_SIZE);
  spread();
  begin_portion();
  const size_t length = own_length();
  for (size_t i = 0; i < 3; i++) mi_free(blocks[i]);
  check_equal(own_length(), length);
  puppet_end(&other);
  unit_check_valid();
}

// If this fails, a thread whose every block may be a sample hands blocks out without a look.
UNIT_TEST(portion_of_one_thread_ends_with_samples) {
  spread();
  void* const p = begin_portion();
  const size_t length = own_length();
  unit_theap()->sample_is_on = true;
  unit_theap()->sample_every = 1;
  mi_free(p);
  check_equal(own_length(), length);
  unit_theap()->sample_is_on = false;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(portion_threads_share_pages_of_small_blocks),
      cmocka_unit_test(portion_is_bounded_and_filled_by_frees),
      cmocka_unit_test(portion_of_a_thread_that_hardly_worked_is_short),
      cmocka_unit_test(portion_serves_pairs_alone),
      cmocka_unit_test(portion_of_larger_blocks_is_one),
      cmocka_unit_test(portion_goes_back_when_its_thread_ends),
      cmocka_unit_test(portion_blocks_are_cleared_by_calloc),
      cmocka_unit_test(portion_reports_a_double_free),
      cmocka_unit_test(portion_with_a_wrong_link_is_reported),
      cmocka_unit_test(portion_from_a_page_with_a_wrong_link),
      cmocka_unit_test(portion_is_not_in_use),
      cmocka_unit_test(portion_replaces_pages_from_before),
      cmocka_unit_test(portion_ends_for_a_thread_that_works),
      cmocka_unit_test(portion_is_for_threads_that_wait),
      cmocka_unit_test(portion_of_a_heap_ends_with_it),
      cmocka_unit_test(portion_of_one_thread_serves_what_was_freed_last),
      cmocka_unit_test(portion_is_not_for_many_free_blocks),
      cmocka_unit_test(portion_is_not_for_threads_that_exchange_blocks),
      cmocka_unit_test(portion_is_for_threads_that_exchange_blocks_in_a_large_heap),
      cmocka_unit_test(portion_serves_a_full_heap),
      cmocka_unit_test(portion_is_for_blocks_up_to_half_a_slice),
      cmocka_unit_test(portion_that_is_full_goes_back),
      cmocka_unit_test(portion_leads_to_the_slow_path),
      cmocka_unit_test(portion_leaves_pages_that_others_free_into),
      cmocka_unit_test(portion_of_one_thread_goes_back),
      cmocka_unit_test(portion_of_one_thread_reports_a_double_free),
      cmocka_unit_test(portion_of_one_thread_refuses_an_address_inside_a_block),
      cmocka_unit_test(portion_of_one_thread_has_no_blocks_of_other_heaps),
      cmocka_unit_test(portion_of_one_thread_has_no_blocks_of_others),
      cmocka_unit_test(portion_of_one_thread_ends_with_samples),
  };
  return cmocka_run_group_tests_name("portion", tests, NULL, NULL);
}
