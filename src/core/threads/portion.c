// SPDX-License-Identifier: MIT
// portion.c - blocks of several pages that a thread holds ready, where no page is current.
//
//   a page without owner, in a crowd --refill: a few of its blocks (refill.c)--> free[c] --> malloc
//   a page with few free blocks, without a crowd --refill: all of them-->        free[c] --> malloc
//        ^                                                                        ^
//        '----------------- a free, when it is full --------------- a free -------'
//
// In a crowd: if each thread had a page of its own for each class, a sleeping thread would hold 4
// KiB and more in each, which no other thread could use: 119 MiB with 800 threads. With portions
// they hold a few MiB, and still most mallocs and frees touch no shared data.
//
// Without a crowd: a thread that replaces blocks at random in a full heap finds a few blocks in
// each page, and each page costs several cache misses and two exchanges: it is searched, made
// current, parked, and taken back at the next free. With a portion its full pages stay parked, and
// what was freed last, which is in the cache, is allocated next (a replacement takes half of the
// time in a heap of 2,000 blocks of 500 bytes, and 0.8 of it with 100,000 of these or with 300,000
// blocks of 16 to 2,000 bytes). A page with many free blocks had better be current, because a free
// into a page that is not parked is faster.
//
// PORTION-1  `free[c]` is a portion as long as `current[c]` is none. Its blocks may be of several
//     pages, and count as used there.
// PORTION-2  a portion has at most mi_portion_length(theap, c) blocks, of which a refill takes half
//     (more, if it is from before there were so many threads); without a crowd
//     mi_portion_own_length(c), or less (PORTION-6). Where that is one, there is no portion between
//     calls. Of blocks that threads exchange a refill takes a quarter, and a portion is full with
//     3/8: to count a list is a cache miss for each block, and so it is counted half as often as
//     if it had only so many.
// PORTION-3  a thread that ends or gives up everything returns its portions first: no other code
//     looks for blocks in the lists of a theap without pages.
// PORTION-4  without a crowd only a refill begins a portion, by giving it room, and one that is
//     full goes back as a whole: a thread that only frees keeps no page by a block in a portion.
//     (Of one with exchanged blocks half goes back.)
// PORTION-5  a thread that allocates and frees from one portion still comes to the slow path of
//     malloc: when its room is used up, and it is not full, then blocks were allocated from it.
//     Each time stands for a refill, and when none is left, the portion goes back.
//
// PORTION-6  threads that exchange blocks of a small class have portions of it, as long as the heap
//     is small for them (`mi_crowd_may_exchange`), and what they free of others joins these. If
//     each had pages of its own, a thread whose blocks others have replaced while it did not run
//     would have the memory of all of them (16 threads that replace 2 MiB of blocks in turns: 46
//     MiB, 16 so; and what was freed last is in the cache: 0.6 of the time). Of blocks of more than
//     two cache lines they keep no page: the page that a refill took some from is for all, so that
//     no thread has free blocks but those of its portion, and any block that is freed joins one
//     (22 MiB where they kept the page). Shorter ones of one page would lie in the same cache lines
//     as those of another thread, which then wait for each other (mstress: 1.05 of the time). In a
//     large heap an exchange is no gain, and a portion of a thread that sleeps keeps a page by each
//     block. In a heap of a MiB for each thread there is little to save, and a block that the
//     thread has never seen is dearer than one of its page (sh8bench: 1.3 of the time). Threads
//     that do not exchange blocks keep pages, whose blocks lie together. What tells them apart is a
//     score: it grows with the blocks of others that the thread frees and with those that join the
//     portion, and falls with half of those that it takes from pages.
//
// PORTION-7  blocks go back to their pages in chains, one for each page as far as MI_PORTION_BINS
//     bins can tell them apart: a chain costs an atomic operation on a line that others write.
//
// Deliberately absent: an exact count for each list. `room` says how many blocks may be added
// before the list is counted again.
#include "portion.h"

#include "hold.h"

#define MI_PORTION_BINS ((size_t)8) // a power of two

MI_INTERNAL mi_attr_noinline size_t mi_portion_blocks(size_t bytes, size_t size_class) {
  const size_t count = bytes / mi_class_size(size_class);
  return mi_bits_max(mi_bits_min(count, MI_PORTION_OWN_MAX), 1);
}

// What a walk through a list found.
typedef struct mi_portion_walk_s {
  size_t count;
  mi_block_t* middle; // up to it are half of the blocks, but not more than half of `length`
  bool is_valid;
} mi_portion_walk_t;

