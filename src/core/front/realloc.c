// SPDX-License-Identifier: MIT
// realloc.c - change the size of a block: in place, by growing over free slices, by moving the
// mapping, and only then by copying.
//
// REALLOC-1  NULL means failure, and the old block is untouched.
// REALLOC-2  a block in a page of its class stays where it is unless the class of the new size is
//     at least 1/MI_REALLOC_PART smaller. A program that doubles a buffer while it fills it, and
//     then gives back what it did not need (into_boxed_slice of Rust, a list of Python from which
//     most was removed), would else keep a third more than it uses. If there is no memory for a
//     smaller block, it keeps the one it has: programs do not expect that it fails to need less. A
//     block with a page of its own shrinks in place by the same rule, and what it leaves goes back.
//     mi_realloc_in_place leaves a block that is long enough as it is, because programs go on to
//     use all of it (but where notes say what the program asked for last: TRACK-3);
//     mi_realloc_shrink is for those that ask for less.
// REALLOC-3  with MI_ZERO all bytes from the old usable size to the new one are zero.
// REALLOC-4  the result is in the heap of the given theap: a block of another heap moves.
//     (A sample of a profile with a class does so, too, although it has a page of its own.)
// REALLOC-5  a guarded block of another size moves: its guard is at its end.
// REALLOC-6  the result has no bits that the processor ignores but those that malloc returns (the
//     tag of the block: tags.h), whatever the program had in the address that it passes.
#include <errno.h>
#include <string.h>

#include "front.h"
#include "mimalloc.h"
#include "slow.h"

// A block that grew beyond this gets a page of its own: it will grow again, in place or by moving
// its mapping, and leaves no blocks of ever larger classes behind (5 % of the peak memory of a
// Python program that builds lists).
#define MI_REALLOC_OWN_PAGE MI_SLICE_SIZE
#define MI_REALLOC_PART 8 // REALLOC-2

static size_t mi_realloc_room(size_t size) { return mi_track_room(size, MI_TRACK_ALIGNMENT); }

// The same for a block with a page of its own: one of a class has what mi_good_size says.
static size_t mi_realloc_own_room(size_t size) {
  const size_t room = mi_realloc_room(size);
  return room <= MI_CLASS_MAX ? mi_class_size(mi_class_of(room)) : room;
}

// True if `size` bytes are nearly as many as a block has.
static bool mi_realloc_is_near(size_t usable, size_t size) {
  return size >= usable - usable / MI_REALLOC_PART;
}

// True if a block of a class, in its slot, is to stay there when it has `size` bytes, which fit:
// REALLOC-2. (Two classes are 1/8 to 1/5 of the block, and one is up to 128 bytes.)
static bool mi_realloc_stays(mi_theap_t* theap, const mi_page_t* page, size_t size,
                             size_t alignment) {
  if (mi_likely(mi_realloc_is_near(page->block_size, size))) return true;
  const size_t c_request = mi_class_request(mi_realloc_room(size), alignment);
  const size_t c = mi_class_of(page->block_size);
  if (c_request > MI_CLASS_MAX || c == 0) return true;
  return !mi_split_saves(theap, c_request, c - (page->block_size > 128 ? 2 : 1));
}

static void mi_realloc_zero_tail(uint8_t* p, size_t from, mi_fill_t fill) {
  if (fill == MI_ZERO) {
    const size_t to = mi_usable_if_used(p);
    if (to > from) mi_large_clear(mi_pagemap_find(p), p + from, to - from);
  }
}

// Resize a block of a class that stays in its slot.
static void* mi_realloc_in_slot(void* p, size_t usable, size_t size, mi_fill_t fill) {
  mi_canary_check(p, "realloc");
  if (fill == MI_ZERO && size > usable) memset((uint8_t*)p + usable, 0, size - usable);
  return mi_track_resize(p, usable, size);
}

// Resize a block with a page of its own in place. False if that is not possible.
static bool mi_realloc_page(mi_theap_t* theap, mi_page_t* page, size_t size) {
  const size_t before = page->block_size;
  if (!mi_large_resize(page, size)) return false;
  if (mi_unlikely(theap->sample_is_on || page->sampled != NULL)) {
    mi_sample_resized(theap, page, before);
  }
  return true;
}

// Resize a block with a page of its own that keeps one, without copying. NULL if this is not
// possible. (It is not inlined, so that it lies apart from the code that each process runs:
// cmake/layout.ld.)
static mi_attr_noinline void* mi_realloc_large(mi_theap_t* theap, mi_page_t* page, uint8_t* p,
                                               size_t size, mi_fill_t fill) {
  const size_t usable = mi_usable_if_used(p);
  const size_t shift = (size_t)(p - page->start);
  if (size > MI_REQUEST_MAX - shift) return NULL;
  mi_canary_check(p, "realloc");
  uint8_t* q = p;
  if (!mi_realloc_page(theap, page, mi_realloc_own_room(size) + shift)) {
    theap = mi_slow_theap(theap);
    if (shift != 0 || theap == NULL) return NULL;
    q = (uint8_t*)mi_large_move(page, mi_theap_heap(theap), mi_realloc_own_room(size));
    if (q == NULL) return NULL;
    mi_slow_note_large(theap, q);
  }
  mi_track_resize(q, usable, size);
  mi_realloc_zero_tail(q, usable, fill);
  return q;
}

