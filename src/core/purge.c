// SPDX-License-Identifier: MIT
// purge.c - policy: freed slices go back to the system after they stayed free for a while.
//
// Two generations of bits instead of a clock value per slice. Time is cut into periods of half the
// option `purge_delay`; at the end of a period all slices in `purge_old` that are still free are
// purged, and `purge_young` becomes `purge_old`. A slice thus stays resident between half and the
// whole of the delay after its last use, and a slice that was freed a moment ago is never purged
// together with old ones.
//
// V1  a set bit in `purge_young` or `purge_old` is a hint; only slices that the purger has claimed
//     are purged.
// V2  after a purge the slice is not dirty: it reads as zero.
// V3  one purger at a time. Others skip; only the end of a sub-process waits.
// V4  what waits is at most MI_PURGE_WAITING_MIN and half of what is in use: a program that
//     frees much and then sleeps holds no more than that, although nobody looks at the clock. What
//     is beyond goes from the highest addresses down (with everything at once instead, blocks of 5
//     to 25 MiB replaced at random take ten times as long).
// V5  a large block that is claimed where slices are clean gets the memory that waits elsewhere:
//     it changes its addresses at 1/100 of the cost of a fault (0.013 us for 4 KiB, 1.3 us), and
//     the heap does not grow while it has room in the wrong places. Only pieces of at least
//     MI_PURGE_MOVE_MIN slices: each is a mapping of its own until it is purged (large.c).
//
// V6  a free within the bound of V7 reads no clock, and calls the system only for what is beyond
//     the bounds of V4 and V7: whoever frees within them has no system call to wait for.
// V7  what waits beyond a soft bound, MI_PURGE_SOFT_MIN and 1/8 of what is in use, goes early:
//     after t ms in which nothing did, t^2/512 slices may, if that is half of it. Memory that is
//     needed again every 20 ms is thus left alone (a slice takes 16 faults), and a program that was
//     busy for half a second is small as soon as it frees its last (an idle PostgreSQL backend
//     after three sorts: 19 MiB, 55 without, glibc 12). The clock is looked at where slices are
//     claimed and released, where periods are, and while that much waits after MI_QUICK_WAITING
//     refills of a thread: a program that does small things only after a large one would else keep
//     what that left (a PostgreSQL backend with small queries: 75 MiB, 12 now).
// V8  fresh memory that would make a new peak of what is committed, while more than that bound
//     waits: as much of that goes first. The peak of a program whose phases need different memory
//     is that of the largest phase and this bound, not their sum (four threads that go through
//     sizes: 77 MiB, 93 without), and what this costs is bounded by the peak.
//
// Reasons to purge: the period ended (polled by the slow path of malloc, at thread exit, by
// mi_collect); more waits than V4 or V7 permit; fresh memory is claimed (V8); mi_collect(true) and
// malloc_trim; `purge_delay` 0.
// Reasons not to: `purge_delay` negative, pinned memory. Deliberately absent: a background thread,
// because a program that had one thread must not find two; discarding free blocks inside pages that
// are in use.
#include "purge.h"

#include <errno.h>

#include "arena.h"
#include "bitmap.h"
#include "huge.h"

#define MI_PURGE_WAITING_MIN ((int64_t)(1024 * MI_SLICE_SIZE))
#define MI_PURGE_WAITING_PART 2
// V7, V8
#define MI_PURGE_SOFT_MIN ((int64_t)(64 * MI_SLICE_SIZE))
#define MI_PURGE_SOFT_PART 8
#define MI_PURGE_EARLY_MS 512
#define MI_PURGE_STEP 8 // slices; no less at a time, a system call each
#define MI_PURGE_MOVE_MIN ((size_t)4)

static long mi_purge_delay_ms(void) {
  const long delay = mi_option_value(purge_delay);
  const long factor = mi_option_value(arena_purge_mult);
  if (delay < 0 || factor < 0) return -1;
  return delay * factor;
}

// Slices that are free next to each other but fewer than this stay (option minimal_purge_size; with
// allow_thp 2 the smallest is a chunk, so that no huge page is cut).
static size_t mi_purge_minimum(void) {
  const size_t size = (size_t)mi_option_value(minimal_purge_size) * MI_KIB;
  if (size == 0 && mi_option_value(allow_thp) >= 2) return MI_CHUNK_SLICES;
  return mi_bits_divide_up(size, MI_SLICE_SIZE);
}

