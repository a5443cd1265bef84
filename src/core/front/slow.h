// SPDX-License-Identifier: MIT
// slow.h - malloc when its fast path has no block.
#ifndef MI_CORE_SLOW_H
#define MI_CORE_SLOW_H

#include <string.h>

#include "../process/process.h"

// malloc when the list of the class is empty, the size is large, or the thread has no theap yet.
MI_SLOW void* mi_slow_malloc(size_t size, mi_theap_t* theap);
MI_SLOW void* mi_slow_zalloc(size_t size, mi_theap_t* theap);

// As malloc for a given class, with the block's contents zero if wanted; used by aligned
// allocation.
MI_INTERNAL void* mi_slow_class(mi_theap_t* theap, size_t size_class, mi_fill_t fill);

// A block with a page of its own: mi_large_alloc_shifted, once more after everything unused was
// given up.
MI_INTERNAL void* mi_slow_large(mi_heap_t* heap, size_t size, size_t alignment, size_t shift,
                                mi_fill_t fill);

// `theap`, or the calling thread's own, made now, when it is that of a thread that has none yet.
// NULL: out of memory.
static inline mi_theap_t* mi_slow_theap(mi_theap_t* theap) {
  return mi_likely(theap->thread_id != 0) ? theap : mi_enter_home();
}

// Make the bytes of a block popped from `free[size_class]` zero, when they may not be. Returns it.
static mi_attr_inline void* mi_slow_zero(mi_theap_t* theap, size_t size_class, mi_block_t* block) {
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
