// SPDX-License-Identifier: MIT
// os_macos.c - what os.h needs of macOS, on arm64 and x86-64; the rest is in os_common.c and
// os_posix.c. Written and linked, never run.
//
//   contents go back at once   a fresh mapping in the place of the old one (os_common.c): what
//                              madvise(2) takes, reads as before or as zero, and nobody can tell
//   ... when memory is short   MADV_FREE_REUSABLE, which the kernel refuses for some memory; then
//                              MADV_DONTNEED (`mi_os_reset`)
//   a thread waits             __ulock_wait: what the C++ library of the system itself waits with
//   state of a thread          self_table.c: thread-local variables call malloc at first use. The
//                              identity is read inline (compiler.h); no slot of a thread is taken
//                              for granted, and only the end of a thread needs a key (os_key.c)
//
// OS_POSIX-1 to OS_POSIX-3 hold here, too; what files need for that is in os_cancel.c.
// OS_MACOS-1  libSystem has run its own initialisers before anything here is called: they make what
//     the calls below need, and they come before those of all other libraries.
//
// Deliberately absent: huge pages, which the system gives as it likes; memory that is moved
// (mach_vm_remap shares it); guards inside of a mapping; a list of what is mapped; whether the
// process has one thread, which threads of Dispatch do not tell; the moment at which the library is
// unloaded: it must not be.
#include <mach/mach.h>
#include <sys/random.h>

#include "os_posix.h"

#define MI_OS_TAG_FIRST 100
#define MI_OS_TAG_END 256

// The number that mappings have: that of the option `os_tag`; 0 before that was read. Written and
// read by any thread, relaxed: a stale value is that of earlier mappings.
static mi_atomic(uint32_t) mi_os_map_number;

MI_INTERNAL void mi_os_tag_maps(uint32_t number) {
  mi_atomic_store_relaxed(&mi_os_map_number, number < MI_OS_TAG_END ? number : MI_OS_TAG_FIRST);
}

// -- For os_posix.c --

static const int mi_os_call_map_at = 0; // a hint is followed, or the memory is elsewhere
static const int mi_os_call_fault_flags = 0;

static int mi_os_call_map_tag(void) {
  const uint32_t number = mi_atomic_load_relaxed(&mi_os_map_number);
  return (int)VM_MAKE_TAG(number != 0 ? number : MI_OS_TAG_FIRST);
}

// The error code of a page fault says in bit 1, the syndrome register in bit 6, that it was a
// write.
static uintptr_t mi_os_call_fault(int number, const siginfo_t* info, const ucontext_t* context,
                                  mi_os_fault_t* fault) {
  const struct __darwin_mcontext64* const machine = context->uc_mcontext;
  (void)number;
  (void)info;
#if defined(__x86_64__)
  fault->at = (const void*)machine->__ss.__rip;
  fault->access = (machine->__es.__err & 2) != 0 ? MI_OS_WRITE : MI_OS_READ;
  return (uintptr_t)machine->__ss.__rsp;
#else
  fault->at = (const void*)(uintptr_t)arm_thread_state64_get_pc(machine->__ss);
  fault->access = (machine->__es.__esr & 64) != 0 ? MI_OS_WRITE : MI_OS_READ;
  return (uintptr_t)arm_thread_state64_get_sp(machine->__ss);
#endif
}

// -- os.h --

MI_INTERNAL void mi_os_init(mi_os_info_t* info) {
  const int saved_errno = errno;
  const long page_size = sysconf(_SC_PAGESIZE); // 16 KiB on arm64
  info->page_size = page_size > 0 ? (size_t)page_size : 16 * MI_KIB;
  info->huge_page_size = 2 * MI_MIB;
  info->address_bits = MI_ADDRESS_BITS;
  info->has_overcommit = true;
  info->has_tags = false;
  info->is_setuid = issetugid() != 0;
  errno = saved_errno;
}

MI_INTERNAL int mi_os_reset(void* start, size_t size) {
  const int saved_errno = errno;
  int rc;
  do rc = madvise(start, size, MADV_FREE_REUSABLE);
  while (rc != 0 && errno == EAGAIN);
  if (rc != 0) rc = madvise(start, size, MADV_DONTNEED);
  return mi_os_result(rc, saved_errno);
}

MI_INTERNAL void mi_os_secret(uint64_t* words, size_t count) {
  const int saved_errno = errno;
  mi_random_t random = {mi_os_random()};
  for (size_t i = 0; i < count; i++) words[i] = mi_random_next(&random);
  const size_t most = 256 / sizeof(*words); // at once
  for (size_t i = 0; i < count; i += most) {
    if (getentropy(&words[i], mi_bits_min(count - i, most) * sizeof(*words)) != 0) break;
  }
  errno = saved_errno;
}

MI_INTERNAL void mi_os_usage(mi_os_usage_t* usage) {
  const int saved_errno = errno;
  mi_os_usage_posix(usage);
  usage->rss_peak /= MI_KIB; // which counts in bytes here
  struct mach_task_basic_info info;
  mach_msg_type_number_t words = MACH_TASK_BASIC_INFO_COUNT;
  if (task_info(mach_task_self(), MACH_TASK_BASIC_INFO, (task_info_t)&info, &words) ==
      KERN_SUCCESS) {
    usage->rss = (size_t)info.resident_size;
    usage->rss_peak = mi_bits_max(usage->rss_peak, (size_t)info.resident_size_max);
  }
  errno = saved_errno;
}

// The kernel reads for us, and says if it cannot.
MI_INTERNAL bool mi_os_is_readable(const void* p) {
  uint32_t copy;
  vm_size_t size = 0;
  return vm_read_overwrite(mach_task_self(), (vm_address_t)p, sizeof(copy), (vm_address_t)&copy,
                           &size) == KERN_SUCCESS;
}

// -- lock.h --

// Of libSystem, though in no header: the C++ library waits by these, too. They change no errno, and
// are no cancellation points unless they are told to be.
extern int __ulock_wait(uint32_t operation, void* address, uint64_t value, uint32_t microseconds);
extern int __ulock_wake(uint32_t operation, void* address, uint64_t value);
#define MI_OS_ULOCK (1u | 0x1000000u) // compare 4 bytes and wait; the result is -errno

MI_INTERNAL void mi_os_wait(mi_atomic(uint32_t) * word, uint32_t value) {
  __ulock_wait(MI_OS_ULOCK, (void*)word, value, 0);
}

#define MI_OS_WAIT_MAX_MS ((uint64_t)UINT32_MAX / 1000)

MI_INTERNAL void mi_os_wait_ms(mi_atomic(uint32_t) * word, uint32_t value, uint64_t ms) {
  if (ms == 0) return;
  const uint32_t microseconds =
      ms == MI_OS_FOREVER ? 0 : (uint32_t)(mi_bits_min(ms, MI_OS_WAIT_MAX_MS) * 1000);
  __ulock_wait(MI_OS_ULOCK, (void*)word, value, microseconds);
}

MI_INTERNAL void mi_os_wake(mi_atomic(uint32_t) * word) {
  __ulock_wake(MI_OS_ULOCK, (void*)word, 0);
}
