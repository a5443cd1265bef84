// SPDX-License-Identifier: MIT
// collapse.c - policy: a chunk that was filled in small OS pages, and stays in use, is copied into
// one huge page.
//
// huge.c gives huge pages to fresh memory. A heap that grew while the host had none ready, or whose
// chunks went back in part, is in small pages for the rest of its life.
//
// For each chunk `filled` has a word with two bits for each of its slices:
//
//   bit k       new     wholly resident in small pages, as far as is known
//   bit 32 + k  old     it was so at an earlier look
//   only old            it is in a huge page, or was refused one
//   neither             nothing is known: the slice is free, or part of it may not be resident
//
//   neither -> new                 mi_collapse_note     the last blocks of a page were carved
//   new -> new and old             mi_collapse_step     a look finds all slices of the chunk marked
//   new and old -> only old        mi_collapse_step     a later look does: the chunk is collapsed
//   only old -> new                mi_collapse_split    other slices of the chunk go back
//   any -> neither                 mi_collapse_forget   the slice is released, or a fork
//
// COLLAPSE-1  a collapse makes nothing resident: all slices of the chunk belong to pages whose
//     blocks are all carved, and are no larger than an OS page, so that carving wrote to each OS
//     page. Chunks with blocks that are larger, or with room in a page, stay as they are.
// COLLAPSE-2  marks change by atomic operations on the word of the chunk, so that a look never
//     marks a slice that was released meanwhile.
// COLLAPSE-3  slices that are released during a collapse are not purged before its end, because the
//     purge lock is held; what was moved away meanwhile would be resident again, and waits for
//     purge then, as in HUGE-4.
// COLLAPSE-4  a look visits MI_COLLAPSE_CHUNKS chunks at most, where the last one stopped; looks
//     are MI_COLLAPSE_LOOK_MS apart, and two looks at a chunk MI_COLLAPSE_PASS_DELAYS times as long
//     as free memory waits (ten seconds), so that chunks are old, and the cost is the same in each
//     heap.
// COLLAPSE-5  collapsing takes one part in MI_COLLAPSE_PART of the time (a chunk takes 500 us where
//     the host has memory ready, and 5,500 where it has not), at once MI_COLLAPSE_BURST_US and one
//     more. All page faults of the process wait for it.
// COLLAPSE-6  after a failure, or a chunk that takes longer than MI_COLLAPSE_STALL_US (its memory
//     was in the swap), there is none for a second, twice as long each further time. If the first
//     one that was tried is refused as unknown, there are none for good.
// COLLAPSE-7  memory that is shared with the child of a fork, or its parent, is never collapsed: it
//     would be resident twice. Both forget all marks.
// COLLAPSE-8  nothing is collapsed before a huge page was seen (mi_os_has_huge_pages): the system
//     collapses memory also where its owner has forbidden huge pages.
// COLLAPSE-9  before part of such a chunk goes back, its huge page is split: the system would keep
//     all of it, and count it as used by the container, until memory is short, although it is not
//     resident any more (1,024 MiB of huge pages of which 1/32 stays: 1,026 MiB, 34 when split,
//     which takes 350 us for each).
//
// Called when slices are released (slices.c) and go back (purge.c), a page has been carved and at
// the cadence of a thread (refill.c), and after a fork (fork.c). Deliberately absent: large blocks,
// memory of the program, on a node or in explicit huge OS pages, and anything in a heap that is too
// small for huge.c.
#include "collapse.h"

#include <errno.h>

#include "bitmap.h"
#include "budget.h"
#include "charge.h"
#include "huge.h"
#include "wait.h"

#define MI_COLLAPSE_CHUNKS 64
#define MI_COLLAPSE_LOOK_MS 100
#define MI_COLLAPSE_PASS_DELAYS 10
#define MI_COLLAPSE_PASS_MS 10000 // if free memory waits for ever, or not at all
#define MI_COLLAPSE_PART 64
#define MI_COLLAPSE_BURST_US ((uint64_t)1000)
#define MI_COLLAPSE_STALL_US ((uint64_t)50000)
#define MI_COLLAPSE_PAUSE_US ((uint64_t)1000000)
#define MI_COLLAPSE_PAUSE_LOG2_MAX 12

