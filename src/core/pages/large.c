// SPDX-License-Identifier: MIT
// large.c - one block, one page: larger than any class, or aligned beyond a slice.
//
//   | block_size (whole OS pages) | slack up to slice_count * MI_SLICE_SIZE, untouched |
//
// In a secure build the first OS page of the slack is inaccessible, and there always is one
// (fence.h).
//
// LARGE-1  the page has owner MI_OWNER_SINGLE for all its life: no thread owns it, and the thread
//     that frees the block returns the slices.
// LARGE-2  only the first slice has a descriptor, and the one that a shifted result lies in, which
//     is the last of `reserved` slices. `shift` is the distance of the result from the start of the
//     block: no other address was handed out. (An alignment of 2^40 shifts by so much: a descriptor
//     for each slice on the way would be 2 GiB. If there are three slices, the second has one, too:
//     in a tracked build the program gets an address up to a slice behind that of a guarded block.)
// LARGE-3  `block_size` and `slice_count` change only in mi_large_resize, and while a thread keeps
//     the block (KEPT-7), by the one thread that holds it.
//     A sample of a profile (sample.c) has a page of its own, too, whatever its size: a slot has no
//     fence, and the size of its class, so that the program sees no difference.
// LARGE-4  where much memory must be zero, used memory is given back to the system instead of
//     cleared: fresh memory reads as zero, and a program pays only for what it touches (zeroed.c).
//     This is done only with memory that we mapped, and if the system takes it.
// LARGE-5  the whole block is charged (charge.c): what the program will touch of it is not known.
//     A run that is kept (spare.c) stays charged: `is_charged` tells the next block there.
// LARGE-6  a block that grows elsewhere is copied if it is short and the memory there was touched
//     before: a move would give that up, and leave none at the old addresses, so that whoever uses
//     these next pays a fault for each OS page, which costs more than the copy.
// LARGE-7  what must be zero, and was used, is cleared or given back as zeroed.c says; the latter
//     counts as not touched.
//
// Blocks up to half an arena are runs of slices; freed runs stay resident for the purge delay,
// which makes the arena the cache of recently freed runs: a block that lies elsewhere takes their
// memory along (RETAIN-2), and one of the same length takes the last of them as it is (spare.c).
// Larger blocks, and all blocks when no arena can be had, are mappings of their own. Growth in
// place takes the slices that follow; otherwise the memory is moved to other addresses without
// copying (move.c).
#include "large.h"

#include <errno.h>
#include <string.h>

#include "inside.h"
#include "track.h"

// What is not a block of its own is cleared if it is shorter: of a tail, or of a block that the
// program no longer has, nobody knows what was used.
#define MI_LARGE_GIVE_BACK_MIN ((size_t)(128 * MI_SLICE_SIZE))
// LARGE-6: what a second cache holds.
#define MI_LARGE_COPY_MAX ((size_t)(16 * MI_SLICE_SIZE))

static size_t mi_large_round(size_t size) { return mi_bits_align_up(size, mi_state.os.page_size); }

// Return how many slices a block of `size` bytes needs.
static size_t mi_large_slices(size_t size) {
  return mi_bits_divide_up(mi_large_round(size) + mi_fence_room(), MI_SLICE_SIZE);
}

// The same for a plan. (The guards of a guarded block are in its room, which is whole slices.)
static size_t mi_large_planned(const mi_large_plan_t* plan) {
  if (plan->guarded != NULL) return plan->room / MI_SLICE_SIZE;
  return mi_large_slices(mi_bits_max(plan->size, plan->room));
}

// LARGE-2
#define MI_LARGE_NEAR ((size_t)3)

static mi_interior_t mi_large_interior(size_t reserved) {
  return (mi_interior_t){reserved <= MI_LARGE_NEAR ? 1 : reserved - 1, reserved};
}

