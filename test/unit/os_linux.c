// SPDX-License-Identifier: MIT
// os_linux.c - tests of src/os/os_linux.c on the kernel itself: what the fake system pretends.
//
// The file is compiled into this program as a part of it, so that its functions stand beside those
// of the fake system with the same names.
#define _GNU_SOURCE
#define MI_SINGLE_TU 1
#include "../../src/base/text.c"
#include "../../src/os/assert.c"
#include "../../src/os/os_linux.c"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#define COUNT ((size_t)8)

static size_t page_size;

// Addresses that are free, in the middle of some that are not.
static uint8_t* make_gap(void) {
  page_size = (size_t)sysconf(_SC_PAGESIZE);
  uint8_t* const p = (uint8_t*)mi_os_map(NULL, 3 * COUNT * page_size, page_size, MI_OS_READ_WRITE);
  assert_non_null(p);
  memset(p, 7, 3 * COUNT * page_size);
  assert_int_equal(mi_os_unmap(p + COUNT * page_size, COUNT * page_size), 0);
  return p;
}

// If this fails, a hole in an arena is not filled again, or not with zeros.
static void os_maps_at_an_address(void** state) {
  (void)state;
  uint8_t* const p = make_gap();
  uint8_t* const gap = p + COUNT * page_size;
  errno = 5;
  assert_true(mi_os_map_at(gap, COUNT * page_size, MI_OS_READ_WRITE));
  assert_int_equal(errno, 5);
  for (size_t i = 0; i < COUNT * page_size; i++) assert_int_equal(gap[i], 0);
  memset(p, 8, 3 * COUNT * page_size);
  assert_int_equal(mi_os_unmap(gap, COUNT * page_size), 0);
  assert_true(mi_os_map_at(gap, COUNT * page_size, MI_OS_NO_ACCESS));
  assert_int_equal(mi_os_commit(gap, COUNT * page_size), 0);
  assert_int_equal(gap[0], 0);
  assert_int_equal(mi_os_unmap(p, 3 * COUNT * page_size), 0);
}

// If this fails, memory of another part of the program is replaced, which loses its contents.
static void os_maps_at_no_address_that_is_taken(void** state) {
  (void)state;
  uint8_t* const p = make_gap();
  const size_t size = COUNT * page_size;
  const size_t starts[] = {0, COUNT - 1, COUNT + 1, 2 * COUNT - 1, 2 * COUNT};
  errno = 5;
  for (size_t i = 0; i < sizeof(starts) / sizeof(starts[0]); i++) {
    uint8_t* const at = p + starts[i] * page_size;
    assert_false(mi_os_map_at(at, size, MI_OS_READ_WRITE));
    assert_false(mi_os_map_at(at, size, MI_OS_NO_ACCESS));
  }
  assert_int_equal(errno, 5);
  for (size_t i = 0; i < size; i++) assert_true(p[i] == 7 && p[2 * size + i] == 7);
  // And the gap is still one.
  assert_true(mi_os_map_at(p + size, size, MI_OS_READ_WRITE));
  assert_int_equal(mi_os_unmap(p, 3 * size), 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(os_maps_at_an_address),
      cmocka_unit_test(os_maps_at_no_address_that_is_taken),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
