// SPDX-License-Identifier: MIT
// subproc.c - sub-processes: separate memory for each of several interpreters in one process.
#include "test_heap.h"

typedef struct guest_s {
  mi_subproc_id_t subproc;
  mi_subproc_id_t current; // what the thread found
  mi_heap_t* main_heap;
  mi_heap_t* heap; // made there
  mi_heap_t* default_heap;
  unsigned char* by_malloc[3];
  unsigned char* by_heap[3];
} guest_t;

static const size_t sizes[3] = {100, 300000, 20 * TEST_MIB};

static bool is_same(mi_subproc_id_t a, mi_subproc_id_t b) {
  return a._mi_subproc_id == b._mi_subproc_id;
}

// Allocates on a thread of the sub-process, and uses no cmocka.
static void allocate_as_guest(void* argument) {
  guest_t* const guest = (guest_t*)argument;
  mi_subproc_add_current_thread(guest->subproc);
  guest->current = mi_subproc_current();
  guest->main_heap = mi_heap_main();
  guest->default_heap = mi_heap_get_default();
  guest->heap = mi_heap_new();
  for (size_t i = 0; i < 3; i++) {
    guest->by_malloc[i] = (unsigned char*)mi_malloc(sizes[i]);
    guest->by_heap[i] = (unsigned char*)mi_heap_malloc(guest->heap, sizes[i]);
    if (guest->by_malloc[i] == NULL || guest->by_heap[i] == NULL) return;
    test_touch(guest->by_malloc[i], sizes[i], 0x31);
    test_touch(guest->by_heap[i], sizes[i], 0x32);
  }
}

static void* run_guest(void* argument) {
  allocate_as_guest(argument);
  return NULL;
}

static void check_guest(const guest_t* guest) {
  assert_true(is_same(guest->current, guest->subproc));
  assert_true(guest->main_heap != NULL && guest->main_heap != mi_heap_main());
  assert_ptr_equal(guest->default_heap, guest->main_heap);
  assert_true(guest->heap != NULL && guest->heap != guest->main_heap);
  for (size_t i = 0; i < 3; i++) {
    assert_ptr_equal(mi_heap_of(guest->by_malloc[i]), guest->main_heap);
    assert_ptr_equal(mi_heap_of(guest->by_heap[i]), guest->heap);
    assert_true(test_is_touched(guest->by_malloc[i], sizes[i], 0x31));
    assert_true(test_is_touched(guest->by_heap[i], sizes[i], 0x32));
  }
}

static void check_guest_is_gone(const guest_t* guest) {
  for (size_t i = 0; i < 3; i++) {
    assert_null(mi_heap_of(guest->by_malloc[i]));
    assert_null(mi_heap_of(guest->by_heap[i]));
    assert_false(mi_any_heap_contains(guest->by_malloc[i] + sizes[i] - 1));
  }
}

static mi_subproc_id_t new_subproc(void) {
  const mi_subproc_id_t subproc = mi_subproc_new();
  assert_non_null(subproc._mi_subproc_id);
  assert_false(is_same(subproc, mi_subproc_main()));
  return subproc;
}

static void* current_of_thread(void* argument) {
  *(mi_subproc_id_t*)argument = mi_subproc_current();
  return NULL;
}

// If this fails, a thread that was never moved is not where plain malloc is.
static void subproc_main_is_where_threads_start(void** state) {
  (void)state;
  assert_non_null(mi_subproc_main()._mi_subproc_id);
  assert_true(is_same(mi_subproc_current(), mi_subproc_main()));
  mi_subproc_id_t current = {NULL};
  test_on_thread(&current_of_thread, &current);
  assert_true(is_same(current, mi_subproc_main()));
  mi_subproc_add_current_thread(mi_subproc_main());
  assert_true(is_same(mi_subproc_current(), mi_subproc_main()));
}

// If this fails, objects of one interpreter end up in the memory of another one.
static void subproc_threads_allocate_in_it(void** state) {
  (void)state;
  guest_t guest[3] = {{.subproc = new_subproc()}, {.subproc = new_subproc()}, {.current = {NULL}}};
  guest[2].subproc = guest[0].subproc;
  for (size_t i = 0; i < 3; i++) test_on_thread(&run_guest, &guest[i]);
  for (size_t i = 0; i < 3; i++) check_guest(&guest[i]);
  assert_ptr_equal(guest[0].main_heap, guest[2].main_heap);
  assert_ptr_not_equal(guest[0].main_heap, guest[1].main_heap);
  // This thread has not moved.
  void* const p = mi_malloc(100);
  assert_ptr_equal(mi_heap_of(p), mi_heap_main());
  mi_free(p);
  mi_subproc_destroy(guest[0].subproc);
  check_guest_is_gone(&guest[0]);
  check_guest_is_gone(&guest[2]);
  check_guest(&guest[1]);
  mi_subproc_destroy(guest[1].subproc);
  check_guest_is_gone(&guest[1]);
}