// Copy the old contents into a new block, then free the old one.
static void* mi_realloc_copy(void* p, size_t usable, void* q, size_t size) {
  if (q == NULL) return NULL;
  void* const given = mi_tags_give(p);
  memcpy(q, given, mi_bits_min(usable, size));
  mi_free(given);
  return q;
}

// True if a block may start at `p`, an address in the page. (The notes of a tracked build know it
// better.)
static bool mi_realloc_is_block(mi_page_t* page, const uint8_t* p) {
  if (MI_IS_TRACKED) return mi_track_is_block(page, p);
  return mi_page_given(page, p) == p || (!mi_page_is_single(page) && mi_page_has_interior(page));
}

// Return what is wrong about a block at `p`.
static mi_error_kind_t mi_realloc_mistake(mi_page_t* page, const void* p, size_t* size) {
  if (page == NULL) return mi_guarded_mistake(p, size);
  *size = page->block_size;
  if (!mi_realloc_is_block(page, (const uint8_t*)p)) return MI_ERROR_INTERIOR_POINTER;
  return MI_ERROR_DOUBLE_FREE;
}

// Return the page of a block in use; NULL, with a report, if there is none at `p`, which the
// program has as `given`.
static mi_page_t* mi_realloc_page_of(void* p, const void* given) {
  mi_page_t* const page = mi_pagemap_find(p);
  if (mi_likely(page != NULL && mi_page_is_in_use(page, p) && mi_tags_fit(page, given) &&
                mi_realloc_is_block(page, (const uint8_t*)p))) {
    return page;
  }
  size_t size;
  const mi_error_kind_t mistake = mi_realloc_mistake(page, p, &size);
  mi_report(mistake, "realloc", p, size);
  errno = EINVAL;
  return NULL;
}

static void* mi_realloc_fresh(mi_theap_t* theap, size_t size, mi_fill_t fill) {
  return fill == MI_ZERO ? mi_theap_zalloc(theap, size) : mi_theap_malloc(theap, size);
}

// True if the block is in the right heap (REALLOC-4). A thread without a theap keeps the block
// where it is.
static bool mi_realloc_may_stay(mi_theap_t* theap, mi_page_t* page) {
  return theap->thread_id == 0 || mi_atomic_load_relaxed(&page->heap) == mi_theap_heap(theap);
}

// There is no memory for another block: the one that is there stays, if the new size fits
// (REALLOC-2). NULL otherwise.
static mi_attr_cold void* mi_realloc_keep(mi_theap_t* theap, mi_page_t* page, void* p, size_t size,
                                          mi_fill_t fill) {
  const size_t usable = mi_usable_if_used(p);
  if (!mi_realloc_may_stay(theap, page) || mi_page_is_guarded(page)) return NULL;
  return size <= mi_track_most(p, usable) ? mi_realloc_in_slot(p, usable, size, fill) : NULL;
}

MI_INTERNAL void* mi_realloc_block(mi_theap_t* theap, void* given, size_t size, mi_fill_t fill) {
  fill = mi_fill_wanted(fill);
  void* const p = mi_cpu_address(given); // REALLOC-6
  if (p == NULL) return mi_realloc_fresh(theap, size, fill);
  mi_page_t* const page = mi_realloc_page_of(p, given);
  if (page == NULL) return NULL;
  const size_t usable = mi_usable_if_used(p);
  if (mi_unlikely(size == 0)) {
    uint8_t* const q = (uint8_t*)mi_theap_zalloc(theap, 1); // programs read that byte
    if (q != NULL) mi_free(mi_tags_give(p));
    return q;
  }
  if (!mi_realloc_may_stay(theap, page)) {
    // The block must move into the other heap.
  } else if (mi_page_is_guarded(page)) {
    if (size == usable) return mi_track_resize(p, usable, size); // else REALLOC-5
  } else if (mi_page_is_single(page)) {
    const bool is_near = mi_page_is_slot(page) ? mi_realloc_stays(theap, page, size, 1)
                                               : mi_realloc_is_near(usable, size);
    const bool is_same = is_near && size <= usable && usable - size < MI_SLICE_SIZE;
    if (is_same) {
      mi_canary_check(p, "realloc");
      return mi_track_resize(p, usable, size);
    }
    if (size > MI_REALLOC_OWN_PAGE) {
      void* const q = mi_realloc_large(theap, page, (uint8_t*)p, size, fill);
      if (q != NULL) return q;
    }
  } else if (size <= mi_track_most(p, usable) && mi_realloc_stays(theap, page, size, 1)) {
    return mi_realloc_in_slot(p, usable, size, fill);
  }
  void* q = NULL;
  if (size > usable && size > MI_REALLOC_OWN_PAGE && theap->thread_id != 0 &&
      !mi_page_is_guarded(page)) {
    q = mi_large_alloc_growing(mi_theap_heap(theap), mi_realloc_own_room(size), fill);
    mi_slow_note_large(theap, q);
    q = mi_track_give(q, size, MI_TRACK_ALIGNMENT, fill);
  }
  if (q == NULL) q = mi_realloc_fresh(theap, size, fill);
  if (mi_unlikely(q == NULL)) return mi_realloc_keep(theap, page, p, size, fill);
  return mi_realloc_copy(p, usable, q, size);
}

