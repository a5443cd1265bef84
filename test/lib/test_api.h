// SPDX-License-Identifier: MIT
// test_api.h - what the tests of the public interface share: cmocka, programs that
// run again, and patterns in memory.
#ifndef TEST_API_H
#define TEST_API_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>

#include <cmocka.h>

#include <errno.h>
#include <mimalloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h" // for children
#include "random.h"
#include "secure.h"
#include "spawn.h"

#define TEST_KIB ((size_t)1024)
#define TEST_MIB (TEST_KIB * TEST_KIB)
#define TEST_GIB (TEST_MIB * TEST_KIB)
// More than any system has: 2^60 bytes, or 2^31.
#define TEST_BEYOND ((size_t)1 << (sizeof(size_t) == 8 ? 60 : 31))

// A constant that the compiler does not see through, so that it neither warns nor folds.
static inline size_t test_opaque(size_t x) {
  volatile size_t hidden = x;
  return hidden;
}

// The same for a pointer: what is done to it happens.
static inline void* test_opaque_pointer(void* p) {
  void* volatile hidden = p;
  return hidden;
}

// Skips the test and says why.
static inline void test_skip(const char* why) {
  printf("SKIP: %s\n", why);
  fflush(stdout);
  skip();
}

// Runs this program again (spawn.h), or skips the test.
static inline void test_start_self(const char* argument, const char* const environment[],
                                   spawn_result_t* result) {
  if (!spawn_self(argument, environment, result)) test_skip("the program cannot start itself");
}

// A build that watches what is around blocks promises other sizes, and reports misuse in another
// way: for a tool, a padded one (padded.c), a secure one (secure.c).
static inline bool test_is_tracked(void) { return mi_good_size(20) == 20; }
static inline void test_skip_if_tracked(void) {
  if (test_is_tracked())
    test_skip("blocks have margins or canaries, and misuse is reported at once");
}

// Return an address without a tag: a build with memory tags has one in its highest byte.
static inline void* test_plain(const void* p) {
#if defined(__aarch64__)
  return (void*)((uintptr_t)p & (UINTPTR_MAX >> 8));
#else
  return (void*)(uintptr_t)p;
#endif
}

// Whether this build has memory tags, and the processor, too.
static inline bool test_has_memory_tags(void) {
  void* const p = mi_malloc(100);
  const bool is_so = p != test_plain(p);
  mi_free(p);
  return is_so;
}

// Where each block has guards (MIMALLOC_GUARDED_SAMPLE_RATE=1, test_native.py), a block has a page
// of its own and exactly its size.
static inline bool test_is_guarded(void) {
  return mi_option_get(mi_option_guarded_sample_rate) == 1;
}

static inline void test_skip_if_guarded(const char* why) {
  if (test_is_guarded()) test_skip(why);
}

// Memcheck needs ten times the memory of the program, also in a child with a limit.
static inline void test_skip_if_valgrind(void) {
  const char* const preload = getenv("LD_PRELOAD");
  if (preload != NULL && strstr(preload, "vgpreload") != NULL) {
    test_skip("Valgrind's own memory counts");
  }
}

// Whether `malloc` of this program is the library's.
static inline bool test_is_malloc_ours(void) {
  void* const p = malloc(test_opaque(10));
  const bool is_ours = mi_usable_size(p) > 0;
  free(p);
  return is_ours;
}

// Whether a sanitizer is there; its run-time is written in C++. (Where names can be weak: gcc for
// Windows has no sanitizers, and its linker wants a definition.)
#if !defined(__ELF__)
static inline bool test_is_sanitized(void) { return false; }
#else
extern void __asan_init(void) __attribute__((weak));
extern void __tsan_init(void) __attribute__((weak));
extern void __ubsan_handle_out_of_bounds(void) __attribute__((weak));
static inline bool test_is_sanitized(void) {
  return __asan_init != NULL || __tsan_init != NULL || __ubsan_handle_out_of_bounds != NULL;
}
#endif

static inline void test_skip_if_sanitized(void) {
  if (test_is_sanitized()) test_skip("the sanitizer brings a C++ library");
}

static inline bool test_is_filled(const void* p, size_t size, unsigned char byte) {
  const unsigned char* const s = (const unsigned char*)p;
  return size == 0 || (s[0] == byte && memcmp(s, s + 1, size - 1) == 0);
}

static inline bool test_is_aligned(const void* p, size_t alignment) {
  return ((uintptr_t)p & (alignment - 1)) == 0;
}

// Sizes around every limit that an allocator may have, up to `max`: f(size) for each.
static inline void test_for_sizes(size_t max, void (*f)(size_t size)) {
  for (size_t size = 0; size <= 260 && size <= max; size++) f(size);
  for (size_t power = 512; power <= max; power *= 2) {
    for (size_t eighth = 0; eighth < 8; eighth++) {
      const size_t size = power + power / 8 * eighth;
      if (size + 1 > max) return;
      f(size - 1);
      f(size);
      f(size + 1);
    }
  }
}

#endif
