// SPDX-License-Identifier: MIT
// inside.h - how a free finds the heap of a page while that heap may be ending: it is counted in
// `inside` of the heap. The protocol is in heap.c (HEAP-1 to HEAP-3).
#ifndef MI_CORE_INSIDE_H
#define MI_CORE_INSIDE_H

#include "../arenas/arenas.h"

// The one heap that never ends.
#define MI_HEAP_FIRST (&mi_state.main.heap_main)

// Enter and return the heap of a page that the caller owns, or whose only block it holds. Until
// `mi_inside_leave` the structure of the heap is not reused, even if the heap is deleted meanwhile,
// and its sub-process is not ended.
static inline mi_heap_t* mi_inside_enter(mi_page_t* page) {
  while (true) {
    // Sees the const fields of the heap; pairs with the releases in `mi_page_make` and
    // `mi_heap_move_page`.
    mi_heap_t* const heap = mi_atomic_load_acquire(&page->heap);
    if (mi_likely(heap == MI_HEAP_FIRST)) return heap;
    // Either the ending thread sees this, or this sees what that thread wrote (HEAP-2); pairs with
    // the addition in `mi_heap_end_by_delete`.
    mi_atomic_add_acq_rel(&heap->inside, 1);
    if (mi_likely(mi_atomic_load_relaxed(&page->heap) == heap)) return heap;
    mi_atomic_sub_release(&heap->inside, 1); // pairs with none: nothing was done
  }
}

static inline void mi_inside_leave(mi_heap_t* heap) {
  // Publishes what was done to pools and books; pairs with the acquires in `mi_heap_take` and
  // `mi_subproc_is_left`.
  if (mi_unlikely(heap != MI_HEAP_FIRST)) mi_atomic_sub_release(&heap->inside, 1);
}

#endif
