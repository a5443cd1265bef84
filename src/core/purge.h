// SPDX-License-Identifier: MIT
// purge.h - when freed slices go back to the system.
#ifndef MI_CORE_PURGE_H
#define MI_CORE_PURGE_H

#include "core.h"

// Slices become free / are claimed again. Cheap: bits and a counter.
MI_INTERNAL void mi_purge_remember(mi_arena_t* arena, size_t slice_index, size_t slice_count);
// Forgetting returns how many of them were remembered.
MI_INTERNAL size_t mi_purge_forget(mi_arena_t* arena, size_t slice_index, size_t slice_count);

// Move what waits in the arena to those of claimed slices that are clean and will be written to.
MI_INTERNAL void mi_purge_reuse(mi_arena_t* arena, size_t slice_index, size_t slice_count);

// Purge what is due in a sub-process. Reads the clock only when something waits. Never waits for
// another purger.
MI_INTERNAL void mi_purge_poll(mi_subproc_t* subproc);

// Purge what is beyond the bound of what may wait: the part of it for a free. Reads no clock.
MI_INTERNAL void mi_purge_bound(mi_subproc_t* subproc);

// Purge everything that is free, now. Returns the bytes given back.
MI_INTERNAL size_t mi_purge_everything(mi_subproc_t* subproc);

// The sub-process ends: purge all that was ever touched and is free, whatever the options say.
// Waits for another purger.
MI_INTERNAL void mi_purge_all_of(mi_subproc_t* subproc);

#endif
