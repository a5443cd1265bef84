// SPDX-License-Identifier: MIT
// jemalloc.c - jemalloc's functions that take flags: mallocx, rallocx, xallocx, sallocx, dallocx,
// sdallocx, nallocx.
//
// A word of flags:
//
//   31 ......... 20 | 19 ........... 8 | 7 | 6    | 5 ...... 0
//   number of an    | number of a      | 0 | zero | logarithm of the
//   arena, plus 1   | tcache, plus 2   |   |      | alignment
//
// JEMALLOC-1  a number that leads to no heap means the thread's own heap, as jemalloc's manual
//     allows: it says that flags are not checked.
// JEMALLOC-2  blocks are those of malloc, so any function of ours, or free, may end them.
//
// JEMALLOC-3  a block that xallocx makes shorter gives back memory if it has a page of its own,
//     down to 64 KiB; no other block can be shorter where it is.
//
// Deliberately absent: explicit tcaches. What a thread keeps is kept by size and heap, and a number
// of a tcache is accepted and ignored.
#include "jemalloc.h"

#include <errno.h>
#include <string.h>

#define MI_JEMALLOC_LG_ALIGN 63U
#define MI_JEMALLOC_ZERO 64U
#define MI_JEMALLOC_ARENA_SHIFT 20

// -- Flags --

static size_t mi_jemalloc_alignment(int flags) {
  return mi_compat_power((unsigned)flags & MI_JEMALLOC_LG_ALIGN);
}

static bool mi_jemalloc_is_zero(int flags) { return ((unsigned)flags & MI_JEMALLOC_ZERO) != 0; }

// The heap that the flags ask for, or NULL: the thread's own (JEMALLOC-1).
static mi_heap_t* mi_jemalloc_heap_of(int flags) {
  const size_t arena = (unsigned)flags >> MI_JEMALLOC_ARENA_SHIFT;
  return arena == 0 ? NULL : mi_jemalloc_heap(arena - 1);
}

// Clear what a block has become larger by.
static void mi_jemalloc_clear(void* p, size_t before, size_t after) {
  if (after > before) memset((char*)p + before, 0, after - before);
}

// -- The functions --

static void* mi_jemalloc_alloc_in(mi_heap_t* heap, size_t size, size_t alignment, bool is_zero) {
  if (alignment == 1) return is_zero ? mi_heap_zalloc(heap, size) : mi_heap_malloc(heap, size);
  return is_zero ? mi_heap_zalloc_aligned(heap, size, alignment)
                 : mi_heap_malloc_aligned(heap, size, alignment);
}

static mi_attr_noinline void* mi_jemalloc_alloc(size_t size, int flags) {
  mi_heap_t* const heap = mi_jemalloc_heap_of(flags);
  const size_t alignment = mi_jemalloc_alignment(flags);
  const bool is_zero = mi_jemalloc_is_zero(flags);
  if (heap != NULL) return mi_jemalloc_alloc_in(heap, size, alignment, is_zero);
  if (alignment == 1) return is_zero ? mi_zalloc(size) : mi_malloc(size);
  return is_zero ? mi_zalloc_aligned(size, alignment) : mi_malloc_aligned(size, alignment);
}

void* mallocx(size_t size, int flags) {
  return mi_likely(flags == 0) ? mi_malloc(size) : mi_jemalloc_alloc(size, flags);
}

static void* mi_jemalloc_resize(mi_heap_t* heap, void* p, size_t size, size_t alignment) {
  if (heap == NULL) {
    return alignment == 1 ? mi_realloc(p, size) : mi_realloc_aligned(p, size, alignment);
  }
  return alignment == 1 ? mi_heap_realloc(heap, p, size)
                        : mi_heap_realloc_aligned(heap, p, size, alignment);
}

void* rallocx(void* p, size_t size, int flags) {
  if (mi_likely(flags == 0)) return mi_realloc(p, size);
  const size_t before = mi_usable_size(p);
  void* const q =
      mi_jemalloc_resize(mi_jemalloc_heap_of(flags), p, size, mi_jemalloc_alignment(flags));
  if (q != NULL && mi_jemalloc_is_zero(flags)) mi_jemalloc_clear(q, before, mi_usable_size(q));
  return q;
}

size_t xallocx(void* p, size_t size, size_t extra, int flags) {
  const size_t before = mi_usable_size(p);
  if (((uintptr_t)p & (mi_jemalloc_alignment(flags) - 1)) != 0) return before;
  if (size > PTRDIFF_MAX) return before;
  const size_t room = (size_t)PTRDIFF_MAX - size;
  const size_t most = size + (extra < room ? extra : room);
  if (most < before && mi_elf_shrink != NULL) mi_elf_shrink(p, most);
  if (mi_expand(p, most) == NULL && extra > 0) mi_expand(p, size);
  const size_t after = mi_usable_size(p);
  if (mi_jemalloc_is_zero(flags)) mi_jemalloc_clear(p, before, after);
  return after;
}

size_t sallocx(const void* p, int flags) {
  (void)flags;
  return mi_usable_size(p);
}

void dallocx(void* p, int flags) {
  (void)flags;
  mi_free(p);
}

void sdallocx(void* p, size_t size, int flags) {
  (void)size; // the page knows it
  (void)flags;
  mi_free(p);
}

size_t nallocx(size_t size, int flags) {
  return mi_compat_size(size, mi_jemalloc_alignment(flags));
}
