// SPDX-License-Identifier: MIT
// refusals.c - what systems and administrators refuse: limits below what the process has, a limit
// on mappings, filters of system calls, a memory cgroup, no overcommit.
//
// Each case is a process of its own, which works on random blocks (`churn`) while it is refused and
// afterwards. What cannot be set up on this machine is skipped; the reason is printed.
#if !defined(_GNU_SOURCE)
#define _GNU_SOURCE
#endif
#include "spawn.h"
#include "test_heap.h"

#include <mimalloc-stats.h>

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#define SLOTS 400

static spawn_result_t result;

static _Noreturn void cannot(const char* what) {
  dprintf(1, "not on this machine: %s: %s\n", what, strerror(errno));
  _exit(SKIPPED);
}

// -- the load --

static struct {
  unsigned char* p;
  size_t size;
} slots[SLOTS];
static size_t refused; // requests that returned NULL
static uint64_t seed = 42;

static unsigned char mark(size_t i) { return (unsigned char)(i * 7 + 1); }

static void check_slot(size_t i) {
  if (slots[i].p == NULL) return;
  CHECK_SAY(test_is_touched(slots[i].p, slots[i].size, mark(i)), "block of %zu bytes",
            slots[i].size);
}

// A block of random size, at most `max`, in a slot: malloc, calloc or realloc of what was there.
static void replace(size_t i, size_t max) {
  const size_t size = 1 + random_below(&seed, max);
  const bool is_resized = random_below(&seed, 4) == 0;
  check_slot(i);
  errno = 0;
  unsigned char* p;
  if (is_resized) {
    p = (unsigned char*)mi_realloc(slots[i].p, size);
  } else {
    mi_free(slots[i].p);
    slots[i].p = NULL;
    p = (unsigned char*)(size % 2 == 0 ? mi_zalloc(size) : mi_malloc(size));
  }
  if (p == NULL) {
    CHECK_SAY(errno == ENOMEM, "errno is %d", errno);
    refused++;
    return; // what is in the slot, if anything, is intact
  }
  slots[i].p = p;
  slots[i].size = size;
  test_touch(p, size, mark(i));
}

static size_t live_peak; // bytes in slots, as far as noted

static void note_live(void) {
  size_t live = 0;
  for (size_t i = 0; i < SLOTS; i++) live += slots[i].p != NULL ? slots[i].size : 0;
  if (live > live_peak) live_peak = live;
}

// Live memory is at most about SLOTS / 2 * max.
static void churn(size_t rounds, size_t max) {
  for (size_t k = 0; k < rounds; k++) replace(random_below(&seed, SLOTS), max);
  for (size_t i = 0; i < SLOTS; i++) check_slot(i);
  note_live();
}

static void free_all(void) {
  for (size_t i = 0; i < SLOTS; i++) {
    check_slot(i);
    mi_free(slots[i].p);
    slots[i].p = NULL;
  }
  for (size_t i = 0; i < 2; i++) mi_collect(true);
}

// Memory is there again: nothing is refused, and little is left behind.
static void check_back(size_t resident_before) {
  refused = 0;
  churn(2000, 300 * TEST_KIB);
  CHECK_SAY(refused == 0, "%zu requests refused when memory is back", refused);
  free_all();
  const size_t growth = test_growth(resident_before);
  CHECK_SAY(growth <= 8 * TEST_MIB, "%zu KiB are left behind", growth / TEST_KIB);
}

// -- limits --

static void set_limit(__typeof__(RLIMIT_AS) what, size_t bytes) {
  struct rlimit both;
  if (getrlimit(what, &both) != 0) cannot("getrlimit");
  both.rlim_cur = bytes == 0 ? both.rlim_max : bytes;
  if (setrlimit(what, &both) != 0) cannot("setrlimit");
}

// Blocks that grow with another one behind each are moved.
static void grow_all(void) {
  for (size_t i = 0; i + 1 < 20; i += 2) {
    for (size_t size = 2 * TEST_MIB; size <= 6 * TEST_MIB; size += 2 * TEST_MIB) {
      check_slot(i);
      unsigned char* const p = (unsigned char*)mi_realloc(slots[i].p, size);
      if (p == NULL) continue;
      test_touch(p, size, mark(i));
      slots[i].p = p;
      slots[i].size = size;
    }
    replace(i + 1, 3 * TEST_MIB);
  }
}

