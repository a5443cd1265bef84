// SPDX-License-Identifier: MIT
// limited.c - what a program does near the limit of its container: test_budget.py runs it there.
//
//   limited change        blocks of other sizes, phase by phase, more of them each time, until the
//                         process is killed: prints the MiB in use when they are more than ever
//   limited replace MIB   a heap of so many MiB, of which a tenth is freed, and allocated again in
//                         blocks of other sizes, again and again: prints the MiB it has at the end
//   limited grow MIB      blocks of all sizes, of so many MiB: prints them
//   limited room MIB      the same, and prints the MiB that are left, "no limit" if there is none
//   limited sandbox MIB   the same in a sandbox that kills the program if it opens a file
//   limited vfork MIB     "grow", after a child of a vfork has got ready for a sandbox
#define _GNU_SOURCE
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define MIB ((size_t)1 << 20)
#define BLOCKS_MAX 4000000

static char* blocks[BLOCKS_MAX];
static size_t sizes[BLOCKS_MAX];
static size_t count;
static size_t live; // bytes

static uint64_t random_next(void) {
  static uint64_t state = 88172645463325252U;
  state ^= state << 13;
  state ^= state >> 7;
  state ^= state << 17;
  return state;
}

static void say(size_t mib) {
  char text[32];
  const int length = snprintf(text, sizeof(text), "%zu\n", mib);
  if (write(STDOUT_FILENO, text, (size_t)length) != length) _exit(1);
}

// Allocate a block of `low` to `high` bytes, which is filled. Returns its size.
static size_t make(char** p, size_t low, size_t high) {
  const size_t size = low + random_next() % (high - low);
  *p = malloc(size);
  if (*p == NULL) _exit(1);
  memset(*p, 1, size);
  live += size;
  return size;
}

static void add(size_t bytes, size_t low, size_t high) {
  for (size_t end = live + bytes; live < end; count++) {
    if (count == BLOCKS_MAX) _exit(1);
    sizes[count] = make(&blocks[count], low, high);
  }
}

static void drop(size_t i) {
  live -= sizes[i];
  free(blocks[i]);
  blocks[i] = blocks[--count];
  sizes[i] = sizes[count];
}

static void change(void) {
  size_t most = 0;
  for (size_t phase = 0;; phase++) {
    const size_t low = (size_t)16 << phase * 3 % 8;
    for (size_t k = 0; k < 24; k++) {
      add(MIB, low, 8 * low);
      if (live / MIB > most) say(most = live / MIB);
    }
    for (size_t i = count; i-- > 0;) {
      if (random_next() % 100 < 60) drop(i);
    }
    char* stays;
    for (size_t end = live + 3 * MIB; live < end;) make(&stays, 64, 2000);
  }
}

static void replace(size_t mib) {
  add(mib * MIB, 2000, 60000);
  for (size_t round = 0; round < 10; round++) {
    for (size_t left = count / 10; left > 0; left--) drop(random_next() % count);
    add(mib * MIB - live, 2000, 60000);
  }
  say(live / MIB);
}

static void enter_sandbox(void) {
  struct sock_filter code[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const struct sock_fprog filter = {sizeof(code) / sizeof(code[0]), code};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) _exit(77);
  if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &filter) != 0) _exit(77);
}

// Before it would run another program there.
static void have_child_in_sandbox(void) {
  const pid_t child = vfork();
  if (child == 0) {
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    _exit(0);
  }
  waitpid(child, NULL, 0);
}

// As mi_metrics says, if the program runs with the library.
extern size_t mi_metrics(int format, char* buffer, size_t size) __attribute__((weak));

static void say_room(void) {
  static char text[1 << 16];
  if (mi_metrics == NULL || mi_metrics(0, text, sizeof(text)) >= sizeof(text)) _exit(1);
  const char* const line = strstr(text, "\nmimalloc_room_bytes ");
  if (line != NULL) {
    say((size_t)strtoull(line + 21, NULL, 10) / MIB);
  } else {
    puts("no limit");
  }
}

int main(int argc, char** argv) {
  const char* const what = argc > 1 ? argv[1] : "";
  const size_t mib = argc > 2 ? (size_t)atoi(argv[2]) : 0;
  if (strcmp(what, "change") == 0) change();
  if (strcmp(what, "replace") == 0) replace(mib);
  if (strcmp(what, "sandbox") == 0) enter_sandbox();
  if (strcmp(what, "vfork") == 0) have_child_in_sandbox();
  if (strcmp(what, "change") != 0 && strcmp(what, "replace") != 0) {
    add(mib * MIB, 16, 100000);
    say(live / MIB);
  }
  if (strcmp(what, "room") == 0) say_room();
  return 0;
}
