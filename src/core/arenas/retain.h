// SPDX-License-Identifier: MIT
// retain.h - when freed slices go back to the system, and how many.
#ifndef MI_CORE_RETAIN_H
#define MI_CORE_RETAIN_H

#include "arena.h"

// Slices of an arena.
typedef struct mi_slices_s {
  size_t index;
  size_t count;
} mi_slices_t;

// Move what waits in the arena to those of claimed slices that are clean and will be written to.
// Returns those that are lost: nobody may use them any more. Mostly none.
MI_INTERNAL mi_slices_t mi_retain_reuse(mi_arena_t* arena, size_t slice_index, size_t slice_count);

// `fresh_count` slices are about to be touched that are not resident, maybe 0: part of what waits
// may have to go first. Calls the system only for that. Looks at the clock, but not before anything
// has waited: a program that never frees a page touches no code for it.
MI_INTERNAL void mi_retain_make_way(mi_subproc_t* subproc, size_t fresh_count);

static inline void mi_retain_before_touch(mi_subproc_t* subproc, size_t fresh_count) {
  if (mi_unlikely(mi_atomic_load_relaxed(&subproc->purge_waiting) > 0 ||
                  mi_atomic_load_relaxed(&subproc->purge_seen_ms) != 0)) {
    mi_retain_make_way(subproc, fresh_count);
  }
}

// Purge what is due in a sub-process. Reads the clock only when something waits. Never waits for
// another purger.
MI_INTERNAL void mi_retain_poll(mi_subproc_t* subproc);

// Purge what is beyond the bound of what may wait: the part of it for a free. Reads no clock unless
// much waits.
MI_INTERNAL void mi_retain_bound(mi_subproc_t* subproc);

// Whether so much waits that somebody should look at the clock now and then: RETAIN-4.
MI_INTERNAL bool mi_retain_is_much(mi_subproc_t* subproc);

#endif
