// SPDX-License-Identifier: MIT
// proc.h - what the kernel says of this process (proc(5)): address space, resident memory, mapped
// areas. Nothing here allocates; what cannot be read ends the program.
//
// Resident memory may be off by some OS pages for each processor: the kernel adds up its counters
// only now and then. Where a page counts, see test/figures/src/figures.h.
#ifndef TEST_PROC_H
#define TEST_PROC_H

#include <fcntl.h>
#include <stddef.h>
#include <stdlib.h>
#include <unistd.h>

#include "check.h"

typedef enum proc_memory_e { PROC_MAPPED, PROC_RESIDENT } proc_memory_t;

// On Windows in test/windows/posix/posix.c; what is charged is in the place of what is mapped.
#if defined(_WIN32) // tidy: allow os-macro (a fact of the system)

size_t proc_memory(proc_memory_t which);
size_t proc_areas(void);

#else

// Bytes, from an open file: for who must not open one any more.
static inline size_t proc_statm(int statm, proc_memory_t which) {
  char text[128] = {0};
  CHECK(pread(statm, text, sizeof(text) - 1, 0) > 0);
  char* at = text;
  size_t pages = strtoul(at, &at, 10);
  if (which == PROC_RESIDENT) pages = strtoul(at, &at, 10);
  return pages * (size_t)sysconf(_SC_PAGESIZE);
}

static inline int proc_open_statm(void) { return open("/proc/self/statm", O_RDONLY | O_CLOEXEC); }

static inline size_t proc_memory(proc_memory_t which) {
  const int statm = proc_open_statm();
  const size_t bytes = proc_statm(statm, which);
  close(statm);
  return bytes;
}

// How many mapped areas there are: the kernel allows 65,530.
static inline size_t proc_areas(void) {
  char text[4096];
  size_t lines = 0;
  const int maps = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
  for (ssize_t got; (got = read(maps, text, sizeof(text))) > 0;) {
    for (ssize_t i = 0; i < got; i++) lines += text[i] == '\n';
  }
  close(maps);
  CHECK(lines > 0);
  return lines;
}

#endif

static inline size_t proc_mapped(void) { return proc_memory(PROC_MAPPED); }
static inline size_t proc_resident(void) { return proc_memory(PROC_RESIDENT); }

#endif
