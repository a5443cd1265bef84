// SPDX-License-Identifier: MIT
// region.c - arrays that grow, for the program that reads and replays a trace: in memory that
// comes from the system directly, because the allocator is what it measures.
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../base/bits.h"
#include "region.h"

#define MI_REGION_FIRST ((size_t)64 * 1024)

void mi_region_grow(mi_region_t* region, uint64_t bytes) {
  if (bytes <= region->bytes) return;
  size_t wanted = region->bytes == 0 ? MI_REGION_FIRST : region->bytes;
  while (wanted < bytes && wanted < SIZE_MAX / 4) wanted *= 2;
  void* p;
  if (region->start == NULL) {
    p = mmap(NULL, wanted, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1,
             0);
  } else {
    p = mremap(region->start, region->bytes, wanted, MREMAP_MAYMOVE);
  }
  if (p == MAP_FAILED) {
    fprintf(stderr, "mimalloc-player: no memory for a table of %zu MiB\n", wanted >> 20);
    exit(1);
  }
  region->start = p;
  region->bytes = wanted;
}

void mi_region_trim(mi_region_t* region, size_t bytes) {
  const size_t kept = mi_bits_align_up(bytes, (size_t)sysconf(_SC_PAGESIZE));
  if (kept >= region->bytes) return;
  munmap((uint8_t*)region->start + kept, region->bytes - kept);
  region->bytes = kept;
  if (kept == 0) region->start = NULL;
}
