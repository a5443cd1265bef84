// SPDX-License-Identifier: MIT
// arena.c - reserved ranges of address space, cut into slices; which slices are free; growth.
//
//   arena  [ slice | slice | ... ]- - - - mapped in steps, committed and touched slice by slice
//   free, dirty, committed, moved, ...    bitmaps, out of line
//   purge_young, purge_old
//
// ARENA-1  a slice is free (its `free` bit is set), or belongs to exactly one page, or to exactly
//     one thread that is working on it. Lost slices (move.c) are none of these, for good.
// ARENA-2  `dirty` clear means that the slice reads as zero.
// ARENA-3  the list of arenas of a sub-process only grows; an arena is unmapped only when the
//     library is unloaded (unload.c). Arenas of a sub-process that has ended are clean and free,
//     and serve the next sub-process that grows (ended.c); of those of the program only the
//     structure is left.
// ARENA-4  memory goes to the heap that the arena is for: an exclusive arena to heaps bound to it,
//     all others to all heaps of the sub-process. A heap that prefers a node gets memory there, for
//     which an arena may grow, and memory elsewhere when there is no more.
// ARENA-5  memory of the program is never mapped or unmapped by us, and never made inaccessible: it
//     may be a file, or shared.
// ARENA-6  explicit huge OS pages stay: arenas of them are pinned.
// ARENA-7  addresses are mapped only as they are needed: a step is an eighth of what is mapped, and
//     ends with a chunk as soon as it is more than the smallest. The rest of what an arena may grow
//     to is not reserved; another mapping there ends the growth of the arena (and is never
//     replaced). So the memory that is locked (mlockall), or charged to a limit (ulimit -v), is
//     little more than what the program uses.
//
// ARENA-8  in a secure build each arena starts at a random chunk of most of the addresses below
//     programs, and from level 2 on a page of one slice gets a random one of the free slices of the
//     lowest chunk that has any: the address of a block tells little about another in another page.
//
// Claim and release take no lock (bitmap.h); growth takes the arena lock, and a thread that waited
// for it searches again before growing. Bits of slices that are not mapped are clear in all
// bitmaps: such slices are not even free. Runs are taken at the lowest address that fits, so that
// memory in use stays together and whole chunks at the upper end become free. There is no ceiling:
// what an arena may grow to doubles every eight arenas, and steps shrink when the system refuses.
// The first arena is small, with descriptors in the library itself (PAGEMAP-4), if it got the place
// that it was to have: a process with little address space has no room for a table. Where addresses
// cannot be chosen (mi_os_hints), an arena has all of its addresses from the start (`has_room`):
// they are inaccessible, and become usable as it grows.
// Not here: what is done with claimed slices (slices.c), when memory goes back (retain.c), blocks
// that are too large for an arena (large.c).
#include "arena.h"

#include "bitmap.h"
#include "book.h"
#include "charge.h"
#include "ended.h"
#include "fit.h"
#include "numa.h"

#define MI_ARENA_HINT_BASE ((uint64_t)4 << 40) // far above programs and below libraries
#define MI_ARENA_HINT_RANGE ((uint64_t)16 << 40)
#define MI_ARENA_RANDOM_RANGE ((uint64_t)80 << 40) // programs are loaded from 85 TiB on
// Runs that a claim looks at; and in each arena, if it is aligned, before all were asked.
#define MI_ARENA_TRIES 32
#define MI_ARENA_ALIGNED_TRIES 1
#define MI_ARENA_MAPS (7 + (MI_IS_SECURE ? 1 : 0)) // bitmaps before the index of free runs
#define MI_ARENA_LOW_WORDS 8 // words that a claim looks at before it asks the index

MI_INTERNAL mi_arena_t* mi_arena_of(mi_subproc_t* subproc, const void* p) {
  MI_FOR_EACH_ARENA(subproc, arena) {
    const uint8_t* const end = arena->start + mi_arena_size(arena);
    if ((const uint8_t*)p >= arena->start && (const uint8_t*)p < end) return arena;
  }
  return NULL;
}

MI_INTERNAL void mi_arena_advise(uint8_t* start, size_t size) {
  // Only the library asks for huge pages: a small heap must stay small under "always".
  mi_os_huge_pages(start, size, mi_option_value(allow_thp) >= 2 ? MI_OS_HUGE : MI_OS_SMALL);
}

// Make an unusable range usable. Stores in `*is_zero` if it reads as zero.
static bool mi_arena_commit_range(mi_arena_t* arena, size_t index, size_t count, bool* is_zero) {
  uint8_t* const start = arena->start + index * MI_SLICE_SIZE;
  const size_t size = count * MI_SLICE_SIZE;
  mi_count_add(&arena->subproc->count.commit_calls, 1);
  *is_zero = arena->commit_fun == NULL;
  if (arena->commit_fun != NULL) {
    mi_tool_open(start, size); // the function may write there
    if (!mi_arena_call(arena, MI_ARENA_COMMIT, start, size, is_zero)) return false;
  } else {
    if (mi_os_commit(start, size) != 0) return false;
    if (!arena->is_foreign) {
      mi_numa_prefer(start, size, arena->numa_node); // decommit may remap it
    }
  }
  mi_bitmap_set(arena->committed, index, count);
  return true;
}

