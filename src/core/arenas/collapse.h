// SPDX-License-Identifier: MIT
// collapse.h - old chunks in small OS pages become one huge page each.
#ifndef MI_CORE_COLLAPSE_H
#define MI_CORE_COLLAPSE_H

#include "arena.h"

// All blocks of a page were carved: if the heap is large, its slices are known to be resident.
MI_INTERNAL void mi_collapse_note(mi_subproc_t* subproc, const mi_page_t* page);

// Slices are released, or all memory of a sub-process is shared with another process now.
MI_INTERNAL void mi_collapse_forget(mi_arena_t* arena, size_t slice_index, size_t slice_count);
MI_INTERNAL void mi_collapse_forget_all(mi_subproc_t* subproc);

// Before slices that the caller has claimed are purged: the huge pages that others have part of
// are split, if they were collapsed.
MI_INTERNAL void mi_collapse_split(mi_arena_t* arena, size_t slice_index, size_t slice_count);

// True if a chunk was collapsed, as far as is known.
MI_INTERNAL bool mi_collapse_is_huge(const mi_arena_t* arena, size_t chunk);

// Look at some chunks, if that is due at `now_ms`, and collapse those that are old.
MI_INTERNAL void mi_collapse_poll(mi_subproc_t* subproc, uint64_t now_ms);

#endif
