// SPDX-License-Identifier: MIT
// theap.c - one thread's pages of a heap: those that it allocates from, those that wait, and
// guests.
//
// THEAP-1  free[c] holds blocks of current[c] only, and they count as used there; without a current
//     page it is a portion (PORTION-1), mostly empty.
// THEAP-2  queue[c] holds pages of class c that this theap owns and that had a free block when they
//     were put there.
// THEAP-3  guest[] of a home holds pages that this thread owns because it freed into them when no
//     thread owned them; they are of any class, but of main heaps only. So a consumer can free a
//     whole page with plain stores.
// THEAP-4  page_count counts the pages in `current` and `queue`.
// THEAP-5  a theap whose heap has ended belongs to the main heap (deleted), or refers to pages that
//     are gone (`is_destroyed`); its thread gives it up when it next needs the place (thread.c).
// THEAP-6  `wide` has the bits of all classes of wide blocks that have a current page, and of few
//     others: a look at those pages, for each such page that is made, does not go through all
//     classes. A look takes the bit off of a class that has none (the turn of a page need not).
//
// Only the owning thread calls these functions, or a thread that holds the theap exclusively (an
// orphan, under the thread lock). Not here: how threads get and leave theaps (thread.c), refilling
// the lists (refill.c), giving pages up (flush.c).
#include "theap.h"

// Empty pages are kept up to this many bytes and a part of the heap that the threads share. A
// program with one thread keeps more: others may go to sleep, and nobody else can use what they
// keep. It does so from MI_SMALL_HEAP on, because pages that are nearly unused make the peak of a
// small heap, and within a bound, because the pages of a large one go back all at once when they
// have been empty for some time. It keeps one page of any size, too: a program may have a few
// blocks of 400 KiB, and replace one after the other.
#define MI_IDLE_BYTES_MIN (4 * MI_SLICE_SIZE)
#define MI_IDLE_PART 64
#define MI_IDLE_MORE_PART 128
#define MI_IDLE_MORE_MAX ((size_t)(128 * MI_SLICE_SIZE))

MI_INTERNAL void mi_theap_reset(mi_theap_t* theap) {
  for (size_t c = 0; c < MI_CLASS_COUNT; c++) {
    theap->free[c] = NULL;
    theap->room[c] = 0;
  }
  memset(theap->exchange, 0, sizeof(theap->exchange));
  mi_life_forget_all(theap);
}

MI_INTERNAL void mi_theap_init(mi_theap_t* theap, mi_heap_t* heap, mi_theap_t* home) {
  mi_atomic_store_relaxed(&theap->heap, heap);
  mi_atomic_store_relaxed(&theap->named, heap);
  theap->home = home != NULL ? home : theap;
  mi_theap_set_quick(theap, MI_QUICK_REFILLS);
  mi_theap_reset(theap);
  theap->random.state = mi_random_mix(mi_os_random() + (uintptr_t)theap);
  theap->sample_epoch = MI_SAMPLE_EPOCH_NONE;
}

MI_INTERNAL mi_theap_t* mi_theap_find(const mi_heap_t* heap) {
  mi_theap_t* const home = mi_self_home();
  if (mi_unlikely(home->thread_id == 0)) return NULL;
  if (heap == NULL || mi_theap_heap(home) == heap) return home;
  mi_theap_t* const theap = heap->slot < home->others_count ? home->others[heap->slot] : NULL;
  return theap != NULL && mi_theap_heap(theap) == heap ? theap : NULL;
}

MI_INTERNAL void mi_theap_link(mi_theap_t* theap, mi_heap_t* heap) {
  mi_lock_expect(&mi_state.thread_lock);
  mi_atomic_store_relaxed(&theap->heap, heap);
  theap->heap_next = heap->theaps;
  if (theap->heap_next != NULL) theap->heap_next->heap_link = &theap->heap_next;
  heap->theaps = theap;
  theap->heap_link = &heap->theaps;
  mi_counters_t* const count = &heap->subproc->count;
  mi_count_add_peak(&count->theaps, &count->theaps_peak, 1);
}

MI_INTERNAL void mi_theap_unlink(mi_theap_t* theap) {
  mi_lock_expect(&mi_state.thread_lock);
  *theap->heap_link = theap->heap_next;
  if (theap->heap_next != NULL) theap->heap_next->heap_link = theap->heap_link;
  theap->heap_next = NULL;
  theap->heap_link = NULL;
  mi_count_add(&mi_theap_subproc(theap)->count.theaps, -1);
}

MI_INTERNAL void mi_theap_add_guest(mi_theap_t* theap, mi_page_t* page) {
  mi_page_t* const oldest = mi_life_add_guest(theap, page);
  if (oldest != NULL) mi_pool_give_up(oldest);
}

MI_INTERNAL mi_page_t* mi_theap_take_guest(mi_theap_t* theap, size_t size_class) {
  for (size_t i = 0; i < MI_GUEST_COUNT; i++) {
    mi_page_t* const page = theap->guest[i];
    if (page != NULL && page->size_class == size_class &&
        mi_atomic_load_relaxed(&page->heap) == mi_theap_heap(theap)) {
      mi_life_remove_guest(theap, page);
      return page;
    }
  }
  return NULL;
}

