// SPDX-License-Identifier: MIT
// tally.c - tests of common/tally.h: what threads count by themselves is part of the figures of a
// heap, whatever becomes of the thread and of the heap.
#include "unit.h"

#include <sys/wait.h>
#include <unistd.h>

#include "core/heaps/heaps.h"
#include "puppet.h"
#include "spawn.h"

#define COUNT 600 // two steps and a rest
#define INDEX MI_TALLY_GUESTS

static int64_t sum_of(mi_heap_t* heap) {
  mi_tally_t sum;
  mi_heap_sum_tally(&mi_state.main, heap, &sum);
  return mi_atomic_load_relaxed(&sum.amount[INDEX]);
}

static int64_t heap_has(const mi_heap_t* heap) {
  return mi_atomic_load_relaxed(&heap->tally.amount[INDEX]);
}

// Count in the theap of the calling thread.
static void count_in(void* arg) {
  mi_heap_t* const heap = (mi_heap_t*)arg;
  mi_free(mi_heap_malloc(heap, 16)); // now there is one
  for (size_t i = 0; i < COUNT; i++) mi_tally_often(mi_theap_find(heap), heap, INDEX);
}

// If this fails, all threads write to one line whenever they exchange pages, or figures are wrong.
UNIT_TEST(tally_is_shared_in_steps) {
  mi_heap_t* const heap = UNIT_HEAP;
  mi_free(mi_malloc(16)); // now this thread has a home
  for (int64_t i = 1; i <= COUNT; i++) {
    mi_tally_often(mi_self_theap(), heap, INDEX);
    check_equal(sum_of(heap), i);
    check_equal(heap_has(heap), i / MI_TALLY_STEP * MI_TALLY_STEP);
  }
  // Without a theap of the thread, or for another heap, nothing is kept back.
  mi_tally_often(&mi_theap_empty, heap, INDEX);
  check_equal(heap_has(heap), COUNT / MI_TALLY_STEP * MI_TALLY_STEP + 1);
  mi_heap_t* const other = mi_heap_make(&mi_state.main, NULL);
  mi_tally_often(mi_self_theap(), other, INDEX);
  check_equal(heap_has(other), 1);
  check(mi_heap_end_by_delete(other));
  check_equal(sum_of(heap), COUNT + 2);
}

// If this fails, figures shrink when a thread or a heap ends.
UNIT_TEST(tally_stays_when_threads_and_heaps_end) {
  mi_heap_t* const heap = UNIT_HEAP;
  puppet_t thread;
  puppet_start(&thread);
  puppet_do(&thread, &count_in, heap);
  check_equal(sum_of(heap), COUNT);
  puppet_end(&thread);
  check_equal(sum_of(heap), COUNT);
  puppet_start(&thread); // takes over what the other left
  puppet_do(&thread, &count_in, heap);
  check_equal(sum_of(heap), 2 * COUNT);
  for (int64_t round = 0; round < 2; round++) {
    mi_heap_t* const deleted = mi_heap_make(&mi_state.main, NULL);
    puppet_do(&thread, &count_in, deleted);
    check_equal(sum_of(deleted), COUNT);
    check(mi_heap_end_by_delete(deleted)); // by this thread
    check_equal(sum_of(NULL), (3 + 2 * round) * COUNT);
    mi_heap_t* const destroyed = mi_heap_make(&mi_state.main, NULL);
    puppet_do(&thread, &count_in, destroyed);
    check(mi_heap_end_by_destroy(destroyed));
    check_equal(sum_of(NULL), (4 + 2 * round) * COUNT);
  }
  puppet_end(&thread);
  check_equal(sum_of(NULL), 6 * COUNT);
  check_equal(sum_of(heap), 6 * COUNT);
}

// If this fails, figures shrink in the child of a fork, where other threads do not exist.
UNIT_TEST(tally_stays_across_a_fork) {
  puppet_t thread;
  puppet_start(&thread);
  puppet_do(&thread, &count_in, UNIT_HEAP);
  mi_heap_t* const other = mi_heap_make(&mi_state.main, NULL);
  puppet_do(&thread, &count_in, other);
  check(os_fake.fork_prepare != NULL);
  os_fake.fork_prepare();
  const pid_t child = fork();
  check(child >= 0);
  if (child == 0) {
    os_fake.fork_child();
    check_equal(sum_of(UNIT_HEAP), COUNT);
    check_equal(sum_of(other), COUNT);
    spawn_keep_coverage();
    _exit(0);
  }
  os_fake.fork_parent();
  int status = 1;
  check(waitpid(child, &status, 0) == child && status == 0);
  puppet_end(&thread);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(tally_is_shared_in_steps),
      cmocka_unit_test(tally_stays_when_threads_and_heaps_end),
      cmocka_unit_test(tally_stays_across_a_fork),
  };
  return cmocka_run_group_tests_name("tally", tests, NULL, NULL);
}
