// SPDX-License-Identifier: MIT
// fit.h - where in an arena so many slices are free: the index of its free runs.
//
// The index is a hint: what it says may be a moment old. A thread that finds a run claims it in the
// bitmap `free`, and notes it here in any case.
#ifndef MI_CORE_FIT_H
#define MI_CORE_FIT_H

#include "../common/common.h"

// Bytes that the index of an arena of so many bitmap words takes.
MI_INTERNAL size_t mi_fit_size(size_t word_count);

// Set up the index of an arena in so much memory, which is zero. No slice is free yet.
MI_INTERNAL void mi_fit_init(mi_arena_t* arena, void* memory);

// Tell the index that bits of `free` have changed in this range, or that they are not what it said.
MI_INTERNAL void mi_fit_note(mi_arena_t* arena, size_t slice_index, size_t slice_count);

// Make the whole index anew: it then says what `free` says, if no thread changes that meanwhile.
// Returns how many nodes were wrong.
MI_INTERNAL size_t mi_fit_rebuild(mi_arena_t* arena);

// Find the lowest run of free slices that starts at `from` or behind it; MI_BITMAP_NONE if there is
// none.
MI_INTERNAL size_t mi_fit_find(mi_arena_t* arena, size_t from, size_t slice_count);

#endif
