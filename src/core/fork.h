// SPDX-License-Identifier: MIT
// fork.h - the child of a fork has one thread and all the memory.
#ifndef MI_CORE_FORK_H
#define MI_CORE_FORK_H

#include "core.h"

// Register the handlers, once in the life of the process.
MI_INTERNAL void mi_fork_register(void);

#endif
