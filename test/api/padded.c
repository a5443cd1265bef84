// SPDX-License-Identifier: MIT
// padded.c - what a padded build (MI_PADDING) finds, to the byte, for blocks of all kinds. Only for
// that build; test/interop/test_tools.py runs whole programs with mistakes.
#include "puppet.h"
#include "race.h"
#include "test_reports.h"

#define CONTENTS_MAX (512 * TEST_KIB) // larger blocks are not filled when they are freed

// The one report since `listen` is about this block, and the byte at `found`.
static void expect(const char* kind, const void* block, size_t size, const char* where) {
  char text[256];
  snprintf(text, sizeof(text), "%s in heap block 0x%zx of size %zu: write %s, found in ", kind,
           (size_t)(uintptr_t)block, size, where);
  if (damages != 1 || refusals != 0 || strstr(said, text) == NULL) {
    fail_msg("%zu errors, and no \"%s\" in:\n%s", damages + refusals, text, said);
  }
}

static const char* words(const char* format, size_t bytes) {
  static char text[64];
  snprintf(text, sizeof(text), format, bytes); // NOLINT: the formats are in this file
  return text;
}

static void spoil(unsigned char* at) { *(volatile unsigned char*)at ^= 0x55; }

static const size_t sizes[] = {0,     1,     7,      8,      15,     16,     17,
                               24,    40,    100,    1000,   4095,   4096,   5000,
                               20000, 60000, 131072, 300000, 524288, 524289, 3 * TEST_MIB + 5};
#define SIZE_COUNT (sizeof(sizes) / sizeof(sizes[0]))

// If this fails, a write behind a block is missed, or its place is told wrong.
static void overflow_is_found_to_the_byte(void** state) {
  (void)state;
  for (size_t i = 0; i < SIZE_COUNT; i++) {
    for (size_t distance = 0; distance < 16; distance++) {
      unsigned char* const p = (unsigned char*)mi_malloc(sizes[i]);
      listen();
      spoil(p + sizes[i] + distance);
      mi_free(p);
      expect("buffer overflow", p, sizes[i], words("after %zu bytes", sizes[i] + distance));
    }
  }
}

// If this fails, a write in front of a block is missed.
static void underflow_is_found_to_the_byte(void** state) {
  (void)state;
  for (size_t alignment = 16; alignment <= 4096; alignment *= 4) {
    for (size_t i = 0; i < SIZE_COUNT; i++) {
      for (size_t distance = 1; distance <= alignment; distance += alignment / 16) {
        unsigned char* const p = (unsigned char*)mi_malloc_aligned(sizes[i], alignment);
        assert_true(test_is_aligned(p, alignment));
        listen();
        spoil(p - distance);
        mi_free(p);
        expect("buffer underflow", p, sizes[i], words("%zu bytes before it", distance));
      }
    }
  }
}

// If this fails, a string that is copied into too short a block hides how far it went, or the block
// cannot be freed any more.
static void overflow_of_everything_behind_is_one_report(void** state) {
  (void)state;
  for (size_t i = 0; i < SIZE_COUNT; i++) {
    unsigned char* const p = (unsigned char*)mi_malloc(sizes[i]);
    listen();
    memset((void*)test_opaque_pointer(p + sizes[i]), i % 2 == 0 ? 0 : 'x', 16);
    mi_free(p);
    expect("buffer overflow", p, sizes[i], words("after %zu bytes", sizes[i]));
    assert_non_null(strstr(said, i % 2 == 0 ? "there is now 00 00 " : "there is now 78 78 "));
    listen();
    mi_free(test_opaque_pointer(p)); // it was freed
    assert_int_equal(damages, 0);
    assert_int_equal(refusals, 1);
  }
}

