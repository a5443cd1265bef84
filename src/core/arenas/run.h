// SPDX-License-Identifier: MIT
// run.h - slices for a page of a heap: from an arena, or a mapping of its own.
#ifndef MI_CORE_RUN_H
#define MI_CORE_RUN_H

#include "arena.h"

// What a page is going to be.
typedef struct mi_run_wish_s {
  size_t slice_count;
  size_t alignment; // bytes, at least a slice
  size_t touched_count; // slices that will be written to, from the first
  size_t described_count; // slices that need a descriptor
} mi_run_wish_t;

// Slices for a page of `heap`. False: no memory.
MI_INTERNAL bool mi_run_claim(mi_heap_t* heap, const mi_run_wish_t* wish, mi_run_t* run);

// Give slices back, all of a page or its end. The caller is inside the heap (inside.h), and has
// cleared their descriptors.
MI_INTERNAL void mi_run_release(mi_heap_t* heap, mi_page_backing_t backing, uint8_t* start,
                                size_t slice_count);

// The page is described: enter it into the books of its heap. False: no memory, give the run back.
MI_INTERNAL bool mi_run_enlist(mi_heap_t* heap, mi_page_t* page);
// The page is about to be given back. The caller is inside the heap.
MI_INTERNAL void mi_run_delist(mi_heap_t* heap, mi_page_t* page);

#endif
