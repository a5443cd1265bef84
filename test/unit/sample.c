// SPDX-License-Identifier: MIT
// sample.c - tests of threads/sample.c: the estimate is unbiased, whatever the program does, and
// sampling that is off leaves no trace.
#include "unit.h"

#include "core/pages/page.h"
#include "core/threads/sample.h"
#include "core/threads/theap.h"

// A sample of a class stands for 1/p blocks, p = 1 - e^(-size/interval).
static double probability(size_t size, size_t interval) {
  const double x = (double)size / (double)interval;
  // e^(-x) from the series at x / 2^20, where two terms do.
  const double small = x / 1048576;
  double power = 1 - small + small * small / 2;
  for (size_t i = 0; i < 20; i++) power *= power;
  return x < 0.0001 ? x - x * x / 2 : 1 - power;
}

typedef struct tally_s {
  double estimate; // bytes, from the samples
  double actual; // bytes that were allocated
  double variance; // of the estimate
  double block; // the largest block, in bytes
} tally_t;

static void tally_add(tally_t* tally, size_t c, size_t interval, uint64_t samples, size_t blocks) {
  const double size = (double)mi_class_size(c);
  const double p = probability(mi_class_size(c), interval);
  tally->estimate += (double)samples * size / p;
  tally->actual += (double)blocks * size;
  tally->variance += (double)blocks * size * size * (1 - p) / p;
  if (size > tally->block) tally->block = size;
}

// At most so many standard errors away, or three blocks: where nearly each block is a sample, those
// that are none are too few for a normal distribution.
static void check_tally(const tally_t* tally, double errors, const char* what) {
  const double off = tally->estimate - tally->actual;
  const double few = 3 * tally->block;
  if (off * off > errors * errors * tally->variance && off * off > few * few) {
    fprintf(stderr, "%s: estimate %.0f, actual %.0f, variance %.0f\n", what, tally->estimate,
            tally->actual, tally->variance);
    check(!"the estimate is biased");
  }
}

static const size_t intervals[] = {500, 4096, 50000, 512 * 1024};
#define INTERVALS (sizeof(intervals) / sizeof(intervals[0]))

typedef enum use_e { USE_AT_ONCE, USE_BATCHES, USE_RANDOM, USE_FLUSH, USE_KINDS } use_t;

enum { LIVE = 1000 };
static void* live[LIVE];

// Allocates `count` blocks of the class; how they are freed depends on `use`.
static void use_blocks(use_t use, size_t size, size_t count, uint64_t* random) {
  const size_t window = size > MI_SLICE_SIZE / 8 ? LIVE / 50 : LIVE;
  for (size_t i = 0; i < count; i++) {
    const size_t at = use == USE_RANDOM ? random_below(random, window) : i % window;
    if (use == USE_AT_ONCE) {
      mi_free(mi_malloc(size));
      continue;
    }
    if (live[at] != NULL) mi_free(live[at]);
    live[at] = mi_malloc(size);
    if (use == USE_BATCHES && at == window - 1) {
      for (size_t k = 0; k < window; k++) {
        mi_free(live[k]);
        live[k] = NULL;
      }
    }
    if (use == USE_FLUSH && i % 37 == 0) mi_collect_all(MI_FORCE);
  }
  for (size_t i = 0; i < LIVE; i++) {
    mi_free(live[i]);
    live[i] = NULL;
  }
}

static void check_unbiased(use_t use, const char* what) {
  mi_theap_t* const theap = unit_theap();
  theap->random.state = 100; // the same draws in every run
  uint64_t random = 31 + (uint64_t)use;
  for (size_t k = 0; k < INTERVALS; k++) {
    tally_t all = {0, 0, 0, 0};
    mi_sample_profile(intervals[k]);
    for (size_t of_size = 0; of_size < MI_CLASS_COUNT; of_size += 4) {
      const size_t c = mi_split_class(theap, mi_class_size(of_size));
      const size_t size = mi_class_size(c);
      // About 300 samples, within reason.
      size_t count = (size_t)(300 / probability(size, intervals[k]));
      count = mi_bits_min(count, use == USE_FLUSH ? 3000 : 30000);
      const uint64_t before = theap->sample_count;
      use_blocks(use, size, count, &random);
      tally_t one = {0, 0, 0, 0};
      tally_add(&one, c, intervals[k], theap->sample_count - before, count);
      tally_add(&all, c, intervals[k], theap->sample_count - before, count);
      char text[80];
      snprintf(text, sizeof(text), "%s, %zu bytes, interval %zu", what, size, intervals[k]);
      check_tally(&one, 5, text); // hundreds of these are looked at
    }
    check_tally(&all, 4, what);
  }
  unit_check_valid();
}

// If this fails, a heap profile is wrong for programs that free what they just allocated.
UNIT_TEST(sample_is_unbiased_for_pairs) { check_unbiased(USE_AT_ONCE, "pairs"); }

// If this fails, a heap profile is wrong for programs that allocate and free in batches.
UNIT_TEST(sample_is_unbiased_for_batches) { check_unbiased(USE_BATCHES, "batches"); }