// If this fails, a use after free is missed: by the check of everything.
static void late_write_is_found_by_collect(void** state) {
  (void)state;
  test_skip_if_guarded("a freed block with guards is inaccessible");
  for (size_t i = 0; i < SIZE_COUNT && sizes[i] <= 8192; i++) {
    void* const neighbour = mi_malloc(sizes[i]); // keeps the page
    for (size_t at = 0; at < sizes[i]; at += 1 + sizes[i] / 7) {
      unsigned char* const p = (unsigned char*)mi_malloc(sizes[i]);
      mi_free(p);
      listen();
      spoil(p + at);
      mi_collect(true);
      expect("use after free", p, sizes[i], words("%zu bytes into it", at));
      listen();
      mi_collect(true); // it is told once
      assert_int_equal(damages, 0);
    }
    mi_free(neighbour);
  }
}

// If this fails, a use after free is missed: by the next user of the memory.
static void late_write_is_found_at_reuse(void** state) {
  (void)state;
  test_skip_if_guarded("a freed block with guards is inaccessible");
  for (size_t size = 1; size <= 5000; size = size * 3 + 1) {
    unsigned char* const p = (unsigned char*)mi_malloc(size);
    static void* more[6000];
    mi_free(p);
    listen();
    spoil(p + size - 1);
    size_t count = 0;
    while (damages == 0 && count < 6000) more[count++] = mi_malloc(size);
    expect("use after free", p, size, words("%zu bytes into it", size - 1));
    while (count > 0) mi_free(more[--count]);
    assert_int_equal(damages, 1);
  }
}

// If this fails, a buffer that grows or shrinks in place takes what is around it for its own.
static void realloc_looks_around(void** state) {
  (void)state;
  for (size_t i = 0; i < SIZE_COUNT; i++) {
    if (sizes[i] < 40 || sizes[i] > CONTENTS_MAX / 2) continue;
    unsigned char* p = (unsigned char*)mi_malloc(sizes[i]);
    listen();
    spoil(p + sizes[i] + 3);
    unsigned char* const q = (unsigned char*)mi_realloc(p, sizes[i] - 5);
    expect("buffer overflow", p, sizes[i], words("after %zu bytes", sizes[i] + 3));
    listen();
    spoil(q + sizes[i] - 5); // was in the block before
    mi_free(q);
    expect("buffer overflow", q, sizes[i] - 5, words("after %zu bytes", sizes[i] - 5));
  }
}

// If this fails, realloc takes an address inside of a block for a block.
static void realloc_inside_is_refused(void** state) {
  (void)state;
  for (size_t i = 0; i < SIZE_COUNT; i++) {
    const size_t size = sizes[i];
    if (size < 40) continue;
    unsigned char* const p = (unsigned char*)memset(mi_malloc(size), 'a', size);
    size_t expected = 0;
    listen();
    for (size_t inside = 1; inside < size; inside += 15 + size / 5) {
      for (size_t left = (size - inside) / 2; left <= size - inside; left += 1 + size / 3) {
        errno = 0;
        assert_null(mi_realloc(test_opaque_pointer(p + inside), left));
        assert_int_equal(errno, EINVAL);
        assert_null(mi_realloc_aligned(test_opaque_pointer(p + inside), left, 16));
        assert_null(mi_rezalloc(test_opaque_pointer(p + inside), left));
        expected += 3;
        assert_null(mi_expand(p + inside, left)); // that is an answer
      }
    }
    assert_int_equal(refusals, expected);
    assert_int_equal(damages, 0);
    assert_true(test_is_filled(p, size, 'a'));
    assert_int_equal(mi_usable_size(p), size);
    mi_free(p);
    assert_int_equal(refusals + damages, expected);
  }
}

// If this fails, a block whose note was overwritten loses its contents when it grows.
static void realloc_of_a_damaged_block_keeps_it(void** state) {
  (void)state;
  test_skip_if_guarded("a write behind a guarded block may end the program");
  unsigned char* const p = (unsigned char*)memset(mi_malloc(100), 'a', 100);
  listen();
  memset((void*)test_opaque_pointer(p + 100), 'x', 24); // the slot has 144 bytes
  assert_int_equal(mi_usable_size(p), 100);
  unsigned char* const q = (unsigned char*)mi_realloc(p, 5000);
  expect("buffer overflow", p, 100, "after 100 bytes");
  assert_true(test_is_filled(q, 100, 'a'));
  mi_free(q);
}

