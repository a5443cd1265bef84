// SPDX-License-Identifier: MIT
// handed.h - how many blocks of each size class malloc has ever returned, which it does not count.
//
// Malloc takes blocks from the list of its class. Each list is put there by a slower path, which
// knows its length: the blocks of all lists, less those that are still in one, are those that
// malloc has returned. A list of blocks that the thread has freed itself is as long as the count of
// used blocks is short of all (LIFE-1). One that others have pushed is not measured, because each
// block would be a cache miss: who pushes a chain knows its length.
//
//   a list is put in place   +  mi_handed_out, mi_handed_add, by the owner     in the page
//   a chain is pushed        +  mi_handed_count, by the thread that frees      in its theap
//   frees may join a list    +  with the room for them: mi_handed_set_room     in the theap
//   blocks go back from a list, or a chain, to the free ones of their page     -  in either
//
// HANDED-1  `refilled.handed` is what the owner of the page has counted, modulo 2^32, since it was
//     settled, which is to add it to the figure of the class. That is done when the page is
//     released, and now and then while it is current.
// HANDED-2  each look at the cadence (refill.c) settles the current page of another class: so each
//     one is settled within MI_CLASS_COUNT * MI_QUICK_REFILLS lists of its theap, of at most
//     MI_SLICE_SIZE / 8 blocks. That is less than 2^31.
// HANDED-3  `unsettled` of a theap is within MI_HANDED_MAX; what is beyond that goes to the figure
//     of the class. A theap has nothing while `has_unsettled` is false; when it is settled is said
//     in TALLY-1.
// HANDED-4  who asks (usage.c) adds the figure of a class, what pages and theaps have, and
//     subtracts what is in lists and in the room of portions, as far as it may look there
//     (USAGE-1). It may not look at the lists of other threads: then the sum is too high by the
//     blocks that these hold ready, as the number of blocks in use is, and becomes less when they
//     put these back (a monitoring system is told the most there was: stats_metrics.c).
//
// Deliberately absent: figures of one heap, which would take a kilobyte in each; blocks with a page
// of their own, which are counted when they are made; peaks.
#ifndef MI_CORE_HANDED_H
#define MI_CORE_HANDED_H

#include "self.h"
#include "state.h"

#define MI_HANDED_MAX 16384
mi_static_assert(MI_SLICE_SIZE / 8 * MI_CLASS_COUNT < INT32_MAX / MI_QUICK_REFILLS, "HANDED-2");

// Count blocks of a page that the calling thread owns.
static inline void mi_handed_add(mi_page_t* page, int32_t count) {
  page->refilled.handed += (uint32_t)count;
}

// Count the blocks that the owner has freed as used, and as handed out: it has taken their list.
static mi_attr_inline void mi_handed_out(mi_page_t* page) {
  const uint32_t used = page->refilled.used;
  page->refilled.handed += used - page->count.used;
  page->count = (mi_page_count_t){used, false};
}

// HANDED-1. By the owner of the page.
MI_INTERNAL void mi_handed_settle_page(mi_subproc_t* subproc, mi_page_t* page);

// Count blocks in a theap of the calling thread, or, with the thread lock, in one without a thread.
MI_INTERNAL void mi_handed_count(mi_theap_t* theap, size_t size_class, int32_t count);

// Say how many frees may join the portion of a class: they count from now on.
static inline void mi_handed_set_room(mi_theap_t* theap, size_t size_class, size_t room) {
  const int32_t more = (int32_t)room - (int32_t)theap->room[size_class];
  if (more == 0) return;
  theap->room[size_class] = (uint8_t)room;
  mi_handed_count(theap, size_class, more);
}

// HANDED-3. Under the thread lock, as `mi_tally_settle`.
MI_INTERNAL void mi_handed_settle(mi_theap_t* theap);

#endif
