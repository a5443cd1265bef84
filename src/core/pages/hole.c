// SPDX-License-Identifier: MIT
// hole.c - OS pages inside a page in use that hold only free blocks go back to the system.
//
//   parts    |    0    |    1    |    2    |    3    | ...   32 at most, each of whole OS pages
//   blocks   | a  | b  | c  | d  | e  | f  | g  | h  | ...   a and h are in use
//   holes          0         1         1         0           c to f are in no list
//
// A page keeps all its memory as long as one of its blocks is in use. A program that frees nine of
// ten blocks, at random, would keep all of it. Blocks cannot be moved, but what is free between
// them can go.
//
// HOLE-1  bit k of `holes` is set if part k went back. Its contents are zero or what they were, as
//     the system did; it is not touched until it is filled. A part that no block touches has none.
// HOLE-2  a block that touches a hole is free, and in no list; it counts as used (LIFE-1).
//     `mi_part_missing` says how many these are.
// HOLE-3  only the owner makes and fills holes, of a page whose blocks are all carved. The lists
//     change before the bits are set, and the bits are cleared before the blocks are in a list: in
//     the child of a fork blocks may be lost, but none is twice in a list.
// HOLE-4  memory goes back under the purge lock (tried only), as what waits does, so that no huge
//     page is made of it meanwhile (COLLAPSE-3). With one thread it is enough that the thread does
//     not have the lock already: a program with one thread executes no locked instruction.
//
// Which pages are worth it is decided by sparse.c. Deliberately absent: pages of one block,
// memory of the program or of arenas that are pinned, builds with patterns or tools, which look at
// the memory of free blocks (MI_HAS_HOLES).
#include "hole.h"

#include "list.h"

// -- which parts are free --

// Add the bytes of a free block to those of the parts that it touches.
static void mi_hole_add(size_t* free_bytes, const mi_part_cut_t* cut, size_t offset, size_t size) {
  const mi_part_range_t parts = mi_part_of_block(cut, offset, size);
  const size_t end = offset + size;
  for (size_t k = parts.first; k < parts.end; k++) {
    const size_t next = mi_bits_min((k + 1) * cut->size, end);
    free_bytes[k] += next - offset;
    offset = next;
  }
}

// The same for the blocks that touch holes, which are in no list.
static void mi_hole_add_missing(size_t* free_bytes, const mi_part_cut_t* cut,
                                const mi_page_t* page) {
  if (page->holes == 0) return;
  const size_t end = page->reserved * page->block_size;
  for (size_t offset = 0; offset < end; offset += page->block_size) {
    if (!mi_part_touches(cut, page->holes, offset, page->block_size)) continue;
    mi_hole_add(free_bytes, cut, offset, page->block_size);
  }
}

// Return the parts that hold only free blocks, and are no holes. There are none if the program has
// damaged the list, or freed a block twice; in a secure build also if a block of the list is in use
// (MARK-2).
static mi_part_mask_t mi_hole_find(const mi_page_t* page, const mi_part_cut_t* cut) {
  size_t free_bytes[MI_PART_COUNT + 1] = {0};
  // Most blocks are in the list, which leads to one cache miss after the other: begun all at once,
  // they take a fifth of the time.
  for (size_t i = 0; i < page->reserved; i++) mi_prefetch(page->start + i * page->block_size);
  mi_list_t at = mi_list_of(page, page->local_free);
  for (; mi_list_has(&at); mi_list_step(&at)) {
    if (MI_IS_SECURE && mi_mark_is_used(at.block)) return 0;
    mi_hole_add(free_bytes, cut, (size_t)((uint8_t*)at.block - page->start), page->block_size);
  }
  const size_t used = page->count.used + page->bias;
  if (at.block != NULL || used + at.count != mi_page_capacity(page)) return 0;
  mi_hole_add_missing(free_bytes, cut, page);
  const size_t bytes = page->reserved * page->block_size;
  size_t found = 0;
  for (size_t k = 0; k * cut->size < bytes; k++) {
    const size_t size = mi_bits_min(bytes - k * cut->size, cut->size);
    if (free_bytes[k] == size) found |= (size_t)1 << k;
  }
  return (mi_part_mask_t)(found & ~(size_t)page->holes);
}

// -- making holes --

