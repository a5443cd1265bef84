// SPDX-License-Identifier: MIT
// charge.c - counts the memory that the system charges the process for, without asking it.
//
//   slice      |       16 units       |       16 units       |   a unit is 4 KiB
//   units       1 1 1 1 1 0 0 0 0 ...  0 0 0 0 ...               a bit for each
//
// (On WebAssembly, where an OS page is a slice, a unit is a slice.)
//
// `committed` of the counters is in slices, and decides when memory goes back. This count is for
// statistics: slices in use are mostly not touched as a whole.
//
// CHARGE-1  a unit is charged from the moment that the program may touch it until its contents go
//     back: when a page carves blocks or fills a hole, when a block gets a page of its own, when a
//     chunk is populated; until it is purged, or moved away, or becomes a guard. Free memory that
//     waits to go back is charged as far as it was.
// CHARGE-2  units are charged in whole OS pages, as the system does.
// CHARGE-3  `count.charged` of a sub-process is the number of bits in its arenas, in bytes, and the
//     bytes of its pages outside arenas: those of carved blocks, and single blocks.
// CHARGE-4  in a secure build the marks of a slice, 1/16 of it, are charged as long as its bit in
//     `marked` is set: from the first mark on until they go back.
// CHARGE-5  bits of a slice change only by the thread that has claimed it, but for a huge page,
//     which sets those of its whole chunk (huge.c, collapse.c), and for what is behind the blocks
//     of a page (tail.c). The bits are set and cleared by atomic operations, and each change is
//     counted once, by whoever makes it.
//
// So the count is too high by what the program does not touch of its large blocks, and too low by
// nothing, but for a huge page that the system makes by itself. Deliberately absent: our own
// structures (meta.c, `mi_usage_metadata`).
#include "charge.h"

#include "bitmap.h"

MI_INTERNAL mi_attr_noinline void mi_charge_more(mi_subproc_t* subproc, size_t bytes) {
  mi_count_add_peak(&subproc->count.charged, &subproc->count.charged_peak, (int64_t)bytes);
}

MI_INTERNAL mi_attr_noinline void mi_charge_less(mi_subproc_t* subproc, size_t bytes) {
  mi_count_add(&subproc->count.charged, -(int64_t)bytes);
  mi_count_add(&subproc->count.uncharged, (int64_t)bytes);
}

// Return the first unit, and the number of units, of the OS pages that a range touches.
static size_t mi_charge_units(const mi_arena_t* arena, const uint8_t* start, size_t size,
                              size_t* count) {
  const size_t page_size = mi_state.os.page_size;
  const size_t offset = (size_t)(start - arena->start);
  const size_t first = mi_bits_align_down(offset, page_size) / MI_CHARGE_UNIT;
  *count = mi_bits_align_up(offset + size, page_size) / MI_CHARGE_UNIT - first;
  return first;
}

MI_INTERNAL void mi_charge_add(mi_arena_t* arena, const uint8_t* start, size_t size) {
  size_t count;
  const size_t first = mi_charge_units(arena, start, size, &count);
  const size_t added = mi_bitmap_set(arena->units, first, count);
  if (added > 0) mi_charge_more(arena->subproc, added * MI_CHARGE_UNIT);
}

MI_INTERNAL bool mi_charge_has_any(const mi_arena_t* arena, const uint8_t* start, size_t size) {
  size_t count;
  const size_t first = mi_charge_units(arena, start, size, &count);
  return !mi_bitmap_is_all_clear(arena->units, first, count);
}

MI_INTERNAL size_t mi_charge_drop(mi_arena_t* arena, const uint8_t* start, size_t size) {
  size_t count;
  const size_t first = mi_charge_units(arena, start, size, &count);
  const size_t bytes = mi_bitmap_clear(arena->units, first, count) * MI_CHARGE_UNIT;
  mi_charge_less(arena->subproc, bytes);
  return bytes;
}

// A fresh arena has long maps that were never touched: return the words of a map of slices that may
// have been. (A word has whole chunks: HUGE-3.)
static size_t mi_charge_words(const mi_arena_t* arena) {
  return mi_bits_divide_up(mi_atomic_load_relaxed(&arena->used_end), MI_WORD_BITS);
}

#if MI_IS_SECURE

#define MI_CHARGE_MARKS (MI_SLICE_SIZE >> MI_MARK_SHIFT)

MI_INTERNAL void mi_charge_marks(mi_arena_t* arena, const uint8_t* start, size_t size) {
  const size_t offset = (size_t)(start - arena->start);
  const size_t first = offset / MI_SLICE_SIZE;
  const size_t count = mi_bits_divide_up(offset + size, MI_SLICE_SIZE) - first;
  const size_t added = mi_bitmap_set(arena->marked, first, count);
  if (added > 0) mi_charge_more(arena->subproc, added * MI_CHARGE_MARKS);
}

MI_INTERNAL void mi_charge_drop_marks(mi_arena_t* arena, size_t slice_index, size_t slice_count) {
  const size_t dropped = mi_bitmap_clear(arena->marked, slice_index, slice_count);
  mi_charge_less(arena->subproc, dropped * MI_CHARGE_MARKS);
}

MI_INTERNAL size_t mi_charge_in_marks(const mi_arena_t* arena) {
  return mi_bitmap_count(arena->marked, mi_charge_words(arena)) * MI_CHARGE_MARKS;
}

#else

MI_INTERNAL void mi_charge_marks(mi_arena_t* arena, const uint8_t* start, size_t size) {
  (void)arena, (void)start, (void)size;
}

MI_INTERNAL void mi_charge_drop_marks(mi_arena_t* arena, size_t slice_index, size_t slice_count) {
  (void)arena, (void)slice_index, (void)slice_count;
}

MI_INTERNAL size_t mi_charge_in_marks(const mi_arena_t* arena) {
  (void)arena;
  return 0;
}

#endif

MI_INTERNAL mi_attr_cold size_t mi_charge_in(const mi_arena_t* arena) {
  const size_t units = mi_bitmap_count(arena->units, mi_charge_words(arena) * MI_CHARGE_UNITS);
  return units * MI_CHARGE_UNIT + mi_charge_in_marks(arena);
}

MI_INTERNAL mi_attr_cold size_t mi_charge_in_slice(const mi_arena_t* arena, size_t slice_index) {
  const size_t first = slice_index * MI_CHARGE_UNITS; // all of them are in one word
  const uint64_t word = mi_atomic_load_relaxed(&arena->units[first / MI_WORD_BITS]);
  const uint64_t units = word >> first % MI_WORD_BITS & mi_bits_mask(MI_CHARGE_UNITS);
  return mi_bits_count(units) * MI_CHARGE_UNIT;
}

MI_INTERNAL mi_attr_cold void mi_charge_adopt(mi_subproc_t* subproc, mi_arena_t* arena) {
  mi_charge_more(subproc, mi_charge_in(arena));
}
