// SPDX-License-Identifier: MIT
// os_linux.c - tests of src/os/os.c on the kernel itself, as it is on Linux: what the fake system
// pretends.
//
// The file is compiled into this program as a part of it, so that its functions stand beside those
// of the fake system with the same names.
#define _GNU_SOURCE
#define MI_SINGLE_TU 1
#include "../../src/base/text.c"
#include "../../src/os/assert.c"
#include "../../src/os/os.c"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include <linux/filter.h>
#include <sys/resource.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "test_os.h"

// True if the kernel can read there: it compares a word, and does not wait.
static bool is_readable(const uint8_t* p) {
  errno = 0;
  syscall(SYS_futex, p, MI_FUTEX_WAIT_PRIVATE, UINT32_MAX, NULL, NULL, 0);
  return errno != EFAULT;
}

static size_t count_mappings(void) {
  FILE* const maps = fopen("/proc/self/maps", "r");
  assert_non_null(maps);
  size_t count = 0;
  for (int c; (c = fgetc(maps)) != EOF;) count += c == '\n';
  fclose(maps);
  return count;
}

// If this fails, a guard costs a mapping, can be read, or stays when it should not.
static void os_guards_pages_inside_a_mapping(void** state) {
  (void)state;
  page_size = (size_t)sysconf(_SC_PAGESIZE);
  const size_t size = 4 * page_size;
  uint8_t* const p = (uint8_t*)mi_os_map(NULL, size, page_size, MI_OS_READ_WRITE);
  assert_non_null(p);
  memset(p, 7, size);
  const size_t mappings = count_mappings();
  errno = 5;
  if (!mi_os_guard(p + page_size, 2 * page_size)) { // before 6.13, or an emulator
    assert_int_equal(errno, 5);
    assert_true(p[page_size] == 7);
    assert_false(mi_os_unguard(p + page_size, 2 * page_size));
    assert_int_equal(mi_os_unmap(p, size), 0);
    return;
  }
  assert_int_equal(errno, 5);
  assert_int_equal(count_mappings(), mappings);
  assert_true(is_readable(p) && is_readable(p + 3 * page_size));
  assert_false(is_readable(p + page_size) || is_readable(p + 2 * page_size));
  assert_int_equal(mi_os_purge(p, size), 0);
  assert_false(is_readable(p + page_size));
  assert_true(mi_os_populate(p, size) != 0);
  assert_true(mi_os_unguard(p + page_size, page_size));
  assert_true(is_readable(p + page_size) && !is_readable(p + 2 * page_size));
  assert_true(p[page_size] == 0);
  assert_int_equal(mi_os_remap(p + 2 * page_size, page_size), 0);
  assert_true(is_readable(p + 2 * page_size));
  assert_int_equal(mi_os_unmap(p, size), 0);
}

static int wait_for(pid_t child) {
  int status = 0;
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_true(WIFEXITED(status));
  return WEXITSTATUS(status);
}

static atomic_int stage;

static void* stay(void* arg) {
  atomic_store(&stage, 1);
  while (atomic_load(&stage) != 2) sched_yield();
  return arg;
}

// As by a filter of system calls: then the system's file says how many threads there are.
static void refuse_unshare(void) {
  struct sock_filter filter[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_unshare, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const struct sock_fprog program = {sizeof(filter) / sizeof(filter[0]), filter};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
      prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) {
    _exit(77);
  }
}

// Exit status: 0 as expected, 1 wrong before there was a thread, 2 beside one, 3 in its fork.
static int look_around(void) {
  if (!mi_os_is_alone()) return 1;
  pthread_t thread;
  if (pthread_create(&thread, NULL, &stay, NULL) != 0) return 4;
  while (atomic_load(&stage) != 1) sched_yield();
  if (mi_os_is_alone()) return 2;
  const pid_t child = fork();
  if (child == 0) _exit(mi_os_is_alone() ? 0 : 1);
  if (wait_for(child) != 0) return 3;
  atomic_store(&stage, 2);
  return pthread_join(thread, NULL);
}

// An emulator may have threads of its own, and its vfork is a fork.
static bool has_threads_of_others(void) {
  char buffer[2 * MI_OS_FILE_MAX];
  const char* const threads = mi_os_stat_field(buffer, sizeof(buffer), 20);
  return threads == NULL || threads[0] != '1' || threads[1] != ' ';
}

static void skip_on_emulator(const char* why) {
#if defined(__x86_64__)
  (void)why;
#else
  if (!has_threads_of_others()) return;
  printf("SKIP: an emulator: %s\n", why);
  skip();
#endif
}

