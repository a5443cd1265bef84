// SPDX-License-Identifier: MIT
// huge.h - faulting in memory ahead of its use.
#ifndef MI_CORE_HUGE_H
#define MI_CORE_HUGE_H

#include "arena.h"

// The bytes that are committed before there are huge pages.
#define MI_HUGE_HEAP_MIN ((int64_t)(16 * MI_CHUNK_SIZE))
// Pages with larger blocks get none: HUGE-2.
#define MI_HUGE_BLOCK_MAX (MI_SLICE_SIZE / 4)

// After a run of clean slices was claimed for a page of blocks up to MI_HUGE_BLOCK_MAX: if the heap
// is large, back the chunk that the run ends in by one huge page. The `dirty` bits of the run are
// not set yet.
MI_INTERNAL void mi_huge_prepare(const mi_heap_t* heap, mi_arena_t* arena, size_t slice_index,
                                 size_t slice_count);

// Populate `size` bytes from `start`, all of which are about to be written for the first time.
MI_INTERNAL void mi_huge_touch(uint8_t* start, size_t size);

#endif
