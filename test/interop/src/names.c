// Uses everything that takes memory or frees it, in several threads. With a malloc of its own
// (own.h), all of it must be that; without one, all must fit together.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <wchar.h>

#include "own.h"

// Functions that not every C library has: by name, and skipped if nobody has them.
static void* lookup(const char* name) {
#if defined(STATIC)
  (void)name;
  return NULL;
#else
  return dlsym(RTLD_DEFAULT, name);
#endif
}

static void* seen(void* p) {
  CHECK(p != NULL);
#if defined(OWN_MALLOC)
  own_header(p);
#endif
  return p;
}

static void strings(void) {
  char *text, *line = NULL;
  size_t size = 0;
  free(seen(strdup("text")));
  free(seen(strndup("text", 2)));
  free(seen(wcsdup(L"text")));
  CHECK(asprintf(&text, "%d %s", 1, "text") > 0);
  free(seen(text));
  FILE* file = fopen("/etc/passwd", "r");
  CHECK(file != NULL && getline(&line, &size, file) > 0);
  free(seen(line));
  fclose(file);
  file = open_memstream(&text, &size);
  fprintf(file, "text");
  fclose(file);
  free(seen(text));
  free(seen(realpath("/", NULL)));
  char* copy = seen(strdup("text"));
  copy = seen(realloc(copy, 1000));
  CHECK(strcmp(copy, "text") == 0);
  free(copy);
}

static void resized(void) {
  void* p = seen(reallocarray(NULL, 10, 10));
  p = seen(realloc(p, 1000));
  p = seen(reallocarray(p, 100, 100));
  errno = 0;
  CHECK(reallocarray(p, SIZE_MAX / 2, 3) == NULL && errno == ENOMEM);
  free(p);
  void* (*reallocf)(void*, size_t) = (void* (*)(void*, size_t))lookup("reallocf");
  if (reallocf != NULL) free(seen(reallocf(seen(malloc(10)), 1000)));
  int (*reallocarr)(void*, size_t, size_t) = (int (*)(void*, size_t, size_t))lookup("reallocarr");
  if (reallocarr != NULL) {
    p = seen(malloc(10));
    CHECK(reallocarr(&p, 10, 10) == 0);
    seen(p);
    CHECK(reallocarr(&p, 0, 10) == 0 && p == NULL);
  }
}

static void freed(void) {
  void (*release)(void*) = (void (*)(void*))lookup("cfree");
  if (release != NULL) release(seen(malloc(10)));
  release = (void (*)(void*))lookup("vfree");
  if (release != NULL) release(seen(malloc(10)));
  void (*sized)(void*, size_t) = (void (*)(void*, size_t))lookup("free_sized");
  if (sized != NULL) sized(seen(malloc(10)), 10);
#if defined(OWN_ALIGNED) || !defined(OWN_MALLOC)
  void (*aligned)(void*, size_t, size_t) =
      (void (*)(void*, size_t, size_t))lookup("free_aligned_sized");
  if (aligned != NULL) aligned(seen(aligned_alloc(64, 64)), 64, 64);
#endif
}

static void aligned(void) {
#if defined(OWN_ALIGNED) || !defined(OWN_MALLOC)
  void* p;
  free(seen(memalign(64, 10)));
  free(seen(aligned_alloc(64, 64)));
  free(seen(valloc(10)));
  free(seen(pvalloc(10)));
  CHECK(posix_memalign(&p, 64, 10) == 0);
  CHECK(malloc_usable_size(seen(p)) >= 10);
  free(p);
  size_t (*size)(const void*) = (size_t(*)(const void*))lookup("malloc_size");
  p = malloc(10);
  if (size != NULL) CHECK(size(p) >= 10);
  free(p);
  int (*other)(void**, size_t, size_t) =
      (int (*)(void**, size_t, size_t))lookup("__posix_memalign");
  if (other != NULL) {
    CHECK(other(&p, 64, 10) == 0);
    free(seen(p));
  }
  void* (*microsoft)(size_t, size_t) = (void* (*)(size_t, size_t))lookup("_aligned_malloc");
  if (microsoft != NULL) free(seen(microsoft(10, 64)));
#endif
}

static void* everything(void* unused) {
  for (int i = 0; i < 20; i++) {
    free(seen(calloc(10, 10)));
    strings();
    resized();
    freed();
    aligned();
  }
  return unused;
}

int main(void) {
  everything(NULL);
#if !defined(NO_THREADS)
  pthread_t threads[4];
  for (int i = 0; i < 4; i++) CHECK(pthread_create(&threads[i], NULL, everything, NULL) == 0);
  for (int i = 0; i < 4; i++) CHECK(pthread_join(threads[i], NULL) == 0);
#endif
  puts("all of one allocator");
  return 0;
}
