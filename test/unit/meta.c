// SPDX-License-Identifier: MIT
// meta.c - tests of common/meta.c: META-1, META-2, and what a purge gives back.
#include "unit.h"

#include "core/common/meta.h"

enum { MANY = 200 };
static uint8_t* piece[MANY];

static uint8_t* take(size_t size) {
  uint8_t* const p = (uint8_t*)mi_meta_lock_and_alloc(size);
  check(p != NULL && (uintptr_t)p % 64 == 0 && unit_is_zero(p, size));
  memset(p, 0xEE, size);
  return p;
}

static void purge(void) {
  mi_lock_enter(&mi_state.arena_lock);
  mi_meta_purge();
  mi_lock_leave(&mi_state.arena_lock);
}

static size_t page_size(void) { return mi_state.os.page_size; }

// If this fails, two structures of the allocator share memory, or one does not start empty.
UNIT_TEST_PAGE_SIZES(meta_pieces_are_zero_and_apart) {
  mi_process_setup();
  const size_t sizes[] = {
      1, 64, 100, 1000, page_size() / 2 - 1, page_size() / 2, page_size() + 1, 100 * MI_KIB};
  for (size_t i = 0; i < MANY; i++) {
    const size_t size = sizes[i % 8];
    piece[i] = take(size);
    memset(piece[i], (int)i, size);
    // Whole OS pages: nothing else is in them when they are purged.
    if (size >= page_size() / 2 - 1) check_equal((uintptr_t)piece[i] % page_size(), 0);
  }
  for (size_t i = 0; i < MANY; i++) {
    const size_t size = sizes[i % 8];
    check(piece[i][0] == (uint8_t)i && memcmp(piece[i], piece[i] + 1, size - 1) == 0);
  }
}

// If this fails, threads and heaps that come and go make the allocator's own memory grow (META-2).
UNIT_TEST_PAGE_SIZES(meta_free_pieces_are_used_again) {
  mi_process_setup();
  const size_t sizes[] = {64, 640, page_size(), 3 * page_size()};
  for (size_t i = 0; i < MANY; i++) piece[i] = take(sizes[i % 4]);
  const int64_t meta = mi_state.main.count.meta;
  size_t mapped = 0;
  for (size_t round = 0; round < 10; round++) {
    for (size_t i = 0; i < MANY; i++) {
      if (i % 3 != 0) mi_meta_lock_and_free(piece[i], sizes[i % 4]);
    }
    if (round == 0) mapped = os_fake.mapped;
    if (round % 2 == 1) purge();
    for (size_t i = MANY; i-- > 0;) {
      if (i % 3 != 0) piece[i] = take(sizes[i % 4]);
    }
    for (size_t i = 0; i < MANY; i++) {
      for (size_t k = i + 1; k < MANY; k++) check(piece[i] != piece[k]);
      if (i % 3 == 0) check(piece[i][sizes[i % 4] - 1] == 0xEE);
    }
    check_equal(mi_state.main.count.meta, meta);
    check_equal(os_fake.mapped, mapped);
  }
}

// If this fails, a piece is used for a larger structure than it holds.
UNIT_TEST_PAGE_SIZES(meta_sizes_are_kept_apart) {
  mi_process_setup();
  const size_t sizes[] = {192, 128, page_size(), 2 * page_size()}; // none of the lists of its own
  for (size_t i = 0; i < 4; i++) {
    uint8_t* const p = take(sizes[i]);
    mi_meta_lock_and_free(p, sizes[i]);
    for (size_t k = 0; k < 4; k++) {
      if (k == i) continue;
      uint8_t* const other = take(sizes[k]);
      check(other + sizes[k] <= p || other >= p + sizes[i]);
    }
    // The same, asked for in other words.
    check(take(sizes[i] - 1) == p);
  }
  // The list of one size ends while those of others go on.
  uint8_t* const p[3] = {take(64), take(64), take(128)};
  for (size_t i = 0; i < 3; i++) mi_meta_lock_and_free(p[i], i < 2 ? 64 : 128);
  check(take(64) == p[1] && take(128) == p[2] && take(64) == p[0]);
}

// If this fails, a program whose thousands of threads ended keeps the memory of their theaps, or
// reads what was in there.
UNIT_TEST_PAGE_SIZES(meta_purge_gives_contents_back) {
  mi_process_setup();
  const size_t size = 4 * page_size();
  uint8_t* const half = take(page_size() / 2 - 1);
  uint8_t* const behind = take(page_size() / 2 - 1);
  mi_meta_lock_and_free(half, page_size() / 2 - 1);
  purge();
  check(behind[0] == 0xEE && behind[page_size() / 2 - 2] == 0xEE);
  const size_t earlier = os_fake_calls(OS_FAKE_PURGE);
  for (size_t i = 0; i < 50; i++) piece[i] = take(size);
  const size_t before = os_fake_resident_all();
  for (size_t i = 0; i < 50; i++) mi_meta_lock_and_free(piece[i], size);
  purge();
  const size_t calls = os_fake_calls(OS_FAKE_PURGE);
  check_equal(calls, earlier + 50);
  check(before - os_fake_resident_all() >= 49 * size);
  purge();
  check_equal(os_fake_calls(OS_FAKE_PURGE), calls); // once is enough
  for (size_t i = 0; i < 50; i++) piece[i] = take(size);
  mi_meta_lock_and_free(piece[7], size);
  os_fake.fail_at[OS_FAKE_PURGE] = 1;
  purge();
  check(take(size) == piece[7]); // zero, whether or not it was given back
}

// If this fails, freeing our own memory fails when the system has no more.
UNIT_TEST_PAGE_SIZES(meta_frees_without_memory) {
  mi_process_setup();
  const size_t size = 2 * page_size();
  uint8_t* const p = take(size);
  os_fake.is_failing_on = true;
  os_fake.fail_at[OS_FAKE_MAP] = 1;
  while (mi_meta_lock_and_alloc(64) != NULL) {
  }
  mi_meta_lock_and_free(p, size);
  purge();
  check(take(size) == p);
  mi_meta_lock_and_free(p, size);
  os_fake.fail_at[OS_FAKE_MAP] = 0;
  check(take(size) == p);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(meta_pieces_are_zero_and_apart),
      cmocka_unit_test(meta_free_pieces_are_used_again),
      cmocka_unit_test(meta_sizes_are_kept_apart),
      cmocka_unit_test(meta_purge_gives_contents_back),
      cmocka_unit_test(meta_frees_without_memory),
  };
  return cmocka_run_group_tests_name("meta", tests, NULL, NULL);
}
