// SPDX-License-Identifier: MIT
// os_windows.c - os.h on Windows, 7 and later.
//
//   reserved addresses --VirtualAlloc, commit--> usable, charged --decommit--> reserved again
//         '------------ VirtualFree, release: the whole that was reserved at once ----------'
//
// What is usable counts against a limit of the whole system (there is no overcommit), and addresses
// cost nothing. So arenas reserve all that they may grow to, and commit slice by slice.
//
// OS_WINDOWS-1  no function changes the value of GetLastError, as no function changes errno: it is
//     saved and restored around each call. The functions of Windows do not touch errno.
// OS_WINDOWS-2  no function of the C library is called but memset, abort and atexit: others have
//     state per thread, which they get from malloc. Windows allocates on its own heap, which is not
//     replaced.
// OS_WINDOWS-3  functions of Windows that are younger than Windows 7 are looked up when the library
//     starts; each has something in its place. Never later: that takes the lock of the loader,
//     under which other libraries start, and may wait for a lock of ours.
// OS_WINDOWS-4  the end of a thread is told by a callback for thread-local storage, which the
//     loader calls once on each thread that ends in order. (The callback of a fiber-local value
//     would come when a fiber is deleted, too, on another thread maybe, and not at all on a thread
//     that first allocated in a fiber that is still there.) Ours is among the last, because this
//     library is among the first to be initialised.
// OS_WINDOWS-5  when a process ends, Windows ends its other threads wherever they are, maybe with a
//     lock of ours, and lets libraries run on. A thread that would wait then waits for nobody: it
//     ends the process, as critical sections of Windows do.
//
// char paths and values are in the code page of the process, as those of the C library are.
// Deliberately absent: fork; a purge thread, because a library may not wait for the end of a thread
// in its destructor; NUMA nodes for memory that is mapped already: a page comes from the node of
// the thread that touches it first.
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "os_windows.h"

#include "../base/random.h"
#include "../base/text.h"
#include "lock.h"
#include "tls.h"

// VirtualAlloc reserves at multiples of this.
#define MI_OS_GRANULARITY ((uintptr_t)64 * MI_KIB)
#define MI_OS_TRIES 8

// -- Functions that not all versions have (OS_WINDOWS-3) --

typedef struct mi_os_requirements_s { // MEM_ADDRESS_REQUIREMENTS of newer headers
  void* lowest;
  void* highest;
  size_t alignment;
} mi_os_requirements_t;

typedef struct mi_os_parameter_s { // MEM_EXTENDED_PARAMETER
  uint64_t type;
  void* pointer;
} mi_os_parameter_t;

#define MI_OS_PARAMETER_REQUIREMENTS 1 // MemExtendedParameterAddressRequirements

typedef void*(WINAPI* mi_os_alloc2_fun_t)(HANDLE, void*, SIZE_T, ULONG, ULONG, mi_os_parameter_t*,
                                          ULONG);
typedef BOOL(WINAPI* mi_os_wait_fun_t)(volatile void*, void*, SIZE_T, DWORD);
typedef void(WINAPI* mi_os_wake_fun_t)(void*);
typedef BOOLEAN(NTAPI* mi_os_is_ending_fun_t)(void);
typedef BOOL(WINAPI* mi_os_token_fun_t)(HANDLE, DWORD, HANDLE*);
typedef BOOL(WINAPI* mi_os_adjust_fun_t)(HANDLE, BOOL, TOKEN_PRIVILEGES*, DWORD, TOKEN_PRIVILEGES*,
                                         DWORD*);

typedef enum mi_os_fun_e {
  MI_OS_FUN_ALLOC2,
  MI_OS_FUN_WAIT,
  MI_OS_FUN_WAKE,
  MI_OS_FUN_IS_ENDING,
  MI_OS_FUN_TOKEN,
  MI_OS_FUN_ADJUST,
  MI_OS_FUN_COUNT
} mi_os_fun_t;

// Their addresses, 0 none. Any thread, relaxed: all find the same.
static mi_atomic(uintptr_t) mi_os_found[MI_OS_FUN_COUNT];

#define MI_OS_FOUND(type, fun) ((type)mi_atomic_load_relaxed(&mi_os_found[fun]))

static void* mi_os_find(const char* module, const char* function) {
  const HMODULE handle = GetModuleHandleA(module);
  return handle == NULL ? NULL : (void*)(uintptr_t)GetProcAddress(handle, function);
}

