// SPDX-License-Identifier: MIT
// asleep.c - the purge thread takes over what is in the queues of threads that sleep, and their
// medium pages: it looks at all homes, twice at each, half a second apart. The rules are in hold.c.
//
//   first look: the thread is asked --> second look: it did not come: its pages go to the pools
//                                  '--> it came: it is asked again
//
// Each part of a look takes the thread lock for a bounded number of pages, and of theaps. A home of
// which some are left when that is over stays TAKEN until the same look goes on with it, at the
// theap where it was, unless its thread comes.
#include "asleep.h"

#include "flush.h"

// Pages that are taken over at once under the thread lock.
#define MI_ASLEEP_PAGES ((size_t)64)
// Theaps of one home that are looked at in that time: some 0.2 ms if nothing is in their queues.
#define MI_ASLEEP_THEAPS ((size_t)(MI_IS_TINY ? 4 : 256))
#define MI_ASLEEP_PAUSE_MS 1 // between two parts of a look
// Between two looks at a thread. Many times what a processor may hold back a store (HOLD-5).
#define MI_ASLEEP_LOOK_MS (MI_IS_TINY ? 5 : 500)

MI_INTERNAL mi_attr_cold void mi_asleep_share(mi_theap_t* home) {
  mi_lock_enter(&mi_state.thread_lock); // others[] may have theaps whose heap ends
  home->is_swept = false;
  mi_life_offer_all(home);
  for (size_t i = 0; i < home->others_count; i++) {
    mi_theap_t* const theap = mi_theap_other(home, i);
    if (theap != NULL) mi_life_offer_all(theap);
  }
  mi_lock_leave(&mi_state.thread_lock);
}

MI_INTERNAL mi_attr_cold void mi_asleep_pause(void) {
  mi_atomic_add_relaxed(&mi_state.visitors, 1);
  mi_lock_enter(&mi_state.thread_lock); // HOLD-7
  mi_lock_leave(&mi_state.thread_lock);
}

MI_INTERNAL mi_attr_cold void mi_asleep_resume(void) {
  uint32_t count = mi_atomic_load_relaxed(&mi_state.visitors);
  // What the visitor read is written only later; pairs with the acquire in `mi_asleep_look_from`.
  // A visitor that forks finds 0 in the child.
  while (count != 0 && !mi_atomic_cas_weak_release(&mi_state.visitors, &count, count - 1)) {
  }
}

// -- the purge thread --

// Take the queues of a thread that did not come to them since it was asked.
static mi_attr_cold bool mi_asleep_take(mi_theap_t* home) {
  uint32_t expected = MI_HOLD_ASKED;
  // Pairs with none: nobody else does anything with what is asked for.
  if (!mi_atomic_cas_strong_acquire(&home->asked, &expected, MI_HOLD_TAKEN)) return false;
  // Sees what the thread did; pairs with the release in `mi_hold_go`. From here on it is refused;
  // if it came before, it has changed `hold`.
  if (mi_atomic_load_acquire(&home->hold) == home->hold_seen) return true;
  mi_atomic_store_relaxed(&home->asked, MI_HOLD_NONE);
  return false;
}

// Lend what is in the queues of the home's thread, within the budget, which is used up as well when
// so many theaps were looked at. True if that was all. (A theap that gets pages after the look has
// passed it does so from its thread, whose coming ends the look.)
static mi_attr_cold bool mi_asleep_lend(mi_theap_t* home, size_t* budget) {
  size_t theaps = MI_ASLEEP_THEAPS;
  mi_flush_lend(home, budget);
  while (*budget > 0 && home->lend_next < home->others_count) {
    mi_theap_t* const theap = mi_theap_other(home, home->lend_next);
    if (theap != NULL) mi_flush_lend(theap, budget);
    if (*budget == 0) break; // it may have more pages
    home->lend_next++;
    if (--theaps == 0) *budget = 0;
  }
  return *budget > 0;
}

