// SPDX-License-Identifier: MIT
// tag.h - the tags of memory that 64-bit ARM has (MTE, of ARMv8.5): its instructions, and nothing
// else. core/pages/tags.h says what has which tag.
//
// Each granule of 16 bytes of memory has a tag of 4 bits, and so has an address, in bits that it
// does not need. An access is allowed if they are equal. Only memory that was mapped for it has
// tags; other memory has the tag 0 for these instructions, and accepts any address.
//
// The processors that a build is for may not have these instructions, so that the assembler may not
// know them: they are given as numbers, with fixed registers. They are run only on a processor that
// has them (mi_os_info_t).
#ifndef MI_BASE_TAG_H
#define MI_BASE_TAG_H

#include "config.h"

#define MI_TAG_SHIFT 56
#define MI_TAG_COUNT 16
#define MI_TAG_GRANULE ((size_t)16)

// Return the tag of an address.
static mi_attr_inline unsigned mi_tag_of(const void* p) {
  return (unsigned)((uint64_t)(uintptr_t)p >> MI_TAG_SHIFT) % MI_TAG_COUNT;
}

// Return the address with another tag.
static mi_attr_inline void* mi_tag_with(const void* p, unsigned tag) {
  const uint64_t mask = (uint64_t)(MI_TAG_COUNT - 1) << MI_TAG_SHIFT;
  return (void*)(uintptr_t)(((uint64_t)(uintptr_t)p & ~mask) | (uint64_t)tag << MI_TAG_SHIFT);
}

#if MI_IS_TAGGED

// Return the address with the tag that the memory there has. It must be accessible.
static mi_attr_inline void* mi_tag_read(const void* p) {
  register const void* at __asm__("x9") = p;
  __asm__ volatile(".inst 0xd9600129 // ldg x9, [x9]" : "+r"(at) : : "memory");
  return (void*)(uintptr_t)at;
}

// Return the address with a random tag that is not in the set `excluded`, a bit for each tag.
static mi_attr_inline void* mi_tag_choose(const void* p, unsigned excluded) {
  register const void* at __asm__("x9") = p;
  register uint64_t set __asm__("x10") = excluded;
  __asm__ volatile(".inst 0x9aca1129 // irg x9, x9, x10" : "+r"(at) : "r"(set));
  return (void*)(uintptr_t)at;
}

// Give the memory the tag of the address. Both `p` and `size` are multiples of a granule.
static inline void mi_tag_write(void* p, size_t size) {
  register const void* tag __asm__("x9") = p;
  register uint8_t* at __asm__("x10") = (uint8_t*)p;
  const uint8_t* const end = at + size;
  if (size % (2 * MI_TAG_GRANULE) != 0) {
    __asm__ volatile(".inst 0xd9201549 // stg x9, [x10], #16" : "+r"(at) : "r"(tag) : "memory");
  }
  while (end - at >= (ptrdiff_t)(8 * MI_TAG_GRANULE)) {
    __asm__ volatile(".inst 0xd9a02549, 0xd9a02549, 0xd9a02549, 0xd9a02549 // four of these"
                     : "+r"(at)
                     : "r"(tag)
                     : "memory");
  }
  while (at != end) {
    __asm__ volatile(".inst 0xd9a02549 // st2g x9, [x10], #32" : "+r"(at) : "r"(tag) : "memory");
  }
}

#else

static mi_attr_inline void* mi_tag_read(const void* p) { return (void*)(uintptr_t)p; }

#endif
#endif
