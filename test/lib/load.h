// SPDX-License-Identifier: MIT
// load.h - what the programs share that load the allocator for seconds: seed, amount of work,
// memory in use, contents.
//
// Each prints its seed first; --seed N runs the same again. --percent N or MI_STRESS_PERCENT scales
// the work. Work is also bounded in time, because builds with all checks are far slower. Some
// programs have more arguments (load_begin_with), for long runs.
#ifndef TEST_LOAD_H
#define TEST_LOAD_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <mimalloc.h>

#include "check.h"
#include "proc.h"
#include "random.h"
#include "secure.h"

#if !defined(__has_feature)
#define __has_feature(x) 0
#endif
#if defined(__SANITIZE_ADDRESS__) || __has_feature(address_sanitizer)
#define LOAD_IS_SANITIZED 1
#define LOAD_IS_TSAN 0
#elif defined(__SANITIZE_THREAD__) || __has_feature(thread_sanitizer)
#define LOAD_IS_SANITIZED 1
#define LOAD_IS_TSAN 1
#else
#define LOAD_IS_SANITIZED 0
#define LOAD_IS_TSAN 0
#endif

#if LOAD_IS_SANITIZED
// The sanitizers ask these functions for what their environment variables do not say. The one for
// threads would end children of processes with threads that start threads; the search for leaks of
// the sanitizer's malloc would wait in such a child for locks that threads of the parent held.
// Weak: a program has them once.
extern const char* __tsan_default_options(void) __attribute__((weak));
const char* __tsan_default_options(void) { return "die_after_fork=0"; }
extern const char* __asan_default_options(void) __attribute__((weak));
const char* __asan_default_options(void) { return "detect_leaks=0"; }
#endif

#define LOAD_KIB ((size_t)1024)
#define LOAD_MIB (LOAD_KIB * LOAD_KIB)

typedef struct {
  uint64_t seed;
  unsigned percent;
} load_t;