// The limit falls below what the process has while it works, and rises again.
static void run_lowered(int what) {
  churn(1000, 300 * TEST_KIB);
  free_all();
  const size_t before = proc_resident();
  for (size_t round = 0; round < 3; round++) {
    grow_all();
    set_limit(what, TEST_MIB);
    churn(500, 300 * TEST_KIB);
    grow_all();
    free_all();
    grow_all();
    churn(500, 3 * TEST_MIB);
    set_limit(what, 0);
    free_all();
  }
  check_back(before);
}

static void run_lowered_address_space(void) { run_lowered(RLIMIT_AS); }
static void run_lowered_data(void) { run_lowered(RLIMIT_DATA); }

// A limit from the first call on: much of it can be used, and the rest is refused in time.
static void run_with_limit(int what) {
  const size_t limit = 200 * TEST_MIB;
  set_limit(what, limit);
  size_t used = 0;
  for (size_t round = 0; round < 3; round++) {
    used = 0;
    refused = 0;
    for (size_t i = 0; i < SLOTS && refused == 0; i++) replace(i, TEST_MIB);
    for (size_t i = 0; i < SLOTS; i++) used += slots[i].p != NULL ? slots[i].size : 0;
    CHECK_SAY(refused > 0, "never refused, %zu MiB used", used / TEST_MIB);
    CHECK_SAY(used >= limit * 3 / 10, "only %zu MiB can be used", used / TEST_MIB);
    for (size_t i = 0; i < SLOTS; i += 2) {
      mi_free(slots[i].p);
      slots[i].p = NULL;
    }
    churn(1000, 100 * TEST_KIB);
    free_all();
  }
}

static void run_address_space(void) { run_with_limit(RLIMIT_AS); }
static void run_data(void) { run_with_limit(RLIMIT_DATA); }

// -- little address space, memory that is locked --

// Tiny windows have large tables, which are the price of short tests.
static void need_small_tables(void) {
  errno = 0;
  if (mi_arena_min_alignment() < 65536) cannot("a build with tiny windows");
  if (test_is_secure()) cannot("a secure build has tables of 8 MiB");
}

// The first allocation comes when there are 2 MiB left: nearly all of that can be used.
static void run_little_address_space(void) {
  need_small_tables();
  errno = 0;
  if (test_is_tracked()) cannot("blocks have margins");
  set_limit(RLIMIT_AS, proc_mapped() + 2 * TEST_MIB);
  size_t used = 0;
  while (mi_malloc(1000) != NULL) {
    used += 1000;
    errno = 0;
    if (used > 32 * TEST_MIB) cannot("the limit is not kept");
  }
  CHECK_SAY(used >= 1800 * TEST_KIB, "only %zu KiB can be used", used / TEST_KIB);
}

static void need_few_libraries(void) {
  errno = 0;
  if (test_is_sanitized()) cannot("a sanitizer's libraries are locked, too");
}

// What is not in use is not there to be locked.
static void run_locked(void) {
  need_small_tables();
  need_few_libraries();
  mi_free(mi_malloc(100));
  const size_t before = proc_resident();
  if (mlockall(MCL_CURRENT) != 0) cannot("mlockall");
  const size_t growth = test_growth(before);
  CHECK_SAY(growth <= 8 * TEST_MIB, "%zu KiB became resident", growth / TEST_KIB);
}

// From now on all that is mapped is resident at once: not much more than what lives.
static void run_locked_for_ever(void) {
  need_small_tables();
  need_few_libraries();
  const size_t before = proc_resident();
  mi_free(mi_malloc(100));
  if (mlockall(MCL_CURRENT | MCL_FUTURE) != 0) cannot("mlockall");
  // A user without privilege has 8 MiB; the program itself is some of that.
  for (size_t i = 0; i < 20; i++) replace(i, 100 * TEST_KIB);
  note_live();
  const size_t growth = test_growth(before);
  CHECK_SAY(growth <= live_peak + live_peak / 4 + 8 * TEST_MIB, "%zu KiB for %zu",
            growth / TEST_KIB, live_peak / TEST_KIB);
  CHECK_SAY(refused == 0, "%zu requests refused", refused);
  free_all();
}

