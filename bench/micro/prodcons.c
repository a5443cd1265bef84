// SPDX-License-Identifier: MIT
// prodcons.c - one thread allocates and writes blocks, another reads and frees them.
//
// Published: E. Berger, K. McKinley, R. Blumofe, P. Wilson, "Hoard: A Scalable Memory Allocator for
// Multithreaded Applications", 2000, names the pattern and what goes wrong with it.
// Asks of an allocator: memory that one thread frees must get back to the one that allocates, or
// the memory of the program grows without bound; cheaply, for every free comes from the other
// thread. With a long queue the blocks come back in large numbers and cold.
// Differs from the paper: the threads hand over single blocks through a bounded ring without
// locks, so that the ring costs little; a side that waits spins for a while, then yields its
// processor. The consumer leaves the queue half full until the producer is done, so that every
// allocator has as many live blocks, whichever of its sides is the faster one.
//
//   --size N   bytes of a block (64)
//   --queue N  blocks between the two threads, 1 to 1000000 (1024)
#include "bench.h"
#include <sched.h>
#include <stdatomic.h>

#define PRODCONS_SPINS 200

typedef struct prodcons_s {
  size_t size;
  size_t count;
  size_t queue;
  unsigned char** ring;
  uint64_t check;
  _Alignas(128) atomic_size_t produced; // written by the producer
  _Alignas(128) atomic_size_t consumed; // written by the consumer
} prodcons_t;

// Wait until the other side's counter is not `old` any more; the new value.
static size_t prodcons_wait(atomic_size_t* counter, size_t old) {
  for (size_t spins = 0;; spins++) {
    const size_t now = atomic_load_explicit(counter, memory_order_acquire);
    if (now != old) return now;
    if (spins >= PRODCONS_SPINS) sched_yield();
  }
}

static void* prodcons_produce(void* argument) {
  prodcons_t* const work = (prodcons_t*)argument;
  size_t slot = 0;
  size_t consumed = 0; // as far as seen
  for (size_t i = 0; i < work->count; i++) {
    if (i - consumed == work->queue) consumed = prodcons_wait(&work->consumed, consumed);
    unsigned char* const p = (unsigned char*)bench_malloc(work->size);
    memset(p, (int)(i % 251), work->size);
    work->ring[slot] = p;
    slot = slot + 1 == work->queue ? 0 : slot + 1;
    atomic_store_explicit(&work->produced, i + 1, memory_order_release);
  }
  return NULL;
}

// Sum of the bytes, eight at a time.
static uint64_t prodcons_sum(const unsigned char* p, size_t size) {
  uint64_t sum = 0;
  size_t at = 0;
  for (; at + 8 <= size; at += 8) {
    uint64_t word;
    memcpy(&word, p + at, 8);
    sum += word;
  }
  for (; at < size; at++) sum += p[at];
  return sum;
}

static void* prodcons_consume(void* argument) {
  prodcons_t* const work = (prodcons_t*)argument;
  const uint64_t ones = UINT64_C(0x0101010101010101);
  const uint64_t factor = ones * (work->size / 8) + work->size % 8;
  size_t slot = 0;
  size_t produced = 0; // as far as seen
  for (size_t i = 0; i < work->count; i++) {
    while (produced - i <= work->queue / 2 && produced < work->count) {
      produced = prodcons_wait(&work->produced, produced);
    }
    unsigned char* const p = work->ring[slot];
    slot = slot + 1 == work->queue ? 0 : slot + 1;
    const uint64_t sum = prodcons_sum(p, work->size);
    if (sum != factor * (i % 251)) bench_fail("the contents of a block have changed");
    work->check += sum;
    free(p);
    atomic_store_explicit(&work->consumed, i + 1, memory_order_release);
  }
  return NULL;
}

int main(int argc, char** argv) {
  const bench_args_t args = bench_parse(argc, argv);
  static prodcons_t work = {.size = 64, .queue = 1024};
  for (int i = args.rest; i < argc; i += 2) {
    const char* const value = i + 1 < argc ? argv[i + 1] : "";
    if (strcmp(argv[i], "--size") == 0) {
      work.size = strtoul(value, NULL, 10);
    } else if (strcmp(argv[i], "--queue") == 0) {
      work.queue = strtoul(value, NULL, 10);
    } else {
      bench_fail("known options: --size N --queue N");
    }
  }
  if (work.size == 0 || work.queue == 0 || work.queue > 1000000) {
    bench_fail("wanted: size > 0 and queue 1 to 1000000");
  }
  // Large blocks: as many as make 2 GiB, for writing them takes the time.
  const size_t most = bench_pick(args, 1 << 23, 1 << 29, (size_t)1 << 31) / work.size + 1;
  work.count = bench_pick(args, 5000, 4000000, 12000000);
  // With a short queue the threads mostly wait for each other.
  if (work.queue < 16 && args.scale != BENCH_TINY) work.count /= 32;
  if (work.count > most) work.count = most;
  work.ring = (unsigned char**)bench_malloc(work.queue * sizeof(work.ring[0]));

  pthread_t producer;
  pthread_t consumer;
  if (pthread_create(&producer, NULL, prodcons_produce, &work) != 0 ||
      pthread_create(&consumer, NULL, prodcons_consume, &work) != 0) {
    bench_fail("a thread could not be started");
  }
  pthread_join(producer, NULL);
  pthread_join(consumer, NULL);
  free(work.ring);
  bench_report(work.check, work.count);
  return 0;
}
