// SPDX-License-Identifier: MIT
// tls.h - the identity of a thread, and one pointer per thread, as cheap as the platform allows.
//
// The identity is the thread pointer itself: one instruction, never 0, a multiple of 16 (so that
// the low four bits can carry flags and small values can mean "no thread"). It is unique only among
// living threads: after a thread has ended, the system may give its identity to a new one (thread.c
// says why that is harmless).
//
// The pointer uses the model initial-exec: no call, no allocation, valid before any constructor.
// (With local-dynamic the loader is called. In a library that is loaded late the loader may
// allocate, but not from us: our malloc is not that of the process then. In a library that was
// there from the start, room for our variables is there as well.)
#ifndef MI_OS_TLS_H
#define MI_OS_TLS_H

#include "../base/config.h"

#if MI_IS_OS_PLAIN
#include <pthread.h>
#endif

static mi_attr_inline uintptr_t mi_tls_thread_id(void) {
#if MI_IS_OS_PLAIN
  return (uintptr_t)pthread_self();
#else
  return mi_cpu_thread_pointer();
#endif
}

#endif
