// SPDX-License-Identifier: MIT
// moves.c - a large block grows, the system refuses to move it after it has unmapped the target,
// and somebody maps memory in the hole: here at once, where another thread might. If this fails,
// what another part of the program mapped is replaced or unmapped, and both use it from then on.
#if !defined(_GNU_SOURCE)
#define _GNU_SOURCE
#endif
#include "test_api.h"

#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define SIZE (5 * TEST_MIB)
#define PIECE (64 * TEST_KIB)

static bool is_refusing;
static size_t refused_count;
static uint8_t* foreign; // what another thread would have mapped

static void map_in_hole(uint8_t* hole) {
  foreign = mmap(hole + SIZE / 2, PIECE, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
  CHECK(foreign != MAP_FAILED);
  memset(foreign, 7, PIECE);
}

// In front of that of libc: the worst a kernel does, and what may happen before the call returns.
void* mremap(void* from, size_t old_size, size_t new_size, int flags, ...) {
  va_list list;
  va_start(list, flags);
  void* const to = (flags & MREMAP_FIXED) != 0 ? va_arg(list, void*) : NULL;
  va_end(list);
  if (!is_refusing || to == NULL) {
    return (void*)syscall(SYS_mremap, from, old_size, new_size, flags, to);
  }
  refused_count++;
  CHECK(munmap(to, new_size) == 0);
  if (foreign == NULL) map_in_hole(to);
  errno = ENOMEM;
  return MAP_FAILED;
}

static void grow(void) {
  uint8_t* const p = mi_malloc(SIZE);
  void* const wall = mi_malloc(SIZE);
  CHECK(p != NULL && wall != NULL);
  memset(p, 5, SIZE);
  uint8_t* const q = mi_realloc(p, 3 * SIZE);
  CHECK(q != NULL);
  CHECK(test_is_filled(q, SIZE, 5));
  memset(q, 6, 3 * SIZE);
  mi_free(q);
  mi_free(wall);
}

static void grow_refused(size_t object_max_kib) {
  if (object_max_kib > 0) mi_option_set(mi_option_arena_max_object_size, (long)object_max_kib);
  grow(); // the library has found out what the system can
  is_refusing = true;
  grow();
  if (refused_count == 0) SKIP("the system cannot move mappings");
  CHECK(test_is_filled(foreign, PIECE, 7));
  is_refusing = false;
  for (size_t i = 0; i < 10; i++) grow();
  mi_collect(true);
  CHECK(test_is_filled(foreign, PIECE, 7));
}

static void run(size_t object_max_kib) {
  const pid_t child = fork();
  if (child == 0) {
    grow_refused(object_max_kib);
    _exit(0);
  }
  int status;
  assert_int_equal(waitpid(child, &status, 0), child);
  if (WIFEXITED(status) && WEXITSTATUS(status) == SKIPPED)
    test_skip("the system cannot move mappings");
  assert_true(WIFEXITED(status));
  assert_int_equal(WEXITSTATUS(status), 0);
}

static void moves_spare_what_others_map_in_an_arena(void** state) {
  (void)state;
  run(0);
}

static void moves_spare_what_others_map_in_a_mapping(void** state) {
  (void)state;
  run(SIZE / 2 / TEST_KIB);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(moves_spare_what_others_map_in_an_arena),
      cmocka_unit_test(moves_spare_what_others_map_in_a_mapping),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
