// SPDX-License-Identifier: MIT
// spare.h - the run of slices that was freed last, kept whole for the next claim of about that
// length.
#ifndef MI_CORE_SPARE_H
#define MI_CORE_SPARE_H

#include "arena.h"

// A run in a word: the number of its first slice, and its length. 0: none.
#define MI_SPARE_COUNT_BITS 24
#define MI_SPARE_MAX (((size_t)1 << MI_SPARE_COUNT_BITS) - 1)
#define MI_SPARE_NONE ((uint64_t)0)

static inline uint64_t mi_spare_word(const uint8_t* start, size_t slice_count) {
  return (uint64_t)((uintptr_t)start >> MI_SLICE_SHIFT) << MI_SPARE_COUNT_BITS | slice_count;
}

static inline uint8_t* mi_spare_start(uint64_t word) {
  return (uint8_t*)((uintptr_t)(word >> MI_SPARE_COUNT_BITS) << MI_SLICE_SHIFT);
}

static inline size_t mi_spare_count(uint64_t word) { return (size_t)word & MI_SPARE_MAX; }

// Keep a run that its owner gives back, which was claimed with `alignment`, and release the one
// that was kept before. False if the run is not one that is kept: the caller releases it.
MI_INTERNAL bool mi_spare_keep(mi_arena_t* arena, size_t slice_index, size_t slice_count,
                               size_t alignment);

// Claim the run that is kept, if `heap` may have it, it is as aligned as it should be, and about
// as long: `run` has its length. False if there is none, or another one.
MI_INTERNAL bool mi_spare_claim(mi_heap_t* heap, size_t slice_count, size_t alignment,
                                mi_run_t* run);

// Return how many slices the run has that is kept, 0 if there is none.
MI_INTERNAL size_t mi_spare_length(mi_subproc_t* subproc);

// True if SPARE-1 and WAIT-2 hold. No other thread may use the sub-process.
MI_INTERNAL bool mi_spare_is_valid(mi_subproc_t* subproc);

// Release the run that is kept, if any: its slices are free, and wait.
MI_INTERNAL void mi_spare_release(mi_subproc_t* subproc);

#endif
