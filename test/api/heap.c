// SPDX-License-Identifier: MIT
// heap.c - the life of heaps: made, asked for what is in them, deleted, destroyed, used by several
// threads, and the memory that must come back. What the allocation functions promise is in
// heap_malloc.c.
#include "spawn.h"
#include "test_heap.h"

#include <stdatomic.h>

// Blocks of every kind: small ones, some that share a page of several slices, large ones, a mapping
// of its own, and such as are aligned beyond a slice.
static const struct kind_s {
  const char* name;
  size_t size;
  size_t alignment;
} kinds[] = {
    {"tiny", 8, 1},
    {"small", 100, 1},
    {"medium", 20000, 1},
    {"bigger", 300000, 1},
    {"large", 3 * TEST_MIB, 1},
    {"100 MiB", 100 * TEST_MIB, 1},
    {"over 2 GiB", 2 * TEST_GIB + TEST_MIB, 1},
    {"aligned", 1000, 4096},
    {"aligned beyond a slice", 1000, 256 * TEST_KIB},
    {"large and aligned beyond a slice", 5 * TEST_MIB, 8 * TEST_MIB},
};
#define KIND_COUNT (sizeof(kinds) / sizeof(kinds[0]))

typedef struct blocks_s {
  mi_heap_t* heap;
  unsigned char* p[KIND_COUNT]; // NULL: of a kind that is not possible here
} blocks_t;

// A thread may run this, so it uses no cmocka.
static void* make_blocks(void* argument) {
  blocks_t* const blocks = (blocks_t*)argument;
  for (size_t i = 0; i < KIND_COUNT; i++) {
    blocks->p[i] = NULL;
    if (kinds[i].size > TEST_GIB && !test_has_address_space(kinds[i].size)) continue;
    blocks->p[i] =
        (unsigned char*)mi_heap_malloc_aligned(blocks->heap, kinds[i].size, kinds[i].alignment);
    if (blocks->p[i] == NULL) return NULL;
    // Of the largest only the ends: the rest need not be resident.
    if (kinds[i].size < TEST_GIB) test_touch(blocks->p[i], kinds[i].size, 0x5A);
    blocks->p[i][0] = blocks->p[i][kinds[i].size - 1] = 0x5A;
  }
  return blocks;
}

// All blocks are in `heap` (NULL: in none), at every address.
static void check_owner(const blocks_t* blocks, mi_heap_t* heap) {
  for (size_t i = 0; i < KIND_COUNT; i++) {
    if (blocks->p[i] == NULL) continue;
    const size_t offsets[] = {0, 1, kinds[i].size / 2, kinds[i].size - 1};
    for (size_t k = 0; k < 4; k++) {
      const unsigned char* const p = blocks->p[i] + offsets[k];
      if (mi_heap_of(p) != heap) {
        fail_msg("%s + %zu: heap %p, not %p", kinds[i].name, offsets[k], (void*)mi_heap_of(p),
                 (void*)heap);
      }
      assert_int_equal(mi_any_heap_contains(p), heap != NULL);
      assert_int_equal(mi_is_in_heap_region(p), heap != NULL);
      assert_int_equal(mi_check_owned(p), heap != NULL);
    }
  }
}

static void check_contents_and_free(blocks_t* blocks) {
  for (size_t i = 0; i < KIND_COUNT; i++) {
    unsigned char* const p = blocks->p[i];
    if (p == NULL) continue;
    assert_true(mi_usable_size(p) >= kinds[i].size);
    if (kinds[i].size < TEST_GIB) assert_true(test_is_touched(p, kinds[i].size, 0x5A));
    assert_true(p[0] == 0x5A && p[kinds[i].size - 1] == 0x5A);
    mi_free(p);
  }
}

// -- Which heap --

