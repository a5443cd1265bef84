// SPDX-License-Identifier: MIT
// umtx.h - of FreeBSD's, what os_bsd.c uses.
#ifndef TEST_BSD_UMTX_H
#define TEST_BSD_UMTX_H

#include <stdint.h>
#include <time.h>

enum { UMTX_OP_WAIT_UINT_PRIVATE = 15, UMTX_OP_WAKE_PRIVATE = 16 };

struct _umtx_time {
  struct timespec _timeout;
  uint32_t _flags;
  uint32_t _clockid;
};

int _umtx_op(void* word, int operation, unsigned long value, void* size, void* time);

#endif
