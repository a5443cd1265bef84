// SPDX-License-Identifier: MIT
// A program needs much memory for a moment, and then little. If this fails, it keeps the memory
// that the other programs on the machine need.
#include "load.h"

#define BURST_BYTES (512 * LOAD_MIB)
#define BOUND (64 * LOAD_MIB)
#define AFTER_MS 2500
#define BLOCK_MAX 2000000

static void* block[BLOCK_MAX];

static size_t draw_size(uint64_t* state) {
  const size_t top = (size_t)128 << random_below(state, 14);
  return top + random_below(state, top);
}

int main(int argc, char** argv) {
  load_t load = load_begin(argc, argv);
  uint64_t state = load.seed;
  const size_t wanted = load_scale(&load, BURST_BYTES);
  const uint64_t start_ms = load_now_ms();
  size_t bytes = 0, count = 0;
  while (bytes < wanted && count < BLOCK_MAX && load_now_ms() - start_ms < 4000) {
    const size_t size = draw_size(&state);
    block[count] = malloc(size);
    CHECK_SAY(block[count] != NULL, "no memory for %zu bytes", size);
    memset(block[count++], 1, size);
    bytes += size;
  }
  const size_t full = load_rss();
  for (size_t i = 0; i < count; i++) free(block[i]);
  const uint64_t freed_ms = load_now_ms();
  uint64_t below_ms = 0;
  size_t rss = load_rss();
  printf("resident %zu KiB with %zu KiB live, %zu KiB when all is freed\n", full / LOAD_KIB,
         bytes / LOAD_KIB, rss / LOAD_KIB);
  // A program that goes on with little: a few allocations now and then.
  while (load_now_ms() - freed_ms < AFTER_MS) {
    for (size_t i = 0; i < 2000; i++) block[i] = malloc(16 + random_below(&state, 500));
    for (size_t i = 0; i < 2000; i++) free(block[i]);
    load_wait_ms(5);
    rss = load_rss();
    if (rss < load_bound(BOUND) && below_ms == 0) below_ms = load_now_ms() - freed_ms;
  }
  printf("resident %zu KiB at the end; below %zu KiB after %llu ms\n", rss / LOAD_KIB,
         BOUND / LOAD_KIB, (unsigned long long)below_ms);
  CHECK_SAY(full >= bytes, "the memory was really used");
  CHECK_SAY(rss < load_bound(BOUND), "resident %zu KiB", rss / LOAD_KIB);
  return 0;
}
