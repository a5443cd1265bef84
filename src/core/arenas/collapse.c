// SPDX-License-Identifier: MIT
// collapse.c - policy: a chunk that was filled in small OS pages, and stays in use, is copied into
// one huge page.
//
// huge.c gives huge pages to fresh memory, and only to small blocks. A heap that grew while the
// host had none ready, whose chunks went back in part, or that has large blocks, is in small pages
// for the rest of its life.
//
// For each chunk `filled` has a word:
//
//   bit k   the slice is wholly resident: all blocks of its page were carved
//   SEEN    an earlier look found the chunk full, and nothing of it went back since
//   HUGE    it is in a huge page, or was refused one
//   SHARED  part of it was resident at a fork: COLLAPSE-7
//   AGAIN   it was shared: its huge page, if it has one, may have been split
//
//   bit k set             mi_collapse_note        the last blocks of a page were carved
//   SEEN set              mi_collapse_step        a look finds the chunk full
//   HUGE set, AGAIN off   mi_collapse_chunk       a later look does: the chunk is collapsed
//   all but SHARED off    mi_collapse_split       slices go back: their bits, and what holds for
//                                                 all; if it is the whole chunk, SHARED off, too
//   SHARED set, all k off mi_collapse_fork_share  a fork
//   SHARED off, AGAIN set mi_collapse_unshare     all processes that shared it are gone
//
// COLLAPSE-1  a collapse makes hardly anything resident. All slices of the chunk are in use, and
//     dirty. Those of pages whose blocks are all carved, and are no larger than an OS page, have
//     their bit: carving wrote to each OS page. Of each other slice MI_COLLAPSE_SAMPLES OS pages
//     are looked at, always the same: what holds anything but zeros in one of MI_COLLAPSE_PLACES
//     places is resident. (Of a thousand chunks a twentieth of which is absent, 40 pass, of those
//     with a tenth one. Of chunks in which all but an eighth of the words are zeros 400 pass.) The
//     kernel reads the words, since the program may have made its memory inaccessible.
// COLLAPSE-2  marks change by atomic operations on the word of the chunk, so that a look never
//     marks a slice that went back meanwhile. (What a thread gives back of its own block just while
//     the chunk is collapsed may be resident again: at most the chunk.)
// COLLAPSE-3  slices that are released during a collapse are not purged before its end, because the
//     purge lock is held; what was moved away meanwhile would be resident again, and waits for
//     purge then, as in HUGE-4.
// COLLAPSE-4  a look visits MI_COLLAPSE_CHUNKS chunks at most, where the last one stopped; looks
//     are MI_COLLAPSE_LOOK_MS apart, and from the end of a pass over all chunks to the next one it
//     takes MI_COLLAPSE_PASS_DELAYS times as long as free memory waits (ten seconds), so that
//     chunks are old, and the cost is the same in each heap. The first pass comes as long after the
//     heap has become large: most programs end before. After a pass that found nothing new it takes
//     twice as long, up to 2^MI_COLLAPSE_QUIET_MAX times; after so many, the purge thread leaves it
//     to threads that allocate, so that it does not wake an idle machine.
// COLLAPSE-5  collapsing takes one part in MI_COLLAPSE_PART of the time (a chunk takes 500 us where
//     the host has memory ready, and 5,500 where it has not), at once MI_COLLAPSE_BURST_US and one
//     more. All page faults of the process wait for it. The samples count as well (20 us).
// COLLAPSE-6  after a failure, or a chunk that takes longer than MI_COLLAPSE_STALL_US, or samples
//     that take longer than MI_COLLAPSE_SAMPLE_STALL_US (memory was in the swap), there is none for
//     a second, twice as long each further time. A chunk that is refused as such (it has a fence,
//     the program made part of it inaccessible, or the system does not know the call) is not tried
//     again, and there is none for a second.
// COLLAPSE-7  chunks that are shared with the child of a fork, or its parent, are not collapsed:
//     they would be resident twice. In the parent they may be after a pass that began when all
//     processes were gone that may share them (os.h, a family; a program that saves a snapshot in a
//     child, again and again); a pass begins anew at a fork. The system has split the huge pages
//     that were written to meanwhile. Which ones, is not known, so that all are collapsed again
//     (for one that is huge it is a call that does nothing). In the child, and where there is no
//     such family, chunks stay shared until they have gone back as a whole. A slice that is carved
//     after the fork is its process's own, and so is a chunk of such slices. (What a process shared
//     with children that it forked while its heap was small may be collapsed.)
// COLLAPSE-8  nothing is collapsed before a huge page was seen (mi_os_has_huge_pages): the system
//     collapses memory also where its owner has forbidden huge pages. If huge.c saw none, because a
//     heap has large blocks only, one is mapped for that.
// COLLAPSE-9  before part of such a chunk goes back, its huge page is split: the system would keep
//     all of it, and count it as used by the container, until memory is short, although it is not
//     resident any more (1,024 MiB of huge pages of which 1/32 stays: 1,026 MiB, 34 when split,
//     which takes 350 us for each).
//
// Called when contents go back (purge.c, page.c), a page has been carved and at the cadence of a
// thread (refill.c), by the purge thread (purger.c), and around a fork (fork.c). Deliberately
// absent: memory of the program, on a node or in explicit huge OS pages, blocks outside of arenas,
// and anything in a heap that is too small for huge.c.
#include "collapse.h"

