// SPDX-License-Identifier: MIT
// walk.h - all pages there are, and the page of any address.
#ifndef MI_CORE_WALK_H
#define MI_CORE_WALK_H

#include "../threads/threads.h"

// The page that `p` lies in, or NULL. Takes any address, also deep inside a large block, where
// `mi_pagemap_find` knows nothing: then it looks for the start of the block, and takes a lock.
MI_INTERNAL mi_page_t* mi_walk_find(const void* p);

// Call `visit` for every page of a heap, or with NULL of all heaps of a sub-process, until it
// returns false; returns whether it never did. Pages that come and go meanwhile are seen or not.
typedef bool(mi_page_visit_t)(mi_page_t* page, void* arg);
MI_INTERNAL bool mi_walk_pages(mi_subproc_t* subproc, mi_heap_t* heap, mi_page_visit_t* visit,
                               void* arg);

#endif
