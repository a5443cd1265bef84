// SPDX-License-Identifier: MIT
// malloc and its relatives of a C run-time, in a program that is linked with mimalloc.dll: they are
// ours, and cope with blocks that are older. Built twice, with msvcrt.dll (IS_UCRT 0) and with
// ucrtbase.dll.
#include <malloc.h>
#include <process.h>
#include <wchar.h>

#include "test_api.h"

#define WIN32_LEAN_AND_MEAN
#include <windows.h>

// Names that headers lack.
#if IS_UCRT
#define CRT "ucrtbase.dll"
extern void* _malloc_base(size_t size);
extern void _free_base(void* p);
extern size_t _aligned_msize(void* p, size_t alignment, size_t offset);
#else
#define CRT "msvcrt.dll"
#endif

static spawn_result_t result;

static void* crt(const char* name) {
  return (void*)(uintptr_t)GetProcAddress(GetModuleHandleA(CRT), name);
}

// A block as the run-time made it before its code was changed.
static void* old_block(size_t size) {
  void* const p = HeapAlloc((HANDLE)_get_heap_handle(), 0, size);
  assert_non_null(p);
  assert_false(mi_is_in_heap_region(p));
  memset(p, 7, size);
  return p;
}

// The same, aligned: the word before it says where the block is.
static void* old_aligned(size_t size, size_t alignment) {
  char* const base = (char*)old_block(size + alignment + 8);
  char* const p = (char*)(((uintptr_t)base + 8 + alignment) & ~(alignment - 1));
  ((void**)(void*)p)[-1] = base;
  return p;
}

static void check_ours(void* p, size_t size) {
  assert_true(mi_is_in_heap_region(p));
  assert_true(mi_usable_size(p) >= size);
}

// If this fails, a program has another malloc than the library says.
static void redirect_has_all_names(void** state) {
  (void)state;
  assert_true(mi_is_redirected());
  assert_true(malloc == (void* (*)(size_t))crt("malloc") || mi_is_redirected());
  char* p = (char*)malloc(10);
  check_ours(p, 10);
  assert_int_equal((uintptr_t)p % 16, 0);
  assert_int_equal(_msize(p), mi_usable_size(p));
  strcpy(p, "content");
  p = (char*)realloc(p, 5000);
  check_ours(p, 5000);
  assert_string_equal(p, "content");
  assert_ptr_equal(_expand(p, 5001), mi_usable_size(p) >= 5001 ? p : NULL);
  assert_null(_expand(p, 50000000));
  assert_null(realloc(p, 0));
  p = (char*)calloc(100, 7);
  check_ours(p, 700);
  assert_true(test_is_filled(p, 700, 0));
  free(p);
  free(NULL);
  p = (char*)_aligned_malloc(100, 256);
  check_ours(p, 100);
  assert_int_equal((uintptr_t)p % 256, 0);
  p = (char*)_aligned_realloc(p, 10000, 512);
  check_ours(p, 10000);
  assert_int_equal((uintptr_t)p % 512, 0);
  assert_null(_aligned_realloc(p, 0, 512));
  p = (char*)_aligned_offset_malloc(100, 256, 24);
  assert_int_equal(((uintptr_t)p + 24) % 256, 0);
  p = (char*)_aligned_offset_realloc(p, 200, 256, 40);
  assert_int_equal(((uintptr_t)p + 40) % 256, 0);
  _aligned_free(p);
  _aligned_free(NULL);
#if IS_UCRT
  p = (char*)_malloc_base(100);
  check_ours(p, 100);
  _free_base(p);
  p = (char*)_recalloc(calloc(5, 10), 50, 10);
  check_ours(p, 500);
  assert_true(test_is_filled(p, 500, 0));
  free(p);
  p = (char*)_aligned_recalloc(NULL, 50, 10, 128);
  check_ours(p, 500);
  assert_true(test_is_filled(p, 500, 0));
  assert_int_equal(_aligned_msize(p, 128, 0), mi_usable_size(p));
  _aligned_free(p);
#endif
}

// If this fails, strings that the run-time makes are freed by another allocator.
static void redirect_has_what_the_run_time_makes(void** state) {
  (void)state;
  char* const s = _strdup("a string of its own");
  check_ours(s, 20);
  assert_string_equal(s, "a string of its own");
  free(s);
  wchar_t* const w = _wcsdup(L"wide");
  check_ours(w, 10);
  free(w);
  char* const path = _fullpath(NULL, "x", 0);
  check_ours(path, 3);
  free(path);
#if !IS_UCRT
  void* (*const new_of)(size_t) = (void* (*)(size_t))crt("??2@YAPEAX_K@Z");
  void (*const delete_of)(void*) = (void (*)(void*))crt("??3@YAXPEAX@Z");
  // That of Wine 8 takes blocks from the heap of the run-time, without malloc.
  delete_of(new_of(100));
  delete_of(malloc(100));
  free(new_of(100));
  delete_of(old_block(100));
#endif
}

