// SPDX-License-Identifier: MIT
// guarded.h - what is known about a guarded block, and which one an address is in or beside.
#ifndef MI_CORE_GUARDED_H
#define MI_CORE_GUARDED_H

#include "hooks.h"
#include "records.h"

#define MI_GUARD_FRAMES ((size_t)16)

typedef enum mi_guard_state_e {
  MI_GUARD_UNUSED = MI_RECORD_UNUSED,
  MI_GUARD_LIVE,
  MI_GUARD_FREED, // its memory is inaccessible
} mi_guard_state_t;

// What is known about a guarded block, out of line. The holder of the block writes it, and whoever
// takes it out of the quarantine; for reports any thread looks at it (`mi_atomic_peek`).
struct mi_guarded_s {
  mi_record_t record; // `state` is a mi_guard_state_t
  bool is_mapped; // the guards are mappings of their own
  uint8_t backing; // mi_page_backing_t
  uint8_t* start; // of the run
  size_t slice_count;
  size_t alignment; // of the run, bytes
  uint8_t* inner; // the accessible OS pages
  size_t inner_size;
  uint8_t* p; // the block
  size_t size; // as asked for, bytes
  size_t heap_sequence; // 0 the main heap
  uintptr_t allocated_by, freed_by; // ids of threads
  const void* allocated_at[MI_GUARD_FRAMES]; // where the calls return to; the rest is NULL
  const void* freed_at[MI_GUARD_FRAMES];
};

// Claim a record that is not in use. NULL when out of memory.
MI_INTERNAL mi_guarded_t* mi_guarded_claim(void);

// Let the record be used for another block.
MI_INTERNAL void mi_guarded_release(mi_guarded_t* record);

// Return the record of the guarded block, live or freed, that is nearest to `p`; NULL if `p` is in
// the run of none. Takes no lock, and any address: for signal handlers.
MI_INTERNAL const mi_guarded_t* mi_guarded_find(const void* p);

// Return what is wrong about a free or realloc of `p`, at which there is no page; `*size` becomes
// the size of the guarded block that was there, if one was.
MI_INTERNAL mi_error_kind_t mi_guarded_mistake(const void* p, size_t* size);

// Give back the memory of records, if none is in use. Under the arena lock.
MI_INTERNAL void mi_guarded_collect(void);

// Forget all records: their memory is about to be unmapped.
MI_INTERNAL void mi_guarded_done(void);

#endif
