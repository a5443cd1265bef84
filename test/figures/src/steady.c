// SPDX-License-Identifier: MIT
// steady.c - a single-threaded program in steady state, for trace.c.
//
//   steady SIZE [threaded]
//
// Some pages full of blocks of one size, of which random ones are freed and allocated anew, round
// after round. Every fourth block and the last stay for ever, so that no page ever becomes empty.
// After some rounds to warm up, one round is a phase. Prints how many pages were made in it. With
// "threaded" a second thread has existed before: a control, as then locked instructions must be
// seen.
#include <pthread.h>

#include "figures.h"

#define BLOCK_MAX 40000
#define CHANGE_MAX 8000
#define WARM_ROUNDS 12

static void* block[BLOCK_MAX];
static uint32_t victim[CHANGE_MAX];
static bool is_chosen[BLOCK_MAX];
static uint64_t state = 88172645463325252u;

static void choose(size_t count, size_t changes) {
  memset(is_chosen, 0, count);
  for (size_t i = 0; i < changes;) {
    const uint32_t v = (uint32_t)(random_next(&state) % count);
    if (v % 4 == 0 || v + 3 >= count || is_chosen[v]) continue;
    is_chosen[v] = true;
    victim[i++] = v;
  }
}

static void change(size_t changes, size_t size) {
  for (size_t i = 0; i < changes; i++) free(block[victim[i]]);
  for (size_t i = 0; i < changes; i++) block[victim[i]] = malloc(size);
}

static void run(size_t size) {
  const size_t slices = size <= 1024 ? 2 : size <= 65536 ? 16 : 32;
  size_t count = slices * 65536 * 5 / 2 / size;
  if (count > BLOCK_MAX) count = BLOCK_MAX;
  if (count < 8) count = 8;
  const size_t changes = count / 2 < CHANGE_MAX ? count / 2 : CHANGE_MAX;
  for (size_t i = 0; i < count; i++) block[i] = malloc(size);
  for (size_t round = 0; round < WARM_ROUNDS; round++) {
    choose(count, changes);
    change(changes, size);
  }
  choose(count, changes);
  const long before = figures_pages();
  phase("steady");
  change(changes, size);
  phase(NULL);
  printf("pages %ld made %ld\n", figures_pages(), figures_pages() - before);
  for (size_t i = 0; i < count; i++) free(block[i]);
}

static void* nothing(void* argument) { return argument; }

int main(int argc, char** argv) {
  if (argc > 2) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, &nothing, NULL) != 0) return 1;
    pthread_join(thread, NULL);
  }
  run(argc > 1 ? strtoul(argv[1], NULL, 10) : 64);
  return 0;
}
