// SPDX-License-Identifier: MIT
// addresses.h - a table of what is known of each of many addresses, for something that ends soon: a
// profile that is being written, a visit of a heap.
#ifndef MI_CORE_ADDRESSES_H
#define MI_CORE_ADDRESSES_H

#include "state.h"

typedef struct mi_address_s {
  uintptr_t address; // 0: a vacant entry
  uint64_t value; // the caller's; 0 at first
} mi_address_t;

// A hash table, and room for other things behind it.
typedef struct mi_addresses_s {
  mi_address_t* entry;
  size_t count; // entries, a power of two
  size_t used;
  uint8_t* room;
  size_t room_size; // bytes
  size_t memory_size; // of all that
} mi_addresses_t;

// Make a table for `most` addresses, with room for so many bytes behind it. False if there is no
// memory; such a table has no room, and finds nothing.
MI_INTERNAL bool mi_addresses_make(mi_addresses_t* table, size_t most, size_t room_size);

// Return the entry of an address, which is made if there is none; NULL if the table is full.
MI_INTERNAL mi_address_t* mi_addresses_find(mi_addresses_t* table, const void* address);

// Return the entry of an address, NULL if there is none.
MI_INTERNAL const mi_address_t* mi_addresses_look(const mi_addresses_t* table, const void* address);

MI_INTERNAL void mi_addresses_end(mi_addresses_t* table);

#endif
