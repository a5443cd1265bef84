// SPDX-License-Identifier: MIT
// sample.c - sampling by cutting the free list, without a counter in malloc.
//
//   list after a refill:   b b b b b | S b b b b b b ...
//                          ---------   - the sample; it and what follows is set aside in the page
//                          handed out
//
// Each block is a sample with probability p, independently. The number of blocks up to and with the
// next sample is geometric; when it falls inside the list the list is cut before it, and the next
// miss is the sample. The geometric distribution has no memory, so every list draws anew, and the
// estimate stays unbiased even if a list is given back. A sample stands for 1/p blocks.
//
//   for a profile       p = 1 - e^(-size/interval); the sample is the first block of the rest
//   for guarded blocks  p = 1/interval, if the size is within bounds; the sample gets a page of its
//                       own with guards (guard.c), and the rest is a list again
//
// SAMPLE-1  `sample_rest` of a page is NULL unless the page is current and its list was cut.
// SAMPLE-2  blocks in `sample_rest` count as used, like those in the list.
// SAMPLE-3  if samples are rare, only one list in `sample_every` on average may be cut, at
//     `sample_every` times p: the distance between such lists is random, so that each list has the
//     same chance. All others are refilled by alloc.c as without sampling. `sample_every` stays the
//     same until the rate changes: what is left of a list that was cut draws with the factor that
//     it was chosen with. It is 1, and the theap `sample_is_exact`, if p is large: then every
//     refill comes to the slow path.
// SAMPLE-4  a portion (portion.c) is not cut: the block that is asked for stands for those that the
//     portion served before. While each list may be cut there are no portions.
// SAMPLE-5  where one block in MI_SAMPLE_PACED or fewer is chosen, a theap guards at most so many
//     per second, and a few more at once: a program that does nothing but malloc and free must not
//     notice it either.
//
// The logarithm is computed with integers: drawing needs no floating point, which a malloc inside a
// signal handler or a kernel thread could not use. Deliberately absent: what guards are (guard.c),
// and what a profile does with its samples.
#include "sample.h"

#include "portion.h"

#define MI_FIXED_SHIFT 32
#define MI_SAMPLE_LOG_BITS 22
// Guarded blocks this frequent are chosen exactly.
#define MI_SAMPLE_EXACT ((size_t)64)
// Such rare ones are bounded per time: one in so many milliseconds, and so many at once.
#define MI_SAMPLE_PACED ((size_t)1000)
#define MI_SAMPLE_PACE_MS 4
#define MI_SAMPLE_CREDIT_MAX 64
// A list of so many blocks has half a sample.
#define MI_SAMPLE_LENGTH 256

// Return -log2(u / 2^64) * 2^32 for u > 0: 64 - top bit, and the fraction by repeated squaring, as
// far as matters.
static uint64_t mi_sample_minus_log2(uint64_t u) {
  const size_t top = mi_bits_log2(u);
  uint64_t mantissa = (u << (63 - top)) >> 32; // in [2^31, 2^32): the value in [1, 2)
  uint64_t fraction = 0;
  for (int i = 31; i >= MI_FIXED_SHIFT - MI_SAMPLE_LOG_BITS; i--) {
    mantissa = (mantissa * mantissa) >> 31;
    if (mantissa >> 32 != 0) {
      fraction |= (uint64_t)1 << i;
      mantissa >>= 1;
    }
  }
  return (((uint64_t)64 - top) << MI_FIXED_SHIFT) - fraction;
}

// Return -ln(u / 2^64) in steps of 2^-32, for u > 0.
static uint64_t mi_sample_minus_ln(uint64_t u) {
  const uint64_t ln2_fixed = UINT64_C(2977044472); // ln 2 * 2^32
  return (uint64_t)(((__uint128_t)mi_sample_minus_log2(u) * ln2_fixed) >> MI_FIXED_SHIFT);
}

// Draw the number of trials up to and with the first success, each of probability part / whole.
static uint64_t mi_sample_draw(mi_theap_t* theap, uint64_t part, uint64_t whole) {
  if (part >= whole) return 1;
  const uint64_t minus_ln = mi_sample_minus_ln(mi_random_next(&theap->random) | 1);
  const uint64_t ratio = whole / part;
  if (ratio >= 4096) { // -ln(1 - p) is p then, as exactly as matters
    return (uint64_t)(((__uint128_t)minus_ln * ratio) >> MI_FIXED_SHIFT) + 1;
  }
  return minus_ln / mi_sample_minus_ln(UINT64_MAX / whole * (whole - part)) + 1;
}

