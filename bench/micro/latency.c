// SPDX-License-Identifier: MIT
// latency.c - how long single calls of malloc and free take, as a distribution.
//
// Published: worst cases of single calls are what M. Masmano, I. Ripoll, A. Crespo, J. Real,
// "TLSF: a New Dynamic Memory Allocator for Real-Time Systems", 2004, is about; this load is
// ours.
// Asks of an allocator: no call that is much slower than the others: searches, batches of returned
// blocks, locks, and calls of the system all show in the tail, which a mean hides.
// Two threads (or as many as told) each replace random blocks of a live set of 10000: 16 bytes to
// 32 KiB, each power of two as likely as the next, one in 1000 is 1 MiB. Each call is timed
// alone; writing the block is not, so the faults of new pages belong to malloc only where the
// allocator itself touches them.
//
// With --large a live set is 300000 blocks, which are 3.2 GiB in two threads. When all are there,
// each thread goes on with the blocks of another one, frees half of them, and then frees a random
// one that is there or allocates one that is not. A large heap, memory that goes back, and blocks
// of other threads: what an allocator does in one call for all of it shows here and nowhere else.
//
// Counted in a histogram with 32 steps per power of two, so 3 % wide; a value printed is the
// middle of its step. The timer's own time is included: its median is timer_ns. Times the system
// took from a thread (interrupts, other programs) are in the tail too: compare several runs,
// never one.
//
// Prints malloc_ns_p50, _p99, _p99_9, _p99_99, _max; free_ns_... ; and ns_... over both.
#include "bench.h"
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#define LATENCY_STEPS 32
#define LATENCY_POWER 5
#define LATENCY_BUCKETS ((64 - LATENCY_POWER + 1) * LATENCY_STEPS)

typedef struct latency_histogram_s {
  uint64_t count[LATENCY_BUCKETS];
  uint64_t max; // ticks
} latency_histogram_t;

typedef struct latency_block_s {
  unsigned char* start;
  size_t size;
} latency_block_t;

typedef struct latency_s {
  latency_histogram_t mallocs;
  latency_histogram_t frees;
  latency_histogram_t timer; // two readings in a row
  latency_block_t* blocks;
  size_t live;
  size_t count;
  uint64_t seed;
  uint64_t check;
  uint64_t ops;
  pthread_barrier_t* barrier; // with --large
  const struct latency_s* next; // whose blocks the thread goes on with
} latency_t;

// Ticks of a clock that is cheap to read; nothing moves across the reading.
static inline uint64_t latency_ticks(void) {
#if defined(__x86_64__)
  _mm_lfence();
  const uint64_t ticks = __rdtsc();
  _mm_lfence();
  return ticks;
#elif defined(__aarch64__)
  uint64_t ticks;
  __asm__ volatile("isb\n\tmrs %0, cntvct_el0\n\tisb" : "=r"(ticks)::"memory");
  return ticks;
#else
  return bench_now_ns();
#endif
}

static size_t latency_bucket(uint64_t ticks) {
  if (ticks < LATENCY_STEPS) return (size_t)ticks;
  const size_t power = 63u - (size_t)__builtin_clzll(ticks);
  const size_t step = (size_t)(ticks >> (power - LATENCY_POWER)) - LATENCY_STEPS;
  return (power - LATENCY_POWER + 1) * LATENCY_STEPS + step;
}

// The middle of a bucket.
static double latency_value(size_t bucket) {
  if (bucket < LATENCY_STEPS) return (double)bucket;
  const size_t shift = bucket / LATENCY_STEPS - 1;
  const size_t step = bucket % LATENCY_STEPS + LATENCY_STEPS;
  return ((double)step + 0.5) * (double)((uint64_t)1 << shift);
}

static inline void latency_add(latency_histogram_t* histogram, uint64_t ticks) {
  histogram->count[latency_bucket(ticks)]++;
  if (ticks > histogram->max) histogram->max = ticks;
}

static void latency_merge(latency_histogram_t* to, const latency_histogram_t* from) {
  for (size_t i = 0; i < LATENCY_BUCKETS; i++) to->count[i] += from->count[i];
  if (from->max > to->max) to->max = from->max;
}

static double latency_quantile(const latency_histogram_t* histogram, double quantile) {
  uint64_t total = 0;
  for (size_t i = 0; i < LATENCY_BUCKETS; i++) total += histogram->count[i];
  uint64_t seen = 0;
  for (size_t i = 0; i < LATENCY_BUCKETS; i++) {
    seen += histogram->count[i];
    if ((double)seen >= quantile * (double)total) return latency_value(i);
  }
  return (double)histogram->max;
}

static void latency_print(const char* prefix, const latency_histogram_t* histogram, double ns) {
  printf("%sns_p50 %.1f\n", prefix, latency_quantile(histogram, 0.5) * ns);
  printf("%sns_p99 %.1f\n", prefix, latency_quantile(histogram, 0.99) * ns);
  printf("%sns_p99_9 %.1f\n", prefix, latency_quantile(histogram, 0.999) * ns);
  printf("%sns_p99_99 %.1f\n", prefix, latency_quantile(histogram, 0.9999) * ns);
  printf("%sns_max %.1f\n", prefix, (double)histogram->max * ns);
}

