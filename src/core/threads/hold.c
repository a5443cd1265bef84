// SPDX-License-Identifier: MIT
// hold.c - the pages in the queues of a thread that sleeps go to the pools, where other threads find
// them, and where the next free of others releases them when they are empty.
//
// Only the owner of a page sees that others have freed all of it. A thread that has freed a block of
// a page itself has the page in its queue; if it then sleeps, what others free there would stay for
// as long as it does (2 million blocks of 256 bytes, of which it freed every hundredth: 506 MiB).
//
//   `asked` of a home:   NONE --look--> ASKED --next look, the thread did not come--> TAKEN --> NONE
//                          ^              |
//                          +-- it came ---+
//
// HOLD-1  a page whose owner word has MI_OWNER_QUEUED is changed only by who holds the home of its
//     thread: its fields, and the queue. It has that flag from the moment when it comes into a queue
//     while there is a purge thread. The flag keeps `free` from its fast path.
// HOLD-2  a page in a queue without that flag is changed by its thread alone (it is from before
//     there was a purge thread), but the queue that it is in by who holds the home, too. `current`,
//     `free`, guests and portions belong to the thread alone.
// HOLD-3  no free waits: if the purge thread has the queues, the block is pushed as by any other
//     thread (remote.c), and a page that this claims goes to the pool. A malloc waits for the thread
//     lock, which the purge thread leaves after MI_HOLD_PAGES at most, and takes the queues back.
// HOLD-4  the purge thread changes `asked`, and the queues while it is TAKEN, only under the thread
//     lock. So who has that lock need not hold a home; and a fork finds no queue half changed.
// HOLD-5  the thread writes `hold`, then reads `asked`; the purge thread writes ASKED, then reads
//     `hold`. If each missed what the other wrote, both would be at the queues. Two fences would
//     exclude that (Dekker), but that of the thread would cost each free into a queue more than the
//     rest of it (1.9 times the time of a replacement). So the purge thread lets
//     MI_HOLD_LOOK_MS pass between its two steps. A processor holds back a store for less than some
//     microseconds, and for no interrupt; C11 (7.17.3) asks for "a reasonable amount of time". From
//     ASKED on, the exchange of `asked` decides who comes in.
// HOLD-6  a page is not missed: the purge thread clears `has_queued` before it comes to a home. If
//     it is there before the page, the thread that brings the page sees the flag cleared, because
//     it came in after the purge thread had left; else the purge thread finds the page.
// HOLD-7  who reads lists of pages that other threads own (visit.c) does so while `visitors` is not
//     0. The purge thread looks at that under the thread lock, which a visitor takes once after it
//     counted.
//
// A thread sleeps if `hold` is the same at two looks: it came to no slow path of malloc, and freed
// into no page of its queues. If it works all the same, it loses nothing but time: it finds the
// pages in the pool, or takes them back at its next free (`mi_pool_lend`).
//
// Deliberately absent: the lists that malloc pops from (`free` and `current` of a theap), and guests.
// Whoever takes these must know that the thread is not inside of a fast path, which costs that path
// an instruction or sends the thread a signal.
#include "hold.h"

#include "flush.h"

// Pages that are taken over at once under the thread lock.
#define MI_HOLD_PAGES ((size_t)64)
// Between two looks at a thread. Many times what a processor may hold back a store (HOLD-5).
#define MI_HOLD_LOOK_MS (MI_IS_TINY ? 5 : 500)

MI_INTERNAL mi_attr_cold mi_hold_t mi_hold_answer(mi_theap_t* home) {
  uint32_t asked = MI_HOLD_ASKED;
  // Pairs with none: it only says that the purge thread has not come.
  if (mi_atomic_cas_strong_acquire(&home->asked, &asked, MI_HOLD_NONE)) return MI_HOLD_ENTERED;
  // Sees what the purge thread did, if it has just left; pairs with the release in
  // `mi_hold_look_at`.
  if (mi_atomic_load_acquire(&home->asked) == MI_HOLD_NONE) return MI_HOLD_ENTERED;
  mi_hold_go(home, mi_atomic_load_relaxed(&home->hold) + 1);
  return MI_HOLD_REFUSED;
}

MI_INTERNAL mi_attr_cold mi_hold_t mi_hold_wait(mi_theap_t* home) {
  mi_lock_enter(&mi_state.thread_lock);
  mi_atomic_store_relaxed(&home->asked, MI_HOLD_NONE); // HOLD-4
  mi_atomic_store_relaxed(&home->hold, mi_atomic_load_relaxed(&home->hold) + 1);
  mi_lock_leave(&mi_state.thread_lock);
  return MI_HOLD_ENTERED;
}

MI_INTERNAL bool mi_hold_free(mi_page_t* page, mi_block_t* block) {
  mi_theap_t* const home = mi_self_home();
  if (mi_unlikely(home->thread_id == 0)) return false; // THREAD-1: the id is that of another home
  const mi_hold_t hold = mi_hold_try(home);
  if (mi_unlikely(hold == MI_HOLD_REFUSED)) return false; // HOLD-3
  const bool is_own = mi_owner_is(mi_atomic_load_relaxed(&page->owner), home->thread_id);
  if (mi_likely(is_own)) {
    mi_block_set_next(block, page->local_free);
    page->local_free = block;
    if (mi_unlikely(mi_bits_decrement_is_zero(&page->count.used))) {
      mi_flush_emptied(page->theap, page);
    }
  }
  mi_hold_leave(home, hold);
  return is_own;
}

