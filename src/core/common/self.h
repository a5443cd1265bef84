// SPDX-License-Identifier: MIT
// self.h - what a thread allocates from, in its thread-local state (os/thread_self.h): from its
// first allocation to its end a theap of its own, before and after that an empty one.
#ifndef MI_CORE_SELF_H
#define MI_CORE_SELF_H

#include "pagemap.h"

// The value of `current[c]` when there is no current page: a descriptor without free blocks, so
// that malloc need not test for NULL.
#define MI_PAGE_NONE (&mi_pagemap.none[0])

// The theap of a thread before its first allocation and after its end: every list is empty, so that
// every size leads to the slow path, which makes a real theap. Never written.
MI_INTERNAL_DATA_DECL mi_theap_t mi_theap_empty;

// Return the theap that malloc of the calling thread allocates from.
static mi_attr_inline mi_theap_t* mi_self_theap(void) { return mi_self()->theap; }

// Return the calling thread's theap of the main heap of its sub-process.
static inline mi_theap_t* mi_self_home(void) { return mi_self()->theap->home; }

// Make the slow path of the calling thread due soon: the thread freed memory that is to go back.
static inline void mi_self_hurry(void) {
  mi_theap_t* const theap = mi_self_theap();
  if (theap->thread_id == 0 || theap->quick_left <= MI_QUICK_WAITING) return;
  theap->quick_given -= theap->quick_left - MI_QUICK_WAITING;
  theap->quick_left = MI_QUICK_WAITING;
}

#endif
