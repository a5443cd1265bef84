// SPDX-License-Identifier: MIT
// filtered.c - a sandbox: after a filter that kills the process at every system call but those for
// memory, blocks of all kinds are allocated for the first time, moved and freed.
#define _GNU_SOURCE
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <malloc.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define ALLOW(name)                                                                                \
  BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_##name, 0, 1),                                           \
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)

int main(void) {
  // getrandom: glibc's malloc seeds its cache with it.
  struct sock_filter code[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
      ALLOW(brk),
      ALLOW(mmap),
      ALLOW(munmap),
      ALLOW(mremap),
      ALLOW(madvise),
      ALLOW(mprotect),
      ALLOW(futex),
      ALLOW(getrandom),
      ALLOW(write),
      ALLOW(exit_group),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
  };
  const struct sock_fprog filter = {sizeof(code) / sizeof(code[0]), code};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return 77;
  if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) != 0) return 77;
  for (size_t size = 1; size < (size_t)100 << 20; size = size * 3 / 2 + 1) {
    char* p = malloc(size);
    memset(p, 1, size);
    p = realloc(p, size * 2);
    if (p == NULL || p[size - 1] != 1) _exit(1);
    free(p);
    free(calloc(3, size));
    free(memalign(4096, size));
  }
  malloc_trim(0);
  static const char text[] = "the sandbox held\n";
  _exit(write(1, text, sizeof(text) - 1) > 0 ? 0 : 1);
}
