// SPDX-License-Identifier: MIT
// guarded.c - the records of guarded blocks: what is known about them, out of line.
//
//   unused record --claim--> LIVE (alloc) --> FREED (free) --release--> unused
//
// GUARDED-1  records never move, and stay readable as long as the library is loaded: a report may
//     look at them at any time, also in a signal handler.
// GUARDED-2  a record belongs to the thread that has claimed it, then to the holder of the block,
//     then to the quarantine (guard.c).
//
// Deliberately absent: the blocks themselves (pages/guard.c).
#include "guarded.h"

#include <string.h>

#include "meta.h"

// Records are in pieces, each four times as large as the one before, which never move.
#define MI_GUARDED_FIRST ((size_t)64)
#define MI_GUARDED_PIECES 13

static struct mi_guarded_all_s {
  // unused - the stack of unused records: the index of the top one plus 1, and above it a number
  // that grows with each pop.
  //   write  any  CAS release  push  mi_guarded_release  (publishes the link)
  //   write  any  CAS acq_rel  pop   mi_guarded_claim        (sees the link of the new top)
  //   read   any  acquire      pop   mi_guarded_claim        (sees the link of the top)
  //   read   any  relaxed      push  what the CAS expects
  mi_atomic(uint64_t) unused;
  // record_count - records that were ever in use.
  //   write  arena lock  store release  mi_guarded_add  (publishes their piece)
  //   read   any         acquire        mi_guarded_find        (sees it)
  //   read   arena lock  relaxed
  mi_atomic(uint32_t) record_count;
  // piece_of - records.
  //   write  arena lock  store release  mi_guarded_make_room  (publishes their contents)
  //   read   any         acquire        mi_guarded_record     (sees these)
  //   read   arena lock  relaxed
  mi_atomic(mi_guarded_t*) piece_of[MI_GUARDED_PIECES];
} mi_guarded_all mi_attr_sparse;

static mi_guarded_t* mi_guarded_record(size_t index) {
  size_t first = 0;
  size_t count = MI_GUARDED_FIRST;
  for (size_t k = 0; k < MI_GUARDED_PIECES; k++, first += count, count *= 4) {
    if (index - first >= count) continue;
    // Sees its contents; pairs with the release in `mi_guarded_make_room`.
    mi_guarded_t* const piece = mi_atomic_load_acquire(&mi_guarded_all.piece_of[k]);
    return piece != NULL ? &piece[index - first] : NULL;
  }
  return NULL;
}

// Make room for the record of that index. Under the arena lock.
static bool mi_guarded_make_room(size_t index) {
  mi_lock_expect(&mi_state.arena_lock);
  size_t first = 0;
  size_t count = MI_GUARDED_FIRST;
  size_t k = 0;
  while (k < MI_GUARDED_PIECES && index - first >= count) {
    first += count;
    count *= 4;
    k++;
  }
  if (k == MI_GUARDED_PIECES) return false;
  if (mi_atomic_load_relaxed(&mi_guarded_all.piece_of[k]) != NULL) return true;
  mi_guarded_t* const piece = (mi_guarded_t*)mi_meta_alloc(count * sizeof(mi_guarded_t));
  if (piece == NULL) return false;
  for (size_t i = 0; i < count; i++) piece[i].index = (uint32_t)(first + i + 1);
  // Publishes its contents; pairs with the acquire in `mi_guarded_record`.
  mi_atomic_store_release(&mi_guarded_all.piece_of[k], piece);
  return true;
}

static mi_guarded_t* mi_guarded_add(void) {
  mi_lock_enter(&mi_state.arena_lock);
  const uint32_t index = mi_atomic_load_relaxed(&mi_guarded_all.record_count);
  const bool has_room = mi_guarded_make_room(index);
  // Publishes the piece; pairs with the acquire in `mi_guarded_find`.
  if (has_room) mi_atomic_store_release(&mi_guarded_all.record_count, index + 1);
  mi_lock_leave(&mi_state.arena_lock);
  return has_room ? mi_guarded_record(index) : NULL;
}

