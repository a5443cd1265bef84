// SPDX-License-Identifier: MIT
// slices.c - prepares slices that an arena has claimed for use, and lets released slices wait for
// their purge.
//
//   claim:   spare.c (for a large block: the run that was freed last, made shorter or longer), or
//            arena.c (a run of free slices) -> huge.c (faulted in ahead, in a large heap)
//            -> retain.c (memory that waits elsewhere is moved there; fresh memory makes way)
//   release: spare.c (it is kept), or
//            wait.c (it waits from now on) -> arena.c (it is free)
//
// SLICES-1  slices in use are dirty and do not wait for purge: their bit in `dirty` is set, and
//     those in `purge_young` and `purge_old` are clear.
// SLICES-2  a run that is being prepared belongs to the caller: it has no bit in `free` and no
//     descriptor.
//
// Deliberately absent: any search. arena.c decides which slices are claimed.
#include "slices.h"

#include "bitmap.h"
#include "huge.h"
#include "kept.h"
#include "retain.h"
#include "spare.h"
#include "wait.h"

// Some slices of a claimed run are lost: release the others. They may never have been used, so that
// they cannot be the spare run (SPARE-1).
static mi_attr_cold void mi_slices_release_around(const mi_run_t* run, mi_slices_t lost) {
  const size_t end = run->slice_index + run->slice_count;
  const size_t behind = lost.index + lost.count;
  if (lost.index > run->slice_index) {
    mi_wait_release(run->arena, run->slice_index, lost.index - run->slice_index);
  }
  if (behind < end) mi_wait_release(run->arena, behind, end - behind);
}

// Put a run that was claimed for `heap` (NULL: to grow a block in place) into use. False if part of
// the run is lost, in which case the rest was released. `touched_count`: as for mi_slices_claim.
static bool mi_slices_use(const mi_heap_t* heap, size_t touched_count, mi_run_t* run) {
  mi_arena_t* const arena = run->arena;
  mi_subproc_t* const subproc = arena->subproc;
  const size_t index = run->slice_index;
  const size_t count = run->slice_count;
  if (mi_atomic_load_relaxed(&arena->used_end) < index + count) {
    mi_atomic_store_relaxed(&arena->used_end, index + count);
  }
  if (touched_count >= MI_TOUCHED_BY_LONG) {
    if (mi_huge_may_be(subproc)) mi_huge_prepare(heap, arena, index, count, touched_count);
  } else if (touched_count - 1 < MI_TOUCHED_MAYBE - 1 && mi_arena_is_movable(arena)) {
    const mi_slices_t lost = mi_retain_reuse(arena, index, touched_count);
    if (mi_unlikely(lost.count > 0)) {
      mi_slices_release_around(run, lost);
      return false;
    }
  }
  const size_t fresh = mi_bitmap_set(arena->dirty, index, count);
  const bool is_remembered = mi_wait_forget(arena, index, count) > 0;
  run->is_zero = run->is_zero && fresh == count;
  run->is_resident = is_remembered || fresh < count;
  run->is_dirty = fresh == 0;
  mi_retain_before_touch(subproc, fresh, touched_count != MI_TOUCHED_MAYBE);
  if (fresh > 0) {
    mi_count_add_peak(&subproc->count.committed, &subproc->count.committed_peak,
                      (int64_t)(fresh * MI_SLICE_SIZE));
  }
  return true;
}

// Claim a run that is not in use yet.
static bool mi_slices_find(mi_heap_t* heap, size_t slice_count, size_t alignment, mi_run_t* run) {
  mi_kept_release(mi_self_home()); // KEPT-3
  mi_spare_release(heap->subproc); // SPARE-2
  return mi_arena_claim(heap, slice_count, alignment, run);
}

MI_INTERNAL bool mi_slices_claim(mi_heap_t* heap, size_t slice_count, size_t alignment,
                                 size_t touched_count, mi_run_t* run) {
  return mi_slices_find(heap, slice_count, alignment, run) &&
         mi_slices_use(heap, touched_count, run);
}

MI_INTERNAL bool mi_slices_claim_below_peak(mi_heap_t* heap, size_t slice_count, size_t alignment,
                                            size_t touched_count, mi_run_t* run) {
  if (!mi_slices_find(heap, slice_count, alignment, run)) return false;
  if (mi_bitmap_is_all_set(run->arena->dirty, run->slice_index, slice_count) ||
      !mi_retain_is_peak(heap->subproc, slice_count)) {
    return mi_slices_use(heap, touched_count, run);
  }
  mi_arena_release(run->arena, run->slice_index, slice_count);
  return false;
}

MI_INTERNAL bool mi_slices_claim_at(mi_arena_t* arena, size_t slice_index, size_t slice_count,
                                    bool* is_zero) {
  mi_run_t run;
  mi_kept_release(mi_self_home());
  mi_spare_release(arena->subproc);
  if (!mi_arena_claim_at(arena, slice_index, slice_count, &run)) return false;
  const bool is_used = mi_slices_use(NULL, 0, &run);
  *is_zero = run.is_zero;
  return is_used;
}

// Make the spare run as long as it should be. False if the slices behind it are in use, or not
// there yet (SPARE-2); then it is released.
static mi_attr_noinline bool mi_slices_fit(mi_run_t* run, size_t slice_count) {
  const size_t index = run->slice_index;
  const size_t old_count = run->slice_count;
  // The fence of the block that was there (FENCE-3) goes before any slice does.
  if (!mi_fence_drop(mi_pagemap_slice(run->start))) {
    mi_wait_release(run->arena, index, old_count);
    return false;
  }
  run->slice_count = slice_count;
  run->is_dirty = run->is_dirty && slice_count <= old_count;
  if (old_count > slice_count) {
    mi_wait_release(run->arena, index + slice_count, old_count - slice_count);
    return true;
  }
  bool is_zero;
  const size_t more = slice_count - old_count;
  const bool is_there = index + slice_count <= mi_arena_slices(run->arena);
  if (is_there && mi_slices_claim_at(run->arena, index + old_count, more, &is_zero)) return true;
  mi_wait_release(run->arena, index, old_count);
  return false;
}

MI_INTERNAL bool mi_slices_claim_again(mi_heap_t* heap, size_t slice_count, size_t alignment,
                                       mi_run_t* run) {
  if (!mi_spare_claim(heap, slice_count, alignment, run)) return false;
  return mi_likely(run->slice_count == slice_count) || mi_slices_fit(run, slice_count);
}

MI_INTERNAL void mi_slices_release(mi_arena_t* arena, size_t slice_index, size_t slice_count,
                                   size_t alignment) {
  mi_retain_before_wait(arena->subproc, slice_count);
  if (mi_spare_keep(arena, slice_index, slice_count, alignment)) return;
  mi_wait_release(arena, slice_index, slice_count);
}
