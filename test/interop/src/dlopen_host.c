// SPDX-License-Identifier: MIT
// dlopen_host.c - a program that loads and unloads the library: dlopen_host MODE FILE PREFIX
// [OTHER...], where FILE is a shared library that has PREFIXmalloc and PREFIXfree, and the others
// are loaded before, if that is possible.
//
// reload: 1,000 times, with threads that end before and after the library goes. Nothing may be left
//   behind: no mapping, no thread key, no function that is called at a fork, an exit or the end of
//   a thread.
// stay: opened in main and never closed. What runs last of all still uses its blocks.
// early: as stay, but opened before any constructor.
// apart: as stay, but opened in a namespace of its own, with a libc of its own.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <limits.h>
#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../lib/check.h"

#define ROUNDS 1000
#define SHORT_THREADS 3

static const char* file;
static const char* prefix;

static struct {
  void* handle;
  void* (*malloc)(size_t size);
  void (*free)(void* p);
} lib;

static void* symbol(const char* name) {
  char full[100];
  snprintf(full, sizeof(full), "%s%s", prefix, name);
  void* const found = dlsym(lib.handle, full);
  if (found == NULL) {
    fprintf(stderr, "%s: no %s\n", file, full);
    exit(100);
  }
  return found;
}

static void open_library(Lmid_t where) {
  lib.handle = dlmopen(where, file, RTLD_NOW | RTLD_LOCAL);
  if (lib.handle == NULL) {
    fprintf(stderr, "%s\n", dlerror());
    exit(100);
  }
  *(void**)&lib.malloc = symbol("malloc");
  *(void**)&lib.free = symbol("free");
}

// -- reload --

// Blocks of many sizes, half of which another thread frees.
#define BLOCKS 100
static void* shared[SHORT_THREADS + 1][BLOCKS];

static void use(size_t who) {
  for (size_t i = 0; i < BLOCKS; i++) {
    const size_t size = (size_t)16 << (i % 12);
    char* const p = (char*)lib.malloc(size);
    memset(p, 1, size);
    shared[who][i] = p;
  }
  for (size_t i = 0; i < BLOCKS; i += 2) lib.free(shared[who][i]);
}

static void free_others(void) {
  for (size_t who = 0; who <= SHORT_THREADS; who++) {
    for (size_t i = 1; i < BLOCKS; i += 2) lib.free(shared[who][i]);
  }
}

static void* short_thread(void* arg) {
  use((size_t)arg);
  return NULL;
}

// Uses the library in each round, and ends when it has gone for the last time.
static pthread_barrier_t barrier;

static void* long_thread(void* arg) {
  for (size_t round = 0; round < ROUNDS; round++) {
    pthread_barrier_wait(&barrier); // the library is loaded
    use((size_t)arg);
    pthread_barrier_wait(&barrier); // and is about to go
  }
  return NULL;
}

// Allocates in one round, and ends when the library has gone.
static pthread_barrier_t one_round;

static void* round_thread(void* arg) {
  lib.free(lib.malloc(*(size_t*)arg));
  pthread_barrier_wait(&one_round);
  pthread_barrier_wait(&one_round);
  return NULL;
}

static void play_round(size_t round) {
  open_library(LM_ID_BASE);
  pthread_t outlives;
  size_t size = 100;
  pthread_create(&outlives, NULL, &round_thread, &size);
  pthread_barrier_wait(&one_round);
  pthread_barrier_wait(&barrier);
  pthread_t thread[SHORT_THREADS];
  for (size_t t = 0; t < SHORT_THREADS; t++) {
    pthread_create(&thread[t], NULL, &short_thread, (void*)t);
  }
  for (size_t t = 0; t < SHORT_THREADS; t++) pthread_join(thread[t], NULL);
  pthread_barrier_wait(&barrier);
  free_others();
  char* const large = (char*)lib.malloc((size_t)3 << 30); // has a mapping of its own
  CHECK(large != NULL);
  large[0] = 1;
  if (round % 2 == 0) lib.free(large);
  CHECK(dlclose(lib.handle) == 0);
  CHECK(dlopen(file, RTLD_NOW | RTLD_NOLOAD) == NULL);
  pthread_barrier_wait(&one_round);
  pthread_join(outlives, NULL);
}

typedef struct mappings_s {
  size_t count;
  size_t bytes;
} mappings_t;

// All but libc's own heap and the stack.
static mappings_t count_mappings(void) {
  mappings_t m = {0, 0};
  char line[1000];
  FILE* const f = fopen("/proc/self/maps", "r");
  while (fgets(line, sizeof(line), f) != NULL) {
    unsigned long start, end;
    if (sscanf(line, "%lx-%lx", &start, &end) != 2) continue;
    if (strstr(line, "[heap]") != NULL || strstr(line, "[stack]") != NULL) continue;
    m.count++;
    m.bytes += end - start;
  }
  fclose(f);
  return m;
}

