// SPDX-License-Identifier: MIT
// jemalloc.c - jemalloc's functions that take flags: mallocx, rallocx, xallocx, sallocx, dallocx,
// sdallocx, nallocx; and its arenas, which are heaps.
//
// A word of flags:
//
//   31 ......... 20 | 19 ........... 8 | 7 | 6    | 5 ...... 0
//   number of an    | number of a      | 0 | zero | logarithm of the
//   arena, plus 1   | tcache, plus 2   |   |      | alignment
//
// JEMALLOC-1  an arena's number leads to one heap from arenas.create to arena.<i>.destroy; then the
//     number may be used again. arena.<i>.reset puts another heap in its place.
// JEMALLOC-2  a number that leads to no heap means the thread's own heap, as jemalloc's manual
//     allows: it says that flags are not checked.
// JEMALLOC-3  blocks are those of malloc, so any function of ours, or free, may end them.
//
// Deliberately absent: explicit tcaches. What a thread keeps is kept by size and heap, and a number
// of a tcache is accepted and ignored.
#include "jemalloc.h"

#include <errno.h>
#include <string.h>

#define MI_JEMALLOC_LG_ALIGN 63U
#define MI_JEMALLOC_ZERO 64U
#define MI_JEMALLOC_ARENA_SHIFT 20
#define MI_JEMALLOC_ARENA_MAX ((size_t)4095) // numbers below it fit in the flags

// -- Arenas --

// The heap of each arena but the first, which is the main heap. Written by those who create, reset
// and destroy, with CAS and swap, which are acq_rel: they see what was written before; read by any
// thread, with acquire.
static mi_atomic(mi_heap_t*) mi_jemalloc_slot[MI_JEMALLOC_ARENA_MAX];
// Numbers that have been in use, but for the first. Written by those who create, read by any
// thread; relaxed, because the slot says whether there is an arena.
static mi_atomic(size_t) mi_jemalloc_created;

MI_INTERNAL size_t mi_jemalloc_arenas(void) {
  return 1 + mi_atomic_load_relaxed(&mi_jemalloc_created);
}

MI_INTERNAL mi_heap_t* mi_jemalloc_heap(size_t arena) {
  if (arena == 0) return mi_heap_main();
  if (arena >= MI_JEMALLOC_ARENA_MAX) return NULL;
  // Sees the heap that another thread made; pairs with the CAS in `mi_jemalloc_create_arena`.
  return mi_atomic_load_acquire(&mi_jemalloc_slot[arena]);
}

MI_INTERNAL size_t mi_jemalloc_arena_of(const mi_heap_t* heap) {
  const size_t count = mi_jemalloc_arenas();
  for (size_t i = 1; i < count; i++) {
    if (mi_jemalloc_heap(i) == heap) return i;
  }
  return 0;
}

MI_INTERNAL bool mi_jemalloc_create_arena(size_t* arena) {
  mi_heap_t* const heap = mi_heap_new();
  if (heap == NULL) return false;
  for (size_t i = 1; i < MI_JEMALLOC_ARENA_MAX; i++) {
    mi_heap_t* none = NULL;
    // Publishes the heap; pairs with the acquire in `mi_jemalloc_heap`.
    if (!mi_atomic_cas_strong_acq_rel(&mi_jemalloc_slot[i], &none, heap)) continue;
    size_t created = mi_atomic_load_relaxed(&mi_jemalloc_created);
    while (created < i && !mi_atomic_cas_weak_relaxed(&mi_jemalloc_created, &created, i)) {
    }
    *arena = i;
    return true;
  }
  mi_heap_delete(heap);
  return false;
}

// Put another heap, or none, in the place of an arena's, and end that one.
static int mi_jemalloc_end_heap(size_t arena, mi_heap_t* next) {
  // Sees the heap that another thread made; pairs with the CAS in `mi_jemalloc_create_arena`.
  mi_heap_t* const heap = mi_atomic_swap_acq_rel(&mi_jemalloc_slot[arena], next);
  if (heap == NULL) return EFAULT;
  mi_heap_destroy(heap);
  return 0;
}

MI_INTERNAL int mi_jemalloc_reset_arena(size_t arena) {
  mi_heap_t* const heap = mi_jemalloc_heap(arena);
  if (arena == 0 || heap == NULL) return EFAULT;
  mi_heap_t* const next = mi_heap_new();
  if (next == NULL) return EAGAIN;
  if (mi_heap_get_default() == heap) mi_heap_set_default(next);
  return mi_jemalloc_end_heap(arena, next);
}

MI_INTERNAL int mi_jemalloc_destroy_arena(size_t arena) {
  mi_heap_t* const heap = mi_jemalloc_heap(arena);
  if (arena == 0 || heap == NULL || mi_heap_get_default() == heap) return EFAULT;
  return mi_jemalloc_end_heap(arena, NULL);
}

// -- Flags --

static size_t mi_jemalloc_alignment(int flags) {
  return (size_t)1 << ((unsigned)flags & MI_JEMALLOC_LG_ALIGN);
}

static bool mi_jemalloc_is_zero(int flags) { return ((unsigned)flags & MI_JEMALLOC_ZERO) != 0; }

// The heap that the flags ask for, or NULL: the thread's own (JEMALLOC-2).
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
  if (mi_expand(p, size + (extra < room ? extra : room)) == NULL && extra > 0) mi_expand(p, size);
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
