// SPDX-License-Identifier: MIT
// unistd.h - what test programs use of POSIX and mingw-w64 does not have, as far as Windows can do
// it; see posix.c. In front of the header of mingw-w64.
//
// Deliberately absent: fork. It fails, so that a program is compiled whose other tests can run.
#ifndef TEST_WINDOWS_UNISTD_H
#define TEST_WINDOWS_UNISTD_H

#include_next <unistd.h>

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdlib.h>
#include <time.h>

#define _SC_PAGESIZE 30
#define _SC_NPROCESSORS_ONLN 84
#define O_CLOEXEC _O_NOINHERIT
#define O_NOCTTY 0
#define program_invocation_name _pgmptr

long sysconf(int name);
// SIGALRM after so many seconds: its handler runs on a thread of its own.
unsigned alarm(unsigned seconds);
int setenv(const char* name, const char* value, int is_replaced);
int unsetenv(const char* name);

// Compilers know functions of these names.
#define fork() posix_fork()
#define vfork() posix_fork()
static inline int posix_fork(void) {
  errno = ENOSYS;
  return -1;
}
static inline unsigned geteuid(void) { return 1000; }
static inline unsigned getuid(void) { return 1000; }

#if !defined(TIME_UTC)
#define TIME_UTC 1
int timespec_get(struct timespec* t, int base);
#endif

#endif
