// SPDX-License-Identifier: MIT
// visit.c - introspection: the areas and blocks of heaps.
//
//   pages of the heap -> area for the visitor -> bits of its free blocks -> blocks in use
//
// VISIT-1  no other thread allocates from or frees into the heap meanwhile (the caller's duty), so
//     the lists of other threads may be read; nor does the purge thread take over their pages.
// VISIT-2  the bits of a page are computed before the visitor sees the page, because the visitor
//     may allocate from other heaps.
// Deliberately absent: changes. A visit collects nothing except the frees that this thread holds
// back. Without memory for what it has to know it visits nothing.
#include <string.h>

#include "api.h"
#include "../core/core.h"

// One bit per block of a page; the smallest blocks are 8 bytes, in pages of one slice.
#define MI_VISIT_BLOCKS_MAX (MI_SLICE_SIZE / 8)

typedef struct mi_visit_s {
  mi_heap_t* heap; // NULL: any
  const mi_theap_t* theap; // NULL: any
  mi_block_visit_fun* visitor;
  void* arg;
  bool is_with_blocks;
  bool is_abandoned_only;
  mi_addresses_t portions; // pages of which blocks are in portions
  size_t waiting, waiting_max; // those blocks, and for how many there is room
} mi_visit_t;

typedef struct mi_visit_free_s {
  uint64_t bits[MI_VISIT_BLOCKS_MAX / 64]; // 1: free
  size_t count;
} mi_visit_free_t;

// True if a thread owns the page. Large blocks, full pages and pages that ended threads left have
// no owner.
static bool mi_visit_is_held(mi_page_t* page) {
  return !mi_page_is_single(page) && mi_atomic_load_relaxed(&page->owner) > MI_OWNER_MAX_SPECIAL &&
         (mi_atomic_load_relaxed(&page->thread_free) & MI_REMOTE_OWNED) != 0;
}

static void mi_visit_mark(size_t i, mi_visit_free_t* free) {
  const uint64_t bit = (uint64_t)1 << i % 64;
  if ((free->bits[i / 64] & bit) != 0) return; // a damaged list has the block twice
  free->bits[i / 64] |= bit;
  free->count++;
}

static void mi_visit_mark_list(const mi_page_t* page, const mi_block_t* block,
                               mi_visit_free_t* free) {
  for (mi_list_t at = mi_list_of(page, block); mi_list_has(&at); mi_list_step(&at)) {
    mi_visit_mark(mi_page_index_of(page, at.block), free);
  }
}

// -- portions --
// The blocks of a page that has no owner may be in the portion of any theap (portion.c). All are
// gathered once, by their pages: a look at all portions for each page would cost pages times
// threads (1,600 threads, 2.3 GB: 10 s).

// A block of a portion; `next` is the number of another one of its page, 0 none.
typedef struct mi_visit_block_s {
  const mi_block_t* block;
  size_t next;
} mi_visit_block_t;

static void mi_visit_count_portions(mi_theap_t* theap, void* arg) {
  size_t* const count = (size_t*)arg;
  for (size_t c = 0; c < MI_CLASS_COUNT; c++) {
    const size_t most = mi_portion_most(c);
    if (most > 1) *count += mi_portion_count(mi_portion_of(theap, c), most);
  }
}

// The table has a number for each page, and the blocks lie behind it, from number 1 on.
static void mi_visit_gather_portions(mi_theap_t* theap, void* arg) {
  mi_visit_t* const visit = (mi_visit_t*)arg;
  mi_visit_block_t* const blocks = (mi_visit_block_t*)(void*)visit->portions.room;
  for (size_t c = 0; c < MI_CLASS_COUNT; c++) {
    if (mi_portion_most(c) <= 1) continue;
    const mi_block_t* block = mi_portion_of(theap, c);
    for (; block != NULL && visit->waiting < visit->waiting_max; block = mi_block_next(block)) {
      const mi_page_t* const page = mi_pagemap_find(block);
      if (page == NULL || page->size_class != c) break; // the list is damaged
      mi_address_t* const known = mi_addresses_find(&visit->portions, page);
      if (known == NULL) return;
      blocks[++visit->waiting] = (mi_visit_block_t){block, known->value};
      known->value = visit->waiting;
    }
  }
}

