// SPDX-License-Identifier: MIT
// profiled.c - a program that a heap profile is taken of: some functions keep memory, others free
// all of it; on several threads, in children of fork, and in a library that is loaded late.
//
// It knows nothing of the library: what it allocates comes from malloc. Usage: profiled [LIBRARY]
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define MIB ((size_t)1 << 20)
#define EXPORT __attribute__((noinline, visibility("default")))

static void** kept;

// Allocates `total` bytes in blocks of `size`, which stay.
EXPORT void keep_blocks(size_t total, size_t size) {
  for (size_t i = 0; i < total / size; i++) {
    void** const p = malloc(size);
    if (p == NULL) abort();
    *p = (void*)kept;
    kept = p;
  }
  __asm__ volatile("");
}

EXPORT void keep_small(void) {
  keep_blocks(64 * MIB, 200);
  __asm__ volatile("");
}

EXPORT void keep_large(void) {
  keep_blocks(32 * MIB, 3 * MIB);
  __asm__ volatile("");
}

EXPORT void churn(void) {
  for (size_t i = 0; i < 20000; i++) {
    char* const p = calloc(1, 1000 + i % 1000);
    char* const q = realloc(p, 3000);
    if (q == NULL) abort();
    q[2999] = 1;
    free(q);
  }
  __asm__ volatile("");
}

EXPORT void* work(void* arg) {
  churn();
  keep_blocks(4 * MIB, 1000);
  return arg;
}

int main(int argc, char** argv) {
  pthread_t threads[4];
  for (size_t i = 0; i < 4; i++) {
    if (pthread_create(&threads[i], NULL, &work, NULL) != 0) return 1;
  }
  keep_small();
  keep_large();
  // While the others allocate: each child dumps its own profile when it ends.
  for (int i = 0; i < 3; i++) {
    const pid_t child = fork();
    if (child == 0) {
      keep_blocks(8 * MIB, 5000);
      exit(0);
    }
    int status = 0;
    if (child < 0 || waitpid(child, &status, 0) != child || status != 0) return 2;
  }
  for (size_t i = 0; i < 4; i++) pthread_join(threads[i], NULL);
  if (argc > 1) {
    void* const library = dlopen(argv[1], RTLD_NOW);
    if (library == NULL) {
      fprintf(stderr, "%s\n", dlerror());
      return 3;
    }
    void (*keep)(void (*)(size_t, size_t));
    *(void**)&keep = dlsym(library, "keep_in_plugin");
    if (keep == NULL) return 4;
    keep(&keep_blocks);
  }
  return 0;
}
