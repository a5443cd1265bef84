// SPDX-License-Identifier: MIT
// pagemap.c - fuzz target: from an address to the descriptor of its page (common/pagemap.h) on
// the fake operating system, against an array with the page of each slice.
//
// Pages lie around the borders of windows, where their descriptors are in two tables.
#include "core/common/pagemap.h"

#include <string.h>

#include "core/core.h"
#include "core/pages/page.h"
#include "fuzz.h"
#include "os_fake.h"

#define WINDOW_COUNT ((size_t)5)
#define NEAR ((size_t)48) // slices on each side of a border that are used
#define BORDER_COUNT ((WINDOW_COUNT - 1) * 2)
#define SLICE_COUNT (BORDER_COUNT * 2 * NEAR)
#define PAGE_COUNT 24

typedef struct span_s {
  mi_page_t* page; // NULL: none
  size_t first, count, interior; // slices of the model; those that lead to the page
} span_t;

static span_t spans[PAGE_COUNT];
static bool is_covered[WINDOW_COUNT];
static size_t owner_of[SLICE_COUNT]; // index of the span + 1, 0 none

// Slices of the model in the order of their addresses: 2 * NEAR around each border of a window, and
// around the middle of each.
static uint8_t* address_of(size_t slice) {
  const size_t border = 1 + slice / (2 * NEAR);
  return os_fake.reserve + border * (MI_WINDOW_SIZE / 2) + (slice % (2 * NEAR)) * MI_SLICE_SIZE -
         NEAR * MI_SLICE_SIZE;
}

static size_t window_of(size_t slice) {
  return (size_t)(address_of(slice) - os_fake.reserve) / MI_WINDOW_SIZE;
}

static bool cover(size_t first, size_t count) {
  mi_lock_enter(&mi_state.arena_lock);
  const bool is_done = mi_pagemap_cover(address_of(first), count * MI_SLICE_SIZE);
  mi_lock_leave(&mi_state.arena_lock);
  return is_done;
}

static void step_cover(fuzz_input_t* in) {
  const size_t first = fuzz_below(in, SLICE_COUNT);
  const size_t room = 2 * NEAR - first % (2 * NEAR);
  const size_t count = 1 + fuzz_below(in, room);
  const size_t fail_at = fuzz_below(in, 4);
  const size_t last = window_of(first + count - 1);
  size_t missing = 0;
  for (size_t w = window_of(first); w <= last; w++) {
    if (is_covered[w]) continue;
    missing++;
    is_covered[w] = fail_at == 0 || missing < fail_at; // those before the failure stay
  }
  os_fake.fail_at[OS_FAKE_MAP] = fail_at;
  const size_t maps = os_fake_calls(OS_FAKE_MAP);
  const bool is_done = cover(first, count);
  os_fake.fail_at[OS_FAKE_MAP] = 0;
  CHECK(is_done == (fail_at == 0 || fail_at > missing));
  CHECK(os_fake_calls(OS_FAKE_MAP) - maps == (is_done ? missing : fail_at)); // PAGEMAP-2
}

static void step_describe(fuzz_input_t* in) {
  span_t* const span = &spans[fuzz_below(in, PAGE_COUNT)];
  const size_t first = fuzz_below(in, SLICE_COUNT);
  const size_t room = 2 * NEAR - first % (2 * NEAR);
  const size_t count = 1 + fuzz_below(in, mi_bits_min(room, 32));
  if (span->page != NULL) return;
  for (size_t i = first; i < first + count; i++) {
    if (owner_of[i] != 0 || !is_covered[window_of(i)]) return;
  }
  // A page with one block has a descriptor for its first slice only.
  *span = (span_t){.first = first, .count = count, .interior = fuzz_below(in, 2) == 0 ? 1 : count};
  span->page = mi_life_describe(address_of(first), count, (mi_interior_t){1, span->interior});
  mi_atomic_store_relaxed(&span->page->owner, MI_OWNER_SHARED);
  for (size_t i = first; i < first + count; i++) owner_of[i] = (size_t)(span - spans) + 1;
}

static void step_undescribe(fuzz_input_t* in) {
  span_t* const span = &spans[fuzz_below(in, PAGE_COUNT)];
  if (span->page == NULL) return;
  mi_life_undescribe(span->page, (mi_interior_t){1, span->interior});
  for (size_t i = span->first; i < span->first + span->count; i++) owner_of[i] = 0;
  span->page = NULL;
}

static void check_slice(size_t slice, size_t offset) {
  const mi_page_t* expected = NULL;
  if (owner_of[slice] != 0) {
    const span_t* const span = &spans[owner_of[slice] - 1];
    if (slice < span->first + span->interior) expected = span->page;
  }
  CHECK(mi_pagemap_find(address_of(slice) + offset) == expected);
  CHECK(expected == NULL || address_of(slice) >= expected->start);
}

static void step_find(fuzz_input_t* in) {
  check_slice(fuzz_below(in, SLICE_COUNT), fuzz_below(in, MI_SLICE_SIZE));
  const uintptr_t any = fuzz_size(in, 64);
  const bool is_near = any >= (uintptr_t)os_fake.reserve &&
                       any < (uintptr_t)os_fake.reserve + WINDOW_COUNT * MI_WINDOW_SIZE;
  CHECK(is_near || mi_pagemap_find((void*)any) == NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  fuzz_input_t in = fuzz_open(data, size);
  memset(spans, 0, sizeof(spans));
  memset(is_covered, 0, sizeof(is_covered));
  memset(owner_of, 0, sizeof(owner_of));
  os_fake_start(4096, (WINDOW_COUNT + 4) * MI_WINDOW_SIZE);
  mi_process_setup();
  while (!fuzz_is_done(&in)) {
    switch (fuzz_below(&in, 4)) {
      case 0:
        step_cover(&in);
        break;
      case 1:
        step_describe(&in);
        break;
      case 2:
        step_undescribe(&in);
        break;
      default:
        step_find(&in);
        break;
    }
  }
  for (size_t i = 0; i < SLICE_COUNT; i++) check_slice(i, MI_SLICE_SIZE - 1);
  mi_unload();
  CHECK(os_fake.mapped == 0);
  for (size_t i = 0; i < SLICE_COUNT; i++) CHECK(mi_pagemap_find(address_of(i)) == NULL);
  mi_state.is_unloaded = false; // the next input is a process of its own
  os_fake_end();
  return 0;
}
