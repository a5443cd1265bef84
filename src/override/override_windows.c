// SPDX-License-Identifier: MIT
// override_windows.c - malloc and its relatives of the C run-times of Windows lead to this library,
// from the moment on at which the DLL is loaded with a program.
//
//   program, other DLLs --> malloc of msvcrt.dll --> jump --> stub near it --> mi_redirect_malloc_0
//                           malloc of ucrtbase.dll --> ...                     mi_redirect_malloc_1
//
// On Windows a DLL is asked for its own functions, whoever else has such names. So the functions of
// the run-times themselves are changed: their first five bytes become a jump. All who call them,
// the run-time itself among them (strdup, operator new, ...), get our blocks.
//
// OVERRIDE_WINDOWS-1  the code is changed only while the program starts, when no other thread runs
//     code of a run-time: under the lock of the loader, in the first call of `DllMain`, which tells
//     whether the DLL came with the program. If it is loaded later, nothing is changed. So it does
//     not matter that five bytes are not written at once.
// OVERRIDE_WINDOWS-2  of one run-time all functions are changed, or none: where the system forbids
//     to change code (a process that asks for that), or has no memory near it, all stays as it was.
// OVERRIDE_WINDOWS-3  a jump of five bytes fits into every function: those of Windows start at
//     multiples of 16, and what is behind a shorter one is never run. The original is never called
//     again, so no instruction has to be moved.
// OVERRIDE_WINDOWS-4  a block that is not ours is one of the run-time, from before the change, or
//     from who asked for its heap: it is on the heap of the run-time, and goes back there. Each
//     run-time has functions of its own here, which know that heap.
// OVERRIDE_WINDOWS-5  names that are made of others here, by calls inside of a run-time, are not
//     changed: _strdup, and all that return strings or names of files; operator new and delete of
//     msvcrt, since only they can throw. (Those of newer compilers are in the program, and call
//     malloc.)
//
// Control flow guard does not mind: calls through pointers still go to the start of a function, and
// a direct jump is not checked. A processor that runs what was just written is told to look again.
// Deliberately absent: other processors than x86-64; run-times that are linked into a program,
// where there is no name to find; older ones (msvcr120.dll and before), and those that are loaded
// later.
#if defined(MI_MALLOC_OVERRIDE) && defined(_WIN32) && defined(__x86_64__)

#include <errno.h>
#include <string.h>

#include <windows.h>

#include "../api/api.h"

#if !defined(MI_SHARED_LIB_EXPORT)
#error "On Windows only the DLL replaces malloc: build without MI_MALLOC_OVERRIDE"
#endif

typedef struct mi_redirect_crt_s {
  const char* name;
  HMODULE module; // NULL: not in this process, or not changed
  // Of the run-time; it need not be initialised yet when its code is changed.
  intptr_t (*heap_of)(void);
  int* (*errno_of)(void);
  int (*call_new_handler)(size_t size);
  int (*query_new_mode)(void); // NULL: there is none
} mi_redirect_crt_t;

// Written by OVERRIDE_WINDOWS-1, before anybody calls the functions below.
static mi_redirect_crt_t mi_redirect_crt[] = {{.name = "msvcrt.dll"}, {.name = "ucrtbase.dll"}};
#define MI_REDIRECT_CRTS (sizeof(mi_redirect_crt) / sizeof(mi_redirect_crt[0]))

// -- What the functions of a run-time do now --

static bool mi_redirect_is_ours(const void* p) { return mi_likely(mi_is_in_heap_region(p)); }

static HANDLE mi_redirect_heap(const mi_redirect_crt_t* crt) { return (HANDLE)crt->heap_of(); }

// After an allocation failed: true if the new-handler, which a program can ask malloc to call, may
// have freed memory.
static mi_attr_cold bool mi_redirect_retry(const mi_redirect_crt_t* crt, size_t size) {
  const bool has_handler = crt->query_new_mode != NULL && crt->query_new_mode() != 0;
  if (has_handler && crt->call_new_handler != NULL && crt->call_new_handler(size) != 0) return true;
  *crt->errno_of() = ENOMEM;
  return false;
}

