// SPDX-License-Identifier: MIT
// heap.h - sets of pages that end together, and how a free finds the heap of a page that may be
// ending. The protocol is in heap.c.
#ifndef MI_CORE_HEAP_H
#define MI_CORE_HEAP_H

#include "core.h"

// The one heap that never ends.
#define MI_HEAP_FIRST (&mi_state.main.heap_main)

// The heap of a page that the caller owns, or whose only block it holds. Until `mi_heap_leave` the
// structure stays that heap's, also when the heap is deleted meanwhile, and its sub-process stays.
static inline mi_heap_t* mi_heap_enter(mi_page_t* page) {
  while (true) {
    mi_heap_t* const heap = mi_atomic_load_acquire(&page->heap); // sees the const fields
    if (mi_likely(heap == MI_HEAP_FIRST)) return heap;
    // Is seen by the ending thread, or sees what that one wrote (E2 in heap.c).
    mi_atomic_add_acq_rel(&heap->inside, 1);
    if (mi_likely(mi_atomic_load_relaxed(&page->heap) == heap)) return heap;
    mi_atomic_sub_release(&heap->inside, 1); // nothing was done
  }
}

static inline void mi_heap_leave(mi_heap_t* heap) {
  // Publishes what was done to pools and books to who recycles the structure.
  if (mi_unlikely(heap != MI_HEAP_FIRST)) mi_atomic_sub_release(&heap->inside, 1);
}

// Prepare the main heap of a sub-process; everything else of it is zero, or as its last one left
// it.
MI_INTERNAL void mi_init_main_heap(mi_subproc_t* subproc);

// Under the thread lock: `theap` becomes one of the heap, or is one no more.
MI_INTERNAL void mi_heap_link_theap(mi_heap_t* heap, mi_theap_t* theap);
MI_INTERNAL void mi_heap_unlink_theap(mi_theap_t* theap);

// Under the thread lock: all theaps of the heap learn that it has ended.
MI_INTERNAL void mi_heap_end_theaps(mi_heap_t* heap, bool is_destroyed);

// What a heap has counted becomes another one's.
MI_INTERNAL void mi_heap_move_tally(mi_heap_t* from, mi_heap_t* to);

// Pages that were given up into heaps that have ended meanwhile go where they belong.
MI_INTERNAL void mi_heap_drain_ended(mi_subproc_t* subproc);
MI_INTERNAL void mi_heap_drain_ended_locked(mi_subproc_t* subproc);

#endif
