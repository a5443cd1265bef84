// SPDX-License-Identifier: MIT
// errors.c - what programs do wrong: it is named on request, counted, and the program goes on.
//
// Each misuse is one function that runs in a process of its own and prints the address it
// misuses.
#include "spawn.h"
#include "test_api.h"

#include <pthread.h>

static spawn_result_t result;

static void tell_address(const void* p) {
  printf("misused %p\n", p);
  fflush(stdout);
}

// After a misuse, the allocator still gives memory that is the program's alone.
static int survive(void) {
  enum { COUNT = 4000 };
  static unsigned char* p[COUNT];
  for (size_t round = 0; round < 3; round++) {
    for (size_t i = 0; i < COUNT; i++) {
      const size_t size = 16 + i % 200;
      p[i] = (unsigned char*)mi_malloc(size);
      if (p[i] == NULL) return 3;
      memset(p[i], (int)(i % 250), size);
    }
    for (size_t i = 0; i < COUNT; i++) {
      if (!test_is_filled(p[i], 16 + i % 200, (unsigned char)(i % 250))) return 4;
      mi_free(p[i]);
    }
  }
  printf("survived\n");
  return 0;
}

static int free_stack(void) {
  int local[8] = {0};
  tell_address(local);
  mi_free(test_opaque_pointer(local));
  return survive();
}

static int free_static(void) {
  static long data[16];
  tell_address(data + 2);
  mi_free(test_opaque_pointer(data + 2));
  return survive();
}

static int free_wild(void) {
  void* const p = (void*)(uintptr_t)0x123456789ab0;
  tell_address(p);
  mi_free(test_opaque_pointer(p));
  return survive();
}

static int free_non_canonical(void) {
  mi_free(test_opaque_pointer((void*)(uintptr_t)0x10));
  return survive();
}

static int free_many_foreign(void) {
  static char data[1000];
  tell_address(data);
  for (size_t i = 0; i < 100; i++) mi_free(test_opaque_pointer(data + i));
  return survive();
}

static int realloc_stack(void) {
  int local[8] = {0};
  tell_address(local);
  if (mi_realloc(test_opaque_pointer(local), 100) != NULL) return 5;
  if (mi_usable_size(test_opaque_pointer(local)) != 0) return 6;
  return survive();
}

static int free_inside_large(void) {
  char* const p = (char*)mi_malloc(5000000);
  tell_address(p + 100);
  mi_free(test_opaque_pointer(p + 100));
  memset(p, 1, 5000000);
  mi_free(p);
  return survive();
}

static void* free_it(void* p) {
  mi_free(p);
  return NULL;
}

static int free_inside_of_another_thread(void) {
  char* const p = (char*)mi_malloc(100);
  pthread_t thread;
  tell_address(p + 8);
  if (pthread_create(&thread, NULL, &free_it, test_opaque_pointer(p + 8)) != 0) return 7;
  pthread_join(thread, NULL);
  memset(p, 1, 100);
  mi_free(p);
  return survive();
}

static int free_large_twice(void) {
  void* const p = mi_malloc(5000000);
  tell_address(p);
  mi_free(p);
  mi_free(test_opaque_pointer(p));
  return survive();
}

static int free_small_twice(void) {
  void* p[10];
  for (size_t i = 0; i < 10; i++) p[i] = mi_malloc(64);
  tell_address(p[5]);
  mi_free(p[5]);
  mi_free(test_opaque_pointer(p[5]));
  const int status = survive();
  for (size_t i = 0; i < 10; i++) {
    if (i != 5) mi_free(p[i]);
  }
  return status;
}

static int too_large(void) {
  if (mi_malloc(test_opaque(SIZE_MAX - 100)) != NULL) return 8;
  if (mi_calloc(test_opaque(SIZE_MAX / 2), 3) != NULL) return 9;
  if (mi_realloc(NULL, test_opaque(SIZE_MAX - 100)) != NULL) return 10;
  if (mi_malloc_aligned(test_opaque(SIZE_MAX - 100), 64) != NULL) return 11;
  return survive();
}

static int bad_alignment(void) {
  if (mi_malloc_aligned(100, test_opaque(24)) != NULL) return 12;
  if (mi_memalign(test_opaque(48), 100) != NULL) return 13;
  void* p = NULL;
  if (mi_posix_memalign(&p, test_opaque(12), 100) != EINVAL) return 14;
  return survive();
}

static int no_memory(void) {
  if (mi_malloc(test_opaque((size_t)1 << 60)) != NULL) return 15;
  return survive();
}