// If this fails, a program that makes a block shorter in place is told that it frees it with a
// wrong size, or is not told of a write behind it.
static void expand_makes_a_block_shorter(void** state) {
  (void)state;
  for (size_t i = 0; i < SIZE_COUNT; i++) {
    const size_t size = sizes[i];
    if (size < 40) continue;
    unsigned char* p = (unsigned char*)mi_malloc(size);
    listen();
    assert_ptr_equal(mi_expand(p, size - 20), p);
    assert_int_equal(mi_usable_size(p), size - 20);
    mi_free_size(p, size - 20);
    assert_string_equal(said, "");
    p = (unsigned char*)mi_malloc(size);
    assert_ptr_equal(mi_expand(p, size - 20), p);
    spoil(p + size - 20);
    mi_free(p);
    expect("buffer overflow", p, size - 20, words("after %zu bytes", size - 20));
  }
}

// If this fails, a block is handed out twice.
static void every_wrong_free_is_refused(void** state) {
  (void)state;
  for (size_t i = 0; i < SIZE_COUNT; i++) {
    const size_t size = sizes[i];
    unsigned char* const p = (unsigned char*)mi_malloc(size);
    void* const q = mi_malloc(size);
    void* const r = mi_malloc(size);
    listen();
    for (size_t inside = 1; inside < size; inside += 1 + size / 5) mi_free(p + inside);
    mi_free(p - 16);
    mi_free(p + size + 1);
    assert_int_equal(damages, 0);
    const size_t expected = refusals;
    assert_true(expected >= 2);
    mi_free(p);
    mi_free(q);
    assert_int_equal(refusals, expected);
    mi_free(test_opaque_pointer(p));
    mi_free(test_opaque_pointer(q));
    mi_free(test_opaque_pointer(p));
    assert_int_equal(refusals, expected + 3);
    assert_int_equal(mi_usable_size(test_opaque_pointer(p)), 0);
    assert_int_equal(mi_usable_size(r), size);
    mi_free(r);
    assert_int_equal(refusals, expected + 3);
  }
}

// If this fails, an overflow that ends in the last bytes of a slot is taken for another mistake.
static void every_change_of_a_note_is_noticed(void** state) {
  (void)state;
  test_skip_if_guarded("a guarded block has no slot of 5120 bytes");
  const size_t size = 5000; // of a slot of 5120 bytes, with 16 bytes before it and 16 at the end
  for (size_t at = 5120 - 32; at < 5120 - 16; at++) {
    for (unsigned change = 1; change < 256; change++) {
      unsigned char* const p = (unsigned char*)mi_malloc(size);
      listen();
      *(volatile unsigned char*)(p + at) ^= (unsigned char)change;
      mi_free(p);
      expect("buffer overflow", p, size, words("after %zu bytes", at));
    }
  }
}

#define RACES 3000

// If this fails, two threads that free a block at one moment free it twice.
static void double_free_at_one_moment_is_refused(void** state) {
  (void)state;
  // The second free reads the note in inaccessible memory: that is told as a use after free.
  test_skip_if_guarded("a freed block with guards is inaccessible");
  if (test_is_sanitized()) test_skip("two threads race on purpose");
  listen();
  mi_option_disable(mi_option_verbose); // 3,000 reports
  assert_true(race_begin(RACES));
  for (size_t i = 1; i <= RACES; i++) {
    race_free_twice(mi_malloc_aligned(100, 4096), i); // whose margin takes a while to look at
    assert_int_equal(refusals, i);
  }
  race_end();
  assert_int_equal(damages, 0);
  mi_option_enable(mi_option_verbose);
}

