// SPDX-License-Identifier: MIT
// describe.c - mi_describe and mi_describe_json: any address, any buffer, at any time. Reports,
// which say the same, are in test/test_reports.py, and damaged descriptors in test/misuse/damage.c.
#include "test_api.h"

#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/time.h>

static char text[4096];

// What is described here are pages of several blocks, also where each block would have its own.
static int guard_nothing(void** state) {
  (void)state;
  mi_option_set(mi_option_guarded_sample_rate, 0);
  return 0;
}

static const char* describe(const void* p) {
  errno = 12345;
  const size_t length = mi_describe(p, text, sizeof(text));
  assert_int_equal(errno, 12345);
  assert_int_equal(length, strlen(text));
  return text;
}

static void says(const void* p, const char* what) {
  if (strstr(describe(p), what) == NULL) fail_msg("no \"%s\" in \"%s\"", what, text);
}

// If this fails, a handler of SIGSEGV that describes the address of the fault crashes itself.
static void describe_addresses_that_are_not_ours(void** state) {
  (void)state;
  int local = 0;
  static const int constant = 1;
  void* const mapped = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  const void* const foreign[] = {
      NULL,
      (void*)(uintptr_t)1,
      (void*)(uintptr_t)4095,
      &local,
      &constant,
      text,
      (void*)(uintptr_t)&describe,
      (void*)(uintptr_t)&mi_describe,
      stdout,
      mapped,
      (void*)(uintptr_t)0x123456789ab0,
      (void*)(uintptr_t)0x7fffffffffff,
      (void*)(uintptr_t)0x800000000000,
      (void*)(uintptr_t)0xffff800000000000,
      (void*)UINTPTR_MAX,
  };
  for (size_t i = 0; i < sizeof(foreign) / sizeof(foreign[0]); i++) {
    assert_string_equal(describe(foreign[i]), "the address is not ours");
    mi_describe_json(foreign[i], text, sizeof(text));
    assert_non_null(strstr(text, "\"kind\":\"foreign\""));
  }
  munmap(mapped, 4096);
}

// If this fails, what a developer reads about a block is not about that block.
static void describe_blocks_in_use_and_freed(void** state) {
  (void)state;
  char expected[200];
  char* const p = (char*)mi_malloc(100);
  const bool is_exact = test_is_tracked(); // the size and state of each block in use are known
  snprintf(expected, sizeof(expected), "\n  block:  0x%zx, %s", (size_t)(uintptr_t)test_plain(p),
           is_exact ? "100 bytes asked for, in use" : "not known whether in use");
  says(p, expected);
  says(p, "\n  before: ");
  says(p, "\n  behind: ");
  says(p, "; main heap\n");
  says(p + 7, "; the address is 7 bytes into it");
  if (is_exact) says(p + 103, "; the address is 3 bytes behind its end");
  if (is_exact && !test_is_secure()) says(p - 3, "; the address is 3 bytes before it");
  mi_free(p);
  if (is_exact) says(p, ", free\n");
  char* const large = (char*)mi_malloc(3000000);
  snprintf(expected, sizeof(expected), "\n  block:  0x%zx, %sin use\n", (size_t)(uintptr_t)large,
           is_exact ? "3000000 bytes asked for, " : "");
  says(large, expected);
  says(large, "\n  before: none; the block has a page of its own");
  says(large + 2000000, "; the address is 2000000 bytes into it");
  mi_free(large);
  says(large, "nothing is in use there; last was a page at ");
}

// If this fails, a program that describes a block of another heap is told of the main one.
static void describe_heaps_and_threads(void** state) {
  (void)state;
  char expected[100];
  mi_heap_t* const heap = mi_heap_new();
  void* const p = mi_heap_malloc(heap, 100);
  snprintf(expected, sizeof(expected), " at 0x%zx\n", (size_t)(uintptr_t)heap);
  says(p, expected);
#if defined(_WIN32) // tidy: allow os-macro (a fact of the library, as src/os/tls.h has it)
  size_t self;
  __asm__("movq %%gs:0x30, %0" : "=r"(self));
#elif defined(__aarch64__) || defined(__arm__) || defined(__riscv)
  size_t self = (size_t)__builtin_thread_pointer(); // which is not what pthread_self returns
#elif defined(__powerpc64__)
  size_t self;
  __asm__("mr %0, 13" : "=r"(self)); // the same
#else
  size_t self = (size_t)pthread_self();
#endif
  // src/os/tls.h says why.
#if !defined(__GLIBC__) && !defined(_WIN32) // tidy: allow os-macro (a fact of the library)
  self *= 2;
#endif
  snprintf(expected, sizeof(expected), " of thread 0x%zx", self);
  says(p, expected);
  mi_heap_destroy(heap);
  says(p, "nothing is in use there");
}

