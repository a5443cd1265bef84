// SPDX-License-Identifier: MIT
// unit.c - see unit.h.
#if !defined(_GNU_SOURCE)
#define _GNU_SOURCE
#endif
#include "unit.h"

#include <stdlib.h>
#include <unistd.h>

#include "check.h"
#include "core/arenas/arena.h"
#include "core/arenas/bitmap.h"
#include "core/arenas/book.h"
#include "core/heaps/heap.h"
#include "core/pages/page.h"
#include "core/pages/pool.h"
#include "core/threads/portion.h"
#include "core/common/report.h"
#include "core/threads/theap.h"
#include "core/threads/refill.h"
#include "spawn.h"

// A test that hangs is ended.
#define UNIT_TIMEOUT_S 60

// -- running --

char unit_context[256];
static void (*unit_body)(void);
static size_t unit_page_size;
static size_t unit_reserve_size;

static void unit_child(void) {
  alarm(UNIT_TIMEOUT_S);
  os_fake_start(unit_page_size, unit_reserve_size);
  unit_body();
  if (mi_atomic_load_relaxed(&mi_state.stage) == MI_STAGE_READY) unit_check_valid();
}

static void unit_run_with(void (*body)(void), size_t page_size, size_t reserve_size) {
  static spawn_result_t result;
  unit_body = body;
  unit_page_size = page_size;
  unit_reserve_size = reserve_size;
  if (!spawn_fork(&unit_child, &result)) fail_msg("cannot fork");
  fputs(result.output, stdout);
  fflush(stdout);
  if (result.signal != 0) {
    fail_msg("page size %zu%s: ended by signal %d\n%s", page_size, unit_context, result.signal,
             result.output);
  } else if (result.exit_status != 0) {
    fail_msg("page size %zu%s: exit status %d\n%s", page_size, unit_context, result.exit_status,
             result.output);
  }
}

void unit_run(void (*body)(void), size_t reserve_size) { unit_run_with(body, 4096, reserve_size); }

void unit_run_page_sizes(void (*body)(void)) {
  for (size_t page_size = 4096; page_size <= 64 * MI_KIB && page_size <= MI_SLICE_SIZE;
       page_size *= 4) {
    unit_run_with(body, page_size, 0);
  }
}

_Noreturn void unit_fail(const char* file, int line, const char* text) {
  fflush(stdout);
  check_failed(file, line, text, "%s", "");
}

void unit_check_equal(const char* file, int line, const char* text, uint64_t a, uint64_t b) {
  if (a == b) return;
  fflush(stdout);
  check_failed(file, line, text, ": %llu and %llu", (unsigned long long)a, (unsigned long long)b);
}

// -- invariants --

// What a walk over all pages finds, to be compared with what theaps and pools know.
typedef struct unit_census_s {
  size_t owned; // pages of classes that somebody owns
  size_t pooled; // pages with the POOLED bit
  size_t lost; // slices that belong to nobody and are not free
  size_t spare; // those of them that are kept: SPARE-1, KEPT-1
} unit_census_t;

static bool unit_bit(mi_bitmap_word_t* map, size_t i) { return mi_bitmap_is_all_set(map, i, 1); }

static bool unit_is_listed(const mi_page_t* page, mi_book_t* book) {
  const mi_page_t* seen;
  for (uint32_t at = 0; (seen = mi_book_next(book, &at)) != NULL;) {
    if (seen == page) return at - 1 == page->book_index; // BOOK-3
  }
  return false;
}

// The page belongs to a heap that there is, and stands where it should (RUN-1).
static void unit_check_heap_of(mi_subproc_t* subproc, mi_page_t* page) {
  mi_heap_t* const of = mi_atomic_load_relaxed(&page->heap);
  mi_heap_t* heap = &subproc->heap_main;
  for (mi_heap_t* next = subproc->heaps; heap != of; next = next->next) {
    check(next != NULL);
    heap = next;
  }
  if (page->backing == MI_BACKING_DIRECT) {
    check(heap->arena == NULL && unit_is_listed(page, &subproc->direct));
  } else {
    const mi_arena_t* const arena = mi_arena_of(subproc, page->start);
    check(heap->is_main || unit_is_listed(page, &heap->book));
    // The main heap has what deleted heaps left in arenas of their own.
    const bool is_for_all = arena != NULL && (heap->is_main || !arena->is_exclusive);
    check(heap->arena == NULL ? is_for_all : heap->arena == arena);
  }
}

