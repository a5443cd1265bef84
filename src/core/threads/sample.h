// SPDX-License-Identifier: MIT
// sample.h - samples one allocation every so many bytes, or blocks, at no cost on the fast path.
#ifndef MI_CORE_SAMPLE_H
#define MI_CORE_SAMPLE_H

#include "theap.h"

// What a sample is for: one of these, or both.
typedef enum mi_sample_e {
  MI_SAMPLE_NONE = 0,
  MI_SAMPLE_GUARD = 1,
  MI_SAMPLE_PROFILE = 2,
} mi_sample_kind_t;
typedef uint32_t mi_sample_t; // flags of mi_sample_kind_t

// The list of the class is empty: return what the block that is asked for is. If it is a sample the
// caller then calls `mi_sample_resume`. If not, the next list of the theap is to be cut as this
// call decided.
MI_INTERNAL mi_sample_t mi_sample_take(mi_theap_t* theap, size_t size_class);

// False if that is known at once to be nothing, and to decide nothing.
static inline bool mi_sample_may_be_due(const mi_theap_t* theap, size_t size_class) {
  return mi_unlikely(theap->sample_is_on) &&
         (theap->sample_left == 0 || theap->current[size_class]->sample_rest != NULL);
}

// True if a block that has no class is to have guards.
MI_INTERNAL bool mi_sample_is_large_due(mi_theap_t* theap);

// Note that the block of a page of its own is a sample: it has the class, or none and is drawn now.
MI_INTERNAL void mi_sample_record(mi_theap_t* theap, mi_page_t* page, size_t size_class);
MI_INTERNAL void mi_sample_record_large(mi_theap_t* theap, mi_page_t* page);

// A block with a page of its own changed its size in place: SAMPLE-6. `theap` is of the calling
// thread.
MI_INTERNAL void mi_sample_resized(mi_theap_t* theap, mi_page_t* page, size_t old_size);

// After a sample: go on, behind the first `skip` blocks of the list (1 if the sample is taken from
// it, otherwise 0).
MI_INTERNAL void mi_sample_resume(mi_theap_t* theap, size_t size_class, size_t skip);

// After a list of blocks of the class was put into `theap->free`: cut it before the next sample. It
// has `length` blocks, or an unknown number.
#define MI_LENGTH_UNKNOWN UINT32_MAX
MI_INTERNAL void mi_sample_window(mi_theap_t* theap, size_t size_class, uint32_t length);

// Put the blocks that were set aside back behind the list (the page stops being current).
MI_INTERNAL void mi_sample_restore(mi_theap_t* theap, size_t size_class);

// A refill ended in a portion: it is not cut (SAMPLE-4).
static inline void mi_sample_note_portion(mi_theap_t* theap) { theap->sample_ahead = 0; }

// Profile with a mean of `interval` bytes between samples, or no more (0): the calling thread from
// now on, others when they next refill slowly.
MI_INTERNAL void mi_sample_profile(size_t interval);

// Guard one block in `rate`, or none (0), of this theap, which belongs to the calling thread. With
// a `seed` other than 0 the choice is the same in each run.
MI_INTERNAL void mi_sample_set_rate(mi_theap_t* theap, size_t rate, uint64_t seed);

// Guard only blocks of `min` to `max` bytes.
MI_INTERNAL void mi_sample_set_bounds(mi_theap_t* theap, size_t min, size_t max);

// Do as the options say.
MI_INTERNAL void mi_sample_read_options(mi_theap_t* theap, uint32_t epoch);

// The theap goes to another thread or heap: what was set for this one alone ends.
MI_INTERNAL void mi_sample_drop_own(mi_theap_t* theap);

static inline void mi_sample_follow_options(mi_theap_t* theap) {
  const uint32_t epoch = mi_atomic_load_relaxed(&mi_state.sample_epoch);
  if (mi_unlikely(theap->sample_epoch != epoch)) mi_sample_read_options(theap, epoch);
}

// The options have changed: the calling thread follows now, others when they next refill slowly.
MI_INTERNAL void mi_sample_announce(void);

// Return the number of refills after which the slow path is due, at most `quick`; `since` have been
// done.
static inline uint32_t mi_sample_quick(mi_theap_t* theap, uint32_t quick, uint32_t since) {
  if (mi_likely(!theap->sample_is_on)) return quick;
  if (theap->sample_is_exact) return 1;
  theap->sample_left -= since < theap->sample_left ? since : theap->sample_left;
  const uint32_t left = theap->sample_left > 0 ? theap->sample_left : 1;
  return quick < left ? quick : left;
}

// True if a sample of `size` bytes is to get guards now.
MI_INTERNAL bool mi_sample_may_guard(mi_theap_t* theap, size_t size);

#endif
