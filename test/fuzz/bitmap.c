// SPDX-License-Identifier: MIT
// bitmap.c - fuzz target: arenas/bitmap.c against an array of booleans. The bits of words before
// and behind those in use must never change.
#include "core/arenas/bitmap.h"

#include <string.h>

#include "fuzz.h"
#include "os_fake.h"

#define WORD_COUNT ((size_t)6)
#define BIT_COUNT (WORD_COUNT * MI_WORD_BITS)
#define GUARD ((uint64_t)0xA5C3F00F3C5A9669)

static mi_bitmap_word_t words[WORD_COUNT + 2]; // with a guard on each side
static mi_bitmap_word_t* const map = &words[1];
static bool model[BIT_COUNT];

static size_t count_model(size_t index, size_t count) {
  size_t set = 0;
  for (size_t i = index; i < index + count; i++) set += model[i];
  return set;
}

static void fill_model(size_t index, size_t count, bool value) {
  for (size_t i = index; i < index + count; i++) model[i] = value;
}

static void check_all(void) {
  for (size_t i = 0; i < BIT_COUNT; i++) {
    CHECK(mi_bitmap_is_set_acquire(map, i) == model[i]);
  }
  CHECK(mi_bitmap_count(map, WORD_COUNT) == count_model(0, BIT_COUNT));
  CHECK(mi_atomic_load_relaxed(&words[0]) == GUARD);
  CHECK(mi_atomic_load_relaxed(&words[WORD_COUNT + 1]) == GUARD);
}

// What mi_bitmap_find_run promises, by trying every place.
static size_t find_in_model(size_t from, size_t end, size_t count, size_t alignment, size_t bias) {
  for (size_t start = from; start + count <= end; start++) {
    if ((start + bias) % alignment == 0 && count_model(start, count) == count) return start;
  }
  return MI_BITMAP_NONE;
}

static void check_find(fuzz_input_t* in) {
  const size_t from = fuzz_below(in, BIT_COUNT);
  const size_t end = from + fuzz_below(in, BIT_COUNT - from + 1);
  const size_t count = 1 + fuzz_below(in, BIT_COUNT + 8);
  const size_t alignment = (size_t)1 << fuzz_below(in, 8);
  const size_t bias = fuzz_below(in, alignment);
  CHECK(mi_bitmap_find_run(map, from, end, count, alignment, bias) ==
        find_in_model(from, end, count, alignment, bias));
}

static void check_find_in_word(fuzz_input_t* in) {
  const size_t word = fuzz_below(in, WORD_COUNT);
  const size_t count = 1 + fuzz_below(in, MI_WORD_BITS);
  const size_t found = mi_bitmap_find_in_word(mi_atomic_load_relaxed(&map[word]), count);
  const size_t expected =
      find_in_model(word * MI_WORD_BITS, (word + 1) * MI_WORD_BITS, count, 1, 0);
  CHECK(expected == MI_BITMAP_NONE ? found == expected : found + word * MI_WORD_BITS == expected);
}

static void step(fuzz_input_t* in) {
  const size_t how = fuzz_below(in, 8);
  const size_t index = fuzz_below(in, BIT_COUNT);
  const size_t count = fuzz_below(in, BIT_COUNT - index + 1);
  const size_t before = count_model(index, count);
  switch (how) {
    case 0:
      mi_bitmap_set_release(map, index, count);
      fill_model(index, count, true);
      break;
    case 1:
      CHECK(mi_bitmap_set(map, index, count) == count - before);
      fill_model(index, count, true);
      break;
    case 2:
      CHECK(mi_bitmap_clear(map, index, count) == before);
      fill_model(index, count, false);
      break;
    case 3:
      CHECK(mi_bitmap_try_claim(map, index, count) == (before == count));
      if (before == count) fill_model(index, count, false);
      break;
    case 4:
      CHECK(mi_bitmap_is_all_clear(map, index, count) == (before == 0));
      CHECK(mi_bitmap_is_all_set(map, index, count) == (before == count));
      break;
    case 5:
      check_find_in_word(in);
      break;
    default:
      check_find(in);
      break;
  }
}

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  fuzz_input_t in = fuzz_open(data, size);
  memset(model, 0, sizeof(model));
  for (size_t w = 0; w < WORD_COUNT + 2; w++) {
    mi_atomic_store_relaxed(&words[w], w == 0 || w == WORD_COUNT + 1 ? GUARD : 0);
  }
  os_fake.is_single_threaded = fuzz_below(&in, 2) == 0; // plain loads and stores, or atomic ones
  while (!fuzz_is_done(&in)) step(&in);
  check_all();
  return 0;
}
