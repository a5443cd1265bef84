// SPDX-License-Identifier: MIT
// shadow.c - see shadow.h.
#include "shadow.h"

#include <errno.h>
#include <stdio.h>

shadow_t fuzz;
bool is_traced;

// -- Contents --

// Blocks above this are written and looked at in places: their first and last bytes, and a word
// in each OS page between.
#define DENSE_MAX ((size_t)8192)

static size_t next_spot(size_t i, size_t size) {
  return size <= DENSE_MAX || i < 512 || i >= size - 512
             ? i + 1
             : (i + 4096 < size - 512 ? i + 4096 : size - 512);
}

// Bytes that differ, so that a shifted copy is noticed.
static uint8_t pattern_byte(uint64_t pattern, size_t i) {
  return (uint8_t)((pattern ^ (i / 8 * UINT64_C(0xD6E8FEB86659FD93))) >> (i % 8 * 8));
}

// The places are those of the whole block, whatever part of it is looked at.
static void write_pattern(const block_t* b) {
  for (size_t i = 0; i < b->filled; i = next_spot(i, b->filled)) {
    b->p[i] = pattern_byte(b->pattern, i);
  }
}

static void check_pattern(const block_t* b, const uint8_t* p, size_t kept) {
  for (size_t i = 0; i < kept; i = next_spot(i, b->filled)) {
    CHECK(p[i] == pattern_byte(b->pattern, i) && "the contents are kept");
  }
}

static void check_zero(const uint8_t* p, size_t from, size_t to) {
  for (size_t i = from; i < to; i = from + next_spot(i - from, to - from)) {
    CHECK(p[i] == 0 && "what must be zero is");
  }
}

void check_block(const block_t* b) {
  check_pattern(b, b->p, b->filled);
  if (b->is_zero_behind) check_zero(b->p, b->filled, mi_usable_size(b->p));
  const mi_heap_t* const heap = b->home == HOME_UNKNOWN ? NULL : fuzz.home[b->home].heap;
  if (heap != NULL) {
    CHECK(mi_heap_of(b->p) == heap && mi_heap_contains(heap, b->p));
    CHECK(mi_heap_of(b->p + b->size / 2) == heap);
  }
}

// -- When NULL is right --

bool is_refused_since(size_t seen) {
  if (os_fake.log_count - seen > OS_FAKE_LOG_SIZE) return true;
  for (size_t i = seen; i < os_fake.log_count; i++) {
    if (os_fake.log[i % OS_FAKE_LOG_SIZE].is_failed) return true;
  }
  return false;
}

void start_call(void) {
  fuzz.log_seen = os_fake.log_count;
  errno = 0;
}

bool is_block(const void* p, size_t home) {
  const bool is_refused = is_refused_since(fuzz.log_seen);
  fuzz.has_failed |= is_refused;
  if (p != NULL) return true;
  CHECK(is_refused || fuzz.is_scarce || (home < HOME_COUNT && fuzz.home[home].is_bounded));
  CHECK(errno == ENOMEM);
  return false;
}

// -- The model --

block_t* used_block(void) {
  const size_t first = fuzz_below(&fuzz.in, BLOCK_COUNT);
  for (size_t i = 0; i < BLOCK_COUNT; i++) {
    block_t* const b = &fuzz.block[(first + i) % BLOCK_COUNT];
    if (b->p != NULL && !b->is_deferred) return b;
  }
  return NULL;
}

block_t* unused_block(void) {
  const size_t first = fuzz_below(&fuzz.in, BLOCK_COUNT);
  for (size_t i = 0; i < BLOCK_COUNT; i++) {
    block_t* const b = &fuzz.block[(first + i) % BLOCK_COUNT];
    if (b->p == NULL) return b;
  }
  return NULL;
}

static void check_no_overlap(const block_t* b, size_t usable) {
  for (size_t i = 0; i < BLOCK_COUNT; i++) {
    const block_t* const other = &fuzz.block[i];
    if (other == b || other->p == NULL) continue;
    CHECK(b->p + usable <= other->p || other->p + mi_usable_size(other->p) <= b->p);
  }
}

void accept_block(block_t* b, size_t kept) {
  if (is_traced) {
    fprintf(stderr, "  block %zu: %p, %zu bytes, alignment %zu at %zu, heap %zu\n",
            (size_t)(b - fuzz.block), (void*)b->p, b->size, b->alignment, b->offset, b->home);
  }
  const size_t usable = mi_usable_size(b->p);
  CHECK(usable >= b->size && mi_malloc_size(b->p) == usable);
  CHECK(((uintptr_t)b->p + b->offset) % b->alignment == 0);
  CHECK((uintptr_t)b->p % (b->offset == 0 && b->size >= 16 ? 16 : 8) == 0 || b->alignment > 1);
  check_no_overlap(b, usable);
  check_pattern(b, b->p, kept);
  if (b->is_zero_behind) check_zero(b->p, kept, usable);
  b->filled = b->is_zero_behind ? b->size : usable;
  b->pattern = ++fuzz.next_pattern * UINT64_C(0x9E3779B97F4A7C15);
  write_pattern(b);
  check_block(b);
  fuzz.live += b->size;
}
