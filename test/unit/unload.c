// SPDX-License-Identifier: MIT
// unload.c - tests of src/core/unload.c: the library leaves a process that goes on.
#include "unit.h"

#include "core/theap.h"
#include "core/thread.h"

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
  unit_option(arena_reserve, MI_ARENA_MIN_SIZE / MI_KIB); // several arenas
  for (size_t round = 0; round < 3; round++) {
    allocate_some(NULL);
    pthread_t thread;
    check_equal(pthread_create(&thread, NULL, &allocate_some, NULL), 0);
    check_equal(pthread_join(thread, NULL), 0);
    void* const direct = mi_malloc(2 * MI_ARENA_MIN_SIZE); // in no arena
    check(direct != NULL && mi_usable_size(direct) >= 2 * MI_ARENA_MIN_SIZE);
    mi_free(mi_malloc(3 * MI_ARENA_MIN_SIZE));
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
  check(mi_theap_self()->thread_id == 0);
  mi_unload();
  mi_free(before); // not ours any more
  char* const p = (char*)mi_malloc(100);
  check(p != NULL);
  memset(p, 1, 100);
  mi_free(p);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(unload_leaves_nothing_mapped),
      cmocka_unit_test(unload_is_as_before_the_first_call),
  };
  return cmocka_run_group_tests_name("unload", tests, NULL, NULL);
}
