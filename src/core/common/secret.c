// SPDX-License-Identifier: MIT
// secret.c - how the secret is drawn and put away: SECRET-1, SECRET-2 in secret.h.
//
// Either the constructor draws it, or the thread that sets the process up, if a malloc comes before
// the constructor; if both run at one moment, one of them waits for the other.
#include "secret.h"

#if MI_IS_SECURE

#define MI_SECRET_WORDS 7

MI_INTERNAL_DATA mi_secret_t mi_secret mi_attr_aligned(MI_SECRET_ROOM) mi_attr_sparse;

typedef enum mi_secret_stage_e {
  MI_SECRET_NONE = 0,
  MI_SECRET_BUSY, // a thread draws
  MI_SECRET_DRAWN,
} mi_secret_stage_t;

// stage - see mi_secret_stage_t.
//   write  any  CAS acquire    NONE -> BUSY  mi_secret_make  (no order is needed)
//   write  who set BUSY  store release  -> DRAWN  mi_secret_draw  (publishes the secret)
//   read   any  acquire        mi_secret_make  (sees the secret)
static mi_atomic(uint32_t) mi_secret_stage;

// Streams that were returned. Written by any thread, relaxed: each gets another number.
static mi_atomic(uint64_t) mi_secret_streams;

// Return the number whose product with `x`, which is odd, is 1. Each step doubles the number of low
// bits that are right (Newton's method; x is right in three).
static uint64_t mi_secret_inverse(uint64_t x) {
  uint64_t inverse = x;
  for (size_t bits = 3; bits < 64; bits *= 2) inverse *= 2 - x * inverse;
  return inverse;
}

static void mi_secret_draw(size_t page_size) {
  uint64_t words[MI_SECRET_WORDS];
  mi_os_secret(words, MI_SECRET_WORDS);
  mi_secret.factor = words[0] | 1;
  mi_secret.addend = words[1];
  mi_secret.times = words[2] | 1;
  mi_secret.inverse = mi_secret_inverse(mi_secret.times);
  mi_secret.block_factor = words[3] | 1;
  mi_secret.block = words[4];
  mi_secret.link = words[5];
  mi_secret.order = words[6];
  // Publishes the secret; pairs with the acquire in `mi_secret_make`.
  mi_atomic_store_release(&mi_secret_stage, MI_SECRET_DRAWN);
  if (page_size <= sizeof(mi_secret)) mi_os_make_constant(&mi_secret, sizeof(mi_secret));
}

MI_INTERNAL void mi_secret_make(size_t page_size) {
  // Sees the secret; pairs with the release in `mi_secret_draw`.
  while (mi_atomic_load_acquire(&mi_secret_stage) != MI_SECRET_DRAWN) {
    uint32_t none = MI_SECRET_NONE;
    // Pairs with none: the first one in sees the initial state.
    const bool is_first = mi_atomic_cas_strong_acquire(&mi_secret_stage, &none, MI_SECRET_BUSY);
    // In the child of a fork that happened meanwhile the other thread does not exist (INIT-3).
    if (is_first || mi_os_is_alone()) mi_secret_draw(page_size);
  }
}

MI_INTERNAL mi_random_t mi_secret_random(void) {
  const uint64_t count = mi_atomic_add_relaxed(&mi_secret_streams, 1);
  return (mi_random_t){mi_random_mix(mi_random_mix(mi_secret.order + count) ^ mi_secret.addend)};
}

#endif
