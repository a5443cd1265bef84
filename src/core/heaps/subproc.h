// SPDX-License-Identifier: MIT
// subproc.h - groups of heaps that share nothing with others.
#ifndef MI_CORE_SUBPROC_H
#define MI_CORE_SUBPROC_H

#include "../threads/threads.h"

// NULL: out of memory.
MI_INTERNAL mi_subproc_t* mi_subproc_make(void);

// The end of one that is not the main one, with all blocks; or when none is left. False: it has
// threads, nothing was done.
MI_INTERNAL bool mi_subproc_end_by_destroy(mi_subproc_t* subproc);
MI_INTERNAL bool mi_subproc_end_by_delete(mi_subproc_t* subproc);

// Its lists of heaps, and what it counts of them; for assertions, under the thread lock, while
// nobody else uses its heaps.
MI_INTERNAL bool mi_subproc_is_valid(mi_subproc_t* subproc);

// End those that were deleted and have no block left.
MI_INTERNAL void mi_subproc_sweep(void);

// Go through all, from the newest to the main one, which has number 0: the last that was made
// before number `*sequence`, which becomes its number. SIZE_MAX starts. NULL: that was the last.
MI_INTERNAL mi_subproc_t* mi_subproc_before(size_t* sequence);

#endif
