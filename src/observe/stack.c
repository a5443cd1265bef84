// SPDX-License-Identifier: MIT
// stack.c - where a call of the library came from, for the core (hooks.h).
//
// The system does the work (os.h); here is only the promise to the core: the list ends with NULL.
#include "../core/core.h"

MI_INTERNAL void mi_hook_stack(const void** frames, size_t capacity) {
  const size_t count = mi_os_stack(frames, capacity);
  if (count < capacity) frames[count] = NULL;
}
