// SPDX-License-Identifier: MIT
// inspected.c - a program that knows its heap exactly, and does what it is told on its standard
// input: what mimalloc-inspect says of it is compared with what it says itself. Each group of
// blocks has a size of its own, which shares no class with others, and for which libc hardly asks.
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <mimalloc.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static char* shared[1001];
static char* sparse[2000];
static char* later[4000];
static char* current[33];
static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t turned = PTHREAD_COND_INITIALIZER;
static int step;
static volatile int is_over;
static volatile sig_atomic_t signals;

static void count_signal(int number) {
  (void)number;
  signals++;
}

static void go_to(int to) {
  pthread_mutex_lock(&turn);
  step = to;
  pthread_cond_broadcast(&turned);
  pthread_mutex_unlock(&turn);
}

static void wait_for(int what) {
  pthread_mutex_lock(&turn);
  while (step < what) pthread_cond_wait(&turned, &turn);
  pthread_mutex_unlock(&turn);
}

static char* filled(char* p, size_t size) {
  if (p == NULL) exit(3);
  return memset(p, 1, size);
}

static void say(const char* what, const char* heap, const char* thread, size_t size, size_t count) {
  printf("%s %s %s %zu %zu\n", what, heap, thread, size, count);
}

// Allocates 123 blocks, and frees 101 of another thread.
static void* worker(void* arg) {
  (void)arg;
  prctl(PR_SET_NAME, "worker");
  for (int i = 0; i < 123; i++) filled(malloc(110), 110);
  go_to(1);
  wait_for(2);
  for (int i = 0; i < 101; i++) free(shared[5 * i]);
  for (int i = 0; i < 5; i++) free(current[i]);
  mi_collect(false); // what it still collects for the other thread is delivered, and waits there
  go_to(3);
  wait_for(4);
  return NULL;
}

static void* leaver(void* arg) {
  (void)arg;
  for (int i = 0; i < 57; i++) filled(malloc(90), 90);
  return NULL;
}

// Allocates and frees without a pause.
static void* busy(void* arg) {
  char* held[512] = {0};
  unsigned seed = (unsigned)(size_t)arg;
  while (!is_over) {
    seed = seed * 1664525 + 1013904223;
    char** const at = &held[seed >> 23];
    free(*at);
    *at = malloc((seed >> 8) % 3000 + 1);
    if (*at != NULL) (*at)[0] = 1;
  }
  return NULL;
}

__attribute__((noinline)) static char* asked_here(size_t size) {
  return filled(malloc(size), size);
}

static void build_heap(void) {
  for (size_t i = 0; i < COUNT(shared); i++) shared[i] = filled(malloc(250), 250);
  pthread_t thread, other;
  if (pthread_create(&thread, NULL, &worker, NULL) != 0) exit(2);
  wait_for(1);
  say("worker", "main", "worker", 110, 123);
  if (pthread_create(&other, NULL, &leaver, NULL) != 0) exit(2);
  pthread_join(other, NULL);
  say("left", "main", "-", 90, 57);
  mi_heap_t* const heap = mi_heap_new();
  mi_heap_t* const empty = mi_heap_new();
  for (int i = 0; i < 311; i++) filled(mi_heap_malloc(heap, 4000), 4000);
  say("heap", "1", "first", 4000, 311);
  mi_heap_delete(empty);
  for (int i = 0; i < 5; i++) filled(malloc(3000000 + (size_t)i), 3000000);
  say("large", "main", "-", 0, 5);
  // Most of these are free, and the memory between the others goes back: holes.
  for (size_t i = 0; i < COUNT(sparse); i++) sparse[i] = filled(malloc(8000), 8000);
  for (size_t i = 0; i < COUNT(sparse); i++) {
    if (i % 50 != 0) free(sparse[i]);
  }
  mi_collect(true);
  say("sparse", "main", "first", 8000, COUNT(sparse) / 50);
  // In a page that this thread allocates from, and another frees into.
  for (size_t i = 0; i < COUNT(current); i++) current[i] = filled(malloc(500), 500);
  free(current[20]);
  free(current[21]);
  go_to(2);
  wait_for(3);
  say("current", "main", "first", 500, COUNT(current) - 7);
  say("shared", "main", "first", 250, COUNT(shared) - 101);
}

static void print(const char* text, void* arg) {
  (void)arg;
  fputs(text, stdout);
}

int main(void) {
  char line[100];
  sigset_t counted; // by this thread alone
  sigemptyset(&counted);
  sigaddset(&counted, SIGRTMIN);
  sigaction(SIGRTMIN, &(struct sigaction){.sa_handler = &count_signal, .sa_flags = SA_RESTART},
            NULL);
  pthread_sigmask(SIG_BLOCK, &counted, NULL);
  build_heap();
  pthread_sigmask(SIG_UNBLOCK, &counted, NULL);
  static char input[4096]; // nothing is allocated after "done"
  setvbuf(stdin, input, _IOFBF, sizeof(input));
  printf("done\n");
  fflush(stdout);
  while (fgets(line, sizeof(line), stdin) != NULL) {
    if (strcmp(line, "grow\n") == 0) {
      for (size_t i = 0; i < COUNT(later); i++) later[i] = asked_here(2000);
    } else if (strcmp(line, "shrink\n") == 0) {
      for (size_t i = 0; i < COUNT(later); i++) free(later[i]);
    } else if (strcmp(line, "collect\n") == 0) {
      mi_collect(true);
    } else if (strcmp(line, "busy\n") == 0) {
      pthread_t thread;
      for (size_t i = 1; i <= 2; i++) {
        if (pthread_create(&thread, NULL, &busy, (void*)i) != 0) return 2;
      }
    } else if (strcmp(line, "signals\n") == 0) {
      printf("%d\n", (int)signals);
    } else if (strcmp(line, "hide\n") == 0) {
      prctl(PR_SET_DUMPABLE, 0);
    } else if (strcmp(line, "explain\n") == 0) {
      mi_explain(&print, NULL);
    } else if (strcmp(line, "fork\n") == 0) { // the child has what the parent has, and waits
      const pid_t child = fork();
      if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (;;) pause();
      }
      printf("%d\n", (int)child);
    } else if (strcmp(line, "touch\n") == 0) { // reads 32 MiB that were never written
      char* const p = calloc(1, 32 << 20);
      unsigned sum = 0;
      for (size_t i = 0; i < 32 << 20; i += 4096) sum += ((volatile char*)p)[i];
      if (sum != 0) return 4;
      // Memory of the program's own, so that what counts wrongly is not more than the process has.
      memset(mmap(NULL, 40 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), 1,
             40 << 20);
    }
    printf("done\n");
    fflush(stdout);
  }
  return 0;
}
