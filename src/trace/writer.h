// SPDX-License-Identifier: MIT
// writer.h - see writer.c.
#ifndef MI_TRACE_WRITER_H
#define MI_TRACE_WRITER_H

#include "format.h"
#include "shadow.h"

#define MI_WRITER_THREAD_BITS 20
#define MI_WRITER_NAME_STEP ((uint64_t)1 << MI_WRITER_THREAD_BITS)
#define MI_WRITER_THREAD_MASK (MI_WRITER_NAME_STEP - 1)

// One thread.
typedef struct mi_writer_s {
  uint8_t* at; // where the next record goes; NULL: there is no piece
  uint8_t* limit; // behind this, `mi_writer_more` comes before a record
  uint64_t caller; // what `mi_writer_order_t.caller` is if nobody else has called since
  uint64_t name; // of the next block, as in the shadow
  bool is_inside; // a call is being recorded, or passed on
  bool is_ending; // the thread's destructors run
  int tid; // of the system
  uint64_t epoch; // of the last record
  uint64_t other; // the thread whose block was freed last, and its number
  uint64_t other_number;
  uint64_t passed_us; // when the time was last recorded
  uint8_t* piece; // NULL: none
  uint8_t* map; // what is mapped of the file; the piece lies at its end. NULL: nothing
  size_t map_bytes;
  uint8_t* rest; // where the next piece begins in it; NULL: it is full, or in use
  size_t claimed_bytes; // the last time that this thread claimed some
  uint32_t index; // of the piece among those of the thread
  struct mi_writer_s* next; // in the list of threads that end, or of unused structures
  mi_format_sizes_t sizes;
} mi_writer_t;

// Who called last: its thread + 1 in the low 20 bits, above them the epoch. Any thread writes and
// reads, relaxed: all changes of one word have one order, and that is all that is asked of it.
typedef struct mi_writer_order_s {
  mi_atomic(uint64_t) caller;
} mi_writer_order_t;

// The writer of this thread, NULL before its first call.
MI_INTERNAL_DATA_DECL _Thread_local mi_writer_t* mi_writer_mine;
// NULL until a trace has begun; constant then.
MI_INTERNAL_DATA_DECL mi_writer_order_t* mi_writer_order;

// The way behind `mi_writer_begin`.
MI_INTERNAL mi_writer_t* mi_writer_begin_slow(void);
// Make room for a record, or record the time. Returns false if the trace has ended.
MI_INTERNAL bool mi_writer_more(mi_writer_t* w);
// Begin an epoch. Returns false if the trace has ended.
MI_INTERNAL bool mi_writer_turn(mi_writer_t* w);
// A block that was entered at an address has gone without a call that was seen.
MI_INTERNAL void mi_writer_unseen(mi_writer_t* w, uint64_t name);
// End the trace because memory for it is missing.
MI_INTERNAL void mi_writer_stop_no_memory(void);

// Begin to record a call. Returns NULL if it is not to be recorded: then it is only passed on.
static inline mi_writer_t* mi_writer_begin(void) {
  mi_writer_t* const w = mi_writer_mine;
  if (mi_unlikely(w == NULL || w->is_inside)) return mi_writer_begin_slow();
  w->is_inside = true;
  mi_atomic_signal_fence();
  return w;
}

static inline void mi_writer_end(mi_writer_t* w) {
  mi_atomic_signal_fence();
  w->is_inside = false;
}

// Return where a record begins, NULL if the trace has ended. Whoever calls sets `w->at` behind it.
static inline uint8_t* mi_writer_record(mi_writer_t* w) {
  if (mi_unlikely(w->at >= w->limit) && !mi_writer_more(w)) return NULL;
  if (mi_unlikely(mi_atomic_load_relaxed(&mi_writer_order->caller) != w->caller)) {
    if (!mi_writer_turn(w)) return NULL;
  }
  return w->at;
}

// Enter a block that a call returned, whose record is written.
static inline void mi_writer_enter(mi_writer_t* w, void* p) {
  const uint64_t name = w->name;
  w->name += MI_WRITER_NAME_STEP;
  if (mi_unlikely(((uintptr_t)p & 7) != 0))
    return; // of an odd allocator: its free is of an unknown block
  mi_shadow_word_t* const word = mi_shadow_enter(p);
  if (mi_unlikely(word == NULL)) {
    mi_writer_stop_no_memory();
    return;
  }
  const uint64_t before = mi_atomic_load_relaxed(word);
  mi_atomic_store_relaxed(word, name);
  if (mi_unlikely(before != 0)) mi_writer_unseen(w, before);
}

// Take a block out, which is about to be freed or replaced. Returns its name, 0 if it has none.
static inline uint64_t mi_writer_take(void* p) {
  if (mi_unlikely(((uintptr_t)p & 7) != 0)) return 0;
  mi_shadow_word_t* const word = mi_shadow_find(p);
  if (mi_unlikely(word == NULL)) return 0;
  const uint64_t name = mi_atomic_load_relaxed(word);
  mi_atomic_store_relaxed(word, 0);
  return name;
}

static inline bool mi_writer_is_mine(const mi_writer_t* w, uint64_t name) {
  return ((name ^ w->name) & MI_WRITER_THREAD_MASK) == 0;
}

// How many blocks the thread was given since that one.
static inline uint64_t mi_writer_distance(const mi_writer_t* w, uint64_t name) {
  return ((w->name - name) >> MI_WRITER_THREAD_BITS) - 1;
}

static inline uint8_t* mi_writer_put_malloc(mi_writer_t* w, uint8_t* at, uint64_t size) {
  uint64_t* const known = &w->sizes.size[mi_format_place(size)];
  if (mi_likely(*known == size + 1)) {
    *at++ = (uint8_t)(MI_FORMAT_MALLOC_KNOWN + mi_format_place(size));
    return at;
  }
  *known = size + 1;
  *at++ = MI_FORMAT_MALLOC;
  return mi_format_put(at, size);
}

// Behind the fast path of `mi_writer_put_free`.
MI_INTERNAL uint8_t* mi_writer_put_free_far(mi_writer_t* w, uint8_t* at, uint64_t name);

// The record of a free of a block that has a name.
static inline uint8_t* mi_writer_put_free(mi_writer_t* w, uint8_t* at, uint64_t name) {
  const uint64_t distance = mi_writer_distance(w, name);
  if (mi_likely(mi_writer_is_mine(w, name) && distance < MI_FORMAT_NEAR_LIMIT)) {
    if (distance < MI_FORMAT_DISTANCE_FAR) {
      *at++ = (uint8_t)(MI_FORMAT_FREE + distance);
      return at;
    }
    const uint64_t near = distance - MI_FORMAT_DISTANCE_FAR;
    *at++ = (uint8_t)(MI_FORMAT_FREE_NEAR + (near >> 8));
    *at++ = (uint8_t)near;
    return at;
  }
  return mi_writer_put_free_far(w, at, name);
}

// The block of a realloc, as it is named in its record. Name 0: unknown.
MI_INTERNAL uint8_t* mi_writer_put_block(const mi_writer_t* w, uint8_t* at, const void* p,
                                         uint64_t name);

#endif
