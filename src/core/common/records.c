// SPDX-License-Identifier: MIT
// records.c - pools of records: what is known about guarded blocks (guarded.c), and about samples
// (sampled.c).
//
//   unused record --claim--> in use (`state` says as what) --release--> unused
//
// RECORDS-1  records never move, and stay readable as long as the library is loaded: a report may
//     look at them at any time, also in a signal handler.
// RECORDS-2  a record belongs to the thread that has claimed it, then to whom that gives it.
// RECORDS-3  no lock is held, except while a pool grows or is emptied: a thread that vanished by a
//     fork leaves at most one record behind, unused and in no stack.
// RECORDS-4  the contents of all pieces go back when no record is in use: whoever holds the arena
//     lock takes the whole stack, so that nobody can claim one without that lock. A record counts
//     as used before it leaves the stack, and until it is in there again: if none is used then, and
//     the stack is still empty, all records are the taker's. What reads them finds them unused.
//
// The files that own pools call this. Deliberately absent: what is in a record.
#include "records.h"

#include <string.h>

#include "meta.h"

// Return the piece that a record is in, and the first record of that piece.
static size_t mi_records_piece(size_t index, size_t* first, size_t* count) {
  size_t k = 0;
  *first = 0;
  *count = MI_RECORDS_FIRST;
  while (k < MI_RECORDS_PIECES && index - *first >= *count) {
    *first += *count;
    *count *= 4;
    k++;
  }
  return k;
}

MI_INTERNAL mi_record_t* mi_records_at(mi_records_t* records, size_t index) {
  size_t first, count;
  const size_t k = mi_records_piece(index, &first, &count);
  if (k == MI_RECORDS_PIECES) return NULL;
  // Sees its contents; pairs with the release in `mi_records_make_room`.
  uint8_t* const piece = mi_atomic_load_acquire(&records->piece_of[k]);
  return piece != NULL ? (mi_record_t*)(piece + (index - first) * records->record_size) : NULL;
}

// Make room for the record of that index. Under the arena lock.
static bool mi_records_make_room(mi_records_t* records, size_t index) {
  mi_lock_expect(&mi_state.arena_lock);
  size_t first, count;
  const size_t k = mi_records_piece(index, &first, &count);
  if (k == MI_RECORDS_PIECES) return false;
  if ((records->purged >> k & 1) != 0) mi_meta_use_again(count * records->record_size);
  records->purged &= ~((uint32_t)1 << k);
  if (mi_atomic_load_relaxed(&records->piece_of[k]) != NULL) return true;
  uint8_t* const piece = (uint8_t*)mi_meta_alloc(count * records->record_size);
  if (piece == NULL) return false;
  // Publishes its contents; pairs with the acquire in `mi_records_at`.
  mi_atomic_store_release(&records->piece_of[k], piece);
  return true;
}

static mi_record_t* mi_records_add(mi_records_t* records) {
  mi_lock_enter(&mi_state.arena_lock);
  const uint32_t index = mi_atomic_load_relaxed(&records->record_count);
  const bool is_bounded = records->record_max != 0 && index >= records->record_max;
  const bool has_room = !is_bounded && mi_records_make_room(records, index);
  mi_record_t* const record = has_room ? mi_records_at(records, index) : NULL;
  if (record != NULL) {
    record->index = index + 1;
    // Publishes the piece; pairs with the acquire in `mi_records_count`.
    mi_atomic_store_release(&records->record_count, index + 1);
  }
  mi_lock_leave(&mi_state.arena_lock);
  return record;
}

#define MI_RECORDS_CLAIM_ONE ((uint64_t)1 << 32)

MI_INTERNAL mi_record_t* mi_records_claim(mi_records_t* records) {
  mi_atomic_add_relaxed(&records->used_count, 1);
  // Sees the link of the top; pairs with the release in `mi_records_push`.
  uint64_t head = mi_atomic_load_acquire(&records->unused);
  while ((uint32_t)head != 0) {
    mi_record_t* const top = mi_records_at(records, (uint32_t)head - 1);
    const uint64_t next = (head & ~(MI_RECORDS_CLAIM_ONE - 1)) + MI_RECORDS_CLAIM_ONE +
                          mi_atomic_load_relaxed(&top->below);
    // Sees the link of the next top; pairs with the release in `mi_records_push`.
    if (mi_atomic_cas_weak_acq_rel(&records->unused, &head, next)) return top;
  }
  mi_record_t* const record = mi_records_add(records);
  // Publishes that none was taken; pairs with the acquire in `mi_records_collect`.
  if (record == NULL) mi_atomic_sub_release(&records->used_count, 1);
  return record;
}