static void unit_check_class_page(mi_page_t* page, unit_census_t* census) {
  const uintptr_t word = mi_atomic_load_relaxed(&page->thread_free);
  check(page->size_class < MI_CLASS_COUNT);
  check(mi_page_is_valid(page));
  const size_t described = mi_page_described(page->slice_count, page->reserved);
  for (size_t i = described; i < page->slice_count; i++) {
    mi_page_t* const rest = mi_pagemap_slice(page->start + i * MI_SLICE_SIZE);
    check(mi_atomic_load_relaxed(&rest->owner) == MI_OWNER_NONE);
  }
  if ((word & MI_REMOTE_OWNED) == 0) check(word <= MI_REMOTE_BITS); // REMOTE-1
  if ((word & MI_REMOTE_OWNED) != 0) census->owned++;
  if ((word & MI_REMOTE_POOLED) != 0) census->pooled++;
  const size_t used = mi_page_capacity(page) * page->block_size;
  if (page->is_zero) { // PAGE-1
    check(unit_is_zero(page->start + used, page->reserved * page->block_size - used));
  }
}

// The slices of one page, or one slice in no page. Returns how many slices that were.
static size_t unit_check_slice(mi_arena_t* arena, size_t i, unit_census_t* census) {
  uint8_t* const start = arena->start + i * MI_SLICE_SIZE;
  mi_page_t* const page = mi_pagemap_slice(start);
  const uintptr_t owner = mi_atomic_load_relaxed(&page->owner);
  if (owner == MI_OWNER_NONE) {
    if (!unit_bit(arena->free, i)) { // ARENA-1
      census->lost++;
      return 1;
    }
    if (!unit_bit(arena->dirty, i) && os_fake_state(start) == OS_FAKE_COMMITTED &&
        os_fake_resident(start, MI_SLICE_SIZE) > 0) {
      check(unit_is_zero(start, MI_SLICE_SIZE)); // ARENA-2
    }
    if (arena->is_committed || unit_bit(arena->committed, i)) {
      check(os_fake_state(start) == OS_FAKE_COMMITTED);
    }
    return 1;
  }
  check(owner != MI_OWNER_INTERIOR && page->start == start && page->slice_count > 0);
  unit_check_heap_of(arena->subproc, page);
  for (size_t k = 0; k < page->slice_count; k++) {
    check(!unit_bit(arena->free, i + k));
    check(arena->is_committed || unit_bit(arena->committed, i + k));
  }
  if (mi_page_is_single(page)) {
    check(owner == MI_OWNER_SINGLE && page->block_size <= page->slice_count * MI_SLICE_SIZE);
  } else {
    unit_check_class_page(page, census);
  }
  return page->slice_count;
}

// Whether so many slices from `i` on are free, clean, and have nothing in them.
static bool unit_is_untouched(mi_arena_t* arena, size_t i, size_t count) {
  return i % count == 0 && i + count <= mi_arena_slices(arena) &&
         mi_bitmap_is_all_set(arena->free, i, count) &&
         mi_bitmap_is_all_clear(arena->dirty, i, count) &&
         os_fake_resident(arena->start + i * MI_SLICE_SIZE, count * MI_SLICE_SIZE) == 0;
}

static void unit_check_arena(mi_arena_t* arena, unit_census_t* census) {
  const size_t slice_count = mi_arena_slices(arena);
  size_t free_count = 0;
  for (size_t i = 0; i < slice_count; i += MI_WORD_BITS) {
    const size_t count = mi_bits_min(slice_count - i, MI_WORD_BITS);
    if (mi_bitmap_is_all_set(arena->free, i, count)) {
      free_count += count;
      continue;
    }
    for (size_t k = 0; k < count; k++) free_count += unit_bit(arena->free, i + k) ? 1 : 0;
  }
  check_equal(free_count, mi_atomic_load_relaxed(&arena->free_count));
  for (size_t i = 0; i < slice_count;) {
    const size_t many = 64 * MI_WORD_BITS; // of a large arena
    const size_t untouched = unit_is_untouched(arena, i, many)           ? many
                             : unit_is_untouched(arena, i, MI_WORD_BITS) ? MI_WORD_BITS
                                                                         : 0;
    i += untouched != 0 ? untouched : unit_check_slice(arena, i, census);
  }
}

