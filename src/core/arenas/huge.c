// SPDX-License-Identifier: MIT
// huge.c - policy: memory that will be touched anyway is faulted in with one call, and in chunks of
// one huge page once the heap is large.
//
// A fault costs 1.44 us for each 4 KiB that a program touches, 0.95 us when 16 KiB or more are
// populated by one call, 0.46 us in a huge page, which also makes later reads cheaper (a random
// read in 512 MiB: 10 ns instead of 16). The price of huge pages is memory: all 2 MiB of a chunk
// become resident when its first block is used. So:
//
// HUGE-1  there are no huge pages while less than MI_HUGE_HEAP_MIN is committed, and
//     MI_HUGE_THREAD_MIN for each thread besides the first. Runs are taken at the lowest address
//     that fits, so that one chunk after the other fills up: what is lost is the rest of the last
//     chunk, and of the one page of each class that a thread has not filled, and, until it goes
//     back, what pages of 3 to 7 slices leave at the end of each 64 (4 slices at most). (With a
//     quarter of that for a thread, programs whose threads build and drop small structures hold 1.4
//     of the memory.)
//     A heap besides the main one counts for itself, by its pages: thousands of small heaps have a
//     page each that is hardly used.
// HUGE-2  they are only for pages of blocks up to MI_HUGE_BLOCK_MAX: a program that asks for a
//     large block may never touch most of it. Of blocks longer than an OS page it may touch a part,
//     too (20,000 idle connections with buffers of 16 KiB, of each of which 1,000 bytes are
//     written: 292 MiB, 81 in small pages): for these there are huge pages only where the chunk
//     before was used, in MI_HUGE_USED of MI_HUGE_SAMPLES OS pages. (The kernel reads them: the
//     program may protect its memory.)
// HUGE-3  they are only for a chunk that is wholly free and clean; the advice is taken back at
//     once, so that the kernel neither cuts the mapping for good nor fills up slices that were
//     purged meanwhile.
// HUGE-4  slices of the chunk that no thread has claimed are marked for purge: those not used
//     within the purge delay go back. A mark on a clean slice thus means that it is resident.
// HUGE-5  a call that takes longer than MI_HUGE_STALL_US found no memory that the host has ready
//     (7,000 us; 250 otherwise). Small pages may still be ready, because the system splits what was
//     used of late for these first: there are no huge pages for MI_HUGE_BACK_OFF times as long.
// HUGE-6  where the system has no huge pages the same call faults the chunk in by small ones, which
//     takes two thirds of the time of the faults, and loses as much as HUGE-1 says. No file is read
//     to find out: a sandbox may not permit that (INIT-4).
//
// HUGE-7  there are none near the limit of what may be in use (BUDGET-2).
//
// Deliberately absent: huge pages for metadata, stacks of direct mappings, promises about them. Any
// call here may fail without effect.
#include "huge.h"

#include "bitmap.h"
#include "book.h"
#include "budget.h"
#include "charge.h"
#include "purge.h"

#define MI_HUGE_THREAD_MIN ((int64_t)(4 * MI_CHUNK_SIZE))
#define MI_HUGE_RUN_MAX ((size_t)8) // slices; the longest page of a class
#define MI_HUGE_STALL_US ((uint64_t)1500)
#define MI_HUGE_BACK_OFF ((uint64_t)32)
// HUGE-2
#define MI_HUGE_SAMPLES ((size_t)16)
#define MI_HUGE_USED ((size_t)12)
#define MI_HUGE_PLACES ((size_t)32) // in an OS page, of two words of 32 bits each
#define MI_HUGE_PLACE_SIZE ((size_t)8)

static bool mi_huge_is_wanted(const mi_heap_t* heap, const mi_arena_t* arena) {
  if (MI_PAGE_FENCE_SIZE != 0) return false; // fences would cut the huge page
  if (!heap->is_main && mi_book_is_shorter(&heap->book, MI_HUGE_HEAP_MIN / MI_SLICE_SIZE)) {
    return false;
  }
  const int64_t threads = mi_atomic_load_relaxed(&arena->subproc->count.threads);
  const int64_t heap_min = MI_HUGE_HEAP_MIN + (threads > 1 ? threads - 1 : 0) * MI_HUGE_THREAD_MIN;
  return mi_atomic_load_relaxed(&arena->subproc->count.committed) >= heap_min &&
         mi_option_value(allow_thp) == 1 && mi_arena_is_ours(arena) &&
         mi_state.os.huge_page_size == MI_CHUNK_SIZE && !mi_budget_is_short(arena->subproc);
}

