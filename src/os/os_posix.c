// SPDX-License-Identifier: MIT
// os_posix.c - the part of os.h that POSIX has: memory, threads of our own, forks, figures of the
// process.
//
// The file of a system gives what only it has, and the calls of os_posix.h.
// OS_POSIX-1  no function changes errno: it is saved and restored around each call.
// OS_POSIX-2  nothing here allocates, not even through libc: no stdio, no opendir, no getenv.
// OS_POSIX-3  nothing here is a cancellation point, as open, read, write and close of libc are: a
//     cancelled thread would end inside malloc, maybe while it holds a lock of ours.
#include "os_posix.h"

static int mi_os_result(int rc, int saved_errno) {
  const int err = rc == 0 ? 0 : (errno != 0 ? errno : EINVAL);
  errno = saved_errno;
  return err;
}

// Functions of the run-time libraries that `-fsanitize=` links; NULL in a process without them. The
// sanitizers use fixed ranges of addresses, and most of our hints are in one of them:
// ThreadSanitizer then ends the process ("unexpected memory mapping"), and so does
// AddressSanitizer. Our memory may be mapped before theirs, when the kernel still follows the hint.
extern void __asan_init(void) mi_attr_weak;
extern void __hwasan_init(void) mi_attr_weak;
extern void __msan_init(void) mi_attr_weak;
extern void __tsan_init(void) mi_attr_weak;

// From this address on, all sanitizers on x86-64 leave memory to the program: the kernel maps there
// without a hint. On other processors that depends on the machine.
#if defined(__x86_64__)
#define MI_OS_HINT_ALWAYS ((uintptr_t)0x7e8000000000)
#else
#define MI_OS_HINT_ALWAYS UINTPTR_MAX
#endif

MI_INTERNAL bool mi_os_hints(void) {
  if (MI_IS_32_BIT) return false; // what is free lies between the mappings of others
  if (MI_IS_MACOS) return true; // there, the sanitizers turn a hint that they cannot follow down
  return &__asan_init == NULL && &__hwasan_init == NULL && &__msan_init == NULL &&
         &__tsan_init == NULL;
}

static bool mi_os_may_hint(const void* hint) {
  return (uintptr_t)hint >= MI_OS_HINT_ALWAYS || mi_os_hints();
}

static void* mi_os_map_with(void* hint, size_t size, mi_os_access_t access, int flags) {
  const int protection = access == MI_OS_READ_WRITE ? mi_os_call_protection() : PROT_NONE;
  flags |= MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
  void* const p = mmap(hint, size, protection, flags, MI_OS_NO_FILE, 0);
  return p == MAP_FAILED ? NULL : p;
}

static void* mi_os_map_anywhere(void* hint, size_t size, mi_os_access_t access, int flags) {
  return mi_os_map_with(mi_os_may_hint(hint) ? hint : NULL, size, access, flags);
}

// Return flags of mmap(2) for memory at a multiple of `alignment`, 0 if the system has none.
static int mi_os_aligned_flags(size_t alignment) {
#if defined(MAP_ALIGNED) // FreeBSD, NetBSD
  return MAP_ALIGNED((int)mi_bits_log2(alignment));
#else
  (void)alignment;
  return 0;
#endif
}

MI_INTERNAL void* mi_os_map(void* hint, size_t size, size_t alignment, mi_os_access_t access) {
  const int saved_errno = errno;
  uint8_t* p = mi_os_map_anywhere(hint, size, access, mi_os_aligned_flags(alignment));
  if (p != NULL && (uintptr_t)p % alignment != 0) {
    // Map more than needed and cut off both ends, so that one mapping remains.
    munmap(p, size);
    p = mi_os_map_anywhere(NULL, size + alignment, access, 0);
    if (p != NULL) {
      uint8_t* const start = (uint8_t*)mi_bits_align_up((uintptr_t)p, alignment);
      if (start > p) munmap(p, (size_t)(start - p));
      munmap(start + size, (size_t)((p + size + alignment) - (start + size)));
      p = start;
    }
  }
  errno = saved_errno;
  return p;
}

MI_INTERNAL bool mi_os_map_at(void* start, size_t size, mi_os_access_t access) {
  if (!mi_os_may_hint(start)) return false;
  const int saved_errno = errno;
  // Without such a flag, or in a kernel that does not know it, the address is a hint: memory that
  // is mapped elsewhere is unmapped.
  void* const p = mi_os_map_with(start, size, access, mi_os_call_map_at);
  if (p != NULL && p != start) munmap(p, size);
  errno = saved_errno;
  return p == start;
}

MI_INTERNAL int mi_os_unmap(void* start, size_t size) {
  const int saved_errno = errno;
  return mi_os_result(munmap(start, size), saved_errno);
}

