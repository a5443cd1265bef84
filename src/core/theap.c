// SPDX-License-Identifier: MIT
// theap.c - one thread's pages of a heap: what it allocates from, what waits, what it keeps for
// others.
//
// H1  free[c] holds blocks of current[c] only, and they count as used there; without a current page
//     it is a portion (Q1 of portion.c), mostly empty.
// H2  queue[c] holds pages of class c that this theap owns and that had a free block when they were
//     put there.
// H3  guest[] of a home holds pages that this thread owns because it freed into them when nobody
//     did; any class, of main heaps only. They let a consumer free a whole page with plain stores.
// H4  page_count counts the pages in `current` and `queue`.
// H5  a theap whose heap has ended belongs to the main heap (deleted), or knows pages that are gone
//     (`is_destroyed`); its thread gives it up when it next needs the place (thread.c).
//
// Only the owning thread calls these functions, or whoever holds the theap exclusively (an orphan,
// under the thread lock). Not here: how threads get and leave theaps (thread.c), refilling the
// lists (refill.c).
#include "theap.h"

#include "core.h"
#include "portion.h"
#include "remote.h"
#include "report.h"
#include "sample.h"

// An empty page in a queue is kept when it has no more slices than this.
#define MI_RETAIN_SLICES_MAX 4
// Others are kept up to this many bytes and this part of the heap.
#define MI_IDLE_BYTES_MIN (4 * MI_SLICE_SIZE)
#define MI_IDLE_PART 64

MI_INTERNAL_DATA mi_theap_t mi_theap_empty = {
    .current = {[0 ... MI_CLASS_COUNT - 1] = MI_PAGE_NONE},
    .home = &mi_theap_empty,
    .heap = MI_HEAP_GONE,
    .named = MI_HEAP_GONE,
};
MI_INTERNAL_DATA __thread mi_theap_t* mi_theap_tls mi_attr_tls = &mi_theap_empty;
MI_INTERNAL_DATA __thread mi_theap_t* mi_theap_recent_tls mi_attr_tls = &mi_theap_empty;

MI_INTERNAL void mi_theap_reset(mi_theap_t* theap) {
  for (size_t c = 0; c < MI_CLASS_COUNT; c++) {
    theap->free[c] = NULL;
    theap->current[c] = MI_PAGE_NONE;
    theap->queue[c] = (mi_page_queue_t){0};
    theap->room[c] = 0;
  }
  theap->page_count = 0;
  theap->idle_bytes = 0;
}

MI_INTERNAL void mi_theap_init(mi_theap_t* theap, mi_heap_t* heap, mi_theap_t* home) {
  mi_atomic_store_relaxed(&theap->heap, heap);
  mi_atomic_store_relaxed(&theap->named, heap);
  theap->home = home != NULL ? home : theap;
  mi_theap_set_quick(theap, MI_QUICK_REFILLS);
  mi_theap_reset(theap);
  for (size_t w = 0; w <= MI_SMALL_MAX / 8; w++) {
    theap->class_of[w] = (uint8_t)mi_class_of(w * 8);
  }
  theap->random.state = mi_random_mix(mi_os_random() + (uintptr_t)theap);
}

MI_INTERNAL void mi_theap_add_guest(mi_theap_t* theap, mi_page_t* page) {
  mi_assert(page->place == MI_PLACE_NONE);
  const size_t i = theap->guest_turn++ % MI_GUEST_COUNT;
  mi_page_t* const oldest = theap->guest[i];
  page->place = MI_PLACE_GUEST;
  theap->guest[i] = page;
  if (oldest != NULL) {
    oldest->place = MI_PLACE_NONE;
    mi_remote_give_up(oldest);
  }
}

static bool mi_theap_remove_guest(mi_theap_t* theap, mi_page_t* page) {
  for (size_t i = 0; i < MI_GUEST_COUNT; i++) {
    if (theap->guest[i] == page) {
      theap->guest[i] = NULL;
      page->place = MI_PLACE_NONE;
      return true;
    }
  }
  return false;
}

MI_INTERNAL mi_page_t* mi_theap_take_guest(mi_theap_t* theap, size_t size_class) {
  for (size_t i = 0; i < MI_GUEST_COUNT; i++) {
    mi_page_t* const page = theap->guest[i];
    if (page != NULL && page->size_class == size_class &&
        mi_atomic_load_relaxed(&page->heap) == mi_theap_heap(theap)) {
      mi_theap_remove_guest(theap, page);
      return page;
    }
  }
  return NULL;
}

MI_INTERNAL bool mi_theap_keep_idle(mi_theap_t* theap, mi_page_t* page) {
  mi_assert_page(page, page->count.used == 0 && !page->is_idle);
  // All threads together keep a part of the heap, not each of them.
  mi_counters_t* const count = &mi_theap_subproc(theap)->count;
  const size_t committed = (size_t)mi_atomic_load_relaxed(&count->committed);
  const size_t threads = (size_t)mi_atomic_load_relaxed(&count->threads);
  const size_t budget = MI_IDLE_BYTES_MIN + committed / MI_IDLE_PART / (threads + 1);
  const size_t bytes = page->reserved * page->block_size;
  if (theap->idle_bytes + bytes > budget) return false;
  page->is_idle = true;
  theap->idle_bytes += bytes;
  return true;
}

static void mi_theap_remove_queued(mi_theap_t* theap, mi_page_t* page) {
  mi_theap_forget_idle(theap, page);
  mi_queue_remove(&theap->queue[page->size_class], page);
  theap->page_count--;
}

