// SPDX-License-Identifier: MIT
// plan.h - see plan.c.
#ifndef MI_TRACE_PLAN_H
#define MI_TRACE_PLAN_H

#include "../base/atomic.h"
#include "reader.h"

typedef enum mi_plan_kind_e {
  MI_PLAN_MALLOC,
  MI_PLAN_CALLOC,
  MI_PLAN_REALLOC,
  MI_PLAN_FREE,
  MI_PLAN_ALIGNED_ALLOC,
  MI_PLAN_MEMALIGN,
  MI_PLAN_POSIX_MEMALIGN,
  MI_PLAN_FREE_NULL,
  MI_PLAN_WAIT, // until the thread `slot` has done `size` operations
  MI_PLAN_START, // the thread `slot`
  MI_PLAN_JOIN, // wait for the end of the thread `slot`
  MI_PLAN_KINDS
} mi_plan_kind_t;

typedef struct mi_plan_op_s {
  uint32_t slot;
  uint8_t kind;
  bool is_awaited; // another thread waits for it
  uint8_t alignment_log2;
  bool is_last; // its block lives when the trace ends
  uint64_t size;
} mi_plan_op_t;

typedef struct mi_plan_thread_s {
  mi_region_t ops; // mi_plan_op_t
  uint64_t op_count;
  mi_region_t slots; // uint32_t by the numbers of blocks: slot + 1, 0: none. While planning
  uint32_t unused; // the first of the slots that it may use again, + 1
  bool is_started, is_done, is_joined;
  bool is_ended; // it did not live when the program ended
} mi_plan_thread_t;

// The calls that a trace can have, in the order of `mi_plan_t.calls`.
#define MI_PLAN_CALLS 10

typedef struct mi_plan_s {
  mi_region_t threads; // mi_plan_thread_t
  uint32_t thread_count, started_count;
  uint32_t first; // the thread that calls first: it is replayed by the first thread
  uint32_t slot_count; // how many blocks live at once, about
  uint64_t call_count, calls[MI_PLAN_CALLS];
  uint64_t failed_count, unseen_count;
  uint64_t unknown_count; // frees and reallocs of blocks that the trace does not have
  uint64_t requested_bytes; // of all calls together
  uint64_t live_bytes, live_blocks, peak_bytes, peak_blocks;
  uint64_t crossing_count; // calls that had to do with a block of another thread
  uint64_t last_us; // when the last call was
} mi_plan_t;

// The name of a call, by its place in `calls`; and the place, by the record.
const char* mi_plan_call_name(size_t index);
size_t mi_plan_call_index(const mi_reader_record_t* record);

// Read the trace to its end, or the first `call_most` calls. Returns false if it is damaged.
bool mi_plan_make(mi_plan_t* plan, mi_reader_t* reader, uint64_t call_most);

static inline mi_plan_thread_t* mi_plan_thread(const mi_plan_t* plan, uint32_t thread) {
  return (mi_plan_thread_t*)plan->threads.start + thread;
}

#endif
