// SPDX-License-Identifier: MIT
// reserve.c - tests of arenas/reserve.c and numa.c, and of the arenas of arenas/arena.c that
// somebody asked for: memory of the program, explicit huge OS pages, NUMA nodes.
#include "unit.h"

#include "core/arenas/numa.h"
#include "core/common/pagemap.h"
#include "core/arenas/purge.h"
#include "core/arenas/reserve.h"
#include "core/heaps/subproc.h"
#include "core/arenas/slices.h"

#define UNIT_SLICES (MI_RESERVE_UNIT / MI_SLICE_SIZE)
#define GIANT_SLICES (MI_GIB / MI_SLICE_SIZE)
#define GIANT_RESERVE (16 * MI_GIB) // addresses for some of them; an emulator gives fewer

static bool try_claim(mi_heap_t* heap, size_t count, mi_run_t* run) {
  return mi_slices_claim(heap, count, MI_SLICE_SIZE, 0, run);
}

static mi_run_t claim(mi_heap_t* heap, size_t count) {
  mi_run_t run = {0};
  check(try_claim(heap, count, &run));
  return run;
}

static void release(const mi_run_t* run) {
  mi_slices_release(run->arena, run->slice_index, run->slice_count, MI_SLICE_SIZE);
}

static void fill(const mi_run_t* run) { memset(run->start, 1, run->slice_count * MI_SLICE_SIZE); }

static int64_t committed(void) { return mi_atomic_load_relaxed(&mi_state.main.count.committed); }

// Memory of the program, as it is before it is handed over.
static mi_arena_plan_t brought(mi_os_access_t access) {
  mi_process_setup();
  uint8_t* const p = (uint8_t*)mi_os_map(NULL, MI_RESERVE_UNIT, MI_RESERVE_UNIT, access);
  check(p != NULL);
  return (mi_arena_plan_t){.start = p,
                           .size = MI_RESERVE_UNIT,
                           .is_committed = access == MI_OS_READ_WRITE,
                           .is_foreign = true,
                           .numa_node = -1};
}

static mi_arena_t* manage(const mi_arena_plan_t* plan) {
  mi_arena_t* const arena = mi_arena_manage(&mi_state.main, plan);
  check(arena != NULL);
  return arena;
}

// If this fails, a program that reserves memory gets less than it asked for, or none.
UNIT_TEST_PAGE_SIZES(reserve_rounds_up) {
  mi_process_setup();
  const size_t sizes[] = {0, 1, MI_RESERVE_UNIT, MI_RESERVE_UNIT + 1};
  const size_t units[] = {1, 1, 1, 2};
  for (size_t i = 0; i < 4; i++) {
    mi_arena_plan_t plan = {.size = sizes[i], .numa_node = -1};
    const mi_arena_t* const arena = mi_reserve_memory(&mi_state.main, &plan, MI_ARENA_COMMITTED);
    check(arena != NULL && arena->is_committed && !arena->is_pinned);
    check_equal(arena->slice_count, units[i] * UNIT_SLICES);
  }
  mi_arena_plan_t plan = {.size = SIZE_MAX, .numa_node = -1};
  check(mi_reserve_memory(&mi_state.main, &plan, MI_ARENA_COMMITTED) == NULL);
  check_equal(mi_state.main.arena_count, 4);
}

// If this fails, memory that was reserved only is charged, or cannot be used.
UNIT_TEST_PAGE_SIZES(reserve_commits_when_asked) {
  mi_process_setup();
  const size_t before = os_fake.committed;
  mi_arena_plan_t plan = {.size = 1, .numa_node = -1};
  mi_arena_t* const arena = mi_reserve_memory(&mi_state.main, &plan, MI_ARENA_RESERVED);
  check(os_fake_state(arena->start) == OS_FAKE_RESERVED);
  check(os_fake.committed - before < MI_RESERVE_UNIT);
  const mi_run_t run = claim(UNIT_HEAP, 2);
  fill(&run);
  release(&run);
  mi_purge_everything(&mi_state.main);
  check(os_fake_state(arena->start) == OS_FAKE_RESERVED);
}

