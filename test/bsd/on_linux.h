// SPDX-License-Identifier: MIT
// on_linux.h - src/os/os.c as it is on a BSD, as a part of this program, which runs on Linux: what
// os_bsd.c asks of a BSD is answered here, with the numbers and structures of that system
// (test/bsd/include) and the means of Linux.
//
// It shows that waits, wakes, timeouts, faults and figures are asked for as the manual pages say,
// not that a BSD does what they say. A program defines TEST_IS_FREEBSD, TEST_IS_NETBSD or
// TEST_IS_OPENBSD before.
#ifndef TEST_BSD_ON_LINUX_H
#define TEST_BSD_ON_LINUX_H

#define _GNU_SOURCE
#define MI_SINGLE_TU 1

// Headers of Linux take no notice of the names below any more.
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/param.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include <cmocka.h>

#if !defined(MAP_FIXED_NOREPLACE)
#define MAP_FIXED_NOREPLACE 0x100000
#endif

static int test_alignment; // the last one that was asked for, as a power of 2

#if defined(TEST_IS_FREEBSD)
#define __FreeBSD__ 14
#define MAP_EXCL MAP_FIXED_NOREPLACE
#define MAP_ALIGNED(n) (test_alignment = (n), 0)
#define mc_rip gregs[REG_RIP]
#define mc_rsp gregs[REG_RSP]
#define mc_err gregs[REG_ERR]
#elif defined(TEST_IS_NETBSD)
#define __NetBSD__ 1
#define MAP_TRYFIXED 0
#define MAP_ALIGNED(n) (test_alignment = (n), 0)
#define SYS___futex SYS_futex
#define _UC_MACHINE_PC(context) ((context)->uc_mcontext.gregs[REG_RIP])
#define _UC_MACHINE_SP(context) ((context)->uc_mcontext.gregs[REG_RSP])
#define _REG_ERR REG_ERR
#define __gregs gregs
#else
#define __OpenBSD__ 1
#define __MAP_NOREPLACE MAP_FIXED_NOREPLACE
#define sc_rip uc_mcontext.gregs[REG_RIP]
#define sc_rsp uc_mcontext.gregs[REG_RSP]
#define sc_err uc_mcontext.gregs[REG_ERR]
#endif

static int issetugid(void) { return 0; }

#include "../../src/base/text.c"
#include "../../src/os/assert.c"
#include "../../src/os/os.c"
#include "test_os.h"

#if MI_HAS_SELF_TABLE
static const mi_self_t mi_self_initial;
static mi_self_slot_t mi_self_slots[MI_SELF_SLOTS];
#endif

#if !defined(TEST_IS_OPENBSD)
static const int test_resident_pages = 1234;
#if defined(TEST_IS_FREEBSD)
static int test_overcommit; // the value of vm.overcommit
#endif

int sysctl(const int* name, unsigned count, void* value, size_t* size, const void* next,
           size_t next_size) {
  assert_true(next == NULL && next_size == 0);
  errno = EPERM; // any
#if defined(TEST_IS_FREEBSD)
  if (count == 2 && name[0] == CTL_VM && name[1] == VM_OVERCOMMIT && *size == sizeof(int)) {
    *(int*)value = test_overcommit;
    return 0;
  }
  const struct kinfo_proc about = {.ki_rssize = test_resident_pages};
  const int wanted[] = {CTL_KERN, KERN_PROC, KERN_PROC_PID, (int)getpid()};
#else
  const struct kinfo_proc2 about = {.p_vm_rssize = test_resident_pages};
  const int wanted[] = {CTL_KERN, KERN_PROC2, KERN_PROC_PID, (int)getpid(), (int)sizeof(about), 1};
#endif
  if (count != sizeof(wanted) / sizeof(wanted[0])) return -1;
  if (memcmp(name, wanted, sizeof(wanted)) != 0 || *size != sizeof(about)) return -1;
  memcpy(value, &about, sizeof(about));
  return 0;
}
#endif

