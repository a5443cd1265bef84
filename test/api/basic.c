// SPDX-License-Identifier: MIT
// basic.c - malloc, calloc, free and their closest relatives.
#include "test_api.h"

#include <pthread.h>

static void check_size(size_t size) {
  unsigned char* const p = (unsigned char*)mi_malloc(size);
  assert_non_null(p);
  assert_true(test_is_aligned(p, size >= 16 ? 16 : 8));
  const size_t usable = mi_usable_size(p);
  assert_true(usable >= size);
  memset(p, 0xA5, usable);
  assert_true(test_is_filled(p, usable, 0xA5));
  mi_free(p);
}

// If this fails, a program writes to memory it does not own, or crashes on an aligned access.
static void malloc_gives_usable_memory(void** state) {
  (void)state;
  test_for_sizes(8 * TEST_MIB, &check_size);
}

// If this fails, two objects of size 0 are one, and freeing both corrupts the heap.
static void malloc_zero_gives_distinct_blocks(void** state) {
  (void)state;
  void* p[100];
  for (size_t i = 0; i < 100; i++) {
    p[i] = mi_malloc(test_opaque(0));
    assert_non_null(p[i]);
    for (size_t j = 0; j < i; j++) assert_ptr_not_equal(p[i], p[j]);
  }
  for (size_t i = 0; i < 100; i++) mi_free(p[i]);
}

// If this fails, writing to one object changes another.
static void malloc_blocks_do_not_overlap(void** state) {
  (void)state;
  enum { COUNT = 3000 };
  static unsigned char* p[COUNT];
  static size_t size[COUNT];
  uint64_t random = 7;
  for (size_t i = 0; i < COUNT; i++) {
    size[i] = random_size(&random, 14);
    p[i] = (unsigned char*)mi_malloc(size[i]);
    assert_non_null(p[i]);
    memset(p[i], (int)(i % 251), size[i]);
  }
  for (size_t i = 0; i < COUNT; i++) {
    assert_true(test_is_filled(p[i], size[i], (unsigned char)(i % 251)));
  }
  for (size_t i = 0; i < COUNT; i += 2) mi_free(p[i]);
  for (size_t i = 1; i < COUNT; i += 2) {
    assert_true(test_is_filled(p[i], size[i], (unsigned char)(i % 251)));
    mi_free(p[i]);
  }
}

// If this fails, a size computed wrongly gives a block that is too small instead of an error.
static void malloc_too_large_fails(void** state) {
  (void)state;
  const size_t sizes[] = {SIZE_MAX, SIZE_MAX - 7, SIZE_MAX - 4096, (size_t)PTRDIFF_MAX + 1,
                          (size_t)PTRDIFF_MAX};
  for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
    const size_t size = test_opaque(sizes[i]);
    errno = 0;
    assert_null(mi_malloc(size));
    assert_int_equal(errno, ENOMEM);
    errno = 0;
    assert_null(mi_zalloc(size));
    assert_int_equal(errno, ENOMEM);
    errno = 0;
    assert_null(mi_calloc(1, size));
    assert_int_equal(errno, ENOMEM);
  }
  void* const p = mi_malloc(10);
  assert_non_null(p);
  mi_free(p);
}

// If this fails, a request that no machine can meet ends the program instead of being refused.
static void malloc_beyond_address_space_fails(void** state) {
  (void)state;
  errno = 0;
  assert_null(mi_malloc(test_opaque(TEST_BEYOND)));
  assert_int_equal(errno, ENOMEM);
  errno = 0;
  assert_null(mi_malloc_aligned(test_opaque(TEST_BEYOND), TEST_BEYOND / 1024));
  assert_int_equal(errno, ENOMEM);
}

// If this fails, count times size wraps around and the array has fewer elements than asked for.
static void counted_overflow_fails(void** state) {
  (void)state;
  const size_t big = test_opaque(SIZE_MAX / 2);
  errno = 0;
  assert_null(mi_calloc(big, 3));
  assert_int_equal(errno, ENOMEM);
  errno = 0;
  assert_null(mi_mallocn(big, 3));
  assert_int_equal(errno, ENOMEM);
  assert_null(mi_mallocn(3, big));
  assert_null(mi_calloc_aligned(big, 3, 64));
  assert_null(mi_calloc_aligned_at(big, 3, 64, 8));
  assert_null(mi_ucalloc(big, 3, NULL));
  assert_null(mi_recalloc(NULL, big, 3));
  assert_null(mi_recalloc_aligned(NULL, big, 3, 64));
  assert_null(mi_reallocn(NULL, big, 3));
}

// If this fails, an array of n elements cannot hold n elements.
static void counted_gives_the_product(void** state) {
  (void)state;
  int* const a = mi_mallocn_tp(int, 1000);
  assert_non_null(a);
  assert_true(mi_usable_size(a) >= 1000 * sizeof(int));
  for (int i = 0; i < 1000; i++) a[i] = i;
  int* const b = mi_reallocn_tp(int, a, 5000);
  assert_non_null(b);
  for (int i = 0; i < 1000; i++) assert_int_equal(b[i], i);
  mi_free(b);
  double* const c = mi_calloc_tp(double, 100);
  assert_non_null(c);
  assert_true(test_is_filled(c, 100 * sizeof(double), 0));
  mi_free(c);
  long* const d = mi_malloc_tp(long);
  long* const e = mi_zalloc_tp(long);
  assert_non_null(d);
  assert_non_null(e);
  assert_true(*e == 0);
  mi_free(d);
  mi_free(e);
  assert_non_null(test_opaque_pointer(mi_calloc(0, 5)));
}