// If this fails, the child of a fork waits for a thread of its parent, or two threads set up.
static void os_knows_whether_a_thread_is_alone(void** state) {
  (void)state;
#if defined(__SANITIZE_THREAD__)
  printf("SKIP: the sanitizer starts a thread of its own after a fork\n");
  skip();
#elif defined(__x86_64__)
  assert_false(has_threads_of_others());
#endif
  skip_on_emulator("it has threads of its own");
  for (int is_refused = 0; is_refused < 2; is_refused++) {
    const pid_t child = fork();
    if (child == 0) {
      if (is_refused) refuse_unshare();
      _exit(look_around());
    }
    const int result = wait_for(child);
    if (result != 77) assert_int_equal(result, 0);
  }
  // Who borrows memory is not alone with it.
  const pid_t child = vfork();
  if (child == 0) _exit(mi_os_is_alone() ? 1 : 0);
  assert_int_equal(wait_for(child), 0);
}

static void* look_whether_vfork(void* is_vfork) {
  *(bool*)is_vfork = mi_os_is_vfork_child();
  return NULL;
}

// If this fails, a program loses its purge thread because of what a child does before it runs
// another program, or keeps it where it must have one thread.
static void os_knows_the_child_of_a_vfork(void** state) {
  (void)state;
  skip_on_emulator("its vfork is a fork");
  bool is_vfork = true;
  pthread_t thread;
  assert_int_equal(pthread_create(&thread, NULL, &look_whether_vfork, &is_vfork), 0);
  assert_int_equal(pthread_join(thread, NULL), 0);
  assert_false(is_vfork || mi_os_is_vfork_child());
  pid_t child = fork();
  if (child == 0) _exit(mi_os_is_vfork_child());
  assert_int_equal(wait_for(child), 0);
  child = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0); // libc does not know the number of this
  if (child == 0) _exit(mi_os_is_vfork_child());
  assert_int_equal(wait_for(child), 0);
  child = vfork();
  if (child == 0) _exit(mi_os_is_vfork_child() ? 5 : 0);
  assert_int_equal(wait_for(child), 5);
}

typedef struct found_s {
  bool is_found; // a mapping with this code, of this program
  size_t build_id_size, count;
  uintptr_t last; // end of the one before
  bool is_ordered;
} found_t;

static bool look_at(const mi_os_mapping_t* mapping, void* arg) {
  found_t* const found = (found_t*)arg;
  const uintptr_t here = (uintptr_t)&look_at;
  found->is_ordered = found->is_ordered && mapping->start >= found->last;
  found->last = mapping->end;
  found->count++;
  if (here < mapping->start || here >= mapping->end) return true;
  const char* const name = strrchr(mapping->path, '/');
  found->is_found = name != NULL && strncmp(name + 1, "os_linux", 8) == 0;
  found->build_id_size = mapping->build_id_size;
  return true;
}

static bool look_at_one(const mi_os_mapping_t* mapping, void* arg) {
  (void)mapping;
  ++*(size_t*)arg;
  return false;
}

// If this fails, a profile is of another program, or no tool finds the names of its functions.
static void os_knows_what_is_mapped(void** state) {
  (void)state;
  found_t found = {.is_ordered = true};
  if (access("/proc/self/maps", R_OK) != 0) skip();
  assert_true(mi_os_mappings(&look_at, &found));
  assert_true(found.is_found && found.is_ordered && found.count >= 3);
  // The C library of each distribution has one, and the program if the compiler makes one.
  if (found.build_id_size > 0) assert_in_range(found.build_id_size, 8, 64);
  size_t count = 0;
  assert_false(mi_os_mappings(&look_at_one, &count));
  assert_int_equal(count, 1);
}

// If this fails, a program in a container never learns that it is nearly full; or the caller of
// malloc finds another errno.
static void os_knows_its_limit(void** state) {
  (void)state;
  mi_os_limit_t limit;
  errno = 7;
  const bool is_known = mi_os_limit(&limit);
  assert_int_equal(errno, 7);
  assert_true(limit.used <= limit.limit);
  if (limit.limit != UINT64_MAX) assert_true(is_known && limit.limit > 0);
  assert_int_equal(is_known, access("/proc/self/cgroup", R_OK) == 0);
}

// -- Limits of control groups, in a folder that is made the root of a child --

