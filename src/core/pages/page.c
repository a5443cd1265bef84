// SPDX-License-Identifier: MIT
// page.c - a page: a run of slices cut into blocks of one size.
//
//   | carved: in use, in `local_free`, in a theap's list or on its way | untouched |
//   start                                                     capacity            reserved
//
// PAGE-1  blocks past `capacity` have not been touched since the page was made; zero when
//     `is_zero`.
// PAGE-2  every slice of the page has a descriptor: the first one's is the page, the others forward
//     to it.
//
// LIFE-1 and LIFE-2 are in life.c. Only the owner calls into this file. Not here: who owns a page
// (life.c, remote.c), which page to pick (refill.c), when slices go back (retain.c).
#include "page.h"

#include "list.h"
#include "track.h"

// Give the old contents of the run back if they would count, unless at most its first OS page is
// resident.
static void mi_page_clean_run(const mi_page_plan_t* plan, mi_run_t* run) {
  uint8_t* const start = run->start;
  if (!run->is_zero && run->slice_count == 1 && mi_pagemap_slice(start)->is_lean) {
    run->is_resident = false;
  } else if (run->is_resident && plan->is_sparse && run->arena != NULL &&
             mi_arena_is_ours(run->arena)) {
    mi_collapse_split(run->arena, run->slice_index, run->slice_count);
    if (mi_os_purge(start, run->slice_count * MI_SLICE_SIZE) != 0) return;
    mi_charge_drop(run->arena, start, run->slice_count * MI_SLICE_SIZE);
    run->is_resident = false;
    run->is_zero = true;
  }
}

// True if an OS page behind the blocks may be made inaccessible: FENCE-4.
static bool mi_page_may_have_fence(const mi_run_t* run) {
  return MI_PAGE_FENCE_SIZE != 0 && mi_state.os.page_size <= MI_PAGE_FENCE_SIZE &&
         (run->arena == NULL || mi_arena_is_mapped_by_us(run->arena));
}

static mi_interior_t mi_page_interior(size_t slice_count, size_t block_count) {
  return (mi_interior_t){1, mi_page_described(slice_count, block_count)};
}

// Count the pages of a class that there are, and the most there were.
static void mi_page_count_there(mi_class_count_t* those, int32_t pages) {
  if (mi_os_is_single_threaded()) { // no locked instruction
    const int32_t now = mi_atomic_load_relaxed(&those->there) + pages;
    mi_atomic_store_relaxed(&those->there, now);
    if (now > mi_atomic_load_relaxed(&those->most)) mi_atomic_store_relaxed(&those->most, now);
    return;
  }
  const int32_t now = mi_atomic_add_relaxed(&those->there, pages) + pages;
  int32_t seen = mi_atomic_load_relaxed(&those->most);
  while (now > seen && !mi_atomic_cas_weak_relaxed(&those->most, &seen, now)) {
  }
}

static void mi_page_count(mi_heap_t* heap, size_t size_class, int32_t pages) {
  mi_counters_t* const count = &heap->subproc->count;
  mi_count_add_peak(&count->pages, &count->pages_peak, pages);
  mi_tally_add(&heap->tally, MI_TALLY_PAGES, pages);
  mi_class_count_t* const those = &count->of_class[size_class];
  mi_page_count_there(those, pages);
  if (pages < 0) return;
  mi_tally_add(&heap->tally, MI_TALLY_PAGES_TOTAL, pages);
  mi_count_add(&those->made, pages);
}

// Reset the descriptors of the page to those of no page. This happens before the page leaves its
// book, or while it is not in one: the child of a fork takes the pages of vanished threads, and
// those must be in their book (FORK-2).
static void mi_page_clear(mi_heap_t* heap, mi_page_t* page) {
  mi_assert_page(page, page->place == MI_PLACE_NONE && mi_part_is_empty(page));
  mi_assert_page(page, (mi_atomic_load_relaxed(&page->thread_free) & ~MI_REMOTE_OWNED) == 0);
  const size_t slice_count = page->slice_count;
  page->is_lean = slice_count == 1 && !page->is_resident &&
                  mi_page_capacity(page) * page->block_size <= mi_state.os.page_size;
  mi_part_forget(heap->subproc, page);
  mi_life_close(page);
  mi_life_undescribe(page, mi_page_interior(slice_count, page->reserved));
}

// Return what is known of the memory of a page of such blocks: HUGE-2.
static size_t mi_page_touched(size_t block_size) {
  if (block_size > MI_HUGE_BLOCK_MAX) return 0;
  return MI_TOUCHED_BY_BLOCKS - (block_size > mi_state.os.page_size); // or MI_TOUCHED_BY_LONG
}

