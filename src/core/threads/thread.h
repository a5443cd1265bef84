// SPDX-License-Identifier: MIT
// thread.h - how threads get theaps and give them up.
#ifndef MI_CORE_THREAD_H
#define MI_CORE_THREAD_H

#include "theap.h"

// Return the calling thread's home in a sub-process, made now if it has none. NULL when out of
// memory. enter.c does everything else that a starting thread needs.
MI_INTERNAL mi_theap_t* mi_thread_start(mi_subproc_t* subproc);

// Make a theap of the calling thread in `heap`, in which it has none. NULL when out of memory.
MI_INTERNAL mi_theap_t* mi_thread_add_theap(mi_theap_t* home, mi_heap_t* heap);

// Ask the system to call us when the calling thread ends. It may refuse (`is_unwatched`): call
// again.
MI_INTERNAL void mi_thread_watch(mi_theap_t* home);

// True if the end of the calling thread will be noticed (THREAD-7).
MI_INTERNAL bool mi_thread_is_present(void);

// The calling thread is one of ours: it never counts as present.
MI_INTERNAL void mi_thread_stay_absent(void);

// In the child of a fork: no other thread is present.
MI_INTERNAL void mi_thread_present_alone(void);

// Handle the end of a thread: its memory is taken away from it. If the thread goes on, it may get
// memory again.
MI_INTERNAL void mi_thread_leave(void);

// The same for a thread that goes on: it stays present.
MI_INTERNAL void mi_thread_withdraw(void);

// Return the number of threads with memory here / that ever had some, in all sub-processes. Under
// the thread lock.
MI_INTERNAL int64_t mi_thread_count_all(void);
MI_INTERNAL int64_t mi_thread_total_all(void);

// Give up the home of the calling thread. If the thread goes on, it may get another one.
MI_INTERNAL void mi_thread_give_up(void);

// After the heap with slot `slot` has ended: give up the calling thread's part of it.
MI_INTERNAL void mi_thread_release_ended(size_t slot);

// Begin a look at the pages of the calling thread, to give up idle ones (FLUSH-1): of `theap`, of
// its home, and of a few other theaps, in turn (THREAD-8).
MI_INTERNAL void mi_thread_begin_look(mi_theap_t* theap);

// Pages that are looked at in one part, more if the last one is longer ago, and at most: 5 to 25 us
// after 1024 refills, which take some 200, and up to 1 ms after a quarter of a second.
#define MI_LOOK_PAGES ((size_t)(MI_IS_TINY ? 8 : 512))
#define MI_LOOK_PAGES_EACH_MS ((size_t)(MI_IS_TINY ? 1 : 64))
#define MI_LOOK_PAGES_MAX ((size_t)(MI_IS_TINY ? 64 : 16384))

// Go on with that of `theap` and of its home.
MI_INTERNAL void mi_thread_look(mi_theap_t* theap, uint64_t now);

// Give back what the calling thread holds and does not need, in all its heaps.
MI_INTERNAL void mi_thread_flush_all(mi_theap_t* home);

// Free the theaps of the calling thread whose heaps have ended. Not inside of a malloc, which may
// go on with one of them.
MI_INTERNAL void mi_thread_sweep_ended(void);

// Give back what the calling thread does not use, in all its heaps, before it waits for long. It
// keeps its pages that have blocks in use. False if there is more to do than is done at once.
#define MI_THREAD_REST_PAGES ((size_t)(MI_IS_TINY ? 4 : 1024)) // get holes: some 5 us each
MI_INTERNAL bool mi_thread_rest(mi_theap_t* home);

// Put the pages of ended threads that no thread took over for a while where any theap finds them.
// False if there were none.
MI_INTERNAL bool mi_thread_release_orphans(void);

// True if THREAD-4 and PORTION-3 hold and all theaps of the thread are valid; for assertions, under
// the thread lock.
MI_INTERNAL bool mi_thread_is_valid(mi_theap_t* home);

// Release the pages of all orphans now.
MI_INTERNAL void mi_thread_flush_orphans(void);

// Under the thread lock: return the bucket of a thread id. Every home in use is in one.
static inline mi_theap_t** mi_thread_bucket(uintptr_t thread_id) {
  mi_lock_expect(&mi_state.thread_lock);
  return &mi_state.theap_bucket[(mi_random_mix(thread_id) >> 32) % MI_THEAP_BUCKETS];
}

#endif
