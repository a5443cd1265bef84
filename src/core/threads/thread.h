// SPDX-License-Identifier: MIT
// thread.h - how threads get a theap and leave it.
#ifndef MI_CORE_THREAD_H
#define MI_CORE_THREAD_H

#include "theap.h"

// The calling thread's home in a sub-process, made now if it has none. NULL: out of memory. Nothing
// else is done of what a thread needs when it starts: enter.c.
MI_INTERNAL mi_theap_t* mi_thread_start(mi_subproc_t* subproc);

// A theap of the calling thread in `heap`, in which it has none. NULL: out of memory.
MI_INTERNAL mi_theap_t* mi_thread_add_theap(mi_theap_t* home, mi_heap_t* heap);

// Be told of the end of the calling thread. The system may refuse (`is_unwatched`): call again.
MI_INTERNAL void mi_thread_watch(mi_theap_t* home);

// The end of a thread: its memory is taken away from it. It may go on and get some again.
MI_INTERNAL void mi_thread_leave(void);

// The calling thread has no home any more. It may go on and get another one.
MI_INTERNAL void mi_thread_give_up(void);

// A heap has ended whose slot is `slot`: give up the calling thread's part of it.
MI_INTERNAL void mi_thread_release_ended(size_t slot);

// What the calling thread holds and does not need, in its heap and in all others, goes back.
MI_INTERNAL void mi_thread_flush_all(mi_theap_t* home);

// Threads ended and left pages that nobody took over for a while: put them where `theap` finds
// them. False: nothing done.
MI_INTERNAL bool mi_thread_release_orphans(void);

// THREAD-4, PORTION-3, and the theaps of the thread; for assertions, under the thread lock.
MI_INTERNAL bool mi_thread_is_valid(mi_theap_t* home);

// Release the pages of all orphans now.
MI_INTERNAL void mi_thread_flush_orphans(void);

// Under the thread lock: every theap in use is one of a bucket.
static inline mi_theap_t** mi_thread_bucket(uintptr_t thread_id) {
  mi_lock_expect(&mi_state.thread_lock);
  return &mi_state.theap_bucket[(mi_random_mix(thread_id) >> 32) % MI_THEAP_BUCKETS];
}

#endif
