// SPDX-License-Identifier: MIT
// init.c - setting up the process, once, by whoever allocates first: often long before any
// constructor.
//
// I1  until the stage is READY only the thread that set BUSY touches the state; others wait (they
//     can only exist when a program starts threads before its first allocation).
// I2  nothing here allocates through the library, so set-up cannot be entered twice by one thread.
//     Registering for fork may allocate and comes after READY.
//
// Also here: giving back everything that is unused (mi_collect_all), and the measure of what is in
// use.
#include "core.h"
#include "fork.h"
#include "pool.h"
#include "purge.h"
#include "remote.h"
#include "theap.h"
#include "thread.h"

MI_INTERNAL void mi_process_setup(void) {
  // Sees everything that set-up wrote; pairs with the release below.
  if (mi_likely(mi_atomic_load_acquire(&mi_state.stage) == MI_STAGE_READY)) return;
  uint32_t expected = MI_STAGE_NONE;
  // Pairs with nothing: the first one in sees the initial state.
  if (!mi_atomic_cas_strong_acquire(&mi_state.stage, &expected, MI_STAGE_BUSY)) {
    // Sees what set-up wrote, as above.
    while (mi_atomic_load_acquire(&mi_state.stage) != MI_STAGE_READY) {
      expected = MI_STAGE_BUSY;
      mi_atomic_cas_strong_acquire(&mi_state.stage, &expected,
                                   MI_STAGE_AWAITED); // order: none needed
      mi_os_wait(&mi_state.stage, MI_STAGE_AWAITED);
    }
    mi_os_wake(&mi_state.stage); // the next one that sleeps
    return;
  }
  mi_os_init(&mi_state.os);
  mi_hook_load_options();
  // Publishes the state; pairs with the acquires above.
  const bool is_awaited =
      mi_atomic_swap_release(&mi_state.stage, MI_STAGE_READY) == MI_STAGE_AWAITED;
  if (is_awaited) mi_os_wake(&mi_state.stage);
  mi_fork_register();
  const long reserve_kib = mi_option_value(reserve_os_memory);
  if (reserve_kib > 0 && !mi_arena_reserve((size_t)reserve_kib * MI_KIB)) {
    mi_hook_warning("unable to reserve %ld KiB at start (MIMALLOC_RESERVE_OS_MEMORY)\n",
                    reserve_kib);
  }
}

MI_INTERNAL size_t mi_collect_all(mi_effort_t effort) {
  mi_remote_flush();
  mi_theap_t* const theap = mi_theap_self();
  if (effort == MI_GENTLE) {
    if (theap->thread_id != 0) mi_theap_collect(theap);
    mi_purge_poll();
    return 0;
  }
  if (theap->thread_id != 0) mi_theap_flush(theap);
  mi_thread_flush_orphans();
  for (size_t c = 0; c < MI_CLASS_COUNT; c++) mi_pool_drain(&mi_state.heap_main.pool[c]);
  return mi_purge_everything();
}

// Blocks of a list that are not in use although their page counts them.
static size_t mi_usage_list_length(const mi_theap_t* theap, size_t c) {
  size_t count = 0;
  for (const mi_block_t* b = theap->free[c]; b != NULL; b = b->next) count++;
  for (const mi_block_t* b = theap->current[c]->sample_rest; b != NULL; b = b->next) count++;
  return count;
}

static void mi_usage_add_page(mi_usage_t* usage, const mi_page_t* page) {
  const size_t c = page->size_class;
  if (c >= MI_CLASS_COUNT) return; // a single block by now
  const size_t used = page->count.used - (page->place == MI_PLACE_CURRENT ? 1 : 0);
  usage->in_use_blocks += used;
  usage->in_use += used * page->block_size;
  usage->in_pages += mi_page_capacity(page) * page->block_size;
  usage->class_blocks[c] += used;
  usage->class_pages[c]++;
}

MI_INTERNAL void mi_usage_measure(mi_usage_t* usage) {
  *usage = (mi_usage_t){0};
  MI_FOR_EACH_ARENA(arena) {
    for (size_t i = 0; i < arena->slice_count; i++) {
      const mi_page_t* const page = mi_pagemap_slice(arena->start + i * MI_SLICE_SIZE);
      const uintptr_t owner = mi_atomic_load_relaxed(&page->owner);
      if (owner == MI_OWNER_NONE || owner == MI_OWNER_INTERIOR) continue;
      if (!mi_page_is_single(page)) mi_usage_add_page(usage, page);
    }
  }
  // Large blocks are counted as they come and go: some lie outside the arenas.
  usage->large = (size_t)mi_atomic_load_relaxed(&mi_state.count.large);
  usage->large_blocks = (size_t)mi_atomic_load_relaxed(&mi_state.count.large_count);
  // The lists of this thread's theap are free; those of other threads cannot be walked while they
  // run.
  const mi_theap_t* const theap = mi_theap_self();
  for (size_t c = 0; c < MI_CLASS_COUNT; c++) {
    const size_t listed = mi_usage_list_length(theap, c);
    usage->in_use_blocks -= listed;
    usage->in_use -= listed * mi_class_size(c);
    usage->class_blocks[c] -= listed;
  }
}
