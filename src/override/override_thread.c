// SPDX-License-Identifier: MIT
// override_thread.c - functions of libc that change what threads of the process may do: the purge
// thread (core/process/purger.c) and what opens files must know of them.
//
//   pthread_create, thrd_create   a program that has a second thread gets the purge thread; it
//                                 gives up its place where the system permits no more threads
//   pthread_join, thrd_join,      a handler of the program may wait for the end of a thread while
//   pthread_tryjoin_np and two    a fork holds our locks (core/process/fork.c)
//   more with a limit of time
//   unshare, setns                some of what they do needs a process with one thread
//   prctl                         after it the program may be in a sandbox, which may end it when
//                                 a file is opened (core/arenas/budget.c)
//   prctl, capset                 after it the thread may have other rights than the purge thread:
//                                 OVERRIDE_THREAD-5
//
// OVERRIDE_THREAD-1  each function is that of libc. Only when that fails, and the purge thread may
//     be the reason, the thread is ended, and the function tried again: these functions have no
//     effect when they fail.
// OVERRIDE_THREAD-2  the purge thread is created through the function here, too, which then finds
//     its state BUSY and has no effect. It is joined by the function that comes after this library,
//     as it was created by one that does: a sanitizer in the program itself ends the process if it
//     is to join a thread that it has not created.
// OVERRIDE_THREAD-3  all functions are found at once, when the first of them is called. To find one
//     takes the lock of the loader: a thread that the constructor of a library waits for would wait
//     for that constructor.
// OVERRIDE_THREAD-4  the purge thread is started before the thread of the program, so that this has
//     run no longer than with libc alone when its creator goes on: programs have races there
//     (Firebird does not end by a signal if its first thread is the faster one). A call that fails
//     for another reason than a limit leaves the purge thread to a program with one thread. Where
//     it had to give up its place, it is not started for a second.
// OVERRIDE_THREAD-5  capabilities belong to a thread, but libc changes the user of all threads, and
//     aborts if one of them may and another one may not (setpriv(1): it keeps its capabilities,
//     changes the user, then the group). So the purge thread is ended before a thread changes its
//     capabilities. It would keep those that the program gives up, too. (Not that of the parent of
//     a vfork: PROCESS-3.)
//
// This exists only in the shared library, on Linux. Deliberately absent: threads that libc makes
// for itself (timer_create, aio), and those made by clone(2); with 32 bits, the functions that take
// a time of 64.
#if defined(MI_MALLOC_OVERRIDE) && defined(MI_SHARED_LIB_EXPORT) && defined(__linux__) &&          \
    !defined(__ANDROID__)

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <sys/prctl.h>
#include <threads.h>
#include <time.h>

#include "../api/api.h"
#include "next.h"
#include "override.h"

typedef enum mi_thread_fun_e {
  MI_THREAD_PTHREAD_CREATE,
  MI_THREAD_THRD_CREATE,
  MI_THREAD_UNSHARE,
  MI_THREAD_SETNS,
  MI_THREAD_PTHREAD_JOIN,
  MI_THREAD_PRCTL,
  MI_THREAD_CAPSET,
  MI_THREAD_THRD_JOIN,
  MI_THREAD_TRYJOIN,
  MI_THREAD_TIMEDJOIN,
#if defined(__GLIBC__)
  MI_THREAD_CLOCKJOIN,
#endif
  MI_THREAD_FUN_COUNT
} mi_thread_fun_t;

// The functions that come after ours, 0 not found. Any thread, relaxed: all find the same, and what
// is there is older than the thread.
static mi_atomic(uintptr_t) mi_thread_next_of[MI_THREAD_FUN_COUNT];

