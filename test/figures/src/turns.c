// SPDX-License-Identifier: MIT
// turns.c - what threads that replace each other's blocks need together.
//
//   turns THREADS
//
// A table has 4,096 blocks of 16 to 1,000 bytes. One thread after the other replaces 20,000 of them
// at random, 8 times each, as threads do that get their time on few processors. Prints the peak of
// the resident memory in KiB.
#include <pthread.h>
#include <semaphore.h>

#include "figures.h"

#define BLOCKS 4096
#define REPLACEMENTS 20000
#define TURNS 8
#define THREADS_MAX 64

static void* block[BLOCKS];
static uint64_t state = 7;
static size_t threads;
static sem_t turn[THREADS_MAX];

static void* take_turns(void* number) {
  const size_t self = (uintptr_t)number;
  for (size_t k = 0; k < TURNS; k++) {
    sem_wait(&turn[self]);
    for (size_t i = 0; i < REPLACEMENTS; i++) {
      const size_t at = random_below(&state, BLOCKS);
      const size_t size = 16 + random_below(&state, 985);
      void* const p = malloc(size);
      if (p == NULL) _exit(3);
      memset(p, 1, size);
      free(block[at]);
      block[at] = p;
    }
    sem_post(&turn[(self + 1) % threads]);
  }
  return NULL;
}

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  threads = strtoul(argv[1], NULL, 10);
  if (threads == 0 || threads > THREADS_MAX) return 2;
  pthread_t thread[THREADS_MAX];
  for (size_t i = 0; i < threads; i++) sem_init(&turn[i], 0, i == 0);
  for (size_t i = 0; i < threads; i++) {
    if (pthread_create(&thread[i], NULL, &take_turns, (void*)i) != 0) return 3;
  }
  for (size_t i = 0; i < threads; i++) pthread_join(thread[i], NULL);
  printf("%zu\n", figures_proc_kib("/proc/self/status", "\nVmHWM:"));
  return 0;
}
