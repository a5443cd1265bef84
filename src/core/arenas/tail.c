// SPDX-License-Identifier: MIT
// tail.c - policy: what lies behind the last block of a page goes back when the page is old.
//
//   slice  | a block of 36 KiB |  28 KiB behind it  |
//
// A page never touches what is behind its blocks (sizeclass.c). But slices are used again and again
// by pages of all classes, and what an earlier page left there stays resident: 3,000 blocks of 33
// to 60 KB that are replaced at random hold 1.25 of what is in use, and 1.07 once their tails went
// back.
//
// For each chunk `tails` has a word with two bits for each of its slices. Those of the first slice
// of a page are the state of its tail:
//
//   0  none    there is none, or it went back
//   1  young   the page was made in this period
//   2  old     it was made before
//   3  busy    a purger gives it back
//
//   none -> young           who makes the page  mi_tail_begin
//   young -> old            a purger            mi_tail_age
//   young, old -> busy      a purger            mi_tail_claim
//   any -> none             that purger, and who releases the page  mi_tail_clear
//
// TAIL-1  a purger reads a page, and drops the memory behind its blocks, only while its state is
//     busy. A page that ends meanwhile leaves its slices to the purger, so that no other page is
//     made in them before that is done: of the two who take the bits off, the second one, who finds
//     none, releases the slices.
// TAIL-2  purgers have the purge lock, which a fork takes: no state is busy in the child.
// TAIL-3  slices with a tail that went back stay dirty, and committed: both say what may be
//     resident. What is charged becomes less (charge.c).
// TAIL-4  a tail goes back once in the life of its page, at each step MI_TAIL_BATCH of an arena, or
//     MI_TAIL_BATCH_APART on the purge thread: those of a large heap take some seconds. Each takes
//     a micro-second for the call, and up to ten for the page faults of who uses the slices next:
//     0.6 % of the time, 4.5 % of that of one processor beside a purge thread, while a heap has as
//     many that become old. Pages that are replaced within a period, one or two halves of
//     `purge_delay`, take no call.
// TAIL-5  where memory goes back at once (`purge_delay` 0), or is short (budget.c), the maker of a
//     page gives its tail back.
// TAIL-6  a chunk that was collapsed (collapse.c) is not cut for a tail; and one that may be a huge
//     page from the start (huge.c) only for MI_TAIL_CUT_MIN of them, an eighth of its slices, or
//     when all unused memory is asked for. What is left does not keep the purge thread awake.
// TAIL-7  what realloc cuts off a block with a page of its own goes back at once: the program said
//     that it needs no more. Not from a chunk that may be a huge page, and not from a block that
//     grew again after that: a buffer that is made longer and shorter in turns (300,000 bytes at
//     most) would take three times as long.
//
// Deliberately absent: other tails of single blocks, which are a small part of them; blocks of a
// page that were not carved yet, which are only its owner's.
#include "tail.h"

#include "bitmap.h"
#include "budget.h"
#include "charge.h"
#include "collapse.h"
#include "huge.h"
#include "purge.h"
#include "wait.h"

#define MI_TAIL_MIN_PART 16 // of a page; a shorter tail stays
#define MI_TAIL_MIN_PAGES 2 // OS pages, too
#define MI_TAIL_CUT_MIN 4 // TAIL-6

#define MI_TAIL_YOUNG ((uint64_t)1)
#define MI_TAIL_OLD ((uint64_t)2)
#define MI_TAIL_BUSY ((uint64_t)3)
#define MI_TAIL_BITS 2
#define MI_TAIL_LOW (UINT64_MAX / MI_TAIL_BUSY) // the lower bit of each state

mi_static_assert(MI_WORD_BITS / MI_CHUNK_SLICES == MI_TAIL_BITS, "a state for each slice");

static mi_atomic(uint64_t) * mi_tail_word(mi_arena_t* arena, size_t slice_index) {
  return &arena->chunks[slice_index / MI_CHUNK_SLICES].tails;
}

// Return where the state of a slice is in its word.
static unsigned mi_tail_shift(size_t slice_index) {
  return (unsigned)(slice_index % MI_CHUNK_SLICES) * MI_TAIL_BITS;
}

static uint64_t mi_tail_state(uint64_t word, unsigned shift) {
  return word >> shift & MI_TAIL_BUSY;
}

// A page has a tail: young.
static void mi_tail_begin(mi_atomic(uint64_t) * tails, unsigned shift) {
  const uint64_t young = MI_TAIL_YOUNG << shift;
  if (mi_os_is_single_threaded()) {
    mi_atomic_store_relaxed(tails, mi_atomic_load_relaxed(tails) | young);
  } else {
    // Publishes the page; pairs with the acquire in `mi_tail_claim`.
    mi_atomic_or_release(tails, young);
  }
}

// True if a tail is young or old.
static bool mi_tail_waits(uint64_t word, unsigned shift) {
  const uint64_t state = mi_tail_state(word, shift);
  return state == MI_TAIL_YOUNG || state == MI_TAIL_OLD;
}

