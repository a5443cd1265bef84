// SPDX-License-Identifier: MIT
// unload.c - the end of all memory of the library: it leaves a process that goes on, or option
// destroy_on_exit wants nothing to be left at the end of the process.
//
// Everything that was mapped is written down somewhere:
//   pages outside arenas         in the book of their sub-process
//   arenas                       in the list of their sub-process, or of those that ended
//   tables of descriptors        in the window table
//   structures of our own        in meta.c
// They go in this order, because each is read through one of the next. What the program brought
// along stays.
//
// UNLOAD-1  nobody is in a function of the library or will call one: the caller's promise, which
//     whoever calls dlclose gave. Blocks in use go, too. Threads that used it may live on. At the
//     end of a process nobody gave such a promise: then only when no other thread has memory here.
// UNLOAD-2  afterwards everything is as before the first call, for destructors that run behind ours
//     and for tests; but a free of an old block does nothing, arenas are elsewhere so that an old
//     block is never taken for a new one, and what is done for the process (options, fork, memory
//     reserved at the start) is not done again.
// Not for builds that replace malloc at the end of a process: libc and the loader use their blocks
// until it is gone (process.c). Not here: how to know that the library is unloaded (os.h), what
// else must be undone (the destructor in process.c).
#include "unload.h"

static bool mi_unload_page(mi_page_t* page, void* arg) {
  (void)arg;
  mi_track_drop(page);
  return true;
}

static void mi_unload_direct(mi_subproc_t* subproc) {
  uint32_t at = 0;
  mi_page_t* page;
  while ((page = mi_book_next(&subproc->direct, &at)) != NULL) {
    mi_tool_remove_root(page->start, page->slice_count * MI_SLICE_SIZE);
    mi_tool_open(page->start, page->slice_count * MI_SLICE_SIZE);
    mi_os_unmap(page->start, page->slice_count * MI_SLICE_SIZE);
  }
}

static void mi_unload_arenas(mi_arena_t* arena) {
  // Where slices are lost there may be memory of somebody else by now.
  if (mi_atomic_load_relaxed(&mi_state.lost_count) > 0) return;
  for (; arena != NULL; arena = mi_atomic_load_relaxed(&arena->next)) {
    mi_tool_remove_root(arena->start, mi_arena_size(arena));
    mi_tool_open(arena->start, mi_arena_size(arena));
    if (!arena->is_foreign) mi_os_unmap(arena->start, mi_arena_size(arena));
  }
}

MI_INTERNAL void mi_unload(void) {
  if (mi_atomic_load_relaxed(&mi_state.stage) != MI_STAGE_READY) return;
  mi_parcel_end();
  mi_theap_tls = &mi_theap_empty;
  mi_theap_recent_tls = &mi_theap_empty;
  for (mi_subproc_t* s = &mi_state.main; s != NULL; s = s->next) {
    if (MI_IS_TRACKED) mi_walk_pages(s, NULL, &mi_unload_page, NULL);
    mi_unload_direct(s);
    mi_unload_arenas(mi_atomic_load_relaxed(&s->arenas));
  }
  mi_unload_arenas(mi_state.arenas_free);
  mi_pagemap_done();
  mi_meta_clear();
  const bool is_fork_known = mi_atomic_load_relaxed(&mi_state.is_fork_known);
  mi_state = (mi_state_t){.is_unloaded = true, .is_fork_known = is_fork_known};
}

MI_INTERNAL bool mi_unload_alone(void) {
  mi_thread_leave();
  int64_t threads = 0;
  mi_lock_enter(&mi_state.thread_lock);
  for (mi_subproc_t* s = &mi_state.main; s != NULL; s = s->next) {
    threads += mi_atomic_load_relaxed(&s->count.threads);
  }
  mi_lock_leave(&mi_state.thread_lock);
  if (threads == 0) mi_unload();
  return threads == 0;
}