// If this fails, asking about a block that a guard made inaccessible is a second crash.
static void describe_memory_that_cannot_be_read(void** state) {
  (void)state;
  const size_t sizes[] = {3000000, 700000}; // no other block is in their OS pages
  for (size_t i = 0; i < 2; i++) {
    char* const p = (char*)mi_malloc(sizes[i]);
    char* const start = (char*)((uintptr_t)p & ~(uintptr_t)4095);
    const size_t size = (size_t)(p + sizes[i] + 32 - start);
    if (mprotect(start, size, PROT_NONE) != 0) test_skip("mprotect is refused");
    mi_describe(p, text, sizeof(text));
    assert_int_equal(mprotect(start, size, PROT_READ | PROT_WRITE), 0);
    assert_non_null(strstr(text, "\n  block:  0x"));
    assert_null(strstr(text, "asked for"));
    mi_free(p);
  }
}

// If this fails, a small buffer is written past its end, or a program gets half an object.
static void describe_fits_any_buffer(void** state) {
  (void)state;
  static char whole[2][4096];
  void* const p = mi_malloc(100);
  size_t (*const functions[2])(const void*, char*, size_t) = {&mi_describe, &mi_describe_json};
  for (size_t k = 0; k < 2; k++) {
    const size_t length = functions[k](p, whole[k], sizeof(whole[k]));
    assert_int_equal(length, strlen(whole[k]));
    assert_true(length < (k == 0 ? 1000 : 2000)); // the header says that these are enough
    assert_int_equal(functions[k](p, NULL, 0), length);
    assert_int_equal(functions[k](p, NULL, 100), length);
    for (size_t size = 0; size < length + 10; size++) {
      memset(text, 'x', sizeof(text));
      assert_int_equal(functions[k](p, text, size), length);
      if (size > 0) {
        const size_t fits = size > length ? length : k == 0 ? size - 1 : 0;
        assert_int_equal(strlen(text), fits);
        assert_memory_equal(text, whole[k], fits);
      }
      for (size_t i = size; i < length + 20; i++) assert_int_equal(text[i], 'x');
    }
  }
  mi_free(p);
}

static bool count_block(const mi_heap_t* heap, const mi_heap_area_t* area, void* block,
                        size_t block_size, void* arg) {
  (void)heap, (void)block, (void)block_size;
  *(size_t*)arg += area->used;
  return true;
}

// If this fails, asking about an address changes the heap, which a handler of SIGSEGV must not do.
static void describe_allocates_nothing(void** state) {
  (void)state;
  void* const p = mi_malloc(100);
  size_t before = 0;
  size_t after = 0;
  mi_heap_visit_blocks(mi_heap_main(), false, &count_block, &before);
  for (size_t i = 0; i < 1000; i++) {
    mi_describe((char*)p + i * 1000, text, sizeof(text));
    mi_describe_json((char*)p + i * 1000, text, sizeof(text));
  }
  mi_heap_visit_blocks(mi_heap_main(), false, &count_block, &after);
  assert_int_equal(before, after);
  mi_free(p);
}

static void* volatile latest;
static volatile size_t described;

static void on_timer(int number) {
  static char in_handler[4096];
  (void)number;
  const int saved_errno = errno;
  mi_describe(latest, in_handler, sizeof(in_handler));
  mi_describe_json((char*)latest + 100000, in_handler, sizeof(in_handler));
  described++;
  errno = saved_errno;
}

// If this fails, a profiler that describes addresses in its signal handler hangs or crashes.
static void describe_in_a_signal_handler(void** state) {
  (void)state;
  const struct sigaction action = {.sa_handler = &on_timer, .sa_flags = SA_RESTART};
  struct sigaction saved;
  sigaction(SIGALRM, &action, &saved);
  const struct itimerval often = {{0, 5000}, {0, 5000}};
  const struct itimerval never = {{0, 0}, {0, 0}};
  setitimer(ITIMER_REAL, &often, NULL);
  uint64_t seed = 7;
  static void* p[500];
  while (described < 60) {
    const size_t k = random_below(&seed, 500);
    mi_free(p[k]);
    p[k] = mi_malloc(random_size(&seed, 21));
    latest = p[k];
  }
  setitimer(ITIMER_REAL, &never, NULL);
  sigaction(SIGALRM, &saved, NULL);
  for (size_t k = 0; k < 500; k++) mi_free(p[k]);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(describe_addresses_that_are_not_ours),
      cmocka_unit_test(describe_blocks_in_use_and_freed),
      cmocka_unit_test(describe_heaps_and_threads),
      cmocka_unit_test(describe_memory_that_cannot_be_read),
      cmocka_unit_test(describe_fits_any_buffer),
      cmocka_unit_test(describe_allocates_nothing),
      cmocka_unit_test(describe_in_a_signal_handler),
  };
  return cmocka_run_group_tests_name("describe", tests, &guard_nothing, NULL);
}