static inline uint64_t load_now_ms(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

static void load_hangs(int number) {
  (void)number;
  static const char text[] = "the program hangs\n";
  if (write(2, text, sizeof(text) - 1) < 0) _exit(4);
  _exit(3);
}

// It does not: called often enough by programs that run long.
static inline void load_alive(void) { alarm(LOAD_IS_SANITIZED ? 600 : 60); }

// An argument of one program, and where its number goes.
typedef struct {
  const char* name;
  size_t* value;
} load_argument_t;

static inline void load_read_argument(load_t* load, const load_argument_t* own, size_t count,
                                      const char* name, const char* text) {
  char* end = NULL;
  const unsigned long long value = text == NULL ? 0 : strtoull(text, &end, 10);
  if (text == NULL || end == text || *end != 0) {
    fprintf(stderr, "%s: a number is expected, not %s\n", name, text == NULL ? "nothing" : text);
    exit(2);
  }
  if (strcmp(name, "--seed") == 0) {
    load->seed = value;
    return;
  }
  if (strcmp(name, "--percent") == 0) {
    load->percent = (unsigned)value;
    return;
  }
  for (size_t i = 0; i < count; i++) {
    if (strcmp(name, own[i].name) != 0) continue;
    *own[i].value = (size_t)value;
    return;
  }
  fprintf(stderr, "%s is no argument; there are --seed --percent", name);
  for (size_t i = 0; i < count; i++) fprintf(stderr, " %s", own[i].name);
  fprintf(stderr, ", each with a number\n");
  exit(2);
}

// Reads the arguments, prints the seed, and makes the program end when it hangs.
static inline load_t load_begin_with(int argc, char** argv, const load_argument_t* own,
                                     size_t count) {
  load_t load = {(uint64_t)time(NULL) * 1000003 + (uint64_t)getpid(), 100};
  const char* const percent = getenv("MI_STRESS_PERCENT");
  if (percent != NULL) load.percent = (unsigned)strtoul(percent, NULL, 10);
  for (int i = 1; i < argc; i += 2) {
    load_read_argument(&load, own, count, argv[i], i + 1 < argc ? argv[i + 1] : NULL);
  }
  printf("seed %llu\n", (unsigned long long)load.seed);
  fflush(stdout);
  signal(SIGALRM, &load_hangs);
  load_alive();
  return load;
}

static inline load_t load_begin(int argc, char** argv) {
  return load_begin_with(argc, argv, NULL, 0);
}

// For programs whose children have threads, or whose signal handlers fork: the thread sanitizer
// starts a thread in the child of a fork, does not know threads of C11, and has a shadow for all
// memory.
static inline void load_skip_with_tsan(void) {
  if (LOAD_IS_TSAN) SKIP("not supported by the thread sanitizer");
}

static inline size_t load_scale(const load_t* load, size_t count) {
  const size_t scaled = (size_t)((uint64_t)count * load->percent / 100);
  return scaled == 0 ? 1 : scaled;
}

// Resident memory in bytes; with a sanitizer, whose shadow is resident too, what is committed.
static inline size_t load_rss(void) {
#if LOAD_IS_SANITIZED
  size_t committed = 0;
  mi_process_info(NULL, NULL, NULL, NULL, NULL, &committed, NULL, NULL);
  return committed;
#else
  return proc_resident();
#endif
}

// A bound for that. With a sanitizer memory counts that was never touched, and blocks have margins;
// a secure build has marks and canaries.
static inline size_t load_bound(size_t bytes) {
  if (LOAD_IS_SANITIZED) return 4 * bytes;
  return test_is_secure() ? bytes + bytes / 8 : bytes;
}

// True if free memory inside of pages in use goes back. A padded build looks at the memory of free
// blocks, and keeps it; with tiny constants a page is no longer than an OS page; and few OS pages
// of 16 KiB have no block of 1 to 4 KB in use, none of 64.
static inline bool load_makes_holes(void) {
  void* const p = malloc(24);
  const bool is_padded = mi_usable_size(p) == 24 && !test_is_secure();
  free(p);
  return !is_padded && mi_good_size(66000) == 73728 && sysconf(_SC_PAGESIZE) == 4096;
}

static inline void load_wait_ms(long ms) {
  const struct timespec t = {ms / 1000, ms % 1000 * 1000000};
  nanosleep(&t, NULL);
}

// Contents of a block: every byte of small ones, both ends and a byte of each OS page of large
// ones.
#define LOAD_WHOLE_MAX ((size_t)2048)

static inline size_t load_step(size_t i, size_t size) {
  if (size <= LOAD_WHOLE_MAX || i < 64 || i + 64 >= size) return 1;
  return size - 64 - i < 4093 ? size - 64 - i : 4093;
}

static inline void load_fill(void* p, size_t size, uint8_t mark) {
  uint8_t* const bytes = (uint8_t*)p;
  for (size_t i = 0; i < size; i += load_step(i, size)) bytes[i] = (uint8_t)(mark + i * 7);
}

static inline void load_verify(const void* p, size_t size, uint8_t mark) {
  const uint8_t* const bytes = (const uint8_t*)p;
  for (size_t i = 0; i < size; i += load_step(i, size)) {
    CHECK_SAY(bytes[i] == (uint8_t)(mark + i * 7), "byte %zu of %zu at %p is %u", i, size, p,
              bytes[i]);
  }
}

// What calloc returned.
static inline void load_verify_zero(const void* p, size_t size) {
  const uint8_t* const bytes = (const uint8_t*)p;
  for (size_t i = 0; p != NULL && i < size; i += load_step(i, size)) {
    CHECK_SAY(bytes[i] == 0, "calloc of %zu: byte %zu is %u", size, i, bytes[i]);
  }
}

// Contents that realloc moved from a block of `old` bytes into one of `size`, if all were filled.
static inline void load_verify_moved(const void* p, size_t old, size_t size, uint8_t mark) {
  if (old <= LOAD_WHOLE_MAX) load_verify(p, size < old ? size : old, mark);
}

// Where malloc is not replaced, as with a sanitizer, the names are: the program tests our malloc.
#if defined(LOAD_BY_NAME)
#include <mimalloc-override.h>
#endif

// A block with a pattern of its size, and its end.
static inline void* load_make(size_t size) {
  void* const p = malloc(size);
  CHECK_SAY(p != NULL, "no memory for %zu bytes", size);
  load_fill(p, size, (uint8_t)size);
  return p;
}

static inline void load_drop(void* p, size_t size) {
  load_verify(p, size, (uint8_t)size);
  free(p);
}

#endif
