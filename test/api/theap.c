// SPDX-License-Identifier: MIT
// theap.c - the part of a heap that one thread allocates from, and the default of a thread.
#include "spawn.h"
#include "test_heap.h"

typedef void* allocate_t(mi_theap_t* theap, size_t size);

static void* by_malloc(mi_theap_t* theap, size_t size) { return mi_theap_malloc(theap, size); }
static void* by_zalloc(mi_theap_t* theap, size_t size) { return mi_theap_zalloc(theap, size); }
static void* by_calloc(mi_theap_t* theap, size_t size) { return mi_theap_calloc(theap, size, 1); }
static void* by_realloc(mi_theap_t* theap, size_t size) {
  return mi_theap_realloc(theap, NULL, size);
}
static void* by_malloc_small(mi_theap_t* theap, size_t size) {
  return mi_theap_malloc_small(theap, size);
}
static void* by_zalloc_small(mi_theap_t* theap, size_t size) {
  return mi_theap_zalloc_small(theap, size);
}
static void* by_malloc_aligned(mi_theap_t* theap, size_t size) {
  return mi_theap_malloc_aligned(theap, size, 64);
}

static const struct way_s {
  const char* name;
  allocate_t* allocate;
  bool is_zeroed;
  bool is_small;
} ways[] = {
    {"malloc", &by_malloc, false, false},
    {"zalloc", &by_zalloc, true, false},
    {"calloc", &by_calloc, true, false},
    {"realloc", &by_realloc, false, false},
    {"malloc_aligned", &by_malloc_aligned, false, false},
    {"malloc_small", &by_malloc_small, false, true},
    {"zalloc_small", &by_zalloc_small, true, true},
};
#define WAY_COUNT (sizeof(ways) / sizeof(ways[0]))

static const size_t sizes[] = {0,    1,    8,     16,     100,    128,     1000,
                               1024, 1025, 20000, 100000, 600000, 3000000, 40 * TEST_MIB};
#define SIZE_COUNT (sizeof(sizes) / sizeof(sizes[0]))
#define SMALL_COUNT 8 // of these are for the small functions

// If this fails, code that keeps its theap for speed gets wrong blocks.
static void theap_every_function_gives_blocks_of_the_heap(void** state) {
  (void)state;
  mi_heap_t* const heap = mi_heap_new();
  mi_theap_t* const theap = mi_heap_theap(heap);
  assert_non_null(theap);
  for (size_t round = 0; round < 2; round++) {
    for (size_t w = 0; w < WAY_COUNT; w++) {
      unsigned char* p[SIZE_COUNT];
      const size_t count = ways[w].is_small ? SMALL_COUNT : SIZE_COUNT;
      for (size_t i = 0; i < count; i++) {
        p[i] = (unsigned char*)ways[w].allocate(theap, test_opaque(sizes[i]));
        if (p[i] == NULL || mi_heap_of(p[i]) != heap || mi_usable_size(p[i]) < sizes[i]) {
          fail_msg("%s: %zu bytes at %p", ways[w].name, sizes[i], (void*)p[i]);
        }
        if (ways[w].is_zeroed && !test_is_filled(p[i], mi_usable_size(p[i]), 0)) {
          fail_msg("%s: %zu bytes are not zero", ways[w].name, sizes[i]);
        }
        memset(p[i], (int)(i + 1), mi_usable_size(p[i]));
      }
      for (size_t i = 0; i < count; i++) {
        assert_true(test_is_filled(p[i], sizes[i], (unsigned char)(i + 1)));
        mi_free(p[i]);
      }
    }
  }
  for (size_t alignment = 1; alignment <= 4 * TEST_MIB; alignment *= 2) {
    void* const p = mi_theap_malloc_aligned(theap, 1000, alignment);
    assert_true(p != NULL && test_is_aligned(p, alignment) && mi_heap_of(p) == heap);
  }
  mi_heap_destroy(heap);
}

