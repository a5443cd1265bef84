// SPDX-License-Identifier: MIT
// purge.h - when freed slices go back to the system.
#ifndef MI_CORE_PURGE_H
#define MI_CORE_PURGE_H

#include "core.h"

// Slices become free / are claimed again. Cheap: bits and a counter.
MI_INTERNAL void mi_purge_remember(mi_arena_t* arena, size_t slice_index, size_t slice_count);
// Forgetting returns how many of them were remembered.
MI_INTERNAL size_t mi_purge_forget(mi_arena_t* arena, size_t slice_index, size_t slice_count);

// Slices of an arena.
typedef struct mi_slices_s {
  size_t index;
  size_t count;
} mi_slices_t;

// Move what waits in the arena to those of claimed slices that are clean and will be written to.
// Returns those that are lost: nobody may use them any more. Mostly none.
MI_INTERNAL mi_slices_t mi_purge_reuse(mi_arena_t* arena, size_t slice_index, size_t slice_count);

// A move to claimed slices failed: map again what it has unmapped, `size` bytes. False: somebody
// has mapped something there, or the system refuses; these slices are lost, and nothing is moved
// any more in this process.
MI_INTERNAL bool mi_purge_restore(mi_arena_t* arena, size_t slice_index, size_t size);

// Memory of claimed slices reads as zero, without being touched: whole OS pages. False: nothing
// happened, because it is not our memory to drop, or is kept, or the system refuses.
MI_INTERNAL bool mi_purge_contents(mi_arena_t* arena, uint8_t* start, size_t size);

// `fresh_count` slices are about to be touched that are not resident, maybe 0: part of what waits
// may have to go first. Calls the system only for that. Looks at the clock, but not before anything
// has waited: a program that never frees a page touches no code for it.
MI_INTERNAL void mi_purge_make_way(mi_subproc_t* subproc, size_t fresh_count);

static inline void mi_purge_before_touch(mi_subproc_t* subproc, size_t fresh_count) {
  if (mi_unlikely(mi_atomic_load_relaxed(&subproc->purge_waiting) > 0 ||
                  mi_atomic_load_relaxed(&subproc->purge_seen_ms) != 0)) {
    mi_purge_make_way(subproc, fresh_count);
  }
}

// Purge what is due in a sub-process. Reads the clock only when something waits. Never waits for
// another purger.
MI_INTERNAL void mi_purge_poll(mi_subproc_t* subproc);

// Purge what is beyond the bound of what may wait: the part of it for a free. Reads no clock unless
// much waits.
MI_INTERNAL void mi_purge_bound(mi_subproc_t* subproc);

// Whether so much waits that somebody should look at the clock now and then: V7.
MI_INTERNAL bool mi_purge_is_much(mi_subproc_t* subproc);

// Purge everything that is free, now. Returns the bytes given back.
MI_INTERNAL size_t mi_purge_everything(mi_subproc_t* subproc);

// The sub-process ends: purge all that was ever touched and is free, whatever the options say.
// Waits for another purger.
MI_INTERNAL void mi_purge_all_of(mi_subproc_t* subproc);

#endif
