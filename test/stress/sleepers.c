// SPDX-License-Identifier: MIT
// Threads work, free some of what they allocated, and sleep, while others free the rest: the purge
// thread takes over what they have in their queues (hold.c), and they wake at any moment. If this
// fails, memory stays for as long as a thread sleeps, or blocks are lost or damaged when it wakes.
//
//   one thread allocates much, frees each hundredth block, sleeps; another one frees the rest:
//   first the main thread, before there is another one, then any thread
//   one thread allocates much, frees every second block, sleeps; another one uses what is free
//   several threads use buffers of some sizes and free them, and sleep
//   several threads sleep for about as long as the purge thread waits, and exchange blocks
#include "load_threads.h"

#define SIZE ((size_t)256)
#define BLOCKS ((size_t)1 << 18) // 64 MiB
#define STEP 100
#define SLEEP_MS 2500
#define PATIENCE_MS 8000
#define LEFT (16 * LOAD_MIB) // half of it are pages that the thread keeps for itself (HOLD-2)
#define THREADS 4
#define SHELF 4096
#define TIME_MS 4000

static void** block;
static bool has_allocated, may_end;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;

static void signal_that(bool* what) {
  pthread_mutex_lock(&mutex);
  *what = true;
  pthread_cond_broadcast(&changed);
  pthread_mutex_unlock(&mutex);
}

static void await(const bool* what) {
  pthread_mutex_lock(&mutex);
  while (!*what) pthread_cond_wait(&changed, &mutex);
  pthread_mutex_unlock(&mutex);
}

static void make_blocks(size_t count, size_t step) {
  for (size_t i = 0; i < count; i++) block[i] = load_make(SIZE);
  for (size_t i = 0; i < count; i += step) load_drop(block[i], SIZE);
}

static void* free_rest(void* arg) {
  const size_t count = *(const size_t*)arg;
  for (size_t i = 0; i < count; i++) {
    if (i % STEP != 0) load_drop(block[i], SIZE);
  }
  return NULL;
}

// An array of pointers to blocks, which counts as resident from now on.
static size_t make_array(const load_t* load) {
  const size_t count = load_scale(load, BLOCKS);
  block = (void**)calloc(count, sizeof(void*));
  CHECK(block != NULL);
  memset(block, 1, count * sizeof(void*));
  return count;
}

static size_t more_than(size_t before, size_t now) { return now > before ? now - before : 0; }

static void check_left(size_t before, size_t full, size_t most) {
  load_wait_ms(SLEEP_MS);
  // A machine that is busy elsewhere lets the purge thread wait.
  const uint64_t patience_ms = load_now_ms() + PATIENCE_MS;
  while (load_has_purger() && load_rss() >= before + load_bound(most) &&
         load_now_ms() < patience_ms) {
    load_wait_ms(100);
  }
  const size_t left = load_rss();
  printf("%zu MiB of a thread that sleeps: %zu KiB are left\n", more_than(before, full) / LOAD_MIB,
         more_than(before, left) / LOAD_KIB);
  if (load_has_purger()) {
    CHECK_SAY(left < before + load_bound(most), "%zu KiB are left", (left - before) / LOAD_KIB);
  }
}

static void free_what_the_main_thread_has(const load_t* load) {
  size_t count = make_array(load);
  const size_t before = load_rss();
  make_blocks(count, STEP);
  const size_t full = load_rss();
  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, &free_rest, &count) == 0);
  CHECK(pthread_join(thread, NULL) == 0);
  check_left(before, full, LEFT);
  free(block);
}

static void* owner(void* arg) {
  make_blocks(*(const size_t*)arg, STEP);
  signal_that(&has_allocated);
  await(&may_end);
  void* const p = load_make(SIZE); // it goes on
  load_drop(p, SIZE);
  return NULL;
}

static void free_what_a_sleeper_has(const load_t* load) {
  size_t count = make_array(load);
  const size_t before = load_rss();
  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, &owner, &count) == 0);
  await(&has_allocated);
  const size_t full = load_rss();
  free_rest(&count);
  check_left(before, full, LEFT);
  signal_that(&may_end);
  CHECK(pthread_join(thread, NULL) == 0);
  free(block);
}

static void* builder(void* arg) {
  const size_t count = *(const size_t*)arg;
  make_blocks(count, 2);
  signal_that(&has_allocated);
  await(&may_end);
  for (size_t i = 1; i < count; i += 2) load_drop(block[i], SIZE);
  return NULL;
}

