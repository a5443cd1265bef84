// SPDX-License-Identifier: MIT
// run.c - tests of arenas/run.c: RUN-1, RUN-2, and what a heap does whose arena is full or refuses.
#include "unit.h"

#include "core/arenas/arena.h"
#include "core/arenas/bitmap.h"
#include "core/arenas/book.h"
#include "core/arenas/numa.h"
#include "core/heaps/heap.h"
#include "core/common/meta.h"
#include "core/pages/page.h"
#include "core/arenas/run.h"
#include "core/threads/theap.h"

#define SIZE 256
#define LARGE (MI_CLASS_MAX * 2)

static size_t book_length(mi_book_t* book) {
  size_t count = 0;
  for (uint32_t at = 0; mi_book_next(book, &at) != NULL;) count++;
  return count;
}

static mi_arena_t* make_arena(size_t size, mi_arena_commit_fun_t* commit_fun, bool is_exclusive) {
  mi_process_setup();
  uint8_t* const p =
      (uint8_t*)mi_os_map(NULL, size, MI_CHUNK_SLICES * MI_SLICE_SIZE, MI_OS_READ_WRITE);
  check(p != NULL);
  const mi_arena_plan_t plan = {.start = p,
                                .size = size,
                                .is_committed = commit_fun == NULL,
                                .is_foreign = true,
                                .is_exclusive = is_exclusive,
                                .numa_node = -1,
                                .commit_fun = commit_fun};
  mi_arena_t* const arena = mi_arena_manage(&mi_state.main, &plan);
  check(arena != NULL);
  return arena;
}

static mi_heap_t* make_heap(mi_arena_t* arena) {
  mi_process_setup();
  mi_heap_t* const heap = mi_heap_make(&mi_state.main, arena);
  check(heap != NULL && heap->arena == arena);
  return heap;
}

static bool is_inside(const mi_arena_t* arena, const void* p) {
  const uint8_t* const end = arena->start + arena->slice_count * MI_SLICE_SIZE;
  return (const uint8_t*)p >= arena->start && (const uint8_t*)p < end;
}

// If this fails, pages of a heap are not found when it ends, or those of another one are.
UNIT_TEST_PAGE_SIZES(run_books_have_their_pages) {
  mi_heap_t* const heap = make_heap(NULL);
  mi_book_t* const direct = &mi_state.main.direct;
  void* p[8];
  for (size_t i = 0; i < 4; i++) {
    mi_heap_t* const of = i % 2 == 0 ? heap : UNIT_HEAP;
    p[i] = mi_heap_malloc(of, i < 2 ? SIZE : LARGE);
    check_equal(unit_page_of(p[i])->backing, MI_BACKING_ARENA);
  }
  check(book_length(&heap->book) == 2 && book_length(direct) == 0);
  check_equal(book_length(&UNIT_HEAP->book), 0);
  unit_option(disallow_arena_alloc, 1);
  for (size_t i = 4; i < 8; i++) {
    mi_heap_t* const of = i % 2 == 0 ? heap : UNIT_HEAP;
    p[i] = mi_heap_malloc(of, i < 6 ? SIZE * 8 : LARGE);
    check_equal(unit_page_of(p[i])->backing, MI_BACKING_DIRECT);
    check(mi_arena_of(&mi_state.main, p[i]) == NULL);
  }
  check(book_length(&heap->book) == 2 && book_length(direct) == 4);
  unit_check_valid();
  for (size_t i = 0; i < 8; i++) mi_free(p[i]);
  mi_heap_end_by_destroy(heap);
  mi_collect_all(MI_FORCE);
  check_equal(book_length(direct), 0);
  for (size_t i = 4; i < 8; i++) check_equal(os_fake_state(p[i]), OS_FAKE_UNMAPPED);
  unit_check_valid();
  unit_check_empty();
}