// Draw the number of blocks up to and with the next sample: at least 1.
static uint64_t mi_sample_draw_block(mi_theap_t* theap, size_t size_class) {
  if (theap->sample_is_guarded) {
    return mi_sample_draw(theap, theap->sample_every, theap->sample_interval);
  }
  // ceil(-ln(u) * interval / size)
  const uint64_t minus_ln = mi_sample_minus_ln(mi_random_next(&theap->random) | 1);
  const uint64_t bytes =
      (uint64_t)(((__uint128_t)minus_ln * theap->sample_interval) >> MI_FIXED_SHIFT);
  return bytes / mi_class_size(size_class) + 1;
}

// Choose the next list that may be cut, when one was: SAMPLE-3.
static void mi_sample_arm(mi_theap_t* theap) {
  if (theap->sample_is_exact) return;
  theap->sample_left = 1 + mi_random_below(&theap->random, 2 * theap->sample_every - 1);
  if (theap->sample_left < theap->quick_left) mi_theap_set_quick(theap, theap->sample_left);
}

// True if a block of the class may be a sample.
static bool mi_sample_is_eligible(const mi_theap_t* theap, size_t c) {
  if (!theap->sample_is_guarded) return true;
  return mi_class_size(c) >= theap->guarded_min &&
         (c == 0 || mi_class_size(c - 1) < theap->guarded_max);
}

MI_INTERNAL void mi_sample_window(mi_theap_t* theap, size_t size_class) {
  mi_page_t* const page = theap->current[size_class];
  mi_assert(page->sample_rest == NULL);
  const uint64_t ahead = theap->sample_ahead;
  theap->sample_ahead = 0;
  // The first `ahead - 1` blocks may be handed out.
  mi_block_t* last = NULL;
  mi_block_t* block = theap->free[size_class];
  for (size_t length = 0; length + 1 < ahead && block != NULL; length++) {
    last = block;
    block = mi_block_next(block);
  }
  if (block == NULL) return;
  page->sample_rest = block;
  mi_block_join(&theap->free[size_class], last, NULL);
}

// Make the blocks that were set aside the list again. False if there are none.
static bool mi_sample_rejoin(mi_theap_t* theap, size_t size_class) {
  mi_page_t* const page = mi_theap_current(theap, size_class);
  if (page == NULL || page->sample_rest == NULL) return false;
  theap->free[size_class] = page->sample_rest;
  page->sample_rest = NULL;
  return true;
}

// A portion is due for a sample, or not: SAMPLE-4.
static bool mi_sample_is_portion_due(mi_theap_t* theap, size_t c, size_t most) {
  const size_t served = most - mi_bits_min(theap->room[c], most - 1);
  mi_sample_arm(theap);
  return mi_sample_draw_block(theap, c) <= served;
}

// The list that comes is the chosen one: it is cut before its block number `ahead`.
static void mi_sample_look_ahead(mi_theap_t* theap, uint64_t ahead) {
  theap->sample_ahead = ahead;
  mi_sample_arm(theap);
}

MI_INTERNAL bool mi_sample_is_due(mi_theap_t* theap, size_t size_class) {
  if (theap->free[size_class] != NULL) return false; // the deferred frees allocated
  bool is_due = mi_sample_rejoin(theap, size_class);
  if (!is_due) {
    if (theap->sample_left > 0) return false;
    if (theap->sample_ahead != 0) return false; // drawn already
    if (!mi_sample_is_eligible(theap, size_class)) {
      mi_sample_arm(theap);
      return false;
    }
    if (theap->room[size_class] > 0 && mi_theap_current(theap, size_class) == NULL) {
      is_due = mi_sample_is_portion_due(theap, size_class, mi_portion_own_length(size_class));
    } else {
      const uint64_t draw = mi_sample_draw_block(theap, size_class);
      is_due = draw == 1; // then the list that comes draws again
      if (!is_due) mi_sample_look_ahead(theap, draw);
    }
  }
  if (is_due) theap->sample_count++;
  return is_due;
}

MI_INTERNAL bool mi_sample_is_large_due(mi_theap_t* theap) {
  if (!theap->sample_is_guarded) return false;
  const bool is_due = mi_sample_draw(theap, 1, theap->sample_interval) == 1;
  if (is_due) theap->sample_count++;
  return is_due;
}

MI_INTERNAL void mi_sample_resume(mi_theap_t* theap, size_t size_class, size_t skip) {
  if (!mi_sample_is_eligible(theap, size_class)) return;
  const uint64_t ahead = skip + mi_sample_draw_block(theap, size_class);
  if (mi_theap_current(theap, size_class) != NULL && theap->free[size_class] != NULL) {
    theap->sample_ahead = ahead;
    mi_sample_window(theap, size_class);
  } else if (skip > 0 && theap->sample_left == 0) { // else the next miss draws
    mi_sample_look_ahead(theap, ahead);
  }
}

