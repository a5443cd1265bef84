// SPDX-License-Identifier: MIT
// collapse.h - old chunks in small OS pages become one huge page each.
#ifndef MI_CORE_COLLAPSE_H
#define MI_CORE_COLLAPSE_H

#include "huge.h"
#include "retain.h"

// All blocks of a page were carved: if the heap is large, its slices are known to be resident.
MI_INTERNAL void mi_collapse_note(mi_subproc_t* subproc, const mi_page_t* page);

// At a fork, under the purge lock: before it, if the heap of a sub-process is large; after it, in
// the child; and after it, in both processes, which share the memory of a sub-process now.
MI_INTERNAL void mi_collapse_fork_prepare(mi_subproc_t* subproc);
MI_INTERNAL void mi_collapse_fork_join(void);
MI_INTERNAL void mi_collapse_fork_share(mi_subproc_t* subproc);

// All memory of the library goes back.
MI_INTERNAL void mi_collapse_done(void);

// Before contents of slices that the caller has claimed go back: they are not known to be resident
// any more, and the huge pages that others have part of are split, if they were collapsed.
MI_INTERNAL void mi_collapse_split(mi_arena_t* arena, size_t slice_index, size_t slice_count);

// True if a chunk was collapsed, as far as is known.
MI_INTERNAL bool mi_collapse_is_huge(const mi_arena_t* arena, size_t chunk);

// True if the heap is so large that chunks may be collapsed.
static inline bool mi_collapse_is_large(mi_subproc_t* subproc) {
  return MI_HAS_COLLAPSE &&
         mi_unlikely(mi_atomic_load_relaxed(&subproc->count.committed) >= MI_HUGE_HEAP_MIN);
}

// Look at some chunks, if that is due at `now_ms`, and collapse those that are old.
MI_INTERNAL void mi_collapse_poll_large(mi_subproc_t* subproc, uint64_t now_ms);
static inline void mi_collapse_poll(mi_subproc_t* subproc, uint64_t now_ms) {
  if (mi_collapse_is_large(subproc)) mi_collapse_poll_large(subproc, now_ms);
}

// The same for a thread that does nothing else. Returns the milliseconds until it should call this
// again, MI_RETAIN_NEVER if others will.
MI_INTERNAL uint64_t mi_collapse_tick_large(mi_subproc_t* subproc);
static inline uint64_t mi_collapse_tick(mi_subproc_t* subproc) {
  return mi_collapse_is_large(subproc) ? mi_collapse_tick_large(subproc) : MI_RETAIN_NEVER;
}

#endif
