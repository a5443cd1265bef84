// SPDX-License-Identifier: MIT
// stack.c - where a call of the library came from, for the core (hooks.h).
//
// The system does the work (os.h); here is only the promise to the core: the list ends with NULL.
//
// STACK-1  the unwinder may allocate, and hold a lock of its own meanwhile (where a program
//     registers frames at run time, as just-in-time compilers do): a stack that is asked for inside
//     of it is empty.
#include "../core/core.h"

MI_INTERNAL void mi_hook_stack(const void** frames, size_t capacity) {
  size_t count = 0;
  if (!mi_self()->is_in_stack) { // STACK-1
    mi_self()->is_in_stack = true;
    count = mi_os_stack(frames, capacity);
    mi_self()->is_in_stack = false;
  }
  if (count < capacity) frames[count] = NULL;
}
