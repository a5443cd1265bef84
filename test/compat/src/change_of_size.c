// SPDX-License-Identifier: MIT
// change_of_size.c - 56 MB of small blocks are freed but for every fiftieth, then 56 MB of larger
// ones are taken: in a cgroup of 80 MiB, what is free must serve them before fresh memory is
// touched.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TOTAL 56000000
#define LARGE 400

int main(void) {
  static char* small[TOTAL / 1000];
  unsigned seed = 1;
  int count = 0;
  for (size_t sum = 0; sum < TOTAL; count++) {
    seed = seed * 1664525 + 1013904223;
    const size_t size = 1000 + (seed >> 10) % 7001;
    small[count] = memset(malloc(size), 1, size);
    sum += size;
  }
  for (int i = count - 1; i > 0; i--) { // in random order
    seed = seed * 1664525 + 1013904223;
    const int j = (int)((seed >> 8) % (unsigned)(i + 1));
    char* const other = small[i];
    small[i] = small[j];
    small[j] = other;
  }
  for (int i = 0; i < count; i++) {
    if (i % 50 != 0) free(small[i]);
  }
  for (int i = 0; i < LARGE; i++) {
    if (memset(malloc(TOTAL / LARGE), 1, TOTAL / LARGE) == NULL) return 1;
  }
  puts("finished");
  return 0;
}
