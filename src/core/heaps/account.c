// SPDX-License-Identifier: MIT
// account.c - adds up where the memory of the process is, for `mi_explain`.
//
//   arenas, run by run --.-> resident bytes of a page --> in use, or free --> all; by class, heap
//   books outside them --'                                                    and thread
//                        '-> resident bytes of no page --> kept
//
// ACCOUNT-1  parts add up. Of a page, in use is the smaller of the bytes of its blocks in use and
//     of its resident bytes; the rest of these is free. What is resident of an arena and in no page
//     is kept, be it free, or on its way from one thread to another.
// ACCOUNT-2  which blocks are in use is known as well as for statistics (USAGE-1), and pages change
//     meanwhile (USAGE-2): sums of different moments may contradict each other a little.
// ACCOUNT-3  the system says which OS pages are resident. Where it does not, or where an OS page is
//     longer than a slice, it is what the system charges for (CHARGE-1). If more is resident of us
//     than the process has, the page of zeros is among it (Linux before 6.7): then only pages count
//     that no other process has, which is wrong as long as processes share memory after a fork.
// ACCOUNT-4  nothing is allocated from a heap, so that no figure changes by that: the rows of heaps
//     and threads, of which there may be many, are in a mapping of their own. Where the system
//     refuses that, those without a row are added up together.
#include "account.h"

#include "heap.h"
#include "subproc.h"
#include "walk.h"

// -- Rows --

#define MI_ACCOUNT_ROWS_FIRST ((size_t)256)

static size_t mi_account_rows_size(size_t capacity) {
  return mi_bits_align_up(capacity * sizeof(mi_account_row_t), mi_state.os.page_size);
}

// Return the row of a key, or the vacant one for it.
static mi_account_row_t* mi_account_find(const mi_account_rows_t* rows, uintptr_t key) {
  const uint64_t hash = (uint64_t)key * UINT64_C(0x9E3779B97F4A7C15);
  size_t i = (size_t)(hash >> 32);
  for (;; i++) {
    mi_account_row_t* const row = &rows->row[i & (rows->capacity - 1)];
    if (row->key == key || row->key == 0) return row;
  }
}

// Have twice as many rows. False if the system refuses.
static bool mi_account_grow(mi_account_rows_t* rows) {
  mi_account_rows_t more = *rows;
  more.capacity = rows->capacity > 0 ? rows->capacity * 2 : MI_ACCOUNT_ROWS_FIRST;
  more.row = (mi_account_row_t*)mi_os_map(NULL, mi_account_rows_size(more.capacity),
                                          mi_state.os.page_size, MI_OS_READ_WRITE);
  if (more.row == NULL) return false;
  for (size_t i = 0; i < rows->capacity; i++) {
    if (rows->row[i].key != 0) *mi_account_find(&more, rows->row[i].key) = rows->row[i];
  }
  if (rows->row != NULL) mi_os_unmap(rows->row, mi_account_rows_size(rows->capacity));
  *rows = more;
  return true;
}

// Return the sum for a key, which is not 0.
static mi_account_sum_t* mi_account_row(mi_account_rows_t* rows, uintptr_t key) {
  if (rows->used * 2 >= rows->capacity) mi_account_grow(rows);
  if (rows->capacity == 0) return &rows->others;
  mi_account_row_t* const row = mi_account_find(rows, key);
  if (row->key == 0) {
    if (rows->used + 1 == rows->capacity) return &rows->others; // a vacant row ends each search
    row->key = key;
    rows->used++;
  }
  return &row->sum;
}

static bool mi_account_is_before(const mi_account_row_t* a, const mi_account_row_t* b) {
  return a->sum.resident != b->sum.resident ? a->sum.resident > b->sum.resident : a->key < b->key;
}

