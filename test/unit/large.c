// SPDX-License-Identifier: MIT
// large.c - tests of pages/large.c: LARGE-1 to LARGE-3, growth in place, moved mappings, shifted
// results.
#include "unit.h"

#include "core/arenas/bitmap.h"
#include "core/pages/large.h"
#include "core/arenas/purge.h"
#include "core/arenas/move.h"

#define LARGE (MI_CLASS_MAX * 2)
#define MOVED_MAX 256 // how many ranges large.c lets be moved at a time

static bool is_filled_ends(const uint8_t* p, size_t size, size_t tag) {
  return unit_is_filled(p, 100, tag) && unit_is_filled(p + size - 100, 100, tag + 1);
}

static void fill_ends(uint8_t* p, size_t size, size_t tag) {
  unit_fill(p, 100, tag);
  unit_fill(p + size - 100, 100, tag + 1);
}

// If this fails, a large block is smaller than what was asked for, or wastes memory.
UNIT_TEST_PAGE_SIZES(large_blocks_are_whole_os_pages) {
  for (size_t size = MI_CLASS_MAX + 1; size < MI_CLASS_MAX * 50; size += size / 3 + 1234) {
    uint8_t* const p = (uint8_t*)mi_malloc(size);
    mi_page_t* const page = unit_page_of(p);
    check(mi_atomic_load_relaxed(&page->owner) == MI_OWNER_SINGLE && page->start == p); // LARGE-1
    check_equal(mi_usable_size(p), mi_bits_align_up(size, os_fake.page_size));
    check_equal(mi_slot_size(p), mi_usable_size(p));
    check((uintptr_t)p % MI_SLICE_SIZE == 0);
    check(page->slice_count * MI_SLICE_SIZE < mi_usable_size(p) + MI_SLICE_SIZE);
    fill_ends(p, mi_usable_size(p), size);
    check(is_filled_ends(p, mi_usable_size(p), size));
    mi_free(p);
    check(mi_pagemap_find(p) == NULL);
  }
  check_equal(mi_state.main.count.large, mi_kept_count(&mi_state.main, NULL));
  check_equal(unit_tally(LARGE), 0);
  check_equal(hooks_fake.error_count, 0);
  unit_check_empty();
}

// If this fails, a loop that allocates a large buffer maps and faults it in every round.
UNIT_TEST_PAGE_SIZES(large_freed_runs_are_used_again) {
  uint8_t* const first = (uint8_t*)mi_malloc(LARGE);
  memset(first, 1, LARGE);
  mi_free(first);
  const size_t calls = os_fake_calls(OS_FAKE_FALLIBLE);
  for (size_t i = 0; i < 100; i++) {
    uint8_t* const p = (uint8_t*)mi_malloc(LARGE);
    check(p == first);
    mi_free(p);
    os_fake_advance_ms(1);
  }
  check_equal(os_fake_calls(OS_FAKE_FALLIBLE), calls);
  check_equal(os_fake_resident(first, LARGE), LARGE);
}

// If this fails, calloc of a large block returns old contents.
UNIT_TEST_PAGE_SIZES(large_zeroes_what_is_not_zero) {
  for (size_t i = 0; i < 4; i++) {
    uint8_t* const p = (uint8_t*)mi_zalloc(LARGE + i);
    check(unit_is_zero(p, mi_usable_size(p)));
    memset(p, 1, mi_usable_size(p));
    mi_free(p);
    if (i == 1) mi_collect_all(MI_FORCE);
  }
}

// If this fails, growing a large block copies it although there is room behind it.
UNIT_TEST_PAGE_SIZES(large_grows_in_place) {
  uint8_t* const p = (uint8_t*)mi_malloc(LARGE);
  mi_page_t* const page = unit_page_of(p);
  fill_ends(p, LARGE, 1);
  for (size_t size = LARGE + 1; size < LARGE * 4; size += MI_SLICE_SIZE / 2 + 7) {
    check(mi_large_resize(page, size));
    check_equal(mi_usable_size(p), mi_bits_align_up(size, os_fake.page_size));
    check_equal(page->slice_count, mi_bits_divide_up(size, MI_SLICE_SIZE));
    check(is_filled_ends(p, LARGE, 1));
    page->start[mi_usable_size(p) - 1] = 7;
  }
  // Something is in the way.
  void* const wall = mi_malloc(LARGE);
  check((uint8_t*)wall == p + page->slice_count * MI_SLICE_SIZE);
  const size_t usable = mi_usable_size(p);
  check(!mi_large_resize(page, usable + MI_SLICE_SIZE));
  check_equal(mi_usable_size(p), usable);
  mi_free(wall);
  mi_free(p);
  check_equal(mi_state.main.count.large, mi_kept_count(&mi_state.main, NULL));
  unit_check_empty();
}

