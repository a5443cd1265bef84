// SPDX-License-Identifier: MIT
// Programs at random, one after the other: 2 to 48 threads that exchange blocks of sizes around one
// that each program has, keep some to themselves and in heaps of their own, collect, wait, and
// sleep for as long as the purge thread needs to ask for their pages. After each program all is
// freed, and nothing may be left in use. If this fails, blocks are lost where two of these meet (a
// list of free blocks, when the purge thread asked for its page just before), and a program with
// threads grows for as long as it runs.
//
// --programs N: how many --seconds S: at most
#include <mimalloc.h>
#include <pthread.h>
#include <stdatomic.h>

#include "load.h"

#define THREADS_MAX 48
#define SLOTS_MAX 4096
#define OWN 64
#define OF_HEAP 32
#define BITS_MAX 20 // of the largest size
#define LIVE_BITS 26 // of the bytes in slots, about
#define CHANGES ((size_t)500000) // of all threads of a program, if its blocks are short
#define SLEEP_MS 14
#define PROGRAM_MS 400 // at most, for each generation of threads
// What may be left: blocks of libc, and what it has for each thread.
#define LEFT_MAX (96 * LOAD_KIB)

typedef struct {
  size_t size;
  uint8_t mark;
} header_t;

typedef struct {
  size_t threads;
  size_t slots;
  unsigned bits, bits_more; // sizes are of so many bits, or a few more
  size_t sleep_each; // changes of a thread, about; 0: no thread sleeps
  bool has_heaps;
  size_t changes; // of each thread
} program_t;

typedef struct {
  uint64_t random;
  header_t* own[OWN];
  mi_heap_t* heap;
  header_t* of_heap[OF_HEAP];
} worker_t;

static load_t load;
static program_t program;
static _Atomic(header_t*) slot[SLOTS_MAX];
static size_t programs = 40, seconds = 5;
static uint64_t end_ms; // of the threads that run

static bool one_in(worker_t* w, size_t count) { return random_below(&w->random, count) == 0; }

static size_t draw_size(worker_t* w) {
  const size_t least = (size_t)1 << (program.bits + random_below(&w->random, program.bits_more));
  return sizeof(header_t) + least + random_below(&w->random, least);
}

// Note what the block is, and fill it.
static header_t* make_of(worker_t* w, void* p, size_t size) {
  CHECK_SAY(p != NULL, "no memory for %zu bytes", size);
  header_t* const block = (header_t*)p;
  *block = (header_t){size, (uint8_t)random_next(&w->random)};
  load_fill(block + 1, size - sizeof(header_t), block->mark);
  return block;
}

static header_t* make(worker_t* w) {
  const size_t size = draw_size(w);
  if (one_in(w, 8)) {
    void* const zeroed = mi_calloc(1, size);
    load_verify_zero(zeroed, size);
    return make_of(w, zeroed, size);
  }
  if (!one_in(w, 8)) return make_of(w, mi_malloc(size), size);
  const size_t alignment = (size_t)16 << random_below(&w->random, 9);
  void* const p = mi_malloc_aligned(size, alignment);
  CHECK_SAY(((uintptr_t)p & (alignment - 1)) == 0, "%p for %zu", p, alignment);
  return make_of(w, p, size);
}

static void verify(const header_t* block) {
  load_verify(block + 1, block->size - sizeof(header_t), block->mark);
}

static void drop(header_t* block) {
  if (block == NULL) return;
  verify(block);
  mi_free(block);
}

static header_t* resize(worker_t* w, header_t* block) {
  verify(block);
  const size_t old = block->size, size = draw_size(w);
  header_t* const moved = (header_t*)mi_realloc(block, size);
  CHECK_SAY(moved != NULL, "no memory for %zu bytes", size);
  load_verify_moved(moved + 1, old - sizeof(header_t), size - sizeof(header_t), moved->mark);
  return make_of(w, moved, size);
}

// -- a heap of its own --

static void heap_replace(worker_t* w) {
  header_t** const block = &w->of_heap[random_below(&w->random, OF_HEAP)];
  drop(*block);
  const size_t size = draw_size(w);
  *block = make_of(w, mi_heap_malloc(w->heap, size), size);
}

// End the heap: its blocks end with it, or are freed before or after it.
static void heap_end(worker_t* w) {
  const bool is_destroyed = one_in(w, 2);
  for (size_t i = 0; i < OF_HEAP; i++) {
    header_t** const block = &w->of_heap[i];
    const bool is_freed = one_in(w, 2);
    if (*block != NULL) verify(*block);
    if (is_freed) drop(*block);
    if (is_freed || is_destroyed) *block = NULL;
  }
  if (is_destroyed) {
    mi_heap_destroy(w->heap);
  } else {
    mi_heap_delete(w->heap);
  }
  for (size_t i = 0; i < OF_HEAP; i++) {
    drop(w->of_heap[i]);
    w->of_heap[i] = NULL;
  }
  w->heap = NULL;
}

// -- a thread --

