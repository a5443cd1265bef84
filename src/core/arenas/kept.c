// SPDX-License-Identifier: MIT
// kept.c - the large block that a thread freed last, kept for its next one of about that size.
//
//   home->kept --> a slot of its sub-process | run of the block, 0 none | its bytes | figures |
//
//   [ block of 20 slices, kept ]  -- 14 are wanted -->  [ block of 14, in use | rest of 6, kept ]
//                                 <-- it is freed ----
//
// What a large block changes when it is made and when it ends are figures of the heap and of the
// sub-process, and the run that spare.c keeps for all: cache lines that all threads write. A thread
// that takes and frees a buffer again and again changes only its own slot (a pair of 1 MiB beside a
// second thread: 19 ns, 65 without, and 250 to 330 if that thread does the same on another core).
//
// KEPT-1  a kept block is a page of the main heap of its thread's sub-process, at most
//     MI_KEPT_SLICES_MAX slices of an arena which any heap may use. Its one descriptor stays as it
//     was, but for the owner word, which is MI_OWNER_NONE: nobody finds the block, and a second
//     free of it is seen. Its slices, its charge and its bytes count as in use until it is
//     released; mi_kept_count corrects what a user sees. (So a block is not kept whose memory was
//     moved to another: it is not charged, and would be used again without.)
// KEPT-2  only the thread that has a slot puts a block there. Any thread takes one out by an
//     exchange, and then owns the block. (Slots are never freed.)
// KEPT-3  a thread releases what it keeps before it claims slices (slices.c), or takes a large
//     block that the kept one does not serve (large.c): no arena grows because the thread itself
//     keeps a block.
// KEPT-4  what stays in a slot from the end of one period (retain.c) to that of the next goes back
//     to the system then; where all unused memory is asked for, all that is kept goes (purge.c).
//     The purge thread runs while a slot may have a block: `kept_any`.
// KEPT-5  MI_KEPT_SLOTS threads of the main sub-process have a slot, and what they may keep is
//     MI_KEPT_TOTAL_MIN and 1/8 of what is in use, together; what else is freed goes to spare.c at
//     once. A thread gets room for its largest block, until nothing is kept for two periods: so the
//     sum is not written with each block. (Without that bound 30 threads that used 4 MiB each, one
//     after the other, kept 120 MiB for a second.)
// KEPT-6  each MI_KEPT_TURNS-th free that keeps a block looks at the bounds of what waits, as other
//     frees of large blocks do (RETAIN-4): or a program that does nothing else would keep what it
//     freed before (large.c).
// KEPT-7  a shorter block takes the first slices of the kept one. The rest stays in the slot, and
//     is kept as a block is: the descriptor of its first slice says what KEPT-1 says, and its bytes
//     are those by which the block became shorter. If the thread frees the block while the rest is
//     there, the two are one again. So no map of an arena changes while a thread takes and frees
//     buffers of similar sizes (1 to 2 MiB: 1,041 instructions a pair without).
//
// A block of the same size is handed out with no more than an exchange and two figures
// (mi_large_alloc_kept): a pair of 1 MiB takes 230 instructions, 370 through all of slow.c.
//
// A fork may lose the block that another thread has just taken out: it stays in use in the child,
// as blocks do which that thread held.
#include "kept.h"

#include "bitmap.h"
#include "wait.h"

#define MI_KEPT_TOTAL_MIN ((int64_t)(128 * MI_SLICE_SIZE))
#define MI_KEPT_TOTAL_PART 3 // of what is in use, as a shift: an eighth

MI_INTERNAL_DATA mi_kept_t mi_kept_main[MI_KEPT_SLOTS] mi_attr_sparse;

#define MI_FOR_EACH_KEPT(subproc, name)                                                            \
  for (mi_kept_t* name = (subproc)->kept; name != NULL && name < (subproc)->kept + MI_KEPT_SLOTS;  \
       name++)

// The main heap of the sub-process that a home belongs to; MI_HEAP_GONE where there is no thread.
static mi_heap_t* mi_kept_heap(const mi_theap_t* home) {
  return mi_atomic_load_relaxed(&home->heap);
}

static mi_page_t* mi_kept_page(uint64_t word) { return mi_pagemap_slice(mi_spare_start(word)); }

// Put a block into the slot of the calling thread; returns the one that was there.
static uint64_t mi_kept_swap(mi_kept_t* kept, uint64_t word) {
  const uint64_t old = mi_atomic_load_relaxed(&kept->kept_run);
  if (mi_os_is_single_threaded()) {
    mi_atomic_store_relaxed(&kept->kept_run, word);
    return old;
  }
  if (mi_likely(old == MI_SPARE_NONE)) { // and nobody else puts one there: KEPT-2
    // Publishes the block; pairs with `mi_kept_take`.
    mi_atomic_store_release(&kept->kept_run, word);
    return old;
  }
  // Publishes the block, and sees the old one as the thread left it; pairs with `mi_kept_take`.
  return mi_atomic_swap_acq_rel(&kept->kept_run, word);
}

