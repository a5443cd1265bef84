// SPDX-License-Identifier: MIT
// trace.c - run a program under ptrace and count what it does.
//
//   trace locked OFFSETS PROGRAM...      which of the instructions at OFFSETS run, in its phases
//   trace calls [-p LIBRARY] PROGRAM...  system calls, in phases (see figures.h) and in all
//   trace peak [-p LIBRARY] PROGRAM...   memory when it ends
//
// OFFSETS is a file of hexadecimal addresses in the library "libmimalloc"; a breakpoint at each of
// them counts while a phase lasts, everything else runs at full speed. -p preloads a library into
// the program only. Only the first thread is followed.
// Prints, to standard error so that it does not mix with the program's output:
//   phase NAME hits N [last ADDRESS]
//   phase NAME calls N
//   total calls N
//   peak KIB private KIB libc KIB ours KIB
// The last two are what is mapped, unchanged, of the files of libc and the loader, and of the
// library.
#define _GNU_SOURCE // process_vm_readv
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#define OFFSET_MAX 4096
#define BREAKPOINT 0xcc

static pid_t child;
static unsigned long base; // of the library
static unsigned long offset[OFFSET_MAX];
static uint8_t original[OFFSET_MAX];
static size_t offset_count;

static void fail(const char* what) {
  fprintf(stderr, "trace: %s: %s\n", what, strerror(errno));
  if (child > 0) kill(child, SIGKILL);
  exit(3);
}

static void request(enum __ptrace_request what, void* address, unsigned long data) {
  if (ptrace(what, child, address, data) != 0) fail("ptrace");
}

// -- The program: start, stops, end.

static void start(const char* preload, char** command) {
  child = fork();
  if (child < 0) fail("fork");
  if (child > 0) return;
  if (preload != NULL) setenv("LD_PRELOAD", preload, 1);
  if (ptrace(PTRACE_TRACEME, 0, 0, 0) != 0) _exit(126);
  execvp(command[0], command);
  _exit(127);
}

static bool wait_stop(int* status) {
  if (waitpid(child, status, 0) != child) fail("waitpid");
  return WIFSTOPPED(*status);
}

static void expect_trap(int status) {
  if (WSTOPSIG(status) == SIGTRAP) return;
  fprintf(stderr, "trace: stopped by signal %d\n", WSTOPSIG(status));
  kill(child, SIGKILL);
  exit(4);
}

static int finish(int status) {
  if (WIFSIGNALED(status)) {
    fprintf(stderr, "trace: the program was ended by signal %d\n", WTERMSIG(status));
    return 4;
  }
  return WEXITSTATUS(status);
}

// The name in the argument of the mark that was just passed; empty at the end of a phase.
static void read_name(char name[64]) {
  struct user_regs_struct r;
  request(PTRACE_GETREGS, NULL, (unsigned long)&r);
  memset(name, 0, 64);
  struct iovec to = {name, 63};
  struct iovec from = {(void*)r.rdi, 63};
  if (r.rdi != 0 && process_vm_readv(child, &to, 1, &from, 1, 0) < 0) fail("the name of a phase");
}

// -- Breakpoints.

static void read_offsets(const char* path) {
  FILE* file = fopen(path, "r");
  if (file == NULL) fail(path);
  while (offset_count < OFFSET_MAX && fscanf(file, "%lx", &offset[offset_count]) == 1) {
    offset_count++;
  }
  fclose(file);
}

static void find_library(void) {
  char path[64];
  char line[4096];
  snprintf(path, sizeof(path), "/proc/%d/maps", (int)child);
  FILE* maps = fopen(path, "r");
  if (maps == NULL) fail(path);
  while (base == 0 && fgets(line, sizeof(line), maps) != NULL) {
    if (strstr(line, "libmimalloc") != NULL) base = strtoul(line, NULL, 16);
  }
  fclose(maps);
  if (base == 0) fail("the library is not loaded");
}

static uint8_t exchange_byte(unsigned long address, uint8_t byte) {
  void* const word_at = (void*)(address & ~7ul);
  const unsigned shift = (unsigned)(address & 7) * 8;
  errno = 0;
  const unsigned long word = (unsigned long)ptrace(PTRACE_PEEKTEXT, child, word_at, 0);
  if (errno != 0) fail("PTRACE_PEEKTEXT");
  request(PTRACE_POKETEXT, word_at, (word & ~(0xfful << shift)) | (unsigned long)byte << shift);
  return (uint8_t)(word >> shift);
}

static void insert_all(void) {
  for (size_t i = 0; i < offset_count; i++)
    original[i] = exchange_byte(base + offset[i], BREAKPOINT);
}

static void remove_all(void) {
  for (size_t i = 0; i < offset_count; i++) exchange_byte(base + offset[i], original[i]);
}