// If this fails, shrinking a large block keeps memory that nobody uses.
UNIT_TEST_PAGE_SIZES(large_shrinks_in_place) {
  uint8_t* const p = (uint8_t*)mi_malloc(LARGE * 4);
  mi_page_t* const page = unit_page_of(p);
  memset(p, 1, LARGE * 4);
  const size_t free_slices = unit_free_slices();
  check(mi_large_resize(page, LARGE));
  check_equal(unit_free_slices(), free_slices + LARGE * 3 / MI_SLICE_SIZE);
  check_equal(mi_usable_size(p), LARGE);
  mi_purge_everything(&mi_state.main);
  check_equal(os_fake_resident(p, LARGE * 4), LARGE);
  check_equal(p[LARGE - 1], 1);
  mi_free(p);
  unit_check_empty();
}

// A block that cannot grow in place; `*wall` is what is behind it.
static uint8_t* make_walled(size_t size, void** wall) {
  uint8_t* const p = (uint8_t*)mi_malloc(size);
  *wall = mi_malloc(LARGE);
  check(p != NULL && *wall != NULL);
  fill_ends(p, size, 5);
  return p;
}

// If this fails, growing a large block loses contents, or copies what could be moved.
UNIT_TEST_PAGE_SIZES(large_moves_without_copying) {
  void* wall;
  uint8_t* const p = make_walled(LARGE, &wall);
  uint8_t* const q = (uint8_t*)mi_large_move(unit_page_of(p), UNIT_HEAP, LARGE * 3);
  check(q != NULL && q != p && is_filled_ends(q, LARGE, 5));
  check(mi_pagemap_find(p) == NULL);
  check_equal(os_fake_calls(OS_FAKE_MOVE), 1);
  check_equal(mi_usable_size(q), LARGE * 3);
  check(unit_is_zero(q + LARGE, LARGE * 2));
  check_equal(os_fake_resident(p, LARGE), 0);
  q[LARGE * 3 - 1] = 1;
  // Room to grow once more.
  check(mi_large_resize(unit_page_of(q), LARGE * 3 + LARGE / 4));
  mi_free(q);
  mi_free(wall);
  check_equal(mi_state.main.count.large, mi_kept_count(&mi_state.main, NULL));
  mi_collect_all(MI_FORCE);
  unit_check_empty();
}

// If this fails, lists that grow again and again pay a fault for each OS page each time.
UNIT_TEST_PAGE_SIZES(large_is_copied_where_memory_was_touched) {
  const size_t size = 4 * MI_SLICE_SIZE;
  uint8_t* const before = (uint8_t*)mi_malloc(LARGE);
  uint8_t* const p = (uint8_t*)mi_large_alloc(UNIT_HEAP, size, MI_SLICE_SIZE, MI_UNINITIALIZED);
  void* const wall = mi_malloc(LARGE);
  memset(before, 1, LARGE);
  memset(p, 2, size);
  mi_free(before);
  uint8_t* const q = (uint8_t*)mi_large_move(unit_page_of(p), UNIT_HEAP, LARGE / 2);
  check(q == before && mi_usable_size(q) == LARGE / 2); // LARGE-6
  for (size_t i = 0; i < size; i++) check(q[i] == 2);
  check_equal(os_fake_calls(OS_FAKE_MOVE), 0);
  check_equal(os_fake_resident(p, size), size);
  check(mi_pagemap_find(p) == NULL);
  unit_check_valid();
  mi_free(q);
  mi_free(wall);
  mi_collect_all(MI_FORCE);
  unit_check_empty();
}

// If this fails, a system without such moves, or a failed one, breaks realloc.
UNIT_TEST_PAGE_SIZES(large_move_that_fails_changes_nothing) {
  void* wall;
  uint8_t* const p = make_walled(LARGE, &wall);
  const size_t used_slices = unit_used_slices();
  os_fake.fail_at[OS_FAKE_MOVE] = 1;
  check(mi_large_move(unit_page_of(p), UNIT_HEAP, LARGE * 3) == NULL);
  check(is_filled_ends(p, LARGE, 5) && mi_usable_size(p) == LARGE);
  check_equal(unit_used_slices(), used_slices);
  os_fake.has_move = false;
  uint8_t* const q = (uint8_t*)mi_realloc_block(mi_self_theap(), p, LARGE * 3, MI_UNINITIALIZED);
  check(q != NULL && is_filled_ends(q, LARGE, 5));
  mi_free(q);
  mi_free(wall);
  unit_check_empty();
}