MI_INTERNAL mi_attr_cold bool mi_huge_is_page_used(const uint8_t* page, uint64_t random) {
  const size_t places = mi_state.os.page_size / MI_HUGE_PLACE_SIZE;
  for (size_t i = 0; i < MI_HUGE_PLACES; i++) {
    random = mi_random_mix(random + 1);
    const uint8_t* const place = page + (random >> 32) % places * MI_HUGE_PLACE_SIZE;
    if (mi_os_is_nonzero(place) || mi_os_is_nonzero(place + MI_HUGE_PLACE_SIZE / 2)) return true;
  }
  return false;
}

// True if the chunk before this one is in use, and was written to, as far as samples tell.
static mi_attr_cold bool mi_huge_is_used_before(const mi_arena_t* arena, size_t chunk) {
  if (chunk == 0 || MI_IS_TRACK_VALGRIND) return false;
  const size_t before = chunk - MI_CHUNK_SLICES;
  const size_t page_size = mi_state.os.page_size;
  const size_t step = MI_CHUNK_SIZE / MI_HUGE_SAMPLES;
  uint64_t random = before;
  size_t missed = 0;
  for (size_t i = 0; i < MI_HUGE_SAMPLES && missed <= MI_HUGE_SAMPLES - MI_HUGE_USED; i++) {
    random = mi_random_mix(random + 1);
    const size_t at = i * step + (random >> 32) % (step / page_size) * page_size;
    const uint8_t* const page = arena->start + before * MI_SLICE_SIZE + at;
    if (!mi_huge_is_page_used(page, random)) missed++;
  }
  return missed <= MI_HUGE_SAMPLES - MI_HUGE_USED;
}

MI_INTERNAL mi_attr_noinline void mi_huge_prepare(const mi_heap_t* heap, mi_arena_t* arena,
                                                  size_t slice_index, size_t slice_count,
                                                  size_t touched) {
  if (slice_count > MI_HUGE_RUN_MAX || !mi_huge_is_wanted(heap, arena)) return;
  const size_t end = slice_index + slice_count;
  const size_t chunk = (end - 1) & ~(MI_CHUNK_SLICES - 1);
  const size_t chunk_end = chunk + MI_CHUNK_SLICES;
  if (chunk_end > mi_arena_slices(arena)) return;
  const size_t before = slice_index > chunk ? slice_index - chunk : 0;
  if (!mi_bitmap_is_all_clear(arena->dirty, chunk, MI_CHUNK_SLICES) ||
      !mi_bitmap_is_all_clear(arena->purge_young, chunk, MI_CHUNK_SLICES) || // resident: HUGE-4
      !mi_bitmap_is_all_clear(arena->purge_old, chunk, MI_CHUNK_SLICES) ||
      !mi_bitmap_is_all_set(arena->free, chunk, before) ||
      !mi_bitmap_is_all_set(arena->free, end, chunk_end - end)) {
    return;
  }
  const uint64_t now = mi_os_now_us();
  if (now < mi_atomic_load_relaxed(&mi_state.huge_after_us)) return;
  if (touched == MI_TOUCHED_BY_LONG && !mi_huge_is_used_before(arena, chunk)) return;
  uint8_t* const start = arena->start + chunk * MI_SLICE_SIZE;
  if (mi_os_populate_huge(start, MI_CHUNK_SIZE) == 0) mi_charge_add(arena, start, MI_CHUNK_SIZE);
  mi_mark_populate(start, MI_CHUNK_SIZE);
  mi_charge_marks(arena, start, MI_CHUNK_SIZE);
  const uint64_t taken = mi_os_now_us() - now;
  if (taken > MI_HUGE_STALL_US) {
    mi_atomic_store_relaxed(&mi_state.huge_after_us, now + taken * MI_HUGE_BACK_OFF);
  }
  mi_wait_mark(arena, chunk, MI_CHUNK_SLICES); // the claim clears the marks of its own slices
}

MI_INTERNAL void mi_huge_touch(uint8_t* start, size_t size) {
  const size_t page_size = mi_state.os.page_size;
  uint8_t* const from = (uint8_t*)mi_bits_align_down((uintptr_t)start, page_size);
  const size_t bytes = mi_bits_align_up((uintptr_t)start + size, page_size) - (uintptr_t)from;
  if (bytes > page_size) mi_os_populate(from, bytes);
}
