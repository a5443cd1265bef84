// SPDX-License-Identifier: MIT
// spawn.c - test/lib/spawn.h on Windows: CreateProcess, and a pipe. There is no fork.
#include "spawn.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

#define WIN32_LEAN_AND_MEAN
#include <windows.h>

void spawn_keep_coverage(void) {}

bool spawn_own_path(char* path, size_t capacity) {
  const DWORD length = GetModuleFileNameA(NULL, path, (DWORD)capacity);
  return length > 0 && length < capacity;
}

// Whether malloc stays that of the run-time (wine.sh -n).
#define SPAWN_KEPT "MIMALLOC_DISABLE_REDIRECT="

// Write the variables of this process, but those of the library, and those given.
static void spawn_environment(char* list, size_t capacity, const char* const more[]) {
  size_t used = 0;
  char* const all = GetEnvironmentStringsA();
  for (size_t i = 0; more != NULL && more[i] != NULL; i++) {
    used += (size_t)snprintf(list + used, capacity - used, "%s", more[i]) + 1;
  }
  for (const char* at = all; *at != 0; at += strlen(at) + 1) {
    const bool is_kept = _strnicmp(at, SPAWN_KEPT, sizeof(SPAWN_KEPT) - 1) == 0;
    if ((_strnicmp(at, "MIMALLOC_", 9) == 0 && !is_kept) || used + strlen(at) + 2 > capacity)
      continue;
    used += (size_t)snprintf(list + used, capacity - used, "%s", at) + 1;
  }
  list[used] = 0;
  FreeEnvironmentStringsA(all);
}

bool spawn_program(const char* path, const char* argument, const char* const environment[],
                   spawn_result_t* result) {
  static char list[65536];
  char command[4096];
  SECURITY_ATTRIBUTES inherited = {sizeof(inherited), NULL, TRUE};
  HANDLE reads, writes;
  PROCESS_INFORMATION child;
  spawn_environment(list, sizeof(list), environment);
  snprintf(command, sizeof(command), argument != NULL ? "\"%s\" \"%s\"" : "\"%s\"", path, argument);
  if (!CreatePipe(&reads, &writes, &inherited, 0)) return false;
  SetHandleInformation(reads, HANDLE_FLAG_INHERIT, 0);
  STARTUPINFOA start = {.cb = sizeof(start),
                        .dwFlags = STARTF_USESTDHANDLES,
                        .hStdInput = GetStdHandle(STD_INPUT_HANDLE),
                        .hStdOutput = writes,
                        .hStdError = writes};
  fflush(NULL);
  const BOOL is_started =
      CreateProcessA(NULL, command, NULL, NULL, TRUE, 0, list, NULL, &start, &child);
  CloseHandle(writes);
  result->length = 0;
  DWORD got;
  char sink[1024];
  while (is_started) {
    const size_t room = SPAWN_OUTPUT_MAX - 1 - result->length;
    const BOOL is_read =
        room > 0 ? ReadFile(reads, result->output + result->length, (DWORD)room, &got, NULL)
                 : ReadFile(reads, sink, sizeof(sink), &got, NULL);
    if (!is_read || got == 0) break;
    if (room > 0) result->length += got;
  }
  CloseHandle(reads);
  // As on other systems: lines end with \n.
  size_t kept = 0;
  for (size_t i = 0; i < result->length; i++) {
    if (result->output[i] != '\r') result->output[kept++] = result->output[i];
  }
  result->length = kept;
  result->output[kept] = 0;
  if (!is_started) return false;
  DWORD status = 0;
  WaitForSingleObject(child.hProcess, INFINITE);
  GetExitCodeProcess(child.hProcess, &status);
  CloseHandle(child.hProcess);
  CloseHandle(child.hThread);
  // An exception that nobody handled, or abort.
  const bool is_crash = status >= 0xC0000000u || status == 3;
  result->exit_status = is_crash ? -1 : (int)status;
  result->signal = is_crash ? SIGABRT : 0;
  return true;
}

bool spawn_self(const char* argument, const char* const environment[], spawn_result_t* result) {
  char self[4096];
  return spawn_own_path(self, sizeof(self)) && spawn_program(self, argument, environment, result);
}

bool spawn_fork(void (*body)(void), spawn_result_t* result) {
  (void)body, (void)result;
  return false;
}

size_t spawn_count(const spawn_result_t* result, const char* text) {
  size_t count = 0;
  for (const char* s = strstr(result->output, text); s != NULL; s = strstr(s + 1, text)) count++;
  return count;
}