// Make claimed slices usable. Those that are usable already are not committed again, because a
// commit function of the program may count its calls.
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

// Make claimed slices usable. False if the system refuses; then they are free again.
static bool mi_arena_take(mi_arena_t* arena, size_t index, size_t count, mi_run_t* run) {
  mi_count_add(&arena->free_count, -(int64_t)count);
  bool is_zero = !mi_atomic_load_relaxed(&arena->is_unsure);
  if (!arena->is_committed && !mi_arena_commit(arena, index, count, &is_zero)) {
    mi_count_add(&arena->subproc->count.rollbacks, 1);
    mi_count_add(&arena->free_count, (int64_t)count);
    mi_arena_let_go(arena, index, count);
    return false;
  }
  *run = (mi_run_t){
      .arena = arena,
      .start = arena->start + index * MI_SLICE_SIZE,
      .slice_index = index,
      .slice_count = count,
      .is_zero = is_zero,
  };
  return true;
}

// The index is told in any case: another thread may have seen bits that this one took back.
MI_INTERNAL bool mi_arena_hold(mi_arena_t* arena, size_t slice_index, size_t slice_count) {
  const bool is_held = mi_bitmap_try_claim(arena->free, slice_index, slice_count);
  mi_fit_note(arena, slice_index, slice_count);
  return is_held;
}

MI_INTERNAL void mi_arena_let_go(mi_arena_t* arena, size_t slice_index, size_t slice_count) {
  // Publishes the cleared descriptors and whatever was done with the memory; pairs with the acquire
  // of the next claim in `mi_bitmap_take`.
  mi_bitmap_set_release(arena->free, slice_index, slice_count);
  mi_fit_note(arena, slice_index, slice_count);
}

static size_t mi_arena_run_kind(size_t count) {
  return count == 1 ? 0 : mi_bits_log2(count - 1) + 1;
}

// Words below were too full when a run of the smallest length of this kind was searched.
static void mi_arena_note_low(mi_arena_t* arena, size_t count, size_t word) {
  const size_t kind = mi_arena_run_kind(count);
  const bool is_smallest = count == 1 || kind != mi_arena_run_kind(count - 1);
  // A racing release below lowers the hint again, or is missed until the next search of the index.
  if (is_smallest) mi_atomic_store_relaxed(&arena->low_word[kind], word);
}

// Return where a run found at `bit`, the lowest of the free slices `x` of a word, goes: ARENA-8.
static size_t mi_arena_place(uint64_t x, size_t bit, size_t count) {
#if MI_SECURE_LEVEL >= 2
  if (count > 1) return bit; // longer runs would find no room between
  const size_t chunk_end = mi_bits_align_down(bit, MI_CHUNK_SLICES) + MI_CHUNK_SLICES;
  uint64_t near = x & mi_bits_mask(chunk_end);
  mi_random_t random = mi_secret_random();
  for (uint32_t i = mi_random_below(&random, (uint32_t)mi_bits_count(near)); i > 0; i--) {
    near &= near - 1;
  }
  return mi_bits_trailing_zeros(near);
#else
  (void)x, (void)count;
  return bit;
#endif
}

// Claim the lowest run inside one word: the common case, pages and blocks of medium size. It looks
// at some words only.
static size_t mi_arena_claim_in_word(mi_arena_t* arena, size_t count) {
  const size_t low = mi_atomic_load_relaxed(&arena->low_word[mi_arena_run_kind(count)]);
  const size_t end = mi_bits_min(low + MI_ARENA_LOW_WORDS, arena->word_count);
  for (size_t w = low; w < end; w++) {
    uint64_t x = mi_atomic_load_relaxed(&arena->free[w]);
    size_t bit;
    while (x != 0 && (bit = mi_bitmap_find_in_word(x, count)) != MI_BITMAP_NONE) {
      if (w > low) mi_arena_note_low(arena, count, w);
      const size_t index = w * MI_WORD_BITS + mi_arena_place(x, bit, count);
      if (mi_arena_hold(arena, index, count)) return index;
      x = mi_atomic_load_relaxed(&arena->free[w]);
    }
  }
  return MI_BITMAP_NONE;
}

// What a claim looks for.
typedef struct mi_arena_wish_s {
  size_t count; // slices
  size_t alignment; // bytes
  size_t tries; // runs to look at, because the alignment may not fit into them
} mi_arena_wish_t;

// Claim the lowest slices that are aligned as wished in a free run of at least `run_count`.
static size_t mi_arena_claim_fit(mi_arena_t* arena, const mi_arena_wish_t* wish, size_t run_count) {
  const size_t slices = wish->alignment / MI_SLICE_SIZE;
  const size_t bias = ((uintptr_t)arena->start / MI_SLICE_SIZE) & (slices - 1);
  size_t from = 0;
  for (size_t i = 0; i < wish->tries; i++) {
    const size_t run = mi_fit_find(arena, from, run_count);
    if (run == MI_BITMAP_NONE) break;
    const size_t index = mi_bits_align_up(run + bias, slices) - bias;
    const size_t end = index + wish->count;
    if (end > mi_arena_slices(arena)) break;
    const size_t length = mi_bitmap_run_length(arena->free, run, end);
    if (run + length < end && length >= run_count) {
      from = run + length;
    } else if (mi_arena_hold(arena, index, wish->count)) {
      return index;
    }
  }
  return MI_BITMAP_NONE;
}

