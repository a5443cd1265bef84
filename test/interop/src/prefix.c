// SPDX-License-Identifier: MIT
// prefix.c - copies of the library that do not meet: the user of one copy with its own MI_PREFIX,
// or, compiled without, the program around two of them (one_ and two_) and a third that replaces
// malloc.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include <mimalloc.h>

#if defined(MI_PREFIX)

void* MI_PREFIXED(user_make)(void) { return mi_malloc(100); }
bool MI_PREFIXED(user_owns)(const void* p) { return mi_usable_size(p) >= 100; }
void MI_PREFIXED(user_drop)(void* p) { mi_free(p); }
long MI_PREFIXED(user_delay)(void) { return mi_option_get(mi_option_purge_delay); }

#else

#define COPIES 3
void* one_user_make(void);
bool one_user_owns(const void* p);
void one_user_drop(void* p);
long one_user_delay(void);
void* two_user_make(void);
bool two_user_owns(const void* p);
void two_user_drop(void* p);
long two_user_delay(void);

static void* own_make(void) { return malloc(100); }
static bool own_owns(const void* p) { return mi_usable_size(p) >= 100; }
static long own_delay(void) { return mi_option_get(mi_option_purge_delay); }

static const struct {
  void* (*make)(void);
  bool (*owns)(const void* p);
  void (*drop)(void* p);
  long (*delay)(void);
  long wanted_delay; // what the environment says, see test_consumers.py
} copies[COPIES] = {{&own_make, &own_owns, &free, &own_delay, 100},
                    {&one_user_make, &one_user_owns, &one_user_drop, &one_user_delay, 101},
                    {&two_user_make, &two_user_owns, &two_user_drop, &two_user_delay, 102}};

static size_t count_failures(void) {
  size_t failures = 0;
  for (size_t i = 0; i < COPIES; i++) {
    void* const p = copies[i].make();
    for (size_t j = 0; j < COPIES; j++) failures += copies[j].owns(p) != (i == j);
    copies[i].drop(p);
    failures += copies[i].delay() != copies[i].wanted_delay;
  }
  return failures;
}

static void* run(void* argument) {
  (void)argument;
  return (void*)count_failures();
}

int main(void) {
  size_t failures = count_failures();
  pthread_t thread;
  void* failures_there = NULL;
  failures += pthread_create(&thread, NULL, &run, NULL) != 0;
  failures += pthread_join(thread, &failures_there) != 0 || failures_there != NULL;
  printf("%zu failures\n", failures);
  return failures != 0;
}

#endif
