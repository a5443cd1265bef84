// SPDX-License-Identifier: MIT
// ended.h - what is left of the arenas of sub-processes that have ended. All under the arena lock.
#ifndef MI_CORE_ENDED_H
#define MI_CORE_ENDED_H

#include "../common/common.h"

// Add an arena, which is in no list, and whose slices are all free.
MI_INTERNAL void mi_ended_add(mi_arena_t* arena);

// Take out an arena of at least `needed` bytes, on a NUMA node or (-1) any. NULL if there is none.
MI_INTERNAL mi_arena_t* mi_ended_take(size_t needed, int node);

// Add the structure of an arena that has no memory and no maps any more, and which no thread knows.
MI_INTERNAL void mi_ended_add_structure(mi_arena_t* arena);

// Take one out, or make one: it is zero. NULL if there is no memory.
MI_INTERNAL mi_arena_t* mi_ended_take_structure(void);

#endif
