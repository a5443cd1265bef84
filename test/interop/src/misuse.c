// SPDX-License-Identifier: MIT
// misuse.c - mistakes with memory, named by the arguments, each in a function of its name: what the
// tools must find in a program with a build that tracks blocks. "clean" and "holder" make none.
#include <mimalloc.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MIB ((size_t)1024 * 1024)
#define FUNCTION __attribute__((noinline)) static void

typedef volatile char byte_t;

static volatile size_t one = 1; // what the compiler does not know

static byte_t* make(size_t size) { return (byte_t*)mi_malloc(size * one); }
static void drop(byte_t* p) { mi_free((void*)p); }

FUNCTION overflow(void) { make(24)[24 * one] = 1; }
FUNCTION overflow_odd(void) { make(13)[13 * one] = 1; }
FUNCTION overflow_by_reading(void) { (void)make(64)[64 * one]; }
FUNCTION overflow_large(void) { make(3 * MIB)[3 * MIB * one] = 1; }
FUNCTION overflow_mapping(void) { make(700 * MIB)[700 * MIB * one] = 1; }
FUNCTION overflow_nothing(void) { make(0)[0] = 1; }
FUNCTION overflow_zeroed(void) { ((byte_t*)mi_calloc(5, one))[5] = 1; }
FUNCTION overflow_aligned(void) { ((byte_t*)mi_malloc_aligned(256 * one, 256))[256] = 1; }
FUNCTION overflow_string(void) { ((byte_t*)mi_strdup("seven b"))[8 * one] = 1; }
FUNCTION overflow_from_heap(void) { ((byte_t*)mi_heap_malloc(mi_heap_new(), 32))[32 * one] = 1; }

FUNCTION overflow_shifted(void) {
  ((byte_t*)mi_malloc_aligned_at(100 * one, 64, 8))[100 * one] = 1;
}

FUNCTION underflow(void) {
  make(40);
  make(40)[0 - one] = 1;
}

FUNCTION underflow_shifted(void) { ((byte_t*)mi_malloc_aligned_at(100, 64, 8))[0 - one] = 1; }

FUNCTION overflow_shrunk(void) {
  byte_t* const p = (byte_t*)mi_realloc((void*)make(100), 60 * one);
  p[60 * one] = 1;
}

FUNCTION overflow_grown(void) {
  byte_t* p = make(MIB);
  while (mi_expand((void*)p, MIB + 1000 * one) == NULL) p = make(MIB);
  p[MIB + 999 * one] = 1; // not a mistake
  p[MIB + 1000 * one] = 1;
}

FUNCTION use_after_free(void) {
  byte_t* const p = make(100);
  drop(p);
  p[50 * one] = 1;
}

FUNCTION use_after_free_first_byte(void) {
  byte_t* const p = make(100);
  drop(p);
  (void)p[0];
}

FUNCTION use_after_free_large(void) {
  byte_t* const p = make(3 * MIB);
  drop(p);
  p[MIB] = 1;
}

static void* drop_thread(void* p) {
  mi_free(p);
  return NULL;
}

FUNCTION use_after_free_elsewhere(void) {
  byte_t* const p = make(100);
  pthread_t thread;
  if (pthread_create(&thread, NULL, &drop_thread, (void*)p) != 0) return;
  pthread_join(thread, NULL);
  p[10 * one] = 1;
}

FUNCTION use_after_realloc(void) {
  byte_t* const p = make(100);
  (void)!mi_realloc((void*)p, 100000 * one);
  p[10 * one] = 1;
}

FUNCTION use_after_destroy(void) {
  mi_heap_t* const heap = mi_heap_new();
  byte_t* const p = (byte_t*)mi_heap_malloc(heap, 100);
  mi_heap_destroy(heap);
  p[10 * one] = 1;
}

FUNCTION use_after_destroy_large(void) {
  mi_heap_t* const heap = mi_heap_new();
  byte_t* const p = (byte_t*)mi_heap_malloc(heap, 3 * MIB);
  mi_heap_destroy(heap);
  p[MIB] = 1;
}

FUNCTION use_after_collect(void) {
  byte_t* const p = make(100);
  drop(p);
  mi_collect(true);
  p[10 * one] = 1;
}

FUNCTION realloc_after_free(void) {
  byte_t* const p = make(100);
  drop(p);
  (void)!mi_realloc((void*)p, 200 * one);
}

FUNCTION double_free(void) {
  byte_t* const p = make(100);
  make(100);
  drop(p);
  drop(p);
}

FUNCTION double_free_large(void) {
  byte_t* const p = make(3 * MIB);
  drop(p);
  drop(p);
}

FUNCTION free_inside(void) { drop(make(100) + 16 * one); }

FUNCTION free_of_nobody(void) {
  byte_t local[64];
  drop(&local[32 * one]);
}

