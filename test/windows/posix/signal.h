// SPDX-License-Identifier: MIT
// signal.h - see unistd.h.
#ifndef TEST_WINDOWS_SIGNAL_H
#define TEST_WINDOWS_SIGNAL_H

#include_next <signal.h>

#define SIGALRM 14
#define SIGKILL 9
#define SIGBUS 7

void (*posix_signal(int number, void (*handler)(int)))(int);
#define signal(number, handler) posix_signal(number, handler)

#define SA_SIGINFO 4
#define SA_RESTART 0x10000000
typedef struct siginfo_s {
  int si_code;
  void* si_addr;
} siginfo_t;
struct sigaction {
  void (*sa_handler)(int);
  void (*sa_sigaction)(int, siginfo_t*, void*);
  int sa_flags;
};
// Fails, but for a handler of SIGALRM.
int sigaction(int number, const struct sigaction* action, struct sigaction* before);

#endif
