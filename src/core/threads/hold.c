// SPDX-License-Identifier: MIT
// hold.c - the pages in the queues of a thread that sleeps, and those that it allocates medium
// blocks from, go to the pools, where other threads find them, and where the next free of others
// releases them when they are empty; those that are empty go back at once.
//
// Only the owner of a page sees that others have freed all of it. A thread that has freed a block
// of a page itself has the page in its queue; if it then sleeps, what others free there would stay
// for as long as it does (2 million blocks of 256 bytes, of which it freed every hundredth: 506
// MiB). And a thread that has freed all still has a page of each size that it used: 24 threads that
// each compressed a page of a web site, and wait for the next request, have 7.6 MiB in buffers.
//
//   `asked` of a home:   NONE --look--> ASKED --next look: it did not come--> TAKEN --> NONE
//                         ^               |
//                         '- the thread --'
//                             comes
//
// HOLD-1  a page whose owner word has MI_OWNER_HELD is changed, as its queue, only by who holds
//     the home of its thread. The flag keeps `free` from its fast path.
// HOLD-2  a page without that flag is changed by its thread alone, but for its links in a queue.
//     Of classes up to MI_SMALL_MAX a theap has at most MI_QUEUED_OWN of these in queues, so that
//     frees into small heaps are fast. A page that comes when there are so many gets the flag; the
//     others get it when the thread looks at its idle pages, and all get it at the start of the
//     purge thread. So does a page that is kept although it is empty: no block of it can be freed,
//     and before one is allocated it leaves the queue. Of larger classes (`mi_class_is_medium`) all
//     pages in queues have the flag, and current ones, too: a thread holds its home when it changes
//     `free` or `current` of such a class, or reads them to decide. Those of smaller classes,
//     guests and portions belong to the thread alone.
// HOLD-3  no free waits: if the purge thread has the queues, the block is pushed as by any other
//     thread (remote.c), and a page that this claims goes to the pool. A malloc waits for the
//     thread lock, which the purge thread leaves after MI_ASLEEP_PAGES at most, and takes the
//     queues back.
// HOLD-4  the purge thread changes `asked`, and the queues while it is TAKEN, only under the thread
//     lock. So who has that lock need not hold a home; and a fork finds no queue half changed.
// HOLD-5  the thread writes `hold`, then reads `asked`; the purge thread writes ASKED, then reads
//     `hold`. If each missed what the other wrote, both would be at the queues. Two fences would
//     exclude that (Dekker), but that of the thread would cost each free into a queue more than
//     the rest of it (1.9 times the time of a replacement). So the purge thread lets
//     MI_ASLEEP_LOOK_MS pass between its two steps. A processor holds a store back for less than
//     some microseconds, and for no interrupt; C11 (7.17.3) asks for "a reasonable amount of time".
//     From ASKED on, the exchange of `asked` decides who comes in.
// HOLD-6  a page is not missed: the purge thread clears `has_queued` before it comes to a home. If
//     it is there before the page, the thread that brings the page sees the flag cleared, because
//     it came in after the purge thread had left; else the purge thread finds the page. A home to
//     which nobody came since its queues were taken is left out; one that just came may not be seen
//     (as in HOLD-5), so that a look that finds nothing is followed by one more.
// HOLD-7  who reads lists of pages that other threads own (visit.c) does so while `visitors` is not
//     0. The purge thread looks at that under the thread lock, which a visitor takes once after it
//     counted.
//
// A thread sleeps if `hold` is the same at two looks: it came to no slow path of malloc, allocated
// no medium block, and freed into no page of its queues. If it works all the same, it loses nothing
// but time: it finds the pages in the pool, or takes them back at its next free (`mi_pool_lend`).
//
// Deliberately absent: the lists that malloc pops small blocks from, and guests. Whoever takes
// these must know that the thread is not inside of a fast path, which costs that path some
// instructions (a pair of malloc and free of medium blocks takes 7.3 ns without, 8.9 with it), or
// sends the thread a signal.
#include "hold.h"

MI_INTERNAL mi_attr_cold mi_hold_t mi_hold_answer(mi_theap_t* home) {
  uint32_t asked = MI_HOLD_ASKED;
  // Pairs with none: it only says that the purge thread has not come.
  if (mi_atomic_cas_strong_acquire(&home->asked, &asked, MI_HOLD_NONE)) return MI_HOLD_ENTERED;
  // Sees what the purge thread did, if it has just left; pairs with the release in
  // `mi_asleep_look_at`.
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
