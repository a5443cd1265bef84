// threads.c - four threads at a time, many one after another: blocks that other threads free, and
// memory that does not grow with the number of threads there were.
#include <pthread.h>
#include <stdatomic.h>

#include "programs.h"

#if !defined(PLAIN)
#include <mimalloc-stats.h>
#endif

#define THREADS 4
#define GENERATIONS 40
#define SLOTS 1000
// Small: how many stacks wait until the page notices that their threads ended, depends on the
// machine.
#define STACK_SIZE ((size_t)128 << 10)

static _Atomic(unsigned char*) shared[256];
static _Thread_local unsigned char own[50000]; // memory that the end of a thread must give back

// The first two bytes are the length of the rest, all of which has the value of its lower byte.
static void fill(unsigned char* p, size_t size) {
  memset(p, (int)(size & 0xFF), size);
  p[1] = (unsigned char)(size >> 8);
}

static void check_and_free(unsigned char* p) {
  if (p == NULL) return;
  const size_t size = p[0] | (size_t)p[1] << 8;
  for (size_t i = 2; i < size; i++) CHECK(p[i] == p[0]);
  free(p);
}

static void* work(void* arg) {
  uint32_t random = (uint32_t)(uintptr_t)arg;
  unsigned char* slot[SLOTS] = {0};
  for (size_t i = 0; i < sizeof(own); i++) CHECK(own[i] == 0);
  memset(own, 1, sizeof(own));
  for (int k = 0; k < 20000; k++) {
    const size_t i = random_below(&random, SLOTS);
    const size_t size = 2 + random_below(&random, 600);
    unsigned char* const p = (unsigned char*)malloc(size);
    CHECK(IS_OURS(p));
    fill(p, size);
    if (k % 4 == 0) { // a block of another thread, mostly
      check_and_free(atomic_exchange(&shared[random_below(&random, 256)], p));
    } else {
      check_and_free(slot[i]);
      slot[i] = p;
    }
  }
  for (size_t i = 0; i < SLOTS; i++) check_and_free(slot[i]);
  return arg;
}

int main(void) {
  pthread_attr_t attributes;
  CHECK(pthread_attr_init(&attributes) == 0);
  CHECK(pthread_attr_setstacksize(&attributes, STACK_SIZE) == 0);
  for (uint32_t generation = 0; generation < GENERATIONS; generation++) {
    pthread_t thread[THREADS];
    for (uint32_t i = 0; i < THREADS; i++) {
      void* const seed = (void*)(uintptr_t)(generation * THREADS + i + 1);
      CHECK(pthread_create(&thread[i], &attributes, work, seed) == 0);
    }
    for (uint32_t i = 0; i < THREADS; i++) {
      void* result = NULL;
      CHECK(pthread_join(thread[i], &result) == 0 && result != NULL);
    }
    if (generation == 4) show("early_end_kib", end_kib());
  }
  show("late_end_kib", end_kib());
  for (size_t i = 0; i < 256; i++) check_and_free(atomic_load(&shared[i]));
#if !defined(PLAIN)
  mi_stats_t_decl(stats);
  CHECK(mi_stats_get(&stats));
  show("threads_total", (size_t)stats.threads.total);
  show("threads_now", (size_t)stats.threads.current);
  show("theaps_peak", (size_t)stats.theaps.peak);
#endif
  return 0;
}
