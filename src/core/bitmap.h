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
// B1  whoever cleared a bit of `free` by a claim owns the slice until it sets the bit again.
// B2  no function waits for another thread: each CAS that fails means that somebody else made
//     progress.
#ifndef MI_CORE_BITMAP_H
#define MI_CORE_BITMAP_H

#include "types.h"

#define MI_WORD_BITS ((size_t)64)
#define MI_BITMAP_NONE SIZE_MAX

// The part of the range [index, index + count) that lies in the word of `index`: its mask and its
// length.
static inline uint64_t mi_bitmap_mask(size_t index, size_t count, size_t* length) {
  const size_t bit = index % MI_WORD_BITS;
  *length = mi_bits_min(count, MI_WORD_BITS - bit);
  return mi_bits_mask(*length) << bit;
}

// Set bits; returns the old word. Publishes what this thread wrote to the slices.
static inline uint64_t mi_bitmap_or(mi_bitmap_word_t* word, uint64_t mask) {
  if (mi_os_is_single_threaded()) {
    const uint64_t old = mi_atomic_load_relaxed(word);
    mi_atomic_store_relaxed(word, old | mask);
    return old;
  }
  return mi_atomic_or_release(word, mask); // publishes; pairs with `mi_bitmap_try_claim`
}

// Clear bits whose order does not matter; returns the old word.
static inline uint64_t mi_bitmap_and_not(mi_bitmap_word_t* word, uint64_t mask) {
  if (mi_os_is_single_threaded()) {
    const uint64_t old = mi_atomic_load_relaxed(word);
    mi_atomic_store_relaxed(word, old & ~mask);
    return old;
  }
  return mi_atomic_and_relaxed(word, ~mask);
}

// Clear bits if the word is still `*old`; otherwise `*old` becomes what it is.
static inline bool mi_bitmap_take(mi_bitmap_word_t* word, uint64_t* old, uint64_t mask) {
  if (mi_os_is_single_threaded()) {
    mi_atomic_store_relaxed(word, *old & ~mask);
    return true;
  }
  // Sees what the thread that released the slices wrote; pairs with `mi_bitmap_or`.
  return mi_atomic_cas_weak_acquire(word, old, *old & ~mask);
}

// Set a range. Publishes what this thread wrote to the slices; pairs with the acquire in
// `mi_bitmap_try_claim`.
static inline void mi_bitmap_set_release(mi_bitmap_word_t* map, size_t index, size_t count) {
  while (count > 0) {
    size_t length;
    const uint64_t mask = mi_bitmap_mask(index, count, &length);
    mi_bitmap_or(&map[index / MI_WORD_BITS], mask);
    index += length;
    count -= length;
  }
}

// Set a range whose order does not matter; returns how many bits were clear before.
static inline size_t mi_bitmap_set(mi_bitmap_word_t* map, size_t index, size_t count) {
  size_t added = 0;
  while (count > 0) {
    size_t length;
    const uint64_t mask = mi_bitmap_mask(index, count, &length);
    mi_bitmap_word_t* const word = &map[index / MI_WORD_BITS];
    // Mostly set already: look before writing.
    if ((mi_atomic_load_relaxed(word) & mask) != mask) {
      added += length - mi_bits_count(mi_bitmap_or(word, mask) & mask);
    }
    index += length;
    count -= length;
  }
  return added;
}

// Clear a range whose order does not matter; returns how many bits were set before.
static inline size_t mi_bitmap_clear(mi_bitmap_word_t* map, size_t index, size_t count) {
  size_t removed = 0;
  while (count > 0) {
    size_t length;
    const uint64_t mask = mi_bitmap_mask(index, count, &length);
    mi_bitmap_word_t* const word = &map[index / MI_WORD_BITS];
    if ((mi_atomic_load_relaxed(word) & mask) != 0) {
      removed += mi_bits_count(mi_bitmap_and_not(word, mask) & mask);
    }
    index += length;
    count -= length;
  }
  return removed;
}

static inline bool mi_bitmap_is_all_set(mi_bitmap_word_t* map, size_t index, size_t count) {
  while (count > 0) {
    size_t length;
    const uint64_t mask = mi_bitmap_mask(index, count, &length);
    if ((mi_atomic_load_relaxed(&map[index / MI_WORD_BITS]) & mask) != mask) return false;
    index += length;
    count -= length;
  }
  return true;
}

// Clear the whole range if all of it is set. False: nothing changed (bits were clear, or a race was
// lost).
static inline bool mi_bitmap_try_claim(mi_bitmap_word_t* map, size_t index, size_t count) {
  size_t done = 0;
  while (done < count) {
    size_t length;
    const uint64_t mask = mi_bitmap_mask(index + done, count - done, &length);
    mi_bitmap_word_t* const word = &map[(index + done) / MI_WORD_BITS];
    uint64_t old = mi_atomic_load_relaxed(word);
    do {
      if ((old & mask) != mask) {
        mi_bitmap_set_release(map, index, done); // publishes nothing new: undo
        return false;
      }
    } while (!mi_bitmap_take(word, &old, mask));
    done += length;
  }
  return true;
}

// The lowest position in `x` where `count` set bits start, MI_BITMAP_NONE if there is none.
static inline size_t mi_bitmap_find_in_word(uint64_t x, size_t count) {
  // Shrink every run of ones by `count - 1` from above: what is left are the starts.
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

// The lowest index of at least `from` at which `count` set bits start and which is `bias` more than
// a multiple of `alignment` slices, by looking at one bit after the other; words that are all clear
// or all set are skipped.
static inline size_t mi_bitmap_find_run(mi_bitmap_word_t* map, size_t from, size_t end,
                                        size_t count, size_t alignment, size_t bias) {
  size_t start = from;
  while (true) {
    start = mi_bits_align_up(start + bias, alignment) - bias;
    if (count > end || start > end - count) return MI_BITMAP_NONE;
    // Walk from the end of the candidate: the last clear bit says where the next one can start.
    size_t length = 0;
    while (length < count) {
      const size_t i = start + length;
      const uint64_t x = mi_atomic_load_relaxed(&map[i / MI_WORD_BITS]) >> (i % MI_WORD_BITS);
      const size_t room = MI_WORD_BITS - i % MI_WORD_BITS;
      const size_t ones = ~x == 0 ? room : mi_bits_min(room, mi_bits_trailing_zeros(~x));
      length += ones;
      if (ones == room) continue;
      if (length >= count) break;
      // A clear bit at i + ones: skip all clear bits after it.
      const size_t clear = i + ones;
      const uint64_t y =
          mi_atomic_load_relaxed(&map[clear / MI_WORD_BITS]) >> (clear % MI_WORD_BITS);
      start = clear + (y == 0 ? MI_WORD_BITS - clear % MI_WORD_BITS
                              : mi_bits_max(mi_bits_trailing_zeros(y), 1));
      break;
    }
    if (length >= count) return start;
  }
}

#endif
