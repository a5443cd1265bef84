// SPDX-License-Identifier: MIT
// places.c - where the system maps memory when it takes no hints: upwards, one mapping behind the
// other, from the start of a window on, as with the old layout of the address space or when another
// part of the program has taken all that the hints lead to. The first arena then has a window of
// the page map in which all that follows is, too.
#if !defined(_GNU_SOURCE)
#define _GNU_SOURCE
#endif
#include "test_api.h"

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#if defined(SYS_mmap2) // 32 bits: the offset, which is 0, is in OS pages
#undef SYS_mmap
#define SYS_mmap SYS_mmap2
#define WINDOW (64 * TEST_MIB)
#else
#define WINDOW TEST_GIB // or a multiple of it
#endif
#define BLOCK ((size_t)100000)
#define BLOCKS 600 // more than the library itself has descriptors for

static uint8_t* next; // what the system chooses next

static void* map(void* p, size_t size, int prot, int flags, int fd, off_t at) {
  return (void*)syscall(SYS_mmap, p, size, prot, flags, fd, at);
}

// A window that the system would choose itself.
static uint8_t* free_window(void) {
  const size_t size = 8 * WINDOW;
  const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
  void* const p = map(NULL, size, PROT_NONE, flags, -1, 0);
  if (p == MAP_FAILED) return NULL;
  (void)munmap(p, size);
  return (uint8_t*)(((uintptr_t)p + WINDOW - 1) / WINDOW * WINDOW);
}

// In front of that of libc, from the first call of the process on.
void* mmap(void* p, size_t size, int prot, int flags, int fd, off_t at) {
  if ((flags & MAP_FIXED) != 0) return map(p, size, prot, flags, fd, at);
  if ((flags & MAP_FIXED_NOREPLACE) != 0) {
    errno = EEXIST;
    return MAP_FAILED;
  }
  if (next == NULL) next = free_window();
  void* const q = map(next, size, prot, flags, fd, at);
  if (q == next) next += (size + 4095) / 4096 * 4096;
  return q;
}

// If this fails, a program is out of memory with some MiB in use.
static void arenas_share_a_window(void** state) {
  (void)state;
  static uint8_t* block[BLOCKS];
  assert_non_null(next);
  for (size_t i = 0; i < BLOCKS; i++) {
    block[i] = mi_malloc(BLOCK);
    if (block[i] == NULL) fail_msg("block %zu of %d", i, BLOCKS);
    memset(block[i], (int)(i % 251), BLOCK);
  }
  size_t in_first = 0; // windows: those of the first block
  for (size_t i = 0; i < BLOCKS; i++) {
    assert_true(test_is_filled(block[i], BLOCK, (int)(i % 251)));
    in_first += (uintptr_t)block[i] / WINDOW == (uintptr_t)block[0] / WINDOW ? 1 : 0;
    mi_free(block[i]);
  }
  assert_true(in_first > 10); // else this tests nothing
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(arenas_share_a_window),
  };
  return cmocka_run_group_tests_name("places", tests, NULL, NULL);
}
