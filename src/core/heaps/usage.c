// SPDX-License-Identifier: MIT
// usage.c - measures what is in use by a walk over the pages of a heap or a sub-process, for
// statistics and the information calls of C libraries.
//
//   pages -> blocks that their owners count as used - those in lists from which malloc will take
//
// USAGE-1  a page counts blocks as used until its owner has taken them back: also those of the list
//     that a theap allocates from, and those that other threads freed into the page. Both are
//     found, and subtracted, for the theaps of the calling thread, and for those without a thread
//     (orphans, under the thread lock). So the result is exact when no other thread has a theap,
//     and otherwise too high by the blocks that other threads hold ready: at most a page for each
//     size and thread.
// USAGE-2  pages change during the walk, and are made anew: their plain fields are read by
//     `mi_atomic_peek`, and the values are limited to what a page of the class can have.
// Deliberately absent: counters kept by the slow paths (`mi_tally_t`, `mi_counters_t`), but for the
// number of blocks ever handed out (handed.h), part of which is in pages.
#include "usage.h"

#include "heap.h"
#include "subproc.h"
#include "walk.h"

MI_INTERNAL mi_attr_racy mi_usage_page_t mi_usage_of_page(mi_page_t* page) {
  const size_t c = mi_atomic_peek(&page->size_class);
  if (c == MI_CLASS_COUNT) {
    const size_t size = mi_atomic_peek(&page->block_size);
    return (mi_usage_page_t){.size_class = c, .block_size = size, .used = 1, .carved = 1};
  }
  const size_t size = mi_class_size(c);
  const size_t peeked = mi_atomic_peek(&page->slice_count);
  const size_t slices = mi_bits_max(mi_bits_min(peeked, MI_CLASS_SLICES_MAX), 1);
  const size_t fit = mi_class_blocks(size, slices);
  const size_t carved = mi_bits_min((size_t)mi_atomic_peek(&page->refilled.used) - 1, fit);
  // LIFE-1
  const size_t current = mi_atomic_peek(&page->place) == MI_PLACE_CURRENT ? 1 : 0;
  const mi_part_mask_t holes = mi_atomic_peek(&page->holes);
  const size_t less = current + (holes == 0 ? 0 : mi_part_count_missing(holes, slices, size, fit));
  const uint32_t counted = mi_atomic_peek(&page->count.used) + mi_atomic_peek(&page->bias);
  const size_t used = mi_bits_max(counted, less) - less;
  return (mi_usage_page_t){.size_class = c,
                           .block_size = size,
                           .used = mi_bits_min(used, carved),
                           .carved = carved,
                           .absent = mi_bits_count(holes) * mi_part_size(slices),
                           .handed = (int32_t)mi_atomic_peek(&page->refilled.handed)};
}

static bool mi_usage_visit(mi_page_t* page, void* arg) {
  mi_usage_t* const usage = (mi_usage_t*)arg;
  const mi_usage_page_t own = mi_usage_of_page(page);
  if (own.size_class == MI_CLASS_COUNT) {
    usage->large += own.block_size;
    usage->large_blocks++;
    return true;
  }
  usage->class_blocks[own.size_class] += own.used;
  usage->class_pages[own.size_class]++;
  usage->class_handed[own.size_class] += own.handed;
  const size_t bytes = own.carved * own.block_size;
  usage->in_pages += bytes - mi_bits_min(own.absent, bytes);
  if ((mi_atomic_load_relaxed(&page->thread_free) & MI_REMOTE_POOLED) != 0) {
    usage->pooled_pages++;
  }
  return true;
}

// -- free blocks that count as used --

MI_INTERNAL void mi_usage_each_list(const mi_theap_t* theap, mi_usage_list_fun* fun, void* arg) {
  for (size_t c = 0; c < MI_CLASS_COUNT; c++) {
    mi_page_t* const current = mi_theap_current(theap, c);
    if (current == NULL) {
      fun(theap, NULL, c, mi_portion_count(mi_portion_of(theap, c), mi_portion_most(c)), arg);
    } else {
      const size_t count =
          mi_list_length(current, theap->free[c]) + mi_list_length(current, current->sample_rest);
      fun(theap, current, c, count + mi_list_returned(current), arg);
    }
    const mi_page_queue_t* const queue = &theap->queue[c];
    mi_page_t* page = mi_life_first(queue);
    for (; page != NULL; page = mi_life_after(queue, page)) {
      fun(theap, page, c, mi_list_returned(page), arg);
    }
  }
  for (size_t i = 0; i < MI_GUEST_COUNT; i++) {
    mi_page_t* const page = theap->guest[i];
    if (page != NULL) fun(theap, page, page->size_class, mi_list_returned(page), arg);
  }
}

static void mi_usage_subtract(const mi_theap_t* theap, mi_page_t* page, size_t c, size_t count,
                              void* arg) {
  (void)theap, (void)page;
  mi_usage_t* const usage = (mi_usage_t*)arg;
  usage->class_blocks[c] -= mi_bits_min(count, usage->class_blocks[c]); // USAGE-2
  usage->class_handed[c] -= (int64_t)count; // HANDED-4
}

