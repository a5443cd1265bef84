// SPDX-License-Identifier: MIT
// futex.h - of NetBSD's and OpenBSD's, what os_bsd.c uses.
#ifndef TEST_BSD_FUTEX_H
#define TEST_BSD_FUTEX_H

#include <stdint.h>
#include <time.h>

#define FUTEX_PRIVATE_FLAG 128
#if defined(TEST_IS_NETBSD)
enum { FUTEX_WAIT = 0, FUTEX_WAKE = 1 };
#else
enum { FUTEX_WAIT_PRIVATE = 1 | FUTEX_PRIVATE_FLAG, FUTEX_WAKE_PRIVATE = 2 | FUTEX_PRIVATE_FLAG };

int futex(volatile uint32_t* word, int operation, int value, const struct timespec* timeout,
          volatile uint32_t* other);
#endif

#endif
