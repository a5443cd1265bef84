// SPDX-License-Identifier: MIT
// arena.c - reserved ranges of address space, cut into slices; which slices are free; growth.
//
//   arena  [ slice | slice | ... ]        reserved at once, committed and touched slice by slice
//   free, dirty, committed, moved, ...    bitmaps, out of line
//   purge_young, purge_old
//
// A1  a slice belongs to exactly one of: nobody (its `free` bit is set), a page, or a thread that
//     is working on it.
// A2  `dirty` clear means that the slice reads as zero.
// A3  the list of arenas of a sub-process only grows; an arena is unmapped with the library only
//     (unload.c). Those of a sub-process that has ended are clean and free, and serve the next one
//     that grows.
// A4  memory goes to the heap that the arena is for: an exclusive arena to heaps bound to it, all
//     others to all heaps of the sub-process, those on the node that the heap prefers first.
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

// Make slices usable that were not, all of them. False when that is refused.
static bool mi_arena_commit(mi_arena_t* arena, size_t index, size_t count) {
  uint8_t* const start = arena->start + index * MI_SLICE_SIZE;
  const size_t size = count * MI_SLICE_SIZE;
  mi_count_add(&arena->subproc->count.commit_calls, 1);
  bool is_zero = true;
  if (arena->commit_fun == NULL) {
    if (mi_os_commit(start, size) != 0) return false;
  } else {
    is_zero = false;
    if (!arena->commit_fun(true, start, size, &is_zero, arena->commit_arg)) return false;
  }
  if (!is_zero) mi_atomic_store_relaxed(&arena->is_unsure, true);
  mi_bitmap_set(arena->committed, index, count);
  return true;
}

// Bookkeeping of a fresh claim; makes the slices usable. False when the system refuses to commit.
static bool mi_arena_take(mi_arena_t* arena, size_t index, size_t count, mi_run_t* run) {
  mi_subproc_t* const subproc = arena->subproc;
  mi_count_add(&arena->free_count, -(int64_t)count);
  if (!arena->is_committed && !mi_bitmap_is_all_set(arena->committed, index, count) &&
      !mi_arena_commit(arena, index, count)) {
    mi_count_add(&subproc->count.rollbacks, 1);
    mi_count_add(&arena->free_count, (int64_t)count);
    mi_bitmap_set_release(arena->free, index, count); // publishes nothing new: undo
    return false;
  }
  mi_huge_prepare(run->heap, arena, index, count);
  if (run->touched_count > 0 && mi_arena_is_ours(arena))
    mi_purge_reuse(arena, index, run->touched_count);
  const size_t fresh = mi_bitmap_set(arena->dirty, index, count);
  const bool is_remembered = mi_purge_forget(arena, index, count) > 0;
  run->is_zero = (fresh == count) && !mi_atomic_load_relaxed(&arena->is_unsure);
  run->is_resident = is_remembered || fresh < count;
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
  return mi_arena_take(arena, index, count, run) ? MI_CLAIM_DONE : MI_CLAIM_REFUSED;
}

// Of the arenas that are for the heap (A4).
static mi_claim_t mi_arena_claim_existing(mi_heap_t* heap, size_t count, size_t alignment,
                                          mi_run_t* run) {
  if (heap->arena != NULL) return mi_arena_claim_in(heap->arena, count, alignment, run);
  const int wish = mi_atomic_load_relaxed(&heap->numa_wish) - 1;
  // Without a wish the first round takes them all.
  for (int round = wish < 0 ? 1 : 0; round < 2; round++) {
    MI_FOR_EACH_ARENA(heap->subproc, arena) {
      if (arena->is_exclusive) continue;
      const bool is_wanted = arena->numa_node < 0 || arena->numa_node == wish;
      if (wish >= 0 && is_wanted != (round == 0)) continue;
      const mi_claim_t claim = mi_arena_claim_in(arena, count, alignment, run);
      if (claim != MI_CLAIM_NONE) return claim;
    }
  }
  return MI_CLAIM_NONE;
}