static uint8_t* taken;

static void take_middle(void* to, size_t size) {
  taken = (uint8_t*)to + size / 2;
  os_fake_take(taken, os_fake.page_size);
}

// Tries to map something at what was taken, since the last move.
static size_t maps_over_taken(void) {
  size_t count = 0;
  for (size_t i = 0; i < os_fake.log_count && i < OS_FAKE_LOG_SIZE; i++) {
    const os_fake_entry_t* const entry = &os_fake.log[i];
    const bool is_over = entry->start <= taken && entry->start + entry->size > taken;
    if (entry->call == OS_FAKE_MOVE) count = 0;
    if (entry->call == OS_FAKE_MAP_AT && is_over) count++;
  }
  return count;
}

// If this fails, what another thread maps while a block cannot be moved is mapped over or unmapped,
// and then both write there.
static void check_taken(size_t size, size_t refused) {
  void* wall;
  uint8_t* const p = make_walled(size, &wall);
  os_fake.on_move_failed = &take_middle;
  os_fake.fail_at[OS_FAKE_MOVE] = 1;
  const size_t calls = os_fake_calls(OS_FAKE_MOVE);
  uint8_t* const q = (uint8_t*)mi_realloc_block(mi_self_theap(), p, size * 3, MI_UNINITIALIZED);
  check(q != NULL && is_filled_ends(q, size, 5));
  check_equal(os_fake_calls(OS_FAKE_MOVE), calls + 1);
  check_equal(maps_over_taken(), refused);
  check(taken != NULL && os_fake_state(taken) == OS_FAKE_TAKEN);
  memset(q, 3, size * 3);
  mi_free(q);
  mi_free(wall);
  mi_collect_all(MI_FORCE);
  check_equal(os_fake_state(taken), OS_FAKE_TAKEN);
  check_equal(mi_state.main.count.large, mi_kept_count(&mi_state.main, NULL));
  check(!mi_move_is_allowed(SIZE_MAX));
  unit_check_empty();
}

UNIT_TEST_PAGE_SIZES(large_move_that_fails_spares_what_others_map) { check_taken(LARGE, 1); }

UNIT_TEST_PAGE_SIZES(large_move_of_mappings_spares_what_others_map) {
  unit_option(arena_max_object_size, 4 * MI_MIB / MI_KIB);
  unit_option(arena_reserve, 8 * MI_MIB / MI_KIB);
  const int64_t committed = mi_state.main.count.committed;
  check_taken(5 * MI_MIB, 1);
  check_equal(mi_state.main.count.committed, committed);
}

// If this fails, the memory map of the process grows with every realloc, up to the kernel's limit.
UNIT_TEST_PAGE_SIZES(large_moved_ranges_are_renewed) {
  void* wall;
  void* const first = mi_malloc(LARGE);
  mi_free(first);
  const size_t mappings = os_fake_mapping_count();
  uint8_t* const p = make_walled(LARGE, &wall);
  uint8_t* const q = (uint8_t*)mi_large_move(unit_page_of(p), UNIT_HEAP, LARGE * 3);
  check(os_fake_mapping_count() > mappings);
  mi_free(q);
  mi_free(wall);
  mi_collect_all(MI_FORCE);
  // The range merges with its neighbours only if advice for huge pages is the same again.
  check_equal(os_fake_mapping_count(), mappings);
  uint8_t* const again = (uint8_t*)mi_zalloc(LARGE * 8);
  check(unit_is_zero(again, LARGE * 8));
  mi_free(again);
}

// If this fails, a long-running program copies large blocks although moving is possible again.
UNIT_TEST_PAGE_SIZES(large_moves_again_after_renewal) {
  static void* kept[2 * MOVED_MAX];
  for (size_t i = 0; i < 2 * MOVED_MAX; i++) {
    void* wall;
    uint8_t* const p = make_walled(LARGE, &wall);
    uint8_t* const q = (uint8_t*)mi_large_move(unit_page_of(p), UNIT_HEAP, LARGE * 3);
    check(q != NULL);
    mi_free(q);
    mi_free(wall);
    mi_collect_all(MI_FORCE);
    kept[i] = mi_malloc(LARGE); // so that the next one lies elsewhere
  }
  check_equal(mi_atomic_load_relaxed(&mi_state.moved_count), 0);
  for (size_t i = 0; i < 2 * MOVED_MAX; i++) mi_free(kept[i]);
}

