// SPDX-License-Identifier: MIT
// unload.c - tests of process/unload.c: the library leaves a process that goes on.
#include "unit.h"

#include "core/arenas/kept.h"
#include "core/arenas/reserve.h"
#include "core/heaps/subproc.h"
#include "core/threads/theap.h"
#include "core/threads/thread.h"

static void* allocate_some(void* arg) {
  (void)arg;
  for (size_t size = 8; size <= 4 * MI_CLASS_MAX; size *= 2) {
    void* const p = mi_malloc(size);
    check(p != NULL);
    check(mi_malloc(size) != NULL);
    mi_free(p);
  }
  return NULL;
}

// If this fails, a host of plug-ins grows with each one that it unloads.
UNIT_TEST_PAGE_SIZES(unload_leaves_nothing_mapped) {
  unit_option(arena_reserve, UNIT_ARENA_SIZE / MI_KIB); // several arenas
  for (size_t round = 0; round < 3; round++) {
    allocate_some(NULL);
    pthread_t thread;
    check_equal(pthread_create(&thread, NULL, &allocate_some, NULL), 0);
    check_equal(pthread_join(thread, NULL), 0);
    void* const direct = mi_malloc(2 * UNIT_ARENA_SIZE); // in no arena
    check(direct != NULL && mi_usable_size(direct) >= 2 * UNIT_ARENA_SIZE);
    mi_free(mi_malloc(3 * UNIT_ARENA_SIZE));
    check(mi_state.main.arena_count > 1);
    check(os_fake.mapped > 0);
    mi_unload();
    check_equal(os_fake.mapped, 0);
    check_equal(os_fake_mapping_count(), 0);
    check_equal(mi_usable_size(direct), 0); // an address that is not ours
  }
}

// If this fails, destructors that run behind ours crash the program.
UNIT_TEST(unload_is_as_before_the_first_call) {
  mi_unload();
  check_equal(os_fake_calls(OS_FAKE_UNMAP), 0);
  void* const before = mi_malloc(100);
  mi_unload();
  check(mi_self_theap()->thread_id == 0);
  mi_unload();
  mi_free(before); // not ours any more
  char* const p = (char*)mi_malloc(100);
  check(p != NULL);
  memset(p, 1, 100);
  mi_free(p);
}

// If this fails, a library that is used again hands out a block of its last life.
UNIT_TEST(unload_forgets_the_block_that_was_kept) {
  const size_t size = 20 * MI_SLICE_SIZE;
  for (size_t round = 0; round < 3; round++) {
    mi_free(mi_malloc(size)); // it is kept: kept.c
    check(mi_kept_count(&mi_state.main, NULL) > 0);
    unit_check_valid();
    void* const p = mi_malloc(size);
    check(p != NULL && p != mi_malloc(size));
    mi_free(p);
    mi_unload();
    check_equal(os_fake.mapped, 0);
  }
}

static void* blocks[200];

// Memory of every kind: small and large blocks, in arenas and not, heaps, a thread that has ended,
// a sub-process that lives and one that has ended.
static void use(void* arg) {
  (void)arg;
  for (size_t i = 0; i < 200; i++) {
    blocks[i] = mi_malloc(i % 20 == 0 ? MI_CLASS_MAX * 2 : 10 * i);
    check(blocks[i] != NULL);
  }
}

static void use_everything(void) {
  unit_option(arena_reserve, UNIT_ARENA_SIZE / MI_KIB);
  unit_on_thread(&use, NULL);
  use(NULL);
  mi_heap_t* const heap = mi_heap_make(&mi_state.main, NULL);
  check(mi_heap_malloc(heap, 100) != NULL);
  unit_option(disallow_arena_alloc, 1);
  check(mi_malloc(MI_CLASS_MAX * 3) != NULL);
  unit_option(disallow_arena_alloc, 0);
  mi_arena_plan_t plan = {.size = 1, .numa_node = -1, .is_exclusive = true};
  mi_subproc_t* const ended = mi_subproc_make();
  check(mi_reserve_memory(ended, &plan, MI_ARENA_RESERVED) != NULL);
  check(mi_subproc_end_by_destroy(ended));
  mi_subproc_t* const subproc = mi_subproc_make();
  check(mi_malloc(1) != NULL && subproc != NULL);
  os_fake.giant_free = 1;
  check(mi_reserve_giant_pages(subproc, &plan, 1, 0) != NULL);
}