static size_t mi_arena_claim_bits(mi_arena_t* arena, const mi_arena_wish_t* wish) {
  const size_t count = wish->count;
  const bool is_aligned = wish->alignment > MI_SLICE_SIZE;
  const bool is_short = count <= MI_WORD_BITS && !is_aligned;
  size_t index = MI_BITMAP_NONE;
  if (is_short) index = mi_arena_claim_in_word(arena, count);
  if (index != MI_BITMAP_NONE) return index;
  index = mi_arena_claim_fit(arena, wish, count);
  if (is_short && index != MI_BITMAP_NONE) mi_arena_note_low(arena, count, index / MI_WORD_BITS);
  if (index != MI_BITMAP_NONE || !is_aligned) return index;
  // The hole that such a block left has the right length and place. If the lowest runs are no such
  // holes, a run in which it fits at any place is found at once.
  return mi_arena_claim_fit(arena, wish, count + wish->alignment / MI_SLICE_SIZE - 1);
}

typedef enum mi_claim_e {
  MI_CLAIM_DONE,
  MI_CLAIM_NONE, // no arena has such a run: growing helps
  MI_CLAIM_REFUSED, // the system refuses to commit a run: growing does not help
} mi_claim_t;

static mi_claim_t mi_arena_claim_in(mi_arena_t* arena, const mi_arena_wish_t* wish, mi_run_t* run) {
  const size_t count = wish->count;
  if (mi_atomic_load_relaxed(&arena->free_count) < (int64_t)count) return MI_CLAIM_NONE;
  const size_t index = mi_arena_claim_bits(arena, wish);
  if (index == MI_BITMAP_NONE) return MI_CLAIM_NONE;
  if (mi_arena_take(arena, index, count, run)) return MI_CLAIM_DONE;
  // If the program refuses its own memory, that says nothing about other memory.
  return arena->is_foreign ? MI_CLAIM_NONE : MI_CLAIM_REFUSED;
}

// The arenas that a heap takes memory from.
typedef enum mi_claim_where_e {
  MI_CLAIM_NEAR, // those on the node that the heap prefers; all if it prefers none
  MI_CLAIM_FAR, // all others
} mi_claim_where_t;

// Claim a run from the existing arenas that serve the heap (ARENA-4), which prefers `node`.
static mi_claim_t mi_arena_claim_existing(mi_heap_t* heap, int node, mi_claim_where_t where,
                                          const mi_arena_wish_t* wish, mi_run_t* run) {
  if (heap->arena != NULL) return mi_arena_claim_in(heap->arena, wish, run);
  MI_FOR_EACH_ARENA(heap->subproc, arena) {
    const bool is_near = node < 0 || arena->numa_node == node;
    if (arena->is_exclusive || is_near != (where == MI_CLAIM_NEAR)) continue;
    const mi_claim_t claim = mi_arena_claim_in(arena, wish, run);
    if (claim != MI_CLAIM_NONE) return claim;
  }
  return MI_CLAIM_NONE;
}

// Make the indexes of the arenas of the heap anew, because none seems to have such a run, before
// there are more arenas: threads may have overtaken each other (FIT-2). False if there is nothing
// to make anew.
static bool mi_arena_rebuild(mi_heap_t* heap, size_t count) {
  if (mi_os_is_single_threaded()) return false;
  bool is_any = false;
  MI_FOR_EACH_ARENA(heap->subproc, arena) {
    const bool is_for = heap->arena != NULL ? heap->arena == arena : !arena->is_exclusive;
    if (!is_for || mi_atomic_load_relaxed(&arena->free_count) < (int64_t)count) continue;
    mi_fit_rebuild(arena);
    is_any = true;
  }
  return is_any;
}

MI_INTERNAL bool mi_arena_is_apart(const uint8_t* start) {
  return (uint64_t)(uintptr_t)start - MI_ARENA_HINT_BASE < 2 * MI_ARENA_HINT_RANGE;
}

// Let the next arena follow this one: arenas next to each other share one mapping, once each is as
// large as it may be. The window of the near arena has no room for others. Nothing follows an arena
// amid the mappings of others: the next one tries another place.
static void mi_arena_note_end(const mi_arena_t* arena) {
  if (MI_IS_SECURE) return; // ARENA-8
  mi_state.arena_hint = NULL;
  if (!mi_arena_is_apart(arena->start)) return;
  uint8_t* const end = arena->start + arena->slice_max * MI_SLICE_SIZE;
  const size_t unit = mi_pagemap_is_near(end - 1) ? MI_WINDOW_SIZE : MI_CHUNK_SIZE;
  mi_state.arena_hint = (uint8_t*)mi_bits_align_up((uintptr_t)end, unit);
}

