// SPDX-License-Identifier: MIT
// purge_thread.c - programs that free much and then sleep, and programs that the purge thread might
// disturb: purge_thread MODE. Each mode says what breaks for a user if it fails.
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <threads.h>
#include <unistd.h>

#include "../../lib/check.h"
#include "../../lib/proc.h"

#define MIB ((size_t)1024 * 1024)
#define WAIT_MS 5000 // for what should be done after one second

static int status_file = -1; // a file, open before a sandbox

// The thread-local variables of the program, which libc places into the stack of each thread.
#if !defined(TLS_KIB)
#define TLS_KIB 1
#endif
static _Thread_local volatile char own[TLS_KIB * 1024];

static size_t resident_mib(void) { return proc_status(status_file, PROC_RESIDENT) / MIB; }

static size_t threads_now(void) {
  DIR* const folder = opendir("/proc/self/task");
  CHECK(folder != NULL);
  size_t count = 0;
  for (struct dirent* entry; (entry = readdir(folder)) != NULL;) count += entry->d_name[0] != '.';
  closedir(folder);
  return count;
}

// True if there are so many threads, now or soon.
static int comes_to_threads(size_t wanted) {
  for (int ms = 0; ms < WAIT_MS && threads_now() != wanted; ms += 10) usleep(10000);
  return threads_now() == wanted;
}

static sem_t for_ever; // never posted
static atomic_int asleep; // threads that have started

static void* sleep_for_ever(void* arg) {
  atomic_fetch_add(&asleep, 1);
  for (;;) sem_wait(&for_ever);
  return arg;
}

static void* do_nothing(void* arg) { return arg; }

static pthread_t start_thread(void* (*run)(void*)) {
  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, run, NULL) == 0);
  return thread;
}

// A thread that comes and goes.
static void had_a_thread(void) { CHECK(pthread_join(start_thread(&do_nothing), NULL) == 0); }

// Allocates so many blocks and frees them, but each `kept`-th one (0: all).
static void burst(size_t count, size_t size, size_t kept) {
  void** const blocks = malloc(count * sizeof(*blocks));
  CHECK(blocks != NULL);
  for (size_t i = 0; i < count; i++) {
    blocks[i] = malloc(size);
    CHECK(blocks[i] != NULL);
    memset(blocks[i], 1, size);
  }
  for (size_t i = 0; i < count; i++) {
    if (kept == 0 || i % kept != 0) free(blocks[i]);
  }
  free(blocks);
}

static int comes_below_mib(size_t bound) {
  for (int ms = 0; ms < WAIT_MS && resident_mib() >= bound; ms += 50) usleep(50000);
  return resident_mib() < bound;
}

// A program that sleeps keeps the memory of its last burst. Prints what is resident at once, and
// later.
static int idle(size_t size) {
  start_thread(&sleep_for_ever);
  burst(256 * MIB / size, size, 0);
  printf("%zu ", resident_mib());
  comes_below_mib(16);
  printf("%zu\n", resident_mib());
  return 0;
}

// The same, again and again: the thread goes to sleep, and must be woken.
static int again(void) {
  start_thread(&sleep_for_ever);
  for (int round = 0; round < 3; round++) {
    burst(64 * MIB / 1000, 1000, 0);
    CHECK(comes_below_mib(16));
    usleep(1500000);
  }
  return 0;
}

// A program that keeps much memory, so that the thread has nothing to do but to wait for chunks
// that become old; then it frees more, twice, because it has not freed any for long (RETAIN-4).
static int kept(void) {
  const size_t count = 64 * MIB / 1000;
  char** const blocks = (char**)malloc(count * sizeof(char*));
  CHECK(blocks != NULL);
  start_thread(&sleep_for_ever);
  for (size_t i = 0; i < count; i++) {
    CHECK((blocks[i] = (char*)malloc(1000)) != NULL);
    memset(blocks[i], 1, 1000);
  }
  usleep(4000000);
  const size_t before = resident_mib();
  burst(64 * MIB / 1000, 1000, 0);
  burst(64 * MIB / 1000, 1000, 0);
  CHECK(comes_below_mib(before + 16));
  for (size_t i = 0; i < count; i++) free(blocks[i]);
  free(blocks);
  return 0;
}