// If this fails, large OS pages are not used although there are some, are given back one by one, or
// a machine without them gets no memory.
UNIT_TEST(reserve_takes_large_pages_or_normal_ones) {
  mi_process_setup();
  const size_t pages = MI_RESERVE_UNIT / os_fake.huge_page_size;
  mi_arena_plan_t plan = {.size = 1, .numa_node = -1};
  os_fake.large_free = pages - 1;
  check(!mi_reserve_memory(&mi_state.main, &plan, MI_ARENA_LARGE)->is_pinned);
  os_fake.large_free = pages;
  const mi_arena_t* const arena = mi_reserve_memory(&mi_state.main, &plan, MI_ARENA_LARGE);
  check(arena->is_pinned && arena->is_committed);
  check_equal(os_fake.large_free, 0);
  mi_run_t run[2] = {claim(UNIT_HEAP, UNIT_SLICES), claim(UNIT_HEAP, UNIT_SLICES)};
  check(run[1].arena == arena && run[1].is_zero);
  for (size_t i = 0; i < 2; i++) fill(&run[i]);
  mi_atomic_store_relaxed(&mi_state.main.retain_more, (int64_t)1 << 40); // RETAIN-6: all may wait
  for (size_t i = 0; i < 2; i++) release(&run[i]);
  check_equal(mi_purge_everything(&mi_state.main), MI_RESERVE_UNIT); // os_fake ends us for more
  check_equal(committed(), MI_RESERVE_UNIT);
  for (size_t i = 0; i < 2; i++) run[i] = claim(UNIT_HEAP, UNIT_SLICES);
  check(run[0].is_zero && !run[1].is_zero);
  for (size_t i = 0; i < 2; i++) release(&run[i]);
}

// If this fails, option allow_large_os_pages does nothing, or takes memory for good that is not
// there.
UNIT_TEST(reserve_large_pages_are_an_option) {
  const size_t slices = os_fake.huge_page_size / MI_SLICE_SIZE;
  mi_process_setup();
  unit_option(allow_large_os_pages, 1);
  unit_option(arena_reserve, 4 * os_fake.huge_page_size / MI_KIB);
  os_fake.large_free = 5;
  mi_run_t run[3];
  for (size_t i = 0; i < 3; i++) run[i] = claim(UNIT_HEAP, i == 1 ? slices : 4 * slices);
  check(run[0].arena->is_pinned && run[0].arena->slice_count == 4 * slices);
  check(run[1].arena->is_pinned); // smaller steps, down to what is needed
  check(!run[2].arena->is_pinned);
  check_equal(os_fake.large_free, 0);
  for (size_t i = 0; i < 3; i++) release(&run[i]);
  unit_option(allow_large_os_pages, 0);
  os_fake.large_free = 100;
  run[0] = claim(UNIT_HEAP, 4 * slices + 1);
  check(!run[0].arena->is_pinned);
  release(&run[0]);
}

static mi_arena_t* reserve_giant(size_t pages, uint64_t timeout_ms) {
  mi_arena_plan_t plan = {.numa_node = -1};
  return mi_reserve_giant_pages(&mi_state.main, &plan, pages, timeout_ms);
}

// If this fails, 1 GiB pages are not used, or what could not be had of them is lost.
UNIT_TEST_ON(reserve_takes_giant_pages_one_by_one, GIANT_RESERVE) {
  mi_process_setup();
  check(reserve_giant(1, 0) == NULL);
  check_equal(mi_state.main.arena_count, 0);
  os_fake.giant_free = 5;
  const mi_arena_t* const two = reserve_giant(2, 0);
  check(two->slice_count == 2 * GIANT_SLICES && two->is_pinned && two->is_committed);
  check((uintptr_t)two->start % MI_GIB == 0);
  check_equal(os_fake_calls(OS_FAKE_POPULATE), 2);
  const mi_arena_t* const rest = reserve_giant(4, 0);
  check_equal(rest->slice_count, 3 * GIANT_SLICES);
  const mi_run_t run = claim(UNIT_HEAP, 1);
  check(run.arena == two);
  release(&run);
}