static uint8_t* mi_arena_hint_locked(void) {
  mi_lock_expect(&mi_state.arena_lock);
  if (mi_state.arena_hint != NULL || MI_IS_32_BIT) return mi_state.arena_hint;
#if MI_IS_SECURE
  mi_random_t random = mi_secret_random();
  const uint64_t chunk = mi_random_next(&random) % (MI_ARENA_RANDOM_RANGE / MI_CHUNK_SIZE);
  return (uint8_t*)(uintptr_t)(MI_ARENA_HINT_BASE + chunk * MI_CHUNK_SIZE);
#else
  const uint64_t base = MI_ARENA_HINT_BASE + (mi_state.is_unloaded ? MI_ARENA_HINT_RANGE : 0);
  const uint64_t offset = mi_os_random() % MI_ARENA_HINT_RANGE;
  return (uint8_t*)mi_bits_align_down((uintptr_t)(base + offset), MI_WINDOW_SIZE);
#endif
}

MI_INTERNAL uint8_t* mi_arena_hint(void) {
  mi_lock_enter(&mi_state.arena_lock);
  uint8_t* const hint = mi_arena_hint_locked();
  mi_lock_leave(&mi_state.arena_lock);
  return hint;
}

static void mi_arena_count_reserved(mi_arena_t* arena, size_t slice_count) {
  mi_counters_t* const count = &arena->subproc->count;
  mi_count_add_peak(&count->reserved, &count->reserved_peak,
                    (int64_t)(slice_count * MI_SLICE_SIZE));
  mi_atomic_add_relaxed(&arena->subproc->growth_count, 1);
}

// Append the arena to the list of a sub-process. Under the arena lock.
static void mi_arena_publish(mi_subproc_t* subproc, mi_arena_t* arena) {
  mi_lock_expect(&mi_state.arena_lock);
  arena->subproc = subproc;
  mi_arena_count_reserved(arena, mi_arena_slices(arena));
  arena->before = subproc->arena_last;
  // Publishes the fields of the arena; pairs with the acquires in `MI_FOR_EACH_ARENA`.
  if (subproc->arena_last == NULL) {
    mi_atomic_store_release(&subproc->arenas, arena);
  } else { // pairs with `MI_FOR_EACH_ARENA`, too
    mi_atomic_store_release(&subproc->arena_last->next, arena);
  }
  subproc->arena_last = arena;
  subproc->arena_count++;
}

// Count the dirty slices of an arena as committed when a sub-process gets it. A fresh one has none.
static void mi_arena_count_dirty(mi_subproc_t* subproc, mi_arena_t* arena) {
  mi_charge_adopt(subproc, arena);
  const size_t dirty = mi_bitmap_count(arena->dirty, arena->word_count);
  mi_count_add_peak(&subproc->count.committed, &subproc->count.committed_peak,
                    (int64_t)(dirty * MI_SLICE_SIZE));
}

// Return the bytes of the maps of an arena that may grow to so many slices.
static size_t mi_arena_maps_size(size_t slice_max) {
  const size_t word_count = mi_bits_divide_up(slice_max, MI_WORD_BITS);
  const size_t chunk_count = mi_bits_divide_up(slice_max, MI_CHUNK_SLICES);
  return (MI_ARENA_MAPS + MI_CHARGE_UNITS) * word_count * sizeof(mi_bitmap_word_t) +
         mi_fit_size(word_count) + chunk_count * sizeof(mi_chunk_t);
}

