// SPDX-License-Identifier: MIT
// A program frees most of a large heap, here and there: nearly each page keeps a block or two. If
// this fails, it holds all the memory it ever had, or what it kept is damaged when the memory
// between goes back and is used again.
//
//   build a heap, free all but one block in ten, at random, look at what is resident
//   build it up again in the room between, look at the contents; again
//
// First on one thread, then on several at once that also free blocks of each other. Before that,
// the same in the order in which the blocks were allocated, and nothing is done afterwards.
#include <pthread.h>

#include "load.h"

#define BYTES (256 * LOAD_MIB)
#define THREADS 3
#define THREAD_BYTES (24 * LOAD_MIB)
#define ROUNDS 3
#define KEPT_PART 10
#define SMALLEST 1000
#define LARGEST 4096
// Of what there was, when nine tenths are free: 0.45 measured, all of it without holes.
#define RESIDENT_PART 2
// In their order 54 MiB were measured with blocks of SMALLEST and of IN_ORDER_SMALLEST, of which 11
// and 32 have a block in use; with all sizes between SMALLEST and LARGEST 35 (75 when the pages of
// one class only were looked at again).
#define IN_ORDER_BYTES (256 * LOAD_MIB)
#define IN_ORDER_SMALLEST 300
#define IN_ORDER_PART 100
#define IN_ORDER_LEAST (48 * LOAD_MIB)

typedef struct {
  void** block;
  size_t* size;
  size_t count, max;
  uint64_t seed;
} heap_t;

static heap_t heap_of(size_t bytes, uint64_t seed) {
  const size_t max = bytes / SMALLEST * 2;
  heap_t heap = {calloc(max, sizeof(void*)), calloc(max, sizeof(size_t)), 0, max, seed};
  CHECK(heap.block != NULL && heap.size != NULL);
  for (size_t i = 0; i < max; i++) heap.size[i] = 1; // touched: no part of what is measured
  for (size_t i = 0; i < max; i++) heap.block[i] = heap.size;
  return heap;
}

static void build(heap_t* heap, size_t bytes) {
  size_t have = 0;
  for (size_t i = 0; i < heap->count; i++) have += heap->size[i];
  while (have < bytes && heap->count < heap->max) {
    // One in eight is small: those pages have more blocks.
    const bool is_small = random_below(&heap->seed, 8) == 0;
    const size_t size = is_small ? 16 + random_below(&heap->seed, 500)
                                 : SMALLEST + random_below(&heap->seed, LARGEST - SMALLEST);
    heap->block[heap->count] = load_make(size);
    heap->size[heap->count++] = size;
    have += size;
  }
}

// Free all but `kept` blocks, at random.
static void thin_out(heap_t* heap, size_t kept) {
  for (size_t i = heap->count - 1; i > 0; i--) {
    const size_t j = random_below(&heap->seed, i + 1);
    void* const block = heap->block[i];
    const size_t size = heap->size[i];
    heap->block[i] = heap->block[j];
    heap->size[i] = heap->size[j];
    heap->block[j] = block;
    heap->size[j] = size;
  }
  while (heap->count > kept) {
    heap->count--;
    load_drop(heap->block[heap->count], heap->size[heap->count]);
  }
}

static void verify(const heap_t* heap) {
  for (size_t i = 0; i < heap->count; i++) {
    load_verify(heap->block[i], heap->size[i], (uint8_t)heap->size[i]);
  }
}

static bool count_block(const mi_heap_t* heap, const mi_heap_area_t* area, void* block, size_t size,
                        void* arg) {
  (void)heap, (void)area, (void)size;
  *(size_t*)arg += block != NULL;
  return true;
}

static size_t blocks_in_use(void) {
  size_t count = 0;
  CHECK(mi_heap_visit_blocks(mi_heap_main(), true, &count_block, &count));
  return count;
}

static size_t in_order_size(size_t i, size_t smallest, size_t largest) {
  return smallest + i * 2654435761u % (largest - smallest + 1);
}

// Pages become nearly empty while the heap is still large, and much may wait; then it shrinks.
static void in_order(const load_t* load, size_t smallest, size_t largest, size_t bound) {
  static void* block[IN_ORDER_BYTES / IN_ORDER_SMALLEST];
  memset(block, 1, sizeof(block));
  const size_t count = load_scale(load, IN_ORDER_BYTES) / ((smallest + largest) / 2);
  const size_t before = load_rss();
  for (size_t i = 0; i < count; i++) block[i] = load_make(in_order_size(i, smallest, largest));
  for (size_t i = 0; i < count; i++) {
    if (i % IN_ORDER_PART != 0) load_drop(block[i], in_order_size(i, smallest, largest));
  }
  const size_t after = load_rss() - before;
  printf(
      "FIGURE resident of %zu MiB in blocks of %zu to %zu bytes when all but one in %d is free, in "
      "their order: %zu MiB\n",
      load_scale(load, IN_ORDER_BYTES) / LOAD_MIB, smallest, largest, IN_ORDER_PART,
      after / LOAD_MIB);
  const bool is_bounded = load_makes_holes() && load->percent >= 100 && !LOAD_IS_SANITIZED;
  if (is_bounded) CHECK_SAY(after <= load_bound(bound), "%zu KiB are resident", after / LOAD_KIB);
  for (size_t i = 0; i < count; i += IN_ORDER_PART) {
    load_drop(block[i], in_order_size(i, smallest, largest));
  }
  const size_t now = load_rss();
  const size_t least = now > before ? now - before : 0;
  if (is_bounded) CHECK_SAY(least <= load_bound(IN_ORDER_LEAST), "%zu KiB stay", least / LOAD_KIB);
  load_wait_ms(300); // what is allocated from now on is not what was needed again at once
}

