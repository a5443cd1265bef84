// SPDX-License-Identifier: MIT
// glibc_names.c - the names of libc in a program linked with this library: they are ours, and do
// what glibc's manual says.
#if !defined(_GNU_SOURCE)
#define _GNU_SOURCE
#endif
#include "test_api.h"

#include <malloc.h>
#include <sys/stat.h>
#include <unistd.h>

#define WEAK __attribute__((weak))

// Not in all headers of libc. Weak, so that the program links with a build that does not replace
// malloc.
extern void cfree(void* p) WEAK;
extern void vfree(void* p) WEAK;
extern void* reallocf(void* p, size_t size) WEAK;
extern int reallocarr(void* p, size_t count, size_t size) WEAK;
extern size_t malloc_size(const void* p) WEAK;
extern size_t malloc_good_size(size_t size) WEAK;
extern void free_sized(void* p, size_t size) WEAK;
extern void free_aligned_sized(void* p, size_t alignment, size_t size) WEAK;
extern void* _aligned_malloc(size_t size, size_t alignment) WEAK;
extern void* __libc_malloc(size_t size) WEAK;
extern void* __libc_calloc(size_t count, size_t size) WEAK;
extern void* __libc_realloc(void* p, size_t size) WEAK;
extern void __libc_free(void* p) WEAK;
extern void __libc_cfree(void* p) WEAK;
extern void* __libc_valloc(size_t size) WEAK;
extern void* __libc_pvalloc(size_t size) WEAK;
extern void* __libc_memalign(size_t alignment, size_t size) WEAK;
extern int __posix_memalign(void** p, size_t alignment, size_t size) WEAK;

static void skip_unless_replaced(void) {
  if (!test_is_malloc_ours()) test_skip("malloc is not replaced");
}

// A block that `mi_usable_size` does not know would be another allocator's.
static void check_ours(void* p, size_t size) {
  assert_non_null(p);
  assert_true(mi_usable_size(p) >= size);
  memset(p, 0xCC, size);
}

// If this fails, part of a program runs on another allocator, and blocks meet the wrong free.
static void names_are_ours(void** state) {
  (void)state;
  skip_unless_replaced();
  void* p = malloc(100);
  check_ours(p, 100);
  free(p);
  p = calloc(10, 10);
  check_ours(p, 100);
  p = realloc(p, 1000);
  check_ours(p, 1000);
  p = reallocarray(p, 20, 100);
  check_ours(p, 2000);
  p = reallocf(p, 300);
  check_ours(p, 300);
  free(p);
  p = strdup("text");
  check_ours(p, 5);
  cfree(p);
  p = strndup("text", 2);
  check_ours(p, 3);
  vfree(p);
  p = memalign(64, 100);
  check_ours(p, 100);
  free_sized(p, 100);
  p = aligned_alloc(64, 128);
  check_ours(p, 128);
  free_aligned_sized(p, 64, 128);
  p = valloc(100);
  check_ours(p, 100);
  free(p);
  p = pvalloc(100);
  check_ours(p, 4096);
  free(p);
  p = _aligned_malloc(100, 64);
  check_ours(p, 100);
  assert_int_equal(malloc_usable_size(p), mi_usable_size(p));
  assert_int_equal(malloc_size(p), mi_usable_size(p));
  free(p);
  assert_int_equal(malloc_good_size(100), mi_good_size(100));
  p = NULL;
  assert_int_equal(reallocarr(&p, 10, 10), 0);
  check_ours(p, 100);
  free(p);
  assert_int_equal(posix_memalign(&p, 128, 100), 0);
  check_ours(p, 100);
  free(p);
}

// If this fails, parts of libc and programs that use its internal names mix two allocators.
static void internal_names_are_ours(void** state) {
  (void)state;
  skip_unless_replaced();
  void* p = __libc_malloc(100);
  check_ours(p, 100);
  p = __libc_realloc(p, 200);
  check_ours(p, 200);
  __libc_free(p);
  p = __libc_calloc(10, 10);
  check_ours(p, 100);
  __libc_cfree(p);
  p = __libc_valloc(10);
  check_ours(p, 10);
  __libc_free(p);
  p = __libc_pvalloc(10);
  check_ours(p, 4096);
  __libc_free(p);
  p = __libc_memalign(256, 10);
  check_ours(p, 10);
  assert_true(test_is_aligned(p, 256));
  __libc_free(p);
  assert_int_equal(__posix_memalign(&p, 64, 10), 0);
  check_ours(p, 10);
  free(p);
}

