// SPDX-License-Identifier: MIT
// pagemap.h - from any address to the descriptor of its slice: one computed address, one load.
//
//   descriptor(p) = base + window[p >> MI_WINDOW_SHIFT] + (slice of p inside its window) * 128
//
// `base` is the table of a window without any memory of ours: all zero (`none` below). The entries
// of `window` are offsets from it, so that an all-zero window table is right before set-up, and no
// address needs a test: a foreign address leads to owner MI_OWNER_NONE, which equals no thread.
//
// PAGEMAP-1  `none` is never written.
// PAGEMAP-2  a window entry changes once, from 0; its table is unmapped only when the library is
//     unloaded (unload.c).
// PAGEMAP-3  the descriptor of a slice that is in no page has owner MI_OWNER_NONE.
// PAGEMAP-4  one window needs no table, that of the first arena: `near` has the descriptors of its
//     first slices, and `none`, which follows in memory, serves its other slices. These never get a
//     descriptor of their own: `mi_pagemap_cover` refuses them. So the window is one in which the
//     system maps nothing by itself (`mi_arena_make`).
//
// So the first arena needs no address space besides its own, whereas a table takes 2 MiB. `none` is
// made read-only when the library starts, so that mlockall does not make it resident.
#ifndef MI_CORE_PAGEMAP_H
#define MI_CORE_PAGEMAP_H

#include "types.h"

typedef struct mi_pagemap_s {
  // window - offset of the table of a window from `none`; 0 none. First, so that its address needs
  // no addition.
  //   write  arena lock  store release  mi_pagemap_cover, mi_pagemap_cover_near
  //   write  alone       store relaxed  mi_pagemap_done
  //   read   any thread  relaxed  who holds one of our addresses got it after the write
  mi_atomic(uintptr_t) window[MI_WINDOW_COUNT];
  mi_page_t near[MI_NEAR_SLICES];
  mi_page_t none[MI_WINDOW_SLICES]; // directly behind `near`: PAGEMAP-4
} mi_pagemap_t;

MI_INTERNAL_DATA_DECL mi_pagemap_t mi_pagemap;

// Return the descriptor of the slice of `p`, as a distance in bytes from `none`. `p` must be below
// 2^MI_ADDRESS_BITS (use `mi_pagemap_find` for addresses of unknown origin).
static mi_attr_inline uintptr_t mi_pagemap_distance(const mi_pagemap_t* map, const void* p) {
  const uintptr_t a = (uintptr_t)p;
  const uintptr_t window = mi_atomic_load_relaxed(&map->window[a >> MI_WINDOW_SHIFT]);
  const uintptr_t slice =
      (a >> (MI_SLICE_SHIFT - MI_PAGE_SHIFT)) & ((MI_WINDOW_SLICES - 1) << MI_PAGE_SHIFT);
  return window + slice;
}

static mi_attr_inline mi_page_t* mi_pagemap_slice(const void* p) {
  return (mi_page_t*)((uintptr_t)mi_pagemap.none + mi_pagemap_distance(&mi_pagemap, p));
}

// Return the page that `p` lies in, or NULL. Takes any address.
static inline mi_page_t* mi_pagemap_find(const void* p) {
  if (!mi_is_address(p)) return NULL;
  mi_page_t* const page = mi_pagemap_slice(p);
  const uintptr_t owner = mi_atomic_load_relaxed(&page->owner);
  if (owner == MI_OWNER_NONE) return NULL;
  return owner == MI_OWNER_INTERIOR ? page->first : page;
}

// Make descriptors for all slices of the range of `size` bytes. The caller holds the arena lock.
// False when out of memory.
MI_INTERNAL bool mi_pagemap_cover(const void* start, size_t size);

// True if `near` can hold the descriptors of a range: no window uses `near` yet, and the range is
// at the start of a window without a table. The caller holds the arena lock, as for the next
// function.
MI_INTERNAL bool mi_pagemap_may_be_near(const void* start, size_t size);

// Use `near` for the window that starts at `start`.
MI_INTERNAL void mi_pagemap_cover_near(const void* start);

// True if `p` is in that window.
MI_INTERNAL bool mi_pagemap_is_near(const void* p);

// Make `none` read-only. `page_size` is the size of an OS page, in bytes.
MI_INTERNAL void mi_pagemap_seal(size_t page_size);

// Unmap all tables.
MI_INTERNAL void mi_pagemap_done(void);

#endif
