// SPDX-License-Identifier: MIT
// portion.h - blocks of several pages that a thread holds ready.
#ifndef MI_CORE_PORTION_H
#define MI_CORE_PORTION_H

#include "crowd.h"
#include "reclaim.h"

// In a crowd a portion has at most this many bytes and blocks, but at least one block. With more
// threads than MI_PORTION_THREADS, those of a class have together as much as with so many, but each
// one has MI_PORTION_BYTES_MIN. A theap that has not refilled MI_PORTION_REFILLS lists has only
// that, too: its thread may have started to wait for ever.
#define MI_PORTION_BYTES (MI_SLICE_SIZE / 8)
#define MI_PORTION_BYTES_MIN (MI_SLICE_SIZE / 64)
#define MI_PORTION_THREADS ((size_t)64)
#define MI_PORTION_REFILLS 640
// Elsewhere it has this many bytes, within these numbers of blocks. Larger blocks have none.
#define MI_PORTION_OWN_BYTES MI_SLICE_SIZE
#define MI_PORTION_OWN_MAX ((size_t)128)
#define MI_PORTION_OWN_MIN ((size_t)16) // a shorter one is full or empty too often
#define MI_PORTION_OWN_SIZE_MAX (MI_SLICE_SIZE / 2) // 16 such blocks of each class may lie idle
// A thread that exchanges blocks with others has this many bytes, of blocks up to this size; it
// keeps no page of blocks longer than the next one. Its score of a class is in parts of such a
// portion: it exchanges from ON on, begins with START, and a portion whose room is used up counts
// for ON. See PORTION-6.
#define MI_PORTION_EXCHANGE_BYTES (MI_SLICE_SIZE / 2)
#define MI_PORTION_EXCHANGE_SIZE_MAX (MI_PORTION_EXCHANGE_BYTES / 8)
#define MI_PORTION_EXCHANGE_KEPT_MAX ((size_t)(MI_IS_TINY ? 16 : 128))
#define MI_PORTION_EXCHANGE_PART 256
#define MI_PORTION_EXCHANGE_ON 32
#define MI_PORTION_EXCHANGE_START 128

mi_static_assert(MI_PORTION_EXCHANGE_SIZE_MAX <= MI_SMALL_MAX, "each such class has a score");

// True for the classes of larger blocks.
static mi_attr_inline bool mi_portion_is_above(size_t size_class) {
  return size_class > mi_class_of(MI_PORTION_OWN_SIZE_MAX);
}

// The most blocks of a portion of `bytes` bytes.
MI_INTERNAL size_t mi_portion_blocks(size_t bytes, size_t size_class);

// The most blocks of a portion in a crowd, of any number of threads.
static inline size_t mi_portion_length_max(size_t size_class) {
  return mi_portion_blocks(MI_PORTION_BYTES, size_class);
}

// The same for this theap, with as many threads as there are.
static inline size_t mi_portion_length(const mi_theap_t* theap, size_t size_class) {
  if (theap->heartbeat < MI_PORTION_REFILLS) {
    return mi_portion_blocks(MI_PORTION_BYTES_MIN, size_class);
  }
  const mi_counters_t* const count = &mi_theap_subproc(theap)->count;
  const size_t threads = (size_t)mi_atomic_load_relaxed(&count->threads);
  if (mi_likely(threads <= MI_PORTION_THREADS)) return mi_portion_length_max(size_class);
  const size_t bytes = MI_PORTION_BYTES * MI_PORTION_THREADS / threads;
  return mi_portion_blocks(mi_bits_max(bytes, MI_PORTION_BYTES_MIN), size_class);
}

static inline size_t mi_portion_own_length(size_t size_class) {
  const size_t size = mi_class_size(size_class);
  if (size > MI_PORTION_OWN_SIZE_MAX) return 1;
  return mi_bits_max(mi_bits_min(MI_PORTION_OWN_BYTES / size, MI_PORTION_OWN_MAX),
                     MI_PORTION_OWN_MIN);
}

// True if the thread exchanges blocks of the class with others: PORTION-6.
static mi_attr_inline bool mi_portion_exchanges(const mi_theap_t* theap, size_t size_class) {
  return size_class < MI_CLASS_SMALL_COUNT && theap->exchange[size_class] >= MI_PORTION_EXCHANGE_ON;
}

// What so many blocks of the class are in its score. A few of the largest say nothing yet.
static inline size_t mi_portion_exchange_score(size_t size_class, size_t count) {
  const size_t unit = MI_PORTION_EXCHANGE_BYTES / MI_PORTION_EXCHANGE_PART;
  const size_t units = mi_class_size(size_class) / unit;
  return count * mi_bits_max(mi_bits_min(units, MI_PORTION_EXCHANGE_ON / 8), 1);
}

// Other classes have no score.
static inline void mi_portion_exchange_more(mi_theap_t* theap, size_t size_class, size_t more) {
  if (mi_class_is_medium(size_class)) return;
  const size_t score = theap->exchange[size_class] + more;
  theap->exchange[size_class] = (uint8_t)mi_bits_min(score, UINT8_MAX);
}

