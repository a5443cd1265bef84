// SPDX-License-Identifier: MIT
// spare.c - the run of slices that was freed last, kept whole for the next claim of about that
// length.
//
//   subproc->spare   | slice number of the start : 40 | slices : 24 |   0 none
//
// A program that takes a buffer of 1 MiB and frees it, again and again, would else search a place
// for it, and change bits of five maps for each of its slices, twice (a pair of 1 MiB, of 64 MiB:
// 125, 550 ns; 45 ns so). A short run is kept, too, if it is aligned: its place is harder to find.
//
// SPARE-1  the slices of the spare run are neither free nor described; they are dirty, and count as
//     waiting (WAIT-2): all bounds of retain.c hold for them.
// SPARE-2  the next claim of slices in the sub-process takes the spare run, if it is for a large
//     block of half to twice that length, or releases it before it searches (slices.c). So no
//     arena grows because a run is kept. (Unless a thread keeps one between the release and the
//     search of another thread.)
// SPARE-3  every purge releases it first.
// SPARE-4  only runs that any heap of the sub-process may have are kept (ARENA-4).
// SPARE-5  the descriptor of the first slice names the arena, so that none is searched.
//
// A claim of another length gives back the rest of the run, or takes the slices behind it
// (slices.c). The lowest place would differ from length to length, and so the memory that waits
// there would be moved to and fro (RETAIN-2): pairs of 1 to 2 MiB in a heap with holes took 1,900
// ns, 60 so, and 8 blocks of 5 to 25 MiB that are replaced need 0.96 of the memory.
//
// Any thread may keep and claim. The word says all there is to know of the run, so that a thread
// whose exchange succeeds owns that run, even if the word was another one in between.
#include "spare.h"

#include "bitmap.h"
#include "numa.h"
#include "wait.h"

// Runs that are kept, in slices, unless they are aligned: at least more than any page of a class
// has. Pages are many, and should lie at low addresses.
#define MI_SPARE_MIN (MI_CLASS_SLICES_MAX + 1)

_Static_assert(MI_ADDRESS_BITS - MI_SLICE_SHIFT <= 64 - MI_SPARE_COUNT_BITS,
               "the number of a slice fits into the word");

// Replace what is kept. Returns what was kept before; with one thread, by a load and a store.
static uint64_t mi_spare_swap(mi_subproc_t* subproc, uint64_t word) {
  if (mi_os_is_single_threaded()) {
    const uint64_t old = mi_atomic_load_relaxed(&subproc->spare);
    mi_atomic_store_relaxed(&subproc->spare, word);
    return old;
  }
  // Publishes what was written to the run and its descriptors, and sees that of the other run;
  // pairs with `mi_spare_swap` and `mi_spare_take` of other threads.
  return mi_atomic_swap_acq_rel(&subproc->spare, word);
}

static void mi_spare_count_waiting(mi_subproc_t* subproc, uint64_t word, int64_t sign) {
  mi_count_add(&subproc->purge_waiting, sign * (int64_t)(mi_spare_count(word) * MI_SLICE_SIZE));
  if (sign > 0) mi_wait_notice();
}

// Return the arena of a run that the caller owns.
static mi_arena_t* mi_spare_arena(uint64_t word) {
  return mi_pagemap_slice(mi_spare_start(word))->arena;
}

// Release a run that the caller owns as if its owner did that now.
static void mi_spare_end(mi_subproc_t* subproc, uint64_t word) {
  mi_arena_t* const arena = mi_spare_arena(word);
  const size_t index = mi_arena_slice_of(arena, mi_spare_start(word));
  mi_spare_count_waiting(subproc, word, -1);
  mi_wait_release(arena, index, mi_spare_count(word));
}

// True if a run belongs to a large block.
static bool mi_spare_is_large(size_t slice_count, size_t alignment) {
  return slice_count >= MI_SPARE_MIN || alignment > MI_SLICE_SIZE;
}

