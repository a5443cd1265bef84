// SPDX-License-Identifier: MIT
// few.c - a small program, as most tools of a shell are: a hundred short blocks, one that grows, a
// table of zeros, buffers of several sizes; all is freed. Then it reads lines for a while.
#include "figures.h"

#define LINES 200000

int main(void) {
  void* block[100];
  for (size_t i = 0; i < 100; i++) figures_keep(block[i] = malloc(32));
  figures_keep(block[0] = realloc(block[0], 100));
  void* const table = calloc(50, 20);
  figures_keep(table);
  for (size_t size = 200; size <= 4096; size += 100) {
    void* const buffer = malloc(size);
    figures_keep(buffer);
    free(buffer);
  }
  free(table);
  for (size_t i = 0; i < 100; i++) free(block[i]);
  for (size_t i = 0; i < LINES; i++) {
    void* const line = malloc(i % 80 + 1);
    figures_keep(line);
    free(line);
  }
  return 0;
}
