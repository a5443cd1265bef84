// SPDX-License-Identifier: MIT
// fence.h - inaccessible OS pages beside memory of ours. Only in a secure build (MI_SECURE); in any
// other, memory is mapped as it is.
//
//   | fence | a table of descriptors or marks, or structures of ours | fence |
//
// FENCE-1  every mapping that holds only data of the allocator has a fence before it and behind it,
//     so that neither a write that runs on from a mapping of the program gets there, nor one that
//     runs on from there to another one.
//
// Such a fence is a mapping of its own: there are few, and all kernels have those. The state that
// lies in the library itself needs none: its code is before it, and behind it `none` of the page
// map, which are read-only. In a program that is linked with the library
// statically it lies among the variables of the program, which nothing can keep apart.
#ifndef MI_CORE_FENCE_H
#define MI_CORE_FENCE_H

#include "state.h"

#if MI_IS_SECURE

// Map `size` bytes of zero memory, whole OS pages, at a multiple of `alignment` bytes, a power of
// two and at least an OS page. NULL when the system refuses.
MI_INTERNAL void* mi_fence_map(size_t size, size_t alignment);

// Unmap that, with its fences.
MI_INTERNAL void mi_fence_unmap(void* start, size_t size, size_t alignment);

#else

static inline void* mi_fence_map(size_t size, size_t alignment) {
  mi_count_add(&mi_state.main.count.mmap_calls, 1);
  return mi_os_map(NULL, size, alignment, MI_OS_READ_WRITE);
}

static inline void mi_fence_unmap(void* start, size_t size, size_t alignment) {
  (void)alignment;
  mi_os_unmap(start, size);
}

#endif
#endif
