// SPDX-License-Identifier: MIT
// book.c - tests of arenas/book.c: BOOK-1 to BOOK-3, and threads that remove and walk while one
// adds.
#include "unit.h"

#include <sched.h>

#include "core/arenas/book.h"

// More than the first entries and two pieces hold.
enum { PAGES = 400 };

static mi_book_t book;
static mi_page_t pages[PAGES];
static bool is_in[PAGES];

static void add(size_t i) {
  check(mi_book_add(&book, &pages[i]));
  is_in[i] = true;
}

static void take_out(size_t i) {
  mi_book_remove(&book, &pages[i]);
  is_in[i] = false;
}

// A walk sees each page that is in, once, at its index.
static void check_book(void) {
  static bool is_seen[PAGES];
  memset(is_seen, 0, sizeof(is_seen));
  const mi_page_t* page;
  for (uint32_t at = 0; (page = mi_book_next(&book, &at)) != NULL;) {
    const size_t i = (size_t)(page - pages);
    check(i < PAGES && !is_seen[i]);
    check_equal(page->book_index, at - 1); // BOOK-3
    is_seen[i] = true;
  }
  check(memcmp(is_seen, is_in, sizeof(is_seen)) == 0);
}

// If this fails, pages of a heap are missing when it is deleted or destroyed.
UNIT_TEST_PAGE_SIZES(book_has_what_was_added) {
  mi_process_setup();
  for (size_t i = 0; i < PAGES; i++) {
    check(mi_book_is_shorter(&book, i + 1) && !mi_book_is_shorter(&book, i));
    add(i);
    check_equal(pages[i].book_index, i);
    if (i % 7 == 0) check_book();
  }
  check_book();
  // BOOK-1: nothing moved.
  for (size_t i = 0; i < PAGES; i++) check_equal(pages[i].book_index, i);
  for (size_t i = 0; i < PAGES; i++) take_out(PAGES - 1 - i);
  check_book();
}

// If this fails, the debug build does not see that a book is damaged.
UNIT_TEST(book_that_is_wrong_is_not_valid) {
  mi_process_setup();
  for (size_t i = 0; i < 20; i++) add(i);
  for (size_t i = 0; i < 20; i += 3) take_out(i);
  check(mi_book_is_valid(&book));
  pages[1].book_index = 2; // BOOK-3
  check(!mi_book_is_valid(&book));
  pages[1].book_index = 1;
  const uint32_t vacant = mi_atomic_load_relaxed(&book.vacant);
  mi_atomic_store_relaxed(&book.vacant, 2); // BOOK-2: this entry has a page
  check(!mi_book_is_valid(&book));
  mi_atomic_store_relaxed(&book.vacant, vacant);
  check(mi_book_is_valid(&book));
}

// If this fails, the book of a heap whose pages come and go grows without bound.
UNIT_TEST_PAGE_SIZES(book_uses_vacant_entries_first) {
  mi_process_setup();
  for (size_t i = 0; i < PAGES / 2; i++) add(i);
  const int64_t meta = mi_state.main.count.meta;
  uint64_t random = 1;
  for (size_t n = 0; n < 20 * PAGES; n++) {
    const size_t i = random_below(&random, PAGES / 2);
    const uint32_t index = pages[i].book_index;
    take_out(i);
    if (n % 3 != 0) {
      add(i);
      check_equal(pages[i].book_index, index); // BOOK-2: the newest first
    } else {
      const size_t k = random_below(&random, PAGES / 2);
      if (k != i) take_out(k);
      add(i);
      if (k != i) add(k);
    }
  }
  check_book();
  check(mi_book_is_shorter(&book, PAGES / 2 + 1));
  check_equal(mi_state.main.count.meta, meta);
}

// If this fails, a heap that takes the place of another one has pages of that one.
UNIT_TEST_PAGE_SIZES(book_is_empty_when_cleared) {
  mi_process_setup();
  for (size_t i = 0; i < PAGES; i++) add(i);
  for (size_t i = 0; i < PAGES; i += 2) take_out(i);
  const int64_t meta = mi_state.main.count.meta;
  mi_book_clear(&book);
  memset(is_in, 0, sizeof(is_in));
  check_book();
  check(mi_book_is_shorter(&book, 1));
  for (size_t i = 0; i < PAGES; i++) {
    add(PAGES - 1 - i);
    if (i % 50 == 3) check_book();
  }
  check_book();
  check_equal(mi_state.main.count.meta, meta); // the pieces are used again
}

