// SPDX-License-Identifier: MIT
// pool.c - the protocol by which abandoned pages find a new owner: a stack of descriptors.
//
// The stack (Treiber 1986) links pages through `pool_next`, by the index of their first slice: its
// address without the bits that are the same for all. The head is one word: such an index and a tag
// that grows with each pop, so that a pop that was overtaken by others fails its CAS. An index
// takes 31 bits (32 where addresses have 48), which leaves the tag 33 (32): a CAS can succeed with
// a stale `pool_next` only if its thread stands still between the load and the CAS while others pop
// 2^33 pages of the class (86 s, or 43, at 10 ns each, without another thread's turn), and
// continues after exactly that number with the same page on top. (A descriptor's address would
// leave 24 bits: 0.2 s.) Reading `pool_next` of a page that another thread just popped is harmless:
// descriptors are never unmapped (TYPES-2), and the value is thrown away when the CAS fails.
//
// MI_REMOTE_POOLED in a page's `thread_free` means that the page is, or is about to be, in the
// stack:
// POOL-1  only the thread whose CAS set the bit pushes the page; only the thread that popped the
//     page clears it.
// POOL-2  while the bit is set the page is not released to its arena and not pushed again.
// POOL-3  a page in the stack may nevertheless have an owner: a free into it claims it (remote.c)
//     and leaves it in the stack. A pop that meets such a page clears the bit and drops the page;
//     the owner sees that when it gives the page up, and pushes it again.
//
// POOL-4  the slices of pages that became empty in the stack are counted; a pop takes its page out
//     of the count. As soon as these are MI_POOL_EMPTY_MIN and an eighth of what the last drain put
//     back, the stacks of the heap that have such pages are drained: all pages are taken out, and
//     those in use are pushed again. So a page that is released costs about 8 pushes, however many
//     there are. What was put back does not shrink with pops: an eighth of it may be empty when the
//     stacks have become short. A page may become empty, be counted and be searched in vain between
//     the moment when its bit is set and the moment when it is pushed. It then stays until the next
//     drain or pop of its class (test/models/src/pool.rs).
//
// A push never fails and a pop repeats only when another thread made progress. The stack is last
// in, first out: the page given up last is the one most likely in a cache.
#include "pool.h"

#include "hole.h"
#include "inside.h"
#include "remote.h"

#define MI_POOL_EMPTY_MIN ((int32_t)(MI_CHUNK_SLICES))
#define MI_POOL_EMPTY_PART 8

mi_static_assert(MI_ADDRESS_BITS - MI_SLICE_SHIFT <= 8 * sizeof(mi_pool_link_t),
                 "an index fits into `pool_next`");

static inline uint64_t mi_pool_index(uint64_t word) { return word & (MI_POOL_TAG_ONE - 1); }

// Return the page of an index that is not 0. A thread that saw the push of the index knows the
// page's window.
static inline mi_page_t* mi_pool_page(uint64_t word) {
  return mi_pagemap_slice((void*)(uintptr_t)(mi_pool_index(word) << MI_SLICE_SHIFT));
}

static inline uint64_t mi_pool_word(uint64_t index, uint64_t tag) {
  return index | (tag & ~(MI_POOL_TAG_ONE - 1));
}

MI_INTERNAL void mi_pool_push(mi_heap_t* heap, size_t c, mi_page_t* page) {
  mi_tally_often(mi_self_theap(), heap, MI_TALLY_POOLED);
  mi_pool_t* const pool = mi_pool_of(heap, c);
  const uint64_t index = (uint64_t)(uintptr_t)page->start >> MI_SLICE_SHIFT; // const: POOL-2
  uint64_t head = mi_atomic_load_relaxed(&pool->head);
  do {
    mi_atomic_store_relaxed(&page->pool_next, (mi_pool_link_t)mi_pool_index(head));
    // Publishes `pool_next`; pairs with the acquire in `mi_pool_pop_any`.
  } while (!mi_atomic_cas_weak_release(&pool->head, &head, mi_pool_word(index, head)));
}

// True if enough of the page is free to make it worth finding: an eighth.
static bool mi_pool_is_worth_it(const mi_page_t* page) {
  const size_t used = mi_part_used(page);
  return page->reserved - used >= (page->reserved + 7) / 8;
}