// A program that sets the option before it needs to be alone: the thread sleeps then, for ever if
// nobody wakes it.
static int off(void) {
  void (*const set)(int, long) = (void (*)(int, long))dlsym(RTLD_DEFAULT, "mi_option_set");
  CHECK(set != NULL);
  free(malloc(1000));
  start_thread(&sleep_for_ever);
  CHECK(comes_to_threads(3));
  usleep(2500000);
  set(1009, 0); // mi_option_purge_thread
  CHECK(comes_to_threads(2));
  return 0;
}

// A program that lowers the delay: the thread sleeps until the end of a long one.
static int shorter_delay(void) {
  void (*const set)(int, long) = (void (*)(int, long))dlsym(RTLD_DEFAULT, "mi_option_set");
  CHECK(set != NULL);
  set(15, 3600000); // mi_option_purge_delay
  start_thread(&sleep_for_ever);
  burst(64 * MIB / 1000, 1000, 0);
  usleep(1500000);
  CHECK(resident_mib() >= 16);
  set(15, 10);
  CHECK(comes_below_mib(16));
  return 0;
}

// The number of threads: of a program with one thread, and with two, made in two ways.
static int count(void) {
  free(malloc(1000));
  usleep(50000);
  printf("%zu ", threads_now());
  start_thread(&sleep_for_ever);
  usleep(50000);
  printf("%zu ", threads_now());
  thrd_t other;
  CHECK(thrd_create(&other, (thrd_start_t)(void*)&sleep_for_ever, NULL) == thrd_success);
  usleep(50000);
  printf("%zu\n", threads_now());
  return 0;
}

// C11 threads alone.
static int count_c11(void) {
  thrd_t other;
  CHECK(thrd_create(&other, (thrd_start_t)(void*)&sleep_for_ever, NULL) == thrd_success);
  CHECK(comes_to_threads(3));
  return 0;
}

static void end_child(pid_t child) {
  int status = -1;
  for (int ms = 0; ms < 3 * WAIT_MS; ms += 10) {
    const pid_t ended = waitpid(child, &status, WNOHANG);
    CHECK(ended == 0 || ended == child);
    if (ended == child) {
      CHECK(status == 0);
      return;
    }
    usleep(10000);
  }
  kill(child, SIGKILL);
  CHECK(!"the child ends");
}

static void child_of_fork(void) {
  CHECK(threads_now() == 1);
  status_file = proc_open_status(); // the parent's is about the parent
  start_thread(&sleep_for_ever);
  CHECK(comes_to_threads(3));
  burst(64 * MIB / 1000, 1000, 0);
  CHECK(comes_below_mib(16));
  exit(0);
}

static void* tell_its_number(void* arg) {
  *(pid_t*)arg = (pid_t)syscall(SYS_gettid);
  return sleep_for_ever(NULL);
}

// The purge thread is there before the thread of the program: so no time passes between the start
// of that and the return of pthread_create.
static int before(void) {
  pid_t number;
  pthread_t thread;
  const pid_t first = (pid_t)syscall(SYS_gettid);
  CHECK(pthread_create(&thread, NULL, &tell_its_number, &number) == 0);
  CHECK(comes_to_threads(3));
  while (atomic_load(&asleep) == 0) usleep(1000);
  size_t between = 0;
  DIR* const folder = opendir("/proc/self/task");
  CHECK(folder != NULL);
  for (struct dirent* entry; (entry = readdir(folder)) != NULL;) {
    const pid_t other = (pid_t)atol(entry->d_name);
    between += other > first && other < number;
  }
  closedir(folder);
  CHECK(between == 1);
  return 0;
}