// If this fails, moves use up the mappings a process may have.
UNIT_TEST(large_moves_are_bounded) {
  static void* kept[MOVED_MAX * 2];
  static void* wall[MOVED_MAX * 2];
  size_t moved = 0;
  for (size_t i = 0; i < MOVED_MAX * 2; i++) {
    uint8_t* const p = make_walled(LARGE, &wall[i]);
    kept[i] = mi_large_move(unit_page_of(p), UNIT_HEAP, LARGE * 3);
    if (kept[i] != NULL) moved++;
    if (kept[i] == NULL) kept[i] = p;
  }
  check_equal(moved, MOVED_MAX);
  check(os_fake_mapping_count() < 3 * MOVED_MAX);
  for (size_t i = 0; i < MOVED_MAX * 2; i++) {
    mi_free(kept[i]);
    mi_free(wall[i]);
  }
  mi_collect_all(MI_FORCE);
  check(os_fake_mapping_count() < 64);
  unit_check_empty();
}

// If this fails, they are used up by what moves leave of each other's ranges.
UNIT_TEST(large_counts_the_rest_of_a_moved_range) {
  uint8_t* const p = (uint8_t*)mi_malloc(LARGE);
  mi_arena_t* const arena = mi_arena_of(&mi_state.main, p);
  const size_t i = mi_arena_slice_of(arena, p);
  const struct {
    size_t at, count, ranges;
  } move[] = {{0, 10, 1}, {0, 5, 2}, {2, 1, 4}, {2, 1, 4}, {1, 3, 4}, {0, 10, 1}};
  for (size_t m = 0; m < sizeof(move) / sizeof(move[0]); m++) {
    mi_move_note(arena, i + move[m].at, move[m].count);
    check_equal(mi_atomic_load_relaxed(&mi_state.moved_count), move[m].ranges);
  }
  mi_free(p);
  mi_purge_everything(&mi_state.main);
  check_equal(mi_atomic_load_relaxed(&mi_state.moved_count), 0);
  unit_check_empty();
}

// Two blocks that were written to and freed, each before one in use: [first][wall][second][wall].
static uint8_t* make_waiting(void* wall[2]) {
  uint8_t* const first = make_walled(LARGE, &wall[0]);
  uint8_t* const second = make_walled(LARGE, &wall[1]);
  check(second == first + 2 * LARGE && (uint8_t*)wall[1] == first + 3 * LARGE);
  memset(first, 1, 4 * LARGE);
  mi_free(first);
  mi_free(second);
  return first;
}

// If this fails, a program whose large blocks change their sizes grows although memory waits.
UNIT_TEST_PAGE_SIZES(large_takes_what_waits_elsewhere) {
  unit_reserve(64 * LARGE); // one arena for all
  mi_free(mi_malloc(LARGE));
  const size_t mappings = os_fake_mapping_count();
  void* wall[2];
  uint8_t* const first = make_waiting(wall);
  uint8_t* const p = (uint8_t*)mi_malloc(3 * LARGE);
  check(p == first + 4 * LARGE);
  check_equal(os_fake_calls(OS_FAKE_MOVE), 2);
  check_equal(os_fake_resident(p, 3 * LARGE), 2 * LARGE);
  check_equal(os_fake_resident(first, 4 * LARGE), 2 * LARGE);
  memset(p, 2, 3 * LARGE);
  uint8_t* const zero = (uint8_t*)mi_zalloc(LARGE);
  check(zero == first && unit_is_zero(zero, LARGE));
  void* const other = mi_malloc(LARGE);
  void* const behind = mi_malloc(LARGE);
  mi_free(p);
  // It lies in three mappings now, and all of them move on.
  uint8_t* const q = (uint8_t*)mi_malloc(4 * LARGE);
  check(q == (uint8_t*)behind + LARGE);
  check_equal(os_fake_calls(OS_FAKE_MOVE), 5);
  check_equal(os_fake_resident(q, 4 * LARGE), 3 * LARGE);
  check_equal(mi_atomic_load_relaxed(&mi_state.moved_count), 3);
  memset(q, 3, 4 * LARGE);
  check_equal(*(uint8_t*)wall[0], 1);
  check_equal(*((uint8_t*)wall[1] + LARGE - 1), 1);
  void* const blocks[] = {zero, other, q, behind, wall[0], wall[1]};
  for (size_t i = 0; i < sizeof(blocks) / sizeof(blocks[0]); i++) mi_free(blocks[i]);
  mi_purge_everything(&mi_state.main);
  check_equal(mi_atomic_load_relaxed(&mi_state.moved_count), 0);
  check_equal(os_fake_resident(first, 12 * LARGE), 0);
  check_equal(os_fake_mapping_count(), mappings);
  mi_collect_all(MI_FORCE);
  unit_check_empty();
}

