// SPDX-License-Identifier: MIT
// meta.h - memory for the allocator's own structures: theaps, arenas and their bitmaps.
//
// Addresses are never given back to the system, so that stale pointers to such a structure stay
// readable (TYPES-2).
#ifndef MI_CORE_META_H
#define MI_CORE_META_H

#include "state.h"

// Zero memory, aligned to 64 bytes. The caller holds the arena lock. NULL when out of memory.
MI_INTERNAL void* mi_meta_alloc(size_t size);

// For the next request of the same size. The caller holds the arena lock.
MI_INTERNAL void mi_meta_free(void* p, size_t size);

// The same two for a caller that does not hold the arena lock.
MI_INTERNAL void* mi_meta_lock_and_alloc(size_t size);
MI_INTERNAL void mi_meta_lock_and_free(void* p, size_t size);

// Give the contents of what is free back to the system. The caller holds the arena lock.
MI_INTERNAL void mi_meta_purge(void);

// Whether a structure of `size` bytes can be at `p`: the address is aligned, and all of it is such
// memory, or was. Takes any address, and no lock.
MI_INTERNAL bool mi_meta_contains(const void* p, size_t size);

// Unmap all of it: no structure is in use, and no other thread (unload.c).
MI_INTERNAL void mi_meta_clear(void);

#endif
