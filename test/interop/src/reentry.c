// SPDX-License-Identifier: MIT
// reentry.c - a program whose callbacks, fork handlers, constructors and destructors allocate. The
// argument says which of them the run is about; "ok" is printed at its end.
#include <errno.h>
#include <mimalloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/wait.h>

#include "reentry.h"

#define FORKS 30
#define THREADS 4

// The compiler must not see what is wrong with a call.
static void (*volatile free_opaque)(void*) = &free;
static void* (*volatile malloc_opaque)(size_t) = &malloc;

static void use_heap(void) {
  mi_heap_t* const heap = mi_heap_new();
  if (heap == NULL || mi_heap_malloc(heap, 100) == NULL || mi_heap_malloc(heap, 100000) == NULL) {
    FAIL("no heap");
  }
  mi_heap_destroy(heap);
}

// Everything a callback may do.
static void do_all(size_t seed) {
  churn(seed);
  use_heap();
  mi_collect(seed % 2 == 0);
}

// -- callbacks --

static _Atomic(size_t) outputs, errors, deferred;
static int not_a_block;

static void on_output(const char* text, void* arg) {
  if (arg != &outputs || text[0] == 0) FAIL("output: argument or text");
  atomic_fetch_add(&outputs, 1);
  do_all(strlen(text));
  char* const copy = strdup(text);
  char line[64];
  snprintf(line, sizeof(line), "%s", copy);
  free(copy);
  free_opaque(&not_a_block); // a message from inside a message is dropped
}

static void on_error(int err, void* arg) {
  if (arg != &errors) FAIL("error: argument");
  atomic_fetch_or(&errors, err == EINVAL ? 1 : err == EAGAIN ? 2 : err == ENOMEM ? 4 : 8);
  do_all((size_t)err);
  free_opaque(&not_a_block); // an error inside the handler is not told
  errno = 1;
}

static void* frees_twice(void* block) {
  free_opaque(block);
  free_opaque(block);
  return NULL;
}

static void make_errors(void) {
  free_opaque(&not_a_block);
  pthread_t thread;
  void* const block = malloc(100);
  if (pthread_create(&thread, NULL, &frees_twice, block) != 0) FAIL("a thread");
  pthread_join(thread, NULL);
  errno = 0;
  if (malloc_opaque((size_t)1 << 50) != NULL || errno != ENOMEM) FAIL("a petabyte");
  if (malloc_opaque(SIZE_MAX / 2 + 100) != NULL || errno != ENOMEM) FAIL("half of everything");
}

static void test_output(void) {
  mi_option_enable(mi_option_verbose);
  mi_register_output(&on_output, (void*)&outputs);
  make_errors();
  mi_stats_print(NULL);
  mi_options_print();
  do_all(1);
  mi_register_output(NULL, NULL);
  mi_option_disable(mi_option_verbose);
  if (atomic_load(&outputs) < 20) FAIL("output: too few calls");
}

static void test_error(void) {
  mi_register_error(&on_error, (void*)&errors);
  make_errors();
  mi_register_error(NULL, NULL);
  if (atomic_load(&errors) != 15) FAIL("error: not every kind was told");
}

static void on_deferred(bool is_forced, unsigned long long heartbeat, void* arg) {
  if (arg != &deferred) FAIL("deferred: argument");
  atomic_fetch_add(&deferred, 1);
  do_all((size_t)heartbeat);
  mi_collect(is_forced);
}

static void* allocates(void* argument) {
  for (size_t i = 0; i < 100; i++) do_all(i);
  return argument;
}

static void test_deferred(void) {
  mi_register_deferred_free(&on_deferred, (void*)&deferred);
  pthread_t thread[THREADS];
  for (size_t i = 0; i < THREADS; i++) {
    if (pthread_create(&thread[i], NULL, &allocates, NULL) != 0) FAIL("a thread");
  }
  for (size_t i = 0; i < THREADS; i++) pthread_join(thread[i], NULL);
  mi_register_deferred_free(NULL, NULL);
  if (atomic_load(&deferred) < 100) FAIL("deferred: too few calls");
}

// -- fork handlers --

static int late_prepared, late_in_parent, late_in_child;

static void prepare(void) {
  late_prepared++;
  do_all(1);
}

static void in_parent(void) {
  late_in_parent++;
  do_all(2);
}

static void in_child(void) {
  late_in_child++;
  do_all(3);
}

static _Atomic(bool) is_done;

static void* allocates_all_the_time(void* argument) {
  for (size_t i = 0; !atomic_load(&is_done); i++) do_all(i);
  return argument;
}

static void test_fork(void) {
  pthread_t thread[THREADS];
  if (pthread_atfork(&prepare, &in_parent, &in_child) != 0) FAIL("pthread_atfork");
  for (size_t i = 0; i < THREADS; i++) {
    if (pthread_create(&thread[i], NULL, &allocates_all_the_time, NULL) != 0) FAIL("a thread");
  }
  for (int i = 1; i <= FORKS; i++) {
    alarm(60);
    const pid_t child = fork();
    if (child == 0) {
      alarm(60);
      if (late_in_child != 1 || early_in_child != 1) FAIL("handlers in the child");
      do_all(4);
      _exit(0);
    }
    int status = 1;
    if (waitpid(child, &status, 0) != child || status != 0) FAIL("a child");
    if (late_prepared != i || late_in_parent != i) FAIL("handlers of the program");
    if (early_prepared != i || early_in_parent != i) FAIL("handlers of the library");
  }
  atomic_store(&is_done, true);
  for (size_t i = 0; i < THREADS; i++) pthread_join(thread[i], NULL);
}

// -- before and after main: in every run --

static unsigned char* before_main;

__attribute__((constructor(101))) static void begin(void) {
  do_all(6);
  before_main = (unsigned char*)malloc(777);
  before_main[776] = 9;
}

static void at_exit(void) { do_all(7); }

__attribute__((destructor(101))) static void end(void) {
  if (before_main[776] != 9) FAIL("a block has changed");
  free(before_main);
  do_all(8);
}

int main(int argc, char** argv) {
  const char* const what = argc > 1 ? argv[1] : "";
  alarm(100);
  atexit(&at_exit);
  if (!mi_is_in_heap_region(before_main)) FAIL("malloc is not ours");
  if (strcmp(what, "output") == 0) test_output();
  if (strcmp(what, "error") == 0) test_error();
  if (strcmp(what, "deferred") == 0) test_deferred();
  if (strcmp(what, "fork") == 0) test_fork();
  do_all(9);
  puts("ok");
  return 0;
}
