// SPDX-License-Identifier: MIT
// One thread allocates, three only free and never allocate, and the sizes change with time. If this
// fails, a pipeline of threads needs more and more memory although only so much is under way.
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "load.h"

#define CONSUMERS 3
#define PHASES 4
#define TIME_MS 1500 // of a phase
#define LIVE_WANTED (64 * LOAD_MIB)
#define MESSAGES ((size_t)1500000) // of a phase
#define RING_MAX (1u << 18)
#define SHOWN 56 // bytes of a block that are checked, at most

static _Atomic(uintptr_t*) ring[RING_MAX]; // blocks whose first word is their size
static _Atomic(size_t) live;
static _Atomic(size_t) under_way; // messages
static _Atomic(bool) is_done;

static size_t shown(size_t size) {
  return size - sizeof(uintptr_t) < SHOWN ? size - sizeof(uintptr_t) : SHOWN;
}

static void drop(uintptr_t* block) {
  const size_t size = block[0];
  load_verify(block + 1, shown(size), (uint8_t)size);
  free(block);
  atomic_fetch_sub(&live, size);
  atomic_fetch_sub(&under_way, 1);
}

static bool is_enough(void) {
  return atomic_load(&live) >= LIVE_WANTED * 3 / 4 || atomic_load(&under_way) >= RING_MAX * 3 / 4;
}

// Free what lies in the ring, a third of it each, while enough is under way.
static void* consume(void* argument) {
  size_t i = (uintptr_t)argument;
  while (!atomic_load(&is_done)) {
    if (!is_enough()) {
      sched_yield();
      continue;
    }
    for (size_t k = 0; k < 256; k++, i += CONSUMERS) {
      uintptr_t* const block = atomic_exchange(&ring[i % RING_MAX], NULL);
      if (block != NULL) drop(block);
    }
  }
  return NULL;
}

static void send(size_t i, size_t size) {
  uintptr_t* const block = (uintptr_t*)malloc(size);
  CHECK_SAY(block != NULL, "no memory for %zu bytes", size);
  memset(block, 0, size);
  block[0] = size;
  load_fill(block + 1, shown(size), (uint8_t)size);
  atomic_fetch_add(&live, size);
  atomic_fetch_add(&under_way, 1);
  atomic_store(&ring[i % RING_MAX], block);
}

typedef struct {
  size_t live, rss;
} peak_t;

static size_t produce(const load_t* load, unsigned phase, size_t base, peak_t* peak) {
  uint64_t state = load->seed + phase;
  const uint64_t deadline_ms = load_now_ms() + TIME_MS;
  const size_t smallest = (size_t)16 << phase * 2, messages = load_scale(load, MESSAGES);
  size_t sent = 0;
  for (size_t i = 0; sent < messages; i++) {
    if (i % 1024 == 0) {
      const size_t rss = load_rss();
      if (rss > base + peak->rss) peak->rss = rss - base;
      if (load_now_ms() > deadline_ms) break;
    }
    const size_t now = atomic_load(&live);
    if (now > peak->live) peak->live = now;
    if (now > LIVE_WANTED || atomic_load(&ring[i % RING_MAX]) != NULL) {
      if (i % 64 == 0) sched_yield();
      continue;
    }
    send(i, smallest + random_below(&state, smallest * 7));
    sent++;
  }
  return sent;
}

int main(int argc, char** argv) {
  const load_t load = load_begin(argc, argv);
  pthread_t thread[CONSUMERS];
  for (uintptr_t i = 0; i < CONSUMERS; i++) {
    CHECK_SAY(pthread_create(&thread[i], NULL, &consume, (void*)i) == 0, "thread %zu", (size_t)i);
  }
  const size_t base = load_rss();
  peak_t peak = {0, 0};
  for (unsigned phase = 0; phase < PHASES; phase++) {
    const size_t sent = produce(&load, phase, base, &peak);
    printf("phase %u: %zu messages; peak so far: live %zu KiB, resident %zu KiB\n", phase, sent,
           peak.live / LOAD_KIB, peak.rss / LOAD_KIB);
    fflush(stdout);
  }
  atomic_store(&is_done, true);
  for (size_t i = 0; i < CONSUMERS; i++) pthread_join(thread[i], NULL);
  for (size_t i = 0; i < RING_MAX; i++) {
    uintptr_t* const block = atomic_exchange(&ring[i], NULL);
    if (block != NULL) drop(block);
  }
  // Pages that the producer still owns wait for it to come by; others take 115 to 128 MiB.
  const size_t bound = load_bound(peak.live * 3 / 2 + 40 * LOAD_MIB);
  CHECK_SAY(peak.rss <= bound, "resident %zu KiB, bound %zu KiB", peak.rss / LOAD_KIB,
            bound / LOAD_KIB);
  return 0;
}
