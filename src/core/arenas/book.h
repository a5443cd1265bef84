// SPDX-License-Identifier: MIT
// book.h - which pages there are: of a heap, or outside the arenas of a sub-process.
#ifndef MI_CORE_BOOK_H
#define MI_CORE_BOOK_H

#include "../common/common.h"

// Write the page into the book; it must not be there. Takes the arena lock. False: no memory.
MI_INTERNAL bool mi_book_add(mi_book_t* book, mi_page_t* page);

// Take it out again. Never waits.
MI_INTERNAL void mi_book_remove(mi_book_t* book, mi_page_t* page);

// Whether it never had so many entries at a time.
static inline bool mi_book_is_shorter(const mi_book_t* book, size_t length) {
  return mi_atomic_load_relaxed(&((mi_book_t*)(uintptr_t)book)->used) < length;
}

// Forget all entries. Nobody else uses the book.
MI_INTERNAL void mi_book_clear(mi_book_t* book);

// BOOK-2 and BOOK-3; for assertions, while nobody adds or removes pages.
MI_INTERNAL bool mi_book_is_valid(mi_book_t* book);

// The first page at `*index` or behind it; `*index` is then where to go on. NULL at the end. Pages
// that come or go meanwhile may be seen or not.
MI_INTERNAL mi_page_t* mi_book_next(mi_book_t* book, uint32_t* index);

#endif
