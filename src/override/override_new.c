// SPDX-License-Identifier: MIT
// override_new.c - operator new and delete of C++, as the Itanium ABI spells them: new (_Znw),
// new[] (_Zna), delete (_Zdl), delete[] (_Zda). `m` is size_t, `St11align_val_t` an alignment,
// `RKSt9nothrow_t` the address of std::nothrow.
//
// Only in builds that replace malloc. Programs may replace any of the forms, and rely on the calls
// that the standard specifies for the others: a header that their `operator new(size_t)` puts in
// front of a block is expected by their `operator delete(void*)`, which `delete[]` and the sized
// forms must call.
//
// OVERRIDE_NEW-1  a form that is specified to call another one calls the chosen definition of that
//     name. The basic forms call malloc, aligned_alloc and free by name, too: the standard does not
//     specify that, but other C++ libraries do so.
// OVERRIDE_NEW-2  the nothrow forms return NULL where the throwing form throws, even if that is not
//     ours, or if it is a new-handler that throws.
//
// In the archive and the object file all forms are weak: a program may define its own beside them.
// Deliberately absent: what to do when there is no memory (api_new.c).
#if defined(MI_MALLOC_OVERRIDE) && !defined(_WIN32) && !defined(__APPLE__)

#include <stddef.h>
#include <stdint.h>

#include "../api/api.h"
#include "override.h"

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmissing-prototypes"

#if defined(MI_SHARED_LIB_EXPORT)
#define MI_CXX_WEAK // Valgrind replaces only names that are not weak
#else
#define MI_CXX_WEAK mi_attr_weak
#endif
#define MI_CXX_EXPORT MI_CXX_WEAK MI_ELF_EXPORT

#if MI_IS_32_BIT && !MI_IS_WASM // size_t is `j`
#define _ZdaPvm _ZdaPvj
#define _ZdaPvmSt11align_val_t _ZdaPvjSt11align_val_t
#define _ZdlPvm _ZdlPvj
#define _ZdlPvmSt11align_val_t _ZdlPvjSt11align_val_t
#define _Znam _Znaj
#define _ZnamRKSt9nothrow_t _ZnajRKSt9nothrow_t
#define _ZnamSt11align_val_t _ZnajSt11align_val_t
#define _ZnamSt11align_val_tRKSt9nothrow_t _ZnajSt11align_val_tRKSt9nothrow_t
#define _Znwm _Znwj
#define _ZnwmRKSt9nothrow_t _ZnwjRKSt9nothrow_t
#define _ZnwmSt11align_val_t _ZnwjSt11align_val_t
#define _ZnwmSt11align_val_tRKSt9nothrow_t _ZnwjSt11align_val_tRKSt9nothrow_t
#endif

typedef struct mi_cxx_nothrow_s mi_cxx_nothrow_t;

void* _Znwm(size_t size);
void* _Znam(size_t size);
void* _ZnwmSt11align_val_t(size_t size, size_t alignment);
void* _ZnamSt11align_val_t(size_t size, size_t alignment);

// -- new, with a malloc that is not ours --

// Allocate, or return NULL. `aligned_alloc` needs a size that is a multiple of the alignment.
static void* mi_cxx_try(size_t size, size_t alignment) {
  if (size == 0) size = 1; // NULL would mean failure
  if (alignment == 0) return MI_BY_NAME(malloc)(size);
  if (size > SIZE_MAX - alignment) return NULL;
  return MI_BY_NAME(aligned_alloc)(alignment, mi_bits_align_up(size, alignment));
}

// Allocate as `operator new` does: while there is no memory call the new-handler, or throw if there
// is none. Alignment 0 means that of malloc.
static mi_attr_noinline void* mi_cxx_new_of_others(size_t size, size_t alignment) {
  for (;;) {
    void* const p = mi_cxx_try(size, alignment);
    if (p != NULL) return p;
    if (!mi_new_call_handler(size)) mi_new_throw();
  }
}

// -- new --

static void* mi_cxx_new(size_t size) {
  if (mi_unlikely(!MI_IS_OURS(malloc, mi_elf_malloc))) return mi_cxx_new_of_others(size, 0);
  return mi_new(size);
}

static void* mi_cxx_new_aligned(size_t size, size_t alignment) {
  const bool is_ours = MI_IS_OURS(aligned_alloc, mi_elf_aligned_alloc);
  if (is_ours || !mi_bits_is_power_of_two(alignment)) return mi_new_aligned(size, alignment);
  return mi_cxx_new_of_others(size, alignment);
}