MI_INTERNAL mi_attr_cold void mi_hold_share(mi_theap_t* home) {
  mi_lock_enter(&mi_state.thread_lock); // others[] may have theaps whose heap ends
  mi_life_offer_all(home);
  for (size_t i = 0; i < home->others_count; i++) {
    mi_theap_t* const theap = home->others[i];
    if (theap != NULL && !theap->is_destroyed) mi_life_offer_all(theap);
  }
  mi_lock_leave(&mi_state.thread_lock);
}

MI_INTERNAL mi_attr_cold void mi_hold_pause(void) {
  mi_atomic_add_relaxed(&mi_state.visitors, 1);
  mi_lock_enter(&mi_state.thread_lock); // HOLD-6
  mi_lock_leave(&mi_state.thread_lock);
}

MI_INTERNAL mi_attr_cold void mi_hold_resume(void) {
  // What the visitor read is written only later; pairs with the acquire in `mi_hold_look_from`.
  mi_atomic_sub_release(&mi_state.visitors, 1);
}

// -- the purge thread --

// Take the queues of a thread that did not come to them since it was asked.
static bool mi_hold_take(mi_theap_t* home) {
  uint32_t expected = MI_HOLD_ASKED;
  if (!mi_atomic_cas_strong_acquire(&home->asked, &expected, MI_HOLD_TAKEN)) return false;
  // Sees what the thread did; pairs with the release in `mi_hold_leave`. From here on the thread is
  // refused; if it came before, it has changed `hold`.
  if (mi_atomic_load_acquire(&home->hold) == home->hold_seen) return true;
  mi_atomic_store_relaxed(&home->asked, MI_HOLD_NONE);
  return false;
}

// Lend what is in the queues of the home's thread, within the budget. True if that was all.
static bool mi_hold_lend(mi_theap_t* home, size_t* budget) {
  mi_flush_lend(home, budget);
  for (size_t i = 0; i < home->others_count; i++) {
    mi_theap_t* const theap = home->others[i];
    if (theap != NULL && !theap->is_destroyed) mi_flush_lend(theap, budget); // THEAP-5
  }
  return *budget > 0;
}

// Look at a home, or, if this `is_again`, go on with it. True if it may have pages at the next look.
static bool mi_hold_look_at(mi_theap_t* home, bool is_again, size_t* budget) {
  uint32_t asked = mi_atomic_load_relaxed(&home->asked);
  if (asked == MI_HOLD_ASKED && !is_again && mi_hold_take(home)) asked = MI_HOLD_TAKEN;
  if (asked == MI_HOLD_TAKEN) {
    if (!mi_hold_lend(home, budget)) return false; // this look goes on
    // Publishes what was done; pairs with the acquire in `mi_hold_try` and `mi_hold_answer`.
    mi_atomic_store_release(&home->asked, MI_HOLD_NONE);
    return false;
  }
  if (is_again) return true;
  // Sees what the thread did; pairs with the release in `mi_hold_leave`.
  home->hold_seen = mi_atomic_load_acquire(&home->hold);
  if (home->hold_seen % 2 == 0) mi_atomic_store_relaxed(&home->asked, MI_HOLD_ASKED);
  return true;
}

// Look at the homes of the buckets from `*bucket` on. True if one may have pages at the next look.
static bool mi_hold_look_from(size_t* bucket, bool* is_again) {
  size_t budget = MI_HOLD_PAGES;
  bool is_any = false;
  mi_report_enter(MI_REPORT_IN_COLLECT);
  mi_lock_enter(&mi_state.thread_lock);
  for (; *bucket < MI_THEAP_BUCKETS; ++*bucket) {
    // The visitor has read all that it will; pairs with the release in `mi_hold_resume`.
    if (mi_atomic_load_acquire(&mi_state.visitors) != 0) {
      *bucket = MI_THEAP_BUCKETS;
      is_any = true;
      break;
    }
    mi_theap_t* home = mi_state.theap_bucket[*bucket];
    for (; home != NULL; home = home->bucket_next) {
      if (mi_hold_look_at(home, *is_again, &budget)) is_any = true;
    }
    *is_again = budget == 0;
    if (*is_again) break;
  }
  mi_lock_leave(&mi_state.thread_lock);
  mi_report_leave();
  return is_any;
}

MI_INTERNAL uint64_t mi_hold_look(uint64_t* due_ms) {
  if (!mi_hold_is_due()) return MI_HOLD_NEVER;
  const uint64_t now = mi_os_now_ms();
  if (now < *due_ms) return *due_ms - now;
  *due_ms = now + MI_HOLD_LOOK_MS;
  mi_atomic_store_relaxed(&mi_state.has_queued, false); // HOLD-6
  bool is_any = false;
  bool is_again = false;
  for (size_t bucket = 0; bucket < MI_THEAP_BUCKETS;) {
    if (mi_hold_look_from(&bucket, &is_again)) is_any = true;
  }
  if (is_any) mi_atomic_store_relaxed(&mi_state.has_queued, true);
  return is_any ? MI_HOLD_LOOK_MS : MI_HOLD_NEVER;
}
