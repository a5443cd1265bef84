// SPDX-License-Identifier: MIT
// remote.c - the ownership protocol of a page, complete: who may touch it, and how others free into
// it.
//
// One word per page, `thread_free`, decides: a list of blocks, and two bits.
//
//   OWNED clear: nobody touches the page. The list is empty (R1). Whoever sets OWNED owns the page.
//   OWNED set:   one thread owns the page and its plain fields. Others push onto the list.
//
//        +--------------- park, give_up (owner; list empty) ---------------+
//        v                                                                 |
//   not owned -- a free, or a pop from the pool, sets OWNED (acquire) --> owned <--+ push (release)
//                                                                          |  +----+
//                                                                          +-- take (acquire)
//
// R1  not owned => the list is empty: the first free claims the page instead of pushing.
// R2  plain fields of a page are written by its owner only. The CAS that clears OWNED publishes
//     them (release), the CAS that sets it sees them (acquire).
// R3  after the CAS that clears OWNED its thread touches nothing of the page (but `pool_next` if it
//     set POOLED): the page may be released and its slices reused by then.
// R4  the owner word is a hint: only a thread stores its own id there, while it owns the page or
//     when it parks it. A thread that reads its own id without flags owns the page. With the flag
//     PARKED it must win the CAS first.
//
// A block cannot be lost: it is pushed while the page is owned, and the owner looks at the list
// before it lets go (its CAS expects an empty list), or it is freed by the thread that just claimed
// the page. Nobody waits: each loop repeats only because another thread changed the word.
// ABA: the word never holds a pointer that is followed without owning the whole list. Lifetime: the
// freed block keeps the page until its free is counted.
//
// Parcels. A push waits until the link it wrote is in the cache of this core: 40 ns where the block
// was last written by another. So a thread collects what it frees into one page of another thread,
// with plain stores, and pushes the chain at once (producer and consumer of 64 B: 0.33 to 0.70 of
// the time). Blocks in a parcel are blocks in use to all others: they keep the page.
// R5  a parcel is delivered when it is full, when the thread frees into another page, every so
//     often in its mallocs, when it collects, and when it ends; after that it makes none.
// R6  what a thread that sleeps can hold back is one small parcel: MI_PARCEL_MAX blocks of at most
//     MI_PARCEL_BLOCK_MAX bytes, and nothing in a crowd of threads.
// R7  a page that this thread parked itself is not another's.
// R8  parcels and guests are of main heaps only, of sub-processes that do not end before the
//     thread: guests are at its home. Nothing but its theaps and pools knows a page of a heap that
//     can be destroyed at once (E4 of heap.c).
//
// In a process with one thread nobody else can touch the word: plain stores do (os.h,
// `mi_os_is_single_threaded`).
#include "remote.h"

#include "heap.h"
#include "pool.h"
#include "portion.h"
#include "report.h"
#include "state.h"
#include "theap.h"

#define MI_PARCEL_MAX 32
#define MI_PARCEL_MISSES_MAX 3
#define MI_PARCEL_PAUSE 100
#define MI_PARCEL_BLOCK_MAX (MI_SLICE_SIZE / 64)

typedef enum mi_parcel_stage_e {
  MI_PARCEL_NONE = 0, // nobody would deliver it when the thread ends
  MI_PARCEL_READY,
  MI_PARCEL_OVER, // the thread is ending
} mi_parcel_stage_t;

// Blocks of one page, linked, on their way to it.
typedef struct mi_parcel_s {
  mi_page_t* page; // NULL: none
  mi_block_t* first;
  uint32_t last; // bytes from the start of the page
  uint8_t count;
  uint8_t stage : 4; // mi_parcel_stage_t
  uint8_t misses : 4; // parcels in a row that had one block only
  uint8_t pause; // frees until the next try
} mi_parcel_t;

MI_INTERNAL mi_block_t* mi_remote_take(mi_page_t* page) {
  uintptr_t word = mi_atomic_load_relaxed(&page->thread_free);
  mi_assert_page(page, (word & MI_REMOTE_OWNED) != 0);
  do {
    if (word <= MI_REMOTE_BITS) return NULL;
    // Sees every link on the list; pairs with the release in `mi_remote_free`.
  } while (!mi_atomic_cas_weak_acquire(&page->thread_free, &word, word & MI_REMOTE_BITS));
  return (mi_block_t*)(word & ~MI_REMOTE_BITS);
}

