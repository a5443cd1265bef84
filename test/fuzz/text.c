// SPDX-License-Identifier: MIT
// text.c - fuzz target: printing (src/base/text.c) against snprintf, into buffers of every size:
// what does not fit is cut, and nothing is written behind the end.
#include "base/text.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "fuzz.h"

#define FORMAT_MAX 24
#define TEXT_MAX 40

// One conversion that both know, with flags and width; returns what it converts.
static char draw_conversion(fuzz_input_t* in, char* format) {
  static const char* const kinds[] = {"d", "ld", "zd", "u", "zu", "x", "zx", "s", "c", "p", "%"};
  const char* const kind = kinds[fuzz_below(in, sizeof(kinds) / sizeof(kinds[0]))];
  const size_t width = fuzz_below(in, 40);
  const bool has_width = width > 0 && kind[0] != '%';
  const char* const flag = has_width && fuzz_below(in, 2) == 0 ? "-" : "";
  if (has_width) {
    snprintf(format, FORMAT_MAX, "<%%%s%zu%s>", flag, width, kind);
  } else {
    snprintf(format, FORMAT_MAX, "<%%%s>", kind);
  }
  return kind[0] == 'l' || kind[0] == 'z' ? (char)toupper(kind[1]) : kind[0];
}

// The same arguments to both. The format is ours: there is no literal for a compiler to check.
#pragma clang diagnostic ignored "-Wformat-nonliteral"
#pragma clang diagnostic ignored "-Wformat-security"
#define BOTH(...)                                                                                  \
  do {                                                                                             \
    expected_length = (size_t)snprintf(expected, sizeof(expected), format, __VA_ARGS__);           \
    length = mi_text_format(buffer, capacity, format, __VA_ARGS__);                                \
  } while (0)

static void check_format(fuzz_input_t* in) {
  char format[FORMAT_MAX];
  char expected[256];
  char word[TEXT_MAX];
  const char kind = draw_conversion(in, format);
  const size_t capacity = 1 + fuzz_below(in, 100);
  char* const buffer = (char*)malloc(capacity); // the sanitizer knows where it ends
  size_t length = 0;
  size_t expected_length = 0;
  const uint64_t x = fuzz_size(in, 64);
  size_t n = fuzz_below(in, TEXT_MAX);
  for (size_t i = 0; i < n; i++) word[i] = (char)(fuzz_byte(in) | 1);
  word[n] = 0;
  switch (kind) {
    case 'd':
      BOTH((int)x);
      break;
    case 'u':
    case 'x':
      BOTH((unsigned)x);
      break;
    case 's':
      BOTH((const char*)word);
      break;
    case 'c':
      BOTH((int)((x & 127) | 1));
      break;
    case 'p':
      BOTH((void*)(uintptr_t)(x | 1)); // of NULL libc says "(nil)"
      break;
    default:
      BOTH((size_t)x);
      break;
  }
  CHECK(length == (expected_length < capacity ? expected_length : capacity - 1));
  CHECK(memcmp(buffer, expected, length) == 0 && buffer[length] == 0);
  free(buffer);
}

static void check_append(fuzz_input_t* in) {
  const size_t capacity = 1 + fuzz_below(in, 64);
  char* const buffer = (char*)malloc(capacity);
  char expected[256] = "";
  size_t used = 0;
  buffer[0] = 0;
  for (size_t i = fuzz_below(in, 6); i > 0; i--) {
    char word[TEXT_MAX];
    const size_t n = fuzz_below(in, TEXT_MAX);
    for (size_t k = 0; k < n; k++) word[k] = (char)(fuzz_byte(in) | 1);
    word[n] = 0;
    used = mi_text_append(buffer, capacity, used, word);
    strcat(expected, word);
    expected[capacity - 1] = 0;
    CHECK(used == strlen(expected) && strcmp(buffer, expected) == 0);
    CHECK(mi_text_length(word) == n);
  }
  free(buffer);
}

static void check_compare(fuzz_input_t* in) {
  char a[16];
  char b[16];
  const size_t n = fuzz_below(in, sizeof(a));
  for (size_t i = 0; i < n; i++) {
    a[i] = (char)(fuzz_byte(in) & 127);
    b[i] = fuzz_below(in, 4) == 0 ? (char)(fuzz_byte(in) & 127)
                                  : (char)(a[i] ^ (isalpha(a[i]) ? 32 : 0));
    CHECK(mi_text_upper(a[i]) == toupper(a[i]));
  }
  a[n] = b[n] = 0;
  const size_t length = fuzz_below(in, 20);
  CHECK(mi_text_equal_nocase(a, b, length) == (strncasecmp(a, b, length) == 0));
}

// Whatever a format says, nothing is written behind the end, and no argument is taken that is not
// there: the conversions with one are left out.
static void check_any_format(fuzz_input_t* in) {
  char format[FORMAT_MAX];
  const size_t n = fuzz_below(in, FORMAT_MAX);
  for (size_t i = 0; i < n; i++) {
    format[i] = (char)(fuzz_byte(in) | 1);
    if (strchr("duxscp", format[i]) != NULL) format[i] = 'k';
    if (isdigit(format[i]) && i > 2 && isdigit(format[i - 1])) format[i] = '-'; // no width of pages
  }
  format[n] = 0;
  const size_t capacity = 1 + fuzz_below(in, 64);
  char* const buffer = (char*)malloc(capacity);
  const size_t length = mi_text_format(buffer, capacity, format);
  CHECK(length < capacity && strlen(buffer) == length);
  free(buffer);
}

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  fuzz_input_t in = fuzz_open(data, size);
  while (!fuzz_is_done(&in)) {
    switch (fuzz_below(&in, 4)) {
      case 0:
        check_append(&in);
        break;
      case 1:
        check_compare(&in);
        break;
      case 2:
        check_any_format(&in);
        break;
      default:
        check_format(&in);
        break;
    }
  }
  return 0;
}
