// SPDX-License-Identifier: MIT
// tls.h - the identity of a thread, and one pointer per thread, as cheap as the platform allows.
//
// The identity is the thread pointer itself: one instruction, never 0, a multiple of 16 (so that
// the low four bits can carry flags and small values can mean "nobody"). It is unique among living
// threads only: the system gives it to a new thread after its owner ended (see thread.c for why
// that is harmless).
//
// The pointer uses the initial-exec model: no call, no allocation, valid before any constructor.
// (With MI_LOCAL_DYNAMIC_TLS the dynamic loader is called, which may call the malloc of libc.)
#ifndef MI_OS_TLS_H
#define MI_OS_TLS_H

#include "../base/config.h"

static mi_attr_inline uintptr_t mi_tls_thread_id(void) {
  // On x86-64 one load from %fs:0 that the compiler may merge and schedule freely.
  return (uintptr_t)__builtin_thread_pointer();
}

#endif
