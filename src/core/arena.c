// SPDX-License-Identifier: MIT
// arena.c - reserved ranges of address space, cut into slices; which slices are free; growth.
//
//   arena  [ slice | slice | ... ]        reserved at once, committed and touched slice by slice
//   free, dirty, committed, moved, ...    bitmaps, out of line
//   purge_young, purge_old
//
// A1  a slice belongs to exactly one of: nobody (its `free` bit is set), a page, or a thread that
//     is working on it. Those that are lost (mi_purge_restore) belong to none of them for good.
// A2  `dirty` clear means that the slice reads as zero.
// A3  the list of arenas of a sub-process only grows; an arena is unmapped with the library only
//     (unload.c). Those of a sub-process that has ended are clean and free, and serve the next one
//     that grows.
// A4  memory goes to the heap that the arena is for: an exclusive arena to heaps bound to it, all
//     others to all heaps of the sub-process. A heap that prefers a node gets memory there, grown
//     if need be, and memory elsewhere when there is no more.
// A5  memory of the program is never mapped or unmapped by us, and never made inaccessible: it may
//     be a file, or shared.
// A6  explicit huge OS pages stay: arenas of them are pinned.
//
// Claim and release take no lock (bitmap.h); growth takes the arena lock, and whoever waited for it
// searches again before growing. Runs are taken at the lowest address that fits, so that memory in
// use stays together and whole chunks at the upper end become free. There is no ceiling: sizes
// double every eight arenas, and shrink when the system refuses. Not here: when memory goes back
// (purge.c), blocks that are larger than an arena wants to hold (large.c).
#include "arena.h"

#include "bitmap.h"
#include "huge.h"
#include "meta.h"
#include "numa.h"
#include "pagemap.h"
#include "purge.h"

#define MI_ARENA_HINT_BASE ((uintptr_t)4 << 40) // far above programs and below libraries
#define MI_ARENA_HINT_RANGE ((uintptr_t)16 << 40)

MI_INTERNAL size_t mi_arena_object_max(void) {
  const size_t reserve = (size_t)mi_option_value(arena_reserve) * MI_KIB;
  const size_t largest = (size_t)mi_option_value(arena_max_object_size) * MI_KIB;
  return mi_bits_min(largest, reserve / 2);
}

MI_INTERNAL mi_arena_t* mi_arena_of(mi_subproc_t* subproc, const void* p) {
  MI_FOR_EACH_ARENA(subproc, arena) {
    const uint8_t* const end = arena->start + arena->slice_count * MI_SLICE_SIZE;
    if ((const uint8_t*)p >= arena->start && (const uint8_t*)p < end) return arena;
  }
  return NULL;
}

// Make a range usable that is not. Returns whether it reads as zero in `*is_zero`.
static bool mi_arena_commit_range(mi_arena_t* arena, size_t index, size_t count, bool* is_zero) {
  uint8_t* const start = arena->start + index * MI_SLICE_SIZE;
  const size_t size = count * MI_SLICE_SIZE;
  mi_count_add(&arena->subproc->count.commit_calls, 1);
  *is_zero = arena->commit_fun == NULL;
  if (arena->commit_fun != NULL) {
    mi_tool_open(start, size); // it may write there
    if (!arena->commit_fun(true, start, size, is_zero, arena->commit_arg)) return false;
  } else {
    if (mi_os_commit(start, size) != 0) return false;
    if (arena->numa_node >= 0 && !arena->is_foreign) {
      mi_os_prefer_node(start, size, (size_t)arena->numa_node); // may be mapped afresh: decommit
    }
  }
  mi_bitmap_set(arena->committed, index, count);
  return true;
}

