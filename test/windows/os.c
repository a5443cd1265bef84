// SPDX-License-Identifier: MIT
// src/os/os_windows.c, as part of this program: what os.h promises, and what only Windows has.
#define MI_SINGLE_TU 1
#include "base/text.c"
#include "os/assert.c"
#include "os/os.c"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include <mimalloc.h>

#define COUNT ((size_t)8)
#define OS_PAGE ((size_t)4096)
#define GRAIN ((size_t)65536)

#if MI_HAS_SELF_TABLE
MI_INTERNAL_DATA const mi_self_t mi_self_initial;
MI_INTERNAL_DATA mi_self_slot_t mi_self_slots[MI_SELF_SLOTS];
#else
MI_INTERNAL_DATA __thread mi_self_t mi_self_tls;
#endif

static mi_os_info_t info;

static size_t charged(void) {
  PROCESS_MEMORY_COUNTERS memory = {.cb = sizeof(memory)};
  assert_true(K32GetProcessMemoryInfo(GetCurrentProcess(), &memory, sizeof(memory)));
  return memory.PagefileUsage;
}

static size_t resident(void) {
  mi_os_usage_t usage = {0};
  mi_os_usage(&usage);
  return usage.rss;
}

static bool is_filled(const uint8_t* p, size_t size, uint8_t byte) {
  for (size_t i = 0; i < size; i++) {
    if (p[i] != byte) return false;
  }
  return true;
}

// If this fails, arenas are not where their descriptors are, or are cut at wrong places.
static void os_maps_aligned(void** state) {
  (void)state;
  for (size_t round = 0; round < 2; round++) { // with VirtualAlloc2, and as on older systems
    for (size_t alignment = OS_PAGE; alignment <= (size_t)64 * MI_MIB; alignment *= 4) {
      SetLastError(77);
      uint8_t* const p = (uint8_t*)mi_os_map(NULL, OS_PAGE, alignment, MI_OS_READ_WRITE);
      assert_non_null(p);
      assert_int_equal((uintptr_t)p % alignment, 0);
      assert_int_equal(p[0], 0);
      assert_int_equal(mi_os_unmap(p, OS_PAGE), 0);
      assert_int_equal(GetLastError(), 77);
      assert_false(mi_os_is_readable(p));
    }
    mi_atomic_store_relaxed(&mi_os_found[MI_OS_FUN_ALLOC2], 0);
  }
  mi_os_init(&info);
}

// If this fails, memory of another part of the program is used, or a free place is not.
static void os_maps_at_an_address(void** state) {
  (void)state;
  uint8_t* const p = (uint8_t*)mi_os_map(NULL, 4 * GRAIN, GRAIN, MI_OS_READ_WRITE);
  assert_non_null(p);
  assert_false(mi_os_map_at(p + GRAIN, GRAIN, MI_OS_READ_WRITE));
  assert_int_equal(mi_os_unmap(p, 4 * GRAIN), 0);
  assert_true(mi_os_map_at(p + GRAIN, GRAIN, MI_OS_READ_WRITE));
  assert_false(mi_os_map_at(p + 2 * GRAIN + OS_PAGE, GRAIN, MI_OS_READ_WRITE)); // no such address
  assert_true(mi_os_map_at(p + 2 * GRAIN, GRAIN, MI_OS_NO_ACCESS));
  assert_true(is_filled(p + GRAIN, GRAIN, 0));
  assert_int_equal(mi_os_commit(p + 2 * GRAIN, OS_PAGE), 0);
  assert_int_equal(p[2 * GRAIN], 0);
  // Both, and what is free around them.
  assert_int_equal(mi_os_unmap(p, 4 * GRAIN), 0);
  assert_true(mi_os_map_at(p, 4 * GRAIN, MI_OS_NO_ACCESS));
  assert_int_equal(mi_os_unmap(p, 4 * GRAIN), 0);
}