static void mi_visit_each_theap(mi_subproc_t* subproc, mi_heap_t* heap, mi_heap_theap_fun* fun,
                                void* arg) {
  mi_lock_enter(&mi_state.thread_lock);
  mi_heap_each_theap_of(subproc, heap, fun, arg);
  mi_lock_leave(&mi_state.thread_lock);
}

// Gather what is in portions. False if there is no memory.
static bool mi_visit_find_portions(mi_subproc_t* subproc, mi_heap_t* heap, mi_visit_t* visit) {
  size_t count = 0;
  mi_visit_each_theap(subproc, heap, &mi_visit_count_portions, &count);
  if (count == 0) return true;
  const size_t room = (count + 1) * sizeof(mi_visit_block_t);
  if (!mi_addresses_make(&visit->portions, count, room)) return false;
  visit->waiting_max = count;
  mi_visit_each_theap(subproc, heap, &mi_visit_gather_portions, visit);
  return true;
}

static void mi_visit_mark_portions(const mi_visit_t* visit, const mi_page_t* page,
                                   mi_visit_free_t* free) {
  const mi_address_t* const known = mi_addresses_look(&visit->portions, page);
  if (known == NULL) return;
  const mi_visit_block_t* const blocks = (const mi_visit_block_t*)(void*)visit->portions.room;
  for (size_t i = (size_t)known->value; i != 0; i = blocks[i].next) {
    mi_visit_mark(mi_page_index_of(page, blocks[i].block), free);
  }
}

// Find the free ones among the carved blocks, in all lists that they may be in.
static void mi_visit_find_free(const mi_visit_t* visit, mi_page_t* page, mi_visit_free_t* free) {
  memset(free->bits, 0, (page->reserved + 63) / 64 * 8);
  free->count = 0;
  // Sees the links; pairs with the release in `mi_remote_push`.
  const uintptr_t word = mi_atomic_load_acquire(&page->thread_free);
  mi_visit_mark_list(page, page->local_free, free);
  mi_visit_mark_list(page, (const mi_block_t*)(word & ~MI_REMOTE_BITS), free);
  mi_visit_mark_list(page, page->sample_rest, free);
  for (size_t i = 0; page->holes != 0 && i < page->reserved; i++) {
    if (mi_part_is_missing(page, i)) mi_visit_mark(i, free);
  }
  if (page->place == MI_PLACE_CURRENT) {
    mi_visit_mark_list(page, page->theap->free[page->size_class], free);
  }
  if (mi_portion_most(page->size_class) > 1) mi_visit_mark_portions(visit, page, free);
}

// Visit a block, at the address that the program knows.
static bool mi_visit_block(const mi_visit_t* visit, const mi_heap_t* heap,
                           const mi_heap_area_t* area, void* slot) {
  void* const block = mi_track_block(slot, area->block_size);
  return visit->visitor(heap, area, block, mi_track_usable(block, area->block_size), visit->arg);
}

static bool mi_visit_single(const mi_visit_t* visit, mi_heap_t* heap, mi_page_t* page) {
  uint8_t* const block = page->start + page->shift;
  const size_t size = page->block_size - page->shift;
  const mi_heap_area_t area = {.blocks = block,
                               .reserved = size,
                               .committed = size,
                               .used = 1,
                               .block_size = size,
                               .full_block_size = size,
                               .reserved1 = page};
  return visit->visitor(heap, &area, NULL, size, visit->arg) &&
         (!visit->is_with_blocks || mi_visit_block(visit, heap, &area, block));
}

