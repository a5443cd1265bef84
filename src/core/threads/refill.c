// SPDX-License-Identifier: MIT
// refill.c - fills the empty list of a class, in these steps:
//
//   1. the cadence: deferred frees, due purges             here, called by slow.c
//   2. is the block that is asked for a sample?            sample.c, called by slow.c
//   3. the current page: what this thread freed since, then what others freed
//   4. the oldest page in the queue of the class; its blocks as a portion, if they are few
//   5. blocks of the current page that were never used,
//      or whose memory went back                            page.c (carve), hole.c (fill)
//   6. a guest page of the class; then the pool            theap.c, pool.c
//   7. a fresh page, perhaps in place of idle ones         page.c, flush.c
//
// Before step 1 a thread gets its theap (enter.c). When all steps fail, slow.c gives up all unused
// memory and tries 3 to 7 once more.
//
// In a crowd of threads steps 3 to 5 are left out, and 6 and 7 end in a portion (portion.c). Where
// threads exchange blocks each step ends in a portion, and no page is current (PORTION-6).
//
// REFILL-1  on success `free[c]` is not empty, and its blocks belong to `current[c]`, or to pages
//     that no thread owns, and all count as used there.
// REFILL-2  used blocks come before untouched memory (3 and 4 before 5 to 7): the heap does not
//     grow while it has room. Of pages that have nothing but untouched memory, or holes, a refill
//     looks at MI_REFILL_LOOKS, and uses that of the last one; the others go to the end of the
//     queue, so that each has its turn. There may be any number of them: after a program has freed
//     most of 1 GiB at random all pages have holes, and each of 15,000 would be looked at for every
//     8 blocks (512 bytes: 3.7 us for each malloc, 0.17 with the bound, and as much memory).
// REFILL-3  the first page of a class in a small heap gives back what its slice has of before: it
//     may stay nearly unused (crowd.h). Not if the theap used more than half of the last page that
//     it made for the class: a program that frees all and begins again takes the memory as it is.
//     Nor where threads exchange blocks, and no page is current: each of many short threads would
//     have page faults in each page (mleak: 35,000, 200 so).
// REFILL-4  before a page makes a new peak of committed memory, the theap gives up pages without a
//     block in use. Their memory is resident: the new page has it without page faults, and what is
//     needed again is made again in what others leave. So a small program, most of whose memory is
//     a page for each of many sizes, does not keep those of sizes that it no longer uses. A theap
//     of a heap that is not small does so once it has grown by 1/MI_REFILL_PEAK_PART since: one
//     that replaces blocks of 33 to 64 KB at its peak would else make a page again for three of
//     four blocks (3,300 instructions for each block, 1,200 so, at 1.02 of the memory).
// REFILL-5  beside other threads a theap holds little in idle pages of large classes also when it
//     makes no more of them: after MI_TRIM_BYTES, in blocks of the slow path, or as many refills as
//     are without it at most, it gives up what is beyond the bound. Each of many threads would else
//     keep a page of each size up to 512 KiB.
// REFILL-6  a list leads from one free block to the next: if these are in no cache, a malloc waits
//     130 to 170 ns for the one before. So the blocks of a page of which a quarter is free are
//     fetched when it becomes current, all at once (15 of 16 freed at random in a heap of 64 MiB, a
//     malloc of 64 bytes: 44 ns, 137 without; of 512 bytes: 80, 178). Not in a small heap, whose
//     blocks are in a cache.
// REFILL-7  a page of several slices is made in fewer of them if it would else make a new peak:
//     what other pages left free lies in single slices mostly. (10,000 buffers that grow to 8 KiB
//     in turns: 54 MiB when most have 5 KiB, 66 without this and SPARSE-10.)
//
// Where a page has a few blocks or one, a malloc mostly finds that the current page is full, and
// the next one of the queue is not: mi_refill_turn does that alone, and counts down to the cadence.
//
// Pages that were full return to the end of the queue at their first free, so that they collect
// free blocks while others serve: each visit then finds many blocks, and no descriptor is touched
// to search (measured by the design: 35 against 89 ns with 100,000 live blocks replaced at random).
#include "refill.h"

