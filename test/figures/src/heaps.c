// SPDX-License-Identifier: MIT
// heaps.c - heaps that come and go, for callgrind.
//
//   heaps ROUNDS KIND:OTHERS...
//
// A round makes a heap, a block of 64 bytes in it, and ends the heap while OTHERS more heaps with
// such a block exist. The kinds:
//   destroy  with the block
//   delete   when the block was freed
// Each is warmed up, then called as `measured` once.
//   end      there are no rounds: `measured` destroys the OTHERS, here and there
#include "figures.h"

#define OTHERS_MAX 10000
#define STEP 7919 // a prime number
#define WARM_ROUNDS 40

static mi_heap_t* other[OTHERS_MAX];

typedef enum kind_e { DESTROY, DELETE, END } kind_t;

void measured(kind_t kind, size_t rounds);

__attribute__((noinline, noipa)) void measured(kind_t kind, size_t rounds) {
  if (kind == END) {
    for (size_t i = 0; i < rounds; i++) mi_heap_destroy(other[i * STEP % rounds]);
    return;
  }
  for (size_t round = 0; round < rounds; round++) {
    mi_heap_t* const heap = mi_heap_new();
    void* const p = mi_heap_malloc(heap, 64);
    figures_keep(p);
    if (p == NULL) abort();
    if (kind == DESTROY) {
      mi_heap_destroy(heap);
    } else {
      mi_free(p);
      mi_heap_delete(heap);
    }
  }
}

static void run(kind_t kind, size_t others, size_t rounds) {
  for (size_t i = 0; i < others; i++) {
    other[i] = mi_heap_new();
    if (mi_heap_malloc(other[i], 64) == NULL) abort();
  }
  if (kind == END) {
    measured(END, others);
    return;
  }
  measured(kind, WARM_ROUNDS);
  measured(kind, rounds);
  for (size_t i = 0; i < others; i++) mi_heap_destroy(other[i]);
}

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  for (int i = 2; i < argc; i++) {
    const char* const others = strchr(argv[i], ':');
    if (others == NULL) return 2;
    const size_t count = strtoul(others + 1, NULL, 10);
    if (count > OTHERS_MAX) return 2;
    const kind_t kind = argv[i][0] == 'e'                     ? END
                        : strncmp(argv[i], "destroy", 7) == 0 ? DESTROY
                                                              : DELETE;
    run(kind, count, strtoul(argv[1], NULL, 10));
  }
  return 0;
}
