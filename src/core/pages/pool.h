// SPDX-License-Identifier: MIT
// pool.h - pages that no thread owns but that have free blocks, per class of a heap.
#ifndef MI_CORE_POOL_H
#define MI_CORE_POOL_H

#include "page.h"

// The owner of a page that is in no queue lets go of it: it is released if it is empty, else given
// up, through the pool of its class when enough of it is free.
MI_INTERNAL void mi_pool_give_up(mi_page_t* page);

// Put a page of class `c` in: the step of giving up that others see. The caller has just set
// MI_REMOTE_POOLED in `thread_free` and given up ownership: it may touch nothing of the page but
// `pool_next`.
MI_INTERNAL void mi_pool_push(mi_heap_t* heap, size_t c, mi_page_t* page);

// Take a page out and become its owner; it has a free block. NULL when there is none.
MI_INTERNAL mi_page_t* mi_pool_pop(mi_heap_t* heap, size_t c);

// Some page of the pool became empty in there.
static inline void mi_pool_note_empty(mi_heap_t* heap, size_t c) {
  mi_atomic_or_relaxed(&heap->has_empty[c / 64], (uint64_t)1 << c % 64);
}

// Take every page out once, release those that became empty in there (POOL-2 kept them), and put
// the others back: into the pool of the heap that they belong to.
MI_INTERNAL void mi_pool_drain(mi_heap_t* heap, size_t c);

// Drain the pools of a heap that hold empty pages, if any; or all of them.
MI_INTERNAL void mi_pool_drain_heap(mi_heap_t* heap);
MI_INTERNAL void mi_pool_drain_all(mi_heap_t* heap);

// Forget what is in the pools: the pages are gone. Nobody else uses the heap.
MI_INTERNAL void mi_pool_clear_all(mi_heap_t* heap);

// How many pages the pool holds; SIZE_MAX if POOL-1 is broken. For assertions, while nobody else
// uses the heap.
MI_INTERNAL size_t mi_pool_length(mi_heap_t* heap, size_t c);

#endif