#include "crowd.h"
#include "flush.h"
#include "parcel.h"
#include "portion.h"
#include "sample.h"
#include "sparse.h"
#include "thread.h"

#define MI_CADENCE_CALLS 1024
// Pages of a theap that have free blocks, from which on its heap is larger than the caches.
#define MI_REFILL_SPREAD_PAGES ((size_t)(MI_IS_TINY ? 16 : 512))
// A page has few free blocks if at most half are free, and these are at most so many: in such a
// heap and for a thread that takes no pages of others, and, as a part of its blocks, for any other.
#define MI_REFILL_FEW ((size_t)8)
#define MI_REFILL_FEW_PART 64
// REFILL-6: pages of a theap that have free blocks, from which on those of one are in no cache near
// the processor; and how many of a page's blocks must be free, and which part.
#define MI_REFILL_COLD_PAGES ((size_t)16)
#define MI_REFILL_COLD_FEW ((size_t)4)
#define MI_REFILL_COLD_PART 4
// REFILL-4: the part by which the heap must have grown since.
#define MI_REFILL_PEAK_PART 1024
// The interval at which a thread that refills begins to look for idle pages.
#define MI_TICK_MS 500
#define MI_LOOK_SOON_MS 10 // between two parts of such a look, while much waits between blocks
#define MI_LOOK_PAUSE 3 // how often a thread that refills fast does not ask for the time then
// The bytes that a theap may hold in idle pages of large classes while it makes another page: its
// share of a part of the heap, within bounds, unless its thread is the only one and the heap is
// large; and little in any heap if that page would make a new peak. (If each thread might hold as
// much as one alone, four that encode and decode JSON in Python would take 29.5 MiB, not 28; glibc
// 24.6, where all threads share.)
#define MI_IDLE_LARGE_MIN (2 * MI_SLICE_SIZE)
#define MI_IDLE_LARGE_MAX (8 * MI_SLICE_SIZE)
#define MI_IDLE_LARGE_PART 16
#define MI_IDLE_PEAK_PART 256
#define MI_TRIM_BYTES ((int32_t)(256 * MI_SLICE_SIZE))
#define MI_TRIM_REFILL (MI_TRIM_BYTES / MI_QUICK_REFILLS) // that a refill counts for

// The list of a page that the thread has: PORTION-6. What others freed does not count.
static mi_attr_noinline void mi_refill_note_own(mi_theap_t* theap, size_t c, uint32_t length) {
  if (length == MI_LENGTH_UNKNOWN) return;
  mi_portion_exchange_less(theap, c, mi_portion_exchange_score(c, length) / 2);
}

// Put a list of `length` blocks in place: all blocks of the page count as used from now on.
static mi_attr_inline bool mi_refill_set(mi_theap_t* theap, size_t c, mi_block_t* list,
                                         uint32_t length) {
  theap->free[c] = list;
  if (c < MI_CLASS_SMALL_COUNT && mi_unlikely(theap->exchange[c] != 0)) {
    mi_refill_note_own(theap, c, length);
  }
  if (mi_unlikely(theap->sample_ahead != 0)) mi_sample_window(theap, c, length);
  return true;
}

// Step 3: use the lists of the current page.
static bool mi_refill_from_lists(mi_theap_t* theap, size_t c, mi_page_t* page) {
  mi_block_t* list = page->local_free;
  if (list != NULL) {
    if (mi_unlikely(!mi_page_is_head_sound(page, list))) mi_page_cut_head(page, &list);
    const uint32_t length = page->refilled.used - page->count.used;
    page->local_free = NULL;
    mi_handed_out(page);
    if (mi_likely(list != NULL)) return mi_refill_set(theap, c, list, length);
  }
  list = mi_remote_take(page);
  if (list == NULL) return false;
  if (mi_unlikely(!mi_page_is_head_sound(page, list))) mi_page_cut_head(page, &list);
  page->count.is_fresh_list =
      false; // the blocks of `list` count as used and handed out, and still do
  return list != NULL && mi_refill_set(theap, c, list, MI_LENGTH_UNKNOWN);
}

