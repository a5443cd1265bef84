// SPDX-License-Identifier: MIT
// thread_in_constructor.c - a library whose constructor waits for a thread, which creates another
// one: the loader's lock is held meanwhile.
#include <pthread.h>
#include <stdlib.h>

static void* do_nothing(void* arg) { return arg; }

static void* start_another(void* arg) {
  pthread_t thread;
  if (pthread_create(&thread, NULL, &do_nothing, NULL) != 0) abort();
  pthread_join(thread, NULL);
  return arg;
}

static void __attribute__((constructor)) start(void) {
  pthread_t thread;
  if (pthread_create(&thread, NULL, &start_another, NULL) != 0) abort();
  pthread_join(thread, NULL);
}
