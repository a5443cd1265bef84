// SPDX-License-Identifier: MIT
// A program that Visual Studio compiles, and that must get its memory from us: by name, and by malloc, which the DLL
// replaces. The exit status tells.
#include <mimalloc.h>
#include <stdlib.h>

int main(void) {
  void* named = mi_malloc(100);
  void* plain = malloc(100);
  int is_ours = named && plain && mi_is_in_heap_region(named) && mi_is_in_heap_region(plain);
  free(plain);
  mi_free(named);
  return is_ours && mi_is_redirected() ? 0 : 1;
}
