// SPDX-License-Identifier: MIT
// usable.c - how many bytes of a block the program may use, by its address. Any address is allowed:
// one that is in no block has 0.
#include "front.h"
#include "mimalloc.h"

// Return the bytes from `p`, an address in the page, to the end of its slot.
static mi_attr_inline size_t mi_usable_from(const mi_page_t* page, const void* p) {
  const uint8_t* const start =
      mi_page_is_single(page) ? page->start : (const uint8_t*)mi_page_block_of(page, p);
  return mi_track_usable(p, page->block_size - (size_t)((const uint8_t*)p - start));
}

mi_decl_export size_t mi_usable_size(const void* given) mi_attr_noexcept {
  const void* const p = mi_cpu_address(given);
  const mi_page_t* const page = mi_pagemap_find(p);
  if (mi_unlikely(page == NULL)) return 0;
  if (mi_unlikely(!mi_page_is_in_use(page, p) || !mi_tags_fit(page, given))) {
    mi_report(MI_ERROR_INVALID_POINTER, "malloc_usable_size", p, 0);
    return 0;
  }
  return mi_usable_from(page, p);
}

MI_INTERNAL size_t mi_usable_if_used(const void* p) {
  p = mi_cpu_address(p);
  const mi_page_t* const page = mi_pagemap_find(p);
  return page != NULL && mi_page_is_in_use(page, p) ? mi_usable_from(page, p) : 0;
}

MI_INTERNAL size_t mi_slot_size(const void* p) {
  p = mi_cpu_address(p);
  const mi_page_t* const page = mi_pagemap_find(p);
  if (page == NULL) return 0;
  const size_t shift = mi_page_is_single(page) ? page->shift : 0; // before the block
  return mi_track_usable(p, page->block_size - shift);
}

MI_INTERNAL bool mi_is_known_address(const void* p) {
  return mi_pagemap_find(mi_cpu_address(p)) != NULL;
}
