// SPDX-License-Identifier: MIT
// os_linux.c - what os.h needs of Linux, with glibc or musl; the rest is in os_posix.c.
//
// OS_POSIX-1 to OS_POSIX-3 hold here, too. System calls go through libc's wrappers, except those
// for files (OS_POSIX-3).
#include <link.h>
#include <sys/auxv.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "os_posix.h"

// Cleared by glibc (2.32 and later) before the first thread is created; NULL elsewhere.
extern char __libc_single_threaded mi_attr_weak;

// The loader's list of objects, and of namespaces if it keeps one. A statically linked program has
// no such list.
#if defined(__GLIBC__)
#pragma weak _DYNAMIC
#pragma weak _r_debug
#endif

#if !defined(MADV_POPULATE_WRITE)
#define MADV_POPULATE_WRITE 23
#endif
#if !defined(MADV_COLD)
#define MADV_COLD 20
#endif
#if !defined(MADV_COLLAPSE)
#define MADV_COLLAPSE 25
#endif
#if !defined(MADV_GUARD_INSTALL)
#define MADV_GUARD_INSTALL 102
#define MADV_GUARD_REMOVE 103
#endif
#if !defined(MREMAP_DONTUNMAP)
#define MREMAP_DONTUNMAP 4
#endif

#if !defined(GRND_NONBLOCK)
#define GRND_NONBLOCK 1
#endif
#if !defined(MAP_FIXED_NOREPLACE)
#define MAP_FIXED_NOREPLACE 0x100000
#endif
#if !defined(MAP_HUGE_SHIFT)
#define MAP_HUGE_SHIFT 26
#endif

// From linux/mempolicy.h, which musl-gcc does not find; libnuma is not installed everywhere.
#define MI_MPOL_PREFERRED 1
#define MI_NODE_MAX ((size_t)1024)

// From linux/futex.h, which musl-gcc does not find.
#define MI_FUTEX_WAIT_PRIVATE 128
#define MI_FUTEX_WAKE_PRIVATE 129
#define MI_FUTEX_CMP_REQUEUE_PRIVATE 132

// From asm/hwcap.h, asm/mman.h and linux/prctl.h, which may be older.
#define MI_HWCAP2_MTE (1UL << 18)
#define MI_PROT_MTE 0x20
#define MI_SET_TAGGED_ADDRESSES 55
#define MI_GET_TAGGED_ADDRESSES 56
#define MI_TAGGED_ADDRESSES 1UL // for system calls
#define MI_TAGS_CHECKED 6UL // at the access, or later: a mask
#define MI_TAGS_CHECKED_AT_ONCE 2UL
#define MI_TAGS_ALL (0xFFFFUL << 3) // that may be chosen at random

