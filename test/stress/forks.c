// SPDX-License-Identifier: MIT
// A process with busy threads forks again and again, and the children allocate. If this fails, a
// child hangs or crashes in its first malloc, as happens to servers that fork under load, or when
// it ends a heap that threads of its parent were using.
#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>

#include "load.h"
#include "mimalloc.h"

#define THREADS 8
#define FORKS ((size_t)200)
#define TIME_MS 7000
#define KEEP 256
#define CHILD_BYTES (10 * LOAD_MIB)
#define CHILD_BLOCKS 4096

static _Atomic(bool) is_done;
static _Atomic(uintptr_t*)
    shared[KEEP]; // blocks whose first word is their size; any thread frees them
static mi_heap_t* heap; // of all threads
static load_t load;

static uintptr_t* make(uint64_t* state, size_t top) {
  const size_t size = sizeof(uintptr_t) + load_below(state, top);
  uintptr_t* const block = (uintptr_t*)malloc(size);
  LOAD_CHECK(block != NULL, "no memory for %zu bytes", size);
  block[0] = size;
  load_fill(block + 1, size - sizeof(uintptr_t), (uint8_t)size);
  return block;
}

static void drop(uintptr_t* block) {
  if (block == NULL) return;
  load_verify(block + 1, block[0] - sizeof(uintptr_t), (uint8_t)block[0]);
  free(block);
}

#define HEAP_BLOCKS ((size_t)8)

// In the heap pages come and go all the time.
static void replace_in_heap(void** slot, uint64_t* state) {
  mi_free(*slot);
  const size_t size = 10000 + load_below(state, 90000);
  *slot = mi_heap_malloc(heap, size);
  LOAD_CHECK(*slot != NULL, "no memory for %zu bytes", size);
  load_fill(*slot, 1000, 7);
}

static void* work(void* argument) {
  uint64_t state = load.seed + (uintptr_t)argument;
  void* in_heap[HEAP_BLOCKS] = {NULL};
  uintptr_t* mine[KEEP] = {NULL};
  while (!atomic_load(&is_done)) {
    const size_t i = load_below(&state, KEEP);
    drop(mine[i]);
    mine[i] = make(&state, i % 32 == 0 ? 200000 : 2000);
    replace_in_heap(&in_heap[i % HEAP_BLOCKS], &state);
    if (i % 16 == 0) load_wait_ms(1); // the children need the processors too
    if (i % 4 == 0) mine[i] = atomic_exchange(&shared[load_below(&state, KEEP)], mine[i]);
  }
  for (size_t i = 0; i < KEEP; i++) drop(mine[i]);
  for (size_t i = 0; i < HEAP_BLOCKS; i++) mi_free(in_heap[i]);
  return NULL;
}

static void* work_in_child(void* argument) {
  uint64_t state = (uintptr_t)argument;
  for (size_t i = 0; i < 200; i++) drop(make(&state, 3000));
  return NULL;
}

// The heap goes on in the child, and ends.
static void use_heap_in_child(uint64_t* state, bool is_destroyed) {
  void* block[64] = {NULL};
  for (size_t i = 0; i < 300; i++) replace_in_heap(&block[i % 64], state);
  if (is_destroyed) {
    mi_heap_destroy(heap);
  } else {
    mi_heap_delete(heap);
    for (size_t i = 0; i < 64; i++) {
      load_verify(block[i], 1000, 7);
      mi_free(block[i]);
    }
  }
  heap = mi_heap_new();
  for (size_t i = 0; i < 10; i++) block[i] = NULL;
  for (size_t i = 0; i < 100; i++) replace_in_heap(&block[i % 10], state);
  mi_heap_destroy(heap);
}

// What a child does: take over blocks of threads that do not exist here, allocate, free, end.
static void be_child(size_t number) {
  alarm(20);
  uint64_t state = load.seed + number * 31;
  for (size_t i = 0; i < KEEP; i += 2) drop(atomic_exchange(&shared[i], NULL));
  use_heap_in_child(&state, number % 3 == 0);
  uintptr_t* mine[CHILD_BLOCKS];
  size_t bytes = 0, count = 0;
  while (bytes < CHILD_BYTES && count < CHILD_BLOCKS) {
    mine[count] = make(&state, count % 16 == 0 ? 300000 : 4000);
    bytes += mine[count++][0];
  }
  if (number % 8 == 0) {
    pthread_t thread;
    LOAD_CHECK(pthread_create(&thread, NULL, &work_in_child, (void*)number) == 0, "in a child");
    pthread_join(thread, NULL);
  }
  for (size_t i = 0; i < count; i++) drop(mine[i]);
  if (number % 16 == 0) {
    const pid_t grandchild = fork();
    if (grandchild == 0) {
      drop(make(&state, 100000));
      _exit(0);
    }
    int status = 1;
    LOAD_CHECK(waitpid(grandchild, &status, 0) == grandchild && status == 0, "grandchild: %d",
               status);
  }
  if (number % 2 == 0) exit(0);
  _exit(0);
}

int main(int argc, char** argv) {
  load = load_begin(argc, argv);
  const size_t count = load_scale(&load, FORKS);
  const uint64_t deadline_ms = load_now_ms() + TIME_MS;
  heap = mi_heap_new();
  LOAD_CHECK(heap != NULL, "no heap for %d threads", THREADS);
  pthread_t thread[THREADS];
  for (uintptr_t i = 0; i < THREADS; i++) {
    LOAD_CHECK(pthread_create(&thread[i], NULL, &work, (void*)i) == 0, "thread %zu", (size_t)i);
  }
  size_t done = 0;
  for (; done < count && load_now_ms() < deadline_ms; done++) {
    fflush(stdout);
    const pid_t child = fork();
    LOAD_CHECK(child >= 0, "fork %zu", done);
    if (child == 0) be_child(done);
    int status = 1;
    LOAD_CHECK(waitpid(child, &status, 0) == child && status == 0, "child %zu: status %d", done,
               status);
  }
  atomic_store(&is_done, true);
  for (size_t i = 0; i < THREADS; i++) pthread_join(thread[i], NULL);
  for (size_t i = 0; i < KEEP; i++) drop(atomic_exchange(&shared[i], NULL));
  mi_heap_destroy(heap);
  printf("forks %zu\n", done);
  return 0;
}
