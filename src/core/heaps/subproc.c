// SPDX-License-Identifier: MIT
// subproc.c - the life of a sub-process: heaps, arenas and figures of its own.
//
// The main one is part of `mi_state` and lives as long as the process. The program makes and ends
// others; a thread joins one for the rest of its life. Sub-processes share only reserved addresses
// (an arena of an ended one serves the next) and the locks.
//
// SUBPROC-1  the thread that destroys a sub-process is the only one that uses it: its threads have
//     ended, and no other thread touches its blocks or heaps. Theaps that threads of other
//     sub-processes have in its heaps are told (HEAP-5).
// SUBPROC-2  a deleted sub-process takes no new threads or heaps; it ends when all its slices are
//     free and no thread is inside its heaps (HEAP-1). The last free may come from any thread: no
//     thread waits for it; threads check when they make or end a sub-process, or collect.
// SUBPROC-3  structures of sub-processes are only used again for sub-processes, together with those
//     of their heaps (TYPES-2).
// SUBPROC-4  a sub-process leaves the list of all, and so comes to its end, only under the subproc
//     lock. Who holds that may work on each in the list for as long as it takes, and no thread that
//     starts or ends, or makes a heap, waits for it: these take the thread lock, under which the
//     list is read and changed. Only who ends a sub-process waits, and a fork.
#include "subproc.h"

#include "heap.h"
#include "walk.h"

MI_INTERNAL mi_subproc_t* mi_subproc_make(void) {
  mi_subproc_sweep();
  mi_lock_enter(&mi_state.thread_lock);
  mi_subproc_t* subproc = mi_state.ended;
  if (subproc != NULL) {
    mi_state.ended = subproc->next;
  } else {
    subproc = (mi_subproc_t*)mi_meta_lock_and_alloc(sizeof(mi_subproc_t));
  }
  if (subproc != NULL) {
    mi_init_main_heap(subproc);
    subproc->sequence = ++mi_state.subproc_count;
    mi_atomic_store_relaxed(&subproc->purge_due_ms, 0);
    mi_atomic_store_relaxed(&subproc->heap_main.numa_wish, 0);
    subproc->next = mi_state.main.next;
    mi_state.main.next = subproc;
  }
  mi_lock_leave(&mi_state.thread_lock);
  return subproc;
}

// Add its totals to those of the main sub-process. No thread is inside a heap of the sub-process.
static void mi_subproc_merge_counts(mi_subproc_t* subproc) {
  mi_counters_t* const from = &subproc->count;
  mi_counters_t* const to = &mi_state.main.count;
#define MI_MERGE(field) mi_count_add(&to->field, mi_atomic_load_relaxed(&from->field))
  MI_MERGE(threads_total);
  MI_MERGE(heaps_total);
  MI_MERGE(theaps_total);
  MI_MERGE(purged);
  MI_MERGE(purge_calls);
  MI_MERGE(uncharged);
  MI_MERGE(arenas);
  MI_MERGE(mmap_calls);
  MI_MERGE(commit_calls);
  MI_MERGE(reset);
  MI_MERGE(reset_calls);
  MI_MERGE(rollbacks);
  for (size_t c = 0; c < MI_CLASS_COUNT; c++) {
    MI_MERGE(of_class[c].made);
    MI_MERGE(of_class[c].handed);
  }
#undef MI_MERGE
  *from = (mi_counters_t){0};
  for (mi_heap_t* heap = subproc->ended; heap != NULL; heap = heap->next) {
    mi_heap_move_tally(heap, &subproc->heap_main);
  }
  mi_heap_move_tally(&subproc->heap_main, &mi_state.main.heap_main);
}

// Let the structure wait to be used again. The sub-process is in no list, has no thread, and no
// slice of it is in use.
static void mi_subproc_retire(mi_subproc_t* subproc) {
  mi_purge_all_of(subproc);
  mi_arena_retire_all(subproc);
  mi_book_clear(&subproc->direct);
  mi_subproc_merge_counts(subproc);
  mi_atomic_store_relaxed(&subproc->purge_waiting, 0);
  mi_atomic_store_relaxed(&subproc->retain_more, 0);
  mi_atomic_store_relaxed(&subproc->budget_at, 0);
  mi_atomic_store_relaxed(&subproc->sparse_waiting, 0);
  mi_lock_enter(&mi_state.thread_lock);
  subproc->is_deleted = false;
  subproc->next = mi_state.ended;
  mi_state.ended = subproc;
  mi_lock_leave(&mi_state.thread_lock);
}

static int64_t mi_subproc_count_theaps(const mi_heap_t* heap) {
  int64_t count = 0;
  for (const mi_theap_t* theap = heap->theaps; theap != NULL; theap = theap->heap_next) count++;
  return count;
}

