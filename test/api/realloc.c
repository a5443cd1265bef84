// SPDX-License-Identifier: MIT
// realloc.c - resizing: contents, failure, sizes of every magnitude.
#include "test_api.h"

#include <pthread.h>

// A pattern that differs at every position, so that a shifted copy is noticed.
static void fill(unsigned char* p, size_t from, size_t to, unsigned seed) {
  for (size_t i = from; i < to; i++) p[i] = (unsigned char)((i * 31 + (i >> 8) * 7 + seed) & 0xFF);
}

static bool is_kept(const unsigned char* p, size_t size, unsigned seed) {
  for (size_t i = 0; i < size; i++) {
    if (p[i] != (unsigned char)((i * 31 + (i >> 8) * 7 + seed) & 0xFF)) return false;
  }
  return true;
}

// If this fails, a string or array that grows loses its contents.
static void realloc_grows_and_shrinks_with_contents(void** state) {
  (void)state;
  unsigned char* p = NULL;
  size_t size = 0;
  for (size_t next = 1; next < 8 * TEST_MIB; next = next + next / 3 + 1) {
    p = (unsigned char*)mi_realloc(p, next);
    assert_non_null(p);
    assert_true(is_kept(p, size, 1));
    fill(p, size, next, 1);
    size = next;
  }
  while (size > 1) {
    size = size / 3 + 1 < size ? size / 3 + 1 : 1;
    p = (unsigned char*)mi_realloc(p, size);
    assert_non_null(p);
    assert_true(is_kept(p, size, 1));
  }
  mi_free(p);
}

// If this fails, many objects that change their sizes at the same time damage each other.
static void realloc_random_sizes_keep_contents(void** state) {
  (void)state;
  enum { COUNT = 300 };
  static unsigned char* p[COUNT];
  static size_t size[COUNT];
  uint64_t random = 11;
  for (size_t step = 0; step < 6000; step++) {
    const size_t i = random_below(&random, COUNT);
    const size_t next = 1 + random_size(&random, step % 50 == 0 ? 20 : 13);
    unsigned char* const q = (unsigned char*)mi_realloc(p[i], next);
    assert_non_null(q);
    const size_t kept = size[i] < next ? size[i] : next;
    assert_true(is_kept(q, kept, (unsigned)i));
    fill(q, kept, next, (unsigned)i);
    p[i] = q;
    size[i] = next;
  }
  for (size_t i = 0; i < COUNT; i++) mi_free(p[i]);
}

// If this fails, large buffers, whose memory is moved rather than copied, come out wrong.
static void realloc_large_blocks_keep_contents(void** state) {
  (void)state;
  size_t size = TEST_MIB;
  unsigned char* p = (unsigned char*)mi_malloc(size);
  assert_non_null(p);
  fill(p, 0, size, 3);
  for (size_t step = 0; step < 12; step++) {
    void* const barrier = step % 2 == 0 ? mi_malloc(700 * TEST_KIB) : NULL;
    const size_t next = size + size / 3 + 5000;
    p = (unsigned char*)mi_realloc(p, next);
    assert_non_null(p);
    assert_true(mi_usable_size(p) >= next);
    assert_true(is_kept(p, size, 3));
    fill(p, size, next, 3);
    size = next;
    mi_free(barrier);
  }
  p = (unsigned char*)mi_realloc(p, 3 * TEST_MIB);
  assert_non_null(p);
  assert_true(is_kept(p, 3 * TEST_MIB, 3));
  p = (unsigned char*)mi_realloc(p, 100);
  assert_non_null(p);
  assert_true(is_kept(p, 100, 3));
  mi_free(p);
}

// If this fails, a program that makes a huge block smaller crashes: a block that is in no arena has
// descriptors for its first slices only, and it spans several windows of the page map.
static void realloc_shrinks_blocks_outside_of_arenas(void** state) {
  (void)state;
  size_t size = sizeof(void*) < 8 ? 200 * TEST_MIB : 3 * TEST_GIB;
  mi_option_enable(mi_option_disallow_arena_alloc);
  unsigned char* p = (unsigned char*)mi_malloc(size);
  mi_option_disable(mi_option_disallow_arena_alloc);
  assert_non_null(p);
  fill(p, 0, TEST_MIB, 4);
  while (size > 16 * TEST_MIB) {
    size -= size / 16;
    p = (unsigned char*)mi_realloc(p, size);
    assert_non_null(p);
    assert_true(mi_usable_size(p) >= size);
    p[size - 1] = 1;
  }
  assert_true(is_kept(p, TEST_MIB, 4));
  mi_free(p);
}

// If this fails, realloc to size 0 frees the object under the program, or leaks it.
static void realloc_to_zero_gives_a_minimal_block(void** state) {
  (void)state;
  const size_t sizes[] = {1, 100, 5000, 300000, 5000000};
  for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
    void* p = mi_malloc(sizes[i]);
    assert_non_null(p);
    p = mi_realloc(p, test_opaque(0));
    assert_non_null(p);
    assert_int_equal(*(unsigned char*)p, 0);
    p = mi_realloc(p, 50);
    assert_non_null(p);
    mi_free(p);
  }
  void* const q = mi_realloc(NULL, test_opaque(0));
  assert_non_null(q);
  mi_free(q);
}

