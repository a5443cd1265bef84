// SPDX-License-Identifier: MIT
// test_os.h - tests of src/os that hold for each implementation. A program that includes this has
// src/os/os.c as a part of it.
#ifndef TEST_OS_H
#define TEST_OS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
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

// If this fails, a profile is cut off, or its file is inherited by what the program starts.
static void os_writes_files(void** state) {
  (void)state;
  char path[] = "/tmp/mimalloc-os-XXXXXX";
  const int made = mkstemp(path);
  if (made < 0) skip();
  assert_int_equal(write(made, "what was there", 14), 14);
  close(made);
  int file;
  errno = 7;
  assert_int_equal(mi_os_file_create(path, &file), 0);
  assert_int_equal(mi_os_file_write(file, "text", 4), 0);
  assert_int_equal(fcntl(file, F_GETFD), FD_CLOEXEC);
  assert_int_equal(mi_os_file_close(file), 0);
  assert_int_equal(mi_os_file_close(file), EBADF);
  assert_int_equal(mi_os_file_write(file, "text", 4), EBADF);
  assert_int_equal(mi_os_file_create("/nowhere/at/all", &file), ENOENT);
  assert_int_equal(errno, 7);
  char text[32] = "";
  FILE* const read = fopen(path, "r");
  assert_int_equal(fread(text, 1, sizeof(text), read), 4);
  fclose(read);
  unlink(path);
  assert_string_equal(text, "text");
}

// If this fails, memory that went back is still resident, or not zero when it is used again.
static void os_gives_memory_back(void** state) {
  (void)state;
  page_size = (size_t)sysconf(_SC_PAGESIZE);
  const size_t size = COUNT * page_size;
  uint8_t* const p = (uint8_t*)mi_os_map(NULL, size, page_size, MI_OS_READ_WRITE);
  assert_non_null(p);
  int (*const ways[])(void*, size_t) = {&mi_os_purge, &mi_os_remap, &mi_os_decommit};
  for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
    memset(p, 7, size);
    errno = 5;
    assert_int_equal(ways[i](p + page_size, size - 2 * page_size), 0);
    if (ways[i] == &mi_os_decommit) {
      assert_false(mi_os_is_readable(p + page_size));
      assert_int_equal(mi_os_commit(p + page_size, size - 2 * page_size), 0);
    }
    assert_int_equal(errno, 5);
    for (size_t at = 0; at < size; at++) {
      const bool is_back = at >= page_size && at < size - page_size;
      assert_int_equal(p[at], is_back ? 0 : 7);
    }
  }
  assert_int_equal(mi_os_unmap(p, size), 0);
  assert_false(mi_os_is_readable(p));
}

// If this fails, blocks are where the alignment of an arena forbids it.
static void os_maps_aligned(void** state) {
  (void)state;
  page_size = (size_t)sysconf(_SC_PAGESIZE);
  for (size_t alignment = page_size; alignment <= (size_t)64 * MI_MIB; alignment *= 4) {
    uint8_t* const p = (uint8_t*)mi_os_map(NULL, page_size, alignment, MI_OS_READ_WRITE);
    assert_non_null(p);
    assert_int_equal((uintptr_t)p % alignment, 0);
    assert_int_equal(p[0], 0);
    assert_int_equal(mi_os_unmap(p, page_size), 0);
  }
}

// If this fails, a report about an address ends the process, or says that there is nothing.
static void os_knows_what_is_readable(void** state) {
  (void)state;
  page_size = (size_t)sysconf(_SC_PAGESIZE);
  uint8_t* const p = (uint8_t*)mi_os_map(NULL, 2 * page_size, page_size, MI_OS_READ_WRITE);
  assert_non_null(p);
  assert_int_equal(mi_os_decommit(p + page_size, page_size), 0);
  errno = 5;
  assert_true(mi_os_is_readable(p) && mi_os_is_readable(p + page_size - 4));
  assert_false(mi_os_is_readable(p + page_size) || mi_os_is_readable((void*)(uintptr_t)8));
  assert_int_equal(errno, 5);
  assert_int_equal(mi_os_unmap(p, 2 * page_size), 0);
}

// If this fails, the keys of a secure build can be guessed.
static void os_has_secrets(void** state) {
  (void)state;
  uint64_t words[2][4] = {{0}};
  errno = 5;
  mi_os_secret(words[0], 4);
  mi_os_secret(words[1], 4);
  assert_int_equal(errno, 5);
  for (size_t i = 0; i < 4; i++) {
    assert_true(words[0][i] != 0 && words[0][i] != words[1][i]);
    for (size_t j = 0; j < i; j++) assert_true(words[0][i] != words[0][j]);
  }
}

#endif