MI_INTERNAL mi_page_t* mi_page_make(mi_heap_t* heap, const mi_page_plan_t* plan) {
  const size_t size_class = plan->size_class;
  const size_t slice_count = plan->slice_count;
  const size_t block_size = mi_class_size(size_class);
  const size_t block_count = mi_class_blocks(block_size, slice_count);
  const mi_interior_t interior = mi_page_interior(slice_count, block_count);
  const mi_run_wish_t wish = {slice_count, MI_SLICE_SIZE, mi_page_touched(block_size), interior.end,
                              plan->is_below_peak};
  mi_run_t run;
  if (!mi_run_claim(heap, &wish, &run)) return NULL;
  if (!mi_mark_begin(run.start, slice_count * MI_SLICE_SIZE, run.is_zero)) {
    mi_run_release(heap, run.arena, run.start, slice_count, MI_SLICE_SIZE);
    return NULL;
  }
  mi_page_clean_run(plan, &run);
  mi_page_t* const page = mi_life_describe(run.start, slice_count, interior);
  page->count = (mi_page_count_t){0};
  page->refilled = (mi_page_refilled_t){.used = 1};
  page->reserved = (uint32_t)block_count;
  page->block_size = block_size;
  page->size_class = (uint8_t)size_class;
  page->is_zero = run.is_zero;
  page->is_resident = run.is_resident;
  page->has_tail = false;
  page->is_likely_full = plan->is_likely_full;
  page->backing = mi_run_backing(&run);
  page->sparse_at = mi_part_sparse_at(page);
  // Publishes the const fields of the heap and those above; pairs with the acquire in
  // `mi_walk_arenas`.
  mi_atomic_store_release(&page->heap, heap);
  mi_life_open(page);
  if (!mi_run_enlist(heap, page)) {
    mi_page_clear(heap, page);
    mi_run_release(heap, run.arena, run.start, slice_count, MI_SLICE_SIZE);
    return NULL;
  }
  mi_page_count(heap, size_class, 1);
  if (run.is_resident && run.arena != NULL) mi_tail_note(run.arena, page);
  if (mi_page_may_have_fence(&run)) mi_fence_raise(page);
  mi_probe2(page_make, run.start, block_size);
  return page;
}

// End the marks of a page that nobody owns. The child of a fork walks the lists of pages that
// vanished threads own, and would take blocks with half of these marks for damaged ones.
static void mi_page_end_marks(const mi_page_t* page) {
  mi_atomic_signal_fence(); // behind the word of the page
  mi_mark_end(page);
}

MI_INTERNAL void mi_page_release(mi_heap_t* heap, mi_page_t* page) {
  if (mi_unlikely(!mi_page_is_sound(page))) {
    mi_report_block(MI_ERROR_CORRUPT_PAGE, page, page->start, NULL);
    return; // its slices are leaked: the descriptor does not tell which they are
  }
  const uint32_t used = mi_mark_count(page);
  if (mi_unlikely(used > 0)) { // MARK-4
    page->count.used = used;
    mi_report_block(MI_ERROR_DOUBLE_FREE, page, page->start, NULL);
    return; // the page is leaked
  }
  mi_probe2(page_release, page->start, page->block_size);
  mi_handed_settle_page(heap->subproc, page);
  mi_track_drop(page);
  mi_page_clear(heap, page);
  mi_page_end_marks(page);
  mi_run_delist(heap, page);
  mi_page_count(heap, page->size_class, -1);
  mi_arena_t* const arena = mi_run_arena(heap, (mi_page_backing_t)page->backing, page->start);
  if (arena == NULL) {
    const size_t carved = mi_page_capacity(page) * page->block_size;
    mi_charge_less(heap->subproc, mi_charge_round(carved));
  }
  if (mi_likely(!page->has_tail || mi_tail_forget(arena, page))) {
    mi_run_release(heap, arena, page->start, page->slice_count, MI_SLICE_SIZE);
  }
  if (mi_retain_bound(heap->subproc)) mi_self_hurry();
}

MI_INTERNAL void mi_page_destroy(mi_heap_t* heap, mi_page_t* page) {
  mi_handed_add(page, -(int32_t)mi_list_returned(page));
  mi_life_displace(page);
  mi_life_close(page);
  mi_page_end_marks(page);
  mi_part_forget(heap->subproc, page);
  page->count = (mi_page_count_t){0};
  mi_life_open(page);
  mi_page_release(heap, page);
}

// Blocks of MI_ORDER_FREE bytes and more come in any order, each being as likely as any other.
#define MI_ORDER_FREE ((size_t)512)

#if MI_IS_SHUFFLED

// Smaller blocks come from so many rows, of which each is in the order of addresses.
#define MI_ORDER_ROWS 8
#define MI_ORDER_ROWS_MAX 128