static mi_attr_cold void* mi_redirect_invalid(const mi_redirect_crt_t* crt) {
  *crt->errno_of() = EINVAL;
  return NULL;
}

static void* mi_redirect_malloc(const mi_redirect_crt_t* crt, size_t size) {
  void* p;
  do p = mi_malloc(size);
  while (mi_unlikely(p == NULL) && mi_redirect_retry(crt, size));
  return p;
}

static void* mi_redirect_calloc(const mi_redirect_crt_t* crt, size_t count, size_t size) {
  void* p;
  do p = mi_calloc(count, size);
  while (mi_unlikely(p == NULL) && mi_redirect_retry(crt, size));
  return p;
}

static void mi_redirect_free(const mi_redirect_crt_t* crt, void* p) {
  if (mi_redirect_is_ours(p)) {
    mi_free(p);
  } else if (p != NULL) { // OVERRIDE_WINDOWS-4
    HeapFree(mi_redirect_heap(crt), 0, p);
  }
}

static size_t mi_redirect_size(const mi_redirect_crt_t* crt, const void* p) {
  return mi_redirect_is_ours(p) ? mi_usable_size(p) : HeapSize(mi_redirect_heap(crt), 0, p);
}

// Replace a block of the run-time by one of ours. `size` is not 0.
static mi_attr_cold void* mi_redirect_move(const mi_redirect_crt_t* crt, void* p, size_t size) {
  const size_t old_size = HeapSize(mi_redirect_heap(crt), 0, p);
  if (old_size == SIZE_MAX) return mi_redirect_invalid(crt);
  void* const q = mi_redirect_malloc(crt, size);
  if (q == NULL) return NULL;
  memcpy(q, p, mi_bits_min(old_size, size));
  HeapFree(mi_redirect_heap(crt), 0, p);
  return q;
}

static void* mi_redirect_realloc(const mi_redirect_crt_t* crt, void* p, size_t size) {
  if (mi_unlikely(p == NULL)) return mi_redirect_malloc(crt, size);
  if (mi_unlikely(size == 0)) {
    mi_redirect_free(crt, p);
    return NULL;
  }
  if (mi_unlikely(!mi_redirect_is_ours(p))) return mi_redirect_move(crt, p, size);
  void* q;
  do q = mi_realloc(p, size);
  while (mi_unlikely(q == NULL) && mi_redirect_retry(crt, size));
  return q;
}

static void* mi_redirect_recalloc(const mi_redirect_crt_t* crt, void* p, size_t count,
                                  size_t size) {
  size_t total;
  if (mi_bits_mul_overflows(count, size, &total)) {
    *crt->errno_of() = ENOMEM;
    return NULL;
  }
  if (p == NULL) return mi_redirect_calloc(crt, count, size);
  const size_t old_size = mi_redirect_size(crt, p);
  uint8_t* const q = (uint8_t*)mi_redirect_realloc(crt, p, total);
  if (q != NULL && total > old_size) memset(q + old_size, 0, total - old_size);
  return q;
}

static void* mi_redirect_expand(const mi_redirect_crt_t* crt, void* p, size_t size) {
  if (p == NULL) return mi_redirect_invalid(crt);
  if (mi_redirect_is_ours(p)) return mi_expand(p, size);
  return HeapReAlloc(mi_redirect_heap(crt), HEAP_REALLOC_IN_PLACE_ONLY, p, size);
}

static size_t mi_redirect_msize(const mi_redirect_crt_t* crt, void* p) {
  if (p != NULL) return mi_redirect_size(crt, p);
  mi_redirect_invalid(crt);
  return SIZE_MAX;
}

// -- Aligned blocks. Those of a run-time lie in blocks of its malloc, and the word before them, as
// far as that is aligned, says where --

static void* mi_redirect_base(const void* p) {
  return ((void**)mi_bits_align_down((uintptr_t)p, sizeof(void*)))[-1];
}

