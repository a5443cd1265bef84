// SPDX-License-Identifier: MIT
// options_effect.c - what options do to a program that knows nothing of them: this program again,
// with a variable in its environment. What can be seen on a pretended system only (huge pages,
// several NUMA nodes) is in test/unit/reserve.c.
#include "proc.h"
#include "spawn.h"
#include "test_api.h"

#include <time.h>
#include <unistd.h>

static spawn_result_t result;

// Runs this program with up to three variables; it must end well.
static void child(const char* action, const char* first, const char* second, const char* third) {
  const char* const environment[] = {first, second, third, NULL};
  test_start_self(action, environment, &result);
  if (result.exit_status != 0) {
    fail_msg("%s: signal %d, status %d\n%s", first, result.signal, result.exit_status,
             result.output);
  }
}

static void expect(size_t count, const char* text) {
  if (spawn_count(&result, text) == count) return;
  fail_msg("'%s' should be there %zu times:\n%s", text, count, result.output);
}

static void* kept[2000];

// Allocates blocks of all sizes, and prints the arenas.
static int allocate(void) {
  for (size_t i = 0; i < 2000; i++) {
    kept[i] = mi_malloc(i % 100 == 0 ? 1000 * i : i);
    if (kept[i] == NULL) return 2;
    memset(kept[i], 1, i);
  }
  mi_arenas_print();
  for (size_t i = 0; i < 2000; i++) mi_free(kept[i]);
  return 0;
}

// If this fails, arenas are made although the user forbids them, or none without.
static void effect_disallow_arena_alloc(void** state) {
  (void)state;
  child("--allocate", NULL, NULL, NULL);
  assert_true(spawn_count(&result, "\narena ") > 0);
  child("--allocate", "MIMALLOC_DISALLOW_ARENA_ALLOC=1", NULL, NULL);
  expect(0, "\narena ");
  child("--allocate", "MIMALLOC_ARENA_RESERVE=0", NULL, NULL);
  expect(0, "\narena ");
}

// Allocates more than the first arena has, which the library brings descriptors for.
static int allocate_large(void) {
  for (size_t i = 0; i < 64; i++) {
    if (mi_malloc(TEST_MIB) == NULL) return 2;
  }
  mi_arenas_print();
  return 0;
}

// If this fails, a user who does not want to bound arenas has a program that crashes, or one whose
// every page and block is a mapping of its own.
static void effect_arenas_without_bound(void** state) {
  (void)state;
  const char* const options[] = {
      "MIMALLOC_ARENA_RESERVE=4G",
      "MIMALLOC_ARENA_RESERVE=70T", // with 32 bits no size: the default stays
      "MIMALLOC_ARENA_RESERVE=-1",
      "MIMALLOC_ARENA_MAX_OBJECT_SIZE=4G",
  };
  for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++) {
    child("--large", options[i], i == 3 ? "MIMALLOC_ARENA_RESERVE=1G" : NULL, NULL);
    assert_true(spawn_count(&result, "\narena ") > 0);
  }
}

static int allocate_until_refused(void) {
  size_t size = 0;
  while (size < 3 * TEST_GIB && mi_malloc(256 * TEST_KIB) != NULL) size += 256 * TEST_KIB;
  char text[64];
  const int length = snprintf(text, sizeof(text), "got %zu MiB\n", size / TEST_MIB);
  return write(STDOUT_FILENO, text, (size_t)length) == length ? 0 : 3;
}

// If this fails, a program that may use what it reserved and no more gets more, or nothing.
static void effect_disallow_os_alloc(void** state) {
  (void)state;
  child("--until-refused", "MIMALLOC_RESERVE_OS_MEMORY=64M", "MIMALLOC_DISALLOW_OS_ALLOC=1", NULL);
  const char* const got = strstr(result.output, "got ");
  assert_non_null(got);
  const long mib = strtol(got + 4, NULL, 10);
  assert_true(mib >= 48 && mib <= 64);
}

// If this fails, a program does not start where there are no huge pages, or nobody learns why there
// are none.
static void effect_huge_pages_that_are_not_there(void** state) {
  (void)state;
  child("--allocate", "MIMALLOC_ALLOW_LARGE_OS_PAGES=1", NULL, NULL);
  child("--allocate", "MIMALLOC_RESERVE_HUGE_OS_PAGES=1", "MIMALLOC_SHOW_ERRORS=1", NULL);
  if (spawn_count(&result, ", pinned") == 0) expect(1, "unable to reserve huge OS pages");
  child("--allocate", "MIMALLOC_RESERVE_HUGE_OS_PAGES=1", "MIMALLOC_RESERVE_HUGE_OS_PAGES_AT=0",
        "MIMALLOC_SHOW_ERRORS=1");
  if (spawn_count(&result, ", pinned") == 0) expect(1, "unable to reserve huge OS pages");
}

