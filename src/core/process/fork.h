// SPDX-License-Identifier: MIT
// fork.h - the child of a fork has one thread and all the memory.
#ifndef MI_CORE_FORK_H
#define MI_CORE_FORK_H

#include "../heaps/heaps.h"

// Register the handlers, once in the life of the process and of its children. May allocate. The
// system may refuse: call again when a thread starts, because only then another one may hold a
// lock.
MI_INTERNAL void mi_fork_register(void);

// In the child: take what other threads owned. The handler, and for forks before that was known.
MI_INTERNAL void mi_fork_take_over(void);

#endif
