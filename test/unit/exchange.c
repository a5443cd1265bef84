// SPDX-License-Identifier: MIT
// exchange.c - tests of threads/portion.c and threads/refill.c: portions of threads that exchange
// blocks with others (PORTION-6).
#include "unit.h"

#include "core/pages/page.h"
#include "core/threads/crowd.h"
#include "core/threads/portion.h"
#include "core/heaps/subproc.h"
#include "core/threads/theap.h"
#include "core/threads/thread.h"

#define SIZE (MI_PORTION_EXCHANGE_BYTES / 16)
#define CLASS mi_class_of(SIZE)
#define LENGTH (MI_PORTION_EXCHANGE_BYTES / SIZE)

static puppet_t other;
static void* theirs[4096];
static void* mine[4096];
static void* ballast; // so that the heap is not too small

static size_t length_now(void) {
  size_t count = 0;
  const mi_block_t* b = mi_portion_of(unit_theap(), CLASS);
  for (; b != NULL; b = b->next) count++;
  return count;
}

static uintptr_t owner_of(const void* p) {
  return mi_atomic_load_relaxed(&unit_page_of(p)->owner) & ~MI_OWNER_FLAGS;
}

// So many blocks of another thread, whose pages are in its queue, because it freed some of each: a
// page that was full when this thread frees into it becomes its guest.
static void make_theirs(size_t count) {
  unit_theap();
  ballast = mi_malloc(4 * MI_CROWD_EXCHANGE_MIN);
  puppet_start(&other);
  const size_t per = unit_page_blocks(CLASS);
  static void* spare[4096];
  size_t spares = 0;
  for (size_t i = 0, made = 0; i < count; made++) {
    void* const p = puppet_malloc(&other, SIZE);
    if (made % per < 2) {
      spare[spares++] = p;
    } else {
      theirs[i++] = p;
    }
  }
  while (spares > 0) puppet_free(&other, spare[--spares]);
}

static void end_other(void) {
  puppet_end(&other);
  mi_free(ballast);
  unit_check_valid();
}

// Frees blocks of the other thread until this counts, and allocates until there is a portion.
// Returns how many of its blocks were freed, and how many were allocated.
static size_t begin_exchange(size_t* mine_count) {
  mine[0] = mi_malloc(SIZE);
  *mine_count = 1;
  size_t count = 0;
  while (!mi_portion_exchanges(unit_theap(), CLASS)) mi_free(theirs[count++]);
  check(mi_theap_current(unit_theap(), CLASS) != NULL);
  while (mi_theap_current(unit_theap(), CLASS) != NULL) mine[(*mine_count)++] = mi_malloc(SIZE);
  check(length_now() > 0);
  unit_check_valid();
  return count;
}

// If this fails, threads that replace each other's blocks each have memory for all of them.
UNIT_TEST_PAGE_SIZES(exchange_hands_out_what_others_made) {
  make_theirs(100);
  size_t count;
  for (size_t i = begin_exchange(&count); i < 100; i++) {
    mi_page_t* const page = unit_page_of(theirs[i]);
    const uintptr_t word = mi_atomic_load_relaxed(&page->thread_free);
    mi_free(theirs[i]);
    check_equal(mi_atomic_load_relaxed(&page->thread_free), word);
    check(mi_malloc(SIZE) == theirs[i]);
    check(owner_of(theirs[i]) != mi_tls_thread_id());
    unit_fill(theirs[i], SIZE, i);
  }
  end_other();
}

// If this fails, a thread that took a few blocks of others has its own spread over many pages.
UNIT_TEST_PAGE_SIZES(exchange_begins_with_blocks_of_others) {
  make_theirs(4);
  const size_t count = 4 * unit_page_blocks(CLASS);
  for (size_t i = 0; i < 4; i++) mi_free(theirs[i]);
  for (size_t i = 0; i < count; i++) {
    mine[i] = mi_malloc(SIZE);
    check(mi_theap_current(unit_theap(), CLASS) != NULL);
  }
  for (size_t i = 0; i < count; i++) mi_free(mine[i]);
  check(!mi_portion_exchanges(unit_theap(), CLASS));
  check_equal(unit_theap()->exchange[CLASS], 0); // what it took from its pages outweighs them
  end_other();
}

