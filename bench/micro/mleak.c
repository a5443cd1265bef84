// SPDX-License-Identifier: MIT
// mleak.c - many short threads that each leave a little behind for others to free.
//
// Pattern: thousands of threads, a few at a time. Each allocates some small blocks and a larger
// one, frees most, leaves one in sixteen in a table, and ends. The next thread with the same place
// in the table frees what it finds there.
// Asks: a thread that starts and ends must cost little, and whatever it leaves must be used again:
// memory must not grow with the number of threads that there ever were.
//
// Origin: mleak of the mimalloc-bench suite by Daan Leijen: does the memory of threads that ended
// leak?
// Differs: written from that question alone; the growth of resident memory over the second half of
// the run is printed as `growth_kib`, and is not a reason to fail. Two threads at a time unless
// --threads says otherwise.
#include "bench.h"

#define BLOCKS 48
#define LEFT 3 // of these

typedef struct entry_s {
  unsigned char* block; // NULL: nothing was left here
  size_t size;
  uint64_t key; // what its contents depend on
} entry_t;

typedef struct place_s {
  bench_random_t random;
  entry_t left[LEFT]; // by the thread before
  uint64_t check;
  uint64_t mallocs;
} place_t;

static entry_t entry_new(place_t* place, size_t size) {
  const entry_t entry = {bench_malloc(size), size, bench_random(&place->random)};
  memset(entry.block, (unsigned char)entry.key, size);
  place->mallocs++;
  return entry;
}

static void entry_free(place_t* place, entry_t entry) {
  for (size_t i = 0; i < entry.size; i++) {
    if (entry.block[i] != (unsigned char)entry.key) {
      bench_fail("the contents of a block have changed");
    }
  }
  place->check = place->check * 31 + entry.key;
  free(entry.block);
}

static void left_free(place_t* place) {
  for (size_t i = 0; i < LEFT; i++) {
    if (place->left[i].block != NULL) entry_free(place, place->left[i]);
    place->left[i].block = NULL;
  }
}

static void* thread_run(void* argument) {
  place_t* const place = argument;
  entry_t entries[BLOCKS];
  for (size_t i = 0; i < BLOCKS; i++) {
    const size_t most = i == 0 ? 20000 : 300;
    entries[i] = entry_new(place, bench_between(&place->random, 16, most));
  }
  left_free(place);
  for (size_t i = 0; i < BLOCKS; i++) {
    if (i % (BLOCKS / LEFT) == 5) {
      place->left[i / (BLOCKS / LEFT)] = entries[i];
    } else {
      entry_free(place, entries[i]);
    }
  }
  return NULL;
}

int main(int argc, char** argv) {
  const bench_args_t args = bench_parse(argc, argv);
  const size_t threads = args.threads > 0 ? args.threads : 2;
  const size_t rounds = bench_pick(args, 20, 3000, 8000);
  static place_t places[BENCH_MAX_THREADS];
  for (size_t i = 0; i < threads; i++) places[i].random.state = 50 + i;
  size_t resident_half = 0;
  for (size_t round = 0; round < rounds; round++) {
    if (round == rounds / 2) resident_half = bench_resident_kib();
    bench_threads(threads, thread_run, places, sizeof(place_t));
  }
  const size_t resident_end = bench_resident_kib();
  uint64_t check = 0;
  uint64_t mallocs = 0;
  for (size_t i = 0; i < threads; i++) {
    left_free(&places[i]);
    check += places[i].check;
    mallocs += places[i].mallocs;
  }
  printf("growth_kib %zu\n", resident_end > resident_half ? resident_end - resident_half : 0);
  bench_report(check, mallocs);
  return 0;
}
