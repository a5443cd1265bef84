// SPDX-License-Identifier: MIT
// random.h - a small pseudo-random stream for sampling and placement; not for secrets.
//
// splitmix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number generators", 2014): one
// add and a mix, any seed is good, and distinct seeds give independent streams.
#ifndef MI_BASE_RANDOM_H
#define MI_BASE_RANDOM_H

#include "bits.h"

typedef struct mi_random_s {
  uint64_t state;
} mi_random_t;

static inline uint64_t mi_random_mix(uint64_t x) {
  x = (x ^ (x >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
  x = (x ^ (x >> 27)) * UINT64_C(0x94D049BB133111EB);
  return x ^ (x >> 31);
}

static inline uint64_t mi_random_next(mi_random_t* random) {
  random->state += UINT64_C(0x9E3779B97F4A7C15);
  return mi_random_mix(random->state);
}

// Return a number below `bound`, each as likely as any other up to 2^-32 (Lemire: "Fast random
// integer generation in an interval", 2019).
static inline uint32_t mi_random_below(mi_random_t* random, uint32_t bound) {
  return (uint32_t)(((mi_random_next(random) >> 32) * bound) >> 32);
}

#endif