// Return how many slices there are up to the address that the program gets.
static size_t mi_large_described(const mi_large_plan_t* plan, size_t slice_count) {
  const size_t margin_max = MI_IS_TRACKED && plan->guarded != NULL ? MI_SLICE_SIZE : 0;
  return mi_bits_min((plan->shift + margin_max) / MI_SLICE_SIZE + 1, slice_count);
}

static void mi_large_count(mi_heap_t* heap, int64_t bytes) {
  mi_counters_t* const count = &heap->subproc->count;
  mi_count_add_peak(&count->large, &count->large_peak, bytes);
  mi_tally_add(&heap->tally, MI_TALLY_LARGE, bytes);
}

// A run may have the fence of the block that was there before: it stays if it is in the right
// place. False if the system refuses to take it away.
static bool mi_large_keep_fence(const mi_run_t* run, const mi_large_plan_t* plan) {
  mi_page_t* const page = mi_pagemap_slice(run->start);
  const bool is_right =
      plan->guarded == NULL && !plan->is_slot && page->block_size == mi_large_round(plan->size);
  return is_right || mi_fence_drop(page);
}

// Raise the fence behind a block: FENCE-2.
static void mi_large_raise_fence(mi_page_t* page) {
  if (!MI_HAS_FENCE || page->has_fence) return;
  if (page->arena == NULL || mi_arena_is_mapped_by_us(page->arena)) mi_fence_raise(page);
}

// The OS pages of a block are charged from its byte `from` on. LARGE-5
static mi_attr_noinline void mi_large_charge(mi_subproc_t* subproc, mi_page_t* page, size_t from) {
  const size_t size = page->block_size;
  page->is_charged = true;
  if (page->arena != NULL) {
    if (size > from) mi_charge_add(page->arena, page->start + from, size - from);
  } else if (size > from) {
    mi_charge_more(subproc, mi_charge_round(size) - mi_charge_round(from));
  } else {
    mi_charge_less(subproc, mi_charge_round(from) - mi_charge_round(size));
  }
}

// Return an alignment that the page has, at least that of the claim.
static size_t mi_large_alignment(const mi_page_t* page) {
  const uintptr_t start = (uintptr_t)page->start;
  return start & (0 - start);
}

// Release slices of a block, from its slice `from` on. A block outside of arenas has descriptors
// for its first slices only: others are never written (PAGEMAP-1), and nobody asks them.
static void mi_large_release(mi_heap_t* heap, const mi_page_t* page, size_t from, size_t count,
                             size_t alignment) {
  uint8_t* const start = page->start + from * MI_SLICE_SIZE;
  if (from > 0 && page->arena != NULL) mi_pagemap_slice(start)->is_charged = false;
  mi_run_release(heap, page->arena, start, count, alignment);
}

// Release a block that this thread kept, or a rest: its run is the spare one then. (Where a rest
// begins is chance, and no short run is spare for that.)
static mi_attr_noinline void mi_large_end_kept(mi_page_t* page) {
  mi_heap_t* const heap = mi_atomic_load_relaxed(&page->heap);
  const size_t alignment = mi_kept_is_rest(page) ? MI_SLICE_SIZE : mi_large_alignment(page);
  mi_kept_uncount(heap->subproc, page);
  mi_large_release(heap, page, 0, page->slice_count, alignment);
}

// Take the slices behind the block. False if they are not free.
static bool mi_large_extend(mi_page_t* page, size_t slice_count) {
  mi_arena_t* const arena = page->arena;
  if (arena == NULL) return false;
  const size_t next = mi_arena_slice_of(arena, page->start) + page->slice_count;
  bool is_zero;
  const size_t more = slice_count - page->slice_count;
  if (!mi_slices_claim_at(arena, next, more, &is_zero)) return false;
  mi_tool_close(arena->start + next * MI_SLICE_SIZE, more * MI_SLICE_SIZE);
  page->slice_count = (uint32_t)slice_count;
  return true;
}

