// SPDX-License-Identifier: MIT
// list.h - a walk along a list of blocks of one page that the program may have damaged.
//
//   for (mi_list_t at = mi_list_of(page, first); mi_list_has(&at); mi_list_step(&at)) ... at.block
//
// The walk ends at the end of the list, at a link that leads to no block of the page, or after as
// many blocks as were carved, because a longer list has a loop. Afterwards `block` is NULL only at
// the end of the list.
//
// All walks along lists of a page use this. Portions have lists of blocks of several pages and a
// walk of their own (portion.c).
#ifndef MI_CORE_LIST_H
#define MI_CORE_LIST_H

#include "page.h"

typedef struct mi_list_s {
  const mi_page_t* page;
  mi_block_t* block; // the block that the walk has reached
  uint32_t count; // blocks before it
} mi_list_t;

static inline mi_list_t mi_list_of(const mi_page_t* page, const mi_block_t* first) {
  return (mi_list_t){page, (mi_block_t*)(uintptr_t)first, 0};
}

// True if the walk has reached a block.
static inline bool mi_list_has(const mi_list_t* at) {
  return at->block != NULL && at->count < mi_page_capacity(at->page) &&
         mi_page_has_block(at->page, at->block);
}

static inline void mi_list_step(mi_list_t* at) {
  at->block = mi_block_next(at->block);
  at->count++;
}

// Return the number of blocks of the list, up to the end of the walk.
static inline uint32_t mi_list_length(const mi_page_t* page, const mi_block_t* first) {
  mi_list_t at = mi_list_of(page, first);
  while (mi_list_has(&at)) mi_list_step(&at);
  return at.count;
}

// Return the number of blocks that other threads freed into a page, whose list no other thread can
// take.
static inline uint32_t mi_list_returned(mi_page_t* page) {
  // Sees the links; pairs with the release in `mi_remote_push`.
  const uintptr_t word = mi_atomic_load_acquire(&page->thread_free);
  return mi_list_length(page, (const mi_block_t*)(word & ~MI_REMOTE_BITS));
}

#endif