// Make the structures of an arena, not yet in a list. Under the arena lock. NULL: out of memory.
static mi_arena_t* mi_arena_make(const mi_arena_plan_t* plan) {
  mi_lock_expect(&mi_state.arena_lock);
  const size_t slice_count = plan->size / MI_SLICE_SIZE;
  // (In a secure build arenas start anywhere in a window. Amid the mappings of others, the system
  // may place the next arena in the same window again and again, where it gets no descriptors.)
  const bool is_near = !MI_IS_SECURE && !plan->has_room && plan->size_max > plan->size &&
                       mi_arena_is_apart(plan->start) &&
                       mi_pagemap_may_be_near(plan->start, plan->size);
  const size_t size_max = is_near ? mi_bits_min(plan->size_max, MI_NEAR_SIZE) : plan->size_max;
  const size_t slice_max = mi_bits_max(size_max, plan->size) / MI_SLICE_SIZE;
  const size_t word_count = mi_bits_divide_up(slice_max, MI_WORD_BITS);
  const size_t chunk_count = mi_bits_divide_up(slice_max, MI_CHUNK_SLICES);
  const size_t maps_size = mi_arena_maps_size(slice_max);
  mi_arena_t* const arena = mi_ended_take_structure();
  mi_bitmap_word_t* const maps = (mi_bitmap_word_t*)mi_meta_alloc(maps_size);
  if (arena == NULL || maps == NULL || (!is_near && !mi_pagemap_cover(plan->start, plan->size))) {
    if (arena != NULL) mi_ended_add_structure(arena);
    if (maps != NULL) mi_meta_free(maps, maps_size);
    return NULL;
  }
  if (is_near) mi_pagemap_cover_near(plan->start);
  mi_tool_add_root(plan->start, plan->size);
  arena->start = plan->start;
  arena->slice_max = slice_max;
  mi_atomic_store_relaxed(&arena->slice_count, slice_count); // no other thread knows it yet
  arena->word_count = word_count;
  // With a commit function of the user the state is kept slice by slice.
  arena->is_committed = plan->is_committed && plan->commit_fun == NULL;
  arena->is_pinned = plan->is_pinned;
  arena->is_exclusive = plan->is_exclusive;
  arena->is_foreign = plan->is_foreign;
  arena->has_room = plan->has_room;
  arena->numa_node = plan->numa_node;
  if (plan->commit_fun != NULL) {
    const uintptr_t fun = (uintptr_t)plan->commit_fun;
    arena->commit_fun = (mi_arena_commit_fun_t*)mi_secret_seal(&arena->commit_fun, fun);
    arena->commit_arg = (void*)mi_secret_seal(&arena->commit_arg, (uintptr_t)plan->commit_arg);
  }
  arena->free = maps;
  arena->dirty = maps + word_count;
  arena->committed = maps + 2 * word_count;
  arena->moved = maps + 3 * word_count;
  arena->moved_first = maps + 4 * word_count;
  arena->purge_young = maps + 5 * word_count;
  arena->purge_old = maps + 6 * word_count;
  arena->marked = maps + 7 * word_count; // if there is one
  mi_fit_init(arena, maps + MI_ARENA_MAPS * word_count);
  // Behind the others, because most programs never write there; and the longest map last.
  mi_bitmap_word_t* const behind =
      maps + MI_ARENA_MAPS * word_count + mi_fit_size(word_count) / sizeof(*maps);
  arena->chunks = (mi_chunk_t*)behind;
  arena->units = (mi_bitmap_word_t*)(arena->chunks + chunk_count);
  mi_bitmap_set(arena->free, 0, slice_count);
  mi_fit_note(arena, 0, slice_count);
  if (plan->is_committed && !arena->is_committed) mi_bitmap_set(arena->committed, 0, slice_count);
  mi_atomic_store_relaxed(&arena->free_count, (int64_t)slice_count);
  if (plan->is_dirty && plan->is_committed) {
    mi_bitmap_set(arena->dirty, 0, slice_count);
    mi_bitmap_set(arena->units, 0, slice_count * MI_CHARGE_UNITS);
    mi_atomic_store_relaxed(&arena->used_end, slice_count);
  }
  mi_atomic_store_relaxed(&arena->is_unsure, plan->is_dirty && !plan->is_committed);
  return arena;
}

static bool mi_arena_overlaps(const uint8_t* start, size_t size, const mi_arena_plan_t* plan) {
  return plan->start < start + size && start < plan->start + plan->size;
}

// True if part of the range is in an arena or a page already. Under the thread and the arena lock.
static bool mi_arena_is_known(const mi_arena_plan_t* plan) {
  for (mi_subproc_t* subproc = &mi_state.main; subproc != NULL; subproc = subproc->next) {
    MI_FOR_EACH_ARENA(subproc, arena) {
      if (mi_arena_overlaps(arena->start, mi_arena_size(arena), plan)) return true;
    }
    // A block outside of arenas has descriptors for its first slices only.
    const mi_page_t* page;
    for (uint32_t at = 0; (page = mi_book_next(&subproc->direct, &at)) != NULL;) {
      if (mi_arena_overlaps(page->start, page->slice_count * MI_SLICE_SIZE, plan)) return true;
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
    mi_count_add(&subproc->count.arenas, 1);
    mi_arena_publish(subproc, arena);
    mi_arena_count_dirty(subproc, arena);
  }
  mi_lock_leave(&mi_state.arena_lock);
  mi_lock_leave(&mi_state.thread_lock);
  return arena;
}

// Use an arena of an ended sub-process. Under the arena lock. False if none is large enough.
static bool mi_arena_adopt(mi_subproc_t* subproc, size_t needed, int node) {
  mi_arena_t* const arena = mi_ended_take(needed, node);
  if (arena == NULL) return false;
  mi_arena_publish(subproc, arena);
  mi_arena_count_dirty(subproc, arena); // pinned slices were not purged
  return true;
}

MI_INTERNAL bool mi_arena_is_valid(mi_arena_t* arena) {
  mi_bitmap_word_t* const maps[] = {arena->free,     arena->dirty,       arena->committed,
                                    arena->moved,    arena->moved_first, arena->purge_young,
                                    arena->purge_old};
  const size_t slice_count = mi_arena_slices(arena);
  const size_t behind = arena->word_count * MI_WORD_BITS - slice_count;
  for (size_t i = 0; i < sizeof(maps) / sizeof(maps[0]); i++) { // ARENA-7
    if (!mi_bitmap_is_all_clear(maps[i], slice_count, behind)) return false;
  }
  for (size_t i = 0; i < slice_count; i++) { // ARENA-1
    if (mi_bitmap_is_all_clear(arena->dirty, i, 1)) continue; // its descriptor is untouched, too
    mi_page_t* const page = mi_pagemap_slice(arena->start + i * MI_SLICE_SIZE);
    const bool is_page = mi_atomic_load_relaxed(&page->owner) != MI_OWNER_NONE;
    if (is_page && mi_bitmap_is_all_set(arena->free, i, 1)) return false;
  }
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
    mi_assert_full(mi_arena_is_valid(arena));
    if (arena->is_foreign) { // what the program brought was for that sub-process alone
      mi_tool_remove_root(arena->start, mi_arena_size(arena));
      mi_meta_free(arena->free, mi_arena_maps_size(arena->slice_max));
      mi_ended_add_structure(arena);
    } else {
      mi_ended_add(arena);
    }
    arena = next;
  }
  mi_lock_leave(&mi_state.arena_lock);
}

