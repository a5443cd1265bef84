// SPDX-License-Identifier: MIT
// quarantine.c - freed blocks that are not handed out again for a while, so that a stale pointer
// finds a block without an owner, and a write through it is noticed.
//
//   home->quarantine   | block | block | none | block | ...   each thread has MI_QUARANTINE_SLOTS
//
// A block that is freed takes a random slot, and the block that was there is freed for good. Nobody
// can foretell when a block comes back: each free has one chance in 64 to bring it. A slot holds up
// to a 64th of the option, so that what a thread keeps has that bound.
//
// QUARANTINE-1  a block here has the mark of a free one, and counts as used in its page: it cannot
//     be freed or resized (MARK-1), its page stays, and no list has it.
// QUARANTINE-2  only blocks of the main heap come here, which never ends, and none with a page of
//     its own: a heap that ends need not know who keeps blocks of it.
// QUARANTINE-3  a block that was cleared is zero until it leaves, up to MI_QUARANTINE_LOOK bytes;
//     any other byte is a write of the program, and is reported.
// QUARANTINE-4  what a thread keeps is freed when it ends, when it collects with force, and when it
//     visits the blocks of a heap. What threads that vanished in a fork have kept is freed by the
//     child when a thread does any of that there, or keeps a block; not by the handler of the fork,
//     which may have interrupted a free. So a block leaves its slot, and a thread its slots, before
//     anything else is done with it.
//
// Only the thread itself touches its slots. Only a thread with a home has any: others could not be
// told that they end. Making them takes the arena lock, once. Deliberately absent: a quarantine of
// large blocks, whose addresses alone would have to be kept (mark.h refuses a second free).
#include "quarantine.h"

#include <string.h>

#include "flush.h"
#include "parcel.h"
#include "portion.h"

#if MI_HAS_QUARANTINE

#define MI_QUARANTINE_SLOTS 64
#define MI_QUARANTINE_LOOK ((size_t)1024)
#define MI_QUARANTINE_CLEARED ((uintptr_t)1) // in a slot: the block was cleared

struct mi_quarantine_s {
  mi_quarantine_t* next; // of those that vanished threads have left; else NULL
  mi_random_t random;
  uintptr_t slot[MI_QUARANTINE_SLOTS]; // address of the block, and MI_QUARANTINE_CLEARED; 0 none
};

// Return a larger block size than that of any block that is kept.
static size_t mi_quarantine_bound(void) {
  const long kib = mi_option_value(quarantine);
  return kib <= 0 ? 0 : (size_t)kib * MI_KIB / MI_QUARANTINE_SLOTS + 1;
}

// Look for a write into a block that was cleared: QUARANTINE-3. (Block sizes are multiples of 16.)
static void mi_quarantine_look(const mi_page_t* page, uint8_t* block) {
  const size_t size = mi_bits_min(page->block_size, MI_QUARANTINE_LOOK);
  uint64_t any = 0;
  for (size_t i = 0; i < size; i += 16) {
    uint64_t words[2];
    memcpy(words, block + i, sizeof(words));
    any |= words[0] | words[1];
  }
  if (mi_likely(any == 0)) return;
  const uint8_t* found = block;
  while (*found == 0) found++;
  mi_report_write(MI_ERROR_LATE_WRITE, "free", block, page->block_size, found,
                  (size_t)(block + page->block_size - found));
  memset(block, 0, page->block_size);
}

// Free a block for good, as mi_free does.
static void mi_quarantine_release(uintptr_t kept) {
  mi_block_t* const block = (mi_block_t*)(kept & ~MI_QUARANTINE_CLEARED);
  mi_page_t* const page = mi_pagemap_find(block);
  if ((kept & MI_QUARANTINE_CLEARED) != 0) mi_quarantine_look(page, (uint8_t*)block);
  const uintptr_t owner = mi_atomic_load_relaxed(&page->owner);
  const uintptr_t self = mi_tls_thread_id();
  if ((owner & ~MI_OWNER_FLAGS) == self) {
    const bool is_parked = (owner & MI_OWNER_PARKED) != 0;
    if (is_parked ? mi_portion_add_own(page, block) : mi_flush_free(page, block)) return;
  }
  mi_parcel_free(page, block);
}