// -- Heaps of a sub-process --

enum { HEAP_MAX = 16 };

typedef struct heaps_s {
  mi_heap_t* heap[HEAP_MAX];
  size_t count;
  size_t stop_at; // 0: never
} heaps_t;

static bool see_heap(mi_heap_t* heap, void* arg) {
  heaps_t* const seen = (heaps_t*)arg;
  if (seen->count < HEAP_MAX) seen->heap[seen->count] = heap;
  return ++seen->count != seen->stop_at;
}

static size_t times_seen(const heaps_t* seen, const mi_heap_t* heap) {
  size_t times = 0;
  for (size_t i = 0; i < seen->count && i < HEAP_MAX; i++) times += seen->heap[i] == heap;
  return times;
}

// If this fails, a tool that adds up the memory of an interpreter misses a part, or counts another
// one's.
static void subproc_visits_exactly_its_heaps(void** state) {
  (void)state;
  const mi_subproc_id_t subproc = new_subproc();
  heaps_t seen = {.count = 0};
  assert_true(mi_subproc_visit_heaps(subproc, &see_heap, &seen));
  assert_int_equal(seen.count, 1); // its main heap
  guest_t guest[2] = {{.subproc = subproc}, {.subproc = subproc}};
  for (size_t i = 0; i < 2; i++) test_on_thread(&run_guest, &guest[i]);
  seen = (heaps_t){.count = 0};
  assert_true(mi_subproc_visit_heaps(subproc, &see_heap, &seen));
  assert_int_equal(seen.count, 3);
  assert_int_equal(times_seen(&seen, guest[0].main_heap), 1);
  assert_int_equal(times_seen(&seen, guest[0].heap), 1);
  assert_int_equal(times_seen(&seen, guest[1].heap), 1);
  for (size_t stop_at = 1; stop_at <= 3; stop_at++) {
    heaps_t stopped = {.stop_at = stop_at};
    assert_false(mi_subproc_visit_heaps(subproc, &see_heap, &stopped));
    assert_int_equal(stopped.count, stop_at);
  }
  assert_false(mi_subproc_visit_heaps(subproc, NULL, NULL));
  mi_heap_destroy(guest[0].heap);
  seen = (heaps_t){.count = 0};
  assert_true(mi_subproc_visit_heaps(subproc, &see_heap, &seen));
  assert_true(seen.count == 2 && times_seen(&seen, guest[1].heap) == 1);
  mi_heap_t* const mine = mi_heap_new();
  seen = (heaps_t){.count = 0};
  assert_true(mi_subproc_visit_heaps(mi_subproc_main(), &see_heap, &seen));
  assert_int_equal(seen.count, 2);
  assert_true(times_seen(&seen, mine) == 1 && times_seen(&seen, mi_heap_main()) == 1);
  mi_heap_delete(mine);
  mi_subproc_destroy(subproc);
}

// If this fails, an object is moved to a heap of the wrong interpreter when its heap is deleted.
static void subproc_deleted_heaps_stay_in_it(void** state) {
  (void)state;
  guest_t guest = {.subproc = new_subproc()};
  test_on_thread(&run_guest, &guest);
  mi_heap_delete(guest.heap);
  for (size_t i = 0; i < 3; i++) {
    assert_ptr_equal(mi_heap_of(guest.by_heap[i]), guest.main_heap);
    assert_true(test_is_touched(guest.by_heap[i], sizes[i], 0x32));
  }
  mi_subproc_destroy(guest.subproc);
  check_guest_is_gone(&guest);
}

// -- The end --

// If this fails, an interpreter that ended keeps its memory, or takes the process with it.
static void subproc_destroy_gives_memory_back(void** state) {
  (void)state;
  for (size_t round = 0; round < 5; round++) {
    mi_collect(true);
    const size_t before = proc_resident();
    guest_t guest[2] = {{.subproc = new_subproc()}, {.current = {NULL}}};
    guest[1].subproc = guest[0].subproc;
    for (size_t i = 0; i < 2; i++) test_on_thread(&run_guest, &guest[i]);
    assert_true(test_growth(before) >= 70 * TEST_MIB);
    mi_subproc_destroy(guest[0].subproc);
    mi_collect(true);
    test_bound_growth(before, 4 * TEST_MIB);
  }
}

