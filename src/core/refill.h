// SPDX-License-Identifier: MIT
// refill.h - the slow half of malloc.
#ifndef MI_CORE_REFILL_H
#define MI_CORE_REFILL_H

#include <string.h>

#include "core.h"
#include "theap.h"
#include "thread.h"

// malloc when the list of the class is empty, the size is large, or the thread has no theap yet.
MI_SLOW void* mi_refill_malloc(size_t size, mi_theap_t* theap);
MI_SLOW void* mi_refill_zalloc(size_t size, mi_theap_t* theap);

// As malloc for a given class, with the block's contents zero if wanted; used by aligned
// allocation.
MI_INTERNAL void* mi_refill_class(mi_theap_t* theap, size_t size_class, mi_fill_t fill);

// `theap`, or the calling thread's own, made now, when it is that of a thread that has none yet.
// NULL: out of memory.
static inline mi_theap_t* mi_refill_theap(mi_theap_t* theap) {
  return mi_likely(theap->thread_id != 0) ? theap : mi_thread_get_home();
}

// Make the bytes of a block popped from `free[size_class]` zero, when they may not be. Returns it.
static mi_attr_inline void* mi_refill_zero(mi_theap_t* theap, size_t size_class,
                                           mi_block_t* block) {
  const mi_page_t* const page = theap->current[size_class];
  if (!page->count.is_fresh_list) {
    const size_t size = mi_class_size(size_class);
    mi_tool_open(block, size);
    return memset(block, 0, size);
  }
  mi_block_set_next(block, NULL); // all else of a fresh block is zero
  return block;
}

#endif