// If this fails, a computed size that is too large gives a small block, or a wrong alignment one
// that is not aligned.
static void theap_refuses_what_cannot_be(void** state) {
  (void)state;
  mi_heap_t* const heap = mi_heap_new();
  mi_theap_t* const theap = mi_heap_theap(heap);
  TEST_REFUSED(mi_theap_malloc(theap, test_opaque(SIZE_MAX)), ENOMEM);
  TEST_REFUSED(mi_theap_zalloc(theap, test_opaque(PTRDIFF_MAX)), ENOMEM);
  TEST_REFUSED(mi_theap_calloc(theap, test_opaque(SIZE_MAX / 2 + 2), 2), ENOMEM);
  TEST_REFUSED(mi_theap_calloc(theap, 2, test_opaque(SIZE_MAX / 2 + 2)), ENOMEM);
  TEST_REFUSED(mi_theap_malloc_aligned(theap, test_opaque(SIZE_MAX - 100), 64), ENOMEM);
  TEST_REFUSED(mi_theap_malloc_aligned(theap, 100, test_opaque(24)), EINVAL);
  TEST_REFUSED(mi_theap_malloc_aligned(theap, 100, test_opaque(0)), EINVAL);
  unsigned char* const p = (unsigned char*)mi_theap_malloc(theap, 100);
  memset(p, 3, 100);
  TEST_REFUSED(mi_theap_realloc(theap, p, test_opaque(SIZE_MAX)), ENOMEM);
  assert_true(test_is_filled(p, 100, 3) && mi_heap_of(p) == heap);
  mi_heap_destroy(heap);
}

static bool count_call(const mi_heap_t* heap, const mi_heap_area_t* area, void* block, size_t size,
                       void* arg) {
  (void)heap, (void)area, (void)block, (void)size;
  ++*(size_t*)arg;
  return true;
}

// If this fails, a program that got no theap for lack of memory crashes instead of being told.
static void theap_null_has_no_memory(void** state) {
  (void)state;
  for (size_t w = 0; w < WAY_COUNT; w++) {
    TEST_REFUSED(ways[w].allocate(NULL, 10), ENOMEM);
    TEST_REFUSED(ways[w].allocate(NULL, test_opaque(0)), ENOMEM);
  }
  unsigned char* const p = (unsigned char*)mi_malloc(100);
  memset(p, 4, 100);
  TEST_REFUSED(mi_theap_realloc(NULL, p, 200), ENOMEM);
  assert_true(test_is_filled(p, 100, 4) && mi_heap_of(p) == mi_heap_main());
  mi_free(p);
  mi_theap_collect(NULL, false);
  mi_theap_collect(NULL, true);
  mi_theap_guarded_set_sample_rate(NULL, 1, 1);
  mi_theap_guarded_set_size_bound(NULL, 1, 100);
  size_t calls = 0;
  (void)mi_theap_visit_blocks(NULL, true, &count_call, &calls);
  assert_int_equal(calls, 0);
}

typedef struct found_s {
  mi_heap_t* heap;
  mi_theap_t* of_heap;
  mi_theap_t* of_main;
  mi_theap_t* by_default;
  bool is_main_default; // what malloc gives is in the main heap
} found_t;

static void* find_theaps(void* argument) {
  found_t* const found = (found_t*)argument;
  found->by_default = mi_theap_get_default();
  found->of_heap = mi_heap_theap(found->heap);
  found->of_main = mi_heap_theap(mi_heap_main());
  void* const p = mi_malloc(10);
  found->is_main_default = mi_heap_of(p) == mi_heap_main();
  mi_free(p);
  return NULL;
}

static void find_theaps_task(void* argument) { find_theaps(argument); }

// If this fails, two threads allocate from the same lists.
static void theap_is_one_for_each_thread_and_heap(void** state) {
  (void)state;
  mi_heap_t* const heap = mi_heap_new();
  mi_heap_t* const other = mi_heap_new();
  mi_theap_t* const theap = mi_heap_theap(heap);
  mi_theap_t* const of_other = mi_heap_theap(other);
  assert_true(theap != NULL && of_other != NULL && theap != of_other);
  assert_ptr_equal(mi_heap_theap(heap), theap);
  assert_ptr_equal(mi_heap_theap(other), of_other);
  assert_ptr_equal(mi_heap_theap(NULL), mi_heap_theap(mi_heap_main()));
  assert_ptr_equal(mi_theap_get_default(), mi_heap_theap(mi_heap_main()));
  found_t found = {.heap = heap};
  test_on_thread(&find_theaps, &found);
  assert_true(found.of_heap != NULL && found.of_heap != theap);
  assert_true(found.of_main != NULL && found.of_main != mi_theap_get_default());
  assert_ptr_equal(found.by_default, found.of_main);
  mi_heap_delete(other);
  mi_heap_destroy(heap);
}

// -- The default --