static void mi_pool_note_empty(mi_heap_t* heap, size_t c, size_t slice_count);

// As mi_pool_give_up, with an owner word as for mi_life_share; with MI_FORCE the page gets all the
// holes that it can have. True if the page was released.
static bool mi_pool_let_go(mi_page_t* page, uintptr_t owner, mi_effort_t effort) {
  mi_assert_page(page, page->place == MI_PLACE_NONE);
  mi_report_enter(MI_REPORT_IN_FREE);
  mi_heap_t* const heap = mi_inside_enter(page);
  const size_t c = page->size_class;
  bool is_released = false;
  while (true) {
    mi_page_collect(page);
    const uintptr_t pooled = mi_atomic_load_relaxed(&page->thread_free) & MI_REMOTE_POOLED;
    if (pooled == 0 && mi_part_is_empty(page)) {
      mi_page_release(heap, page);
      is_released = true;
      break;
    }
    if (effort == MI_FORCE) mi_hole_make(heap->subproc, page);
    // A pooled page stays in the stack (POOL-2), where any pop finds it.
    const bool is_push = pooled == 0 && mi_pool_is_worth_it(page);
    const size_t empty_count = mi_part_is_empty(page) ? page->slice_count : 0;
    if (mi_life_share(page, owner, pooled, is_push ? MI_REMOTE_POOLED : 0)) {
      if (is_push) mi_pool_push(heap, c, page);
      if (empty_count > 0) mi_pool_note_empty(heap, c, empty_count); // POOL-4
      break; // from here on the page must not be touched (REMOTE-3)
    }
  }
  mi_inside_leave(heap);
  mi_report_leave();
  return is_released;
}

MI_INTERNAL void mi_pool_give_up(mi_page_t* page) {
  mi_pool_let_go(page, MI_OWNER_SHARED, MI_GENTLE);
}

MI_INTERNAL mi_attr_cold void mi_pool_lend(mi_page_t* page, uintptr_t thread_id) {
  mi_pool_let_go(page, thread_id | MI_OWNER_PARKED, MI_GENTLE);
}

static mi_page_t* mi_pool_pop_any(mi_heap_t* heap, size_t c) {
  mi_pool_t* const pool = mi_pool_of(heap, c);
  // Sees `pool_next` of the top page; pairs with the release in `mi_pool_push`.
  uint64_t head = mi_atomic_load_acquire(&pool->head);
  while (mi_pool_index(head) != 0) {
    mi_page_t* const page = mi_pool_page(head);
    const uint64_t next = mi_atomic_load_relaxed(&page->pool_next);
    // Sees `pool_next` of the new top page on failure; pairs with the release in `mi_pool_push`.
    if (mi_atomic_cas_weak_acq_rel(&pool->head, &head,
                                   mi_pool_word(next, head + MI_POOL_TAG_ONE))) {
      return page;
    }
  }
  return NULL;
}

MI_INTERNAL bool mi_pool_has(mi_heap_t* heap, size_t c) {
  return mi_pool_index(mi_atomic_load_relaxed(&mi_pool_of(heap, c)->head)) != 0;
}

MI_INTERNAL mi_page_t* mi_pool_pop(mi_heap_t* heap, size_t c) {
  mi_page_t* page;
  while ((page = mi_pool_pop_any(heap, c)) != NULL) {
    if (!mi_remote_claim_popped(page)) continue; // POOL-3: its owner keeps it
    if (mi_part_is_empty(page)) {
      mi_atomic_sub_relaxed(&heap->empty_count, (int32_t)page->slice_count); // POOL-4
    }
    if (mi_page_has_free(page)) return page;
    // The page became full while it was a guest: park it again.
    mi_tally_add(&heap->tally, MI_TALLY_FULL, 1);
    mi_pool_give_up(page);
  }
  return NULL;
}