// Clear OWNED, adding `bits`. False, and still owned, when the list is not empty, or when POOLED is
// not what the caller saw: the page left the stack, and nobody would look at it again.
static bool mi_remote_release(mi_page_t* page, uintptr_t pooled, uintptr_t bits) {
  uintptr_t word = mi_atomic_load_relaxed(&page->thread_free);
  mi_assert_page(page, (word & MI_REMOTE_OWNED) != 0);
  if (mi_os_is_single_threaded() && word <= MI_REMOTE_BITS) {
    mi_atomic_store_relaxed(&page->thread_free, (word | bits) & ~MI_REMOTE_OWNED);
    return true;
  }
  do {
    if (word > MI_REMOTE_BITS || (word & MI_REMOTE_POOLED) != pooled) return false;
    // Publishes all fields of the page; pairs with the acquire of the next claim.
  } while (
      !mi_atomic_cas_weak_release(&page->thread_free, &word, (word | bits) & ~MI_REMOTE_OWNED));
  return true;
}

MI_INTERNAL bool mi_remote_park(mi_page_t* page, uintptr_t thread_id) {
  mi_assert_page(page, page->place == MI_PLACE_NONE && page->local_free == NULL);
  mi_atomic_store_relaxed(&page->owner, thread_id | MI_OWNER_PARKED);
  uintptr_t word;
  while ((word = mi_atomic_load_relaxed(&page->thread_free)) <= MI_REMOTE_BITS) {
    if (mi_remote_release(page, word & MI_REMOTE_POOLED, 0)) return true;
  }
  mi_atomic_store_relaxed(&page->owner, mi_page_owner_word(page, thread_id));
  return false;
}

MI_INTERNAL bool mi_remote_claim_popped(mi_page_t* page) {
  uintptr_t word = mi_atomic_load_relaxed(&page->thread_free);
  while (true) {
    mi_assert_page(page, (word & MI_REMOTE_POOLED) != 0);
    const uintptr_t desired = (word & ~MI_REMOTE_POOLED) | MI_REMOTE_OWNED;
    // Sees all fields when this claims the page; pairs with the release in `mi_remote_release`.
    if (mi_atomic_cas_weak_acq_rel(&page->thread_free, &word, desired)) {
      return (word & MI_REMOTE_OWNED) == 0;
    }
  }
}

// Enough to be worth finding: an eighth of the page.
static bool mi_remote_is_worth_pooling(const mi_page_t* page) {
  const size_t used = page->count.used;
  return page->reserved - used >= (page->reserved + 7) / 8;
}

MI_INTERNAL void mi_remote_give_up(mi_page_t* page) {
  mi_assert_page(page, page->place == MI_PLACE_NONE);
  mi_report_enter(MI_REPORT_IN_FREE);
  mi_heap_t* const heap = mi_heap_enter(page);
  const size_t c = page->size_class;
  while (true) {
    mi_page_collect(page);
    const uintptr_t pooled = mi_atomic_load_relaxed(&page->thread_free) & MI_REMOTE_POOLED;
    if (page->count.used == 0 && pooled == 0) {
      mi_page_release(heap, page);
      break;
    }
    // A pooled page stays in the stack (L2 of pool.c); whoever pops it finds it as it is.
    mi_atomic_store_relaxed(&page->owner, MI_OWNER_SHARED);
    page->theap = NULL;
    const bool is_push = pooled == 0 && mi_remote_is_worth_pooling(page);
    const bool is_empty = page->count.used == 0;
    if (mi_remote_release(page, pooled, is_push ? MI_REMOTE_POOLED : 0)) {
      if (is_push) mi_pool_push(heap, c, page);
      if (is_empty) mi_pool_note_empty(heap, c); // L4 of pool.c
      break; // nothing of the page is touched here (R3)
    }
  }
  mi_heap_leave(heap);
  mi_report_leave();
}

// What becomes of a page that the calling thread claimed by a free, if it is not empty.
typedef enum mi_reclaim_e {
  MI_RECLAIM_NONE, // it goes on to the pool
  MI_RECLAIM_GUEST, // it is kept for a while
  MI_RECLAIM_OWN, // it waits in the queue of its class
} mi_reclaim_t;

