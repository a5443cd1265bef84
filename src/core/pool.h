// SPDX-License-Identifier: MIT
// pool.h - pages that no thread owns but that have free blocks, per class of a heap.
#ifndef MI_CORE_POOL_H
#define MI_CORE_POOL_H

#include "page.h"

// Put a page in. The caller has just set MI_REMOTE_POOLED in `thread_free` and given up ownership:
// it may touch nothing of the page but `pool_next`.
MI_INTERNAL void mi_pool_push(mi_pool_t* pool, mi_page_t* page);

// Take a page out and become its owner; it has a free block. NULL when there is none.
MI_INTERNAL mi_page_t* mi_pool_pop(mi_pool_t* pool);

// Take every page out once, release those that became empty in there (L2 kept them), and put the
// others back.
MI_INTERNAL void mi_pool_drain(mi_pool_t* pool);

// Drain the pools of a heap that hold empty pages, if any.
MI_INTERNAL void mi_pool_drain_heap(mi_heap_t* heap);

#endif
