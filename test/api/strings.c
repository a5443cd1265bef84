// SPDX-License-Identifier: MIT
// strings.c - copies of strings, paths and environment values.
#if !defined(_GNU_SOURCE)
#define _GNU_SOURCE // setenv, MAP_ANONYMOUS
#endif
#include "test_api.h"

#include <sys/mman.h>
#include <unistd.h>
#include <wchar.h>

// If this fails, copied text is cut or has garbage at its end.
static void strdup_copies(void** state) {
  (void)state;
  static char text[5000];
  for (size_t length = 0; length < sizeof(text); length = length * 2 + 1) {
    memset(text, 'x', length);
    text[length] = 0;
    char* const copy = mi_strdup(text);
    assert_non_null(copy);
    assert_string_equal(copy, text);
    assert_ptr_not_equal(copy, text);
    assert_true(mi_usable_size(copy) > length);
    mi_free(copy);
  }
  assert_null(mi_strdup(NULL));
  unsigned char* const bytes = mi_mbsdup((const unsigned char*)"\xC3\xA4");
  assert_non_null(bytes);
  assert_string_equal((char*)bytes, "\xC3\xA4");
  mi_free(bytes);
  assert_null(mi_mbsdup(NULL));
}

// If this fails, copying the start of a text that has no end reads past it and crashes.
static void strndup_reads_no_further(void** state) {
  (void)state;
  const size_t page = (size_t)sysconf(_SC_PAGESIZE);
  char* const two =
      (char*)mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  assert_ptr_not_equal(two, MAP_FAILED);
  assert_int_equal(mprotect(two + page, page, PROT_NONE), 0);
  memset(two, 'y', page);
  for (size_t n = 0; n <= 100; n++) {
    char* const copy = mi_strndup(two + page - n, n);
    assert_non_null(copy);
    assert_int_equal(strlen(copy), n);
    assert_int_equal(strspn(copy, "y"), n);
    mi_free(copy);
  }
  munmap(two, 2 * page);
  char* const shorter = mi_strndup("abc", 100);
  assert_non_null(shorter);
  assert_string_equal(shorter, "abc");
  mi_free(shorter);
  char* const all = mi_strndup("abc", SIZE_MAX);
  assert_non_null(all);
  assert_string_equal(all, "abc");
  mi_free(all);
  assert_null(mi_strndup(NULL, 10));
}

// If this fails, wide text is copied in part.
static void wcsdup_copies(void** state) {
  (void)state;
  wchar_t* const copy = mi_wcsdup(L"wide text");
  assert_non_null(copy);
  assert_int_equal(wcscmp(copy, L"wide text"), 0);
  mi_free(copy);
  assert_null(mi_wcsdup(NULL));
}

// If this fails, programs cannot find out where a file really is.
static void realpath_resolves(void** state) {
  (void)state;
  char* const root = mi_realpath("/usr/..", NULL);
  assert_non_null(root);
  assert_string_equal(root, "/");
  mi_free(root);
  char buffer[4096];
  assert_ptr_equal(mi_realpath("/.", buffer), buffer);
  assert_string_equal(buffer, "/");
  errno = 0;
  assert_null(mi_realpath("/there/is/no/such/file", NULL));
  assert_int_equal(errno, ENOENT);
}

// If this fails, programs written for Windows read their settings wrongly.
static void dupenv_copies_a_variable(void** state) {
  (void)state;
  assert_int_equal(setenv("TEST_DUPENV", "some value", 1), 0);
  char* buffer = NULL;
  size_t size = 99;
  assert_int_equal(mi_dupenv_s(&buffer, &size, "TEST_DUPENV"), 0);
  assert_string_equal(buffer, "some value");
  assert_int_equal(size, sizeof("some value"));
  mi_free(buffer);
  assert_int_equal(mi_dupenv_s(&buffer, NULL, "TEST_DUPENV_MISSING"), 0);
  assert_null(buffer);
  assert_int_equal(mi_dupenv_s(&buffer, &size, "TEST_DUPENV_MISSING"), 0);
  assert_int_equal(size, 0);
  assert_int_equal(mi_dupenv_s(NULL, &size, "TEST_DUPENV"), EINVAL);
  assert_int_equal(mi_dupenv_s(&buffer, &size, NULL), EINVAL);
  wchar_t* wide = (wchar_t*)&size;
  assert_int_equal(mi_wdupenv_s(&wide, &size, NULL), EINVAL);
  assert_null(wide);
#if !defined(_WIN32) // tidy: allow os-macro (there is such an environment)
  assert_int_equal(mi_wdupenv_s(&wide, &size, L"TEST_DUPENV"), EINVAL);
  assert_null(wide);
#endif
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(strdup_copies),
      cmocka_unit_test(strndup_reads_no_further),
      cmocka_unit_test(wcsdup_copies),
      cmocka_unit_test(realpath_resolves),
      cmocka_unit_test(dupenv_copies_a_variable),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
