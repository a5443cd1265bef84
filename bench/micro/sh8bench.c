// SPDX-License-Identifier: MIT
// sh8bench.c - batches of growing sizes on several threads, a part of each freed by another
// thread.
//
// Pattern: as sh6bench, on several threads: each allocates batches of sizes growing from 1 to 1000
// bytes, frees half of each in the order of allocation and a quarter in reverse, and sends the
// last quarter to its neighbour, which frees it, newest first, after its own next batch.
// Asks: cheap frees of foreign blocks of every small size, and their use by the owner soon after.
//
// Origin: sh8bench by MicroQuill (2006), part of the SmartHeap test programs; described in Leijen,
// Zorn and de Moura, "Mimalloc: Free List Sharding in Action", 2019: "just as in larson, some
// objects are freed by other threads, and some objects freed in reverse (as in sh6bench)".
// Differs: written from that sentence; the parts and the sizes are our choice. Two threads unless
// --threads says otherwise. What a thread may send ahead is bounded.
#include "bench.h"

#define BATCH_MAX 4096
#define SIZE_LARGEST 1000
#define PARCELS_MAX 8 // that may wait in one mailbox

typedef struct entry_s {
  void* block;
  uint32_t size;
  uint32_t key; // what its contents depend on
} entry_t;

// Blocks on their way to another thread.
typedef struct parcel_s {
  struct parcel_s* next;
  size_t count;
  entry_t entries[];
} parcel_t;

typedef struct worker_s {
  pthread_mutex_t lock; // of the two below
  parcel_t* mailbox;
  size_t waiting;
  size_t index;
  size_t batches;
  bench_random_t random;
  entry_t entries[BATCH_MAX];
  uint64_t check; // sum over what was freed: the same whoever frees it
  uint64_t mallocs;
} worker_t;

static worker_t* workers;
static size_t worker_count;

static void entry_free(worker_t* worker, entry_t entry) {
  bench_verify(entry.block, entry.size, entry.key);
  worker->check += (uint64_t)entry.key * entry.size;
  free(entry.block);
}

// Fill a batch; the number of blocks of a size is inverse to it.
static size_t batch_fill(worker_t* worker) {
  size_t count = 0;
  for (size_t size = 1; size <= SIZE_LARGEST; size += 1 + size / 8) {
    for (size_t k = 2 + 800 / size; k > 0 && count < BATCH_MAX; k--) {
      const uint32_t key = (uint32_t)bench_random(&worker->random);
      const entry_t entry = {bench_malloc(size), (uint32_t)size, key};
      bench_mark(entry.block, size, key);
      worker->entries[count++] = entry;
    }
  }
  worker->mallocs += count;
  return count;
}

static void mailbox_drain(worker_t* worker) {
  pthread_mutex_lock(&worker->lock);
  parcel_t* parcel = worker->mailbox;
  worker->mailbox = NULL;
  worker->waiting = 0;
  pthread_mutex_unlock(&worker->lock);
  while (parcel != NULL) {
    parcel_t* const next = parcel->next;
    for (size_t i = parcel->count; i-- > 0;) entry_free(worker, parcel->entries[i]);
    free(parcel);
    parcel = next;
  }
}

// Send the last quarter of a batch; false, and nothing is sent, if too many parcels wait.
static bool parcel_try_send(worker_t* worker, parcel_t* parcel) {
  worker_t* const other = &workers[(worker->index + 1) % worker_count];
  pthread_mutex_lock(&other->lock);
  const bool has_room = other->waiting < PARCELS_MAX;
  if (has_room) {
    parcel->next = other->mailbox;
    other->mailbox = parcel;
    other->waiting++;
  }
  pthread_mutex_unlock(&other->lock);
  return has_room;
}

static void* worker_run(void* argument) {
  worker_t* const worker = argument;
  for (size_t batch = 0; batch < worker->batches; batch++) {
    const size_t count = batch_fill(worker);
    mailbox_drain(worker);
    for (size_t i = 0; i < count; i++) {
      if (i % 4 < 2) entry_free(worker, worker->entries[i]);
    }
    for (size_t i = count; i-- > 0;) {
      if (i % 4 == 2) entry_free(worker, worker->entries[i]);
    }
    parcel_t* const parcel = bench_malloc(sizeof(parcel_t) + (count / 4) * sizeof(entry_t));
    worker->mallocs++;
    parcel->count = 0;
    for (size_t i = 3; i < count; i += 4) parcel->entries[parcel->count++] = worker->entries[i];
    if (!parcel_try_send(worker, parcel)) { // the neighbour is far behind, or has ended
      for (size_t i = parcel->count; i-- > 0;) entry_free(worker, parcel->entries[i]);
      free(parcel);
    }
  }
  return NULL;
}

int main(int argc, char** argv) {
  const bench_args_t args = bench_parse(argc, argv);
  worker_count = args.threads > 0 ? args.threads : 2;
  workers = calloc(worker_count, sizeof(worker_t));
  if (workers == NULL) bench_fail("calloc returned NULL");
  for (size_t i = 0; i < worker_count; i++) {
    pthread_mutex_init(&workers[i].lock, NULL);
    workers[i].index = i;
    workers[i].batches = bench_pick(args, 20, 1500, 8000);
    workers[i].random.state = 8 + i;
  }
  bench_threads(worker_count, worker_run, workers, sizeof(worker_t));
  uint64_t check = 0;
  uint64_t mallocs = 1;
  for (size_t i = 0; i < worker_count; i++) {
    mailbox_drain(&workers[i]);
    pthread_mutex_destroy(&workers[i].lock);
    check += workers[i].check;
    mallocs += workers[i].mallocs;
  }
  free(workers);
  bench_report(check, mallocs);
  return 0;
}
