// SPDX-License-Identifier: MIT
// huge.h - faulting in memory ahead of its use.
#ifndef MI_CORE_HUGE_H
#define MI_CORE_HUGE_H

#include "arena.h"

// The bytes that are committed before there are huge pages.
#define MI_HUGE_HEAP_MIN ((int64_t)(16 * MI_CHUNK_SIZE))
// Pages with larger blocks get none: HUGE-2.
#define MI_HUGE_BLOCK_MAX (MI_SLICE_SIZE / 4)

// What is known of the memory of a run (slices.h), instead of a number of slices.
#define MI_TOUCHED_BY_BLOCKS SIZE_MAX
#define MI_TOUCHED_BY_LONG (SIZE_MAX - 1)
#define MI_TOUCHED_MAYBE (SIZE_MAX - 2)

// True if the heap is large enough. (Small programs run no more of this.)
static inline bool mi_huge_may_be(const mi_subproc_t* subproc) {
  return mi_unlikely(mi_atomic_load_relaxed(&subproc->count.committed) >= MI_HUGE_HEAP_MIN);
}

// After a run of clean slices was claimed for a page of blocks up to MI_HUGE_BLOCK_MAX: if the heap
// is large, back the chunk that the run ends in by one huge page. The `dirty` bits of the run are
// not set yet. `touched`: MI_TOUCHED_BY_BLOCKS or MI_TOUCHED_BY_LONG (HUGE-2).
MI_INTERNAL void mi_huge_prepare(const mi_heap_t* heap, mi_arena_t* arena, size_t slice_index,
                                 size_t slice_count, size_t touched);

// True if an OS page holds anything in a few places, which `random` tells. Not under Valgrind: it
// would report that words are read which the program has freed, or never written.
MI_INTERNAL bool mi_huge_is_page_used(const uint8_t* page, uint64_t random);

// Populate `size` bytes from `start`, all of which are about to be written for the first time.
MI_INTERNAL void mi_huge_touch(uint8_t* start, size_t size);

#endif
