// SPDX-License-Identifier: MIT
// os_linux_unwinder.c - whether a call of this library comes from the unwinder, libgcc.
//
// libgcc keeps the frames that a program registers at run time (just-in-time compilers do that:
// __register_frame) behind a lock, and allocates and frees its tables while it holds that lock. A
// stack that is read then, by the same unwinder, waits for the lock for ever.
//
// OS_LINUX_UNWINDER-1  the unwinder called if a word of the stack above us is an address behind a
//     call in its code, and the slot of its linkage table which that call goes through leads to the
//     module that has this library. (The stack cannot be walked: that is the work of the unwinder.)
// OS_LINUX_UNWINDER-2  such a word may be left from an earlier call. Libgcc allocates for
//     registered frames only, so that this is rare, and costs a stack.
// OS_LINUX_UNWINDER-3  the ranges are written before the unwinder is used, and published by that
//     (`mi_os_has_backtrace` in os_posix_fault.c).
//
// Deliberately absent: a libgcc that is linked into the program, and processors other than x86-64
// and aarch64. A program that has one of these, and registers frames, should not ask for stacks.
#include <link.h>
#include <string.h>

#include "os_posix.h"

#pragma weak dl_iterate_phdr

#define MI_OS_UNWINDER_WORDS 512 // of the stack, at most: our functions take less than 4 KiB
#define MI_OS_CALL_LONGEST 6 // bytes of a call
#define MI_OS_STUB_LONGEST 24 // of an entry of the linkage table

typedef struct mi_os_span_s {
  uintptr_t first, end;
} mi_os_span_t;

// OS_LINUX_UNWINDER-3
static mi_os_span_t mi_os_unwinder_code; // empty: there is none
static mi_os_span_t mi_os_unwinder_data;
static mi_os_span_t mi_os_module_code; // of the module that has this library

static bool mi_os_span_has(const mi_os_span_t* span, uintptr_t at, size_t size) {
  return at - span->first < span->end - span->first && size <= span->end - at;
}

static int mi_os_unwinder_note(struct dl_phdr_info* info, size_t size, void* arg) {
  const uintptr_t here = (uintptr_t)&mi_os_unwinder_note;
  const bool is_unwinder =
      info->dlpi_name != NULL && strstr(info->dlpi_name, "/libgcc_s.so") != NULL;
  (void)size;
  (void)arg;
  for (size_t i = 0; i < info->dlpi_phnum; i++) {
    const __typeof__(*info->dlpi_phdr)* const part = &info->dlpi_phdr[i];
    const uintptr_t first = info->dlpi_addr + part->p_vaddr;
    const mi_os_span_t span = {first, first + part->p_memsz};
    if (part->p_type != PT_LOAD) continue;
    if (mi_os_span_has(&span, here, 1)) mi_os_module_code = span;
    if (!is_unwinder) continue;
    if ((part->p_flags & PF_X) != 0) mi_os_unwinder_code = span;
    if ((part->p_flags & PF_W) != 0) mi_os_unwinder_data = span;
  }
  return 0;
}

static void mi_os_call_find_unwinder(void) {
  if (dl_iterate_phdr != NULL) dl_iterate_phdr(&mi_os_unwinder_note, NULL);
}

// Return the slot with the address that the call before `at`, in the code of the unwinder, goes to;
// 0 if it goes to a function of the unwinder, or is no call.
#if defined(__x86_64__)
static uintptr_t mi_os_relative(const uint8_t* end) { // of an operand, to the next instruction
  int32_t distance;
  memcpy(&distance, end - sizeof(distance), sizeof(distance));
  return (uintptr_t)end + (uintptr_t)(intptr_t)distance;
}

static uintptr_t mi_os_call_slot(uintptr_t at) {
  const uint8_t* const code = (const uint8_t*)at;
  if (code[-6] == 0xff && code[-5] == 0x15) return mi_os_relative(code); // call *slot(%rip)
  if (code[-5] != 0xe8) return 0;
  const uint8_t* stub = (const uint8_t*)mi_os_relative(code);
  if (!mi_os_span_has(&mi_os_unwinder_code, (uintptr_t)stub, MI_OS_STUB_LONGEST)) return 0;
  if (memcmp(stub, "\xf3\x0f\x1e\xfa", 4) == 0) stub += 4; // endbr64
  if (stub[0] == 0xf2) stub++; // bnd
  return stub[0] == 0xff && stub[1] == 0x25 ? mi_os_relative(stub + 6) : 0; // jmp *slot(%rip)
}
#elif defined(__aarch64__)
// Return `bits` bits of an instruction, from bit `low` on, as a signed number.
static intptr_t mi_os_signed(uint32_t word, unsigned low, unsigned bits) {
  const int64_t high = (int64_t)((uint64_t)word << (64 - low - bits));
  return (intptr_t)(high >> (64 - bits));
}

static uintptr_t mi_os_call_slot(uintptr_t at) {
  const uint32_t* const call = (const uint32_t*)at - 1;
  if (at % sizeof(*call) != 0 || *call >> 26 != 0x25) return 0; // bl
  const uint32_t* stub = call + mi_os_signed(*call, 0, 26);
  if (!mi_os_span_has(&mi_os_unwinder_code, (uintptr_t)stub, MI_OS_STUB_LONGEST)) return 0;
  if (*stub == 0xd503245f) stub++; // bti c
  // adrp x16, page; ldr x17, [x16, offset]
  if ((stub[0] & 0x9f00001f) != 0x90000010 || (stub[1] & 0xffc003ff) != 0xf9400211) return 0;
  const intptr_t pages = mi_os_signed(stub[0], 5, 19) * 4 + (intptr_t)(stub[0] >> 29 & 3);
  const uintptr_t page = ((uintptr_t)stub & ~(uintptr_t)4095) + (uintptr_t)(pages * 4096);
  return page + (stub[1] >> 10 & 4095) * sizeof(uintptr_t);
}
#else
static uintptr_t mi_os_call_slot(uintptr_t at) {
  (void)at;
  return 0;
}
#endif

static bool mi_os_is_unwinder_call(uintptr_t at) {
  if (!mi_os_span_has(&mi_os_unwinder_code, at - MI_OS_CALL_LONGEST, MI_OS_CALL_LONGEST)) {
    return false;
  }
  const uintptr_t slot = mi_os_call_slot(at);
  if (slot % sizeof(slot) != 0) return false;
  if (!mi_os_span_has(&mi_os_unwinder_data, slot, sizeof(slot))) return false;
  uintptr_t function;
  memcpy(&function, (const void*)slot, sizeof(function));
  return mi_os_span_has(&mi_os_module_code, function, 1);
}

// OS_LINUX_UNWINDER-1
static mi_attr_unchecked bool mi_os_call_is_unwinders(const void* top) {
  const uintptr_t page_size = 4096; // a smaller one than there is costs calls only
  const uintptr_t* word = (const uintptr_t*)top;
  if (mi_os_unwinder_code.first == 0) return false;
  for (size_t i = 0; i < MI_OS_UNWINDER_WORDS; i++, word++) {
    if ((uintptr_t)word % page_size == 0 && !mi_os_is_readable(word)) return false;
    if (mi_os_is_unwinder_call(*word)) return true;
  }
  return false;
}
