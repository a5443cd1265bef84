// SPDX-License-Identifier: MIT
// A program looks at its statistics to find out where its memory is. If this fails, `committed` is
// not what the system charges the process for.
//
// In each state the growth since the start is compared with the kernel's: anonymous memory in
// /proc/self/smaps_rollup, which is ours but for what the program touched before. Each list of
// states is a process of its own.
#include <fcntl.h>
#include <pthread.h>
#include <sys/wait.h>

#include <mimalloc-stats.h>

#include "load.h"

#define BYTES (24 * LOAD_MIB)
#define BLOCKS_MAX ((size_t)400000)
#define THREADS 4
#define STACK_SIZE (128 * LOAD_KIB)

// What they may differ by: a part, and an amount (descriptors are counted in whole OS pages). With
// tiny constants each OS page of memory has a descriptor, and where blocks come and go at addresses
// far apart, more of these are touched than are counted.
#define PART_MAX 50
#define PART_MAX_TINY 20
#define AMOUNT_MAX (256 * LOAD_KIB)

static struct {
  void* block[BLOCKS_MAX];
  size_t size[BLOCKS_MAX];
  size_t count;
  uint64_t random;
} set;

static char stack[THREADS][STACK_SIZE] __attribute__((aligned(4096)));

// Of the start; and the most that there was in any state.
static size_t first_system, first_ours, most_system;

static size_t charged_by_system(void) {
  static char text[8192];
  const int file = open("/proc/self/smaps_rollup", O_RDONLY | O_CLOEXEC);
  if (file < 0) SKIP("/proc/self/smaps_rollup cannot be read");
  const ssize_t length = read(file, text, sizeof(text) - 1);
  CHECK(length > 0);
  text[length] = 0;
  close(file);
  const char* const line = strstr(text, "\nAnonymous:");
  CHECK(line != NULL);
  return strtoul(line + strlen("\nAnonymous:"), NULL, 10) * LOAD_KIB;
}

static mi_stat_count_t charged_by_us(void) {
  mi_stats_t_decl(stats);
  CHECK(mi_stats_get(&stats));
  return stats.committed;
}

static void compare(const char* state, const char* what, size_t ours, size_t system) {
  const size_t off = ours > system ? ours - system : system - ours;
  const bool is_tiny = mi_good_size(66000) != 73728;
  const size_t part = system / (is_tiny ? PART_MAX_TINY : PART_MAX);
  CHECK_SAY(off <= (part > AMOUNT_MAX ? part : AMOUNT_MAX), "%s, %s: %zu KiB, the system says %zu",
            state, what, ours / LOAD_KIB, system / LOAD_KIB);
}

static void begin(void) {
  first_system = charged_by_system();
  first_ours = (size_t)charged_by_us().current;
  most_system = 0;
}

static void look(const char* state) {
  const mi_stat_count_t committed = charged_by_us();
  const size_t system = charged_by_system() - first_system;
  if (system > most_system) most_system = system;
  compare(state, "now", (size_t)committed.current - first_ours, system);
  CHECK(committed.peak >= committed.current && committed.total >= committed.peak);
}

// The most was in use while a state was looked at.
static void look_at_peak(const char* state) {
  compare(state, "peak", (size_t)charged_by_us().peak - first_ours, most_system);
}

static void keep(void* p, size_t size) {
  CHECK(set.count < BLOCKS_MAX);
  set.size[set.count] = size;
  set.block[set.count++] = p;
}

// Contents of all OS pages of the block.
static void add(size_t size) { keep(load_make(size), size); }

static void fill(size_t bytes, size_t smallest, size_t largest) {
  for (size_t have = 0; have < bytes;) {
    const size_t size = smallest + random_below(&set.random, largest - smallest + 1);
    add(size);
    have += size;
  }
}

// Free all but one in `part`, at random; with 0 all.
static void drop(size_t part) {
  size_t kept = 0;
  for (size_t i = 0; i < set.count; i++) {
    if (part != 0 && random_below(&set.random, part) == 0) {
      set.size[kept] = set.size[i];
      set.block[kept++] = set.block[i];
    } else {
      load_drop(set.block[i], set.size[i]);
    }
  }
  set.count = kept;
}

