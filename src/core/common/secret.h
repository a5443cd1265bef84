// SPDX-License-Identifier: MIT
// secret.h - the random numbers of a secure build (MI_SECURE), which a program must not know.
//
// SECRET-1  they are drawn from the system before the first page is made, and never change.
// SECRET-2  they lie alone in OS pages that are read-only from then on, so that no write of the
//     program can replace them.
//
// A link of a free block (block.h) is coded by an exclusive or with a key of the block, and then by
// a multiplication, so that no part of it can be changed on purpose: after any change it leads to
// an address beyond 2^MI_ADDRESS_BITS, but for one in 2^16 or fewer. malloc clears the link of a
// block that it hands out, so that programs do not see coded links and where they led. The canary
// of a block (slack.h) is coded with the same key, which a fast path so finds once; a secret keeps
// the two apart: who has read a canary does not know the key of the link.
#ifndef MI_CORE_SECRET_H
#define MI_CORE_SECRET_H

#include "types.h"

#if MI_IS_SECURE

// The largest OS page that the secret is alone in. Windows has only small ones, and its linkers do
// not align to more than two of them.
#define MI_SECRET_ROOM (MI_IS_WINDOWS ? 4 * MI_KIB : MI_IS_MACOS ? 16 * MI_KIB : 64 * MI_KIB)

typedef union mi_secret_s {
  struct {
    uint64_t factor, addend; // of the keys of places where functions are stored
    uint64_t times, inverse; // `times` is odd, times * inverse == 1
    uint64_t block_factor, block; // of the keys of blocks
    uint64_t link; // by which the key of a link differs from that of its block
    uint64_t order; // of the streams of mi_secret_random
  };
  uint8_t room[MI_SECRET_ROOM];
} mi_secret_t;

MI_INTERNAL_DATA_DECL mi_secret_t mi_secret;

// Draw the numbers, unless that was done. `page_size` is the size of an OS page, in bytes. For the
// constructor, which may ask the system (INIT-4), and for set-up, which may come before it.
MI_INTERNAL void mi_secret_make(size_t page_size);

// Return a stream that has not been returned before.
MI_INTERNAL mi_random_t mi_secret_random(void);

#else

static inline void mi_secret_make(size_t page_size) { (void)page_size; }

#endif

// Code a function of the program that is going to be called, or its argument, when it is stored at
// `at` / decode what is stored there. Nobody who cannot read the secret can write another one
// there: any other word becomes an address that no function has. (Each place has a key of its own,
// so that no word is moved from one place to another.) Without MI_SECURE nothing is coded.
#if MI_IS_SECURE

// The key of a place.
static inline uintptr_t mi_secret_key(const void* at) {
  return (uintptr_t)at * mi_secret.factor + mi_secret.addend;
}

static inline uintptr_t mi_secret_seal(const void* at, uintptr_t value) {
  return (value ^ mi_secret_key(at)) * mi_secret.times;
}

static inline uintptr_t mi_secret_unseal(const void* at, uintptr_t sealed) {
  return (sealed * mi_secret.inverse) ^ mi_secret_key(at);
}

// True if `value`, which was unsealed, is what was sealed.
static inline bool mi_secret_is_whole(uintptr_t value) { return value >> MI_ADDRESS_BITS == 0; }

#else

static inline uintptr_t mi_secret_seal(const void* at, uintptr_t value) {
  (void)at;
  return value;
}

static inline uintptr_t mi_secret_unseal(const void* at, uintptr_t sealed) {
  (void)at;
  return sealed;
}

static inline bool mi_secret_is_whole(uintptr_t value) {
  (void)value;
  return true;
}

#endif

// Return the key of a block. Code a link of a block with this key / decode one.
#if MI_SECURE_LEVEL >= 3

static mi_attr_inline uint64_t mi_secret_of_block(const void* p) {
  return ((uintptr_t)p * mi_secret.block_factor) ^ mi_secret.block;
}

static mi_attr_inline uintptr_t mi_secret_code(uint64_t key, uintptr_t link) {
  return (link ^ (key ^ mi_secret.link)) * mi_secret.times;
}

static mi_attr_inline uintptr_t mi_secret_decode(uint64_t key, uintptr_t coded) {
  return (coded * mi_secret.inverse) ^ (key ^ mi_secret.link);
}

#else

static mi_attr_inline uint64_t mi_secret_of_block(const void* p) {
  (void)p;
  return 0;
}

static mi_attr_inline uintptr_t mi_secret_code(uint64_t key, uintptr_t link) {
  (void)key;
  return link;
}

static mi_attr_inline uintptr_t mi_secret_decode(uint64_t key, uintptr_t coded) {
  (void)key;
  return coded;
}

#endif

#endif
