// SPDX-License-Identifier: MIT
// Threads end in every way there is: they return, call pthread_exit deep inside, are cancelled
// while they allocate, are threads of C11, or are detached; and some only free what others made. If
// this fails, a program hangs or crashes when a thread is cancelled, or keeps what ended threads
// had.
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <threads.h>

#include "load.h"
#include "mimalloc.h"

#define ROUNDS ((size_t)400)
#define TIME_MS 3000
#define BLOCKS 64
#define HANDED_BYTES (100 * LOAD_MIB)
#define HANDED_MAX 16384
#define GROWTH_MAX (8 * LOAD_MIB)

typedef struct {
  void* block[BLOCKS];
  size_t size[BLOCKS];
} blocks_t;

static load_t load;
static _Atomic(size_t) detached_left;

static void make_all(blocks_t* mine, uint64_t* state) {
  for (size_t i = 0; i < BLOCKS; i++) {
    mine->size[i] = 1 + random_below(state, i % 16 == 0 ? 50000 : 1000);
    mine->block[i] = load_make(mine->size[i]);
  }
}

// Runs when the thread ends, before destructors of thread-specific values.
static void drop_all(void* argument) {
  blocks_t* const mine = (blocks_t*)argument;
  for (size_t i = 0; i < BLOCKS; i++) load_drop(mine->block[i], mine->size[i]);
  free(mine);
}

static void* exits(void* argument) {
  uint64_t state = load.seed + (uintptr_t)argument;
  blocks_t* const mine = (blocks_t*)load_make(sizeof(blocks_t));
  make_all(mine, &state);
  pthread_cleanup_push(&drop_all, mine);
  pthread_exit((void*)7);
  pthread_cleanup_pop(0);
}

// Allocates until it is cancelled, which happens at one of the calls that permit it.
static void* is_cancelled(void* argument) {
  uint64_t state = load.seed + (uintptr_t)argument;
  blocks_t* const mine = (blocks_t*)load_make(sizeof(blocks_t));
  make_all(mine, &state);
  pthread_cleanup_push(&drop_all, mine);
  while (true) {
    const size_t i = random_below(&state, BLOCKS);
    load_drop(mine->block[i], mine->size[i]);
    mine->block[i] = load_make(mine->size[i]);
    if (i == 0) pthread_testcancel();
  }
  pthread_cleanup_pop(0);
  return NULL;
}

static int no_block;
static _Atomic(bool) is_through;

// Nothing of ours is a point where a thread that is to be cancelled ends.
static void* is_doomed(void* argument) {
  pthread_cancel(pthread_self());
  for (size_t size = 1; size < 64 * LOAD_MIB; size *= 2) load_drop(load_make(size), size);
  // Reported; the address sanitizer, which is told about blocks, would end the program.
  if (!LOAD_IS_SANITIZED || LOAD_IS_TSAN) mi_free(&no_block);
  mi_collect(true);
  mi_heap_t* const heap = mi_heap_new();
  CHECK(mi_heap_malloc(heap, 100) != NULL);
  mi_heap_destroy(heap);
  atomic_store(&is_through, true);
  pthread_testcancel();
  return argument;
}

static void check_cancellation_points(void) {
  // Then the machine is asked for its nodes, once, when memory is mapped.
  mi_option_enable(mi_option_arena_is_numa_local);
  mi_option_enable(mi_option_show_errors);
  pthread_t thread;
  void* result = NULL;
  CHECK(pthread_create(&thread, NULL, &is_doomed, NULL) == 0);
  CHECK_SAY(pthread_join(thread, &result) == 0 && result == PTHREAD_CANCELED, "cancel");
  mi_option_disable(mi_option_show_errors);
  CHECK_SAY(atomic_load(&is_through), "a thread was cancelled inside the allocator");
}

static int of_c11(void* argument) {
  uint64_t state = load.seed + (uintptr_t)argument;
  blocks_t* const mine = (blocks_t*)load_make(sizeof(blocks_t));
  make_all(mine, &state);
  drop_all(mine);
  if ((uintptr_t)argument % 2 == 0) thrd_exit(3);
  return 3;
}

static int of_c11_detached(void* argument) {
  of_c11((void*)((uintptr_t)argument | 1));
  atomic_fetch_sub(&detached_left, 1);
  return 0;
}