// Set the current page aside, which has no free block except those not yet carved.
static mi_attr_noinline void mi_refill_leave_current(mi_theap_t* theap, size_t c) {
  mi_page_t* const page = mi_life_leave_current(theap, c);
  if (page != NULL) mi_flush_set_aside(theap, page);
}

// True if most blocks of the page's list are in no cache, and they are many: REFILL-6.
static inline bool mi_refill_is_cold(const mi_theap_t* theap, const mi_page_t* page) {
  const size_t count = mi_page_capacity(page) - page->count.used;
  return theap->page_count >= MI_REFILL_COLD_PAGES && count > MI_REFILL_COLD_FEW &&
         page->local_free != NULL && count >= page->reserved / MI_REFILL_COLD_PART;
}

// Allocate from `page`, which this thread owns and which is in no place.
static void mi_refill_make_current(mi_theap_t* theap, mi_page_t* page) {
  if (mi_refill_is_cold(theap, page)) {
    const size_t step = mi_bits_max(page->block_size, 64);
    const size_t bytes = mi_page_capacity(page) * page->block_size;
    for (size_t at = 0; at < bytes; at += step) mi_prefetch(page->start + at);
  }
  if (MI_DEBUG >= 3) mi_page_check(page);
  mi_assert_page_full(page, mi_page_is_valid(page));
  mi_life_make_current(theap, page);
  mi_handed_set_room(theap, page->size_class, 0); // PORTION-4
}

// The bit of a class in `filled`; none of a large class, of which no page is cleaned.
static inline uint64_t mi_refill_bit(size_t c) { return c < 64 ? (uint64_t)1 << c : 0; }

// True if each block of the page was carved, and none has lost its memory since.
static inline bool mi_refill_is_carved(const mi_page_t* page) {
  return mi_page_capacity(page) == page->reserved && page->holes == 0;
}

// Carve blocks of a page that this thread owns, first those that never were, then those that touch
// a hole. They count as used. NULL if there are none.
static mi_block_t* mi_refill_carve_page(mi_theap_t* theap, mi_page_t* page, uint32_t* count) {
  mi_subproc_t* const subproc = mi_theap_subproc(theap);
  size_t index = mi_page_capacity(page);
  mi_block_t* list = mi_page_carve(page, count);
  if (mi_unlikely(list == NULL)) {
    *count = mi_hole_fill(subproc, page, &index);
    if (*count == 0) return NULL;
    list = mi_page_carve_at(page, index, *count);
    page->count.is_fresh_list = false;
  }
  mi_page_charge(subproc, page, index, *count);
  if (2 * index >= page->reserved) theap->filled |= mi_refill_bit(page->size_class); // REFILL-3
  mi_probe3(carve, page->start, page->block_size, *count);
  if (mi_unlikely(mi_refill_is_carved(page))) mi_collapse_note(subproc, page);
  return list;
}

static bool mi_refill_carve(mi_theap_t* theap, size_t c) {
  mi_page_t* const page = mi_theap_current(theap, c);
  if (page == NULL) return false;
  uint32_t count;
  mi_block_t* const list = mi_refill_carve_page(theap, page, &count);
  if (list == NULL) return false;
  mi_handed_add(page, (int32_t)count);
  return mi_refill_set(theap, c, list, count);
}

// Return the number of free blocks of a page that are few. To make a page current, park it and take
// it back at its next free takes 600 instructions; for few blocks it costs less to take them as a
// portion, although a free into a parked page takes some 30 instructions more than one into a page
// that waits in a queue. Threads that exchange blocks take parked pages from each other, so that
// they park what is full (rptest takes 1.1 of the time and memory otherwise), unless the blocks are
// spread over so much memory that each descriptor, and each block that was freed long ago, is a
// cache miss.
static size_t mi_refill_few(const mi_theap_t* theap, const mi_page_t* page) {
  const bool is_private = theap->home->exchange_ticks == 0;
  const bool is_spread = theap->page_count >= MI_REFILL_SPREAD_PAGES;
  const size_t few = is_private || is_spread ? MI_REFILL_FEW : page->reserved / MI_REFILL_FEW_PART;
  return mi_bits_max(mi_bits_min(few, page->reserved / 2), 1);
}