MI_INTERNAL const mi_account_row_t* mi_account_next(const mi_account_rows_t* rows,
                                                    const mi_account_row_t* last) {
  const mi_account_row_t* next = NULL;
  for (size_t i = 0; i < rows->capacity; i++) {
    const mi_account_row_t* const row = &rows->row[i];
    if (row->key == 0 || (last != NULL && !mi_account_is_before(last, row))) continue;
    if (next == NULL || mi_account_is_before(row, next)) next = row;
  }
  return next;
}

// -- What is resident --

// Return the bytes of those OS pages that count.
static size_t mi_account_count(const uint8_t* pages, size_t count, mi_os_page_state_t counts) {
  size_t found = 0;
  for (size_t i = 0; i < count; i++) found += (pages[i] & counts) != 0 ? 1 : 0;
  return found * mi_state.os.page_size;
}

// Ask the system about the slices of the view. False if it does not tell: ACCOUNT-3.
static bool mi_account_ask(mi_account_view_t* view) {
  const size_t page_size = mi_state.os.page_size;
  uint8_t pages[MI_ACCOUNT_VIEW * MI_SLICE_SIZE / 4096];
  const size_t count = view->end - view->first;
  const size_t per_slice = MI_SLICE_SIZE / page_size;
  if (per_slice == 0 || count * per_slice > sizeof(pages)) return false;
  const uint8_t* const start = view->arena->start + view->first * MI_SLICE_SIZE;
  if (mi_os_resident_pages(start, count * MI_SLICE_SIZE, pages) != 0) return false;
  for (size_t i = 0; i < count; i++) {
    view->bytes[i] = (uint32_t)mi_account_count(pages + i * per_slice, per_slice, view->counts);
  }
  return true;
}

MI_INTERNAL size_t mi_account_resident(mi_account_view_t* view, size_t slice_index) {
  if (slice_index < view->first || slice_index >= view->end) {
    const size_t last = mi_bits_min(slice_index + MI_ACCOUNT_VIEW, mi_arena_slices(view->arena));
    view->first = slice_index;
    view->end = last;
    if (view->is_known) view->is_known = mi_account_ask(view);
    for (size_t i = slice_index; i < last && !view->is_known; i++) {
      view->bytes[i - slice_index] = (uint32_t)mi_charge_in_slice(view->arena, i);
    }
  }
  return view->bytes[slice_index - view->first];
}

// Return how many bytes of a page outside arenas are resident; all of them if that is not known.
static size_t mi_account_resident_outside(mi_account_t* account, const uint8_t* start,
                                          size_t size) {
  const size_t page_size = mi_state.os.page_size;
  uint8_t pages[1024];
  size_t bytes = 0;
  for (size_t at = 0; at < size; at += sizeof(pages) * page_size) {
    const size_t part = mi_bits_min(size - at, sizeof(pages) * page_size);
    if (mi_os_resident_pages(start + at, part, pages) != 0) {
      account->is_resident_known = false;
      return size;
    }
    bytes += mi_account_count(pages, part / page_size, account->counts);
  }
  return bytes;
}

// -- Pages --

// What a page has, if it has not ended meanwhile.
static mi_attr_racy mi_usage_page_t mi_account_usage(mi_page_t* page) {
  mi_usage_page_t usage = mi_usage_of_page(page);
  if (usage.size_class == MI_CLASS_COUNT) {
    const size_t shift = mi_atomic_peek(&page->shift);
    usage.block_size -= mi_bits_min(shift, usage.block_size);
    const mi_guarded_t* const guarded = mi_atomic_peek(&page->guarded);
    // Its memory is kept for a while.
    if (guarded != NULL && mi_atomic_load_relaxed(&guarded->record.state) == MI_GUARD_FREED) {
      usage.used = 0;
    }
  }
  return usage;
}

static mi_attr_racy size_t mi_account_kind(mi_page_t* page, const mi_usage_page_t* usage) {
  if (usage->size_class < MI_CLASS_COUNT) return usage->size_class;
  if (mi_atomic_peek(&page->guarded) != NULL) return MI_CLASS_COUNT + MI_ACCOUNT_GUARDED;
  return MI_CLASS_COUNT +
         (mi_atomic_peek(&page->sampled) != NULL ? MI_ACCOUNT_SAMPLE : MI_ACCOUNT_OWN);
}

