// SPDX-License-Identifier: MIT
// blocked.c - what threads keep that have worked, freed all they had, and wait.
//
//   blocked THREADS ROUNDS
//
// Each thread allocates 2,000 blocks of 16 to 1,015 bytes, writes them and frees them; then it
// waits for 3 ms. Rounds later all threads wait for good, without a block. With one round they are
// threads that do one piece of work. Prints the anonymous resident memory in KiB two seconds later,
// more than before the first thread; that of stacks is part of it.
#include <pthread.h>

#include "figures.h"

#define BLOCKS 2000
#define STACK_BYTES (64 * FIGURES_KIB)

static pthread_barrier_t all_wait;
static size_t rounds;

static void* serve(void* number) {
  static _Thread_local void* block[BLOCKS];
  uint64_t state = (uintptr_t)number;
  for (size_t r = 0; r < rounds; r++) {
    for (size_t i = 0; i < BLOCKS; i++) {
      const size_t size = 16 + random_below(&state, 1000);
      block[i] = malloc(size);
      if (block[i] == NULL) _exit(3);
      memset(block[i], 1, size);
    }
    for (size_t i = 0; i < BLOCKS; i++) free(block[i]);
    if (rounds > 1) usleep(3000);
  }
  pthread_barrier_wait(&all_wait);
  for (;;) pause();
}

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  const size_t count = strtoul(argv[1], NULL, 10);
  rounds = strtoul(argv[2], NULL, 10);
  pthread_attr_t small;
  pthread_attr_init(&small);
  pthread_attr_setstacksize(&small, STACK_BYTES);
  pthread_barrier_init(&all_wait, NULL, (unsigned)count + 1);
  figures_keep(malloc(100));
  const size_t before = figures_anonymous_kib();
  for (uintptr_t i = 1; i <= count; i++) {
    pthread_t thread;
    if (pthread_create(&thread, &small, &serve, (void*)i) != 0) return 3;
  }
  pthread_barrier_wait(&all_wait);
  sleep(2); // what waits to go back has gone
  printf("%zu\n", figures_anonymous_kib() - before);
  fflush(stdout);
  _exit(0);
}
