// SPDX-License-Identifier: MIT
// heap.h - sets of pages that end together. The protocol is in heap.c.
#ifndef MI_CORE_HEAP_H
#define MI_CORE_HEAP_H

#include "../threads/threads.h"

// Heaps. `arena` NULL: any. NULL: out of memory.
MI_INTERNAL mi_heap_t* mi_heap_make(mi_subproc_t* subproc, mi_arena_t* arena);
// The end of a heap that is not a main one; see heap.c for what others may do meanwhile. False: it
// has ended already.
MI_INTERNAL bool mi_heap_end_by_delete(mi_heap_t* heap);
MI_INTERNAL bool mi_heap_end_by_destroy(mi_heap_t* heap);

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

// Prepare the main heap of a sub-process; everything else of it is zero, or as its last one left
// it.
MI_INTERNAL void mi_init_main_heap(mi_subproc_t* subproc);

// How a heap ends: its pages belong to the main heap then, or are gone.
typedef enum mi_heap_end_e { MI_HEAP_END_DELETED, MI_HEAP_END_DESTROYED } mi_heap_end_t;
// Under the thread lock: all theaps of the heap learn that it has ended.
MI_INTERNAL void mi_heap_end_theaps(mi_heap_t* heap, mi_heap_end_t end);

// The theaps and the book of the heap, and POOL-1 of its pools; for assertions, under the thread
// lock, while nobody else uses the heap.
MI_INTERNAL bool mi_heap_is_valid(mi_heap_t* heap);

// What a heap has counted becomes another one's.
MI_INTERNAL void mi_heap_move_tally(mi_heap_t* from, mi_heap_t* to);

// Pages that were given up into heaps that have ended meanwhile go where they belong.
MI_INTERNAL void mi_heap_drain_ended(mi_subproc_t* subproc);
MI_INTERNAL void mi_heap_drain_ended_locked(mi_subproc_t* subproc);

#endif