// If this fails, a program waits for minutes although it said for how long it would.
UNIT_TEST_ON(reserve_stops_when_giant_pages_take_too_long, GIANT_RESERVE) {
  mi_process_setup();
  os_fake.giant_free = 100;
  os_fake.giant_us = 100 * 1000;
  // Four pages would take 400 ms.
  check_equal(reserve_giant(4, 200)->slice_count, 4 * GIANT_SLICES);
  check_equal(reserve_giant(4, 199)->slice_count, GIANT_SLICES);
  check_equal(reserve_giant(4, 0)->slice_count, 4 * GIANT_SLICES);
}

// If this fails, memory of somebody else becomes part of an arena.
UNIT_TEST_ON(reserve_stops_when_addresses_are_taken, GIANT_RESERVE) {
  mi_process_setup();
  os_fake.giant_free = 4;
  const mi_arena_t* const first = reserve_giant(1, 0);
  uint8_t* const end = first->start + MI_GIB;
  check(mi_os_map(end + 2 * MI_GIB, 65536, 65536, MI_OS_READ_WRITE) == end + 2 * MI_GIB);
  const mi_arena_t* const second = reserve_giant(3, 0);
  check(second->start == end && second->slice_count == 2 * GIANT_SLICES);
  check_equal(os_fake_calls(OS_FAKE_UNMAP), 1);
  check(os_fake_state(end + 2 * MI_GIB) == OS_FAKE_COMMITTED);
}

// If this fails, option reserve_huge_os_pages does nothing, or one node gets all of the pages.
UNIT_TEST(reserve_giant_pages_are_an_option) {
  os_fake.numa_nodes = 2;
  os_fake.giant_free = 8;
  unit_option(reserve_huge_os_pages, 3);
  mi_process_setup();
  check_equal(mi_state.main.arena_count, 2);
  const mi_arena_t* const first = mi_atomic_load_acquire(&mi_state.main.arenas);
  check(first->numa_node == 0 && first->slice_count == 2 * GIANT_SLICES);
  const mi_arena_t* const last = mi_state.main.arena_last;
  check(last->numa_node == 1 && last->slice_count == GIANT_SLICES);
  check_equal(os_fake_calls(OS_FAKE_PREFER_NODE), 3);
}

// If this fails, option reserve_huge_os_pages_at is ignored.
UNIT_TEST(reserve_giant_pages_go_to_one_node) {
  os_fake.numa_nodes = 2;
  os_fake.giant_free = 8;
  unit_option(reserve_huge_os_pages, 3);
  unit_option(reserve_huge_os_pages_at, 1);
  mi_process_setup();
  check_equal(mi_state.main.arena_count, 1);
  check(mi_state.main.arena_last->numa_node == 1 && os_fake.preferred_node == 1);
  check_equal(mi_state.main.arena_last->slice_count, 3 * GIANT_SLICES);
}

// If this fails, option reserve_os_memory does nothing, or nobody learns that it could not be done.
UNIT_TEST(reserve_memory_is_an_option) {
  unit_option(reserve_os_memory, MI_RESERVE_UNIT / MI_KIB + 1);
  mi_process_setup();
  check_equal(mi_state.main.arena_last->slice_count, 2 * UNIT_SLICES);
  check_equal(hooks_fake.warning_count, 0);
}

UNIT_TEST(reserve_warns_when_refused) {
  unit_option(reserve_os_memory, (size_t)1 << 40);
  unit_option(reserve_huge_os_pages, 1);
  mi_process_setup();
  check_equal(mi_state.main.arena_count, 0);
  check_equal(hooks_fake.warning_count, 2);
}

// If this fails, a program on a machine with several nodes computes in memory that is far away.
UNIT_TEST_PAGE_SIZES(reserve_heap_gets_memory_of_its_node) {
  os_fake.numa_nodes = 3;
  mi_process_setup();
  unit_option(arena_reserve, UNIT_ARENA_SIZE / MI_KIB);
  const mi_run_t other = claim(UNIT_HEAP, 1);
  check_equal(other.arena->numa_node, -1);
  mi_heap_t* const heap = mi_heap_make(&mi_state.main, NULL);
  mi_atomic_store_relaxed(&heap->numa_wish, 1 + mi_numa_node(7)); // 1
  const mi_run_t run = claim(heap, 1);
  check_equal(run.arena->numa_node, 1);
  check_equal(os_fake.preferred_node, 1);
  const mi_run_t more = claim(heap, 1);
  check(more.arena == run.arena);
  // Better far away than nothing.
  unit_option(disallow_os_alloc, 1);
  const mi_run_t rest = claim(heap, mi_arena_slices(run.arena) - 2);
  const mi_run_t far_away = claim(heap, 1);
  check(far_away.arena == other.arena);
  release(&far_away);
  release(&rest);
  release(&more);
  release(&run);
  release(&other);
}