MI_INTERNAL void* mi_realloc_block_at(mi_theap_t* theap, void* given, size_t size, size_t alignment,
                                      size_t offset, mi_fill_t fill) {
  fill = mi_fill_wanted(fill);
  void* const p = mi_cpu_address(given); // REALLOC-6
  if (p == NULL || !mi_bits_is_power_of_two(alignment)) {
    return mi_aligned_alloc_at(theap, size, alignment, offset, fill); // reports a bad alignment
  }
  mi_page_t* const page = mi_realloc_page_of(p, given);
  if (page == NULL) return NULL;
  const size_t usable = mi_usable_if_used(p);
  const bool is_aligned = (((uintptr_t)p + offset) & (alignment - 1)) == 0;
  if (is_aligned && mi_realloc_may_stay(theap, page)) {
    if (!mi_page_is_single(page) && size <= mi_track_most(p, usable) &&
        mi_realloc_stays(theap, page, size, alignment)) {
      return mi_realloc_in_slot(p, usable, size, fill);
    }
    mi_canary_check(p, "realloc");
    const bool is_kept = mi_page_is_guarded(page)
                             ? size == usable
                             : size <= usable && mi_realloc_is_near(usable, size);
    if (is_kept) return mi_track_resize(p, usable, size);
    const size_t shift = (size_t)((uint8_t*)p - page->start);
    const bool is_large = size > MI_CLASS_MAX || size >= usable / 2;
    if (mi_page_is_single(page) && is_large && size <= MI_REQUEST_MAX - shift &&
        mi_realloc_page(theap, page, mi_realloc_own_room(size) + shift)) {
      mi_track_resize(p, usable, size);
      mi_realloc_zero_tail((uint8_t*)p, usable, fill);
      return p;
    }
  }
  void* const q = mi_aligned_alloc_at(theap, size, alignment, offset, fill);
  if (mi_unlikely(q == NULL && is_aligned)) return mi_realloc_keep(theap, page, p, size, fill);
  return mi_realloc_copy(p, usable, q, size);
}

MI_INTERNAL void mi_realloc_shrink(void* given, size_t size) {
  void* const p = mi_cpu_address(given);
  mi_page_t* const page = mi_pagemap_find(p);
  if (page == NULL || !mi_tags_fit(page, given) || !mi_page_is_single(page)) return;
  if (mi_page_is_slot(page) || mi_page_is_guarded(page)) return;
  const size_t usable = mi_usable_if_used(p);
  size = mi_bits_max(size, MI_REALLOC_OWN_PAGE); // less would be a block of a class
  if (size >= usable) return;
  mi_canary_check(p, "realloc");
  const size_t shift = (size_t)((uint8_t*)p - page->start);
  if (mi_realloc_page(mi_self_theap(), page, mi_realloc_room(size) + shift)) {
    mi_track_resize(p, usable, size);
  }
}

MI_INTERNAL bool mi_realloc_in_place(void* given, size_t size) {
  void* const p = mi_cpu_address(given);
  mi_page_t* const page = mi_pagemap_find(p);
  if (page == NULL || !mi_tags_fit(page, given) || !mi_track_is_block(page, p)) return false;
  const size_t usable = mi_usable_if_used(p);
  if (size <= usable) {
    if (MI_IS_TRACKED && size < usable) mi_track_resize(p, usable, size);
    return true;
  }
  if (!mi_page_is_single(page)) return false;
  mi_canary_check(p, "realloc");
  const size_t shift = (size_t)((uint8_t*)p - page->start);
  mi_theap_t* const theap = mi_self_theap();
  if (size > MI_REQUEST_MAX - shift ||
      !mi_realloc_page(theap, page, mi_realloc_room(size) + shift)) {
    return false;
  }
  mi_track_resize(p, usable, size);
  return true;
}
