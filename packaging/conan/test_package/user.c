// SPDX-License-Identifier: MIT
// user.c - ends with 0 if header and library are of one version, and malloc is the library's (unless that was built not to
// replace it: give any argument then).
#include <stdio.h>
#include <stdlib.h>

#include <mimalloc.h>

int main(int argc, char** argv) {
  (void)argv;
  void* p = malloc(100);
  bool ours = mi_is_in_heap_region(p);
  free(p);
  printf("version %d, malloc is %s\n", mi_version(), ours ? "ours" : "the system's");
  return mi_version() == MI_MALLOC_VERSION && (ours || argc > 1) ? 0 : 1;
}
