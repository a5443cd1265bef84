// SPDX-License-Identifier: MIT
// theap.h - the calling thread's part of a heap.
#ifndef MI_CORE_THEAP_H
#define MI_CORE_THEAP_H

#include "../pages/pages.h"

// The peak of a heap with fewer bytes committed is made by pages that are nearly unused.
#define MI_SMALL_HEAP ((size_t)(256 * MI_SLICE_SIZE))

static inline mi_heap_t* mi_theap_heap(const mi_theap_t* theap) {
  return mi_atomic_load_relaxed(&((mi_theap_t*)(uintptr_t)theap)->heap);
}

static inline mi_subproc_t* mi_theap_subproc(const mi_theap_t* theap) {
  return mi_theap_heap(theap)->subproc;
}

// True if a hint leads to a page of this theap: its other fields may be read. The descriptor of a
// page that has gone stays readable (TYPES-2).
static inline bool mi_theap_owns(const mi_theap_t* theap, mi_page_t* page) {
  if (page == NULL) return false;
  const uintptr_t owner = mi_atomic_load_relaxed(&page->owner);
  return mi_owner_is(owner, theap->thread_id) && page->theap == theap;
}

static inline bool mi_theap_is_in_small_heap(const mi_theap_t* theap) {
  const int64_t committed = mi_atomic_load_relaxed(&mi_theap_subproc(theap)->count.committed);
  return committed < (int64_t)MI_SMALL_HEAP;
}

// True if the sub-process has one thread: nobody else could use what this one keeps.
static inline bool mi_theap_is_alone(mi_counters_t* count) {
  return mi_atomic_load_relaxed(&count->threads) <= 1;
}

// So many looks at its idle pages after a thread took a page that others had parked, it no longer
// counts as one that exchanges blocks with others.
#define MI_EXCHANGE_TICKS 2

// True if each list of the theap may be cut for a sample.
static inline bool mi_theap_cuts_all(const mi_theap_t* theap) {
  return mi_unlikely(theap->sample_is_on) && theap->sample_every == 1;
}

// Make the slow path due after `count` refills.
static inline void mi_theap_set_quick(mi_theap_t* theap, uint32_t count) {
  theap->quick_left = theap->quick_given = count;
}

// Return the page that the class allocates from, or NULL.
static inline mi_page_t* mi_theap_current(const mi_theap_t* theap, size_t size_class) {
  mi_page_t* const page = theap->current[size_class];
  return page == MI_PAGE_NONE ? NULL : page;
}

// Return the theap in a slot of the `others` of a home, or NULL if there is none, or its pages are
// gone (THEAP-5). Under the thread lock.
static inline mi_theap_t* mi_theap_other(const mi_theap_t* home, size_t slot) {
  mi_lock_expect(&mi_state.thread_lock);
  mi_theap_t* const theap = home->others[slot];
  return theap != NULL && !theap->is_destroyed ? theap : NULL;
}

// True if the calling thread may allocate from `theap`, which may be NULL. In a build without
// checks only that is looked at: the rest is the duty of the program.
static mi_attr_inline bool mi_theap_is_usable(const mi_theap_t* theap) {
  if (!MI_HAS_USE_CHECK || theap == NULL || theap == &mi_theap_empty) return theap != NULL;
  return theap->thread_id == mi_tls_thread_id();
}

// Drop a list whose first block is none that may be handed out. Returns false.
static mi_attr_cold bool mi_theap_refuse(mi_theap_t* theap, size_t size_class,
                                         const mi_block_t* block) {
  theap->free[size_class] = NULL; // first: a report may allocate
  mi_mark_refuse_block(block);
  return false;
}

// Hand out `block`, the first of the list of its class. False in a secure build, with a report, if
// it is no free block (MARK-2): then the list is empty.
static mi_attr_inline bool mi_theap_take(mi_theap_t* theap, size_t size_class, mi_block_t* block) {
  if (mi_unlikely(!mi_mark_give(block, size_class))) {
    return mi_theap_refuse(theap, size_class, block);
  }
  theap->free[size_class] = mi_block_next_free(block, mi_mark_free_of(size_class));
  if (MI_IS_SECURE) mi_block_wipe(block);
  return true;
}

// Prepare a zeroed theap for use by the calling thread; If `home` is NULL, it is a home itself.
MI_INTERNAL void mi_theap_init(mi_theap_t* theap, mi_heap_t* heap, mi_theap_t* home);

// Forget all pages: they are gone already.
MI_INTERNAL void mi_theap_reset(mi_theap_t* theap);

// Return the calling thread's theap of `heap` (NULL: the main heap), or NULL if it has none.
MI_INTERNAL mi_theap_t* mi_theap_find(const mi_heap_t* heap);

// Keep a page of another theap that this thread owns since its free into it; the oldest guest is
// given up.
MI_INTERNAL void mi_theap_add_guest(mi_theap_t* theap, mi_page_t* page);

// Take a guest of the class out of the ring of guests. NULL if there is none.
MI_INTERNAL mi_page_t* mi_theap_take_guest(mi_theap_t* theap, size_t size_class);

// Keep an empty page in its queue, so that malloc and free of many large blocks make no pages,
// within a budget that grows with the heap; it goes back at the next tick. False if it may not be
// kept.
MI_INTERNAL bool mi_theap_keep_idle(mi_theap_t* theap, mi_page_t* page);

// True if the pages kept in this way are beyond twice the budget, because the heap has shrunk.
MI_INTERNAL bool mi_theap_is_idle_much(const mi_theap_t* theap);

// True if THEAP-1 to THEAP-4 hold; for assertions, between two steps of the owner. THEAP-1 is
// checked only as far as the program has not damaged the list.
MI_INTERNAL bool mi_theap_is_valid(mi_theap_t* theap);

// Under the thread lock: enter `theap` into the list of the heap / take it out.
MI_INTERNAL void mi_theap_link(mi_theap_t* theap, mi_heap_t* heap);
MI_INTERNAL void mi_theap_unlink(mi_theap_t* theap);

#endif
