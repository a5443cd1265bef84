// SPDX-License-Identifier: MIT
// load_threads.h - threads of a program that loads the allocator (load.h).
#ifndef TEST_LOAD_THREADS_H
#define TEST_LOAD_THREADS_H

#include <pthread.h>

#include "load.h"

#define LOAD_THREADS_MAX 8

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