// If this fails, a program asks which of its parts an object belongs to, and is told wrong.
static void heap_of_knows_every_kind(void** state) {
  (void)state;
  blocks_t a = {mi_heap_new(), {0}};
  blocks_t b = {mi_heap_new(), {0}};
  blocks_t in_main = {NULL, {0}};
  assert_true(a.heap != NULL && b.heap != NULL && a.heap != b.heap && a.heap != mi_heap_main());
  assert_true(make_blocks(&a) && make_blocks(&b) && make_blocks(&in_main));
  check_owner(&a, a.heap);
  check_owner(&b, b.heap);
  check_owner(&in_main, mi_heap_main());
  for (size_t i = 0; i < KIND_COUNT; i++) {
    if (a.p[i] == NULL) continue;
    const unsigned char* const inside = a.p[i] + kinds[i].size / 2;
    assert_true(mi_heap_contains(a.heap, inside) && !mi_heap_contains(b.heap, inside));
    assert_true(!mi_heap_contains(NULL, inside) && !mi_heap_contains(mi_heap_main(), inside));
    assert_true(mi_heap_contains(NULL, in_main.p[i]) &&
                mi_heap_contains(mi_heap_main(), in_main.p[i]));
    assert_true(!mi_heap_contains(a.heap, in_main.p[i]));
    assert_true(mi_heap_contains_block(a.heap, a.p[i]) && !mi_heap_contains_block(b.heap, a.p[i]));
    assert_true(mi_heap_check_owned(a.heap, inside) && !mi_heap_check_owned(b.heap, inside));
  }
  check_contents_and_free(&a);
  check_contents_and_free(&b);
  check_contents_and_free(&in_main);
  mi_heap_delete(a.heap);
  mi_heap_delete(b.heap);
}

// If this fails, asking about memory that is not ours crashes, or claims it.
static void heap_of_foreign_addresses(void** state) {
  (void)state;
  static int object;
  int local = 0;
  mi_heap_t* const heap = mi_heap_new();
  const void* const foreign[] = {NULL,
                                 (void*)1,
                                 &object,
                                 &local,
                                 (const void*)(uintptr_t)&heap_of_foreign_addresses,
                                 (const void*)(uintptr_t)&mi_heap_of,
                                 (void*)(uintptr_t)0x123456789ab0,
                                 (void*)(uintptr_t)0x7ffffffff000,
                                 (void*)(UINTPTR_MAX / 2),
                                 (void*)(UINTPTR_MAX - 4095),
                                 (void*)UINTPTR_MAX};
  for (size_t i = 0; i < sizeof(foreign) / sizeof(foreign[0]); i++) {
    const void* const p = test_opaque_pointer((void*)(uintptr_t)foreign[i]);
    if (mi_heap_of(p) != NULL) fail_msg("%p (%zu) is in a heap", p, i);
    assert_false(mi_any_heap_contains(p) || mi_is_in_heap_region(p) || mi_check_owned(p));
    assert_false(mi_heap_contains(NULL, p) || mi_heap_contains(heap, p));
    assert_false(mi_heap_contains_block(heap, p) || mi_heap_check_owned(NULL, p));
  }
  mi_heap_delete(heap);
}

// If this fails, memory that a heap gave back still counts as its own.
static void heap_of_forgets_freed_large_blocks(void** state) {
  (void)state;
  mi_heap_t* const heap = mi_heap_new();
  static const size_t sizes[] = {3 * TEST_MIB, 100 * TEST_MIB, 2 * TEST_GIB + 5};
  for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
    if (!test_has_address_space(sizes[i])) continue;
    unsigned char* const p = (unsigned char*)mi_heap_malloc(heap, sizes[i]);
    assert_non_null(p);
    p[0] = 1;
    mi_free(p);
    mi_heap_collect(heap, true);
    mi_collect(true);
    assert_false(mi_heap_contains(heap, p) || mi_heap_contains(heap, p + sizes[i] - 1));
  }
  mi_heap_delete(heap);
}

static void* main_heap_of_thread(void* arg) {
  void* const p = mi_malloc(50);
  const bool is_same =
      mi_heap_of(p) == arg && mi_heap_main() == arg && mi_heap_get_default() == arg;
  mi_free(p);
  return is_same ? arg : NULL;
}

// If this fails, what malloc gave cannot be told from what a heap gave.
static void heap_main_is_that_of_malloc(void** state) {
  (void)state;
  mi_heap_t* const main_heap = mi_heap_main();
  assert_non_null(main_heap);
  void* const p = mi_malloc(50);
  assert_ptr_equal(mi_heap_of(p), main_heap);
  mi_free(p);
  assert_ptr_equal(mi_heap_get_backing(), main_heap);
  assert_ptr_equal(mi_heap_get_default(), main_heap);
  assert_ptr_equal(test_on_thread(&main_heap_of_thread, main_heap), main_heap);
}

// -- Delete and destroy --

