// SPDX-License-Identifier: MIT
// enter.h - the calling thread's theaps, made when it needs them. The ways to get one:
//
//   what malloc allocates from            mi_self_theap   the home, or the default of the program
//   the home                              mi_self_home    mi_theap_empty when there is none
//   that of a heap, or NULL               mi_theap_find
//   that of a heap, made if need be       mi_enter_theap, mi_enter_theap_in (inline)
//   the home, made if need be             mi_enter_home, mi_enter_home_in a sub-process
//   a given one, or the home, for slow.c  mi_slow_theap
#ifndef MI_CORE_ENTER_H
#define MI_CORE_ENTER_H

#include "../heaps/heaps.h"

// Return the calling thread's home, made now if it has none: in the main sub-process, or in a given
// one. NULL when out of memory.
MI_INTERNAL mi_theap_t* mi_enter_home(void);
MI_INTERNAL mi_theap_t* mi_enter_home_in(mi_subproc_t* subproc);

// Return the calling thread's theap of `heap` (NULL: the main heap), made now if it has none. NULL
// when out of memory.
MI_INTERNAL mi_theap_t* mi_enter_theap(mi_heap_t* heap);

// The same, with an inline fast path.
static mi_attr_inline mi_theap_t* mi_enter_theap_in(mi_heap_t* heap) {
  mi_theap_t* const theap = mi_self()->theap_recent;
  if (mi_likely(mi_atomic_load_relaxed(&theap->named) == heap)) return theap;
  return mi_enter_theap(heap);
}

// Return the sub-process of the calling thread / move the thread to another one. False if the
// thread has left the main sub-process before, or if there is no memory.
MI_INTERNAL mi_subproc_t* mi_enter_current(void);
MI_INTERNAL bool mi_enter_subproc(mi_subproc_t* subproc);

#endif
