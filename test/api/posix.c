// SPDX-License-Identifier: MIT
// posix.c - the mi_ functions named after those of POSIX, BSD, glibc and Microsoft: results and
// errno.
#include "test_api.h"

#include <unistd.h>

// If this fails, programs that test the result of posix_memalign take an error for a block, or
// the reverse.
static void posix_memalign_returns_codes(void** state) {
  (void)state;
  void* p = (void*)0x1234;
  const size_t wrong[] = {0, 1, 2, sizeof(void*) / 2, 3, 12, 24, 100, SIZE_MAX};
  for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
    errno = 4711;
    assert_int_equal(mi_posix_memalign(&p, test_opaque(wrong[i]), 100), EINVAL);
    assert_ptr_equal(p, (void*)0x1234);
    assert_int_equal(errno, 4711);
  }
  assert_int_equal(mi_posix_memalign(NULL, 64, 100), EINVAL);
  errno = 4711;
  assert_int_equal(mi_posix_memalign(&p, 64, test_opaque(SIZE_MAX)), ENOMEM);
  assert_ptr_equal(p, (void*)0x1234);
  assert_int_equal(errno, 4711);
  for (size_t alignment = sizeof(void*); alignment <= TEST_MIB; alignment *= 2) {
    assert_int_equal(mi_posix_memalign(&p, alignment, 77), 0);
    assert_non_null(p);
    assert_true(test_is_aligned(p, alignment));
    memset(p, 1, 77);
    mi_free(p);
    assert_int_equal(mi__posix_memalign(&p, alignment, 0), 0); // its name in versions 1.0
    assert_non_null(p);
    mi_free(p);
  }
  assert_int_equal(errno, 4711);
  errno = 0;
}

// If this fails, code written for memalign or aligned_alloc gets unaligned memory, or the wrong
// error.
static void memalign_and_aligned_alloc(void** state) {
  (void)state;
  for (size_t alignment = 1; alignment <= TEST_MIB; alignment *= 2) {
    void* const p = mi_memalign(alignment, 100);
    void* const q = mi_aligned_alloc(alignment, 100); // 100 is no multiple: accepted all the same
    assert_non_null(p);
    assert_non_null(q);
    assert_true(test_is_aligned(p, alignment));
    assert_true(test_is_aligned(q, alignment));
    mi_free(p);
    mi_free(q);
  }
  errno = 0;
  assert_null(mi_memalign(test_opaque(24), 100));
  assert_int_equal(errno, EINVAL);
  errno = 0;
  assert_null(mi_aligned_alloc(test_opaque(0), 100));
  assert_int_equal(errno, EINVAL);
  errno = 0;
  assert_null(mi_aligned_alloc(64, test_opaque(SIZE_MAX - 10)));
  assert_int_equal(errno, ENOMEM);
}

// If this fails, buffers for direct input and output are refused by the kernel.
static void valloc_and_pvalloc_are_page_aligned(void** state) {
  (void)state;
  const size_t page = (size_t)sysconf(_SC_PAGESIZE);
  for (size_t size = 0; size < 100000; size = size * 3 + 1) {
    void* const p = mi_valloc(size);
    assert_non_null(p);
    assert_true(test_is_aligned(p, page));
    void* const q = mi_pvalloc(size);
    assert_non_null(q);
    assert_true(test_is_aligned(q, page));
    assert_true(mi_usable_size(q) >= (size + page - 1) / page * page);
    mi_free(p);
    mi_free(q);
  }
  errno = 0;
  assert_null(mi_pvalloc(test_opaque(SIZE_MAX)));
  assert_int_equal(errno, ENOMEM);
  errno = 0;
  assert_null(mi_valloc(test_opaque(SIZE_MAX)));
  assert_int_equal(errno, ENOMEM);
}

// If this fails, an array whose size overflows is made too small, or the old one is lost.
static void reallocarray_checks_the_product(void** state) {
  (void)state;
  int* p = (int*)mi_reallocarray(NULL, 10, sizeof(int));
  assert_non_null(p);
  for (int i = 0; i < 10; i++) p[i] = i;
  errno = 0;
  assert_null(mi_reallocarray(p, test_opaque(SIZE_MAX / 2), sizeof(int)));
  assert_int_equal(errno, EOVERFLOW);
  errno = 0;
  assert_null(mi_reallocarray(p, test_opaque(SIZE_MAX / 8), sizeof(int)));
  assert_int_equal(errno, ENOMEM);
  p = (int*)mi_reallocarray(p, 1000, sizeof(int));
  assert_non_null(p);
  for (int i = 0; i < 10; i++) assert_int_equal(p[i], i);
  mi_free(p);
}

// If this fails, programs from NetBSD lose arrays or keep pointers to freed ones.
static void reallocarr_updates_the_pointer(void** state) {
  (void)state;
  long* p = NULL;
  assert_int_equal(mi_reallocarr(&p, 100, sizeof(long)), 0);
  assert_non_null(p);
  p[99] = 5;
  long* const old = p;
  errno = 0;
  assert_int_equal(mi_reallocarr(&p, test_opaque(SIZE_MAX / 2), sizeof(long)), EOVERFLOW);
  assert_int_equal(errno, EOVERFLOW);
  assert_ptr_equal(p, old);
  assert_int_equal(mi_reallocarr(&p, test_opaque(SIZE_MAX / sizeof(long)), sizeof(long)), ENOMEM);
  assert_ptr_equal(p, old);
  assert_int_equal(mi_reallocarr(&p, 10, test_opaque(0)), EINVAL);
  assert_int_equal(mi_reallocarr(NULL, 10, 10), EINVAL);
  assert_int_equal(mi_reallocarr(&p, 1000, sizeof(long)), 0);
  assert_int_equal(p[99], 5);
  assert_int_equal(mi_reallocarr(&p, 0, sizeof(long)), 0);
  assert_null(p);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(posix_memalign_returns_codes),
      cmocka_unit_test(memalign_and_aligned_alloc),
      cmocka_unit_test(valloc_and_pvalloc_are_page_aligned),
      cmocka_unit_test(reallocarray_checks_the_product),
      cmocka_unit_test(reallocarr_updates_the_pointer),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
