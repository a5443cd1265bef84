// SPDX-License-Identifier: MIT
// os_posix.h - what os_posix.c and the file of a system share: os_linux.c, or os_plain.c, which is
// the least that a system must give. The part that needs less than POSIX is in os_libc.h.
//
//   os.h --> os_posix.c, os_posix_fault.c --> mi_os_call_...: of the system's file
//        `-> the system's file, which may use the functions below
//
// Deliberately absent: what is in os.h.
#ifndef MI_OS_OS_POSIX_H
#define MI_OS_OS_POSIX_H

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/time.h>
#if MI_IS_MACOS // whose <ucontext.h> has old functions, and permits no others
#include <sys/ucontext.h>
#elif !defined(__OpenBSD__) && !defined(__HAIKU__) // where it is in <signal.h>
#include <ucontext.h>
#endif

#include "../base/tag.h"
#include "lock.h"
#include "os_libc.h"
#include "tls.h"

#if !defined(MAP_NORESERVE)
#define MAP_NORESERVE 0
#endif
#if !defined(MAP_ANONYMOUS)
#define MAP_ANONYMOUS MAP_ANON
#endif

// What mmap(2) is told in the place of a file; on macOS that is a tag.
#if MI_IS_MACOS && !MI_IS_OS_PLAIN
static int mi_os_call_map_tag(void);
#define MI_OS_NO_FILE mi_os_call_map_tag()
#else
#define MI_OS_NO_FILE (-1)
#endif

#if defined(__ANDROID__) // where no thread can be cancelled
#if !defined(PTHREAD_CANCEL_ENABLE)
#define PTHREAD_CANCEL_ENABLE 0
#define PTHREAD_CANCEL_DISABLE 1
#endif
#define pthread_setcancelstate(state, before) ((void)(state), (void)(before))
#endif

// -- The system's file defines --

// A flag of mmap(2): exactly at that address, or not at all. 0 if there is none.
static const int mi_os_call_map_at;
// Return the protection of memory that is read and written.
static int mi_os_call_protection(void);
// As read of POSIX, but no cancellation point.
static ptrdiff_t mi_os_call_read(int file, void* bytes, size_t size);
// Send a signal to the calling thread.
static void mi_os_call_raise(int number);
// Flags of sigaction(2), beside those that every system has.
static const int mi_os_call_fault_flags;
// Store what the system says about a fault: `access`, `at`, `is_tag`. Returns the stack pointer, 0
// if that is not known.
static uintptr_t mi_os_call_fault(int number, const siginfo_t* info, const ucontext_t* context,
                                  mi_os_fault_t* fault);
// Look for the unwinder of `backtrace`, which is loaded.
static void mi_os_call_find_unwinder(void);
// True if the unwinder may have called this library, so that a lock of its own may be held. `top`
// is that of the stack, without the frame of the caller.
static bool mi_os_call_is_unwinders(const void* top);

// -- os_posix.c defines --

// Return the result of a system call as an errno value, and restore errno.
static int mi_os_result(int rc, int saved_errno);
// True if the address may be chosen.
static bool mi_os_may_hint(const void* hint);
// Map with a hint and these flags of mmap(2) beside the usual ones; NULL if the system refuses.
static mi_attr_unused void* mi_os_map_with(void* hint, size_t size, mi_os_access_t access,
                                           int flags);
// The same where the hint says, if the address may be chosen, or anywhere.
static void* mi_os_map_anywhere(void* hint, size_t size, mi_os_access_t access, int flags);
// Store what POSIX knows of that; the rest is left as it is.
static void mi_os_usage_posix(mi_os_usage_t* usage);

#endif
