// SPDX-License-Identifier: MIT
// pagemap.c - tests of common/pagemap.h: PAGEMAP-1 to PAGEMAP-3, and what no table covers.
#include "unit.h"

#include "core/arenas/arena.h"
#include "core/pages/page.h"
#include "core/common/pagemap.h"

static void cover(const void* start, size_t size, bool is_expected) {
  mi_lock_enter(&mi_state.arena_lock);
  const bool is_done = mi_pagemap_cover(start, size);
  mi_lock_leave(&mi_state.arena_lock);
  check(is_done == is_expected);
}

// If this fails, free or realloc of a foreign address crashes instead of being reported.
UNIT_TEST_PAGE_SIZES(pagemap_knows_no_foreign_address) {
  int local = 0;
  const uintptr_t odd[] = {0,
                           1,
                           8,
                           (uintptr_t)&local,
                           (uintptr_t)&pagemap_knows_no_foreign_address,
                           UINTPTR_MAX,
                           (uintptr_t)1 << 63,
                           (uintptr_t)1 << MI_ADDRESS_BITS,
                           ((uintptr_t)1 << MI_ADDRESS_BITS) - 1,
                           (uintptr_t)os_fake.reserve};
  for (size_t round = 0; round < 2; round++) {
    for (size_t i = 0; i < sizeof(odd) / sizeof(odd[0]); i++) {
      check(mi_pagemap_find((void*)odd[i]) == NULL);
      check(!mi_is_known_address((void*)odd[i]) && mi_slot_size((void*)odd[i]) == 0);
    }
    // Once more with tables in place.
    void* const p = mi_malloc(100);
    check(mi_pagemap_find(p) != NULL);
    mi_free(p);
    mi_collect_all(MI_FORCE);
    cover(os_fake.reserve + MI_WINDOW_SIZE, MI_WINDOW_SIZE, true);
  }
  check(unit_is_zero(mi_pagemap.none, sizeof(mi_pagemap.none))); // PAGEMAP-1
}

// If this fails, the first arena takes address space for a table, or has descriptors that are
// another's.
UNIT_TEST_PAGE_SIZES(pagemap_first_window_is_near) {
  void* const p = mi_malloc(100);
  const mi_arena_t* const arena = mi_atomic_load_relaxed(&mi_state.main.arenas);
  check(mi_pagemap_is_near(p) == mi_arena_is_apart(arena->start));
  if (!mi_pagemap_is_near(p)) { // with the thread sanitizer, which has no such addresses
    mi_free(p);
    return;
  }
  check(arena->slice_max <= MI_NEAR_SLICES);
  check(mi_pagemap_find(p) >= mi_pagemap.near && mi_pagemap_find(p) < mi_pagemap.none);
  uint8_t* const end = arena->start + MI_NEAR_SIZE;
  check(mi_pagemap_slice(end - 1) == &mi_pagemap.near[MI_NEAR_SLICES - 1]);
  check(mi_pagemap_slice(end) == &mi_pagemap.none[0]);
  const size_t behind = MI_WINDOW_SLICES - MI_NEAR_SLICES;
  check(mi_pagemap_slice(arena->start + MI_WINDOW_SIZE - 1) == &mi_pagemap.none[behind - 1]);
  // PAGEMAP-4: what is behind has no descriptors; another window has a table.
  cover(arena->start, MI_NEAR_SIZE, true);
  cover(end - MI_SLICE_SIZE, 2 * MI_SLICE_SIZE, false);
  cover(end, MI_SLICE_SIZE, false);
  cover(arena->start, MI_WINDOW_SIZE + MI_SLICE_SIZE, false);
  mi_lock_enter(&mi_state.arena_lock);
  check(!mi_pagemap_may_be_near(arena->start + MI_WINDOW_SIZE, MI_SLICE_SIZE));
  mi_lock_leave(&mi_state.arena_lock);
  cover(arena->start + MI_WINDOW_SIZE, MI_SLICE_SIZE, true);
  check(!mi_pagemap_is_near(arena->start + MI_WINDOW_SIZE));
  // A heap that is larger goes elsewhere.
  void* const q = mi_malloc(MI_NEAR_SIZE);
  check(q != NULL && !mi_pagemap_is_near(q) && mi_pagemap_find(q) != NULL);
  mi_free(q);
  mi_free(p);
}

