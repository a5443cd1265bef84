// SPDX-License-Identifier: MIT
// text.c - tests of src/base/text.c.
#include "unit.h"

#include <limits.h>

#include "base/text.h"

static void check_format(const char* expected, const char* format, ...) {
  char buffer[256];
  va_list args;
  va_start(args, format);
  const size_t length = mi_text_vformat(buffer, sizeof(buffer), format, args);
  va_end(args);
  if (strcmp(buffer, expected) != 0) fprintf(stderr, "\"%s\" is not \"%s\"\n", buffer, expected);
  check(strcmp(buffer, expected) == 0);
  check_equal(length, strlen(expected));
}

// If this fails, messages and statistics show wrong numbers.
UNIT_TEST(text_formats_all_kinds) {
  check_format("a 5 b", "a %d b", 5);
  check_format("-2147483648", "%d", INT_MIN);
  check_format("-9223372036854775808", "%ld", LONG_MIN);
  check_format("9223372036854775807", "%ld", LONG_MAX);
  check_format("18446744073709551615", "%zu", SIZE_MAX);
  check_format("-1", "%zd", (ptrdiff_t)-1);
  check_format("-9223372036854775808 -2", "%lld %ld", LLONG_MIN, -2L);
  check_format("ffffffffffffffff", "%zx", SIZE_MAX);
  check_format("ff 4294967295", "%x %u", 255U, UINT_MAX);
  check_format("0x1234abcd", "%p", (void*)(uintptr_t)0x1234ABCD);
  check_format("0x0", "%p", NULL);
  check_format("0xffffffffffffffff", "%p", (void*)UINTPTR_MAX);
  check_format("x(null)%", "%c%s%%", 'x', NULL);
  check_format("", "%s", "");
}

// If this fails, tables of statistics are not aligned.
UNIT_TEST(text_pads_to_width) {
  check_format("[   42]", "[%5d]", 42);
  check_format("[42   ]", "[%-5d]", 42);
  check_format("[abcdef]", "[%3s]", "abcdef");
  check_format("[ab ]", "[%-3s]", "ab");
  check_format("[          7]", "[%11zu]", (size_t)7);
}

// If this fails, a long message writes behind its buffer.
UNIT_TEST(text_is_cut_at_the_end) {
  char buffer[16];
  for (size_t capacity = 1; capacity < 12; capacity++) {
    memset(buffer, 'X', sizeof(buffer));
    const size_t length = mi_text_format(buffer, capacity, "%s%8d%p", "ab", 7, (void*)buffer);
    check_equal(length, capacity - 1);
    check(buffer[capacity - 1] == 0);
    for (size_t i = capacity; i < sizeof(buffer); i++) check(buffer[i] == 'X');
  }
  memset(buffer, 'X', sizeof(buffer));
  size_t used = mi_text_append(buffer, 8, 0, "abc");
  used = mi_text_append(buffer, 8, used, "defghijk");
  check_equal(used, 7);
  check(strcmp(buffer, "abcdefg") == 0 && buffer[8] == 'X');
}

// If this fails, a number in a message differs from what it is.
UNIT_TEST(text_agrees_with_libc) {
  uint64_t random = 3;
  for (size_t i = 0; i < 20000; i++) {
    const size_t x = (size_t)(random_next(&random) >> random_below(&random, 64));
    char expected[128];
    snprintf(expected, sizeof(expected), "%zu|%zx|%ld|%d|%-9x|%12d", x, x, (long)x, (int)x,
             (unsigned)x, (int)x);
    check_format(expected, "%zu|%zx|%ld|%d|%-9x|%12d", x, x, (long)x, (int)x, (unsigned)x, (int)x);
  }
}

// If this fails, an environment variable in lower case is not found, or a wrong one is.
UNIT_TEST(text_compares_without_case) {
  check(mi_text_equal_nocase("MIMALLOC_Verbose", "mimalloc_verbose", 16));
  check(mi_text_equal_nocase("abc", "ABD", 2));
  check(!mi_text_equal_nocase("abc", "ABD", 3));
  check(mi_text_equal_nocase("abc", "abc", 100));
  check(!mi_text_equal_nocase("abc", "abcd", 4));
  check(!mi_text_equal_nocase("a[", "a{", 2));
  check(mi_text_upper('z') == 'Z' && mi_text_upper('{') == '{' && mi_text_upper('A') == 'A');
  check_equal(mi_text_length("abc"), 3);
  check_equal(mi_text_length(""), 0);
}

// If this fails, a format that ends in the middle reads behind its end.
UNIT_TEST(text_survives_a_bad_format) {
  const char* const formats[] = {"abc%", "abc%5", "abc%-", "abc%l", "abc%k"};
  for (size_t i = 0; i < sizeof(formats) / sizeof(formats[0]); i++) {
    char buffer[32];
    va_list none;
    memset(&none, 0, sizeof(none));
    const size_t length = mi_text_vformat(buffer, sizeof(buffer), formats[i], none);
    check(length >= 3 && memcmp(buffer, "abc", 3) == 0 && buffer[length] == 0);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(text_formats_all_kinds),     cmocka_unit_test(text_pads_to_width),
      cmocka_unit_test(text_is_cut_at_the_end),     cmocka_unit_test(text_agrees_with_libc),
      cmocka_unit_test(text_compares_without_case), cmocka_unit_test(text_survives_a_bad_format),
  };
  return cmocka_run_group_tests_name("text", tests, NULL, NULL);
}
