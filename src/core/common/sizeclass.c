// SPDX-License-Identifier: MIT
// sizeclass.c - the table of page sizes, computed by the compiler from the rule below.
//
//   blocks up to 1/8 slice  the fewest slices with at least 8 blocks, at most 1/50 behind the last
//   blocks up to 1/4 slice  the fewest with at least 4 blocks, at most 1/4 behind the last
//   blocks up to a slice    one slice: one to three blocks
//   larger blocks           the fewest with at most 1/8 behind the last: mostly those of one block
//
// Where each page has a fence (fence.h), the blocks have an OS page less, and those of 1/4 to 1
// slice are as many as leave at most 1/4.
//
// The memory behind the last block is never touched, so it costs addresses only (what an earlier
// page of other blocks left there goes back: tail.c). Pages of large
// blocks are short on purpose: a free block in a page with other blocks serves one class of one
// thread, while free slices serve all classes and threads. Six threads that exchange blocks up to 2
// MiB hold half of the memory they hold with eight blocks a page, and a heap whose sizes change
// (bigheap of the benchmark) 0.90 of what it holds with four blocks of 16 to 64 KiB a page, and
// 0.57 after most of it was freed.
//
// In a crowd all threads share the pages, so that their free blocks are used soon, and the memory
// behind the last block counts more: slices are used again and again, and after a while all of them
// were touched up to their end. 800 threads with blocks up to 64 KiB hold 693 MiB with at most 1/16
// behind the last, 754 without.
#include "sizeclass.h"

#include "state.h"

#define MI_ROOM(n) ((n)*MI_SLICE_SIZE - MI_PAGE_FENCE_SIZE) // for blocks
#define MI_TAIL(bs, n) (MI_ROOM(n) % (bs))
#define MI_BLOCKS(bs, n) (MI_ROOM(n) / (bs))
#define MI_IS_TIGHT(bs, n, part, blocks)                                                           \
  (MI_TAIL(bs, n) * (part) <= (n)*MI_SLICE_SIZE && MI_BLOCKS(bs, n) >= (blocks))
#define MI_FITS(bs, n)                                                                             \
  ((bs) > MI_SLICE_SIZE       ? MI_IS_TIGHT(bs, n, 8, 1)                                           \
   : (bs) > MI_SLICE_SIZE / 4 ? MI_PAGE_FENCE_SIZE == 0 || MI_IS_TIGHT(bs, n, 4, 1)                \
   : (bs) > MI_SLICE_SIZE / 8 ? MI_IS_TIGHT(bs, n, 4, 4)                                           \
                              : MI_IS_TIGHT(bs, n, 50, 8))
#define MI_TRY(bs, n, otherwise) (MI_FITS(bs, n) ? (n) : (otherwise))
#define MI_TRY4(bs, n, otherwise)                                                                  \
  MI_TRY(bs, n, MI_TRY(bs, (n) + 1, MI_TRY(bs, (n) + 2, MI_TRY(bs, (n) + 3, otherwise))))
// Eight tries are enough for all classes, and nine where pages have a fence. (Trying more costs a
// second whenever the file is compiled.)
#define MI_SLICES(bs) MI_TRY4(bs, 1, MI_TRY4(bs, 5, MI_CLASS_SLICES_MAX))

// The eight classes above 2^top.
#define MI_EIGHT(top)                                                                              \
  MI_SLICES((size_t)9 << ((top)-3)), MI_SLICES((size_t)10 << ((top)-3)),                           \
      MI_SLICES((size_t)11 << ((top)-3)), MI_SLICES((size_t)12 << ((top)-3)),                      \
      MI_SLICES((size_t)13 << ((top)-3)), MI_SLICES((size_t)14 << ((top)-3)),                      \
      MI_SLICES((size_t)15 << ((top)-3)), MI_SLICES((size_t)16 << ((top)-3))

static const uint8_t mi_class_slices_table[] = {
    1,
    1,
    1,
    1,
    1,
    1,
    1,
    1,
    1,
    MI_EIGHT(7),
    MI_EIGHT(8),
    MI_EIGHT(9),
    MI_EIGHT(10),
    MI_EIGHT(11),
    MI_EIGHT(12),
    MI_EIGHT(13),
    MI_EIGHT(14),
#if MI_SLICE_SHIFT >= 16
    MI_EIGHT(15),
    MI_EIGHT(16),
    MI_EIGHT(17),
    MI_EIGHT(18),
#endif
};
mi_static_assert(sizeof(mi_class_slices_table) == MI_CLASS_COUNT, "one entry per class");

