// SPDX-License-Identifier: MIT
// charge.h - which memory the system charges the process for, as far as can be known without asking
// it: charge.c.
#ifndef MI_CORE_CHARGE_H
#define MI_CORE_CHARGE_H

#include "../common/common.h"

// Of a slice; in an arena each has a bit in `units`. One where an OS page is a slice.
#define MI_CHARGE_UNITS ((size_t)(MI_IS_WASM ? 1 : 16))
#define MI_CHARGE_UNIT (MI_SLICE_SIZE / MI_CHARGE_UNITS)

// Return the bytes of whole OS pages that hold `size` bytes.
static inline size_t mi_charge_round(size_t size) {
  return mi_bits_align_up(size, mi_state.os.page_size);
}

// Memory outside arenas is charged, or is no more.
MI_INTERNAL void mi_charge_more(mi_subproc_t* subproc, size_t bytes);
MI_INTERNAL void mi_charge_less(mi_subproc_t* subproc, size_t bytes);

// The OS pages that a range touches are charged from now on. The caller has claimed their slices.
MI_INTERNAL void mi_charge_add(mi_arena_t* arena, const uint8_t* start, size_t size);

// Blocks in a range get marks (mark.h): count the OS pages of these.
MI_INTERNAL void mi_charge_marks(mi_arena_t* arena, const uint8_t* start, size_t size);

// The marks of slices went back.
MI_INTERNAL void mi_charge_drop_marks(mi_arena_t* arena, size_t slice_index, size_t slice_count);

// Their contents are gone: they are not charged any more. Returns how many bytes were.
MI_INTERNAL size_t mi_charge_drop(mi_arena_t* arena, const uint8_t* start, size_t size);

// True if some of a range is charged.
MI_INTERNAL bool mi_charge_has_any(const mi_arena_t* arena, const uint8_t* start, size_t size);

// Return how many bytes of an arena are charged, marks included / of marks / of one slice.
MI_INTERNAL size_t mi_charge_in(const mi_arena_t* arena);
MI_INTERNAL size_t mi_charge_in_marks(const mi_arena_t* arena);
MI_INTERNAL size_t mi_charge_in_slice(const mi_arena_t* arena, size_t slice_index);

// A sub-process gets an arena: count what is charged there.
MI_INTERNAL void mi_charge_adopt(mi_subproc_t* subproc, mi_arena_t* arena);

#endif
