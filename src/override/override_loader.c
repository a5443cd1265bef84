// SPDX-License-Identifier: MIT
// override_loader.c - functions of the loader that we must see when a program calls them.
//
//   dlopen    a library that is opened with RTLD_DEEPBIND uses the free of libc for our blocks, and
//             the other way round: the flag is dropped (the option drop_deepbind)
//   dlmopen   into the namespace of the program, the same; into another one, it brings another
//             copy of libc, of whose threads ours never learns: from then on the library does not
//             rely on there being only one thread (os.h, `mi_os_expect_threads`)
//
// OVERRIDE_LOADER-1  the loader identifies its caller by its return address, and uses the caller's
//     run path and namespace. So our code does not call the real function but jumps to it, from a
//     few instructions of assembly, with the arguments as they were or as our function in front of
//     it changed them.
// OVERRIDE_LOADER-2  our function in front may allocate (dlsym does for a message); it holds no
//     lock.
//
// To add a function, add a line with `MI_LOADER_ENTRY`, and a function in front, whose name is that
// of the real one behind mi_loader_. This exists only in the shared library, with glibc, on the
// processors below: elsewhere the program must take care of this itself. If the loader has no such
// function, ours returns NULL, as for a library that is not found.
#if defined(MI_MALLOC_OVERRIDE) && defined(MI_SHARED_LIB_EXPORT) && defined(__GLIBC__)

#include <dlfcn.h>

#include "../api/api.h"
#include "next.h"

// A function in front: the assembly calls it with the arguments in the order of the registers, at
// most three.
#define MI_LOADER_BEFORE __attribute__((cold, used, visibility("hidden")))

#if defined(__x86_64__)
#define MI_LOADER_ENTRY(name)                                                                      \
  __asm__(".pushsection .text.unlikely." #name ", \"ax\", @progbits\n"                             \
          ".globl " #name "\n.type " #name ", @function\n" #name ":\n"                             \
          ".cfi_startproc\n"                                                                       \
          "endbr64\n"                                                                              \
          "pushq %rdx\n.cfi_adjust_cfa_offset 8\n"                                                 \
          "pushq %rsi\n.cfi_adjust_cfa_offset 8\n"                                                 \
          "pushq %rdi\n.cfi_adjust_cfa_offset 8\n"                                                 \
          "movq %rsp, %rdi\n"                                                                      \
          "call mi_loader_" #name "\n"                                                             \
          "popq %rdi\n.cfi_adjust_cfa_offset -8\n"                                                 \
          "popq %rsi\n.cfi_adjust_cfa_offset -8\n"                                                 \
          "popq %rdx\n.cfi_adjust_cfa_offset -8\n"                                                 \
          "jmpq *%rax\n"                                                                           \
          ".cfi_endproc\n"                                                                         \
          ".size " #name ", . - " #name "\n.popsection")
#elif defined(__aarch64__)
#define MI_LOADER_ENTRY(name)                                                                      \
  __asm__(".pushsection .text.unlikely." #name ", \"ax\", %progbits\n"                             \
          ".globl " #name "\n.type " #name ", %function\n.p2align 2\n" #name ":\n"                 \
          ".cfi_startproc\n"                                                                       \
          "hint #34\n" /* bti c */                                                                 \
          "stp x29, x30, [sp, #-48]!\n.cfi_def_cfa_offset 48\n"                                    \
          ".cfi_offset x29, -48\n.cfi_offset x30, -40\n"                                           \
          "mov x29, sp\n"                                                                          \
          "stp x0, x1, [sp, #16]\n"                                                                \
          "str x2, [sp, #32]\n"                                                                    \
          "add x0, sp, #16\n"                                                                      \
          "bl mi_loader_" #name "\n"                                                               \
          "mov x16, x0\n"                                                                          \
          "ldp x0, x1, [sp, #16]\n"                                                                \
          "ldr x2, [sp, #32]\n"                                                                    \
          "ldp x29, x30, [sp], #48\n.cfi_restore x29\n.cfi_restore x30\n.cfi_def_cfa_offset 0\n"   \
          "br x16\n"                                                                               \
          ".cfi_endproc\n"                                                                         \
          ".size " #name ", . - " #name "\n.popsection")
#endif

#if defined(MI_LOADER_ENTRY)

static void* mi_loader_nothing(void) { return NULL; }

static void* mi_loader_next(const char* name) {
  void* const next = mi_override_next(name);
  return next != NULL ? next : (void*)&mi_loader_nothing;
}

static void mi_loader_drop_deepbind(uintptr_t* flags) {
  if (mi_option_is_enabled(mi_option_drop_deepbind)) *flags &= ~(uintptr_t)RTLD_DEEPBIND;
}

// Arguments: file, flags.
MI_LOADER_ENTRY(dlopen);
MI_LOADER_BEFORE void* mi_loader_dlopen(uintptr_t* arguments);
void* mi_loader_dlopen(uintptr_t* arguments) {
  mi_loader_drop_deepbind(&arguments[1]);
  return mi_loader_next("dlopen");
}

// Arguments: lmid, file, flags.
MI_LOADER_ENTRY(dlmopen);
MI_LOADER_BEFORE void* mi_loader_dlmopen(uintptr_t* arguments);
void* mi_loader_dlmopen(uintptr_t* arguments) {
  if ((Lmid_t)arguments[0] != LM_ID_BASE) {
    mi_os_expect_threads();
  } else {
    mi_loader_drop_deepbind(&arguments[2]);
  }
  return mi_loader_next("dlmopen");
}

#endif
#endif
