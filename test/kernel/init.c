// SPDX-License-Identifier: MIT
// init.c - the first process of a kernel that test/test_kernel.py boots: runs programs one after
// the other, says on the console how each ended, and switches the machine off.
//
// The file /programs has a line for each: its name, after how many seconds it is ended, its path,
// and its arguments, with tabs between. Lines of ours begin with "@":
//
//   @ready              the kernel is up
//   @begin NAME         what follows is the program's output
//   @lost TEXT          the program has ended, and explicit huge pages of a node are not free
//   @end NAME STATUS    the exit status, minus the number of a signal, or "timeout"
//   @done
//
// Deliberately absent: a shell, modules, devices but the console.
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define ARGUMENTS_MAX 16
#define STEP_MS 5
#define EXEC_FAILED 126

static void mounted(const char* type, const char* path) {
  mkdir(path, 0755);
  if (mount(type, path, type, 0, NULL) != 0 && errno != EBUSY) {
    printf("@mount of %s at %s: %s\n", type, path, strerror(errno));
  }
}

static long number_in(const char* path) {
  char text[32] = {0};
  const int file = open(path, O_RDONLY);
  const ssize_t length = file < 0 ? -1 : read(file, text, sizeof(text) - 1);
  close(file);
  return length > 0 ? atol(text) : 0;
}

// Call `fun` with the path of each entry of a folder that begins with `prefix`.
static void each(const char* folder, const char* prefix, void (*fun)(const char* path)) {
  DIR* const stream = opendir(folder);
  if (stream == NULL) return;
  for (const struct dirent* entry; (entry = readdir(stream)) != NULL;) {
    if (strncmp(entry->d_name, prefix, strlen(prefix)) != 0) continue;
    char path[512];
    snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name);
    fun(path);
  }
  closedir(stream);
}

static void tell_lost(const char* path) {
  char of_all[600];
  char of_free[600];
  snprintf(of_all, sizeof(of_all), "%s/nr_hugepages", path);
  snprintf(of_free, sizeof(of_free), "%s/free_hugepages", path);
  const long all = number_in(of_all);
  const long free_now = number_in(of_free);
  if (free_now != all) printf("@lost %s: %ld of %ld are free\n", path, free_now, all);
}

static void tell_lost_of_node(const char* path) {
  char folder[600];
  snprintf(folder, sizeof(folder), "%s/hugepages", path);
  each(folder, "hugepages-", tell_lost);
}

static void start(char* const arguments[]) {
  setsid();
  const int nothing = open("/dev/null", O_RDONLY);
  dup2(nothing, STDIN_FILENO);
  execv(arguments[0], arguments);
  printf("%s: %s\n", arguments[0], strerror(errno));
  _exit(EXEC_FAILED);
}

// True if the process ended by itself; also ends, and forgets, all that it left behind.
static int waited(pid_t child, long seconds, int* status) {
  const struct timespec step = {0, STEP_MS * 1000000};
  int is_ended = 0;
  for (long steps = seconds * 1000 / STEP_MS; !is_ended && steps > 0; steps--) {
    pid_t ended;
    while ((ended = waitpid(-1, status, WNOHANG)) > 0 && ended != child) {
    }
    is_ended = ended == child;
    if (!is_ended) nanosleep(&step, NULL);
  }
  kill(-1, SIGKILL); // all but ourselves
  int other;
  while (waitpid(-1, &other, 0) > 0) {
  }
  return is_ended;
}

static void run(char* line) {
  char* words[ARGUMENTS_MAX + 1] = {0};
  size_t count = 0;
  for (char* word = strtok(line, "\t\n"); word != NULL && count < ARGUMENTS_MAX;
       word = strtok(NULL, "\t\n")) {
    words[count++] = word;
  }
  if (count < 3) return;
  printf("@begin %s\n", words[0]);
  const pid_t child = fork();
  if (child == 0) start(words + 2);
  int status = 0;
  const int is_ended = waited(child, atol(words[1]), &status);
  printf("\n");
  each("/sys/devices/system/node", "node", tell_lost_of_node);
  if (is_ended) {
    printf("@end %s %d\n", words[0], WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status));
  } else {
    printf("@end %s timeout\n", words[0]);
  }
}

int main(void) {
  mounted("devtmpfs", "/dev");
  const int console = open("/dev/console", O_RDWR);
  for (int i = 0; console >= 0 && i < 3; i++) dup2(console, i);
  setvbuf(stdout, NULL, _IOLBF, 0);
  mounted("proc", "/proc");
  mounted("sysfs", "/sys");
  mounted("cgroup2", "/sys/fs/cgroup");
  mounted("tmpfs", "/tmp");
  mkdir("/dev/shm", 0777);
  mkdir("/usr", 0755);
  setenv("PATH", "/bin", 1);
  setenv("HOME", "/tmp", 1);
  setenv("TMPDIR", "/tmp", 1);
  setenv("LD_LIBRARY_PATH", "/lib", 1);
  printf("@ready\n");
  FILE* const programs = fopen("/programs", "re");
  char line[4096];
  while (programs != NULL && fgets(line, sizeof(line), programs) != NULL) run(line);
  printf("@done\n");
  sync();
  reboot(RB_AUTOBOOT); // the emulator does not boot again
  return 1;
}