static mi_attr_racy size_t mi_account_slices(mi_page_t* page, size_t most) {
  const size_t count = mi_atomic_peek(&page->slice_count);
  return mi_bits_max(mi_bits_min(count, most), 1);
}

static uintptr_t mi_account_thread(mi_page_t* page) {
  const uintptr_t owner = mi_atomic_load_relaxed(&page->owner);
  if (owner > MI_OWNER_MAX_SPECIAL) return owner & ~MI_OWNER_FLAGS;
  return owner == MI_OWNER_SINGLE ? owner : MI_OWNER_SHARED;
}

static void mi_account_add(mi_account_sum_t* sum, const mi_account_sum_t* more) {
  sum->pages += more->pages;
  sum->blocks += more->blocks;
  sum->carved += more->carved;
  sum->bytes += more->bytes;
  sum->resident += more->resident;
  sum->in_use += more->in_use;
}

// Add a page to all sums that it belongs to.
static void mi_account_add_page(mi_account_t* account, const mi_account_run_t* run) {
  const mi_usage_page_t* const usage = &run->usage;
  const mi_account_sum_t own = {.pages = 1,
                                .blocks = usage->used,
                                .carved = usage->carved,
                                .bytes = usage->used * usage->block_size,
                                .resident = run->resident,
                                .in_use = run->in_use};
  const uintptr_t heap = (uintptr_t)mi_atomic_load_relaxed(&run->page->heap);
  mi_account_add(&account->all, &own);
  mi_account_add(&account->of_class[mi_account_kind(run->page, usage)], &own);
  mi_account_add(mi_account_row(&account->threads, mi_account_thread(run->page)), &own);
  if (heap != 0) mi_account_add(mi_account_row(&account->heaps, heap), &own);
  if (usage->used == 0) account->empty += run->resident;
}

// -- Arenas, and what is outside --

static void mi_account_measure(mi_account_run_t* run) {
  run->usage = mi_account_usage(run->page);
  run->in_use = mi_bits_min(run->usage.used * run->usage.block_size, run->resident);
}

MI_INTERNAL bool mi_account_each_run(const mi_arena_t* arena, mi_os_page_state_t counts,
                                     mi_account_run_fun* fun, void* arg) {
  mi_account_view_t view = {.arena = arena, .counts = counts, .is_known = true};
  const size_t end = mi_arena_slices(arena);
  mi_account_run_t run = {0};
  for (; run.first < end; run.first += run.count) {
    mi_page_t* const page = mi_pagemap_slice(arena->start + run.first * MI_SLICE_SIZE);
    const uintptr_t owner = mi_atomic_load_relaxed(&page->owner);
    const bool is_page = owner != MI_OWNER_NONE && owner != MI_OWNER_INTERIOR;
    run.page = is_page ? page : NULL;
    run.count = is_page ? mi_account_slices(page, end - run.first) : 1;
    run.resident = run.in_use = 0;
    for (size_t i = 0; i < run.count; i++) {
      run.resident += mi_account_resident(&view, run.first + i);
    }
    if (is_page) mi_account_measure(&run);
    fun(&view, &run, arg);
  }
  return view.is_known;
}

static void mi_account_visit_run(mi_account_view_t* view, const mi_account_run_t* run, void* arg) {
  mi_account_t* const account = (mi_account_t*)arg;
  if (run->page != NULL) {
    mi_account_add_page(account, run);
    return;
  }
  account->kept += run->resident;
  if (view->arena->is_pinned || view->arena->is_foreign) account->kept_for_ever += run->resident;
}

