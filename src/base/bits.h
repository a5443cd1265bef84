// SPDX-License-Identifier: MIT
// bits.h - counting bits, rounding, and arithmetic that notices overflow.
//
// Pure functions. Alignments are powers of two; functions that take one say so in the name of
// their parameter. Nothing here touches memory except through out parameters.
#ifndef MI_BASE_BITS_H
#define MI_BASE_BITS_H

#include "check.h"

// Return the index of the highest set bit. `x` must not be 0.
static mi_attr_inline size_t mi_bits_log2(uint64_t x) {
  mi_assert(x != 0);
  return (size_t)(63 ^ __builtin_clzll(x));
}

// Return the number of zero bits below the lowest set bit. `x` must not be 0.
static mi_attr_inline size_t mi_bits_trailing_zeros(uint64_t x) {
  mi_assert(x != 0);
  return (size_t)__builtin_ctzll(x);
}

// Number of zero bits above the highest set bit. `x` must not be 0.
static mi_attr_inline size_t mi_bits_leading_zeros(uint64_t x) {
  mi_assert(x != 0);
  return (size_t)__builtin_clzll(x);
}

static mi_attr_inline size_t mi_bits_count(uint64_t x) { return (size_t)__builtin_popcountll(x); }

static mi_attr_inline bool mi_bits_is_power_of_two(size_t x) {
  return x != 0 && (x & (x - 1)) == 0;
}

static mi_attr_inline size_t mi_bits_align_down(size_t x, size_t power) {
  mi_assert(mi_bits_is_power_of_two(power));
  return x & ~(power - 1);
}

// Round up to a multiple of `power`. The caller makes sure that `x + power - 1` does not wrap.
static mi_attr_inline size_t mi_bits_align_up(size_t x, size_t power) {
  return mi_bits_align_down(x + power - 1, power);
}

static mi_attr_inline size_t mi_bits_divide_up(size_t x, size_t divisor) {
  return x / divisor + (x % divisor != 0 ? 1 : 0);
}

static mi_attr_inline size_t mi_bits_min(size_t a, size_t b) { return a < b ? a : b; }

static mi_attr_inline size_t mi_bits_max(size_t a, size_t b) { return a > b ? a : b; }

// The next function where no type has 128 bits.
static inline uint64_t mi_bits_multiply_halves(uint64_t a, uint64_t b, unsigned shift) {
  const uint64_t low = (a & UINT32_MAX) * (b & UINT32_MAX);
  const uint64_t middle = (a >> 32) * (b & UINT32_MAX) + (low >> 32); // cannot wrap
  const uint64_t other = (a & UINT32_MAX) * (b >> 32) + (middle & UINT32_MAX); // nor can this
  const uint64_t high = (a >> 32) * (b >> 32) + (middle >> 32) + (other >> 32);
  const uint64_t lower = other << 32 | (low & UINT32_MAX);
  return shift == 0 ? lower : high << (64 - shift) | lower >> shift;
}

// Return the lower 64 bits of a * b / 2^shift. `shift` is at most 63.
static inline uint64_t mi_bits_multiply(uint64_t a, uint64_t b, unsigned shift) {
#if MI_IS_32_BIT
  return mi_bits_multiply_halves(a, b, shift);
#else
  return (uint64_t)(((unsigned __int128)a * b) >> shift);
#endif
}

// True if `count * size` does not fit; otherwise stores the product.
static mi_attr_inline bool mi_bits_mul_overflows(size_t count, size_t size, size_t* product) {
  return __builtin_mul_overflow(count, size, product);
}

// Subtract one; true if the result is 0. One instruction on memory where the ISA has it.
static mi_attr_inline bool mi_bits_decrement_is_zero(uint32_t* x) {
#if defined(__x86_64__) && defined(__GCC_ASM_FLAG_OUTPUTS__)
  bool is_zero;
  __asm__("subl $1, %0" : "+m"(*x), "=@ccz"(is_zero));
  return is_zero;
#else
  return --*x == 0;
#endif
}

// Return a word whose `count` low bits are set; `count` may be 0 to 64.
static mi_attr_inline uint64_t mi_bits_mask(size_t count) {
  mi_assert(count <= 64);
  return count == 64 ? ~(uint64_t)0 : (((uint64_t)1 << count) - 1);
}

#endif
