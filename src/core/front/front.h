// SPDX-License-Identifier: MIT
// front.h - the layer of the functions that a program calls.
//
//   slow.h             malloc when its fast path has no block
//   alloc.c free.c     the fast paths
//   aligned.c realloc.c
//
// The layers above include this file and no other of this folder. This layer uses only those below
// it: common, arenas, pages, threads, heaps, process.
#ifndef MI_CORE_FRONT_H
#define MI_CORE_FRONT_H

#include "../process/process.h"

// Return what a new block, or the new part of one, has to contain: option zero_on_allocation.
static mi_attr_inline mi_fill_t mi_fill_wanted(mi_fill_t fill) {
  return MI_IS_CLEARED && mi_option_value(zero_on_allocation) != 0 ? MI_ZERO : fill;
}

// Functions that take a theap allocate from it; it belongs to the calling thread. If it is that of
// a thread which has none yet (`mi_theap_empty`), they make one.

// Allocate a block of at least `size` bytes with `(p + offset) % alignment == 0`; `alignment` is a
// power of two. NULL (errno ENOMEM), and a report, if there is no memory or the size cannot be
// represented.
MI_INTERNAL void* mi_aligned_alloc_at(mi_theap_t* theap, size_t size, size_t alignment,
                                      size_t offset, mi_fill_t fill);

// Resize a block as realloc(3) does, except that size 0 gives a minimal block. With MI_ZERO, the
// bytes past the old usable size are zero. If the result is NULL, `p` stays valid.
MI_INTERNAL void* mi_realloc_block(mi_theap_t* theap, void* p, size_t size, mi_fill_t fill);
MI_INTERNAL void* mi_realloc_block_at(mi_theap_t* theap, void* p, size_t size, size_t alignment,
                                      size_t offset, mi_fill_t fill);

// True when the block at `p` holds `size` bytes, or could be grown to it without moving.
MI_INTERNAL bool mi_realloc_in_place(void* p, size_t size);

// Give back what a block with a page of its own has beyond `size` bytes, without moving it. Others
// stay as they are.
MI_INTERNAL void mi_realloc_shrink(void* p, size_t size);

// Return the bytes from `p` on that the program may use; 0, without a report, if no block is in use
// there, as far as the build knows.
MI_INTERNAL size_t mi_usable_if_used(const void* p);

// Return the bytes of the whole slot that `p` lies in (not only from `p` on); 0 for NULL and
// unknown addresses.
MI_INTERNAL size_t mi_slot_size(const void* p);
// True when `p` points into memory of a page.
MI_INTERNAL bool mi_is_known_address(const void* p);

#endif
