// SPDX-License-Identifier: MIT
// program.c - a program that uses malloc by name, and the library by its own names. It is linked
// for macOS (test_macos.py), and runs nowhere.
#include <mimalloc.h>
#include <stdlib.h>

int main(void) {
  void* const p = malloc(100);
  const int is_ours = mi_is_in_heap_region(p) && mi_version() == MI_MALLOC_VERSION;
  free(p);
  return is_ours ? 0 : 1;
}
