// pairs.c - how long a malloc and free takes, in nanoseconds: of one small size, of small sizes at
// random among a thousand blocks, and of larger ones. With -pthread four threads do so at once.
//
// scripts/wasm.py runs it, and compares.
#include <time.h>

#include "programs.h"

#if defined(_REENTRANT)
#include <pthread.h>
#define THREADS 4
#else
#define THREADS 1
#endif
#define SLOTS 1000

typedef struct pattern_s {
  const char* name;
  uint32_t pairs, slots, size_min, size_max;
} pattern_t;

static const pattern_t patterns[] = {
    {"24 B", 8000000, 1, 24, 24},
    {"16 B to 512 B at random", 4000000, SLOTS, 16, 512},
    {"1 KiB to 32 KiB at random", 400000, SLOTS, 1024, 32 * 1024},
};

static double now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static void* work(void* arg) {
  const pattern_t* const pattern = (const pattern_t*)arg;
  void* slot[SLOTS] = {0};
  uint32_t random = 1;
  for (uint32_t k = 0; k < pattern->pairs; k++) {
    const uint32_t i = random_below(&random, pattern->slots);
    const uint32_t more = random_below(&random, pattern->size_max - pattern->size_min + 1);
    free(slot[i]);
    slot[i] = malloc(pattern->size_min + more);
    *(volatile char*)slot[i] = 1;
  }
  for (uint32_t i = 0; i < pattern->slots; i++) free(slot[i]);
  return NULL;
}

int main(void) {
  for (size_t i = 0; i < sizeof(patterns) / sizeof(patterns[0]); i++) {
    const double start = now_ns();
#if THREADS > 1
    pthread_t thread[THREADS];
    for (int t = 0; t < THREADS; t++) {
      CHECK(pthread_create(&thread[t], NULL, work, (void*)(uintptr_t)&patterns[i]) == 0);
    }
    for (int t = 0; t < THREADS; t++) CHECK(pthread_join(thread[t], NULL) == 0);
#else
    work((void*)(uintptr_t)&patterns[i]);
#endif
    printf("%s: %.2f\n", patterns[i].name, (now_ns() - start) / patterns[i].pairs);
  }
  return 0;
}
