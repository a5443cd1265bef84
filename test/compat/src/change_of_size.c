// SPDX-License-Identifier: MIT
// change_of_size.c - 48 MB of blocks are taken and freed, again and again, each time in other
// sizes: in a cgroup of 80 MiB, what was freed must serve the next ones or go back before fresh
// memory is touched.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TOTAL 48000000
#define PHASES 12

int main(void) {
  static char* block[TOTAL / 64];
  static const size_t least[] = {64, 40000, 1000, 1000000};
  static const size_t most[] = {512, 200000, 30000, 3000000};
  unsigned seed = 1;
  for (int phase = 0; phase < PHASES; phase++) {
    const size_t from = least[phase % 4], range = most[phase % 4] - from + 1;
    int count = 0;
    for (size_t sum = 0; sum < TOTAL; count++) {
      seed = seed * 1664525 + 1013904223;
      const size_t size = from + (seed >> 8) % range;
      block[count] = memset(malloc(size), 1, size);
      sum += size;
    }
    for (int i = 0; i < count; i++) free(block[i]);
  }
  puts("finished");
  return 0;
}