static void use_what_a_sleeper_has(const load_t* load) {
  size_t count = make_array(load);
  has_allocated = may_end = false;
  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, &builder, &count) == 0);
  await(&has_allocated);
  const size_t full = load_rss();
  load_wait_ms(SLEEP_MS);
  for (size_t i = 0; i < count; i += 2) block[i] = load_make(SIZE);
  const size_t now = load_rss();
  printf("%zu KiB more for %zu KiB, which a thread that sleeps has free\n",
         more_than(full, now) / LOAD_KIB, count / 2 * SIZE / LOAD_KIB);
  if (load_has_purger()) {
    CHECK_SAY(now < full + count / 2 * SIZE / 2, "%zu KiB more", (now - full) / LOAD_KIB);
  }
  signal_that(&may_end);
  CHECK(pthread_join(thread, NULL) == 0);
  for (size_t i = 0; i < count; i += 2) load_drop(block[i], SIZE);
  free(block);
}

// -- buffers that are freed --

static const size_t buffer_size[] = {6000, 12000, 40000, 65536, 65536, 131072, 200000};
#define BUFFERS (sizeof(buffer_size) / sizeof(buffer_size[0]))
#define BUFFER_THREADS 16
#define BUFFERS_LEFT (3 * LOAD_MIB) // 0.5 were measured, 9 if threads keep their pages

static pthread_barrier_t has_buffered, may_go_on;

static void* buffer(void* arg) {
  (void)arg;
  for (size_t round = 0; round < 2; round++) {
    void* p[BUFFERS];
    for (size_t i = 0; i < BUFFERS; i++) p[i] = load_make(buffer_size[i]);
    for (size_t i = 0; i < BUFFERS; i++) load_drop(p[i], buffer_size[i]);
    pthread_barrier_wait(&has_buffered);
    pthread_barrier_wait(&may_go_on);
  }
  return NULL;
}

static void free_the_buffers_of_sleepers(void) {
  pthread_t thread[BUFFER_THREADS];
  pthread_barrier_init(&has_buffered, NULL, BUFFER_THREADS + 1);
  pthread_barrier_init(&may_go_on, NULL, BUFFER_THREADS + 1);
  const size_t before = load_rss();
  for (size_t i = 0; i < BUFFER_THREADS; i++) {
    CHECK(pthread_create(&thread[i], NULL, &buffer, NULL) == 0);
  }
  for (size_t round = 0; round < 2; round++) {
    pthread_barrier_wait(&has_buffered);
    check_left(before, load_rss(), BUFFERS_LEFT);
    pthread_barrier_wait(&may_go_on);
  }
  for (size_t i = 0; i < BUFFER_THREADS; i++) CHECK(pthread_join(thread[i], NULL) == 0);
}

// -- blocks are exchanged --

typedef struct {
  void* block[SHELF];
  size_t size[SHELF];
} shelf_t;

static shelf_t shelves[THREADS];
static pthread_mutex_t shelf_mutex[THREADS];
static uint64_t end_ms;

// Exchange a block of any thread for one of this thread.
static void exchange(uint64_t* seed) {
  const size_t s = random_below(seed, THREADS);
  const size_t i = random_below(seed, SHELF);
  const size_t size = 16 + random_below(seed, random_below(seed, 16) == 0 ? 20000 : 600);
  void* const fresh = load_make(size);
  pthread_mutex_lock(&shelf_mutex[s]);
  void* const old = shelves[s].block[i];
  const size_t old_size = shelves[s].size[i];
  shelves[s].block[i] = fresh;
  shelves[s].size[i] = size;
  pthread_mutex_unlock(&shelf_mutex[s]);
  if (old != NULL) load_drop(old, old_size);
}

static void empty(size_t s, size_t step) {
  for (size_t i = 0; i < SHELF; i += step) {
    pthread_mutex_lock(&shelf_mutex[s]);
    void* const old = shelves[s].block[i];
    const size_t size = shelves[s].size[i];
    shelves[s].block[i] = NULL;
    pthread_mutex_unlock(&shelf_mutex[s]);
    if (old != NULL) load_drop(old, size);
  }
}

static void* sleeper(void* arg) {
  uint64_t seed = *(const uint64_t*)arg;
  while (load_now_ms() < end_ms) {
    const size_t count = random_below(&seed, 30000);
    for (size_t i = 0; i < count; i++) exchange(&seed);
    empty(random_below(&seed, THREADS), 1 + random_below(&seed, 20));
    // In the build with tiny constants the purge thread looks each 5 ms.
    const bool is_long = random_below(&seed, 4) == 0;
    load_wait_ms((long)random_below(&seed, is_long ? 1200 : 14));
  }
  return NULL;
}

static void exchange_among_sleepers(const load_t* load) {
  end_ms = load_now_ms() + load_scale(load, TIME_MS);
  for (size_t s = 0; s < THREADS; s++) pthread_mutex_init(&shelf_mutex[s], NULL);
  load_on_threads(THREADS, &sleeper, load->seed);
  for (size_t s = 0; s < THREADS; s++) empty(s, 1);
}

int main(int argc, char** argv) {
  const load_t load = load_begin(argc, argv);
  free_what_the_main_thread_has(&load);
  free_what_a_sleeper_has(&load);
  use_what_a_sleeper_has(&load);
  free_the_buffers_of_sleepers();
  exchange_among_sleepers(&load);
  return 0;
}
