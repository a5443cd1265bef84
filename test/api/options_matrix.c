// SPDX-License-Identifier: MIT
// options_matrix.c - the same work under each combination of the options that decide how memory is
// committed and given back, without and with a limit of address space: the paths that few programs
// run. If this fails, one of them hands out memory that is in use, or not zero, or not usable, or
// no memory where there is some.
#include "test_heap.h"

#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

#include "spawn.h"

#define SLOTS 150
#define STEPS 1200
#define THREADS 2
#define LARGE (700 * TEST_KIB)
#define LIMIT (1500 * TEST_MIB)

typedef struct slot_s {
  uint8_t* p;
  size_t size;
} slot_t;

typedef struct worker_s {
  pthread_t thread;
  uint64_t seed;
  slot_t slots[SLOTS];
} worker_t;

static size_t some_size(uint64_t* seed) {
  const uint64_t kind = random_below(seed, 8);
  const size_t most = kind == 0 ? LARGE : (kind < 3 ? 40000 : 1000);
  return 1 + random_below(seed, most);
}

static void make(slot_t* slot, uint64_t* seed, uint8_t mark) {
  slot->size = some_size(seed);
  const bool is_zero = random_below(seed, 2) == 0;
  slot->p = is_zero ? mi_calloc(1, slot->size) : mi_malloc(slot->size);
  CHECK_SAY(slot->p != NULL, "%zu bytes", slot->size);
  if (is_zero) CHECK_SAY(test_is_filled(slot->p, slot->size, 0), "%zu bytes", slot->size);
  test_touch(slot->p, slot->size, mark);
}

static void grow(slot_t* slot, uint64_t* seed, uint8_t mark) {
  const size_t old_size = slot->size;
  slot->size = some_size(seed);
  slot->p = mi_realloc(slot->p, slot->size);
  CHECK_SAY(slot->p != NULL, "%zu bytes", slot->size);
  if (slot->size <= old_size) return test_touch(slot->p, slot->size, mark);
  CHECK_SAY(test_is_touched(slot->p, 1, mark), "%zu bytes", old_size);
  test_touch(slot->p, slot->size, mark);
}

static void* work(void* arg) {
  worker_t* const worker = arg;
  for (size_t step = 0; step < STEPS; step++) {
    const size_t i = random_below(&worker->seed, SLOTS);
    slot_t* const slot = &worker->slots[i];
    const uint8_t mark = (uint8_t)(i + 1);
    if (slot->p == NULL) {
      make(slot, &worker->seed, mark);
      continue;
    }
    CHECK_SAY(test_is_touched(slot->p, slot->size, mark), "%zu bytes", slot->size);
    if (random_below(&worker->seed, 4) == 0) {
      grow(slot, &worker->seed, mark);
    } else {
      mi_free(slot->p);
      slot->p = NULL;
    }
    if (step % 500 == 0) mi_collect(step % 1000 == 0);
  }
  for (size_t i = 0; i < SLOTS; i++) mi_free(worker->slots[i].p);
  return NULL;
}

static int work_here(void) {
  static worker_t workers[THREADS];
  for (size_t i = 0; i < THREADS; i++) {
    workers[i].seed = i + 1;
    if (pthread_create(&workers[i].thread, NULL, &work, &workers[i]) != 0) return 1;
  }
  for (size_t i = 0; i < THREADS; i++) pthread_join(workers[i].thread, NULL);
  mi_collect(true);
  return 0;
}

static const char* const purge_decommits[] = {"MIMALLOC_PURGE_DECOMMITS=0",
                                              "MIMALLOC_PURGE_DECOMMITS=1"};
static const char* const purge_delay[] = {"MIMALLOC_PURGE_DELAY=0", "MIMALLOC_PURGE_DELAY=10",
                                          "MIMALLOC_PURGE_DELAY=-1"};
static const char* const eager_commit[] = {"MIMALLOC_ARENA_EAGER_COMMIT=0",
                                           "MIMALLOC_ARENA_EAGER_COMMIT=1",
                                           "MIMALLOC_ARENA_EAGER_COMMIT=2"};
static const char* const more[] = {NULL, "MIMALLOC_MINIMAL_PURGE_SIZE=256KiB",
                                   "MIMALLOC_DISALLOW_ARENA_ALLOC=1"};

static void run_each(const char* argument, size_t more_count) {
  static spawn_result_t result;
  size_t count = 0;
  for (size_t i = 0; i < 2 * 3 * 3 * more_count; i++) {
    const char* const environment[] = {purge_decommits[i % 2], purge_delay[i / 2 % 3],
                                       eager_commit[i / 6 % 3], more[i / 18], NULL};
    if (!spawn_self(argument, environment, &result)) test_skip("cannot start itself");
    if (result.exit_status != 0) {
      print_error("%s %s %s %s: %d, signal %d\n%s\n", environment[0], environment[1],
                  environment[2], environment[3] != NULL ? environment[3] : "", result.exit_status,
                  result.signal, result.output);
    }
    assert_int_equal(result.exit_status, 0);
    count++;
  }
  printf("FIGURE options_matrix: %zu combinations of options, %s\n", count, argument);
}

static void options_matrix_holds(void** state) {
  (void)state;
  run_each("free", 3);
}

static void options_matrix_holds_within_limits(void** state) {
  (void)state;
  if (TEST_IS_SANITIZED) test_skip("a sanitizer's shadow needs more addresses than the limit");
  run_each("limited", 1);
}

int main(int argc, char** argv) {
  if (argc > 1 && strcmp(argv[1], "free") == 0) return work_here();
  if (argc > 1 && strcmp(argv[1], "limited") == 0) {
    const struct rlimit limit = {LIMIT, LIMIT};
    if (setrlimit(RLIMIT_AS, &limit) != 0) return 1;
    return work_here();
  }
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(options_matrix_holds),
      cmocka_unit_test(options_matrix_holds_within_limits),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