#define LIMITED_FILES 9
#define LIMITED_V2 "/sys/fs/cgroup"
#define LIMITED_V1 LIMITED_V2 "/memory"
#define TEXT_64 "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

typedef struct limited_s {
  struct {
    const char *path, *text;
  } file[LIMITED_FILES];
  mi_os_limit_t limit; // that is to be found
  bool is_known;
} limited_t;

static const limited_t limited_cases[] = {
    // Version 2: files that can be dropped do not count, a level above has the limit.
    {{{"/proc/self/cgroup", "0::/a/b\n"},
      {LIMITED_V2 "/a/b/cgroup.procs", ""},
      {LIMITED_V2 "/a/b/memory.max", "max\n"},
      {LIMITED_V2 "/a/memory.max", "1000000\n"},
      {LIMITED_V2 "/a/memory.current", "800000\n"},
      {LIMITED_V2 "/a/memory.stat", "anon 5\nfile 300000\nfile_mapped 9\nshmem 100000\nfile 1\n"},
      {LIMITED_V2 "/a/memory.pressure", "some avg10=99.00\n"}},
     {.limit = 1000000, .used = 600000},
     true},
    // Of all levels that with the least room counts, and `high` as well as `max`.
    {{{"/proc/self/cgroup", "0::/a/b"},
      {LIMITED_V2 "/a/b/cgroup.procs", ""},
      {LIMITED_V2 "/a/b/memory.max", "5000000\n"},
      {LIMITED_V2 "/a/b/memory.high", "3000000\n"},
      {LIMITED_V2 "/a/b/memory.current", "200000\n"},
      {LIMITED_V2 "/a/memory.max", "4000000\n"},
      {LIMITED_V2 "/a/memory.current", "1900000\n"},
      {LIMITED_V2 "/memory.max", "9000000\n"}},
     {.limit = 4000000, .used = 1900000},
     true},
    // Version 1, among other controllers; the fields are behind the first part that is read.
    {{{"/proc/self/cgroup", "13:" TEXT_64 ",cpu:/x\n12:cpu,cpuacct:/x\n4:memory:/d/e\n0::/a\n"},
      {LIMITED_V1 "/d/e/cgroup.procs", ""},
      {LIMITED_V1 "/d/e/memory.limit_in_bytes", "1000000\n"},
      {LIMITED_V1 "/d/e/memory.usage_in_bytes", "1200000\n"},
      {LIMITED_V1 "/d/e/memory.stat",
       "cache 1\n" TEXT_64 " 1\n" TEXT_64 " 2\n" TEXT_64 " 3\n" TEXT_64
       " 4\ntotal_cache 500000\ntotal_rss 7\ntotal_shmem 0\n"},
      {LIMITED_V1 "/memory.limit_in_bytes", "9223372036854771712\n"}},
     {.limit = 1000000, .used = 700000},
     true},
    // A group that is not visible: what is mounted is the group itself. Below half of a limit
    // nobody asks for files.
    {{{"/proc/self/cgroup", "0::/../other\n"},
      {LIMITED_V2 "/memory.max", "1000000\n"},
      {LIMITED_V2 "/memory.current", "400000\n"},
      {LIMITED_V2 "/memory.stat", "file 300000\nshmem 0\n"},
      {LIMITED_V2 "/memory.pressure", "some avg10=12.34 avg60=0.00\nfull avg10=0.00\n"}},
     {.limit = 1000000, .used = 400000, .is_short = true},
     true},
    // The root of all groups has no limit, and the machine says whether memory is short.
    {{{"/proc/self/cgroup", "0::/\n"},
      {LIMITED_V2 "/cgroup.procs", ""},
      {"/proc/pressure/memory", "some avg10=10.00 avg60=0.00\n"}},
     {.limit = UINT64_MAX, .is_short = true},
     true},
    {{{"/proc/self/cgroup", "0::/\n"},
      {LIMITED_V2 "/memory.max", "99999999999999999999999\n"},
      {"/proc/pressure/memory", "some avg10=9.99 avg60=80.00\n"}},
     {.limit = UINT64_MAX},
     true},
    // More shared memory than files: read one after the other. And no room below 0.
    {{{"/proc/self/cgroup", "0::/a\n"},
      {LIMITED_V2 "/a/cgroup.procs", ""},
      {LIMITED_V2 "/a/memory.max", "1000\n"},
      {LIMITED_V2 "/a/memory.current", "5000\n"},
      {LIMITED_V2 "/a/memory.stat", "file 3\nshmem 4\n"}},
     {.limit = 1000, .used = 1000},
     true},
    // A path that is too long: what is mounted, and the levels that fit if they are visible.
    {{{"/proc/self/cgroup",
       "0::/" TEXT_64 "/" TEXT_64 "/" TEXT_64 "/" TEXT_64 "/" TEXT_64 "/" TEXT_64 "\n"},
      {LIMITED_V2 "/memory.max", "1000000\n"},
      {LIMITED_V2 "/memory.current", "400000\n"}},
     {.limit = 1000000, .used = 400000},
     true},
    {{{"/proc/self/cgroup",
       "0::/" TEXT_64 "/" TEXT_64 "/" TEXT_64 "/" TEXT_64 "/" TEXT_64 "/" TEXT_64 "\n"},
      {LIMITED_V2 "/" TEXT_64 "/" TEXT_64 "/" TEXT_64 "/" TEXT_64 "/" TEXT_64 "/cgroup.procs", ""},
      {LIMITED_V2 "/" TEXT_64 "/memory.max", "1000000\n"},
      {LIMITED_V2 "/" TEXT_64 "/memory.current", "300000\n"},
      {LIMITED_V2 "/memory.max", "9000000\n"}},
     {.limit = 1000000, .used = 300000},
     true},
    {{{"/proc/self/cgroup", "0::/" TEXT_64 TEXT_64 TEXT_64 TEXT_64 TEXT_64 TEXT_64 "\n"},
      {LIMITED_V2 "/cgroup.procs", ""},
      {LIMITED_V2 "/memory.max", "1000000\n"},
      {LIMITED_V2 "/memory.current", "400000\n"}},
     {.limit = 1000000, .used = 400000},
     true},
    // No group, nothing at all: unknown.
    {{{"/proc/self/cgroup", "1:name=systemd:/a\nnonsense\n\n2:freezer\n"},
      {LIMITED_V2 "/memory.max", "1000000\n"}},
     {.limit = UINT64_MAX},
     false},
    {{{"/proc/self/cgroup", ""}}, {.limit = UINT64_MAX}, false},
    {{{"/nothing", ""}}, {.limit = UINT64_MAX}, false},
};

