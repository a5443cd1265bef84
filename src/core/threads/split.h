// SPDX-License-Identifier: MIT
// split.h - which class serves a size: wide classes, which split as they fill.
#ifndef MI_CORE_SPLIT_H
#define MI_CORE_SPLIT_H

#include "theap.h"

// The first class that others can serve; its sizes begin after 128 bytes.
#define MI_SPLIT_FIRST 9
// The classes per doubling.
#define MI_SPLIT_TOP 8

// Return the smallest size that a class may serve.
static inline size_t mi_split_least_size(size_t size_class) {
  if (size_class < MI_SPLIT_FIRST) return size_class == 0 ? 0 : mi_class_size(size_class - 1) + 1;
  const size_t first =
      MI_HAS_SPLIT ? (size_class - 1) / MI_SPLIT_TOP * MI_SPLIT_TOP + 1 : size_class;
  return mi_class_size(first - 1) + 1;
}

// Return the class that serves `size` bytes, above MI_SMALL_MAX up to MI_CLASS_MAX, in the theap.
static mi_attr_inline size_t mi_split_class_of_medium(const mi_theap_t* theap, size_t size) {
  return theap->class_of[mi_class_entry(mi_class_of_medium(size))];
}

// The same for any size up to MI_CLASS_MAX.
static inline size_t mi_split_class(const mi_theap_t* theap, size_t size) {
  if (size > MI_SMALL_MAX) return mi_split_class_of_medium(theap, size);
  return theap->class_of[(size + 7) / 8];
}

// Serve all sizes by wide classes, in a theap that was just made.
MI_INTERNAL void mi_split_init(mi_theap_t* theap);

// The same for a list that is about to be filled: the sizes may get a class of their own for it.
MI_INTERNAL size_t mi_split_choose(mi_theap_t* theap, size_t size);

// True if a block of `size` bytes, up to MI_CLASS_MAX, gets the class `most`, or one below it; a
// class may split for that (SPLIT-6).
MI_INTERNAL bool mi_split_saves(mi_theap_t* theap, size_t size, size_t most);

// Let the next wider class serve the sizes of those that the theap has no page of.
MI_INTERNAL void mi_split_join(mi_theap_t* theap);

// True if SPLIT-1 holds.
MI_INTERNAL bool mi_split_is_valid(mi_theap_t* theap);

#endif
