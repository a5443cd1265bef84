// SPDX-License-Identifier: MIT
// tagged.c - addresses in whose highest byte the program keeps a tag, which the processor ignores
// (64-bit ARM): every function takes them for the address without the tag, and none returns one.
//
// A build that uses the lower half of that byte itself, for memory tags, leaves the upper half to
// the program.
#include <pthread.h>
#include <sys/mman.h>

#include "test_reports.h"

static const unsigned tags[] = {0x11, 0xF0, 0x80, 0xB4, 0xFF};
#define TAGS (sizeof(tags) / sizeof(tags[0]))

static const size_t sizes[] = {1, 8, 24, 100, 1000, 5000, 40000, 300000, 2000000};
#define SIZES (sizeof(sizes) / sizeof(sizes[0]))

#define TAG_SHIFT 56

// Return what the library has put into the highest byte of an address.
static uintptr_t tag_of(const void* p) { return (uintptr_t)p >> TAG_SHIFT; }

static void* tagged(void* p, size_t i) {
  const uintptr_t mask = test_has_memory_tags() ? 0xF0 : 0xFF;
  return (void*)((uintptr_t)p | (tags[i % TAGS] & mask) << TAG_SHIFT);
}

// True if the program's part of the byte is clear.
static bool is_plain(const void* p) {
  return (tag_of(p) & (test_has_memory_tags() ? 0xF0 : 0xFF)) == 0;
}

// If this fails, freeing a tagged block crashes or is refused, or malloc returns its tag later.
static void tagged_blocks_are_freed(void** state) {
  (void)state;
  listen();
  for (size_t s = 0; s < SIZES; s++) {
    void* blocks[300];
    const size_t count = sizes[s] > 100000 ? 10 : 300;
    for (size_t round = 0; round < 3; round++) {
      for (size_t i = 0; i < count; i++) {
        blocks[i] = mi_malloc(sizes[s]);
        assert_true(is_plain(blocks[i]));
        memset(tagged(blocks[i], i), (int)(i & 0x7F), sizes[s]);
      }
      for (size_t i = 0; i < count; i++) assert_true(test_is_filled(blocks[i], sizes[s], i & 0x7F));
      for (size_t i = 0; i < count; i++) mi_free(tagged(blocks[i], i));
    }
  }
  mi_collect(true);
  assert_int_equal(damages + refusals, 0);
}

static void* free_all(void* arg) {
  void** const blocks = (void**)arg;
  for (size_t i = 0; blocks[i] != NULL; i++) mi_free(tagged(blocks[i], i));
  return NULL;
}

// If this fails, a tagged block that another thread frees is lost, or damages the heap.
static void tagged_blocks_are_freed_by_other_threads(void** state) {
  (void)state;
  listen();
  for (size_t s = 0; s < SIZES; s++) {
    static void* blocks[301];
    const size_t count = sizes[s] > 100000 ? 10 : 300;
    for (size_t round = 0; round < 3; round++) {
      for (size_t i = 0; i < count; i++) blocks[i] = mi_zalloc(sizes[s]);
      for (size_t i = 0; i < count; i++) {
        assert_true(is_plain(blocks[i]));
        assert_true(test_is_filled(blocks[i], sizes[s], 0));
        memset(blocks[i], 1, sizes[s]);
      }
      blocks[count] = NULL;
      pthread_t thread;
      assert_int_equal(pthread_create(&thread, NULL, &free_all, blocks), 0);
      pthread_join(thread, NULL);
    }
  }
  assert_int_equal(damages + refusals, 0);
}

// If this fails, a tagged block is not recognised, or its size is wrong.
static void tagged_blocks_are_known(void** state) {
  (void)state;
  mi_heap_t* const heap = mi_heap_new();
  char before[1000];
  char after[1000];
  for (size_t s = 0; s < SIZES; s++) {
    void* const p = mi_heap_malloc(heap, sizes[s]);
    void* const q = tagged(p, s);
    assert_ptr_not_equal(p, q);
    assert_int_equal(mi_usable_size(q), mi_usable_size(p));
    assert_ptr_equal(mi_heap_of(q), heap);
    assert_true(mi_heap_contains(heap, q));
    assert_true(mi_any_heap_contains(q));
    assert_true(mi_is_in_heap_region(q));
    assert_true(mi_check_owned(q));
    mi_describe(p, before, sizeof(before));
    mi_describe(q, after, sizeof(after));
    assert_string_equal(before, after);
    mi_describe_json(p, before, sizeof(before));
    mi_describe_json(q, after, sizeof(after));
    assert_string_equal(before, after);
    size_t size;
    mi_ufree(q, &size);
    assert_true(size >= sizes[s]);
  }
  mi_heap_destroy(heap);
}

