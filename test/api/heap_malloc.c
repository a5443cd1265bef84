// SPDX-License-Identifier: MIT
// heap_malloc.c - every function that allocates from a heap or resizes a block into one. The life
// of heaps is in heap.c.
//
// All functions are brought to two forms, one that allocates and one that resizes, so that each
// test runs through all of them.
#include "spawn.h"
#include "test_heap.h"

#include <limits.h>
#include <signal.h>
#include <sys/mman.h>

// -- Functions that allocate, a resize of NULL among them --

typedef void* allocate_t(mi_heap_t* heap, size_t size, size_t alignment, size_t offset);

#define ALLOCATE(name, expression)                                                                 \
  static void* allocate_##name(mi_heap_t* heap, size_t size, size_t alignment, size_t offset) {    \
    (void)size, (void)alignment, (void)offset;                                                     \
    return expression;                                                                             \
  }

ALLOCATE(malloc, mi_heap_malloc(heap, size))
ALLOCATE(zalloc, mi_heap_zalloc(heap, size))
ALLOCATE(calloc, mi_heap_calloc(heap, 1, size))
ALLOCATE(calloc_bytes, mi_heap_calloc(heap, size, 1))
ALLOCATE(mallocn, mi_heap_mallocn(heap, size, 1))
ALLOCATE(malloc_small, mi_heap_malloc_small(heap, size))
ALLOCATE(zalloc_small, mi_heap_zalloc_small(heap, size))
ALLOCATE(realloc, mi_heap_realloc(heap, NULL, size))
ALLOCATE(reallocn, mi_heap_reallocn(heap, NULL, 1, size))
ALLOCATE(reallocf, mi_heap_reallocf(heap, NULL, size))
ALLOCATE(rezalloc, mi_heap_rezalloc(heap, NULL, size))
ALLOCATE(recalloc, mi_heap_recalloc(heap, NULL, size, 1))
ALLOCATE(alloc_new, mi_heap_alloc_new(heap, size))
ALLOCATE(alloc_new_n, mi_heap_alloc_new_n(heap, size, 1))
ALLOCATE(malloc_aligned, mi_heap_malloc_aligned(heap, size, alignment))
ALLOCATE(zalloc_aligned, mi_heap_zalloc_aligned(heap, size, alignment))
ALLOCATE(calloc_aligned, mi_heap_calloc_aligned(heap, 1, size, alignment))
ALLOCATE(realloc_aligned, mi_heap_realloc_aligned(heap, NULL, size, alignment))
ALLOCATE(rezalloc_aligned, mi_heap_rezalloc_aligned(heap, NULL, size, alignment))
ALLOCATE(recalloc_aligned, mi_heap_recalloc_aligned(heap, NULL, 1, size, alignment))
ALLOCATE(malloc_aligned_at, mi_heap_malloc_aligned_at(heap, size, alignment, offset))
ALLOCATE(zalloc_aligned_at, mi_heap_zalloc_aligned_at(heap, size, alignment, offset))
ALLOCATE(calloc_aligned_at, mi_heap_calloc_aligned_at(heap, 1, size, alignment, offset))
ALLOCATE(realloc_aligned_at, mi_heap_realloc_aligned_at(heap, NULL, size, alignment, offset))
ALLOCATE(rezalloc_aligned_at, mi_heap_rezalloc_aligned_at(heap, NULL, size, alignment, offset))
ALLOCATE(recalloc_aligned_at, mi_heap_recalloc_aligned_at(heap, NULL, 1, size, alignment, offset))

enum { ZEROED = 1, ALIGNED = 2, OFFSET = 4, SMALL = 8, THROWS = 16, RESIZES = 32 };

