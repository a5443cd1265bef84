// SPDX-License-Identifier: MIT
// api_arena.c - arenas: memory that the program reserves or brings along, and a printed map of
// them.
//
// API_ARENA-1  an id is the address of the structure, which is never unmapped; NULL is no arena.
// API_ARENA-2  arenas belong to the sub-process of the calling thread.
// API_ARENA-3  memory that cannot be used is refused with a warning, and `*arena_id` is NULL then.
#include <errno.h>

#include "api.h"
#include "../core/core.h"

// Store the id of an arena. True if there is one.
static bool mi_api_arena_give(mi_arena_t* arena, mi_arena_id_t* arena_id) {
  if (arena_id != NULL) *arena_id = arena;
  return arena != NULL;
}

static int mi_api_arena_no_memory(void) {
  errno = ENOMEM;
  return ENOMEM;
}

// -- Reserved --

int mi_reserve_os_memory_ex(size_t size, bool commit, bool allow_large, bool exclusive,
                            mi_arena_id_t* arena_id) mi_attr_noexcept {
  mi_process_setup();
  mi_arena_plan_t plan = {.size = size, .is_exclusive = exclusive, .numa_node = -1};
  const mi_arena_kind_t committed = allow_large ? MI_ARENA_LARGE : MI_ARENA_COMMITTED;
  mi_arena_t* const arena =
      mi_reserve_memory(mi_enter_current(), &plan, commit ? committed : MI_ARENA_RESERVED);
  if (arena == NULL) mi_hook_warning("unable to reserve memory (%zu bytes)\n", size);
  return mi_api_arena_give(arena, arena_id) ? 0 : mi_api_arena_no_memory();
}

int mi_reserve_os_memory(size_t size, bool commit, bool allow_large) mi_attr_noexcept {
  return mi_reserve_os_memory_ex(size, commit, allow_large, false, NULL);
}

static void mi_api_arena_no_giant(size_t pages) {
  mi_hook_warning("unable to reserve huge OS pages (%zu of 1 GiB)\n", pages);
}

int mi_reserve_huge_os_pages_at_ex(size_t pages, int numa_node, size_t timeout_msecs,
                                   bool exclusive, mi_arena_id_t* arena_id) mi_attr_noexcept {
  mi_process_setup();
  mi_api_arena_give(NULL, arena_id);
  if (pages == 0) return 0;
  mi_arena_plan_t plan = {.is_exclusive = exclusive, .numa_node = mi_numa_node(numa_node)};
  mi_arena_t* const arena = mi_reserve_giant_pages(mi_enter_current(), &plan, pages, timeout_msecs);
  if (arena == NULL) mi_api_arena_no_giant(pages);
  return mi_api_arena_give(arena, arena_id) ? 0 : mi_api_arena_no_memory();
}

int mi_reserve_huge_os_pages_at(size_t pages, int numa_node,
                                size_t timeout_msecs) mi_attr_noexcept {
  return mi_reserve_huge_os_pages_at_ex(pages, numa_node, timeout_msecs, false, NULL);
}

int mi_reserve_huge_os_pages_interleave(size_t pages, size_t numa_nodes,
                                        size_t timeout_msecs) mi_attr_noexcept {
  mi_process_setup();
  if (pages == 0) return 0;
  const size_t nodes = numa_nodes != 0 ? numa_nodes : mi_numa_count();
  const bool is_any =
      mi_reserve_giant_pages_spread(mi_enter_current(), pages, nodes, timeout_msecs);
  if (!is_any) mi_api_arena_no_giant(pages);
  return is_any ? 0 : mi_api_arena_no_memory();
}

int mi_reserve_huge_os_pages(size_t pages, double max_secs,
                             size_t* pages_reserved) mi_attr_noexcept {
  const double longest = SIZE_MAX < (uint64_t)1000000000000 ? (double)(SIZE_MAX / 1000) : 1e9;
  const double seconds = max_secs < longest ? max_secs : longest;
  const size_t timeout_msecs = seconds > 0 ? (size_t)(seconds * 1000) : 0;
  const int err = mi_reserve_huge_os_pages_interleave(pages, 0, timeout_msecs);
  if (pages_reserved != NULL) *pages_reserved = err == 0 ? pages : 0;
  return err;
}

