// SPDX-License-Identifier: MIT
// secure_places.c - what lies beside memory in a secure build (MI_SECURE), and where that memory
// is. Only for that build.
#if !defined(_GNU_SOURCE)
#define _GNU_SOURCE
#endif
#include <link.h>

#include "race.h"
#include "test_reports.h"

typedef struct area_s {
  uintptr_t start, end;
  bool is_accessible, is_writable;
} area_t;

#define AREA_MAX 4096
static area_t areas[AREA_MAX];

// The mappings of this process.
static size_t list_areas(void) {
  FILE* const maps = fopen("/proc/self/maps", "r");
  assert_non_null(maps);
  size_t count = 0;
  char line[1024];
  while (count < AREA_MAX && fgets(line, sizeof(line), maps) != NULL) {
    char access[8];
    unsigned long start, end;
    assert_int_equal(sscanf(line, "%lx-%lx %7s", &start, &end, access), 3);
    areas[count++] = (area_t){start, end, strncmp(access, "---", 3) != 0, access[1] == 'w'};
  }
  fclose(maps);
  return count;
}

// If this fails, a write that runs on from another mapping changes what the library knows of
// blocks.
static void tables_are_between_fences(void** state) {
  (void)state;
  const size_t table_size = 8 * TEST_MIB; // of marks; nothing else here has this size
  static void* block[64];
  for (size_t i = 0; i < 64; i++) block[i] = mi_malloc(4 * TEST_MIB); // in several windows
  const size_t count = list_areas();
  size_t tables = 0;
  for (size_t i = 1; i + 1 < count; i++) {
    if (!areas[i].is_accessible || areas[i].end - areas[i].start != table_size) continue;
    tables++;
    const bool is_before = areas[i - 1].end == areas[i].start && !areas[i - 1].is_accessible;
    const bool is_behind = areas[i + 1].start == areas[i].end && !areas[i + 1].is_accessible;
    if (!is_before || !is_behind) fail_msg("no fence beside %lx", (unsigned long)areas[i].start);
  }
  assert_in_range(tables, 2, 64);
  for (size_t i = 0; i < 64; i++) mi_free(block[i]);
}

// Store where the library is loaded, from its first to its last byte.
static int find_library(struct dl_phdr_info* info, size_t size, void* arg) {
  (void)size;
  area_t* const library = (area_t*)arg;
  if (strstr(info->dlpi_name, "libmimalloc") == NULL) return 0;
  library->start = UINTPTR_MAX;
  for (size_t i = 0; i < info->dlpi_phnum; i++) {
    const ElfW(Phdr)* const part = &info->dlpi_phdr[i];
    if (part->p_type != PT_LOAD) continue;
    const uintptr_t start = info->dlpi_addr + part->p_vaddr;
    if (start < library->start) library->start = start;
    if (start + part->p_memsz > library->end) library->end = start + part->p_memsz;
  }
  return 1;
}

// If this fails, a write that runs on from another mapping gets to the state of the library.
static void state_is_between_constants(void** state) {
  (void)state;
  area_t library = {0, 0, false, false};
  if (dl_iterate_phdr(&find_library, &library) == 0) skip(); // a part of the program
  const size_t count = list_areas();
  size_t before = 0;
  size_t behind = 0;
  for (size_t i = 0; i < count; i++) {
    if (areas[i].is_writable || areas[i].end <= library.start) continue;
    if (areas[i].start == library.start) before = areas[i].end - areas[i].start;
    if (areas[i].end >= library.end && areas[i].start < library.end) {
      behind = library.end - areas[i].start;
    }
  }
  assert_in_range(before, 64 * TEST_KIB, 4 * TEST_MIB);
  assert_in_range(behind, TEST_MIB, 4 * TEST_MIB);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(state_is_between_constants),
      cmocka_unit_test(tables_are_between_fences),
  };
  return cmocka_run_group_tests(tests, &reports_set_up, &reports_tear_down);
}