static void mi_os_find_all(void) {
  static const char* const names[MI_OS_FUN_COUNT] = {
      "VirtualAlloc2",       "WaitOnAddress",
      "WakeByAddressSingle", "RtlDllShutdownInProgress",
      "OpenProcessToken",    "AdjustTokenPrivileges",
  };
  for (size_t i = 0; i < MI_OS_FUN_COUNT; i++) {
    const char* const module = i == MI_OS_FUN_IS_ENDING ? "ntdll.dll" : "kernelbase.dll";
    mi_atomic_store_relaxed(&mi_os_found[i], (uintptr_t)mi_os_find(module, names[i]));
  }
}

// True if this is the last thread of a process that ends (OS_WINDOWS-5).
static bool mi_os_is_ending(void) {
  const mi_os_is_ending_fun_t is_ending = MI_OS_FOUND(mi_os_is_ending_fun_t, MI_OS_FUN_IS_ENDING);
  return is_ending != NULL && is_ending();
}

// -- Errors --

static int mi_os_errno(DWORD error) {
  switch (error) {
    case ERROR_FILE_NOT_FOUND:
    case ERROR_PATH_NOT_FOUND:
    case ERROR_INVALID_DRIVE:
    case ERROR_BAD_PATHNAME:
    case ERROR_BAD_NETPATH:
      return ENOENT;
    case ERROR_ACCESS_DENIED:
    case ERROR_SHARING_VIOLATION:
      return EACCES;
    case ERROR_INVALID_HANDLE:
      return EBADF;
    case ERROR_NOT_ENOUGH_MEMORY:
    case ERROR_OUTOFMEMORY:
    case ERROR_COMMITMENT_LIMIT:
    case ERROR_NO_SYSTEM_RESOURCES:
      return ENOMEM;
    case ERROR_DISK_FULL:
    case ERROR_HANDLE_DISK_FULL:
      return ENOSPC;
    case ERROR_FILENAME_EXCED_RANGE:
      return ENAMETOOLONG;
    default:
      return EINVAL;
  }
}

// Return the result of a function of Windows as an errno value, and restore the last error.
static int mi_os_result(bool is_done, DWORD saved) {
  const int err = is_done ? 0 : mi_os_errno(GetLastError());
  SetLastError(saved);
  return err;
}

// -- Memory --

static SYSTEM_INFO mi_os_system; // written once, in the set-up
static uint64_t mi_os_frequency; // of the exact clock, in ticks a second: the same
static uint64_t mi_os_started_ms;

MI_INTERNAL void mi_os_init(mi_os_info_t* info) {
  const DWORD saved = GetLastError();
  LARGE_INTEGER frequency;
  mi_os_find_all();
  GetSystemInfo(&mi_os_system);
  QueryPerformanceFrequency(&frequency);
  mi_os_frequency = (uint64_t)frequency.QuadPart;
  mi_os_started_ms = mi_os_now_ms();
  const size_t large = GetLargePageMinimum();
  *info = (mi_os_info_t){.page_size = mi_os_system.dwPageSize,
                         .huge_page_size = large > 0 ? large : 2 * MI_MIB,
                         .address_bits = MI_ADDRESS_BITS,
                         .has_overcommit = false};
  SetLastError(saved);
}

// An arena has its addresses from the start, as one reservation: memory is not committed, nor
// released, across the ends of two.
MI_INTERNAL bool mi_os_hints(void) { return false; }

static DWORD mi_os_map_type(mi_os_access_t access) {
  return access == MI_OS_READ_WRITE ? MEM_RESERVE | MEM_COMMIT : MEM_RESERVE;
}

static uint8_t* mi_os_reserve(void* at, size_t size, DWORD type) {
  return (uint8_t*)VirtualAlloc(at, size, type, PAGE_READWRITE);
}

// Map at a multiple of an alignment beyond the granularity: by the function for that, or where such
// an address is seen to be free.
static uint8_t* mi_os_map_aligned(size_t size, size_t alignment, DWORD type) {
  const mi_os_alloc2_fun_t alloc2 = MI_OS_FOUND(mi_os_alloc2_fun_t, MI_OS_FUN_ALLOC2);
  uint8_t* p = NULL;
  if (alloc2 != NULL) {
    mi_os_requirements_t requirements = {.alignment = alignment};
    mi_os_parameter_t parameter = {MI_OS_PARAMETER_REQUIREMENTS, &requirements};
    p = (uint8_t*)alloc2(NULL, NULL, size, type, PAGE_READWRITE, &parameter, 1);
  }
  if (p != NULL || size > SIZE_MAX - alignment) return p;
  // Another thread may map there in between: then once more.
  for (size_t i = 0; i < MI_OS_TRIES && p == NULL; i++) {
    uint8_t* const room = mi_os_reserve(NULL, size + alignment, MEM_RESERVE);
    if (room == NULL) return NULL;
    VirtualFree(room, 0, MEM_RELEASE);
    p = mi_os_reserve((void*)mi_bits_align_up((uintptr_t)room, alignment), size, type);
  }
  return p;
}