#include <errno.h>

#include "bitmap.h"
#include "budget.h"
#include "charge.h"
#include "wait.h"

#define MI_COLLAPSE_CHUNKS 64
#define MI_COLLAPSE_LOOK_MS 100
#define MI_COLLAPSE_PASS_DELAYS 10
#define MI_COLLAPSE_QUIET_MAX ((uint32_t)4)
#define MI_COLLAPSE_PASS_MS 10000 // if free memory waits for ever, or not at all
#define MI_COLLAPSE_PART 64
#define MI_COLLAPSE_BURST_US ((uint64_t)1000)
#define MI_COLLAPSE_STALL_US ((uint64_t)50000)
#define MI_COLLAPSE_SAMPLE_STALL_US ((uint64_t)2000)
#define MI_COLLAPSE_PAUSE_US ((uint64_t)1000000)
#define MI_COLLAPSE_PAUSE_LOG2_MAX 12

// COLLAPSE-1: OS pages of a slice.
#define MI_COLLAPSE_SAMPLES ((size_t)2)

#define MI_COLLAPSE_CARVED (((uint64_t)1 << MI_CHUNK_SLICES) - 1)
#define MI_COLLAPSE_SEEN ((uint64_t)1 << 32)
#define MI_COLLAPSE_HUGE ((uint64_t)1 << 33)
#define MI_COLLAPSE_SHARED ((uint64_t)1 << 34)
#define MI_COLLAPSE_AGAIN ((uint64_t)1 << 35)
#define MI_COLLAPSE_WHOLE (MI_COLLAPSE_SEEN | MI_COLLAPSE_HUGE | MI_COLLAPSE_AGAIN)

mi_static_assert(MI_CHUNK_SLICES == 32, "the lower half of a word has a bit for each slice");

MI_INTERNAL mi_attr_cold void mi_collapse_note(mi_subproc_t* subproc, const mi_page_t* page) {
  if (!mi_collapse_is_large(subproc)) return;
  if (page->block_size > mi_state.os.page_size || MI_PAGE_FENCE_SIZE != 0) return; // COLLAPSE-1
  mi_arena_t* const arena = mi_arena_of(subproc, page->start);
  if (arena == NULL) return;
  size_t index = mi_arena_slice_of(arena, page->start);
  for (const size_t end = index + page->slice_count; index < end; index++) {
    const uint64_t bit = (uint64_t)1 << index % MI_CHUNK_SLICES;
    mi_atomic_or_relaxed(&arena->chunks[index / MI_CHUNK_SLICES].filled, bit);
  }
}

static inline bool mi_collapse_is_on(void) {
  return mi_option_value(allow_thp) == 1 && mi_state.os.huge_page_size == MI_CHUNK_SIZE;
}

// Return how far apart two looks at a chunk are at least: COLLAPSE-4.
static uint64_t mi_collapse_pass_ms(void) {
  const long delay = mi_wait_delay_ms();
  if (delay <= 0) return MI_COLLAPSE_PASS_MS;
  const size_t most = SIZE_MAX >> MI_COLLAPSE_QUIET_MAX;
  return (uint64_t)mi_bits_min((size_t)delay, most / MI_COLLAPSE_PASS_DELAYS) *
         MI_COLLAPSE_PASS_DELAYS;
}

// -- a fork: COLLAPSE-7 --

MI_INTERNAL mi_attr_cold void mi_collapse_fork_prepare(mi_subproc_t* subproc) {
  mi_lock_expect(&mi_state.purge_lock);
  if (mi_state.family != NULL || !mi_collapse_is_large(subproc) || !mi_collapse_is_on()) return;
  mi_state.family = mi_os_family_create();
  mi_state.is_family_ours = true;
}