// If this fails, ending a heap with delete takes objects away that are in use.
static void heap_delete_keeps_blocks_in_the_main_heap(void** state) {
  (void)state;
  blocks_t mine = {mi_heap_new(), {0}};
  blocks_t of_thread = {mine.heap, {0}};
  assert_non_null(make_blocks(&mine));
  assert_non_null(test_on_thread(&make_blocks, &of_thread));
  check_owner(&of_thread, mine.heap);
  mi_heap_delete(mine.heap);
  check_owner(&mine, mi_heap_main());
  check_owner(&of_thread, mi_heap_main());
  assert_true(mi_heap_contains(NULL, mine.p[0]));
  mine.p[1] = (unsigned char*)mi_realloc(mine.p[1], 5000);
  assert_true(mi_usable_size(mine.p[1]) >= 5000);
  check_contents_and_free(&mine);
  check_contents_and_free(&of_thread);
}

// If this fails, what a deleted heap left behind is never used again: a leak.
static void heap_delete_leaves_memory_that_is_used(void** state) {
  (void)state;
  enum { BLOCKS = 2000, ROUNDS = 60 };
  static void* kept[ROUNDS];
  size_t before = 0;
  for (size_t round = 0; round < ROUNDS; round++) {
    if (round == 10) before = proc_resident();
    static void* p[BLOCKS];
    mi_heap_t* const heap = mi_heap_new();
    for (size_t i = 0; i < BLOCKS; i++) {
      p[i] = mi_heap_malloc(heap, 1000);
      test_touch(p[i], 1000, 1);
    }
    mi_heap_delete(heap);
    for (size_t i = 0; i < BLOCKS; i++) {
      if (i == BLOCKS / 2) {
        kept[round] = p[i];
      } else {
        mi_free(p[i]);
      }
    }
  }
  // 100 MB were used, a block of each round is still in use.
  test_bound_growth(before, 20 * TEST_MIB);
  for (size_t round = 0; round < ROUNDS; round++) mi_free(kept[round]);
}

// If this fails, destroying a heap leaks the blocks of some kind, or of threads that ended.
static void heap_destroy_ends_every_block(void** state) {
  (void)state;
  for (size_t round = 0; round < 3; round++) {
    blocks_t mine = {mi_heap_new(), {0}};
    blocks_t of_thread = {mine.heap, {0}};
    blocks_t more_of_thread = {mine.heap, {0}};
    blocks_t other = {mi_heap_new(), {0}};
    assert_non_null(make_blocks(&mine));
    assert_non_null(test_on_thread(&make_blocks, &of_thread));
    assert_non_null(test_on_thread(&make_blocks, &more_of_thread));
    assert_non_null(make_blocks(&other));
    mi_heap_destroy(mine.heap);
    check_owner(&mine, NULL);
    check_owner(&of_thread, NULL);
    check_owner(&more_of_thread, NULL);
    check_owner(&other, other.heap);
    check_contents_and_free(&other);
    mi_heap_destroy(other.heap);
  }
}

static void* fill_heap(void* argument) {
  mi_heap_t* const heap = (mi_heap_t*)argument;
  for (size_t i = 0; i < 20000; i++) {
    void* const p = mi_heap_malloc(heap, 8 + i % 1500);
    if (p == NULL) return NULL;
    test_touch(p, 8 + i % 1500, 1);
  }
  return heap;
}

// If this fails, blocks of a destroyed heap hide in lists of its threads and are handed out twice.
static void heap_destroy_takes_full_and_partly_freed_pages(void** state) {
  (void)state;
  enum { COUNT = 30000 };
  static void* p[COUNT];
  for (size_t round = 0; round < 5; round++) {
    mi_heap_t* const heap = mi_heap_new();
    assert_non_null(test_on_thread(&fill_heap, heap));
    for (size_t i = 0; i < COUNT; i++) {
      p[i] = mi_heap_malloc(heap, 16 << i % 9);
      assert_non_null(p[i]);
    }
    for (size_t i = 0; i < COUNT; i += 2 + round) {
      mi_free(p[i]);
      p[i] = NULL;
    }
    mi_heap_destroy(heap);
    for (size_t i = 0; i < COUNT; i++) {
      if (p[i] != NULL && mi_heap_of(p[i]) != NULL) fail_msg("block %zu lives", i);
    }
  }
}