// Write a file below the working folder, with the folders that lead to it.
static void limited_put(const char* path, const char* text) {
  char part[512];
  snprintf(part, sizeof(part), ".%s", path);
  for (char* slash = part + 2; (slash = strchr(slash, '/')) != NULL; *slash++ = '/') {
    *slash = 0;
    mkdir(part, 0700);
  }
  FILE* const file = fopen(part, "w");
  if (file == NULL || fputs(text, file) < 0 || fclose(file) != 0) _exit(1);
}

// In a child: 0 if what is found is what should be.
static int limited_look(const limited_t* one) {
  for (size_t i = 0; i < LIMITED_FILES && one->file[i].path != NULL; i++) {
    limited_put(one->file[i].path, one->file[i].text);
  }
  if (chroot(".") != 0) return 77;
  mi_os_limit_t found;
  errno = 7;
  const bool is_known = mi_os_limit(&found);
  if (errno != 7) return 2;
  const bool is_same = found.limit == one->limit.limit && found.used == one->limit.used;
  return is_known == one->is_known && is_same && found.is_short == one->limit.is_short ? 0 : 3;
}

static void limited_remove(const char* folder) {
  char command[128];
  snprintf(command, sizeof(command), "rm -r %s", folder);
  assert_int_equal(system(command), 0);
}

// If this fails, a program in a container is killed although memory of ours could have gone back;
// or it gives up memory for a limit that is not there.
static void os_reads_the_limits_of_control_groups(void** state) {
  (void)state;
  for (size_t i = 0; i < sizeof(limited_cases) / sizeof(limited_cases[0]); i++) {
    char folder[] = "/tmp/mimalloc-limit-XXXXXX";
    if (mkdtemp(folder) == NULL) skip();
    const pid_t child = fork();
    if (child == 0) _exit(chdir(folder) != 0 ? 1 : limited_look(&limited_cases[i]));
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    limited_remove(folder);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) == 77) skip(); // only root may
    if (status != 0) fail_msg("case %zu: %d", i, WEXITSTATUS(status));
  }
}