// Step 4 for a page that has few free blocks, and none that was never used: the blocks become a
// portion, and the page is parked again. So the blocks that the thread frees in its full pages are
// the next ones that it allocates (PORTION-4). False if the page is to be made current.
static mi_attr_noinline bool mi_refill_from_few(mi_theap_t* theap, size_t c, mi_page_t* page) {
  if (page->block_size > MI_PORTION_OWN_SIZE_MAX) return false;
  const uint32_t count = page->reserved - page->count.used;
  const size_t length = mi_portion_own_length(c);
  if (mi_theap_cuts_all(theap) || !mi_refill_is_carved(page)) return false;
  if (count > mi_refill_few(theap, page)) return false;
  mi_assert(count <= length);
  mi_block_t* const list = page->local_free;
  if (list == NULL || !mi_page_is_head_sound(page, list)) return false;
  page->local_free = NULL;
  mi_life_recount(page, 0);
  if (!mi_life_park(page, theap->thread_id)) { // others have freed into it
    page->local_free = list;
    mi_life_recount(page, count);
    return false;
  }
  theap->free[c] = list;
  mi_handed_count(theap, c, (int32_t)count); // the page may belong to another thread again
  mi_handed_set_room(theap, c, length - count);
  mi_sample_note_portion(theap);
  return true;
}

// Steps 3 to 5, in a loop over the pages that the theap has.
static bool mi_refill_from_own(mi_theap_t* theap, size_t c) {
  mi_page_t* const current = mi_theap_current(theap, c);
  if (current != NULL && mi_refill_from_lists(theap, c, current)) return true;
  // Pages with nothing but untouched memory go to the end of the queue; the round is over when the
  // first of them comes to the front again, or after some of them (REFILL-2).
  const mi_page_t* untouched = NULL;
  size_t looks = 0;
  mi_page_t* page;
  while ((page = mi_life_first(&theap->queue[c])) != NULL && page != untouched) {
    mi_life_dequeue(theap, page);
    mi_refill_leave_current(theap, c);
    if (mi_refill_from_few(theap, c, page)) return true;
    mi_refill_make_current(theap, page);
    if (mi_refill_from_lists(theap, c, page)) return true;
    if (mi_refill_is_carved(page)) continue; // it is damaged
    if (untouched == NULL) untouched = page;
    if (++looks == MI_REFILL_LOOKS) break;
  }
  return mi_refill_carve(theap, c);
}

// True if the current page of a class has no free block, as far as it has not to be carved.
static inline bool mi_refill_is_used_up(mi_page_t* current) {
  return current->local_free == NULL &&
         mi_atomic_load_relaxed(&current->thread_free) <= MI_REMOTE_BITS;
}

MI_INTERNAL mi_block_t* mi_refill_turn(mi_theap_t* theap, size_t c) {
  if (theap->free[c] != NULL) return NULL; // alloc.c did not look: the purge thread asked (HOLD-5)
  mi_page_t* const page = mi_life_first(&theap->queue[c]);
  if (page == NULL || page->local_free == NULL) return NULL;
  if (theap->sample_is_on) return NULL;
  mi_page_t* const current = mi_theap_current(theap, c);
  if (current != NULL && !mi_refill_is_used_up(current)) return NULL;
  if (!mi_page_is_head_sound(page, page->local_free)) return NULL; // it is reported there
  theap->quick_left--;
  theap->trim_left -= (int32_t)page->block_size;
  mi_life_dequeue(theap, page);
  mi_refill_leave_current(theap, c);
  mi_refill_make_current(theap, page);
  mi_refill_from_lists(theap, c, page);
  return theap->free[c];
}