// Push a chain of records that the caller has.
static void mi_records_push(mi_records_t* records, const mi_record_t* first, mi_record_t* last) {
  uint64_t head = mi_atomic_load_relaxed(&records->unused);
  uint64_t next;
  do {
    mi_atomic_store_relaxed(&last->below, (uint32_t)head);
    next = (head & ~(MI_RECORDS_CLAIM_ONE - 1)) + first->index;
    // Publishes the link; pairs with the acquires in `mi_records_claim` and `mi_records_take_all`.
  } while (!mi_atomic_cas_weak_release(&records->unused, &head, next));
}

MI_INTERNAL void mi_records_release(mi_records_t* records, mi_record_t* record) {
  // A thread that looks at the record sees that it is no longer in use; pairs with the acquire in
  // `mi_guarded_find` and `mi_sampled_copy`.
  mi_atomic_store_release(&record->state, MI_RECORD_UNUSED);
  mi_records_push(records, record, record);
  // Publishes that it is there; pairs with the acquire in `mi_records_collect`.
  mi_atomic_sub_release(&records->used_count, 1);
}

// Take the whole stack: `*top` is its first record, NULL none. Returns the head that it has then.
static uint64_t mi_records_take_all(mi_records_t* records, mi_record_t** top) {
  uint64_t head = mi_atomic_load_relaxed(&records->unused);
  uint64_t empty;
  do {
    empty = (head & ~(MI_RECORDS_CLAIM_ONE - 1)) + MI_RECORDS_CLAIM_ONE;
    // Sees the links, and the counts of those who took others; pairs with `mi_records_push` and
    // `mi_records_claim`.
  } while (!mi_atomic_cas_weak_acq_rel(&records->unused, &head, empty));
  *top = (uint32_t)head != 0 ? mi_records_at(records, (uint32_t)head - 1) : NULL;
  return empty;
}

static void mi_records_put_back(mi_records_t* records, mi_record_t* top) {
  mi_record_t* last = top;
  uint32_t below;
  while ((below = mi_atomic_load_relaxed(&last->below)) != 0) {
    last = mi_records_at(records, below - 1);
  }
  mi_records_push(records, top, last);
}

MI_INTERNAL void mi_records_collect(mi_records_t* records) {
  mi_lock_expect(&mi_state.arena_lock);
  if (mi_atomic_load_relaxed(&records->record_count) <= MI_RECORDS_FIRST) return;
  // Sees the stack without those who are here; pairs with the releases in `mi_records_release` and
  // `mi_records_claim`.
  if (mi_atomic_load_acquire(&records->used_count) != 0) return;
  mi_record_t* top;
  const uint64_t empty = mi_records_take_all(records, &top);
  // Sees what came back after that; pairs with the releases in `mi_records_release` and
  // `mi_records_claim`.
  const bool is_any_used = mi_atomic_load_acquire(&records->used_count) != 0;
  if (is_any_used || mi_atomic_load_relaxed(&records->unused) != empty) {
    if (top != NULL) mi_records_put_back(records, top);
    return;
  }
  size_t size = MI_RECORDS_FIRST * records->record_size;
  for (size_t k = 0; k < MI_RECORDS_PIECES; k++, size *= 4) {
    uint8_t* const piece = mi_atomic_load_relaxed(&records->piece_of[k]);
    if (piece == NULL) break;
    const bool is_purged = (records->purged >> k & 1) != 0 || mi_meta_purge_used(piece, size);
    if (is_purged) records->purged |= (uint32_t)1 << k;
  }
  mi_atomic_store_relaxed(&records->record_count, 0);
}

MI_INTERNAL size_t mi_records_count(mi_records_t* records) {
  // Sees the pieces; pairs with the release in `mi_records_add`.
  return mi_atomic_load_acquire(&records->record_count);
}

MI_INTERNAL void mi_records_done(mi_records_t* records) {
  mi_atomic_store_relaxed(&records->unused, 0);
  mi_atomic_store_relaxed(&records->used_count, 0);
  mi_atomic_store_relaxed(&records->record_count, 0);
  records->purged = 0;
  for (size_t k = 0; k < MI_RECORDS_PIECES; k++) {
    mi_atomic_store_relaxed(&records->piece_of[k], NULL);
  }
}
