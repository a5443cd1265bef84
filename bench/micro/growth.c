// SPDX-License-Identifier: MIT
// growth.c - what one operation costs as the heap, the threads or the sizes grow.
//
// Published: nowhere. Each pattern is a steady state of long-running programs, held at several
// sizes; the usual benchmarks hold one size, and that a small one.
// Asks of an allocator: that a cost stays flat. A search that goes through all arenas, all free
// ranges or all threads is not seen in a small heap and dominates in a large one.
//
//   --pattern half     blocks of 64 KiB, every second one freed: pairs of malloc and free of 1 MiB,
//                      and of any size from 1 to 2 MiB
//   --pattern random   blocks of 1 to 200 KB, each replaced once in the mean: replace one at
//                      random; the same pairs
//   --pattern bursts   no heap; blocks of 32 KiB to 1 MiB, each OS page of which is written, are
//                      all allocated and all freed, again and again: a block
//   --pattern aligned  blocks of 4 KiB at multiples of 64 KiB, 256 KiB and 1 MiB, a third of the
//                      heap's addresses each: replace one at random
//   --pattern aligned-4m  the same at multiples of 4 MiB
//   --pattern small    blocks of 16 to 2000 bytes, each replaced once in the mean: replace one at
//                      random
//   --pattern refill   blocks of 512 bytes; 15 of 16 are freed at random, then allocated again: a
//                      free, and a malloc; the same with blocks of 16 to 4000 bytes
//   --pattern threads  pairs of 2 KiB and of 200,000 bytes in one thread, while others sleep that
//                      have allocated and freed a little before
//   --pattern sizes    pairs of 16 bytes to 64 MiB in a heap of 64 MiB as `random` leaves it
//
// Prints a curve: for each point `ns_OPERATION@XUNIT N`, where XUNIT is the size of the heap
// (64MiB), how many threads there are (9threads), or the size of a pair (16B), and N is the CPU
// time of one operation of the process. `seconds` is the sum of what was timed. The heap grows in
// place from point to point. A block holds a key in its first word only, and the keys are written
// and checked while the clock stands: so a heap takes addresses, but little memory unless its
// blocks are small or it is made of huge pages, and the cost is the allocator's and not that of
// page faults. The blocks of pairs are never written.
#include "bench.h"
#include <semaphore.h>

#define GROWTH_MIB ((size_t)1 << 20)
#define GROWTH_SETS 3
#define GROWTH_FIRST_MIB 16 // smallest heap; the next is four times as large
#define GROWTH_BATCH 100 // replacements between two looks at the clock
#define GROWTH_SLEEPERS 200

// Blocks of one kind that are alive at the same time.
typedef struct growth_set_s {
  const char* operation; // name of a replacement; NULL: nothing is replaced
  size_t low, high; // sizes
  size_t alignment; // 0: that of malloc
  size_t spread; // bytes of the heap for each block
  size_t count;
  void** blocks; // room for as many as the largest heap has
} growth_set_t;

typedef struct growth_s {
  bench_args_t args;
  size_t largest_mib; // largest heap
  size_t peak_mib; // largest heap so far
  size_t count; // operations of a point
  bench_random_t random;
  uint64_t check;
  uint64_t ops;
  double seconds;
} growth_t;

