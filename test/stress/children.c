// SPDX-License-Identifier: MIT
// Children of all kinds, while threads allocate: vfork and exec, posix_spawn from many threads at
// once, popen, and forks of forks, each with threads of its own. If this fails, a program that
// starts others hangs, or what a child does breaks its parent.
#if !defined(_GNU_SOURCE)
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>

#include "load.h"
#include "mimalloc.h"

#define BUSY 4 // threads that allocate all the time
#define STARTERS 8 // threads that start children, all at once
#define ROUNDS ((size_t)12) // of each
#define DEPTH 20 // of children of children
#define TIME_MS 3000
#define KEEP 128

extern char** environ;
// The header of libc that declares it has the name of one of ours.
extern int posix_spawn(pid_t* child, const char* path, const void* actions, const void* attributes,
                       char* const* arguments, char* const* environment);

static load_t load;
static _Atomic(bool) is_done;
static size_t rounds;
static uint64_t deadline_ms;
static _Atomic(size_t) started;

static void* is_busy(void* argument) {
  uint64_t state = load.seed + (uintptr_t)argument;
  void* block[KEEP] = {NULL};
  size_t size[KEEP];
  while (!atomic_load(&is_done)) {
    const size_t i = random_below(&state, KEEP);
    if (block[i] != NULL) load_drop(block[i], size[i]);
    size[i] = 1 + random_below(&state, i % 16 == 0 ? 300000 : 2000);
    block[i] = load_make(size[i]);
    if (i == 0) {
      mi_heap_t* const heap = mi_heap_new();
      CHECK(heap != NULL && mi_heap_malloc(heap, 5000) != NULL);
      mi_heap_destroy(heap);
      load_wait_ms(1);
    }
  }
  for (size_t i = 0; i < KEEP; i++) {
    if (block[i] != NULL) load_drop(block[i], size[i]);
  }
  return NULL;
}

static void wait_for(pid_t child, const char* what) {
  int status = 1;
  pid_t got;
  while ((got = waitpid(child, &status, 0)) < 0 && errno == EINTR) {
  }
  CHECK_SAY(got == child && status == 0, "%s: status %d", what, status);
  atomic_fetch_add(&started, 1);
}

// The program itself, as the child that allocates and ends.
static char* const child_arguments[] = {(char*)"children", (char*)"child", NULL};

static void start_by_spawn(void) {
  pid_t child;
  const int err = posix_spawn(&child, "/proc/self/exe", NULL, NULL, child_arguments, environ);
  CHECK_SAY(err == 0, "posix_spawn: error %d", err);
  wait_for(child, "posix_spawn");
}

static void start_by_vfork(void) {
  const pid_t child = vfork();
  if (child == 0) {
    execve("/proc/self/exe", child_arguments, environ);
    _exit(127);
  }
  CHECK(child > 0);
  wait_for(child, "vfork");
}

static void start_by_popen(void) {
  FILE* const pipe = popen("echo some text", "r");
  CHECK(pipe != NULL);
  char* line = NULL;
  size_t capacity = 0;
  CHECK_SAY(getline(&line, &capacity, pipe) == 10, "what the child of popen printed");
  (free)(line); // of the malloc that libc uses, whichever that is
  CHECK(pclose(pipe) == 0);
  atomic_fetch_add(&started, 1);
}

static void* starts_children(void* argument) {
  for (size_t i = 0; i < rounds && load_now_ms() < deadline_ms; i++) {
    void* const p = load_make(1000 + i);
    load_alive();
    start_by_spawn();
    start_by_vfork();
    start_by_popen();
    load_drop(p, 1000 + i);
  }
  return argument;
}

static void start_busy(pthread_t* thread, size_t count) {
  for (uintptr_t i = 0; i < count; i++) {
    CHECK_SAY(pthread_create(&thread[i], NULL, &is_busy, (void*)i) == 0, "thread %zu", (size_t)i);
  }
}

// The child of a child of ..., each with threads of its own that allocate while it forks.
static _Noreturn void fork_chain(void) {
  for (size_t depth = 1;; depth++) {
    load_alive(); // an alarm is not inherited
    pthread_t thread[2];
    start_busy(thread, 2);
    void* const mine = load_make(100000);
    fflush(stdout);
    const pid_t child = depth < DEPTH ? fork() : 1;
    CHECK_SAY(child >= 0, "fork at depth %zu", depth);
    if (child == 0) {
      load_drop(mine, 100000); // of the parent, whose threads do not exist here
      continue;
    }
    int status = 0;
    CHECK_SAY(depth == DEPTH || (waitpid(child, &status, 0) == child && status == 0),
              "depth %zu: status %d", depth, status);
    atomic_store(&is_done, true);
    for (size_t i = 0; i < 2; i++) pthread_join(thread[i], NULL);
    load_drop(mine, 100000);
    exit(0);
  }
}

static void fork_forks(void) {
  // Threads that start there need the address sanitizer's malloc, which does not survive a fork.
  if (LOAD_IS_SANITIZED) return;
  fflush(stdout);
  const pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) fork_chain();
  wait_for(child, "forks of forks");
  printf("%d children one below the other\n", DEPTH);
}

int main(int argc, char** argv) {
  if (argc > 1 && strcmp(argv[1], "child") == 0) {
    load_drop(load_make(20000), 20000);
    return 0;
  }
  load = load_begin(argc, argv);
  load_skip_with_tsan();
  rounds = load_scale(&load, ROUNDS);
  deadline_ms = load_now_ms() + TIME_MS;
  pthread_t busy[BUSY], starter[STARTERS];
  start_busy(busy, BUSY);
  for (size_t i = 0; i < STARTERS; i++) {
    CHECK(pthread_create(&starter[i], NULL, &starts_children, NULL) == 0);
  }
  for (size_t i = 0; i < STARTERS; i++) pthread_join(starter[i], NULL);
  fork_forks();
  atomic_store(&is_done, true);
  for (size_t i = 0; i < BUSY; i++) pthread_join(busy[i], NULL);
  printf("children %zu\n", atomic_load(&started));
  return 0;
}
