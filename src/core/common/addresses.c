// SPDX-License-Identifier: MIT
// addresses.c - a hash table of addresses, in a mapping of its own.
//
// Deliberately absent: growth, and threads. A table belongs to the thread that made it.
#include "addresses.h"

MI_INTERNAL bool mi_addresses_make(mi_addresses_t* table, size_t most, size_t room_size) {
  const size_t count = (size_t)2 << mi_bits_log2(most * 2 + 1);
  const size_t bytes = count * sizeof(mi_address_t);
  const size_t page_size = mi_state.os.page_size;
  *table = (mi_addresses_t){.memory_size = mi_bits_align_up(bytes + room_size, page_size)};
  void* const memory = mi_os_map(NULL, table->memory_size, page_size, MI_OS_READ_WRITE);
  if (memory == NULL) return false;
  table->entry = (mi_address_t*)memory;
  table->count = count;
  table->room = (uint8_t*)memory + bytes;
  table->room_size = room_size;
  return true;
}

// Return the entry of an address, or the vacant one where it would be. One always is vacant.
static mi_address_t* mi_addresses_at(const mi_addresses_t* table, const void* address) {
  size_t at = (size_t)mi_random_mix((uintptr_t)address);
  while (true) {
    mi_address_t* const entry = &table->entry[at++ & (table->count - 1)];
    if (entry->address == (uintptr_t)address || entry->address == 0) return entry;
  }
}

MI_INTERNAL mi_address_t* mi_addresses_find(mi_addresses_t* table, const void* address) {
  if (table->count == 0) return NULL;
  mi_address_t* const entry = mi_addresses_at(table, address);
  if (entry->address != 0) return entry;
  if (table->used * 4 >= table->count * 3) return NULL;
  entry->address = (uintptr_t)address;
  table->used++;
  return entry;
}

MI_INTERNAL const mi_address_t* mi_addresses_look(const mi_addresses_t* table,
                                                  const void* address) {
  if (table->count == 0) return NULL;
  const mi_address_t* const entry = mi_addresses_at(table, address);
  return entry->address != 0 ? entry : NULL;
}

MI_INTERNAL void mi_addresses_end(mi_addresses_t* table) {
  if (table->entry != NULL) mi_os_unmap(table->entry, table->memory_size);
}