// The child of a fork hangs, or has no purge thread of its own; a parent with other threads that
// allocate has none any more.
static int in_fork(void) {
  start_thread(&sleep_for_ever);
  CHECK(comes_to_threads(3));
  for (int i = 0; i < 20; i++) {
    burst(1000 * (size_t)i, 1000, 0);
    const pid_t child = fork();
    if (child == 0) child_of_fork();
    end_child(child);
  }
  return 0;
}

// A child that is made without the handlers of fork hangs when it ends, because it waits for a
// thread that it does not have.
static int in_clone(void) {
  start_thread(&sleep_for_ever);
  CHECK(comes_to_threads(3));
  const pid_t child = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
  if (child == 0) exit(0);
  end_child(child);
  return 0;
}

static int64_t now_ms(void) {
  struct timespec t;
  CHECK(clock_gettime(CLOCK_MONOTONIC, &t) == 0);
  return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static void drop_rights(void) {
  const int64_t begin = now_ms();
  for (int right = 0; right < 10; right++) prctl(PR_CAPBSET_DROP, right, 0, 0, 0);
  CHECK(now_ms() - begin < WAIT_MS);
}

// A starter of containers makes a process by the system call, which then gives up rights, one after
// another: it takes a second for each of them. The child has created a thread by then, or does so
// later, and gets a purge thread of its own.
static int rights_in_clone(int has_threads) {
  start_thread(&sleep_for_ever);
  CHECK(comes_to_threads(3));
  const pid_t child = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
  if (child == 0) {
    if (has_threads) start_thread(&sleep_for_ever);
    drop_rights();
    if (!has_threads) {
      start_thread(&sleep_for_ever);
      CHECK(comes_to_threads(3));
    }
    drop_rights();
    _exit(0);
  }
  end_child(child);
  return 0;
}

// Return the number of the purge thread, which is there before the thread of that number.
static pid_t find_purger(pid_t number) {
  pid_t purger = 0;
  DIR* const folder = opendir("/proc/self/task");
  CHECK(folder != NULL);
  for (struct dirent* entry; (entry = readdir(folder)) != NULL;) {
    const pid_t other = (pid_t)atol(entry->d_name);
    if (other > (pid_t)syscall(SYS_gettid) && other < number) purger = other;
  }
  closedir(folder);
  CHECK(purger != 0);
  return purger;
}

// A purge thread that is slow to end, on a machine with much to do, is taken for one that does not
// exist: then there are two of it, or none for the rest of the program's life. A tracer stops it.
static int rights_when_late(void) {
  static pid_t number;
  pthread_t thread;
  int ready[2], go_on[2];
  char byte = 0;
  CHECK(pipe(ready) == 0 && pipe(go_on) == 0);
  CHECK(pthread_create(&thread, NULL, &tell_its_number, &number) == 0);
  while (atomic_load(&asleep) == 0) usleep(1000);
  const pid_t purger = find_purger(number);
  prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
  const pid_t tracer = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
  if (tracer == 0) {
    close(go_on[1]); // the tracer ends if this process does
    if (ptrace(PTRACE_SEIZE, purger, NULL, NULL) != 0) _exit(1);
    if (ptrace(PTRACE_INTERRUPT, purger, NULL, NULL) != 0) _exit(1);
    if (waitpid(purger, NULL, __WALL) != purger) _exit(1);
    if (write(ready[1], "x", 1) != 1 || read(go_on[0], &byte, 1) != 1) _exit(1);
    _exit(0); // the thread goes on
  }
  close(ready[1]);
  if (read(ready[0], &byte, 1) != 1) SKIP("no thread may be traced");
  drop_rights();
  had_a_thread();
  drop_rights();
  CHECK(threads_now() == 3);
  CHECK(write(go_on[1], "x", 1) == 1);
  end_child(tracer);
  CHECK(comes_to_threads(2));
  had_a_thread();
  CHECK(comes_to_threads(3));
  return 0;
}

// Python and others warn of a fork in a process with threads, which they count after it.
static int alone_at_fork(void) {
  had_a_thread();
  CHECK(comes_to_threads(2));
  const pid_t child = fork();
  if (child == 0) _exit(0);
  end_child(child);
  CHECK(comes_to_threads(1));
  had_a_thread();
  CHECK(comes_to_threads(2));
  return 0;
}

// A thread that is created right after a fork ended the purge thread brings it back.
static int thread_after_fork(void) {
  for (int i = 0; i < 50; i++) {
    had_a_thread();
    CHECK(comes_to_threads(2));
    const pid_t child = fork();
    if (child == 0) _exit(0);
    had_a_thread();
    end_child(child);
    CHECK(comes_to_threads(2));
  }
  return 0;
}

// With option purge_thread 1 a program with one thread has the purge thread after a fork, too.
static int kept_at_fork(void) {
  CHECK(comes_to_threads(2));
  const pid_t child = fork();
  if (child == 0) _exit(0);
  end_child(child);
  usleep(100000);
  CHECK(threads_now() == 2);
  return 0;
}

// What needs a process with one thread fails. (To have its memory for itself, a process needs one
// thread, and no rights.)
static int in_unshare(void) {
  for (int i = 0; i < 100; i++) {
    had_a_thread();
    CHECK(unshare(CLONE_VM) == 0);
  }
  start_thread(&sleep_for_ever);
  CHECK(unshare(CLONE_VM) == -1 && errno == EINVAL); // the program has a second thread
  return 0;
}

static int in_setns(void) {
  const int own = open("/proc/self/ns/mnt", O_RDONLY);
  if (own < 0 || (setns(own, CLONE_NEWNS) != 0 && errno == EPERM)) SKIP("setns is not permitted");
  for (int i = 0; i < 100; i++) {
    had_a_thread();
    CHECK(setns(own, CLONE_NEWNS) == 0);
  }
  CHECK(setns(-1, CLONE_NEWNS) == -1 && errno == EBADF);
  return 0;
}

int capset(struct __user_cap_header_struct* header, const struct __user_cap_data_struct* data);

// A program that changes what its thread may do, and then its user and group, as setpriv does. libc
// changes these for all threads, and aborts where one may and another one may not.
static int in_rights(void) {
  const uid_t user = 50000;
  struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
  struct __user_cap_data_struct rights[_LINUX_CAPABILITY_U32S_3];
  CHECK(syscall(SYS_capget, &header, rights) == 0);
  const unsigned wanted = 1u << CAP_SETUID | 1u << CAP_SETGID;
  if ((rights[0].effective & wanted) != wanted) SKIP("no other user may be had");
  had_a_thread();
  CHECK(comes_to_threads(2));
  CHECK(prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0) == 0);
  CHECK(comes_to_threads(1));
  CHECK(setresuid(user, user, user) == 0);
  CHECK(capset(&header, rights) == 0);
  CHECK(setresgid(user, user, user) == 0);
  had_a_thread();
  CHECK(comes_to_threads(2));
  rights[0].effective = rights[0].permitted = 0;
  CHECK(capset(&header, rights) == 0);
  CHECK(comes_to_threads(1));
  CHECK(setresgid(0, 0, 0) == -1 && errno == EPERM);
  return 0;
}

