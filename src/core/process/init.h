// SPDX-License-Identifier: MIT
// init.h - set up the process, once.
#ifndef MI_CORE_INIT_H
#define MI_CORE_INIT_H

#include "../heaps/heaps.h"

// Find out about the system, which may ask it for what a sandbox forbids later; no memory. Once, by
// the constructor, on any thread. Whoever comes before does without.
MI_INTERNAL void mi_process_prepare(void);
// Set up the process (idempotent).
MI_INTERNAL void mi_process_setup(void);

#endif
