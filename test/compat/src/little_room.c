// SPDX-License-Identifier: MIT
// little_room.c - 2 MiB of address space are left when malloc is first called. How much of it can
// be had? Usage: little_room NEED_KIB
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>
#include <fcntl.h>

// Pages of address space, read without malloc.
static unsigned long pages(void) {
  char text[100] = "";
  const int file = open("/proc/self/statm", O_RDONLY);
  if (file < 0 || read(file, text, sizeof(text) - 1) <= 0) return 0;
  close(file);
  return strtoul(text, NULL, 10);
}

int main(int argc, char** argv) {
  const rlim_t room = (rlim_t)pages() * (rlim_t)sysconf(_SC_PAGESIZE) + ((rlim_t)2 << 20);
  const struct rlimit limit = {room, room};
  if (argc < 2 || setrlimit(RLIMIT_AS, &limit) != 0) return 2;
  long kib = 0;
  for (char* p; (p = malloc(1024)) != NULL; kib++) memset(p, 1, 1024);
  char text[200];
  const int enough = kib >= atol(argv[1]);
  const int length = snprintf(text, sizeof(text), "FIGURE %ld KiB of 2 MiB\n%s\n", kib,
                              enough ? "enough" : "too little");
  return write(1, text, (size_t)length) == length && enough ? 0 : 1;
}
