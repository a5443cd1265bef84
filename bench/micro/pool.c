// SPDX-License-Identifier: MIT
// pool.c - a service with a pool of hundreds of threads, of which few run at a time.
//
// Published: D. Leijen, "mimalloc: A new, high-performance, scalable memory allocator for the
// modern era", Microsoft Research blog, 2026: tasks on a thread pool of about 800 threads that
// allocate, free and block briefly, and how much more memory an allocator holds than what lives.
// Asks of an allocator: sharing. Memory that a waiting thread holds is of no use to the others,
// so what each keeps for itself counts 800 times; and blocks are mostly freed by another thread.
// Differs from the original: work is fixed, not time; no system thread pool, but lanes: in each
// lane (there are 2) one token goes from thread to thread in a random order that is the same in
// each run, and only the thread that holds it runs. With its turn a thread ends the task that it
// began in its last one: frees half of that task's blocks, leaves the rest in the lane's store in
// place of others', which it frees. Then it begins a task: allocates 100 KiB to 1 MiB in blocks
// of 32 bytes to 64 KiB, and waits with them for its next turn. Each 16th time the store that it
// leaves them in is the other lane's.
//
//   --threads N      threads in the pool (800; quick 50; tiny 8)
//   --timeline FILE  write what lived and what was resident after every 64th turn of a lane and at
//                    the end, and what the allocator says it has committed (0: it does not say,
//                    by `mi_process_info`)
//
// Prints live_kib (peak), resident_peak_kib (highest sample after a turn), and at the end, while
// all threads still wait with their blocks: live_end_kib, resident_kib.
#include "bench.h"
#include <dlfcn.h>
#include <semaphore.h>
#include <stdatomic.h>

#define POOL_LANES 2
#define POOL_STORES 256 // per lane; each holds half of the blocks of a task
#define POOL_PAGE ((size_t)4096)
#define POOL_SAMPLE 64 // turns between two samples
#define POOL_SAMPLES 256 // at most, per lane

typedef struct pool_block_s {
  struct pool_block_s* next;
  size_t size;
  uint64_t key; // the page marks and the last byte are its low byte
} pool_block_t;

typedef struct pool_sample_s {
  uint64_t ns;
  size_t live, committed; // bytes
  size_t resident_kib;
} pool_sample_t;

typedef struct pool_lane_s {
  _Alignas(128) _Atomic(pool_block_t*) stores[POOL_STORES];
  size_t turns_left;
  bench_random_t random;
  uint64_t check;
  uint64_t ops;
  pool_sample_t sample[POOL_SAMPLES];
  size_t sample_count;
} pool_lane_t;

// mi_process_info of allocators that have it: NULL but for the bytes that are committed now.
typedef void pool_info_t(size_t* elapsed, size_t* user, size_t* system, size_t* resident,
                         size_t* resident_peak, size_t* committed, size_t* committed_peak,
                         size_t* faults);

typedef struct pool_thread_s {
  _Alignas(128) sem_t turn;
  size_t lane;
  pool_block_t* blocks; // of the task that it began
} pool_thread_t;

static pool_lane_t pool_lanes[POOL_LANES];
static pool_thread_t pool_threads[BENCH_MAX_THREADS];
static size_t pool_thread_count;
static sem_t pool_lane_done;
static atomic_bool pool_is_done;
static atomic_size_t pool_live; // bytes
static atomic_size_t pool_live_max;
static pool_info_t* pool_info; // NULL: none

static void pool_wait(sem_t* semaphore) {
  while (sem_wait(semaphore) != 0) {
  }
}

// Size of a block: each power of two from 32 bytes to 64 KiB is as likely as the next.
static size_t pool_size(bench_random_t* random) {
  const size_t power = (size_t)32 << bench_below(random, 11);
  return power + bench_below(random, power);
}

static void pool_live_add(size_t size) {
  const size_t live = atomic_fetch_add_explicit(&pool_live, size, memory_order_relaxed) + size;
  size_t most = atomic_load_explicit(&pool_live_max, memory_order_relaxed);
  while (live > most && !atomic_compare_exchange_weak(&pool_live_max, &most, live)) {
  }
}

