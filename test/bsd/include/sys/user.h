// SPDX-License-Identifier: MIT
// user.h - of FreeBSD's, what os_bsd.c uses.
#ifndef TEST_BSD_USER_H
#define TEST_BSD_USER_H

struct kinfo_proc {
  int64_t ki_rssize;
};

#endif
