// SPDX-License-Identifier: MIT
// text.h - bounded printing and string scanning that never allocates and never calls libc.
//
// The allocator prints while malloc is being called, before libc is ready and after `exit`, so it
// cannot use `printf`. Formats understood by `mi_text_format`:
//   %s string   %d int   %ld long   %lld long long   %zu size_t   %zd ptrdiff_t   %p pointer
//   %x unsigned   %zx size_t   %c %%
// with an optional width and '-' for left alignment. Output is always zero-terminated and cut at
// the end of the buffer.
#ifndef MI_BASE_TEXT_H
#define MI_BASE_TEXT_H

#include <stdarg.h>

#include "config.h"

MI_INTERNAL size_t mi_text_length(const char* s);
// Appends `s` at `used`; returns the new length (at most `capacity - 1`).
MI_INTERNAL size_t mi_text_append(char* buffer, size_t capacity, size_t used, const char* s);
MI_INTERNAL size_t mi_text_vformat(char* buffer, size_t capacity, const char* format, va_list args);
MI_INTERNAL size_t mi_text_format(char* buffer, size_t capacity, const char* format, ...)
    mi_attr_printf(3, 4);
// True if the first `length` characters are equal; ASCII letters compare without case.
MI_INTERNAL bool mi_text_equal_nocase(const char* a, const char* b, size_t length);
MI_INTERNAL char mi_text_upper(char c);

#endif
