// SPDX-License-Identifier: MIT
// override_loader.c - functions of the loader that a program must not call without our knowledge.
//
//   dlopen    a library that is opened with RTLD_DEEPBIND uses the free of libc for our blocks, and
//             the other way round: the flag is dropped (the option drop_deepbind)
//   dlmopen   into the namespace of the program, the same; into another one, that brings another
//             copy of libc, whose threads ours never hears of: from then on nothing relies on there
//             being one (os.h, `mi_os_expect_threads`)
//
// OVERRIDE_LOADER-1  the loader takes the address it returns to for its caller, whose run path and
//     namespace it then uses. So the real function is not called but jumped to, from a few
//     instructions of assembly, with the arguments as they were or as the function in front of it
//     left them.
// OVERRIDE_LOADER-2  the function in front may allocate (dlsym does for a message); it holds no
//     lock.
//
// One more is a line with `MI_LOADER_ENTRY`, and the function in front of it, whose name has
// mi_loader_ before that of the real one. Only in the shared
// library, with glibc, on the processors below: elsewhere it is for the program to know. With a
// loader that has no such function the name gives NULL, as for a library that is not found.
#if defined(MI_MALLOC_OVERRIDE) && defined(MI_SHARED_LIB_EXPORT) && defined(__GLIBC__)

#include <dlfcn.h>

#include "../api/api.h"

// In glibc before 2.34 it is in a library of its own, which is there when somebody has the name.
#pragma weak dlsym

// Called by the assembly, with its arguments in the order of the registers: at most three.
#define MI_LOADER_BEFORE __attribute__((cold, used, visibility("hidden")))

#if defined(__x86_64__)
#define MI_LOADER_ENTRY(name)                                                                      \
  __asm__(".pushsection .text.unlikely.mi_loader, \"ax\", @progbits\n"                             \
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
  __asm__(".pushsection .text.unlikely.mi_loader, \"ax\", %progbits\n"                             \
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

// The function of that name behind ours.
static void* mi_loader_next(const char* name) {
  void* const next = dlsym != NULL ? dlsym(RTLD_NEXT, name) : NULL;
  return next != NULL ? next : (void*)&mi_loader_nothing;
}

static void mi_loader_drop_deepbind(uintptr_t* flags) {
  if (mi_option_is_enabled(mi_option_drop_deepbind)) *flags &= ~(uintptr_t)RTLD_DEEPBIND;
}

// (file, flags)
MI_LOADER_ENTRY(dlopen);
MI_LOADER_BEFORE void* mi_loader_dlopen(uintptr_t* arguments);
void* mi_loader_dlopen(uintptr_t* arguments) {
  mi_loader_drop_deepbind(&arguments[1]);
  return mi_loader_next("dlopen");
}

// (lmid, file, flags)
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
