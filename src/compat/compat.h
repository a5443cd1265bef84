// SPDX-License-Identifier: MIT
// compat.h - what all files of this folder hold to: the interfaces of other allocators, on top of
// ours.
//
// COMPAT-1  the allocator is known by its public headers only. All that is here is linked into
//     libraries that contain it (cmake/compat.cmake), and nothing of it is in libmimalloc.so. Two
//     functions are known beside these, which are not visible outside of such a library, because
//     no public one does what they do: mi_elf_shrink and mi_cxx_catching.
// COMPAT-2  each function may be the first call of a process, and of several threads at once.
// COMPAT-3  there is no lock, so a fork can leave none behind that is held.
// COMPAT-4  what has no counterpart here is an error that the other allocator documents, or a value
//     that says so. No figure is invented.
//
// Deliberately absent: the headers of the other allocators. What programs call is declared as their
// documentation does, because a build of ours has none of them.
#ifndef MI_COMPAT_COMPAT_H
#define MI_COMPAT_COMPAT_H

#include "../base/atomic.h"
#include "mimalloc.h"
#include "mimalloc-stats.h"

#define MI_COMPAT_EXPORT __attribute__((visibility("default")))
#define MI_COMPAT_QUANTUM ((size_t)2 * sizeof(void*)) // the alignment of all blocks

// The size that a block would have; 0 if there can be none. The alignment is a power of two.
MI_INTERNAL size_t mi_compat_size(size_t size, size_t alignment);

// Two to the power of a number in flags; where size_t has no such, the largest one, which no block
// is aligned to either.
static inline size_t mi_compat_power(unsigned lg) {
  const unsigned most = (unsigned)sizeof(size_t) * 8 - 1;
  return (size_t)1 << (lg < most ? lg : most);
}

// The current value of a figure, which may be less than nothing for a moment.
static inline size_t mi_compat_amount(mi_stat_count_t count) {
  return count.current > 0 ? (size_t)count.current : 0;
}

#endif