#define WAY(name, flags)                                                                           \
  { #name, &allocate_##name, flags }
static const struct way_s {
  const char* name;
  allocate_t* allocate;
  unsigned flags;
} ways[] = {
    WAY(malloc, 0),
    WAY(zalloc, ZEROED),
    WAY(calloc, ZEROED),
    WAY(calloc_bytes, ZEROED),
    WAY(mallocn, 0),
    WAY(malloc_small, SMALL),
    WAY(zalloc_small, SMALL | ZEROED),
    WAY(realloc, RESIZES),
    WAY(reallocn, RESIZES),
    WAY(reallocf, RESIZES),
    WAY(rezalloc, ZEROED | RESIZES),
    WAY(recalloc, ZEROED | RESIZES),
    WAY(alloc_new, THROWS),
    WAY(alloc_new_n, THROWS),
    WAY(malloc_aligned, ALIGNED),
    WAY(zalloc_aligned, ALIGNED | ZEROED),
    WAY(calloc_aligned, ALIGNED | ZEROED),
    WAY(realloc_aligned, ALIGNED | RESIZES),
    WAY(rezalloc_aligned, ALIGNED | ZEROED | RESIZES),
    WAY(recalloc_aligned, ALIGNED | ZEROED | RESIZES),
    WAY(malloc_aligned_at, ALIGNED | OFFSET),
    WAY(zalloc_aligned_at, ALIGNED | OFFSET | ZEROED),
    WAY(calloc_aligned_at, ALIGNED | OFFSET | ZEROED),
    WAY(realloc_aligned_at, ALIGNED | OFFSET | RESIZES),
    WAY(rezalloc_aligned_at, ALIGNED | OFFSET | ZEROED | RESIZES),
    WAY(recalloc_aligned_at, ALIGNED | OFFSET | ZEROED | RESIZES),
};
#define WAY_COUNT (sizeof(ways) / sizeof(ways[0]))

// -- Functions that resize --

typedef void* resize_t(mi_heap_t* heap, void* p, size_t size, size_t alignment, size_t offset);

#define RESIZE(name, expression)                                                                   \
  static void* resize_##name(mi_heap_t* heap, void* p, size_t size, size_t alignment,              \
                             size_t offset) {                                                      \
    (void)alignment, (void)offset;                                                                 \
    return expression;                                                                             \
  }

RESIZE(realloc, mi_heap_realloc(heap, p, size))
RESIZE(reallocn, mi_heap_reallocn(heap, p, size, 1))
RESIZE(reallocf, mi_heap_reallocf(heap, p, size))
RESIZE(rezalloc, mi_heap_rezalloc(heap, p, size))
RESIZE(recalloc, mi_heap_recalloc(heap, p, 1, size))
RESIZE(realloc_aligned, mi_heap_realloc_aligned(heap, p, size, alignment))
RESIZE(rezalloc_aligned, mi_heap_rezalloc_aligned(heap, p, size, alignment))
RESIZE(recalloc_aligned, mi_heap_recalloc_aligned(heap, p, size, 1, alignment))
RESIZE(realloc_aligned_at, mi_heap_realloc_aligned_at(heap, p, size, alignment, offset))
RESIZE(rezalloc_aligned_at, mi_heap_rezalloc_aligned_at(heap, p, size, alignment, offset))
RESIZE(recalloc_aligned_at, mi_heap_recalloc_aligned_at(heap, p, 1, size, alignment, offset))