// -- the lists of states --

static void few_blocks(void) {
  for (size_t size = 16; size <= 4096; size += 16) add(size);
  look("few blocks of each size");
  look_at_peak("few blocks of each size");
}

static void small_blocks(void) {
  fill(BYTES / 4, 16, 1000);
  look("some small blocks");
  fill(BYTES, 16, 1000);
  look("more small blocks");
  drop(0);
  look("freed, and not gone back");
  look_at_peak("freed");
  mi_collect(true);
  look("gone back");
  fill(BYTES / 4, 16, 1000);
  look("small blocks again");
}

// Blocks larger than an OS page, in pages that they do not fill.
static void middling_blocks(void) {
  fill(BYTES, 4000, 60000);
  look("middling blocks");
  drop(2);
  look("half of the middling blocks");
  fill(BYTES, 4000, 60000);
  look("other middling blocks");
  look_at_peak("other middling blocks");
  drop(0);
  mi_collect(true);
  look("middling blocks gone back");
}

static void large_blocks(void) {
  fill(3 * BYTES, 600000, 9000000);
  look("large blocks");
  drop(2);
  fill(BYTES, 600000, 9000000);
  look("other large blocks");
  drop(2);
  mi_collect(true);
  look("some large blocks");
}

// A buffer that grows has room behind it, and moves.
static void growing_block(void) {
  size_t size = 1000;
  void* p = load_make(size);
  for (; size < 2 * BYTES; size += size / 4) {
    p = realloc(p, size);
    CHECK(p != NULL);
    load_fill(p, size, (uint8_t)size);
  }
  look("a block has grown");
  free(p);
  look("and is free");
  mi_collect(true);
  look("and has gone back");
}

// Buffers that cannot grow in place, and others of the size that they had.
static void moved_blocks(void) {
  const size_t small = LOAD_MIB, large = 3 * LOAD_MIB;
  for (size_t i = 0; i < 30; i++) {
    const size_t size = small + i % 3 * 64 * LOAD_KIB;
    void* p = load_make(size);
    add(size);
    p = realloc(p, large);
    CHECK(p != NULL);
    load_fill(p, large, (uint8_t)large);
    keep(p, large);
    add(size);
  }
  look("blocks have moved");
  drop(2);
  look("half of them");
  mi_collect(true);
  look("and what was free has gone back");
}

static size_t any_size(size_t largest_shift) {
  const size_t size = (size_t)16 << random_below(&set.random, largest_shift - 4);
  return size + random_below(&set.random, size);
}

// All that malloc and its relatives do, in any order.
static void anything(void) {
  enum { SLOTS = 300, TURNS = 4000, LOOK_EACH = 100, LARGEST_SHIFT = 22 };
  for (set.count = 0; set.count < SLOTS;) add(any_size(LARGEST_SHIFT));
  for (size_t turn = 1; turn <= TURNS; turn++) {
    const size_t i = random_below(&set.random, SLOTS);
    size_t size = any_size(LARGEST_SHIFT);
    switch (random_below(&set.random, 8)) {
      case 0:
      case 1:
        load_drop(set.block[i], set.size[i]);
        set.block[i] = malloc(size);
        break;
      case 2:
        load_drop(set.block[i], set.size[i]);
        set.block[i] = calloc(1, size);
        break;
      case 3:
        load_drop(set.block[i], set.size[i]);
        set.block[i] = aligned_alloc((size_t)16 << random_below(&set.random, 13), size);
        break;
      case 4:
        size = set.size[i] / 2 + 1;
        set.block[i] = realloc(set.block[i], size);
        break;
      default:
        if (set.size[i] < (size_t)1 << LARGEST_SHIFT) size = set.size[i] + set.size[i] / 3 + 1;
        set.block[i] = realloc(set.block[i], size);
    }
    CHECK(set.block[i] != NULL);
    set.size[i] = size;
    load_fill(set.block[i], size, (uint8_t)size);
    if (turn % (LOOK_EACH * 7) == 0) mi_collect(turn % 2 == 0);
    if (turn % LOOK_EACH == 0) look("anything");
  }
}

