// SPDX-License-Identifier: MIT
// tags.c - memory tags are written, and compared with those of addresses: TAGS-1 to TAGS-5 in
// tags.h.
//
// Called where a block passes to the program and where it returns (track.h), and by the questions
// about a block in use (realloc.c, free.c). Not here: what a fault says (describe.c, fault.c).
#include "tags.h"

#include "page.h"

#if MI_IS_TAGGED

// Tags that a block of an even / odd index does not have: TAGS-2.
#define MI_TAGS_NOT_EVEN 0xAAABu
#define MI_TAGS_NOT_ODD 0x5555u

static bool mi_tags_has(const mi_page_t* page) {
  return mi_tags_are_on() && !mi_page_is_single(page) && page->block_size < MI_TAGS_BLOCK_MAX;
}

MI_INTERNAL void mi_tags_carve(const mi_page_t* page, void* block) {
  if (!mi_tags_has(page)) return;
  const bool is_odd = mi_page_index_of(page, block) % 2 != 0;
  void* const tagged = mi_tag_choose(block, is_odd ? MI_TAGS_NOT_ODD : MI_TAGS_NOT_EVEN);
  mi_tag_write(tagged, page->block_size);
}

MI_INTERNAL void mi_tags_clear(const mi_page_t* page) {
  if (!mi_tags_has(page)) return;
  mi_tag_write(page->start, mi_page_capacity(page) * page->block_size);
}

MI_INTERNAL bool mi_tags_fit(const mi_page_t* page, const void* given) {
  if (!mi_tags_are_on()) return true;
  const unsigned tag = mi_tag_of(given);
  return tag == (mi_tags_has(page) ? mi_tag_of(mi_tag_read(mi_cpu_address(given))) : 0);
}

// Return what is wrong about a free of `p`, as the tag shows; MI_ERROR_COUNT: nothing.
static mi_error_kind_t mi_tags_mistake(mi_page_t* page, const void* p, const void* given) {
  const bool is_fitting = mi_tags_fit(page, given);
  if (mi_page_is_single(page)) return is_fitting ? MI_ERROR_COUNT : MI_ERROR_DOUBLE_FREE;
  if (mi_page_index_of(page, p) >= mi_page_capacity(page)) return MI_ERROR_INVALID_POINTER;
  if (mi_page_block_of(page, p) != p && !mi_page_has_interior(page)) {
    return MI_ERROR_INTERIOR_POINTER;
  }
  return is_fitting ? MI_ERROR_COUNT : MI_ERROR_DOUBLE_FREE;
}

MI_INTERNAL bool mi_tags_take(void** given) {
  void* const p = mi_cpu_address(*given);
  if (!mi_tags_are_on() || p == NULL) {
    *given = p;
    return true;
  }
  mi_page_t* const page = mi_pagemap_find(p);
  if (page != NULL) {
    const mi_error_kind_t mistake = mi_tags_mistake(page, p, *given);
    if (mi_unlikely(mistake != MI_ERROR_COUNT)) {
      mi_report(mistake, "free", p, page->block_size);
      return false;
    }
    if (mi_tags_has(page)) {
      void* const block = mi_page_block_of(page, p);
      const unsigned tag = mi_tag_of(mi_tag_read(block));
      const unsigned excluded = tag % 2 != 0 ? MI_TAGS_NOT_ODD : MI_TAGS_NOT_EVEN;
      // (Memory without tags stays as it is: TAGS-5.)
      if (tag != 0) mi_tag_write(mi_tag_choose(block, excluded | 1u << tag), page->block_size);
    }
  }
  *given = p;
  return true;
}

#endif