// If this fails, the only thread that is left pays for those that ended.
UNIT_TEST_PAGE_SIZES(exchange_needs_another_thread) {
  make_theirs(100);
  puppet_end(&other);
  os_fake.is_single_threaded = true;
  for (size_t i = 0; i < 100; i++) mi_free(theirs[i]);
  check_equal(unit_theap()->exchange[CLASS], 0);
  os_fake.is_single_threaded = false;
  unit_check_valid();
}

// If this fails, a thread that has stopped to exchange blocks pays for it for ever.
UNIT_TEST_PAGE_SIZES(exchange_ends_when_no_blocks_come) {
  make_theirs(100);
  size_t count;
  begin_exchange(&count);
  const size_t most = count + 40 * LENGTH;
  while (mi_theap_current(unit_theap(), CLASS) == NULL) {
    check(count < most);
    mine[count++] = mi_malloc(SIZE);
  }
  check(!mi_portion_exchanges(unit_theap(), CLASS));
  while (count > 0) mi_free(mine[--count]);
  end_other();
}

static void go_on(size_t freed, size_t allocated) {
  make_theirs(4000);
  size_t count;
  size_t next = begin_exchange(&count);
  for (size_t round = 0; round < 30; round++) {
    for (size_t i = 0; i < freed; i++) mi_free(theirs[next++]);
    for (size_t i = 0; i < allocated; i++) mine[count++] = mi_malloc(SIZE);
    check(mi_portion_exchanges(unit_theap(), CLASS));
    check(mi_theap_current(unit_theap(), CLASS) == NULL);
  }
  end_other();
}

// If this fails, a thread that exchanges blocks falls back to pages of its own although as many
// blocks come as go, or more than half as many.
UNIT_TEST_PAGE_SIZES(exchange_goes_on_while_blocks_come) { go_on(LENGTH, LENGTH); }
UNIT_TEST_PAGE_SIZES(exchange_goes_on_while_some_blocks_come) { go_on(LENGTH / 2 + 1, LENGTH); }

// If this fails, only those count that joined since the room was last used up.
UNIT_TEST_PAGE_SIZES(exchange_counts_what_joins) {
  make_theirs(1000);
  size_t count;
  size_t next = begin_exchange(&count);
  unit_theap()->exchange[CLASS] = MI_PORTION_EXCHANGE_ON;
  while (unit_theap()->room[CLASS] > 0) mi_free(theirs[next++]);
  mi_free(theirs[next++]);
  check_equal(unit_theap()->exchange[CLASS], 2 * MI_PORTION_EXCHANGE_ON);
  end_other();
}

// If this fails, a thread that frees much holds it all back.
UNIT_TEST_PAGE_SIZES(exchange_is_bounded) {
  make_theirs(1000);
  size_t count;
  for (size_t i = begin_exchange(&count); i < 1000; i++) {
    mi_free(theirs[i]);
    check(length_now() > 0 && length_now() <= LENGTH); // one that is full gives back half
  }
  end_other();
}

// If this fails, a portion is counted at nearly each free while it is nearly full.
UNIT_TEST_PAGE_SIZES(exchange_leaves_room_after_each_count) {
  const size_t full = 3 * LENGTH / 8;
  make_theirs(1000);
  size_t count;
  size_t next = begin_exchange(&count);
  for (size_t kept = full - 1; kept <= full; kept++) {
    while (unit_theap()->room[CLASS] > 0) mi_free(theirs[next++]);
    while (length_now() > kept) mine[count++] = mi_malloc(SIZE);
    while (length_now() < kept) unit_theap()->room[CLASS] = 1, mi_free(theirs[next++]);
    mi_free(theirs[next++]);
    check_equal(length_now(), kept < full ? kept + 1 : full / 2 + 1);
    check(unit_theap()->room[CLASS] >= LENGTH / 2 - 1);
  }
  end_other();
}

