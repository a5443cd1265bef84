// SPDX-License-Identifier: MIT
// pair.c - pairs of malloc and free in steady state, for callgrind and for trace.c.
//
//   pair ROUNDS PATTERN:SIZE...
//
// The patterns, a round of each is 100 pairs:
//   pair     allocate a block, free it
//   held     the same while every other block of some pages is in use
//   batch    allocate 100 blocks, then free them in the order of allocation
//   stack    the same, freed in reverse
//   replace  of some pages full of blocks, free a random one and allocate another
// Each one is warmed up, then called as `measured` once with malloc and free, and once with two
// functions that only return, which is the cost of the loop itself. With ROUNDS 0 that second call
// is left out, and the rounds are many, between the marks of trace.c.
//
// The clock of this program is not that of the system: a pair takes PAIR_NS, as it does without
// callgrind, with which all takes fifty times as long. What the library does each half second would
// otherwise count fifty times, and once more or once less from run to run.
#include <time.h>

#include "figures.h"

#define BATCH 100
#define BLOCK_MAX 4096
#define WARM_ROUNDS 40
#define PAIR_NS 100
#define SECOND_NS 1000000000

typedef void* allocate_t(size_t);
typedef void release_t(void*);

void* empty_allocate(size_t size);
void empty_release(void* p);
__asm__(".text\nempty_allocate:\nempty_release:\n  ret\n");

#if defined(__i386__)
// valgrind 3.19 refuses the last byte before the address of the thread: so it is not the library's.
static __thread volatile int last_of_thread;
#endif

static uint64_t clock_ns;

// The library asks this one.
int clock_gettime(clockid_t clock, struct timespec* t) {
  (void)clock;
  t->tv_sec = (time_t)(clock_ns / SECOND_NS);
  t->tv_nsec = (long)(clock_ns % SECOND_NS);
  return 0;
}

static void* block[BLOCK_MAX];
static void* batch[BATCH];

void measured(char kind, size_t size, size_t live, size_t rounds, allocate_t* allocate,
              release_t* release);

__attribute__((noinline, noipa)) void measured(char kind, size_t size, size_t live, size_t rounds,
                                               allocate_t* allocate, release_t* release) {
  uint64_t state = 88172645463325252u;
  for (size_t round = 0; round < rounds; round++, clock_ns += BATCH * PAIR_NS) {
    if (kind == 'p' || kind == 'h') {
      for (size_t i = 0; i < BATCH; i++) release(allocate(size));
    } else if (kind == 'r') {
      for (size_t i = 0; i < BATCH; i++) {
        const size_t victim = (size_t)((random_next(&state) >> 32) * live >> 32);
        release(block[victim]);
        block[victim] = allocate(size);
      }
    } else {
      for (size_t i = 0; i < BATCH; i++) batch[i] = allocate(size);
      for (size_t i = 0; i < BATCH; i++) release(batch[kind == 'b' ? i : BATCH - 1 - i]);
    }
  }
}

static void run(char kind, size_t size, size_t rounds) {
  size_t live = kind == 'h' || kind == 'r' ? 4 * FIGURES_MIB / size : 0;
  if (live > BLOCK_MAX) live = BLOCK_MAX;
  for (size_t i = 0; i < live; i++) block[i] = malloc(size);
  for (size_t i = 1; kind == 'h' && i < live; i += 2) free(block[i]);
  measured(kind, size, live, WARM_ROUNDS, malloc, free);
  if (rounds > 0) {
    measured(kind, size, live, rounds, malloc, free);
    measured(kind, size, 0, rounds, empty_allocate, empty_release);
  } else {
    const long before = figures_pages();
#if defined(__x86_64__)
    phase("pairs");
    measured(kind, size, live, 5000, malloc, free);
    phase(NULL);
#endif
    printf("made %ld\n", figures_pages() - before);
  }
  for (size_t i = 0; i < live; i++) {
    if (kind == 'r' || i % 2 == 0) free(block[i]);
  }
}

int main(int argc, char** argv) {
#if defined(__i386__)
  last_of_thread = 1;
#endif
  if (argc < 3) return 2;
  for (int i = 2; i < argc; i++) {
    const char* const size = strchr(argv[i], ':');
    if (size == NULL) return 2;
    run(argv[i][0], strtoul(size + 1, NULL, 10), strtoul(argv[1], NULL, 10));
  }
  return 0;
}