// Look at a home, or, if this `is_again`, go on with it. True if it may have pages at the next
// look.
static mi_attr_cold bool mi_asleep_look_at(mi_theap_t* home, bool is_again, size_t* budget) {
  uint32_t asked = mi_atomic_load_relaxed(&home->asked);
  if (asked == MI_HOLD_ASKED && !is_again && mi_asleep_take(home)) asked = MI_HOLD_TAKEN;
  if (asked == MI_HOLD_TAKEN) {
    if (!mi_asleep_lend(home, budget)) return false; // this look goes on
    home->is_swept = true;
    // Publishes what was done; pairs with the acquire in `mi_hold_come` and `mi_hold_answer`.
    mi_atomic_store_release(&home->asked, MI_HOLD_NONE);
    return false;
  }
  if (is_again) return false; // it was asked in this look
  // Sees what the thread did; pairs with the release in `mi_hold_go`.
  const uint32_t count = mi_atomic_load_acquire(&home->hold);
  // It has slept since its queues were taken, or since it came to them and was stopped there.
  if (count == home->hold_seen && (home->is_swept || count % 2 != 0)) return false;
  home->hold_seen = count;
  home->is_swept = false;
  home->lend_next = 0;
  if (count % 2 == 0) mi_atomic_store_relaxed(&home->asked, MI_HOLD_ASKED);
  return true;
}

// Look at the homes of the buckets from `*bucket` on. True if one may have pages at the next look.
static mi_attr_cold bool mi_asleep_look_from(size_t* bucket, bool* is_again) {
  size_t budget = MI_ASLEEP_PAGES;
  mi_report_enter(MI_REPORT_IN_COLLECT);
  mi_lock_enter(&mi_state.thread_lock);
  // The visitor has read all that it will; pairs with the release in `mi_asleep_resume`.
  bool is_any = mi_atomic_load_acquire(&mi_state.visitors) != 0;
  if (is_any) *bucket = MI_THEAP_BUCKETS;
  for (; *bucket < MI_THEAP_BUCKETS; ++*bucket) {
    mi_theap_t* home = mi_state.theap_bucket[*bucket];
    for (; home != NULL; home = home->bucket_next) {
      if (mi_asleep_look_at(home, *is_again, &budget)) is_any = true;
    }
    *is_again = budget == 0;
    if (*is_again) break;
  }
  mi_lock_leave(&mi_state.thread_lock);
  mi_report_leave();
  return is_any;
}

// Look at all homes. True if one may have pages at the next look.
static mi_attr_cold bool mi_asleep_look_at_all(void) {
  bool is_any = false;
  bool is_again = false;
  for (size_t bucket = 0; bucket < MI_THEAP_BUCKETS;) {
    const uint32_t purger = mi_atomic_load_relaxed(&mi_state.purger);
    if (purger == MI_PURGER_STOP || purger == MI_PURGER_LATE) return true;
    // A thread that waits for the lock gets it: woken, it comes too late for one that is taken
    // again at once.
    if (is_again) mi_os_wait_ms(&mi_state.purger, MI_PURGER_AWAKE, MI_ASLEEP_PAUSE_MS);
    if (mi_asleep_look_from(&bucket, &is_again)) is_any = true;
  }
  return is_any;
}

MI_INTERNAL mi_attr_cold uint64_t mi_asleep_look(mi_asleep_t* asleep) {
  if (!mi_asleep_is_due()) return MI_RETAIN_NEVER;
  const uint64_t now = mi_os_now_ms();
  if (now < asleep->due_ms) return asleep->due_ms - now;
  mi_atomic_store_relaxed(&mi_state.has_queued, false); // HOLD-6
  const bool is_any = mi_asleep_look_at_all();
  if (is_any || asleep->is_any) mi_atomic_store_relaxed(&mi_state.has_queued, true);
  asleep->is_any = is_any;
  asleep->due_ms = mi_os_now_ms() + MI_ASLEEP_LOOK_MS; // HOLD-5: from the last that was asked on
  return mi_asleep_is_due() ? MI_ASLEEP_LOOK_MS : MI_RETAIN_NEVER;
}
