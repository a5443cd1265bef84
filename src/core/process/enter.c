// SPDX-License-Identifier: MIT
// enter.c - gives a thread what it needs: on its first call, when it joins a sub-process, and when
// it first allocates from a heap.
//
// The order matters: the process is set up first; the theap is in place before the steps that may
// allocate through us: registering for the end of the thread, and for fork where set-up could not
// (such an allocation comes back here, and finds a usable process: INIT-2).
#include "enter.h"

#include <errno.h>

#include "fork.h"
#include "init.h"

MI_INTERNAL mi_theap_t* mi_enter_home_in(mi_subproc_t* subproc) {
  mi_theap_t* const home = mi_thread_start(subproc);
  if (home == NULL) return NULL;
  mi_fork_register();
  mi_thread_watch(home);
  return home;
}

MI_INTERNAL mi_theap_t* mi_enter_home(void) {
  mi_process_setup();
  mi_theap_t* const home = mi_self_home();
  return home->thread_id != 0 ? home : mi_enter_home_in(&mi_state.main);
}

MI_INTERNAL mi_theap_t* mi_enter_theap(mi_heap_t* heap) {
  mi_theap_t* const home = mi_enter_home();
  if (MI_HAS_USE_CHECK && heap != NULL && mi_heap_has_ended(heap)) {
    mi_report(MI_ERROR_WRONG_HEAP, "heap", heap, 0);
    errno = EINVAL;
    return NULL;
  }
  mi_theap_t* theap = mi_theap_find(heap);
  if (theap == NULL && home != NULL) theap = mi_thread_add_theap(home, heap);
  if (theap == NULL) {
    mi_report(MI_ERROR_OUT_OF_MEMORY, "heap", NULL, sizeof(mi_theap_t));
    errno = ENOMEM;
    return NULL;
  }
  mi_self()->theap_recent = theap;
  return theap;
}

MI_INTERNAL mi_subproc_t* mi_enter_current(void) {
  mi_theap_t* const home = mi_self_home();
  return home->thread_id != 0 ? mi_theap_subproc(home) : &mi_state.main;
}

MI_INTERNAL bool mi_enter_subproc(mi_subproc_t* subproc) {
  mi_subproc_t* const current = mi_enter_current();
  if (current == subproc) return true;
  if (current != &mi_state.main) return false;
  mi_parcel_flush();
  mi_thread_give_up();
  return mi_enter_home_in(subproc) != NULL;
}
