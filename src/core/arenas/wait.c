// SPDX-License-Identifier: MIT
// wait.c - which free slices wait for their purge.
//
//   purge_young  freed in this period    a period is over: what is in `purge_old` and still free is
//   purge_old    freed before it         purged, and `purge_young` becomes `purge_old`
//
// Two generations of bits instead of a clock value per slice. A slice thus stays resident between
// one and two periods after its last use, and a slice that was freed a moment ago is never purged
// together with old ones.
//
// WAIT-1  a set bit in `purge_young` or `purge_old` is a hint; only slices that the purger has
//     claimed are purged.
// WAIT-2  `purge_waiting` counts the slices that are in these two, and the spare run (spare.c).
//
// Deliberately absent: when a period ends (retain.c), and the purge (purge.c).
#include "wait.h"

#include "bitmap.h"
#include "move.h"

MI_INTERNAL long mi_wait_delay_ms(void) {
  const long delay = mi_option_value(purge_delay);
  const long factor = mi_option_value(arena_purge_mult);
  if (delay < 0 || factor < 0) return -1;
  size_t ms; // no division: each free of a large block comes here
  const bool is_over = mi_bits_mul_overflows((size_t)delay, (size_t)factor, &ms);
  return is_over || ms > MI_WAIT_DELAY_MAX ? MI_WAIT_DELAY_MAX : (long)ms;
}

// So many slices were marked that were not, all of them below `end`.
static mi_attr_inline void mi_wait_count(mi_arena_t* arena, size_t end, size_t more) {
  if (end > mi_atomic_load_relaxed(&arena->purge_end)) {
    mi_atomic_store_relaxed(&arena->purge_end, end);
  }
  mi_count_add(&arena->subproc->purge_waiting, (int64_t)(more * MI_SLICE_SIZE));
  mi_wait_notice();
}

MI_INTERNAL void mi_wait_mark(mi_arena_t* arena, size_t slice_index, size_t slice_count) {
  if (arena->is_pinned || mi_wait_delay_ms() < 0) return;
  const size_t more = mi_bitmap_set(arena->purge_young, slice_index, slice_count);
  mi_wait_count(arena, slice_index + slice_count, more);
}

MI_INTERNAL void mi_wait_release_old(mi_arena_t* arena, size_t slice_index, size_t slice_count) {
  if (mi_wait_delay_ms() >= 0) {
    const size_t more = mi_bitmap_set(arena->purge_old, slice_index, slice_count);
    mi_wait_count(arena, slice_index + slice_count, more);
  }
  mi_arena_release(arena, slice_index, slice_count);
}

MI_INTERNAL mi_attr_cold void mi_wait_wake_purger(void) {
  uint32_t expected = MI_PURGER_ASLEEP;
  // One of the threads that come here wakes it.
  while (!mi_atomic_cas_weak_relaxed(&mi_state.purger, &expected, MI_PURGER_AWAKE)) {
    if (expected != MI_PURGER_ASLEEP) return;
  }
  mi_os_wake(&mi_state.purger);
}

static void mi_wait_release_part(mi_arena_t* arena, size_t slice_index, size_t slice_count) {
  if (slice_count == 0) return;
  mi_wait_mark(arena, slice_index, slice_count);
  mi_arena_release(arena, slice_index, slice_count);
}

MI_INTERNAL void mi_wait_release(mi_arena_t* arena, size_t slice_index, size_t slice_count) {
  size_t usable = slice_count; // slices before one that stays inaccessible
  if (MI_HAS_FENCE) {
    mi_page_t* const page = mi_pagemap_slice(arena->start + slice_index * MI_SLICE_SIZE);
    if (mi_unlikely(!mi_fence_drop(page))) {
      usable = (size_t)(mi_fence_of(page) - page->start) / MI_SLICE_SIZE;
      page->has_fence = false;
    }
  }
  mi_wait_release_part(arena, slice_index, usable);
  if (mi_unlikely(usable < slice_count)) {
    const size_t dirty = mi_bitmap_clear(arena->dirty, slice_index + usable, 1);
    mi_count_add(&arena->subproc->count.committed, -(int64_t)(dirty * MI_SLICE_SIZE));
    mi_wait_release_part(arena, slice_index + usable + 1, slice_count - usable - 1);
  }
}