// Give up pages without a block in use before a new peak, if it is worth while: REFILL-4. False if
// it is not.
static bool mi_refill_flush(mi_theap_t* theap, size_t c) {
  const mi_counters_t* const count = &mi_theap_subproc(theap)->count;
  const int64_t committed = mi_atomic_load_relaxed(&count->committed);
  const bool is_due = committed - theap->peak_seen >= committed / MI_REFILL_PEAK_PART;
  if (!is_due && !mi_theap_is_in_small_heap(theap)) return false;
  theap->peak_seen = committed;
  mi_flush_empty(theap);
  mi_flush_trim(theap, (size_t)committed / MI_IDLE_PEAK_PART, c);
  return true;
}

// Make a page in slices that wait, so that there is no new peak: in fewer than usual if there are
// no others (REFILL-7). NULL if there are none.
static mi_page_t* mi_refill_make_below_peak(mi_heap_t* heap, mi_page_plan_t* plan) {
  if (mi_atomic_load_relaxed(&heap->subproc->purge_waiting) <= 0) return NULL;
  const size_t usual = plan->slice_count;
  mi_page_t* page;
  plan->is_below_peak = true;
  do {
    page = mi_page_make(heap, plan);
  } while (page == NULL && --plan->slice_count > 0 &&
           mi_class_has_slices(plan->size_class, plan->slice_count));
  plan->is_below_peak = false;
  plan->slice_count = usual;
  return page;
}

// Make a page where fresh memory would make a new peak.
static mi_attr_cold mi_page_t* mi_refill_make_at_peak(mi_theap_t* theap, mi_page_plan_t* plan) {
  mi_heap_t* const heap = mi_theap_heap(theap);
  mi_page_t* page = mi_refill_make_below_peak(heap, plan);
  if (page == NULL && mi_refill_flush(theap, plan->size_class)) {
    page = mi_refill_make_below_peak(heap, plan);
  }
  if (page != NULL) return page;
  const size_t bytes = mi_retain_sparse_way(heap->subproc, plan->slice_count);
  if (MI_HAS_HOLES && bytes > 0) mi_sparse_make_way(theap, bytes);
  return mi_page_make(heap, plan);
}

MI_INTERNAL mi_page_t* mi_refill_make_page(mi_theap_t* theap, size_t c) {
  mi_heap_t* const heap = mi_theap_heap(theap);
  const bool is_shared = mi_crowd_shares(theap);
  const size_t slice_count = is_shared ? mi_class_slices_shared(c) : mi_class_slices(c);
  mi_page_plan_t plan = {
      .size_class = c,
      .slice_count = slice_count,
      .is_sparse = mi_crowd_is_sparse(theap, c) && (theap->filled & mi_refill_bit(c)) == 0 &&
                   !mi_portion_exchanges(theap, c),
      .is_likely_full = mi_theap_current(theap, c) != NULL,
  };
  theap->filled &= ~mi_refill_bit(c);
  const bool is_peak = mi_retain_is_peak(heap->subproc, slice_count);
  mi_page_t* const page =
      is_peak ? mi_refill_make_at_peak(theap, &plan) : mi_page_make(heap, &plan);
  if (page == NULL) return NULL;
  mi_life_own(theap, page);
  return page;
}

// Give up idle pages of large classes before another one is made. Not in a large heap with one
// thread: there they make no peak (REFILL-4), nobody else needs them, and the look at them takes as
// long as to make one of them again.
static void mi_refill_trim(mi_theap_t* theap, size_t c) {
  mi_counters_t* const count = &mi_theap_subproc(theap)->count;
  const size_t committed = (size_t)mi_atomic_load_relaxed(&count->committed);
  if (mi_theap_is_alone(count) && committed >= MI_SMALL_HEAP) return;
  const size_t threads = (size_t)mi_atomic_load_relaxed(&count->threads);
  const size_t share = committed / MI_IDLE_LARGE_PART / (threads > 1 ? threads : 1);
  mi_flush_trim(theap, mi_bits_min(MI_IDLE_LARGE_MIN + share, MI_IDLE_LARGE_MAX), c);
}