// Make claimed slices usable that are not. What is usable already is not committed again: a
// function of the program may count.
static bool mi_arena_commit(mi_arena_t* arena, size_t index, size_t count, bool* is_zero) {
  const size_t end = index + count;
  for (size_t i = index; i < end;) {
    size_t next = i + 1;
    if (mi_bitmap_is_all_clear(arena->committed, i, 1)) {
      while (next < end && mi_bitmap_is_all_clear(arena->committed, next, 1)) next++;
      bool is_range_zero;
      if (!mi_arena_commit_range(arena, i, next - i, &is_range_zero)) return false;
      *is_zero = *is_zero && is_range_zero;
    }
    i = next;
  }
  return true;
}

// Claimed slices of which some are lost: the others are free again.
static mi_attr_cold void mi_arena_release_around(mi_arena_t* arena, size_t index, size_t count,
                                                 mi_slices_t lost) {
  const size_t behind = lost.index + lost.count;
  if (lost.index > index) mi_arena_release(arena, index, lost.index - index);
  if (behind < index + count) mi_arena_release(arena, behind, index + count - behind);
}

// Bookkeeping of a fresh claim; makes the slices usable. False when the system refuses that.
static bool mi_arena_take(mi_arena_t* arena, size_t index, size_t count, mi_run_t* run) {
  mi_subproc_t* const subproc = arena->subproc;
  mi_count_add(&arena->free_count, -(int64_t)count);
  bool is_zero = !mi_atomic_load_relaxed(&arena->is_unsure);
  if (!arena->is_committed && !mi_arena_commit(arena, index, count, &is_zero)) {
    mi_count_add(&subproc->count.rollbacks, 1);
    mi_count_add(&arena->free_count, (int64_t)count);
    mi_bitmap_set_release(arena->free, index, count); // publishes nothing new: undo
    return false;
  }
  mi_huge_prepare(run->heap, arena, index, count);
  if (run->touched_count > 0 && mi_arena_is_movable(arena)) {
    const mi_slices_t lost = mi_purge_reuse(arena, index, run->touched_count);
    if (mi_unlikely(lost.count > 0)) {
      mi_arena_release_around(arena, index, count, lost);
      return false;
    }
  }
  const size_t fresh = mi_bitmap_set(arena->dirty, index, count);
  const bool is_remembered = mi_purge_forget(arena, index, count) > 0;
  run->is_zero = is_zero && fresh == count;
  run->is_resident = is_remembered || fresh < count;
  mi_purge_before_touch(subproc, fresh);
  if (fresh > 0) {
    mi_count_add_peak(&subproc->count.committed, &subproc->count.committed_peak,
                      (int64_t)(fresh * MI_SLICE_SIZE));
  }
  return true;
}

static size_t mi_arena_run_kind(size_t count) {
  return count == 1 ? 0 : mi_bits_log2(count - 1) + 1;
}

// Lowest run inside one word: the common case, pages and middling blocks.
static size_t mi_arena_claim_in_word(mi_arena_t* arena, size_t count) {
  // Words below were too full when a run of the smallest length of this kind was looked for.
  mi_atomic(size_t)* const hint = &arena->low_word[mi_arena_run_kind(count)];
  const bool is_smallest = count == 1 || mi_arena_run_kind(count) != mi_arena_run_kind(count - 1);
  const size_t low = mi_atomic_load_relaxed(hint);
  for (size_t w = low; w < arena->word_count; w++) {
    uint64_t x = mi_atomic_load_relaxed(&arena->free[w]);
    size_t bit;
    while (x != 0 && (bit = mi_bitmap_find_in_word(x, count)) != MI_BITMAP_NONE) {
      // A racing release below lowers the hint again, or is missed until the next full search.
      if (is_smallest && w > low) mi_atomic_store_relaxed(hint, w);
      const size_t index = w * MI_WORD_BITS + bit;
      if (mi_bitmap_try_claim(arena->free, index, count)) return index;
      x = mi_atomic_load_relaxed(&arena->free[w]);
    }
  }
  return MI_BITMAP_NONE;
}