// If this fails, threads that exchange blocks each have free ones that the others cannot use.
UNIT_TEST_PAGE_SIZES(exchange_keeps_no_page) {
  make_theirs(100);
  size_t count;
  begin_exchange(&count);
  while (length_now() > 0) mine[count++] = mi_malloc(SIZE);
  for (size_t i = 0; i < 2 * LENGTH; i++) {
    mine[count++] = mi_malloc(SIZE);
    check(mi_portion_exchanges(unit_theap(), CLASS));
    check(mi_life_first(&unit_theap()->queue[CLASS]) == NULL);
    check(owner_of(mine[count - 1]) != mi_tls_thread_id());
    check(length_now() < LENGTH / 4); // what a refill takes, less this block
  }
  end_other();
}

// If this fails, threads write to the same cache lines, where each has its own blocks.
UNIT_TEST_PAGE_SIZES(exchange_keeps_pages_of_short_blocks) {
  const size_t size = MI_PORTION_EXCHANGE_KEPT_MAX;
  const size_t c = mi_class_of(size);
  make_theirs(100);
  unit_theap()->exchange[c] = UINT8_MAX;
  for (size_t i = 0; i < 10; i++) {
    mine[i] = mi_malloc(size);
    check(mi_theap_current(unit_theap(), c) == NULL && unit_theap()->room[c] > 0);
    check_equal(owner_of(mine[i]), mi_tls_thread_id());
  }
  end_other();
}

// If this fails, a portion goes back in as many steps as it has blocks.
UNIT_TEST_PAGE_SIZES(exchange_goes_back_in_chains) {
  static void* of[2][4]; // blocks of two pages next to each other
  make_theirs(200);
  size_t count;
  size_t next = begin_exchange(&count);
  size_t found[2] = {0, 0};
  mi_page_t* page[2] = {unit_page_of(theirs[next]), NULL};
  for (; found[0] < 4 || found[1] < 4; next++) {
    check(next < 200);
    mi_page_t* const at = unit_page_of(theirs[next]);
    if (at != page[0] && page[1] == NULL) page[1] = at;
    const size_t k = at == page[0] ? 0 : 1;
    if (at == page[k] && found[k] < 4) of[k][found[k]++] = theirs[next];
  }
  while (length_now() > 0) mine[count++] = mi_malloc(SIZE);
  unit_theap()->room[CLASS] = 8;
  for (size_t i = 0; i < 8; i++) mi_free(of[i % 2][i / 2]);
  check_equal(length_now(), 8);
  mi_portion_return_all(unit_theap());
  for (size_t k = 0; k < 2; k++) {
    const uintptr_t word = mi_atomic_load_relaxed(&page[k]->thread_free);
    const mi_block_t* block = (const mi_block_t*)(word & ~MI_REMOTE_BITS);
    for (size_t i = 4; i-- > 0; block = block->next) check(block == of[k][i]); // not reversed
  }
  end_other();
}

// If this fails, each thread of a program with a large heap that sleeps keeps pages by some blocks.
UNIT_TEST_PAGE_SIZES(exchange_is_for_small_heaps) {
  make_theirs(1000);
  size_t count;
  size_t next = begin_exchange(&count);
  mi_counters_t* const counters = &mi_state.main.count;
  const int64_t large = 6 * (int64_t)(MI_CLASS_COUNT * MI_SLICE_SIZE);
  mi_atomic_add_relaxed(&counters->committed, large);
  while (length_now() > 0) mine[count++] = mi_malloc(SIZE);
  mine[count++] = mi_malloc(SIZE);
  check(mi_theap_current(unit_theap(), CLASS) != NULL);
  for (size_t i = 0; i < 100; i++) {
    const size_t used = unit_page_of(theirs[next])->count.used;
    mi_free(theirs[next++]);
    mine[count++] = mi_malloc(SIZE);
    check(mi_theap_current(unit_theap(), CLASS) != NULL && used > 0);
  }
  mi_atomic_add_relaxed(&counters->committed, -large);
  end_other();
}

