// SPDX-License-Identifier: MIT
// pad.h - patterns in memory that a program must not write to, or not read: track.h says where they
// are.
#ifndef MI_CORE_PAD_H
#define MI_CORE_PAD_H

#include <string.h>

#include "../arenas/arenas.h"

// The values are those of mimalloc's debug build, which people know from their debuggers.
#define MI_PAD_FRESH ((uint8_t)0xD0) // in a block that was handed out and never written to
#define MI_PAD_FREED ((uint8_t)0xDF) // in a freed block
#define MI_PAD_AROUND ((uint8_t)0xDE) // around a block in use
// The contents of larger blocks are left alone: filling them would make all of it resident.
#define MI_PAD_CONTENTS_MAX MI_CLASS_MAX
// An alignment of 2^40 has a margin of that size.
#define MI_PAD_MARGIN_MAX (4 * MI_KIB)

static inline void mi_pad_fill(uint8_t* start, const uint8_t* end, uint8_t value) {
  memset(start, value, (size_t)(end - start));
}

// Return the first byte that is different from `value`, or NULL.
static inline const uint8_t* mi_pad_first(const uint8_t* start, const uint8_t* end, uint8_t value) {
  uint64_t word;
  uint64_t wanted;
  memset(&wanted, value, sizeof(wanted));
  while (start < end) {
    if (end - start >= (ptrdiff_t)sizeof(word)) {
      memcpy(&word, start, sizeof(word));
      if (word == wanted) {
        start += sizeof(word);
        continue;
      }
    }
    if (*start != value) return start;
    start++;
  }
  return NULL;
}

// Return the last one.
static inline const uint8_t* mi_pad_last(const uint8_t* start, const uint8_t* end, uint8_t value) {
  while (end > start) {
    if (*--end != value) return end;
  }
  return NULL;
}

#endif
