// SPDX-License-Identifier: MIT
// test_heap.h - what the tests of heaps, theaps, sub-processes and arenas share: memory as the
// system counts it, messages of the library, threads, and calls that must fail.
//
// Nothing here allocates, but for the start of a thread.
#ifndef TEST_HEAP_H
#define TEST_HEAP_H

#include "proc.h"
#include "puppet.h"
#include "test_api.h"

#include <pthread.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

// A sanitizer has memory of its own beside what the program has: there are no bounds then.
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
#define TEST_IS_SANITIZED true
#else
#define TEST_IS_SANITIZED false
#endif

// -- Memory as the system counts it --

// How far resident memory is above `before`, in bytes.
static inline size_t test_growth(size_t before) {
  const size_t now = proc_resident();
  return now > before ? now - before : 0;
}

// Fails when resident memory is more than `max` bytes above `before`.
static inline void test_bound_growth(size_t before, size_t max) {
  const size_t growth = test_growth(before);
  if (growth <= max || TEST_IS_SANITIZED) return;
  fail_msg("grew by %zu KiB, bound %zu", growth / TEST_KIB, max / TEST_KIB);
}

// Whether blocks of `size` bytes of address space can be had at all here; says so if not.
static inline bool test_has_address_space(size_t size) {
  struct rlimit limit;
  assert_int_equal(getrlimit(RLIMIT_AS, &limit), 0);
  const bool is_limited = limit.rlim_cur != RLIM_INFINITY && limit.rlim_cur / 2 <= size;
  if (size <= PTRDIFF_MAX && !is_limited) return true;
  printf("# the address space is limited: no block of %zu MiB\n", size / TEST_MIB);
  return false;
}

// In a child: from now on there are at most `more` bytes of address space beside those in use (0:
// none, and less than that). False when there is no such limit here: an emulator or a sanitizer
// goes on as before.
static inline bool test_limit_address_space(size_t more) {
  if (TEST_IS_SANITIZED) return false;
  struct rlimit both;
  if (getrlimit(RLIMIT_AS, &both) != 0) return false;
  both.rlim_cur = more > 0 ? proc_mapped() + more : TEST_MIB;
  const size_t size = more + 64 * TEST_MIB;
  return setrlimit(RLIMIT_AS, &both) == 0 &&
         mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED;
}

// There is memory again.
static inline void test_lift_address_limit(void) {
  struct rlimit both;
  CHECK(getrlimit(RLIMIT_AS, &both) == 0);
  both.rlim_cur = both.rlim_max;
  CHECK(setrlimit(RLIMIT_AS, &both) == 0);
}

// Write to every OS page of a block, so that it is resident.
static inline void test_touch(void* p, size_t size, unsigned char byte) {
  unsigned char* const bytes = (unsigned char*)p;
  for (size_t i = 0; i < size; i += 4096) bytes[i] = byte;
  if (size > 0) bytes[size - 1] = byte;
}

static inline bool test_is_touched(const void* p, size_t size, unsigned char byte) {
  const unsigned char* const bytes = (const unsigned char*)p;
  for (size_t i = 0; i < size; i += 4096) {
    if (bytes[i] != byte) return false;
  }
  return size == 0 || bytes[size - 1] == byte;
}

// -- Messages --

static char test_messages[16384];

static inline void test_receive(const char* text, void* arg) {
  (void)arg;
  const size_t used = strlen(test_messages);
  const size_t length = strlen(text);
  if (used + length < sizeof(test_messages)) memcpy(test_messages + used, text, length + 1);
}

// From here on messages are collected, all of them.
static inline void test_listen(void) {
  mi_register_output(&test_receive, NULL);
  test_messages[0] = 0; // what was printed before
  mi_option_enable(mi_option_verbose);
}

// No more. Returns whether `text` was in one of them.
static inline bool test_heard(const char* text) {
  mi_option_disable(mi_option_verbose);
  mi_register_output(NULL, NULL);
  return strstr(test_messages, text) != NULL;
}

// -- Threads --

// Runs `body(arg)` on a thread until it ends.
static inline void* test_on_thread(void* (*body)(void*), void* arg) {
  pthread_t thread;
  void* result = NULL;
  assert_int_equal(pthread_create(&thread, NULL, body, arg), 0);
  assert_int_equal(pthread_join(thread, &result), 0);
  return result;
}

// -- Calls that must fail --

// The call returns NULL and sets errno.
#define TEST_REFUSED(call, code)                                                                   \
  do {                                                                                             \
    errno = 0;                                                                                     \
    const void* const refused = (call);                                                            \
    const int refused_errno = errno;                                                               \
    if (refused != NULL) fail_msg("%s is not NULL", #call);                                        \
    if (refused_errno != (code)) fail_msg("%s: errno is %d", #call, refused_errno);                \
  } while (0)

static inline bool test_count_block(const mi_heap_t* heap, const mi_heap_area_t* area, void* block,
                                    size_t size, void* arg) {
  (void)heap, (void)area, (void)size;
  *(size_t*)arg += block != NULL;
  return true;
}

// Blocks in use in a heap.
static inline size_t test_blocks_in(mi_heap_t* heap) {
  size_t count = 0;
  assert_true(mi_heap_visit_blocks(heap, true, &test_count_block, &count));
  return count;
}

#endif
