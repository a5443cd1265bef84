// SPDX-License-Identifier: MIT
// retain.h - when freed slices go back to the system, and how many.
#ifndef MI_CORE_RETAIN_H
#define MI_CORE_RETAIN_H

#include "budget.h"

// A range of slices of an arena.
typedef struct mi_slices_s {
  size_t index;
  size_t count;
} mi_slices_t;

// Move waiting memory of the arena to those of the claimed slices that are clean and will be
// written to. Returns the slices that were lost in this (mostly none): they must not be used any
// more.
MI_INTERNAL mi_slices_t mi_retain_reuse(mi_arena_t* arena, size_t slice_index, size_t slice_count);

// Purge what RETAIN-4 and RETAIN-5 ask for, before `fresh_count` slices (maybe 0) are in use that
// are not resident. Makes no other system calls. Reads the clock, but only once memory has waited:
// a program that never frees a page does not run this code. `is_touched`: the program will touch
// them, as far as is known (RETAIN-6).
MI_INTERNAL void mi_retain_make_way(mi_subproc_t* subproc, size_t fresh_count, bool is_touched);

// Purge what RETAIN-5 asks for, before memory of so many slices is mapped outside the arenas.
MI_INTERNAL void mi_retain_before_peak(mi_subproc_t* subproc, size_t fresh_count);

// True if so many slices of fresh memory would make a new peak of committed memory.
static inline bool mi_retain_is_peak(mi_subproc_t* subproc, size_t fresh_count) {
  return mi_atomic_load_relaxed(&subproc->count.committed) +
             (int64_t)(fresh_count * MI_SLICE_SIZE) >
         mi_atomic_load_relaxed(&subproc->count.committed_peak);
}

static inline void mi_retain_before_touch(mi_subproc_t* subproc, size_t fresh_count,
                                          bool is_touched) {
  if (mi_unlikely(mi_atomic_load_relaxed(&subproc->purge_waiting) > 0 ||
                  mi_atomic_load_relaxed(&subproc->purge_seen_ms) != 0 ||
                  mi_budget_is_due(subproc, (int64_t)(fresh_count * MI_SLICE_SIZE)))) {
    mi_retain_make_way(subproc, fresh_count, is_touched);
  }
}

// RETAIN-9: slices and milliseconds of a part, more of both for each millisecond that it comes
// late, and the pause after it. Parts of POOL-5 and FLUSH-1 end after the same time. (The clock has
// steps of 1 to 4 ms.)
#define MI_RETAIN_PART_MIN ((size_t)256)
#define MI_RETAIN_PART_MS 4
#define MI_RETAIN_PART_EACH_MS ((size_t)50)
#define MI_RETAIN_LATE_PART 4
#define MI_RETAIN_LATE_MAX_MS ((size_t)80)
#define MI_RETAIN_PAUSE_MS 5

// Purge the memory of a sub-process that is due. Reads the clock only when some memory waits for
// purge. Never waits for another purger.
MI_INTERNAL void mi_retain_poll(mi_subproc_t* subproc);

// The same, however long it takes (RETAIN-9).
MI_INTERNAL void mi_retain_poll_whole(mi_subproc_t* subproc);

// The same for a thread that does nothing else. Returns the milliseconds until it should call this
// again, MI_RETAIN_NEVER if nothing waits that will go.
#define MI_RETAIN_NEVER UINT64_MAX
MI_INTERNAL uint64_t mi_retain_tick(mi_subproc_t* subproc);

// The delay of the options has changed: a period that runs ends when one of the new length would,
// if that is sooner. Waits for another purger.
MI_INTERNAL void mi_retain_shorten(mi_subproc_t* subproc);

// True if memory inside of a sparse page of so many slices may go back now: RETAIN-7. Reads the
// clock if much memory waits. / Note that as many bytes went.
MI_INTERNAL bool mi_retain_lets_go(mi_subproc_t* subproc, size_t slice_count);
MI_INTERNAL void mi_retain_note_gone(mi_subproc_t* subproc, size_t bytes);

// Return how many bytes inside of sparse pages go back before so many fresh slices make a new peak:
// RETAIN-5.
MI_INTERNAL size_t mi_retain_sparse_way(mi_subproc_t* subproc, size_t fresh_count);

// Before so many slices wait: other slices that wait go back, within the bounds.
MI_INTERNAL void mi_retain_before_wait(mi_subproc_t* subproc, size_t slice_count);

// Purge what waits beyond the bounds, as far as a free has to. Reads no clock unless much memory
// waits. True if `mi_retain_is_much` afterwards.
MI_INTERNAL bool mi_retain_bound(mi_subproc_t* subproc);
// The same, although as much waits as when it was called last.
MI_INTERNAL bool mi_retain_bound_again(mi_subproc_t* subproc);

// True if so much memory waits that a thread should look at the clock now and then: RETAIN-4.
MI_INTERNAL bool mi_retain_is_much(mi_subproc_t* subproc);

#endif