// If this fails, a mistake in the use of heaps brings the program down instead of being named.
static void heap_delete_and_destroy_ignore_what_cannot_end(void** state) {
  (void)state;
  char* const text = mi_strdup("in the main heap");
  test_listen();
  mi_heap_delete(NULL);
  mi_heap_destroy(NULL);
  assert_false(test_heard("warning"));
  test_listen();
  mi_heap_delete(mi_heap_main());
  assert_true(test_heard("mimalloc: warning: ") && test_heard("main heap"));
  test_listen();
  mi_heap_destroy(mi_heap_main());
  assert_true(test_heard("mimalloc: warning: ") && test_heard("main heap"));
  mi_heap_t* const heap = mi_heap_new();
  mi_heap_destroy(heap);
  test_listen();
  mi_heap_destroy(heap);
  assert_true(test_heard("mimalloc: warning: ") && test_heard("has ended"));
  test_listen();
  mi_heap_delete(heap);
  assert_true(test_heard("mimalloc: warning: ") && test_heard("has ended"));
  mi_heap_destroy(mi_heap_new()); // the list of heaps is as it was
  assert_string_equal(text, "in the main heap");
  assert_ptr_equal(mi_heap_of(text), mi_heap_main());
  mi_free(text);
}

// -- Several threads --

enum { THREADS = 4, THREAD_BLOCKS = 4000 };

static struct shared_s {
  mi_heap_t* heap[2];
  _Atomic(unsigned char*) slot[512];
  atomic_bool is_wrong;
} shared;

static void check_and_free(unsigned char* p) {
  if (p == NULL) return;
  // Its first two bytes are the size, the rest the size's low byte.
  const size_t size = (size_t)p[0] << 8 | p[1];
  const mi_heap_t* const owner = mi_heap_of(p);
  if (!test_is_filled(p + 2, size - 2, p[1])) atomic_store(&shared.is_wrong, true);
  if (owner != shared.heap[0] && owner != shared.heap[1]) atomic_store(&shared.is_wrong, true);
  mi_free(p);
}

static void* use_shared_heaps(void* argument) {
  uint64_t random = (uintptr_t)argument + 1;
  for (size_t i = 0; i < THREAD_BLOCKS; i++) {
    const size_t size = 8 + random_size(&random, 11);
    mi_heap_t* const heap = shared.heap[random_below(&random, 2)];
    unsigned char* const p = (unsigned char*)mi_heap_malloc(heap, size);
    if (p == NULL || mi_heap_of(p) != heap) {
      atomic_store(&shared.is_wrong, true);
      return NULL;
    }
    memset(p, (int)(size & 255), size);
    p[0] = (unsigned char)(size >> 8);
    p[1] = (unsigned char)size;
    check_and_free(atomic_exchange(&shared.slot[random_below(&random, 512)], p));
  }
  return NULL;
}

static void run_threads(void* (*body)(void*)) {
  pthread_t thread[THREADS];
  for (uintptr_t i = 0; i < THREADS; i++) {
    assert_int_equal(pthread_create(&thread[i], NULL, body, (void*)i), 0);
  }
  for (size_t i = 0; i < THREADS; i++) pthread_join(thread[i], NULL);
}

// If this fails, threads that share a heap get the same block, or blocks of another heap.
static void heap_is_shared_between_threads(void** state) {
  (void)state;
  for (size_t round = 0; round < 5; round++) {
    atomic_store(&shared.is_wrong, false);
    for (size_t i = 0; i < 2; i++) shared.heap[i] = mi_heap_new();
    run_threads(&use_shared_heaps);
    size_t left = 0;
    for (size_t i = 0; i < 512; i++) left += atomic_load(&shared.slot[i]) != NULL;
    assert_int_equal(test_blocks_in(shared.heap[0]) + test_blocks_in(shared.heap[1]), left);
    if (round % 2 == 0) {
      for (size_t i = 0; i < 512; i++) check_and_free(atomic_exchange(&shared.slot[i], NULL));
      assert_int_equal(test_blocks_in(shared.heap[0]) + test_blocks_in(shared.heap[1]), 0);
    }
    for (size_t i = 0; i < 512; i++) atomic_store(&shared.slot[i], NULL);
    assert_false(atomic_load(&shared.is_wrong));
    for (size_t i = 0; i < 2; i++) mi_heap_destroy(shared.heap[i]);
  }
}