static void* mi_redirect_aligned_offset_malloc(const mi_redirect_crt_t* crt, size_t size,
                                               size_t alignment, size_t offset) {
  if (!mi_bits_is_power_of_two(alignment)) return mi_redirect_invalid(crt);
  if (offset != 0 && offset >= size) return mi_redirect_invalid(crt);
  void* p;
  do p = mi_malloc_aligned_at(size, alignment, offset);
  while (mi_unlikely(p == NULL) && mi_redirect_retry(crt, size));
  return p;
}

static void* mi_redirect_aligned_malloc(const mi_redirect_crt_t* crt, size_t size,
                                        size_t alignment) {
  return mi_redirect_aligned_offset_malloc(crt, size, alignment, 0);
}

static void mi_redirect_aligned_free(const mi_redirect_crt_t* crt, void* p) {
  if (mi_redirect_is_ours(p)) {
    mi_free(p);
  } else if (p != NULL) {
    mi_redirect_free(crt, mi_redirect_base(p));
  }
}

static size_t mi_redirect_aligned_size(const mi_redirect_crt_t* crt, const void* p) {
  if (mi_redirect_is_ours(p)) return mi_usable_size(p);
  const uint8_t* const base = (const uint8_t*)mi_redirect_base(p);
  return mi_redirect_size(crt, base) - (size_t)((const uint8_t*)p - base);
}

static size_t mi_redirect_aligned_msize(const mi_redirect_crt_t* crt, void* p, size_t alignment,
                                        size_t offset) {
  (void)alignment, (void)offset;
  if (p != NULL) return mi_redirect_aligned_size(crt, p);
  mi_redirect_invalid(crt);
  return SIZE_MAX;
}

static void* mi_redirect_aligned_offset_realloc(const mi_redirect_crt_t* crt, void* p, size_t size,
                                                size_t alignment, size_t offset) {
  if (p == NULL) return mi_redirect_aligned_offset_malloc(crt, size, alignment, offset);
  if (size == 0) {
    mi_redirect_aligned_free(crt, p);
    return NULL;
  }
  if (!mi_bits_is_power_of_two(alignment)) return mi_redirect_invalid(crt);
  if (mi_redirect_is_ours(p)) {
    void* q;
    do q = mi_realloc_aligned_at(p, size, alignment, offset);
    while (mi_unlikely(q == NULL) && mi_redirect_retry(crt, size));
    return q;
  }
  void* const q = mi_redirect_aligned_offset_malloc(crt, size, alignment, offset);
  if (q == NULL) return NULL;
  memcpy(q, p, mi_bits_min(mi_redirect_aligned_size(crt, p), size));
  mi_redirect_aligned_free(crt, p);
  return q;
}

static void* mi_redirect_aligned_realloc(const mi_redirect_crt_t* crt, void* p, size_t size,
                                         size_t alignment) {
  return mi_redirect_aligned_offset_realloc(crt, p, size, alignment, 0);
}

static void* mi_redirect_aligned_offset_recalloc(const mi_redirect_crt_t* crt, void* p,
                                                 size_t count, size_t size, size_t alignment,
                                                 size_t offset) {
  size_t total;
  if (mi_bits_mul_overflows(count, size, &total)) {
    *crt->errno_of() = ENOMEM;
    return NULL;
  }
  const size_t old_size = p == NULL ? 0 : mi_redirect_aligned_size(crt, p);
  uint8_t* const q = (uint8_t*)mi_redirect_aligned_offset_realloc(crt, p, total, alignment, offset);
  if (q != NULL && total > old_size) memset(q + old_size, 0, total - old_size);
  return q;
}

static void* mi_redirect_aligned_recalloc(const mi_redirect_crt_t* crt, void* p, size_t count,
                                          size_t size, size_t alignment) {
  return mi_redirect_aligned_offset_recalloc(crt, p, count, size, alignment, 0);
}

// -- The same for each run-time --

