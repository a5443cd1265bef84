// SPDX-License-Identifier: MIT
// sample.c - sampling by cutting the free list, without a counter in malloc.
//
//   list after a refill:   b b b b b | S b b b b b b ...
//                          ---------   - the sample; it and what follows is set aside in the page
//                          handed out
//
// Each block is a sample with probability p = 1 - e^(-size/interval), independently. The number of
// blocks up to and with the next sample is geometric; when it falls inside the list the list is cut
// before it, and the next miss is the sample. The geometric distribution has no memory, so every
// list draws anew, and the estimate stays unbiased even if a list is given back. A sample stands
// for 1/p blocks.
//
// SAMPLE-1  `sample_rest` of a page is NULL unless the page is current and its list was cut.
// SAMPLE-2  blocks in `sample_rest` count as used, like those in the list.
//
// The logarithm is computed with integers: drawing needs no floating point, which a malloc inside a
// signal handler or a kernel thread could not use. Deliberately absent: what is done with a sample
// (src/observe).
#include "sample.h"

#include "theap.h"

#define MI_FIXED_SHIFT 32

// Return -log2(u / 2^64) * 2^32 for u > 0: 64 - top bit, and the fraction by repeated squaring.
static uint64_t mi_sample_minus_log2(uint64_t u) {
  const size_t top = mi_bits_log2(u);
  uint64_t mantissa = (u << (63 - top)) >> 32; // in [2^31, 2^32): the value in [1, 2)
  uint64_t fraction = 0;
  for (int i = 31; i >= 0; i--) {
    mantissa = (mantissa * mantissa) >> 31;
    if (mantissa >> 32 != 0) {
      fraction |= (uint64_t)1 << i;
      mantissa >>= 1;
    }
  }
  return (((uint64_t)64 - top) << MI_FIXED_SHIFT) - fraction;
}

// Draw the number of blocks up to and with the next sample: ceil(-ln(u) * interval / size), at
// least 1.
static uint64_t mi_sample_draw(mi_theap_t* theap, size_t block_size) {
  const uint64_t u = mi_random_next(&theap->random) | 1;
  const uint64_t ln2_fixed = UINT64_C(2977044472); // ln 2 * 2^32
  // -ln(u) in steps of 2^-32.
  const uint64_t minus_ln =
      (uint64_t)(((__uint128_t)mi_sample_minus_log2(u) * ln2_fixed) >> MI_FIXED_SHIFT);
  const uint64_t bytes =
      (uint64_t)(((__uint128_t)minus_ln * theap->sample_interval) >> MI_FIXED_SHIFT);
  return bytes / block_size + 1;
}

MI_INTERNAL void mi_sample_window(mi_theap_t* theap, size_t size_class) {
  if (theap->sample_interval == 0) return;
  mi_page_t* const page = theap->current[size_class];
  mi_assert(page->sample_rest == NULL);
  const uint64_t draw = mi_sample_draw(theap, page->block_size);
  if (draw > page->reserved) return;
  // The first `draw - 1` blocks may be handed out.
  mi_block_t* last = NULL;
  mi_block_t* block = theap->free[size_class];
  for (uint64_t i = 1; i < draw && block != NULL; i++) {
    last = block;
    block = mi_block_next(block);
  }
  page->sample_rest = block;
  mi_block_join(&theap->free[size_class], last, NULL);
}

MI_INTERNAL bool mi_sample_take(mi_theap_t* theap, size_t size_class) {
  mi_page_t* const page = mi_theap_current(theap, size_class);
  if (page == NULL || page->sample_rest == NULL) return false;
  mi_block_t* const sample = page->sample_rest;
  page->sample_rest = NULL;
  theap->sample_count++;
  // A new window begins behind the sample.
  theap->free[size_class] = mi_block_next(sample);
  mi_sample_window(theap, size_class);
  mi_block_set_next(sample, theap->free[size_class]);
  theap->free[size_class] = sample;
  return true;
}

MI_INTERNAL void mi_sample_restore(mi_theap_t* theap, size_t size_class) {
  mi_page_t* const page = mi_theap_current(theap, size_class);
  if (page == NULL || page->sample_rest == NULL) return;
  mi_block_t* last;
  mi_page_measure(page, &theap->free[size_class], &last);
  mi_block_join(&theap->free[size_class], last, page->sample_rest);
  page->sample_rest = NULL;
}

MI_INTERNAL void mi_sample_set_interval(mi_theap_t* theap, size_t interval) {
  for (size_t c = 0; c < MI_CLASS_COUNT; c++) mi_sample_restore(theap, c);
  theap->sample_interval = interval;
  // The lists that are in place are sampled, too.
  for (size_t c = 0; c < MI_CLASS_COUNT; c++) {
    if (mi_theap_current(theap, c) != NULL) mi_sample_window(theap, c);
  }
  mi_theap_set_quick(theap, interval != 0 ? 1 : MI_QUICK_REFILLS);
}
