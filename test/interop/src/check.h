// SPDX-License-Identifier: MIT
// check.h - a check that says where it failed and lets the program go on; `failures` is its status.
#ifndef INTEROP_CHECK_H
#define INTEROP_CHECK_H

#include <stdio.h>

static int failures = 0;

#define CHECK(condition)                                                                           \
  do {                                                                                             \
    if (!(condition)) {                                                                            \
      printf("%s:%d: %s\n", __FILE__, __LINE__, #condition);                                       \
      failures++;                                                                                  \
    }                                                                                              \
  } while (0)

#endif
