// SPDX-License-Identifier: MIT
// usual.c - what programs of some size do: blocks of 16 bytes to 1 MiB that are replaced, grow and
// are cleared, a heap that shrinks and grows again, a thread that frees blocks of another, a
// library that is loaded late, and a heap of its own that is thrown away as a whole.
#include <dlfcn.h>
#include <mimalloc.h>
#include <pthread.h>

#include "figures.h"

#define BLOCKS 4000
#define REPLACEMENTS 20000
#define SMALL_MAX 2000
#define MEDIUM_MAX 100000
#define LARGE_MAX ((size_t)1 << 20)

static void* block[BLOCKS];
static uint64_t state = 88172645463325252u;

// Of a hundred blocks ninety are small, and one is large.
static size_t any_size(void) {
  const size_t kind = random_next(&state) % 100;
  const size_t max = kind < 90 ? SMALL_MAX : kind < 99 ? MEDIUM_MAX : LARGE_MAX;
  return 16 + random_next(&state) % max;
}

static void replace(size_t i) {
  const size_t size = any_size();
  if (i % 7 == 0) {
    figures_keep(block[i] = realloc(block[i], size));
    return;
  }
  free(block[i]);
  figures_keep(block[i] = i % 5 == 0 ? calloc(1, size) : malloc(size));
}

static void shrink(void) {
  for (size_t i = 0; i < BLOCKS; i++) {
    if (i % 20 == 0) continue;
    free(block[i]);
    block[i] = NULL;
  }
}

static void* run(void* argument) {
  for (size_t i = 0; i < REPLACEMENTS; i++) replace(random_next(&state) % BLOCKS);
  shrink();
  for (size_t i = 0; i < BLOCKS; i++) replace(i);
  return argument;
}

static void use_own_heap(void) {
  mi_heap_t* const heap = mi_heap_new();
  for (size_t i = 0; i < BLOCKS; i++) figures_keep(mi_heap_malloc(heap, any_size()));
  mi_heap_destroy(heap);
}

int main(void) {
  run(NULL);
  if (dlopen("libm.so.6", RTLD_LAZY) == NULL) return 1;
  use_own_heap();
  pthread_t id;
  if (pthread_create(&id, NULL, &run, NULL) != 0) return 1;
  pthread_join(id, NULL);
  run(NULL);
  for (size_t i = 0; i < BLOCKS; i++) free(block[i]);
  return 0;
}
