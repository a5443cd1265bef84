// SPDX-License-Identifier: MIT
// libc_calls.c - a program with a malloc of its own, linked in: every function of libc that hands
// out a block is called, from several threads, and each block is freed, resized and checked.
//
// What breaks for a user: a program with jemalloc, tcmalloc or a malloc of its own inside dies as
// soon as a preloaded library answers for some of the names and not for the others.
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <glob.h>
#include <malloc.h>
#include <netdb.h>
#include <pthread.h>
#include <regex.h>
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <wchar.h>

static void need(int fact, const char* what) {
  if (fact) return;
  printf("wrong: %s\n", what);
  fflush(stdout);
  _exit(1);
}

// Resize the string, as only its owner can, look at it and free it.
static void use(char* s, const char* begins) {
  need(s != NULL && strncmp(s, begins, strlen(begins)) == 0, begins);
  s = realloc(s, 5000);
  need(s != NULL && strncmp(s, begins, strlen(begins)) == 0, begins);
  memset(s, 7, 5000);
  free(s);
}

static void strings(void) {
  use(strdup("strdup"), "strdup");
  use(strndup("strndup and more", 7), "strndup");
  char* text = NULL;
  need(asprintf(&text, "asprintf %d", 3) > 0, "asprintf");
  use(text, "asprintf 3");
  use(realpath("/", NULL), "/");
  use(getcwd(NULL, 0), "/");
  use(get_current_dir_name(), "/");
  wchar_t* wide = wcsdup(L"wide");
  need(wide != NULL && wide[0] == L'w', "wcsdup");
  free(wide);
  free(reallocarray(strdup("x"), 100, 30));
  free(reallocarray(NULL, 100, 30));
}

static void streams(void) {
  char* text = NULL;
  size_t size = 0;
  FILE* stream = open_memstream(&text, &size);
  for (int i = 0; i < 2000; i++) fprintf(stream, "line %d\n", i);
  fclose(stream);
  stream = fmemopen(text, size, "r");
  char* line = NULL;
  size_t room = 0;
  int count = 0;
  while (getline(&line, &room, stream) > 0) count++;
  need(count == 2000, "getline");
  fclose(stream);
  free(line);
  use(text, "line 0");
}

static int by_address(const void* a, const void* b) { return (a > b) - (a < b); }
static void nothing(void* node) { (void)node; }

static void tables(void) {
  struct dirent** names = NULL;
  const int count = scandir("/", &names, NULL, alphasort);
  need(count > 2, "scandir");
  for (int i = 0; i < count; i++) free(names[i]);
  free(names);
  glob_t found;
  need(glob("/*", 0, NULL, &found) == 0 && found.gl_pathc > 2, "glob");
  globfree(&found);
  regex_t expression;
  need(regcomp(&expression, "(a+)(b|c)*", REG_EXTENDED) == 0, "regcomp");
  need(regexec(&expression, "xxaabc", 0, NULL, 0) == 0, "regexec");
  regfree(&expression);
  void* tree = NULL;
  for (long i = 1; i < 500; i++) tsearch((void*)(i * 7919 % 503), &tree, by_address);
  tdestroy(tree, nothing);
}

static void aligned(void) {
  void* p = NULL;
  need(posix_memalign(&p, 4096, 100) == 0 && (size_t)p % 4096 == 0, "posix_memalign");
  free(p);
  p = aligned_alloc(64, 640);
  need((size_t)p % 64 == 0 && malloc_usable_size(p) >= 640, "aligned_alloc");
  free(p);
  p = memalign(256, 10);
  need((size_t)p % 256 == 0, "memalign");
  free(p);
  char* zeroed = calloc(300, 30);
  for (int i = 0; i < 9000; i++) need(zeroed[i] == 0, "calloc");
  free(zeroed);
}

static void* all(void* rounds) {
  for (long i = 0; i < (long)rounds; i++) {
    strings();
    streams();
    aligned();
    tables();
  }
  return NULL;
}

int main(void) {
  all((void*)20);
  pthread_t threads[4];
  for (int i = 0; i < 4; i++) {
    need(pthread_create(&threads[i], NULL, all, (void*)20) == 0, "pthread_create");
  }
  for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
  puts("all of libc's blocks are right");
  return 0;
}
