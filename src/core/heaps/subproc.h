// SPDX-License-Identifier: MIT
// subproc.h - groups of heaps that share nothing with others.
#ifndef MI_CORE_SUBPROC_H
#define MI_CORE_SUBPROC_H

#include "../threads/threads.h"

// Make a sub-process. NULL when out of memory.
MI_INTERNAL mi_subproc_t* mi_subproc_make(void);

// End a sub-process other than the main one: at once with all its blocks, or as soon as no block is
// left. False if it has threads; then nothing was done.
MI_INTERNAL bool mi_subproc_end_by_destroy(mi_subproc_t* subproc);
MI_INTERNAL bool mi_subproc_end_by_delete(mi_subproc_t* subproc);

// Return the sub-process that an arena is in, NULL if that has ended or is deleted. `arena` is only
// compared.
MI_INTERNAL mi_subproc_t* mi_subproc_of_arena(const mi_arena_t* arena);

// True if its lists of heaps and its figures about them are valid; for assertions, under the thread
// lock, while no other thread uses its heaps.
MI_INTERNAL bool mi_subproc_is_valid(mi_subproc_t* subproc);

// End deleted sub-processes that have no block left.
MI_INTERNAL void mi_subproc_sweep(void);

// Go through all sub-processes, from the newest to the main one, which has number 0: return the
// newest whose number is below `*sequence`, and store its number there. Start with SIZE_MAX. NULL
// after the last one.
MI_INTERNAL mi_subproc_t* mi_subproc_before(size_t* sequence);

// Return the sub-process behind another one in the list of all, which begins with the main one;
// NULL behind the last one. Under the subproc lock: none ends until that is left (SUBPROC-4).
MI_INTERNAL mi_subproc_t* mi_subproc_after(mi_subproc_t* subproc);

#endif
