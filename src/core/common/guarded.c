// SPDX-License-Identifier: MIT
// guarded.c - the records of guarded blocks: what is known about them, out of line.
//
//   unused record --claim--> LIVE (alloc) --> FREED (free) --release--> unused
//
// GUARDED-1  a record belongs to the thread that has claimed it, then to the holder of the block,
//     then to the quarantine (guard.c).
//
// A report may look at records at any time, also in a signal handler (RECORDS-1). Deliberately
// absent: the blocks themselves (pages/guard.c).
#include "guarded.h"

static mi_records_t mi_guarded_all = {.record_size = sizeof(mi_guarded_t)};

MI_INTERNAL mi_guarded_t* mi_guarded_claim(void) {
  return (mi_guarded_t*)mi_records_claim(&mi_guarded_all);
}

MI_INTERNAL void mi_guarded_release(mi_guarded_t* record) {
  mi_records_release(&mi_guarded_all, &record->record);
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
  const size_t used = mi_records_count(&mi_guarded_all);
  const mi_guarded_t* nearest = NULL;
  size_t distance = SIZE_MAX;
  bool is_inside = false;
  for (size_t i = 0; i < used; i++) {
    mi_guarded_t* const record = (mi_guarded_t*)mi_records_at(&mi_guarded_all, i);
    if (record == NULL) continue;
    // Sees the record; pairs with the release in `mi_guard_alloc`.
    if (mi_atomic_load_acquire(&record->record.state) == MI_RECORD_UNUSED) continue;
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

MI_INTERNAL void mi_guarded_collect(void) { mi_records_collect(&mi_guarded_all); }

MI_INTERNAL void mi_guarded_done(void) { mi_records_done(&mi_guarded_all); }
