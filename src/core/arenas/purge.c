// SPDX-License-Identifier: MIT
// purge.c - how freed slices go back to the system. retain.c decides when, and how much.
//
// PURGE-1  only slices that the purger has claimed are purged: their marks are hints (WAIT-1).
// PURGE-2  after a purge the slice is not dirty: it reads as zero.
// PURGE-3  one thread at a time purges what waits. Others skip it; only a fork, the end of a
//     sub-process, and who asks for all unused memory (mi_collect, malloc_trim, a malloc that
//     fails) wait. What a thread has claimed, for a page, a block or a move, it gives back without
//     that (page.c, large.c, retain.c): no other purger looks there.
// PURGE-4  who waits for the purge lock waits for one system call for MI_PURGE_PIECE slices: a fork
//     holds all other locks by then, so that no thread can start or end meanwhile (1.5 GiB took 330
//     ms at once). The purger stops as soon as it sees that, and what is left is for the next poll;
//     or, if all is asked for, it leaves the lock for a moment and begins anew. (Not where each
//     free gives back what it can, with option purge_delay 0: that is little.)
//
// Not purged: pinned memory, and anything while `purge_delay` is negative. Deliberately absent:
// which parts of a page in use hold only free blocks (pages/hole.c).
#include "purge.h"

#include "bitmap.h"
#include "charge.h"
#include "collapse.h"
#include "kept.h"
#include "move.h"
#include "spare.h"

#define MI_PURGE_PASSES ((size_t)16) // runs that are too short, or claimed by another thread
// Slices that go back with one system call: 5 to 10 ms. (Not where only long runs go.)
#define MI_PURGE_PIECE ((size_t)1024)

// Return the number of slices below which a run of free slices is not purged (option
// minimal_purge_size; with allow_thp 2 at least a chunk, so that no huge page is cut).
static size_t mi_purge_minimum(void) {
  const size_t size = (size_t)mi_option_value(minimal_purge_size) * MI_KIB;
  if (size == 0 && mi_option_value(allow_thp) >= 2) return MI_CHUNK_SLICES;
  return mi_bits_divide_up(size, MI_SLICE_SIZE);
}

// Decommit slices; they are committed again when they are claimed.
static int mi_purge_decommit(mi_arena_t* arena, size_t index, size_t count) {
  uint8_t* const start = arena->start + index * MI_SLICE_SIZE;
  const size_t size = count * MI_SLICE_SIZE;
  // Near the limit of mappings the system may refuse: then the slices stay usable, and charged.
  if (mi_os_decommit(start, size) != 0) return mi_os_purge(start, size);
  mi_bitmap_clear(arena->committed, index, count);
  return 0;
}

// Give the contents of claimed slices back. Returns the bytes that were dirty.
MI_INTERNAL mi_attr_cold size_t mi_purge_claimed(mi_arena_t* arena, size_t index, size_t count) {
  uint8_t* const start = arena->start + index * MI_SLICE_SIZE;
  const size_t size = count * MI_SLICE_SIZE;
  int err = 0;
  const bool is_moved = !mi_bitmap_is_all_clear(arena->moved, index, count);
  mi_collapse_split(arena, index, count);
  if (!is_moved) mi_move_unmark(arena, index, count);
  if (is_moved) {
    err = mi_move_renew(arena, index, count);
  } else if (arena->commit_fun != NULL) {
    bool is_zero = false; // ignored: the next commit tells
    mi_tool_open(start, size); // the function may write there
    if (!mi_arena_call(arena, MI_ARENA_DECOMMIT, start, size, &is_zero)) return 0;
    mi_bitmap_clear(arena->committed, index, count);
  } else if (!arena->is_committed && !arena->is_foreign) {
    err = mi_purge_decommit(arena, index, count);
  } else if (mi_option_value(purge_decommits) != 0) {
    err = mi_os_purge(start, size);
    if (arena->is_foreign) mi_atomic_store_relaxed(&arena->is_unsure, true);
  } else {
    mi_count_add(&arena->subproc->count.reset_calls, 1);
    mi_count_add(&arena->subproc->count.reset, (int64_t)size);
    mi_os_reset(start, size);
    return 0; // still resident, contents unknown
  }
  if (err != 0) { // the contents stay until mi_purge_everything tries again
    const size_t clean = mi_bitmap_set(arena->dirty, index, count); // it was populated: HUGE-4
    mi_count_add(&arena->subproc->count.committed, (int64_t)(clean * MI_SLICE_SIZE));
    return 0;
  }
  mi_mark_purge(start, size);
  mi_charge_drop_marks(arena, index, count);
  const size_t bytes = mi_bitmap_clear(arena->dirty, index, count) * MI_SLICE_SIZE;
  mi_count_add(&arena->subproc->count.committed, -(int64_t)bytes);
  mi_count_add(&arena->subproc->count.purged, (int64_t)mi_charge_drop(arena, start, size));
  mi_count_add(&arena->subproc->count.purge_calls, 1);
  mi_probe2(purge, start, size);
  return bytes;
}