#define MI_COLLAPSE_OLD_SHIFT 32
#define MI_COLLAPSE_ALL (((uint64_t)1 << MI_COLLAPSE_OLD_SHIFT) - 1)

mi_static_assert(MI_CHUNK_SLICES == MI_COLLAPSE_OLD_SHIFT, "a word has two bits for each slice");

MI_INTERNAL mi_attr_cold void mi_collapse_note(mi_subproc_t* subproc, const mi_page_t* page) {
  if (mi_atomic_load_relaxed(&subproc->count.committed) < MI_HUGE_HEAP_MIN) return;
  if (page->block_size > mi_state.os.page_size || MI_PAGE_FENCE_SIZE != 0) return; // COLLAPSE-1
  mi_arena_t* const arena = mi_arena_of(subproc, page->start);
  if (arena == NULL) return;
  size_t index = mi_arena_slice_of(arena, page->start);
  for (const size_t end = index + page->slice_count; index < end; index++) {
    const uint64_t bit = (uint64_t)1 << index % MI_CHUNK_SLICES;
    mi_atomic_or_relaxed(&arena->chunks[index / MI_CHUNK_SLICES].filled, bit);
  }
}

MI_INTERNAL void mi_collapse_forget(mi_arena_t* arena, size_t slice_index, size_t slice_count) {
  if (slice_count > MI_CLASS_SLICES_MAX) return; // a large block: without marks
  for (const size_t end = slice_index + slice_count; slice_index < end; slice_index++) {
    const size_t chunk = slice_index / MI_CHUNK_SLICES;
    if (mi_likely(mi_atomic_load_relaxed(&arena->chunks[chunk].filled) == 0)) continue;
    const uint64_t bit = (uint64_t)1 << slice_index % MI_CHUNK_SLICES;
    mi_atomic_and_relaxed(&arena->chunks[chunk].filled, ~(bit | bit << MI_COLLAPSE_OLD_SHIFT));
  }
}

MI_INTERNAL mi_attr_cold void mi_collapse_forget_all(mi_subproc_t* subproc) {
  MI_FOR_EACH_ARENA(subproc, arena) {
    const size_t chunks = mi_bits_divide_up(mi_arena_slices(arena), MI_CHUNK_SLICES);
    for (size_t i = 0; i < chunks; i++) {
      if (mi_atomic_load_relaxed(&arena->chunks[i].filled) == 0) continue;
      mi_atomic_store_relaxed(&arena->chunks[i].filled, 0);
    }
  }
}

// True if a word has slices of which only `old` is set.
static bool mi_collapse_has_old(uint64_t word) {
  return (word >> MI_COLLAPSE_OLD_SHIFT & ~word) != 0;
}

MI_INTERNAL bool mi_collapse_is_huge(const mi_arena_t* arena, size_t chunk) {
  return mi_collapse_has_old(mi_atomic_load_relaxed(&arena->chunks[chunk].filled));
}

// Split a chunk, if it is in a huge page, before slices of it up to `end` are purged.
static void mi_collapse_split_in(mi_arena_t* arena, size_t slice_index, size_t end) {
  mi_atomic(uint64_t)* const filled = &arena->chunks[slice_index / MI_CHUNK_SLICES].filled;
  uint64_t word = mi_atomic_load_relaxed(filled);
  if (mi_likely(!mi_collapse_has_old(word))) return;
  mi_os_split(arena->start + slice_index * MI_SLICE_SIZE, (end - slice_index) * MI_SLICE_SIZE);
  // The rest is resident in small pages.
  while (!mi_atomic_cas_weak_relaxed(filled, &word,
                                     (word | word >> MI_COLLAPSE_OLD_SHIFT) & MI_COLLAPSE_ALL)) {
  }
}

