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
// back.
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

// Mark blocks in the portion of a theap: those of a page without an owner may be in any
// (portion.c).
static void mi_visit_mark_portion(const mi_page_t* page, const mi_theap_t* theap,
                                  mi_visit_free_t* free) {
  const uint8_t* const end = page->start + page->reserved * page->block_size;
  const mi_block_t* block = mi_portion_of(theap, page->size_class);
  for (; block != NULL && free->count < page->reserved; block = mi_block_next(block)) {
    if ((const uint8_t*)block < page->start || (const uint8_t*)block >= end) continue;
    mi_visit_mark(mi_page_index_of(page, block), free);
  }
}

static void mi_visit_mark_portions(mi_page_t* page, mi_visit_free_t* free) {
  const mi_heap_t* const heap = mi_atomic_load_relaxed(&page->heap);
  mi_lock_enter(&mi_state.thread_lock);
  for (size_t i = 0; i < MI_THEAP_BUCKETS; i++) {
    const mi_theap_t* home = mi_state.theap_bucket[i];
    for (; home != NULL; home = home->bucket_next) {
      if (mi_theap_heap(home) == heap) mi_visit_mark_portion(page, home, free);
    }
  }
  for (const mi_theap_t* theap = heap->theaps; theap != NULL; theap = theap->heap_next) {
    mi_visit_mark_portion(page, theap, free);
  }
  mi_lock_leave(&mi_state.thread_lock);
}

// Find the free ones among the carved blocks, in all lists that they may be in.
static void mi_visit_find_free(mi_page_t* page, mi_visit_free_t* free) {
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
  if (mi_portion_most(page->size_class) > 1) mi_visit_mark_portions(page, free);
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
  mi_visit_find_free(page, &free);
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
  const bool is_done = mi_walk_pages(subproc, heap, &mi_visit_page, visit);
  mi_asleep_resume();
  return is_done;
}

static bool mi_visit_heap(mi_heap_t* heap, mi_visit_t* visit) {
  mi_process_setup();
  if (visit->visitor == NULL) return false;
  mi_parcel_flush(); // blocks that this thread freed are free
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
  mi_parcel_flush(); // blocks that this thread freed are free
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