MI_INTERNAL void* mi_os_map(void* hint, size_t size, size_t alignment, mi_os_access_t access) {
  const DWORD saved = GetLastError();
  const DWORD type = mi_os_map_type(access);
  uint8_t* p = NULL;
  alignment = mi_bits_max(alignment, MI_OS_GRANULARITY);
  if (hint != NULL && (uintptr_t)hint % alignment == 0) p = mi_os_reserve(hint, size, type);
  if (p == NULL && alignment == MI_OS_GRANULARITY) p = mi_os_reserve(NULL, size, type);
  if (p == NULL && alignment > MI_OS_GRANULARITY) p = mi_os_map_aligned(size, alignment, type);
  SetLastError(saved);
  return p;
}

MI_INTERNAL bool mi_os_map_at(void* start, size_t size, mi_os_access_t access) {
  if ((uintptr_t)start % MI_OS_GRANULARITY != 0) return false; // it would begin before that
  const DWORD saved = GetLastError();
  const bool is_mapped = mi_os_reserve(start, size, mi_os_map_type(access)) != NULL;
  SetLastError(saved);
  return is_mapped;
}

// The privilege to lock memory, which large pages need, has this number on each machine.
#define MI_OS_PRIVILEGE_LOCK_MEMORY 4

// Enable that privilege, if the user has it. Others in the process may have disabled it again.
static bool mi_os_enable_large(void) {
  const mi_os_token_fun_t open = MI_OS_FOUND(mi_os_token_fun_t, MI_OS_FUN_TOKEN);
  const mi_os_adjust_fun_t adjust = MI_OS_FOUND(mi_os_adjust_fun_t, MI_OS_FUN_ADJUST);
  HANDLE token;
  if (open == NULL || adjust == NULL ||
      !open(GetCurrentProcess(), TOKEN_ADJUST_PRIVILEGES | TOKEN_QUERY, &token)) {
    return false;
  }
  TOKEN_PRIVILEGES wanted = {.PrivilegeCount = 1};
  wanted.Privileges[0].Luid.LowPart = MI_OS_PRIVILEGE_LOCK_MEMORY;
  wanted.Privileges[0].Attributes = SE_PRIVILEGE_ENABLED;
  const bool is_enabled = adjust(token, FALSE, &wanted, 0, NULL, NULL) &&
                          GetLastError() == ERROR_SUCCESS; // else: not all were assigned
  CloseHandle(token);
  return is_enabled;
}

MI_INTERNAL void* mi_os_map_large(void* hint, size_t size, size_t os_page_size) {
  const DWORD saved = GetLastError();
  const DWORD type = MEM_RESERVE | MEM_COMMIT | MEM_LARGE_PAGES;
  uint8_t* p = NULL;
  if (os_page_size == GetLargePageMinimum() && mi_os_enable_large()) {
    if ((uintptr_t)hint % os_page_size == 0) p = mi_os_reserve(hint, size, type);
    if (p == NULL) p = mi_os_reserve(NULL, size, type);
  }
  SetLastError(saved);
  return p;
}

// Return the end of what was reserved together with `start`.
static uint8_t* mi_os_reservation_end(uint8_t* start, const void* base) {
  MEMORY_BASIC_INFORMATION info;
  while (VirtualQuery(start, &info, sizeof(info)) != 0 && info.State != MEM_FREE &&
         info.AllocationBase == base) {
    start = (uint8_t*)info.BaseAddress + info.RegionSize;
  }
  return start;
}

