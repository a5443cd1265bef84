// SPDX-License-Identifier: MIT
// fuzz.c - see fuzz.h.
#include "fuzz.h"

#include <stdio.h>
#include <stdlib.h>

_Noreturn void fuzz_fail(const char* file, int line, const char* text) {
  fprintf(stderr, "%s:%d: %s\n", file, line, text);
  abort();
}
