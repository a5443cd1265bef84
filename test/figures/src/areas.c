// SPDX-License-Identifier: MIT
// areas.c - how many mapped areas a large heap with random frees has; the kernel allows 65,530.
//
//   areas GIB
//
// Blocks of 64 KiB to 16 MiB, some of 1 GiB, of which only the first OS page is touched, until they
// span GIB; then random ones are freed, replaced, grown and shrunk while time passes, so that
// memory goes back to the system as well. Prints the highest "areas N" seen, resident memory, and
// the areas when all is free.
#include <errno.h>
#include <time.h>

#include "../../lib/proc.h"
#include "figures.h"

#define BLOCK_MAX 400000
#define CHANGES 60000

static void* block[BLOCK_MAX];
static size_t size_of[BLOCK_MAX];
static size_t block_count, live;
static uint64_t state = 88172645463325252u;

static size_t draw_size(void) {
  const uint64_t r = random_next(&state);
  if (r % 20000 == 0) return FIGURES_GIB;
  const size_t top = 64 * FIGURES_KIB << (r >> 32) % 8;
  return top + random_next(&state) % top;
}

static void put(size_t i, void* p, size_t size) {
  if (p == NULL) {
    fprintf(stderr, "no memory for %zu bytes, %zu MiB live: %d\n", size, live / FIGURES_MIB, errno);
    _exit(1);
  }
  *(volatile char*)p = 1;
  block[i] = p;
  size_of[i] = size;
  live += size;
}

static void drop(size_t i) {
  free(block[i]);
  live -= size_of[i];
  block[i] = NULL;
}

static void resize(size_t i) {
  const size_t size = draw_size();
  const size_t old = size_of[i];
  void* const p = realloc(block[i], size);
  live -= old;
  put(i, p, size);
}

static void wait_ms(long ms) {
  const struct timespec time = {ms / 1000, ms % 1000 * 1000000};
  nanosleep(&time, NULL);
}

int main(int argc, char** argv) {
  const size_t wanted = (argc > 1 ? strtoul(argv[1], NULL, 10) : 20) * FIGURES_GIB;
  while (live < wanted && block_count < BLOCK_MAX) {
    const size_t size = draw_size();
    put(block_count++, malloc(size), size);
  }
  size_t most = proc_areas();
  printf("blocks %zu, span %zu MiB, areas when filled %zu\n", block_count, live / FIGURES_MIB,
         most);
  for (size_t change = 0; change < CHANGES; change++) {
    const size_t i = random_next(&state) % block_count;
    if (block[i] != NULL && change % 8 == 7)
      resize(i);
    else if (block[i] != NULL)
      drop(i);
    else if (live < wanted) {
      const size_t size = draw_size();
      put(i, malloc(size), size);
    }
    if (change % (CHANGES / 60) == 0) {
      wait_ms(50); // lets delayed work of the allocator become due
      const size_t now = proc_areas();
      if (now > most) most = now;
    }
  }
  printf("resident %zu MiB, live %zu MiB\n", figures_rss_kib() / 1024, live / FIGURES_MIB);
  for (size_t i = 0; i < block_count; i++) {
    if (block[i] != NULL) drop(i);
  }
  printf("areas %zu, at the end %zu\n", most, proc_areas());
  return 0;
}
