// SPDX-License-Identifier: MIT
// heap.c - the life of a heap that is not the main one; any thread may make, delete or destroy it.
//
//   made --> in use by any thread --> deleted: its pages belong to the main heap, blocks stay
//     ^                           '-> destroyed: its pages go, blocks and all
//     '------- structure is used again (TYPES-2) --- ended <--'
//
// The caller of delete or destroy guarantees (mimalloc.h) that no thread allocates from the heap
// any more; blocks of a deleted heap may be freed all the time, those of a destroyed one are not
// touched. So only a free can run at the same time as a delete. It may end in giving up a page to
// the pool of the heap, or in releasing it: it looks up the heap of the page, and works on the pool
// and the book of that heap.
//
// HEAP-1  a thread acts on the pools and the book of a heap only while it is counted in `inside`,
//     and it was counted when the page still belonged to the heap (mi_inside_enter).
// HEAP-2  delete first moves all pages to the main heap, then adds 0 to `inside`. Both that and the
//     count of a free are read-modify-writes of one word: either the free comes first, then delete
//     (and all that look later) sees it inside; or it sees that the page has moved, and goes to the
//     main heap. No thread waits.
// HEAP-3  the structure is used again only when no thread is inside. A page that a free put into
//     the pool after delete had emptied the pool is found then, or by a forced collect
//     (mi_heap_drain_ended).
// HEAP-4  pages of these heaps are in no parcel and are no guests (reclaim.c): only the theaps and
//     the pools of a destroyed heap know its pages.
// HEAP-5  theaps are told of the end under the thread lock, and touched only by their own thread
//     (THEAP-5).
// HEAP-6  the figures of an ended heap belong to the main heap, and are moved there at the end.
//     Those that a free inside adds after that are moved when the structure is used again; until
//     then the sum of the main heap includes them.
//
// A page that moves changes its `heap` by a CAS from the old one: it may be released and described
// anew by a free at the same time.
#include "heap.h"

#include "walk.h"

// -- figures --

MI_INTERNAL void mi_heap_move_tally(mi_heap_t* from, mi_heap_t* to) {
  for (size_t i = 0; i < MI_TALLY_COUNT; i++) {
    const int64_t amount = mi_atomic_swap_relaxed(&from->tally.amount[i], 0);
    if (amount != 0) mi_tally_add(&to->tally, (mi_tally_index_t)i, amount);
  }
  for (size_t i = 0; i < MI_TALLY_PEAKS; i++) mi_atomic_store_relaxed(&from->tally.peak[i], 0);
}

static void mi_heap_each_theap(mi_heap_t* heap, mi_heap_theap_fun* fun, void* arg) {
  mi_lock_expect(&mi_state.thread_lock);
  for (mi_theap_t* theap = heap->theaps; theap != NULL; theap = theap->heap_next) fun(theap, arg);
  if (!heap->is_main) return;
  for (size_t b = 0; b < MI_THEAP_BUCKETS; b++) {
    for (mi_theap_t* home = mi_state.theap_bucket[b]; home != NULL; home = home->bucket_next) {
      if (mi_theap_heap(home) == heap) fun(home, arg);
    }
  }
}

MI_INTERNAL void mi_heap_each_theap_of(mi_subproc_t* subproc, mi_heap_t* heap,
                                       mi_heap_theap_fun* fun, void* arg) {
  mi_heap_each_theap(heap != NULL ? heap : &subproc->heap_main, fun, arg);
  mi_heap_t* const others = heap == NULL ? subproc->heaps : NULL;
  for (mi_heap_t* h = others; h != NULL; h = h->next) mi_heap_each_theap(h, fun, arg);
}

static void mi_heap_add_often(mi_theap_t* theap, void* arg) { // TALLY-1
  mi_tally_t* const sum = (mi_tally_t*)arg;
  for (size_t i = 0; i < MI_TALLY_OFTEN_COUNT; i++) {
    mi_count_add(&sum->amount[MI_TALLY_OFTEN_FIRST + i], mi_atomic_load_relaxed(&theap->often[i]));
  }
}

static void mi_heap_add_tally(mi_tally_t* sum, mi_heap_t* heap) {
  mi_lock_expect(&mi_state.thread_lock);
  for (size_t i = 0; i < MI_TALLY_COUNT; i++) {
    mi_count_add(&sum->amount[i], mi_atomic_load_relaxed(&heap->tally.amount[i]));
  }
  mi_heap_each_theap(heap, &mi_heap_add_often, sum);
  if (heap->is_main) mi_kept_count(heap->subproc, sum);
}

