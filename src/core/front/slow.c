// SPDX-License-Identifier: MIT
// slow.c - malloc when its fast path has no block: the list of the class is empty, the block is
// large, or the thread has no theap yet.
//
//   0. the thread's theap, made on its first call                          enter.c
//   1. the cadence, and a sample if it is due (1 and 2 of refill.c)        sample.c, guard.c
//      a block of a class: the list is filled (3 to 7 of refill.c)         refill.c
//      a larger one                                                        large.c
//      memory is short (budget.c): give up what the thread does not use
//   2. no memory: give up all unused memory, try once more, then report it
#include "slow.h"

#include <errno.h>

// Return a block of class `c`, NULL if step 2 found none, either.
static mi_block_t* mi_slow_block(mi_theap_t* theap, size_t c) {
  mi_block_t* const block = mi_refill_block(theap, c);
  if (mi_likely(block != NULL)) return block;
  mi_flush_theap(theap);
  mi_collect_all(MI_FORCE);
  return mi_refill_block(theap, c);
}

// Give up all unused memory: what this thread keeps of the heap, and what all threads keep.
static void mi_slow_make_room(mi_heap_t* heap) {
  mi_theap_t* const theap = mi_theap_find(heap);
  if (theap != NULL) mi_collect_theap(theap, MI_FORCE);
  mi_collect_all(MI_FORCE);
}

// True if giving up unused memory may help a request that failed. It joins free slices, of which
// there are no more than were reserved; what the system allows does not change by it, unless it
// counts what is committed (overcommit is off). A program that asks for what cannot be (2^47 bytes)
// would else give up all that its threads keep each time.
static bool mi_slow_may_find(mi_heap_t* heap, size_t size) {
  const int64_t reserved = mi_atomic_load_relaxed(&heap->subproc->count.reserved);
  return !mi_state.os.has_overcommit || size <= (size_t)reserved;
}

MI_INTERNAL void* mi_slow_large(mi_heap_t* heap, size_t size, size_t alignment, size_t shift,
                                mi_fill_t fill) {
  void* const p = mi_large_alloc_shifted(heap, size, alignment, shift, fill);
  if (mi_likely(p != NULL)) return p;
  if (!mi_slow_may_find(heap, size + shift)) return NULL;
  mi_slow_make_room(heap);
  return mi_large_alloc_shifted(heap, size, alignment, shift, fill);
}

// BUDGET-3: memory is short.
static mi_attr_noinline void mi_slow_answer(mi_theap_t* theap) {
  const bool is_first = mi_budget_answer(theap);
  mi_flush_theap(theap);
  if (is_first) mi_collect_all(MI_FORCE);
}

// Return the size that the program asked for, when the core is asked for `size` bytes; with a note
// behind it, that of the slot.
static size_t mi_slow_asked(const mi_theap_t* theap, size_t size) {
  if (MI_IS_TRACKED) return mi_bits_align_up(size, MI_TRACK_ALIGNMENT);
  const bool has_canary = MI_HAS_CANARY && size > MI_CANARY_NONE_SIZE && !theap->is_plain;
  return has_canary ? size - 1 : mi_bits_max(size, 1);
}

// Allocate a sample of `size` bytes with guards. NULL if it is to have none.
static void* mi_slow_guard(mi_theap_t* theap, size_t size, size_t alignment, mi_fill_t fill) {
  if (!mi_sample_may_guard(theap, size)) return NULL;
  const mi_guard_plan_t plan = {
      .size = mi_bits_max(size, 1),
      .alignment = alignment,
      .fill = fill,
      .is_low = mi_random_next(&theap->random) % 2 == 0,
      .is_bounded = theap->guarded_rate > 1,
  };
  return mi_guard_alloc(mi_theap_heap(theap), &plan);
}

// Return the alignment of any guarded block.
static size_t mi_slow_least_alignment(size_t size) {
  if (mi_option_value(guarded_precise) != 0) return 1;
  return size <= 8 && MI_CLASS_FIRST == 0 ? 8 : MI_TRACK_ALIGNMENT;
}

// Return that of a block of `size` bytes: at least that of the size, because an aligned request has
// such a size (ALIGNED-1). It makes no slack.
static size_t mi_slow_alignment(size_t size) {
  const size_t natural = size & (0 - size);
  return mi_bits_min(mi_bits_max(natural, mi_slow_least_alignment(size)), MI_SLICE_SIZE);
}

// Note that a block of class `c` is a sample of the profile. Without guards it still needs a page
// of its own. Returns the block, NULL if there is no memory.
static void* mi_slow_record(mi_theap_t* theap, size_t c, void* p, mi_fill_t fill) {
  if (p == NULL) p = mi_large_alloc_slot(mi_theap_heap(theap), mi_class_size(c), fill);
  if (p != NULL) {
    mi_sample_record(theap, mi_pagemap_find(p), c);
  } else {
    mi_sampled_miss();
  }
  return p;
}

