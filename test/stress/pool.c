// SPDX-License-Identifier: MIT
// A pool of many threads of which one works at a time, while all others are blocked. If this fails,
// each thread of a pool sits on memory that the others need, and the program takes many times what
// it uses.
#include <pthread.h>

#include "load.h"

#define THREADS 200
#define WORK_BYTES (4 * LOAD_MIB)
// What a blocked thread may sit on, beside live blocks: a page of 64 KiB for each class it used.
// Nobody else can use these yet.
#define THREAD_BYTES_MAX (5 * LOAD_MIB)
#define KEPT_MAX 4096 // blocks a thread keeps while it is blocked
#define BLOCK_MAX 100000

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static size_t turn; // whose it is, under the lock
static size_t live, live_peak, rss_peak, rss_start;
static void* block[BLOCK_MAX];
static size_t size_of[BLOCK_MAX];
static load_t load;
static size_t every; // one block in so many is kept; 0: none

// Allocate, use, and free most of it. The caller has the turn.
static size_t work(uint64_t* state, void** kept, size_t* kept_size) {
  size_t count = 0, bytes = 0, kept_count = 0;
  while (bytes < WORK_BYTES && count < BLOCK_MAX) {
    const size_t size = 16 + random_below(state, (size_t)16 << random_below(state, 9));
    block[count] = malloc(size);
    CHECK_SAY(block[count] != NULL, "no memory for %zu bytes", size);
    load_fill(block[count], size, (uint8_t)size);
    size_of[count++] = size;
    bytes += size;
  }
  live += bytes;
  if (live > live_peak) live_peak = live;
  const size_t rss = load_rss();
  if (rss > rss_start + rss_peak) rss_peak = rss - rss_start;
  for (size_t i = 0; i < count; i++) {
    load_verify(block[i], size_of[i], (uint8_t)size_of[i]);
    if (every != 0 && i % every == 0 && kept_count < KEPT_MAX) {
      kept[kept_count] = block[i];
      kept_size[kept_count++] = size_of[i];
      continue;
    }
    free(block[i]);
    live -= size_of[i];
  }
  return kept_count;
}

typedef struct {
  void* kept[KEPT_MAX];
  size_t kept_size[KEPT_MAX];
} mine_t;

static mine_t mine[THREADS];

static void* take_turns(void* argument) {
  const size_t me = (uintptr_t)argument;
  uint64_t state = load.seed + me;
  pthread_mutex_lock(&lock);
  while (turn != me) pthread_cond_wait(&changed, &lock);
  const size_t count = work(&state, mine[me].kept, mine[me].kept_size);
  turn++;
  pthread_cond_broadcast(&changed);
  while (turn != THREADS) pthread_cond_wait(&changed, &lock);
  for (size_t i = 0; i < count; i++) {
    load_verify(mine[me].kept[i], mine[me].kept_size[i], (uint8_t)mine[me].kept_size[i]);
    free(mine[me].kept[i]);
    live -= mine[me].kept_size[i];
  }
  pthread_mutex_unlock(&lock);
  return NULL;
}

static void run(const char* name, size_t keep_one_in) {
  pthread_t thread[THREADS];
  every = keep_one_in;
  turn = live_peak = rss_peak = 0;
  for (uintptr_t i = 0; i < THREADS; i++) {
    CHECK_SAY(pthread_create(&thread[i], NULL, &take_turns, (void*)i) == 0, "thread %zu",
              (size_t)i);
  }
  for (size_t i = 0; i < THREADS; i++) pthread_join(thread[i], NULL);
  CHECK_SAY(live == 0, "%zu bytes live", live);
  const size_t each = (rss_peak > live_peak ? rss_peak - live_peak : 0) / THREADS;
  printf("%s: peak live %zu KiB, resident %zu KiB, %zu KiB for each thread\n", name,
         live_peak / LOAD_KIB, rss_peak / LOAD_KIB, each / LOAD_KIB);
  fflush(stdout);
  CHECK_SAY(each <= load_bound(THREAD_BYTES_MAX), "each thread sits on %zu KiB", each / LOAD_KIB);
}

int main(int argc, char** argv) {
  load = load_begin(argc, argv);
  rss_start = load_rss();
  run("nothing kept", 0);
  run("one block in 20 kept", 20);
  return 0;
}