// If this fails, calloc of a table that stays nearly empty is as large as the table.
UNIT_TEST_PAGE_SIZES(large_zero_memory_takes_nothing) {
  void* wall[2];
  uint8_t* const first = make_waiting(wall);
  uint8_t* const p = (uint8_t*)mi_zalloc(3 * LARGE);
  check_equal(os_fake_calls(OS_FAKE_MOVE), 0);
  check_equal(os_fake_resident(p, 3 * LARGE), 0);
  check_equal(os_fake_resident(first, 4 * LARGE), 4 * LARGE);
  mi_free(p);
  mi_free(wall[0]);
  mi_free(wall[1]);
  mi_collect_all(MI_FORCE);
  unit_check_empty();
}

// If this fails, a large block has a hole, or memory is lost, where the system cannot move.
UNIT_TEST_PAGE_SIZES(large_takes_nothing_where_moves_fail) {
  for (size_t fail_at = 0; fail_at <= 2; fail_at++) {
    os_fake.has_move = fail_at != 0;
    os_fake.fail_at[OS_FAKE_MOVE] = fail_at;
    const size_t calls = os_fake_calls(OS_FAKE_MOVE);
    void* wall[2];
    uint8_t* const first = make_waiting(wall);
    uint8_t* const p = (uint8_t*)mi_malloc(3 * LARGE);
    const size_t moved = fail_at == 2 ? LARGE : 0;
    check_equal(os_fake_calls(OS_FAKE_MOVE) - calls, fail_at == 2 ? 2 : 1);
    check_equal(os_fake_resident(p, 3 * LARGE), moved);
    check_equal(os_fake_resident(first, 4 * LARGE), 4 * LARGE - moved);
    check(unit_is_zero(p + moved, 3 * LARGE - moved));
    memset(p, 2, 3 * LARGE);
    mi_free(p);
    mi_free(wall[0]);
    mi_free(wall[1]);
    mi_purge_everything(&mi_state.main);
    check_equal(os_fake_resident(first, 12 * LARGE), 0);
    check_equal(mi_state.main.purge_waiting, 0);
    os_fake.fail_at[OS_FAKE_MOVE] = 0;
  }
  mi_collect_all(MI_FORCE);
  unit_check_empty();
}

// If this fails, what another thread maps meanwhile becomes part of a block.
UNIT_TEST_PAGE_SIZES(large_takes_nothing_where_others_map) {
  void* wall[2];
  make_waiting(wall);
  os_fake.on_move_failed = &take_middle;
  os_fake.fail_at[OS_FAKE_MOVE] = 1;
  uint8_t* const p = (uint8_t*)mi_malloc(3 * LARGE);
  check(p != NULL && (taken < p || taken >= p + 3 * LARGE));
  unit_check_valid();
  memset(p, 2, 3 * LARGE);
  mi_free(p);
  // What is left of the run around it is as any free memory: used, and then zero for who asks that.
  uint8_t* const around = (uint8_t*)mi_malloc(2 * LARGE - MI_SLICE_SIZE);
  memset(around, 3, 2 * LARGE - MI_SLICE_SIZE);
  mi_free(around);
  for (size_t i = 0; i < 8; i++) {
    uint8_t* const zero = (uint8_t*)mi_zalloc(LARGE - i * MI_SLICE_SIZE);
    check(unit_is_zero(zero, LARGE - i * MI_SLICE_SIZE));
    memset(zero, 4, LARGE - i * MI_SLICE_SIZE);
    mi_free(zero);
    unit_check_valid();
  }
  mi_free(wall[0]);
  mi_free(wall[1]);
  mi_collect_all(MI_FORCE);
  check_equal(os_fake_state(taken), OS_FAKE_TAKEN);
  unit_check_empty();
}

