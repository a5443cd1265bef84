// SPDX-License-Identifier: MIT
// tally.h - figures of a heap that many threads count at the same time: each in its own theap.
//
// Threads that exchange blocks let pages go and take others with every few calls. If each of these
// were an addition to the heap's figure, all cores would wait for one cache line (sixteen threads
// that exchange blocks of up to 16 KB: 786,000 such additions in 2,215,000 calls).
//
// TALLY-1  a theap has less than MI_TALLY_STEP of each figure; what it has counts for the heap that
//     it is linked to (`mi_theap_link`), and of a home for its main heap. A home without a thread,
//     and any other theap that is linked to no heap, has nothing: it was settled. One whose heap
//     was deleted, maybe by another thread, takes what it has along to the main heap, where the
//     heap's other figures go (HEAP-6). So the sum over a heap and its theaps, under the thread
//     lock, is right but for the step that a thread is about to add.
//
// Deliberately absent: peaks, which need the sum.
#ifndef MI_CORE_TALLY_H
#define MI_CORE_TALLY_H

#include "handed.h"

#define MI_TALLY_STEP 256

// Count one of the figures from MI_TALLY_OFTEN_FIRST on, in `theap` if this is a theap of the
// calling thread in this heap.
static inline void mi_tally_often(mi_theap_t* theap, mi_heap_t* heap, mi_tally_index_t index) {
  if (theap->thread_id == 0 || mi_atomic_load_relaxed(&theap->heap) != heap) {
    mi_tally_add(&heap->tally, index, 1);
    return;
  }
  mi_atomic(uint8_t)* const often = &theap->often[index - MI_TALLY_OFTEN_FIRST];
  const size_t count = mi_atomic_load_relaxed(often) + (size_t)1;
  mi_atomic_store_relaxed(often, (uint8_t)(count % MI_TALLY_STEP));
  if (count == MI_TALLY_STEP) mi_tally_add(&heap->tally, index, MI_TALLY_STEP);
}

// Add what a theap has to the figures of its heap: TALLY-1. Under the thread lock, while its thread
// counts nothing: by that thread, while it has none, or when the heap is destroyed, which the other
// threads of the program do not use then.
static inline void mi_tally_settle(mi_theap_t* theap, mi_heap_t* heap) {
  for (size_t i = 0; i < MI_TALLY_OFTEN_COUNT; i++) {
    const uint8_t count = mi_atomic_load_relaxed(&theap->often[i]);
    if (count == 0) continue;
    mi_atomic_store_relaxed(&theap->often[i], 0);
    mi_tally_add(&heap->tally, (mi_tally_index_t)(MI_TALLY_OFTEN_FIRST + i), count);
  }
  mi_handed_settle(theap);
}

#endif
