// SPDX-License-Identifier: MIT
// cache-thrash.c - does an allocator give parts of one cache line to two threads? (active)
//
// Pattern: each thread allocates a small object, writes to it many times, frees it, and so on. An
// allocator that takes the objects of several threads from one line makes them write to the same
// cache line, although they share nothing: active false sharing.
// Asks: small objects of different threads in different lines. With one thread nothing is to be
// won.
//
// Origin: Berger, McKinley, Blumofe and Wilson, "Hoard: A Scalable Memory Allocator for
// Multithreaded Applications", ASPLOS 2000.
// Differs: each thread does a fixed amount of work, instead of its share of one. Two threads
// unless --threads says otherwise.
#include "bench.h"

#define OBJECT_BYTES 8

typedef struct worker_s {
  size_t rounds;
  size_t writes; // to each byte of an object
  uint64_t check;
} worker_t;

static void* worker_run(void* argument) {
  worker_t* const worker = argument;
  uint64_t check = 0; // not in the struct, where the threads would share a line
  for (size_t round = 0; round < worker->rounds; round++) {
    volatile unsigned char* const object = bench_malloc(OBJECT_BYTES);
    for (size_t i = 0; i < OBJECT_BYTES; i++) object[i] = (unsigned char)(round + i);
    for (size_t k = 0; k < worker->writes; k++) {
      for (size_t i = 0; i < OBJECT_BYTES; i++) object[i]++;
    }
    for (size_t i = 0; i < OBJECT_BYTES; i++) {
      if (object[i] != (unsigned char)(round + i + worker->writes)) {
        bench_fail("the contents of an object have changed");
      }
      check = check * 31 + object[i];
    }
    free((void*)object);
  }
  worker->check = check;
  return NULL;
}

int main(int argc, char** argv) {
  const bench_args_t args = bench_parse(argc, argv);
  const size_t threads = args.threads > 0 ? args.threads : 2;
  static worker_t workers[BENCH_MAX_THREADS];
  for (size_t i = 0; i < threads; i++) {
    workers[i].rounds = bench_pick(args, 100, 400, 1000);
    workers[i].writes = bench_pick(args, 500, 120000, 120000);
  }
  bench_threads(threads, worker_run, workers, sizeof(worker_t));
  uint64_t check = 0;
  uint64_t mallocs = 0;
  for (size_t i = 0; i < threads; i++) {
    check = check * 1000003 + workers[i].check;
    mallocs += workers[i].rounds;
  }
  bench_report(check, mallocs);
  return 0;
}
