// SPDX-License-Identifier: MIT
// init.h - set up the process, once.
#ifndef MI_CORE_INIT_H
#define MI_CORE_INIT_H

#include "../heaps/heaps.h"

// Find out about the system, by calls that a sandbox may forbid later; takes no memory. Called
// once, by the constructor, on any thread. A thread that allocates earlier does without it.
MI_INTERNAL void mi_process_prepare(void);
// Set up the process (idempotent).
MI_INTERNAL void mi_process_setup(void);

#endif