MI_INTERNAL bool mi_purge_contents(mi_arena_t* arena, uint8_t* start, size_t size) {
  if (!mi_arena_is_mapped_by_us(arena) || mi_wait_delay_ms() < 0) return false;
  const size_t index = mi_arena_slice_of(arena, start);
  mi_collapse_split(arena, index, mi_arena_slice_of(arena, start + size - 1) + 1 - index);
  if (mi_os_purge(start, size) != 0) return false;
  mi_count_add(&arena->subproc->count.purged, (int64_t)size);
  mi_count_add(&arena->subproc->count.purge_calls, 1);
  mi_probe2(purge, start, size);
  return true;
}

// Claim a run that waits, purge it and release it. False if it is not free any more.
static bool mi_purge_try(mi_arena_t* arena, size_t index, size_t count, size_t* bytes) {
  if (!mi_arena_hold(arena, index, count)) return false;
  mi_wait_forget(arena, index, count);
  *bytes += mi_purge_claimed(arena, index, count);
  mi_arena_let_go(arena, index, count); // publishes the cleared `dirty` bits
  return true;
}

// Return how much of a run is purged at once where `most` slices may be: whole chunks, of which
// each may be one huge page, or what is in the first one.
static size_t mi_purge_cut(size_t index, size_t count, size_t most) {
  most = mi_bits_min(most, MI_PURGE_PIECE);
  if (count <= most) return count;
  const size_t end = mi_bits_align_down(index + most, MI_CHUNK_SLICES);
  const size_t next = mi_bits_align_up(index + 1, MI_CHUNK_SLICES);
  return mi_bits_min(count, mi_bits_max(end, next) - index);
}

// True if a purge that takes until `end_ms` ends here.
static bool mi_purge_ends(uint64_t end_ms) {
  return mi_purge_is_over(end_ms) || mi_lock_is_awaited(&mi_state.purge_lock); // PURGE-4
}

// So many slices went: with threads each system call may take a hundred times as long as alone.
static void mi_purge_take(mi_purge_part_t* part, size_t count) {
  part->slices -= mi_bits_min(count, part->slices);
  if (mi_purge_ends(part->end_ms)) part->slices = 0;
}

// Purge the runs of `map` that are still free and not too short, in one arena, each with as few
// system calls as may be, until the part, of which they are taken, is over.
static size_t mi_purge_map(mi_arena_t* arena, mi_bitmap_word_t* map, size_t minimum,
                           mi_purge_part_t* part) {
  const size_t end = mi_arena_slices(arena);
  size_t bytes = 0;
  size_t index = 0;
  while (part->slices > 0 &&
         (index = mi_bitmap_find_run(map, index, end, 1, 1, 0)) != MI_BITMAP_NONE) {
    // Take the run as far as both maps have it, and claim it as a whole; a lost race leaves the
    // bits for the next period.
    const size_t free_count = mi_bitmap_run_length(arena->free, index, end);
    size_t count = mi_bitmap_run_length(map, index, mi_bits_min(index + free_count, end));
    const bool is_short = count > 0 && count < minimum; // its marks stay: more may become free
    if (minimum <= 1) count = mi_purge_cut(index, count, part->slices);
    if (!is_short && (count == 0 || !mi_purge_try(arena, index, count, &bytes))) {
      mi_wait_forget(arena, index, 1); // in use: its next release marks it again
      count = 1;
    } else if (!is_short) {
      mi_purge_take(part, count);
    }
    index += count;
  }
  return bytes;
}

MI_INTERNAL bool mi_purge_step(mi_subproc_t* subproc, mi_purge_part_t part, size_t* bytes) {
  const size_t minimum = mi_purge_minimum();
  if (!subproc->is_purged_in_part) { // else it is the next part of the same period
    mi_kept_age(subproc); // KEPT-4
    mi_spare_release(subproc);
  }
  MI_FOR_EACH_ARENA(subproc, arena) {
    *bytes += mi_purge_map(arena, arena->purge_old, minimum, &part);
  }
  subproc->is_purged_in_part = part.slices == 0;
  if (subproc->is_purged_in_part) return false;
  MI_FOR_EACH_ARENA(subproc, arena) mi_wait_age(arena);
  return true;
}

// Enter the purge lock, unless this thread holds it already: it purges, and a function of the
// program that decommits memory called us. With MI_GENTLE not if another thread holds it, either.
static bool mi_purge_enter(mi_effort_t effort) {
  if (effort != MI_FORCE) return mi_lock_try_enter(&mi_state.purge_lock);
  if ((mi_self()->locks_held & mi_lock_bit(&mi_state.purge_lock)) != 0) return false;
  mi_lock_enter(&mi_state.purge_lock);
  return true;
}

