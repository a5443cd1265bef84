// SPDX-License-Identifier: MIT
// large.h - blocks that have a page of their own: larger than MI_CLASS_MAX, or with a large
// alignment.
#ifndef MI_CORE_LARGE_H
#define MI_CORE_LARGE_H

#include <string.h>

#include "zeroed.h"

// The description of a page for one block.
typedef struct mi_large_plan_s {
  size_t size; // bytes, with those skipped
  size_t room; // bytes that it may grow to; less than `size`: no more than its slices have
  size_t alignment; // bytes, at least a slice
  size_t shift; // bytes skipped at the start
  size_t touched; // bytes that will be written to, from the start
  bool is_absent; // the program may never touch them
  mi_guarded_t* guarded; // the record of a block with guards, or NULL
  bool is_slot; // the block has exactly `size` bytes, as if it shared its page
} mi_large_plan_t;

// Make a page. NULL when out of memory.
MI_INTERNAL mi_page_t* mi_large_make(mi_heap_t* heap, const mi_large_plan_t* plan);

// End the block, and release its slices except the first `lost_count`, which stay with the caller.
MI_INTERNAL void mi_large_end(mi_page_t* page, size_t lost_count);

// True if memory of the page may be taken away or replaced by mremap. The caller holds its block.
MI_INTERNAL bool mi_large_is_ours(mi_page_t* page);

// Allocate a block of at least `size` bytes at a multiple of `alignment` bytes (a power of two, at
// least a slice). NULL if there is no memory.
MI_INTERNAL void* mi_large_alloc(mi_heap_t* heap, size_t size, size_t alignment, mi_fill_t fill);

// The same, but the result lies `shift` bytes behind the start of the block (0: at the start); for
// aligned offsets.
MI_INTERNAL void* mi_large_alloc_shifted(mi_heap_t* heap, size_t size, size_t alignment,
                                         size_t shift, mi_fill_t fill);

// True if the thread with this home keeps a block of `size` bytes, in whole OS pages.
static inline bool mi_large_keeps(const mi_theap_t* home, size_t size) {
  return mi_kept_is_like(home, mi_bits_align_up(size, mi_state.os.page_size));
}

// Allocate that block. NULL if another thread has just released it. The caller need not do anything
// else.
MI_INTERNAL void* mi_large_alloc_kept(mi_theap_t* home);

// Allocate a block of the size of a class, as one that shares a page has it, at the start of a
// slice. NULL if there is no memory.
MI_INTERNAL void* mi_large_alloc_slot(mi_heap_t* heap, size_t size, mi_fill_t fill);

// Allocate a block that holds `size` bytes now and has addresses to grow by an eighth in place.
MI_INTERNAL void* mi_large_alloc_growing(mi_heap_t* heap, size_t size, mi_fill_t fill);

// Free the block of a page. Any `p` but the address that was handed out is only reported.
MI_INTERNAL void mi_large_free(mi_page_t* page, void* p);

// Make the block hold `size` bytes without moving it. The caller holds the block.
MI_INTERNAL bool mi_large_resize(mi_page_t* page, size_t size);

// Make `size` bytes of the block read as zero. The caller holds the block.
MI_INTERNAL void mi_large_clear(mi_page_t* page, uint8_t* start, size_t size);

#if MI_IS_CLEARED

#define MI_CLEAR_INLINE ((size_t)128)

// Clear a block that the program no longer has, and that had the mark `was`.
MI_INTERNAL void mi_large_clear_freed(void* p, uint32_t was);

// True if such a block has more than MI_CLEAR_INLINE bytes.
static mi_attr_inline bool mi_large_is_long(uint32_t was) {
  return was > (MI_MARK_USED | mi_mark_free_of(mi_class_of(MI_CLEAR_INLINE)));
}

// Clear one that has not; its size is a multiple of 16. This is done from both ends.
static mi_attr_inline void mi_large_clear_short(uint8_t* p, uint32_t was) {
  const size_t size = mi_mark_size(was);
  uint8_t* const end = p + size;
  memset(p, 0, 16);
  memset(end - 16, 0, 16);
  if (size <= 32) return;
  memset(p + 16, 0, 16);
  memset(end - 32, 0, 16);
  if (size <= 64) return;
  memset(p + 32, 0, 32);
  memset(end - 64, 0, 32);
}

#else

static inline void mi_large_clear_freed(void* p, uint32_t was) {
  (void)p;
  (void)was;
}

static mi_attr_inline bool mi_large_is_long(uint32_t was) {
  (void)was;
  return false;
}

static mi_attr_inline void mi_large_clear_short(uint8_t* p, uint32_t was) {
  (void)p;
  (void)was;
}

#endif

// Move the block's memory to a larger block in `heap` by changing the mapping, without copying.
// NULL if this is not possible, in which case nothing changed.
MI_INTERNAL void* mi_large_move(mi_page_t* page, mi_heap_t* heap, size_t size);

#endif
