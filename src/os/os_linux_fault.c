// SPDX-License-Identifier: MIT
// os_linux_fault.c - what the context of a signal says about a fault, on Linux.

// From asm-generic/siginfo.h and asm/signal.h, which may be older: a wrong tag, and a flag to be
// told the tag of the address.
#define MI_OS_TAG_LATER 8
#define MI_OS_TAG_AT_ONCE 9
#define MI_OS_EXPOSE_TAGS 0x800

static const int mi_os_call_fault_flags = MI_IS_TAGGED ? MI_OS_EXPOSE_TAGS : 0;

static void mi_os_call_raise(int number) {
  syscall(SYS_tgkill, syscall(SYS_getpid), syscall(SYS_gettid), number);
}

// What a context says of the access. Returns the stack pointer, 0 if that is not known.
#if defined(__x86_64__) || defined(__i386__)
#define MI_OS_TRAP_PAGE_FAULT 14
#if defined(__x86_64__)
#define MI_OS_REG_TOP REG_RSP
#define MI_OS_REG_AT REG_RIP
#else
#define MI_OS_REG_TOP REG_ESP
#define MI_OS_REG_AT REG_EIP
#endif

static uintptr_t mi_os_context(const ucontext_t* context, mi_os_fault_t* fault) {
  const uintptr_t top = (uintptr_t)context->uc_mcontext.gregs[MI_OS_REG_TOP];
  fault->at = (const void*)context->uc_mcontext.gregs[MI_OS_REG_AT];
  // An address that is not canonical is another kind of fault, which does not tell it.
  if (context->uc_mcontext.gregs[REG_TRAPNO] != MI_OS_TRAP_PAGE_FAULT) return top;
  // Bit 1 of the error code of a page fault.
  fault->access = (context->uc_mcontext.gregs[REG_ERR] & 2) != 0 ? MI_OS_WRITE : MI_OS_READ;
  return top;
}
#elif defined(__aarch64__)
#define MI_OS_ESR_MAGIC 0x45535201

static uintptr_t mi_os_context(const ucontext_t* context, mi_os_fault_t* fault) {
  const uintptr_t top = (uintptr_t)context->uc_mcontext.sp;
  fault->at = (const void*)context->uc_mcontext.pc;
  // Records of {magic, size} follow; that of the syndrome register says it in bit 6.
  const uint8_t* at = (const uint8_t*)context->uc_mcontext.__reserved;
  const uint8_t* const end = at + sizeof(context->uc_mcontext.__reserved) - 16;
  while (at < end) {
    uint32_t head[2];
    __builtin_memcpy(head, at, sizeof(head));
    if (head[0] == MI_OS_ESR_MAGIC) {
      uint64_t syndrome;
      __builtin_memcpy(&syndrome, at + sizeof(head), sizeof(syndrome));
      fault->access = (syndrome & 64) != 0 ? MI_OS_WRITE : MI_OS_READ;
      break;
    }
    if (head[0] == 0 || head[1] < sizeof(head)) break;
    at += head[1];
  }
  return top;
}
#else
static uintptr_t mi_os_context(const ucontext_t* context, mi_os_fault_t* fault) {
  (void)context;
  (void)fault;
  return 0;
}
#endif

static uintptr_t mi_os_call_fault(int number, const siginfo_t* info, const ucontext_t* context,
                                  mi_os_fault_t* fault) {
  fault->is_tag = MI_IS_TAGGED && number == SIGSEGV &&
                  (info->si_code == MI_OS_TAG_LATER || info->si_code == MI_OS_TAG_AT_ONCE);
  return mi_os_context(context, fault);
}