#if defined(TEST_IS_FREEBSD)
int _umtx_op(void* word, int operation, unsigned long value, void* size, void* time) {
  if (operation == UMTX_OP_WAKE_PRIVATE) {
    assert_int_equal(value, 1);
    return (int)syscall(SYS_futex, word, 1 | 128, value, NULL, NULL, 0) < 0 ? -1 : 0;
  }
  assert_int_equal(operation, UMTX_OP_WAIT_UINT_PRIVATE);
  const struct _umtx_time* const until = (const struct _umtx_time*)time;
  assert_true((until == NULL) == (size == NULL));
  if (until != NULL) {
    assert_int_equal((uintptr_t)size, sizeof(*until));
    assert_true(until->_flags == 0 && until->_clockid == CLOCK_MONOTONIC);
  }
  const struct timespec* const timeout = until != NULL ? &until->_timeout : NULL;
  return (int)syscall(SYS_futex, word, 0 | 128, (uint32_t)value, timeout, NULL, 0);
}
#elif defined(TEST_IS_OPENBSD)
int futex(volatile uint32_t* word, int operation, int value, const struct timespec* timeout,
          volatile uint32_t* other) {
  assert_true(other == NULL && (operation & FUTEX_PRIVATE_FLAG) != 0);
  assert_true(operation == FUTEX_WAIT_PRIVATE || (operation == FUTEX_WAKE_PRIVATE && value == 1));
  return (int)syscall(SYS_futex, word, operation - 1, value, timeout, NULL, 0);
}
#endif

// -- Tests --

static mi_atomic(uint32_t) test_word;

static void* test_wait(void* arg) {
  while (atomic_load(&test_word) == 0) mi_os_wait(&test_word, 0);
  return arg;
}

// If this fails, a thread waits for a lock for ever, or in circles.
static void bsd_waits_and_wakes(void** state) {
  (void)state;
  for (int i = 0; i < 100; i++) {
    pthread_t thread;
    atomic_store(&test_word, 0);
    assert_int_equal(pthread_create(&thread, NULL, &test_wait, NULL), 0);
    if (i % 2 == 0) usleep(1000); // it sleeps by now
    atomic_store(&test_word, 1);
    mi_os_wake(&test_word);
    pthread_join(thread, NULL);
  }
  errno = 5;
  mi_os_wait(&test_word, 0); // another value: at once
  mi_os_wait_ms(&test_word, 0, MI_OS_FOREVER);
  mi_os_wake(&test_word);
  assert_int_equal(errno, 5);
}

// If this fails, the purge thread runs all the time, or never again.
static void bsd_waits_no_longer_than_asked(void** state) {
  (void)state;
  atomic_store(&test_word, 7);
  errno = 5;
  const uint64_t before = mi_os_now_us();
  mi_os_wait_ms(&test_word, 7, 30);
  assert_true(mi_os_now_us() - before >= 30000);
  assert_int_equal(errno, 5);
}

static mi_lock_t test_lock = {.name = "test"};
static size_t test_guarded;

static void* test_count(void* arg) {
  for (int i = 0; i < 20000; i++) {
    mi_lock_enter(&test_lock);
    test_guarded++;
    mi_lock_leave(&test_lock);
  }
  mi_self_leave();
  return arg;
}

// If this fails, two threads are in a lock, or one waits for ever.
static void bsd_locks(void** state) {
  (void)state;
  pthread_t threads[4];
  for (int i = 0; i < 4; i++) pthread_create(&threads[i], NULL, &test_count, NULL);
  for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
  assert_int_equal(test_guarded, 4 * 20000);
}

// If this fails, arenas are committed ahead where that is charged for, or the environment of a
// program with raised privileges is trusted.
static void bsd_knows_the_system(void** state) {
  (void)state;
  mi_os_info_t info = {0};
  errno = 5;
  mi_os_init(&info);
  assert_int_equal(errno, 5);
  assert_int_equal(info.page_size, sysconf(_SC_PAGESIZE));
  assert_false(info.is_setuid || info.has_tags);
#if defined(TEST_IS_OPENBSD)
  assert_false(info.has_overcommit);
#else
  assert_true(info.has_overcommit);
#endif
#if defined(TEST_IS_FREEBSD)
  for (test_overcommit = 1; test_overcommit < 8; test_overcommit++) {
    mi_os_init(&info);
    assert_int_equal(info.has_overcommit, (test_overcommit & 3) == 0);
  }
  test_overcommit = 0;
#endif
}

// If this fails, statistics say something else than the system.
static void bsd_tells_what_is_resident(void** state) {
  (void)state;
  mi_os_info_t info;
  mi_os_init(&info);
  usleep(2000);
  mi_os_usage_t usage = {0};
  errno = 5;
  mi_os_usage(&usage);
  assert_int_equal(errno, 5);
#if defined(TEST_IS_OPENBSD)
  assert_int_equal(usage.rss, 0);
#else
  assert_int_equal(usage.rss, test_resident_pages * info.page_size);
#endif
  assert_true(usage.rss_peak > 0 && usage.elapsed_ms < 3600000);
}

