// SPDX-License-Identifier: MIT
// guard.h - blocks between inaccessible OS pages, which stay inaccessible for a while when freed.
#ifndef MI_CORE_GUARD_H
#define MI_CORE_GUARD_H

#include "large.h"

// The description of a guarded block.
typedef struct mi_guard_plan_s {
  size_t size; // bytes, as asked for
  size_t alignment; // a power of two
  mi_fill_t fill;
  bool is_low; // the block begins at the guard before it, else it ends at the one behind it
  bool is_bounded; // only so many at a time: GUARD-4
} mi_guard_plan_t;

// Allocate a guarded block. NULL if there is no memory for it, the system cannot guard it, or there
// are too many.
MI_INTERNAL void* mi_guard_alloc(mi_heap_t* heap, const mi_guard_plan_t* plan);

// Free the block of a page of its own, with guards or without. Any `p` but the address that was
// handed out is only reported.
MI_INTERNAL void mi_guard_free(mi_page_t* page, void* p);

// Give back the memory of freed guarded blocks.
MI_INTERNAL void mi_guard_flush(void);

// Return the number of guarded blocks in use / freed and still inaccessible.
MI_INTERNAL size_t mi_guard_live(void);
MI_INTERNAL size_t mi_guard_held(void);

// Forget everything: all memory was unmapped.
MI_INTERNAL void mi_guard_done(void);

#endif
