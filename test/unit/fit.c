// SPDX-License-Identifier: MIT
// fit.c - tests of arenas/fit.h: the index of free runs against a search through the bitmap.
#include "unit.h"

#include "core/arenas/arena.h"
#include "core/arenas/bitmap.h"
#include "core/arenas/fit.h"

// Words that make three levels, the last of each not full.
#define WORDS 150
#define SLICES (WORDS * MI_WORD_BITS - 20)

static mi_arena_t arena;
static mi_bitmap_word_t map[WORDS];
static uint64_t memory[2 * WORDS];

static void start(void) {
  arena.free = map;
  arena.word_count = WORDS;
  check(mi_fit_size(WORDS) <= sizeof(memory));
  mi_fit_init(&arena, memory);
}

static size_t naive(size_t from, size_t count) {
  return mi_bitmap_find_run(map, from, SLICES, count, 1, 0);
}

static void change(size_t index, size_t count, bool is_free) {
  if (is_free) {
    mi_bitmap_set_release(map, index, count);
  } else {
    mi_bitmap_clear(map, index, count);
  }
  mi_fit_note(&arena, index, count);
}

// A length between 1 and `most`, short ones more often.
static size_t length(uint64_t* random, size_t most) {
  const size_t most_of_kind = (size_t)1 << random_below(random, mi_bits_log2(most) + 1);
  return 1 + random_below(random, most_of_kind);
}

// If this fails, memory is taken from the system while there is some, or taken at higher addresses
// than need be.
UNIT_TEST(fit_finds_the_lowest_run) {
  start();
  uint64_t random = 3;
  for (size_t round = 0; round < 30000; round++) {
    os_fake.is_single_threaded = round % 3 == 0;
    const size_t index = random_below(&random, SLICES);
    const size_t count = mi_bits_min(length(&random, 2048), SLICES - index);
    change(index, count, random_below(&random, 2) == 0);
    const size_t wanted = length(&random, SLICES);
    const size_t from = random_below(&random, 3) == 0 ? random_below(&random, SLICES) : 0;
    check_equal(mi_fit_find(&arena, from, wanted), naive(from, wanted));
    if (round % 1000 == 0) check_equal(mi_fit_rebuild(&arena), 0); // FIT-1
  }
}

#define LONG_WORDS ((size_t)1 << 17)
#define LONG_SLICES (LONG_WORDS * MI_WORD_BITS) // 512 GiB

// If this fails, a block of more than 256 GiB is refused, after arenas took all addresses for it.
UNIT_TEST(fit_finds_runs_that_no_node_has_a_length_for) {
  static mi_bitmap_word_t words[LONG_WORDS];
  static uint64_t nodes[LONG_WORDS / 6];
  arena.free = words;
  arena.word_count = LONG_WORDS;
  check(mi_fit_size(LONG_WORDS) <= sizeof(nodes));
  mi_fit_init(&arena, nodes);
  mi_bitmap_set(words, 0, LONG_SLICES);
  mi_fit_note(&arena, 0, LONG_SLICES);
  for (size_t count = LONG_SLICES / 8; count <= LONG_SLICES; count += LONG_SLICES / 8) {
    check_equal(mi_fit_find(&arena, 0, count - 1), 0);
    check_equal(mi_fit_find(&arena, 0, count), 0);
    check_equal(mi_fit_find(&arena, LONG_SLICES - count, count), LONG_SLICES - count);
    check_equal(mi_fit_find(&arena, LONG_SLICES - count + 1, count), MI_BITMAP_NONE);
  }
  check_equal(mi_fit_find(&arena, 0, LONG_SLICES + 1), MI_BITMAP_NONE);
  mi_bitmap_clear(words, 100, 1);
  mi_fit_note(&arena, 100, 1);
  check_equal(mi_fit_find(&arena, 0, LONG_SLICES - 101), 101);
  check_equal(mi_fit_find(&arena, 0, LONG_SLICES - 100), MI_BITMAP_NONE);
}

// If this fails, a search ends with the end of a node, or runs over the end of the arena.
UNIT_TEST(fit_knows_runs_across_nodes) {
  start();
  for (size_t count = 1; count < SLICES; count += 1 + count / 3) {
    for (size_t index = 0; index + count <= SLICES; index += 1 + SLICES / 37) {
      change(index, count, true);
      check_equal(mi_fit_find(&arena, 0, count), index);
      check_equal(mi_fit_find(&arena, index, count), index);
      check_equal(mi_fit_find(&arena, index + 1, count), MI_BITMAP_NONE);
      check_equal(mi_fit_find(&arena, 0, count + 1), MI_BITMAP_NONE);
      change(index, count, false);
    }
  }
  check_equal(mi_fit_find(&arena, 0, 1), MI_BITMAP_NONE);
  change(0, SLICES, true);
  check_equal(mi_fit_find(&arena, 0, SLICES), 0);
  check_equal(mi_fit_find(&arena, SLICES, 1), MI_BITMAP_NONE);
}