// If this fails, taking what waits uses up the mappings a process may have.
UNIT_TEST(large_takes_a_bounded_number_of_pieces) {
  enum { COUNT = MOVED_MAX + 100 };
  static void* freed[COUNT];
  static void* kept[2 * COUNT];
  for (size_t i = 0; i < COUNT; i++) {
    freed[i] = mi_malloc(MI_CLASS_MAX + 1);
    kept[i] = mi_malloc(MI_CLASS_MAX + 1);
  }
  mi_atomic_store_relaxed(&mi_state.main.retain_more, (int64_t)1 << 40); // RETAIN-6: all may wait
  for (size_t i = 0; i < COUNT; i++) mi_free(freed[i]);
  for (size_t i = 0; i < COUNT / 2; i++) kept[COUNT + i] = mi_malloc(2 * LARGE);
  const size_t calls = os_fake_calls(OS_FAKE_MOVE);
  check(calls <= MOVED_MAX && (MI_IS_TINY || calls == MOVED_MAX)); // tiny arenas hold few blocks
  for (size_t i = 0; i < COUNT + COUNT / 2; i++) mi_free(kept[i]);
  mi_collect_all(MI_FORCE);
  check_equal(mi_atomic_load_relaxed(&mi_state.moved_count), 0);
  unit_check_empty();
}

// If this fails, blocks above the size of an arena cannot be had or stay mapped.
UNIT_TEST_PAGE_SIZES(large_direct_mappings) {
  unit_option(arena_max_object_size, 4 * MI_MIB / MI_KIB);
  unit_option(arena_reserve, 8 * MI_MIB / MI_KIB);
  mi_process_setup();
  const size_t size = 4 * MI_MIB + 1;
  void* const small = mi_malloc(10);
  const size_t mapped = os_fake.mapped;
  const int64_t committed = mi_state.main.count.committed;
  uint8_t* p = (uint8_t*)mi_malloc(size);
  mi_page_t* page = unit_page_of(p);
  check_equal(page->backing, MI_BACKING_DIRECT);
  fill_ends(p, mi_usable_size(p), 3);
  check(is_filled_ends(p, mi_usable_size(p), 3));
  check(mi_arena_of(&mi_state.main, p) == NULL);
  const size_t tables = 2 * mi_bits_align_up(sizeof(mi_pagemap.none), os_fake.page_size);
  check(os_fake.mapped <= mapped + size + MI_SLICE_SIZE + tables);
  mi_free(p);
  check(mi_pagemap_find(p) == NULL);
  check(os_fake_state(p) == OS_FAKE_UNMAPPED && os_fake.mapped <= mapped + tables);
  check_equal(mi_state.main.count.committed, committed);
  // Shrinks by giving back the end, grows by moving.
  p = (uint8_t*)mi_zalloc(8 * MI_MIB);
  fill_ends(p, 5 * MI_MIB, 9);
  check(mi_realloc_block(mi_self_theap(), p, 5 * MI_MIB, MI_ZERO) == p);
  check(os_fake_state(p + 6 * MI_MIB) == OS_FAKE_UNMAPPED);
  uint8_t* const q = (uint8_t*)mi_realloc_block(mi_self_theap(), p, 16 * MI_MIB, MI_ZERO);
  check(q != NULL && is_filled_ends(q, 5 * MI_MIB, 9));
  check(unit_is_zero(q + 5 * MI_MIB, 11 * MI_MIB));
  mi_free(q);
  check(os_fake.mapped <= mapped + tables);
  mi_free(small);
}

// If this fails, aligned memory is not aligned, or cannot be freed.
UNIT_TEST_PAGE_SIZES(large_alignment_up_to_a_gigabyte) {
  for (size_t alignment = MI_SLICE_SIZE; alignment <= MI_GIB; alignment *= 4) {
    for (size_t size = 1; size <= MI_CLASS_MAX * 4; size = size * 37 + 1) {
      uint8_t* const p =
          (uint8_t*)mi_aligned_alloc_at(mi_self_theap(), size, alignment, 0, MI_ZERO);
      check(p != NULL && (uintptr_t)p % alignment == 0 && mi_usable_size(p) >= size);
      check(unit_is_zero(p, size));
      memset(p, 1, size);
      mi_free(p);
    }
  }
  check_equal(hooks_fake.error_count, 0);
  mi_collect_all(MI_FORCE);
  unit_check_empty();
}

