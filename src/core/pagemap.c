// SPDX-License-Identifier: MIT
// pagemap.c - the storage of pagemap.h and the tables of windows, mapped when a window is first
// used.
//
// A table is 2 MiB of address space per GiB and is touched only where slices are in use. Invariants
// M1 to M3 are in pagemap.h. Tables go back when the library is unloaded and not before: a
// stale address must find readable memory.
#include "pagemap.h"

#include "state.h"

MI_INTERNAL_DATA mi_pagemap_t mi_pagemap mi_attr_aligned(1 << MI_PAGE_SHIFT) mi_attr_sparse;

static size_t mi_pagemap_table_size(void) {
  return mi_bits_align_up(sizeof(mi_pagemap.none), mi_state.os.page_size);
}

MI_INTERNAL bool mi_pagemap_cover(const void* start, size_t size) {
  const size_t first = (uintptr_t)start >> MI_WINDOW_SHIFT;
  const size_t last = ((uintptr_t)start + size - 1) >> MI_WINDOW_SHIFT;
  if (last >= MI_WINDOW_COUNT) return false;
  for (size_t w = first; w <= last; w++) {
    if (mi_atomic_load_relaxed(&mi_pagemap.window[w]) != 0) continue;
    const size_t table_size = mi_pagemap_table_size();
    const size_t alignment = mi_bits_max(mi_state.os.page_size, 4096);
    void* const table = mi_os_map(NULL, table_size, alignment, MI_OS_READ_WRITE);
    mi_count_add(&mi_state.main.count.mmap_calls, 1);
    if (table == NULL) return false;
    mi_os_huge_pages(table, table_size, false);
    if (mi_option_value(pagemap_commit) != 0) mi_os_populate(table, table_size, false);
    // Publishes the table; readers follow from an address that was handed out after this.
    mi_atomic_store_release(&mi_pagemap.window[w], (uintptr_t)table - (uintptr_t)mi_pagemap.none);
    if (mi_state.window_end == 0) mi_state.window_first = w;
    mi_state.window_first = mi_bits_min(mi_state.window_first, w);
    mi_state.window_end = mi_bits_max(mi_state.window_end, w + 1);
  }
  return true;
}

MI_INTERNAL void mi_pagemap_done(void) {
  for (size_t w = mi_state.window_first; w < mi_state.window_end; w++) {
    const uintptr_t offset = mi_atomic_load_relaxed(&mi_pagemap.window[w]);
    if (offset == 0) continue;
    mi_atomic_store_relaxed(&mi_pagemap.window[w], 0);
    mi_os_unmap((void*)((uintptr_t)mi_pagemap.none + offset), mi_pagemap_table_size());
  }
}
