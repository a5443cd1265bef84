// SPDX-License-Identifier: MIT
// cache-scratch.c - does a thread get back pieces of a cache line of others? (passive sharing)
//
// Pattern: the main thread allocates small objects in a row and hands them out to the threads in
// turn. Each thread frees its own, and from then on allocates such objects, writes to them many
// times, frees them, and so on. An allocator that serves the thread from the places that it just
// freed makes threads write to the same cache line, although they share nothing.
// Asks: that a thread does not get back pieces of a line that others use. With one thread nothing
// is to be won.
//
// Origin: Berger, McKinley, Blumofe and Wilson, "Hoard: A Scalable Memory Allocator for
// Multithreaded Applications", ASPLOS 2000.
// Differs: each thread has four objects at once, so that where the first one happens to lie does
// not decide whether anything is seen; it does a fixed amount of work, instead of its share of
// one. Two threads unless --threads says otherwise.
#include "bench.h"

#define OBJECT_BYTES 8
#define OBJECTS 4 // of each thread

typedef struct worker_s {
  volatile unsigned char* objects[OBJECTS]; // at first from the main thread
  size_t rounds;
  size_t writes; // to each byte of an object
  uint64_t check;
} worker_t;

static void* worker_run(void* argument) {
  worker_t* const worker = argument;
  volatile unsigned char*
      objects[OBJECTS]; // not in the struct, where the threads would share a line
  for (size_t o = 0; o < OBJECTS; o++) {
    bench_verify((void*)worker->objects[o], OBJECT_BYTES, 42);
    free((void*)worker->objects[o]);
  }
  uint64_t check = 0;
  for (size_t round = 0; round < worker->rounds; round++) {
    for (size_t o = 0; o < OBJECTS; o++) {
      objects[o] = bench_malloc(OBJECT_BYTES);
      for (size_t i = 0; i < OBJECT_BYTES; i++) objects[o][i] = (unsigned char)(round + o + i);
    }
    for (size_t k = 0; k < worker->writes; k++) {
      for (size_t o = 0; o < OBJECTS; o++) {
        for (size_t i = 0; i < OBJECT_BYTES; i++) objects[o][i]++;
      }
    }
    for (size_t o = 0; o < OBJECTS; o++) {
      for (size_t i = 0; i < OBJECT_BYTES; i++) {
        if (objects[o][i] != (unsigned char)(round + o + i + worker->writes)) {
          bench_fail("the contents of an object have changed");
        }
        check = check * 31 + objects[o][i];
      }
      free((void*)objects[o]);
    }
  }
  worker->check = check;
  return NULL;
}

int main(int argc, char** argv) {
  const bench_args_t args = bench_parse(argc, argv);
  const size_t threads = args.threads > 0 ? args.threads : 2;
  static worker_t workers[BENCH_MAX_THREADS];
  for (size_t o = 0; o < OBJECTS; o++) { // in turn, so that neighbours go to different threads
    for (size_t i = 0; i < threads; i++) {
      void* const object = bench_malloc(OBJECT_BYTES);
      bench_mark(object, OBJECT_BYTES, 42);
      workers[i].objects[o] = object;
    }
  }
  for (size_t i = 0; i < threads; i++) {
    workers[i].rounds = bench_pick(args, 100, 400, 1000);
    workers[i].writes = bench_pick(args, 500, 20000, 20000);
  }
  bench_threads(threads, worker_run, workers, sizeof(worker_t));
  uint64_t check = 0;
  uint64_t mallocs = threads * OBJECTS;
  for (size_t i = 0; i < threads; i++) {
    check = check * 1000003 + workers[i].check;
    mallocs += workers[i].rounds * OBJECTS;
  }
  bench_report(check, mallocs);
  return 0;
}
