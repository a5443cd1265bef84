// SPDX-License-Identifier: MIT
// purge.h - how freed slices go back to the system. retain.h decides when they do.
#ifndef MI_CORE_PURGE_H
#define MI_CORE_PURGE_H

#include "wait.h"

// Give the contents of claimed slices back. Returns the bytes that were dirty.
MI_INTERNAL size_t mi_purge_claimed(mi_arena_t* arena, size_t slice_index, size_t slice_count);

// Make a range of whole OS pages in claimed slices read as zero, without touching it. False if
// nothing happened, because we may not drop this memory, or an option keeps it, or the system
// refuses.
MI_INTERNAL bool mi_purge_contents(mi_arena_t* arena, uint8_t* start, size_t size);

// Purge `bytes` of the waiting memory, from the highest addresses down, because the next claims
// take the lowest ones, until that time (RETAIN-9; UINT64_MAX: all). Returns how many went, maybe a
// run more than that. Nothing happens while another thread purges.
MI_INTERNAL int64_t mi_purge_from_top(mi_subproc_t* subproc, int64_t bytes, uint64_t end_ms);

// What may go back in one call: so many slices, until that time (RETAIN-9), or until another thread
// waits for the purge lock (PURGE-4).
typedef struct mi_purge_part_s {
  size_t slices;
  uint64_t end_ms;
} mi_purge_part_t;

#define MI_PURGE_WHOLE ((mi_purge_part_t){SIZE_MAX, UINT64_MAX})

// True if it is that time. UINT64_MAX never is, and no clock is read.
static inline bool mi_purge_is_over(uint64_t end_ms) {
  return end_ms != UINT64_MAX && mi_os_now_ms() >= end_ms;
}

// End a period, or go on with that: a part of the old slices is purged, and if there are no more,
// young ones become old, and true is returned. Adds to `bytes` what went. Under the purge lock.
MI_INTERNAL bool mi_purge_step(mi_subproc_t* subproc, mi_purge_part_t part, size_t* bytes);

// Purge free slices that wait; with MI_FORCE also dirty ones that do not wait, because the system
// refused to take them. Returns the bytes given back. While another thread purges, MI_GENTLE does
// nothing, and MI_FORCE waits.
MI_INTERNAL size_t mi_purge_now(mi_subproc_t* subproc, mi_effort_t effort);

// Purge at once all free slices that options do not keep. Returns the bytes given back. Waits for
// another purger.
MI_INTERNAL size_t mi_purge_everything(mi_subproc_t* subproc);

// At the end of a sub-process, purge all free slices that were ever touched, whatever the options
// say. Waits for another purger.
MI_INTERNAL void mi_purge_all_of(mi_subproc_t* subproc);

#endif
