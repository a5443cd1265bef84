// Frames that a program registers at run time, as just-in-time compilers do. The unwinder allocates
// and frees its tables with a lock held; a library that reads the stack then, for a profile or for
// guards, waits for itself. Prints "went on" in the end.
#define _GNU_SOURCE
#include <execinfo.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern void __register_frame(void* frames);
extern void __deregister_frame(void* frames);

// The frames of this program once more; where they are is in the table beside them: .eh_frame_hdr,
// of the Linux Standard Base.
static int find(struct dl_phdr_info* info, size_t size, void* frames) {
  (void)size;
  if (info->dlpi_name[0] != 0) return 0;
  for (size_t i = 0; i < info->dlpi_phnum; i++) {
    if (info->dlpi_phdr[i].p_type != PT_GNU_EH_FRAME) continue;
    unsigned char* const table = (unsigned char*)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
    int distance;
    if (table[1] != 0x1b) return 1; // relative to the place itself, four bytes
    memcpy(&distance, table + 4, sizeof(distance));
    *(void**)frames = table + 4 + distance;
  }
  return 1;
}

int main(void) {
  void* stack[20];
  void* frames = NULL;
  dl_iterate_phdr(&find, &frames);
  if (frames == NULL || backtrace(stack, 20) < 2) return 2;
  for (int i = 0; i < 20; i++) {
    free(malloc(40));
    __register_frame(frames);
    if (backtrace(stack, 20) < 2) return 3; // sorts what was registered
    __deregister_frame(frames);
  }
  puts("went on");
  return 0;
}
