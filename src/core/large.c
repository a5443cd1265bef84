// SPDX-License-Identifier: MIT
// large.c - one block, one page: larger than any class, or aligned beyond a slice.
//
//   | block_size (whole OS pages)              | slack up to slice_count * MI_SLICE_SIZE, untouched
//   |
//
// G1  the page has owner MI_OWNER_SINGLE for all its life: no thread owns it, whoever frees the
//     block returns the slices.
// G2  only the first slice has a descriptor, and those up to the one that a shifted result lies in
//     (`reserved` of them).
//     `reciprocal` holds the distance of the result from the start of the block: nothing else was
//     handed out.
// G3  `block_size` and `slice_count` change only in mi_large_resize, called by the one thread that
//     holds the block.
//
// Blocks up to half an arena are runs of slices; freed runs stay resident for the purge delay,
// which makes the arena the cache of recently freed runs: a block that lies elsewhere takes their
// memory along (V5 of purge.c). Larger ones, and all when no arena can be
// had, are mappings of their own. Growth in place takes the slices that follow; else the pages are
// moved by mremap(2) with MREMAP_DONTUNMAP, so that nothing is copied. A moved range no longer
// merges with its neighbours: it is marked and renewed when it is purged, and their number is
// bounded, because the kernel limits the number of mappings (65,530).
#include "large.h"

#include <string.h>

#include "bitmap.h"
#include "purge.h"

static size_t mi_large_round(size_t size) { return mi_bits_align_up(size, mi_state.os.page_size); }

static void mi_large_count(int64_t bytes, int64_t blocks) {
  mi_count_add_peak(&mi_state.count.large, &mi_state.count.large_peak, bytes);
  mi_count_add(&mi_state.count.large_count, blocks);
  if (blocks > 0) mi_count_add(&mi_state.count.large_total, bytes);
}

// A mapping of its own with descriptors. NULL: refused.
static uint8_t* mi_large_map(size_t size, size_t alignment, size_t described) {
  if (mi_option_value(disallow_os_alloc) != 0) return NULL;
  mi_count_add(&mi_state.count.mmap_calls, 1);
  uint8_t* const p = (uint8_t*)mi_os_map(NULL, size, alignment, MI_OS_READ_WRITE);
  if (p == NULL) return NULL;
  mi_lock_enter(&mi_state.arena_lock);
  const bool is_covered = mi_pagemap_cover(p, described);
  mi_lock_leave(&mi_state.arena_lock);
  if (!is_covered) {
    mi_os_unmap(p, size);
    return NULL;
  }
  mi_count_add_peak(&mi_state.count.committed, &mi_state.count.committed_peak, (int64_t)size);
  return p;
}

// A page for one block of `size` bytes with room for `room`, whose first `shift` bytes are skipped
// and whose first `touched` bytes will be written to.
static mi_page_t* mi_large_make(size_t size, size_t room, size_t alignment, size_t shift,
                                size_t touched) {
  const size_t slice_count = mi_bits_divide_up(mi_bits_max(size, room), MI_SLICE_SIZE);
  const size_t described = shift / MI_SLICE_SIZE + 1;
  const size_t object_max = mi_arena_object_max();
  uint8_t* start = NULL;
  mi_run_t run = {.is_zero = true};
  mi_page_backing_t backing = MI_BACKING_ARENA;
  if (slice_count * MI_SLICE_SIZE <= object_max && alignment <= object_max &&
      mi_arena_claim_to_touch(slice_count, alignment, touched / MI_SLICE_SIZE, &run)) {
    start = mi_run_start(&run);
  } else {
    backing = MI_BACKING_DIRECT;
    run.is_zero = true;
    start = mi_large_map(slice_count * MI_SLICE_SIZE, alignment, described * MI_SLICE_SIZE);
  }
  if (start == NULL) return NULL;
  mi_page_t* const page = mi_page_describe(start, slice_count, described);
  page->count = (mi_page_count_t){.used = 1};
  page->refilled.used = 2;
  page->reserved = (uint32_t)described;
  page->reciprocal = shift;
  page->block_size = mi_large_round(size);
  page->size_class = (uint8_t)MI_CLASS_COUNT;
  page->is_zero = run.is_zero;
  page->backing = (uint8_t)backing;
  page->heap = &mi_state.heap_main;
  mi_atomic_store_relaxed(&page->owner, MI_OWNER_SINGLE);
  mi_large_count((int64_t)page->block_size, 1);
  return page;
}

MI_INTERNAL void* mi_large_alloc_shifted(size_t size, size_t alignment, size_t shift,
                                         mi_fill_t fill) {
  if (size > MI_REQUEST_MAX - shift) return NULL;
  // What must be zero may never be touched at all: better clean.
  const size_t touched = fill == MI_ZERO ? 0 : size + shift;
  mi_page_t* page = mi_large_make(size + shift, 0, alignment, shift, touched);
  if (page == NULL) {
    mi_collect_all(MI_FORCE);
    page = mi_large_make(size + shift, 0, alignment, shift, touched);
  }
  if (page == NULL) return NULL;
  if (fill == MI_ZERO && !page->is_zero) memset(page->start, 0, page->block_size);
  return page->start + shift;
}

