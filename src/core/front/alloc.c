// SPDX-License-Identifier: MIT
// alloc.c - FAST: malloc and its zeroing form, when the list of the class has a block.
//
//   mi_malloc            size <= 4 KiB: class from a byte table, pop   13 instructions, 2 branches
//    |- mi_alloc_small_refill  the list is empty, but the current page has blocks: swap them in
//    |- mi_alloc_medium  up to MI_CLASS_MAX: class by arithmetic, the same while the home is held
//    '- mi_slow_malloc   everything else                                 slow.c
//
// A pop does not touch the page: the list that malloc allocates from is in the theap. All rare
// conditions look like an empty list:
//   condition                          how it looks here            set by
//   no theap yet, or no longer         mi_theap_empty: all NULL      self.c, thread.c
//   no free block                      NULL                          the pop before
//   next allocation is a sample        list cut short                sample.c
//   deferred frees are due             list ran dry, bounded by a page
//
// Arguments: size first, as in the public function, so that every exit is a tail call without a
// spill.
#include <errno.h>
#include <string.h>

#include "front.h"
#include "mimalloc.h"
#include "slow.h"

// The list is empty but the current page has blocks that this thread freed: swap them in. refill.c
// would do the same first; it is repeated here because lists of larger blocks are short. Every so
// often, and always while sampling is on, the slow path must run instead: `quick_left` counts down.
// Returns the first of them, which is to be taken, or NULL.
static mi_attr_inline mi_block_t* mi_alloc_swap(mi_theap_t* theap, size_t c) {
  mi_page_t* const page = theap->current[c];
  mi_block_t* const block = page->local_free;
  if (mi_unlikely(block == NULL)) return NULL;
  // Was it freed twice, or written to since? (A secure build knows that from its mark.)
  const bool is_sound = MI_IS_SECURE || mi_page_is_link_near(page, block);
  if (mi_unlikely(--theap->quick_left == 0)) return NULL;
  if (mi_unlikely(!is_sound)) return NULL;
  page->local_free = NULL;
  mi_handed_out(page);
  theap->free[c] = block;
  return block;
}

static mi_attr_noinline void* mi_alloc_small_refill(size_t size, mi_theap_t* theap, size_t c) {
  mi_block_t* const block = mi_alloc_swap(theap, c);
  if (mi_unlikely(block == NULL)) return mi_slow_malloc(size, theap);
  return mi_likely(mi_theap_take(theap, c, block)) ? block : mi_slow_malloc(size, theap);
}

// The page has no block: mostly the next one of the queue takes its place, if it has one or a few.
static mi_attr_noinline void* mi_alloc_turn(size_t size, mi_theap_t* theap, size_t c) {
  if (!mi_refill_may_wait(theap)) return mi_slow_malloc(size, theap);
  // A secure build decodes links, and reports what is wrong: to a function of the program, which
  // may free and collect.
  if (MI_IS_SECURE) mi_report_enter(MI_REPORT_IN_MALLOC);
  const mi_hold_t hold = mi_hold_try(theap->home);
  mi_block_t* block = hold == MI_HOLD_ENTERED ? mi_refill_turn(theap, c) : NULL;
  if (mi_likely(block != NULL) && mi_unlikely(!mi_theap_take(theap, c, block))) block = NULL;
  mi_hold_leave(theap->home, hold);
  if (MI_IS_SECURE) mi_report_leave();
  return mi_likely(block != NULL) ? block : mi_slow_malloc(size, theap);
}

// The home is held, because the purge thread may take the page (HOLD-2).
static mi_attr_noinline void* mi_alloc_medium(size_t size, mi_theap_t* theap) {
  if (mi_unlikely(size > MI_CLASS_MAX)) return mi_slow_malloc_large(size, theap);
  const size_t c = mi_split_class_of_medium(theap, size);
  mi_theap_t* const home = theap->home;
  const uint32_t count = mi_atomic_load_relaxed(&home->hold);
  if (mi_unlikely(count % 2 != 0)) return mi_slow_malloc(size, theap);
  mi_block_t* block = NULL;
  if (mi_likely(mi_hold_come(home, count))) {
    block = theap->free[c];
    if (mi_unlikely(block == NULL)) block = mi_alloc_swap(theap, c);
    if (mi_likely(block != NULL) && mi_unlikely(!mi_theap_take(theap, c, block))) block = NULL;
  }
  mi_hold_go(home, count + 2);
  if (mi_likely(block != NULL)) return block;
  if (mi_portion_is_above(c)) return mi_alloc_turn(size, theap, c);
  return mi_slow_malloc(size, theap);
}

static mi_attr_inline void* mi_alloc_block(mi_theap_t* theap, size_t size) {
  if (mi_unlikely(size > MI_SMALL_MAX)) return mi_alloc_medium(size, theap);
  const size_t c = theap->class_of[(size + 7) / 8];
  mi_block_t* const block = theap->free[c];
  if (mi_unlikely(block == NULL)) return mi_alloc_small_refill(size, theap, c);
  if (mi_unlikely(!mi_theap_take(theap, c, block))) return mi_slow_malloc(size, theap);
  return block;
}

static mi_attr_inline void* mi_alloc_zero_block(mi_theap_t* theap, size_t size) {
  if (mi_unlikely(size > MI_SMALL_MAX)) return mi_slow_zalloc(size, theap);
  const size_t c = theap->class_of[(size + 7) / 8];
  mi_block_t* const block = theap->free[c];
  if (mi_unlikely(block == NULL)) return mi_slow_zalloc(size, theap);
  if (mi_unlikely(!mi_theap_take(theap, c, block))) return mi_slow_zalloc(size, theap);
  return mi_slow_zero(theap, c, block);
}