// Let a thread in that waits for the purge lock: woken, it comes too late for a lock that is taken
// again at once.
static mi_attr_cold void mi_purge_give_way(void) {
  // Written by nobody, read by the system alone: the thread is not woken.
  mi_atomic(uint32_t) never = 0;
  mi_lock_leave(&mi_state.purge_lock);
  mi_os_wait_ms(&never, 0, 1);
  mi_lock_enter(&mi_state.purge_lock);
}

// Purge in all arenas what waits; with MI_FORCE also other dirty slices. Adds to `bytes` what went.
// False if that ended before it was all. Under the purge lock.
static bool mi_purge_waiting(mi_subproc_t* subproc, mi_effort_t effort, size_t* bytes) {
  const size_t minimum = mi_purge_minimum();
  mi_purge_part_t all = MI_PURGE_WHOLE;
  MI_FOR_EACH_ARENA(subproc, arena) {
    if (arena->is_pinned) continue;
    *bytes += mi_purge_map(arena, arena->purge_old, minimum, &all);
    *bytes += mi_purge_map(arena, arena->purge_young, minimum, &all);
    if (effort == MI_FORCE) *bytes += mi_purge_map(arena, arena->dirty, minimum, &all);
  }
  return all.slices > 0;
}

MI_INTERNAL size_t mi_purge_now(mi_subproc_t* subproc, mi_effort_t effort) {
  size_t bytes = 0;
  if (!mi_purge_enter(effort)) return 0;
  mi_kept_release_all(subproc);
  subproc->is_purged_in_part = false;
  // While options keep all memory, some may wait since before they were set.
  if (mi_wait_delay_ms() >= 0) {
    mi_atomic_store_relaxed(&subproc->purge_due_ms, 0);
    while (!mi_purge_waiting(subproc, effort, &bytes)) {
      if (effort == MI_FORCE) mi_purge_give_way(); // else it may be a free, which never waits
    }
  }
  mi_lock_leave(&mi_state.purge_lock);
  return bytes;
}

MI_INTERNAL size_t mi_purge_everything(mi_subproc_t* subproc) {
  // Memory that options keep does not wait either.
  const bool is_all = mi_wait_delay_ms() >= 0 && mi_option_value(purge_decommits) != 0;
  return mi_purge_now(subproc, is_all ? MI_FORCE : MI_GENTLE);
}

// Purge `excess` bytes from the top of one arena. Returns what is left of `excess`. Under the purge
// lock. `passes` runs that are too short may be passed over; a later call goes on below them, and
// they stay until a neighbour is marked too, or the period ends.
static int64_t mi_purge_top_of(mi_arena_t* arena, int64_t excess, uint64_t end_ms, size_t* passes) {
  const size_t minimum = mi_bits_max(mi_purge_minimum(), 1);
  size_t bytes = 0;
  size_t end = mi_wait_top(arena);
  while (excess > 0 && *passes > 0) {
    const size_t most =
        mi_bits_min(mi_bits_divide_up((size_t)excess, MI_SLICE_SIZE), MI_PURGE_PIECE);
    const size_t longest = mi_bits_max(most, minimum);
    const size_t start = mi_wait_top_run(arena, &end, longest);
    mi_wait_lower_top(arena, start); // before the purge, in whose time others mark slices
    if (end == 0) break;
    if (end - start >= minimum && mi_purge_try(arena, start, end - start, &bytes)) {
      excess -= (int64_t)((end - start) * MI_SLICE_SIZE);
      if (mi_purge_ends(end_ms)) *passes = 0;
    } else {
      (*passes)--;
    }
    end = start;
  }
  return excess;
}

MI_INTERNAL mi_attr_cold int64_t mi_purge_from_top(mi_subproc_t* subproc, int64_t bytes,
                                                   uint64_t end_ms) {
  if (!mi_lock_try_enter(&mi_state.purge_lock)) return 0;
  mi_spare_release(subproc);
  int64_t left = bytes;
  size_t passes = MI_PURGE_PASSES;
  mi_arena_t* last = NULL;
  MI_FOR_EACH_ARENA(subproc, arena) { last = arena; }
  for (; last != NULL && left > 0; last = last->before) {
    left = mi_purge_top_of(last, left, end_ms, &passes);
  }
  mi_lock_leave(&mi_state.purge_lock);
  return bytes - left;
}

MI_INTERNAL void mi_purge_all_of(mi_subproc_t* subproc) {
  mi_lock_enter(&mi_state.purge_lock);
  mi_kept_release_all(subproc);
  MI_FOR_EACH_ARENA(subproc, arena) {
    mi_purge_part_t all = {0};
    while (all.slices == 0 && !arena->is_pinned) {
      all = MI_PURGE_WHOLE;
      mi_purge_map(arena, arena->dirty, 1, &all);
      if (all.slices == 0) mi_purge_give_way();
    }
    mi_wait_forget(arena, 0, mi_arena_slices(arena));
  }
  mi_lock_leave(&mi_state.purge_lock);
}
