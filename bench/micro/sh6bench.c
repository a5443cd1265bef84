// SPDX-License-Identifier: MIT
// sh6bench.c - batches of growing sizes, freed partly in order and partly in reverse.
//
// Pattern: one thread allocates a batch of some thousand blocks of sizes growing from 1 to 1000
// bytes, small ones most often. Half of the batch is freed in the order of allocation, a quarter
// in the reverse order, and a quarter lives until the next batch is complete.
// Asks: that the order of frees does not matter, and that free memory of one size serves another.
//
// Origin: sh6bench by MicroQuill (2006), part of the SmartHeap test programs; described in Leijen,
// Zorn and de Moura, "Mimalloc: Free List Sharding in Action", 2019: "some of the objects are
// freed in a usual last-allocated, first-freed (LIFO) order, but others are freed in reverse
// order".
// Differs: written from that sentence; the parts and the sizes are our choice.
#include "bench.h"

#define BATCH_MAX 4096
#define SIZE_LARGEST 1000

typedef struct entry_s {
  void* block;
  uint32_t size;
  uint32_t key; // what its contents depend on
} entry_t;

static bench_random_t random_state = {2006};
static uint64_t check;
static uint64_t mallocs;

static entry_t entry_new(size_t size) {
  const entry_t entry = {bench_malloc(size), (uint32_t)size, (uint32_t)bench_random(&random_state)};
  bench_mark(entry.block, size, entry.key);
  mallocs++;
  return entry;
}

static void entry_free(entry_t entry) {
  bench_verify(entry.block, entry.size, entry.key);
  check = check * 31 + entry.key;
  free(entry.block);
}

// Fill a batch; the number of blocks of a size is inverse to it.
static size_t batch_fill(entry_t* entries) {
  size_t count = 0;
  for (size_t size = 1; size <= SIZE_LARGEST; size += 1 + size / 8) {
    for (size_t k = 2 + 800 / size; k > 0 && count < BATCH_MAX; k--)
      entries[count++] = entry_new(size);
  }
  return count;
}

int main(int argc, char** argv) {
  const bench_args_t args = bench_parse(argc, argv);
  const size_t batches = bench_pick(args, 20, 5000, 25000);
  static entry_t entries[BATCH_MAX];
  static entry_t kept[BATCH_MAX];
  size_t kept_count = 0;
  for (size_t batch = 0; batch < batches; batch++) {
    const size_t count = batch_fill(entries);
    for (size_t i = 0; i < kept_count; i++) entry_free(kept[i]);
    kept_count = 0;
    for (size_t i = 0; i < count; i++) {
      if (i % 4 < 2) entry_free(entries[i]);
    }
    for (size_t i = count; i-- > 0;) {
      if (i % 4 == 2) entry_free(entries[i]);
    }
    for (size_t i = 3; i < count; i += 4) kept[kept_count++] = entries[i];
  }
  for (size_t i = kept_count; i-- > 0;) entry_free(kept[i]);
  bench_report(check, mallocs);
  return 0;
}
