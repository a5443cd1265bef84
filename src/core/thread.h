// SPDX-License-Identifier: MIT
// thread.h - how threads get a theap and leave it.
#ifndef MI_CORE_THREAD_H
#define MI_CORE_THREAD_H

#include "core.h"
#include "theap.h"

// The calling thread has no theap: give it one. NULL: out of memory.
MI_INTERNAL mi_theap_t* mi_thread_get_theap(void);

// Threads ended and left pages that nobody took over for a while: put them where `theap` finds
// them. False: nothing done.
MI_INTERNAL bool mi_thread_release_orphans(void);

// Release the pages of all orphans now.
MI_INTERNAL void mi_thread_flush_orphans(void);

// Under the thread lock: every theap in use is one of a bucket.
static inline mi_theap_t** mi_thread_bucket(uintptr_t thread_id) {
  return &mi_state.theap_bucket[(mi_random_mix(thread_id) >> 32) % MI_THEAP_BUCKETS];
}

#endif
