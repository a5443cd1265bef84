// SPDX-License-Identifier: MIT
// random.h - the random numbers of all tests: the same seed gives the same ones again.
//
// splitmix64 (Steele, Lea, Flood 2014): any seed will do, 0 too, and seeds that differ by little
// give streams that have nothing in common.
#ifndef TEST_RANDOM_H
#define TEST_RANDOM_H

#include <stddef.h>
#include <stdint.h>

static inline uint64_t random_next(uint64_t* state) {
  uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);
  z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
  z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
  return z ^ z >> 31;
}

static inline size_t random_below(uint64_t* state, size_t end) {
  return (size_t)(random_next(state) % end);
}

// A size with every magnitude below 2^`bits` equally likely.
static inline size_t random_size(uint64_t* state, unsigned bits) {
  const size_t width = random_below(state, bits + 1);
  return width == 0 ? 0 : (size_t)(random_next(state) >> (64 - width));
}

#endif