static mi_attr_noinline bool mi_large_resize_in(mi_heap_t* heap, mi_page_t* page, size_t size) {
  const size_t slice_count = mi_large_slices(size);
  const size_t old_count = page->slice_count;
  const size_t new_size = mi_large_round(size);
  if (slice_count > old_count && !mi_large_extend(page, slice_count)) return false;
  if (new_size != page->block_size && !mi_fence_drop(page)) return false;
  if (!MI_IS_TRACKED && size < page->block_size && slice_count < old_count &&
      slice_count >= page->reserved) {
    // A block that shrinks gives back at once the slices that it does not need. (Of tracked blocks
    // the tools must be told first.)
    page->slice_count = (uint32_t)slice_count;
    mi_large_release(heap, page, slice_count, old_count - slice_count, MI_SLICE_SIZE);
  }
  const size_t old_size = page->block_size;
  mi_large_count(heap, (int64_t)new_size - (int64_t)old_size);
  page->block_size = new_size;
  mi_large_charge(heap->subproc, page, old_size);
  mi_large_raise_fence(page);
  return true;
}

// Make a kept block what the plan asks for: about as long (SPARE-2), and as aligned. False if that
// cannot be.
static bool mi_large_fit_kept(mi_theap_t* home, mi_page_t* page, const mi_large_plan_t* plan,
                              size_t slice_count) {
  const bool is_plain =
      plan->shift == 0 && plan->guarded == NULL && !plan->is_slot && plan->room <= plan->size;
  if (!is_plain || ((uintptr_t)page->start & (plan->alignment - 1)) != 0) return false;
  const size_t size = mi_large_round(plan->size);
  const size_t old_count = page->slice_count;
  if (mi_likely(page->block_size == size)) return true;
  if (slice_count > 2 * old_count || old_count > 2 * slice_count) return false;
  if (slice_count >= old_count || size >= page->block_size) {
    return mi_large_resize_in(mi_atomic_load_relaxed(&page->heap), page, plan->size);
  }
  mi_kept_cut(home, page, slice_count, size); // KEPT-7
  return true;
}

// A kept block that was taken out is in use again.
static mi_attr_inline void mi_large_use_kept(mi_theap_t* home, mi_page_t* page) {
  page->is_zero = false;
  page->is_resident = true;
  mi_kept_note_again(home, page->block_size);
  mi_life_be_single(page);
  mi_probe2(large_make, page->start, page->block_size);
}

// Return the block that this thread freed last, if it is what the plan asks for: kept.c.
static mi_page_t* mi_large_again(mi_heap_t* heap, const mi_large_plan_t* plan, size_t slice_count) {
  mi_theap_t* const home = mi_self_home();
  if (mi_atomic_load_relaxed(&home->heap) != heap) return NULL;
  mi_page_t* const page = mi_kept_get(home);
  if (page == NULL) return NULL;
  if (mi_kept_is_rest(page) || !mi_large_fit_kept(home, page, plan, slice_count)) {
    mi_large_end_kept(page); // KEPT-3
    return NULL;
  }
  mi_large_use_kept(home, page);
  return page;
}

MI_INTERNAL void* mi_large_alloc_kept(mi_theap_t* home) {
  mi_page_t* const page = mi_kept_get(home);
  if (page == NULL) return NULL;
  mi_large_use_kept(home, page);
  return page->start;
}

// Keep a block that the program freed for the next one of the thread: kept.c.
static bool mi_large_keep(mi_page_t* page) {
  mi_theap_t* const home = mi_self_home();
  const bool is_plain = page->shift == 0 && page->sampled == NULL && page->is_charged; // KEPT-1
  if (!is_plain || !mi_kept_may_keep(home, page)) return false;
  mi_subproc_t* const subproc = page->arena->subproc;
  mi_probe2(large_release, page->start, page->block_size);
  mi_life_undescribe(page, mi_large_interior(page->reserved));
  mi_page_t* const old = mi_kept_put(home, page);
  if (mi_unlikely(old != NULL)) mi_large_end_kept(old);
  if (mi_kept_is_turn(home) && mi_retain_bound_again(subproc)) mi_self_hurry(); // KEPT-6
  return true;
}