// If this fails, a program is refused memory because of addresses that it only reserved; or memory
// that went back is still charged.
static void os_commits_in_steps(void** state) {
  (void)state;
  const size_t size = (size_t)64 * MI_GIB;
  uint8_t* const p = (uint8_t*)mi_os_map(NULL, size, GRAIN, MI_OS_NO_ACCESS);
  assert_non_null(p);
  assert_false(mi_os_is_readable(p + GRAIN));
  const size_t before = resident();
  assert_int_equal(mi_os_commit(p + GRAIN, 32 * MI_MIB), 0);
  memset(p + GRAIN, 7, 32 * MI_MIB);
  assert_true(resident() >= before + 31 * MI_MIB);
  assert_int_equal(mi_os_commit(p, 2 * GRAIN), 0); // half of it has been
  assert_int_equal(p[GRAIN], 7);
  assert_int_equal(p[0], 0);
  assert_int_equal(mi_os_decommit(p, 33 * MI_MIB), 0);
  assert_true(resident() < before + 2 * MI_MIB);
  assert_false(mi_os_is_readable(p + GRAIN));
  assert_int_equal(mi_os_commit(p + GRAIN, GRAIN), 0);
  assert_true(is_filled(p + GRAIN, GRAIN, 0));
  // Of a part only the memory goes back.
  assert_int_equal(mi_os_unmap(p, 2 * GRAIN), 0);
  assert_false(mi_os_is_readable(p + GRAIN));
  assert_false(mi_os_map_at(p, GRAIN, MI_OS_READ_WRITE));
  assert_int_equal(mi_os_unmap(p, size), 0);
  assert_true(mi_os_map_at(p, GRAIN, MI_OS_READ_WRITE));
  assert_int_equal(mi_os_unmap(p, GRAIN), 0);
  assert_int_equal(mi_os_commit(p, GRAIN), EINVAL);
  assert_true(charged() > 0);
}

// If this fails, memory between blocks stays resident, or is not zero, or what a guard protects
// becomes accessible.
static void os_purges(void** state) {
  (void)state;
  const size_t size = 32 * MI_MIB;
  uint8_t* const p = (uint8_t*)mi_os_map(NULL, size, GRAIN, MI_OS_READ_WRITE);
  assert_non_null(p);
  const size_t before = resident();
  int (*const ways[])(void*, size_t) = {&mi_os_purge, &mi_os_remap};
  for (size_t i = 0; i < 2; i++) {
    memset(p, 7, size);
    if (i == 0) assert_int_equal(mi_os_decommit(p + GRAIN, OS_PAGE), 0);
    errno = 5;
    assert_int_equal(ways[i](p + OS_PAGE, size - 2 * OS_PAGE), 0);
    assert_int_equal(errno, 5);
    assert_true(resident() < before + 2 * MI_MIB);
    if (i == 0) {
      assert_false(mi_os_is_readable(p + GRAIN));
      assert_int_equal(mi_os_commit(p + GRAIN, OS_PAGE), 0);
    }
    assert_true(is_filled(p, OS_PAGE, 7) && is_filled(p + size - OS_PAGE, OS_PAGE, 7));
    assert_true(is_filled(p + OS_PAGE, size - 2 * OS_PAGE, 0));
  }
  memset(p, 8, OS_PAGE);
  assert_int_equal(mi_os_reset(p, size), 0);
  memset(p, 9, size);
  assert_true(is_filled(p, size, 9));
  assert_int_equal(mi_os_unmap(p, size), 0);
}

// If this fails, large pages are asked for in a way that takes all memory away, or none.
static void os_maps_large_pages_or_not(void** state) {
  (void)state;
  const size_t size = 2 * info.huge_page_size;
  uint8_t* const p = (uint8_t*)mi_os_map_large(NULL, size, info.huge_page_size);
  if (p != NULL) { // the user has the privilege
    assert_int_equal((uintptr_t)p % info.huge_page_size, 0);
    memset(p, 7, size);
    assert_int_equal(mi_os_unmap(p, size), 0);
  }
  assert_null(mi_os_map_large(NULL, MI_GIB, MI_GIB));
}

static mi_atomic(uint32_t) word;
static DWORD waited_ms;

static DWORD WINAPI wait_for_word(void* arg) {
  (void)arg;
  const ULONGLONG start = GetTickCount64();
  while (mi_atomic_load_relaxed(&word) == 1) mi_os_wait(&word, 1);
  waited_ms = (DWORD)(GetTickCount64() - start);
  return 0;
}

