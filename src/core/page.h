// SPDX-License-Identifier: MIT
// page.h - small questions about a page, its queue, and the functions of page.c.
#ifndef MI_CORE_PAGE_H
#define MI_CORE_PAGE_H

#include "arena.h"
#include "pagemap.h"
#include "sizeclass.h"

// Blocks carved so far.
static inline uint32_t mi_page_capacity(const mi_page_t* page) { return page->refilled.used - 1; }

// True when the page has a block to give without asking anyone.
static inline bool mi_page_has_free(mi_page_t* page) {
  return page->local_free != NULL || mi_page_capacity(page) < page->reserved ||
         mi_atomic_load_relaxed(&page->thread_free) > MI_REMOTE_BITS;
}

// The number of the block that `p` lies in: offset / block_size by multiply and shift, exact for
// offsets inside a page of at most a chunk (offset < 2^21, block_size < 2^20; Granlund, Montgomery:
// "Division by invariant integers using multiplication", 1994).
static inline size_t mi_page_index_of(const mi_page_t* page, const void* p) {
  const uint64_t offset = (uint64_t)((const uint8_t*)p - page->start);
  return (offset * mi_class_reciprocal[page->size_class]) >> MI_RECIPROCAL_SHIFT;
}

static inline mi_block_t* mi_page_block_of(const mi_page_t* page, const void* p) {
  return (mi_block_t*)(page->start + mi_page_index_of(page, p) * page->block_size);
}

static inline bool mi_page_has_interior(mi_page_t* page) {
  return mi_atomic_load_relaxed(&page->has_interior);
}

// What the owner word of a page says when this thread owns it.
static inline uintptr_t mi_page_owner_word(mi_page_t* page, uintptr_t thread_id) {
  return thread_id | (mi_page_has_interior(page) ? MI_OWNER_SLOW : 0);
}

static inline bool mi_page_is_single(const mi_page_t* page) {
  return page->size_class == MI_CLASS_COUNT;
}

// -- queues: pages with free blocks, oldest first; owner only --

static inline void mi_queue_append(mi_page_queue_t* queue, mi_page_t* page) {
  mi_assert(page->place == MI_PLACE_NONE);
  page->place = MI_PLACE_QUEUE;
  page->next = NULL;
  page->prev = queue->last;
  if (queue->last != NULL) {
    queue->last->next = page;
  } else {
    queue->first = page;
  }
  queue->last = page;
}

static inline void mi_queue_remove(mi_page_queue_t* queue, mi_page_t* page) {
  mi_assert(page->place == MI_PLACE_QUEUE);
  page->place = MI_PLACE_NONE;
  if (page->prev != NULL) {
    page->prev->next = page->next;
  } else {
    queue->first = page->next;
  }
  if (page->next != NULL) {
    page->next->prev = page->prev;
  } else {
    queue->last = page->prev;
  }
  page->next = page->prev = NULL;
}

// A fresh page of the class in slices from the arenas, owned by the theap, in no queue. NULL: out
// of memory.
MI_INTERNAL mi_page_t* mi_page_make(mi_theap_t* theap, size_t size_class);

// Slices that a block of the page can start in, and that therefore need a descriptor.
static inline size_t mi_page_described(size_t slice_count, size_t block_count) {
  return block_count == 1 ? 1 : slice_count;
}

// Set up descriptors for a run; also used for single blocks.
MI_INTERNAL mi_page_t* mi_page_describe(uint8_t* start, size_t slice_count, size_t interior_count);

// The descriptors are nobody's again.
MI_INTERNAL void mi_page_undescribe(mi_page_t* page, size_t interior_count);

// Give the slices of an empty page back. The caller owns the page and is inside its heap (heap.h);
// it is in no queue and not pooled.
MI_INTERNAL void mi_page_release(mi_heap_t* heap, mi_page_t* page);

// Give the slices back whatever is in use. Nobody else touches the page.
MI_INTERNAL void mi_page_destroy(mi_heap_t* heap, mi_page_t* page);

// Carve the next blocks and return them as a list, NULL when all are carved. They count as used.
MI_INTERNAL mi_block_t* mi_page_carve(mi_page_t* page);

// Move blocks that others freed to `local_free`, and count them. Owner only.
MI_INTERNAL void mi_page_collect(mi_page_t* page);

// The numbered invariants of page.c; for assertions, owner only.
MI_INTERNAL bool mi_page_is_valid(mi_page_t* page);

#endif
