// SPDX-License-Identifier: MIT
// atomic.h - atomic operations with the memory order in the name.
//
// Every atomic access of the library goes through these names, so that `git grep` finds all
// accesses of one kind. There is no sequentially consistent operation: no protocol here needs a
// total order. Deliberately absent: locks (os/lock.h) and double-word operations.
//
// One access is not atomic in the sense of C: `mi_atomic_peek` reads a plain field that its owner
// may be writing, for reports (usage.c). The owner's accesses stay plain because free counts with
// one instruction on memory, which no atomic access compiles to. An aligned field of at most a word
// is read as a whole, with some value that it had; the reader copes with any. mi_attr_racy tells
// the thread sanitizer; that of clang obeys it for plain accesses only.
#ifndef MI_BASE_ATOMIC_H
#define MI_BASE_ATOMIC_H

#include <stdatomic.h>

#include "check.h"

#define mi_atomic(type) _Atomic(type)

#define mi_atomic_load_relaxed(p) atomic_load_explicit(p, memory_order_relaxed)
#define mi_atomic_load_acquire(p) atomic_load_explicit(p, memory_order_acquire)
#define mi_atomic_peek(p) (*(const volatile __typeof__(*(p))*)(p))
#define mi_atomic_store_relaxed(p, x) atomic_store_explicit(p, x, memory_order_relaxed)
#define mi_atomic_store_release(p, x) atomic_store_explicit(p, x, memory_order_release)
#define mi_atomic_swap_relaxed(p, x) atomic_exchange_explicit(p, x, memory_order_relaxed)
#define mi_atomic_swap_acquire(p, x) atomic_exchange_explicit(p, x, memory_order_acquire)
#define mi_atomic_swap_release(p, x) atomic_exchange_explicit(p, x, memory_order_release)
#define mi_atomic_swap_acq_rel(p, x) atomic_exchange_explicit(p, x, memory_order_acq_rel)
#define mi_atomic_or_release(p, x) atomic_fetch_or_explicit(p, x, memory_order_release)
#define mi_atomic_or_relaxed(p, x) atomic_fetch_or_explicit(p, x, memory_order_relaxed)
#define mi_atomic_and_acq_rel(p, x) atomic_fetch_and_explicit(p, x, memory_order_acq_rel)
#define mi_atomic_and_relaxed(p, x) atomic_fetch_and_explicit(p, x, memory_order_relaxed)
#define mi_atomic_add_relaxed(p, x) atomic_fetch_add_explicit(p, x, memory_order_relaxed)
#define mi_atomic_sub_relaxed(p, x) atomic_fetch_sub_explicit(p, x, memory_order_relaxed)
#define mi_atomic_add_acq_rel(p, x) atomic_fetch_add_explicit(p, x, memory_order_acq_rel)
#define mi_atomic_sub_release(p, x) atomic_fetch_sub_explicit(p, x, memory_order_release)
#define mi_atomic_cas_weak_relaxed(p, expected, desired)                                           \
  atomic_compare_exchange_weak_explicit(p, expected, desired, memory_order_relaxed,                \
                                        memory_order_relaxed)
#define mi_atomic_cas_weak_acquire(p, expected, desired)                                           \
  atomic_compare_exchange_weak_explicit(p, expected, desired, memory_order_acquire,                \
                                        memory_order_relaxed)
#define mi_atomic_cas_weak_release(p, expected, desired)                                           \
  atomic_compare_exchange_weak_explicit(p, expected, desired, memory_order_release,                \
                                        memory_order_relaxed)
#define mi_atomic_cas_weak_acq_rel(p, expected, desired)                                           \
  atomic_compare_exchange_weak_explicit(p, expected, desired, memory_order_acq_rel,                \
                                        memory_order_acquire)
#define mi_atomic_cas_strong_acq_rel(p, expected, desired)                                         \
  atomic_compare_exchange_strong_explicit(p, expected, desired, memory_order_acq_rel,              \
                                          memory_order_relaxed)
#define mi_atomic_cas_strong_relaxed(p, expected, desired)                                         \
  atomic_compare_exchange_strong_explicit(p, expected, desired, memory_order_relaxed,              \
                                          memory_order_relaxed)
#define mi_atomic_cas_strong_release(p, expected, desired)                                         \
  atomic_compare_exchange_strong_explicit(p, expected, desired, memory_order_release,              \
                                          memory_order_relaxed)
#define mi_atomic_cas_strong_acquire(p, expected, desired)                                         \
  atomic_compare_exchange_strong_explicit(p, expected, desired, memory_order_acquire,              \
                                          memory_order_relaxed)

// Order accesses without one of their own, which plain ones need that another thread may see: what
// was read before the first from all that comes behind it, and all that comes before the second
// from what is written behind it. (gcc has none for ThreadSanitizer, which does not know them.)
#if MI_IS_TSAN
#define mi_atomic_fence_acquire() mi_atomic_signal_fence()
#define mi_atomic_fence_release() mi_atomic_signal_fence()
#else
#define mi_atomic_fence_acquire() atomic_thread_fence(memory_order_acquire)
#define mi_atomic_fence_release() atomic_thread_fence(memory_order_release)
#endif

// Orders accesses as a signal handler of the same thread sees them; generates no instruction.
#define mi_atomic_signal_fence() atomic_signal_fence(memory_order_acq_rel)

#endif
