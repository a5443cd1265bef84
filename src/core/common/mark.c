// SPDX-License-Identifier: MIT
// mark.c - the tables of marks, and what is rare about marks: MARK-1 to MARK-4 in mark.h.
//
// A table is mapped when there first is a page in its window, and unmapped only when the library is
// unloaded: any address may be looked up. (It is not made read-only where no page is: a sandbox may
// forbid that call.)
#include "mark.h"

#include <string.h>

#include "fence.h"
#include "report.h"
#include "state.h"

#if MI_IS_SECURE

#define MI_MARK_WINDOW ((size_t)1 << MI_MARK_WINDOW_SHIFT)
// The marks of a window, and that behind the last one.
#define MI_MARK_TABLE_SIZE ((MI_MARK_WINDOW >> MI_MARK_SHIFT) + mi_state.os.page_size)

MI_INTERNAL_DATA mi_marks_t mi_marks mi_attr_sparse;

// The windows that have a table are in this range; under the arena lock.
static size_t mi_mark_first = SIZE_MAX, mi_mark_limit;

// -- Tables --

// Return where the marks of a window would begin if it were the first one: the table is at the
// address of the window, shifted, from there.
static uintptr_t mi_mark_base(const uint8_t* table, size_t w) {
  return (uintptr_t)table - (w << (MI_MARK_WINDOW_SHIFT - MI_MARK_SHIFT));
}

static uint8_t* mi_mark_table(uintptr_t base, size_t w) {
  return (uint8_t*)(base + (w << (MI_MARK_WINDOW_SHIFT - MI_MARK_SHIFT)));
}

static size_t mi_mark_alignment(void) { return mi_bits_max(mi_state.os.page_size, 64 * MI_KIB); }

static bool mi_mark_make_table(size_t w) {
  mi_lock_expect(&mi_state.arena_lock);
  if (mi_atomic_load_relaxed(&mi_marks.base[w]) != 0) return true; // another thread was faster
  void* const table = mi_fence_map(MI_MARK_TABLE_SIZE, mi_mark_alignment());
  if (table == NULL) return false;
  const uintptr_t base = mi_mark_base((const uint8_t*)table, w);
  if (base == 0) { // it would look as if there were no table; it is not so in practice
    mi_fence_unmap(table, MI_MARK_TABLE_SIZE, mi_mark_alignment());
    return false;
  }
  mi_os_huge_pages(table, MI_MARK_TABLE_SIZE, MI_OS_SMALL);
  // Pairs with none: all threads load it relaxed. A thread that has an address in the window got it
  // later, as a block.
  mi_atomic_store_release(&mi_marks.base[w], base);
  mi_mark_first = mi_bits_min(mi_mark_first, w);
  mi_mark_limit = mi_bits_max(mi_mark_limit, w + 1);
  return true;
}

// Have tables for a range. False when out of memory.
static bool mi_mark_cover(const uint8_t* start, size_t size) {
  const size_t last = ((uintptr_t)start + size - 1) >> MI_MARK_WINDOW_SHIFT;
  if (last >= MI_MARK_WINDOW_COUNT) return false;
  for (size_t w = (uintptr_t)start >> MI_MARK_WINDOW_SHIFT; w <= last; w++) {
    if (mi_likely(mi_atomic_load_relaxed(&mi_marks.base[w]) != 0)) continue;
    mi_lock_enter(&mi_state.arena_lock);
    const bool is_made = mi_mark_make_table(w);
    mi_lock_leave(&mi_state.arena_lock);
    if (!is_made) return false;
  }
  return true;
}

// Call `call` for the whole OS pages of the marks of a range.
static void mi_mark_each_table(const uint8_t* start, size_t size, int (*call)(void*, size_t)) {
  const uint8_t* const end = start + size;
  while (start < end) {
    const size_t to_next = MI_MARK_WINDOW - ((uintptr_t)start & (MI_MARK_WINDOW - 1));
    const size_t part = mi_bits_min((size_t)(end - start), to_next);
    uint8_t* const marks = (uint8_t*)mi_mark_find(start);
    if (marks != NULL) {
      const size_t page_size = mi_state.os.page_size;
      const uintptr_t first = mi_bits_align_up((uintptr_t)marks, page_size);
      const uintptr_t last =
          mi_bits_align_down((uintptr_t)marks + (part >> MI_MARK_SHIFT), page_size);
      if (first < last) call((void*)first, last - first);
    }
    start += part;
  }
}

MI_INTERNAL void mi_mark_purge(const uint8_t* start, size_t size) {
  mi_mark_each_table(start, size, &mi_os_purge);
}

MI_INTERNAL void mi_mark_populate(const uint8_t* start, size_t size) {
  mi_mark_each_table(start, size, &mi_os_populate);
}

MI_INTERNAL void mi_mark_done(void) {
  for (size_t w = mi_mark_first; w < mi_mark_limit; w++) {
    const uintptr_t base = mi_atomic_load_relaxed(&mi_marks.base[w]);
    if (base == 0) continue;
    mi_atomic_store_relaxed(&mi_marks.base[w], 0);
    mi_fence_unmap(mi_mark_table(base, w), MI_MARK_TABLE_SIZE, mi_mark_alignment());
  }
  mi_mark_first = SIZE_MAX;
  mi_mark_limit = 0;
}

// -- Pages --

// The marks of a slice: bytes that no other thread writes while a page is made or ends. Loops over
// all of them, of a constant length, take several at a time.
#define MI_MARK_SLICE (MI_SLICE_SIZE >> MI_MARK_SHIFT)