// Take this block out, unless another thread did.
static bool mi_kept_take(mi_kept_t* kept, uint64_t word) {
  if (mi_os_is_single_threaded()) {
    mi_atomic_store_relaxed(&kept->kept_run, MI_SPARE_NONE);
    return true;
  }
  // Sees the block as its thread left it; pairs with `mi_kept_swap`.
  return mi_atomic_cas_strong_acquire(&kept->kept_run, &word, MI_SPARE_NONE);
}

MI_INTERNAL void mi_kept_uncount(mi_subproc_t* subproc, const mi_page_t* page) {
  mi_count_add(&subproc->count.large, -(int64_t)page->block_size);
  mi_tally_add(&subproc->heap_main.tally, MI_TALLY_LARGE, -(int64_t)page->block_size);
}

// Release a block that the caller took out. Its slices wait from now on, or since a period.
static void mi_kept_end(mi_subproc_t* subproc, const mi_page_t* page, bool is_old) {
  const size_t index = mi_arena_slice_of(page->arena, page->start);
  mi_kept_uncount(subproc, page);
  if (is_old) {
    mi_wait_release_old(page->arena, index, page->slice_count);
  } else {
    mi_wait_release(page->arena, index, page->slice_count);
  }
}

// Take a slot for a thread that has none: KEPT-5. False if there is none left.
static mi_attr_cold bool mi_kept_join(mi_theap_t* home) {
  mi_subproc_t* const subproc = mi_kept_heap(home)->subproc;
  if (subproc->kept == NULL) return false;
  uint32_t slots = mi_atomic_load_relaxed(&subproc->kept_slots);
  while (slots != UINT32_MAX) {
    const size_t free_slot = mi_bits_trailing_zeros(~slots);
    // Sees that the slot is empty; pairs with the release in `mi_kept_leave`.
    if (mi_atomic_cas_weak_acquire(&subproc->kept_slots, &slots,
                                   slots | (uint32_t)1 << free_slot)) {
      home->kept = &subproc->kept[free_slot];
      return true;
    }
  }
  return false;
}

// Get room for `bytes` more: KEPT-5. False if that is too much.
static mi_attr_noinline bool mi_kept_reserve(mi_subproc_t* subproc, mi_kept_t* kept,
                                             int64_t bytes) {
  const int64_t in_use = mi_atomic_load_relaxed(&subproc->count.committed) -
                         mi_atomic_load_relaxed(&subproc->purge_waiting);
  const int64_t most = MI_KEPT_TOTAL_MIN + (in_use > 0 ? in_use >> MI_KEPT_TOTAL_PART : 0);
  if (mi_atomic_load_relaxed(&subproc->kept_total) + bytes > most) return false;
  mi_count_add(&subproc->kept_total, bytes);
  mi_atomic_add_relaxed(&kept->kept_room, bytes);
  return true;
}

static void mi_kept_give_back(mi_subproc_t* subproc, mi_kept_t* kept) {
  if (mi_atomic_load_relaxed(&kept->kept_room) == 0) return;
  mi_count_add(&subproc->kept_total, -mi_atomic_swap_relaxed(&kept->kept_room, 0));
}

MI_INTERNAL void mi_kept_cut(mi_theap_t* home, mi_page_t* page, size_t slice_count, size_t size) {
  uint8_t* const start = page->start + slice_count * MI_SLICE_SIZE;
  mi_page_t* const rest = mi_pagemap_slice(start);
  mi_assert(mi_atomic_load_relaxed(&home->kept->kept_run) == MI_SPARE_NONE);
  mi_assert(slice_count < page->slice_count && size < page->block_size);
  rest->start = start;
  rest->slice_count = page->slice_count - (uint32_t)slice_count;
  rest->block_size = page->block_size - size;
  rest->arena = page->arena;
  rest->reserved = 0; // mi_kept_is_rest
  rest->shift = 0;
  rest->is_charged = false; // a block that begins there is charged as a whole
  mi_atomic_store_relaxed(&rest->heap, mi_kept_heap(home));
  page->slice_count = (uint32_t)slice_count;
  page->block_size = size;
  mi_kept_put(home, rest); // where nothing is
}

