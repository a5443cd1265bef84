// SPDX-License-Identifier: MIT
// pagemap.c - the storage of pagemap.h, and the tables of windows, which are mapped when a window
// is first used.
//
// A table is 2 MiB of address space per GiB and is touched only where slices are in use. Invariants
// PAGEMAP-1 to PAGEMAP-4 are in pagemap.h. Tables are unmapped only when the library is unloaded,
// because a stale address must find readable memory.
#include "pagemap.h"

#include <string.h>

#include "fence.h"
#include "state.h"

MI_INTERNAL_DATA mi_pagemap_t mi_pagemap mi_attr_aligned(1 << MI_PAGE_SHIFT) mi_attr_sparse;

static size_t mi_pagemap_table_size(void) {
  return mi_bits_align_up(sizeof(mi_pagemap.none), mi_state.os.page_size);
}

// The entry of the near window. The table of another window may not have this distance.
#define MI_PAGEMAP_NEAR ((uintptr_t)0 - sizeof(mi_pagemap.near))
mi_static_assert(offsetof(mi_pagemap_t, near) + sizeof(mi_pagemap.near) ==
                     offsetof(mi_pagemap_t, none),
                 "PAGEMAP-4: what follows is none");

static void mi_pagemap_note_window(size_t w) {
  if (mi_state.window_end == 0) mi_state.window_first = w;
  mi_state.window_first = mi_bits_min(mi_state.window_first, w);
  mi_state.window_end = mi_bits_max(mi_state.window_end, w + 1);
}

MI_INTERNAL bool mi_pagemap_is_near(const void* p) {
  const size_t w = (uintptr_t)p >> MI_WINDOW_SHIFT;
  return w < MI_WINDOW_COUNT && mi_atomic_load_relaxed(&mi_pagemap.window[w]) == MI_PAGEMAP_NEAR;
}

MI_INTERNAL bool mi_pagemap_may_be_near(const void* start, size_t size) {
  mi_lock_expect(&mi_state.arena_lock);
  const size_t w = (uintptr_t)start >> MI_WINDOW_SHIFT;
  return !mi_state.is_near_taken && (uintptr_t)start % MI_WINDOW_SIZE == 0 &&
         size <= MI_NEAR_SIZE && w < MI_WINDOW_COUNT &&
         mi_atomic_load_relaxed(&mi_pagemap.window[w]) == 0;
}

MI_INTERNAL void mi_pagemap_cover_near(const void* start) {
  mi_lock_expect(&mi_state.arena_lock);
  const size_t w = (uintptr_t)start >> MI_WINDOW_SHIFT;
  mi_state.is_near_taken = true;
  mi_pagemap_note_window(w);
  // Pairs with none: as in `mi_pagemap_cover`.
  mi_atomic_store_release(&mi_pagemap.window[w], MI_PAGEMAP_NEAR);
}

MI_INTERNAL void mi_pagemap_seal(size_t page_size) {
  const uintptr_t start = mi_bits_align_up((uintptr_t)mi_pagemap.none, page_size);
  const uintptr_t end =
      mi_bits_align_down((uintptr_t)mi_pagemap.none + sizeof(mi_pagemap.none), page_size);
  if (start < end) mi_os_make_constant((void*)start, end - start);
}

MI_INTERNAL bool mi_pagemap_cover(const void* start, size_t size) {
  mi_lock_expect(&mi_state.arena_lock);
  const size_t first = (uintptr_t)start >> MI_WINDOW_SHIFT;
  const size_t last = ((uintptr_t)start + size - 1) >> MI_WINDOW_SHIFT;
  if (last >= MI_WINDOW_COUNT) return false;
  for (size_t w = first; w <= last; w++) {
    const uintptr_t known = mi_atomic_load_relaxed(&mi_pagemap.window[w]);
    if (known == MI_PAGEMAP_NEAR) {
      if (((uintptr_t)start + size - 1) % MI_WINDOW_SIZE >= MI_NEAR_SIZE || w < last) return false;
    }
    if (known != 0) continue;
    const size_t table_size = mi_pagemap_table_size();
    void* const table = mi_fence_map(table_size, mi_state.os.page_size);
    if (table == NULL) return false;
    mi_os_huge_pages(table, table_size, MI_OS_SMALL);
    if (mi_option_value(pagemap_commit) != 0) mi_os_populate(table, table_size);
    // Pairs with none: all threads load it relaxed. A thread that has an address in the window got
    // it later, from an arena (`mi_arena_publish`, `mi_arena_extend`) or as a block.
    mi_atomic_store_release(&mi_pagemap.window[w], (uintptr_t)table - (uintptr_t)mi_pagemap.none);
    mi_pagemap_note_window(w);
  }
  return true;
}

MI_INTERNAL void mi_pagemap_done(void) {
  for (size_t w = mi_state.window_first; w < mi_state.window_end; w++) {
    const uintptr_t offset = mi_atomic_load_relaxed(&mi_pagemap.window[w]);
    if (offset == 0) continue;
    mi_atomic_store_relaxed(&mi_pagemap.window[w], 0);
    if (offset == MI_PAGEMAP_NEAR) {
      memset(mi_pagemap.near, 0, sizeof(mi_pagemap.near));
      continue;
    }
    void* const table = (void*)((uintptr_t)mi_pagemap.none + offset);
    mi_fence_unmap(table, mi_pagemap_table_size(), mi_state.os.page_size);
  }
}