// If this fails, another user can command a process, or a command is read that is only half there.
static void os_reads_what_only_its_user_can_write(void** state) {
  (void)state;
  char path[] = "/tmp/mimalloc-os-XXXXXX";
  char inside[64];
  char link[64];
  char text[8] = "before";
  int folder;
  int file;
  if (mkdtemp(path) == NULL) skip();
  snprintf(inside, sizeof(inside), "%s/b", path);
  snprintf(link, sizeof(link), "%s/link", path);
  assert_int_equal(symlink(path, link), 0);
  errno = 7;
  assert_int_equal(mi_os_folder_open("/nowhere/at/all", &folder), ENOENT);
  assert_int_equal(mi_os_folder_open(link, &folder), ELOOP);
  unlink(link);
  chmod(path, 0720);
  assert_int_equal(mi_os_folder_open(path, &folder), EPERM);
  chmod(path, 0755);
  assert_int_equal(mi_os_folder_open(path, &folder), 0);
  assert_int_equal(fcntl(folder, F_GETFD), FD_CLOEXEC);
  assert_int_equal(mi_os_folder_read(folder, "b", text, sizeof(text)), ENOENT);
  assert_string_equal(text, "");
  assert_int_equal(mi_os_folder_create(folder, "a", &file), 0);
  assert_int_equal(mi_os_file_write(file, "1234567", 7), 0);
  assert_false(mi_os_file_exists(inside));
  assert_int_equal(mi_os_folder_create(folder, "a", &(int){0}), EEXIST);
  assert_int_equal(mi_os_folder_rename(folder, "a", "b"), 0);
  assert_true(mi_os_file_exists(inside));
  assert_int_equal(mi_os_folder_read(folder, "b", text, sizeof(text)), 0);
  assert_string_equal(text, "1234567");
  assert_int_equal(mi_os_file_write(file, "8", 1), 0);
  assert_int_equal(mi_os_folder_read(folder, "b", text, sizeof(text)), EFBIG);
  assert_string_equal(text, "");
  fchmod(file, 0622);
  assert_int_equal(mi_os_folder_read(folder, "b", text, sizeof(text)), EPERM);
  assert_int_equal(mi_os_folder_read(folder, ".", text, sizeof(text)), EINVAL);
  assert_int_equal(mi_os_folder_remove(folder, "b"), 0);
  assert_int_equal(mi_os_folder_remove(folder, "b"), ENOENT);
  assert_int_equal(mi_os_folder_rename(folder, "b", "a"), ENOENT);
  assert_int_equal(symlinkat("/etc/passwd", folder, "link"), 0);
  assert_int_equal(mi_os_folder_read(folder, "link", text, sizeof(text)), ELOOP);
  assert_int_equal(mi_os_folder_remove(folder, "link"), 0);
  assert_int_equal(mi_os_file_close(file), 0);
  assert_int_equal(mi_os_file_close(folder), 0);
  rmdir(path);
  assert_int_equal(errno, 7);
}

// If this fails, memory that holds nothing becomes resident, or such a look ends the process, waits
// or wakes a thread.
static void os_knows_what_is_not_zero(void** state) {
  (void)state;
  page_size = (size_t)sysconf(_SC_PAGESIZE);
  uint32_t* const p = (uint32_t*)mi_os_map(NULL, 2 * page_size, page_size, MI_OS_READ_WRITE);
  assert_non_null(p);
  p[1] = 1;
  p[2] = UINT32_MAX;
  errno = 5;
  assert_false(mi_os_is_nonzero(p));
  assert_true(mi_os_is_nonzero(p + 1) && mi_os_is_nonzero(p + 2));
  assert_int_equal(mprotect(p, page_size, PROT_NONE), 0);
  assert_false(mi_os_is_nonzero(p + 1));
  assert_false(mi_os_is_nonzero((void*)(uintptr_t)8));
  struct rusage before, after;
  getrusage(RUSAGE_THREAD, &before);
  for (size_t i = 0; i < 1000; i++) mi_os_is_nonzero((uint8_t*)p + page_size);
  getrusage(RUSAGE_THREAD, &after);
  assert_true(after.ru_nvcsw - before.ru_nvcsw < 100); // it never waits
  assert_int_equal(errno, 5);
  assert_int_equal(mi_os_unmap(p, 2 * page_size), 0);
}

// -- a family --

#define MEMBERS ((size_t)100) // there is room for so many
#define MEMBERS_TOO_MANY ((size_t)200) // and not for so many

typedef enum life_e { LIFE_STAY, LIFE_EXEC, LIFE_FORK, LIFE_KILL } life_t;