// Blocks of portions belong to the heap, and count as used (PORTION-1).
static void unit_check_portions(const mi_theap_t* theap) {
  for (size_t c = 0; c < MI_CLASS_COUNT; c++) {
    check(mi_portion_is_valid(theap, c));
    for (mi_block_t* b = mi_portion_of(theap, c); b != NULL; b = b->next) {
      mi_page_t* const page = mi_pagemap_find(b);
      check(page != NULL && page->count.used > 0);
      check(mi_atomic_load_relaxed(&page->heap) == mi_theap_heap(theap));
    }
  }
}

// What a program that makes no mistakes leaves whole (THEAP-1).
static void unit_check_lists(mi_theap_t* theap) {
  for (size_t c = 0; c < MI_CLASS_COUNT; c++) {
    mi_page_t* const current = mi_theap_current(theap, c);
    if (current == NULL) continue;
    size_t listed = 0;
    for (mi_block_t* b = theap->free[c]; b != NULL; b = b->next) {
      check(mi_page_block_of(current, b) == b);
      check(++listed <= mi_page_capacity(current));
    }
  }
}

// Returns the number of pages it owns.
static size_t unit_check_theap(mi_theap_t* theap) {
  if (theap->is_destroyed) return 0; // THEAP-5: what it knows is gone
  unit_check_portions(theap);
  unit_check_lists(theap);
  size_t pages = theap->page_count;
  for (size_t i = 0; i < MI_GUEST_COUNT; i++) {
    if (theap->guest[i] == NULL) continue;
    check(theap->guest[i]->local_free != NULL);
    pages++;
  }
  return pages;
}

size_t unit_pool_length(mi_heap_t* heap, size_t size_class) {
  const size_t length = mi_pool_length(heap, size_class);
  check(length != SIZE_MAX); // POOL-1
  return length;
}

// A home and the theaps of other heaps that its thread has.
static size_t unit_check_home(mi_theap_t* home) {
  check(mi_thread_is_valid(home));
  size_t pages = unit_check_theap(home);
  for (size_t i = 0; i < home->others_count; i++) {
    if (home->others[i] != NULL) pages += unit_check_theap(home->others[i]);
  }
  return pages;
}

static size_t unit_heap_pooled(mi_heap_t* heap) {
  size_t pooled = 0;
  for (size_t c = 0; c < MI_CLASS_COUNT; c++) pooled += unit_pool_length(heap, c);
  return pooled;
}

// Returns the pages in pools.
static size_t unit_check_heaps(mi_subproc_t* subproc) {
  check(mi_subproc_is_valid(subproc));
  size_t pooled = unit_heap_pooled(&subproc->heap_main);
  for (mi_heap_t* heap = subproc->heaps; heap != NULL; heap = heap->next) {
    pooled += unit_heap_pooled(heap);
  }
  for (mi_heap_t* heap = subproc->ended; heap != NULL; heap = heap->next) {
    check_equal(mi_atomic_load_relaxed(&heap->inside), 0);
    pooled += unit_heap_pooled(heap);
  }
  return pooled;
}

// CHARGE-3
static void unit_check_charged(mi_subproc_t* subproc) {
  int64_t bytes = 0;
  MI_FOR_EACH_ARENA(subproc, arena) { bytes += (int64_t)mi_charge_in(arena); }
  const mi_page_t* page;
  for (uint32_t at = 0; (page = mi_book_next(&subproc->direct, &at)) != NULL;) {
    const bool is_single = page->size_class == MI_CLASS_COUNT;
    bytes += (int64_t)mi_charge_round((is_single ? 1 : mi_page_capacity(page)) * page->block_size);
  }
  check_equal(mi_atomic_load_relaxed(&subproc->count.charged), bytes);
}

// Adds what the arenas and the book of mappings hold; returns the pages in pools.
static size_t unit_check_subproc(mi_subproc_t* subproc, unit_census_t* census) {
  MI_FOR_EACH_ARENA(subproc, arena) {
    check(arena->subproc == subproc && mi_arena_is_valid(arena));
    unit_check_arena(arena, census);
  }
  unit_check_charged(subproc);
  check(mi_spare_is_valid(subproc));
  size_t kept;
  check(mi_kept_is_valid(subproc, &kept));
  census->spare += mi_spare_length(subproc) + kept;
  mi_page_t* page;
  for (uint32_t at = 0; (page = mi_book_next(&subproc->direct, &at)) != NULL;) {
    check(page->backing == MI_BACKING_DIRECT);
    unit_check_heap_of(subproc, page);
    if (!mi_page_is_single(page)) unit_check_class_page(page, census);
  }
  return unit_check_heaps(subproc);
}

