// SPDX-License-Identifier: MIT
// A program that loads mimalloc.dll when it runs already: malloc stays what it was, because other
// threads may be in it; the library serves by its own names, and can be unloaded.
#include "test_api.h"

#define WIN32_LEAN_AND_MEAN
#include <windows.h>

static void* find(HMODULE library, const char* name) {
  return (void*)(uintptr_t)GetProcAddress(library, name);
}

static DWORD WINAPI allocate(void* arg) {
  void* (*const malloc_of)(size_t) = (void* (*)(size_t))arg;
  return malloc_of(1000) != NULL ? 0 : 1;
}

// If this fails, a program that loads a plug-in crashes, or cannot let it go again.
static void late_library_serves_and_goes(void** state) {
  (void)state;
  for (size_t round = 0; round < 3; round++) {
    const HMODULE library = LoadLibraryA("mimalloc.dll");
    assert_non_null(library);
    bool (*const is_redirected)(void) = (bool (*)(void))find(library, "mi_is_redirected");
    bool (*const is_ours)(const void*) =
        (bool (*)(const void*))find(library, "mi_is_in_heap_region");
    void* (*const malloc_of)(size_t) = (void* (*)(size_t))find(library, "mi_malloc");
    void (*const free_of)(void*) = (void (*)(void*))find(library, "mi_free");
    assert_false(is_redirected());
    void* const p = malloc_of(100);
    void* const q = malloc(100);
    assert_true(is_ours(p) && !is_ours(q));
    free_of(p);
    free(q);
    const HANDLE thread = CreateThread(NULL, 0, &allocate, (void*)malloc_of, 0, NULL);
    DWORD status = 1;
    assert_int_equal(WaitForSingleObject(thread, 60000), WAIT_OBJECT_0);
    GetExitCodeThread(thread, &status);
    CloseHandle(thread);
    assert_int_equal(status, 0);
    void* const kept = malloc_of(100);
    assert_true(FreeLibrary(library));
    assert_null(GetModuleHandleA("mimalloc.dll"));
    MEMORY_BASIC_INFORMATION info;
    assert_true(VirtualQuery(kept, &info, sizeof(info)) != 0);
    assert_int_equal(info.State, MEM_FREE); // its memory went with it
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(late_library_serves_and_goes)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