MI_INTERNAL void mi_collapse_split(mi_arena_t* arena, size_t slice_index, size_t slice_count) {
  // Chunks in the middle are free as a whole: they have no marks.
  const size_t end = slice_index + slice_count;
  const size_t last = mi_bits_align_down(end - 1, MI_CHUNK_SLICES);
  const size_t first_end = mi_bits_align_down(slice_index, MI_CHUNK_SLICES) + MI_CHUNK_SLICES;
  mi_collapse_split_in(arena, slice_index, mi_bits_min(first_end, end));
  if (last > slice_index) mi_collapse_split_in(arena, last, end);
}

// What a look found of a chunk.
typedef enum mi_collapse_age_e {
  MI_COLLAPSE_OTHER, // not all resident, or in a huge page already
  MI_COLLAPSE_NEW,
  MI_COLLAPSE_OLD,
} mi_collapse_age_t;

static mi_collapse_age_t mi_collapse_age(uint64_t word) {
  const uint64_t is_new = word & MI_COLLAPSE_ALL;
  const uint64_t is_old = word >> MI_COLLAPSE_OLD_SHIFT;
  if (is_new == 0 || (is_new | is_old) != MI_COLLAPSE_ALL) return MI_COLLAPSE_OTHER;
  return is_old == MI_COLLAPSE_ALL ? MI_COLLAPSE_OLD : MI_COLLAPSE_NEW;
}

// Copy an old chunk into a huge page. Under the purge lock.
static void mi_collapse_chunk(mi_arena_t* arena, size_t chunk) {
  mi_lock_expect(&mi_state.purge_lock);
  const size_t index = chunk * MI_CHUNK_SLICES;
  const uint64_t start = mi_os_now_us();
  const int err = mi_os_collapse(arena->start + index * MI_SLICE_SIZE, MI_CHUNK_SIZE);
  const uint64_t end = mi_os_now_us();
  if (err == 0) mi_charge_add(arena, arena->start + index * MI_SLICE_SIZE, MI_CHUNK_SIZE);
  mi_state.collapse_after_us += (end - start) * MI_COLLAPSE_PART;
  // Whatever came of it, it is not tried again before slices of the chunk are used anew.
  mi_atomic_and_relaxed(&arena->chunks[chunk].filled, ~MI_COLLAPSE_ALL);
  if (!mi_bitmap_is_all_clear(arena->free, index, MI_CHUNK_SLICES)) { // COLLAPSE-3
    mi_wait_mark(arena, index, MI_CHUNK_SLICES);
  }
  if (err == 0 && end - start <= MI_COLLAPSE_STALL_US) {
    mi_state.can_collapse = true;
    mi_state.collapse_failures = 0;
    return;
  }
  const uint32_t log2 = mi_state.collapse_failures++;
  const uint64_t pause = MI_COLLAPSE_PAUSE_US << mi_bits_min(log2, MI_COLLAPSE_PAUSE_LOG2_MAX);
  mi_state.collapse_after_us = end + pause;
  if (!mi_state.can_collapse && (err == EINVAL || err == ENOSYS)) {
    mi_atomic_store_relaxed(&mi_state.is_collapse_off, true);
  }
}

// True if the time that was spent is paid for: COLLAPSE-5.
static bool mi_collapse_may_go_on(void) {
  const uint64_t now = mi_os_now_us();
  const uint64_t most = MI_COLLAPSE_BURST_US * MI_COLLAPSE_PART;
  if (mi_state.collapse_after_us + most < now) mi_state.collapse_after_us = now - most;
  return mi_state.collapse_after_us < now;
}

