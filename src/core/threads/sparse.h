// SPDX-License-Identifier: MIT
// sparse.h - pages in queues of which few blocks are in use: when their free memory goes back.
#ifndef MI_CORE_SPARSE_H
#define MI_CORE_SPARSE_H

#include "theap.h"

// Pages that get holes in one look through the queues of a theap: a page takes some microseconds.
#define MI_SPARSE_BUDGET ((size_t)256)

// Called when a page in a queue has become sparse, when half of the blocks are gone that it had
// when it did, or when it came into the queue so. (A free finds the count 0 then.)
MI_INTERNAL void mi_sparse_note(mi_theap_t* theap, mi_page_t* page);

// Give back what a sparse page in a queue has free.
MI_INTERNAL void mi_sparse_trim(mi_theap_t* theap, mi_page_t* page);

// Called at a look through the queues for a sparse page: the second one in a row gives its memory
// back. Each time this takes one of the `budget`; with none left nothing happens.
MI_INTERNAL void mi_sparse_age(mi_theap_t* theap, mi_page_t* page, size_t* budget);

#endif
