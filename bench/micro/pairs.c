// SPDX-License-Identifier: MIT
// pairs.c - malloc and free of one size in a loop; first and last byte of each block are touched.
//
// Published: nowhere; it is the first loop that anyone writes who measures an allocator.
// Asks of an allocator: the shortest way through malloc and free, with everything in the first
// level cache. Above its cache sizes it shows what an allocator does with a block that is alone:
// whether it splits, joins, maps and unmaps each time. It says nothing about locality or
// fragmentation.
// Differs from the usual loop: every block is marked and verified, so that no compiler drops a
// pair.
//
//   --size N  bytes of a block (64)
#include "bench.h"

typedef struct pairs_s {
  size_t size;
  size_t count;
  uint64_t seed;
  uint64_t check;
} pairs_t;

static void* pairs_run(void* argument) {
  pairs_t* const pairs = (pairs_t*)argument;
  bench_random_t random = {pairs->seed};
  for (size_t i = 0; i < pairs->count; i++) {
    const uint64_t key = bench_random(&random);
    unsigned char* const p = (unsigned char*)bench_malloc(pairs->size);
    bench_mark(p, pairs->size, key);
    bench_verify(p, pairs->size, key);
    pairs->check += *(volatile unsigned char*)p;
    free(p);
  }
  return NULL;
}

int main(int argc, char** argv) {
  const bench_args_t args = bench_parse(argc, argv);
  size_t size = 64;
  for (int i = args.rest; i < argc; i += 2) {
    if (i + 1 == argc || strcmp(argv[i], "--size") != 0) bench_fail("known option: --size N");
    size = strtoul(argv[i + 1], NULL, 10);
  }
  if (size == 0) bench_fail("--size must be at least 1");

  static pairs_t pairs[BENCH_MAX_THREADS];
  const size_t thread_count = args.threads != 0 ? args.threads : 1;
  const size_t count = size <= 1024 ? bench_pick(args, 200000, 20000000, 50000000)
                                    : bench_pick(args, 50000, 2000000, 8000000);
  for (size_t i = 0; i < thread_count; i++) pairs[i] = (pairs_t){size, count, i, 0};
  bench_workers(thread_count, pairs_run, pairs, sizeof(pairs_t));
  uint64_t check = 0;
  for (size_t i = 0; i < thread_count; i++) check += pairs[i].check;
  bench_report(check, count * thread_count);
  return 0;
}