// -- Brought along --

// Reduce a range to whole slices. False if it cannot be an arena.
static bool mi_api_arena_trim(void* start, size_t size, mi_arena_plan_t* plan) {
  const uintptr_t from = (uintptr_t)mi_cpu_address(start);
  const uintptr_t last = (uintptr_t)(UINT64_MAX >> (64 - MI_ADDRESS_BITS));
  if (start == NULL || from > last || size > last - from) {
    mi_output_force_warning("no range of memory for an arena: %p, %zu bytes\n", start, size);
    return false;
  }
  const size_t alignment = mi_bits_max(MI_SLICE_SIZE, mi_state.os.page_size);
  const uintptr_t first = mi_bits_align_up(from, alignment);
  const uintptr_t end = mi_bits_align_down(from + size, alignment);
  if (first < from || end < first || end - first < MI_RESERVE_UNIT) {
    mi_output_force_warning("too little memory for an arena: %p, %zu bytes, at least %zu\n", start,
                            size, MI_RESERVE_UNIT);
    return false;
  }
  plan->start = (uint8_t*)first;
  plan->size = end - first;
  return true;
}

bool mi_manage_memory(void* start, size_t size, bool is_committed, bool is_pinned, bool is_zero,
                      int numa_node, bool exclusive, mi_commit_fun_t* commit_fun,
                      void* commit_fun_arg, mi_arena_id_t* arena_id) mi_attr_noexcept {
  mi_process_setup();
  mi_api_arena_give(NULL, arena_id);
  mi_arena_plan_t plan = {
      .is_committed = is_committed,
      .is_pinned = is_pinned || (MI_OS_PURGE_REMAPS && commit_fun == NULL), // ARENA-5
      .is_exclusive = exclusive,
      .is_foreign = true,
      .is_dirty = !is_zero,
      .numa_node = mi_numa_node(numa_node),
      .commit_fun = commit_fun,
      .commit_arg = commit_fun_arg,
  };
  if (!mi_api_arena_trim(start, size, &plan)) return false;
  mi_arena_t* const arena = mi_arena_manage(mi_enter_current(), &plan);
  if (arena == NULL) {
    mi_output_force_warning("memory cannot be used, some of it is in use already: %p, %zu bytes\n",
                            start, size);
  }
  return mi_api_arena_give(arena, arena_id);
}

bool mi_manage_os_memory_ex(void* start, size_t size, bool is_committed, bool is_pinned,
                            bool is_zero, int numa_node, bool exclusive,
                            mi_arena_id_t* arena_id) mi_attr_noexcept {
  return mi_manage_memory(start, size, is_committed, is_pinned, is_zero, numa_node, exclusive, NULL,
                          NULL, arena_id);
}

bool mi_manage_os_memory(void* start, size_t size, bool is_committed, bool is_pinned, bool is_zero,
                         int numa_node) mi_attr_noexcept {
  return mi_manage_os_memory_ex(start, size, is_committed, is_pinned, is_zero, numa_node, false,
                                NULL);
}

// -- Questions --

size_t mi_arena_min_alignment(void) mi_attr_noexcept { return MI_SLICE_SIZE; }
size_t mi_arena_min_size(void) mi_attr_noexcept { return MI_RESERVE_UNIT; }

void* mi_arena_area(mi_arena_id_t arena_id, size_t* size) mi_attr_noexcept {
  const mi_arena_t* const arena = (const mi_arena_t*)arena_id;
  if (size != NULL) *size = arena != NULL ? mi_arena_size(arena) : 0;
  return arena != NULL ? arena->start : NULL;
}

bool mi_arena_contains(mi_arena_id_t arena_id, const void* p) mi_attr_noexcept {
  size_t size;
  const uint8_t* const start = (const uint8_t*)mi_arena_area(arena_id, &size);
  return start != NULL && (uintptr_t)mi_cpu_address(p) - (uintptr_t)start < size;
}

