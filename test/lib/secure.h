// SPDX-License-Identifier: MIT
// secure.h - whether the library that a test runs with is a secure build, which has tables of what
// each block is (src/core/common/mark.h): they take a sixteenth of the memory of blocks.
#ifndef TEST_SECURE_H
#define TEST_SECURE_H

#include <stdbool.h>
#include <string.h>

#include <mimalloc.h>

static inline void test_hear_level(const char* text, void* arg) {
  const char* const level = strstr(text, "secure level: ");
  if (level != NULL) *(bool*)arg = level[strlen("secure level: ")] != '0';
}

static inline bool test_is_secure(void) {
  bool is_secure = false;
  mi_options_print_out(&test_hear_level, &is_secure);
  return is_secure;
}

#endif
