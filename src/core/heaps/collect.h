// SPDX-License-Identifier: MIT
// collect.h - give back all unused memory.
#ifndef MI_CORE_COLLECT_H
#define MI_CORE_COLLECT_H

#include "../threads/threads.h"

// Give up what the calling thread holds but does not need; MI_FORCE also purges everything now.
// Returns the number of bytes given back to the system.
MI_INTERNAL size_t mi_collect_all(mi_effort_t effort);

// The same for one theap of the calling thread.
MI_INTERNAL size_t mi_collect_theap(mi_theap_t* theap, mi_effort_t effort);

// Give back all memory that is not in use, of all sub-processes, but what threads hold. Returns the
// number of bytes. For the purge thread, which holds none; the process is set up.
MI_INTERNAL size_t mi_collect_all_subprocs(void);

#endif
