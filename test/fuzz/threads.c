// SPDX-License-Identifier: MIT
// threads.c - fuzz target: threads that run at once on the real system, under the thread
// sanitizer.
//
// The input is cut into one part for each thread; each does what its part says with blocks of its
// own and with those it takes from a table that all share. What happens when is not known, so an
// input need not do the same again: what is checked holds in every order. Contents and alignment
// of blocks; no race (the sanitizer); at the end no block is left in the heaps, and committed
// memory is within a bound.
//
// The library is compiled for the thread sanitizer, this file for coverage only: each takes the
// counters of the other for races. So threads pass blocks on under a mutex, which the sanitizer
// sees whatever is compiled for it.
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "mimalloc-stats.h"
#include "mimalloc.h"

#define THREAD_MAX 4
#define SHARED_COUNT 16
#define OWN_COUNT 24
#define SIZE_BITS 17
#define COMMITTED_MAX ((int64_t)64 << 20)

// A block starts with its size, and is filled with its lowest byte.
typedef struct block_s {
  size_t size;
  uint8_t bytes[];
} block_t;

#define SIZE_MIN sizeof(block_t)

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static block_t* shared[SHARED_COUNT]; // under the lock
static size_t users; // threads that may still use `heap`, under the lock
static mi_heap_t* heap; // all may allocate from it

static block_t* exchange(size_t index, block_t* b) {
  pthread_mutex_lock(&lock);
  block_t* const before = shared[index];
  shared[index] = b;
  pthread_mutex_unlock(&lock);
  return before;
}

static bool is_last_user(void) {
  pthread_mutex_lock(&lock);
  const bool is_last = --users == 0;
  pthread_mutex_unlock(&lock);
  return is_last;
}

static block_t* prepare(void* p, size_t size) {
  block_t* const b = (block_t*)p;
  CHECK(b != NULL && mi_usable_size(b) >= size && (uintptr_t)b % 8 == 0);
  b->size = size;
  memset(b->bytes, (int)(size & 255), size - SIZE_MIN);
  return b;
}

static void check_block(const block_t* b) {
  for (size_t i = 0; i < b->size - SIZE_MIN; i++) CHECK(b->bytes[i] == (uint8_t)(b->size & 255));
}

static void discard(block_t* b) {
  if (b == NULL) return;
  check_block(b);
  mi_free(b);
}

static block_t* allocate(fuzz_input_t* in, mi_heap_t* own) {
  const size_t size = SIZE_MIN + fuzz_size(in, SIZE_BITS);
  const size_t alignment = (size_t)1 << (4 + fuzz_below(in, 12));
  void* p = NULL;
  switch (fuzz_below(in, 6)) {
    case 0:
      p = mi_malloc_aligned(size, alignment);
      CHECK((uintptr_t)p % alignment == 0);
      break;
    case 1:
      p = mi_zalloc(size);
      for (size_t i = 0; i < size; i++) CHECK(((const char*)p)[i] == 0);
      break;
    case 2:
      p = mi_heap_malloc(own != NULL ? own : heap, size);
      break;
    case 3:
      p = mi_heap_malloc(heap, size);
      break;
    default:
      p = mi_malloc(size);
      break;
  }
  return prepare(p, size);
}

static block_t* resize(fuzz_input_t* in, block_t* b) {
  const size_t size = SIZE_MIN + fuzz_size(in, SIZE_BITS);
  const size_t kept = (b->size < size ? b->size : size) - SIZE_MIN;
  const uint8_t byte = (uint8_t)(b->size & 255);
  block_t* const q = (block_t*)mi_realloc(b, size);
  CHECK(q != NULL);
  for (size_t i = 0; i < kept; i++) CHECK(q->bytes[i] == byte);
  return prepare(q, size);
}

typedef struct thread_s {
  pthread_t id;
  fuzz_input_t in;
} thread_t;

// What a thread has; the blocks of its own heap are not shared, as it is destroyed.
typedef struct things_s {
  block_t* own[OWN_COUNT];
  mi_heap_t* heap;
  block_t* in_heap;
} things_t;

static void swallow(const char* text, void* arg) {
  (void)arg;
  CHECK(strlen(text) < 256);
}