// A block is freed, and a rest is kept: KEPT-7. It need not be the rest of this block, but of one
// in the same arena.
static mi_attr_noinline void mi_kept_mend(mi_kept_t* kept, mi_page_t* page) {
  const uint64_t word = mi_atomic_load_relaxed(&kept->kept_run);
  const size_t slice_count = page->slice_count + mi_spare_count(word);
  if (word == MI_SPARE_NONE || slice_count > MI_KEPT_SLICES_MAX) return;
  if (mi_spare_start(word) != page->start + page->slice_count * MI_SLICE_SIZE) return;
  if (!mi_kept_take(kept, word)) return;
  page->slice_count = (uint32_t)slice_count;
  page->block_size += mi_kept_page(word)->block_size;
}

MI_INTERNAL bool mi_kept_may_keep(mi_theap_t* home, mi_page_t* page) {
  const mi_arena_t* const arena = page->arena;
  if (home->thread_id == 0) return false;
  if (mi_atomic_load_relaxed(&page->heap) != mi_kept_heap(home)) return false;
  if (arena == NULL || arena->is_exclusive || arena->is_pinned) return false;
  if (mi_wait_delay_ms() == 0) return false;
  if (mi_unlikely(home->kept == NULL) && !mi_kept_join(home)) return false;
  if (home->kept->is_rest) mi_kept_mend(home->kept, page);
  const int64_t more = (int64_t)page->block_size - mi_atomic_load_relaxed(&home->kept->kept_room);
  return mi_likely(more <= 0) || mi_kept_reserve(arena->subproc, home->kept, more);
}

MI_INTERNAL mi_page_t* mi_kept_put(mi_theap_t* home, const mi_page_t* page) {
  mi_subproc_t* const subproc = page->arena->subproc;
  mi_kept_t* const kept = home->kept;
  mi_atomic_store_relaxed(&kept->kept_bytes, (int64_t)page->block_size);
  kept->is_rest = mi_kept_is_rest(page);
  const uint64_t old = mi_kept_swap(kept, mi_spare_word(page->start, page->slice_count));
  if (mi_atomic_load_relaxed(&subproc->kept_any) != MI_KEPT_SOME) {
    mi_atomic_store_relaxed(&subproc->kept_any, MI_KEPT_SOME);
  }
  mi_wait_notice();
  return mi_likely(old == MI_SPARE_NONE) ? NULL : mi_kept_page(old);
}

MI_INTERNAL mi_page_t* mi_kept_get(mi_theap_t* home) {
  mi_kept_t* const kept = home->kept;
  if (kept == NULL) return NULL;
  const uint64_t word = mi_atomic_load_relaxed(&kept->kept_run);
  if (word == MI_SPARE_NONE || !mi_kept_take(kept, word)) return NULL;
  return mi_kept_page(word);
}

MI_INTERNAL void mi_kept_note_again(mi_theap_t* home, size_t size) {
  mi_kept_t* const kept = home->kept;
  const int64_t bytes = mi_atomic_load_relaxed(&kept->again_bytes) + (int64_t)size;
  const int64_t count = mi_atomic_load_relaxed(&kept->again_count) + 1;
  mi_atomic_store_relaxed(&kept->again_bytes, bytes);
  mi_atomic_store_relaxed(&kept->again_count, count);
}

MI_INTERNAL void mi_kept_release(mi_theap_t* home) {
  const mi_page_t* const page = mi_kept_get(home);
  if (page != NULL) mi_kept_end(page->arena->subproc, page, false);
}

// Add what the thread of a slot took again to the figures of the heap.
static void mi_kept_settle(mi_subproc_t* subproc, mi_kept_t* kept) {
  mi_tally_t* const tally = &subproc->heap_main.tally;
  mi_tally_add(tally, MI_TALLY_LARGE_TOTAL, mi_atomic_load_relaxed(&kept->again_bytes));
  mi_tally_add(tally, MI_TALLY_LARGE_COUNT, mi_atomic_load_relaxed(&kept->again_count));
  mi_atomic_store_relaxed(&kept->again_bytes, 0);
  mi_atomic_store_relaxed(&kept->again_count, 0);
}

MI_INTERNAL void mi_kept_leave(mi_theap_t* home) {
  mi_kept_t* const kept = home->kept;
  if (kept == NULL) return;
  mi_subproc_t* const subproc = mi_kept_heap(home)->subproc;
  mi_kept_release(home);
  mi_kept_give_back(subproc, kept);
  mi_kept_settle(subproc, kept);
  home->kept = NULL;
  uint32_t slots = mi_atomic_load_relaxed(&subproc->kept_slots);
  const uint32_t bit = (uint32_t)1 << (kept - subproc->kept);
  // Publishes that the slot is empty; pairs with the acquire in `mi_kept_join`.
  while (!mi_atomic_cas_weak_release(&subproc->kept_slots, &slots, slots & ~bit)) {
  }
}