MI_INTERNAL mi_page_t* mi_large_make(mi_heap_t* heap, const mi_large_plan_t* plan) {
  const size_t slice_count = mi_large_planned(plan);
  if (MI_HAS_KEPT && slice_count <= MI_KEPT_SLICES_MAX) {
    mi_page_t* const again = mi_large_again(heap, plan, slice_count);
    if (again != NULL) return again;
  }
  const size_t shift = plan->shift;
  const size_t described_count = mi_large_described(plan, slice_count);
  mi_run_t run;
  size_t charged = 0;
  if (mi_run_claim_again(heap, slice_count, plan->alignment, &run)) {
    const mi_page_t* const before = mi_pagemap_slice(run.start);
    if (before->is_charged) charged = before->block_size;
  } else {
    const mi_run_wish_t wish = {
        .slice_count = slice_count,
        .alignment = plan->alignment,
        .touched_count = plan->is_absent ? MI_TOUCHED_MAYBE : plan->touched / MI_SLICE_SIZE,
        .described_count = described_count,
    };
    if (!mi_run_claim(heap, &wish, &run)) return NULL;
  }
  const bool is_usable = !MI_HAS_FENCE || mi_large_keep_fence(&run, plan);
  if (!is_usable || !mi_mark_begin_single(run.start + shift)) {
    mi_pagemap_slice(run.start)->is_charged = false;
    mi_run_release(heap, run.arena, run.start, slice_count, plan->alignment);
    return NULL;
  }
  mi_page_t* const page =
      mi_life_describe(run.start, slice_count, mi_large_interior(described_count));
  page->count = (mi_page_count_t){.used = 1};
  page->refilled.used = 2;
  page->reserved = (uint32_t)described_count;
  page->shift = shift;
  page->guarded = plan->guarded;
  page->cut = MI_CUT_NONE;
  const bool is_exact = plan->guarded != NULL || plan->is_slot;
  page->block_size = is_exact ? plan->size : mi_large_round(plan->size);
  page->size_class = (uint8_t)MI_CLASS_COUNT;
  page->is_zero = run.is_zero;
  page->is_resident = run.is_dirty;
  page->arena = run.arena;
  page->backing = mi_run_backing(&run);
  // Publishes the const fields of the heap and those above; pairs with the acquire in
  // `mi_walk_arenas`.
  mi_atomic_store_release(&page->heap, heap);
  if (!mi_run_enlist(heap, page)) {
    page->is_charged = false;
    mi_mark_end(page);
    mi_life_undescribe(page, mi_large_interior(page->reserved));
    mi_run_release(heap, run.arena, run.start, slice_count, plan->alignment);
    return NULL;
  }
  mi_life_be_single(page);
  if (charged < page->block_size) mi_large_charge(heap->subproc, page, charged);
  page->is_charged = true;
  if (run.arena != NULL) mi_charge_marks(run.arena, run.start + shift, 1);
  mi_large_count(heap, (int64_t)page->block_size);
  mi_tally_add(&heap->tally, MI_TALLY_LARGE_TOTAL, (int64_t)page->block_size);
  mi_tally_add(&heap->tally, MI_TALLY_LARGE_COUNT, 1);
  mi_probe2(large_make, page->start, page->block_size);
  return page;
}

// Give back the contents of whole OS pages of the block: LARGE-4. False if they are unchanged.
static bool mi_large_give_back(mi_page_t* page, uint8_t* start, size_t size) {
  if (page->arena == NULL) return mi_os_purge(start, size) == 0;
  mi_heap_t* const heap = mi_inside_enter(page); // and so its arenas stay
  const bool is_done = mi_purge_contents(page->arena, start, size);
  mi_inside_leave(heap);
  return is_done;
}

