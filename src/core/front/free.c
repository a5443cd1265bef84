// SPDX-License-Identifier: MIT
// free.c - FAST: free of a block whose page belongs to the calling thread.
//
//   mi_free             address -> descriptor, is it mine, push, count 17 instructions, 2 branches
//    |- mi_free_emptied   that was the last block in use of a page that is not current
//    '- mi_free_beside    was the page full (portion.h), or is it that of a large block?
//        |- mi_free_held    the purge thread may take it: the same, with the home held (hold.c)
//        '- mi_free_other   everything else, by the value of the owner word:
//
//   owner word               what it is                                     where it goes
//   none                     NULL, or not ours                              nothing, or a report
//   interior                 a later slice of a page                        its first slice, again
//   single                   a large block                                  guard.c, large.c
//   this thread and flags    parked: full before; slow: interior pointers   portion.c, flush.c
//   another thread, shared   remote free                                    portion.h, parcel.c
//
// This file takes no lock, never waits and makes no thread state. errno is preserved: every system
// call below saves it.
#include "front.h"
#include "mimalloc.h"

// `p` is passed on so that it keeps its register.
static mi_attr_noinline void mi_free_emptied(void* p, mi_page_t* page) {
  (void)p;
  mi_theap_t* const theap = page->theap;
  const mi_hold_t hold = mi_hold_try(theap->home);
  if (mi_likely(hold != MI_HOLD_REFUSED)) {
    mi_flush_emptied(theap, page);
  } else if (page->place == MI_PLACE_QUEUE) {
    mi_life_rearm(page); // it is looked at later
  }
  mi_hold_leave(theap->home, hold);
}

// Push a block onto the list of a page that this thread owns. `key` is that of the block.
static mi_attr_inline void mi_free_local_by(mi_page_t* page, mi_block_t* block, uint64_t key) {
  if (mi_unlikely(mi_page_push_by(page, block, key))) mi_free_emptied(block, page);
}

static mi_attr_inline void mi_free_local(mi_page_t* page, mi_block_t* block) {
  mi_free_local_by(page, block, mi_secret_of_block(block));
}

// Return the start of the block that `p` is in, or NULL, with a report, if none was handed out.
static mi_block_t* mi_free_block_of(mi_page_t* page, void* p) {
  const size_t index = mi_page_index_of(page, p);
  mi_block_t* const block = (mi_block_t*)(page->start + index * page->block_size);
  if (mi_likely(index < page->reserved && (block == p || mi_page_has_interior(page)))) return block;
  mi_report(MI_ERROR_INTERIOR_POINTER, "free", p, page->block_size);
  return NULL;
}

// Report a free where no page is.
static mi_attr_cold void mi_free_none(void* p) {
  size_t size;
  const mi_error_kind_t kind = mi_guarded_mistake(p, &size);
  mi_report(kind, "free", p, size);
}

static mi_attr_noinline void mi_free_other(void* p, mi_page_t* page) {
  uintptr_t owner = mi_atomic_load_relaxed(&page->owner);
  const uintptr_t self = mi_tls_thread_id();
  if (mi_portion_free_others(page, owner, (mi_block_t*)p)) return;
  if (owner == MI_OWNER_INTERIOR) {
    page = page->first;
    owner = mi_atomic_load_relaxed(&page->owner);
    if (mi_likely(owner == self)) {
      mi_free_local(page, (mi_block_t*)p);
      return;
    }
  }
  if (owner == MI_OWNER_NONE) {
    // After mi_unload a stale pointer is ignored, not reported (UNLOAD-2).
    if (p != NULL && !mi_state.is_unloaded) mi_free_none(p);
    return;
  }
  if (owner == MI_OWNER_SINGLE) {
    mi_guard_free(page, p);
    return;
  }
  mi_block_t* const block = mi_free_block_of(page, p);
  if (block == NULL) return;
  if ((owner & ~MI_OWNER_FLAGS) == self) {
    const bool is_parked = (owner & MI_OWNER_PARKED) != 0;
    if (is_parked ? mi_portion_add_own(page, block) : mi_flush_free(page, block)) return;
  }
  mi_parcel_free(page, block);
}

// The last block in use of a page in a queue; the thread holds its home.
static mi_attr_cold void mi_free_held_emptied(mi_theap_t* home, mi_page_t* page) {
  mi_flush_emptied(page->theap, page);
  mi_hold_go(home, mi_atomic_load_relaxed(&home->hold) + 1);
}

// Free into a page with MI_OWNER_HELD, without a spill, unless the purge thread asks for it.
static mi_attr_noinline void mi_free_held(void* p, mi_page_t* page) {
  mi_theap_t* const home = mi_self_home();
  const uint32_t count = mi_atomic_load_relaxed(&home->hold);
  if (mi_likely(count % 2 == 0)) {
    const bool is_held = mi_hold_come(home, count);
    const uintptr_t owner = mi_atomic_load_relaxed(&page->owner);
    if (mi_likely(is_held && owner == (mi_tls_thread_id() | MI_OWNER_HELD))) {
      if (mi_unlikely(mi_page_push_by(page, (mi_block_t*)p, mi_secret_of_block(p)))) {
        mi_free_held_emptied(home, page);
      } else {
        mi_hold_go(home, count + 2);
      }
      return;
    }
    mi_hold_go(home, count + 2);
  }
  mi_free_other(p, page);
}