MI_INTERNAL void mi_theap_page_emptied(mi_theap_t* theap, mi_page_t* page) {
  mi_assert_page(page, page->count.used == 0);
  if (mi_unlikely(!mi_page_is_head_sound(page, page->local_free))) {
    // As when freed twice in a row: some other block is still in use. Keep the page for good.
    mi_report_enter(MI_REPORT_IN_FREE);
    mi_page_cut_head(page, &page->local_free);
    const uint32_t bias = page->place == MI_PLACE_CURRENT ? 1 : 0;
    const uint32_t left = page->local_free != NULL ? 1 : 0;
    page->count.used = mi_page_capacity(page) - left + bias; // P1
    mi_report_leave();
    return;
  }
  if (MI_DEBUG >= 3 && !mi_page_check(page)) return;
  if (page->place == MI_PLACE_GUEST) {
    mi_theap_remove_guest(theap, page);
    mi_remote_give_up(page);
  } else if (page->place == MI_PLACE_QUEUE) {
    // Keep the only one of its class: a loop around the end of a page would otherwise make and
    // release a page every round (test/unit/theap.c).
    const mi_page_queue_t* const queue = &theap->queue[page->size_class];
    if (queue->first == queue->last && page->slice_count <= MI_RETAIN_SLICES_MAX) return;
    if (mi_theap_keep_idle(theap, page)) return;
    mi_theap_remove_queued(theap, page);
    mi_remote_give_up(page);
  }
}

MI_INTERNAL mi_page_t* mi_theap_detach_current(mi_theap_t* theap, size_t size_class) {
  mi_page_t* const page = mi_theap_current(theap, size_class);
  if (page == NULL) return NULL;
  mi_sample_restore(theap, size_class);
  mi_block_t* list = theap->free[size_class];
  theap->free[size_class] = NULL;
  theap->current[size_class] = MI_PAGE_NONE;
  theap->page_count--;
  mi_block_t* last;
  const uint32_t count = mi_page_measure(page, &list, &last);
  if (count > 0) {
    mi_block_set_next(last, page->local_free);
    page->local_free = list;
  }
  page->count.used -= count + 1; // the one for being current, P1
  page->place = MI_PLACE_NONE;
  page->count.is_fresh_list = false;
  return page;
}

MI_INTERNAL void mi_theap_collect_pages(mi_theap_t* theap) {
  mi_report_enter(MI_REPORT_IN_COLLECT);
  for (size_t c = 0; c < MI_CLASS_COUNT; c++) {
    for (mi_page_t* page = theap->queue[c].first; page != NULL;) {
      mi_page_t* const next = page->next;
      mi_page_collect(page);
      if (page->count.used == 0) {
        mi_theap_remove_queued(theap, page);
        mi_remote_give_up(page);
      }
      page = next;
    }
  }
  for (size_t i = 0; i < MI_GUEST_COUNT; i++) {
    mi_page_t* const page = theap->guest[i];
    if (page == NULL) continue;
    mi_theap_remove_guest(theap, page);
    mi_remote_give_up(page);
  }
  mi_report_leave();
}

// Bytes of a current page that are carved but not in use: all of them, or 0 when a block is in use.
static size_t mi_theap_idle_bytes(mi_theap_t* theap, mi_page_t* page) {
  mi_block_t* last;
  const uint32_t in_list = mi_page_measure(page, &theap->free[page->size_class], &last);
  return page->count.used == in_list + 1 ? mi_page_capacity(page) * page->block_size : 0;
}

MI_INTERNAL void mi_theap_trim(mi_theap_t* theap, size_t limit, size_t busy) {
  size_t kept = 0;
  mi_report_enter(MI_REPORT_IN_COLLECT);
  for (size_t c = mi_class_of(MI_SLICE_SIZE / 8) + 1; c < MI_CLASS_COUNT; c++) {
    mi_page_t* const page = mi_theap_current(theap, c);
    if (page == NULL || c == busy || theap->sample_interval != 0) continue;
    const size_t bytes = mi_theap_idle_bytes(theap, page);
    if (bytes == 0) continue;
    if (kept + bytes <= limit) {
      kept += bytes;
    } else {
      mi_remote_give_up(mi_theap_detach_current(theap, c));
    }
  }
  mi_report_leave();
}

MI_INTERNAL void mi_theap_flush_class(mi_theap_t* theap, size_t size_class) {
  mi_page_t* page = mi_theap_detach_current(theap, size_class);
  if (page != NULL) mi_remote_give_up(page);
  while ((page = theap->queue[size_class].first) != NULL) {
    mi_theap_remove_queued(theap, page);
    mi_remote_give_up(page);
  }
}

MI_INTERNAL void mi_theap_flush(mi_theap_t* theap) {
  mi_report_enter(MI_REPORT_IN_COLLECT);
  mi_portion_return_all(theap);
  mi_theap_collect_pages(theap);
  for (size_t c = 0; c < MI_CLASS_COUNT; c++) mi_theap_flush_class(theap, c);
  mi_assert(theap->page_count == 0);
  mi_report_leave();
}

MI_INTERNAL void mi_theap_set_owner(mi_theap_t* theap, uintptr_t owner) {
  for (size_t c = 0; c < MI_CLASS_COUNT; c++) {
    mi_page_t* const current = mi_theap_current(theap, c);
    mi_page_t* page = current != NULL ? current : theap->queue[c].first;
    while (page != NULL) {
      const uintptr_t slow =
          (owner > MI_OWNER_MAX_SPECIAL && mi_page_has_interior(page)) ? MI_OWNER_SLOW : 0;
      mi_atomic_store_relaxed(&page->owner, owner | slow);
      page = page == current ? theap->queue[c].first : page->next;
    }
  }
}
