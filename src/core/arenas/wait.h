// SPDX-License-Identifier: MIT
// wait.h - which free slices wait for their purge.
#ifndef MI_CORE_WAIT_H
#define MI_CORE_WAIT_H

#include <limits.h>

#include "arena.h"

// Return how long free memory waits, by the options: at most MI_WAIT_DELAY_MAX; negative means for
// ever.
#define MI_WAIT_DELAY_MAX (LONG_MAX / 2)
MI_INTERNAL long mi_wait_delay_ms(void);

// Mark slices that become free as waiting for purge. Cheap: bits and a counter.
MI_INTERNAL void mi_wait_mark(mi_arena_t* arena, size_t slice_index, size_t slice_count);
// Release slices, which wait from now on, without the fence that is there: FENCE-3.
MI_INTERNAL void mi_wait_release(mi_arena_t* arena, size_t slice_index, size_t slice_count);
// The same for slices that nobody used for a period: they go back at the end of this one. They have
// no fence, and are in an arena that is not pinned.
MI_INTERNAL void mi_wait_release_old(mi_arena_t* arena, size_t slice_index, size_t slice_count);
// Clear the marks of slices that are claimed again. Returns how many of them were marked.
MI_INTERNAL size_t mi_wait_forget(mi_arena_t* arena, size_t slice_index, size_t slice_count);

// More memory waits: the purge thread wakes, if it sleeps because none did.
MI_INTERNAL void mi_wait_wake_purger(void);
static mi_attr_inline void mi_wait_notice(void) {
  if (mi_unlikely(mi_atomic_load_relaxed(&mi_state.purger) == MI_PURGER_ASLEEP)) {
    mi_wait_wake_purger();
  }
}

// Return the bytes that are marked.
MI_INTERNAL int64_t mi_wait_marked(mi_subproc_t* subproc);

// A period is over: what was freed in it counts as freed before it.
MI_INTERNAL void mi_wait_age(mi_arena_t* arena);

// Find the highest run that waits for purge below `*end`: at most `longest` slices that lie in one
// mapping. Returns its start and stores its end in `*end`, 0 if there is none.
MI_INTERNAL size_t mi_wait_top_run(mi_arena_t* arena, size_t* end, size_t longest);

// No slice at or above this waits, but those that mi_wait_lower_top left; the first `*end` for the
// above.
static inline size_t mi_wait_top(mi_arena_t* arena) {
  return mi_bits_min(mi_atomic_load_relaxed(&arena->purge_end), mi_arena_slices(arena));
}

// From now on the walk begins at `top`: who purges has looked at all above. Under the purge lock.
static inline void mi_wait_lower_top(mi_arena_t* arena, size_t top) {
  mi_atomic_store_relaxed(&arena->purge_end, top);
}

#endif