MI_INTERNAL void mi_sample_restore(mi_theap_t* theap, size_t size_class) {
  mi_page_t* const page = mi_theap_current(theap, size_class);
  if (page == NULL || page->sample_rest == NULL) return;
  mi_block_t* last;
  mi_page_measure(page, &theap->free[size_class], &last);
  mi_block_join(&theap->free[size_class], last, page->sample_rest);
  page->sample_rest = NULL;
}

// -- Switching --

static void mi_sample_stop(mi_theap_t* theap) {
  for (size_t c = 0; c < MI_CLASS_COUNT; c++) mi_sample_restore(theap, c);
  theap->sample_interval = 0;
  theap->sample_is_guarded = false;
  theap->sample_is_exact = false;
  theap->sample_ahead = 0;
  theap->sample_left = 0;
  theap->sample_every = 1;
  mi_theap_set_quick(theap, MI_QUICK_REFILLS);
}

// Sample the lists that are in place, too.
static void mi_sample_start(mi_theap_t* theap, size_t interval) {
  theap->sample_interval = interval;
  if (!theap->sample_is_exact) {
    const size_t every = interval / (2 * MI_SAMPLE_LENGTH);
    theap->sample_every = (uint32_t)mi_bits_min(mi_bits_max(every, 1), MI_QUICK_REFILLS);
    mi_sample_arm(theap);
    return;
  }
  mi_portion_return_all(theap); // SAMPLE-4
  for (size_t c = 0; c < MI_CLASS_COUNT; c++) mi_sample_resume(theap, c, 0);
  mi_theap_set_quick(theap, 1);
}

MI_INTERNAL void mi_sample_set_interval(mi_theap_t* theap, size_t interval) {
  mi_sample_stop(theap);
  if (interval == 0) return;
  theap->sample_is_exact = true;
  mi_sample_start(theap, interval);
}

MI_INTERNAL void mi_sample_set_rate(mi_theap_t* theap, size_t rate, uint64_t seed) {
  mi_sample_stop(theap);
  if (rate == 0) return;
  if (seed != 0) theap->random.state = mi_random_mix(seed);
  theap->sample_is_guarded = true;
  theap->sample_is_exact = rate <= MI_SAMPLE_EXACT;
  theap->guarded_credit = MI_SAMPLE_CREDIT_MAX;
  mi_sample_start(theap, rate);
}

MI_INTERNAL void mi_sample_set_bounds(mi_theap_t* theap, size_t min, size_t max) {
  theap->guarded_min = min;
  theap->guarded_max = mi_bits_max(min, max);
  if (!theap->sample_is_guarded) return;
  const size_t rate = theap->sample_interval;
  mi_sample_stop(theap);
  mi_sample_set_rate(theap, rate, 0);
}

static size_t mi_sample_option(long value) { return value > 0 ? (size_t)value : 0; }

MI_INTERNAL mi_attr_cold void mi_sample_read_options(mi_theap_t* theap, uint32_t epoch) {
  const size_t rate = mi_sample_option(mi_option_value(guarded_sample_rate));
  theap->sample_epoch = epoch;
  mi_sample_set_bounds(theap, mi_sample_option(mi_option_value(guarded_min)),
                       mi_sample_option(mi_option_value(guarded_max)));
  // A profile goes on.
  if (rate == 0 && !theap->sample_is_guarded) return;
  mi_sample_set_rate(theap, rate, (uint64_t)mi_option_value(guarded_sample_seed));
}

MI_INTERNAL void mi_sample_announce(void) {
  uint32_t epoch = mi_atomic_add_relaxed(&mi_state.sample_epoch, 1) + 1;
  if (epoch == MI_SAMPLE_EPOCH_NONE) mi_atomic_store_relaxed(&mi_state.sample_epoch, 0);
  mi_theap_t* const home = mi_self_home();
  if (home->thread_id == 0) return;
  mi_sample_follow_options(home);
  for (size_t i = 0; i < home->others_count; i++) {
    if (home->others[i] != NULL && !home->others[i]->is_ended) {
      mi_sample_follow_options(home->others[i]);
    }
  }
}

// -- Guarded samples --

MI_INTERNAL bool mi_sample_may_guard(mi_theap_t* theap, size_t size) {
  if (!theap->sample_is_guarded) return false;
  if (size < theap->guarded_min || size > theap->guarded_max) return false;
  if (theap->sample_interval < MI_SAMPLE_PACED) return true;
  const uint64_t now = mi_os_now_ms(); // SAMPLE-5
  const uint64_t more = (now - theap->guarded_ms) / MI_SAMPLE_PACE_MS;
  if (more > 0) {
    const uint64_t credit = theap->guarded_credit + more;
    theap->guarded_credit = (uint32_t)mi_bits_min((size_t)credit, MI_SAMPLE_CREDIT_MAX);
    theap->guarded_ms = now;
  }
  if (theap->guarded_credit == 0) return false;
  theap->guarded_credit--;
  return true;
}
