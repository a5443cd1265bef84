// SPDX-License-Identifier: MIT
// parcel.c - frees into pages of other threads, a chain of blocks at a time.
//
// A push waits until the link it wrote is in the cache of this core: 40 ns where the block
// was last written by another. So a thread collects the blocks that it frees into one page of
// another thread, with plain stores, and pushes the whole chain at once (producer and consumer of
// 64 B: 0.33 to 0.70 of the time). For all other threads, blocks in a parcel are in use: they keep
// the page.
// PARCEL-1  a parcel is delivered when it is full, when the thread frees into another page, every
//     so often in its mallocs, when it collects, and when it ends; after that the thread makes no
//     parcels.
// PARCEL-2  a thread that sleeps can hold back one parcel: MI_PARCEL_BYTES, in blocks of at most
//     MI_PARCEL_BLOCK_MAX, and nothing in a crowd of threads. (With a bound of 32 blocks the owner
//     gets short blocks back at once, which the other core has just written: producer and consumer
//     of 16 and 64 B take 0.7 and 0.8 of the time without.)
// PARCEL-3  a page that this thread parked itself does not count as a page of another thread.
// PARCEL-4  RECLAIM-1 holds for parcels, too: their blocks are of main heaps only.
#include "parcel.h"

#include "crowd.h"
#include "portion.h"
#include "reclaim.h"

#define MI_PARCEL_BYTES (MI_SLICE_SIZE / 2)
#define MI_PARCEL_MISSES_MAX 3
#define MI_PARCEL_PAUSE 100
#define MI_PARCEL_BLOCK_MAX (MI_SLICE_SIZE / 64)

typedef enum mi_parcel_stage_e {
  MI_PARCEL_NONE = 0, // the end of the thread is not watched: a parcel could be lost
  MI_PARCEL_READY,
  MI_PARCEL_OVER, // the thread is ending
} mi_parcel_stage_t;

MI_INTERNAL void mi_parcel_flush(void) {
  mi_parcel_t* const parcel = &mi_self()->parcel;
  mi_page_t* const page = parcel->page;
  if (page == NULL) return;
  parcel->page = NULL; // first, because the next call may free
  mi_block_t* const last = (mi_block_t*)(page->start + parcel->last);
  mi_reclaim_chain(page, parcel->first, last, parcel->count);
}

MI_INTERNAL void mi_parcel_end(void) {
  mi_parcel_flush();
  mi_self()->parcel.stage = MI_PARCEL_OVER;
}

// True if the parcel may collect blocks of this page: PARCEL-1 to PARCEL-4.
static bool mi_parcel_may_collect(mi_parcel_t* parcel, const mi_page_t* page) {
  if (parcel->stage == MI_PARCEL_OVER || page->block_size > MI_PARCEL_BLOCK_MAX) return false;
  const mi_heap_t* const heap = mi_atomic_load_relaxed(&page->heap);
  const bool is_main = heap == &mi_state.main.heap_main;
  if (!is_main && heap != mi_theap_heap(mi_self_home())) return false; // PARCEL-4
  if (mi_crowd_is_here(heap->subproc)) return false;
  const uintptr_t owner = mi_atomic_load_relaxed(&page->owner);
  if ((owner & ~MI_OWNER_FLAGS) == mi_tls_thread_id()) return false; // parked: it is wanted back
  if (parcel->stage == MI_PARCEL_NONE && mi_os_thread_watch(parcel)) {
    parcel->stage = MI_PARCEL_READY;
  }
  return parcel->stage == MI_PARCEL_READY;
}

static void mi_parcel_start(mi_parcel_t* parcel, mi_page_t* page, mi_block_t* block) {
  const uintptr_t word = mi_atomic_load_relaxed(&page->thread_free);
  if (!mi_remote_is_sane(page, block, (mi_block_t*)(word & ~MI_REMOTE_BITS))) return;
  // Frees into ever different pages gain nothing from parcels: pause for a while.
  const bool is_miss = parcel->page != NULL && parcel->count == 1;
  parcel->misses = is_miss ? (parcel->misses + 1) & 15 : 0;
  while (parcel->page != NULL) mi_parcel_flush(); // an error handler that it calls may free
  if (parcel->misses >= MI_PARCEL_MISSES_MAX) {
    parcel->misses = 0;
    parcel->pause = MI_PARCEL_PAUSE;
  }
  parcel->page = page;
  parcel->first = block;
  parcel->last = (uint32_t)((uint8_t*)block - page->start);
  parcel->count = 1;
}

MI_INTERNAL void mi_parcel_free(mi_page_t* page, mi_block_t* block) {
  if (mi_portion_add_exchanged(page, block)) return;
  mi_parcel_t* const parcel = &mi_self()->parcel;
  if (mi_likely(parcel->page == page)) {
    if (!mi_remote_is_sane(page, block, parcel->first)) return;
    mi_block_set_next(block, parcel->first);
    parcel->first = block;
    if (++parcel->count * page->block_size >= MI_PARCEL_BYTES) mi_parcel_flush();
    return;
  }
  if (parcel->pause > 0) {
    parcel->pause--;
  } else if (!mi_os_is_single_threaded()) {
    if (mi_parcel_may_collect(parcel, page)) {
      mi_parcel_start(parcel, page, block);
      return;
    }
    if (mi_portion_add(page, block)) return;
  }
  mi_reclaim_chain(page, block, block, 1);
}
