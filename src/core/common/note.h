// SPDX-License-Identifier: MIT
// note.h - the code of the notes at the ends of slots, in builds that track blocks (MI_IS_TRACKED).
//
//   slot   | margin | block, as the program asked for it | slack | note: 16 bytes |
//
// pages/track.h has the rules, and track.c writes the notes. The code is here, below it, because a
// report reads notes, too (describe.c).
//
// NOTE-1  a word is coded as (word + key) * factor, modulo 2^64. A change of any byte but the
//     highest changes most of the bits above it in what is read; one of the highest is outside of
//     all addresses and sizes. So what is read is known to be damaged, or true.
// NOTE-2  both words are 0 where no block was ever handed out.
#ifndef MI_CORE_NOTE_H
#define MI_CORE_NOTE_H

#include "types.h"

#if MI_IS_TRACKED

#define MI_NOTE_SIZE ((size_t)16)
#define MI_NOTE_FACTOR UINT64_C(0x9E3779B97F4A7C15)
#define MI_NOTE_INVERSE UINT64_C(0xF1DE83E19937733D)
#define MI_NOTE_KEY UINT64_C(0x5DEECE66D6A09E66)
#define MI_NOTE_KEY_TWIN UINT64_C(0x3C6EF372FE94F82B)
// In both words of the note of a block that is not in use.
#define MI_NOTE_FREED ((uint64_t)1 << 63)
// Instead of the first word, while a note and the patterns around its block change: in the child of
// a fork, half of such a change by another thread is not taken for a mistake.
#define MI_NOTE_BUSY UINT64_C(0xB5297A4D3C1E0F87)

mi_static_assert(MI_NOTE_FACTOR* MI_NOTE_INVERSE == 1, "one undoes the other");

// What a note says.
typedef struct mi_note_s {
  uint8_t* block; // NULL: not known
  size_t size; // as it was asked for
  bool is_used;
  bool is_busy; // another thread takes it back
  uint64_t word; // the first one, as it is
} mi_note_t;

// Write the two words of a note. `flag` is 0 or MI_NOTE_FREED.
static inline void mi_note_encode(uint64_t words[2], const uint8_t* block, size_t size,
                                  uint64_t flag, uint64_t key) {
  words[0] = (((uintptr_t)block | flag) + key) * MI_NOTE_FACTOR;
  words[1] = ((size | flag) + key) * MI_NOTE_FACTOR;
}

// Read the two words of the note of a slot.
static inline mi_note_t mi_note_decode(const uint8_t* slot, size_t slot_size,
                                       const uint64_t words[2], uint64_t key) {
  mi_note_t note = {.word = words[0], .is_busy = words[0] == MI_NOTE_BUSY};
  const uint64_t word = words[0] * MI_NOTE_INVERSE - key;
  const uint64_t size_word = words[1] * MI_NOTE_INVERSE - key;
  const uint64_t block = word & ~MI_NOTE_FREED;
  const uint64_t size = size_word & ~MI_NOTE_FREED;
  const uintptr_t end = (uintptr_t)slot + slot_size - MI_NOTE_SIZE;
  if (((word ^ size_word) & MI_NOTE_FREED) != 0) return note; // NOTE-1
  if (block < (uintptr_t)slot || block > end || size > end - block) return note;
  note.block = (uint8_t*)(uintptr_t)block;
  note.size = (size_t)size;
  note.is_used = (word & MI_NOTE_FREED) == 0;
  return note;
}

#endif
#endif