MI_INTERNAL void mi_heap_sum_tally(mi_subproc_t* subproc, mi_heap_t* heap, mi_tally_t* sum) {
  *sum = (mi_tally_t){0};
  const bool is_all = heap == NULL;
  if (is_all) heap = &subproc->heap_main;
  mi_lock_enter(&mi_state.thread_lock);
  mi_heap_add_tally(sum, heap);
  mi_heap_t* const ended = heap->is_main ? subproc->ended : NULL; // HEAP-6
  for (mi_heap_t* h = ended; h != NULL; h = h->next) mi_heap_add_tally(sum, h);
  mi_heap_t* const others = is_all ? subproc->heaps : NULL;
  for (mi_heap_t* h = others; h != NULL; h = h->next) mi_heap_add_tally(sum, h);
  mi_lock_leave(&mi_state.thread_lock);
  for (size_t i = 0; i < MI_TALLY_PEAKS; i++) {
    mi_atomic_store_relaxed(&sum->peak[i], mi_atomic_load_relaxed(&heap->tally.peak[i]));
  }
}

MI_INTERNAL bool mi_heap_next(mi_subproc_t* subproc, mi_heap_cursor_t* cursor) {
  if (cursor->heap == NULL) {
    *cursor = (mi_heap_cursor_t){&subproc->heap_main, 0};
    return true;
  }
  mi_lock_enter(&mi_state.thread_lock);
  mi_heap_t* heap = subproc->heaps;
  if (!cursor->heap->is_main) {
    const bool is_there = cursor->heap->link != NULL && cursor->heap->sequence == cursor->sequence;
    if (is_there) heap = cursor->heap->next;
    // The list is in the order of the numbers, highest first.
    while (heap != NULL && heap->sequence >= cursor->sequence) heap = heap->next;
  }
  if (heap != NULL) *cursor = (mi_heap_cursor_t){heap, heap->sequence};
  mi_lock_leave(&mi_state.thread_lock);
  return heap != NULL;
}

// -- make --

static void mi_heap_count(mi_heap_t* heap) {
  mi_counters_t* const count = &heap->subproc->count;
  mi_count_add_peak(&count->heaps, &count->heaps_peak, 1);
  heap->sequence = (size_t)mi_count_add(&count->heaps_total, 1) - 1;
}

MI_INTERNAL void mi_init_main_heap(mi_subproc_t* subproc) {
  mi_heap_t* const heap = &subproc->heap_main;
  if (!heap->is_main) {
    heap->subproc = subproc;
    heap->is_main = true;
    heap->slot = mi_state.slot_count++;
  }
  mi_heap_count(heap);
}

// Take the structure of an ended heap that no thread is inside any more, or a fresh one. Under the
// thread lock.
static mi_heap_t* mi_heap_take(mi_subproc_t* subproc) {
  mi_lock_expect(&mi_state.thread_lock);
  for (mi_heap_t** link = &subproc->ended; *link != NULL; link = &(*link)->next) {
    mi_heap_t* const heap = *link;
    // Sees what was done inside; pairs with the release in `mi_inside_leave`.
    if (mi_atomic_load_acquire(&heap->inside) != 0) continue;
    *link = heap->next;
    return heap;
  }
  mi_heap_t* const heap = (mi_heap_t*)mi_meta_lock_and_alloc(sizeof(mi_heap_t));
  if (heap == NULL) return NULL;
  heap->subproc = subproc;
  heap->slot = mi_state.slot_count++;
  return heap;
}

MI_INTERNAL mi_heap_t* mi_heap_make(mi_subproc_t* subproc, mi_arena_t* arena) {
  mi_lock_enter(&mi_state.thread_lock);
  mi_heap_t* const heap = mi_heap_take(subproc);
  if (heap == NULL) {
    mi_lock_leave(&mi_state.thread_lock);
    return NULL;
  }
  mi_pool_drain_all(heap, MI_GENTLE); // HEAP-3
  mi_heap_move_tally(heap, &subproc->heap_main);
  mi_book_clear(&heap->book);
  heap->arena = arena;
  mi_atomic_store_relaxed(&heap->numa_wish, 0);
  heap->next = subproc->heaps;
  if (heap->next != NULL) heap->next->link = &heap->next;
  subproc->heaps = heap;
  heap->link = &subproc->heaps;
  mi_heap_count(heap);
  mi_lock_leave(&mi_state.thread_lock);
  return heap;
}

