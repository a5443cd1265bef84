// SPDX-License-Identifier: MIT
// handed.c - what is counted less often of the blocks that were handed out; the rules are in
// handed.h.
#include "handed.h"

static void mi_handed_tell(const mi_theap_t* theap, size_t size_class, int32_t count) {
  const mi_heap_t* const heap = mi_atomic_load_relaxed(&theap->heap);
  mi_subproc_t* const subproc = heap == MI_HEAP_GONE ? &mi_state.main : heap->subproc;
  mi_count_add(&subproc->count.of_class[size_class].handed, count);
}

MI_INTERNAL mi_attr_noinline void mi_handed_count(mi_theap_t* theap, size_t size_class,
                                                  int32_t count) {
  if (mi_unlikely(theap->thread_id == 0)) { // it may be `mi_theap_empty`, which is never written
    mi_handed_tell(theap, size_class, count);
    return;
  }
  const int32_t sum = mi_atomic_load_relaxed(&theap->unsettled[size_class]) + count;
  const bool is_much = sum > MI_HANDED_MAX || sum < -MI_HANDED_MAX;
  mi_atomic_store_relaxed(&theap->unsettled[size_class], (int16_t)(is_much ? 0 : sum));
  theap->has_unsettled = true;
  if (mi_unlikely(is_much)) mi_handed_tell(theap, size_class, sum);
}

MI_INTERNAL mi_attr_noinline void mi_handed_settle(mi_theap_t* theap) {
  if (!theap->has_unsettled) return;
  theap->has_unsettled = false;
  for (size_t c = 0; c < MI_CLASS_COUNT; c++) {
    const int16_t count = mi_atomic_load_relaxed(&theap->unsettled[c]);
    if (count == 0) continue;
    mi_atomic_store_relaxed(&theap->unsettled[c], 0);
    mi_handed_tell(theap, c, count);
  }
}

MI_INTERNAL mi_attr_noinline void mi_handed_settle_page(mi_subproc_t* subproc, mi_page_t* page) {
  mi_count_add(&subproc->count.of_class[page->size_class].handed, (int32_t)page->refilled.handed);
  page->refilled.handed = 0;
}
