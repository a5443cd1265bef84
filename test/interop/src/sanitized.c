// SPDX-License-Identifier: MIT
// sanitized.c - a program compiled with -fsanitize=..., with the library preloaded or not.
//
// Usage: sanitized work      threads exchange blocks, a large one grows; always prints the same
//        sanitized whose     prints whose malloc the program has
//        sanitized overflow  one byte behind a block is written
//        sanitized race      two threads write to one variable
#if !defined(_GNU_SOURCE)
#define _GNU_SOURCE
#endif
#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define THREADS 4
#define SLOTS 64
#define MIB ((size_t)1 << 20)

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned char* slots[SLOTS];
static size_t sizes[SLOTS];
static size_t wrong;
static volatile int raced;

static void* exchange(void* arg) {
  const size_t id = (size_t)arg;
  for (size_t i = 0; i < 5000; i++) {
    const size_t size = 16 + (i * 37 + id * 11) % 3000;
    unsigned char* const p = (unsigned char*)malloc(size);
    memset(p, (int)(size % 251), size);
    pthread_mutex_lock(&lock);
    unsigned char* const old = slots[i % SLOTS];
    const size_t old_size = sizes[i % SLOTS];
    slots[i % SLOTS] = p;
    sizes[i % SLOTS] = size;
    if (old != NULL && (old[0] != old_size % 251 || old[old_size - 1] != old_size % 251)) wrong++;
    pthread_mutex_unlock(&lock);
    free(old);
  }
  return NULL;
}

static void* write_unlocked(void* arg) {
  for (int i = 0; i < 1000; i++) raced++;
  return arg;
}

static void on_threads(void* (*body)(void*)) {
  pthread_t threads[THREADS];
  for (size_t i = 0; i < THREADS; i++) pthread_create(&threads[i], NULL, body, (void*)(i + 1));
  for (size_t i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
}

static void work(void) {
  on_threads(&exchange);
  for (size_t i = 0; i < SLOTS; i++) free(slots[i]);
  unsigned char* p = (unsigned char*)calloc(1, 30 * MIB);
  size_t sum = 0;
  for (size_t size = 30 * MIB; size <= 120 * MIB; size += 30 * MIB) {
    p = (unsigned char*)realloc(p, size);
    memset(p + size - MIB, 1, MIB);
    sum += (size_t)p[0] + p[size - 1] + p[29 * MIB];
  }
  free(p);
  printf("%zu wrong, sum %zu\n", wrong, sum);
}

static void tell_whose(void) {
  bool (*is_ours)(const void*) = NULL;
  void* const symbol = dlsym(RTLD_DEFAULT, "mi_is_in_heap_region");
  memcpy(&is_ours, &symbol, sizeof(symbol));
  void* const p = malloc(100);
  printf("%s\n", is_ours != NULL && is_ours(p) ? "ours" : "others");
  free(p);
}

int main(int argc, char** argv) {
  const char* const what = argc > 1 ? argv[1] : "";
  if (strcmp(what, "work") == 0) {
    work();
  } else if (strcmp(what, "whose") == 0) {
    tell_whose();
  } else if (strcmp(what, "overflow") == 0) {
    volatile char* const p = (volatile char*)malloc(10);
    p[10] = 1;
    free((void*)p);
  } else if (strcmp(what, "race") == 0) {
    on_threads(&write_unlocked);
  } else {
    return 2;
  }
  return 0;
}