// If this fails, a program that wants no arenas gets them, or does not run.
UNIT_TEST_PAGE_SIZES(run_without_arenas) {
  unit_option(disallow_arena_alloc, 1);
  mi_heap_t* const heap = make_heap(NULL);
  static void* p[600];
  for (size_t i = 0; i < 600; i++) {
    const size_t size = 1 + i * 37 % (MI_CLASS_MAX / 16);
    p[i] = mi_heap_malloc(i % 3 == 0 ? heap : UNIT_HEAP, size);
    check(p[i] != NULL);
    unit_fill(p[i], mi_bits_min(size, 100), i);
  }
  check(mi_atomic_load_relaxed(&mi_state.main.arenas) == NULL);
  unit_check_valid();
  for (size_t i = 0; i < 600; i++) {
    check(unit_is_filled(p[i], mi_bits_min(1 + i * 37 % (MI_CLASS_MAX / 16), 100), i));
    if (i % 2 == 0) mi_free(p[i]);
  }
  mi_heap_end_by_delete(heap);
  unit_check_valid();
  for (size_t i = 1; i < 600; i += 2) mi_free(p[i]);
  mi_collect_all(MI_FORCE);
  check_equal(book_length(&mi_state.main.direct), 0);
  check_equal(mi_state.main.count.committed, 0);
  unit_check_valid();
}

static void* malloc_wished(size_t size, long allow_thp, int node) {
  unit_option(allow_thp, allow_thp);
  mi_heap_t* const heap = make_heap(NULL);
  mi_atomic_store_relaxed(&heap->numa_wish, 1 + mi_numa_node(node));
  void* const p = mi_heap_malloc(heap, size);
  check_equal(unit_page_of(p)->backing, MI_BACKING_DIRECT);
  return p;
}

// If this fails, a block of many MiB is resident as a whole although a word of it is used, or is on
// another NUMA node than its heap (RUN-3).
UNIT_TEST_PAGE_SIZES(run_mappings_are_as_arenas) {
  os_fake.numa_nodes = 3;
  unit_option(disallow_arena_alloc, 1);
  const void* const plain = malloc_wished(LARGE, 1, -1);
  check(os_fake_has_small_advice(plain));
  check_equal(os_fake_calls(OS_FAKE_PREFER_NODE), 0);
  check(os_fake_has_small_advice(malloc_wished(LARGE, 0, 2)));
  check_equal(os_fake_calls(OS_FAKE_PREFER_NODE), 1);
  check_equal(os_fake.preferred_node, 2);
  check(os_fake_has_huge_advice(malloc_wished(SIZE * 8, 2, 1)));
  check_equal(os_fake.preferred_node, 1);
  unit_check_valid();
}

// If this fails, a heap with all its memory in one place, such as shared memory, has some elsewhere
// (RUN-2), or others take it.
UNIT_TEST_PAGE_SIZES(run_bound_heap_stays_in_its_arena) {
  mi_arena_t* const arena = make_arena(MI_CHUNK_SLICES * MI_SLICE_SIZE, NULL, true);
  mi_heap_t* const heap = make_heap(arena);
  void* const other = mi_malloc(SIZE); // others have their own
  check(!is_inside(arena, other));
  unit_option(disallow_arena_alloc, 1);
  void* const bound = mi_heap_malloc(heap, MI_SLICE_SIZE / 2);
  check(bound != NULL && is_inside(arena, bound));
  mi_free(bound);
  unit_option(disallow_arena_alloc, 0);
  const size_t maps = os_fake_calls(OS_FAKE_MAP);
  static void* p[100000];
  size_t count = 0;
  for (; (p[count] = mi_heap_malloc(heap, MI_SLICE_SIZE / 4 + count % 3 * SIZE)) != NULL; count++) {
    check(count + 1 < 100000 && is_inside(arena, p[count]));
    check(mi_atomic_load_relaxed(&unit_page_of(p[count])->heap) == heap);
  }
  check(count * MI_SLICE_SIZE / 4 > arena->slice_count * MI_SLICE_SIZE / 2);
  check(errno == ENOMEM && hooks_fake.count[MI_ERROR_OUT_OF_MEMORY] == 1);
  check(mi_heap_malloc(heap, LARGE) == NULL);
  check(mi_heap_malloc(heap, (size_t)64 * MI_MIB) == NULL);
  unit_option(disallow_arena_alloc, 1);
  check(mi_heap_malloc(heap, MI_SLICE_SIZE / 2) == NULL);
  unit_option(disallow_arena_alloc, 0);
  check_equal(book_length(&mi_state.main.direct), 0);
  check(os_fake_calls(OS_FAKE_MAP) <= maps + 4); // our own structures
  unit_check_valid();
  mi_free(other);
  // What is given back serves again, in one piece.
  for (size_t i = 0; i < count; i++) mi_free(p[i]);
  void* const whole = mi_heap_malloc(heap, (arena->slice_count - 1) * MI_SLICE_SIZE);
  check(whole != NULL && is_inside(arena, whole));
  unit_check_valid();
  mi_heap_end_by_destroy(heap);
  check_equal(mi_atomic_load_relaxed(&arena->free_count), arena->slice_count);
}