// Lowest run anywhere, across words, with alignment.
static size_t mi_arena_claim_across(mi_arena_t* arena, size_t count, size_t alignment) {
  const size_t slices = alignment / MI_SLICE_SIZE;
  const size_t bias = ((uintptr_t)arena->start / MI_SLICE_SIZE) & (slices - 1);
  size_t from = 0;
  while (true) {
    const size_t index =
        mi_bitmap_find_run(arena->free, from, arena->slice_count, count, slices, bias);
    if (index == MI_BITMAP_NONE || mi_bitmap_try_claim(arena->free, index, count)) return index;
    from = index + 1; // somebody was faster
  }
}

typedef enum mi_claim_e {
  MI_CLAIM_DONE,
  MI_CLAIM_NONE, // no arena has such a run: growing helps
  MI_CLAIM_REFUSED, // the system does not commit it: growing does not help
} mi_claim_t;

static mi_claim_t mi_arena_claim_in(mi_arena_t* arena, size_t count, size_t alignment,
                                    mi_run_t* run) {
  if (mi_atomic_load_relaxed(&arena->free_count) < (int64_t)count) return MI_CLAIM_NONE;
  size_t index = MI_BITMAP_NONE;
  if (count <= MI_WORD_BITS && alignment == MI_SLICE_SIZE) {
    index = mi_arena_claim_in_word(arena, count);
  }
  // Also when a stale `low_word` hid the slices: `free_count` says that there are some.
  if (index == MI_BITMAP_NONE) index = mi_arena_claim_across(arena, count, alignment);
  if (index == MI_BITMAP_NONE) return MI_CLAIM_NONE;
  run->arena = arena;
  run->start = arena->start + index * MI_SLICE_SIZE;
  run->slice_index = index;
  run->slice_count = count;
  if (mi_arena_take(arena, index, count, run)) return MI_CLAIM_DONE;
  // What the program refuses for its own memory says nothing of other memory.
  return arena->is_foreign ? MI_CLAIM_NONE : MI_CLAIM_REFUSED;
}

// Which arenas a heap takes memory from.
typedef enum mi_claim_where_e {
  MI_CLAIM_NEAR, // on the node that it prefers; any if it prefers none
  MI_CLAIM_FAR, // all others
} mi_claim_where_t;

// Of the arenas that are for the heap (A4), whose node is `node`.
static mi_claim_t mi_arena_claim_existing(mi_heap_t* heap, int node, mi_claim_where_t where,
                                          size_t count, size_t alignment, mi_run_t* run) {
  if (heap->arena != NULL) return mi_arena_claim_in(heap->arena, count, alignment, run);
  MI_FOR_EACH_ARENA(heap->subproc, arena) {
    const bool is_near = node < 0 || arena->numa_node == node;
    if (arena->is_exclusive || is_near != (where == MI_CLAIM_NEAR)) continue;
    const mi_claim_t claim = mi_arena_claim_in(arena, count, alignment, run);
    if (claim != MI_CLAIM_NONE) return claim;
  }
  return MI_CLAIM_NONE;
}

// Arenas next to each other share one mapping.
static uint8_t* mi_arena_hint_locked(const mi_subproc_t* subproc) {
  const mi_arena_t* const last = subproc->arena_last;
  if (last != NULL && !last->is_foreign) return last->start + last->slice_count * MI_SLICE_SIZE;
  const uintptr_t base = MI_ARENA_HINT_BASE + (mi_state.is_unloaded ? MI_ARENA_HINT_RANGE : 0);
  const uintptr_t offset = (uintptr_t)mi_os_random() % MI_ARENA_HINT_RANGE;
  return (uint8_t*)mi_bits_align_down(base + offset, MI_WINDOW_SIZE);
}

MI_INTERNAL uint8_t* mi_arena_hint(mi_subproc_t* subproc) {
  mi_lock_enter(&mi_state.arena_lock);
  uint8_t* const hint = mi_arena_hint_locked(subproc);
  mi_lock_leave(&mi_state.arena_lock);
  return hint;
}

