// SPDX-License-Identifier: MIT
// init.c - tests of process/init.c and meta.c: set-up, giving everything back, and the measures.
#include "unit.h"

#include <sys/wait.h>
#include <unistd.h>
#include <sched.h>

#include "core/common/meta.h"
#include "core/threads/sample.h"
#include "core/threads/theap.h"

// If this fails, a program that never allocates pays for the allocator.
UNIT_TEST_PAGE_SIZES(init_setup_maps_nothing) {
  mi_process_setup();
  mi_process_setup();
  check_equal(mi_atomic_load_relaxed(&mi_state.stage), MI_STAGE_READY);
  check_equal(os_fake_calls(OS_FAKE_MAP), 0);
  check_equal(os_fake_calls(OS_FAKE_AT_FORK), 1);
  check_equal(mi_state.os.page_size, os_fake.page_size);
  check_equal(mi_collect_all(MI_FORCE), 0);
  check_equal(os_fake_calls(OS_FAKE_MAP), 0);
}

static int child_status = -1;

// What a child does whose parent was being set up by a thread that does not exist here.
static void be_child(void) {
  alarm(10);
  hooks_fake.on_load_options = NULL;
  os_fake.on_at_fork = NULL;
  void* const p = mi_malloc(100);
  void* const q = mi_calloc(1, MI_SLICE_SIZE);
  check(p != NULL && q != NULL);
  mi_free(p);
  mi_free(q);
  check_equal(mi_atomic_load_relaxed(&mi_state.stage), MI_STAGE_READY);
  check(mi_state.main.count.heaps == 1 && os_fake.fork_child != NULL);
  check_equal(mi_self()->locks_held, 0);
  _exit(0);
}

static void fork_and_wait(void* arg) {
  (void)arg;
  const pid_t child = fork();
  if (child == 0) be_child();
  check(waitpid(child, &child_status, 0) == child);
}

static void fork_elsewhere(void) { unit_on_thread(&fork_and_wait, NULL); }

// If this fails, the child of a program that forks while another thread makes its first allocation
// waits for that thread for ever.
UNIT_TEST_PAGE_SIZES(init_child_of_a_fork_in_the_middle_sets_up) {
  hooks_fake.on_load_options = &fork_elsewhere;
  mi_free(mi_malloc(100));
  check_equal(child_status, 0);
}

static void allocate_and_fork_elsewhere(void) {
  mi_lock_enter(&mi_state.arena_lock); // as in the middle of a malloc
  fork_elsewhere();
  mi_lock_leave(&mi_state.arena_lock);
  void* const p = mi_malloc(100); // as libc does when its table of handlers is full
  check(p != NULL);
  fork_elsewhere();
  mi_free(p);
}

// If this fails, so it does when it forks a moment later, or a libc that allocates to remember
// our fork handlers hangs the process.
UNIT_TEST_PAGE_SIZES(init_child_of_a_fork_before_the_handlers_takes_over) {
  os_fake.on_at_fork = &allocate_and_fork_elsewhere;
  mi_free(mi_malloc(100));
  check_equal(child_status, 0);
  check_equal(os_fake_calls(OS_FAKE_AT_FORK), 1);
}

#define EARLY_COUNT 3
static pthread_t early[EARLY_COUNT];

static void* allocate_early(void* arg) {
  (void)arg;
  check(mi_malloc(100) != NULL);
  return NULL;
}

// In the middle of set-up: others come, and at least one of them sleeps.
static void start_others(void) {
  for (size_t i = 0; i < EARLY_COUNT; i++) {
    check_equal(pthread_create(&early[i], NULL, &allocate_early, NULL), 0);
  }
  while (mi_atomic_load_relaxed(&mi_state.stage) != MI_STAGE_AWAITED) sched_yield();
}

// If this fails, threads that allocate at the very start see half of the state, or sleep for ever.
UNIT_TEST(init_others_wait_for_setup) {
  hooks_fake.on_load_options = &start_others;
  mi_process_setup();
  for (size_t i = 0; i < EARLY_COUNT; i++) pthread_join(early[i], NULL);
  check_equal(mi_atomic_load_relaxed(&mi_state.stage), MI_STAGE_READY);
}

static void reserve_64_mib(void) { unit_option(reserve_os_memory, 64 * MI_MIB / MI_KIB); }

// If this fails, MIMALLOC_RESERVE_OS_MEMORY has no effect, or its failure is not told.
UNIT_TEST_PAGE_SIZES(init_reserves_what_the_user_wants) {
  hooks_fake.on_load_options = &reserve_64_mib;
  unit_option(arena_reserve, UNIT_ARENA_SIZE / MI_KIB);
  mi_process_setup();
  check_equal(mi_state.main.arena_count, 1);
  check_equal(mi_state.main.arena_last->slice_count * MI_SLICE_SIZE, 64 * MI_MIB);
  check_equal(hooks_fake.warning_count, 0);
}

// If this fails, a reservation that is refused ends the program instead of being told.
UNIT_TEST_PAGE_SIZES(init_warns_when_it_cannot_reserve) {
  hooks_fake.on_load_options = &reserve_64_mib;
  os_fake.map_limit = 32 * MI_MIB;
  mi_process_setup();
  check_equal(hooks_fake.warning_count, 1);
  check_equal(mi_state.main.arena_count, 0);
  check(mi_malloc(100) != NULL);
}