// Make a state busy that is young or old. False if the page ended meanwhile.
static bool mi_tail_claim(mi_atomic(uint64_t) * tails, unsigned shift) {
  const uint64_t busy = MI_TAIL_BUSY << shift;
  uint64_t word = mi_atomic_load_relaxed(tails);
  while (mi_tail_waits(word, shift)) {
    if (mi_os_is_single_threaded()) {
      mi_atomic_store_relaxed(tails, word | busy);
      return true;
    }
    // Sees the page; pairs with the release in `mi_tail_begin`.
    if (mi_atomic_cas_weak_acquire(tails, &word, word | busy)) return true;
  }
  return false;
}

// Take the bits off; returns the state before.
static uint64_t mi_tail_clear(mi_atomic(uint64_t) * tails, unsigned shift) {
  const uint64_t mask = ~(MI_TAIL_BUSY << shift);
  uint64_t old = mi_atomic_load_relaxed(tails);
  if (mi_os_is_single_threaded()) {
    mi_atomic_store_relaxed(tails, old & mask);
  } else {
    // Sees what the other one did who takes them off, and shows what this one did: pairs with
    // `mi_tail_clear` there.
    old = mi_atomic_and_acq_rel(tails, mask);
  }
  return mi_tail_state(old, shift);
}

// Return where the tail of a page begins, and its length in whole OS pages.
static uint8_t* mi_tail_of(const mi_page_t* page, size_t* size) {
  const size_t start = mi_charge_round(page->reserved * page->block_size);
  const size_t end = page->slice_count * MI_SLICE_SIZE - MI_PAGE_FENCE_SIZE;
  *size = end > start ? mi_bits_align_down(end - start, mi_state.os.page_size) : 0;
  return page->start + start;
}

// Give a tail back. Returns how many bytes of it were charged.
static size_t mi_tail_purge(mi_arena_t* arena, uint8_t* start, size_t size) {
  if (!mi_charge_has_any(arena, start, size)) return 0; // nothing was there
  if (mi_option_value(purge_decommits) == 0 || !mi_purge_contents(arena, start, size)) return 0;
  return mi_charge_drop(arena, start, size);
}

MI_INTERNAL mi_attr_noinline void mi_tail_note(mi_arena_t* arena, mi_page_t* page) {
  size_t size;
  uint8_t* const start = mi_tail_of(page, &size);
  if (!MI_HAS_TAILS || size * MI_TAIL_MIN_PART < page->slice_count * MI_SLICE_SIZE) return;
  if (size < MI_TAIL_MIN_PAGES * mi_state.os.page_size) return;
  if (!mi_arena_is_mapped_by_us(arena)) return;
  if (mi_wait_delay_ms() == 0 || mi_budget_is_short(arena->subproc)) { // TAIL-5
    mi_tail_purge(arena, start, size);
    return;
  }
  page->has_tail = true;
  const size_t slice_index = mi_arena_slice_of(arena, page->start);
  mi_tail_begin(mi_tail_word(arena, slice_index), mi_tail_shift(slice_index));
  if (mi_likely(mi_atomic_load_relaxed(&arena->subproc->has_tails))) return;
  mi_atomic_store_relaxed(&arena->subproc->has_tails, true);
  mi_atomic_store_relaxed(&arena->subproc->had_tails, true);
  mi_wait_notice();
}

MI_INTERNAL bool mi_tail_forget(mi_arena_t* arena, const mi_page_t* page) {
  if (!MI_HAS_TAILS) return true;
  const size_t slice_index = mi_arena_slice_of(arena, page->start);
  const unsigned shift = mi_tail_shift(slice_index);
  return mi_tail_clear(mi_tail_word(arena, slice_index), shift) != MI_TAIL_BUSY;
}

// Give the tail of a page back, unless that has ended meanwhile. Returns the bytes that went.
static size_t mi_tail_take(mi_arena_t* arena, size_t slice_index) {
  mi_atomic(uint64_t)* const tails = mi_tail_word(arena, slice_index);
  const unsigned shift = mi_tail_shift(slice_index);
  if (!mi_tail_claim(tails, shift)) return 0;
  const mi_page_t* const page = mi_pagemap_slice(arena->start + slice_index * MI_SLICE_SIZE);
  const size_t slice_count = page->slice_count;
  size_t size;
  uint8_t* const start = mi_tail_of(page, &size);
  const size_t bytes = mi_tail_purge(arena, start, size);
  if (mi_unlikely(mi_tail_clear(tails, shift) != MI_TAIL_BUSY)) { // TAIL-1: the page has ended
    mi_wait_release(arena, slice_index, slice_count);
  }
  return bytes;
}

// Return the slices that are young, or old: the lower bits of their states.
static uint64_t mi_tail_young(uint64_t word) { return word & ~(word >> 1) & MI_TAIL_LOW; }
static uint64_t mi_tail_old(uint64_t word) { return word >> 1 & ~word & MI_TAIL_LOW; }

