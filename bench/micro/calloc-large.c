// SPDX-License-Identifier: MIT
// calloc-large.c - calloc of 1 GiB in a loop, one byte touched per 64 KiB.
//
// Published: nowhere; a sparse table or a large hash map is made so.
// Asks of an allocator: to know which memory is zero already because the system just gave it. One
// that clears it again pays for the whole block in time and in resident memory.
// Every touched byte is verified to be zero, then written, so that a block that comes back dirty
// is seen.
#include "bench.h"

#define CALLOC_STEP ((size_t)64 * 1024)

int main(int argc, char** argv) {
  const bench_args_t args = bench_parse(argc, argv);
  if (args.rest != argc) bench_fail("there are no options of its own");
  const size_t mib = (size_t)1 << 20;
  const size_t size = bench_pick(args, 8 * mib, 1024 * mib, 1024 * mib);
  const size_t count = bench_pick(args, 4, 4, 8);
  uint64_t check = 0;
  for (size_t i = 0; i < count; i++) {
    volatile unsigned char* const p = (volatile unsigned char*)calloc(size / 1024, 1024);
    if (p == NULL) bench_fail("calloc returned NULL");
    for (size_t at = 0; at < size; at += CALLOC_STEP) {
      if (p[at] != 0) bench_fail("memory of calloc is not zero");
      p[at] = (unsigned char)((at / CALLOC_STEP + i) | 1);
      check += p[at];
    }
    if (p[size - 1] != 0) bench_fail("memory of calloc is not zero");
    free((void*)p);
  }
  printf("live_kib %zu\n", size / 1024);
  bench_report(check, count);
  return 0;
}