// Whether the queue has fewer pages than the option says; negative is no limit.
static bool mi_remote_is_short(const mi_page_queue_t* queue, long limit) {
  const mi_page_t* page = queue->first;
  for (; limit > 0 && page != NULL; limit--) page = page->next;
  return limit != 0;
}

static bool mi_remote_is_parked_by(mi_page_t* page, const mi_theap_t* theap) {
  return (mi_atomic_load_relaxed(&page->owner) & ~MI_OWNER_FLAGS) == theap->thread_id;
}

// What the options say; a page that the thread parked comes back to it, others are its guests.
static mi_reclaim_t mi_remote_reclaim(const mi_theap_t* theap, const mi_heap_t* heap,
                                      mi_page_t* page) {
  const long reclaim = mi_option_value(page_reclaim_on_free);
  const size_t c = page->size_class;
  // A thread without a theap never gets one by freeing.
  if (theap == NULL || reclaim < 0 || mi_theap_is_shared_class(theap, c)) return MI_RECLAIM_NONE;
  const bool is_parked_here = mi_remote_is_parked_by(page, theap);
  const bool is_home = theap->home == theap;
  const bool is_crowd = is_home && mi_theap_is_crowd(heap->subproc);
  const bool is_of_pool = theap->home->is_in_threadpool;
  const long limit = is_parked_here && !is_of_pool ? mi_option_value(page_max_reclaim)
                                                   : mi_option_value(page_cross_thread_max_reclaim);
  if ((is_parked_here || reclaim > 0) && !is_crowd) {
    return mi_remote_is_short(&theap->queue[c], limit) ? MI_RECLAIM_OWN : MI_RECLAIM_NONE;
  }
  return is_home ? MI_RECLAIM_GUEST : MI_RECLAIM_NONE; // R8
}

// The calling thread just claimed the page by freeing `block`.
static void mi_remote_free_claimed(mi_page_t* page, mi_block_t* block) {
  mi_block_set_next(block, page->local_free);
  page->local_free = block;
  page->count.used--;
  mi_heap_t* const heap = mi_atomic_load_acquire(&page->heap); // sees the const fields
  mi_theap_t* const theap = mi_theap_find(heap);
  const mi_reclaim_t reclaim = mi_remote_reclaim(theap, heap, page);
  const bool is_empty = page->count.used == 0;
  // An empty page stays only where it was.
  if (reclaim == MI_RECLAIM_NONE ||
      (is_empty && !(reclaim == MI_RECLAIM_OWN && mi_remote_is_parked_by(page, theap) &&
                     mi_theap_keep_idle(theap, page)))) {
    mi_remote_give_up(page);
    return;
  }
  page->theap = theap;
  mi_atomic_store_relaxed(&page->owner, mi_page_owner_word(page, theap->thread_id));
  if (reclaim == MI_RECLAIM_OWN) {
    // It waits its turn again. Being last it ages, and more of it is free when it serves.
    theap->page_count++;
    mi_queue_append(&theap->queue[page->size_class], page);
  } else {
    mi_tally_add(&heap->tally, MI_TALLY_GUESTS, 1);
    mi_theap_add_guest(theap, page);
  }
}

// The calling thread just claimed the page by freeing a chain of `count` blocks.
static void mi_remote_free_chain_claimed(mi_page_t* page, mi_block_t* first, mi_block_t* last,
                                         uint32_t count) {
  if (count > 1) {
    mi_block_set_next(last, page->local_free);
    page->local_free = mi_block_next(first);
    page->count.used -= count - 1;
  }
  mi_remote_free_claimed(page, first);
}

// The block is free already if it is the newest of a list.
static bool mi_remote_is_sane(const mi_page_t* page, mi_block_t* block, const mi_block_t* newest) {
  if (mi_unlikely(block == newest)) {
    mi_report_block(MI_ERROR_DOUBLE_FREE, (mi_page_t*)(uintptr_t)page, block, NULL);
    return false;
  }
  return true;
}

