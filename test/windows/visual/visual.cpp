// SPDX-License-Identifier: MIT
// A program of C++, compiled by clang-cl: operators and exceptions of Visual Studio, the start and
// the end of threads and of the process. Prints what it saw; test_windows.py compares. No new-handler,
// because the ucrtbase.dll of Wine 8 keeps none (its _set_new_handler sets nothing).
#include "mimalloc-new-delete.h"
#include "mimalloc-stats.h"

#include <windows.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static size_t too_large = SIZE_MAX / 4;

static const char* new_too_large() {
  try {
    operator delete(operator new(too_large));
    return "memory";
  } catch (const std::bad_alloc&) {
    return "std::bad_alloc";
  } catch (...) {
    return "something";
  }
}

static DWORD WINAPI work(void* arg) {
  (void)arg;
  void* block[100];
  for (size_t i = 0; i < 100; i++) block[i] = operator new(i * 100);
  for (size_t i = 0; i < 100; i++) operator delete(block[i]);
  return mi_is_in_heap_region(block[7]) ? 0 : 1;
}

static long long threads_now() {
  mi_stats_t stats;
  memset(&stats, 0, sizeof(stats));
  stats.size = sizeof(stats);
  stats.version = MI_STAT_VERSION;
  return mi_stats_get(&stats) ? stats.threads.current : -1;
}

// Before main.
struct early_t {
  void* block;
  early_t() : block(operator new(100)) {}
  ~early_t() { operator delete(block); }
};
static early_t early;

int main(int argc, char** argv) {
  if (argc > 1 && strcmp(argv[1], "throw") == 0) {
    LoadLibraryA("msvcp140.dll"); // as a program has it that uses the library of C++
    printf("without memory: %s\n", new_too_large());
    printf("nothrow: %s\n", operator new(too_large, std::nothrow) == NULL ? "NULL" : "memory");
    return 0;
  }
  if (argc > 1 && strcmp(argv[1], "abort") == 0) {
    printf("without memory: %s\n", new_too_large());
    return 0;
  }
  printf("new: %s\n", mi_is_in_heap_region(early.block) ? "ours" : "of others");
  void* const p = malloc(100);
  printf("malloc: %s\n", mi_is_in_heap_region(p) ? "ours" : "of others");
  free(p);
  const long long before = threads_now();
  HANDLE thread[8];
  for (int i = 0; i < 8; i++) thread[i] = CreateThread(NULL, 0, &work, NULL, 0, NULL);
  WaitForMultipleObjects(8, thread, TRUE, INFINITE);
  DWORD failed = 0;
  for (int i = 0; i < 8; i++) {
    DWORD status;
    failed += !GetExitCodeThread(thread[i], &status) || status != 0;
  }
  printf("threads: %d failed, %d more than before\n", (int)failed, (int)(threads_now() - before));
  return 0;
}
