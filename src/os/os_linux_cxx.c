// SPDX-License-Identifier: MIT
// os_linux_cxx.c - the new-handler and std::bad_alloc of a C++ library that came into the process
// after us: a plug-in of a program in C, with our library preloaded. Our weak references were bound
// before, and stay NULL.
//
// OS_LINUX_CXX-1  this may take the lock of the loader, and may allocate, so that it is called with
//     no lock of ours, and only when there is no memory.
//
// The names are those of the Itanium C++ ABI, and both libraries export them. The library is asked
// for by its name, because a plug-in may have loaded it for itself alone (RTLD_LOCAL). Deliberately
// absent: a C++ library that is linked into the plug-in, which has no name that could be found.
#include <dlfcn.h>
#include <errno.h>

#include "os.h"

// A statically linked program may be without them.
#pragma weak dlopen
#pragma weak dlsym
#pragma weak dlclose

// Return a function of the C++ library of the process, NULL if none is loaded.
static void* mi_os_cxx_find(const char* function) {
  static const char* const libraries[] = {"libstdc++.so.6", "libc++.so.1"};
  const int saved_errno = errno;
  void* found = NULL;
  if (dlopen == NULL || dlsym == NULL || dlclose == NULL) return NULL;
  for (size_t i = 0; i < sizeof(libraries) / sizeof(libraries[0]) && found == NULL; i++) {
    void* const library = dlopen(libraries[i], RTLD_LAZY | RTLD_NOLOAD);
    if (library == NULL) continue;
    found = dlsym(library, function);
    dlclose(library); // whoever loaded it keeps it
  }
  errno = saved_errno;
  return found;
}

MI_INTERNAL mi_attr_cold bool mi_os_cxx_call_handler(size_t size) {
  typedef void (*handler_t)(void);
  typedef handler_t (*get_t)(void);
  (void)size;
  const get_t get = (get_t)(uintptr_t)mi_os_cxx_find("_ZSt15get_new_handlerv");
  const handler_t handler = get == NULL ? NULL : get();
  if (handler != NULL) handler();
  return handler != NULL;
}

MI_INTERNAL mi_attr_cold void mi_os_cxx_throw(void) {
  typedef void (*raise_t)(void);
  const raise_t raise = (raise_t)(uintptr_t)mi_os_cxx_find("_ZSt17__throw_bad_allocv");
  if (raise != NULL) raise();
}
