// SPDX-License-Identifier: MIT
// probe.h - static probes (USDT): places in the code where a debugger or tracer can attach.
//
//   code                     nop                                  <- where a tracer puts its trap
//   section .note.stapsdt    a note: that address, "mimalloc", the name, where the arguments are
//
// A probe is one instruction that does nothing, and a note that no process loads. Tracers (gdb,
// perf, bpftrace, systemtap) read the notes of the file. The format is that of systemtap,
// version 3.
//
// PROBE-1  arguments are numbers of the size of a pointer. They are where the compiler has them at
//     that place: an expression that has to be computed costs its instructions always. So name
//     variables and fields only.
// PROBE-2  no probe is on a path of malloc or free that hits, nor in `mi_alloc_swap`.
// PROBE-3  the guide has a table of all probes, which test/interop/test_probes.py compares with the
//     notes of the library.
//
// Written here and not taken from <sys/sdt.h>, which most machines lack: a release has the same
// bytes wherever it is made. Deliberately absent: semaphores, which would be a test at each place;
// probes on other processors and in other formats of object files, where there are none.
#ifndef MI_OS_PROBE_H
#define MI_OS_PROBE_H

#include "../base/compiler.h"

#if defined(__ELF__) && defined(__GNUC__) && (defined(__x86_64__) || defined(__aarch64__)) &&      \
    !defined(__ILP32__)

// The base is what tools compare with, to see whether a program that moves addresses in a finished
// file (prelink) has moved the notes, too.
#define MI_PROBE_NOTE(name, arguments)                                                             \
  "980: nop\n"                                                                                     \
  ".pushsection .note.stapsdt,\"\",\"note\"\n"                                                     \
  ".balign 4\n"                                                                                    \
  ".4byte 982f-981f, 984f-983f, 3\n"                                                               \
  "981: .asciz \"stapsdt\"\n"                                                                      \
  "982: .balign 4\n"                                                                               \
  "983: .8byte 980b, _.stapsdt.base, 0\n"                                                          \
  ".asciz \"mimalloc\"\n"                                                                          \
  ".asciz \"" #name "\"\n"                                                                         \
  ".asciz \"" arguments "\"\n"                                                                     \
  "984: .balign 4\n"                                                                               \
  ".popsection\n"                                                                                  \
  ".ifndef _.stapsdt.base\n"                                                                       \
  ".pushsection .stapsdt.base,\"aG\",\"progbits\",.stapsdt.base,comdat\n"                          \
  ".weak _.stapsdt.base\n"                                                                         \
  ".hidden _.stapsdt.base\n"                                                                       \
  "_.stapsdt.base: .space 1\n"                                                                     \
  ".size _.stapsdt.base, 1\n"                                                                      \
  ".popsection\n"                                                                                  \
  ".endif\n"

#define mi_probe1(name, a) __asm__ volatile(MI_PROBE_NOTE(name, "8@%0")::"nor"((uintptr_t)(a)))
#define mi_probe2(name, a, b)                                                                      \
  __asm__ volatile(MI_PROBE_NOTE(name, "8@%0 8@%1")::"nor"((uintptr_t)(a)), "nor"((uintptr_t)(b)))
#define mi_probe3(name, a, b, c)                                                                   \
  __asm__ volatile(MI_PROBE_NOTE(name, "8@%0 8@%1 8@%2")::"nor"((uintptr_t)(a)),                   \
                   "nor"((uintptr_t)(b)), "nor"((uintptr_t)(c)))

#else

#define mi_probe1(name, a) ((void)(a))
#define mi_probe2(name, a, b) ((void)(a), (void)(b))
#define mi_probe3(name, a, b, c) ((void)(a), (void)(b), (void)(c))

#endif

#endif