static void on_one_thread(const load_t* load) {
  const size_t bytes = load_scale(load, BYTES);
  heap_t heap = heap_of(bytes, load->seed);
  const size_t others = blocks_in_use();
  const size_t before = load_rss();
  for (size_t round = 0; round < ROUNDS; round++) {
    load_alive();
    build(&heap, bytes);
    const size_t full = load_rss() - before;
    thin_out(&heap, heap.count / KEPT_PART);
    const size_t after = load_rss() - before;
    if (round == 0) {
      printf("FIGURE resident of %zu MiB when all but one block in ten is free: %zu MiB\n",
             full / LOAD_MIB, after / LOAD_MIB);
    }
    // In later rounds the program has shown that it needs the memory again and again.
    if (round == 0 && load_makes_holes() && load->percent >= 100 && !LOAD_IS_SANITIZED) {
      CHECK_SAY(after <= load_bound(full / RESIDENT_PART), "%zu KiB of %zu are resident",
                after / LOAD_KIB, full / LOAD_KIB);
    }
    verify(&heap);
    // Neither more nor fewer blocks are in use than the program has.
    CHECK(blocks_in_use() == others + heap.count);
  }
  mi_collect(true); // the rest of what is free
  CHECK(blocks_in_use() == others + heap.count);
  const size_t now = load_rss();
  const size_t least = now > before ? now - before : 0;
  if (load_makes_holes() && load->percent >= 100 && !LOAD_IS_SANITIZED) {
    CHECK_SAY(least <= load_bound(bytes / RESIDENT_PART), "%zu KiB stay when all is collected",
              least / LOAD_KIB);
  }
  verify(&heap);
  build(&heap, bytes);
  verify(&heap);
  thin_out(&heap, 0);
  free(heap.block);
  free(heap.size);
}

static heap_t shared[THREADS];
static pthread_barrier_t barrier;
static size_t thread_bytes;

static void* thread_main(void* arg) {
  const size_t self = (size_t)(uintptr_t)arg;
  heap_t* const heap = &shared[self];
  for (size_t round = 0; round < 2 * ROUNDS; round++) {
    build(heap, thread_bytes);
    pthread_barrier_wait(&barrier);
    // In turns: its own blocks, and those of its neighbour.
    heap_t* const other = &shared[(self + round) % THREADS];
    thin_out(other, other->count / KEPT_PART);
    pthread_barrier_wait(&barrier);
    if (round % 3 == 2) mi_collect(true);
    verify(heap);
    pthread_barrier_wait(&barrier);
  }
  thin_out(heap, 0);
  return NULL;
}

static void on_threads(const load_t* load) {
  pthread_t thread[THREADS];
  thread_bytes = load_scale(load, THREAD_BYTES);
  CHECK(pthread_barrier_init(&barrier, NULL, THREADS) == 0);
  for (size_t i = 0; i < THREADS; i++) shared[i] = heap_of(thread_bytes, load->seed + i);
  for (size_t i = 0; i < THREADS; i++) {
    CHECK(pthread_create(&thread[i], NULL, &thread_main, (void*)(uintptr_t)i) == 0);
  }
  load_alive();
  for (size_t i = 0; i < THREADS; i++) pthread_join(thread[i], NULL);
  for (size_t i = 0; i < THREADS; i++) {
    free(shared[i].block);
    free(shared[i].size);
  }
}

int main(int argc, char** argv) {
  load_t load = load_begin(argc, argv);
  in_order(&load, SMALLEST, SMALLEST, 96 * LOAD_MIB);
  in_order(&load, SMALLEST, LARGEST, 56 * LOAD_MIB);
  if (mi_option_get(mi_option_guarded_sample_rate) == 1) {
    printf("blocks of %d bytes in their order: not with guards, which take half a minute there\n",
           IN_ORDER_SMALLEST);
  } else {
    in_order(&load, IN_ORDER_SMALLEST, IN_ORDER_SMALLEST, 144 * LOAD_MIB);
  }
  on_one_thread(&load);
  on_threads(&load);
  return 0;
}
