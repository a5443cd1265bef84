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
#define MI_MARK_TABLE_SIZE (MI_MARK_WINDOW >> MI_MARK_SHIFT)

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

// A walk along the marks of a range of slices, eight at a time. Slices do not cross tables.
//
//   mi_mark_walk_t at = mi_mark_walk(start, size);
//   for (uint64_t eight; mi_mark_walk_load(&at, &eight); at.offset += MI_MARK_EIGHT) ... eight
typedef struct mi_mark_walk_s {
  const uint8_t* start;
  size_t size; // bytes of memory
  size_t offset;
  uint8_t* marks; // of the slice
} mi_mark_walk_t;

#define MI_MARK_EIGHT ((size_t)8 << MI_MARK_SHIFT) // the memory of eight marks

static mi_mark_walk_t mi_mark_walk(const uint8_t* start, size_t size) {
  return (mi_mark_walk_t){.start = start, .size = size};
}

// Go to the marks of the offset, and load them. False at the end.
static bool mi_mark_walk_load(mi_mark_walk_t* at, uint64_t* eight) {
  if (at->offset >= at->size) return false;
  const size_t in_slice = at->offset % MI_SLICE_SIZE;
  if (in_slice == 0) at->marks = (uint8_t*)mi_mark_find(at->start + at->offset);
  memcpy(eight, at->marks + (in_slice >> MI_MARK_SHIFT), sizeof(*eight));
  return true;
}

static void mi_mark_walk_store(const mi_mark_walk_t* at, uint64_t eight) {
  memcpy(at->marks + (at->offset % MI_SLICE_SIZE >> MI_MARK_SHIFT), &eight, sizeof(eight));
}

MI_INTERNAL bool mi_mark_begin(const uint8_t* start, size_t size, bool is_zero) {
  if (!mi_mark_cover(start, size)) return false;
  // The marks of a slice are whole OS pages then, and went back, too. (Reading them would be a
  // fault more.)
  if (is_zero && mi_state.os.page_size <= MI_SLICE_SIZE >> MI_MARK_SHIFT) return true;
  // Nothing is there, so that no other thread writes these marks. Reading does not make those
  // resident that were never written.
  mi_mark_walk_t at = mi_mark_walk(start, size);
  for (uint64_t eight; mi_mark_walk_load(&at, &eight); at.offset += MI_MARK_EIGHT) {
    if (eight != 0) mi_mark_walk_store(&at, 0);
  }
  return true;
}

MI_INTERNAL bool mi_mark_begin_single(const uint8_t* block) {
  if (!mi_mark_cover(block, 2 << MI_MARK_SHIFT)) return false;
  mi_atomic_store_relaxed(mi_mark_find(block), MI_MARK_SINGLE);
  mi_mark_clear_plain(block);
  return true;
}

static bool mi_mark_is_single(const mi_page_t* page) { return page->size_class == MI_CLASS_COUNT; }

#define MI_MARK_USED_EIGHT (UINT64_C(0x0101010101010101) * MI_MARK_USED)

static mi_mark_walk_t mi_mark_walk_page(const mi_page_t* page) {
  return mi_mark_walk(page->start, (page->refilled.used - 1) * page->block_size);
}

MI_INTERNAL uint32_t mi_mark_count(const mi_page_t* page) {
  uint32_t count = 0;
  mi_mark_walk_t at = mi_mark_walk_page(page);
  for (uint64_t eight; mi_mark_walk_load(&at, &eight); at.offset += MI_MARK_EIGHT) {
    if ((eight & MI_MARK_USED_EIGHT) == 0) continue;
    count += (uint32_t)mi_bits_count(eight & MI_MARK_USED_EIGHT);
  }
  return count;
}

MI_INTERNAL void mi_mark_end(const mi_page_t* page) {
  if (mi_mark_is_single(page)) {
    mi_atomic_store_relaxed(mi_mark_find(page->start + page->shift), MI_MARK_ENDED);
    return;
  }
  mi_mark_walk_t at = mi_mark_walk_page(page);
  for (uint64_t eight; mi_mark_walk_load(&at, &eight); at.offset += MI_MARK_EIGHT) {
    if (eight == 0) continue;
    // The highest bit of each byte that is not 0, by a carry into it.
    const uint64_t not_zero = ((eight & ~MI_MARK_USED_EIGHT) + ~MI_MARK_USED_EIGHT) | eight;
    mi_mark_walk_store(&at, ((not_zero & MI_MARK_USED_EIGHT) >> 7) * MI_MARK_ENDED);
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

MI_INTERNAL bool mi_mark_take_slow(void* p) {
  if (p == NULL) return false;
  mi_page_t* const page = mi_pagemap_find(p);
  if (page != NULL && mi_mark_is_single(page) && page->start + page->shift == p) {
    // Its address may be any one (mi_malloc_aligned_at).
    uint8_t value = MI_MARK_SINGLE;
    if (mi_atomic_cas_strong_relaxed(mi_mark_find(p), &value, MI_MARK_ENDED)) return true;
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