static void look(fuzz_input_t* in) {
  switch (fuzz_below(in, 6)) {
    case 0:
      mi_collect(true);
      break;
    case 1:
      mi_collect(false);
      break;
    case 2:
      mi_thread_done();
      break;
    case 3: {
      mi_stats_t_decl(stats);
      CHECK(mi_stats_get(&stats));
      mi_explain(&swallow, NULL);
      break;
    }
    case 4:
      mi_heap_collect(heap, true);
      break;
    default:
      mi_thread_set_in_threadpool();
      break;
  }
}

static void use_heap(fuzz_input_t* in, things_t* things) {
  if (things->heap == NULL) {
    things->heap = mi_heap_new();
    CHECK(things->heap != NULL);
    return;
  }
  for (size_t n = fuzz_below(in, 20); n > 0; n--) {
    const size_t size = SIZE_MIN + fuzz_size(in, 13);
    things->in_heap = prepare(mi_heap_malloc(things->heap, size), size);
  }
  if (fuzz_below(in, 2) == 0) return;
  if (things->in_heap != NULL) check_block(things->in_heap);
  mi_heap_destroy(things->heap);
  things->heap = NULL;
  things->in_heap = NULL;
}

static void* run(void* arg) {
  fuzz_input_t* const in = &((thread_t*)arg)->in;
  things_t things = {{NULL}, NULL, NULL};
  while (!fuzz_is_done(in)) {
    block_t** const own = &things.own[fuzz_below(in, OWN_COUNT)];
    switch (fuzz_below(in, 8)) {
      case 0:
      case 1:
        if (*own == NULL) *own = allocate(in, NULL);
        break;
      case 2:
        discard(*own);
        *own = NULL;
        break;
      case 3: // blocks pass from thread to thread
      case 4:
        *own = exchange(fuzz_below(in, SHARED_COUNT), *own);
        if (*own != NULL) check_block(*own);
        break;
      case 5:
        if (*own != NULL) *own = resize(in, *own);
        break;
      case 6:
        use_heap(in, &things);
        break;
      default:
        look(in);
        break;
    }
  }
  for (size_t i = 0; i < OWN_COUNT; i++) {
    // Half of them are freed by whoever comes last.
    discard(i % 2 == 0 ? things.own[i] : exchange(i % SHARED_COUNT, things.own[i]));
  }
  mi_heap_destroy(things.heap);
  // The last one ends the heap of all, while others may still free blocks of it.
  if (is_last_user()) mi_heap_delete(heap);
  return NULL;
}

static bool count_block(const mi_heap_t* of, const mi_heap_area_t* area, void* block, size_t size,
                        void* arg) {
  (void)of, (void)area, (void)size;
  *(size_t*)arg += block != NULL;
  return true;
}

static void check_end(void) {
  for (size_t i = 0; i < SHARED_COUNT; i++) discard(exchange(i, NULL));
  mi_collect(true);
  size_t left = 0;
  CHECK(mi_heap_visit_blocks(NULL, true, &count_block, &left));
  CHECK(left == 0 && "every block was freed");
  mi_stats_t_decl(stats);
  CHECK(mi_stats_get(&stats));
  CHECK(stats.heaps.current == 1 && stats.committed.current <= COMMITTED_MAX);
}

static void on_error(int code, void* arg) {
  (void)code, (void)arg;
  CHECK(false && "an error was reported");
}

int LLVMFuzzerInitialize(int* argc, char*** argv) {
  (void)argc, (void)argv;
  mi_register_error(&on_error, NULL);
  return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  thread_t threads[THREAD_MAX];
  fuzz_input_t in = fuzz_open(data, size);
  const size_t count = 2 + fuzz_below(&in, THREAD_MAX - 1);
  const size_t part = (size - in.at) / count;
  heap = mi_heap_new();
  CHECK(heap != NULL);
  users = count;
  for (size_t i = 0; i < count; i++) {
    threads[i].in = fuzz_open(data + in.at + i * part, part);
    CHECK(pthread_create(&threads[i].id, NULL, &run, &threads[i]) == 0);
  }
  for (size_t i = 0; i < count; i++) pthread_join(threads[i].id, NULL);
  check_end();
  return 0;
}