// What lies before the address that the program gets is not watched.
static mi_attr_noinline mi_zeroed_t mi_large_zeroed_shifted(size_t size) {
  return size >= MI_LARGE_GIVE_BACK_MIN && !MI_IS_TRACKED ? MI_ZEROED_ABSENT : MI_ZEROED_SHORT;
}

static mi_attr_inline mi_zeroed_t mi_large_zeroed(mi_heap_t* heap, size_t size, size_t shift,
                                                  mi_fill_t fill) {
  if (mi_likely(fill != MI_ZERO)) return MI_ZEROED_NONE;
  if (mi_unlikely(shift != 0)) return mi_large_zeroed_shifted(size);
  return mi_zeroed_choose(heap->subproc, mi_large_round(size));
}

// Return how many bytes went back.
static size_t mi_large_clear_range(mi_page_t* page, uint8_t* start, size_t size, bool is_absent) {
  mi_tool_open(start, size);
  if (is_absent && !MI_IS_TRACKED) { // tools must see what is written
    const size_t page_size = mi_state.os.page_size;
    uint8_t* const end = start + size;
    uint8_t* const first = (uint8_t*)mi_bits_align_up((uintptr_t)start, page_size);
    uint8_t* const last = (uint8_t*)mi_bits_align_down((uintptr_t)end, page_size);
    if (mi_large_give_back(page, first, (size_t)(last - first))) {
      memset(start, 0, (size_t)(first - start));
      memset(last, 0, (size_t)(end - last));
      return (size_t)(last - first);
    }
  }
  memset(start, 0, size);
  return 0;
}

MI_INTERNAL void mi_large_clear(mi_page_t* page, uint8_t* start, size_t size) {
  // It may be touched again: LARGE-5.
  mi_large_clear_range(page, start, size, size >= MI_LARGE_GIVE_BACK_MIN);
}

#if MI_IS_CLEARED
MI_INTERNAL mi_attr_noinline void mi_large_clear_freed(void* p, uint32_t was) {
  if (was != MI_MARK_SINGLE) {
    memset(p, 0, mi_mark_size(was));
    return;
  }
  mi_page_t* const page = mi_pagemap_find(p);
  const size_t size = page->block_size - page->shift;
  const bool is_absent = size >= MI_LARGE_GIVE_BACK_MIN;
  if (mi_unlikely(page->is_watched)) mi_zeroed_learn(page); // while its contents tell
  const size_t gone = mi_large_clear_range(page, (uint8_t*)p, size, is_absent);
  if (gone > 0 && page->arena != NULL) {
    const uintptr_t first = mi_bits_align_up((uintptr_t)p, mi_state.os.page_size);
    mi_charge_drop(page->arena, (const uint8_t*)first, gone);
    page->is_charged = false;
  }
}
#endif

static mi_attr_noinline void mi_large_make_zero(mi_page_t* page, mi_zeroed_t way) {
  if (!page->is_zero) {
    mi_large_clear_range(page, page->start, page->block_size, mi_zeroed_is_absent(way));
  }
  page->is_watched = mi_zeroed_is_watched(way);
}

static mi_attr_inline void mi_large_zero(mi_page_t* page, mi_zeroed_t way) {
  if (mi_unlikely(way != MI_ZEROED_NONE)) mi_large_make_zero(page, way);
}

MI_INTERNAL void* mi_large_alloc_shifted(mi_heap_t* heap, size_t size, size_t alignment,
                                         size_t shift, mi_fill_t fill) {
  if (size > MI_REQUEST_MAX - shift) return NULL;
  const mi_zeroed_t way = mi_large_zeroed(heap, size, shift, fill);
  const mi_large_plan_t plan = {.size = size + shift,
                                .alignment = alignment,
                                .shift = shift,
                                .touched = size + shift,
                                .is_absent = mi_zeroed_is_absent(way)};
  mi_page_t* const page = mi_large_make(heap, &plan);
  if (page == NULL) return NULL;
  mi_large_zero(page, way);
  mi_large_raise_fence(page);
  return page->start + shift;
}