MI_INTERNAL void mi_kept_age(mi_subproc_t* subproc) {
  const uint32_t before = mi_atomic_load_relaxed(&subproc->kept_any);
  if (!MI_HAS_KEPT || before == MI_KEPT_NONE) return;
  mi_atomic_store_relaxed(&subproc->kept_any, before == MI_KEPT_SOME ? MI_KEPT_FEW : MI_KEPT_NONE);
  MI_FOR_EACH_KEPT(subproc, kept) {
    const uint64_t word = mi_atomic_load_relaxed(&kept->kept_run);
    const bool is_old = word != MI_SPARE_NONE && word == mi_atomic_load_relaxed(&kept->kept_seen);
    if (is_old && mi_kept_take(kept, word)) mi_kept_end(subproc, mi_kept_page(word), true);
    const bool is_empty = word == mi_atomic_load_relaxed(&kept->kept_seen); // at both ends, or now
    if (is_empty) mi_kept_give_back(subproc, kept);
    mi_atomic_store_relaxed(&kept->kept_seen, is_old ? MI_SPARE_NONE : word);
    if (word != MI_SPARE_NONE) mi_atomic_store_relaxed(&subproc->kept_any, MI_KEPT_SOME);
  }
}

// Release what any thread keeps in a slot, and the room for it.
static void mi_kept_empty(mi_subproc_t* subproc, mi_kept_t* kept) {
  const uint64_t word = mi_atomic_load_relaxed(&kept->kept_run);
  if (word != MI_SPARE_NONE && mi_kept_take(kept, word)) {
    mi_kept_end(subproc, mi_kept_page(word), false);
  }
  mi_kept_give_back(subproc, kept);
}

MI_INTERNAL mi_attr_cold void mi_kept_release_all(mi_subproc_t* subproc) {
  if (mi_kept_has_any(subproc)) {
    MI_FOR_EACH_KEPT(subproc, kept) { mi_kept_empty(subproc, kept); }
  }
  mi_spare_release(subproc);
}

MI_INTERNAL void mi_kept_keep_own(mi_subproc_t* subproc, const mi_theap_t* own) {
  uint32_t slots = 0;
  MI_FOR_EACH_KEPT(subproc, kept) {
    if (kept == own->kept) {
      slots = (uint32_t)1 << (kept - subproc->kept);
    } else {
      mi_kept_empty(subproc, kept);
      mi_kept_settle(subproc, kept);
    }
  }
  mi_atomic_store_relaxed(&subproc->kept_slots, slots);
}

MI_INTERNAL void mi_kept_done(void) {
  for (size_t i = 0; i < MI_KEPT_SLOTS; i++) mi_kept_main[i] = (mi_kept_t){0};
}

MI_INTERNAL int64_t mi_kept_count(mi_subproc_t* subproc, mi_tally_t* sum) {
  int64_t bytes = 0;
  MI_FOR_EACH_KEPT(subproc, kept) {
    if (mi_atomic_load_relaxed(&kept->kept_run) != MI_SPARE_NONE) {
      bytes += mi_atomic_load_relaxed(&kept->kept_bytes);
    }
    if (sum == NULL) continue;
    mi_count_add(&sum->amount[MI_TALLY_LARGE_TOTAL], mi_atomic_load_relaxed(&kept->again_bytes));
    mi_count_add(&sum->amount[MI_TALLY_LARGE_COUNT], mi_atomic_load_relaxed(&kept->again_count));
  }
  if (sum != NULL) mi_count_add(&sum->amount[MI_TALLY_LARGE], -bytes);
  return bytes;
}

MI_INTERNAL bool mi_kept_is_valid(mi_subproc_t* subproc, size_t* slice_count) {
  *slice_count = 0;
  MI_FOR_EACH_KEPT(subproc, kept) {
    const size_t i = (size_t)(kept - subproc->kept);
    const uint64_t word = mi_atomic_load_relaxed(&kept->kept_run);
    if (word == MI_SPARE_NONE) continue;
    mi_page_t* const page = mi_kept_page(word);
    const size_t count = mi_spare_count(word);
    mi_arena_t* const arena = mi_arena_of(subproc, page->start);
    const bool is_known = page->start == mi_spare_start(word) && page->slice_count == count &&
                          page->arena == arena && arena != NULL && page->shift == 0 &&
                          page->is_charged != mi_kept_is_rest(page);
    if (!is_known || (mi_atomic_load_relaxed(&subproc->kept_slots) >> i & 1) == 0) return false;
    const size_t index = mi_arena_slice_of(arena, page->start);
    if (mi_atomic_load_relaxed(&page->owner) != MI_OWNER_NONE || arena->is_exclusive ||
        mi_atomic_load_relaxed(&page->heap) != &subproc->heap_main ||
        !mi_bitmap_is_all_clear(arena->free, index, count)) {
      return false;
    }
    *slice_count += count;
  }
  return true;
}