// Returns its argument if it got what it asked for.
static void* run_small_guest(void* argument) {
  mi_subproc_add_current_thread(*(mi_subproc_id_t*)argument);
  mi_heap_t* const heap = mi_heap_new();
  for (size_t i = 0; i < 200; i++) {
    void* const p = mi_heap_malloc(i % 2 == 0 ? heap : NULL, 20 * i);
    if (p == NULL || (mi_heap_of(p) == heap) != (i % 2 == 0)) return NULL;
    test_touch(p, 20 * i, 1);
  }
  return argument;
}

static void* do_nothing(void* arg) { return arg; }

// If this fails, a program that starts an interpreter for each request grows until it is killed.
static void subproc_comes_and_goes(void** state) {
  (void)state;
  // An emulator leaves something behind for each thread.
  size_t resident = proc_resident();
  for (size_t round = 0; round < 1000; round++) test_on_thread(&do_nothing, NULL);
  const size_t of_threads = test_growth(resident);
  size_t mappings = 0;
  for (size_t round = 0; round < 1000; round++) {
    if (round == 50) {
      resident = proc_resident();
      mappings = proc_areas();
    }
    mi_subproc_id_t subproc = new_subproc();
    assert_non_null(test_on_thread(&run_small_guest, &subproc));
    mi_subproc_destroy(subproc);
  }
  const size_t more = proc_areas();
  printf("FIGURE 1,000 sub-processes with a thread each: resident growth %zu KiB, mappings %zu, "
         "then %zu\n",
         test_growth(resident) / TEST_KIB, mappings, more);
  test_bound_growth(resident, of_threads + 4 * TEST_MIB);
  if (more > mappings + 20) fail_msg("%zu mappings, then %zu", mappings, more);
}

// If this fails, ending what must not end takes the program down.
static void subproc_destroy_ignores_main_and_null(void** state) {
  (void)state;
  char* const text = mi_strdup("of the main one");
  const mi_subproc_id_t none = {NULL};
  mi_subproc_destroy(none);
  mi_subproc_destroy(mi_subproc_main());
  mi_subproc_delete(none);
  mi_subproc_delete(mi_subproc_main());
  mi_subproc_add_current_thread(none);
  assert_string_equal(text, "of the main one");
  assert_ptr_equal(mi_heap_of(text), mi_heap_main());
  assert_true(is_same(mi_subproc_current(), mi_subproc_main()));
  mi_free(text);
}

static void allocate_more(void* argument) {
  guest_t* const guest = (guest_t*)argument;
  guest->current = mi_subproc_current();
  guest->by_malloc[0] = (unsigned char*)mi_malloc(sizes[0]);
  if (guest->by_malloc[0] != NULL) test_touch(guest->by_malloc[0], sizes[0], 0x31);
}

// If this fails, a thread that still runs in an interpreter that ends writes to memory of others.
static void subproc_destroy_refuses_with_threads(void** state) {
  (void)state;
  guest_t guest = {.subproc = new_subproc()};
  puppet_t puppet;
  puppet_start(&puppet);
  puppet_do(&puppet, &allocate_as_guest, &guest);
  for (size_t i = 0; i < 2; i++) {
    test_listen();
    if (i == 0) {
      mi_subproc_destroy(guest.subproc);
    } else {
      mi_subproc_delete(guest.subproc);
    }
    assert_true(test_heard("mimalloc: warning: "));
    check_guest(&guest);
  }
  guest_t later = guest;
  puppet_do(&puppet, &allocate_more, &later);
  check_guest(&later);
  puppet_end(&puppet);
  check_guest(&guest);
  mi_subproc_destroy(guest.subproc);
  check_guest_is_gone(&guest);
  assert_null(mi_heap_of(later.by_malloc[0]));
  // A second time: a warning.
  test_listen();
  mi_subproc_destroy(guest.subproc);
  assert_true(test_heard("mimalloc: warning: "));
  test_listen();
  mi_subproc_delete(guest.subproc);
  assert_true(test_heard("mimalloc: warning: "));
}

static unsigned char memory_of_program[64 * TEST_MIB];

typedef struct owner_s {
  mi_subproc_id_t subproc;
  mi_arena_id_t arena[2];
  void* used; // keeps the sub-process while it is deleted
  bool is_done;
} owner_t;

static void* own_arenas(void* argument) {
  owner_t* const owner = (owner_t*)argument;
  mi_subproc_add_current_thread(owner->subproc);
  owner->is_done = mi_manage_os_memory_ex(memory_of_program, sizeof(memory_of_program), true, false,
                                          false, -1, true, &owner->arena[0]) &&
                   mi_reserve_os_memory_ex(64 * TEST_MIB, true, false, true, &owner->arena[1]) == 0;
  owner->used = mi_malloc(100);
  return NULL;
}

