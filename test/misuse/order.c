// SPDX-License-Identifier: MIT
// order.c - prints where the first blocks of a process lie: the address of the first one, then the
// distance of each from the one before, in units of 16 bytes. scripts/misuse.py --random reads it.
#include <stdio.h>
#include <stdlib.h>

int main(void) {
  enum { COUNT = 64 };
  static char* p[COUNT];
  volatile size_t size = 1000; // nobody else in a small program has blocks of this size
  for (size_t i = 0; i < COUNT; i++) p[i] = (char*)malloc(size);
  char line[COUNT * 24];
  int used = snprintf(line, sizeof(line), "%zu", (size_t)p[0]);
  for (size_t i = 1; i < COUNT; i++) {
    used += snprintf(line + used, sizeof(line) - (size_t)used, " %td", (p[i] - p[i - 1]) / 16);
  }
  puts(line);
  return 0;
}