// A user may lock what a small program has.
static void run_locked_without_privilege(void) {
  need_small_tables();
  need_few_libraries();
  struct rlimit both;
  if (getrlimit(RLIMIT_MEMLOCK, &both) != 0) cannot("getrlimit");
  const size_t size = proc_mapped() + 2 * TEST_MIB;
  both.rlim_cur = both.rlim_max < size ? both.rlim_max : size;
  if (setrlimit(RLIMIT_MEMLOCK, &both) != 0) cannot("setrlimit");
  if (geteuid() == 0 && setuid(65534) != 0) cannot("setuid");
  if (proc_mapped() + 2 * TEST_MIB > both.rlim_cur) cannot("a limit that a program fits in");
  mi_free(mi_malloc(100));
  CHECK_SAY(mlockall(MCL_CURRENT) == 0, "%s: %zu KiB are mapped of %zu", strerror(errno),
            proc_mapped() / TEST_KIB, (size_t)both.rlim_cur / TEST_KIB);
}

// -- the limit on mappings --

static size_t mappings_max(void) {
  char text[32] = {0};
  const int fd = open("/proc/sys/vm/max_map_count", O_RDONLY | O_CLOEXEC);
  if (fd < 0 || read(fd, text, sizeof(text) - 1) <= 0) cannot("max_map_count");
  close(fd);
  return strtoul(text, NULL, 10);
}

// Every second OS page of a range has another access. Returns how much of it there is.
static size_t take_mappings(unsigned char* p, size_t pages, size_t page) {
  size_t done = 0;
  for (size_t i = 1; i < pages; i += 2) {
    if (mprotect(p + i * page, page, PROT_READ) != 0) break;
    done = i;
  }
  return done;
}

static void run_mappings(void) {
  const size_t max = mappings_max();
  if (max > 200000) {
    errno = 0;
    cannot("vm.max_map_count is too high to be reached in a test");
  }
  mi_option_set(mi_option_purge_delay, 0);
  churn(1000, 300 * TEST_KIB);
  free_all();
  const size_t before = proc_resident();
  const size_t page = (size_t)sysconf(_SC_PAGESIZE);
  const size_t pages = max + 1000;
  unsigned char* const p = (unsigned char*)mmap(NULL, pages * page, PROT_NONE,
                                                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (p == MAP_FAILED) cannot("mmap");
  const size_t done = take_mappings(p, pages, page);
  CHECK_SAY(done + 2 < pages, "there is no limit at %zu", max);
  // None is left; then a few, which are used up in the middle of things.
  for (size_t left = 0; left < 40; left += 8) {
    if (left > 0 && mprotect(p + (done - left) * page, left * page, PROT_NONE) != 0) break;
    churn(500, 300 * TEST_KIB);
    grow_all();
    mi_option_set_enabled(mi_option_disallow_arena_alloc, left % 16 == 8);
    churn(200, 2 * TEST_MIB);
    free_all();
  }
  CHECK(munmap(p, pages * page) == 0);
  mi_option_disable(mi_option_disallow_arena_alloc);
  mi_option_set(mi_option_purge_delay, 10);
  check_back(before);
}

// -- filters --

#if defined(__x86_64__)
#define FILTER_ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define FILTER_ARCH AUDIT_ARCH_AARCH64
#endif

static const struct {
  const char* name;
  long number;
} calls[] = {
    {"madvise", SYS_madvise},
    {"mremap", SYS_mremap},
    {"munmap", SYS_munmap},
    {"mprotect", SYS_mprotect},
    {"membarrier", SYS_membarrier},
    {"getrandom", SYS_getrandom},
    {"sched_getaffinity", SYS_sched_getaffinity},
    {"sysinfo", SYS_sysinfo},
    {"openat", SYS_openat},
    {"mincore", SYS_mincore},
    {"getcpu", SYS_getcpu},
    {"mbind", SYS_mbind},
    {"prlimit64", SYS_prlimit64},
    {"getrusage", SYS_getrusage},
    {"clock_gettime", SYS_clock_gettime},
    {"prctl", SYS_prctl},
};
#define CALL_COUNT (sizeof(calls) / sizeof(calls[0]))

// From now on the calls [first, end) of the table fail with `err`.
static void refuse(size_t first, size_t end, int err) {
#if defined(FILTER_ARCH)
  struct sock_filter code[2 * CALL_COUNT + 8];
  unsigned short n = 0;
  code[n++] =
      (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch));
  code[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, FILTER_ARCH, 1, 0);
  code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
  code[n++] =
      (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
  for (size_t i = first; i < end; i++) {
    code[n++] =
        (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)calls[i].number, 0, 1);
    code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (uint32_t)err);
  }
  code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
  const struct sock_fprog program = {n, code};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
      prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) != 0) {
    cannot("seccomp");
  }
#else
  (void)first, (void)end, (void)err;
  cannot("seccomp on this processor");
