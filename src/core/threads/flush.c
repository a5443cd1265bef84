// SPDX-License-Identifier: MIT
// flush.c - a theap gives pages up: one that became empty, all that are empty, or all.
//
// Each page first leaves the place where the theap has it (current, queue, guests); then only this
// thread can touch it, and pool.c decides where it goes: back to the arenas, to the pool of its
// class, or to the next free into it.
//
// FLUSH-1  a thread that allocates looks at each page in its queues now and then, to see what
//     others freed, and what is sparse (SPARSE-3). No call of malloc takes longer for it because
//     the heap is large: a look is done in parts, each of at most MI_LOOK_PAGES_MAX pages, from
//     class to class, and the next one begins when it is through. (8 GiB of 4 KiB blocks, every
//     second freed, are 131,000 pages: 1.4 ms.) A part also ends after MI_RETAIN_PART_MS if it
//     gives memory back, since system calls take far longer with threads (RETAIN-9). If the page at
//     which a part ended leaves its queue meanwhile, the rest of its class waits for the next look.
#include "flush.h"

#include "hold.h"
#include "portion.h"
#include "sample.h"
#include "sparse.h"
#include "split.h"

// An empty page in a queue is kept if it has at most this many slices.
#define MI_RETAIN_SLICES_MAX 4
// A theap with more pages that have free blocks does not search them for empty ones, unless it
// knows of a slice in these for each so many: the search takes as long as to make pages of them.
#define MI_FLUSH_SEARCH_MAX ((size_t)256)
#define MI_FLUSH_SEARCH_PART 32
// Of so many pages of a look one may give back what it has between blocks, which takes longer.
#define MI_LOOK_SPARSE_PART 64

// Give up the last page of a queue if it is kept although it is empty, since a time when the heap
// was larger. (1 GiB of blocks that are freed in their order would leave 16 MiB in such pages.)
static void mi_flush_idle_one(mi_theap_t* theap, const mi_page_queue_t* queue) {
  mi_page_t* const page = queue->last;
  if (page == NULL || !page->is_idle || !mi_theap_is_idle_much(theap)) return;
  mi_life_dequeue(theap, page);
  mi_pool_give_up(page);
}

MI_INTERNAL void mi_flush_emptied(mi_theap_t* theap, mi_page_t* page) {
  mi_assert_page(page, page->count.used == 0);
  if (mi_unlikely(!mi_part_is_empty(page))) {
    mi_sparse_note(theap, page);
    return;
  }
  if (mi_unlikely(!mi_page_is_head_sound(page, page->local_free))) {
    // The head is damaged, as when a block is freed twice in a row: another block is still in use.
    // Keep the page for good.
    mi_report_enter(MI_REPORT_IN_FREE);
    mi_page_cut_head(page, &page->local_free);
    mi_life_recount(page, page->local_free != NULL ? 1 : 0);
    mi_report_leave();
    return;
  }
  if (MI_DEBUG >= 3 && !mi_page_check(page)) return;
  if (page->place == MI_PLACE_GUEST) {
    mi_life_remove_guest(theap, page);
    mi_pool_give_up(page);
  } else if (page->place == MI_PLACE_QUEUE) {
    const mi_page_queue_t* const queue = &theap->queue[page->size_class];
    mi_life_forget_sparse(page);
    // Keep the only one of its class: a loop around the end of a page would otherwise make and
    // release a page every round (test/unit/theap.c).
    const bool is_only = page->next == page && page->slice_count <= MI_RETAIN_SLICES_MAX;
    if (is_only || mi_theap_keep_idle(theap, page)) {
      mi_life_offer(theap, page); // HOLD-2: no block of it can be freed
      return;
    }
    mi_life_dequeue(theap, page);
    mi_pool_give_up(page);
    mi_flush_idle_one(theap, queue);
  }
}

