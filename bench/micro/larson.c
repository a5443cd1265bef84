// SPDX-License-Identifier: MIT
// larson.c - a server: every thread replaces random blocks, and leaves them to a fresh thread.
//
// Pattern: each thread owns an array of slots, all filled. It frees the block of a random slot and
// puts a block of another random size there, many times; then it starts a fresh thread that goes
// on with the same array, and ends. So most blocks are freed by another thread than their own,
// long after that has ended: the authors call it bleeding.
// Asks: frees of foreign blocks that are cheap, and that memory of a thread that ended is used
// again.
//
// Origin: Larson and Krishnan, "Memory Allocation for Long-Running Server Applications", ISMM
// 1998.
// Differs: a fixed number of generations of threads instead of a time limit; the slots remember
// the size of their block, so that contents can be checked.
//
// Options: --sized allocates and frees as C++ does since 2014, which names the size when it frees
// (free_sized of C23 where there is one, otherwise sized delete).
#include "bench.h"
#include <dlfcn.h>

#define SIZE_MIN_BYTES 8
#define SIZE_MAX_BYTES 1000

typedef struct slot_s {
  void* block;
  size_t size;
} slot_t;

// One array and the thread that works on it now.
typedef struct line_s {
  bench_random_t random;
  size_t generations; // still to come
  size_t replacements; // of each generation
  size_t slot_count;
  slot_t* slots;
  pthread_t before; // the thread that handed the array on
  bool has_before;
  uint64_t check;
  uint64_t mallocs;
} line_t;

static void* (*allocate)(size_t size) = malloc;
static void (*free_sized_block)(void* block, size_t size); // NULL: plain free

static pthread_mutex_t done_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t done_changed = PTHREAD_COND_INITIALIZER;
static size_t done_count;

static void slot_fill(line_t* line, size_t i) {
  slot_t* const slot = &line->slots[i];
  slot->size = bench_between(&line->random, SIZE_MIN_BYTES, SIZE_MAX_BYTES);
  slot->block = allocate(slot->size);
  if (slot->block == NULL) bench_fail("malloc returned NULL");
  bench_mark(slot->block, slot->size, i + slot->size);
  line->mallocs++;
  line->check = line->check * 31 + slot->size;
}

static void slot_clear(line_t* line, size_t i) {
  const slot_t slot = line->slots[i];
  bench_verify(slot.block, slot.size, i + slot.size);
  if (free_sized_block != NULL) {
    free_sized_block(slot.block, slot.size);
  } else {
    free(slot.block);
  }
}

// One generation.
static void* line_run(void* argument) {
  line_t* const line = argument;
  for (size_t k = 0; k < line->replacements; k++) {
    const size_t i = bench_below(&line->random, line->slot_count);
    slot_clear(line, i);
    slot_fill(line, i);
  }
  if (line->has_before) pthread_join(line->before, NULL);
  line->before = pthread_self();
  line->has_before = true;
  if (--line->generations > 0) {
    pthread_t next;
    if (pthread_create(&next, NULL, line_run, line) != 0)
      bench_fail("a thread could not be started");
    return NULL;
  }
  pthread_mutex_lock(&done_lock);
  done_count++;
  pthread_cond_signal(&done_changed);
  pthread_mutex_unlock(&done_lock);
  return NULL;
}

// Converts what dlsym finds: an object pointer by its type, a function in truth.
static void symbol_find(const char* name, void* place) {
  void* symbol = dlsym(RTLD_DEFAULT, name);
  if (symbol == NULL) {
    void* const library = dlopen("libstdc++.so.6", RTLD_NOW | RTLD_GLOBAL);
    if (library != NULL) symbol = dlsym(library, name);
  }
  memcpy(place, &symbol, sizeof(symbol));
}

static void sized_init(void) {
  void* const c_free = dlsym(RTLD_DEFAULT, "free_sized");
  if (c_free != NULL) {
    memcpy(&free_sized_block, &c_free, sizeof(c_free));
    return;
  }
  symbol_find("_Znwm", &allocate);
  symbol_find("_ZdlPvm", &free_sized_block);
  if (allocate == NULL || free_sized_block == NULL) bench_fail("there is no sized free to measure");
}

int main(int argc, char** argv) {
  const bench_args_t args = bench_parse(argc, argv);
  if (args.rest < argc && strcmp(argv[args.rest], "--sized") == 0) sized_init();
  const size_t threads = args.threads > 0 ? args.threads : 8;
  static line_t lines[BENCH_MAX_THREADS];
  for (size_t i = 0; i < threads; i++) {
    line_t* const line = &lines[i];
    line->random.state = i + 1;
    line->generations = bench_pick(args, 4, 14, 80);
    line->replacements = bench_pick(args, 500, 50000, 50000);
    line->slot_count = bench_pick(args, 100, 5000, 5000);
    line->slots = bench_malloc(line->slot_count * sizeof(slot_t));
    line->mallocs = 1;
    for (size_t k = 0; k < line->slot_count; k++) slot_fill(line, k);
    pthread_t first;
    if (pthread_create(&first, NULL, line_run, line) != 0) {
      bench_fail("a thread could not be started");
    }
  }
  pthread_mutex_lock(&done_lock);
  while (done_count < threads) pthread_cond_wait(&done_changed, &done_lock);
  pthread_mutex_unlock(&done_lock);
  uint64_t check = 0;
  uint64_t mallocs = 0;
  for (size_t i = 0; i < threads; i++) {
    line_t* const line = &lines[i];
    pthread_join(line->before, NULL);
    for (size_t k = 0; k < line->slot_count; k++) slot_clear(line, k);
    free(line->slots);
    check += line->check;
    mallocs += line->mallocs;
  }
  bench_report(check, mallocs);
  return 0;
}
