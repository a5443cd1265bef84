// SPDX-License-Identifier: MIT
// new.c - the functions behind `operator new`, in a program without the C++ library.
#include "spawn.h"
#include "test_api.h"

#include <signal.h>

// If this fails, C++ code gets NULL or unaligned memory from new.
static void new_gives_blocks(void** state) {
  (void)state;
  for (size_t size = 0; size < 2 * TEST_MIB; size = size * 2 + 1) {
    void* p = mi_new(size);
    assert_non_null(p);
    memset(p, 1, size);
    p = mi_new_realloc(p, size * 2 + 1);
    assert_non_null(p);
    assert_true(test_is_filled(p, size, 1));
    mi_free(p);
    void* const q = mi_new_nothrow(size);
    assert_non_null(q);
    mi_free(q);
    void* const r = mi_new_aligned(size, 4096);
    assert_non_null(r);
    assert_true(test_is_aligned(r, 4096));
    mi_free(r);
    void* const s = mi_new_aligned_nothrow(size, 128);
    assert_non_null(s);
    assert_true(test_is_aligned(s, 128));
    mi_free(s);
  }
  long* p = (long*)mi_new_n(100, sizeof(long));
  assert_non_null(p);
  p[99] = 7;
  p = (long*)mi_new_reallocn(p, 1000, sizeof(long));
  assert_non_null(p);
  assert_int_equal(p[99], 7);
  mi_free(p);
}

// If this fails, `new (std::nothrow)` ends the program instead of returning NULL.
static void new_nothrow_returns_null(void** state) {
  (void)state;
  errno = 0;
  assert_null(mi_new_nothrow(test_opaque(SIZE_MAX)));
  assert_int_equal(errno, ENOMEM);
  assert_null(mi_new_aligned_nothrow(test_opaque(SIZE_MAX - 4096), 64));
  assert_null(mi_new_aligned_nothrow(100, test_opaque(24)));
}

static void fail_new(void) { (void)!mi_new(test_opaque(SIZE_MAX / 2)); }

static void fail_new_aligned(void) { (void)!mi_new_aligned(10, test_opaque(24)); }

static void fail_new_n(void) { (void)!mi_new_n(test_opaque(SIZE_MAX / 2), 8); }

static void fail_new_realloc(void) { (void)!mi_new_realloc(mi_new(10), test_opaque(SIZE_MAX / 2)); }

// If this fails, a program that cannot handle the lack of memory runs on with NULL where it
// expects an object.
static void new_without_cxx_library_aborts(void** state) {
  (void)state;
  test_skip_if_guarded("errors are shown");
  test_skip_if_sanitized();
  void (*const bodies[])(void) = {&fail_new, &fail_new_aligned, &fail_new_n, &fail_new_realloc};
  for (size_t i = 0; i < sizeof(bodies) / sizeof(bodies[0]); i++) {
    static spawn_result_t result;
    if (!spawn_fork(bodies[i], &result)) test_skip("no process can be made");
    assert_int_equal(result.signal, SIGABRT);
    assert_int_equal(spawn_count(&result, "out of memory in 'new'"), 1);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(new_gives_blocks),
      cmocka_unit_test(new_nothrow_returns_null),
      cmocka_unit_test(new_without_cxx_library_aborts),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
