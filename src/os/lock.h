// SPDX-License-Identifier: MIT
// lock.h - a lock for slow paths: arena growth, thread start and exit, purging.
//
// No path of `free` waits for a lock (it may only try). The word is 0 free, 1 held, 2 held while a
// thread sleeps; sleeping and waking are one system call each (futex(2); Drepper, "Futexes are
// tricky", 2011, the second mutex). All zero is an unlocked lock.
//
// Locks that may be held together have ranks (core/common/state.h): a thread waits for one only
// while it holds none of the same or a higher rank, so that no two wait for each other. A lock of
// rank 0 is held alone. Debug builds check this, and that only a held lock is left; they name the
// locks and stop.
//
// Around a fork one thread holds all locks that have a rank, so that no other thread is in the
// middle of a change; the functions that it calls then enter the locks without effect
// (core/process/fork.c).
#ifndef MI_OS_LOCK_H
#define MI_OS_LOCK_H

#include "../base/atomic.h"
#include "../base/check.h"
#include "thread_self.h"

typedef struct mi_lock_s {
  // word - 0 free, 1 held, 2 held with sleepers.
  //   write  any thread  CAS acquire   enter  mi_lock_take   (sees what the last holder wrote)
  //   write  any thread  swap acquire  enter  mi_lock_enter  (the same)
  //   write  holder      swap release  leave  mi_lock_leave  (publishes what was written under it)
  //   read   holder      relaxed       mi_lock_is_awaited  (a hint)
  //   write  child of a fork, its only thread  store relaxed  mi_lock_reset
  mi_atomic(uint32_t) word;
  uint32_t rank; // below MI_LOCK_RANKS (const)
  const char* name; // for messages (const)
  void (*on_left)(void); // called by a thread just after it left the lock; NULL none (const)
} mi_lock_t;

// In `locks_held` of the calling thread (thread_self.h), beside one bit for each rank.
#define MI_LOCKS_OF_FORK ((uint16_t)0x8000) // this thread forks, and holds all ranked locks

// Sleep while `*word == value`; may return early.
MI_INTERNAL void mi_os_wait(mi_atomic(uint32_t) * word, uint32_t value);
// The same, for so many milliseconds: for a thread that has nothing else to do, and may wake late.
#define MI_OS_FOREVER UINT64_MAX
MI_INTERNAL void mi_os_wait_ms(mi_atomic(uint32_t) * word, uint32_t value, uint64_t ms);
// Wake one sleeper.
MI_INTERNAL void mi_os_wake(mi_atomic(uint32_t) * word);

#if MI_DEBUG >= 1
// Stop if this thread does not hold the lock. The first line of each function that expects it to.
MI_INTERNAL void mi_lock_expect(const mi_lock_t* lock);
// Stop if this thread may not wait for the lock, or may not leave it, or holds any; `what` says
// what it is about to do.
MI_INTERNAL void mi_lock_check_order(const mi_lock_t* lock);
MI_INTERNAL void mi_lock_check_held(const mi_lock_t* lock);
MI_INTERNAL void mi_lock_check_none(const char* what);
MI_INTERNAL void mi_lock_note(const mi_lock_t* lock);
#else
#define mi_lock_expect(lock) ((void)(lock))
#define mi_lock_check_order(lock) ((void)(lock))
#define mi_lock_check_held(lock) ((void)(lock))
#define mi_lock_check_none(what) ((void)(what))
#define mi_lock_note(lock) ((void)(lock))
#endif

static inline uint16_t mi_lock_bit(const mi_lock_t* lock) { return (uint16_t)(1u << lock->rank); }

static inline bool mi_lock_is_of_fork(const mi_lock_t* lock) {
  return lock->rank != 0 && (mi_self()->locks_held & MI_LOCKS_OF_FORK) != 0;
}

static inline void mi_lock_announce(const mi_lock_t* lock) {
  mi_self()->locks_held |= mi_lock_bit(lock);
  mi_atomic_signal_fence(); // before the lock is taken
}

static inline void mi_lock_revoke(const mi_lock_t* lock) {
  mi_atomic_signal_fence(); // after the lock was left
  mi_self()->locks_held &= ~mi_lock_bit(lock);
}

static inline bool mi_lock_take(mi_lock_t* lock) {
  uint32_t expected = 0;
  // Pairs with the release in `mi_lock_leave`.
  return mi_atomic_cas_strong_acquire(&lock->word, &expected, 1);
}

static inline bool mi_lock_try_enter(mi_lock_t* lock) {
  if (mi_unlikely(mi_lock_is_of_fork(lock))) return true;
  const uint16_t held = mi_self()->locks_held;
  mi_lock_announce(lock);
  if (mi_likely(mi_lock_take(lock))) {
    mi_lock_note(lock);
    return true;
  }
  mi_atomic_signal_fence();
  mi_self()->locks_held = held; // this thread itself may hold the lock
  return false;
}

static inline void mi_lock_enter(mi_lock_t* lock) {
  if (mi_unlikely(mi_lock_is_of_fork(lock))) return;
  mi_lock_check_order(lock);
  mi_lock_announce(lock);
  if (mi_unlikely(!mi_lock_take(lock))) {
    // Pairs with the release in `mi_lock_leave`. Taking the lock with 2 may cause one needless
    // wake.
    while (mi_atomic_swap_acquire(&lock->word, 2) != 0) mi_os_wait(&lock->word, 2);
  }
  mi_lock_note(lock);
}

static inline void mi_lock_leave(mi_lock_t* lock) {
  if (mi_unlikely(mi_lock_is_of_fork(lock))) return;
  mi_lock_check_held(lock);
  // Publishes what was written under the lock; pairs with the acquires in `mi_lock_take` and
  // `mi_lock_enter`.
  if (mi_atomic_swap_release(&lock->word, 0) == 2) mi_os_wake(&lock->word);
  mi_lock_revoke(lock);
  if (lock->on_left != NULL) lock->on_left();
}

// True if another thread waits for a lock that the caller holds, and can leave. Maybe where none
// does: who had to wait itself cannot know.
static inline bool mi_lock_is_awaited(mi_lock_t* lock) {
  return mi_atomic_load_relaxed(&lock->word) == 2 && !mi_lock_is_of_fork(lock);
}

// In the child of a fork, make the lock free: the thread that held it may not exist here.
static inline void mi_lock_reset(mi_lock_t* lock) {
  mi_atomic_store_relaxed(&lock->word, 0);
  mi_lock_revoke(lock);
}

#endif