// Where the next arena should go: arenas next to each other share one mapping.
static void* mi_arena_hint(const mi_subproc_t* subproc) {
  const mi_arena_t* const last = subproc->arena_last;
  if (last != NULL && !last->is_foreign) return last->start + last->slice_count * MI_SLICE_SIZE;
  const uintptr_t offset = (uintptr_t)mi_os_random() % MI_ARENA_HINT_RANGE;
  return (void*)mi_bits_align_down(MI_ARENA_HINT_BASE + offset, MI_WINDOW_SIZE);
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

// The structures of an arena, not yet in a list. Under the arena lock. NULL: out of memory.
static mi_arena_t* mi_arena_make(const mi_arena_plan_t* plan) {
  const size_t slice_count = plan->size / MI_SLICE_SIZE;
  const size_t word_count = mi_bits_divide_up(slice_count, MI_WORD_BITS);
  enum { MAP_COUNT = 7 };
  mi_arena_t* const arena = (mi_arena_t*)mi_meta_alloc(sizeof(mi_arena_t));
  mi_bitmap_word_t* const maps =
      (mi_bitmap_word_t*)mi_meta_alloc(MAP_COUNT * word_count * sizeof(mi_bitmap_word_t));
  if (arena == NULL || maps == NULL || !mi_pagemap_cover(plan->start, plan->size)) return NULL;
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
  if (plan->is_dirty) mi_bitmap_set(arena->dirty, 0, slice_count);
  return arena;
}

MI_INTERNAL mi_arena_t* mi_arena_manage(mi_subproc_t* subproc, const mi_arena_plan_t* plan) {
  mi_lock_enter(&mi_state.arena_lock);
  mi_arena_t* const arena = mi_arena_make(plan);
  if (arena != NULL) {
    mi_arena_publish(subproc, arena);
    if (plan->is_dirty) {
      mi_count_add_peak(&subproc->count.committed, &subproc->count.committed_peak,
                        (int64_t)plan->size);
    }
  }
  mi_lock_leave(&mi_state.arena_lock);
  return arena;
}

// Use an arena of an ended sub-process. Under the arena lock. False: none is large enough.
static bool mi_arena_adopt(mi_subproc_t* subproc, size_t needed) {
  mi_arena_t* before = NULL;
  mi_arena_t* arena = mi_state.arenas_free;
  while (arena != NULL && arena->slice_count * MI_SLICE_SIZE < needed) {
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
    // What the user brought or set apart was for that sub-process alone.
    if (!arena->is_foreign && !arena->is_exclusive) {
      mi_atomic_store_relaxed(&arena->next, mi_state.arenas_free);
      mi_state.arenas_free = arena;
    }
    arena = next;
  }
  mi_lock_leave(&mi_state.arena_lock);
}

// Reserve memory for one more arena of at least `needed` bytes. Under the arena lock.
static bool mi_arena_grow_locked(mi_subproc_t* subproc, size_t needed) {
  if (mi_arena_adopt(subproc, needed)) return true;
  size_t wanted = (size_t)mi_option_value(arena_reserve) * MI_KIB;
  wanted <<= mi_bits_min(subproc->arena_count / 8, 16);
  if (mi_state.os.has_address_limit) {
    // Leave room for others: stacks, files, the program itself.
    wanted = mi_bits_min(wanted, mi_state.os.address_limit / 8);
  }
  const size_t minimum = mi_bits_align_up(mi_bits_max(needed, MI_SLICE_SIZE), MI_SLICE_SIZE);
  wanted = mi_bits_max(mi_bits_align_down(wanted, MI_SLICE_SIZE), minimum);
  const long eager = mi_option_value(arena_eager_commit);
  const bool is_committed = eager == 1 || (eager != 0 && mi_state.os.has_overcommit);
  const mi_os_access_t access = is_committed ? MI_OS_READ_WRITE : MI_OS_NO_ACCESS;
  const size_t alignment = mi_bits_max(MI_CHUNK_SLICES * MI_SLICE_SIZE, mi_state.os.page_size);
  for (size_t size = wanted; size >= minimum;) {
    mi_count_add(&subproc->count.mmap_calls, 1);
    uint8_t* const p = (uint8_t*)mi_os_map(mi_arena_hint(subproc), size, alignment, access);
    if (p != NULL) {
      // Huge pages are asked for by us or not at all: a small heap must stay small under "always".
      if (is_committed) mi_os_huge_pages(p, size, false);
      mi_arena_t* const arena = mi_arena_make(&(mi_arena_plan_t){
          .start = p, .size = size, .is_committed = is_committed, .numa_node = -1});
      if (arena != NULL) {
        mi_arena_publish(subproc, arena);
        return true;
      }
      mi_os_unmap(p, size);
      return false;
    }
    if (size == minimum) break;
    // Smaller steps: down to what is needed, but not below a useful size unless that fails too.
    const size_t half = mi_bits_align_down(size / 2, MI_SLICE_SIZE);
    size = (half < MI_ARENA_MIN_SIZE || half < minimum) ? minimum : half;
  }
  return false;
}

MI_INTERNAL bool mi_arena_reserve(mi_subproc_t* subproc, size_t size) {
  mi_lock_enter(&mi_state.arena_lock);
  const bool is_done = mi_arena_grow_locked(subproc, size);
  mi_lock_leave(&mi_state.arena_lock);
  return is_done;
}

MI_INTERNAL bool mi_arena_claim(mi_heap_t* heap, size_t slice_count, size_t alignment,
                                size_t touched_count, mi_run_t* run) {
  mi_assert(slice_count > 0 && alignment >= MI_SLICE_SIZE);
  mi_subproc_t* const subproc = heap->subproc;
  run->heap = heap;
  run->touched_count = touched_count;
  // Room for the alignment; an arena starts at a chunk.
  const size_t needed = slice_count * MI_SLICE_SIZE + (alignment - MI_SLICE_SIZE);
  size_t seen = 0;
  for (size_t round = 0;; round++) {
    const mi_claim_t claim = mi_arena_claim_existing(heap, slice_count, alignment, run);
    if (claim != MI_CLAIM_NONE) return claim == MI_CLAIM_DONE;
    if (heap->arena != NULL || mi_option_value(disallow_os_alloc) != 0) return false;
    mi_lock_enter(&mi_state.arena_lock);
    // Whoever waited here may find that another thread has grown the arenas: search once more
    // first.
    const bool is_unchanged = subproc->arena_count == seen;
    const bool is_grown = (round == 0 && seen == 0 && subproc->arena_count > 0) || !is_unchanged ||
                          mi_arena_grow_locked(subproc, needed);
    seen = subproc->arena_count;
    mi_lock_leave(&mi_state.arena_lock);
    if (!is_grown) return false;
  }
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

MI_INTERNAL void mi_arena_note_moved(mi_arena_t* arena, size_t slice_index, size_t slice_count) {
  mi_bitmap_set(arena->moved, slice_index, slice_count);
  const size_t replaced = mi_bitmap_clear(arena->moved_first, slice_index, slice_count);
  mi_bitmap_set(arena->moved_first, slice_index, 1);
  mi_atomic_add_relaxed(&mi_state.moved_count, (size_t)1 - replaced);
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
