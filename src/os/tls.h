// SPDX-License-Identifier: MIT
// tls.h - the identity of a thread, as cheap as the platform allows.
//
// The identity is the thread pointer: one instruction, never 0, a multiple of 16 (so that the low
// four bits can carry flags and small values can mean "no thread"). Where the C library is not
// glibc, it is twice the pointer: that of musl is a multiple of 8 only. On WebAssembly it is the
// address of the thread-local variables, or a number if there are no threads; on Windows that of
// what the system knows of the thread, which all its fibers share; on macOS it is made of that of
// the values of the thread's keys. It is unique only
// among living threads: after a thread has ended, the system may give its identity to a new one
// (thread.c says why that is harmless).
#ifndef MI_OS_TLS_H
#define MI_OS_TLS_H

#include "../base/config.h"

#if MI_IS_OS_PLAIN
#include <pthread.h>
#endif
#if defined(__has_include) && !MI_IS_WINDOWS
#if __has_include(<features.h>)
#include <features.h> // defines __GLIBC__, if there is one
#endif
#endif

#if defined(__GLIBC__) || MI_IS_WASM || MI_IS_WINDOWS
#define MI_TLS_ID_SHIFT 0
#else
#define MI_TLS_ID_SHIFT 1
#endif

static mi_attr_inline uintptr_t mi_tls_thread_id(void) {
#if MI_IS_OS_PLAIN
  return (uintptr_t)pthread_self() << MI_TLS_ID_SHIFT;
#else
  return mi_cpu_thread_pointer() << MI_TLS_ID_SHIFT;
#endif
}

#endif
