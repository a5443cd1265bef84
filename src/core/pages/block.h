// SPDX-License-Identifier: MIT
// block.h - the links of free blocks.
//
// A free block holds one link in its first word (TYPES-4). Tools that watch the memory of a program
// treat that word as inaccessible, so every access to a link goes through these functions.
//
// In a secure build a link is coded (secret.h), and is followed only to a free block of the same
// class (MARK-2). A link that leads elsewhere is reported and taken for the end of the list: the
// blocks behind it stay in use.
#ifndef MI_CORE_BLOCK_H
#define MI_CORE_BLOCK_H

#include "tags.h"

// Return the link of a free block, which may lead anywhere. `key` is that of the block (secret.h).
static mi_attr_unwatched mi_block_t* mi_block_peek_by(const mi_block_t* block, uint64_t key) {
  mi_tool_pause();
  const mi_block_t* const at = (const mi_block_t*)mi_tags_access(block);
  mi_block_t* const next = (mi_block_t*)mi_secret_decode(key, (uintptr_t)at->next);
  mi_tool_resume();
  return next;
}

static mi_attr_inline mi_block_t* mi_block_peek(const mi_block_t* block) {
  return mi_block_peek_by(block, mi_secret_of_block(block));
}

// Return the link of a block of a list of free blocks with the mark `value`.
static mi_attr_inline mi_block_t* mi_block_next_free(const mi_block_t* block, uint8_t value) {
  mi_block_t* const next = mi_block_peek(block);
  if (mi_likely(mi_mark_may_lead(value, next))) return next;
  return (mi_block_t*)mi_mark_refuse_link(block, next);
}

// Return the link of a free block.
static mi_attr_inline mi_block_t* mi_block_next(const mi_block_t* block) {
  return mi_block_next_free(block, mi_mark_of(block));
}

// Set the link of a free block. `key` is that of the block.
static mi_attr_unwatched void mi_block_set_next_by(mi_block_t* block, uint64_t key,
                                                   mi_block_t* next) {
  mi_tool_pause();
  mi_block_t* const at = (mi_block_t*)mi_tags_access(block);
  at->next = (mi_block_t*)mi_secret_code(key, (uintptr_t)next);
  mi_tool_resume();
}

static mi_attr_inline void mi_block_set_next(mi_block_t* block, mi_block_t* next) {
  mi_block_set_next_by(block, mi_secret_of_block(block), next);
}

// Clear the link of a block that is handed out.
static mi_attr_unwatched void mi_block_wipe(mi_block_t* block) {
  mi_tool_pause();
  ((mi_block_t*)mi_tags_access(block))->next = NULL;
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
