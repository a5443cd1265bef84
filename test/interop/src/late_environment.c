// SPDX-License-Identifier: MIT
// late_environment.c - a program that changes its environment while it runs: what is in it is for
// its children, and may be gone when the process ends.
//
//   frame  the list lies in the frame of main
//   gone   a variable is in memory that is unmapped (putenv of a plug-in that was closed)
//   child  a variable for a child
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

extern char** environ;

static void* volatile block;

int main(int argc, char** argv) {
  char* list[2] = {NULL, NULL};
  free(block = malloc(100)); // sets the library up
  if (argc < 2) return 2;
  if (strcmp(argv[1], "frame") == 0) {
    list[0] = strdup("MIMALLOC_VERBOSE=1");
    environ = list;
  } else if (strcmp(argv[1], "gone") == 0) {
    char* const p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    strcpy(p, "PLUGIN=1");
    putenv(p);
    munmap(p, 4096);
  } else if (argc > 2) {
    setenv("MIMALLOC_PROFILE", argv[2], 1);
  }
  puts("end of main");
  return 0;
}
