// SPDX-License-Identifier: MIT
// self_table.c - the thread-local state (thread_self.h) without thread-local variables: a table of
// all threads, by identity.
//
// For systems whose compiler emulates thread-local variables, or whose pthread_setspecific
// allocates: both call malloc at the first access of a thread, which would be our own.
//
//   identity --hash--> a window of slots in the first table, then in the next one, ...
//
// SELF_TABLE-1  only a thread itself writes its identity into a slot and takes it out again. So
//     what it reads is exact: if a slot has its identity, it is its own.
// SELF_TABLE-2  a free slot holds the first value of the state. So a slot is ready as soon as it is
//     claimed, also for a signal handler that interrupts the claim.
// SELF_TABLE-3  a thread that ended, and whose end nobody told us of, leaves its slot. A new thread
//     that gets its identity has the slot then, and goes on with its theap, as thread.c has it.
// SELF_TABLE-4  tables are never unmapped.
//
// Deliberately absent: a limit to the number of threads.
#include "os.h"
#include "thread_self.h"

// Slots of a later table; the first one is part of the library, with MI_SELF_SLOTS.
#define MI_SELF_MORE 4096
// A thread's slot is among so many from its hash on, in one of the tables: another thread that
// ends does not move it.
#define MI_SELF_WINDOW 8

typedef struct mi_self_table_s {
  mi_self_slot_t* slots;
  size_t count; // a power of two
  // more - the next table.
  //   write  any  CAS release  mi_self_extend  (publishes the table)
  //   read   any  acquire      mi_self_seek, mi_self_last, mi_self_forget_others  (sees the table)
  mi_atomic(struct mi_self_table_s*) more;
} mi_self_table_t;

static mi_self_table_t mi_self_first = {mi_self_slots, MI_SELF_SLOTS, NULL};

// No more tables could be had: a slot may be anywhere. Written and read by any thread, relaxed:
// a thread that wrote it finds its own slot, and others have theirs inside of the window.
static mi_atomic(bool) mi_self_is_crowded;

// Return the first slot with the identity `wanted` (0: a free one) where the slot of `id` may be,
// other than `except`; NULL if there is none.
static mi_self_slot_t* mi_self_seek(uintptr_t id, uintptr_t wanted, const mi_self_slot_t* except) {
  const bool is_crowded = mi_atomic_load_relaxed(&mi_self_is_crowded);
  mi_self_table_t* table = &mi_self_first;
  while (table != NULL) {
    const size_t first = mi_self_hash(id) & (table->count - 1);
    const size_t count = is_crowded ? table->count : MI_SELF_WINDOW;
    for (size_t i = 0; i < count; i++) {
      mi_self_slot_t* const slot = &table->slots[(first + i) & (table->count - 1)];
      if (mi_atomic_load_relaxed(&slot->id) == wanted && slot != except) return slot;
    }
    // Sees the table; pairs with the release in `mi_self_extend`.
    table = mi_atomic_load_acquire(&table->more);
  }
  return NULL;
}

// Add a table, or have all slots searched.
static void mi_self_extend(mi_self_table_t* last) {
  // The table itself is in the place of a first slot.
  const size_t size = mi_bits_align_up((MI_SELF_MORE + 1) * sizeof(mi_self_slot_t), MI_SLICE_SIZE);
  uint8_t* const p = (uint8_t*)mi_os_map(NULL, size, MI_SLICE_SIZE, MI_OS_READ_WRITE);
  if (p == NULL) {
    mi_atomic_store_relaxed(&mi_self_is_crowded, true);
    return;
  }
  mi_self_table_t* const table = (mi_self_table_t*)(void*)p;
  table->slots = (mi_self_slot_t*)(void*)p + 1;
  table->count = MI_SELF_MORE;
  for (size_t i = 0; i < MI_SELF_MORE; i++) table->slots[i].self = mi_self_initial;
  mi_self_table_t* expected = NULL;
  // Publishes the table; pairs with the acquires in `mi_self_seek` and `mi_self_last`.
  if (!mi_atomic_cas_strong_release(&last->more, &expected, table)) mi_os_unmap(p, size);
}

static mi_self_table_t* mi_self_last(void) {
  mi_self_table_t* table = &mi_self_first;
  mi_self_table_t* next;
  // Sees the table; pairs with the release in `mi_self_extend`.
  while ((next = mi_atomic_load_acquire(&table->more)) != NULL) table = next;
  return table;
}

MI_INTERNAL mi_self_t* mi_self_find(uintptr_t id) {
  for (;;) {
    mi_self_slot_t* slot = mi_self_seek(id, id, NULL);
    if (slot != NULL) return &slot->self;
    const bool was_crowded = mi_atomic_load_relaxed(&mi_self_is_crowded);
    mi_self_table_t* const last = mi_self_last();
    slot = mi_self_seek(id, 0, NULL);
    uintptr_t expected = 0;
    if (slot == NULL && was_crowded) mi_os_abort("mimalloc: no memory for the state of a thread\n");
    if (slot == NULL) {
      mi_self_extend(last);
      // Sees what the last thread left there, the first value; pairs with the release in
      // `mi_self_clear`.
    } else if (mi_atomic_cas_strong_acquire(&slot->id, &expected, id)) {
      // A signal handler may have claimed another one meanwhile, and has used it.
      mi_self_slot_t* const other = mi_self_seek(id, id, slot);
      if (other == NULL) return &slot->self;
      // Pairs with the acquire in `mi_self_find`.
      mi_atomic_store_release(&slot->id, 0);
      return &other->self;
    }
  }
}

static void mi_self_clear(mi_self_slot_t* slot) {
  slot->self = mi_self_initial;
  // Publishes that; pairs with the acquire in `mi_self_find`.
  mi_atomic_store_release(&slot->id, 0);
}

MI_INTERNAL void mi_self_leave(void) {
  const uintptr_t id = mi_tls_thread_id();
  mi_self_slot_t* const slot = mi_self_seek(id, id, NULL);
  if (slot != NULL) mi_self_clear(slot);
}

MI_INTERNAL void mi_self_forget_others(void) {
  const uintptr_t id = mi_tls_thread_id();
  mi_self_table_t* table = &mi_self_first;
  while (table != NULL) {
    for (size_t i = 0; i < table->count; i++) {
      mi_self_slot_t* const slot = &table->slots[i];
      const uintptr_t now = mi_atomic_load_relaxed(&slot->id);
      if (now != 0 && now != id) mi_self_clear(slot);
    }
    // Sees the table; pairs with the release in `mi_self_extend`.
    table = mi_atomic_load_acquire(&table->more);
  }
}