static void* mi_cxx_new_array(size_t size) { return MI_BY_NAME(_Znwm)(size); }

static void* mi_cxx_new_array_aligned(size_t size, size_t alignment) {
  return MI_BY_NAME(_ZnwmSt11align_val_t)(size, alignment);
}

void* _Znwm(size_t size) MI_CXX_WEAK MI_ELF_ALIAS(mi_cxx_new);
void* _Znam(size_t size) MI_CXX_WEAK MI_ELF_ALIAS(mi_cxx_new_array);
void* _ZnwmSt11align_val_t(size_t size, size_t alignment) MI_CXX_WEAK
    MI_ELF_ALIAS(mi_cxx_new_aligned);
void* _ZnamSt11align_val_t(size_t size, size_t alignment) MI_CXX_WEAK
    MI_ELF_ALIAS(mi_cxx_new_array_aligned);

// -- new that does not throw --

// Calls `other(size, alignment)`; NULL if that throws. The C++ library is used only if an exception
// is thrown, so it may be missing.
//
// No construct of C can catch. So the frame is written here, and the table that tells the C++
// library to catch all exceptions of the one call.
void* mi_cxx_catching(size_t size, size_t alignment, uintptr_t other)
    __attribute__((visibility("hidden")));

#if defined(__x86_64__)
#define MI_CXX_ENTER "subq $8, %rsp\n .cfi_def_cfa_offset 16\n"
#define MI_CXX_CALL "call *%rdx\n"
#define MI_CXX_LEAVE "addq $8, %rsp\n .cfi_remember_state\n .cfi_def_cfa_offset 8\n ret\n"
#define MI_CXX_CATCH                                                                               \
  "endbr64\n movq %rax, %rdi\n call *__cxa_begin_catch@GOTPCREL(%rip)\n"                           \
  "call *__cxa_end_catch@GOTPCREL(%rip)\n xorl %eax, %eax\n"
#elif defined(__aarch64__)
#define MI_CXX_ENTER                                                                               \
  "stp x29, x30, [sp, -16]!\n .cfi_def_cfa_offset 16\n"                                            \
  ".cfi_offset 29, -16\n .cfi_offset 30, -8\n"
#define MI_CXX_CALL "blr x2\n"
#define MI_CXX_LEAVE                                                                               \
  "ldp x29, x30, [sp], 16\n .cfi_remember_state\n .cfi_restore 29\n .cfi_restore 30\n"             \
  ".cfi_def_cfa_offset 0\n ret\n"
#define MI_CXX_CATCH "hint #36\n bl __cxa_begin_catch\n bl __cxa_end_catch\n mov x0, 0\n" // bti j
#elif defined(__riscv) && __riscv_xlen == 64
#define MI_CXX_ENTER                                                                               \
  ".option push\n .option norelax\n addi sp, sp, -16\n .cfi_def_cfa_offset 16\n"                   \
  "sd ra, 8(sp)\n .cfi_offset 1, -8\n"
#define MI_CXX_CALL "jalr a2\n"
#define MI_CXX_LEAVE                                                                               \
  "ld ra, 8(sp)\n addi sp, sp, 16\n .cfi_remember_state\n .cfi_restore 1\n"                        \
  ".cfi_def_cfa_offset 0\n ret\n"
#define MI_CXX_CATCH                                                                               \
  "call __cxa_begin_catch@plt\n call __cxa_end_catch@plt\n li a0, 0\n .option pop\n"
#elif defined(__s390x__) // the exception comes in a register that belongs to the caller
#define MI_CXX_ENTER                                                                               \
  "stmg %r6, %r15, 48(%r15)\n .cfi_offset 6, -112\n .cfi_offset 7, -104\n .cfi_offset 14, -48\n"   \
  ".cfi_offset 15, -40\n aghi %r15, -160\n .cfi_def_cfa_offset 320\n"
#define MI_CXX_CALL "basr %r14, %r4\n"
#define MI_CXX_LEAVE                                                                               \
  "lmg %r6, %r15, 208(%r15)\n .cfi_remember_state\n .cfi_restore 6\n .cfi_restore 7\n"             \
  ".cfi_restore 14\n .cfi_restore 15\n .cfi_def_cfa_offset 160\n br %r14\n"
#define MI_CXX_CATCH                                                                               \
  "lgr %r2, %r6\n brasl %r14, __cxa_begin_catch@PLT\n brasl %r14, __cxa_end_catch@PLT\n"           \
  "lghi %r2, 0\n"