// Append to the list of a sub-process. Under the arena lock.
static void mi_arena_publish(mi_subproc_t* subproc, mi_arena_t* arena) {
  const int64_t size = (int64_t)(arena->slice_count * MI_SLICE_SIZE);
  arena->subproc = subproc;
  mi_count_add_peak(&subproc->count.reserved, &subproc->count.reserved_peak, size);
  mi_count_add(&subproc->count.arenas, 1);
  // Publishes the arena; pairs with the acquire in MI_FOR_EACH_ARENA.
  if (subproc->arena_last == NULL) {
    mi_atomic_store_release(&subproc->arenas, arena); // publishes
  } else {
    mi_atomic_store_release(&subproc->arena_last->next, arena); // publishes
  }
  subproc->arena_last = arena;
  subproc->arena_count++;
}

// What of an arena that comes counts as committed. A fresh one has nothing.
static void mi_arena_count_dirty(mi_subproc_t* subproc, mi_arena_t* arena) {
  const size_t dirty = mi_bitmap_count(arena->dirty, arena->word_count);
  mi_count_add_peak(&subproc->count.committed, &subproc->count.committed_peak,
                    (int64_t)(dirty * MI_SLICE_SIZE));
}

// The structures of an arena, not yet in a list. Under the arena lock. NULL: out of memory.
static mi_arena_t* mi_arena_make(const mi_arena_plan_t* plan) {
  const size_t slice_count = plan->size / MI_SLICE_SIZE;
  const size_t word_count = mi_bits_divide_up(slice_count, MI_WORD_BITS);
  enum { MAP_COUNT = 7 };
  const size_t maps_size = MAP_COUNT * word_count * sizeof(mi_bitmap_word_t);
  mi_arena_t* const arena = (mi_arena_t*)mi_meta_alloc(sizeof(mi_arena_t));
  mi_bitmap_word_t* const maps = (mi_bitmap_word_t*)mi_meta_alloc(maps_size);
  if (arena == NULL || maps == NULL || !mi_pagemap_cover(plan->start, plan->size)) {
    if (arena != NULL) mi_meta_free(arena, sizeof(mi_arena_t));
    if (maps != NULL) mi_meta_free(maps, maps_size);
    return NULL;
  }
  mi_tool_add_root(plan->start, plan->size);
  arena->start = plan->start;
  arena->slice_count = slice_count;
  arena->word_count = word_count;
  // With a function of the user all is remembered slice by slice.
  arena->is_committed = plan->is_committed && plan->commit_fun == NULL;
  arena->is_pinned = plan->is_pinned;
  arena->is_exclusive = plan->is_exclusive;
  arena->is_foreign = plan->is_foreign;
  arena->numa_node = plan->numa_node;
  arena->commit_fun = plan->commit_fun;
  arena->commit_arg = plan->commit_arg;
  arena->free = maps;
  arena->dirty = maps + word_count;
  arena->committed = maps + 2 * word_count;
  arena->moved = maps + 3 * word_count;
  arena->moved_first = maps + 4 * word_count;
  arena->purge_young = maps + 5 * word_count;
  arena->purge_old = maps + 6 * word_count;
  mi_bitmap_set(arena->free, 0, slice_count);
  if (plan->is_committed && !arena->is_committed) mi_bitmap_set(arena->committed, 0, slice_count);
  mi_atomic_store_relaxed(&arena->free_count, (int64_t)slice_count);
  if (plan->is_dirty && plan->is_committed) mi_bitmap_set(arena->dirty, 0, slice_count);
  mi_atomic_store_relaxed(&arena->is_unsure, plan->is_dirty && !plan->is_committed);
  return arena;
}

static bool mi_arena_overlaps(const mi_arena_t* arena, const mi_arena_plan_t* plan) {
  return plan->start < arena->start + arena->slice_count * MI_SLICE_SIZE &&
         arena->start < plan->start + plan->size;
}