// Holes: hole.c.
static void sparse_pages(void) {
  fill(4 * BYTES, 1024, 2000);
  look("blocks for holes");
  drop(20);
  look("few are left");
  look_at_peak("few are left");
  fill(BYTES, 1024, 2000);
  look("holes are filled");
  drop(0);
  mi_collect(true);
  look("all holes are gone");
}

// Enough for huge pages: huge.c.
static void large_heap(void) {
  fill(6 * BYTES, 200, 4000);
  look("a large heap");
  drop(3);
  fill(4 * BYTES, 16, 2000);
  look("a large heap that changed");
}

// Their own structures count.
static void heaps(void) {
  enum { HEAPS = 200 };
  mi_heap_t* heap[HEAPS];
  for (size_t i = 0; i < HEAPS; i++) {
    heap[i] = mi_heap_new();
    CHECK(heap[i] != NULL);
    for (size_t size = 40; size < 1000; size += 40) {
      void* const p = mi_heap_malloc(heap[i], size);
      CHECK(p != NULL);
      load_fill(p, size, (uint8_t)i);
    }
  }
  look("many heaps");
  look_at_peak("many heaps");
  for (size_t i = 0; i < HEAPS; i++) mi_heap_destroy(heap[i]);
  look("many heaps are gone");
  mi_collect(true);
  look("and their memory");
}

static void* thread_main(void* unused) {
  (void)unused;
  enum { COUNT = 1000 };
  void* block[COUNT];
  for (size_t i = 0; i < COUNT; i++) block[i] = load_make(4000);
  for (size_t i = 0; i < COUNT; i++) {
    if (i % 8 != 0) load_drop(block[i], 4000);
  }
  return NULL;
}

static void threads(void) {
  pthread_t thread[THREADS];
  pthread_attr_t attributes;
  for (size_t i = 0; i < THREADS; i++) {
    pthread_attr_init(&attributes);
    CHECK(pthread_attr_setstack(&attributes, stack[i], STACK_SIZE) == 0);
    CHECK(pthread_create(&thread[i], &attributes, &thread_main, NULL) == 0);
    pthread_attr_destroy(&attributes);
  }
  for (size_t i = 0; i < THREADS; i++) pthread_join(thread[i], NULL);
  look("threads have ended");
  mi_collect(true);
  look("and their memory is collected");
}

static const struct {
  const char* name;
  void (*run)(void);
} list[] = {
    {"few blocks", &few_blocks},     {"small blocks", &small_blocks},
    {"large blocks", &large_blocks}, {"middling blocks", &middling_blocks},
    {"growing", &growing_block},     {"moved blocks", &moved_blocks},
    {"anything", &anything},         {"sparse pages", &sparse_pages},
    {"large heap", &large_heap},     {"heaps", &heaps},
    {"threads", &threads},
};

static void run(size_t i, uint64_t seed) {
  set.random = seed + i;
  // The program's own memory is touched before.
  memset(set.block, 1, sizeof(set.block));
  memset(set.size, 1, sizeof(set.size));
  memset(stack, 1, sizeof(stack));
  free(load_make(100));
  charged_by_system();
  begin();
  list[i].run();
}

int main(int argc, char** argv) {
  const load_t load = load_begin(argc, argv);
  if (LOAD_IS_SANITIZED) SKIP("the sanitizer's memory is the process's");
  for (size_t i = 0; i < sizeof(list) / sizeof(list[0]); i++) {
    load_alive();
    const pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
      run(i, load.seed);
      _exit(0);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child);
    if (WIFEXITED(status) && WEXITSTATUS(status) == SKIPPED) return SKIPPED;
    CHECK_SAY(status == 0, "%s: status %#x", list[i].name, status);
  }
  printf("ok\n");
  return 0;
}