MI_INTERNAL mi_attr_cold void mi_collapse_fork_join(void) {
  mi_state.is_family_ours = false;
  if (mi_state.family != NULL) mi_os_family_join(mi_state.family);
}

MI_INTERNAL mi_attr_cold void mi_collapse_fork_share(mi_subproc_t* subproc) {
  if (!MI_HAS_COLLAPSE) return;
  MI_FOR_EACH_ARENA(subproc, arena) {
    const size_t used_end = mi_atomic_load_relaxed(&arena->used_end);
    const size_t chunks = mi_bits_divide_up(used_end, MI_CHUNK_SLICES);
    for (size_t i = 0; i < chunks; i++) {
      const size_t index = i * MI_CHUNK_SLICES;
      if (mi_bitmap_is_all_clear(arena->dirty, index, MI_CHUNK_SLICES)) continue;
      mi_atomic_or_relaxed(&arena->chunks[i].filled, MI_COLLAPSE_SHARED);
      mi_atomic_and_relaxed(&arena->chunks[i].filled, ~MI_COLLAPSE_CARVED);
    }
  }
  // The pass begins anew.
  subproc->collapse_arena = 0;
  subproc->collapse_chunk = 0;
  mi_atomic_store_relaxed(&subproc->collapse_quiet, 0);
  if (mi_atomic_load_relaxed(&subproc->collapse_due_ms) == 0) return;
  mi_atomic_store_relaxed(&subproc->collapse_due_ms, mi_os_now_ms() + mi_collapse_pass_ms());
}

MI_INTERNAL void mi_collapse_done(void) {
  if (mi_state.family != NULL && mi_state.is_family_ours) mi_os_family_end(mi_state.family);
}

// True if nobody shares memory of this process any more, so far as is known.
static bool mi_collapse_is_alone(void) {
  return mi_state.family != NULL && mi_state.is_family_ours &&
         mi_os_family_is_alone(mi_state.family);
}

MI_INTERNAL bool mi_collapse_is_huge(const mi_arena_t* arena, size_t chunk) {
  return MI_HAS_COLLAPSE &&
         (mi_atomic_load_relaxed(&arena->chunks[chunk].filled) & MI_COLLAPSE_HUGE) != 0;
}

// Slices of a chunk go back.
static void mi_collapse_split_in(mi_arena_t* arena, size_t chunk, size_t first, size_t end) {
  mi_atomic(uint64_t)* const filled = &arena->chunks[chunk].filled;
  if (mi_likely(mi_atomic_load_relaxed(filled) == 0)) return;
  if (end - first == MI_CHUNK_SLICES) {
    mi_atomic_store_relaxed(filled, 0);
    return;
  }
  if (mi_collapse_is_huge(arena, chunk)) {
    mi_os_split(arena->start + (chunk * MI_CHUNK_SLICES + first) * MI_SLICE_SIZE,
                (end - first) * MI_SLICE_SIZE);
  }
  const uint64_t gone = (((uint64_t)1 << (end - first)) - 1) << first;
  mi_atomic_and_relaxed(filled, ~(gone | MI_COLLAPSE_WHOLE));
}

MI_INTERNAL void mi_collapse_split(mi_arena_t* arena, size_t slice_index, size_t slice_count) {
  const size_t slice_end = slice_index + slice_count;
  while (MI_HAS_COLLAPSE && slice_index < slice_end) {
    const size_t chunk = slice_index / MI_CHUNK_SLICES;
    const size_t start = chunk * MI_CHUNK_SLICES;
    const size_t end = mi_bits_min(slice_end - start, MI_CHUNK_SLICES);
    mi_collapse_split_in(arena, chunk, slice_index - start, end);
    slice_index = start + end;
  }
}

// -- what is full: COLLAPSE-1 --

static bool mi_collapse_slice_is_used(const uint8_t* slice) {
  const size_t pages = MI_SLICE_SIZE / mi_state.os.page_size;
  uint64_t random = (uintptr_t)slice;
  for (size_t i = 0; i < MI_COLLAPSE_SAMPLES; i++) {
    random = mi_random_mix(random + 1);
    const uint8_t* const page = slice + (random >> 32) % pages * mi_state.os.page_size;
    if (!mi_huge_is_page_used(page, random)) return false;
  }
  return true;
}

// True if all slices of a chunk without their bit are used, as far as samples tell.
static bool mi_collapse_is_used(const mi_arena_t* arena, size_t chunk, uint64_t word) {
  for (uint64_t rest = ~word & MI_COLLAPSE_CARVED; rest != 0; rest &= rest - 1) {
    const size_t index = chunk * MI_CHUNK_SLICES + mi_bits_trailing_zeros(rest);
    if (!mi_collapse_slice_is_used(arena->start + index * MI_SLICE_SIZE)) return false;
  }
  return true;
}