static mi_attr_inline void* mi_alloc_zeroed(mi_theap_t* theap, size_t size) {
  void* const p = mi_alloc_zero_block(theap, mi_track_room(size, MI_TRACK_ALIGNMENT));
  return mi_track_give(p, size, MI_TRACK_ALIGNMENT, MI_ZERO);
}

static mi_attr_inline void* mi_alloc_any(mi_theap_t* theap, size_t size) {
  if (mi_fill_wanted(MI_UNINITIALIZED) == MI_ZERO) return mi_alloc_zeroed(theap, size);
  void* const p = mi_alloc_block(theap, mi_track_room(size, MI_TRACK_ALIGNMENT));
  return mi_track_give(p, size, MI_TRACK_ALIGNMENT, MI_UNINITIALIZED);
}

static mi_attr_noinline void* mi_alloc_apart(mi_theap_t* theap, size_t size) {
  return mi_alloc_any(theap, size);
}

// The link of a block leads elsewhere than is usual, or must not be followed: put the block back.
static mi_attr_noinline void* mi_alloc_again(mi_theap_t* theap, size_t size, size_t c,
                                             mi_block_t* block) {
  theap->free[c] = block;
  mi_mark_carve(block, c);
  return mi_alloc_apart(theap, size);
}

static mi_attr_inline void* mi_alloc_from(mi_theap_t* theap, size_t size) {
  if (!MI_HAS_CANARY) return mi_alloc_any(theap, size);
  // A canary is written after the block was taken, so that no exit is a tail call. Here are the
  // blocks that are at hand: the class is known, and nothing is spilled.
  const bool is_zeroed = mi_fill_wanted(MI_UNINITIALIZED) == MI_ZERO;
  if (mi_unlikely(size >= MI_SMALL_MAX || is_zeroed)) return mi_alloc_apart(theap, size);
  const size_t room = mi_track_room(size, MI_TRACK_ALIGNMENT);
  const size_t c = theap->class_of[(room + 7) / 8];
  mi_block_t* const block = theap->free[c];
  if (mi_unlikely(block == NULL)) return mi_alloc_apart(theap, size);
  if (mi_unlikely(!mi_mark_give_first(block, c))) return mi_alloc_apart(theap, size);
  const uint64_t key = mi_secret_of_block(block);
  mi_block_t* const next = mi_block_peek_by(block, key);
  theap->free[c] = next;
  if (mi_unlikely(!mi_mark_leads_near(block, c, next))) {
    return mi_alloc_again(theap, size, c, block);
  }
  mi_block_wipe(block);
  return mi_canary_give(block, c, size, key);
}

MI_FAST mi_decl_export mi_decl_restrict void* mi_malloc(size_t size) mi_attr_noexcept {
  return mi_alloc_from(mi_self_theap(), size);
}

MI_INTERNAL void* mi_alloc_of_class(mi_theap_t* theap, size_t size, mi_fill_t fill) {
  return fill == MI_ZERO ? mi_alloc_zero_block(theap, size) : mi_alloc_block(theap, size);
}

static mi_attr_cold void* mi_alloc_overflow(void) {
  mi_report(MI_ERROR_TOO_LARGE, "calloc", NULL, SIZE_MAX);
  errno = ENOMEM;
  return NULL;
}

mi_decl_export mi_decl_restrict void* mi_zalloc(size_t size) mi_attr_noexcept {
  return mi_alloc_zeroed(mi_self_theap(), size);
}

mi_decl_export mi_decl_restrict void* mi_calloc(size_t count, size_t size) mi_attr_noexcept {
  size_t total;
  if (mi_unlikely(mi_bits_mul_overflows(count, size, &total))) return mi_alloc_overflow();
  return mi_alloc_zeroed(mi_self_theap(), total);
}

mi_decl_export mi_decl_restrict void* mi_malloc_small(size_t size) mi_attr_noexcept {
  return mi_malloc(size);
}

mi_decl_export mi_decl_restrict void* mi_zalloc_small(size_t size) mi_attr_noexcept {
  return mi_zalloc(size);
}

// -- With a heap or a theap --

static mi_attr_cold void* mi_alloc_no_theap(const mi_theap_t* theap) {
  if (MI_HAS_USE_CHECK && theap != NULL) mi_report(MI_ERROR_WRONG_HEAP, "malloc", theap, 0);
  errno = ENOMEM;
  return NULL;
}

mi_decl_export mi_decl_restrict void* mi_theap_malloc(mi_theap_t* theap,
                                                      size_t size) mi_attr_noexcept {
  if (mi_unlikely(!mi_theap_is_usable(theap))) return mi_alloc_no_theap(theap);
  return mi_alloc_from(theap, size);
}

mi_decl_export mi_decl_restrict void* mi_theap_zalloc(mi_theap_t* theap,
                                                      size_t size) mi_attr_noexcept {
  if (mi_unlikely(!mi_theap_is_usable(theap))) return mi_alloc_no_theap(theap);
  return mi_alloc_zeroed(theap, size);
}

mi_decl_export mi_decl_restrict void* mi_heap_malloc(mi_heap_t* heap,
                                                     size_t size) mi_attr_noexcept {
  return mi_theap_malloc(mi_enter_theap_in(heap), size);
}

mi_decl_export mi_decl_restrict void* mi_heap_zalloc(mi_heap_t* heap,
                                                     size_t size) mi_attr_noexcept {
  return mi_theap_zalloc(mi_enter_theap_in(heap), size);
}