// If this fails, blocks that libc allocates for the program, as getline and asprintf do, cannot
// be freed.
static void libc_allocates_from_us(void** state) {
  (void)state;
  skip_unless_replaced();
  char* text = NULL;
  assert_true(asprintf(&text, "%d and %s", 42, "more") > 0);
  assert_true(mi_usable_size(text) > 0);
  free(text);
  FILE* const file = fopen("/proc/self/status", "r");
  assert_non_null(file);
  char* line = NULL;
  size_t size = 0;
  assert_true(getline(&line, &size, file) > 0);
  assert_true(mi_usable_size(line) >= size);
  free(line);
  fclose(file);
  char* const path = realpath("/", NULL);
  assert_non_null(path);
  assert_true(mi_usable_size(path) > 0);
  free(path);
}

// If this fails, programs that look at errno after a failed call misunderstand what happened.
static void failures_set_errno_as_documented(void** state) {
  (void)state;
  skip_unless_replaced();
  const size_t huge = test_opaque(SIZE_MAX - 100);
  char* const p = (char*)malloc(10);
  assert_non_null(p);
  strcpy(p, "kept");
#define FAILS_WITH(expression, code)                                                               \
  errno = 0;                                                                                       \
  assert_null(expression);                                                                         \
  assert_int_equal(errno, code)
  FAILS_WITH(malloc(huge), ENOMEM);
  FAILS_WITH(malloc(test_opaque((size_t)PTRDIFF_MAX + 1)), ENOMEM);
  FAILS_WITH(calloc(huge, 2), ENOMEM);
  FAILS_WITH(calloc(1, huge), ENOMEM);
  FAILS_WITH(realloc(test_opaque_pointer(p), huge), ENOMEM);
  FAILS_WITH(reallocarray(test_opaque_pointer(p), huge, 2), ENOMEM);
  FAILS_WITH(reallocarray(test_opaque_pointer(p), huge, 1), ENOMEM);
  FAILS_WITH(memalign(64, huge), ENOMEM);
  FAILS_WITH(aligned_alloc(64, huge), ENOMEM);
  FAILS_WITH(valloc(huge), ENOMEM);
  FAILS_WITH(pvalloc(huge), ENOMEM);
  void* q = p;
  errno = 0;
  assert_int_equal(posix_memalign(&q, 64, huge), ENOMEM);
  assert_int_equal(errno, ENOMEM);
  errno = 4711;
  assert_int_equal(posix_memalign(&q, test_opaque(24), 100), EINVAL);
  assert_int_equal(posix_memalign(&q, test_opaque(sizeof(void*) / 2), 100), EINVAL);
  assert_int_equal(errno, 4711);
  assert_ptr_equal(q, p);
  assert_string_equal(p, "kept");
  free(p);
  assert_int_equal(errno, 4711);
  errno = 0;
}

// If this fails, zero sizes, NULL and foreign pointers are treated differently from what programs
// expect.
static void edge_cases_are_as_documented(void** state) {
  (void)state;
  skip_unless_replaced();
  void* p = malloc(test_opaque(0));
  assert_non_null(p);
  free(p);
  p = calloc(test_opaque(0), 10);
  assert_non_null(p);
  free(p);
  free(NULL);
  p = realloc(NULL, 10);
  assert_non_null(p);
  free(p);
  int local = 0;
  assert_int_equal(malloc_usable_size(NULL), 0);
  assert_int_equal(malloc_usable_size(test_opaque_pointer(&local)), 0);
}

// If this fails, a program that ends a list by `realloc(p, 0)` leaks, or uses what it gave back.
static void realloc_to_nothing_does_as_libc(void** state) {
  (void)state;
  skip_unless_replaced();
  void* (*const resize[])(void*, size_t) = {&realloc, &__libc_realloc};
  for (size_t i = 0; i < 2; i++) {
    // Many of them: a block that is not freed would be missing in the end.
    const size_t before = mallinfo2().uordblks;
    for (size_t size = 1; size <= 100000; size = size * 3 + 1) {
      void* p = malloc(size);
      assert_non_null(p);
      errno = 0;
      p = resize[i](test_opaque_pointer(p), test_opaque(0));
      assert_null(p);
      assert_int_equal(errno, 0);
      p = resize[i](NULL, test_opaque(0)); // as malloc(0)
      assert_non_null(p);
      p = mi_realloc(p, test_opaque(0)); // ours is as it is documented
      assert_non_null(p);
      free(p);
    }
    assert_true(mallinfo2().uordblks <= before + 64);
  }
  void* const p = malloc(100);
  assert_null(reallocarray(test_opaque_pointer(p), 0, 10));
  void* const q = malloc(100);
  assert_null(reallocarray(test_opaque_pointer(q), 10, 0));
}

