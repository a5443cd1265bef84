// SPDX-License-Identifier: MIT
// alloc-test.c - allocate into and free from random slots, sizes after Pareto, all memory used.
//
// Pattern: each thread has a table of slots of its own and visits them at random: an empty one
// gets a block, which is written from end to end; a full one is read from end to end and freed.
// Sizes follow the rule of Pareto (one fifth of the sizes takes four fifths of the calls) up to 1
// KiB.
// Asks: speed when blocks have random ages, and a heap dense enough for the caches.
//
// Origin: OLogN Technologies (ITHare.com), "Testing Memory Allocators: ptmalloc2 vs tcmalloc vs
// hoard vs jemalloc While Trying to Simulate Real-World Loads", 2018.
// Differs: fewer operations and slots; one thread unless --threads says otherwise; the time
// includes filling the table.
#include "bench.h"

#define SIZE_CLASSES 128 // in units of 8 bytes

typedef struct slot_s {
  uint64_t* words;
  size_t count;
} slot_t;

typedef struct worker_s {
  bench_random_t random;
  size_t operations;
  size_t slot_count;
  uint64_t check;
  uint64_t mallocs;
} worker_t;

// Four of five go to the first fifth of the range, four of five of these to the first fifth of
// that, and so on, four times.
static size_t pareto(bench_random_t* random, size_t range) {
  uint64_t choice = bench_random(random) >> 1;
  for (int depth = 0; depth < 4; depth++) {
    const size_t head = (range + 4) / 5;
    if (choice % 5 == 4 && head < range) return head + bench_below(random, range - head);
    choice /= 5;
    range = head;
  }
  return bench_below(random, range);
}

static void slot_fill(worker_t* worker, slot_t* slot) {
  slot->count = 1 + pareto(&worker->random, SIZE_CLASSES);
  slot->words = bench_malloc(slot->count * sizeof(uint64_t));
  const uint64_t key = bench_random(&worker->random);
  for (size_t i = 0; i < slot->count; i++) slot->words[i] = key + i;
  worker->mallocs++;
}

static void slot_clear(worker_t* worker, slot_t* slot) {
  const uint64_t key = slot->words[0];
  for (size_t i = 0; i < slot->count; i++) {
    if (slot->words[i] != key + i) bench_fail("the contents of a block have changed");
  }
  worker->check = worker->check * 31 + key;
  free(slot->words);
  slot->words = NULL;
}

static void* worker_run(void* argument) {
  worker_t* const worker = argument;
  slot_t* const slots = calloc(worker->slot_count, sizeof(slot_t));
  if (slots == NULL) bench_fail("calloc returned NULL");
  worker->mallocs++;
  for (size_t i = 0; i < worker->operations; i++) {
    slot_t* const slot = &slots[bench_below(&worker->random, worker->slot_count)];
    if (slot->words == NULL) {
      slot_fill(worker, slot);
    } else {
      slot_clear(worker, slot);
    }
  }
  for (size_t i = 0; i < worker->slot_count; i++) {
    if (slots[i].words != NULL) slot_clear(worker, &slots[i]);
  }
  free(slots);
  return NULL;
}

int main(int argc, char** argv) {
  const bench_args_t args = bench_parse(argc, argv);
  const size_t threads = args.threads > 0 ? args.threads : 1;
  static worker_t workers[BENCH_MAX_THREADS];
  for (size_t i = 0; i < threads; i++) {
    workers[i].random.state = 2018 + i;
    workers[i].operations = bench_pick(args, 20000, 4000000, 8000000);
    workers[i].slot_count = bench_pick(args, 1000, 30000, 65536);
  }
  bench_threads(threads, worker_run, workers, sizeof(worker_t));
  uint64_t check = 0;
  uint64_t mallocs = 0;
  for (size_t i = 0; i < threads; i++) {
    check += workers[i].check;
    mallocs += workers[i].mallocs;
  }
  bench_report(check, mallocs);
  return 0;
}