// Whether some of it is in an arena already, or in a page. Under the thread and the arena lock.
static bool mi_arena_is_known(const mi_arena_plan_t* plan) {
  for (mi_subproc_t* subproc = &mi_state.main; subproc != NULL; subproc = subproc->next) {
    MI_FOR_EACH_ARENA(subproc, arena) {
      if (mi_arena_overlaps(arena, plan)) return true;
    }
  }
  for (size_t i = 0; i < plan->size / MI_SLICE_SIZE; i++) {
    const mi_page_t* const page = mi_pagemap_slice(plan->start + i * MI_SLICE_SIZE);
    if (mi_atomic_load_relaxed(&page->owner) != MI_OWNER_NONE) return true;
  }
  return false;
}

MI_INTERNAL mi_arena_t* mi_arena_manage(mi_subproc_t* subproc, const mi_arena_plan_t* plan) {
  mi_lock_enter(&mi_state.thread_lock);
  mi_lock_enter(&mi_state.arena_lock);
  mi_arena_t* const arena = mi_arena_is_known(plan) ? NULL : mi_arena_make(plan);
  if (arena != NULL) {
    mi_arena_publish(subproc, arena);
    mi_arena_count_dirty(subproc, arena);
  }
  mi_lock_leave(&mi_state.arena_lock);
  mi_lock_leave(&mi_state.thread_lock);
  return arena;
}

static bool mi_arena_serves(const mi_arena_t* arena, size_t needed, int node) {
  return arena->slice_count * MI_SLICE_SIZE >= needed && (node < 0 || arena->numa_node == node);
}

// Use an arena of an ended sub-process. Under the arena lock. False: none is large enough.
static bool mi_arena_adopt(mi_subproc_t* subproc, size_t needed, int node) {
  mi_arena_t* before = NULL;
  mi_arena_t* arena = mi_state.arenas_free;
  while (arena != NULL && !mi_arena_serves(arena, needed, node)) {
    before = arena;
    arena = mi_atomic_load_relaxed(&arena->next);
  }
  if (arena == NULL) return false;
  mi_arena_t* const next = mi_atomic_load_relaxed(&arena->next);
  if (before == NULL) {
    mi_state.arenas_free = next;
  } else {
    mi_atomic_store_relaxed(&before->next, next);
  }
  mi_atomic_store_relaxed(&arena->next, NULL);
  mi_arena_publish(subproc, arena);
  mi_arena_count_dirty(subproc, arena); // what is pinned was not purged
  return true;
}

MI_INTERNAL void mi_arena_retire_all(mi_subproc_t* subproc) {
  mi_lock_enter(&mi_state.arena_lock);
  mi_arena_t* arena = mi_atomic_load_relaxed(&subproc->arenas);
  mi_atomic_store_relaxed(&subproc->arenas, NULL);
  subproc->arena_last = NULL;
  subproc->arena_count = 0;
  while (arena != NULL) {
    mi_arena_t* const next = mi_atomic_load_relaxed(&arena->next);
    // What the program brought was for that sub-process alone.
    if (!arena->is_foreign) {
      arena->is_exclusive = false;
      mi_atomic_store_relaxed(&arena->next, mi_state.arenas_free);
      mi_state.arenas_free = arena;
    }
    arena = next;
  }
  mi_lock_leave(&mi_state.arena_lock);
}

