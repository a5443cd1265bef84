// SPDX-License-Identifier: MIT
// core.h - what the layers above may call. Everything else in this folder is internal to it.
//
// `mi_malloc`, `mi_zalloc`, `mi_calloc`, `mi_free` and `mi_usable_size` are defined in the core as
// well but declared in the public header. All functions here are valid as the first call of a
// process and on any thread.
#ifndef MI_CORE_CORE_H
#define MI_CORE_CORE_H

#include "hooks.h"
#include "state.h"

// Whether memory must read as zero up to its usable size.
typedef enum mi_fill_e { MI_UNINITIALIZED, MI_ZERO } mi_fill_t;
typedef enum mi_effort_e { MI_GENTLE, MI_FORCE } mi_effort_t;

// Functions that take a theap allocate there; it belongs to the calling thread. That of a thread
// which has none yet (theap.h) makes them make one.

// A block of at least `size` bytes with `(p + offset) % alignment == 0`; `alignment` is a power of
// two. NULL (errno ENOMEM) when there is no memory or the size cannot be represented; reported.
MI_INTERNAL void* mi_aligned_alloc_at(mi_theap_t* theap, size_t size, size_t alignment,
                                      size_t offset, mi_fill_t fill);

// As realloc(3), except that size 0 gives a minimal block. With MI_ZERO, what lies past the old
// usable size is zero. NULL leaves `p` valid.
MI_INTERNAL void* mi_realloc_block(mi_theap_t* theap, void* p, size_t size, mi_fill_t fill);
MI_INTERNAL void* mi_realloc_block_at(mi_theap_t* theap, void* p, size_t size, size_t alignment,
                                      size_t offset, mi_fill_t fill);

// True when the block at `p` holds `size` bytes, or could be grown to it without moving.
MI_INTERNAL bool mi_realloc_in_place(void* p, size_t size);

// Bytes of the whole slot `p` lies in (not only from `p` on); 0 for NULL and unknown addresses.
MI_INTERNAL size_t mi_slot_size(const void* p);
// True when `p` points into memory of a page.
MI_INTERNAL bool mi_is_known_address(const void* p);
// The block size that a request of `size` bytes gets.
MI_INTERNAL size_t mi_class_good_size(size_t size);

// Return what the calling thread holds but does not need; MI_FORCE also purges everything now.
// Returns the number of bytes given back to the system.
MI_INTERNAL size_t mi_collect_all(mi_effort_t effort);

// The same for one theap of the calling thread.
MI_INTERNAL size_t mi_theap_collect_all(mi_theap_t* theap, mi_effort_t effort);

// Find out about the system, which may ask it for what a sandbox forbids later; no memory. Once, by
// the constructor, on any thread. Whoever comes before does without.
MI_INTERNAL void mi_process_prepare(void);
// Set up the process (idempotent), and take the calling thread's memory away from it.
MI_INTERNAL void mi_process_setup(void);
MI_INTERNAL void mi_thread_leave(void);
MI_INTERNAL void mi_thread_enter(void);

// Heaps. `arena` NULL: any. NULL: out of memory.
MI_INTERNAL mi_heap_t* mi_heap_make(mi_subproc_t* subproc, mi_arena_t* arena);
// The end of a heap that is not a main one; see heap.c for what others may do meanwhile. False: it
// has ended already.
MI_INTERNAL bool mi_heap_end_by_delete(mi_heap_t* heap);
MI_INTERNAL bool mi_heap_end_by_destroy(mi_heap_t* heap);

// Give back all memory, that of blocks in use included, and be as before the first call (unload.c).
// The second: unless other threads have some; then it only ends the calling thread's part, and
// returns false.
MI_INTERNAL void mi_unload(void);
MI_INTERNAL bool mi_unload_alone(void);

// Go through the heaps of a sub-process: the main one, then the others from the newest on. A cursor
// of zeros starts. False: that was the last. Heaps may come and go meanwhile: none that stays is
// left out or seen twice.
typedef struct mi_heap_cursor_s {
  mi_heap_t* heap;
  size_t sequence; // of the heap
} mi_heap_cursor_t;
MI_INTERNAL bool mi_heap_next(mi_subproc_t* subproc, mi_heap_cursor_t* cursor);

// What was counted of a heap, or with NULL of all heaps of a sub-process (then without peaks).
MI_INTERNAL void mi_heap_sum_tally(mi_subproc_t* subproc, mi_heap_t* heap, mi_tally_t* sum);

// What is in use now, of a heap, or with NULL of all heaps of a sub-process. See usage.c for how
// exact it is.
typedef struct mi_usage_s {
  size_t in_use, in_use_blocks; // bytes and blocks that share pages
  size_t in_pages; // bytes of those pages that were handed out at least once
  size_t large, large_blocks; // the same for blocks with a page of their own
  size_t pooled_pages;
  size_t class_blocks[MI_CLASS_COUNT], class_pages[MI_CLASS_COUNT];
} mi_usage_t;
MI_INTERNAL void mi_usage_measure(mi_subproc_t* subproc, mi_heap_t* heap, mi_usage_t* usage);

// The page that `p` lies in, or NULL. Takes any address, also deep inside a large block, where
// `mi_pagemap_find` knows nothing: then it looks for the start of the block, and takes a lock.
MI_INTERNAL mi_page_t* mi_heap_find_page(const void* p);

// Call `visit` for every page of a heap, or with NULL of all heaps of a sub-process, until it
// returns false; returns whether it never did. Pages that come and go meanwhile are seen or not.
typedef bool(mi_page_visit_t)(mi_page_t* page, void* arg);
MI_INTERNAL bool mi_heap_visit_pages(mi_subproc_t* subproc, mi_heap_t* heap, mi_page_visit_t* visit,
                                     void* arg);

#endif
