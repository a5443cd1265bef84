// SPDX-License-Identifier: MIT
// aligned.c - allocation with an alignment, and with an aligned offset.
//
// ALIGNED-1  up to a slice, alignment costs no interior pointer: pages start at a slice, so all
//     blocks of a class whose size is a multiple of the alignment are aligned. That is the class of
//     the size, rounded up to the alignment (SIZECLASS-4).
// ALIGNED-2  for a larger alignment, the block has a page of its own at an aligned address.
// ALIGNED-3  only an offset that is no multiple of the alignment makes an interior pointer: the
//     page is marked, and frees into it compute the start of the block. Only the owner marks a
//     page, because the next owner must see the mark. In a crowd, where pages are owned for a
//     moment only, and in a secure build, where a block is known by its start, such a block has a
//     page of its own.
//
// Deliberately absent: over-allocation by size + alignment.
#include <errno.h>

#include "front.h"
#include "mimalloc.h"
#include "slow.h"

static void* mi_aligned_fail(mi_error_kind_t kind, size_t size, int err) {
  mi_report(kind, "aligned allocation", NULL, size);
  errno = err;
  return NULL;
}

// Note that an address `shift` bytes inside a block is handed out. False if no thread owns the page
// any more (mi_refill_portion): its next owner may have checked the mark already.
static bool mi_aligned_mark(void* block, size_t shift) {
  mi_page_t* const page = mi_pagemap_find(block);
  if (mi_unlikely(mi_page_is_slot(page) && !mi_page_is_guarded(page))) {
    page->shift = shift; // no other address was handed out yet
    return true;
  }
  mi_theap_t* const home = mi_self_home();
  const mi_hold_t hold = mi_hold_enter(home); // the page may wait in a queue: HOLD-1
  // Only this thread writes its own id: without it, the thread does not own the page.
  const bool is_own = mi_owner_is(mi_atomic_load_relaxed(&page->owner), home->thread_id);
  if (is_own) mi_life_note_interior(page, home->thread_id);
  mi_hold_leave(home, hold);
  return is_own;
}

// Allocate a block of a class. `is_plain`: the request has no byte for a canary.
static void* mi_aligned_of_class(mi_theap_t* theap, size_t request, bool is_plain, mi_fill_t fill) {
  if (!MI_HAS_CANARY || !is_plain) return mi_alloc_of_class(theap, request, fill);
  theap = mi_slow_theap(theap);
  if (theap == NULL) return mi_aligned_fail(MI_ERROR_OUT_OF_MEMORY, request, ENOMEM);
  const bool was_plain = theap->is_plain; // a callback may have brought us here
  theap->is_plain = true;
  void* const p = mi_alloc_of_class(theap, request, fill);
  theap->is_plain = was_plain;
  return p;
}

// `is_plain`: as above.
static void* mi_aligned_block(mi_theap_t* theap, size_t size, size_t alignment, size_t offset,
                              bool is_plain, mi_fill_t fill) {
  if (!mi_bits_is_power_of_two(alignment)) {
    return mi_aligned_fail(MI_ERROR_ALIGNMENT, alignment, EINVAL);
  }
  if (size > MI_REQUEST_MAX || alignment > MI_REQUEST_MAX / 4) {
    return mi_aligned_fail(MI_ERROR_TOO_LARGE, size, ENOMEM);
  }
  // The result is `shift` bytes behind an aligned address.
  const size_t shift = (0 - offset) & (alignment - 1);
  if (size <= MI_REQUEST_MAX - shift) {
    const size_t request = mi_class_request(size + shift, alignment);
    if (request <= MI_CLASS_MAX && (shift == 0 || !MI_IS_SECURE)) {
      uint8_t* const block = (uint8_t*)mi_aligned_of_class(theap, request, is_plain, fill);
      if (block == NULL || shift == 0) return block;
      if (mi_aligned_mark(block, shift)) return block + shift;
      mi_free(mi_track_give(block, 0, alignment, MI_UNINITIALIZED)); // tools know it from now on
    }
    const size_t large_alignment = mi_bits_max(alignment, MI_SLICE_SIZE);
    theap = mi_slow_theap(theap);
    if (theap != NULL) {
      // A size of 0 still needs an address of its own.
      if (size == 0) size = 1;
      mi_report_enter(MI_REPORT_IN_MALLOC);
      void* const p = mi_slow_large(mi_theap_heap(theap), size, large_alignment, shift, fill);
      mi_slow_note_large(theap, p);
      mi_report_leave();
      if (p != NULL) return p;
    }
  }
  return mi_aligned_fail(MI_ERROR_OUT_OF_MEMORY, size, ENOMEM);
}

MI_INTERNAL void* mi_aligned_alloc_at(mi_theap_t* theap, size_t size, size_t alignment,
                                      size_t offset, mi_fill_t fill) {
  const size_t room = mi_track_room(size, alignment);
  fill = mi_fill_wanted(fill);
  if (mi_unlikely(theap->sample_is_on) && mi_bits_is_power_of_two(alignment) &&
      (offset & (alignment - 1)) == 0) {
    void* const p = mi_slow_sample_aligned(theap, size, alignment, fill);
    if (p != NULL) return mi_track_give(p, size, alignment, fill);
  }
  void* const p = mi_aligned_block(theap, room, alignment, offset, room == size, fill);
  return mi_track_give(p, size, alignment, fill);
}
