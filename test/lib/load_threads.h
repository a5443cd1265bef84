// SPDX-License-Identifier: MIT
// load_threads.h - threads of a program that loads the allocator (load.h).
#ifndef TEST_LOAD_THREADS_H
#define TEST_LOAD_THREADS_H

#include <pthread.h>

#include "load.h"

#define LOAD_THREADS_MAX 8

// True if a purge thread gives back what threads that sleep have. Windows has none; with a
// sanitizer it is started only by MIMALLOC_PURGE_THREAD=1; blocks with guards have pages of their
// own.
static inline bool load_has_purger(void) {
#if defined(_WIN32) // tidy: allow os-macro (a fact of the system)
  return false;
#else
  return !LOAD_IS_SANITIZED && mi_option_get(mi_option_purge_thread) != 0 &&
         mi_option_get(mi_option_guarded_sample_rate) != 1;
#endif
}

// Call `run` on `count` threads at once, until all of them have ended. Each gets a pointer to a
// seed of its own.
static inline void load_on_threads(size_t count, void* (*run)(void* seed), uint64_t seed) {
  pthread_t thread[LOAD_THREADS_MAX];
  uint64_t seeds[LOAD_THREADS_MAX];
  CHECK(count <= LOAD_THREADS_MAX);
  for (size_t i = 0; i < count; i++) {
    seeds[i] = seed + i;
    CHECK(pthread_create(&thread[i], NULL, run, &seeds[i]) == 0);
  }
  for (size_t i = 0; i < count; i++) CHECK(pthread_join(thread[i], NULL) == 0);
}

#endif
