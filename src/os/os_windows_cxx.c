// SPDX-License-Identifier: MIT
// os_windows_cxx.c - the new-handler and std::bad_alloc of the C++ libraries that a process on
// Windows may have. A weak reference does not reach them: a DLL is bound to the DLLs that it was
// linked with.
//
//   library of                     the handler                            the exception
//   Visual Studio 2015 and later   _callnewh of ucrtbase.dll              msvcp140.dll
//   gcc                            std::get_new_handler of libstdc++-6.dll, which throws, too
//
// OS_WINDOWS_CXX-1  this may take the lock of the loader, so that it is called with no lock of ours
//     (OS_WINDOWS-3), and only when there is no memory.
//
// The names are those of the C++ ABI of each compiler; Microsoft documents `_callnewh`.
// Deliberately absent: a C++ library that is linked into the program (/MT, -static), which has no
// name that could be found.
#include "os_windows.h"

typedef void (*mi_os_cxx_function_t)(void);

static mi_os_cxx_function_t mi_os_cxx_find(const char* module, const char* function) {
  const DWORD saved = GetLastError();
  void* const found = mi_os_find(module, function);
  SetLastError(saved);
  return (mi_os_cxx_function_t)(uintptr_t)found;
}

MI_INTERNAL mi_attr_cold bool mi_os_cxx_call_handler(size_t size) {
  typedef int (*call_t)(size_t size);
  const call_t call = (call_t)mi_os_cxx_find("ucrtbase.dll", "_callnewh");
  if (call != NULL && call(size) != 0) return true;
  typedef mi_os_cxx_function_t (*get_t)(void);
  const get_t get = (get_t)mi_os_cxx_find("libstdc++-6.dll", "_ZSt15get_new_handlerv");
  const mi_os_cxx_function_t handler = get == NULL ? NULL : get();
  if (handler != NULL) handler();
  return handler != NULL;
}

MI_INTERNAL mi_attr_cold void mi_os_cxx_throw(void) {
  mi_os_cxx_function_t raise = mi_os_cxx_find("msvcp140.dll", "?_Xbad_alloc@std@@YAXXZ");
  if (raise == NULL) raise = mi_os_cxx_find("libstdc++-6.dll", "_ZSt17__throw_bad_allocv");
  if (raise != NULL) raise();
}