// If this fails, a library that is loaded and unloaded again and again leaks all it ever used.
UNIT_TEST_PAGE_SIZES(unload_unmaps_every_kind) {
  use_everything();
  check(os_fake.mapped > 0);
  check(mi_unload_alone());
  check_equal(os_fake.mapped, 0);
  check_equal(os_fake_mapping_count(), 0);
}

// If this fails, a free after the end of everything crashes, or complains.
UNIT_TEST_PAGE_SIZES(unload_makes_free_do_nothing) {
  use_everything();
  check(mi_unload_alone());
  for (size_t i = 0; i < 200; i++) {
    mi_free(blocks[i]);
    check_equal(mi_usable_size(blocks[i]), 0);
  }
  check_equal(hooks_fake.error_count, 0);
  check_equal(os_fake.mapped, 0);
}

// If this fails, a destructor that runs late gets no memory, or gets a block that somebody frees by
// its old address.
UNIT_TEST_PAGE_SIZES(unload_lets_the_library_start_anew) {
  mi_process_setup();
  const uint64_t random = os_fake.random;
  const uint8_t* const hint = mi_arena_hint();
  use_everything();
  unit_option(reserve_os_memory, 1);
  check(mi_unload_alone());
  const size_t forks = os_fake_calls(OS_FAKE_AT_FORK);
  os_fake.random = random; // of a process it stays the same
  mi_process_setup();
  check(mi_arena_hint() != hint);
  use(NULL);
  check_equal(mi_state.main.arena_last->slice_max * MI_SLICE_SIZE, UNIT_ARENA_SIZE);
  check_equal(os_fake_calls(OS_FAKE_AT_FORK), forks); // a second handler would wait for itself
  unit_check_valid();
  for (size_t i = 0; i < 200; i++) memset(blocks[i], 1, 10 * i);
  for (size_t i = 0; i < 200; i++) mi_free(blocks[i]);
  unit_on_thread(&use, NULL);
}

// If this fails, memory of the program is unmapped that it will use.
UNIT_TEST_PAGE_SIZES(unload_leaves_memory_of_the_program) {
  mi_process_setup();
  uint8_t* const p = (uint8_t*)mi_os_map(NULL, MI_RESERVE_UNIT, MI_RESERVE_UNIT, MI_OS_READ_WRITE);
  const mi_arena_plan_t plan = {.start = p,
                                .size = MI_RESERVE_UNIT,
                                .is_committed = true,
                                .is_foreign = true,
                                .numa_node = -1};
  check(mi_arena_manage(&mi_state.main, &plan) != NULL);
  memset(mi_malloc(1000), 1, 1000);
  check(mi_unload_alone());
  check_equal(os_fake.mapped, MI_RESERVE_UNIT);
  check(os_fake_state(p) == OS_FAKE_COMMITTED);
}

// If this fails, a thread that still runs when the process ends crashes it.
UNIT_TEST_PAGE_SIZES(unload_leaves_other_threads_alone) {
  static puppet_t other;
  puppet_start(&other);
  use_everything();
  uint8_t* const p = (uint8_t*)puppet_malloc(&other, 1000);
  memset(p, 1, 1000);
  const size_t mapped = os_fake.mapped;
  check(!mi_unload_alone());
  check_equal(os_fake.mapped, mapped);
  puppet_free(&other, p);
  check(mi_malloc(1) != NULL); // this thread starts again
  puppet_end(&other);
  check(mi_unload_alone());
  check_equal(os_fake.mapped, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(unload_leaves_nothing_mapped),
      cmocka_unit_test(unload_is_as_before_the_first_call),
      cmocka_unit_test(unload_forgets_the_block_that_was_kept),
      cmocka_unit_test(unload_unmaps_every_kind),
      cmocka_unit_test(unload_makes_free_do_nothing),
      cmocka_unit_test(unload_lets_the_library_start_anew),
      cmocka_unit_test(unload_leaves_memory_of_the_program),
      cmocka_unit_test(unload_leaves_other_threads_alone),
  };
  return cmocka_run_group_tests_name("unload", tests, NULL, NULL);
}
