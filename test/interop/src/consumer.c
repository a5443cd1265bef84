// SPDX-License-Identifier: MIT
// consumer.c - a program of a user, built in each of the ways there are to use the library. It
// says nothing of its own and ends with 0 if all of its memory comes from there.
//
// CONSUMER_RENAMED: malloc is ours only where this source says so (mimalloc-override.h).
#if !defined(_GNU_SOURCE)
#define _GNU_SOURCE
#endif
#include <locale.h>
#include <malloc.h>
#include <pthread.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <mimalloc.h>
#if defined(CONSUMER_RENAMED)
#include <mimalloc-override.h>
#endif
#include "../../lib/check.h"

// The pointer, if it is a block of ours; the compiler does not see where it came from.
static void* ours(void* p) {
  void* volatile hidden = p;
  CHECK(mi_usable_size(hidden) > 0);
  return hidden;
}

static void names_of_the_program(void) {
  free(ours(malloc(100)));
  free(ours(calloc(10, 10)));
  free(ours(realloc(ours(malloc(10)), 5000)));
  free(ours(reallocarray(NULL, 10, 10)));
  free(ours(strdup("text")));
  free(ours(strndup("text", 2)));
  free(ours(aligned_alloc(64, 128)));
  free(ours(memalign(64, 100)));
  free(ours(valloc(100)));
  void* p = NULL;
  CHECK(posix_memalign(&p, 256, 100) == 0);
  CHECK(malloc_usable_size(ours(p)) == mi_usable_size(p));
  mi_free(p);
  free(mi_malloc(10));
}

#if !defined(CONSUMER_RENAMED)
static void nothing(void) {}

// Parts of libc that call malloc, some by names of their own.
static void names_of_libc(void) {
  char* text = NULL;
  CHECK(asprintf(&text, "%d", 42) == 2);
  free(ours(text));
  size_t size = 0;
  FILE* const stream = open_memstream(&text, &size);
  fputs("text", stream);
  fclose(stream);
  free(ours(text));
  text = realpath("/", NULL);
  free(ours(text));
  freelocale(newlocale(LC_ALL_MASK, "C", (locale_t)0));
  posix_spawn_file_actions_t actions;
  CHECK(posix_spawn_file_actions_init(&actions) == 0);
  CHECK(posix_spawn_file_actions_adddup2(&actions, 1, 2) == 0);
  CHECK(posix_spawn_file_actions_destroy(&actions) == 0);
  for (int i = 0; i < 100; i++) CHECK(atexit(&nothing) == 0);
}
#endif

static void* allocate(void* argument) {
  (void)argument;
  return malloc(1000);
}

static void threads_and_fork(void) {
  pthread_t thread;
  void* p = NULL;
  CHECK(pthread_create(&thread, NULL, &allocate, NULL) == 0);
  CHECK(pthread_join(thread, &p) == 0);
  free(ours(p));
  fflush(stdout);
  const pid_t child = fork();
  if (child == 0) {
    free(ours(malloc(100)));
    _exit(0);
  }
  int status = -1;
  CHECK(waitpid(child, &status, 0) == child);
  CHECK(status == 0);
}

#if defined(__GLIBC__) && !defined(CONSUMER_RENAMED) // tidy: allow os-macro (a program of a user)
// The calls that drag glibc's own malloc into a statically linked program, unless all of them are
// ours.
static void names_of_glibc(void) {
  free(ours(pvalloc(100)));
  CHECK(mallopt(M_MMAP_THRESHOLD, 1 << 20) == 1);
#if __GLIBC_PREREQ(2, 33)
  const size_t before = mallinfo2().uordblks;
  void* p[100];
  for (size_t i = 0; i < 100; i++) p[i] = ours(malloc(1000));
  CHECK(mallinfo2().uordblks >= before + 100000);
  for (size_t i = 0; i < 100; i++) free(p[i]);
#endif
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
  CHECK(mallinfo().arena > 0);
  malloc_trim(0);
  malloc_stats();
  CHECK(malloc_info(0, stderr) == 0);
}
#endif

int main(void) {
  CHECK(mi_version() == MI_MALLOC_VERSION);
  names_of_the_program();
  threads_and_fork();
#if !defined(CONSUMER_RENAMED)
  names_of_libc();
#if defined(__GLIBC__) // tidy: allow os-macro (as above)
  names_of_glibc();
#endif
#endif
  return 0;
}