static void latency_fill(latency_t* work, latency_block_t* block, bench_random_t* random) {
  const size_t power = (size_t)16 << bench_below(random, 11);
  const size_t small = power + bench_below(random, power);
  block->size = bench_below(random, 1000) == 0 ? (size_t)1 << 20 : small;
  const uint64_t start = latency_ticks();
  block->start = (unsigned char*)malloc(block->size);
  latency_add(&work->mallocs, latency_ticks() - start);
  work->ops++;
  if (block->start == NULL) bench_fail("malloc returned NULL");
  bench_mark(block->start, block->size, block->size * 7);
}

static void latency_drop(latency_t* work, latency_block_t* block) {
  bench_verify(block->start, block->size, block->size * 7);
  work->check += block->start[0] + block->size;
  const uint64_t start = latency_ticks();
  free(block->start);
  latency_add(&work->frees, latency_ticks() - start);
  block->start = NULL;
}

static void latency_time_timer(latency_t* work) {
  const uint64_t start = latency_ticks();
  latency_add(&work->timer, latency_ticks() - start);
}

static void* latency_run(void* argument) {
  latency_t* const work = (latency_t*)argument;
  bench_random_t random = {work->seed};
  for (size_t i = 0; i < work->live; i++) latency_fill(work, &work->blocks[i], &random);
  for (size_t n = 0; n < work->count; n++) {
    latency_block_t* const block = &work->blocks[bench_below(&random, work->live)];
    latency_drop(work, block);
    latency_fill(work, block, &random);
    if (n % 16 == 0) latency_time_timer(work);
  }
  for (size_t i = 0; i < work->live; i++) latency_drop(work, &work->blocks[i]);
  return NULL;
}

static void* latency_run_large(void* argument) {
  latency_t* const work = (latency_t*)argument;
  latency_block_t* const blocks = work->next->blocks;
  bench_random_t random = {work->seed};
  for (size_t i = 0; i < work->live; i++) latency_fill(work, &work->blocks[i], &random);
  pthread_barrier_wait(work->barrier);
  for (size_t i = 0; i < work->live; i++) {
    if (bench_below(&random, 2) == 0) latency_drop(work, &blocks[i]);
  }
  for (size_t n = 0; n < work->count; n++) {
    latency_block_t* const block = &blocks[bench_below(&random, work->live)];
    if (block->start != NULL) {
      latency_drop(work, block);
    } else {
      latency_fill(work, block, &random);
    }
    if (n % 16 == 0) latency_time_timer(work);
  }
  for (size_t i = 0; i < work->live; i++) {
    if (blocks[i].start != NULL) latency_drop(work, &blocks[i]);
  }
  return NULL;
}

int main(int argc, char** argv) {
  const bench_args_t args = bench_parse(argc, argv);
  const bool is_large = args.rest + 1 == argc && strcmp(argv[args.rest], "--large") == 0;
  if (args.rest != argc && !is_large) bench_fail("usage: latency [--large]");
  const size_t thread_count = args.threads != 0 ? args.threads : 2;
  latency_t* const works = (latency_t*)calloc(thread_count, sizeof(latency_t));
  if (works == NULL) bench_fail("calloc returned NULL");
  pthread_barrier_t barrier;
  if (pthread_barrier_init(&barrier, NULL, (unsigned)thread_count) != 0) {
    bench_fail("pthread_barrier_init");
  }
  for (size_t i = 0; i < thread_count; i++) {
    works[i].live =
        is_large ? bench_pick(args, 1000, 60000, 300000) : bench_pick(args, 1000, 10000, 10000);
    works[i].count = bench_pick(args, 10000, 300000, 3000000);
    works[i].seed = i;
    works[i].barrier = &barrier;
    works[i].next = &works[(i + 1) % thread_count];
    works[i].blocks = (latency_block_t*)bench_malloc(works[i].live * sizeof(latency_block_t));
  }
  const uint64_t start_ns = bench_now_ns();
  const uint64_t start = latency_ticks();
  bench_threads(thread_count, is_large ? latency_run_large : latency_run, works, sizeof(latency_t));
  const uint64_t ticks = latency_ticks() - start;
  const double ns = (double)(bench_now_ns() - start_ns) / (double)ticks;

  uint64_t check = works[0].check;
  uint64_t ops = works[0].ops;
  for (size_t i = 1; i < thread_count; i++) {
    latency_merge(&works[0].mallocs, &works[i].mallocs);
    latency_merge(&works[0].frees, &works[i].frees);
    latency_merge(&works[0].timer, &works[i].timer);
    check += works[i].check;
    ops += works[i].ops;
  }
  latency_print("malloc_", &works[0].mallocs, ns);
  latency_print("free_", &works[0].frees, ns);
  latency_merge(&works[0].mallocs, &works[0].frees);
  latency_print("", &works[0].mallocs, ns);
  printf("timer_ns %.1f\n", latency_quantile(&works[0].timer, 0.5) * ns);
  pthread_barrier_destroy(&barrier);
  for (size_t i = 0; i < thread_count; i++) free(works[i].blocks);
  free(works);
  bench_report(check, ops);
  return 0;
}
