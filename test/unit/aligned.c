// SPDX-License-Identifier: MIT
// aligned.c - tests of front/aligned.c: ALIGNED-1 to ALIGNED-3.
#include "unit.h"

#include "core/pages/page.h"

// If this fails, aligned memory is not aligned, too small, or not zero.
UNIT_TEST_PAGE_SIZES(aligned_every_size_and_alignment) {
  for (size_t alignment = 1; alignment <= 4 * MI_MIB; alignment *= 2) {
    for (size_t size = 0; size <= MI_CLASS_MAX * 3; size = size * 5 / 2 + 7) {
      const mi_fill_t fill = size % 2 == 0 ? MI_ZERO : MI_UNINITIALIZED;
      uint8_t* const p = (uint8_t*)mi_aligned_alloc_at(mi_self_theap(), size, alignment, 0, fill);
      check(p != NULL && (uintptr_t)p % alignment == 0 && mi_usable_size(p) >= size);
      if (fill == MI_ZERO) check(unit_is_zero(p, mi_usable_size(p)));
      memset(p, 0xA5, mi_usable_size(p));
      mi_free(p);
    }
  }
  check_equal(hooks_fake.error_count, 0);
  mi_collect_all(MI_FORCE);
  unit_check_empty();
}

// If this fails, every aligned block makes the frees of its whole page slow.
UNIT_TEST_PAGE_SIZES(aligned_makes_no_interior_pointer) {
  for (size_t alignment = 8; alignment <= MI_SLICE_SIZE; alignment *= 2) {
    for (size_t size = 1; size <= MI_CLASS_MAX / 2; size = size * 3 + 5) {
      void* const p = mi_aligned_alloc_at(mi_self_theap(), size, alignment, 0, MI_UNINITIALIZED);
      mi_page_t* const page = unit_page_of(p);
      check(!mi_page_has_interior(page)); // ALIGNED-1
      check(mi_page_block_of(page, p) == p);
      check_equal(mi_atomic_load_relaxed(&page->owner), mi_tls_thread_id());
      mi_free(p);
    }
  }
}

// If this fails, the address at the offset is not aligned, or the block is too small behind it.
UNIT_TEST_PAGE_SIZES(aligned_at_an_offset) {
  uint64_t random = 17;
  void* kept[64] = {NULL};
  for (size_t i = 0; i < 5000; i++) {
    const size_t alignment = (size_t)1 << random_below(&random, MI_SLICE_SHIFT + 2);
    const size_t size = random_below(&random, (size_t)1 << random_below(&random, 19));
    const size_t offset = random_below(&random, 2 * alignment + size + 1);
    const mi_fill_t fill = i % 3 == 0 ? MI_ZERO : MI_UNINITIALIZED;
    uint8_t* const p =
        (uint8_t*)mi_aligned_alloc_at(mi_self_theap(), size, alignment, offset, fill);
    check(p != NULL && ((uintptr_t)p + offset) % alignment == 0);
    check(mi_usable_size(p) >= size);
    if (fill == MI_ZERO) check(unit_is_zero(p, size));
    memset(p, 0xC3, mi_usable_size(p));
    mi_free(kept[i % 64]);
    kept[i % 64] = p;
    if (i % 500 == 0) unit_check_valid();
  }
  for (size_t i = 0; i < 64; i++) mi_free(kept[i]);
  check_equal(hooks_fake.error_count, 0);
  mi_collect_all(MI_FORCE);
  unit_check_empty();
}

// If this fails, a bad alignment crashes or is taken for a good one.
UNIT_TEST_PAGE_SIZES(aligned_refuses_bad_arguments) {
  const size_t bad[] = {0, 3, 48, SIZE_MAX, ((size_t)1 << 63) + 1};
  for (size_t i = 0; i < 5; i++) {
    errno = 0;
    check(mi_aligned_alloc_at(mi_self_theap(), 10, bad[i], 0, MI_UNINITIALIZED) == NULL &&
          errno == EINVAL);
    check_equal(hooks_fake.count[MI_ERROR_ALIGNMENT], i + 1);
  }
  volatile size_t sizes[] = {SIZE_MAX, (size_t)PTRDIFF_MAX, SIZE_MAX - MI_SLICE_SIZE};
  for (size_t i = 0; i < 3; i++) {
    for (size_t alignment = 8; alignment <= MI_SLICE_SIZE * 4; alignment *= 4) {
      errno = 0;
      check(mi_aligned_alloc_at(mi_self_theap(), sizes[i], alignment, 0, MI_ZERO) == NULL &&
            errno == ENOMEM);
      check(mi_aligned_alloc_at(mi_self_theap(), sizes[i], alignment, 4, MI_ZERO) == NULL);
    }
  }
  errno = 0;
  check(mi_aligned_alloc_at(mi_self_theap(), 1, (size_t)1 << 63, 0, MI_ZERO) == NULL &&
        errno == ENOMEM);
  check(mi_aligned_alloc_at(mi_self_theap(), 1, (size_t)1 << 50, 8, MI_ZERO) == NULL);
  check_equal(hooks_fake.count[MI_ERROR_ALIGNMENT], 5);
}

// If this fails, two threads own a page: one because it marked it after it had given it away.
UNIT_TEST_PAGE_SIZES(aligned_at_an_offset_in_a_threadpool) {
  mi_free(mi_malloc(1));
  mi_self_home()->is_in_threadpool = true; // as mi_thread_set_in_threadpool does
  void* blocks[32];
  for (size_t i = 0; i < 32; i++) {
    const size_t size = i % 2 == 0 ? MI_SLICE_SIZE / 16 : 8 * i;
    uint8_t* const p =
        (uint8_t*)mi_aligned_alloc_at(mi_self_theap(), size, 64, 24, MI_UNINITIALIZED);
    check(p != NULL && ((uintptr_t)p + 24) % 64 == 0 && mi_usable_size(p) >= size);
    memset(p, 0xC3, size);
    blocks[i] = p;
    // Who has its id on a page of blocks that share it owns it.
    mi_page_t* const page = unit_page_of(p);
    const uintptr_t owner = mi_atomic_load_relaxed(&page->owner) & ~MI_OWNER_SLOW;
    const uintptr_t word = mi_atomic_load_relaxed(&page->thread_free);
    check(owner != mi_tls_thread_id() || (word & MI_REMOTE_OWNED) != 0);
  }
  unit_check_valid();
  for (size_t i = 0; i < 32; i++) mi_free(blocks[i]);
  check_equal(hooks_fake.error_count, 0);
  mi_collect_all(MI_FORCE);
  unit_check_empty();
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(aligned_every_size_and_alignment),
      cmocka_unit_test(aligned_makes_no_interior_pointer),
      cmocka_unit_test(aligned_at_an_offset),
      cmocka_unit_test(aligned_refuses_bad_arguments),
      cmocka_unit_test(aligned_at_an_offset_in_a_threadpool),
  };
  return cmocka_run_group_tests_name("aligned", tests, NULL, NULL);
}
