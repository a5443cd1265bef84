// SPDX-License-Identifier: MIT
// callback.h - a registered function of the user and its argument, which are always read as a pair.
//
// One thread registers at a time (the caller's duty); any number may call meanwhile. All zero is
// "none registered".
// CALLBACK-1  a reader never pairs the function of one registration with the argument of another:
//     `version` is odd while they change, and a reader takes them only if it saw one even version
//     before and after.
// CALLBACK-2  no thread waits: a reader finds no callback while it changes. That also holds in the
//     child of a fork that happened during a change, until the next registration there.
// CALLBACK-3  in a secure build both are coded (secret.h), because they lie in memory that can be
//     written to: a callback that something else wrote is none. (The secret is there: who registers
//     has set the process up.)
// Deliberately absent: waiting for calls that are under way when a callback is replaced.
#ifndef MI_API_CALLBACK_H
#define MI_API_CALLBACK_H

#include "../core/core.h"

typedef void mi_callback_fun_t(void);

typedef struct mi_callback_s {
  // version, function, argument - written by the thread that registers, release, in the order of
  // `mi_callback_set`; read by threads that call it, acquire, in the order of `mi_callback_get`.
  // See CALLBACK-1. Only the store of the odd version, which the stores after it publish, and the
  // last load of the version are relaxed.
  mi_atomic(uint32_t) version;
  mi_atomic(mi_callback_fun_t*) function;
  mi_atomic(void*) argument;
} mi_callback_t;

static inline void mi_callback_set(mi_callback_t* callback, mi_callback_fun_t* function,
                                   void* argument) {
  uintptr_t coded = 0, coded_argument = 0;
  if (function != NULL) {
    coded = mi_secret_seal(&callback->function, (uintptr_t)function);
    coded_argument = mi_secret_seal(&callback->argument, (uintptr_t)argument);
  }
  const uint32_t changing = mi_atomic_load_relaxed(&callback->version) | 1;
  mi_atomic_store_relaxed(&callback->version, changing);
  // Each publishes the odd version to `mi_callback_get`: a thread that sees the new value sees that
  // the callback is changing.
  mi_atomic_store_release(&callback->function, (mi_callback_fun_t*)coded);
  mi_atomic_store_release(&callback->argument, (void*)coded_argument);
  // Publishes both values to the first load of `mi_callback_get`.
  mi_atomic_store_release(&callback->version, changing + 1);
}

// Return the function, or NULL; `*argument` is the argument that it was registered with.
static inline mi_callback_fun_t* mi_callback_get(mi_callback_t* callback, void** argument) {
  // Sees the values that `mi_callback_set` stored before this version.
  const uint32_t version = mi_atomic_load_acquire(&callback->version);
  // Each sees the odd version, if it is the value of a later `mi_callback_set`.
  mi_callback_fun_t* const function = mi_atomic_load_acquire(&callback->function);
  void* const argument_seen = mi_atomic_load_acquire(&callback->argument);
  if (version % 2 != 0 || mi_atomic_load_relaxed(&callback->version) != version) return NULL;
  if (function == NULL) return NULL;
  const uintptr_t address = mi_secret_unseal(&callback->function, (uintptr_t)function);
  if (!mi_secret_is_whole(address)) return NULL;
  *argument = (void*)mi_secret_unseal(&callback->argument, (uintptr_t)argument_seen);
  return (mi_callback_fun_t*)address;
}

#endif
