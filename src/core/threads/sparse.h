// SPDX-License-Identifier: MIT
// sparse.h - pages in queues of which few blocks are in use: when their free memory goes back.
#ifndef MI_CORE_SPARSE_H
#define MI_CORE_SPARSE_H

#include "theap.h"

// Pages that get holes in one look through the queues of a theap: a page takes some microseconds.
#define MI_SPARSE_BUDGET ((size_t)256)
#define MI_SPARSE_MUCH_MIN ((int64_t)(32 * MI_SLICE_SIZE))
#define MI_SPARSE_MUCH_PART 8

// Called when a page in a queue has become sparse, when half of the blocks are gone that it had
// when it did, or when it came into the queue so. (A free finds the count 0 then.)
MI_INTERNAL void mi_sparse_note(mi_theap_t* theap, mi_page_t* page);

// Give back what a sparse page in a queue has free. Returns the bytes that went.
MI_INTERNAL size_t mi_sparse_trim(mi_theap_t* theap, mi_page_t* page);

// Give back so many bytes that sparse pages have free, as far as these are soon found: SPARSE-10.
MI_INTERNAL void mi_sparse_make_way(mi_theap_t* theap, size_t bytes);

// Called at a look through the queues for a sparse page: the second one in a row gives its memory
// back. Each time this takes one of the `budget`; with none left nothing happens.
MI_INTERNAL void mi_sparse_age(mi_theap_t* theap, mi_page_t* page, size_t* budget);

// True if so much memory waits between blocks that the thread does not wait for its next refills to
// look for it: SPARSE-9.
static mi_attr_inline bool mi_sparse_is_much(mi_subproc_t* subproc) {
  const int64_t waiting = mi_atomic_load_relaxed(&subproc->sparse_waiting);
  return waiting > MI_SPARSE_MUCH_MIN &&
         waiting > mi_atomic_load_relaxed(&subproc->count.committed) / MI_SPARSE_MUCH_PART;
}

#endif
