// SPDX-License-Identifier: MIT
// Thousands of threads start, allocate a little and end, and leave blocks for others to free. If
// this fails, a server that starts a thread for each request grows until it is killed.
#include <pthread.h>
#include <stdatomic.h>

#include "load.h"

#define THREADS ((size_t)20000)
#define AT_ONCE 8
#define BLOCKS 60
#define SLOTS 512
#define TIME_MS 6000
// Each class a thread uses has a page of 64 KiB of which more is touched as time goes by; a leak of
// one block for each thread would be beyond this.
#define GROWTH_MAX (20 * LOAD_MIB)

static _Atomic(uintptr_t*) slot[SLOTS]; // blocks whose first word is their size
static load_t load;

static void drop(uintptr_t* block) {
  if (block == NULL) return;
  load_verify(block + 1, block[0] - sizeof(uintptr_t), (uint8_t)block[0]);
  free(block);
}

static void* work(void* argument) {
  uint64_t state = load.seed + (uintptr_t)argument * 977;
  uintptr_t* mine[BLOCKS];
  for (size_t i = 0; i < BLOCKS; i++) {
    const size_t size = sizeof(uintptr_t) + load_below(&state, i % 20 == 0 ? 20000 : 600);
    mine[i] = (uintptr_t*)malloc(size);
    LOAD_CHECK(mine[i] != NULL, "no memory for %zu bytes", size);
    mine[i][0] = size;
    load_fill(mine[i] + 1, size - sizeof(uintptr_t), (uint8_t)size);
  }
  for (size_t i = 0; i < BLOCKS; i++) {
    // A third of them survives the thread.
    if (i % 3 == 0) mine[i] = atomic_exchange(&slot[load_below(&state, SLOTS)], mine[i]);
    drop(mine[i]);
  }
  return NULL;
}

// Start and join threads, AT_ONCE running at a time. Returns how many it were before the deadline.
static size_t run(size_t first, size_t count, uint64_t deadline_ms) {
  pthread_t thread[AT_ONCE];
  size_t started = 0;
  while (started < count && load_now_ms() < deadline_ms) {
    for (size_t i = 0; i < AT_ONCE; i++) {
      void* const number = (void*)(first + started + i);
      LOAD_CHECK(pthread_create(&thread[i], NULL, &work, number) == 0, "thread %zu", started + i);
    }
    for (size_t i = 0; i < AT_ONCE; i++) pthread_join(thread[i], NULL);
    started += AT_ONCE;
  }
  return started;
}

int main(int argc, char** argv) {
  load = load_begin(argc, argv);
  const size_t count = load_scale(&load, THREADS);
  const uint64_t start_ms = load_now_ms();
  const size_t warm = run(0, count / 10, start_ms + TIME_MS / 5);
  const size_t before = load_rss();
  const size_t more = run(warm, count - count / 10, start_ms + TIME_MS);
  const size_t after = load_rss();
  printf("threads %zu: resident %zu KiB after %zu, %zu KiB at the end\n", warm + more,
         before / LOAD_KIB, warm, after / LOAD_KIB);
  fflush(stdout);
  LOAD_CHECK(after <= before + GROWTH_MAX, "grew by %zu KiB", (after - before) / LOAD_KIB);
  for (size_t i = 0; i < SLOTS; i++) drop(atomic_exchange(&slot[i], NULL));
  return 0;
}
