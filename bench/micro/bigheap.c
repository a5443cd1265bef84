// SPDX-License-Identifier: MIT
// bigheap.c - a heap of 10 GiB of mixed sizes: filled, three times half replaced, then nearly
// emptied.
//
// Published: that the memory of a long-lived heap may not follow what lives is measured by A.
// Bohra and E. Gabber, "Are Mallocs Free of Fragmentation?", 2001; this pattern is ours.
// Asks of an allocator: tables and searches that work for millions of blocks and thousands of its
// own pages; reuse of holes by blocks of other sizes; and, with 90 % freed at random, to find
// whole pages to give back. Nobody does the last well; it shows how badly.
// Every page of each block is touched once. A round frees each block with a probability of one
// half and fills up with other sizes: 64 B to 64 KiB, 256 B to 16 KiB, 64 B to 64 KiB, 1 KiB to
// 32 KiB, each power of two as likely as the next; one block in 1024 is 64 KiB to 1 MiB.
//
// Prints live_kib (peak), resident_full_kib (then), left_kib (the tenth that lives at the end) and
// resident_kib (then).
#include "bench.h"

#define BIGHEAP_PAGE ((size_t)4096)

typedef struct bigheap_block_s {
  volatile unsigned char* start;
  size_t size; // the mark is its low byte
} bigheap_block_t;

typedef struct bigheap_s {
  bigheap_block_t* blocks;
  size_t count;
  size_t count_max; // of the table
  size_t bytes;
  bench_random_t random;
  uint64_t check;
  uint64_t ops;
} bigheap_t;

static const struct {
  size_t low;
  size_t powers;
} bigheap_sizes[] = {{64, 10}, {256, 6}, {64, 10}, {1024, 5}};

static void bigheap_fill(bigheap_t* heap, size_t target, size_t round) {
  while (heap->bytes < target) {
    if (heap->count == heap->count_max) bench_fail("the table is too small");
    const bool is_large = bench_below(&heap->random, 1024) == 0;
    const size_t low = is_large ? 64 * 1024 : bigheap_sizes[round].low;
    const size_t powers = is_large ? 4 : bigheap_sizes[round].powers;
    const size_t power = low << bench_below(&heap->random, powers);
    const size_t size = power + bench_below(&heap->random, power);
    bigheap_block_t* const block = &heap->blocks[heap->count++];
    block->start = (volatile unsigned char*)bench_malloc(size);
    block->size = size;
    for (size_t at = 0; at < size; at += BIGHEAP_PAGE) block->start[at] = (unsigned char)size;
    block->start[size - 1] = (unsigned char)size;
    heap->bytes += size;
    heap->ops++;
  }
}

// Free each block with a probability of `parts` of ten.
static void bigheap_thin(bigheap_t* heap, size_t parts) {
  size_t kept = 0;
  for (size_t i = 0; i < heap->count; i++) {
    const bigheap_block_t block = heap->blocks[i];
    if (bench_below(&heap->random, 10) >= parts) {
      heap->blocks[kept++] = block;
      continue;
    }
    bench_verify((void*)block.start, block.size, block.size);
    heap->check += block.start[0] + block.size;
    heap->bytes -= block.size;
    free((void*)block.start);
  }
  heap->count = kept;
}

int main(int argc, char** argv) {
  const bench_args_t args = bench_parse(argc, argv);
  if (args.rest != argc) bench_fail("there are no options of its own");
  const size_t mib = (size_t)1 << 20;
  const size_t target = bench_pick(args, 16 * mib, 1024 * mib, 10240 * mib);
  bigheap_t heap = {.count_max = target / 1024};
  heap.blocks = (bigheap_block_t*)bench_malloc(heap.count_max * sizeof(bigheap_block_t));

  size_t bytes_max = 0;
  for (size_t round = 0; round < sizeof(bigheap_sizes) / sizeof(bigheap_sizes[0]); round++) {
    if (round > 0) bigheap_thin(&heap, 5);
    bigheap_fill(&heap, target, round);
    if (heap.bytes > bytes_max) bytes_max = heap.bytes;
  }
  printf("live_kib %zu\nresident_full_kib %zu\n", bytes_max / 1024, bench_resident_kib());
  bigheap_thin(&heap, 9);
  printf("left_kib %zu\nresident_kib %zu\n", heap.bytes / 1024, bench_resident_kib());
  bigheap_thin(&heap, 10);
  free(heap.blocks);
  bench_report(heap.check, heap.ops);
  return 0;
}
