// SPDX-License-Identifier: MIT
// page.h - small inline functions about a page, and the functions of page.c.
#ifndef MI_CORE_PAGE_H
#define MI_CORE_PAGE_H

#include "life.h"

// Return the number of blocks carved so far.
static inline uint32_t mi_page_capacity(const mi_page_t* page) { return page->refilled.used - 1; }

// True if the page has a free block, in a list or not carved.
static inline bool mi_page_has_free(mi_page_t* page) {
  return page->local_free != NULL || mi_page_capacity(page) < page->reserved || page->holes != 0 ||
         mi_atomic_load_relaxed(&page->thread_free) > MI_REMOTE_BITS;
}

// Return the index of the block that `p` lies in: offset / block_size by multiply and shift, exact
// for offsets inside a page of at most a chunk (offset < 2^21, block_size < 2^20; Granlund,
// Montgomery: "Division by invariant integers using multiplication", 1994).
static inline size_t mi_page_index_of(const mi_page_t* page, const void* p) {
  const uint64_t offset = (uint64_t)((const uint8_t*)p - page->start);
  return (offset * mi_class_reciprocal[page->size_class]) >> MI_RECIPROCAL_SHIFT;
}

static inline mi_block_t* mi_page_block_of(const mi_page_t* page, const void* p) {
  return (mi_block_t*)(page->start + mi_page_index_of(page, p) * page->block_size);
}

static inline bool mi_page_is_single(const mi_page_t* page) {
  return page->size_class == MI_CLASS_COUNT;
}

// True if the block has guards around it: guard.h.
static inline bool mi_page_is_guarded(const mi_page_t* page) {
  return mi_page_is_single(page) && page->guarded != NULL;
}

// True if the block has a class, but a page of its own because it is a sample of a profile.
static inline bool mi_page_is_slot(const mi_page_t* page) {
  return mi_page_is_single(page) && page->sampled != NULL && page->block_size <= MI_CLASS_MAX;
}

// Return the address that was handed out of the block that `p` is in, unless that is inside of it.
static inline const uint8_t* mi_page_given(const mi_page_t* page, const void* p) {
  if (mi_page_is_single(page)) return page->start + page->shift;
  return (const uint8_t*)mi_page_block_of(page, p);
}

// True if the program has the block that `p` lies in, as far as this build knows (mark.h).
static inline bool mi_page_is_in_use(const mi_page_t* page, const void* p) {
  return !MI_IS_SECURE || mi_mark_is_used(mi_page_given(page, p));
}

// True if the descriptor is where the page map has it, and agrees with its class.
static inline bool mi_page_is_sound(const mi_page_t* page) {
  return page == mi_pagemap_slice(page->start) && page->size_class < MI_CLASS_COUNT &&
         page->block_size == mi_class_size(page->size_class) &&
         mi_class_has_slices(page->size_class, page->slice_count);
}

// True if one of the first `count` blocks starts at `p`, which may be any address: if it is not in
// the page, the index is any number, and its block starts elsewhere.
static mi_attr_inline bool mi_page_has_among(const mi_page_t* page, size_t count, const void* p) {
  const size_t index = mi_page_index_of(page, p);
  return index < count && page->start + index * page->block_size == p;
}

// True if a carved block starts at `p`.
static inline bool mi_page_has_block(const mi_page_t* page, const void* p) {
  return mi_page_has_among(page, mi_page_capacity(page), p);
}

// The same for any block that the page has room for: what this reads does not change while the page
// is there, so that a thread that does not own it may ask.
static inline bool mi_page_has_place(const mi_page_t* page, const void* p) {
  return mi_page_has_among(page, page->reserved, p);
}

static mi_attr_inline bool mi_page_has_address(const mi_page_t* page, const void* p) {
  return (size_t)((const uint8_t*)p - page->start) < (size_t)page->slice_count * MI_SLICE_SIZE;
}

// Push a block, whose key is given, onto the list of free ones of a page that the calling thread
// owns. True if the count of the page is 0 then.
static mi_attr_inline bool mi_page_push_by(mi_page_t* page, mi_block_t* block, uint64_t key) {
  mi_block_set_next_by(block, key, page->local_free);
  page->local_free = block;
  return mi_bits_decrement_is_zero(&page->count.used);
}

