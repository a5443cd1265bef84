// SPDX-License-Identifier: MIT
// os_common.c - the part of os.h that POSIX has a poor answer to, where the system has no better
// one: for os_plain.c, os_bsd.c and os_macos.c.
//
//   contents go back                   by mapping the memory afresh
//   is there one thread, is it alone   not known: no
//   unpredictable bits                 from addresses and a clock
//   can memory be read                 the kernel tries to (macOS has a better answer)
//   may the unwinder hold a lock       no
//
// OS_POSIX-1 to OS_POSIX-3 hold here, too.
// Deliberately absent: what each of these systems answers in its own way.
#include "os_posix.h"

static int mi_os_call_protection(void) { return PROT_READ | PROT_WRITE; }

static void mi_os_call_raise(int number) { pthread_kill(pthread_self(), number); }

// (`backtrace` is not used on these systems, or takes no lock.)
static void mi_os_call_find_unwinder(void) {}

static bool mi_os_call_is_unwinders(const void* top) { return top == NULL; }

MI_INTERNAL int mi_os_purge(void* start, size_t size) { return mi_os_remap(start, size); }

MI_INTERNAL bool mi_os_is_alone(void) { return false; }

MI_INTERNAL bool mi_os_is_single_threaded(void) { return false; }

// Addresses and clocks differ from process to process.
MI_INTERNAL uint64_t mi_os_random(void) {
  mi_random_t random = {(uintptr_t)&mi_os_random ^ (uintptr_t)&random << 16};
  random.state ^= mi_random_next(&random) ^ mi_os_now_us();
  return mi_random_next(&random);
}

#if !MI_IS_MACOS || MI_IS_OS_PLAIN

// The kernel reads what is written to a pipe, and says if it cannot.
MI_INTERNAL bool mi_os_is_readable(const void* p) {
  const int saved_errno = errno;
  int ends[2];
  bool is_readable = false;
  if (pipe(ends) == 0) {
    is_readable = mi_os_call_write(ends[1], p, 4) == 4;
    mi_os_call_close(ends[0]);
    mi_os_call_close(ends[1]);
  }
  errno = saved_errno;
  return is_readable;
}

#endif
