// SPDX-License-Identifier: MIT
// theap.h - the calling thread's part of a heap.
#ifndef MI_CORE_THEAP_H
#define MI_CORE_THEAP_H

#include "page.h"
#include "state.h"

// What a thread has before its first allocation and after its end: every list is empty, so that
// every size leads to the slow path, which makes a real one. Never written.
MI_INTERNAL_DATA_DECL mi_theap_t mi_theap_empty;

// What malloc of this thread allocates from: its home, unless the program set another default.
// Never NULL.
MI_INTERNAL_DATA_DECL __thread mi_theap_t* mi_theap_tls mi_attr_tls;
// The theap that this thread used last by naming a heap; never NULL.
MI_INTERNAL_DATA_DECL __thread mi_theap_t* mi_theap_recent_tls mi_attr_tls;

static mi_attr_inline mi_theap_t* mi_theap_self(void) { return mi_theap_tls; }

// The slow path is due after so many refills.
static inline void mi_theap_set_quick(mi_theap_t* theap, uint32_t count) {
  theap->quick_left = theap->quick_given = count;
}

// It is due soon: this thread freed what is to go back.
static inline void mi_theap_hurry(mi_theap_t* theap) {
  if (theap->thread_id == 0 || theap->quick_left <= MI_QUICK_WAITING) return;
  theap->quick_given -= theap->quick_left - MI_QUICK_WAITING;
  theap->quick_left = MI_QUICK_WAITING;
}

// The thread's theap of the main heap of its sub-process.
static inline mi_theap_t* mi_theap_home(void) { return mi_theap_tls->home; }

static inline mi_heap_t* mi_theap_heap(const mi_theap_t* theap) {
  return mi_atomic_load_relaxed(&((mi_theap_t*)(uintptr_t)theap)->heap);
}

static inline mi_subproc_t* mi_theap_subproc(const mi_theap_t* theap) {
  return mi_theap_heap(theap)->subproc;
}

// `current[c]` when there is no such page: a descriptor with nothing to give, so that malloc need
// not test for NULL.
#define MI_PAGE_NONE (&mi_pagemap.none[0])

// The page the class allocates from, or NULL.
static inline mi_page_t* mi_theap_current(const mi_theap_t* theap, size_t size_class) {
  mi_page_t* const page = theap->current[size_class];
  return page == MI_PAGE_NONE ? NULL : page;
}

// Take the head of a list that is not empty.
static mi_attr_inline mi_block_t* mi_theap_pop(mi_theap_t* theap, size_t size_class) {
  mi_block_t* const block = theap->free[size_class];
  theap->free[size_class] = mi_block_next(block);
  return block;
}

// More threads than this are a crowd. Blocks from this size on are always shared there.
#define MI_CROWD_THREADS 32
#define MI_SHARED_SIZE_MIN (MI_SLICE_SIZE / 32)

// In a crowd of threads nobody keeps pages: what waits with a thread that sleeps would count
// hundreds of times. They hold a portion of small blocks each (portion.c). But a thread that has
// not waited for a while keeps its pages of small blocks: it needs them all the time.
static inline bool mi_theap_is_crowd(mi_subproc_t* subproc) {
  return mi_atomic_load_relaxed(&subproc->count.threads) > MI_CROWD_THREADS;
}

// The same for a thread that said that it runs tasks of a pool.
static inline bool mi_theap_is_shared_class(const mi_theap_t* theap, size_t size_class) {
  if (theap->sample_interval != 0) return false;
  if (theap->home->is_in_threadpool) return true;
  if (!mi_theap_is_crowd(mi_theap_subproc(theap))) return false;
  return !theap->home->is_busy || size_class >= mi_class_of(MI_SHARED_SIZE_MIN);
}

