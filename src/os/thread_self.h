// SPDX-License-Identifier: MIT
// thread_self.h - the thread-local state: all that a thread keeps for itself, in one structure,
// behind one accessor. It is valid from the first instruction of a thread to its last one.
//
// THREAD_SELF-1  only the thread itself reads or writes this state; a signal handler on the thread
//     leaves the state as it was.
// THREAD_SELF-2  the structure is small: it takes room in the static TLS block of every thread, of
//     which little is left for libraries that are loaded late. It has 48 bytes
//     (test/interop/test_embed.py).
// THREAD_SELF-3  there is no other thread-local variable. Where the compiler emulates such
//     variables, they call malloc at the first access, which would be our own: there the accessor
//     is another one (self_table.c).
//
// The structure is in this folder because a port decides where it is; the fields belong to the
// files that are named.
#ifndef MI_OS_THREAD_SELF_H
#define MI_OS_THREAD_SELF_H

#include "../base/atomic.h"
#include "tls.h"

struct mi_block_s;
struct mi_lock_s;
struct mi_page_s;
struct mi_theap_s;

#define MI_LOCK_RANKS 8 // of locks that may be held together (lock.h)

typedef struct mi_self_s {
  // -- core/common/self.h --
  // The theap that malloc of this thread allocates from: its home, unless the program set another
  // default. Never NULL.
  struct mi_theap_s* theap;
  // The theap that this thread used last by naming a heap; never NULL.
  struct mi_theap_s* theap_recent;

  // -- core/threads/parcel.c --
  // A linked list of freed blocks of one page, on their way to it.
  struct mi_parcel_s {
    struct mi_page_s* page; // NULL: none
    struct mi_block_s* first;
    uint32_t last; // bytes from the start of the page
    uint16_t count;
    uint8_t stage : 4; // mi_parcel_stage_t
    uint8_t misses : 4; // parcels in a row that had one block only
    uint8_t pause; // frees until the next try
  } parcel;

  // -- os/lock.h --
  // The ranks of the locks that this thread holds or is about to enter, one bit each, and
  // MI_LOCKS_OF_FORK. Set before a lock is taken and cleared after it was left, so that a signal
  // handler sees each lock that the interrupted thread holds, at any instruction.
  uint16_t locks_held;

  // -- core/common/report.c --
  uint8_t place; // mi_report_place_t: the user's call, while `quiet` is not 0
  uint8_t quiet; // nesting depth of `mi_report_enter` on this thread
  uint8_t waiting; // reports of this thread that came into slots since they were last delivered
  uint8_t missed; // reports that found no slot; MI_SELF_MISSED_MAX: so many or more
  uint8_t missed_kind : 4; // mi_error_kind_t of the last missed one
  // -- api/output.c --
  bool is_printing : 1;
  bool is_in_error : 1; // in the user's error function
  // -- api/process.c --
  bool is_in_deferred : 1; // in the user's deferred-free function
  // -- core/threads/thread.c --
  uint8_t presence : 2; // mi_presence_t: whether this thread is one of `mi_state.present`
  // -- core/process/fork.c --
  // Forks that this thread began while it held a lock and that are not over. Forks end in reverse
  // order, and those that began without a lock are the outermost.
  uint8_t forks_inside : 5;
  // -- observe/stack.c --
  bool is_in_stack : 1; // reads a stack

#if MI_DEBUG >= 1
  // -- os/assert.c --
  // The lock that a set bit of a rank stands for.
  const struct mi_lock_s* lock_of_rank[MI_LOCK_RANKS];
#endif
} mi_self_t;

typedef struct mi_parcel_s mi_parcel_t;

#define MI_SELF_MISSED_MAX UINT8_MAX

#if !MI_HAS_SELF_TABLE

// Defined in core/common/self.c.
MI_INTERNAL_DATA_DECL __thread mi_self_t mi_self_tls mi_attr_tls;

// Return the state of the calling thread. Never NULL.
static mi_attr_inline mi_self_t* mi_self(void) { return &mi_self_tls; }

// The calling thread ends. It may still use its state.
static inline void mi_self_leave(void) {}

// In the child of a fork, which is the only thread.
static inline void mi_self_forget_others(void) {}

#else

#define MI_SELF_SLOTS 256

typedef struct mi_self_slot_s {
  // id - the thread whose slot this is, 0 none.
  //   write  any    CAS acquire    0 -> its id  mi_self_find  (sees the first value of the state)
  //   write  owner  store release  its id -> 0  mi_self_clear, mi_self_find  (publishes it)
  //   write  child of a fork, its only thread  store release  -> 0  mi_self_clear
  //   read   any    relaxed        a thread looks for its own id, which only it writes
  mi_atomic(uintptr_t) id;
  mi_self_t self;
} mi_self_slot_t;

// Defined in core/common/self.c: the first value, and the first table.
MI_INTERNAL_DATA_DECL const mi_self_t mi_self_initial;
MI_INTERNAL_DATA_DECL mi_self_slot_t mi_self_slots[MI_SELF_SLOTS];

MI_INTERNAL mi_self_t* mi_self_find(uintptr_t id);
MI_INTERNAL void mi_self_leave(void);
MI_INTERNAL void mi_self_forget_others(void);

// Identities are addresses of structures that lie OS pages apart.
static mi_attr_inline size_t mi_self_hash(uintptr_t id) {
  return (size_t)(((uint64_t)id * UINT64_C(0x9E3779B97F4A7C15)) >> 48);
}

static mi_attr_inline mi_self_t* mi_self(void) {
  const uintptr_t id = mi_tls_thread_id();
  mi_self_slot_t* const slot = &mi_self_slots[mi_self_hash(id) % MI_SELF_SLOTS];
  return mi_likely(mi_atomic_load_relaxed(&slot->id) == id) ? &slot->self : mi_self_find(id);
}

#endif

#endif
