// SPDX-License-Identifier: MIT
// sizeclass.h - from the size of a request to its class, to the block size, to the slices of a
// page, by arithmetic and one table.
//
//   class 0        8 (unused where the library replaces malloc, and in a secure build)
//   class 1..8     16, 32, ... 128
//   class 9..      eight per doubling: 144, 160, ... 256, 288, ... up to MI_CLASS_MAX
//
// SIZECLASS-1  a block is at most 12.5 % larger than the smallest request of its class, from 129
//     bytes on. (Where there are few blocks, a class also serves sizes of those below it: split.c.)
// SIZECLASS-2  a block size is a multiple of 16 from 16 bytes on.
// SIZECLASS-3  a page of blocks up to 1/8 slice wastes at most 2 % behind its last block.
// SIZECLASS-4  a request that is a multiple of a power of two gets a class whose block size is such
//     a multiple: either all classes of that doubling are, or the request is a class itself.
#ifndef MI_CORE_SIZECLASS_H
#define MI_CORE_SIZECLASS_H

#include "types.h"

// The class of the smallest requests. Where the library replaces malloc, each block must fit any
// type, as blocks of libc do, even a type of 16 bytes and alignment of which a program allocates
// only a part. So no block has 8 bytes then. (Resident memory with it: python 1.001, php 1.003 of
// without.)
// In a secure build each block has a mark of its own, and 16 bytes share one (mark.h).
#define MI_CLASS_FIRST ((size_t)(MI_IS_OVERRIDE || MI_IS_SECURE || MI_IS_TAGGED))

// Return the class of a request of 129 bytes up to MI_CLASS_MAX: the position of the highest bit of
// size - 1, and the three bits below it.
static mi_attr_inline size_t mi_class_of_medium(size_t size) {
  mi_assert(size > 128 && size <= MI_CLASS_MAX);
  // 32 bits are enough and save a sign extension.
  const uint32_t s = (uint32_t)size - 1;
  const uint32_t top = 31 ^ (uint32_t)__builtin_clz(s);
  return (top << 3) + (s >> (top - 3)) - (7 * 8 + 8 - 9);
}

static mi_attr_inline size_t mi_class_of(size_t size) {
  if (size <= 8) return MI_CLASS_FIRST;
  if (size <= 128) return (size + 15) / 16;
  return mi_class_of_medium(size);
}

// True for the classes of sizes above MI_SMALL_MAX: a thread holds its home when it allocates from
// their pages (HOLD-2).
static inline bool mi_class_is_medium(size_t size_class) {
  return size_class >= MI_CLASS_SMALL_COUNT;
}

// Return where `class_of` of a theap has the class that serves a size above MI_SMALL_MAX, whose own
// class is `size_class`.
static mi_attr_inline size_t mi_class_entry(size_t size_class) {
  return MI_SMALL_MAX / 8 + 1 - MI_CLASS_SMALL_COUNT + size_class;
}

static mi_attr_inline size_t mi_class_size(size_t size_class) {
  mi_assert(size_class < MI_CLASS_COUNT);
  if (size_class == 0) return 8;
  if (size_class <= 8) return size_class * 16;
  const size_t k = size_class - 9;
  return (9 + k % 8) << (k / 8 + 4);
}

#if MI_IS_SECURE
// mi_class_size as a table: one load where every free needs it.
MI_INTERNAL_DATA_DECL const uint32_t mi_class_sizes[MI_CLASS_COUNT];
#endif

// 2^42 / size of a block of the class, rounded up: page.h divides by it.
#define MI_RECIPROCAL_SHIFT 42
MI_INTERNAL_DATA_DECL const uint64_t mi_class_reciprocal[MI_CLASS_COUNT];

// The most slices that a page of a class has.
#define MI_CLASS_SLICES_MAX ((size_t)(MI_PAGE_FENCE_SIZE == 0 ? 8 : 9))

// Return how many blocks of a size fit into a page of so many slices.
static inline size_t mi_class_blocks(size_t block_size, size_t slice_count) {
  return (slice_count * MI_SLICE_SIZE - MI_PAGE_FENCE_SIZE) / block_size;
}

// Return how many slices a page of the class has: the fewest that keep SIZECLASS-3 and hold enough
// blocks.
MI_INTERNAL size_t mi_class_slices(size_t size_class);

// The same for a page that is made in a crowd of threads (crowd.h), which has at least as many.
MI_INTERNAL size_t mi_class_slices_shared(size_t size_class);

// True if a page of the class may have `count` slices: as many as that, or fewer of which an eighth
// is behind the last block at most (REFILL-7).
MI_INTERNAL bool mi_class_has_slices(size_t size_class, size_t count);

// Return the request whose class is the smallest with blocks of at least `size` bytes, all of them
// at multiples of `alignment`, a power of two; SIZE_MAX if there is no such class. (Pages start at
// a slice, hence SIZECLASS-4.)
static mi_attr_inline size_t mi_class_request(size_t size, size_t alignment) {
  mi_assert(mi_bits_is_power_of_two(alignment));
  if (alignment > MI_SLICE_SIZE || size > MI_CLASS_MAX) return SIZE_MAX;
  return mi_bits_align_up(mi_bits_max(size, 1), alignment);
}

// Return the block size that a request of `size` bytes gets where there are many such blocks.
MI_INTERNAL size_t mi_class_good_size(size_t size);

#endif
