// SPDX-License-Identifier: MIT
// override_bsd.c - what the C libraries of the BSDs have beside the functions of override_elf.c,
// and what they call of their own malloc. Written and linked, never run there.
//
//   OpenBSD           freezero, recallocarray, malloc_conceal, calloc_conceal
//   FreeBSD, NetBSD   _malloc_prefork and others: what to do around a fork, and when a thread ends.
//                     Ours is done by handlers of pthread_atfork(3) and a key (os_key.c)
//   OpenBSD           _malloc_init: a second thread is about to start
//
// OVERRIDE_BSD-1  in a program that is linked statically a call of the last two rows pulls the
//     malloc of libc in, which defines everything twice. So the archive has these names, with no
//     effect; weak, for if that malloc is there all the same, and hidden, because a libc that is
//     shared is to call its own. The shared library has none of them.
// OVERRIDE_BSD-2  what a block contained is cleared before another call may have it, where the
//     manual pages say so. The calls that follow are by name: no compiler knows them.
//
// Deliberately absent: names of jemalloc (mallocx, mallctl and others), which FreeBSD and NetBSD
// have, too: their blocks come from the malloc of libc, and go back by dallocx only.
#if defined(MI_MALLOC_OVERRIDE) &&                                                                 \
    (defined(__FreeBSD__) || defined(__NetBSD__) || defined(__OpenBSD__))

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "../base/bits.h"
#include "override.h"

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmissing-prototypes"

#if defined(__OpenBSD__)

MI_ELF_EXPORT void freezero(void* p, size_t size) {
  if (p == NULL) return;
  memset(p, 0, size);
  MI_BY_NAME(free)(p);
}

// That blocks are left out of core dumps is a promise of OpenBSD's own malloc, not ours.
MI_ELF_EXPORT void* malloc_conceal(size_t size) { return MI_BY_NAME(malloc)(size); }

MI_ELF_EXPORT void* calloc_conceal(size_t count, size_t size) {
  size_t total;
  if (mi_bits_mul_overflows(count, size, &total)) return errno = ENOMEM, NULL;
  void* const p = MI_BY_NAME(malloc)(total);
  return p == NULL ? NULL : memset(p, 0, total);
}

MI_ELF_EXPORT void* recallocarray(void* p, size_t old_count, size_t count, size_t size) {
  if (p == NULL) return calloc_conceal(count, size);
  size_t total, old_total;
  if (mi_bits_mul_overflows(count, size, &total)) return errno = ENOMEM, NULL;
  if (mi_bits_mul_overflows(old_count, size, &old_total)) return errno = EINVAL, NULL;
  if (total <= old_total && old_total - total < old_total / 2) {
    memset((char*)p + total, 0, old_total - total);
    return p;
  }
  void* const q = calloc_conceal(count, size);
  if (q == NULL) return NULL;
  memcpy(q, p, mi_bits_min(total, old_total));
  freezero(p, old_total);
  return q;
}

#endif

#if !defined(MI_SHARED_LIB_EXPORT)

#define MI_BSD_QUIET __attribute__((weak, visibility("hidden"), used))

#if defined(__OpenBSD__)
MI_BSD_QUIET void _malloc_init(int is_threaded) { (void)is_threaded; }
#else
MI_BSD_QUIET void _malloc_prefork(void) {}
MI_BSD_QUIET void _malloc_postfork(void) {}
MI_BSD_QUIET void _malloc_thread_cleanup(void) {}
#endif
#if defined(__FreeBSD__)
MI_BSD_QUIET void _malloc_first_thread(void) {}
#elif defined(__NetBSD__)
MI_BSD_QUIET void _malloc_postfork_child(void) {}
#endif

#endif

#pragma GCC diagnostic pop

#endif