MI_INTERNAL bool mi_spare_keep(mi_arena_t* arena, size_t slice_index, size_t slice_count,
                               size_t alignment) {
  if (!mi_spare_is_large(slice_count, alignment) || slice_count > MI_SPARE_MAX) return false;
  if (arena->is_exclusive || arena->is_pinned || mi_wait_delay_ms() == 0) return false;
  uint8_t* const start = arena->start + slice_index * MI_SLICE_SIZE;
  const uint64_t word = mi_spare_word(start, slice_count);
  mi_pagemap_slice(start)->arena = arena;
  mi_spare_count_waiting(arena->subproc, word, 1);
  const uint64_t old = mi_spare_swap(arena->subproc, word);
  if (mi_unlikely(old != MI_SPARE_NONE)) mi_spare_end(arena->subproc, old);
  return true;
}

MI_INTERNAL size_t mi_spare_length(mi_subproc_t* subproc) {
  return mi_spare_count(mi_atomic_load_relaxed(&subproc->spare));
}

MI_INTERNAL bool mi_spare_is_valid(mi_subproc_t* subproc) {
  const uint64_t word = mi_atomic_load_relaxed(&subproc->spare);
  const size_t count = mi_spare_count(word);
  const int64_t waiting = mi_wait_marked(subproc) + (int64_t)(count * MI_SLICE_SIZE);
  if (mi_atomic_load_relaxed(&subproc->purge_waiting) != waiting) return false; // WAIT-2
  if (word == MI_SPARE_NONE) return true;
  mi_arena_t* const arena = mi_arena_of(subproc, mi_spare_start(word));
  if (arena == NULL || arena != mi_spare_arena(word)) return false;
  const size_t index = mi_arena_slice_of(arena, mi_spare_start(word));
  for (size_t i = index; i < index + count; i++) {
    mi_page_t* const page = mi_pagemap_slice(arena->start + i * MI_SLICE_SIZE);
    if (mi_atomic_load_relaxed(&page->owner) != MI_OWNER_NONE) return false;
  }
  return mi_bitmap_is_all_clear(arena->free, index, count) &&
         mi_bitmap_is_all_set(arena->dirty, index, count);
}

MI_INTERNAL void mi_spare_release(mi_subproc_t* subproc) {
  if (mi_likely(mi_atomic_load_relaxed(&subproc->spare) == MI_SPARE_NONE)) return;
  const uint64_t word = mi_spare_swap(subproc, MI_SPARE_NONE);
  if (word != MI_SPARE_NONE) mi_spare_end(subproc, word);
}

// Take this run out, unless another thread did or keeps another one.
static bool mi_spare_take(mi_subproc_t* subproc, uint64_t word) {
  if (mi_os_is_single_threaded()) {
    mi_atomic_store_relaxed(&subproc->spare, MI_SPARE_NONE);
    return true;
  }
  // Sees what the thread that kept the run wrote there; pairs with `mi_spare_swap`.
  return mi_atomic_cas_strong_acquire(&subproc->spare, &word, MI_SPARE_NONE);
}

// True if a heap may have a run, and it is about as long as what the heap looks for.
static bool mi_spare_fits(const mi_heap_t* heap, uint64_t word, size_t slice_count,
                          size_t alignment) {
  const size_t count = mi_spare_count(word);
  return count <= 2 * slice_count && slice_count <= 2 * count &&
         mi_spare_is_large(slice_count, alignment) && heap->arena == NULL &&
         ((uintptr_t)mi_spare_start(word) & (alignment - 1)) == 0 && mi_numa_node_for(heap) < 0;
}

MI_INTERNAL bool mi_spare_claim(mi_heap_t* heap, size_t slice_count, size_t alignment,
                                mi_run_t* run) {
  mi_subproc_t* const subproc = heap->subproc;
  const uint64_t word = mi_atomic_load_relaxed(&subproc->spare);
  if (mi_likely(word == MI_SPARE_NONE)) return false;
  if (!mi_spare_fits(heap, word, slice_count, alignment)) return false;
  if (!mi_spare_take(subproc, word)) return false;
  mi_spare_count_waiting(subproc, word, -1);
  mi_arena_t* const arena = mi_spare_arena(word);
  *run = (mi_run_t){
      .arena = arena,
      .start = mi_spare_start(word),
      .slice_index = mi_arena_slice_of(arena, mi_spare_start(word)),
      .slice_count = mi_spare_count(word),
      .is_resident = true,
      .is_dirty = true, // SPARE-1
  };
  return true;
}
