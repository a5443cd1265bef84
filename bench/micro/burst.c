// SPDX-License-Identifier: MIT
// burst.c - a burst of 1 GiB of small blocks, of which 1 % stays; then the program idles.
//
// Published: nowhere; a service after its rush hour, or an editor after loading a project.
// Asks of an allocator: to give memory back although the program does nothing that would remind
// it, and soon, although a block stays here and there. What stays are runs of 256 neighbours in
// 25600, so that most pages are empty. Sizes are 16 to 2048 bytes, all alike.
//
//   --alive  malloc and free of 64 bytes every 10 ms during the pause
//
// Prints live_kib (peak), left_kib (what stays), and resident_kib_0s, _1s, _2s, _5s, _10s: after
// so many seconds of the pause (quick: up to 2; tiny: all at once, without a pause). `seconds` is
// without it.
#include "bench.h"

#define BURST_RUN 256
#define BURST_PERIOD 25600

typedef struct burst_block_s {
  unsigned char* start;
  size_t size;
} burst_block_t;

static void burst_drop(burst_block_t* block, size_t index, uint64_t* check) {
  bench_verify(block->start, block->size, index);
  *check += block->start[0] + block->size;
  free(block->start);
  block->start = NULL;
}

static void burst_wait(uint64_t until_ns, bool is_alive, uint64_t* ops) {
  while (bench_now_ns() < until_ns) {
    const struct timespec step = {0, 10000000};
    nanosleep(&step, NULL);
    if (!is_alive) continue;
    void* const p = bench_malloc(64);
    bench_mark(p, 64, 1);
    free(p);
    (*ops)++;
  }
}

static void burst_pause(bench_args_t args, bool is_alive) {
  static const uint64_t seconds[] = {0, 1, 2, 5, 10};
  const size_t count = args.scale == BENCH_QUICK ? 3 : 5;
  const uint64_t start = bench_now_ns();
  uint64_t ops = 0; // as many as the clock allows, so not counted in the report
  for (size_t i = 0; i < count; i++) {
    const uint64_t pause_ns = args.scale == BENCH_TINY ? 0 : seconds[i] * 1000000000u;
    burst_wait(start + pause_ns, is_alive, &ops);
    const size_t resident = bench_resident_kib();
    printf("resident_kib_%us %zu\n", (unsigned)seconds[i], resident);
  }
  if (is_alive) printf("alive_ops %llu\n", (unsigned long long)ops);
}

int main(int argc, char** argv) {
  const bench_args_t args = bench_parse(argc, argv);
  const bool is_alive = args.rest < argc && strcmp(argv[args.rest], "--alive") == 0;
  if (args.rest + (is_alive ? 1 : 0) != argc) bench_fail("known option: --alive");
  const size_t mib = (size_t)1 << 20;
  const size_t target = bench_pick(args, 8 * mib, 128 * mib, 1024 * mib);
  const size_t count_max = target / 512;

  const uint64_t start = bench_now_ns();
  burst_block_t* const blocks = (burst_block_t*)bench_malloc(count_max * sizeof(burst_block_t));
  bench_random_t random = {1};
  size_t count = 0;
  size_t bytes = 0;
  while (bytes < target) {
    if (count == count_max) bench_fail("the table is too small");
    const size_t size = bench_between(&random, 16, 2048);
    blocks[count] = (burst_block_t){(unsigned char*)bench_malloc(size), size};
    bench_mark(blocks[count].start, size, count);
    bytes += size;
    count++;
  }
  printf("live_kib %zu\n", bytes / 1024);
  uint64_t check = 0;
  for (size_t i = 0; i < count; i++) {
    if (i % BURST_PERIOD < BURST_RUN) continue;
    bytes -= blocks[i].size;
    burst_drop(&blocks[i], i, &check);
  }
  printf("left_kib %zu\n", bytes / 1024);

  const uint64_t pause_start = bench_now_ns();
  burst_pause(args, is_alive);
  const uint64_t pause_end = bench_now_ns();
  for (size_t i = 0; i < count; i++) {
    if (blocks[i].start != NULL) burst_drop(&blocks[i], i, &check);
  }
  free(blocks);
  const uint64_t busy_ns = (pause_start - start) + (bench_now_ns() - pause_end);
  printf("seconds %.6f\n", (double)busy_ns / 1e9);
  bench_report(check, count);
  return 0;
}