// What was reserved at once is released at once: of a part only the memory goes back, and its
// addresses stay reserved until the process ends.
MI_INTERNAL int mi_os_unmap(void* start, size_t size) {
  const DWORD saved = GetLastError();
  uint8_t* const end = (uint8_t*)start + size;
  uint8_t* at = (uint8_t*)start;
  bool is_done = true;
  while (at < end && is_done) {
    MEMORY_BASIC_INFORMATION info;
    if (VirtualQuery(at, &info, sizeof(info)) == 0) return mi_os_result(false, saved);
    if (info.State == MEM_FREE) {
      at = (uint8_t*)info.BaseAddress + info.RegionSize;
      continue;
    }
    uint8_t* const next = mi_os_reservation_end(at, info.AllocationBase);
    if (info.AllocationBase == at && next <= end) {
      is_done = VirtualFree(at, 0, MEM_RELEASE);
    } else {
      is_done = VirtualFree(at, mi_bits_min((size_t)(next - at), (size_t)(end - at)), MEM_DECOMMIT);
    }
    at = next;
  }
  return mi_os_result(is_done, saved);
}

MI_INTERNAL int mi_os_commit(void* start, size_t size) {
  const DWORD saved = GetLastError();
  return mi_os_result(mi_os_reserve(start, size, MEM_COMMIT) != NULL, saved);
}

MI_INTERNAL int mi_os_decommit(void* start, size_t size) {
  const DWORD saved = GetLastError();
  return mi_os_result(VirtualFree(start, size, MEM_DECOMMIT), saved);
}

MI_INTERNAL int mi_os_reset(void* start, size_t size) {
  const DWORD saved = GetLastError();
  return mi_os_result(VirtualAlloc(start, size, MEM_RESET, PAGE_READWRITE) != NULL, saved);
}

// Decommitted memory might not be had again, if another process takes what was charged for it. So
// the contents become zero first, and then need not be kept: whether Windows drops a page or not,
// it reads as zero. To unlock pages that are not locked takes them out of memory at once. What is
// inaccessible in the range stays so.
MI_INTERNAL int mi_os_purge(void* start, size_t size) {
  const DWORD saved = GetLastError();
  uint8_t* const end = (uint8_t*)start + size;
  uint8_t* at = (uint8_t*)start;
  int err = 0;
  while (at < end) {
    MEMORY_BASIC_INFORMATION info;
    if (VirtualQuery(at, &info, sizeof(info)) == 0) {
      err = EINVAL;
      break;
    }
    uint8_t* const region_end = (uint8_t*)info.BaseAddress + info.RegionSize;
    const size_t length = (size_t)((region_end < end ? region_end : end) - at);
    if (info.State == MEM_COMMIT && info.Protect == PAGE_READWRITE) {
      memset(at, 0, length);
      if (VirtualAlloc(at, length, MEM_RESET, PAGE_READWRITE) != NULL) VirtualUnlock(at, length);
    }
    at += length;
  }
  SetLastError(saved);
  return err;
}

// What is reserved in one piece stays one, whatever of it is committed: a guard costs no mapping.
MI_INTERNAL bool mi_os_guard(void* start, size_t size) { return mi_os_decommit(start, size) == 0; }

MI_INTERNAL bool mi_os_unguard(void* start, size_t size) { return mi_os_commit(start, size) == 0; }

MI_INTERNAL int mi_os_remap(void* start, size_t size) {
  const int err = mi_os_decommit(start, size);
  return err != 0 ? err : mi_os_commit(start, size);
}

MI_INTERNAL void mi_os_make_constant(void* start, size_t size) {
  const DWORD saved = GetLastError();
  DWORD before;
  VirtualProtect(start, size, PAGE_READONLY, &before);
  SetLastError(saved);
}

MI_INTERNAL bool mi_os_is_readable(const void* p) {
  const DWORD saved = GetLastError();
  MEMORY_BASIC_INFORMATION info;
  const bool is_known = VirtualQuery(p, &info, sizeof(info)) != 0;
  SetLastError(saved);
  return is_known && info.State == MEM_COMMIT && (info.Protect & (PAGE_NOACCESS | PAGE_GUARD)) == 0;
}

// -- NUMA nodes --

MI_INTERNAL size_t mi_os_numa_nodes(void) {
  const DWORD saved = GetLastError();
  ULONG highest = 0;
  const bool is_known = GetNumaHighestNodeNumber(&highest);
  SetLastError(saved);
  return is_known ? (size_t)highest + 1 : 1;
}

MI_INTERNAL size_t mi_os_numa_node(void) {
  const DWORD saved = GetLastError();
  PROCESSOR_NUMBER processor;
  USHORT node = 0;
  GetCurrentProcessorNumberEx(&processor);
  if (!GetNumaProcessorNodeEx(&processor, &node) || node == UINT16_MAX) node = 0;
  SetLastError(saved);
  return node;
}