// -- end --

static bool mi_heap_has_valid_theaps(mi_heap_t* heap) {
  mi_theap_t* const* link = &heap->theaps;
  for (mi_theap_t* theap = heap->theaps; theap != NULL; theap = theap->heap_next) {
    if (theap->heap_link != link || mi_theap_heap(theap) != heap) return false;
    if (theap->is_ended && !heap->is_main) return false;
    link = &theap->heap_next;
  }
  return true;
}

MI_INTERNAL bool mi_heap_is_valid(mi_heap_t* heap) {
  mi_lock_expect(&mi_state.thread_lock);
  if (mi_atomic_load_relaxed(&heap->inside) != 0) return false; // HEAP-1
  if (!mi_book_is_valid(&heap->book) || !mi_heap_has_valid_theaps(heap)) return false;
  mi_page_t* page;
  for (uint32_t at = 0; (page = mi_book_next(&heap->book, &at)) != NULL;) {
    if (mi_atomic_load_relaxed(&page->heap) != heap) return false; // its owner: FORK-4
    if (page->backing != MI_BACKING_ARENA) return false; // RUN-1
  }
  for (size_t c = 0; c < MI_CLASS_COUNT; c++) {
    if (mi_pool_length(heap, c) == SIZE_MAX) return false;
  }
  return true;
}

// Return the blocks of a current page that are in the list of its theap, or behind the next sample.
static size_t mi_heap_listed(const mi_theap_t* theap, const mi_page_t* page) {
  const mi_block_t* const list = theap->free[page->size_class];
  const mi_block_t* const first = list != NULL ? list : page->sample_rest;
  if (first == NULL) return 0;
  // Nothing but carved blocks was handed out: this is the rest of those that were carved last, if
  // it is in their order, as no list is that others pushed.
  const uint8_t* const next = (const uint8_t*)first + page->block_size;
  const uint8_t* const end = page->start + mi_page_capacity(page) * page->block_size;
  const bool is_carved = !MI_IS_SHUFFLED && page->refilled.handed == mi_page_capacity(page);
  if (is_carved && (next == end || (const uint8_t*)mi_block_next(first) == next)) {
    return (size_t)(end - (const uint8_t*)first) / page->block_size;
  }
  return (size_t)mi_list_length(page, list) + mi_list_length(page, page->sample_rest);
}

// The heap of a theap ends: note it for `mi_thread_sweep`.
static void mi_heap_end_theap(mi_theap_t* theap) {
  mi_lock_expect(&mi_state.thread_lock);
  mi_theap_t* const home = theap->home;
  if (!theap->is_ended) mi_atomic_add_relaxed(&home->ended_count, 1);
  theap->is_ended = true;
  if (theap->ended_next != 0) return;
  theap->ended_next = home->ended_next != 0 ? home->ended_next : MI_ENDED_LAST;
  home->ended_next = theap->slot + 1;
}

// Count what is in the list of a class, and the room of its portion, as not handed out.
static mi_attr_noinline void mi_heap_uncount_list(mi_theap_t* theap, size_t c) {
  const mi_page_t* const page = mi_theap_current(theap, c);
  const size_t listed = page != NULL ? mi_heap_listed(theap, page)
                                     : mi_portion_count(theap->free[c], mi_portion_most(c));
  mi_counters_t* const count = &mi_theap_subproc(theap)->count;
  mi_count_add(&count->of_class[c].handed, -(int64_t)(listed + theap->room[c]));
}

// The same for all classes: the pages are going to be destroyed (handed.h).
static void mi_heap_uncount_lists(mi_theap_t* theap) {
  mi_lock_expect(&mi_state.thread_lock);
  const bool has_more = theap->has_unsettled || theap->sample_is_on; // than lists
  for (size_t c = 0; c < MI_CLASS_COUNT; c++) {
    if (theap->free[c] != NULL || mi_unlikely(has_more)) mi_heap_uncount_list(theap, c);
  }
}