// Steps 6 and 7: find or make a page of the class with a free block, owned by this thread and in no
// place. NULL if there is no memory.
static mi_page_t* mi_refill_find_page(mi_theap_t* theap, size_t c) {
  mi_heap_t* const heap = mi_theap_heap(theap);
  mi_page_t* page = mi_theap_take_guest(theap, c);
  if (page == NULL) page = mi_pool_pop(heap, c);
  if (page == NULL && mi_thread_release_orphans()) page = mi_pool_pop(heap, c);
  if (page != NULL) {
    mi_tally_often(theap, heap, MI_TALLY_ADOPTED);
    return page;
  }
  if (c >= MI_WIDE_CLASS) mi_refill_trim(theap, c);
  return mi_refill_make_page(theap, c);
}

// Steps 6 and 7.
static bool mi_refill_from_others(mi_theap_t* theap, size_t c) {
  mi_page_t* const page = mi_refill_find_page(theap, c);
  if (page == NULL) return false;
  mi_refill_leave_current(theap, c);
  mi_refill_make_current(theap, page);
  return mi_refill_from_lists(theap, c, page) || mi_refill_carve(theap, c);
}

// REFILL-5
static mi_attr_noinline void mi_refill_trim_again(mi_theap_t* theap, size_t c) {
  theap->trim_left = MI_TRIM_BYTES;
  if (mi_theap_is_alone(&mi_theap_subproc(theap)->count)) return;
  mi_flush_collect(theap);
  mi_refill_trim(theap, c);
}

// Decide when the slow path is due again: soon while much memory waits to go back, because the slow
// path reads the clock, and while a thread keeps its pages in a crowd (CROWD-1).
static void mi_refill_hurry(mi_theap_t* theap, uint32_t since) {
  mi_subproc_t* const subproc = mi_theap_subproc(theap);
  const bool is_much = mi_retain_is_much(subproc);
  const bool is_soon = is_much || (theap->home->is_busy && mi_crowd_is_here(subproc));
  const uint32_t quick = is_soon ? MI_QUICK_WAITING : MI_QUICK_REFILLS;
  mi_theap_set_quick(theap, mi_sample_quick(theap, quick, since));
  theap->poll_count += since;
  if (mi_likely(!is_much || theap->poll_count < MI_QUICK_WAITING)) return;
  theap->poll_count = 0;
  mi_retain_poll(subproc);
}

// HANDED-2
static void mi_refill_settle_handed(mi_theap_t* theap) {
  mi_page_t* const page = mi_theap_current(theap, theap->handed_turn);
  const uint8_t next = (uint8_t)(theap->handed_turn + 1);
  theap->handed_turn = next < MI_CLASS_COUNT ? next : 0;
  if (page != NULL && page->refilled.handed != 0) {
    mi_handed_settle_page(mi_theap_subproc(theap), page);
  }
}

// Look at some pages of the thread, and begin to do so now and then.
static void mi_refill_look(mi_theap_t* theap, size_t c, uint64_t now) {
  mi_theap_t* const home = theap->home;
  if (now - home->tick_ms >= MI_TICK_MS) {
    home->tick_ms = now;
    if (home->exchange_ticks > 0) home->exchange_ticks--;
    mi_thread_begin_look(theap);
    mi_flush_trim(theap, 0, c);
  }
  mi_thread_look(theap, now);
}

// SPARSE-9. In a thread that refills fast the slow path is no more often due for it.
static mi_attr_cold void mi_refill_look_soon(mi_theap_t* theap, size_t c) {
  mi_theap_t* const home = theap->home;
  if (home->look_pause > 0) {
    home->look_pause--;
    return;
  }
  const uint64_t now = mi_os_now_ms();
  if ((uint32_t)now - home->look_ms < MI_LOOK_SOON_MS) {
    home->look_pause = MI_LOOK_PAUSE;
    return;
  }
  mi_refill_look(theap, c, now);
  mi_theap_set_quick(theap, mi_sample_quick(theap, MI_QUICK_WAITING, 0));
}