static pool_block_t* pool_begin(pool_lane_t* lane) {
  const size_t wanted = bench_between(&lane->random, 100 * 1024, 1024 * 1024 - 64 * 1024);
  pool_block_t* blocks = NULL;
  size_t bytes = 0;
  while (bytes < wanted) {
    const size_t size = pool_size(&lane->random);
    pool_block_t* const block = (pool_block_t*)bench_malloc(size);
    volatile unsigned char* const start = (volatile unsigned char*)block;
    block->next = blocks;
    block->size = size;
    block->key = bench_random(&lane->random);
    for (size_t at = POOL_PAGE; at < size; at += POOL_PAGE) start[at] = (unsigned char)block->key;
    start[size - 1] = (unsigned char)block->key;
    blocks = block;
    bytes += size;
    lane->ops++;
  }
  pool_live_add(bytes);
  return blocks;
}

// Verify and free one block; its size.
static size_t pool_drop(pool_block_t* block, uint64_t* check) {
  const volatile unsigned char* const start = (const volatile unsigned char*)block;
  const unsigned char key = (unsigned char)block->key;
  const size_t size = block->size;
  for (size_t at = POOL_PAGE; at < size; at += POOL_PAGE) {
    if (start[at] != key) bench_fail("the contents of a block have changed");
  }
  if (start[size - 1] != key) bench_fail("the contents of a block have changed");
  *check += block->key + size;
  free(block);
  return size;
}

static void pool_drop_all(pool_block_t* block, uint64_t* check) {
  size_t bytes = 0;
  while (block != NULL) {
    pool_block_t* const next = block->next;
    bytes += pool_drop(block, check);
    block = next;
  }
  atomic_fetch_sub_explicit(&pool_live, bytes, memory_order_relaxed);
}

// Free every second block of a task and put the rest where another task's rest is, and free that.
static void pool_end(pool_thread_t* thread, pool_lane_t* lane) {
  size_t bytes = 0;
  for (pool_block_t* block = thread->blocks; block != NULL; block = block->next) {
    pool_block_t* const second = block->next;
    if (second == NULL) break;
    block->next = second->next;
    bytes += pool_drop(second, &lane->check);
    if (block->next == NULL) break;
  }
  atomic_fetch_sub_explicit(&pool_live, bytes, memory_order_relaxed);
  const size_t there = (thread->lane + (bench_below(&lane->random, 16) == 0)) % POOL_LANES;
  const size_t store = bench_below(&lane->random, POOL_STORES);
  pool_block_t* const old = atomic_exchange(&pool_lanes[there].stores[store], thread->blocks);
  thread->blocks = NULL;
  pool_drop_all(old, &lane->check);
}

// Threads of a lane are those with index = lane modulo POOL_LANES.
static pool_thread_t* pool_next(pool_lane_t* lane, size_t lane_index) {
  const size_t count = (pool_thread_count - lane_index + POOL_LANES - 1) / POOL_LANES;
  return &pool_threads[bench_below(&lane->random, count) * POOL_LANES + lane_index];
}

static void pool_take_sample(pool_lane_t* lane) {
  pool_sample_t* const sample = &lane->sample[lane->sample_count++];
  sample->ns = bench_now_ns();
  sample->live = pool_live;
  sample->resident_kib = bench_resident_kib();
  if (pool_info != NULL) pool_info(NULL, NULL, NULL, NULL, NULL, &sample->committed, NULL, NULL);
}

static void pool_turn(pool_thread_t* thread, pool_lane_t* lane) {
  if (thread->blocks != NULL) pool_end(thread, lane);
  thread->blocks = pool_begin(lane);
  if (lane->turns_left % POOL_SAMPLE == 0) pool_take_sample(lane);
  sem_post(--lane->turns_left > 0 ? &pool_next(lane, thread->lane)->turn : &pool_lane_done);
}

