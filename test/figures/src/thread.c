// SPDX-License-Identifier: MIT
// thread.c - the memory of one more thread that allocates a little.
//
//   thread COUNT
//
// Starts COUNT threads, one after the other; each allocates four blocks of each of eight sizes,
// writes them, and stays. Prints resident memory in KiB before the first and after each.
#include <pthread.h>

#include "figures.h"

#define THREAD_MAX 64

static pthread_barrier_t turn;

static void* allocate_a_little(void* argument) {
  static const size_t sizes[] = {16, 32, 48, 64, 100, 200, 400, 1000};
  for (size_t i = 0; i < 8; i++) {
    for (size_t k = 0; k < 4; k++) {
      void* const p = malloc(sizes[i]);
      if (p == NULL) _exit(1);
      figures_fill(p, sizes[i]);
    }
  }
  pthread_barrier_wait(&turn);
  pause();
  return argument;
}

int main(int argc, char** argv) {
  const size_t count = argc > 1 ? strtoul(argv[1], NULL, 10) : 8;
  pthread_t thread;
  pthread_barrier_init(&turn, NULL, 2);
  figures_keep(malloc(100));
  size_t rss[THREAD_MAX + 1];
  rss[0] = figures_rss_kib();
  for (size_t i = 1; i <= count && i <= THREAD_MAX; i++) {
    if (pthread_create(&thread, NULL, &allocate_a_little, NULL) != 0) return 1;
    pthread_barrier_wait(&turn);
    rss[i] = figures_rss_kib();
  }
  for (size_t i = 0; i <= count && i <= THREAD_MAX; i++) printf("%zu\n", rss[i]);
  fflush(stdout);
  _exit(0);
}
