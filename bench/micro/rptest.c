// SPDX-License-Identifier: MIT
// rptest.c - random replacements in batches, with batches of blocks that other threads free.
//
// Pattern: each thread has a table of blocks. In every loop it frees a batch of them, picked at
// random, and fills the holes with new sizes; in every second loop it also allocates a batch,
// sends it to another thread, and frees what others have sent to it. Sizes from 8 to 16000 bytes,
// in three distributions: even, falling linearly, falling exponentially.
// Asks: a wide mix of sizes over many threads, with frees of foreign blocks all the time.
//
// Origin: the benchmark of the rpmalloc project by Mattias Jansson, described in its read-me; run
// as rptestN in the read-me of the mimalloc project.
// Differs: written from these descriptions alone; all three distributions are run one after the
// other, with fresh threads; what is left in the mailboxes at the end of one is freed by the main
// thread.
//
// Options: --distribution even|linear|exponential for one of the three.
#include "bench.h"
#include <stdatomic.h>

#define TABLE_COUNT 1000
#define BATCH_COUNT 100
#define CROSS_LOOPS 2
#define SIZE_MIN_BYTES 8
#define SIZE_MAX_BYTES 16000

typedef enum distribution_e { EVEN, LINEAR, EXPONENTIAL, DISTRIBUTIONS } distribution_t;

// The first bytes of every block.
typedef struct block_s {
  uint32_t size;
  uint32_t key;
} block_t;

// Blocks on their way to another thread.
typedef struct parcel_s {
  struct parcel_s* next;
  block_t* blocks[BATCH_COUNT];
} parcel_t;

typedef struct worker_s {
  _Atomic(parcel_t*) mailbox;
  bench_random_t random;
  distribution_t distribution;
  size_t loops;
  size_t index;
  block_t** table;
  uint64_t check; // sum over the freed blocks: the same whoever frees them
  uint64_t mallocs;
} worker_t;

static worker_t workers[BENCH_MAX_THREADS];
static size_t worker_count;

static size_t size_random(worker_t* worker) {
  const size_t range = SIZE_MAX_BYTES - SIZE_MIN_BYTES;
  size_t offset = bench_below(&worker->random, range + 1);
  if (worker->distribution == LINEAR) { // the smaller of two: the density falls linearly to zero
    const size_t other = bench_below(&worker->random, range + 1);
    if (other < offset) offset = other;
  } else if (worker->distribution == EXPONENTIAL) { // each halving of the range is equally likely
    offset >>= bench_below(&worker->random, 12);
  }
  return SIZE_MIN_BYTES + offset;
}

static block_t* block_new(worker_t* worker) {
  const size_t size = size_random(worker);
  block_t* const block = bench_malloc(size);
  const uint32_t key = (uint32_t)bench_random(&worker->random);
  bench_mark(block, size, key);
  *block = (block_t){(uint32_t)size, key};
  if (size > sizeof(block_t))
    bench_mark((char*)block + sizeof(block_t), size - sizeof(block_t), key);
  worker->mallocs++;
  return block;
}

static void block_free(worker_t* worker, block_t* block) {
  const size_t size = block->size;
  if (size < SIZE_MIN_BYTES || size > SIZE_MAX_BYTES) bench_fail("the head of a block has changed");
  if (size > sizeof(block_t)) {
    bench_verify((char*)block + sizeof(block_t), size - sizeof(block_t), block->key);
  }
  worker->check += ((uint64_t)block->key << 16) + size;
  free(block);
}

static void parcel_send(worker_t* worker) {
  parcel_t* const parcel = bench_malloc(sizeof(parcel_t));
  worker->mallocs++;
  for (size_t i = 0; i < BATCH_COUNT; i++) parcel->blocks[i] = block_new(worker);
  const size_t step = worker_count > 1 ? 1 + bench_below(&worker->random, worker_count - 1) : 0;
  worker_t* const other = &workers[(worker->index + step) % worker_count];
  parcel->next = atomic_load_explicit(&other->mailbox, memory_order_relaxed);
  while (!atomic_compare_exchange_weak_explicit(&other->mailbox, &parcel->next, parcel,
                                                memory_order_release, memory_order_relaxed)) {
  }
}

static void mailbox_drain(worker_t* worker) {
  parcel_t* parcel = atomic_exchange_explicit(&worker->mailbox, NULL, memory_order_acquire);
  while (parcel != NULL) {
    parcel_t* const next = parcel->next;
    for (size_t i = 0; i < BATCH_COUNT; i++) block_free(worker, parcel->blocks[i]);
    free(parcel);
    parcel = next;
  }
}

static void* worker_run(void* argument) {
  worker_t* const worker = argument;
  worker->table = bench_malloc(TABLE_COUNT * sizeof(block_t*));
  worker->mallocs++;
  for (size_t i = 0; i < TABLE_COUNT; i++) worker->table[i] = block_new(worker);
  for (size_t loop = 0; loop < worker->loops; loop++) {
    size_t places[BATCH_COUNT];
    for (size_t i = 0; i < BATCH_COUNT; i++) { // one of each tenth, so that none comes twice
      places[i] = i * (TABLE_COUNT / BATCH_COUNT);
      places[i] += bench_below(&worker->random, TABLE_COUNT / BATCH_COUNT);
      block_free(worker, worker->table[places[i]]);
    }
    for (size_t i = 0; i < BATCH_COUNT; i++) worker->table[places[i]] = block_new(worker);
    if (loop % CROSS_LOOPS == 0) {
      parcel_send(worker);
      mailbox_drain(worker);
    }
  }
  for (size_t i = 0; i < TABLE_COUNT; i++) block_free(worker, worker->table[i]);
  free(worker->table);
  return NULL;
}

static distribution_t distribution_parse(const char* name) {
  if (strcmp(name, "even") == 0) return EVEN;
  if (strcmp(name, "linear") == 0) return LINEAR;
  if (strcmp(name, "exponential") == 0) return EXPONENTIAL;
  bench_fail("--distribution must be even, linear or exponential");
  return DISTRIBUTIONS;
}

int main(int argc, char** argv) {
  const bench_args_t args = bench_parse(argc, argv);
  distribution_t only = DISTRIBUTIONS;
  if (args.rest + 1 < argc && strcmp(argv[args.rest], "--distribution") == 0) {
    only = distribution_parse(argv[args.rest + 1]);
  }
  worker_count = args.threads > 0 ? args.threads : bench_pick(args, 3, 8, 8);
  uint64_t check = 0;
  uint64_t mallocs = 0;
  for (distribution_t d = EVEN; d < DISTRIBUTIONS; d++) {
    if (only != DISTRIBUTIONS && only != d) continue;
    for (size_t i = 0; i < worker_count; i++) {
      worker_t* const worker = &workers[i];
      *worker = (worker_t){.random = {(uint64_t)d * 10000 + i}, .distribution = d, .index = i};
      worker->loops = bench_pick(args, 10, 300, 1200);
    }
    bench_threads(worker_count, worker_run, workers, sizeof(worker_t));
    for (size_t i = 0; i < worker_count; i++) {
      mailbox_drain(&workers[i]);
      check += workers[i].check;
      mallocs += workers[i].mallocs;
    }
  }
  bench_report(check, mallocs);
  return 0;
}
