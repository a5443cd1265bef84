// SPDX-License-Identifier: MIT
// life.h - the life of a page: every change of its owner, and of the place where the owner keeps
// it. The picture and the rules are in life.c.
//
// Functions that take a theap are called by its thread, which owns the page; for an orphan, by the
// thread that holds the thread lock (THREAD-2).
#ifndef MI_CORE_LIFE_H
#define MI_CORE_LIFE_H

#include "remote.h"

// -- descriptors --

// The later slices of a page that forward to its descriptor, because a block can start there: those
// from `first` on, up to `end`.
typedef struct mi_interior_s {
  size_t first, end;
} mi_interior_t;

// Set up the descriptors of a run; the caller writes the other fields of the page.
MI_INTERNAL mi_page_t* mi_life_describe(uint8_t* start, size_t slice_count, mi_interior_t interior);

// Reset the descriptors to those of no page.
MI_INTERNAL void mi_life_undescribe(mi_page_t* page, mi_interior_t interior);

// -- who owns the page --

// Mark a page of one large block: it has no owner for all its life.
MI_INTERNAL void mi_life_be_single(mi_page_t* page);

// Begin the life of a page of blocks that was just described: it is marked as owned, and the caller
// becomes its owner (mi_life_own).
MI_INTERNAL void mi_life_open(mi_page_t* page);

// End the life of an empty page, as its owner: its word becomes that of no page.
MI_INTERNAL void mi_life_close(mi_page_t* page);

// Make the thread of the theap, which made or claimed the page, its owner.
MI_INTERNAL void mi_life_own(mi_theap_t* theap, mi_page_t* page);

// Give up a page without a free block, as its owner, but keep the thread's id in it. False if
// blocks arrived, so that the page is not full.
MI_INTERNAL bool mi_life_park(mi_page_t* page, uintptr_t thread_id);

// Give the page up to any thread; `bits` are added to its word. `owner` is MI_OWNER_SHARED, or
// names the thread that wants it back at its next free into it, as if that had parked it. False if
// the page is still owned, see mi_remote_release.
MI_INTERNAL bool mi_life_share(mi_page_t* page, uintptr_t owner, uintptr_t pooled, uintptr_t bits);

// Note that a block of the page, which the thread with this id owns, is handed out at an address
// inside the block.
MI_INTERNAL void mi_life_note_interior(mi_page_t* page, uintptr_t thread_id);

// Change the owner of all pages of the theap to `owner`, to hand them over to another thread.
MI_INTERNAL void mi_life_set_owner(mi_theap_t* theap, uintptr_t owner);

// -- where the owner keeps the page --

// Pages that a theap may have in queues for itself (HOLD-2).
#define MI_QUEUED_OWN ((size_t)(MI_IS_TINY ? 2 : 128))

// The first class of wide blocks, which are longer than an eighth of a slice.
#define MI_WIDE_CLASS (mi_class_of(MI_SLICE_SIZE / 8) + 1)

// Return the bit of such a class in `wide` of a theap, 0 of another.
static inline uint64_t mi_life_wide(size_t size_class) {
  return size_class >= MI_WIDE_CLASS ? (uint64_t)1 << (size_class - MI_WIDE_CLASS) : 0;
}

// Allocate from the page, which is in no place.
MI_INTERNAL void mi_life_make_current(mi_theap_t* theap, mi_page_t* page);

// Stop allocating from the current page of a class, whose list in the theap is empty. Returns the
// page, which is in no place then, or NULL if there is none.
MI_INTERNAL mi_page_t* mi_life_leave_current(mi_theap_t* theap, size_t size_class);

// Return the first page of a queue, or NULL / the page after another one, or NULL.
static inline mi_page_t* mi_life_first(const mi_page_queue_t* queue) {
  return queue->last != NULL ? queue->last->next : NULL;
}

static inline mi_page_t* mi_life_after(const mi_page_queue_t* queue, const mi_page_t* page) {
  return page != queue->last ? page->next : NULL;
}

// Put the page at the end of the queue of its class / take it out of the queue.
MI_INTERNAL void mi_life_enqueue(mi_theap_t* theap, mi_page_t* page);
MI_INTERNAL void mi_life_dequeue(mi_theap_t* theap, mi_page_t* page);

// True if only who holds the home of its thread changes the page: HOLD-1.
static inline bool mi_life_is_held(mi_page_t* page) {
  return (mi_atomic_load_relaxed(&page->owner) & MI_OWNER_HELD) != 0;
}

// Let the purge thread take over the page, which is in a queue or current / all pages in queues,
// and the current ones of medium classes, if there is a purge thread, and the theap has a thread.
MI_INTERNAL void mi_life_offer_now(mi_theap_t* theap, mi_page_t* page);
MI_INTERNAL void mi_life_offer_all(mi_theap_t* theap);
static inline void mi_life_offer(mi_theap_t* theap, mi_page_t* page) {
  if (mi_atomic_load_relaxed(&mi_state.purger) != MI_PURGER_NONE) mi_life_offer_now(theap, page);
}

// Make the page a guest. Returns the guest that it displaces, which is in no place then, or NULL.
MI_INTERNAL mi_page_t* mi_life_add_guest(mi_theap_t* theap, mi_page_t* page);

// Remove a guest. False if the page was no guest of the theap.
MI_INTERNAL bool mi_life_remove_guest(mi_theap_t* theap, mi_page_t* page);

// Put the page in no place, whatever its descriptor says: its theap does not exist any more, or
// forgets the page.
MI_INTERNAL void mi_life_displace(mi_page_t* page);

// Forget all pages of the theap, which are gone already.
MI_INTERNAL void mi_life_forget_all(mi_theap_t* theap);

// -- LIFE-1 --

// Correct the count when `free_count` blocks are in `local_free`: all other carved blocks count as
// used.
MI_INTERNAL void mi_life_recount(mi_page_t* page, uint32_t free_count);

// Count `count` blocks that were just put into `local_free`. That the page is empty is not noticed.
MI_INTERNAL void mi_life_uncount(mi_page_t* page, uint32_t count);

// Choose the bias of a page in a queue anew: its holes, or the blocks in use, have changed.
MI_INTERNAL void mi_life_rearm(mi_page_t* page);

// Note that the page, which is in a queue, is sparse / that it is not, or is given up. Its holes
// are the same in between.
MI_INTERNAL void mi_life_note_sparse(mi_page_t* page);
MI_INTERNAL void mi_life_forget_sparse(mi_page_t* page);

// Note that a look found the page sparse.
static inline void mi_life_age_sparse(mi_page_t* page) { page->is_sparse_old = true; }

#endif