// Their names. Beside the code that reads them (cmake/layout.ld).
static const char mi_thread_name_of[MI_THREAD_FUN_COUNT][24] = {
    "pthread_create",
    "thrd_create",
    "unshare",
    "setns",
    "pthread_join",
    "prctl",
    "capset",
    "thrd_join",
    "pthread_tryjoin_np",
    "pthread_timedjoin_np",
#if defined(__GLIBC__)
    "pthread_clockjoin_np",
#endif
};

static mi_attr_cold void mi_thread_find_next(void) {
  for (size_t i = 0; i < MI_THREAD_FUN_COUNT; i++) {
    const uintptr_t next = (uintptr_t)mi_override_next(mi_thread_name_of[i]);
    mi_atomic_store_relaxed(&mi_thread_next_of[i], next);
  }
  mi_os_thread_join_by(mi_atomic_load_relaxed(&mi_thread_next_of[MI_THREAD_PTHREAD_JOIN]));
}

// Return the address of a function, 0 if there is none. One that was not found is searched again:
// libc has it, because the program could not have been linked otherwise, but the loader may have
// had no memory.
static uintptr_t mi_thread_next(mi_thread_fun_t fun) {
  if (mi_unlikely(mi_atomic_load_relaxed(&mi_thread_next_of[fun]) == 0)) mi_thread_find_next();
  return mi_atomic_load_relaxed(&mi_thread_next_of[fun]);
}

#define MI_THREAD_NEXT(name, fun)                                                                  \
  __typeof__(&(name)) const next = (__typeof__(&(name)))mi_thread_next(fun)

MI_ELF_EXPORT int pthread_create(pthread_t* thread, const pthread_attr_t* attributes,
                                 void* (*run)(void*), void* arg) {
  MI_THREAD_NEXT(pthread_create, MI_THREAD_PTHREAD_CREATE);
  if (next == NULL) return EAGAIN;
  mi_process_start_purger();
  size_t tries = 0;
  int err;
  do err = next(thread, attributes, run, arg);
  while (err == EAGAIN && mi_process_make_room_for_thread(&tries));
  return err;
}

MI_ELF_EXPORT int pthread_join(pthread_t thread, void** result) {
  MI_THREAD_NEXT(pthread_join, MI_THREAD_PTHREAD_JOIN);
  if (next == NULL) return EINVAL;
  const bool is_begun = mi_process_begin_join();
  const int err = next(thread, result);
  if (mi_unlikely(is_begun)) mi_process_end_join();
  return err;
}

// The others by which a thread is joined. A program that calls one has created a thread: all were
// found then.
MI_ELF_EXPORT mi_attr_cold int thrd_join(thrd_t thread, int* result) {
  MI_THREAD_NEXT(thrd_join, MI_THREAD_THRD_JOIN);
  if (next == NULL) return thrd_error;
  const bool is_begun = mi_process_begin_join();
  const int err = next(thread, result);
  if (is_begun) mi_process_end_join();
  return err;
}

MI_ELF_EXPORT mi_attr_cold int pthread_timedjoin_np(pthread_t thread, void** result,
                                                    const struct timespec* end) {
  MI_THREAD_NEXT(pthread_timedjoin_np, MI_THREAD_TIMEDJOIN);
  if (next == NULL) return ENOSYS;
  const bool is_begun = mi_process_begin_join();
  const int err = next(thread, result, end);
  if (is_begun) mi_process_end_join();
  return err;
}

// A handler that asks again and again leaves our locks to the thread for the moments of this call
// only. So it takes a millisecond within a fork.
MI_ELF_EXPORT mi_attr_cold int pthread_tryjoin_np(pthread_t thread, void** result) {
  MI_THREAD_NEXT(pthread_tryjoin_np, MI_THREAD_TRYJOIN);
  if (next == NULL) return ENOSYS;
  if (!mi_process_begin_join()) return next(thread, result);
  int err = next(thread, result);
  if (err == EBUSY) {
    mi_process_pause_join();
    err = next(thread, result);
  }
  mi_process_end_join();
  return err;
}