// If this fails, an object is lost when there is no memory to enlarge it.
static void realloc_failure_keeps_the_block(void** state) {
  (void)state;
  const size_t sizes[] = {10, 2000, 100000, 2000000};
  for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
    unsigned char* const p = (unsigned char*)mi_malloc(sizes[i]);
    assert_non_null(p);
    fill(p, 0, sizes[i], 9);
    errno = 0;
    assert_null(mi_realloc(p, test_opaque(SIZE_MAX)));
    assert_int_equal(errno, ENOMEM);
    errno = 0;
    assert_null(mi_realloc(p, test_opaque(TEST_BEYOND)));
    assert_int_equal(errno, ENOMEM);
    assert_null(mi_rezalloc(p, test_opaque(SIZE_MAX)));
    assert_null(mi_reallocn(p, test_opaque(SIZE_MAX / 2), 4));
    assert_null(mi_recalloc(p, test_opaque(SIZE_MAX / 2), 4));
    assert_null(mi_realloc_aligned(p, test_opaque(SIZE_MAX), 64));
    assert_true(is_kept(p, sizes[i], 9));
    assert_null(mi_reallocf(p, test_opaque(SIZE_MAX))); // this one frees
    if (sizes[i] > TEST_MIB) assert_int_equal(mi_usable_size(test_opaque_pointer(p)), 0);
  }
}

// If this fails, a program that holds pointers into an object sees it move although it was told
// it would not.
static void expand_never_moves(void** state) {
  (void)state;
  assert_null(mi_expand(NULL, 10));
  for (size_t size = 1; size < 4 * TEST_MIB; size = size * 2 + 5) {
    unsigned char* const p = (unsigned char*)mi_malloc(size);
    assert_non_null(p);
    fill(p, 0, size, 4);
    const size_t usable = mi_usable_size(p);
    assert_ptr_equal(mi_expand(p, usable), p);
    assert_ptr_equal(mi_expand(p, size / 2 + 1), p);
    // With notes the block has that size from now on.
    const size_t held = mi_usable_size(p) < size ? mi_usable_size(p) : size;
    assert_true(held == size || (test_is_tracked() && held == size / 2 + 1));
    void* const q = mi_expand(p, usable * 2);
    if (q != NULL) {
      assert_ptr_equal(q, p);
      assert_true(mi_usable_size(p) >= usable * 2);
      fill(p, held, usable * 2, 4);
    }
    assert_true(is_kept(p, held, 4));
    assert_null(mi_expand(p, test_opaque(SIZE_MAX)));
    errno = 0;
    assert_null(mi__expand(p, test_opaque(SIZE_MAX)));
    assert_int_equal(errno, ENOMEM);
    mi_free(p);
  }
}

// If this fails, repeated small growth of one object copies it every time.
static void realloc_within_the_block_stays(void** state) {
  (void)state;
  test_skip_if_guarded("a guarded block of another size moves");
  for (size_t size = 200; size < 200000; size *= 3) {
    void* const p = mi_malloc(size);
    assert_non_null(p);
    const size_t usable = mi_usable_size(p);
    assert_ptr_equal(mi_realloc(p, usable), p);
    assert_ptr_equal(mi_realloc(p, usable - usable / 16), p);
    mi_free(p);
  }
}

static void* realloc_first(void* arg) { return mi_realloc(arg, 5000); }

// If this fails, a thread that starts by enlarging an object it was given crashes.
static void realloc_is_the_first_call_of_a_thread(void** state) {
  (void)state;
  for (size_t i = 0; i < 20; i++) {
    unsigned char* p = i % 2 == 0 ? NULL : (unsigned char*)mi_malloc(100);
    if (p != NULL) fill(p, 0, 100, 2);
    pthread_t thread;
    void* q = NULL;
    assert_int_equal(pthread_create(&thread, NULL, &realloc_first, p), 0);
    assert_int_equal(pthread_join(thread, &q), 0);
    assert_non_null(q);
    if (p != NULL) assert_true(is_kept((unsigned char*)q, 100, 2));
    mi_free(q);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(realloc_grows_and_shrinks_with_contents),
      cmocka_unit_test(realloc_random_sizes_keep_contents),
      cmocka_unit_test(realloc_large_blocks_keep_contents),
      cmocka_unit_test(realloc_shrinks_blocks_outside_of_arenas),
      cmocka_unit_test(realloc_to_zero_gives_a_minimal_block),
      cmocka_unit_test(realloc_failure_keeps_the_block),
      cmocka_unit_test(expand_never_moves),
      cmocka_unit_test(realloc_within_the_block_stays),
      cmocka_unit_test(realloc_is_the_first_call_of_a_thread),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
