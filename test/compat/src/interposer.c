// SPDX-License-Identifier: MIT
// interposer.c - a library that counts the calls of malloc and passes them on, with
// dlsym(RTLD_NEXT), as heap profilers and test tools do. Preloaded in front of the allocator.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static atomic_ulong calls, frees;

#define NEXT(name) (next != NULL ? next : (next = (__typeof__(next))dlsym(RTLD_NEXT, name)))

void* malloc(size_t size) {
  static void* (*next)(size_t);
  atomic_fetch_add(&calls, 1);
  return NEXT("malloc")(size);
}

void* realloc(void* p, size_t size) {
  static void* (*next)(void*, size_t);
  return NEXT("realloc")(p, size);
}

void free(void* p) {
  static void (*next)(void*);
  atomic_fetch_add(&frees, 1);
  NEXT("free")(p);
}

__attribute__((destructor)) static void report(void) {
  if (calls == 0 || frees == 0) _exit(98);
}
