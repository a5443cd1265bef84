// SPDX-License-Identifier: MIT
// lock.h - a lock for slow paths: arena growth, thread start and exit, purging.
//
// No path of `free` enters one (it may only try). The word is 0 free, 1 held, 2 held and somebody
// sleeps; sleeping and waking are one system call each (futex(2); Drepper, "Futexes are tricky",
// 2011, the second mutex). All zero is an unlocked lock.
//
// Locks that may be held together have ranks (core/state.h): a thread waits for one only while it
// holds none of the same or a higher rank, so that no two wait for each other. Debug builds check
// it. Rank 0: held alone.
#ifndef MI_OS_LOCK_H
#define MI_OS_LOCK_H

#include "../base/atomic.h"
#include "../base/check.h"

typedef struct mi_lock_s {
  // word - 0 free, 1 held, 2 held with sleepers.
  //   write  any thread  CAS/swap acquire  enter          sees what the last holder wrote
  //   write  holder      swap release      leave          publishes what was written under the lock
  mi_atomic(uint32_t) word;
  uint32_t rank; // below 32 (const)
} mi_lock_t;

// The ranks of the locks that this thread holds, one bit each. Debug builds only.
MI_INTERNAL_DATA_DECL __thread uint32_t mi_locks_held mi_attr_tls;

// Sleep while `*word == value`; may return early.
MI_INTERNAL void mi_os_wait(mi_atomic(uint32_t) * word, uint32_t value);
// Wake one sleeper.
MI_INTERNAL void mi_os_wake(mi_atomic(uint32_t) * word);

static inline bool mi_lock_try_enter(mi_lock_t* lock) {
  uint32_t expected = 0;
  // Pairs with the release in `mi_lock_leave`.
  if (!mi_atomic_cas_strong_acquire(&lock->word, &expected, 1)) return false;
  if (MI_DEBUG >= 1) mi_locks_held |= (uint32_t)1 << lock->rank;
  return true;
}

static inline void mi_lock_enter(mi_lock_t* lock) {
  mi_assert(lock->rank == 0 || mi_locks_held >> lock->rank == 0);
  if (mi_likely(mi_lock_try_enter(lock))) return;
  // Pairs with the release in `mi_lock_leave`. Taking the lock with 2 may cause one needless wake.
  while (mi_atomic_swap_acquire(&lock->word, 2) != 0) mi_os_wait(&lock->word, 2);
  if (MI_DEBUG >= 1) mi_locks_held |= (uint32_t)1 << lock->rank;
}

static inline void mi_lock_leave(mi_lock_t* lock) {
  if (MI_DEBUG >= 1) mi_locks_held &= ~((uint32_t)1 << lock->rank);
  // Pairs with the acquire in `mi_lock_enter`: publishes what was written under the lock.
  if (mi_atomic_swap_release(&lock->word, 0) == 2) mi_os_wake(&lock->word);
}

// In the child of a fork: whoever held the lock does not exist here.
static inline void mi_lock_reset(mi_lock_t* lock) {
  mi_atomic_store_relaxed(&lock->word, 0);
  if (MI_DEBUG >= 1) mi_locks_held &= ~((uint32_t)1 << lock->rank);
}

#endif
