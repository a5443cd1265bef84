// SPDX-License-Identifier: MIT
// few.c - a small program, as most tools of a shell are: a hundred short blocks, one that grows, a
// table of zeros, a buffer; and all is freed.
#include "figures.h"

int main(void) {
  void* block[100];
  for (size_t i = 0; i < 100; i++) figures_keep(block[i] = malloc(32));
  figures_keep(block[0] = realloc(block[0], 100));
  void* const table = calloc(50, 20);
  void* const buffer = malloc(4096);
  figures_keep(table);
  figures_keep(buffer);
  free(buffer);
  free(table);
  for (size_t i = 0; i < 100; i++) free(block[i]);
  return 0;
}
