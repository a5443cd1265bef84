// SPDX-License-Identifier: MIT
// arena.h - arenas: ranges of slices that are claimed and released.
#ifndef MI_CORE_ARENA_H
#define MI_CORE_ARENA_H

#include <errno.h>

#include "../common/common.h"

// A run: consecutive slices of an arena, or a mapping of its own, that belong to the caller.
typedef struct mi_run_s {
  mi_arena_t* arena; // NULL: the run is a mapping of its own, see run.h
  uint8_t* start;
  size_t slice_index; // in the arena
  size_t slice_count;
  bool is_zero; // the whole run reads as zero
  bool is_resident; // part of the run has been touched, or populated by us
  bool is_dirty; // all of it has been
} mi_run_t;

// Claim a run of free slices for `heap`, at a multiple of `alignment` bytes (a power of two, at
// least a slice), and make them readable and writable. Grows the arenas if necessary. False when
// out of memory. The caller prepares the slices: slices.c.
MI_INTERNAL bool mi_arena_claim(mi_heap_t* heap, size_t slice_count, size_t alignment,
                                mi_run_t* run);

// The same for exactly these slices; the arena grows if need be.
MI_INTERNAL bool mi_arena_claim_at(mi_arena_t* arena, size_t slice_index, size_t slice_count,
                                   mi_run_t* run);

// Mark slices as free.
MI_INTERNAL void mi_arena_release(mi_arena_t* arena, size_t slice_index, size_t slice_count);

// Advise the system about fresh committed memory: no huge pages except those of huge.c, unless
// option allow_thp asks for them everywhere.
MI_INTERNAL void mi_arena_advise(uint8_t* start, size_t size);

// What a commit function is asked for.
typedef enum mi_arena_need_e { MI_ARENA_DECOMMIT = 0, MI_ARENA_COMMIT } mi_arena_need_t;

// Call the commit function of an arena that has one. False if it fails, or if something else wrote
// to where it is kept (secret.h). A free may lead here, so errno is preserved.
static inline bool mi_arena_call(const mi_arena_t* arena, mi_arena_need_t need, uint8_t* start,
                                 size_t size, bool* is_zero) {
  const uintptr_t fun = mi_secret_unseal(&arena->commit_fun, (uintptr_t)arena->commit_fun);
  void* const arg = (void*)mi_secret_unseal(&arena->commit_arg, (uintptr_t)arena->commit_arg);
  if (!mi_secret_is_whole(fun)) return false;
  const int saved_errno = errno;
  const bool is_done =
      ((mi_arena_commit_fun_t*)fun)(need == MI_ARENA_COMMIT, start, size, is_zero, arg);
  errno = saved_errno;
  return is_done;
}

// True if the memory of the arena is private and anonymous, in OS pages that may be dropped.
static inline bool mi_arena_is_mapped_by_us(const mi_arena_t* arena) {
  return !arena->is_pinned && !arena->is_foreign;
}

// True if, moreover, it is readable and writable at any time.
static inline bool mi_arena_is_ours(const mi_arena_t* arena) {
  return arena->is_committed && mi_arena_is_mapped_by_us(arena);
}

// True if, moreover, it may be remapped: a fresh mapping would not be bound to a NUMA node.
static inline bool mi_arena_is_movable(const mi_arena_t* arena) {
  return mi_arena_is_ours(arena) && arena->numa_node < 0;
}

// Claim free slices for a moment, to change their memory, and let them go again. False if some are
// in use. What the arena counts as free does not change.
MI_INTERNAL bool mi_arena_hold(mi_arena_t* arena, size_t slice_index, size_t slice_count);
MI_INTERNAL void mi_arena_let_go(mi_arena_t* arena, size_t slice_index, size_t slice_count);

// Return the arena of the sub-process that `p` lies in, or NULL.
MI_INTERNAL mi_arena_t* mi_arena_of(mi_subproc_t* subproc, const void* p);

// Return how many slices are mapped. The number can grow, but never shrinks.
static inline size_t mi_arena_slices(const mi_arena_t* arena) {
  // Sees the windows of these slices; pairs with the release in `mi_arena_extend`.
  return mi_atomic_load_acquire(&arena->slice_count);
}

