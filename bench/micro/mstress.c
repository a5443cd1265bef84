// SPDX-License-Identifier: MIT
// mstress.c - threads that come and go and trade objects, some of which outlive their thread.
//
// Pattern: every thread keeps a growing list of objects of sizes that follow a power law (most
// under 64 bytes, a few of 64 KiB), and at random allocates one, frees one, reallocates one, or
// trades one with an array that all threads share. Then all threads end and new ones start; the
// shared objects stay alive meanwhile.
// Asks: memory of a thread that ended must be found and used by others, while some of its objects
// live; reallocs of foreign blocks.
//
// Origin: mstressN of the mimalloc project, described in its read-me ("performs many allocations
// and re-allocations, and migrates objects between threads, and creates and destroys the N worker
// threads a few times keeping some objects alive beyond the life time of the allocating thread").
// Differs: written from that sentence alone; a trade is always one object for one, so that the
// work of a thread does not depend on what the others do.
#include "bench.h"
#include <stdatomic.h>

#define SHARED_COUNT 1000
#define OCTAVES 12

typedef struct object_s {
  size_t count; // of words
  uint64_t key;
  uint64_t words[]; // key, key + 1, ...
} object_t;

typedef struct worker_s {
  bench_random_t random;
  size_t operations;
  object_t** list;
  size_t length;
  size_t capacity;
  uint64_t check; // sum of the keys that were freed: each object is freed once, by anybody
  uint64_t mallocs;
} worker_t;

static _Atomic(object_t*) shared[SHARED_COUNT];

// Each further octave is half as likely as the one before.
static size_t count_random(bench_random_t* random) {
  const uint64_t bits = bench_random(random) | (1u << OCTAVES);
  const size_t octave = (size_t)__builtin_ctzll(bits);
  return bench_below(random, (size_t)2 << octave);
}

static size_t object_bytes(size_t count) { return sizeof(object_t) + count * sizeof(uint64_t); }

static void object_verify(const object_t* object, size_t count) {
  for (size_t i = 0; i < count; i++) {
    if (object->words[i] != object->key + i) bench_fail("the contents of an object have changed");
  }
}

static void object_fill(object_t* object, size_t first, size_t count) {
  object->count = count;
  for (size_t i = first; i < count; i++) object->words[i] = object->key + i;
}

static object_t* object_new(worker_t* worker) {
  const size_t count = count_random(&worker->random);
  object_t* const object = bench_malloc(object_bytes(count));
  object->key = bench_random(&worker->random);
  object_fill(object, 0, count);
  worker->mallocs++;
  return object;
}

static void object_free(worker_t* worker, object_t* object) {
  object_verify(object, object->count);
  worker->check += object->key;
  free(object);
}

static object_t* object_resize(worker_t* worker, object_t* object) {
  const size_t old = object->count;
  const size_t count = count_random(&worker->random);
  object_t* const moved = realloc(object, object_bytes(count));
  if (moved == NULL) bench_fail("realloc returned NULL");
  worker->mallocs++;
  object_verify(moved, old < count ? old : count);
  object_fill(moved, old < count ? old : count, count);
  return moved;
}

static void list_push(worker_t* worker, object_t* object) {
  if (worker->length == worker->capacity) {
    worker->capacity = worker->capacity * 2 + 16;
    worker->list = realloc(worker->list, worker->capacity * sizeof(object_t*));
    if (worker->list == NULL) bench_fail("realloc returned NULL");
    worker->mallocs++;
  }
  worker->list[worker->length++] = object;
}

static void* worker_run(void* argument) {
  worker_t* const worker = argument;
  for (size_t i = 0; i < worker->operations; i++) {
    const size_t choice = bench_below(&worker->random, 16);
    const size_t place = worker->length > 0 ? bench_below(&worker->random, worker->length) : 0;
    if (worker->length == 0 || choice < 7) {
      list_push(worker, object_new(worker));
    } else if (choice < 12) {
      object_free(worker, worker->list[place]);
      worker->list[place] = worker->list[--worker->length];
    } else if (choice < 14) {
      worker->list[place] = object_resize(worker, worker->list[place]);
    } else {
      const size_t other = bench_below(&worker->random, SHARED_COUNT);
      worker->list[place] =
          atomic_exchange_explicit(&shared[other], worker->list[place], memory_order_acq_rel);
    }
  }
  while (worker->length > 0) object_free(worker, worker->list[--worker->length]);
  free(worker->list);
  worker->list = NULL;
  worker->capacity = 0;
  return NULL;
}

int main(int argc, char** argv) {
  const bench_args_t args = bench_parse(argc, argv);
  const size_t threads = args.threads > 0 ? args.threads : 8;
  const size_t rounds = bench_pick(args, 3, 16, 50);
  static worker_t workers[BENCH_MAX_THREADS];
  worker_t owner = {.random = {77}};
  for (size_t i = 0; i < SHARED_COUNT; i++) atomic_init(&shared[i], object_new(&owner));
  for (size_t i = 0; i < threads; i++) {
    workers[i].random.state = 1000 + i;
    workers[i].operations = bench_pick(args, 1000, 30000, 50000);
  }
  for (size_t round = 0; round < rounds; round++) {
    bench_threads(threads, worker_run, workers, sizeof(worker_t));
    // Between the rounds, a part of what survived goes.
    for (size_t i = round % 4; i < SHARED_COUNT; i += 4) {
      object_free(&owner, atomic_load(&shared[i]));
      atomic_store(&shared[i], object_new(&owner));
    }
  }
  for (size_t i = 0; i < SHARED_COUNT; i++) object_free(&owner, atomic_load(&shared[i]));
  uint64_t check = owner.check;
  uint64_t mallocs = owner.mallocs;
  for (size_t i = 0; i < threads; i++) {
    check += workers[i].check;
    mallocs += workers[i].mallocs;
  }
  bench_report(check, mallocs);
  return 0;
}