static void check_no_heap(const owner_t* owner) {
  for (size_t i = 0; i < 2; i++) {
    test_listen();
    assert_null(mi_heap_new_in_arena(owner->arena[i]));
    assert_true(test_heard("mimalloc: warning: "));
  }
}

// If this fails, a plugin that makes a heap in its arena after its host has ended its interpreter
// crashes the program, or has a heap in memory that is nobody's.
static void subproc_that_ended_takes_no_heap_in_its_arenas(void** state) {
  (void)state;
  for (size_t round = 0; round < 2; round++) {
    owner_t owner = {.subproc = new_subproc()};
    test_on_thread(&own_arenas, &owner);
    assert_true(owner.is_done);
    for (size_t i = 0; i < 2; i++) {
      mi_heap_t* const heap = mi_heap_new_in_arena(owner.arena[i]);
      assert_non_null(heap);
      mi_heap_delete(heap);
    }
    if (round == 0) {
      mi_subproc_destroy(owner.subproc);
      check_no_heap(&owner);
    } else {
      mi_subproc_delete(owner.subproc);
      check_no_heap(&owner);
      mi_free(owner.used);
      mi_collect(true);
      check_no_heap(&owner);
    }
  }
}

// -- Threads that are moved --

// If this fails, a thread that is moved twice loses what it has, without a word.
static void subproc_thread_stays_where_it_is(void** state) {
  (void)state;
  const mi_subproc_id_t first = new_subproc();
  const mi_subproc_id_t second = new_subproc();
  const mi_subproc_id_t targets[] = {second, mi_subproc_main()};
  puppet_t puppet;
  puppet_start(&puppet);
  guest_t guest = {.subproc = first};
  puppet_do(&puppet, &allocate_as_guest, &guest);
  check_guest(&guest);
  for (size_t i = 0; i < 2; i++) {
    guest_t moved = {.subproc = targets[i]};
    test_listen();
    puppet_do(&puppet, &allocate_as_guest, &moved);
    assert_true(test_heard("mimalloc: warning: "));
    assert_true(is_same(moved.current, first));
    assert_ptr_equal(moved.main_heap, guest.main_heap);
    assert_ptr_equal(mi_heap_of(moved.by_malloc[0]), guest.main_heap);
  }
  check_guest(&guest);
  puppet_end(&puppet);
  mi_subproc_destroy(second);
  mi_subproc_destroy(first);
}

static void allocate_before(void* argument) {
  *(unsigned char**)argument = (unsigned char*)mi_malloc(100);
  memset(*(unsigned char**)argument, 0x44, 100);
}

// If this fails, what a thread had before it was moved is lost with the sub-process.
static void subproc_earlier_blocks_stay_in_main(void** state) {
  (void)state;
  puppet_t puppet;
  puppet_start(&puppet);
  unsigned char* earlier[2] = {NULL, NULL};
  puppet_do(&puppet, &allocate_before, &earlier[0]);
  puppet_do(&puppet, &allocate_before, &earlier[1]);
  guest_t guest = {.subproc = new_subproc()};
  puppet_do(&puppet, &allocate_as_guest, &guest);
  check_guest(&guest);
  assert_ptr_equal(mi_heap_of(earlier[0]), mi_heap_main());
  puppet_free(&puppet, earlier[0]);
  puppet_end(&puppet);
  mi_subproc_destroy(guest.subproc);
  check_guest_is_gone(&guest);
  assert_ptr_equal(mi_heap_of(earlier[1]), mi_heap_main());
  assert_true(test_is_filled(earlier[1], 100, 0x44));
  mi_free(earlier[1]);
}

// -- Blocks that cross --

enum { CROSSING = 3000 };

typedef struct crossing_s {
  mi_subproc_id_t subproc;
  unsigned char* ours[CROSSING]; // of the main sub-process, freed there
  unsigned char* theirs[CROSSING]; // the other way
} crossing_t;

static size_t crossing_size(size_t i) { return i % 500 == 0 ? 2 * TEST_MIB : 8 + i % 2000; }

static void allocate_theirs(void* argument) {
  crossing_t* const crossing = (crossing_t*)argument;
  mi_subproc_add_current_thread(crossing->subproc);
  for (size_t i = 0; i < CROSSING; i++) {
    crossing->theirs[i] = (unsigned char*)mi_malloc(crossing_size(i));
    if (crossing->theirs[i] != NULL) memset(crossing->theirs[i], (int)(i % 251), crossing_size(i));
  }
}