enum { FREED_MEANWHILE = 20000 };

static struct meanwhile_s {
  void* p[FREED_MEANWHILE];
  atomic_size_t freed;
} meanwhile;

static void* free_meanwhile(void* argument) {
  for (size_t i = (uintptr_t)argument; i < FREED_MEANWHILE; i += 2) {
    mi_free(meanwhile.p[i]);
    atomic_fetch_add(&meanwhile.freed, 1);
  }
  return NULL;
}

// If this fails, a heap cannot be deleted while other threads still drop objects of it.
static void heap_delete_while_others_free(void** state) {
  (void)state;
  for (size_t round = 0; round < 10; round++) {
    mi_heap_t* const heap = mi_heap_new();
    for (size_t i = 0; i < FREED_MEANWHILE; i++) {
      meanwhile.p[i] = mi_heap_malloc(heap, 24 + i % 300);
      assert_non_null(meanwhile.p[i]);
    }
    atomic_store(&meanwhile.freed, 0);
    pthread_t thread[2];
    for (uintptr_t i = 0; i < 2; i++) {
      assert_int_equal(pthread_create(&thread[i], NULL, &free_meanwhile, (void*)i), 0);
    }
    while (atomic_load(&meanwhile.freed) < FREED_MEANWHILE / 20 * (round + 1)) sched_yield();
    mi_heap_delete(heap);
    for (size_t i = 0; i < 2; i++) pthread_join(thread[i], NULL);
    for (size_t i = 0; i < 100; i++) {
      void* const p = mi_malloc(24 + i);
      assert_ptr_equal(mi_heap_of(p), mi_heap_main());
      mi_free(p);
    }
  }
}

// If this fails, a thread goes on to use what it remembers of a heap that ended, for a new heap at
// the same address.
static void heap_end_is_seen_by_threads_that_go_on(void** state) {
  (void)state;
  puppet_t puppet;
  puppet_start(&puppet);
  for (size_t round = 0; round < 200; round++) {
    mi_heap_t* const before = mi_heap_new();
    void* const first = puppet_heap_malloc(&puppet, before, 40);
    assert_true(first != NULL && mi_heap_of(first) == before);
    memset(first, 0x77, 40);
    if (round % 2 == 0) {
      mi_heap_destroy(before);
    } else {
      mi_heap_delete(before);
      assert_ptr_equal(mi_heap_of(first), mi_heap_main());
    }
    mi_heap_t* const heap = mi_heap_new();
    void* const second = puppet_heap_malloc(&puppet, heap, 40);
    void* const third = puppet_heap_malloc(&puppet, NULL, 40);
    assert_true(second != NULL && second != third && third != NULL);
    memset(second, 0x77, 40);
    memset(third, 0x77, 40);
    assert_ptr_equal(mi_heap_of(second), heap);
    assert_ptr_equal(mi_heap_of(third), mi_heap_main());
    assert_int_equal(test_blocks_in(heap), 1);
    if (round % 2 != 0) mi_free(first);
    mi_free(third);
    mi_heap_destroy(heap);
  }
  puppet_end(&puppet);
}

static void* allocate_on_thread(void* heap) {
  void* const p = mi_heap_malloc((mi_heap_t*)heap, 40);
  return p == NULL ? NULL : memset(p, 0x77, 40);
}

// If this fails, blocks that a thread left in a heap when it ended are lost to the heap.
static void heap_outlives_its_threads(void** state) {
  (void)state;
  void* p[50];
  mi_heap_t* const heap = mi_heap_new();
  for (size_t i = 0; i < 50; i++) p[i] = test_on_thread(&allocate_on_thread, heap);
  assert_int_equal(test_blocks_in(heap), 50);
  for (size_t i = 0; i < 50; i++) {
    assert_true(p[i] != NULL && test_is_filled(p[i], 40, 0x77));
    assert_ptr_equal(mi_heap_of(p[i]), heap);
    mi_free(p[i]);
  }
  assert_int_equal(test_blocks_in(heap), 0);
  mi_heap_delete(heap);
}

// -- Memory comes back --

static void fill_mib(mi_heap_t* heap, size_t mib) {
  for (size_t filled = 0; filled < mib * TEST_MIB; filled += 1024) {
    void* const p = mi_heap_malloc(heap, 1024);
    assert_non_null(p);
    test_touch(p, 1024, 1);
  }
}