static const struct misuse_s {
  const char* name;
  int (*run)(void);
  const char* message; // with %s where the address stands
  const char* summary; // printed at the end when it happened again, or NULL
} misuses[] = {
    {"free_stack", &free_stack, "mimalloc: error: invalid pointer: %s in free", NULL},
    {"free_static", &free_static, "mimalloc: error: invalid pointer: %s in free", NULL},
    {"free_wild", &free_wild, "mimalloc: error: invalid pointer: %s in free", NULL},
    {"free_non_canonical", &free_non_canonical, "mimalloc: error: invalid pointer: 0x10 in free",
     NULL},
    {"free_many_foreign", &free_many_foreign, "mimalloc: error: invalid pointer: %s in free",
     "mimalloc: error: invalid pointer: 99 more of this kind"},
    {"realloc_stack", &realloc_stack, "mimalloc: error: invalid pointer: %s in realloc", NULL},
    {"free_inside_large", &free_inside_large, "invalid pointer: %s in free: inside a block", NULL},
    {"free_inside_of_another_thread", &free_inside_of_another_thread,
     "invalid pointer: %s in free: inside a block", NULL},
    {"free_large_twice", &free_large_twice, "mimalloc: error: invalid pointer: %s in free", NULL},
    {"free_small_twice", &free_small_twice, "mimalloc: error: double free detected of block %s",
     NULL},
    {"too_large", &too_large, "mimalloc: error: allocation request is too large (",
     "mimalloc: error: allocation request is too large: 3 more of this kind"},
    {"bad_alignment", &bad_alignment, "mimalloc: error: invalid alignment: 24",
     "mimalloc: error: invalid alignment: 2 more of this kind"},
    {"no_memory", &no_memory,
     "mimalloc: error: unable to allocate memory (1152921504606846976 bytes)", NULL},
};
#define MISUSE_COUNT (sizeof(misuses) / sizeof(misuses[0]))

static void run_misuse(const struct misuse_s* misuse, const char* variable, const char* second) {
  const char* const environment[] = {variable, second, NULL};
  if (!spawn_self(misuse->name, environment, &result)) skip();
  if (result.signal != 0 || result.exit_status != 0) {
    fail_msg("%s: signal %d, status %d:\n%s", misuse->name, result.signal, result.exit_status,
             result.output);
  }
  assert_int_equal(spawn_count(&result, "survived"), 1);
}

// The message that is expected, with the address the child told.
static void expected_message(const struct misuse_s* misuse, char* text, size_t capacity) {
  char address[64] = "";
  const char* const at = strstr(result.output, "misused ");
  if (at != NULL) sscanf(at, "misused %63s", address);
  snprintf(text, capacity, misuse->message, address);
}

// If this fails, the cause of a crash or a leak cannot be found with MIMALLOC_SHOW_ERRORS=1.
static void misuse_is_named_with_its_address(void** state) {
  (void)state;
  for (size_t i = 0; i < MISUSE_COUNT; i++) {
    char text[256];
    run_misuse(&misuses[i], "MIMALLOC_SHOW_ERRORS=1", NULL);
    expected_message(&misuses[i], text, sizeof(text));
    if (spawn_count(&result, text) != 1) {
      fail_msg("%s: expected \"%s\" once in:\n%s", misuses[i].name, text, result.output);
    }
  }
}

// If this fails, a misuse in a loop floods the log, or nobody learns how often it happened.
static void misuse_is_counted_after_the_first(void** state) {
  (void)state;
  for (size_t i = 0; i < MISUSE_COUNT; i++) {
    run_misuse(&misuses[i], "MIMALLOC_SHOW_ERRORS=1", NULL);
    const size_t more = spawn_count(&result, "more of this kind");
    if (misuses[i].summary == NULL) {
      assert_int_equal(more, 0);
    } else if (spawn_count(&result, misuses[i].summary) != 1) {
      fail_msg("%s: expected \"%s\" in:\n%s", misuses[i].name, misuses[i].summary, result.output);
    }
  }
}

// If this fails, programs whose output is read by others print what nobody asked for.
static void misuse_is_silent_by_default(void** state) {
  (void)state;
  for (size_t i = 0; i < MISUSE_COUNT; i++) {
    run_misuse(&misuses[i], NULL, NULL);
    if (spawn_count(&result, "mimalloc:") != 0) {
      // Builds with checks print by default.
      assert_non_null(strstr(result.output, "mimalloc: error:"));
    }
  }
}

// If this fails, the limits on messages do not work.
static void messages_are_limited(void** state) {
  (void)state;
  const struct misuse_s* const many = &misuses[4];
  run_misuse(many, "MIMALLOC_SHOW_ERRORS=1", "MIMALLOC_MAX_ERRORS=0");
  assert_int_equal(spawn_count(&result, "invalid pointer: 0x"), 0);
  run_misuse(many, "MIMALLOC_VERBOSE=1", "MIMALLOC_MAX_ERRORS=0");
  assert_int_equal(spawn_count(&result, "invalid pointer: 0x"), 100);
}

int main(int argc, char** argv) {
  for (size_t i = 0; argc > 1 && i < MISUSE_COUNT; i++) {
    if (strcmp(argv[1], misuses[i].name) == 0) return misuses[i].run();
  }
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(misuse_is_named_with_its_address),
      cmocka_unit_test(misuse_is_counted_after_the_first),
      cmocka_unit_test(misuse_is_silent_by_default),
      cmocka_unit_test(messages_are_limited),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
