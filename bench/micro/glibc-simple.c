// SPDX-License-Identifier: MIT
// glibc-simple.c - bursts of blocks of one size: allocate some, free them in order, again.
//
// Pattern: one thread; for each size from 8 bytes to 4 KiB and each count of 25, 100, 400 and
// 1600: allocate `count` blocks, then free all of them, first one first.
// Asks: the bare cost of malloc and free; the larger counts do not fit into short caches.
//
// Origin: bench-malloc-simple among the benchmarks of the GNU C library (2018).
// Differs: written from a description of the pattern; all sizes in one run; the number of bursts
// falls with the count, so that each count takes as many calls; blocks are written at both ends
// and checked. There is never a second thread, so nothing is said about the cost of locks.
#include "bench.h"

#define COUNT_MAX 1600

int main(int argc, char** argv) {
  const bench_args_t args = bench_parse(argc, argv);
  const size_t calls = bench_pick(args, 1600, 40000, 200000); // of each size and count
  static const size_t counts[] = {25, 100, 400, COUNT_MAX};
  static void* blocks[COUNT_MAX];
  uint64_t check = 0;
  uint64_t mallocs = 0;
  // Powers of two and the sizes halfway between.
  for (size_t size = 8; size <= 4096; size += (size & (size - 1)) == 0 ? size / 2 : size / 3) {
    for (size_t c = 0; c < sizeof(counts) / sizeof(counts[0]); c++) {
      for (size_t burst = 0; burst < calls / counts[c]; burst++) {
        for (size_t i = 0; i < counts[c]; i++) {
          blocks[i] = bench_malloc(size);
          bench_mark(blocks[i], size, burst + i);
        }
        for (size_t i = 0; i < counts[c]; i++) {
          bench_verify(blocks[i], size, burst + i);
          check += *(const unsigned char*)blocks[i] * size;
          free(blocks[i]);
        }
        mallocs += counts[c];
      }
    }
  }
  bench_report(check, mallocs);
  return 0;
}
