// SPDX-License-Identifier: MIT
// spawn.c - see spawn.h. Under an emulator that the kernel does not know, the child cannot be
// started unless MI_TEST_EMULATOR names the emulator.
#if !defined(_GNU_SOURCE)
#define _GNU_SOURCE
#endif
#include "spawn.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

extern char** environ;

#define SPAWN_NOT_STARTED 126
#define SPAWN_LIST_MAX 512

void spawn_keep_coverage(void) {
#if defined(MI_COVERAGE)
  void __gcov_dump(void);
  __gcov_dump();
#endif
}

static void spawn_prepare_child(int fd) {
  const struct rlimit none = {0, 0};
  setrlimit(RLIMIT_CORE, &none);
  dup2(fd, STDOUT_FILENO);
  dup2(fd, STDERR_FILENO);
  close(fd);
}

static bool spawn_collect(pid_t child, int fd, spawn_result_t* result) {
  result->length = 0;
  for (;;) {
    const size_t room = SPAWN_OUTPUT_MAX - 1 - result->length;
    char sink[1024];
    const ssize_t got =
        room > 0 ? read(fd, result->output + result->length, room) : read(fd, sink, sizeof(sink));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    if (room > 0) result->length += (size_t)got;
  }
  result->output[result->length] = 0;
  close(fd);
  int status = 0;
  while (waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) return false;
  }
  result->exit_status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  result->signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
  return true;
}

static void spawn_exec(const char* path, const char* argument, const char* const environment[]) {
  const char* list[SPAWN_LIST_MAX];
  size_t count = 0;
  for (size_t i = 0; environment != NULL && environment[i] != NULL; i++) {
    list[count++] = environment[i];
  }
  for (size_t i = 0; environ[i] != NULL && count < SPAWN_LIST_MAX - 1; i++) {
    if (strncasecmp(environ[i], "MIMALLOC_", 9) != 0) list[count++] = environ[i];
  }
  list[count] = NULL;
  const char* const emulator = getenv("MI_TEST_EMULATOR");
  if (emulator != NULL && emulator[0] != 0) {
    // A command line without quotes: split at blanks.
    static char words[4096];
    snprintf(words, sizeof(words), "%s", emulator);
    const char* arguments[64];
    size_t n = 0;
    for (char* w = strtok(words, " "); w != NULL && n < 60; w = strtok(NULL, " ")) {
      arguments[n++] = w;
    }
    arguments[n++] = path;
    arguments[n++] = argument;
    arguments[n] = NULL;
    execvpe(arguments[0], (char**)(size_t)arguments, (char**)(size_t)list);
  }
  const char* const arguments[] = {path, argument, NULL};
  execve(path, (char**)(size_t)arguments, (char**)(size_t)list);
  _exit(SPAWN_NOT_STARTED);
}

bool spawn_own_path(char* path, size_t capacity) {
  const ssize_t length = readlink("/proc/self/exe", path, capacity - 1);
  if (length <= 0) return false;
  path[length] = 0;
  return true;
}

bool spawn_self(const char* argument, const char* const environment[], spawn_result_t* result) {
  char self[4096];
  return spawn_own_path(self, sizeof(self)) && spawn_program(self, argument, environment, result);
}

bool spawn_program(const char* path, const char* argument, const char* const environment[],
                   spawn_result_t* result) {
  int ends[2];
  if (pipe(ends) != 0) return false;
  fflush(NULL);
  const pid_t child = fork();
  if (child == 0) {
    close(ends[0]);
    spawn_prepare_child(ends[1]);
    spawn_exec(path, argument, environment);
  }
  close(ends[1]);
  if (child < 0) {
    close(ends[0]);
    return false;
  }
  return spawn_collect(child, ends[0], result) && result->exit_status != SPAWN_NOT_STARTED;
}

bool spawn_fork(void (*body)(void), spawn_result_t* result) {
  int ends[2];
  if (pipe(ends) != 0) return false;
  fflush(NULL);
  const pid_t child = fork();
  if (child == 0) {
    close(ends[0]);
    spawn_prepare_child(ends[1]);
    body();
    fflush(NULL);
    spawn_keep_coverage();
    _exit(0);
  }
  close(ends[1]);
  if (child < 0) {
    close(ends[0]);
    return false;
  }
  return spawn_collect(child, ends[0], result);
}

size_t spawn_count(const spawn_result_t* result, const char* text) {
  size_t count = 0;
  for (const char* s = strstr(result->output, text); s != NULL; s = strstr(s + 1, text)) count++;
  return count;
}