// A server that starts programs with fewer rights by vfork has no purge thread after the first.
static int rights_in_vfork(void) {
  start_thread(&sleep_for_ever);
  CHECK(comes_to_threads(3));
  const pid_t child = vfork();
  if (child == 0) {
    prctl(PR_SET_KEEPCAPS, 0, 0, 0, 0);
    prctl(PR_CAPBSET_DROP, 0, 0, 0, 0);
    _exit(0);
  }
  end_child(child);
  usleep(100000);
  CHECK(threads_now() == 3);
  return 0;
}

// A program that may have so many threads gets one less.
static int in_limit(void) {
  const uid_t user = 50000 + (uid_t)getpid(); // nobody else
  if (setresuid(user, user, user) != 0) SKIP("no other user may be had");
  const struct rlimit limit = {4, 4};
  CHECK(setrlimit(RLIMIT_NPROC, &limit) == 0);
  start_thread(&sleep_for_ever);
  start_thread(&sleep_for_ever);
  start_thread(&sleep_for_ever);
  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, &sleep_for_ever, NULL) == EAGAIN);
  CHECK(threads_now() == 4);
  return 0;
}

// A server at its limit of addresses, where each thread that it cannot have takes 20 ms: the purge
// thread is started for it, finds room for its small stack, ends, and the thread is tried again.
static int in_full_memory(void) {
  enum { FAILING = 10 };
  struct rlimit limit;
  CHECK(getrlimit(RLIMIT_AS, &limit) == 0);
  const rlim_t before = limit.rlim_cur;
  pthread_attr_t attributes;
  CHECK(pthread_attr_init(&attributes) == 0);
  CHECK(pthread_attr_setstacksize(&attributes, 8 * MIB) == 0);
  pthread_t thread;
  start_thread(&sleep_for_ever);
  CHECK(comes_to_threads(3));
  limit.rlim_cur = (rlim_t)(proc_status(status_file, PROC_MAPPED) + 64 * MIB);
  CHECK(setrlimit(RLIMIT_AS, &limit) == 0);
  while (pthread_create(&thread, &attributes, &sleep_for_ever, NULL) == 0) continue;
  struct rusage begin, end;
  CHECK(getrusage(RUSAGE_THREAD, &begin) == 0);
  for (int i = 0; i < FAILING; i++) {
    CHECK(pthread_create(&thread, &attributes, &sleep_for_ever, NULL) == EAGAIN);
  }
  CHECK(getrusage(RUSAGE_THREAD, &end) == 0);
  CHECK(end.ru_nvcsw - begin.ru_nvcsw < FAILING); // it did not wait
  limit.rlim_cur = before;
  CHECK(setrlimit(RLIMIT_AS, &limit) == 0);
  const size_t threads = threads_now();
  usleep(1100000);
  start_thread(&sleep_for_ever);
  CHECK(comes_to_threads(threads + 2));
  return 0;
}

