// SPDX-License-Identifier: MIT
// bitmap.c - tests of arenas/bitmap.h against a naive model, and with threads that race.
#include "unit.h"

#include <sched.h>

#include "core/arenas/bitmap.h"

#define BITS 300
#define WORDS 5

static mi_bitmap_word_t map[WORDS];
static bool model[WORDS * 64];

static void check_model(void) {
  for (size_t i = 0; i < WORDS * 64; i++) check(mi_bitmap_is_all_set(map, i, 1) == model[i]);
}

static size_t model_count(size_t index, size_t count) {
  size_t set = 0;
  for (size_t i = index; i < index + count; i++) set += model[i] ? 1 : 0;
  return set;
}

static void model_set(size_t index, size_t count, bool value) {
  for (size_t i = index; i < index + count; i++) model[i] = value;
}

// If this fails, the allocator believes in free or clean memory where there is none.
UNIT_TEST(bitmap_ranges_match_the_model) {
  uint64_t random = 5;
  for (size_t round = 0; round < 20000; round++) {
    os_fake.is_single_threaded = round % 3 == 0;
    const size_t index = random_below(&random, BITS);
    const size_t max = random_below(&random, 4) == 0 ? BITS - index : 70;
    const size_t count = mi_bits_min(random_below(&random, max + 1), BITS - index);
    const size_t was_set = model_count(index, count);
    switch (random_below(&random, 4)) {
      case 0:
        check_equal(mi_bitmap_set(map, index, count), count - was_set);
        model_set(index, count, true);
        break;
      case 1:
        check_equal(mi_bitmap_clear(map, index, count), was_set);
        model_set(index, count, false);
        break;
      case 2:
        mi_bitmap_set_release(map, index, count);
        model_set(index, count, true);
        break;
      default:
        check(mi_bitmap_is_all_set(map, index, count) == (was_set == count));
        check(mi_bitmap_try_claim(map, index, count) == (was_set == count));
        if (was_set == count) model_set(index, count, false);
        break;
    }
    if (round % 16 == 0) check_model();
  }
  check_model();
}

static size_t naive_find(size_t from, size_t end, size_t count, size_t alignment, size_t bias) {
  for (size_t i = from; i + count <= end; i++) {
    if ((i + bias) % alignment == 0 && model_count(i, count) == count) return i;
  }
  return MI_BITMAP_NONE;
}

static void random_runs(uint64_t* random) {
  bool value = random_below(random, 2) == 0;
  for (size_t i = 0; i < WORDS * 64; value = !value) {
    const size_t limit = random_below(random, 3) == 0 ? 150 : 12;
    const size_t length = mi_bits_min(1 + random_below(random, limit), WORDS * 64 - i);
    model_set(i, length, value);
    if (value) mi_bitmap_set(map, i, length);
    if (!value) mi_bitmap_clear(map, i, length);
    i += length;
  }
}

// If this fails, free memory is not found, or a block overlaps another, or is misaligned.
UNIT_TEST(bitmap_finds_the_lowest_run) {
  uint64_t random = 6;
  for (size_t round = 0; round < 400; round++) {
    random_runs(&random);
    for (size_t i = 0; i < 100; i++) {
      const size_t end = random_below(&random, BITS + 1);
      const size_t from = random_below(&random, end + 1);
      const size_t count = 1 + random_below(&random, i % 2 == 0 ? 8 : 140);
      const size_t alignment = (size_t)1 << random_below(&random, 7);
      const size_t bias = random_below(&random, alignment);
      check_equal(mi_bitmap_find_run(map, from, end, count, alignment, bias),
                  naive_find(from, end, count, alignment, bias));
    }
  }
}

