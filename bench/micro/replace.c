// SPDX-License-Identifier: MIT
// replace.c - a large live set in which random blocks are replaced by blocks of random size.
//
// Published: the steady state of a server that runs for long is described so by P. Larson and M.
// Krishnan, "Memory allocation for long-running server applications", 1998.
// Asks of an allocator: to find a free block near others while the free ones are scattered over all
// pages; locality of the lists and of the tables, since nearly every access misses the first
// cache; and to keep the memory near what lives although sizes change in place all the time.
// Differs from the paper: threads (one unless told otherwise) keep their live set for the whole
// run, none is replaced by a new thread, and no block is freed by another thread.
//
//   --live N     blocks alive per thread (100000)
//   --low A      smallest size (16)
//   --high B     largest size (1024)
//   --sizes S    uniform, or log: each power of two is as likely as the next (uniform)
#include "bench.h"

typedef struct replace_s {
  size_t live;
  size_t low;
  size_t high;
  bool is_log;
  size_t count;
  uint64_t seed;
  uint64_t check;
  size_t bytes_max; // alive at the peak
} replace_t;

typedef struct replace_block_s {
  unsigned char* start;
  size_t size;
} replace_block_t;

static size_t replace_size(const replace_t* work, bench_random_t* random) {
  if (!work->is_log) return bench_between(random, work->low, work->high);
  const size_t first = 63u - (size_t)__builtin_clzll(work->low);
  const size_t last = 63u - (size_t)__builtin_clzll(work->high);
  size_t size;
  do {
    const size_t power = (size_t)1 << bench_between(random, first, last);
    size = power + bench_below(random, power);
  } while (size < work->low || size > work->high);
  return size;
}

static void replace_fill(replace_block_t* block, size_t size, uint64_t key) {
  block->start = (unsigned char*)bench_malloc(size);
  block->size = size;
  bench_mark(block->start, size, key);
}

// The mark of a block is its place and size.
static uint64_t replace_key(size_t index, size_t size) { return index * 31 + size; }

static size_t replace_drop(replace_t* work, const replace_block_t* block, size_t index) {
  bench_verify(block->start, block->size, replace_key(index, block->size));
  work->check += (uint64_t)block->start[0] * block->size;
  free(block->start);
  return block->size;
}

static void* replace_run(void* argument) {
  replace_t* const work = (replace_t*)argument;
  bench_random_t random = {work->seed};
  replace_block_t* const blocks =
      (replace_block_t*)bench_malloc(work->live * sizeof(replace_block_t));
  size_t bytes = 0;
  for (size_t i = 0; i < work->live; i++) {
    const size_t size = replace_size(work, &random);
    replace_fill(&blocks[i], size, replace_key(i, size));
    bytes += size;
  }
  for (size_t n = 0; n < work->count; n++) {
    const size_t i = bench_below(&random, work->live);
    const size_t size = replace_size(work, &random);
    if (bytes > work->bytes_max) work->bytes_max = bytes;
    bytes -= replace_drop(work, &blocks[i], i);
    replace_fill(&blocks[i], size, replace_key(i, size));
    bytes += size;
  }
  for (size_t i = 0; i < work->live; i++) replace_drop(work, &blocks[i], i);
  free(blocks);
  return NULL;
}

int main(int argc, char** argv) {
  const bench_args_t args = bench_parse(argc, argv);
  replace_t work = {.live = bench_pick(args, 5000, 100000, 100000), .low = 16, .high = 1024};
  for (int i = args.rest; i < argc; i += 2) {
    const char* const value = i + 1 < argc ? argv[i + 1] : "";
    if (strcmp(argv[i], "--live") == 0) {
      work.live = strtoul(value, NULL, 10);
    } else if (strcmp(argv[i], "--low") == 0) {
      work.low = strtoul(value, NULL, 10);
    } else if (strcmp(argv[i], "--high") == 0) {
      work.high = strtoul(value, NULL, 10);
    } else if (strcmp(argv[i], "--sizes") == 0) {
      work.is_log = strcmp(value, "log") == 0;
    } else {
      bench_fail("known options: --live N --low A --high B --sizes uniform|log");
    }
  }
  if (work.live == 0 || work.low == 0 || work.high < work.low) {
    bench_fail("wanted: live > 0 and 0 < low <= high");
  }
  static replace_t works[BENCH_MAX_THREADS];
  const size_t thread_count = args.threads != 0 ? args.threads : 1;
  work.count = bench_pick(args, 20000, 2000000, 10000000);
  for (size_t i = 0; i < thread_count; i++) {
    works[i] = work;
    works[i].seed = i;
  }
  bench_workers(thread_count, replace_run, works, sizeof(replace_t));
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