static void never(int number) {
  (void)number;
  static const char text[] = "a signal went to a thread of the library\n";
  CHECK(write(1, text, sizeof(text) - 1) > 0);
  _exit(1);
}

// A signal that the program has blocked, to wait for it, is lost.
static int in_signals(void) {
  sigset_t all, pending;
  sigfillset(&all);
  had_a_thread();
  CHECK(comes_to_threads(2));
  pthread_sigmask(SIG_SETMASK, &all, NULL);
  for (int number = 1; number < 32; number++) {
    if (number == SIGKILL || number == SIGSTOP) continue;
    CHECK(signal(number, &never) != SIG_ERR);
    CHECK(kill(getpid(), number) == 0);
  }
  usleep(100000);
  CHECK(sigpending(&pending) == 0);
  CHECK(sigismember(&pending, SIGUSR1) == 1 && sigismember(&pending, SIGPROF) == 1);
  return 0;
}

// A sandbox ends the process because of a system call that only the library makes.
static int in_sandbox(void) {
  static const int allowed[] = {SYS_futex,          SYS_madvise, SYS_mmap,  SYS_munmap,
                                SYS_mprotect,       SYS_mremap,  SYS_exit,  SYS_exit_group,
                                SYS_rt_sigprocmask, SYS_pread64, SYS_write, SYS_clock_nanosleep};
  enum { COUNT = sizeof(allowed) / sizeof(allowed[0]) };
  struct sock_filter code[COUNT + 3];
  code[0] =
      (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
  for (int i = 0; i < COUNT; i++) {
    code[1 + i] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)allowed[i],
                                               (unsigned char)(COUNT - i), 0);
  }
  code[COUNT + 1] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
  code[COUNT + 2] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
  const struct sock_fprog program = {COUNT + 3, code};
  start_thread(&sleep_for_ever);
  while (atomic_load(&asleep) == 0) sched_yield();
  CHECK(threads_now() == 3);
  CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
  if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program) != 0) {
    SKIP("no filter of system calls on this machine");
  }
  burst(64 * MIB / 1000, 1000, 0);
  CHECK(comes_below_mib(16));
  return 0;
}