MI_INTERNAL void mi_heap_end_theaps(mi_heap_t* heap, mi_heap_end_t end) {
  mi_lock_expect(&mi_state.thread_lock);
  const bool is_destroyed = end == MI_HEAP_END_DESTROYED;
  mi_theap_t* theap;
  while ((theap = heap->theaps) != NULL) {
    mi_theap_unlink(theap);
    mi_heap_end_theap(theap);
    theap->is_destroyed = is_destroyed;
    mi_atomic_store_relaxed(&theap->named, MI_HEAP_GONE);
    if (is_destroyed) {
      mi_heap_uncount_lists(theap);
      mi_tally_settle(theap, heap);
      mi_atomic_store_relaxed(&theap->heap, MI_HEAP_GONE);
    } else {
      mi_theap_link(theap, &heap->subproc->heap_main);
    }
  }
}

MI_INTERNAL bool mi_heap_has_ended(const mi_heap_t* heap) {
  mi_lock_enter(&mi_state.thread_lock);
  const bool has_ended = !heap->is_main && heap->link == NULL;
  mi_lock_leave(&mi_state.thread_lock);
  return has_ended;
}

// Take the heap out of all lists, and tell its theaps. False if it has ended already.
static bool mi_heap_unlink(mi_heap_t* heap, mi_heap_end_t end) {
  mi_lock_enter(&mi_state.thread_lock);
  const bool is_there = heap->link != NULL;
  mi_assert_full(!is_there || end != MI_HEAP_END_DESTROYED || mi_heap_is_valid(heap));
  if (is_there) {
    *heap->link = heap->next;
    if (heap->next != NULL) heap->next->link = heap->link;
    heap->link = NULL;
    mi_heap_end_theaps(heap, end);
    mi_count_add(&heap->subproc->count.heaps, -1);
  }
  mi_lock_leave(&mi_state.thread_lock);
  return is_there;
}

static void mi_heap_retire(mi_heap_t* heap) {
  mi_heap_move_tally(heap, &heap->subproc->heap_main);
  mi_lock_enter(&mi_state.thread_lock);
  heap->next = heap->subproc->ended;
  heap->subproc->ended = heap;
  mi_lock_leave(&mi_state.thread_lock);
}

static bool mi_heap_move_page(mi_page_t* page, void* heap) {
  mi_heap_t* expected = (mi_heap_t*)heap;
  mi_heap_t* const main = &expected->subproc->heap_main;
  // Publishes the const fields of the main heap; pairs with the acquire in `mi_inside_enter`. It
  // comes before the addition of HEAP-2 by the order of that one.
  mi_atomic_cas_strong_release(&page->heap, &expected, main);
  return true;
}

MI_INTERNAL bool mi_heap_end_by_delete(mi_heap_t* heap) {
  if (!mi_heap_unlink(heap, MI_HEAP_END_DELETED)) return false;
  mi_walk_pages(heap->subproc, heap, &mi_heap_move_page, heap);
  // Publishes the moves to a free that enters later, and sees one that entered before (HEAP-2);
  // pairs with the addition in `mi_inside_enter`.
  mi_atomic_add_acq_rel(&heap->inside, 0);
  mi_report_enter(MI_REPORT_IN_HEAP_DELETE);
  mi_pool_drain_all(heap, MI_GENTLE);
  mi_thread_release_ended(heap->slot);
  mi_heap_retire(heap);
  mi_report_leave();
  return true;
}

static bool mi_heap_destroy_page(mi_page_t* page, void* heap) {
  if (mi_page_is_single(page)) {
    mi_guard_free(page, page->start + page->shift);
  } else {
    mi_page_destroy((mi_heap_t*)heap, page);
  }
  return true;
}

MI_INTERNAL bool mi_heap_end_by_destroy(mi_heap_t* heap) {
  if (!mi_heap_unlink(heap, MI_HEAP_END_DESTROYED)) return false;
  mi_thread_release_ended(heap->slot); // first: malloc may use this theap
  mi_walk_pages(heap->subproc, heap, &mi_heap_destroy_page, heap);
  mi_pool_clear_all(heap);
  mi_heap_retire(heap);
  return true;
}

MI_INTERNAL void mi_heap_drain_ended_locked(mi_subproc_t* subproc) {
  mi_lock_expect(&mi_state.thread_lock);
  for (mi_heap_t* heap = subproc->ended; heap != NULL; heap = heap->next)
    mi_pool_drain_all(heap, MI_GENTLE);
}

MI_INTERNAL void mi_heap_drain_ended(mi_subproc_t* subproc) {
  mi_lock_enter(&mi_state.thread_lock);
  mi_heap_drain_ended_locked(subproc);
  mi_lock_leave(&mi_state.thread_lock);
}
