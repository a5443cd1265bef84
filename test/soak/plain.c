// SPDX-License-Identifier: MIT
// plain.c - in place of own.c in a program that is linked with no allocator: what is preloaded is
// the malloc, and all of it.
#include "soak.h"

#include <malloc.h>

const soak_phase_t soak_own_phases[] = {{NULL, NULL, 0}};
const size_t soak_own_phase_count = 0;

void soak_own_open(void) {}

void soak_collect(bool is_forced) {
  if (is_forced) malloc_trim(0);
}

size_t soak_committed(void) { return 0; } // nobody to ask