MI_INTERNAL void* mi_large_alloc(mi_heap_t* heap, size_t size, size_t alignment, mi_fill_t fill) {
  return mi_large_alloc_shifted(heap, size, alignment, 0, fill);
}

MI_INTERNAL void* mi_large_alloc_growing(mi_heap_t* heap, size_t size, mi_fill_t fill) {
  if (size > MI_REQUEST_MAX - size / 8) return NULL;
  const mi_zeroed_t way = mi_large_zeroed(heap, size, 0, fill);
  const mi_large_plan_t plan = {.size = size,
                                .room = size + size / 8,
                                .alignment = MI_SLICE_SIZE,
                                .touched = size,
                                .is_absent = mi_zeroed_is_absent(way)};
  mi_page_t* const page = mi_large_make(heap, &plan);
  if (page == NULL) return NULL;
  mi_large_zero(page, way);
  mi_large_raise_fence(page);
  return page->start;
}

MI_INTERNAL void* mi_large_alloc_slot(mi_heap_t* heap, size_t size, mi_fill_t fill) {
  const mi_large_plan_t plan = {
      .size = size, .alignment = MI_SLICE_SIZE, .touched = size, .is_slot = true};
  mi_page_t* const page = mi_large_make(heap, &plan);
  if (page == NULL) return NULL;
  mi_large_zero(page, fill == MI_ZERO ? MI_ZEROED_SHORT : MI_ZEROED_NONE);
  return page->start;
}

MI_INTERNAL void mi_large_end(mi_page_t* page, size_t lost_count) {
  mi_heap_t* const heap = mi_inside_enter(page);
  const size_t left = page->slice_count - lost_count;
  mi_probe2(large_release, page->start, page->block_size);
  if (mi_unlikely(page->sampled != NULL)) mi_sampled_end(page->sampled);
  mi_mark_end(page);
  mi_life_undescribe(page, mi_large_interior(page->reserved));
  mi_run_delist(heap, page);
  mi_large_count(heap, -(int64_t)page->block_size);
  if (page->arena == NULL) {
    mi_charge_less(heap->subproc, mi_charge_round(page->block_size));
  }
  if (left > 0) mi_large_release(heap, page, lost_count, left, mi_large_alignment(page));
  if (mi_retain_bound(heap->subproc)) mi_self_hurry();
  mi_inside_leave(heap);
}

MI_INTERNAL void mi_large_free(mi_page_t* page, void* p) {
  if ((size_t)((uint8_t*)p - page->start) != page->shift) {
    mi_report(MI_ERROR_INTERIOR_POINTER, "free", p, page->block_size);
    return;
  }
  mi_track_drop(page);
  if (mi_unlikely(page->is_watched)) mi_zeroed_learn(page);
  const bool is_long = page->slice_count > MI_KEPT_SLICES_MAX;
  if (!MI_HAS_KEPT || is_long || !mi_large_keep(page)) mi_large_end(page, 0);
}

// A block shrank: what it leaves of the slices that it keeps goes back (TAIL-7).
static void mi_large_cut(mi_page_t* page, size_t old_size) {
  if (page->cut == MI_CUT_NEVER) return;
  page->cut = MI_CUT_DONE;
  const size_t end = mi_bits_min(old_size, page->slice_count * MI_SLICE_SIZE);
  const size_t start = page->block_size + mi_fence_room();
  if (MI_IS_TRACKED || page->arena == NULL || end <= start) return;
  mi_tail_cut(page->arena, page->start + start, end - start);
}