// If this fails, threads of a program that needs a MiB or two take 1.3 of the time, for nothing.
UNIT_TEST_PAGE_SIZES(exchange_is_not_for_tiny_heaps) {
  make_theirs(200);
  mi_free(ballast);
  ballast = NULL;
  mi_collect_all(MI_FORCE);
  check(!mi_crowd_may_exchange(&mi_state.main));
  for (size_t i = 0; i < 100; i++) mi_free(theirs[i]);
  check_equal(unit_theap()->exchange[CLASS], 0);
  unit_theap()->exchange[CLASS] = UINT8_MAX; // as when the heap has become smaller
  mine[0] = mi_malloc(SIZE);
  check(mi_theap_current(unit_theap(), CLASS) != NULL);
  check_equal(unit_theap()->exchange[CLASS], 0);
  end_other();
}

// If this fails, threads that exchange blocks, and of which each makes few pages, have page faults
// in each of these: what waits goes back before it is a page (REFILL-3).
UNIT_TEST_PAGE_SIZES(exchange_keeps_the_memory_of_a_new_page) {
  make_theirs(10);
  const size_t large_size = 2 * MI_CLASS_MAX;
  uint8_t* const large = (uint8_t*)mi_malloc(large_size);
  memset(large, 1, large_size);
  mi_free(large);
  check_equal(os_fake_resident(large, large_size), large_size);
  unit_theap()->exchange[CLASS] = UINT8_MAX;
  mine[0] = mi_malloc(SIZE);
  check(mi_portion_exchanges(unit_theap(), CLASS));
  check((uint8_t*)mine[0] >= large && (uint8_t*)mine[0] < large + large_size);
  check_equal(os_fake_resident(large, large_size), large_size);
  end_other();
}

// If this fails, a crowd, whose threads share all pages, keeps more than it should.
UNIT_TEST_PAGE_SIZES(exchange_is_not_for_a_crowd) {
  make_theirs(100);
  static puppet_t crowd[MI_CROWD_THREADS + 1];
  unit_start_puppets(crowd, MI_CROWD_THREADS + 1);
  void* const more = mi_malloc(MI_CROWD_EXCHANGE_MIN * (MI_CROWD_THREADS + 4));
  for (size_t i = 0; i < 100; i++) mi_free(theirs[i]);
  check_equal(unit_theap()->exchange[CLASS], 0);
  mi_free(more);
  unit_end_puppets(crowd, MI_CROWD_THREADS + 1);
  end_other();
}

// If this fails, blocks of a heap are handed out by the main heap, and are gone when it ends.
UNIT_TEST_PAGE_SIZES(exchange_is_within_the_main_heap) {
  make_theirs(100);
  size_t count;
  begin_exchange(&count);
  mi_heap_t* const heap = mi_heap_make(&mi_state.main, NULL);
  void* const p = puppet_heap_malloc(&other, heap, SIZE);
  const size_t before = length_now();
  mi_free(p);
  check_equal(length_now(), before);
  mi_heap_end_by_destroy(heap);
  end_other();
}

// If this fails, blocks are lost when a thread that exchanges blocks ends, or collects.
UNIT_TEST_PAGE_SIZES(exchange_goes_back) {
  make_theirs(100);
  size_t count;
  const size_t next = begin_exchange(&count);
  mi_free(theirs[next]);
  for (size_t i = next + 1; i < 100; i++) puppet_free(&other, theirs[i]);
  while (count > 0) mi_free(mine[--count]);
  puppet_end(&other);
  mi_free(ballast);
  mi_collect_all(MI_FORCE);
  check_equal(length_now(), 0);
  unit_check_empty();
}

