// programs.h - what the programs of this folder share: checks, figures, random numbers.
//
// Compiled with -DPLAIN they run on the malloc of the C library, whose figures are compared.
#ifndef MI_TEST_WASM_PROGRAMS_H
#define MI_TEST_WASM_PROGRAMS_H

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#if defined(PLAIN)
#define IS_OURS(p) ((p) != NULL)
#else
#include <mimalloc.h>
#define IS_OURS(p) mi_is_in_heap_region(p)
#endif

#define MIB ((size_t)1 << 20)

#define CHECK(condition)                                                                           \
  do {                                                                                             \
    if (!(condition)) {                                                                            \
      fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);                              \
      exit(1);                                                                                     \
    }                                                                                              \
  } while (0)

// Print a figure, as the test reads it.
static inline void show(const char* name, size_t value) { printf("%s %zu\n", name, value); }

// Return where memory ends, in KiB.
static inline size_t end_kib(void) { return (uintptr_t)sbrk(0) / 1024; }

static inline uint32_t random_below(uint32_t* state, uint32_t bound) {
  *state = *state * 1664525u + 1013904223u;
  return (uint32_t)(((uint64_t)*state * bound) >> 32);
}

#endif
