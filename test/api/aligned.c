// SPDX-License-Identifier: MIT
// aligned.c - blocks at aligned addresses, and at addresses a given offset away from one.
#include "test_api.h"

#if defined(__x86_64__)
#define ALIGNMENT_MAX TEST_GIB
#elif __SIZEOF_POINTER__ == 4
#define ALIGNMENT_MAX (16 * TEST_MIB) // an emulator has a part of the addresses
#else
#define ALIGNMENT_MAX (64 * TEST_MIB) // an emulator lists all pages that are mapped for a moment
#endif

static const size_t sizes[] = {0,   1,    7,    8,    15,   16,   17,    48,    100,
                               128, 1000, 1024, 4095, 4096, 5000, 65536, 70001, 1048577};
#define SIZE_COUNT (sizeof(sizes) / sizeof(sizes[0]))

static void check_block(unsigned char* p, size_t size, size_t alignment, size_t offset) {
  assert_non_null(p);
  assert_true(test_is_aligned(p + offset, alignment));
  assert_true(mi_usable_size(p) >= size);
  memset(p, 0x5A, size);
}

// If this fails, a program that needs an alignment (vector code, caches, devices) crashes.
static void aligned_all_alignments_and_sizes(void** state) {
  (void)state;
  for (size_t alignment = 1; alignment <= ALIGNMENT_MAX; alignment *= 2) {
    unsigned char* p[SIZE_COUNT];
    for (size_t i = 0; i < SIZE_COUNT; i++) {
      p[i] = (unsigned char*)mi_malloc_aligned(sizes[i], alignment);
      check_block(p[i], sizes[i], alignment, 0);
    }
    for (size_t i = 0; i < SIZE_COUNT; i++) {
      assert_true(test_is_filled(p[i], sizes[i], 0x5A));
      mi_free(p[i]);
    }
  }
}

// If this fails, objects with a header in front of aligned data get it at the wrong place, or
// cannot be freed.
static void aligned_at_all_offsets(void** state) {
  (void)state;
  const size_t offsets[] = {0, 1, 8, 16, 24, 100, 4096, 65536, 100000};
  for (size_t alignment = 1; alignment <= ALIGNMENT_MAX; alignment *= 4) {
    for (size_t k = 0; k < sizeof(offsets) / sizeof(offsets[0]); k++) {
      unsigned char* p[SIZE_COUNT];
      for (size_t i = 0; i < SIZE_COUNT; i++) {
        p[i] = (unsigned char*)mi_malloc_aligned_at(sizes[i], alignment, offsets[k]);
        check_block(p[i], sizes[i], alignment, offsets[k]);
      }
      for (size_t i = 0; i < SIZE_COUNT; i++) {
        const size_t j = (i * 7 + 3) % SIZE_COUNT;
        assert_true(test_is_filled(p[j], sizes[j], 0x5A));
        mi_free(p[j]);
      }
    }
  }
}

// If this fails, aligned blocks among ordinary ones are handed out twice.
static void aligned_blocks_do_not_overlap(void** state) {
  (void)state;
  enum { COUNT = 3000 };
  static unsigned char* p[COUNT];
  static size_t size[COUNT];
  uint64_t random = 5;
  for (size_t round = 0; round < 4; round++) {
    for (size_t i = 0; i < COUNT; i++) {
      const size_t alignment = (size_t)1 << random_below(&random, 13);
      size[i] = random_size(&random, 12);
      const size_t offset = i % 3 == 0 ? random_size(&random, 10) : 0;
      p[i] = (unsigned char*)(i % 5 == 0 ? mi_malloc(size[i])
                                         : mi_malloc_aligned_at(size[i], alignment, offset));
      assert_non_null(p[i]);
      memset(p[i], (int)(i % 253), size[i]);
    }
    for (size_t i = 0; i < COUNT; i++) {
      assert_true(test_is_filled(p[i], size[i], (unsigned char)(i % 253)));
      mi_free(p[i]);
    }
  }
}

// If this fails, the program uses memory behind the block, or is told of less than it asked for.
static void aligned_usable_size_can_be_used(void** state) {
  (void)state;
  for (size_t alignment = 8; alignment <= 65536; alignment *= 2) {
    unsigned char* p[64];
    for (size_t i = 0; i < 64; i++) {
      p[i] = (unsigned char*)mi_malloc_aligned_at(i * 17, alignment, i);
      assert_non_null(p[i]);
      memset(p[i], (int)i, mi_usable_size(p[i]));
    }
    for (size_t i = 0; i < 64; i++) {
      assert_true(test_is_filled(p[i], mi_usable_size(p[i]), (unsigned char)i));
      mi_free(p[i]);
    }
  }
}

// If this fails, resizing an aligned object loses its alignment or its contents.
static void realloc_aligned_keeps_alignment_and_contents(void** state) {
  (void)state;
  for (size_t alignment = 1; alignment <= TEST_MIB; alignment *= 2) {
    for (size_t offset = 0; offset <= 48; offset += 24) {
      size_t size = 10;
      unsigned char* p = (unsigned char*)mi_realloc_aligned_at(NULL, size, alignment, offset);
      check_block(p, size, alignment, offset);
      while (size < 300000) {
        const size_t larger = size * 2 + 11;
        p = (unsigned char*)(offset == 0 ? mi_realloc_aligned(p, larger, alignment)
                                         : mi_realloc_aligned_at(p, larger, alignment, offset));
        assert_non_null(p);
        assert_true(test_is_filled(p, size, 0x5A));
        check_block(p, larger, alignment, offset);
        size = larger;
      }
      p = (unsigned char*)mi_realloc_aligned_at(p, 33, alignment, offset);
      assert_non_null(p);
      assert_true(test_is_aligned(p + offset, alignment));
      assert_true(test_is_filled(p, 33, 0x5A));
      p = (unsigned char*)mi_realloc_aligned_at(p, 0, alignment, offset);
      assert_non_null(p);
      mi_free(p);
    }
  }
}

