// SPDX-License-Identifier: MIT
// init.c - setting up the process, once, by whoever allocates first: often long before any
// constructor.
//
// I1  until the stage is READY only the thread that set BUSY touches the state; others wait (they
//     can only exist when a program starts threads before its first allocation).
// I2  nothing here allocates through the library, so set-up cannot be entered twice by one thread.
//     Registering for fork may allocate and comes after READY.
//
// Also here: giving back everything that is unused (mi_collect_all).
#include "core.h"
#include "fork.h"
#include "heap.h"
#include "meta.h"
#include "pool.h"
#include "purge.h"
#include "remote.h"
#include "reserve.h"
#include "theap.h"
#include "thread.h"

MI_INTERNAL void mi_process_setup(void) {
  // Sees everything that set-up wrote; pairs with the release below.
  if (mi_likely(mi_atomic_load_acquire(&mi_state.stage) == MI_STAGE_READY)) return;
  uint32_t expected = MI_STAGE_NONE;
  // Pairs with nothing: the first one in sees the initial state.
  if (!mi_atomic_cas_strong_acquire(&mi_state.stage, &expected, MI_STAGE_BUSY)) {
    // Sees what set-up wrote, as above.
    while (mi_atomic_load_acquire(&mi_state.stage) != MI_STAGE_READY) {
      expected = MI_STAGE_BUSY;
      mi_atomic_cas_strong_acquire(&mi_state.stage, &expected,
                                   MI_STAGE_AWAITED); // order: none needed
      mi_os_wait(&mi_state.stage, MI_STAGE_AWAITED);
    }
    mi_os_wake(&mi_state.stage); // the next one that sleeps
    return;
  }
  const bool is_first = !mi_state.is_unloaded; // what is done for the process is done once
  mi_state.thread_lock.rank = MI_RANK_THREAD;
  mi_state.arena_lock.rank = MI_RANK_ARENA;
  mi_state.purge_lock.rank = MI_RANK_PURGE;
  mi_os_init(&mi_state.os);
  if (is_first) mi_hook_load_options();
  mi_init_main_heap(&mi_state.main);
  // Publishes the state; pairs with the acquires above.
  const bool is_awaited =
      mi_atomic_swap_release(&mi_state.stage, MI_STAGE_READY) == MI_STAGE_AWAITED;
  if (is_awaited) mi_os_wake(&mi_state.stage);
  if (!is_first) return;
  mi_fork_register();
  mi_reserve_at_start();
}

// Nothing of a sub-process is kept but what is in use.
static size_t mi_collect_subproc(mi_subproc_t* subproc) {
  mi_thread_flush_orphans();
  mi_heap_drain_ended(subproc);
  mi_pool_drain_all(&subproc->heap_main);
  mi_lock_enter(&mi_state.arena_lock);
  mi_meta_purge();
  mi_lock_leave(&mi_state.arena_lock);
  return mi_purge_everything(subproc);
}

MI_INTERNAL size_t mi_theap_collect_all(mi_theap_t* theap, mi_effort_t effort) {
  mi_remote_flush();
  if (effort == MI_GENTLE) {
    mi_theap_collect_pages(theap);
    mi_purge_poll(mi_theap_subproc(theap));
    return 0;
  }
  mi_theap_flush(theap);
  mi_pool_drain_all(mi_theap_heap(theap));
  return mi_collect_subproc(mi_theap_subproc(theap));
}

MI_INTERNAL size_t mi_collect_all(mi_effort_t effort) {
  mi_theap_t* const theap = mi_theap_self();
  if (theap->thread_id != 0) {
    if (theap->home != theap && effort == MI_FORCE) mi_theap_flush(theap->home);
    return mi_theap_collect_all(theap, effort);
  }
  mi_remote_flush();
  if (effort == MI_FORCE) return mi_collect_subproc(&mi_state.main);
  mi_purge_poll(&mi_state.main);
  return 0;
}