// A process of a family, which says by `told` that it has joined, and ends when `wait` does.
static void family_live(mi_os_family_t* family, life_t life, int told, int wait) {
  char byte = 0;
  mi_os_family_join(family);
  if (life == LIFE_FORK && fork() != 0) _exit(0);
  if (life == LIFE_FORK) mi_os_family_join(family);
  if (write(told, &byte, 1) != 1) _exit(1);
  if (life == LIFE_EXEC) {
    dup2(wait, 0);
    execl("/bin/cat", "cat", (char*)NULL);
  }
  _exit((int)read(wait, &byte, 1));
}

// Asks for two seconds at most: a process that is told to end takes a while.
static bool family_is_alone(mi_os_family_t* family) {
  for (int i = 0; i < 2000 && !mi_os_family_is_alone(family); i++) usleep(1000);
  return mi_os_family_is_alone(family);
}

// True if the family is wrong: it says that the first process is alone while members live, or that
// it is not when they run another program. All of them are gone on return.
static bool family_is_wrong(mi_os_family_t* family, life_t life, size_t count) {
  int told[2], wait[2];
  char byte;
  pid_t child = -1;
  assert_int_equal(pipe2(told, O_CLOEXEC), 0);
  assert_int_equal(pipe2(wait, O_CLOEXEC), 0);
  for (size_t i = 0; i < count; i++) {
    child = fork();
    assert_true(child >= 0);
    if (child == 0) {
      close(wait[1]);
      family_live(family, life, told[1], wait[0]);
    }
    assert_int_equal(read(told[0], &byte, 1), 1);
    if (life == LIFE_FORK) assert_int_equal(waitpid(child, NULL, 0), child);
  }
  bool is_alone = mi_os_family_is_alone(family);
  if (life == LIFE_EXEC) is_alone = !family_is_alone(family); // while `cat` runs
  if (life == LIFE_KILL) kill(child, SIGKILL);
  close(wait[1]);
  while (life != LIFE_FORK && waitpid(-1, NULL, 0) > 0) {
  }
  close(told[0]);
  close(told[1]);
  close(wait[0]);
  return is_alone;
}

// If this fails, memory that is shared with a child is there twice, or a program that forked once
// has small pages for the rest of its life.
static void os_knows_a_family(void** state) {
  (void)state;
  skip_on_emulator("it does not say that a process has ended");
  const size_t mappings = count_mappings();
  errno = 5;
  mi_os_family_t* const family = mi_os_family_create();
  if (family == NULL) {
    printf("SKIP: this C library does not tell which processes share memory\n");
    skip();
  }
  assert_true(mi_os_family_is_alone(family));
  assert_int_equal(errno, 5);
  for (int round = 0; round < 2; round++) {
    assert_false(family_is_wrong(family, LIFE_STAY, 1));
    assert_true(family_is_alone(family));
    assert_false(family_is_wrong(family, LIFE_EXEC, 2));
    assert_true(family_is_alone(family));
    assert_false(family_is_wrong(family, LIFE_FORK, 1)); // and its own parent is gone
    assert_true(family_is_alone(family));
    assert_false(family_is_wrong(family, LIFE_KILL, 1));
    assert_true(family_is_alone(family));
    assert_false(family_is_wrong(family, LIFE_STAY, MEMBERS));
    assert_true(family_is_alone(family));
  }
  assert_false(family_is_wrong(family, LIFE_STAY, MEMBERS_TOO_MANY));
  assert_false(mi_os_family_is_alone(family));
  errno = 5;
  mi_os_family_end(family);
  assert_int_equal(errno, 5);
  assert_int_equal(count_mappings(), mappings);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(os_maps_at_an_address),
      cmocka_unit_test(os_maps_at_no_address_that_is_taken),
      cmocka_unit_test(os_maps_aligned),
      cmocka_unit_test(os_gives_memory_back),
      cmocka_unit_test(os_knows_what_is_readable),
      cmocka_unit_test(os_knows_what_is_not_zero),
      cmocka_unit_test(os_has_secrets),
      cmocka_unit_test(os_guards_pages_inside_a_mapping),
      cmocka_unit_test(os_knows_whether_a_thread_is_alone),
      cmocka_unit_test(os_knows_the_child_of_a_vfork),
      cmocka_unit_test(os_knows_a_family),
      cmocka_unit_test(os_knows_what_is_mapped),
      cmocka_unit_test(os_writes_files),
      cmocka_unit_test(os_knows_its_limit),
      cmocka_unit_test(os_reads_the_limits_of_control_groups),
      cmocka_unit_test(os_reads_what_only_its_user_can_write),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
