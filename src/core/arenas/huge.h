// SPDX-License-Identifier: MIT
// huge.h - when memory is faulted in ahead of its use.
#ifndef MI_CORE_HUGE_H
#define MI_CORE_HUGE_H

#include "arena.h"

// A run was claimed whose slices are still clean: if the heap is large, back the chunk that it ends
// in by one huge page. `dirty` of the run is not set yet. `heap` NULL: never.
MI_INTERNAL void mi_huge_prepare(const mi_heap_t* heap, mi_arena_t* arena, size_t slice_index,
                                 size_t slice_count);

// `size` bytes from `start` are about to be written for the first time, all of them.
MI_INTERNAL void mi_huge_touch(uint8_t* start, size_t size);

#endif