static size_t count_free_keys(void) {
  static pthread_key_t key[PTHREAD_KEYS_MAX];
  size_t count = 0;
  while (count < PTHREAD_KEYS_MAX && pthread_key_create(&key[count], NULL) == 0) count++;
  for (size_t i = 0; i < count; i++) pthread_key_delete(key[i]);
  return count;
}

static void* wait_for_all(void* arg) {
  pthread_barrier_wait(&barrier);
  return arg;
}

// libc keeps stacks of threads that ended: have them all before anything is counted.
static void warm_up(void) {
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, 256 * 1024); // all of them fit into its cache
  pthread_setattr_default_np(&attributes);
  pthread_t thread[SHORT_THREADS + 2];
  pthread_barrier_init(&barrier, NULL, SHORT_THREADS + 2);
  for (size_t t = 0; t < SHORT_THREADS + 2; t++)
    pthread_create(&thread[t], NULL, &wait_for_all, NULL);
  for (size_t t = 0; t < SHORT_THREADS + 2; t++) pthread_join(thread[t], NULL);
}

static void reload(void) {
  mallopt(M_ARENA_MAX, 1); // libc gives threads no mappings for its own malloc
  warm_up();
  pthread_barrier_init(&barrier, NULL, 2);
  pthread_barrier_init(&one_round, NULL, 2);
  const size_t keys_before = count_free_keys();
  pthread_t lives;
  pthread_create(&lives, NULL, &long_thread, (void*)(size_t)SHORT_THREADS);
  const mappings_t before = count_mappings();
  size_t libc_early = 0;
  for (size_t round = 0; round < ROUNDS; round++) {
    play_round(round);
    if (round == ROUNDS / 10) libc_early = mallinfo2().uordblks;
    const mappings_t now = count_mappings();
    CHECK_SAY(now.count == before.count && now.bytes == before.bytes,
              "round %zu: %zu mappings of %zu bytes, before %zu of %zu", round, now.count,
              now.bytes, before.count, before.bytes);
    const size_t keys = count_free_keys();
    CHECK_SAY(keys == keys_before, "round %zu: %zu free keys, before %zu", round, keys,
              keys_before);
  }
  // What the loader keeps for a library does not grow with the number of rounds: a block in each of
  // them would be more than this. (What it has for threads that are just ending comes and goes.)
  CHECK(mallinfo2().uordblks <= libc_early + 8 * ROUNDS);
  pthread_join(lives, NULL);
  const pid_t child = fork();
  if (child == 0) _exit(7);
  int status = 0;
  CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 7);
}

// -- stay and early --

static char* kept;

static void keep(Lmid_t where) {
  open_library(where);
  kept = (char*)lib.malloc(1000);
  strcpy(kept, "still here\n");
}

// What atexit calls, but for no library: then it is no part of the destructors of one.
extern int __cxa_atexit(void (*fun)(void*), void* arg, void* library);

static void* late_thread(void* arg) {
  lib.free(lib.malloc(100));
  return arg;
}

// Runs behind all destructors.
static void last(void* arg) {
  if (kept == NULL) return;
  write(STDOUT_FILENO, kept, strlen(kept));
  lib.free(kept);
  lib.free(lib.malloc(100000));
  // Nothing of the library is called at the end of a thread any more.
  const size_t keys = count_free_keys();
  pthread_t thread;
  pthread_create(&thread, NULL, &late_thread, arg);
  pthread_join(thread, NULL);
  const size_t keys_after = count_free_keys();
  CHECK_SAY(keys_after == keys, "at the exit: %zu free keys, before a thread %zu", keys_after,
            keys);
}

// Runs before all constructors.
static void first(int argc, char** argv, char** environment) {
  (void)environment;
  if (argc < 4) return;
  file = argv[2];
  prefix = argv[3];
  __cxa_atexit(&last, NULL, NULL);
  if (strcmp(argv[1], "early") == 0) keep(LM_ID_BASE);
}
__attribute__((section(".preinit_array"), used)) static void (*first_of_all)(int, char**,
                                                                             char**) = &first;

int main(int argc, char** argv) {
  if (argc < 4) return 100;
  for (int i = 4; i < argc; i++) (void)dlopen(argv[i], RTLD_NOW | RTLD_LOCAL);
  if (strcmp(argv[1], "reload") == 0) reload();
  if (strcmp(argv[1], "stay") == 0) keep(LM_ID_BASE);
  if (strcmp(argv[1], "apart") == 0) keep(LM_ID_NEWLM);
  return 0;
}
