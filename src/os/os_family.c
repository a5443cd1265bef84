// SPDX-License-Identifier: MIT
// os_family.c - processes that share memory because they were forked, on Linux with glibc. Of os.h,
// `mi_os_family_create`, `_join`, `_is_alone`, `_end`.
//
// A family is an OS page that a process shares with all that are forked from it, and from those. It
// is full of mutexes. Each process that comes to be by a fork locks one, and never unlocks it: if
// all are free, or their owners are gone, the first process is alone.
//
// OS_FAMILY-1  the mutexes are robust: when a thread ends that holds one, by exit, exec or a
//     signal, the kernel marks it (get_robust_list(2)). It knows them by a list of the thread, so
//     that this needs no file, no process number (which says nothing after exec), and, but for the
//     page, no system call, at which a sandbox may end the process. With glibc, that is: other
//     libraries tell the kernel of the list only when it is used; there is no family with them.
// OS_FAMILY-2  a process that shares memory is seen, unless the thread that came out of its
//     fork has ended while others go on, or it was forked without handlers (clone(2), vfork(2)).
//     A process that was killed for want of memory may be seen for ever.
// OS_FAMILY-3  if more processes live at a time than there are mutexes, the first is never
//     alone again.
// OS_FAMILY-4  the page stays mapped in a process that holds a mutex there: libc writes to it
//     when the thread locks another one.
//
// Memory order: libc's, in the mutexes; `is_full` comes with the fork in the one direction, and is
// looked at much later in the other. Included by os.c. Deliberately absent: who the others are, and
// the first process in the eyes of the others.
#include "os_posix.h"

#define MI_OS_FAMILY_SIZE ((size_t)4096)
#define MI_OS_FAMILY_MEMBERS ((MI_OS_FAMILY_SIZE - sizeof(uint64_t)) / sizeof(pthread_mutex_t))

struct mi_os_family_s {
  // is_full - a process found no mutex. Written by it, relaxed; read by the first one, relaxed.
  mi_atomic(bool) is_full;
  pthread_mutex_t members[MI_OS_FAMILY_MEMBERS];
};

mi_static_assert(sizeof(mi_os_family_t) <= MI_OS_FAMILY_SIZE, "a family is one OS page");

static int mi_os_family_prepare(mi_os_family_t* family) {
  pthread_mutexattr_t attributes;
  int err = pthread_mutexattr_init(&attributes);
  if (err != 0) return err;
  err = pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
  if (err == 0) err = pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
  for (size_t i = 0; err == 0 && i < MI_OS_FAMILY_MEMBERS; i++) {
    err = pthread_mutex_init(&family->members[i], &attributes);
  }
  pthread_mutexattr_destroy(&attributes);
  return err;
}

MI_INTERNAL mi_os_family_t* mi_os_family_create(void) {
  const int saved_errno = errno;
  void* const page =
      mmap(NULL, MI_OS_FAMILY_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  mi_os_family_t* family = page != MAP_FAILED ? (mi_os_family_t*)page : NULL;
  if (family != NULL && mi_os_family_prepare(family) != 0) {
    munmap(page, MI_OS_FAMILY_SIZE);
    family = NULL;
  }
  errno = saved_errno;
  return family;
}

// Lock a mutex. False if a process that lives has it.
static bool mi_os_family_take(pthread_mutex_t* member) {
  const int err = pthread_mutex_trylock(member);
  if (err == EOWNERDEAD) pthread_mutex_consistent(member);
  return err == 0 || err == EOWNERDEAD;
}

MI_INTERNAL void mi_os_family_join(mi_os_family_t* family) {
  for (size_t i = 0; i < MI_OS_FAMILY_MEMBERS; i++) {
    if (mi_os_family_take(&family->members[i])) return;
  }
  mi_atomic_store_relaxed(&family->is_full, true);
}

MI_INTERNAL bool mi_os_family_is_alone(mi_os_family_t* family) {
  if (mi_atomic_load_relaxed(&family->is_full)) return false;
  for (size_t i = 0; i < MI_OS_FAMILY_MEMBERS; i++) {
    if (!mi_os_family_take(&family->members[i])) return false;
    pthread_mutex_unlock(&family->members[i]);
  }
  return true;
}

MI_INTERNAL void mi_os_family_end(mi_os_family_t* family) {
  const int saved_errno = errno;
  munmap(family, MI_OS_FAMILY_SIZE);
  errno = saved_errno;
}
