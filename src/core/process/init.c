// SPDX-License-Identifier: MIT
// init.c - sets up the process, once, on the thread that allocates first: often long before any
// constructor.
//
// INIT-1  until the stage is READY only the thread that set BUSY touches the state; others wait
//     (they can only exist when a program starts threads before its first allocation).
// INIT-2  only the registration for fork allocates through the library, when everything that the
//     thread needs for it is set up. Other threads wait, so that none can fork without our
//     handlers. (The constructor registers them without that: a first malloc inside of
//     pthread_atfork would wait for the lock that its own thread has.) Memory that options ask for
//     is reserved last, when other threads may come in.
// INIT-3  the child of a fork that happened meanwhile does the set-up itself: it has one thread, so
//     the busy thread does not exist in it. Nothing in memory tells the child from its parent, nor
//     does its process id, because both may have the same in different namespaces; so a thread that
//     would have to wait asks the system if it is alone with its memory. Each step may be repeated.
// INIT-4  the constructor finds out what only the system knows (`mi_process_prepare`), because a
//     sandbox that a program enters later may end the program when it opens a file or asks for a
//     limit. From then on, set-up and all else make system calls only for memory and to sleep
//     (except for budget.c, which knows whether there is a sandbox: BUDGET-5).
#include "init.h"

#include <string.h>

#include "fork.h"

// These two deliver reports: mistakes are found only under one of them, or without any lock.
static void mi_init_locks(void) {
  mi_state.subproc_lock =
      (mi_lock_t){.rank = MI_RANK_SUBPROC, .name = "subproc", .on_left = &mi_report_deliver};
  mi_state.thread_lock =
      (mi_lock_t){.rank = MI_RANK_THREAD, .name = "thread", .on_left = &mi_report_deliver};
  mi_state.arena_lock = (mi_lock_t){.rank = MI_RANK_ARENA, .name = "arena"};
  mi_state.purge_lock = (mi_lock_t){.rank = MI_RANK_PURGE, .name = "purge"};
}

// True if the calling thread must set up, false if another thread did so meanwhile.
static mi_attr_cold bool mi_init_begin(void) {
  uint32_t seen = MI_STAGE_NONE;
  // Pairs with none: the first one in sees the initial state.
  if (mi_atomic_cas_strong_acquire(&mi_state.stage, &seen, MI_STAGE_BUSY)) return true;
  if (seen != MI_STAGE_READY && mi_os_is_alone()) { // INIT-3
    mi_atomic_store_relaxed(&mi_state.stage, MI_STAGE_BUSY);
    return true;
  }
  // Sees what set-up wrote; pairs with the release in `mi_init_end`.
  while (mi_atomic_load_acquire(&mi_state.stage) != MI_STAGE_READY) {
    uint32_t expected = MI_STAGE_BUSY;
    // Pairs with none: no order is needed, the loop loads again.
    mi_atomic_cas_strong_acquire(&mi_state.stage, &expected, MI_STAGE_AWAITED);
    mi_os_wait(&mi_state.stage, MI_STAGE_AWAITED);
  }
  mi_os_wake(&mi_state.stage); // wakes the next sleeping thread
  return false;
}

static void mi_init_end(void) {
  mi_atomic_store_relaxed(&mi_state.setup_thread, 0);
  // Publishes the state; pairs with the acquires in `mi_process_setup` and `mi_init_begin`.
  const uint32_t before = mi_atomic_swap_release(&mi_state.stage, MI_STAGE_READY);
  if (before == MI_STAGE_AWAITED) mi_os_wake(&mi_state.stage);
}

MI_INTERNAL void mi_process_prepare(void) {
  // Sees the facts about the system, if a thread set up before the constructor; pairs with the
  // release in `mi_init_end`.
  if (mi_atomic_load_acquire(&mi_state.stage) == MI_STAGE_READY) {
    mi_pagemap_seal(mi_state.os.page_size);
    return;
  }
  mi_os_init(&mi_state.prepared);
  mi_secret_make(mi_state.prepared.page_size);
  mi_pagemap_seal(mi_state.prepared.page_size);
  // Publishes these facts; pairs with the acquire in `mi_init_os`.
  mi_atomic_store_release(&mi_state.is_prepared, true);
}

// Ask the system only for what the constructor has not found out yet: INIT-4.
static void mi_init_os(void) {
  // Sees what it found; pairs with the release in `mi_process_prepare`.
  if (mi_atomic_load_acquire(&mi_state.is_prepared)) {
    mi_state.os = mi_state.prepared;
  } else {
    mi_os_init(&mi_state.os);
  }
  mi_secret_make(mi_state.os.page_size);
}

MI_INTERNAL void mi_process_setup(void) {
  // Sees everything that set-up wrote; pairs with the release in `mi_init_end`.
  if (mi_likely(mi_atomic_load_acquire(&mi_state.stage) == MI_STAGE_READY)) return;
  const uintptr_t self = mi_tls_thread_id();
  if (mi_atomic_load_relaxed(&mi_state.setup_thread) == self) return; // INIT-2
  if (!mi_init_begin()) return;
  mi_atomic_store_relaxed(&mi_state.setup_thread, self);
  const bool is_first = !mi_state.is_unloaded; // some steps are done once per process
  // Sees what the parent wrote (INIT-3); pairs with the release below, in its `mi_process_setup`.
  if (mi_atomic_load_acquire(&mi_state.is_usable)) {
    mi_fork_take_over();
  } else {
    mi_init_locks();
    mi_init_os();
    if (is_first) mi_hook_load_options();
    memset(&mi_state.main.count, 0, sizeof(mi_state.main.count)); // figures of the parent: INIT-3
    mi_init_main_heap(&mi_state.main);
    mi_state.main.kept = mi_kept_main;
    // Publishes all that to a copy; pairs with the acquire in `mi_process_setup` of a child.
    mi_atomic_store_release(&mi_state.is_usable, true);
  }
  if (is_first) mi_fork_register();
  mi_init_end();
  if (is_first) mi_reserve_at_start();
}
