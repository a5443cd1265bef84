// SPDX-License-Identifier: MIT
// idle.h - a thread that is going to wait gives back what it does not use.
#ifndef MI_CORE_IDLE_H
#define MI_CORE_IDLE_H

#include "../heaps/heaps.h"

// Return after how many milliseconds of waiting the calling thread has something to give back (0:
// now), or MI_RETAIN_NEVER.
MI_INTERNAL uint64_t mi_idle_due(void);

// Give back what the calling thread does not use and, without a purge thread, what is due of what
// waits.
MI_INTERNAL void mi_idle_rest(void);

#endif
