// SPDX-License-Identifier: MIT
// unload.c - gives back all memory of the library: when it is unloaded from a process that goes on,
// or when option destroy_on_exit asks for that at the end of the process.
//
// Every mapping is recorded somewhere:
//   pages outside arenas         in the book of their sub-process
//   arenas                       in the list of their sub-process, or of those that ended
//   tables of descriptors        in the window table
//   tables of marks              in a table of their own, in a secure build
//   structures of our own        in meta.c
//   the family after a fork      in mi_state (a child keeps it: os_family.c)
// They are unmapped in this order, because each is found through one of the next. Memory that the
// program brought along stays.
//
// UNLOAD-1  no thread is in a function of the library or will call one: a program that calls
//     dlclose promises that. Blocks in use go, too. Threads that used the library may live on. At
//     the end of a process there is no such promise: then memory goes only if no other thread has
//     memory here.
// UNLOAD-2  afterwards everything is as before the first call, for destructors that run behind ours
//     and for tests; but a free of an old block does nothing, arenas are elsewhere so that an old
//     block is never taken for a new one, and the steps that are done once per process (options,
//     fork, memory reserved at the start) are not repeated.
// Builds that replace malloc do not do this at the end of a process: libc and the loader use their
// blocks to the very end (process.c). Not here: how to know that the library is unloaded (os.h),
// what else must be undone (the destructor in process.c).
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
  // At the addresses of lost slices there may be memory of others by now.
  if (mi_atomic_load_relaxed(&mi_state.lost_count) > 0) return;
  for (; arena != NULL; arena = mi_atomic_load_relaxed(&arena->next)) {
    mi_tool_remove_root(arena->start, mi_arena_size(arena));
    mi_tool_open(arena->start, mi_arena_size(arena));
    const size_t mapped = arena->has_room ? arena->slice_max * MI_SLICE_SIZE : mi_arena_size(arena);
    if (!arena->is_foreign) mi_os_unmap(arena->start, mapped);
  }
}

MI_INTERNAL void mi_unload(void) {
  if (mi_atomic_load_relaxed(&mi_state.stage) != MI_STAGE_READY) return;
  mi_parcel_end();
  mi_guard_flush();
  mi_self()->theap = &mi_theap_empty;
  mi_self()->theap_recent = &mi_theap_empty;
  for (mi_subproc_t* s = &mi_state.main; s != NULL; s = s->next) {
    if (MI_IS_TRACKED) mi_walk_pages(s, NULL, &mi_unload_page, NULL);
    mi_unload_direct(s);
    mi_unload_arenas(mi_atomic_load_relaxed(&s->arenas));
  }
  mi_unload_arenas(mi_state.arenas_free);
  mi_kept_done();
  mi_mark_done();
  mi_pagemap_done();
  mi_guard_done();
  mi_guarded_done();
  mi_sampled_done();
  mi_collapse_done();
  mi_meta_clear();
  const bool is_fork_known = mi_atomic_load_relaxed(&mi_state.is_fork_known);
  mi_state = (mi_state_t){.is_unloaded = true, .is_fork_known = is_fork_known};
}

MI_INTERNAL bool mi_unload_alone(void) {
  mi_thread_leave();
  mi_lock_enter(&mi_state.thread_lock);
  const int64_t threads = mi_thread_count_all();
  mi_lock_leave(&mi_state.thread_lock);
  if (threads == 0) mi_unload();
  return threads == 0;
}
