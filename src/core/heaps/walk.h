// SPDX-License-Identifier: MIT
// walk.h - visit all pages, and find the page of any address.
#ifndef MI_CORE_WALK_H
#define MI_CORE_WALK_H

#include "../threads/threads.h"

// Return the page that `p` lies in, or NULL. Takes any address, as the program has it, also one
// deep inside a large block, which `mi_pagemap_find` does not know: for it, this searches the start
// of the block, and takes a lock.
MI_INTERNAL mi_page_t* mi_walk_find(const void* p);

// Call `visit` for every page of a heap, or with NULL of all heaps of a sub-process, until it
// returns false. True if every page was visited. Pages that are made or released meanwhile are seen
// or not.
typedef bool(mi_page_visit_t)(mi_page_t* page, void* arg);
// The same for the pages of a book.
MI_INTERNAL bool mi_walk_book(mi_book_t* book, mi_heap_t* heap, mi_page_visit_t* visit, void* arg);
MI_INTERNAL bool mi_walk_pages(mi_subproc_t* subproc, mi_heap_t* heap, mi_page_visit_t* visit,
                               void* arg);

#endif