static void check_default(mi_heap_t* heap) {
  void* const p[] = {mi_malloc(100),
                     mi_zalloc(100),
                     mi_calloc(10, 10),
                     mi_realloc(NULL, 100),
                     mi_malloc_aligned(100, 4096),
                     mi_strdup("text"),
                     mi_malloc(2 * TEST_MIB),
                     mi_malloc(100000),
                     mi_malloc(0)};
  for (size_t i = 0; i < sizeof(p) / sizeof(p[0]); i++) {
    if (mi_heap_of(p[i]) != heap) fail_msg("block %zu is in another heap", i);
    mi_free(p[i]);
  }
  assert_ptr_equal(mi_heap_get_default(), heap);
  assert_ptr_equal(mi_theap_get_default(), mi_heap_theap(heap));
}

// If this fails, a library that is told to allocate from a heap by way of malloc does not, or
// other threads do too.
static void theap_set_default_is_for_malloc_of_this_thread(void** state) {
  (void)state;
  mi_heap_t* const heap = mi_heap_new();
  mi_theap_t* const before = mi_theap_get_default();
  puppet_t puppet;
  found_t found = {.heap = heap};
  puppet_start(&puppet);
  puppet_do(&puppet, &find_theaps_task, &found);
  assert_ptr_equal(mi_theap_set_default(mi_heap_theap(heap)), before);
  check_default(heap);
  found_t again = {.heap = heap}, fresh = {.heap = heap};
  puppet_do(&puppet, &find_theaps_task, &again);
  test_on_thread(&find_theaps, &fresh);
  assert_true(again.is_main_default && again.by_default == found.by_default);
  assert_true(fresh.is_main_default && fresh.by_default == fresh.of_main);
  // The heap that is named goes before the default.
  void* const p = mi_heap_malloc(NULL, 10);
  assert_ptr_equal(mi_heap_of(p), mi_heap_main());
  mi_free(p);
  assert_ptr_equal(mi_theap_set_default(before), mi_heap_theap(heap));
  check_default(mi_heap_main());
  puppet_end(&puppet);
  mi_heap_delete(heap);
}

// If this fails, the malloc of the C library and ours go to different heaps: half of a program's
// objects are missed.
static void theap_default_is_for_libc_names_too(void** state) {
  (void)state;
  void* const plain = malloc(100);
  const bool is_ours = mi_heap_of(plain) != NULL; // not in builds that leave malloc alone
  free(plain);
  mi_heap_t* const heap = mi_heap_new();
  mi_theap_t* const before = mi_theap_set_default(mi_heap_theap(heap));
  void* const p = malloc(100);
  void* const q = calloc(10, 10);
  assert_ptr_equal(mi_heap_of(p), is_ours ? heap : NULL);
  assert_ptr_equal(mi_heap_of(q), is_ours ? heap : NULL);
  free(p);
  free(q);
  mi_theap_set_default(before);
  mi_heap_delete(heap);
}

// If this fails, a failed look-up of a theap takes malloc away from the thread.
static void theap_set_default_ignores_null(void** state) {
  (void)state;
  mi_heap_t* const heap = mi_heap_new();
  mi_theap_t* const theap = mi_heap_theap(heap);
  mi_theap_t* const before = mi_theap_set_default(theap);
  assert_ptr_equal(mi_theap_set_default(NULL), theap);
  assert_ptr_equal(mi_theap_get_default(), theap);
  check_default(heap);
  assert_ptr_equal(mi_theap_set_default(before), theap);
  assert_ptr_equal(mi_theap_set_default(NULL), before);
  check_default(mi_heap_main());
  mi_heap_delete(heap);
}

// If this fails, malloc goes on to use a heap that is gone.
static void theap_default_falls_back_when_its_heap_ends(void** state) {
  (void)state;
  mi_theap_t* const of_main = mi_theap_get_default();
  for (size_t round = 0; round < 50; round++) {
    mi_heap_t* const heap = mi_heap_new();
    mi_heap_t* const other = mi_heap_new();
    assert_ptr_equal(mi_theap_set_default(mi_heap_theap(heap)), of_main);
    unsigned char* const p = (unsigned char*)mi_malloc(100);
    memset(p, 5, 100);
    assert_ptr_equal(mi_heap_of(p), heap);
    // The end of another heap changes nothing.
    mi_heap_destroy(other);
    assert_ptr_equal(mi_theap_get_default(), mi_heap_theap(heap));
    if (round % 2 == 0) {
      mi_heap_destroy(heap);
      assert_null(mi_heap_of(p));
    } else {
      mi_heap_delete(heap);
      assert_true(test_is_filled(p, 100, 5) && mi_heap_of(p) == mi_heap_main());
      mi_free(p);
    }
    assert_ptr_equal(mi_theap_get_default(), of_main);
    check_default(mi_heap_main());
  }
}

