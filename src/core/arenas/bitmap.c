// SPDX-License-Identifier: MIT
// bitmap.c - operations on ranges of bits, one word after the other. bitmap.h says what they
// promise.
//
// The functions are not inlined: they run when pages are made and given back, and their loops are
// long.
#include "bitmap.h"

// Return the mask, and the length in bits, of the part of the range [index, index + count) that
// lies in the word of `index`.
static inline uint64_t mi_bitmap_mask(size_t index, size_t count, size_t* length) {
  const size_t bit = index % MI_WORD_BITS;
  *length = mi_bits_min(count, MI_WORD_BITS - bit);
  return mi_bits_mask(*length) << bit;
}

// Set bits; returns the old word. Publishes what this thread wrote to the slices; only the map
// `free` needs that.
static inline uint64_t mi_bitmap_or(mi_bitmap_word_t* word, uint64_t mask) {
  if (mi_os_is_single_threaded()) {
    const uint64_t old = mi_atomic_load_relaxed(word);
    mi_atomic_store_relaxed(word, old | mask);
    return old;
  }
  return mi_atomic_or_release(word, mask); // pairs with the acquire in `mi_bitmap_take`
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

// Clear bits if the word still equals `*old`; otherwise store its present value in `*old`.
static inline bool mi_bitmap_take(mi_bitmap_word_t* word, uint64_t* old, uint64_t mask) {
  if (mi_os_is_single_threaded()) {
    mi_atomic_store_relaxed(word, *old & ~mask);
    return true;
  }
  // Sees what the thread that gave the slices back wrote; pairs with the release in `mi_bitmap_or`.
  return mi_atomic_cas_weak_acquire(word, old, *old & ~mask);
}

MI_INTERNAL void mi_bitmap_set_release(mi_bitmap_word_t* map, size_t index, size_t count) {
  while (count > 0) {
    size_t length;
    const uint64_t mask = mi_bitmap_mask(index, count, &length);
    mi_bitmap_or(&map[index / MI_WORD_BITS], mask);
    index += length;
    count -= length;
  }
}

MI_INTERNAL size_t mi_bitmap_set(mi_bitmap_word_t* map, size_t index, size_t count) {
  size_t added = 0;
  while (count > 0) {
    size_t length;
    const uint64_t mask = mi_bitmap_mask(index, count, &length);
    mi_bitmap_word_t* const word = &map[index / MI_WORD_BITS];
    // Mostly the bits are set already: look before writing.
    if ((mi_atomic_load_relaxed(word) & mask) != mask) {
      added += length - mi_bits_count(mi_bitmap_or(word, mask) & mask);
    }
    index += length;
    count -= length;
  }
  return added;
}

MI_INTERNAL size_t mi_bitmap_clear(mi_bitmap_word_t* map, size_t index, size_t count) {
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

// True if all bits of the range are clear once they are XORed with `flip`, 0 or all ones.
static bool mi_bitmap_is_all(mi_bitmap_word_t* map, size_t index, size_t count, uint64_t flip) {
  while (count > 0) {
    size_t length;
    const uint64_t mask = mi_bitmap_mask(index, count, &length);
    if (((mi_atomic_load_relaxed(&map[index / MI_WORD_BITS]) ^ flip) & mask) != 0) return false;
    index += length;
    count -= length;
  }
  return true;
}

MI_INTERNAL size_t mi_bitmap_count(mi_bitmap_word_t* map, size_t word_count) {
  size_t count = 0;
  for (size_t w = 0; w < word_count; w++) count += mi_bits_count(mi_atomic_load_relaxed(&map[w]));
  return count;
}

MI_INTERNAL bool mi_bitmap_is_all_clear(mi_bitmap_word_t* map, size_t index, size_t count) {
  return mi_bitmap_is_all(map, index, count, 0);
}

MI_INTERNAL bool mi_bitmap_is_all_set(mi_bitmap_word_t* map, size_t index, size_t count) {
  return mi_bitmap_is_all(map, index, count, UINT64_MAX);
}

MI_INTERNAL size_t mi_bitmap_run_length(mi_bitmap_word_t* map, size_t index, size_t end) {
  size_t i = index;
  while (i < end) {
    const uint64_t x = ~mi_atomic_load_relaxed(&map[i / MI_WORD_BITS]) >> i % MI_WORD_BITS;
    const size_t left = MI_WORD_BITS - i % MI_WORD_BITS;
    const size_t ones = x == 0 ? left : mi_bits_min(left, mi_bits_trailing_zeros(x));
    i += ones;
    if (ones < left) break;
  }
  return mi_bits_min(i, end) - index;
}

MI_INTERNAL bool mi_bitmap_try_claim(mi_bitmap_word_t* map, size_t index, size_t count) {
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

MI_INTERNAL size_t mi_bitmap_find_run(mi_bitmap_word_t* map, size_t from, size_t end, size_t count,
                                      size_t alignment, size_t bias) {
  size_t start = from;
  while (true) {
    start = mi_bits_align_up(start + bias, alignment) - bias;
    if (count > end || start > end - count) return MI_BITMAP_NONE;
    // Walk from the end of the candidate: the last clear bit shows where the next candidate can
    // start.
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