static uint8_t* mi_mark_slice(const uint8_t* start, size_t slice) {
  return (uint8_t*)mi_mark_find(start + slice * MI_SLICE_SIZE);
}

// True if a mark of the slice has a bit of `bits`. Reading does not make marks resident that were
// never written.
static bool mi_mark_slice_has(const uint8_t* marks, uint8_t bits) {
  uint8_t any = 0;
  for (size_t i = 0; i < MI_MARK_SLICE; i++) any |= marks[i];
  return (any & bits) != 0;
}

MI_INTERNAL bool mi_mark_begin(const uint8_t* start, size_t size, bool is_zero) {
  if (!mi_mark_cover(start, size)) return false;
  // The mark behind the last one of a table: a page that was destroyed may have left something
  // there, and mi_mark_end knows nothing of it. (A page is shorter than a window.)
  const uint8_t* const last = start + size - ((size_t)1 << MI_MARK_SHIFT);
  const uint8_t* const border = (const uint8_t*)((uintptr_t)last & ~(MI_MARK_WINDOW - 1));
  if (mi_unlikely(start < border)) {
    mi_mark_clear_plain(mi_mark_find(border - ((size_t)1 << MI_MARK_SHIFT)));
  }
  // The marks of a slice are whole OS pages then, and went back, too. (Reading them would be a
  // fault more.)
  if (is_zero && mi_state.os.page_size <= MI_MARK_SLICE) return true;
  for (size_t slice = 0; slice < size / MI_SLICE_SIZE; slice++) {
    uint8_t* const marks = mi_mark_slice(start, slice);
    if (mi_mark_slice_has(marks, UINT8_MAX)) memset(marks, 0, MI_MARK_SLICE);
  }
  return true;
}

MI_INTERNAL bool mi_mark_begin_single(const uint8_t* block) {
  if (!mi_mark_cover(block, 2 << MI_MARK_SHIFT)) return false;
  mi_atomic_store_relaxed(mi_mark_find(block), MI_MARK_SINGLE);
  mi_mark_clear_plain(mi_mark_find(block));
  return true;
}

static bool mi_mark_is_single(const mi_page_t* page) { return page->size_class == MI_CLASS_COUNT; }

// Return how many slices of the page have a block that was carved.
static size_t mi_mark_slices(const mi_page_t* page) {
  const size_t size = (page->refilled.used - 1) * page->block_size;
  return mi_bits_divide_up(size, MI_SLICE_SIZE);
}

MI_INTERNAL uint32_t mi_mark_count(const mi_page_t* page) {
  uint32_t count = 0;
  for (size_t slice = 0; slice < mi_mark_slices(page); slice++) {
    const uint8_t* const marks = mi_mark_slice(page->start, slice);
    if (mi_likely(!mi_mark_slice_has(marks, MI_MARK_USED))) continue;
    for (size_t i = 0; i < MI_MARK_SLICE; i++) count += marks[i] >> 7;
  }
  return count;
}

MI_INTERNAL void mi_mark_end(const mi_page_t* page) {
  if (mi_mark_is_single(page)) {
    mi_atomic_store_relaxed(mi_mark_find(page->start + page->shift), MI_MARK_ENDED);
    return;
  }
  for (size_t slice = 0; slice < mi_mark_slices(page); slice++) {
    uint8_t* const marks = mi_mark_slice(page->start, slice);
    if (!mi_mark_slice_has(marks, UINT8_MAX)) continue; // inside a block, and not to be written
    for (size_t i = 0; i < MI_MARK_SLICE; i++) marks[i] = marks[i] != 0 ? MI_MARK_ENDED : 0;
  }
}

// -- What a program did wrong --

// Return what is wrong about a free of `p`.
static mi_error_kind_t mi_mark_mistake(const mi_page_t* page, const void* p) {
  const uint8_t value = mi_mark_of(p);
  const bool was_block = value != 0 && value != MI_MARK_PLAIN && mi_mark_is_aligned(p);
  if (value == MI_MARK_ENDED || was_block) return MI_ERROR_DOUBLE_FREE;
  return page != NULL ? MI_ERROR_INTERIOR_POINTER : MI_ERROR_INVALID_POINTER;
}

MI_INTERNAL bool mi_mark_take_single(void* p) {
  if (p == NULL) return false;
  mi_page_t* const page = mi_pagemap_find(p);
  if (page != NULL && mi_mark_is_single(page) && page->start + page->shift == p) {
    // Its address may be any one (mi_malloc_aligned_at).
    uint8_t value = MI_MARK_SINGLE;
    mi_mark_t* const mark = mi_mark_find(p);
    if (mi_atomic_cas_strong_relaxed(mark, &value, MI_MARK_ENDED)) return true;
  }
  // After mi_unload a stale pointer is ignored, not reported (UNLOAD-2).
  if (mi_state.is_unloaded) return false;
  mi_report(mi_mark_mistake(page, p), "free", p, page != NULL ? page->block_size : 0);
  return false;
}

MI_INTERNAL mi_attr_cold void* mi_mark_refuse_link(const void* block, const void* next) {
  mi_page_t* const page = mi_pagemap_find(block);
  if (page != NULL) mi_report_block(MI_ERROR_CORRUPT_LIST, page, block, next);
  return NULL;
}

MI_INTERNAL mi_attr_cold void mi_mark_refuse_block(const void* block) {
  mi_page_t* const page = mi_pagemap_find(block);
  if (page != NULL) {
    mi_report_block(MI_ERROR_DOUBLE_FREE, page, block, NULL);
  } else {
    mi_report(MI_ERROR_CORRUPT_LIST, "malloc", block, 0);
  }
}

#endif
