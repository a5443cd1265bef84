// SPDX-License-Identifier: MIT
// fork_handlers.c - a library that ends its thread before a fork and creates it again after it, in
// parent and child, by handlers that it registers before those of ours:
// fork_handlers MODE [JOIN], where JOIN is the function by which it joins: pthread_join, if none is
// given, thrd_join, pthread_tryjoin_np, pthread_timedjoin_np or pthread_clockjoin_np.
//
//   allocates  the thread allocates and frees
//   frees      in the child the thread frees what a thread of the parent had allocated, while the
//              first one allocates
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <threads.h>
#include <time.h>
#include <unistd.h>

#include "../../lib/check.h"

#define FORKS 10
#define BLOCKS 40000
#define SIZE 3000
#define LARGE 20 // blocks
#define TIME_S 20 // a process that hangs is ended by a signal

static unsigned char* block[BLOCKS]; // of a thread that no child has
static pthread_t thread;
static thrd_t c11_thread; // in its place, for thrd_join
static const char* way = "pthread_join";
static atomic_bool is_wanted, frees;
static atomic_int rounds; // that the thread has done

static int is_by(const char* name) { return strcmp(way, name) == 0; }

static void* work(void* arg) {
  if (atomic_load(&frees)) {
    for (size_t i = 0; i < BLOCKS; i++) {
      CHECK(block[i][0] == (unsigned char)i && block[i][SIZE - 1] == (unsigned char)i);
      if (i % 8 != 0) free(block[i]);
    }
  }
  char* kept = NULL;
  do {
    char* const p = malloc(1000);
    CHECK(p != NULL);
    memset(p, 1, 1000);
    free(kept);
    kept = p;
    atomic_fetch_add(&rounds, 1);
    usleep(100);
  } while (atomic_load(&is_wanted));
  free(kept);
  // So large that it takes our locks.
  static void* large[LARGE];
  for (size_t i = 0; i < LARGE; i++) CHECK((large[i] = malloc(2000000)) != NULL);
  for (size_t i = 0; i < LARGE; i++) free(large[i]);
  return arg;
}

static int work_c11(void* arg) { return work(arg) != NULL; }

static void start(void) {
  atomic_store(&is_wanted, true);
  if (is_by("thrd_join")) {
    CHECK(thrd_create(&c11_thread, &work_c11, NULL) == thrd_success);
  } else {
    CHECK(pthread_create(&thread, NULL, &work, NULL) == 0);
  }
}

static int join(void) {
  const clockid_t clock = is_by("pthread_clockjoin_np") ? CLOCK_MONOTONIC : CLOCK_REALTIME;
  struct timespec end;
  CHECK(clock_gettime(clock, &end) == 0);
  end.tv_sec += TIME_S;
  if (is_by("thrd_join")) return thrd_join(c11_thread, NULL) == thrd_success ? 0 : EINVAL;
  if (is_by("pthread_tryjoin_np")) return pthread_tryjoin_np(thread, NULL);
  if (is_by("pthread_timedjoin_np")) return pthread_timedjoin_np(thread, NULL, &end);
  if (is_by("pthread_clockjoin_np")) return pthread_clockjoin_np(thread, NULL, clock, &end);
  return pthread_join(thread, NULL);
}

static void stop(void) {
  atomic_store(&is_wanted, false);
  int error;
  do error = join();
  while (error == EBUSY && is_by("pthread_tryjoin_np"));
  CHECK(error == 0);
}

static void in_child(void) {
  if (block[0] != NULL) atomic_store(&frees, true);
  atomic_store(&rounds, 0);
  start();
  usleep(300); // it has begun when other handlers run
}

static void register_handlers(void) { CHECK(pthread_atfork(&stop, &start, &in_child) == 0); }

// Before all constructors of libraries, of which ours registers its own.
static void (*const first)(void)
    __attribute__((section(".preinit_array"), used)) = &register_handlers;

static void* fill(void* done) {
  for (size_t i = 0; i < BLOCKS; i++) {
    block[i] = malloc(SIZE);
    CHECK(block[i] != NULL);
    memset(block[i], (int)(unsigned char)i, SIZE);
  }
  atomic_store((atomic_bool*)done, true);
  for (;;) pause();
}

static void child(void) {
  alarm(TIME_S);
  static unsigned char* own[BLOCKS / 4];
  for (size_t i = 0; i < BLOCKS / 4; i++) {
    own[i] = malloc(SIZE);
    CHECK(own[i] != NULL);
    memset(own[i], 0xAA, SIZE);
  }
  while (atomic_load(&rounds) < 10) usleep(100);
  stop();
  for (size_t i = 0; i < BLOCKS / 4; i++) {
    for (size_t k = 0; k < SIZE; k++) CHECK(own[i][k] == 0xAA);
    free(own[i]);
  }
  for (size_t i = 0; block[0] != NULL && i < BLOCKS; i += 8) {
    CHECK(block[i][0] == (unsigned char)i && block[i][SIZE - 1] == (unsigned char)i);
    free(block[i]);
  }
  _exit(0);
}

int main(int argc, char** argv) {
  static atomic_bool is_filled;
  if (argc > 2) way = argv[2];
  alarm(10 * TIME_S);
  start();
  if (argc > 1 && strcmp(argv[1], "frees") == 0) {
    pthread_t owner;
    CHECK(pthread_create(&owner, NULL, &fill, &is_filled) == 0);
    while (!atomic_load(&is_filled)) usleep(1000);
  }
  for (int i = 0; i < FORKS; i++) {
    const pid_t process = fork();
    CHECK(process >= 0);
    if (process == 0) child();
    int status;
    CHECK(waitpid(process, &status, 0) == process);
    CHECK(status == 0);
  }
  stop();
  puts("done");
  return 0;
}
