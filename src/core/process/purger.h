// SPDX-License-Identifier: MIT
// purger.h - the purge thread: free memory goes back on time, although no thread allocates.
#ifndef MI_CORE_PURGER_H
#define MI_CORE_PURGER_H

#include "../heaps/heaps.h"

// Start the thread, if there is none, and the option permits it. Calls pthread_create, so never
// within malloc or free, nor while a lock is held. The process has a second thread, or the user
// asks for this one. The calling thread has entered its home.
MI_INTERNAL void mi_purger_start(void);

// End the thread, and wait until it is gone, at most `patience_ms`; not again if it has been waited
// for in vain, but with the patience of an unload. True if there was one, and it is gone.
#define MI_PURGER_PATIENCE_MS 1000
#define MI_PURGER_PATIENCE_UNLOAD_MS 60000
MI_INTERNAL bool mi_purger_stop(size_t patience_ms);

// Do once, on the calling thread, what the purge thread does for memory that waits. Returns after
// how many milliseconds some is due again, MI_RETAIN_NEVER if nothing waits that will go.
MI_INTERNAL uint64_t mi_purger_tick(void);

// The delay after which memory goes back has changed: also what is due later by the old one.
MI_INTERNAL void mi_purger_follow_delay(void);

// Ask the thread to end, without waiting. False if there is none.
MI_INTERNAL bool mi_purger_dismiss(void);

// The thread has been waited for in vain: find out whether it exists, and forget it if not, so that
// the program gets another one. Asks the system: for callers that a sandbox need not permit it.
MI_INTERNAL void mi_purger_forget_vanished(void);

// In the child of a fork, which does not have the thread.
MI_INTERNAL void mi_purger_forget(void);

#endif
