// SPDX-License-Identifier: MIT
// A heap that was filled in small OS pages, and lives on. If this fails, it stays in small pages
// for good, or its memory grows when it gets huge ones, or contents change.
#if !defined(_GNU_SOURCE)
#define _GNU_SOURCE
#endif
#include <sys/mman.h>
#include <sys/wait.h>

#include "load_threads.h"

#if !defined(MADV_COLLAPSE)
#define MADV_COLLAPSE 25
#endif

#define HUGE_SIZE (2 * LOAD_MIB)
#define BLOCK_SIZE 1000
#define SMALL_BYTES (96 * LOAD_MIB) // two thirds of it when the heap is large enough
#define BLOCK_COUNT (SMALL_BYTES / BLOCK_SIZE)
#define LARGE_SIZE (5 * LOAD_MIB)
#define LARGE_COUNT ((size_t)16)
#define OTHER_SIZE (20 * LOAD_KIB)
#define RISE (8 * LOAD_MIB)
#define SLACK (2 * LOAD_MIB) // what the system counts late, and our own structures
#define TIME_MS 90000 // the pauses while the system has no huge page ready are long
#define WORK_MS 4000 // then a program is idle: after the first look at a chunk, before the second
#define CHILD_MS 3000 // a child lives as long, through some passes

// That a child is gone is known with this C library.
#if defined(__GLIBC__) // tidy: allow os-macro (a fact of the library)
#define HAS_FAMILY 1
#else
#define HAS_FAMILY 0
#endif

static uint8_t* block[BLOCK_COUNT];

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

// Resident bytes, those in huge pages, and the mappings, when a wait begins.
typedef struct wait_s {
  size_t resident, huge, areas;
  uint64_t start_ms;
} wait_t;

static wait_t wait_begin(void) {
  return (wait_t){proc_resident(), huge_bytes(), proc_areas(), load_now_ms()};
}

// More of it is in huge pages now.
static bool wait_is_over(const wait_t* wait) {
  load_alive();
  return huge_bytes() >= wait->huge + RISE || load_now_ms() - wait->start_ms >= TIME_MS;
}

static void wait_end(const wait_t* wait, const char* what) {
  const size_t resident = proc_resident();
  const size_t huge = huge_bytes();
  printf("FIGURE %s: %zu MiB in huge pages after %zu ms, %zu before; resident %zu KiB, %zu "
         "before\n",
         what, huge / LOAD_MIB, (size_t)(load_now_ms() - wait->start_ms), wait->huge / LOAD_MIB,
         resident / LOAD_KIB, wait->resident / LOAD_KIB);
  CHECK_SAY(huge >= wait->huge + RISE, "%zu KiB in huge pages, %zu before", huge / LOAD_KIB,
            wait->huge / LOAD_KIB);
  CHECK_SAY(resident <= wait->resident + SLACK, "%zu KiB resident, %zu before", resident / LOAD_KIB,
            wait->resident / LOAD_KIB);
  CHECK_SAY(proc_areas() <= wait->areas + 8, "%zu areas are mapped, %zu before", proc_areas(),
            wait->areas);
}

static void expect_all_back(const wait_t* wait) {
  mi_collect(true);
  CHECK_SAY(proc_resident() <= wait->resident / 4, "%zu KiB stay resident",
            proc_resident() / LOAD_KIB);
}

// Small blocks, many of which are replaced.
static void small_blocks(uint64_t* state) {
  for (size_t i = 0; i < BLOCK_COUNT; i++) block[i] = make(i);
  mi_option_set(mi_option_allow_thp, 1);
  const wait_t wait = wait_begin();
  while (!wait_is_over(&wait)) {
    for (size_t n = 0; n < 20000; n++) {
      const size_t i = random_below(state, BLOCK_COUNT);
      load_verify(block[i], BLOCK_SIZE, (uint8_t)i);
      free(block[i]);
      block[i] = make(i);
    }
  }
  wait_end(&wait, "old heap of small blocks");
  for (size_t i = 0; i < BLOCK_COUNT; i++) {
    load_verify(block[i], BLOCK_SIZE, (uint8_t)i);
    free(block[i]);
  }
  expect_all_back(&wait);
}

// What a program does beside them, with blocks for which fresh memory comes in small pages.
static void work(void) {
  for (size_t i = 0; i < 20000; i++) load_drop(load_make(OTHER_SIZE + i), OTHER_SIZE + i);
}

// What a program does beside large blocks that stay.
typedef enum rest_e { REST_WORKS, REST_IDLES, REST_FORKS } rest_t;

static const char* const rest_name[] = {"old heap of large blocks", "the same of an idle program",
                                        "the same after a child is gone"};

// A child shares all memory for some time: none of it is copied.
static void share(const wait_t* wait) {
  int life[2];
  CHECK(pipe(life) == 0);
  const pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    close(life[1]);
    _exit((int)read(life[0], &(char){0}, 1));
  }
  while (load_now_ms() < wait->start_ms + CHILD_MS) work();
  const size_t huge = huge_bytes();
  CHECK_SAY(huge < wait->huge + RISE, "%zu KiB in huge pages beside a child, %zu before",
            huge / LOAD_KIB, wait->huge / LOAD_KIB);
  close(life[1]);
  close(life[0]);
  int status = -1;
  CHECK(waitpid(child, &status, 0) == child && status == 0);
}

// Large blocks that are written and stay, and of which every fourth is not used.
static void large_blocks(rest_t rest) {
  uint8_t* large[LARGE_COUNT];
  mi_option_set(mi_option_allow_thp, 0);
  for (size_t i = 0; i < LARGE_COUNT; i++) {
    CHECK((large[i] = (uint8_t*)malloc(LARGE_SIZE)) != NULL);
    if (i % 4 != 0) memset(large[i], (int)i, LARGE_SIZE);
  }
  work();
  mi_option_set(mi_option_allow_thp, 1);
  const wait_t wait = wait_begin();
  if (rest == REST_FORKS) share(&wait);
  while (!wait_is_over(&wait)) {
    if (rest != REST_IDLES || load_now_ms() < wait.start_ms + WORK_MS) {
      work();
    } else {
      load_wait_ms(10);
    }
  }
  wait_end(&wait, rest_name[rest]);
  for (size_t i = 0; i < LARGE_COUNT; i++) {
    for (size_t k = 0; k < LARGE_SIZE && i % 4 != 0; k++) CHECK(large[i][k] == (uint8_t)i);
    free(large[i]);
  }
  expect_all_back(&wait);
}

static void* do_nothing(void* arg) { return arg; }

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
  small_blocks(&state);
  large_blocks(REST_WORKS);
  if (HAS_FAMILY) large_blocks(REST_FORKS);
  if (load_has_purger()) {
    mi_option_set(mi_option_purge_delay, WORK_MS / 10);
    load_on_threads(1, &do_nothing, load.seed); // the first thread brings the purge thread
    large_blocks(REST_IDLES);
  }
  return 0;
}