#endif
}

// Everything works, and a load that changes all the time stays within twice what is live.
static void work_refused(size_t first, size_t end, int err, const char* name) {
  const pid_t child = fork();
  if (child < 0) cannot("fork");
  if (child == 0) {
    const int status = proc_open_status(); // before the filter
    // A mapping of its own that cannot be unmapped is there for good: no block gets one.
    mi_option_set(mi_option_arena_reserve, 1024 * 1024);
    const size_t before = proc_status(status, PROC_RESIDENT);
    refuse(first, end, err);
    for (size_t round = 0; round < 4; round++) {
      churn(800, 300 * TEST_KIB);
      const size_t grown = proc_status(status, PROC_RESIDENT) - before;
      CHECK_SAY(grown < 2 * live_peak + 16 * TEST_MIB, "%s: %zu MiB, %zu live at most", name,
                grown / TEST_MIB, live_peak / TEST_MIB);
      grow_all();
      note_live();
    }
    free_all();
    CHECK_SAY(refused == 0, "%s: %zu requests are refused", name, refused);
    exit(0);
  }
  int status = -1;
  if (waitpid(child, &status, 0) != child) cannot("waitpid");
  if (WIFEXITED(status) && WEXITSTATUS(status) == SKIPPED) _exit(SKIPPED);
  CHECK_SAY(status == 0, "%s refused with %s: status %d", name, strerror(err), status);
}

static void run_filters(void) {
  const int errors[] = {EPERM, ENOSYS, EACCES};
  for (size_t i = 0; i < CALL_COUNT; i++) work_refused(i, i + 1, errors[i % 3], calls[i].name);
  for (size_t k = 0; k < 3; k++) work_refused(0, CALL_COUNT, errors[k], "all of them");
}

// -- a memory cgroup --

static bool write_file(const char* path, const char* text) {
  const int fd = open(path, O_WRONLY | O_CLOEXEC);
  if (fd < 0) return false;
  const bool is_written = write(fd, text, strlen(text)) == (ssize_t)strlen(text);
  close(fd);
  return is_written;
}

// A cgroup with 100 MiB for this process, of version 1 or 2. False: cannot be made.
static bool enter_cgroup(const char* root, const char* limit_name, char* folder, size_t capacity) {
  char path[256];
  char text[32];
  snprintf(folder, capacity, "%s/mi-test-%d", root, (int)getpid());
  if (mkdir(folder, 0755) != 0) return false;
  snprintf(path, sizeof(path), "%s/%s", folder, limit_name);
  bool is_done = write_file(path, "104857600");
  snprintf(path, sizeof(path), "%s/cgroup.procs", folder);
  snprintf(text, sizeof(text), "%d", (int)getpid());
  is_done = is_done && write_file(path, text);
  if (!is_done) rmdir(folder);
  return is_done;
}

static void run_cgroup(void) {
  int ends[2];
  char folder[200] = "";
  if (pipe(ends) != 0) cannot("pipe");
  const pid_t child = fork();
  if (child < 0) cannot("fork");
  if (child == 0) {
    const bool is_in =
        enter_cgroup("/sys/fs/cgroup/memory", "memory.limit_in_bytes", folder, 200) ||
        enter_cgroup("/sys/fs/cgroup", "memory.max", folder, 200);
    if (!is_in) cannot("a memory cgroup");
    CHECK(write(ends[1], folder, sizeof(folder)) > 0);
    // 60 MiB live, then phases of small blocks and of large ones.
    for (size_t round = 0; round < 3; round++) {
      churn(3000, 300 * TEST_KIB);
      free_all();
      churn(300, 2 * TEST_MIB / 8);
      free_all();
    }
    CHECK_SAY(refused == 0, "%zu requests refused", refused);
    exit(0);
  }
  int status = -1;
  close(ends[1]);
  waitpid(child, &status, 0);
  if (read(ends[0], folder, sizeof(folder)) > 0) {
    // It is gone when the last process of it is.
    for (size_t i = 0; i < 100 && rmdir(folder) != 0; i++) usleep(10000);
  }
  if (WIFEXITED(status) && WEXITSTATUS(status) == SKIPPED) _exit(SKIPPED);
  CHECK_SAY(!WIFSIGNALED(status), "ended by signal %d: more than 100 MiB for 60 live",
            WTERMSIG(status));
  CHECK_SAY(status == 0, "status %d", status);
}

// -- no overcommit --