typedef struct job_s {
  mi_heap_t* heap;
  void* p;
} job_t;

static void allocate_by_default(void* argument) {
  job_t* const job = (job_t*)argument;
  if (job->heap != NULL) mi_theap_set_default(mi_heap_theap(job->heap));
  job->p = mi_malloc(100);
}

// If this fails, ending a heap that is the default here changes what other threads allocate from.
static void theap_default_of_others_stays_when_a_heap_ends(void** state) {
  (void)state;
  mi_heap_t* const mine = mi_heap_new();
  job_t job = {mi_heap_new(), NULL};
  puppet_t puppet;
  puppet_start(&puppet);
  mi_theap_set_default(mi_heap_theap(mine));
  puppet_do(&puppet, &allocate_by_default, &job);
  assert_ptr_equal(mi_heap_of(job.p), job.heap);
  mi_heap_destroy(mine);
  check_default(mi_heap_main());
  job_t again = {NULL, NULL};
  puppet_do(&puppet, &allocate_by_default, &again);
  assert_ptr_equal(mi_heap_of(again.p), job.heap);
  puppet_end(&puppet);
  assert_true(mi_heap_of(again.p) == job.heap && mi_heap_of(job.p) == job.heap);
  mi_heap_destroy(job.heap);
}

static void* set_default_and_end(void* argument) {
  allocate_by_default(argument);
  return NULL;
}

// If this fails, a thread that ends with another default leaves lists that the next thread takes
// for its own.
static void theap_default_ends_with_the_thread(void** state) {
  (void)state;
  for (size_t round = 0; round < 50; round++) {
    job_t job = {mi_heap_new(), NULL};
    test_on_thread(&set_default_and_end, &job);
    assert_ptr_equal(mi_heap_of(job.p), job.heap);
    found_t found = {.heap = job.heap};
    test_on_thread(&find_theaps, &found);
    assert_true(found.is_main_default && found.by_default == found.of_main);
    mi_free(job.p);
    mi_heap_delete(job.heap);
  }
}

// -- The rest --

// If this fails, resizing by way of a theap loses contents, or leaves the block in another heap.
static void theap_realloc_keeps_contents_and_moves(void** state) {
  (void)state;
  mi_heap_t* const heap = mi_heap_new();
  mi_theap_t* const theap = mi_heap_theap(heap);
  size_t size = 10;
  unsigned char* p = (unsigned char*)mi_malloc(size); // not in the heap yet
  memset(p, 6, size);
  while (size < 20 * TEST_MIB) {
    const size_t larger = size * 2 + 3;
    p = (unsigned char*)mi_theap_realloc(theap, p, larger);
    assert_true(p != NULL && mi_heap_of(p) == heap && test_is_filled(p, size, 6));
    memset(p, 6, larger);
    size = larger;
  }
  p = (unsigned char*)mi_theap_realloc(theap, p, 1000);
  assert_true(p != NULL && test_is_filled(p, 1000, 6));
  assert_ptr_equal(mi_theap_realloc(theap, p, mi_usable_size(p)), p);
  p = (unsigned char*)mi_theap_realloc(theap, p, test_opaque(0));
  assert_non_null(p);
  mi_heap_destroy(heap);
}

// If this fails, a thread that has finished its work keeps the memory.
static void theap_collect_gives_memory_back(void** state) {
  (void)state;
  test_skip_if_guarded("the records of guarded blocks stay");
  test_skip_if_valgrind();
  enum { COUNT = 40000 };
  static void* p[COUNT];
  mi_heap_t* const heap = mi_heap_new();
  mi_theap_t* const theap = mi_heap_theap(heap);
  void* const kept = mi_theap_calloc(theap, 10, 10);
  mi_collect(true); // of the tests before
  const size_t before = proc_resident();
  for (size_t i = 0; i < COUNT; i++) {
    p[i] = mi_theap_malloc(theap, 1000);
    test_touch(p[i], 1000, 1);
  }
  const size_t peak = test_growth(before);
  assert_true(peak >= COUNT * (size_t)1000 / 10 * 9);
  for (size_t i = 0; i < COUNT; i++) mi_free(p[i]);
  mi_theap_collect(theap, false);
  mi_theap_collect(theap, true);
  test_bound_growth(before, peak / 10);
  assert_true(test_is_filled(kept, 100, 0) && mi_heap_of(kept) == heap);
  mi_heap_destroy(heap);
}

