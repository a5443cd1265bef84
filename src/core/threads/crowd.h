// SPDX-License-Identifier: MIT
// crowd.h - whether so many threads run that they share pages: questions of the paths that make,
// refill and free.
#ifndef MI_CORE_CROWD_H
#define MI_CORE_CROWD_H

#include "theap.h"

// More threads than this are a crowd. Blocks from this size on are always shared there.
#define MI_CROWD_THREADS 32
#define MI_SHARED_SIZE_MIN (MI_SLICE_SIZE / 32)

// In a crowd of threads nobody keeps pages: what waits with a thread that sleeps would count
// hundreds of times. They hold a portion of small blocks each (portion.c). But a thread that has
// not waited for a while keeps its pages of small blocks: it needs them all the time.
static inline bool mi_crowd_is_here(mi_subproc_t* subproc) {
  return mi_atomic_load_relaxed(&subproc->count.threads) > MI_CROWD_THREADS;
}

// The same for a thread that said that it runs tasks of a pool.
static inline bool mi_crowd_shares(const mi_theap_t* theap, size_t size_class) {
  if (theap->sample_interval != 0) return false;
  if (theap->home->is_in_threadpool) return true;
  if (!mi_crowd_is_here(mi_theap_subproc(theap))) return false;
  return !theap->home->is_busy || size_class >= mi_class_of(MI_SHARED_SIZE_MIN);
}

// The first page of a class of small blocks may never use much of its slices, unless it is shared.
// While the heap has less than a slice for each class and thread, what others left in them counts.
static inline bool mi_crowd_is_sparse(const mi_theap_t* theap, size_t size_class) {
  mi_counters_t* const count = &mi_theap_subproc(theap)->count;
  const int64_t threads = mi_atomic_load_relaxed(&count->threads);
  const int64_t slices = (int64_t)MI_CLASS_COUNT * (threads + 1);
  return size_class <= mi_class_of(MI_SLICE_SIZE / 8) &&
         mi_theap_current(theap, size_class) == NULL && !mi_crowd_shares(theap, size_class) &&
         mi_atomic_load_relaxed(&count->committed) <= slices * (int64_t)MI_SLICE_SIZE;
}

// The thread refills: note whether it waited for something since it last did.
MI_INTERNAL void mi_crowd_note_wait(mi_theap_t* home);

// A number of refills is over: decide whether the thread is busy (CROWD-1).
MI_INTERNAL void mi_crowd_weigh_waits(mi_theap_t* home);

#endif