// If this fails, the search runs past the bitmap or in a circle.
UNIT_TEST(bitmap_find_handles_the_edges) {
  check_equal(mi_bitmap_find_run(map, 0, BITS, 1, 1, 0), MI_BITMAP_NONE);
  mi_bitmap_set(map, 0, WORDS * 64);
  check_equal(mi_bitmap_find_run(map, 0, BITS, BITS, 1, 0), 0);
  check_equal(mi_bitmap_find_run(map, 0, BITS, BITS + 1, 1, 0), MI_BITMAP_NONE);
  check_equal(mi_bitmap_find_run(map, BITS, BITS, 1, 1, 0), MI_BITMAP_NONE);
  check_equal(mi_bitmap_find_run(map, BITS - 1, BITS, 1, 1, 0), BITS - 1);
  check_equal(mi_bitmap_find_run(map, 1, BITS, 1, (size_t)1 << 20, 0), MI_BITMAP_NONE);
  mi_bitmap_clear(map, 0, WORDS * 64);
  for (size_t i = 0; i < BITS; i++) {
    mi_bitmap_set(map, i, 1);
    check_equal(mi_bitmap_find_run(map, 0, BITS, 1, 1, 0), i);
    mi_bitmap_clear(map, i, 1);
  }
}

// If this fails, pages are placed over each other or not where they fit.
UNIT_TEST(bitmap_finds_in_a_word) {
  uint64_t random = 7;
  for (size_t round = 0; round < 20000; round++) {
    uint64_t x = random_next(&random);
    if (round % 3 == 0) x |= random_next(&random);
    if (round % 5 == 0) x |= x << 1 | x << 2 | x << 7;
    if (round % 7 == 0) x = UINT64_MAX << random_below(&random, 64);
    const size_t count = 1 + random_below(&random, 64);
    size_t expected = MI_BITMAP_NONE;
    for (size_t i = 0; i + count <= 64 && expected == MI_BITMAP_NONE; i++) {
      if (((x >> i) & mi_bits_mask(count)) == mi_bits_mask(count)) expected = i;
    }
    check_equal(mi_bitmap_find_in_word(x, count), expected);
  }
  check_equal(mi_bitmap_find_in_word(0, 1), MI_BITMAP_NONE);
  check_equal(mi_bitmap_find_in_word(UINT64_MAX, 64), 0);
}

// -- races --

static mi_atomic(uint32_t) holder[BITS];
static mi_atomic(bool) is_broken;

static void race(void* arg) {
  const uint32_t self = (uint32_t)(*(size_t*)arg);
  uint64_t random = self + 100;
  for (size_t round = 0; round < 30000; round++) {
    size_t count = 1 + random_below(&random, round % 2 == 0 ? 3 : 90);
    size_t index = random_below(&random, BITS - count + 1);
    if (round % 3 == 0) {
      index = mi_bitmap_find_run(map, 0, BITS, count, 1, 0);
      if (index == MI_BITMAP_NONE) continue;
    }
    if (!mi_bitmap_try_claim(map, index, count)) continue;
    for (size_t i = index; i < index + count; i++) {
      if (mi_atomic_swap_acq_rel(&holder[i], self) != 0) mi_atomic_store_relaxed(&is_broken, true);
    }
    if (round % 64 == 0) sched_yield();
    for (size_t i = index; i < index + count; i++) {
      if (mi_atomic_swap_acq_rel(&holder[i], 0) != self) mi_atomic_store_relaxed(&is_broken, true);
    }
    mi_bitmap_set_release(map, index, count);
  }
}

// If this fails, two threads get the same memory.
UNIT_TEST(bitmap_hands_no_bit_out_twice) {
  size_t id[4] = {1, 2, 3, 4};
  mi_bitmap_set(map, 0, BITS);
  unit_on_threads(4, &race, id, sizeof(id[0]));
  check(!mi_atomic_load_relaxed(&is_broken));
  check(mi_bitmap_is_all_set(map, 0, BITS)); // a claim that fails leaves nothing behind
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(bitmap_ranges_match_the_model),
      cmocka_unit_test(bitmap_finds_the_lowest_run),
      cmocka_unit_test(bitmap_find_handles_the_edges),
      cmocka_unit_test(bitmap_finds_in_a_word),
      cmocka_unit_test(bitmap_hands_no_bit_out_twice),
  };
  return cmocka_run_group_tests_name("bitmap", tests, NULL, NULL);
}
