// SPDX-License-Identifier: MIT
// few.c - a small program: it allocates a hundred short blocks, makes one longer, and frees them.
#include "figures.h"

int main(void) {
  void* block[100];
  for (size_t i = 0; i < 100; i++) figures_keep(block[i] = malloc(32));
  figures_keep(block[0] = realloc(block[0], 100));
  for (size_t i = 0; i < 100; i++) free(block[i]);
  return 0;
}