// Free where the owner word is not this thread's id alone. Most pages that were full stay so.
static mi_attr_noinline void mi_free_beside(void* p, mi_page_t* page) {
  const uintptr_t flags = mi_atomic_load_relaxed(&page->owner) ^ mi_tls_thread_id();
  if (flags == MI_OWNER_PARKED && mi_portion_free_quick(page, (mi_block_t*)p)) return;
  if (flags == MI_OWNER_HELD) {
    mi_free_held(p, page);
  } else if (mi_atomic_load_relaxed(&page->owner) == MI_OWNER_SINGLE) {
    mi_guard_free(page, p);
  } else {
    mi_free_other(p, page);
  }
}

// Return the descriptor at a distance from `none`; each use is an operand in the form base + index,
// not a sum computed before.
static mi_attr_inline mi_page_t* mi_free_page(mi_pagemap_t** map, uintptr_t* distance) {
  mi_hide(*map);
  mi_hide(*distance);
  return (mi_page_t*)((uintptr_t)(*map)->none + *distance);
}

// Free a block that the program no longer has.
static mi_attr_inline void mi_free_taken(void* p) {
  mi_pagemap_t* map = &mi_pagemap;
  mi_hide(map);
  uintptr_t at = mi_pagemap_distance(map, p);
  const uintptr_t owner = mi_atomic_load_relaxed(&mi_free_page(&map, &at)->owner);
  if (mi_unlikely(owner != mi_tls_thread_id())) {
    mi_free_beside(p, mi_free_page(&map, &at));
    return;
  }
  mi_block_t* const block = (mi_block_t*)p;
  mi_block_set_next(block, mi_free_page(&map, &at)->local_free);
  mi_free_page(&map, &at)->local_free = block;
  if (mi_unlikely(mi_bits_decrement_is_zero(&mi_free_page(&map, &at)->count.used))) {
    mi_free_emptied(p, mi_free_page(&map, &at));
  }
}

static bool mi_free_is_kept(void) { return MI_HAS_QUARANTINE && mi_option_value(quarantine) > 0; }

// An option that may change at any time: what depends on it in one free is read once.
static mi_attr_inline bool mi_free_is_cleared(void) {
  return MI_IS_CLEARED && mi_option_value(zero_on_free) != 0;
}

// In a secure build: a block that is longer, or may be kept. Its canary was checked.
static mi_attr_noinline void mi_free_apart(void* p, uint32_t was) {
  const bool is_cleared = mi_free_is_cleared();
  if (is_cleared) mi_large_clear_freed(p, was);
  if (!mi_free_is_kept() || !mi_quarantine_take(p, is_cleared)) mi_free_taken(p);
}

// A block without a canary, or with one that was overwritten.
static mi_attr_noinline void mi_free_with_care(void* p, uint32_t was) {
  mi_canary_take(p, was);
  mi_free_apart(p, was);
}

// A block with a page of its own, or a mistake.
static mi_attr_noinline void mi_free_single(void* p) {
  if (mi_mark_take_single(p)) mi_free_with_care(p, MI_MARK_SINGLE);
}

// Free any address. The canary, at the end of the block, may be as far from the caches as the mark.
// That tells where it is; the descriptor tells it, too, so that both are on their way at once.
static mi_attr_inline void mi_free_marked(void* p) {
  mi_mark_t* const mark = mi_mark_at(mi_mark_number(p));
  if (mi_unlikely(mark == NULL)) {
    mi_free_single(p);
    return;
  }
  mi_page_t* const page = mi_pagemap_slice(p);
  if (MI_HAS_CANARY) mi_prefetch((uint8_t*)p + page->block_size - 1);
  const uint64_t key = mi_secret_of_block(p);
  // Nothing is spilled here: the functions that are called go on from there.
  const uint32_t was = mi_mark_take(mark);
  if (mi_unlikely(was == 0)) {
    mi_free_single(p);
  } else if (mi_unlikely(!mi_canary_is_sound(p, mark, was, key))) {
    mi_free_with_care(p, was);
  } else if (mi_large_is_long(was) || mi_unlikely(mi_free_is_kept())) {
    mi_free_apart(p, was);
  } else {
    if (mi_free_is_cleared()) mi_large_clear_short((uint8_t*)p, was);
    if (mi_likely(mi_atomic_load_relaxed(&page->owner) == mi_tls_thread_id())) {
      mi_free_local_by(page, (mi_block_t*)p, key);
    } else {
      mi_free_beside(p, page);
    }
  }
}

MI_FAST mi_decl_export void mi_free(void* p) mi_attr_noexcept {
  if (!mi_track_take(&p)) return;
  if (MI_IS_SECURE) {
    mi_free_marked(p);
  } else {
    mi_free_taken(p);
  }
}

mi_decl_export void mi_free_small(void* p) mi_attr_noexcept { mi_free(p); }
