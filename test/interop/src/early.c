// SPDX-License-Identifier: MIT
// early.c - a library, or a part of a static program, that is initialised before ours and ends
// after it: its first act is to register fork handlers, which allocate. A handler that was
// registered before ours runs while we hold our locks.
#include <pthread.h>

#include "reentry.h"

int early_prepared, early_in_parent, early_in_child;
static unsigned char* kept;

// Too large for memory that is reserved already: a lock is needed.
static void use_mapping(void) {
  const size_t size = (size_t)3 << 30;
  unsigned char* const p = (unsigned char*)malloc(size);
  if (p == NULL) FAIL("no mapping");
  p[0] = p[size - 1] = 1;
  free(p);
}

static void prepare(void) {
  early_prepared++;
  churn(1);
  use_mapping();
}

static void in_parent(void) {
  early_in_parent++;
  churn(2);
  use_mapping();
}

static void in_child(void) {
  early_in_child++;
  churn(3);
  use_mapping();
}

__attribute__((constructor(101))) static void begin(void) {
  if (pthread_atfork(&prepare, &in_parent, &in_child) != 0) FAIL("pthread_atfork");
  churn(4);
  kept = (unsigned char*)malloc(5000);
  kept[4999] = 7;
}

__attribute__((destructor(101))) static void end(void) {
  if (kept[4999] != 7) FAIL("a block has changed");
  free(kept);
  churn(5);
  static const char text[] = "the early library ended\n";
  if (write(2, text, sizeof(text) - 1) < 0) _exit(2);
}
