// SPDX-License-Identifier: MIT
// slack.h - the code of a canary, which tells how many bytes at the end of a slot are unused.
//
//   | block, as the program asked for it | slack | canary: the last 8 bytes of the slot, or less |
//
// pages/canary.h has the rules, and canary.c writes canaries. The code is here, below it, because a
// report reads canaries, too (describe.c).
//
// SLACK-1  the slack is told by the highest byte; as many of the others tell the same as belong to
//     the canary. What lies in memory that the program can write to is compared, never trusted. A
//     number that tells no slack belongs to all eight bytes, which it never has.
#ifndef MI_CORE_SLACK_H
#define MI_CORE_SLACK_H

#include <string.h>

#include "secret.h"

// The size of slots that have no canary: CANARY-3.
#define MI_CANARY_NONE_SIZE ((size_t)16)

#if MI_HAS_CANARY

mi_static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the last byte is the highest");

#define MI_CANARY_SIZE ((size_t)8)
// A slack of so many bytes or more is told by the 8 bytes before the canary.
#define MI_CANARY_FAR ((size_t)0x78)

// The bits of the last 8 bytes of a slot that are no part of the canary, by the slack.
MI_INTERNAL_DATA_DECL const uint8_t mi_canary_shift[256];

// Return the key of a canary from that of its block (secret.h).
static mi_attr_inline uint64_t mi_canary_key_by(uint64_t key) {
  return key | UINT64_C(0x8080808080808080);
}

static inline uint64_t mi_canary_key(const void* p) {
  return mi_canary_key_by(mi_secret_of_block(p));
}

// Return the last 8 bytes of a slot, decoded: the highest byte is the slack, as is each of the
// others that belongs to the canary. `key` is that of the canary.
static mi_attr_inline uint64_t mi_canary_read(uint64_t key, const uint8_t* end) {
  uint64_t word;
  memcpy(&word, end - MI_CANARY_SIZE, sizeof(word));
  return word ^ key;
}

#define MI_CANARY_EACH UINT64_C(0x0101010101010101)

// True if this is a canary.
static mi_attr_inline bool mi_canary_is_whole(uint64_t read) {
  const uint64_t slack = read >> 56;
  return (read ^ slack * MI_CANARY_EACH) >> mi_canary_shift[slack] == 0;
}

#endif
#endif