static bool mi_visit_page(mi_page_t* page, void* arg) {
  const mi_visit_t* const visit = (const mi_visit_t*)arg;
  if (visit->is_abandoned_only && mi_visit_is_held(page)) return true;
  if (visit->theap != NULL && (!mi_visit_is_held(page) || page->theap != visit->theap)) return true;
  // Sees the const fields of the heap; pairs with the release in `mi_page_make`.
  mi_heap_t* const heap = mi_atomic_load_acquire(&page->heap);
  if (mi_page_is_single(page)) return mi_visit_single(visit, heap, page);
  const size_t size = page->block_size;
  const size_t capacity = mi_page_capacity(page);
  mi_visit_free_t free;
  mi_visit_find_free(visit, page, &free);
  const mi_heap_area_t area = {.blocks = page->start,
                               .reserved = page->reserved * size,
                               .committed = capacity * size,
                               .used = capacity - free.count,
                               .block_size = size,
                               .full_block_size = size,
                               .reserved1 = page};
  if (!visit->visitor(heap, &area, NULL, size, visit->arg)) return false;
  for (size_t i = 0; visit->is_with_blocks && i < capacity; i++) {
    if ((free.bits[i / 64] >> i % 64 & 1) != 0) continue;
    if (!mi_visit_block(visit, heap, &area, page->start + i * size)) return false;
  }
  return true;
}

// -- Public functions --

static bool mi_visit_pages(mi_subproc_t* subproc, mi_heap_t* heap, mi_visit_t* visit) {
  mi_asleep_pause(); // VISIT-1
  const bool is_done = mi_visit_find_portions(subproc, heap, visit) &&
                       mi_walk_pages(subproc, heap, &mi_visit_page, visit);
  mi_addresses_end(&visit->portions);
  mi_asleep_resume();
  return is_done;
}

// Blocks that this thread freed are free.
static void mi_visit_flush_own(void) {
  mi_quarantine_flush(); // into the parcel, maybe
  mi_parcel_flush();
}

static bool mi_visit_heap(mi_heap_t* heap, mi_visit_t* visit) {
  mi_process_setup();
  if (visit->visitor == NULL) return false;
  mi_visit_flush_own();
  if (heap == NULL) heap = mi_heap_main();
  return mi_visit_pages(heap->subproc, heap, visit);
}

bool mi_heap_visit_blocks(mi_heap_t* heap, bool visit_blocks, mi_block_visit_fun* visitor,
                          void* arg) mi_attr_noexcept {
  mi_visit_t visit = {.visitor = visitor, .arg = arg, .is_with_blocks = visit_blocks};
  return mi_visit_heap(heap, &visit);
}

bool mi_heap_visit_abandoned_blocks(mi_heap_t* heap, bool visit_blocks, mi_block_visit_fun* visitor,
                                    void* arg) mi_attr_noexcept {
  mi_visit_t visit = {
      .visitor = visitor, .arg = arg, .is_with_blocks = visit_blocks, .is_abandoned_only = true};
  return mi_visit_heap(heap, &visit);
}

bool mi_abandoned_visit_blocks(mi_subproc_id_t id, int heap_tag, bool visit_blocks,
                               mi_block_visit_fun* visitor, void* arg) mi_attr_noexcept {
  (void)heap_tag;
  mi_subproc_t* const subproc = mi_api_subproc(id);
  if (subproc == NULL || visitor == NULL) return false;
  mi_visit_flush_own();
  mi_visit_t visit = {
      .visitor = visitor, .arg = arg, .is_with_blocks = visit_blocks, .is_abandoned_only = true};
  return mi_visit_pages(subproc, NULL, &visit);
}

bool mi_theap_visit_blocks(const mi_theap_t* theap, bool visit_blocks, mi_block_visit_fun* visitor,
                           void* arg) mi_attr_noexcept {
  if (theap == NULL || theap->thread_id == 0) return false;
  mi_visit_t visit = {
      .theap = theap, .visitor = visitor, .arg = arg, .is_with_blocks = visit_blocks};
  return mi_visit_heap(mi_theap_heap(theap), &visit);
}

bool mi_unsafe_heap_page_is_under_utilized(mi_heap_t* heap, void* p,
                                           size_t perc_threshold) mi_attr_noexcept {
  mi_page_t* const page = mi_pagemap_find(mi_cpu_address(p));
  if (page == NULL || mi_page_is_single(page)) return false;
  if (heap != NULL && mi_atomic_load_relaxed(&page->heap) != heap) return false;
  // Moving pays only out of pages that malloc does not use now, and all of whose blocks were
  // carved.
  if (page->place == MI_PLACE_CURRENT || mi_page_capacity(page) < page->reserved) return false;
  const size_t used = mi_part_used(page);
  return used < page->reserved &&
         (perc_threshold >= 100 || used * 100 <= perc_threshold * page->reserved);
}
