// SPDX-License-Identifier: MIT
// block.h - the links of free blocks.
//
// A free block holds one link in its first word (TYPES-4). Tools that watch the memory of a program
// treat that word as inaccessible, so every access to a link goes through these functions.
#ifndef MI_CORE_BLOCK_H
#define MI_CORE_BLOCK_H

#include "../arenas/arenas.h"

// Return the link of a free block.
static mi_attr_unwatched mi_block_t* mi_block_next(const mi_block_t* block) {
  mi_tool_pause();
  mi_block_t* const next = block->next;
  mi_tool_resume();
  return next;
}

static mi_attr_unwatched void mi_block_set_next(mi_block_t* block, mi_block_t* next) {
  mi_tool_pause();
  block->next = next;
  mi_tool_resume();
}

// Append `rest` to `list` behind its last block `last`, which is NULL if the list is empty.
static inline void mi_block_join(mi_block_t** list, mi_block_t* last, mi_block_t* rest) {
  if (last != NULL) {
    mi_block_set_next(last, rest);
  } else {
    *list = rest;
  }
}

#endif