MI_INTERNAL bool mi_large_resize(mi_page_t* page, size_t size) {
  if (size > MI_REQUEST_MAX || page->guarded != NULL) return false;
  if (mi_unlikely(page->is_watched)) mi_zeroed_learn(page);
  const size_t old_size = page->block_size;
  mi_heap_t* const heap = mi_inside_enter(page);
  const bool is_done = mi_large_resize_in(heap, page, size);
  if (is_done && page->block_size < old_size) mi_large_cut(page, old_size);
  if (is_done && page->block_size > old_size && page->cut == MI_CUT_DONE) page->cut = MI_CUT_NEVER;
  mi_inside_leave(heap);
  return is_done;
}

MI_INTERNAL bool mi_large_is_ours(mi_page_t* page) {
  return page->arena == NULL || mi_arena_is_movable(page->arena);
}

// Note the mappings that a move made. A block in a mapping of its own keeps one mapping; in an
// arena the moved range is one more mapping until it is renewed, or several: from 6.17 on the
// kernel also moves ranges of several mappings, which stay apart.
static void mi_large_note_moved(const mi_page_t* from, const mi_page_t* to, size_t slice_count) {
  mi_arena_t* const arena = to->arena;
  mi_arena_t* const source = from->arena;
  if (arena == NULL) return;
  const size_t index = mi_arena_slice_of(arena, to->start);
  mi_move_note(arena, index, slice_count);
  if (source == NULL) return;
  const size_t first = mi_arena_slice_of(source, from->start);
  for (size_t k = 1; k < slice_count; k++) {
    if (mi_move_is_cut(source, first + k)) mi_move_note_cut(arena, index + k);
  }
}

MI_INTERNAL void* mi_large_move(mi_page_t* page, mi_heap_t* heap, size_t size) {
  if (size > MI_REQUEST_MAX - size / 8 || page->reserved != 1) return NULL;
  if (MI_IS_TRACKED) return NULL; // tools know nothing of mremap
  if (!mi_move_is_allowed(page->block_size)) return NULL;
  if (!mi_state.os.has_overcommit) return NULL; // both would be charged, and mprotect cuts mappings
  if (!mi_large_is_ours(page)) return NULL;
  // A block that grew once will grow again: room for an eighth more costs only addresses.
  const mi_large_plan_t plan = {.size = size, .room = size + size / 8, .alignment = MI_SLICE_SIZE};
  mi_page_t* const moved = mi_large_make(heap, &plan);
  if (moved == NULL) return NULL;
  // Move whole slices: later growth inside the last one must be in the same mapping.
  const size_t slice_count = mi_bits_divide_up(page->block_size, MI_SLICE_SIZE);
  const size_t bytes = slice_count * MI_SLICE_SIZE;
  if (!mi_large_is_ours(moved)) {
    mi_large_free(moved, moved->start);
    return NULL;
  }
  if (mi_unlikely(page->is_watched)) mi_zeroed_learn(page);
  if (moved->is_resident && bytes <= MI_LARGE_COPY_MAX) { // LARGE-6
    memcpy(moved->start, page->start, mi_bits_min(page->block_size, moved->block_size));
    mi_large_raise_fence(moved);
    mi_large_free(page, page->start);
    return moved->start;
  }
  // A fence would be moved along, or be lost with what is replaced.
  const bool is_open = mi_fence_drop(page) && mi_fence_drop(moved);
  const mi_move_t move =
      is_open ? mi_move_memory(heap->subproc, moved->arena, page->start, moved->start, bytes)
              : MI_MOVE_NONE;
  if (move != MI_MOVE_DONE) {
    mi_large_end(moved, move == MI_MOVE_LOST ? slice_count : 0);
    mi_large_resize(page, page->block_size); // raises the fence again
    return NULL;
  }
  mi_large_note_moved(page, moved, slice_count);
  mi_large_raise_fence(moved);
  if (page->arena != NULL) mi_charge_drop(page->arena, page->start, bytes);
  page->is_charged = false; // the old addresses have nothing now
  mi_large_free(page, page->start);
  return moved->start;
}