MI_INTERNAL int mi_os_commit(void* start, size_t size) {
  const int saved_errno = errno;
  return mi_os_result(mprotect(start, size, mi_os_call_protection()), saved_errno);
}

MI_INTERNAL int mi_os_decommit(void* start, size_t size) {
  const int saved_errno = errno;
  // A fresh inaccessible mapping gives back both the memory and its charge against the limit.
  void* const p = mmap(start, size, PROT_NONE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, MI_OS_NO_FILE, 0);
  return mi_os_result(p == MAP_FAILED ? -1 : 0, saved_errno);
}

MI_INTERNAL int mi_os_remap(void* start, size_t size) {
  const int saved_errno = errno;
  void* const p = mmap(start, size, mi_os_call_protection(),
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, MI_OS_NO_FILE, 0);
  return mi_os_result(p == MAP_FAILED ? -1 : 0, saved_errno);
}

MI_INTERNAL void mi_os_make_constant(void* start, size_t size) {
  const int saved_errno = errno;
  mprotect(start, size, PROT_READ);
  errno = saved_errno;
}

// Addresses only: what is touched of them takes memory. Functions of the program may be called on
// it (PURGER-4).
#define MI_OS_STACK_SIZE ((size_t)256 * MI_KIB)

static void* mi_os_thread_run(void* run) {
  ((void (*)(void))(uintptr_t)run)();
  return NULL;
}

MI_INTERNAL int mi_os_thread_start(mi_os_thread_t* thread, void (*run)(void)) {
  _Static_assert(sizeof(pthread_t) <= sizeof(thread->handle), "a handle has room for any thread");
  const int saved_errno = errno;
  sigset_t all, before;
  pthread_attr_t attributes;
  pthread_t handle;
  int err = pthread_attr_init(&attributes);
  if (err != 0) return err;
  void* const arg = (void*)(uintptr_t)run;
  sigfillset(&all);
  // (A filter may refuse it, and not the second one.)
  const bool is_masked = pthread_sigmask(SIG_SETMASK, &all, &before) == 0;
  err = pthread_attr_setstacksize(&attributes, MI_OS_STACK_SIZE);
  if (err == 0) err = pthread_create(&handle, &attributes, &mi_os_thread_run, arg);
  // The thread-local variables of the program lie in the stack, and have no room there.
  if (err == EINVAL) err = pthread_create(&handle, NULL, &mi_os_thread_run, arg);
  if (is_masked) pthread_sigmask(SIG_SETMASK, &before, NULL);
  pthread_attr_destroy(&attributes);
  if (err == 0) thread->handle = (uintptr_t)handle;
  errno = saved_errno;
  return err;
}

// Any thread, relaxed: written before there is a thread to join, and always to the same value.
static mi_atomic(uintptr_t) mi_os_join_address;

MI_INTERNAL void mi_os_thread_join_by(uintptr_t join) {
  mi_atomic_store_relaxed(&mi_os_join_address, join);
}

MI_INTERNAL void mi_os_thread_join(mi_os_thread_t thread) {
  const uintptr_t address = mi_atomic_load_relaxed(&mi_os_join_address);
  int (*const join)(pthread_t, void**) =
      address != 0 ? (int (*)(pthread_t, void**))address : &pthread_join;
  int state = 0;
  pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state); // OS_POSIX-3
  join((pthread_t)thread.handle, NULL);
  pthread_setcancelstate(state, NULL);
}

MI_INTERNAL int mi_os_at_fork(void (*prepare)(void), void (*parent)(void), void (*child)(void)) {
  return pthread_atfork(prepare, parent, child);
}

static size_t mi_os_timeval_ms(struct timeval t) {
  return (size_t)t.tv_sec * 1000 + (size_t)t.tv_usec / 1000;
}

static void mi_os_usage_posix(mi_os_usage_t* usage) {
  struct rusage r;
  if (getrusage(RUSAGE_SELF, &r) != 0) return;
  usage->user_ms = mi_os_timeval_ms(r.ru_utime);
  usage->system_ms = mi_os_timeval_ms(r.ru_stime);
  usage->rss_peak = (size_t)r.ru_maxrss * MI_KIB;
  usage->page_faults = (size_t)r.ru_majflt;
}

MI_INTERNAL size_t mi_os_process_number(void) {
  const int saved_errno = errno;
  const pid_t number = getpid();
  errno = saved_errno;
  return (size_t)number;
}

MI_INTERNAL int mi_os_real_path(const char* path, char* resolved) {
  const int saved_errno = errno;
  return mi_os_result(realpath(path, resolved) == NULL ? -1 : 0, saved_errno);
}