// The breakpoint that just stopped the child: let its instruction run. False: it was a mark.
static bool pass_breakpoint(unsigned long* at) {
  struct user_regs_struct r;
  request(PTRACE_GETREGS, NULL, (unsigned long)&r);
  r.rip--;
  size_t i = 0;
  while (i < offset_count && base + offset[i] != r.rip) i++;
  if (i == offset_count) return false;
  int status;
  *at = offset[i];
  exchange_byte(r.rip, original[i]);
  request(PTRACE_SETREGS, NULL, (unsigned long)&r);
  request(PTRACE_SINGLESTEP, NULL, 0);
  if (!wait_stop(&status)) fail("a step");
  exchange_byte(r.rip, BREAKPOINT);
  return true;
}

static int trace_locked(void) {
  char name[64] = "";
  int status;
  unsigned long hits = 0, at = 0;
  wait_stop(&status);
  while (true) {
    request(PTRACE_CONT, NULL, 0);
    if (!wait_stop(&status)) return finish(status);
    expect_trap(status);
    if (name[0] == 0) {
      read_name(name);
      find_library();
      insert_all();
    } else if (pass_breakpoint(&at)) {
      hits++;
    } else {
      remove_all();
      fprintf(stderr, "phase %s hits %lu last %lx\n", name, hits, at);
      name[0] = 0;
      hits = at = 0;
    }
  }
}

// -- System calls, memory.

static int trace_calls(void) {
  int status;
  char name[64] = "";
  unsigned long total = 0, in_phase = 0;
  bool is_entry = true;
  wait_stop(&status);
  request(PTRACE_SETOPTIONS, NULL, PTRACE_O_TRACESYSGOOD);
  while (true) {
    request(PTRACE_SYSCALL, NULL, 0);
    if (!wait_stop(&status)) break;
    if (WSTOPSIG(status) == (SIGTRAP | 0x80)) {
      total += is_entry;
      in_phase += is_entry;
      is_entry = !is_entry;
      continue;
    }
    expect_trap(status);
    if (name[0] != 0) fprintf(stderr, "phase %s calls %lu\n", name, in_phase);
    read_name(name);
    in_phase = 0;
  }
  fprintf(stderr, "total calls %lu\n", total);
  return finish(status);
}

static long status_kib(const char* file, const char* field) {
  char path[64];
  char line[256];
  long value = -1;
  snprintf(path, sizeof(path), "/proc/%d/%s", (int)child, file);
  FILE* f = fopen(path, "r");
  if (f == NULL) return -1;
  while (fgets(line, sizeof(line), f) != NULL) {
    if (strncmp(line, field, strlen(field)) == 0) value = atol(line + strlen(field));
  }
  fclose(f);
  return value;
}

// What is mapped and unchanged of files whose path contains a word.
static long file_kib(const char* word) {
  char path[64];
  char line[512];
  long value = 0;
  bool is_wanted = false;
  snprintf(path, sizeof(path), "/proc/%d/smaps", (int)child);
  FILE* f = fopen(path, "r");
  if (f == NULL) return -1;
  while (fgets(line, sizeof(line), f) != NULL) {
    if (line[0] < 'A' || line[0] > 'Z') { // addresses, access, file
      is_wanted = strstr(line, word) != NULL;
    }
    if (is_wanted && strncmp(line, "Rss:", 4) == 0) value += atol(line + 4);
    if (is_wanted && strncmp(line, "Anonymous:", 10) == 0) value -= atol(line + 10);
  }
  fclose(f);
  return value;
}

static int trace_peak(void) {
  int status;
  wait_stop(&status);
  request(PTRACE_SETOPTIONS, NULL, PTRACE_O_TRACEEXIT);
  while (true) {
    request(PTRACE_CONT, NULL, 0);
    if (!wait_stop(&status)) return finish(status);
    if (status >> 8 == (SIGTRAP | PTRACE_EVENT_EXIT << 8)) {
      const long peak = status_kib("status", "VmHWM:");
      const long own = status_kib("smaps_rollup", "Anonymous:");
      fprintf(stderr, "peak %ld private %ld libc %ld ours %ld\n", peak, own,
              file_kib("/libc.so") + file_kib("/ld-linux"), file_kib("/libmimalloc"));
    }
  }
}

int main(int argc, char** argv) {
  if (argc > 3 && strcmp(argv[1], "locked") == 0) {
    read_offsets(argv[2]);
    start(NULL, argv + 3);
    return trace_locked();
  }
  const bool has_preload = argc > 4 && strcmp(argv[2], "-p") == 0;
  const int first = has_preload ? 4 : 2;
  if (argc <= first) return 2;
  start(has_preload ? argv[3] : NULL, argv + first);
  if (strcmp(argv[1], "calls") == 0) return trace_calls();
  if (strcmp(argv[1], "peak") == 0) return trace_peak();
  return 2;
}