static inline void mi_portion_exchange_less(mi_theap_t* theap, size_t size_class, size_t less) {
  if (mi_class_is_medium(size_class)) return;
  const size_t score = theap->exchange[size_class];
  theap->exchange[size_class] = (uint8_t)(score - mi_bits_min(score, less));
}

// How many blocks a portion may have: PORTION-2.
typedef struct mi_portion_bounds_s {
  size_t most;
  size_t start; // so many a refill takes at most
  size_t full; // one that is counted is full with so many
} mi_portion_bounds_t;

// Return the bounds of the portions that the theap has now.
static inline mi_portion_bounds_t mi_portion_bounds(const mi_theap_t* theap, size_t size_class) {
  const bool is_shared = mi_crowd_shares(theap);
  if (!is_shared && mi_portion_exchanges(theap, size_class)) {
    const size_t most = mi_portion_blocks(MI_PORTION_EXCHANGE_BYTES, size_class);
    return (mi_portion_bounds_t){.most = most, .start = most / 4, .full = 3 * most / 8};
  }
  const size_t most =
      is_shared ? mi_portion_length(theap, size_class) : mi_portion_own_length(size_class);
  return (mi_portion_bounds_t){.most = most, .start = most / 2, .full = most};
}

// The most blocks of any portion.
static inline size_t mi_portion_most(size_t size_class) {
  return mi_bits_max(mi_portion_length_max(size_class), mi_portion_own_length(size_class));
}

// Return the first block of the portion of a class; NULL if it is empty, or if `free[size_class]`
// is not a portion.
static inline mi_block_t* mi_portion_of(const mi_theap_t* theap, size_t size_class) {
  return mi_theap_current(theap, size_class) == NULL ? theap->free[size_class] : NULL;
}

// Count the blocks of a list, up to `most`; the list may have a loop after a mistake of the user.
static inline size_t mi_portion_count(const mi_block_t* block, size_t most) {
  size_t count = 0;
  while (block != NULL && count < most) {
    block = mi_block_next(block);
    count++;
  }
  return count;
}

// Put a block that this thread frees into its portion of the class, in a crowd. False if it has
// none, or if that is full.
MI_INTERNAL bool mi_portion_add(mi_page_t* page, mi_block_t* block);

// The same for a block of a page that was full when this thread last used it, also without a crowd.
// A portion that is full goes back as a whole.
MI_INTERNAL bool mi_portion_add_own(mi_page_t* page, mi_block_t* block);

// Push a block onto a portion that has room for it.
static inline void mi_portion_push(mi_theap_t* theap, size_t size_class, mi_block_t* block) {
  theap->room[size_class]--;
  mi_block_set_next(block, theap->free[size_class]);
  theap->free[size_class] = block;
}

// The same in few instructions, where `theap` has a portion of the class with room. False also if
// there is something to look at: an address that is not one of a block, or was freed just before.
static inline bool mi_portion_add_quick(mi_theap_t* theap, mi_page_t* page, mi_block_t* block) {
  const size_t c = page->size_class;
  if (theap->room[c] == 0 || mi_theap_cuts_all(theap)) return false;
  if (mi_theap_current(theap, c) != NULL || block == theap->free[c]) return false;
  if (mi_atomic_load_relaxed(&page->heap) != mi_theap_heap(theap)) return false;
  if (!mi_page_has_place(page, block)) return false;
  mi_portion_push(theap, c, block);
  return true;
}

// Free a block of a page with this owner word, in a crowd or among threads that exchange blocks, if
// that takes few instructions. False, and nothing happened, if there is something to look at. (A
// thread without a home has no room, and no heap to look at.)
static inline bool mi_portion_free_others(mi_page_t* page, uintptr_t owner, mi_block_t* block) {
  if (owner <= MI_OWNER_MAX_SPECIAL && owner != MI_OWNER_SHARED) return false;
  mi_theap_t* const home = mi_self_home();
  const size_t c = page->size_class;
  if (home->room[c] == 0) return false;
  if (!mi_portion_exchanges(home, c) && !mi_crowd_shares(home)) return false;
  return mi_portion_add_quick(home, page, block);
}

// Free a block of a page that was full when this thread last used it, if that takes few
// instructions. False, and nothing happened, if there is something to look at.
static inline bool mi_portion_free_quick(mi_page_t* page, mi_block_t* block) {
  if (mi_portion_add_quick(mi_self_home(), page, block)) return true;
  // Larger blocks join neither a portion nor a parcel.
  if (page->block_size <= MI_PORTION_OWN_SIZE_MAX || !mi_page_has_place(page, block)) return false;
  mi_reclaim_chain(page, block, block, 1);
  return true;
}

// The same for a block of a page of others, if the thread exchanges blocks of the class, which this
// free may say, and there is no crowd.
MI_INTERNAL bool mi_portion_add_exchanged(mi_page_t* page, mi_block_t* block);

// True if PORTION-1 and PORTION-2 hold: the list, which the program may have damaged, has blocks of
// pages of the class, and not too many.
MI_INTERNAL bool mi_portion_is_valid(const mi_theap_t* theap, size_t size_class);

// Give all portions back to their pages.
MI_INTERNAL void mi_portion_return_all(mi_theap_t* theap);

#endif
