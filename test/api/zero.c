// SPDX-License-Identifier: MIT
// zero.c - memory that must read as zero: zalloc, calloc, and the resizing functions that keep it
// so.
#include "test_api.h"
#include "test_heap.h"

// Leaves memory of this size behind that is not zero.
static void make_dirty(size_t size) {
  void* p[4];
  for (size_t i = 0; i < 4; i++) {
    p[i] = mi_malloc(size);
    assert_non_null(p[i]);
    memset(p[i], 0xFF, mi_usable_size(p[i]));
  }
  for (size_t i = 0; i < 4; i++) mi_free(p[i]);
}

static void check_zero(void* p) {
  assert_non_null(p);
  assert_true(test_is_filled(p, mi_usable_size(p), 0));
  memset(p, 0xEE, mi_usable_size(p));
  mi_free(p);
}

static void check_size(size_t size) {
  make_dirty(size);
  for (size_t i = 0; i < 3; i++) {
    check_zero(mi_zalloc(size));
    check_zero(mi_calloc(1, size));
    check_zero(mi_calloc(size, 1));
  }
}

// If this fails, a program finds the remains of an old object where it was promised zeros.
static void zalloc_and_calloc_clear_every_usable_byte(void** state) {
  (void)state;
  test_for_sizes(4 * TEST_MIB, &check_size);
}

// If this fails, large arrays start with the contents of what was freed before.
static void zalloc_clears_large_blocks(void** state) {
  (void)state;
  for (size_t size = 16 * TEST_MIB; size <= 48 * TEST_MIB; size += 16 * TEST_MIB) {
    make_dirty(size);
    check_zero(mi_zalloc(size));
    check_zero(mi_zalloc(size - 12345));
  }
}

// If this fails, zeroed objects with an alignment are not zero.
static void aligned_forms_clear(void** state) {
  (void)state;
  for (size_t alignment = 1; alignment <= 2 * TEST_MIB; alignment *= 2) {
    for (size_t size = 0; size < 200000; size = size * 3 + 7) {
      void* const old = mi_malloc_aligned(size, alignment);
      assert_non_null(old);
      memset(old, 0xFF, mi_usable_size(old));
      mi_free(old);
      check_zero(mi_zalloc_aligned(size, alignment));
      check_zero(mi_zalloc_aligned_at(size, alignment, 24));
      check_zero(mi_calloc_aligned(3, size, alignment));
      check_zero(mi_calloc_aligned_at(size, 2, alignment, 8));
      check_zero(mi_uzalloc_aligned(size, alignment, NULL));
    }
  }
}

// If this fails, an array that grows has elements that are not zero behind the old ones.
static void rezalloc_keeps_the_rest_zero(void** state) {
  (void)state;
  uint64_t random = 3;
  for (size_t round = 0; round < 60; round++) {
    size_t size = 1 + random_size(&random, 9);
    unsigned char* p = (unsigned char*)mi_zalloc(size);
    assert_non_null(p);
    memset(p, 0x11, size);
    while (size < TEST_MIB) {
      const size_t larger = size + 1 + random_next(&random) % (size + 1);
      make_dirty(larger);
      p = (unsigned char*)mi_rezalloc(p, larger);
      assert_non_null(p);
      assert_true(test_is_filled(p, size, 0x11));
      assert_true(test_is_filled(p + size, mi_usable_size(p) - size, 0));
      memset(p, 0x11, larger);
      size = larger;
    }
    mi_free(p);
  }
}

// If this fails, counted or aligned growth loses old elements, or shows old garbage.
static void recalloc_forms_keep_the_rest_zero(void** state) {
  (void)state;
  for (size_t count = 1; count < 3000; count = count * 2 + 1) {
    unsigned char* p[4];
    p[0] = (unsigned char*)mi_recalloc(NULL, count, 12);
    p[1] = (unsigned char*)mi_recalloc_aligned(NULL, count, 12, 256);
    p[2] = (unsigned char*)mi_recalloc_aligned_at(NULL, count, 12, 256, 16);
    p[3] = (unsigned char*)mi_rezalloc_aligned(NULL, count * 12, 4096);
    for (size_t i = 0; i < 4; i++) {
      assert_non_null(p[i]);
      assert_true(test_is_filled(p[i], mi_usable_size(p[i]), 0));
      memset(p[i], 0x22, count * 12);
    }
    make_dirty(count * 40);
    p[0] = (unsigned char*)mi_recalloc(p[0], count * 3, 12);
    p[1] = (unsigned char*)mi_aligned_recalloc(p[1], count * 3, 12, 256);
    p[2] = (unsigned char*)mi_aligned_offset_recalloc(p[2], count * 3, 12, 256, 16);
    p[3] = (unsigned char*)mi_rezalloc_aligned_at(p[3], count * 36, 4096, 0);
    assert_true(test_is_aligned(p[1], 256));
    assert_true(test_is_aligned(p[2] + 16, 256));
    assert_true(test_is_aligned(p[3], 4096));
    for (size_t i = 0; i < 4; i++) {
      assert_non_null(p[i]);
      assert_true(test_is_filled(p[i], count * 12, 0x22));
      assert_true(test_is_filled(p[i] + count * 12, mi_usable_size(p[i]) - count * 12, 0));
      mi_free(p[i]);
    }
  }
}

// If this fails, a large zeroed array that grows by moving its mapping shows old contents.
static void rezalloc_keeps_large_blocks_zero(void** state) {
  (void)state;
  size_t size = 2 * TEST_MIB;
  unsigned char* p = (unsigned char*)mi_zalloc(size);
  assert_non_null(p);
  memset(p, 0x33, size);
  while (size < 40 * TEST_MIB) {
    void* const barrier = mi_malloc(TEST_MIB); // so that growing in place does not always work
    make_dirty(3 * TEST_MIB);
    const size_t larger = size + size / 2;
    p = (unsigned char*)mi_rezalloc(p, larger);
    assert_non_null(p);
    assert_true(test_is_filled(p, size, 0x33));
    assert_true(test_is_filled(p + size, mi_usable_size(p) - size, 0));
    memset(p, 0x33, larger);
    size = larger;
    mi_free(barrier);
  }
  mi_free(p);
}

// If this fails, a table that stays nearly empty is resident as a whole, because the memory was
// used before.
static void calloc_of_used_memory_is_not_resident(void** state) {
  (void)state;
  test_skip_if_tracked(); // the tool must see what is cleared
  const size_t size = 64 * TEST_MIB;
  for (size_t i = 0; i < 3; i++) { // of more it would be known that they are used
    unsigned char* const old = (unsigned char*)mi_malloc(size);
    assert_non_null(old);
    memset(old, 0xFF, size);
    const size_t before = proc_resident() - (TEST_IS_SANITIZED ? 0 : size);
    mi_free(old);
    void* const zero = i % 2 == 0 ? mi_calloc(1, size) : mi_zalloc_aligned(size, 4096);
    unsigned char* const p = (unsigned char*)zero;
    assert_non_null(p);
    p[size / 2] = 1;
    test_bound_growth(before, TEST_MIB);
    p[size / 2] = 0;
    check_zero(p);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(calloc_of_used_memory_is_not_resident),
      cmocka_unit_test(zalloc_and_calloc_clear_every_usable_byte),
      cmocka_unit_test(zalloc_clears_large_blocks),
      cmocka_unit_test(aligned_forms_clear),
      cmocka_unit_test(rezalloc_keeps_the_rest_zero),
      cmocka_unit_test(recalloc_forms_keep_the_rest_zero),
      cmocka_unit_test(rezalloc_keeps_large_blocks_zero),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
