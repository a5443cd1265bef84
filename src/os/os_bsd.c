// SPDX-License-Identifier: MIT
// os_bsd.c - what os.h needs of FreeBSD, NetBSD (10 and later) and OpenBSD, and POSIX does not
// have, on x86-64 and aarch64; the rest is in os_common.c and os_posix.c. Written and linked, never
// run.
//
//                              FreeBSD            NetBSD              OpenBSD
//   a thread waits             _umtx_op(2)        __futex(2)          futex(2)
//   memory at an address       MAP_EXCL           MAP_TRYFIXED        __MAP_NOREPLACE
//   aligned memory             MAP_ALIGNED        MAP_ALIGNED         ends are cut off (os_posix.c)
//   mapped, not yet touched    as vm.overcommit   is free             counts (RLIMIT_DATA)
//   random numbers             getentropy(2)      getentropy(2)       getentropy(2)
//   raised privileges          issetugid(2)       issetugid(2)        issetugid(2)
//   resident memory            sysctl(3)          sysctl(3)           not told
//   state of a thread          of the compiler    of the compiler     self_table.c
//
// OS_POSIX-1 to OS_POSIX-3 hold here, too; what files need for that is in os_cancel.c.
// OS_BSD-1  contents go back by a fresh mapping (`mi_os_purge`), and by madvise(2) only where it
//     does not matter what is read afterwards (`mi_os_reset`). After MADV_FREE a page "might be
//     demand zeroed, or might contain the data that was there before" (FreeBSD), is "no longer
//     important" (NetBSD, OpenBSD); MADV_DONTNEED keeps the contents in all three.
// OS_BSD-2  nothing here is forbidden to a program that has promised pledge(2) "stdio", beside what
//     it asks for itself (a file, a stack). Hence no /dev/urandom, and no sysctl(3) on OpenBSD,
//     which ends such a program. No system call is made by number on OpenBSD, which permits them to
//     libc alone.
//
// Deliberately absent: `__isthreaded`, which is true from the first thread on, but not in the child
// of a fork, where os.h asks for "ever". A list of what is mapped, and huge pages, which FreeBSD
// gives by itself. What a fork does with memory (minherit(2)): it copies.
#include <sys/param.h>
#include <sys/sysctl.h>
#if defined(__FreeBSD__)
#include <sys/umtx.h>
#include <sys/user.h>
#elif defined(__NetBSD__)
#include <sys/futex.h>
#include <sys/syscall.h>
#else
#include <sys/futex.h>
#endif

#include "os_posix.h"

#if defined(__NetBSD__) && !defined(SYS___futex)
#error "NetBSD before 10 has no __futex(2): build with MI_OS_PLAIN (cmake -DMI_OS_PLAIN=ON)"
#endif

// -- For os_posix.c --

#if defined(__FreeBSD__)
static const int mi_os_call_map_at = MAP_FIXED | MAP_EXCL;
#elif defined(__NetBSD__)
static const int mi_os_call_map_at = MAP_TRYFIXED; // a hint, also where the heap of brk(2) may grow
#else
static const int mi_os_call_map_at = MAP_FIXED | __MAP_NOREPLACE;
#endif
static const int mi_os_call_fault_flags = 0;

#if defined(__FreeBSD__) && defined(__x86_64__)
#define MI_OS_FAULT_AT(context) ((context)->uc_mcontext.mc_rip)
#define MI_OS_FAULT_STACK(context) ((context)->uc_mcontext.mc_rsp)
#define MI_OS_FAULT_ERROR(context) ((context)->uc_mcontext.mc_err)
#elif defined(__FreeBSD__) && defined(__aarch64__)
#define MI_OS_FAULT_AT(context) ((context)->uc_mcontext.mc_gpregs.gp_elr)
#define MI_OS_FAULT_STACK(context) ((context)->uc_mcontext.mc_gpregs.gp_sp)
#elif defined(__NetBSD__)
#define MI_OS_FAULT_AT(context) _UC_MACHINE_PC(context)
#define MI_OS_FAULT_STACK(context) _UC_MACHINE_SP(context)
#if defined(__x86_64__)
#define MI_OS_FAULT_ERROR(context) ((context)->uc_mcontext.__gregs[_REG_ERR])
#endif
#elif defined(__OpenBSD__) && defined(__x86_64__)
#define MI_OS_FAULT_AT(context) ((context)->sc_rip)
#define MI_OS_FAULT_STACK(context) ((context)->sc_rsp)
#define MI_OS_FAULT_ERROR(context) ((context)->sc_err)
#elif defined(__OpenBSD__) && defined(__aarch64__)
#define MI_OS_FAULT_AT(context) ((context)->sc_elr)
#define MI_OS_FAULT_STACK(context) ((context)->sc_sp)
#else
#define MI_OS_FAULT_AT(context) ((uintptr_t)(context)&0)
#define MI_OS_FAULT_STACK(context) ((uintptr_t)(context)&0)
#endif

// The error code of a page fault, which only x86 has, says in bit 1 that it was a write.
static uintptr_t mi_os_call_fault(int number, const siginfo_t* info, const ucontext_t* context,
                                  mi_os_fault_t* fault) {
  (void)number;
  (void)info;
  fault->at = (const void*)(uintptr_t)MI_OS_FAULT_AT(context);
#if defined(MI_OS_FAULT_ERROR)
  fault->access = (MI_OS_FAULT_ERROR(context) & 2) != 0 ? MI_OS_WRITE : MI_OS_READ;
#endif
  return (uintptr_t)MI_OS_FAULT_STACK(context);
}