// Any thread, relaxed: written before there is another one (override_windows.c).
static mi_atomic(bool) mi_api_is_redirected;

MI_INTERNAL void mi_api_set_redirected(bool is_redirected) {
  mi_atomic_store_relaxed(&mi_api_is_redirected, is_redirected);
}

bool mi_is_redirected(void) mi_attr_noexcept {
  return mi_atomic_load_relaxed(&mi_api_is_redirected);
}

bool mi_arena_unload(mi_arena_id_t arena_id, void** base, size_t* accessed_size,
                     size_t* full_size) mi_attr_noexcept {
  (void)arena_id;
  (void)base;
  (void)accessed_size;
  (void)full_size;
  return false;
}

bool mi_arena_reload(void* start, size_t size, mi_arena_id_t* arena_id) mi_attr_noexcept {
  (void)start;
  (void)size;
  return mi_api_arena_give(NULL, arena_id);
}

// -- A map --

#define MI_ARENA_ROW ((size_t)64)

// Return the letter of a slice: the start of a page of small blocks or of one block, the rest of
// such a page, or unused.
static char mi_api_arena_letter(mi_arena_t* arena, size_t index) {
  const mi_page_t* const page = mi_pagemap_slice(arena->start + index * MI_SLICE_SIZE);
  const uintptr_t owner = mi_atomic_load_relaxed(&page->owner);
  if (mi_bitmap_is_all_clear(arena->free, index, 1)) {
    if (owner == MI_OWNER_SINGLE) return 'L';
    return owner == MI_OWNER_NONE || owner == MI_OWNER_INTERIOR ? '+' : 'P';
  }
  return mi_bitmap_is_all_clear(arena->dirty, index, 1) ? '.' : '-';
}

// Print a map of an arena. Rows of unused slices that were never touched, or were given back, are
// only counted.
static void mi_api_arena_print(mi_sink_t sink, mi_arena_t* arena) {
  size_t skipped = 0;
  for (size_t first = 0; first < mi_arena_slices(arena); first += MI_ARENA_ROW) {
    const size_t count = mi_bits_min(MI_ARENA_ROW, mi_arena_slices(arena) - first);
    if (mi_bitmap_is_all_set(arena->free, first, count) &&
        mi_bitmap_is_all_clear(arena->dirty, first, count)) {
      skipped++;
      continue;
    }
    if (skipped > 0) mi_output_print(sink, "  (%zu rows unused)\n", skipped);
    skipped = 0;
    char row[MI_ARENA_ROW + 1] = {0};
    for (size_t i = 0; i < count; i++) row[i] = mi_api_arena_letter(arena, first + i);
    mi_output_print(sink, "  %p %s\n", (void*)(arena->start + first * MI_SLICE_SIZE), row);
  }
  if (skipped > 0) mi_output_print(sink, "  (%zu rows unused)\n", skipped);
}

void mi_arenas_print(void) mi_attr_noexcept {
  mi_process_setup();
  const mi_sink_t sink = mi_output_sink(NULL, NULL);
  mi_output_print(sink,
                  "arenas, one character for %zu KiB: P blocks of one size, L one block, "
                  "+ the rest of it, - free, . free and given back\n",
                  MI_SLICE_SIZE / MI_KIB);
  mi_subproc_t* const subproc = mi_enter_current();
  mi_kept_release_all(subproc); // so that each slice is in a page or free
  MI_FOR_EACH_ARENA(subproc, arena) {
    mi_output_print(sink, "arena %p: %zu KiB%s%s%s, node %d\n", (void*)arena,
                    mi_arena_size(arena) / MI_KIB, arena->is_exclusive ? ", exclusive" : "",
                    arena->is_pinned ? ", pinned" : "", arena->is_foreign ? ", of the program" : "",
                    arena->numa_node);
    mi_api_arena_print(sink, arena);
  }
}

void mi_debug_show_arenas(void) mi_attr_noexcept { mi_arenas_print(); }
