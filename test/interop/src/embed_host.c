// SPDX-License-Identifier: MIT
// embed_host.c - a program that loads many libraries with thread-local variables, as many as there
// is room for, and in the end one with ours in it; or runs with that in front of it (no third
// argument).
//
//   embed_host FOLDER COUNT [LIBRARY]
//
// Threads that were there before use the library as well: their variables are made at that moment.
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static pthread_barrier_t barrier;
static void* (*allocate)(size_t) = &malloc;
static void (*release)(void*) = &free;

static void* use(void* arg) {
  static const size_t sizes[] = {1, 8, 100, 1000, 5000, 100000, 3000000};
  for (size_t i = 0; i < 7 * 50; i++) {
    char* const p = (char*)allocate(sizes[i % 7]);
    if (p == NULL) exit(4);
    memset(p, 1, sizes[i % 7]);
    release(p);
  }
  return arg;
}

static void* wait_and_use(void* arg) {
  if (arg != NULL) use(arg);
  pthread_barrier_wait(&barrier);
  pthread_barrier_wait(&barrier);
  return use(arg);
}

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  pthread_t early, late;
  pthread_barrier_init(&barrier, NULL, 2);
  // In front of the program, malloc has been used by each thread before.
  if (pthread_create(&early, NULL, &wait_and_use, argc == 3 ? &early : NULL) != 0) return 2;
  pthread_barrier_wait(&barrier);
  for (int i = 0; i < atoi(argv[2]); i++) {
    char path[4096];
    snprintf(path, sizeof(path), "%s/filler%d.so", argv[1], i);
    void* const filler = dlopen(path, RTLD_NOW);
    if (filler == NULL) break;
    char* (*touch)(void) = (char* (*)(void))dlsym(filler, "touch");
    if (touch == NULL) return 2;
    *touch() = 1;
  }
  if (argc > 3) {
    void* const library = dlopen(argv[3], RTLD_NOW);
    if (library == NULL) {
      puts(dlerror());
      return 3;
    }
    allocate = (void* (*)(size_t))dlsym(library, "mi_malloc");
    release = (void (*)(void*))dlsym(library, "mi_free");
  }
  use(NULL);
  pthread_barrier_wait(&barrier);
  pthread_join(early, NULL);
  if (pthread_create(&late, NULL, &use, NULL) != 0) return 2;
  pthread_join(late, NULL);
  puts("used");
  return 0;
}
