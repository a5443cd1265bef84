// SPDX-License-Identifier: MIT
// What a program needs at a time decides what it takes from the system, not the sum of what its
// phases need: memory that a phase freed goes back before the next one touches fresh memory. If
// this fails, a program in a small container is killed although it never uses more than fits, and
// a server that was busy once stays large.
//
// Each pattern is a child of its own, whose peak of resident memory is printed beside the most that
// lived. What threads need together depends on when each of them runs: a pattern with threads runs
// several times, and the bound is for the median. Arguments: --only N runs the pattern of that
// number alone, --rounds N repeats its phases.
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "load_threads.h"

#define LIVE (40 * LOAD_MIB)
#define THREADS 4
#define MEAN_MIN 256 // bytes, of the blocks of a phase

// What may wait while fresh memory is touched (4 MiB and an eighth of what is in use), and what is
// not full: pages, tables, stacks. Threads hold pages for each size that they use.
#define PEAK_MAX (LIVE + LIVE / 8 + 4 * LOAD_MIB + 20 * LOAD_MIB)
#define THREADS_MAX (THREADS * 5 * LOAD_MIB)
// One run in 200 is beyond the bound on a busy machine; the median of five is so once in millions.
#define THREADS_RUNS 5

typedef struct {
  size_t least, most; // bytes of a block
} sizes_t;

static const sizes_t small = {64, 512};
static const sizes_t middling = {1000, 30000};
static const sizes_t pages = {40000, 200000};
static const sizes_t large = {LOAD_MIB, 3 * LOAD_MIB};

static size_t rounds = 2;

typedef struct {
  void** block;
  size_t* size;
  size_t count, max;
  uint64_t seed;
} set_t;

static void take(set_t* set, sizes_t sizes, size_t bytes) {
  size_t taken = 0;
  set->count = 0;
  while (taken < bytes) {
    const size_t size = sizes.least + random_below(&set->seed, sizes.most - sizes.least + 1);
    if (taken + size > bytes) break;
    CHECK_SAY(set->count < set->max, "more blocks than thought");
    set->block[set->count] = load_make(size);
    set->size[set->count++] = size;
    taken += size;
  }
}

static void drop(set_t* set) {
  for (size_t i = 0; i < set->count; i++) load_drop(set->block[i], set->size[i]);
  set->count = 0;
}

// The lists are no part of what is measured: they are touched before.
static set_t set_of(size_t max, uint64_t seed) {
  set_t set = {calloc(max, sizeof(void*)), calloc(max, sizeof(size_t)), 0, max, seed};
  CHECK(set.block != NULL && set.size != NULL);
  return set;
}

static void run_phases(const sizes_t* phases, size_t count, size_t bytes, uint64_t seed) {
  set_t set = set_of(bytes / MEAN_MIN, seed);
  for (size_t i = 0; i < rounds * count; i++) {
    load_alive();
    take(&set, phases[i % count], bytes);
    drop(&set);
  }
  free(set.block);
  free(set.size);
}

static void small_then_large(uint64_t seed) {
  const sizes_t phases[] = {small, large};
  run_phases(phases, 2, LIVE, seed);
}

static void large_then_small(uint64_t seed) {
  const sizes_t phases[] = {large, small};
  run_phases(phases, 2, LIVE, seed);
}

static void all_sizes(uint64_t seed) {
  const sizes_t phases[] = {small, pages, middling, large, pages, small};
  run_phases(phases, 6, LIVE, seed);
}

// A part of each phase lives on through the next.
static void overlapping(uint64_t seed) {
  const sizes_t phases[] = {small, pages, middling, large};
  set_t set[2] = {set_of(LIVE / 2 / MEAN_MIN, seed), set_of(LIVE / 2 / MEAN_MIN, seed + 1)};
  for (size_t i = 0; i < 4 * rounds; i++) {
    load_alive();
    drop(&set[i % 2]);
    take(&set[i % 2], phases[i % 4], LIVE / 2);
  }
}

static void* thread_main(void* seed) {
  const sizes_t phases[] = {small, large, middling, pages};
  run_phases(phases, 4, LIVE / THREADS, *(uint64_t*)seed);
  return NULL;
}

static void threads(uint64_t seed) { load_on_threads(THREADS, &thread_main, seed); }