// If this fails, a page that cannot be entered into its book is lost, or used all the same.
UNIT_TEST_PAGE_SIZES(run_without_memory_for_the_book) {
  mi_heap_t* const heap = make_heap(NULL);
  void* p[MI_BOOK_FIRST];
  for (size_t i = 0; i < MI_BOOK_FIRST; i++) p[i] = mi_heap_malloc(heap, SIZE << i);
  check_equal(book_length(&heap->book), MI_BOOK_FIRST);
  const size_t used_slices = unit_used_slices();
  os_fake.is_failing_on = true;
  os_fake.fail_at[OS_FAKE_MAP] = 1;
  mi_lock_enter(&mi_state.arena_lock);
  while (mi_meta_alloc(64) != NULL) {
  }
  mi_lock_leave(&mi_state.arena_lock);
  check(mi_heap_malloc(heap, 8) == NULL && mi_heap_malloc(heap, LARGE) == NULL);
  check_equal(errno, ENOMEM);
  check_equal(book_length(&heap->book), MI_BOOK_FIRST);
  check_equal(unit_used_slices(), used_slices);
  check(mi_state.main.count.large == 0 && mi_state.main.count.pages == MI_BOOK_FIRST);
  unit_check_valid();
  os_fake.fail_at[OS_FAKE_MAP] = 0;
  check(mi_heap_malloc(heap, 8) != NULL && mi_heap_malloc(heap, LARGE) != NULL);
  for (size_t i = 0; i < MI_BOOK_FIRST; i++) mi_free(p[i]);
  mi_heap_end_by_destroy(heap);
  unit_check_valid();
}

static bool is_refusing;
static size_t commit_calls;

static bool commit(bool is_commit, void* start, size_t size, bool* is_zero, void* arg) {
  (void)start, (void)size, (void)arg;
  commit_calls++;
  *is_zero = is_commit;
  return !is_commit || !is_refusing;
}

// If this fails, one arena of the user that cannot be committed takes malloc away from all.
UNIT_TEST_PAGE_SIZES(run_refused_by_one_arena_goes_to_another) {
  mi_arena_t* const arena = make_arena(MI_CHUNK_SLICES * MI_SLICE_SIZE, &commit, false);
  is_refusing = true;
  void* p[2];
  for (size_t i = 0; i < 2; i++) {
    p[i] = mi_malloc(i == 0 ? SIZE : LARGE);
    check(p[i] != NULL && !is_inside(arena, p[i]));
    check_equal(unit_page_of(p[i])->backing, MI_BACKING_ARENA);
  }
  check(commit_calls > 0);
  check_equal(mi_atomic_load_relaxed(&arena->free_count), arena->slice_count);
  is_refusing = false;
  void* const q = mi_malloc(LARGE);
  check(is_inside(arena, q));
  for (size_t i = 0; i < 2; i++) mi_free(p[i]);
  mi_free(q);
  unit_check_valid();
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(run_books_have_their_pages),
      cmocka_unit_test(run_without_arenas),
      cmocka_unit_test(run_mappings_are_as_arenas),
      cmocka_unit_test(run_bound_heap_stays_in_its_arena),
      cmocka_unit_test(run_without_memory_for_the_book),
      cmocka_unit_test(run_refused_by_one_arena_goes_to_another),
  };
  return cmocka_run_group_tests_name("run", tests, NULL, NULL);
}