// If this fails, memory that the system may take cannot be used again.
static void bsd_resets(void** state) {
  (void)state;
  page_size = (size_t)sysconf(_SC_PAGESIZE);
  uint8_t* const p = (uint8_t*)mi_os_map(NULL, 4 * page_size, page_size, MI_OS_READ_WRITE);
  assert_non_null(p);
  memset(p, 7, 4 * page_size);
  errno = 5;
  assert_int_equal(mi_os_reset(p + page_size, 2 * page_size), 0);
  assert_int_not_equal(mi_os_reset(p + 1, page_size), 0); // no OS page begins there
  assert_int_equal(errno, 5);
  assert_true(p[0] == 7 && p[3 * page_size] == 7);
  assert_true(p[page_size] == 7 || p[page_size] == 0);
  memset(p, 8, 4 * page_size);
  assert_int_equal(mi_os_unmap(p, 4 * page_size), 0);
}

// If this fails, each arena takes three calls of the system, or is not where it must be.
static void bsd_asks_for_aligned_memory(void** state) {
  (void)state;
  for (int shift = 12; shift <= 26; shift += 7) {
    test_alignment = 0;
    uint8_t* const p = (uint8_t*)mi_os_map(NULL, 4096, (size_t)1 << shift, MI_OS_READ_WRITE);
    assert_int_equal((uintptr_t)p % ((uintptr_t)1 << shift), 0);
#if defined(TEST_IS_OPENBSD)
    assert_int_equal(test_alignment, 0);
#else
    assert_int_equal(test_alignment, shift);
#endif
    assert_int_equal(mi_os_unmap(p, 4096), 0);
  }
}

static uint8_t* test_forbidden;
static mi_os_access_kind_t test_access;

static void test_on_fault(const mi_os_fault_t* fault) {
  const bool is_right = fault->address == test_forbidden && fault->access == test_access &&
                        fault->at != NULL && fault->has_room && !fault->is_in_library;
  _exit(is_right ? 77 : 78);
}

static int test_touch(mi_os_access_kind_t access) {
  const pid_t child = fork();
  if (child == 0) {
    test_access = access;
    if (!mi_os_fault_watch(&test_on_fault)) _exit(79);
    if (access == MI_OS_WRITE) *(volatile uint8_t*)test_forbidden = 1;
    _exit(*(volatile uint8_t*)test_forbidden);
  }
  int status = 0;
  assert_int_equal(waitpid(child, &status, 0), child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

// If this fails, the report of an access to a guarded block does not say what was done, or where.
static void bsd_reads_faults(void** state) {
  (void)state;
  test_forbidden = (uint8_t*)mi_os_map(NULL, 65536, 65536, MI_OS_NO_ACCESS);
  assert_non_null(test_forbidden);
  assert_int_equal(test_touch(MI_OS_READ), 77);
  assert_int_equal(test_touch(MI_OS_WRITE), 77);
  assert_int_equal(mi_os_unmap(test_forbidden, 65536), 0);
}

static int test_ended;

static void test_on_exit(void* value) { test_ended += *(int*)value; }

static void* test_end(void* arg) {
  assert_true(mi_os_thread_on_exit(&test_on_exit, arg));
  // A free must not allocate: where setting a value does, it is not set.
  assert_int_equal(mi_os_thread_watch(arg), MI_OS_KEY_IS_READABLE);
  return NULL;
}

static void* test_watch(void* arg) {
#if defined(TEST_IS_NETBSD)
  assert_true(mi_os_thread_watch(arg));
#else
  assert_false(mi_os_thread_watch(arg));
#endif
  return NULL;
}

// If this fails, a free calls malloc where keys of threads do.
static void bsd_sets_no_key_that_allocates(void** state) {
  (void)state;
  int value = 3;
  pthread_t thread;
  pthread_create(&thread, NULL, &test_end, &value);
  pthread_join(thread, NULL);
  assert_int_equal(test_ended, 3);
  pthread_create(&thread, NULL, &test_watch, &value);
  pthread_join(thread, NULL);
#if defined(TEST_IS_NETBSD)
  assert_int_equal(test_ended, 6);
#else
  assert_int_equal(test_ended, 3);
#endif
}

#endif