// A host that loads the library and unloads it again crashes, because the thread runs code that is
// gone. The environment has the thread started at once.
static int in_dlclose(const char* library) {
  for (int i = 0; i < 100; i++) {
    void* const handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    CHECK(handle != NULL);
    CHECK(comes_to_threads(2));
    CHECK(dlclose(handle) == 0);
    CHECK(dlopen(library, RTLD_NOW | RTLD_NOLOAD) == NULL);
    CHECK(comes_to_threads(1));
  }
  return 0;
}

// A process lives for ever after its last thread has ended, because the purge thread is left.
static pthread_t last; // the thread that is to end the process, and to run this
static void at_the_end(void) { CHECK(pthread_equal(pthread_self(), last)); }

static int main_ends(void) {
  had_a_thread();
  last = pthread_self();
  atexit(&at_the_end);
  pthread_exit(NULL);
}

static void* end_later(void* arg) {
  last = pthread_self();
  usleep(200000);
  free(malloc(1000));
  return arg;
}

static int main_ends_first(void) {
  atexit(&at_the_end);
  start_thread(&end_later);
  pthread_exit(NULL);
}

static void* end_later_without_memory(void* arg) {
  last = pthread_self();
  usleep(200000);
  return arg;
}

static int idle_thread_ends_last(void) {
  atexit(&at_the_end);
  start_thread(&end_later_without_memory);
  pthread_exit(NULL);
}

static void (*thread_done)(void);
static sem_t go_on;

static void* be_done(void* arg) {
  free(malloc(1000));
  thread_done();
  atomic_fetch_add(&asleep, 1);
  while (sem_wait(&go_on) != 0) continue;
  return arg;
}

// A program whose threads all say that they have nothing to do loses the purge thread for good; or
// it lives for ever after they have ended.
static int all_done(void) {
  thread_done = (void (*)(void))dlsym(RTLD_DEFAULT, "mi_thread_done");
  CHECK(thread_done != NULL && sem_init(&go_on, 0, 0) == 0);
  const pthread_t thread = start_thread(&be_done);
  CHECK(comes_to_threads(3));
  while (atomic_load(&asleep) == 0) usleep(1000);
  thread_done();
  usleep(100000);
  CHECK(threads_now() == 3);
  burst(64 * MIB / 1000, 1000, 0);
  CHECK(comes_below_mib(16));
  CHECK(sem_post(&go_on) == 0 && pthread_join(thread, NULL) == 0);
  last = pthread_self();
  atexit(&at_the_end);
  thread_done();
  pthread_exit(NULL);
}

static pthread_key_t late_key;

// In all rounds of destructors, of which the last is after the last of ours.
static void allocate_late(void* rounds) {
  free(malloc(1000));
  if (rounds > (void*)1) CHECK(pthread_setspecific(late_key, (char*)rounds - 1) == 0);
}

static void* allocate_late_in_thread(void* arg) {
  CHECK(pthread_setspecific(late_key, (void*)PTHREAD_DESTRUCTOR_ITERATIONS) == 0);
  free(malloc(1000));
  return arg;
}

static int late_memory(void) {
  CHECK(pthread_key_create(&late_key, &allocate_late) == 0);
  for (int i = 0; i < 10; i++)
    CHECK(pthread_join(start_thread(&allocate_late_in_thread), NULL) == 0);
  CHECK(comes_to_threads(2));
  allocate_late_in_thread(NULL);
  pthread_exit(NULL);
}

