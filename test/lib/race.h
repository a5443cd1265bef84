// SPDX-License-Identifier: MIT
// race.h - two threads free a block at one moment, again and again: the caller and another thread.
#ifndef TEST_RACE_H
#define TEST_RACE_H

#include <mimalloc.h>

#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stddef.h>

static pthread_t race_thread;
static size_t race_count;
static void* volatile race_block;
static size_t race_turn, race_done; // atomic

static inline void race_await(const size_t* counter, size_t value) {
  for (size_t spins = 0; __atomic_load_n(counter, __ATOMIC_ACQUIRE) != value; spins++) {
    if (spins > 10000) sched_yield();
  }
}

static void* race_free(void* arg) {
  for (size_t i = 1; i <= race_count; i++) {
    race_await(&race_turn, i);
    mi_free(race_block);
    __atomic_store_n(&race_done, i, __ATOMIC_RELEASE);
  }
  return arg;
}

// Start the other thread for `count` rounds. False if there can be none.
static inline bool race_begin(size_t count) {
  race_count = count;
  race_turn = race_done = 0;
  return pthread_create(&race_thread, NULL, &race_free, NULL) == 0;
}

// Round `i`, the first is 1: both threads free `p`. Returns when both have.
static inline void race_free_twice(void* p, size_t i) {
  race_block = p;
  __atomic_store_n(&race_turn, i, __ATOMIC_RELEASE);
  for (volatile size_t k = 0; k < i % 64; k++) { // until the other thread has seen it
  }
  mi_free(p);
  race_await(&race_done, i);
}

static inline void race_end(void) { pthread_join(race_thread, NULL); }

#endif
