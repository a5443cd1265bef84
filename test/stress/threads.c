// SPDX-License-Identifier: MIT
// Thousands of threads start, allocate a little and end, and leave blocks for others to free. If
// this fails, a server that starts a thread for each request grows until it is killed.
//
// --count threads --at-once of them --seconds at most
#include <pthread.h>
#include <stdatomic.h>

#include "load.h"

#define AT_ONCE_MAX 256
#define BLOCKS 60
#define SLOTS 512
// Each class a thread uses has a page of 64 KiB of which more is touched as time goes by; a leak of
// one block for each thread would be beyond this.
#define GROWTH_MAX (20 * LOAD_MIB)

static _Atomic(uintptr_t*) slot[SLOTS]; // blocks whose first word is their size
static load_t load;
static size_t count = 20000, at_once = 8, seconds = 6;

static void drop(uintptr_t* block) {
  if (block == NULL) return;
  load_verify(block + 1, block[0] - sizeof(uintptr_t), (uint8_t)block[0]);
  free(block);
}

static void* work(void* argument) {
  uint64_t state = load.seed + (uintptr_t)argument * 977;
  uintptr_t* mine[BLOCKS];
  for (size_t i = 0; i < BLOCKS; i++) {
    const size_t size = sizeof(uintptr_t) + random_below(&state, i % 20 == 0 ? 20000 : 600);
    mine[i] = (uintptr_t*)malloc(size);
    CHECK_SAY(mine[i] != NULL, "no memory for %zu bytes", size);
    mine[i][0] = size;
    load_fill(mine[i] + 1, size - sizeof(uintptr_t), (uint8_t)size);
  }
  for (size_t i = 0; i < BLOCKS; i++) {
    // A third of them survives the thread.
    if (i % 3 == 0) mine[i] = atomic_exchange(&slot[random_below(&state, SLOTS)], mine[i]);
    drop(mine[i]);
  }
  return NULL;
}

// Start and join threads, `at_once` running at a time. Returns how many before the deadline.
static size_t run(size_t first, size_t wanted, uint64_t deadline_ms) {
  pthread_t thread[AT_ONCE_MAX];
  size_t started = 0;
  while (started < wanted && load_now_ms() < deadline_ms) {
    load_alive();
    for (size_t i = 0; i < at_once; i++) {
      void* const number = (void*)(first + started + i);
      CHECK_SAY(pthread_create(&thread[i], NULL, &work, number) == 0, "thread %zu", started + i);
    }
    for (size_t i = 0; i < at_once; i++) pthread_join(thread[i], NULL);
    started += at_once;
  }
  return started;
}

int main(int argc, char** argv) {
  const load_argument_t own[] = {
      {"--count", &count}, {"--at-once", &at_once}, {"--seconds", &seconds}};
  load = load_begin_with(argc, argv, own, sizeof(own) / sizeof(own[0]));
  CHECK_SAY(at_once >= 1 && at_once <= AT_ONCE_MAX, "1 to %d threads at once", AT_ONCE_MAX);
  count = load_scale(&load, count);
  const uint64_t start_ms = load_now_ms();
  const size_t warm = run(0, count / 10, start_ms + seconds * 1000 / 5);
  const size_t before = load_rss();
  const size_t more = run(warm, count - count / 10, start_ms + seconds * 1000);
  const size_t after = load_rss();
  printf("FIGURE %zu threads, %zu at once, in %zu s: resident %zu KiB after %zu, %zu KiB at the "
         "end\n",
         warm + more, at_once, (size_t)(load_now_ms() - start_ms) / 1000, before / LOAD_KIB, warm,
         after / LOAD_KIB);
  fflush(stdout);
  CHECK_SAY(after <= before + load_bound(GROWTH_MAX), "grew by %zu KiB",
            (after - before) / LOAD_KIB);
  for (size_t i = 0; i < SLOTS; i++) drop(atomic_exchange(&slot[i], NULL));
  return 0;
}
