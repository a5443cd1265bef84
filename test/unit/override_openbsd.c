// SPDX-License-Identifier: MIT
// override_openbsd.c - tests of src/override/override_bsd.c: the functions that only OpenBSD has,
// made of the malloc of this program.
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define __OpenBSD__ 1 // after the headers of Linux
#define MI_MALLOC_OVERRIDE 1
#define MI_SHARED_LIB_EXPORT 1
#include "../../src/override/override_bsd.c"

static bool is_filled(const uint8_t* p, size_t size, uint8_t byte) {
  for (size_t i = 0; i < size; i++) {
    if (p[i] != byte) return false;
  }
  return true;
}

// If this fails, an array that grows has other contents, or what was there stays readable.
static void recallocarray_keeps_and_clears(void** state) {
  (void)state;
  uint8_t* p = (uint8_t*)recallocarray(NULL, 0, 10, 10);
  assert_non_null(p);
  assert_true(is_filled(p, 100, 0));
  memset(p, 7, 100);
  p = (uint8_t*)recallocarray(p, 10, 1000, 10);
  assert_non_null(p);
  assert_true(is_filled(p, 100, 7) && is_filled(p + 100, 9900, 0));
  memset(p, 8, 10000);
  uint8_t* const same = (uint8_t*)recallocarray(p, 1000, 900, 10); // a little less: in place
  assert_ptr_equal(same, p);
  assert_true(is_filled(p, 9000, 8) && is_filled(p + 9000, 1000, 0));
  p = (uint8_t*)recallocarray(p, 900, 10, 10);
  assert_non_null(p);
  assert_true(is_filled(p, 100, 8));
  free(p);
}

// If this fails, a product that does not fit becomes a small block.
static void recallocarray_refuses_what_overflows(void** state) {
  (void)state;
  uint8_t* const p = (uint8_t*)malloc(100);
  memset(p, 7, 100);
  errno = 0;
  assert_null(recallocarray(p, 10, SIZE_MAX / 2, 10));
  assert_int_equal(errno, ENOMEM);
  errno = 0;
  assert_null(recallocarray(p, SIZE_MAX / 2, 10, 10));
  assert_int_equal(errno, EINVAL);
  errno = 0;
  assert_null(calloc_conceal(SIZE_MAX / 2, 10));
  assert_int_equal(errno, ENOMEM);
  assert_true(is_filled(p, 100, 7));
  freezero(p, 100);
  freezero(NULL, 100);
}

// If this fails, blocks that OpenBSD keeps out of core dumps come from another malloc, or not at
// all.
static void conceal_is_malloc(void** state) {
  (void)state;
  uint8_t* const p = (uint8_t*)malloc_conceal(100);
  uint8_t* const q = (uint8_t*)calloc_conceal(10, 10);
  assert_true(p != NULL && q != NULL && is_filled(q, 100, 0));
  memset(p, 1, 100);
  free(p);
  free(q);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(recallocarray_keeps_and_clears),
      cmocka_unit_test(recallocarray_refuses_what_overflows),
      cmocka_unit_test(conceal_is_malloc),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
