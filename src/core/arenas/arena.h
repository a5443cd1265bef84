// SPDX-License-Identifier: MIT
// arena.h - where slices come from and go to.
#ifndef MI_CORE_ARENA_H
#define MI_CORE_ARENA_H

#include "../common/common.h"

// Slices of an arena, or a mapping of its own, that belong to the caller.
typedef struct mi_run_s {
  mi_arena_t* arena; // NULL: a mapping of its own, see run.h
  uint8_t* start;
  size_t slice_index; // in the arena
  size_t slice_count;
  bool is_zero; // all of it reads as zero
  bool is_resident; // some of it has been touched, or populated by us
} mi_run_t;

// Claim a run of free slices for `heap`, at a multiple of `alignment` bytes (a power of two, at
// least a slice), and make them readable and writable. Grows the arenas when it must. False when
// out of memory. The caller goes on with them: slices.c.
MI_INTERNAL bool mi_arena_claim(mi_heap_t* heap, size_t slice_count, size_t alignment,
                                mi_run_t* run);

// The same for exactly these slices; the arena grows if need be.
MI_INTERNAL bool mi_arena_claim_at(mi_arena_t* arena, size_t slice_index, size_t slice_count,
                                   mi_run_t* run);

// The slices are free.
MI_INTERNAL void mi_arena_release(mi_arena_t* arena, size_t slice_index, size_t slice_count);

// What the system is told of fresh committed memory: no huge pages but ours (huge.c), unless option
// allow_thp says everywhere.
MI_INTERNAL void mi_arena_advise(uint8_t* start, size_t size);

// Private anonymous memory, in OS pages that may be dropped.
static inline bool mi_arena_is_mapped_by_us(const mi_arena_t* arena) {
  return !arena->is_pinned && !arena->is_foreign;
}

// That is readable and writable at any time.
static inline bool mi_arena_is_ours(const mi_arena_t* arena) {
  return arena->is_committed && mi_arena_is_mapped_by_us(arena);
}

// That may be remapped too: a fresh mapping knows no node.
static inline bool mi_arena_is_movable(const mi_arena_t* arena) {
  return mi_arena_is_ours(arena) && arena->numa_node < 0;
}

// The arena of the sub-process that `p` lies in, or NULL.
MI_INTERNAL mi_arena_t* mi_arena_of(mi_subproc_t* subproc, const void* p);

// How many slices are mapped. Those of a growing arena become more, never fewer.
static inline size_t mi_arena_slices(const mi_arena_t* arena) {
  // Sees their windows; pairs with the release in `mi_arena_extend`.
  return mi_atomic_load_acquire(&arena->slice_count);
}

static inline size_t mi_arena_size(const mi_arena_t* arena) {
  return mi_arena_slices(arena) * MI_SLICE_SIZE;
}

static inline size_t mi_arena_slice_of(const mi_arena_t* arena, const void* p) {
  return (size_t)((const uint8_t*)p - arena->start) / MI_SLICE_SIZE;
}

// Largest run worth looking for in an arena; larger blocks get a mapping of their own.
MI_INTERNAL size_t mi_arena_object_max(void);

// What an arena is going to be like.
typedef struct mi_arena_plan_s {
  uint8_t* start; // slice aligned
  size_t size; // whole slices
  size_t size_max; // bytes that it may grow to in place; no more than `size`: it does not grow
  bool is_committed, is_pinned, is_exclusive, is_foreign; // as in mi_arena_t
  bool is_dirty; // may be other than zero
  int numa_node;
  mi_arena_commit_fun_t* commit_fun;
  void* commit_arg;
} mi_arena_plan_t;

// Make an arena of memory that is there. NULL: some of it is ours already, it has addresses that no
// window covers, or there is no memory for our structures.
MI_INTERNAL mi_arena_t* mi_arena_manage(mi_subproc_t* subproc, const mi_arena_plan_t* plan);

// How fresh memory is mapped.
typedef enum mi_arena_kind_e {
  MI_ARENA_RESERVED, // addresses only; committed slice by slice
  MI_ARENA_COMMITTED,
  MI_ARENA_LARGE, // in explicit huge OS pages: the size is a multiple of them
} mi_arena_kind_t;

// Map a planned arena, whose `start` this sets. NULL: the system refuses.
MI_INTERNAL mi_arena_t* mi_arena_reserve(mi_subproc_t* subproc, mi_arena_plan_t* plan,
                                         mi_arena_kind_t kind);

// ARENA-1 and ARENA-7, as far as bitmaps and descriptors say: free slices have no page, and slices
// that are not mapped have no bit. For assertions, while nobody claims or releases slices of it.
MI_INTERNAL bool mi_arena_is_valid(mi_arena_t* arena);

// Where the next arena should go.
MI_INTERNAL uint8_t* mi_arena_hint(void);

// The arenas of a sub-process that has ended: their slices are all free. What can be used again is,
// by the next sub-process that needs one.
MI_INTERNAL void mi_arena_retire_all(mi_subproc_t* subproc);

// Each load sees the fields of the arena; pairs with the release in `mi_arena_publish`.
#define MI_FOR_EACH_ARENA(subproc, arena)                                                          \
  for (mi_arena_t* arena = mi_atomic_load_acquire(&(subproc)->arenas); arena != NULL;              \
       arena = mi_atomic_load_acquire(&arena->next))

#endif
