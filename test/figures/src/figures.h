// SPDX-License-Identifier: MIT
// figures.h - what the measured programs share: marks for the tracer, and exact memory figures.
//
// Nothing here allocates: files of /proc are read into static buffers with plain system calls.
#ifndef TEST_FIGURES_H
#define TEST_FIGURES_H

#include <fcntl.h>
#include <mimalloc.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../../lib/random.h"

#define FIGURES_KIB ((size_t)1024)
#define FIGURES_MIB (FIGURES_KIB * FIGURES_KIB)
#define FIGURES_GIB (FIGURES_KIB * FIGURES_MIB)

// A phase that trace.c counts: a breakpoint whose argument is the name, or NULL for its end. Costs
// no call and no system call of this program. Only for programs that run under trace.c.
#if defined(__x86_64__)
static inline void phase(const char* name) { __asm__ volatile("int3" : : "D"(name) : "memory"); }
#endif

// The compiler must believe that `p` is used.
static inline void figures_keep(void* p) { __asm__ volatile("" : : "r"(p) : "memory"); }

// The value of "Name:  123 kB" in a file of /proc, in KiB; ends the program when it is not there.
static inline size_t figures_proc_kib(const char* path, const char* name) {
  static char text[16384];
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  size_t length = 0;
  for (ssize_t n; fd >= 0 && (n = read(fd, text + length, sizeof(text) - 1 - length)) > 0;) {
    length += (size_t)n;
  }
  if (fd >= 0) close(fd);
  text[length] = 0;
  const char* at = strstr(text, name);
  if (at == NULL) {
    fprintf(stderr, "%s is not in %s\n", name, path);
    _exit(2);
  }
  return strtoul(at + strlen(name), NULL, 10);
}

// Resident memory of this process in KiB, counted page by page by the kernel, which that of
// test/lib/proc.h is not.
static inline size_t figures_rss_kib(void) {
  return figures_proc_kib("/proc/self/smaps_rollup", "\nRss:");
}

// The same without what is a file's: code that runs for the first time would look like waste.
static inline size_t figures_anonymous_kib(void) {
  return figures_proc_kib("/proc/self/smaps_rollup", "\nAnonymous:");
}

// The total of the line "pages : PEAK TOTAL CURRENT" of the statistics.
static inline void figures_find_pages(const char* line, void* total) {
  char peak[16], all[16];
  if (sscanf(line, " pages : %15s %15s", peak, all) != 2) return;
  if (strchr(peak, '.') != NULL || strchr(all, '.') != NULL) abort(); // rounded
  *(long*)total = atol(all);
}

// Pages that were made so far, for programs that are linked with the library.
static inline long figures_pages(void) {
  long total = -1;
  mi_stats_print_out(&figures_find_pages, &total);
  return total;
}

// Write every byte. The compiler must not leave it out.
static inline void figures_fill(void* p, size_t size) {
  memset(p, 0x5a, size);
  figures_keep(p);
}

#endif
