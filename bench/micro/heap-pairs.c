// SPDX-License-Identifier: MIT
// heap-pairs.c - malloc and free of one small block in a loop; and, where the allocator has heaps,
// the same with a heap of its own around each block: new, one block, destroy.
//
// Published: nowhere; it is what a program does that ends all memory of a request at once, with
// the smallest request there is.
// Asks of an allocator: that a heap costs about as much as a few blocks, so that there can be one
// for each request.
// The time is that of the loop with malloc and free, which every allocator can do. The other loop
// is only printed, as `ns_heap` beside `ns_pair`: allocators without the functions of mimalloc.h
// for heaps have nothing to be compared with.
#include "bench.h"
#include <dlfcn.h>

#define HEAP_PAIRS_SIZE 64

typedef struct heap_pairs_functions_s {
  void* (*make)(void);
  void* (*allocate)(void* heap, size_t size);
  void (*destroy)(void* heap);
} heap_pairs_functions_t;

// A function of what is preloaded, or NULL. (A cast from an object pointer would not be C.)
static void heap_pairs_find(const char* name, void* function) {
  void* const found = dlsym(RTLD_DEFAULT, name);
  memcpy(function, &found, sizeof(found));
}

static uint64_t heap_pairs_use(void* p, uint64_t key) {
  if (p == NULL) bench_fail("a block could not be had");
  bench_mark(p, HEAP_PAIRS_SIZE, key);
  bench_verify(p, HEAP_PAIRS_SIZE, key);
  return *(volatile unsigned char*)p;
}

int main(int argc, char** argv) {
  const bench_args_t args = bench_parse(argc, argv);
  if (args.rest != argc) bench_fail("there are no options of its own");
  heap_pairs_functions_t heaps;
  heap_pairs_find("mi_heap_new", &heaps.make);
  heap_pairs_find("mi_heap_malloc", &heaps.allocate);
  heap_pairs_find("mi_heap_destroy", &heaps.destroy);

  bench_random_t random = {1};
  uint64_t check = 0;
  const size_t count = bench_pick(args, 200000, 20000000, 50000000);
  uint64_t start = bench_now_ns();
  for (size_t i = 0; i < count; i++) {
    void* const p = bench_malloc(HEAP_PAIRS_SIZE);
    check += heap_pairs_use(p, bench_random(&random));
    free(p);
  }
  const double pairs_ns = (double)(bench_now_ns() - start);
  printf("seconds %.6f\nns_pair %.1f\n", pairs_ns / 1e9, pairs_ns / (double)count);
  if (heaps.make != NULL && heaps.allocate != NULL && heaps.destroy != NULL) {
    const size_t heap_count = bench_pick(args, 2000, 50000, 200000);
    start = bench_now_ns();
    for (size_t i = 0; i < heap_count; i++) {
      void* const heap = heaps.make();
      if (heap == NULL) bench_fail("a heap could not be had");
      heap_pairs_use(heaps.allocate(heap, HEAP_PAIRS_SIZE), bench_random(&random));
      heaps.destroy(heap);
    }
    printf("ns_heap %.1f\n", (double)(bench_now_ns() - start) / (double)heap_count);
  }
  bench_report(check, count);
  return 0;
}