// Push it, or claim the page.
MI_INTERNAL void mi_remote_free_chain(mi_page_t* page, mi_block_t* first, mi_block_t* last,
                                      uint32_t count) {
  uintptr_t word = mi_atomic_load_relaxed(&page->thread_free);
  if ((word & MI_REMOTE_OWNED) == 0 && mi_os_is_single_threaded()) {
    mi_atomic_store_relaxed(&page->thread_free, word | MI_REMOTE_OWNED);
    mi_remote_free_chain_claimed(page, first, last, count);
    return;
  }
  while (true) {
    if ((word & MI_REMOTE_OWNED) == 0) {
      // Sees all fields of the page; pairs with the release in `mi_remote_release`.
      if (mi_atomic_cas_weak_acquire(&page->thread_free, &word, word | MI_REMOTE_OWNED)) {
        mi_remote_free_chain_claimed(page, first, last, count);
        return;
      }
    } else {
      mi_block_t* const newest = (mi_block_t*)(word & ~MI_REMOTE_BITS);
      if (!mi_remote_is_sane(page, first, newest)) return;
      mi_block_set_next(last, newest);
      const uintptr_t desired = (uintptr_t)first | (word & MI_REMOTE_BITS);
      // Publishes all links of the chain; pairs with the acquire in `mi_remote_take`.
      if (mi_atomic_cas_weak_release(&page->thread_free, &word, desired)) return;
    }
  }
}

// -- parcels --

static __thread mi_parcel_t mi_parcel mi_attr_tls;

MI_INTERNAL void mi_remote_flush(void) {
  mi_page_t* const page = mi_parcel.page;
  if (page == NULL) return;
  mi_parcel.page = NULL; // before: what follows may free
  mi_block_t* const last = (mi_block_t*)(page->start + mi_parcel.last);
  mi_remote_free_chain(page, mi_parcel.first, last, mi_parcel.count);
}

MI_INTERNAL void mi_remote_end_parcels(void) {
  mi_remote_flush();
  mi_parcel.stage = MI_PARCEL_OVER;
}

// R5 to R7
static bool mi_remote_may_collect(const mi_page_t* page) {
  if (mi_parcel.stage == MI_PARCEL_OVER || page->block_size > MI_PARCEL_BLOCK_MAX) return false;
  const mi_heap_t* const heap = mi_atomic_load_relaxed(&page->heap);
  const bool is_main = heap == &mi_state.main.heap_main;
  if (!is_main && heap != mi_theap_heap(mi_theap_home())) return false; // R8
  if (mi_theap_is_crowd(heap->subproc)) return false;
  const uintptr_t owner = mi_atomic_load_relaxed(&page->owner);
  if ((owner & ~MI_OWNER_FLAGS) == mi_tls_thread_id()) return false; // parked: it is wanted back
  if (mi_parcel.stage == MI_PARCEL_NONE && mi_os_thread_watch(&mi_parcel)) {
    mi_parcel.stage = MI_PARCEL_READY;
  }
  return mi_parcel.stage == MI_PARCEL_READY;
}

static void mi_remote_start_parcel(mi_parcel_t* parcel, mi_page_t* page, mi_block_t* block) {
  const uintptr_t word = mi_atomic_load_relaxed(&page->thread_free);
  if (!mi_remote_is_sane(page, block, (mi_block_t*)(word & ~MI_REMOTE_BITS))) return;
  // Frees all over the place gain nothing: leave it for a while.
  const bool is_miss = parcel->page != NULL && parcel->count == 1;
  parcel->misses = is_miss ? (parcel->misses + 1) & 15 : 0;
  while (parcel->page != NULL) mi_remote_flush(); // a handler that it calls may free
  if (parcel->misses >= MI_PARCEL_MISSES_MAX) {
    parcel->misses = 0;
    parcel->pause = MI_PARCEL_PAUSE;
  }
  parcel->page = page;
  parcel->first = block;
  parcel->last = (uint32_t)((uint8_t*)block - page->start);
  parcel->count = 1;
}

MI_INTERNAL void mi_remote_free(mi_page_t* page, mi_block_t* block) {
  mi_parcel_t* const parcel = &mi_parcel;
  if (mi_likely(parcel->page == page)) {
    if (!mi_remote_is_sane(page, block, parcel->first)) return;
    mi_block_set_next(block, parcel->first);
    parcel->first = block;
    if (++parcel->count >= MI_PARCEL_MAX) mi_remote_flush();
    return;
  }
  if (parcel->pause > 0) {
    parcel->pause--;
  } else if (!mi_os_is_single_threaded()) {
    if (mi_remote_may_collect(page)) {
      mi_remote_start_parcel(parcel, page, block);
      return;
    }
    if (mi_portion_add(page, block)) return;
  }
  mi_remote_free_chain(page, block, block, 1);
}
