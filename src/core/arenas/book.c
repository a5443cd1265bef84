// SPDX-License-Identifier: MIT
// book.c - an array of pages that can be walked at any time, and from which a free removes a page
// without waiting.
//
//   first     [ page | vacant -> 6 | page | page ]          an entry is a page, or, odd, the next
//   piece 0   [ page | page | vacant | page | ... ]         vacant one
//
// BOOK-1  entries never move, and pieces are not given back: an index stays valid, and a walk that
//     overlaps with changes reads valid memory.
// BOOK-2  vacant entries are a stack. Any thread pushes (mi_book_remove); only a thread that holds
//     the arena lock pops (mi_book_add), so an entry that a popper saw on top cannot have been
//     taken and put back.
// BOOK-3  a page knows its index (`book_index`); it is in one book only.
//
// Deliberately absent: order, search, shrinking. A book that is cleared keeps its pieces.
#include "book.h"

#define MI_BOOK_IN_FIRST SIZE_MAX
#define MI_BOOK_LENGTH_MAX (UINT32_MAX >> 1)

// Return the piece of an index, and in `*at` the index inside that piece.
static size_t mi_book_piece(size_t index, size_t* at) {
  size_t k = MI_BOOK_IN_FIRST;
  for (size_t count = MI_BOOK_FIRST; index >= count; count *= 4) {
    index -= count;
    k++; // from MI_BOOK_IN_FIRST to 0
  }
  *at = index;
  return k;
}

static mi_book_entry_t* mi_book_entry(mi_book_t* book, uint32_t index) {
  size_t at;
  const size_t k = mi_book_piece(index, &at);
  return k == MI_BOOK_IN_FIRST ? &book->first[at] : &book->piece[k][at];
}

// Make room for the entry. Under the arena lock. False if there is no memory.
static bool mi_book_make_room(mi_book_t* book, uint32_t index) {
  mi_lock_expect(&mi_state.arena_lock);
  size_t at;
  const size_t k = mi_book_piece(index, &at);
  if (k == MI_BOOK_IN_FIRST || book->piece[k] != NULL) return true;
  const size_t size = (4 * MI_BOOK_FIRST << 2 * k) * sizeof(mi_book_entry_t);
  book->piece[k] = (mi_book_entry_t*)mi_meta_alloc(size);
  return book->piece[k] != NULL;
}

static uintptr_t mi_book_link(uint32_t vacant) { return (uintptr_t)vacant << 1 | 1; }

// Take a vacant entry. Under the arena lock. False: no memory for another piece.
static bool mi_book_take_vacant(mi_book_t* book, uint32_t* index) {
  mi_lock_expect(&mi_state.arena_lock);
  // Sees the link in the entry; pairs with the release in `mi_book_remove`.
  uint32_t vacant = mi_atomic_load_acquire(&book->vacant);
  while (vacant != 0) {
    const uintptr_t link = mi_atomic_load_relaxed(mi_book_entry(book, vacant - 1));
    // Sees the link of a newer entry on failure; pairs with the release in `mi_book_remove`.
    if (mi_atomic_cas_weak_acq_rel(&book->vacant, &vacant, (uint32_t)(link >> 1))) {
      *index = vacant - 1;
      return true;
    }
  }
  const uint32_t used = mi_atomic_load_relaxed(&book->used);
  if (used == MI_BOOK_LENGTH_MAX || !mi_book_make_room(book, used)) return false;
  *index = used;
  return true;
}

MI_INTERNAL bool mi_book_add(mi_book_t* book, mi_page_t* page) {
  mi_lock_enter(&mi_state.arena_lock);
  uint32_t index = 0;
  const bool is_added = mi_book_take_vacant(book, &index);
  if (is_added) {
    page->book_index = index;
    // Publishes the descriptor; pairs with the acquire in `mi_book_next`.
    mi_atomic_store_release(mi_book_entry(book, index), (uintptr_t)page);
    if (index == mi_atomic_load_relaxed(&book->used)) {
      // Publishes the entry and its piece; pairs with the acquire in `mi_book_next`.
      mi_atomic_store_release(&book->used, index + 1);
    }
  }
  mi_lock_leave(&mi_state.arena_lock);
  return is_added;
}

MI_INTERNAL void mi_book_remove(mi_book_t* book, mi_page_t* page) {
  const uint32_t index = page->book_index;
  mi_book_entry_t* const entry = mi_book_entry(book, index);
  mi_assert_page(page, mi_atomic_load_relaxed(entry) == (uintptr_t)page);
  uint32_t vacant = mi_atomic_load_relaxed(&book->vacant);
  do {
    // Publishes that the caller is inside the heap; pairs with the acquire in `mi_book_next`
    // (SUBPROC-2).
    mi_atomic_store_release(entry, mi_book_link(vacant));
    // Publishes the link; pairs with the acquire in `mi_book_take_vacant`.
  } while (!mi_atomic_cas_weak_release(&book->vacant, &vacant, index + 1));
}

MI_INTERNAL bool mi_book_is_valid(mi_book_t* book) {
  const uint32_t used = mi_atomic_load_relaxed(&book->used);
  uint32_t vacant_count = 0;
  for (uint32_t i = 0; i < used; i++) {
    const uintptr_t entry = mi_atomic_load_relaxed(mi_book_entry(book, i));
    if ((entry & 1) != 0) {
      vacant_count++;
    } else if (((mi_page_t*)entry)->book_index != i) { // BOOK-3
      return false;
    }
  }
  uint32_t vacant = mi_atomic_load_relaxed(&book->vacant);
  for (; vacant != 0 && vacant_count > 0; vacant_count--) { // BOOK-2
    const uintptr_t link = mi_atomic_load_relaxed(mi_book_entry(book, vacant - 1));
    if (vacant > used || (link & 1) == 0) return false;
    vacant = (uint32_t)(link >> 1);
  }
  return vacant == 0; // else the stack has a loop
}

MI_INTERNAL void mi_book_clear(mi_book_t* book) {
  mi_atomic_store_relaxed(&book->used, 0);
  mi_atomic_store_relaxed(&book->vacant, 0);
}

MI_INTERNAL mi_page_t* mi_book_next(mi_book_t* book, uint32_t* index) {
  // Sees entries and pieces; pairs with the release in `mi_book_add`.
  const uint32_t used = mi_atomic_load_acquire(&book->used);
  while (*index < used) {
    // Sees the descriptor as it was at `mi_book_add`, or who is inside since `mi_book_remove`.
    const uintptr_t entry = mi_atomic_load_acquire(mi_book_entry(book, (*index)++));
    if ((entry & 1) == 0) return (mi_page_t*)entry;
  }
  return NULL;
}