static bool mi_quarantine_make(mi_theap_t* home) {
  home->quarantine = (mi_quarantine_t*)mi_meta_lock_and_alloc(sizeof(mi_quarantine_t));
  if (home->quarantine == NULL) return false;
  home->quarantine->random = mi_secret_random();
  return true;
}

// Free all blocks that are kept.
static void mi_quarantine_empty(mi_quarantine_t* quarantine) {
  for (size_t i = 0; i < MI_QUARANTINE_SLOTS; i++) {
    const uintptr_t before = quarantine->slot[i];
    quarantine->slot[i] = 0;
    mi_atomic_signal_fence(); // QUARANTINE-4
    if (before != 0) mi_quarantine_release(before);
  }
}

MI_INTERNAL void mi_quarantine_inherit(mi_theap_t* vanished) {
  mi_quarantine_t* const quarantine = vanished->quarantine;
  if (quarantine == NULL) return;
  vanished->quarantine = NULL;
  quarantine->next = mi_atomic_load_relaxed(&mi_state.quarantines);
  mi_atomic_store_relaxed(&mi_state.quarantines, quarantine);
}

static mi_attr_noinline void mi_quarantine_empty_inherited(void) {
  mi_quarantine_t* quarantine = mi_atomic_swap_relaxed(&mi_state.quarantines, NULL);
  while (quarantine != NULL) {
    mi_quarantine_t* const next = quarantine->next;
    mi_quarantine_empty(quarantine);
    mi_meta_lock_and_free(quarantine, sizeof(mi_quarantine_t));
    quarantine = next;
  }
}

static void mi_quarantine_follow_fork(void) {
  if (mi_unlikely(mi_atomic_load_relaxed(&mi_state.quarantines) != NULL)) {
    mi_quarantine_empty_inherited();
  }
}

MI_INTERNAL bool mi_quarantine_take(void* p, bool is_cleared) {
  mi_quarantine_follow_fork();
  const size_t bound = mi_quarantine_bound();
  mi_theap_t* const home = mi_self_home();
  const mi_page_t* const page = mi_pagemap_find(p);
  if (bound == 0 || home->thread_id == 0 || page->block_size >= bound || mi_page_is_single(page) ||
      mi_atomic_load_relaxed(&((mi_page_t*)(uintptr_t)page)->heap) != &mi_state.main.heap_main) {
    return false;
  }
  if (mi_unlikely(home->quarantine == NULL) && !mi_quarantine_make(home)) return false;
  mi_quarantine_t* const quarantine = home->quarantine;
  uintptr_t* const slot =
      &quarantine->slot[mi_random_below(&quarantine->random, MI_QUARANTINE_SLOTS)];
  const uintptr_t before = *slot;
  *slot = (uintptr_t)p | (is_cleared ? MI_QUARANTINE_CLEARED : 0);
  mi_atomic_signal_fence(); // QUARANTINE-4
  if (before != 0) mi_quarantine_release(before);
  return true;
}

MI_INTERNAL void mi_quarantine_flush(void) {
  mi_quarantine_follow_fork();
  mi_quarantine_t* const quarantine = mi_self_home()->quarantine;
  if (quarantine != NULL) mi_quarantine_empty(quarantine);
}

MI_INTERNAL void mi_quarantine_end(void) {
  mi_theap_t* const home = mi_self_home();
  mi_quarantine_t* const quarantine = home->quarantine;
  if (quarantine == NULL) return;
  mi_quarantine_flush();
  home->quarantine = NULL;
  mi_atomic_signal_fence(); // QUARANTINE-4
  mi_meta_lock_and_free(quarantine, sizeof(mi_quarantine_t));
}

#endif
