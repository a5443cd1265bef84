// SPDX-License-Identifier: MIT
// run.h - slices for a page of a heap, from an arena or as a mapping of their own.
#ifndef MI_CORE_RUN_H
#define MI_CORE_RUN_H

#include "slices.h"

// The description of a page that is going to be made.
typedef struct mi_run_wish_s {
  size_t slice_count;
  size_t alignment; // bytes, at least a slice
  size_t touched_count; // slices that will be written to, as for mi_slices_claim
  size_t described_count; // the first and the last of so many slices need a descriptor; of a page
      // that is no longer than a window all
  bool is_below_peak; // none rather than a run that makes a new peak of committed memory
} mi_run_wish_t;

// Claim slices for a page of `heap`. False if there is no memory.
MI_INTERNAL bool mi_run_claim(mi_heap_t* heap, const mi_run_wish_t* wish, mi_run_t* run);

// Claim the run that was freed last, for a large block: spare.c. False if there is none that fits.
static inline bool mi_run_claim_again(mi_heap_t* heap, size_t slice_count, size_t alignment,
                                      mi_run_t* run) {
  if (!mi_slices_claim_again(heap, slice_count, alignment, run)) return false;
  mi_tool_close(run->start, slice_count * MI_SLICE_SIZE);
  return true;
}

// Return where a claimed run comes from.
static inline mi_page_backing_t mi_run_backing(const mi_run_t* run) {
  return run->arena != NULL ? MI_BACKING_ARENA : MI_BACKING_DIRECT;
}

// Return the arena in which the slices at `start` of the heap lie, NULL: a mapping of its own.
MI_INTERNAL mi_arena_t* mi_run_arena(mi_heap_t* heap, mi_page_backing_t backing,
                                     const uint8_t* start);

// Give slices of an arena, or of a mapping of its own (`arena` is NULL), back: all those of a page,
// which was claimed with `alignment`, or the last ones. The caller is inside the heap (inside.h),
// and has cleared their descriptors.
MI_INTERNAL void mi_run_release(mi_heap_t* heap, mi_arena_t* arena, uint8_t* start,
                                size_t slice_count, size_t alignment);

// Enter a page whose descriptor is complete into the books of its heap. False if there is no
// memory; the caller then gives the run back.
MI_INTERNAL bool mi_run_enlist(mi_heap_t* heap, mi_page_t* page);
// Take a page that is about to be given back out of the books. The caller is inside the heap.
MI_INTERNAL void mi_run_delist(mi_heap_t* heap, mi_page_t* page);

#endif