// True if a chunk may be full, before any samples of it.
static bool mi_collapse_may_be_full(const mi_arena_t* arena, size_t chunk, uint64_t word) {
  const size_t index = chunk * MI_CHUNK_SLICES;
  if ((word & (MI_COLLAPSE_HUGE | MI_COLLAPSE_AGAIN)) == MI_COLLAPSE_HUGE) return false;
  // Valgrind would report that words are read which the program has freed, or never written.
  const bool needs_samples = (~word & MI_COLLAPSE_CARVED) != 0;
  if (needs_samples && ((word & MI_COLLAPSE_SHARED) != 0 || MI_IS_TRACK_VALGRIND)) return false;
  return mi_bitmap_is_all_set(arena->dirty, index, MI_CHUNK_SLICES) &&
         mi_bitmap_is_all_clear(arena->free, index, MI_CHUNK_SLICES) &&
         mi_bitmap_is_all_clear(arena->moved, index, MI_CHUNK_SLICES);
}

// -- the collapse --

// There is none for some time: COLLAPSE-6.
static void mi_collapse_pause(uint64_t now_us) {
  const uint32_t log2 = mi_state.collapse_failures++;
  mi_state.collapse_after_us =
      now_us + (MI_COLLAPSE_PAUSE_US << mi_bits_min(log2, MI_COLLAPSE_PAUSE_LOG2_MAX));
}

// True if huge pages were seen, maybe just now: COLLAPSE-8.
static bool mi_collapse_has_huge_pages(void) {
  if (mi_likely(mi_os_has_huge_pages())) return true;
  void* const p = mi_os_map(NULL, MI_CHUNK_SIZE, MI_CHUNK_SIZE, MI_OS_READ_WRITE);
  if (p != NULL) {
    mi_os_populate_huge(p, MI_CHUNK_SIZE);
    mi_os_unmap(p, MI_CHUNK_SIZE);
  }
  if (mi_os_has_huge_pages()) return true;
  mi_collapse_pause(mi_os_now_us());
  return false;
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
  // Whatever came of it, it is not tried again before slices of the chunk have gone back.
  mi_atomic_or_relaxed(&arena->chunks[chunk].filled, MI_COLLAPSE_HUGE);
  mi_atomic_and_relaxed(&arena->chunks[chunk].filled, ~MI_COLLAPSE_AGAIN);
  if (!mi_bitmap_is_all_clear(arena->free, index, MI_CHUNK_SLICES)) { // COLLAPSE-3
    mi_wait_mark(arena, index, MI_CHUNK_SLICES);
  }
  if (err == EINVAL || err == ENOSYS) {
    mi_state.collapse_after_us = end + MI_COLLAPSE_PAUSE_US;
  } else if (err != 0 || end - start > MI_COLLAPSE_STALL_US) {
    mi_collapse_pause(end);
  } else {
    mi_state.collapse_failures = 0;
  }
}

// Collapse an old chunk if it is full.
static void mi_collapse_full(mi_arena_t* arena, size_t chunk, uint64_t word) {
  const uint64_t start = mi_os_now_us();
  const bool is_used = mi_collapse_is_used(arena, chunk, word);
  const uint64_t end = mi_os_now_us();
  mi_state.collapse_after_us += (end - start) * MI_COLLAPSE_PART;
  if (end - start > MI_COLLAPSE_SAMPLE_STALL_US) {
    mi_collapse_pause(end);
  } else if (is_used && mi_collapse_has_huge_pages()) {
    mi_collapse_chunk(arena, chunk);
  }
}

// True if the time that was spent is paid for: COLLAPSE-5.
static bool mi_collapse_may_go_on(void) {
  const uint64_t now = mi_os_now_us();
  const uint64_t most = MI_COLLAPSE_BURST_US * MI_COLLAPSE_PART;
  if (mi_state.collapse_after_us + most < now) mi_state.collapse_after_us = now - most;
  return mi_state.collapse_after_us < now;
}

// Something has changed since the last pass: the purge thread goes on.
static void mi_collapse_tell(mi_subproc_t* subproc) {
  subproc->collapse_has_news = true;
  mi_atomic_store_relaxed(&subproc->collapse_quiet, 0);
  mi_wait_notice();
}