// Map a planned arena and publish it. Under the arena lock.
static mi_arena_t* mi_arena_reserve_locked(mi_subproc_t* subproc, mi_arena_plan_t* plan,
                                           mi_arena_kind_t kind) {
  const size_t alignment = mi_bits_max(MI_CHUNK_SLICES * MI_SLICE_SIZE, mi_state.os.page_size);
  uint8_t* const hint = mi_arena_hint_locked(subproc);
  const mi_os_access_t access = kind == MI_ARENA_RESERVED ? MI_OS_NO_ACCESS : MI_OS_READ_WRITE;
  plan->is_committed = kind != MI_ARENA_RESERVED;
  plan->is_pinned = kind == MI_ARENA_LARGE;
  mi_count_add(&subproc->count.mmap_calls, 1);
  plan->start = (uint8_t*)(kind == MI_ARENA_LARGE
                               ? mi_os_map_large(hint, plan->size, mi_state.os.huge_page_size)
                               : mi_os_map(hint, plan->size, alignment, access));
  if (plan->start == NULL) return NULL;
  if (kind == MI_ARENA_COMMITTED) mi_huge_advise(plan->start, plan->size);
  if (plan->numa_node >= 0) {
    mi_os_prefer_node(plan->start, plan->size, (size_t)plan->numa_node);
  }
  mi_arena_t* const arena = mi_arena_make(plan);
  if (arena == NULL) {
    mi_os_unmap(plan->start, plan->size);
  } else {
    mi_arena_publish(subproc, arena);
  }
  return arena;
}

MI_INTERNAL mi_arena_t* mi_arena_reserve(mi_subproc_t* subproc, mi_arena_plan_t* plan,
                                         mi_arena_kind_t kind) {
  mi_lock_enter(&mi_state.arena_lock);
  mi_arena_t* const arena = mi_arena_reserve_locked(subproc, plan, kind);
  mi_lock_leave(&mi_state.arena_lock);
  return arena;
}

// One more arena of `wanted` bytes, or less in steps, down to what is needed. Under the arena lock.
static bool mi_arena_grow_by(mi_subproc_t* subproc, size_t wanted, size_t needed, int node,
                             mi_arena_kind_t kind) {
  const size_t unit = kind == MI_ARENA_LARGE ? mi_state.os.huge_page_size : MI_SLICE_SIZE;
  const size_t minimum = mi_bits_align_up(mi_bits_max(needed, unit), unit);
  size_t size = mi_bits_max(mi_bits_align_down(wanted, unit), minimum);
  mi_arena_plan_t plan = {.size = size, .numa_node = node};
  while (mi_arena_reserve_locked(subproc, &plan, kind) == NULL) {
    if (size == minimum || plan.start != NULL) return false;
    // Not below a useful size unless that fails too.
    const size_t half = mi_bits_align_down(size / 2, unit);
    size = (half < MI_ARENA_MIN_SIZE || half < minimum) ? minimum : half;
    plan.size = size;
  }
  return true;
}

// Reserve memory for one more arena of at least `needed` bytes. Under the arena lock.
static bool mi_arena_grow_locked(mi_subproc_t* subproc, size_t needed, int node) {
  if (mi_arena_adopt(subproc, needed, node)) return true;
  size_t wanted = (size_t)mi_option_value(arena_reserve) * MI_KIB;
  wanted <<= mi_bits_min(subproc->arena_count / 8, 16);
  if (mi_state.os.has_address_limit) {
    // Leave room for others: stacks, files, the program itself.
    wanted = mi_bits_min(wanted, mi_state.os.address_limit / 8);
  }
  if (mi_option_value(allow_large_os_pages) != 0 &&
      mi_arena_grow_by(subproc, wanted, needed, node, MI_ARENA_LARGE)) {
    return true;
  }
  const long eager = mi_option_value(arena_eager_commit);
  const bool is_committed = eager == 1 || (eager != 0 && mi_state.os.has_overcommit);
  return mi_arena_grow_by(subproc, wanted, needed, node,
                          is_committed ? MI_ARENA_COMMITTED : MI_ARENA_RESERVED);
}

// Some arenas came after the caller looked at them the last time, when there were `*seen`; or one
// comes now.
static bool mi_arena_grow(mi_subproc_t* subproc, size_t needed, int node, size_t* seen) {
  if (mi_option_value(disallow_os_alloc) != 0) return false;
  mi_lock_enter(&mi_state.arena_lock);
  const bool is_grown =
      subproc->arena_count != *seen || mi_arena_grow_locked(subproc, needed, node);
  *seen = subproc->arena_count;
  mi_lock_leave(&mi_state.arena_lock);
  return is_grown;
}

