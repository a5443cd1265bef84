// SPDX-License-Identifier: MIT
// A program replaces blocks of some ten KiB at random, whose pages have much memory behind the
// blocks (tail.c). If this fails, what other pages left there stays resident for as long as the
// blocks live; or a block is damaged because the purge thread takes its memory for such.
//
//   one thread replaces blocks until most slices were used by pages of several classes, then looks
//   at what is resident after a while
//   several threads exchange such blocks while the purge thread looks each millisecond
#include "load_threads.h"

#define BLOCKS ((size_t)3000)
#define TURNS 5
#define SMALLEST ((size_t)33000)
#define LARGEST ((size_t)60000)
#define PATIENCE_MS 8000
// Of what the blocks have: 1.25 before the tails go back, 1.07 after.
#define RESIDENT_PERCENT 115
#define THREADS 4
#define SHELF 128
#define TIME_MS 3000

typedef struct {
  void* block;
  size_t size;
} slot_t;

static size_t random_length(uint64_t* seed) {
  return SMALLEST + random_below(seed, LARGEST - SMALLEST);
}

static void drop(slot_t* slot) {
  if (slot->block != NULL) load_drop(slot->block, slot->size);
  *slot = (slot_t){NULL, 0};
}

static void fill(slot_t* slot, size_t size) {
  *slot = (slot_t){load_make(size), size};
  memset((uint8_t*)slot->block + 64, 1, size - 128); // each OS page
  load_fill(slot->block, size, (uint8_t)size);
}

// -- what is resident --

static bool has_bounds(const load_t* load) {
  return load_makes_holes() && load_has_purger() && load->percent >= 100;
}

static void* sleeper(void* arg) {
  pthread_mutex_lock(arg);
  pthread_mutex_unlock(arg);
  return NULL;
}

static void replace_and_wait(const load_t* load) {
  pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  pthread_t second; // so that there is a purge thread
  pthread_mutex_lock(&mutex);
  CHECK(pthread_create(&second, NULL, &sleeper, &mutex) == 0);
  uint64_t seed = load->seed;
  const size_t count = load_scale(load, BLOCKS);
  slot_t* const slot = calloc(count, sizeof(slot_t));
  CHECK(slot != NULL);
  const size_t before = load_rss();
  for (size_t i = 0; i < count; i++) fill(&slot[i], random_length(&seed));
  for (size_t i = 0; i < TURNS * count; i++) {
    slot_t* const one = &slot[random_below(&seed, count)];
    drop(one);
    fill(one, random_length(&seed));
  }
  size_t live = 0;
  for (size_t i = 0; i < count; i++) live += slot[i].size;
  const size_t full = load_rss();
  const size_t bound = load_bound(before + live / 100 * RESIDENT_PERCENT);
  size_t now = full;
  for (uint64_t end = load_now_ms() + PATIENCE_MS; has_bounds(load) && now > bound;) {
    CHECK_SAY(load_now_ms() < end, "%zu KiB resident for %zu", now / LOAD_KIB, live / LOAD_KIB);
    load_wait_ms(100);
    now = load_rss();
  }
  printf("blocks of %zu KiB: %zu KiB resident, %zu after a while\n", live / LOAD_KIB,
         full / LOAD_KIB, now / LOAD_KIB);
  for (size_t i = 0; i < count; i++) drop(&slot[i]);
  free(slot);
  pthread_mutex_unlock(&mutex);
  CHECK(pthread_join(second, NULL) == 0);
}

// -- blocks are exchanged --

static slot_t shelf[THREADS][SHELF];
static pthread_mutex_t shelf_mutex[THREADS];
static uint64_t end_ms;

static void* exchanger(void* arg) {
  uint64_t seed = *(const uint64_t*)arg;
  while (load_now_ms() < end_ms) {
    for (size_t i = 0; i < 200; i++) {
      const size_t s = random_below(&seed, THREADS);
      slot_t* const place = &shelf[s][random_below(&seed, SHELF)];
      slot_t one;
      // Others use the slices as a whole.
      fill(&one, random_below(&seed, 3) == 0 ? LARGEST : random_length(&seed));
      pthread_mutex_lock(&shelf_mutex[s]);
      const slot_t old = *place;
      *place = one;
      pthread_mutex_unlock(&shelf_mutex[s]);
      one = old;
      drop(&one);
    }
    load_wait_ms((long)random_below(&seed, 8));
  }
  return NULL;
}

static void exchange(const load_t* load) {
  mi_option_set(mi_option_purge_delay, 2);
  end_ms = load_now_ms() + load_scale(load, TIME_MS);
  for (size_t s = 0; s < THREADS; s++) pthread_mutex_init(&shelf_mutex[s], NULL);
  load_on_threads(THREADS, &exchanger, load->seed);
  for (size_t s = 0; s < THREADS; s++) {
    for (size_t i = 0; i < SHELF; i++) drop(&shelf[s][i]);
  }
}

int main(int argc, char** argv) {
  const load_t load = load_begin(argc, argv);
  replace_and_wait(&load);
  exchange(&load);
  return 0;
}