#if defined(__GLIBC__)
#if !__GLIBC_PREREQ(2, 31)
int pthread_clockjoin_np(pthread_t thread, void** result, clockid_t clock,
                         const struct timespec* end);
#endif

MI_ELF_EXPORT mi_attr_cold int pthread_clockjoin_np(pthread_t thread, void** result,
                                                    clockid_t clock, const struct timespec* end) {
  MI_THREAD_NEXT(pthread_clockjoin_np, MI_THREAD_CLOCKJOIN);
  if (next == NULL) return ENOSYS;
  const bool is_begun = mi_process_begin_join();
  const int err = next(thread, result, clock, end);
  if (is_begun) mi_process_end_join();
  return err;
}
#endif

MI_ELF_EXPORT mi_attr_cold int thrd_create(thrd_t* thread, thrd_start_t run, void* arg) {
  MI_THREAD_NEXT(thrd_create, MI_THREAD_THRD_CREATE);
  if (next == NULL) return thrd_error;
  mi_process_start_purger();
  size_t tries = 0;
  int err;
  do err = next(thread, run, arg);
  while (err == thrd_error && mi_process_make_room_for_thread(&tries));
  return err;
}

MI_ELF_EXPORT mi_attr_cold int unshare(int flags) {
  MI_THREAD_NEXT(unshare, MI_THREAD_UNSHARE);
  if (next == NULL) return errno = ENOSYS, -1;
  size_t tries = 0;
  int rc;
  do rc = next(flags);
  while (rc != 0 && errno == EINVAL && mi_process_make_room(&tries));
  return rc;
}

MI_ELF_EXPORT mi_attr_cold int setns(int file, int kind) {
  MI_THREAD_NEXT(setns, MI_THREAD_SETNS);
  if (next == NULL) return errno = ENOSYS, -1;
  size_t tries = 0;
  int rc;
  do rc = next(file, kind); // EUSERS is of a time namespace
  while (rc != 0 && (errno == EINVAL || errno == EUSERS) && mi_process_make_room(&tries));
  return rc;
}

// A user who is not root has to set PR_SET_NO_NEW_PRIVS before a filter of system calls, by
// whatever function that is then set.
static mi_attr_cold void mi_thread_before_prctl(int option) {
  switch (option) {
    case PR_SET_NO_NEW_PRIVS:
    case PR_SET_SECCOMP:
      mi_process_enter_sandbox();
      break;
    case PR_SET_KEEPCAPS:
    case PR_SET_SECUREBITS:
    case PR_CAPBSET_DROP:
    case PR_CAP_AMBIENT:
      mi_process_end_purger(); // OVERRIDE_THREAD-5
      break;
    default:
      break;
  }
}

MI_ELF_EXPORT int prctl(int option, ...) {
  MI_THREAD_NEXT(prctl, MI_THREAD_PRCTL);
  if (next == NULL) return errno = ENOSYS, -1;
  va_list args;
  va_start(args, option);
  const unsigned long a = va_arg(args, unsigned long), b = va_arg(args, unsigned long);
  const unsigned long c = va_arg(args, unsigned long), d = va_arg(args, unsigned long);
  va_end(args);
  mi_thread_before_prctl(option);
  return next(option, a, b, c, d);
}

// libc declares it nowhere; libcap, whose programs call it, does so like this. (The structures are
// in headers of the kernel, which need not be installed.)
typedef struct __user_cap_header_struct mi_cap_header_t;
typedef struct __user_cap_data_struct mi_cap_data_t;
int capset(mi_cap_header_t* header, const mi_cap_data_t* data);

MI_ELF_EXPORT mi_attr_cold int capset(mi_cap_header_t* header, const mi_cap_data_t* data) {
  MI_THREAD_NEXT(capset, MI_THREAD_CAPSET);
  if (next == NULL) return errno = ENOSYS, -1;
  mi_process_end_purger();
  return next(header, data);
}

#endif