#define MI_RECIPROCAL(bs) ((((uint64_t)1 << MI_RECIPROCAL_SHIFT) + (bs)-1) / (bs))
#define MI_RECIPROCAL_EIGHT(top)                                                                   \
  MI_RECIPROCAL((size_t)9 << ((top)-3)), MI_RECIPROCAL((size_t)10 << ((top)-3)),                   \
      MI_RECIPROCAL((size_t)11 << ((top)-3)), MI_RECIPROCAL((size_t)12 << ((top)-3)),              \
      MI_RECIPROCAL((size_t)13 << ((top)-3)), MI_RECIPROCAL((size_t)14 << ((top)-3)),              \
      MI_RECIPROCAL((size_t)15 << ((top)-3)), MI_RECIPROCAL((size_t)16 << ((top)-3))

MI_INTERNAL_DATA const uint64_t mi_class_reciprocal[MI_CLASS_COUNT] = {
    MI_RECIPROCAL(8),        MI_RECIPROCAL(16),       MI_RECIPROCAL(32),
    MI_RECIPROCAL(48),       MI_RECIPROCAL(64),       MI_RECIPROCAL(80),
    MI_RECIPROCAL(96),       MI_RECIPROCAL(112),      MI_RECIPROCAL(128),
    MI_RECIPROCAL_EIGHT(7),  MI_RECIPROCAL_EIGHT(8),  MI_RECIPROCAL_EIGHT(9),
    MI_RECIPROCAL_EIGHT(10), MI_RECIPROCAL_EIGHT(11), MI_RECIPROCAL_EIGHT(12),
    MI_RECIPROCAL_EIGHT(13), MI_RECIPROCAL_EIGHT(14),
#if MI_SLICE_SHIFT >= 16
    MI_RECIPROCAL_EIGHT(15), MI_RECIPROCAL_EIGHT(16), MI_RECIPROCAL_EIGHT(17),
    MI_RECIPROCAL_EIGHT(18),
#endif
};

#if MI_IS_SECURE
#define MI_SIZES_EIGHT(top)                                                                        \
  9u << ((top)-3), 10u << ((top)-3), 11u << ((top)-3), 12u << ((top)-3), 13u << ((top)-3),         \
      14u << ((top)-3), 15u << ((top)-3), 16u << ((top)-3)

MI_INTERNAL_DATA const uint32_t mi_class_sizes[MI_CLASS_COUNT] = {
    8,
    16,
    32,
    48,
    64,
    80,
    96,
    112,
    128,
    MI_SIZES_EIGHT(7),
    MI_SIZES_EIGHT(8),
    MI_SIZES_EIGHT(9),
    MI_SIZES_EIGHT(10),
    MI_SIZES_EIGHT(11),
    MI_SIZES_EIGHT(12),
    MI_SIZES_EIGHT(13),
    MI_SIZES_EIGHT(14),
#if MI_SLICE_SHIFT >= 16
    MI_SIZES_EIGHT(15),
    MI_SIZES_EIGHT(16),
    MI_SIZES_EIGHT(17),
    MI_SIZES_EIGHT(18),
#endif
};
#endif

MI_INTERNAL size_t mi_class_slices(size_t size_class) {
  mi_assert(size_class < MI_CLASS_COUNT);
  return mi_class_slices_table[size_class];
}

MI_INTERNAL size_t mi_class_slices_shared(size_t size_class) {
  const size_t size = mi_class_size(size_class);
  size_t count = mi_class_slices(size_class);
  if (size <= MI_SLICE_SIZE / 4 || size > MI_SLICE_SIZE || MI_PAGE_FENCE_SIZE != 0) return count;
  while (MI_TAIL(size, count) * 16 > count * MI_SLICE_SIZE) count++;
  return count;
}

MI_INTERNAL mi_attr_cold bool mi_class_has_slices(size_t size_class, size_t count) {
  const size_t usual = mi_class_slices(size_class);
  if (count == usual || count == mi_class_slices_shared(size_class)) return true;
  return count > 0 && count < usual && MI_IS_TIGHT(mi_class_size(size_class), count, 8, 1);
}

MI_INTERNAL size_t mi_class_good_size(size_t size) {
  if (size <= MI_CLASS_MAX) return mi_class_size(mi_class_of(size));
  if (size > MI_REQUEST_MAX) return size;
  const size_t page_size = mi_state.os.page_size == 0 ? 4096 : mi_state.os.page_size;
  return mi_bits_align_up(size, page_size);
}
