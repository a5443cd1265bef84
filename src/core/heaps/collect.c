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
#include "subproc.h"
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
  mi_guarded_collect();
  mi_sampled_collect();
  mi_meta_purge();
  mi_lock_leave(&mi_state.arena_lock);
  return mi_purge_everything(subproc) + mi_tail_purge_all(subproc);
}

static bool mi_collect_check_page(mi_page_t* page, void* look) {
  mi_track_check(page, (const mi_track_look_t*)look);
  return true;
}

// (The lock orders it: a thread gets its home under it, and writes to blocks after that.)
static bool mi_collect_is_alone(const mi_track_look_t* look) {
  mi_lock_enter(&mi_state.thread_lock);
  const bool is_alone = mi_thread_total_all() == look->threads_total;
  mi_lock_leave(&mi_state.thread_lock);
  return is_alone;
}

// Look for mistakes of the program in a padded build, unless other threads may allocate meanwhile
// (TRACK-8), in whatever sub-process, or did when they vanished (FORK-6).
static void mi_collect_check(mi_subproc_t* subproc) {
  if (!MI_IS_PADDED || mi_state.is_torn) return;
  mi_lock_enter(&mi_state.thread_lock);
  const bool is_alone = mi_thread_count_all() <= 1;
  mi_track_look_t look = {&mi_collect_is_alone, mi_thread_total_all()};
  mi_lock_leave(&mi_state.thread_lock);
  if (is_alone) mi_walk_pages(subproc, NULL, &mi_collect_check_page, &look);
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

MI_INTERNAL mi_attr_cold size_t mi_collect_all_subprocs(void) {
  size_t bytes = mi_collect_subproc(&mi_state.main);
  mi_lock_enter(&mi_state.subproc_lock); // SUBPROC-4: none of them ends meanwhile
  mi_subproc_t* subproc = &mi_state.main;
  while ((subproc = mi_subproc_after(subproc)) != NULL) bytes += mi_collect_subproc(subproc);
  mi_lock_leave(&mi_state.subproc_lock);
  return bytes;
}
