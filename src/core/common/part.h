// SPDX-License-Identifier: MIT
// part.h - the parts of a page, each of whole OS pages, and which of them are holes: hole.c.
#ifndef MI_CORE_PART_H
#define MI_CORE_PART_H

#include "state.h"

#define MI_PART_COUNT (8 * sizeof(mi_part_mask_t)) // at most, in a page
// A page with so many blocks in use, and at most half of what fits, is sparse: sparse.c.
#define MI_PART_SPARSE_MAX ((uint32_t)16)
#define MI_PART_SPARSE_PART 2

// A range of parts, or of blocks.
typedef struct mi_part_range_s {
  size_t first, end;
} mi_part_range_t;

// Return the bytes of a part of a page.
static inline size_t mi_part_size(size_t slice_count) {
  return mi_bits_align_up(slice_count * MI_SLICE_SIZE / MI_PART_COUNT, mi_state.os.page_size);
}

// Return the number of parts of a page: two OS pages in each where it would have too many of one.
static inline size_t mi_part_count(size_t slice_count) {
  return mi_bits_divide_up(slice_count * MI_SLICE_SIZE, mi_part_size(slice_count));
}

static inline mi_part_mask_t mi_part_mask(mi_part_range_t parts) {
  return (mi_part_mask_t)(mi_bits_mask(parts.end) & ~mi_bits_mask(parts.first));
}

// Return the first run of parts in a mask that is not 0, of `most` parts at most.
static inline mi_part_range_t mi_part_first_run(uint64_t mask, size_t most) {
  mi_part_range_t run;
  run.first = run.end = mi_bits_trailing_zeros(mask);
  while (run.end - run.first < most && (mask >> run.end & 1) != 0) run.end++;
  return run;
}

// How a page is cut into parts: `reciprocal` is 2^MI_PART_SHIFT / size, rounded up, so that a
// division is a multiplication (exact: an offset is less than 2^21, a part at most that).
typedef struct mi_part_cut_s {
  size_t size; // bytes of a part
  uint64_t reciprocal;
} mi_part_cut_t;
#define MI_PART_SHIFT 42

static inline mi_part_cut_t mi_part_cut(size_t slice_count) {
  const size_t size = mi_part_size(slice_count);
  return (mi_part_cut_t){size, (((uint64_t)1 << MI_PART_SHIFT) + size - 1) / size};
}

static inline size_t mi_part_at(const mi_part_cut_t* cut, size_t offset) {
  return (size_t)((uint64_t)offset * cut->reciprocal >> MI_PART_SHIFT);
}

// Return the parts that a block at an offset touches.
static inline mi_part_range_t mi_part_of_block(const mi_part_cut_t* cut, size_t offset,
                                               size_t block_size) {
  return (mi_part_range_t){mi_part_at(cut, offset), mi_part_at(cut, offset + block_size - 1) + 1};
}

// True if a block at an offset touches a part of `mask`.
static inline bool mi_part_touches(const mi_part_cut_t* cut, mi_part_mask_t mask, size_t offset,
                                   size_t block_size) {
  return (mask & mi_part_mask(mi_part_of_block(cut, offset, block_size))) != 0;
}

// Return the blocks that touch a range of parts.
static inline mi_part_range_t mi_part_blocks(mi_part_range_t parts, size_t block_size,
                                             size_t reserved, size_t part_size) {
  const size_t end = mi_bits_divide_up(parts.end * part_size, block_size);
  return (mi_part_range_t){parts.first * part_size / block_size, mi_bits_min(end, reserved)};
}

// Return the number of blocks that touch a hole, of a page as described.
MI_INTERNAL uint32_t mi_part_count_missing(mi_part_mask_t holes, size_t slice_count,
                                           size_t block_size, size_t reserved);

// The same of a page.
static inline uint32_t mi_part_missing(const mi_page_t* page) {
  if (mi_likely(page->holes == 0)) return 0;
  return mi_part_count_missing(page->holes, page->slice_count, page->block_size, page->reserved);
}

// True if the block touches a hole.
MI_INTERNAL bool mi_part_is_missing(const mi_page_t* page, size_t block_index);

// True if the page may have holes: all of its blocks are carved, and its OS pages are small enough.
MI_INTERNAL bool mi_part_may_have_holes(const mi_page_t* page);

// Return the number of blocks in use at which a page that was just made is sparse; 0: it never is.
MI_INTERNAL uint8_t mi_part_sparse_at(const mi_page_t* page);

// Return the number of blocks of a page that are in use; blocks in the lists of a theap, and in
// `thread_free`, count as used, and of a current page there is one too many (LIFE-1).
static inline uint32_t mi_part_used(const mi_page_t* page) {
  return page->count.used + page->bias - mi_part_missing(page);
}

// True if no block of the page, which is not current, is in use.
static inline bool mi_part_is_empty(const mi_page_t* page) {
  if (mi_likely(page->holes == 0)) return page->count.used + page->bias == 0;
  return mi_part_used(page) == 0;
}

// Forget the holes of a page that ends.
MI_INTERNAL void mi_part_forget(mi_subproc_t* subproc, mi_page_t* page);

#endif