// Walk through a list, which the program may have damaged.
static mi_portion_walk_t mi_portion_walk(mi_block_t* block, size_t c, size_t length) {
  mi_portion_walk_t walk = {.middle = block, .is_valid = false};
  const mi_page_t* page = NULL;
  for (; block != NULL; block = mi_block_next(block)) {
    if (page == NULL || !mi_page_has_address(page, block)) {
      page = mi_pagemap_find(block);
      if (page == NULL || page->size_class != c) return walk;
    }
    if (mi_page_block_of(page, block) != block) return walk;
    if (walk.count > 0 && walk.count % 2 == 0 && walk.count < length) {
      walk.middle = mi_block_next(walk.middle);
    }
    if (++walk.count > MI_PORTION_OWN_MAX) return walk; // a loop
  }
  walk.is_valid = true;
  return walk;
}

MI_INTERNAL bool mi_portion_is_valid(const mi_theap_t* theap, size_t size_class) {
  const mi_portion_walk_t walk = mi_portion_walk(mi_portion_of(theap, size_class), size_class, 0);
  return walk.is_valid && walk.count <= mi_portion_most(size_class);
}

// Return a chain of blocks to their page. An earlier block of the portion may have brought it back
// to this thread: then they are free as in `mi_free`, but the page does not become empty here.
static void mi_portion_return_chain(mi_page_t* page, mi_block_t* first, mi_block_t* last,
                                    uint32_t count) {
  mi_theap_t* const home = mi_self_home();
  const mi_hold_t hold = home->thread_id != 0 ? mi_hold_try(home) : MI_HOLD_REFUSED;
  const uintptr_t owner = mi_atomic_load_relaxed(&page->owner);
  const bool is_here =
      hold != MI_HOLD_REFUSED && mi_owner_is(owner, home->thread_id) && page->count.used > count;
  if (is_here) {
    mi_block_set_next(last, page->local_free);
    page->local_free = first;
    page->count.used -= count;
  }
  mi_hold_leave(home, hold);
  if (!is_here) mi_reclaim_chain(page, first, last, count);
}

// Blocks of one page that go back together, in the order of their list.
typedef struct mi_portion_bin_s {
  mi_page_t* page; // NULL: there are none
  mi_block_t* first;
  mi_block_t* last;
  uint32_t count;
} mi_portion_bin_t;

static void mi_portion_empty_bin(const mi_portion_bin_t* bin) {
  if (bin->page != NULL) mi_portion_return_chain(bin->page, bin->first, bin->last, bin->count);
}

static void mi_portion_put_into_bin(mi_portion_bin_t* bin, mi_page_t* page, mi_block_t* block) {
  if (bin->page == page) {
    // Where the list led there already nothing is written. Its link is not followed: it may lead to
    // a block that has gone back meanwhile.
    if (mi_block_peek(bin->last) != block) mi_block_set_next(bin->last, block);
    bin->last = block;
    bin->count++;
  } else {
    mi_portion_empty_bin(bin);
    *bin = (mi_portion_bin_t){.page = page, .first = block, .last = block, .count = 1};
  }
}

// Return the blocks of a list to their pages: PORTION-7.
static void mi_portion_return(mi_theap_t* theap, size_t c, mi_block_t* block) {
  mi_portion_bin_t bins[MI_PORTION_BINS] = {{0}};
  int32_t count = 0;
  while (block != NULL) {
    mi_page_t* const page = mi_pagemap_find(block);
    mi_block_t* const next = mi_block_next(block);
    const size_t slice = (uintptr_t)page->start >> MI_SLICE_SHIFT;
    mi_portion_put_into_bin(&bins[slice % MI_PORTION_BINS], page, block);
    count++;
    block = next;
  }
  mi_handed_count(theap, c, -count);
  for (size_t i = 0; i < MI_PORTION_BINS; i++) mi_portion_empty_bin(&bins[i]);
}

// Return a portion. Its list may be damaged: then its blocks stay in use.
static void mi_portion_return_class(mi_theap_t* theap, size_t c) {
  mi_block_t* const list = mi_portion_of(theap, c);
  if (list == NULL) return;
  const bool is_valid = mi_portion_is_valid(theap, c);
  theap->free[c] = NULL; // first: a report may allocate
  mi_handed_set_room(theap, c, 0);
  if (!is_valid) {
    mi_report(MI_ERROR_CORRUPT_LIST, "free", list, mi_class_size(c));
    return;
  }
  mi_portion_return(theap, c, list);
}

MI_INTERNAL void mi_portion_return_all(mi_theap_t* theap) {
  for (size_t c = 0; c < MI_CLASS_COUNT; c++) {
    if (theap->free[c] != NULL) mi_portion_return_class(theap, c);
    if (theap->free[c] == NULL) mi_handed_set_room(theap, c, 0); // an empty portion may have room
  }
}

// Push a block, unless it was freed just before. The list has room for it.
static void mi_portion_push_checked(mi_theap_t* theap, mi_page_t* page, mi_block_t* block) {
  if (mi_unlikely(block == theap->free[page->size_class])) {
    mi_report_block(MI_ERROR_DOUBLE_FREE, page, block, NULL);
  } else {
    mi_portion_push(theap, page->size_class, block);
  }
}