// Return the unit, in bytes, at a multiple of which arenas end.
static size_t mi_arena_unit(void) { return mi_bits_max(MI_SLICE_SIZE, mi_state.os.page_size); }

// Return the same for where arenas start, and where they end as soon as they are not small: a
// chunk, or what a huge OS page backs if that is less.
static size_t mi_arena_large_unit(void) {
  return mi_bits_max(mi_bits_min(MI_CHUNK_SIZE, mi_state.os.huge_page_size), mi_arena_unit());
}

// Make the first part of a mapping usable, and plan the arena to be that. False, and nothing is
// mapped, if the system refuses.
static mi_attr_cold bool mi_arena_begin_room(mi_arena_plan_t* plan) {
  const size_t size = mi_bits_min(plan->size, plan->first_size);
  if (mi_os_remap(plan->start, size) != 0) {
    mi_os_unmap(plan->start, plan->size);
    plan->start = NULL;
    return false;
  }
  plan->size_max = plan->size;
  plan->size = size;
  plan->has_room = true;
  return true;
}

// Map a planned arena and publish it. Under the arena lock.
static mi_arena_t* mi_arena_reserve_locked(mi_subproc_t* subproc, mi_arena_plan_t* plan,
                                           mi_arena_kind_t kind) {
  mi_lock_expect(&mi_state.arena_lock);
  const size_t alignment = mi_arena_large_unit();
  uint8_t* const hint = mi_arena_hint_locked();
  const bool is_usable = kind == MI_ARENA_COMMITTED || kind == MI_ARENA_LARGE;
  const mi_os_access_t access = is_usable ? MI_OS_READ_WRITE : MI_OS_NO_ACCESS;
  const size_t mapped = plan->size;
  plan->is_committed = kind != MI_ARENA_RESERVED;
  plan->is_pinned = kind == MI_ARENA_LARGE;
  mi_count_add(&subproc->count.mmap_calls, 1);
  plan->start = (uint8_t*)(kind == MI_ARENA_LARGE
                               ? mi_os_map_large(hint, plan->size, mi_state.os.huge_page_size)
                               : mi_os_map(hint, plan->size, alignment, access));
  if (plan->start == NULL) return NULL;
  if (kind == MI_ARENA_ROOM && !mi_arena_begin_room(plan)) return NULL;
  if (kind == MI_ARENA_COMMITTED || kind == MI_ARENA_ROOM) mi_arena_advise(plan->start, plan->size);
  mi_numa_prefer(plan->start, plan->size, plan->numa_node);
  mi_arena_t* const arena = mi_arena_make(plan);
  if (arena == NULL) {
    mi_os_unmap(plan->start, mapped);
  } else {
    mi_count_add(&subproc->count.arenas, 1);
    mi_arena_note_end(arena);
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

// Return by how many bytes the arenas of a sub-process grow.
static size_t mi_arena_step(const mi_subproc_t* subproc) {
  const int64_t reserved = mi_atomic_load_relaxed(&subproc->count.reserved);
  return mi_bits_max(MI_ARENA_STEP_MIN, (size_t)reserved / MI_ARENA_STEP_PART);
}

// Return how many addresses an arena takes where nothing can be mapped behind it later: all it may
// have, or, where there are few, as many as are in use. (They count for a limit of what may be
// locked, too.)
static mi_attr_cold size_t mi_arena_room(const mi_subproc_t* subproc, size_t size_max) {
  if (!MI_IS_32_BIT) return size_max;
  const int64_t reserved = mi_atomic_load_relaxed(&subproc->count.reserved);
  return mi_bits_min(mi_bits_max(MI_ARENA_STEP_MIN, (size_t)reserved), size_max);
}

// Return what to ask for after the system refused `size`: at least a useful step, unless that
// failed too.
static size_t mi_arena_less(size_t size, size_t minimum, size_t unit) {
  const size_t half = mi_bits_align_down(size / 2, unit);
  return half < MI_ARENA_STEP_MIN || half < minimum ? minimum : half;
}

static bool mi_arena_map_more(mi_arena_t* arena, uint8_t* start, size_t size) {
  if (arena->has_room) return mi_os_remap(start, size) == 0;
  const mi_os_access_t access = arena->is_committed ? MI_OS_READ_WRITE : MI_OS_NO_ACCESS;
  mi_count_add(&arena->subproc->count.mmap_calls, 1);
  return mi_os_map_at(start, size, access);
}

// Map `size` more bytes at the end of an arena, and mark them as free. Under the arena lock.
static bool mi_arena_extend(mi_arena_t* arena, size_t size) {
  mi_lock_expect(&mi_state.arena_lock);
  const size_t first = mi_arena_slices(arena);
  const size_t count = size / MI_SLICE_SIZE;
  uint8_t* const start = arena->start + first * MI_SLICE_SIZE;
  if (!mi_arena_map_more(arena, start, size)) return false;
  if (!mi_pagemap_cover(start, size)) {
    if (arena->has_room) {
      mi_os_decommit(start, size);
    } else {
      mi_os_unmap(start, size);
    }
    return false;
  }
  if (arena->is_committed) mi_arena_advise(start, size);
  mi_numa_prefer(start, size, arena->numa_node);
  mi_tool_remove_root(arena->start, first * MI_SLICE_SIZE);
  mi_tool_add_root(arena->start, first * MI_SLICE_SIZE + size);
  mi_arena_count_reserved(arena, count);
  mi_count_add(&arena->free_count, (int64_t)count);
  // Publishes the windows of the new slices; pairs with the acquire in `mi_arena_slices`.
  mi_atomic_store_release(&arena->slice_count, first + count);
  mi_bitmap_set_release(arena->free, first, count); // publishes that to `mi_bitmap_try_claim`
  mi_fit_note(arena, first, count);
  return true;
}

// Return the number of free slices at the end of an arena, counted up to `most`.
static size_t mi_arena_tail(mi_arena_t* arena, size_t most) {
  const size_t end = mi_arena_slices(arena);
  size_t count = 0;
  while (count < most && count < end && mi_bitmap_is_all_set(arena->free, end - count - 1, 1)) {
    count++;
  }
  return count;
}

// Grow an arena in place by a step, or by less, down to what is needed. Under the arena lock. False
// if it has no room for that, or the system refuses.
static bool mi_arena_extend_by(mi_arena_t* arena, size_t needed) {
  mi_lock_expect(&mi_state.arena_lock);
  const size_t unit = mi_arena_unit();
  const size_t size_now = mi_arena_size(arena);
  const size_t room = arena->slice_max * MI_SLICE_SIZE - size_now;
  const size_t minimum = mi_bits_align_up(mi_bits_max(needed, unit), unit);
  if (minimum > room) return false;
  const size_t step = mi_arena_step(arena->subproc);
  // Grow by whole chunks, for huge pages (huge.c), as soon as the heap is not small.
  const size_t ends_at = step > MI_ARENA_STEP_MIN ? mi_arena_large_unit() : unit;
  const size_t wanted =
      mi_bits_align_down(size_now + mi_bits_max(step, ends_at), ends_at) - size_now;
  size_t size = mi_bits_min(mi_bits_max(wanted, minimum), room);
  while (!mi_arena_extend(arena, size)) {
    if (size == minimum) return false;
    size = mi_arena_less(size, minimum, unit);
  }
  return true;
}

// Make one more arena that may grow to `size_max` bytes, with `wanted` bytes now, or with less,
// down to what is needed. Under the arena lock.
static bool mi_arena_grow_by(mi_subproc_t* subproc, size_t size_max, size_t wanted, size_t needed,
                             int node, mi_arena_kind_t kind) {
  mi_lock_expect(&mi_state.arena_lock);
  const size_t unit = kind == MI_ARENA_LARGE ? mi_state.os.huge_page_size : mi_arena_unit();
  const size_t minimum = mi_bits_align_up(mi_bits_max(needed, unit), unit);
  size_t size = mi_bits_max(mi_bits_align_down(wanted, unit), minimum);
  mi_arena_plan_t plan = {.size = size,
                          .size_max = mi_bits_align_down(size_max, mi_arena_unit()),
                          .first_size =
                              mi_bits_align_up(mi_bits_max(mi_arena_step(subproc), minimum), unit),
                          .numa_node = node};
  while (mi_arena_reserve_locked(subproc, &plan, kind) == NULL) {
    if (size == minimum || plan.start != NULL) return false;
    plan.size = size = mi_arena_less(size, minimum, unit);
  }
  return true;
}

// Grow the last arena in place, if it may serve heaps that prefer `node`. Under the arena lock.
static bool mi_arena_grow_last(mi_arena_t* last, size_t needed, int node) {
  mi_lock_expect(&mi_state.arena_lock);
  if (last == NULL || mi_arena_slices(last) == last->slice_max || last->numa_node != node) {
    return false;
  }
  const size_t tail = mi_arena_tail(last, needed / MI_SLICE_SIZE);
  return mi_arena_extend_by(last, needed - tail * MI_SLICE_SIZE);
}

// Get at least `needed` more bytes, at the end of the last arena or as one more. Under the arena
// lock.
static bool mi_arena_grow_locked(mi_subproc_t* subproc, size_t needed, int node) {
  mi_lock_expect(&mi_state.arena_lock);
  if (mi_arena_adopt(subproc, needed, node)) return true;
  size_t size_max = mi_arena_option_bytes(mi_option_value(arena_reserve));
  size_t doublings = mi_bits_min(subproc->arena_count / 8, 16);
  for (; doublings > 0 && size_max < MI_ARENA_SIZE_MAX; doublings--) size_max *= 2;
  if (mi_option_value(allow_large_os_pages) != 0 &&
      mi_arena_grow_by(subproc, 0, size_max, needed, node, MI_ARENA_LARGE)) {
    return true;
  }
  if (mi_arena_grow_last(subproc->arena_last, needed, node)) return true;
  const long eager = mi_option_value(arena_eager_commit);
  const bool is_committed = eager == 1 || (eager != 0 && mi_state.os.has_overcommit);
  const bool has_hints = mi_os_hints();
  const size_t wanted =
      has_hints ? mi_bits_min(mi_arena_step(subproc), size_max) : mi_arena_room(subproc, size_max);
  const mi_arena_kind_t committed = has_hints ? MI_ARENA_COMMITTED : MI_ARENA_ROOM;
  return mi_arena_grow_by(subproc, size_max, wanted, needed, node,
                          is_committed ? committed : MI_ARENA_RESERVED);
}

// Grow the arenas, unless they grew since the caller looked at them, when they had grown `*seen`
// times. True in both cases.
static bool mi_arena_grow(mi_subproc_t* subproc, size_t needed, int node, size_t* seen) {
  if (mi_option_value(disallow_os_alloc) != 0) return false;
  mi_lock_enter(&mi_state.arena_lock);
  const bool is_grown = mi_atomic_load_relaxed(&subproc->growth_count) != *seen ||
                        mi_arena_grow_locked(subproc, needed, node);
  *seen = mi_atomic_load_relaxed(&subproc->growth_count);
  mi_lock_leave(&mi_state.arena_lock);
  return is_grown;
}

// Grow an arena in place until it has the slices from `index` to `end`, if those that it has
// already are free.
static bool mi_arena_grow_at_end(mi_arena_t* arena, size_t index, size_t end) {
  if (end > arena->slice_max || mi_option_value(disallow_os_alloc) != 0) return false;
  mi_lock_enter(&mi_state.arena_lock);
  const size_t have = mi_arena_slices(arena);
  const bool is_there = have >= end || (mi_bitmap_is_all_set(arena->free, index, have - index) &&
                                        mi_arena_extend_by(arena, (end - have) * MI_SLICE_SIZE));
  mi_lock_leave(&mi_state.arena_lock);
  return is_there;
}

MI_INTERNAL bool mi_arena_claim(mi_heap_t* heap, size_t slice_count, size_t alignment,
                                mi_run_t* run) {
  mi_assert(slice_count > 0 && alignment >= MI_SLICE_SIZE);
  // Add room for the alignment, because an arena starts anywhere.
  const size_t needed = slice_count * MI_SLICE_SIZE + (alignment - MI_SLICE_SIZE);
  const int node = mi_numa_node_for(heap);
  size_t seen = mi_atomic_load_relaxed(&heap->subproc->growth_count);
  const bool is_aligned = alignment > MI_SLICE_SIZE;
  mi_arena_wish_t wish = {slice_count, alignment,
                          is_aligned ? MI_ARENA_ALIGNED_TRIES : MI_ARENA_TRIES};
  mi_claim_t claim = mi_arena_claim_existing(heap, node, MI_CLAIM_NEAR, &wish, run);
  wish.tries = MI_ARENA_TRIES;
  // Search again only where that may find something else.
  if (claim == MI_CLAIM_NONE && (mi_arena_rebuild(heap, slice_count) || is_aligned)) {
    claim = mi_arena_claim_existing(heap, node, MI_CLAIM_NEAR, &wish, run);
  }
  while (claim == MI_CLAIM_NONE && heap->arena == NULL &&
         mi_arena_grow(heap->subproc, needed, node, &seen)) {
    claim = mi_arena_claim_existing(heap, node, MI_CLAIM_NEAR, &wish, run);
  }
  if (claim == MI_CLAIM_NONE && node >= 0 && heap->arena == NULL) {
    claim = mi_arena_claim_existing(heap, node, MI_CLAIM_FAR, &wish, run);
  }
  return claim == MI_CLAIM_DONE;
}

MI_INTERNAL bool mi_arena_claim_at(mi_arena_t* arena, size_t slice_index, size_t slice_count,
                                   mi_run_t* run) {
  const size_t end = slice_index + slice_count;
  if (end > mi_arena_slices(arena) && !mi_arena_grow_at_end(arena, slice_index, end)) return false;
  return mi_arena_hold(arena, slice_index, slice_count) &&
         mi_arena_take(arena, slice_index, slice_count, run);
}

MI_INTERNAL void mi_arena_release(mi_arena_t* arena, size_t slice_index, size_t slice_count) {
  mi_assert(slice_index + slice_count <= mi_arena_slices(arena));
  mi_count_add(&arena->free_count, (int64_t)slice_count);
  mi_arena_let_go(arena, slice_index, slice_count);
  const size_t word = slice_index / MI_WORD_BITS;
  for (size_t k = 0; k < MI_RUN_KINDS; k++) {
    if (word < mi_atomic_load_relaxed(&arena->low_word[k])) {
      mi_atomic_store_relaxed(&arena->low_word[k], word);
    }
  }
}
