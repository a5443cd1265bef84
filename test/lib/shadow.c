// SPDX-License-Identifier: MIT
// shadow.c - see shadow.h.
#include "shadow.h"

#include <mimalloc.h>
#include <string.h>

size_t shadow_dense_max = SIZE_MAX;

// The place after `i` that is looked at.
static size_t shadow_next(size_t i, size_t size) {
  if (size <= shadow_dense_max || i < 512 || i >= size - 512) return i + 1;
  return i + 4096 < size - 512 ? i + 4096 : size - 512;
}

// Words that differ, so that a shifted copy is noticed.
static uint64_t shadow_word(uint64_t pattern, size_t index) {
  return pattern ^ ((uint64_t)index * UINT64_C(0xD6E8FEB86659FD93));
}

static uint8_t shadow_byte(uint64_t pattern, size_t i) {
  const uint64_t word = shadow_word(pattern, i / 8);
  return ((const uint8_t*)&word)[i % 8];
}

// Whole words in front, if every byte counts. Returns where the rest begins.
static size_t shadow_whole_words(size_t size, size_t filled) {
  return filled <= shadow_dense_max ? size / 8 * 8 : 0;
}

static void shadow_write(const shadow_t* b) {
  const size_t whole = shadow_whole_words(b->filled, b->filled);
  for (size_t i = 0; i < whole; i += 8) {
    const uint64_t word = shadow_word(b->pattern, i / 8);
    memcpy(b->p + i, &word, 8);
  }
  for (size_t i = whole; i < b->filled; i = shadow_next(i, b->filled)) {
    b->p[i] = shadow_byte(b->pattern, i);
  }
}

// The places are those of the whole block, whatever part of it is looked at.
static bool shadow_is_kept(const shadow_t* b, size_t kept) {
  const size_t whole = shadow_whole_words(kept, b->filled);
  for (size_t i = 0; i < whole; i += 8) {
    uint64_t word;
    memcpy(&word, b->p + i, 8);
    if (word != shadow_word(b->pattern, i / 8)) return false;
  }
  for (size_t i = whole; i < kept; i = shadow_next(i, b->filled)) {
    if (b->p[i] != shadow_byte(b->pattern, i)) return false;
  }
  return true;
}

static bool shadow_is_zero(const uint8_t* p, size_t size) {
  if (size <= shadow_dense_max) return size == 0 || (p[0] == 0 && memcmp(p, p + 1, size - 1) == 0);
  for (size_t i = 0; i < size; i = shadow_next(i, size)) {
    if (p[i] != 0) return false;
  }
  return true;
}

// The alignment of every block, whoever asked for how much.
static size_t shadow_least_alignment(const shadow_t* b) {
  return b->offset == 0 && b->size >= 16 ? 16 : 8;
}

const char* shadow_accept(shadow_t* b, size_t kept, uint64_t pattern) {
  const size_t usable = mi_usable_size(b->p);
  if (usable < b->size) return "there is room for what was asked for";
  if (mi_malloc_size(b->p) != usable) return "mi_malloc_size says what mi_usable_size does";
  if (((uintptr_t)b->p + b->offset) % b->alignment != 0) return "it is aligned";
  const bool is_any = b->alignment == 1 || (b->alignment <= 16 && b->offset == 0);
  if (is_any && (uintptr_t)b->p % shadow_least_alignment(b) != 0) return "any block is aligned";
  if (!shadow_is_kept(b, kept)) return "the contents are kept";
  if (b->is_zero_behind && !shadow_is_zero(b->p + kept, usable - kept)) return "the rest is zero";
  b->filled = b->is_zero_behind ? b->size : usable;
  b->pattern = pattern;
  shadow_write(b);
  return NULL;
}

const char* shadow_look(const shadow_t* b) {
  if (!shadow_is_kept(b, b->filled)) return "the contents are kept";
  if (!b->is_zero_behind) return NULL;
  const size_t usable = mi_usable_size(b->p);
  return shadow_is_zero(b->p + b->filled, usable - b->filled) ? NULL : "the rest is zero";
}