// If this fails, code that looks at errno after a clean-up sees the error of the clean-up.
static void free_keeps_errno(void** state) {
  (void)state;
  const size_t sizes[] = {8, 1000, 100000, 3000000, 80000000};
  for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
    void* const p = mi_malloc(sizes[i]);
    assert_non_null(p);
    errno = 4711;
    mi_free(p);
    assert_int_equal(errno, 4711);
  }
  errno = 4712;
  mi_free(NULL);
  mi_cfree(NULL);
  assert_int_equal(errno, 4712);
  errno = 0;
}

// If this fails, deallocation functions that take a size, as C++ calls them, break the heap.
static void free_variants_free(void** state) {
  (void)state;
  for (size_t round = 0; round < 1000; round++) {
    void* p[7];
    for (size_t i = 0; i < 7; i++) {
      p[i] = mi_malloc_aligned(200, 64);
      assert_non_null(p[i]);
    }
    mi_free(p[0]);
    mi_cfree(p[1]);
    mi_free_size(p[2], 200);
    mi_free_size(p[3], mi_usable_size(p[3]));
    mi_free_aligned(p[4], 64);
    mi_free_size_aligned(p[5], 200, 64);
    mi_free_size(p[6], 1);
  }
  mi_free_size(NULL, 10);
  mi_free_aligned(NULL, 16);
  mi_free_size_aligned(NULL, 10, 16);
}

// If this fails, giving back a pointer of another allocator on purpose crashes.
static void cfree_ignores_foreign_addresses(void** state) {
  (void)state;
  int local = 5;
  static int global = 6;
  mi_cfree(&local);
  mi_cfree(&global);
  mi_cfree(test_opaque_pointer((void*)(uintptr_t)0x10));
  mi_cfree(test_opaque_pointer((void*)(UINTPTR_MAX - 100)));
  assert_int_equal(local + global, 11);
}

// If this fails, programs that use the short forms get blocks that are too small or not zero.
static void small_forms_work(void** state) {
  (void)state;
  for (size_t size = 0; size <= MI_SMALL_SIZE_MAX; size++) {
    unsigned char* const p = (unsigned char*)mi_malloc_small(size);
    assert_non_null(p);
    memset(p, 0xFF, size);
    mi_free_small(p);
    unsigned char* const q = (unsigned char*)mi_zalloc_small(size);
    assert_non_null(q);
    assert_true(test_is_filled(q, mi_usable_size(q), 0));
    mi_free_small(q);
  }
}

static void* free_all(void* arg) {
  void** const p = (void**)arg;
  for (size_t i = 0; p[i] != NULL; i++) mi_free(p[i]);
  return NULL;
}

// If this fails, an object made by one thread and released by another is lost or corrupts the
// heap.
static void free_from_another_thread(void** state) {
  (void)state;
  enum { COUNT = 2000 };
  static void* p[COUNT + 1];
  for (size_t round = 0; round < 5; round++) {
    uint64_t random = 99 + round;
    for (size_t i = 0; i < COUNT; i++) {
      const size_t size = random_size(&random, i % 100 == 0 ? 20 : 12);
      p[i] = mi_malloc(size);
      assert_non_null(p[i]);
      memset(p[i], 1, size);
    }
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, &free_all, p), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
  }
}

static void* keep_one(void* arg) {
  (void)arg;
  char* const p = (char*)mi_malloc(100);
  if (p != NULL) strcpy(p, "kept");
  mi_thread_done();
  void* const q = mi_malloc(50); // the thread may go on
  mi_free(q);
  return p;
}

// If this fails, what a thread leaves behind is lost when it ends.
static void blocks_outlive_their_thread(void** state) {
  (void)state;
  for (size_t i = 0; i < 50; i++) {
    pthread_t thread;
    void* p = NULL;
    assert_int_equal(pthread_create(&thread, NULL, &keep_one, NULL), 0);
    assert_int_equal(pthread_join(thread, &p), 0);
    assert_non_null(p);
    assert_string_equal((char*)p, "kept");
    mi_free(p);
  }
}

// If this fails, a program that checks the version it runs with refuses to start.
static void version_is_that_of_the_header(void** state) {
  (void)state;
  assert_int_equal(mi_version(), MI_MALLOC_VERSION);
  assert_int_equal(MI_MALLOC_VERSION / 10000, 3);
  assert_int_equal(MI_SMALL_SIZE_MAX, 128 * sizeof(void*));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(malloc_gives_usable_memory),
      cmocka_unit_test(malloc_zero_gives_distinct_blocks),
      cmocka_unit_test(malloc_blocks_do_not_overlap),
      cmocka_unit_test(malloc_too_large_fails),
      cmocka_unit_test(malloc_beyond_address_space_fails),
      cmocka_unit_test(counted_overflow_fails),
      cmocka_unit_test(counted_gives_the_product),
      cmocka_unit_test(free_keeps_errno),
      cmocka_unit_test(free_variants_free),
      cmocka_unit_test(cfree_ignores_foreign_addresses),
      cmocka_unit_test(small_forms_work),
      cmocka_unit_test(free_from_another_thread),
      cmocka_unit_test(blocks_outlive_their_thread),
      cmocka_unit_test(version_is_that_of_the_header),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
