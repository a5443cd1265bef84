// SPDX-License-Identifier: MIT
// compiler.h - one name for each thing that differs between compilers and instruction sets.
//
// This is the first header of the lowest layer (`base`): it knows nothing of allocation and
// includes only freestanding headers. Compiler and ISA tests live here and nowhere else;
// operating-system tests live in `src/os`.
#ifndef MI_BASE_COMPILER_H
#define MI_BASE_COMPILER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Addresses, and size_t, have 32 bits; else 64.
#define MI_IS_32_BIT (__SIZEOF_POINTER__ == 4)

// WebAssembly, and with threads: else there is no instruction that a second thread could need.
#if defined(__wasm__)
#define MI_IS_WASM 1
#else
#define MI_IS_WASM 0
#endif
#if defined(__wasm_atomics__) && defined(__wasm_bulk_memory__)
#define MI_IS_WASM_THREADS 1
#else
#define MI_IS_WASM_THREADS 0
#endif

#if defined(_WIN32)
#define MI_IS_WINDOWS 1
#else
#define MI_IS_WINDOWS 0
#endif

#if defined(__FreeBSD__) || defined(__NetBSD__) || defined(__OpenBSD__)
#define MI_IS_BSD 1
#else
#define MI_IS_BSD 0
#endif

#if defined(__APPLE__)
#define MI_IS_MACOS 1
#else
#define MI_IS_MACOS 0
#endif

// Systems that are taken for one with nothing but POSIX (os/os_plain.c). Written by reading, never
// compiled there.
#if defined(__ANDROID__) || defined(__DragonFly__) || defined(__HAIKU__)
#define MI_IS_ONLY_POSIX 1
#else
#define MI_IS_ONLY_POSIX 0
#endif

// The compiler emulates thread-local variables, or the loader makes them: they call malloc at the
// first access of a thread.
#if (MI_IS_WINDOWS && !defined(__clang__)) || defined(__OpenBSD__) || MI_IS_MACOS
#define MI_IS_TLS_EMULATED 1
#else
#define MI_IS_TLS_EMULATED 0
#endif

// Begin to load the cache line of an address, which may be any.
#define mi_prefetch(p) __builtin_prefetch(p)
#define mi_likely(x) __builtin_expect(!!(x), 1)
#define mi_unlikely(x) __builtin_expect(!!(x), 0)

#define mi_attr_noinline __attribute__((noinline))
#define mi_attr_inline __attribute__((always_inline)) inline
#define mi_attr_cold __attribute__((cold, noinline))
#if defined(_WIN32) && !defined(__clang__) // not the format of Windows' oldest C library
#define mi_attr_printf(fmt, args) __attribute__((format(gnu_printf, fmt, args)))
#else
#define mi_attr_printf(fmt, args) __attribute__((format(printf, fmt, args)))
#endif
#define mi_attr_weak __attribute__((weak))
// A function that is called when the process ends or the library is unloaded: by its priority, the
// last one of the library. The C run-time of Visual Studio calls none.
#if defined(_MSC_VER)
#define MI_HAS_DESTRUCTORS 0
#define mi_attr_last_destructor
#else
#define MI_HAS_DESTRUCTORS 1
#define mi_attr_last_destructor __attribute__((destructor(101)))
#endif
// A reference to data that is weak for the assembler, too: gcc 12 forgets it on 64-bit POWER.
#if MI_IS_MACOS
#define mi_weak_data(name) mi_static_assert(1, #name)
#else
#define mi_weak_data(name) __asm__(".weak " #name)
#endif
// The address of a function or of data that was declared as weak, NULL if the process has none. On
// macOS a weak reference needs a library that has the name when we are linked: it is looked up
// (-2 is RTLD_DEFAULT). Not for a fast path.
#if MI_IS_MACOS
extern void* dlsym(void* handle, const char* name);
#define mi_weak_address(name) dlsym((void*)-2, #name)
#else
#define mi_weak_address(name) ((void*)(uintptr_t)(name))
#endif
// A constant that is a note of ELF: PT_NOTE leads there, and no tool strips it.
#if defined(__ELF__) && !MI_IS_WASM
#define mi_attr_note __attribute__((section(".note.mimalloc"), aligned(4), used))
#else
#define mi_attr_note __attribute__((unused))
#endif
#define mi_attr_unused __attribute__((unused))
// A function that reads plain fields which other threads write, on purpose; see `mi_atomic_peek`.
#define mi_attr_racy __attribute__((no_sanitize_thread, noinline))
// A function that is not inlined, and whose accesses AddressSanitizer does not check (gcc would
// move a load from an inlined one into its callers).
#if defined(__clang__)
#define mi_attr_unchecked __attribute__((noinline, unused, no_sanitize_address))
#else
#define mi_attr_unchecked __attribute__((noipa, unused, no_sanitize_address))
#endif
#define mi_attr_aligned(n) __attribute__((aligned(n)))
// For large data that is hardly touched: placed behind all other data, so that the data that each
// process uses lies together. Not where a named section of zeros would be part of the file, or
// would be linked as a whole.
#if MI_IS_WINDOWS || MI_IS_MACOS || MI_IS_WASM
#define mi_attr_sparse
#define mi_attr_rare
#else
#define mi_attr_sparse __attribute__((section(".bss.sparse")))
// The same for constants that few processes read (cmake/layout.ld).
#define mi_attr_rare __attribute__((section(".rodata.rare")))
#endif
// The build chooses how thread-local variables are accessed, by -ftls-model, which an attribute
// would override: our own builds use initial-exec (one load, no call, no allocation, but room in
// the thread's static block, of which little is left for libraries that are loaded late). Without
// the option, the compiler chooses by the kind of code: with -fPIC local-dynamic.
#if defined(MI_LOCAL_DYNAMIC_TLS) && MI_LOCAL_DYNAMIC_TLS
#define mi_attr_tls __attribute__((tls_model("local-dynamic")))
#elif MI_IS_WASM // their address identifies a thread, and is a multiple of 16 (os/tls.h)
#define mi_attr_tls mi_attr_aligned(16)
#else
#define mi_attr_tls
#endif