MI_INTERNAL bool mi_arena_claim(mi_heap_t* heap, size_t slice_count, size_t alignment,
                                size_t touched_count, mi_run_t* run) {
  mi_assert(slice_count > 0 && alignment >= MI_SLICE_SIZE);
  run->heap = heap;
  run->touched_count = touched_count;
  // Room for the alignment; an arena starts at a chunk.
  const size_t needed = slice_count * MI_SLICE_SIZE + (alignment - MI_SLICE_SIZE);
  const int node = mi_numa_node_for(heap);
  size_t seen = 0;
  mi_claim_t claim;
  do {
    claim = mi_arena_claim_existing(heap, node, MI_CLAIM_NEAR, slice_count, alignment, run);
  } while (claim == MI_CLAIM_NONE && heap->arena == NULL &&
           mi_arena_grow(heap->subproc, needed, node, &seen));
  if (claim == MI_CLAIM_NONE && node >= 0 && heap->arena == NULL) {
    claim = mi_arena_claim_existing(heap, node, MI_CLAIM_FAR, slice_count, alignment, run);
  }
  return claim == MI_CLAIM_DONE;
}

MI_INTERNAL bool mi_arena_claim_at(mi_arena_t* arena, size_t slice_index, size_t slice_count,
                                   bool* is_zero) {
  if (slice_index + slice_count > arena->slice_count) return false;
  if (!mi_bitmap_try_claim(arena->free, slice_index, slice_count)) return false;
  mi_run_t run = {0};
  const bool is_taken = mi_arena_take(arena, slice_index, slice_count, &run);
  *is_zero = run.is_zero;
  return is_taken;
}

MI_INTERNAL bool mi_arena_is_cut(mi_arena_t* arena, size_t slice_index) {
  return !mi_bitmap_is_all_clear(arena->moved_first, slice_index, 1) ||
         mi_bitmap_is_all_clear(arena->moved, slice_index, 1) !=
             mi_bitmap_is_all_clear(arena->moved, slice_index - 1, 1);
}

MI_INTERNAL void mi_arena_note_cut(mi_arena_t* arena, size_t slice_index) {
  if (slice_index >= arena->slice_count) return;
  if (mi_bitmap_is_all_clear(arena->moved, slice_index, 1)) return;
  const size_t added = mi_bitmap_set(arena->moved_first, slice_index, 1);
  if (added > 0) mi_atomic_add_relaxed(&mi_state.moved_count, added);
}

MI_INTERNAL void mi_arena_note_moved(mi_arena_t* arena, size_t slice_index, size_t slice_count) {
  mi_bitmap_set(arena->moved, slice_index, slice_count);
  const size_t replaced = mi_bitmap_clear(arena->moved_first, slice_index, slice_count);
  const size_t added = mi_bitmap_set(arena->moved_first, slice_index, 1);
  mi_atomic_add_relaxed(&mi_state.moved_count, added - replaced);
  mi_arena_note_cut(arena, slice_index + slice_count);
}

MI_INTERNAL void mi_arena_release(mi_arena_t* arena, size_t slice_index, size_t slice_count) {
  mi_assert(slice_index + slice_count <= arena->slice_count);
  mi_purge_remember(arena, slice_index, slice_count);
  mi_count_add(&arena->free_count, (int64_t)slice_count);
  // Publishes the cleared descriptors and whatever was written; pairs with the acquire of the next
  // claim.
  mi_bitmap_set_release(arena->free, slice_index, slice_count);
  const size_t word = slice_index / MI_WORD_BITS;
  for (size_t k = 0; k < MI_RUN_KINDS; k++) {
    if (word < mi_atomic_load_relaxed(&arena->low_word[k])) {
      mi_atomic_store_relaxed(&arena->low_word[k], word);
    }
  }
}
