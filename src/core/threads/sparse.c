// SPDX-License-Identifier: MIT
// sparse.c - policy: pages with few blocks in use give the memory between them back (hole.c).
//
//   full -> queued -> a free finds 0 -> sparse, in the ring -> 6 others are -> its memory goes
//                     (LIFE-1)          |     (within the bounds: at a later look)
//                                       '-> empty, or allocated from: no longer sparse
//
// SPARSE-1  a page is sparse when at most 16 of its blocks are in use, and at most half: then about
//     a third of its parts are free if blocks are freed at random (half of them, if a block has an
//     OS page or more), and nearly all if they are freed in the order of addresses. It is looked at
//     again whenever half of the blocks in use are gone, until all parts but one are holes. A page
//     of two blocks is sparse as soon as it comes into the queue.
// SPARSE-2  the free memory of a sparse page goes back when MI_SPARSE_RING other pages have become
//     sparse, as far as it is beyond the bounds of retain.c (RETAIN-7). Not before: a program that
//     frees a structure in about the order in which it made it empties one page after the other,
//     and each is sparse for a moment.
// SPARSE-3  to find the free parts of a page each free block is read, which is a cache miss: pages
//     of more than MI_SPARSE_WALK_MAX blocks would take longer for this than they took to fill.
//     Those, and what is within the bounds, go at the second look through the queues that the clock
//     began, at least half a second after the page became sparse, while the thread allocates.
// SPARSE-4  an entry of the ring is a hint: the page counts only if this thread owns it and it is
//     marked as sparse, whatever became of it since (TYPES-2).
// SPARSE-5  a fast path does nothing for this: the free that makes a page sparse finds 0 where the
//     one finds it that makes a page empty.
//
// SPARSE-6  a sparse page of a thread that sleeps gets its holes when the purge thread takes it
//     over (asleep.c).
// SPARSE-7  what was within the bounds may be beyond them when the heap has become smaller: with
//     each page whose memory goes, an older one is looked for, MI_SPARSE_LOOKS pages on from where
//     the last look ended, through the queues of all classes in turn. (1 GiB of 1 KiB blocks, freed
//     in their order but for each hundredth: half of it would stay in a program with one thread
//     that sleeps then.)
// SPARSE-8  a page of more blocks than MI_SPARSE_WALK_MAX, but at most MI_SPARSE_WALK_CACHED, joins
//     the ring if it is the last in its queue when it becomes sparse: its blocks were freed one
//     after the other, so that they are in the cache. (Of the same 1 GiB in blocks of 300 bytes 320
//     MiB stay, all of it without this. Blocks of 64 bytes have a hundredth in nearly each part.)
//
// SPARSE-9  a thread that does little else than wait refills seldom, and each look comes to few
//     pages: while an eighth of the heap waits between blocks, and 2 MiB, it goes on with its look
//     whenever 10 ms are over, not only after 1,024 refills. (Of 512 MiB in blocks of 256 bytes, of
//     which each hundredth stays, 330 MiB were there after 37 s of 20,000 calls of malloc each.)
//
// SPARSE-10  where a page would make a new peak of committed memory, sparse pages give their memory
//     back first, as far as it is beyond the bound of RETAIN-5: so the peak of a program whose
//     sizes change is not the sum of what it has and what it had.
//
// Deliberately absent: pages that no thread owns, until all unused memory is asked for (pool.c);
// pages that are current.
#include "sparse.h"

#define MI_SPARSE_WALK_MAX 64
#define MI_SPARSE_WALK_CACHED 1024
#define MI_SPARSE_LOOKS 4
#define MI_SPARSE_PEAK_LOOKS 16 // SPARSE-10

MI_INTERNAL mi_attr_noinline size_t mi_sparse_trim(mi_theap_t* theap, mi_page_t* page) {
  mi_subproc_t* const subproc = mi_theap_subproc(theap);
  mi_life_forget_sparse(page);
  const size_t bytes = mi_hole_make(subproc, page);
  if (bytes > 0) mi_retain_note_gone(subproc, bytes);
  mi_life_rearm(page);
  return bytes;
}

static bool mi_sparse_is_in_ring(const mi_theap_t* theap, const mi_page_t* page) {
  for (size_t k = 0; k < MI_SPARSE_RING; k++) {
    if (theap->sparse[k] == page) return true;
  }
  return false;
}

