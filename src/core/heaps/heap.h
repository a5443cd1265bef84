// SPDX-License-Identifier: MIT
// heap.h - sets of pages that end together. The protocol is in heap.c.
#ifndef MI_CORE_HEAP_H
#define MI_CORE_HEAP_H

#include "../threads/threads.h"

// Make a heap whose pages come from `arena` (NULL: from any). NULL when out of memory.
MI_INTERNAL mi_heap_t* mi_heap_make(mi_subproc_t* subproc, mi_arena_t* arena);
// End a heap that is not a main one; heap.c says what other threads may do meanwhile. False if it
// has ended already.
MI_INTERNAL bool mi_heap_end_by_delete(mi_heap_t* heap);
MI_INTERNAL bool mi_heap_end_by_destroy(mi_heap_t* heap);

// True if the heap has ended, and its structure waits to be used again. Enters the thread lock.
MI_INTERNAL bool mi_heap_has_ended(const mi_heap_t* heap);

// Go through the heaps of a sub-process: the main one, then the others from the newest on. Start
// with a cursor of zeros. False after the last heap. Heaps may be made and ended meanwhile: none
// that stays is left out or seen twice.
typedef struct mi_heap_cursor_s {
  mi_heap_t* heap;
  size_t sequence; // of the heap
} mi_heap_cursor_t;
MI_INTERNAL bool mi_heap_next(mi_subproc_t* subproc, mi_heap_cursor_t* cursor);

// Call a function for each theap of a heap, with the homes of a main one, or with NULL of all heaps
// of the sub-process. Under the thread lock.
typedef void mi_heap_theap_fun(mi_theap_t* theap, void* arg);
MI_INTERNAL void mi_heap_each_theap_of(mi_subproc_t* subproc, mi_heap_t* heap,
                                       mi_heap_theap_fun* fun, void* arg);

// Store in `*sum` the figures of a heap, or with NULL of all heaps of a sub-process (then without
// peaks).
MI_INTERNAL void mi_heap_sum_tally(mi_subproc_t* subproc, mi_heap_t* heap, mi_tally_t* sum);

// Prepare the main heap of a sub-process, whose structure is zero, or as an ended sub-process left
// it.
MI_INTERNAL void mi_init_main_heap(mi_subproc_t* subproc);

// How a heap ends: its pages then belong to the main heap, or are gone.
typedef enum mi_heap_end_e { MI_HEAP_END_DELETED, MI_HEAP_END_DESTROYED } mi_heap_end_t;
// Under the thread lock: tell all theaps of the heap that it has ended.
MI_INTERNAL void mi_heap_end_theaps(mi_heap_t* heap, mi_heap_end_t end);

// True if the theaps and the book of the heap are valid, and POOL-1 holds for its pools; for
// assertions, under the thread lock, while no other thread uses the heap.
MI_INTERNAL bool mi_heap_is_valid(mi_heap_t* heap);

// Move the figures that a heap has counted to another heap.
MI_INTERNAL void mi_heap_move_tally(mi_heap_t* from, mi_heap_t* to);

// Move pages that were given up into heaps that have ended meanwhile to where they belong.
MI_INTERNAL void mi_heap_drain_ended(mi_subproc_t* subproc);
MI_INTERNAL void mi_heap_drain_ended_locked(mi_subproc_t* subproc);

#endif
