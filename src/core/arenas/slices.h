// SPDX-License-Identifier: MIT
// slices.h - claim slices of arenas that are ready to be written to, and release them.
#ifndef MI_CORE_SLICES_H
#define MI_CORE_SLICES_H

#include "huge.h"
#include "spare.h"

// Claim a run for a page of `heap` whose address is a multiple of `alignment` bytes (a power of
// two, at least a slice), readable and writable. Grows the arenas if necessary. False when out of
// memory. The first `touched_count` slices will be written to at once: memory that waits elsewhere
// may be moved there. MI_TOUCHED_BY_BLOCKS: all of them, but one small block after the other: there
// may be huge pages. MI_TOUCHED_BY_LONG: the same with blocks longer than an OS page, of which the
// program may touch a part. MI_TOUCHED_MAYBE: none, as far as is known.
MI_INTERNAL bool mi_slices_claim(mi_heap_t* heap, size_t slice_count, size_t alignment,
                                 size_t touched_count, mi_run_t* run);

// The same for a run that makes no new peak of committed memory. False, and nothing is claimed, if
// the first one that fits would make one.
MI_INTERNAL bool mi_slices_claim_below_peak(mi_heap_t* heap, size_t slice_count, size_t alignment,
                                            size_t touched_count, mi_run_t* run);

// As mi_slices_claim with the run that was freed last, for a large block. False if that does not
// fit.
MI_INTERNAL bool mi_slices_claim_again(mi_heap_t* heap, size_t slice_count, size_t alignment,
                                       mi_run_t* run);

// Claim exactly the slices that follow a run, to grow a block in place; the arena grows if need be.
MI_INTERNAL bool mi_slices_claim_at(mi_arena_t* arena, size_t slice_index, size_t slice_count,
                                    bool* is_zero);

// Give slices back, which were claimed with `alignment`: they wait for purge, and may be claimed at
// once. The caller has cleared their descriptors (PAGEMAP-3).
MI_INTERNAL void mi_slices_release(mi_arena_t* arena, size_t slice_index, size_t slice_count,
                                   size_t alignment);

#endif