// If this fails, a heap that gets no memory for its book loses a page, or the process.
UNIT_TEST_PAGE_SIZES(book_without_memory_refuses) {
  mi_process_setup();
  size_t i = 0;
  for (; i < MI_BOOK_FIRST; i++) add(i);
  os_fake.is_failing_on = true;
  os_fake.fail_at[OS_FAKE_MAP] = 1;
  while (i < PAGES && mi_book_add(&book, &pages[i])) is_in[i++] = true;
  check(i < PAGES);
  check_book();
  check(mi_atomic_load_relaxed(&mi_state.arena_lock.word) == 0);
  take_out(1);
  add(i); // a vacant entry needs no memory
  check_equal(pages[i].book_index, 1);
  os_fake.fail_at[OS_FAKE_MAP] = 0;
  add(1);
  check_book();
}

enum { THREADS = 4, ROUNDS = 40 };
static mi_atomic(mi_page_t*) handed[PAGES];
static mi_atomic(size_t) removed;
static mi_atomic(bool) is_over;

// The one that adds: under the arena lock there is never another.
static void add_all(void) {
  for (size_t round = 0; round < ROUNDS; round++) {
    for (size_t i = 0; i < PAGES; i++) {
      check(mi_book_add(&book, &pages[i]));
      mi_atomic_store_release(&handed[i], &pages[i]);
    }
    while (mi_atomic_load_acquire(&removed) != (round + 1) * PAGES) sched_yield();
  }
  mi_atomic_store_release(&is_over, true);
}

static void remove_some(uint64_t random) {
  while (!mi_atomic_load_acquire(&is_over)) {
    mi_page_t* const page = mi_atomic_swap_acq_rel(&handed[random_below(&random, PAGES)], NULL);
    if (page == NULL) continue;
    mi_book_remove(&book, page);
    mi_atomic_add_acq_rel(&removed, 1);
  }
}

// Pages that stay while others come and go; they are in at any time.
static mi_page_t fixed[10];

static void walk(void) {
  while (!mi_atomic_load_acquire(&is_over)) {
    size_t seen = 0;
    const mi_page_t* page;
    for (uint32_t at = 0; (page = mi_book_next(&book, &at)) != NULL;) {
      const bool is_fixed = page >= fixed && page < fixed + 10;
      check(is_fixed || (page >= pages && page < pages + PAGES));
      if (is_fixed) check_equal(page->book_index, at - 1);
      seen += is_fixed ? 1 : 0;
    }
    check_equal(seen, 10);
    sched_yield();
  }
}

static void race(void* arg) {
  const size_t self = *(size_t*)arg;
  if (self == 0) add_all();
  if (self == 1) walk();
  if (self > 1) remove_some(self);
}

// If this fails, a page that is freed while another one is made is lost from its heap, or takes the
// place of that one.
UNIT_TEST(book_removes_while_one_adds) {
  mi_process_setup();
  for (size_t i = 0; i < 10; i++) check(mi_book_add(&book, &fixed[i]));
  size_t id[THREADS] = {0, 1, 2, 3};
  unit_on_threads(THREADS, &race, id, sizeof(id[0]));
  check(mi_book_is_shorter(&book, PAGES + 10 + 1));
  for (size_t i = 0; i < 10; i++) mi_book_remove(&book, &fixed[i]);
  for (size_t i = 0; i < PAGES; i++) add(i);
  check_book();
  check(mi_book_is_shorter(&book, PAGES + 10 + 1));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(book_has_what_was_added),
      cmocka_unit_test(book_uses_vacant_entries_first),
      cmocka_unit_test(book_is_empty_when_cleared),
      cmocka_unit_test(book_that_is_wrong_is_not_valid),
      cmocka_unit_test(book_without_memory_refuses),
      cmocka_unit_test(book_removes_while_one_adds),
  };
  return cmocka_run_group_tests_name("book", tests, NULL, NULL);
}