// Link `count` blocks in a random order, and return the first.
//
// They are parted into rows, and a row is chosen at random for each block of the list. A program
// that walks along what it allocated then reads each OS page upwards, which processors foresee. (A
// tree of small nodes, built and walked by xmllint, takes 1.16 of the time of one in the order of
// addresses, 1.22 with sixteen rows, and more where each order is as likely as any other.)
static mi_block_t* mi_page_link(uint8_t* first, size_t block_size, size_t count) {
  mi_random_t random = mi_secret_random();
  struct {
    uint32_t next, end;
  } row[MI_ORDER_ROWS_MAX];
  size_t rows = mi_bits_min(count, block_size < MI_ORDER_FREE ? MI_ORDER_ROWS : MI_ORDER_ROWS_MAX);
  for (size_t k = 0; k < rows; k++) {
    row[k].next = (uint32_t)(count * k / rows);
    row[k].end = (uint32_t)(count * (k + 1) / rows);
  }
  mi_block_t* head = NULL;
  mi_block_t* last = NULL;
  while (rows > 0) {
    const size_t k = mi_random_below(&random, (uint32_t)rows);
    mi_block_t* const block = (mi_block_t*)(first + row[k].next * block_size);
    mi_block_join(&head, last, block);
    last = block;
    if (++row[k].next == row[k].end) row[k] = row[--rows];
  }
  mi_block_set_next(last, NULL);
  return head;
}

#else

static mi_block_t* mi_page_link(uint8_t* first, size_t block_size, size_t count) {
  (void)block_size, (void)count;
  return (mi_block_t*)first;
}

#endif

// Return how many bytes of a page are carved at once. The carved part doubles, between the rest of
// the first OS page and a bound: a class that is hardly used touches little memory, a busy one
// comes here seldom. More blocks come in random order at once where memory is resident anyway; and
// small ones where it will be soon: each row then is in OS pages of its own (xmllint takes 0.93 of
// the time).
static size_t mi_page_step(const mi_page_t* page, size_t carved_bytes) {
  const bool is_whole =
      page->is_resident || (page->is_likely_full && page->block_size < MI_ORDER_FREE);
  if (MI_IS_SHUFFLED && is_whole) return MI_SLICE_SIZE;
  return mi_bits_min(mi_bits_max(carved_bytes, mi_bits_min(4096, MI_CARVE_MAX_BYTES)),
                     MI_CARVE_MAX_BYTES);
}

MI_INTERNAL mi_block_t* mi_page_carve_at(mi_page_t* page, size_t index, size_t count) {
  const size_t block_size = page->block_size;
  uint8_t* const first = page->start + index * block_size;
  uint8_t* p = first;
  for (size_t i = 1; i < count; i++) {
    if (!MI_IS_SHUFFLED) mi_block_set_next((mi_block_t*)p, (mi_block_t*)(p + block_size));
    mi_track_carve(page, p);
    mi_mark_carve(p, page->size_class);
    p += block_size;
  }
  if (!MI_IS_SHUFFLED) mi_block_set_next((mi_block_t*)p, NULL);
  mi_track_carve(page, p);
  mi_mark_carve(p, page->size_class);
  return mi_page_link(first, block_size, count);
}

MI_INTERNAL mi_block_t* mi_page_carve(mi_page_t* page, uint32_t* carved) {
  const size_t left = page->reserved - mi_page_capacity(page);
  if (left == 0) return NULL;
  const size_t index = mi_page_capacity(page);
  const size_t block_size = page->block_size;
  const size_t step = mi_page_step(page, index * block_size);
  const size_t count = mi_bits_min(mi_bits_max(step / block_size, 1), left);
  // The links write to every OS page.
  if (!page->is_resident && block_size <= mi_state.os.page_size) {
    mi_huge_touch(page->start + index * block_size, count * block_size);
  }
  mi_block_t* const list = mi_page_carve_at(page, index, count);
  page->refilled.used += (uint32_t)count;
  page->count.used += (uint32_t)count;
  page->count.is_fresh_list = page->is_zero;
  *carved = (uint32_t)count;
  return list;
}

MI_INTERNAL void mi_page_charge(mi_subproc_t* subproc, const mi_page_t* page, size_t index,
                                size_t count) {
  const size_t from = index * page->block_size;
  const size_t to = from + count * page->block_size;
  mi_arena_t* const arena = mi_arena_of(subproc, page->start);
  if (arena == NULL) {
    mi_charge_more(subproc, mi_charge_round(to) - mi_charge_round(from));
    return;
  }
  mi_charge_add(arena, page->start + from, to - from);
  mi_charge_marks(arena, page->start + from, to - from);
}

