// SPDX-License-Identifier: MIT
// random-sizes-large.c - random replacement among a few hundred blocks of 1 to 200 KiB.
//
// Published: nowhere; buffers of an image, network or storage program have such sizes.
// Asks of an allocator: the range between small blocks and those that every allocator maps from the
// system. One that maps, unmaps or returns memory too early pays a fault per page; one that
// rounds sizes up coarsely, or cannot join and split, keeps far more memory than lives.
// Every block is touched once per 4 KiB, as if it were filled, so that faults are seen.
//
//   --live N  blocks alive per thread (400)
#include "bench.h"

#define LARGE_STEP ((size_t)4096)
#define LARGE_LOW ((size_t)1024)
#define LARGE_HIGH ((size_t)200 * 1024)

typedef struct large_s {
  size_t live;
  size_t count;
  uint64_t seed;
  uint64_t check;
  size_t bytes_max; // alive at the peak
} large_t;

typedef struct large_block_s {
  volatile unsigned char* start;
  size_t size;
  unsigned char key;
} large_block_t;

static void large_fill(large_block_t* block, bench_random_t* random) {
  block->size = bench_between(random, LARGE_LOW, LARGE_HIGH);
  block->start = (volatile unsigned char*)bench_malloc(block->size);
  block->key = (unsigned char)bench_random(random);
  for (size_t at = 0; at < block->size; at += LARGE_STEP) block->start[at] = block->key;
  block->start[block->size - 1] = block->key;
}

static uint64_t large_drop(large_block_t* block) {
  uint64_t sum = 0;
  for (size_t at = 0; at < block->size; at += LARGE_STEP) {
    if (block->start[at] != block->key) bench_fail("the contents of a block have changed");
    sum += block->start[at];
  }
  bench_verify((void*)block->start, block->size, block->key);
  free((void*)block->start);
  return sum;
}

static void* large_run(void* argument) {
  large_t* const work = (large_t*)argument;
  bench_random_t random = {work->seed};
  large_block_t* const blocks = (large_block_t*)bench_malloc(work->live * sizeof(large_block_t));
  size_t bytes = 0;
  for (size_t i = 0; i < work->live; i++) {
    large_fill(&blocks[i], &random);
    bytes += blocks[i].size;
  }
  for (size_t n = 0; n < work->count; n++) {
    large_block_t* const block = &blocks[bench_below(&random, work->live)];
    if (bytes > work->bytes_max) work->bytes_max = bytes;
    bytes -= block->size;
    work->check += large_drop(block);
    large_fill(block, &random);
    bytes += block->size;
  }
  for (size_t i = 0; i < work->live; i++) work->check += large_drop(&blocks[i]);
  free(blocks);
  return NULL;
}

int main(int argc, char** argv) {
  const bench_args_t args = bench_parse(argc, argv);
  large_t work = {.live = bench_pick(args, 100, 400, 400)};
  for (int i = args.rest; i < argc; i += 2) {
    if (i + 1 == argc || strcmp(argv[i], "--live") != 0) bench_fail("known option: --live N");
    work.live = strtoul(argv[i + 1], NULL, 10);
  }
  if (work.live == 0) bench_fail("--live must be at least 1");
  static large_t works[BENCH_MAX_THREADS];
  const size_t thread_count = args.threads != 0 ? args.threads : 1;
  work.count = bench_pick(args, 1000, 200000, 600000);
  for (size_t i = 0; i < thread_count; i++) {
    works[i] = work;
    works[i].seed = i;
  }
  bench_workers(thread_count, large_run, works, sizeof(large_t));
  uint64_t check = 0;
  size_t bytes_max = 0;
  for (size_t i = 0; i < thread_count; i++) {
    check += works[i].check;
    bytes_max += works[i].bytes_max;
  }
  printf("live_kib %zu\n", bytes_max / 1024);
  bench_report(check, (work.live + work.count) * thread_count);
  return 0;
}