MI_INTERNAL bool mi_subproc_is_valid(mi_subproc_t* subproc) {
  mi_lock_expect(&mi_state.thread_lock);
  if (!mi_heap_is_valid(&subproc->heap_main)) return false;
  int64_t heaps = 1;
  int64_t theaps = mi_subproc_count_theaps(&subproc->heap_main);
  mi_heap_t* const* link = &subproc->heaps;
  for (mi_heap_t* heap = subproc->heaps; heap != NULL; heap = heap->next) {
    if (heap->subproc != subproc || heap->is_main || heap->link != link) return false;
    if (!mi_heap_is_valid(heap)) return false;
    theaps += mi_subproc_count_theaps(heap);
    heaps++;
    link = &heap->next;
  }
  for (const mi_heap_t* heap = subproc->ended; heap != NULL; heap = heap->next) {
    if (heap->subproc != subproc || heap->is_main || heap->theaps != NULL) return false;
  }
  return heaps == mi_atomic_load_relaxed(&subproc->count.heaps) &&
         theaps == mi_atomic_load_relaxed(&subproc->count.theaps) &&
         mi_book_is_valid(&subproc->direct);
}

static bool mi_subproc_has_arena(mi_subproc_t* subproc, const mi_arena_t* arena) {
  MI_FOR_EACH_ARENA(subproc, own) {
    if (own == arena) return true;
  }
  return false;
}

MI_INTERNAL mi_subproc_t* mi_subproc_of_arena(const mi_arena_t* arena) {
  mi_lock_enter(&mi_state.thread_lock); // no sub-process ends meanwhile
  mi_subproc_t* subproc = &mi_state.main;
  while (subproc != NULL && (subproc->is_deleted || !mi_subproc_has_arena(subproc, arena))) {
    subproc = subproc->next;
  }
  mi_lock_leave(&mi_state.thread_lock);
  return subproc;
}

// Return the sub-process before it in the list, NULL if it has ended already. Under the thread
// lock.
static mi_subproc_t* mi_subproc_find(const mi_subproc_t* subproc) {
  mi_lock_expect(&mi_state.thread_lock);
  mi_subproc_t* before = &mi_state.main;
  while (before != NULL && before->next != subproc) before = before->next;
  return before;
}

// Take the sub-process out of the list if it has no thread, and tell the theaps that threads of
// others have in its heaps. Under the subproc and thread locks. False if it has a thread, or is in
// no list.
static bool mi_subproc_unlink(mi_subproc_t* subproc) {
  mi_lock_expect(&mi_state.subproc_lock);
  mi_lock_expect(&mi_state.thread_lock);
  mi_subproc_t* const before = mi_subproc_find(subproc);
  if (before == NULL || mi_atomic_load_relaxed(&subproc->count.threads) > 0) return false;
  mi_assert_full(mi_subproc_is_valid(subproc));
  before->next = subproc->next;
  mi_heap_end_theaps(&subproc->heap_main, MI_HEAP_END_DESTROYED);
  for (mi_heap_t* heap = subproc->heaps; heap != NULL; heap = heap->next) {
    mi_heap_end_theaps(heap, MI_HEAP_END_DESTROYED);
  }
  if (subproc->is_deleted) mi_atomic_sub_relaxed(&mi_state.deleted_count, 1);
  return true;
}

static bool mi_subproc_destroy_page(mi_page_t* page, void* arg) {
  (void)arg;
  if (mi_page_is_single(page)) {
    mi_guard_free(page, page->start + page->shift);
  } else {
    // Sees the const fields of the heap; pairs with the release in `mi_page_make`.
    mi_page_destroy(mi_atomic_load_acquire(&page->heap), page);
  }
  return true;
}

// Give up the calling thread's theaps in its heaps: malloc may use one of them.
static void mi_subproc_release_theaps(mi_subproc_t* subproc) {
  mi_thread_release_ended(subproc->heap_main.slot);
  for (mi_heap_t* heap = subproc->heaps; heap != NULL; heap = heap->next) {
    mi_thread_release_ended(heap->slot);
  }
}

MI_INTERNAL bool mi_subproc_end_by_destroy(mi_subproc_t* subproc) {
  mi_lock_enter(&mi_state.subproc_lock);
  mi_lock_enter(&mi_state.thread_lock);
  const bool is_unlinked = mi_subproc_unlink(subproc);
  mi_lock_leave(&mi_state.thread_lock);
  mi_lock_leave(&mi_state.subproc_lock);
  if (!is_unlinked) return false;
  mi_subproc_release_theaps(subproc);
  mi_walk_pages(subproc, NULL, &mi_subproc_destroy_page, NULL);
  mi_pool_clear_all(&subproc->heap_main);
  mi_heap_t* heap;
  while ((heap = subproc->heaps) != NULL) {
    subproc->heaps = heap->next;
    heap->link = NULL;
    mi_pool_clear_all(heap);
    mi_book_clear(&heap->book);
    heap->next = subproc->ended;
    subproc->ended = heap;
  }
  mi_subproc_retire(subproc);
  return true;
}

