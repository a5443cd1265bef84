// SPDX-License-Identifier: MIT
// asleep.h - the purge thread takes over what is in the queues of threads that sleep.
#ifndef MI_CORE_ASLEEP_H
#define MI_CORE_ASLEEP_H

#include "hold.h"

// What the purge thread knows between two looks; all zero before the first.
typedef struct mi_asleep_s {
  uint64_t due_ms; // when the next look is due
  bool is_any; // the last one found a thread that may have pages
} mi_asleep_t;

// Take over the queues of threads that sleep, if this is due. Returns after how many milliseconds
// to call it again, MI_RETAIN_NEVER if there is nothing to take over. Purge thread only.
MI_INTERNAL uint64_t mi_asleep_look(mi_asleep_t* asleep);

// True if a page may be in a queue that can be taken over.
static inline bool mi_asleep_is_due(void) { return mi_atomic_load_relaxed(&mi_state.has_queued); }

// Let the purge thread take over what is in the queues of the calling thread, whose home this is,
// from before there was a purge thread.
MI_INTERNAL void mi_asleep_share(mi_theap_t* home);

// Until the second call the purge thread takes over no queue. Not while a lock is held.
MI_INTERNAL void mi_asleep_pause(void);
MI_INTERNAL void mi_asleep_resume(void);

#endif
