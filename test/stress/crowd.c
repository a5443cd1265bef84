// SPDX-License-Identifier: MIT
// Two thousand threads exist at once, each with some blocks, and end in any order while others free
// what they leave. If this fails, a server with a thread for each connection takes memory for each
// that has nothing to do with what it uses, or more with each wave of connections.
//
// --threads at once --waves of them
#include <pthread.h>
#include <stdatomic.h>

#include "load.h"

#define THREADS_MAX 20000
#define BLOCKS 40
// Beside live blocks: stack and structures of the system, and what it holds ready of the sizes it
// uses. 26 KiB in the first wave, and 36 to 48 in each later one, up to the thirtieth.
#define THREAD_BYTES_MAX (80 * LOAD_KIB)
#define GROWTH_PERCENT 110

typedef struct {
  void* block[BLOCKS];
  size_t size[BLOCKS];
} member_t;

static load_t load;
static size_t threads = 2000, waves = 3;
static member_t* member;
static pthread_barrier_t all_have, may_go_on;
static _Atomic(size_t) live;

static void* work(void* argument) {
  const size_t me = (uintptr_t)argument;
  uint64_t state = load.seed + me * 977;
  for (size_t i = 0; i < BLOCKS; i++) {
    const size_t size = 1 + random_below(&state, i % 10 == 0 ? 8000 : 300);
    member[me].block[i] = malloc(size);
    member[me].size[i] = size;
    CHECK_SAY(member[me].block[i] != NULL, "no memory for %zu bytes", size);
    load_fill(member[me].block[i], size, (uint8_t)size);
    atomic_fetch_add_explicit(&live, size, memory_order_relaxed);
  }
  pthread_barrier_wait(&all_have);
  pthread_barrier_wait(&may_go_on);
  // Each ends when it is its turn, after freeing half of its own and half of a neighbour's blocks.
  const size_t other = (me + 1) % threads;
  for (size_t i = 0; i < BLOCKS; i++) {
    const size_t whose = i % 2 == 0 ? me : other;
    load_drop(member[whose].block[i], member[whose].size[i]);
  }
  return NULL;
}

// Returns what is resident while all threads are there, beside live blocks.
static size_t run_wave(size_t wave, size_t start_rss) {
  static pthread_t thread[THREADS_MAX];
  pthread_attr_t small;
  pthread_attr_init(&small);
  pthread_attr_setstacksize(&small, 128 * LOAD_KIB);
  atomic_store(&live, 0);
  load.seed += wave;
  for (uintptr_t i = 0; i < threads; i++) {
    load_alive();
    CHECK_SAY(pthread_create(&thread[i], &small, &work, (void*)i) == 0, "thread %zu", (size_t)i);
  }
  pthread_barrier_wait(&all_have);
  load_alive();
  const size_t rss = load_rss();
  const size_t more = rss > start_rss + live ? rss - start_rss - live : 0;
  pthread_barrier_wait(&may_go_on);
  for (size_t i = 0; i < threads; i++) pthread_join(thread[i], NULL);
  pthread_attr_destroy(&small);
  return more;
}

int main(int argc, char** argv) {
  const load_argument_t own[] = {{"--threads", &threads}, {"--waves", &waves}};
  load = load_begin_with(argc, argv, own, sizeof(own) / sizeof(own[0]));
  CHECK_SAY(threads >= 1 && threads <= THREADS_MAX, "1 to %d threads", THREADS_MAX);
  threads = load_scale(&load, threads);
  member = (member_t*)calloc(threads, sizeof(member_t));
  CHECK_SAY(member != NULL, "no memory for %zu threads", threads);
  pthread_barrier_init(&all_have, NULL, (unsigned)threads + 1);
  pthread_barrier_init(&may_go_on, NULL, (unsigned)threads + 1);
  memset(member, 0xFF, threads * sizeof(member_t));
  const size_t start_rss = load_rss();
  const size_t first = run_wave(0, start_rss);
  size_t last = first;
  for (size_t wave = 1; wave < waves; wave++) last = run_wave(wave, start_rss);
  printf(
      "FIGURE %zu threads at once, each with %zu bytes: %zu KiB more for each, %zu in wave %zu\n",
      threads, live / threads, first / threads / LOAD_KIB, last / threads / LOAD_KIB, waves);
  fflush(stdout);
  if (LOAD_IS_TSAN) return 0;
  CHECK_SAY(last <= threads * THREAD_BYTES_MAX, "%zu KiB each", last / threads / LOAD_KIB);
  CHECK_SAY(last <= first + first * GROWTH_PERCENT / 100, "more in each wave");
  return 0;
}