// What Python's threads do: the thread that forks is the only one of the child, and returns.
static void* fork_and_return(void* arg) {
  const pid_t child = fork();
  if (child == 0) had_a_thread();
  if (child != 0) end_child(child);
  return arg;
}

static int forked_thread_ends(void) {
  for (int i = 0; i < 10; i++) {
    start_thread(&sleep_for_ever);
    CHECK(pthread_join(start_thread(&fork_and_return), NULL) == 0);
  }
  return 0;
}

// A program hangs in dlopen, because a thread waits for the loader, which waits for the thread.
static int in_constructor(const char* library) {
  CHECK(dlopen(library, RTLD_NOW) != NULL);
  return 0;
}

// Many threads that come and go while memory waits; the process ends meanwhile.
static void* work(void* arg) {
  for (int i = 0; i < 20; i++) burst(200, 10000, 0);
  return arg;
}

static int in_exit(void) {
  pthread_t threads[8];
  for (int i = 0; i < 8; i++) threads[i] = start_thread(&work);
  for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
  burst(100 * MIB / 1000, 1000, 0);
  exit(0);
}

int main(int argc, char** argv) {
  const char* const mode = argc > 1 ? argv[1] : "";
  status_file = proc_open_status();
  own[sizeof(own) - 1] = 1;
  CHECK(status_file >= 0);
  if (strcmp(mode, "idle") == 0 && argc > 2) return idle((size_t)atol(argv[2]));
  if (strcmp(mode, "again") == 0) return again();
  if (strcmp(mode, "kept") == 0) return kept();
  if (strcmp(mode, "before") == 0) return before();
  if (strcmp(mode, "off") == 0) return off();
  if (strcmp(mode, "count") == 0) return count();
  if (strcmp(mode, "count-c11") == 0) return count_c11();
  if (strcmp(mode, "fork") == 0) return in_fork();
  if (strcmp(mode, "clone") == 0) return in_clone();
  if (strcmp(mode, "rights-in-clone") == 0) return rights_in_clone(0);
  if (strcmp(mode, "rights-in-clone-threads") == 0) return rights_in_clone(1);
  if (strcmp(mode, "rights-when-late") == 0) return rights_when_late();
  if (strcmp(mode, "alone-at-fork") == 0) return alone_at_fork();
  if (strcmp(mode, "thread-after-fork") == 0) return thread_after_fork();
  if (strcmp(mode, "kept-at-fork") == 0) return kept_at_fork();
  if (strcmp(mode, "unshare") == 0) return in_unshare();
  if (strcmp(mode, "setns") == 0) return in_setns();
  if (strcmp(mode, "rights") == 0) return in_rights();
  if (strcmp(mode, "limit") == 0) return in_limit();
  if (strcmp(mode, "full-memory") == 0) return in_full_memory();
  if (strcmp(mode, "signals") == 0) return in_signals();
  if (strcmp(mode, "rights-in-vfork") == 0) return rights_in_vfork();
  if (strcmp(mode, "sandbox") == 0) return in_sandbox();
  if (strcmp(mode, "dlclose") == 0 && argc > 2) return in_dlclose(argv[2]);
  if (strcmp(mode, "exit") == 0) return in_exit();
  if (strcmp(mode, "constructor") == 0 && argc > 2) return in_constructor(argv[2]);
  if (strcmp(mode, "main-ends") == 0) return main_ends();
  if (strcmp(mode, "main-ends-first") == 0) return main_ends_first();
  if (strcmp(mode, "idle-thread-ends-last") == 0) return idle_thread_ends_last();
  if (strcmp(mode, "late-memory") == 0) return late_memory();
  if (strcmp(mode, "all-done") == 0) return all_done();
  if (strcmp(mode, "shorter-delay") == 0) return shorter_delay();
  if (strcmp(mode, "forked-thread-ends") == 0) return forked_thread_ends();
  fprintf(stderr, "usage: purge_thread MODE; see test_purge_thread.py\n");
  return 2;
}
