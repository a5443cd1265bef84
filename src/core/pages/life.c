// SPDX-License-Identifier: MIT
// life.c - the life of a page: who owns it, and where its owner keeps it.
//
//   no page      --describe, open, own-->  in no place
//   in no place  --make_current-->  current  --leave_current-->  in no place
//   in no place  --enqueue------->  queued   --dequeue-------->  in no place
//   in no place  --add_guest----->  guest    --remove_guest--->  in no place
//   in no place  --park---------->  parked: full, owned by nobody, known as this thread's
//   in no place  --share--------->  abandoned, or pooled: owned by nobody
//   parked, abandoned, pooled  --a claim, own-->  in no place
//   in no place  --close, undescribe-->  no page
//
// A claim is a change of the word (remote.c): by a free into the page (reclaim.c), or by a pop from
// the pool (pool.c). Those files decide what becomes of a claimed page; this file only does it.
//
// This file alone writes `owner`, `place` and `theap` of a page and `page_count` of a theap; with
// remote.c, `thread_free` [page-state]. It adds and removes the +1 of `count.used` (LIFE-1); a
// refill copies `refilled`, which includes it. This file changes those lists of a theap that a page
// can be in; the files of threads/ decide which page goes where.
//
// LIFE-1  used == capacity - |local_free| (+ 1 while current, - bias in a queue); blocks in the
//     theap's list and in `thread_free` count as used, and so do those that touch a hole (hole.c).
//     Broken only inside the functions of the owner. The +1 keeps a malloc and free pair from
//     emptying the page again and again. The bias is the number of blocks that touch a hole, and of
//     those that are left in use when the page becomes sparse: so the free that makes the page
//     empty, or sparse, finds 0, and no other free has anything to do.
// LIFE-2  a page is in exactly the place that `place` says; a parked or pooled page is in
//     MI_PLACE_NONE.
// LIFE-3  the owner word is written by the owner, or by the thread that describes the page, or by
//     the purge thread while it holds the home of the owner, without the plain id (hold.c): no
//     thread finds its own id in a page that it does not own (REMOTE-4). The word is cleared before
//     the page leaves its book (FORK-2).
#include "life.h"

MI_INTERNAL mi_page_t* mi_life_describe(uint8_t* start, size_t slice_count,
                                        mi_interior_t interior) {
  mi_page_t* const page = mi_pagemap_slice(start);
  mi_assert(mi_atomic_load_relaxed(&page->owner) == MI_OWNER_NONE);
  page->start = start;
  page->slice_count = (uint32_t)slice_count;
  page->local_free = NULL;
  page->sample_rest = NULL;
  mi_atomic_store_relaxed(&page->has_interior, false);
  page->place = MI_PLACE_NONE;
  page->is_idle = false;
  page->is_lean = false;
  page->holes = page->bias = 0;
  page->sparse_at = 0;
  page->is_sparse = page->is_sparse_old = false;
  page->next = page->prev = NULL;
  for (size_t i = interior.first; i < interior.end; i++) {
    mi_page_t* const later = mi_pagemap_slice(start + i * MI_SLICE_SIZE);
    later->first = page;
    mi_atomic_store_relaxed(&later->owner, MI_OWNER_INTERIOR);
  }
  return page;
}

MI_INTERNAL void mi_life_undescribe(mi_page_t* page, mi_interior_t interior) {
  for (size_t i = interior.first; i < interior.end; i++) {
    mi_page_t* const later = mi_pagemap_slice(page->start + i * MI_SLICE_SIZE);
    mi_atomic_store_relaxed(&later->owner, MI_OWNER_NONE);
  }
  mi_atomic_store_relaxed(&page->owner, MI_OWNER_NONE);
}

MI_INTERNAL void mi_life_be_single(mi_page_t* page) {
  mi_atomic_store_relaxed(&page->owner, MI_OWNER_SINGLE);
}

MI_INTERNAL void mi_life_open(mi_page_t* page) {
  mi_atomic_store_relaxed(&page->thread_free, MI_REMOTE_OWNED);
}

MI_INTERNAL void mi_life_close(mi_page_t* page) { mi_atomic_store_relaxed(&page->thread_free, 0); }