// If this fails, a program that asks for an alignment which is no power of two gets none.
static void memalign_rounds_as_libc(void** state) {
  (void)state;
  skip_unless_replaced();
  void* (*const align[])(size_t, size_t) = {&memalign, &aligned_alloc, &__libc_memalign};
  static const size_t pairs[][2] = {{0, 1},   {1, 1},     {3, 4},          {24, 32},
                                    {48, 64}, {100, 128}, {65537, 131072}, {3 << 20, 4 << 20}};
  for (size_t i = 0; i < 3; i++) {
    for (size_t k = 0; k < sizeof(pairs) / sizeof(pairs[0]); k++) {
      void* const p = align[i](test_opaque(pairs[k][0]), 100);
      check_ours(p, 100);
      assert_true(test_is_aligned(p, pairs[k][1]));
      free(p);
    }
    errno = 0;
    assert_null(align[i](test_opaque(SIZE_MAX / 2 + 2), 100)); // nothing to round it to
    assert_int_equal(errno, EINVAL);
  }
  errno = 0;
  assert_null(mi_memalign(test_opaque(48), 100));
  assert_int_equal(errno, EINVAL);
}

// If this fails, code that puts an object of 16 bytes alignment into a smaller block, or that tags
// the low bits of addresses, works with libc only.
static void every_block_is_aligned_for_any_type(void** state) {
  (void)state;
  skip_unless_replaced();
  enum { COUNT = 100 };
  static void* p[COUNT * 5];
  const size_t alignment = _Alignof(max_align_t);
  for (size_t size = 0; size <= 40; size++) {
    size_t count = 0;
    for (size_t i = 0; i < COUNT; i++) {
      p[count++] = malloc(test_opaque(size));
      p[count++] = calloc(1, test_opaque(size));
      p[count++] = realloc(NULL, test_opaque(size));
      p[count++] = realloc(malloc(test_opaque(100)), test_opaque(size + 1));
      p[count++] = memalign(2, test_opaque(size));
    }
    for (size_t i = 0; i < count; i++) {
      assert_non_null(p[i]);
      assert_true(test_is_aligned(p[i], alignment));
    }
    for (size_t i = 0; i < count; i++) free(p[i]);
  }
}

// If this fails, who wants the old ways cannot have them.
static void libc_semantics_can_be_turned_off(void** state) {
  (void)state;
  skip_unless_replaced();
  assert_int_equal(mi_option_get(mi_option_libc_semantics), 1);
  mi_option_disable(mi_option_libc_semantics);
  void* p = realloc(malloc(test_opaque(100)), test_opaque(0));
  assert_non_null(p);
  errno = 0;
  assert_null(memalign(test_opaque(48), 100));
  assert_int_equal(errno, EINVAL);
  errno = 0;
  void* q = p;
  assert_int_equal(posix_memalign(&q, 64, test_opaque(SIZE_MAX - 100)), ENOMEM);
  assert_int_equal(errno, 0);
  assert_ptr_equal(q, p);
  free(p);
  mi_option_enable(mi_option_libc_semantics);
}

// If this fails, a server that trims its heap when idle keeps the memory, or is told that it did
// not.
static void malloc_trim_gives_memory_back(void** state) {
  (void)state;
  skip_unless_replaced();
  enum { COUNT = 2000 };
  static char* p[COUNT];
  for (size_t i = 0; i < COUNT; i++) {
    p[i] = (char*)malloc(20000);
    assert_non_null(p[i]);
    memset(p[i], 1, 20000);
  }
  size_t before = 0;
  size_t after = 0;
  mi_process_info(NULL, NULL, NULL, &before, NULL, NULL, NULL, NULL);
  for (size_t i = 0; i < COUNT; i++) free(p[i]);
  assert_int_equal(malloc_trim(0), 1);
  mi_process_info(NULL, NULL, NULL, &after, NULL, NULL, NULL, NULL);
  assert_true(after + (size_t)COUNT * 20000 / 10 * 9 < before);
  assert_int_equal(malloc_trim(0), 0);
}

