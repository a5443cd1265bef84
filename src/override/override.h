// SPDX-License-Identifier: MIT
// override.h - macros of this folder: to export a name, and to call a name that another object may
// define.
//
// The loader chooses one definition for each name in a process: the program's own, that of a
// library before ours, or ours. Programs replace some names and not others, so a function that is
// made of another one calls that by its symbol, as all other code does.
//
// OVERRIDE-1  a function that is specified to call another name calls the chosen definition of that
//     name (`MI_BY_NAME`); the functions with an mi_ prefix never do.
// OVERRIDE-2  cmake/by-name.list has every name that `MI_BY_NAME` is used with: the linker leaves
//     these references to the loader, and binds all others to our own definitions.
//
// Deliberately absent: names that glibc exports with a prefix (`__libc_malloc`): programs call them
// from a malloc of their own, so that these must not call that malloc by name.
#ifndef MI_OVERRIDE_OVERRIDE_H
#define MI_OVERRIDE_OVERRIDE_H

#include "../base/compiler.h"

// Emscripten hands what is `used` to JavaScript, and keeps it in every program.
#if MI_IS_WASM
#define MI_ELF_USED
#else
#define MI_ELF_USED , used
#endif
#define MI_ELF_EXPORT __attribute__((visibility("default") MI_ELF_USED))
// There are two steps, so that a name that is itself a macro (MI_PREFIX) is expanded.
#define MI_ELF_ALIAS_TO(ours) __attribute__((alias(#ours), visibility("default") MI_ELF_USED))
#define MI_ELF_ALIAS(ours) MI_ELF_ALIAS_TO(ours)
// The same for a name inside the library.
#define MI_ELF_LOCAL_TO(ours) __attribute__((alias(#ours), unused))
#define MI_ELF_LOCAL(ours) MI_ELF_LOCAL_TO(ours)

// The function that a name stands for in this process, as a pointer of its type.
#define MI_BY_NAME(name)                                                                           \
  (__extension__({                                                                                 \
    __typeof__(&(name)) mi_address;                                                                \
    mi_symbol_load(name, mi_address);                                                              \
    mi_address;                                                                                    \
  }))

// True if `name` stands for our function `ours` in this process.
#define MI_IS_OURS(name, ours) (MI_BY_NAME(name) == (__typeof__(&(name)))(ours))

#endif
