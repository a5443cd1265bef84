// SPDX-License-Identifier: MIT
// sandbox.h - the scenarios of sweep.h in a process that may ask the system for memory only.
//
// Each runs in children of a process that never allocated, behind a filter that ends the process
// when it makes any system call but those a malloc needs. Where the scenario is about threads, what
// libc needs to make one is permitted too; that the library itself makes none of those calls
// (mprotect) is seen by the functions that stand before libc's.
//
// A program defines SWEEP_SANDBOX and includes a file with scenarios. What asks the system by
// contract it leaves out by a macro in front of that: test/interop/test_failing.py has the list.
#ifndef TEST_SANDBOX_H
#define TEST_SANDBOX_H

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#if !defined(SYS_mmap) // 32-bit ARM
#define SYS_mmap SYS_mmap2
#endif

#define SWEEP_WITH "behind a filter of system calls"

#define SANDBOX_BROKEN 99 // exit status: a call that is not permitted

#if defined(__x86_64__)
#define SANDBOX_ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define SANDBOX_ARCH AUDIT_ARCH_AARCH64
#else
#define SANDBOX_ARCH 0
#endif

// What a malloc needs, and to report and to end.
static const int sandbox_calls[] = {
    SYS_brk,   SYS_mmap, SYS_munmap,     SYS_mremap,       SYS_madvise,
    SYS_futex, SYS_exit, SYS_exit_group, SYS_rt_sigreturn, SYS_write,
};
// What libc needs to make a thread and to end it.
static const int sandbox_thread_calls[] = {SYS_clone,       SYS_clone3,   SYS_set_robust_list,
                                           SYS_rseq,        SYS_mprotect, SYS_rt_sigprocmask,
                                           SYS_rt_sigaction};

static const char* const sandbox_with_threads[] = {"deleted_heaps", "sub_processes", "threads",
                                                   "passing", "crowd"};

#define SANDBOX_COUNT(list) (sizeof(list) / sizeof((list)[0]))

typedef enum sandbox_setting_e {
  SANDBOX_FIRST, // nothing was allocated before
  SANDBOX_WARM,
  SANDBOX_DIRECT, // no arenas: each page is a mapping
  SANDBOX_SETTINGS,
} sandbox_setting_t;

static const char* const sandbox_settings[SANDBOX_SETTINGS] = {"first", "warm", "direct"};

static void sandbox_write(const char* text) {
  const ssize_t written = write(STDERR_FILENO, text, strlen(text));
  (void)written;
}

static void sandbox_on_broken(int sig, siginfo_t* info, void* context) {
  (void)sig, (void)context;
  char digits[] = "forbidden system call 0000\n";
  int number = info->si_syscall;
  for (size_t i = sizeof(digits) - 3; number > 0; number /= 10) {
    digits[i--] = (char)('0' + number % 10);
  }
  sandbox_write(digits);
  _exit(SANDBOX_BROKEN);
}

static bool sandbox_is_with_threads(const sweep_scenario_t* scenario) {
  for (size_t i = 0; i < SANDBOX_COUNT(sandbox_with_threads); i++) {
    if (strcmp(scenario->name, sandbox_with_threads[i]) == 0) return true;
  }
  return false;
}

static struct sock_filter sandbox_step(unsigned code, unsigned value, unsigned char otherwise) {
  struct sock_filter step = {(unsigned short)code, 0, otherwise, value};
  return step;
}

// For all threads that come.
static void sandbox_enter(bool is_with_threads) {
#if defined(MI_COVERAGE)
  _exit(SKIPPED); // which lines ran is written to files
#endif
  struct sock_filter
      code[2 * (SANDBOX_COUNT(sandbox_calls) + SANDBOX_COUNT(sandbox_thread_calls)) + 8];
  unsigned short n = 0;
  const unsigned load = BPF_LD | BPF_W | BPF_ABS;
  const unsigned equal = BPF_JMP | BPF_JEQ | BPF_K;
  code[n++] = sandbox_step(load, offsetof(struct seccomp_data, arch), 0);
  code[n++] = sandbox_step(equal, SANDBOX_ARCH, 1);
  code[n++] = sandbox_step(load, offsetof(struct seccomp_data, nr), 0);
  for (size_t i = 0; i < SANDBOX_COUNT(sandbox_calls); i++) {
    code[n++] = sandbox_step(equal, (unsigned)sandbox_calls[i], 1);
    code[n++] = sandbox_step(BPF_RET | BPF_K, SECCOMP_RET_ALLOW, 0);
  }
  for (size_t i = 0; is_with_threads && i < SANDBOX_COUNT(sandbox_thread_calls); i++) {
    code[n++] = sandbox_step(equal, (unsigned)sandbox_thread_calls[i], 1);
    code[n++] = sandbox_step(BPF_RET | BPF_K, SECCOMP_RET_ALLOW, 0);
  }
  code[n++] = sandbox_step(BPF_RET | BPF_K, SECCOMP_RET_TRAP, 0);
  struct sock_fprog program;
  program.len = n;
  program.filter = code;
  struct sigaction action;
  memset(&action, 0, sizeof(action));
  action.sa_sigaction = &sandbox_on_broken;
  action.sa_flags = SA_SIGINFO;
  if (SANDBOX_ARCH == 0 || sigaction(SIGSYS, &action, NULL) != 0 ||
      prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
      prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) != 0) {
    _exit(SKIPPED);
  }
}

static void sandbox_warm_up(void) {
  for (size_t size = 8; size < 40 * SWEEP_MIB; size *= 2) mi_free(mi_malloc(size));
  mi_collect(true);
}

static void sandbox_child(const sweep_scenario_t* scenario, sandbox_setting_t setting) {
  alarm(60);
  mi_register_error(&sweep_on_error, NULL);
  if (setting == SANDBOX_WARM) sandbox_warm_up();
  sandbox_enter(sandbox_is_with_threads(scenario));
  if (setting == SANDBOX_DIRECT) mi_option_set(mi_option_disallow_arena_alloc, 1);
  sweep_is_on = true; // calls are counted
  scenario->run();
  sweep_is_on = false;
  sweep_check_kept();
  sweep_check_usable();
  for (size_t i = 0; i < sweep_block_count; i++) mi_free(sweep_blocks[i].p);
  for (size_t i = 0; i < 2; i++) mi_collect(true);
  CHECK_SAY(sweep_told == 0, "memory was refused");
  CHECK_SAY(sweep_report->calls[SWEEP_MPROTECT] == 0, "the library calls mprotect");
  exit(0); // with all destructors
}

// Each setting of a scenario. Returns how many runs failed.
static size_t sweep_settings_of(const sweep_scenario_t* scenario) {
  size_t failed = 0;
  if (strcmp(scenario->name, "forking") == 0) return 0; // another process is not memory
  for (int setting = 0; setting < SANDBOX_SETTINGS; setting++) {
    memset(sweep_report, 0, sizeof(*sweep_report));
    sweep_runs++;
    const pid_t child = fork();
    if (child == 0) sandbox_child(scenario, (sandbox_setting_t)setting);
    int status = -1;
    if (child < 0 || waitpid(child, &status, 0) != child) status = -1;
    if (WIFEXITED(status) && WEXITSTATUS(status) == SKIPPED) {
      printf("no filter of system calls on this machine\n");
      exit(SKIPPED);
    }
    if (status == 0) continue;
    printf("failed: %s, %s: status 0x%x\n", scenario->name, sandbox_settings[setting],
           (unsigned)status);
    failed++;
  }
  return failed;
}

#endif
