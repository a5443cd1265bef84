// SPDX-License-Identifier: MIT
// spare.h - the run of slices that was freed last, kept whole for the next claim of about that
// length.
#ifndef MI_CORE_SPARE_H
#define MI_CORE_SPARE_H

#include "arena.h"

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
