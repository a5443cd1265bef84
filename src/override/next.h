// SPDX-License-Identifier: MIT
// next.h - the function that has a name of ours and comes after it: that of libc, or of another
// library that does what this one does.
#ifndef MI_OVERRIDE_NEXT_H
#define MI_OVERRIDE_NEXT_H

#include <dlfcn.h>
#include <stddef.h>

// In glibc before 2.34 dlsym is in a library of its own, which is loaded if any object uses the
// name.
#pragma weak dlsym

// Return that function, NULL if there is none. May allocate.
static inline void* mi_override_next(const char* name) {
  return dlsym != NULL ? dlsym(RTLD_NEXT, name) : NULL;
}

#endif
