// SPDX-License-Identifier: MIT
// fork.h - keeps the library usable in the child of a fork, which has one thread and all the
// memory.
#ifndef MI_CORE_FORK_H
#define MI_CORE_FORK_H

#include "../heaps/heaps.h"

// Register the handlers, once in the life of the process and of its children. May allocate. The
// system may refuse: call again when a thread starts, because only then can another thread hold a
// lock.
MI_INTERNAL void mi_fork_register(void);

// In the child: take over what other threads owned. Called by the fork handler, and by the set-up
// of a child that was forked before the handlers were registered.
MI_INTERNAL void mi_fork_take_over(void);

// The program is about to create a thread: in the child of a fork whose handler has not run, take
// over now (FORK-5).
MI_INTERNAL void mi_fork_before_thread(void);

// The program is about to wait for the end of a thread: inside of a fork, leave the locks that it
// holds. True if so; call the other one after it.
MI_INTERNAL bool mi_fork_pause(void);
MI_INTERNAL void mi_fork_resume(void);

#endif