// F(our name, result, parameters, arguments, names in the run-time)
#define MI_REDIRECT_FUNCTIONS(F, k)                                                                \
  F(k, malloc, void*, (size_t size), (crt, size), "malloc", "_malloc_base")                        \
  F(k, calloc, void*, (size_t count, size_t size), (crt, count, size), "calloc", "_calloc_base")   \
  F(k, realloc, void*, (void* p, size_t size), (crt, p, size), "realloc", "_realloc_base")         \
  F(k, free, void, (void* p), (crt, p), "free", "_free_base")                                      \
  F(k, msize, size_t, (void* p), (crt, p), "_msize", "_msize_base")                                \
  F(k, expand, void*, (void* p, size_t size), (crt, p, size), "_expand", "_expand_base")           \
  F(k, recalloc, void*, (void* p, size_t count, size_t size), (crt, p, count, size), "_recalloc",  \
    "_recalloc_base")                                                                              \
  F(k, aligned_malloc, void*, (size_t size, size_t alignment), (crt, size, alignment),             \
    "_aligned_malloc", NULL)                                                                       \
  F(k, aligned_free, void, (void* p), (crt, p), "_aligned_free", NULL)                             \
  F(k, aligned_realloc, void*, (void* p, size_t size, size_t alignment),                           \
    (crt, p, size, alignment), "_aligned_realloc", NULL)                                           \
  F(k, aligned_recalloc, void*, (void* p, size_t count, size_t size, size_t alignment),            \
    (crt, p, count, size, alignment), "_aligned_recalloc", NULL)                                   \
  F(k, aligned_msize, size_t, (void* p, size_t alignment, size_t offset),                          \
    (crt, p, alignment, offset), "_aligned_msize", NULL)                                           \
  F(k, aligned_offset_malloc, void*, (size_t size, size_t alignment, size_t offset),               \
    (crt, size, alignment, offset), "_aligned_offset_malloc", NULL)                                \
  F(k, aligned_offset_realloc, void*, (void* p, size_t size, size_t alignment, size_t offset),     \
    (crt, p, size, alignment, offset), "_aligned_offset_realloc", NULL)                            \
  F(k, aligned_offset_recalloc, void*,                                                             \
    (void* p, size_t count, size_t size, size_t alignment, size_t offset),                         \
    (crt, p, count, size, alignment, offset), "_aligned_offset_recalloc", NULL)

#define MI_REDIRECT_DEFINE(k, name, result, parameters, arguments, first, second)                  \
  static result __cdecl mi_redirect_##name##_##k parameters {                                      \
    const mi_redirect_crt_t* const crt = &mi_redirect_crt[k];                                      \
    return mi_redirect_##name arguments;                                                           \
  }
MI_REDIRECT_FUNCTIONS(MI_REDIRECT_DEFINE, 0)
MI_REDIRECT_FUNCTIONS(MI_REDIRECT_DEFINE, 1)

typedef struct mi_redirect_name_s {
  const char* name[2]; // in the run-time; NULL none. Not all versions have all
  uintptr_t ours;
} mi_redirect_name_t;

