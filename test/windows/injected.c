// SPDX-License-Identifier: MIT
// A program that knows nothing of the library: it says whether mimalloc.dll is there all the same,
// and whose blocks its malloc returns. test_windows.py builds it, and injects the DLL.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WIN32_LEAN_AND_MEAN
#include <windows.h>

int main(void) {
  const HMODULE library = GetModuleHandleA("mimalloc.dll");
  unsigned char (*is_ours)(const void*) = NULL;
  if (library != NULL) {
    is_ours =
        (unsigned char (*)(const void*))(void*)GetProcAddress(library, "mi_is_in_heap_region");
  }
  size_t ours = 0;
  for (size_t i = 0; i < 1000; i++) {
    char* const p = (char*)malloc(i + 1);
    memset(p, 1, i + 1);
    ours += is_ours != NULL && is_ours(p) != 0;
    free(realloc(p, 2 * i + 1));
  }
  printf("loaded %d, ours %u\n", library != NULL, (unsigned)ours);
  return 0;
}