// -- lock.h --

MI_INTERNAL void mi_os_wait_ms(mi_atomic(uint32_t) * word, uint32_t value, uint64_t ms) {
  const DWORD saved = GetLastError();
  const mi_os_wait_fun_t wait = MI_OS_FOUND(mi_os_wait_fun_t, MI_OS_FUN_WAIT);
  const DWORD limit = ms < INFINITE - 1 ? (DWORD)ms : INFINITE - 1;
  if (wait != NULL) {
    wait((volatile void*)word, &value, sizeof(value), ms == MI_OS_FOREVER ? INFINITE : limit);
  } else {
    const ULONGLONG end = GetTickCount64() + limit;
    while (mi_atomic_load_relaxed(word) == value && GetTickCount64() < end) Sleep(1);
  }
  SetLastError(saved);
}

MI_INTERNAL void mi_os_wait(mi_atomic(uint32_t) * word, uint32_t value) {
  if (mi_atomic_load_relaxed(word) == value && mi_os_is_ending()) { // OS_WINDOWS-5
    DWORD status = STILL_ACTIVE;
    GetExitCodeProcess(GetCurrentProcess(), &status);
    TerminateProcess(GetCurrentProcess(), status == STILL_ACTIVE ? 0 : status);
  }
  mi_os_wait_ms(word, value,
                MI_OS_FOUND(mi_os_wait_fun_t, MI_OS_FUN_WAIT) != NULL ? MI_OS_FOREVER : 1);
}

MI_INTERNAL void mi_os_wake(mi_atomic(uint32_t) * word) {
  const mi_os_wake_fun_t wake = MI_OS_FOUND(mi_os_wake_fun_t, MI_OS_FUN_WAKE);
  if (wake != NULL) wake((void*)word);
}

// -- Clocks and random numbers --

MI_INTERNAL uint64_t mi_os_now_ms(void) { return GetTickCount64(); }

MI_INTERNAL uint64_t mi_os_now_us(void) {
  LARGE_INTEGER now;
  QueryPerformanceCounter(&now);
  const uint64_t ticks = (uint64_t)now.QuadPart;
  const uint64_t frequency = mi_bits_max(mi_os_frequency, 1);
  return ticks / frequency * 1000000 + ticks % frequency * 1000000 / frequency;
}

// Where the stack and the library are differs from process to process, and the time does.
MI_INTERNAL uint64_t mi_os_random(void) {
  LARGE_INTEGER now;
  QueryPerformanceCounter(&now);
  mi_random_t random = {(uintptr_t)&mi_os_random ^ (uintptr_t)&random << 16};
  random.state ^=
      mi_random_next(&random) ^ (uint64_t)now.QuadPart ^ (uint64_t)GetCurrentProcessId() << 40;
  return mi_random_next(&random);
}

// The documented name is RtlGenRandom, the exported one this. Only secure builds need it.
BOOLEAN NTAPI SystemFunction036(void* bytes, ULONG size);

MI_INTERNAL void mi_os_secret(uint64_t* words, size_t count) {
  const DWORD saved = GetLastError();
  mi_random_t random = {mi_os_random()};
  for (size_t i = 0; i < count; i++) words[i] = mi_random_next(&random);
  SystemFunction036(words, (ULONG)(count * sizeof(*words)));
  SetLastError(saved);
}

// -- The process --

MI_INTERNAL bool mi_os_is_alone(void) { return mi_os_is_ending(); }

MI_INTERNAL bool mi_os_is_single_threaded(void) { return false; }

MI_INTERNAL size_t mi_os_thread_number(void) { return GetCurrentThreadId(); }

MI_INTERNAL size_t mi_os_process_number(void) { return GetCurrentProcessId(); }

// There is no fork: no handler is missing.
MI_INTERNAL int mi_os_at_fork(void (*prepare)(void), void (*parent)(void), void (*child)(void)) {
  (void)prepare, (void)parent, (void)child;
  return 0;
}

static size_t mi_os_file_time_ms(FILETIME t) {
  return (size_t)(((uint64_t)t.dwHighDateTime << 32 | t.dwLowDateTime) / 10000);
}

