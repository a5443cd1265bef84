// SPDX-License-Identifier: MIT
// slow.h - malloc when its fast path has no block.
#ifndef MI_CORE_SLOW_H
#define MI_CORE_SLOW_H

#include <string.h>

#include "../process/process.h"

// Allocate when the list of the class is empty, the size is large, or the thread has no theap yet.
MI_SLOW void* mi_slow_malloc(size_t size, mi_theap_t* theap);
// The same for more than MI_CLASS_MAX bytes: it may be the block that the thread freed last.
MI_SLOW void* mi_slow_malloc_large(size_t size, mi_theap_t* theap);
MI_SLOW void* mi_slow_zalloc(size_t size, mi_theap_t* theap);

// Allocate a block of at most MI_CLASS_MAX bytes from its class, zeroed if `fill` says so, as
// malloc does (alloc.c); for aligned allocation, which tells tools itself.
MI_INTERNAL void* mi_alloc_of_class(mi_theap_t* theap, size_t size, mi_fill_t fill);

// Allocate a block with a page of its own: calls mi_large_alloc_shifted, if necessary once more
// after giving up all unused memory.
MI_INTERNAL void* mi_slow_large(mi_heap_t* heap, size_t size, size_t alignment, size_t shift,
                                mi_fill_t fill);

// Allocate a block of `size` bytes at a multiple of `alignment`, a power of two, if it is a sample.
// NULL if it is not. (Tools are not told.)
MI_INTERNAL void* mi_slow_sample_aligned(mi_theap_t* theap, size_t size, size_t alignment,
                                         mi_fill_t fill);

// Let a block with a page of its own, which has no class, be drawn for the profile.
MI_INTERNAL void mi_slow_draw_large(mi_theap_t* theap, const void* p);

// The same, if samples are taken and `p` is not NULL.
static inline void mi_slow_note_large(mi_theap_t* theap, const void* p) {
  if (mi_unlikely(theap->sample_is_on) && p != NULL) mi_slow_draw_large(theap, p);
}

// Return `theap`, or, if it is that of a thread which has none yet, the calling thread's home, made
// now. NULL when out of memory.
static inline mi_theap_t* mi_slow_theap(mi_theap_t* theap) {
  return mi_likely(theap->thread_id != 0) ? theap : mi_enter_home();
}

// Zero a block popped from `free[size_class]`, unless it is zero already. Returns the block.
static mi_attr_inline void* mi_slow_zero(mi_theap_t* theap, size_t size_class, mi_block_t* block) {
  const mi_page_t* const page = theap->current[size_class];
  if (!page->count.is_fresh_list) {
    const size_t size = mi_class_size(size_class);
    mi_tool_open(block, size);
    return mi_cpu_address(memset(mi_tags_access(block), 0, size));
  }
  mi_block_wipe(block); // the rest of a fresh block is zero
  return block;
}

#endif
