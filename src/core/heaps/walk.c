// SPDX-License-Identifier: MIT
// walk.c - all pages of a heap or a sub-process, and the page of any address.
//
//   pages in arenas      of a heap that is not a main one: in its book; of others: slice by slice
//   pages outside them   in the book of the sub-process
//
// Pages are made and released during a walk: the fields of a page may be those of the next page in
// the same slices, and each visitor must cope.
#include "walk.h"

// -- all pages --

// Visit the pages of a book. While other threads run, a page may belong to any heap by now: the
// caller must cope.
MI_INTERNAL bool mi_walk_book(mi_book_t* book, mi_heap_t* heap, mi_page_visit_t* visit, void* arg) {
  uint32_t at = 0;
  mi_page_t* page;
  while ((page = mi_book_next(book, &at)) != NULL) {
    // Sees the const fields of the heap; pairs with the release in `mi_page_make`.
    const bool is_wanted = heap == NULL || mi_atomic_load_acquire(&page->heap) == heap;
    if (is_wanted && !visit(page, arg)) return false;
  }
  return true;
}

static bool mi_walk_arenas(mi_subproc_t* subproc, mi_heap_t* heap, mi_page_visit_t* visit,
                           void* arg) {
  MI_FOR_EACH_ARENA(subproc, arena) {
    for (size_t i = 0; i < mi_arena_slices(arena); i++) {
      mi_page_t* const page = mi_pagemap_slice(arena->start + i * MI_SLICE_SIZE);
      const uintptr_t owner = mi_atomic_load_relaxed(&page->owner);
      if (owner == MI_OWNER_NONE || owner == MI_OWNER_INTERIOR) continue;
      // Sees the const fields of the heap; pairs with the release in `mi_page_make`.
      const bool is_wanted = heap == NULL || mi_atomic_load_acquire(&page->heap) == heap;
      if (is_wanted && !visit(page, arg)) return false;
    }
  }
  return true;
}

MI_INTERNAL bool mi_walk_pages(mi_subproc_t* subproc, mi_heap_t* heap, mi_page_visit_t* visit,
                               void* arg) {
  const bool has_book = heap != NULL && !heap->is_main;
  return (has_book ? mi_walk_book(&heap->book, heap, visit, arg)
                   : mi_walk_arenas(subproc, heap, visit, arg)) &&
         mi_walk_book(&subproc->direct, heap, visit, arg);
}

// -- any address --

// In a run in use, the nearest descriptor below an address is that of its block.
static mi_page_t* mi_walk_find_in_arena(mi_arena_t* arena, const void* p) {
  for (size_t i = mi_arena_slice_of(arena, p) + 1; i > 0; i--) {
    if (!mi_bitmap_is_all_clear(arena->free, i - 1, 1)) return NULL;
    mi_page_t* const page = mi_pagemap_find(arena->start + (i - 1) * MI_SLICE_SIZE);
    if (page == NULL) continue;
    return (const uint8_t*)p < page->start + page->slice_count * MI_SLICE_SIZE ? page : NULL;
  }
  return NULL;
}

static mi_page_t* mi_walk_find_direct(mi_subproc_t* subproc, const void* p) {
  uint32_t at = 0;
  mi_page_t* page;
  while ((page = mi_book_next(&subproc->direct, &at)) != NULL) {
    const uint8_t* const end = page->start + page->slice_count * MI_SLICE_SIZE;
    if ((const uint8_t*)p >= page->start && (const uint8_t*)p < end) return page;
  }
  return NULL;
}

MI_INTERNAL mi_page_t* mi_walk_find(const void* p) {
  p = mi_cpu_address(p);
  mi_page_t* page = mi_pagemap_find(p);
  if (page != NULL || p == NULL) return page;
  // Before set-up nothing is ours, and the lock is not ready. Sees it; pairs with the release in
  // `mi_init_end`.
  if (mi_atomic_load_acquire(&mi_state.stage) != MI_STAGE_READY) return NULL;
  mi_lock_enter(&mi_state.thread_lock);
  for (mi_subproc_t* s = &mi_state.main; s != NULL && page == NULL; s = s->next) {
    mi_arena_t* const arena = mi_arena_of(s, p);
    page = arena != NULL ? mi_walk_find_in_arena(arena, p) : mi_walk_find_direct(s, p);
  }
  mi_lock_leave(&mi_state.thread_lock);
  return page;
}