#define RESIZE_WAY(name, flags)                                                                    \
  { #name, &resize_##name, flags }
static const struct resize_way_s {
  const char* name;
  resize_t* resize;
  unsigned flags;
} resize_ways[] = {
    RESIZE_WAY(realloc, 0),
    RESIZE_WAY(reallocn, 0),
    RESIZE_WAY(reallocf, 0),
    RESIZE_WAY(rezalloc, ZEROED),
    RESIZE_WAY(recalloc, ZEROED),
    RESIZE_WAY(realloc_aligned, ALIGNED),
    RESIZE_WAY(rezalloc_aligned, ALIGNED | ZEROED),
    RESIZE_WAY(recalloc_aligned, ALIGNED | ZEROED),
    RESIZE_WAY(realloc_aligned_at, ALIGNED | OFFSET),
    RESIZE_WAY(rezalloc_aligned_at, ALIGNED | OFFSET | ZEROED),
    RESIZE_WAY(recalloc_aligned_at, ALIGNED | OFFSET | ZEROED),
};
#define RESIZE_COUNT (sizeof(resize_ways) / sizeof(resize_ways[0]))

static const size_t sizes[] = {0,     1,      7,      8,      9,      16,      24,     100,
                               128,   1000,   1024,   1025,   4096,   5000,    16384,  40000,
                               65536, 100000, 300000, 524288, 600000, 1048577, 4194304};
#define SIZE_COUNT (sizeof(sizes) / sizeof(sizes[0]))
#define SMALL_COUNT 11 // of these are for the small functions

// What every block of `heap` must be.
static void check_block(const char* name, mi_heap_t* heap, unsigned char* p, size_t size) {
  if (p == NULL) fail_msg("%s: no block of %zu bytes", name, size);
  if (mi_heap_of(p) != heap) fail_msg("%s: %zu bytes are in another heap", name, size);
  if (mi_usable_size(p) < size) fail_msg("%s: %zu bytes are not usable", name, size);
  if (!test_is_aligned(p, size >= 16 ? 16 : 8)) fail_msg("%s: %p for %zu", name, (void*)p, size);
}

static size_t size_count_of(const struct way_s* way) {
  return (way->flags & SMALL) != 0 ? SMALL_COUNT : SIZE_COUNT;
}

// Blocks of all sizes in `heap`, made one way, live at the same time; memory is dirty the second
// time. Says how many blocks were not as promised.
static void use_way(const struct way_s* way, mi_heap_t* heap) {
  mi_heap_t* const owner = heap == NULL ? mi_heap_main() : heap;
  for (size_t round = 0; round < 2; round++) {
    unsigned char* p[SIZE_COUNT];
    const size_t count = size_count_of(way);
    for (size_t i = 0; i < count; i++) {
      p[i] = (unsigned char*)way->allocate(heap, test_opaque(sizes[i]), 16, 0);
      check_block(way->name, owner, p[i], sizes[i]);
      const size_t usable = mi_usable_size(p[i]);
      if ((way->flags & ZEROED) != 0 && !test_is_filled(p[i], usable, 0)) {
        fail_msg("%s: %zu bytes are not zero", way->name, sizes[i]);
      }
      memset(p[i], (int)(i + 1), usable);
    }
    for (size_t i = 0; i < count; i++) {
      assert_true(test_is_filled(p[i], mi_usable_size(p[i]), (unsigned char)(i + 1)));
      mi_free(p[i]);
    }
  }
}

// If this fails, a library that keeps its objects in a heap of its own gets blocks that are too
// small, overlap, are not zero, or stay behind when the heap ends.
static void heap_malloc_every_function_gives_blocks_of_the_heap(void** state) {
  (void)state;
  mi_heap_t* const heap = mi_heap_new();
  assert_non_null(heap);
  for (size_t i = 0; i < WAY_COUNT; i++) use_way(&ways[i], heap);
  mi_heap_destroy(heap);
}

// If this fails, a program that has not made a heap yet (its pointer is NULL) crashes, or loses
// memory.
static void heap_malloc_null_is_the_main_heap(void** state) {
  (void)state;
  for (size_t i = 0; i < WAY_COUNT; i++) {
    use_way(&ways[i], NULL);
    use_way(&ways[i], mi_heap_main());
  }
  for (size_t i = 0; i < RESIZE_COUNT; i++) {
    mi_heap_t* const heap = mi_heap_new();
    void* p = mi_heap_zalloc_aligned(heap, 100, 64);
    p = resize_ways[i].resize(NULL, p, 100, 64, 0);
    check_block(resize_ways[i].name, mi_heap_main(), (unsigned char*)p, 100);
    mi_free(p);
    mi_heap_destroy(heap);
  }
  char* const text = mi_heap_strdup(NULL, "text");
  char* const part = mi_heap_strndup(NULL, "text", 2);
  char* const path = mi_heap_realpath(NULL, "/", NULL);
  assert_true(mi_heap_of(text) == mi_heap_main() && mi_heap_of(part) == mi_heap_main());
  assert_true(mi_heap_of(path) == mi_heap_main());
  mi_free(text);
  mi_free(part);
  mi_free(path);
}

// If this fails, vector code or a device driver that keeps its buffers in a heap crashes.
static void heap_malloc_aligned_all_alignments_and_offsets(void** state) {
  (void)state;
  static const size_t offsets[] = {0, 8, 24, 100, 4096, 100000};
  mi_heap_t* const heap = mi_heap_new();
  for (size_t w = 0; w < WAY_COUNT; w++) {
    const struct way_s* const way = &ways[w];
    if ((way->flags & ALIGNED) == 0) continue;
    const size_t offset_count = (way->flags & OFFSET) != 0 ? 6 : 1;
    for (size_t alignment = 1; alignment <= 4 * TEST_MIB; alignment *= 4) {
      for (size_t k = 0; k < offset_count; k++) {
        unsigned char* p[SIZE_COUNT];
        for (size_t i = 0; i < SIZE_COUNT; i += 2) {
          p[i] = (unsigned char*)way->allocate(heap, sizes[i], alignment, offsets[k]);
          if (p[i] == NULL || mi_heap_of(p[i]) != heap || mi_usable_size(p[i]) < sizes[i] ||
              !test_is_aligned(p[i] + offsets[k], alignment)) {
            fail_msg("%s: %p for size %zu, alignment %zu, offset %zu", way->name, (void*)p[i],
                     sizes[i], alignment, offsets[k]);
          }
          if ((way->flags & ZEROED) != 0) assert_true(test_is_filled(p[i], sizes[i], 0));
          memset(p[i], (int)(i + 1), sizes[i]);
        }
        for (size_t i = 0; i < SIZE_COUNT; i += 2) {
          assert_true(test_is_filled(p[i], sizes[i], (unsigned char)(i + 1)));
          mi_free(p[i]);
        }
      }
    }
  }
  mi_heap_destroy(heap);
}

// If this fails, a wrong alignment ends in an endless loop or a crash instead of an error.
static void heap_malloc_refuses_bad_alignments(void** state) {
  (void)state;
  mi_heap_t* const heap = mi_heap_new();
  static const size_t bad[] = {0, 3, 24, 48, 100, 4095, SIZE_MAX, SIZE_MAX / 2};
  for (size_t w = 0; w < WAY_COUNT; w++) {
    if ((ways[w].flags & ALIGNED) == 0) continue;
    const size_t first = (ways[w].flags & RESIZES) != 0 ? 1 : 0; // 0 is no alignment there
    for (size_t i = first; i < sizeof(bad) / sizeof(bad[0]); i++) {
      TEST_REFUSED(ways[w].allocate(heap, 100, bad[i], 0), EINVAL);
    }
  }
  unsigned char* const p = (unsigned char*)mi_heap_zalloc_aligned(heap, 100, 64);
  memset(p, 5, 100);
  for (size_t w = 0; w < RESIZE_COUNT; w++) {
    if ((resize_ways[w].flags & ALIGNED) == 0) continue;
    for (size_t i = 1; i < sizeof(bad) / sizeof(bad[0]); i++) {
      TEST_REFUSED(resize_ways[w].resize(heap, p, 5000, bad[i], 0), EINVAL);
    }
  }
  assert_true(test_is_filled(p, 100, 5));
  mi_heap_destroy(heap);
}

// If this fails, a size that was computed wrong gives a block that is far too small.
static void heap_malloc_refuses_what_cannot_be(void** state) {
  (void)state;
  mi_heap_t* const heap = mi_heap_new();
  for (size_t w = 0; w < WAY_COUNT; w++) {
    if ((ways[w].flags & (SMALL | THROWS)) != 0) continue; // of the promise; see the next but one
    TEST_REFUSED(ways[w].allocate(heap, test_opaque(SIZE_MAX), 64, 0), ENOMEM);
    TEST_REFUSED(ways[w].allocate(heap, test_opaque(PTRDIFF_MAX), 64, 8), ENOMEM);
    TEST_REFUSED(ways[w].allocate(heap, test_opaque((size_t)PTRDIFF_MAX + 1), 64, 0), ENOMEM);
    TEST_REFUSED(ways[w].allocate(heap, test_opaque(TEST_BEYOND), 64, 0), ENOMEM);
  }
  const size_t half = test_opaque(SIZE_MAX / 2 + 2);
  const size_t many = test_opaque(SIZE_MAX / 16);
  TEST_REFUSED(mi_heap_calloc(heap, half, 2), ENOMEM);
  TEST_REFUSED(mi_heap_calloc(heap, 2, half), ENOMEM);
  TEST_REFUSED(mi_heap_mallocn(heap, half, 2), ENOMEM);
  TEST_REFUSED(mi_heap_mallocn(heap, many, 17), ENOMEM);
  TEST_REFUSED(mi_heap_calloc_aligned(heap, half, 2, 64), ENOMEM);
  TEST_REFUSED(mi_heap_calloc_aligned_at(heap, half, 2, 64, 8), ENOMEM);
  unsigned char* const p = (unsigned char*)mi_heap_zalloc_aligned(heap, 100, 64);
  memset(p, 6, 100);
  TEST_REFUSED(mi_heap_reallocn(heap, p, half, 2), ENOMEM);
  TEST_REFUSED(mi_heap_recalloc(heap, p, half, 2), ENOMEM);
  TEST_REFUSED(mi_heap_recalloc_aligned(heap, p, half, 2, 64), ENOMEM);
  TEST_REFUSED(mi_heap_recalloc_aligned_at(heap, p, half, 2, 64, 8), ENOMEM);
  for (size_t w = 0; w < RESIZE_COUNT; w++) {
    if (resize_ways[w].resize == &resize_reallocf) continue; // frees, see below
    TEST_REFUSED(resize_ways[w].resize(heap, p, test_opaque(PTRDIFF_MAX), 64, 0), ENOMEM);
    TEST_REFUSED(resize_ways[w].resize(NULL, p, test_opaque(SIZE_MAX), 64, 0), ENOMEM);
  }
  assert_ptr_equal(mi_heap_of(p), heap);
  assert_true(test_is_filled(p, 100, 6));
  mi_heap_destroy(heap);
}

// If this fails, code that relies on reallocf to free what it cannot enlarge leaks, or loses a
// block that was enlarged.
static void heap_reallocf_frees_on_failure(void** state) {
  (void)state;
  mi_heap_t* const heap = mi_heap_new();
  unsigned char* p = (unsigned char*)mi_heap_malloc(heap, 100);
  memset(p, 7, 100);
  p = (unsigned char*)mi_heap_reallocf(heap, p, 10000);
  assert_non_null(p);
  assert_true(test_is_filled(p, 100, 7));
  assert_int_equal(test_blocks_in(heap), 1);
  TEST_REFUSED(mi_heap_reallocf(heap, p, test_opaque(SIZE_MAX)), ENOMEM);
  assert_int_equal(test_blocks_in(heap), 0);
  TEST_REFUSED(mi_heap_reallocf(heap, NULL, test_opaque(SIZE_MAX)), ENOMEM);
  mi_heap_destroy(heap);
}

// If this fails, resizing an object in a heap loses its contents, its alignment or its zeros.
static void heap_realloc_keeps_what_it_must(void** state) {
  (void)state;
  mi_heap_t* const heap = mi_heap_new();
  for (size_t w = 0; w < RESIZE_COUNT; w++) {
    const struct resize_way_s* const way = &resize_ways[w];
    const size_t alignment = (way->flags & ALIGNED) != 0 ? 256 : 1;
    const size_t offset = (way->flags & OFFSET) != 0 ? 40 : 0;
    size_t size = 10;
    unsigned char* p = (unsigned char*)mi_heap_zalloc_aligned_at(heap, size, alignment, offset);
    memset(p, 3, size);
    while (size < 3 * TEST_MIB) {
      const size_t larger = size * 3 / 2 + 1;
      p = (unsigned char*)way->resize(heap, p, larger, alignment, offset);
      check_block(way->name, heap, p, 8);
      if (!test_is_aligned(p + offset, alignment)) fail_msg("%s: %p", way->name, (void*)p);
      if (!test_is_filled(p, size, 3)) fail_msg("%s: contents of %zu are lost", way->name, size);
      if ((way->flags & ZEROED) != 0 && !test_is_filled(p + size, larger - size, 0)) {
        fail_msg("%s: from %zu to %zu the rest is not zero", way->name, size, larger);
      }
      memset(p, 3, larger);
      size = larger;
    }
    p = (unsigned char*)way->resize(heap, p, 500, alignment, offset);
    assert_non_null(p);
    assert_true(test_is_filled(p, 500, 3) && test_is_aligned(p + offset, alignment));
    p = (unsigned char*)way->resize(heap, p, test_opaque(0), alignment, offset);
    if (p == NULL) fail_msg("%s: size 0 gives NULL", way->name);
    assert_int_equal(test_blocks_in(heap), 1);
    mi_free(p);
  }
  mi_heap_destroy(heap);
}

// If this fails, an object that was moved to a heap that lives longer is lost with the heap it
// came from.
static void heap_realloc_moves_into_the_heap(void** state) {
  (void)state;
  for (size_t w = 0; w < RESIZE_COUNT; w++) {
    for (size_t i = 1; i < SIZE_COUNT; i++) {
      const struct resize_way_s* const way = &resize_ways[w];
      mi_heap_t* const from = mi_heap_new();
      mi_heap_t* const to = mi_heap_new();
      unsigned char* const old = (unsigned char*)mi_heap_zalloc_aligned(from, sizes[i], 64);
      unsigned char* const from_main = (unsigned char*)mi_zalloc_aligned(sizes[i], 64);
      memset(old, 9, sizes[i]);
      memset(from_main, 8, sizes[i]);
      // The size stays, which in the same heap would need no move.
      unsigned char* const p = (unsigned char*)way->resize(to, old, sizes[i], 64, 0);
      unsigned char* const q = (unsigned char*)way->resize(to, from_main, sizes[i], 64, 0);
      check_block(way->name, to, p, sizes[i]);
      check_block(way->name, to, q, sizes[i]);
      assert_int_equal(test_blocks_in(from), 0);
      mi_heap_destroy(from);
      assert_true(test_is_filled(p, sizes[i], 9) && test_is_filled(q, sizes[i], 8));
      assert_int_equal(test_blocks_in(to), 2);
      mi_heap_destroy(to);
    }
  }
}

// If this fails, realloc of the C library loses or keeps in place what lives in a heap that is
// about to end.
static void heap_plain_realloc_moves_to_the_default_heap(void** state) {
  (void)state;
  mi_heap_t* const heap = mi_heap_new();
  unsigned char* p = (unsigned char*)mi_heap_malloc(heap, 100);
  memset(p, 4, 100);
  p = (unsigned char*)mi_realloc(p, 100);
  assert_ptr_equal(mi_heap_of(p), mi_heap_main());
  mi_heap_destroy(heap);
  assert_true(test_is_filled(p, 100, 4));
  mi_free(p);
}

// If this fails, data sets of gigabytes cannot be kept in a heap.
static void heap_malloc_huge_blocks(void** state) {
  (void)state;
  mi_heap_t* const heap = mi_heap_new();
  static const size_t huge[] = {40 * TEST_MIB, 100 * TEST_MIB, 3 * TEST_GIB};
  for (size_t i = 0; i < sizeof(huge) / sizeof(huge[0]); i++) {
    if (!test_has_address_space(huge[i])) continue;
    for (size_t w = 0; w < WAY_COUNT; w++) {
      if ((ways[w].flags & SMALL) != 0) continue;
      unsigned char* const p = (unsigned char*)ways[w].allocate(heap, huge[i], 4096, 0);
      check_block(ways[w].name, heap, p, huge[i]);
      if ((ways[w].flags & ZEROED) != 0) {
        assert_true(p[0] == 0 && p[huge[i] / 2] == 0 && p[huge[i] - 1] == 0);
      }
      p[0] = p[huge[i] / 2] = p[huge[i] - 1] = 1;
      assert_ptr_equal(mi_heap_of(p + huge[i] - 1), heap);
      mi_free(p);
    }
  }
  unsigned char* p = (unsigned char*)mi_heap_malloc(heap, 10 * TEST_MIB);
  p[0] = 1;
  p[10 * TEST_MIB - 1] = 2;
  p = (unsigned char*)mi_heap_realloc(heap, p, 60 * TEST_MIB);
  check_block("realloc", heap, p, 60 * TEST_MIB);
  assert_true(p[0] == 1 && p[10 * TEST_MIB - 1] == 2);
  assert_int_equal(test_blocks_in(heap), 1);
  mi_heap_destroy(heap);
}

// If this fails, reading a name of fixed length that has no terminator crashes.
static void heap_strndup_reads_no_further(void** state) {
  (void)state;
  const size_t os_page = (size_t)sysconf(_SC_PAGESIZE);
  char* const area =
      (char*)mmap(NULL, 2 * os_page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  assert_true(area != MAP_FAILED);
  assert_int_equal(mprotect(area + os_page, os_page, PROT_NONE), 0);
  char* const name = area + os_page - 5;
  memcpy(name, "names", 5);
  mi_heap_t* const heap = mi_heap_new();
  char* const copy = mi_heap_strndup(heap, name, 5);
  assert_string_equal(copy, "names");
  assert_ptr_equal(mi_heap_of(copy), heap);
  mi_heap_destroy(heap);
  munmap(area, 2 * os_page);
}

// If this fails, strings and paths in a heap are wrong, or not in the heap.
static void heap_strings(void** state) {
  (void)state;
  mi_heap_t* const heap = mi_heap_new();
  assert_null(mi_heap_strdup(heap, NULL));
  assert_null(mi_heap_strndup(heap, NULL, 3));
  char* const text = mi_heap_strdup(heap, "some text");
  char* const empty = mi_heap_strdup(heap, "");
  char* const part = mi_heap_strndup(heap, "some text", 4);
  char* const whole = mi_heap_strndup(heap, "some text", SIZE_MAX);
  char* const none = mi_heap_strndup(heap, "some text", 0);
  assert_string_equal(text, "some text");
  assert_string_equal(empty, "");
  assert_string_equal(part, "some");
  assert_string_equal(whole, "some text");
  assert_string_equal(none, "");
  char* const path = mi_heap_realpath(heap, "/proc/../", NULL);
  assert_string_equal(path, "/");
  char* const all[] = {text, empty, part, whole, none, path};
  for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
    assert_ptr_equal(mi_heap_of(all[i]), heap);
  }
  assert_int_equal(test_blocks_in(heap), 6);
  char buffer[PATH_MAX];
  assert_ptr_equal(mi_heap_realpath(heap, "/proc/..", buffer), buffer);
  assert_string_equal(buffer, "/");
  TEST_REFUSED(mi_heap_realpath(heap, "/no such file", NULL), ENOENT);
  TEST_REFUSED(mi_heap_realpath(heap, NULL, NULL), EINVAL);
  assert_int_equal(test_blocks_in(heap), 6);
  mi_heap_destroy(heap);
}

static void fail_alloc_new(void) {
  (void)!mi_heap_alloc_new(mi_heap_new(), test_opaque(SIZE_MAX / 2 + 1));
}

static void fail_alloc_new_n(void) {
  (void)!mi_heap_alloc_new_n(mi_heap_new(), test_opaque(SIZE_MAX / 2), 8);
}

// If this fails, C++ code runs on with NULL where it expects an object.
static void heap_alloc_new_does_not_return_null(void** state) {
  (void)state;
  test_skip_if_guarded("errors are shown");
  test_skip_if_sanitized();
  void (*const bodies[])(void) = {&fail_alloc_new, &fail_alloc_new_n};
  for (size_t i = 0; i < sizeof(bodies) / sizeof(bodies[0]); i++) {
    static spawn_result_t result;
    assert_true(spawn_fork(bodies[i], &result));
    assert_int_equal(result.signal, SIGABRT);
    assert_int_equal(spawn_count(&result, "out of memory in 'new'"), 1);
  }
}

// If this fails, the macros give a pointer to the wrong type, or of the wrong size.
static void heap_typed_macros(void** state) {
  (void)state;
  typedef struct pair_s {
    long a, b;
  } pair_t;
  mi_heap_t* const heap = mi_heap_new();
  pair_t* const one = mi_heap_malloc_tp(pair_t, heap);
  pair_t* const zero = mi_heap_zalloc_tp(pair_t, heap);
  pair_t* many = mi_heap_calloc_tp(pair_t, heap, 10);
  pair_t* more = mi_heap_mallocn_tp(pair_t, heap, 10);
  assert_true(mi_usable_size(one) >= sizeof(pair_t) && zero->a == 0 && zero->b == 0);
  many[9] = (pair_t){1, 2};
  more[9] = (pair_t){3, 4};
  many = mi_heap_recalloc_tp(pair_t, heap, many, 1000);
  more = mi_heap_reallocn_tp(pair_t, heap, more, 1000);
  assert_true(many[9].b == 2 && many[999].a == 0 && more[9].a == 3);
  assert_true(mi_usable_size(more) >= 1000 * sizeof(pair_t));
  assert_int_equal(test_blocks_in(heap), 4);
  mi_heap_destroy(heap);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(heap_malloc_every_function_gives_blocks_of_the_heap),
      cmocka_unit_test(heap_malloc_null_is_the_main_heap),
      cmocka_unit_test(heap_malloc_aligned_all_alignments_and_offsets),
      cmocka_unit_test(heap_malloc_refuses_bad_alignments),
      cmocka_unit_test(heap_malloc_refuses_what_cannot_be),
      cmocka_unit_test(heap_reallocf_frees_on_failure),
      cmocka_unit_test(heap_realloc_keeps_what_it_must),
      cmocka_unit_test(heap_realloc_moves_into_the_heap),
      cmocka_unit_test(heap_plain_realloc_moves_to_the_default_heap),
      cmocka_unit_test(heap_malloc_huge_blocks),
      cmocka_unit_test(heap_strndup_reads_no_further),
      cmocka_unit_test(heap_strings),
      cmocka_unit_test(heap_alloc_new_does_not_return_null),
      cmocka_unit_test(heap_typed_macros),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