// Step 1: the rare things that must happen now and then. While each list may be cut, every refill
// comes here.
MI_INTERNAL void mi_refill_cadence(mi_theap_t* theap, size_t c) {
  // If `quick_left` is 0, alloc.c or slow.c has counted this refill already.
  const uint32_t since = theap->quick_given - theap->quick_left + (theap->quick_left != 0 ? 1 : 0);
  mi_sample_follow_options(theap);
  mi_refill_hurry(theap, since);
  theap->trim_left -= (int32_t)since * MI_TRIM_REFILL;
  if (mi_unlikely(theap->trim_left < 0)) mi_refill_trim_again(theap, c);
  mi_refill_settle_handed(theap);
  theap->heartbeat += since;
  theap->generic_count += since;
  mi_theap_t* const home = theap->home;
  home->cadence_count += since; // in all heaps: each of many may have few refills
  mi_parcel_flush();
  if (mi_unlikely(home->is_unwatched)) mi_thread_watch(home);
  if (mi_crowd_is_here(mi_theap_subproc(theap))) mi_crowd_look(home);
  if (home->cadence_count < MI_CADENCE_CALLS) {
    if (mi_unlikely(mi_sparse_is_much(mi_theap_subproc(theap)))) mi_refill_look_soon(theap, c);
    return;
  }
  home->cadence_count = 0;
  const uint64_t now = mi_os_now_ms();
  const long collect = mi_option_value(generic_collect);
  if (collect > 0 && (unsigned long)theap->generic_count >= (unsigned long)collect) {
    theap->generic_count = 0;
    mi_flush_begin_look(theap, false);
  }
  mi_refill_look(theap, c, now);
  mi_retain_poll(mi_theap_subproc(theap));
  mi_collapse_poll(mi_theap_subproc(theap), now);
  mi_crowd_credit(home);
  if (theap->is_in_deferred_free) return;
  theap->is_in_deferred_free = true;
  mi_hook_deferred_free(MI_GENTLE, theap->heartbeat);
  theap->is_in_deferred_free = false;
}

// Find or make a list of free blocks in a page that the theap has just taken. False if the program
// has damaged it so that there is none.
static bool mi_refill_ready(mi_theap_t* theap, mi_page_t* page) {
  if (page->local_free == NULL) mi_page_collect(page);
  if (page->local_free != NULL && !mi_page_is_head_sound(page, page->local_free)) {
    mi_page_cut_head(page, &page->local_free);
    mi_life_recount(page, page->local_free != NULL ? 1 : 0);
  }
  if (page->local_free == NULL) {
    uint32_t carved;
    page->local_free = mi_refill_carve_page(theap, page, &carved);
    page->count.used -= carved;
  }
  return page->local_free != NULL;
}

// Begin a portion with blocks of the page's list: a part of what may be in it, so that the next
// frees find room, and the list is not counted each time. Returns how many they are.
static size_t mi_refill_set_portion(mi_theap_t* theap, mi_page_t* page,
                                    mi_portion_bounds_t bounds) {
  const size_t c = page->size_class;
  mi_block_t* const first = page->local_free;
  mi_block_t* last = first;
  mi_block_t* rest = mi_block_next(last);
  size_t count = 1;
  for (; count < bounds.start && rest != NULL; count++) {
    last = rest;
    rest = mi_block_next(last);
  }
  page->local_free = rest;
  page->count.used += (uint32_t)count;
  mi_handed_add(page, (int32_t)count);
  mi_block_set_next(last, NULL);
  theap->free[c] = first;
  mi_handed_set_room(theap, c, bounds.most - count);
  mi_sample_note_portion(theap);
  return count;
}

// In a crowd of threads: fill a portion from a page that no thread owns before and after.
static mi_attr_noinline bool mi_refill_portion(mi_theap_t* theap, size_t c) {
  mi_flush_class(theap, c); // pages from before there was a crowd
  mi_page_t* page;
  while ((page = mi_refill_find_page(theap, c)) != NULL && !mi_refill_ready(theap, page)) {
    mi_pool_give_up(page); // damaged: it counts as full, and is in no pool
  }
  if (page == NULL) return false;
  mi_refill_set_portion(theap, page, mi_portion_bounds(theap, c));
  mi_pool_give_up(page);
  return true;
}

