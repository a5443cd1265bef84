// What the programs that are written for other allocators share: a check that names its line.
#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHECK(condition)                                                                           \
  do {                                                                                             \
    if (!(condition)) {                                                                            \
      fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);                              \
      exit(1);                                                                                     \
    }                                                                                              \
  } while (0)

// Two values are equal; else both are printed.
#define EQUAL(a, b)                                                                                \
  do {                                                                                             \
    const long long value_a = (long long)(a), value_b = (long long)(b);                            \
    if (value_a != value_b) {                                                                      \
      fprintf(stderr, "%s:%d: %s is %lld, not %lld\n", __FILE__, __LINE__, #a, value_a, value_b);  \
      exit(1);                                                                                     \
    }                                                                                              \
  } while (0)

// The bytes from `start` to `end` of a block are `value`.
static inline void all_are(const void* p, size_t start, size_t end, int value) {
  for (size_t i = start; i < end; i++) EQUAL(((const unsigned char*)p)[i], value);
}
