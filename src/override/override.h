// SPDX-License-Identifier: MIT
// override.h - what the files of this folder share: how a name is exported, and how one is called
// that another definition may have won.
//
// A process has one winner for each name: the program's own definition, that of a library before
// ours, or ours. Programs replace some names and not others, so what is made of another function
// calls it as everybody else does, by its symbol.
//
// OVERRIDE-1  a name that is specified to call another one calls whoever won that name
//     (`MI_BY_NAME`); the functions with an mi_ prefix never do.
// OVERRIDE-2  cmake/by-name.list has every name that `MI_BY_NAME` is used with: the linker leaves
//     these references to the loader, where it binds all others to ourselves.
//
// Deliberately absent: names that glibc exports with a prefix (`__libc_malloc`): programs wrap them
// in a malloc of their own, so that they must not lead back to it.
#ifndef MI_OVERRIDE_OVERRIDE_H
#define MI_OVERRIDE_OVERRIDE_H

#include "../base/compiler.h"

#define MI_ELF_EXPORT __attribute__((visibility("default"), used))
// Two steps, so that a name that is itself a macro (MI_PREFIX) is spelled as what it stands for.
#define MI_ELF_ALIAS_TO(ours) __attribute__((alias(#ours), visibility("default"), used))
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

// Is the winner of `name` our function `ours`?
#define MI_IS_OURS(name, ours) (MI_BY_NAME(name) == (__typeof__(&(name)))(ours))

#endif