// If this fails, a program crashes with the first block that is older than the library.
static void redirect_knows_older_blocks(void** state) {
  (void)state;
  free(old_block(100));
  assert_int_equal(_msize(old_block(123)), 123);
  char* p = (char*)realloc(old_block(100), 200);
  check_ours(p, 200);
  assert_true(test_is_filled(p, 100, 7));
  p = (char*)realloc(p, 50);
  assert_true(test_is_filled(p, 50, 7));
  free(p);
  assert_null(realloc(old_block(100), 0));
  p = (char*)old_block(100);
  assert_ptr_equal(_expand(p, 90), p);
  free(p);
  _aligned_free(old_aligned(100, 64));
  p = (char*)_aligned_realloc(old_aligned(100, 64), 300, 128);
  check_ours(p, 300);
  assert_true(test_is_filled(p, 100, 7));
  _aligned_free(p);
#if IS_UCRT
  p = (char*)_recalloc(old_block(100), 3, 100);
  assert_true(test_is_filled(p, 100, 7) && test_is_filled(p + 100, 200, 0));
  free(p);
#endif
}

#if IS_UCRT
static int handled;
static int on_new(size_t size) {
  (void)size;
  return ++handled < 3;
}
#endif

// If this fails, a program does not notice that there is no memory.
static void redirect_fails_as_the_run_time_does(void** state) {
  (void)state;
  int* (*const errno_of)(void) = (int* (*)(void))crt("_errno");
  *errno_of() = 0;
  assert_null(malloc(TEST_BEYOND));
  assert_int_equal(*errno_of(), ENOMEM);
  *errno_of() = 0;
  assert_null(calloc(test_opaque(SIZE_MAX / 2), 3));
  assert_int_equal(*errno_of(), ENOMEM);
  void* const p = malloc(10);
  *errno_of() = 0;
  assert_null(realloc(p, TEST_BEYOND));
  assert_int_equal(*errno_of(), ENOMEM);
  free(p);
  *errno_of() = 0;
  assert_null(_aligned_malloc(10, test_opaque(24)));
  assert_int_equal(*errno_of(), EINVAL);
#if IS_UCRT
  typedef int (*handler_t)(size_t);
  handler_t (*const set_handler)(handler_t) =
      (handler_t(*)(handler_t))crt("?_set_new_handler@@YAP6AH_K@ZP6AH0@Z@Z");
  int (*const set_mode)(int) = (int (*)(int))crt("_set_new_mode");
  if (set_handler == NULL || set_mode == NULL) return;
  set_handler(&on_new);
  assert_null(malloc(TEST_BEYOND));
  assert_int_equal(handled, 0);
  set_mode(1);
  assert_null(malloc(TEST_BEYOND));
  assert_int_equal(handled, 3);
  set_mode(0);
  set_handler(NULL);
#endif
}

static void* volatile slots[4][200];

static unsigned __stdcall work(void* arg) {
  uint64_t seed = (uintptr_t)arg;
  for (size_t i = 0; i < 20000; i++) {
    void* const p =
        i % 3 == 0 ? calloc(1, random_size(&seed, 14) + 1) : malloc(random_size(&seed, 14) + 1);
    *(char*)p = 1;
    free(InterlockedExchangePointer(&slots[random_below(&seed, 4)][random_below(&seed, 200)], p));
  }
  return 0;
}

// If this fails, threads of a program damage each other's blocks.
static void redirect_with_threads(void** state) {
  (void)state;
  HANDLE threads[4];
  for (size_t i = 0; i < 4; i++) {
    threads[i] = (HANDLE)_beginthreadex(NULL, 0, &work, (void*)(i + 1), 0, NULL);
    assert_non_null(threads[i]);
  }
  for (size_t i = 0; i < 4; i++) {
    assert_int_equal(WaitForSingleObject(threads[i], 120000), WAIT_OBJECT_0);
    CloseHandle(threads[i]);
  }
  for (size_t i = 0; i < 4; i++) {
    for (size_t k = 0; k < 200; k++) free(slots[i][k]);
  }
}

static int tell_all(void) {
  void* const p = malloc(100);
  printf("redirected %d ours %d\n", mi_is_redirected(), mi_is_in_heap_region(p));
  free(realloc(p, 1000));
  return 0;
}

// If this fails, a program cannot be run without us, or says so when it can.
static void redirect_can_be_switched_off(void** state) {
  (void)state;
  static const char* const off[] = {"MIMALLOC_DISABLE_REDIRECT=1", NULL};
  static const char* const on[] = {"MIMALLOC_DISABLE_REDIRECT=0", "MIMALLOC_VERBOSE=1", NULL};
  test_start_self("tell", off, &result);
  assert_string_equal(result.output, "redirected 0 ours 0\n");
  test_start_self("tell", on, &result);
  assert_int_equal(spawn_count(&result, "redirected 1 ours 1\n"), 1);
  assert_int_equal(spawn_count(&result, "malloc of " CRT " is redirected."), 1);
  assert_int_equal(result.exit_status, 0);
}

int main(int argc, char** argv) {
  if (argc > 1 && strcmp(argv[1], "tell") == 0) return tell_all();
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(redirect_has_all_names),
      cmocka_unit_test(redirect_has_what_the_run_time_makes),
      cmocka_unit_test(redirect_knows_older_blocks),
      cmocka_unit_test(redirect_fails_as_the_run_time_does),
      cmocka_unit_test(redirect_with_threads),
      cmocka_unit_test(redirect_can_be_switched_off),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
