// SPDX-License-Identifier: MIT
// fence.h - inaccessible OS pages beside memory of ours, and behind large blocks. Only in a secure
// build (MI_SECURE); in any other, memory is mapped as it is, and there are none.
//
//   | fence | table of descriptors or marks, structures of ours | fence |
//   | large block (whole OS pages) | fence | rest of its last slice |
//   | block | block | block | rest | fence |                          a page, at level 5
//
// FENCE-1  every mapping that holds only data of the allocator has a fence before it and behind it:
//     a write that runs on from a mapping of the program does not get there.
// FENCE-2  from level 2 on, a large block in use has a fence behind it, one OS page, where that is
//     possible inside a mapping (`mi_os_guard`) and in memory that we mapped. `has_fence` of its
//     descriptor says so.
// FENCE-3  free slices have no fence: they are purged, moved, and faulted in by huge pages. Only
//     the spare run keeps its own, for the next block of the same size (spare.c). A slice with a
//     fence that the system refuses to take away is not used any more (wait.c).
// FENCE-4  at level 5, the last OS page of each page of blocks is a fence, too, likewise.
//
// A fence of FENCE-1 is a mapping of its own: there are few, and all kernels have those. The state
// that lies in the library itself needs none: its code is before it, and behind it `none` of the
// page map, which are read-only. In a program that is linked with the library statically it lies
// among the variables of the program, which nothing can keep apart.
#ifndef MI_CORE_FENCE_H
#define MI_CORE_FENCE_H

#include "state.h"

#if MI_IS_SECURE

// Map `size` bytes of zero memory, whole OS pages, at a multiple of `alignment` bytes, a power of
// two and at least an OS page. NULL when the system refuses.
MI_INTERNAL void* mi_fence_map(size_t size, size_t alignment);

// Unmap that, with its fences.
MI_INTERNAL void mi_fence_unmap(void* start, size_t size, size_t alignment);

// Return where the fence of a page is, or was while its slices were in use.
MI_INTERNAL uint8_t* mi_fence_of(const mi_page_t* page);

// Raise the fence of a page, if it has none: behind its single block, where the run must have room,
// or at its end.
MI_INTERNAL void mi_fence_raise(mi_page_t* page);

// Take it away, if there is one, as long as the page is what it was. What is there reads as
// zero. False if the system refuses: then it is still there.
MI_INTERNAL bool mi_fence_drop(mi_page_t* page);

#else

static inline void* mi_fence_map(size_t size, size_t alignment) {
  mi_count_add(&mi_state.main.count.mmap_calls, 1);
  return mi_os_map(NULL, size, alignment, MI_OS_READ_WRITE);
}

static inline void mi_fence_unmap(void* start, size_t size, size_t alignment) {
  (void)alignment;
  mi_os_unmap(start, size);
}

static inline uint8_t* mi_fence_of(const mi_page_t* page) { return page->start; }
static inline void mi_fence_raise(mi_page_t* page) { (void)page; }
static inline bool mi_fence_drop(mi_page_t* page) { return page != NULL; }

#endif

// Return how many bytes a run needs behind a large block.
static inline size_t mi_fence_room(void) { return MI_HAS_FENCE ? mi_state.os.page_size : 0; }

#endif