// If this fails, a server that makes a heap for each request grows until it is killed.
static void heap_destroy_gives_memory_to_the_next(void** state) {
  (void)state;
  size_t before = 0, mappings = 0;
  const size_t rounds = test_is_guarded() ? 100 : 1000; // there each takes 15 ms
  for (size_t round = 0; round < rounds; round++) {
    if (round == 20) {
      before = proc_resident();
      mappings = proc_areas();
    }
    mi_heap_t* const heap = mi_heap_new();
    assert_non_null(heap);
    fill_mib(heap, 1);
    mi_heap_destroy(heap);
  }
  printf("FIGURE %zu heaps of 1 MiB one after the other: resident growth %zu KiB\n", rounds,
         test_growth(before) / TEST_KIB);
  test_bound_growth(before, 2 * TEST_MIB);
  assert_true(proc_areas() <= mappings + 20);
}

// If this fails, memory of a heap that ended stays with the program.
static void heap_destroy_gives_memory_back(void** state) {
  (void)state;
  test_skip_if_valgrind();
  test_skip_if_guarded("the records of guarded blocks stay");
  if (test_has_memory_tags()) test_skip("the tags that an emulator keeps count as resident");
  static const size_t mib = 64;
  mi_heap_t* const first = mi_heap_new(); // for whatever is set up once
  assert_non_null(fill_heap(first));
  mi_heap_destroy(first);
  mi_collect(true);
  const size_t before = proc_resident();
  mi_heap_t* const heap = mi_heap_new();
  fill_mib(heap, mib);
  void* const large = mi_heap_malloc(heap, mib * TEST_MIB);
  test_touch(large, mib * TEST_MIB, 1);
  assert_true(test_growth(before) >= 2 * mib * TEST_MIB / 10 * 9);
  mi_heap_destroy(heap);
  mi_collect(true);
  test_bound_growth(before, 4 * TEST_MIB);
}

// If this fails, a heap that was used once keeps its peak.
static void heap_collect_gives_memory_back(void** state) {
  (void)state;
  enum { COUNT = 40000 };
  static void* p[COUNT];
  mi_heap_collect(NULL, true);
  mi_heap_t* const heap = mi_heap_new();
  const size_t before = proc_resident();
  char* const kept = mi_heap_strdup(heap, "kept");
  for (size_t i = 0; i < COUNT; i++) {
    p[i] = mi_heap_malloc(heap, 1000);
    test_touch(p[i], 1000, 1);
  }
  const size_t peak = test_growth(before);
  assert_true(peak >= COUNT * (size_t)1000 / 10 * 9);
  for (size_t i = 0; i < COUNT; i++) mi_free(p[i]);
  mi_heap_collect(heap, false);
  mi_heap_collect(heap, true);
  test_bound_growth(before, peak / 10);
  assert_string_equal(kept, "kept");
  assert_int_equal(test_blocks_in(heap), 1);
  mi_heap_destroy(heap);
}

// If this fails, a program with an object store for each of many users needs far too much memory.
static void heap_ten_thousand_at_once(void** state) {
  (void)state;
  test_skip_if_valgrind();
  enum { COUNT = 10000 };
  static mi_heap_t* heap[COUNT];
  static unsigned char* p[COUNT];
  mi_collect(true);
  const size_t before = proc_resident();
  for (size_t i = 0; i < COUNT; i++) {
    heap[i] = mi_heap_new();
    if (heap[i] == NULL) fail_msg("no heap %zu", i);
    p[i] = (unsigned char*)mi_heap_malloc(heap[i], 64);
    if (p[i] == NULL) fail_msg("no block in heap %zu", i);
    memset(p[i], (int)(i % 251), 64);
  }
  printf("FIGURE 10,000 heaps at once with one block each: resident growth %zu KiB\n",
         test_growth(before) / TEST_KIB);
  // A secure build has marks of each page, in an OS page of their own; in a padded build a heap has
  // figures of each size, 2 KiB, and occupies whole OS pages.
  const size_t marks = test_is_secure() ? COUNT * 4 * TEST_KIB : 0;
  const size_t figures = test_is_tracked() ? COUNT * 3 * TEST_KIB : 0;
  const size_t os_page = (size_t)sysconf(_SC_PAGESIZE);
  const size_t pages = os_page > 4096 ? COUNT * os_page : 0; // the block is in one
  test_bound_growth(before, 100 * TEST_MIB + marks + figures + pages);
  for (size_t i = 0; i < COUNT; i++) {
    assert_ptr_equal(mi_heap_of(p[i]), heap[i]);
    assert_true(test_is_filled(p[i], 64, (unsigned char)(i % 251)));
  }
  for (size_t i = 0; i < COUNT; i += 2) mi_heap_destroy(heap[i]);
  for (size_t i = 1; i < COUNT; i += 2) {
    assert_ptr_equal(mi_heap_of(p[i]), heap[i]);
    mi_heap_delete(heap[i]);
    mi_free(p[i]);
  }
  mi_collect(true);
  // The structures of a heap, 5 KiB, are kept; where they take less than half an OS page each,
  // their memory is, too.
  const size_t kept = os_page > 4096 ? COUNT * 5 * TEST_KIB : 0;
  test_bound_growth(before, 20 * TEST_MIB + figures + kept);
}

