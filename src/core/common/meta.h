// SPDX-License-Identifier: MIT
// meta.h - memory for the allocator's own structures: theaps, arenas and their bitmaps.
//
// These addresses are never unmapped while the library is loaded, so that stale pointers to such a
// structure stay readable (TYPES-2).
#ifndef MI_CORE_META_H
#define MI_CORE_META_H

#include "state.h"

// The list entry of a mapping, itself a small piece.
typedef struct mi_meta_map_s {
  struct mi_meta_map_s* next; // an older one
  void* start;
  size_t size;
} mi_meta_map_t;

// The newest mapping. For meta.c, and for those who look from outside (inspect.c).
MI_INTERNAL_DATA_DECL mi_meta_map_t* mi_meta_maps;

// Allocate zero memory, aligned to 64 bytes. The caller holds the arena lock. NULL when out of
// memory.
MI_INTERNAL void* mi_meta_alloc(size_t size);

// Keep the memory at `p` for the next request of the same size. The caller holds the arena lock.
MI_INTERNAL void mi_meta_free(void* p, size_t size);

// The same two for a caller that does not hold the arena lock.
MI_INTERNAL void* mi_meta_lock_and_alloc(size_t size);
MI_INTERNAL void mi_meta_lock_and_free(void* p, size_t size);

// Give the contents of free memory back to the system. The caller holds the arena lock.
MI_INTERNAL void mi_meta_purge(void);

// Give the contents of memory in use back to the system, so that it reads as zero / note that it is
// used again. The caller holds the arena lock. False if they stay.
MI_INTERNAL bool mi_meta_purge_used(void* p, size_t size);
MI_INTERNAL void mi_meta_use_again(size_t size);

// True if a structure of `size` bytes can be at `p`: the address is aligned, and the whole range is
// memory of this file, in use or free. Takes any address, and no lock.
MI_INTERNAL bool mi_meta_contains(const void* p, size_t size);

// Unmap all of this memory. No structure is in use, and no other thread runs in here (unload.c).
MI_INTERNAL void mi_meta_clear(void);

#endif
