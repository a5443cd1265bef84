// fixed.c - a program whose memory has a fixed size: how much of it there is for blocks.
#include "programs.h"

int main(void) {
  size_t count = 0;
  void** first = NULL;
  for (void** p; (p = (void**)malloc(16 * 1024)) != NULL; count++) {
    *p = first;
    first = p;
  }
  CHECK(IS_OURS(first));
  show("filled_kib", count * 16);
  return 0;
}
