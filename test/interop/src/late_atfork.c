// SPDX-License-Identifier: MIT
// late_atfork.c - the first malloc of the process is that of pthread_atfork, which needs memory for
// its 49th handler, and has a lock meanwhile; and then a fork.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static int calls;

static void handle(void) { calls++; }

__attribute__((constructor)) static void early(void) {
  for (int i = 0; i < 60; i++) pthread_atfork(&handle, NULL, NULL);
}

int main(void) {
  const pid_t child = fork();
  if (child == 0) {
    free(malloc(1000));
    _exit(calls == 60 ? 0 : 1);
  }
  int status = 1;
  if (child < 0 || waitpid(child, &status, 0) != child || status != 0) return 2;
  free(malloc(1000));
  puts("done");
  return 0;
}