// Check a list at hardly any cost: true if it starts in the page, and its second block lies there,
// too, at another address.
static inline bool mi_page_is_head_sound(const mi_page_t* page, const mi_block_t* head) {
  if (!mi_page_has_address(page, head)) return false;
  const mi_block_t* const next = mi_block_next(head);
  return next == NULL || (next != head && mi_page_has_address(page, next));
}

// The same at less cost for a head that is known to be good: its link is only compared with the
// longest page there is, so that the second half of the descriptor is not read.
static mi_attr_inline bool mi_page_is_link_near(const mi_page_t* page, const mi_block_t* head) {
  const mi_block_t* const next = mi_block_next(head);
  if (next == NULL) return true;
  return next != head &&
         (size_t)((const uint8_t*)next - page->start) < MI_CLASS_SLICES_MAX * MI_SLICE_SIZE;
}

static inline bool mi_page_has_interior(mi_page_t* page) {
  return mi_atomic_load_relaxed(&page->has_interior);
}

// The description of a page of a class that is going to be made.
typedef struct mi_page_plan_s {
  size_t size_class;
  size_t slice_count;
  // The page may never use much of its slices: old contents are given back, because they would
  // count as resident.
  bool is_sparse;
  bool is_likely_full; // the thread has used up a page of the class
  bool is_below_peak; // no page rather than one that makes a new peak of committed memory
} mi_page_plan_t;

// Make a fresh page in slices from the arenas: it is marked as owned (OWNED is set), and the caller
// becomes its owner (mi_life_own). NULL when out of memory, or because of `is_below_peak`.
MI_INTERNAL mi_page_t* mi_page_make(mi_heap_t* heap, const mi_page_plan_t* plan);

// Return the number of slices that a block of the page can start in: they need a descriptor.
static inline size_t mi_page_described(size_t slice_count, size_t block_count) {
  return block_count == 1 ? 1 : slice_count;
}

// Give the slices of an empty page back. The caller owns the page and is inside its heap
// (inside.h); it is in no queue and not pooled.
MI_INTERNAL void mi_page_release(mi_heap_t* heap, mi_page_t* page);

// Give the slices back even if blocks are in use. No other thread touches the page.
MI_INTERNAL void mi_page_destroy(mi_heap_t* heap, mi_page_t* page);

// Carve the next blocks and return them as a list, and their number in `*count`; NULL if all are
// carved. These blocks count as used.
MI_INTERNAL mi_block_t* mi_page_carve(mi_page_t* page, uint32_t* count);

// Carve blocks again that were carved before, and are in no list because they touched a hole.
MI_INTERNAL mi_block_t* mi_page_carve_at(mi_page_t* page, size_t index, size_t count);

// Count the memory of blocks that were carved as charged: charge.c.
MI_INTERNAL void mi_page_charge(mi_subproc_t* subproc, const mi_page_t* page, size_t index,
                                size_t count);

// Return the number of blocks of a list of the page, and in `*last` its last block; 0 and NULL for
// an empty list. If the program has damaged the list, a link that leads to no block, or twice to
// the same one, is reported and cut, and the blocks behind it stay in use. Owner only.
MI_INTERNAL uint32_t mi_page_measure(mi_page_t* page, mi_block_t** list, mi_block_t** last);

// Repair a list whose head is not sound: at most one block of it is left.
MI_INTERNAL void mi_page_cut_head(mi_page_t* page, mi_block_t** list);

// Check what a program may have broken: `local_free` holds blocks of the page, exactly those that
// do not count as used. False if not; this is reported and repaired. Too slow except for debug
// builds.
MI_INTERNAL bool mi_page_check(mi_page_t* page);

// Move blocks that other threads freed to `local_free`, and count them. Owner only.
MI_INTERNAL void mi_page_collect(mi_page_t* page);

// True if LIFE-1, LIFE-2, PAGE-2 and SAMPLE-1 hold; for assertions, owner only. PAGE-1 is not
// checked: to read memory that was never touched would make it resident.
MI_INTERNAL bool mi_page_is_valid(mi_page_t* page);

#endif
