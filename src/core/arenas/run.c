// SPDX-License-Identifier: MIT
// run.c - decides where the slices of a page come from, and which book the page is entered in.
//
//   in an arena          the common case
//   mapping of its own   pages that no arena holds: blocks over half an arena, everything with the
//                        options arena_reserve=0 or disallow_arena_alloc
//
// RUN-1  a page outside arenas is in the book of the sub-process; any other is in the book of its
//     heap, unless that is the main heap, whose pages are found by a walk over the arenas.
// RUN-2  a heap that is bound to an arena has all its pages there.
// RUN-3  a mapping of its own has what an arena has: the node that the heap prefers, and the advice
//     about huge pages. (A system that gives these to all who do not ask would make all of a large
//     block resident of which the program uses a word here and there.)
#include "run.h"

#include "book.h"
#include "numa.h"
#include "retain.h"
#include "slices.h"

static mi_attr_noinline bool mi_run_map(mi_heap_t* heap, const mi_run_wish_t* wish, mi_run_t* run) {
  if (heap->arena != NULL || mi_option_value(disallow_os_alloc) != 0) return false;
  mi_subproc_t* const subproc = heap->subproc;
  const size_t size = wish->slice_count * MI_SLICE_SIZE;
  mi_count_add(&subproc->count.mmap_calls, 1);
  uint8_t* const p = (uint8_t*)mi_os_map(NULL, size, wish->alignment, MI_OS_READ_WRITE);
  if (p == NULL) return false;
  mi_arena_advise(p, size); // RUN-3
  mi_numa_prefer(p, size, mi_numa_node_for(heap));
  mi_retain_before_peak(subproc, wish->slice_count); // it is not touched yet
  mi_tool_after_map(&subproc->direct);
  mi_lock_enter(&mi_state.arena_lock);
  uint8_t* const last = p + (wish->described_count - 1) * MI_SLICE_SIZE;
  const bool is_covered =
      mi_pagemap_cover(p, MI_SLICE_SIZE) && mi_pagemap_cover(last, MI_SLICE_SIZE);
  mi_lock_leave(&mi_state.arena_lock);
  if (!is_covered) {
    mi_os_unmap(p, size);
    return false;
  }
  mi_tool_add_root(p, size);
  mi_count_add_peak(&subproc->count.committed, &subproc->count.committed_peak, (int64_t)size);
  *run = (mi_run_t){.start = p, .slice_count = wish->slice_count, .is_zero = true};
  return true;
}

// Return the size in bytes up to which a run is searched in an arena; larger blocks get a mapping
// of their own.
static size_t mi_run_object_max(void) {
  const size_t reserve = mi_arena_option_bytes(mi_option_value(arena_reserve));
  const size_t largest = mi_arena_option_bytes(mi_option_value(arena_max_object_size));
  return mi_bits_min(largest, reserve / 2);
}

// True if the page should be in an arena, and not in a mapping of its own.
static bool mi_run_is_for_arena(const mi_heap_t* heap, const mi_run_wish_t* wish) {
  if (heap->arena != NULL) return true;
  if (mi_option_value(disallow_arena_alloc) != 0) return false;
  const size_t object_max = mi_run_object_max();
  return wish->slice_count * MI_SLICE_SIZE <= object_max && wish->alignment <= object_max;
}

// Claim a run in an arena.
static bool mi_run_find(mi_heap_t* heap, const mi_run_wish_t* wish, mi_run_t* run) {
  const size_t count = wish->slice_count;
  if (!mi_run_is_for_arena(heap, wish)) return false;
  if (wish->is_below_peak) {
    return mi_slices_claim_below_peak(heap, count, wish->alignment, wish->touched_count, run);
  }
  return mi_slices_claim(heap, count, wish->alignment, wish->touched_count, run);
}

MI_INTERNAL bool mi_run_claim(mi_heap_t* heap, const mi_run_wish_t* wish, mi_run_t* run) {
  const bool is_claimed =
      mi_run_find(heap, wish, run) || (!wish->is_below_peak && mi_run_map(heap, wish, run));
  if (is_claimed) mi_tool_close(run->start, run->slice_count * MI_SLICE_SIZE);
  return is_claimed;
}

MI_INTERNAL mi_arena_t* mi_run_arena(mi_heap_t* heap, mi_page_backing_t backing,
                                     const uint8_t* start) {
  if (backing == MI_BACKING_DIRECT) return NULL;
  mi_arena_t* const arena = mi_arena_of(heap->subproc, start);
  mi_assert(arena != NULL);
  return arena;
}

static mi_attr_noinline void mi_run_unmap(mi_subproc_t* subproc, uint8_t* start, size_t size) {
  mi_tool_remove_root(start, size);
  mi_tool_open(start, size); // for the next mapping at this address
  mi_tool_before_unmap(&subproc->direct);
  mi_mark_purge(start, size);
  mi_page_t* const page = mi_pagemap_slice(start);
  if (page->has_fence) page->has_fence = false; // it goes with the mapping
  // A hole in a larger mapping makes one more mapping, and their number is limited: at the limit
  // the addresses are lost, but not the memory.
  if (mi_os_unmap(start, size) != 0) mi_os_purge(start, size);
  mi_count_add(&subproc->count.committed, -(int64_t)size);
}

MI_INTERNAL void mi_run_release(mi_heap_t* heap, mi_arena_t* arena, uint8_t* start,
                                size_t slice_count, size_t alignment) {
  if (arena == NULL) {
    mi_run_unmap(heap->subproc, start, slice_count * MI_SLICE_SIZE);
    return;
  }
  mi_tool_close(start, slice_count * MI_SLICE_SIZE);
  mi_slices_release(arena, mi_arena_slice_of(arena, start), slice_count, alignment);
}

// Return the book that a page belongs into (RUN-1), or NULL if that is none.
static mi_book_t* mi_run_book(mi_heap_t* heap, const mi_page_t* page) {
  if (page->backing == MI_BACKING_DIRECT) return &heap->subproc->direct;
  return heap->is_main ? NULL : &heap->book;
}

MI_INTERNAL bool mi_run_enlist(mi_heap_t* heap, mi_page_t* page) {
  mi_book_t* const book = mi_run_book(heap, page);
  return book == NULL || mi_book_add(book, page);
}

MI_INTERNAL void mi_run_delist(mi_heap_t* heap, mi_page_t* page) {
  mi_book_t* const book = mi_run_book(heap, page);
  if (book != NULL) mi_book_remove(book, page);
}
