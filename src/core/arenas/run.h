// SPDX-License-Identifier: MIT
// run.h - slices for a page of a heap, from an arena or as a mapping of their own.
#ifndef MI_CORE_RUN_H
#define MI_CORE_RUN_H

#include "arena.h"

// The description of a page that is going to be made.
typedef struct mi_run_wish_s {
  size_t slice_count;
  size_t alignment; // bytes, at least a slice
  size_t touched_count; // slices that will be written to, from the first
  size_t described_count; // the first and the last of so many slices need a descriptor; of a page
      // that is no longer than a window all
} mi_run_wish_t;

// Claim slices for a page of `heap`. False if there is no memory.
MI_INTERNAL bool mi_run_claim(mi_heap_t* heap, const mi_run_wish_t* wish, mi_run_t* run);

// Return where a claimed run comes from.
static inline mi_page_backing_t mi_run_backing(const mi_run_t* run) {
  return run->arena != NULL ? MI_BACKING_ARENA : MI_BACKING_DIRECT;
}

// Give slices back, all those of a page, which was claimed with `alignment`, or the last ones. The
// caller is inside the heap (inside.h), and has cleared their descriptors.
MI_INTERNAL void mi_run_release(mi_heap_t* heap, mi_page_backing_t backing, uint8_t* start,
                                size_t slice_count, size_t alignment);

// Enter a page whose descriptor is complete into the books of its heap. False if there is no
// memory; the caller then gives the run back.
MI_INTERNAL bool mi_run_enlist(mi_heap_t* heap, mi_page_t* page);
// Take a page that is about to be given back out of the books. The caller is inside the heap.
MI_INTERNAL void mi_run_delist(mi_heap_t* heap, mi_page_t* page);

#endif
