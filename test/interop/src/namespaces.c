// SPDX-License-Identifier: MIT
// namespaces.c - a program whose second thread is made by another copy of libc, in a linker
// namespace of its own; that of the program never hears of it. Both threads allocate, and free what
// the other one allocated. If this fails, blocks of a program that uses dlmopen, or runs with an
// audit library, are handed out twice.
//
// namespaces dlmopen LIBRARY   the library (namespaces_thread.c) is loaded here
// namespaces audit             it is loaded by LD_AUDIT, and finds `namespaces_start`
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <mimalloc-stats.h>

#include "../../lib/check.h"
#include "../../lib/random.h"

#define ROUNDS 500000
#define SHELF 16
#define KEPT 16
#define SMALL 1000
#define LARGE (600 * 1024)

// The size, and a number that no other block has, in front and at the end.
typedef struct block_s {
  uint64_t size;
  uint64_t number;
} block_t;

static _Atomic(block_t*) shelf[SHELF]; // on their way from one thread to the other
static atomic_int running;
static int is_audited;
static _Atomic(int64_t) large_count;

// Half of them are so large that each malloc and free claims and releases memory of both threads.
static block_t* make(uint64_t* seed, uint64_t number) {
  const int is_large = random_below(seed, 2) == 0;
  const uint64_t size =
      sizeof(block_t) + 8 + (is_large ? LARGE : 0) + random_below(seed, SMALL) / 8 * 8;
  if (is_large) atomic_fetch_add(&large_count, 1);
  block_t* const block = malloc(size);
  CHECK(block != NULL);
  block->size = size;
  block->number = number;
  memcpy((char*)block + size - 8, &number, 8);
  return block;
}

static void end(block_t* block) {
  if (block == NULL) return;
  CHECK(block->size >= sizeof(block_t) + 8 && block->size <= 2 * LARGE);
  CHECK(memcmp((char*)block + block->size - 8, &block->number, 8) == 0);
  block->size = 0;
  free(block);
}

static void work(uint64_t thread) {
  block_t* kept[KEPT] = {0};
  uint64_t seed = thread + 1;
  for (uint64_t i = 0; i < ROUNDS; i++) {
    const size_t k = random_below(&seed, KEPT);
    end(kept[k]);
    kept[k] = make(&seed, thread << 32 | i << 1);
    // What the other one put there is freed here.
    end(atomic_exchange(&shelf[random_below(&seed, SHELF)],
                        make(&seed, thread << 32 | i << 1 | 1)));
  }
  for (size_t k = 0; k < KEPT; k++) end(kept[k]);
}

static void* second(void* arg) {
  (void)arg;
  atomic_fetch_add(&running, 1);
  while (atomic_load(&running) < 2) {
  }
  work(1);
  return NULL;
}

typedef int start_t(pthread_t* thread, void* (*run)(void*));
typedef int join_t(pthread_t thread);

static start_t* start;
static join_t* join;

// Called by the audit library before main, through the address that it was told.
void namespaces_offer(start_t* start_function, join_t* join_function);
void namespaces_offer(start_t* start_function, join_t* join_function) {
  start = start_function;
  join = join_function;
}

// What two threads count with plain loads and stores is too little: they meet far more often than
// blocks are lost.
static void check_counts(void) {
  bool (*const get)(mi_stats_t*) = (bool (*)(mi_stats_t*))dlsym(RTLD_DEFAULT, "mi_stats_get");
  if (get == NULL) return; // not our library
  mi_stats_t_decl(stats);
  CHECK(get(&stats));
  CHECK(stats.malloc_huge.current == 0);
  CHECK(stats.malloc_huge_count.total == atomic_load(&large_count));
}

int main(int argc, char** argv) {
  is_audited = argc > 1 && strcmp(argv[1], "audit") == 0;
  free(malloc(100)); // the library is set up, with one thread
  if (!is_audited) {
    void* const library = dlmopen(LM_ID_NEWLM, argv[2], RTLD_NOW);
    if (library == NULL) fprintf(stderr, "%s\n", dlerror());
    CHECK(library != NULL);
    start = (start_t*)dlsym(library, "namespaces_start");
    join = (join_t*)dlsym(library, "namespaces_join");
  }
  CHECK(start != NULL && join != NULL);
  pthread_t thread;
  CHECK(start(&thread, &second) == 0);
  while (atomic_load(&running) < 1) {
  }
  atomic_fetch_add(&running, 1);
  work(0);
  CHECK(join(thread) == 0);
  for (size_t i = 0; i < SHELF; i++) end(atomic_exchange(&shelf[i], NULL));
  check_counts();
  puts("done");
  return 0;
}