// ARENA-3: nobody has anything in the arenas of sub-processes that ended.
static void unit_check_retired_arenas(void) {
  mi_arena_t* arena = mi_state.arenas_free;
  for (; arena != NULL; arena = mi_atomic_load_relaxed(&arena->next)) {
    check(!arena->is_foreign && !arena->is_exclusive);
    check(mi_arena_is_valid(arena));
    check(mi_bitmap_is_all_set(arena->free, 0, mi_arena_slices(arena)));
    check(mi_bitmap_is_all_clear(arena->purge_young, 0, mi_arena_slices(arena)));
    check(mi_bitmap_is_all_clear(arena->purge_old, 0, mi_arena_slices(arena)));
  }
}

void unit_check_valid(void) {
  check(mi_self()->locks_held == 0 && mi_self()->quiet == 0);
  check(mi_self()->waiting == 0 && mi_self()->missed == 0);
  unit_census_t census = {0};
  size_t owned = 0;
  mi_lock_enter(&mi_state.thread_lock);
  for (size_t i = 0; i < MI_THEAP_BUCKETS; i++) {
    mi_theap_t* theap = mi_state.theap_bucket[i];
    for (; theap != NULL; theap = theap->bucket_next) owned += unit_check_home(theap);
  }
  for (mi_theap_t* theap = mi_state.orphans; theap != NULL; theap = theap->orphan_next) {
    check(theap->thread_id == 0);
    owned += unit_check_home(theap);
  }
  size_t pooled = 0;
  size_t deleted = 0;
  for (mi_subproc_t* subproc = &mi_state.main; subproc != NULL; subproc = subproc->next) {
    pooled += unit_check_subproc(subproc, &census);
    deleted += subproc->is_deleted ? 1 : 0;
  }
  check_equal(deleted, mi_atomic_load_relaxed(&mi_state.deleted_count));
  mi_lock_leave(&mi_state.thread_lock);
  unit_check_retired_arenas();
  check_equal(census.lost, mi_atomic_load_relaxed(&mi_state.lost_count) + census.spare);
  check_equal(census.owned, owned); // else a page is owned by nobody who knows it
  check_equal(census.pooled, pooled);
}

void unit_reserve(size_t size) {
  mi_process_setup();
  mi_arena_plan_t plan = {.size = size, .numa_node = -1};
  check(mi_arena_reserve(&mi_state.main, &plan, MI_ARENA_COMMITTED) != NULL);
}

size_t unit_free_slices(void) {
  size_t count;
  check(mi_kept_is_valid(&mi_state.main, &count));
  count += mi_spare_length(&mi_state.main);
  MI_FOR_EACH_ARENA(&mi_state.main, arena) { count += mi_atomic_load_relaxed(&arena->free_count); }
  return count;
}

size_t unit_used_slices(void) {
  size_t count = 0;
  MI_FOR_EACH_ARENA(&mi_state.main, arena) { count += mi_arena_slices(arena); }
  return count - unit_free_slices();
}

mi_theap_t* unit_theap(void) {
  mi_enter_home();
  check(mi_self_theap()->thread_id == mi_tls_thread_id());
  return mi_self_theap();
}

mi_page_t* unit_page_of(const void* p) {
  mi_page_t* const page = mi_pagemap_find(p);
  check(page != NULL);
  return page;
}

mi_block_t* unit_carve(mi_page_t* page) {
  uint32_t count;
  return mi_page_carve(page, &count);
}

mi_page_t* unit_make_page(size_t size_class, size_t used, void** blocks) {
  return unit_make_page_in(unit_theap(), size_class, used, blocks);
}

mi_page_t* unit_make_page_in(mi_theap_t* theap, size_t size_class, size_t used, void** blocks) {
  mi_page_t* const page = mi_refill_make_page(theap, size_class);
  check(page != NULL);
  size_t i = 0;
  for (mi_block_t* list; (list = unit_carve(page)) != NULL;) {
    while (list != NULL) {
      mi_block_t* const next = list->next;
      if (i < used) {
        blocks[i] = list;
      } else {
        list->next = page->local_free;
        page->local_free = list;
        page->count.used--;
      }
      i++;
      list = next;
    }
  }
  check_equal(i, page->reserved);
  check(used <= i && mi_page_is_valid(page));
  return page;
}

size_t unit_page_blocks(size_t size_class) {
  return mi_class_slices(size_class) * MI_SLICE_SIZE / mi_class_size(size_class);
}

void unit_make_peak(size_t slices) {
  mi_free(mi_malloc(slices * MI_SLICE_SIZE));
  mi_purge_everything(&mi_state.main);
}