// If this fails, an index that is a moment old hides memory, or a search never ends.
UNIT_TEST(fit_survives_a_stale_index) {
  start();
  uint64_t random = 8;
  for (size_t round = 0; round < 300; round++) {
    for (size_t i = 0; i < 40; i++) {
      const size_t index = random_below(&random, SLICES);
      const size_t count = mi_bits_min(length(&random, 300), SLICES - index);
      change(index, count, random_below(&random, 2) == 0);
    }
    // Bits that are taken and not told: nodes say too much. What is found then is no more than a
    // candidate; who cannot claim it tells the index and asks again.
    for (size_t i = 0; i < 40; i++) {
      const size_t index = random_below(&random, SLICES);
      mi_bitmap_clear(map, index, mi_bits_min(length(&random, 300), SLICES - index));
    }
    const size_t wanted = length(&random, 500);
    size_t found;
    while ((found = mi_fit_find(&arena, 0, wanted)) != MI_BITMAP_NONE &&
           !mi_bitmap_is_all_set(map, found, wanted)) {
      mi_fit_note(&arena, found, wanted);
    }
    check_equal(found, naive(0, wanted));
    // Bits that are given back and not told: nodes say too little.
    for (size_t i = 0; i < 40; i++) {
      const size_t index = random_below(&random, SLICES);
      mi_bitmap_set(map, index, mi_bits_min(length(&random, 300), SLICES - index));
    }
    mi_fit_rebuild(&arena);
    check_equal(mi_fit_find(&arena, 0, wanted), naive(0, wanted));
  }
}

// If this fails, memory is taken from the system while some is free that was purged.
UNIT_TEST(fit_is_told_what_is_held_and_let_go) {
  start();
  change(0, SLICES, true);
  check_equal(mi_fit_find(&arena, 0, SLICES), 0);
  check(mi_arena_hold(&arena, 100, 50));
  check_equal(mi_fit_find(&arena, 0, SLICES - 150), 150);
  check_equal(mi_fit_find(&arena, 0, SLICES - 149), MI_BITMAP_NONE);
  mi_arena_let_go(&arena, 100, 50);
  check_equal(mi_fit_find(&arena, 0, SLICES), 0);
}

#define RACERS 4
#define RACE_ROUNDS 20000

static void race(void* seed) {
  uint64_t random = *(size_t*)seed;
  size_t held[8][2] = {{0}};
  for (size_t round = 0; round < RACE_ROUNDS; round++) {
    size_t* const mine = held[random_below(&random, 8)];
    if (mine[1] > 0) {
      mi_arena_let_go(&arena, mine[0], mine[1]);
      mine[1] = 0;
      continue;
    }
    const size_t wanted = length(&random, 200);
    const size_t found = mi_fit_find(&arena, 0, wanted);
    if (found == MI_BITMAP_NONE || !mi_arena_hold(&arena, found, wanted)) continue;
    mine[0] = found;
    mine[1] = wanted;
  }
  for (size_t i = 0; i < 8; i++) {
    if (held[i][1] > 0) mi_arena_let_go(&arena, held[i][0], held[i][1]);
  }
}

// If this fails, threads that claim and release at once spoil the index for good.
UNIT_TEST(fit_is_whole_after_a_race) {
  start();
  change(0, SLICES, true);
  os_fake.is_single_threaded = false;
  size_t seed[RACERS] = {1, 2, 3, 4};
  unit_on_threads(RACERS, &race, seed, sizeof(seed[0]));
  check(mi_bitmap_is_all_set(map, 0, SLICES));
  // Where processors keep the order of stores and later loads apart, nodes may be left behind.
  const size_t wrong = mi_fit_rebuild(&arena);
#if defined(__x86_64__)
  check_equal(wrong, 0);
#else
  (void)wrong;
#endif
  check_equal(mi_fit_find(&arena, 0, SLICES), 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(fit_finds_the_lowest_run),
      cmocka_unit_test(fit_finds_runs_that_no_node_has_a_length_for),
      cmocka_unit_test(fit_knows_runs_across_nodes),
      cmocka_unit_test(fit_survives_a_stale_index),
      cmocka_unit_test(fit_is_told_what_is_held_and_let_go),
      cmocka_unit_test(fit_is_whole_after_a_race),
  };
  return cmocka_run_group_tests_name("fit", tests, NULL, NULL);
}
