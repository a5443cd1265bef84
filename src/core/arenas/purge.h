// SPDX-License-Identifier: MIT
// purge.h - how freed slices go back to the system. When they do is in retain.h.
#ifndef MI_CORE_PURGE_H
#define MI_CORE_PURGE_H

#include <limits.h>

#include "arena.h"

// How long free memory waits, by the options: at most MI_PURGE_DELAY_MAX; negative, for ever.
#define MI_PURGE_DELAY_MAX (LONG_MAX / 2)
MI_INTERNAL long mi_purge_delay_ms(void);

// Slices become free / are claimed again. Cheap: bits and a counter.
MI_INTERNAL void mi_purge_remember(mi_arena_t* arena, size_t slice_index, size_t slice_count);
// Forgetting returns how many of them were remembered.
MI_INTERNAL size_t mi_purge_forget(mi_arena_t* arena, size_t slice_index, size_t slice_count);

// Give the contents of claimed slices back. Returns the bytes that were dirty.
MI_INTERNAL size_t mi_purge_claimed(mi_arena_t* arena, size_t slice_index, size_t slice_count);

// Memory of claimed slices reads as zero, without being touched: whole OS pages. False: nothing
// happened, because it is not our memory to drop, or is kept, or the system refuses.
MI_INTERNAL bool mi_purge_contents(mi_arena_t* arena, uint8_t* start, size_t size);

// The highest run that waits below `*end`: at most `longest` slices that lie in one mapping.
// Returns its start and puts its end into `*end`, which is 0 when there is none.
MI_INTERNAL size_t mi_purge_top_run(mi_arena_t* arena, size_t* end, size_t longest);

// Purge `bytes` of what waits, from the highest addresses down: what is claimed next is taken at
// the lowest. Nothing happens while somebody else purges.
MI_INTERNAL void mi_purge_top(mi_subproc_t* subproc, int64_t bytes);

// The end of a period: old ones go, young ones become old. Under the purge lock.
MI_INTERNAL size_t mi_purge_step(mi_subproc_t* subproc);

// Purge what is free and waits; with MI_FORCE also what is dirty without waiting, because the
// system refused to take it. Returns the bytes given back; nothing while somebody else purges.
MI_INTERNAL size_t mi_purge_now(mi_subproc_t* subproc, mi_effort_t effort);

// Purge everything that is free and that options do not keep, now. Returns the bytes given back.
MI_INTERNAL size_t mi_purge_everything(mi_subproc_t* subproc);

// The sub-process ends: purge all that was ever touched and is free, whatever the options say.
// Waits for another purger.
MI_INTERNAL void mi_purge_all_of(mi_subproc_t* subproc);

#endif