// Put the page into the ring. Returns the one that it displaces, if that is sparse, or NULL, also
// if the page is in the ring already.
static mi_page_t* mi_sparse_turn(mi_theap_t* theap, mi_page_t* page) {
  if (mi_sparse_is_in_ring(theap, page)) return NULL;
  const size_t i = theap->sparse_turn++ % MI_SPARSE_RING;
  mi_page_t* const oldest = theap->sparse[i];
  theap->sparse[i] = page;
  return mi_theap_owns(theap, oldest) && oldest->is_sparse ? oldest : NULL;
}

// SPARSE-8
static bool mi_sparse_is_in_cache(const mi_theap_t* theap, const mi_page_t* page) {
  return page->reserved <= MI_SPARSE_WALK_CACHED && page == theap->queue[page->size_class].last;
}

static mi_page_t* mi_sparse_find_next(mi_theap_t* theap) {
  mi_page_t* const page = theap->sparse_next;
  if (mi_theap_owns(theap, page) && page->place == MI_PLACE_QUEUE) return page;
  for (size_t k = 0; k < MI_CLASS_COUNT; k++) {
    theap->sparse_class = (uint8_t)((theap->sparse_class + 1) % MI_CLASS_COUNT);
    const mi_page_queue_t* const queue = &theap->queue[theap->sparse_class];
    if (queue->last != NULL) return mi_life_first(queue);
  }
  return NULL;
}

// Go on by a page: return the one that is to be looked at, or NULL if none is in a queue: SPARSE-7.
static mi_page_t* mi_sparse_next(mi_theap_t* theap) {
  mi_page_t* const page = mi_sparse_find_next(theap);
  if (page != NULL) theap->sparse_next = mi_life_after(&theap->queue[page->size_class], page);
  return page;
}

// SPARSE-7: one of those that were let alone when more might wait, of the class c or of few blocks.
static void mi_sparse_trim_older(mi_theap_t* theap, size_t c) {
  for (size_t k = 0; k < MI_SPARSE_LOOKS; k++) {
    mi_page_t* const page = mi_sparse_next(theap);
    if (page == NULL) return;
    if (!page->is_sparse || mi_sparse_is_in_ring(theap, page)) continue;
    if (page->reserved > MI_SPARSE_WALK_MAX && page->size_class != c) continue;
    const bool goes = mi_retain_lets_go(mi_theap_subproc(theap), page->slice_count);
    if (goes) mi_sparse_trim(theap, page);
    return;
  }
}

MI_INTERNAL mi_attr_cold void mi_sparse_make_way(mi_theap_t* theap, size_t bytes) {
  size_t gone = 0;
  for (size_t k = 0; k < MI_SPARSE_PEAK_LOOKS && gone < bytes; k++) {
    mi_page_t* const page = mi_sparse_next(theap);
    if (page == NULL) return;
    if (page->is_sparse && page->reserved <= MI_SPARSE_WALK_MAX) {
      gone += mi_sparse_trim(theap, page);
    }
  }
}

MI_INTERNAL mi_attr_cold void mi_sparse_note(mi_theap_t* theap, mi_page_t* page) {
  mi_subproc_t* const subproc = mi_theap_subproc(theap);
  mi_life_rearm(page);
  if (!MI_HAS_HOLES || page->sparse_at == 0) return;
  mi_life_note_sparse(page);
  if (page->reserved > MI_SPARSE_WALK_MAX && !mi_sparse_is_in_cache(theap, page)) return;
  mi_page_t* const oldest = mi_sparse_turn(theap, page);
  if (oldest == NULL || !mi_retain_lets_go(subproc, oldest->slice_count)) return;
  mi_report_enter(MI_REPORT_IN_FREE);
  mi_sparse_trim(theap, oldest);
  mi_sparse_trim_older(theap, page->size_class);
  mi_report_leave();
}

MI_INTERNAL void mi_sparse_age(mi_theap_t* theap, mi_page_t* page, size_t* budget) {
  if (!MI_HAS_HOLES || *budget == 0) return;
  if (!page->is_sparse_old) {
    mi_life_age_sparse(page);
    return;
  }
  (*budget)--;
  mi_sparse_trim(theap, page);
}