FUNCTION uninitialised(void) {
  byte_t* const p = make(100);
  if (p[20 * one] != 0) puts("not zero");
}

FUNCTION uninitialised_again(void) {
  byte_t* p = make(100);
  memset((void*)p, 0, 100);
  drop(p);
  mi_collect(true);
  p = make(100);
  if (p[20 * one] != 0) puts("not zero");
}

FUNCTION leak(void) { memset((void*)make(4321), 0, 4321); }

// The only pointer to a block of malloc is in one of ours.
FUNCTION holder(void) {
  static void* volatile* volatile small;
  static void* volatile* volatile large;
  small = (void* volatile*)mi_malloc(sizeof(void*));
  large = (void* volatile*)mi_malloc(700 * MIB);
  *small = malloc(100 * one);
  *large = malloc(200 * one);
}

// Everything that is allowed.
FUNCTION clean(void) {
  static const size_t sizes[] = {0, 1, 7, 8, 13, 24, 100, 1000, 5000, 70000, MIB + 1000};
  for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
    const size_t size = sizes[i] * one;
    for (int round = 0; round < 40; round++) {
      char* p = (char*)mi_malloc(size);
      memset(p, 1, mi_usable_size(p));
      p = (char*)mi_realloc(p, size + size / 4 + 3);
      memset(p, 2, size + size / 4 + 3);
      p = (char*)mi_realloc(p, size / 2);
      memset(p, 3, size / 2);
      p = (char*)mi_rezalloc(p, size + 30);
      for (size_t k = size / 2; k < size + 30; k++) {
        if (p[k] != 0) puts("not zero");
      }
      mi_free(p);
      p = (char*)mi_calloc(size, 1);
      for (size_t k = 0; k < mi_usable_size(p); k++) {
        if (p[k] != 0) puts("not zero");
      }
      if (mi_expand(p, size + 1) != NULL) p[size] = 1;
      mi_free(p);
      p = (char*)mi_malloc_aligned_at(size, 128, 8);
      memset(p, 4, mi_usable_size(p));
      p = (char*)mi_realloc_aligned_at(p, size / 2, 128, 8); // of a byte nothing is left
      memset(p, 4, mi_usable_size(p));
      mi_free(p);
      size_t block_size = 0;
      p = (char*)mi_umalloc(size, &block_size);
      memset(p, 5, block_size);
      mi_free_size(p, block_size);
      if (size > 10000 && round > 0) break;
    }
  }
  mi_heap_t* const heap = mi_heap_new();
  char* last = NULL;
  for (size_t i = 0; i < 3000; i++) {
    last = (char*)mi_heap_zalloc(heap, i);
    memset(last, 1, i);
    if (i % 3 == 0) mi_free(last);
  }
  mi_heap_destroy(heap);
  mi_collect(true);
}

#define MISTAKE(name)                                                                              \
  { #name, &name }
static const struct {
  const char* name;
  void (*make)(void);
} mistakes[] = {
    MISTAKE(overflow),
    MISTAKE(overflow_odd),
    MISTAKE(overflow_by_reading),
    MISTAKE(overflow_large),
    MISTAKE(overflow_mapping),
    MISTAKE(overflow_nothing),
    MISTAKE(overflow_zeroed),
    MISTAKE(overflow_aligned),
    MISTAKE(overflow_string),
    MISTAKE(overflow_from_heap),
    MISTAKE(overflow_shifted),
    MISTAKE(overflow_shrunk),
    MISTAKE(overflow_grown),
    MISTAKE(underflow),
    MISTAKE(underflow_shifted),
    MISTAKE(use_after_free),
    MISTAKE(use_after_free_first_byte),
    MISTAKE(use_after_free_large),
    MISTAKE(use_after_free_elsewhere),
    MISTAKE(use_after_realloc),
    MISTAKE(use_after_destroy),
    MISTAKE(use_after_destroy_large),
    MISTAKE(use_after_collect),
    MISTAKE(realloc_after_free),
    MISTAKE(double_free),
    MISTAKE(double_free_large),
    MISTAKE(free_inside),
    MISTAKE(free_of_nobody),
    MISTAKE(uninitialised),
    MISTAKE(uninitialised_again),
    MISTAKE(leak),
    MISTAKE(holder),
    MISTAKE(clean),
};

int main(int argc, char** argv) {
  for (int k = 1; k < argc; k++) {
    size_t i = 0;
    const size_t count = sizeof(mistakes) / sizeof(mistakes[0]);
    while (i < count && strcmp(argv[k], mistakes[i].name) != 0) i++;
    if (i == count) {
      fprintf(stderr, "no mistake is called %s\n", argv[k]);
      return 2;
    }
    mistakes[i].make();
  }
  return 0;
}
