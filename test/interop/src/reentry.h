// SPDX-License-Identifier: MIT
// reentry.h - what reentry.c and early.c share: allocate a bit of everything and look at it again.
#ifndef TEST_REENTRY_H
#define TEST_REENTRY_H

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../../lib/check.h"

#define CHURN_BLOCKS 60

static inline void churn(size_t seed) {
  unsigned char* block[CHURN_BLOCKS];
  size_t size[CHURN_BLOCKS];
  for (size_t i = 0; i < CHURN_BLOCKS; i++) {
    size[i] = 1 + (seed * 7919 + i * 104729) % (i % 20 == 0 ? 3000000 : 4000);
    block[i] = (unsigned char*)malloc(size[i]);
    if (block[i] == NULL) FAIL("no memory");
    block[i][0] = block[i][size[i] - 1] = (unsigned char)i;
  }
  for (size_t i = 0; i < CHURN_BLOCKS; i++) {
    if (block[i][0] != i || block[i][size[i] - 1] != i) FAIL("a block has changed");
    free(block[i]);
  }
}

// How often the fork handlers of early.c ran.
extern int early_prepared, early_in_parent, early_in_child;

#endif