// If this fails, a program that makes no mistake is told of one.
static void right_program_is_told_nothing(void** state) {
  (void)state;
  static struct {
    unsigned char* p;
    size_t size;
  } block[500];
  uint64_t random = 7;
  listen();
  for (size_t step = 0; step < 60000; step++) {
    const size_t i = random_below(&random, 500);
    const size_t size = random_below(&random, (size_t)1 << random_below(&random, 20));
    const size_t alignment = (size_t)1 << random_below(&random, 18);
    unsigned char* p = block[i].p;
    switch (random_below(&random, 6)) {
      case 0:
        p = (unsigned char*)mi_realloc(p, size);
        break;
      case 1:
        p = (unsigned char*)mi_realloc_aligned(p, size, alignment);
        break;
      case 2:
        mi_free(p);
        p = (unsigned char*)mi_malloc_aligned_at(size, alignment, alignment / 2);
        break;
      case 3:
        mi_free(p);
        p = (unsigned char*)mi_zalloc(size);
        assert_true(test_is_filled(p, size, 0));
        break;
      case 4:
        mi_free(p);
        p = (unsigned char*)mi_malloc(size);
        assert_true(test_is_filled(p, size <= CONTENTS_MAX ? size : 0, 0xD0));
        break;
      default:
        p = (unsigned char*)mi_rezalloc(p, size);
        break;
    }
    assert_non_null(p);
    memset(p, (int)step, mi_usable_size(p));
    block[i].p = p;
    block[i].size = size;
    if (step % 5000 == 0) mi_collect(true);
  }
  for (size_t i = 0; i < 500; i++) mi_free(block[i].p);
  mi_collect(true);
  if (damages + refusals > 0) fail_msg("%s", said);
}

#define RING 4096
static void* ring[RING];
static size_t ring_put, ring_taken; // atomic

// Frees what comes, until that is NULL; never allocates.
static void* free_only(void* arg) {
  for (size_t i = 0;; i++) {
    race_await(&ring_taken, i);
    while (__atomic_load_n(&ring_put, __ATOMIC_ACQUIRE) == i) sched_yield();
    void* const p = ring[i % RING];
    if (p == NULL) return arg;
    mi_free(p);
    __atomic_store_n(&ring_taken, i + 1, __ATOMIC_RELEASE);
  }
}

static void give_to_free(void* p) {
  while (ring_put - __atomic_load_n(&ring_taken, __ATOMIC_ACQUIRE) >= RING) sched_yield();
  ring[ring_put % RING] = p;
  __atomic_store_n(&ring_put, ring_put + 1, __ATOMIC_RELEASE);
}

// If this fails, a right program with a thread that only frees ends when another one collects.
static void collect_beside_a_thread_that_frees_is_silent(void** state) {
  (void)state;
  test_skip_if_guarded("a freed block with guards is inaccessible");
  if (test_is_sanitized()) test_skip("two threads race on purpose");
  uint64_t random = 3;
  pthread_t thread;
  ring_put = ring_taken = 0;
  listen();
  assert_int_equal(pthread_create(&thread, NULL, &free_only, NULL), 0);
  for (size_t round = 0; round < 2000; round++) {
    for (size_t i = 0; i < 300; i++) {
      const size_t size = 1 + random_below(&random, 600);
      give_to_free(memset(mi_malloc(size), 1, size));
    }
    mi_collect(true);
  }
  give_to_free(NULL);
  pthread_join(thread, NULL);
  if (damages + refusals > 0) fail_msg("%s", said);
}

static mi_heap_t* main_heap;

static void enter_subproc(void* arg) {
  mi_subproc_add_current_thread(*(mi_subproc_id_t*)arg);
  main_heap = mi_heap_main();
}

static void collect(void* arg) {
  (void)arg;
  mi_collect(true);
}