// -- os.h --

// When the library started. Written before any other thread is there.
static uint64_t mi_os_start_ms;

// FreeBSD can be told to set swap space aside for all that is mapped, or to limit it for a user
// (tuning(7)). OpenBSD counts memory as data as soon as it is read-write (getrlimit(2)).
static bool mi_os_has_overcommit(void) {
#if defined(__FreeBSD__)
  const int name[] = {CTL_VM, VM_OVERCOMMIT};
  int how = 0;
  size_t size = sizeof(how);
  return sysctl(name, 2, &how, &size, NULL, 0) != 0 || (how & 3) == 0;
#elif defined(__OpenBSD__)
  return false;
#else
  return true;
#endif
}

MI_INTERNAL void mi_os_init(mi_os_info_t* info) {
  const int saved_errno = errno;
  info->page_size = (size_t)getpagesize();
  info->huge_page_size = info->page_size / 8 * info->page_size;
  info->address_bits = MI_ADDRESS_BITS;
  info->has_overcommit = mi_os_has_overcommit();
  info->has_tags = false;
  info->is_setuid = issetugid() != 0;
  mi_os_start_ms = mi_os_now_ms();
  errno = saved_errno;
}

MI_INTERNAL int mi_os_reset(void* start, size_t size) {
  const int saved_errno = errno;
  return mi_os_result(madvise(start, size, MADV_FREE), saved_errno);
}

#define MI_OS_ENTROPY_MAX ((size_t)256) // bytes at once

MI_INTERNAL void mi_os_secret(uint64_t* words, size_t count) {
  const int saved_errno = errno;
  mi_random_t random = {mi_os_random()};
  for (size_t i = 0; i < count; i++) words[i] = mi_random_next(&random);
  const size_t most = MI_OS_ENTROPY_MAX / sizeof(*words);
  for (size_t i = 0; i < count; i += most) {
    if (getentropy(&words[i], mi_bits_min(count - i, most) * sizeof(*words)) != 0) break;
  }
  errno = saved_errno;
}

// Return the bytes of this process that are resident, 0 if that is not known.
static size_t mi_os_resident(void) {
#if defined(__FreeBSD__)
  const int name[] = {CTL_KERN, KERN_PROC, KERN_PROC_PID, (int)getpid()};
  struct kinfo_proc about;
  size_t size = sizeof(about);
  if (sysctl(name, 4, &about, &size, NULL, 0) != 0) return 0;
  return (size_t)about.ki_rssize * (size_t)getpagesize();
#elif defined(__NetBSD__)
  struct kinfo_proc2 about;
  const int name[] = {CTL_KERN, KERN_PROC2, KERN_PROC_PID, (int)getpid(), (int)sizeof(about), 1};
  size_t size = sizeof(about);
  if (sysctl(name, 6, &about, &size, NULL, 0) != 0) return 0;
  return (size_t)about.p_vm_rssize * (size_t)getpagesize();
#else
  return 0; // OS_BSD-2
#endif
}

MI_INTERNAL void mi_os_usage(mi_os_usage_t* usage) {
  const int saved_errno = errno;
  mi_os_usage_posix(usage);
  usage->elapsed_ms = (size_t)(mi_os_now_ms() - mi_os_start_ms);
  usage->rss = mi_os_resident();
  errno = saved_errno;
}

// -- lock.h --

// Sleep while `*word == value`, but no longer than `timeout`, NULL for ever.
static void mi_os_sleep(mi_atomic(uint32_t) * word, uint32_t value,
                        const struct timespec* timeout) {
  const int saved_errno = errno;
#if defined(__FreeBSD__)
  struct _umtx_time time = {._clockid = CLOCK_MONOTONIC}; // no flags: from now on
  if (timeout != NULL) time._timeout = *timeout;
  void* const size = timeout != NULL ? (void*)(uintptr_t)sizeof(time) : NULL;
  _umtx_op(word, UMTX_OP_WAIT_UINT_PRIVATE, value, size, timeout != NULL ? &time : NULL);
#elif defined(__NetBSD__)
  syscall(SYS___futex, word, FUTEX_WAIT | FUTEX_PRIVATE_FLAG, value, timeout, NULL, 0, 0);
#else
  futex((volatile uint32_t*)word, FUTEX_WAIT_PRIVATE, (int)value, timeout, NULL);
#endif
  errno = saved_errno;
}

MI_INTERNAL void mi_os_wait(mi_atomic(uint32_t) * word, uint32_t value) {
  mi_os_sleep(word, value, NULL);
}

MI_INTERNAL void mi_os_wait_ms(mi_atomic(uint32_t) * word, uint32_t value, uint64_t ms) {
  const struct timespec timeout = {(time_t)(ms / 1000), (long)(ms % 1000) * 1000000};
  mi_os_sleep(word, value, ms == MI_OS_FOREVER ? NULL : &timeout);
}

MI_INTERNAL void mi_os_wake(mi_atomic(uint32_t) * word) {
  const int saved_errno = errno;
#if defined(__FreeBSD__)
  _umtx_op(word, UMTX_OP_WAKE_PRIVATE, 1, NULL, NULL);
#elif defined(__NetBSD__)
  syscall(SYS___futex, word, FUTEX_WAKE | FUTEX_PRIVATE_FLAG, 1, NULL, NULL, 0, 0);
#else
  futex((volatile uint32_t*)word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL);
#endif
  errno = saved_errno;
}