// If this fails, option arena_is_numa_local does nothing.
UNIT_TEST_PAGE_SIZES(reserve_threads_get_memory_of_their_node) {
  os_fake.numa_nodes = 2;
  mi_process_setup();
  unit_option(arena_is_numa_local, 1);
  mi_run_t run[2][2];
  for (size_t round = 0; round < 2; round++) {
    for (size_t node = 0; node < 2; node++) {
      os_fake.numa_node = node;
      run[round][node] = claim(UNIT_HEAP, 1);
      check_equal(run[round][node].arena->numa_node, node);
    }
  }
  check_equal(mi_state.main.arena_count, 2);
  for (size_t i = 0; i < 4; i++) release(&run[i / 2][i % 2]);
}

// If this fails, machines with one node pay for nodes, or option use_numa_nodes does nothing.
UNIT_TEST(reserve_knows_how_many_nodes_there_are) {
  mi_process_setup();
  check_equal(mi_numa_count(), 1);
  check(mi_numa_node(0) == -1 && mi_numa_node(5) == -1);
  unit_option(arena_is_numa_local, 1);
  const mi_run_t run = claim(UNIT_HEAP, 1);
  check(run.arena->numa_node == -1);
  check_equal(os_fake_calls(OS_FAKE_PREFER_NODE), 0);
  release(&run);
  unit_option(use_numa_nodes, 4);
  check_equal(mi_numa_count(), 4);
  check(mi_numa_node(6) == 2 && mi_numa_node(-1) == -1);
}

// If this fails, memory of the program is unmapped or made inaccessible behind its back.
UNIT_TEST_PAGE_SIZES(reserve_leaves_memory_of_the_program_alone) {
  mi_run_t runs[2];
  for (size_t is_reserved = 0; is_reserved < 2; is_reserved++) {
    const int64_t before = committed();
    const mi_arena_plan_t plan = brought(is_reserved ? MI_OS_NO_ACCESS : MI_OS_READ_WRITE);
    mi_arena_t* const arena = manage(&plan);
    unit_option(disallow_os_alloc, 1);
    mi_run_t run = claim(UNIT_HEAP, UNIT_SLICES);
    check(run.arena == arena && run.is_zero);
    fill(&run);
    release(&run);
    check_equal(mi_purge_everything(&mi_state.main), MI_RESERVE_UNIT);
    check_equal(committed(), before);
    check_equal(os_fake_calls(OS_FAKE_DECOMMIT), 0);
    check_equal(os_fake_calls(OS_FAKE_REMAP) + os_fake_calls(OS_FAKE_MOVE), 0);
    check(os_fake_state(plan.start) == OS_FAKE_COMMITTED);
    run = claim(UNIT_HEAP, UNIT_SLICES);
    check(!run.is_zero); // a file has its contents again
    fill(&run);
    runs[is_reserved] = run;
  }
  for (size_t i = 0; i < 2; i++) release(&runs[i]);
}

// If this fails, calloc in memory of the program is not zero.
UNIT_TEST_PAGE_SIZES(reserve_believes_what_is_zero) {
  mi_run_t runs[2];
  for (size_t is_reserved = 0; is_reserved < 2; is_reserved++) {
    mi_arena_plan_t plan = brought(is_reserved ? MI_OS_NO_ACCESS : MI_OS_READ_WRITE);
    plan.is_dirty = true;
    plan.is_pinned = true;
    manage(&plan);
    unit_option(disallow_os_alloc, 1);
    runs[is_reserved] = claim(UNIT_HEAP, UNIT_SLICES);
    check(!runs[is_reserved].is_zero);
    check_equal(committed(), (is_reserved + 1) * MI_RESERVE_UNIT);
    fill(&runs[is_reserved]);
  }
  for (size_t i = 0; i < 2; i++) release(&runs[i]);
}

