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
#include <string.h>
#include <unistd.h>

#include "check.h"

typedef enum proc_memory_e { PROC_MAPPED, PROC_RESIDENT } proc_memory_t;

// On Windows in test/windows/posix/posix.c; what is charged is in the place of what is mapped.
#if defined(_WIN32) // tidy: allow os-macro (a fact of the system)

size_t proc_memory(proc_memory_t which);
size_t proc_areas(void);

#else

// Bytes, from an open file: for who must not open one any more. (An emulator of larger OS pages
// hands on the kernel's figures, so one in pages, as those of statm, would be too large.)
static inline size_t proc_status(int status, proc_memory_t which) {
  char text[4096] = {0};
  CHECK(pread(status, text, sizeof(text) - 1, 0) > 0);
  const char* const label = which == PROC_RESIDENT ? "\nVmRSS:" : "\nVmSize:";
  const char* const line = strstr(text, label);
  CHECK(line != NULL);
  return strtoul(line + strlen(label), NULL, 10) * 1024; // kB
}

static inline int proc_open_status(void) { return open("/proc/self/status", O_RDONLY | O_CLOEXEC); }

static inline size_t proc_memory(proc_memory_t which) {
  const int status = proc_open_status();
  const size_t bytes = proc_status(status, which);
  close(status);
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
