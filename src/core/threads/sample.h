// SPDX-License-Identifier: MIT
// sample.h - samples one allocation every so many bytes, or blocks, at no cost on the fast path.
#ifndef MI_CORE_SAMPLE_H
#define MI_CORE_SAMPLE_H

#include "theap.h"

// The list of the class is empty: true if the block that is asked for is a sample. The caller then
// calls `mi_sample_resume`. If false, the next list of the theap is to be cut as this call decided.
MI_INTERNAL bool mi_sample_is_due(mi_theap_t* theap, size_t size_class);

// False if that is known at once to return false, and to decide nothing.
static inline bool mi_sample_may_be_due(const mi_theap_t* theap, size_t size_class) {
  return mi_unlikely(theap->sample_interval != 0) &&
         (theap->sample_left == 0 || theap->current[size_class]->sample_rest != NULL);
}

// The same for a block that has no class: it is a sample by itself.
MI_INTERNAL bool mi_sample_is_large_due(mi_theap_t* theap);

// After a sample: go on, behind the first `skip` blocks of the list (1 if the sample is taken from
// it, otherwise 0).
MI_INTERNAL void mi_sample_resume(mi_theap_t* theap, size_t size_class, size_t skip);

// After a list of blocks of the class was put into `theap->free`: cut it before the next sample.
MI_INTERNAL void mi_sample_window(mi_theap_t* theap, size_t size_class);

// Put the blocks that were set aside back behind the list (the page stops being current).
MI_INTERNAL void mi_sample_restore(mi_theap_t* theap, size_t size_class);

// A refill ended in a portion: it is not cut (SAMPLE-4).
static inline void mi_sample_note_portion(mi_theap_t* theap) { theap->sample_ahead = 0; }

// Sample with a mean of `interval` bytes between samples, or no more (0), for this theap.
MI_INTERNAL void mi_sample_set_interval(mi_theap_t* theap, size_t interval);

// Guard one block in `rate`, or none (0), of this theap, which belongs to the calling thread. With
// a `seed` other than 0 the choice is the same in each run.
MI_INTERNAL void mi_sample_set_rate(mi_theap_t* theap, size_t rate, uint64_t seed);

// Guard only blocks of `min` to `max` bytes.
MI_INTERNAL void mi_sample_set_bounds(mi_theap_t* theap, size_t min, size_t max);

// Do as the options say.
MI_INTERNAL void mi_sample_read_options(mi_theap_t* theap, uint32_t epoch);

static inline void mi_sample_follow_options(mi_theap_t* theap) {
  const uint32_t epoch = mi_atomic_load_relaxed(&mi_state.sample_epoch);
  if (mi_unlikely(theap->sample_epoch != epoch)) mi_sample_read_options(theap, epoch);
}

// The options have changed: the calling thread follows now, others when they next refill slowly.
MI_INTERNAL void mi_sample_announce(void);

// Return the number of refills after which the slow path is due, at most `quick`; `since` have been
// done.
static inline uint32_t mi_sample_quick(mi_theap_t* theap, uint32_t quick, uint32_t since) {
  if (mi_likely(theap->sample_interval == 0)) return quick;
  if (theap->sample_is_exact) return 1;
  theap->sample_left -= since < theap->sample_left ? since : theap->sample_left;
  const uint32_t left = theap->sample_left > 0 ? theap->sample_left : 1;
  return quick < left ? quick : left;
}

// True if a sample of `size` bytes is to get guards now.
MI_INTERNAL bool mi_sample_may_guard(mi_theap_t* theap, size_t size);

#endif