// If this fails, one address is handed out twice.
UNIT_TEST_PAGE_SIZES(reserve_refuses_what_is_in_use) {
  mi_arena_plan_t plan = brought(MI_OS_READ_WRITE);
  manage(&plan);
  check(mi_arena_manage(&mi_state.main, &plan) == NULL);
  mi_subproc_t* const other = mi_subproc_make();
  check(mi_arena_manage(other, &plan) == NULL);
  plan.start += MI_RESERVE_UNIT - MI_SLICE_SIZE;
  check(mi_arena_manage(other, &plan) == NULL);
  // A block with a mapping of its own.
  unit_option(disallow_arena_alloc, 1);
  uint8_t* const p = (uint8_t*)mi_malloc(2 * MI_RESERVE_UNIT);
  plan.start = (uint8_t*)mi_bits_align_down((uintptr_t)p, MI_SLICE_SIZE);
  check(mi_arena_manage(&mi_state.main, &plan) == NULL);
  check_equal(mi_state.main.arena_count, 1);
  mi_free(p);
}

// If this fails, memory that the program set apart for one heap goes to others, or the heap takes
// memory elsewhere.
UNIT_TEST_PAGE_SIZES(reserve_exclusive_arena_is_for_its_heaps) {
  mi_arena_plan_t plan = brought(MI_OS_READ_WRITE);
  plan.is_exclusive = true;
  mi_arena_t* const arena = manage(&plan);
  unit_option(disallow_arena_alloc, 1); // does not mean exclusive ones
  mi_heap_t* const heap = mi_heap_make(&mi_state.main, arena);
  uint8_t* const end = plan.start + plan.size;
  size_t count = 0;
  uint8_t* p;
  while ((p = (uint8_t*)mi_heap_malloc(heap, MI_CLASS_MAX)) != NULL) {
    check(p >= plan.start && p < end);
    count++;
  }
  check_equal(count, plan.size / MI_CLASS_MAX);
  check(mi_heap_malloc(heap, MI_CLASS_MAX * 2) == NULL);
  p = (uint8_t*)mi_malloc(MI_SLICE_SIZE * 10);
  check(p != NULL && (p < plan.start || p >= end));
  mi_free(p);
  mi_heap_end_by_destroy(heap);
  unit_option(disallow_arena_alloc, 0);
  unit_option(disallow_os_alloc, 1);
  check(mi_malloc(1) == NULL);
}

// -- a function of the program that commits --

static struct {
  size_t committed; // bytes
  size_t calls;
  bool is_refusing;
  bool says_zero;
  bool keeps; // does not take memory back
} program;

static bool commit(bool is_commit, void* start, size_t size, bool* is_zero, void* arg) {
  check(arg == &program);
  program.calls++;
  if (is_commit) {
    if (program.is_refusing) return false;
    check(os_fake_state(start) == OS_FAKE_RESERVED); // never twice
    check_equal(mi_os_commit(start, size), 0);
    program.committed += size;
    if (is_zero != NULL && program.says_zero) *is_zero = true;
  } else {
    if (program.keeps) return false;
    check_equal(mi_os_decommit(start, size), 0);
    program.committed -= size;
  }
  return true;
}

static mi_arena_t* manage_with_function(void) {
  mi_arena_plan_t plan = brought(MI_OS_NO_ACCESS);
  plan.commit_fun = &commit;
  plan.commit_arg = &program;
  return manage(&plan);
}

// If this fails, a program that gives memory by a function (of a device, of a file) is not asked,
// asked twice, or gets nothing back.
UNIT_TEST_PAGE_SIZES(reserve_asks_the_program_to_commit) {
  memset(&program, 0, sizeof(program));
  mi_arena_t* const arena = manage_with_function();
  mi_run_t a = claim(UNIT_HEAP, 2);
  check(a.arena == arena && !a.is_zero); // it did not say so
  check_equal(program.committed, 2 * MI_SLICE_SIZE);
  program.says_zero = true;
  const mi_run_t b = claim(UNIT_HEAP, 1);
  check(b.is_zero);
  release(&a);
  a = claim(UNIT_HEAP, 2);
  check_equal(program.calls, 2); // still usable
  release(&a);
  check_equal(mi_purge_everything(&mi_state.main), 2 * MI_SLICE_SIZE);
  check_equal(program.committed, MI_SLICE_SIZE);
  release(&b);
  // One run of which a part is usable.
  const mi_run_t c = claim(UNIT_HEAP, 4);
  check_equal(program.committed, 4 * MI_SLICE_SIZE);
  check(!c.is_zero); // the third slice was used
  fill(&c);
  release(&c);
  program.keeps = true;
  check_equal(mi_purge_everything(&mi_state.main), 0);
  check_equal(committed(), 4 * MI_SLICE_SIZE);
}

