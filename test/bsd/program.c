// SPDX-License-Identifier: MIT
// A program for a BSD, with threads, that uses names of libc and ours: test/test_bsd.py links it.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include <mimalloc.h>

static void* work(void* arg) {
  for (size_t i = 1; i < 1000; i++) free(realloc(malloc(i), 2 * i));
  return arg;
}

int main(void) {
  pthread_t threads[4];
  for (int i = 0; i < 4; i++) pthread_create(&threads[i], NULL, &work, NULL);
  for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
  void* const p = malloc(100);
  printf("%d\n", mi_is_in_heap_region(p));
  free(p);
  return 0;
}
