// SPDX-License-Identifier: MIT
// callback.h - a registered function of the user and its argument, which change together.
//
// Any thread may register while others call. All zero is "none registered".
// B1  a reader never pairs the function of one registration with the argument of another: `set`
//     clears the
//     function first, and `get` looks at the function again after it read the argument.
//     Deliberately absent: waiting for calls that are under way when a callback is replaced.
#ifndef MI_API_CALLBACK_H
#define MI_API_CALLBACK_H

#include "../base/atomic.h"

typedef void mi_callback_fun_t(void);

typedef struct mi_callback_s {
  // function, argument - written by whoever registers (release, in the order of
  // `mi_callback_set`), read by whoever calls (acquire, in the opposite order). See B1.
  mi_atomic(mi_callback_fun_t*) function;
  mi_atomic(void*) argument;
} mi_callback_t;

static inline void mi_callback_set(mi_callback_t* callback, mi_callback_fun_t* function,
                                   void* argument) {
  // Each store publishes the one before it to the acquire loads of `mi_callback_get`.
  mi_atomic_store_release(&callback->function, (mi_callback_fun_t*)NULL);
  mi_atomic_store_release(&callback->argument, argument);
  // Publishes the argument as well.
  mi_atomic_store_release(&callback->function, function);
}

// The function, or NULL; `*argument` is the one it was registered with.
static inline mi_callback_fun_t* mi_callback_get(mi_callback_t* callback, void** argument) {
  for (;;) {
    // Sees the argument that was stored before the function.
    mi_callback_fun_t* const function = mi_atomic_load_acquire(&callback->function);
    if (function == NULL) return NULL;
    // Sees that the function was cleared, if this is the argument of a later registration.
    *argument = mi_atomic_load_acquire(&callback->argument);
    if (mi_atomic_load_relaxed(&callback->function) == function) return function;
  }
}

#endif