static void change_slot(worker_t* w) {
  _Atomic(header_t*)* const at = &slot[random_below(&w->random, program.slots)];
  header_t* block = NULL;
  if (one_in(w, 4)) {
    block = atomic_exchange(at, NULL);
    if (block != NULL) block = resize(w, block);
  } else if (!one_in(w, 3)) {
    block = make(w);
  }
  drop(atomic_exchange(at, block));
}

// What a thread does now and then.
static void change_rarely(worker_t* w) {
  switch (random_below(&w->random, 5)) {
    case 0:
      mi_collect(one_in(w, 4));
      break;
    case 1:
      mi_thread_idle();
      break;
    case 2:
      mi_collect_reduce(LOAD_MIB);
      break;
    case 3:
      if (one_in(w, 8)) mi_thread_set_in_threadpool();
      break;
    default:
      if (w->heap != NULL) heap_end(w);
      if (program.has_heaps) w->heap = mi_heap_new();
      break;
  }
}

static void change(worker_t* w) {
  const size_t what = random_below(&w->random, 16);
  if (what < 8) {
    change_slot(w);
  } else if (what < 14 || w->heap == NULL) {
    header_t** const block = &w->own[random_below(&w->random, OWN)];
    drop(*block);
    *block = make(w);
  } else {
    heap_replace(w);
  }
  if (one_in(w, 1000)) change_rarely(w);
  if (program.sleep_each != 0 && one_in(w, program.sleep_each)) {
    load_wait_ms(1 + (long)random_below(&w->random, SLEEP_MS));
  }
}

static void* work(void* argument) {
  worker_t w = {.random = (uint64_t)(uintptr_t)argument};
  if (program.has_heaps && one_in(&w, 2)) w.heap = mi_heap_new();
  for (size_t i = 0; i < program.changes; i++) {
    if (i % 16 == 0 && load_now_ms() > end_ms) break;
    change(&w);
  }
  for (size_t i = 0; i < OWN; i++) drop(w.own[i]);
  if (w.heap != NULL) heap_end(&w);
  return NULL;
}

// -- a program --

static program_t draw_program(uint64_t* random) {
  program_t p = {
      .threads = 2 + random_below(random, random_below(random, 4) == 0 ? THREADS_MAX - 1 : 6),
      .slots = (size_t)8 << random_below(random, 10),
      .bits = 4 + (unsigned)random_below(random, 14),
      .bits_more = 1 + (unsigned)random_below(random, 6),
      .sleep_each = random_below(random, 3) == 0 ? 0 : (size_t)16 << random_below(random, 8),
      .has_heaps = random_below(random, 3) == 0,
  };
  while (p.bits + p.bits_more > BITS_MAX) p.bits_more--;
  const unsigned bits = p.bits + p.bits_more;
  if (bits + 12 > LIVE_BITS) p.slots = p.slots >> (bits + 12 - LIVE_BITS) | 1;
  p.changes = load_scale(&load, CHANGES / p.threads / (1 + ((size_t)1 << bits) / 512));
  return p;
}

static void run_threads(uint64_t* random) {
  pthread_t thread[THREADS_MAX];
  end_ms = load_now_ms() + PROGRAM_MS;
  for (size_t i = 0; i < program.threads; i++) {
    void* const seed = (void*)(uintptr_t)random_next(random);
    CHECK_SAY(pthread_create(&thread[i], NULL, &work, seed) == 0, "thread %zu", i);
  }
  for (size_t i = 0; i < program.threads; i++) pthread_join(thread[i], NULL);
}

static bool add_used(const mi_heap_t* heap, const mi_heap_area_t* area, void* block, size_t size,
                     void* sum) {
  (void)heap, (void)size;
  if (block == NULL) *(size_t*)sum += area->used * area->full_block_size;
  return true;
}

// The bytes in use in the main heap.
static size_t used(void) {
  mi_collect(true);
  size_t sum = 0;
  CHECK_SAY(mi_heap_visit_blocks(mi_heap_main(), false, &add_used, &sum), "visit");
  return sum;
}

int main(int argc, char** argv) {
  const load_argument_t arguments[] = {{"--programs", &programs}, {"--seconds", &seconds}};
  load = load_begin_with(argc, argv, arguments, 2);
  mi_option_enable(mi_option_purge_thread);
  const uint64_t deadline_ms = load_now_ms() + seconds * 1000;
  uint64_t random = load.seed;
  const size_t before = used();
  ptrdiff_t most = 0;
  size_t done = 0;
  for (; done < programs && load_now_ms() < deadline_ms; done++) {
    load_alive();
    program = draw_program(&random);
    for (size_t generations = 1 + random_below(&random, 3); generations > 0; generations--) {
      run_threads(&random);
    }
    for (size_t i = 0; i < SLOTS_MAX; i++) drop(atomic_exchange(&slot[i], NULL));
    const ptrdiff_t left = (ptrdiff_t)used() - (ptrdiff_t)before;
    if (left > most) most = left;
    CHECK_SAY(left <= (ptrdiff_t)LEFT_MAX,
              "%td bytes left by program %zu: %zu threads, 2^%u to 2^%u bytes", left, done,
              program.threads, program.bits, program.bits + program.bits_more);
  }
  printf("%zu programs, at most %td bytes left\n", done, most);
  return 0;
}
