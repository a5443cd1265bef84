// SPDX-License-Identifier: MIT
// bits.c - tests of src/base/bits.h and src/base/random.h.
#include "unit.h"

#include "base/random.h"

// If this fails, sizes land in wrong classes and blocks are too small.
UNIT_TEST(bits_log2_and_zeros) {
  for (size_t bit = 0; bit < 64; bit++) {
    const uint64_t x = (uint64_t)1 << bit;
    check_equal(mi_bits_log2((size_t)x), bit);
    check_equal(mi_bits_log2((size_t)(x | 1)), bit);
    check_equal(mi_bits_log2((size_t)(x | (x - 1))), bit);
    check_equal(mi_bits_trailing_zeros(x), bit);
    check_equal(mi_bits_trailing_zeros(~(x - 1)), bit);
    check_equal(mi_bits_count(x - 1), bit);
    check(mi_bits_is_power_of_two((size_t)x));
    check(!mi_bits_is_power_of_two((size_t)x + 1) || bit == 0);
  }
  check_equal(mi_bits_count(UINT64_MAX), 64);
  check(!mi_bits_is_power_of_two(0));
  check(!mi_bits_is_power_of_two(SIZE_MAX));
}

// If this fails, ranges are rounded to the wrong slice or OS page.
UNIT_TEST(bits_rounding) {
  uint64_t random = 1;
  for (size_t round = 0; round < 10000; round++) {
    const size_t power = (size_t)1 << random_below(&random, 40);
    const size_t x = (size_t)(random_next(&random) >> 8);
    const size_t down = mi_bits_align_down(x, power);
    const size_t up = mi_bits_align_up(x, power);
    check(down % power == 0 && down <= x && x - down < power);
    check(up % power == 0 && up >= x && up - x < power);
    const size_t divisor = 1 + random_below(&random, 1000000);
    const size_t quotient = mi_bits_divide_up(x, divisor);
    check(quotient * divisor >= x && quotient * divisor - x < divisor);
  }
  check_equal(mi_bits_divide_up(SIZE_MAX, 2), (size_t)1 << 63);
  check_equal(mi_bits_divide_up(0, 7), 0);
  check_equal(mi_bits_min(3, SIZE_MAX), 3);
  check_equal(mi_bits_max(3, SIZE_MAX), SIZE_MAX);
}

// If this fails, calloc with a huge count returns a block that is too small.
UNIT_TEST(bits_multiply_notices_overflow) {
  size_t product = 0;
  check(!mi_bits_mul_overflows(0, SIZE_MAX, &product) && product == 0);
  check(!mi_bits_mul_overflows(SIZE_MAX, 1, &product) && product == SIZE_MAX);
  check(!mi_bits_mul_overflows((size_t)1 << 32, ((size_t)1 << 32) - 1, &product));
  check_equal(product, ((size_t)1 << 32) * (((size_t)1 << 32) - 1));
  check(mi_bits_mul_overflows((size_t)1 << 32, (size_t)1 << 32, &product));
  check(mi_bits_mul_overflows(SIZE_MAX, 2, &product));
}

// If this fails, an empty page is not noticed, or a page in use is given away.
UNIT_TEST(bits_decrement_tells_zero) {
  struct {
    uint32_t before, x, after;
  } at = {7, 3, 9};
  check(!mi_bits_decrement_is_zero(&at.x));
  check(!mi_bits_decrement_is_zero(&at.x));
  check(mi_bits_decrement_is_zero(&at.x));
  check(at.before == 7 && at.x == 0 && at.after == 9);
  at.x = (uint32_t)1 << 31;
  check(!mi_bits_decrement_is_zero(&at.x) && at.x == UINT32_MAX >> 1);
}

// If this fails, a bitmap range covers wrong slices.
UNIT_TEST(bits_mask_has_count_low_bits) {
  for (size_t count = 0; count <= 64; count++) {
    const uint64_t mask = mi_bits_mask(count);
    check_equal(mi_bits_count(mask), count);
    check(count == 0 || mi_bits_log2((size_t)mask) == count - 1);
  }
}

// If this fails, samples cluster: the estimate of a profile is biased.
UNIT_TEST(random_is_uniform_and_distinct) {
  mi_random_t a = {1};
  mi_random_t b = {2};
  size_t bits[64] = {0};
  enum { COUNT = 100000 };
  for (size_t i = 0; i < COUNT; i++) {
    const uint64_t x = mi_random_next(&a);
    check(x != mi_random_next(&b));
    for (size_t k = 0; k < 64; k++) bits[k] += (x >> k) & 1;
  }
  // Six standard errors around one half.
  for (size_t k = 0; k < 64; k++) check(bits[k] > COUNT / 2 - 950 && bits[k] < COUNT / 2 + 950);
}

// If this fails, heap profiles and samples have wrong numbers.
UNIT_TEST(bits_multiply_keeps_high_bits) {
  static const struct {
    uint64_t a, b;
    unsigned shift;
    uint64_t result;
  } known[] = {
      {UINT64_MAX, UINT64_MAX, 63, UINT64_C(0xFFFFFFFFFFFFFFFC)},
      {UINT64_MAX, UINT64_MAX, 32, UINT64_C(0xFFFFFFFE00000000)},
      {UINT64_MAX, 3, 0, UINT64_C(0xFFFFFFFFFFFFFFFD)},
      {UINT64_C(0x123456789ABCDEF0), UINT64_C(0xFEDCBA9876543210), 40, UINT64_C(0xAD77D7422236D88)},
      {UINT64_C(1) << 63, 2, 1, UINT64_C(1) << 63},
      {UINT32_MAX, UINT64_C(0xFFFFFFFF00000001), 15, UINT64_C(0xFFFC00000003FFFF)},
      {0, UINT64_MAX, 62, 0},
  };
  for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
    check_equal(mi_bits_multiply(known[i].a, known[i].b, known[i].shift), known[i].result);
    check_equal(mi_bits_multiply_halves(known[i].a, known[i].b, known[i].shift), known[i].result);
  }
  uint64_t random = 1;
  for (size_t round = 0; round < 100000; round++) {
    const uint64_t a = random_next(&random) >> random_below(&random, 64);
    const uint64_t b = random_next(&random) >> random_below(&random, 64);
    const unsigned shift = (unsigned)random_below(&random, 64);
    check_equal(mi_bits_multiply(a, b, shift), mi_bits_multiply_halves(a, b, shift));
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(bits_log2_and_zeros),
      cmocka_unit_test(bits_rounding),
      cmocka_unit_test(bits_multiply_notices_overflow),
      cmocka_unit_test(bits_multiply_keeps_high_bits),
      cmocka_unit_test(bits_decrement_tells_zero),
      cmocka_unit_test(bits_mask_has_count_low_bits),
      cmocka_unit_test(random_is_uniform_and_distinct),
  };
  return cmocka_run_group_tests_name("bits", tests, NULL, NULL);
}
