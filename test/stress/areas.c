// SPDX-License-Identifier: MIT
// Buffers grow by realloc, go, and grow again. If this fails, the process is mapped in ever more
// areas, until the kernel's limit of 65,530 is reached: then no thread starts and malloc fails.
#include "proc.h"
#include "load.h"

#define BUFFERS 16
#define BUFFER_MAX (4 * LOAD_MIB)
#define STEPS ((size_t)20000)
#define TIME_MS 5000
#define AREAS_MAX 1000

int main(int argc, char** argv) {
  load_t load = load_begin(argc, argv);
  uint64_t state = load.seed;
  uint8_t* buffer[BUFFERS] = {NULL};
  size_t size[BUFFERS] = {0};
  size_t most = 0;
  const uint64_t deadline_ms = load_now_ms() + TIME_MS;
  for (size_t step = 0; step < load_scale(&load, STEPS) && load_now_ms() < deadline_ms; step++) {
    const size_t i = random_below(&state, BUFFERS);
    if (size[i] > BUFFER_MAX) {
      load_verify(buffer[i], 200, (uint8_t)i);
      free(buffer[i]);
      buffer[i] = NULL;
      size[i] = 0;
    }
    const size_t old = size[i];
    size[i] += old * (5 + random_below(&state, 96)) / 100 + 200;
    buffer[i] = (uint8_t*)realloc(buffer[i], size[i]);
    CHECK_SAY(buffer[i] != NULL, "no memory for %zu bytes", size[i]);
    if (old == 0) load_fill(buffer[i], 200, (uint8_t)i);
    memset(buffer[i] + (old == 0 ? 200 : old), 1, size[i] - (old == 0 ? 200 : old));
    if (step % 500 != 0) continue;
    const size_t now = proc_areas();
    if (now > most) most = now;
  }
  for (size_t i = 0; i < BUFFERS; i++) free(buffer[i]);
  printf("FIGURE mapped areas while %d buffers grow: %zu (bound %d)\n", BUFFERS, most, AREAS_MAX);
  CHECK_SAY(most < AREAS_MAX, "%zu areas are mapped", most);
  return 0;
}
