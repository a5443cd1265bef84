// SPDX-License-Identifier: MIT
// os_plain.c - os.h with nothing but POSIX: the least that a system must give, and where a port
// starts. It is chosen by MI_OS_PLAIN on any system, and the tests of this library run with it. On
// Android, DragonFly and Haiku there is no other choice, by reading: it was never compiled there.
//
// What POSIX has no function for is answered as os.h permits: explicit and huge OS pages, guards
// inside of a mapping, moved memory, NUMA nodes and a list of mappings do not exist; memory goes
// back by mapping it afresh; a thread that waits looks again and again.
//
// OS_POSIX-1 to OS_POSIX-3 hold here, too; what files need for that is in os_cancel.c, and what
// systems with more than POSIX have no better answer to, in os_common.c.
// Deliberately absent: speed.
#include "os_posix.h"

#define MI_OS_YIELDS 100
#define MI_OS_NAP_NS 100000

// -- For os_posix.c --

static const int mi_os_call_map_at = 0;
static const int mi_os_call_fault_flags = 0;

static uintptr_t mi_os_call_fault(int number, const siginfo_t* info, const ucontext_t* context,
                                  mi_os_fault_t* fault) {
  (void)number;
  (void)info;
  (void)context;
  (void)fault;
  return 0;
}

// -- os.h --

MI_INTERNAL void mi_os_init(mi_os_info_t* info) {
  const int saved_errno = errno;
  const long page_size = sysconf(_SC_PAGESIZE);
  info->page_size = page_size > 0 ? (size_t)page_size : 4096;
  info->huge_page_size = info->page_size / 8 * info->page_size;
  info->address_bits = MI_ADDRESS_BITS;
  info->has_overcommit = true;
  info->has_tags = false;
  info->is_setuid = geteuid() != getuid() || getegid() != getgid();
  errno = saved_errno;
}

MI_INTERNAL int mi_os_reset(void* start, size_t size) { return mi_os_remap(start, size); }

// An array, because long literals lie where few programs come (cmake/layout.ld).
static const char mi_os_random_file[] = "/dev/urandom";

MI_INTERNAL void mi_os_secret(uint64_t* words, size_t count) {
  const int saved_errno = errno;
  mi_random_t random = {mi_os_random()};
  for (size_t i = 0; i < count; i++) words[i] = mi_random_next(&random);
  const int file = mi_os_call_open(mi_os_random_file, O_RDONLY | O_CLOEXEC | O_NOCTTY, 0);
  if (file >= 0) {
    mi_os_call_read(file, words, count * sizeof(*words));
    mi_os_call_close(file);
  }
  errno = saved_errno;
}

MI_INTERNAL void mi_os_usage(mi_os_usage_t* usage) {
  const int saved_errno = errno;
  mi_os_usage_posix(usage);
  errno = saved_errno;
}

// -- lock.h --

MI_INTERNAL void mi_os_wait(mi_atomic(uint32_t) * word, uint32_t value) {
  const int saved_errno = errno;
  const struct timespec nap = {0, MI_OS_NAP_NS};
  for (int i = 0; i < MI_OS_YIELDS && mi_atomic_load_relaxed(word) == value; i++) sched_yield();
  if (mi_atomic_load_relaxed(word) == value) {
    const int state = mi_os_cancel_off();
    nanosleep(&nap, NULL);
    mi_os_cancel_restore(state);
  }
  errno = saved_errno;
}

// A word is looked at after 1, 2, 4, ... milliseconds, and then every 20: who waits long does not
// wake often, and what comes at once is not waited for.
#define MI_OS_STEP_MS 20

MI_INTERNAL void mi_os_wait_ms(mi_atomic(uint32_t) * word, uint32_t value, uint64_t ms) {
  const int saved_errno = errno;
  const int state = mi_os_cancel_off();
  for (uint64_t most = 1; ms > 0 && mi_atomic_load_relaxed(word) == value; most *= 2) {
    if (most > MI_OS_STEP_MS) most = MI_OS_STEP_MS;
    const uint64_t step = ms < most ? ms : most;
    const struct timespec nap = {0, (long)step * 1000000};
    nanosleep(&nap, NULL);
    if (ms != MI_OS_FOREVER) ms -= step;
  }
  mi_os_cancel_restore(state);
  errno = saved_errno;
}

MI_INTERNAL void mi_os_wake(mi_atomic(uint32_t) * word) { (void)word; }
