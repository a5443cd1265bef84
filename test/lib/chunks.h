// SPDX-License-Identifier: MIT
// chunks.h - for unit tests of arenas/collapse.c: a heap that is large enough, chunks of it that
// are full, and the passes over them.
#ifndef MI_TEST_CHUNKS_H
#define MI_TEST_CHUNKS_H

#include "unit.h"

#include "core/arenas/arena.h"
#include "core/arenas/collapse.h"
#include "core/arenas/purge.h"
#include "core/arenas/slices.h"
#include "core/pages/page.h"
#include "core/threads/refill.h"

#define CHUNK_SIZE (MI_CHUNK_SLICES * MI_SLICE_SIZE)
#define HEAP_MIN_CHUNKS 16 // as huge.h says
#define LOOK_CHUNKS 64 // as collapse.c says
#define LOOK_MS 100
#define PART 64
#define PASS_DELAYS 10
#define QUIET_MAX 4
#define SEEN ((uint64_t)1 << 32)
#define SHARED ((uint64_t)1 << 34)
#define ARENA_CHUNKS (HEAP_MIN_CHUNKS + 2 * LOOK_CHUNKS)
#define CHUNKS_MAX 8

static mi_arena_t* arena; // starts with slices in use that nothing is known of
static mi_page_t* pages[CHUNKS_MAX * MI_CHUNK_SLICES]; // of one slice each, behind those
static size_t page_count;

static inline size_t calls(void) { return os_fake.count[OS_FAKE_COLLAPSE]; }

static inline uint64_t pass_ms(void) { return (uint64_t)mi_wait_delay_ms() * PASS_DELAYS; }

static inline void poll(void) { mi_collapse_poll(&mi_state.main, mi_os_now_ms()); }

static inline void start(void) {
  unit_reserve(ARENA_CHUNKS * CHUNK_SIZE);
  os_fake.has_huge_pages = true;
  unit_theap();
  for (size_t i = 0; i < HEAP_MIN_CHUNKS; i++) {
    mi_run_t run;
    check(mi_slices_claim(UNIT_HEAP, MI_CHUNK_SLICES, CHUNK_SIZE, 0, &run));
    arena = run.arena;
    check_equal(run.slice_index, i * MI_CHUNK_SLICES);
  }
  poll(); // the first pass is due when the heap has been large for as long as it takes
  os_fake_advance_ms(pass_ms());
}

static inline size_t class_of_page(void) {
  const size_t c = mi_class_of(64);
  check_equal(mi_class_slices(c), 1);
  return c;
}

// A page of one slice, all of whose blocks are carved.
static inline mi_page_t* make_page(void) {
  mi_page_t* const page = mi_refill_make_page(unit_theap(), class_of_page());
  check(page != NULL);
  while (unit_carve(page) != NULL) {
  }
  mi_collapse_note(&mi_state.main, page);
  return page;
}

static inline void release_page(mi_page_t* page) {
  page->count.used = 0;
  mi_page_release(UNIT_HEAP, page);
}

// Chunks full of such pages.
static inline void fill(size_t chunks) {
  for (size_t i = 0; i < chunks * MI_CHUNK_SLICES; i++) {
    pages[page_count] = make_page();
    const size_t slice = mi_arena_slice_of(arena, pages[page_count]->start);
    check_equal(slice, HEAP_MIN_CHUNKS * MI_CHUNK_SLICES + page_count);
    page_count++;
  }
}

// Releases what is in use, but for the first slices.
static inline void end_from(size_t slice) {
  while (page_count > 0) release_page(pages[--page_count]);
  mi_slices_release(arena, slice, HEAP_MIN_CHUNKS * MI_CHUNK_SLICES - slice, MI_SLICE_SIZE);
}

static inline void end(void) { end_from(0); }

// The looks of a whole pass.
static inline void pass(void) {
  os_fake_advance_ms(pass_ms() << QUIET_MAX);
  for (size_t i = 0; i <= ARENA_CHUNKS / LOOK_CHUNKS; i++) {
    poll();
    os_fake_advance_ms(LOOK_MS);
  }
}

static inline uint8_t* chunk_at(size_t i) {
  return arena->start + (HEAP_MIN_CHUNKS + i) * CHUNK_SIZE;
}

static inline bool is_collapsed(size_t i) {
  for (size_t k = 0; k < os_fake.log_count && k < OS_FAKE_LOG_SIZE; k++) {
    const os_fake_entry_t* const entry = &os_fake.log[k];
    if (entry->call == OS_FAKE_COLLAPSE && entry->start == chunk_at(i)) return true;
  }
  return false;
}

// How many calls there are while so much time passes.
static inline size_t calls_in_ms(uint64_t ms) {
  const size_t before = calls();
  for (uint64_t i = 0; i < ms; i += LOOK_MS) {
    os_fake_advance_ms(LOOK_MS);
    poll();
  }
  return calls() - before;
}

// A block of whole chunks behind the first slices, of which each OS page is written.
static inline uint8_t* make_large(size_t chunks) {
  unit_option(arena_reserve, ARENA_CHUNKS * CHUNK_SIZE / MI_KIB); // it is in an arena
  uint8_t* const p = (uint8_t*)mi_malloc(chunks * CHUNK_SIZE);
  check(p == chunk_at(0));
  for (size_t i = 0; i < chunks * CHUNK_SIZE; i += 8) p[i + 4] = 1;
  return p;
}

static inline void end_large(uint8_t* p) {
  mi_free(p);
  mi_collect_all(MI_FORCE);
  end();
}

#endif