// Return the owner word of the page while the thread with this id owns it, and nobody else may take
// it over.
static uintptr_t mi_life_word(mi_page_t* page, uintptr_t thread_id) {
  const bool is_slow = mi_atomic_load_relaxed(&page->has_interior);
  return thread_id | (is_slow ? MI_OWNER_SLOW : 0);
}

MI_INTERNAL void mi_life_own(mi_theap_t* theap, mi_page_t* page) {
  page->theap = theap;
  mi_atomic_store_relaxed(&page->owner, mi_life_word(page, theap->thread_id));
}

MI_INTERNAL bool mi_life_park(mi_page_t* page, uintptr_t thread_id) {
  mi_assert_page(page, page->place == MI_PLACE_NONE && page->local_free == NULL);
  mi_atomic_store_relaxed(&page->owner, thread_id | MI_OWNER_PARKED);
  uintptr_t word;
  while ((word = mi_atomic_load_relaxed(&page->thread_free)) <= MI_REMOTE_BITS) {
    if (mi_remote_release(page, word & MI_REMOTE_POOLED, 0)) return true;
  }
  mi_atomic_store_relaxed(&page->owner, mi_life_word(page, thread_id));
  return false;
}

MI_INTERNAL bool mi_life_share(mi_page_t* page, uintptr_t owner, uintptr_t pooled, uintptr_t bits) {
  mi_assert_page(page, page->place == MI_PLACE_NONE);
  mi_atomic_store_relaxed(&page->owner, owner);
  page->theap = NULL;
  return mi_remote_release(page, pooled, bits);
}

MI_INTERNAL void mi_life_note_interior(mi_page_t* page, uintptr_t thread_id) {
  const uintptr_t held = mi_atomic_load_relaxed(&page->owner) & MI_OWNER_HELD;
  mi_atomic_store_relaxed(&page->has_interior, true);
  mi_atomic_store_relaxed(&page->owner, mi_life_word(page, thread_id) | held);
}

MI_INTERNAL void mi_life_set_owner(mi_theap_t* theap, uintptr_t owner) {
  theap->own_count = 0;
  for (size_t c = 0; c < MI_CLASS_COUNT; c++) {
    mi_page_t* const current = theap->current[c] != MI_PAGE_NONE ? theap->current[c] : NULL;
    const mi_page_queue_t* const queue = &theap->queue[c];
    mi_page_t* page = current != NULL ? current : mi_life_first(queue);
    while (page != NULL) {
      const bool is_thread = owner > MI_OWNER_MAX_SPECIAL;
      mi_atomic_store_relaxed(&page->owner, is_thread ? mi_life_word(page, owner) : owner);
      if (page != current) theap->own_count++;
      if (is_thread && mi_class_is_medium(c)) mi_life_offer(theap, page);
      page = page == current ? mi_life_first(queue) : mi_life_after(queue, page);
    }
  }
}

// -- pages that the purge thread may take over: hold.c --

static mi_attr_cold void mi_life_notice(void) {
  mi_atomic_store_relaxed(&mi_state.has_queued, true);
  mi_wait_notice();
}

MI_INTERNAL mi_attr_cold void mi_life_offer_now(mi_theap_t* theap, mi_page_t* page) {
  mi_assert_page(page, page->place == MI_PLACE_QUEUE || page->place == MI_PLACE_CURRENT);
  const uintptr_t owner = mi_atomic_load_relaxed(&page->owner);
  if ((owner & MI_OWNER_HELD) != 0 || owner <= MI_OWNER_MAX_SPECIAL) return;
  mi_atomic_store_relaxed(&page->owner, owner | MI_OWNER_HELD);
  if (page->place == MI_PLACE_QUEUE) theap->own_count--;
  if (!mi_atomic_load_relaxed(&mi_state.has_queued)) mi_life_notice();
}

