// SPDX-License-Identifier: MIT
// override_thread.c - functions of libc that the purge thread (core/process/purger.c) must know of.
//
//   pthread_create, thrd_create   a program that has a second thread gets the purge thread; it
//                                 gives up its place where the system permits no more threads
//   unshare, setns                some of what they do needs a process with one thread
//
// OVERRIDE_THREAD-1  each function is that of libc. Only when that fails, and the purge thread may
//     be the reason, the thread is ended, and the function tried again: these functions have no
//     effect when they fail.
// OVERRIDE_THREAD-2  the purge thread is created through the function here, too, which then finds
//     its state BUSY and has no effect.
//
// This exists only in the shared library, on Linux. Deliberately absent: threads that libc makes
// for itself (timer_create, aio), and those made by clone(2).
#if defined(MI_MALLOC_OVERRIDE) && defined(MI_SHARED_LIB_EXPORT) && defined(__linux__)

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <threads.h>

#include "../api/api.h"
#include "next.h"
#include "override.h"

// libc has that function, because the program could not have been linked otherwise; the loader may
// have no memory.
#define MI_THREAD_NEXT(name) __typeof__(&(name)) const next = mi_override_next(#name)

MI_ELF_EXPORT int pthread_create(pthread_t* thread, const pthread_attr_t* attributes,
                                 void* (*run)(void*), void* arg) {
  MI_THREAD_NEXT(pthread_create);
  if (next == NULL) return EAGAIN;
  size_t tries = 0;
  int err;
  do err = next(thread, attributes, run, arg);
  while (err == EAGAIN && mi_process_make_room(&tries));
  if (err == 0) mi_process_follow_thread();
  return err;
}

MI_ELF_EXPORT int thrd_create(thrd_t* thread, thrd_start_t run, void* arg) {
  MI_THREAD_NEXT(thrd_create);
  if (next == NULL) return thrd_error;
  size_t tries = 0;
  int err;
  do err = next(thread, run, arg);
  while (err == thrd_error && mi_process_make_room(&tries));
  if (err == thrd_success) mi_process_follow_thread();
  return err;
}

MI_ELF_EXPORT int unshare(int flags) {
  MI_THREAD_NEXT(unshare);
  if (next == NULL) return errno = ENOSYS, -1;
  size_t tries = 0;
  int rc;
  do rc = next(flags);
  while (rc != 0 && errno == EINVAL && mi_process_make_room(&tries));
  return rc;
}

MI_ELF_EXPORT int setns(int file, int kind) {
  MI_THREAD_NEXT(setns);
  if (next == NULL) return errno = ENOSYS, -1;
  size_t tries = 0;
  int rc;
  do rc = next(file, kind); // EUSERS is of a time namespace
  while (rc != 0 && (errno == EINVAL || errno == EUSERS) && mi_process_make_room(&tries));
  return rc;
}

#endif