MI_INTERNAL void mi_purge_remember(mi_arena_t* arena, size_t slice_index, size_t slice_count) {
  if (arena->is_pinned || mi_purge_delay_ms() < 0) return;
  const size_t more = mi_bitmap_set(arena->purge_young, slice_index, slice_count);
  mi_count_add(&arena->subproc->purge_waiting, (int64_t)(more * MI_SLICE_SIZE));
}

MI_INTERNAL size_t mi_purge_forget(mi_arena_t* arena, size_t slice_index, size_t slice_count) {
  const size_t count = mi_bitmap_clear(arena->purge_young, slice_index, slice_count) +
                       mi_bitmap_clear(arena->purge_old, slice_index, slice_count);
  const int64_t bytes = (int64_t)(count * MI_SLICE_SIZE);
  if (count > 0) mi_count_add(&arena->subproc->purge_waiting, -bytes);
  return count;
}

static void mi_purge_unmark(mi_arena_t* arena, size_t index, size_t count) {
  const size_t marks = mi_bitmap_clear(arena->moved_first, index, count);
  if (marks > 0) mi_atomic_sub_relaxed(&mi_state.moved_count, marks);
}

// Join the mapping of moved slices with its neighbours again; they read as zero afterwards.
static int mi_purge_renew(mi_arena_t* arena, size_t index, size_t count) {
  uint8_t* const start = arena->start + index * MI_SLICE_SIZE;
  const size_t size = count * MI_SLICE_SIZE;
  // Near the limit of mappings the system may have none for the pieces: then they stay as they are.
  if (mi_os_remap(start, size) != 0) return mi_os_purge(start, size);
  if (arena->is_committed) mi_huge_advise(start, size); // only with the same advice as theirs
  mi_bitmap_clear(arena->moved, index, count);
  mi_purge_unmark(arena, index, count);
  mi_arena_note_cut(arena, index + count);
  return 0;
}

// Make slices unusable that are made usable when they are claimed.
static int mi_purge_decommit(mi_arena_t* arena, size_t index, size_t count) {
  uint8_t* const start = arena->start + index * MI_SLICE_SIZE;
  const size_t size = count * MI_SLICE_SIZE;
  // As above: then they stay usable, and charged.
  if (mi_os_decommit(start, size) != 0) return mi_os_purge(start, size);
  mi_bitmap_clear(arena->committed, index, count);
  return 0;
}