// If this fails, programs that ask for guarded blocks break in builds without them.
static void theap_guarded_functions_are_harmless(void** state) {
  (void)state;
  mi_heap_t* const heap = mi_heap_new();
  mi_theap_t* const theap = mi_heap_theap(heap);
  static const size_t rates[] = {0, 1, 2, 1000, SIZE_MAX};
  for (size_t i = 0; i < sizeof(rates) / sizeof(rates[0]); i++) {
    mi_theap_guarded_set_sample_rate(theap, rates[i], i);
    mi_theap_guarded_set_size_bound(theap, rates[i], 100);
    mi_heap_guarded_set_sample_rate(heap, rates[i], i);
    mi_heap_guarded_set_size_bound(heap, 10, rates[i]);
    for (size_t size = 0; size < 300; size++) {
      unsigned char* const p = (unsigned char*)mi_theap_malloc(theap, size);
      assert_non_null(p);
      memset(p, 1, size);
      mi_free(p);
    }
  }
  mi_heap_guarded_set_sample_rate(NULL, 0, 0);
  mi_heap_guarded_set_size_bound(NULL, 0, SIZE_MAX);
  mi_heap_destroy(heap);
}

// Runs in a child: many heaps, then no memory for the theaps of all of them.
static void exhaust_theaps(void) {
  enum { HEAPS = 20000, BLOCKS = 200000 };
  static mi_heap_t* heap[HEAPS];
  static void* block[BLOCKS];
  for (size_t i = 0; i < HEAPS; i++) heap[i] = mi_heap_new();
  if (!test_limit_address_space(0)) _exit(SKIPPED);
  size_t blocks = 0; // from large to small, until nothing is left
  for (size_t size = 8 * TEST_MIB; size >= 8; size /= 2) {
    while (blocks < BLOCKS && (block[blocks] = mi_malloc(size)) != NULL) blocks++;
  }
  size_t made = 0;
  mi_theap_t* theap = NULL;
  errno = 0;
  while (made < HEAPS && (theap = mi_heap_theap(heap[made])) != NULL) made++;
  CHECK(made < HEAPS && errno == ENOMEM);
  errno = 0;
  CHECK(mi_theap_malloc(theap, 10) == NULL && errno == ENOMEM);
  errno = 0;
  CHECK(mi_heap_malloc(heap[made], 10) == NULL && errno == ENOMEM);
  CHECK(mi_theap_set_default(theap) == mi_theap_get_default());
  while (blocks > 0) mi_free(block[--blocks]);
  test_lift_address_limit();
  theap = mi_heap_theap(heap[made]);
  CHECK(theap != NULL && mi_heap_of(mi_theap_malloc(theap, 10)) == heap[made]);
  printf("went on\n");
}

// If this fails, a program that runs out of memory when a thread first uses a heap crashes.
static void theap_without_memory_is_null(void** state) {
  (void)state;
  test_skip_if_valgrind();
  static spawn_result_t result;
  assert_true(spawn_fork(&exhaust_theaps, &result));
  if (result.exit_status == SKIPPED) test_skip("no limit can be set");
  if (result.exit_status != 0 || spawn_count(&result, "went on") != 1) {
    fail_msg("signal %d, status %d:\n%s", result.signal, result.exit_status, result.output);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(theap_every_function_gives_blocks_of_the_heap),
      cmocka_unit_test(theap_refuses_what_cannot_be),
      cmocka_unit_test(theap_null_has_no_memory),
      cmocka_unit_test(theap_is_one_for_each_thread_and_heap),
      cmocka_unit_test(theap_set_default_is_for_malloc_of_this_thread),
      cmocka_unit_test(theap_default_is_for_libc_names_too),
      cmocka_unit_test(theap_set_default_ignores_null),
      cmocka_unit_test(theap_default_falls_back_when_its_heap_ends),
      cmocka_unit_test(theap_default_of_others_stays_when_a_heap_ends),
      cmocka_unit_test(theap_default_ends_with_the_thread),
      cmocka_unit_test(theap_realloc_keeps_contents_and_moves),
      cmocka_unit_test(theap_collect_gives_memory_back),
      cmocka_unit_test(theap_guarded_functions_are_harmless),
      cmocka_unit_test(theap_without_memory_is_null),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