// Look at a chunk. False if the look is over.
static bool mi_collapse_step(mi_arena_t* arena, size_t chunk) {
  uint64_t word = mi_atomic_load_relaxed(&arena->chunks[chunk].filled);
  if (mi_collapse_age(word) == MI_COLLAPSE_OTHER) return true;
  if (!mi_bitmap_is_all_clear(arena->moved, chunk * MI_CHUNK_SLICES, MI_CHUNK_SLICES)) return true;
  while (mi_collapse_age(word) == MI_COLLAPSE_NEW) {
    const uint64_t old = word | MI_COLLAPSE_ALL << MI_COLLAPSE_OLD_SHIFT;
    if (mi_atomic_cas_weak_relaxed(&arena->chunks[chunk].filled, &word, old)) return true;
  }
  if (mi_collapse_age(word) != MI_COLLAPSE_OLD) return true;
  if (mi_atomic_load_relaxed(&mi_state.is_collapse_off) || !mi_collapse_may_go_on()) return false;
  mi_collapse_chunk(arena, chunk);
  return true;
}

// The arena at which the last look stopped, NULL if it was the last one. Under the purge lock.
static mi_arena_t* mi_collapse_next_arena(mi_subproc_t* subproc) {
  mi_lock_expect(&mi_state.purge_lock);
  size_t i = 0;
  MI_FOR_EACH_ARENA(subproc, arena) {
    if (i++ < subproc->collapse_arena) continue;
    const bool is_ours = mi_arena_is_movable(arena);
    if (is_ours && subproc->collapse_chunk < mi_arena_slices(arena) / MI_CHUNK_SLICES) return arena;
    subproc->collapse_arena++;
    subproc->collapse_chunk = 0;
  }
  return NULL;
}

// Return how far apart two looks at a chunk are: COLLAPSE-4.
static uint64_t mi_collapse_pass_ms(void) {
  const long delay = mi_wait_delay_ms();
  if (delay <= 0) return MI_COLLAPSE_PASS_MS;
  return (uint64_t)mi_bits_min((size_t)delay, SIZE_MAX / MI_COLLAPSE_PASS_DELAYS) *
         MI_COLLAPSE_PASS_DELAYS;
}

// Under the purge lock.
static mi_attr_cold void mi_collapse_look(mi_subproc_t* subproc, uint64_t now_ms) {
  mi_lock_expect(&mi_state.purge_lock);
  if (subproc->collapse_arena == 0 && subproc->collapse_chunk == 0) {
    subproc->collapse_pass_ms = now_ms;
  }
  uint64_t due = now_ms + MI_COLLAPSE_LOOK_MS;
  for (size_t i = 0; i < MI_COLLAPSE_CHUNKS; i++) {
    mi_arena_t* const arena = mi_collapse_next_arena(subproc);
    if (arena == NULL) {
      subproc->collapse_arena = 0;
      const uint64_t next = subproc->collapse_pass_ms + mi_collapse_pass_ms();
      if (next > due) due = next;
      break;
    }
    if (!mi_collapse_step(arena, subproc->collapse_chunk)) break;
    subproc->collapse_chunk++;
  }
  mi_atomic_store_relaxed(&subproc->collapse_due_ms, due);
}

MI_INTERNAL void mi_collapse_poll(mi_subproc_t* subproc, uint64_t now_ms) {
  if (mi_likely(mi_atomic_load_relaxed(&subproc->count.committed) < MI_HUGE_HEAP_MIN) ||
      now_ms < mi_atomic_load_relaxed(&subproc->collapse_due_ms)) {
    return;
  }
  if (mi_option_value(allow_thp) != 1 || mi_state.os.huge_page_size != MI_CHUNK_SIZE ||
      mi_atomic_load_relaxed(&mi_state.is_collapse_off) || !mi_os_has_huge_pages() ||
      mi_budget_is_short(subproc) || // BUDGET-2
      !mi_lock_try_enter(&mi_state.purge_lock)) {
    return;
  }
  mi_collapse_look(subproc, now_ms);
  mi_lock_leave(&mi_state.purge_lock);
}