static mi_attr_racy bool mi_account_visit_outside(mi_page_t* page, void* arg) {
  mi_account_t* const account = (mi_account_t*)arg;
  mi_account_run_t run = {.count = mi_account_slices(page, SIZE_MAX), .page = page};
  run.resident =
      mi_account_resident_outside(account, mi_atomic_peek(&page->start), run.count * MI_SLICE_SIZE);
  mi_account_measure(&run);
  mi_account_add_page(account, &run);
  account->outside += run.resident;
  account->outside_pages++;
  return true;
}

// -- Free blocks that count as used --

static void mi_account_subtract_from(mi_account_sum_t* sum, size_t count, size_t size) {
  const size_t blocks = mi_bits_min(count, sum->blocks);
  sum->blocks -= blocks;
  sum->bytes -= mi_bits_min(blocks * size, sum->bytes);
  sum->in_use -= mi_bits_min(blocks * size, sum->in_use);
}

static void mi_account_subtract(const mi_theap_t* theap, mi_page_t* page, size_t c, size_t count,
                                void* arg) {
  mi_account_t* const account = (mi_account_t*)arg;
  if (count == 0) return;
  const size_t size = mi_class_size(c);
  mi_account_subtract_from(&account->all, count, size);
  mi_account_subtract_from(&account->of_class[c], count, size);
  const uintptr_t thread = page != NULL ? mi_account_thread(page) : MI_OWNER_SHARED;
  mi_account_subtract_from(mi_account_row(&account->threads, thread), count, size);
  const uintptr_t heap = (uintptr_t)mi_theap_heap(theap);
  mi_account_subtract_from(mi_account_row(&account->heaps, heap), count, size);
}

static void mi_account_subtract_theap(const mi_theap_t* theap, void* arg) {
  mi_usage_each_list(theap, &mi_account_subtract, arg);
}

// -- All --

static void mi_account_add_subproc(mi_account_t* account, mi_subproc_t* subproc) {
  mi_usage_t usage;
  mi_usage_measure(subproc, NULL, &usage);
  for (size_t c = 0; c < MI_CLASS_COUNT; c++) account->handed[c] += usage.class_handed[c];
  MI_FOR_EACH_ARENA(subproc, arena) {
    if (!mi_account_each_run(arena, account->counts, &mi_account_visit_run, account)) {
      account->is_resident_known = false;
    }
    account->marks += mi_charge_in_marks(arena);
  }
  mi_walk_book(&subproc->direct, NULL, &mi_account_visit_outside, account);
  mi_lock_enter(&mi_state.thread_lock);
  mi_usage_each_theap(subproc, NULL, &mi_account_subtract_theap, account);
  mi_lock_leave(&mi_state.thread_lock);
}

static void mi_account_rows_done(mi_account_rows_t* rows) {
  if (rows->row != NULL) mi_os_unmap(rows->row, mi_account_rows_size(rows->capacity));
}

MI_INTERNAL void mi_account_done(mi_account_t* account) {
  mi_account_rows_done(&account->heaps);
  mi_account_rows_done(&account->threads);
}

MI_INTERNAL size_t mi_account_ours(const mi_account_t* account) {
  return account->all.resident + account->kept + account->metadata + account->marks;
}

static void mi_account_add_all(mi_account_t* account, mi_os_page_state_t counts) {
  *account = (mi_account_t){.is_resident_known = true, .counts = counts};
  size_t sequence = SIZE_MAX;
  mi_subproc_t* subproc;
  while ((subproc = mi_subproc_before(&sequence)) != NULL) mi_account_add_subproc(account, subproc);
  mi_metadata_t own;
  mi_usage_metadata(&own);
  account->metadata = (size_t)own.current;
  mi_os_resident_sum(&account->process);
}

MI_INTERNAL void mi_account_make(mi_account_t* account) {
  mi_account_add_all(account, MI_OS_RESIDENT);
  const uint64_t anonymous = account->process.anonymous;
  // Other threads free memory meanwhile, too.
  if (anonymous == 0 || mi_account_ours(account) <= anonymous + anonymous / 64) return;
  mi_account_done(account);
  mi_account_add_all(account, MI_OS_RESIDENT_OWN);
}
