// SPDX-License-Identifier: MIT
// malloc-large.c - a window of large blocks that are replaced again and again.
//
// Pattern: one thread keeps 20 blocks of 5 to 25 MiB, replaces a random one with a block of
// another size, and writes to every page of it.
// Asks: large blocks without an mmap and a page fault per page each time, and yet no more memory
// kept than is alive.
//
// Origin: malloc-large of the mimalloc-bench suite by Daan Leijen: blocks of 5 to 25 MiB, 20 alive
// at a time.
// Differs: written from that sentence alone; a fixed number of replacements; every page is checked
// when its block is freed. The small scales have fewer blocks.
#include "bench.h"

#define WINDOW_MAX 20
#define PAGE_BYTES 4096

typedef struct block_s {
  uint64_t* words;
  size_t size;
} block_t;

static bench_random_t random_state = {525};
static uint64_t check;
static uint64_t mallocs;

static block_t block_new(void) {
  const size_t size = bench_between(&random_state, 5u << 20, 25u << 20) & ~(size_t)(PAGE_BYTES - 1);
  const block_t block = {bench_malloc(size), size};
  mallocs++;
  for (size_t i = 0; i < size / sizeof(uint64_t); i += PAGE_BYTES / sizeof(uint64_t)) {
    block.words[i] = size + i;
  }
  return block;
}

static void block_free(block_t block) {
  for (size_t i = 0; i < block.size / sizeof(uint64_t); i += PAGE_BYTES / sizeof(uint64_t)) {
    if (block.words[i] != block.size + i) bench_fail("the contents of a block have changed");
  }
  check = check * 31 + block.words[0];
  free(block.words);
}

int main(int argc, char** argv) {
  const bench_args_t args = bench_parse(argc, argv);
  const size_t window = bench_pick(args, 2, 8, WINDOW_MAX);
  const size_t replacements = bench_pick(args, 2, 100, 700);
  block_t blocks[WINDOW_MAX];
  for (size_t i = 0; i < window; i++) blocks[i] = block_new();
  for (size_t k = 0; k < replacements; k++) {
    const size_t i = bench_below(&random_state, window);
    block_free(blocks[i]);
    blocks[i] = block_new();
  }
  for (size_t i = 0; i < window; i++) block_free(blocks[i]);
  bench_report(check, mallocs);
  return 0;
}
