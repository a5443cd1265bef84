// SPDX-License-Identifier: MIT
// part.c - where the parts of a page lie, and which blocks touch its holes: hole.c has the picture.
// Numbers only; nothing here touches a block or asks the system.
#include "part.h"

MI_INTERNAL uint32_t mi_part_count_missing(mi_part_mask_t holes, size_t slice_count,
                                           size_t block_size, size_t reserved) {
  const size_t part_size = mi_part_size(slice_count);
  size_t count = 0;
  size_t counted = 0; // blocks below it are counted, or touch no hole
  while (holes != 0) {
    const mi_part_range_t parts = mi_part_first_run(holes, MI_PART_COUNT);
    const mi_part_range_t blocks = mi_part_blocks(parts, block_size, reserved, part_size);
    const size_t first = mi_bits_max(blocks.first, counted);
    if (first < blocks.end) count += blocks.end - first;
    counted = mi_bits_max(blocks.end, counted);
    holes = (mi_part_mask_t)(holes & ~mi_part_mask(parts));
  }
  return (uint32_t)count;
}

MI_INTERNAL bool mi_part_is_missing(const mi_page_t* page, size_t block_index) {
  if (mi_likely(page->holes == 0)) return false;
  const mi_part_cut_t cut = mi_part_cut(page->slice_count);
  return mi_part_touches(&cut, page->holes, block_index * page->block_size, page->block_size);
}

// True if the page has more than one part, and the memory is ours.
static bool mi_part_is_possible(const mi_page_t* page) {
  return MI_HAS_HOLES && page->backing == MI_BACKING_ARENA &&
         mi_part_size(page->slice_count) < page->slice_count * MI_SLICE_SIZE;
}

MI_INTERNAL bool mi_part_may_have_holes(const mi_page_t* page) {
  return page->refilled.used - 1 == page->reserved && page->reserved > 1 &&
         mi_part_is_possible(page);
}

MI_INTERNAL uint8_t mi_part_sparse_at(const mi_page_t* page) {
  if (!mi_part_is_possible(page)) return 0;
  return (uint8_t)mi_bits_min(page->reserved / MI_PART_SPARSE_PART, MI_PART_SPARSE_MAX);
}

MI_INTERNAL void mi_part_forget(mi_subproc_t* subproc, mi_page_t* page) {
  if (mi_likely(page->holes == 0)) return;
  const size_t bytes = mi_bits_count(page->holes) * mi_part_size(page->slice_count);
  mi_count_add(&subproc->count.committed, (int64_t)bytes);
  page->holes = 0;
}
