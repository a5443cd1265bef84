// SPDX-License-Identifier: MIT
// aligned.c - allocation with an alignment, and with an aligned offset.
//
// E1  up to a slice, alignment costs no interior pointer: pages start at a slice, so all blocks of
//     a class whose size is a multiple of the alignment are aligned, and there is such a class
//     within the next doubling.
// E2  beyond, the block has a page of its own at an aligned address.
// E3  only an offset that is no multiple of the alignment makes an interior pointer: the page is
//     marked, and frees into it look for the start of the block.
//
// Deliberately absent: over-allocation by size + alignment.
#include <errno.h>

#include "core.h"
#include "large.h"
#include "refill.h"
#include "report.h"

static void* mi_aligned_fail(mi_error_kind_t kind, size_t size, int err) {
  mi_report(kind, "aligned allocation", NULL, size);
  errno = err;
  return NULL;
}

// A block of a class at an address `shift` bytes inside it.
static void* mi_aligned_interior(mi_theap_t* theap, size_t size_class, size_t shift,
                                 mi_fill_t fill) {
  uint8_t* const block = (uint8_t*)mi_refill_class(theap, size_class, fill);
  if (block == NULL) return NULL;
  mi_page_t* const page = mi_pagemap_find(block);
  // This thread owns the page: it is the one its class allocates from.
  mi_atomic_store_relaxed(&page->has_interior, true);
  mi_atomic_store_relaxed(&page->owner, mi_tls_thread_id() | MI_OWNER_SLOW);
  return block + shift;
}

MI_INTERNAL void* mi_aligned_alloc_at(mi_theap_t* theap, size_t size, size_t alignment,
                                      size_t offset, mi_fill_t fill) {
  if (!mi_bits_is_power_of_two(alignment)) {
    return mi_aligned_fail(MI_ERROR_ALIGNMENT, alignment, EINVAL);
  }
  if (size > MI_REQUEST_MAX || alignment > MI_REQUEST_MAX / 4) {
    return mi_aligned_fail(MI_ERROR_TOO_LARGE, size, ENOMEM);
  }
  // The result is `shift` bytes behind an aligned address.
  const size_t shift = (0 - offset) & (alignment - 1);
  if (size <= MI_REQUEST_MAX - shift) {
    const size_t size_class = mi_class_of_aligned(size + shift, alignment);
    if (size_class < MI_CLASS_COUNT) {
      return shift == 0 ? mi_refill_class(theap, size_class, fill)
                        : mi_aligned_interior(theap, size_class, shift, fill);
    }
    const size_t large_alignment = mi_bits_max(alignment, MI_SLICE_SIZE);
    theap = mi_refill_theap(theap);
    if (theap != NULL) {
      // A size of 0 still needs an address of its own.
      if (size == 0) size = 1;
      void* const p =
          mi_large_alloc_shifted(mi_theap_heap(theap), size, large_alignment, shift, fill);
      if (p != NULL) return p;
    }
  }
  return mi_aligned_fail(MI_ERROR_OUT_OF_MEMORY, size, ENOMEM);
}