MI_INTERNAL mi_attr_noinline bool mi_flush_free(mi_page_t* page, mi_block_t* block) {
  mi_theap_t* const home = mi_self_home();
  if (mi_unlikely(home->thread_id == 0)) return false; // THREAD-1: the id is that of another home
  const mi_hold_t hold = mi_hold_try(home);
  if (mi_unlikely(hold == MI_HOLD_REFUSED)) return false; // HOLD-3
  const bool is_own = mi_owner_is(mi_atomic_load_relaxed(&page->owner), home->thread_id);
  if (mi_likely(is_own)) {
    const bool is_emptied = mi_page_push_by(page, block, mi_secret_of_block(block));
    if (mi_unlikely(is_emptied)) mi_flush_emptied(page->theap, page);
  }
  mi_hold_leave(home, hold);
  return is_own;
}

MI_INTERNAL mi_page_t* mi_flush_detach(mi_theap_t* theap, size_t size_class) {
  mi_page_t* const page = mi_theap_current(theap, size_class);
  if (page == NULL) return NULL;
  mi_sample_restore(theap, size_class);
  mi_block_t* list = theap->free[size_class];
  theap->free[size_class] = NULL;
  mi_life_leave_current(theap, size_class);
  mi_block_t* last;
  const uint32_t count = mi_page_measure(page, &list, &last);
  if (count > 0) {
    mi_block_set_next(last, page->local_free);
    page->local_free = list;
  }
  page->count.used -= count;
  page->count.is_fresh_list = false;
  mi_handed_add(page, -(int32_t)count);
  return page;
}

// True if each carved block of a page without a block in use is in its list of free ones, or among
// the `in_list` blocks of its theap. After a block was freed twice the count of used blocks says
// so, and the lists do not: another block is in use, and the page is left to whoever finds the
// mistake.
static bool mi_flush_has_all(const mi_page_t* page, uint32_t in_list) {
  mi_list_t at = mi_list_of(page, page->local_free);
  while (mi_list_has(&at)) mi_list_step(&at);
  return at.block == NULL && (page->holes != 0 || in_list + at.count == mi_page_capacity(page));
}

// Look at a page in a queue: it is given up if no block of it is in use. True if memory may have
// gone back, which takes longer.
static bool mi_flush_look_at(mi_theap_t* theap, mi_page_t* page, bool ages, size_t* budget) {
  mi_page_collect(page);
  if (mi_part_is_empty(page) && mi_flush_has_all(page, 0)) {
    mi_life_dequeue(theap, page);
    mi_pool_give_up(page);
    return true;
  }
  const size_t before = *budget;
  if (mi_unlikely(page->is_sparse) && ages) mi_sparse_age(theap, page, budget);
  mi_life_offer(theap, page);
  return *budget < before;
}

// Give up the pages of others that this thread freed into, and share no class any more.
static void mi_flush_guests(mi_theap_t* theap) {
  for (size_t i = 0; i < MI_GUEST_COUNT; i++) {
    mi_page_t* const page = theap->guest[i];
    if (page == NULL) continue;
    mi_life_remove_guest(theap, page);
    mi_pool_give_up(page);
  }
  mi_split_join(theap);
}

// Look at all pages in queues, and give up guests. So many sparse pages are trimmed; with MI_FORCE
// also those that are not old.
static void mi_flush_queues(mi_theap_t* theap, mi_effort_t effort, size_t* budget) {
  mi_assert_full(mi_theap_is_valid(theap));
  mi_report_enter(MI_REPORT_IN_COLLECT);
  for (size_t c = 0; c < MI_CLASS_COUNT; c++) {
    const mi_page_queue_t* const queue = &theap->queue[c];
    for (mi_page_t* page = mi_life_first(queue); page != NULL;) {
      mi_page_t* const next = mi_life_after(queue, page);
      if (effort == MI_FORCE && page->is_sparse) mi_life_age_sparse(page);
      mi_flush_look_at(theap, page, true, budget);
      page = next;
    }
  }
  mi_flush_guests(theap);
  mi_report_leave();
}

MI_INTERNAL void mi_flush_idle(mi_theap_t* theap) {
  size_t budget = MI_SPARSE_BUDGET;
  mi_flush_queues(theap, MI_GENTLE, &budget);
}

