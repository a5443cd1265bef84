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
// POOL-5  no free takes longer because there are many pages: a drain takes a stack out as a whole
//     and makes it the `rest` of the heap, a stack as well, of which MI_POOL_PART pages are looked
//     at, for at most MI_RETAIN_PART_MS. The next page that becomes empty in a stack goes on, or
//     the next look of a thread (flush.c), or the purge thread. Any number of threads take pages
//     out of the rest, also one that finds the stack of its class empty and needs a page. Only one
//     puts a stack there, when the last one is through: `is_filling` is taken before and given back
//     after; a thread that finds it taken leaves the drain to that one.
//
// A push never fails and a pop repeats only when another thread made progress. The stack is last
// in, first out: the page given up last is the one most likely in a cache.
#include "pool.h"

#include "hole.h"
#include "inside.h"
#include "remote.h"

#define MI_POOL_EMPTY_MIN ((int32_t)(MI_CHUNK_SLICES))
#define MI_POOL_EMPTY_PART 8
#define MI_POOL_PART 64

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

// True if enough of the page is free to make it worth finding: an eighth. (A page whose list was
// damaged may have no free block, although not all are in use: a pop would find it for ever.)
static bool mi_pool_is_worth_it(mi_page_t* page) {
  const size_t used = mi_part_used(page);
  return page->reserved - used >= (page->reserved + 7) / 8 && mi_page_has_free(page);
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

static bool mi_pool_is_empty(mi_pool_t* pool) {
  return mi_pool_index(mi_atomic_load_relaxed(&pool->head)) == 0;
}

static mi_page_t* mi_pool_pop_any(mi_pool_t* pool) {
  // Sees `pool_next` of the top page; pairs with the releases in `mi_pool_push` and
  // `mi_pool_fill_rest`.
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

// True if the rest of a drain has pages of the class; a page of it may be of another one when it
// comes out.
static bool mi_pool_rest_has(mi_heap_t* heap, size_t c) {
  return mi_unlikely(!mi_pool_is_empty(&heap->rest)) &&
         mi_atomic_load_relaxed(&heap->rest_class) == c;
}

MI_INTERNAL bool mi_pool_has(mi_heap_t* heap, size_t c) {
  return !mi_pool_is_empty(mi_pool_of(heap, c)) || mi_pool_rest_has(heap, c);
}

static mi_page_t* mi_pool_pop_class(mi_heap_t* heap, size_t c) {
  mi_page_t* const page = mi_pool_pop_any(mi_pool_of(heap, c));
  if (page != NULL || !mi_pool_rest_has(heap, c)) return page;
  return mi_pool_pop_any(&heap->rest);
}

MI_INTERNAL mi_page_t* mi_pool_pop(mi_heap_t* heap, size_t c) {
  mi_page_t* page;
  while ((page = mi_pool_pop_class(heap, c)) != NULL) {
    if (!mi_remote_claim_popped(page)) continue; // POOL-3: its owner keeps it
    if (mi_part_is_empty(page)) {
      mi_atomic_sub_relaxed(&heap->empty_count, (int32_t)page->slice_count); // POOL-4
    }
    if (mi_likely(page->size_class == c)) {
      if (mi_page_has_free(page)) return page;
      // The page became full while it was a guest: park it again.
      mi_tally_add(&heap->tally, MI_TALLY_FULL, 1);
    }
    mi_pool_give_up(page);
  }
  return NULL;
}

// Take the whole stack. Returns the index of its top, 0 if it is empty.
static uint64_t mi_pool_take_all(mi_pool_t* pool) {
  uint64_t head = mi_atomic_load_relaxed(&pool->head);
  do {
    if (mi_pool_index(head) == 0) return 0;
    // Sees every link of the stack; pairs with the releases in `mi_pool_push` and
    // `mi_pool_fill_rest`.
  } while (
      !mi_atomic_cas_weak_acq_rel(&pool->head, &head, mi_pool_word(0, head + MI_POOL_TAG_ONE)));
  return mi_pool_index(head);
}

// Look at a page that was taken out of a stack. Returns how many slices it has if it was put back.
static int32_t mi_pool_look_at(mi_page_t* page, mi_effort_t effort) {
  if (!mi_remote_claim_popped(page)) return 0; // POOL-3
  const int32_t slice_count = (int32_t)page->slice_count;
  return mi_pool_let_go(page, MI_OWNER_SHARED, effort) ? 0 : slice_count;
}

// Look at all pages of a stack.
static int32_t mi_pool_drain(mi_pool_t* pool, mi_effort_t effort) {
  uint64_t index = mi_pool_take_all(pool);
  int32_t kept = 0;
  while (index != 0) {
    mi_page_t* const page = mi_pool_page(index);
    index = mi_atomic_load_relaxed(&page->pool_next);
    kept += mi_pool_look_at(page, effort);
  }
  return kept;
}

// Take the next class out of those that are due. MI_CLASS_COUNT if there is none.
static size_t mi_pool_next_due(mi_heap_t* heap) {
  for (size_t w = 0; w < MI_HEAP_POOL_WORDS; w++) {
    const uint64_t due = mi_atomic_load_relaxed(&heap->due[w]);
    if (due == 0) continue;
    const size_t bit = mi_bits_trailing_zeros(due);
    mi_atomic_and_relaxed(&heap->due[w], ~((uint64_t)1 << bit)); // others may set bits meanwhile
    return w * 64 + bit;
  }
  return MI_CLASS_COUNT;
}

// Put the next stack that is due into the rest, if that is empty. False if the drain is over, or
// another thread does this.
static bool mi_pool_fill_rest(mi_heap_t* heap) {
  // Sees the head that the last one stored; pairs with the release in `mi_pool_fill_rest`.
  if (mi_atomic_swap_acquire(&heap->is_filling, true)) return false;
  bool is_filled = !mi_pool_is_empty(&heap->rest);
  while (!is_filled) {
    const size_t c = mi_pool_next_due(heap);
    if (c == MI_CLASS_COUNT) break;
    const uint64_t index = mi_pool_take_all(mi_pool_of(heap, c));
    if (index == 0) continue;
    mi_atomic_store_relaxed(&heap->rest_class, (uint32_t)c);
    const uint64_t tag = mi_atomic_load_relaxed(&heap->rest.head);
    // Publishes the links; pairs with the acquires in `mi_pool_pop_any` and `mi_pool_take_all`.
    mi_atomic_store_release(&heap->rest.head, mi_pool_word(index, tag));
    is_filled = true;
  }
  // Publishes the head of the rest; pairs with the acquire in `mi_pool_fill_rest`.
  mi_atomic_store_release(&heap->is_filling, false);
  return is_filled;
}

static bool mi_pool_is_draining(mi_heap_t* heap) {
  if (!mi_pool_is_empty(&heap->rest)) return true;
  for (size_t w = 0; w < MI_HEAP_POOL_WORDS; w++) {
    if (mi_atomic_load_relaxed(&heap->due[w]) != 0) return true;
  }
  return false;
}

static void mi_pool_begin_drain(mi_heap_t* heap) {
  mi_atomic_store_relaxed(&heap->empty_count, 0);
  mi_atomic_store_relaxed(&heap->kept_count, 0);
  for (size_t w = 0; w < MI_HEAP_POOL_WORDS; w++) {
    if (mi_atomic_load_relaxed(&heap->has_empty[w]) == 0) continue;
    mi_atomic_or_relaxed(&heap->due[w], mi_atomic_swap_relaxed(&heap->has_empty[w], 0));
  }
}

// POOL-5
static bool mi_pool_drain_part(mi_heap_t* heap) {
  const uint64_t end_ms = mi_os_now_ms() + MI_RETAIN_PART_MS;
  for (size_t n = 0; n < MI_POOL_PART; n++) {
    mi_page_t* page = mi_pool_pop_any(&heap->rest);
    while (page == NULL) {
      if (!mi_pool_fill_rest(heap)) return false;
      page = mi_pool_pop_any(&heap->rest);
    }
    const int32_t kept = mi_pool_look_at(page, MI_GENTLE);
    if (kept > 0) mi_atomic_add_relaxed(&heap->kept_count, kept);
    if (kept == 0 && mi_os_now_ms() >= end_ms) break;
  }
  return true;
}

MI_INTERNAL bool mi_pool_go_on(mi_heap_t* heap) {
  return mi_pool_is_draining(heap) && mi_pool_drain_part(heap);
}

// POOL-4. A page that is being drained is not in the stack: this does not call itself again.
static void mi_pool_note_empty(mi_heap_t* heap, size_t c, size_t slice_count) {
  const uint64_t bit = (uint64_t)1 << c % 64;
  if ((mi_atomic_load_relaxed(&heap->has_empty[c / 64]) & bit) == 0) {
    mi_atomic_or_relaxed(&heap->has_empty[c / 64], bit);
  }
  const int32_t more = (int32_t)slice_count;
  const int32_t empty = mi_atomic_add_relaxed(&heap->empty_count, more) + more;
  if (!mi_pool_is_draining(heap)) {
    const int32_t kept = mi_atomic_load_relaxed(&heap->kept_count);
    if (empty < MI_POOL_EMPTY_MIN || empty < kept / MI_POOL_EMPTY_PART) return;
    mi_pool_begin_drain(heap);
  }
  mi_pool_drain_part(heap);
}

// Nothing is known to be empty, and no drain in progress has anything to do but the rest.
static void mi_pool_forget_empty(mi_heap_t* heap) {
  for (size_t w = 0; w < MI_HEAP_POOL_WORDS; w++) {
    mi_atomic_store_relaxed(&heap->has_empty[w], 0);
    mi_atomic_store_relaxed(&heap->due[w], 0);
  }
  mi_atomic_store_relaxed(&heap->empty_count, 0);
}

MI_INTERNAL int32_t mi_pool_drain_all(mi_heap_t* heap, mi_effort_t effort) {
  int32_t kept = 0;
  mi_pool_forget_empty(heap);
  for (size_t c = 0; c < MI_CLASS_COUNT; c++) {
    if (!mi_pool_is_empty(mi_pool_of(heap, c))) kept += mi_pool_drain(mi_pool_of(heap, c), effort);
  }
  kept += mi_pool_drain(&heap->rest, effort); // last: it puts pages into the others
  mi_atomic_store_relaxed(&heap->kept_count, kept);
  return kept;
}

// Return the length of a stack of pages of a class; SIZE_MAX if it is broken.
static size_t mi_pool_stack_length(mi_pool_t* pool, size_t c) {
  uint64_t index = mi_pool_index(mi_atomic_load_relaxed(&pool->head));
  size_t length = 0;
  for (; index != 0; length++) {
    mi_page_t* const page = mi_pool_page(index);
    const bool is_pooled = (mi_atomic_load_relaxed(&page->thread_free) & MI_REMOTE_POOLED) != 0;
    if (!is_pooled || page->size_class != c) return SIZE_MAX;
    index = mi_atomic_load_relaxed(&page->pool_next);
  }
  return length;
}

MI_INTERNAL size_t mi_pool_length(mi_heap_t* heap, size_t c) {
  const size_t length = mi_pool_stack_length(mi_pool_of(heap, c), c);
  if (length == SIZE_MAX || !mi_pool_rest_has(heap, c)) return length;
  const size_t more = mi_pool_stack_length(&heap->rest, c);
  return more == SIZE_MAX ? more : length + more;
}

MI_INTERNAL void mi_pool_clear_all(mi_heap_t* heap) {
  for (size_t c = 0; c < MI_CLASS_COUNT; c++) mi_pool_take_all(mi_pool_of(heap, c));
  mi_pool_take_all(&heap->rest);
  mi_pool_forget_empty(heap);
  mi_atomic_store_relaxed(&heap->kept_count, 0); // of POOL-4: the structure may be used again
}