// Take the blocks that touch `mask` out of the list, which is sound at any moment (HOLE-3).
static void mi_hole_unlink(mi_page_t* page, mi_part_mask_t mask, const mi_part_cut_t* cut) {
  mi_block_t* before = NULL;
  bool is_skipped = false;
  uint32_t count = 0;
  mi_list_t at = mi_list_of(page, page->local_free);
  for (; mi_list_has(&at); mi_list_step(&at)) {
    const size_t offset = (size_t)((uint8_t*)at.block - page->start);
    if (mi_part_touches(cut, mask, offset, page->block_size)) {
      is_skipped = true;
      count++;
    } else {
      if (is_skipped) mi_block_join(&page->local_free, before, at.block);
      is_skipped = false;
      before = at.block;
    }
  }
  if (is_skipped) mi_block_join(&page->local_free, before, NULL);
  page->count.used += count;
}

// Give the parts of `mask` back. Returns the bytes that went.
static size_t mi_hole_purge(mi_arena_t* arena, const mi_page_t* page, mi_part_mask_t mask,
                            size_t part_size) {
  size_t bytes = 0;
  while (mask != 0) {
    const mi_part_range_t parts = mi_part_first_run(mask, MI_PART_COUNT);
    const size_t size = (parts.end - parts.first) * part_size;
    const size_t start = parts.first * part_size;
    const size_t most = page->slice_count * MI_SLICE_SIZE - MI_PAGE_FENCE_SIZE - start;
    const size_t part_bytes = mi_bits_min(size, most);
    if (mi_purge_contents(arena, page->start + start, part_bytes)) {
      mi_charge_drop(arena, page->start + start, part_bytes);
      bytes += size;
    }
    mask = (mi_part_mask_t)(mask & ~mi_part_mask(parts));
  }
  return bytes;
}

// While no other thread purges.
static size_t mi_hole_make_in(mi_arena_t* arena, mi_page_t* page) {
  const mi_part_cut_t cut = mi_part_cut(page->slice_count);
  const mi_part_mask_t mask = mi_hole_find(page, &cut);
  if (mask == 0) return 0;
  mi_hole_unlink(page, mask, &cut);
  page->holes = (mi_part_mask_t)(page->holes | mask);
  const size_t bytes = mi_hole_purge(arena, page, mask, cut.size);
  const size_t parts = mi_bits_count(mask);
  mi_count_add(&arena->subproc->count.committed, -(int64_t)(parts * cut.size));
  return bytes;
}

MI_INTERNAL mi_attr_cold size_t mi_hole_make(mi_subproc_t* subproc, mi_page_t* page) {
  if (!mi_part_may_have_holes(page) || page->local_free == NULL) return 0;
  if (mi_wait_delay_ms() < 0 || mi_option_value(purge_decommits) == 0) return 0;
  mi_arena_t* const arena = mi_arena_of(subproc, page->start);
  if (arena == NULL || !mi_arena_is_mapped_by_us(arena)) return 0; // a page is usable in any case
  if (mi_os_is_single_threaded()) {
    const bool is_held = (mi_self()->locks_held & mi_lock_bit(&mi_state.purge_lock)) != 0;
    return is_held ? 0 : mi_hole_make_in(arena, page);
  }
  if (!mi_lock_try_enter(&mi_state.purge_lock)) return 0;
  const size_t bytes = mi_hole_make_in(arena, page);
  mi_lock_leave(&mi_state.purge_lock);
  return bytes;
}

// -- and filling them --

MI_INTERNAL mi_attr_cold uint32_t mi_hole_fill(mi_subproc_t* subproc, mi_page_t* page,
                                               size_t* index) {
  const size_t part_size = mi_part_size(page->slice_count);
  const size_t most = mi_bits_max(MI_CARVE_MAX_BYTES / part_size, 1);
  size_t filled = 0;
  mi_part_range_t blocks = {0, 0};
  // A block that is longer than a part may touch a hole behind the one that is filled.
  while (page->holes != 0 && blocks.first == blocks.end) {
    const mi_part_range_t parts = mi_part_first_run(page->holes, most);
    blocks = mi_part_blocks(parts, page->block_size, page->reserved, part_size);
    page->holes = (mi_part_mask_t)(page->holes & ~mi_part_mask(parts));
    filled += parts.end - parts.first;
    while (blocks.end > blocks.first && mi_part_is_missing(page, blocks.end - 1)) blocks.end--;
  }
  if (filled == 0) return 0;
  const size_t bytes = filled * part_size;
  mi_retain_before_touch(subproc, mi_bits_divide_up(bytes, MI_SLICE_SIZE), true);
  mi_count_add_peak(&subproc->count.committed, &subproc->count.committed_peak, (int64_t)bytes);
  if (page->block_size <= mi_state.os.page_size) {
    mi_huge_touch(page->start + blocks.first * page->block_size,
                  (blocks.end - blocks.first) * page->block_size);
  }
  *index = blocks.first;
  return (uint32_t)(blocks.end - blocks.first);
}