static inline size_t mi_arena_size(const mi_arena_t* arena) {
  return mi_arena_slices(arena) * MI_SLICE_SIZE;
}

static inline size_t mi_arena_slice_of(const mi_arena_t* arena, const void* p) {
  return (size_t)((const uint8_t*)p - arena->start) / MI_SLICE_SIZE;
}

// What an arena may grow to: half of the addresses, or so much that the bitmaps are not large.
#define MI_ARENA_SLICES_LOG2_MAX 28
#define MI_ARENA_SIZE_MAX                                                                          \
  ((size_t)1 << (MI_ADDRESS_BITS - 1 < MI_SLICE_SHIFT + MI_ARENA_SLICES_LOG2_MAX                   \
                     ? MI_ADDRESS_BITS - 1                                                         \
                     : MI_SLICE_SHIFT + MI_ARENA_SLICES_LOG2_MAX))

// Return the bytes that an option in KiB stands for. A negative one is no bound.
static inline size_t mi_arena_option_bytes(long kib) {
  return mi_bits_min((size_t)kib, MI_ARENA_SIZE_MAX / MI_KIB) * MI_KIB;
}

// The description of an arena that is going to be made.
typedef struct mi_arena_plan_s {
  uint8_t* start; // slice aligned
  size_t size; // whole slices
  size_t size_max; // bytes that it may grow to in place; if at most `size`, it does not grow
  size_t first_size; // of MI_ARENA_ROOM: what it has at first
  bool has_room; // as in mi_arena_t; set by `mi_arena_reserve`
  bool is_committed, is_pinned, is_exclusive, is_foreign; // as in mi_arena_t
  bool is_dirty; // the memory may be non-zero
  int numa_node;
  mi_arena_commit_fun_t* commit_fun;
  void* commit_arg;
} mi_arena_plan_t;

// Make an arena of existing memory. NULL if some of the memory is ours already, if no window covers
// some of its addresses, or if there is no memory for our structures.
MI_INTERNAL mi_arena_t* mi_arena_manage(mi_subproc_t* subproc, const mi_arena_plan_t* plan);

// How fresh memory is mapped.
typedef enum mi_arena_kind_e {
  MI_ARENA_RESERVED, // addresses only; committed slice by slice
  MI_ARENA_COMMITTED,
  MI_ARENA_LARGE, // in explicit huge OS pages: the size is a multiple of them
  MI_ARENA_ROOM, // committed, but only its first part: the rest are addresses to grow into
} mi_arena_kind_t;

// Map a planned arena, and set `plan->start`. NULL if the system refuses.
MI_INTERNAL mi_arena_t* mi_arena_reserve(mi_subproc_t* subproc, mi_arena_plan_t* plan,
                                         mi_arena_kind_t kind);

// True if ARENA-1 and ARENA-7 hold, as far as bitmaps and descriptors show: free slices have no
// page, and slices that are not mapped have no bit. For assertions, while no thread claims or
// releases slices of the arena.
MI_INTERNAL bool mi_arena_is_valid(mi_arena_t* arena);

// Return the address where the next arena should go.
MI_INTERNAL uint8_t* mi_arena_hint(void);

// True if an arena is where the hints lead, among addresses that the system does not hand out by
// itself. It is elsewhere if that place was taken, or if hints have no effect.
MI_INTERNAL bool mi_arena_is_apart(const uint8_t* start);

// Take all arenas from a sub-process that has ended; all their slices are free. Those of memory of
// the program are gone then.
MI_INTERNAL void mi_arena_retire_all(mi_subproc_t* subproc);

// Each load sees the fields of the loaded arena; pairs with the release in `mi_arena_publish`.
#define MI_FOR_EACH_ARENA(subproc, arena)                                                          \
  for (mi_arena_t* arena = mi_atomic_load_acquire(&(subproc)->arenas); arena != NULL;              \
       arena = mi_atomic_load_acquire(&arena->next))

#endif
