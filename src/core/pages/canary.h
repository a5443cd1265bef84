// SPDX-License-Identifier: MIT
// canary.h - a value behind each block that a program does not know, checked when the block is
// freed or resized: in a secure build from level 3 on. (A padded build has more: track.h.)
//
//   | block, as the program asked for it | slack | canary: the last 8 bytes of the slot, or less |
//
// CANARY-1  the canary is as long as the slack, and at most 8 bytes. Whoever writes on from the
//     block into the next one crosses all of it. It tells how long the slack is, so that the usable
//     size of a block is what was asked for.
// CANARY-2  each byte is the slack, coded with a key of the block, and none is 0: the end of a
//     string that is one byte too long is noticed, too.
// CANARY-3  there is none where the request fills its slot: in a slot of 16 bytes, and behind a
//     block whose size is that of its alignment, of which a canary would need twice the memory. A
//     mark says so (MI_MARK_PLAIN). Any other request is one byte longer for it.
//
// The canary is in memory that the program can write to, and so is checked, never trusted: what the
// last byte says is compared with the size of the slot.
#ifndef MI_CORE_CANARY_H
#define MI_CORE_CANARY_H

#include <string.h>

#include "page.h"

#if MI_HAS_CANARY

// Return the size to ask the core for.
static mi_attr_inline size_t mi_canary_room(size_t size, size_t alignment) {
  if (size > MI_REQUEST_MAX) return size; // refused
  const bool is_plain = alignment <= 16 ? size <= MI_CANARY_NONE_SIZE : size % alignment == 0;
  return size + (is_plain ? 0 : 1);
}

// Return the end of the slot of the block at `p`, which has a page of its own.
MI_INTERNAL uint8_t* mi_canary_end_single(const void* p);

// Return the end of the slot of the block at `p`, whose mark is `mark`, or was before it was freed.
// The descriptor of its page, which may not be in the cache, is not needed.
static mi_attr_inline uint8_t* mi_canary_end(const void* p, uint32_t mark) {
  if (mi_unlikely(mark == MI_MARK_SINGLE)) return mi_canary_end_single(p);
  return (uint8_t*)(uintptr_t)p + mi_mark_size(mark);
}

// Write the canary of a block that is handed out, and was asked for with this size / of one that
// stays where it is, and now has this size. Returns the block.
MI_INTERNAL void* mi_canary_set(void* p, size_t size);
MI_INTERNAL void* mi_canary_reset(void* p, size_t size);

// Write the canary of a block of a class that malloc hands out, asked for with this size. What is
// in the block does not matter: as much of the last bytes as belongs to the block becomes 0. `key`
// is that of the block. Returns the block.
static mi_attr_inline void* mi_canary_give(void* p, size_t size_class, size_t size, uint64_t key) {
  const size_t slot_size = mi_class_sizes[size_class];
  const size_t slack = slot_size - size;
  if (slot_size == MI_CANARY_NONE_SIZE) return p;
  if (mi_unlikely(slack >= MI_CANARY_FAR)) return mi_canary_set(p, size);
  const uint8_t shift = mi_canary_shift[slack];
  const uint64_t word = (slack * MI_CANARY_EACH ^ mi_canary_key_by(key)) >> shift << shift;
  memcpy((uint8_t*)p + slot_size - MI_CANARY_SIZE, &word, sizeof(word));
  return p;
}

// Report the canary in front of `end`, which is not whole.
MI_INTERNAL void mi_canary_refuse(const void* p, const uint8_t* end, const char* where);

// Check the canary of a block in use, if it has one; `where` names the user's call.
MI_INTERNAL void mi_canary_check(const void* p, const char* where);

// True if a block of a class that is freed has a canary that is whole, or a slot that has none.
// Otherwise the next function is called, which also knows blocks that fill their slot, and reports.
// `mark` was `was`; `key` is that of the block.
static mi_attr_inline bool mi_canary_is_sound(const void* p, mi_mark_t* mark, uint32_t was,
                                              uint64_t key) {
  const size_t slot_size = mi_mark_size(was);
  if (slot_size == MI_CANARY_NONE_SIZE) return true;
  if (mi_unlikely(mi_mark_is_plain(mark))) return false;
  const uint8_t* const end = (const uint8_t*)p + slot_size;
  return mi_likely(mi_canary_is_whole(mi_canary_read(mi_canary_key_by(key), end)));
}

MI_INTERNAL void mi_canary_take(const void* p, uint32_t was);

// Return the bytes of the block that `p` lies in, from `p` on; / that it could have where it is.
MI_INTERNAL size_t mi_canary_usable(const void* p);
MI_INTERNAL size_t mi_canary_most(const void* p);

#else

static mi_attr_inline void mi_canary_check(const void* p, const char* where) {
  (void)p;
  (void)where;
}

static mi_attr_inline void* mi_canary_give(void* p, size_t size_class, size_t size, uint64_t key) {
  (void)size_class;
  (void)size;
  (void)key;
  return p;
}

static mi_attr_inline bool mi_canary_is_sound(const void* p, mi_mark_t* mark, uint32_t was,
                                              uint64_t key) {
  (void)p;
  (void)mark;
  (void)was;
  (void)key;
  return true;
}

static inline void mi_canary_take(const void* p, uint32_t was) {
  (void)p;
  (void)was;
}

#endif
#endif
