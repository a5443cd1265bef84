// SPDX-License-Identifier: MIT
// noticed.c - one mistake of a program, named by the first argument, with blocks of as many bytes
// as the second says. Prints what the library noticed, when, and what came of it:
//
//   at the call     errors reported while the wrong call ran, and the last code
//   later           errors reported while the program went on, and the last code
//   collected       errors reported by `mi_collect(true)` then, and the last code
//   again           a block that is in use was handed out once more
//   given           an address was handed out where no block starts
//
// What is not noticed must not be repeated here by chance: each mistake has a process of its own.
#include <errno.h>
#include <mimalloc.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MANY = 20000 };

static int errors, code;

static void on_error(int err, void* arg) {
  (void)arg;
  errors++;
  code = err;
}

static void told(const char* when) {
  printf("%s %d %s\n", when, errors,
         code == EINVAL      ? "EINVAL"
         : code == EAGAIN    ? "EAGAIN"
         : code == EFAULT    ? "EFAULT"
         : code == EOVERFLOW ? "EOVERFLOW"
         : code == 0         ? "-"
                             : "other");
  errors = code = 0;
}

// So that the compiler sees no mistake.
static void* hidden(void* p) {
  void* volatile q = p;
  return q;
}

static int by_address(const void* a, const void* b) {
  const uintptr_t x = *(const uintptr_t*)a;
  const uintptr_t y = *(const uintptr_t*)b;
  return x < y ? -1 : x > y;
}

// The program goes on with blocks of this size; at `p` none starts, if it is not NULL.
static void go_on(size_t size, void* p) {
  static uintptr_t got[MANY];
  const size_t count = size > 20000 ? 300 : MANY;
  bool is_given = false;
  for (size_t i = 0; i < count; i++) {
    got[i] = (uintptr_t)mi_malloc(size);
    is_given |= got[i] == (uintptr_t)p;
  }
  told("later");
  mi_collect(true);
  told("collected");
  qsort(got, count, sizeof(got[0]), &by_address);
  bool is_again = false;
  for (size_t i = 1; i < count; i++) is_again |= got[i] == got[i - 1];
  printf("again %d\ngiven %d\n", is_again, is_given && p != NULL);
}

static void foreign(size_t size) {
  char local[64];
  mi_free(hidden(local + 16));
  told("at the call");
  go_on(size, local + 16);
}

static void realloc_foreign(size_t size) {
  char local[64];
  if (mi_realloc(hidden(local + 16), size) != NULL) exit(3);
  told("at the call");
  go_on(size, local + 16);
}

static void realloc_inside(size_t size) {
  char* const p = (char*)mi_malloc(size);
  void* const other = mi_malloc(size);
  if (mi_realloc(hidden(p + 8), 2 * size) != NULL) exit(3);
  told("at the call");
  go_on(size, p + 8);
  (void)other;
}

static void inside(size_t size) {
  char* const p = (char*)mi_malloc(size);
  void* const other = mi_malloc(size);
  mi_free(hidden(p + 1));
  told("at the call");
  go_on(size, p + 1);
  (void)other;
}

// The page of the first of many blocks is full.
static void inside_full(size_t size) {
  char* const p = (char*)mi_malloc(size);
  for (size_t i = 0; i < 65536 / size + 10; i++) (void)!mi_malloc(size);
  mi_free(hidden(p + 1));
  told("at the call");
  go_on(size, p + 1);
}

static void* free_it(void* p) {
  mi_free(p);
  return NULL;
}

static void inside_elsewhere(size_t size) {
  char* const p = (char*)mi_malloc(size);
  pthread_t thread;
  if (pthread_create(&thread, NULL, &free_it, hidden(p + 1)) != 0) exit(3);
  pthread_join(thread, NULL);
  told("at the call");
  go_on(size, p + 1);
}

static void page_gone(size_t size) {
  static void* p[1000];
  for (size_t i = 0; i < 1000; i++) p[i] = mi_malloc(size);
  for (size_t i = 0; i < 1000; i++) mi_free(p[i]);
  mi_collect(true);
  mi_free(hidden(p[500]));
  told("at the call");
  go_on(size, NULL);
}

static void twice(size_t size) {
  void* const other = mi_malloc(size);
  void* const p = mi_malloc(size);
  mi_free(p);
  mi_free(hidden(p));
  told("at the call");
  go_on(size, NULL);
  (void)other;
}

static void twice_with_another_between(size_t size) {
  void* const other = mi_malloc(size);
  void* const p = mi_malloc(size);
  void* const q = mi_malloc(size);
  mi_free(p);
  mi_free(q);
  mi_free(hidden(p));
  told("at the call");
  go_on(size, NULL);
  (void)other;
}

// The block is not the newest of its list, and the page is not empty.
static void written_after_free(size_t size) {
  static char* p[10];
  static char local[64];
  void* const link = local;
  for (size_t i = 0; i < 10; i++) p[i] = (char*)mi_malloc(size);
  for (size_t i = 0; i < 9; i++) mi_free(p[i]);
  memcpy(hidden(p[5]), &link, sizeof(link));
  told("at the call");
  go_on(size, local);
}

static void* free_ten(void* arg) {
  void** const p = (void**)arg;
  for (size_t i = 0; i < 10; i++) mi_free(p[i]);
  return NULL;
}

static void written_after_free_elsewhere(size_t size) {
  static void* p[20];
  static char local[64];
  void* const link = local;
  for (size_t i = 0; i < 20; i++) p[i] = mi_malloc(size);
  pthread_t thread;
  if (pthread_create(&thread, NULL, &free_ten, p) != 0) exit(3);
  pthread_join(thread, NULL);
  memcpy(hidden(p[4]), &link, sizeof(link));
  told("at the call");
  mi_collect(true);
  told("collected");
  go_on(size, local);
}

static void impossible_size(size_t size) {
  (void)size;
  if (mi_malloc((size_t)(uintptr_t)hidden((void*)(SIZE_MAX / 2 + 1))) != NULL) exit(3);
  told("at the call");
}

static void impossible_alignment(size_t size) {
  if (mi_malloc_aligned(size, (size_t)(uintptr_t)hidden((void*)48)) != NULL) exit(3);
  told("at the call");
}

static const struct {
  const char* name;
  void (*run)(size_t size);
} mistakes[] = {
    {"foreign", &foreign},
    {"realloc_foreign", &realloc_foreign},
    {"realloc_inside", &realloc_inside},
    {"inside", &inside},
    {"inside_full", &inside_full},
    {"inside_elsewhere", &inside_elsewhere},
    {"page_gone", &page_gone},
    {"twice", &twice},
    {"twice_with_another_between", &twice_with_another_between},
    {"written_after_free", &written_after_free},
    {"written_after_free_elsewhere", &written_after_free_elsewhere},
    {"impossible_size", &impossible_size},
    {"impossible_alignment", &impossible_alignment},
};

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  mi_register_error(&on_error, NULL);
  for (size_t i = 0; i < sizeof(mistakes) / sizeof(mistakes[0]); i++) {
    if (strcmp(mistakes[i].name, argv[1]) != 0) continue;
    mistakes[i].run((size_t)strtoul(argv[2], NULL, 10));
    return 0;
  }
  return 2;
}
