// SPDX-License-Identifier: MIT
// Threads say that they are going to wait (idle.c). If this fails, memory that they do not use
// stays with them, or a thread is asked again and again although there is nothing to do; or a block
// is damaged or lost when they go on.
//
//   one thread frees most of a heap that it has filled again and again, and waits
//   several free blocks of all sizes, and wait
//   several exchange blocks, and say all the time that they are going to wait
#include "load_threads.h"

#define BLOCKS ((size_t)60000)
#define LARGEST ((size_t)2000)
#define BURSTS 6 // so many that the library keeps what the next one will need (retain.c)
#define KEPT_PART 100 // one block in so many stays
#define PATIENCE_MS 20000
#define SLEEPERS 12
#define CLASS_BYTES ((size_t)(64 * LOAD_KIB)) // in blocks of one size
#define EXCHANGERS 4
#define SHELF 256
#define TIME_MS 2000

typedef struct {
  void* block;
  size_t size;
} slot_t;

static void fill(slot_t* slot, size_t size) { *slot = (slot_t){load_make(size), size}; }

static void drop(slot_t* slot) {
  if (slot->block != NULL) load_drop(slot->block, slot->size);
  *slot = (slot_t){NULL, 0};
}

// Wait as an event loop does to which nothing happens. True once the thread has nothing to do any
// more.
static bool rest(uint64_t end_ms) {
  for (int due; (due = mi_thread_idle_due()) != -1;) {
    CHECK(due >= 0);
    if (load_now_ms() > end_ms) return false;
    if (due == 0) mi_thread_idle();
    if (due > 0) load_wait_ms(due);
  }
  return true;
}

// True if memory between blocks goes back, and the program has its full size.
static bool has_bounds(const load_t* load) { return load_makes_holes() && load->percent >= 100; }

// -- one thread --

static void fill_and_rest(const load_t* load) {
  uint64_t seed = load->seed;
  const size_t count = load_scale(load, BLOCKS);
  slot_t* const slot = calloc(count, sizeof(slot_t));
  CHECK(slot != NULL);
  const size_t before = load_rss();
  for (size_t turn = 0; turn < BURSTS; turn++) {
    for (size_t i = 0; i < count; i++) fill(&slot[i], 16 + random_below(&seed, LARGEST - 16));
    for (size_t i = 0; i < count; i++) {
      if (turn + 1 < BURSTS || i % KEPT_PART != 0) drop(&slot[i]);
    }
  }
  const size_t full = load_rss();
  const bool is_bounded = has_bounds(load); // allocates
  CHECK_SAY(rest(load_now_ms() + PATIENCE_MS), "after %u s there is still something due",
            PATIENCE_MS / 1000);
  const size_t now = load_rss();
  printf("one thread: %zu KiB resident, %zu after a while\n", full / LOAD_KIB, now / LOAD_KIB);
  // A small block in use in each page of the smaller classes keeps 4 KiB, or all of it.
  const size_t bound = load_bound(before + 10 * LOAD_MIB);
  if (is_bounded) CHECK_SAY(now < bound, "%zu KiB", now / LOAD_KIB);
  CHECK(mi_thread_idle_due() == -1);
  free(malloc(LARGEST)); // takes up a page again
  CHECK(mi_thread_idle_due() > 0);
  for (size_t i = 0; i < count; i++) drop(&slot[i]);
  free(slot);
}

// -- several threads --

static pthread_barrier_t barrier;

static void use_all_sizes(void) {
  static const size_t shift = 2; // four sizes between two powers of two
  slot_t slot[CLASS_BYTES / 64];
  for (size_t size = 64; size <= CLASS_BYTES / 2; size += size >> shift) {
    const size_t count = CLASS_BYTES / size;
    for (size_t i = 0; i < count; i++) fill(&slot[i], size);
    for (size_t i = 0; i < count; i++) drop(&slot[i]);
  }
}

static void* sleeper(void* arg) {
  (void)arg;
  use_all_sizes();
  mi_thread_idle();
  pthread_barrier_wait(&barrier);
  pthread_barrier_wait(&barrier); // the thread waits here
  use_all_sizes();
  return NULL;
}

static void use_and_wait(const load_t* load) {
  pthread_t thread[SLEEPERS];
  const size_t before = load_rss();
  CHECK(pthread_barrier_init(&barrier, NULL, SLEEPERS + 1) == 0);
  for (size_t i = 0; i < SLEEPERS; i++) {
    CHECK(pthread_create(&thread[i], NULL, &sleeper, NULL) == 0);
  }
  pthread_barrier_wait(&barrier);
  const size_t full = load_rss();
  const uint64_t end = load_now_ms() + PATIENCE_MS;
  // Stacks, a structure for each thread, what the program has started.
  const size_t bound = load_bound(before + 6 * LOAD_MIB);
  size_t now = full;
  while (has_bounds(load) && now > bound) {
    CHECK_SAY(load_now_ms() < end, "%zu KiB resident, %zu before", now / LOAD_KIB,
              before / LOAD_KIB);
    rest(end);
    load_wait_ms(50); // the purge thread, if there is one
    now = load_rss();
  }
  printf("%u threads: %zu KiB resident, %zu after a while, %zu before\n", SLEEPERS, full / LOAD_KIB,
         now / LOAD_KIB, before / LOAD_KIB);
  pthread_barrier_wait(&barrier);
  for (size_t i = 0; i < SLEEPERS; i++) CHECK(pthread_join(thread[i], NULL) == 0);
  pthread_barrier_destroy(&barrier);
}

// -- blocks are exchanged --

static slot_t shelf[SHELF];
static pthread_mutex_t shelf_mutex = PTHREAD_MUTEX_INITIALIZER;
static uint64_t end_ms;

static void* exchanger(void* arg) {
  uint64_t seed = *(const uint64_t*)arg;
  mi_heap_t* const heap = mi_heap_new();
  CHECK(heap != NULL);
  void* own = NULL;
  while (load_now_ms() < end_ms) {
    for (size_t i = random_below(&seed, 300); i > 0; i--) {
      slot_t one;
      fill(&one, 16 + random_below(&seed, random_below(&seed, 8) == 0 ? 100000 : LARGEST));
      slot_t* const place = &shelf[random_below(&seed, SHELF)];
      pthread_mutex_lock(&shelf_mutex);
      const slot_t old = *place;
      *place = one;
      pthread_mutex_unlock(&shelf_mutex);
      one = old;
      drop(&one);
    }
    mi_free(own);
    own = mi_heap_malloc(heap, 100);
    memset(own, 1, 100);
    mi_thread_idle();
    if (random_below(&seed, 4) == 0) load_wait_ms((long)random_below(&seed, 4));
  }
  mi_heap_delete(heap); // the block is of the main heap now
  mi_free(own);
  return NULL;
}

static void exchange(const load_t* load) {
  mi_option_set(mi_option_purge_delay, 2);
  end_ms = load_now_ms() + load_scale(load, TIME_MS);
  load_on_threads(EXCHANGERS, &exchanger, load->seed);
  for (size_t i = 0; i < SHELF; i++) drop(&shelf[i]);
}

int main(int argc, char** argv) {
  const load_t load = load_begin(argc, argv);
  CHECK(mi_thread_idle_due() >= -1);
  fill_and_rest(&load);
  use_and_wait(&load);
  exchange(&load);
  return 0;
}