// Cross-file functions and objects. In the single-translation-unit build they are static, so that
// the compiler sees every use; in the unit-test build every file is compiled alone.
#if defined(MI_SINGLE_TU)
#define MI_INTERNAL static mi_attr_unused
#define MI_INTERNAL_DATA static mi_attr_unused
#define MI_INTERNAL_DATA_DECL static mi_attr_unused
#else
#define MI_INTERNAL __attribute__((visibility("hidden")))
#define MI_INTERNAL_DATA __attribute__((visibility("hidden")))
#define MI_INTERNAL_DATA_DECL extern __attribute__((visibility("hidden")))
#endif

// Tell the compiler what is always so.
#define mi_assume(x)                                                                               \
  do {                                                                                             \
    if (!(x)) __builtin_unreachable();                                                             \
  } while (0)

// Make the compiler forget where a value came from (no code). Keeps an address in the form base +
// index, which an instruction can hold, instead of a sum computed beforehand.
#define mi_hide(x) __asm__("" : "+r"(x))

// A fast path starts at a cache line: its position changes the time of a malloc and free by 3 to 5
// %.
#define MI_FAST mi_attr_aligned(64)

// A slow half of a fast path: never inlined, placed away from hot code.
#define MI_SLOW MI_INTERNAL mi_attr_noinline

// A counter that runs at a steady pace, and about how many ticks it makes in a millisecond.
#if defined(__x86_64__)
#define MI_HAS_CPU_TICKS 1
#define mi_cpu_ticks() ((uint64_t)__builtin_ia32_rdtsc())
#define mi_cpu_ticks_per_ms() ((uint64_t)1 << 21) // 1 to 4 GHz
#elif defined(__aarch64__)
#define MI_HAS_CPU_TICKS 1
static inline uint64_t mi_cpu_ticks(void) {
  uint64_t ticks;
  __asm__ volatile("mrs %0, cntvct_el0" : "=r"(ticks));
  return ticks;
}
static inline uint64_t mi_cpu_ticks_per_ms(void) {
  uint64_t frequency;
  __asm__("mrs %0, cntfrq_el0" : "=r"(frequency));
  return frequency / 1000;
}
#else
#define MI_HAS_CPU_TICKS 0
#endif

// Return the address that the processor accesses for `p`: on aarch64 it ignores the highest byte,
// in which a program may keep what it likes. (On x86-64 it does so only if the program asks the
// system for that; an address with such bits is not one of ours.)
static mi_attr_inline void* mi_cpu_address(const void* p) {
#if defined(__aarch64__)
  return (void*)((uintptr_t)p & (UINTPTR_MAX >> 8));
#else
  return (void*)(uintptr_t)p;
#endif
}

// Return an address that differs between all living threads. On x86-64 one load from %fs:0 that the
// compiler may merge and schedule freely.
static mi_attr_inline uintptr_t mi_cpu_thread_pointer(void) {
#if defined(__powerpc64__) // gcc 12 does not have the built-in function there
  uintptr_t pointer;
  __asm__("mr %0, 13" : "=r"(pointer));
  return pointer;
#elif MI_IS_WINDOWS // to the block that the system keeps for the thread
  uintptr_t pointer;
#if defined(__x86_64__)
  __asm__("movq %%gs:0x30, %0" : "=r"(pointer));
#elif defined(__i386__)
  __asm__("movl %%fs:0x18, %0" : "=r"(pointer));
#else
  __asm__("mov %0, x18" : "=r"(pointer));
#endif
  return pointer;
#elif MI_IS_MACOS // to the values of its keys; lower bits may say which processor it runs on
  uintptr_t pointer;
#if defined(__x86_64__)
  __asm__("movq %%gs:0, %0" : "=r"(pointer)); // the first of these values is pthread_self()
#else
  __asm__("mrs %0, tpidrro_el0" : "=r"(pointer));
#endif
  return pointer & ~(uintptr_t)7;
#elif MI_IS_WASM_THREADS // where the thread-local variables are, which are aligned (thread_self.h)
  return (uintptr_t)__builtin_wasm_tls_base();
#elif MI_IS_WASM
  return 64; // of the only thread
#else
  return (uintptr_t)__builtin_thread_pointer();
#endif
}

// The address that a name stands for in this process, whichever object defined it, as the loader
// stored it: neither compiler nor linker may use our own definition instead (override.h).
#if MI_IS_WINDOWS || MI_IS_MACOS // no name stands for anything but what the linker found
#define mi_symbol_load(name, address) ((address) = (name))
#elif defined(__x86_64__)
#define mi_symbol_load(name, address) __asm__("movq " #name "@GOTPCREL(%%rip), %0" : "=r"(address))
#elif defined(__aarch64__)
#define mi_symbol_load(name, address)                                                              \
  __asm__("adrp %0, :got:" #name "\n\tldr %0, [%0, :got_lo12:" #name "]" : "=r"(address))
#else
#define mi_symbol_load(name, address) ((address) = (name))
#endif

#define mi_static_assert(e, text) _Static_assert(e, text)

#if !defined(__has_feature)
#define __has_feature(x) 0
#endif

#endif