// If this fails, a heap profile is wrong for programs that replace blocks at random.
UNIT_TEST(sample_is_unbiased_for_random_frees) { check_unbiased(USE_RANDOM, "random"); }

// If this fails, lists that are given back unused count as allocations, or hide some.
UNIT_TEST(sample_is_unbiased_when_lists_are_given_back) { check_unbiased(USE_FLUSH, "flush"); }

// If this fails, a profile that starts late misses what is allocated first.
UNIT_TEST_PAGE_SIZES(sample_starts_with_the_lists_there_are) {
  mi_theap_t* const theap = unit_theap();
  theap->random.state = 101;
  tally_t tally = {0, 0, 0, 0};
  for (size_t round = 0; round < 200; round++) {
    mi_sample_profile(0);
    mi_free(mi_malloc(16));
    mi_sample_profile(100);
    const uint64_t before = theap->sample_count;
    for (size_t i = 0; i < 50; i++) live[i] = mi_malloc(16);
    tally_add(&tally, mi_class_of(16), 100, theap->sample_count - before, 50);
    for (size_t i = 0; i < 50; i++) {
      mi_free(live[i]);
      live[i] = NULL;
    }
  }
  check_tally(&tally, 4, "start");
}

// If this fails, sampling hands out a block twice, or loses the blocks behind a sample.
UNIT_TEST_PAGE_SIZES(sample_keeps_blocks_whole) {
  mi_sample_profile(200);
  uint64_t random = 4;
  for (size_t step = 0; step < 20000; step++) {
    const size_t at = random_below(&random, LIVE);
    const size_t size = 8 + at % 500;
    if (live[at] != NULL) {
      check(unit_is_filled(live[at], size, at));
      mi_free(live[at]);
      live[at] = NULL;
    } else {
      live[at] = step % 3 == 0 ? mi_zalloc(size) : mi_malloc(size);
      check(step % 3 != 0 || unit_is_zero(live[at], size));
      unit_fill(live[at], size, at);
    }
    if (step % 1000 == 0) unit_check_valid();
    if (step % 700 == 0) mi_sample_profile(step % 1400 == 0 ? 0 : 100 + step);
    if (step % 1900 == 0) mi_collect_all(step % 3800 == 0 ? MI_FORCE : MI_GENTLE);
  }
  mi_sample_profile(0);
  for (size_t i = 0; i < LIVE; i++) mi_free(live[i]);
  mi_collect_all(MI_FORCE);
  unit_check_empty();
}

// If this fails, programs that do not use sampling pay for it.
UNIT_TEST_PAGE_SIZES(sample_off_costs_nothing) {
  mi_theap_t* const theap = unit_theap();
  for (size_t c = 0; c < MI_CLASS_COUNT; c += c < 8 ? 1 : 8) { // from 16 on classes are wide
    void* const p = mi_malloc(mi_class_size(c));
    mi_page_t* const page = unit_page_of(p);
    check(page->sample_rest == NULL);
    // The whole list is in place: all carved blocks but the one in use.
    size_t length = 0;
    for (const mi_block_t* b = theap->free[c]; b != NULL; b = b->next) length++;
    check_equal(length, mi_page_capacity(page) - 1);
    mi_free(p);
  }
  // As many visits of the slow path as without ever having sampled.
  const size_t rounds = 100000;
  uint64_t heartbeat = theap->heartbeat;
  for (size_t i = 0; i < rounds; i++) mi_free(mi_malloc(64));
  const uint64_t before = theap->heartbeat - heartbeat;
  mi_sample_profile(1000);
  for (size_t i = 0; i < rounds; i++) mi_free(mi_malloc(64));
  check(theap->sample_count > 0);
  mi_sample_profile(0);
  const uint64_t samples = theap->sample_count;
  heartbeat = theap->heartbeat;
  for (size_t i = 0; i < rounds; i++) mi_free(mi_malloc(64));
  check(theap->heartbeat - heartbeat <= before + MI_QUICK_REFILLS);
  check_equal(theap->sample_count, samples);
}

// If this fails, what was set aside behind a sample is not available when sampling ends.
UNIT_TEST_PAGE_SIZES(sample_restore_puts_blocks_back) {
  mi_theap_t* const theap = unit_theap();
  const size_t c = mi_class_of(64);
  mi_sample_profile(2000);
  mi_page_t* page;
  do {
    page = unit_page_of(mi_malloc(64));
  } while (page->sample_rest == NULL);
  mi_sample_restore(theap, c);
  check(page->sample_rest == NULL);
  unit_check_valid();
  mi_sample_restore(theap, c);
  mi_sample_profile(0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(sample_is_unbiased_for_pairs),
      cmocka_unit_test(sample_is_unbiased_for_batches),
      cmocka_unit_test(sample_is_unbiased_for_random_frees),
      cmocka_unit_test(sample_is_unbiased_when_lists_are_given_back),
      cmocka_unit_test(sample_starts_with_the_lists_there_are),
      cmocka_unit_test(sample_keeps_blocks_whole),
      cmocka_unit_test(sample_off_costs_nothing),
      cmocka_unit_test(sample_restore_puts_blocks_back),
  };
  return cmocka_run_group_tests_name("sample", tests, NULL, NULL);
}