MI_INTERNAL void mi_os_usage(mi_os_usage_t* usage) {
  const DWORD saved = GetLastError();
  FILETIME start, end, system, user;
  PROCESS_MEMORY_COUNTERS memory = {.cb = sizeof(memory)};
  usage->elapsed_ms = (size_t)(mi_os_now_ms() - mi_os_started_ms);
  if (GetProcessTimes(GetCurrentProcess(), &start, &end, &system, &user)) {
    FILETIME now;
    GetSystemTimeAsFileTime(&now);
    usage->user_ms = mi_os_file_time_ms(user);
    usage->system_ms = mi_os_file_time_ms(system);
    usage->elapsed_ms = mi_os_file_time_ms(now) - mi_os_file_time_ms(start);
  }
  if (K32GetProcessMemoryInfo(GetCurrentProcess(), &memory, sizeof(memory))) {
    usage->rss = memory.WorkingSetSize;
    usage->rss_peak = memory.PeakWorkingSetSize;
    usage->page_faults = memory.PageFaultCount;
  }
  SetLastError(saved);
}

static HMODULE mi_os_own_module(void) {
  MEMORY_BASIC_INFORMATION info;
  if (VirtualQuery((const void*)&mi_os_system, &info, sizeof(info)) == 0) return NULL;
  return (HMODULE)info.AllocationBase;
}

// The destructor of a program itself runs only when that ends.
MI_INTERNAL void mi_os_unload_watch(void (*at_end)(void)) {
  if (!MI_HAS_DESTRUCTORS) atexit(at_end);
}

MI_INTERNAL bool mi_os_is_unloaded(void) {
  return mi_os_own_module() != GetModuleHandleA(NULL) && !mi_os_is_ending();
}

// -- The environment --

// A copy of the environment, made when it is first asked for: the values stay where they are.
//   write  any  CAS release  mi_os_variables  (publishes the copy)
//   read   any  acquire      mi_os_variables  (sees the copy)
static mi_atomic(const char*) mi_os_variables_copy;

// Return name=value, name=value, ..., "". NULL if there is no memory for a copy.
static const char* mi_os_variables(void) {
  // Sees the copy; pairs with the release in `mi_os_variables`.
  const char* known = mi_atomic_load_acquire(&mi_os_variables_copy);
  if (known != NULL) return known;
  const DWORD saved = GetLastError();
  WCHAR* const block = GetEnvironmentStringsW();
  char* copy = NULL;
  if (block != NULL) {
    int length = 0;
    while (block[length] != 0 || block[length + 1] != 0) length++;
    length += 2;
    const int size = WideCharToMultiByte(CP_ACP, 0, block, length, NULL, 0, NULL, NULL);
    if (size > 0) copy = (char*)mi_os_reserve(NULL, (size_t)size, MEM_RESERVE | MEM_COMMIT);
    if (copy != NULL) WideCharToMultiByte(CP_ACP, 0, block, length, copy, size, NULL, NULL);
    FreeEnvironmentStringsW(block);
  }
  // Publishes the copy; pairs with the acquire in `mi_os_variables`.
  if (copy != NULL && !mi_atomic_cas_strong_release(&mi_os_variables_copy, &known, copy)) {
    VirtualFree(copy, 0, MEM_RELEASE);
    // Sees the copy of the thread that was faster; pairs with its release in `mi_os_variables`.
    copy = (char*)(uintptr_t)mi_atomic_load_acquire(&mi_os_variables_copy);
  }
  SetLastError(saved);
  return copy;
}

MI_INTERNAL const char* mi_os_environment(const char* name) {
  const size_t length = mi_text_length(name);
  const char* at = mi_os_variables();
  for (; at != NULL && at[0] != 0; at += mi_text_length(at) + 1) {
    if (mi_text_equal_nocase(at, name, length) && at[length] == '=') return &at[length + 1];
  }
  return NULL;
}

MI_INTERNAL mi_os_environment_t mi_os_environment_look(const char* prefix) {
  const DWORD saved = GetLastError();
  WCHAR* const block = GetEnvironmentStringsW();
  SetLastError(saved);
  if (block == NULL) return MI_OS_ENVIRONMENT_UNKNOWN;
  const size_t length = mi_text_length(prefix);
  bool has_prefix = false;
  for (const WCHAR* at = block; at[0] != 0 && !has_prefix;) {
    size_t same = 0;
    // Names of variables that begin with the prefix are in capitals or not.
    while (same < length && (at[same] | 32) == (WCHAR)(prefix[same] | 32)) same++;
    has_prefix = same == length;
    while (at[0] != 0) at++;
    at++;
  }
  FreeEnvironmentStringsW(block);
  return has_prefix ? MI_OS_ENVIRONMENT_WITH : MI_OS_ENVIRONMENT_WITHOUT;
}