static void free_ours(void* argument) {
  crossing_t* const crossing = (crossing_t*)argument;
  for (size_t i = 0; i < CROSSING; i++) mi_free(crossing->ours[i]);
}

static bool count_block(const mi_heap_t* heap, const mi_heap_area_t* area, void* block, size_t size,
                        void* arg) {
  (void)heap, (void)area, (void)size;
  *(size_t*)arg += block != NULL;
  return true;
}

static bool count_blocks_of_heap(mi_heap_t* heap, void* arg) {
  return mi_heap_visit_blocks(heap, true, &count_block, arg);
}

static size_t blocks_in(mi_subproc_id_t subproc) {
  size_t count = 0;
  assert_true(mi_subproc_visit_heaps(subproc, &count_blocks_of_heap, &count));
  return count;
}

// If this fails, objects that interpreters hand to each other cannot be freed, or the page they
// were in is used by both.
static void subproc_blocks_are_freed_across(void** state) {
  (void)state;
  static crossing_t crossing;
  crossing.subproc = new_subproc();
  puppet_t puppet;
  puppet_start(&puppet);
  for (size_t round = 0; round < 5; round++) {
    for (size_t i = 0; i < CROSSING; i++) {
      crossing.ours[i] = (unsigned char*)mi_malloc(crossing_size(i));
      memset(crossing.ours[i], 1, crossing_size(i));
    }
    puppet_do(&puppet, &allocate_theirs, &crossing);
    puppet_do(&puppet, &free_ours, &crossing);
    for (size_t i = 0; i < CROSSING; i++) {
      unsigned char* const p = crossing.theirs[i];
      assert_true(p != NULL && test_is_filled(p, crossing_size(i), (unsigned char)(i % 251)));
      assert_ptr_not_equal(mi_heap_of(p), mi_heap_main());
      if (i % 3 != 0) mi_free(p);
    }
    // Neither takes memory of the other.
    for (size_t i = 0; i < 200; i++) {
      void* const p = mi_malloc(8 + i * 10);
      assert_ptr_equal(mi_heap_of(p), mi_heap_main());
      mi_free(p);
    }
  }
  puppet_end(&puppet);
  assert_int_equal(blocks_in(crossing.subproc), 5 * CROSSING / 3);
  mi_subproc_destroy(crossing.subproc);
}

static void* run_free(void* argument) {
  mi_free(argument);
  return NULL;
}

// If this fails, code of version 3.1 that deletes a sub-process loses objects in use.
static void subproc_delete_keeps_blocks_in_use(void** state) {
  (void)state;
  for (size_t round = 0; round < 10; round++) {
    mi_collect(true);
    const size_t before = proc_resident();
    guest_t guest = {.subproc = new_subproc()};
    test_on_thread(&run_guest, &guest);
    mi_subproc_delete(guest.subproc);
    for (size_t i = 0; i < 3; i++) {
      assert_true(mi_any_heap_contains(guest.by_malloc[i]));
      assert_true(test_is_touched(guest.by_malloc[i], sizes[i], 0x31));
      assert_true(test_is_touched(guest.by_heap[i], sizes[i], 0x32));
      assert_true(mi_usable_size(guest.by_heap[i]) >= sizes[i]);
      if (round % 2 == 0) {
        mi_free(guest.by_malloc[i]);
      } else {
        test_on_thread(&run_free, guest.by_malloc[i]);
      }
      mi_free(guest.by_heap[i]);
    }
    mi_collect(true);
    test_bound_growth(before, 4 * TEST_MIB);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(subproc_main_is_where_threads_start),
      cmocka_unit_test(subproc_threads_allocate_in_it),
      cmocka_unit_test(subproc_visits_exactly_its_heaps),
      cmocka_unit_test(subproc_deleted_heaps_stay_in_it),
      cmocka_unit_test(subproc_destroy_gives_memory_back),
      cmocka_unit_test(subproc_comes_and_goes),
      cmocka_unit_test(subproc_destroy_ignores_main_and_null),
      cmocka_unit_test(subproc_destroy_refuses_with_threads),
      cmocka_unit_test(subproc_that_ended_takes_no_heap_in_its_arenas),
      cmocka_unit_test(subproc_thread_stays_where_it_is),
      cmocka_unit_test(subproc_earlier_blocks_stay_in_main),
      cmocka_unit_test(subproc_blocks_are_freed_across),
      cmocka_unit_test(subproc_delete_keeps_blocks_in_use),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