MI_INTERNAL void mi_flush_begin_look(mi_theap_t* theap, bool ages) {
  if (theap->look_left > 0 && (theap->look_ages || !ages)) return;
  theap->look_left = MI_CLASS_COUNT;
  theap->look_ages = ages;
  theap->look_next = NULL;
  mi_report_enter(MI_REPORT_IN_COLLECT);
  mi_flush_guests(theap);
  mi_report_leave();
}

// Return the page that the look comes to, or NULL if it is through, or in its class.
static mi_page_t* mi_flush_look_page(mi_theap_t* theap, size_t c) {
  mi_page_t* const page = theap->look_next;
  if (page == NULL) return mi_life_first(&theap->queue[c]);
  const bool is_here = mi_theap_owns(theap, page) && page->place == MI_PLACE_QUEUE;
  return is_here && page->size_class == c ? page : NULL;
}

MI_INTERNAL void mi_flush_look(mi_theap_t* theap, size_t* pages) {
  if (mi_likely(theap->look_left == 0)) return;
  size_t budget = mi_bits_min(mi_bits_max(*pages / MI_LOOK_SPARSE_PART, 1), MI_SPARSE_BUDGET);
  const uint64_t end_ms = mi_os_now_ms() + MI_RETAIN_PART_MS;
  mi_report_enter(MI_REPORT_IN_COLLECT);
  while (theap->look_left > 0 && *pages > 0) {
    const size_t c = MI_CLASS_COUNT - theap->look_left;
    mi_page_t* const page = mi_flush_look_page(theap, c);
    if (budget == 0 && page != NULL && page->is_sparse && page->is_sparse_old) {
      theap->look_next = page; // FLUSH-1: it does not wait for the next look
      *pages = 0;
      break;
    }
    theap->look_next = page == NULL ? NULL : mi_life_after(&theap->queue[c], page);
    if (theap->look_next == NULL) theap->look_left--;
    if (page == NULL) continue;
    --*pages;
    const bool is_slow = mi_flush_look_at(theap, page, theap->look_ages, &budget);
    if (is_slow && mi_os_now_ms() >= end_ms) *pages = 0;
  }
  mi_report_leave();
}

MI_INTERNAL mi_attr_cold void mi_flush_rest(mi_theap_t* theap, size_t* budget) {
  mi_report_enter(MI_REPORT_IN_COLLECT);
  mi_portion_return_all(theap);
  for (size_t c = 0; c < MI_CLASS_COUNT; c++) {
    mi_page_t* const page = mi_flush_detach(theap, c);
    if (page == NULL || !mi_flush_set_aside(theap, page)) continue;
    if (mi_part_used(page) <= page->sparse_at) {
      mi_life_note_sparse(page);
    }
  }
  mi_report_leave();
  mi_flush_queues(theap, MI_FORCE, budget);
}

MI_INTERNAL void mi_flush_empty(mi_theap_t* theap) {
  const size_t worth = theap->page_count / MI_FLUSH_SEARCH_PART * MI_SLICE_SIZE;
  if (theap->page_count > MI_FLUSH_SEARCH_MAX && theap->idle_bytes < worth) return;
  mi_report_enter(MI_REPORT_IN_COLLECT);
  for (size_t c = 0; c < MI_CLASS_COUNT; c++) {
    const mi_page_queue_t* const queue = &theap->queue[c];
    for (mi_page_t* page = mi_life_first(queue); page != NULL;) {
      mi_page_t* const next = mi_life_after(queue, page);
      if (mi_part_is_empty(page) && mi_flush_has_all(page, 0)) {
        mi_life_dequeue(theap, page);
        mi_pool_give_up(page);
      }
      page = next;
    }
  }
  mi_report_leave();
}

// Put the current page of a class in its queue, if it may be taken over.
static mi_attr_cold void mi_flush_set_current_aside(mi_theap_t* theap, size_t c) {
  mi_page_t* page = mi_theap_current(theap, c);
  if (page == NULL || !mi_life_is_held(page)) return;
  page = mi_flush_detach(theap, c);
  mi_flush_set_aside(theap, page);
}

