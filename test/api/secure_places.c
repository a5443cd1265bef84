// SPDX-License-Identifier: MIT
// secure_places.c - what lies beside memory in a secure build (MI_SECURE), and where that memory
// is. Only for that build.
#if !defined(_GNU_SOURCE)
#define _GNU_SOURCE
#endif
#include <link.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

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
  // Of marks: one for 16 bytes of 128 MiB, and one more. Nothing else here has this size.
  const size_t table_size = 8 * TEST_MIB + (size_t)sysconf(_SC_PAGESIZE);
  static void* block[64];
  for (size_t i = 0; i < 64; i++) block[i] = mi_malloc(4 * TEST_MIB); // in several windows
  const size_t count = list_areas();
  size_t tables = 0;
  for (size_t i = 1; i + 1 < count; i++) {
    if (!areas[i].is_accessible || areas[i].end - areas[i].start != table_size) continue;
    const bool is_before = areas[i - 1].end == areas[i].start && !areas[i - 1].is_accessible;
    tables++;
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

// Store where the library can be written to.
static int find_data(struct dl_phdr_info* info, size_t size, void* arg) {
  (void)size;
  area_t* const data = (area_t*)arg;
  if (strstr(info->dlpi_name, "libmimalloc") == NULL) return 0;
  for (size_t i = 0; i < info->dlpi_phnum; i++) {
    const ElfW(Phdr)* const part = &info->dlpi_phdr[i];
    if (part->p_type != PT_LOAD || (part->p_flags & PF_W) == 0) continue;
    data->start = info->dlpi_addr + part->p_vaddr;
    data->end = data->start + part->p_memsz;
  }
  return 1;
}

static size_t calls, wrong_calls;

static void mi_cdecl count_error(int err, void* arg) {
  (void)err;
  if (arg == &calls) calls++;
}

static void mi_cdecl not_registered(int err, void* arg) {
  (void)err;
  (void)arg;
  wrong_calls++;
}

static void make_mistake(void) {
  char* const p = (char*)mi_malloc(100);
  mi_free(p + 16);
  mi_free(p);
}

// If this fails, whoever can write one word of the library's data has a function of his choice
// called, with an argument of his choice.
static void callbacks_cannot_be_replaced(void** state) {
  (void)state;
  area_t data = {0, 0, false, false};
  if (dl_iterate_phdr(&find_data, &data) == 0) skip(); // a part of the program
  const long abort_before = mi_option_get(mi_option_abort_on_misuse);
  mi_option_set(mi_option_abort_on_misuse, 0);
  const size_t count = (data.end - data.start) / sizeof(uintptr_t);
  volatile uintptr_t* const word = (volatile uintptr_t*)data.start;
  uintptr_t* const before = (uintptr_t*)mmap(
      NULL, count * sizeof(uintptr_t), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  assert_true(before != MAP_FAILED);
  mi_register_error(&count_error, &calls);
  make_mistake();
  assert_int_equal(calls, 1);
  mi_register_error(NULL, NULL);
  for (size_t i = 0; i < count; i++) before[i] = word[i];
  mi_register_error(&count_error, &calls);
  size_t changed = 0;
  for (size_t i = 0; i < count; i++) {
    assert_true(word[i] != (uintptr_t)&count_error && word[i] != (uintptr_t)&calls);
    if (word[i] == before[i]) continue;
    changed++;
    if (word[i] >> 32 != 0) word[i] = (uintptr_t)&not_registered; // else it is the version
  }
  assert_true(changed >= 2);
  make_mistake();
  assert_int_equal(wrong_calls, 0);
  assert_int_equal(calls, 1);
  mi_register_error(&count_error, &calls);
  make_mistake();
  assert_int_equal(calls, 2);
  mi_register_error(NULL, NULL);
  mi_option_set(mi_option_abort_on_misuse, abort_before);
  munmap(before, count * sizeof(uintptr_t));
}

#define BLOCKS 12
#define MOVES 3000

static unsigned char* block[BLOCKS];
static size_t block_size[BLOCKS];
static int pipe_end[2];

// True if a byte can be read: the kernel looks, so that nothing is hurt.
static bool is_readable(const unsigned char* p) {
  if (write(pipe_end[1], p, 1) != 1) return false;
  char byte;
  assert_int_equal(read(pipe_end[0], &byte, 1), 1);
  return true;
}

// True if the kernel has guards inside a mapping (6.13).
static bool has_guards(void) {
  const size_t size = (size_t)sysconf(_SC_PAGESIZE);
  void* const p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  const bool is_known = madvise(p, size, 102) == 0;
  munmap(p, size);
  return is_known;
}

// Fill a block, and look what is behind it.
static void use(size_t i) {
  memset(block[i], (int)i + 1, block_size[i]);
  const uintptr_t page_size = (uintptr_t)sysconf(_SC_PAGESIZE);
  const uintptr_t end = (uintptr_t)block[i] + mi_usable_size(block[i]) + 1; // with the canary
  const unsigned char* const behind =
      (const unsigned char*)((end + page_size - 1) & ~(page_size - 1));
  // A block that shrinks by less than a slice keeps its fence.
  size_t slack = 0;
  while (slack <= 64 * TEST_KIB && is_readable(behind + slack)) slack += page_size;
  if (slack > 64 * TEST_KIB) fail_msg("%p of %zu has no fence", block[i], block_size[i]);
}

static void expect_filled(size_t i, size_t size) {
  for (size_t at = 0; at < size; at += 1021) assert_int_equal(block[i][at], i + 1);
}

static void change(size_t i, size_t way, size_t size) {
  const size_t kept = size < block_size[i] ? size : block_size[i];
  switch (block[i] == NULL ? way % 4 + 4 : way) {
    case 0:
    case 1:
      mi_free(block[i]);
      block[i] = NULL;
      return;
    case 2:
      if (!mi_expand(block[i], size)) return;
      break;
    case 3:
      block[i] = (unsigned char*)mi_realloc(block[i], size);
      expect_filled(i, kept);
      break;
    case 4:
      block[i] = (unsigned char*)mi_rezalloc(block[i], size); // of nothing, or a zeroed one
      break;
    case 5:
      mi_free(block[i]);
      block[i] = (unsigned char*)mi_malloc_aligned(size, 256 * TEST_KIB);
      break;
    case 6:
      mi_free(block[i]);
      block[i] = (unsigned char*)mi_malloc_aligned_at(size, 1024, 40);
      break;
    default:
      mi_free(block[i]);
      block[i] = (unsigned char*)mi_calloc(1, size);
      assert_true(test_is_filled(block[i], size, 0));
      break;
  }
  block_size[i] = size;
}

// If this fails, a write or a read behind a large block goes on into other memory, or memory that
// the program should have cannot be used.
static void large_blocks_end_at_a_fence(void** state) {
  (void)state;
  if (!has_guards()) skip();
  assert_int_equal(pipe(pipe_end), 0);
  uint64_t random = 42;
  for (size_t round = 0; round < MOVES; round++) {
    const size_t i = random_below(&random, BLOCKS);
    const size_t pages = 130 + random_below(&random, 600); // over 512 KiB
    const size_t size = pages * 4096 - 1 - random_below(&random, 3);
    change(i, random_below(&random, 8), size);
    if (block[i] != NULL) use(i);
    if (round % 500 == 0) mi_collect(true);
    // Memory between large blocks serves small ones.
    unsigned char* const small = (unsigned char*)mi_malloc(100 * TEST_KIB);
    memset(small, 255, 100 * TEST_KIB);
    mi_free(small);
  }
  for (size_t i = 0; i < BLOCKS; i++) {
    if (block[i] != NULL) use(i);
    mi_free(block[i]);
  }
  // Of half an arena and more: a mapping of its own.
  const size_t huge = 600 * TEST_MIB;
  unsigned char* const p = (unsigned char*)mi_malloc(huge);
  p[huge - 1] = 1;
  assert_false(is_readable(p + ((huge + 4096) & ~(size_t)4095)));
  mi_free(p);
  close(pipe_end[0]);
  close(pipe_end[1]);
}

// If this fails, a write that runs through a page of blocks goes on into the next one.
static void pages_end_at_a_fence_at_level_5(void** state) {
  (void)state;
  listen();
  mi_options_print_out(&hear, NULL);
  if (strstr(said, "secure level: 5") == NULL || !has_guards()) skip();
  assert_int_equal(pipe(pipe_end), 0);
  const size_t page_size = (size_t)sysconf(_SC_PAGESIZE);
  for (size_t size = 16; size <= 512 * TEST_KIB; size += size / 3 + 16) {
    static unsigned char* p[40];
    for (size_t i = 0; i < 40; i++) {
      p[i] = (unsigned char*)mi_malloc(size);
      memset(p[i], 1, size);
    }
    for (size_t i = 0; i < 40; i++) {
      const unsigned char* end = p[i] + size - 1;
      while (is_readable(end) && end < p[i] + 9 * 64 * TEST_KIB) end += page_size;
      assert_false(is_readable(end));
      assert_true(test_is_filled(p[i], size, 1));
    }
    for (size_t i = 0; i < 40; i++) mi_free(p[i]);
  }
  close(pipe_end[0]);
  close(pipe_end[1]);
}

// If this fails, one run of a program tells where memory is in the next, or one arena where another
// is.
static void arenas_lie_anywhere(void** state) {
  (void)state;
  enum { ARENAS = 32 };
  uintptr_t start[ARENAS];
  uintptr_t differs = 0;
  for (size_t i = 0; i < ARENAS; i++) {
    mi_arena_id_t id;
    assert_int_equal(mi_reserve_os_memory_ex(4 * TEST_MIB, true, false, true, &id), 0);
    size_t size;
    start[i] = (uintptr_t)mi_arena_area(id, &size);
    assert_true(start[i] != 0 && size >= 4 * TEST_MIB);
    differs |= start[i] ^ start[0];
    for (size_t k = 0; k < i; k++) {
      const uintptr_t distance = start[i] > start[k] ? start[i] - start[k] : start[k] - start[i];
      assert_true(distance > (uintptr_t)16 * TEST_MIB);
    }
  }
  for (size_t bit = 21; bit < 46; bit++) assert_true((differs >> bit & 1) == 1);
}

// If this fails, the page that a block is in tells where the next page will be.
static void pages_come_in_random_order(void** state) {
  (void)state;
  enum { PAGES = 64 };
  size_t upwards = 0;
  mi_heap_t* const heap = mi_heap_new();
  uintptr_t last = 0;
  for (size_t i = 0; i < PAGES; i++) {
    uintptr_t slice = last;
    while (slice == last) {
      slice = (uintptr_t)mi_heap_malloc(heap, 64) & ~(uintptr_t)(64 * TEST_KIB - 1);
    }
    upwards += slice == last + 64 * TEST_KIB ? 1 : 0;
    last = slice;
  }
  mi_heap_destroy(heap);
  assert_in_range(upwards, 0, PAGES / 2);
}

static size_t page_faults(void) {
  struct rusage usage;
  assert_int_equal(getrusage(RUSAGE_SELF, &usage), 0);
  return (size_t)usage.ru_minflt;
}

// If this fails, nothing is known of what a program does with its tables, because they are cleared
// before they are looked at, and it pays a fault for each OS page of each.
static void table_is_looked_at_before_it_is_cleared(void** state) {
  (void)state;
  test_skip_if_guarded("guarded blocks are not looked at");
  const size_t size = 3 * TEST_MIB;
  size_t faults = 0;
  for (size_t i = 0; i < 20; i++) {
    if (i == 10) faults = page_faults();
    void* const p = mi_zalloc(size);
    memset(test_opaque_pointer(p), 'S', size);
    mi_free(p);
  }
  assert_in_range(page_faults() - faults, 0, 10 * size / 4096 / 2);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(table_is_looked_at_before_it_is_cleared),
      cmocka_unit_test(large_blocks_end_at_a_fence),
      cmocka_unit_test(pages_end_at_a_fence_at_level_5),
      cmocka_unit_test(arenas_lie_anywhere),
      cmocka_unit_test(pages_come_in_random_order),
      cmocka_unit_test(state_is_between_constants),
      cmocka_unit_test(tables_are_between_fences),
      cmocka_unit_test(callbacks_cannot_be_replaced),
  };
  return cmocka_run_group_tests(tests, &reports_set_up, &reports_tear_down);
}
