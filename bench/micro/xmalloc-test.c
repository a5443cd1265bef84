// SPDX-License-Identifier: MIT
// xmalloc-test.c - threads that only allocate hand everything to threads that only free.
//
// Pattern: producers allocate batches of blocks of random small sizes and put them in a queue;
// consumers take them out and free them. Every single free is of a foreign block, and no consumer
// ever allocates.
// Asks: that memory freed by a thread that has no use for it finds the way back to the others, and
// that this costs no lock per block.
//
// Origin: Lever and Boreham, "malloc() Performance in a Multithreaded Linux Environment", USENIX
// 2000, and Christian Eder's version with a queue; described in Leijen, Zorn and de Moura,
// "Mimalloc: Free List Sharding in Action", 2019.
// Differs: a fixed number of batches instead of a time limit; the queue is bounded, so that memory
// does not depend on who is faster. Two producers and two consumers; --threads N for N and N.
#include "bench.h"

#define BATCH_COUNT 120
#define QUEUE_BATCHES 64
#define SIZE_MIN_BYTES 16
#define SIZE_MAX_BYTES 512

typedef struct block_s {
  uint64_t size;
  uint64_t key;
} block_t;

typedef struct batch_s {
  block_t* blocks[BATCH_COUNT];
} batch_t;

typedef struct worker_s {
  bool is_producer;
  size_t batches; // to produce
  bench_random_t random;
  uint64_t check;
  uint64_t mallocs;
} worker_t;

// The queue: a ring.
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t has_batch = PTHREAD_COND_INITIALIZER;
static pthread_cond_t has_room = PTHREAD_COND_INITIALIZER;
static batch_t* ring[QUEUE_BATCHES];
static size_t ring_first;
static size_t ring_count;
static size_t batches_left; // not yet taken out by anybody

static void queue_push(batch_t* batch) {
  pthread_mutex_lock(&lock);
  while (ring_count == QUEUE_BATCHES) pthread_cond_wait(&has_room, &lock);
  ring[(ring_first + ring_count++) % QUEUE_BATCHES] = batch;
  pthread_cond_signal(&has_batch);
  pthread_mutex_unlock(&lock);
}

// NULL when the last batch was taken.
static batch_t* queue_pop(void) {
  batch_t* batch = NULL;
  pthread_mutex_lock(&lock);
  while (ring_count == 0 && batches_left > 0) pthread_cond_wait(&has_batch, &lock);
  if (ring_count > 0) {
    batch = ring[ring_first];
    ring_first = (ring_first + 1) % QUEUE_BATCHES;
    ring_count--;
    if (--batches_left == 0) pthread_cond_broadcast(&has_batch);
    pthread_cond_signal(&has_room);
  }
  pthread_mutex_unlock(&lock);
  return batch;
}

static void produce(worker_t* worker) {
  for (size_t b = 0; b < worker->batches; b++) {
    batch_t* const batch = bench_malloc(sizeof(batch_t));
    for (size_t i = 0; i < BATCH_COUNT; i++) {
      const uint64_t key = bench_random(&worker->random);
      const size_t size = bench_between(&worker->random, SIZE_MIN_BYTES, SIZE_MAX_BYTES);
      block_t* const block = bench_malloc(size);
      bench_mark(block, size, key);
      *block = (block_t){size, key};
      if (size > sizeof(block_t)) ((unsigned char*)block)[size - 1] = (unsigned char)key;
      batch->blocks[i] = block;
    }
    worker->mallocs += 1 + BATCH_COUNT;
    queue_push(batch);
  }
}

static void consume(worker_t* worker) {
  for (batch_t* batch = queue_pop(); batch != NULL; batch = queue_pop()) {
    for (size_t i = 0; i < BATCH_COUNT; i++) {
      block_t* const block = batch->blocks[i];
      const size_t size = block->size;
      if (size < SIZE_MIN_BYTES || size > SIZE_MAX_BYTES)
        bench_fail("the head of a block has changed");
      if (size > sizeof(block_t) &&
          ((const unsigned char*)block)[size - 1] != (unsigned char)block->key) {
        bench_fail("the contents of a block have changed");
      }
      worker->check += block->key ^ size;
      free(block);
    }
    free(batch);
  }
}

static void* worker_run(void* argument) {
  worker_t* const worker = argument;
  if (worker->is_producer) {
    produce(worker);
  } else {
    consume(worker);
  }
  return NULL;
}

int main(int argc, char** argv) {
  const bench_args_t args = bench_parse(argc, argv);
  const size_t pairs = args.threads > 0 ? args.threads : 2;
  if (2 * pairs > BENCH_MAX_THREADS) bench_fail("--threads must be at most 512 here");
  static worker_t workers[BENCH_MAX_THREADS];
  for (size_t i = 0; i < pairs; i++) {
    worker_t* const producer = &workers[2 * i];
    *producer = (worker_t){.is_producer = true, .random = {2000 + i}};
    producer->batches = bench_pick(args, 50, 9000, 45000);
    batches_left += producer->batches;
  }
  bench_threads(2 * pairs, worker_run, workers, sizeof(worker_t));
  uint64_t check = 0;
  uint64_t mallocs = 0;
  for (size_t i = 0; i < 2 * pairs; i++) {
    check += workers[i].check;
    mallocs += workers[i].mallocs;
  }
  bench_report(check, mallocs);
  return 0;
}