// The first page of a class of small blocks may never use much of its slices, unless it is shared.
// While the heap has less than a slice for each class and thread, what others left in them counts.
static inline bool mi_theap_is_sparse_class(const mi_theap_t* theap, size_t size_class) {
  mi_counters_t* const count = &mi_theap_subproc(theap)->count;
  const int64_t threads = mi_atomic_load_relaxed(&count->threads);
  const int64_t slices = (int64_t)MI_CLASS_COUNT * (threads + 1);
  return size_class <= mi_class_of(MI_SLICE_SIZE / 8) &&
         mi_theap_current(theap, size_class) == NULL &&
         !mi_theap_is_shared_class(theap, size_class) &&
         mi_atomic_load_relaxed(&count->committed) <= slices * (int64_t)MI_SLICE_SIZE;
}

// Prepare a zeroed theap for use by the calling thread; `home` NULL: it is a home itself.
MI_INTERNAL void mi_theap_init(mi_theap_t* theap, mi_heap_t* heap, mi_theap_t* home);

// Forget all pages: they are gone already.
MI_INTERNAL void mi_theap_reset(mi_theap_t* theap);

// The calling thread's theap of `heap` (NULL: the main heap) if it has one, else NULL.
MI_INTERNAL mi_theap_t* mi_theap_find(const mi_heap_t* heap);

// The same, made now if there is none. NULL: out of memory.
MI_INTERNAL mi_theap_t* mi_theap_get(mi_heap_t* heap);

// The same for callers in a hurry.
static mi_attr_inline mi_theap_t* mi_theap_in(mi_heap_t* heap) {
  mi_theap_t* const theap = mi_theap_recent_tls;
  if (mi_likely(mi_atomic_load_relaxed(&theap->named) == heap)) return theap;
  return mi_theap_get(heap);
}

// Keep a page of another theap that this thread owns since its free into it; the oldest guest is
// passed on.
MI_INTERNAL void mi_theap_add_guest(mi_theap_t* theap, mi_page_t* page);

// A guest of the class, taken out of the ring, or NULL.
MI_INTERNAL mi_page_t* mi_theap_take_guest(mi_theap_t* theap, size_t size_class);

// A page in the queue or among the guests has no block in use any more.
MI_INTERNAL void mi_theap_page_emptied(mi_theap_t* theap, mi_page_t* page);

// An empty page may stay in its queue: malloc and free of many large blocks then make no pages.
// Within a budget that grows with the heap; what is kept goes back at the next tick.
MI_INTERNAL bool mi_theap_keep_idle(mi_theap_t* theap, mi_page_t* page);

// A kept page is used again or goes.
static inline void mi_theap_forget_idle(mi_theap_t* theap, mi_page_t* page) {
  if (!page->is_idle) return;
  page->is_idle = false;
  theap->idle_bytes -= page->reserved * page->block_size;
}

// Collect what others freed, and release pages without blocks in use, but the ones that malloc
// uses.
MI_INTERNAL void mi_theap_collect_pages(mi_theap_t* theap);

// Give up pages without a block in use that malloc still allocates from, in classes of several
// slices, until they hold no more than `limit` bytes. They keep a malloc and free pair from making
// pages; too many of them hold memory that other sizes could use. The class `busy` is left alone;
// MI_CLASS_COUNT for none.
MI_INTERNAL void mi_theap_trim(mi_theap_t* theap, size_t limit, size_t busy);

// Give up the pages of one class.
MI_INTERNAL void mi_theap_flush_class(mi_theap_t* theap, size_t size_class);

// Give up everything: lists go back into their pages, empty pages to the arenas, others to the
// pools.
MI_INTERNAL void mi_theap_flush(mi_theap_t* theap);

// Write `owner` into every page that the theap owns (hand over to another thread).
MI_INTERNAL void mi_theap_set_owner(mi_theap_t* theap, uintptr_t owner);

// Stop allocating from the current page of a class: its list goes back into it. The page is in no
// place then.
MI_INTERNAL mi_page_t* mi_theap_detach_current(mi_theap_t* theap, size_t size_class);

#endif
