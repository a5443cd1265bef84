// SPDX-License-Identifier: MIT
// self.h - the thread-local state: what a thread allocates from, and what it is doing just now. All
// of it is valid also before the first allocation of the thread and after its end.
//
// SELF-1  only the thread itself reads or writes this state; a signal handler on the thread leaves
//     the state as it was.
// SELF-2  the state is small: these variables take room in the static TLS block of every thread, of
//     which little is left for libraries that are loaded late. With the parcel of parcel.c and the
//     locks of os/lock.h they take 48 bytes in all (test/interop/test_embed.py).
//
// report.c explains the fields that concern reports.
#ifndef MI_CORE_SELF_H
#define MI_CORE_SELF_H

#include "pagemap.h"

typedef struct mi_self_s {
  // -- report.c --
  uint8_t place; // mi_report_place_t: the user's call, while `quiet` is not 0
  uint8_t quiet; // nesting depth of `mi_report_enter` on this thread
  uint8_t waiting; // reports of this thread in slots
  uint8_t missed; // reports that found no slot; MI_SELF_MISSED_MAX: so many or more
  uint8_t missed_kind : 4; // mi_error_kind_t of the last missed one
  bool is_delivering : 1;
  // -- api/output.c --
  bool is_printing : 1;
  bool is_in_error : 1; // in the user's error function
  // -- api/process.c --
  bool is_in_deferred : 1; // in the user's deferred-free function
  // -- fork.c --
  // Forks that this thread began while it held a lock and that are not over. Forks end in reverse
  // order, and those that began without a lock are the outermost.
  uint8_t forks_inside : 7;
  // -- observe/stack.c --
  bool is_in_stack : 1; // reads a stack
} mi_self_t;

#define MI_SELF_MISSED_MAX UINT8_MAX

MI_INTERNAL_DATA_DECL __thread mi_self_t mi_self mi_attr_tls;

// -- what a thread allocates from --

// The value of `current[c]` when there is no current page: a descriptor without free blocks, so
// that malloc need not test for NULL.
#define MI_PAGE_NONE (&mi_pagemap.none[0])

// The theap of a thread before its first allocation and after its end: every list is empty, so that
// every size leads to the slow path, which makes a real theap. Never written.
MI_INTERNAL_DATA_DECL mi_theap_t mi_theap_empty;

// The theap that malloc of this thread allocates from: its home, unless the program set another
// default. Never NULL.
MI_INTERNAL_DATA_DECL __thread mi_theap_t* mi_theap_tls mi_attr_tls;
// The theap that this thread used last by naming a heap; never NULL.
MI_INTERNAL_DATA_DECL __thread mi_theap_t* mi_theap_recent_tls mi_attr_tls;

static mi_attr_inline mi_theap_t* mi_self_theap(void) { return mi_theap_tls; }

// Return the calling thread's theap of the main heap of its sub-process.
static inline mi_theap_t* mi_self_home(void) { return mi_theap_tls->home; }

// Make the slow path of the calling thread due soon: the thread freed memory that is to go back.
static inline void mi_self_hurry(void) {
  mi_theap_t* const theap = mi_self_theap();
  if (theap->thread_id == 0 || theap->quick_left <= MI_QUICK_WAITING) return;
  theap->quick_given -= theap->quick_left - MI_QUICK_WAITING;
  theap->quick_left = MI_QUICK_WAITING;
}

#endif