// All states of a word that are young become old. False if there is none.
static bool mi_tail_age(mi_atomic(uint64_t) * tails) {
  uint64_t word = mi_atomic_load_relaxed(tails);
  for (;;) {
    const uint64_t young = mi_tail_young(word);
    if (young == 0) return false;
    if (mi_os_is_single_threaded()) {
      mi_atomic_store_relaxed(tails, word + young);
      return true;
    }
    if (mi_atomic_cas_weak_relaxed(tails, &word, word + young)) return true;
  }
}

// Return how many old tails a chunk has at least that is cut for them: TAIL-6.
static size_t mi_tail_least(mi_subproc_t* subproc) {
  const bool is_large = mi_atomic_load_relaxed(&subproc->count.committed) >= MI_HUGE_HEAP_MIN;
  return is_large && mi_option_value(allow_thp) != 0 && mi_os_has_huge_pages() ? MI_TAIL_CUT_MIN
                                                                               : 1;
}

// What a walk over the chunks of an arena is to do, and what it did.
typedef struct mi_tail_walk_s {
  bool is_all; // young ones go, too
  size_t least; // tails that a chunk is cut for
  size_t batch, left; // tails of an arena that may go; that still may
  uint64_t end_ms; // when it is to end
  bool is_over; // it is that time
  size_t bytes; // that went
  bool is_pending; // tails became old
} mi_tail_walk_t;

static void mi_tail_visit(mi_arena_t* arena, size_t chunk, mi_tail_walk_t* walk) {
  mi_atomic(uint64_t)* const tails = &arena->chunks[chunk].tails;
  const uint64_t word = mi_atomic_load_relaxed(tails);
  if (mi_likely(word == 0)) return;
  uint64_t due = mi_tail_old(word) | (walk->is_all ? mi_tail_young(word) : 0);
  if (mi_bits_count(due) >= walk->least && !mi_collapse_is_huge(arena, chunk)) {
    for (; due != 0; due &= due - 1) {
      const size_t i = mi_bits_trailing_zeros(due) / MI_TAIL_BITS;
      walk->bytes += mi_tail_take(arena, chunk * MI_CHUNK_SLICES + i);
      if (walk->left > 0) walk->left--;
    }
    walk->is_over = mi_purge_is_over(walk->end_ms);
  }
  if (!walk->is_all && mi_tail_age(tails)) walk->is_pending = true;
}

// Visit the chunks of an arena, from where the last step stopped.
static void mi_tail_walk(mi_arena_t* arena, mi_tail_walk_t* walk) {
  mi_lock_expect(&mi_state.purge_lock);
  const size_t used_end = mi_atomic_load_relaxed(&arena->used_end);
  const size_t chunk_count = mi_bits_divide_up(used_end, MI_CHUNK_SLICES);
  walk->left = walk->batch;
  for (size_t i = 0; i < chunk_count && walk->left > 0 && !walk->is_over; i++) {
    if (arena->tail_chunk >= chunk_count) arena->tail_chunk = 0;
    mi_tail_visit(arena, arena->tail_chunk++, walk);
  }
  if (walk->left == 0 || walk->is_over) walk->is_pending = true;
}

// Under the purge lock.
static void mi_tail_walk_all(mi_subproc_t* subproc, mi_tail_walk_t* walk) {
  mi_atomic_store_relaxed(&subproc->has_tails, false); // first: others make pages meanwhile
  MI_FOR_EACH_ARENA(subproc, arena) { mi_tail_walk(arena, walk); }
  if (walk->is_pending) mi_atomic_store_relaxed(&subproc->has_tails, true);
}

MI_INTERNAL mi_attr_cold void mi_tail_cut(mi_arena_t* arena, uint8_t* start, size_t size) {
  const size_t chunk = mi_arena_slice_of(arena, start) / MI_CHUNK_SLICES;
  if (!MI_HAS_TAILS || size < MI_TAIL_MIN_PAGES * mi_state.os.page_size) return;
  if (mi_collapse_is_huge(arena, chunk) || mi_tail_least(arena->subproc) > 1) return;
  mi_tail_purge(arena, start, size);
}

MI_INTERNAL void mi_tail_step(mi_subproc_t* subproc, size_t batch, uint64_t end_ms) {
  if (!MI_HAS_TAILS || mi_likely(!mi_atomic_load_relaxed(&subproc->has_tails))) return;
  mi_tail_walk_t walk = {.least = mi_tail_least(subproc), .batch = batch, .end_ms = end_ms};
  mi_tail_walk_all(subproc, &walk);
}

MI_INTERNAL mi_attr_cold size_t mi_tail_purge_all(mi_subproc_t* subproc) {
  // Where there never was one, no word of an arena is touched.
  if (!MI_HAS_TAILS || !mi_atomic_load_relaxed(&subproc->had_tails)) return 0;
  // It is held if this thread purges, and a function of the program that decommits called us.
  if ((mi_self()->locks_held & mi_lock_bit(&mi_state.purge_lock)) != 0) return 0;
  mi_lock_enter(&mi_state.purge_lock);
  mi_tail_walk_t walk = {.is_all = true, .least = 1, .batch = SIZE_MAX, .end_ms = UINT64_MAX};
  mi_tail_walk_all(subproc, &walk);
  mi_lock_leave(&mi_state.purge_lock);
  return walk.bytes;
}
