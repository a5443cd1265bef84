// SPDX-License-Identifier: MIT
// visits.c - visits of a heap that many threads have pages and portions in, for callgrind.
//
//   visits 0 THREADS...
//
// For each number of threads: they allocate blocks, free every third, and wait, while `measured`
// visits the main heap. Then they end.
#include <pthread.h>

#include "figures.h"

#define THREADS_MAX 400
#define BLOCKS 600

static pthread_barrier_t barrier;
static size_t pages;

static void* hold(void* argument) {
  static _Thread_local void* block[BLOCKS];
  (void)argument;
  for (size_t i = 0; i < BLOCKS; i++) block[i] = mi_malloc(16 + i % 64 * 16);
  for (size_t i = 0; i < BLOCKS; i += 3) mi_free(block[i]);
  pthread_barrier_wait(&barrier);
  pthread_barrier_wait(&barrier);
  for (size_t i = 0; i < BLOCKS; i++) {
    if (i % 3 != 0) mi_free(block[i]);
  }
  return NULL;
}

static bool count(const mi_heap_t* heap, const mi_heap_area_t* area, void* block, size_t size,
                  void* arg) {
  (void)heap, (void)area, (void)size, (void)arg;
  pages += block == NULL;
  return true;
}

__attribute__((noinline, noipa)) void measured(void) {
  if (!mi_heap_visit_blocks(NULL, false, &count, NULL)) abort();
}

static void run(size_t threads) {
  static pthread_t thread[THREADS_MAX];
  if (threads > THREADS_MAX || pthread_barrier_init(&barrier, NULL, (unsigned)threads + 1) != 0) {
    abort();
  }
  for (size_t i = 0; i < threads; i++) {
    if (pthread_create(&thread[i], NULL, &hold, NULL) != 0) abort();
  }
  pthread_barrier_wait(&barrier);
  pages = 0;
  measured();
  if (pages < threads) abort();
  pthread_barrier_wait(&barrier);
  for (size_t i = 0; i < threads; i++) pthread_join(thread[i], NULL);
  pthread_barrier_destroy(&barrier);
}

int main(int argc, char** argv) {
  for (int i = 2; i < argc; i++) run((size_t)strtoul(argv[i], NULL, 10));
  return 0;
}
