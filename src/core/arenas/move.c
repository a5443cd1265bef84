// SPDX-License-Identifier: MIT
// move.c - moved memory: mremap(2) with MREMAP_DONTUNMAP moves contents to other addresses at 1/100
// of the cost of a fault, without copying.
//
//   moved        . . M M M M . . M M M . .    slices whose mapping was replaced
//   moved_first  . . 1 . 1 . . . 1 . . . .    where a moved range, or the rest of one, begins
//
// A moved range no longer merges with its neighbours: it is a mapping of its own, and the kernel
// limits the number of mappings (65,530). So each range is marked, it is renewed when it is purged,
// and there are never more than MI_MOVED_MAX of them, and of long ones MI_MOVED_LONG_MAX (copying
// 50 MiB takes 20 ms, and twice the memory).
//
// MOVE-1  `moved` is set for exactly the slices whose mapping was replaced and not renewed since.
// MOVE-2  `mi_state.moved_count` is at least the number of bits in `moved_first` of all arenas:
//     ranges that can never be renewed stay counted, so that in the end nothing is moved any more.
// MOVE-3  between the removal of the target's mapping and the failure of a move another thread may
//     map something at the target. That mapping is never replaced: the slices are lost
//     (`lost_count`).
//
// Memory is moved when a large block grows (large.c), and from slices that wait to go back to a
// large block that is being claimed (retain.c).
#include "move.h"

#include <errno.h>

#include "bitmap.h"
#include "charge.h"

// A move has failed after the system removed the mapping at the target: map it again. False if the
// target cannot be ours any more, because another thread has mapped something there or the system
// refuses; then nothing is moved any more in this process (MOVE-3).
static mi_attr_cold bool mi_move_restore(mi_subproc_t* subproc, mi_arena_t* arena, uint8_t* start,
                                         size_t size) {
  if (mi_os_map_again(start, size)) {
    mi_arena_advise(start, size); // RUN-3
    return true;
  }
  if (arena != NULL) {
    const size_t count = mi_bits_divide_up(size, MI_SLICE_SIZE);
    const size_t dirty = mi_bitmap_clear(arena->dirty, mi_arena_slice_of(arena, start), count);
    mi_count_add(&subproc->count.committed, -(int64_t)(dirty * MI_SLICE_SIZE));
    mi_charge_drop(arena, start, size);
    mi_atomic_add_relaxed(&mi_state.lost_count, count);
  } else {
    mi_count_add(&subproc->count.committed, -(int64_t)size);
  }
  // One failure is enough: if a limit is below what the process has, the next move fails as well.
  mi_atomic_add_relaxed(&mi_state.moved_count, MI_MOVED_LONG_MAX);
  return false;
}

MI_INTERNAL mi_move_t mi_move_memory(mi_subproc_t* subproc, mi_arena_t* arena, uint8_t* from,
                                     uint8_t* to, size_t size) {
  const int err = mi_os_move(from, to, size);
  if (err == 0) return MI_MOVE_DONE;
  if (err == ENOSYS) return MI_MOVE_NONE;
  return mi_move_restore(subproc, arena, to, size) ? MI_MOVE_NONE : MI_MOVE_LOST;
}

MI_INTERNAL bool mi_move_is_cut(mi_arena_t* arena, size_t slice_index) {
  return !mi_bitmap_is_all_clear(arena->moved_first, slice_index, 1) ||
         mi_bitmap_is_all_clear(arena->moved, slice_index, 1) !=
             mi_bitmap_is_all_clear(arena->moved, slice_index - 1, 1);
}

MI_INTERNAL void mi_move_note_cut(mi_arena_t* arena, size_t slice_index) {
  if (slice_index >= mi_arena_slices(arena)) return;
  if (mi_bitmap_is_all_clear(arena->moved, slice_index, 1)) return;
  const size_t added = mi_bitmap_set(arena->moved_first, slice_index, 1);
  if (added > 0) mi_atomic_add_relaxed(&mi_state.moved_count, added);
}

MI_INTERNAL void mi_move_note(mi_arena_t* arena, size_t slice_index, size_t slice_count) {
  mi_bitmap_set(arena->moved, slice_index, slice_count);
  const size_t replaced = mi_bitmap_clear(arena->moved_first, slice_index, slice_count);
  const size_t added = mi_bitmap_set(arena->moved_first, slice_index, 1);
  mi_atomic_add_relaxed(&mi_state.moved_count, added - replaced);
  mi_move_note_cut(arena, slice_index + slice_count);
}

MI_INTERNAL void mi_move_unmark(mi_arena_t* arena, size_t slice_index, size_t slice_count) {
  const size_t marks = mi_bitmap_clear(arena->moved_first, slice_index, slice_count);
  if (marks > 0) mi_atomic_sub_relaxed(&mi_state.moved_count, marks);
}

MI_INTERNAL int mi_move_renew(mi_arena_t* arena, size_t slice_index, size_t slice_count) {
  uint8_t* const start = arena->start + slice_index * MI_SLICE_SIZE;
  const size_t size = slice_count * MI_SLICE_SIZE;
  // Near the limit of mappings the system may refuse to split the mapping: then it stays as it is.
  if (mi_os_remap(start, size) != 0) return mi_os_purge(start, size);
  if (arena->is_committed) mi_arena_advise(start, size); // mappings join only with the same advice
  mi_bitmap_clear(arena->moved, slice_index, slice_count);
  mi_move_unmark(arena, slice_index, slice_count);
  mi_move_note_cut(arena, slice_index + slice_count);
  return 0;
}
