// SPDX-License-Identifier: MIT
// A program that has libstdc++-6.dll: its new-handler is called, and its std::bad_alloc is thrown,
// by functions of ours that no weak reference could reach. Prints what it saw; test_windows.py
// compares.
#include "mimalloc.h"

#include <stdint.h>
#include <stdio.h>
#include <windows.h>

typedef void (*handler_t)(void);
typedef handler_t (*set_t)(handler_t handler);

static set_t set_handler;
static int calls;

static void handler(void) {
  if (++calls == 3) set_handler(NULL);
}

int main(void) {
  const HMODULE library = LoadLibraryA("libstdc++-6.dll");
  if (library == NULL) {
    printf("no libstdc++-6.dll\n");
    return 77;
  }
  set_handler = (set_t)(uintptr_t)GetProcAddress(library, "_ZSt15set_new_handlerPFvvE");
  set_handler(&handler);
  void* const p = mi_new_nothrow(SIZE_MAX / 4);
  printf("%s after %d calls\n", p == NULL ? "NULL" : "memory", calls);
  fflush(stdout);
  mi_free(mi_new(SIZE_MAX / 4)); // nobody catches it
  printf("survived\n");
  return 0;
}
