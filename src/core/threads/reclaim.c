// SPDX-License-Identifier: MIT
// reclaim.c - frees by a thread that does not own the page: the blocks are pushed, or the free
// claims the page. The first of these rules that fits decides what becomes of a claimed page:
//
//   1. given up      the thread has no theap of the heap (it never gets one by freeing), the option
//                    page_reclaim_on_free forbids it, or a crowd shares pages of the class
//   2. own           the thread has parked it, and there is no crowd that has little memory; or
//                    that option wants it, and there is no crowd: it waits in the queue of its
//                    class again. Being last it ages, and more of it is free when it serves. It is
//                    given up instead if the queue is as long as the options allow, if it is
//                    empty (unless it was parked here, within a budget), or if the purge thread has
//                    the queues (HOLD-3)
//   3. guest         of the home, if the theap is the home and the page is not empty: the next
//                    frees into it are plain stores
//   4. given up      all others
//
// A page that is given up is released if it is empty; it goes to the pool if an eighth of it is
// free, else it is left to the next free (pool.c).
//
// This file reads the heap of a page without being counted in it (inside.h): it changes only
// figures of the heap, whose structure stays that of a heap (TYPES-2).
//
// RECLAIM-1  guests are pages of main heaps only, whose sub-process does not end before the thread:
//     the thread's home keeps them. A page of a heap that can be destroyed at once is known only to
//     the theaps and pools of that heap (HEAP-4).
#include "reclaim.h"

#include "crowd.h"
#include "hold.h"
#include "sparse.h"

typedef enum mi_reclaim_e {
  MI_RECLAIM_NONE, // 1, 4
  MI_RECLAIM_OWN, // 2
  MI_RECLAIM_GUEST, // 3
} mi_reclaim_t;

// Pages of a queue that are counted for a limit. For a higher one those of all queues count, whose
// number is known: no free takes longer because a queue is long.
#define MI_RECLAIM_COUNT_MAX ((long)(MI_IS_TINY ? 4 : 256))

// True if the queue of a class has fewer pages than `limit`; a negative limit is none.
static bool mi_reclaim_is_short(const mi_theap_t* theap, size_t size_class, long limit) {
  if (limit < 0 || theap->page_count < (size_t)limit) return true; // of all classes: THEAP-4
  if (limit > MI_RECLAIM_COUNT_MAX) return false;
  const mi_page_queue_t* const queue = &theap->queue[size_class];
  const mi_page_t* page = mi_life_first(queue);
  for (; limit > 0 && page != NULL; limit--) page = mi_life_after(queue, page);
  return limit != 0;
}

static bool mi_reclaim_is_parked_by(mi_page_t* page, const mi_theap_t* theap) {
  return (mi_atomic_load_relaxed(&page->owner) & ~MI_OWNER_FLAGS) == theap->thread_id;
}

static mi_reclaim_t mi_reclaim_decide(mi_theap_t* theap, const mi_heap_t* heap, mi_page_t* page) {
  const long reclaim = mi_option_value(page_reclaim_on_free);
  if (theap == NULL || reclaim < 0 || mi_crowd_shares(theap)) return MI_RECLAIM_NONE;
  const bool is_home = theap->home == theap;
  const bool is_crowd = is_home && mi_crowd_is_here(heap->subproc);
  // 1,000,000 blocks replaced beside 40 threads that sleep: 140 ns each, 450 as guests; 2,000 of
  // them 14 and 38. Of many busy threads with little memory queues would be most of it (64 threads
  // of larson: 285 MiB, 420 with queues).
  const bool is_queued =
      mi_reclaim_is_parked_by(page, theap) && !(is_crowd && mi_crowd_is_tight(heap->subproc));
  if (is_queued || (reclaim > 0 && !is_crowd)) return MI_RECLAIM_OWN;
  return is_home && !mi_part_is_empty(page) ? MI_RECLAIM_GUEST : MI_RECLAIM_NONE; // RECLAIM-1
}

// True if there is room for a claimed page in its queue.
static bool mi_reclaim_has_room(mi_theap_t* theap, mi_page_t* page) {
  const bool is_parked_here = mi_reclaim_is_parked_by(page, theap);
  const long limit = is_parked_here && !theap->home->is_in_threadpool
                         ? mi_option_value(page_max_reclaim)
                         : mi_option_value(page_cross_thread_max_reclaim);
  if (!mi_reclaim_is_short(theap, page->size_class, limit)) return false;
  return !mi_part_is_empty(page) || (is_parked_here && mi_theap_keep_idle(theap, page));
}

// Put a claimed page into its queue. False if there is no room, or the purge thread has the queues.
static bool mi_reclaim_enqueue(mi_theap_t* theap, mi_page_t* page) {
  const mi_hold_t hold = mi_hold_try(theap->home);
  const bool is_queued = hold != MI_HOLD_REFUSED && mi_reclaim_has_room(theap, page);
  if (mi_likely(is_queued)) {
    mi_life_own(theap, page);
    mi_life_enqueue(theap, page);
    const uint32_t used = mi_part_used(page);
    if (mi_unlikely(used > 0 && used <= page->sparse_at)) mi_sparse_note(theap, page); // SPARSE-1
  }
  mi_hold_leave(theap->home, hold);
  return is_queued;
}

// Decide about a page that the calling thread just claimed by freeing `block`.
static void mi_reclaim_claimed(mi_page_t* page, mi_block_t* block) {
  mi_block_set_next(block, page->local_free);
  page->local_free = block;
  page->count.used--;
  // Sees the const fields of the heap; pairs with the release in `mi_page_make`.
  mi_heap_t* const heap = mi_atomic_load_acquire(&page->heap);
  mi_theap_t* const theap = mi_theap_find(heap);
  if (theap != NULL && !mi_reclaim_is_parked_by(page, theap)) {
    theap->home->exchange_ticks = MI_EXCHANGE_TICKS;
  }
  const mi_reclaim_t reclaim = mi_reclaim_decide(theap, heap, page);
  if (reclaim == MI_RECLAIM_GUEST) {
    mi_life_own(theap, page);
    mi_tally_often(theap, heap, MI_TALLY_GUESTS);
    mi_theap_add_guest(theap, page);
  } else if (reclaim == MI_RECLAIM_NONE || !mi_reclaim_enqueue(theap, page)) {
    mi_pool_give_up(page);
  }
}

// Decide about a page that the calling thread just claimed by freeing a chain of `count` blocks.
static void mi_reclaim_chain_claimed(mi_page_t* page, mi_block_t* first, mi_block_t* last,
                                     uint32_t count) {
  if (count > 1) {
    mi_block_set_next(last, page->local_free);
    page->local_free = mi_block_next(first);
    page->count.used -= count - 1;
  }
  mi_reclaim_claimed(page, first);
}

MI_INTERNAL void mi_reclaim_chain(mi_page_t* page, mi_block_t* first, mi_block_t* last,
                                  uint32_t count) {
  const size_t size_class = page->size_class;
  switch (mi_remote_push(page, first, last)) {
    case MI_PUSH_DONE: // the page may be gone
      mi_handed_count(mi_self_home(), size_class, (int32_t)count);
      break;
    case MI_PUSH_CLAIMED:
      mi_reclaim_chain_claimed(page, first, last, count);
      break;
    case MI_PUSH_REFUSED:
      break;
  }
}
