// SPDX-License-Identifier: MIT
// sys/wait.h - there is no child to wait for: see unistd.h.
#ifndef TEST_WINDOWS_WAIT_H
#define TEST_WINDOWS_WAIT_H

#include <sys/types.h>

#define WIFEXITED(status) ((status) >= 0)
#define WEXITSTATUS(status) (status)
#define WIFSIGNALED(status) ((status) < 0)
#define WTERMSIG(status) (-(status))
static inline int waitpid(int child, int* status, int options) {
  (void)child, (void)status, (void)options;
  return -1;
}

#endif
