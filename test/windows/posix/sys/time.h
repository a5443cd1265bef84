// SPDX-License-Identifier: MIT
// sys/time.h - a timer that calls the handler of SIGALRM, on a thread of its own: see unistd.h.
#ifndef TEST_WINDOWS_TIME_H
#define TEST_WINDOWS_TIME_H

#include_next <sys/time.h>

#define ITIMER_REAL 0
struct itimerval {
  struct timeval it_interval, it_value;
};
int setitimer(int which, const struct itimerval* timer, struct itimerval* before);

#endif
