// SPDX-License-Identifier: MIT
// shadow.h - see shadow.c.
#ifndef MI_TRACE_SHADOW_H
#define MI_TRACE_SHADOW_H

#include "../base/atomic.h"

#define MI_SHADOW_ADDRESS_BITS 48
#define MI_SHADOW_TABLE_BITS 26
#define MI_SHADOW_ROOT_COUNT ((size_t)1 << (MI_SHADOW_ADDRESS_BITS - MI_SHADOW_TABLE_BITS))
#define MI_SHADOW_TABLE_COUNT ((size_t)1 << (MI_SHADOW_TABLE_BITS - 3))

// The name of a block: its thread in the low 20 bits, above them its number + 1. 0: no block.
// Written and read by whoever may use the block; relaxed, because that orders it (SHADOW-1).
typedef mi_atomic(uint64_t) mi_shadow_word_t;

// A table, or NULL. Any thread reads and writes:
//   write  any    CAS acq_rel   a new table        mi_shadow_make   (publishes that it is there)
//   read   any    acquire       find a word        mi_shadow_table
typedef struct mi_shadow_root_s {
  mi_atomic(mi_shadow_word_t*) table[MI_SHADOW_ROOT_COUNT];
} mi_shadow_root_t;

// NULL until `mi_shadow_init` has been called; constant then.
MI_INTERNAL_DATA_DECL mi_shadow_root_t* mi_shadow_root;

// Make the root. Returns false if there is no memory. At first, and again in the child of a fork.
MI_INTERNAL bool mi_shadow_init(void);
// Make the table of an address, unless another thread has. Returns NULL if there is no memory.
MI_INTERNAL mi_shadow_word_t* mi_shadow_make(const void* p);

static inline size_t mi_shadow_index(uintptr_t address) {
  const size_t cell = (address >> 3) & (MI_SHADOW_TABLE_COUNT - 1);
  return (cell >> 1) | ((cell & 1) * (MI_SHADOW_TABLE_COUNT / 2)); // SHADOW-3
}

static inline mi_shadow_word_t* mi_shadow_table(const void* p, uintptr_t* address) {
  *address = (uintptr_t)mi_cpu_address(p);
  const size_t root = (*address >> MI_SHADOW_TABLE_BITS) & (MI_SHADOW_ROOT_COUNT - 1);
  // sees the table of `mi_shadow_make`
  return mi_atomic_load_acquire(&mi_shadow_root->table[root]);
}

// Return the word of an address, or NULL if no block was entered near it.
static inline mi_shadow_word_t* mi_shadow_find(const void* p) {
  uintptr_t address;
  mi_shadow_word_t* const table = mi_shadow_table(p, &address);
  if (mi_unlikely(table == NULL)) return NULL;
  return &table[mi_shadow_index(address)];
}

// Return the word of an address, NULL only if there is no memory for its table.
static inline mi_shadow_word_t* mi_shadow_enter(const void* p) {
  mi_shadow_word_t* const word = mi_shadow_find(p);
  return mi_likely(word != NULL) ? word : mi_shadow_make(p);
}

#endif
