// SPDX-License-Identifier: MIT
// pool.h - pages that no thread owns but that have free blocks, per class of a heap.
#ifndef MI_CORE_POOL_H
#define MI_CORE_POOL_H

#include "page.h"

// Return the pool of class `c`.
static inline mi_pool_t* mi_pool_of(mi_heap_t* heap, size_t c) {
  return &heap->pool[c % MI_HEAP_POOL_LINES][c / MI_HEAP_POOL_LINES];
}

// Give up a page that is in no queue, as its owner: an empty page is released; any other goes to
// the pool of its class if enough of it is free, or is abandoned.
MI_INTERNAL void mi_pool_give_up(mi_page_t* page);

// The same for a page of the thread with this id, which sleeps: its next free into the page takes
// the page back, if no other thread has it then.
MI_INTERNAL void mi_pool_lend(mi_page_t* page, uintptr_t thread_id);

// Put a page of class `c` into the pool: the step of giving up that other threads see. The caller
// has just set MI_REMOTE_POOLED in `thread_free` and given up ownership: it may touch nothing of
// the page but `pool_next`.
MI_INTERNAL void mi_pool_push(mi_heap_t* heap, size_t c, mi_page_t* page);

// Take a page with a free block out of the pool and become its owner. NULL if there is none.
MI_INTERNAL mi_page_t* mi_pool_pop(mi_heap_t* heap, size_t c);

// True if a page is in the pool, at this moment.
MI_INTERNAL bool mi_pool_has(mi_heap_t* heap, size_t c);

// Go on with a drain that was begun when many pages had become empty in pools (POOL-5). False if
// there is none, or it is over.
MI_INTERNAL bool mi_pool_go_on(mi_heap_t* heap);

// Take every page out of the pools of a heap once, release those that became empty there (POOL-2
// kept them), and put the others back, into the pool of the heap that they belong to now. With
// MI_FORCE these get all the holes that they can have (hole.h). Returns how many slices they have.
MI_INTERNAL int32_t mi_pool_drain_all(mi_heap_t* heap, mi_effort_t effort);

// Empty the pools without touching their pages, which are gone. No other thread uses the heap.
MI_INTERNAL void mi_pool_clear_all(mi_heap_t* heap);

// Return how many pages the pool holds; SIZE_MAX if POOL-1 is broken. For assertions, while no
// other thread uses the heap.
MI_INTERNAL size_t mi_pool_length(mi_heap_t* heap, size_t c);

#endif
