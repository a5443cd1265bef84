// SPDX-License-Identifier: MIT
// glibc-thread.c - threads that replace blocks at random in a window, small sizes most often.
//
// Pattern: each thread has a window of 1024 blocks of its own and replaces random ones. Sizes from
// 4 bytes to 32 KiB; the probability of a size falls with its square.
// Asks: speed with several threads that have nothing in common: any lock or shared line is seen.
//
// Origin: bench-malloc-thread among the benchmarks of the GNU C library (2014).
// Differs: written from a description of the pattern; a fixed number of replacements instead of a
// time limit; blocks are written at both ends and checked. Two threads unless --threads says
// otherwise.
#include "bench.h"

#define WINDOW_COUNT 1024
#define SIZE_MIN_BYTES 4
#define SIZE_MAX_BYTES 32768

typedef struct worker_s {
  bench_random_t random;
  size_t replacements;
  uint64_t check;
  uint64_t mallocs;
} worker_t;

// A density that falls with the square: the inverse of a value that falls evenly.
static size_t size_random(bench_random_t* random) {
  const double high = 1.0 / SIZE_MIN_BYTES;
  const double low = 1.0 / SIZE_MAX_BYTES;
  const double even = (double)(bench_random(random) >> 11) / (double)(1ull << 53);
  return (size_t)(1.0 / (high - even * (high - low)));
}

static void* worker_run(void* argument) {
  worker_t* const worker = argument;
  bench_random_t random = worker->random; // not in the struct, where the threads would share a line
  uint64_t check = 0;
  void* blocks[WINDOW_COUNT];
  size_t sizes[WINDOW_COUNT];
  for (size_t i = 0; i < WINDOW_COUNT; i++) {
    sizes[i] = size_random(&random);
    blocks[i] = bench_malloc(sizes[i]);
    bench_mark(blocks[i], sizes[i], i + sizes[i]);
  }
  for (size_t k = 0; k < worker->replacements; k++) {
    const size_t i = bench_below(&random, WINDOW_COUNT);
    bench_verify(blocks[i], sizes[i], i + sizes[i]);
    free(blocks[i]);
    sizes[i] = size_random(&random);
    blocks[i] = bench_malloc(sizes[i]);
    bench_mark(blocks[i], sizes[i], i + sizes[i]);
    check = check * 31 + sizes[i];
  }
  for (size_t i = 0; i < WINDOW_COUNT; i++) {
    bench_verify(blocks[i], sizes[i], i + sizes[i]);
    free(blocks[i]);
  }
  worker->check = check;
  worker->mallocs = WINDOW_COUNT + worker->replacements;
  return NULL;
}

int main(int argc, char** argv) {
  const bench_args_t args = bench_parse(argc, argv);
  const size_t threads = args.threads > 0 ? args.threads : 2;
  static worker_t workers[BENCH_MAX_THREADS];
  for (size_t i = 0; i < threads; i++) {
    workers[i].random.state = 2014 + i;
    workers[i].replacements = bench_pick(args, 10000, 6000000, 40000000);
  }
  bench_threads(threads, worker_run, workers, sizeof(worker_t));
  uint64_t check = 0;
  uint64_t mallocs = 0;
  for (size_t i = 0; i < threads; i++) {
    check += workers[i].check;
    mallocs += workers[i].mallocs;
  }
  bench_report(check, mallocs);
  return 0;
}