MI_INTERNAL int mi_os_environment_wide(const wchar_t* name, wchar_t* value, size_t* size) {
  const DWORD saved = GetLastError();
  const DWORD room = (DWORD)mi_bits_min(*size, UINT32_MAX);
  SetLastError(ERROR_SUCCESS);
  const DWORD length = GetEnvironmentVariableW(name, value, room);
  // What did not fit is counted with the zero, what did without it.
  if (length == 0) {
    *size = GetLastError() == ERROR_SUCCESS ? 1 : 0;
  } else {
    *size = length < room ? (size_t)length + 1 : length;
  }
  SetLastError(saved);
  return 0;
}

// -- Output and files. A handle has 32 bits that count, so that it can be an int --

static HANDLE mi_os_handle(int file) { return (HANDLE)(intptr_t)file; }

static int mi_os_write(HANDLE file, const char* text, size_t length) {
  const DWORD saved = GetLastError();
  bool is_done = true;
  while (length > 0 && is_done) {
    DWORD written = 0;
    const DWORD part = (DWORD)mi_bits_min(length, MI_GIB);
    is_done = WriteFile(file, text, part, &written, NULL);
    if (is_done && written == 0) {
      SetLastError(ERROR_DISK_FULL);
      is_done = false;
    }
    text += written;
    length -= written;
  }
  return mi_os_result(is_done, saved);
}

MI_INTERNAL void mi_os_write_error(const char* text, size_t length) {
  const DWORD saved = GetLastError();
  const HANDLE file = GetStdHandle(STD_ERROR_HANDLE);
  if (file != NULL && file != INVALID_HANDLE_VALUE) mi_os_write(file, text, length);
  SetLastError(saved);
}

MI_INTERNAL _Noreturn void mi_os_abort(const char* text) {
  mi_os_write_error(text, mi_text_length(text));
  abort();
}

MI_INTERNAL int mi_os_file_create(const char* path, int* file) {
  const DWORD saved = GetLastError();
  const HANDLE handle = CreateFileA(path, GENERIC_WRITE, FILE_SHARE_READ, NULL, CREATE_ALWAYS,
                                    FILE_ATTRIBUTE_NORMAL, NULL);
  *file = (int)(intptr_t)handle;
  return mi_os_result(handle != INVALID_HANDLE_VALUE, saved);
}

MI_INTERNAL int mi_os_file_write(int file, const void* bytes, size_t size) {
  return mi_os_write(mi_os_handle(file), (const char*)bytes, size);
}

MI_INTERNAL int mi_os_file_close(int file) {
  const DWORD saved = GetLastError();
  return mi_os_result(CloseHandle(mi_os_handle(file)), saved);
}

#define MI_OS_PATH_SIZE ((DWORD)4096) // that callers have

MI_INTERNAL int mi_os_real_path(const char* path, char* resolved) {
  const DWORD saved = GetLastError();
  const DWORD shared = FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE;
  const HANDLE file = CreateFileA(path, 0, shared, NULL, OPEN_EXISTING, FILE_FLAG_BACKUP_SEMANTICS,
                                  NULL); // folders, too
  if (file == INVALID_HANDLE_VALUE) return mi_os_result(false, saved);
  const DWORD length = GetFinalPathNameByHandleA(file, resolved, MI_OS_PATH_SIZE, 0);
  const int err =
      length == 0 ? mi_os_errno(GetLastError()) : (length >= MI_OS_PATH_SIZE ? ENAMETOOLONG : 0);
  CloseHandle(file);
  SetLastError(saved);
  // "\\?\C:\file" is C:\file, and "\\?\UNC\server\file" is \\server\file.
  const char prefix[] = "\\\\?\\";
  const size_t skipped = sizeof(prefix) - 1;
  if (err == 0 && length > skipped && memcmp(resolved, prefix, skipped) == 0) {
    const bool is_share = memcmp(resolved + skipped, "UNC\\", 4) == 0;
    const size_t from = is_share ? skipped + 2 : skipped;
    memmove(resolved, resolved + from, length + 1 - from);
    if (is_share) resolved[0] = '\\';
  }
  return err;
}

// -- The end of a thread (OS_WINDOWS-4) --