// If this fails, a tagged block loses its contents when it changes its size, or the result is
// refused by free.
static void tagged_blocks_are_resized(void** state) {
  (void)state;
  listen();
  for (size_t s = 0; s + 1 < SIZES; s++) {
    for (size_t t = 0; t < SIZES; t++) {
      unsigned char* p = (unsigned char*)mi_zalloc(sizes[s]);
      memset(p, 7, sizes[s]);
      p = (unsigned char*)mi_rezalloc(tagged(p, t), sizes[t]);
      assert_true(is_plain(p));
      const size_t kept = sizes[s] < sizes[t] ? sizes[s] : sizes[t];
      assert_true(test_is_filled(p, kept, 7));
      assert_true(test_is_filled(p + kept, sizes[t] - kept, 0));
      p = (unsigned char*)mi_realloc_aligned(tagged(p, s), sizes[t] + 1, 256);
      assert_true(is_plain(p) && test_is_aligned(p, 256));
      assert_true(test_is_filled(p, kept, 7));
      void* const same = mi_expand(tagged(p, s), sizes[t]);
      assert_non_null(same);
      mi_free_size(tagged(p, t), sizes[t]);
    }
  }
  assert_int_equal(damages + refusals, 0);
}

// If this fails, an address inside a block is not found by its tagged form.
static void tagged_blocks_with_an_offset_are_freed(void** state) {
  (void)state;
  listen();
  for (size_t i = 0; i < 1000; i++) {
    const size_t size = 20 + i * 3;
    unsigned char* const p = (unsigned char*)mi_malloc_aligned_at(size, 64, 16);
    assert_true(test_is_aligned(p + 16, 64));
    memset(p, 5, size);
    assert_true(mi_usable_size(tagged(p, i)) >= size);
    mi_free_aligned(tagged(p, i), 16);
  }
  void* const huge = mi_malloc_aligned(100000, 1 << 20);
  mi_free(tagged(huge, 3));
  assert_int_equal(damages + refusals, 0);
}

// If this fails, mistakes with tagged addresses are missed, or named wrong.
static void tagged_mistakes_are_reported(void** state) {
  (void)state;
  int local = 0;
  char* const large = (char*)mi_malloc(2000000);
  void* const stale = mi_malloc(3000000);
  mi_free(stale);
  void* const wrong[] = {&local, large + 64, stale};
  for (size_t i = 0; i < 3; i++) {
    static char expected[sizeof(said)];
    listen();
    mi_free(wrong[i]);
    assert_int_equal(refusals, 1);
    memcpy(expected, said, sizeof(said));
    listen();
    mi_free(tagged(wrong[i], 3));
    assert_int_equal(refusals, 1);
    assert_string_equal(said, expected);
    listen();
    assert_null(mi_realloc(tagged(wrong[i], 3), 5000000));
    assert_int_equal(refusals, 1);
  }
  mi_free(large);
  assert_int_equal(mi_usable_size(tagged(&local, 2)), 0);
  assert_false(mi_is_in_heap_region(tagged(&local, 2)));
}

// If this fails, memory that a program brings along by a tagged address is refused.
static void tagged_memory_becomes_an_arena(void** state) {
  (void)state;
  const size_t size = 64 * TEST_MIB;
  void* const start =
      mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  assert_ptr_not_equal(start, MAP_FAILED);
  mi_arena_id_t arena;
  assert_true(mi_manage_os_memory_ex(tagged(start, 3), size, true, false, true, -1, true, &arena));
  mi_heap_t* const heap = mi_heap_new_in_arena(arena);
  for (size_t s = 0; s < SIZES; s++) {
    void* const p = mi_heap_zalloc(heap, sizes[s]);
    assert_true(is_plain(p) && test_is_filled(p, sizes[s], 0));
    assert_true(mi_arena_contains(arena, tagged(p, s)));
    mi_free(tagged(p, s));
  }
  mi_heap_destroy(heap);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(tagged_blocks_are_freed),
      cmocka_unit_test(tagged_blocks_are_freed_by_other_threads),
      cmocka_unit_test(tagged_blocks_are_known),
      cmocka_unit_test(tagged_blocks_are_resized),
      cmocka_unit_test(tagged_blocks_with_an_offset_are_freed),
      cmocka_unit_test(tagged_mistakes_are_reported),
      cmocka_unit_test(tagged_memory_becomes_an_arena),
  };
  return cmocka_run_group_tests(tests, &reports_set_up, &reports_tear_down);
}