MI_INTERNAL void* mi_large_alloc(size_t size, size_t alignment, mi_fill_t fill) {
  return mi_large_alloc_shifted(size, alignment, 0, fill);
}

MI_INTERNAL void* mi_large_alloc_growing(size_t size, mi_fill_t fill) {
  if (size > MI_REQUEST_MAX - size / 8) return NULL;
  const size_t touched = fill == MI_ZERO ? 0 : size;
  mi_page_t* const page = mi_large_make(size, size + size / 8, MI_SLICE_SIZE, 0, touched);
  if (page == NULL) return NULL;
  if (fill == MI_ZERO && !page->is_zero) memset(page->start, 0, page->block_size);
  return page->start;
}

static void mi_large_release_slices(mi_page_t* page, uint8_t* start, size_t slice_count) {
  if (page->backing == MI_BACKING_DIRECT) {
    mi_os_unmap(start, slice_count * MI_SLICE_SIZE);
    mi_count_add(&mi_state.count.committed, -(int64_t)(slice_count * MI_SLICE_SIZE));
  } else {
    mi_arena_t* const arena = mi_arena_of(start);
    mi_assert(arena != NULL);
    mi_arena_release(arena, mi_arena_slice_of(arena, start), slice_count);
  }
}

MI_INTERNAL void mi_large_free(mi_page_t* page, void* p) {
  if ((size_t)((uint8_t*)p - page->start) != page->reciprocal) {
    mi_hook_error(MI_ERROR_INTERIOR_POINTER, "free", p, page->block_size);
    return;
  }
  mi_large_count(-(int64_t)page->block_size, -1);
  uint8_t* const start = page->start;
  const size_t slice_count = page->slice_count;
  for (size_t i = 1; i < page->reserved; i++) {
    mi_page_t* const interior = mi_pagemap_slice(start + i * MI_SLICE_SIZE);
    mi_atomic_store_relaxed(&interior->owner, MI_OWNER_NONE);
  }
  mi_atomic_store_relaxed(&page->owner, MI_OWNER_NONE);
  mi_large_release_slices(page, start, slice_count);
  mi_purge_poll();
}

MI_INTERNAL bool mi_large_resize(mi_page_t* page, size_t size) {
  if (size > MI_REQUEST_MAX) return false;
  const size_t slice_count = mi_bits_divide_up(size, MI_SLICE_SIZE);
  const size_t old_count = page->slice_count;
  if (slice_count > old_count) {
    if (page->backing == MI_BACKING_DIRECT) return false;
    mi_arena_t* const arena = mi_arena_of(page->start);
    const size_t next = mi_arena_slice_of(arena, page->start) + old_count;
    bool is_zero;
    if (!mi_arena_claim_at(arena, next, slice_count - old_count, &is_zero)) return false;
    page->slice_count = (uint32_t)slice_count;
  } else if (size < page->block_size && slice_count < old_count && slice_count >= page->reserved) {
    // A block that shrinks gives back at once what it does not need.
    page->slice_count = (uint32_t)slice_count;
    mi_large_release_slices(page, page->start + slice_count * MI_SLICE_SIZE,
                            old_count - slice_count);
  }
  const size_t new_size = mi_large_round(size);
  mi_large_count((int64_t)new_size - (int64_t)page->block_size, 0);
  page->block_size = new_size;
  return true;
}

MI_INTERNAL void* mi_large_move(mi_page_t* page, size_t size) {
  if (size > MI_REQUEST_MAX - size / 8 || page->reserved != 1) return NULL;
  if (!mi_arena_may_move()) return NULL;
  if (!mi_state.os.has_overcommit) return NULL; // both would be charged, and mprotect cuts mappings
  // What grew once will grow again: room for an eighth more costs addresses only.
  mi_page_t* const moved = mi_large_make(size, size + size / 8, MI_SLICE_SIZE, 0, 0);
  if (moved == NULL) return NULL;
  const size_t bytes = page->block_size;
  if (mi_os_move(page->start, moved->start, bytes) != 0) {
    mi_large_free(moved, moved->start);
    return NULL;
  }
  // A mapping of its own stays one; in an arena the moved range is one more until it is renewed.
  if (moved->backing == MI_BACKING_ARENA) {
    mi_arena_t* const arena = mi_arena_of(moved->start);
    mi_arena_note_moved(arena, mi_arena_slice_of(arena, moved->start),
                        mi_bits_divide_up(bytes, MI_SLICE_SIZE));
  }
  mi_large_free(page, page->start);
  return moved->start;
}
