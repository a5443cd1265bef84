// SPDX-License-Identifier: MIT
// unload.h - the end of all memory.
#ifndef MI_CORE_UNLOAD_H
#define MI_CORE_UNLOAD_H

#include "../heaps/heaps.h"

// Give back all memory, including that of blocks in use, and return to the state before the first
// call (unload.c). The second function does so only if no other thread has memory here; otherwise
// it ends the calling thread's part, and returns false.
MI_INTERNAL void mi_unload(void);
MI_INTERNAL bool mi_unload_alone(void);

#endif