// If this fails, memory with an aligned offset is misaligned or cannot be freed.
UNIT_TEST_PAGE_SIZES(large_shifted_results) {
  const size_t shifts[] = {8, MI_SLICE_SIZE - 8, MI_SLICE_SIZE, MI_SLICE_SIZE * 3 + 40};
  mi_process_setup();
  for (size_t i = 0; i < 4; i++) {
    const size_t alignment = MI_SLICE_SIZE * 4;
    uint8_t* const p =
        (uint8_t*)mi_large_alloc_shifted(UNIT_HEAP, LARGE, alignment, shifts[i], MI_ZERO);
    mi_page_t* const page = unit_page_of(p);
    check((uintptr_t)(p - shifts[i]) % alignment == 0 && page->start == p - shifts[i]);
    check(mi_usable_size(p) >= LARGE && unit_is_zero(p, LARGE));
    memset(p, 1, mi_usable_size(p));
    // LARGE-2: found from both ends of the part that is skipped.
    check(mi_pagemap_find(p) == page && mi_pagemap_find(page->start) == page);
    check(mi_large_resize(page, LARGE * 2 + shifts[i]));
    check_equal(mi_usable_size(p), page->block_size - shifts[i]);
    uint8_t* const start = page->start;
    mi_free(p);
    for (size_t at = 0; at <= shifts[i]; at += MI_SLICE_SIZE / 2) {
      check(mi_pagemap_find(start + at) == NULL);
    }
  }
  check_equal(hooks_fake.error_count, 0);
  unit_check_empty();
}

// If this fails, one aligned block whose result is far behind its start makes gigabytes of
// descriptors resident for ever.
UNIT_TEST_ON(large_shift_takes_no_memory, 64 * MI_GIB) {
  mi_free(mi_malloc(LARGE));
  const size_t shift = 16 * MI_GIB - 64;
  const size_t resident = os_fake_resident_all();
  uint8_t* const p =
      (uint8_t*)mi_large_alloc_shifted(UNIT_HEAP, LARGE, MI_SLICE_SIZE, shift, MI_UNINITIALIZED);
  check(p != NULL);
  memset(p, 1, LARGE);
  mi_page_t* const page = unit_page_of(p);
  check(page->start == p - shift && mi_pagemap_find(page->start) == page); // LARGE-2
  check(mi_pagemap_find(p - MI_SLICE_SIZE) == NULL);
  check(os_fake_resident_all() - resident <= LARGE + 64 * MI_KIB);
  check_equal(mi_usable_size(p), mi_bits_align_up(LARGE + shift, os_fake.page_size) - shift);
  mi_free(p);
  check(mi_pagemap_find(p) == NULL && mi_pagemap_find(p - shift) == NULL);
  check_equal(hooks_fake.error_count, 0);
  unit_check_empty();
}

// If this fails, free of an address inside a large block takes memory away that is in use.
UNIT_TEST_PAGE_SIZES(large_free_of_a_wrong_address_is_reported) {
  uint8_t* const p = (uint8_t*)mi_malloc(LARGE);
  mi_free(p + 16);
  check_equal(hooks_fake.count[MI_ERROR_INTERIOR_POINTER], 1);
  check(hooks_fake.report.p == p + 16 && mi_usable_size(p) == LARGE);
  mi_free(p + MI_SLICE_SIZE + 8);
  check_equal(hooks_fake.error_count, 2);
  check_equal(mi_usable_size(p), LARGE);
  mi_free(p);
  mi_free(p);
  check_equal(hooks_fake.count[MI_ERROR_INVALID_POINTER], hooks_fake.error_count - 1);
  uint8_t* const q =
      (uint8_t*)mi_large_alloc_shifted(UNIT_HEAP, LARGE, MI_SLICE_SIZE, 64, MI_UNINITIALIZED);
  const size_t errors = hooks_fake.error_count;
  mi_free(q - 64);
  mi_free(q + 8);
  check_equal(hooks_fake.error_count, errors + 2);
  mi_free(q);
  check_equal(hooks_fake.error_count, errors + 2);
  unit_check_empty();
}

// If this fails, `committed` forgets what a block uses beyond the one that was there before it.
UNIT_TEST(large_in_place_of_another_is_charged_for_more) {
  mi_process_setup();
  for (size_t k = 0; k < 2; k++) { // a kept block, then the spare run
    const size_t size = (k * MI_KEPT_SLICES_MAX + 20) * MI_SLICE_SIZE;
    unsigned char* const first = mi_malloc(size - 8 * mi_state.os.page_size);
    const int64_t before = mi_atomic_load_relaxed(&mi_state.main.count.charged);
    const size_t block_size = unit_page_of(first)->block_size;
    if (unit_page_of(first)->arena == NULL) break; // there are small arenas only
    mi_free(first);
    check_equal(mi_atomic_load_relaxed(&mi_state.main.count.charged), before);
    unsigned char* const second = mi_malloc(size - 2 * mi_state.os.page_size);
    const int64_t more = (int64_t)(unit_page_of(second)->block_size - block_size);
    check(second == first && more > 0 && mi_state.main.count.charged == before + more);
    mi_free(second);
  }
}

