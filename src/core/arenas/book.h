// SPDX-License-Identifier: MIT
// book.h - a list of all pages of a heap, or of all pages outside the arenas of a sub-process.
#ifndef MI_CORE_BOOK_H
#define MI_CORE_BOOK_H

#include "../common/common.h"

// Enter a page that is not in the book. Takes the arena lock. False if there is no memory.
MI_INTERNAL bool mi_book_add(mi_book_t* book, mi_page_t* page);

// Take a page out of the book. Never waits.
MI_INTERNAL void mi_book_remove(mi_book_t* book, mi_page_t* page);

// True if the book never had `length` entries at a time.
static inline bool mi_book_is_shorter(const mi_book_t* book, size_t length) {
  return mi_atomic_load_relaxed(&((mi_book_t*)(uintptr_t)book)->used) < length;
}

// Forget all entries. No other thread uses the book.
MI_INTERNAL void mi_book_clear(mi_book_t* book);

// True if BOOK-2 and BOOK-3 hold; for assertions, while no thread adds or removes pages.
MI_INTERNAL bool mi_book_is_valid(mi_book_t* book);

// Return the first page at `*index` or behind it, NULL at the end, and store in `*index` where to
// continue. Pages that are added or removed meanwhile may be seen or not.
MI_INTERNAL mi_page_t* mi_book_next(mi_book_t* book, uint32_t* index);

#endif