MI_INTERNAL size_t mi_wait_forget(mi_arena_t* arena, size_t slice_index, size_t slice_count) {
  const size_t count = mi_bitmap_clear(arena->purge_young, slice_index, slice_count) +
                       mi_bitmap_clear(arena->purge_old, slice_index, slice_count);
  const int64_t bytes = (int64_t)(count * MI_SLICE_SIZE);
  if (count > 0) mi_count_add(&arena->subproc->purge_waiting, -bytes);
  return count;
}

MI_INTERNAL int64_t mi_wait_marked(mi_subproc_t* subproc) {
  size_t count = 0;
  MI_FOR_EACH_ARENA(subproc, arena) {
    count += mi_bitmap_count(arena->purge_young, arena->word_count) +
             mi_bitmap_count(arena->purge_old, arena->word_count);
  }
  return (int64_t)(count * MI_SLICE_SIZE);
}

MI_INTERNAL void mi_wait_age(mi_arena_t* arena) {
  for (size_t w = 0; w < arena->word_count; w++) {
    if (mi_atomic_load_relaxed(&arena->purge_young[w]) == 0) continue;
    const uint64_t young = mi_atomic_and_relaxed(&arena->purge_young[w], 0);
    mi_atomic_or_relaxed(&arena->purge_old[w], young);
  }
}

// Return the bits of a word whose slices are free and wait.
static uint64_t mi_wait_word(mi_arena_t* arena, size_t w) {
  const uint64_t marked =
      mi_atomic_load_relaxed(&arena->purge_young[w]) | mi_atomic_load_relaxed(&arena->purge_old[w]);
  return marked == 0 ? 0 : marked & mi_atomic_load_relaxed(&arena->free[w]);
}

// Return the end of the highest waiting run below `end`, 0 if there is none.
static size_t mi_wait_top_end(mi_arena_t* arena, size_t end) {
  while (end > 0) {
    const size_t w = (end - 1) / MI_WORD_BITS;
    const uint64_t x = mi_wait_word(arena, w) & mi_bits_mask(end - w * MI_WORD_BITS);
    if (x != 0) return w * MI_WORD_BITS + mi_bits_log2(x) + 1;
    end = w * MI_WORD_BITS;
  }
  return 0;
}

// Return the start of the waiting run that ends at `end`, at most `longest` slices below it.
static size_t mi_wait_top_start(mi_arena_t* arena, size_t end, size_t longest) {
  const size_t low = end - mi_bits_min(end, longest);
  size_t start = end;
  while (start > low) {
    const size_t w = (start - 1) / MI_WORD_BITS;
    const size_t bits = start - w * MI_WORD_BITS; // the bits of the word below `start`
    const uint64_t other = ~mi_wait_word(arena, w) & mi_bits_mask(bits);
    start = w * MI_WORD_BITS + (other == 0 ? 0 : mi_bits_log2(other) + 1);
    if (other != 0) break;
  }
  return mi_bits_max(start, low);
}

// Return the start of the part of a run, up to `end`, that lies in one mapping.
static size_t mi_wait_mapping_start(mi_arena_t* arena, size_t start, size_t end) {
  const size_t count = end - start;
  if (mi_bitmap_is_all_clear(arena->moved, start, count) &&
      mi_bitmap_is_all_clear(arena->moved_first, start, count)) {
    return start;
  }
  size_t from = end - 1;
  while (from > start && !mi_move_is_cut(arena, from)) from--;
  return from;
}

MI_INTERNAL mi_attr_cold size_t mi_wait_top_run(mi_arena_t* arena, size_t* end, size_t longest) {
  *end = mi_wait_top_end(arena, *end);
  if (*end == 0) return 0;
  return mi_wait_mapping_start(arena, mi_wait_top_start(arena, *end, longest), *end);
}
