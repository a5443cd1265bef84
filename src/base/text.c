// SPDX-License-Identifier: MIT
// text.c - see text.h. No state; buffers belong to the caller.
//
// TEXT-1  a buffer of capacity n > 0 holds at most n - 1 characters and a terminating zero.
#include "text.h"

MI_INTERNAL size_t mi_text_length(const char* s) {
  size_t n = 0;
  while (s[n] != 0) n++;
  return n;
}

MI_INTERNAL char mi_text_upper(char c) {
  return (c >= 'a' && c <= 'z') ? (char)(c - 'a' + 'A') : c;
}

MI_INTERNAL bool mi_text_equal_nocase(const char* a, const char* b, size_t length) {
  for (size_t i = 0; i < length; i++) {
    if (mi_text_upper(a[i]) != mi_text_upper(b[i])) return false;
    if (a[i] == 0) return true;
  }
  return true;
}

MI_INTERNAL size_t mi_text_append(char* buffer, size_t capacity, size_t used, const char* s) {
  while (*s != 0 && used + 1 < capacity) buffer[used++] = *s++;
  buffer[used] = 0;
  return used;
}

// Write the digits of `x`, most significant first, to the end of `digits`; returns the first one.
static char* mi_text_number(char digits[24], uint64_t x, unsigned base) {
  char* p = digits + 23;
  *p = 0;
  do {
    *--p = "0123456789abcdef"[x % base];
    x /= base;
  } while (x != 0);
  return p;
}

static size_t mi_text_pad(char* buffer, size_t capacity, size_t used, size_t count) {
  while (count-- > 0) used = mi_text_append(buffer, capacity, used, " ");
  return used;
}

// Fetches the argument of %d. A modifier of two letters is given as 'q'.
static int64_t mi_text_integer(char modifier, va_list* args) {
  switch (modifier) {
    case 'l':
      return va_arg(*args, long);
    case 'q':
      return va_arg(*args, long long);
    case 'z':
      return va_arg(*args, ptrdiff_t);
    default:
      return va_arg(*args, int);
  }
}

// Fetches the argument of one conversion as text; `digits` is scratch space.
static const char* mi_text_argument(char conversion, char modifier, char digits[24],
                                    va_list* args) {
  switch (conversion) {
    case 's': {
      const char* const s = va_arg(*args, const char*);
      return s == NULL ? "(null)" : s;
    }
    case 'c':
      digits[0] = (char)va_arg(*args, int);
      digits[1] = 0;
      return digits;
    case 'p': {
      // There is always room: at most 16 digits.
      char* const start = mi_text_number(digits, (uintptr_t)va_arg(*args, void*), 16) - 2;
      start[0] = '0';
      start[1] = 'x';
      return start;
    }
    case 'u':
    case 'x': {
      const uint64_t x = modifier == 0 ? va_arg(*args, unsigned) : va_arg(*args, size_t);
      return mi_text_number(digits, x, conversion == 'x' ? 16 : 10);
    }
    case 'd': {
      const int64_t x = mi_text_integer(modifier, args);
      char* p = mi_text_number(digits, x < 0 ? 0 - (uint64_t)x : (uint64_t)x, 10);
      if (x < 0) *--p = '-';
      return p;
    }
    default:
      return "?";
  }
}

MI_INTERNAL size_t mi_text_vformat(char* buffer, size_t capacity, const char* format,
                                   va_list original) {
  va_list args;
  va_copy(args, original);
  size_t used = 0;
  buffer[0] = 0;
  for (const char* f = format; *f != 0; f++) {
    char digits[24];
    if (*f != '%' || f[1] == '%') {
      if (*f == '%') f++;
      const char one[2] = {*f, 0};
      used = mi_text_append(buffer, capacity, used, one);
      continue;
    }
    f++;
    const bool is_left = (*f == '-');
    if (is_left) f++;
    size_t width = 0;
    for (; *f >= '0' && *f <= '9'; f++) width = width * 10 + (size_t)(*f - '0');
    char modifier = 0;
    for (; *f == 'l' || *f == 'z'; f++) modifier = modifier == 'l' ? 'q' : *f;
    if (*f == 0) break;
    const char* const s = mi_text_argument(*f, modifier, digits, &args);
    const size_t length = mi_text_length(s);
    const size_t padding = width > length ? width - length : 0;
    if (!is_left) used = mi_text_pad(buffer, capacity, used, padding);
    used = mi_text_append(buffer, capacity, used, s);
    if (is_left) used = mi_text_pad(buffer, capacity, used, padding);
  }
  va_end(args);
  return used;
}

MI_INTERNAL size_t mi_text_format(char* buffer, size_t capacity, const char* format, ...) {
  va_list args;
  va_start(args, format);
  const size_t used = mi_text_vformat(buffer, capacity, format, args);
  va_end(args);
  return used;
}