// Nobody shares a chunk any more. Returns its word.
static uint64_t mi_collapse_unshare(mi_atomic(uint64_t) * filled) {
  mi_atomic_or_relaxed(filled, MI_COLLAPSE_AGAIN); // HUGE stays, for COLLAPSE-9
  return mi_atomic_and_relaxed(filled, ~MI_COLLAPSE_SHARED) & ~MI_COLLAPSE_SHARED;
}

// Look at a chunk. False if the look is over.
static bool mi_collapse_step(mi_subproc_t* subproc, mi_arena_t* arena, size_t chunk) {
  mi_atomic(uint64_t)* const filled = &arena->chunks[chunk].filled;
  uint64_t word = mi_atomic_load_relaxed(filled);
  if ((word & MI_COLLAPSE_SHARED) != 0 && subproc->collapse_is_alone) {
    word = mi_collapse_unshare(filled);
    mi_collapse_tell(subproc);
  }
  if (!mi_collapse_may_be_full(arena, chunk, word)) return true;
  if ((word & MI_COLLAPSE_SEEN) == 0) {
    // If it has changed, the next pass sees it.
    mi_atomic_cas_strong_relaxed(filled, &word, word | MI_COLLAPSE_SEEN);
    mi_collapse_tell(subproc);
    return true;
  }
  if (!mi_collapse_may_go_on()) return false;
  mi_collapse_full(arena, chunk, word);
  if (mi_collapse_is_huge(arena, chunk)) mi_collapse_tell(subproc);
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

// A pass over all arenas is over. Returns when the next one is due. Under the purge lock.
static uint64_t mi_collapse_end_pass(mi_subproc_t* subproc, uint64_t now_ms) {
  uint32_t quiet = mi_atomic_load_relaxed(&subproc->collapse_quiet);
  if (!subproc->collapse_has_news && quiet < MI_COLLAPSE_QUIET_MAX) quiet++;
  mi_atomic_store_relaxed(&subproc->collapse_quiet, quiet);
  subproc->collapse_has_news = false;
  subproc->collapse_arena = 0;
  return now_ms + (mi_collapse_pass_ms() << quiet);
}

// Under the purge lock.
static mi_attr_cold void mi_collapse_look(mi_subproc_t* subproc, uint64_t now_ms) {
  mi_lock_expect(&mi_state.purge_lock);
  const uint64_t due = now_ms + MI_COLLAPSE_LOOK_MS;
  uint64_t next = due;
  if (subproc->collapse_arena == 0 && subproc->collapse_chunk == 0) {
    subproc->collapse_is_alone = mi_collapse_is_alone();
  }
  for (size_t i = 0; i < MI_COLLAPSE_CHUNKS; i++) {
    mi_arena_t* const arena = mi_collapse_next_arena(subproc);
    if (arena == NULL) {
      next = mi_collapse_end_pass(subproc, now_ms);
      break;
    }
    if (!mi_collapse_step(subproc, arena, subproc->collapse_chunk)) {
      next = mi_state.collapse_after_us / 1000;
      break;
    }
    subproc->collapse_chunk++;
  }
  mi_atomic_store_relaxed(&subproc->collapse_due_ms, next > due ? next : due);
}

MI_INTERNAL mi_attr_cold void mi_collapse_poll_large(mi_subproc_t* subproc, uint64_t now_ms) {
  const uint64_t due = mi_atomic_load_relaxed(&subproc->collapse_due_ms);
  if (due == 0) {
    mi_atomic_store_relaxed(&subproc->collapse_due_ms, now_ms + mi_collapse_pass_ms());
    mi_wait_notice();
    return;
  }
  if (now_ms < due || !mi_collapse_is_on() || mi_budget_is_short(subproc) || // BUDGET-2
      !mi_lock_try_enter(&mi_state.purge_lock)) {
    return;
  }
  mi_collapse_look(subproc, now_ms);
  mi_lock_leave(&mi_state.purge_lock);
}

MI_INTERNAL mi_attr_cold uint64_t mi_collapse_tick_large(mi_subproc_t* subproc) {
  if (!mi_collapse_is_on()) return MI_RETAIN_NEVER;
  const uint64_t now = mi_os_now_ms();
  mi_collapse_poll_large(subproc, now);
  if (mi_atomic_load_relaxed(&subproc->collapse_quiet) >= MI_COLLAPSE_QUIET_MAX) {
    return MI_RETAIN_NEVER;
  }
  const uint64_t due = mi_atomic_load_relaxed(&subproc->collapse_due_ms);
  return due > now + MI_COLLAPSE_LOOK_MS ? due - now : MI_COLLAPSE_LOOK_MS;
}
