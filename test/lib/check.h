// SPDX-License-Identifier: MIT
// check.h - a fact that must hold: else the program says which one does not, and ends. And how a
// program says that it cannot do its work here.
//
// For programs without cmocka, and for children of those with it. Nothing here allocates or takes a
// lock, so that a check may stand anywhere, also in what malloc calls.
#ifndef TEST_CHECK_H
#define TEST_CHECK_H

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

__attribute__((noreturn, cold, format(printf, 4, 5))) static inline void
check_failed(const char* file, int line, const char* fact, const char* format, ...) {
  char text[1024];
  snprintf(text, sizeof(text) / 2, "%s:%d: failed: %s", file, line, fact);
  size_t length = strlen(text);
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text + length, sizeof(text) - 1 - length, format, arguments);
  va_end(arguments);
  length = strlen(text);
  text[length] = '\n';
  if (write(STDERR_FILENO, text, length + 1) < 0) _exit(2);
#if defined(CHECK_ABORTS)
  abort();
#else
  _exit(1);
#endif
}

#define CHECK(fact) ((fact) ? (void)0 : check_failed(__FILE__, __LINE__, #fact, "%s", ""))

// The same with more to print: a format and its arguments.
#if !defined(__cplusplus) || __cplusplus >= 201103L
#define CHECK_SAY(fact, ...)                                                                       \
  ((fact) ? (void)0 : check_failed(__FILE__, __LINE__, #fact, ": " __VA_ARGS__))
#endif

// The program should not have come here.
#define FAIL(what) check_failed(__FILE__, __LINE__, what, "%s", "")

// The program cannot do its work here. The runner takes the status for that, and the line for why.
#define SKIPPED 77
#define SKIP(why) _exit(write(STDOUT_FILENO, why "\n", sizeof(why)) < 0 ? 2 : SKIPPED)

#endif