MI_INTERNAL mi_attr_cold void mi_flush_lend(mi_theap_t* theap, size_t* budget) {
  for (size_t c = 0; c < MI_CLASS_COUNT; c++) {
    if (mi_class_is_medium(c)) mi_flush_set_current_aside(theap, c);
    const mi_page_queue_t* const queue = &theap->queue[c];
    for (mi_page_t* page = mi_life_first(queue); page != NULL;) {
      if (*budget == 0) return;
      mi_page_t* const next = mi_life_after(queue, page);
      if (mi_life_is_held(page)) {
        mi_page_collect(page);
        if (!mi_part_is_empty(page) || mi_flush_has_all(page, 0)) {
          if (page->is_sparse) mi_sparse_trim(theap, page);
          mi_life_dequeue(theap, page);
          mi_pool_lend(page, theap->thread_id);
          --*budget;
        }
      }
      page = next;
    }
  }
}

// Return the carved bytes of a current page if none of its blocks is in use, else 0.
static size_t mi_flush_idle_bytes(mi_theap_t* theap, mi_page_t* page) {
  mi_block_t* last;
  const uint32_t in_list = mi_page_measure(page, &theap->free[page->size_class], &last);
  if (mi_part_used(page) != in_list + 1 || !mi_flush_has_all(page, in_list)) return 0;
  return mi_page_capacity(page) * page->block_size;
}

// Return the current page of the first class in `rest`, a part of `wide`; or NULL, and note that
// there is none.
static inline mi_page_t* mi_flush_wide(mi_theap_t* theap, uint64_t rest) {
  mi_page_t* const page = mi_theap_current(theap, MI_WIDE_CLASS + mi_bits_trailing_zeros(rest));
  if (page == NULL) theap->wide &= ~(rest & (0 - rest));
  return page;
}

MI_INTERNAL void mi_flush_collect(mi_theap_t* theap) {
  mi_report_enter(MI_REPORT_IN_COLLECT);
  for (uint64_t rest = theap->wide; rest != 0; rest &= rest - 1) {
    mi_page_t* const page = mi_flush_wide(theap, rest);
    if (page != NULL) mi_page_collect(page);
  }
  mi_report_leave();
}

MI_INTERNAL void mi_flush_trim(mi_theap_t* theap, size_t limit, size_t busy) {
  if (theap->sample_is_exact) return;
  size_t kept = 0;
  mi_report_enter(MI_REPORT_IN_COLLECT);
  for (uint64_t rest = theap->wide & ~mi_life_wide(busy); rest != 0; rest &= rest - 1) {
    const size_t c = MI_WIDE_CLASS + mi_bits_trailing_zeros(rest);
    mi_page_t* const page = mi_flush_wide(theap, rest);
    if (page == NULL) continue;
    if (mi_likely(theap->free[c] == NULL && page->local_free == NULL)) continue; // most are full
    const size_t bytes = mi_flush_idle_bytes(theap, page);
    if (bytes == 0) continue;
    if (kept + bytes <= limit) {
      kept += bytes;
    } else {
      mi_pool_give_up(mi_flush_detach(theap, c));
    }
  }
  mi_report_leave();
}

MI_INTERNAL void mi_flush_class(mi_theap_t* theap, size_t size_class) {
  mi_page_t* page = mi_flush_detach(theap, size_class);
  if (page != NULL) mi_pool_give_up(page);
  while ((page = mi_life_first(&theap->queue[size_class])) != NULL) {
    mi_life_dequeue(theap, page);
    mi_pool_give_up(page);
  }
}

MI_INTERNAL void mi_flush_theap(mi_theap_t* theap) {
  mi_assert_full(mi_theap_is_valid(theap));
  mi_report_enter(MI_REPORT_IN_COLLECT);
  mi_portion_return_all(theap);
  mi_flush_idle(theap);
  for (size_t c = 0; c < MI_CLASS_COUNT; c++) {
    const bool has_pages = theap->queue[c].last != NULL || mi_theap_current(theap, c) != NULL;
    if (has_pages) mi_flush_class(theap, c);
  }
  mi_assert(theap->page_count == 0);
  mi_split_join(theap);
  mi_report_leave();
}
