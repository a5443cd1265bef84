// SPDX-License-Identifier: MIT
// records.h - a pool of records of one size, which never move and stay readable.
#ifndef MI_CORE_RECORDS_H
#define MI_CORE_RECORDS_H

#include "state.h"

// Records are in pieces, each four times as large as the one before, which never move.
#define MI_RECORDS_FIRST ((size_t)64)
#define MI_RECORDS_PIECES 13

#define MI_RECORD_UNUSED ((uint32_t)0) // `state` of a record that is not in use

// What each record begins with.
typedef struct mi_record_s {
  // state - MI_RECORD_UNUSED, or what the owner of the pool says.
  //   write  maker     store release  in use  mi_guard_alloc, mi_sampled_begin  (publishes it)
  //   write  who frees CAS acq_rel    freed   mi_guard_free_record  (only one frees the block)
  //   write  who ends  store release  UNUSED  mi_records_release
  //   read   any       acquire        mi_guarded_find, mi_sampled_copy  (sees the record)
  mi_atomic(uint32_t) state;
  uint32_t index; // of this record, plus 1 (const)
  // below - the record below it in the stack of unused ones, as `index`; 0 none. Written by the
  // thread that pushes the record, read by those that pop, relaxed: the head orders it.
  mi_atomic(uint32_t) below;
} mi_record_t;

// A pool.
typedef struct mi_records_s {
  size_t record_size; // bytes (const)
  size_t record_max; // so many at most; 0: no bound but memory (const)
  // unused - the stack of unused records: the index of the top one plus 1, and above it a number
  // that grows with each pop.
  //   write  any  CAS release  push  mi_records_push  (publishes the link)
  //   write  any  CAS acq_rel  pop   mi_records_claim        (sees the link of the new top)
  //   write  arena lock  CAS acq_rel  all  mi_records_take_all  (sees every link, and who is here)
  //   read   any  acquire      pop   mi_records_claim        (sees the link of the top)
  //   write  alone  store relaxed  the end  mi_records_done
  //   read   any  relaxed      push  what the CAS expects
  mi_atomic(uint64_t) unused;
  // used_count - records that are in use, or about to be: RECORDS-4.
  //   write  any  add relaxed  mi_records_claim  (what comes next orders it)
  //   write  any  sub release  mi_records_release  (publishes that the record is in the stack)
  //   write  any  sub release  mi_records_claim  (the same: there is none)
  //   write  alone  store relaxed  mi_records_done
  //   read   arena lock  acquire  mi_records_collect  (sees that)
  mi_atomic(uint32_t) used_count;
  // record_count - records that were in use since none was.
  //   write  arena lock  store release  mi_records_add  (publishes their piece)
  //   write  arena lock  store relaxed  mi_records_collect
  //   write  alone       store relaxed  mi_records_done
  //   read   any         acquire        mi_records_count       (sees it)
  //   read   arena lock  relaxed
  mi_atomic(uint32_t) record_count;
  // piece_of - records.
  //   write  arena lock  store release  mi_records_make_room  (publishes their contents)
  //   write  alone       store relaxed  mi_records_done
  //   read   any         acquire        mi_records_at         (sees these)
  //   read   arena lock  relaxed
  mi_atomic(uint8_t*) piece_of[MI_RECORDS_PIECES];
  uint32_t purged; // a bit for each piece whose contents went back, under the arena lock
} mi_records_t;

// Claim a record that is not in use. NULL when out of memory, or if there are too many.
MI_INTERNAL mi_record_t* mi_records_claim(mi_records_t* records);

// Let the record be used again.
MI_INTERNAL void mi_records_release(mi_records_t* records, mi_record_t* record);

// If no record is in use, give back their memory. Under the arena lock.
MI_INTERNAL void mi_records_collect(mi_records_t* records);

// Return the number of records that may be in use / that of an index below, NULL if it is being
// made. Takes no lock.
MI_INTERNAL size_t mi_records_count(mi_records_t* records);
MI_INTERNAL mi_record_t* mi_records_at(mi_records_t* records, size_t index);

// Forget all records: their memory is about to be unmapped.
MI_INTERNAL void mi_records_done(mi_records_t* records);

#endif