#elif defined(__powerpc64__) && defined(_CALL_ELF) && _CALL_ELF == 2
#define MI_CXX_ENTER                                                                               \
  "mflr 0\n std 0, 16(1)\n stdu 1, -32(1)\n .cfi_def_cfa_offset 32\n"                              \
  ".cfi_offset 65, 16\n std 2, 24(1)\n"
#define MI_CXX_CALL "mr 12, 5\n mtctr 12\n bctrl\n ld 2, 24(1)\n"
#define MI_CXX_LEAVE                                                                               \
  "addi 1, 1, 32\n .cfi_remember_state\n .cfi_def_cfa_offset 0\n ld 0, 16(1)\n mtlr 0\n"           \
  ".cfi_restore 65\n blr\n"
#define MI_CXX_CATCH                                                                               \
  "ld 2, 24(1)\n bl __cxa_begin_catch\n nop\n bl __cxa_end_catch\n nop\n li 3, 0\n"
#endif

#if defined(MI_CXX_ENTER)
__asm__(".pushsection .text.unlikely.mi_cxx_catching,\"ax\"\n"
        ".weak __gxx_personality_v0\n .weak __cxa_begin_catch\n .weak __cxa_end_catch\n"
        ".globl mi_cxx_catching\n .hidden mi_cxx_catching\n" // link-time optimisation divides files
        ".type mi_cxx_catching, %function\n"
        "mi_cxx_catching:\n"
        ".cfi_startproc\n"
        ".cfi_personality 0x9b, .Lmi_cxx_personality\n" // how both are found: relative to
        ".cfi_lsda 0x1b, .Lmi_cxx_table\n" // where they are named, the first by way of a pointer
        MI_CXX_ENTER ".Lmi_cxx_call:\n" MI_CXX_CALL ".Lmi_cxx_called:\n" MI_CXX_LEAVE
        ".Lmi_cxx_caught:\n .cfi_restore_state\n" MI_CXX_CATCH MI_CXX_LEAVE ".cfi_endproc\n"
        ".size mi_cxx_catching, .-mi_cxx_catching\n"
        ".popsection\n"
        ".pushsection .gcc_except_table.mi_cxx_catching,\"a\"\n"
        ".balign 4\n"
        ".Lmi_cxx_table:\n"
        ".byte 0xff, 0x9b\n" // landing pads count from the start of the function
        ".uleb128 21\n" // from here to the types, which are at a multiple of 4
        ".byte 0x03\n" // numbers of 4 bytes: RISC-V has no others whose value the linker finds
        ".uleb128 13\n" // of the next four
        ".4byte .Lmi_cxx_call - mi_cxx_catching\n"
        ".4byte .Lmi_cxx_called - .Lmi_cxx_call\n"
        ".4byte .Lmi_cxx_caught - mi_cxx_catching\n"
        ".uleb128 1\n"
        ".byte 1, 0\n"
        ".balign 4\n"
        ".long 0\n" // any type
        ".popsection\n"
        ".pushsection .data.rel.ro.mi_cxx_personality,\"aw\"\n"
        ".balign 8\n"
        ".Lmi_cxx_personality:\n"
        ".8byte __gxx_personality_v0\n"
        ".popsection\n");
#else // an exception passes through
void* mi_cxx_catching(size_t size, size_t alignment, uintptr_t other) {
  return ((void* (*)(size_t size, size_t alignment))other)(size, alignment);
}
#endif

static void* mi_cxx_new_or_null(size_t size, const mi_cxx_nothrow_t* tag) {
  (void)tag;
  const bool is_ours = MI_IS_OURS(_Znwm, mi_cxx_new) && MI_IS_OURS(malloc, mi_elf_malloc);
  if (mi_unlikely(!is_ours)) return mi_cxx_catching(size, 0, (uintptr_t)MI_BY_NAME(_Znwm));
  void* const p = mi_malloc(size);
  return mi_likely(p != NULL) ? p : mi_cxx_catching(size, 0, (uintptr_t)&mi_new_retry);
}

static void* mi_cxx_new_array_or_null(size_t size, const mi_cxx_nothrow_t* tag) {
  if (mi_likely(MI_IS_OURS(_Znam, mi_cxx_new_array))) return mi_cxx_new_or_null(size, tag);
  return mi_cxx_catching(size, 0, (uintptr_t)MI_BY_NAME(_Znam));
}