// Return the bytes that the theap may have in empty pages.
static size_t mi_theap_idle_budget(mi_counters_t* count) {
  const size_t committed = (size_t)mi_atomic_load_relaxed(&count->committed);
  if (!mi_theap_is_alone(count)) {
    const size_t threads = (size_t)mi_atomic_load_relaxed(&count->threads);
    return MI_IDLE_BYTES_MIN + committed / MI_IDLE_PART / (threads + 1);
  }
  const size_t budget = MI_IDLE_BYTES_MIN + committed / MI_IDLE_PART / 2; // no division
  if (committed < MI_SMALL_HEAP) return budget;
  return budget + mi_bits_min(committed / MI_IDLE_MORE_PART, MI_IDLE_MORE_MAX);
}

MI_INTERNAL bool mi_theap_keep_idle(mi_theap_t* theap, mi_page_t* page) {
  mi_assert_page(page, mi_part_is_empty(page) && !page->is_idle);
  mi_counters_t* const count = &mi_theap_subproc(theap)->count;
  const size_t bytes = theap->idle_bytes + page->reserved * page->block_size;
  const bool is_first = theap->idle_bytes == 0 && mi_theap_is_alone(count);
  if (!is_first && bytes > mi_theap_idle_budget(count)) return false;
  page->is_idle = true;
  theap->idle_bytes = bytes;
  return true;
}

MI_INTERNAL bool mi_theap_is_idle_much(const mi_theap_t* theap) {
  return theap->idle_bytes > 2 * mi_theap_idle_budget(&mi_theap_subproc(theap)->count);
}

// True if THEAP-1 holds and the current page of the class is really current.
static bool mi_theap_is_current_valid(mi_theap_t* theap, size_t c) {
  mi_page_t* const page = mi_theap_current(theap, c);
  if (page == NULL) return true;
  mi_list_t at = mi_list_of(page, theap->free[c]);
  while (mi_list_has(&at)) mi_list_step(&at);
  const bool is_whole = at.block == NULL; // else the program wrote to a free block
  return page->place == MI_PLACE_CURRENT && page->size_class == c && page->theap == theap &&
         (!is_whole || page->count.used > at.count);
}

// True if THEAP-2 holds for a page in a queue, and it is rightly counted if it is kept empty.
static bool mi_theap_is_queued_valid(mi_theap_t* theap, mi_page_t* page, size_t c) {
  const uintptr_t id = theap->thread_id != 0 ? theap->thread_id : MI_OWNER_SHARED;
  const uintptr_t slow = mi_page_has_interior(page) && theap->thread_id != 0 ? MI_OWNER_SLOW : 0;
  const uintptr_t held = theap->thread_id != 0 ? MI_OWNER_HELD : 0;
  return page->place == MI_PLACE_QUEUE && page->size_class == c && page->theap == theap &&
         mi_page_has_free(page) && (!page->is_idle || mi_part_is_empty(page)) &&
         !(page->is_idle && page->is_sparse) &&
         (mi_atomic_load_relaxed(&page->thread_free) & MI_REMOTE_OWNED) != 0 &&
         (mi_atomic_load_relaxed(&page->owner) & ~held) == (id | slow);
}

// True if THEAP-3 holds for a guest.
static bool mi_theap_is_guest_valid(mi_theap_t* theap, mi_page_t* page) {
  return page->place == MI_PLACE_GUEST && theap->home == theap &&
         mi_atomic_load_relaxed(&page->heap) == mi_theap_heap(theap) &&
         (mi_atomic_load_relaxed(&page->thread_free) & MI_REMOTE_OWNED) != 0;
}

MI_INTERNAL bool mi_theap_is_valid(mi_theap_t* theap) {
  size_t pages = 0;
  size_t idle_bytes = 0;
  for (size_t c = 0; c < MI_CLASS_COUNT; c++) {
    if (!mi_theap_is_current_valid(theap, c)) return false;
    const bool has_current = mi_theap_current(theap, c) != NULL;
    if (has_current) pages++;
    if (has_current && (~theap->wide & mi_life_wide(c)) != 0) return false; // THEAP-6
    const mi_page_t* before = NULL;
    const mi_page_queue_t* const queue = &theap->queue[c];
    for (mi_page_t* page = mi_life_first(queue); page != NULL; page = mi_life_after(queue, page)) {
      if (page->prev != before || !mi_theap_is_queued_valid(theap, page, c)) return false;
      if (page->is_idle) idle_bytes += page->reserved * page->block_size;
      before = page;
      pages++;
    }
    if (queue->last != before) return false;
  }
  for (size_t i = 0; i < MI_GUEST_COUNT; i++) {
    mi_page_t* const page = theap->guest[i];
    if (page != NULL && !mi_theap_is_guest_valid(theap, page)) return false;
  }
  return pages == theap->page_count && idle_bytes == theap->idle_bytes; // THEAP-4
}