MI_INTERNAL uint32_t mi_page_measure(mi_page_t* page, mi_block_t** list, mi_block_t** last) {
  mi_list_t at = mi_list_of(page, *list);
  mi_block_t* end = NULL;
  for (; mi_list_has(&at); mi_list_step(&at)) end = at.block;
  *last = end;
  if (mi_likely(at.block == NULL)) return at.count;
  mi_report_block(MI_ERROR_CORRUPT_LIST, page, end == NULL ? page->start : (void*)end, at.block);
  mi_block_join(list, end, NULL);
  return mi_list_length(page, *list); // in a loop the walk counted some blocks more than once
}

MI_INTERNAL mi_attr_cold void mi_page_cut_head(mi_page_t* page, mi_block_t** list) {
  mi_block_t* const head = *list;
  if (!mi_page_has_block(page, head)) {
    mi_report_block(MI_ERROR_CORRUPT_LIST, page, page->start, head);
    *list = NULL;
    return;
  }
  mi_block_t* const next = mi_block_next(head);
  // The newest block was freed twice in a row, or written to.
  const mi_error_kind_t kind = next == head ? MI_ERROR_DOUBLE_FREE : MI_ERROR_CORRUPT_LIST;
  mi_block_set_next(head, NULL);
  mi_report_block(kind, page, head, next);
}

MI_INTERNAL bool mi_page_check(mi_page_t* page) {
  const bool is_cut = page->local_free != NULL && !mi_page_is_head_sound(page, page->local_free);
  if (is_cut) mi_page_cut_head(page, &page->local_free);
  mi_block_t* last;
  const uint32_t local = mi_page_measure(page, &page->local_free, &last);
  const uint32_t used = page->count.used + page->bias;
  mi_life_recount(page, local);
  if (page->count.used + page->bias == used) return true;
  // More frees were counted than there are blocks. It is not known which block was freed twice.
  if (!is_cut) mi_report_block(MI_ERROR_DOUBLE_FREE, page, page->local_free, NULL);
  return false;
}

MI_INTERNAL void mi_page_collect(mi_page_t* page) {
  mi_block_t* list = mi_remote_take(page);
  mi_block_t* last;
  const uint32_t count = mi_page_measure(page, &list, &last);
  if (count == 0) return;
  mi_block_set_next(last, page->local_free);
  page->local_free = list;
  mi_assert_page(page, page->count.used + page->bias >= count);
  mi_life_uncount(page, count);
  mi_handed_add(page, -(int32_t)count);
}

// True if LIFE-2 holds, as far as the page and its theap show; of a queue only the ends are
// checked.
static bool mi_page_is_in_place(const mi_page_t* page) {
  if (page->place == MI_PLACE_CURRENT) return page->theap->current[page->size_class] == page;
  const bool is_linked = page->next != NULL || page->prev != NULL;
  if (page->place != MI_PLACE_QUEUE) return !is_linked;
  const mi_page_queue_t* const queue = &page->theap->queue[page->size_class];
  const mi_page_t* const before = page->prev != NULL ? page->prev : queue->last;
  if (before == NULL || before->next != page || page->next == NULL) return false;
  return page == queue->last || page->next->prev == page;
}

// True if PAGE-2 holds.
static bool mi_page_is_described(const mi_page_t* page) {
  const size_t described = mi_page_described(page->slice_count, page->reserved);
  for (size_t i = 1; i < described; i++) {
    mi_page_t* const interior = mi_pagemap_slice(page->start + i * MI_SLICE_SIZE);
    if (mi_atomic_load_relaxed(&interior->owner) != MI_OWNER_INTERIOR) return false;
    if (interior->first != page) return false;
  }
  return mi_page_is_sound(page);
}

// True if LIFE-1 holds for a page with so many blocks in `local_free`.
static bool mi_page_is_counted(const mi_page_t* page, size_t free_count) {
  const size_t current = page->place == MI_PLACE_CURRENT ? 1 : 0;
  const size_t missing = mi_part_missing(page);
  return page->count.used + page->bias + free_count == mi_page_capacity(page) + current &&
         page->count.used + page->bias >= missing + current &&
         page->bias >= missing * (page->place == MI_PLACE_QUEUE) &&
         (page->place == MI_PLACE_QUEUE || page->bias == 0);
}

MI_INTERNAL bool mi_page_is_valid(mi_page_t* page) {
  mi_list_t at = mi_list_of(page, page->local_free);
  while (mi_list_has(&at)) mi_list_step(&at);
  return at.block == NULL && mi_page_is_counted(page, at.count) &&
         mi_page_capacity(page) <= page->reserved && mi_page_is_in_place(page) &&
         (page->sample_rest == NULL || page->place == MI_PLACE_CURRENT) && // SAMPLE-1
         mi_page_is_described(page);
}
