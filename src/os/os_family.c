// SPDX-License-Identifier: MIT
// os_family.c - processes that share memory because they were forked, on Linux with glibc. Of os.h,
// `mi_os_family_create`, `_join`, `_is_alone`, `_end`.
//
// A family is an OS page that a process shares with all that are forked from it, and from those. It
// is full of mutexes. Each process that comes to be by a fork locks one, and never unlocks it: if
// nobody holds any, the first process is alone.
//
// OS_FAMILY-1  the mutexes are robust: when a thread ends that holds one, by exit, exec or a
//     signal, the kernel clears its number in the mutex. It knows them by a list of the thread
//     (get_robust_list(2)), so that this needs no file, no process number (which says nothing after
//     exec), and, but for the page, no system call, at which a sandbox may end the process. With
//     glibc, that is: other libraries tell the kernel of the list only when it is used; there is no
//     family with them.
// OS_FAMILY-2  of a mutex two fields are used directly, instead of by functions that each program
//     would have to find when it starts: what kind of mutex it is, and the word that the kernel
//     knows (futex(7)). Processes with other versions of glibc may have the same mutex in a file,
//     so that neither ever changes.
// OS_FAMILY-3  a process that shares memory is seen, unless the thread that came out of its fork
//     has ended while others go on, or it was forked without handlers (clone(2), vfork(2)). One
//     that was killed for want of memory may be seen for ever.
// OS_FAMILY-4  if more processes live at a time than there are mutexes, the first is never alone
//     again.
// OS_FAMILY-5  the page stays mapped in a process that holds a mutex there: libc writes to it when
//     the thread locks another one.
//
// Included by os.c. Deliberately absent: who the others are, and the first process in the eyes of
// the others.
#include "os_posix.h"

#define MI_OS_FAMILY_SIZE ((size_t)4096)
#define MI_OS_FAMILY_MEMBERS ((MI_OS_FAMILY_SIZE - sizeof(uint64_t)) / sizeof(pthread_mutex_t))
#define MI_OS_MUTEX_ROBUST 16 // kinds of mutexes
#define MI_OS_MUTEX_SHARED 128
#define MI_OS_MUTEX_OWNER 0x3fffffff // of its word: FUTEX_TID_MASK of linux/futex.h

struct mi_os_family_s {
  // is_full - a process found no mutex. Written by it, relaxed; read by the first one, relaxed: it
  // asks long after the fork.
  mi_atomic(bool) is_full;
  // members - of each, `lock` is written by libc and by the kernel, and read by the first process,
  // as `is_full`.
  pthread_mutex_t members[MI_OS_FAMILY_MEMBERS];
};

mi_static_assert(sizeof(mi_os_family_t) <= MI_OS_FAMILY_SIZE, "a family is one OS page");

MI_INTERNAL mi_os_family_t* mi_os_family_create(void) {
  const int saved_errno = errno;
  void* const page =
      mmap(NULL, MI_OS_FAMILY_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  errno = saved_errno;
  if (page == MAP_FAILED) return NULL;
  mi_os_family_t* const family = (mi_os_family_t*)page;
  for (size_t i = 0; i < MI_OS_FAMILY_MEMBERS; i++) {
    family->members[i].__data.__kind = MI_OS_MUTEX_ROBUST | MI_OS_MUTEX_SHARED;
  }
  return family;
}

MI_INTERNAL void mi_os_family_join(mi_os_family_t* family) {
  for (size_t i = 0; i < MI_OS_FAMILY_MEMBERS; i++) {
    // What an owner that died has left as it was does not matter: it protects nothing.
    const int err = pthread_mutex_trylock(&family->members[i]);
    if (err == 0 || err == EOWNERDEAD) return;
  }
  mi_atomic_store_relaxed(&family->is_full, true);
}

MI_INTERNAL bool mi_os_family_is_alone(mi_os_family_t* family) {
  for (size_t i = 0; i < MI_OS_FAMILY_MEMBERS; i++) {
    const int word = *(volatile const int*)&family->members[i].__data.__lock;
    if ((word & MI_OS_MUTEX_OWNER) != 0) return false;
  }
  return !mi_atomic_load_relaxed(&family->is_full);
}

MI_INTERNAL void mi_os_family_end(mi_os_family_t* family) {
  const int saved_errno = errno;
  munmap(family, MI_OS_FAMILY_SIZE);
  errno = saved_errno;
}
