// SPDX-License-Identifier: MIT
// A heap that was filled in small OS pages, and lives on. If this fails, it stays in small pages
// for good, or its memory grows when it gets huge ones, or contents change.
#if !defined(_GNU_SOURCE)
#define _GNU_SOURCE
#endif
#include <sys/mman.h>

#include "load.h"

#if !defined(MADV_COLLAPSE)
#define MADV_COLLAPSE 25
#endif

#define HUGE_SIZE (2 * LOAD_MIB)
#define BLOCK_SIZE 1000
#define BLOCKS_OF(bytes) ((bytes) / BLOCK_SIZE)
#define SMALL_BYTES (96 * LOAD_MIB) // two thirds of it when the heap is large enough
#define FRESH_BYTES (4 * LOAD_MIB) // filled at once in huge pages, so that the library sees one
#define FRESH_MAX (32 * LOAD_MIB)
#define RISE (8 * LOAD_MIB)
#define SLACK (2 * LOAD_MIB) // what the system counts late, and our own structures
#define TIME_MS 40000
#define FRESH_MS 2000

static uint8_t* block[BLOCKS_OF(SMALL_BYTES) + BLOCKS_OF(FRESH_MAX)];
static size_t block_count;

// Bytes of this process in huge pages, as the kernel counts them.
static size_t huge_bytes(void) {
  static char text[4096];
  const int file = open("/proc/self/smaps_rollup", O_RDONLY | O_CLOEXEC);
  if (file < 0) SKIP("the kernel does not count huge pages of a process");
  const ssize_t length = read(file, text, sizeof(text) - 1);
  close(file);
  CHECK(length > 0);
  text[length] = 0;
  const char* const found = strstr(text, "AnonHugePages:");
  if (found == NULL) SKIP("the kernel has no transparent huge pages");
  return strtoul(found + strlen("AnonHugePages:"), NULL, 10) * LOAD_KIB;
}

// Skips the test where the system has no huge pages, or cannot collapse small ones.
static void probe(void) {
  uint8_t* const p = (uint8_t*)mmap(NULL, 3 * HUGE_SIZE, PROT_READ | PROT_WRITE,
                                    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(p != (uint8_t*)MAP_FAILED);
  uint8_t* const start = (uint8_t*)(((uintptr_t)p + HUGE_SIZE - 1) & ~(HUGE_SIZE - 1));
  const size_t before = huge_bytes();
  madvise(p, 3 * HUGE_SIZE, MADV_NOHUGEPAGE);
  memset(start, 1, HUGE_SIZE);
  madvise(p, 3 * HUGE_SIZE, MADV_HUGEPAGE);
  if (madvise(start, HUGE_SIZE, MADV_COLLAPSE) != 0) SKIP("the kernel collapses no memory");
  if (huge_bytes() <= before) SKIP("the kernel says yes, and collapses no memory");
  start[HUGE_SIZE] = 1;
  if (huge_bytes() < before + 2 * HUGE_SIZE) {
    SKIP("the kernel has no huge page ready, or must not give any");
  }
  munmap(p, 3 * HUGE_SIZE);
}

static uint8_t* make(size_t i) {
  uint8_t* const p = (uint8_t*)malloc(BLOCK_SIZE);
  CHECK(p != NULL);
  load_fill(p, BLOCK_SIZE, (uint8_t)i);
  return p;
}

static void add(size_t bytes) {
  for (size_t i = 0; i < BLOCKS_OF(bytes); i++, block_count++) {
    block[block_count] = make(block_count);
  }
}

int main(int argc, char** argv) {
  const load_t load = load_begin(argc, argv);
  uint64_t state = load.seed;
  if (LOAD_IS_SANITIZED) SKIP("a sanitizer's malloc is used");
  if (mi_option_get(mi_option_arena_reserve) * LOAD_KIB < SMALL_BYTES) {
    SKIP("the arenas of this build are too small for huge pages");
  }
  probe();
  mi_option_set(mi_option_purge_delay, 20); // chunks are old after ten times that
  mi_option_set(mi_option_allow_thp, 0);
  add(SMALL_BYTES);
  mi_option_set(mi_option_allow_thp, 1);
  const size_t resident = proc_resident();
  const size_t huge = huge_bytes();
  const size_t areas = proc_areas();
  size_t fresh = 0;
  const uint64_t start_ms = load_now_ms();
  while (huge_bytes() < huge + fresh + RISE && load_now_ms() - start_ms < TIME_MS) {
    load_alive();
    if (fresh < FRESH_MAX && huge_bytes() <= huge &&
        load_now_ms() - start_ms >= fresh / FRESH_BYTES * FRESH_MS) {
      add(FRESH_BYTES);
      fresh += FRESH_BYTES;
    }
    for (size_t n = 0; n < 20000; n++) {
      const size_t i = random_below(&state, block_count);
      load_verify(block[i], BLOCK_SIZE, (uint8_t)i);
      free(block[i]);
      block[i] = make(i);
    }
  }
  const size_t resident_now = proc_resident();
  const size_t huge_now = huge_bytes();
  printf("FIGURE old heap of %zu MiB: %zu MiB in huge pages after %zu ms, %zu before; resident "
         "%zu KiB, %zu before and %zu added\n",
         SMALL_BYTES / LOAD_MIB, huge_now / LOAD_MIB, (size_t)(load_now_ms() - start_ms),
         huge / LOAD_MIB, resident_now / LOAD_KIB, resident / LOAD_KIB, fresh / LOAD_KIB);
  CHECK_SAY(huge_now >= huge + fresh + RISE, "%zu KiB in huge pages, %zu before",
            huge_now / LOAD_KIB, huge / LOAD_KIB);
  CHECK_SAY(resident_now <= resident + fresh + fresh / 8 + SLACK, "%zu KiB resident, %zu before",
            resident_now / LOAD_KIB, resident / LOAD_KIB);
  CHECK_SAY(proc_areas() <= areas + 8, "%zu areas are mapped, %zu before", proc_areas(), areas);
  for (size_t i = 0; i < block_count; i++) {
    load_verify(block[i], BLOCK_SIZE, (uint8_t)i);
    free(block[i]);
  }
  mi_collect(true);
  CHECK_SAY(proc_resident() <= resident / 4, "%zu KiB stay resident", proc_resident() / LOAD_KIB);
  return 0;
}
