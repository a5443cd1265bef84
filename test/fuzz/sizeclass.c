// SPDX-License-Identifier: MIT
// sizeclass.c - fuzz target: the arithmetic of common/sizeclass.h, of blocks in a page (page.h)
// and of src/base/bits.h, against loops and plain division.
#include "core/common/sizeclass.h"

#include "core/core.h"
#include "core/pages/page.h"
#include "fuzz.h"

static void check_class(fuzz_input_t* in) {
  const size_t size = fuzz_size(in, MI_CLASS_MAX_LOG2 + 1) % (MI_CLASS_MAX + 1);
  size_t expected = 0; // the first whose blocks are large enough
  while (mi_class_size(expected) < size) expected++;
  const size_t c = mi_class_of(size);
  CHECK(c == expected && c < MI_CLASS_COUNT);
  CHECK(c <= 1 || mi_class_size(c) % 16 == 0); // SIZECLASS-2
  CHECK(size <= 128 || (mi_class_size(c) - size) * 8 <= mi_class_size(c)); // SIZECLASS-1
  CHECK(mi_class_good_size(size) == mi_class_size(c));
  const size_t alignment = (size_t)1 << fuzz_below(in, MI_SLICE_SHIFT + 3);
  const size_t request = mi_class_request(size, alignment);
  const size_t aligned = request > MI_CLASS_MAX ? MI_CLASS_COUNT : mi_class_of(request);
  size_t wanted = MI_CLASS_COUNT;
  for (size_t i = MI_CLASS_COUNT; i-- > 0 && alignment <= MI_SLICE_SIZE;) {
    const size_t block_size = mi_class_size(i);
    if (block_size >= size && block_size % alignment == 0) wanted = i;
  }
  CHECK(aligned == wanted);
}

// The block that an address in a page is in, by multiplication with the reciprocal.
static void check_index(fuzz_input_t* in) {
  const size_t c = fuzz_below(in, MI_CLASS_COUNT);
  const size_t length = mi_class_slices(c) * MI_SLICE_SIZE;
  const size_t offset = fuzz_size(in, 32) % length;
  static uint8_t start[32 * MI_SLICE_SIZE];
  mi_page_t page = {.start = start, .size_class = (uint8_t)c, .block_size = mi_class_size(c)};
  CHECK(length <= sizeof(start) && length >= page.block_size);
  CHECK(mi_page_index_of(&page, start + offset) == offset / page.block_size);
  const mi_block_t* const block = mi_page_block_of(&page, start + offset);
  CHECK((const uint8_t*)block == start + offset / page.block_size * page.block_size);
}

static void check_bits(fuzz_input_t* in) {
  const size_t x = fuzz_size(in, 64);
  const size_t y = fuzz_size(in, 64);
  const size_t power = (size_t)1 << fuzz_below(in, 40);
  size_t ones = 0;
  size_t highest = 0;
  for (size_t i = 0; i < 64; i++) {
    if ((x >> i & 1) == 0) continue;
    ones++;
    highest = i;
  }
  CHECK(mi_bits_count(x) == ones && mi_bits_is_power_of_two(x) == (ones == 1));
  CHECK(x == 0 || mi_bits_log2(x) == highest);
  CHECK(x == 0 || (x >> mi_bits_trailing_zeros(x) & 1) == 1);
  CHECK(mi_bits_align_down(x, power) == x / power * power);
  if (x <= SIZE_MAX - power) {
    CHECK(mi_bits_align_up(x, power) == (x / power + (x % power != 0)) * power);
  }
  if (y != 0) {
    const size_t q = mi_bits_divide_up(x, y);
    CHECK(q == (size_t)(((unsigned __int128)x + y - 1) / y));
  }
  size_t product = 0;
  const bool overflows = (unsigned __int128)x * y > SIZE_MAX;
  CHECK(mi_bits_mul_overflows(x, y, &product) == overflows && (overflows || product == x * y));
  CHECK(mi_bits_min(x, y) + mi_bits_max(x, y) == x + y && mi_bits_min(x, y) <= x);
  uint32_t counter = (uint32_t)x;
  CHECK(mi_bits_decrement_is_zero(&counter) == ((uint32_t)x == 1) && counter == (uint32_t)x - 1);
  CHECK(mi_bits_count(mi_bits_mask(x % 65)) == x % 65);
}

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  fuzz_input_t in = fuzz_open(data, size);
  while (!fuzz_is_done(&in)) {
    switch (fuzz_below(&in, 3)) {
      case 0:
        check_class(&in);
        break;
      case 1:
        check_index(&in);
        break;
      default:
        check_bits(&in);
        break;
    }
  }
  return 0;
}
