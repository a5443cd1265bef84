// SPDX-License-Identifier: MIT
// growth.c - what operations cost in a heap of a given size, for callgrind.
//
//   growth PATTERN MIB|THREADS
//
// The patterns, in a heap of so many MiB of addresses, hardly any of them touched:
//   half      blocks of 64 KiB, every second was freed: allocate 1 MiB and free it; three times as
//             much each second time, so that the place of the last one does not serve
//   near      the same heap: 1 MiB to 2 MiB, so that it serves
//   holes     blocks of 600 KB, every second was freed: allocate 5 MiB and free it, so too
//   random    blocks of 1 to 200 KB, each replaced once: replace one at random
//   pair      the same heap: allocate 1 MiB and free it, so too
//   aligned   blocks of 4 KiB at multiples of 256 KiB: replace one at random, each second time at a
//             multiple of 512 KiB, so that the place of the last one does not serve
//   same      no heap: allocate so many MiB and free it
//   thin      blocks of 1 to 200 KB, three of four were freed: free one at random
//   left      blocks of 8 KiB of a thread that ended: free one of them, allocate another size
//   crowd     beside so many threads that sleep: 2,000 blocks of 16 to 3,000 bytes, replaced often:
//             replace twenty of them at random
//   requests  so many threads: each one allocates 1,000 blocks of 16 to 512 bytes, frees them, and
//             waits, often
// `measured` is called twice with OPERATIONS: to warm up, and to be counted. With requests each
// thread calls it once, for its last one.
#include <pthread.h>

#include "figures.h"

#define OPERATIONS 200
#define CROWD_BLOCKS 2000
#define CROWD_WORK 300000 // replacements until the thread counts as busy
#define REQUEST_BLOCKS 1000
#define REQUESTS 40 // until portions are as long as they get

static void** block;
static size_t count;
static uint64_t state = 3;

static size_t any(size_t below) { return random_below(&state, below); }

static size_t any_size(void) { return 1000 + any(200000); }

static void same(size_t size) {
  void* const p = malloc(size);
  figures_keep(p);
  free(p);
}

static size_t any_short(void) { return 16 + any(3000); }

static void pair(size_t size) {
  static size_t turn;
  same(turn++ % 2 == 0 ? 3 * size : size);
}

static void replace(size_t i, void* p) {
  free(block[i]);
  block[i] = p;
}

static void drop(void) {
  const size_t i = any(count);
  free(block[i]);
  block[i] = block[--count];
}

static void request(void) {
  static _Thread_local uint64_t seed = 5;
  static _Thread_local void* part[REQUEST_BLOCKS];
  for (size_t i = 0; i < REQUEST_BLOCKS; i++) part[i] = malloc(16 + random_below(&seed, 497));
  for (size_t i = REQUEST_BLOCKS; i-- > 0;) free(part[i]);
}

void measured(char kind);

__attribute__((noinline, noipa)) void measured(char kind) {
  if (kind == 'q') {
    request();
    return;
  }
  for (size_t i = 0; i < OPERATIONS; i++) {
    switch (kind) {
      case 'h':
        pair(FIGURES_MIB);
        break;
      case 'o':
        pair(5 * FIGURES_MIB);
        break;
      case 'r':
        replace(any(count), malloc(any_size()));
        break;
      case 'p':
        pair(FIGURES_MIB);
        break;
      case 'a':
        replace(any(count), aligned_alloc((i % 2 + 1) * 256 * FIGURES_KIB, 4096));
        break;
      case 'n':
        same(FIGURES_MIB + any(FIGURES_MIB));
        break;
      case 't':
        drop();
        break;
      case 's':
        same(count);
        break;
      case 'c':
        for (size_t k = 0; k < 20; k++) replace(any(count), malloc(any_short()));
        break;
      default:
        replace(any(count), malloc(7000));
        break;
    }
  }
}

static void fill(size_t bytes, size_t size, size_t alignment) {
  count = bytes / (alignment > size ? alignment : size);
  block = calloc(count, sizeof(block[0]));
  for (size_t i = 0; i < count; i++) {
    block[i] = alignment > 1 ? aligned_alloc(alignment, size) : malloc(size);
    if (block[i] == NULL) _exit(3);
  }
}

static void half(size_t bytes, size_t size) {
  fill(bytes, size, 1);
  for (size_t i = 0; i < count; i += 2) free(block[i]);
}

static void fill_random(size_t bytes) {
  count = bytes / 101000;
  block = calloc(count, sizeof(block[0]));
  for (size_t i = 0; i < count; i++) block[i] = malloc(any_size());
  for (size_t i = 0; i < count; i++) replace(any(count), malloc(any_size()));
}

static void* leave(void* bytes) {
  fill((size_t)bytes, 8192, 1);
  return NULL;
}

static void* serve(void* unused) {
  for (size_t i = 0; i < REQUESTS; i++) {
    request();
    usleep(1000);
  }
  measured('q');
  return unused;
}

static void serve_all(size_t threads) {
  pthread_t thread[threads];
  for (size_t i = 0; i < threads; i++) {
    if (pthread_create(&thread[i], NULL, &serve, NULL) != 0) _exit(3);
  }
  for (size_t i = 0; i < threads; i++) pthread_join(thread[i], NULL);
}

static pthread_barrier_t gathered;

static void* sleep_on(void* unused) {
  for (size_t size = 16; size < 2000; size += 100) figures_keep(malloc(size));
  pthread_barrier_wait(&gathered);
  pause();
  return unused;
}

static void gather(unsigned threads) {
  pthread_barrier_init(&gathered, NULL, threads + 1);
  for (unsigned i = 0; i < threads; i++) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, &sleep_on, NULL) != 0) _exit(3);
  }
  pthread_barrier_wait(&gathered);
  fill(CROWD_BLOCKS * 1500, 1500, 1);
  for (size_t i = 0; i < CROWD_WORK; i++) replace(any(count), malloc(any_short()));
}

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  const size_t bytes = strtoul(argv[2], NULL, 10) * FIGURES_MIB;
  const char* const pattern = argv[1];
  char kind = pattern[0];
  pthread_t thread;
  if (strcmp(pattern, "half") == 0 || kind == 'n') {
    half(bytes, 64 * FIGURES_KIB);
  } else if (strcmp(pattern, "holes") == 0) {
    kind = 'o';
    half(bytes, 600000);
  } else if (kind == 'a') {
    fill(bytes, 4096, 256 * FIGURES_KIB);
  } else if (kind == 's') {
    count = bytes;
  } else if (strcmp(pattern, "requests") == 0) {
    serve_all(bytes / FIGURES_MIB);
    _exit(0);
  } else if (kind == 'c') {
    gather((unsigned)(bytes / FIGURES_MIB));
  } else if (kind == 'l') {
    if (pthread_create(&thread, NULL, &leave, (void*)bytes) != 0) return 3;
    pthread_join(thread, NULL);
  } else {
    fill_random(bytes);
  }
  for (size_t left = count / 4; kind == 't' && count > left;) drop();
  measured(kind);
  measured(kind);
  _exit(0); // there may be threads that sleep
}
