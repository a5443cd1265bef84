// SPDX-License-Identifier: MIT
// zeroed.c - decides how a long block that must be zero becomes so, if its memory was used before.
//
//   subproc->zeroed[log2 of the size]   | blocks that were absent : 24 | score : 8 |
//
// To clear 4 KiB takes 0.1 us, and then all of the block is resident. To give them back to the
// system takes a fault of 0.5 us and more for each OS page that the program touches, and those
// that it does not touch take no memory. What is right depends on what the program does.
//
// ZEROED-1  a block is cleared if the last ones of about its size were used, by an eighth at least,
//     all in all: about there both ways cost the same. They have a score: each adds as many points
//     as samples of it were used, of MI_ZEROED_SAMPLES OS pages, and takes one off.
// ZEROED-2  to look at a block is a fault for each sample that is absent: while the score is 0,
//     this is done with one block of MI_ZEROED_TURNS only. (A prime number: programs alternate.)
// ZEROED-3  a block is looked at when it is freed, by whatever thread, or when its size changes,
//     because the next one like it has the old size.
// ZEROED-4  a block of a class that is to be absent, or is to be looked at, has a page of its own
//     (slow.c).
//
// Deliberately absent: tracked builds. Tools see all that is written, and where all is cleared for
// that, all counts as used.
#include "zeroed.h"

#include <string.h>

// ZEROED-1
#define MI_ZEROED_SAMPLES ((size_t)8)
#define MI_ZEROED_SAMPLE_SIZE ((size_t)4096) // of an OS page, at most
#define MI_ZEROED_SCORE 16 // blocks are cleared from this score on
#define MI_ZEROED_SCORE_MAX ((size_t)32)
#define MI_ZEROED_SCORE_BITS 8
// ZEROED-2
#define MI_ZEROED_TURNS 13

// Return which of the sub-process' words is about blocks of this size, in whole OS pages or not.
static size_t mi_zeroed_index(size_t size) {
  return mi_bits_min(mi_bits_log2((size - 1) / MI_ZEROED_MIN), MI_ZEROED_SIZES - 1);
}

static size_t mi_zeroed_score(uint32_t word) { return word & ((1U << MI_ZEROED_SCORE_BITS) - 1); }

// Count a block; true for each MI_ZEROED_TURNS-th.
static bool mi_zeroed_is_turn(mi_subproc_t* subproc, size_t i, uint32_t word) {
  mi_atomic_store_relaxed(&subproc->zeroed[i], word + (1U << MI_ZEROED_SCORE_BITS));
  return (word >> MI_ZEROED_SCORE_BITS) % MI_ZEROED_TURNS == 0;
}

MI_INTERNAL mi_zeroed_t mi_zeroed_choose(mi_subproc_t* subproc, size_t size) {
  if (size <= MI_ZEROED_MIN || MI_IS_TRACKED) return MI_ZEROED_SHORT;
  const size_t i = mi_zeroed_index(size);
  const uint32_t word = mi_atomic_load_relaxed(&subproc->zeroed[i]);
  const size_t score = mi_zeroed_score(word);
  if (score >= MI_ZEROED_SCORE) return MI_ZEROED_CLEARED;
  const bool is_turn = mi_zeroed_is_turn(subproc, i, word);
  return score > 0 || is_turn ? MI_ZEROED_ABSENT_WATCHED : MI_ZEROED_ABSENT;
}

MI_INTERNAL bool mi_zeroed_is_apart(mi_subproc_t* subproc, size_t size) {
  mi_assert(size > MI_ZEROED_MIN);
  if (MI_IS_TRACKED) return false;
  const size_t i = mi_zeroed_index(size);
  const uint32_t word = mi_atomic_load_relaxed(&subproc->zeroed[i]);
  return mi_zeroed_score(word) < MI_ZEROED_SCORE || mi_zeroed_is_turn(subproc, i, word);
}

// True if an OS page has anything but zeros. (One that is absent does not become resident: the
// system has one page of zeros for all who only read.)
static bool mi_zeroed_is_used(const uint8_t* at) {
  const size_t size = mi_bits_min(mi_state.os.page_size, MI_ZEROED_SAMPLE_SIZE);
  uint64_t first;
  memcpy(&first, at, sizeof(first));
  // All words are zero if the first one is, and each equals the one before it.
  return first != 0 || memcmp(at, at + sizeof(first), size - sizeof(first)) != 0;
}

MI_INTERNAL mi_attr_cold void mi_zeroed_learn(mi_page_t* page) {
  page->is_watched = false;
  if (page->arena == NULL) return; // memory of its own is zero, always
  size_t used = 0;
  for (size_t k = 1; k <= MI_ZEROED_SAMPLES; k++) {
    const size_t offset = page->block_size / MI_ZEROED_SAMPLES * k - 1;
    used += mi_zeroed_is_used(page->start + mi_bits_align_down(offset, mi_state.os.page_size));
  }
  mi_subproc_t* const subproc = page->arena->subproc;
  const size_t i = mi_zeroed_index(page->block_size);
  const uint32_t word = mi_atomic_load_relaxed(&subproc->zeroed[i]);
  const size_t old = mi_zeroed_score(word);
  const size_t score = mi_bits_min(mi_bits_max(old + used, 1) - 1, MI_ZEROED_SCORE_MAX);
  mi_atomic_store_relaxed(&subproc->zeroed[i], word - (uint32_t)old + (uint32_t)score);
}
