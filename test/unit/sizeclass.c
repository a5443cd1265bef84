// SPDX-License-Identifier: MIT
// sizeclass.c - tests of common/sizeclass.h: SIZECLASS-1 to SIZECLASS-3, alignment, and the
// division in page.h.
#include "unit.h"

#include "core/pages/page.h"
#include "core/common/sizeclass.h"

// If this fails, a block is smaller than what was asked for, or memory is wasted.
UNIT_TEST(sizeclass_covers_every_size) {
  for (size_t size = 0; size <= MI_CLASS_MAX; size++) {
    const size_t c = mi_class_of(size);
    check(c < MI_CLASS_COUNT);
    check(mi_class_size(c) >= size);
    check(c == 0 || mi_class_size(c - 1) < size); // the smallest that does
    if (size > 128) check((mi_class_size(c) - size) * 8 <= size); // SIZECLASS-1
    check_equal(mi_class_good_size(size), mi_class_size(c));
  }
  check_equal(mi_class_of(MI_CLASS_MAX), MI_CLASS_COUNT - 1);
  check_equal(mi_class_size(MI_CLASS_COUNT - 1), MI_CLASS_MAX);
}

// If this fails, a block is not aligned as the C standard demands.
UNIT_TEST(sizeclass_sizes_are_multiples_of_16) {
  check_equal(mi_class_size(0), 8);
  for (size_t c = 1; c < MI_CLASS_COUNT; c++) {
    check(mi_class_size(c) % 16 == 0); // SIZECLASS-2
    check(mi_class_size(c) > mi_class_size(c - 1));
    check_equal(mi_class_of(mi_class_size(c)), c);
  }
}

// If this fails, pages waste memory behind their last block, or hold too few blocks.
UNIT_TEST(sizeclass_pages_waste_little) {
  for (size_t c = 0; c < MI_CLASS_COUNT; c++) {
    const size_t slices = mi_class_slices(c);
    const size_t bytes = slices * MI_SLICE_SIZE;
    const size_t block_size = mi_class_size(c);
    check(slices >= 1 && slices <= MI_CHUNK_SLICES);
    if (block_size > MI_SLICE_SIZE) {
      check(bytes % block_size * 8 <= bytes && bytes >= block_size);
    } else if (block_size > MI_SLICE_SIZE / 4) {
      check_equal(slices, 1);
    } else if (block_size > MI_SLICE_SIZE / 8) {
      check(bytes % block_size * 4 <= bytes && bytes / block_size >= 4);
    } else {
      check(bytes / block_size >= 8 && bytes % block_size * 50 <= bytes); // SIZECLASS-3
    }
    check(bytes / block_size < UINT32_MAX);
    const size_t shared = mi_class_slices_shared(c);
    check(shared >= slices && shared <= MI_CLASS_SLICES_MAX);
    if (block_size > MI_SLICE_SIZE / 4 && block_size <= MI_SLICE_SIZE) {
      check(shared * MI_SLICE_SIZE % block_size * 16 <= shared * MI_SLICE_SIZE);
    }
  }
}

// If this fails, aligned allocation returns unaligned memory, or takes more than it must.
UNIT_TEST(sizeclass_aligned_is_the_smallest_multiple) {
  for (size_t alignment = 1; alignment <= MI_SLICE_SIZE; alignment *= 2) {
    size_t step = 1;
    for (size_t size = 0; size <= MI_CLASS_MAX; size += step) {
      step = size < 4096 ? 1 : 61;
      const size_t request = mi_class_request(size, alignment);
      check(request >= size && request <= MI_CLASS_MAX);
      const size_t c = mi_class_of(request);
      check(mi_class_size(c) >= size && mi_class_size(c) % alignment == 0);
      for (size_t smaller = c; smaller-- > 0 && mi_class_size(smaller) >= size;) {
        check(mi_class_size(smaller) % alignment != 0);
      }
    }
  }
  check_equal(mi_class_request(1, MI_SLICE_SIZE * 2), SIZE_MAX);
  check_equal(mi_class_request(MI_CLASS_MAX + 1, 8), SIZE_MAX);
  check_equal(mi_class_request(SIZE_MAX, 8), SIZE_MAX);
}

// If this fails, free of an interior pointer frees a neighbour.
UNIT_TEST(sizeclass_division_is_exact) {
  static uint8_t memory[1];
  for (size_t c = 0; c < MI_CLASS_COUNT; c++) {
    mi_page_t page;
    memset(&page, 0, sizeof(page));
    const size_t block_size = mi_class_size(c);
    page.block_size = block_size;
    page.size_class = (uint8_t)c;
    page.start = memory;
    const size_t bytes = mi_class_slices_shared(c) * MI_SLICE_SIZE;
    for (size_t offset = 0; offset < bytes; offset += (offset % block_size < 2 ? 1 : 7)) {
      const uintptr_t block = (uintptr_t)mi_page_block_of(&page, memory + offset);
      check_equal(block - (uintptr_t)memory, offset - offset % block_size);
    }
    for (size_t first = block_size; first < bytes; first += block_size) {
      const uintptr_t before = (uintptr_t)mi_page_block_of(&page, memory + first - 1);
      const uintptr_t at = (uintptr_t)mi_page_block_of(&page, memory + first);
      check_equal(before - (uintptr_t)memory, first - block_size);
      check_equal(at - (uintptr_t)memory, first);
    }
  }
}

// If this fails, mi_good_size promises what malloc does not hold.
UNIT_TEST_PAGE_SIZES(sizeclass_good_size_of_large) {
  mi_process_setup();
  const size_t page_size = os_fake.page_size;
  check_equal(mi_class_good_size(MI_CLASS_MAX + 1), MI_CLASS_MAX + page_size);
  check_equal(mi_class_good_size(MI_CLASS_MAX * 3), MI_CLASS_MAX * 3);
  check_equal(mi_class_good_size(SIZE_MAX), SIZE_MAX);
  for (size_t size = MI_CLASS_MAX + 1; size < MI_CLASS_MAX * 40; size += size / 7) {
    void* const p = mi_malloc(size);
    check_equal(mi_usable_size(p), mi_class_good_size(size));
    mi_free(p);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(sizeclass_covers_every_size),
      cmocka_unit_test(sizeclass_sizes_are_multiples_of_16),
      cmocka_unit_test(sizeclass_pages_waste_little),
      cmocka_unit_test(sizeclass_aligned_is_the_smallest_multiple),
      cmocka_unit_test(sizeclass_division_is_exact),
      cmocka_unit_test(sizeclass_good_size_of_large),
  };
  return cmocka_run_group_tests_name("sizeclass", tests, NULL, NULL);
}
