// SPDX-License-Identifier: MIT
// secret.h - the random numbers of a secure build (MI_SECURE), which a program must not know.
//
// SECRET-1  they are drawn from the system before the first page is made, and never change.
// SECRET-2  they lie alone in OS pages that are read-only from then on, so that no write of the
//     program can replace them.
//
// A link of a free block (block.h) is coded by an exclusive or with a key of its slice, and then by
// a multiplication, so that no part of it can be changed on purpose: after any change it leads to
// an address beyond 2^MI_ADDRESS_BITS, but for one in 2^16 or fewer. malloc clears the link of a
// block that it hands out, so that programs do not see coded links and where they led.
#ifndef MI_CORE_SECRET_H
#define MI_CORE_SECRET_H

#include "types.h"

#if MI_IS_SECURE

// The largest OS page that the secret is alone in. Windows has only small ones, and its linkers do
// not align to more than two of them.
#define MI_SECRET_ROOM (MI_IS_WINDOWS ? 4 * MI_KIB : MI_IS_MACOS ? 16 * MI_KIB : 64 * MI_KIB)

typedef union mi_secret_s {
  struct {
    uint64_t factor, addend; // of the keys of slices
    uint64_t times, inverse; // `times` is odd, times * inverse == 1
    uint64_t canary_factor, canary; // of the canaries behind blocks
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

// Code a value, and the reverse, by the key of a number.
static mi_attr_inline uintptr_t mi_secret_key(uintptr_t number) {
  return number * mi_secret.factor + mi_secret.addend;
}

static mi_attr_inline uintptr_t mi_secret_code_by(uintptr_t number, uintptr_t value) {
  return (value ^ mi_secret_key(number)) * mi_secret.times;
}

static mi_attr_inline uintptr_t mi_secret_decode_by(uintptr_t number, uintptr_t coded) {
  return (coded * mi_secret.inverse) ^ mi_secret_key(number);
}

static inline uintptr_t mi_secret_seal(const void* at, uintptr_t value) {
  return mi_secret_code_by((uintptr_t)at, value);
}

static inline uintptr_t mi_secret_unseal(const void* at, uintptr_t sealed) {
  return mi_secret_decode_by((uintptr_t)at, sealed);
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

// Code a link that is going to be stored at `at` / decode one that is stored there.
#if MI_SECURE_LEVEL >= 3

static mi_attr_inline uintptr_t mi_secret_code(const void* at, uintptr_t link) {
  return mi_secret_code_by((uintptr_t)at >> MI_SLICE_SHIFT, link);
}

static mi_attr_inline uintptr_t mi_secret_decode(const void* at, uintptr_t coded) {
  return mi_secret_decode_by((uintptr_t)at >> MI_SLICE_SHIFT, coded);
}

#else

static mi_attr_inline uintptr_t mi_secret_code(const void* at, uintptr_t link) {
  (void)at;
  return link;
}

static mi_attr_inline uintptr_t mi_secret_decode(const void* at, uintptr_t coded) {
  (void)at;
  return coded;
}

#endif

#endif
