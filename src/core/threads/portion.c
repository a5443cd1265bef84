// SPDX-License-Identifier: MIT
// portion.c - the blocks that a thread in a crowd holds ready: a few, of pages that no thread owns.
//
//   page of nobody --refill: a portion of its blocks (refill.c)--> free[c] of the theap --> malloc
//        ^                                                            ^
//        '--------- a free, when it is full --------- a free ---------'
//
// If each thread had a page of its own for each class, a sleeping thread would hold 4 KiB and more
// in each, which no other thread could use: 119 MiB with 800 threads. With portions they hold a few
// MiB, and still most mallocs and frees touch no shared data.
//
// PORTION-1  `free[c]` is a portion as long as `current[c]` is none. Its blocks may be of several
//     pages, and count as used there.
// PORTION-2  a portion has at most mi_portion_length(c) blocks after a block is added, or as many
//     as the refill found; classes of which two blocks exceed the size of a portion have none
//     between calls.
// PORTION-3  a thread that ends or gives up everything returns its portions first: no other code
//     looks for blocks in the lists of a theap without pages.
//
// Deliberately absent: an exact count for each list. `room` says how many blocks may be added
// before the list is counted again.
#include "portion.h"

#include "crowd.h"
#include "reclaim.h"

MI_INTERNAL bool mi_portion_add(mi_page_t* page, mi_block_t* block) {
  const size_t c = page->size_class;
  const size_t length = mi_portion_length(c);
  if (length == 1) return false;
  mi_theap_t* const theap = mi_theap_find(mi_atomic_load_relaxed(&page->heap));
  if (theap == NULL || !mi_crowd_shares(theap)) return false;
  if (mi_theap_current(theap, c) != NULL) return false;
  mi_block_t* const newest = theap->free[c];
  if (mi_unlikely(block == newest)) {
    mi_report_block(MI_ERROR_DOUBLE_FREE, page, block, NULL);
    return true;
  }
  if (theap->room[c] == 0) {
    theap->room[c] = (uint8_t)(length - mi_portion_count(newest, length));
    if (theap->room[c] == 0) return false;
  }
  theap->room[c]--;
  mi_block_set_next(block, newest);
  theap->free[c] = block;
  return true;
}

MI_INTERNAL bool mi_portion_is_valid(const mi_theap_t* theap, size_t size_class) {
  size_t count = 0;
  const mi_block_t* block = mi_portion_of(theap, size_class);
  for (; block != NULL; block = mi_block_next(block)) {
    mi_page_t* const page = mi_pagemap_find(block);
    if (page == NULL || page->size_class != size_class) return false;
    if (mi_page_block_of(page, block) != block) return false;
    if (++count > mi_portion_length(size_class)) return false; // a loop
  }
  return true;
}

// Return the first blocks of the list, as far as they are of one page, to that page. Returns the
// rest of the list.
static mi_block_t* mi_portion_return(mi_block_t* first) {
  mi_page_t* const page = mi_pagemap_find(first);
  const uint8_t* const end = page->start + page->slice_count * MI_SLICE_SIZE;
  mi_block_t* last = first;
  mi_block_t* next = mi_block_next(last);
  uint32_t count = 1;
  while ((uint8_t*)next >= page->start && (uint8_t*)next < end) {
    last = next;
    next = mi_block_next(last);
    count++;
  }
  mi_reclaim_chain(page, first, last, count);
  return next;
}

MI_INTERNAL void mi_portion_return_all(mi_theap_t* theap) {
  for (size_t c = 0; c < MI_CLASS_COUNT; c++) {
    mi_block_t* list = mi_portion_of(theap, c);
    if (list == NULL) continue;
    const bool is_valid = mi_portion_is_valid(theap, c);
    theap->free[c] = NULL; // first: a report may allocate
    theap->room[c] = 0;
    if (!is_valid) {
      mi_report(MI_ERROR_CORRUPT_LIST, "free", list, mi_class_size(c));
      continue; // its blocks stay in use
    }
    while (list != NULL) list = mi_portion_return(list);
  }
}