// Take the whole stack. Returns the index of its top, 0 if it is empty.
static uint64_t mi_pool_take_all(mi_heap_t* heap, size_t c) {
  mi_pool_t* const pool = mi_pool_of(heap, c);
  uint64_t head = mi_atomic_load_relaxed(&pool->head);
  do {
    if (mi_pool_index(head) == 0) return 0;
    // Sees every link of the stack; pairs with the release in `mi_pool_push`.
  } while (
      !mi_atomic_cas_weak_acq_rel(&pool->head, &head, mi_pool_word(0, head + MI_POOL_TAG_ONE)));
  return mi_pool_index(head);
}

MI_INTERNAL int32_t mi_pool_drain(mi_heap_t* heap, size_t c, mi_effort_t effort) {
  const uint64_t bit = (uint64_t)1 << c % 64;
  if ((mi_atomic_load_relaxed(&heap->has_empty[c / 64]) & bit) != 0) {
    mi_atomic_and_relaxed(&heap->has_empty[c / 64], ~bit);
  }
  uint64_t index = mi_pool_take_all(heap, c);
  int32_t kept = 0;
  while (index != 0) {
    mi_page_t* const page = mi_pool_page(index);
    index = mi_atomic_load_relaxed(&page->pool_next);
    if (!mi_remote_claim_popped(page)) continue; // POOL-3
    const int32_t slice_count = (int32_t)page->slice_count;
    if (!mi_pool_let_go(page, MI_OWNER_SHARED, effort)) kept += slice_count;
  }
  return kept;
}

static void mi_pool_drain_noted(mi_heap_t* heap) {
  int32_t kept = 0;
  mi_atomic_store_relaxed(&heap->empty_count, 0);
  for (size_t w = 0; w < MI_HEAP_POOL_WORDS; w++) {
    uint64_t has_empty = mi_atomic_load_relaxed(&heap->has_empty[w]);
    for (; has_empty != 0; has_empty &= has_empty - 1) {
      kept += mi_pool_drain(heap, w * 64 + mi_bits_trailing_zeros(has_empty), MI_GENTLE);
    }
  }
  mi_atomic_store_relaxed(&heap->kept_count, kept);
}

// POOL-4. A page that is being drained is not in the stack: this does not call itself again.
static void mi_pool_note_empty(mi_heap_t* heap, size_t c, size_t slice_count) {
  const uint64_t bit = (uint64_t)1 << c % 64;
  if ((mi_atomic_load_relaxed(&heap->has_empty[c / 64]) & bit) == 0) {
    mi_atomic_or_relaxed(&heap->has_empty[c / 64], bit);
  }
  const int32_t more = (int32_t)slice_count;
  const int32_t empty = mi_atomic_add_relaxed(&heap->empty_count, more) + more;
  const int32_t kept = mi_atomic_load_relaxed(&heap->kept_count);
  if (empty < MI_POOL_EMPTY_MIN || empty < kept / MI_POOL_EMPTY_PART) return;
  mi_pool_drain_noted(heap);
}

MI_INTERNAL void mi_pool_drain_all(mi_heap_t* heap, mi_effort_t effort) {
  for (size_t c = 0; c < MI_CLASS_COUNT; c++) {
    if (mi_pool_has(heap, c)) mi_pool_drain(heap, c, effort);
  }
}

MI_INTERNAL size_t mi_pool_length(mi_heap_t* heap, size_t c) {
  uint64_t index = mi_pool_index(mi_atomic_load_relaxed(&mi_pool_of(heap, c)->head));
  size_t length = 0;
  for (; index != 0; length++) {
    mi_page_t* const page = mi_pool_page(index);
    const bool is_pooled = (mi_atomic_load_relaxed(&page->thread_free) & MI_REMOTE_POOLED) != 0;
    if (!is_pooled || page->size_class != c) return SIZE_MAX;
    index = mi_atomic_load_relaxed(&page->pool_next);
  }
  return length;
}

MI_INTERNAL void mi_pool_clear_all(mi_heap_t* heap) {
  for (size_t c = 0; c < MI_CLASS_COUNT; c++) mi_pool_take_all(heap, c);
  for (size_t w = 0; w < MI_HEAP_POOL_WORDS; w++) mi_atomic_store_relaxed(&heap->has_empty[w], 0);
  mi_atomic_store_relaxed(&heap->empty_count, 0);
}
