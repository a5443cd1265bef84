// SPDX-License-Identifier: MIT
// flush.h - how a theap gives pages up.
#ifndef MI_CORE_FLUSH_H
#define MI_CORE_FLUSH_H

#include "theap.h"

// Called when the count of a page in a queue or among the guests is 0: no block of it is in use any
// more, and it is released or kept; or it has become sparse.
MI_INTERNAL void mi_flush_emptied(mi_theap_t* theap, mi_page_t* page);

// Free a block of a page that belonged to the calling thread when the caller looked at its owner
// word. False if the purge thread has the page, or had it: the block is still in use.
MI_INTERNAL bool mi_flush_free(mi_page_t* page, mi_block_t* block);

// Collect blocks that other threads freed, and release pages without blocks in use, except those
// that malloc allocates from.
MI_INTERNAL void mi_flush_idle(mi_theap_t* theap);

// Begin to do the same in parts, unless that is under way, and give up guests. Sparse pages grow
// older by it if it `ages`.
MI_INTERNAL void mi_flush_begin_look(mi_theap_t* theap, bool ages);

// Go on with it, for so many pages at most; what is left of them is returned there.
MI_INTERNAL void mi_flush_look(mi_theap_t* theap, size_t* pages);

// Keep a page of this thread that is in no place: at the end of the queue of its class, or, if it
// has no free block, parked. True if it is in the queue; else it must not be touched any more.
static inline bool mi_flush_set_aside(mi_theap_t* theap, mi_page_t* page) {
  if (!mi_page_has_free(page) && mi_life_park(page, theap->thread_id)) return false;
  mi_life_enqueue(theap, page);
  return true;
}

// As mi_flush_idle, before the thread waits for long: pages that malloc allocates from go into the
// queues, too, and sparse ones give back what is between their blocks, as long as there is budget:
// one each.
MI_INTERNAL void mi_flush_rest(mi_theap_t* theap, size_t* budget);

// Give up the pages in queues that have no block in use, if a search for them is short, or much of
// them is known to be empty. What other threads freed is not looked at.
MI_INTERNAL void mi_flush_empty(mi_theap_t* theap);

// Give up all pages in queues, and current ones, that may be taken over (HOLD-1), but those that
// are damaged, as long as there is budget: one each. Their thread has them back at its next free
// into them.
MI_INTERNAL void mi_flush_lend(mi_theap_t* theap, size_t* budget);

// Take in what other threads freed of the pages that malloc allocates from, in the classes of
// mi_flush_trim.
MI_INTERNAL void mi_flush_collect(mi_theap_t* theap);

// Give up pages without a block in use that malloc still allocates from, in classes of blocks over
// an eighth of a slice, until they hold no more than `limit` bytes. Such pages keep a malloc and
// free pair from making a page each time, but too many of them hold memory that other sizes could
// use. The class `busy` is left alone; MI_CLASS_COUNT for none.
MI_INTERNAL void mi_flush_trim(mi_theap_t* theap, size_t limit, size_t busy);

// Give up the pages of one class.
MI_INTERNAL void mi_flush_class(mi_theap_t* theap, size_t size_class);

// Give up everything: lists go back into their pages, empty pages to the arenas, others to the
// pools.
MI_INTERNAL void mi_flush_theap(mi_theap_t* theap);

// Stop allocating from the current page of a class, and put its list back into it. Returns the
// page, which is in no place then, or NULL if there is none.
MI_INTERNAL mi_page_t* mi_flush_detach(mi_theap_t* theap, size_t size_class);

#endif