size_t unit_fill_page(size_t size_class, void** blocks) {
  const size_t size = mi_class_size(size_class);
  size_t count = 0;
  mi_page_t* page;
  do {
    blocks[count++] = mi_malloc(size);
    page = unit_theap()->current[size_class];
  } while (unit_theap()->free[size_class] != NULL || mi_page_has_free(page));
  check(count <= UNIT_BLOCKS_MAX);
  return count;
}

static void unit_print_page(mi_page_t* page) {
  const char* const format =
      "page %p: owner 0x%zx, class %u, %u blocks, %u carved, %u used, place %u, 0x%zx\n";
  fprintf(stderr, format, (void*)page, (size_t)mi_atomic_load_relaxed(&page->owner),
          page->size_class, page->reserved, mi_page_capacity(page), page->count.used, page->place,
          (size_t)mi_atomic_load_relaxed(&page->thread_free));
}

void unit_check_empty(void) {
  // Pooled pages without a block in use go back when somebody takes them out.
  for (size_t c = 0; c < MI_CLASS_COUNT; c++) {
    check(unit_pool_length(&mi_state.main.heap_main, c) == 0);
  }
  mi_kept_release_all(&mi_state.main);
  size_t total = 0;
  MI_FOR_EACH_ARENA(&mi_state.main, arena) {
    total += mi_arena_slices(arena);
    for (size_t i = 0; i < mi_arena_slices(arena); i++) {
      mi_page_t* const page = mi_pagemap_slice(arena->start + i * MI_SLICE_SIZE);
      if (!unit_bit(arena->free, i)) unit_print_page(page);
    }
  }
  check_equal(unit_free_slices() + mi_atomic_load_relaxed(&mi_state.lost_count), total);
}

// -- small helpers --

static uint8_t unit_byte(size_t tag, size_t i) {
  return (uint8_t)((mi_random_mix(tag + 1) | 1) + i);
}

void unit_fill(void* p, size_t size, size_t tag) {
  for (size_t i = 0; i < size; i++) ((uint8_t*)p)[i] = unit_byte(tag, i);
}

bool unit_is_filled(const void* p, size_t size, size_t tag) {
  for (size_t i = 0; i < size; i++) {
    if (((const uint8_t*)p)[i] != unit_byte(tag, i)) return false;
  }
  return true;
}

// What is not resident reads as zero, and stays so: a look would be a fault for each OS page.
bool unit_is_zero(const void* p, size_t size) {
  const size_t step = 64 * MI_KIB;
  for (size_t i = 0; i < size; i += step) {
    const uint8_t* const s = (const uint8_t*)p + i;
    const size_t part = mi_bits_min(size - i, step);
    if (part == step && os_fake_resident(s, part) == 0) continue;
    if (s[0] != 0 || memcmp(s, s + 1, part - 1) != 0) return false;
  }
  return true;
}

// -- threads --

typedef struct unit_call_s {
  void (*f)(void* arg);
  void* arg;
  pthread_t thread;
} unit_call_t;

static void* unit_call_run(void* p) {
  unit_call_t* const call = (unit_call_t*)p;
  call->f(call->arg);
  return NULL;
}

void unit_on_threads(size_t count, void (*f)(void* arg), void* arg, size_t size) {
  unit_call_t call[64];
  check(count <= 64);
  for (size_t i = 0; i < count; i++) {
    call[i].f = f;
    call[i].arg = (uint8_t*)arg + i * size;
    check(pthread_create(&call[i].thread, NULL, &unit_call_run, &call[i]) == 0);
  }
  for (size_t i = 0; i < count; i++) pthread_join(call[i].thread, NULL);
}

void unit_on_thread(void (*f)(void* arg), void* arg) { unit_on_threads(1, f, arg, 0); }

int64_t unit_tally_of(mi_tally_index_t index) {
  mi_tally_t sum;
  mi_heap_sum_tally(&mi_state.main, UNIT_HEAP, &sum);
  return mi_atomic_load_relaxed(&sum.amount[index]);
}

void unit_start_puppets(puppet_t* puppets, size_t count) {
  unit_theap();
  for (size_t i = 0; i < count; i++) {
    puppet_start(&puppets[i]);
    mi_free(puppet_malloc(&puppets[i], MI_SLICE_SIZE));
  }
}

void unit_end_puppets(puppet_t* puppets, size_t count) {
  for (size_t i = 0; i < count; i++) puppet_end(&puppets[i]);
}
