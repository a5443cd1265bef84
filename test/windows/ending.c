// SPDX-License-Identifier: MIT
// A process ends while one of its threads is in the library and holds a lock: Windows ends that
// thread where it is, and lets libraries run on (OS_WINDOWS-5 of src/os/os_windows.c).
#include <signal.h>

#include "test_api.h"

#define WIN32_LEAN_AND_MEAN
#include <windows.h>

#define SIZE ((size_t)256 * TEST_MIB)

static spawn_result_t result;
static HANDLE is_inside;

// Gives no memory back, and never returns: the caller holds the purge lock.
static bool mi_cdecl commit(bool is_commit, void* start, size_t size, bool* is_zero, void* arg) {
  (void)arg;
  if (is_commit) {
    if (is_zero != NULL) *is_zero = true;
    return VirtualAlloc(start, size, MEM_COMMIT, PAGE_READWRITE) != NULL;
  }
  SetEvent(is_inside);
  Sleep(INFINITE);
  return true;
}

static DWORD WINAPI collect(void* arg) {
  mi_free(arg);
  mi_collect(true);
  return 0;
}

static int end_while_a_thread_is_inside(void) {
  is_inside = CreateEventA(NULL, TRUE, FALSE, NULL);
  void* const start = VirtualAlloc(NULL, SIZE, MEM_RESERVE, PAGE_READWRITE);
  mi_arena_id_t arena;
  if (!mi_manage_memory(start, SIZE, false, false, true, -1, true, &commit, NULL, &arena)) return 2;
  void* const p = mi_heap_malloc(mi_heap_new_in_arena(arena), 3 * TEST_MIB);
  if (p == NULL) return 3;
  const HANDLE thread = CreateThread(NULL, 0, &collect, p, 0, NULL);
  if (WaitForSingleObject(is_inside, 60000) != WAIT_OBJECT_0 || thread == NULL) return 4;
  printf("inside\n");
  fflush(stdout);
  ExitProcess(7);
}

// If this fails, a program hangs at its end.
static void ending_waits_for_nobody(void** state) {
  (void)state;
  static const char* const environment[] = {"MIMALLOC_PURGE_DELAY=0", NULL};
  test_start_self("end", environment, &result);
  assert_string_equal(result.output, "inside\n");
  assert_int_equal(result.exit_status, 7);
}

int main(int argc, char** argv) {
  if (argc > 1 && strcmp(argv[1], "end") == 0) return end_while_a_thread_is_inside();
  const struct CMUnitTest tests[] = {cmocka_unit_test(ending_waits_for_nobody)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