// If this fails, a thread that waits for a lock sleeps for ever.
static void os_wakes(void** state) {
  (void)state;
  for (size_t round = 0; round < 2; round++) { // with WaitOnAddress, and without
    mi_atomic_store_relaxed(&word, 1);
    const HANDLE thread = CreateThread(NULL, 0, &wait_for_word, NULL, 0, NULL);
    Sleep(30);
    assert_int_equal(WaitForSingleObject(thread, 0), WAIT_TIMEOUT);
    mi_atomic_store_relaxed(&word, 0);
    mi_os_wake(&word);
    assert_int_equal(WaitForSingleObject(thread, 60000), WAIT_OBJECT_0);
    CloseHandle(thread);
    mi_os_wait_ms(&word, 0, 5); // in vain
    mi_atomic_store_relaxed(&mi_os_found[MI_OS_FUN_WAIT], 0);
    mi_atomic_store_relaxed(&mi_os_found[MI_OS_FUN_WAKE], 0);
  }
  mi_os_init(&info);
}

static void* ended;
static void on_exit(void* value) { ended = value; }

static DWORD WINAPI set_and_end(void* arg) {
  mi_os_thread_on_exit(&on_exit, arg);
  return 0;
}

static DWORD WINAPI watch_and_end(void* arg) {
  mi_os_thread_watch(arg);
  return 0;
}

static void WINAPI in_fiber(void* arg) {
  mi_os_thread_on_exit(&on_exit, arg);
  SwitchToFiber(*(void**)arg);
}

static DWORD WINAPI end_behind_a_fiber(void* arg) {
  void** const both = (void**)arg;
  both[0] = ConvertThreadToFiber(NULL);
  void* const fiber = CreateFiber(0, &in_fiber, both);
  SwitchToFiber(fiber);
  DeleteFiber(fiber);
  return ended == NULL ? 0 : 1;
}

static DWORD run(LPTHREAD_START_ROUTINE f, void* arg) {
  DWORD status = 99;
  ended = NULL;
  const HANDLE thread = CreateThread(NULL, 0, f, arg, 0, NULL);
  assert_int_equal(WaitForSingleObject(thread, 60000), WAIT_OBJECT_0);
  GetExitCodeThread(thread, &status);
  CloseHandle(thread);
  return status;
}

// If this fails, what a thread has is lost when it ends, or taken from it while it lives.
static void os_tells_the_end_of_a_thread(void** state) {
  (void)state;
  int value;
  void* both[2] = {NULL, NULL};
  SetLastError(77);
  assert_false(mi_os_thread_watch(&value)); // there is no function yet
  run(&set_and_end, &value);
  assert_ptr_equal(ended, &value);
  run(&set_and_end, NULL);
  assert_null(ended);
  run(&watch_and_end, &value);
  assert_ptr_equal(ended, &value);
  assert_int_equal(run(&end_behind_a_fiber, both), 0); // not when the fiber ended
  assert_ptr_equal(ended, both);
  mi_os_thread_key_done();
  run(&set_and_end, &value);
  assert_null(ended);
}

// If this fails, options of the environment are not seen.
static void os_reads_the_environment(void** state) {
  (void)state;
  assert_int_equal(mi_os_environment_look("os_test_"), MI_OS_ENVIRONMENT_WITHOUT);
  SetEnvironmentVariableA("OS_TEST_a", "1 = 2");
  assert_int_equal(mi_os_environment_look("os_test_"), MI_OS_ENVIRONMENT_WITH);
  assert_string_equal(mi_os_environment("os_test_A"), "1 = 2");
  assert_null(mi_os_environment("os_test_"));
}

// If this fails, a program that asks for variables in wide characters gets none, or a part.
static void os_has_wide_variables(void** state) {
  (void)state;
  wchar_t* value = NULL;
  size_t size = 77;
  SetEnvironmentVariableW(L"OS_TEST_w", L"w\u00e4rd");
  assert_int_equal(mi_wdupenv_s(&value, &size, L"os_test_W"), 0);
  assert_true(mi_is_in_heap_region(value));
  assert_int_equal(size, 5);
  assert_memory_equal(value, L"w\u00e4rd", 10);
  mi_free(value);
  SetEnvironmentVariableW(L"OS_TEST_empty", L"");
  if (GetEnvironmentVariableW(L"OS_TEST_empty", NULL, 0) == 1) { // there can be one
    assert_int_equal(mi_wdupenv_s(&value, &size, L"OS_TEST_empty"), 0);
    assert_int_equal(size, 1);
    assert_int_equal(value[0], 0);
    mi_free(value);
  }
  assert_int_equal(mi_wdupenv_s(&value, &size, L"OS_TEST_none"), 0);
  assert_null(value);
  assert_int_equal(size, 0);
  assert_int_equal(mi_wdupenv_s(NULL, &size, L"OS_TEST_w"), EINVAL);
  assert_int_equal(mi_wdupenv_s(&value, NULL, NULL), EINVAL);
}

