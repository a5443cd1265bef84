// SPDX-License-Identifier: MIT
// census.h - in a padded build: how many blocks of each size there are, were ever handed out, and
// were there at once; and the bytes that the program asked for.
//
// CENSUS-1  a block is counted when it passes to the program, and when it returns (track.h), also
//     one that is changed in place; so what a thread holds ready, or is on its way to it, does not
//     count, and the figures are exact while other threads allocate.
// CENSUS-2  the figures are those of the heap of the block's page, and of its sub-process. They
//     move with the heap's other figures (HEAP-6).
//
// A count is an atomic addition, to memory that all threads share. Deliberately absent: any count
// in other builds, whose fast paths count nothing (usage.c measures what is in use).
#ifndef MI_CORE_CENSUS_H
#define MI_CORE_CENSUS_H

#include "inside.h"

#if MI_HAS_CENSUS

static inline void mi_census_add(mi_heap_t* heap, size_t index, int64_t amount) {
  mi_counters_t* const count = &heap->subproc->count;
  mi_count_add_peak(&count->census[index], &count->census_peak[index], amount);
  mi_tally_add(&heap->tally, (mi_tally_index_t)(MI_TALLY_CENSUS + index), amount);
  if (amount < 0) return;
  mi_count_add(&heap->tally.amount[MI_TALLY_CENSUS_TOTAL + index], amount);
}

// Count blocks of the page, of which the program asked for `size` bytes: 1 it gets one, -1 one
// returns.
static inline void mi_census_note(mi_page_t* page, size_t size, int64_t blocks) {
  mi_heap_t* const heap = mi_inside_enter(page);
  const size_t c = page->size_class;
  mi_census_add(heap, MI_CENSUS_CLASS + c, blocks);
  if (c < MI_CLASS_COUNT) {
    mi_census_add(heap, MI_CENSUS_NORMAL, blocks * (int64_t)mi_class_size(c));
  }
  mi_census_add(heap, MI_CENSUS_REQUESTED, blocks * (int64_t)size);
  mi_inside_leave(heap);
}

// Count the change of a block's size.
static inline void mi_census_resize(mi_page_t* page, size_t old_size, size_t size) {
  mi_heap_t* const heap = mi_inside_enter(page);
  mi_census_add(heap, MI_CENSUS_REQUESTED, (int64_t)size - (int64_t)old_size);
  mi_inside_leave(heap);
}

#else

static mi_attr_inline void mi_census_note(mi_page_t* page, size_t size, int64_t blocks) {
  (void)page, (void)size, (void)blocks;
}

static mi_attr_inline void mi_census_resize(mi_page_t* page, size_t old_size, size_t size) {
  (void)page, (void)old_size, (void)size;
}

#endif
#endif