// If this fails, what one thread does with blocks of a sub-process is taken for damage when another
// one collects there.
static void collect_looks_only_where_nobody_allocates(void** state) {
  (void)state;
  test_skip_if_guarded("a write behind a guarded block may end the program");
  static puppet_t other;
  mi_subproc_id_t subproc = mi_subproc_new();
  puppet_start(&other);
  puppet_do(&other, &enter_subproc, &subproc);
  unsigned char* const p = (unsigned char*)mi_heap_malloc(main_heap, 100);
  listen();
  spoil(p + 100); // as if this thread were just making the block
  puppet_do(&other, &collect, NULL);
  assert_int_equal(damages, 0);
  mi_thread_done(); // it allocates no more
  puppet_do(&other, &collect, NULL);
  expect("buffer overflow", p, 100, "after 100 bytes");
  spoil(p + 100);
  mi_free(p);
  puppet_end(&other);
  mi_subproc_delete(subproc);
}

static void* use_theap(void* arg) {
  mi_theap_t* const theap = (mi_theap_t*)arg;
  void* const p = mi_malloc(100);
  assert_null(mi_theap_malloc(theap, 100));
  assert_null(mi_theap_zalloc(theap, 100));
  assert_null(mi_theap_calloc(theap, 10, 10));
  assert_null(mi_theap_malloc_aligned(theap, 100, 64));
  assert_null(mi_theap_realloc(theap, p, 1000));
  mi_theap_collect(theap, true);
  mi_free(p);
  return NULL;
}

// If this fails, two threads that allocate from one theap destroy its lists, and nobody says so.
static void theap_of_another_thread_is_refused(void** state) {
  (void)state;
  mi_heap_t* const heap = mi_heap_new();
  mi_theap_t* const theaps[] = {mi_theap_get_default(), mi_heap_theap(heap)};
  for (size_t i = 0; i < 2; i++) {
    listen();
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, &use_theap, theaps[i]), 0);
    pthread_join(thread, NULL);
    assert_int_equal(refusals, 6);
    assert_int_equal(damages, 0);
    assert_non_null(strstr(said, "wrong heap in "));
    listen();
    mi_free(mi_theap_malloc(theaps[i], 100));
    mi_theap_collect(theaps[i], true);
    assert_int_equal(refusals, 0);
  }
  mi_heap_destroy(heap);
}

// If this fails, a program goes on with a heap that it destroyed, and its blocks become those of
// the next heap.
static void heap_that_has_ended_is_refused(void** state) {
  (void)state;
  for (size_t i = 0; i < 2; i++) {
    mi_heap_t* const heap = mi_heap_new();
    mi_free(mi_heap_malloc(heap, 100));
    i == 0 ? mi_heap_delete(heap) : mi_heap_destroy(heap);
    listen();
    assert_null(mi_heap_malloc(heap, 100));
    assert_null(mi_heap_theap(heap));
    assert_int_equal(refusals, 2);
    assert_int_equal(damages, 0);
    assert_non_null(strstr(said, "wrong heap in heap"));
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(overflow_is_found_to_the_byte),
      cmocka_unit_test(underflow_is_found_to_the_byte),
      cmocka_unit_test(overflow_of_everything_behind_is_one_report),
      cmocka_unit_test(late_write_is_found_by_collect),
      cmocka_unit_test(late_write_is_found_at_reuse),
      cmocka_unit_test(realloc_looks_around),
      cmocka_unit_test(realloc_inside_is_refused),
      cmocka_unit_test(realloc_of_a_damaged_block_keeps_it),
      cmocka_unit_test(expand_makes_a_block_shorter),
      cmocka_unit_test(every_wrong_free_is_refused),
      cmocka_unit_test(every_change_of_a_note_is_noticed),
      cmocka_unit_test(double_free_at_one_moment_is_refused),
      cmocka_unit_test(collect_beside_a_thread_that_frees_is_silent),
      cmocka_unit_test(collect_looks_only_where_nobody_allocates),
      cmocka_unit_test(theap_of_another_thread_is_refused),
      cmocka_unit_test(heap_that_has_ended_is_refused),
      cmocka_unit_test(right_program_is_told_nothing),
  };
  return cmocka_run_group_tests_name("padded", tests, &reports_set_up, &reports_tear_down);
}