// If this fails, nodes cannot be pretended, or the arenas of a node cannot be told apart.
static void effect_numa(void** state) {
  (void)state;
  child("--allocate", "MIMALLOC_USE_NUMA_NODES=2", "MIMALLOC_ARENA_IS_NUMA_LOCAL=1", NULL);
  assert_true(spawn_count(&result, "node 0") + spawn_count(&result, "node 1") > 0);
  expect(0, "node -1");
  child("--allocate", "MIMALLOC_USE_NUMA_NODES=3", "MIMALLOC_SHOW_STATS=1", NULL);
  assert_true(spawn_count(&result, "node -1") > 0);
  const char* const nodes = strstr(result.output, "numa nodes");
  assert_non_null(nodes);
  assert_int_equal(strtol(strchr(nodes, ':') + 1, NULL, 10), 3);
}

// If this fails, options that change who keeps a page break programs.
static void effect_of_the_rest(void** state) {
  (void)state;
  const char* const options[] = {
      "MIMALLOC_PAGE_RECLAIM_ON_FREE=-1",
      "MIMALLOC_PAGE_RECLAIM_ON_FREE=1",
      "MIMALLOC_PAGE_MAX_RECLAIM=0",
      "MIMALLOC_PAGE_CROSS_THREAD_MAX_RECLAIM=0",
      "MIMALLOC_PAGEMAP_COMMIT=1",
      "MIMALLOC_MINIMAL_PURGE_SIZE=1M",
      "MIMALLOC_ALLOW_THP=2",
      "MIMALLOC_ALLOW_THP=0",
  };
  for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++) {
    child("--allocate", options[i], NULL, NULL);
    child("--allocate", options[i], "MIMALLOC_ARENA_EAGER_COMMIT=0", "MIMALLOC_PURGE_DELAY=0");
  }
}

// Has output that libc writes at the very end, from a buffer that malloc gave it.
static int print_late(void) {
  printf("written at the end");
  return 0;
}

static int print_and_end(void) {
  mi_process_done();
  return print_late();
}

// Not so in builds for sanitizers.
static bool is_malloc_ours(void) {
  void* const p = malloc(100);
  const bool is_ours = mi_any_heap_contains(p);
  free(p);
  return is_ours;
}

// If this fails, option destroy_on_exit crashes programs whose malloc this library is.
static void effect_destroy_on_exit(void** state) {
  (void)state;
  child("--late", "MIMALLOC_DESTROY_ON_EXIT=1", "MIMALLOC_SHOW_STATS=1", NULL);
  expect(1, "written at the end");
  expect(1, "committed");
  child("--late", "MIMALLOC_DESTROY_ON_EXIT=1", "MIMALLOC_VERBOSE=1", NULL);
  expect(is_malloc_ours() ? 1 : 0, "destroy_on_exit: libc uses its memory until the end");
  // 2: the end of the process is when the program says so.
  child("--late", "MIMALLOC_DESTROY_ON_EXIT=2", "MIMALLOC_SHOW_STATS=1", NULL);
  expect(1, "written at the end");
  expect(0, "committed");
  child("--late-and-end", "MIMALLOC_DESTROY_ON_EXIT=2", "MIMALLOC_SHOW_STATS=1", NULL);
  expect(1, "committed");
}

#define WAITING 24

// Memory waits for an hour, and then for ten milliseconds.
static int shorten_delay(void) {
  for (size_t i = 0; i < WAITING; i++) {
    kept[i] = mi_malloc(TEST_MIB);
    if (kept[i] == NULL) return 2;
    memset(kept[i], 1, TEST_MIB);
  }
  for (size_t i = 0; i < WAITING; i++) mi_free(kept[i]);
  mi_collect(false); // a period begins
  const size_t before = proc_resident();
  // With small arenas such blocks are mappings of their own, and are back already.
  if (before < WAITING / 2 * TEST_MIB) return 0;
  mi_option_set(mi_option_purge_delay, 10);
  for (const time_t begin = time(NULL); time(NULL) - begin < 10;) {
    mi_collect(false);
    if (proc_resident() + WAITING / 2 * TEST_MIB < before) return 0;
  }
  return 3;
}

// If this fails, a program that wants its memory back sooner than its environment says waits for as
// long as that says.
static void effect_delay_that_becomes_shorter(void** state) {
  (void)state;
  child("--shorten", "MIMALLOC_PURGE_DELAY=3600000", NULL, NULL);
}

int main(int argc, char** argv) {
  if (argc > 1 && strcmp(argv[1], "--allocate") == 0) return allocate();
  if (argc > 1 && strcmp(argv[1], "--large") == 0) return allocate_large();
  if (argc > 1 && strcmp(argv[1], "--shorten") == 0) return shorten_delay();
  if (argc > 1 && strcmp(argv[1], "--until-refused") == 0) return allocate_until_refused();
  if (argc > 1 && strcmp(argv[1], "--late") == 0) return print_late();
  if (argc > 1 && strcmp(argv[1], "--late-and-end") == 0) return print_and_end();
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(effect_disallow_arena_alloc),
      cmocka_unit_test(effect_arenas_without_bound),
      cmocka_unit_test(effect_disallow_os_alloc),
      cmocka_unit_test(effect_huge_pages_that_are_not_there),
      cmocka_unit_test(effect_numa),
      cmocka_unit_test(effect_delay_that_becomes_shorter),
      cmocka_unit_test(effect_of_the_rest),
      cmocka_unit_test(effect_destroy_on_exit),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
