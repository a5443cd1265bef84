// SPDX-License-Identifier: MIT
// locked.c - mlockall, as memcached -k, chronyd and JVMs do it, before anything was allocated. What
// is locked must be what is used. Usage: locked LIMIT_MIB
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static long resident_kib(void) {
  char line[256];
  long kib = -1;
  FILE* const file = fopen("/proc/self/status", "r");
  while (file != NULL && fgets(line, sizeof(line), file) != NULL) {
    if (sscanf(line, "VmRSS: %ld", &kib) == 1) break;
  }
  if (file != NULL) fclose(file);
  return kib;
}

int main(int argc, char** argv) {
  if (mlockall(MCL_CURRENT | MCL_FUTURE) != 0) {
    perror("mlockall");
    return 1;
  }
  for (int i = 1; i < 3000; i++) {
    char* volatile p = malloc((size_t)i);
    if (p == NULL) return 1;
    free(memset(p, 1, (size_t)i));
  }
  const long kib = resident_kib();
  printf("FIGURE %.1f MiB locked\n", (double)kib / 1024);
  const int fits = argc > 1 && kib < atol(argv[1]) * 1024;
  puts(fits ? "little is locked" : "too much is locked");
  return fits ? 0 : 1;
}
