// SPDX-License-Identifier: MIT
// os_key.c - the end of a thread, where there are keys of POSIX threads.
//
// OS_POSIX-1 and OS_POSIX-2 hold here, too.
#include <pthread.h>

#include "os_libc.h"

// The key of pthread_setspecific(3) plus 1; 0 none yet; MI_OS_KEY_CLOSED none any more. Made by the
// thread that needs it first, but never in `free`, and without a lock, because the child of a fork
// could find that held for ever.
//   write  any  CAS release    mi_os_key_make         (publishes the key)
//   write  any  swap acquire   mi_os_thread_key_done  (sees the key)
//   read   any  acquire        mi_os_thread_on_exit, mi_os_thread_watch  (sees the key)
static mi_atomic(uint32_t) mi_os_key_word;

// After the library's last destructor: what a key calls may be gone when a thread ends.
#define MI_OS_KEY_CLOSED UINT32_MAX

// glibc keeps the values of the first keys in the thread itself; for others it allocates. FreeBSD
// and DragonFly allocate for the first value of a thread, and OpenBSD for each one, even to read
// it. macOS keeps all of them in the thread, and numbers them from 256 on.
#if defined(__FreeBSD__) || defined(__OpenBSD__) || defined(__DragonFly__)
#define MI_OS_KEY_INLINE_MAX 0
#elif MI_IS_MACOS
#define MI_OS_KEY_INLINE_MAX UINT32_MAX
#else
#define MI_OS_KEY_INLINE_MAX 32
#endif
#if defined(__OpenBSD__)
#define MI_OS_KEY_IS_READABLE false
#else
#define MI_OS_KEY_IS_READABLE true
#endif

static bool mi_os_key_make(void (*on_exit)(void* value)) {
  pthread_key_t key;
  if (pthread_key_create(&key, on_exit) != 0) return false;
  uint32_t expected = 0;
  // Publishes the key; pairs with the acquires in `mi_os_thread_on_exit`, `mi_os_thread_watch` and
  // `mi_os_thread_key_done`.
  if (!mi_atomic_cas_strong_release(&mi_os_key_word, &expected, (uint32_t)key + 1)) {
    pthread_key_delete(key); // another thread was faster, or the library ends
  }
  return true;
}

MI_INTERNAL bool mi_os_thread_on_exit(void (*on_exit)(void* value), void* value) {
  // Sees the key; pairs with the release in `mi_os_key_make`.
  uint32_t word = mi_atomic_load_acquire(&mi_os_key_word);
  if (word == 0) {
    if (!mi_os_key_make(on_exit)) return false;
    // Sees the key, whichever call of `mi_os_key_make` was faster.
    word = mi_atomic_load_acquire(&mi_os_key_word);
  }
  if (word == 0 || word == MI_OS_KEY_CLOSED) return false;
  return pthread_setspecific((pthread_key_t)(word - 1), value) == 0;
}

MI_INTERNAL bool mi_os_thread_watch(void* value) {
  // Sees the key; pairs with the release in `mi_os_key_make`.
  const uint32_t word = mi_atomic_load_acquire(&mi_os_key_word);
  if (word == 0 || word == MI_OS_KEY_CLOSED || !MI_OS_KEY_IS_READABLE) return false;
  const pthread_key_t key = (pthread_key_t)(word - 1);
  if (pthread_getspecific(key) != NULL) return true;
  return word <= MI_OS_KEY_INLINE_MAX && pthread_setspecific(key, value) == 0;
}

MI_INTERNAL void mi_os_thread_key_done(void) {
  // Sees the key; pairs with the release in `mi_os_key_make`.
  const uint32_t word = mi_atomic_swap_acquire(&mi_os_key_word, MI_OS_KEY_CLOSED);
  if (word != 0 && word != MI_OS_KEY_CLOSED) pthread_key_delete((pthread_key_t)(word - 1));
}
