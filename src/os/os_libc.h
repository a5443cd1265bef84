// SPDX-License-Identifier: MIT
// os_libc.h - what os_libc.c needs of the file of a system, and gives it.
//
//   os.h --> os_libc.c --> mi_os_call_...: of the system's file
//        `-> the system's file, which may use the functions below
//
// Deliberately absent: what is in os.h.
#ifndef MI_OS_OS_LIBC_H
#define MI_OS_OS_LIBC_H

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "../base/random.h"
#include "../base/text.h"
#include "os.h"

#if !defined(O_NOCTTY)
#define O_NOCTTY 0
#endif
// A clock that need not be exact.
#if defined(CLOCK_MONOTONIC_COARSE)
#define MI_OS_CLOCK_CHEAP CLOCK_MONOTONIC_COARSE
#else
#define MI_OS_CLOCK_CHEAP MI_OS_CLOCK
#endif
// An exact one. On macOS CLOCK_MONOTONIC asks the kernel when the machine was started.
#if defined(CLOCK_UPTIME_RAW)
#define MI_OS_CLOCK CLOCK_UPTIME_RAW
#else
#define MI_OS_CLOCK CLOCK_MONOTONIC
#endif

// -- The system's file defines --

// As open, write and close of POSIX, but no cancellation points.
static int mi_os_call_open(const char* path, int flags, int mode);
static ptrdiff_t mi_os_call_write(int file, const void* bytes, size_t size);
static int mi_os_call_close(int file);

// -- os_libc.c defines --

static uint64_t mi_os_clock_us(clockid_t clock);

#endif