// Give the contents of claimed slices back. Returns the bytes that were dirty.
static mi_attr_cold size_t mi_purge_claimed(mi_arena_t* arena, size_t index, size_t count) {
  uint8_t* const start = arena->start + index * MI_SLICE_SIZE;
  const size_t size = count * MI_SLICE_SIZE;
  int err = 0;
  const bool is_moved = !mi_bitmap_is_all_clear(arena->moved, index, count);
  if (!is_moved) mi_purge_unmark(arena, index, count); // what mi_arena_note_cut may have left
  if (is_moved) {
    err = mi_purge_renew(arena, index, count);
  } else if (arena->commit_fun != NULL) {
    bool is_zero = false; // said when it is committed again
    mi_tool_open(start, size); // it may write there
    if (!arena->commit_fun(false, start, size, &is_zero, arena->commit_arg)) return 0;
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
  if (err != 0) { // stays as it is, until mi_purge_everything tries again
    const size_t clean =
        mi_bitmap_set(arena->dirty, index, count); // it was populated: H4 of huge.c
    mi_count_add(&arena->subproc->count.committed, (int64_t)(clean * MI_SLICE_SIZE));
    return 0;
  }
  const size_t bytes = mi_bitmap_clear(arena->dirty, index, count) * MI_SLICE_SIZE;
  mi_count_add(&arena->subproc->count.committed, -(int64_t)bytes);
  mi_count_add(&arena->subproc->count.purged, (int64_t)bytes);
  mi_count_add(&arena->subproc->count.purge_calls, 1);
  return bytes;
}

MI_INTERNAL bool mi_purge_contents(mi_arena_t* arena, uint8_t* start, size_t size) {
  if (!mi_arena_is_mapped_by_us(arena) || mi_purge_delay_ms() < 0) return false;
  if (mi_os_purge(start, size) != 0) return false;
  mi_count_add(&arena->subproc->count.purged, (int64_t)size);
  mi_count_add(&arena->subproc->count.purge_calls, 1);
  return true;
}

// Claim a run that waits, purge it and let it go again. False: it is not free any more.
static bool mi_purge_try(mi_arena_t* arena, size_t index, size_t count, size_t* bytes) {
  if (!mi_bitmap_try_claim(arena->free, index, count)) return false;
  mi_purge_forget(arena, index, count);
  *bytes += mi_purge_claimed(arena, index, count);
  mi_bitmap_set_release(arena->free, index, count); // publishes the cleared `dirty` bits
  return true;
}

// Purge the runs of `map` that are still free and not too short, in one arena, each with one system
// call.
static size_t mi_purge_map(mi_arena_t* arena, mi_bitmap_word_t* map, size_t minimum) {
  size_t bytes = 0;
  size_t index = 0;
  while (index < mi_arena_slices(arena)) {
    index = mi_bitmap_find_run(map, index, mi_arena_slices(arena), 1, 1, 0);
    if (index == MI_BITMAP_NONE) break;
    // As long as both say so, and claim as a whole; a lost race leaves the bits for the next
    // period.
    size_t count = 1;
    while (index + count < mi_arena_slices(arena) && mi_bitmap_is_all_set(map, index + count, 1) &&
           mi_bitmap_is_all_set(arena->free, index + count, 1)) {
      count++;
    }
    const bool is_free = mi_bitmap_is_all_set(arena->free, index, 1);
    if (is_free && count < minimum) {
      index += count; // its marks stay: more may become free beside it
      continue;
    }
    if (!is_free || !mi_purge_try(arena, index, count, &bytes)) {
      mi_purge_forget(arena, index, 1); // in use: its next release marks it again
      count = 1;
    }
    index += count;
  }
  return bytes;
}

// End of a period, under the purge lock: old ones go, young ones become old.
static size_t mi_purge_step(mi_subproc_t* subproc) {
  const size_t minimum = mi_purge_minimum();
  size_t bytes = 0;
  MI_FOR_EACH_ARENA(subproc, arena) {
    bytes += mi_purge_map(arena, arena->purge_old, minimum);
    for (size_t w = 0; w < arena->word_count; w++) {
      if (mi_atomic_load_relaxed(&arena->purge_young[w]) == 0) continue;
      const uint64_t young = mi_atomic_and_relaxed(&arena->purge_young[w], 0);
      mi_atomic_or_relaxed(&arena->purge_old[w], young);
    }
  }
  return bytes;
}

// Bytes that wait beyond a constant and a part of what is in use.
static int64_t mi_purge_excess(mi_subproc_t* subproc, int64_t min, int64_t part) {
  const int64_t waiting = mi_atomic_load_relaxed(&subproc->purge_waiting);
  const int64_t in_use = mi_atomic_load_relaxed(&subproc->count.committed) - waiting;
  return waiting - min - (in_use > 0 ? in_use / part : 0);
}

// Beyond the bound of V7 and V8.
static int64_t mi_purge_soft_excess(mi_subproc_t* subproc) {
  return mi_purge_excess(subproc, MI_PURGE_SOFT_MIN, MI_PURGE_SOFT_PART);
}

static bool mi_purge_waits(mi_arena_t* arena, size_t index) {
  const size_t w = index / MI_WORD_BITS;
  const uint64_t waiting =
      mi_atomic_load_relaxed(&arena->purge_young[w]) | mi_atomic_load_relaxed(&arena->purge_old[w]);
  return (waiting & mi_atomic_load_relaxed(&arena->free[w]) &
          (uint64_t)1 << index % MI_WORD_BITS) != 0;
}

// The highest run that waits below `*end`: at most `longest` slices that lie in one mapping.
// Returns its start and puts its end into `*end`, which is 0 when there is none.
static mi_attr_cold size_t mi_purge_top_run(mi_arena_t* arena, size_t* end, size_t longest) {
  size_t top = *end;
  while (top > 0 && !mi_purge_waits(arena, top - 1)) {
    const size_t w = (top - 1) / MI_WORD_BITS;
    const bool is_empty = (mi_atomic_load_relaxed(&arena->purge_young[w]) |
                           mi_atomic_load_relaxed(&arena->purge_old[w])) == 0;
    top = is_empty ? w * MI_WORD_BITS : top - 1;
  }
  *end = top;
  if (top == 0) return 0;
  size_t start = top - 1;
  const bool is_moved = !mi_bitmap_is_all_clear(arena->moved, start, 1);
  while (start > 0 && top - start < longest && mi_purge_waits(arena, start - 1) &&
         mi_bitmap_is_all_clear(arena->moved_first, start, 1) &&
         !mi_bitmap_is_all_clear(arena->moved, start - 1, 1) == is_moved) {
    start--;
  }
  return start;
}

// Purge `excess` bytes that wait, from the highest addresses down: what is claimed next is taken at
// the lowest. Returns what is left of the excess. Under the purge lock.
static int64_t mi_purge_from_top(mi_arena_t* arena, int64_t excess) {
  mi_arena_t* const next = mi_atomic_load_acquire(&arena->next); // sees its fields
  if (next != NULL) excess = mi_purge_from_top(next, excess);
  const size_t minimum = mi_purge_minimum();
  size_t bytes = 0;
  size_t end = mi_arena_slices(arena);
  while (excess > 0) {
    const size_t longest = mi_bits_max(mi_bits_divide_up((size_t)excess, MI_SLICE_SIZE), minimum);
    const size_t start = mi_purge_top_run(arena, &end, longest);
    if (end == 0) break;
    if (end - start >= minimum && mi_purge_try(arena, start, end - start, &bytes)) {
      excess -= (int64_t)((end - start) * MI_SLICE_SIZE);
    }
    end = start;
  }
  return excess;
}

MI_INTERNAL mi_attr_cold bool mi_purge_restore(mi_arena_t* arena, size_t index, size_t size) {
  uint8_t* const start = arena->start + index * MI_SLICE_SIZE;
  if (mi_os_map_at(start, size, MI_OS_READ_WRITE)) { // V7
    mi_huge_advise(start, size);
    return true;
  }
  const size_t count = mi_bits_divide_up(size, MI_SLICE_SIZE);
  const size_t dirty = mi_bitmap_clear(arena->dirty, index, count);
  mi_count_add(&arena->subproc->count.committed, -(int64_t)(dirty * MI_SLICE_SIZE));
  mi_atomic_add_relaxed(&mi_state.lost_count, count);
  // Once is enough, and where a limit is below what the process has the next move fails as well.
  mi_atomic_add_relaxed(&mi_state.moved_count, MI_ARENA_MOVED_MAX);
  return false;
}

typedef enum mi_move_e {
  MI_MOVE_DONE,
  MI_MOVE_NONE, // nothing happened
  MI_MOVE_LOST, // the target is gone: mi_purge_restore
} mi_move_t;

// The memory of a run that waits goes to clean slices at `to`, which the caller has claimed.
static mi_move_t mi_purge_move(mi_arena_t* arena, size_t index, size_t count, size_t to) {
  if (!mi_bitmap_try_claim(arena->free, index, count)) return MI_MOVE_NONE;
  uint8_t* const start = arena->start;
  mi_move_t move = MI_MOVE_NONE;
  const int err =
      mi_os_move(start + index * MI_SLICE_SIZE, start + to * MI_SLICE_SIZE, count * MI_SLICE_SIZE);
  if (err != 0) {
    const bool is_whole = err == ENOSYS || mi_purge_restore(arena, to, count * MI_SLICE_SIZE);
    if (!is_whole) move = MI_MOVE_LOST;
  } else {
    move = MI_MOVE_DONE;
    mi_arena_note_moved(arena, to, count);
    mi_bitmap_set(arena->dirty, to, count);
    mi_count_add(&arena->subproc->count.committed, (int64_t)(count * MI_SLICE_SIZE));
    // Where the memory was, all reads as zero now.
    mi_purge_forget(arena, index, count);
    mi_purge_claimed(arena, index, count);
  }
  mi_bitmap_set_release(arena->free, index, count); // publishes the cleared `dirty` bits
  return move;
}

MI_INTERNAL mi_attr_cold mi_slices_t mi_purge_reuse(mi_arena_t* arena, size_t index, size_t count) {
  const mi_slices_t none = {0, 0};
  if (mi_atomic_load_relaxed(&arena->subproc->purge_waiting) <= 0) return none;
  const size_t end = index + count;
  size_t top = mi_arena_slices(arena);
  while (mi_arena_may_move()) {
    while (index < end && !mi_bitmap_is_all_clear(arena->dirty, index, 1)) index++;
    size_t room = 0;
    while (index + room < end && mi_bitmap_is_all_clear(arena->dirty, index + room, 1)) room++;
    if (room == 0) break;
    const size_t start = mi_purge_top_run(arena, &top, room);
    if (top == 0) break;
    if (room < MI_PURGE_MOVE_MIN) {
      index += room;
      continue;
    }
    if (top - start >= MI_PURGE_MOVE_MIN) {
      const mi_move_t move = mi_purge_move(arena, start, top - start, index);
      if (move == MI_MOVE_LOST) return (mi_slices_t){index, top - start};
      if (move == MI_MOVE_NONE) break;
      index += top - start;
    }
    top = start;
  }
  return none;
}

// Purge what is free and waits; with MI_FORCE also what is dirty without waiting, because the
// system refused to take it.
static size_t mi_purge_now(mi_subproc_t* subproc, mi_effort_t effort) {
  const size_t minimum = mi_purge_minimum();
  size_t bytes = 0;
  if (!mi_lock_try_enter(&mi_state.purge_lock)) return 0;
  mi_atomic_store_relaxed(&subproc->purge_due_ms, 0);
  MI_FOR_EACH_ARENA(subproc, arena) {
    if (arena->is_pinned) continue;
    bytes += mi_purge_map(arena, arena->purge_old, minimum);
    bytes += mi_purge_map(arena, arena->purge_young, minimum);
    if (effort == MI_FORCE) bytes += mi_purge_map(arena, arena->dirty, minimum);
  }
  mi_lock_leave(&mi_state.purge_lock);
  return bytes;
}

// Purge the upper part of what waits, unless somebody else purges.
static mi_attr_cold void mi_purge_some(mi_subproc_t* subproc, int64_t bytes) {
  if (!mi_lock_try_enter(&mi_state.purge_lock)) return;
  mi_purge_from_top(mi_atomic_load_acquire(&subproc->arenas), bytes); // sees its fields
  mi_lock_leave(&mi_state.purge_lock);
}

// V7: slices that may go early after `ms` in which none did, and the reverse, rounded down.
static int64_t mi_purge_earned(int64_t ms) { return ms > 0 ? ms * ms / MI_PURGE_EARLY_MS : 0; }

static int64_t mi_purge_time_for(int64_t slices) {
  int64_t ms = 0;
  for (int64_t bit = (int64_t)1 << 30; bit != 0; bit >>= 1) {
    if ((ms + bit) * (ms + bit) <= slices * MI_PURGE_EARLY_MS) ms += bit;
  }
  return ms;
}

MI_INTERNAL bool mi_purge_is_much(mi_subproc_t* subproc) {
  return mi_purge_soft_excess(subproc) >= MI_PURGE_STEP * (int64_t)MI_SLICE_SIZE;
}

// V7: what may go early, by what was seen of the clock.
static mi_attr_noinline void mi_purge_early(mi_subproc_t* subproc) {
  if (mi_likely(!mi_purge_is_much(subproc))) return;
  const int64_t excess = mi_purge_soft_excess(subproc);
  const int64_t seen = mi_atomic_load_relaxed(&subproc->purge_seen_ms);
  const int64_t spent = mi_atomic_load_relaxed(&subproc->purge_spent_ms);
  const int64_t earned = mi_purge_earned(seen - spent);
  const int64_t wanted = (int64_t)mi_bits_divide_up((size_t)excess, MI_SLICE_SIZE);
  if (earned < MI_PURGE_STEP || earned < wanted / 2) return; // it earns more the longer it waits
  const int64_t slices = wanted < earned ? wanted : earned;
  mi_atomic_store_relaxed(&subproc->purge_spent_ms, seen - mi_purge_time_for(earned - slices));
  mi_purge_some(subproc, slices * (int64_t)MI_SLICE_SIZE);
}

// V7: look at the clock.
static mi_attr_noinline void mi_purge_look(mi_subproc_t* subproc, long delay) {
  const int64_t now = (int64_t)mi_os_now_ms();
  if (now == mi_atomic_load_relaxed(&subproc->purge_seen_ms)) return;
  const int64_t spent = mi_atomic_load_relaxed(&subproc->purge_spent_ms);
  if (spent == 0 || now - spent > delay) {
    mi_atomic_store_relaxed(&subproc->purge_spent_ms, spent == 0 ? now : now - delay);
  }
  mi_atomic_store_relaxed(&subproc->purge_seen_ms, now);
}

MI_INTERNAL void mi_purge_make_way(mi_subproc_t* subproc, size_t fresh_count) {
  const long delay = mi_purge_delay_ms();
  if (delay <= 0) return;
  mi_purge_look(subproc, delay);
  mi_purge_early(subproc);
  // V8
  const int64_t fresh = (int64_t)(fresh_count * MI_SLICE_SIZE);
  if (mi_atomic_load_relaxed(&subproc->count.committed) + fresh <=
      mi_atomic_load_relaxed(&subproc->count.committed_peak)) {
    return;
  }
  const int64_t excess = mi_purge_soft_excess(subproc);
  if (excess <= 0) return;
  const int64_t least = MI_PURGE_STEP * (int64_t)MI_SLICE_SIZE;
  const int64_t bytes = fresh > least ? fresh : least;
  mi_purge_some(subproc, bytes < excess ? bytes : excess);
}

MI_INTERNAL void mi_purge_bound(mi_subproc_t* subproc) {
  if (mi_atomic_load_relaxed(&subproc->purge_waiting) <= 0) return;
  const long delay = mi_purge_delay_ms();
  if (delay == 0) mi_purge_now(subproc, MI_GENTLE);
  if (delay <= 0) return;
  const int64_t excess = mi_purge_excess(subproc, MI_PURGE_WAITING_MIN, MI_PURGE_WAITING_PART);
  if (excess > 0) mi_purge_some(subproc, excess);
  if (mi_likely(!mi_purge_is_much(subproc))) return;
  mi_purge_look(subproc, delay);
  mi_purge_early(subproc);
}

MI_INTERNAL void mi_purge_poll(mi_subproc_t* subproc) {
  mi_purge_bound(subproc);
  if (mi_atomic_load_relaxed(&subproc->purge_waiting) <= 0) return;
  const long delay = mi_purge_delay_ms();
  if (delay <= 0) return;
  mi_purge_look(subproc, delay);
  mi_purge_early(subproc);
  const uint64_t now = (uint64_t)mi_atomic_load_relaxed(&subproc->purge_seen_ms);
  const uint64_t due = mi_atomic_load_relaxed(&subproc->purge_due_ms);
  if (now < due || !mi_lock_try_enter(&mi_state.purge_lock)) return;
  // The first poll after a quiet time only starts the period.
  if (due != 0) mi_purge_step(subproc);
  const bool is_pending = mi_atomic_load_relaxed(&subproc->purge_waiting) > 0;
  const uint64_t period = (uint64_t)(delay + 1) / 2;
  mi_atomic_store_relaxed(&subproc->purge_due_ms, is_pending ? now + period : 0);
  mi_lock_leave(&mi_state.purge_lock);
}

MI_INTERNAL size_t mi_purge_everything(mi_subproc_t* subproc) {
  // What options keep does not wait either.
  const bool is_all = mi_purge_delay_ms() >= 0 && mi_option_value(purge_decommits) != 0;
  return mi_purge_now(subproc, is_all ? MI_FORCE : MI_GENTLE);
}

MI_INTERNAL void mi_purge_all_of(mi_subproc_t* subproc) {
  mi_lock_enter(&mi_state.purge_lock);
  MI_FOR_EACH_ARENA(subproc, arena) {
    if (!arena->is_pinned) mi_purge_map(arena, arena->dirty, 1);
    mi_purge_forget(arena, 0, mi_arena_slices(arena));
  }
  mi_lock_leave(&mi_state.purge_lock);
}