// If this fails, one arena that has no more memory stops all allocation.
UNIT_TEST_PAGE_SIZES(reserve_goes_on_when_the_program_refuses) {
  memset(&program, 0, sizeof(program));
  mi_arena_t* const arena = manage_with_function();
  program.is_refusing = true;
  const mi_run_t run = claim(UNIT_HEAP, 1);
  check(run.arena != arena);
  check_equal(mi_atomic_load_relaxed(&arena->free_count), UNIT_SLICES);
  release(&run);
}

// If this fails, memory of a sub-process that has ended is never used again, or what it contains is
// taken for zero.
UNIT_TEST(reserve_arenas_serve_the_next_subproc) {
  mi_process_setup();
  mi_subproc_t* subproc = mi_subproc_make();
  os_fake.large_free = MI_RESERVE_UNIT / os_fake.huge_page_size;
  mi_arena_plan_t plan = {.size = 1, .numa_node = -1, .is_exclusive = true};
  mi_arena_t* const arena = mi_reserve_memory(subproc, &plan, MI_ARENA_LARGE);
  mi_run_t run = claim(mi_heap_make(subproc, arena), 5);
  fill(&run);
  release(&run);
  check(mi_subproc_end_by_destroy(subproc));
  subproc = mi_subproc_make();
  run = claim(&subproc->heap_main, 6);
  check(run.arena == arena && !run.is_zero);
  check_equal(mi_atomic_load_relaxed(&subproc->count.committed), 6 * MI_SLICE_SIZE);
  release(&run);
}

// If this fails, memory that was reserved on a node and is used later comes from another one.
UNIT_TEST(reserve_commits_on_its_node) {
  os_fake.numa_nodes = 2;
  mi_process_setup();
  mi_arena_plan_t plan = {.size = 1, .numa_node = 1, .is_exclusive = true};
  mi_arena_t* const arena = mi_reserve_memory(&mi_state.main, &plan, MI_ARENA_RESERVED);
  check(arena != NULL);
  mi_heap_t* const heap = mi_heap_make(&mi_state.main, arena);
  os_fake.preferred_node = 0;
  check(mi_heap_malloc(heap, 100) != NULL);
  check_equal(os_fake.preferred_node, 1);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(reserve_rounds_up),
      cmocka_unit_test(reserve_commits_when_asked),
      cmocka_unit_test(reserve_takes_large_pages_or_normal_ones),
      cmocka_unit_test(reserve_large_pages_are_an_option),
      cmocka_unit_test(reserve_takes_giant_pages_one_by_one),
      cmocka_unit_test(reserve_stops_when_giant_pages_take_too_long),
      cmocka_unit_test(reserve_stops_when_addresses_are_taken),
      cmocka_unit_test(reserve_giant_pages_are_an_option),
      cmocka_unit_test(reserve_giant_pages_go_to_one_node),
      cmocka_unit_test(reserve_memory_is_an_option),
      cmocka_unit_test(reserve_warns_when_refused),
      cmocka_unit_test(reserve_heap_gets_memory_of_its_node),
      cmocka_unit_test(reserve_threads_get_memory_of_their_node),
      cmocka_unit_test(reserve_knows_how_many_nodes_there_are),
      cmocka_unit_test(reserve_leaves_memory_of_the_program_alone),
      cmocka_unit_test(reserve_believes_what_is_zero),
      cmocka_unit_test(reserve_refuses_what_is_in_use),
      cmocka_unit_test(reserve_exclusive_arena_is_for_its_heaps),
      cmocka_unit_test(reserve_asks_the_program_to_commit),
      cmocka_unit_test(reserve_goes_on_when_the_program_refuses),
      cmocka_unit_test(reserve_arenas_serve_the_next_subproc),
      cmocka_unit_test(reserve_commits_on_its_node),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