// If this fails, a large block under strict overcommit is charged beyond its size.
UNIT_TEST_PAGE_SIZES(large_without_overcommit) {
  os_fake.has_overcommit = false;
  void* const small = mi_malloc(10);
  const size_t committed = os_fake.committed;
  uint8_t* p = (uint8_t*)mi_malloc(LARGE);
  check_equal(os_fake.committed, committed + LARGE);
  fill_ends(p, LARGE, 1);
  void* const wall = mi_malloc(LARGE);
  p = (uint8_t*)mi_realloc_block(mi_self_theap(), p, LARGE * 3, MI_UNINITIALIZED);
  check(p != NULL && is_filled_ends(p, LARGE, 1));
  check_equal(os_fake_calls(OS_FAKE_MOVE), 0);
  os_fake.commit_limit = os_fake.committed + LARGE;
  check(mi_malloc(LARGE * 4) == NULL);
  check_equal(hooks_fake.count[MI_ERROR_OUT_OF_MEMORY], 1);
  mi_free(p);
  mi_free(wall);
  mi_free(small);
  mi_collect_all(MI_FORCE);
  unit_check_empty();
}

#define MUCH (128 * MI_SLICE_SIZE) // from here on a tail is not cleared by hand

// If this fails, a zeroed array that grows takes memory for what is not used yet.
UNIT_TEST_PAGE_SIZES(large_tail_is_not_cleared_by_hand) {
  mi_process_setup();
  unit_option(arena_reserve, 64 * MUCH / MI_KIB);
  unit_option(arena_max_object_size, 64 * MUCH / MI_KIB);
  uint8_t* const old = (uint8_t*)mi_malloc(4 * MUCH);
  memset(old, 1, 4 * MUCH);
  mi_free(old);
  const size_t first = MUCH / 2 + os_fake.page_size;
  uint8_t* p = (uint8_t*)mi_zalloc(first);
  check(p == old);
  memset(p, 2, first);
  p = (uint8_t*)mi_realloc_block(mi_self_theap(), p, 3 * MUCH, MI_ZERO);
  check(p == old);
  check_equal(os_fake_resident(p, 3 * MUCH), first);
  check_equal(p[first - 1], 2);
  check(unit_is_zero(p + first, 3 * MUCH - first));
  mi_free(p);
  // A block that does not start at an OS page.
  void* const other = mi_malloc(MI_SLICE_SIZE);
  p = (uint8_t*)mi_large_alloc_shifted(UNIT_HEAP, MUCH + 100, MI_SLICE_SIZE, 8, MI_ZERO);
  check(unit_is_zero(p, MUCH + 100));
  mi_free(p);
  mi_free(other);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(large_in_place_of_another_is_charged_for_more),
      cmocka_unit_test(large_tail_is_not_cleared_by_hand),
      cmocka_unit_test(large_blocks_are_whole_os_pages),
      cmocka_unit_test(large_freed_runs_are_used_again),
      cmocka_unit_test(large_zeroes_what_is_not_zero),
      cmocka_unit_test(large_grows_in_place),
      cmocka_unit_test(large_shrinks_in_place),
      cmocka_unit_test(large_moves_without_copying),
      cmocka_unit_test(large_is_copied_where_memory_was_touched),
      cmocka_unit_test(large_move_that_fails_changes_nothing),
      cmocka_unit_test(large_move_that_fails_spares_what_others_map),
      cmocka_unit_test(large_move_of_mappings_spares_what_others_map),
      cmocka_unit_test(large_moved_ranges_are_renewed),
      cmocka_unit_test(large_moves_again_after_renewal),
      cmocka_unit_test(large_moves_are_bounded),
      cmocka_unit_test(large_counts_the_rest_of_a_moved_range),
      cmocka_unit_test(large_takes_what_waits_elsewhere),
      cmocka_unit_test(large_zero_memory_takes_nothing),
      cmocka_unit_test(large_takes_nothing_where_moves_fail),
      cmocka_unit_test(large_takes_nothing_where_others_map),
      cmocka_unit_test(large_takes_a_bounded_number_of_pieces),
      cmocka_unit_test(large_direct_mappings),
      cmocka_unit_test(large_alignment_up_to_a_gigabyte),
      cmocka_unit_test(large_shifted_results),
      cmocka_unit_test(large_shift_takes_no_memory),
      cmocka_unit_test(large_free_of_a_wrong_address_is_reported),
      cmocka_unit_test(large_without_overcommit),
  };
  return cmocka_run_group_tests_name("large", tests, NULL, NULL);
}
