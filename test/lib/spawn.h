// SPDX-License-Identifier: MIT
// spawn.h - run this test program again, as a child with other arguments and environment.
//
// For tests of what happens once per process: the environment, the first call, messages at the
// end.
#ifndef TEST_SPAWN_H
#define TEST_SPAWN_H

#include <stdbool.h>
#include <stddef.h>

#define SPAWN_OUTPUT_MAX 65536

typedef struct spawn_result_s {
  int exit_status; // -1 when a signal ended the child
  int signal; // 0 when it exited
  size_t length;
  char output[SPAWN_OUTPUT_MAX]; // standard output and error, terminated
} spawn_result_t;

// Runs this program with `argument`, and `environment` (a NULL-terminated list of "NAME=value",
// or NULL) added to its own without any MIMALLOC_ variable. False when the program cannot be
// started on this machine: skip the test.
bool spawn_self(const char* argument, const char* const environment[], spawn_result_t* result);

// The same for the program at `path`.
bool spawn_program(const char* path, const char* argument, const char* const environment[],
                   spawn_result_t* result);

// The file of this program; false when that cannot be found out.
bool spawn_own_path(char* path, size_t capacity);

// Runs `body` in a forked child. False when fork fails.
bool spawn_fork(void (*body)(void), spawn_result_t* result);

// In a child of fork that ends without `exit`: which lines ran is written down, for coverage.
void spawn_keep_coverage(void);

// How often `text` occurs in the output.
size_t spawn_count(const spawn_result_t* result, const char* text);

#endif