// This process sees a machine without overcommit: the file says so in its own view of the files.
// The system's own setting concerns all processes of the machine and is left alone.
static void pretend_no_overcommit(void) {
  char path[] = "/tmp/mi-overcommit-XXXXXX";
  if (unshare(CLONE_NEWNS) != 0) cannot("a mount namespace");
  if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0) cannot("a private mount");
  const int fd = mkstemp(path);
  if (fd < 0 || write(fd, "2\n", 2) != 2) cannot("a file");
  close(fd);
  const int err = mount(path, "/proc/sys/vm/overcommit_memory", NULL, MS_BIND, NULL);
  unlink(path);
  if (err != 0) cannot("a mount on /proc/sys/vm/overcommit_memory");
}

// The library has looked at the file when it was loaded: the program starts again.
static void run_no_overcommit(void) {
  char path[4096];
  pretend_no_overcommit();
  if (!spawn_own_path(path, sizeof(path))) cannot("the own path");
  execl(path, path, "without_overcommit", (char*)NULL);
  cannot("execl");
}

static void run_without_overcommit(void) {
  set_limit(RLIMIT_DATA, 300 * TEST_MIB);
  churn(1000, 300 * TEST_KIB);
  CHECK_SAY(refused == 0, "%zu requests refused", refused);
  mi_stats_t_decl(stats);
  CHECK(mi_stats_get(&stats));
  CHECK_SAY(stats.commit_calls.total > 0, "memory was not committed piece by piece");
  free_all();
  const size_t before = proc_resident();
  for (size_t round = 0; round < 2; round++) {
    refused = 0;
    for (size_t i = 0; i < SLOTS; i++) replace(i, 3 * TEST_MIB);
    CHECK(refused > 0);
    free_all();
  }
  check_back(before);
}

// -- the cases --

static const struct {
  const char* name;
  void (*run)(void);
} cases[] = {
    {"lowered_address_space", &run_lowered_address_space},
    {"lowered_data", &run_lowered_data},
    {"address_space", &run_address_space},
    {"data", &run_data},
    {"little_address_space", &run_little_address_space},
    {"locked", &run_locked},
    {"locked_for_ever", &run_locked_for_ever},
    {"locked_without_privilege", &run_locked_without_privilege},
    {"mappings", &run_mappings},
    {"filters", &run_filters},
    {"cgroup", &run_cgroup},
    {"no_overcommit", &run_no_overcommit},
    {"without_overcommit", &run_without_overcommit}, // of the former
};

static void run_case(const char* name) {
  if (TEST_IS_SANITIZED) test_skip("a sanitizer's own memory counts");
  test_start_self(name, NULL, &result);
  if (result.exit_status == SKIPPED) {
    result.output[strcspn(result.output, "\n")] = 0;
    test_skip(result.output);
  }
  if (result.signal != 0 || result.exit_status != 0) {
    fail_msg("%s: signal %d, status %d\n%s", name, result.signal, result.exit_status,
             result.output);
  }
}

#define CASE(name)                                                                                 \
  static void refusals_##name(void** state) {                                                      \
    (void)state;                                                                                   \
    run_case(#name);                                                                               \
  }

// If one of these fails, a program in a container, in a sandbox or under a limit crashes, or its
// memory grows although the system would take it back.
CASE(lowered_address_space)
CASE(lowered_data)
CASE(address_space)
CASE(data)
CASE(little_address_space)
CASE(locked)
CASE(locked_for_ever)
CASE(locked_without_privilege)
CASE(mappings)
CASE(filters)
CASE(cgroup)
CASE(no_overcommit)

int main(int argc, char** argv) {
  for (size_t i = 0; argc > 1 && i < sizeof(cases) / sizeof(cases[0]); i++) {
    if (strcmp(argv[1], cases[i].name) != 0) continue;
    alarm(100);
    cases[i].run();
    return 0;
  }
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(refusals_lowered_address_space),
      cmocka_unit_test(refusals_lowered_data),
      cmocka_unit_test(refusals_address_space),
      cmocka_unit_test(refusals_data),
      cmocka_unit_test(refusals_little_address_space),
      cmocka_unit_test(refusals_locked),
      cmocka_unit_test(refusals_locked_for_ever),
      cmocka_unit_test(refusals_locked_without_privilege),
      cmocka_unit_test(refusals_mappings),
      cmocka_unit_test(refusals_filters),
      cmocka_unit_test(refusals_cgroup),
      cmocka_unit_test(refusals_no_overcommit),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
