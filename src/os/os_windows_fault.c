// SPDX-License-Identifier: MIT
// os_windows_fault.c - of os.h: faults, stacks and symbols on Windows.
//
// OS_WINDOWS_FAULT-1  a vectored handler sees a fault first, before the handlers of functions, and
//     passes it on: also one that a program makes on purpose and copes with. Who is called here
//     reports only what is surely a mistake.
// OS_WINDOWS_FAULT-2  one thread at a time is in `on_fault`; others pass their faults on meanwhile.
//
// Deliberately absent: names of functions. Those are in files of their own (PDB), which only a
// library that allocates can read (dbghelp): what is said is the module and the offset.
#include "os_windows.h"

#define MI_OS_STACK_ROOM ((uintptr_t)32 * MI_KIB)
#define MI_OS_FRAMES_MAX 62 // what Windows stores at once

// The function to call, 0 none. Any thread, relaxed: what it needs is older than the watch.
static mi_atomic(uintptr_t) mi_os_watch_function;
// Any thread: CAS relaxed, store release; pairs with none: one thread at a time.
static mi_atomic(uint32_t) mi_os_watch_busy;
// Written by who starts and stops the watch.
static void* mi_os_watch_handle;

static bool mi_os_has_room(void) {
  MEMORY_BASIC_INFORMATION info;
  const uintptr_t here = (uintptr_t)&info;
  if (VirtualQuery(&info, &info, sizeof(info)) == 0) return false;
  return here - (uintptr_t)info.BaseAddress >= MI_OS_STACK_ROOM;
}

static bool mi_os_is_own_code(const void* at) {
  MEMORY_BASIC_INFORMATION info;
  const HMODULE own = mi_os_own_module();
  return VirtualQuery(at, &info, sizeof(info)) != 0 && (HMODULE)info.AllocationBase == own &&
         own != GetModuleHandleA(NULL);
}

static LONG NTAPI mi_os_on_fault(EXCEPTION_POINTERS* about) {
  const EXCEPTION_RECORD* const record = about->ExceptionRecord;
  const uintptr_t function = mi_atomic_load_relaxed(&mi_os_watch_function);
  uint32_t idle = 0;
  if (record->ExceptionCode != EXCEPTION_ACCESS_VIOLATION || record->NumberParameters < 2 ||
      function == 0 || !mi_atomic_cas_strong_relaxed(&mi_os_watch_busy, &idle, 1)) {
    return EXCEPTION_CONTINUE_SEARCH;
  }
  const DWORD saved = GetLastError();
  const ULONG_PTR kind = record->ExceptionInformation[0];
  const void* const address = (const void*)record->ExceptionInformation[1];
  const mi_os_fault_t fault = {
      .address = address,
      .used = address,
      .at = record->ExceptionAddress,
      .access = kind == 1 ? MI_OS_WRITE : (kind == 0 ? MI_OS_READ : MI_OS_UNKNOWN_ACCESS),
      .has_room = mi_os_has_room(),
      .is_in_library = mi_os_is_own_code(record->ExceptionAddress),
  };
  ((void (*)(const mi_os_fault_t*))function)(&fault);
  // Pairs with none: nothing is published.
  mi_atomic_store_release(&mi_os_watch_busy, 0);
  SetLastError(saved);
  return EXCEPTION_CONTINUE_SEARCH;
}

MI_INTERNAL bool mi_os_fault_watch(void (*on_fault)(const mi_os_fault_t* fault)) {
  const DWORD saved = GetLastError();
  mi_atomic_store_relaxed(&mi_os_watch_function, (uintptr_t)on_fault);
  if (mi_os_watch_handle == NULL) {
    mi_os_watch_handle = AddVectoredExceptionHandler(1, &mi_os_on_fault);
  }
  SetLastError(saved);
  return mi_os_watch_handle != NULL;
}

MI_INTERNAL void mi_os_fault_unwatch(void) {
  const DWORD saved = GetLastError();
  mi_atomic_store_relaxed(&mi_os_watch_function, 0);
  if (mi_os_watch_handle != NULL) RemoveVectoredExceptionHandler(mi_os_watch_handle);
  mi_os_watch_handle = NULL;
  SetLastError(saved);
}

MI_INTERNAL void mi_os_stack_prepare(void) {}

MI_INTERNAL size_t mi_os_stack(const void** frames, size_t capacity) {
  const DWORD saved = GetLastError();
  void* all[MI_OS_FRAMES_MAX];
  const size_t count = RtlCaptureStackBackTrace(1, MI_OS_FRAMES_MAX, all, NULL);
  size_t first = 0;
  while (first < count && mi_os_is_own_code(all[first])) first++;
  size_t used = 0;
  for (size_t i = first; i < count && used < capacity; i++) frames[used++] = all[i];
  SetLastError(saved);
  return used;
}

// The name stays as long as nobody asks for another one; a report is of one thread at a time.
static char mi_os_module_name[MAX_PATH];

MI_INTERNAL void mi_os_symbol(const void* at, mi_os_symbol_t* symbol) {
  const DWORD saved = GetLastError();
  MEMORY_BASIC_INFORMATION info;
  *symbol = (mi_os_symbol_t){0};
  if (VirtualQuery(at, &info, sizeof(info)) != 0 && info.Type == MEM_IMAGE &&
      GetModuleFileNameA((HMODULE)info.AllocationBase, mi_os_module_name, MAX_PATH) > 0) {
    symbol->module = mi_os_module_name;
    symbol->module_offset = (size_t)((uintptr_t)at - (uintptr_t)info.AllocationBase);
  }
  SetLastError(saved);
}