static int mi_os_call_open(const char* path, int flags, int mode) {
  return (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
}

static ptrdiff_t mi_os_call_read(int file, void* bytes, size_t size) {
  return (ptrdiff_t)syscall(SYS_read, file, bytes, size);
}

static ptrdiff_t mi_os_call_write(int file, const void* bytes, size_t size) {
  return (ptrdiff_t)syscall(SYS_write, file, bytes, size);
}

static int mi_os_call_close(int file) { return (int)syscall(SYS_close, file); }

#define MI_OS_FILE_MAX 256

// Reads the start of a small file; returns the length, 0 on any error. `buffer` is terminated.
static size_t mi_os_read_file(const char* path, char* buffer, size_t capacity) {
  const int saved_errno = errno;
  size_t length = 0;
  const int fd = mi_os_call_open(path, O_RDONLY | O_CLOEXEC, 0);
  if (fd >= 0) {
    const ptrdiff_t got = mi_os_call_read(fd, buffer, capacity - 1);
    if (got > 0) length = (size_t)got;
    mi_os_call_close(fd);
  }
  buffer[length] = 0;
  errno = saved_errno;
  return length;
}

static void mi_os_threads_init(void);
static bool mi_os_tags_start(void);

// An array, because long literals lie where few programs come (cmake/layout.ld).
static const char mi_os_overcommit_file[] = "/proc/sys/vm/overcommit_memory";

MI_INTERNAL void mi_os_init(mi_os_info_t* info) {
  const int saved_errno = errno;
  char buffer[MI_OS_FILE_MAX];
  info->page_size = (size_t)getauxval(AT_PAGESZ);
  if (info->page_size == 0) info->page_size = 4096;
  // A huge page is one entry of the next directory: as much as a page full of 8-byte entries maps.
  info->huge_page_size = info->page_size / 8 * info->page_size;
  info->address_bits = MI_ADDRESS_BITS;
  // 0 heuristic, 1 always, 2 never (proc_sys_vm(5)). Without /proc, assume the usual value.
  const size_t length = mi_os_read_file(mi_os_overcommit_file, buffer, sizeof(buffer));
  info->has_overcommit = (length == 0 || buffer[0] != '2');
  info->is_setuid = getauxval(AT_SECURE) != 0;
  mi_os_threads_init();
  info->has_tags = MI_IS_TAGGED && mi_os_tags_start();
  errno = saved_errno;
}

// What is mapped has tags. Written by `mi_os_init`, read by any thread, relaxed: the set-up orders
// it.
static mi_atomic(bool) mi_os_has_tags;

// Have the calling thread check tags, and those that it will start. False if the system or the
// processor has none, or other threads run already, for which only they could ask; unless all of
// them check tags, because libc or the program asked for that.
static bool mi_os_tags_start(void) {
  if ((getauxval(AT_HWCAP2) & MI_HWCAP2_MTE) == 0) return false;
  const long now = prctl(MI_GET_TAGGED_ADDRESSES, 0, 0, 0, 0);
  if (now < 0) return false;
  unsigned long wanted = (unsigned long)now | MI_TAGGED_ADDRESSES | MI_TAGS_ALL;
  if (((unsigned long)now & MI_TAGS_CHECKED) == 0) {
    if (!mi_os_is_single_threaded() && !mi_os_is_alone()) return false;
    wanted |= MI_TAGS_CHECKED_AT_ONCE;
  }
  if (prctl(MI_SET_TAGGED_ADDRESSES, wanted, 0, 0, 0) != 0) return false;
  mi_atomic_store_relaxed(&mi_os_has_tags, true);
  return true;
}

static bool mi_os_tags_are_on(void) {
  return MI_IS_TAGGED && mi_atomic_load_relaxed(&mi_os_has_tags);
}

static int mi_os_call_protection(void) {
  return PROT_READ | PROT_WRITE | (mi_os_tags_are_on() ? MI_PROT_MTE : 0);
}

static const int mi_os_call_map_at = MAP_FIXED_NOREPLACE;

MI_INTERNAL void* mi_os_map_large(void* hint, size_t size, size_t os_page_size) {
  const int saved_errno = errno;
  if (!mi_os_may_hint(hint)) hint = NULL;
  // The logarithm of the page size is part of the flags. Without MAP_NORESERVE the pages are set
  // aside now, so that no touch fails later.
  const int kind = (int)(mi_bits_log2(os_page_size) << MAP_HUGE_SHIFT);
  void* const p = mmap(hint, size, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB | kind, -1, 0);
  errno = saved_errno;
  return p == MAP_FAILED ? NULL : p;
}

static int mi_os_advise(void* start, size_t size, int advice) {
  const int saved_errno = errno;
  return mi_os_result(madvise(start, size, advice), saved_errno);
}

MI_INTERNAL int mi_os_purge(void* start, size_t size) {
  return mi_os_advise(start, size, MADV_DONTNEED);
}

MI_INTERNAL int mi_os_reset(void* start, size_t size) {
  return mi_os_advise(start, size, MADV_FREE);
}

MI_INTERNAL int mi_os_huge_pages(void* start, size_t size, mi_os_pages_t pages) {
  return mi_os_advise(start, size, pages == MI_OS_HUGE ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
}

MI_INTERNAL int mi_os_populate(void* start, size_t size) {
  return mi_os_advise(start, size, MADV_POPULATE_WRITE);
}

// Whether a huge page was seen. Written and read by any thread, relaxed: each finds the same.
static mi_atomic(bool) mi_os_saw_huge_page;

// The kernel does not say in which pages memory comes, and its files may not be readable. But if
// the first touch has brought all of a huge page, the rest of it takes a microsecond, and at least
// 50 if it must be cleared.
#define MI_OS_NO_FAULT_US 10

MI_INTERNAL bool mi_os_has_huge_pages(void) { return mi_atomic_load_relaxed(&mi_os_saw_huge_page); }

static int mi_os_populate_watched(uint8_t* start, size_t size) {
  int err = mi_os_populate(start, (size_t)getauxval(AT_PAGESZ));
  const uint64_t before = mi_os_now_us();
  if (err == 0) err = mi_os_populate(start, size);
  if (err == 0 && mi_os_now_us() - before < MI_OS_NO_FAULT_US) {
    mi_atomic_store_relaxed(&mi_os_saw_huge_page, true);
  }
  return err;
}

MI_INTERNAL int mi_os_populate_huge(void* start, size_t size) {
  mi_os_huge_pages(start, size, MI_OS_HUGE);
  const int err = mi_os_has_huge_pages() ? mi_os_populate(start, size)
                                         : mi_os_populate_watched((uint8_t*)start, size);
  mi_os_huge_pages(start, size, MI_OS_SMALL); // pages that are huge stay so
  return err;
}

// Advice about part of a huge page makes the kernel split it.
MI_INTERNAL int mi_os_split(void* start, size_t size) {
  return mi_os_advise(start, size, MADV_COLD);
}

MI_INTERNAL int mi_os_collapse(void* start, size_t size) {
  int err = mi_os_huge_pages(start, size, MI_OS_HUGE); // refused in a range without that advice
  if (err == 0) err = mi_os_advise(start, size, MADV_COLLAPSE);
  mi_os_huge_pages(start, size, MI_OS_SMALL);
  return err;
}

// Have the kernel read a word: 0 if it is 0, EAGAIN if it is another number, EFAULT if it cannot be
// read. (It compares the word before it would let any threads that wait there wait elsewhere, and
// here that is none. We need futex(2) in any case, so that no sandbox forbids it.)
static int mi_os_read_word(const void* p) {
  const int saved_errno = errno;
  const long rc = syscall(SYS_futex, p, MI_FUTEX_CMP_REQUEUE_PRIVATE, 0, NULL, p, 0);
  return mi_os_result((int)rc, saved_errno);
}

static int mi_os_move_mapping(void* from, void* to, size_t size) {
  const int saved_errno = errno;
  void* const p = mremap(from, size, size, MREMAP_MAYMOVE | MREMAP_FIXED | MREMAP_DONTUNMAP, to);
  return mi_os_result(p == MAP_FAILED ? -1 : 0, saved_errno);
}

// True if the first of two OS pages, after it was moved onto the second, is still usable and
// accepts advice. Emulators pass the flag on but take the old range for unmapped: they ignore
// advice about it, or make it inaccessible.
static bool mi_os_try_move(uint8_t* p, size_t page_size) {
  if (mi_os_move_mapping(p, p + page_size, page_size) != 0) return false;
  if (mi_os_read_word(p) == EFAULT) return false;
  volatile uint8_t* const byte = p;
  *byte = 1;
  return madvise(p, page_size, MADV_DONTNEED) == 0 && *byte == 0;
}

// True if memory can be moved. Kernels before 5.7 refuse the flag, emulators ignore it (see above),
// so try it once, and only with system calls that an allocator needs anyway: a sandbox permits
// those. (With tags it is not tried: an emulator that checks them ends the process there, and is
// all that this could be tested with.)
static bool mi_os_can_move(void) {
  // 0 not tried, 1 yes, 2 no. Any thread, relaxed: all find the same answer.
  static mi_atomic(uint32_t) answer;
  if (mi_atomic_load_relaxed(&answer) == 0) {
    const int saved_errno = errno;
    const size_t page_size = (size_t)getauxval(AT_PAGESZ);
    uint8_t* const p = (uint8_t*)mi_os_map_anywhere(NULL, 2 * page_size, MI_OS_READ_WRITE, 0);
    if (p != NULL) {
      mi_atomic_store_relaxed(&answer, mi_os_try_move(p, page_size) ? 1 : 2);
      mi_os_unmap(p, 2 * page_size);
    }
    errno = saved_errno;
  }
  return mi_atomic_load_relaxed(&answer) == 1;
}

MI_INTERNAL bool mi_os_map_again(void* start, size_t size) {
  const int saved_errno = errno;
  const void* const p = mi_os_map_with(start, size, MI_OS_READ_WRITE, MAP_FIXED_NOREPLACE);
  errno = saved_errno;
  return p != NULL; // a kernel that can move memory knows the flag
}

MI_INTERNAL int mi_os_move(void* from, void* to, size_t size) {
  return !mi_os_tags_are_on() && mi_os_can_move() ? mi_os_move_mapping(from, to, size) : ENOSYS;
}

// An emulator may say yes to each advice, and do nothing. Written by the first thread that has a
// guard, read by any, relaxed: another one finds out by itself, and who has memory with guards has
// it from a thread that did.
static mi_atomic(bool) mi_os_has_guards;

MI_INTERNAL bool mi_os_unguard(void* start, size_t size) {
  return mi_atomic_load_relaxed(&mi_os_has_guards) &&
         mi_os_advise(start, size, MADV_GUARD_REMOVE) == 0;
}

MI_INTERNAL bool mi_os_guard(void* start, size_t size) {
  if (mi_os_advise(start, size, MADV_GUARD_INSTALL) == 0) {
    if (mi_likely(mi_atomic_load_relaxed(&mi_os_has_guards))) return true;
    const bool is_readable = mi_os_is_readable(start);
    mi_atomic_store_relaxed(&mi_os_has_guards, !is_readable);
    return !is_readable;
  }
  mi_os_advise(start, size, MADV_GUARD_REMOVE); // part of the range may have guards
  return false;
}

// Return field `number` of the process's stat file in `buffer`, or NULL (proc(5); the second field
// is a name in parentheses, with any characters).
static const char* mi_os_stat_field(char* buffer, size_t capacity, size_t number) {
  mi_os_read_file("/proc/self/stat", buffer, capacity);
  const char* after_name = NULL;
  for (const char* s = buffer; *s != 0; s++) {
    if (*s == ')') after_name = s + 1;
  }
  const char* s = after_name;
  if (s == NULL) return NULL;
  for (size_t spaces = 0; *s != 0 && spaces < number - 2; s++) spaces += *s == ' ';
  return *s != 0 ? s : NULL;
}

MI_INTERNAL bool mi_os_is_alone(void) {
  const int saved_errno = errno;
  // A request to stop sharing memory succeeds, without effect, exactly when no memory is shared.
  const long rc = syscall(SYS_unshare, CLONE_VM);
  const bool is_refused = rc != 0 && errno != EINVAL; // refused by a filter
  errno = saved_errno;
  if (!is_refused) return rc == 0;
  char buffer[2 * MI_OS_FILE_MAX];
  const char* const threads = mi_os_stat_field(buffer, sizeof(buffer), 20);
  return threads != NULL && threads[0] == '1' && threads[1] == ' ';
}

MI_INTERNAL mi_attr_cold bool mi_os_is_vfork_child(void) {
  // The name of a thread's clock has the number by which libc knows the thread
  // (linux/posix-timers.h): in such a child, that of a thread of the parent.
  clockid_t clock;
  if (pthread_getcpuclockid(pthread_self(), &clock) != 0) return false;
  const size_t number = (size_t)(pid_t) ~(clock >> 3);
  // It is in the child of a clone(2) that libc was not told of, too; but that has its own memory.
  return number != mi_os_thread_number() && !mi_os_is_alone();
}

MI_INTERNAL uint64_t mi_os_random(void) {
  // The kernel gives each process 16 random bytes; they need no system call. The library's own
  // address makes two copies in one process differ. No clock is read: its code in libc would be one
  // more 64 KiB that a small program touches.
  uint64_t bits = (uint64_t)(uintptr_t)&mi_os_random;
  const unsigned char* const seed = (const unsigned char*)getauxval(AT_RANDOM);
  if (seed != NULL) {
    for (size_t i = 0; i < 16; i++) bits = bits * 257 + seed[i];
  }
  return bits;
}

MI_INTERNAL void mi_os_secret(uint64_t* words, size_t count) {
  const int saved_errno = errno;
  const size_t size = count * sizeof(*words);
  const long length = syscall(SYS_getrandom, words, size, GRND_NONBLOCK);
  errno = saved_errno;
  if (length == (long)size) return;
  mi_random_t random = {mi_os_random()};
  for (size_t i = 0; i < count; i++) words[i] = mi_random_next(&random);
}

// The variable of libc says if there is only one thread, unless another copy of libc can make
// threads: that copy clears its own variable, not ours. Copies come with linker namespaces, of
// which each has its own libraries: by dlmopen(3), which override_loader.c announces before it
// happens, or by audit libraries (rtld-audit(7)), which are loaded before us. So no access that
// relies on one thread is under way when a second thread starts.
//   mi_os_unknown   before the first check
//   mi_os_many      there may be more than one thread, for good
static char mi_os_unknown, mi_os_many;
// Points to one of these two or to libc's variable. Never NULL, so that reading costs one test.
//   write  any  CAS acquire    unknown -> libc's or many  mi_os_threads_init  (no order is needed)
//   write  any  store relaxed  -> many                    mi_os_expect_threads
//   read   any  relaxed  the creation of a thread orders what was written before it
static mi_atomic(const char*) mi_os_single = &mi_os_unknown;

// True if there is a second linker namespace. From glibc 2.35 on, the version of the loader's list
// is above 1 then. With an older glibc, the environment tells if there are audit libraries.
static bool mi_os_has_namespaces(void) {
#if defined(__GLIBC__)
  return (&_r_debug != NULL && _r_debug.r_version > 1) || mi_os_environment("LD_AUDIT") != NULL;
#else
  return false;
#endif
}

static void mi_os_threads_init(void) {
  const bool is_known = &__libc_single_threaded != NULL && !mi_os_has_namespaces();
  const char* seen = &mi_os_unknown;
  // Pairs with none: no order is needed, the variables it points to are there from the start.
  mi_atomic_cas_strong_acquire(&mi_os_single, &seen,
                               is_known ? &__libc_single_threaded : &mi_os_many);
}

MI_INTERNAL bool mi_os_is_single_threaded(void) {
  return *mi_atomic_load_relaxed(&mi_os_single) != 0;
}

MI_INTERNAL void mi_os_expect_threads(void) { mi_atomic_store_relaxed(&mi_os_single, &mi_os_many); }

// Destructors run at dlclose and at exit. A function registered for the exit distinguishes the two:
// the function registered last runs first, and the run of all destructors is registered when the
// program starts. So this works for a library that is loaded later. A library that is loaded before
// (linked, preloaded, or opened by a constructor) is never taken for unloaded; nor is one in a
// namespace with a libc of its own (dlmopen), which is not told of the exit, or one with musl,
// whose dlclose does nothing.
#if defined(__GLIBC__)
extern int __cxa_atexit(void (*fun)(void*), void* arg, void* library) mi_attr_weak;
extern void __cxa_finalize(void* library) mi_attr_weak;
extern void
__pthread_register_cancel(__pthread_unwind_buf_t* buffer) __cleanup_fct_attribute mi_attr_weak;
extern void
__pthread_unregister_cancel(__pthread_unwind_buf_t* buffer) __cleanup_fct_attribute mi_attr_weak;

// The exit function is registered as that of another library, so that it can be removed alone.
static char mi_os_exit_library;
// 0 not watched, 1 watched, 2 the process ends. Relaxed: written at start and at exit, read by the
// destructor.
static mi_atomic(uint32_t) mi_os_exit_stage;

static void mi_os_on_exit(void* arg) {
  (void)arg;
  mi_atomic_store_relaxed(&mi_os_exit_stage, 2);
}

// True if the program has started. Each frame that is unwound when a thread is cancelled knows the
// one before; the outermost is that of the function that calls main, or of a thread's function.
static bool mi_os_is_program_started(void) {
  if (__pthread_register_cancel == NULL || __pthread_unregister_cancel == NULL) return false;
  __pthread_unwind_buf_t buffer;
  __pthread_register_cancel(&buffer);
  const bool has_outer = buffer.__pad[0] != NULL;
  __pthread_unregister_cancel(&buffer);
  return has_outer;
}

// True if the library is among the objects of the program's own namespace. Called while the loader
// holds its lock.
static bool mi_os_is_in_main_namespace(void) {
  if (&_r_debug == NULL || _DYNAMIC == NULL) return false;
  const struct link_map* object = _r_debug.r_map;
  while (object != NULL && object->l_ld != _DYNAMIC) object = object->l_next;
  return object != NULL;
}

MI_INTERNAL void mi_os_unload_watch(void (*at_end)(void)) {
  (void)at_end;
  if (__cxa_atexit == NULL || __cxa_finalize == NULL) return;
  if (!mi_os_is_program_started() || !mi_os_is_in_main_namespace()) return;
  if (__cxa_atexit(&mi_os_on_exit, NULL, &mi_os_exit_library) != 0) return;
  mi_atomic_store_relaxed(&mi_os_exit_stage, 1);
}

MI_INTERNAL bool mi_os_is_unloaded(void) {
  if (mi_atomic_load_relaxed(&mi_os_exit_stage) != 1) return false;
  __cxa_finalize(&mi_os_exit_library);
  return true;
}
#else
MI_INTERNAL void mi_os_unload_watch(void (*at_end)(void)) { (void)at_end; }
MI_INTERNAL bool mi_os_is_unloaded(void) { return false; }
#endif

// The start of the process is field 22 of its stat file, in ticks since the machine started
// (proc(5)). It is read when needed: reading a clock at the start of the process would make each
// small program touch 64 KiB of libc's code.
static size_t mi_os_elapsed_ms(void) {
  char buffer[2 * MI_OS_FILE_MAX];
  const char* s = mi_os_stat_field(buffer, sizeof(buffer), 22);
  uint64_t ticks = 0;
  for (; s != NULL && *s >= '0' && *s <= '9'; s++) ticks = ticks * 10 + (uint64_t)(*s - '0');
  const uint64_t ticks_per_s = getauxval(AT_CLKTCK);
  const uint64_t now = mi_os_clock_us(CLOCK_BOOTTIME) / 1000;
  if (ticks == 0 || ticks_per_s == 0 || ticks * 1000 / ticks_per_s > now) return 0;
  return (size_t)(now - ticks * 1000 / ticks_per_s);
}

MI_INTERNAL void mi_os_usage(mi_os_usage_t* usage) {
  const int saved_errno = errno;
  usage->elapsed_ms = mi_os_elapsed_ms();
  mi_os_usage_posix(usage);
  // The second number of statm is the resident size in pages (proc(5)).
  char buffer[MI_OS_FILE_MAX];
  mi_os_read_file("/proc/self/statm", buffer, sizeof(buffer));
  const char* s = buffer;
  while (*s != 0 && *s != ' ') s++;
  size_t pages = 0;
  if (*s == ' ') s++;
  for (; *s >= '0' && *s <= '9'; s++) pages = pages * 10 + (size_t)(*s - '0');
  usage->rss = pages * (size_t)getauxval(AT_PAGESZ);
  errno = saved_errno;
}

MI_INTERNAL size_t mi_os_numa_nodes(void) {
  // "0" or "0-3": the last number of the list of possible nodes, plus one.
  char buffer[MI_OS_FILE_MAX];
  mi_os_read_file("/sys/devices/system/node/online", buffer, sizeof(buffer));
  size_t last = 0;
  size_t number = 0;
  for (const char* s = buffer; *s != 0; s++) {
    if (*s >= '0' && *s <= '9') {
      number = number * 10 + (size_t)(*s - '0');
      last = number;
    } else {
      number = 0;
    }
  }
  return last + 1;
}

MI_INTERNAL size_t mi_os_numa_node(void) {
  const int saved_errno = errno;
  unsigned cpu = 0;
  unsigned node = 0;
  syscall(SYS_getcpu, &cpu, &node, NULL);
  errno = saved_errno;
  return node;
}

MI_INTERNAL int mi_os_prefer_node(void* start, size_t size, size_t node) {
  if (node >= MI_NODE_MAX) return EINVAL;
  const int saved_errno = errno;
  const size_t word_bits = 8 * sizeof(unsigned long);
  unsigned long mask[MI_NODE_MAX / (8 * sizeof(unsigned long))] = {0};
  mask[node / word_bits] = 1UL << node % word_bits;
  const long rc = syscall(SYS_mbind, start, size, MI_MPOL_PREFERRED, mask, MI_NODE_MAX + 1, 0);
  return mi_os_result((int)rc, saved_errno);
}

MI_INTERNAL void mi_os_wait(mi_atomic(uint32_t) * word, uint32_t value) {
  const int saved_errno = errno;
  syscall(SYS_futex, word, MI_FUTEX_WAIT_PRIVATE, value, NULL, NULL, 0);
  errno = saved_errno;
}

MI_INTERNAL void mi_os_wait_ms(mi_atomic(uint32_t) * word, uint32_t value, uint64_t ms) {
  const int saved_errno = errno;
  // What the kernel expects, also where libc has 64 bits for a time.
  const long timeout[2] = {(long)(ms / 1000), (long)(ms % 1000 * 1000000)};
  syscall(SYS_futex, word, MI_FUTEX_WAIT_PRIVATE, value, ms == MI_OS_FOREVER ? NULL : timeout, NULL,
          0);
  errno = saved_errno;
}

MI_INTERNAL void mi_os_wake(mi_atomic(uint32_t) * word) {
  const int saved_errno = errno;
  syscall(SYS_futex, word, MI_FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
  errno = saved_errno;
}

static bool mi_os_is_word_readable(const void* p) {
  const int err = mi_os_read_word(p);
  return err == 0 || err == EAGAIN;
}

MI_INTERNAL bool mi_os_is_nonzero(const void* word) { return mi_os_read_word(word) == EAGAIN; }

// The kernel checks tags, too.
MI_INTERNAL bool mi_os_is_readable(const void* p) {
  bool is_readable = mi_os_is_word_readable(p);
  for (unsigned tag = 1; mi_os_tags_are_on() && !is_readable && tag < MI_TAG_COUNT; tag++) {
    is_readable = mi_os_is_word_readable(mi_tag_with(p, tag));
  }
  return is_readable;
}
