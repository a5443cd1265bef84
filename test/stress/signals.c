// SPDX-License-Identifier: MIT
// A signal comes up to a thousand times a second, and its handler forks a child that calls exec,
// whatever the thread was doing: in a process with one thread, and in one with several. If this
// fails, a program that starts a helper from a signal handler (a crash reporter, a debugger) hangs
// now and then for ever: fork runs our handlers, and the thread may be inside one of our locks.
#if !defined(_GNU_SOURCE)
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <time.h>

#include "load.h"
#include "mimalloc.h"

#define THREADS 4
#define SIGNALS ((size_t)1000) // with one thread, and again with several
#define TIME_MS 2000
#define PERIOD_US ((size_t)1000)
#define KEEP 64

static load_t load;
static _Atomic(bool) is_done;
static _Atomic(size_t) handled, failed;
static char self[4096];
static timer_t timer;

// The next signal, a time after the handler of the last one that is another each time: what is
// interrupted would never go on if signals came at a fixed rate that is too high for the machine.
static void start_timer(void) {
  const size_t us = PERIOD_US / 10 + atomic_load(&handled) * 37 % PERIOD_US;
  const struct itimerspec once = {{0, 0}, {0, (long)us * 1000}};
  if (timer_settime(timer, 0, &once, NULL) != 0) atomic_fetch_add(&failed, 1);
}

// Only calls that POSIX permits in a signal handler, and fork.
static void on_signal(int number) {
  (void)number;
  const int saved_errno = errno;
  const pid_t child = fork();
  if (child == 0) {
    execl(self, "signals", "child", (char*)NULL);
    _exit(127);
  }
  int status = 1;
  pid_t got;
  while ((got = waitpid(child, &status, 0)) < 0 && errno == EINTR) {
  }
  if (child < 0 || got != child || status != 0) atomic_fetch_add(&failed, 1);
  atomic_fetch_add(&handled, 1);
  start_timer();
  errno = saved_errno;
}

// Calls that spend their time inside locks: heaps and theaps, memory from the system, and all of it
// back.
static void work(uint64_t* state, void** block) {
  const size_t i = random_below(state, KEEP);
  free(block[i]);
  const size_t size = 1 + random_below(state, i % 4 == 0 ? 4 * LOAD_MIB : 3000);
  block[i] = malloc(size);
  CHECK_SAY(block[i] != NULL, "no memory for %zu bytes", size);
  memset(block[i], 1, size < 1000 ? size : 1000);
  mi_heap_t* const heap = mi_heap_new();
  CHECK(heap != NULL && mi_heap_malloc(heap, 100) != NULL);
  mi_heap_destroy(heap);
  if (i % 8 == 0) mi_collect(true);
}

static void allow_signal(int how) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGUSR1);
  pthread_sigmask(how, &set, NULL);
}

static void* run(void* argument) {
  allow_signal(SIG_UNBLOCK);
  uint64_t state = load.seed + (uintptr_t)argument;
  void* block[KEEP] = {NULL};
  while (!atomic_load(&is_done)) work(&state, block);
  for (size_t i = 0; i < KEEP; i++) free(block[i]);
  return NULL;
}

static size_t end_of_phase(size_t wanted, uint64_t deadline_ms) {
  load_alive();
  return atomic_load(&handled) >= wanted || load_now_ms() >= deadline_ms;
}

static void run_alone(size_t wanted) {
  uint64_t state = load.seed;
  void* block[KEEP] = {NULL};
  const uint64_t deadline_ms = load_now_ms() + TIME_MS;
  while (!end_of_phase(wanted, deadline_ms)) work(&state, block);
  for (size_t i = 0; i < KEEP; i++) free(block[i]);
}

// The signal goes to any of the threads that work.
static void run_with_threads(size_t wanted) {
  allow_signal(SIG_BLOCK);
  pthread_t thread[THREADS];
  for (uintptr_t i = 0; i < THREADS; i++) {
    CHECK_SAY(pthread_create(&thread[i], NULL, &run, (void*)i) == 0, "thread %zu", (size_t)i);
  }
  const uint64_t deadline_ms = load_now_ms() + TIME_MS;
  while (!end_of_phase(wanted, deadline_ms)) load_wait_ms(10);
  atomic_store(&is_done, true);
  for (size_t i = 0; i < THREADS; i++) pthread_join(thread[i], NULL);
}

int main(int argc, char** argv) {
  if (argc > 1 && strcmp(argv[1], "child") == 0) return 0;
  load = load_begin(argc, argv);
  load_skip_with_tsan();
  CHECK_SAY(readlink("/proc/self/exe", self, sizeof(self) - 1) > 0, "the file of this program");
  const struct sigaction action = {.sa_handler = &on_signal, .sa_flags = SA_RESTART};
  sigaction(SIGUSR1, &action, NULL);
  struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1};
  CHECK_SAY(timer_create(CLOCK_MONOTONIC, &event, &timer) == 0, "timer: error %d", errno);
  start_timer();
  const size_t wanted = load_scale(&load, SIGNALS);
  run_alone(wanted);
  const size_t alone = atomic_load(&handled);
  run_with_threads(alone + wanted);
  allow_signal(SIG_BLOCK);
  printf("signals %zu with one thread, %zu with %d\n", alone, atomic_load(&handled) - alone,
         THREADS);
  CHECK_SAY(atomic_load(&failed) == 0, "%zu children did not run", atomic_load(&failed));
  CHECK_SAY(alone > 0 && atomic_load(&handled) > alone, "no signal came");
  return 0;
}