// Return the theap that a block of the page may be kept in, NULL if none: it has no current page of
// the class, so that its list is a portion.
static mi_theap_t* mi_portion_theap(mi_page_t* page) {
  mi_theap_t* const theap = mi_theap_find(mi_atomic_load_relaxed(&page->heap));
  if (theap == NULL || mi_theap_current(theap, page->size_class) != NULL) return NULL;
  return theap;
}

// The room is used up: see how much there is. A portion that is full gives back what was freed
// first: all of it, or half, so that a thread that only frees comes here once for so many blocks.
// True if there is room.
static mi_attr_noinline bool mi_portion_make_room(mi_theap_t* theap, size_t c, bool keeps_half) {
  const mi_portion_bounds_t bounds = mi_portion_bounds(theap, c);
  const mi_portion_walk_t walk = mi_portion_walk(theap->free[c], c, bounds.most);
  const bool is_full = walk.count >= bounds.full;
  if (mi_portion_exchanges(theap, c)) mi_portion_exchange_more(theap, c, MI_PORTION_EXCHANGE_ON);
  if (!walk.is_valid || (is_full ? !keeps_half : theap->quick_left <= 1)) { // PORTION-4, -5
    mi_portion_return_class(theap, c);
    return false;
  }
  if (!is_full) {
    theap->quick_left--;
    mi_handed_set_room(theap, c, bounds.most - walk.count);
    return true;
  }
  mi_handed_set_room(theap, c, bounds.most / 2);
  mi_block_t* const list = mi_block_next(walk.middle);
  mi_block_set_next(walk.middle, NULL);
  mi_portion_return(theap, c, list);
  return true;
}

MI_INTERNAL bool mi_portion_add(mi_page_t* page, mi_block_t* block) {
  const size_t c = page->size_class;
  if (mi_portion_length_max(c) == 1) return false;
  mi_theap_t* const theap = mi_portion_theap(page);
  if (theap == NULL || !mi_crowd_shares(theap)) return false;
  if (mi_portion_length(theap, c) == 1) return false;
  if (theap->room[c] == 0 && block != theap->free[c] && !mi_portion_make_room(theap, c, true)) {
    return false;
  }
  mi_portion_push_checked(theap, page, block);
  return true;
}

// Put a block into the portion that the theap has, if it has one; no page of the class is current.
// Out of line: in `free` it would lie where small programs run (layout.ld).
static mi_attr_noinline bool mi_portion_add_there(mi_theap_t* theap, mi_page_t* page,
                                                  mi_block_t* block) {
  const size_t c = page->size_class;
  if (mi_theap_cuts_all(theap)) return false;
  const mi_block_t* const newest = theap->free[c];
  if (theap->room[c] == 0 && block != newest) {
    if (newest == NULL || mi_portion_bounds(theap, c).most == 1) return false;
    const bool keeps_half = mi_portion_exchanges(theap, c); // PORTION-4
    if (!mi_portion_make_room(theap, c, keeps_half)) return false;
  }
  mi_portion_push_checked(theap, page, block);
  return true;
}

MI_INTERNAL bool mi_portion_add_own(mi_page_t* page, mi_block_t* block) {
  if (page->block_size > MI_PORTION_OWN_SIZE_MAX) return false;
  mi_theap_t* const home = mi_self_home();
  const mi_hold_t hold = mi_hold_try(home); // HOLD-2
  if (mi_unlikely(hold == MI_HOLD_REFUSED)) return false;
  mi_theap_t* const theap = mi_portion_theap(page);
  const bool is_added = theap != NULL && mi_portion_add_there(theap, page, block);
  mi_hold_leave(home, hold);
  return is_added;
}

MI_INTERNAL bool mi_portion_add_exchanged(mi_page_t* page, mi_block_t* block) {
  const size_t c = page->size_class;
  mi_theap_t* const home = mi_self_home();
  if (page->block_size > MI_PORTION_EXCHANGE_SIZE_MAX || home->thread_id == 0) return false;
  if (mi_likely(!mi_crowd_may_exchange(mi_theap_subproc(home)))) return false;
  if (mi_os_is_single_threaded() || mi_crowd_shares(home)) return false;
  if ((mi_atomic_load_relaxed(&page->owner) & ~MI_OWNER_FLAGS) == home->thread_id) return false;
  if (!mi_portion_exchanges(home, c)) {
    mi_portion_exchange_more(home, c, mi_portion_exchange_score(c, 1)); // PORTION-6
    return false;
  }
  if (mi_theap_current(home, c) != NULL) return false; // the next refill begins a portion
  if (mi_atomic_load_relaxed(&page->heap) != mi_theap_heap(home)) return false;
  // No medium class: nobody else reads its lists (HOLD-2).
  return mi_portion_add_there(home, page, block);
}
