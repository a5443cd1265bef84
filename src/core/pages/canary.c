// SPDX-License-Identifier: MIT
// canary.c - canaries are set, and what is found where one was overwritten: canary.h.
#include "canary.h"

#if MI_HAS_CANARY

MI_INTERNAL mi_attr_noinline uint8_t* mi_canary_end_single(const void* p) {
  const mi_page_t* const page = mi_pagemap_find(p);
  return page->start + page->block_size;
}

// Return the end of the slot of the block at `p`, whose mark may change now, if the program is
// wrong.
static uint8_t* mi_canary_end_in(const mi_page_t* page, const uint8_t* p) {
  return (mi_page_is_single(page) ? page->start : (uint8_t*)(uintptr_t)p) + page->block_size;
}

// True if the block at `p`, whose slot ends at `end`, has no canary: CANARY-3.
static bool mi_canary_is_none(const void* p, const uint8_t* end) {
  return end == (const uint8_t*)p + MI_CANARY_NONE_SIZE || mi_mark_is_plain(mi_mark_find(p));
}

// Return the end of a slot, decoded, from the block at `p`.
static uint64_t mi_canary_read_of(const void* p, const uint8_t* end) {
  return mi_canary_read(mi_canary_key(p), end);
}

// Write the canary of a block whose slot, of over 16 bytes, ends at `end`, with `slack` bytes
// unused, at least one.
static void mi_canary_write(const void* p, uint8_t* end, size_t slack) {
  const uint64_t key = mi_canary_key(p);
  uint64_t word = mi_bits_min(slack, MI_CANARY_FAR) * MI_CANARY_EACH ^ key;
  if (slack < MI_CANARY_SIZE) {
    uint64_t before;
    memcpy(&before, end - MI_CANARY_SIZE, sizeof(before));
    const uint64_t kept = ((uint64_t)1 << mi_canary_shift[slack]) - 1;
    word = (word & ~kept) | (before & kept);
  } else if (mi_unlikely(slack >= MI_CANARY_FAR)) {
    const uint64_t far = slack ^ key;
    memcpy(end - 2 * MI_CANARY_SIZE, &far, sizeof(far));
  }
  memcpy(end - MI_CANARY_SIZE, &word, sizeof(word));
}

MI_INTERNAL mi_attr_noinline void* mi_canary_set(void* p, size_t size) {
  mi_mark_t* const mark = mi_mark_find(p);
  const bool is_single = mi_mark_is(mark, MI_MARK_SINGLE);
  uint8_t* const end = mi_canary_end(p, mi_mark_of(p));
  if (end == (uint8_t*)p + MI_CANARY_NONE_SIZE) return p;
  const size_t slack = (size_t)(end - (uint8_t*)p) - size;
  mi_assert(slack <= (size_t)(end - (uint8_t*)p));
  const bool is_guarded = is_single && mi_page_is_guarded(mi_pagemap_find(p));
  if (mi_unlikely(slack == 0 || is_guarded)) {
    mi_mark_set_plain(mark);
  } else {
    mi_canary_write(p, end, slack);
  }
  return p;
}

MI_INTERNAL void* mi_canary_reset(void* p, size_t size) {
  mi_mark_clear_plain(mi_mark_find(p));
  return mi_canary_set(p, size);
}

// Return the slack that a canary tells, which may have been overwritten.
static size_t mi_canary_told(const void* p, const uint8_t* end, uint64_t read) {
  const size_t slack = read >> 56;
  if (slack != MI_CANARY_FAR) return slack;
  uint64_t far;
  memcpy(&far, end - 2 * MI_CANARY_SIZE, sizeof(far));
  return far ^ mi_canary_key(p);
}

// Return the slack of a block; 0 if it is not known, because the canary was overwritten.
static size_t mi_canary_slack(const void* p, const uint8_t* end) {
  const uint64_t read = mi_canary_read_of(p, end);
  if (!mi_canary_is_whole(read)) return 0;
  const size_t slack = mi_canary_told(p, end, read);
  return slack <= (size_t)(end - (const uint8_t*)p) ? slack : 0;
}

MI_INTERNAL mi_attr_cold void mi_canary_refuse(const void* p, const uint8_t* end,
                                               const char* where) {
  const uint64_t read = mi_canary_read_of(p, end);
  const size_t room = (size_t)(end - (const uint8_t*)p);
  // What the last byte tells is believed if another byte of the canary tells the same.
  size_t unused = 1;
  const uint8_t* found = end - 1;
  const uint64_t wrong = read ^ (read >> 56) * MI_CANARY_EACH;
  const size_t count = mi_bits_min((size_t)(read >> 56), MI_CANARY_SIZE);
  for (size_t i = 2; i <= count; i++) {
    if ((wrong >> (64 - 8 * i) & 0xFF) == 0) unused = mi_canary_told(p, end, read);
  }
  for (size_t i = 2; unused > 1 && i <= count; i++) { // the lowest byte that is wrong
    if ((wrong >> (64 - 8 * i) & 0xFF) != 0) found = end - i;
  }
  const size_t size = room - mi_bits_min(unused, room);
  mi_report_write(MI_ERROR_OVERFLOW, where, p, size, found, (size_t)(end - found));
}

MI_INTERNAL void mi_canary_take(const void* p, uint32_t was) {
  const uint8_t* const end = mi_canary_end(p, was);
  if (end == (const uint8_t*)p + MI_CANARY_NONE_SIZE || mi_mark_clear_plain(mi_mark_find(p))) {
    return;
  }
  if (!mi_canary_is_whole(mi_canary_read_of(p, end))) mi_canary_refuse(p, end, "free");
}

MI_INTERNAL void mi_canary_check(const void* p, const char* where) {
  const uint8_t* const end = mi_canary_end_in(mi_pagemap_find(p), (const uint8_t*)p);
  if (mi_canary_is_none(p, end) || mi_canary_is_whole(mi_canary_read_of(p, end))) return;
  mi_canary_refuse(p, end, where);
}

MI_INTERNAL size_t mi_canary_usable(const void* p) {
  const mi_page_t* const page = mi_pagemap_find(p);
  if (page == NULL) return 0;
  const uint8_t* const block = mi_page_given(page, p);
  const uint8_t* end = mi_canary_end_in(page, block);
  if (!mi_canary_is_none(block, end)) end -= mi_bits_max(mi_canary_slack(block, end), 1);
  return (const uint8_t*)p < end ? (size_t)(end - (const uint8_t*)p) : 0;
}

MI_INTERNAL size_t mi_canary_most(const void* p) {
  const uint8_t* const end = mi_canary_end_in(mi_pagemap_find(p), (const uint8_t*)p);
  const size_t room = (size_t)(end - (const uint8_t*)p);
  return mi_canary_is_none(p, end) ? room : room - 1;
}

#endif
