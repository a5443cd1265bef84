// SPDX-License-Identifier: MIT
// answers.c - what glibc's functions answer in the corners that programs rely on, one line each.
#define _GNU_SOURCE
#include <errno.h>
#include <malloc.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(void) {
  void* volatile p = malloc(100);
  void* volatile q = realloc(p, 0);
  printf("realloc(p, 0) %s\n", q == NULL ? "frees" : "returns a block");
  free(q);
  p = realloc(NULL, 0);
  printf("realloc(NULL, 0) %s\n", p == NULL ? "returns nothing" : "returns a block");
  free(p);
  p = malloc(0);
  printf("malloc(0) %s\n", p == NULL ? "returns nothing" : "returns a block");
  free(p);
  volatile size_t much = SIZE_MAX - 100;
  errno = 0;
  p = malloc(much);
  printf("malloc of too much: %s, errno %d\n", p == NULL ? "NULL" : "a block", errno);
  errno = 0;
  p = calloc(much, 16);
  printf("calloc of too much: %s, errno %d\n", p == NULL ? "NULL" : "a block", errno);
  errno = 0;
  p = reallocarray(NULL, much, 16);
  printf("reallocarray of too much: %s, errno %d\n", p == NULL ? "NULL" : "a block", errno);
  void* aligned = NULL;
  printf("posix_memalign of a bad alignment: %d\n", posix_memalign(&aligned, 3, 10));
  p = memalign(48, 100);
  printf("memalign(48): %s\n", p != NULL && (uintptr_t)p % 16 == 0 ? "a block" : "NULL");
  free(p);
  free(NULL);
  errno = 7;
  free(malloc(1000000));
  printf("free leaves errno: %d\n", errno);
  return 0;
}
