// SPDX-License-Identifier: MIT
// collect.c - gives back all unused memory: for mi_collect, and as the last try before malloc
// fails.
//
// The order is fixed, because each step feeds the next: guarded blocks that were freed, frees that
// the thread holds back, its pages, pages of ended threads, the pools of heaps, memory for our own
// structures, free slices.
// (In a padded build a check of all blocks comes before.)
#include "collect.h"

#include "heap.h"
#include "walk.h"

// Nobody may come to a heap whose threads have ended, or use others now.
static void mi_collect_heaps(mi_subproc_t* subproc) {
  mi_lock_enter(&mi_state.thread_lock); // none of them ends meanwhile
  for (mi_heap_t* heap = subproc->heaps; heap != NULL; heap = heap->next) {
    mi_pool_drain_all(heap, MI_FORCE);
  }
  mi_lock_leave(&mi_state.thread_lock);
}

// Give back all memory of a sub-process that is not in use.
static size_t mi_collect_subproc(mi_subproc_t* subproc) {
  mi_guard_flush();
  mi_thread_flush_orphans();
  mi_heap_drain_ended(subproc);
  mi_pool_drain_all(&subproc->heap_main, MI_FORCE);
  mi_collect_heaps(subproc);
  mi_lock_enter(&mi_state.arena_lock);
  mi_meta_purge();
  mi_lock_leave(&mi_state.arena_lock);
  return mi_purge_everything(subproc) + mi_tail_purge_all(subproc);
}

static bool mi_collect_check_page(mi_page_t* page, void* alone) {
  mi_track_check(page, (const mi_track_alone_t*)alone);
  return true;
}

// Look for mistakes of the program in a padded build, unless other threads change pages meanwhile,
// or did when they vanished (FORK-6).
static void mi_collect_check(mi_subproc_t* subproc) {
  if (!MI_IS_PADDED || mi_state.is_torn) return;
  mi_track_alone_t alone = {subproc, mi_atomic_load_relaxed(&subproc->count.threads_total)};
  if (mi_atomic_load_relaxed(&subproc->count.threads) > 1) return;
  mi_walk_pages(subproc, NULL, &mi_collect_check_page, &alone);
}

static size_t mi_collect_held(mi_theap_t* theap, mi_effort_t effort) {
  if (effort == MI_FORCE) mi_quarantine_flush();
  mi_parcel_flush();
  if (effort == MI_GENTLE) {
    mi_flush_idle(theap);
    mi_kept_release(theap->home);
    mi_retain_poll_whole(mi_theap_subproc(theap));
    return 0;
  }
  mi_flush_theap(theap);
  return mi_collect_subproc(mi_theap_subproc(theap));
}

MI_INTERNAL size_t mi_collect_theap(mi_theap_t* theap, mi_effort_t effort) {
  const mi_hold_t hold = mi_hold_enter(theap->home);
  const size_t bytes = mi_collect_held(theap, effort);
  mi_hold_leave(theap->home, hold);
  return bytes;
}

MI_INTERNAL size_t mi_collect_all(mi_effort_t effort) {
  mi_theap_t* const theap = mi_self_theap();
  if (theap->thread_id != 0) {
    const mi_hold_t hold = mi_hold_enter(theap->home);
    if (effort == MI_FORCE) mi_collect_check(mi_theap_subproc(theap));
    if (effort == MI_FORCE) mi_thread_flush_all(theap->home);
    const size_t bytes = mi_collect_held(theap, effort);
    mi_hold_leave(theap->home, hold);
    return bytes;
  }
  // Before set-up there is nothing to collect, and the locks are not ready. Sees them; pairs with
  // the release in `mi_init_end`.
  if (mi_atomic_load_acquire(&mi_state.stage) != MI_STAGE_READY) return 0;
  mi_parcel_flush();
  if (effort == MI_FORCE) return mi_collect_subproc(&mi_state.main);
  mi_retain_poll_whole(&mi_state.main);
  return 0;
}
