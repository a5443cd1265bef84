// SPDX-License-Identifier: MIT
// launch.c - starts one program and reports what it cost; measure.py compiles and uses it.
//
// Usage: launch FD COUNT NAME=VALUE... PROGRAM [ARGUMENT...]
//        launch warm MIB
//
// The first starts PROGRAM with an environment of COUNT variables: what is preloaded into it is not
// into us. Folder and open files are handed on. The second only touches so much memory and gives it
// back.
//
// Why not from Python: the kernel hands the peak resident memory of whoever calls exec on to the
// program, also after vfork. Here that is a small program's, below what any other takes. And what
// watches must be cheap: a sample costs some microseconds here.
// The program leads a session of its own. When it ends, or we are told to, all it has started is
// killed. It starts after its counter is open. Every 10 ms (every millisecond for the first ten)
// the resident memory of the program and all its descendants is added up, and what of it is mapped
// from files or shared: how much of a library is mapped by one fault is the kernel's choice, and
// changes with how the page cache holds it.
//
// Written to FD, as lines "key value": pid, once it runs; at its end status (as wait(2) has it),
// wall_ns, user_us, system_us, peak_kib (largest process), tree_kib (largest sum seen), file_kib
// (largest sum of files and shared memory seen), kib_ms (sum over time), faults, major_faults,
// switches (involuntary), instructions (-1: not counted), and at most 512 lines
// "at MILLISECONDS KIB".
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <dirent.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define POINT_COUNT 512
#define PROCESS_COUNT 1024

// What the program cost.
typedef struct end_s {
  int status;
  struct rusage usage;
  double wall_ms;
  double kib_ms;
  long tree_kib;
  long file_kib;
} end_t;

static struct {
  double ms;
  long kib;
} points[POINT_COUNT];
static size_t point_count, sample_count, stride = 1;

static void give_up(const char* what) {
  fprintf(stderr, "launch: %s: %s\n", what, strerror(errno));
  exit(127);
}

