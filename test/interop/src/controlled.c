// SPDX-License-Identifier: MIT
// controlled.c - a program that test_control.py commands: prints the address of a block, then does
// what each line of its input says, and prints a line when that is done.
//
//   allocate, free   256 MiB of small blocks
//   thread           a thread that sleeps
//   sub-process      a thread of a sub-process that frees 24 MiB of large blocks, then sleeps
//   fork, fork-thread  a child that sleeps, with one thread or two; prints its number
//   user             becomes the user `nobody`
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { COUNT = 256 * 1024, SIZE = 1024, NOBODY = 65534 };

static void* blocks[COUNT];

static void* sleep_long(void* arg) {
  free(malloc(100));
  for (;;) pause();
  return arg;
}

static int start(void) {
  pthread_t thread;
  return pthread_create(&thread, NULL, &sleep_long, NULL);
}

typedef struct subproc_s {
  void* id;
} subproc_t; // as mi_subproc_id_t of mimalloc.h

extern subproc_t mi_subproc_new(void) __attribute__((weak));
extern void mi_subproc_add_current_thread(subproc_t subproc) __attribute__((weak));

enum { LARGE_COUNT = 96, LARGE_SIZE = 256 * 1024 };

static atomic_int is_freed;

static void* free_and_sleep(void* arg) {
  mi_subproc_add_current_thread(mi_subproc_new());
  for (int i = 0; i < LARGE_COUNT; i++) blocks[i] = memset(malloc(LARGE_SIZE), 1, LARGE_SIZE);
  for (int i = 0; i < LARGE_COUNT; i++) free(blocks[i]);
  is_freed = 1;
  return sleep_long(arg);
}

static int start_subproc(void) {
  pthread_t thread;
  if (mi_subproc_new == NULL || pthread_create(&thread, NULL, &free_and_sleep, NULL) != 0) return 1;
  while (!is_freed) usleep(1000);
  return 0;
}

static int fork_child(int has_thread) {
  const pid_t child = fork();
  if (child == 0) {
    if (has_thread && start() != 0) _exit(1);
    alarm(60);
    for (;;) pause();
  }
  printf("%d\n", (int)child);
  return child < 0;
}

int main(void) {
  char line[100];
  char* const block = malloc(5000);
  printf("%p\n", (void*)block);
  fflush(stdout);
  while (fgets(line, sizeof(line), stdin) != NULL) {
    int err = 0;
    line[strcspn(line, "\n")] = 0;
    if (strcmp(line, "allocate") == 0) {
      for (int i = 0; i < COUNT; i++) blocks[i] = memset(malloc(SIZE), 1, SIZE);
    } else if (strcmp(line, "free") == 0) {
      for (int i = 0; i < COUNT; i++) free(blocks[i]);
    } else if (strcmp(line, "thread") == 0) {
      err = start();
    } else if (strcmp(line, "sub-process") == 0) {
      err = start_subproc();
    } else if (strcmp(line, "user") == 0) {
      err = seteuid(NOBODY);
    } else if (strncmp(line, "fork", 4) == 0) {
      err = fork_child(line[4] != 0);
    } else {
      err = 1;
    }
    if (err != 0) return 1;
    printf("done\n");
    fflush(stdout);
  }
  free(block);
  return 0;
}