// True if the thread exchanges blocks of the class with others, so that the next ones are to be a
// portion: PORTION-6.
static mi_attr_inline bool mi_refill_exchanges(mi_theap_t* theap, size_t c) {
  if (mi_likely(!mi_portion_exchanges(theap, c))) return false;
  if (mi_theap_cuts_all(theap) || !mi_crowd_may_exchange(mi_theap_subproc(theap))) {
    theap->exchange[c] = 0;
    return false;
  }
  if (mi_theap_current(theap, c) != NULL) theap->exchange[c] = MI_PORTION_EXCHANGE_START;
  return true;
}

// Fill a portion from a page, and give the last one, which is used up, its part of the score:
// PORTION-6.
static void mi_refill_set_exchanged(mi_theap_t* theap, size_t c, mi_page_t* page) {
  const mi_portion_bounds_t bounds = mi_portion_bounds(theap, c);
  const size_t room = bounds.most - bounds.start; // that the last one began with
  const size_t joined = room - mi_bits_min(room, theap->room[c]);
  const size_t count = mi_refill_set_portion(theap, page, bounds);
  mi_portion_exchange_more(theap, c, mi_portion_exchange_score(c, joined));
  mi_portion_exchange_less(theap, c, mi_portion_exchange_score(c, count) / 2);
}

// Step 4 for a portion: take the oldest page that has a block for it out of the queue; or, of pages
// that have nothing but untouched memory, the one that REFILL-2 says. NULL if there is none.
static mi_page_t* mi_refill_take_queued(mi_theap_t* theap, size_t c) {
  const mi_page_t* untouched = NULL;
  mi_page_t* page;
  for (size_t looks = 1; (page = mi_life_first(&theap->queue[c])) != NULL;) {
    mi_life_dequeue(theap, page);
    if (page->local_free == NULL) mi_page_collect(page);
    if (page->local_free != NULL || page == untouched || looks == MI_REFILL_LOOKS) return page;
    if (!mi_flush_set_aside(theap, page)) continue; // it is full
    if (untouched == NULL) untouched = page;
    looks++;
  }
  return NULL;
}

// Give up a page that a portion was filled from, or keep it: PORTION-6.
static void mi_refill_leave_exchanged(mi_theap_t* theap, mi_page_t* page) {
  if (page->block_size > MI_PORTION_EXCHANGE_KEPT_MAX) {
    mi_pool_give_up(page);
  } else {
    mi_life_own(theap, page);
    mi_flush_set_aside(theap, page);
  }
}

// False if there is no memory, or if the page has none, because it is damaged or at a limit.
static mi_attr_noinline bool mi_refill_exchanged(mi_theap_t* theap, size_t c) {
  mi_refill_leave_current(theap, c);
  mi_page_t* page = mi_refill_take_queued(theap, c);
  if (page == NULL) page = mi_refill_find_page(theap, c);
  if (page == NULL) return false;
  const bool is_ready = mi_refill_ready(theap, page);
  if (is_ready) mi_refill_set_exchanged(theap, c, page);
  mi_refill_leave_exchanged(theap, page);
  return is_ready;
}

// Steps 3 to 7.
static bool mi_refill_list(mi_theap_t* theap, size_t c) {
  if (mi_refill_exchanges(theap, c) && mi_refill_exchanged(theap, c)) return true;
  return mi_refill_from_own(theap, c) || mi_refill_from_others(theap, c);
}

MI_INTERNAL mi_block_t* mi_refill_block(mi_theap_t* theap, size_t c) {
  mi_block_t* block;
  do {
    if (theap->free[c] == NULL) {
      const bool is_shared = mi_crowd_shares(theap);
      mi_probe2(refill, theap, c);
      if (!(is_shared ? mi_refill_portion(theap, c) : mi_refill_list(theap, c))) return NULL;
    }
    block = theap->free[c];
  } while (mi_unlikely(!mi_theap_take(theap, c, block)));
  return block;
}
