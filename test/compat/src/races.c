// SPDX-License-Identifier: MIT
// races.c - threads that hand blocks to each other in order, for ThreadSanitizer: nothing to
// report.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char* shared[64];

static void* work(void* start) {
  unsigned seed = (unsigned)(size_t)start;
  for (int i = 0; i < 20000; i++) {
    seed = seed * 1664525 + 1013904223;
    const size_t size = 1 + (seed >> 16) % 3000;
    char* mine = memset(malloc(size), 1, size);
    pthread_mutex_lock(&lock);
    char* const other = shared[seed >> 8 & 63];
    shared[seed >> 8 & 63] = mine;
    pthread_mutex_unlock(&lock);
    free(other);
  }
  return NULL;
}

int main(void) {
  pthread_t threads[4];
  for (size_t i = 0; i < 4; i++) pthread_create(&threads[i], NULL, work, (void*)(i + 1));
  for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
  for (int i = 0; i < 64; i++) free(shared[i]);
  puts("no race");
  return 0;
}
