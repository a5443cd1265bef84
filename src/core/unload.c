// SPDX-License-Identifier: MIT
// unload.c - the library leaves a process that goes on: all its memory goes back to the system.
//
// Everything that was mapped is written down somewhere:
//   large blocks outside arenas  in their descriptor (MI_BACKING_DIRECT)
//   arenas                       in the list of arenas
//   tables of descriptors        in the window table
//   structures of our own        in meta.c
// They go in this order, because each is read through one of the next.
//
// U1  nobody is in a function of the library or will call one: the caller's promise, which whoever
//     calls dlclose gave. Blocks in use go, too. Threads that used it may live on.
// Afterwards everything is as before the first call, for destructors that run behind ours and for
// tests. Not here: how to know that the library is unloaded (os.h), what else must be undone (the
// destructor in process.c).
#include <string.h>

#include "arena.h"
#include "core.h"
#include "meta.h"
#include "pagemap.h"
#include "remote.h"
#include "theap.h"

static void mi_unload_direct_pages(const mi_page_t* table) {
  for (size_t i = 0; i < MI_WINDOW_SLICES; i++) {
    const mi_page_t* const page = &table[i];
    if (mi_atomic_load_relaxed(&page->owner) != MI_OWNER_SINGLE) continue;
    if (page->backing != MI_BACKING_DIRECT) continue;
    mi_os_unmap(page->start, page->slice_count * MI_SLICE_SIZE);
  }
}

MI_INTERNAL void mi_unload(void) {
  if (mi_atomic_load_relaxed(&mi_state.stage) != MI_STAGE_READY) return;
  mi_remote_end_parcels();
  mi_theap_tls = &mi_theap_empty;
  mi_theap_recent_tls = &mi_theap_empty;
  for (size_t w = 0; w < MI_WINDOW_COUNT; w++) {
    const uintptr_t offset = mi_atomic_load_relaxed(&mi_pagemap.window[w]);
    if (offset != 0) mi_unload_direct_pages((mi_page_t*)((uintptr_t)mi_pagemap.none + offset));
  }
  for (mi_subproc_t* s = &mi_state.main; s != NULL; s = s->next) {
    MI_FOR_EACH_ARENA(s, arena) { mi_os_unmap(arena->start, arena->slice_count * MI_SLICE_SIZE); }
  }
  mi_pagemap_done();
  mi_meta_clear();
  memset(&mi_state, 0, sizeof(mi_state));
}