#define MI_GUARDED_CLAIM_ONE ((uint64_t)1 << 32)

MI_INTERNAL mi_guarded_t* mi_guarded_claim(void) {
  // Sees the link of the top; pairs with the release in `mi_guarded_release`.
  uint64_t head = mi_atomic_load_acquire(&mi_guarded_all.unused);
  while ((uint32_t)head != 0) {
    mi_guarded_t* const top = mi_guarded_record((uint32_t)head - 1);
    const uint64_t next = (head & ~(MI_GUARDED_CLAIM_ONE - 1)) + MI_GUARDED_CLAIM_ONE +
                          mi_atomic_load_relaxed(&top->below);
    // Sees the link of the next top; pairs with the release in `mi_guarded_release`.
    if (mi_atomic_cas_weak_acq_rel(&mi_guarded_all.unused, &head, next)) return top;
  }
  return mi_guarded_add();
}

MI_INTERNAL void mi_guarded_release(mi_guarded_t* record) {
  // A thread that looks at the record sees that it is no longer in use; pairs with the acquire in
  // `mi_guarded_find`.
  mi_atomic_store_release(&record->state, MI_GUARD_UNUSED);
  uint64_t head = mi_atomic_load_relaxed(&mi_guarded_all.unused);
  uint64_t next;
  do {
    mi_atomic_store_relaxed(&record->below, (uint32_t)head);
    next = (head & ~(MI_GUARDED_CLAIM_ONE - 1)) + record->index;
    // Publishes the link; pairs with the acquires in `mi_guarded_claim`.
  } while (!mi_atomic_cas_weak_release(&mi_guarded_all.unused, &head, next));
}

// Return the bytes from `p` to the block, 0 if it is inside.
static mi_attr_racy size_t mi_guarded_distance(const mi_guarded_t* record, const void* p) {
  const uintptr_t first = (uintptr_t)mi_atomic_peek(&record->p);
  const uintptr_t end = first + mi_atomic_peek(&record->size);
  if ((uintptr_t)p < first) return first - (uintptr_t)p;
  return (uintptr_t)p < end ? 0 : (uintptr_t)p - end + 1;
}

// The run of one block ends where that of the next may begin: the nearest block is meant.
MI_INTERNAL mi_attr_racy const mi_guarded_t* mi_guarded_find(const void* p) {
  // Sees the pieces; pairs with the release in `mi_guarded_add`.
  const size_t used = mi_atomic_load_acquire(&mi_guarded_all.record_count);
  const mi_guarded_t* nearest = NULL;
  size_t distance = SIZE_MAX;
  bool is_inside = false;
  for (size_t i = 0; i < used; i++) {
    mi_guarded_t* const record = mi_guarded_record(i);
    // Sees the record; pairs with the release in `mi_guard_alloc`.
    if (record == NULL || mi_atomic_load_acquire(&record->state) == MI_GUARD_UNUSED) continue;
    const size_t size = mi_atomic_peek(&record->slice_count) * MI_SLICE_SIZE;
    is_inside = is_inside || (size_t)((const uint8_t*)p - mi_atomic_peek(&record->start)) < size;
    const size_t now = mi_guarded_distance(record, p);
    if (now >= distance) continue;
    distance = now;
    nearest = record;
  }
  return is_inside ? nearest : NULL;
}

MI_INTERNAL mi_attr_racy mi_error_kind_t mi_guarded_mistake(const void* p, size_t* size) {
  const mi_guarded_t* const record = mi_guarded_find(p);
  *size = 0;
  // With notes the program has an address inside of the slot (track.h).
  const bool is_block = record != NULL && (MI_IS_TRACKED ? mi_guarded_distance(record, p) == 0
                                                         : mi_atomic_peek(&record->p) == p);
  if (!is_block) return MI_ERROR_INVALID_POINTER;
  *size = mi_atomic_peek(&record->size);
  return MI_ERROR_DOUBLE_FREE;
}

MI_INTERNAL void mi_guarded_done(void) { memset(&mi_guarded_all, 0, sizeof(mi_guarded_all)); }