MI_INTERNAL mi_attr_cold void mi_life_offer_all(mi_theap_t* theap) {
  for (size_t c = 0; c < MI_CLASS_COUNT; c++) {
    mi_page_t* page = theap->current[c];
    if (mi_class_is_medium(c) && page != MI_PAGE_NONE) mi_life_offer(theap, page);
    const mi_page_queue_t* const queue = &theap->queue[c];
    page = mi_life_first(queue);
    for (; page != NULL; page = mi_life_after(queue, page)) mi_life_offer(theap, page);
  }
}

// -- the bias of a page in a queue: LIFE-1 --

static mi_attr_inline void mi_life_disarm(mi_page_t* page) {
  page->count.used += page->bias;
  page->bias = 0;
}

// Return the number of blocks in use at which a page with `used` of them is looked at again: where
// it becomes sparse, then whenever half of them are gone. (Not after each free: where blocks are
// replaced, a page may come into the queue again and again with as many in use.)
static mi_attr_inline size_t mi_life_watermark(const mi_page_t* page, size_t used) {
  if (page->refilled.used - 1 != page->reserved) return 0;
  return used > page->sparse_at ? page->sparse_at : used / 2;
}

static void mi_life_choose_bias(mi_page_t* page) {
  mi_life_disarm(page);
  const uint32_t missing = mi_part_missing(page);
  page->bias = (uint16_t)missing;
  // It is looked at until all parts but one are holes.
  if (page->holes == 0 || mi_bits_count(page->holes) + 1 < mi_part_count(page->slice_count)) {
    page->bias = (uint16_t)(missing + mi_life_watermark(page, page->count.used - missing));
  }
  page->count.used -= page->bias;
}

// The same for a page that comes into a queue.
static mi_attr_inline void mi_life_arm(mi_page_t* page) {
  if (mi_unlikely(page->holes != 0)) {
    mi_life_choose_bias(page);
    return;
  }
  page->bias = (uint16_t)mi_life_watermark(page, page->count.used);
  page->count.used -= page->bias;
}

// Count about what a sparse page has free, or take it out of the count: all that is in no hole, but
// for the blocks in use, which are twice as many as when it is looked at again.
static void mi_life_count_sparse(mi_page_t* page, int64_t sign) {
  mi_subproc_t* const subproc = mi_atomic_load_relaxed(&page->heap)->subproc;
  const int64_t missing = mi_part_missing(page);
  const int64_t blocks = (int64_t)page->reserved - missing - 2 * (page->bias - missing);
  mi_count_add(&subproc->sparse_waiting, sign * blocks * (int64_t)page->block_size);
}

MI_INTERNAL void mi_life_rearm(mi_page_t* page) {
  if (page->is_sparse) mi_life_count_sparse(page, -1);
  mi_life_choose_bias(page);
  if (page->is_sparse) mi_life_count_sparse(page, 1);
}

MI_INTERNAL void mi_life_note_sparse(mi_page_t* page) {
  if (page->is_sparse) return;
  page->is_sparse = true;
  page->is_sparse_old = false;
  mi_life_count_sparse(page, 1);
}

MI_INTERNAL void mi_life_forget_sparse(mi_page_t* page) {
  if (!page->is_sparse) return;
  page->is_sparse = page->is_sparse_old = false;
  mi_life_count_sparse(page, -1);
}

// End what holds only while the page is in a queue.
static mi_attr_inline void mi_life_leave_queue(mi_page_t* page) {
  if (mi_unlikely(page->is_sparse)) mi_life_forget_sparse(page);
  mi_life_disarm(page);
}

// -- where the owner keeps the page --

MI_INTERNAL void mi_life_make_current(mi_theap_t* theap, mi_page_t* page) {
  const size_t c = page->size_class;
  mi_assert_page(page, page->place == MI_PLACE_NONE && theap->current[c] == MI_PAGE_NONE);
  page->place = MI_PLACE_CURRENT;
  page->count.used++; // LIFE-1
  mi_life_own(theap, page);
  theap->current[c] = page;
  if (c >= MI_WIDE_CLASS) theap->wide |= mi_life_wide(c);
  theap->page_count++;
  if (mi_class_is_medium(c)) mi_life_offer(theap, page); // HOLD-2
}

