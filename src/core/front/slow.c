// SPDX-License-Identifier: MIT
// slow.c - malloc when its fast path has no block: the list of the class is empty, the block is
// large, or the thread has no theap yet.
//
//   0. the thread's theap, made on its first call                          enter.c
//   1. a block of a class: the list is filled (steps 1 to 7 of refill.c)   refill.c
//      a larger one                                                        large.c
//   2. no memory: give up all unused memory, try once more, then report it
#include "slow.h"

#include <errno.h>

// Return a block of class `c`, NULL if step 2 found none, either.
static mi_block_t* mi_slow_block(mi_theap_t* theap, size_t c) {
  mi_block_t* const block = mi_refill_block(theap, c);
  if (mi_likely(block != NULL)) return block;
  mi_flush_theap(theap);
  mi_collect_all(MI_FORCE);
  return mi_refill_block(theap, c);
}

// Give up all unused memory: what this thread keeps of the heap, and what all threads keep.
static void mi_slow_make_room(mi_heap_t* heap) {
  mi_theap_t* const theap = mi_theap_find(heap);
  if (theap != NULL) mi_collect_theap(theap, MI_FORCE);
  mi_collect_all(MI_FORCE);
}

// True if giving up unused memory may help a request that failed. It joins free slices, of which
// there are no more than were reserved; what the system allows does not change by it, unless it
// counts what is committed (overcommit is off). A program that asks for what cannot be (2^47 bytes)
// would else give up all that its threads keep each time.
static bool mi_slow_may_find(mi_heap_t* heap, size_t size) {
  const int64_t reserved = mi_atomic_load_relaxed(&heap->subproc->count.reserved);
  return !mi_state.os.has_overcommit || size <= (size_t)reserved;
}

MI_INTERNAL void* mi_slow_large(mi_heap_t* heap, size_t size, size_t alignment, size_t shift,
                                mi_fill_t fill) {
  void* const p = mi_large_alloc_shifted(heap, size, alignment, shift, fill);
  if (mi_likely(p != NULL)) return p;
  if (!mi_slow_may_find(heap, size + shift)) return NULL;
  mi_slow_make_room(heap);
  return mi_large_alloc_shifted(heap, size, alignment, shift, fill);
}

static void* mi_slow_fail(size_t size) {
  const bool is_too_large = size > MI_REQUEST_MAX;
  mi_report(is_too_large ? MI_ERROR_TOO_LARGE : MI_ERROR_OUT_OF_MEMORY, "malloc", NULL, size);
  errno = ENOMEM;
  return NULL;
}

static void* mi_slow_class(mi_theap_t* theap, size_t size_class, mi_fill_t fill) {
  mi_lock_check_none("allocates");
  theap = mi_slow_theap(theap);
  // Mistakes with other blocks are reported once this block is taken, and zero, because the error
  // function of the user may allocate.
  mi_report_enter(MI_REPORT_IN_MALLOC);
  mi_block_t* const block = theap == NULL ? NULL : mi_slow_block(theap, size_class);
  if (mi_likely(block != NULL) && fill == MI_ZERO) mi_slow_zero(theap, size_class, block);
  mi_report_leave();
  return mi_likely(block != NULL) ? block : mi_slow_fail(mi_class_size(size_class));
}

static void* mi_slow_any(size_t size, mi_theap_t* theap, mi_fill_t fill) {
  if (size <= MI_CLASS_MAX) return mi_slow_class(theap, mi_class_of(size), fill);
  if (size > MI_REQUEST_MAX) return mi_slow_fail(size);
  theap = mi_slow_theap(theap);
  if (theap == NULL) return mi_slow_fail(size);
  mi_report_enter(MI_REPORT_IN_MALLOC);
  mi_refill_cadence(theap, MI_CLASS_COUNT);
  void* const p = mi_slow_large(mi_theap_heap(theap), size, MI_SLICE_SIZE, 0, fill);
  mi_report_leave();
  return p != NULL ? p : mi_slow_fail(size);
}

MI_SLOW void* mi_slow_malloc(size_t size, mi_theap_t* theap) {
  return mi_slow_any(size, theap, MI_UNINITIALIZED);
}

MI_SLOW void* mi_slow_zalloc(size_t size, mi_theap_t* theap) {
  return mi_slow_any(size, theap, MI_ZERO);
}
