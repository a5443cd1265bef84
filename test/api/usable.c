// SPDX-License-Identifier: MIT
// usable.c - how large a block really is, and the functions that tell on the way.
#include "test_api.h"

static void check_good_size(size_t size) {
  void* const p = mi_malloc(size);
  assert_non_null(p);
  const size_t good = mi_good_size(size);
  assert_true(good >= size);
  // Where there are few blocks of a size, or above the size classes, the block may be larger still.
  assert_true(mi_usable_size(p) >= good);
  if (size <= 512 * TEST_KIB) assert_int_equal(mi_good_size(good), good);
  assert_int_equal(mi_malloc_good_size(size), good);
  assert_int_equal(mi_malloc_size(p), mi_usable_size(p));
  assert_int_equal(mi_malloc_usable_size(p), mi_usable_size(p));
  mi_free(p);
}

// If this fails, what a program wrote up to the good size of a zeroed block, or of one that grew,
// is lost when the block moves.
static void good_size_is_what_all_give(void** state) {
  (void)state;
  test_skip_if_guarded("a guarded block has exactly its size");
  for (size_t size = 100 * TEST_KIB; size <= 520 * TEST_KIB; size += 4567) {
    const size_t good = mi_good_size(size);
    void* p[] = {mi_zalloc(size),
                 mi_calloc(size, 1),
                 mi_zalloc_aligned(size, 64),
                 mi_realloc(mi_malloc(1000), size),
                 mi_realloc(mi_malloc(90 * TEST_KIB), size),
                 mi_realloc(mi_malloc(TEST_MIB), size),
                 mi_rezalloc(mi_realloc(NULL, 70 * TEST_KIB), size)};
    for (size_t i = 0; i < sizeof(p) / sizeof(p[0]); i++) {
      assert_non_null(p[i]);
      assert_true(mi_usable_size(p[i]) >= good);
      mi_free(p[i]);
    }
  }
}

// If this fails, containers that round their capacity up to good sizes waste memory or overrun
// blocks.
static void good_size_is_what_malloc_gives(void** state) {
  (void)state;
  test_skip_if_guarded("a guarded block has exactly its size");
  test_for_sizes(256 * TEST_KIB, &check_good_size);
}

// If this fails, a capacity computed near the largest size wraps around.
static void good_size_of_impossible_sizes(void** state) {
  (void)state;
  assert_int_equal(mi_good_size(SIZE_MAX), SIZE_MAX);
  assert_int_equal(mi_good_size((size_t)PTRDIFF_MAX + 1), (size_t)PTRDIFF_MAX + 1);
  // Where malloc is ours, no block is smaller than what any type needs.
#if defined(_WIN32) // tidy: allow os-macro (or may be, as is known when the program starts)
  const size_t least = 16;
#else
  const size_t least = test_is_malloc_ours() ? 16 : 8;
#endif
  assert_int_equal(mi_good_size(0), test_is_tracked() && !test_is_secure() ? 0 : least);
}

// If this fails, asking about a pointer that is not ours crashes.
static void usable_size_of_nothing_is_zero(void** state) {
  (void)state;
  int local = 0;
  assert_int_equal(mi_usable_size(NULL), 0);
  assert_int_equal(mi_malloc_size(NULL), 0);
  assert_int_equal(mi_usable_size(test_opaque_pointer(&local)), 0);
  assert_int_equal(mi_malloc_usable_size(test_opaque_pointer((void*)(uintptr_t)&check_good_size)),
                   0);
  assert_int_equal(mi_usable_size(test_opaque_pointer((void*)(UINTPTR_MAX - 15))), 0);
}

// If this fails, many blocks of a size cost far more memory than they need, or a few of any size
// more than twice as much.
static void usable_size_wastes_little(void** state) {
  (void)state;
  static void* blocks[20 * 64 * TEST_KIB / 129 + 5];
  for (size_t size = 129; size <= 64 * TEST_KIB; size += size / 19) {
    // As many as fill a page, of up to 8 slices, for each class that can serve the size.
    const size_t count = 20 * 64 * TEST_KIB / size + 5;
    for (size_t i = 0; i < count; i++) {
      blocks[i] = mi_malloc(size);
      assert_non_null(blocks[i]);
      assert_true(mi_usable_size(blocks[i]) < 2 * size);
    }
    const size_t waste = mi_usable_size(blocks[count - 1]) - size;
    assert_true(waste * 8 <= size);
    for (size_t i = 0; i < count; i++) mi_free(blocks[i]);
  }
}

// If this fails, a program that accounts for its memory by what these functions report is wrong.
static void u_functions_report_the_slot(void** state) {
  (void)state;
  test_skip_if_guarded("a guarded block has exactly its size");
  for (size_t size = 0; size < 300000; size = size * 2 + 3) {
    size_t slot = 1;
    void* p = mi_umalloc(size, &slot);
    assert_non_null(p);
    assert_int_equal(slot, mi_usable_size(p));
    size_t freed = 1;
    mi_ufree(p, &freed);
    assert_int_equal(freed, slot);
    p = mi_ucalloc(1, size, &slot);
    assert_non_null(p);
    assert_int_equal(slot, mi_usable_size(p));
    assert_true(test_is_filled(p, slot, 0));
    mi_ufree(p, NULL);
    p = mi_uzalloc(size, &slot);
    assert_non_null(p);
    assert_true(test_is_filled(p, slot, 0));
    size_t before = 1;
    void* const q = mi_urealloc(p, size * 3 + 1, &before, &slot);
    assert_non_null(q);
    assert_true(before >= size);
    assert_int_equal(slot, mi_usable_size(q));
    mi_free(q);
    p = mi_umalloc_aligned(size, 64, &slot);
    assert_non_null(p);
    assert_true(test_is_aligned(p, 64));
    assert_true(slot >= mi_usable_size(p));
    mi_free(p);
    p = mi_uzalloc_aligned(size, 128, NULL);
    assert_non_null(p);
    mi_free(p);
  }
  size_t slot = 0;
  void* const p = mi_umalloc_small(100, &slot);
  void* const q = mi_uzalloc_small(100, &slot);
  assert_non_null(p);
  assert_non_null(q);
  assert_true(slot >= 100);
  mi_free(p);
  mi_free(q);
}

// If this fails, the reported size is garbage when nothing was allocated.
static void u_functions_write_nothing_on_failure(void** state) {
  (void)state;
  size_t slot = 77;
  assert_null(mi_umalloc(test_opaque(SIZE_MAX), &slot));
  assert_int_equal(slot, 77);
  mi_ufree(NULL, &slot);
  assert_int_equal(slot, 77);
  size_t before = 5;
  void* const p = mi_malloc(100);
  assert_null(mi_urealloc(p, test_opaque(SIZE_MAX), &before, &slot));
  assert_true(before >= 100);
  assert_int_equal(slot, 77);
  mi_free(p);
  void* const q = mi_urealloc(NULL, 10, &before, NULL);
  assert_non_null(q);
  assert_int_equal(before, 0);
  mi_free(q);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(good_size_is_what_malloc_gives),
      cmocka_unit_test(good_size_is_what_all_give),
      cmocka_unit_test(good_size_of_impossible_sizes),
      cmocka_unit_test(usable_size_of_nothing_is_zero),
      cmocka_unit_test(usable_size_wastes_little),
      cmocka_unit_test(u_functions_report_the_slot),
      cmocka_unit_test(u_functions_write_nothing_on_failure),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