static double now_ms(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

// The beginning of a file of /proc; false if it is not there any more.
static int read_text(const char* path, char* text, size_t size) {
  const int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return 0;
  const ssize_t length = read(file, text, size - 1);
  close(file);
  text[length > 0 ? length : 0] = 0;
  return length > 0;
}

// Append the children of all threads of `pid` to `pids`.
static size_t add_children(int pid, int* pids, size_t count) {
  char path[64], text[8192];
  snprintf(path, sizeof(path), "/proc/%d/task", pid);
  DIR* const folder = opendir(path);
  if (folder == NULL) return count;
  for (struct dirent* entry; (entry = readdir(folder)) != NULL;) {
    if (entry->d_name[0] == '.') continue;
    char file[400];
    snprintf(file, sizeof(file), "/proc/%d/task/%s/children", pid, entry->d_name);
    if (!read_text(file, text, sizeof(text))) continue;
    char* at = text;
    for (long child; count < PROCESS_COUNT && (child = strtol(at, &at, 10)) > 0;)
      pids[count++] = (int)child;
  }
  closedir(folder);
  return count;
}

// The program and all that descends from it; what lost its parent is ours, see main.
static size_t find_tree(int program, int* pids) {
  pids[0] = program;
  size_t count = add_children(getpid(), pids, 1);
  for (size_t i = 1; i < count; i++) {
    if (pids[i] == program) pids[i--] = pids[--count];
  }
  for (size_t i = 0; i < count; i++) count = add_children(pids[i], pids, count);
  return count;
}

static void kill_tree(int program) {
  int pids[PROCESS_COUNT];
  const size_t count = find_tree(program, pids);
  for (size_t i = 0; i < count; i++) kill(pids[i], SIGKILL);
}

// Resident memory of the program and all that descends from it, and what of it is mapped from files
// or shared (proc(5), statm).
static long tree_kib(int program, long* file_kib) {
  const long page_kib = sysconf(_SC_PAGESIZE) / 1024;
  int pids[PROCESS_COUNT];
  char path[64], text[256];
  long kib = 0;
  *file_kib = 0;
  const size_t count = find_tree(program, pids);
  for (size_t i = 0; i < count; i++) {
    snprintf(path, sizeof(path), "/proc/%d/statm", pids[i]);
    char* end = text;
    if (!read_text(path, text, sizeof(text))) continue;
    strtol(text, &end, 10);
    kib += strtol(end, &end, 10) * page_kib;
    *file_kib += strtol(end, NULL, 10) * page_kib;
  }
  return kib;
}

// Keep every stride-th sample; if the table is full, every second of these.
static void keep(double ms, long kib) {
  if (sample_count++ % stride != 0) return;
  if (point_count == POINT_COUNT) {
    for (size_t i = 0; i < POINT_COUNT / 2; i++) points[i] = points[2 * i];
    point_count = POINT_COUNT / 2;
    stride *= 2;
  }
  points[point_count].ms = ms;
  points[point_count++].kib = kib;
}

static int open_counter(pid_t pid) {
  struct perf_event_attr event = {
      .type = PERF_TYPE_HARDWARE, .size = sizeof(event), .config = PERF_COUNT_HW_INSTRUCTIONS};
  event.disabled = 1;
  event.inherit = 1;
  event.enable_on_exec = 1;
  event.exclude_kernel = 1;
  event.exclude_hv = 1;
  return (int)syscall(SYS_perf_event_open, &event, pid, -1, -1, PERF_FLAG_FD_CLOEXEC);
}

static void child(int gate, int report, char** environment, char** argv, const sigset_t* mask) {
  const struct rlimit none = {0, 0};
  char go;
  setsid();
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  setrlimit(RLIMIT_CORE, &none);
  sigprocmask(SIG_SETMASK, mask, NULL);
  signal(SIGPIPE, SIG_DFL); // Python ignores it, and ignored signals stay ignored
  signal(SIGINT, SIG_DFL);
  fcntl(report, F_SETFD, FD_CLOEXEC);
  if (read(gate, &go, 1) != 1) _exit(127);
  execvpe(argv[0], argv, environment);
  give_up(argv[0]);
}

// Take samples until the program ends.
static end_t follow(int pid, double start, const sigset_t* awaited) {
  end_t end = {0};
  double last_ms = start;
  long last_kib = 0;
  for (size_t sample = 0;; sample++) {
    const struct timespec pause = {0, sample < 10 ? 1000000 : 10000000};
    if (sigtimedwait(awaited, NULL, &pause) == SIGTERM) kill_tree(pid);
    const double ms = now_ms();
    const pid_t ended = wait4(pid, &end.status, WNOHANG, &end.usage);
    if (ended < 0) give_up("wait4");
    // What is on its way out has no memory map any more; until its end it counts as it was.
    long file_kib = 0;
    long kib = ended == 0 ? tree_kib(pid, &file_kib) : last_kib;
    if (kib == 0) kib = last_kib;
    if (file_kib > end.file_kib) end.file_kib = file_kib;
    end.kib_ms += (ms - last_ms) * (double)(kib + last_kib) / 2;
    last_ms = ms;
    last_kib = kib;
    if (kib > end.tree_kib) end.tree_kib = kib;
    keep(ms - start, kib);
    if (ended == pid) break;
  }
  end.wall_ms = last_ms - start;
  return end;
}

static long long microseconds(struct timeval t) { return t.tv_sec * 1000000ll + t.tv_usec; }

static void write_end(int report, const end_t* end, int64_t instructions) {
  const struct rusage* const usage = &end->usage;
  dprintf(report, "status %d\nwall_ns %.0f\n", end->status, end->wall_ms * 1e6);
  dprintf(report, "user_us %lld\n", microseconds(usage->ru_utime));
  dprintf(report, "system_us %lld\n", microseconds(usage->ru_stime));
  dprintf(report, "peak_kib %ld\ntree_kib %ld\n", usage->ru_maxrss, end->tree_kib);
  dprintf(report, "file_kib %ld\n", end->file_kib);
  dprintf(report, "kib_ms %.0f\n", end->kib_ms);
  dprintf(report, "faults %ld\nmajor_faults %ld\n", usage->ru_minflt, usage->ru_majflt);
  dprintf(report, "switches %ld\n", usage->ru_nivcsw);
  dprintf(report, "instructions %lld\n", (long long)instructions);
  for (size_t i = 0; i < point_count; i++) {
    dprintf(report, "at %.0f %ld\n", points[i].ms, points[i].kib);
  }
}

int main(int argc, char** argv) {
  if (argc == 3 && strcmp(argv[1], "warm") == 0) {
    const size_t size = strtoul(argv[2], NULL, 10) << 20;
    return mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1,
                0) == MAP_FAILED;
  }
  const int count = argc > 3 ? atoi(argv[2]) : 0;
  if (argc < 4 || count < 0 || count > argc - 4) {
    fprintf(stderr, "usage: launch FD COUNT NAME=VALUE... PROGRAM [ARGUMENT...]\n");
    return 2;
  }
  const int report = atoi(argv[1]);
  char** const program = argv + 3 + count;
  char** const environment = (char**)calloc((size_t)count + 1, sizeof(char*));
  if (environment == NULL) give_up("calloc");
  memcpy(environment, argv + 3, (size_t)count * sizeof(char*));
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  prctl(PR_SET_CHILD_SUBREAPER, 1); // so that we find what loses its parent
  sigset_t awaited, before;
  sigemptyset(&awaited);
  sigaddset(&awaited, SIGCHLD);
  sigaddset(&awaited, SIGTERM);
  sigprocmask(SIG_BLOCK, &awaited, &before);
  signal(SIGINT, SIG_IGN); // of the terminal: the harness ends the program then, in order
  int gate[2];
  if (pipe2(gate, O_CLOEXEC) != 0) give_up("pipe");
  const pid_t pid = fork();
  if (pid < 0) give_up("fork");
  if (pid == 0) child(gate[0], report, environment, program, &before);
  const int counter = open_counter(pid);

  dprintf(report, "pid %d\n", pid);
  const double start = now_ms();
  if (write(gate[1], "g", 1) != 1) give_up("write");
  const end_t end = follow(pid, start, &awaited);
  int rest[PROCESS_COUNT];
  const size_t rest_count = add_children(getpid(), rest, 0);
  for (size_t i = 0; i < rest_count; i++) kill(rest[i], SIGKILL); // what it left behind
  int64_t instructions = -1;
  if (counter >= 0 && read(counter, &instructions, sizeof(instructions)) != sizeof(instructions))
    instructions = -1;
  write_end(report, &end, instructions);
  return 0;
}
