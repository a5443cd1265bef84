// SPDX-License-Identifier: MIT
// Threads pass blocks around through shared slots, and each frees, resizes or keeps what it finds,
// made in every way there is. If this fails, a program with threads gets blocks that overlap or are
// not zero, or needs ever more memory.
#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>

#include "load.h"

#define THREADS 4
#define SLOTS 8192
#define TIME_MS 4000
#define CHANGES ((size_t)1500000)

typedef struct {
  size_t size;
  uint8_t mark;
} header_t;

static _Atomic(header_t*) slot[SLOTS];
static _Atomic(size_t) live;
static _Atomic(size_t) running;
static load_t load;
static uint64_t deadline_ms;

// Mostly small; one in 64 up to 64 KiB, one in 1024 up to 2 MiB.
static size_t draw_size(uint64_t* state) {
  const uint64_t r = random_next(state);
  size_t top = (size_t)32 << r % 6;
  if ((r >> 8 & 63) == 0) top = (r >> 14 & 15) != 0 ? 64 * LOAD_KIB : 2 * LOAD_MIB;
  return sizeof(header_t) + random_below(state, top);
}

static header_t* make_zeroed(size_t size) {
  header_t* const block = (header_t*)calloc(1, size);
  load_verify_zero(block, size);
  return block;
}

static header_t* make(uint64_t* state) {
  const size_t size = draw_size(state);
  header_t* block;
  const uint64_t way = random_below(state, 8);
  if (way == 0) {
    block = make_zeroed(size);
  } else if (way == 1) {
    const size_t alignment = (size_t)16 << random_below(state, 10);
    block = (header_t*)memalign(alignment, size);
    CHECK_SAY(((uintptr_t)block & (alignment - 1)) == 0, "%p for %zu", (void*)block, alignment);
  } else {
    block = (header_t*)malloc(size);
  }
  CHECK_SAY(block != NULL, "no memory for %zu bytes", size);
  block->size = size;
  block->mark = (uint8_t)random_next(state);
  load_fill(block + 1, size - sizeof(header_t), block->mark);
  atomic_fetch_add(&live, size);
  return block;
}

static void verify(const header_t* block) {
  load_verify(block + 1, block->size - sizeof(header_t), block->mark);
}

static void drop(header_t* block) {
  verify(block);
  atomic_fetch_sub(&live, block->size);
  free(block);
}

static header_t* resize(header_t* block, uint64_t* state) {
  verify(block);
  const size_t old = block->size, size = draw_size(state);
  header_t* const moved = (header_t*)realloc(block, size);
  CHECK_SAY(moved != NULL, "no memory for %zu bytes", size);
  load_verify_moved(moved + 1, old - sizeof(header_t), size - sizeof(header_t), moved->mark);
  atomic_fetch_add(&live, size - old);
  moved->size = size;
  load_fill(moved + 1, size - sizeof(header_t), moved->mark);
  return moved;
}

static void* work(void* argument) {
  uint64_t state = load.seed + (uintptr_t)argument;
  const size_t changes = load_scale(&load, CHANGES);
  for (size_t i = 0; i < changes; i++) {
    if (i % 256 == 0 && load_now_ms() > deadline_ms) break;
    header_t* block = random_below(&state, 4) != 0 ? make(&state) : NULL;
    block = atomic_exchange(&slot[random_below(&state, SLOTS)], block);
    if (block == NULL) continue;
    if (random_below(&state, 8) == 0) {
      block = atomic_exchange(&slot[random_below(&state, SLOTS)], resize(block, &state));
    }
    if (block != NULL) drop(block);
  }
  atomic_fetch_sub(&running, 1);
  return NULL;
}

int main(int argc, char** argv) {
  load = load_begin(argc, argv);
  deadline_ms = load_now_ms() + TIME_MS;
  pthread_t thread[THREADS];
  const size_t rss_start = load_rss();
  atomic_store(&running, THREADS);
  for (uintptr_t i = 0; i < THREADS; i++) {
    CHECK_SAY(pthread_create(&thread[i], NULL, &work, (void*)i) == 0, "thread %zu", (size_t)i);
  }
  size_t live_peak = 0, rss_peak = 0;
  while (atomic_load(&running) > 0) {
    const size_t live_now = atomic_load(&live);
    const size_t rss = load_rss();
    if (live_now > live_peak) live_peak = live_now;
    if (rss > rss_start + rss_peak) rss_peak = rss - rss_start;
    load_wait_ms(5);
  }
  for (size_t i = 0; i < THREADS; i++) pthread_join(thread[i], NULL);
  for (size_t i = 0; i < SLOTS; i++) {
    header_t* const block = atomic_exchange(&slot[i], NULL);
    if (block != NULL) drop(block);
  }
  CHECK_SAY(atomic_load(&live) == 0, "%zu bytes live", atomic_load(&live));
  printf("peak: live %zu KiB, resident %zu KiB\n", live_peak / LOAD_KIB, rss_peak / LOAD_KIB);
  // Freed memory stays resident for a moment on purpose, and large blocks come and go: others take
  // 45 to 78 MiB, here it is up to 91.
  const size_t bound = load_bound(live_peak * 3 / 2 + 72 * LOAD_MIB);
  CHECK_SAY(rss_peak <= bound, "resident %zu KiB, bound %zu KiB", rss_peak / LOAD_KIB,
            bound / LOAD_KIB);
  return 0;
}