// If this fails, programs that watch their heap see figures that have nothing to do with it.
static void mallinfo_counts_what_is_in_use(void** state) {
  (void)state;
  test_skip_if_guarded("guarded blocks count as large");
  skip_unless_replaced();
  enum { COUNT = 1000 };
  static void* p[COUNT];
  const struct mallinfo2 before = mallinfo2();
  for (size_t i = 0; i < COUNT; i++) p[i] = malloc(1000);
  void* const large = malloc(40 * TEST_MIB);
  assert_non_null(large);
  const struct mallinfo2 during = mallinfo2();
  assert_true(during.uordblks >= before.uordblks + (size_t)COUNT * 1000);
  assert_true(during.uordblks <= before.uordblks + (size_t)COUNT * 1000 * 5 / 4);
  assert_true(during.hblks == before.hblks + 1);
  assert_true(during.hblkhd >= before.hblkhd + 40 * TEST_MIB);
  assert_true(during.arena >= during.uordblks);
  assert_true(during.fordblks == during.arena - during.uordblks);
  for (size_t i = 0; i < COUNT; i++) free(p[i]);
  free(large);
  const struct mallinfo2 after = mallinfo2();
  assert_true(after.uordblks + (size_t)COUNT * 1000 <= during.uordblks);
  assert_true(after.hblkhd == before.hblkhd);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
  const struct mallinfo small = mallinfo();
#pragma GCC diagnostic pop
  assert_true(small.uordblks > 0);
  assert_true(small.arena >= small.uordblks);
}

// If this fails, programs that tune malloc at their start give up.
static void mallopt_accepts_what_glibc_does(void** state) {
  (void)state;
  skip_unless_replaced();
  const int known[] = {M_MXFAST,       M_TRIM_THRESHOLD, M_TOP_PAD,    M_MMAP_THRESHOLD, M_MMAP_MAX,
                       M_CHECK_ACTION, M_PERTURB,        M_ARENA_TEST, M_ARENA_MAX};
  for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
    assert_int_equal(mallopt(known[i], 64), 1);
  }
  assert_int_equal(mallopt(12345, 1), 1);
  assert_int_equal(mallopt(M_MXFAST, (int)(80 * sizeof(size_t) / 4)), 1);
  assert_int_equal(mallopt(M_MXFAST, (int)(80 * sizeof(size_t) / 4) + 1), 0);
  assert_int_equal(mallopt(M_MXFAST, -1), 0);
}

// If this fails, monitoring that reads the XML of malloc_info breaks.
static void malloc_info_writes_xml(void** state) {
  (void)state;
  skip_unless_replaced();
  char* text = NULL;
  size_t size = 0;
  FILE* const file = open_memstream(&text, &size);
  assert_non_null(file);
  assert_int_equal(malloc_info(1, file), EINVAL);
  assert_int_equal(malloc_info(0, file), 0);
  fclose(file);
  assert_int_equal(strncmp(text, "<malloc version=\"1\">\n<heap nr=\"0\">\n", 35), 0);
  assert_non_null(strstr(text, "<system type=\"current\" size=\""));
  assert_non_null(strstr(text, "<total type=\"mmap\" count=\""));
  assert_string_equal(text + size - strlen("</malloc>\n"), "</malloc>\n");
  size_t open_tags = 0;
  size_t close_tags = 0;
  for (const char* s = text; *s != 0; s++) {
    if (*s == '<' && s[1] != '/') open_tags++;
    if ((*s == '<' && s[1] == '/') || (*s == '/' && s[1] == '>')) close_tags++;
  }
  assert_int_equal(open_tags, close_tags);
  free(text);
}

// If this fails, malloc_stats prints nothing, or not to standard error.
static void malloc_stats_prints(void** state) {
  (void)state;
  skip_unless_replaced();
  int ends[2];
  assert_int_equal(pipe(ends), 0);
  const int saved = dup(STDERR_FILENO);
  assert_true(saved >= 0);
  dup2(ends[1], STDERR_FILENO);
  malloc_stats();
  dup2(saved, STDERR_FILENO);
  close(saved);
  close(ends[1]);
  char text[4096];
  const ssize_t length = read(ends[0], text, sizeof(text) - 1);
  close(ends[0]);
  assert_true(length > 0);
  text[length] = 0;
  assert_non_null(strstr(text, "Arena 0:\nsystem bytes     = "));
  assert_non_null(strstr(text, "\nin use bytes     = "));
  assert_non_null(strstr(text, "\nmax mmap bytes   = "));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(names_are_ours),
      cmocka_unit_test(internal_names_are_ours),
      cmocka_unit_test(libc_allocates_from_us),
      cmocka_unit_test(failures_set_errno_as_documented),
      cmocka_unit_test(edge_cases_are_as_documented),
      cmocka_unit_test(realloc_to_nothing_does_as_libc),
      cmocka_unit_test(memalign_rounds_as_libc),
      cmocka_unit_test(every_block_is_aligned_for_any_type),
      cmocka_unit_test(libc_semantics_can_be_turned_off),
      cmocka_unit_test(malloc_trim_gives_memory_back),
      cmocka_unit_test(mallinfo_counts_what_is_in_use),
      cmocka_unit_test(mallopt_accepts_what_glibc_does),
      cmocka_unit_test(malloc_info_writes_xml),
      cmocka_unit_test(malloc_stats_prints),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