// Step 1 for a theap with samples: the block, or NULL.
static mi_attr_noinline void* mi_slow_sample(mi_theap_t* theap, size_t c, size_t size,
                                             mi_fill_t fill) {
  const mi_sample_t sample = mi_sample_take(theap, c);
  if (sample == MI_SAMPLE_NONE) return NULL;
  void* p = NULL;
  if ((sample & MI_SAMPLE_GUARD) != 0) {
    p = mi_slow_guard(theap, mi_slow_asked(theap, size), mi_slow_alignment(size), fill);
  }
  if ((sample & MI_SAMPLE_PROFILE) != 0) p = mi_slow_record(theap, c, p, fill);
  mi_sample_resume(theap, c, p != NULL ? 0 : 1);
  return p;
}

static mi_attr_noinline void* mi_slow_sample_large(mi_theap_t* theap, size_t size, mi_fill_t fill) {
  if (!mi_sample_is_large_due(theap)) return NULL;
  const size_t asked = mi_slow_asked(theap, size);
  return mi_slow_guard(theap, asked, mi_slow_alignment(size), fill);
}

MI_INTERNAL mi_attr_noinline void mi_slow_draw_large(mi_theap_t* theap, const void* p) {
  mi_sample_record_large(theap, mi_pagemap_find(p));
}

// A block of a class that needs no more than its alignment.
static void* mi_slow_sample_aligned_in(mi_theap_t* theap, size_t c, size_t size, size_t alignment,
                                       mi_fill_t fill) {
  if (theap->free[c] != NULL) return NULL;
  if (!mi_sample_may_be_due(theap, c)) return NULL;
  mi_refill_cadence(theap, c); // first: it may switch sampling
  const mi_sample_t sample = mi_sample_take(theap, c);
  if (sample == MI_SAMPLE_NONE) {
    // The list that comes is to be cut, not swapped in.
    if (theap->sample_ahead != 0) mi_theap_set_quick(theap, 1);
    return NULL;
  }
  void* p = NULL;
  if ((sample & MI_SAMPLE_GUARD) != 0) p = mi_slow_guard(theap, size, alignment, fill);
  if ((sample & MI_SAMPLE_PROFILE) != 0) p = mi_slow_record(theap, c, p, fill);
  mi_sample_resume(theap, c, p != NULL ? 0 : 1);
  return p;
}

MI_INTERNAL mi_attr_noinline void* mi_slow_sample_aligned(mi_theap_t* theap, size_t size,
                                                          size_t alignment, mi_fill_t fill) {
  if (size > MI_REQUEST_MAX / 2 || alignment > MI_SLICE_SIZE) return NULL;
  const size_t room = mi_track_room(size, alignment);
  if (MI_IS_TRACKED) size = mi_bits_align_up(room, MI_TRACK_ALIGNMENT);
  const size_t c_request = mi_class_request(room, alignment);
  alignment = mi_bits_max(alignment, mi_slow_least_alignment(size));
  if (c_request > MI_CLASS_MAX) {
    if (!mi_sample_is_large_due(theap)) return NULL;
    void* const p = mi_slow_guard(theap, size, alignment, fill);
    mi_slow_note_large(theap, p);
    return p;
  }
  const size_t c = mi_split_class(theap, c_request);
  const mi_hold_t hold = mi_hold_enter(theap->home);
  void* const p = mi_slow_sample_aligned_in(theap, c, size, alignment, fill);
  mi_hold_leave(theap->home, hold);
  return p;
}

static void* mi_slow_fail(size_t size) {
  const bool is_too_large = size > MI_REQUEST_MAX;
  mi_report(is_too_large ? MI_ERROR_TOO_LARGE : MI_ERROR_OUT_OF_MEMORY, "malloc", NULL, size);
  errno = ENOMEM;
  return NULL;
}

// True if something waits for the cadence, and is not to wait until `quick_left` is 0.
static inline bool mi_slow_is_awaited(mi_theap_t* theap) {
  mi_sample_follow_options(theap); // a thread may begin with large blocks
  return theap->sample_is_on || theap->home->is_unwatched || mi_budget_asks(theap);
}

static mi_attr_inline void mi_slow_cadence(mi_theap_t* theap, size_t c) {
  mi_refill_cadence(theap, c);
  if (mi_unlikely(mi_budget_asks(theap))) mi_slow_answer(theap);
}

