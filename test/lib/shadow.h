// SPDX-License-Identifier: MIT
// shadow.h - what a block must be, as random sequences of calls know it: the shadow of the block
// that the library has (test/api/property.c, test/fuzz/calls.c).
//
// Nothing here fails: who asks is told the fact that does not hold, and says what led there.
#ifndef TEST_SHADOW_H
#define TEST_SHADOW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct shadow_s {
  uint8_t* p; // NULL: none
  size_t size; // what was asked for
  size_t filled; // bytes that hold the pattern
  size_t alignment; // of p + offset
  size_t offset;
  uint64_t pattern;
  bool is_zero_behind; // was allocated zero, and only resized so
  // For the user.
  bool is_deferred;
  size_t home;
} shadow_t;

// Larger blocks are written and looked at in places only: their first and last bytes, and one in
// each OS page between. All of each, unless somebody writes a bound here.
extern size_t shadow_dense_max;

// A block was just allocated or resized, and `kept` bytes of the pattern must be in it. NULL if
// what is promised holds; then everything that may be written is, with the new pattern.
const char* shadow_accept(shadow_t* b, size_t kept, uint64_t pattern);

// NULL if it is as it was left.
const char* shadow_look(const shadow_t* b);

#endif
