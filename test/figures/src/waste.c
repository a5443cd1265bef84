// SPDX-License-Identifier: MIT
// waste.c - how much memory is touched for the bytes that were asked for.
//
//   waste SIZE...
//
// For each size in a process of its own: allocate blocks until they are worth a megabyte (at least
// three, of more than 4 MiB one), write every byte asked for, and print "SIZE COUNT KIB", KIB being
// what resident memory grew by, page by page, without the blocks' own bookkeeping taken out. An
// allocation of another class goes first, so that what is set up once is not counted.
#include <sys/wait.h>

#include "figures.h"

static size_t fill_with(size_t size) {
  const size_t least = size > 4 * FIGURES_MIB ? 1 : 3;
  const size_t count = size > FIGURES_MIB / 3 ? least : (FIGURES_MIB + size - 1) / size;
  for (size_t i = 0; i < count; i++) {
    void* const p = malloc(size);
    if (p == NULL) _exit(1);
    figures_fill(p, size);
  }
  return count;
}

int main(int argc, char** argv) {
  for (int i = 1; i < argc; i++) {
    const size_t size = strtoul(argv[i], NULL, 10);
    fflush(stdout);
    const pid_t child = fork();
    if (child == 0) {
      figures_keep(malloc(size > 200 ? 50 : 20000));
      figures_anonymous_kib();
      const size_t before = figures_anonymous_kib();
      const size_t count = fill_with(size);
      printf("%zu %zu %zu\n", size, count, figures_anonymous_kib() - before);
      fflush(stdout);
      _exit(0);
    }
    int status = 1;
    if (child < 0 || waitpid(child, &status, 0) != child || status != 0) return 1;
  }
  return 0;
}
