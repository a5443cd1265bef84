// SPDX-License-Identifier: MIT
// startup.c - starts small processes one after another; each allocates ten blocks and ends.
//
// Published: nowhere; it is what a build or a shell script does all day.
// Asks of an allocator: to be ready with little work: few system calls, few relocations, few pages
// touched in its own data, nothing mapped that is not needed, and nothing to do at exit.
// The processes are this program with `--child`; the environment is inherited, and with it what is
// preloaded. `ops` is the number of processes. Most of the time belongs to the kernel and the
// loader.
#include "bench.h"
#include <spawn.h>
#include <sys/wait.h>

#define STARTUP_BLOCKS 10

extern char** environ;

static int startup_child(void) {
  unsigned char* blocks[STARTUP_BLOCKS];
  for (size_t i = 0; i < STARTUP_BLOCKS; i++) {
    const size_t size = (size_t)16 << i;
    blocks[i] = (unsigned char*)bench_malloc(size);
    bench_mark(blocks[i], size, i);
  }
  for (size_t i = 0; i < STARTUP_BLOCKS; i++) {
    bench_verify(blocks[i], (size_t)16 << i, i);
    free(blocks[i]);
  }
  return 0;
}

int main(int argc, char** argv) {
  if (argc == 2 && strcmp(argv[1], "--child") == 0) return startup_child();
  const bench_args_t args = bench_parse(argc, argv);
  if (args.rest != argc) bench_fail("there are no options of its own");

  const size_t count = bench_pick(args, 10, 400, 1000);
  uint64_t check = 0;
  for (size_t i = 0; i < count; i++) {
    char* const child[] = {argv[0], (char[]){"--child"}, NULL};
    pid_t pid;
    int status;
    if (posix_spawnp(&pid, argv[0], NULL, NULL, child, environ) != 0) {
      bench_fail("a process could not be started");
    }
    if (waitpid(pid, &status, 0) != pid || !WIFEXITED(status) || WEXITSTATUS(status) != 0) {
      bench_fail("a process did not end well");
    }
    check += i;
  }
  bench_report(check, count);
  return 0;
}