// The slot of TlsAlloc plus 1; 0 none yet; MI_OS_KEY_CLOSED none any more.
//   write  any  CAS release   mi_os_key_make         (publishes the function)
//   write  any  swap acquire  mi_os_thread_key_done  (sees the slot)
//   read   any  acquire       mi_os_thread_on_exit, mi_os_thread_watch, mi_os_on_thread  (sees the
//          function)
static mi_atomic(uint32_t) mi_os_key_word;

// Any thread, relaxed: always the same function; `mi_os_key_word` publishes it.
static mi_atomic(uintptr_t) mi_os_key_function;

#define MI_OS_KEY_CLOSED UINT32_MAX
// A thread has room for the values of so many slots; that of others Windows allocates.
#define MI_OS_KEY_INLINE_MAX TLS_MINIMUM_AVAILABLE

static bool mi_os_key_make(void (*on_exit)(void* value)) {
  const DWORD slot = TlsAlloc();
  if (slot == TLS_OUT_OF_INDEXES) return false;
  mi_atomic_store_relaxed(&mi_os_key_function, (uintptr_t)on_exit);
  uint32_t expected = 0;
  // Publishes the function; pairs with the acquires in `mi_os_thread_on_exit`,
  // `mi_os_thread_watch`, `mi_os_on_thread` and `mi_os_thread_key_done`.
  if (!mi_atomic_cas_strong_release(&mi_os_key_word, &expected, (uint32_t)slot + 1)) {
    TlsFree(slot); // another thread was faster, or the library ends
  }
  return true;
}

MI_INTERNAL bool mi_os_thread_on_exit(void (*on_exit)(void* value), void* value) {
  const DWORD saved = GetLastError();
  // Sees the function; pairs with the release in `mi_os_key_make`.
  uint32_t word = mi_atomic_load_acquire(&mi_os_key_word);
  if (word == 0 && mi_os_key_make(on_exit)) {
    // Sees the function, whichever call of `mi_os_key_make` was faster.
    word = mi_atomic_load_acquire(&mi_os_key_word);
  }
  const bool is_set = word != 0 && word != MI_OS_KEY_CLOSED && TlsSetValue(word - 1, value);
  SetLastError(saved);
  return is_set;
}

MI_INTERNAL bool mi_os_thread_watch(void* value) {
  // Sees the function; pairs with the release in `mi_os_key_make`.
  const uint32_t word = mi_atomic_load_acquire(&mi_os_key_word);
  if (word == 0 || word == MI_OS_KEY_CLOSED) return false;
  const DWORD saved = GetLastError();
  const bool is_set = TlsGetValue(word - 1) != NULL ||
                      (word - 1 < MI_OS_KEY_INLINE_MAX && TlsSetValue(word - 1, value));
  SetLastError(saved);
  return is_set;
}

MI_INTERNAL void mi_os_thread_key_done(void) {
  // Sees the slot; pairs with the release in `mi_os_key_make`.
  const uint32_t word = mi_atomic_swap_acquire(&mi_os_key_word, MI_OS_KEY_CLOSED);
  if (word != 0 && word != MI_OS_KEY_CLOSED) TlsFree(word - 1);
}

static void NTAPI mi_os_on_thread(void* module, DWORD reason, void* reserved) {
  (void)module, (void)reserved;
  if (reason != DLL_THREAD_DETACH) return;
  // Sees the function; pairs with the release in `mi_os_key_make`.
  const uint32_t word = mi_atomic_load_acquire(&mi_os_key_word);
  if (word == 0 || word == MI_OS_KEY_CLOSED) return;
  void* const value = TlsGetValue(word - 1);
  if (value == NULL) return;
  TlsSetValue(word - 1, NULL);
  ((void (*)(void*))mi_atomic_load_relaxed(&mi_os_key_function))(value);
}

// The linker sorts these sections by what follows the `$`: the C library has the first and the last
// of a list of callbacks, which the loader calls.
extern const PIMAGE_TLS_CALLBACK mi_os_thread_callback;
__attribute__((section(".CRT$XLM"), used)) const PIMAGE_TLS_CALLBACK mi_os_thread_callback =
    &mi_os_on_thread;

// -- Threads of our own: see above --

MI_INTERNAL int mi_os_thread_start(mi_os_thread_t* thread, void (*run)(void)) {
  (void)thread, (void)run;
  return ENOSYS;
}

MI_INTERNAL void mi_os_thread_join(mi_os_thread_t thread) { (void)thread; }

MI_INTERNAL void mi_os_thread_join_by(uintptr_t join) { (void)join; }