static void* mi_cxx_new_aligned_or_null(size_t size, size_t alignment,
                                        const mi_cxx_nothrow_t* tag) {
  (void)tag;
  const bool is_ours = MI_IS_OURS(_ZnwmSt11align_val_t, mi_cxx_new_aligned) &&
                       MI_IS_OURS(aligned_alloc, mi_elf_aligned_alloc);
  if (!is_ours) {
    return mi_cxx_catching(size, alignment, (uintptr_t)MI_BY_NAME(_ZnwmSt11align_val_t));
  }
  return mi_cxx_catching(size, alignment, (uintptr_t)&mi_new_aligned_nothrow);
}

static void* mi_cxx_new_array_aligned_or_null(size_t size, size_t alignment,
                                              const mi_cxx_nothrow_t* tag) {
  const bool is_ours = MI_IS_OURS(_ZnamSt11align_val_t, mi_cxx_new_array_aligned);
  if (is_ours) return mi_cxx_new_aligned_or_null(size, alignment, tag);
  return mi_cxx_catching(size, alignment, (uintptr_t)MI_BY_NAME(_ZnamSt11align_val_t));
}

void* _ZnwmRKSt9nothrow_t(size_t size, const mi_cxx_nothrow_t* tag) MI_CXX_WEAK
    MI_ELF_ALIAS(mi_cxx_new_or_null);
void* _ZnamRKSt9nothrow_t(size_t size, const mi_cxx_nothrow_t* tag) MI_CXX_WEAK
    MI_ELF_ALIAS(mi_cxx_new_array_or_null);
void* _ZnwmSt11align_val_tRKSt9nothrow_t(size_t size, size_t alignment,
                                         const mi_cxx_nothrow_t* tag) MI_CXX_WEAK
    MI_ELF_ALIAS(mi_cxx_new_aligned_or_null);
void* _ZnamSt11align_val_tRKSt9nothrow_t(size_t size, size_t alignment,
                                         const mi_cxx_nothrow_t* tag) MI_CXX_WEAK
    MI_ELF_ALIAS(mi_cxx_new_array_aligned_or_null);

// -- delete: each form jumps to the one that it is specified to call --

MI_CXX_EXPORT void _ZdlPv(void* p) { MI_BY_NAME(free)(p); }

MI_CXX_EXPORT void _ZdaPv(void* p) { MI_BY_NAME(_ZdlPv)(p); }

MI_CXX_EXPORT void _ZdlPvm(void* p, size_t size) {
  (void)size;
  MI_BY_NAME(_ZdlPv)(p);
}

MI_CXX_EXPORT void _ZdaPvm(void* p, size_t size) {
  (void)size;
  MI_BY_NAME(_ZdaPv)(p);
}

MI_CXX_EXPORT void _ZdlPvRKSt9nothrow_t(void* p, const mi_cxx_nothrow_t* tag) {
  (void)tag;
  MI_BY_NAME(_ZdlPv)(p);
}

MI_CXX_EXPORT void _ZdaPvRKSt9nothrow_t(void* p, const mi_cxx_nothrow_t* tag) {
  (void)tag;
  MI_BY_NAME(_ZdaPv)(p);
}

MI_CXX_EXPORT void _ZdlPvSt11align_val_t(void* p, size_t alignment) {
  (void)alignment;
  MI_BY_NAME(free)(p);
}

MI_CXX_EXPORT void _ZdaPvSt11align_val_t(void* p, size_t alignment) {
  MI_BY_NAME(_ZdlPvSt11align_val_t)(p, alignment);
}

MI_CXX_EXPORT void _ZdlPvmSt11align_val_t(void* p, size_t size, size_t alignment) {
  (void)size;
  MI_BY_NAME(_ZdlPvSt11align_val_t)(p, alignment);
}

MI_CXX_EXPORT void _ZdaPvmSt11align_val_t(void* p, size_t size, size_t alignment) {
  (void)size;
  MI_BY_NAME(_ZdaPvSt11align_val_t)(p, alignment);
}

MI_CXX_EXPORT void _ZdlPvSt11align_val_tRKSt9nothrow_t(void* p, size_t alignment,
                                                       const mi_cxx_nothrow_t* tag) {
  (void)tag;
  MI_BY_NAME(_ZdlPvSt11align_val_t)(p, alignment);
}

MI_CXX_EXPORT void _ZdaPvSt11align_val_tRKSt9nothrow_t(void* p, size_t alignment,
                                                       const mi_cxx_nothrow_t* tag) {
  (void)tag;
  MI_BY_NAME(_ZdaPvSt11align_val_t)(p, alignment);
}

#pragma GCC diagnostic pop

#endif
