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

#endif
