// SPDX-License-Identifier: MIT
// model.c - see model.h.
#include "model.h"

#include <errno.h>
#include <stdio.h>

model_t fuzz;
bool is_traced;

// `fact` does not hold, if there is one.
static void check_right(const shadow_t* b, const char* fact) {
  CHECK_SAY(fact == NULL, "%s: %p, %zu bytes", fact, (void*)b->p, b->size);
}

void check_block(const shadow_t* b) {
  check_right(b, shadow_look(b));
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

shadow_t* used_block(void) {
  const size_t first = fuzz_below(&fuzz.in, BLOCK_COUNT);
  for (size_t i = 0; i < BLOCK_COUNT; i++) {
    shadow_t* const b = &fuzz.block[(first + i) % BLOCK_COUNT];
    if (b->p != NULL && !b->is_deferred) return b;
  }
  return NULL;
}

shadow_t* unused_block(void) {
  const size_t first = fuzz_below(&fuzz.in, BLOCK_COUNT);
  for (size_t i = 0; i < BLOCK_COUNT; i++) {
    shadow_t* const b = &fuzz.block[(first + i) % BLOCK_COUNT];
    if (b->p == NULL) return b;
  }
  return NULL;
}

static void check_no_overlap(const shadow_t* b) {
  const size_t usable = mi_usable_size(b->p);
  for (size_t i = 0; i < BLOCK_COUNT; i++) {
    const shadow_t* const other = &fuzz.block[i];
    if (other == b || other->p == NULL) continue;
    CHECK(b->p + usable <= other->p || other->p + mi_usable_size(other->p) <= b->p);
  }
}

void accept_block(shadow_t* b, size_t kept) {
  if (is_traced) {
    fprintf(stderr, "  block %zu: %p, %zu bytes, alignment %zu at %zu, heap %zu\n",
            (size_t)(b - fuzz.block), (void*)b->p, b->size, b->alignment, b->offset, b->home);
  }
  check_no_overlap(b);
  const uint64_t pattern = ++fuzz.next_pattern * UINT64_C(0x9E3779B97F4A7C15);
  check_right(b, shadow_accept(b, kept, pattern));
  check_block(b);
  fuzz.live += b->size;
}
