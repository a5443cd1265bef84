// SPDX-License-Identifier: MIT
// Destructors of threads and of the process allocate and free after the allocator's own ran. If
// this fails, programs crash while they end, or every thread that ends leaves memory behind.
#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>

#include "load.h"

#define ROUNDS 3 // of destructors for a key; libc promises four
#define KEYS 6
#define THREADS ((size_t)4000)
#define TIME_MS 5000
#define GROWTH_MAX (4 * LOAD_MIB)

typedef struct {
  unsigned round;
  size_t size;
  void* block;
} late_t;

static pthread_key_t key[KEYS];
static _Atomic(size_t) late_calls;
static load_t load;
static void* early_block; // made before main, freed after it
static _Thread_local void* thread_block;

// Frees what the thread or the round before allocated, and allocates again.
static void on_thread_end(void* value) {
  late_t* const late = (late_t*)value;
  atomic_fetch_add(&late_calls, 1);
  load_drop(late->block, late->size);
  if (late->round == 0 && thread_block != NULL) {
    free(thread_block);
    thread_block = NULL;
  }
  if (++late->round == ROUNDS) {
    free(late);
    return;
  }
  late->size = late->size * 3 + 1;
  late->block = load_make(late->size);
  for (size_t i = 0; i < KEYS; i++) {
    if (pthread_getspecific(key[i]) == NULL) {
      pthread_setspecific(key[i], late); // one more round, under any of the keys
      return;
    }
  }
  free(late->block);
  free(late);
}

static void* work(void* argument) {
  const size_t number = (uintptr_t)argument;
  for (size_t i = 0; i < KEYS / 2; i++) {
    late_t* const late = (late_t*)load_make(sizeof(late_t));
    *late = (late_t){0, 24 + (number * 7 + i * 331) % 3000, NULL};
    late->block = load_make(late->size);
    pthread_setspecific(key[(number + i * 2) % KEYS], late);
  }
  thread_block = load_make(100);
  return NULL;
}

static pthread_key_t only_key; // of threads whose first allocation is in its destructor

static void on_only_end(void* value) {
  (void)value;
  load_drop(load_make(300), 300);
}

static void* only_late_thread(void* argument) {
  pthread_setspecific(only_key, argument);
  return NULL;
}

static void at_exit(void) { load_drop(load_make(5000), 5000); }

__attribute__((constructor)) static void before_main(void) { early_block = load_make(777); }

__attribute__((destructor)) static void after_main(void) {
  load_drop(early_block, 777);
  load_drop(load_make(200000), 200000);
  load_drop(load_make(3000000), 3000000);
}

static void* never_ends(void* argument) {
  uint64_t state = (uintptr_t)argument;
  while (true) {
    const size_t size = 1 + random_below(&state, 5000);
    load_drop(load_make(size), size);
  }
  return NULL;
}

static void* exits(void* argument) {
  load_wait_ms(2);
  load_drop(load_make(1000), 1000);
  exit(0);
  return argument;
}

static void at_quick_exit_handler(void) { load_drop(load_make(6000), 6000); }

// A child that ends in the way `how` while detached threads go on allocating.
static int exit_with_threads(const char* how) {
  pthread_attr_t detached;
  pthread_attr_init(&detached);
  pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
  pthread_t thread;
  alarm(60);
  atexit(&at_exit);
  at_quick_exit(&at_quick_exit_handler);
  const bool is_by_thread = strcmp(how, "thread") == 0 || strcmp(how, "pthread_exit") == 0;
  for (uintptr_t i = 0; i < 4; i++) {
    void* (*const work)(void*) = i == 0 && is_by_thread ? &exits : &never_ends;
    CHECK(pthread_create(&thread, &detached, work, (void*)i) == 0);
  }
  if (strcmp(how, "thread") == 0) never_ends(NULL);
  if (strcmp(how, "pthread_exit") == 0) pthread_exit(NULL);
  load_wait_ms(2);
  if (strcmp(how, "exit") == 0) exit(0);
  if (strcmp(how, "quick_exit") == 0) quick_exit(0);
  if (strcmp(how, "_exit") == 0) _exit(0);
  CHECK_SAY(strcmp(how, "return") == 0, "no such way to end: %s", how);
  return 0;
}

static const char* const ways[] = {"return", "exit",   "quick_exit",
                                   "_exit",  "thread", "pthread_exit"};
#define WAYS (sizeof(ways) / sizeof(ways[0]))

static size_t run_threads(size_t first, size_t count, uint64_t deadline_ms) {
  size_t done = 0;
  for (; done < count && load_now_ms() < deadline_ms; done += 2) {
    pthread_t thread[2];
    CHECK(pthread_create(&thread[0], NULL, &work, (void*)(first + done)) == 0);
    CHECK(pthread_create(&thread[1], NULL, &only_late_thread, (void*)1) == 0);
    for (size_t i = 0; i < 2; i++) pthread_join(thread[i], NULL);
  }
  return done;
}

int main(int argc, char** argv) {
  if (argc > 2 && strcmp(argv[1], "detached") == 0) return exit_with_threads(argv[2]);
  load = load_begin(argc, argv);
  atexit(&at_exit);
  // Keys made before and after the allocator has made its own, which it does with the first thread.
  for (size_t i = 0; i < KEYS; i++) CHECK(pthread_key_create(&key[i], &on_thread_end) == 0);
  CHECK(pthread_key_create(&only_key, &on_only_end) == 0);
  const size_t count = load_scale(&load, THREADS);
  const uint64_t deadline_ms = load_now_ms() + TIME_MS;
  const size_t warm = run_threads(0, count / 8, deadline_ms);
  const size_t before = load_rss();
  const size_t more = run_threads(warm, count - count / 8, deadline_ms);
  const size_t after = load_rss();
  printf("threads %zu, late calls %zu: resident %zu KiB, then %zu KiB\n", warm + more,
         atomic_load(&late_calls), before / LOAD_KIB, after / LOAD_KIB);
  CHECK_SAY(atomic_load(&late_calls) >= (warm + more) / 2, "destructors ran");
  CHECK_SAY(after <= before + load_bound(GROWTH_MAX), "grew by %zu KiB",
            (after - before) / LOAD_KIB);
  for (size_t i = 0; i < 4 * WAYS; i++) {
    fflush(stdout);
    load_alive();
    const char* const way = ways[i % WAYS];
    const pid_t child = fork();
    if (child == 0) {
      execl("/proc/self/exe", argv[0], "detached", way, (char*)NULL);
      _exit(127);
    }
    int status = 1;
    CHECK_SAY(waitpid(child, &status, 0) == child && status == 0, "detached, %s: status %d", way,
              status);
  }
  return 0;
}