static void* pool_run(void* argument) {
  pool_thread_t* const thread = (pool_thread_t*)argument;
  for (;;) {
    pool_wait(&thread->turn);
    if (atomic_load(&pool_is_done)) return NULL;
    pool_turn(thread, &pool_lanes[thread->lane]);
  }
}

// Waits for both lanes, prints what lives and what is resident, and lets the threads end.
static void* pool_control(void* argument) {
  (void)argument;
  for (size_t i = 0; i < POOL_LANES; i++) pool_wait(&pool_lane_done);
  pool_take_sample(&pool_lanes[0]); // nobody runs in it any more
  size_t resident_max = bench_resident_kib();
  printf("resident_kib %zu\nlive_end_kib %zu\n", resident_max, pool_live / 1024);
  for (size_t i = 0; i < POOL_LANES; i++) {
    for (size_t k = 0; k < pool_lanes[i].sample_count; k++) {
      const size_t resident = pool_lanes[i].sample[k].resident_kib;
      if (resident > resident_max) resident_max = resident;
    }
  }
  printf("resident_peak_kib %zu\nlive_kib %zu\n", resident_max, pool_live_max / 1024);
  atomic_store(&pool_is_done, true);
  for (size_t i = 0; i < pool_thread_count; i++) sem_post(&pool_threads[i].turn);
  return NULL;
}

static void pool_write_timeline(const char* name) {
  FILE* const file = fopen(name, "w");
  if (file == NULL) bench_fail("the file of --timeline cannot be written");
  fprintf(file, "lane,ns,live_kib,resident_kib,committed_kib\n");
  for (size_t i = 0; i < POOL_LANES; i++) {
    for (size_t k = 0; k < pool_lanes[i].sample_count; k++) {
      const pool_sample_t* const sample = &pool_lanes[i].sample[k];
      fprintf(file, "%zu,%llu,%zu,%zu,%zu\n", i, (unsigned long long)sample->ns,
              sample->live / 1024, sample->resident_kib, sample->committed / 1024);
    }
  }
  if (fclose(file) != 0) bench_fail("the file of --timeline cannot be written");
}

int main(int argc, char** argv) {
  const bench_args_t args = bench_parse(argc, argv);
  const bool is_timed = args.rest + 2 == argc && strcmp(argv[args.rest], "--timeline") == 0;
  if (args.rest + (is_timed ? 2 : 0) != argc) bench_fail("known option: --timeline FILE");
  *(void**)&pool_info = dlsym(RTLD_DEFAULT, "mi_process_info");
  pool_thread_count = args.threads != 0 ? args.threads : bench_pick(args, 8, 50, 800);
  if (pool_thread_count < POOL_LANES) bench_fail("--threads must be at least 2");

  sem_init(&pool_lane_done, 0, 0);
  for (size_t i = 0; i < pool_thread_count; i++) {
    sem_init(&pool_threads[i].turn, 0, 0);
    pool_threads[i].lane = i % POOL_LANES;
  }
  for (size_t i = 0; i < POOL_LANES; i++) {
    pool_lanes[i].turns_left = bench_pick(args, 30, 1500, 8000);
    pool_lanes[i].random.state = i;
    sem_post(&pool_next(&pool_lanes[i], i)->turn);
  }
  pthread_t control;
  if (pthread_create(&control, NULL, pool_control, NULL) != 0) {
    bench_fail("a thread could not be started");
  }
  bench_threads(pool_thread_count, pool_run, pool_threads, sizeof(pool_thread_t));
  pthread_join(control, NULL);

  uint64_t check = 0;
  uint64_t ops = 0;
  for (size_t i = 0; i < pool_thread_count; i++) pool_drop_all(pool_threads[i].blocks, &check);
  for (size_t i = 0; i < POOL_LANES; i++) {
    for (size_t k = 0; k < POOL_STORES; k++) pool_drop_all(pool_lanes[i].stores[k], &check);
    check += pool_lanes[i].check;
    ops += pool_lanes[i].ops;
  }
  if (is_timed) pool_write_timeline(argv[args.rest + 1]);
  bench_report(check, ops);
  return 0;
}
