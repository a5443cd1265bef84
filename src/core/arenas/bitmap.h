// SPDX-License-Identifier: MIT
// bitmap.h - one bit per slice: find and claim runs of set bits, set and clear ranges, without
// locks.
//
// A claim clears bits one word after the other with CAS; if a later word fails, the bits already
// taken are set again. Two claims can thus both fail where one could have succeeded (the loser
// looks elsewhere), but no bit is ever handed out twice.
//
// While the process has one thread, plain loads and stores do the same (os.h): a program without
// threads executes no atomic read-modify-write at all.
//
// BITMAP-1  the thread that cleared a bit of `free` by a claim owns the slice until it sets the bit
//     again.
// BITMAP-2  no function waits for another thread: each CAS that fails means that another thread
//     made progress.
#ifndef MI_CORE_BITMAP_H
#define MI_CORE_BITMAP_H

#include "../common/common.h"

#define MI_WORD_BITS ((size_t)64)
#define MI_BITMAP_NONE SIZE_MAX

// Set a range. Publishes what this thread wrote to the slices; pairs with the acquires in
// `mi_bitmap_try_claim` and `mi_bitmap_is_set_acquire`.
MI_INTERNAL void mi_bitmap_set_release(mi_bitmap_word_t* map, size_t index, size_t count);

// Set a range whose order does not matter; returns how many bits were clear before.
MI_INTERNAL size_t mi_bitmap_set(mi_bitmap_word_t* map, size_t index, size_t count);

// Clear a range whose order does not matter; returns how many bits were set before.
MI_INTERNAL size_t mi_bitmap_clear(mi_bitmap_word_t* map, size_t index, size_t count);

// Return the number of set bits in the first `word_count` words.
MI_INTERNAL size_t mi_bitmap_count(mi_bitmap_word_t* map, size_t word_count);

MI_INTERNAL bool mi_bitmap_is_all_clear(mi_bitmap_word_t* map, size_t index, size_t count);

// Read one bit; if it is set, the caller sees what was done before that.
static inline bool mi_bitmap_is_set_acquire(mi_bitmap_word_t* map, size_t index) {
  // Pairs with the release in `mi_bitmap_or`, which `mi_bitmap_set_release` calls.
  const uint64_t word = mi_atomic_load_acquire(&map[index / MI_WORD_BITS]);
  return (word >> index % MI_WORD_BITS & 1) != 0;
}

MI_INTERNAL bool mi_bitmap_is_all_set(mi_bitmap_word_t* map, size_t index, size_t count);

// Return how many bits are set from `index` on without a gap, at most up to `end`.
MI_INTERNAL size_t mi_bitmap_run_length(mi_bitmap_word_t* map, size_t index, size_t end);

// Clear the whole range if all its bits are set. False if nothing changed (bits were clear, or a
// race was lost).
MI_INTERNAL bool mi_bitmap_try_claim(mi_bitmap_word_t* map, size_t index, size_t count);

// Return the lowest position in `x` where `count` set bits start, MI_BITMAP_NONE if there is none.
static inline size_t mi_bitmap_find_in_word(uint64_t x, size_t count) {
  // Shrink every run of ones by `count - 1` from above: the ones left are the starts.
  size_t left = count - 1;
  size_t shift = 1;
  while (left > 0 && x != 0) {
    const size_t step = mi_bits_min(shift, left);
    x &= x >> step;
    left -= step;
    shift *= 2;
  }
  return x == 0 ? MI_BITMAP_NONE : mi_bits_trailing_zeros(x);
}

// Return the lowest index of at least `from` at which `count` set bits start and which is `bias`
// more than a multiple of `alignment` slices, MI_BITMAP_NONE if there is none. The search goes bit
// by bit, but skips words that are all clear or all set.
MI_INTERNAL size_t mi_bitmap_find_run(mi_bitmap_word_t* map, size_t from, size_t end, size_t count,
                                      size_t alignment, size_t bias);

#endif
