// SPDX-License-Identifier: MIT
// outcome.h - how a program without cmocka says that it failed, or that it cannot do its work here.
// Deliberately absent: anything that allocates.
#ifndef TEST_OUTCOME_H
#define TEST_OUTCOME_H

#include <stdio.h>
#include <unistd.h>

// A fact that must hold. Says what it knows, without allocating, and ends the program.
#define LOAD_CHECK(fact, ...)                                                                      \
  do {                                                                                             \
    if (!(fact)) {                                                                                 \
      dprintf(2, "%s:%d: failed: %s: ", __FILE__, __LINE__, #fact);                                \
      dprintf(2, __VA_ARGS__);                                                                     \
      dprintf(2, "\n");                                                                            \
      _exit(1);                                                                                    \
    }                                                                                              \
  } while (0)

// Ends a program that cannot do its work here, and says why: the runner takes status 77 for that.
#define LOAD_SKIP(reason)                                                                          \
  do {                                                                                             \
    dprintf(1, "%s\n", reason);                                                                    \
    _exit(77);                                                                                     \
  } while (0)

#endif