// -- deleted sub-processes --

// True if no thread is inside a heap of the sub-process. Under the thread lock.
static bool mi_subproc_is_left(mi_subproc_t* subproc) {
  mi_lock_expect(&mi_state.thread_lock);
  // Sees what was done inside: each load pairs with the release in `mi_inside_leave`.
  bool is_left = mi_atomic_load_acquire(&subproc->heap_main.inside) == 0;
  for (mi_heap_t* heap = subproc->ended; heap != NULL; heap = heap->next) {
    is_left = is_left && mi_atomic_load_acquire(&heap->inside) == 0; // pairs with `mi_inside_leave`
  }
  return is_left;
}

// True if no slice is in use, and the threads that gave back the last ones have finished. Under the
// thread lock.
static bool mi_subproc_is_free(mi_subproc_t* subproc) {
  mi_lock_expect(&mi_state.thread_lock);
  mi_heap_drain_ended_locked(subproc);
  mi_pool_drain_all(&subproc->heap_main, MI_GENTLE);
  mi_kept_release_all(subproc);
  uint32_t at = 0;
  if (mi_book_next(&subproc->direct, &at) != NULL) return false;
  MI_FOR_EACH_ARENA(subproc, arena) {
    // Each load sees what the threads did that set the bit: they have finished with the slices, and
    // are counted inside.
    for (size_t i = 0; i < mi_arena_slices(arena); i++) {
      if (!mi_bitmap_is_set_acquire(arena->free, i)) return false;
    }
  }
  return mi_subproc_is_left(subproc);
}

MI_INTERNAL void mi_subproc_sweep(void) {
  if (mi_likely(mi_atomic_load_relaxed(&mi_state.deleted_count) == 0)) return;
  mi_lock_enter(&mi_state.subproc_lock);
  mi_lock_enter(&mi_state.thread_lock);
  mi_subproc_t* ready = NULL;
  for (mi_subproc_t* s = mi_state.main.next; s != NULL && ready == NULL; s = s->next) {
    if (s->is_deleted && mi_subproc_is_free(s) && mi_subproc_unlink(s)) ready = s;
  }
  mi_lock_leave(&mi_state.thread_lock);
  mi_lock_leave(&mi_state.subproc_lock);
  if (ready == NULL) return;
  mi_subproc_retire(ready);
  mi_subproc_sweep();
}

MI_INTERNAL bool mi_subproc_end_by_delete(mi_subproc_t* subproc) {
  if (mi_atomic_load_relaxed(&subproc->count.threads) > 0) return false;
  mi_lock_enter(&mi_state.thread_lock);
  const bool is_first = mi_subproc_find(subproc) != NULL && !subproc->is_deleted;
  mi_lock_leave(&mi_state.thread_lock);
  if (!is_first) return false;
  while (subproc->heaps != NULL) mi_heap_end_by_delete(subproc->heaps);
  mi_subproc_release_theaps(subproc);
  mi_lock_enter(&mi_state.thread_lock);
  subproc->is_deleted = true;
  mi_atomic_add_relaxed(&mi_state.deleted_count, 1);
  mi_lock_leave(&mi_state.thread_lock);
  mi_subproc_sweep();
  return true;
}

// -- all sub-processes --

MI_INTERNAL mi_subproc_t* mi_subproc_before(size_t* sequence) {
  if (*sequence == 0) return NULL;
  mi_lock_enter(&mi_state.thread_lock);
  // Behind the main sub-process the list is in the order of the numbers, highest first.
  mi_subproc_t* subproc = mi_state.main.next;
  while (subproc != NULL && subproc->sequence >= *sequence) subproc = subproc->next;
  if (subproc == NULL) subproc = &mi_state.main;
  *sequence = subproc->sequence;
  mi_lock_leave(&mi_state.thread_lock);
  return subproc;
}

MI_INTERNAL mi_subproc_t* mi_subproc_after(mi_subproc_t* subproc) {
  mi_lock_expect(&mi_state.subproc_lock);
  mi_lock_enter(&mi_state.thread_lock);
  mi_subproc_t* const next = subproc->next;
  mi_lock_leave(&mi_state.thread_lock);
  return next;
}
