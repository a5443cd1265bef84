// SPDX-License-Identifier: MIT
// api_string.c - copies of strings, paths and environment values in blocks of this allocator.
//
// No state. Everything a caller passes may be NULL where mimalloc.h says so.
// API_STRING-1  no character past the first `n` is read by the functions that take an `n`.
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "api.h"

// What `mi_os_real_path` may write.
#define MI_STRING_PATH_MAX ((size_t)4096)

static char* mi_string_copy(mi_theap_t* theap, const char* s, size_t length) {
  char* const copy = (char*)mi_theap_malloc(theap, length + 1);
  if (copy == NULL) return NULL;
  memcpy(copy, s, length);
  copy[length] = 0;
  return copy;
}

char* mi_strdup(const char* s) mi_attr_noexcept {
  return s == NULL ? NULL : mi_string_copy(mi_self_theap(), s, strlen(s));
}

char* mi_strndup(const char* s, size_t n) mi_attr_noexcept {
  return s == NULL ? NULL : mi_string_copy(mi_self_theap(), s, strnlen(s, n));
}

char* mi_heap_strdup(mi_heap_t* heap, const char* s) mi_attr_noexcept {
  return s == NULL ? NULL : mi_string_copy(mi_enter_theap_in(heap), s, strlen(s));
}

char* mi_heap_strndup(mi_heap_t* heap, const char* s, size_t n) mi_attr_noexcept {
  return s == NULL ? NULL : mi_string_copy(mi_enter_theap_in(heap), s, strnlen(s, n));
}

unsigned char* mi_mbsdup(const unsigned char* s) mi_attr_noexcept {
  return (unsigned char*)mi_strdup((const char*)s);
}

wchar_t* mi_wcsdup(const wchar_t* s) mi_attr_noexcept {
  if (s == NULL) return NULL;
  // wcslen is not used: for every program the loader would fault in the code that picks its
  // variant.
  size_t length = 0;
  while (s[length] != 0) length++;
  const size_t size = (length + 1) * sizeof(wchar_t);
  wchar_t* const copy = (wchar_t*)mi_malloc(size);
  if (copy != NULL) memcpy(copy, s, size);
  return copy;
}

static char* mi_string_path(mi_theap_t* theap, const char* fname, char* resolved_name) {
  // libc would allocate the result with its own malloc, which need not be ours.
  const bool is_given = resolved_name != NULL;
  char* const scratch = is_given ? resolved_name : (char*)mi_malloc(MI_STRING_PATH_MAX);
  if (scratch == NULL) return NULL;
  const int err = mi_os_real_path(fname, scratch);
  if (err == 0 && is_given) return scratch;
  char* const result = err == 0 ? mi_string_copy(theap, scratch, strlen(scratch)) : NULL;
  if (!is_given) mi_free(scratch);
  if (err != 0) errno = err;
  return result;
}

char* mi_realpath(const char* fname, char* resolved_name) mi_attr_noexcept {
  return mi_string_path(mi_self_theap(), fname, resolved_name);
}

char* mi_heap_realpath(mi_heap_t* heap, const char* fname, char* resolved_name) mi_attr_noexcept {
  return mi_string_path(mi_enter_theap_in(heap), fname, resolved_name);
}

int mi_dupenv_s(char** buf, size_t* size, const char* name) mi_attr_noexcept {
  if (size != NULL) *size = 0;
  if (buf == NULL || name == NULL) return EINVAL;
  *buf = NULL;
  const char* const value = getenv(name);
  if (value == NULL) return 0;
  *buf = mi_strdup(value);
  if (*buf == NULL) return ENOMEM;
  if (size != NULL) *size = strlen(value) + 1;
  return 0;
}

int mi_wdupenv_s(wchar_t** buf, size_t* size, const wchar_t* name) mi_attr_noexcept {
  if (size != NULL) *size = 0;
  if (buf == NULL) return EINVAL;
  *buf = NULL;
  size_t room = 0;
  size_t needed = 0;
  if (name == NULL || mi_os_environment_wide(name, NULL, &needed) != 0) return EINVAL;
  while (needed > room) { // another thread may change it
    mi_free(*buf);
    room = needed;
    *buf = (wchar_t*)mi_mallocn(room, sizeof(wchar_t));
    if (*buf == NULL) return ENOMEM;
    (*buf)[0] = 0;
    mi_os_environment_wide(name, *buf, &needed);
  }
  if (size != NULL) *size = room == 0 ? 0 : needed;
  return 0;
}
