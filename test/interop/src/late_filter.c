// A program that makes blocks with guards, and then enters a sandbox that refuses to take them away
// again: a filter of system calls that knows the advice of older kernels only. Prints "went on".
#define _GNU_SOURCE
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include <mimalloc.h>

#define GUARDED 400
#define LATER 4000
#define ADVICE_OF_GUARDS 102 // MADV_GUARD_INSTALL, and one more to remove them

static int enter_sandbox(void) {
  struct sock_filter code[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_madvise, 0, 3),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[2])),
      BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, ADVICE_OF_GUARDS, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  struct sock_fprog program = {sizeof(code) / sizeof(code[0]), code};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) == 0;
}

int main(void) {
  static char* block[LATER];
  mi_option_set(mi_option_guarded_sample_rate, 1);
  for (int i = 0; i < GUARDED; i++) block[i] = mi_malloc(100);
  mi_option_set(mi_option_guarded_sample_rate, 0);
  if (!enter_sandbox()) return 2;
  for (int i = 0; i < GUARDED; i++) mi_free(block[i]);
  mi_collect(true);
  for (int i = 0; i < LATER; i++) { // what had guards is used again
    const size_t size = i % 2 ? 60000 : 200000;
    block[i] = mi_malloc(size);
    if (block[i] == NULL) return 3;
    memset(block[i], 1, size);
  }
  puts("went on");
  return 0;
}