// If this fails, malloc_trim does nothing, or says so.
UNIT_TEST_PAGE_SIZES(init_collect_returns_what_it_gave_back) {
  uint8_t* const p = (uint8_t*)mi_malloc(MI_CLASS_MAX * 8);
  memset(p, 1, MI_CLASS_MAX * 8);
  mi_free(p);
  check_equal(os_fake_resident(p, MI_CLASS_MAX * 8), MI_CLASS_MAX * 8);
  const size_t bytes = mi_collect_all(MI_FORCE);
  check(bytes >= MI_CLASS_MAX * 8);
  check_equal(os_fake_resident(p, MI_CLASS_MAX * 8), 0);
  check_equal(mi_collect_all(MI_FORCE), 0);
}

// If this fails, mallinfo tells lies.
UNIT_TEST_PAGE_SIZES(init_usage_is_exact) {
  static void* p[3000];
  mi_usage_t usage;
  mi_usage_measure(&mi_state.main, NULL, &usage);
  check_equal(usage.in_use, 0);
  check_equal(usage.in_pages, 0);
  uint64_t random = 8;
  size_t bytes = 0;
  size_t count = 0;
  size_t large = 0;
  for (size_t i = 0; i < 3000; i++) {
    p[i] = mi_malloc(i % 100 == 0 ? MI_CLASS_MAX + 1 : random_below(&random, 3000));
    if (i % 3 == 1) {
      mi_free(p[i - 1]);
      p[i - 1] = NULL;
    }
  }
  for (size_t i = 0; i < 3000; i++) {
    if (p[i] == NULL) continue;
    const size_t size = mi_usable_size(p[i]);
    if (size > MI_CLASS_MAX) large += size;
    if (size <= MI_CLASS_MAX) bytes += size;
    if (size <= MI_CLASS_MAX) count++;
  }
  mi_usage_measure(&mi_state.main, NULL, &usage);
  check_equal(usage.in_use, bytes);
  check_equal(usage.in_use_blocks, count);
  check_equal(usage.large, large);
  check(usage.in_pages >= usage.in_use);
  for (size_t i = 0; i < 3000; i++) mi_free(p[i]);
  mi_usage_measure(&mi_state.main, NULL, &usage);
  check(usage.in_use == 0 && usage.in_use_blocks == 0 && usage.large == 0);
}

// If this fails, mallinfo tells lies while a profile is taken.
UNIT_TEST_PAGE_SIZES(init_usage_is_exact_with_sampling) {
  mi_sample_profile(1000);
  size_t bytes = 0;
  for (size_t i = 0; i < 200; i++) bytes += mi_usable_size(mi_malloc(40));
  mi_usage_t usage;
  mi_usage_measure(&mi_state.main, NULL, &usage);
  check(usage.large > 0); // samples have pages of their own
  check_equal(usage.in_use + usage.large, bytes);
  check_equal(usage.in_use_blocks + usage.large_blocks, 200);
}

// If this fails, mallinfo misses the largest blocks of a program.
UNIT_TEST_PAGE_SIZES(init_usage_sees_direct_mappings) {
  unit_option(arena_max_object_size, 4 * MI_MIB / MI_KIB);
  void* const p = mi_malloc(16 * MI_MIB);
  mi_usage_t usage;
  mi_usage_measure(&mi_state.main, NULL, &usage);
  check_equal(usage.large, 16 * MI_MIB);
  check_equal(usage.large_blocks, 1);
  mi_free(p);
  mi_usage_measure(&mi_state.main, NULL, &usage);
  check(usage.large == 0 && usage.large_blocks == 0);
}

// If this fails, structures of our own overlap or are not zero.
UNIT_TEST_PAGE_SIZES(meta_memory_is_zero_and_distinct) {
  mi_process_setup();
  uint8_t* before = NULL;
  size_t before_size = 0;
  mi_lock_enter(&mi_state.arena_lock);
  for (size_t size = 1; size < 300000; size = size * 3 / 2 + 1) {
    uint8_t* const p = (uint8_t*)mi_meta_alloc(size);
    check(p != NULL && (uintptr_t)p % 64 == 0 && unit_is_zero(p, size));
    check(before == NULL || p >= before + before_size || p + size <= before);
    memset(p, 1, size);
    before = p;
    before_size = size;
  }
  os_fake.fail_at[OS_FAKE_MAP] = 1;
  check(mi_meta_alloc(MI_MIB) == NULL);
  check(mi_meta_alloc(MI_MIB) != NULL);
  mi_lock_leave(&mi_state.arena_lock);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(init_setup_maps_nothing),
      cmocka_unit_test(init_child_of_a_fork_in_the_middle_sets_up),
      cmocka_unit_test(init_child_of_a_fork_before_the_handlers_takes_over),
      cmocka_unit_test(init_others_wait_for_setup),
      cmocka_unit_test(init_reserves_what_the_user_wants),
      cmocka_unit_test(init_warns_when_it_cannot_reserve),
      cmocka_unit_test(init_collect_returns_what_it_gave_back),
      cmocka_unit_test(init_usage_is_exact),
      cmocka_unit_test(init_usage_is_exact_with_sampling),
      cmocka_unit_test(init_usage_sees_direct_mappings),
      cmocka_unit_test(meta_memory_is_zero_and_distinct),
  };
  return cmocka_run_group_tests_name("init", tests, NULL, NULL);
}