// Return a block of class `c` for a request of `size` bytes.
static void* mi_slow_take(mi_theap_t* theap, size_t c, size_t size, mi_fill_t fill) {
  theap->trim_left -= (int32_t)size;
  // A page has one block of these classes, or a few: the cadence is counted down as in alloc.c.
  const bool is_counted = mi_portion_is_above(c) && mi_refill_may_wait(theap);
  if (is_counted && mi_likely(!mi_slow_is_awaited(theap))) {
    theap->quick_left--;
    mi_parcel_flush();
  } else {
    mi_slow_cadence(theap, c);
  }
  if (mi_sample_may_be_due(theap, c)) {
    void* const p = mi_slow_sample(theap, c, size, fill);
    if (p != NULL) return p;
  }
  mi_block_t* const block = mi_slow_block(theap, c);
  if (mi_likely(block != NULL) && fill == MI_ZERO) mi_slow_zero(theap, c, block);
  return block;
}

static void* mi_slow_class(mi_theap_t* theap, size_t size, mi_fill_t fill) {
  mi_lock_check_none("allocates");
  theap = mi_slow_theap(theap);
  if (theap == NULL) return mi_slow_fail(size);
  // Mistakes with other blocks are reported once this block is taken, and zero, because the error
  // function of the user may allocate.
  mi_report_enter(MI_REPORT_IN_MALLOC);
  const mi_hold_t hold = mi_hold_enter(theap->home);
  const size_t c = mi_split_choose(theap, size);
  void* const p = mi_slow_take(theap, c, size, fill);
  mi_hold_leave(theap->home, hold);
  mi_report_leave();
  return mi_likely(p != NULL) ? p : mi_slow_fail(size);
}

// The cadence of large blocks, counted down as in alloc.c: only each so many of them come to it,
// unless something waits for it.
static void mi_slow_count_large(mi_theap_t* theap) {
  if (mi_likely(!mi_slow_is_awaited(theap) && --theap->quick_left != 0)) return;
  const mi_hold_t hold = mi_hold_enter(theap->home);
  mi_slow_cadence(theap, MI_CLASS_COUNT);
  mi_hold_leave(theap->home, hold);
}

// Return the large block that the thread freed last if it has this size: programs use the same
// buffer again and again. NULL if it has not, or if anything else is to be done.
static inline void* mi_slow_kept(mi_theap_t* theap, size_t size) {
  // (A thread that has no theap yet has 0 left.)
  if (!MI_HAS_KEPT || theap->quick_left <= 1 || theap->home != theap) return NULL;
  if (!mi_large_keeps(theap, size) || mi_slow_is_awaited(theap)) return NULL;
  void* const p = mi_large_alloc_kept(theap);
  if (p != NULL) theap->quick_left--;
  return p;
}

// True if a zeroed block of a class is to be a large one, because it is to be absent (zeroed.c).
static mi_attr_noinline bool mi_slow_is_apart(mi_theap_t* theap, size_t size) {
  theap = mi_slow_theap(theap);
  return theap != NULL && mi_zeroed_is_apart(mi_theap_heap(theap)->subproc, size);
}

static mi_attr_noinline void* mi_slow_any(size_t size, mi_theap_t* theap, mi_fill_t fill) {
  const bool is_class = size <= MI_CLASS_MAX;
  const bool is_short = fill != MI_ZERO || size <= MI_ZEROED_MIN;
  if (is_class && (mi_likely(is_short) || !mi_slow_is_apart(theap, size))) {
    return mi_slow_class(theap, size, fill);
  }
  if (size > MI_REQUEST_MAX) return mi_slow_fail(size);
  theap = mi_slow_theap(theap);
  if (theap == NULL) return mi_slow_fail(size);
  mi_report_enter(MI_REPORT_IN_MALLOC);
  mi_slow_count_large(theap);
  void* p = NULL;
  if (mi_unlikely(theap->sample_is_on)) p = mi_slow_sample_large(theap, size, fill);
  // A block of a class has what mi_good_size says, wherever it is.
  const size_t room = is_class ? mi_class_size(mi_class_of(size)) : size;
  if (p == NULL) p = mi_slow_large(mi_theap_heap(theap), room, MI_SLICE_SIZE, 0, fill);
  mi_slow_note_large(theap, p);
  mi_report_leave();
  return p != NULL ? p : mi_slow_fail(size);
}

MI_SLOW void* mi_slow_malloc_large(size_t size, mi_theap_t* theap) {
  void* const p = mi_slow_kept(theap, size);
  return p != NULL ? p : mi_slow_any(size, theap, MI_UNINITIALIZED);
}

MI_SLOW void* mi_slow_malloc(size_t size, mi_theap_t* theap) {
  return mi_slow_any(size, theap, MI_UNINITIALIZED);
}

MI_SLOW void* mi_slow_zalloc(size_t size, mi_theap_t* theap) {
  return mi_slow_any(size, theap, MI_ZERO);
}