// One thread after the other: what one leaves, the next one takes, or it goes back.
static void one_after_the_other(uint64_t seed) {
  for (size_t i = 0; i < 4 * rounds; i++) {
    load_alive();
    uint64_t seeds = seed + i;
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, &thread_main, &seeds) == 0);
    pthread_join(thread, NULL);
  }
}

// Busy once, then work that needs hardly anything.
#define IDLE_MS 700
#define IDLE_MAX (40 * LOAD_MIB)

static void busy_then_quiet(uint64_t seed) {
  const sizes_t phases[] = {small, pages, large};
  const size_t before = load_rss();
  run_phases(phases, 3, LIVE, seed);
  const uint64_t end = load_now_ms() + IDLE_MS;
  const sizes_t requests = {100, 4000};
  set_t set = set_of(LOAD_MIB / MEAN_MIN, seed);
  while (load_now_ms() < end) {
    take(&set, requests, LOAD_MIB);
    drop(&set);
    load_wait_ms(5);
  }
  const size_t after = load_rss();
  printf("  resident %zu KiB more after %d ms of little work\n", (after - before) / LOAD_KIB,
         IDLE_MS);
  CHECK_SAY(after <= before + load_bound(IDLE_MAX), "%zu KiB stay", (after - before) / LOAD_KIB);
}

static const struct {
  const char* name;
  void (*run)(uint64_t seed);
  size_t extra; // bytes above the bound of one thread
  size_t runs; // odd, at most THREADS_RUNS
} pattern[] = {
    {"small then large", &small_then_large, 0, 1},
    {"large then small", &large_then_small, 0, 1},
    {"all sizes", &all_sizes, 0, 1},
    {"overlapping phases", &overlapping, 0, 1},
    {"threads", &threads, THREADS_MAX, THREADS_RUNS},
    {"one thread after the other", &one_after_the_other, 0, 1},
    {"busy, then quiet", &busy_then_quiet, 0, 1},
};
#define PATTERN_COUNT (sizeof(pattern) / sizeof(pattern[0]))

static size_t peak(void) {
  size_t peak_rss = 0, peak_commit = 0;
  mi_process_info(NULL, NULL, NULL, NULL, &peak_rss, NULL, &peak_commit, NULL);
  return LOAD_IS_SANITIZED ? peak_commit : peak_rss;
}

// Run a pattern in a child. Returns what its peak was above what it began with.
static size_t peak_of_run(size_t i, uint64_t seed) {
  int ends[2];
  CHECK(pipe(ends) == 0);
  const pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    const size_t before = peak();
    pattern[i].run(seed);
    const size_t bytes = peak() - before;
    CHECK(write(ends[1], &bytes, sizeof(bytes)) == (ssize_t)sizeof(bytes));
    exit(0);
  }
  close(ends[1]);
  load_alive();
  int status = 0;
  CHECK_SAY(waitpid(child, &status, 0) == child && status == 0, "pattern %zu failed", i);
  size_t bytes = 0;
  CHECK(read(ends[0], &bytes, sizeof(bytes)) == (ssize_t)sizeof(bytes));
  close(ends[0]);
  return bytes;
}

static int compare(const void* a, const void* b) {
  const size_t x = *(const size_t*)a, y = *(const size_t*)b;
  return x < y ? -1 : x > y;
}

static void check_pattern(size_t i, uint64_t seed) {
  const size_t runs = pattern[i].runs;
  size_t bytes[THREADS_RUNS];
  for (size_t run = 0; run < runs; run++) bytes[run] = peak_of_run(i, seed + run);
  qsort(bytes, runs, sizeof(bytes[0]), &compare);
  const size_t median = bytes[runs / 2];
  printf("%zu %s: peak %zu MiB for %zu\n", i, pattern[i].name, median / LOAD_MIB, LIVE / LOAD_MIB);
  fflush(stdout);
  const size_t bound = PEAK_MAX + pattern[i].extra;
  CHECK_SAY(median <= load_bound(bound), "%s: peak %zu KiB", pattern[i].name, median / LOAD_KIB);
}

int main(int argc, char** argv) {
  size_t only = PATTERN_COUNT;
  const load_argument_t own[] = {{"--only", &only}, {"--rounds", &rounds}};
  load_t load = load_begin_with(argc, argv, own, 2);
  load_skip_with_tsan();
  for (size_t i = 0; i < PATTERN_COUNT; i++) {
    if (only >= PATTERN_COUNT || i == only) check_pattern(i, load.seed);
  }
  return 0;
}
