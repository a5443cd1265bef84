// SPDX-License-Identifier: MIT
// Guards around blocks, and reports of faults, on Windows: a write behind a block ends the program,
// and the library has said what it was. Each mistake is made by this program, run again.
#include <signal.h>

#include "test_api.h"

#define WIN32_LEAN_AND_MEAN
#include <windows.h>

static spawn_result_t result;
static const char* const guarded[] = {"MIMALLOC_GUARDED_SAMPLE_RATE=1", "MIMALLOC_SHOW_ERRORS=1",
                                      NULL};

__attribute__((noinline)) static void write_far_behind(void) {
  volatile char* const p = (volatile char*)mi_malloc(100);
  p[5000] = 1;
}

__attribute__((noinline)) static void write_after_free(void) {
  volatile char* const p = (volatile char*)mi_malloc(100);
  mi_free((void*)(size_t)p);
  p[50] = 1;
}

static LONG NTAPI cope(EXCEPTION_POINTERS* about) {
  (void)about;
  printf("the program's own filter\n");
  fflush(stdout);
  ExitProcess(42);
}

static int make(const char* what) {
  if (strcmp(what, "overflow") == 0) write_far_behind();
  if (strcmp(what, "late") == 0) write_after_free();
  if (strcmp(what, "elsewhere") == 0) *(volatile char*)test_opaque(8) = 1;
  if (strcmp(what, "filter") == 0) {
    SetUnhandledExceptionFilter(&cope);
    write_far_behind();
  }
  return 1;
}

// If this fails, the cause of a crash is not told.
static void guards_tell_of_faults(void** state) {
  (void)state;
  test_start_self("overflow", guarded, &result);
  assert_int_equal(result.signal, SIGABRT);
  assert_int_equal(spawn_count(&result, "buffer overflow: "), 1);
  assert_int_equal(spawn_count(&result, "write"), 1);
  assert_true(spawn_count(&result, "guards.exe+0x") >= 1);
  test_start_self("late", guarded, &result);
  assert_int_equal(result.signal, SIGABRT);
  assert_int_equal(spawn_count(&result, "use after free"), 1);
}

// If this fails, the library speaks of faults that are not its business, or is in the way of the
// handler of the program.
static void guards_stand_back(void** state) {
  (void)state;
  test_start_self("elsewhere", guarded, &result);
  assert_int_equal(result.signal, SIGABRT);
  assert_int_equal(spawn_count(&result, "mimalloc: error"), 0);
  test_start_self("filter", guarded, &result);
  assert_int_equal(result.exit_status, 42);
  assert_int_equal(spawn_count(&result, "buffer overflow: "), 1);
  assert_int_equal(spawn_count(&result, "the program's own filter"), 1);
}

int main(int argc, char** argv) {
  if (argc > 1) return make(argv[1]);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(guards_tell_of_faults),
      cmocka_unit_test(guards_stand_back),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