#define MI_REDIRECT_ROW(k, name, result, parameters, arguments, first, second)                     \
  {{first, second}, (uintptr_t)&mi_redirect_##name##_##k},
static const mi_redirect_name_t mi_redirect_names[MI_REDIRECT_CRTS][15] = {
    {MI_REDIRECT_FUNCTIONS(MI_REDIRECT_ROW, 0)},
    {MI_REDIRECT_FUNCTIONS(MI_REDIRECT_ROW, 1)},
};
#define MI_REDIRECT_NAMES (sizeof(mi_redirect_names[0]) / sizeof(mi_redirect_names[0][0]))

// -- Changing the code --

#define MI_REDIRECT_JUMP_SIZE 5 // E9 and the distance
#define MI_REDIRECT_STUB_SIZE 16 // FF 25 0: a jump to the address behind it
#define MI_REDIRECT_MAX (2 * MI_REDIRECT_NAMES)
#define MI_REDIRECT_REACH ((uintptr_t)1 << 30) // of that distance, with the size of any module
#define MI_REDIRECT_GRANULARITY ((uintptr_t)64 * MI_KIB)

typedef struct mi_redirect_patch_s {
  uint8_t* at;
  uint8_t before[MI_REDIRECT_JUMP_SIZE];
} mi_redirect_patch_t;

// Map memory for stubs at an address that a jump in the module reaches, behind it or before it.
static uint8_t* mi_redirect_map_near(HMODULE module, size_t size) {
  MEMORY_BASIC_INFORMATION info;
  const uintptr_t base = (uintptr_t)module;
  for (uintptr_t at = base; at < base + MI_REDIRECT_REACH;
       at = (uintptr_t)info.BaseAddress + info.RegionSize) {
    if (VirtualQuery((void*)at, &info, sizeof(info)) == 0) break;
    const uintptr_t start = mi_bits_align_up((uintptr_t)info.BaseAddress, MI_REDIRECT_GRANULARITY);
    if (info.State != MEM_FREE || start + size > (uintptr_t)info.BaseAddress + info.RegionSize)
      continue;
    void* const p = VirtualAlloc((void*)start, size, MEM_RESERVE | MEM_COMMIT, PAGE_READWRITE);
    if (p != NULL) return (uint8_t*)p;
  }
  uintptr_t at = base;
  while (at > MI_REDIRECT_GRANULARITY && base - at < MI_REDIRECT_REACH) {
    at = mi_bits_align_down(at - 1, MI_REDIRECT_GRANULARITY);
    void* const p = VirtualAlloc((void*)at, size, MEM_RESERVE | MEM_COMMIT, PAGE_READWRITE);
    if (p != NULL) return (uint8_t*)p;
  }
  return NULL;
}

static bool mi_redirect_write(uint8_t* at, const uint8_t* bytes) {
  DWORD before;
  if (!VirtualProtect(at, MI_REDIRECT_JUMP_SIZE, PAGE_EXECUTE_READWRITE, &before)) return false;
  memcpy(at, bytes, MI_REDIRECT_JUMP_SIZE);
  VirtualProtect(at, MI_REDIRECT_JUMP_SIZE, before, &before);
  FlushInstructionCache(GetCurrentProcess(), at, MI_REDIRECT_JUMP_SIZE);
  return true;
}

// Have the function at `at` jump to the stub.
static bool mi_redirect_patch(mi_redirect_patch_t* patch, uint8_t* at, const uint8_t* stub) {
  uint8_t jump[MI_REDIRECT_JUMP_SIZE] = {0xE9};
  const int64_t distance = stub - (at + MI_REDIRECT_JUMP_SIZE);
  if (distance != (int32_t)distance) return false;
  const int32_t distance32 = (int32_t)distance;
  memcpy(jump + 1, &distance32, sizeof(distance32));
  patch->at = at;
  memcpy(patch->before, at, sizeof(patch->before));
  return mi_redirect_write(at, jump);
}

static void mi_redirect_fill_stub(uint8_t* stub, uintptr_t target) {
  static const uint8_t jump[] = {0xFF, 0x25, 0, 0, 0, 0};
  memcpy(stub, jump, sizeof(jump));
  memcpy(stub + sizeof(jump), &target, sizeof(target));
}

// A name may be that of a function in another module, which is not the run-time's own.
static uint8_t* mi_redirect_find(HMODULE module, const char* name) {
  MEMORY_BASIC_INFORMATION info;
  if (name == NULL) return NULL;
  uint8_t* const at = (uint8_t*)(uintptr_t)GetProcAddress(module, name);
  if (at == NULL || VirtualQuery(at, &info, sizeof(info)) == 0) return NULL;
  return info.AllocationBase == (void*)module ? at : NULL;
}

static bool mi_redirect_is_patched(const mi_redirect_patch_t* patches, size_t count,
                                   const uint8_t* at) {
  for (size_t i = 0; i < count; i++) {
    if (patches[i].at == at) return true; // two names of one function
  }
  return false;
}

// Change all functions of a run-time, or none: OVERRIDE_WINDOWS-2.
static bool mi_redirect_patch_all(HMODULE module, const mi_redirect_name_t* names) {
  mi_redirect_patch_t patches[MI_REDIRECT_MAX];
  size_t count = 0;
  bool is_done = true;
  const size_t size = MI_REDIRECT_NAMES * MI_REDIRECT_STUB_SIZE;
  uint8_t* const stubs = mi_redirect_map_near(module, size);
  if (stubs == NULL) return false;
  for (size_t i = 0; i < MI_REDIRECT_NAMES; i++) {
    mi_redirect_fill_stub(stubs + i * MI_REDIRECT_STUB_SIZE, names[i].ours);
  }
  DWORD before;
  is_done = VirtualProtect(stubs, size, PAGE_EXECUTE_READ, &before);
  FlushInstructionCache(GetCurrentProcess(), stubs, size);
  for (size_t i = 0; i < 2 * MI_REDIRECT_NAMES && is_done; i++) {
    uint8_t* const at = mi_redirect_find(module, names[i / 2].name[i % 2]);
    if (at == NULL || mi_redirect_is_patched(patches, count, at)) continue;
    is_done = mi_redirect_patch(&patches[count], at, stubs + i / 2 * MI_REDIRECT_STUB_SIZE);
    if (is_done) count++;
  }
  if (is_done) return true;
  while (count > 0) {
    count--;
    mi_redirect_write(patches[count].at, patches[count].before);
  }
  VirtualFree(stubs, 0, MEM_RELEASE);
  return false;
}

static void* mi_redirect_function(const mi_redirect_crt_t* crt, const char* name) {
  return (void*)(uintptr_t)GetProcAddress(crt->module, name);
}

static bool mi_redirect_start_crt(size_t k) {
  mi_redirect_crt_t* const crt = &mi_redirect_crt[k];
  crt->module = GetModuleHandleA(crt->name);
  if (crt->module == NULL) return false;
  crt->heap_of = (intptr_t(*)(void))mi_redirect_function(crt, "_get_heap_handle");
  crt->errno_of = (int* (*)(void))mi_redirect_function(crt, "_errno");
  crt->call_new_handler = (int (*)(size_t))mi_redirect_function(crt, "_callnewh");
  crt->query_new_mode = (int (*)(void))mi_redirect_function(crt, "_query_new_mode");
  if (crt->heap_of != NULL && crt->errno_of != NULL &&
      mi_redirect_patch_all(crt->module, mi_redirect_names[k])) {
    mi_hook_verbose("malloc of %s is redirected.\n", crt->name);
    return true;
  }
  mi_hook_warning("malloc of %s cannot be redirected: its code may not be changed.\n", crt->name);
  crt->module = NULL;
  return false;
}

// True unless the user said otherwise.
static bool mi_redirect_is_wanted(void) {
  const char* const value = mi_os_environment(MI_ENVIRONMENT_PREFIX "disable_redirect");
  return value == NULL || value[0] == 0 || (value[0] == '0' && value[1] == 0);
}

BOOL WINAPI DllMain(HINSTANCE module, DWORD reason, void* is_with_program);
BOOL WINAPI DllMain(HINSTANCE module, DWORD reason, void* is_with_program) {
  (void)module;
  if (reason != DLL_PROCESS_ATTACH) return TRUE;
  if (is_with_program == NULL) {
    mi_hook_verbose("malloc is not redirected: the DLL came later than the program.\n");
    return TRUE;
  }
  if (!mi_redirect_is_wanted()) return TRUE;
  bool is_any = false;
  for (size_t k = 0; k < MI_REDIRECT_CRTS; k++) is_any = mi_redirect_start_crt(k) || is_any;
  mi_api_set_redirected(is_any);
  return TRUE;
}

#endif
