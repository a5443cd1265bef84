// SPDX-License-Identifier: MIT
// controlled.c - a program that test_control.py commands: prints the address of a block, then does
// what each line of its input says, and prints a line when that is done.
//
//   allocate, free   256 MiB of small blocks
//   thread           a thread that sleeps
//   fork, fork-thread  a child that sleeps, with one thread or two; prints its number
//   user             becomes the user `nobody`
#include <pthread.h>
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