static double growth_cpu_seconds(void) {
  struct timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void growth_print(growth_t* work, const char* operation, size_t x, const char* unit,
                         double seconds) {
  printf("ns_%s@%zu%s %.1f\n", operation, x, unit, seconds * 1e9 / (double)work->count);
  work->seconds += seconds;
}

static void* growth_new(growth_t* work, const growth_set_t* set) {
  const size_t size = bench_between(&work->random, set->low, set->high);
  work->ops++;
  if (set->alignment == 0) return bench_malloc(size);
  void* const p = aligned_alloc(set->alignment, size);
  if (p == NULL) bench_fail("aligned_alloc returned NULL");
  return p;
}

// The key of a block is its place.
static uint64_t growth_key(size_t index) { return (index + 1) * UINT64_C(0x9E3779B97F4A7C15); }

static void growth_mark(const growth_set_t* set, size_t index) {
  *(volatile uint64_t*)set->blocks[index] = growth_key(index);
}

static void growth_verify(growth_t* work, const growth_set_t* set, size_t index) {
  const uint64_t key = *(volatile uint64_t*)set->blocks[index];
  if (key != growth_key(index)) bench_fail("the contents of a block have changed");
  work->check += key;
}

static void growth_init(const growth_t* work, growth_set_t* set) {
  const size_t room = work->largest_mib * GROWTH_MIB / set->spread;
  set->blocks = (void**)bench_malloc(room * sizeof(void*));
  set->count = 0;
}

// Ends the workload before an allocator takes all memory of the machine: there is one that makes a
// huge page resident for each aligned block.
static void growth_limit(const growth_t* work) {
  if (bench_resident_kib() > 1024 * (2 * work->peak_mib + 512)) {
    bench_fail("more than twice the size of the largest heap is resident");
  }
}

// Fill the gaps, and append blocks until the heap has this size.
static void growth_fill(growth_t* work, growth_set_t* set, size_t mib) {
  if (mib > work->peak_mib) work->peak_mib = mib;
  for (size_t i = 0; i < set->count; i++) {
    if (set->blocks[i] != NULL) continue;
    set->blocks[i] = growth_new(work, set);
    growth_mark(set, i);
  }
  for (; set->count < mib * GROWTH_MIB / set->spread; set->count++) {
    set->blocks[set->count] = growth_new(work, set);
    growth_mark(set, set->count);
    if (set->count % GROWTH_BATCH == 0) growth_limit(work);
  }
}

// A batch of replacements at random places; the CPU time of malloc and free.
static double growth_replace_batch(growth_t* work, growth_set_t* set, size_t count) {
  size_t place[GROWTH_BATCH];
  for (size_t i = 0; i < count; i++) {
    place[i] = bench_below(&work->random, set->count);
    growth_verify(work, set, place[i]);
  }
  const double start = growth_cpu_seconds();
  for (size_t i = 0; i < count; i++) {
    free(set->blocks[place[i]]);
    set->blocks[place[i]] = growth_new(work, set);
  }
  const double seconds = growth_cpu_seconds() - start;
  for (size_t i = 0; i < count; i++) growth_mark(set, place[i]);
  return seconds;
}

static double growth_replace(growth_t* work, growth_set_t* set, size_t count) {
  double seconds = 0;
  for (size_t done = 0; done < count; done += GROWTH_BATCH) {
    const size_t rest = count - done;
    seconds += growth_replace_batch(work, set, rest < GROWTH_BATCH ? rest : GROWTH_BATCH);
    growth_limit(work);
  }
  return seconds;
}

static double growth_pairs_between(growth_t* work, size_t low, size_t high) {
  void* volatile seen; // so that no compiler drops the pair
  const double start = growth_cpu_seconds();
  for (size_t i = 0; i < work->count; i++) {
    seen = bench_malloc(low == high ? low : bench_between(&work->random, low, high));
    free(seen);
  }
  work->ops += work->count;
  return growth_cpu_seconds() - start;
}

static double growth_pairs(growth_t* work, size_t size) {
  return growth_pairs_between(work, size, size);
}

static void growth_print_large_pairs(growth_t* work, size_t mib) {
  growth_print(work, "pair_1m", mib, "MiB", growth_pairs(work, GROWTH_MIB));
  growth_print(work, "pair_any", mib, "MiB",
               growth_pairs_between(work, GROWTH_MIB, 2 * GROWTH_MIB));
}

static void growth_drop_all(growth_t* work, growth_set_t* set) {
  for (size_t i = 0; i < set->count; i++) {
    if (set->blocks[i] == NULL) continue;
    growth_verify(work, set, i);
    free(set->blocks[i]);
  }
  free(set->blocks);
}

static void growth_half(growth_t* work) {
  growth_set_t set = {.low = 65536, .high = 65536, .spread = 65536};
  growth_init(work, &set);
  for (size_t mib = GROWTH_FIRST_MIB; mib <= work->largest_mib; mib *= 4) {
    growth_fill(work, &set, mib);
    for (size_t i = 0; i < set.count; i += 2) {
      growth_verify(work, &set, i);
      free(set.blocks[i]);
      set.blocks[i] = NULL;
    }
    growth_print_large_pairs(work, mib);
  }
  growth_drop_all(work, &set);
}

// Heaps in which blocks of each set are replaced; and pairs of 1 MiB, if wanted.
static void growth_heap(growth_t* work, growth_set_t* sets, size_t set_count, bool is_paired) {
  for (size_t i = 0; i < set_count; i++) growth_init(work, &sets[i]);
  for (size_t mib = GROWTH_FIRST_MIB; mib <= work->largest_mib; mib *= 4) {
    for (size_t i = 0; i < set_count; i++) {
      growth_fill(work, &sets[i], mib);
      growth_replace(work, &sets[i], sets[i].count);
    }
    for (size_t i = 0; i < set_count; i++) {
      growth_print(work, sets[i].operation, mib, "MiB",
                   growth_replace(work, &sets[i], work->count));
    }
    if (is_paired) growth_print_large_pairs(work, mib);
  }
  for (size_t i = 0; i < set_count; i++) growth_drop_all(work, &sets[i]);
}

static const growth_set_t growth_random_set = {
    .operation = "replace", .low = 1000, .high = 200000, .spread = 100500};

static void growth_random_sizes(growth_t* work) {
  growth_set_t set = growth_random_set;
  growth_heap(work, &set, 1, true);
}

static void growth_aligned(growth_t* work) {
  static const char* const operations[GROWTH_SETS] = {"replace_64k", "replace_256k", "replace_1m"};
  growth_set_t sets[GROWTH_SETS];
  for (size_t i = 0; i < GROWTH_SETS; i++) {
    const size_t alignment = (size_t)65536 << 2 * i;
    sets[i] = (growth_set_t){.operation = operations[i],
                             .low = 4096,
                             .high = 4096,
                             .alignment = alignment,
                             .spread = GROWTH_SETS * alignment};
  }
  growth_heap(work, sets, GROWTH_SETS, false);
}

// Apart from the other alignments, because not every allocator knows it.
static void growth_aligned_4m(growth_t* work) {
  const size_t alignment = 4 * GROWTH_MIB;
  growth_set_t set = {.operation = "replace_4m",
                      .low = 4096,
                      .high = 4096,
                      .alignment = alignment,
                      .spread = alignment};
  growth_heap(work, &set, 1, false);
}

static void growth_small(growth_t* work) {
  growth_set_t set = {.operation = "replace", .low = 16, .high = 2000, .spread = 1008};
  growth_heap(work, &set, 1, false);
}

// Free `count` blocks, each at random among those that are left, and more than GROWTH_BATCH are.
static double growth_drop_random(growth_t* work, growth_set_t* set, size_t count) {
  double seconds = 0;
  for (size_t done = 0; done < count;) {
    void* batch[GROWTH_BATCH];
    size_t length = 0;
    for (; length < GROWTH_BATCH && done < count; done++) {
      size_t place;
      do place = bench_below(&work->random, set->count);
      while (set->blocks[place] == NULL);
      growth_verify(work, set, place);
      batch[length++] = set->blocks[place];
      set->blocks[place] = NULL;
    }
    const double start = growth_cpu_seconds();
    for (size_t i = 0; i < length; i++) free(batch[i]);
    seconds += growth_cpu_seconds() - start;
  }
  return seconds;
}

// Fill the gaps, with the clock running while nothing but malloc is called.
static double growth_fill_again(growth_t* work, growth_set_t* set) {
  double seconds = 0;
  for (size_t i = 0; i < set->count;) {
    size_t place[GROWTH_BATCH];
    size_t length = 0;
    for (; length < GROWTH_BATCH && i < set->count; i++) {
      if (set->blocks[i] == NULL) place[length++] = i;
    }
    const double start = growth_cpu_seconds();
    for (size_t k = 0; k < length; k++) set->blocks[place[k]] = growth_new(work, set);
    seconds += growth_cpu_seconds() - start;
    for (size_t k = 0; k < length; k++) growth_mark(set, place[k]);
  }
  return seconds;
}

// What malloc finds is a heap of pages that are alike: nearly empty, and their memory may have gone
// back to the system. One with a search among them is quadratic here.
static void growth_refill_set(growth_t* work, growth_set_t* set, const char* free_name) {
  growth_init(work, set);
  for (size_t mib = GROWTH_FIRST_MIB; mib <= work->largest_mib; mib *= 4) {
    growth_fill(work, set, mib);
    work->count = set->count / 16 * 15;
    growth_print(work, free_name, mib, "MiB", growth_drop_random(work, set, work->count));
    growth_print(work, set->operation, mib, "MiB", growth_fill_again(work, set));
  }
  growth_drop_all(work, set);
}

static void growth_refill(growth_t* work) {
  growth_set_t one = {.operation = "malloc", .low = 512, .high = 512, .spread = 512};
  growth_set_t any = {.operation = "malloc_any", .low = 16, .high = 4000, .spread = 2008};
  growth_refill_set(work, &one, "free");
  growth_refill_set(work, &any, "free_any");
}

static void growth_sizes(growth_t* work) {
  growth_set_t set = growth_random_set;
  growth_init(work, &set);
  growth_fill(work, &set, work->largest_mib);
  growth_replace(work, &set, set.count);
  for (size_t size = 16; size <= 64 * GROWTH_MIB; size *= 4) {
    growth_print(work, "pair", size, "B", growth_pairs(work, size));
  }
  growth_drop_all(work, &set);
}

// Page faults are what a burst costs, so that the clock runs while the blocks are written.
static void growth_bursts(growth_t* work) {
  growth_set_t set = {.low = 32768, .high = GROWTH_MIB, .spread = (GROWTH_MIB + 32768) / 2};
  growth_init(work, &set);
  const size_t rounds = bench_pick(work->args, 2, 10, 30);
  for (size_t mib = GROWTH_FIRST_MIB; mib <= work->largest_mib; mib *= 4) {
    set.count = mib * GROWTH_MIB / set.spread;
    const double start = growth_cpu_seconds();
    for (size_t round = 0; round < rounds; round++) {
      for (size_t i = 0; i < set.count; i++) {
        const size_t size = bench_between(&work->random, set.low, set.high);
        set.blocks[i] = bench_malloc(size);
        for (size_t at = 4096; at < size; at += 4096) ((volatile char*)set.blocks[i])[at] = 1;
        growth_mark(&set, i);
      }
      for (size_t i = 0; i < set.count; i++) {
        growth_verify(work, &set, i);
        free(set.blocks[i]);
      }
    }
    work->count = rounds * set.count;
    work->ops += work->count;
    growth_print(work, "block", mib, "MiB", growth_cpu_seconds() - start);
  }
  free(set.blocks);
}

static sem_t growth_is_asleep;
static sem_t growth_wake;

static void growth_wait(sem_t* semaphore) {
  while (sem_wait(semaphore) != 0) {
  }
}

// A thread that has allocated and freed a little, and sleeps.
static void* growth_sleep(void* argument) {
  (void)argument;
  void* blocks[100];
  for (size_t i = 0; i < 100; i++) {
    const size_t size = i % 10 == 0 ? 200000 : 16 + 20 * i;
    blocks[i] = bench_malloc(size);
    bench_mark(blocks[i], size, i);
  }
  for (size_t i = 0; i < 100; i++) free(blocks[i]);
  sem_post(&growth_is_asleep);
  growth_wait(&growth_wake);
  return NULL;
}

static void growth_threads(growth_t* work) {
  static const size_t others[] = {0, 8, 31, 32, 40, 100, GROWTH_SLEEPERS};
  const size_t points = bench_pick(work->args, 3, 7, 7);
  pthread_t ids[GROWTH_SLEEPERS];
  size_t count = 0;
  sem_init(&growth_is_asleep, 0, 0);
  sem_init(&growth_wake, 0, 0);
  for (size_t i = 0; i < points; i++) {
    for (; count < others[i]; count++) {
      if (pthread_create(&ids[count], NULL, growth_sleep, NULL) != 0) {
        bench_fail("a thread could not be started");
      }
      growth_wait(&growth_is_asleep);
    }
    growth_print(work, "pair_2k", count + 1, "threads", growth_pairs(work, 2048));
    growth_print(work, "pair_200k", count + 1, "threads", growth_pairs(work, 200000));
  }
  for (size_t i = 0; i < count; i++) sem_post(&growth_wake);
  for (size_t i = 0; i < count; i++) pthread_join(ids[i], NULL);
  work->ops += 100 * count;
  work->check += count;
}

int main(int argc, char** argv) {
  const bench_args_t args = bench_parse(argc, argv);
  const bool has_pattern = args.rest + 2 == argc && strcmp(argv[args.rest], "--pattern") == 0;
  const char* const pattern = has_pattern ? argv[args.rest + 1] : "";
  growth_t work = {.args = args,
                   .largest_mib = bench_pick(args, GROWTH_FIRST_MIB, 1024, 4096),
                   .count = bench_pick(args, 200, 10000, 20000),
                   .random = {1}};
  if (strcmp(pattern, "half") == 0) {
    work.largest_mib = bench_pick(args, GROWTH_FIRST_MIB, 1024, 16384);
    growth_half(&work);
  } else if (strcmp(pattern, "random") == 0) {
    growth_random_sizes(&work);
  } else if (strcmp(pattern, "aligned") == 0) {
    growth_aligned(&work);
  } else if (strcmp(pattern, "aligned-4m") == 0) {
    growth_aligned_4m(&work);
  } else if (strcmp(pattern, "small") == 0) {
    work.largest_mib = bench_pick(args, GROWTH_FIRST_MIB, 256, 4096); // all of it is touched
    growth_small(&work);
  } else if (strcmp(pattern, "refill") == 0) {
    work.largest_mib = bench_pick(args, GROWTH_FIRST_MIB, 256, 4096); // all of it is touched
    growth_refill(&work);
  } else if (strcmp(pattern, "bursts") == 0) {
    work.largest_mib = bench_pick(args, GROWTH_FIRST_MIB, 256, 1024); // all of it is touched
    growth_bursts(&work);
  } else if (strcmp(pattern, "threads") == 0) {
    growth_threads(&work);
  } else if (strcmp(pattern, "sizes") == 0) {
    work.largest_mib = 64;
    growth_sizes(&work);
  } else {
    bench_fail(
        "wanted: --pattern half|random|aligned|aligned-4m|small|refill|bursts|threads|sizes");
  }
  printf("seconds %.6f\n", work.seconds);
  bench_report(work.check, work.ops);
  return 0;
}
