// SPDX-License-Identifier: MIT
// move.h - memory that changes its addresses without being copied (mremap).
#ifndef MI_CORE_MOVE_H
#define MI_CORE_MOVE_H

#include "arena.h"

// How many ranges of arenas may be moved and not yet renewed: if another one is to be; and if that
// is so long that copying it takes milliseconds.
#define MI_MOVED_MAX ((size_t)256)
#define MI_MOVED_LONG_MAX ((size_t)4096)
#define MI_MOVED_LONG ((size_t)2 * MI_MIB)

// True while another range of `size` bytes may be moved.
static inline bool mi_move_is_allowed(size_t size) {
  const size_t most = size >= MI_MOVED_LONG ? MI_MOVED_LONG_MAX : MI_MOVED_MAX;
  return mi_atomic_load_relaxed(&mi_state.moved_count) < most;
}

typedef enum mi_move_e {
  MI_MOVE_DONE,
  MI_MOVE_NONE, // nothing has changed
  MI_MOVE_LOST, // nothing was moved, and the target must not be used any more
} mi_move_t;

// Move the memory of `size` bytes (whole slices) from `from` to `to`; both belong to the caller.
// `arena` is the arena that `to` lies in, NULL for a mapping of its own. The old addresses read as
// zero afterwards. Does not mark the target: mi_move_note does.
MI_INTERNAL mi_move_t mi_move_memory(mi_subproc_t* subproc, mi_arena_t* arena, uint8_t* from,
                                     uint8_t* to, size_t size);

// Note that a move replaced the mapping of these slices.
MI_INTERNAL void mi_move_note(mi_arena_t* arena, size_t slice_index, size_t slice_count);

// True if another mapping begins at this slice, which is not the first of the arena.
MI_INTERNAL bool mi_move_is_cut(mi_arena_t* arena, size_t slice_index);

// Note that another mapping begins at this slice from now on, if it belongs to a moved range: the
// rest of that range then counts as a range of its own. The slice behind a replaced range may
// belong to another thread, which may renew it at this moment: then a mark is left that counts one
// too many until its next purge.
MI_INTERNAL void mi_move_note_cut(mi_arena_t* arena, size_t slice_index);

// Give the contents of moved slices back, and join their mapping with its neighbours again. Returns
// 0, or the error number if the system refuses: then the slices are unchanged. The caller has
// claimed the slices.
MI_INTERNAL int mi_move_renew(mi_arena_t* arena, size_t slice_index, size_t slice_count);

// Forget marks that mi_move_note_cut has left at slices that were not moved.
MI_INTERNAL void mi_move_unmark(mi_arena_t* arena, size_t slice_index, size_t slice_count);

#endif
