// SPDX-License-Identifier: MIT
// pid_namespace.c - a process forks into a new namespace of process numbers while another of its
// threads makes the first allocation of all: parent and child have the same number then, 1. If this
// fails, the first process of a container that starts another container hangs.
//
// Linked with a library that does not replace malloc: what libc allocates for the thread would come
// before. 77: namespaces are not permitted.
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <mimalloc.h>

#define ATTEMPTS 20
#define PATIENCE_S 10
#define VARIABLES 9000
#define HUNG 3
#define NOT_PERMITTED 77

static atomic_int is_starting;

// Set-up looks for each option among all of the variables: that takes milliseconds.
static char* variables[VARIABLES + 1];

static void* allocate_first(void* arg) {
  (void)arg;
  atomic_store(&is_starting, 1);
  mi_free(mi_malloc(100));
  return NULL;
}

// The first process of a namespace has no default actions.
static void give_up(int signal) {
  (void)signal;
  _exit(HUNG);
}

static void be_impatient(unsigned int seconds) {
  signal(SIGALRM, &give_up);
  alarm(seconds);
}

static pid_t fork_into_namespace(void) {
  return (pid_t)syscall(SYS_clone, CLONE_NEWPID | SIGCHLD, 0, 0, 0, 0);
}

static int wait_for(pid_t child) {
  int status;
  if (waitpid(child, &status, 0) != child || !WIFEXITED(status)) return 1;
  return WEXITSTATUS(status);
}

static void be_inner(void) {
  if (getpid() != 1) _exit(4);
  be_impatient(PATIENCE_S);
  void* const p = mi_calloc(1, 100);
  mi_free(p);
  _exit(p != NULL ? 0 : 5);
}

// `wait_us` decides where set-up is when the fork comes.
static void be_outer(unsigned int wait_us) {
  if (getpid() != 1) _exit(4);
  be_impatient(3 * PATIENCE_S);
  pthread_t thread;
  if (pthread_create(&thread, NULL, &allocate_first, NULL) != 0) _exit(6);
  while (!atomic_load(&is_starting)) sched_yield();
  if (wait_us > 0) usleep(wait_us);
  const pid_t inner = fork_into_namespace();
  if (inner == 0) be_inner();
  if (inner < 0) _exit(errno == EPERM ? NOT_PERMITTED : 7);
  const int result = wait_for(inner);
  pthread_join(thread, NULL);
  _exit(result);
}

int main(void) {
  for (size_t i = 0; i < VARIABLES; i++) variables[i] = (char*)"MI_UNRELATED=1";
  variables[VARIABLES - 1] = (char*)"MIMALLOC_SHOW_ERRORS=1";
  environ = variables;
  for (unsigned int i = 0; i < ATTEMPTS; i++) {
    const pid_t outer = fork_into_namespace();
    if (outer == 0) be_outer(i % 5 * 50);
    if (outer < 0) return errno == EPERM ? NOT_PERMITTED : 7;
    const int result = wait_for(outer);
    if (result != 0) {
      fprintf(stderr, "attempt %u: %s, %d\n", i, result == HUNG ? "hung" : "failed", result);
      return result;
    }
  }
  puts("done");
  return 0;
}