// If this fails, a profile is not written, or not where it should be.
static void os_writes_files(void** state) {
  (void)state;
  char folder[MAX_PATH], path[MAX_PATH], resolved[4096];
  assert_true(GetTempPathA(sizeof(folder), folder) > 0);
  assert_true(GetTempFileNameA(folder, "mi", 0, path) > 0);
  int file;
  SetLastError(77);
  assert_int_equal(mi_os_file_create(path, &file), 0);
  assert_int_equal(mi_os_file_write(file, "text", 4), 0);
  assert_int_equal(mi_os_file_close(file), 0);
  assert_int_equal(mi_os_file_close(file), EBADF);
  assert_int_equal(mi_os_file_write(file, "text", 4), EBADF);
  assert_int_equal(mi_os_file_create("Z:\\nowhere\\at\\all", &file), ENOENT);
  // As it is spelled in the folder, without "." and "..".
  const size_t length = strlen(path);
  const char* const name = strrchr(path, '\\') + 1;
  char other[MAX_PATH];
  snprintf(other, sizeof(other), "%.*s.\\..\\%s", (int)(name - path), path, strstr(path, name));
  assert_int_equal(mi_os_real_path(path, resolved), 0);
  assert_true(resolved[1] == ':' && strlen(resolved) >= 4 && strstr(resolved, "\\\\?\\") == NULL);
  assert_int_equal(mi_os_real_path("C:\\.\\windows\\..", resolved), 0);
  assert_string_equal(resolved, "C:\\");
  assert_int_equal(mi_os_real_path("C:\\nowhere", resolved), ENOENT);
  assert_int_equal(GetLastError(), 77);
  char text[16] = "";
  FILE* const read = fopen(path, "rb");
  assert_int_equal(fread(text, 1, sizeof(text), read), 4);
  fclose(read);
  DeleteFileA(path);
  assert_memory_equal(text, "text", 4);
  assert_true(length > 0);
}

// If this fails, figures of the process are wrong, or the keys of a secure build can be guessed.
static void os_knows_the_process(void** state) {
  (void)state;
  mi_os_usage_t usage = {0};
  mi_os_usage(&usage);
  assert_true(usage.rss > MI_MIB && usage.rss_peak >= usage.rss);
  assert_int_equal(mi_os_process_number(), GetCurrentProcessId());
  assert_int_equal(mi_os_thread_number(), GetCurrentThreadId());
  assert_int_equal(mi_tls_thread_id(), (uintptr_t)NtCurrentTeb());
  assert_true(mi_os_numa_node() < mi_os_numa_nodes());
  assert_int_equal(info.page_size, OS_PAGE);
  assert_false(info.has_overcommit);
  const uint64_t from = mi_os_now_us();
  Sleep(20);
  const uint64_t took = mi_os_now_us() - from;
  assert_true(took >= 15000 && took < 60000000);
  uint64_t words[2][4] = {{0}};
  mi_os_secret(words[0], 4);
  mi_os_secret(words[1], 4);
  for (size_t i = 0; i < 4; i++) assert_true(words[0][i] != 0 && words[0][i] != words[1][i]);
  assert_true(mi_os_random() != 0);
}

int main(void) {
  mi_os_init(&info);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(os_maps_aligned),
      cmocka_unit_test(os_maps_at_an_address),
      cmocka_unit_test(os_commits_in_steps),
      cmocka_unit_test(os_purges),
      cmocka_unit_test(os_maps_large_pages_or_not),
      cmocka_unit_test(os_wakes),
      cmocka_unit_test(os_tells_the_end_of_a_thread),
      cmocka_unit_test(os_reads_the_environment),
      cmocka_unit_test(os_has_wide_variables),
      cmocka_unit_test(os_writes_files),
      cmocka_unit_test(os_knows_the_process),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