static void mi_usage_subtract_theap(const mi_theap_t* theap, void* arg) {
  mi_usage_t* const usage = (mi_usage_t*)arg;
  mi_usage_each_list(theap, &mi_usage_subtract, usage);
  for (size_t c = 0; c < MI_CLASS_COUNT; c++) usage->class_handed[c] -= theap->room[c];
}

// True if the pages of a theap are among those of the heap, or sub-process.
static bool mi_usage_is_of(const mi_theap_t* theap, const mi_subproc_t* subproc,
                           const mi_heap_t* heap) {
  const mi_heap_t* const of = mi_theap_heap(theap);
  return of != MI_HEAP_GONE && (heap != NULL ? of == heap : of->subproc == subproc);
}

// Under the lock, because a thread that ends a heap first tells the theaps under it.
MI_INTERNAL void mi_usage_each_theap(mi_subproc_t* subproc, mi_heap_t* heap,
                                     mi_usage_theap_fun* fun, void* arg) {
  mi_lock_expect(&mi_state.thread_lock);
  for (const mi_theap_t* theap = mi_state.orphans; theap != NULL; theap = theap->orphan_next) {
    if (theap->page_count > 0 && mi_usage_is_of(theap, subproc, heap)) fun(theap, arg);
  }
  const mi_theap_t* const home = mi_self_home();
  if (home->thread_id != 0 && mi_usage_is_of(home, subproc, heap)) fun(home, arg);
  for (size_t i = 0; i < home->others_count; i++) {
    const mi_theap_t* const other = home->others[i];
    if (other != NULL && mi_usage_is_of(other, subproc, heap)) fun(other, arg);
  }
}

// -- blocks that malloc ever returned: HANDED-4 --

static void mi_usage_add_theap(mi_theap_t* theap, void* arg) {
  mi_usage_t* const usage = (mi_usage_t*)arg;
  for (size_t c = 0; c < MI_CLASS_COUNT; c++) {
    usage->class_handed[c] += mi_atomic_load_relaxed(&theap->unsettled[c]);
  }
}

static void mi_usage_add_handed(mi_usage_t* usage, mi_subproc_t* subproc) {
  mi_heap_each_theap_of(subproc, NULL, &mi_usage_add_theap, usage);
  for (size_t c = 0; c < MI_CLASS_COUNT; c++) {
    usage->class_handed[c] += mi_atomic_load_relaxed(&subproc->count.of_class[c].handed);
  }
}

MI_INTERNAL void mi_usage_measure(mi_subproc_t* subproc, mi_heap_t* heap, mi_usage_t* usage) {
  *usage = (mi_usage_t){0};
  mi_parcel_flush();
  mi_walk_pages(subproc, heap, &mi_usage_visit, usage);
  mi_lock_enter(&mi_state.thread_lock);
  mi_usage_each_theap(subproc, heap, &mi_usage_subtract_theap, usage);
  if (heap == NULL) mi_usage_add_handed(usage, subproc);
  mi_lock_leave(&mi_state.thread_lock);
  for (size_t c = 0; c < MI_CLASS_COUNT; c++) {
    usage->in_use_blocks += usage->class_blocks[c];
    usage->in_use += usage->class_blocks[c] * mi_class_size(c);
  }
}

// -- our own structures --

// Return the OS pages of the descriptors of an arena that were ever written. (Marks of a secure
// build count as charged: CHARGE-4.)
static size_t mi_usage_descriptors(const mi_arena_t* arena) {
  return mi_charge_round(mi_atomic_load_relaxed(&arena->used_end) << MI_PAGE_SHIFT);
}

static size_t mi_usage_of_arenas(mi_subproc_t* subproc) {
  size_t bytes = 0;
  MI_FOR_EACH_ARENA(subproc, arena) { bytes += mi_usage_descriptors(arena); }
  return bytes;
}

MI_INTERNAL void mi_usage_metadata(mi_metadata_t* metadata) {
  size_t bytes = 0;
  size_t sequence = SIZE_MAX;
  mi_subproc_t* subproc;
  while ((subproc = mi_subproc_before(&sequence)) != NULL) bytes += mi_usage_of_arenas(subproc);
  mi_lock_enter(&mi_state.arena_lock);
  const mi_arena_t* arena = mi_state.arenas_free;
  for (; arena != NULL; arena = mi_atomic_load_relaxed(&arena->next)) {
    bytes += mi_usage_descriptors(arena);
  }
  mi_lock_leave(&mi_state.arena_lock);
  const mi_counters_t* const count = &mi_state.main.count;
  metadata->current = mi_atomic_load_relaxed(&count->meta_charged) + (int64_t)bytes;
  metadata->peak = mi_atomic_load_relaxed(&count->meta_charged_peak) + (int64_t)bytes;
}