static void start_and_end_c11(size_t round) {
  if (LOAD_IS_TSAN) return;
  thrd_t thread, detached;
  CHECK(thrd_create(&thread, &of_c11, (void*)round) == thrd_success);
  atomic_fetch_add(&detached_left, 1);
  CHECK(thrd_create(&detached, &of_c11_detached, (void*)round) == thrd_success);
  thrd_detach(detached);
  int result = 0;
  CHECK(thrd_join(thread, &result) == thrd_success && result == 3);
}

static void start_and_end(size_t round) {
  load_alive();
  pthread_t thread[3];
  void* const number = (void*)round;
  CHECK(pthread_create(&thread[0], NULL, &exits, number) == 0);
  CHECK(pthread_create(&thread[1], NULL, &is_cancelled, number) == 0);
  CHECK(pthread_create(&thread[2], NULL, &is_cancelled, number) == 0);
  pthread_cancel(thread[1]); // maybe before it started
  start_and_end_c11(round);
  if (round % 8 == 0) load_wait_ms(1);
  pthread_cancel(thread[2]);
  void* result = NULL;
  CHECK(pthread_join(thread[0], &result) == 0 && result == (void*)7);
  for (size_t i = 1; i < 3; i++) {
    CHECK_SAY(pthread_join(thread[i], &result) == 0 && result == PTHREAD_CANCELED, "cancel");
  }
}

// -- threads that only free --

static void* handed[HANDED_MAX];
static size_t handed_size[HANDED_MAX];
static size_t handed_count;
#define FREERS 4

static void* only_frees(void* argument) {
  for (size_t i = (uintptr_t)argument; i < handed_count; i += FREERS) {
    load_drop(handed[i], handed_size[i]);
  }
  return NULL;
}

// What was resident at the end: all that was handed over is free.
static size_t hand_over(uint64_t* state) {
  size_t bytes = 0;
  for (handed_count = 0; bytes < HANDED_BYTES && handed_count < HANDED_MAX; handed_count++) {
    const size_t size = 1 + random_below(state, handed_count % 16 == 0 ? 200000 : 6000);
    handed[handed_count] = load_make(size);
    handed_size[handed_count] = size;
    bytes += size;
  }
  CHECK_SAY(bytes >= HANDED_BYTES, "only %zu bytes", bytes);
  pthread_t thread[FREERS];
  for (uintptr_t i = 0; i < FREERS; i++) {
    CHECK(pthread_create(&thread[i], NULL, &only_frees, (void*)i) == 0);
  }
  for (size_t i = 0; i < FREERS; i++) pthread_join(thread[i], NULL);
  return load_rss();
}

int main(int argc, char** argv) {
  load = load_begin(argc, argv);
  check_cancellation_points();
  const size_t rounds = load_scale(&load, ROUNDS);
  const uint64_t deadline_ms = load_now_ms() + TIME_MS;
  size_t done = 0, warm = 0;
  for (; done < rounds && load_now_ms() < deadline_ms; done++) {
    if (done == rounds / 4) warm = load_rss();
    start_and_end(done);
  }
  while (atomic_load(&detached_left) > 0) load_wait_ms(1);
  const size_t after = load_rss();
  printf("%zu rounds: resident %zu KiB after a quarter, %zu KiB at the end\n", done,
         warm / LOAD_KIB, after / LOAD_KIB);
  fflush(stdout);
  CHECK_SAY(warm == 0 || after <= warm + GROWTH_MAX, "grew by %zu KiB", (after - warm) / LOAD_KIB);
  uint64_t state = load.seed;
  const size_t once = hand_over(&state);
  load_alive();
  size_t again = once;
  for (size_t i = 0; i < 3; i++) again = hand_over(&state);
  printf("FIGURE %zu MiB freed by threads that only free: resident %zu MiB, %zu after four times\n",
         (size_t)HANDED_BYTES / LOAD_MIB, once / LOAD_MIB, again / LOAD_MIB);
  fflush(stdout);
  if (LOAD_IS_TSAN) return 0;
  CHECK_SAY(again <= HANDED_BYTES + HANDED_BYTES / 2, "the blocks were not used again");
  return 0;
}
