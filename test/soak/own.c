// SPDX-License-Identifier: MIT
// own.c - the phases of the soak that need this library by name: heaps that end in both ways, in
// memory of the system and of the program, and sub-processes.
#include <mimalloc.h>
#include <sys/mman.h>

#include "soak.h"

#define SOAK_ARENA_SIZE (64 * LOAD_MIB)
#define SOAK_HEAP_BLOCKS ((size_t)600)
#define SOAK_SHARED_TURNS 16
#define SOAK_SHARED_BLOCKS ((size_t)2000)

// A heap of all threads, and its blocks.
static mi_heap_t* soak_shared;
static pthread_rwlock_t soak_shared_lock = PTHREAD_RWLOCK_INITIALIZER; // to allocate: for reading
static soak_shelf_t soak_shared_shelf;

static mi_arena_id_t soak_reserved, soak_managed; // exclusive: for heaps that ask for them

void soak_own_open(void) {
  soak_shelf_open(&soak_shared_shelf, SOAK_SHARED_BLOCKS);
  CHECK_SAY(mi_reserve_os_memory_ex(SOAK_ARENA_SIZE, false, false, true, &soak_reserved) == 0,
            "an arena of %zu bytes", SOAK_ARENA_SIZE);
  void* const memory = mmap(NULL, SOAK_ARENA_SIZE, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  CHECK_SAY(memory != MAP_FAILED, "%zu bytes for an arena", SOAK_ARENA_SIZE);
  CHECK_SAY(
      mi_manage_os_memory_ex(memory, SOAK_ARENA_SIZE, true, false, true, -1, true, &soak_managed),
      "an arena of %zu bytes of the program", SOAK_ARENA_SIZE);
}

void soak_collect(bool is_forced) { mi_collect(is_forced); }

size_t soak_committed(void) {
  size_t bytes = 0;
  mi_process_info(NULL, NULL, NULL, NULL, NULL, &bytes, NULL, NULL);
  return bytes;
}

// -- heaps of one thread --

static soak_block_t soak_make_in(mi_heap_t* heap, uint64_t* random) {
  const size_t size = soak_size(random, (soak_sizes_t){3, 13});
  void* const p = random_below(random, 8) == 0 ? mi_heap_zalloc_aligned(heap, size, 128)
                                               : mi_heap_malloc(heap, size);
  return soak_adopt(p, size, random);
}

static mi_heap_t* soak_heap_new(uint64_t* random) {
  const size_t where = random_below(random, 4);
  mi_heap_t* const heap = where == 0   ? mi_heap_new_in_arena(soak_reserved)
                          : where == 1 ? mi_heap_new_in_arena(soak_managed)
                                       : mi_heap_new();
  CHECK(heap != NULL);
  return heap;
}

static void soak_use_heap(uint64_t* random) {
  soak_block_t block[SOAK_HEAP_BLOCKS];
  mi_heap_t* const heap = soak_heap_new(random);
  const size_t count = 1 + random_below(random, SOAK_HEAP_BLOCKS);
  for (size_t i = 0; i < count; i++) {
    block[i] = soak_make_in(heap, random);
    if (i % 3 == 0) {
      soak_drop(block[i]);
      block[i] = soak_make_in(heap, random);
    }
  }
  if (random_below(random, 2) == 0) {
    for (size_t i = 0; i < count; i++) soak_forget(block[i]);
    mi_heap_destroy(heap);
  } else {
    mi_heap_delete(heap);
    for (size_t i = 0; i < count; i++) soak_drop(block[i]);
  }
}

// -- a heap of all threads --

// The heap ends while its blocks lie on the shelf, where others free them.
static void soak_renew_shared(void) {
  pthread_rwlock_wrlock(&soak_shared_lock);
  mi_heap_t* const old = soak_shared;
  soak_shared = mi_heap_new();
  CHECK(soak_shared != NULL);
  pthread_rwlock_unlock(&soak_shared_lock);
  mi_heap_delete(old);
}

static void soak_use_shared(uint64_t* random) {
  for (size_t i = 0; i < 100; i++) {
    pthread_rwlock_rdlock(&soak_shared_lock);
    const soak_block_t block = soak_make_in(soak_shared, random);
    pthread_rwlock_unlock(&soak_shared_lock);
    soak_drop(soak_shelf_swap(&soak_shared_shelf, random, block));
  }
}

static void* soak_use_heaps(void* argument) {
  soak_turn_t* const turn = (soak_turn_t*)argument;
  for (size_t round = 0; !soak_is_over(turn); round++) {
    soak_use_heap(&turn->random);
    soak_use_shared(&turn->random);
    if (turn->index == 0 && round % SOAK_SHARED_TURNS == 0) soak_renew_shared();
  }
  return NULL;
}

static void soak_heaps(soak_turn_t* turn) {
  soak_shared = mi_heap_new();
  CHECK(soak_shared != NULL);
  soak_threads(turn, 3, &soak_use_heaps);
  soak_shelf_clear(&soak_shared_shelf);
  mi_heap_delete(soak_shared);
  soak_shared = NULL;
}

// -- sub-processes --

#define SOAK_SUB_THREADS ((size_t)3)
#define SOAK_SUB_BLOCKS ((size_t)400)

static mi_subproc_id_t soak_sub;
static soak_block_t soak_left[SOAK_SUB_THREADS][SOAK_SUB_BLOCKS]; // by its threads

static void* soak_be_in_sub(void* argument) {
  soak_turn_t* const turn = (soak_turn_t*)argument;
  mi_subproc_add_current_thread(soak_sub);
  soak_block_t* const left = soak_left[turn->index];
  for (size_t i = 0; i < SOAK_SUB_BLOCKS; i++) {
    soak_drop(soak_make(&turn->random, soak_request_size(&turn->random)));
    left[i] = soak_make(&turn->random, soak_size(&turn->random, (soak_sizes_t){3, 13}));
  }
  return NULL;
}

static void soak_subprocs(soak_turn_t* turn) {
  while (!soak_is_over(turn)) {
    soak_sub = mi_subproc_new();
    CHECK(soak_sub._mi_subproc_id != NULL);
    soak_threads(turn, SOAK_SUB_THREADS, &soak_be_in_sub);
    turn->random += 1000003;
    const bool is_destroyed = random_below(&turn->random, 2) == 0;
    if (!is_destroyed) mi_subproc_delete(soak_sub);
    for (size_t i = 0; i < SOAK_SUB_THREADS * SOAK_SUB_BLOCKS; i++) {
      const soak_block_t block = soak_left[i / SOAK_SUB_BLOCKS][i % SOAK_SUB_BLOCKS];
      if (is_destroyed) {
        soak_forget(block);
      } else {
        soak_drop(block);
      }
    }
    if (is_destroyed) mi_subproc_destroy(soak_sub);
  }
}

const soak_phase_t soak_own_phases[] = {
    {"heaps", &soak_heaps, 1},
    {"subprocs", &soak_subprocs, 1},
};
const size_t soak_own_phase_count = sizeof(soak_own_phases) / sizeof(soak_own_phases[0]);
