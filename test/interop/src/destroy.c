// SPDX-License-Identifier: MIT
// destroy.c - a program that calls the library by name, and ends it before it ends itself: prints
// the bytes that are mapped before its first block, with its blocks, and after.
#include <mimalloc.h>
#include <stdio.h>
#include <string.h>

// Only what no file is behind: memory that somebody asked for.
static unsigned long long mapped(void) {
  unsigned long long sum = 0;
  char line[512];
  FILE* const maps = fopen("/proc/self/maps", "r");
  if (maps == NULL) return 0;
  while (fgets(line, sizeof(line), maps) != NULL) {
    unsigned long long from, to;
    if (strchr(line, '/') == NULL && sscanf(line, "%llx-%llx", &from, &to) == 2) sum += to - from;
  }
  fclose(maps);
  return sum;
}

int main(void) {
  static void* blocks[1000];
  mapped(); // what libc needs for that stays
  const unsigned long long before = mapped();
  for (size_t i = 0; i < 1000; i++) {
    blocks[i] = mi_malloc(i * 100);
    if (blocks[i] == NULL) return 1;
    memset(blocks[i], 1, i * 100);
  }
  const unsigned long long with = mapped();
  mi_process_done();
  printf("%llu %llu %llu\n", before, with, mapped());
  for (size_t i = 0; i < 1000; i++) mi_free(blocks[i]);
  void* const late = mi_malloc(100);
  if (late == NULL) return 1;
  memset(late, 1, 100);
  mi_free(late);
  return 0;
}
