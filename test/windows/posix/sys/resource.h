// SPDX-License-Identifier: MIT
// sys/resource.h - there are no limits of resources, and none can be set. See unistd.h.
#ifndef TEST_WINDOWS_RESOURCE_H
#define TEST_WINDOWS_RESOURCE_H

#include <errno.h>
#include <stddef.h>

typedef size_t rlim_t;
struct rlimit {
  rlim_t rlim_cur, rlim_max;
};
#define RLIMIT_AS 9
#define RLIM_INFINITY ((rlim_t)-1)

static inline int getrlimit(int which, struct rlimit* limit) {
  (void)which;
  limit->rlim_cur = limit->rlim_max = RLIM_INFINITY;
  return 0;
}
static inline int setrlimit(int which, const struct rlimit* limit) {
  (void)which, (void)limit;
  errno = ENOSYS;
  return -1;
}

#endif
