// SPDX-License-Identifier: MIT
// kept.h - the large block that a thread freed last, kept for its next one of about that size.
#ifndef MI_CORE_KEPT_H
#define MI_CORE_KEPT_H

#include "spare.h"

// Blocks that leave nothing to do when they are used again. In other builds fences, marks and notes
// would have to follow.
#define MI_HAS_KEPT (!MI_IS_TRACKED && !MI_IS_TAGGED && !MI_IS_SECURE)
// Longest block that is kept.
#define MI_KEPT_SLICES_MAX ((size_t)128)
#define MI_KEPT_TURNS 8

// The slots of the main sub-process, the only one that has some.
MI_INTERNAL_DATA_DECL mi_kept_t mi_kept_main[MI_KEPT_SLOTS];

// All of these are called with the home of the calling thread.

// True if the thread may keep this block, which it frees: KEPT-1, KEPT-5. The block has its rest
// again then, if the thread keeps one.
MI_INTERNAL bool mi_kept_may_keep(mi_theap_t* home, mi_page_t* page);
// Keep it, or a rest; its owner word is MI_OWNER_NONE. Returns what was there before, which is the
// caller's now, or NULL.
MI_INTERNAL mi_page_t* mi_kept_put(mi_theap_t* home, const mi_page_t* page);
// Take out what the thread keeps: NULL if that is nothing.
MI_INTERNAL mi_page_t* mi_kept_get(mi_theap_t* home);
// True if that is a block of so many bytes, and no rest. (Both figures are of what was put last, by
// this thread: KEPT-2.)
static inline bool mi_kept_is_like(const mi_theap_t* home, size_t size) {
  mi_kept_t* const kept = home->kept;
  return kept != NULL && !kept->is_rest &&
         mi_atomic_load_relaxed(&kept->kept_bytes) == (int64_t)size;
}
// True if that is the rest of a block, no slice of which is described: KEPT-7.
static inline bool mi_kept_is_rest(const mi_page_t* page) { return page->reserved == 0; }
// The block that was taken out is to have so many slices only, and bytes; keep the rest.
MI_INTERNAL void mi_kept_cut(mi_theap_t* home, mi_page_t* page, size_t slice_count, size_t size);
// The block that was taken out, of `size` bytes, is in use again.
MI_INTERNAL void mi_kept_note_again(mi_theap_t* home, size_t size);
// True if this free is to look at the bounds: KEPT-6.
static inline bool mi_kept_is_turn(mi_theap_t* home) {
  return mi_atomic_load_relaxed(&home->kept->again_count) % MI_KEPT_TURNS == 0;
}
// The block that was taken out is to be released: it does not count as in use any more.
MI_INTERNAL void mi_kept_uncount(mi_subproc_t* subproc, const mi_page_t* page);

// Release what the thread keeps: its slices wait from now on.
MI_INTERNAL void mi_kept_release(mi_theap_t* home);
// The same, and the thread has no slot any more. Under the thread lock.
MI_INTERNAL void mi_kept_leave(mi_theap_t* home);

// A period ends, under the purge lock: what a thread keeps since the last one is released.
MI_INTERNAL void mi_kept_age(mi_subproc_t* subproc);
// Release what all threads keep, and the spare run.
MI_INTERNAL void mi_kept_release_all(mi_subproc_t* subproc);
// In the child of a fork: release what threads kept that are gone.
MI_INTERNAL void mi_kept_keep_own(mi_subproc_t* subproc, const mi_theap_t* own);

// True if a thread may keep a block.
static inline bool mi_kept_has_any(mi_subproc_t* subproc) {
  return MI_HAS_KEPT && mi_atomic_load_relaxed(&subproc->kept_any) != MI_KEPT_NONE;
}

// The library is unloaded: no slot has a block, or a thread.
MI_INTERNAL void mi_kept_done(void);

// Correct figures of the main heap, which do not know what threads keep and took again. Returns the
// bytes that are kept.
MI_INTERNAL int64_t mi_kept_count(mi_subproc_t* subproc, mi_tally_t* sum);

// True if KEPT-1 holds; counts the slices that are kept. No other thread may use the sub-process.
MI_INTERNAL bool mi_kept_is_valid(mi_subproc_t* subproc, size_t* slice_count);

#endif