// If this fails, an ordinary object that is to become aligned is not, or loses its contents.
static void realloc_aligned_moves_an_unaligned_block(void** state) {
  (void)state;
  for (size_t i = 0; i < 100; i++) {
    unsigned char* p = (unsigned char*)mi_malloc(100 + i);
    assert_non_null(p);
    memset(p, 0x77, 100 + i);
    p = (unsigned char*)mi_realloc_aligned(p, 100 + i, 4096);
    assert_non_null(p);
    assert_true(test_is_aligned(p, 4096));
    assert_true(test_is_filled(p, 100 + i, 0x77));
    mi_free(p);
  }
}

// If this fails, a wrong alignment gives a block that is not aligned, instead of an error.
static void aligned_refuses_what_is_no_power_of_two(void** state) {
  (void)state;
  const size_t wrong[] = {0, 3, 5, 6, 7, 12, 24, 48, 100, 4097, SIZE_MAX, SIZE_MAX / 2};
  for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
    const size_t alignment = test_opaque(wrong[i]);
    errno = 0;
    assert_null(mi_malloc_aligned(10, alignment));
    assert_int_equal(errno, EINVAL);
    assert_null(mi_zalloc_aligned(10, alignment));
    assert_null(mi_calloc_aligned(1, 10, alignment));
    assert_null(mi_malloc_aligned_at(10, alignment, 4));
    assert_null(mi_umalloc_aligned(10, alignment, NULL));
  }
  char* const p = (char*)mi_malloc(10);
  assert_non_null(p);
  strcpy(p, "still");
  assert_null(mi_realloc_aligned(p, 1000, test_opaque(24)));
  assert_string_equal(p, "still");
  mi_free(p);
}

// If this fails, an aligned request of an impossible size is met with a small block.
static void aligned_refuses_what_is_too_large(void** state) {
  (void)state;
  for (size_t alignment = 1; alignment <= ALIGNMENT_MAX; alignment *= 8) {
    errno = 0;
    assert_null(mi_malloc_aligned(test_opaque(SIZE_MAX), alignment));
    assert_int_equal(errno, ENOMEM);
    assert_null(mi_malloc_aligned(test_opaque((size_t)PTRDIFF_MAX), alignment));
    assert_null(mi_zalloc_aligned(test_opaque(SIZE_MAX - alignment + 1), alignment));
    assert_null(mi_malloc_aligned_at(test_opaque(SIZE_MAX - 100), alignment, 50));
  }
  assert_null(mi_malloc_aligned(10, test_opaque(SIZE_MAX / 2 + 1)));
}

// If this fails, an offset beyond the object, which is allowed, is refused or ignored.
static void aligned_offset_may_exceed_the_size(void** state) {
  (void)state;
  const size_t offsets[] = {100, 1000, 123456, SIZE_MAX, SIZE_MAX - 63, SIZE_MAX / 4 + 1};
  for (size_t i = 0; i < sizeof(offsets) / sizeof(offsets[0]); i++) {
    unsigned char* const p = (unsigned char*)mi_malloc_aligned_at(16, 64, offsets[i]);
    assert_non_null(p);
    assert_int_equal(((uintptr_t)p + offsets[i]) % 64, 0);
    mi_free(p);
  }
}

// If this fails, a block that was aligned at an offset stays where it is, although the program, and
// the compiler, count on another alignment.
static void realloc_aligned_aligns_a_block_at_an_offset(void** state) {
  (void)state;
  for (size_t alignment = 2; alignment <= 8; alignment *= 2) {
    for (size_t offset = 1; offset < 16; offset++) {
      unsigned char* p = (unsigned char*)mi_malloc_aligned_at(100, 16, offset);
      assert_non_null(p);
      memset(p, 7, 100);
      p = (unsigned char*)test_opaque_pointer(mi_realloc_aligned(p, 100, test_opaque(alignment)));
      assert_int_equal((uintptr_t)p % alignment, 0);
      assert_true(p[0] == 7 && p[99] == 7);
      mi_free(p);
    }
  }
}

static void count_error(int err, void* count) {
  (void)err;
  ++*(int*)count;
}

// If this fails, a debug build takes its own link in a freed block for a write of the program.
static void aligned_at_an_odd_offset_of_a_slice(void** state) {
  (void)state;
  int errors = 0;
  mi_register_error(&count_error, &errors);
  for (size_t shift = 0; shift < 20; shift++) {
    for (int i = 0; i < 3; i++) {
      char* const p = (char*)mi_malloc_aligned_at(100, 65536, 65536 - shift);
      assert_non_null(p);
      p[0] = 1;
      mi_free(test_opaque_pointer(p));
    }
  }
  mi_collect(true);
  mi_register_error(NULL, NULL);
  assert_int_equal(errors, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(aligned_all_alignments_and_sizes),
      cmocka_unit_test(aligned_at_all_offsets),
      cmocka_unit_test(aligned_blocks_do_not_overlap),
      cmocka_unit_test(aligned_usable_size_can_be_used),
      cmocka_unit_test(realloc_aligned_keeps_alignment_and_contents),
      cmocka_unit_test(realloc_aligned_moves_an_unaligned_block),
      cmocka_unit_test(aligned_refuses_what_is_no_power_of_two),
      cmocka_unit_test(aligned_refuses_what_is_too_large),
      cmocka_unit_test(aligned_offset_may_exceed_the_size),
      cmocka_unit_test(realloc_aligned_aligns_a_block_at_an_offset),
      cmocka_unit_test(aligned_at_an_odd_offset_of_a_slice),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
