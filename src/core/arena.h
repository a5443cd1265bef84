// SPDX-License-Identifier: MIT
// arena.h - where slices come from and go to.
#ifndef MI_CORE_ARENA_H
#define MI_CORE_ARENA_H

#include "state.h"

// Slices that the caller may use: owned until `mi_arena_release`.
typedef struct mi_run_s {
  mi_arena_t* arena;
  size_t slice_index;
  size_t slice_count;
  size_t touched_count; // slices that the caller said it will write to, from the first
  bool is_zero; // all of it reads as zero
  bool is_resident; // some of it has been touched, or populated by us
} mi_run_t;

static inline uint8_t* mi_run_start(const mi_run_t* run) {
  return run->arena->start + run->slice_index * MI_SLICE_SIZE;
}

// Claim a run whose address is a multiple of `alignment` bytes (a power of two, at least a slice),
// readable and writable. Grows the arenas when it must. False when out of memory. The first
// `touched_count` slices will be written to: memory that waits elsewhere may be moved there.
MI_INTERNAL bool mi_arena_claim_to_touch(size_t slice_count, size_t alignment, size_t touched_count,
                                         mi_run_t* run);

static inline bool mi_arena_claim(size_t slice_count, size_t alignment, mi_run_t* run) {
  return mi_arena_claim_to_touch(slice_count, alignment, 0, run);
}

// Give slices back. The caller has cleared their descriptors (M3 of pagemap.h).
MI_INTERNAL void mi_arena_release(mi_arena_t* arena, size_t slice_index, size_t slice_count);

// Claim exactly the slices that follow a run, to grow a block in place.
MI_INTERNAL bool mi_arena_claim_at(mi_arena_t* arena, size_t slice_index, size_t slice_count,
                                   bool* is_zero);

// The mapping of these slices was replaced by `mi_os_move`.
MI_INTERNAL void mi_arena_note_moved(mi_arena_t* arena, size_t slice_index, size_t slice_count);

// How many ranges may be moved and not yet renewed.
#define MI_ARENA_MOVED_MAX 256

static inline bool mi_arena_may_move(void) {
  return mi_atomic_load_relaxed(&mi_state.moved_count) < MI_ARENA_MOVED_MAX;
}

// The arena that `p` lies in, or NULL.
MI_INTERNAL mi_arena_t* mi_arena_of(const void* p);

static inline size_t mi_arena_slice_of(const mi_arena_t* arena, const void* p) {
  return (size_t)((const uint8_t*)p - arena->start) / MI_SLICE_SIZE;
}

// Largest run worth looking for in an arena; larger blocks get a mapping of their own.
MI_INTERNAL size_t mi_arena_object_max(void);

// Make an arena of at least `size` bytes now (option reserve_os_memory). False when refused.
MI_INTERNAL bool mi_arena_reserve(size_t size);

#define MI_FOR_EACH_ARENA(arena)                                                                   \
  for (mi_arena_t* arena = mi_atomic_load_acquire(&mi_state.arenas); /* sees its fields */         \
       arena != NULL; arena = mi_atomic_load_acquire(&arena->next)) /* sees its fields */

#endif