MI_INTERNAL mi_page_t* mi_life_leave_current(mi_theap_t* theap, size_t size_class) {
  mi_page_t* const page = theap->current[size_class];
  if (page == MI_PAGE_NONE) return NULL;
  mi_assert_page(page, theap->free[size_class] == NULL && page->sample_rest == NULL);
  theap->current[size_class] = MI_PAGE_NONE;
  theap->page_count--;
  page->count.used--; // LIFE-1
  page->place = MI_PLACE_NONE;
  return page;
}

MI_INTERNAL void mi_life_enqueue(mi_theap_t* theap, mi_page_t* page) {
  mi_assert_page(page, page->place == MI_PLACE_NONE);
  mi_page_queue_t* const queue = &theap->queue[page->size_class];
  theap->page_count++;
  page->place = MI_PLACE_QUEUE;
  mi_life_arm(page);
  page->prev = queue->last;
  page->next = page;
  if (queue->last != NULL) {
    page->next = queue->last->next;
    queue->last->next = page;
  }
  queue->last = page;
  if (mi_life_is_held(page)) return;
  const bool is_many = ++theap->own_count > MI_QUEUED_OWN;
  if (mi_unlikely(is_many) || mi_class_is_medium(page->size_class)) mi_life_offer(theap, page);
}

MI_INTERNAL void mi_life_dequeue(mi_theap_t* theap, mi_page_t* page) {
  mi_assert_page(page, page->place == MI_PLACE_QUEUE);
  mi_page_queue_t* const queue = &theap->queue[page->size_class];
  if (page->is_idle) {
    page->is_idle = false;
    theap->idle_bytes -= page->reserved * page->block_size;
  }
  mi_life_leave_queue(page);
  theap->page_count--;
  if (!mi_life_is_held(page)) theap->own_count--;
  page->place = MI_PLACE_NONE;
  mi_page_t* const before = page->prev != NULL ? page->prev : queue->last;
  before->next = page->next;
  if (queue->last == page) {
    queue->last = page->prev;
  } else {
    page->next->prev = page->prev;
  }
  page->next = page->prev = NULL;
}

MI_INTERNAL mi_page_t* mi_life_add_guest(mi_theap_t* theap, mi_page_t* page) {
  mi_assert_page(page, page->place == MI_PLACE_NONE);
  const size_t i = theap->guest_turn++ % MI_GUEST_COUNT;
  mi_page_t* const oldest = theap->guest[i];
  page->place = MI_PLACE_GUEST;
  theap->guest[i] = page;
  if (oldest != NULL) oldest->place = MI_PLACE_NONE;
  return oldest;
}

MI_INTERNAL bool mi_life_remove_guest(mi_theap_t* theap, mi_page_t* page) {
  for (size_t i = 0; i < MI_GUEST_COUNT; i++) {
    if (theap->guest[i] == page) {
      theap->guest[i] = NULL;
      page->place = MI_PLACE_NONE;
      return true;
    }
  }
  return false;
}

MI_INTERNAL void mi_life_displace(mi_page_t* page) {
  mi_life_leave_queue(page);
  page->place = MI_PLACE_NONE;
  page->is_idle = false;
  page->next = page->prev = NULL;
  page->sample_rest = NULL;
}

MI_INTERNAL void mi_life_forget_all(mi_theap_t* theap) {
  for (size_t c = 0; c < MI_CLASS_COUNT; c++) {
    theap->current[c] = MI_PAGE_NONE;
    theap->queue[c] = (mi_page_queue_t){0};
  }
  theap->wide = 0;
  theap->page_count = 0;
  theap->own_count = 0;
  theap->idle_bytes = 0;
}

// -- LIFE-1 --

MI_INTERNAL void mi_life_recount(mi_page_t* page, uint32_t free_count) {
  const uint32_t current = page->place == MI_PLACE_CURRENT ? 1 : 0;
  mi_life_forget_sparse(page);
  page->bias = 0;
  page->count.used = page->refilled.used - 1 - free_count + current;
  if (page->place == MI_PLACE_QUEUE) mi_life_rearm(page);
}

MI_INTERNAL void mi_life_uncount(mi_page_t* page, uint32_t count) {
  page->count.used -= count;
  if (page->place == MI_PLACE_QUEUE) mi_life_rearm(page);
}