// If this fails, a block that is freed twice, or an address inside of one, is handed out.
UNIT_TEST_PAGE_SIZES(exchange_reports_mistakes) {
  make_theirs(100);
  size_t count;
  const size_t next = begin_exchange(&count);
  mi_free(theirs[next]);
  const size_t before = length_now();
  mi_free(theirs[next]);
  check_equal(hooks_fake.count[MI_ERROR_DOUBLE_FREE], 1);
  mi_free((uint8_t*)theirs[next + 1] + SIZE / 2);
  check_equal(hooks_fake.count[MI_ERROR_INTERIOR_POINTER], 1);
  check_equal(length_now(), before);
  end_other();
}

// If this fails, a thread that exchanges blocks hangs where its program damaged a page, or hands
// out what was written there.
UNIT_TEST_PAGE_SIZES(exchange_goes_on_with_damaged_pages) {
  make_theirs(100);
  size_t count;
  begin_exchange(&count);
  mi_page_t* const page = unit_page_of(mine[count - 1]); // that the portion was filled from
  mi_portion_return_all(unit_theap());
  check(page->local_free != NULL);
  page->local_free = (mi_block_t*)(uintptr_t)0x4141414141414140;
  for (size_t i = 0; i < 4 * unit_page_blocks(CLASS); i++) {
    mine[i] = mi_malloc(SIZE);
    check(mine[i] != NULL);
    unit_fill(mine[i], SIZE, i);
  }
  check_equal(hooks_fake.count[MI_ERROR_CORRUPT_LIST], 1);
  puppet_end(&other); // not valid any more
}

// If this fails, a thread that gets the theap of another one begins as that left off.
UNIT_TEST(exchange_is_forgotten) {
  make_theirs(100);
  for (size_t i = 0; i < 100; i++) mi_free(theirs[i]);
  check(mi_portion_exchanges(unit_theap(), CLASS));
  mi_theap_t* const theap = unit_theap();
  mi_theap_t copy = *theap;
  copy.thread_id = 0;
  mi_theap_reset(&copy);
  check_equal(copy.exchange[CLASS], 0);
  end_other();
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(exchange_hands_out_what_others_made),
      cmocka_unit_test(exchange_begins_with_blocks_of_others),
      cmocka_unit_test(exchange_needs_another_thread),
      cmocka_unit_test(exchange_ends_when_no_blocks_come),
      cmocka_unit_test(exchange_goes_on_while_blocks_come),
      cmocka_unit_test(exchange_goes_on_while_some_blocks_come),
      cmocka_unit_test(exchange_counts_what_joins),
      cmocka_unit_test(exchange_is_bounded),
      cmocka_unit_test(exchange_leaves_room_after_each_count),
      cmocka_unit_test(exchange_keeps_no_page),
      cmocka_unit_test(exchange_keeps_pages_of_short_blocks),
      cmocka_unit_test(exchange_goes_back_in_chains),
      cmocka_unit_test(exchange_is_for_small_heaps),
      cmocka_unit_test(exchange_is_not_for_tiny_heaps),
      cmocka_unit_test(exchange_keeps_the_memory_of_a_new_page),
      cmocka_unit_test(exchange_is_not_for_a_crowd),
      cmocka_unit_test(exchange_is_within_the_main_heap),
      cmocka_unit_test(exchange_goes_back),
      cmocka_unit_test(exchange_reports_mistakes),
      cmocka_unit_test(exchange_goes_on_with_damaged_pages),
      cmocka_unit_test(exchange_is_forgotten),
  };
  return cmocka_run_group_tests_name("exchange", tests, NULL, NULL);
}