// If this fails, a program can make only so many heaps in its life.
static void heap_numbers_are_used_again(void** state) {
  (void)state;
  const size_t before = proc_resident();
  for (size_t i = 0; i < 70000; i++) { // more than 16 bits can count
    mi_heap_t* const heap = mi_heap_new();
    if (heap == NULL) fail_msg("no heap after %zu", i);
    void* const p = mi_heap_malloc(heap, 64);
    if (mi_heap_of(p) != heap) fail_msg("heap %zu is wrong", i);
    if (i % 2 == 0) mi_free(p);
    mi_heap_destroy(heap);
  }
  test_bound_growth(before, 4 * TEST_MIB);
}

// Runs in a child: heaps until there is no memory.
static void exhaust_heaps(void) {
  enum { MAX = 400000 };
  static mi_heap_t* heap[MAX];
  if (!test_limit_address_space(64 * TEST_MIB)) _exit(SKIPPED);
  for (size_t round = 0; round < 2; round++) {
    size_t count = 0;
    while (count < MAX) {
      errno = 0;
      heap[count] = mi_heap_new();
      if (heap[count] == NULL) break;
      count++;
      // There may be no memory for the thread's part of the heap, or for a page.
      unsigned char* const p = (unsigned char*)mi_heap_malloc(heap[count - 1], 3000);
      if (p == NULL) break;
      CHECK(mi_heap_of(p) == heap[count - 1]);
      memset(p, 1, 3000);
    }
    CHECK(errno == ENOMEM);
    for (size_t i = 0; i < count; i++) mi_heap_destroy(heap[i]);
    mi_collect(true);
    printf("round %zu: %zu heaps\n", round, count);
    CHECK(count >= 100);
  }
  printf("went on\n");
}

// If this fails, a program that runs out of memory while it makes a heap crashes, or cannot go on.
static void heap_new_without_memory(void** state) {
  (void)state;
  test_skip_if_valgrind();
  static spawn_result_t result;
  assert_true(spawn_fork(&exhaust_heaps, &result));
  if (result.exit_status == SKIPPED) test_skip("no limit can be set");
  if (result.exit_status != 0 || spawn_count(&result, "went on") != 1) {
    fail_msg("signal %d, status %d:\n%s", result.signal, result.exit_status, result.output);
  }
}

// -- The rest --

// If this fails, a program that names a NUMA node the machine does not have gets no memory.
static void heap_numa_affinity_accepts_any_node(void** state) {
  (void)state;
  mi_heap_t* const heap = mi_heap_new();
  static const int nodes[] = {0, 1, 7, 1000, INT32_MAX, -1, INT32_MIN};
  for (size_t i = 0; i < sizeof(nodes) / sizeof(nodes[0]); i++) {
    mi_heap_set_numa_affinity(heap, nodes[i]);
    mi_heap_set_numa_affinity(NULL, nodes[i]);
    void* const p = mi_heap_malloc(heap, 100);
    void* const q = mi_heap_malloc(heap, 5 * TEST_MIB);
    void* const r = mi_malloc(5 * TEST_MIB);
    assert_true(mi_heap_of(p) == heap && mi_heap_of(q) == heap);
    assert_ptr_equal(mi_heap_of(r), mi_heap_main());
    test_touch(q, 5 * TEST_MIB, 1);
    mi_free(p);
    mi_free(q);
    mi_free(r);
  }
  mi_heap_set_numa_affinity(NULL, -1);
  mi_heap_delete(heap);
}

