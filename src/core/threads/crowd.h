// SPDX-License-Identifier: MIT
// crowd.h - tells the paths that make, refill and free pages if so many threads run that they share
// pages.
#ifndef MI_CORE_CROWD_H
#define MI_CORE_CROWD_H

#include "theap.h"

// More threads than this are a crowd.
#define MI_CROWD_THREADS 32
// With less memory for each thread, and one more, there is nothing to gain from blocks that threads
// exchange: PORTION-6.
#define MI_CROWD_EXCHANGE_MIN ((int64_t)(16 * MI_SLICE_SIZE))

// In a crowd no thread keeps pages: pages kept by sleeping threads would be multiplied by hundreds
// of threads. Each thread holds a portion of small blocks instead (portion.c). But a thread that
// has not waited for a while keeps its pages: it needs them all the time.
static inline bool mi_crowd_is_here(mi_subproc_t* subproc) {
  return mi_atomic_load_relaxed(&subproc->count.threads) > MI_CROWD_THREADS;
}

// True if the thread shares pages: it waits in a crowd, or has said that it runs tasks of a pool.
static inline bool mi_crowd_shares(const mi_theap_t* theap) {
  if (theap->sample_is_exact) return false;
  if (theap->home->is_in_threadpool) return true;
  return mi_crowd_is_here(mi_theap_subproc(theap)) && !theap->home->is_busy;
}

// True if the heap has at most a slice for each class and each of so many threads.
static inline bool mi_crowd_has_only(mi_subproc_t* subproc, int64_t threads) {
  const int64_t bytes = (int64_t)(MI_CLASS_COUNT * MI_SLICE_SIZE) * threads;
  return mi_atomic_load_relaxed(&subproc->count.committed) <= bytes;
}

// True if the heap is small for its threads: a page that one thread keeps, or that is hardly used,
// counts then.
static inline bool mi_crowd_has_little(mi_subproc_t* subproc) {
  return mi_crowd_has_only(subproc, mi_atomic_load_relaxed(&subproc->count.threads) + 1);
}

// True if it is so small for its threads that blocks which they exchange are to stay with whoever
// frees them, and not so small that this saves nothing: PORTION-6.
static inline bool mi_crowd_may_exchange(mi_subproc_t* subproc) {
  const int64_t threads = mi_atomic_load_relaxed(&subproc->count.threads) + 1;
  const int64_t committed = mi_atomic_load_relaxed(&subproc->count.committed);
  return committed >= MI_CROWD_EXCHANGE_MIN * threads && mi_crowd_has_only(subproc, 2 * threads);
}

// True if it is small for those threads of a crowd that are busy, but one: pages in their queues
// might be most of it.
static inline bool mi_crowd_is_tight(mi_subproc_t* subproc) {
  return mi_crowd_has_only(subproc, mi_atomic_load_relaxed(&subproc->count.busy_threads) - 1);
}

// True if old contents of the slices of a new page should be given back: the first page of a class
// of small blocks may never use much of its slices, unless it is shared.
static inline bool mi_crowd_is_sparse(const mi_theap_t* theap, size_t size_class) {
  return size_class < MI_WIDE_CLASS && mi_theap_current(theap, size_class) == NULL &&
         !mi_crowd_shares(theap) && mi_crowd_has_little(mi_theap_subproc(theap));
}

// Called now and then when the thread refills: if it waited for something since the last look, it
// is less busy (CROWD-1).
MI_INTERNAL void mi_crowd_look(mi_theap_t* home);

// Called after MI_CADENCE_CALLS refills: it is more busy.
MI_INTERNAL void mi_crowd_credit(mi_theap_t* home);

// The thread ends.
MI_INTERNAL void mi_crowd_leave(mi_theap_t* home);

#endif
