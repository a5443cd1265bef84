// SPDX-License-Identifier: MIT
// hold.h - who may change the queues and the medium pages of a thread: the thread, or the purge
// thread while it sleeps.
// The protocol is in hold.c.
#ifndef MI_CORE_HOLD_H
#define MI_CORE_HOLD_H

#include "theap.h"

// What the purge thread wants of a home.
typedef enum mi_hold_ask_e {
  MI_HOLD_NONE = 0,
  MI_HOLD_ASKED, // its queues, unless the thread comes back
  MI_HOLD_TAKEN, // it has them, while it has the thread lock
} mi_hold_ask_t;

typedef enum mi_hold_e {
  MI_HOLD_REFUSED, // the purge thread has the queues
  MI_HOLD_ENTERED, // the caller must leave
  MI_HOLD_NESTED, // the calling thread was there already, in a function that called this one
} mi_hold_t;

// The purge thread asks, or has the queues.
MI_INTERNAL mi_hold_t mi_hold_answer(mi_theap_t* home);

// Come to the queues of the calling thread, whose home this is, where `hold` is `count`, which is
// even. False if the purge thread asks, or has the queues.
static mi_attr_inline bool mi_hold_come(mi_theap_t* home, uint32_t count) {
  mi_atomic_store_relaxed(&home->hold, count + 1);
  mi_atomic_signal_fence(); // HOLD-5
  // Sees what the purge thread did; pairs with the release in `mi_asleep_look_at`.
  return mi_likely(mi_atomic_load_acquire(&home->asked) == MI_HOLD_NONE);
}

// Go, to where `hold` is `count`.
static mi_attr_inline void mi_hold_go(mi_theap_t* home, uint32_t count) {
  // Publishes what the thread did; pairs with the acquire in `mi_asleep_look_at` and
  // `mi_asleep_take`.
  mi_atomic_store_release(&home->hold, count);
}

// Hold the queues of the calling thread, whose home this is, unless the purge thread has them.
static mi_attr_inline mi_hold_t mi_hold_try(mi_theap_t* home) {
  const uint32_t count = mi_atomic_load_relaxed(&home->hold);
  if (mi_unlikely(count % 2 != 0)) return MI_HOLD_NESTED;
  return mi_hold_come(home, count) ? MI_HOLD_ENTERED : mi_hold_answer(home);
}

// The same, once the purge thread has left.
MI_INTERNAL mi_hold_t mi_hold_wait(mi_theap_t* home);
static mi_attr_inline mi_hold_t mi_hold_enter(mi_theap_t* home) {
  const mi_hold_t hold = mi_hold_try(home);
  return mi_likely(hold != MI_HOLD_REFUSED) ? hold : mi_hold_wait(home);
}

// End what one of these began.
static mi_attr_inline void mi_hold_leave(mi_theap_t* home, mi_hold_t hold) {
  if (mi_likely(hold == MI_HOLD_ENTERED)) mi_hold_go(home, mi_atomic_load_relaxed(&home->hold) + 1);
}

// Under the thread lock, when a thread gets or leaves the home: nobody holds it.
static inline void mi_hold_begin(mi_theap_t* home) {
  mi_lock_expect(&mi_state.thread_lock);
  mi_atomic_store_relaxed(&home->hold, 0);
  mi_atomic_store_relaxed(&home->asked, MI_HOLD_NONE);
  home->is_swept = false;
}

#endif