static void* default_heap_of_thread(void* arg) {
  (void)arg;
  return mi_heap_get_default();
}

// If this fails, programs of version 2 that set a default heap allocate elsewhere.
static void heap_default_of_version_2(void** state) {
  (void)state;
  mi_heap_t* const heap = mi_heap_new();
  assert_ptr_equal(mi_heap_set_default(heap), mi_heap_main());
  assert_ptr_equal(mi_heap_get_default(), heap);
  assert_ptr_equal(mi_heap_get_backing(), mi_heap_main());
  void* const p = mi_malloc(100);
  void* const q = mi_zalloc_aligned(100000, 64);
  assert_true(mi_heap_of(p) == heap && mi_heap_of(q) == heap);
  assert_ptr_equal(test_on_thread(&default_heap_of_thread, NULL), mi_heap_main());
  assert_ptr_equal(mi_heap_set_default(mi_heap_main()), heap);
  assert_ptr_equal(mi_heap_get_default(), mi_heap_main());
  mi_heap_set_default(heap);
  mi_heap_set_default(NULL); // is the main heap, as everywhere
  assert_ptr_equal(mi_heap_get_default(), mi_heap_main());
  mi_heap_destroy(heap);
}

// If this fails, programs of version 2 that make heaps with a tag or in an arena do not run.
static void heap_new_of_version_2(void** state) {
  (void)state;
  for (int tag = 0; tag < 4; tag++) {
    mi_heap_t* const heap = mi_heap_new_ex(tag, tag % 2 == 0, NULL);
    assert_non_null(heap);
    void* const p = mi_heap_malloc(heap, 100);
    assert_ptr_equal(mi_heap_of(p), heap);
    mi_heap_destroy(heap); // also of one that was not to be destroyed
    assert_null(mi_heap_of(p));
  }
  mi_heap_t* const anywhere = mi_heap_new_in_arena(NULL);
  void* const p = mi_heap_malloc(anywhere, 100);
  assert_ptr_equal(mi_heap_of(p), anywhere);
  mi_heap_destroy(anywhere);
}

// If this fails, a heap that was never used breaks its end, or what is asked about it.
static void heap_may_be_empty(void** state) {
  (void)state;
  for (size_t i = 0; i < 100; i++) {
    mi_heap_t* const heap = mi_heap_new();
    assert_int_equal(test_blocks_in(heap), 0);
    mi_heap_collect(heap, i % 3 == 0);
    if (i % 2 == 0) {
      mi_heap_delete(heap);
    } else {
      mi_heap_destroy(heap);
    }
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(heap_of_knows_every_kind),
      cmocka_unit_test(heap_of_foreign_addresses),
      cmocka_unit_test(heap_of_forgets_freed_large_blocks),
      cmocka_unit_test(heap_main_is_that_of_malloc),
      cmocka_unit_test(heap_delete_keeps_blocks_in_the_main_heap),
      cmocka_unit_test(heap_delete_leaves_memory_that_is_used),
      cmocka_unit_test(heap_destroy_ends_every_block),
      cmocka_unit_test(heap_destroy_takes_full_and_partly_freed_pages),
      cmocka_unit_test(heap_delete_and_destroy_ignore_what_cannot_end),
      cmocka_unit_test(heap_is_shared_between_threads),
      cmocka_unit_test(heap_delete_while_others_free),
      cmocka_unit_test(heap_end_is_seen_by_threads_that_go_on),
      cmocka_unit_test(heap_outlives_its_threads),
      cmocka_unit_test(heap_destroy_gives_memory_to_the_next),
      cmocka_unit_test(heap_destroy_gives_memory_back),
      cmocka_unit_test(heap_collect_gives_memory_back),
      cmocka_unit_test(heap_ten_thousand_at_once),
      cmocka_unit_test(heap_numbers_are_used_again),
      cmocka_unit_test(heap_new_without_memory),
      cmocka_unit_test(heap_numa_affinity_accepts_any_node),
      cmocka_unit_test(heap_default_of_version_2),
      cmocka_unit_test(heap_new_of_version_2),
      cmocka_unit_test(heap_may_be_empty),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