// If this fails, a block finds the descriptor of another page.
UNIT_TEST_PAGE_SIZES(pagemap_covers_windows) {
  mi_process_setup();
  uint8_t* const base = os_fake.reserve + 3 * MI_WINDOW_SIZE;
  uint8_t* const start = base - 5 * MI_SLICE_SIZE;
  cover(start, 10 * MI_SLICE_SIZE, true);
  const size_t calls = os_fake_calls(OS_FAKE_MAP);
  cover(start, 10 * MI_SLICE_SIZE, true);
  cover(base, MI_WINDOW_SIZE, true);
  check_equal(os_fake_calls(OS_FAKE_MAP), calls); // PAGEMAP-2: a window has one table
  mi_page_t* before = NULL;
  for (size_t i = 0; i < 10; i++) {
    uint8_t* const slice = start + i * MI_SLICE_SIZE;
    mi_page_t* const page = mi_pagemap_slice(slice);
    check(page == mi_pagemap_slice(slice + MI_SLICE_SIZE - 1));
    check(page != before);
    check(page < mi_pagemap.none || page >= mi_pagemap.none + MI_WINDOW_SLICES);
    if (slice != base && before != NULL) check(page == before + 1);
    check(mi_atomic_load_relaxed(&page->owner) == MI_OWNER_NONE);
    before = page;
  }
  // The neighbours of the covered windows are still unknown.
  check(mi_pagemap_slice(base + MI_WINDOW_SIZE) == &mi_pagemap.none[0]);
}

// If this fails, an address inside a large page is taken for a foreign one.
UNIT_TEST_PAGE_SIZES(pagemap_interior_slices_lead_to_the_page) {
  size_t c = mi_class_of(MI_SLICE_SIZE);
  while (mi_class_slices(c) < 3) c--;
  void* blocks[UNIT_BLOCKS_MAX];
  mi_page_t* const page = unit_make_page(c, 1, blocks);
  mi_theap_add_guest(unit_theap(), page);
  uint8_t* const p = (uint8_t*)blocks[0];
  check(page != NULL && page->slice_count >= 3);
  for (size_t i = 0; i < page->slice_count * MI_SLICE_SIZE; i += MI_SLICE_SIZE / 4) {
    check(mi_pagemap_find(page->start + i) == page);
  }
  mi_free(p);
}

// If this fails, a window without a table is used, and the process crashes.
UNIT_TEST_PAGE_SIZES(pagemap_cover_fails_without_memory) {
  mi_process_setup();
  os_fake.fail_at[OS_FAKE_MAP] = 2;
  cover(os_fake.reserve, 2 * MI_WINDOW_SIZE, false);
  check(mi_pagemap_slice(os_fake.reserve + MI_WINDOW_SIZE) == &mi_pagemap.none[0]);
  cover(os_fake.reserve, 2 * MI_WINDOW_SIZE, true);
  check(mi_pagemap_slice(os_fake.reserve + MI_WINDOW_SIZE) != &mi_pagemap.none[0]);
  // Beyond what the table of windows reaches.
  cover((void*)((uintptr_t)1 << MI_ADDRESS_BITS), MI_SLICE_SIZE, false);
  cover((void*)(((uintptr_t)1 << MI_ADDRESS_BITS) - MI_SLICE_SIZE), 2 * MI_SLICE_SIZE, false);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(pagemap_knows_no_foreign_address),
      cmocka_unit_test(pagemap_first_window_is_near),
      cmocka_unit_test(pagemap_covers_windows),
      cmocka_unit_test(pagemap_interior_slices_lead_to_the_page),
      cmocka_unit_test(pagemap_cover_fails_without_memory),
  };
  return cmocka_run_group_tests_name("pagemap", tests, NULL, NULL);
}
